// SPDX-License-Identifier: GPL-2.0
/*
 * Packing several ULPDUs into an FPDU. All functions are called in process context with the
 * socket lock held.
 *
 * ULPDUs can be added to an FPDU as long as TCP has not sent it and they fit its
 * segment. The FPDU is in the buffer, or is the last one in TCP's queue. Its Length
 * field, in one of our pages, is rewritten. If TCP has the FPDU, the new octets must be
 * passed to TCP before the socket lock is released, as TCP may then send the FPDU. If
 * TCP has no memory for the new octets, it may send the FPDU with the new Length, and
 * these octets in a later segment.
 */

#include <linux/uio.h>

#include "tuf.h"

void mpa_pack_forget(struct mpa_ctx *ctx)
{
	struct mpa_pack *pack = &mpa_tuf(ctx)->pack;

	pack->length = NULL;
	pack->extends = false;
}

static void mpa_pack_note(struct mpa_ctx *ctx, u32 len)
{
	struct mpa_pack *pack = &mpa_tuf(ctx)->pack;
	const struct mpa_txbuf *out = ctx->tx.out;
	const u8 *length;
	u32 run;

	mpa_pack_forget(ctx);
	length = mpa_txbuf_at(out, out->len - len, &run);
	if (run < TUF_LENGTH_LEN)
		return;
	pack->length = (u8 *)length;
	pack->len = len;
}

void mpa_pack_built(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu)
{
	mpa_tuf(ctx)->tx_fpdus++;
	if (!mpa_format_contained(&ctx->tx.format))
		return;
	mpa_guard_built(ctx, fpdu);
	mpa_pack_note(ctx, fpdu->len);
}

/*
 * Whether the last FPDU is in the buffer, or TCP has neither sent nor copied it. An
 * FPDU that IP has refused counts as sent: its Length may have been seen.
 */
static bool mpa_pack_unsent(const struct mpa_ctx *ctx)
{
	const struct mpa_pack *pack = &mpa_tuf_const(ctx)->pack;

	return ctx->tx.out->len ||
	       (!mpa_pos_before(ctx->tx.seq - pack->len, ctx->tcp.watch.seq) &&
		mpa_tcp_tail_holds(ctx->sk, pack->length, pack->len));
}

/*
 * Return the total length of the ULPDUs, each of @ulpdu_len octets, that are to share
 * an FPDU.
 */
u32 mpa_pack_target(const struct mpa_tx *tx, u32 ulpdu_len, u32 emss)
{
	u32 room;

	if (!mpa_format_contained(&tx->format) ||
	    !(tx->options & BIT(MPA_PACKING)) || tx->ulpdu_len)
		return ulpdu_len;
	/* First fill the last FPDU, if it has room: see mpa_pack_fits(). */
	room = tx->slot.used ? emss - tx->slot.used : 0;
	if (room < ulpdu_len)
		room = mpa_framing_fill(&tx->format, tx->pos, emss);
	return max(room - room % ulpdu_len, ulpdu_len);
}

/* Whether a ULPDU of @n octets fits the last FPDU. Valid after mpa_align_begin(). */
bool mpa_pack_fits(struct mpa_ctx *ctx, u32 n)
{
	const struct mpa_pack *pack = &mpa_tuf(ctx)->pack;
	const struct mpa_tx *tx = &ctx->tx;

	return pack->length && tx->options & BIT(MPA_PACKING) &&
	       !mpa_tx_open(tx) && !mpa_tapped(ctx) &&
	       tx->slot.used == pack->len && mpa_pack_unsent(ctx) &&
	       n <= min_t(u32, tx->slot.emss, MPA_TUF_FPDU_MAX) - pack->len &&
	       mpa_tcp_frags(tx->out) + tx->slot.frags + n / PAGE_SIZE + 2 <=
	       MPA_SKB_FRAGS;
}

/*
 * Add a ULPDU of @n octets to the last FPDU. mpa_pack_fits() is true. If TCP has the FPDU, the
 * new octets must be passed to TCP before the socket lock is released. Return: 0; -ENOBUFS or
 * -EFAULT, with nothing changed.
 */
int mpa_pack_add(struct mpa_ctx *ctx, struct iov_iter *from, u32 n)
{
	struct mpa_pack *pack = &mpa_tuf(ctx)->pack;
	struct mpa_tx *tx = &ctx->tx;
	bool extends = !tx->out->len;
	u16 length;
	int err;

	err = mpa_build_more(ctx, from, n);
	if (err)
		return err;
	pack->extends |= extends;
	pack->len += n;
	length = pack->len - TUF_HEADER_LEN;
	put_unaligned_be16(length, pack->length);
	mpa_guard_added(ctx, length, n);
	tx->slot.used += n;
	tx->largest = max(tx->largest, pack->len);
	if (tx->slot.used == tx->slot.emss) {
		tx->slot.used = 0;
		mpa_pack_forget(ctx);
		pack->extends |= extends;
	}
	return 0;
}

/* Call this when the buffer was passed to TCP, or when that has failed. */
void mpa_pack_given(struct mpa_ctx *ctx)
{
	mpa_tuf(ctx)->pack.extends = false;
}

/* Whether octets in the buffer must be passed to TCP before the socket lock is released */
bool mpa_pack_extends(const struct mpa_ctx *ctx)
{
	return mpa_alt(ctx) && mpa_tuf_const(ctx)->pack.extends;
}
