// SPDX-License-Identifier: GPL-2.0
/*
 * A context from its attachment on: MPA_START, the work item, close(2), and
 * what remains after that. mpa.h describes its lifetime.
 */

#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/net.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>
#include <net/sock.h>

#include "mpa_face.h"

/*
 * ---- sockets after close(2) ----
 *
 * Sockets are kept after close(2) while TCP has no memory for octets that were
 * accepted. They are neither TCP's orphans nor bound to an open file: nothing
 * else limits their number.
 */

/* The maximum number of sockets of one user, and of users */
#define MPA_LINGER_MAX		1024
#define MPA_LINGERERS		256

/* A user with closing sockets */
struct mpa_lingerer {
	const struct user_namespace *ns; /* of root; only compared; or NULL */
	kuid_t uid;
	u32 n; /* sockets */
};

static struct mpa_lingerer mpa_lingerers[MPA_LINGERERS];
static DEFINE_SPINLOCK(mpa_linger_lock);

/*
 * The user to whom the socket is charged is the one that opened it. In a user
 * namespace that an ordinary user created it is that user, for every uid there;
 * in one that root created each uid counts by itself.
 */
static struct mpa_lingerer mpa_linger_user(const struct sock *sk)
{
	struct mpa_lingerer user = { .uid = GLOBAL_ROOT_UID };
	const struct file *file = sk->sk_socket->file;
	const struct user_namespace *ns;

	if (!file)
		return user;
	user.uid = file->f_cred->euid;
	for (ns = file->f_cred->user_ns; ns->parent; ns = ns->parent) {
		user.uid = ns->owner;
		user.ns = uid_eq(ns->owner, GLOBAL_ROOT_UID) ? ns : NULL;
	}
	return user;
}

static struct mpa_lingerer *mpa_lingerer_find(const struct mpa_lingerer *user)
{
	struct mpa_lingerer *free = NULL, *lingerer;
	unsigned int i;

	for (i = 0; i < MPA_LINGERERS; i++) {
		lingerer = &mpa_lingerers[i];
		if (!lingerer->n)
			free = free ?: lingerer;
		else if (uid_eq(lingerer->uid, user->uid) &&
			 lingerer->ns == user->ns)
			return lingerer;
	}
	if (free)
		*free = *user;
	return free;
}

/* Count a socket. Return: false if its user has too many. */
static bool mpa_linger_enter(struct mpa_ctx *ctx)
{
	struct mpa_lingerer user = mpa_linger_user(ctx->sk), *lingerer;
	bool enters;

	spin_lock(&mpa_linger_lock);
	lingerer = mpa_lingerer_find(&user);
	enters = lingerer && lingerer->n < MPA_LINGER_MAX;
	if (enters) {
		lingerer->n++;
		ctx->lingerer = lingerer - mpa_lingerers;
	}
	spin_unlock(&mpa_linger_lock);
	return enters;
}

static void mpa_linger_leave(const struct mpa_ctx *ctx)
{
	spin_lock(&mpa_linger_lock);
	mpa_lingerers[ctx->lingerer].n--;
	spin_unlock(&mpa_linger_lock);
}

/* Keep a socket. Return: false if its user has too many, or without memory. */
static bool mpa_linger_begin(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;
	kuid_t uid = sk->sk_uid;
	struct socket *keeper;

	if (!mpa_linger_enter(ctx))
		return false;
	if (sock_create_lite(sk->sk_family, sk->sk_type, sk->sk_protocol,
			     &keeper)) {
		mpa_linger_leave(ctx);
		return false;
	}
	sock_graft(sk, keeper);
	WRITE_ONCE(sk->sk_uid, uid);
	ctx->linger = keeper;
	return true;
}

static void mpa_linger_free(struct mpa_ctx *ctx)
{
	struct socket *keeper = ctx->linger;

	keeper->sk = NULL;
	keeper->ops = NULL;
	sock_release(keeper);
}

/* ---- attaching ---- */

/* Fill in a new context for @sk; it is all zero so far. */
void mpa_ctx_setup(struct mpa_ctx *ctx, struct sock *sk)
{
	ctx->sk = sk;
	ctx->tcp.mib = mpa_stat_mib(sock_net(sk));
	ctx->tx.segment = MPA_SEGMENT_OFF;
	ctx->tx.packing = true;
	ctx->tx.oversize = true;
	INIT_DELAYED_WORK(&ctx->work, mpa_work);
}

/**
 * mpa_attach() - attach a context to its socket
 * @ctx:	the context
 * @ops:	what the struct socket has, or will have
 *
 * Context: process, socket lock held.
 * Return: 0, -ENOMEM, or -EBUSY if something else has hooked the socket.
 */
int mpa_attach(struct mpa_ctx *ctx, const struct proto_ops *ops)
{
	int err = mpa_conns_add(ctx) ?: mpa_hook_attach(ctx, ops);

	if (err)
		mpa_conns_remove(ctx);
	return err;
}

