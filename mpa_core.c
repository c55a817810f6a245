// SPDX-License-Identifier: GPL-2.0
/*
 * Marker PDU Aligned framing (RFC 5044) as an upper-layer protocol of TCP: the
 * module, the life of a context, and what happens to it outside system calls.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "mpa.h"

/* How long what was accepted may wait for memory after close(2). */
#define MPA_LINGER_TIME		(60 * HZ)

static struct workqueue_struct *mpa_wq;

/* Shows whether it is so: N also if the processor or a check says no. */
static bool mpa_crc_lockstep __ro_after_init = true;
module_param_named(crc_lockstep, mpa_crc_lockstep, bool, 0444);
MODULE_PARM_DESC(crc_lockstep,
		 "compute CRCs of three FPDUs side by side where the processor has an instruction for it; N: use the kernel's CRC alone");

/**
 * mpa_schedule_work() - have the work item run
 * @ctx:	the context
 * @delay:	jiffies from now, at the latest
 *
 * Context: any, socket lock held.
 */
void mpa_schedule_work(struct mpa_ctx *ctx, unsigned long delay)
{
	struct delayed_work *work = &ctx->work;

	if (ctx->closing)
		return;
	/* It does all that is to be done: who waits less waits for others too */
	if (!delayed_work_pending(work) ||
	    (timer_pending(&work->timer) &&
	     time_before(jiffies + delay, work->timer.expires)))
		mod_delayed_work(mpa_wq, work, delay);
}

/**
 * mpa_schedule_work_of() - have another socket's work item run
 * @ctx:	its context, which does not go meanwhile
 *
 * Its owner may be about to put it off, and has to look again after that.
 *
 * Context: any.
 */
void mpa_schedule_work_of(struct mpa_ctx *ctx)
{
	mod_delayed_work(mpa_wq, &ctx->work, 0);
}

static void mpa_ctx_free(struct mpa_ctx *ctx)
{
	mpa_tx_free(ctx);
	mpa_startup_free(ctx);
	kfree_rcu(ctx, rcu);
}

/* TCP's own close comes next. */
static void mpa_leave(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;

	ctx->closing = true;
	if (mpa_tcp_listening(sk))
		mpa_ops_stop_listening(ctx);
	mpa_rx_discard(ctx);
	/*
	 * Octets read out of TCP's queue and not by the user are unread data;
	 * and without all that was accepted the end would not be a good one.
	 */
	if (ctx->rx.stash || mpa_tx_stuck(&ctx->tx))
		mpa_tcp_reset_on_close(sk);
	mpa_tx_drop(ctx);
	mpa_rx_free(ctx);
	mpa_startup_uncount(ctx);
	mpa_tcp_unwatch(sk);
	mpa_hook_detach(ctx);
}

/* Whether a socket that lingers need not do so any longer. */
static bool mpa_linger_over(struct mpa_ctx *ctx)
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

static void mpa_send_fin(struct sock *sk)
{
	mpa_tcp_set_fin_aside(sk);
	mpa_ops_base_shutdown(sk, SEND_SHUTDOWN);
}

/* For a socket that was closed: whether it need not be waited for any more */
static bool mpa_work_linger_over(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;

	if (!mpa_linger_over(ctx))
		return false;
	mpa_linger_leave(ctx);
	mpa_rx_discard(ctx);
	/* Now, as the memory for it may not stay. */
	if (mpa_tcp_may_linger(sk) && !mpa_tx_stuck(&ctx->tx))
		mpa_send_fin(sk);
	mpa_leave(ctx);
	return true;
}

