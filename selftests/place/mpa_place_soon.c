// SPDX-License-Identifier: GPL-2.0
/*
 * How soon MPA_PLACE delivers: segments are cut anywhere, overlap, repeat, and arrive
 * in any order. After each segment all records that can be found (RFC 5044 section 6)
 * can be read, and epoll(7) has reported an edge.
 */

#include <sys/epoll.h>

#include "mpa_harness.h"

/* Declare the variant before the fixture. */
FIXTURE_VARIANT(place)
{
	unsigned int seed;
	bool batch;
	bool shut;
};

#include "mpa_place.h"

#define RUNS		12
#define SEGMENTS	400		/* sent at random in one run; the rest follows in order */
#define PATIENCE	2000		/* ms */

/**
 * struct soon - one connection
 * @self:	the test's data, with the receiver
 * @epoll:	waits for an edge
 * @random:	state of the random numbers
 * @base:	first record of this run
 * @here:	octets of the stream that have arrived
 * @got:	records that have been read
 * @due:	records that can be found
 * @placed:	number read out of order
 */
struct soon {
	struct _test_data_place *self;
	int epoll;
	u32 random;
	unsigned int base;
	bool here[3 * BUF];
	bool got[RECORDS_MAX];
	bool due[RECORDS_MAX];
	unsigned int placed;
};

static u32 soon_up_to(struct soon *soon, u32 max)
{
	soon->random ^= soon->random << 13;
	soon->random ^= soon->random >> 17;
	soon->random ^= soon->random << 5;
	return soon->random % (max + 1);
}

/* Return: the first missing octet from @from on, or the end of the stream. */
static u32 soon_hole(const struct soon *soon, u32 from)
{
	const bool *hole = memchr(soon->here + from, false,
				  stream_end(soon->self) - from);

	return hole ? hole - soon->here : stream_end(soon->self);
}

/* Whether a complete marker is in the FPDU, or before its ULPDU_Length. */
static bool soon_marked(const struct _test_data_place *self, unsigned int i)
{
	return (self->start[i] + 511) / 512 * 512 + 4 <= self->start[i + 1];
}

/*
 * Mark the FPDUs that can be found: in order, by a marker, or by the length of the
 * previous one if that was found out of order.
 */
static void soon_judge(struct soon *soon)
{
	const struct _test_data_place *self = soon->self;
	u32 order = soon_hole(soon, 0);
	bool follows = false;
	unsigned int i;

	for (i = soon->base; i < self->records; i++) {
		bool whole = soon_hole(soon, self->start[i]) >=
			     self->start[i + 1];
		bool behind = self->start[i] > order;

		follows = whole && behind && (follows || soon_marked(self, i));
		soon->due[i] = soon->got[i] || follows ||
			       self->start[i + 1] <= order;
	}
}

static unsigned int soon_missing(const struct soon *soon)
{
	unsigned int i;

	for (i = soon->base; i < soon->self->records; i++)
		if (soon->due[i] && !soon->got[i])
			break;
	return i;
}

/* Read all records. Return: whether each arrived once, and was marked as found. */
static bool soon_read(struct soon *soon)
{
	struct _test_data_place *self = soon->self;
	struct got *got = self->got;
	unsigned int i, n;

	while (receive(self->fd, self->buf, BUF, MSG_DONTWAIT, got) >= 0) {
		for (i = soon->base; i < self->records; i++)
			if (self->start[i] == got->info.position)
				break;
		n = got->has_lengths ? got->n : 1;
		if (got->info.flags & MPA_RECVINFO_PLACED)
			soon->placed += n;
		for (; n; n--, i++) {
			if (i >= self->records || soon->got[i] || !soon->due[i])
				return false;
			soon->got[i] = true;
		}
	}
	return errno == EAGAIN;
}

