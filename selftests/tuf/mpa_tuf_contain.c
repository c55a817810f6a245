// SPDX-License-Identifier: GPL-2.0
/*
 * MPA_PLACE with TUF_ALIGN, the containment test of draft-ietf-tsvwg-tcp-ulp-frame-01:
 * after a gap a segment is delivered at once only if, by its Length and Key, it is
 * exactly one FPDU.
 */

#include "mpa_harness.h"
#include "mpa_proc.h"
#include "mpa_tuf_place.h"

FIXTURE_VARIANT_ADD(place, ipv4) { AF_INET, TUF_ALIGN, 0, false };
FIXTURE_VARIANT_ADD(place, ipv6) { AF_INET6, TUF_ALIGN, 0, false };

/* Append a record whose FPDU has another key. */
static void stream_add_wrong(struct _test_data_place *self, u32 len)
{
	stream_way.key[4] ^= 0x40;
	stream_add(self, len);
	stream_way.key[4] ^= 0x40;
}

TEST_F(place, contained_segment_after_a_gap_comes_at_once)
{
	struct tuf_info info;
	unsigned int i;

	stream_add_many(self, 1400, 10);
	for (i = 1; i < 9; i += 2) {
		COME(i, i + 1);
		PLACED(i);
		EXPECT_EQ(0, self->got->info.edge);
	}
	NOTHING();
	info = tuf_info(self->fd);
	EXPECT_EQ(4, info.rx_placed);
	EXPECT_EQ(4, info.rx_tested);
	EXPECT_EQ(4, info.rx_contained);
	EXPECT_EQ(0, info.rx_edge);
	for (i = 0; i < 8; i += 2) {
		COME(i, i + 1);
		ORDERED(i);
		NOTHING();
		EXPECT_EQ(self->start[i + 2], tuf_info(self->fd).rx_edge);
	}
	COME(9, 10);
	PLACED(9);
	EXPECT_EQ(self->start[8], self->got->info.edge);
	COME(8, 9);
	ORDERED(8);
	NOTHING();
	info = tuf_info(self->fd);
	EXPECT_EQ(10, info.rx_fpdus);
	EXPECT_EQ(14000, info.rx_octets);
	EXPECT_EQ(5, info.rx_placed);
	EXPECT_EQ(0, info.rx_wrong_key);
	EXPECT_EQ(stream_end(self), info.rx_edge);
}

/* Send contained segments of any length. */
TEST_F_TIMEOUT(place, contained_segments_of_any_length, 120)
{
	static const u32 lens[] = { 1, 2, 7, 8, 9, 100, 1440, 4000, 15992 };
	unsigned int i, at;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		at = self->records;
		stream_add(self, 50);
		stream_add(self, lens[i]);
		COME(at + 1, at + 2);
		ASSERT_TRUE(gives(self, at + 1, true)) {
			TH_LOG("%u octets", lens[i]);
		}
		COME(at, at + 1);
		ORDERED(at);
		NOTHING();
	}
}

/* A part of the segment arrives first. The same octets are not tested twice. */
TEST_F(place, contained_segment_in_the_place_of_a_shorter_one)
{
	stream_add_many(self, 500, 5);
	ASSERT_EQ(0, come(self, self->start[1], self->start[1] + 1));
	/* Wait until the work item has tested the first segment. */
	while (tuf_info(self->fd).rx_tested < 1)
		poll(NULL, 0, 10);
	ASSERT_EQ(0, come(self, self->start[1], self->start[1] + 100));
	NOTHING();
	COME(1, 2);
	PLACED(1);
	ASSERT_EQ(0, come(self, self->start[3], self->start[3] + 100));
	NOTHING();
	EXPECT_EQ(4, tuf_info(self->fd).rx_tested);
	ASSERT_EQ(0, come(self, self->start[3], self->start[3] + 100));
	/* Octets that arrive after it do not cause another test. */
	ASSERT_EQ(0, come(self, self->start[3] + 100, self->start[4]));
	NOTHING();
	EXPECT_EQ(4, tuf_info(self->fd).rx_tested);
	COME(0, 1);
	ORDERED(0);
	COME(2, 3);
	IN_ORDER(2, 4);
	EXPECT_EQ(1, tuf_info(self->fd).rx_placed);
}

/* Without a key nothing is placed; all is delivered in order. */
TEST_F(place, no_key_places_nothing)
{
	ASSERT_EQ(0, tuf_stop(self->fd, TUF_RX));
	ASSERT_EQ(0, start_receiving(self, true));
	stream_add_many(self, 1400, 5);
	COME(1, 2);
	COME(3, 5);
	NOTHING();
	COME(0, 1);
	IN_ORDER(0, 2);
	COME(2, 3);
	IN_ORDER(2, 5);
	EXPECT_EQ(0, tuf_info(self->fd).rx_placed);
	EXPECT_EQ(0, tuf_info(self->fd).rx_contained);
	/* Set the key. */
	stream_add_many(self, 1400, 5);
	ASSERT_EQ(0, start_receiving(self, false));
	COME(6, 7);
	PLACED(6);
	COME(5, 6);
	ORDERED(5);
	NOTHING();
}

