// SPDX-License-Identifier: GPL-2.0
/*
 * What a user inside the kernel calls: see include/net/mpa.h. What he is told is
 * in mpa_consumer_upcall.c.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/export.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/uio.h>
#include <net/mpa.h>

#include "mpa_face.h"

/* The caller is in an upcall of this socket, which is under the socket lock. */
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
 * Take the socket lock for a user who has attached, or will. Upcalls are under
 * it: from one of them this would wait for itself. Inlined, for the warning to name
 * the user.
 */
static __always_inline int mpa_consumer_lock(struct socket *sock,
					     struct mpa_ctx **ctx)
{
	struct sock *sk = sock->sk;

	if (!mpa_hook_ours(sk))
		return -ENOTCONN;
	*ctx = mpa_ctx(sk);
	if (!in_task() || mpa_consumer_upcalled(*ctx)) {
		pr_warn_ratelimited("called from an upcall, which must not be, by %pS\n",
				    __builtin_return_address(0));
		return -EDEADLK;
	}
	lock_sock(sk);
	return 0;
}

/* As mpa_consumer_lock(), and he has attached. */
static __always_inline int mpa_consumer_lock_his(struct socket *sock,
						 struct mpa_ctx **ctx)
{
	int err = mpa_consumer_lock(sock, ctx);

	if (err || (*ctx)->consumer)
		return err;
	release_sock(sock->sk);
	return -ENOTCONN;
}

/* The same for what takes the lock itself. */
static __always_inline int mpa_consumer_may(struct socket *sock)
{
	struct mpa_ctx *ctx;
	int err;

	err = mpa_consumer_lock(sock, &ctx);
	if (!err)
		release_sock(sock->sk);
	return err;
}

/* ---- attaching ---- */

static void mpa_consumer_join(struct mpa_ctx *ctx, struct mpa_consumer *user)
{
	user->edge = ctx->rx.cur.pos;
	/* What is not acknowledged may be the startup frame: less than 0. */
	user->acked = (u64)ctx->tx.pos - (u32)(ctx->tx.pos - mpa_tx_acked(ctx));
	user->sent = ctx->tx.pos;
	WRITE_ONCE(ctx->consumer, user);
	ctx->wake = &mpa_upcall_wake;
	/* What there is already. */
	if (!mpa_tcp_listening(ctx->sk))
		mpa_schedule_work(ctx, 0);
}

/**
 * mpa_sock_attach() - have MPA on a socket of one's own, and be told
 * @sock:	a connected TCP socket; or one that will listen, whose children are
 *		MPA's then, and are each attached to when they have been
 *		accepted
 * @upcalls:	what to be told; they stay as they are until the user has
 *		detached
 * @priv:	their first argument
 * @gfp:	how to allocate what the user himself needs; what MPA needs for the
 *		socket is allocated with GFP_KERNEL
 *
 * If startup is under way or over, as it may be on a socket that a listening one
 * has accepted, that is told soon.
 *
 * Context: process, socket lock not held.
 * Return: 0; -EINVAL without @upcalls->ulpdu, or on a socket that listens already;
 * -EOPNOTSUPP if it is not TCP's; -ENOTCONN, -EEXIST if it has another upper-layer
 * protocol, -EBUSY if it has a user, or is hooked by somebody else, -ENODEV if
 * @upcalls->owner is about to go, -ENOMEM; -EDEADLK in an upcall.
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
		/* Or somebody else has done so just now. */
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
 * mpa_sock_detach() - be told no more
 * @sock:	the socket
 *
 * It stays what it is: a socket with MPA, for another to attach to, or to release.
 * What the user has not taken waits for who comes next; a program that waits for it
 * already is woken.
 *
 * Context: process, socket lock not held; not in an upcall. Upcalls may be under way
 * on another processor: this waits for them.
 * Return: 0: no upcall is under way, and none comes; -ENOTCONN if the user had not
 * attached; -EDEADLK in an upcall.
 */
