// SPDX-License-Identifier: GPL-2.0
/*
 * transfer - send a file over MPA, one record after the other
 *
 *	transfer receive ADDRESS PORT FILE
 *	transfer send ADDRESS PORT FILE [--record OCTETS]
 *
 * The receiver thanks with a record of its own once it has everything.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/mpa.h>

static const char *who = "transfer";

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", who);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* A line about long work, once a second at most. */
static void progress(unsigned long long records, unsigned long long octets)
{
	struct timespec now;
	static time_t last;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!last)
		last = now.tv_sec;
	if (now.tv_sec - last < 1)
		return;
	last = now.tv_sec;
	fprintf(stderr, "%s: %llu records, %llu octets\n", who, records,
		octets);
}

static int tcp_socket(const char *address, const char *port, bool receive)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = receive ? AI_PASSIVE : 0,
	};
	struct addrinfo *found;
	int fd, one = 1, err;

	err = getaddrinfo(address, port, &hints, &found);
	if (err)
		die("%s port %s: %s", address, port, gai_strerror(err));
	fd = socket(found->ai_family, SOCK_STREAM, IPPROTO_TCP);
	if (fd < 0)
		die("socket: %s", strerror(errno));

	if (!receive) {
		if (connect(fd, found->ai_addr, found->ai_addrlen))
			die("connect to %s port %s: %s; is the receiver running?",
			    address, port, strerror(errno));
		freeaddrinfo(found);
		return fd;
	}

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, 1))
		die("listen on %s port %s: %s", address, port, strerror(errno));
	freeaddrinfo(found);
	fprintf(stderr, "%s: listening on %s port %s\n", who, address, port);

	one = accept(fd, NULL, NULL);
	if (one < 0)
		die("accept: %s", strerror(errno));
	close(fd);
	return one;
}

/* From an ordinary TCP connection to one that speaks MPA. */
static void mpa_start(int fd, enum mpa_role role)
{
	struct mpa_start start = {
		.role = role,
		.revision = 1,
		.flags = MPA_START_MARKERS,
	};

	if (setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa"))) {
		if (errno == ENOENT)
			die("this kernel knows no MPA: insmod mpa.ko first");
		die("TCP_ULP: %s", strerror(errno));
	}
	/* The initiator's call returns when the Reply Frame has come. */
	if (setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start))) {
		if (errno == ECONNREFUSED)
			die("the peer rejected MPA");
		if (errno == EPROTO)
			die("the peer does not speak MPA; is it transfer?");
		die("MPA_START: %s", strerror(errno));
	}
}

static void mpa_counters(int fd)
{
	struct mpa_info info = {};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, SOL_MPA, MPA_INFO, &info, &len))
		die("MPA_INFO: %s", strerror(errno));
	fprintf(stderr, "%s: EMSS %u, MULPDU %u\n", who, info.emss,
		info.mulpdu);
	fprintf(stderr, "%s: sent %llu ULPDUs, %llu octets, %llu markers\n",
		who, info.tx_ulpdus, info.tx_octets, info.tx_markers);
	fprintf(stderr, "%s: received %llu ULPDUs, %llu octets, %llu markers\n",
		who, info.rx_ulpdus, info.rx_octets, info.rx_markers);
}

static int mulpdu(int fd)
{
	int octets;
	socklen_t len = sizeof(octets);

	if (getsockopt(fd, SOL_MPA, MPA_MULPDU, &octets, &len))
		die("MPA_MULPDU: %s", strerror(errno));
	return octets;
}

/* Reads until the buffer is full or the file has ended. */
static size_t fill(int file, char *buf, size_t size)
{
	size_t have = 0;
	ssize_t n;

	do {
		n = read(file, buf + have, size - have);
		if (n < 0)
			die("read: %s", strerror(errno));
		have += n;
	} while (n && have < size);
	return have;
}

static void send_file(int fd, int file, size_t record)
{
	unsigned long long records = 0, octets = 0;
	static char buf[MPA_ULPDU_MAX];
	size_t len;
	ssize_t n;

	mpa_start(fd, MPA_ROLE_INITIATOR);
	if (!record)
		record = mulpdu(fd);

	while ((len = fill(file, buf, record))) {
		/* One send, one record: all of it or an error. */
		if (send(fd, buf, len, 0) != (ssize_t)len)
			die("record %llu: %s", records, strerror(errno));
		octets += len;
		progress(++records, octets);
	}
	if (!records)
		die("the file is empty; name one that has something in it");
	fprintf(stderr, "%s: sent %llu records of up to %zu octets\n", who,
		records, record);

	/* No more records from here; what the other side says comes still. */
	if (shutdown(fd, SHUT_WR))
		die("shutdown: %s", strerror(errno));
	n = recv(fd, buf, sizeof(buf), 0);
	if (n <= 0)
		die("the receiver does not answer: %s",
		    n ? strerror(errno) : "it has closed");
	fprintf(stderr, "%s: the receiver says \"%.*s\"\n", who, (int)n, buf);
	mpa_counters(fd);
}

static void receive_file(int fd, int file)
{
	unsigned long long records = 0, octets = 0;
	static char buf[MPA_ULPDU_MAX];
	ssize_t n;

	mpa_start(fd, MPA_ROLE_RESPONDER);

	/* One recv, one record, its CRC and markers checked. */
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		if (write(file, buf, n) != n)
			die("write: %s", strerror(errno));
		octets += n;
		progress(++records, octets);
	}
	if (n < 0)
		die("record %llu: %s", records,
		    errno == EBADMSG ? "wrong CRC or marker" : strerror(errno));
	if (close(file))
		die("write: %s", strerror(errno));

	n = snprintf(buf, sizeof(buf), "thanks for %llu records, %llu octets",
		     records, octets);
	if (send(fd, buf, n, 0) != n)
		die("answer: %s", strerror(errno));
	mpa_counters(fd);
}

int main(int argc, char **argv)
{
	bool receive = argc == 5 && !strcmp(argv[1], "receive");
	long record = 0;
	int fd, file;

	if (!receive) {
		if (argc == 7 && !strcmp(argv[5], "--record"))
			record = strtol(argv[6], NULL, 0);
		else if (argc != 5)
			argc = 0;
		if (!argc || strcmp(argv[1], "send") || record < 0 ||
		    record > MPA_ULPDU_MAX || (argc == 7 && !record))
			die("usage: transfer send|receive ADDRESS PORT FILE [--record 1...%d]",
			    MPA_ULPDU_MAX);
	}
	who = receive ? "receiver" : "sender";
	file = receive ? open(argv[4], O_WRONLY | O_CREAT | O_TRUNC, 0644) :
			 open(argv[4], O_RDONLY);
	if (file < 0)
		die("%s: %s", argv[4], strerror(errno));

	fd = tcp_socket(argv[2], argv[3], receive);
	if (receive)
		receive_file(fd, file);
	else
		send_file(fd, file, record);
	close(fd);
	return 0;
}
