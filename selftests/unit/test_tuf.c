// SPDX-License-Identifier: GPL-2.0
/* FPDUs of TUF, each calculated by hand, where off-by-one errors are likely. */

#include "tuf/layout.h"
#include "unit.h"

static const u8 key[TUF_KEY_LEN] = { 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6 };

static const struct mpa_format aligned = { .framing = MPA_FRAMING_KEYED };
static const struct mpa_format bare = { .framing = MPA_FRAMING_SEGMENTS };

static const u32 periods[] = {
	128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768,
};

static struct mpa_format marked(u32 period)
{
	struct mpa_format format = { .framing = MPA_FRAMING_POINTERS };

	while (period > 1) {
		format.period++;
		period /= 2;
	}
	return format;
}

static struct mpa_fpdu lay_out(u32 pos, u32 ulpdu_len, struct mpa_format format)
{
	struct mpa_fpdu fpdu;

	/* All fields must be set: begin with other values. */
	memset(&fpdu, 0xff, sizeof(fpdu));
	mpa_alt_init(&fpdu, pos, ulpdu_len, &format);
	EXPECT_EQ(pos, fpdu.pos, "pos");
	EXPECT_EQ(ulpdu_len, fpdu.ulpdu_len, "ulpdu_len");
	EXPECT_EQ(format.framing, fpdu.framing, "framing");
	EXPECT_EQ(format.period, fpdu.period, "period");
	EXPECT_EQ(false, fpdu.marked, "marked");
	EXPECT_EQ(false, fpdu.wrong_key, "wrong key");
	return fpdu;
}

static void expect_fpdu(const struct mpa_fpdu *fpdu, u32 len, u32 markers,
			u32 head)
{
	EXPECT_EQ(len, fpdu->len, "octets of the FPDU");
	EXPECT_EQ(markers, fpdu->markers, "markers");
	EXPECT_EQ(head, fpdu->head, "octets before the header");
}

static void expect_run(const struct mpa_fpdu *fpdu, u32 off,
		       enum mpa_field field, u32 skip, u32 len)
{
	struct mpa_field_span run;

	mpa_alt_field_at(fpdu, off, &run);
	EXPECT_EQ(off, run.off, "run at %u: off", off);
	EXPECT_EQ(field, run.field, "run at %u: field", off);
	EXPECT_EQ(skip, run.skip, "run at %u: skip", off);
	EXPECT_EQ(len, run.len, "run at %u: len", off);
}

static void expect_marker(const struct mpa_fpdu *fpdu, u32 off, u16 next)
{
	const u8 expected[] = { next >> 8, next, next >> 8, next };
	u8 seen[4];

	expect_run(fpdu, off, MPA_FIELD_MARKER, 0, 4);
	mpa_tuf_marker_put(fpdu, off, 0, seen, sizeof(seen));
	EXPECT_OCTETS(expected, seen, sizeof(seen), "marker at %u", off);
	EXPECT_EQ(true, mpa_alt_marker_good(fpdu, off, seen),
		  "marker at %u is good", off);
}

/* Write an FPDU, run by run. */
static void put_fpdu(const struct mpa_fpdu *fpdu, const char *ulpdu, u8 *to)
{
	struct mpa_field_span run;

	for (u32 off = 0; off < fpdu->len; off += run.len) {
		mpa_alt_field_at(fpdu, off, &run);
		if (run.field == MPA_FIELD_MARKER)
			mpa_tuf_marker_put(fpdu, off, run.skip, to + off,
					   run.len);
		else if (run.field == MPA_FIELD_LENGTH)
			mpa_tuf_put_header(fpdu, key, run.skip, to + off,
					   run.len);
		else
			memcpy(to + off, ulpdu + run.skip, run.len);
	}
}

/* Write an FPDU's first octets: the header, with one marker. */
static void put_fpdu_head(const struct mpa_fpdu *fpdu, u8 *head)
{
	struct mpa_field_span run;

	for (u32 off = 0; off < MPA_TUF_HEAD_MAX; off++) {
		mpa_alt_field_at(fpdu, off, &run);
		if (run.field == MPA_FIELD_MARKER)
			mpa_tuf_marker_put(fpdu, off - run.skip, run.skip,
					   head + off, 1);
		else if (run.field == MPA_FIELD_LENGTH)
			mpa_tuf_put_header(fpdu, key, run.skip, head + off, 1);
	}
}

/* Parse text: two digits are an octet, and spaces end fields. */
static u32 octets_of(const char *text, u8 *octets)
{
	static const char digits[] = "0123456789abcdef";
	u32 n = 0;

	for (; *text; text++) {
		if (*text == ' ')
			continue;
		octets[n / 2] = octets[n / 2] << 4 |
				(strchr(digits, *text) - digits);
		n++;
	}
	return n / 2;
}

