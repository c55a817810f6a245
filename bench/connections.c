// SPDX-License-Identifier: GPL-2.0
/*
 * Many connections, all ends in one process: the memory of an idle connection, and the
 * cost of a request and its answer.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mpa.h>
#include <linux/membarrier.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

#define REQUEST		64
#define ROUND_TRIPS	4000

/* Memory that the kernel uses, in octets */
struct memory {
	double slab;	/* objects in its caches */
	double pages;	/* all pages that are not free */
};

/* Files are opened only once: memory for opening them would be counted. */
static int slabinfo = -1;
static int shrink[1024];
static size_t nr_shrink;

static char *read_slabinfo(void)
{
	static char text[256 * 1024];
	size_t len = 0;
	ssize_t n;

	lseek(slabinfo, 0, SEEK_SET);
	while ((n = read(slabinfo, text + len, sizeof(text) - 1 - len)) > 0)
		len += n;
	text[len] = '\0';
	return text;
}

static void open_slabs(void)
{
	char name[128], path[256];
	char *line;

	slabinfo = open("/proc/slabinfo", O_RDONLY);
	if (slabinfo < 0)
		fail("/proc/slabinfo");
	for (line = strtok(read_slabinfo(), "\n"); line;
	     line = strtok(NULL, "\n")) {
		if (sscanf(line, "%127s %*u", name) != 1 ||
		    nr_shrink == ARRAY_SIZE(shrink))
			continue;
		snprintf(path, sizeof(path), "/sys/kernel/slab/%s/shrink",
			 name);
		shrink[nr_shrink] = open(path, O_WRONLY);
		if (shrink[nr_shrink] >= 0)
			nr_shrink++;
	}
}

/*
 * Return the octets of objects in use. Shrink the caches first, which count as used the
 * free objects that processors keep.
 */
static double slab_octets(void)
{
	unsigned long objects, size;
	double octets = 0;
	char *line;
	size_t i;

	if (slabinfo < 0)
		open_slabs();
	for (i = 0; i < nr_shrink; i++) {
		if (write(shrink[i], "1", 1) < 0)
			fail("a cache");
	}
	for (line = strtok(read_slabinfo(), "\n"); line;
	     line = strtok(NULL, "\n")) {
		if (sscanf(line, "%*s %lu %*u %lu", &objects, &size) == 2)
			octets += (double)objects * size;
	}
	return octets;
}

static double free_octets(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	unsigned long kilo = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemFree: %lu", &kilo) == 1)
			break;
	}
	fclose(file);
	return kilo * 1024.0;
}

static struct memory memory(void)
{
	/* RCU frees memory seconds later. */
	const struct timespec while_freed = { .tv_sec = 15 };
	struct memory memory;

	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	nanosleep(&while_freed, NULL);
	memory.slab = slab_octets();
	memory.pages = -free_octets();
	return memory;
}

static int listener(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd;

	enter(false);
	*at = (struct sockaddr_in) {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x0a050402),
	};
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)at, len) ||
	    listen(fd, 128) || getsockname(fd, (struct sockaddr *)at, &len))
		fail("listen");
	enter(true);
	return fd;
}

static void start(int fd, int role)
{
	struct mpa_start start = { .role = role, .revision = 1 };

	/* Pass only 16 octets of @start: the memory for them is counted. */
	if (setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")) ||
	    setsockopt(fd, SOL_MPA, MPA_START, &start, 16))
		fail("MPA_START");
}

static void pair(const struct plan *plan, int fd[2], int from,
		 const struct sockaddr_in *to)
{
	int i;

	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (fd[0] < 0 || connect(fd[0], (struct sockaddr *)to, sizeof(*to)))
		fail("connect");
	fd[1] = accept(from, NULL, NULL);
	if (fd[1] < 0)
		fail("accept");
	for (i = 0; i < 2; i++)
		set_int(fd[i], SOL_TCP, TCP_NODELAY, 1);
	if (plan->way == &way_mpa) {
		start(fd[1], MPA_ROLE_RESPONDER);
		start(fd[0], MPA_ROLE_INITIATOR);
	}
}

