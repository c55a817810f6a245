// SPDX-License-Identifier: GPL-2.0
/*
 * rping of Debian's rdmacm-utils over mpa: either end, against itself or against rping
 * on an RDMA device. In each round the client names a buffer, and the server reads it;
 * then the client names a second one, and the server writes the same octets to it. The
 * client compares them.
 */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpa_iwarp.h"

#define MOST		1048576	/* maximum number of octets in a round */
#define CLIENT_BASE	0x7fff12345001	/* not the buffers' real address */
#define EXCHANGE	16		/* octets that rdma_client and rdma_server send */

/* The content of each of rping's Sends. */
struct rping_info {
	__be64 to;
	__be32 stag;
	__be32 size;
};

static struct {
	const char *address;
	const char *port;
	bool server;
	bool kernel;
	bool exchange;
	bool refused;
	bool verbose;
	bool verify;
	bool mixed;
	u32 least;
	u32 most;
	u64 seed;
	unsigned long count;
	struct mpa_start start;
} options = {
	.port = "7174", .least = 64, .most = 64,
	.start = { .revision = 2, .ird = 1, .ord = 1 },
};

static u8 source[MOST], sink[MOST], expected[MOST];
static struct rping_info in[2];
static struct iw_end end;
static unsigned long rounds, octets;

static void fail(const char *what)
{
	int error = errno;

	fprintf(stderr, "mpa_rping: round %lu: %s", rounds, what);
	if (end.received >= 0)
		fprintf(stderr, ": Terminate received, %04x", end.received);
	else if (end.sent >= 0)
		fprintf(stderr, ": Terminate sent, %04x", end.sent);
	else
		fprintf(stderr, ": %s", strerror(error));
	fprintf(stderr, "; %u Reads served, %u asked for, %u Writes came\n",
		end.served, end.asked, end.written);
	exit(1);
}

/*
 * Return: a random length, of ten to twenty bits with equal probability; the limits
 * come first.
 */
static u32 size_of(unsigned long round)
{
	u64 random = (options.seed + round) * 0x9e3779b97f4a7c15;
	u32 span = options.most - options.least, bits = 0;

	if (!options.mixed || !span || !round)
		return options.least;
	if (round == 1)
		return options.most;
	random = (random ^ random >> 29) * 0xbf58476d1ce4e5b9;
	while (bits < 32 && span >> bits)
		bits++;
	return options.least + (random >> 8) % (span >> random % bits) + 1;
}

/* Fill the buffer as rping does. */
static void fill(u8 *buf, u32 size, unsigned long round)
{
	int used = snprintf((char *)buf, size, "rdma-ping-%lu: ", round);
	u8 c = 65 + round % 58;
	u32 i;

	for (i = used; i < size; i++) {
		buf[i] = c;
		c = c == 122 ? 65 : c + 1;
	}
	buf[size - 1] = 0;
}

static struct rping_info receive_info(void)
{
	struct iw_message message;

	if (iw_receive(&end, &message))
		fail("no Send");
	if (message.length != sizeof(struct rping_info)) {
		errno = EPROTO;
		fail("not rping's Send");
	}
	iw_post(&end, message.octets, sizeof(struct rping_info));
	return *(const struct rping_info *)message.octets;
}

static void send_info(const struct iw_buffer *buffer, u32 size)
{
	struct rping_info info = {};

	if (buffer) {
		info.to = __cpu_to_be64(buffer->base);
		info.stag = __cpu_to_be32(buffer->stag);
		info.size = __cpu_to_be32(size);
	}
	if (iw_send(&end, RDMAP_SEND, 0, &info, sizeof(info)))
		fail("Send");
}

static void client(void)
{
	struct iw_buffer *from, *to;

	from = iw_register(&end, source, options.most, CLIENT_BASE,
			   IW_REMOTE_READ);
	to = iw_register(&end, sink, options.most, CLIENT_BASE + MOST,
			 IW_REMOTE_WRITE);
	for (rounds = 0; rounds < options.count; rounds++) {
		u32 size = size_of(rounds);

		fill(source, size, rounds);
		memset(sink, 0xee, size);
		send_info(from, size);
		receive_info();
		send_info(to, size);
		receive_info();
		if (options.verify && memcmp(source, sink, size)) {
			errno = EILSEQ;
			fail("not what was sent");
		}
		if (options.verbose)
			printf("ping data: %s\n", sink);
		octets += size;
	}
}