static void expect_octets(struct mpa_format format, u32 pos, const char *ulpdu,
			  const char *text)
{
	struct mpa_fpdu fpdu = lay_out(pos, strlen(ulpdu), format);
	u8 seen[64], expected[64];

	EXPECT_EQ(octets_of(text, expected), fpdu.len, "octets of the FPDU");
	put_fpdu(&fpdu, ulpdu, seen);
	EXPECT_OCTETS(expected, seen, fpdu.len, "FPDU");
	EXPECT_EQ(MPA_ERR_NONE, mpa_verify_linear(&fpdu, seen, false),
		  "verdict on it");
}

/* ---- vectors ---- */

static void tuf_fpdu_is_length_key_and_ulpdu(void)
{
	expect_octets(aligned, 0, "hello",
		      "0005c1c2c3c4c5c6 68656c6c6f");
	expect_octets(aligned, 77, "x",
		      "0001c1c2c3c4c5c6 78");
}

static void tuf_stream_begins_with_a_marker_of_zero(void)
{
	expect_octets(marked(128), 0, "hi",
		      "00000000 0002c1c2c3c4c5c6 6869");
	/* Each FPDU that begins where a marker is due has the marker first. */
	expect_octets(marked(128), 384, "hi",
		      "00000000 0002c1c2c3c4c5c6 6869");
	expect_octets(marked(2048), 384, "hi",
		      "0002c1c2c3c4c5c6 6869");
}

/*
 * The marker comes before each octet of the header except the first, which starts the
 * stream.
 */
static void tuf_marker_cuts_a_header_at_any_place(void)
{
	const struct mpa_format format = marked(256);

	expect_octets(format, 255, "ab",
		      "00 00090009 02c1c2c3c4c5c6 6162");
	expect_octets(format, 254, "ab",
		      "0002 00080008 c1c2c3c4c5c6 6162");
	expect_octets(format, 253, "ab",
		      "0002c1 00070007 c2c3c4c5c6 6162");
	expect_octets(format, 252, "ab",
		      "0002c1c2 00060006 c3c4c5c6 6162");
	expect_octets(format, 251, "ab",
		      "0002c1c2c3 00050005 c4c5c6 6162");
	expect_octets(format, 250, "ab",
		      "0002c1c2c3c4 00040004 c5c6 6162");
	expect_octets(format, 249, "ab",
		      "0002c1c2c3c4c5 00030003 c6 6162");
	expect_octets(format, 248, "ab",
		      "0002c1c2c3c4c5c6 00020002 6162");
	expect_octets(format, 247, "ab",
		      "0002c1c2c3c4c5c6 61 00010001 62");
	expect_octets(format, 246, "ab",
		      "0002c1c2c3c4c5c6 6162");
}

static void tuf_segments_have_no_header(void)
{
	struct mpa_fpdu fpdu;

	expect_octets(bare, 0, "hello", "68656c6c6f");
	expect_octets(bare, 128, "x", "78");
	fpdu = lay_out(5, 1000, bare);
	expect_run(&fpdu, 0, MPA_FIELD_ULPDU, 0, 1000);
	expect_run(&fpdu, 999, MPA_FIELD_ULPDU, 999, 1);
	EXPECT_EQ(0, mpa_alt_offset(&fpdu, 0), "offset of octet 0");
	EXPECT_EQ(7, mpa_alt_offset(&fpdu, 7), "offset of octet 7");
	EXPECT_EQ(1000, mpa_alt_offset(&fpdu, 1000), "offset of the end");
	fpdu = lay_out(0, 0, bare);
	expect_fpdu(&fpdu, 0, 0, 0);
	EXPECT_EQ(1460, mpa_alt_room(&bare, 0, 1460), "octets that fit 1460");
	EXPECT_EQ(1, mpa_alt_room(&bare, 0, 1), "octets that fit one");
	EXPECT_EQ(0, mpa_alt_room(&bare, 0, 0), "octets that fit none");
	EXPECT_EQ(65528, mpa_alt_room(&bare, 0, 70000), "octets at most");
	EXPECT_EQ(1460, mpa_alt_mulpdu(&bare, 1460), "MULPDU");
}

/* ---- layouts ---- */

