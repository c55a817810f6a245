/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One recvmsg with its control messages; a receiver with a simulated peer.
 * Include it after mpa_harness.h.
 */
#ifndef _MPA_RECEIVE_H
#define _MPA_RECEIVE_H

#include "mpa_test.h"

#define LENGTHS		MPA_RECV_BATCH_MAX

/**
 * struct got - the result of one recvmsg
 * @msg_flags:	its flags
 * @has_info:	@info was received
 * @info:	control message MPA_RECVINFO
 * @info_len:	its length
 * @has_lengths: @length was received
 * @n:		entries in @length
 * @length:	control message MPA_RECV_BATCH
 * @others:	number of other control messages
 */
struct got {
	int msg_flags;
	bool has_info;
	struct mpa_recvinfo info;
	size_t info_len;
	bool has_lengths;
	unsigned int n;
	u32 length[LENGTHS + 1];
	unsigned int others;
};

#define CONTROL_MAX	(CMSG_SPACE(sizeof(struct mpa_recvinfo)) + \
			 CMSG_SPACE((LENGTHS + 1) * sizeof(u32)))

static inline void got_control(struct got *got, struct msghdr *msg)
{
	struct cmsghdr *cmsg;

	got->msg_flags = msg->msg_flags;
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		size_t len = cmsg->cmsg_len - CMSG_LEN(0);

		if (cmsg->cmsg_level == SOL_MPA &&
		    cmsg->cmsg_type == MPA_RECVINFO) {
			got->has_info = true;
			got->info_len = len;
			memcpy(&got->info, CMSG_DATA(cmsg), len);
		} else if (cmsg->cmsg_level == SOL_MPA &&
			   cmsg->cmsg_type == MPA_RECV_BATCH) {
			got->has_lengths = true;
			got->n = len / sizeof(u32);
			memcpy(got->length, CMSG_DATA(cmsg), len);
		} else {
			got->others++;
		}
	}
}

/* Call recvmsg with @room octets for control messages. */
static inline ssize_t receive_with(int fd, void *buf, size_t len, int flags,
				   struct got *got, size_t room)
{
	static u64 control[CONTROL_MAX / sizeof(u64) + 1];
	struct iovec iov = { buf, len };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = room ? control : NULL, .msg_controllen = room,
	};
	ssize_t n;

	memset(got, 0, sizeof(*got));
	n = recvmsg(fd, &msg, flags);
	if (n >= 0)
		got_control(got, &msg);
	return n;
}

static inline ssize_t receive(int fd, void *buf, size_t len, int flags,
			      struct got *got)
{
	return receive_with(fd, buf, len, flags, got, CONTROL_MAX);
}

static inline int set_int(int fd, int option, int value)
{
	return setsockopt(fd, SOL_MPA, option, &value, sizeof(value)) ? errno :
									0;
}

static inline int get_int(int fd, int option)
{
	socklen_t len = sizeof(int);
	int value = -1;

	getsockopt(fd, SOL_MPA, option, &value, &len);
	return value;
}

/*
 * Start Full Operation without startup frames. @flags apply to @fd, and the simulated
 * peer sends accordingly.
 */
static inline int receive_directly(int fd, struct peer *peer, int peer_fd,
				   unsigned int flags)
{
	*peer = (struct peer){
		.fd = peer_fd, .tx_markers = flags & MPA_START_MARKERS,
	};
	return mpa_attach(fd) || mpa_start(fd, MPA_ROLE_DIRECT, flags) ? -1 : 0;
}

/* Build the peer's next FPDU, with a self-checking record. Return: its length. */
static inline size_t next_fpdu(struct peer *peer, size_t len, u8 *fpdu)
{
	static u8 record[MPA_ULPDU_MAX];

	record_fill(record, len);
	return peer_fpdu(peer, record, len, fpdu);
}

#define BUF	(1024 << 10)

FIXTURE(rx)
{
	int fd;
	struct peer peer;
	struct got *got;
	u8 *buf;
	u8 *fpdu;
};

FIXTURE_VARIANT(rx)
{
	unsigned int flags;
};

FIXTURE_VARIANT_ADD(rx, plain) { 0 };
FIXTURE_VARIANT_ADD(rx, marked) { MPA_START_MARKERS };
FIXTURE_VARIANT_ADD(rx, crc_off) { MPA_START_NO_CRC };
FIXTURE_VARIANT_ADD(rx, crc_off_marked)
	{ MPA_START_NO_CRC | MPA_START_MARKERS };

FIXTURE_SETUP(rx)
{
	int fd[2];

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, sysctl_put("crc_optional", 1));
	self->buf = malloc(BUF);
	self->fpdu = malloc(BUF);
	self->got = malloc(sizeof(*self->got));
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	self->fd = fd[0];
	patience(self->fd, 20);
	ASSERT_EQ(0, receive_directly(self->fd, &self->peer, fd[1],
				      variant->flags));
	ASSERT_EQ(!(variant->flags & MPA_START_NO_CRC),
		  !!(mpa_info(self->fd).flags & MPA_INFO_RX_CRC));
}

FIXTURE_TEARDOWN(rx)
{
	hang_up(self->fd);
	hang_up(self->peer.fd);
	free(self->buf);
	free(self->fpdu);
	free(self->got);
}

/* Have the peer send records, and wait until they have arrived. */
#define SEND(...) do {							\
	const size_t lens_[] = { __VA_ARGS__ };				\
	unsigned int i_;						\
									\
	for (i_ = 0; i_ < ARRAY_SIZE(lens_); i_++)			\
		ASSERT_EQ(0, peer_send_record(&self->peer, lens_[i_])); \
	ASSERT_TRUE(arrived(self->fd, self->peer.tx_position));		\
} while (0)

#define RECEIVE(len, flags) \
	receive(self->fd, self->buf, len, flags, self->got)

/* Whether the last call has returned a batch of exactly these records. */
#define EXPECT_BATCH(...) do {						\
	const size_t lens_[] = { __VA_ARGS__ };				\
	unsigned int i_;						\
	size_t at_ = 0;							\
									\
	ASSERT_TRUE(self->got->has_lengths);				\
	ASSERT_EQ(ARRAY_SIZE(lens_), self->got->n);			\
	for (i_ = 0; i_ < ARRAY_SIZE(lens_); i_++) {			\
		EXPECT_EQ(lens_[i_], self->got->length[i_]);		\
		EXPECT_TRUE(record_good(self->buf + at_, lens_[i_]));	\
		at_ += lens_[i_];					\
	}								\
	EXPECT_EQ(MSG_EOR, self->got->msg_flags & (MSG_EOR | MSG_CTRUNC)); \
} while (0)

#endif /* _MPA_RECEIVE_H */