/* ---- from MPA_START to close(2) ---- */

/* Jiffies that accepted octets may wait for memory after close(2) */
#define MPA_LINGER_TIME		(60 * HZ)

static void mpa_ctx_free(struct mpa_ctx *ctx)
{
	mpa_tx_free(ctx);
	mpa_startup_free(ctx);
	kfree_rcu(ctx, rcu);
}

/**
 * mpa_start() - begin startup, or keep the parameters for accepted sockets
 * @ctx:	the context
 * @params:	what is asked for; taken over
 * @nonblock:	do not wait for the peer
 *
 * Context: process, socket lock held; it is dropped while waiting.
 * Return: 0, or as mpa_startup_prepare() or mpa_startup_begin().
 */
int mpa_start(struct mpa_ctx *ctx, struct mpa_params *params, bool nonblock)
{
	int err = mpa_startup_prepare(ctx, params, nonblock);

	if (err <= 0)
		goto no_start;
	if (mpa_startup_for_children(ctx->sk, params)) {
		mpa_startup_set_params(ctx, params);
		return 0;
	}
	/* A passthrough call under way would read or send octets unframed. */
	err = mpa_plain_close(ctx, MPA_DIR_BOTH);
	if (err)
		goto no_start;
	/* Softirq calls the callbacks of a listener without its lock. */
	if (mpa_tcp_has_listened(ctx->sk))
		synchronize_net();
	err = mpa_hook_callbacks(ctx);
	if (!err) {
		err = mpa_startup_begin(ctx, params, nonblock);
		params = NULL;
	}
	if (!mpa_started(ctx))
		mpa_plain_open(ctx, MPA_DIR_BOTH);
no_start:
	kfree(params);
	return err;
}

/* Release all that is ours; the caller calls TCP's own close next. */
static void mpa_leave(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;

	/* The work item may not have noticed a reset yet. */
	mpa_startup_notice_reset(ctx);
	ctx->life = MPA_LIFE_CLOSING;
	mpa_report_closed(ctx);
	mpa_conns_remove(ctx);
	/* The queued children move to another listener, or end. */
	if (mpa_tcp_listening(sk))
		ctx->table->base->disconnect(sk, 0);
	mpa_rx_discard(ctx);
	/* With octets unread or unsent, a FIN would be wrong: reset. */
	if (ctx->rx.cur.stash || mpa_tx_stuck(&ctx->tx))
		mpa_tcp_reset_on_close(sk);
	mpa_tx_drop(ctx);
	mpa_rx_free(ctx);
	mpa_startup_uncount(ctx);
	mpa_tcp_unwatch(sk);
	mpa_hook_detach(ctx);
}

/* TCP has taken everything, or waiting longer is useless. */
static bool mpa_life_linger_over(struct mpa_ctx *ctx)
{
	if (mpa_tcp_gone(ctx->sk) || time_after_eq(jiffies, ctx->deadline))
		return true;
	if (mpa_tx_push(ctx) == -EAGAIN)
		return false;
	if (!mpa_tcp_short_of_memory(ctx->sk))
		return true;
	mpa_schedule_work(ctx, MPA_RETRY_DELAY);
	return false;
}

static void mpa_send_fin(struct mpa_ctx *ctx)
{
	mpa_tcp_set_fin_aside(ctx->sk);
	ctx->table->base->shutdown(ctx->sk, SEND_SHUTDOWN);
}

/* For a closed socket. Return: whether the caller calls TCP's own close. */
static bool mpa_work_lingering(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;

	if (!mpa_life_linger_over(ctx))
		return false;
	mpa_linger_leave(ctx);
	mpa_rx_discard(ctx);
	/* Send the FIN now, while there is memory for it. */
	if (mpa_tcp_may_linger(sk) && !mpa_tx_stuck(&ctx->tx))
		mpa_send_fin(ctx);
	mpa_leave(ctx);
	return true;
}

/* For an open socket: do all pending work. */
static void mpa_work_due(struct mpa_ctx *ctx)
{
	int err = 0;

	mpa_startup_notice_reset(ctx);
	if (mpa_starting(ctx))
		err = mpa_startup_progress(ctx);
	if (err)
		mpa_startup_abort(ctx, err);
	if (ctx->state == MPA_STATE_FULL) {
		if (ctx->tx.rtr_due)
			mpa_tx_rtr(ctx);
		mpa_tx_retry(ctx);
		mpa_tx_end_batch(ctx, false);
		mpa_search_walk(ctx);
		if (mpa_format_on(&ctx->rx.format))
			mpa_rx_drain(ctx);
	}
	if (ctx->tx.end == MPA_TX_FIN_DUE && mpa_tx_push(ctx) != -EAGAIN) {
		ctx->tx.end = MPA_TX_FINISHED;
		mpa_send_fin(ctx);
	}
	if (unlikely(ctx->consumer))
		mpa_upcall(ctx);
}