static void tuf_aligned_fpdu_has_no_markers(void)
{
	struct mpa_format format = { .framing = MPA_FRAMING_KEYED, .period = 7 };
	static const u32 lens[] = { 1, 2, 120, 128, 65528, 65535 };

	for (u32 i = 0; i < ARRAY_SIZE(lens); i++) {
		struct mpa_fpdu fpdu = lay_out(128, lens[i], format);

		expect_fpdu(&fpdu, 8 + lens[i], 0, 0);
		expect_run(&fpdu, 0, MPA_FIELD_LENGTH, 0, 8);
		expect_run(&fpdu, 5, MPA_FIELD_LENGTH, 5, 3);
		expect_run(&fpdu, 8, MPA_FIELD_ULPDU, 0, lens[i]);
		expect_run(&fpdu, 7 + lens[i], MPA_FIELD_ULPDU, lens[i] - 1, 1);
		EXPECT_EQ(8, mpa_alt_offset(&fpdu, 0), "offset of octet 0");
		EXPECT_EQ(8 + lens[i], mpa_alt_offset(&fpdu, lens[i]),
			  "offset of the end");
		EXPECT_EQ(8, mpa_alt_head_len(&format, 128), "head");
	}
	EXPECT_EQ(65543, MPA_ANY_FPDU_MAX, "MPA_ANY_FPDU_MAX");
}

static void tuf_marker_cuts_a_ulpdu(void)
{
	struct mpa_fpdu fpdu = lay_out(100, 200, marked(128));

	/* 8 octets of header, 20 before the marker at 128, 124 before the next, and 56 */
	expect_fpdu(&fpdu, 8 + 200 + 2 * 4, 2, 0);
	expect_run(&fpdu, 0, MPA_FIELD_LENGTH, 0, 8);
	expect_run(&fpdu, 8, MPA_FIELD_ULPDU, 0, 20);
	expect_run(&fpdu, 27, MPA_FIELD_ULPDU, 19, 1);
	expect_marker(&fpdu, 28, 216 - 32);
	expect_run(&fpdu, 30, MPA_FIELD_MARKER, 2, 2);
	expect_run(&fpdu, 32, MPA_FIELD_ULPDU, 20, 124);
	expect_marker(&fpdu, 156, 216 - 160);
	expect_run(&fpdu, 160, MPA_FIELD_ULPDU, 144, 56);
	expect_run(&fpdu, 215, MPA_FIELD_ULPDU, 199, 1);
	EXPECT_EQ(27, mpa_alt_offset(&fpdu, 19), "offset of octet 19");
	EXPECT_EQ(32, mpa_alt_offset(&fpdu, 20), "offset of octet 20");
	EXPECT_EQ(155, mpa_alt_offset(&fpdu, 143), "offset of octet 143");
	EXPECT_EQ(160, mpa_alt_offset(&fpdu, 144), "offset of octet 144");
	EXPECT_EQ(216, mpa_alt_offset(&fpdu, 200), "offset of the end");
}

static void tuf_marker_before_the_last_octet(void)
{
	struct mpa_fpdu fpdu = lay_out(100, 21, marked(128));

	expect_fpdu(&fpdu, 33, 1, 0);
	expect_run(&fpdu, 8, MPA_FIELD_ULPDU, 0, 20);
	expect_marker(&fpdu, 28, 1);
	expect_run(&fpdu, 32, MPA_FIELD_ULPDU, 20, 1);
	EXPECT_EQ(27, mpa_alt_offset(&fpdu, 19), "offset of octet 19");
	EXPECT_EQ(32, mpa_alt_offset(&fpdu, 20), "offset of the last octet");
	EXPECT_EQ(33, mpa_alt_offset(&fpdu, 21), "offset of the end");
}

static void tuf_marker_after_the_last_octet_is_the_next_ones(void)
{
	struct mpa_fpdu fpdu = lay_out(100, 20, marked(128));

	expect_fpdu(&fpdu, 28, 0, 0);
	expect_run(&fpdu, 8, MPA_FIELD_ULPDU, 0, 20);
	EXPECT_EQ(28, mpa_alt_offset(&fpdu, 20), "offset of the end");
	fpdu = lay_out(128, 20, marked(128));
	expect_fpdu(&fpdu, 32, 1, 4);
	expect_marker(&fpdu, 0, 0);
	expect_run(&fpdu, 4, MPA_FIELD_LENGTH, 0, 8);
	expect_run(&fpdu, 12, MPA_FIELD_ULPDU, 0, 20);
	EXPECT_EQ(12, mpa_alt_offset(&fpdu, 0), "offset of octet 0");
}

static u32 leads_to(const struct mpa_format *format, u32 pos, const char *field)
{
	return mpa_alt_marker_fpdu(format, pos, (const u8 *)field);
}

