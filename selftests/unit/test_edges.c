// SPDX-License-Identifier: GPL-2.0
/* Places where off-by-one errors are likely, each calculated by hand. */

#include "engine.h"
#include "unit.h"

static void expect_run(const struct mpa_fpdu *fpdu, u32 off,
		       enum mpa_field field, u32 skip, u32 len)
{
	struct mpa_field_span run;

	mpa_fpdu_field_at(fpdu, off, &run);
	EXPECT_EQ(off, run.off, "run at %u: off", off);
	EXPECT_EQ(field, run.field, "run at %u: field", off);
	EXPECT_EQ(skip, run.skip, "run at %u: skip", off);
	EXPECT_EQ(len, run.len, "run at %u: len", off);
}

static void expect_fpdu(const struct mpa_fpdu *fpdu, u32 len, u32 markers,
			u32 head)
{
	EXPECT_EQ(len, fpdu->len, "octets of the FPDU");
	EXPECT_EQ(markers, fpdu->markers, "markers");
	EXPECT_EQ(head, fpdu->head, "offset of ULPDU_Length");
}

/* All the FPDU's markers point to its ULPDU_Length. */
static void longest_fpdu_has_128_markers(void)
{
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, 0, 64768, true);
	expect_fpdu(&fpdu, 65288, 128, 4);
	EXPECT_EQ(65288, MPA_FPDU_MAX, "MPA_FPDU_MAX");
	expect_run(&fpdu, 0, MPA_FIELD_MARKER, 0, 4);
	EXPECT_EQ(0, mpa_fpdu_ptr(&fpdu, 0), "FPDUPTR at 0");
	for (u32 nth = 1; nth < 128; nth++) {
		expect_run(&fpdu, 512 * nth, MPA_FIELD_MARKER, 0, 4);
		EXPECT_EQ(512 * nth - 4, mpa_fpdu_ptr(&fpdu, 512 * nth),
			  "FPDUPTR at %u", 512 * nth);
		expect_run(&fpdu, 512 * nth + 4, MPA_FIELD_ULPDU,
			   508 * nth - 2, nth == 127 ? 254 : 508);
	}
	expect_run(&fpdu, 65282, MPA_FIELD_PAD, 0, 2);
	expect_run(&fpdu, 65284, MPA_FIELD_CRC, 0, 4);
}

static void no_fpdu_is_longer_than_mpa_fpdu_max(void)
{
	struct mpa_fpdu fpdu;

	for (u32 pos = 0; pos < 512; pos += 4) {
		for (u32 len = 64760; len <= MPA_ULPDU_MAX; len++) {
			mpa_fpdu_init(&fpdu, pos, len, true);
			EXPECT_EQ(true, fpdu.len <= MPA_FPDU_MAX,
				  "FPDU at %u of %u octets is within MPA_FPDU_MAX",
				  pos, fpdu.len);
		}
	}
}

/* Receivers lay out any ULPDU_Length before they refuse it. */
static void layout_of_65535_octets_is_sound(void)
{
	struct mpa_field_span run;
	u32 off = 0, ulpdu = 0;
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, 0, 65535, true);
	expect_fpdu(&fpdu, 65544 + 4 * 130, 130, 4);
	while (off < fpdu.len) {
		mpa_fpdu_field_at(&fpdu, off, &run);
		EXPECT_EQ(true, run.len > 0, "run at %u is not empty", off);
		if (run.field == MPA_FIELD_ULPDU)
			ulpdu += run.len;
		off += run.len;
	}
	EXPECT_EQ(fpdu.len, off, "octets of all runs");
	EXPECT_EQ(65535, ulpdu, "octets of the ULPDU's runs");
}

