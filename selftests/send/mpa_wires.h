/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two hosts in the program's own network namespaces, with two wires between them. A
 * connection's receiver notes the time when a given number of octets has arrived.
 * Include it after mpa_harness.h.
 *
 * By default the receiver is a plain TCP socket for both senders: it sees the octets on
 * the wire, and acknowledges both in the same way. TCP_QUICKACK 0 makes the connection
 * interactive: ACKs are delayed by up to 40 ms.
 */
#ifndef _MPA_WIRES_H
#define _MPA_WIRES_H

#include <pthread.h>

#include "mpa_test.h"

#define EMSS		1448	/* on both wires: MTU 1500, timestamps */
#define MULPDU		1442

/* ---- two hosts ---- */

static int net_of[2] = { -1, -1 };	/* network namespaces of alpha and beta */
static const char *lacking;		/* why the tests cannot run */
static int tcp_mem = -1;		/* net.ipv4.tcp_mem */

/* Run ip or tc with these commands, one a line. */
static int tell(const char *tool, const char *lines)
{
	char command[32];
	FILE *to;

	snprintf(command, sizeof(command), "%s -batch -", tool);
	to = popen(command, "w");
	if (!to)
		return -1;
	fputs(lines, to);
	return pclose(to) ? -1 : 0;
}

/* Connections must not use metrics of earlier ones. */
static int forget_metrics(void)
{
	int fd = open("/proc/sys/net/ipv4/tcp_no_metrics_save", O_WRONLY), err;

	err = write(fd, "1", 1) != 1;
	close(fd);
	return err;
}

static int own_net(void)
{
	if (unshare(CLONE_NEWNET) || forget_metrics())
		return -1;
	return open("/proc/self/ns/net", O_RDONLY);
}

/*
 * In alpha                          in beta
 *
 *	10.5.4.1/24  va ------ vb  10.5.4.2/24    near
 *	10.5.5.1/24  wa ------ wb  10.5.5.2/24    far: 10 ms each way
 */
static const char *hosts_up(void)
{
	static const char *const one_way = "qdisc add dev %s root netem delay 10ms limit 10000\n";
	char lines[512];
	int i;

	for (i = 1; i >= 0; i--) {
		net_of[i] = own_net();
		if (net_of[i] < 0)
			return "needs root";
	}
	snprintf(lines, sizeof(lines),
		 "link add va type veth peer name vb netns /proc/self/fd/%d\n"
		 "link add wa type veth peer name wb netns /proc/self/fd/%d\n",
		 net_of[1], net_of[1]);
	if (tell("ip", lines))
		return "needs iproute2 and veth";
	for (i = 0; i < 2; i++) {
		char end = 'a' + i;

		setns(net_of[i], CLONE_NEWNET);
		snprintf(lines, sizeof(lines),
			 "addr add 10.5.4.%d/24 dev v%c\n"
			 "addr add 10.5.5.%d/24 dev w%c\n"
			 "link set v%c up\n"
			 "link set w%c up\n",
			 i + 1, end, i + 1, end, end, end);
		if (tell("ip", lines))
			return "needs iproute2";
		snprintf(lines, sizeof(lines), one_way, i ? "wb" : "wa");
		if (tell("tc", lines))
			return "needs sch_netem";
	}
	return NULL;
}

/*
 * Run once for all tests, which are processes. Only the first network namespace has
 * TCP's memory limits, which are global.
 */
static void __attribute__((constructor(300))) hosts_make(void)
{
	tcp_mem = open("/proc/sys/net/ipv4/tcp_mem", O_RDWR);
	if (system("modprobe -q veth; modprobe -q sch_netem") < 0)
		return;
	lacking = hosts_up();
}

/* ---- connections ---- */

/**
 * struct kind - a kind of connection
 * @far:	the path delays packets by 10 ms each way
 * @nagle:	without TCP_NODELAY
 * @records:	the receiver uses MPA, too
 * @silent:	the receiver does not read
 * @sndbuf:	SO_SNDBUF, if not 0
 * @rcvbuf:	SO_RCVBUF, if not 0
 */
struct kind {
	bool far;
	bool nagle;
	bool records;
	bool silent;
	int sndbuf;
	int rcvbuf;
};

/**
 * struct conn - a connection
 * @mpa:	the sender uses MPA
 * @fpdus:	only the sender does: the receiver parses FPDUs
 * @reading:	@thread runs
 * @fd:		sender, receiver
 * @said:	a pipe: gets the time, in nanoseconds, when @due octets have arrived
 * @octets:	octets received; with @fpdus, in ULPDUs of complete FPDUs
 * @due:	octets to wait for
 * @told:	@due for which the time was written to @said
 * @have:	octets received of the FPDU's length field
 * @len:	its length
 * @left:	octets of the FPDU not yet received
 * @thread:	the reader
 */
struct conn {
	bool mpa;
	bool fpdus;
	bool reading;
	int fd[2];
	int said[2];
	u64 octets;
	u64 due;
	u64 told;
	u32 have;
	u32 len;
	u32 left;
	pthread_t thread;
};

