/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A receiver with MPA_PLACE, and a stream of records whose segments a test sends in any
 * order. Include it after mpa_harness.h. If PLACE_CONNECTS is defined, the test has its
 * own FIXTURE_SETUP; if PLACE_FPDU is defined, the test builds FPDUs.
 */
#ifndef _MPA_PLACE_H
#define _MPA_PLACE_H

#include "mpa_receive.h"
#include "mpa_forge.h"

#define RECORDS_MAX	2000
#define WINDOW_OPENED	(40 * 60000)	/* octets, after open_window() */

/* Build the stream's next FPDU, with this ULPDU. */
#ifndef PLACE_FPDU
#define PLACE_FPDU(self, octets, len, to) \
	peer_fpdu(&(self)->peer, octets, len, to)
#endif

FIXTURE(place)
{
	int fd;
	struct peer peer;
	struct forger forger;
	struct got *got;
	unsigned int records;
	u32 start[RECORDS_MAX + 1];	/* stream position of each FPDU */
	u32 len[RECORDS_MAX];		/* length of each record */
	u8 *stream;
	u8 *buf;
};

/* Let later connections have a receive buffer with space for all that a test sends. */
static inline int allow_room(void)
{
	int rmem = open("/proc/sys/net/ipv4/tcp_rmem", O_WRONLY);
	static const char room[] = "8388608 8388608 8388608";

	return write(rmem, room, strlen(room)) < 0 || close(rmem) ? -1 : 0;
}

/* Open the window to WINDOW_OPENED octets: it grows as octets are received. */
static inline int open_window(const int fd[2], u8 *buf)
{
	u32 i;

	for (i = 0; i < WINDOW_OPENED; i += 60000)
		if (write_all(fd[0], buf, 60000) ||
		    read_all(fd[1], buf, 60000) != 60000)
			return -1;
	return 0;
}

/* Call this before the connection is opened. */
static inline int place_prepare(struct _test_data_place *self)
{
	self->records = 0;
	self->start[0] = 0;
	self->buf = malloc(BUF);
	self->got = calloc(1, sizeof(*self->got));
	self->stream = malloc(4 * BUF);
	return own_netns() || one_processor() || allow_room() ? -1 : 0;
}

/* Call this once the receiver is in Full Operation. */
static inline int place_begin(struct _test_data_place *self)
{
	patience(self->fd, 20);
	if (forger_open(&self->forger, self->peer.fd, self->fd) ||
	    set_int(self->fd, MPA_PLACE, 1) ||
	    set_int(self->fd, MPA_RECVINFO, 1))
		return -1;
	return 0;
}

#ifndef PLACE_CONNECTS
FIXTURE_SETUP(place)
{
	int fd[2];

	ASSERT_EQ(0, place_prepare(self));
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	ASSERT_EQ(0, open_window(fd, self->buf));
	self->fd = fd[1];
	ASSERT_EQ(0, receive_directly(self->fd, &self->peer, fd[0],
				      MPA_START_MARKERS));
	ASSERT_EQ(0, place_begin(self));
}
#endif

FIXTURE_TEARDOWN(place)
{
	close(self->forger.raw);
	hang_up(self->fd);
	hang_up(self->peer.fd);
	free(self->buf);
	free(self->got);
	free(self->stream);
}

/* Append this record to the stream. */
static inline void stream_add_octets(struct _test_data_place *self,
				     const u8 *octets, u32 len)
{
	u32 at = self->start[self->records];

	self->len[self->records] = len;
	at += PLACE_FPDU(self, octets, len, self->stream + at);
	self->start[++self->records] = at;
}

/* Append a self-checking record to the stream. */
static inline void stream_add(struct _test_data_place *self, u32 len)
{
	stream_add_octets(self, record_of(len), len);
}

static inline void stream_add_many(struct _test_data_place *self, u32 len,
				   unsigned int n)
{
	while (n--)
		stream_add(self, len);
}

static inline u32 stream_end(const struct _test_data_place *self)
{
	return self->start[self->records];
}

/* Send octets of the stream, in segments of at most @segment octets. */
static inline int come_cut(struct _test_data_place *self, u32 from, u32 to,
			   u32 segment)
{
	u32 n;

	for (; from < to; from += n) {
		n = to - from < segment ? to - from : segment;
		if (forge(&self->forger, from, self->stream + from, n, 0, 0))
			return -1;
	}
	return lo_delivered() ? 0 : -1;
}

static inline int come(struct _test_data_place *self, u32 from, u32 to)
{
	return come_cut(self, from, to, 16000);
}

/* Send the FPDUs from @first up to, but without, @end. */
#define COME(first, end) \
	ASSERT_EQ(0, come(self, self->start[first], self->start[end]))

/* Whether recvmsg has returned this record, with these octets. */
static inline bool is_record(const struct _test_data_place *self, ssize_t n,
			     unsigned int record, const u8 *octets, bool placed)
{
	const struct mpa_recvinfo *info = &self->got->info;
	u32 len = self->len[record];

	if (n != (ssize_t)len || memcmp(self->buf, octets, len) ||
	    !(self->got->msg_flags & MSG_EOR) || !self->got->has_info) {
		printf("# record %u: %zd, errno %d, at %llu\n", record, n, errno,
		       (unsigned long long)info->position);
		return false;
	}
	return info->position == self->start[record] && info->length == len &&
	       !info->offset &&
	       info->flags == (MPA_RECVINFO_LAST |
			       (placed ? MPA_RECVINFO_PLACED : 0)) &&
	       info->valid == (placed ? 0 : MPA_RECVINFO_VALID_ORDER) &&
	       (placed ? info->edge < info->position :
			 info->edge == info->position &&
			 info->order == record);
}

/* Whether the next recvmsg returns this record, out of order (@placed) or in order. */
static inline bool gives_octets(struct _test_data_place *self,
				unsigned int record, const u8 *octets,
				bool placed)
{
	ssize_t n;

	if (!poll_for(self->fd, POLLIN, 5000))
		return false;
	n = receive(self->fd, self->buf, BUF, MSG_DONTWAIT, self->got);
	return is_record(self, n, record, octets, placed);
}

static inline bool gives(struct _test_data_place *self, unsigned int record,
			 bool placed)
{
	return gives_octets(self, record, record_of(self->len[record]), placed);
}

#define PLACED(record)	ASSERT_TRUE(gives(self, record, true))
#define ORDERED(record)	ASSERT_TRUE(gives(self, record, false))

/*
 * Check that no record is ready: poll(2) and recv(2) must agree. poll(2) waits for the
 * work item.
 */
#define NOTHING() do {							\
	EXPECT_FALSE(poll_for(self->fd, POLLIN, 30));			\
	EXPECT_EQ(0, inq(self->fd));					\
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, MSG_DONTWAIT));	\
	EXPECT_EQ(EAGAIN, errno);					\
} while (0)

#endif /* _MPA_PLACE_H */
