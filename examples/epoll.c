// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Many connections in one thread: a server, and a client that opens them.
 *
 *	ulimit -n 20000
 *	epoll server 4242 &
 *	epoll load localhost 4242 10000 3	connections, records on each
 *
 * It shows: a listening socket whose accepted connections start automatically; startup
 * on non-blocking sockets (MPA_START, EINPROGRESS, EPOLLOUT, SO_ERROR); keeping a
 * record until EPOLLOUT if the socket does not accept it. An idle connection needs only
 * an entry in the server's table.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mpa_socket.h>

enum {
	EVENTS = 256,
	PAUSE_MS = 1000,
	FILES_MAX = 1 << 20,
	AT_ONCE = 200,		/* connections that the client opens at a time */
	RECORD = 100,
};

static char buf[MPA_ULPDU_MAX];

/* Raise the limit of file descriptors, and return it. */
static rlim_t raise_limit(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max < FILES_MAX ? limit.rlim_max : FILES_MAX;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur;
}

static int watch(int epoll, int how, int fd, unsigned int events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	return epoll_ctl(epoll, how, fd, &event);
}

/* ---- the server ---- */

/* A record that waits for space in the socket, by file descriptor. */
struct waiting {
	size_t len;
	char record[];
};

static struct waiting **waiting;

/* The listener, out of epoll while no more files can be opened, or -1. */
static int paused = -1;

static void resume(int epoll)
{
	if (paused >= 0)
		watch(epoll, EPOLL_CTL_MOD, paused, EPOLLIN);
	paused = -1;
}

static void hang_up(int epoll, int fd)
{
	free(waiting[fd]);
	waiting[fd] = NULL;
	close(fd);		/* also removes it from epoll */
	resume(epoll);
}

/* Keep a record, and stop reading until it is sent. */
static void keep(int epoll, int fd, size_t len)
{
	struct waiting *kept = malloc(sizeof(*kept) + len);

	if (!kept) {
		hang_up(epoll, fd);
		return;
	}
	kept->len = len;
	memcpy(kept->record, buf, len);
	waiting[fd] = kept;
	watch(epoll, EPOLL_CTL_MOD, fd, EPOLLOUT);
}

static void echo(int epoll, int fd)
{
	ssize_t len = recv(fd, buf, sizeof(buf), 0);

	if (len < 0 && errno == EAGAIN)
		return;
	if (len <= 0)
		hang_up(epoll, fd);
	else if (send(fd, buf, len, MSG_NOSIGNAL) >= 0)
		return;
	else if (errno == EAGAIN)
		keep(epoll, fd, len);
	else
		hang_up(epoll, fd);
}

static void send_kept(int epoll, int fd)
{
	struct waiting *kept = waiting[fd];

	if (send(fd, kept->record, kept->len, MSG_NOSIGNAL) < 0) {
		if (errno != EAGAIN)
			hang_up(epoll, fd);
		return;
	}
	free(kept);
	waiting[fd] = NULL;
	watch(epoll, EPOLL_CTL_MOD, fd, EPOLLIN);
}

/* Startup needs no call: EPOLLIN reports the first record, or a failure. */
static void take_all(int epoll, int listener)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
		if (watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN))
			close(fd);
	if (errno != EMFILE && errno != ENFILE)
		return;
	perror("epoll: accept, trying again when a connection ends, or after a second");
	watch(epoll, EPOLL_CTL_MOD, listener, 0);
	paused = listener;
}

static int serve(const char *port)
{
	int listener = mpa_socket_listen(NULL, port, 0), epoll = epoll_create1(0), n;
	struct epoll_event events[EVENTS];

	waiting = calloc(raise_limit(), sizeof(*waiting));
	if (listener < 0 || epoll < 0 || !waiting ||
	    fcntl(listener, F_SETFL, O_NONBLOCK) ||
	    watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN)) {
		perror("epoll: listening");
		return 1;
	}
	puts("listening");
	fflush(stdout);
	while ((n = epoll_wait(epoll, events, EVENTS, paused < 0 ? -1 : PAUSE_MS)) >= 0 ||
	       errno == EINTR) {
		/* Other processes may also free files, so try again after a second. */
		if (!n)
			resume(epoll);
		while (n-- > 0) {
			int fd = events[n].data.fd;

			if (fd == listener)
				take_all(epoll, listener);
			else if (waiting[fd])
				send_kept(epoll, fd);
			else
				echo(epoll, fd);
		}
	}
	perror("epoll: epoll_wait");
	return 1;
}

