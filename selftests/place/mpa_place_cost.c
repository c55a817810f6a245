// SPDX-License-Identifier: GPL-2.0
/*
 * The cost that a peer can cause with MPA_PLACE: it repeats segments of one octet,
 * before and after many waiting ones. The cost of a further segment must not depend on
 * their number. While nothing arrives, nothing must run. The tests compare times: a
 * guest on a busy host is unsuitable.
 */

#include <poll.h>

#include "mpa_harness.h"

FIXTURE_VARIANT(place)
{
	int unused;
};

#include "mpa_place.h"
#include "mpa_place_cost.h"

FIXTURE_VARIANT_ADD(place, ipv4) { };

/* Number of records at the stream's start, which arrive while others wait. */
#define FIRST	20

static void first_records(struct _test_data_place *self)
{
	stream_add_many(self, 600, FIRST);
}

/* Append waiting records, each after a gap. */
static int wait_in_gaps(struct _test_data_place *self, unsigned int runs)
{
	unsigned int i = self->records + 1;

	stream_add_many(self, 600, 2 * runs + 1);
	for (; i < self->records; i += 2)
		if (come(self, self->start[i], self->start[i + 1]))
			return -1;
	return 0;
}

/* ---- when nothing arrives ---- */

struct ticks {
	unsigned long busy, idle;
};

static struct ticks processor_ticks(void)
{
	unsigned long user, nice, system, idle;
	FILE *stat = fopen("/proc/stat", "r");
	struct ticks ticks = { };

	if (fscanf(stat, "cpu %lu %lu %lu %lu", &user, &nice, &system,
		   &idle) == 4)
		ticks = (struct ticks){ user + nice + system, idle };
	fclose(stat);
	return ticks;
}

/* Whether the machine is idle for most of a second. */
static bool at_rest(void)
{
	struct ticks from, to;
	int i;

	poll(NULL, 0, 300);
	from = processor_ticks();
	for (i = 0; i < 10; i++)
		poll(NULL, 0, 100);
	to = processor_ticks();
	printf("# %lu ticks busy, %lu idle\n", to.busy - from.busy,
	       to.idle - from.idle);
	return to.idle - from.idle > to.busy - from.busy;
}

/* Send a FIN after all waiting records. */
static int fin_after(struct _test_data_place *self, u32 off)
{
	return forge(&self->forger, off, self->stream, 0, TCP_FLAG_BITS_FIN,
		     0) || !lo_delivered() ? -1 : 0;
}

#define AT_REST_BEHIND_A_FIN(runs)					\
do {									\
	first_records(self);						\
	ASSERT_EQ(0, wait_in_gaps(self, runs));				\
	ASSERT_EQ(0, fin_after(self, stream_end(self)));		\
	EXPECT_TRUE(at_rest());						\
	/* It is idle again after something has arrived. */		\
	ASSERT_EQ(0, come(self, 3, 4));					\
	EXPECT_TRUE(at_rest());						\
	PLACED(FIRST + 1);						\
	PLACED(FIRST + 3);						\
} while (0)

TEST_F(place, a_fin_out_of_order_is_looked_at_once)
{
	AT_REST_BEHIND_A_FIN(129);
}

TEST_F(place, a_fin_after_the_maximum_of_gaps)
{
	AT_REST_BEHIND_A_FIN(MPA_PLACE_MAX - 1);
}

TEST_F(place, fins_in_many_places)
{
	u32 i;

	first_records(self);
	ASSERT_EQ(0, wait_in_gaps(self, 200));
	for (i = 0; i < 20; i++)
		ASSERT_EQ(0, fin_after(self, stream_end(self) + 10 * i));
	EXPECT_TRUE(at_rest());
	PLACED(FIRST + 1);
	PLACED(FIRST + 3);
}

/* A FIN follows an error that cannot be reported yet. */
TEST_F(place, a_fin_after_an_error)
{
	first_records(self);
	ASSERT_EQ(0, wait_in_gaps(self, 390));
	self->stream[self->start[FIRST - 2] + 300] ^= 1;
	COME(FIRST - 2, FIRST - 1);
	poll(NULL, 0, 100);
	NOTHING();
	ASSERT_EQ(0, fin_after(self, stream_end(self)));
	EXPECT_TRUE(at_rest());
	ASSERT_EQ(0, come(self, 3, 4));
	EXPECT_TRUE(at_rest());
}

/* ---- one segment more ---- */

/*
 * Five of ten records arrive, so that TCP remembers only four blocks; then the gaps are
 * filled. TCP then knows only the next block, though it has all the octets, as if it
 * had dropped some.
 */
static int forget_blocks(struct _test_data_place *self, unsigned int first)
{
	unsigned int i;

	for (i = first + 1; i < first + 10; i += 2)
		if (come(self, self->start[i], self->start[i + 1]))
			return -1;
	return come(self, self->start[first], self->start[first + 10]);
}

TEST_F(place, the_same_octet_again_and_again)
{
	double few;

	first_records(self);
	ASSERT_EQ(0, wait_in_gaps(self, 4));
	ASSERT_EQ(0, forget_blocks(self, 0));
	few = segment_us(self, self->start[10] + 10, 0, 0);

	ASSERT_EQ(0, wait_in_gaps(self, 380));
	ASSERT_EQ(0, forget_blocks(self, 10));
	COSTS_THE_SAME(few, segment_us(self, self->start[20] + 10, 0, 0));
}

/*
 * Send a record's first octets, and then more of them, each in its own segment,
 * contiguous or with gaps.
 */
static int add_pieces(struct _test_data_place *self, u32 side, u32 gaps)
{
	u32 start, i;

	stream_add_many(self, 60000, 2);
	start = self->start[self->records - 1];
	for (i = side; i; i--)
		if (forge(&self->forger, start + 600 + i,
			  self->stream + start + 600 + i, 1, 0, 0))
			return -1;
	for (i = 0; i < gaps; i++)
		if (forge(&self->forger, start + 9000 + 2 * i,
			  self->stream + start + 9000 + 2 * i, 1, 0, 0))
			return -1;
	if (come(self, start, start + 601))
		return -1;
	/* Let the work item finish. */
	poll(NULL, 0, 300);
	return start;
}

TEST_F(place, an_octet_after_many)
{
	double few = segment_us(self, add_pieces(self, 20, 20) + 9040, 2, 300);

	COSTS_THE_SAME(few, segment_us(self, add_pieces(self, 2000, 2000) +
					     13000, 2, 300));
}

/* Each octet could be the missing one. */
TEST_F(place, an_octet_more_contiguous)
{
	double few = segment_us(self, add_pieces(self, 20, 20) + 621, 1, 300);

	COSTS_THE_SAME(few, segment_us(self, add_pieces(self, 2000, 2000) +
					     2601, 1, 300));
}

TEST_HARNESS_MAIN
