// SPDX-License-Identifier: GPL-2.0
/*
 * Where segments start: RFC 5044 sections 4.3 to 5.1.
 *
 * TCP cuts what it is given into segments of EMSS octets, counted from the
 * beginning of an skb. So it is enough to know how the tail of its queue was
 * laid out: an FPDU that fits behind it follows, one that does not begins an skb
 * of its own.
 */

#include "mpa.h"

static void mpa_align_read_tail(struct mpa_ctx *ctx, struct mpa_slot *slot)
{
	struct mpa_tx *tx = &ctx->tx;
	struct mpa_tail tail;

	mpa_tcp_tail(ctx->sk, &tail);
	slot->used = 0;
	slot->frags = 0;
	slot->end = tail.open;
	/* Not ours, or EMSS has changed, or TCP has cut elsewhere. */
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
 * @slot:	filled in
 * @emss:	from mpa_tcp_emss()
 *
 * It holds as long as the socket lock is held and TCP is given nothing.
 *
 * Context: process, socket lock held.
 */
void mpa_align_begin(struct mpa_ctx *ctx, struct mpa_slot *slot, u32 emss)
{
	slot->emss = emss;
	mpa_align_read_tail(ctx, slot);
	slot->begun = slot->used;
}

/**
 * mpa_align_resume() - see it again, for FPDUs that have been laid out since
 * @ctx:	the context
 * @slot:	from mpa_align_begin(); TCP has been given nothing
 * @len:	octets of them
 *
 * Whatever TCP has sent meanwhile, FPDUs stay aligned that begin a segment, or
 * do not go on behind the one that they begin in.
 *
 * Context: process, socket lock held.
 */
void mpa_align_resume(struct mpa_ctx *ctx, struct mpa_slot *slot, u32 len)
{
	mpa_align_read_tail(ctx, slot);
	if (slot->emss != mpa_tcp_emss(ctx->sk))
		mpa_align_break(slot);
	slot->begun = slot->used;
	slot->used = (slot->begun + len) % slot->emss;
}

/**
 * mpa_align_retry() - the rest of what TCP has not taken goes on as laid out
 * @ctx:	the context
 *
 * TCP may have sent meanwhile what the octets were to follow. Then their first
 * ones are a segment for themselves, and the next starts where it was to.
 *
 * Context: process, socket lock held.
 */
void mpa_align_retry(struct mpa_ctx *ctx)
{
	struct mpa_txbuf *out = ctx->tx.out;
	u32 emss = ctx->tx.tail_emss, used;
	struct mpa_tail tail;

	if (!emss || out->split != MPA_SPLIT_NOT)
		return;
	used = (out->slot.begun + out->sent) % emss;
	mpa_tcp_tail(ctx->sk, &tail);
	if (!tail.open || tail.len % emss != used)
		out->split = out->sent + (emss - used) % emss;
}

/**
 * mpa_align_fits() - an FPDU can follow in the segment, or it starts one
 * @tx:		sending
 * @slot:	where the segment stands
 * @len:	octets of the FPDU
 */
bool mpa_align_fits(const struct mpa_tx *tx, const struct mpa_slot *slot,
		    u32 len)
{
	if (!slot->used)
		return true;
	return tx->packing && len <= slot->emss - slot->used;
}

/**
 * mpa_align_break() - end the segment that TCP's queue ends with
 * @slot:	where the segment stands; now at the start of the next
 */
void mpa_align_break(struct mpa_slot *slot)
{
	slot->end = true;
	slot->begun = 0;
	slot->used = 0;
	slot->frags = 0;
}

/**
 * mpa_align_given() - remember how what TCP is given is laid out
 * @ctx:	the context
 * @slot:	where its end stands
 * @len:	octets
 *
 * Context: process, socket lock held.
 */
void mpa_align_given(struct mpa_ctx *ctx, const struct mpa_slot *slot, u32 len)
{
	struct mpa_tx *tx = &ctx->tx;
	bool oversize = tx->largest > slot->emss;

	/* What is behind an FPDU that was cut starts an skb. */
	tx->tail_emss = oversize ? 0 : slot->emss;
	tx->tail_used = slot->used;
	if (oversize)
		tx->fit.end = tx->seq + len;
	else if (slot->begun + len > slot->emss)
		tx->fit.end = tx->seq + len - slot->used;
}
