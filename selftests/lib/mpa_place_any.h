/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MPA_PLACE with random segments: they are cut anywhere, overlap, repeat, and arrive in
 * any order; the reader uses every way to read. Each record must be received once,
 * whole and with its position, and poll(2) must be right. Include it after mpa_place.h.
 *
 * MPA_PLACE_SEEDS is the number of runs.
 */
#ifndef _MPA_PLACE_ANY_H
#define _MPA_PLACE_ANY_H

#include <poll.h>

/* Whether many segments consist of one whole FPDU. */
#ifndef PLACE_WHOLE
#define PLACE_WHOLE	false
#endif

#define ROUNDS_MAX	100000

/**
 * struct any - one run
 * @self:	the connection
 * @random:	state of the random numbers
 * @base:	first record of this run
 * @before:	stream position of the previous run
 * @got:	records received
 * @part:	octets received so far of the next in-order record
 * @placed:	number of records received out of order
 * @failed:	what was wrong
 */
struct any {
	struct _test_data_place *self;
	u32 random;
	unsigned int base;
	u32 before;
	bool got[RECORDS_MAX];
	u32 part;
	unsigned int placed;
	const char *failed;
};

static inline u32 any_up_to(struct any *any, u32 max)
{
	any->random ^= any->random << 13;
	any->random ^= any->random >> 17;
	any->random ^= any->random << 5;
	return any->random % (max + 1);
}

static inline unsigned int any_record_at(const struct any *any, u64 position)
{
	const struct _test_data_place *self = any->self;
	unsigned int i;

	for (i = any->base; i < self->records; i++)
		if (self->start[i] == position)
			break;
	return i;
}

static inline bool any_fails(struct any *any, const char *what)
{
	any->failed = what;
	return false;
}

/* Check and note received records; the control message describes the first. */
static inline bool any_came(struct any *any, const u8 *octets, ssize_t n, int flags)
{
	const struct _test_data_place *self = any->self;
	const struct got *got = self->got;
	const struct mpa_recvinfo *info = &got->info;
	unsigned int i = any_record_at(any, info->position), j;
	bool placed = info->flags & MPA_RECVINFO_PLACED;
	u32 at = info->offset;

	if (i == self->records)
		return any_fails(any, "no record begins there");
	for (j = any->base; j < self->records && self->start[j] < info->edge; j++)
		if (!any->got[j])
			return any_fails(any, "something before the edge is missing");
	if (!placed && (info->valid != MPA_RECVINFO_VALID_ORDER ||
			info->order != i || info->edge != info->position))
		return any_fails(any, "order or edge");
	if (placed && (info->valid || at || info->edge > info->position))
		return any_fails(any, "placed");
	if (!placed && at != any->part)
		return any_fails(any, "offset");
	if (flags & (MSG_PEEK | MSG_TRUNC) && flags != MSG_PEEK && n < 0)
		return any_fails(any, "peeked");
	while (n > 0) {
		u32 left = self->len[i] - at;
		u32 len = n < left ? n : left;

		if (any->got[i])
			return any_fails(any, "twice");
		if (!(flags & MSG_TRUNC) &&
		    memcmp(octets, record_of(self->len[i]) + at, len))
			return any_fails(any, "octets");
		octets += len;
		n -= len;
		if (flags & MSG_PEEK)
			return true;
		if (placed && len != self->len[i])
			return any_fails(any, "a part of one placed");
		if (len == left) {
			any->got[i++] = true;
			any->placed += placed;
			any->part = 0;
			at = 0;
		} else {
			any->part = at + len;
		}
	}
	return true;
}

/* Call recvmsg once. Return: false if there was nothing, or an error. */
static inline bool any_read(struct any *any)
{
	u32 len = any_up_to(any, 3) ? BUF : 1 + any_up_to(any, 3000);
	static const int flags[] = { 0, 0, 0, MSG_PEEK, MSG_TRUNC };
	int flag = flags[any_up_to(any, ARRAY_SIZE(flags) - 1)];
	struct _test_data_place *self = any->self;
	bool in = poll_for(self->fd, POLLIN, 0);
	ssize_t n;

	n = receive(self->fd, self->buf, len, flag | MSG_DONTWAIT, self->got);
	if (n < 0 && errno != EAGAIN)
		return any_fails(any, "error");
	/*
	 * A record that does not fit @len stays unread. TCP may also have dropped data
	 * that the work item has found.
	 */
	if (n < 0 && in && len == BUF && poll_for(self->fd, POLLIN, 0) &&
	    recv(self->fd, self->buf, len, MSG_PEEK | MSG_DONTWAIT) < 0)
		return any_fails(any, "poll says that there is one");
	if (n < 0)
		return false;
	return any_came(any, self->buf, n, flag);
}

