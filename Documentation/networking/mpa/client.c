// SPDX-License-Identifier: GPL-2.0 OR MIT
/* client HOST PORT RECORD...: send records over MPA, print the answers. */
#include <errno.h>
#include <linux/mpa.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int dial(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list, *to;
	int fd = -1;

	if (getaddrinfo(host, port, &hints, &list))
		return -1;
	for (to = list; to; to = to->ai_next) {
		fd = socket(to->ai_family, to->ai_socktype, to->ai_protocol);
		if (fd < 0)
			continue;
		if (!connect(fd, to->ai_addr, to->ai_addrlen))
			break;
		close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	return fd;
}

static int start(int fd)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR,
		.revision = 1,
		.timeout_ms = 5000,
	};
	int one = 1;

	/* Requests and answers: nothing waits for an ACK. */
	if (setsockopt(fd, SOL_TCP, TCP_NODELAY, &one, sizeof(one)))
		return -1;
	if (setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")))
		return -1;
	return setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start));
}

static const char *why(int err)
{
	switch (err) {
	case ENOENT:
		return "the module is not loaded: modprobe mpa";
	case ECONNREFUSED:
		return "the peer rejected the request";
	case EPROTO:
		return "the peer does not speak MPA";
	case EBADMSG:
		return "the CRC of the answer is wrong";
	case EPIPE:
		return "the peer has closed the connection";
	default:
		return strerror(err);
	}
}

static int ask(int fd, const char *record)
{
	char answer[MPA_ULPDU_MAX];
	ssize_t len;

	if (send(fd, record, strlen(record), MSG_NOSIGNAL) < 0)
		return -1;
	len = recv(fd, answer, sizeof(answer), 0);
	if (len < 0)
		return -1;
	if (!len) {
		errno = EPIPE;
		return -1;
	}
	printf("%.*s\n", (int)len, answer);
	return 0;
}

int main(int argc, char **argv)
{
	int fd, i;

	if (argc < 4) {
		fprintf(stderr, "usage: client HOST PORT RECORD...\n");
		return 2;
	}
	fd = dial(argv[1], argv[2]);
	if (fd < 0) {
		fprintf(stderr, "client: no connection to %s\n", argv[1]);
		return 1;
	}
	if (start(fd)) {
		fprintf(stderr, "client: %s\n", why(errno));
		return 1;
	}
	for (i = 3; i < argc; i++) {
		if (ask(fd, argv[i])) {
			fprintf(stderr, "client: %s\n", why(errno));
			return 1;
		}
	}
	close(fd);
	return 0;
}
