// SPDX-License-Identifier: GPL-2.0
/*
 * placing - measure the time of records from send to recv
 *
 *	placing receive ADDRESS PORT FILE [place]
 *	placing send ADDRESS PORT COUNT INTERVAL_US LOSE
 *
 * Every INTERVAL_US the sender sends a record that has the time. One packet in LOSE has
 * a TOS of LOST_TOS, so that the path can drop it; TCP retransmits it with another TOS.
 *
 * The receiver writes a line to FILE for each record: its number, its sending time in
 * milliseconds since the first record, its delay in milliseconds, and whether it
 * arrived out of order. Both ends must run on the same kernel, as they use its clock.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/mpa.h>

#define RECORD_LEN	1000
#define LOST_TOS	0x08
#define NSEC_PER_SEC	1000000000LL
#define NSEC_PER_USEC	1000
#define NSEC_PER_MSEC	1e6

/* A record is this struct, followed by zeros. */
struct stamp {
	uint64_t number;
	int64_t sent;
};

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "placing: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static void wait_until(int64_t when)
{
	struct timespec ts = {
		.tv_sec = when / NSEC_PER_SEC,
		.tv_nsec = when % NSEC_PER_SEC,
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static struct addrinfo *resolve(const char *address, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	int err = getaddrinfo(address, port, &hints, &found);

	if (err)
		die("%s port %s: %s", address, port, gai_strerror(err));
	return found;
}

static int call(const char *address, const char *port)
{
	struct addrinfo *to = resolve(address, port);
	int fd = socket(to->ai_family, SOCK_STREAM, 0), one = 1;

	if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen))
		die("connect to %s port %s: %s", address, port, strerror(errno));
	if (setsockopt(fd, SOL_TCP, TCP_NODELAY, &one, sizeof(one)))
		die("TCP_NODELAY: %s", strerror(errno));
	freeaddrinfo(to);
	return fd;
}

static int answer(const char *address, const char *port)
{
	struct addrinfo *to = resolve(address, port);
	int listener = socket(to->ai_family, SOCK_STREAM, 0), one = 1, fd;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, to->ai_addr, to->ai_addrlen) || listen(listener, 1))
		die("listen on %s port %s: %s", address, port, strerror(errno));
	freeaddrinfo(to);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		die("accept: %s", strerror(errno));
	close(listener);
	return fd;
}

/* The receiver requests markers: without them no record is found after a gap. */
static void start(int fd, enum mpa_role role)
{
	struct mpa_start how = {
		.role = role,
		.revision = 1,
		.flags = role == MPA_ROLE_RESPONDER ? MPA_START_MARKERS : 0,
	};

	if (setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")))
		die("TCP_ULP: %s", strerror(errno));
	if (setsockopt(fd, SOL_MPA, MPA_START, &how, sizeof(how)))
		die("MPA_START: %s", strerror(errno));
}

static void set_tos(int fd, int tos)
{
	if (setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)))
		die("IP_TOS: %s", strerror(errno));
}

static void send_records(int fd, uint64_t count, int64_t interval, uint64_t lose)
{
	char record[RECORD_LEN] = {};
	int64_t first = now();
	struct stamp stamp;

	for (stamp.number = 0; stamp.number < count; stamp.number++) {
		wait_until(first + stamp.number * interval);
		stamp.sent = now();
		memcpy(record, &stamp, sizeof(stamp));
		if (stamp.number % lose == lose / 2)
			set_tos(fd, LOST_TOS);
		if (send(fd, record, sizeof(record), 0) != sizeof(record))
			die("record %ju: %s", (uintmax_t)stamp.number,
			    strerror(errno));
		set_tos(fd, 0);
	}
	/* Wait until the receiver has all records. */
	if (shutdown(fd, SHUT_WR) || recv(fd, record, sizeof(record), 0))
		die("the receiver did not close the connection orderly");
}

static int out_of_order(struct msghdr *msg)
{
	struct mpa_recvinfo info = {};
	struct cmsghdr *cmsg;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg))
		if (cmsg->cmsg_level == SOL_MPA && cmsg->cmsg_type == MPA_RECVINFO)
			memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
	return !!(info.flags & MPA_RECVINFO_PLACED);
}

static void receive_records(int fd, FILE *file)
{
	char control[CMSG_SPACE(sizeof(struct mpa_recvinfo))];
	int64_t first = 0, came;
	char record[RECORD_LEN];
	struct stamp stamp;
	ssize_t n;

	for (;;) {
		struct iovec iov = { record, sizeof(record) };
		struct msghdr msg = {
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};

		n = recvmsg(fd, &msg, 0);
		if (n <= 0)
			break;
		came = now();
		memcpy(&stamp, record, sizeof(stamp));
		if (!first)
			first = stamp.sent;
		fprintf(file, "%ju\t%.3f\t%.3f\t%d\n", (uintmax_t)stamp.number,
			(stamp.sent - first) / NSEC_PER_MSEC,
			(came - stamp.sent) / NSEC_PER_MSEC, out_of_order(&msg));
	}
	if (n < 0)
		die("recv: %s", strerror(errno));
	if (fclose(file))
		die("write: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	int receive = argc >= 5 && !strcmp(argv[1], "receive"), one = 1, fd;
	FILE *file;

	if (!receive && (argc != 7 || strcmp(argv[1], "send") || !atoi(argv[6])))
		die("usage: see the head of placing.c");
	if (!receive) {
		fd = call(argv[2], argv[3]);
		start(fd, MPA_ROLE_INITIATOR);
		send_records(fd, strtoull(argv[4], NULL, 0),
			     strtoll(argv[5], NULL, 0) * NSEC_PER_USEC,
			     strtoull(argv[6], NULL, 0));
		return 0;
	}
	file = fopen(argv[4], "w");
	if (!file)
		die("%s: %s", argv[4], strerror(errno));
	fd = answer(argv[2], argv[3]);
	start(fd, MPA_ROLE_RESPONDER);
	if (setsockopt(fd, SOL_MPA, MPA_RECVINFO, &one, sizeof(one)))
		die("MPA_RECVINFO: %s", strerror(errno));
	if (argc == 6 && setsockopt(fd, SOL_MPA, MPA_PLACE, &one, sizeof(one)))
		die("MPA_PLACE: %s", strerror(errno));
	receive_records(fd, file);
	return 0;
}
