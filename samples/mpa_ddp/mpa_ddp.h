/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/mpa_ddp: RDMA over a program's TCP connection. An open file is one end
 * of a stream.
 *
 * Call DDP_ATTACH, DDP_START, then DDP_POST as often as needed. read(2) returns the
 * results as struct ddp_done, and poll(2) reports when there are results. The program
 * keeps its file descriptor of the socket: shutdown(2) on it ends the stream in an
 * orderly way.
 *
 * close(2) does not wait: an RDMA Write may still write to memory afterwards, and
 * regions stay charged until the socket is detached. Detaching waits while the program
 * holds the socket lock. DDP_DEREGISTER waits.
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
#define DDP_REGIONS_MAX		1024		/* regions of an end */
#define DDP_POSTS_MAX		1024		/* posts whose results were not read */
#define DDP_READS_MAX		64		/* IRD and ORD */

/*
 * ddp_region.access: what the peer may do. A region without access is for local use, and
 * the peer may not invalidate it.
 */
#define DDP_REMOTE_READ		0x1
#define DDP_REMOTE_WRITE	0x2

/**
 * struct ddp_region - registered memory
 * @addr:	address of the memory in the program; must be writable
 * @base:	tagged offset of the first octet
 * @length:	octets, at most DDP_REGION_MAX
 * @access:	DDP_REMOTE_*
 * @stag:	STag of the region, set by DDP_REGISTER
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
 * @stag:	region of this end as source or destination; ignored if @length is 0
 * @to:		tagged offset of the first octet in this region
 * @remote_stag: the peer's region; a Send with Invalidate invalidates it, other Sends
 *		ignore it
 * @remote_to:	tagged offset in the peer's region
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
 * @DDP_STARTED:	startup has ended: @status
 * @DDP_POSTED:		a post is done, or has failed: @id, @opcode, @status. Reported in
 *			the order of the posts: a post waits for earlier RDMA Reads
 * @DDP_RECEIVED:	a buffer received a Send, or was cancelled: @id, @opcode, @length,
 *			@stag, @status. Buffers are reported in their own order
 * @DDP_TERMINATE_SENT:	a Terminate was sent because of an error: @error. Not reported if
 *			the Terminate was dropped for lack of space: the peer does not read
 * @DDP_TERMINATE_RECEIVED: the peer has sent a Terminate: @error
 * @DDP_ENDED:		the stream has ended: @status; the last report. 0: the peer
 *			closed the stream, and everything was done; -ECONNRESET: the peer
 *			closed the stream in the middle of a message, or while posts of
 *			this end or the peer's own RDMA Reads were incomplete
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
 * @status:	0, or a negative errno; -ECANCELED: the stream had ended before;
 *		-EOPNOTSUPP: the peer allows no RDMA Reads
 * @opcode:	enum rdmap_opcode
 * @length:	octets
 * @stag:	region of this end that was invalidated, or 0
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
 * @segments:	segments received in order
 * @writes:	RDMA Writes of the peer whose last segment was received; if it was
 *		received out of order, other segments may be missing
 * @reads:	completely answered RDMA Reads of the peer
 * @placed:	octets written to memory while earlier octets were missing
 * @tagged:	octets written to memory by tagged segments, including @placed
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
 * Errors, and what the calls do:
 *
 * DDP_ATTACH	EISCONN if the file already has a socket; EBUSY while another file has the
 *		socket, and for a moment after that file's close(2); otherwise as
 *		mpa_sock_attach().
 * DDP_START	Does not wait: DDP_STARTED reports the result. EINVAL for an IRD above
 *		DDP_READS_MAX; otherwise as MPA_START.
 * DDP_PLACE	As MPA_PLACE.
 * DDP_REGISTER	EINVAL; EFAULT; ENOMEM, also above RLIMIT_MEMLOCK; ENOSPC above
 *		DDP_REGIONS_MAX; EBUSY if all STags are in use.
 *		RLIMIT_MEMLOCK is that of the calling program. Without CAP_IPC_LOCK
 *		everything that its user has registered, in all programs, is charged until
 *		it is deregistered. Each region is charged for all of its pages, also shared
 *		ones, for huge pages as a whole, and for two more pages for each 512.
 * DDP_DEREGISTER ENOENT. Afterwards the memory is not accessed.
 * DDP_POST	EINVAL for an unknown opcode; EFAULT: not within a region of this end;
 *		EAGAIN: there are DDP_POSTS_MAX already, read first; EPIPE: the stream has
 *		ended.
 *
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
