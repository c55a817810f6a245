// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of kernel users: see include/net/mpa.h. The upcalls are in
 * mpa_consumer_upcall.c.
 *
 * Unless its comment says otherwise, an mpa_sock_ function is called in process context
 * without the socket lock, and returns -EDEADLK in an upcall.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/export.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/uio.h>
#include <net/mpa.h>

#include "mpa_sock.h"

/* Whether the current task is in an upcall of this socket. */
static bool mpa_consumer_upcalled(const struct mpa_ctx *ctx)
{
	const struct mpa_consumer *user;
	bool upcalled;

	rcu_read_lock();
	user = READ_ONCE(ctx->consumer);
	upcalled = user && READ_ONCE(user->upcalled) == current;
	rcu_read_unlock();
	return upcalled;
}

/*
 * Check that the caller may take the socket lock. An upcall runs with the lock held, so
 * taking the lock there would deadlock. This is inlined so that the warning names the
 * caller.
 */
static __always_inline int mpa_consumer_check(struct socket *sock)
{
	struct sock *sk = sock->sk;

	if (!mpa_hook_ours(sk))
		return -ENOTCONN;
	if (!in_task() || mpa_consumer_upcalled(mpa_ctx(sk))) {
		pr_warn_ratelimited("must not be called in an upcall or interrupt: caller %pS\n",
				    __builtin_return_address(0));
		return -EDEADLK;
	}
	return 0;
}

static __always_inline int mpa_consumer_lock(struct socket *sock,
					     struct mpa_ctx **ctx)
{
	int err = mpa_consumer_check(sock);

	if (err)
		return err;
	*ctx = mpa_ctx(sock->sk);
	lock_sock(sock->sk);
	return 0;
}

static __always_inline int mpa_consumer_lock_attached(struct socket *sock,
						      struct mpa_ctx **ctx)
{
	int err = mpa_consumer_lock(sock, ctx);

	if (err || (*ctx)->consumer)
		return err;
	release_sock(sock->sk);
	return -ENOTCONN;
}

/* ---- attaching ---- */

static void mpa_consumer_join(struct mpa_ctx *ctx, struct mpa_consumer *user)
{
	user->edge = ctx->rx.cur.pos;
	/* Negative (wrapped) while octets of the startup frame are unacknowledged. */
	user->acked = (u64)ctx->tx.pos - (u32)(ctx->tx.pos - mpa_tx_acked(ctx));
	user->sent = ctx->tx.pos;
	WRITE_ONCE(ctx->consumer, user);
	ctx->wake = &mpa_upcall_wake;
	if (!mpa_tcp_listening(ctx->sk))
		mpa_schedule_work(ctx, 0);
}

/**
 * mpa_sock_attach() - use MPA on a socket, with upcalls
 * @sock:	a connected TCP socket; or a socket that will listen. Its accepted
 *		children use MPA; the user attaches to each of them
 * @upcalls:	the user's upcalls, which stay valid until the user detaches
 * @priv:	first argument of the upcalls
 * @gfp:	to allocate the user's state; MPA's state of the socket is allocated
 *		with GFP_KERNEL
 *
 * If startup has begun or finished, as on an accepted child, an upcall reports
 * the state soon.
 *
 * Return: 0; -EINVAL without @upcalls->ulpdu, or if the socket listens already;
 * -EOPNOTSUPP if the socket is not TCP's; -ENOTCONN; -EEXIST if the socket has
 * another upper-layer protocol; -EBUSY if it has a kernel user, or others have
 * replaced its operations; -ENODEV if the module of @upcalls is being unloaded;
 * -ENOMEM.
 */
