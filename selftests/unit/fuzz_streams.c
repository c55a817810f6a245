// SPDX-License-Identifier: GPL-2.0
/* Streams of FPDUs, whole, damaged and raw: code and model must agree. */

#include "fuzz_stream.h"

/* Lengths are usually below the interval between markers. */
static u32 take_length(struct fuzz_input *in)
{
	u32 len = fuzz_take(in, 1);

	if (len < 0xc0)
		return len;
	if (len < 0xf0)
		return 0x1e0 + fuzz_take(in, 1) % 0x40;
	return fuzz_take(in, 2) & ULPDU_LEN_MAX;
}

static void made_stream(struct fuzz_input *in, u64 position, u32 flags)
{
	u32 fpdus = fuzz_fpdus(flags), good;
	bool damaged;
	size_t count;
	u8 *octets;

	compare_stream_begin(position, flags & 1);
	for (u32 i = 0; i < fpdus; i++) {
		u32 len = take_length(in);

		compare_append(ulpdu_octets(in->size & 0xff), len);
	}
	octets = fuzz_stream(in, flags, &count, &damaged);
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