/*
 * A key also applies to segments that have arrived, even if TCP has merged them. When
 * the same key is set again, records found with it are kept.
 */
TEST_F(place, key_is_given_again_or_late)
{
	u32 i;

	for (i = 0; i < 2; i++) {
		stream_add(self, 500);
		/* The records are short, so that both fit one skb. */
		stream_add_many(self, 30, 2);
		ASSERT_EQ(0, start_receiving(self, i));
		COME(3 * i + 1, 3 * i + 2);
		COME(3 * i + 2, 3 * i + 3);
		EXPECT_EQ(!i, poll_for(self->fd, POLLIN, i ? 30 : 5000) == POLLIN);
		ASSERT_EQ(0, start_receiving(self, false));
		PLACED(3 * i + 1);
		PLACED(3 * i + 2);
		COME(3 * i, 3 * i + 1);
		ORDERED(3 * i);
		NOTHING();
	}
}

/* TCP has merged the segments of each island. */
TEST_F(place, same_key_keeps_each_island)
{
	u32 i;

	stream_add_many(self, 30, 12);
	for (i = 1; i < 12; i += 4) {
		COME(i, i + 1);
		COME(i + 1, i + 2);
	}
	/* Each island's first segment is tested, the adjacent ones are not. */
	while (tuf_info(self->fd).rx_contained < 3)
		poll(NULL, 0, 10);
	ASSERT_EQ(0, start_receiving(self, false));
	for (i = 1; i < 12; i += 4) {
		PLACED(i);
		PLACED(i + 1);
	}
	NOTHING();
}

TEST_F(place, wrong_key_places_nothing)
{
	unsigned int i;

	for (i = 0; i < 5; i++)
		stream_add_wrong(self, 1000);
	COME(1, 2);
	COME(3, 4);
	NOTHING();
	EXPECT_LE(2, tuf_info(self->fd).rx_tested);
	EXPECT_EQ(0, tuf_info(self->fd).rx_contained);
	COME(0, 1);
	IN_ORDER(0, 2);
	COME(2, 3);
	IN_ORDER(2, 4);
	EXPECT_EQ(0, tuf_info(self->fd).rx_placed);
	EXPECT_EQ(4, tuf_info(self->fd).rx_wrong_key);
}

/* "payload length = Length + 8" */
TEST_F(place, segment_of_another_length_is_not_placed)
{
	static const int more[] = { -900, -8, -1, 1, 8, 500 };
	unsigned int i, at;

	for (i = 0; i < ARRAY_SIZE(more); i++) {
		at = self->records;
		stream_add_many(self, 1000, 3);
		ASSERT_EQ(0, come(self, self->start[at + 1],
				  self->start[at + 2] + more[i]));
		NOTHING();
		COME(at, at + 1);
		COME(at + 1, at + 3);
		IN_ORDER(at, at + 3);
	}
	EXPECT_EQ(0, tuf_info(self->fd).rx_contained);
	EXPECT_EQ(0, tuf_info(self->fd).rx_placed);
}

/* "must not scan a segment for FPDUs elsewhere than at its start" */
TEST_F(place, two_fpdus_in_a_segment_are_not_placed)
{
	stream_add_many(self, 500, 8);
	COME(1, 3);
	NOTHING();
	/* Nor is an FPDU placed that follows octets of another one. */
	ASSERT_EQ(0, come(self, self->start[4] + 100, self->start[6]));
	NOTHING();
	COME(0, 1);
	IN_ORDER(0, 3);
	COME(3, 5);
	IN_ORDER(3, 6);
	EXPECT_EQ(0, tuf_info(self->fd).rx_placed);
}

/* The contained FPDU's Length leads to the FPDUs after it. */
TEST_F(place, fpdus_after_a_contained_one_are_placed_by_length)
{
	unsigned int i;

	stream_add_many(self, 700, 9);
	COME(1, 2);
	PLACED(1);
	/* Some FPDUs arrive in pieces, and two in one segment. */
	ASSERT_EQ(0, come_cut(self, self->start[2], self->start[3] - 1, 100));
	NOTHING();
	ASSERT_EQ(0, come(self, self->start[3] - 1, self->start[3]));
	PLACED(2);
	COME(3, 5);
	PLACED(3);
	PLACED(4);
	/* The last FPDU is not complete yet. */
	ASSERT_EQ(0, come(self, self->start[5], self->start[6] + 10));
	PLACED(5);
	NOTHING();
	ASSERT_EQ(0, come(self, self->start[6] + 10, self->start[8]));
	PLACED(6);
	PLACED(7);
	NOTHING();
	COME(0, 1);
	ORDERED(0);
	NOTHING();
	EXPECT_EQ(7, tuf_info(self->fd).rx_placed);
	EXPECT_EQ(self->start[8], tuf_info(self->fd).rx_edge);
	COME(8, 9);
	ORDERED(8);
	for (i = 0; i < 2; i++)
		stream_add(self, 10);
	COME(10, 11);
	PLACED(10);
}

