// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of a segment out of order, by the number of islands in TCP's queue. Segments are
 * forged over loopback, where the time to send a segment includes receiving it.
 */

#include "../selftests/lib/mpa_test.h"
#include "../selftests/lib/mpa_forge.h"

#include "traffic.h"

#define SEGMENTS	512	/* segments sent after the last island */
#define MEASURED	64	/* segments measured at the beginning, and at the end */
#define RECORD		1400

/* Open a connection with a large buffer, and let the window grow by receiving data. */
static void open_wide(int fd[2])
{
	int rmem = open("/proc/sys/net/ipv4/tcp_rmem", O_WRONLY), i;
	static const char room[] = "16777216 16777216 16777216";
	static u8 octets[60000];

	if (write(rmem, room, strlen(room)) < 0 || close(rmem) ||
	    tcp_pair(AF_INET, fd))
		fail("a connection");
	for (i = 0; i < 80; i++) {
		if (write_all(fd[0], octets, sizeof(octets)) ||
		    read_all(fd[1], octets, sizeof(octets)) != sizeof(octets))
			fail("the window");
	}
}

static double clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* Send segments of one record each. Return: the time in nanoseconds. */
static double segments(struct forger *forger, const u8 *stream, const u32 *start,
		       u32 from, u32 nr, u32 step)
{
	double began = clock_now();
	u32 i;

	for (i = from; i < from + nr * step; i += step) {
		if (forge(forger, start[i], stream + start[i],
			  start[i + 1] - start[i], 0, 0))
			fail("a segment");
	}
	return clock_now() - began;
}

static u32 received_now(int fd)
{
	static u8 octets[2 * RECORD];
	u32 nr = 0;

	while (recv(fd, octets, sizeof(octets), MSG_DONTWAIT) == RECORD)
		nr++;
	return nr;
}

static void measure(const struct plan *plan)
{
	u32 islands = plan->count, nr = 2 * islands + SEGMENTS + 1, i;
	const struct timespec moment = { .tv_nsec = 50000000 };
	u32 *start = calloc(nr + 1, sizeof(*start));
	struct peer peer = { .tx_markers = true };
	static u8 record[RECORD], fpdu[80000];
	u8 *stream = malloc(nr * 2 * RECORD);
	struct forger forger;
	double first, last;
	int fd[2];

	if (!start || !stream || own_netns())
		fail("memory");
	open_wide(fd);
	for (i = 0; i < nr; i++) {
		start[i + 1] = start[i] + peer_fpdu(&peer, record, RECORD, fpdu);
		memcpy(stream + start[i], fpdu, start[i + 1] - start[i]);
	}
	if (mpa_attach(fd[1]) ||
	    mpa_start(fd[1], MPA_ROLE_DIRECT, MPA_START_MARKERS) ||
	    forger_open(&forger, fd[0], fd[1]))
		fail("MPA");
	set_int(fd[1], SOL_MPA, MPA_PLACE, plan->place);

	/*
	 * Send records 1, 3, 5 and so on, the islands; then all records after the last
	 * island.
	 */
	segments(&forger, stream, start, 1, islands, 2);
	nanosleep(&moment, NULL);
	i = 2 * islands;
	first = segments(&forger, stream, start, i, MEASURED, 1);
	segments(&forger, stream, start, i + MEASURED, SEGMENTS - 2 * MEASURED,
		 1);
	last = segments(&forger, stream, start, i + SEGMENTS - MEASURED,
			MEASURED, 1);
	errno = EILSEQ;
	if (received_now(fd[1]) != (plan->place ? islands + SEGMENTS : 0))
		fail("records out of order");
	printf("{\"ns\": %.0f, \"first\": %.0f, \"last\": %.0f}", first + last,
	       first / MEASURED, last / MEASURED);
	close(fd[0]);
	close(fd[1]);
	close(forger.raw);
	free(stream);
	free(start);
}

void islands(const struct plan *plan)
{
	int repeat;

	printf("\"count\": %lu, \"runs\": [", plan->count);
	for (repeat = 0; repeat < plan->repeat; repeat++) {
		measure(plan);
		printf("%s", repeat + 1 < plan->repeat ? ", " : "]}\n");
	}
}
