/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sockets with TUF, and FPDUs that the test builds. The peer, a plain TCP socket,
 * writes or reads the octets of draft-ietf-tsvwg-tcp-ulp-frame. Include it after
 * mpa_harness.h.
 */
#ifndef _MPA_TUF_TEST_H
#define _MPA_TUF_TEST_H

#include <linux/tuf.h>
#include <pthread.h>

#include "mpa_receive.h"
#include "mpa_stream.h"

#define TUF_ROOM	66000	/* more octets than the longest FPDU has */

/**
 * struct tuf_way - how a direction of a connection is framed
 * @mode:	enum tuf_mode
 * @period:	with TUF_MARKERS: octets between the starts of two markers
 * @key:	key of all FPDUs
 * @position:	octets so far, with markers
 */
struct tuf_way {
	u8 mode;
	u32 period;
	u8 key[TUF_KEY_LEN];
	u64 position;
};

#define TUF_KEY_OF_TESTS	{ 0x5a, 0x00, 0xc3, 0xff, 0x0f, 0x17 }

/* ---- the model ---- */

/*
 * Build the next FPDU in @to: Length, Key, ULPDUs, and markers where they are due.
 * Return: its length.
 */
static inline size_t tuf_fpdu(struct tuf_way *way, const u8 *ulpdus, size_t len,
			      u8 *to)
{
	size_t markers[600], count = 0, n = 0, next, i;
	u8 header[TUF_HEADER_LEN] = { len >> 8, len };
	const bool marked = way->mode == TUF_MARKERS;

	if (way->mode == TUF_SEGMENTS) {
		memcpy(to, ulpdus, len);
		way->position += len;
		return len;
	}
	memcpy(header + 2, way->key, TUF_KEY_LEN);
	for (i = 0; i < TUF_HEADER_LEN + len; i++) {
		if (marked && way->position % way->period == 0) {
			markers[count++] = n;
			n += 4;
			way->position += 4;
		}
		to[n++] = i < TUF_HEADER_LEN ? header[i] :
					       ulpdus[i - TUF_HEADER_LEN];
		way->position++;
	}
	/*
	 * A marker points to the next FPDU's header. If that FPDU begins with a marker,
	 * its header follows it.
	 */
	next = n;
	if (marked && way->position % way->period == 0)
		next += 4;
	for (i = 0; i < count; i++) {
		size_t at = markers[i], offset = at ? next - at - 4 : 0;

		to[at] = offset >> 8;
		to[at + 1] = offset;
		to[at + 2] = offset >> 8;
		to[at + 3] = offset;
	}
	return n;
}

/* Return: the longest ULPDU. An FPDU, with its markers, has at most 65536 octets. */
static inline size_t tuf_longest(const struct tuf_way *way)
{
	static u8 fpdu[TUF_ROOM];
	struct tuf_way here;
	size_t len;

	if (way->mode != TUF_MARKERS)
		return TUF_ULPDU_MAX;
	len = 65536 - TUF_HEADER_LEN - 4 * (65536 / way->period + 2);
	do {
		here = *way;
	} while (tuf_fpdu(&here, record_row, ++len, fpdu) <= 65536);
	return len - 1;
}

/* Build an FPDU with a self-checking record. */
static inline size_t tuf_record(struct tuf_way *way, size_t len, u8 *to)
{
	return tuf_fpdu(way, record_of(len), len, to);
}

/* ---- options ---- */

static inline int tuf_attach(int fd)
{
	return setsockopt(fd, SOL_TCP, TCP_ULP, "tuf", sizeof("tuf")) ? errno : 0;
}

/* Set TUF_TX or TUF_RX, with @len octets of a struct. Return: 0 or errno. */
static inline int tuf_set_len(int fd, int option, const void *framing,
			      size_t len)
{
	return setsockopt(fd, SOL_MPA, option, framing, len) ? errno : 0;
}

static inline int tuf_set(int fd, int option, struct tuf_framing framing)
{
	return tuf_set_len(fd, option, &framing, sizeof(framing));
}

/* Start framing with the direction's key, at position 0. */
static inline int tuf_start_flags(int fd, int option, struct tuf_way *way,
				  u32 flags)
{
	struct tuf_framing framing = {
		.mode = way->mode, .flags = TUF_KEY_GIVEN | flags,
		.period = way->mode == TUF_MARKERS ? way->period : 0,
	};

	if (way->mode == TUF_SEGMENTS)
		framing.flags = flags;
	else
		memcpy(framing.key, way->key, TUF_KEY_LEN);
	way->position = 0;
	return tuf_set(fd, option, framing);
}

static inline int tuf_start(int fd, int option, struct tuf_way *way)
{
	return tuf_start_flags(fd, option, way, 0);
}

static inline int tuf_stop(int fd, int option)
{
	return tuf_set(fd, option, (struct tuf_framing){ .mode = TUF_OFF });
}

/* Return: the option's value; all ones on failure. */
static inline struct tuf_framing tuf_get(int fd, int option)
{
	struct tuf_framing framing = {};
	socklen_t len = sizeof(framing);

	if (getsockopt(fd, SOL_MPA, option, &framing, &len) ||
	    len != sizeof(framing))
		memset(&framing, 0xff, sizeof(framing));
	return framing;
}

/* Read TUF_TX_KEY. Return: 0 or errno. */
static inline int tuf_key(int fd, u8 *key)
{
	socklen_t len = TUF_KEY_LEN;

	if (getsockopt(fd, SOL_MPA, TUF_TX_KEY, key, &len))
		return errno;
	return len == TUF_KEY_LEN ? 0 : -1;
}

