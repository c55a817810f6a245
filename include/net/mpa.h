/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marker PDU Aligned framing (RFC 5044) for kernel users: an iWARP driver, or any
 * protocol that needs records over TCP.
 *
 * The user opens a TCP connection with the kernel's own calls (sock_create_kern(),
 * kernel_connect(), kernel_accept()), attaches to it, and starts MPA:
 *
 *	mpa_sock_attach(sock, &upcalls, me, GFP_KERNEL);
 *	mpa_sock_start(sock, &start, true);
 *	mpa_sock_send(sock, &header, &payload, 0, NULL);
 *
 * Received ULPDUs are delivered by upcalls. A stream position counts octets from the
 * start of a direction's first FPDU, framing included, as in struct mpa_recvinfo.
 *
 * Context
 * -------
 * Functions take the socket lock and may sleep: call them in process context, without
 * the lock. In an upcall of the same socket, or in softirq, they warn and fail with
 * -EDEADLK. Do not call them in an upcall of another socket either: they would sleep
 * under that socket's lock. This is not checked. Do not release or shut down a socket in
 * an upcall. Exceptions: mpa_sock_resume() may be called in any context; mpa_sock_info()
 * and mpa_sock_peer() also in upcalls; mpa_ulpdu_*() only in upcalls.
 *
 * The upcalls of a socket are serialized. They run with its lock held, often in
 * softirq, and must not sleep. Defer sending and long operations to a work item.
 *
 * Lifetime
 * --------
 * The user owns the struct socket and releases it. Upcalls may run from
 * mpa_sock_attach() until mpa_sock_detach() or sock_release() returns. Until then MPA
 * holds a reference to the upcalls' module.
 *
 * When MPA is attached, the socket's callbacks (sk_data_ready and so on) have to be
 * TCP's own, and the user must not change them afterwards. sk_user_data of a kernel
 * socket (sock_create_kern()) is free for the user. A listening socket is different:
 * MPA does not change its callbacks, and the user sets them after attaching. Its
 * children have TCP's sk_data_ready, sk_write_space and sk_state_change.
 */
#ifndef _NET_MPA_H
#define _NET_MPA_H

#include <uapi/linux/mpa.h>
#include <linux/bits.h>
#include <linux/net.h>
#include <linux/types.h>
#include <linux/uio.h>

struct module;
struct mpa_ctx;
struct mpa_cursor;
struct mpa_fpdu;

/**
 * struct mpa_ulpdu - a received ULPDU, verified
 * @position:	stream position of its FPDU
 * @order:	number of ULPDUs before this one; not valid in @place of struct
 *		mpa_upcalls
 * @len:	number of octets
 *
 * The octets stay in TCP's receive queue, between markers, in any number of pieces. The
 * struct is valid until the upcall returns.
 */
struct mpa_ulpdu {
	u64	position;
	u64	order;
	u32	len;
	/* private: */
	u32	first;
	struct mpa_ctx *ctx;
	const struct mpa_fpdu *fpdu;
	const u8 *data;
	const struct mpa_cursor *at;
};

