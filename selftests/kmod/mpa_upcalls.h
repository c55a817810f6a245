/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/mpa_upcalls: a kernel user that follows a program's commands, and reports its upcalls to
 * the program. An open file is one user, of one socket.
 */
#ifndef _MPA_UPCALLS_H
#define _MPA_UPCALLS_H

#include <linux/ioctl.h>
#include <linux/types.h>
#ifndef __KERNEL__
#include <linux/mpa.h>
#else
#include <uapi/linux/mpa.h>
#endif

enum upcall {
	UPCALL_ULPDU = 1,	/* with its octets */
	UPCALL_PLACE,		/* with its octets */
	UPCALL_EDGE,
	UPCALL_ACKED,
	UPCALL_WRITABLE,
	UPCALL_MULPDU,
	UPCALL_STATE,
	UPCALL_FAILED,
	UPCALL_CLOSED,
	UPCALL_RESULT,		/* of a call in an upcall: struct upcall_how */
	UPCALL_CONNECTION,	/* a watched socket has a connection to accept */
};

/* read(2) returns this struct, and @len octets after it. */
struct upcall_event {
	__u32 upcall;		/* enum upcall */
	__s32 err;		/* errno of failed and state; result of a call */
	__u64 position;		/* position, or edge */
	__u64 order;
	__u32 value;		/* state, code, MULPDU */
	__u32 len;
};

/* What the upcalls do in addition to reporting */
struct upcall_how {
	__u32 put_off;		/* defer every @put_off-th ULPDU once: -EAGAIN */
	__u32 fail_at;		/* number of the ULPDU that gets -EPROTO; 0: none */
	__u32 refuse;		/* refuse ULPDUs out of order */
	__u32 resume_early;	/* call mpa_sock_resume() when deferring */
	__u32 call_back;	/* call mpa_sock_send() and mpa_sock_detach() */
	__u32 sleeps;		/* sleep for milliseconds, which is forbidden */
};

/* Start of the headers in UPCALLS_CUT; the rest is 0x5a. */
struct upcall_header {
	__u32 off;
	__u32 len;
	__u32 last;
};

enum upcall_memory {
	MEMORY_USER,
	MEMORY_KVEC,
	MEMORY_BVEC,
};

struct upcall_send {
	__u64 header;
	__u64 payload;
	__u32 header_len;
	__u32 len;
	__u32 flags;
	__u32 memory;		/* enum upcall_memory, of the payload */
	__u64 end;		/* set on return */
};

#define UPCALLS_ATTACH	_IOW('m', 1, int)	/* a file descriptor */
#define UPCALLS_CONNECT	_IOW('m', 2, __u16)	/* a port on loopback */
/* Accept from a listening socket; -1: from the user's own; -2: the same, without waiting */
#define UPCALLS_ACCEPT	_IOW('m', 3, int)
#define UPCALLS_DETACH	_IO('m', 4)
#define UPCALLS_START	_IOW('m', 5, struct mpa_start)
#define UPCALLS_WAIT	_IOW('m', 6, struct mpa_start)
#define UPCALLS_REPLY	_IOW('m', 7, struct mpa_reply)
#define UPCALLS_REJECT	_IOW('m', 8, struct mpa_reply)
#define UPCALLS_PEER	_IOR('m', 9, struct mpa_peer)
#define UPCALLS_INFO	_IOR('m', 10, struct mpa_info)
#define UPCALLS_PLACE	_IOW('m', 11, int)
#define UPCALLS_SEND	_IOWR('m', 12, struct upcall_send)
#define UPCALLS_RESUME	_IO('m', 13)
#define UPCALLS_HOW	_IOW('m', 14, struct upcall_how)
#define UPCALLS_RELEASE	_IO('m', 15)		/* release the socket while attached */
#define UPCALLS_SHUT	_IO('m', 16)		/* shut the socket down for sending */
#define UPCALLS_WATCH	_IOW('m', 17, int)	/* a listening socket */
/* mpa_sock_send_cut(): header_len is the length of each header, len is set to the octets sent. */
#define UPCALLS_CUT	_IOWR('m', 18, struct upcall_send)
#define UPCALLS_STRANGER _IO('m', 19)		/* send an octet that bypasses mpa */
#define UPCALLS_LISTEN	_IOR('m', 20, __u16)	/* listen, and return the port */

#endif /* _MPA_UPCALLS_H */