int mpa_sock_attach(struct socket *sock, const struct mpa_upcalls *upcalls,
		    void *priv, gfp_t gfp)
{
	struct mpa_consumer *user;
	struct mpa_ctx *ctx;
	int err;

	if (!upcalls->ulpdu)
		return -EINVAL;
	if (!sk_is_tcp(sock->sk))
		return -EOPNOTSUPP;
	if (!mpa_hook_ours(sock->sk)) {
		err = sock->ops->setsockopt(sock, SOL_TCP, TCP_ULP,
					    KERNEL_SOCKPTR("mpa"), 3);
		/* Another task may have attached MPA just now. */
		if (err && !(err == -EEXIST && mpa_hook_ours(sock->sk)))
			return err;
	}
	user = kzalloc(sizeof(*user), gfp);
	if (!user)
		return -ENOMEM;
	user->upcalls = upcalls;
	user->priv = priv;
	err = -ENODEV;
	if (!try_module_get(upcalls->owner))
		goto no_module;
	err = mpa_consumer_lock(sock, &ctx);
	if (err)
		goto no_lock;
	err = mpa_alt(ctx) ? -EEXIST :
	      mpa_tcp_listening(sock->sk) ? -EINVAL :
	      ctx->consumer ? -EBUSY : 0;
	if (!err)
		mpa_consumer_join(ctx, user);
	release_sock(sock->sk);
	if (!err)
		return 0;
no_lock:
	module_put(upcalls->owner);
no_module:
	kfree(user);
	return err;
}
EXPORT_SYMBOL_GPL(mpa_sock_attach);

/**
 * mpa_sock_detach() - end the upcalls
 * @sock:	the socket
 *
 * Waits for upcalls on other processors. The socket keeps MPA: the user may attach
 * again or release the socket. Records that the user has not taken remain for the next
 * reader; a program that waits for them is woken.
 *
 * Return: 0: no upcall is running, and none follows; -ENOTCONN if the user had
 * not attached.
 */
int mpa_sock_detach(struct socket *sock)
{
	struct mpa_ctx *ctx;
	int err;

	err = mpa_consumer_lock_attached(sock, &ctx);
	if (err)
		return err;
	mpa_upcall_leave(ctx);
	if (ctx->state == MPA_STATE_FULL)
		mpa_rx_update(ctx);
	mpa_wake_reader(ctx);
	mpa_wake_writers(ctx);
	release_sock(sock->sk);
	return 0;
}
EXPORT_SYMBOL_GPL(mpa_sock_detach);

/* ---- startup and information ---- */

/**
 * mpa_sock_start() - start MPA, as the socket option MPA_START
 * @sock:	the socket
 * @start:	the parameters
 * @wait:	whether an initiator waits for the reply, for at most SO_SNDTIMEO.
 *		Otherwise @state of struct mpa_upcalls reports the result
 *
 * With MPA_ROLE_DIRECT there are no startup frames: Full Operation begins with
 * the next octet.
 *
 * Return: 0; -EINPROGRESS without @wait; or as MPA_START.
 */
int mpa_sock_start(struct socket *sock, const struct mpa_start *start,
		   bool wait)
{
	int err = mpa_consumer_check(sock);

	return err ?: mpa_control_start(sock->sk, start, sizeof(*start), !wait);
}
EXPORT_SYMBOL_GPL(mpa_sock_start);

/**
 * mpa_sock_accept() - accept the peer's request or reply, with MPA_START_MANUAL
 * @sock:	the socket, in MPA_STATE_REQUESTED
 * @reply:	a responder's private data, IRD and ORD; NULL: those passed to
 *		mpa_sock_start()
 *
 * Return: as MPA_ACCEPT.
 */
int mpa_sock_accept(struct socket *sock, const struct mpa_reply *reply)
{
	int err = mpa_consumer_check(sock);

	return err ?: mpa_control_decide(sock->sk, reply, sizeof(*reply), false);
}
EXPORT_SYMBOL_GPL(mpa_sock_accept);

/**
 * mpa_sock_reject() - reject the peer's request or reply, with MPA_START_MANUAL
 * @sock:	the socket, in MPA_STATE_REQUESTED
 * @reply:	as mpa_sock_accept()
 *
 * Return: as MPA_REJECT.
 */
