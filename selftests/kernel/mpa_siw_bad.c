// SPDX-License-Identifier: GPL-2.0
/*
 * Make a mistake to rping's server, and print the Terminate that follows. Either this
 * end sends a segment that no peer may send, or it describes a buffer wrongly: then it
 * has to refuse the server's request.
 *
 *	mpa_siw_bad ADDRESS PORT MISTAKE
 *
 * prints "received" or "sent", and layer, type and code.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpa_iwarp.h"

#define SIZE	64
#define NO_STAG	0xdeadbe00

/* An untagged segment's header, and the number of its octets to send. */
struct segment {
	u8 ddp;
	u8 rdmap;
	u32 queue;
	u32 msn;
	u32 mo;
	u32 length;
	u32 cut;
};

struct mistake {
	const char *name;
	struct segment segment;		/* used if @ddp is not 0 */
	void (*make)(struct iw_end *end);
};

static u8 room[2][16], octets[SIZE], sink[SIZE];

static void name_buffer(struct iw_end *end, u32 stag, u64 to, u32 size)
{
	struct {
		__be64 to;
		__be32 stag;
		__be32 size;
	} info = {
		__cpu_to_be64(to), __cpu_to_be32(stag), __cpu_to_be32(size),
	};

	iw_send(end, RDMAP_SEND, 0, &info, sizeof(info));
}

static void write_nowhere(struct iw_end *end)
{
	iw_write(end, NO_STAG, 0, octets, 1);
}

static void read_nothing(struct iw_end *end)
{
	iw_read(end, iw_register(end, sink, SIZE, 0, 0), 0, NO_STAG, 0, 1);
}

/* Send a Read Response that was not requested. */
static void answer_nobody(struct iw_end *end)
{
	iw_send_tagged(end, RDMAP_READ_RESPONSE, NO_STAG, 0, octets, 1);
}

static void name_no_source(struct iw_end *end)
{
	name_buffer(end, NO_STAG, 0, SIZE);
}

static void name_short_source(struct iw_end *end)
{
	struct iw_buffer *buffer = iw_register(end, octets, SIZE - 1, 0x1000,
					       IW_REMOTE_READ);

	name_buffer(end, buffer->stag, 0x1000, SIZE);
}

static void name_closed_source(struct iw_end *end)
{
	struct iw_buffer *buffer = iw_register(end, octets, SIZE, 0x1000,
					       IW_REMOTE_WRITE);

	name_buffer(end, buffer->stag, 0x1000, SIZE);
}

/* Let the server read a good buffer, and then write to a bad one. */
static void name_sink(struct iw_end *end, u8 access, u32 size)
{
	struct iw_buffer *source, *buffer;
	struct iw_message message;

	memset(octets, 'a', SIZE - 1);
	source = iw_register(end, octets, SIZE, 0x1000, IW_REMOTE_READ);
	buffer = iw_register(end, sink, size, 0x2000, access);
	name_buffer(end, source->stag, 0x1000, SIZE);
	if (!iw_receive(end, &message))
		name_buffer(end, buffer->stag, 0x2000, SIZE);
}

static void name_short_sink(struct iw_end *end)
{
	name_sink(end, IW_REMOTE_WRITE, SIZE - 1);
}

static void name_closed_sink(struct iw_end *end)
{
	name_sink(end, IW_REMOTE_READ, SIZE);
}

#define SEND	(RDMAP_VERSION << RDMAP_VERSION_SHIFT | RDMAP_SEND)

static const struct mistake mistakes[] = {
	{ "ddp_version", { DDP_LAST | 2, SEND, 0, 1, 0, 16 } },
	{ "rdmap_version", { DDP_LAST | 1, RDMAP_SEND, 0, 1, 0, 16 } },
	{ "opcode", { DDP_LAST | 1, 0x48, 0, 1, 0, 16 } },
	{ "queue", { DDP_LAST | 1, SEND, 3, 1, 0, 16 } },
	{ "msn", { DDP_LAST | 1, SEND, 0, 2, 0, 16 } },
	{ "mo", { DDP_LAST | 1, SEND, 0, 1, 1, 16 } },
	{ "long", { DDP_LAST | 1, SEND, 0, 1, 0, 17 } },
	{ "short", { DDP_LAST | 1, SEND, 0, 1, 0, 0, .cut = 17 } },
	{ "write", .make = write_nowhere },
	{ "read", .make = read_nothing },
	{ "response", .make = answer_nobody },
	{ "source", .make = name_no_source },
	{ "short_source", .make = name_short_source },
	{ "closed_source", .make = name_closed_source },
	{ "short_sink", .make = name_short_sink },
	{ "closed_sink", .make = name_closed_sink },
};

static void send_segment(struct iw_end *end, const struct segment *segment)
{
	struct ddp_untagged header = {
		.control = { segment->ddp, segment->rdmap },
		.queue = __cpu_to_be32(segment->queue),
		.msn = __cpu_to_be32(segment->msn),
		.mo = __cpu_to_be32(segment->mo),
	};
	u8 buf[sizeof(header) + SIZE] = {};

	memcpy(buf, &header, sizeof(header));
	send(end->fd, buf, segment->cut ?: sizeof(header) + segment->length,
	     MSG_NOSIGNAL);
}

static const struct mistake *named(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mistakes); i++)
		if (!strcmp(mistakes[i].name, name))
			return &mistakes[i];
	fprintf(stderr, "mpa_siw_bad: unknown: %s\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 2,
		.flags = MPA_START_ENHANCED, .ird = 1, .ord = 1,
	};
	struct sockaddr_in to = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0), i;
	const struct mistake *mistake;
	struct iw_end end;

	if (argc != 4 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
		fputs("usage: mpa_siw_bad ADDRESS PORT MISTAKE\n", stderr);
		return 2;
	}
	to.sin_port = htons(atoi(argv[2]));
	mistake = named(argv[3]);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    iw_open(&end, false) || iw_start(&end, fd, &start)) {
		perror("mpa_siw_bad");
		return 1;
	}
	for (i = 0; i < 2; i++)
		iw_post(&end, room[i], sizeof(room[i]));
	if (mistake->make)
		mistake->make(&end);
	else
		send_segment(&end, &mistake->segment);
	while (!iw_progress(&end))
		;
	if (end.received >= 0)
		printf("received %04x\n", end.received);
	else if (end.sent >= 0)
		printf("sent %04x\n", end.sent);
	else
		printf("neither: %s\n", strerror(errno));
	iw_close(&end);
	return 0;
}