/* Return: whether the caller calls TCP's own close. */
static bool mpa_work_locked(struct mpa_ctx *ctx)
{
	switch (ctx->life) {
	case MPA_LIFE_CLOSING:
		return false;
	case MPA_LIFE_LINGERING:
		return mpa_work_lingering(ctx);
	default:
		mpa_work_due(ctx);
		return false;
	}
}

/**
 * mpa_work() - the work item: all that must not be done in softirq
 * @work:	of struct mpa_ctx
 *
 * Context: process (workqueue).
 */
void mpa_work(struct work_struct *work)
{
	struct mpa_ctx *ctx = container_of(to_delayed_work(work),
					   struct mpa_ctx, work);
	struct sock *sk = ctx->sk;
	struct mem_cgroup *old;
	bool over;

	mpa_delay(MPA_POINT_WORK_BEGIN);
	/* A user may hold it for long, and one workqueue serves all sockets. */
	if (!mpa_tcp_try_lock(sk, &ctx->put_off))
		return;
	mpa_delay(MPA_POINT_WORK_LOCKED);
	/* Charge allocations to the socket's control group. */
	old = set_active_memcg(mem_cgroup_from_sk(sk));
	over = mpa_work_locked(ctx);
	set_active_memcg(old);
	mpa_delay(MPA_POINT_WORK_END);
	mpa_tcp_unlock(sk);
	mpa_delay(MPA_POINT_WORK_UNLOCKED);
	if (over) {
		/* Nothing queues it again: MPA_LIFE_CLOSING. */
		cancel_delayed_work(&ctx->work);
		ctx->table->base->close(sk, 0);
		mpa_linger_free(ctx);
		mpa_ctx_free(ctx);
	}
}

/*
 * After close(2) TCP still sends what it has taken, unless it uses too much
 * memory. So that octets that it has not taken are sent too, the socket is kept
 * and the work item hands them over.
 */
static bool mpa_life_linger(struct mpa_ctx *ctx)
{
	if (ctx->state != MPA_STATE_FULL || ctx->rx.cur.stash ||
	    !ctx->sk->sk_net_refcnt ||
	    !mpa_tcp_may_linger(ctx->sk) || !mpa_linger_begin(ctx))
		return false;
	ctx->life = MPA_LIFE_LINGERING;
	ctx->deadline = jiffies + MPA_LINGER_TIME;
	mpa_schedule_work(ctx, MPA_RETRY_DELAY);
	return true;
}

/*
 * A kernel socket (sock_create_kern()) holds no reference to its network
 * namespace, so TCP stops its timers on close: a lost segment or FIN would
 * never be sent again, and the socket and this module would stay for ever. A
 * socket kept here would have timers without a namespace. So take a reference,
 * as other sockets have; if the namespace is being destroyed, the socket ends
 * with it.
 */
static void mpa_life_keep_net(struct sock *sk)
{
	struct net *net = sock_net(sk);

	if (sk->sk_net_refcnt || !maybe_get_net(net))
		return;
	sk_net_refcnt_upgrade(sk);
	put_net(net);
}

/**
 * mpa_close() - the last reference to the socket's file is gone
 * @sk:		socket
 * @timeout:	jiffies to linger
 *
 * Context: process, socket lock not held.
 */
void mpa_close(struct sock *sk, long timeout)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	mpa_delay(MPA_POINT_CLOSE_BEGIN);
	lock_sock(sk);
	mpa_delay(MPA_POINT_CLOSE_LOCKED);
	WRITE_ONCE(ctx->was_kernel, ctx->consumer);
	mpa_upcall_leave(ctx);
	mpa_life_keep_net(sk);
	mpa_rx_discard(ctx);
	if (mpa_started(ctx) &&
	    (!mpa_sendmsg_finish(ctx, &timeout) ||
	     (!timeout && mpa_tcp_short_of_memory(sk))) &&
	    mpa_life_linger(ctx)) {
		release_sock(sk);
		return;
	}
	mpa_leave(ctx);
	mpa_delay(MPA_POINT_CLOSE_LEFT);
	release_sock(sk);
	/* sk_clone_lock() may be copying this socket, and needs its ULP. */
	if (mpa_tcp_has_listened(sk))
		synchronize_net();
	mpa_delay(MPA_POINT_CLOSE_UNLOCKED);

	cancel_delayed_work_sync(&ctx->work);
	mpa_delay(MPA_POINT_CLOSE_IDLE);
	ctx->table->base->close(sk, timeout);
	mpa_delay(MPA_POINT_CLOSE_BASE);
	mpa_ctx_free(ctx);
	mpa_delay(MPA_POINT_CLOSE_END);
}