/* Everything that arriving octets ask for and softirq must not do. */
static void mpa_work(struct work_struct *work)
{
	struct mpa_ctx *ctx = container_of(to_delayed_work(work),
					   struct mpa_ctx, work);
	struct sock *sk = ctx->sk;
	struct mem_cgroup *old;
	bool over = false;
	int err = 0;

	mpa_delay(MPA_POINT_WORK_BEGIN);
	/* One workqueue serves all sockets: no user's lock is waited for. */
	if (!mpa_tcp_try_lock(sk, &ctx->put_off))
		return;
	mpa_delay(MPA_POINT_WORK_LOCKED);
	/* What is allocated here is not the kworker's. */
	old = set_active_memcg(mem_cgroup_from_sk(sk));
	/* Nobody has accepted it: release_cb lets the work item run then. */
	if (ctx->closing || (ctx->unaccepted && !sk->sk_socket))
		goto out;
	if (ctx->linger) {
		over = mpa_work_linger_over(ctx);
		goto out;
	}
	mpa_startup_notice_reset(ctx);
	if (ctx->unaccepted && ctx->state == MPA_STATE_STARTUP)
		mpa_startup_accepted(ctx);
	ctx->unaccepted = false;
	mpa_hook_adopt(ctx);
	if (mpa_starting(ctx))
		err = mpa_startup_progress(ctx);
	if (err)
		mpa_startup_abort(ctx, err);
	if (ctx->state == MPA_STATE_FULL) {
		if (ctx->tx.rtr_due)
			mpa_tx_rtr(ctx);
		mpa_tx_retry(ctx);
		mpa_tx_end_batch(ctx, false);
		mpa_rx_drain(ctx);
	}
	if (ctx->tx.fin_due && mpa_tx_push(ctx) != -EAGAIN) {
		ctx->tx.fin_due = false;
		mpa_send_fin(sk);
	}
out:
	set_active_memcg(old);
	mpa_delay(MPA_POINT_WORK_END);
	mpa_tcp_unlock(sk);
	mpa_delay(MPA_POINT_WORK_UNLOCKED);
	if (over) {
		/* From here on nobody arms it again. */
		cancel_delayed_work(&ctx->work);
		mpa_ops_base_close(ctx->table, sk, 0);
		mpa_hook_free_keeper(ctx->linger);
		mpa_ctx_free(ctx);
	}
}

/**
 * mpa_data_ready() - octets in order, or the peer's FIN, have arrived
 * @sk:	socket
 *
 * Context: softirq or process (backlog), socket lock held.
 */
void mpa_data_ready(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	if (!ctx)
		return;
	switch (ctx->state) {
	case MPA_STATE_STARTUP:
		mpa_tcp_forget_urgent(sk);
		mpa_startup_heard(ctx);
		mpa_schedule_work(ctx, 0);
		break;
	case MPA_STATE_REQUESTED:
		mpa_tcp_forget_urgent(sk);
		/* Octets would be too early. */
		mpa_schedule_work(ctx, 0);
		ctx->data_ready(sk);
		break;
	case MPA_STATE_FULL:
		mpa_rx_arrived(ctx);
		if (ctx->rx.ready)
			ctx->data_ready(sk);
		else
			mpa_tcp_acknowledge(sk);
		break;
	default:
		ctx->data_ready(sk);
	}
}

/**
 * mpa_write_space() - octets have left the send buffer
 * @sk:	socket
 *
 * Context: softirq or process, socket lock held.
 */
void mpa_write_space(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	if (!ctx)
		return;
	mpa_tx_write_space(ctx);
}

/**
 * mpa_state_change() - the state of the connection has changed
 * @sk:	socket
 *
 * A reset during startup is noticed at once: nothing else would tell before
 * the deadline, and the connection would count as one in startup.
 *
 * Context: softirq or process, socket lock held.
 */
void mpa_state_change(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	if (!ctx)
		return;
	if (mpa_starting(ctx) && mpa_tcp_gone(sk))
		mpa_startup_reset_came(ctx);
	mpa_ops_base_state_change(ctx);
}

/* A responder may not send yet, but may so later. */
static bool mpa_poll_first(const struct mpa_ctx *ctx)
{
	return !READ_ONCE(ctx->may_send) && !READ_ONCE(ctx->rx.error) &&
	       !mpa_tcp_peer_left(ctx->sk);
}

/**
 * mpa_poll_mask() - what poll(2) shall say
 * @ctx:	the context
 * @state:	the state that @mask was asked for in; whoever leaves it later
 *		wakes the poller
 * @mask:	what TCP says
 *
 * Context: process, socket lock not held.
 */
__poll_t mpa_poll_mask(const struct mpa_ctx *ctx, u8 state, __poll_t mask)
{
	const __poll_t in = EPOLLIN | EPOLLRDNORM;
	const __poll_t out = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
	/* Startup is over, only nobody has noticed yet. */
	bool over = mpa_tcp_gone(ctx->sk);
	/* mpa_startup_abort() is at it: the errno is not in place yet. */
	bool failing = READ_ONCE(ctx->startup_error);

	switch (state) {
	case MPA_STATE_STARTUP:
		if (failing)
			mask = 0;
		else if (!over)
			mask &= ~(in | out);
		break;
	case MPA_STATE_REQUESTED:
		/* MPA_PEER tells what was requested, or replied. */
		mask |= in;
		if (failing)
			mask = 0;
		else if (!over)
			mask &= ~out;
		break;
	case MPA_STATE_FULL:
		/* It has been begun, and the rest needs no more room. */
		if (mpa_tx_open(&ctx->tx))
			mask |= out;
		/* TCP may just be about to be told that it is none. */
		mask &= ~EPOLLPRI;
		if (READ_ONCE(ctx->rx.ready))
			mask |= in;
		else if (!mpa_tcp_input_ended(ctx->sk))
			mask &= ~in;
		/* A send that can only fail does not wait either. */
		if (READ_ONCE(ctx->sk->sk_shutdown) & SEND_SHUTDOWN)
			break;
		if (mpa_poll_first(ctx) || mpa_tx_stuck(&ctx->tx) ||
		    READ_ONCE(ctx->tx.starved))
			mask &= ~out;
		break;
	default:
		break;
	}
	return mask;
}

