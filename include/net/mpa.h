/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marker PDU Aligned framing (RFC 5044) for users inside the kernel: an iWARP
 * driver, or any protocol that wants records over TCP.
 *
 * The user makes a TCP connection with the kernel's own calls (sock_create_kern(),
 * kernel_connect(), kernel_accept()), attaches to it, and starts MPA:
 *
 *	mpa_sock_attach(sock, &upcalls, me, GFP_KERNEL);
 *	mpa_sock_start(sock, &start, true);
 *	mpa_sock_send(sock, &header, &payload, 0, NULL);
 *
 * What arrives comes by upcalls. Stream positions are octets of FPDUs from the
 * start of the first one in a direction, framing included, as in
 * struct mpa_recvinfo.
 *
 * Who may call what
 * -----------------
 * Functions take the socket lock and may sleep: process context, without the lock.
 * In an upcall of the same socket, or in softirq, they fail with -EDEADLK and a warning.
 * In an upcall of another socket that happens to be in process context nothing
 * notices: they sleep under a lock, and are not to be called there either. No socket
 * is released or shut down in an upcall.
 * The exceptions are mpa_sock_resume(), for any context, mpa_sock_info() and
 * mpa_sock_peer(), for upcalls as well, and mpa_ulpdu_*(), for upcalls alone.
 *
 * Upcalls come one at a time for a socket, with its lock held, often in softirq.
 * They do not sleep. What takes long, and what sends, is for a work item of the
 * user's.
 *
 * Lifetime
 * --------
 * The user owns the struct socket, as ever, and releases it. From
 * mpa_sock_attach() to the return of mpa_sock_detach(), or of sock_release(),
 * upcalls may come; afterwards none does, and none is under way. Until then the
 * module that has the upcalls is held.
 *
 * The socket's callbacks (sk_data_ready and so on) are TCP's own when MPA is
 * attached, and are left alone by the user then; sk_user_data of a socket that the
 * kernel has made (sock_create_kern()) is the user's, whether set before or after.
 * A listening socket is different: MPA does not touch its callbacks, and the user
 * sets his own after it is attached. Its children have TCP's sk_data_ready,
 * sk_write_space and sk_state_change.
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
struct mpa_fpdu;

/**
 * struct mpa_ulpdu - a ULPDU that has arrived, and is verified
 * @position:	stream position of its FPDU
 * @order:	ULPDUs in front of it; not valid for one out of order
 * @len:	octets of it
 *
 * A view: its octets are where TCP has put them, between markers, in any number of
 * pieces. It is valid for the length of the upcall.
 */
struct mpa_ulpdu {
	u64	position;
	u64	order;
	u32	len;
	/* private: */
	u32	first;
	u32	taken;
	struct mpa_ctx *ctx;
	const struct mpa_fpdu *fpdu;
	const u8 *data;
	const void *stash;
};

/**
 * struct mpa_upcalls - what a user inside the kernel is told
 * @owner:	the module that they are in; it is held while they can come. NULL for
 *		one that detaches from all sockets in its exit function, which
 *		would never be called otherwise
 * @ulpdu:	the next ULPDU, in order. Return 0: taken. -EAGAIN: not now, it
 *		comes again after mpa_sock_resume(), and nothing else that has
 *		arrived comes before; TCP's window closes meanwhile. Another
 *		negative errno: the user can make nothing of it, no more
 *		is received, and @failed is told so
 * @place:	a ULPDU in front of which octets of the stream are missing. Return 0:
 *		taken, it does not come again; -EAGAIN: not now, it comes in
 *		order. May be NULL. Only with mpa_sock_place()
 * @edge:	all in front of this stream position has been taken. Told after
 *		one or several @ulpdu, also where those behind had been placed.
 *		May be NULL
 * @acked:	the peer has acknowledged all in front of this stream position of
 *		what was sent: mpa_sock_send() says which is behind a ULPDU. It
 *		may come before that returns. None comes once the sending half
 *		has been shut down. May be NULL
 * @writable:	after mpa_sock_send() or mpa_sock_send_cut() has returned -EAGAIN: try
 *		again. May be NULL
 * @mulpdu:	MULPDU has changed: told when a segment arrives or after a
 *		send. May be NULL
 * @state:	startup has got somewhere: MPA_STATE_REQUESTED, MPA_STATE_FULL,
 *		MPA_STATE_REJECTED, MPA_STATE_FAILED, with 0 or the errno that it
 *		has ended with. In MPA_STATE_FULL an errno is one of RFC 6581
 *		section 9: the user sends his Terminate and closes. May be NULL
 * @failed:	nothing is received any more. RFC 5044 section 8: after -EBADMSG
 *		with MPA_ERR_CRC or MPA_ERR_MARKER, @position is that of the bad
 *		FPDU, and sending goes on, so that the user can tell the peer; but
 *		not for a responder whose first FPDU it was, who may send none.
 *		The same after an errno of @ulpdu's own. Comes once, and @closed
 *		does not; and once more, behind either, if nothing can be sent any
 *		more: with MPA_ERR_TCP and the connection's errno, or -ENOTCONN if a
 *		program has got that, when the connection is lost; with
 *		MPA_ERR_LOCAL and -EPROTO when somebody else has sent. Not while a
 *		ULPDU is put off. May be NULL
 * @closed:	the peer has ended the stream, behind a whole FPDU; sending goes on.
 *		Comes once, and not behind @failed. Not while a ULPDU is put off.
 *		May be NULL
 *
 * Context: socket lock held, softirq or process, under rcu_read_lock(): they do not
 * sleep. The first argument is that of mpa_sock_attach().
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

/* mpa_sock_send(): more ULPDUs follow at once, so that they share segments. */
#define MPA_SEND_MORE		BIT(0)

/* The longest header of struct mpa_headers. */
#define MPA_HEADER_MAX		64
/* Octets that mpa_sock_send_cut() takes at most. */
#define MPA_CUT_MAX		BIT(24)

/**
 * struct mpa_headers - headers of the ULPDUs that mpa_sock_send_cut() makes
 * @len:	octets of each, up to MPA_HEADER_MAX
 * @write:	writes one to @to, which may lie anywhere in memory: in front of @len
 *		octets, not 0, from @off on of those that the call was given; @last:
 *		no octet of them is behind these
 *
 * Context: of @write: in the call, socket lock held: it does not sleep. It may be
 * called again for the same octets, with another @len.
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
