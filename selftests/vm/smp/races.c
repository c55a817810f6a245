// SPDX-License-Identifier: GPL-2.0
/*
 * Everything at once on two processors: at both ends of a connection two threads send,
 * two receive, and one reads and sets options, until the connection ends in one of
 * several ways. Received octets must be right; run reports the kernel's complaints.
 *
 *	races SECONDS
 */

#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

#include "mpa_test.h"

/* Ways to end a connection. */
enum ending {
	SHUT_WRITE,	/* all sent octets arrive */
	SHUT_BOTH,	/* shutdown(2) while all threads are active */
	CLOSED,		/* one end, with unread records */
	RESET,		/* one end, with a RST */
	STARTUP,	/* at some time during startup */
	ENDINGS
};

static const char * const ending_names[] = {
	"shut_write", "shut_both", "closed", "reset", "startup"
};

#define THREADS 5

struct end {
	int fd;
	enum ending ending;
	int stop_sending;
	int stop;
	unsigned long sent;
	unsigned long received;
	pthread_t threads[THREADS];
};

static int failures;

static void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("# ", stdout);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
}

static bool is_set(int *flag)
{
	return __atomic_load_n(flag, __ATOMIC_RELAXED);
}

static void set(int *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELAXED);
}

/* Only an end that is cut off may report an error. */
static void ended(struct end *end, const char *what, ssize_t n)
{
	if (end->ending == SHUT_WRITE)
		fail("%s: %zd (%s)", what, n, strerror(errno));
}

static void *sender(void *arg)
{
	unsigned int seed = (uintptr_t)&arg >> 12;
	struct end *end = arg;

	while (!is_set(&end->stop_sending)) {
		size_t len = rand_r(&seed) % 8 ? 1 + rand_r(&seed) % 3000 :
						 1 + rand_r(&seed) % MPA_ULPDU_MAX;
		ssize_t n = send(end->fd, record_of(len), len, MSG_NOSIGNAL);

		if (n == (ssize_t)len) {
			__atomic_add_fetch(&end->sent, 1, __ATOMIC_RELAXED);
		} else if (n >= 0) {
			fail("send of %zu octets took %zd", len, n);
		} else if (errno != EAGAIN) {
			ended(end, "send", n);
			break;
		}
	}
	return NULL;
}

static void *receiver(void *arg)
{
	u8 *buf = malloc(MPA_ULPDU_MAX + 1);
	struct end *end = arg;

	while (!is_set(&end->stop)) {
		ssize_t n = recv(end->fd, buf, MPA_ULPDU_MAX + 1, 0);

		if (n > 0) {
			if (!record_good(buf, n))
				fail("a record of %zd octets differs", n);
			__atomic_add_fetch(&end->received, 1, __ATOMIC_RELAXED);
		} else if (!n) {
			break;
		} else if (errno != EAGAIN) {
			ended(end, "recv", n);
			break;
		}
	}
	free(buf);
	return NULL;
}

