// SPDX-License-Identifier: GPL-2.0 OR MIT
/* place FD: put records where they belong as they come, say when all is there */
#include <linux/mpa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BLOCK 1024

static char disk[1 << 20]; /* records are a block's number and the block */

int main(int argc, char **argv)
{
	/* A __u64 is aligned as a control message has to be. */
	__u64 control[CMSG_SPACE(sizeof(struct mpa_recvinfo)) / sizeof(__u64)];
	struct { unsigned int number; char block[BLOCK]; } record;
	int fd = argc > 1 ? atoi(argv[1]) : 0, one = 1;
	struct iovec iov = { &record, sizeof(record) };
	struct mpa_recvinfo info = { 0 };
	ssize_t n;

	if (setsockopt(fd, SOL_MPA, MPA_PLACE, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_MPA, MPA_RECVINFO, &one, sizeof(one)))
		return perror("place: MPA_PLACE"), 1;
	for (;;) {
		struct msghdr msg = {
			.msg_iov = &iov, .msg_iovlen = 1,
			.msg_control = control, .msg_controllen = sizeof(control),
		};

		n = recvmsg(fd, &msg, 0);
		if (n <= 0)
			break;
		memcpy(&info, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(info));
		if (n == sizeof(record) && record.number < sizeof(disk) / BLOCK)
			memcpy(disk + record.number * BLOCK, record.block, BLOCK);
		if (info.flags & MPA_RECVINFO_PLACED)
			printf("block %u early\n", record.number);
		else /* nothing before it is missing: all blocks up to here have arrived */
			printf("block %u, all before octet %llu\n", record.number,
			       (unsigned long long)info.edge);
	}
	return n ? perror("place: recvmsg"), 1 : puts("all blocks are there") < 0;
}
