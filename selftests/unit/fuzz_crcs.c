// SPDX-License-Identifier: GPL-2.0
/* CRCs of contiguous FPDUs of one length: written, damaged, and compared. */

#include "compat.h"
#include "fuzz.h"
#include "model.h"

#define FPDUS_MAX	7
#define LEN_MAX		0x3fc
#define ROOM		(FPDUS_MAX * LEN_MAX + 8)

/* A run ends at the arena's end, so that an access beyond it is detected. */
static u8 arena[ROOM];

static bool good(const u8 *fpdu, u32 len)
{
	u8 crc[4];

	model_crc(fpdu, len - 4, crc);
	return !memcmp(crc, fpdu + len - 4, 4);
}

/* Use three buffers at any addresses, which may overlap. */
static void all_three(struct fuzz_input *in)
{
	u32 len = fuzz_take(in, 2) % (LEN_MAX + 1) & ~3;
	u32 crc[3], before[3];
	const u8 *from[3];

	for (u32 i = 0; i < 3; i++) {
		from[i] = arena + fuzz_take(in, 2) % (ROOM - len + 1);
		crc[i] = fuzz_take(in, 4);
		before[i] = crc[i];
	}
	mpa_crc32c_3(crc, from[0], from[1], from[2], len);
	for (u32 i = 0; i < 3; i++)
		EXPECT_EQ(mpa_crc_update(before[i], from[i], len), crc[i],
			  "CRC %u of three", i);
}

static void run(struct fuzz_input *in)
{
	u32 len = 8 + (fuzz_take(in, 1) * 4 % (LEN_MAX - 7) & ~3);
	u32 expected = 0, nr;
	u8 *fpdus;

	nr = fuzz_take(in, 1) % (FPDUS_MAX + 1);
	fpdus = arena + sizeof(arena) - nr * len;
	mpa_crc_put_many(fpdus, len, nr);
	for (u32 i = 0; i < nr; i++)
		EXPECT_EQ(true, good(fpdus + i * len, len),
			  "FPDU %u of %u has a good CRC", i, nr);
	while (in->size && nr) {
		u32 at = fuzz_take(in, 2);

		fpdus[at % (nr * len)] ^= fuzz_take(in, 1);
	}
	while (expected < nr && good(fpdus + expected * len, len))
		expected++;
	EXPECT_EQ(expected, mpa_crc_match_many(fpdus, len, nr),
		  "good ones before the first bad one of %u", nr);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { .data = data, .size = size };
	u32 state = fuzz_take(&in, 2), what = fuzz_take(&in, 1);

	fuzz_note("octets from 0x%llx, 0x%llx", state, what);
	if (!mpa_crc3_on)
		mpa_crc3_init();
	for (u32 i = 0; i < sizeof(arena); i++) {
		state = state * 1664525 + 1013904223;
		arena[i] = state >> 24;
	}
	if (what & 1)
		all_three(&in);
	else
		run(&in);
	return 0;
}
