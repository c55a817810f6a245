// SPDX-License-Identifier: GPL-2.0
/* Compare the protocol layer with the model, for random and systematic streams of TUF. */

#include "random.h"
#include "tuf_compare.h"

/* Return: a framing for a number: each period, and none. */
static struct mpa_format numbered_format(u32 nth)
{
	struct mpa_format format = { .framing = MPA_FRAMING_KEYED };

	nth %= 10;
	if (nth < 9) {
		format.framing = MPA_FRAMING_POINTERS;
		format.period = 7 + nth;
	}
	return format;
}

/* Return: the typical distance between events in the stream. */
static u32 step_of(const struct mpa_format *format)
{
	return format->framing == MPA_FRAMING_POINTERS ?
	       mpa_format_interval(format) : 2048;
}

static struct mpa_format random_format(void)
{
	/* Short periods have more markers. */
	return numbered_format(below(2) ? below(3) : below(10));
}

static u64 random_position(u32 interval)
{
	switch (below(5)) {
	case 0:
		return 0;
	case 1:
		return below(2 * interval);
	case 2:
		/* The position wraps within the stream, or soon after it. */
		return (1ULL << 32) - one_from(1, 3000);
	case 3:
		/* A marker is due near this position. */
		return (u64)interval * below(1 << 20) + 32 * interval - 12 +
		       below(24);
	default:
		/* The position may have wrapped many times. */
		return random64() >> 8;
	}
}

/* Long ULPDUs are rare: they would take most of the time. */
static u32 random_length(u32 interval)
{
	switch (below(400)) {
	case 0:
		return one_from(65500, 65535);
	case 1:
		return one_from(1, 65535);
	}
	switch (below(8)) {
	case 0:
	case 1:
		return one_from(1, 8);
	case 2:
		return one_from(500, 520);
	case 3:
		/* The ULPDU ends near a marker's place. */
		return min_t(u32, interval, 2048) * one_from(1, 3) - one_from(1, 24);
	case 4:
		return one_from(1, 1500);
	default:
		return one_from(1, 120);
	}
}

/* Return: @len, or less if an FPDU with markers at @position has less space. */
static u32 that_fits(u64 position, const struct mpa_format *format, u32 len)
{
	struct tuf_model_framing framing = { 0 };

	if (format->framing != MPA_FRAMING_POINTERS || len < 60000)
		return len;
	framing.period = 1 << format->period;
	return min_t(u32, len, tuf_model_room(&framing, position, 65536));
}

static u32 random_fpdus(u64 *position, struct mpa_format *format, bool looked_at)
{
	u32 fpdus = one_from(1, COMPARE_FPDUS), interval, len;
	const struct model_fpdu *fpdu;
	u8 key[TUF_KEY_LEN];
	u64 at;

	*format = random_format();
	interval = step_of(format);
	*position = random_position(interval);
	for (u32 i = 0; i < sizeof(key); i++)
		key[i] = random64();
	tuf_compare_begin(*position, format, key);
	at = *position;
	for (u32 i = 0; i < fpdus; i++) {
		len = that_fits(at, format, random_length(interval));
		fpdu = looked_at ? compare_send(random_ulpdu(), len) :
				   compare_append(random_ulpdu(), len);
		at += fpdu->end - fpdu->begin;
	}
	return fpdus;
}

static void tuf_model_and_layer_0_make_the_same_streams(void)
{
	static u8 octets[COMPARE_OCTETS];

	fill_pool();
	for (u32 i = 0; i < unit_streams; i++) {
		struct mpa_format format;
		u64 position;
		size_t count;
		u32 fpdus;

		begin_stream(__func__, i);
		fpdus = random_fpdus(&position, &format, true);
		compare_stream(&count);
		compare_stream_octets(octets);
		EXPECT_EQ(fpdus, tuf_compare_receive(position, &format, octets,
						     count), "FPDUs received");
	}
}

static void tuf_model_and_layer_0_agree_on_damaged_streams(void)
{
	static u8 octets[COMPARE_OCTETS];

	fill_pool();
	for (u32 i = 0; i < unit_streams; i++) {
		struct mpa_format format;
		u64 position;
		size_t count;

		begin_stream(__func__, i);
		random_fpdus(&position, &format, false);
		count = damaged_stream(octets);
		tuf_compare_receive(position, &format, octets, count);
	}
}

/* Try each place near a possible marker, from one octet to three periods. */
static void tuf_model_and_layer_0_agree_on_every_phase(void)
{
	struct mpa_format format = { .framing = MPA_FRAMING_POINTERS };
	static const u8 key[TUF_KEY_LEN] = { 10, 11, 12, 13, 14, 15 };
	static u8 octets[512];
	size_t count;

	fill_pool();
	format.period = 7;
	for (u32 phase = 0; phase < 128; phase++) {
		for (u32 len = 1; len <= 280; len += len % 124 > 100 ? 1 : 5) {
			u64 position = (1ULL << 32) - 128 + phase;

			unit_context("%u octets at 0x%llx", len, position);
			tuf_compare_begin(position, &format, key);
			compare_send(pool + phase, len);
			compare_stream(&count);
			compare_stream_octets(octets);
			EXPECT_EQ(1, tuf_compare_receive(position, &format,
							 octets, count),
				  "FPDUs received");
		}
	}
}

