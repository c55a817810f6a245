/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The time that a segment out of order takes. Include it after mpa_place.h. It compares
 * times: do not use it in a guest on a busy host.
 */
#ifndef _MPA_PLACE_COST_H
#define _MPA_PLACE_COST_H

#include <sched.h>
#include <time.h>

static inline double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* Bind the work item to this processor, so that it and the test do not run in parallel. */
static inline int one_workqueue(void)
{
	int fd = open("/sys/devices/virtual/workqueue/cpumask", O_WRONLY);
	char mask[20];
	int len = sprintf(mask, "%x", 1 << sched_getcpu());

	return write(fd, mask, len) != len || close(fd) ? -1 : 0;
}

/*
 * Return: the time, in microseconds, for a segment of one octet and its work item,
 * while the test sleeps @rest us. It is the minimum of several tries, as other tasks
 * use the processor, too.
 */
static inline double segment_us(struct _test_data_place *self, u32 off, u32 step,
				unsigned int rest)
{
	double least = 1e9, us;
	int i, n;

	if (one_workqueue())
		return -1;
	for (i = 0; i < 20; i++) {
		us = now_us();
		for (n = 0; n < 20; n++, off += step) {
			if (forge(&self->forger, off, self->stream + off, 1, 0,
				  0))
				return -1;
			if (rest)
				usleep(rest);
			else
				sched_yield();
			/* This waits for the socket lock, if the work item holds it. */
			if (set_int(self->fd, MPA_RECVINFO, 1))
				return -1;
		}
		us = (now_us() - us) / 20;
		if (us < least)
			least = us;
	}
	return least;
}

/* A factor of two may be noise. */
#define COSTS_THE_SAME(few, many)					\
do {									\
	double _few = (few), _many = (many);				\
									\
	TH_LOG("%.1f us, %.1f us", _few, _many);			\
	ASSERT_LT(0, _few);						\
	EXPECT_LT(_many, 2.5 * _few);					\
} while (0)

#endif /* _MPA_PLACE_COST_H */
