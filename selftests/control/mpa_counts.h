/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All lines of /proc/net/mpa_stat, in a new network namespace, where they begin at
 * zero. Include it after mpa_harness.h.
 */
#ifndef _MPA_COUNTS_H
#define _MPA_COUNTS_H

#include <sys/mman.h>

#include "mpa_test.h"

#define LINES	64

/**
 * struct count - a line of the file
 * @name:	its name
 * @n:		its number
 */
struct count {
	char name[40];
	long long n;
};

/* Read all lines. Return: their number, or -1. */
static inline int counts_read(struct count counts[LINES])
{
	FILE *file = fopen("/proc/net/mpa_stat", "r");
	int i = 0;

	while (file && i < LINES &&
	       fscanf(file, "%39s %lld", counts[i].name, &counts[i].n) == 2)
		i++;
	if (file)
		fclose(file);
	return file ? i : -1;
}

/* ---- the lines that have changed, in all tests ---- */

static bool *seen;

static void __attribute__((constructor)) seen_make(void)
{
	seen = mmap(NULL, LINES, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* ---- what is expected ---- */

/* Whether to ignore a line that the test does not concern. */
static inline bool aside(const char *name)
{
	return !strncmp(name, "MpaTxPackets", 12) ||
	       !strncmp(name, "MpaTxSegs", 9) || !strcmp(name, "MpaMemKept");
}

static inline const struct count *count_of(const struct count *counts, int n,
					   const char *name)
{
	for (; n--; counts++)
		if (!strcmp(counts->name, name))
			return counts;
	return NULL;
}

/*
 * Compare all lines: those not in @want must be zero. Return: text of the differences,
 * or "".
 */
static inline const char *differs(const struct count *want, int n)
{
	struct count counts[LINES];
	int lines = counts_read(counts), i;
	static char text[1024];
	size_t len = 0;

	text[0] = 0;
	for (i = 0; i < n; i++)
		if (!count_of(counts, lines, want[i].name))
			return want[i].name;
	for (i = 0; i < lines; i++) {
		const struct count *is = &counts[i];
		const struct count *due = count_of(want, n, is->name);

		if (!due && aside(is->name))
			continue;
		if (due && due->n && due->n == is->n)
			seen[i] = true;
		if (is->n != (due ? due->n : 0) && len < sizeof(text))
			len += snprintf(text + len, sizeof(text) - len,
					"%s %lld, not %lld; ", is->name, is->n,
					due ? due->n : 0);
	}
	return text;
}

/* As differs(), but wait until nothing differs. */
static inline const char *differs_soon(const struct count *want, int n)
{
	const long until = now_ms() + 5000;

	while (differs(want, n)[0] && now_ms() < until)
		poll(NULL, 0, 1);
	return differs(want, n);
}

#define EXPECT_COUNTS(...) do {						\
	const struct count want_[] = { __VA_ARGS__ };			\
									\
	EXPECT_STREQ("", differs(want_, ARRAY_SIZE(want_)));		\
} while (0)

#define EXPECT_COUNTS_SOON(...) do {					\
	const struct count want_[] = { __VA_ARGS__ };			\
									\
	EXPECT_STREQ("", differs_soon(want_, ARRAY_SIZE(want_)));	\
} while (0)

#endif /* _MPA_COUNTS_H */
