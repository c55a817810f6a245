/* SPDX-License-Identifier: GPL-2.0 */
/*
 * In front of the real one, this lets a test program run chosen tests only:
 *
 *	mpa_start 'tcp.ipv4.*' tcp.ipv6.attach_only_once
 *
 * and makes it stop at the first one that fails.
 */
#include <fnmatch.h>
#include_next <kselftest_harness.h>

static int run_chosen(char **patterns)
{
	static struct __fixture_variant_metadata none = { .name = "" };
	struct __fixture_variant_metadata *v;
	struct __fixture_metadata *f;
	struct __test_metadata *t;
	char name[256], **p;
	int run = 0;

	ksft_print_header();
	for (f = __fixture_list; f; f = f->next) {
		for (v = f->variant ?: &none; v; v = v->next) {
			for (t = f->tests; t; t = t->next) {
				snprintf(name, sizeof(name), "%s%s%s.%s",
					 f->name, v->name[0] ? "." : "",
					 v->name, t->name);
				for (p = patterns; *p; p++)
					if (!fnmatch(*p, name, 0))
						break;
				if (!*p)
					continue;
				run++;
				t->results = mmap(NULL, sizeof(*t->results),
						  PROT_READ | PROT_WRITE,
						  MAP_SHARED | MAP_ANONYMOUS,
						  -1, 0);
				__run_test(f, v, t);
				if (!t->passed)
					return KSFT_FAIL;
			}
		}
	}
	printf("1..%d\n", run);
	if (run)
		return KSFT_PASS;
	fprintf(stderr, "no test is called like that\n");
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
		(void)test_harness_run;					\
		return run_chosen(argv + 1);				\
	}
