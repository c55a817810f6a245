/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/mpa_ddp: RDMA over a TCP connection of a program's. An open file is one
 * end of a stream.
 *
 * DDP_ATTACH, DDP_START, then DDP_POST as often as wanted; read(2) returns what
 * has become of it, one struct ddp_done after the other, and poll(2) says when
 * there is one. The program keeps its file descriptor of the socket: with
 * shutdown(2) on it the stream ends in an orderly way.
 *
 * close(2) does not wait: an RDMA Write that is just being placed may still go to memory
 * behind it, and regions count until the socket has been left, which takes as long as
 * the program holds that up. DDP_DEREGISTER waits.
 */
#ifndef _MPA_DDP_H
#define _MPA_DDP_H

#include <linux/ioctl.h>
#ifdef __KERNEL__
#include <uapi/linux/mpa.h>
#else
#include <linux/mpa.h>
#endif
#include <linux/types.h>

#define DDP_REGION_MAX		0x40000000	/* octets of a region */
#define DDP_REGIONS_MAX		1024		/* of an end */
#define DDP_POSTS_MAX		1024		/* posted, and not read */
#define DDP_READS_MAX		64		/* IRD and ORD */

/*
 * ddp_region.access: what the peer may do. With neither it is for local use, and not
 * for the peer to invalidate.
 */
#define DDP_REMOTE_READ		0x1
#define DDP_REMOTE_WRITE	0x2

/**
 * struct ddp_region - memory that has a name
 * @addr:	where the program has it; it has to be writable
 * @base:	tagged offset of the first octet
 * @length:	octets, at most DDP_REGION_MAX
 * @access:	DDP_REMOTE_*
 * @stag:	its name: set by DDP_REGISTER
 * @reserved:	0
 */
struct ddp_region {
	__u64 addr;
	__u64 base;
	__u32 length;
	__u32 access;
	__u32 stag;
	__u32 reserved;
};

/* ddp_post.opcode: one of enum rdmap_opcode, or a buffer for a Send of the peer's */
#define DDP_RECEIVE		0x100

/**
 * struct ddp_post - something to be done
 * @id:		the program's; comes back in struct ddp_done
 * @opcode:	RDMAP_SEND and its kinds, RDMAP_WRITE, RDMAP_READ_REQUEST or DDP_RECEIVE
 * @length:	octets
 * @stag:	region of this end that they are in or go to; not looked at if @length
 *		is 0
 * @to:		tagged offset of the first one there
 * @remote_stag: region of the peer's; for a Send with Invalidate, the one to
 *		invalidate; not looked at for other Sends
 * @remote_to:	tagged offset there
 */
struct ddp_post {
	__u64 id;
	__u64 to;
	__u64 remote_to;
	__u32 opcode;
	__u32 length;
	__u32 stag;
	__u32 remote_stag;
};

/**
 * enum ddp_what - what a struct ddp_done tells
 * @DDP_STARTED:	startup is over: @status
 * @DDP_POSTED:		a post has been done, or cannot be: @id, @opcode, @status. In
 *			the order of the posts: one behind an RDMA Read when that is done
 * @DDP_RECEIVED:	a buffer has a Send, or never will: @id, @opcode, @length,
 *			@stag, @status. Buffers have an order of their own
 * @DDP_TERMINATE_SENT:	the peer has made a mistake, and is told: @error. It does not
 *			come if the peer reads so little that there is no room
 * @DDP_TERMINATE_RECEIVED: the other way round: @error
 * @DDP_ENDED:		the stream is over: @status; nothing comes behind this. 0: the
 *			peer has closed it, and all has been done; -ECONNRESET: the
 *			peer has closed it in the middle of a message, or with posts of
 *			this end or RDMA Reads of its own that are not done
 */
enum ddp_what {
	DDP_STARTED = 1,
	DDP_POSTED,
	DDP_RECEIVED,
	DDP_TERMINATE_SENT,
	DDP_TERMINATE_RECEIVED,
	DDP_ENDED,
};

/**
 * struct ddp_done - what read(2) returns
 * @id:		of the post
 * @what:	enum ddp_what
 * @status:	0, or a negative errno; -ECANCELED: the stream was over first;
 *		-EOPNOTSUPP: an RDMA Read, of which the peer allows none
 * @opcode:	enum rdmap_opcode
 * @length:	octets
 * @stag:	region of this end that has been invalidated, or 0
 * @error:	enum rdmap_error
 */
struct ddp_done {
	__u64 id;
	__u32 what;
	__s32 status;
	__u32 opcode;
	__u32 length;
	__u32 stag;
	__u32 error;
};

/**
 * struct ddp_info - how far it is
 * @segments:	that have come in order
 * @writes:	last segments of RDMA Writes of the peer's that have come, in order or
 *		not: of one that was out of order others may be missing
 * @reads:	RDMA Reads of the peer's that have been answered to their end
 * @placed:	octets that went to memory while octets in front of them were missing
 * @tagged:	octets that went to memory by tagged segments, those included
 * @ird:	RDMA Reads that the peer may have under way
 * @ord:	RDMA Reads that this end may have under way
 */
struct ddp_info {
	__u64 segments;
	__u64 writes;
	__u64 reads;
	__u64 placed;
	__u64 tagged;
	__u32 ird;
	__u32 ord;
};

/*
 * DDP_ATTACH: EISCONN if the file has a socket already; EBUSY while another file has it,
 * also for a moment behind the close(2) of that; else as mpa_sock_attach().
 * DDP_START: EINVAL for an IRD of more than DDP_READS_MAX; else as MPA_START. It does
 * not wait: DDP_STARTED tells. DDP_PLACE: as MPA_PLACE.
 * DDP_REGISTER: EINVAL, EFAULT; ENOMEM, also for more than RLIMIT_MEMLOCK; ENOSPC:
 * DDP_REGIONS_MAX are there; EBUSY if all STags are in use.
 * RLIMIT_MEMLOCK is that of the calling program; without CAP_IPC_LOCK all that its user
 * has registered counts, of all programs of his, until it is deregistered. Each region
 * counts all of its pages, those of others as well, huge ones as a whole, and two more
 * for each 512.
 * DDP_DEREGISTER: ENOENT; behind it no octet is touched.
 * DDP_POST: EINVAL for an opcode that there is not; EFAULT: not within a region of
 * this end; EAGAIN: DDP_POSTS_MAX are there, read first; EPIPE: the stream is over.
 * Without a socket DDP_START and DDP_PLACE fail with ENOTCONN.
 */
#define DDP_ATTACH	_IOW('D', 1, int)		/* a connected socket */
#define DDP_START	_IOW('D', 2, struct mpa_start)
#define DDP_PLACE	_IOW('D', 3, int)		/* whether */
#define DDP_REGISTER	_IOWR('D', 4, struct ddp_region)
#define DDP_DEREGISTER	_IOW('D', 5, __u32)		/* an STag */
#define DDP_POST	_IOW('D', 6, struct ddp_post)
#define DDP_INFO	_IOR('D', 7, struct ddp_info)

#endif /* _MPA_DDP_H */