static inline bool any_reads(struct any *any, unsigned int max)
{
	while (max-- && any_read(any))
		;
	return !any->failed;
}

static inline bool any_option(struct any *any)
{
	struct _test_data_place *self = any->self;
	u32 what = any_up_to(any, 15);

	if (what < 2)
		set_int(self->fd, MPA_RECV_BATCH, what);
	else if (what == 2)
		set_int(self->fd, MPA_PLACE, 0);
	else if (what < 6)
		set_int(self->fd, MPA_PLACE, 1);
	return true;
}

static inline int any_segment(struct any *any, u32 from, u32 to)
{
	static const u32 most[] = { 20, 600, 1448, 4000, 16000 };
	u32 max = most[any_up_to(any, ARRAY_SIZE(most) - 1)];
	u32 at = from + any_up_to(any, to - from - 1);
	u32 n = 1 + any_up_to(any, max);
	unsigned int i = any->base;

	/* Usually begin at the start of an FPDU, as an MPA sender's segments do. */
	if (any_up_to(any, 3)) {
		while (any->self->start[i + 1] <= at)
			i++;
		at = any->self->start[i];
	}
	if (PLACE_WHOLE && at == any->self->start[i] && any_up_to(any, 2))
		n = any->self->start[i + 1] - at;
	if (n > to - at)
		n = to - at;
	return come(any->self, at, at + n);
}

static inline bool any_all(const struct any *any)
{
	unsigned int i;

	for (i = any->base; i < any->self->records; i++)
		if (!any->got[i])
			return false;
	return true;
}

static inline bool any_run(struct any *any)
{
	u32 records = 5 + any_up_to(any, 40), from, to, at, n;
	struct _test_data_place *self = any->self;
	unsigned int rounds;

	any->base = self->records;
	from = stream_end(self);
	while (records--)
		stream_add(self, 1 + any_up_to(any, any_up_to(any, 3) ? 1500 :
							       20000));
	to = stream_end(self);
	for (rounds = any_up_to(any, 300); rounds; rounds--) {
		if (any_segment(any, from, to))
			return any_fails(any, "cannot send");
		if (!any_up_to(any, 2) && !any_reads(any, any_up_to(any, 4)))
			return false;
		any_option(any);
	}
	/*
	 * Send the rest in order. Include the previous run: TCP may have dropped some
	 * of its octets that arrived out of order.
	 */
	for (rounds = 0; rounds < 100 && !any_all(any); rounds++) {
		for (at = any->before; at < to; at += n) {
			n = 1 + any_up_to(any, 4000);
			if (n > to - at)
				n = to - at;
			come(self, at, at + n);
			if (!any_reads(any, any_up_to(any, 4)))
				return false;
		}
		if (!any_reads(any, 1000))
			return false;
	}
	if (!any_all(any))
		return any_fails(any, "not all of them came");
	return true;
}

static inline void any_test(struct __test_metadata *_metadata,
			    struct _test_data_place *self, u32 first)
{
	const char *runs = getenv("MPA_PLACE_SEEDS");
	unsigned int i, n = runs ? atoi(runs) : 6, placed = 0;
	static struct any any;
	u32 before;

	for (i = 0; i < n; i++) {
		u32 seed = first + i;

		if (self->records > RECORDS_MAX - 100 ||
		    stream_end(self) > 2 * BUF)
			break;
		before = i ? self->start[any.base] : 0;
		memset(&any, 0, sizeof(any));
		any.self = self;
		any.before = before;
		any.random = seed * 2654435761u | 1;
		ASSERT_TRUE(any_run(&any)) {
			TH_LOG("seed %u: %s, at %llu, edge %llu, %u octets, flags %u; errno %d, %u",
			       seed, any.failed,
			       (unsigned long long)self->got->info.position,
			       (unsigned long long)self->got->info.edge,
			       self->got->info.length, self->got->info.flags,
			       errno, mpa_info(self->fd).error);
		}
		placed += any.placed;
	}
	EXPECT_LT(0, placed);
	EXPECT_EQ(placed, mpa_info(self->fd).rx_placed);
	EXPECT_EQ(self->records, mpa_info(self->fd).rx_ulpdus);
}

#endif /* _MPA_PLACE_ANY_H */
