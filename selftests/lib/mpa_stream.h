/* SPDX-License-Identifier: GPL-2.0 */
/* A long sequence of octets, to be cut into records of any length. */
#ifndef _MPA_STREAM_H
#define _MPA_STREAM_H

/*
 * Octet n of the stream does not depend on the cuts. The period is a prime, so it is
 * not a multiple of a record's length.
 */
#define STREAM_PERIOD	524287

static u8 stream_row[2 * STREAM_PERIOD];

static void __attribute__((constructor(200))) stream_row_fill(void)
{
	u64 x = 88172645463325252ull;
	size_t i;

	for (i = 0; i < STREAM_PERIOD; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		stream_row[i] = x;
		stream_row[STREAM_PERIOD + i] = x;
	}
}

/* Return: at least STREAM_PERIOD octets of the stream from @pos on. */
static inline u8 *stream_at(u64 pos)
{
	return stream_row + pos % STREAM_PERIOD;
}

#endif /* _MPA_STREAM_H */
