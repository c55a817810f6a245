/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before the real harness, this lets a test program run chosen tests only: by
 * the names in TAP, by the last part of such a name, or by patterns:
 *
 *	mpa_start tcp.ipv6.attach_only_once attach_only_once 'tcp.ipv4.*'
 *
 * Without names it runs all. With MPA_FIRST in its environment it stops at the first
 * failure. With MPA_SHARE=K/N it runs each test in a share of its fixture's variants,
 * at least one; the shares 0/N to N-1/N together are all tests in all variants.
 */
#ifndef _MPA_CHOSEN_H
#define _MPA_CHOSEN_H

#include <fnmatch.h>
#include <stdlib.h>
#include_next <kselftest_harness.h>

static bool is_chosen(char **patterns, const char *name)
{
	char any[256];

	for (; *patterns; patterns++) {
		snprintf(any, sizeof(any), "*.%s", *patterns);
		if (!fnmatch(*patterns, name, 0) || !fnmatch(any, name, 0))
			return true;
	}
	return false;
}

/* Whether variant V of VARIANTS is in the share, for a fixture's test T. */
static bool is_shared(unsigned int v, unsigned int variants, unsigned int t)
{
	const char *share = getenv("MPA_SHARE");
	unsigned int k, n;

	if (!share || sscanf(share, "%u/%u", &k, &n) != 2 || !n)
		return true;
	if (variants < n)
		return v == (k + t) % variants;
	return v % n == (k + t) % n;
}

/* Run matching tests; if @patterns is NULL, print all names. */
static void run_each(char **patterns, unsigned int *run, unsigned int *failed)
{
	static struct __fixture_variant_metadata none = { .name = "" };
	struct __fixture_variant_metadata *v;
	unsigned int variants, variant, test;
	struct __fixture_metadata *f;
	struct __test_metadata *t;
	char name[256];

	for (f = __fixture_list; f; f = f->next) {
		variants = 0;
		for (v = f->variant ?: &none; v; v = v->next)
			variants++;
		variant = 0;
		for (v = f->variant ?: &none; v; v = v->next, variant++) {
			test = 0;
			for (t = f->tests; t; t = t->next, test++) {
				snprintf(name, sizeof(name), "%s%s%s.%s",
					 f->name, v->name[0] ? "." : "",
					 v->name, t->name);
				if (!patterns) {
					printf("#   %s\n", name);
					continue;
				}
				if (patterns[0] ? !is_chosen(patterns, name) :
				    !is_shared(variant, variants, test))
					continue;
				(*run)++;
				t->results = mmap(NULL, sizeof(*t->results),
						  PROT_READ | PROT_WRITE,
						  MAP_SHARED | MAP_ANONYMOUS,
						  -1, 0);
				__run_test(f, v, t);
				*failed += !t->passed;
				if (!t->passed && getenv("MPA_FIRST"))
					return;
			}
		}
	}
}

static int run_chosen(int argc, char **argv)
{
	unsigned int run = 0, failed = 0;

	if (argc < 2 && !getenv("MPA_SHARE"))
		return test_harness_run(argc, argv);

	ksft_print_header();
	run_each(argv + 1, &run, &failed);
	printf("1..%u\n", run);
	if (run)
		return failed ? KSFT_FAIL : KSFT_PASS;
	printf("# no test is called like that; there are\n");
	run_each(NULL, NULL, NULL);
	return 2;
}

#undef TEST_HARNESS_MAIN
#define TEST_HARNESS_MAIN						\
	static void __attribute__((constructor))			\
	__constructor_order_last(void)					\
	{								\
		if (!__constructor_order)				\
			__constructor_order = _CONSTRUCTOR_ORDER_BACKWARD; \
	}								\
	int main(int argc, char **argv)					\
	{								\
		exit(run_chosen(argc, argv));				\
	}

#endif /* _MPA_CHOSEN_H */
