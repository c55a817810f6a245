// SPDX-License-Identifier: GPL-2.0
/*
 * Transfer a large memory region between two kernel iWARP ends (samples/mpa_ddp): by
 * the client's RDMA Writes, the server's RDMA Reads, or Sends. The server compares the
 * octets. It prints the number of octets placed while earlier ones were missing, and
 * the time.
 */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "mpa_iwarp.h"
#include "samples/mpa_ddp/mpa_ddp.h"

#define BASE	0x123456789000	/* tagged offset of the first octet */
#define DEPTH	16		/* maximum of outstanding posts */

/* Each end's description of its memory, which it sends. */
struct rdma_info {
	__be64 to;
	__be32 stag;
	__be32 length;
};

enum mode { WRITE, READ, SEND };

static struct {
	const char *address;
	const char *port;
	bool server;
	bool place;
	enum mode mode;
	u32 size;
	u32 chunk;
	struct mpa_start start;
} options = {
	.port = "7174", .size = 67108864, .chunk = 65536,
	.start = { .revision = 2, .ird = DEPTH, .ord = DEPTH },
};

static struct iw_end end;
static struct iw_buffer *memory;
static struct rdma_info in, own, peer;

static void fail(const char *what)
{
	fprintf(stderr, "mpa_rdma: %s: %s; Terminate sent %d, received %d\n", what,
		strerror(errno), end.sent, end.received);
	exit(1);
}

/* Return: octet @n of the memory. All pieces differ. */
static u8 octet(u32 n)
{
	return (n * 2654435761U) >> 24 ^ n >> 16;
}

static void fill(void)
{
	u32 i;

	for (i = 0; i < options.size; i++)
		memory->octets[i] = octet(i);
}

