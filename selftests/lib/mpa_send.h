/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection in Full Operation over loopback with MTU 1500, in a network namespace of
 * its own. It carries a long sequence of octets, cut into records of any length.
 * Include it after mpa_harness.h.
 */
#ifndef _MPA_SEND_H
#define _MPA_SEND_H

#include <pthread.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "mpa_stream.h"

FIXTURE(send)
{
	int fd[2];		/* initiator, responder */
	u64 sent;		/* octets that a send has accepted */
	u64 seen;		/* octets received at the other end */
	u64 pos;		/* stream position of the next FPDU to read */
	u32 emss;		/* EMSS at the beginning */
	bool marked;
	u8 buf[MPA_ULPDU_MAX + 1];
};

FIXTURE_VARIANT(send)
{
	int family;
	bool marked;
};

FIXTURE_VARIANT_ADD(send, ipv4) { AF_INET, false };
FIXTURE_VARIANT_ADD(send, ipv4_markers) { AF_INET, true };
FIXTURE_VARIANT_ADD(send, ipv6) { AF_INET6, false };
FIXTURE_VARIANT_ADD(send, ipv6_markers) { AF_INET6, true };

static inline int lo_mtu(int mtu)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_mtu = mtu };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), err;

	err = ioctl(fd, SIOCSIFMTU, &lo);
	close(fd);
	return err;
}

static inline int option_put(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? errno : 0;
}

/* Return: the option's value; -12345, which no option has, if getsockopt fails. */
static inline int option_get(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int value = -12345;

	if (getsockopt(fd, level, name, &value, &len) || len != sizeof(int))
		return -12345;
	return value;
}

static inline int segment(struct _test_data_send *self, int n)
{
	return option_put(self->fd[0], SOL_MPA, MPA_SEGMENT, n);
}

struct connecting {
	int maxseg;		/* TCP_MAXSEG of the sender */
	int sndbuf;
	int rcvbuf;		/* of the receiver */
};

/* Open a TCP connection over loopback, with these options. Return: 0 or -1. */
static inline int tcp_pair_how(int family, int fd[2],
			       const struct connecting *how)
{
	struct sockaddr_storage addr = { .ss_family = family };
	socklen_t len = sizeof(addr);
	int listener, i;

	if (family == AF_INET)
		((struct sockaddr_in *)&addr)->sin_addr.s_addr =
			htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&addr)->sin6_addr = in6addr_loopback;
	listener = socket(family, SOCK_STREAM, 0);
	fd[0] = socket(family, SOCK_STREAM, 0);
	fd[1] = -1;
	if (how->maxseg && option_put(fd[0], SOL_TCP, TCP_MAXSEG, how->maxseg))
		return -1;
	if (how->sndbuf)
		option_put(fd[0], SOL_SOCKET, SO_SNDBUF, how->sndbuf);
	if (how->rcvbuf)
		option_put(listener, SOL_SOCKET, SO_RCVBUF, how->rcvbuf);
	if (bind(listener, (struct sockaddr *)&addr, len) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) ||
	    connect(fd[0], (struct sockaddr *)&addr, len))
		return -1;
	fd[1] = accept(listener, NULL, NULL);
	close(listener);
	for (i = 0; i < 2; i++) {
		option_put(fd[i], SOL_TCP, TCP_NODELAY, 1);
		patience(fd[i], 20);
	}
	return 0;
}

/* Open a new connection in Full Operation, and count octets from 0. */
static inline int reconnect(struct _test_data_send *self, int family,
			    bool marked, const struct connecting *how)
{
	int i;

	for (i = 0; i < 2; i++)
		if (self->fd[i] >= 0)
			hang_up(self->fd[i]);
	if (tcp_pair_how(family, self->fd, how))
		return -1;
	self->sent = 0;
	self->seen = 0;
	self->pos = 0;
	self->marked = marked;
	if (mpa_started_pair(self->fd, 0, marked ? MPA_START_MARKERS : 0))
		return -1;
	self->emss = mpa_info(self->fd[0]).emss;
	return 0;
}

FIXTURE_SETUP(send)
{
	const struct connecting usual = {};

	self->fd[0] = -1;
	self->fd[1] = -1;
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, lo_mtu(1500));
	ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
			       &usual));
}

FIXTURE_TEARDOWN(send)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
}

/* Send the sequence's next octets. Return: as send(). */
static inline ssize_t put(struct _test_data_send *self, size_t len, int flags)
{
	ssize_t n = send(self->fd[0], stream_at(self->sent), len,
			 flags | MSG_NOSIGNAL);

	if (n > 0)
		self->sent += n;
	return n;
}

/* Call send() with a control message. */
static inline ssize_t send_with(int fd, const void *octets, size_t len, int level,
				int type, const void *value, size_t value_len)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(16)];
	} control = {};
	struct iovec iov = { (void *)octets, len };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = CMSG_SPACE(value_len),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(value_len);
	memcpy(CMSG_DATA(cmsg), value, value_len);
	return sendmsg(fd, &msg, MSG_NOSIGNAL);
}

/* As put(), with a control message of level SOL_MPA. */
static inline ssize_t put_with(struct _test_data_send *self, size_t len,
			       int type, const void *value, size_t value_len)
{
	ssize_t n = send_with(self->fd[0], stream_at(self->sent), len, SOL_MPA,
			      type, value, value_len);

	if (n > 0)
		self->sent += n;
	return n;
}

static inline u32 fpdu_len(u64 pos, u32 ulpdu_len, bool marked)
{
	u32 left = (2 + ulpdu_len + 3) / 4 * 4 + 4, off = 0;

	while (left) {
		u32 n = left;

		if (marked) {
			if ((pos + off) % 512 == 0)
				off += 4;
			if (n > 512 - (pos + off) % 512)
				n = 512 - (pos + off) % 512;
		}
		off += n;
		left -= n;
	}
	return off;
}