static u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static u32 fpdu_of(u32 ulpdu_len)
{
	return (2 + ulpdu_len + 3) / 4 * 4 + 4;
}

/* Return: the length of the FPDUs for @octets octets, cut at @segment. */
static size_t framed(size_t octets, size_t segment)
{
	return octets / segment * fpdu_of(segment) +
	       (octets % segment ? fpdu_of(octets % segment) : 0);
}

static void count_fpdus(struct conn *c, const u8 *p, size_t n)
{
	while (n) {
		size_t k = 1;

		if (c->have < 2) {
			c->len = c->len << 8 | *p;
			if (++c->have == 2)
				c->left = fpdu_of(c->len) - 2;
		} else {
			k = c->left < n ? c->left : n;
			c->left -= k;
		}
		if (c->have == 2 && !c->left) {
			c->octets += c->len;
			c->have = 0;
			c->len = 0;
		}
		p += k;
		n -= k;
	}
}

static void *read_on(void *arg)
{
	static u8 buf[1 << 18];
	struct conn *c = arg;
	ssize_t n;

	while ((n = recv(c->fd[1], buf, sizeof(buf), 0)) > 0) {
		u64 now = now_ns(), due;

		if (c->fpdus)
			count_fpdus(c, buf, n);
		else
			c->octets += n;
		due = __atomic_load_n(&c->due, __ATOMIC_ACQUIRE);
		if (c->octets < due || c->told == due)
			continue;
		c->told = due;
		if (write(c->said[1], &now, sizeof(now)) != sizeof(now))
			break;
	}
	return NULL;
}

static void option_put(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		fprintf(stderr, "# option %d.%d: %m\n", level, name);
}

static int tcp_connect(struct conn *c, const struct kind *kind)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	int listener, err;

	inet_pton(AF_INET, kind->far ? "10.5.5.2" : "10.5.4.2", &addr.sin_addr);
	setns(net_of[1], CLONE_NEWNET);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (kind->rcvbuf)
		option_put(listener, SOL_SOCKET, SO_RCVBUF, kind->rcvbuf);
	err = bind(listener, (struct sockaddr *)&addr, len) ||
	      listen(listener, 1) ||
	      getsockname(listener, (struct sockaddr *)&addr, &len);
	setns(net_of[0], CLONE_NEWNET);
	c->fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (kind->sndbuf)
		option_put(c->fd[0], SOL_SOCKET, SO_SNDBUF, kind->sndbuf);
	err = err || connect(c->fd[0], (struct sockaddr *)&addr, len);
	c->fd[1] = err ? -1 : accept(listener, NULL, NULL);
	close(listener);
	if (c->fd[1] < 0)
		return -1;
	option_put(c->fd[0], SOL_TCP, TCP_NODELAY, !kind->nagle);
	option_put(c->fd[1], SOL_TCP, TCP_QUICKACK, 0);
	return 0;
}

static int conn_read(struct conn *c)
{
	c->reading = !pthread_create(&c->thread, NULL, read_on, c);
	return c->reading ? 0 : -1;
}

static int conn_open(struct conn *c, const struct kind *kind, bool mpa)
{
	memset(c, 0, sizeof(*c));
	c->mpa = mpa;
	c->fpdus = mpa && !kind->records;
	c->fd[0] = -1;
	c->fd[1] = -1;
	if (pipe(c->said) || tcp_connect(c, kind))
		return -1;
	if (mpa && (mpa_attach(c->fd[0]) ||
		    mpa_start(c->fd[0], MPA_ROLE_DIRECT, 0)))
		return -1;
	if (mpa && kind->records && (mpa_attach(c->fd[1]) ||
				     mpa_start(c->fd[1], MPA_ROLE_DIRECT, 0)))
		return -1;
	if (mpa && !kind->rcvbuf && mpa_info(c->fd[0]).mulpdu != MULPDU) {
		fprintf(stderr, "# expected a MULPDU of %d, seen %u\n", MULPDU,
			mpa_info(c->fd[0]).mulpdu);
		return -1;
	}
	return kind->silent ? 0 : conn_read(c);
}

static void conn_close(struct conn *c)
{
	shutdown(c->fd[1], SHUT_RDWR);
	if (c->reading)
		pthread_join(c->thread, NULL);
	hang_up(c->fd[0]);
	hang_up(c->fd[1]);
	close(c->said[0]);
	close(c->said[1]);
}

/* Expect @octets more octets. */
static void conn_expect(struct conn *c, size_t octets)
{
	__atomic_store_n(&c->due, c->due + octets, __ATOMIC_RELEASE);
}

/* Return: when the expected octets had arrived; 0: not within @ms. */
static u64 conn_came(struct conn *c, int ms)
{
	u64 when;

	if (poll_for(c->said[0], POLLIN, ms) != POLLIN ||
	    read(c->said[0], &when, sizeof(when)) != sizeof(when))
		return 0;
	return when;
}

#endif /* _MPA_WIRES_H */