int mpa_sock_reject(struct socket *sock, const struct mpa_reply *reply)
{
	int err = mpa_consumer_check(sock);

	return err ?: mpa_control_decide(sock->sk, reply, sizeof(*reply), true);
}
EXPORT_SYMBOL_GPL(mpa_sock_reject);

/* Return the context if the current task is in an upcall of the socket, or NULL. */
static struct mpa_ctx *mpa_consumer_inside(struct socket *sock)
{
	struct mpa_ctx *ctx = mpa_hook_ours(sock->sk) ? mpa_ctx(sock->sk) : NULL;

	return ctx && mpa_consumer_upcalled(ctx) ? ctx : NULL;
}

/**
 * mpa_sock_peer() - read the peer's startup frame
 * @sock:	the socket
 * @peer:	set to the frame
 *
 * Context: may be called in an upcall.
 * Return: 0; -ENODATA if no frame has been received.
 */
int mpa_sock_peer(struct socket *sock, struct mpa_peer *peer)
{
	struct mpa_ctx *ctx = mpa_consumer_inside(sock);
	int err;

	if (ctx)
		return mpa_control_peer_fill(ctx, peer);
	err = mpa_consumer_check(sock);
	return err ?: mpa_control_peer(sock->sk, peer);
}
EXPORT_SYMBOL_GPL(mpa_sock_peer);

/**
 * mpa_sock_info() - read state, parameters and counters
 * @sock:	the socket
 * @info:	filled in
 *
 * Context: may be called in an upcall.
 * Return: 0; -ENOTCONN without MPA.
 */
int mpa_sock_info(struct socket *sock, struct mpa_info *info)
{
	struct mpa_ctx *ctx = mpa_consumer_inside(sock);
	int err;

	if (ctx) {
		mpa_control_info_fill(ctx, info);
		return 0;
	}
	err = mpa_consumer_check(sock);
	if (!err)
		mpa_control_info(sock->sk, info);
	return err;
}
EXPORT_SYMBOL_GPL(mpa_sock_info);

/**
 * mpa_sock_place() - turn MPA_PLACE (delivery out of order) on or off
 * @sock:	the socket
 * @on:		the new value
 *
 * Return: 0; -EPERM if the administrator does not allow it; -EINVAL if received
 * FPDUs have no markers or no CRCs; -ENOBUFS.
 */
int mpa_sock_place(struct socket *sock, bool on)
{
	int err = mpa_consumer_check(sock);

	return err ?: mpa_control_place(sock->sk, on);
}
EXPORT_SYMBOL_GPL(mpa_sock_place);

/* ---- sending and receiving ---- */

/* Update the user's state after a send that returned @err. */
static void mpa_consumer_sent(struct mpa_ctx *ctx, int err, u64 *end)
{
	struct mpa_consumer *user = ctx->consumer;

	user->sent = mpa_tx_position(&ctx->tx, user->sent);
	if (err >= 0 && end)
		*end = user->sent;
	if (err == -EAGAIN)
		user->wants_room = true;
	/* Let TCP call sk_write_space: on an ACK, or when there is room. */
	if (user->wants_room || user->upcalls->acked)
		mpa_tcp_want_writable(ctx->sk);
	if (mpa_tx_mulpdu_now(ctx) != user->mulpdu)
		mpa_schedule_work(ctx, 0);
}

/**
 * mpa_sock_send() - send a ULPDU, all of it or nothing
 * @sock:	the socket
 * @header:	first octets of the ULPDU; or NULL
 * @payload:	the octets after @header, in kernel or user memory; or NULL. When
 *		this function returns 0, the octets have been copied, and
 *		@payload is at its end
 * @flags:	MPA_SEND_MORE
 * @end:	set to the stream position after the ULPDU, for @acked of struct
 *		mpa_upcalls; or NULL
 *
 * Context: may wait for memory as sk_allocation allows, and as TCP does at the
 * limit of a memory control group. Does not wait for room in the send buffer.
 * Return: 0; -EAGAIN if there is no room, or a responder has not received the
 * first FPDU: retry in @writable of struct mpa_upcalls; -EMSGSIZE for 0 or more
 * than 64768 octets; -EFAULT; -EINVAL for an unknown flag; -EPIPE if sending has
 * ended, which @failed reports; -EBADMSG at a responder whose first received FPDU
 * was bad; -EBUSY if a program has begun a ULPDU with MSG_MORE; -ENOTCONN if
 * MPA has not been started.
 */
