/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the protocol layer's libFuzzer targets. Each runs ten thousand inputs a
 * second or more: without an error it allocates and prints nothing.
 */
#ifndef _UNIT_FUZZ_H
#define _UNIT_FUZZ_H

#include "unit.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

/* An input, consumed from its start; zeros follow. */
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

/* Return: a position for an FPDU, often shortly before positions wrap at 32 bits. */
static inline u64 fuzz_position(struct fuzz_input *in)
{
	u64 position = fuzz_take(in, 5);

	if (position & 1)
		position = (1ULL << 32) - (position & 0xfff);
	return position & ~3ULL;
}

/* Note the current operation, to be printed with an error. @what: a format for two numbers. */
void fuzz_note(const char *what, u64 a, u64 b);

#endif /* _UNIT_FUZZ_H */