static void mpa_ctx_setup(struct mpa_ctx *ctx, struct sock *sk)
{
	ctx->sk = sk;
	ctx->tx.segment = MPA_SEGMENT_OFF;
	ctx->tx.packing = true;
	ctx->tx.oversize = true;
	INIT_DELAYED_WORK(&ctx->work, mpa_work);
}

static int mpa_init(struct sock *sk)
{
	struct mpa_ctx *ctx;
	int err;

	if (mpa_tcp_listening(sk))
		return -EINVAL;
	mpa_delay(MPA_POINT_INIT_BEGIN);
	if (!mpa_tcp_may_attach(sk))
		return -ENOTCONN;
	if (mpa_tcp_has_listened(sk))
		synchronize_net();

	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	if (!ctx)
		return -ENOMEM;
	mpa_ctx_setup(ctx, sk);

	err = mpa_hook_attach(ctx);
	if (err)
		kfree(ctx);
	mpa_delay(MPA_POINT_INIT_END);
	return err;
}

static struct mpa_ctx *mpa_clone_ctx(const struct mpa_ctx *listener,
				     struct sock *child, gfp_t priority)
{
	struct mpa_params *params, *copy = NULL;
	struct mpa_ctx *ctx;

	ctx = kzalloc(sizeof(*ctx), priority);
	if (!ctx)
		return NULL;
	mpa_ctx_setup(ctx, child);
	mpa_tx_inherit(&ctx->tx, &listener->tx);
	ctx->rx.info = READ_ONCE(listener->rx.info);
	ctx->rx.batch = READ_ONCE(listener->rx.batch);

	ctx->unaccepted = true;
	params = rcu_dereference(listener->params);
	if (!params)
		return ctx;
	copy = kmemdup(params, struct_size(params, private,
					   params->private_len), priority);
	if (!copy) {
		kfree(ctx);
		return NULL;
	}
	mpa_startup_inherit(ctx, copy);
	return ctx;
}

/*
 * Nobody has accepted the child yet: it is the listener's control group that has
 * asked for it.
 */
static struct mpa_ctx *mpa_clone_charged(const struct mpa_ctx *listener,
					 struct sock *child, gfp_t priority)
{
	struct mem_cgroup *old;
	struct mpa_ctx *ctx;

	old = set_active_memcg(mem_cgroup_from_sk(listener->sk));
	ctx = mpa_clone_ctx(listener, child, priority | __GFP_ACCOUNT);
	set_active_memcg(old);
	return ctx;
}

/*
 * TCP has made a child of a listening socket, a copy of it, context pointer
 * and all. The listener is not locked, and may be closing.
 */
static void mpa_clone(const struct request_sock *req, struct sock *child,
		      const gfp_t priority)
{
	struct inet_connection_sock *icsk = inet_csk(child);
	struct mpa_ctx *listener, *ctx = NULL;

	/* tcp_cleanup_ulp() gives it back. The listener may have done so. */
	if (!try_module_get(THIS_MODULE)) {
		icsk->icsk_ulp_ops = NULL;
		RCU_INIT_POINTER(icsk->icsk_ulp_data, NULL);
		return;
	}

	mpa_delay(MPA_POINT_CLONE_BEGIN);
	rcu_read_lock();
	listener = rcu_dereference_raw(icsk->icsk_ulp_data);
	if (listener)
		ctx = mpa_clone_charged(listener, child, priority);
	mpa_delay(MPA_POINT_CLONE_CTX);
	if (!mpa_hook_clone(child, ctx)) {
		if (ctx)
			mpa_ctx_free(ctx);
		/* It may move to another listener: with nothing of ours. */
		icsk->icsk_ulp_ops = NULL;
		/* The text stays for the grace period in mpa_module_exit(). */
		module_put(THIS_MODULE);
	}
	rcu_read_unlock();
	mpa_delay(MPA_POINT_CLONE_END);
}

