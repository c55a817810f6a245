// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of a connection's state, failures of a direction or of startup, waking the
 * user, queueing the work item.
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

/*
 * Queue the work item to run in at most @delay jiffies. One work item does all pending
 * work, so a queued work item is only moved to an earlier time. Context: any, socket
 * lock held.
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
	/* Pairs with mpa_set_pending(). */
	if (delay && atomic_read(&ctx->pending))
		mod_delayed_work(mpa_wq, work, 0);
}

/*
 * Queue the work item to do @what. The caller does not need the lock, but keeps @ctx
 * attached. A concurrent mpa_schedule_work() may move the work item to a later time,
 * but then checks @ctx->pending. Context: any.
 */
void mpa_set_pending(struct mpa_ctx *ctx, enum mpa_pending what)
{
	atomic_or(what, &ctx->pending);
	smp_mb__after_atomic(); /* with mpa_schedule_work() */
	mod_delayed_work(mpa_wq, &ctx->work, 0);
}

/* ---- state ---- */

/*
 * Change the state. If poll(2) reports more in the new state, the caller wakes the user
 * afterwards. Context: any, socket lock held; or nobody else can reach @ctx.
 */
void mpa_set_state(struct mpa_ctx *ctx, enum mpa_state state)
{
	u8 old = ctx->state;

	/* Let the upcall report the new startup's result even if it equals the last one. */
	if (ctx->consumer && state == MPA_STATE_STARTUP)
		ctx->consumer->state = state;
	/* Pairs with mpa_poll_state(): a reader of the state sees all earlier writes. */
	smp_store_release(&ctx->state, state);
	if (!mpa_started(ctx)) {
		mpa_plain_open(ctx, MPA_TX);
		mpa_plain_open(ctx, MPA_RX);
	}
	mpa_report_state(ctx, old);
}

/* Let the user send: section 7.1.2 rule 4. Context: any, socket lock held. */
void mpa_open_sending(struct mpa_ctx *ctx)
{
	WRITE_ONCE(ctx->may_send, true);
	mpa_wake_writers(ctx);
	/* Send O_ASYNC's signal: TCP does so only after a send has found no room. */
	sk_wake_async(ctx->sk, SOCK_WAKE_IO, POLL_OUT);
}

/* ---- failing ---- */

/*
 * Record and report that a part has failed, with a negative errno and a code for
 * MPA_INFO, unless it has failed before. mpa_startup_fail() completes a failure of
 * startup. Context: any, socket lock held. Return: the errno of the first failure.
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

/*
 * RFC 5044 section 8: end delivery on this half connection, with a negative errno for
 * readers. Sending continues. Context: any, socket lock held.
 */
void mpa_fail_receiving(struct mpa_ctx *ctx, int err, enum mpa_error code)
{
	mpa_fail(ctx, MPA_RX, err, code);
	WRITE_ONCE(ctx->rx.ready, true);
	/* The work item calls mpa_rx_discard(). */
	mpa_schedule_work(ctx, 0);
	/* Wake readers, and a sender that waits for the first FPDU. */
	mpa_wake_all(ctx);
}

/*
 * End sending, as accepted octets are lost or wrong. @err is positive. close(2) will
 * reset the connection.
 */
void mpa_fail_sending(struct mpa_ctx *ctx, int err)
{
	WRITE_ONCE(ctx->tx.ended, true);
	mpa_fail(ctx, MPA_TX, -err, MPA_ERR_LOCAL);
	mpa_tcp_set_error(ctx->sk, err);
	sk_error_report(ctx->sk);
	/* A kernel user does not read sk_err: upcalls report the failure. */
	if (!ctx->consumer)
		return;
	if (!mpa_failed(ctx, MPA_RX))
		mpa_fail_receiving(ctx, -err, MPA_ERR_LOCAL);
	mpa_wake_all(ctx);
}

/* ---- waking the user; any context, socket lock held ---- */

void mpa_wake_reader(struct mpa_ctx *ctx)
{
	ctx->wake->data_ready(ctx->sk);
}

void mpa_wake_writers(struct mpa_ctx *ctx)
{
	mpa_tcp_wake_writers(ctx->sk);
}

/* Wake readers and writers, as at the end of connect(2). */
void mpa_wake_all(struct mpa_ctx *ctx)
{
	ctx->sk->sk_state_change(ctx->sk);
}
