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

/**
 * mpa_align_given() - remember how what TCP is given is laid out
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 */
void mpa_align_given(struct mpa_ctx *ctx)
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
