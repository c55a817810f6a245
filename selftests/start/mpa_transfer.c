// SPDX-License-Identifier: GPL-2.0
/*
 * One end of a connection. A known list of records is sent from the initiator to the
 * responder, and then back. Each end checks what it receives.
 *
 *	mpa_transfer listen|connect ADDRESS PORT WANT-MARKERS LIST
 *
 * LIST is a comma-separated list of FIRST-LAST or LENGTHxCOUNT.
 */

#include <netdb.h>
#include <stdio.h>

#include "mpa_test.h"

static u8 record[MPA_ULPDU_MAX], buf[MPA_ULPDU_MAX + 1];
static unsigned long records, octets;

static void fail(const char *what, size_t len, long seen)
{
	fprintf(stderr, "mpa_transfer: record %lu of %zu octets: %s: %ld (%s)\n",
		records, len, what, seen, strerror(errno));
	exit(1);
}

static void send_one(int fd, size_t len)
{
	ssize_t n;

	record_fill(record, len);
	n = send(fd, record, len, MSG_NOSIGNAL);
	if (n != (ssize_t)len)
		fail("send", len, n);
}

static void recv_one(int fd, size_t len)
{
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	if (n != (ssize_t)len)
		fail("recv", len, n);
	if (!record_good(buf, len))
		fail("differs", len, n);
}

static void each(const char *list, int fd, void (*one)(int fd, size_t len))
{
	records = 0;
	octets = 0;
	while (*list) {
		unsigned long a, b;
		int used = 0;

		if (sscanf(list, "%lux%lu%n", &a, &b, &used) == 2 && used) {
			for (; b; b--, records++, octets += a)
				one(fd, a);
		} else if (sscanf(list, "%lu-%lu%n", &a, &b, &used) == 2) {
			for (; a <= b; records++, octets += a++)
				one(fd, a);
		} else {
			fail("no list", 0, 0);
		}
		list += used;
		list += *list == ',';
	}
}

static int tcp_open(bool listens, const char *address, const char *port)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST,
	}, *info;
	int fd, one = 1;

	if (getaddrinfo(address, port, &hints, &info)) {
		fprintf(stderr, "mpa_transfer: %s %s: no address\n", address,
			port);
		exit(2);
	}
	fd = socket(info->ai_family, SOCK_STREAM, 0);
	if (listens) {
		int listener = fd;

		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, 1))
			fail("listen", 0, -1);
		puts("listening");
		fflush(stdout);
		fd = accept(listener, NULL, NULL);
		close(listener);
	} else if (connect(fd, info->ai_addr, info->ai_addrlen)) {
		fail("connect", 0, -1);
	}
	freeaddrinfo(info);
	return fd;
}

int main(int argc, char **argv)
{
	bool listens;
	int fd;

	if (argc != 6) {
		fprintf(stderr, "usage: %s listen|connect ADDRESS PORT WANT-MARKERS LIST\n",
			argv[0]);
		return 2;
	}
	listens = !strcmp(argv[1], "listen");
	fd = tcp_open(listens, argv[2], argv[3]);
	if (mpa_attach(fd) ||
	    mpa_start(fd, listens ? MPA_ROLE_RESPONDER : MPA_ROLE_INITIATOR,
		      atoi(argv[4]) ? MPA_START_MARKERS : 0))
		fail("start", 0, -1);

	each(argv[5], fd, listens ? recv_one : send_one);
	each(argv[5], fd, listens ? send_one : recv_one);
	shutdown(fd, SHUT_WR);
	if (recv(fd, buf, sizeof(buf), 0))
		fail("no end", 0, -1);
	printf("%lu records, %lu octets each way\n", records, octets);
	return 0;
}