/* Return: the length of the longest ULPDU whose FPDU, at @pos, has at most @emss octets. */
static inline u32 ulpdu_filling(u64 pos, u32 emss, bool marked)
{
	u32 n = emss - 6;

	while (fpdu_len(pos, n, marked) > emss)
		n--;
	return n;
}

/* Receive a record, and check that it has the next octets. Return: its length, or -1. */
static inline ssize_t take(struct _test_data_send *self, int flags)
{
	ssize_t n = recv(self->fd[1], self->buf, sizeof(self->buf), flags);

	if (n <= 0)
		return n;
	if (memcmp(self->buf, stream_at(self->seen), n)) {
		fprintf(stderr, "# a record of %zd octets is not octets %llu on\n",
			n, (unsigned long long)self->seen);
		errno = EILSEQ;
		return -1;
	}
	self->seen += n;
	self->pos += fpdu_len(self->pos, n, self->marked);
	return n;
}

/* Whether the next records have these lengths. */
static inline bool taken(struct _test_data_send *self, const u32 *want, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		ssize_t len = take(self, 0);

		if (len != want[i]) {
			fprintf(stderr, "# record %d: expected %u octets, seen %zd (%s)\n",
				i, want[i], len, len < 0 ? strerror(errno) : "");
			return false;
		}
	}
	return true;
}

#define EXPECT_RECORDS(...) do {					\
	const u32 want[] = { __VA_ARGS__ };				\
									\
	EXPECT_TRUE(taken(self, want, ARRAY_SIZE(want)));		\
} while (0)

/* Whether a send of @len octets arrives as ULPDUs of @n octets and a remainder. */
static inline bool taken_cut(struct _test_data_send *self, size_t len, u32 n)
{
	for (; len; len -= n) {
		if (n > len)
			n = len;
		if (!taken(self, &n, 1))
			return false;
	}
	return true;
}

/*
 * Whether a send of @len octets arrives as ULPDUs that fill segments, and a remainder.
 * The first one may fill an unsent segment that had room for 128 octets or more.
 */
static inline bool taken_filling(struct _test_data_send *self, size_t len)
{
	size_t left = len;

	while (left) {
		u32 full = ulpdu_filling(self->pos, self->emss / 4 * 4,
					 self->marked);
		ssize_t n = take(self, 0);

		if (n != (full < left ? full : left) &&
		    !(left == len && n >= 128 && n < full)) {
			fprintf(stderr, "# %zu from the end: expected %u, seen %zd (%s)\n",
				left, full, n, n < 0 ? strerror(errno) : "");
			return false;
		}
		left -= n;
	}
	return true;
}

/* Check that no record is left, and that exactly the accepted octets have arrived. */
#define EXPECT_NO_MORE() do {						\
	EXPECT_EQ(self->sent, self->seen);				\
	EXPECT_EQ(-1, take(self, MSG_DONTWAIT));			\
	EXPECT_EQ(EAGAIN, errno);					\
} while (0)

static inline int unsent(int fd)
{
	int octets = -1;

	ioctl(fd, SIOCOUTQNSD, &octets);
	return octets;
}

static inline u32 retransmissions(int fd)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_total_retrans;
}

/* Return: the number of data segments sent, once all are acknowledged. */
static inline u64 segments(struct _test_data_send *self)
{
	struct mpa_info info;

	if (!acked(self->fd[0]))
		return -1;
	info = mpa_info(self->fd[0]);
	return info.tx_segs_aligned + info.tx_segs_unaligned;
}

/* Whether each segment so far began with an FPDU. */
static inline bool all_aligned(struct _test_data_send *self)
{
	const struct mpa_info info = mpa_info(self->fd[0]);
	u64 all = segments(self);

	if (all == info.tx_segs_aligned)
		return true;
	fprintf(stderr, "# %llu aligned, %llu not\n", info.tx_segs_aligned,
		info.tx_segs_unaligned);
	return false;
}

/* ---- a thread that reads ---- */

struct reader {
	pthread_t thread;
	int fd;
	u64 seen;		/* octets received in order, and correct */
	u32 records;
	u32 shortest;
	u32 longest;
	int error;		/* errno of the last recv(); 0: end of stream */
};

static inline void *reader_run(void *arg)
{
	u8 *buf = malloc(MPA_ULPDU_MAX + 1);
	struct reader *r = arg;
	ssize_t n;

	r->shortest = -1;
	while ((n = recv(r->fd, buf, MPA_ULPDU_MAX + 1, 0)) > 0) {
		if (memcmp(buf, stream_at(r->seen), n)) {
			errno = EILSEQ;
			n = -1;
			break;
		}
		r->seen += n;
		r->records++;
		if (n < r->shortest)
			r->shortest = n;
		if (n > r->longest)
			r->longest = n;
	}
	r->error = n ? errno : 0;
	free(buf);
	return NULL;
}

static inline int reader_start(struct reader *r, int fd)
{
	memset(r, 0, sizeof(*r));
	r->fd = fd;
	return pthread_create(&r->thread, NULL, reader_run, r);
}

/* Shut the sender down. All accepted octets must arrive, then the end of stream. */
#define EXPECT_READER_HAS(r, octets) do {				\
	shutdown(self->fd[0], SHUT_WR);					\
	pthread_join((r)->thread, NULL);				\
	EXPECT_EQ(0, (r)->error);					\
	EXPECT_EQ(octets, (r)->seen);					\
} while (0)

#endif /* _MPA_SEND_H */
