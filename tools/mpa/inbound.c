// SPDX-License-Identifier: GPL-2.0
/* Receive records, several in a call (MPA_RECV_BATCH). */
#include "relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INBOUND_ROOM	(4 * 65536)	/* the longest record always fits */

void inbound_open(struct inbound *in, int fd, bool batch)
{
	in->buf = need_memory(malloc(INBOUND_ROOM));
	in->batch = batch;
	start_set(fd, MPA_RECVINFO, 1, "MPA_RECVINFO");
	start_set(fd, MPA_RECV_BATCH, batch, "MPA_RECV_BATCH");
}

void inbound_close(struct inbound *in)
{
	free(in->buf);
	in->buf = NULL;
}

static void read_control(struct inbound *in, struct msghdr *msg)
{
	for (struct cmsghdr *each = CMSG_FIRSTHDR(msg); each; each = CMSG_NXTHDR(msg, each)) {
		size_t len = each->cmsg_len - CMSG_LEN(0);

		if (each->cmsg_level != SOL_MPA)
			continue;
		if (each->cmsg_type == MPA_RECVINFO) {
			memcpy(&in->info, CMSG_DATA(each),
			       len < sizeof(in->info) ? len : sizeof(in->info));
		} else if (each->cmsg_type == MPA_RECV_BATCH && len <= sizeof(in->length)) {
			memcpy(in->length, CMSG_DATA(each), len);
			in->records = len / sizeof(*in->length);
		}
	}
}

/*
 * Receive records, without blocking. Return: the number of octets, 0 at the end of
 * stream, or a negative errno.
 */
ssize_t inbound_receive(struct inbound *in, int fd)
{
	union {
		struct cmsghdr first;
		char octets[CMSG_SPACE(sizeof(in->info)) + CMSG_SPACE(sizeof(in->length))];
	} control;
	struct iovec iov = { .iov_base = in->buf, .iov_len = INBOUND_ROOM };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);

	in->records = 0;
	memset(&in->info, 0, sizeof(in->info));
	if (n < 0)
		return -errno;
	read_control(in, &msg);
	if (n && !in->records) {
		in->length[0] = n;
		in->records = 1;
	}
	return n;
}