/* Whether records that can be found cause an edge, and can be read. */
static bool soon_settles(struct soon *soon)
{
	const struct _test_data_place *self = soon->self;
	struct epoll_event event;
	unsigned int i;
	int n;

	soon_judge(soon);
	for (;;) {
		i = soon_missing(soon);
		n = epoll_wait(soon->epoll, &event, 1,
			       i < self->records ? PATIENCE : 0);
		if (n == 1 && soon_read(soon))
			continue;
		if (!n && i == self->records)
			return true;
		printf("# record %u at %u, %u octets: %s\n", i, self->start[i],
		       self->len[i], n ? "came twice, or too early" : "late");
		return false;
	}
}

static bool soon_segment(struct soon *soon, u32 from, u32 most, bool random)
{
	const struct _test_data_place *self = soon->self;
	u32 end = stream_end(self), at, n = 1 + soon_up_to(soon, most);
	unsigned int i = soon->base;

	if (random) {
		at = from + soon_up_to(soon, end - from - 1);
		/* Usually begin at the start of an FPDU, and often send a whole one. */
		if (soon_up_to(soon, 2)) {
			while (self->start[i + 1] <= at)
				i++;
			at = self->start[i];
			if (soon_up_to(soon, 1))
				n = self->start[i + 1] - at;
		}
	} else {
		at = soon_hole(soon, from);
	}
	if (n > end - at)
		n = end - at;
	memset(soon->here + at, true, n);
	return !come(soon->self, at, at + n);
}

static bool soon_run(struct soon *soon)
{
	static const u32 segments[] = { 32, 1200, 5800, 36000 };
	static const u32 lengths[] = { 30, 300, 1500, 12000 };
	struct _test_data_place *self = soon->self;
	u32 from = stream_end(self), kind, most, i;

	kind = soon_up_to(soon, ARRAY_SIZE(lengths) - 1);
	most = segments[soon_up_to(soon, ARRAY_SIZE(segments) - 1)];
	soon->base = self->records;
	for (i = 10 + soon_up_to(soon, 30); i; i--)
		stream_add(self, 1 + soon_up_to(soon, lengths[kind]));
	for (i = 0; soon_hole(soon, from) < stream_end(self); i++) {
		if (!soon_segment(soon, from, most, i < SEGMENTS))
			return false;
		/* Sometimes send several segments before reading. */
		if (soon_up_to(soon, 3) && !soon_settles(soon))
			return false;
	}
	return soon_settles(soon);
}

FIXTURE_VARIANT_ADD(place, seed_1) { .seed = 1 };
FIXTURE_VARIANT_ADD(place, seed_2) { .seed = 2, .batch = true };
FIXTURE_VARIANT_ADD(place, seed_3) { .seed = 3, .shut = true };
FIXTURE_VARIANT_ADD(place, seed_4) { .seed = 4, .batch = true, .shut = true };
FIXTURE_VARIANT_ADD(place, seed_5) { .seed = 5 };
FIXTURE_VARIANT_ADD(place, seed_6) { .seed = 6, .batch = true };

TEST_F_TIMEOUT(place, all_that_can_be_found_comes_at_once, 600)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	static struct soon soon;
	unsigned int run;

	memset(&soon, 0, sizeof(soon));
	soon.self = self;
	soon.random = variant->seed * 2654435761u | 1;
	soon.epoll = epoll_create1(0);
	ASSERT_LE(0, soon.epoll);
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, variant->batch));
	if (variant->shut)
		ASSERT_EQ(0, shutdown(self->fd, SHUT_WR));
	ASSERT_EQ(0, epoll_ctl(soon.epoll, EPOLL_CTL_ADD, self->fd, &event));
	for (run = 0; run < RUNS && self->records < RECORDS_MAX - 50; run++) {
		if (stream_end(self) > 2 * BUF)
			break;
		ASSERT_TRUE(soon_run(&soon)) {
			TH_LOG("seed %u, run %u", variant->seed, run);
		}
	}
	EXPECT_LT(0, soon.placed);
	EXPECT_EQ(soon.placed, mpa_info(self->fd).rx_placed);
	EXPECT_EQ(self->records, mpa_info(self->fd).rx_ulpdus);
	close(soon.epoll);
}

TEST_HARNESS_MAIN
