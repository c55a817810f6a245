// SPDX-License-Identifier: GPL-2.0
/* TUF: whole, damaged and raw streams, sizes, keys: code and model must agree. */

#include "fuzz_stream.h"
#include "tuf_compare.h"

static struct mpa_format take_format(struct fuzz_input *in)
{
	struct mpa_format format = { .framing = MPA_FRAMING_KEYED };
	u32 kind = fuzz_take(in, 1) % 20;

	/* Short periods have more markers. */
	if (kind < 18) {
		format.framing = MPA_FRAMING_POINTERS;
		format.period = 7 + (kind < 9 ? kind : kind % 3);
	}
	return format;
}

/* The position is often shortly before the wrap at 32 bits, near a marker's place. */
static u64 take_position(struct fuzz_input *in)
{
	u32 kind = fuzz_take(in, 1);

	if (kind < 0x80)
		return (1ULL << 32) - kind;
	if (kind < 0xc0)
		return 0;
	return fuzz_take(in, 5);
}

/* Lengths are usually below the interval between markers. */
static u32 take_length(struct fuzz_input *in)
{
	u32 len = fuzz_take(in, 1);

	if (len < 0xd0)
		return 1 + len;
	return 1 + (fuzz_take(in, 2) & (ULPDU_LEN_MAX - 1));
}

static void made_stream(struct fuzz_input *in)
{
	struct mpa_format format = take_format(in);
	u64 position = take_position(in);
	u32 flags = fuzz_take(in, 1);
	u8 key[TUF_KEY_LEN];
	u32 fpdus, good;
	bool damaged;
	size_t count;
	u8 *octets;

	fpdus = fuzz_fpdus(flags);
	fuzz_note("stream at 0x%llx, period of 2^%llu", position, format.period);
	memset(key, flags, sizeof(key));
	key[flags % 6] = 1;
	tuf_compare_begin(position, &format, key);
	for (u32 i = 0; i < fpdus; i++) {
		u32 len = take_length(in);

		if (flags & 1)
			compare_send(ulpdu_octets(in->size & 0xff), len);
		else
			compare_append(ulpdu_octets(in->size & 0xff), len);
	}
	octets = fuzz_stream(in, flags, &count, &damaged);
	good = tuf_compare_receive(position, &format, octets, count);
	if (!damaged)
		EXPECT_EQ(fpdus, good, "FPDUs received");
}

static void raw_stream(struct fuzz_input *in)
{
	struct mpa_format format = take_format(in);
	u64 position = take_position(in);

	fuzz_note("raw stream at 0x%llx, period of 2^%llu", position,
		  format.period);
	tuf_compare_receive(position, &format, in->data, in->size);
}

static void segments(struct fuzz_input *in)
{
	struct mpa_format format = { .framing = MPA_FRAMING_SEGMENTS };
	u32 len = fuzz_take(in, 2) & ULPDU_LEN_MAX;

	fuzz_note("segment of %llu octets", len, 0);
	tuf_compare_begin(take_position(in), &format, ulpdu_octets(0));
	compare_send(ulpdu_octets(1), len);
}

static void sizes(struct fuzz_input *in)
{
	struct mpa_format format = take_format(in);
	u64 position = take_position(in);
	u32 kind = fuzz_take(in, 1);
	u32 room = fuzz_take(in, 3);

	/* Lengths are usually short, as the model counts every octet. */
	if (kind >= 8)
		room &= 0x3ff;
	if (kind & 1)
		format.framing = MPA_FRAMING_SEGMENTS;
	fuzz_note("%llu octets of space at 0x%llx", room, position);
	tuf_compare_room(position, &format, room);
	if (kind == 0x10 || format.framing != MPA_FRAMING_POINTERS)
		tuf_compare_mulpdu(&format, room);
}

/* Use an alphabet of two bits, so that keys occur. */
static void keys(struct fuzz_input *in)
{
	u8 key[TUF_KEY_LEN], octets[4 * 64], *from;
	u32 letters = fuzz_take(in, 2), count = 0;

	for (u32 i = 0; i < sizeof(key); i++)
		key[i] = letters >> 2 * i & 3;
	while (in->size && count < sizeof(octets)) {
		u32 more = fuzz_take(in, 1);

		for (u32 i = 0; i < 4; i++)
			octets[count++] = more >> 2 * i & 3;
	}
	count -= min(count, letters >> 12 & 7);
	fuzz_note("%llu octets, key 0x%llx", count, letters);
	from = arena + sizeof(arena) - count;
	memcpy(from, octets, count);
	tuf_compare_finds(key, from, count);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { .data = data, .size = size };

	switch (fuzz_take(&in, 1) % 8) {
	case 0:
	case 1:
	case 2:
		made_stream(&in);
		break;
	case 3:
		raw_stream(&in);
		break;
	case 4:
		segments(&in);
		break;
	case 5:
	case 6:
		sizes(&in);
		break;
	case 7:
		keys(&in);
		break;
	}
	return 0;
}