int mpa_sock_detach(struct socket *sock)
{
	struct mpa_ctx *ctx;
	int err;

	err = mpa_consumer_lock_his(sock, &ctx);
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

/* ---- startup, and what is known ---- */

/**
 * mpa_sock_start() - start MPA, as with the socket option MPA_START
 * @sock:	the socket
 * @start:	how
 * @wait:	an initiator waits for the reply, for no longer than SO_SNDTIMEO says.
 *		If it does not, and otherwise: @state of struct mpa_upcalls tells
 *
 * With MPA_ROLE_DIRECT startup has been done elsewhere: Full Operation begins with
 * the next octet.
 *
 * Context: process, socket lock not held.
 * Return: 0; -EINPROGRESS without @wait; else as MPA_START; -EDEADLK in an upcall.
 */
int mpa_sock_start(struct socket *sock, const struct mpa_start *start,
		   bool wait)
{
	int err = mpa_consumer_may(sock);

	return err ?: mpa_control_start(sock->sk, start, MPA_PRIVATE_DATA_MAX,
					!wait);
}
EXPORT_SYMBOL_GPL(mpa_sock_start);

/**
 * mpa_sock_accept() - with MPA_START_MANUAL: accept the peer's request, or reply
 * @sock:	the socket, in MPA_STATE_REQUESTED
 * @reply:	private data, IRD and ORD of a responder; NULL: those of
 *		mpa_sock_start()
 *
 * Context: process, socket lock not held.
 * Return: as MPA_ACCEPT; -EDEADLK in an upcall.
 */
int mpa_sock_accept(struct socket *sock, const struct mpa_reply *reply)
{
	int err = mpa_consumer_may(sock);

	return err ?: mpa_control_decide(sock->sk, reply, MPA_PRIVATE_DATA_MAX,
					 false);
}
EXPORT_SYMBOL_GPL(mpa_sock_accept);

/**
 * mpa_sock_reject() - with MPA_START_MANUAL: reject it
 * @sock:	the socket, in MPA_STATE_REQUESTED
 * @reply:	as mpa_sock_accept()
 *
 * Context: process, socket lock not held.
 * Return: as MPA_REJECT; -EDEADLK in an upcall.
 */
int mpa_sock_reject(struct socket *sock, const struct mpa_reply *reply)
{
	int err = mpa_consumer_may(sock);

	return err ?: mpa_control_decide(sock->sk, reply, MPA_PRIVATE_DATA_MAX,
					 true);
}
EXPORT_SYMBOL_GPL(mpa_sock_reject);

/* The context of a user who is in an upcall, or NULL. */
static struct mpa_ctx *mpa_consumer_inside(struct socket *sock)
{
	struct mpa_ctx *ctx = mpa_hook_ours(sock->sk) ? mpa_ctx(sock->sk) : NULL;

	return ctx && mpa_consumer_upcalled(ctx) ? ctx : NULL;
}

/**
 * mpa_sock_peer() - what the peer's startup frame has said
 * @sock:	the socket
 * @peer:	filled in
 *
 * Context: process, socket lock not held; or in an upcall.
 * Return: 0; -ENODATA if there is none yet.
 */
int mpa_sock_peer(struct socket *sock, struct mpa_peer *peer)
{
	struct mpa_ctx *ctx = mpa_consumer_inside(sock);
	int err;

	if (ctx)
		return mpa_control_peer_fill(ctx, peer);
	err = mpa_consumer_may(sock);
	return err ?: mpa_control_peer(sock->sk, peer);
}
EXPORT_SYMBOL_GPL(mpa_sock_peer);

/**
 * mpa_sock_info() - state, parameters and counters
 * @sock:	the socket
 * @info:	filled in
 *
 * Context: process, socket lock not held; or in an upcall.
 * Return: 0; -ENOTCONN without MPA, -ENOMEM.
 */
int mpa_sock_info(struct socket *sock, struct mpa_info *info)
{
	struct mpa_ctx *ctx = mpa_consumer_inside(sock);
	int err;

	if (ctx) {
		mpa_control_info_fill(ctx, info);
		return 0;
	}
	err = mpa_consumer_may(sock);
	if (!err)
		mpa_control_info(sock->sk, info);
	return err;
}
EXPORT_SYMBOL_GPL(mpa_sock_info);

/**
 * mpa_sock_place() - have ULPDUs out of order, or no longer: MPA_PLACE
 * @sock:	the socket
 * @on:		whether
 *
 * Context: process, socket lock not held.
 * Return: 0; -EINVAL without markers and CRCs in this direction; -ENOBUFS;
 * -EDEADLK in an upcall.
 */
int mpa_sock_place(struct socket *sock, bool on)
{
	int err = mpa_consumer_may(sock);

	return err ?: mpa_control_place(sock->sk, on);
}
EXPORT_SYMBOL_GPL(mpa_sock_place);

/* ---- sending and receiving ---- */

/* A call has sent ULPDUs, or not. */
static void mpa_consumer_sent(struct mpa_ctx *ctx, int err, u64 *end)
{
	struct mpa_consumer *user = ctx->consumer;

	user->sent = mpa_tx_position(&ctx->tx, user->sent);
	if (err >= 0 && end)
		*end = user->sent;
	if (err == -EAGAIN)
		user->wants_room = true;
	/* ACKs are told by sk_write_space, as room is. */
	if (user->wants_room || user->upcalls->acked)
		mpa_tcp_want_writable(ctx->sk);
	if (mpa_tx_mulpdu_now(ctx) != user->mulpdu)
		mpa_schedule_work(ctx, 0);
}

/**
 * mpa_sock_send() - send a ULPDU
 * @sock:	the socket
 * @header:	its first octets; or NULL
 * @payload:	and those behind them, of kernel memory or a user's; or NULL. When
 *		this returns 0 they have been copied, and @payload is at its end
 * @flags:	MPA_SEND_MORE
 * @end:	set to the stream position behind it, which @acked of
 *		struct mpa_upcalls will reach; or NULL
 *
 * It is sent whole, or not at all.
 *
 * Context: process, socket lock not held; it may wait for memory as sk_allocation
 * allows, and as TCP does at the limit of a memory control group, but not for room.
 * Return: 0; -EAGAIN: there is no room, or a responder has not got the first FPDU:
 * @writable of struct mpa_upcalls tells when to try again; -EMSGSIZE for 0 or more
 * than 64768 octets; -EFAULT; -EINVAL for a flag that there is not; -EPIPE:
 * nothing can be sent any more, @failed has told or will tell why; -EBADMSG: a
 * responder may send nothing, as its first FPDU was bad; -EBUSY: a program has begun a
 * ULPDU with MSG_MORE; -ENOTCONN if MPA has not been started; -EDEADLK in an upcall.
 */
int mpa_sock_send(struct socket *sock, const struct kvec *header,
		  struct iov_iter *payload, unsigned int flags, u64 *end)
{
	struct mpa_ctx *ctx;
	int err;

	if (flags & ~MPA_SEND_MORE)
		return -EINVAL;
	err = mpa_consumer_lock_his(sock, &ctx);
	if (err)
		return err;
	err = mpa_sendmsg_record(ctx, header, payload, flags & MPA_SEND_MORE);
	mpa_consumer_sent(ctx, err, end);
	release_sock(sock->sk);
	return err;
}
EXPORT_SYMBOL_GPL(mpa_sock_send);

/**
 * mpa_sock_send_cut() - send octets in ULPDUs that fill segments, each with a header
 * @sock:	the socket
 * @headers:	the headers
 * @payload:	the octets: 1 to MPA_CUT_MAX, as for mpa_sock_send(); moved on behind
 *		those that were sent
 * @flags:	MPA_SEND_MORE
 * @end:	set to the stream position behind the last ULPDU; or NULL
 *
 * For messages that are longer than MULPDU, with less work than a call of
 * mpa_sock_send() for each ULPDU. One may be longer than MULPDU where fewer markers than
 * that reckons with fall into its segment.
 *
 * Context: as mpa_sock_send().
 * Return: how many octets of @payload were sent, in whole ULPDUs. The errno for the
 * rest, -EAGAIN mostly, is found by sending that; so it is if none was sent.
 * -EMSGSIZE for 0 octets or more than MPA_CUT_MAX; -EINVAL for a longer header than
 * MPA_HEADER_MAX, or a flag that there is not; else as mpa_sock_send().
 */
int mpa_sock_send_cut(struct socket *sock, const struct mpa_headers *headers,
		      struct iov_iter *payload, unsigned int flags, u64 *end)
{
	struct mpa_ctx *ctx;
	int err;

	if (flags & ~MPA_SEND_MORE || headers->len > MPA_HEADER_MAX)
		return -EINVAL;
	err = mpa_consumer_lock_his(sock, &ctx);
	if (err)
		return err;
	err = mpa_sendmsg_cut(ctx, headers, payload, flags & MPA_SEND_MORE);
	mpa_consumer_sent(ctx, err, end);
	release_sock(sock->sk);
	return err;
}
EXPORT_SYMBOL_GPL(mpa_sock_send_cut);

/**
 * mpa_sock_resume() - have the ULPDU again that was put off, and those behind it
 * @sock:	the socket, attached to
 *
 * Upcalls go on soon, from a work item. In front of -EAGAIN of the upcall, but in
 * it, is early enough.
 *
 * Context: any. The socket is not released meanwhile.
 */
void mpa_sock_resume(struct socket *sock)
{
	struct mpa_consumer *user;

	rcu_read_lock();
	user = READ_ONCE(mpa_ctx(sock->sk)->consumer);
	if (user) {
		atomic_inc(&user->resumes);
		/* In front of queueing: mpa_schedule_work() looks behind it. */
		smp_mb__after_atomic();
		mpa_schedule_work_of(sock->sk);
	}
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(mpa_sock_resume);
