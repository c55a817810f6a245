// SPDX-License-Identifier: GPL-2.0
/*
 * The server: accept connections, read their hellos, and fork a process for the present
 * test. A client with another protocol occupies a descriptor for some seconds, and gets
 * no answer.
 */
#include "perf.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	NEWCOMERS = 64,		/* maximum of connections with an incomplete hello */
	HELLO_MS = 5000,	/* timeout for a hello */
	BACKLOG = 128,
};

struct newcomer {
	int fd;
	uint64_t since;
	size_t have;
	char hello[PERF_HELLO + 1];
};

struct server {
	const struct perf_server *options;
	int listener;
	pid_t child;		/* process of the present test; 0: none */
	int channel;		/* socket to @child */
	char *busy_with;
	int status;		/* exit status of the last test */
	bool over;
	unsigned int n;
	struct newcomer newcomer[NEWCOMERS];
};

static void on_child(int signal)
{
	(void)signal;
}

static void drop(struct server *server, unsigned int i)
{
	close(server->newcomer[i].fd);
	server->newcomer[i] = server->newcomer[--server->n];
}

static void welcome(struct server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	unsigned int oldest = 0;

	if (fd < 0)
		return;
	if (server->n == NEWCOMERS) {
		for (unsigned int i = 1; i < server->n; i++)
			if (server->newcomer[i].since < server->newcomer[oldest].since)
				oldest = i;
		drop(server, oldest);
	}
	server->newcomer[server->n++] = (struct newcomer){ .fd = fd, .since = perf_now() };
}

static void refuse(int fd, const char *why)
{
	char hello[PERF_HELLO];

	perf_hello_make(hello, "NO %s", why);
	/* MSG_DONTWAIT: the server must not wait for a client. */
	if (send(fd, hello, sizeof(hello), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
	shutdown(fd, SHUT_WR);
}

static void hand_over(struct server *server, struct newcomer *newcomer)
{
	union {
		struct cmsghdr first;
		char octets[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec iov = { .iov_base = newcomer->hello, .iov_len = PERF_HELLO };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &newcomer->fd, sizeof(int));
	if (!server->child || sendmsg(server->channel, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		refuse(newcomer->fd, "no run has that token");
}

/* Close inherited descriptors that the test's process does not need. */
static void forget(struct server *server, int but)
{
	close(server->listener);
	close(server->channel);
	for (unsigned int i = 0; i < server->n; i++)
		if (server->newcomer[i].fd != but)
			close(server->newcomer[i].fd);
}

static void begin_test(struct server *server, struct newcomer *newcomer)
{
	pid_t parent = getpid();
	char why[PERF_HELLO];
	int pair[2];

	if (server->child) {
		snprintf(why, sizeof(why), "the server is busy with a test of %s: try again later",
			 server->busy_with);
		refuse(newcomer->fd, why);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		refuse(newcomer->fd, "the server has no file descriptor left");
		return;
	}
	fflush(stdout);
	server->channel = pair[0];
	server->child = fork();
	if (!server->child) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			exit(STATUS_LOCAL);
		forget(server, newcomer->fd);
		exit(perf_session(newcomer->fd, pair[1], server->options->json));
	}
	close(pair[1]);
	if (server->child < 0) {
		refuse(newcomer->fd, "the server cannot fork");
		server->child = 0;
		close(server->channel);
		return;
	}
	free(server->busy_with);
	server->busy_with = endpoint_of(newcomer->fd, true);
}

/* Handle a complete hello. */
static void serve(struct server *server, struct newcomer *newcomer)
{
	char token[PERF_TOKEN + 1], why[PERF_HELLO];
	unsigned int index;
	char word[8];
	int version;

	if (sscanf(newcomer->hello, "MPA-PERF %d %7s", &version, word) < 1)
		return;
	if (version != PERF_VERSION) {
		snprintf(why, sizeof(why),
			 "the client speaks version %d, the server version %d: use the same mpa",
			 version, PERF_VERSION);
		refuse(newcomer->fd, why);
	} else if (!strcmp(word, "CONTROL")) {
		begin_test(server, newcomer);
	} else if (sscanf(newcomer->hello, "MPA-PERF 1 DATA %16s %u", token, &index) == 2) {
		hand_over(server, newcomer);
	} else {
		refuse(newcomer->fd, "a hello is CONTROL or DATA");
	}
}

/* Return: true if the hello is valid so far, but incomplete. */
static bool read_hello(struct server *server, struct newcomer *newcomer)
{
	ssize_t n = recv(newcomer->fd, newcomer->hello + newcomer->have,
			 PERF_HELLO - newcomer->have, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	newcomer->have += n;
	if (!n || !perf_hello_may_be(newcomer->hello, newcomer->have))
		return false;
	if (newcomer->have < PERF_HELLO)
		return true;
	serve(server, newcomer);
	return false;
}

/* Check whether the present test has ended. */
static void reap(struct server *server)
{
	int status;

	if (!server->child || waitpid(server->child, &status, WNOHANG) != server->child)
		return;
	close(server->channel);
	server->child = 0;
	if (WIFSIGNALED(status))
		complain("the test was killed by signal %d", WTERMSIG(status));
	server->status = WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_LOCAL;
	server->over = server->options->one && server->status != PERF_NOTHING;
}

static void wait_for_events(struct server *server, const sigset_t *waiting)
{
	struct pollfd poll_for[NEWCOMERS + 1] = { { .fd = server->listener, .events = POLLIN } };
	static const struct timespec second = { .tv_sec = 1 };
	unsigned int n = server->n;

	for (unsigned int i = 0; i < n; i++)
		poll_for[i + 1] = (struct pollfd){
			.fd = server->newcomer[i].fd,
			.events = POLLIN,
		};
	if (ppoll(poll_for, n + 1, n ? &second : NULL, waiting) < 0)
		return;
	/* Go backwards: drop() moves the last connection into the dropped one's place. */
	for (unsigned int i = n; i-- > 0;)
		if (poll_for[i + 1].revents ?
		    !read_hello(server, &server->newcomer[i]) :
		    perf_now() - server->newcomer[i].since > HELLO_MS * NS_PER_MS)
			drop(server, i);
	if (poll_for[0].revents)
		welcome(server);
}

/* Warn at the start if the kernel has no MPA. */
static void look_for_mpa(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")) && errno == ENOENT)
		note("the kernel has no mpa, so only --tcp works: sudo modprobe mpa");
	close(fd);
}

int perf_server(const struct perf_server *options)
{
	struct server server = { .options = options };
	sigset_t waiting, blocked;
	char *name;

	look_for_mpa();
	server.listener = endpoint_listen(&options->at, options->family, BACKLOG);
	/* Do not block: the connection may be reset before accept(). */
	fcntl(server.listener, F_SETFL, O_NONBLOCK);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, &waiting);
	sigdelset(&waiting, SIGCHLD);
	signal(SIGCHLD, on_child);
	name = endpoint_of(server.listener, false);
	note("serving on %s", name);
	free(name);
	while (!server.over) {
		wait_for_events(&server, &waiting);
		reap(&server);
	}
	return server.status;
}
