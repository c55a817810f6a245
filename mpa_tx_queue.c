// SPDX-License-Identifier: GPL-2.0
/*
 * Where segments start, and when FPDUs go to TCP: RFC 5044 sections 4.3 to 5.1.
 *
 * TCP cuts what it is given into segments of EMSS octets, counted from the
 * beginning of an skb. So it is enough to know how the tail of its queue was
 * laid out: an FPDU that fits behind it follows, one that does not begins an skb
 * of its own.
 */

#include "mpa.h"

static void mpa_align_read_tail(struct mpa_ctx *ctx)
{
	struct mpa_tx *tx = &ctx->tx;
	struct mpa_slot *slot = &tx->slot;
	struct mpa_tail tail;

	mpa_tcp_tail(ctx->sk, &tail);
	slot->used = 0;
	slot->frags = 0;
	slot->end = tail.open;
	/* The tail is not as we laid it out: start a new skb. */
	if (!tail.open || tx->tail_emss != slot->emss ||
	    tail.len % slot->emss != tx->tail_used)
		return;
	slot->used = tx->tail_used;
	slot->frags = tail.frags;
	slot->end = false;
}

/**
 * mpa_align_begin() - see how TCP will cut what it is given next
 * @ctx:	the context
 * @emss:	from mpa_tcp_emss()
 *
 * It holds as long as the socket lock is held and TCP is given nothing.
 *
 * Context: process, socket lock held.
 */
void mpa_align_begin(struct mpa_ctx *ctx, u32 emss)
{
	struct mpa_slot *slot = &ctx->tx.slot;

	slot->emss = emss;
	mpa_align_read_tail(ctx);
	slot->begun = slot->used;
}

/**
 * mpa_align_break() - end the segment that TCP's queue ends with
 * @tx:	sending; the next FPDU is at the start of the next one
 */
void mpa_align_break(struct mpa_tx *tx)
{
	struct mpa_slot *slot = &tx->slot;

	slot->end = true;
	slot->begun = 0;
	slot->used = 0;
	slot->frags = 0;
}

/* Remember how what TCP is given is laid out. */
static void mpa_align_given(struct mpa_ctx *ctx)
{
	struct mpa_tx *tx = &ctx->tx;
	const struct mpa_slot *slot = &tx->slot;
	bool oversize = tx->largest > slot->emss;
	u32 len = tx->out->len;

	/* Behind an FPDU larger than a segment a new skb begins. */
	tx->tail_emss = oversize ? 0 : slot->emss;
	tx->tail_used = slot->used;
	if (oversize)
		tx->fit.end = tx->seq + len;
	else if (slot->begun + len > slot->emss)
		tx->fit.end = tx->seq + len - slot->used;
}

/* ---- handing over: at once, when a batch ends, or when TCP has memory ---- */

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
