// SPDX-License-Identifier: GPL-2.0
/* Reports an error of a fuzz target. libFuzzer continues after abort(). */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "fuzz.h"

static struct {
	const char *what;
	u64 a, b;
} note = { .what = "the beginning" };

void fuzz_note(const char *what, u64 a, u64 b)
{
	note.what = what;
	note.a = a;
	note.b = b;
}

static void say(const char *file, int line, const char *what, va_list args)
{
	fprintf(stderr, "in ");
	fprintf(stderr, note.what, note.a, note.b);
	fprintf(stderr, ":\n%s:%d: ", file, line);
	vfprintf(stderr, what, args);
}

void unit_unequal(const char *file, int line, u64 expected, u64 seen,
		  const char *what, ...)
{
	va_list args;

	va_start(args, what);
	say(file, line, what, args);
	va_end(args);
	fprintf(stderr, ": expected %llu (0x%llx), seen %llu (0x%llx)\n",
		expected, expected, seen, seen);
	abort();
}

void unit_octets_differ(const char *file, int line, const u8 *expected,
			const u8 *seen, size_t len, const char *what, ...)
{
	size_t at = 0;
	va_list args;

	while (expected[at] == seen[at])
		at++;
	va_start(args, what);
	say(file, line, what, args);
	va_end(args);
	fprintf(stderr, ": octet %zu of %zu: expected %02x, seen %02x\n", at,
		len, expected[at], seen[at]);
	abort();
}
