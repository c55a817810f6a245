// SPDX-License-Identifier: GPL-2.0
/* A context's life: attachment, MPA_START, the work item, close(2). See mpa.h. */

#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/sock.h>

#include "mpa_sock.h"

/* ---- attaching ---- */

/* Initialize a context, which is all zero. */
void mpa_ctx_setup(struct mpa_ctx *ctx, struct sock *sk)
{
	ctx->sk = sk;
	ctx->tcp.mib = mpa_stat_mib(sock_net(sk));
	ctx->tx.segment = MPA_SEGMENT_OFF;
	ctx->tx.options = BIT(MPA_PACKING) | BIT(MPA_OVERSIZE);
	INIT_DELAYED_WORK(&ctx->work, mpa_work);
}

/*
 * Attach a context to its socket. @ops: operations that the struct socket has, or will
 * have. Return: 0, -ENOMEM, or -EBUSY if others have hooked the socket.
 */
int mpa_attach(struct mpa_ctx *ctx, const struct proto_ops *ops)
{
	int err = mpa_conns_add(ctx) ?: mpa_hook_attach(ctx, ops);

	if (err)
		mpa_conns_remove(ctx);
	return err;
}

/* ---- from MPA_START to close(2) ---- */

static void mpa_ctx_free(struct mpa_ctx *ctx)
{
	mpa_tx_free(ctx);
	mpa_startup_free(ctx);
	kfree_rcu(ctx, rcu);
}

/*
 * Take over @params. Begin startup, or keep @params for accepted sockets. Context:
 * process, socket lock held; waiting drops it. Return: 0, or as mpa_startup_prepare()
 * or mpa_startup_begin().
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
	/* Fail during a passthrough call: it would read or send octets unframed. */
	err = mpa_plain_close(ctx, MPA_TX) ?: mpa_plain_close(ctx, MPA_RX);
	if (err)
		goto no_start;
	/* Wait for softirqs that call a listener's callbacks without its lock. */
	if (mpa_tcp_has_listened(ctx->sk))
		synchronize_net();
	err = mpa_hook_callbacks(ctx);
	if (!err) {
		err = mpa_startup_begin(ctx, params, nonblock);
		params = NULL;
	}
no_start:
	if (!mpa_started(ctx)) {
		mpa_plain_open(ctx, MPA_TX);
		mpa_plain_open(ctx, MPA_RX);
	}
	kfree(params);
	return err;
}

/* Release all that is ours, before TCP's own close. */
static void mpa_leave(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;

	ctx->closing = true;
	mpa_report_closed(ctx);
	mpa_conns_remove(ctx);
	/* Let TCP move the queued children to another listener, or end them. */
	if (mpa_tcp_listening(sk))
		ctx->table->base->disconnect(sk, 0);
	mpa_rx_discard(ctx);
	/* Send a RST, not a FIN, if octets are unread, or if accepted octets are lost. */
	if (ctx->rx.cur.stash || mpa_failed(ctx, MPA_TX))
		mpa_tcp_reset_on_close(sk);
	mpa_tx_drop(ctx);
	mpa_rx_free(ctx);
	mpa_startup_uncount(ctx);
	mpa_tcp_unwatch(sk);
	mpa_hook_detach(ctx);
}

static void mpa_work_due(struct mpa_ctx *ctx)
{
	/* Clear RESUME before ULPDUs are offered again, so that a later one is not lost. */
	if (atomic_fetch_andnot(MPA_PENDING_RESUME, &ctx->pending) &
	    MPA_PENDING_RESUME && ctx->consumer)
		ctx->consumer->paused = false;
	if (mpa_starting(ctx))
		mpa_startup_progress(ctx);
	if (ctx->state == MPA_STATE_FULL) {
		if (ctx->tx.rtr_due)
			mpa_tx_rtr(ctx);
		mpa_tx_retry(ctx);
		mpa_tx_end_batch(ctx, false);
		mpa_search_walk(ctx);
		if (mpa_format_on(&ctx->rx.format))
			mpa_rx_drain(ctx);
	}
	if (unlikely(ctx->consumer))
		mpa_upcall(ctx);
}

/* The work item. It does what must not be done in softirq. */
void mpa_work(struct work_struct *work)
{
	struct mpa_ctx *ctx = container_of(to_delayed_work(work),
					   struct mpa_ctx, work);
	struct sock *sk = ctx->sk;
	struct mem_cgroup *old;

	mpa_delay(MPA_POINT_WORK_BEGIN);
	/* Do not wait: a user may hold the lock for long, and one workqueue serves all sockets. */
	if (!mpa_tcp_try_lock(sk, &ctx->work_deferred))
		return;
	mpa_delay(MPA_POINT_WORK_LOCKED);
	/* Charge allocations to the socket's control group. */
	old = set_active_memcg(mem_cgroup_from_sk(sk));
	if (!ctx->closing)
		mpa_work_due(ctx);
	set_active_memcg(old);
	mpa_delay(MPA_POINT_WORK_END);
	mpa_tcp_unlock(sk);
	mpa_delay(MPA_POINT_WORK_UNLOCKED);
}

/*
 * Let a kernel socket (sock_create_kern()) hold a reference to its network namespace,
 * as other sockets do. Without the reference TCP stops its timers on close: a lost
 * segment or FIN would never be sent again, and the socket and this module would stay
 * forever. If the namespace is being destroyed, the socket ends with it.
 */
static void mpa_life_keep_net(struct sock *sk)
{
	struct net *net = sock_net(sk);

	if (sk->sk_net_refcnt || !maybe_get_net(net))
		return;
	sk_net_refcnt_upgrade(sk);
	put_net(net);
}

/* Close the socket: the last reference to its file is gone. */
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
	if (mpa_started(ctx))
		mpa_sendmsg_finish(ctx);
	mpa_leave(ctx);
	mpa_delay(MPA_POINT_CLOSE_LEFT);
	release_sock(sk);
	/* Wait for sk_clone_lock(), which may be copying this socket, and needs its ULP. */
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