static void *looker(void *arg)
{
	unsigned int seed = 1;
	struct end *end = arg;
	u8 octet;

	while (!is_set(&end->stop)) {
		int room = 4096 << rand_r(&seed) % 8;
		int value = rand_r(&seed) % 2;

		poll_for(end->fd, POLLIN | POLLOUT | POLLRDHUP, 0);
		inq(end->fd);
		mpa_info(end->fd);
		so_error(end->fd);
		recv(end->fd, &octet, 1, MSG_PEEK | MSG_DONTWAIT);
		setsockopt(end->fd, SOL_TCP, TCP_NODELAY, &value,
			   sizeof(value));
		setsockopt(end->fd, SOL_TCP, TCP_CORK, &value, sizeof(value));
		setsockopt(end->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
		setsockopt(end->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
		poll_for(end->fd, POLLIN, 1);
	}
	return NULL;
}

static void start_threads(struct end *end)
{
	static void *(*const work[THREADS])(void *) = {
		sender, sender, receiver, receiver, looker
	};
	int i;

	for (i = 0; i < THREADS; i++) {
		if (pthread_create(&end->threads[i], NULL, work[i], end)) {
			printf("Bail out! cannot start a thread\n");
			exit(1);
		}
	}
}

static void join(struct end *end, int first, int last)
{
	for (; first <= last; first++)
		pthread_join(end->threads[first], NULL);
}

static void run_for(int ms)
{
	poll(NULL, 0, ms);
}

/* Close both ends while frames and work items are in progress. */
static void abandon_startup(unsigned int n)
{
	int fd[2], i;

	if (tcp_pair(n % 2 ? AF_INET6 : AF_INET, fd)) {
		fail("no connection: %s", strerror(errno));
		return;
	}
	set_nonblock(fd[0]);
	if (mpa_attach(fd[0]) || mpa_attach(fd[1]) ||
	    mpa_start(fd[1], MPA_ROLE_RESPONDER, 0) ||
	    (mpa_start(fd[0], MPA_ROLE_INITIATOR, 0) && errno != EINPROGRESS))
		fail("no start: %s", strerror(errno));
	/* Close a little later each time. */
	for (i = n % 64; i; i--)
		so_error(fd[0]);
	close(fd[n / 2 % 2]);
	close(fd[!(n / 2 % 2)]);
}

static void run_round(unsigned int n, unsigned long *records)
{
	struct timeval tv = { .tv_usec = 50000 };
	enum ending ending = n % ENDINGS;
	struct end ends[2] = {};
	int fd[2], i;
	u8 octet;

	if (ending == STARTUP) {
		for (i = 0; i < 32; i++)
			abandon_startup(n / ENDINGS * 32 + i);
		return;
	}
	if (tcp_pair(n / ENDINGS % 2 ? AF_INET6 : AF_INET, fd) ||
	    mpa_started_pair(fd, n / ENDINGS & 2 ? MPA_START_MARKERS : 0,
			     n / ENDINGS & 4 ? MPA_START_MARKERS : 0)) {
		fail("no connection: %s", strerror(errno));
		return;
	}
	/* A responder must receive before it may send. */
	if (send(fd[0], record_of(1), 1, 0) != 1 ||
	    recv(fd[1], &octet, 1, 0) != 1)
		fail("no first record: %s", strerror(errno));

	for (i = 0; i < 2; i++) {
		ends[i] = (struct end){ .fd = fd[i], .ending = ending };
		setsockopt(fd[i], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		setsockopt(fd[i], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	}
	start_threads(&ends[0]);
	start_threads(&ends[1]);
	run_for(n * 37 % 400);

	switch (ending) {
	case SHUT_WRITE:
		for (i = 0; i < 2; i++) {
			set(&ends[i].stop_sending);
			join(&ends[i], 0, 1);
			shutdown(fd[i], SHUT_WR);
		}
		/* Read up to the end of the sent octets. */
		for (i = 0; i < 2; i++) {
			join(&ends[i], 2, 3);
			set(&ends[i].stop);
			join(&ends[i], 4, 4);
		}
		for (i = 0; i < 2; i++)
			if (ends[i].sent != ends[!i].received)
				fail("%lu records sent, %lu received",
				     ends[i].sent, ends[!i].received);
		break;
	case SHUT_BOTH:
		shutdown(fd[0], SHUT_RDWR);
		run_for(10);
		shutdown(fd[1], SHUT_RDWR);
		break;
	case RESET:
	case CLOSED:
		if (ending == RESET)
			setsockopt(fd[0], SOL_SOCKET, SO_LINGER,
				   &(struct linger){ .l_onoff = 1 },
				   sizeof(struct linger));
		/* The last system call that uses the file closes it. */
		set(&ends[0].stop);
		set(&ends[0].stop_sending);
		join(&ends[0], 0, 4);
		close(fd[0]);
		fd[0] = -1;
		run_for(10);
		break;
	default:
		break;
	}
	if (ending != SHUT_WRITE) {
		for (i = 0; i < 2; i++) {
			set(&ends[i].stop);
			set(&ends[i].stop_sending);
			if (i || fd[0] >= 0)
				join(&ends[i], 0, 4);
		}
	}
	for (i = 0; i < 2; i++) {
		*records += ends[i].received;
		if (fd[i] >= 0)
			close(fd[i]);
	}
}

int main(int argc, char **argv)
{
	unsigned long records[ENDINGS] = {}, rounds[ENDINGS] = {};
	int seconds = argc > 1 ? atoi(argv[1]) : 30;
	time_t end = time(NULL) + seconds;
	int bad[ENDINGS] = {}, i;
	unsigned int n = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	record_of(1);
	do {
		int before = failures;

		i = n % ENDINGS;
		run_round(n++, &records[i]);
		rounds[i]++;
		bad[i] += failures - before;
	} while (time(NULL) < end || n < ENDINGS);

	printf("TAP version 13\n1..%d\n", ENDINGS);
	for (i = 0; i < ENDINGS; i++)
		printf("%s %d %s # %lu rounds, %lu records\n",
		       bad[i] ? "not ok" : "ok", i + 1, ending_names[i],
		       rounds[i], records[i]);
	return failures != 0;
}
