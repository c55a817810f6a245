// SPDX-License-Identifier: GPL-2.0
/* Compare the protocol layer with the model, for random streams. */

#include "compare.h"
#include "random.h"

/* Return: a length near a multiple of the octets between two markers, or of the interval. */
static u32 near_multiple(u32 times)
{
	u32 step = below(2) ? 508 : 512;

	return step * one_from(1, times) - 8 + below(17);
}

static u32 random_length(void)
{
	/* Long ULPDUs take most of the time: one in a hundred is sufficient. */
	switch (below(300)) {
	case 0:
		return one_from(64760, MPA_ULPDU_MAX);
	case 1:
		return min_t(u32, near_multiple(127), MPA_ULPDU_MAX);
	case 2:
		return one_from(1, MPA_ULPDU_MAX);
	}
	switch (below(8)) {
	case 0:
		return 0;
	case 1:
	case 2:
		return one_from(1, 8);
	case 3:
		return one_from(500, 520);
	case 4:
		return near_multiple(3);
	case 5:
		return one_from(1, 1500);
	default:
		return one_from(1, 120);
	}
}

static u64 random_position(void)
{
	switch (below(4)) {
	case 0:
		return 0;
	case 1:
		return 4 * below(512);
	case 2:
		/* The position wraps within the stream, or soon after it. */
		return (1ULL << 32) - 4 * one_from(1, 1024);
	default:
		/* The position may have wrapped many times. */
		return random64() >> 8 & ~3ULL;
	}
}

static void model_knows_the_vectors(void)
{
	static const u8 crc[2][4] = {
		{ 0x52, 0x23, 0x99, 0x83 },
		{ 0x84, 0x92, 0x58, 0x98 },
	};
	const struct model_octet *octets;
	u8 ulpdu[42] = { 0x41, 0x43 };
	size_t count;

	for (u32 figure = 0; figure < 2; figure++) {
		ulpdu[13] = figure + 1;
		compare_stream_begin(figure ? 0x1ec : 0, true);
		compare_send(ulpdu, sizeof(ulpdu));
		octets = compare_stream(&count);
		EXPECT_EQ(0x34, count, "octets of figure %u", figure + 5);
		for (u32 i = 0; i < 4; i++)
			EXPECT_EQ(crc[figure][i], octets[0x30 + i].value,
				  "octet %u of the CRC in figure %u", i,
				  figure + 5);
	}
}

static void model_divides_alike_by_hand_and_by_table(void)
{
	static u8 octets[2048];
	size_t count;
	u8 crc[4];

	fill_pool();
	for (u32 i = 0; i < 200; i++) {
		state = i;
		compare_stream_begin(random_position(), i & 1);
		compare_append(random_ulpdu(), below(1500));
		compare_stream(&count);
		compare_stream_octets(octets);
		model_crc(octets, count - 4, crc);
		EXPECT_OCTETS(crc, octets + count - 4, 4, "CRC of FPDU %u", i);
	}
}

/* Compare the model's layout of two octets with the octets that it sends. */
static void model_counts_as_it_sends(void)
{
	fill_pool();
	for (u32 i = 0; i < 4000; i++) {
		struct model_layout layout = { 0 };
		const struct model_octet *octets;
		u32 off, end, head = 0, run = 1;
		size_t count;

		state = i;
		layout.position = random_position();
		layout.markers = below(4);
		layout.len = below(4) ? below(40) : below(1500);
		layout.nth = below(layout.len + 1);
		compare_stream_begin(layout.position, layout.markers);
		compare_append(random_ulpdu(), layout.len);
		octets = compare_stream(&count);
		layout.off = below(count);
		off = layout.off;
		model_layout(&layout);

		unit_context("octet %u of FPDU %u", off, i);
		EXPECT_EQ(count, layout.octets, "octets");
		while (octets[head].field != MODEL_LENGTH)
			head++;
		EXPECT_EQ(head, layout.head, "octets before ULPDU_Length");
		EXPECT_EQ(octets[off].field, layout.field, "field");
		EXPECT_EQ(octets[off].nth, layout.field_nth, "octet of it");
		while (off + run < count &&
		       octets[off + run].field == octets[off].field &&
		       octets[off + run].nth == octets[off].nth + run)
			run++;
		EXPECT_EQ(run, layout.run, "run");
		if (octets[off].field == MODEL_MARKER && !octets[off].nth)
			EXPECT_EQ(octets[off + 2].value << 8 |
				  octets[off + 3].value, layout.fpduptr,
				  "FPDUPTR");
		for (off = end = 0; off < count; off++) {
			if (octets[off].field == MODEL_ULPDU &&
			    octets[off].nth == layout.nth)
				break;
			if (octets[off].field == MODEL_LENGTH ||
			    octets[off].field == MODEL_ULPDU)
				end = off + 1;
		}
		EXPECT_EQ(off == count ? end : off, layout.ulpdu_off,
			  "offset of octet %u of the ULPDU", layout.nth);
	}
}