static void request(int fd[2], int events)
{
	static char octets[REQUEST];
	struct epoll_event event;

	if (send(fd[0], octets, REQUEST, 0) != REQUEST ||
	    epoll_wait(events, &event, 1, -1) != 1 ||
	    event.data.fd != fd[1] ||
	    recv(fd[1], octets, REQUEST, 0) != REQUEST ||
	    send(fd[1], octets, REQUEST, 0) != REQUEST ||
	    recv(fd[0], octets, REQUEST, 0) != REQUEST)
		fail("asking and answering");
}

static double now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* Connections */
struct many {
	const struct plan *plan;
	int (*fd)[2];			/* the ends of each */
	int from;			/* the listening socket */
	struct sockaddr_in at;		/* its address */
	int events;			/* epoll on the accepted ends */
};

static void open_all(struct many *many)
{
	uint64_t i;

	for (i = 0; i < many->plan->count; i++)
		pair(many->plan, many->fd[i], many->from, &many->at);
}

static void watch_all(struct many *many)
{
	struct epoll_event event = { .events = EPOLLIN };
	uint64_t i;

	for (i = 0; i < many->plan->count; i++) {
		event.data.fd = many->fd[i][1];
		if (epoll_ctl(many->events, EPOLL_CTL_ADD, event.data.fd,
			      &event))
			fail("epoll_ctl");
	}
}

static void close_all(struct many *many)
{
	const struct linger reset = { .l_onoff = 1 };
	uint64_t i;

	for (i = 0; i < many->plan->count; i++) {
		setsockopt(many->fd[i][0], SOL_SOCKET, SO_LINGER, &reset,
			   sizeof(reset));
		close(many->fd[i][0]);
		close(many->fd[i][1]);
	}
}

static void requests(struct many *many, uint64_t trips)
{
	uint64_t i;

	for (i = 0; i < trips; i++)
		request(many->fd[i % many->plan->count], many->events);
}

static void print_memory(const char *name, const struct memory *from,
			 const struct memory *to, uint64_t sockets)
{
	printf("\"%s\": {\"slab\": %.1f, \"pages\": %.1f}", name,
	       (to->slab - from->slab) / sockets,
	       (to->pages - from->pages) / sockets);
}

static void measure_memory(struct many *many, bool last)
{
	uint64_t sockets = 2 * many->plan->count;
	struct memory none, idle, watched, used;

	none = memory();
	open_all(many);
	idle = memory();
	watch_all(many);
	watched = memory();
	requests(many, many->plan->count);
	used = memory();
	/* Epoll's memory does not belong to the connections. */
	used.slab -= watched.slab - idle.slab;
	used.pages -= watched.pages - idle.pages;
	printf("{");
	print_memory("idle", &none, &idle, sockets);
	printf(", ");
	print_memory("used", &none, &used, sockets);
	printf("}%s", last ? "], " : ", ");
	if (!last)
		close_all(many);
}

void connections(const struct plan *plan)
{
	struct rlimit limit = { 2 * plan->count + 2048, 2 * plan->count + 2048 };
	struct many many = { .plan = plan };
	int repeat, rounds;
	uint64_t trips;
	double began;

	many.fd = calloc(plan->count, sizeof(*many.fd));
	if (!many.fd || setrlimit(RLIMIT_NOFILE, &limit))
		fail("this number of sockets");
	many.from = listener(&many.at);
	many.events = epoll_create1(0);
	memory();
	/* The first connections also allocate memory that later connections share. */
	open_all(&many);
	watch_all(&many);
	requests(&many, plan->count);
	close_all(&many);

	printf("\"count\": %lu, \"memory\": [", plan->count);
	rounds = plan->count < 100 ? 5 : 1;
	for (repeat = 1; repeat <= rounds; repeat++)
		measure_memory(&many, repeat == rounds);

	printf("\"runs\": [");
	trips = plan->count > ROUND_TRIPS ? plan->count : ROUND_TRIPS;
	for (repeat = 0; repeat < plan->repeat; repeat++) {
		began = now();
		requests(&many, trips);
		printf("%s{\"ns\": %.0f, \"trips\": %lu}", repeat ? ", " : "",
		       now() - began, trips);
	}
	printf("]}\n");
}
