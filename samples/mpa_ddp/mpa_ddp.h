/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/mpa_ddp: RDMA over a program's TCP connection. An open file is one end
 * of a stream.
 *
 * DDP_ATTACH, DDP_START, then DDP_POST as often as needed; read(2) returns the
 * results, one struct ddp_done after another, and poll(2) reports when there is
 * one. The program keeps its file descriptor of the socket: shutdown(2) on it
 * ends the stream in an orderly way.
 *
 * close(2) does not wait: an RDMA Write that is being placed may still write to
 * memory after it, and regions stay charged until the socket has been left,
 * which takes as long as the program delays that. DDP_DEREGISTER waits.
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
#define DDP_POSTS_MAX		1024		/* posts whose results were not read */
#define DDP_READS_MAX		64		/* IRD and ORD */

/*
 * ddp_region.access: what the peer may do. With neither it is for local use,
 * and the peer may not invalidate it.
 */
#define DDP_REMOTE_READ		0x1
#define DDP_REMOTE_WRITE	0x2

/**
 * struct ddp_region - registered memory
 * @addr:	its address in the program; must be writable
 * @base:	tagged offset of the first octet
 * @length:	octets, at most DDP_REGION_MAX
 * @access:	DDP_REMOTE_*
 * @stag:	its STag: set by DDP_REGISTER
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

/* ddp_post.opcode: one of enum rdmap_opcode, or a buffer for a Send from the peer */
#define DDP_RECEIVE		0x100

/**
 * struct ddp_post - a request
 * @id:		chosen by the program; returned in struct ddp_done
 * @opcode:	RDMAP_SEND and its kinds, RDMAP_WRITE, RDMAP_READ_REQUEST or DDP_RECEIVE
 * @length:	octets
 * @stag:	region of this end as source or destination; ignored if @length
 *		is 0
 * @to:		tagged offset of the first octet in it
 * @remote_stag: region of the peer's; for a Send with Invalidate, the one to
 *		invalidate; ignored for other Sends
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
 * enum ddp_what - the kinds of struct ddp_done
 * @DDP_STARTED:	startup is over: @status
 * @DDP_POSTED:		a post is done, or cannot be: @id, @opcode, @status. In the
 *			order of the posts: a post waits for earlier RDMA Reads
 * @DDP_RECEIVED:	a buffer received a Send, or was cancelled: @id, @opcode, @length,
 *			@stag, @status. Buffers are reported in their own order
 * @DDP_TERMINATE_SENT:	a Terminate was sent because of a peer's error: @error. Not
 *			reported if there is no space for it, as the peer does not read
 * @DDP_TERMINATE_RECEIVED: a Terminate from the peer: @error
 * @DDP_ENDED:		the stream has ended: @status; the last report. 0: the peer
 *			closed it, and everything was done; -ECONNRESET: the peer
 *			closed it in the middle of a message, or with incomplete
 *			posts of this end or RDMA Reads of its own
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
 *		-EOPNOTSUPP: an RDMA Read, but the peer allows none
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
 * struct ddp_info - statistics
 * @segments:	received in order
 * @writes:	last segments of the peer's RDMA Writes received, in order or not: if
 *		it was out of order, others may be missing
 * @reads:	completely answered RDMA Reads of the peer
 * @placed:	octets written to memory while earlier octets were missing
 * @tagged:	octets written to memory by tagged segments, including these
 * @ird:	RDMA Reads that the peer may have outstanding
 * @ord:	RDMA Reads that this end may have outstanding
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
 * also for a moment after the close(2) of that; otherwise as mpa_sock_attach().
 * DDP_START: EINVAL for an IRD of more than DDP_READS_MAX; otherwise as MPA_START. It
 * does not wait: DDP_STARTED reports the result. DDP_PLACE: as MPA_PLACE.
 * DDP_REGISTER: EINVAL, EFAULT; ENOMEM, also for more than RLIMIT_MEMLOCK; ENOSPC:
 * there are DDP_REGIONS_MAX already; EBUSY if all STags are in use.
 * RLIMIT_MEMLOCK is that of the calling program; without CAP_IPC_LOCK everything that
 * its user has registered, in all programs, is charged until it is deregistered. Each
 * region is charged for all of its pages, shared ones as well, huge ones as a whole,
 * and two more for each 512.
 * DDP_DEREGISTER: ENOENT; after it the memory is not accessed.
 * DDP_POST: EINVAL for an unknown opcode; EFAULT: not within a region of this end;
 * EAGAIN: there are DDP_POSTS_MAX already, read first; EPIPE: the stream has ended.
 * Without a socket DDP_START and DDP_PLACE fail with ENOTCONN.
 */
#define DDP_ATTACH	_IOW('D', 1, int)		/* a connected socket */
#define DDP_START	_IOW('D', 2, struct mpa_start)
#define DDP_PLACE	_IOW('D', 3, int)		/* on or off */
#define DDP_REGISTER	_IOWR('D', 4, struct ddp_region)
#define DDP_DEREGISTER	_IOW('D', 5, __u32)		/* an STag */
#define DDP_POST	_IOW('D', 6, struct ddp_post)
#define DDP_INFO	_IOR('D', 7, struct ddp_info)

#endif /* _MPA_DDP_H */