static void marker_between_fpdus_belongs_to_the_next(void)
{
	struct mpa_fpdu first, second;
	static const u8 zero[4];
	u8 octets[64], crc[4];
	u32 len;

	/* marker 4, length 2, ULPDU 502, CRC 4 */
	mpa_fpdu_init(&first, 0, 502, true);
	expect_fpdu(&first, 512, 1, 4);
	expect_run(&first, 508, MPA_FIELD_CRC, 0, 4);

	mpa_fpdu_init(&second, 512, 2, true);
	expect_fpdu(&second, 12, 1, 4);
	expect_run(&second, 0, MPA_FIELD_MARKER, 0, 4);
	expect_run(&second, 4, MPA_FIELD_LENGTH, 0, 2);
	expect_run(&second, 6, MPA_FIELD_ULPDU, 0, 2);
	expect_run(&second, 8, MPA_FIELD_CRC, 0, 4);
	EXPECT_EQ(0, mpa_fpdu_ptr(&second, 0), "FPDUPTR");

	len = engine_send(512, true, (const u8 *)"ab", 2, octets);
	EXPECT_EQ(12, len, "octets sent");
	EXPECT_OCTETS(zero, octets, 4, "marker");
	mpa_crc_put(mpa_crc_update(MPA_CRC_INIT, "\0\0\0\0\0\2ab", 8), crc);
	EXPECT_OCTETS(crc, octets + 8, 4, "CRC over the marker as well");
}

static void marker_after_the_crc_is_not_counted(void)
{
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, 504, 2, true);
	expect_fpdu(&fpdu, 8, 0, 0);
	EXPECT_EQ(0, mpa_marker_count(504, 8), "markers among 8 octets at 504");
	EXPECT_EQ(1, mpa_marker_count(504, 9), "markers among 9 octets at 504");
	EXPECT_EQ(1, mpa_marker_count(512, 508),
		  "markers among 508 octets at 512");
	EXPECT_EQ(2, mpa_marker_count(512, 509),
		  "markers among 509 octets at 512");
}

/* Section 4.3, also for an FPDU that begins with a marker. */
static void each_marker_leads_to_its_fpdu(void)
{
	EXPECT_EQ(1000, mpa_marker_fpdu(1024, 24), "FPDU of a marker at 1024");
	EXPECT_EQ(1024, mpa_marker_fpdu(1024, 0), "marker before an FPDU");
	EXPECT_EQ(512, mpa_marker_fpdu(1024, 508), "FPDU after a marker at 512");
	EXPECT_EQ(520, mpa_marker_fpdu(1024, 504), "FPDU 8 octets after it");
	EXPECT_EQ((u32)-8, mpa_marker_fpdu(512, 520), "FPDU across the wrap");

	for (u32 pos = -1024; pos != 1024; pos += 4) {
		struct mpa_fpdu fpdu;
		u32 off;

		/* No FPDU begins after a marker: the marker would belong to it. */
		if (pos % MPA_MARKER_INTERVAL == MPA_MARKER_LEN)
			continue;
		mpa_fpdu_init(&fpdu, pos, 1300, true);
		for (off = mpa_marker_distance(pos); off < fpdu.len;
		     off += MPA_MARKER_INTERVAL)
			EXPECT_EQ(pos, mpa_marker_fpdu(pos + off,
						       mpa_fpdu_ptr(&fpdu, off)),
				  "FPDU of the marker %u octets after %u", off,
				  pos);
	}
}

/* Positions wrap, like sequence numbers. */
static void positions_are_compared_across_the_wrap(void)
{
	EXPECT_EQ(true, mpa_pos_before(1, 2), "1 before 2");
	EXPECT_EQ(false, mpa_pos_before(2, 2), "2 before 2");
	EXPECT_EQ(false, mpa_pos_before(3, 2), "3 before 2");
	EXPECT_EQ(true, mpa_pos_before(-4, 4), "-4 before 4");
	EXPECT_EQ(false, mpa_pos_before(4, -4), "4 before -4");
}

static void marker_between_pad_and_crc_is_in_the_crc(void)
{
	static const u8 before[] = "\0\011ninenine.\0\0\0\0\014";
	u8 octets[20], crc[4];
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, 500, 9, true);
	expect_fpdu(&fpdu, 20, 1, 0);
	expect_run(&fpdu, 2, MPA_FIELD_ULPDU, 0, 9);
	expect_run(&fpdu, 11, MPA_FIELD_PAD, 0, 1);
	expect_run(&fpdu, 12, MPA_FIELD_MARKER, 0, 4);
	expect_run(&fpdu, 16, MPA_FIELD_CRC, 0, 4);
	EXPECT_EQ(12, mpa_fpdu_ptr(&fpdu, 12), "FPDUPTR");

	EXPECT_EQ(20, engine_send(500, true, (const u8 *)"ninenine.", 9,
				  octets), "octets sent");
	EXPECT_OCTETS(before, octets, 16, "FPDU before its CRC");
	mpa_crc_put(mpa_crc_update(MPA_CRC_INIT, before, 16), crc);
	EXPECT_OCTETS(crc, octets + 16, 4, "CRC over the marker as well");
}

