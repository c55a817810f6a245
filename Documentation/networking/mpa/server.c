// SPDX-License-Identifier: GPL-2.0 OR MIT
/* server PORT: send each record back to where it came from. */
#include <errno.h>
#include <linux/mpa.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Attach and start before listen(): each connection then starts by itself. */
static int serve(unsigned short port)
{
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	struct sockaddr_in6 at = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
	};
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER,
		.revision = 2,		/* and 1, as the initiator likes */
	};
	int one = 1;

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_TCP, TCP_NODELAY, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) ||
	    setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")) ||
	    setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start)) ||
	    listen(fd, 128))
		return -1;
	return fd;
}

/* Why nothing more is received: the code of RFC 5044 section 8. */
static unsigned int code(int fd)
{
	struct mpa_info info = { 0 };
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_MPA, MPA_INFO, &info, &len);
	return info.error;
}

static void echo(int fd)
{
	char record[MPA_ULPDU_MAX];
	ssize_t len;

	/* The first recv() waits for the end of startup as well. */
	while ((len = recv(fd, record, sizeof(record), 0)) > 0) {
		if (send(fd, record, len, MSG_NOSIGNAL) < 0) {
			len = -1;
			break;
		}
	}
	if (len < 0)
		fprintf(stderr, "server: %s, MPA error code %u\n",
			strerror(errno), code(fd));
	close(fd);
}

int main(int argc, char **argv)
{
	int listener, fd;

	if (argc != 2) {
		fprintf(stderr, "usage: server PORT\n");
		return 2;
	}
	listener = serve(atoi(argv[1]));
	if (listener < 0) {
		perror("server");
		return 1;
	}
	while ((fd = accept(listener, NULL, NULL)) >= 0)
		echo(fd);
	perror("server: accept");
	return 1;
}
