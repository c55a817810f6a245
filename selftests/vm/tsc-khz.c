// SPDX-License-Identifier: GPL-2.0
/* Measure the rate of this machine's time stamp counter, and print it in kHz. */

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct pair {
	uint64_t tsc;
	uint64_t ns;
};

/* Read both clocks at the same time: take the best of several attempts. */
static struct pair now(void)
{
	struct pair pair = { 0, 0 };
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 50; i++) {
		uint64_t before = __rdtsc(), after;
		struct timespec ts;

		clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
		after = __rdtsc();
		if (after - before >= best)
			continue;
		best = after - before;
		pair.tsc = before + best / 2;
		pair.ns = ts.tv_sec * 1000000000ull + ts.tv_nsec;
	}
	return pair;
}

int main(void)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	struct pair a = now(), b;

	nanosleep(&pause, NULL);
	b = now();
	printf("%.0f\n", (b.tsc - a.tsc) * 1e6 / (b.ns - a.ns));
	return 0;
}
