/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A test is a function, which ends at its first unmet expectation, like KUNIT_ASSERT_*.
 * unit.c runs all tests and prints TAP.
 */
#ifndef _UNIT_H
#define _UNIT_H

#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#include "mpa_proto.h"

struct unit_test {
	const char *name;
	void (*run)(void);
};

#define UNIT_TEST(function)	{ .name = #function, .run = function }

/* An empty entry ends each table. */
extern const struct unit_test vector_tests[];
extern const struct unit_test crc_tests[];
extern const struct unit_test edge_tests[];
extern const struct unit_test mulpdu_tests[];
extern const struct unit_test framing_tests[];
extern const struct unit_test tuf_tests[];
extern const struct unit_test startup_tests[];
extern const struct unit_test agree_tests[];
extern const struct unit_test tuf_model_tests[];
extern const struct unit_test model_tests[];

/* Options of the random tests: see unit.c. */
extern u64 unit_seed;
extern u32 unit_streams;

void __noreturn __printf(5, 6)
unit_unequal(const char *file, int line, u64 expected, u64 seen,
	     const char *what, ...);
void __noreturn __printf(6, 7)
unit_octets_differ(const char *file, int line, const u8 *expected,
		   const u8 *seen, size_t len, const char *what, ...);

/* Set text that is printed with later errors; NULL: none. */
void __printf(1, 2) unit_context(const char *what, ...);

/* Show the progress of a long test. */
void unit_progress(u32 done, u32 all);

#define EXPECT_EQ(expected, seen, ...) do {				\
	u64 _expected = (expected);					\
	u64 _seen = (seen);						\
									\
	if (_expected != _seen)						\
		unit_unequal(__FILE__, __LINE__, _expected, _seen,	\
			     __VA_ARGS__);				\
} while (0)

#define EXPECT_OCTETS(expected, seen, len, ...) do {			\
	const u8 *_expected = (expected);				\
	const u8 *_seen = (seen);					\
	size_t _len = (len);						\
									\
	if (memcmp(_expected, _seen, _len))				\
		unit_octets_differ(__FILE__, __LINE__, _expected,	\
				   _seen, _len, __VA_ARGS__);		\
} while (0)

#endif /* _UNIT_H */
