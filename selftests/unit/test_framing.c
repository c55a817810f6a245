// SPDX-License-Identifier: GPL-2.0
/* mpa_framing.h: for MPA it equals RFC 5044's functions, for TUF TUF's functions. */

#include "engine.h"
#include "tuf/layout.h"
#include "unit.h"

static const struct mpa_format plain = { .framing = MPA_FRAMING_MPA };
static const struct mpa_format marked = { .marked = true };
static const struct mpa_format off = { .framing = MPA_FRAMING_OFF };
static const struct mpa_format tuf = { .framing = MPA_FRAMING_KEYED };
static const struct mpa_format segments = { .framing = MPA_FRAMING_SEGMENTS };
static const struct mpa_format tuf_markers = {
	.framing = MPA_FRAMING_POINTERS, .period = 11,
};

static void expect_format(const char *name, const struct mpa_format *format,
			  const char *properties)
{
	unit_context("%s", name);
	EXPECT_EQ(!!strchr(properties, 't'), mpa_alt_format(format), "TUF's");
	EXPECT_EQ(!!strchr(properties, 'o'), mpa_format_on(format), "on");
	EXPECT_EQ(!!strchr(properties, 'a'), mpa_format_aligns(format),
		  "segments start with FPDUs");
	EXPECT_EQ(!!strchr(properties, 's'), mpa_format_shares(format),
		  "several share a segment");
	EXPECT_EQ(!!strchr(properties, 'c'), mpa_format_contained(format),
		  "each is a segment");
	EXPECT_EQ(!!strchr(properties, 'm'), mpa_format_markers(format),
		  "markers");
}

static void formats_are_distinguished(void)
{
	expect_format("MPA", &plain, "oas");
	expect_format("MPA with markers", &marked, "oasm");
	expect_format("off", &off, "ta");
	expect_format("TUF", &tuf, "toac");
	expect_format("TUF with markers", &tuf_markers, "tosm");
	expect_format("segments", &segments, "toa");
}

static void modes_are_the_user_s(void)
{
	EXPECT_EQ(TUF_OFF, mpa_format_mode(&off), "off");
	EXPECT_EQ(TUF_ALIGN, mpa_format_mode(&tuf), "in segments");
	EXPECT_EQ(TUF_MARKERS, mpa_format_mode(&tuf_markers), "with markers");
	EXPECT_EQ(TUF_SEGMENTS, mpa_format_mode(&segments), "without headers");
}

static void intervals_are_known(void)
{
	EXPECT_EQ(512, mpa_format_interval(&plain), "of MPA");
	EXPECT_EQ(512, mpa_format_interval(&marked), "of MPA with markers");
	EXPECT_EQ(2048, mpa_format_interval(&tuf_markers), "of TUF's default");
	for (u32 shift = 7; shift <= 15; shift++) {
		struct mpa_format format = {
			.framing = MPA_FRAMING_POINTERS, .period = shift,
		};
		u32 period = TUF_PERIOD_MIN << (shift - 7);

		EXPECT_EQ(period, mpa_format_interval(&format), "of TUF, %u",
			  shift);
	}
	EXPECT_EQ(32768, TUF_PERIOD_MAX, "the longest");
}

static void expect_same(const struct mpa_fpdu *a, const struct mpa_fpdu *b)
{
	EXPECT_EQ(a->pos, b->pos, "pos");
	EXPECT_EQ(a->ulpdu_len, b->ulpdu_len, "ulpdu_len");
	EXPECT_EQ(a->head, b->head, "head");
	EXPECT_EQ(a->len, b->len, "len");
	EXPECT_EQ(a->markers, b->markers, "markers");
	EXPECT_EQ(a->marked, b->marked, "marked");
	EXPECT_EQ(a->framing, b->framing, "framing");
	EXPECT_EQ(a->period, b->period, "period");
	EXPECT_EQ(a->wrong_key, b->wrong_key, "wrong key");
}

static void framing_of_mpa_is_laid_out_as_ever(void)
{
	struct mpa_fpdu expected, seen;

	for (u32 pos = -512; pos != 1024; pos += 4) {
		for (u32 len = 0; len < 65536; len += len < 40 ? 1 : 509) {
			for (u32 markers = 0; markers < 2; markers++) {
				memset(&expected, 0xff, sizeof(expected));
				memset(&seen, 0xff, sizeof(seen));
				mpa_fpdu_init(&expected, pos, len, markers);
				mpa_framing_init(&seen, pos, len,
						 markers ? &marked : &plain);
				expect_same(&expected, &seen);
				EXPECT_EQ(MPA_FRAMING_MPA, seen.framing,
					  "framing");
			}
		}
	}
}