int mpa_sock_send(struct socket *sock, const struct kvec *header,
		  struct iov_iter *payload, unsigned int flags, u64 *end)
{
	struct mpa_tx_call call = {
		.segment = MPA_SEGMENT_OFF, .more = flags & MPA_SEND_MORE,
	};
	struct mpa_ctx *ctx;
	int err;

	if (flags & ~MPA_SEND_MORE)
		return -EINVAL;
	err = mpa_consumer_lock_attached(sock, &ctx);
	if (err)
		return err;
	if (header)
		call.header = *header;
	err = mpa_sendmsg_call(ctx, &call, payload);
	mpa_consumer_sent(ctx, err, end);
	release_sock(sock->sk);
	return err;
}
EXPORT_SYMBOL_GPL(mpa_sock_send);

/**
 * mpa_sock_send_cut() - send octets in ULPDUs that fill segments, each with its
 *                       own header
 * @sock:	the socket
 * @headers:	the headers
 * @payload:	1 to MPA_CUT_MAX octets, as for mpa_sock_send(); advanced past the
 *		octets that were sent
 * @flags:	MPA_SEND_MORE
 * @end:	set to the stream position after the last ULPDU; or NULL
 *
 * For a message longer than MULPDU this costs less than many calls of
 * mpa_sock_send(). A ULPDU may be longer than MULPDU, which assumes the most markers
 * in a segment.
 *
 * Context: as mpa_sock_send().
 * Return: the number of octets of @payload that were sent, in whole ULPDUs. If
 * octets are left, the next call returns the errno, mostly -EAGAIN. If nothing was
 * sent, this call returns the errno. -EMSGSIZE for 0 octets or more than
 * MPA_CUT_MAX; -EINVAL for a header longer than MPA_HEADER_MAX, or an unknown flag;
 * or as mpa_sock_send().
 */
int mpa_sock_send_cut(struct socket *sock, const struct mpa_headers *headers,
		      struct iov_iter *payload, unsigned int flags, u64 *end)
{
	struct mpa_tx_call call = {
		.segment = MPA_SEGMENT_FILL, .more = flags & MPA_SEND_MORE,
		.headers = headers,
	};
	u8 header[MPA_HEADER_MAX];
	struct mpa_ctx *ctx;
	int err;

	if (flags & ~MPA_SEND_MORE || headers->len > MPA_HEADER_MAX)
		return -EINVAL;
	err = mpa_consumer_lock_attached(sock, &ctx);
	if (err)
		return err;
	call.header = (struct kvec){ header, headers->len };
	err = mpa_sendmsg_call(ctx, &call, payload);
	mpa_consumer_sent(ctx, err, end);
	release_sock(sock->sk);
	return err ?: call.done;
}
EXPORT_SYMBOL_GPL(mpa_sock_send_cut);

/**
 * mpa_sock_resume() - deliver the deferred ULPDU, and the ULPDUs after it
 * @sock:	the socket, to which the user is attached
 *
 * A work item continues the upcalls soon. The upcall may call this even before it
 * returns -EAGAIN.
 *
 * Context: any. The caller keeps the socket from being released meanwhile.
 */
void mpa_sock_resume(struct socket *sock)
{
	mpa_set_pending(mpa_ctx(sock->sk), MPA_PENDING_RESUME);
}
EXPORT_SYMBOL_GPL(mpa_sock_resume);