/* The FPDU takes 120 to 256, where the next one begins with a marker. */
static void tuf_marker_counts_the_one_after_its_fpdu(void)
{
	struct mpa_fpdu fpdu = lay_out(120, 124, marked(128));
	const struct mpa_format format = marked(128);

	expect_fpdu(&fpdu, 136, 1, 0);
	expect_marker(&fpdu, 8, 128);
	/* A peer's marker may also point to that marker, but to nothing else. */
	for (u32 next = 0; next < 65536; next++) {
		u8 field[] = { next >> 8, next, next >> 8, next };
		bool good = next == 124 || next == 128;

		EXPECT_EQ(good, mpa_alt_marker_good(&fpdu, 8, field),
			  "marker of %u", next);
		if (good)
			EXPECT_EQ(256, mpa_alt_marker_fpdu(&format, 128, field),
				  "where a marker of %u leads to", next);
	}
	/* With one octet less there is no marker there. */
	fpdu = lay_out(120, 123, marked(128));
	expect_marker(&fpdu, 8, 123);
	for (u32 next = 0; next < 65536; next++) {
		u8 field[] = { next >> 8, next, next >> 8, next };

		EXPECT_EQ(next == 123, mpa_alt_marker_good(&fpdu, 8, field),
			  "marker of %u", next);
	}
	/* The marker before the header is 0, though one follows. */
	fpdu = lay_out(128, 116, marked(128));
	expect_fpdu(&fpdu, 128, 1, 4);
	expect_marker(&fpdu, 0, 0);
	EXPECT_EQ(false, mpa_alt_marker_good(&fpdu, 0, (const u8 *)"\0\x7c\0\x7c"),
		  "first marker that leads to the end");
	EXPECT_EQ(false, mpa_alt_marker_good(&fpdu, 0, (const u8 *)"\0\x80\0\x80"),
		  "first marker that leads to the next header");
}

/*
 * The two copies of the offset may be damaged separately, as they can be in two
 * segments: they must be equal.
 */
static void tuf_marker_of_two_copies_that_differ_is_bad(void)
{
	struct mpa_fpdu fpdu = lay_out(100, 200, marked(128));
	const struct mpa_format format = marked(128);
	u8 field[4];

	for (u32 bit = 0; bit < 32; bit++) {
		mpa_tuf_marker_put(&fpdu, 28, 0, field, sizeof(field));
		field[bit / 8] ^= 1 << bit % 8;
		EXPECT_EQ(false, mpa_alt_marker_good(&fpdu, 28, field),
			  "marker with bit %u flipped", bit);
		EXPECT_EQ(127, mpa_alt_marker_fpdu(&format, 128, field),
			  "where it leads to");
		/* Change both copies in the same way. */
		field[bit / 8 ^ 2] ^= 1 << bit % 8;
		EXPECT_EQ(false, mpa_alt_marker_good(&fpdu, 28, field),
			  "marker with bit %u of both flipped", bit);
	}
	EXPECT_EQ((u32)-1, leads_to(&format, 0, "\0\0\0\1"),
		  "where a first marker leads to that is bad");
}

static void tuf_marker_leads_to_its_fpdu(void)
{
	struct mpa_format format = marked(2048);

	EXPECT_EQ(0, leads_to(&format, 0, "\0\0\0\0"),
		  "FPDU of the first marker");
	EXPECT_EQ(4096, leads_to(&format, 4096, "\0\0\0\0"),
		  "FPDU after a marker");
	EXPECT_EQ(2053, leads_to(&format, 2048, "\0\1\0\1"),
		  "FPDU one octet after a marker");
	EXPECT_EQ(2048 + 4 + 0x1234,
		  leads_to(&format, 2048, "\x12\x34\x12\x34"),
		  "FPDU further on");
	EXPECT_EQ(2048 + 4 + 65535,
		  leads_to(&format, 2048, "\xff\xff\xff\xff"),
		  "FPDU as far as there may be one");
	/* 2044 octets to the next marker, 2048 to the header after it */
	EXPECT_EQ(4095, leads_to(&format, 2048, "\x7\xfb\x7\xfb"),
		  "FPDU before a marker");
	EXPECT_EQ(4096, leads_to(&format, 2048, "\x7\xfc\x7\xfc"),
		  "FPDU by the marker that it begins with");
	EXPECT_EQ(4096, leads_to(&format, 2048, "\x8\0\x8\0"),
		  "FPDU after that");
	EXPECT_EQ(4101, leads_to(&format, 2048, "\x8\1\x8\1"),
		  "FPDU an octet further");
	EXPECT_EQ(0, leads_to(&format, -2048, "\x8\0\x8\0"),
		  "FPDU at the wrap");
	EXPECT_EQ(0x1234 - 2044,
		  leads_to(&format, -2048, "\x12\x34\x12\x34"),
		  "FPDU across the wrap");
}

/* Half of the FPDU is before the wrap at 32 bits, and half after it. */
static void tuf_positions_wrap(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(periods); i++) {
		struct mpa_fpdu fpdu = lay_out(-10, 20, marked(periods[i]));

		expect_fpdu(&fpdu, 32, 1, 0);
		expect_run(&fpdu, 0, MPA_FIELD_LENGTH, 0, 8);
		expect_run(&fpdu, 8, MPA_FIELD_ULPDU, 0, 2);
		expect_marker(&fpdu, 10, 18);
		expect_run(&fpdu, 14, MPA_FIELD_ULPDU, 2, 18);
		EXPECT_EQ(9, mpa_alt_offset(&fpdu, 1), "offset of octet 1");
		EXPECT_EQ(14, mpa_alt_offset(&fpdu, 2), "offset of octet 2");

		/* one FPDU up to the wrap, and one from there */
		fpdu = lay_out(-10, 2, marked(periods[i]));
		expect_fpdu(&fpdu, 10, 0, 0);
		fpdu = lay_out(-periods[i], periods[i] - 12, marked(periods[i]));
		expect_fpdu(&fpdu, periods[i], 1, 4);
		expect_marker(&fpdu, 0, 0);
	}
}

