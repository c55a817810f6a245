// SPDX-License-Identifier: GPL-2.0
/*
 * One end of a connection, for mpa_aligned.sh. The initiator sends one kind of traffic
 * to the responder.
 *
 *	mpa_align receive|send ADDRESS PORT [NAME=VALUE]...
 *
 * The receiver checks every octet, and each record's end if it is known. At the end the
 * sender prints its counters as a JSON object.
 */

#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/uio.h>

#include "mpa_test.h"
#include "mpa_stream.h"

#define BATCH_MAX	1024

static struct {
	/* Both ends */
	long octets;	/* number for each sender */
	long segment;	/* MPA_SEGMENT; -1: each send is a record */
	long call;	/* octets in a send; 0: random, 1 to MULPDU */
	long senders;	/* number of threads; 2 or more need segment=-1 */
	/* The sender */
	long more;	/* 1: MSG_MORE except for the last, 2: also MSG_EOR */
	long batch;	/* messages in a sendmmsg */
	long turns;	/* change MPA_SEGMENT after this number of sends */
	long wait;	/* after each send, until all is acknowledged */
	long nodelay;
	long packing;
	long sndbuf;
	long hook;	/* run the command after each @hook octets */
	const char *run;	/* the command; $N is the count */
	/* The receiver */
	long markers;
	long rcvbuf;
	long pause;	/* microseconds after each 64 KiB */
	long stop;	/* stop reading once, after this number of octets */
	long stop_ms;	/* duration of this stop */
} kind = {
	.octets = 1000000, .segment = -1, .call = 65536, .senders = 1,
	.nodelay = 1, .packing = 1,
};

static const struct {
	const char *name;
	long *value;
} names[] = {
	{ "octets", &kind.octets }, { "segment", &kind.segment },
	{ "call", &kind.call }, { "senders", &kind.senders },
	{ "more", &kind.more }, { "batch", &kind.batch }, { "turns", &kind.turns },
	{ "wait", &kind.wait }, { "nodelay", &kind.nodelay },
	{ "packing", &kind.packing }, { "sndbuf", &kind.sndbuf },
	{ "hook", &kind.hook }, { "markers", &kind.markers },
	{ "rcvbuf", &kind.rcvbuf }, { "pause", &kind.pause },
	{ "stop", &kind.stop }, { "stop_ms", &kind.stop_ms },
};

static void fail(const char *format, ...)
{
	int err = errno;
	va_list args;

	va_start(args, format);
	fputs("mpa_align: ", stderr);
	vfprintf(stderr, format, args);
	fprintf(stderr, " (%s)\n", strerror(err));
	exit(1);
}

static void option(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		fail("setsockopt %d, %d to %d", level, name, value);
}

/* ---- sending ---- */

/* Random lengths from 1 to MULPDU, the same in every run. */
static size_t some_length(u32 *x, size_t most)
{
	*x = *x * 1664525 + 1013904223;
	return 1 + (*x >> 8) % most;
}

static int mulpdu(int fd)
{
	socklen_t len = sizeof(int);
	int value = 0;

	if (getsockopt(fd, SOL_MPA, MPA_MULPDU, &value, &len))
		fail("MPA_MULPDU");
	return value;
}

static void wait_acked(int fd)
{
	int octets;

	while (!ioctl(fd, SIOCOUTQ, &octets) && octets)
		usleep(100);
}

/* If each send is a record, the content depends only on its length. */
static const u8 *octets_of(u64 at, size_t len)
{
	return kind.segment < 0 && !kind.more ? record_of(len) : stream_at(at);
}

static void send_batch(int fd, u64 *at, long n)
{
	static struct mmsghdr msgs[BATCH_MAX];
	static struct iovec iov[BATCH_MAX];
	long i;

	for (i = 0; i < n; i++) {
		iov[i].iov_base = (void *)octets_of(*at, kind.call);
		iov[i].iov_len = kind.call;
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
		*at += kind.call;
	}
	for (i = 0; i < n; ) {
		int done = sendmmsg(fd, msgs + i, n - i, MSG_NOSIGNAL);

		if (done <= 0)
			fail("sendmmsg");
		i += done;
	}
}

static void run_hook(u64 n)
{
	char number[20];

	snprintf(number, sizeof(number), "%llu", (long long)n);
	setenv("N", number, 1);
	if (system(kind.run))
		fail("%s", kind.run);
}

static void *sender(void *arg)
{
	const int mores[] = { 0, MSG_MORE, MSG_MORE | MSG_EOR };
	const int segments[] = { 0, 1024, 64, 300 };
	u64 at = 0, hooks = 0;
	int fd = *(int *)arg;
	long sends = 0;
	u32 x = 5044;

	while (at < kind.octets) {
		size_t len = kind.call ?: some_length(&x, mulpdu(fd));
		int more = mores[kind.more];

		if (kind.hook && at / kind.hook > hooks)
			run_hook(++hooks);
		if (kind.turns && sends++ % kind.turns == 0)
			option(fd, SOL_MPA, MPA_SEGMENT,
			       segments[sends / kind.turns % 4]);
		if (kind.batch) {
			send_batch(fd, &at, kind.batch);
			continue;
		}
		if (at + len >= kind.octets)
			more = 0;
		if (send(fd, octets_of(at, len), len, MSG_NOSIGNAL | more) !=
		    len)
			fail("send of %zu after %llu", len, (long long)at);
		at += len;
		if (kind.wait)
			wait_acked(fd);
	}
	return NULL;
}

