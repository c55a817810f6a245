// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The beginning of every program with MPA: connect, attach and start; or
 * attach, start and listen. The examples share it; copy what you need.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ends.h"

enum { BACKLOG = 1024 };

/* A TCP connection, or -1. */
static int dial(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all, *to;
	int fd = -1;

	if (getaddrinfo(host, port, &hints, &all)) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	for (to = all; to; to = to->ai_next) {
		fd = socket(to->ai_family, to->ai_socktype, to->ai_protocol);
		if (fd < 0)
			continue;	/* for instance without IPv6 */
		if (!connect(fd, to->ai_addr, to->ai_addrlen))
			break;
		close(fd);
		fd = -1;
	}
	freeaddrinfo(all);
	return fd;
}

/**
 * ends_connect() - connect, and start MPA as the initiator
 * @host: name or address
 * @port: a number
 * @flags: MPA_START_*
 *
 * Return: a socket in Full Operation, or -1 with errno.
 */
int ends_connect(const char *host, const char *port, unsigned int flags)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR,
		.revision = 1,
		.flags = flags,
	};
	int one = 1, fd = dial(host, port);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_TCP, TCP_NODELAY, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")) ||
	    setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start))) {
		close(fd);
		return -1;
	}
	return fd;
}

/**
 * ends_listen() - listen on all addresses, as the responder
 * @port: a number
 * @flags: MPA_START_*
 *
 * Accepted connections start by themselves: the first recv() waits for the
 * request.
 *
 * Return: a listening socket, or -1 with errno.
 */
int ends_listen(const char *port, unsigned int flags)
{
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER,
		.revision = 2,		/* and 1, as the initiator chooses */
		.flags = flags,
	};
	struct sockaddr_in6 at = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(atoi(port)),
	};
	int one = 1, fd;

	fd = socket(AF_INET6, SOCK_STREAM, 0);
	if (fd < 0)
		return -1;
	/* Before listen(): otherwise a fast client would get plain TCP. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_TCP, TCP_NODELAY, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) ||
	    setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")) ||
	    setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start)) ||
	    listen(fd, BACKLOG)) {
		close(fd);
		return -1;
	}
	puts("listening");
	fflush(stdout);
	return fd;
}

/* A connection that is gone already does not end the server: wait for the next one. */
int ends_accept(int listener)
{
	int fd;

	do
		fd = accept(listener, NULL, NULL);
	while (fd < 0 && (errno == ECONNABORTED || errno == EINTR));
	return fd;
}

unsigned int ends_code(int fd)
{
	struct mpa_info info = { 0 };
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_MPA, MPA_INFO, &info, &len);
	return info.error;
}
