// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of a connection's state, failures of a direction or of startup,
 * waking the user, queueing the work item.
 */

#include "mpa.h"

/* ---- the work item ---- */

static struct workqueue_struct *mpa_wq;

int __init mpa_work_init(void)
{
	mpa_wq = alloc_workqueue("mpa", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return mpa_wq ? 0 : -ENOMEM;
}

void mpa_work_exit(void)
{
	destroy_workqueue(mpa_wq);
}

/**
 * mpa_schedule_work() - queue the work item
 * @ctx:	the context
 * @delay:	jiffies from now, at the latest
 *
 * One work item does all pending work. So it is only ever moved to an earlier
 * time.
 *
 * Context: any, socket lock held.
 */
void mpa_schedule_work(struct mpa_ctx *ctx, unsigned long delay)
{
	struct delayed_work *work = &ctx->work;

	if (ctx->closing)
		return;
	if (!delayed_work_pending(work) ||
	    (timer_pending(&work->timer) &&
	     time_before(jiffies + delay, work->timer.expires)))
		mod_delayed_work(mpa_wq, work, delay);
	/* mpa_set_pending() may have been called just before. */
	if (delay && atomic_read(&ctx->pending))
		mod_delayed_work(mpa_wq, work, 0);
}

/**
 * mpa_set_pending() - queue the work item without the lock
 * @ctx:	the context; it stays attached meanwhile
 * @what:	what it has to do
 *
 * A lock holder that moves the work item to a later time checks @ctx->pending
 * after that.
 *
 * Context: any.
 */
void mpa_set_pending(struct mpa_ctx *ctx, enum mpa_pending what)
{
	atomic_or(what, &ctx->pending);
	smp_mb__after_atomic(); /* with mpa_schedule_work() */
	mod_delayed_work(mpa_wq, &ctx->work, 0);
}

/* ---- state ---- */

/**
 * mpa_set_state() - change the state
 * @ctx:	the context
 * @state:	the state
 *
 * If poll(2) reports more in the new state than in the old one, the caller wakes
 * the user afterwards.
 *
 * Context: any, socket lock held; or nobody else knows @ctx.
 */
void mpa_set_state(struct mpa_ctx *ctx, enum mpa_state state)
{
	u8 old = ctx->state;

	/* A new startup: report its result even if that is the state reported last. */
	if (ctx->consumer && state == MPA_STATE_STARTUP)
		ctx->consumer->state = state;
	/* Pairs with mpa_poll_state(): a reader of the state sees all that was written before. */
	smp_store_release(&ctx->state, state);
	if (!mpa_started(ctx)) {
		mpa_plain_open(ctx, MPA_TX);
		mpa_plain_open(ctx, MPA_RX);
	}
	mpa_report_state(ctx, old);
}

/* The user may send: section 7.1.2 rule 4. Context: any, socket lock held. */
void mpa_open_sending(struct mpa_ctx *ctx)
{
	WRITE_ONCE(ctx->may_send, true);
	mpa_wake_writers(ctx);
	/* For O_ASYNC: TCP sends this signal only to those that wait for room. */
	sk_wake_async(ctx->sk, SOCK_WAKE_IO, POLL_OUT);
}

/* ---- failing ---- */

/**
 * mpa_fail() - record and report that a part has failed, unless it has before
 * @ctx:	the context
 * @part:	enum mpa_part
 * @err:	negative errno
 * @code:	for MPA_INFO
 *
 * If startup has failed, mpa_startup_fail() does the rest.
 *
 * Context: any, socket lock held.
 * Return: the errno of the first failure.
 */
int mpa_fail(struct mpa_ctx *ctx, enum mpa_part part, int err,
	     enum mpa_error code)
{
	struct mpa_failure *failure = &ctx->failure[part];

	if (!failure->err) {
		WRITE_ONCE(failure->code, code);
		WRITE_ONCE(failure->err, err);
		mpa_report_failed(ctx, part);
	}
	return failure->err;
}

/**
 * mpa_fail_receiving() - end delivery on this half connection
 * @ctx:	the context, in MPA_STATE_FULL
 * @err:	negative errno for readers
 * @code:	for MPA_INFO
 *
 * RFC 5044 section 8. Sending continues.
 *
 * Context: any, socket lock held.
 */
void mpa_fail_receiving(struct mpa_ctx *ctx, int err, enum mpa_error code)
{
	mpa_fail(ctx, MPA_RX, err, code);
	WRITE_ONCE(ctx->rx.ready, true);
	/* See mpa_rx_discard(). */
	mpa_schedule_work(ctx, 0);
	/* Wake readers, and a sender that waits for the first FPDU. */
	mpa_wake_all(ctx);
}

/**
 * mpa_fail_sending() - end sending, as the octets sent are wrong
 * @ctx:	the context
 * @err:	positive errno for the user; close(2) resets the connection
 */
void mpa_fail_sending(struct mpa_ctx *ctx, int err)
{
	WRITE_ONCE(ctx->tx.ended, true);
	mpa_fail(ctx, MPA_TX, -err, MPA_ERR_LOCAL);
	mpa_tcp_set_error(ctx->sk, err);
	sk_error_report(ctx->sk);
	/* A user inside the kernel does not read errors of the socket. */
	if (!ctx->consumer)
		return;
	if (!mpa_failed(ctx, MPA_RX))
		mpa_fail_receiving(ctx, -err, MPA_ERR_LOCAL);
	mpa_wake_all(ctx);
}

/* ---- waking the user; any context, socket lock held ---- */

/* There is something to read, or an end, or an error. */
void mpa_wake_reader(struct mpa_ctx *ctx)
{
	ctx->wake->data_ready(ctx->sk);
}

/* A reason not to send is gone. */
void mpa_wake_writers(struct mpa_ctx *ctx)
{
	mpa_tcp_wake_writers(ctx->sk);
}

/* The connection has changed: as at the end of connect(2). */
void mpa_wake_all(struct mpa_ctx *ctx)
{
	ctx->sk->sk_state_change(ctx->sk);
}