static void tuf_markers_are_a_period_apart(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(periods); i++) {
		u32 period = periods[i], nr = 65536 / period;
		struct mpa_format format = marked(period);
		struct mpa_fpdu fpdu;

		unit_context("period %u", period);
		EXPECT_EQ(period, mpa_format_interval(&format), "interval");
		/* the longest FPDU: it ends where the next marker is due */
		fpdu = lay_out(0, 65536 - 4 * nr - 8, format);
		expect_fpdu(&fpdu, 65536, nr, 4);
		expect_marker(&fpdu, 0, 0);
		expect_run(&fpdu, 12, MPA_FIELD_ULPDU, 0, period - 12);
		for (u32 nth = 1; nth < nr; nth++) {
			u32 off = nth * period;

			expect_marker(&fpdu, off, 65536 - off);
			expect_run(&fpdu, off + 4, MPA_FIELD_ULPDU,
				   nth * (period - 4) - 8, period - 4);
		}
		expect_run(&fpdu, 65535, MPA_FIELD_ULPDU,
			   fpdu.ulpdu_len - 1, 1);
		for (u32 pos = 1; pos <= period; pos++) {
			EXPECT_EQ(period - pos, mpa_tuf_distance(pos, period),
				  "octets from %u to a marker", pos);
			EXPECT_EQ(pos % period, mpa_tuf_distance(-pos, period),
				  "octets from -%u to a marker", pos);
		}
		EXPECT_EQ(0, mpa_tuf_distance(0, period), "octets from 0");
	}
}

/* A peer may send any Length: the layout is computed before the Length is refused. */
static void tuf_layout_of_65535_octets_is_sound(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(periods); i++) {
		for (u32 pos = 0; pos < 12; pos++) {
			struct mpa_fpdu fpdu = lay_out(pos, 65535,
						       marked(periods[i]));
			u32 off = 0, ulpdu = 0, markers = 0;
			struct mpa_field_span run;

			for (; off < fpdu.len; off += run.len) {
				mpa_alt_field_at(&fpdu, off, &run);
				EXPECT_EQ(true, run.len > 0,
					  "run at %u is not empty", off);
				markers += run.field == MPA_FIELD_MARKER;
				if (run.field == MPA_FIELD_ULPDU)
					ulpdu += run.len;
			}
			EXPECT_EQ(fpdu.len, off, "octets of all runs");
			EXPECT_EQ(65535, ulpdu, "octets of the ULPDU's runs");
			EXPECT_EQ(fpdu.markers, markers, "markers");
		}
	}
}

/* ---- headers and markers in pieces ---- */

static void tuf_header_is_written_in_pieces(void)
{
	static const u8 header[] = "\xff\xf8\xc1\xc2\xc3\xc4\xc5\xc6";
	struct mpa_fpdu fpdu = lay_out(0, 65528, aligned);
	u8 seen[10], expected[10];

	for (u32 skip = 0; skip < 8; skip++) {
		for (u32 n = 0; n <= 8 - skip; n++) {
			memset(seen, 0xa5, sizeof(seen));
			memset(expected, 0xa5, sizeof(expected));
			memcpy(expected + 1, header + skip, n);
			mpa_tuf_put_header(&fpdu, key, skip, seen + 1, n);
			EXPECT_OCTETS(expected, seen, sizeof(seen),
				      "%u octets of a header from %u on", n,
				      skip);
		}
	}
}

static void tuf_marker_is_written_in_pieces(void)
{
	struct mpa_fpdu fpdu = lay_out(-4, 0x1234, marked(32768));
	static const u8 marker[] = "\x12\x38\x12\x38";
	u8 seen[6], expected[6];

	for (u32 skip = 0; skip < 4; skip++) {
		for (u32 n = 0; n <= 4 - skip; n++) {
			memset(seen, 0xa5, sizeof(seen));
			memset(expected, 0xa5, sizeof(expected));
			memcpy(expected + 1, marker + skip, n);
			mpa_tuf_marker_put(&fpdu, 4, skip, seen + 1, n);
			EXPECT_OCTETS(expected, seen, sizeof(seen),
				      "%u octets of a marker from %u on", n,
				      skip);
		}
	}
}

