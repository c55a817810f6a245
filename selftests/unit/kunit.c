// SPDX-License-Identifier: GPL-2.0
/* Run the protocol layer's tests in the kernel, under KUnit. */

#include <kunit/test.h>
#include <linux/sched.h>
#include "mpa_framing.h"
#include "unit.h"

/* One hundredth of the number in user space: KASAN is slow. */
#define MODEL_STREAMS	500

u64 unit_seed = 5044;
u32 unit_streams = MODEL_STREAMS;

/* KUnit runs tests one after another. */
static struct kunit *running;
static char context[256];

void unit_progress(u32 done, u32 all)
{
	cond_resched();
}

void unit_context(const char *what, ...)
{
	va_list args;

	va_start(args, what);
	vsnprintf(context, sizeof(context), what, args);
	va_end(args);
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Print the place in the test before the message. */
#define FAIL(file, line, format, ...)					\
	KUNIT_FAIL(running, "%s%s%s:%d: " format, context,		\
		   context[0] ? ": " : "", file_name(file), line,	\
		   ##__VA_ARGS__)

void unit_unequal(const char *file, int line, u64 expected, u64 seen,
		  const char *what, ...)
{
	struct va_format vaf = { .fmt = what };
	va_list args;

	va_start(args, what);
	vaf.va = &args;
	FAIL(file, line, "%pV: expected %llu (0x%llx), seen %llu (0x%llx)",
	     &vaf, expected, expected, seen, seen);
	va_end(args);
	kunit_try_catch_throw(&running->try_catch);
}

void unit_octets_differ(const char *file, int line, const u8 *expected,
			const u8 *seen, size_t len, const char *what, ...)
{
	struct va_format vaf = { .fmt = what };
	size_t at = 0, from;
	va_list args;
	int n;

	while (expected[at] == seen[at])
		at++;
	from = at < 8 ? 0 : at - 8;
	n = min_t(size_t, len - from, 16);

	va_start(args, what);
	vaf.va = &args;
	FAIL(file, line,
	     "%pV: octet %zu of %zu; from octet %zu: expected %*ph, seen %*ph",
	     &vaf, at, len, from, n, expected + from, n, seen + from);
	va_end(args);
	kunit_try_catch_throw(&running->try_catch);
}

static int begin(struct kunit *test)
{
	/* Some kernels run tests before the module is initialized. */
	mpa_crc3_init();
	/* Enable TUF's code, like its first socket. */
	static_branch_enable(&mpa_alt_used);
	running = test;
	context[0] = '\0';
	return 0;
}

static void run(struct kunit *test)
{
	const struct unit_test *unit_test = test->param_value;

	unit_test->run();
}

static const void *next_test(const struct unit_test *table, const void *last,
			     char *name)
{
	const struct unit_test *test = last;

	test = test ? test + 1 : table;
	if (!test->run)
		return NULL;
	strscpy(name, test->name, KUNIT_PARAM_DESC_SIZE);
	return test;
}

/* Newer kernels pass the test, too. */
#ifdef MPA_HAVE_KUNIT_PARAM_TEST
#define TEST_PARAM	struct kunit *test,
#else
#define TEST_PARAM
#endif

#define TABLE(name)							\
	static const void *name##_next(TEST_PARAM const void *last,	\
				       char *desc)			\
	{								\
		return next_test(name##_tests, last, desc);		\
	}

TABLE(vector);
TABLE(crc);
TABLE(edge);
TABLE(mulpdu);
TABLE(framing);
TABLE(tuf);
TABLE(startup);
TABLE(agree);
TABLE(tuf_model);
TABLE(model);

#define TABLE_CASE(what)						\
	{ .name = #what, .run_case = run, .generate_params = what##_next }

static struct kunit_case cases[] = {
	TABLE_CASE(vector),
	TABLE_CASE(crc),
	TABLE_CASE(edge),
	TABLE_CASE(mulpdu),
	TABLE_CASE(framing),
	TABLE_CASE(tuf),
	TABLE_CASE(startup),
	TABLE_CASE(agree),
	TABLE_CASE(tuf_model),
	TABLE_CASE(model),
	{ }
};

static struct kunit_suite suite = {
	.name = "mpa_layer0",
	.init = begin,
	.test_cases = cases,
};

kunit_test_suite(suite);
