// SPDX-License-Identifier: GPL-2.0
/* MULPDU: RFC 5044 section 4.5, and the bounds of section 3. */

#include "unit.h"

#define EMSS_MAX	65535

/* The formulas, as printed in the section. */
static long formula(long emss, bool marked)
{
	long ceiling = emss / 512 + (emss % 512 != 0);

	if (marked)
		return emss - (6 + 4 * ceiling + emss % 4);
	return emss - (6 + emss % 4);
}

static void follow_the_formula(bool marked)
{
	for (u32 emss = 0; emss <= EMSS_MAX; emss++) {
		long expected = formula(emss, marked);

		if (expected < 128)
			expected = 128;
		if (expected > 64768)
			expected = 64768;
		EXPECT_EQ(expected, mpa_mulpdu(emss, marked),
			  "MULPDU at EMSS %u, %s markers", emss,
			  marked ? "with" : "without");
	}
}

static void mulpdu_without_markers_follows_the_formula(void)
{
	follow_the_formula(false);
}

static void mulpdu_with_markers_follows_the_formula(void)
{
	follow_the_formula(true);
}

static void mulpdu_of_well_known_links(void)
{
	EXPECT_EQ(1442, mpa_mulpdu(1448, false), "MTU 1500, timestamps");
	EXPECT_EQ(1430, mpa_mulpdu(1448, true),
		  "MTU 1500, timestamps, markers");
	EXPECT_EQ(8942, mpa_mulpdu(8948, false), "MTU 9000, timestamps");
	EXPECT_EQ(8870, mpa_mulpdu(8948, true),
		  "MTU 9000, timestamps, markers");
}

static void mulpdu_stays_in_its_bounds(void)
{
	EXPECT_EQ(128, mpa_mulpdu(0, false), "MULPDU at EMSS 0");
	EXPECT_EQ(128, mpa_mulpdu(0, true), "MULPDU at EMSS 0, markers");
	EXPECT_EQ(128, mpa_mulpdu(133, false), "MULPDU at EMSS 133");
	EXPECT_EQ(128, mpa_mulpdu(134, false), "MULPDU at EMSS 134");
	EXPECT_EQ(130, mpa_mulpdu(136, false), "MULPDU at EMSS 136");
	EXPECT_EQ(130, mpa_mulpdu(140, true), "MULPDU at EMSS 140, markers");
	EXPECT_EQ(64768, mpa_mulpdu(65535, false), "MULPDU at EMSS 65535");
	EXPECT_EQ(64768, mpa_mulpdu(65535, true),
		  "MULPDU at EMSS 65535, markers");
}

/* The FPDU may start anywhere. Skip lengths where the lower bound overrides the formula. */
static void mulpdu_fits_a_segment_at_every_phase(void)
{
	struct mpa_fpdu fpdu;

	for (u32 emss = 0; emss <= EMSS_MAX; emss++) {
		for (u32 pos = 0; pos < 512; pos += 4) {
			if (formula(emss, true) < 128)
				break;
			mpa_fpdu_init(&fpdu, pos, mpa_mulpdu(emss, true), true);
			EXPECT_EQ(true, fpdu.len <= emss,
				  "FPDU of %u octets at position %u fits EMSS %u",
				  fpdu.len, pos, emss);
		}
		if (formula(emss, false) < 128)
			continue;
		mpa_fpdu_init(&fpdu, 0, mpa_mulpdu(emss, false), false);
		EXPECT_EQ(true, fpdu.len <= emss,
			  "FPDU of %u octets fits EMSS %u", fpdu.len, emss);
	}
}

static void mulpdu_without_markers_wastes_no_room(void)
{
	struct mpa_fpdu fpdu;

	for (u32 emss = 134; emss <= EMSS_MAX; emss++) {
		u32 mulpdu = mpa_mulpdu(emss, false);

		if (mulpdu == 128 || mulpdu == MPA_ULPDU_MAX)
			continue;
		mpa_fpdu_init(&fpdu, 0, mulpdu + 1, false);
		EXPECT_EQ(true, fpdu.len > emss,
			  "one octet more than MULPDU is too long for EMSS %u",
			  emss);
	}
}