static void tuf_header_is_read_around_a_marker(void)
{
	u8 head[12], seen[TUF_KEY_LEN + 1], expected[TUF_KEY_LEN + 1];

	for (u32 i = 0; i < ARRAY_SIZE(periods); i++) {
		struct mpa_format format = marked(periods[i]);

		for (u32 before = 0; before <= 8; before++) {
			struct mpa_fpdu fpdu = lay_out(-before, 0xfedc, format);

			memset(head, 0x77, sizeof(head));
			put_fpdu_head(&fpdu, head);
			memset(seen, 0xa5, sizeof(seen));
			memset(expected, 0xa5, sizeof(expected));
			memcpy(expected, key, sizeof(key));
			EXPECT_EQ(before < 8 ? 12 : 8,
				  mpa_alt_head_len(&format, -before),
				  "head %u octets before a marker", before);
			EXPECT_EQ(0xfedc,
				  mpa_tuf_get_header(&format, -before, head,
						     seen),
				  "Length %u octets before a marker", before);
			EXPECT_OCTETS(expected, seen, sizeof(seen),
				      "key %u octets before a marker", before);
		}
		for (u32 pos = 1; pos <= periods[i] - 8; pos++)
			EXPECT_EQ(8, mpa_alt_head_len(&format, pos),
				  "head at %u", pos);
	}
	EXPECT_EQ(12, MPA_TUF_HEAD_MAX, "MPA_TUF_HEAD_MAX");
}

/* ---- verifying ---- */

#define VERIFIED	600

/* Build 600 octets with five markers, one of them in the header. */
static struct mpa_fpdu make_verified(u8 *octets)
{
	struct mpa_fpdu fpdu = lay_out(123, VERIFIED - 8 - 5 * 4, marked(128));
	static char ulpdu[VERIFIED];

	expect_fpdu(&fpdu, VERIFIED, 5, 0);
	put_fpdu(&fpdu, ulpdu, octets);
	return fpdu;
}

static bool in_marker(u32 off)
{
	return off >= 5 && (off - 5) % 128 < 4;
}

static void tuf_every_bit_of_a_marker_is_checked(void)
{
	u8 octets[VERIFIED];
	struct mpa_fpdu fpdu = make_verified(octets);

	EXPECT_EQ(MPA_ERR_NONE, mpa_verify_linear(&fpdu, octets, false),
		  "verdict on the FPDU as it is");
	for (u32 bit = 0; bit < 8 * VERIFIED; bit++) {
		bool good = !in_marker(bit / 8);

		octets[bit / 8] ^= 1 << bit % 8;
		EXPECT_EQ(good, mpa_alt_markers_good(&fpdu, octets),
			  "markers with bit %u of octet %u flipped", bit % 8,
			  bit / 8);
		EXPECT_EQ(good ? MPA_ERR_NONE : MPA_ERR_MARKER,
			  mpa_verify_linear(&fpdu, octets, false),
			  "verdict on the FPDU then");
		octets[bit / 8] ^= 1 << bit % 8;
	}
}

static enum mpa_error verify_pieces(const struct mpa_fpdu *fpdu,
				    const u8 *octets, u32 first, u32 piece)
{
	struct mpa_verify verify;

	mpa_verify_begin(&verify, fpdu, false);
	for (u32 off = 0, n = first; off < fpdu->len; off += n, n = piece) {
		n = min(n, fpdu->len - off);
		mpa_verify_octets(&verify, octets + off, n);
	}
	return mpa_verify_end(&verify);
}

static void tuf_fpdu_is_verified_in_pieces(void)
{
	u8 octets[VERIFIED];
	struct mpa_fpdu fpdu = make_verified(octets);

	for (u32 piece = 1; piece <= VERIFIED; piece++) {
		for (u32 bad = 0; bad < VERIFIED + 1; bad += bad < 9 ? 1 : 37) {
			bool good = !in_marker(bad);

			if (bad < VERIFIED)
				octets[bad] ^= 0x40;
			EXPECT_EQ(good ? MPA_ERR_NONE : MPA_ERR_MARKER,
				  verify_pieces(&fpdu, octets, piece, piece),
				  "verdict on pieces of %u, octet %u is bad",
				  piece, bad);
			EXPECT_EQ(good ? MPA_ERR_NONE : MPA_ERR_MARKER,
				  verify_pieces(&fpdu, octets, piece, VERIFIED),
				  "verdict on two pieces, octet %u is bad",
				  bad);
			if (bad < VERIFIED)
				octets[bad] ^= 0x40;
		}
	}
}

static int copy_octets(void *to, const u8 *data, u32 len)
{
	u8 **p = to;

	memcpy(*p, data, len);
	*p += len;
	return 0;
}

