/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the libFuzzer targets of the protocol floor share. Each has some ten
 * thousand executions a second and more: nothing is allocated or printed
 * unless something is wrong.
 */
#ifndef _UNIT_FUZZ_H
#define _UNIT_FUZZ_H

#include "unit.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

/* The input, taken from its front; zeros when it is used up. */
struct fuzz_input {
	const u8 *data;
	size_t size;
};

static inline u64 fuzz_take(struct fuzz_input *in, int octets)
{
	u64 value = 0;

	while (octets--) {
		value <<= 8;
		if (in->size) {
			value |= *in->data++;
			in->size--;
		}
	}
	return value;
}

/* Where an FPDU may start, often close in front of the 32 bits' wrap. */
static inline u64 fuzz_position(struct fuzz_input *in)
{
	u64 position = fuzz_take(in, 5);

	if (position & 1)
		position = (1ULL << 32) - (position & 0xfff);
	return position & ~3ULL;
}

/* What is under way, said when something is wrong: a format for two numbers. */
void fuzz_note(const char *what, u64 a, u64 b);

#endif /* _UNIT_FUZZ_H */