/* Read the client's buffer into @source. */
static u32 server_reads(struct iw_buffer *buffer)
{
	struct rping_info info = receive_info();
	u32 size = __be32_to_cpu(info.size);

	if (!size || size > MOST) {
		errno = EMSGSIZE;
		fail("size");
	}
	if (iw_read(&end, buffer, 0, __be32_to_cpu(info.stag),
		    __be64_to_cpu(info.to), size) || iw_read_all(&end))
		fail("Read");
	fill(expected, size, rounds);
	if (options.verify && memcmp(source, expected, size)) {
		errno = EILSEQ;
		fail("not rping's octets");
	}
	if (options.verbose)
		printf("server ping data: %s\n", source);
	return size;
}

static void server(void)
{
	struct iw_buffer *buffer = iw_register(&end, source, MOST, 0, 0);
	struct rping_info info;
	u32 size;

	/* Continue until the client closes. */
	for (rounds = 0;; rounds++) {
		while (end.taken == end.arrived && !iw_progress(&end))
			;
		if (end.taken == end.arrived && end.received < 0 && end.sent < 0)
			break;
		size = server_reads(buffer);
		send_info(NULL, 0);
		info = receive_info();
		/* rping writes back all octets up to the first 0. */
		size = strnlen((char *)source, size - 1) + 1;
		if (iw_write(&end, __be32_to_cpu(info.stag),
			     __be64_to_cpu(info.to), source, size))
			fail("Write");
		send_info(NULL, 0);
		octets += size;
	}
	if (options.count && rounds != options.count) {
		errno = ENODATA;
		fail("fewer rounds than expected");
	}
}

/* One Send each way, like rdma_client and rdma_server. */
static void exchange(void)
{
	struct iw_message message;

	if (!options.server &&
	    iw_send(&end, RDMAP_SEND, 0, source, EXCHANGE))
		fail("Send");
	if (iw_receive(&end, &message))
		fail("no Send");
	if (message.length != EXCHANGE) {
		errno = EPROTO;
		fail("length of the Send");
	}
	if (options.server &&
	    iw_send(&end, RDMAP_SEND, 0, source, EXCHANGE))
		fail("Send");
	rounds = 1;
	octets = EXCHANGE;
}

static int connected(void)
{
	int fd = iw_connect(options.address, options.port, options.server);

	if (fd < 0)
		fail(options.server ? "listen" : "connect");
	return fd;
}

/* The peer has rejected the request: the connection is plain TCP again. */
static int was_refused(int fd)
{
	struct mpa_info info = {};
	socklen_t len = sizeof(info);
	struct mpa_peer peer = {};
	ssize_t n;

	if (errno != ECONNREFUSED)
		fail("not refused");
	if (getsockopt(fd, SOL_MPA, MPA_INFO, &info, &len))
		fail("MPA_INFO");
	len = sizeof(peer);
	if (getsockopt(fd, SOL_MPA, MPA_PEER, &peer, &len))
		fail("MPA_PEER");
	n = send(fd, "plain", 5, MSG_NOSIGNAL);
	printf("refused state %u revision %u flags %02x private %u plain %zd\n",
	       info.state, peer.revision, peer.flags, peer.private_len, n);
	return info.state == MPA_STATE_REJECTED && n == 5 ? 0 : 1;
}

static void report(void)
{
	struct mpa_info info = {};
	socklen_t len = sizeof(info);
	struct mpa_peer peer = {};
	u32 flags;

	if (getsockopt(end.fd, SOL_MPA, MPA_INFO, &info, &len))
		fail("MPA_INFO");
	len = sizeof(peer);
	if (getsockopt(end.fd, SOL_MPA, MPA_PEER, &peer, &len))
		fail("MPA_PEER");
	flags = info.flags;
	printf("revision %u ird %u ord %u peer %u %u rtr %x crc %d%d ",
	       info.revision, info.ird, info.ord, peer.ird, peer.ord, info.rtr,
	       !!(flags & MPA_INFO_TX_CRC), !!(flags & MPA_INFO_RX_CRC));
	printf("markers %d%d p2p %d written %u served %u\n",
	       !!(flags & MPA_INFO_TX_MARKERS), !!(flags & MPA_INFO_RX_MARKERS),
	       !!(flags & MPA_INFO_P2P), end.written, end.served);
}

static void rtr(const char *kind)
{
	u32 flags = options.start.flags | MPA_START_ENHANCED | MPA_START_P2P;

	if (!strcmp(kind, "write"))
		flags |= MPA_START_RTR_WRITE;
	else if (!strcmp(kind, "read"))
		flags |= MPA_START_RTR_READ;
	else
		flags |= MPA_START_RTR_FPDU;
	options.start.flags = flags;
}