/* TCP destroys the socket. Without a close before, it was never accepted. */
static void mpa_release(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	mpa_delay(MPA_POINT_RELEASE);
	mpa_hook_forget(sk);
	if (!ctx)
		return;
	mpa_rx_free(ctx);
	mpa_ctx_free(ctx);
}

/*
 * TCP lets what it has taken go out after close(2), unless it uses too much
 * memory. What it has not taken yet does, too, and what is too much as a record
 * is more than a packet: the work item sees to it.
 */
static bool mpa_linger(struct mpa_ctx *ctx)
{
	if (ctx->state != MPA_STATE_FULL || ctx->rx.stash ||
	    !mpa_tcp_may_linger(ctx->sk))
		return false;
	if (!mpa_linger_enter(ctx))
		return false;
	if (!mpa_hook_keep(ctx)) {
		mpa_linger_leave(ctx);
		return false;
	}
	ctx->deadline = jiffies + MPA_LINGER_TIME;
	mpa_schedule_work(ctx, MPA_RETRY_DELAY);
	return true;
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

	mpa_hook_hold_text(sk);
	if (!ctx) {
		mpa_ops_base_close(NULL, sk, timeout);
		return;
	}

	mpa_delay(MPA_POINT_CLOSE_BEGIN);
	lock_sock(sk);
	mpa_delay(MPA_POINT_CLOSE_LOCKED);
	mpa_rx_discard(ctx);
	if (mpa_started(ctx) &&
	    (!mpa_tx_finish(ctx, &timeout) ||
	     (!timeout && mpa_tcp_short_of_memory(sk))) &&
	    mpa_linger(ctx)) {
		release_sock(sk);
		return;
	}
	mpa_leave(ctx);
	mpa_delay(MPA_POINT_CLOSE_LEFT);
	release_sock(sk);
	mpa_delay(MPA_POINT_CLOSE_UNLOCKED);

	cancel_delayed_work_sync(&ctx->work);
	mpa_delay(MPA_POINT_CLOSE_IDLE);
	mpa_ops_base_close(ctx->table, sk, timeout);
	mpa_delay(MPA_POINT_CLOSE_BASE);
	mpa_ctx_free(ctx);
	mpa_delay(MPA_POINT_CLOSE_END);
}

static struct tcp_ulp_ops mpa_ulp_ops __read_mostly = {
	.name	= "mpa",
	.owner	= THIS_MODULE,
	.init	= mpa_init,
	.release = mpa_release,
	.clone	= mpa_clone,
};

static void __init mpa_begin_crc(void)
{
	if (mpa_crc_lockstep && !mpa_crc3_init())
		pr_warn("CRCs of three FPDUs side by side are not the kernel's: its own is used\n");
	mpa_crc_lockstep = mpa_crc3_on;
}

static int __init mpa_module_init(void)
{
	int err;

	err = mpa_pages_init();
	if (err)
		return err;

	err = mpa_compat_init();
	if (err)
		goto no_compat;
	mpa_begin_crc();

	err = -ENOMEM;
	mpa_wq = alloc_workqueue("mpa", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!mpa_wq)
		goto no_wq;

	err = mpa_policy_init();
	if (err)
		goto no_policy;

	err = mpa_stat_init();
	if (err)
		goto no_stat;

	err = tcp_register_ulp(&mpa_ulp_ops);
	if (err)
		goto no_ulp;
	return 0;

no_ulp:
	mpa_stat_exit();
no_stat:
	mpa_policy_exit();
no_policy:
	destroy_workqueue(mpa_wq);
no_wq:
	mpa_compat_exit();
no_compat:
	mpa_pages_exit();
	return err;
}

static void __exit mpa_module_exit(void)
{
	tcp_unregister_ulp(&mpa_ulp_ops);
	mpa_stat_exit();
	mpa_policy_exit();
	destroy_workqueue(mpa_wq);
	mpa_hook_exit();
	mpa_pages_exit();
	mpa_compat_exit();
	/* Contexts on their way to kfree_rcu() need nothing of the module. */
}

module_init(mpa_module_init);
module_exit(mpa_module_exit);

MODULE_DESCRIPTION("Marker PDU Aligned framing for TCP (RFC 5044)");
MODULE_LICENSE("GPL");
MODULE_ALIAS_TCP_ULP("mpa");
MODULE_SOFTDEP("pre: crc32c");
