// SPDX-License-Identifier: GPL-2.0
/* Streams of FPDUs, whole, damaged and raw: floor and model agree. */

#include "compare.h"
#include "fuzz.h"

#define FPDUS_MAX	6
#define ULPDU_LEN_MAX	0x7ff
#define STREAM_MAX	(FPDUS_MAX * (ULPDU_LEN_MAX + 64))

/* A stream ends where this does, so that a step past it is seen. */
static u8 arena[STREAM_MAX];

static const u8 *ulpdu_octets(u32 from)
{
	static u8 octets[ULPDU_LEN_MAX + 256];

	if (!octets[1]) {
		for (u32 i = 0; i < sizeof(octets); i++)
			octets[i] = i * 167 + i / 256;
	}
	return octets + from;
}

/* Mostly shorter than from one marker to the next. */
static u32 take_length(struct fuzz_input *in)
{
	u32 len = fuzz_take(in, 1);

	if (len < 0xc0)
		return len;
	if (len < 0xf0)
		return 0x1e0 + fuzz_take(in, 1) % 0x40;
	return fuzz_take(in, 2) & ULPDU_LEN_MAX;
}

static void damage(struct fuzz_input *in, u8 *octets, size_t count)
{
	while (in->size && count) {
		u32 at = fuzz_take(in, 2);

		octets[at % count] ^= fuzz_take(in, 1);
	}
}

static void made_stream(struct fuzz_input *in, u64 position, u32 flags)
{
	u32 fpdus = 1 + (flags >> 4) % FPDUS_MAX, good;
	bool damaged;
	size_t count;
	u8 *octets;

	compare_stream_begin(position, flags & 1);
	for (u32 i = 0; i < fpdus; i++) {
		u32 len = take_length(in);

		compare_append(ulpdu_octets(in->size & 0xff), len);
	}
	compare_stream(&count);
	octets = arena + sizeof(arena) - count;
	compare_stream_octets(octets);

	damaged = flags & 8 || in->size;
	if (flags & 8) {
		size_t left = fuzz_take(in, 2) % (count + 1);

		memmove(octets + count - left, octets, left);
		octets += count - left;
		count = left;
	}
	damage(in, octets, count);
	good = compare_receive(position, flags & 1, flags & 2, octets, count);
	if (!damaged)
		EXPECT_EQ(fpdus, good, "ULPDUs received");
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { .data = data, .size = size };
	u64 position = fuzz_position(&in);
	u32 flags = fuzz_take(&in, 1);

	fuzz_note("stream at 0x%llx, flags 0x%llx", position, flags);
	if (flags & 4)
		made_stream(&in, position, flags);
	else
		compare_receive(position, flags & 1, flags & 2, in.data,
				in.size);
	return 0;
}
