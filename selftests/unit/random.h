/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by tests that use random streams. */
#ifndef _UNIT_RANDOM_H
#define _UNIT_RANDOM_H

#include "compare.h"
#include "unit.h"

/* ULPDUs are parts of this. */
static u8 pool[2 * 65536];
static u64 state;

/* splitmix64: good with any seed, even with consecutive ones. */
static inline u64 random64(void)
{
	u64 z = state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static inline u32 below(u32 limit)
{
	return (u32)(random64() >> 32) % limit;
}

static inline u32 one_from(u32 least, u32 most)
{
	return least + below(most - least + 1);
}

/* The pool does not depend on the seed, so that a single stream can be repeated. */
static inline void fill_pool(void)
{
	state = 0;
	for (size_t i = 0; i < sizeof(pool); i++)
		pool[i] = random64();
}

static inline const u8 *random_ulpdu(void)
{
	return pool + below(65536);
}

/* Begin the next of @unit_streams streams. It can be repeated alone. */
static inline void begin_stream(const char *test, u32 nth)
{
	unit_progress(nth, unit_streams);
	state = unit_seed + nth;
	unit_context("unit --seed %llu --streams 1 %s", state, test);
}

/*
 * Return: the index of an octet of a nearby marker or ULPDU_Length if there is one, or
 * else of any octet.
 */
static inline size_t vulnerable(const struct model_octet *stream, size_t count)
{
	size_t at = below(count);

	for (u32 tries = below(2) ? 512 : 0; tries--; at = (at + 1) % count) {
		if (stream[at].field == MODEL_MARKER ||
		    stream[at].field == MODEL_LENGTH)
			return at;
	}
	return at;
}

/* Copy the model's stream to @octets, with some octets changed, or without its end. */
static inline size_t damaged_stream(u8 *octets)
{
	const struct model_octet *stream;
	size_t count;

	stream = compare_stream(&count);
	compare_stream_octets(octets);
	for (u32 damages = below(3); damages--;)
		octets[vulnerable(stream, count)] ^= 1 << below(8);
	return below(4) ? count : below(count + 1);
}

#endif /* _UNIT_RANDOM_H */