static void set_sizes(const char *text)
{
	char *rest;

	options.least = strtoul(text, &rest, 0);
	options.most = *rest == '-' ? strtoul(rest + 1, NULL, 0) : options.least;
	if (!options.least || options.least > options.most ||
	    options.most > MOST) {
		fprintf(stderr, "mpa_rping: not within 1 and %u\n", MOST);
		exit(2);
	}
}

static void help(void)
{
	fputs("usage: mpa_rping -s|-c -a ADDRESS [-p PORT] [-C COUNT]\n"
	      "  [-S SIZE|LEAST-MOST] [--mixed SEED] [-v] [-V] [--exchange]\n"
	      "  [--refused] [--markers] [--no-crc] [--revision N] [--ird N]\n"
	      "  [--ord N] [--rtr write|read|fpdu] [--kernel]\n", stderr);
	exit(2);
}

enum {
	MIXED = 256, EXCHANGES, REFUSED, MARKERS, NO_CRC, REVISION, IRD, ORD, RTR,
	KERNEL,
};

static const struct option longs[] = {
	{ "mixed", 1, NULL, MIXED }, { "exchange", 0, NULL, EXCHANGES },
	{ "refused", 0, NULL, REFUSED }, { "markers", 0, NULL, MARKERS },
	{ "no-crc", 0, NULL, NO_CRC }, { "revision", 1, NULL, REVISION },
	{ "ird", 1, NULL, IRD }, { "ord", 1, NULL, ORD },
	{ "rtr", 1, NULL, RTR },
	{ "kernel", 0, NULL, KERNEL }, {},
};

/* How the connection starts. */
static bool start_option(int opt)
{
	struct mpa_start *start = &options.start;

	if (opt == MARKERS)
		start->flags |= MPA_START_MARKERS;
	else if (opt == NO_CRC)
		start->flags |= MPA_START_NO_CRC;
	else if (opt == REVISION)
		start->revision = atoi(optarg);
	else if (opt == IRD)
		start->ird = atoi(optarg);
	else if (opt == ORD)
		start->ord = atoi(optarg);
	else if (opt == RTR)
		rtr(optarg);
	else
		return false;
	return true;
}

/* What to do after the start. */
static bool other_option(int opt)
{
	if (opt == 's' || opt == 'c')
		options.server = opt == 's';
	else if (opt == 'a')
		options.address = optarg;
	else if (opt == 'p')
		options.port = optarg;
	else if (opt == 'C')
		options.count = strtoul(optarg, NULL, 0);
	else if (opt == 'S')
		set_sizes(optarg);
	else if (opt == MIXED)
		options.seed = strtoull(optarg, NULL, 0);
	else if (opt == 'v')
		options.verbose = true;
	else if (opt == 'V')
		options.verify = true;
	else if (opt == EXCHANGES)
		options.exchange = true;
	else if (opt == REFUSED)
		options.refused = true;
	else if (opt == KERNEL)
		options.kernel = true;
	else
		return false;
	options.mixed |= opt == MIXED;
	return true;
}

static void parse(int argc, char **argv)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "sca:p:C:S:vV", longs, NULL)) != -1)
		if (!start_option(opt) && !other_option(opt))
			help();
	if (!options.address || optind != argc)
		help();
}

int main(int argc, char **argv)
{
	struct mpa_start *start = &options.start;
	int fd, i, rc;

	parse(argc, argv);
	start->role = options.server ? MPA_ROLE_RESPONDER : MPA_ROLE_INITIATOR;
	/* A responder names only RTR indications that it supports. */
	if (options.server)
		start->flags &= ~(MPA_START_ENHANCED | MPA_START_P2P);
	if (start->revision < 2) {
		start->ird = 0;
		start->ord = 0;
	} else if (!options.server) {
		start->flags |= MPA_START_ENHANCED;
	}
	if (iw_open(&end, options.kernel))
		fail("the kernel's end");
	/* The peer may send once this end has started. */
	for (i = 0; i < 2; i++)
		iw_post(&end, &in[i], sizeof(in[i]));
	fd = connected();
	rc = iw_start(&end, fd, start);
	if (options.refused)
		return rc ? was_refused(fd) : 1;
	if (rc)
		fail("start");
	if (options.exchange)
		exchange();
	else if (options.server)
		server();
	else
		client();
	report();
	if (iw_close(&end) && (end.sent >= 0 || end.received >= 0))
		fail("end");
	printf("%lu rounds, %lu octets\n", rounds, octets);
	return 0;
}
