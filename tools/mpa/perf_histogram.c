// SPDX-License-Identifier: GPL-2.0
/*
 * A log-linear histogram like HdrHistogram: each power of two has buckets of equal
 * width, so that values are accurate to one part in 128. Minimum, maximum, mean and
 * number of values are exact.
 */
#include "perf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	SUB_BITS = 7,
	SUB = 1 << SUB_BITS,		/* buckets in a power of two */
	VALUE_BITS = 64,
	BUCKETS = (VALUE_BITS - SUB_BITS + 1) * SUB,
};

struct perf_histogram {
	long double sum;
	long double squares;
	uint64_t count;
	uint64_t least;
	uint64_t most;
	uint64_t bucket[BUCKETS];
};

struct perf_histogram *perf_histogram_new(void)
{
	struct perf_histogram *histogram = need_memory(malloc(sizeof(*histogram)));

	perf_histogram_clear(histogram);
	return histogram;
}

void perf_histogram_clear(struct perf_histogram *histogram)
{
	memset(histogram, 0, sizeof(*histogram));
	histogram->least = UINT64_MAX;
}

/* Each value below SUB has its own bucket. */
static unsigned int bucket_of(uint64_t value)
{
	unsigned int shift;

	if (value < SUB)
		return value;
	shift = VALUE_BITS - 1 - __builtin_clzll(value) - SUB_BITS;
	return (shift + 1) * SUB + (value >> shift) - SUB;
}

/* Return: the greatest value of a bucket. */
static uint64_t top_of(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < SUB)
		return bucket;
	shift = bucket / SUB - 1;
	return (((uint64_t)SUB + bucket % SUB + 1) << shift) - 1;
}

void perf_histogram_add(struct perf_histogram *histogram, uint64_t value)
{
	histogram->bucket[bucket_of(value)]++;
	histogram->count++;
	histogram->sum += value;
	histogram->squares += (long double)value * value;
	if (value < histogram->least)
		histogram->least = value;
	if (value > histogram->most)
		histogram->most = value;
}

void perf_histogram_merge(struct perf_histogram *to, const struct perf_histogram *from)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
	to->count += from->count;
	to->sum += from->sum;
	to->squares += from->squares;
	if (from->least < to->least)
		to->least = from->least;
	if (from->most > to->most)
		to->most = from->most;
}

uint64_t perf_histogram_count(const struct perf_histogram *histogram)
{
	return histogram->count;
}

/* Return: the percentile @percent. */
uint64_t perf_histogram_at(const struct perf_histogram *histogram, double percent)
{
	uint64_t rank = ceil(percent / 100 * histogram->count), seen = 0, top;

	for (unsigned int i = 0; i < BUCKETS; i++) {
		seen += histogram->bucket[i];
		if (seen < rank || !seen)
			continue;
		top = top_of(i);
		return top < histogram->most ? top : histogram->most;
	}
	return 0;
}

uint64_t perf_histogram_least(const struct perf_histogram *histogram)
{
	return histogram->count ? histogram->least : 0;
}

uint64_t perf_histogram_most(const struct perf_histogram *histogram)
{
	return histogram->most;
}

double perf_histogram_mean(const struct perf_histogram *histogram)
{
	return histogram->count ? (double)(histogram->sum / histogram->count) : 0;
}

double perf_histogram_deviation(const struct perf_histogram *histogram)
{
	long double mean, variance;

	if (!histogram->count)
		return 0;
	mean = histogram->sum / histogram->count;
	variance = histogram->squares / histogram->count - mean * mean;
	return variance > 0 ? sqrt((double)variance) : 0;
}

/* Return: [[upper limit in microseconds, number of values], ...], without empty buckets. */
json_t *perf_histogram_pack(const struct perf_histogram *histogram)
{
	json_t *list = need_memory(json_array());

	for (unsigned int i = 0; i < BUCKETS; i++)
		if (histogram->bucket[i])
			json_array_append_new(list, json_pack("[f, I]", top_of(i) / NS_PER_US,
							      (json_int_t)histogram->bucket[i]));
	return list;
}
