// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Many outstanding requests and answers. A lost segment delays only the records that
 * it contains.
 *
 *	rpc server 4242 &
 *	rpc client localhost 4242 10000
 *
 * It shows: markers and MPA_PLACE at both ends, so that each record is returned once it
 * is complete; MPA_RECVINFO, which shows records that came early; an id in each record,
 * by which the client matches answers in any order. It prints the number of requests
 * and answers that arrived before lost ones. To lose some packets:
 *
 *	tc qdisc add dev lo root netem delay 5ms loss 2%
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mpa_socket.h>

enum {
	PAYLOAD = 1000,
	WINDOW = 64,			/* outstanding requests at a time */
};

struct message {
	unsigned int id;
	unsigned int sum;		/* answer: the sum of the payload's octets */
	unsigned char payload[PAYLOAD];	/* only in a request */
};

#define ANSWER_LEN	offsetof(struct message, payload)

static int failed(const char *what, int fd)
{
	fprintf(stderr, "rpc: %s: %s\n", what, mpa_socket_strerror(fd, errno));
	return 1;
}

/* On a listening socket it applies to all accepted sockets. */
static int place(int fd)
{
	return mpa_socket_set(fd, MPA_PLACE, 1) || mpa_socket_set(fd, MPA_RECVINFO, 1);
}

/* Receive a message. @early: set if it arrived before an earlier one. */
static ssize_t recv_placed(int fd, struct message *message, bool *early)
{
	struct mpa_recvinfo info;
	ssize_t len = mpa_socket_receive(fd, message, sizeof(*message), &info);

	*early = info.flags & MPA_RECVINFO_PLACED;
	return len;
}

static unsigned int sum(const unsigned char *octets)
{
	unsigned int total = 0, i;

	for (i = 0; i < PAYLOAD; i++)
		total += octets[i];
	return total;
}

/* Answer each request when it arrives: the order does not matter. */
static int answer(int fd)
{
	unsigned int requests = 0, early = 0;
	struct message message;
	bool is_early;
	ssize_t len;

	while ((len = recv_placed(fd, &message, &is_early)) > 0) {
		if (len != sizeof(message)) {
			fprintf(stderr, "rpc: a request of %zd octets\n", len);
			return 1;
		}
		requests++;
		early += is_early;
		message.sum = sum(message.payload);
		if (send(fd, &message, ANSWER_LEN, MSG_NOSIGNAL) < 0)
			return failed("send", fd);
	}
	if (len)
		return failed("recv", fd);
	printf("%u requests, %u of them early\n", requests, early);
	return 0;
}

static int serve(const char *port)
{
	int listener = mpa_socket_listen(NULL, port, MPA_START_MARKERS), fd;

	if (listener < 0 || place(listener)) {
		perror("rpc: listening");
		return 1;
	}
	puts("listening");
	fflush(stdout);
	signal(SIGCHLD, SIG_IGN);
	while ((fd = mpa_socket_accept(listener)) >= 0) {
		if (!fork())
			exit(answer(fd));
		close(fd);
	}
	perror("rpc: accept");
	return 1;
}

/* Make a request whose answer differs from adjacent requests' answers. */
static int request(int fd, unsigned int id)
{
	struct message message = { .id = id };

	memset(message.payload, id % 256, PAYLOAD / 2);
	memcpy(message.payload + PAYLOAD / 2, &id, sizeof(id));
	return send(fd, &message, sizeof(message), MSG_NOSIGNAL) < 0;
}

/* Return: the right answer to request(). */
static unsigned int expected(unsigned int id)
{
	return id % 256 * (PAYLOAD / 2) + (id & 255) + (id >> 8 & 255) +
	       (id >> 16 & 255) + (id >> 24);
}

/* Receive an answer to one of the first @sent requests. */
static int take_answer(int fd, bool *answered, unsigned int sent, unsigned int *early)
{
	struct message message;
	bool is_early;
	ssize_t len;

	len = recv_placed(fd, &message, &is_early);
	if (len < 0)
		return failed("recv", fd);
	if (!len) {
		fprintf(stderr, "rpc: the server closed the connection\n");
		return 1;
	}
	if (len != ANSWER_LEN || message.id >= sent || answered[message.id] ||
	    message.sum != expected(message.id)) {
		fprintf(stderr, "rpc: a wrong answer of %zd octets\n", len);
		return 1;
	}
	answered[message.id] = true;
	*early += is_early;
	return 0;
}

static int ask(int fd, unsigned int count)
{
	bool *answered = calloc(count, sizeof(*answered));
	unsigned int sent = 0, got = 0, early = 0;
	int status = 0;

	if (!answered)
		return failed("memory", fd);
	while (!status && got < count) {
		for (; !status && sent < count && sent - got < WINDOW; sent++)
			if (request(fd, sent))
				status = failed("send", fd);
		if (!status)
			status = take_answer(fd, answered, sent, &early);
		got += !status;
	}
	printf("%u answers, %u of them early\n", got, early);
	free(answered);
	return status;
}

static int client(const char *host, const char *port, unsigned int count)
{
	int fd = mpa_socket_connect(host, port, MPA_START_MARKERS, 10000);

	if (fd < 0 || place(fd)) {
		perror("rpc: connecting");
		return 1;
	}
	return ask(fd, count);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "server"))
		return serve(argv[2]);
	if (argc == 5 && !strcmp(argv[1], "client") && atoi(argv[4]) > 0)
		return client(argv[2], argv[3], atoi(argv[4]));
	fprintf(stderr, "usage: rpc server PORT\n       rpc client HOST PORT COUNT\n");
	return 2;
}