/* Include segments without a header, which no receiver parses. */
static void tuf_model_and_layer_0_send_the_same_segments(void)
{
	const struct mpa_format format = { .framing = MPA_FRAMING_SEGMENTS };

	fill_pool();
	tuf_compare_begin(0, &format, pool);
	for (u32 len = 0; len < 300; len++)
		compare_send(pool + len, len);
	tuf_compare_begin(1, &format, pool);
	compare_send(pool, 65528);
	compare_send(pool, 65535);
}

static void tuf_room_is_the_largest_that_fits(void)
{
	static const u16 phases[] = {
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 61, 100, 115,
		116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127,
	};

	for (u32 nth = 0; nth < 10; nth++) {
		const struct mpa_format format = numbered_format(nth);
		u32 interval = step_of(&format);

		for (u32 i = 0; i < ARRAY_SIZE(phases); i++) {
			u64 position = (1ULL << 32) - 128 + phases[i];
			u32 room;

			for (room = 0; room < 420; room++)
				tuf_compare_room(position, &format, room);
			for (room = interval - 20; room < interval + 20; room++)
				tuf_compare_room(position, &format, room);
		}
		for (u32 room = 65524; room < 65546; room++) {
			for (u32 i = 0; i < ARRAY_SIZE(phases); i += 7)
				tuf_compare_room(phases[i], &format, room);
		}
	}
}

static void tuf_mulpdu_is_as_the_drafts_reckon_it(void)
{
	const struct mpa_format bare = { .framing = MPA_FRAMING_SEGMENTS };

	for (u32 emss = 0; emss < 70000; emss += emss < 1600 ? 1 : 1009) {
		const struct mpa_format aligned = numbered_format(9);

		tuf_compare_mulpdu(&aligned, emss);
		tuf_compare_mulpdu(&bare, emss);
	}
	for (u32 nth = 0; nth < 9; nth++) {
		const struct mpa_format format = numbered_format(nth);

		tuf_compare_mulpdu(&format, 0);
		tuf_compare_mulpdu(&format, 511);
		tuf_compare_mulpdu(&format, 1460);
	}
}

/* The key is at each place in octets of any length, next to its own first octets. */
static void tuf_key_is_found_at_every_place(void)
{
	static const char *const keys[] = {
		"aaaaaa", "ababab", "abcabc", "aaaaab", "baaaaa", "abbbba",
		"aabaab", "abcdef", "abaaba",
	};
	u8 octets[40];

	for (u32 i = 0; i < ARRAY_SIZE(keys); i++) {
		const u8 *key = (const u8 *)keys[i];

		for (u32 count = 0; count <= sizeof(octets); count++) {
			for (u32 at = 0; at <= count; at++) {
				u32 n = min_t(u32, TUF_KEY_LEN, count - at);

				unit_context("key %s at %u of %u", keys[i], at,
					     count);
				for (u32 j = 0; j < count; j++)
					octets[j] = key[(j + count) % 5];
				memcpy(octets + at, key, n);
				tuf_compare_finds(key, octets, count);
				memset(octets, key[0], count);
				memcpy(octets + at, key, n);
				tuf_compare_finds(key, octets, count);
			}
		}
	}
}

/* Use a small alphabet, so that keys and their beginnings occur. */
static void tuf_key_is_found_among_random_octets(void)
{
	u8 octets[200], key[TUF_KEY_LEN];

	for (u32 i = 0; i < unit_streams; i++) {
		u32 letters, count;

		begin_stream(__func__, i);
		letters = one_from(1, 4);
		count = below(sizeof(octets) + 1);
		for (u32 j = 0; j < sizeof(key); j++)
			key[j] = 250 + below(letters);
		for (u32 j = 0; j < count; j++)
			octets[j] = 250 + below(letters);
		tuf_compare_finds(key, octets, count);
	}
}

const struct unit_test tuf_model_tests[] = {
	UNIT_TEST(tuf_key_is_found_at_every_place),
	UNIT_TEST(tuf_key_is_found_among_random_octets),
	UNIT_TEST(tuf_model_and_layer_0_send_the_same_segments),
	UNIT_TEST(tuf_model_and_layer_0_agree_on_every_phase),
	UNIT_TEST(tuf_mulpdu_is_as_the_drafts_reckon_it),
	UNIT_TEST(tuf_room_is_the_largest_that_fits),
	UNIT_TEST(tuf_model_and_layer_0_agree_on_damaged_streams),
	UNIT_TEST(tuf_model_and_layer_0_make_the_same_streams),
	{ }
};