static void compare(void)
{
	u32 i;

	for (i = 0; i < options.size; i++) {
		if (memory->octets[i] != octet(i)) {
			fprintf(stderr, "mpa_rdma: octet %u is %02x, not %02x\n",
				i, memory->octets[i], octet(i));
			exit(1);
		}
	}
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* ---- small Sends, in both directions ---- */

static void tell(void)
{
	own.to = __cpu_to_be64(BASE);
	own.stag = __cpu_to_be32(memory->stag);
	own.length = __cpu_to_be32(options.size);
	if (iw_send(&end, RDMAP_SEND, 0, &own, sizeof(own)))
		fail("Send");
}

/* Post buffers for the peer's Sends, which may arrive once this end has started. */
static void listen_for_all(void)
{
	/* Buffers for pieces of the memory follow the first buffer. */
	u32 n = options.server && options.mode == SEND ? 1 : 2;

	while (n--)
		iw_post(&end, (u8 *)&in, sizeof(in));
}

static void hear(void)
{
	struct iw_message message;

	if (iw_receive(&end, &message))
		fail("no Send");
	if (message.length != sizeof(in)) {
		errno = EPROTO;
		fail("length of a Send");
	}
	peer = in;
}

/* ---- the memory ---- */

/* Post a piece. First wait if too many are outstanding. */
static void post_piece(u32 opcode, u32 i, u32 *under_way)
{
	u32 off = i * options.chunk;
	struct ddp_post post = {
		.id = i, .opcode = opcode, .stag = memory->stag,
		.to = BASE + off, .remote_stag = __be32_to_cpu(peer.stag),
		.remote_to = __be64_to_cpu(peer.to) + off,
		.length = options.size - off < options.chunk ?
			  options.size - off : options.chunk,
	};

	if (opcode == RDMAP_SEND) {
		post.remote_stag = 0;
		post.remote_to = 0;
	}
	if (ioctl(end.dev, DDP_POST, &post))
		fail("post");
	++*under_way;
}

static void await_piece(u32 *under_way)
{
	struct ddp_done done;

	if (iw_dev_next(&end, &done))
		fail("done");
	if (done.status) {
		errno = -done.status;
		fail("status");
	}
	if (done.what == DDP_POSTED || done.what == DDP_RECEIVED)
		--*under_way;
}

/* Transfer the whole memory, piece by piece. */
static void move(u32 opcode)
{
	u32 pieces = (options.size + options.chunk - 1) / options.chunk;
	u32 under_way = 0, i;

	for (i = 0; i < pieces; i++) {
		post_piece(opcode, i, &under_way);
		while (under_way == DEPTH)
			await_piece(&under_way);
	}
	while (under_way)
		await_piece(&under_way);
}

static void client(void)
{
	fill();
	tell();
	hear();
	if (options.mode == WRITE) {
		move(RDMAP_WRITE);
		tell();
	} else if (options.mode == SEND) {
		move(RDMAP_SEND);
	}
	/* Wait until the server has compared the octets. */
	hear();
}

/* Receive Sends into the memory, a piece each. Post buffers for all of them first. */
static void receive(void)
{
	u32 pieces = (options.size + options.chunk - 1) / options.chunk;
	u32 under_way = 0, i;

	for (i = 0; i < pieces; i++)
		post_piece(DDP_RECEIVE, i, &under_way);
	tell();
	while (under_way)
		await_piece(&under_way);
}

static void server(void)
{
	struct ddp_info info;
	double began;
	int on = 1;

	hear();
	if (options.place && ioctl(end.dev, DDP_PLACE, &on))
		fail("placing");
	began = seconds();
	if (options.mode == SEND) {
		receive();
	} else {
		tell();
		if (options.mode == READ)
			move(RDMAP_READ_REQUEST);
		else
			hear();
	}
	began = seconds() - began;
	compare();
	if (ioctl(end.dev, DDP_INFO, &info))
		fail("DDP_INFO");
	printf("%u octets, %llu tagged, %llu placed out of order, %.1f %%, in %.2f s\n",
	       options.size, info.tagged, info.placed,
	       100.0 * info.placed / options.size, began);
	tell();
}

/* ---- connecting ---- */

static int connected(void)
{
	int fd = iw_connect(options.address, options.port, options.server);

	if (fd < 0)
		fail(options.server ? "listen" : "connect");
	return fd;
}

static void help(void)
{
	fputs("usage: mpa_rdma -s|-c -a ADDRESS [-p PORT] [-m write|read|send]\n"
	      "  [-S OCTETS] [-C OCTETS-OF-A-PIECE] [--markers] [--place]\n", stderr);
	exit(2);
}

enum { MARKERS = 256, PLACE };

static const struct option longs[] = {
	{ "markers", 0, NULL, MARKERS }, { "place", 0, NULL, PLACE }, {},
};

static bool mode_option(const char *name)
{
	static const char *const names[] = { "write", "read", "send" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(name, names[i]))
			continue;
		options.mode = i;
		return true;
	}
	return false;
}

static bool option(int opt)
{
	switch (opt) {
	case 's':
	case 'c':
		options.server = opt == 's';
		return true;
	case 'a':
		options.address = optarg;
		return true;
	case 'p':
		options.port = optarg;
		return true;
	case 'm':
		return mode_option(optarg);
	case 'S':
		options.size = strtoul(optarg, NULL, 0);
		return options.size;
	case 'C':
		options.chunk = strtoul(optarg, NULL, 0);
		return options.chunk;
	case MARKERS:
		options.start.flags |= MPA_START_MARKERS;
		return true;
	case PLACE:
		options.place = true;
		return true;
	default:
		return false;
	}
}

int main(int argc, char **argv)
{
	u8 *octets;
	int opt;

	while ((opt = getopt_long(argc, argv, "sca:p:m:S:C:", longs, NULL)) != -1)
		if (!option(opt))
			help();
	if (!options.address || optind != argc)
		help();
	options.start.role = options.server ? MPA_ROLE_RESPONDER :
					      MPA_ROLE_INITIATOR;
	if (!options.server)
		options.start.flags |= MPA_START_ENHANCED;
	octets = mmap(NULL, options.size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (octets == MAP_FAILED || iw_open(&end, true))
		fail("the kernel's end");
	memory = iw_register(&end, octets, options.size, BASE,
			     IW_REMOTE_READ | IW_REMOTE_WRITE);
	if (!memory)
		fail("memory");
	listen_for_all();
	if (iw_start(&end, connected(), &options.start))
		fail("start");
	if (options.server)
		server();
	else
		client();
	if (iw_close(&end) && (end.sent >= 0 || end.received >= 0))
		fail("end");
	return 0;
}
