// SPDX-License-Identifier: GPL-2.0
/*
 * Run the tests of the protocol layer:
 *
 *	unit [--first] [--seed N] [--streams N] [NAME...]
 *
 * --first stops at the first test that fails. The random tests are the same
 * each time; --seed changes them, --streams changes their number.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "unit.h"

#define MODEL_STREAMS	20000

u64 unit_seed = 5044;
u32 unit_streams = MODEL_STREAMS;

static const struct unit_test *const suites[] = {
	vector_tests,
	crc_tests,
	edge_tests,
	mulpdu_tests,
	framing_tests,
	tuf_tests,
	startup_tests,
	agree_tests,
	tuf_model_tests,
	model_tests,
};

static jmp_buf test_over;
static char context[256];
static bool on_terminal;

static void clear_progress(void)
{
	if (on_terminal)
		fprintf(stderr, "\r%40s\r", "");
}

void unit_progress(u32 done, u32 all)
{
	if (on_terminal && done % 256 == 0)
		fprintf(stderr, "\r# %u of %u streams", done, all);
}

void unit_context(const char *what, ...)
{
	va_list args;

	va_start(args, what);
	vsnprintf(context, sizeof(context), what, args);
	va_end(args);
}

static void say_where(const char *file, int line, const char *what,
		      va_list args)
{
	const char *slash = strrchr(file, '/');

	clear_progress();
	if (context[0])
		printf("# in %s:\n", context);
	printf("# %s:%d: ", slash ? slash + 1 : file, line);
	vprintf(what, args);
}

void unit_unequal(const char *file, int line, u64 expected, u64 seen,
		  const char *what, ...)
{
	va_list args;

	va_start(args, what);
	say_where(file, line, what, args);
	va_end(args);
	printf(": expected %llu (0x%llx), seen %llu (0x%llx)\n",
	       expected, expected, seen, seen);
	longjmp(test_over, 1);
}

static void print_octets(const char *name, const u8 *octets, size_t from,
			 size_t to)
{
	printf("#   %s", name);
	for (size_t i = from; i < to; i++)
		printf(" %02x", octets[i]);
	printf("\n");
}

void unit_octets_differ(const char *file, int line, const u8 *expected,
			const u8 *seen, size_t len, const char *what, ...)
{
	size_t at = 0, from, to;
	va_list args;

	while (expected[at] == seen[at])
		at++;
	from = at < 8 ? 0 : at - 8;
	to = len - at < 8 ? len : at + 8;

	va_start(args, what);
	say_where(file, line, what, args);
	va_end(args);
	printf(": octet %zu of %zu: expected %02x, seen %02x; from octet %zu:\n",
	       at, len, expected[at], seen[at], from);
	print_octets("expected", expected, from, to);
	print_octets("seen    ", seen, from, to);
	longjmp(test_over, 1);
}

static bool passes(const struct unit_test *test)
{
	context[0] = '\0';
	if (setjmp(test_over))
		return false;
	test->run();
	clear_progress();
	return true;
}

static bool chosen(const struct unit_test *test, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++) {
		if (!strcmp(test->name, *names))
			return true;
	}
	return false;
}

static u32 count_tests(char **names)
{
	u32 count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(suites); i++) {
		for (const struct unit_test *t = suites[i]; t->run; t++)
			count += chosen(t, names);
	}
	return count;
}

static u64 parse_number(const char *option, const char *text)
{
	u64 value;
	char *end;

	errno = 0;
	value = text ? strtoull(text, &end, 0) : 0;
	if (!text || errno || end == text || *end) {
		fprintf(stderr, "unit: %s needs a number, not '%s'\n", option,
			text ? text : "");
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	u32 nth = 0, planned, failed = 0;
	bool first_only = false;

	on_terminal = isatty(STDERR_FILENO);
	setvbuf(stdout, NULL, _IOLBF, 0);

	for (argv++; argc > 1 && *argv && !strncmp(*argv, "--", 2); argv++) {
		if (!strcmp(*argv, "--first")) {
			first_only = true;
		} else if (!strcmp(*argv, "--seed")) {
			unit_seed = parse_number("--seed", argv[1]);
			argv++;
		} else if (!strcmp(*argv, "--streams")) {
			unit_streams = parse_number("--streams", argv[1]);
			argv++;
		} else {
			fprintf(stderr,
				"usage: unit [--first] [--seed N] [--streams N] [NAME...]\n");
			return 2;
		}
	}

	mpa_crc3_init();
	planned = count_tests(argv);
	if (!planned) {
		fprintf(stderr, "unit: no test is called '%s'\n", *argv);
		return 2;
	}
	printf("TAP version 13\n1..%u\n", planned);
	for (size_t i = 0; i < ARRAY_SIZE(suites); i++) {
		for (const struct unit_test *t = suites[i]; t->run; t++) {
			bool passed;

			if (!chosen(t, argv))
				continue;
			passed = passes(t);
			failed += !passed;
			printf("%sok %u %s\n", passed ? "" : "not ", ++nth,
			       t->name);
			if (failed && first_only) {
				printf("Bail out! stopped at the first failure\n");
				return 1;
			}
		}
	}
	printf("# Totals: pass:%u fail:%u xfail:0 xpass:0 skip:0 error:0\n",
	       nth - failed, failed);
	return failed ? 1 : 0;
}
