// SPDX-License-Identifier: GPL-2.0
/*
 * What has been made goes to TCP: at once, when a batch ends, or when TCP has
 * memory for it.
 */

#include "mpa.h"

/* How long FPDUs of a batch are held for the rest of it. */
#define MPA_HOLD_MAX		(HZ / 200 + 1)

/**
 * mpa_tx_drop_out() - drop octets that TCP has not got
 * @ctx:	the context
 *
 * Context: process, socket lock held; or nobody else knows @ctx.
 */
void mpa_tx_drop_out(struct mpa_ctx *ctx)
{
	struct mpa_txbuf *out = ctx->tx.out;

	if (!out)
		return;
	mpa_tcp_uncharge(ctx->sk, out);
	mpa_txbuf_reset(out);
}

static int mpa_tx_to_tcp(struct mpa_ctx *ctx, enum mpa_push push)
{
	struct mpa_tx *tx = &ctx->tx;
	struct sock *sk = ctx->sk;
	int err;

	/*
	 * Somebody else has given TCP octets since: the peer takes them for
	 * FPDUs, and nothing that comes behind them can mend that.
	 */
	if (tx->seq_known && tx->seq != mpa_tcp_write_seq(sk)) {
		mpa_fail_sending(ctx, EPROTO);
		return -EPIPE;
	}
	err = mpa_tcp_send(sk, tx->out, &tx->window, push);
	tx->seq = mpa_tcp_write_seq(sk);
	tx->seq_known = true;
	return err;
}

/**
 * mpa_tx_hand_over() - hand octets to TCP
 * @ctx:	the context
 * @push:	what TCP does with them
 *
 * An error that the connection is in stays for its user to find.
 *
 * Context: process, socket lock held.
 * Return: 0; -EAGAIN when memory is short, and the work item tries again; or
 * -EPIPE when the connection is gone: they are dropped.
 */
int mpa_tx_hand_over(struct mpa_ctx *ctx, enum mpa_push push)
{
	struct mpa_tx *tx = &ctx->tx;
	int err;

	err = mpa_tx_to_tcp(ctx, push);
	if (err == -EAGAIN) {
		mpa_tx_waits(tx, MPA_WAIT_MEMORY);
		mpa_schedule_work(ctx, MPA_RETRY_DELAY);
		return err;
	}
	mpa_tx_drop_out(ctx);
	if (mpa_tx_stuck(tx)) {
		mpa_tx_waits(tx, MPA_WAIT_NOT);
		mpa_wake_writers(ctx);
	}
	return err;
}

/* mpa_tx_push(), where there are any. */
int mpa_tx_push_stuck(struct mpa_ctx *ctx)
{
	struct mpa_tx *tx = &ctx->tx;
	int err;

	err = mpa_tx_hand_over(ctx, MPA_PUSH_ALL);
	if (!err)
		mpa_tcp_push(ctx->sk, &tx->window, false);
	return err;
}

/**
 * mpa_tx_retry() - there may be memory again
 * @ctx:	the context
 *
 * Context: process (work item), socket lock held.
 */
void mpa_tx_retry(struct mpa_ctx *ctx)
{
	struct mpa_tx *tx = &ctx->tx;

	if (mpa_tx_push(ctx) == -EAGAIN || !tx->starved)
		return;
	WRITE_ONCE(tx->starved, false);
	mpa_wake_writers(ctx);
}

/**
 * mpa_tx_flush() - hand finished FPDUs to TCP
 * @ctx:	the context
 * @push:	what TCP does with them
 *
 * Those that it lacks memory for are not lost.
 *
 * Context: process, socket lock held.
 * Return: 0, or -EPIPE when the connection is gone.
 */
int mpa_tx_flush(struct mpa_ctx *ctx, enum mpa_push push)
{
	struct mpa_tx *tx = &ctx->tx;
	int err;

	mpa_align_given(ctx);
	tx->largest = 0;
	mpa_tx_waits(tx, MPA_WAIT_NOT);
	if (tx->slot.end)
		tx->out->split = 0;
	err = mpa_tx_hand_over(ctx, push);
	return err == -EAGAIN ? 0 : err;
}

/**
 * mpa_tx_may_hold() - the FPDUs that have been made can wait for more
 * @tx:		sending
 *
 * TCP sends full segments at once, whatever it is told, and each time it is
 * called. So the FPDUs of a batch are collected first, if they begin a segment:
 * whatever TCP sends meanwhile, they stay aligned.
 */
bool mpa_tx_may_hold(const struct mpa_tx *tx)
{
	return tx->largest <= tx->slot.emss && !tx->slot.begun;
}

/**
 * mpa_tx_hold() - let the FPDUs that have been made wait for more of a batch
 * @ctx:	the context; mpa_tx_may_hold()
 *
 * Context: process, socket lock held.
 */
void mpa_tx_hold(struct mpa_ctx *ctx)
{
	struct mpa_tx *tx = &ctx->tx;

	if (tx->slot.end)
		mpa_tcp_end_segment(ctx->sk);
	mpa_tx_waits(tx, MPA_WAIT_BATCH);
	mpa_schedule_work(ctx, MPA_HOLD_MAX);
}

/**
 * mpa_tx_flush_held() - hand to TCP what has been collected
 * @ctx:	the context
 * @push:	what TCP does with it
 *
 * Context: process, socket lock held.
 * Return: as mpa_tx_flush().
 */
int mpa_tx_flush_held(struct mpa_ctx *ctx, enum mpa_push push)
{
	return mpa_tx_held(&ctx->tx) ? mpa_tx_flush(ctx, push) : 0;
}

/**
 * mpa_tx_end_call() - have TCP send what it was given
 * @ctx:	the context
 * @more:	more may come soon: a last segment that is not full waits for it
 *
 * Context: process, socket lock held.
 */
void mpa_tx_end_call(struct mpa_ctx *ctx, bool more)
{
	mpa_tcp_push(ctx->sk, &ctx->tx.window, more);
	if (ctx->tx.window.more)
		mpa_schedule_work(ctx, MPA_HOLD_MAX);
}

/**
 * mpa_tx_end_batch() - do not wait for the rest of a batch
 * @ctx:	the context
 * @more:	but it may still come: a last segment that is not full waits
 *
 * Context: process, socket lock held.
 */
void mpa_tx_end_batch(struct mpa_ctx *ctx, bool more)
{
	if (!mpa_tx_in_batch(&ctx->tx))
		return;
	if (!mpa_tx_flush_held(ctx, more ? MPA_PUSH_FULL : MPA_PUSH_ALL))
		mpa_tx_end_call(ctx, more);
}
