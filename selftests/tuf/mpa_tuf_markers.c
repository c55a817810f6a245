// SPDX-License-Identifier: GPL-2.0
/*
 * MPA_PLACE with TUF_MARKERS: after a gap a marker points to the next FPDU. That FPDU
 * and later ones are delivered at once.
 */

#include "mpa_harness.h"
#include "mpa_tuf_place.h"

FIXTURE_VARIANT_ADD(place, ipv4) { AF_INET, TUF_MARKERS, 512, false };
FIXTURE_VARIANT_ADD(place, ipv6_keyless) { AF_INET6, TUF_MARKERS, 512, true };

/* Return: the number of the FPDU that the marker at @marker points to. */
static unsigned int told_by(const struct _test_data_place *self, u32 marker)
{
	unsigned int i = 0;

	while (self->start[i] < marker)
		i++;
	return i;
}

/* An island begins at various distances before its only marker. */
TEST_F_TIMEOUT(place, marker_anywhere_in_a_segment, 300)
{
	u32 marker = 512, begin, end;
	unsigned int next;
	int before;

	for (before = 300; before >= 0; before -= before > 12 ? 9 : 1) {
		stream_add_many(self, 190, 8);
		next = told_by(self, marker);
		begin = marker - before;
		end = self->start[next + 1];
		/* The island must not extend to the next marker. */
		ASSERT_LE(end, marker + 512);
		ASSERT_EQ(0, come(self, begin, end));
		ASSERT_TRUE(gives(self, next, true)) {
			TH_LOG("%d octets before the marker", before);
		}
		NOTHING();
		/* Send the rest of these records. */
		ASSERT_EQ(0, come(self, tuf_info(self->fd).rx_edge,
				  stream_end(self)));
		while (poll_for(self->fd, POLLIN, 0))
			ASSERT_EQ(190, recv(self->fd, self->buf, BUF, 0));
		EXPECT_EQ(stream_end(self), tuf_info(self->fd).rx_edge);
		marker = (stream_end(self) / 512 + 1) * 512;
		/* The octets before the marker must belong to this round. */
		if (marker < stream_end(self) + 300)
			marker += 512;
	}
}

/* "a marker split over two segments", which arrive in either order. */
TEST_F(place, marker_split_between_segments)
{
	u32 marker = 512, end;
	unsigned int next;
	int split, order;

	for (order = 0; order < 2; order++) {
		for (split = 1; split < 4; split++) {
			stream_add_many(self, 190, 8);
			next = told_by(self, marker);
			end = self->start[next + 1];
			if (!order)
				ASSERT_EQ(0, come(self, marker - 50,
						  marker + split));
			ASSERT_EQ(0, come(self, marker + split, end));
			if (order)
				ASSERT_EQ(0, come(self, marker - 50,
						  marker + split));
			ASSERT_TRUE(gives(self, next, true)) {
				TH_LOG("after %d octets of it, order %d",
				       split, order);
			}
			NOTHING();
			ASSERT_EQ(0, come(self, tuf_info(self->fd).rx_edge,
					  stream_end(self)));
			while (poll_for(self->fd, POLLIN, 0))
				ASSERT_EQ(190, recv(self->fd, self->buf, BUF,
						    0));
			marker = (stream_end(self) / 512 + 1) * 512;
			if (marker < stream_end(self) + 100)
				marker += 512;
		}
	}
}

/* The marker is 0: the FPDU begins with it. */
TEST_F(place, fpdu_that_begins_with_a_marker)
{
	/* marker, header and ULPDU: 4 + 8 + 500 */
	stream_add(self, 500);
	ASSERT_EQ(512, stream_end(self));
	stream_add_many(self, 100, 3);
	COME(1, 2);
	PLACED(1);
	COME(3, 4);
	NOTHING();
	COME(2, 3);
	PLACED(2);
	PLACED(3);
	COME(0, 1);
	ORDERED(0);
	NOTHING();
}

/* An FPDU ends where a marker is due: the offset in its own marker includes that marker. */
TEST_F(place, marker_that_points_after_the_next_one)
{
	stream_add(self, 100);
	/* The marker at 512 is in this FPDU, which ends at 1024. */
	stream_add(self, 1024 - 112 - 8 - 4);
	ASSERT_EQ(1024, stream_end(self));
	stream_add_many(self, 100, 2);
	/* Send the marker at 512, too. */
	ASSERT_EQ(0, come(self, 500, self->start[3]));
	PLACED(2);
	NOTHING();
	COME(0, 1);
	ORDERED(0);
	COME(1, 2);
	ORDERED(1);
	NOTHING();
}

TEST_F(place, fpdus_after_one_that_a_marker_gives)
{
	unsigned int i, next;

	stream_add_many(self, 60, 100);
	next = told_by(self, 512);
	/* Send segments of 7 octets. */
	ASSERT_EQ(0, come_cut(self, 512, self->start[40], 7));
	for (i = next; i < 40; i++)
		PLACED(i);
	NOTHING();
	/* There is a marker in a later island. */
	ASSERT_EQ(0, come(self, 4096, stream_end(self)));
	for (i = told_by(self, 4096); i < 100; i++)
		PLACED(i);
	NOTHING();
	ASSERT_EQ(0, come(self, 0, 4096));
	for (i = 0; i < next; i++)
		ORDERED(i);
	for (i = 40; self->start[i] < 4096; i++)
		ORDERED(i);
	NOTHING();
	EXPECT_EQ(100, tuf_info(self->fd).rx_fpdus);
	EXPECT_EQ(stream_end(self), tuf_info(self->fd).rx_edge);
}

/*
 * Octets before the marker arrived earlier, and are no longer in TCP's SACK blocks.
 * They follow the segment with the marker after a gap, or directly.
 */
TEST_F(place, marker_gives_what_came_before_it)
{
	unsigned int next, i;
	u32 marker = 512, at;
	int gap;

	for (gap = 1; gap >= 0; gap--) {
		stream_add(self, marker - stream_end(self) + 80);
		next = self->records;
		stream_add_many(self, 120, 30);
		at = self->start[next] - 10;
		ASSERT_LT(self->start[next + 2], marker + 512);
		ASSERT_LT(marker + 10, at);
		ASSERT_EQ(0, come(self, at, self->start[next + 2]));
		for (i = 2; i < 7; i++)
			ASSERT_EQ(0, come(self, marker + 512 * i + 10,
					  marker + 512 * i + 20));
		NOTHING();
		ASSERT_EQ(0, come(self, marker - 5, gap ? marker + 10 : at));
		PLACED(next);
		PLACED(next + 1);
		NOTHING();
		/* Send the rest of these records. */
		ASSERT_EQ(0, come(self, tuf_info(self->fd).rx_edge,
				  stream_end(self)));
		while (poll_for(self->fd, POLLIN, 0))
			ASSERT_LT(0, recv(self->fd, self->buf, BUF, 0));
		EXPECT_EQ(stream_end(self), tuf_info(self->fd).rx_edge);
		EXPECT_EQ(self->records, tuf_info(self->fd).rx_fpdus);
		marker = (stream_end(self) / 512 + 1) * 512;
	}
}

TEST_F(place, without_a_marker_nothing_is_placed)
{
	stream_add_many(self, 100, 4);
	stream_add(self, 2000);
	COME(1, 4);
	NOTHING();
	COME(0, 1);
	IN_ORDER(0, 4);
	EXPECT_EQ(0, tuf_info(self->fd).rx_placed);
}

TEST_HARNESS_MAIN