/* ---- the client ---- */

/* Stage of a client's connection, by file descriptor. */
enum stage { CONNECTING, STARTING, OPEN };

struct load {
	struct addrinfo *to;
	enum stage *stage;
	unsigned int *sent;
	unsigned int wanted, rounds, opening, open, answered;
	int epoll;
};

static void fill(char *record, int fd, unsigned int round)
{
	snprintf(record, RECORD, "%d %u", fd, round);
	memset(record + strlen(record), 'x', RECORD - strlen(record));
}

/* Send the next record, unless this was the last one. */
static int send_next(struct load *load, int fd)
{
	char record[RECORD];

	if (load->sent[fd] == load->rounds)
		return 0;
	fill(record, fd, load->sent[fd]++);
	return send(fd, record, RECORD, MSG_NOSIGNAL) < 0;
}

static int open_one(struct load *load)
{
	int fd = socket(load->to->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0 ||
	    (connect(fd, load->to->ai_addr, load->to->ai_addrlen) &&
	     errno != EINPROGRESS))
		return -1;
	load->stage[fd] = CONNECTING;
	load->opening++;
	return watch(load->epoll, EPOLL_CTL_ADD, fd, EPOLLOUT);
}

/* Start without blocking: EINPROGRESS, then EPOLLOUT when startup is complete. */
static int start(struct load *load, int fd)
{
	struct mpa_start start = { .role = MPA_ROLE_INITIATOR, .revision = 1 };

	load->stage[fd] = STARTING;
	return setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")) ||
	       (setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start)) &&
		errno != EINPROGRESS);
}

static int started(struct load *load, int fd)
{
	load->stage[fd] = OPEN;
	load->opening--;
	load->open++;
	return watch(load->epoll, EPOLL_CTL_MOD, fd, EPOLLIN) || send_next(load, fd);
}

static int answer(struct load *load, int fd)
{
	ssize_t len = recv(fd, buf, sizeof(buf), 0);
	char record[RECORD];

	if (len < 0)
		return -1;
	fill(record, fd, load->sent[fd] - 1);
	if (len != RECORD || memcmp(record, buf, RECORD)) {
		errno = EBADMSG;
		return -1;
	}
	load->answered++;
	return send_next(load, fd);
}

static int step(struct load *load, int fd)
{
	socklen_t len = sizeof(errno);
	int err = 0;

	if (load->stage[fd] == OPEN)
		return answer(load, fd);
	/* Get the result of connect() or MPA_START. */
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		errno = err;
		return -1;
	}
	return load->stage[fd] == CONNECTING ? start(load, fd) : started(load, fd);
}

/* No connection is closed before the last answer arrives. */
static int run(struct load *load)
{
	struct epoll_event events[EVENTS];
	int n;

	while (load->answered < load->wanted * load->rounds) {
		while (load->opening < AT_ONCE &&
		       load->opening + load->open < load->wanted)
			if (open_one(load))
				return -1;
		n = epoll_wait(load->epoll, events, EVENTS, -1);
		while (n-- > 0)
			if (step(load, events[n].data.fd))
				return -1;
	}
	return 0;
}

static int client(char **argv)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct load load = {
		.wanted = atoi(argv[2]),
		.rounds = atoi(argv[3]),
		.epoll = epoll_create1(0),
	};
	rlim_t limit = raise_limit();
	int rc;

	load.stage = calloc(limit, sizeof(*load.stage));
	load.sent = calloc(limit, sizeof(*load.sent));
	if (!load.stage || !load.sent || getaddrinfo(argv[0], argv[1], &hints, &load.to)) {
		fprintf(stderr, "epoll: out of memory, or unknown host %s\n", argv[0]);
		return 1;
	}
	rc = run(&load);
	if (rc)
		perror("epoll: load");
	printf("%u connections open, %u records answered\n", load.open, load.answered);
	freeaddrinfo(load.to);
	free(load.stage);
	free(load.sent);
	return !!rc;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "server"))
		return serve(argv[2]);
	if (argc == 6 && !strcmp(argv[1], "load"))
		return client(argv + 2);
	fprintf(stderr, "usage: epoll server PORT\n"
		"       epoll load HOST PORT CONNECTIONS RECORDS\n");
	return 2;
}