/* Return: a counter of /proc/net/mpa_stat; -1 without it. */
static inline long long tuf_count(const char *name)
{
	FILE *file = fopen("/proc/net/mpa_stat", "r");
	long long n, found = -1;
	char word[64];

	while (file && fscanf(file, "%63s %lld", word, &n) == 2)
		if (!strcmp(word, name))
			found = n;
	if (file)
		fclose(file);
	return found;
}

static inline struct tuf_info tuf_info(int fd)
{
	struct tuf_info info = {};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, SOL_MPA, TUF_INFO, &info, &len) ||
	    len != sizeof(info))
		memset(&info, 0xff, sizeof(info));
	return info;
}

/* ---- a call in another thread ---- */

/**
 * struct call - recv or send in its own thread
 * @fd:		socket
 * @buf:	octets
 * @len:	their number
 * @sends:	true: send, false: recv
 * @flags:	of the call
 * @tid:	the thread's number
 * @result:	result of the call
 * @error:	errno if @result is -1
 */
struct call {
	int fd;
	void *buf;
	size_t len;
	bool sends;
	int flags;
	pthread_t thread;
	int tid;
	ssize_t result;
	int error;
};

static inline void *call_run(void *arg)
{
	struct call *call = arg;

	__atomic_store_n(&call->tid, gettid(), __ATOMIC_RELEASE);
	call->result = call->sends ?
		send(call->fd, call->buf, call->len, call->flags | MSG_NOSIGNAL) :
		recv(call->fd, call->buf, call->len, call->flags);
	call->error = call->result < 0 ? errno : 0;
	return NULL;
}

/* Start the call in a thread. Return: whether the call sleeps. */
static inline bool call_start(struct call *call)
{
	call->tid = 0;
	return !pthread_create(&call->thread, NULL, call_run, call) &&
	       asleep(&call->tid);
}

/* Wait for the call. Return: its result; -1 with errno. */
static inline ssize_t call_end(struct call *call)
{
	pthread_join(call->thread, NULL);
	errno = call->error;
	return call->result;
}

/* ---- both ends ---- */

FIXTURE(tuf)
{
	int fd[2];
	struct tuf_way way;	/* from fd[0] to fd[1] */
	struct got *got;
	u8 *buf;
	u8 *octets;
};

FIXTURE_VARIANT(tuf)
{
	int family;
	u8 mode;
	u32 period;
};

FIXTURE_VARIANT_ADD(tuf, ipv4_align) { AF_INET, TUF_ALIGN, 0 };
FIXTURE_VARIANT_ADD(tuf, ipv6_align) { AF_INET6, TUF_ALIGN, 0 };
FIXTURE_VARIANT_ADD(tuf, ipv4_markers) { AF_INET, TUF_MARKERS, 128 };
FIXTURE_VARIANT_ADD(tuf, ipv6_markers) { AF_INET6, TUF_MARKERS, 2048 };

/* Attach TUF to both ends. No direction is framed yet. */
FIXTURE_SETUP(tuf)
{
	const u8 key[] = TUF_KEY_OF_TESTS;
	int i;

	self->got = calloc(1, sizeof(*self->got));
	self->buf = malloc(BUF);
	self->octets = malloc(BUF);
	self->way = (struct tuf_way){
		.mode = variant->mode, .period = variant->period,
	};
	memcpy(self->way.key, key, sizeof(key));
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, tcp_pair(variant->family, self->fd));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, tuf_attach(self->fd[i]));
		patience(self->fd[i], 20);
	}
}

FIXTURE_TEARDOWN(tuf)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
	free(self->got);
	free(self->buf);
	free(self->octets);
}

/* Start framing from fd[0] to fd[1]: each send is a record. */
#define START() do {							\
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way));	\
	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));	\
	ASSERT_EQ(0, set_int(self->fd[0], MPA_PACKING, 0));		\
	ASSERT_EQ(0, set_int(self->fd[0], MPA_OVERSIZE, 1));		\
} while (0)

/* Start framing at fd[1] only: the test builds the FPDUs for fd[0]. */
#define START_BY_HAND()							\
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way))

/* Build and send an FPDU. */
static inline int hand_record(int fd, struct tuf_way *way, size_t len)
{
	static u8 fpdu[TUF_ROOM + 2100];
	size_t n = tuf_record(way, len, fpdu);

	return write_all(fd, fpdu, n);
}

/* Whether the next record is the self-checking one of @len octets. */
static inline bool record_comes(int fd, u8 *buf, size_t len)
{
	ssize_t n = recv(fd, buf, BUF, 0);

	if (n == (ssize_t)len && record_good(buf, len))
		return true;
	fprintf(stderr, "# expected a record of %zu octets, seen %zd (%s)\n",
		len, n, n < 0 ? strerror(errno) : "");
	return false;
}

/* Whether a record sent by @from arrives unchanged at @to. */
static inline bool tuf_goes(int from, int to, size_t len)
{
	u8 *seen = malloc(TUF_ROOM);
	ssize_t sent, n = -1;

	sent = send(from, record_of(len), len, MSG_NOSIGNAL);
	if (sent == (ssize_t)len)
		n = recv(to, seen, TUF_ROOM, 0);
	if (n != (ssize_t)len || !record_good(seen, len)) {
		fprintf(stderr, "# a record of %zu octets: sent %zd, received %zd (%s)%s\n",
			len, sent, n, sent < 0 || n < 0 ? strerror(errno) : "",
			n == (ssize_t)len ? ", others" : "");
		n = -1;
	}
	free(seen);
	return n >= 0;
}

#endif /* _MPA_TUF_TEST_H */