static void one_stream(void)
{
	u32 fpdus = one_from(1, COMPARE_FPDUS);
	static u8 octets[COMPARE_OCTETS];
	u64 position = random_position();
	bool markers = below(4);
	size_t count;

	compare_stream_begin(position, markers);
	for (u32 i = 0; i < fpdus; i++)
		compare_send(random_ulpdu(), random_length());

	compare_stream(&count);
	compare_stream_octets(octets);
	EXPECT_EQ(fpdus, compare_receive(position, markers, true, octets,
					 count), "ULPDUs received");
}

static void model_and_layer_0_make_the_same_streams(void)
{
	fill_pool();
	for (u32 i = 0; i < unit_streams; i++) {
		begin_stream(__func__, i);
		one_stream();
	}
}

static void one_damaged_stream(void)
{
	u32 fpdus = one_from(1, COMPARE_FPDUS);
	static u8 octets[COMPARE_OCTETS];
	u64 position = random_position();
	bool markers = below(4);
	bool crc = below(2);
	size_t count;

	compare_stream_begin(position, markers);
	for (u32 i = 0; i < fpdus; i++)
		compare_send(random_ulpdu(), below(4) ? one_from(1, 80) :
							one_from(1, 2000));
	count = damaged_stream(octets);
	compare_receive(position, markers, crc, octets, count);
}

static void model_and_layer_0_agree_on_damaged_streams(void)
{
	fill_pool();
	for (u32 i = 0; i < unit_streams; i++) {
		begin_stream(__func__, i);
		one_damaged_stream();
	}
}

static void model_and_layer_0_agree_on_startup_frames(void)
{
	static const char *const keys[] = {
		"MPA ID Req Frame", "MPA ID Rep Frame",
	};
	u8 frame[MPA_FRAME_LEN];

	for (u32 i = 0; i < unit_streams; i++) {
		begin_stream(__func__, i);
		memcpy(frame, keys[below(2)], MPA_KEY_LEN);
		for (u32 at = MPA_KEY_LEN; at < sizeof(frame); at++)
			frame[at] = random64();
		if (below(2))
			frame[18] = below(3);
		if (!below(3))
			frame[below(sizeof(frame))] ^= 1 << below(8);
		for (u32 len = 0; len <= sizeof(frame); len++) {
			compare_startup(frame, len, MPA_REQUEST);
			compare_startup(frame, len, MPA_REPLY);
		}
	}
}

static void model_and_layer_0_agree_on_enhanced_data(void)
{
	u8 octets[MPA_ENHANCED_LEN];

	/* Use all values of each half, with limits of the other half. */
	for (u32 half = 0; half < 65536; half++) {
		static const u16 others[] = {
			0, 1, 0x3fff, 0x4000, 0x8000, 0xc000, 0xffff, 0xaaaa,
		};

		for (u32 i = 0; i < ARRAY_SIZE(others); i++) {
			octets[0] = half >> 8;
			octets[1] = half;
			octets[2] = others[i] >> 8;
			octets[3] = others[i];
			unit_context("enhanced data %04x %04x", half,
				     others[i]);
			compare_enhanced(octets);
			octets[2] = half >> 8;
			octets[3] = half;
			octets[0] = others[i] >> 8;
			octets[1] = others[i];
			unit_context("enhanced data %04x %04x", others[i],
				     half);
			compare_enhanced(octets);
		}
	}
}

const struct unit_test model_tests[] = {
	UNIT_TEST(model_knows_the_vectors),
	UNIT_TEST(model_divides_alike_by_hand_and_by_table),
	UNIT_TEST(model_counts_as_it_sends),
	UNIT_TEST(model_and_layer_0_agree_on_startup_frames),
	UNIT_TEST(model_and_layer_0_agree_on_enhanced_data),
	UNIT_TEST(model_and_layer_0_agree_on_damaged_streams),
	UNIT_TEST(model_and_layer_0_make_the_same_streams),
	{ }
};