/* Octets of later FPDUs that arrived earlier are delivered with it. */
TEST_F(place, contained_one_before_an_island)
{
	stream_add_many(self, 700, 6);
	ASSERT_EQ(0, come(self, self->start[3], self->start[5]));
	NOTHING();
	COME(2, 3);
	PLACED(2);
	PLACED(3);
	PLACED(4);
	COME(1, 2);
	PLACED(1);
	COME(0, 1);
	ORDERED(0);
	NOTHING();
}

/* No segment of an oversized FPDU is a whole FPDU. */
TEST_F(place, pieces_of_an_oversized_fpdu_are_not_placed)
{
	stream_add(self, 100);
	stream_add(self, 20000);
	stream_add_many(self, 100, 3);
	ASSERT_EQ(0, come_cut(self, self->start[1], self->start[2], 1448));
	NOTHING();
	COME(3, 4);
	PLACED(3);
	COME(0, 1);
	IN_ORDER(0, 2);
	COME(2, 3);
	ORDERED(2);
	COME(4, 5);
	ORDERED(4);
	EXPECT_EQ(1, tuf_info(self->fd).rx_placed);
}

/* 8 octets with a Length of 0 and the key are no FPDU. */
TEST_F(place, length_of_0_is_not_placed)
{
	stream_add(self, 100);
	stream_add(self, 0);
	stream_add(self, 100);
	COME(1, 2);
	NOTHING();
	COME(0, 1);
	ORDERED(0);
	ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(self->start[1], tuf_info(self->fd).error_position);
}

/*
 * TCP has collapsed segments into one skb to save memory: it is no single segment, even
 * if it has an FPDU's header and length.
 */
TEST_F(place, collapsed_segments_are_no_segment)
{
	const u32 piece = 3000, front = 492;
	static u8 octets[9000];
	u32 at, n;

	tuf_fpdu(&stream_way, record_of(piece - TUF_HEADER_LEN),
		 piece - TUF_HEADER_LEN, octets + front);
	stream_add_octets(self, octets, sizeof(octets));
	ASSERT_EQ(0, set_int(self->fd, MPA_PLACE, 0));
	n = 12000;
	ASSERT_EQ(0, setsockopt(self->fd, SOL_SOCKET, SO_RCVBUF, &n, sizeof(n)));
	at = TUF_HEADER_LEN + front;
	ASSERT_EQ(0, come_cut(self, at, at + piece, 100));
	/* Send islands of a few octets, for which there is no memory. */
	for (n = 0; n < 20; n++)
		ASSERT_EQ(0, come(self, at + piece + 100 + 20 * n,
				  at + piece + 110 + 20 * n));
	if (tcp_counter("TCPRcvCollapsed") <= 0)
		SKIP(return, "TCP has thrown away what came last instead");
	ASSERT_EQ(0, set_int(self->fd, MPA_PLACE, 1));
	NOTHING();
	EXPECT_EQ(0, tuf_info(self->fd).rx_contained);
}

/* "almost no segment held an FPDU: the test is no longer relied on" */
TEST_F_TIMEOUT(place, resegmented_stream_is_noticed, 300)
{
	const long until = now_ms() + 60000;
	unsigned int i;
	u32 at;

	while (!(tuf_info(self->fd).flags & TUF_INFO_RESEGMENTED)) {
		ASSERT_LT(now_ms(), until);
		/* Positions continue, but records are numbered from 0 again. */
		at = stream_end(self);
		ASSERT_LT(at, 4 * BUF - 20000);
		self->records = 0;
		self->start[0] = at;
		stream_add_many(self, 1000, 10);
		ASSERT_EQ(0, come_cut(self, at + 100, stream_end(self), 90));
		ASSERT_EQ(0, come(self, at, at + 100));
		for (i = 0; i < 10; i++)
			ASSERT_EQ(1000, recv(self->fd, self->buf, BUF, 0));
		ASSERT_TRUE(record_good(self->buf, 1000));
	}
	/* Sufficiently many segments were tested. */
	EXPECT_LT(20, tuf_info(self->fd).rx_tested);
	EXPECT_EQ(0, tuf_info(self->fd).rx_contained);
	EXPECT_EQ(1, tuf_count("MpaTufResegmented"));
	/* Records are still delivered correctly, in order. */
	at = stream_end(self);
	self->records = 0;
	self->start[0] = at;
	stream_add_many(self, 1000, 3);
	COME(1, 2);
	NOTHING();
	COME(0, 1);
	COME(2, 3);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(1000, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(0, tuf_info(self->fd).rx_placed);
}

TEST_HARNESS_MAIN