static void tuf_ulpdu_is_picked_around_markers(void)
{
	u8 octets[33 + 1], seen[21 + 1], *to;
	struct mpa_pick pick = { .copy = copy_octets, .to = &to };
	struct mpa_fpdu fpdu = lay_out(100, 21, marked(128));
	static const char ulpdu[] = "abcdefghijklmnopqrstu";

	put_fpdu(&fpdu, ulpdu, octets);
	for (u32 first = 0; first <= 21; first++) {
		for (u32 piece = 1; piece <= 33; piece++) {
			u32 n;

			to = seen;
			mpa_pick_begin(&pick, &fpdu, first);
			for (u32 off = pick.off; off < 33; off += n) {
				n = min(piece, 33 - off);
				EXPECT_EQ(0, mpa_pick_octets(&pick,
							     octets + off, n),
					  "what the walk returns");
			}
			EXPECT_EQ(21 - first, to - seen, "octets from %u on",
				  first);
			EXPECT_OCTETS((const u8 *)ulpdu + first, seen,
				      21 - first, "ULPDU from octet %u on",
				      first);
		}
	}
}

/* ---- what fits ---- */

static void tuf_mulpdu_is_emss_without_a_header(void)
{
	static const struct {
		u32 emss, aligned, bare;
	} known[] = {
		{ 0, 128, 128 }, { 8, 128, 128 }, { 100, 128, 128 },
		{ 128, 128, 128 }, { 129, 128, 129 }, { 136, 128, 136 },
		{ 137, 129, 137 }, { 512, 504, 512 }, { 536, 528, 536 },
		{ 1460, 1452, 1460 }, { 8948, 8940, 8948 },
		{ 65483, 65475, 65483 }, { 65528, 65520, 65528 },
		{ 65535, 65527, 65528 }, { 65536, 65528, 65528 },
		{ 65537, 65528, 65528 }, { 100000, 65528, 65528 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(known); i++) {
		EXPECT_EQ(known[i].aligned,
			  mpa_alt_mulpdu(&aligned, known[i].emss),
			  "MULPDU with an EMSS of %u", known[i].emss);
		EXPECT_EQ(known[i].bare, mpa_alt_mulpdu(&bare, known[i].emss),
			  "MULPDU without headers, EMSS %u", known[i].emss);
	}
}

/* Any start of an FPDU, and any segment */
static void tuf_mulpdu_with_markers_fits_everywhere(void)
{
	static const u32 mulpdus[] = {
		63480, 64504, 65016, 65272, 65400, 65464, 65496, 65512, 65520,
	};

	for (u32 i = 0; i < ARRAY_SIZE(periods); i++) {
		const struct mpa_format format = marked(periods[i]);
		u32 least = (u32)-1, room;

		EXPECT_EQ(mulpdus[i], mpa_alt_mulpdu(&format, 1460),
			  "MULPDU with a period of %u", periods[i]);
		EXPECT_EQ(mulpdus[i], mpa_alt_mulpdu(&format, 100),
			  "MULPDU with a period of %u, small EMSS", periods[i]);
		EXPECT_EQ(mulpdus[i], mpa_tuf_limit(&format, 100),
			  "longest ULPDU with a small EMSS");
		for (u32 pos = 0; pos < periods[i]; pos++) {
			room = mpa_alt_room(&format, pos, 65536);
			least = min(least, room);
		}
		EXPECT_EQ(mulpdus[i], least,
			  "largest ULPDU at any place, period %u", periods[i]);
	}
}

/* -00: "when EMSS < 512, PDUs up to 512 octets are accepted" */
static void tuf_emergency_lets_512_octets_pass(void)
{
	EXPECT_EQ(512, mpa_tuf_limit(&aligned, 0), "with an EMSS of 0");
	EXPECT_EQ(512, mpa_tuf_limit(&aligned, 128), "with an EMSS of 128");
	EXPECT_EQ(512, mpa_tuf_limit(&aligned, 511), "with an EMSS of 511");
	EXPECT_EQ(504, mpa_tuf_limit(&aligned, 512), "with an EMSS of 512");
	EXPECT_EQ(512, mpa_tuf_limit(&aligned, 520), "with an EMSS of 520");
	EXPECT_EQ(1452, mpa_tuf_limit(&aligned, 1460), "with one of 1460");
	/* Emergency mode is part of PDU alignment mode. */
	EXPECT_EQ(511, mpa_tuf_limit(&bare, 511), "without headers, 511");
	EXPECT_EQ(128, mpa_tuf_limit(&bare, 100), "without headers, 100");
}

static void tuf_room_leaves_out_a_last_marker(void)
{
	const struct mpa_format format = marked(128);

	/* 28 octets remain before the marker at 128. */
	EXPECT_EQ(20, mpa_alt_room(&format, 100, 28), "up to the marker");
	for (u32 room = 29; room <= 32; room++)
		EXPECT_EQ(20, mpa_alt_room(&format, 100, room),
			  "up to octet %u of the marker", room - 28);
	EXPECT_EQ(21, mpa_alt_room(&format, 100, 33), "an octet after it");
	EXPECT_EQ(144, mpa_alt_room(&format, 100, 160), "after two");
	EXPECT_EQ(145, mpa_alt_room(&format, 100, 161), "and an octet");
	/* This needs a marker, a header and an octet. */
	EXPECT_EQ(0, mpa_alt_room(&format, 0, 0), "no space");
	EXPECT_EQ(0, mpa_alt_room(&format, 0, 12), "space for a header");
	EXPECT_EQ(1, mpa_alt_room(&format, 0, 13), "space for an octet");
	EXPECT_EQ(0, mpa_alt_room(&aligned, 0, 8), "space for a header");
	EXPECT_EQ(1, mpa_alt_room(&aligned, 0, 9), "space for an octet");
	EXPECT_EQ(65528, mpa_alt_room(&aligned, 0, (u32)-1), "any space");
}

/* ---- keys ---- */

static bool finds(const char *text, const char *data, u32 len)
{
	struct mpa_tuf_key search;

	memset(&search, 0xff, sizeof(search));
	mpa_tuf_set_key(&search, (const u8 *)text);
	EXPECT_OCTETS((const u8 *)text, search.key, TUF_KEY_LEN, "key");
	return mpa_tuf_finds(&search, (const u8 *)data, len);
}

static void tuf_key_is_found(void)
{
	EXPECT_EQ(true, finds("abcdef", "abcdef", 6), "key alone");
	EXPECT_EQ(false, finds("abcdef", "abcdef", 5), "all but an octet");
	EXPECT_EQ(false, finds("abcdef", "bcdefa", 6), "another one");
	EXPECT_EQ(false, finds("abcdef", "", 0), "nothing");
	EXPECT_EQ(true, finds("abcdef", "abcdeabcdef", 11), "key after most of it");
	EXPECT_EQ(false, finds("abcdef", "abcdeabcdef", 10), "cut key");
	/* The key's first octets occur again where the search may continue. */
	EXPECT_EQ(true, finds("ababab", "abaabbababab", 12), "repeated key");
	EXPECT_EQ(true, finds("ababab", "aababab", 7), "key after an a");
	EXPECT_EQ(true, finds("ababab", "bababab", 7), "key after a b");
	EXPECT_EQ(false, finds("ababab", "babababaabab", 6), "babab, a");
	EXPECT_EQ(true, finds("aaaaaa", "aaaaabaaaaaa", 12), "the same octet");
	EXPECT_EQ(false, finds("aaaaaa", "aaaaabaaaaab", 12), "five and five");
	EXPECT_EQ(true, finds("aaaaab", "aaaaaaaab", 9), "b after many a");
	EXPECT_EQ(true, finds("baaaaa", "bbbbaaaaa", 9), "many b before it");
	EXPECT_EQ(true, finds("abcabc", "abcababcabc", 11), "two of three");
}

const struct unit_test tuf_tests[] = {
	UNIT_TEST(tuf_fpdu_is_length_key_and_ulpdu),
	UNIT_TEST(tuf_stream_begins_with_a_marker_of_zero),
	UNIT_TEST(tuf_marker_cuts_a_header_at_any_place),
	UNIT_TEST(tuf_segments_have_no_header),
	UNIT_TEST(tuf_aligned_fpdu_has_no_markers),
	UNIT_TEST(tuf_marker_cuts_a_ulpdu),
	UNIT_TEST(tuf_marker_before_the_last_octet),
	UNIT_TEST(tuf_marker_after_the_last_octet_is_the_next_ones),
	UNIT_TEST(tuf_marker_counts_the_one_after_its_fpdu),
	UNIT_TEST(tuf_marker_of_two_copies_that_differ_is_bad),
	UNIT_TEST(tuf_marker_leads_to_its_fpdu),
	UNIT_TEST(tuf_positions_wrap),
	UNIT_TEST(tuf_markers_are_a_period_apart),
	UNIT_TEST(tuf_layout_of_65535_octets_is_sound),
	UNIT_TEST(tuf_header_is_written_in_pieces),
	UNIT_TEST(tuf_marker_is_written_in_pieces),
	UNIT_TEST(tuf_header_is_read_around_a_marker),
	UNIT_TEST(tuf_every_bit_of_a_marker_is_checked),
	UNIT_TEST(tuf_fpdu_is_verified_in_pieces),
	UNIT_TEST(tuf_ulpdu_is_picked_around_markers),
	UNIT_TEST(tuf_mulpdu_is_emss_without_a_header),
	UNIT_TEST(tuf_mulpdu_with_markers_fits_everywhere),
	UNIT_TEST(tuf_emergency_lets_512_octets_pass),
	UNIT_TEST(tuf_room_leaves_out_a_last_marker),
	UNIT_TEST(tuf_key_is_found),
	{ }
};