/* Section 4.5: "the dynamic MULPDU", from the actual markers. */
static void fill_leaves_no_room(u32 room, bool marked)
{
	struct mpa_fpdu fpdu;

	for (u32 pos = 0; pos < 512; pos += 4) {
		u32 fill = mpa_fpdu_fill(pos, room, marked);

		if (fill) {
			mpa_fpdu_init(&fpdu, pos, fill, marked);
			EXPECT_EQ(true, fpdu.len <= room,
				  "FPDU of %u octets at position %u fits %u",
				  fpdu.len, pos, room);
		}
		if (fill == MPA_ULPDU_MAX)
			continue;
		mpa_fpdu_init(&fpdu, pos, fill + 1, marked);
		EXPECT_EQ(true, fpdu.len > room,
			  "one octet more than %u at position %u is too long for %u",
			  fill, pos, room);
	}
}

static void fill_takes_all_the_room_there_is(void)
{
	for (u32 room = 0; room < 4200; room++) {
		fill_leaves_no_room(room, false);
		fill_leaves_no_room(room, true);
	}
	for (u32 room = 64760; room < 65800; room++) {
		fill_leaves_no_room(room, false);
		fill_leaves_no_room(room, true);
	}
}

static void fill_is_four_short_of_a_last_marker(void)
{
	struct mpa_fpdu fpdu;

	/* The marker at 1024 would be the last four of the 1028 octets. */
	mpa_fpdu_init(&fpdu, 0, mpa_fpdu_fill(0, 1028, true), true);
	EXPECT_EQ(1024, fpdu.len, "FPDU before a marker");
	mpa_fpdu_init(&fpdu, 0, mpa_fpdu_fill(0, 1032, true), true);
	EXPECT_EQ(1032, fpdu.len, "FPDU around a marker");
	EXPECT_EQ(0, mpa_fpdu_fill(0, 11, true), "ULPDU that fits 11 octets");
	EXPECT_EQ(2, mpa_fpdu_fill(0, 12, true), "ULPDU that fits 12 octets");
}

/* Compare with mpa_fpdu_fill() and mpa_fpdu_init(). */
static void marked_fpdu_fills_its_place(void)
{
	struct mpa_fpdu fpdu, same;
	u32 pos, len, fill;

	for (pos = 0; pos < 1024; pos += 4) {
		for (len = 0; len < 65800; len += len < 2200 ? 4 : 404) {
			fill = mpa_fpdu_fill(pos, len, true);
			mpa_fpdu_init(&same, pos, fill, true);
			if (!fill || fill == MPA_ULPDU_MAX || same.len != len) {
				EXPECT_EQ(false,
					  mpa_fpdu_init_marked(&fpdu, pos, len),
					  "no FPDU of %u octets at %u", len,
					  pos);
				continue;
			}
			EXPECT_EQ(true, mpa_fpdu_init_marked(&fpdu, pos, len),
				  "FPDU of %u octets at %u", len, pos);
			EXPECT_EQ(true, fpdu.pos == same.pos &&
				  fpdu.ulpdu_len == same.ulpdu_len &&
				  fpdu.head == same.head &&
				  fpdu.len == same.len &&
				  fpdu.markers == same.markers && fpdu.marked,
				  "layout of %u octets at %u", len, pos);
		}
	}
}

const struct unit_test mulpdu_tests[] = {
	UNIT_TEST(mulpdu_without_markers_follows_the_formula),
	UNIT_TEST(mulpdu_with_markers_follows_the_formula),
	UNIT_TEST(mulpdu_of_well_known_links),
	UNIT_TEST(mulpdu_stays_in_its_bounds),
	UNIT_TEST(mulpdu_fits_a_segment_at_every_phase),
	UNIT_TEST(mulpdu_without_markers_wastes_no_room),
	UNIT_TEST(fill_takes_all_the_room_there_is),
	UNIT_TEST(fill_is_four_short_of_a_last_marker),
	UNIT_TEST(marked_fpdu_fills_its_place),
	{ }
};
