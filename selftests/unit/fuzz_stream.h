/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the fuzz targets of streams. It is a header, so that its code guides the fuzzer. */
#ifndef _UNIT_FUZZ_STREAM_H
#define _UNIT_FUZZ_STREAM_H

#include "compare.h"
#include "fuzz.h"

#define FPDUS_MAX	6
#define ULPDU_LEN_MAX	0x7ff
#define STREAM_MAX	(FPDUS_MAX * (ULPDU_LEN_MAX + 128))

/* A stream ends at the arena's end, so that an access beyond it is detected. */
static u8 arena[STREAM_MAX];

static inline const u8 *ulpdu_octets(u32 from)
{
	static u8 octets[ULPDU_LEN_MAX + 256];

	if (!octets[1]) {
		for (u32 i = 0; i < sizeof(octets); i++)
			octets[i] = i * 167 + i / 256;
	}
	return octets + from;
}

/* Return: the number of FPDUs in a stream. */
static inline u32 fuzz_fpdus(u32 flags)
{
	return 1 + (flags >> 4) % FPDUS_MAX;
}

/* Return: the model's stream, cut and damaged by the rest of the input. */
static inline u8 *fuzz_stream(struct fuzz_input *in, u32 flags, size_t *count,
			      bool *damaged)
{
	u8 *octets;

	compare_stream(count);
	octets = arena + sizeof(arena) - *count;
	compare_stream_octets(octets);

	*damaged = flags & 8 || in->size;
	if (flags & 8) {
		size_t left = fuzz_take(in, 2) % (*count + 1);

		memmove(octets + *count - left, octets, left);
		octets += *count - left;
		*count = left;
	}
	while (in->size && *count) {
		u32 at = fuzz_take(in, 2);

		octets[at % *count] ^= fuzz_take(in, 1);
	}
	return octets;
}

#endif /* _UNIT_FUZZ_STREAM_H */