static void marker_between_ulpdu_and_crc_without_pad(void)
{
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, 500, 10, true);
	expect_fpdu(&fpdu, 20, 1, 0);
	expect_run(&fpdu, 2, MPA_FIELD_ULPDU, 0, 10);
	expect_run(&fpdu, 12, MPA_FIELD_MARKER, 0, 4);
	expect_run(&fpdu, 16, MPA_FIELD_CRC, 0, 4);
	EXPECT_EQ(11, mpa_fpdu_offset(&fpdu, 9), "offset of the last octet");
	EXPECT_EQ(12, mpa_fpdu_offset(&fpdu, 10), "offset of the end");
}

/* The marker follows ULPDU_Length's word: it cuts the ULPDU after two octets. */
static void marker_cuts_the_ulpdu(void)
{
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, 508, 7, true);
	expect_fpdu(&fpdu, 20, 1, 0);
	expect_run(&fpdu, 0, MPA_FIELD_LENGTH, 0, 2);
	expect_run(&fpdu, 1, MPA_FIELD_LENGTH, 1, 1);
	expect_run(&fpdu, 2, MPA_FIELD_ULPDU, 0, 2);
	expect_run(&fpdu, 4, MPA_FIELD_MARKER, 0, 4);
	expect_run(&fpdu, 6, MPA_FIELD_MARKER, 2, 2);
	expect_run(&fpdu, 8, MPA_FIELD_ULPDU, 2, 5);
	expect_run(&fpdu, 12, MPA_FIELD_ULPDU, 6, 1);
	expect_run(&fpdu, 13, MPA_FIELD_PAD, 0, 3);
	expect_run(&fpdu, 16, MPA_FIELD_CRC, 0, 4);
	expect_run(&fpdu, 19, MPA_FIELD_CRC, 3, 1);
	EXPECT_EQ(4, mpa_fpdu_ptr(&fpdu, 4), "FPDUPTR");
	EXPECT_EQ(2, mpa_fpdu_offset(&fpdu, 0), "offset of octet 0");
	EXPECT_EQ(3, mpa_fpdu_offset(&fpdu, 1), "offset of octet 1");
	EXPECT_EQ(8, mpa_fpdu_offset(&fpdu, 2), "offset of octet 2");
	EXPECT_EQ(13, mpa_fpdu_offset(&fpdu, 7), "offset of the end");
}

/* The FPDUs take 20 octets, then 16 each, until the FPDU at 500 has the marker at 512. */
static void small_fpdus_share_an_interval(void)
{
	struct mpa_fpdu fpdu;
	u32 pos = 0;

	for (u32 nth = 0; nth < 33; nth++) {
		mpa_fpdu_init(&fpdu, pos, 10, true);
		switch (nth) {
		case 0:
			expect_fpdu(&fpdu, 20, 1, 4);
			EXPECT_EQ(0, mpa_fpdu_ptr(&fpdu, 0), "FPDUPTR at 0");
			break;
		case 31:
			EXPECT_EQ(500, pos, "position of FPDU 31");
			expect_fpdu(&fpdu, 20, 1, 0);
			expect_run(&fpdu, 12, MPA_FIELD_MARKER, 0, 4);
			EXPECT_EQ(12, mpa_fpdu_ptr(&fpdu, 12),
				  "FPDUPTR at 512");
			break;
		default:
			expect_fpdu(&fpdu, 16, 0, 0);
		}
		pos += fpdu.len;
	}
	EXPECT_EQ(536, pos, "octets of 33 FPDUs");
}

static void markers_continue_across_the_wrap(void)
{
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, 0xfffffe04, 2000, true);
	expect_fpdu(&fpdu, 2008 + 3 * 4, 3, 0);
	expect_run(&fpdu, 2, MPA_FIELD_ULPDU, 0, 506);
	for (u32 nth = 0; nth < 3; nth++) {
		u32 off = 508 + 512 * nth;

		expect_run(&fpdu, off, MPA_FIELD_MARKER, 0, 4);
		EXPECT_EQ(off, mpa_fpdu_ptr(&fpdu, off), "FPDUPTR at %u", off);
	}
	expect_run(&fpdu, 512, MPA_FIELD_ULPDU, 506, 508);

	/* the last octets before the wrap, and the first after it */
	mpa_fpdu_init(&fpdu, 0xfffffff8, 2, true);
	expect_fpdu(&fpdu, 8, 0, 0);
	mpa_fpdu_init(&fpdu, 0, 2, true);
	expect_fpdu(&fpdu, 12, 1, 4);
}