static void framing_of_mpa_has_the_same_sizes(void)
{
	for (u32 n = 0; n < 70000; n += n < 2100 ? 1 : 101) {
		EXPECT_EQ(mpa_mulpdu(n, false), mpa_framing_mulpdu(&plain, n),
			  "MULPDU with an EMSS of %u", n);
		EXPECT_EQ(mpa_mulpdu(n, true), mpa_framing_mulpdu(&marked, n),
			  "MULPDU with markers and an EMSS of %u", n);
		EXPECT_EQ(mpa_fpdu_fill(508, n, false),
			  mpa_framing_fill(&plain, 508, n),
			  "ULPDU that fits %u octets", n);
		EXPECT_EQ(mpa_fpdu_fill(508, n, true),
			  mpa_framing_fill(&marked, 508, n),
			  "ULPDU that fits %u octets with markers", n);
	}
	for (u32 pos = -1024; pos != 1024; pos += 4) {
		EXPECT_EQ(2, mpa_framing_head_len(&plain, pos), "head at %u",
			  pos);
		EXPECT_EQ(pos % 512 ? 2 : 6,
			  mpa_framing_head_len(&marked, pos),
			  "head with markers at %u", pos);
		EXPECT_EQ(64768, mpa_framing_max(&plain, pos),
			  "longest ULPDU at %u", pos);
		EXPECT_EQ(64768, mpa_framing_max(&marked, pos),
			  "longest ULPDU with markers at %u", pos);
	}
}

/* Unlike with TUF, reserved octets and low bits do not matter. */
static void framing_of_mpa_checks_fpduptr(void)
{
	static u8 ulpdu[1200], octets[1400];
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, 508, sizeof(ulpdu), true);
	EXPECT_EQ(fpdu.len, engine_send(508, true, ulpdu, sizeof(ulpdu),
					octets), "octets sent");
	EXPECT_EQ(true, mpa_framing_markers_good(&fpdu, octets), "all markers");
	for (u32 nth = 0; nth < 3; nth++) {
		u32 at = 4 + 512 * nth;

		for (u32 bit = 0; bit < 32; bit++) {
			bool good = bit < 16 || bit == 24 || bit == 25;

			octets[at + bit / 8] ^= 1 << bit % 8;
			EXPECT_EQ(good, mpa_framing_marker_good(&fpdu, at,
								octets + at),
				  "marker at %u with bit %u flipped", at, bit);
			EXPECT_EQ(good, mpa_framing_markers_good(&fpdu, octets),
				  "all markers then");
			octets[at + bit / 8] ^= 1 << bit % 8;
		}
	}
}

/* The functions for both framings, and TUF's own, have the same results. */
static void expect_same_runs(const struct mpa_fpdu *fpdu)
{
	struct mpa_field_span expected, seen;

	for (u32 at = 0; at < fpdu->len; at += 13) {
		mpa_alt_field_at(fpdu, at, &expected);
		mpa_fpdu_field_at(fpdu, at, &seen);
		EXPECT_EQ(expected.field, seen.field, "run at %u: field", at);
		EXPECT_EQ(expected.off, seen.off, "run at %u: off", at);
		EXPECT_EQ(expected.skip, seen.skip, "run at %u: skip", at);
		EXPECT_EQ(expected.len, seen.len, "run at %u: len", at);
	}
	for (u32 nth = 0; nth <= fpdu->ulpdu_len; nth += 13)
		EXPECT_EQ(mpa_alt_offset(fpdu, nth), mpa_fpdu_offset(fpdu, nth),
			  "offset of octet %u of the ULPDU", nth);
}

static void framing_of_tuf_is_laid_out_by_its_functions(void)
{
	static const struct mpa_format *const formats[] = {
		&off, &tuf, &tuf_markers, &segments,
	};
	struct mpa_fpdu expected, seen;

	for (u32 i = 0; i < ARRAY_SIZE(formats); i++) {
		for (u32 pos = -40; pos != 40; pos++) {
			for (u32 len = 1; len < 5000; len += 41) {
				memset(&expected, 0xff, sizeof(expected));
				memset(&seen, 0xff, sizeof(seen));
				mpa_alt_init(&expected, pos, len, formats[i]);
				mpa_framing_init(&seen, pos, len, formats[i]);
				expect_same(&expected, &seen);
				if (len < 1000)
					expect_same_runs(&seen);
				EXPECT_EQ(mpa_alt_mulpdu(formats[i], len),
					  mpa_framing_mulpdu(formats[i], len),
					  "MULPDU with an EMSS of %u", len);
				EXPECT_EQ(mpa_alt_room(formats[i], pos, len),
					  mpa_framing_fill(formats[i], pos,
							   len),
					  "ULPDU that fits %u octets", len);
			}
			EXPECT_EQ(mpa_alt_head_len(formats[i], pos),
				  mpa_framing_head_len(formats[i], pos),
				  "head at %u", pos);
			EXPECT_EQ(mpa_alt_room(formats[i], pos, 65536),
				  mpa_framing_max(formats[i], pos),
				  "longest ULPDU at %u", pos);
		}
	}
	EXPECT_EQ(65528, mpa_framing_max(&tuf, 0), "longest ULPDU of TUF");
	EXPECT_EQ(65400, mpa_framing_max(&tuf_markers, 0),
		  "longest ULPDU with markers");
}

const struct unit_test framing_tests[] = {
	UNIT_TEST(formats_are_distinguished),
	UNIT_TEST(modes_are_the_user_s),
	UNIT_TEST(intervals_are_known),
	UNIT_TEST(framing_of_mpa_is_laid_out_as_ever),
	UNIT_TEST(framing_of_mpa_has_the_same_sizes),
	UNIT_TEST(framing_of_mpa_checks_fpduptr),
	UNIT_TEST(framing_of_tuf_is_laid_out_by_its_functions),
	{ }
};
