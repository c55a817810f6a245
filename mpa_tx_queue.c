// SPDX-License-Identifier: GPL-2.0
/*
 * Where segments start, and when FPDUs are passed to TCP: RFC 5044 sections 4.3
 * to 5.1.
 *
 * TCP cuts its queue into segments of EMSS octets, counted from the start of an
 * skb. So only the layout of the last skb matters: an FPDU that fits its last
 * segment is appended, any other starts a new skb.
 */

#include "mpa.h"

/* End the last segment of TCP's queue: the next FPDU starts another segment. */
void mpa_align_break(struct mpa_tx *tx)
{
	struct mpa_slot *slot = &tx->slot;

	slot->end = true;
	slot->begun = 0;
	slot->used = 0;
	slot->frags = 0;
}

/*
 * Find out how TCP will cut the next octets. The result is valid until the
 * socket lock is dropped or octets are passed to TCP. @emss: from
 * mpa_tcp_emss().
 */
void mpa_align_begin(struct mpa_ctx *ctx, u32 emss)
{
	const struct sk_buff *tail = mpa_tcp_tail(ctx->sk);
	struct mpa_tx *tx = &ctx->tx;
	struct mpa_slot *slot = &tx->slot;

	mpa_align_break(tx);
	slot->emss = emss;
	/* If the tail differs from our layout, start a new skb. */
	slot->end = tail && (tx->tail_emss != emss ||
			     tail->len % emss != tx->tail_used);
	if (!tail || slot->end)
		return;
	slot->begun = tx->tail_used;
	slot->used = tx->tail_used;
	slot->frags = skb_shinfo(tail)->nr_frags;
}

/* Record the layout of the octets passed to TCP now. */
static void mpa_align_given(struct mpa_ctx *ctx)
{
	struct mpa_tx *tx = &ctx->tx;
	const struct mpa_slot *slot = &tx->slot;
	bool oversize = tx->largest > slot->emss;
	u32 len = tx->out->len;

	/* Start a new skb after an FPDU larger than a segment. */
	tx->tail_emss = oversize ? 0 : slot->emss;
	tx->tail_used = slot->used;
	if (oversize)
		tx->fit_end = tx->seq + len;
	else if (slot->begun + len > slot->emss)
		tx->fit_end = tx->seq + len - slot->used;
}

/* Jiffies that FPDUs wait for the rest of a batch. */
#define MPA_QUEUE_MAX		(HZ / 200 + 1)

/*
 * Drop the octets in the buffer. Context: process, socket lock held; or nothing
 * else can reach @ctx.
 */
void mpa_tx_drop_out(struct mpa_ctx *ctx)
{
	struct mpa_txbuf *out = ctx->tx.out;

	if (!out)
		return;
	mpa_tcp_uncharge(ctx->sk, out);
	mpa_txbuf_reset(out);
}

/*
 * Pass octets to TCP. An error of the connection stays pending for the user.
 * Return 0; -EPIPE when the connection is gone or fails; or -ENOBUFS if no
 * octet of a startup frame was sent.
 */
int mpa_tx_hand_over(struct mpa_ctx *ctx, enum mpa_push push)
{
	struct mpa_tx *tx = &ctx->tx;
	struct sock *sk = ctx->sk;
	int err;

	if (tx->seq_known && tx->seq != mpa_tcp_write_seq(sk)) {
		/*
		 * A task bypassing MPA has written to TCP. The peer reads these
		 * octets as FPDUs, and nothing sent later can fix the stream.
		 */
		mpa_fail_sending(ctx, EPROTO);
		err = -EPIPE;
	} else {
		err = mpa_tcp_send(sk, tx->out, &tx->window, push);
		if (err == -ENOBUFS && (tx->seq_known || tx->out->sent)) {
			mpa_fail_sending(ctx, ENOBUFS);
			err = -EPIPE;
		}
		tx->seq = mpa_tcp_write_seq(sk);
		tx->seq_known = true;
	}
	mpa_tx_drop_out(ctx);
	return err;
}

/* Wake writers whose call had no memory: memory may be free now. */
void mpa_tx_retry(struct mpa_ctx *ctx)
{
	if (!ctx->tx.starved)
		return;
	WRITE_ONCE(ctx->tx.starved, false);
	mpa_wake_writers(ctx);
}

/* Pass complete FPDUs to TCP. Return -EPIPE if the connection is gone. */
int mpa_tx_flush(struct mpa_ctx *ctx, enum mpa_push push)
{
	struct mpa_tx *tx = &ctx->tx;

	mpa_align_given(ctx);
	tx->largest = 0;
	if (tx->slot.end)
		tx->out->split = 0;
	return mpa_tx_hand_over(ctx, push);
}

/*
 * Whether the FPDUs built so far can wait for more of a batch. TCP sends full
 * segments at the end of each call, so collect FPDUs first. They must start a
 * segment: then they stay aligned whatever TCP sends meanwhile.
 */
bool mpa_tx_may_queue(const struct mpa_tx *tx)
{
	return tx->largest <= tx->slot.emss && !tx->slot.begun;
}

/* Let the FPDUs wait for more of a batch, if mpa_tx_may_queue(). */
void mpa_tx_queue_batch(struct mpa_ctx *ctx)
{
	struct mpa_tx *tx = &ctx->tx;

	if (tx->slot.end)
		mpa_tcp_end_segment(ctx->sk);
	mpa_schedule_work(ctx, MPA_QUEUE_MAX);
}

/* Pass the waiting FPDUs of a batch to TCP. Return: as mpa_tx_flush(). */
int mpa_tx_flush_queued(struct mpa_ctx *ctx, enum mpa_push push)
{
	return mpa_tx_queued(&ctx->tx) ? mpa_tx_flush(ctx, push) : 0;
}

/*
 * Let TCP send. With @more, TCP holds a last segment that is not full until
 * more octets follow.
 */
void mpa_tx_end_call(struct mpa_ctx *ctx, bool more)
{
	mpa_tcp_push(ctx->sk, &ctx->tx.window, more);
	if (ctx->tx.window.more)
		mpa_schedule_work(ctx, MPA_QUEUE_MAX);
}

/* Stop waiting for the rest of a batch. @more: as for mpa_tx_end_call(). */
void mpa_tx_end_batch(struct mpa_ctx *ctx, bool more)
{
	if (!mpa_tx_in_batch(&ctx->tx))
		return;
	if (!mpa_tx_flush_queued(ctx, more ? MPA_PUSH_FULL : MPA_PUSH_ALL))
		mpa_tx_end_call(ctx, more);
}