static void print_counters(int fd, const char *address)
{
	const struct mpa_info i = mpa_info(fd);
	struct sockaddr_storage self;
	socklen_t len = sizeof(self);
	char host[64], port[8];
	bool ipv6;

	if (getsockname(fd, (struct sockaddr *)&self, &len) ||
	    getnameinfo((struct sockaddr *)&self, len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		fail("getsockname");
	ipv6 = self.ss_family == AF_INET6;
	printf("{\"from\": \"%s%s%s:%s\", \"emss\": %u, \"mulpdu\": %u",
	       ipv6 ? "[" : "", host, ipv6 ? "]" : "", port, i.emss, i.mulpdu);
#define COUNTER(name) printf(", \"" #name "\": %llu", (long long)i.name)
	COUNTER(tx_ulpdus);
	COUNTER(tx_octets);
	COUNTER(tx_packets);
	COUNTER(tx_segs_aligned);
	COUNTER(tx_segs_unaligned);
	/* In this network namespace only this process sends records. */
#define CAUSE(name, text) printf(", \"cut_" #name "\": %lld", statistic(text))
	CAUSE(oversized, "MpaTxSegsOversized");
	CAUSE(window, "MpaTxSegsWindow");
	CAUSE(other, "MpaTxSegsOther");
	puts("}");
}

static void run_senders(int fd, const char *address)
{
	pthread_t thread[8];
	char octet;
	long i;

	option(fd, SOL_MPA, MPA_SEGMENT, kind.segment);
	option(fd, SOL_MPA, MPA_PACKING, kind.packing);
	for (i = 0; i < kind.senders; i++)
		if (pthread_create(&thread[i], NULL, sender, &fd))
			fail("pthread_create");
	for (i = 0; i < kind.senders; i++)
		pthread_join(thread[i], NULL);
	/* At shutdown(2) TCP cuts unsent octets at the window's edge. */
	acked(fd);
	/* The peer closes after it has read all data. */
	shutdown(fd, SHUT_WR);
	if (recv(fd, &octet, 1, 0))
		fail("no end");
	print_counters(fd, address);
}

/* ---- receiving ---- */

static bool is_good(const u8 *buf, size_t len, u64 at)
{
	return !memcmp(buf, octets_of(at, len), len);
}

static bool is_cut_right(size_t len, u64 at, u64 all)
{
	if (kind.segment <= 0 || kind.turns)
		return true;
	if (kind.more)	/* Only the end of the last record is known. */
		return len == kind.segment || at + len == all;
	/* The last record of a send is shorter. */
	return len == kind.segment || (at + len) % kind.call == 0 ||
	       at + len == all;
}

static void receiver(int fd)
{
	u64 at = 0, records = 0, paused = 0;
	static u8 buf[MPA_ULPDU_MAX + 1];
	bool stopped = false;
	ssize_t n;

	for (;;) {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n <= 0)
			break;
		if (!is_good(buf, n, at))
			fail("record %llu, octet %llu on: %zd octets differ",
			     (long long)records, (long long)at, n);
		records++;
		if (!is_cut_right(n, at, kind.octets))
			fail("record %llu of %zd octets at %llu is cut wrong",
			     (long long)records, n, (long long)at);
		at += n;
		if (kind.pause && at - paused >= 65536) {
			paused = at;
			usleep(kind.pause);
		}
		if (kind.stop && at >= kind.stop && !stopped) {
			stopped = true;
			usleep(1000 * kind.stop_ms);
		}
	}
	if (n)
		fail("recv after %llu octets", (long long)at);
	/* Random records may exceed the number a little. */
	if (at < kind.senders * kind.octets)
		fail("only %llu octets have come", (long long)at);
	printf("%llu records, %llu octets\n", (long long)records,
	       (long long)at);
}

/* ---- connections ---- */

static int tcp_open(bool listens, const char *address, const char *port)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST,
	}, *info;
	int fd, listener;

	if (getaddrinfo(address, port, &hints, &info))
		fail("%s %s: no address", address, port);
	fd = socket(info->ai_family, SOCK_STREAM, 0);
	if (kind.rcvbuf && listens)
		option(fd, SOL_SOCKET, SO_RCVBUF, kind.rcvbuf);
	if (kind.sndbuf && !listens)
		option(fd, SOL_SOCKET, SO_SNDBUF, kind.sndbuf);
	option(fd, SOL_TCP, TCP_NODELAY, kind.nodelay);
	if (listens) {
		listener = fd;
		option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
		if (bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, 1))
			fail("listen");
		puts("listening");
		fflush(stdout);
		fd = accept(listener, NULL, NULL);
		close(listener);
	} else if (connect(fd, info->ai_addr, info->ai_addrlen)) {
		fail("connect");
	}
	freeaddrinfo(info);
	return fd;
}

static void read_kind(char *arg)
{
	char *value = strchr(arg, '=');
	int i;

	if (!value)
		fail("%s: no NAME=VALUE", arg);
	*value++ = 0;
	if (!strcmp(arg, "run")) {
		kind.run = value;
		return;
	}
	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strcmp(arg, names[i].name)) {
			*names[i].value = atol(value);
			return;
		}
	}
	fail("%s: no such name", arg);
}

int main(int argc, char **argv)
{
	bool listens;
	int fd, i;

	if (argc < 4) {
		fprintf(stderr, "usage: %s receive|send ADDRESS PORT [NAME=VALUE]...\n",
			argv[0]);
		return 2;
	}
	for (i = 4; i < argc; i++)
		read_kind(argv[i]);
	listens = !strcmp(argv[1], "receive");
	fd = tcp_open(listens, argv[2], argv[3]);
	if (mpa_attach(fd) ||
	    mpa_start(fd, listens ? MPA_ROLE_RESPONDER : MPA_ROLE_INITIATOR,
		      listens && kind.markers ? MPA_START_MARKERS : 0))
		fail("start");
	if (listens)
		receiver(fd);
	else
		run_senders(fd, argv[2]);
	close(fd);
	return 0;
}
