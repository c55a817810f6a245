// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets in many states, which mpa_ss.sh inspects. It prints a line for each,
 *
 *	NAME LOCAL-PORT REMOTE-PORT
 *
 * with "*" for the remote port of a listener, and then "ready". The sockets stay open
 * until standard input ends.
 */

#include <linux/tuf.h>

#include "mpa_test.h"

static void fail(const char *what)
{
	fprintf(stderr, "mpa_ends: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void must(bool good, const char *what)
{
	if (!good)
		fail(what);
}

static int port_of(int fd)
{
	struct sockaddr_in addr = {};
	socklen_t len = sizeof(addr);

	must(!getsockname(fd, (struct sockaddr *)&addr, &len), "getsockname");
	return ntohs(addr.sin_port);
}

static void tell(const char *name, int port, int peer)
{
	printf("%s %d %d\n", name, port, peer);
}

static void connected(int fd[2])
{
	must(!tcp_pair(AF_INET, fd), "tcp_pair");
}

static void plain(void)
{
	int fd[2];

	connected(fd);
	must(text_goes(fd[0], fd[1]) && text_goes(fd[1], fd[0]), "plain");
	tell("plain", port_of(fd[0]), port_of(fd[1]));
}

/* MPA is attached to one end, and not started. */
static void idle(void)
{
	int fd[2];

	connected(fd);
	must(!mpa_attach(fd[0]), "idle");
	tell("idle", port_of(fd[0]), port_of(fd[1]));
}

/* The responder has read two records out of order, and sent one record. */
static void full(void)
{
	int fd[2], one = 1;

	connected(fd);
	must(!mpa_started_pair(fd, MPA_START_MARKERS, MPA_START_MARKERS) &&
	     !setsockopt(fd[1], SOL_MPA, MPA_PLACE, &one, sizeof(one)) &&
	     record_goes(fd[0], fd[1], 100) && record_goes(fd[0], fd[1], 1000) &&
	     record_goes(fd[1], fd[0], 10) && acked(fd[0]) && acked(fd[1]),
	     "full");
	tell("initiator", port_of(fd[0]), port_of(fd[1]));
	tell("responder", port_of(fd[1]), port_of(fd[0]));
}

/* An FPDU with a wrong CRC follows a good one. */
static void failed(void)
{
	u8 record[100], fpdu[200];
	struct peer peer = {};
	int fd[2];
	size_t n;

	connected(fd);
	peer.fd = fd[0];
	must(!peer_initiates(&peer, fd[1], false, 0) &&
	     !peer_send_record(&peer, sizeof(record)) &&
	     recv(fd[1], record, sizeof(record), 0) == sizeof(record), "failed");
	n = peer_fpdu(&peer, record, sizeof(record), fpdu);
	fpdu[n - 1] ^= 1;
	must(!write_all(fd[0], fpdu, n) &&
	     recv(fd[1], record, sizeof(record), 0) == -1 && errno == EBADMSG,
	     "a wrong CRC");
	tell("failed", port_of(fd[1]), port_of(fd[0]));
}

/* A listener with MPA started, and a child whose peer is silent. */
static void listening(void)
{
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1, .timeout_ms = 300000,
	};
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	must(!bind(listener, (struct sockaddr *)&addr, len) &&
	     !getsockname(listener, (struct sockaddr *)&addr, &len) &&
	     !mpa_attach(listener) &&
	     !mpa_start_as(listener, &start) && !listen(listener, 1) &&
	     !connect(fd, (struct sockaddr *)&addr, len) &&
	     accept(listener, NULL, NULL) >= 0, "listening");
	printf("listener %d *\n", port_of(listener));
	tell("child", port_of(listener), port_of(fd));
}

/* A TUF socket with a different mode in each direction. */
static void tuf(void)
{
	struct tuf_framing rx = { .mode = TUF_MARKERS };
	struct tuf_framing tx = { .mode = TUF_ALIGN };
	int fd[2];

	connected(fd);
	must(!setsockopt(fd[0], IPPROTO_TCP, TCP_ULP, "tuf", 3) &&
	     !setsockopt(fd[0], SOL_MPA, TUF_TX, &tx, sizeof(tx)) &&
	     !setsockopt(fd[0], SOL_MPA, TUF_RX, &rx, sizeof(rx)) &&
	     send(fd[0], "ab", 2, 0) == 2 && acked(fd[0]), "tuf");
	tell("tuf", port_of(fd[0]), port_of(fd[1]));
}

/* A socket that is closed while the peer has no space for its records. */
static void closing(void)
{
	static char record[60000];
	int fd[2], port, peer;

	connected(fd);
	must(!mpa_started_pair(fd, 0, 0), "closing");
	set_nonblock(fd[0]);
	while (send(fd[0], record, sizeof(record), MSG_NOSIGNAL) > 0)
		;
	port = port_of(fd[0]);
	peer = port_of(fd[1]);
	close(fd[0]);
	tell("closing", port, peer);
}

int main(void)
{
	char octet;

	plain();
	idle();
	full();
	failed();
	listening();
	tuf();
	closing();
	puts("ready");
	fflush(stdout);
	while (read(0, &octet, 1) > 0)
		;
	return 0;
}