static void pad_makes_a_multiple_of_four(void)
{
	static const u32 lens[] = { 8, 8, 8, 12, 12, 12, 12, 16, 16 };
	static const u32 pads[] = { 2, 1, 0, 3, 2, 1, 0, 3, 2 };
	struct mpa_fpdu fpdu;

	for (u32 ulpdu = 0; ulpdu < ARRAY_SIZE(lens); ulpdu++) {
		unit_context("ULPDU of %u octets", ulpdu);
		mpa_fpdu_init(&fpdu, 4, ulpdu, false);
		expect_fpdu(&fpdu, lens[ulpdu], 0, 0);
		if (pads[ulpdu])
			expect_run(&fpdu, 2 + ulpdu, MPA_FIELD_PAD, 0,
				   pads[ulpdu]);
		expect_run(&fpdu, lens[ulpdu] - 4, MPA_FIELD_CRC, 0, 4);
	}
}

static void unmarked_streams_have_no_markers(void)
{
	struct mpa_fpdu fpdu;

	for (u32 pos = 0; pos <= 1024; pos += 4) {
		mpa_fpdu_init(&fpdu, pos, 3000, false);
		expect_fpdu(&fpdu, 3008, 0, 0);
		expect_run(&fpdu, 0, MPA_FIELD_LENGTH, 0, 2);
		expect_run(&fpdu, 2, MPA_FIELD_ULPDU, 0, 3000);
		EXPECT_EQ(2, mpa_fpdu_head_len(pos, false), "head");
	}
}

static void length_is_after_a_leading_marker(void)
{
	static const u8 head[] = { 0xff, 0xff, 0xff, 0xff, 0x12, 0x34 };

	for (u32 pos = 4; pos < 512; pos += 4)
		EXPECT_EQ(2, mpa_fpdu_head_len(pos, true), "head at %u", pos);
	EXPECT_EQ(6, mpa_fpdu_head_len(0, true), "head at 0");
	EXPECT_EQ(6, mpa_fpdu_head_len(0xfffffe00, true), "head before a wrap");
	EXPECT_EQ(6, MPA_FPDU_HEAD_MAX, "MPA_FPDU_HEAD_MAX");
	EXPECT_EQ(0x1234, mpa_ulpdu_length(head, 6), "length after a marker");
	EXPECT_EQ(0x1234, mpa_ulpdu_length(head + 4, 2), "length at once");
}

static void marker_is_written_with_its_reserved_half_zero(void)
{
	u8 expected[4] = { 0 }, marker[4];

	for (u32 fpduptr = 0; fpduptr < 65536; fpduptr += 4) {
		memset(marker, 0xff, sizeof(marker));
		mpa_marker_put(marker, fpduptr);
		expected[2] = fpduptr >> 8;
		expected[3] = fpduptr;
		EXPECT_OCTETS(expected, marker, 4, "marker of 0x%x", fpduptr);
	}
}

static void marker_is_read_without_reserved_and_low_bits(void)
{
	static const u8 reserved[][2] = {
		{ 0, 0 }, { 0xff, 0xff }, { 0x80, 0 }, { 0, 1 }, { 0x12, 0x34 },
	};
	u8 marker[4];

	for (u32 i = 0; i < ARRAY_SIZE(reserved); i++) {
		memcpy(marker, reserved[i], 2);
		for (u32 value = 0; value < 65536; value++) {
			marker[2] = value >> 8;
			marker[3] = value;
			EXPECT_EQ(value & 0xfffc, mpa_marker_get(marker),
				  "FPDUPTR 0x%04x after %02x%02x", value,
				  marker[0], marker[1]);
		}
	}
}

static void marker_distance_counts_down(void)
{
	u64 start[] = { 0, 0xfffffc00, 1ULL << 40 };

	for (u32 i = 0; i < ARRAY_SIZE(start); i++) {
		for (u64 pos = start[i]; pos < start[i] + 2048; pos++) {
			u32 expected = 0;

			while ((pos + expected) % 512)
				expected++;
			EXPECT_EQ(expected, mpa_marker_distance(pos),
				  "distance from %llu", pos);
		}
	}
}