/**
 * struct mpa_upcalls - upcalls to a kernel user
 * @owner:	the upcalls' module, referenced while they can run. NULL if the module's
 *		exit function detaches from all sockets: with a reference the module
 *		could not be unloaded
 * @ulpdu:	the next ULPDU in order. Return 0: taken. Return -EAGAIN: deferred.
 *		After mpa_sock_resume() the ULPDU is delivered again, before any other;
 *		until then TCP's window may close. Return another negative errno: the
 *		user finds the ULPDU invalid; receiving ends, and @failed reports the
 *		errno
 * @place:	a ULPDU out of order: octets before it are missing. Return 0: taken, and
 *		not delivered again; -EAGAIN: deliver it in order. Called only after
 *		mpa_sock_place(). May be NULL
 * @edge:	all ULPDUs before this stream position have been taken, by @ulpdu or by
 *		@place. Called after one or more calls of @ulpdu. May be NULL
 * @acked:	the peer has acknowledged everything sent before this stream
 *		position (compare @end of mpa_sock_send()). May be called before
 *		mpa_sock_send() returns, but not after the sending half has been shut
 *		down. May be NULL
 * @writable:	a send that has returned -EAGAIN may be retried. May be NULL
 * @mulpdu:	MULPDU has changed. Called when a segment arrives, or after a send. May
 *		be NULL
 * @state:	startup has reached MPA_STATE_REQUESTED, MPA_STATE_FULL,
 *		MPA_STATE_REJECTED or MPA_STATE_FAILED, with 0 or startup's errno. An
 *		errno with MPA_STATE_FULL is an error of RFC 6581 section 9: the user
 *		sends a Terminate message and closes. May be NULL
 * @failed:	receiving has ended with an error (RFC 5044 section 8). Called once,
 *		instead of @closed. After -EBADMSG with MPA_ERR_CRC or MPA_ERR_MARKER,
 *		or an errno that @ulpdu returned, @position is that of the bad FPDU, and
 *		the user can still send, to report the FPDU to the peer. But a responder
 *		whose first received FPDU was bad cannot send. When sending ends later,
 *		@failed is called once more. MPA_ERR_TCP: the connection is lost; the
 *		errno is the connection's, or -ENOTCONN if a program has fetched it.
 *		MPA_ERR_LOCAL: -EPROTO if a task has sent on the socket bypassing MPA;
 *		-ENOBUFS without memory. Not called while a ULPDU is deferred. May be
 *		NULL
 * @closed:	the peer has ended the stream after a complete FPDU; the user can still
 *		send. Called once, but not after @failed. Not called while a ULPDU is
 *		deferred. May be NULL
 *
 * Context: socket lock held, softirq or process, under rcu_read_lock(): must not sleep.
 * @priv is that of mpa_sock_attach().
 */
struct mpa_upcalls {
	struct module *owner;
	int (*ulpdu)(void *priv, const struct mpa_ulpdu *ulpdu);
	int (*place)(void *priv, const struct mpa_ulpdu *ulpdu);
	void (*edge)(void *priv, u64 edge);
	void (*acked)(void *priv, u64 position);
	void (*writable)(void *priv);
	void (*mulpdu)(void *priv, u32 mulpdu);
	void (*state)(void *priv, enum mpa_state state, int err);
	void (*failed)(void *priv, int err, enum mpa_error code, u64 position);
	void (*closed)(void *priv);
};

/* mpa_sock_send(): more ULPDUs follow at once, and may share segments. */
#define MPA_SEND_MORE		BIT(0)

/* The longest header of struct mpa_headers. */
#define MPA_HEADER_MAX		64
/* The maximum number of octets that mpa_sock_send_cut() takes. */
#define MPA_CUT_MAX		BIT(24)

/**
 * struct mpa_headers - headers of the ULPDUs that mpa_sock_send_cut() builds
 * @len:	length of each header in octets, up to MPA_HEADER_MAX
 * @write:	writes the header of one ULPDU to @to, which may have any alignment. The
 *		ULPDU's payload is @len octets, at least one, at offset @off of the call's
 *		payload. @last: the ULPDU is the last of the call
 *
 * Context: @write runs in the call with the socket lock held, and must not sleep. It
 * may be called again for the same @off, with another @len.
 */
struct mpa_headers {
	u32 len;
	void (*write)(const struct mpa_headers *headers, void *to, u32 off,
		      u32 len, bool last);
};

int mpa_sock_attach(struct socket *sock, const struct mpa_upcalls *upcalls,
		    void *priv, gfp_t gfp);
int mpa_sock_detach(struct socket *sock);
int mpa_sock_start(struct socket *sock, const struct mpa_start *start,
		   bool wait);
int mpa_sock_accept(struct socket *sock, const struct mpa_reply *reply);
int mpa_sock_reject(struct socket *sock, const struct mpa_reply *reply);
int mpa_sock_peer(struct socket *sock, struct mpa_peer *peer);
int mpa_sock_info(struct socket *sock, struct mpa_info *info);
int mpa_sock_place(struct socket *sock, bool on);
int mpa_sock_send(struct socket *sock, const struct kvec *header,
		  struct iov_iter *payload, unsigned int flags, u64 *end);
int mpa_sock_send_cut(struct socket *sock, const struct mpa_headers *headers,
		      struct iov_iter *payload, unsigned int flags, u64 *end);
void mpa_sock_resume(struct socket *sock);

int mpa_ulpdu_walk(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
		   int (*show)(void *arg, const u8 *data, u32 len), void *arg);
int mpa_ulpdu_read(const struct mpa_ulpdu *ulpdu, u32 off, void *to, u32 len);
int mpa_ulpdu_copy(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
		   struct iov_iter *to);

#endif /* _NET_MPA_H */
