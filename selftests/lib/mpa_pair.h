/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection with one or both ends started by mpa. The test can write and read frames
 * in place of the other end. Include it after mpa_harness.h.
 */
#ifndef _MPA_PAIR_H
#define _MPA_PAIR_H

#define A	MPA_START_P2P
#define B	MPA_START_RTR_FPDU
#define C	MPA_START_RTR_WRITE
#define D	MPA_START_RTR_READ

FIXTURE(pair)
{
	int fd[2];
	struct mpa_start start[2];	/* initiator, responder */
	u8 buf[2048];
};

FIXTURE_SETUP(pair)
{
	ASSERT_EQ(0, own_netns());
	self->fd[0] = -1;
	self->fd[1] = -1;
	memset(self->start, 0, sizeof(self->start));
	self->start[0].role = MPA_ROLE_INITIATOR;
	self->start[1].role = MPA_ROLE_RESPONDER;
	self->start[0].revision = 1;
	self->start[1].revision = 1;
}

FIXTURE_TEARDOWN(pair)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
}

/* Open a new connection. @first, @second: attach MPA to fd[0], fd[1]. */
static inline int fresh(struct _test_data_pair *self, bool first, bool second)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
	if (tcp_pair(AF_INET, self->fd))
		return -1;
	patience(self->fd[0], 20);
	patience(self->fd[1], 20);
	return (first && mpa_attach(self->fd[0])) ||
	       (second && mpa_attach(self->fd[1])) ? -1 : 0;
}

/* Start both ends. Return: the errno of the initiator's MPA_START, or 0. */
static inline int negotiate(struct _test_data_pair *self)
{
	if (fresh(self, true, true) ||
	    mpa_start_as(self->fd[1], &self->start[1]))
		return -1;
	return mpa_start_as(self->fd[0], &self->start[0]) ? errno : 0;
}

/* Start fd[0] as initiator. Return: the length of its request, or -1. */
static inline ssize_t ask(struct _test_data_pair *self)
{
	size_t len = FRAME_LEN + self->start[0].private_len;

	if (self->start[0].flags & MPA_START_ENHANCED)
		len += 4;
	if (fresh(self, true, false))
		return -1;
	set_nonblock(self->fd[0]);
	if (!mpa_start_as(self->fd[0], &self->start[0]) ||
	    errno != EINPROGRESS)
		return -1;
	set_block(self->fd[0]);
	return read_all(self->fd[1], self->buf, len);
}

/* As ask(), for an enhanced request with IRD 8 and ORD 4. */
static inline ssize_t ask_enhanced(struct _test_data_pair *self)
{
	self->start[0].revision = 2;
	self->start[0].flags = MPA_START_ENHANCED;
	self->start[0].ird = 8;
	self->start[0].ord = 4;
	return ask(self);
}

/* Send the reply. Return: the result of startup. */
static inline int answer(struct _test_data_pair *self, const u8 *frame,
			 size_t len)
{
	if (write_all(self->fd[1], frame, len))
		return -1;
	if (!poll_for(self->fd[0], POLLOUT, 20000))
		return -1;
	return so_error(self->fd[0]);
}

/* Start fd[1] as responder; fd[0] sends the request to it. */
static inline int request(struct _test_data_pair *self, const u8 *frame,
			  size_t len)
{
	if (fresh(self, false, true) ||
	    mpa_start_as(self->fd[1], &self->start[1]))
		return -1;
	return write_all(self->fd[0], frame, len);
}

static inline size_t enhanced_put(u8 *field, u32 control, u16 ird, u16 ord)
{
	const struct model_enhanced enhanced = {
		.a = control & A, .b = control & B, .c = control & C,
		.d = control & D, .ird = ird, .ord = ord,
	};

	model_enhanced_octets(&enhanced, field);
	return 4;
}

static inline size_t enhanced_frame(u8 *frame, bool reply, u8 flags,
				    u32 control, u16 ird, u16 ord)
{
	frame_put(frame, reply, flags | MPA_PEER_ENHANCED, 2, 4);
	return FRAME_LEN + enhanced_put(frame + FRAME_LEN, control, ird, ord);
}

/* Send a record in each direction, the initiator's first. */
static inline bool records_go(struct _test_data_pair *self)
{
	return record_goes(self->fd[0], self->fd[1], 1000) &&
	       record_goes(self->fd[1], self->fd[0], 2000);
}

#endif /* _MPA_PAIR_H */