static void marker_count_follows_each_octet(void)
{
	for (u32 phase = 0; phase < 512; phase += 4) {
		u64 pos = (1ULL << 32) - 512 + phase, at = pos;
		u32 markers = 0;

		for (u32 len = 0; len < 3000; len++) {
			EXPECT_EQ(markers, mpa_marker_count(pos, len),
				  "markers among %u octets at 0x%llx", len,
				  pos);
			if (at % 512 == 0) {
				markers++;
				at += 4;
			}
			at++;
		}
	}
}

/* RFC 5044 section 8: with a valid CRC the marker is the error. */
static void wrong_fpduptr_is_reported_after_a_valid_crc(void)
{
	static u8 ulpdu[MPA_ULPDU_MAX];
	u8 octets[20];

	for (u32 bit = 0; bit < 32; bit++) {
		bool ignored = bit < 16 || bit == 24 || bit == 25;
		struct engine_receiver receiver = {
			.pos = 500,
			.format = { .marked = true, .crc = true },
			.octets = octets,
			.count = sizeof(octets),
		};
		u32 len;

		engine_send(500, true, (const u8 *)"0123456789", 10, octets);
		octets[12 + bit / 8] ^= 1 << bit % 8;
		mpa_crc_put(mpa_crc_update(MPA_CRC_INIT, octets, 16),
			    octets + 16);
		EXPECT_EQ(ignored ? ENGINE_GOOD : ENGINE_BAD_MARKER,
			  engine_receive(&receiver, ulpdu, &len),
			  "verdict with bit %u of octet %u flipped", bit % 8,
			  bit / 8);
	}
}

struct faulty_copy {
	u32 runs;
	u32 octets;
};

static int copy_one_run(void *to, const u8 *data, u32 len)
{
	struct faulty_copy *copy = to;

	(void)data;
	if (copy->runs++)
		return -14;
	copy->octets += len;
	return 0;
}

/* A copy fails, as from inaccessible user memory. */
static void walk_ends_where_copying_fails(void)
{
	static u8 ulpdu[1200], octets[1400];
	struct faulty_copy copy = { 0 };
	struct mpa_pick pick = { .copy = copy_one_run, .to = &copy };
	struct mpa_fpdu fpdu;

	engine_send(0, true, ulpdu, sizeof(ulpdu), octets);
	mpa_fpdu_init(&fpdu, 0, sizeof(ulpdu), true);
	mpa_pick_begin(&pick, &fpdu, 0);
	EXPECT_EQ(-14, mpa_pick_octets(&pick, octets + pick.off,
				       fpdu.len - pick.off),
		  "what the walk returns");
	EXPECT_EQ(2, copy.runs, "runs that were tried");
	EXPECT_EQ(506, copy.octets, "octets up to the second marker");
}

const struct unit_test edge_tests[] = {
	UNIT_TEST(longest_fpdu_has_128_markers),
	UNIT_TEST(no_fpdu_is_longer_than_mpa_fpdu_max),
	UNIT_TEST(layout_of_65535_octets_is_sound),
	UNIT_TEST(marker_between_fpdus_belongs_to_the_next),
	UNIT_TEST(marker_after_the_crc_is_not_counted),
	UNIT_TEST(each_marker_leads_to_its_fpdu),
	UNIT_TEST(positions_are_compared_across_the_wrap),
	UNIT_TEST(marker_between_pad_and_crc_is_in_the_crc),
	UNIT_TEST(marker_between_ulpdu_and_crc_without_pad),
	UNIT_TEST(marker_cuts_the_ulpdu),
	UNIT_TEST(small_fpdus_share_an_interval),
	UNIT_TEST(markers_continue_across_the_wrap),
	UNIT_TEST(pad_makes_a_multiple_of_four),
	UNIT_TEST(unmarked_streams_have_no_markers),
	UNIT_TEST(length_is_after_a_leading_marker),
	UNIT_TEST(marker_is_written_with_its_reserved_half_zero),
	UNIT_TEST(marker_is_read_without_reserved_and_low_bits),
	UNIT_TEST(marker_distance_counts_down),
	UNIT_TEST(marker_count_follows_each_octet),
	UNIT_TEST(wrong_fpduptr_is_reported_after_a_valid_crc),
	UNIT_TEST(walk_ends_where_copying_fails),
	{ }
};
