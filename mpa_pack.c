// SPDX-License-Identifier: GPL-2.0
/*
 * TUF: ULPDUs are packed into FPDUs, and pieces of FPDUs are never taken for any.
 *
 * An FPDU takes more ULPDUs as long as TCP has not sent it and they fit its segment.
 * It may be in the buffer, or the last one in TCP's queue: its Length lies in a page
 * of ours, and is written anew. Octets that belong to an FPDU which TCP has are handed
 * over before the socket lock is dropped, as TCP may send it then. If TCP has no memory
 * for them it may do so with its new Length, and the rest is a segment behind it.
 *
 * A piece of an FPDU that was cut is taken for an FPDU if it begins with a length and
 * the key. An FPDU that is larger than a segment and has the key among its octets is
 * handed over piece by piece, so that none of them does. Where TCP cuts others, at the
 * edge of a window or when the path's MTU has fallen, it is seen when the segment
 * leaves. If that is for the first time floor 1 knows what it begins with. Where it is
 * sent again it does not; then only what was found when FPDUs were made tells whether
 * the key is in one of them. After close(2) nobody looks any more.
 */

#include <linux/uio.h>

#include "mpa_tuf.h"

/**
 * mpa_pack_forget() - the last FPDU takes no more
 * @ctx:	the context
 *
 * Context: process, socket lock held; or nobody else knows @ctx.
 */
void mpa_pack_forget(struct mpa_ctx *ctx)
{
	struct mpa_pack *pack = &mpa_tuf(ctx)->pack;

	pack->length = NULL;
	pack->extends = false;
}

/* ---- keys among octets ---- */

/* The last octets that were searched are kept in @pack, for those behind them. */
static bool mpa_pack_search(struct mpa_pack *pack, const struct mpa_tuf_key *key,
			    const u8 *data, u32 len)
{
	const u32 most = sizeof(pack->tail);
	u32 n = min(len, most), nr = pack->nr_tail + n;
	u8 seam[2 * sizeof(pack->tail)];

	memcpy(seam, pack->tail, pack->nr_tail);
	memcpy(seam + pack->nr_tail, data, n);
	pack->nr_tail = min(nr, most);
	memcpy(pack->tail, len < most ? seam + nr - pack->nr_tail :
					data + len - most, pack->nr_tail);
	return mpa_tuf_finds(key, seam, nr) || mpa_tuf_finds(key, data, len);
}

/* The last @len octets of the buffer. */
static bool mpa_pack_search_out(struct mpa_tuf *tuf, u32 len)
{
	const struct mpa_txbuf *out = tuf->ctx.tx.out;
	u32 at = out->len - len, n;
	bool found = false;

	for (; at < out->len; at += n) {
		const u8 *data = mpa_txbuf_at(out, at, &n);

		n = min(n, out->len - at);
		found |= mpa_pack_search(&tuf->pack, &tuf->key, data, n);
	}
	return found;
}

/*
 * The octets in front of a header, together with it, but for its own key: that ends
 * with the header.
 */
static bool mpa_pack_search_front(const struct mpa_tuf *tuf, u16 length)
{
	const struct mpa_pack *pack = &tuf->pack;
	u8 octets[sizeof(pack->before) + TUF_HEADER_LEN - 1];
	u8 *p = octets + pack->nr_before;

	memcpy(octets, pack->before, pack->nr_before);
	put_unaligned_be16(length, p);
	memcpy(p + TUF_LENGTH_LEN, tuf->key.key, TUF_KEY_LEN - 1);
	return mpa_tuf_finds(&tuf->key, octets,
			     pack->nr_before + TUF_HEADER_LEN - 1);
}

/**
 * mpa_pack_careless() - nothing that has a key among its octets can leave any more
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 * Return: whether that is so.
 */
bool mpa_pack_careless(struct mpa_ctx *ctx)
{
	struct mpa_pack *pack = &mpa_tuf(ctx)->pack;

	if (pack->careful && !mpa_pos_before(mpa_tcp_write_seq(ctx->sk) -
					     mpa_tcp_unacked(ctx->sk),
					     pack->careful_end))
		pack->careful = false;
	return !pack->careful;
}

/* Octets that begin so pass the containment test. */
static bool mpa_pack_passes(const struct mpa_tuf *tuf, const u8 *head, u32 len)
{
	return len == get_unaligned_be16(head) + TUF_HEADER_LEN &&
	       !memcmp(head + TUF_LENGTH_LEN, tuf->key.key, TUF_KEY_LEN);
}

/* There is a key in front of the end of the buffer. */
static void mpa_pack_found(struct mpa_tuf *tuf)
{
	const struct mpa_tx *tx = &tuf->ctx.tx;

	tuf->pack.careful = true;
	tuf->pack.careful_end = tx->seq + tx->out->len;
}

/*
 * Octets of the next piece of an FPDU that is larger than a segment: for
 * struct mpa_txbuf.
 */
static u32 mpa_pack_piece(struct sock *sk, const struct mpa_txbuf *out)
{
	const struct mpa_tuf *tuf = mpa_tuf(mpa_ctx(sk));
	u32 left = out->len - out->sent;
	u32 n = min(left, mpa_tcp_emss_now(sk)), i, run;
	u8 head[TUF_HEADER_LEN];

	if (!out->sent || n < TUF_HEADER_LEN)
		return n;
	for (i = 0; i < TUF_HEADER_LEN; i++)
		head[i] = *mpa_txbuf_at(out, out->sent + i, &run);
	return mpa_pack_passes(tuf, head, n) ? n - 1 : n;
}

/* The buffer has one FPDU, which TCP would cut anywhere. */
static void mpa_pack_cut(struct mpa_ctx *ctx)
{
	ctx->tx.out->piece = mpa_pack_piece;
	ctx->tx.out->split = 0;
}

/* ---- FPDUs ---- */

/* Remember where the Length of the last FPDU is. */
static void mpa_pack_note(struct mpa_ctx *ctx, u32 len)
{
	struct mpa_pack *pack = &mpa_tuf(ctx)->pack;
	const struct mpa_txbuf *out = ctx->tx.out;
	const struct bio_vec *frag = out->frag;
	u32 at = out->len - len;

	mpa_pack_forget(ctx);
	for (; at >= frag->bv_len; frag++)
		at -= frag->bv_len;
	if (frag->bv_len - at < TUF_LENGTH_LEN)
		return;
	pack->length = page_address(frag->bv_page) + frag->bv_offset + at;
	pack->len = len;
}

/**
 * mpa_pack_made() - an FPDU of TUF has been made
 * @ctx:	the context
 * @fpdu:	its layout; its octets are the last in the buffer
 *
 * Context: process, socket lock held.
 */
void mpa_pack_made(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu)
{
	struct mpa_tuf *tuf = mpa_tuf(ctx);
	struct mpa_pack *pack = &tuf->pack;
	bool found;

	tuf->tx_fpdus++;
	if (!mpa_format_contained(&ctx->tx.format))
		return;
	mpa_pack_careless(ctx);
	memcpy(pack->before, pack->tail, sizeof(pack->before));
	pack->nr_before = pack->nr_tail;
	pack->nr_tail = 0;
	found = mpa_pack_search_front(tuf, fpdu->ulpdu_len);
	/* From behind the octet that its own key begins with. */
	found |= mpa_pack_search_out(tuf, fpdu->len - TUF_LENGTH_LEN - 1);
	if (unlikely(found))
		mpa_pack_found(tuf);
	if (unlikely(found) && fpdu->len > ctx->tx.slot.emss)
		mpa_pack_cut(ctx);
	mpa_pack_note(ctx, fpdu->len);
}

/*
 * The last FPDU is in the buffer, or TCP has not sent it, nor copied it. It may have
 * tried to, and IP refused it: then it has been seen with its Length.
 */
static bool mpa_pack_unsent(const struct mpa_ctx *ctx)
{
	const struct mpa_pack *pack = &mpa_tuf_const(ctx)->pack;

	return ctx->tx.out->len ||
	       (!mpa_pos_before(ctx->tx.seq - pack->len, ctx->tcp.watch.seq) &&
		mpa_tcp_tail_holds(ctx->sk, pack->length, pack->len));
}

/**
 * mpa_pack_fits() - the last FPDU takes a ULPDU
 * @ctx:	the context
 * @n:		octets of the ULPDU
 *
 * Context: process, socket lock held, and since mpa_align_begin().
 */
bool mpa_pack_fits(struct mpa_ctx *ctx, u32 n)
{
	const struct mpa_pack *pack = &mpa_tuf(ctx)->pack;
	const struct mpa_tx *tx = &ctx->tx;

	return pack->length && tx->packing && !mpa_tx_open(tx) && !mpa_tapped(ctx) &&
	       tx->slot.used == pack->len && mpa_pack_unsent(ctx) &&
	       n <= min_t(u32, tx->slot.emss, MPA_TUF_FPDU_MAX) - pack->len &&
	       mpa_tcp_frags(tx->out) + tx->slot.frags + n / PAGE_SIZE + 2 <=
	       MPA_SKB_FRAGS;
}

/**
 * mpa_pack_add() - add a ULPDU to the last FPDU
 * @ctx:	the context; mpa_pack_fits()
 * @from:	its octets
 * @n:		how many
 *
 * If TCP has that FPDU it has to be given these octets before the socket lock is
 * dropped.
 *
 * Context: process, socket lock held.
 * Return: 0; -ENOBUFS or -EFAULT, and everything is as it was before.
 */
int mpa_pack_add(struct mpa_ctx *ctx, struct iov_iter *from, u32 n)
{
	struct mpa_tuf *tuf = mpa_tuf(ctx);
	struct mpa_pack *pack = &tuf->pack;
	struct mpa_tx *tx = &ctx->tx;
	bool extends = !tx->out->len, found;
	u16 length;
	int err;

	err = mpa_make_more(ctx, from, n);
	if (err)
		return err;
	pack->extends |= extends;
	pack->len += n;
	length = pack->len - TUF_HEADER_LEN;
	put_unaligned_be16(length, pack->length);
	found = mpa_pack_search_front(tuf, length);
	found |= mpa_pack_search_out(tuf, n);
	if (unlikely(found))
		mpa_pack_found(tuf);
	tx->slot.used += n;
	tx->largest = max(tx->largest, pack->len);
	if (tx->slot.used == tx->slot.emss) {
		tx->slot.used = 0;
		mpa_pack_forget(ctx);
		pack->extends |= extends;
	}
	return 0;
}

/**
 * mpa_pack_given() - TCP has been given all of the buffer, or has failed to take it
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 */
void mpa_pack_given(struct mpa_ctx *ctx)
{
	mpa_tuf(ctx)->pack.extends = false;
}

/**
 * mpa_pack_extends() - what is in the buffer must not stay there
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 */
bool mpa_pack_extends(const struct mpa_ctx *ctx)
{
	return mpa_is_tuf(ctx) && mpa_tuf_const(ctx)->pack.extends;
}

/* ---- what leaves ---- */

/**
 * mpa_pack_leaves() - a segment leaves: could it be taken for an FPDU that it is not?
 * @sk:		socket
 * @head:	its first octets, as many as a header has
 * @seq:	sequence number of the first
 * @len:	octets of the segment
 * @begins:	what floor 1 knows of how it begins
 * @fixed:	it cannot leave an octet shorter
 *
 * Context: socket lock held, maybe in softirq.
 * Return: whether it could, and is not @fixed.
 */
bool mpa_pack_leaves(struct sock *sk, const u8 *head, u32 seq, u32 len,
		     enum mpa_begins begins, bool fixed)
{
	struct mpa_tuf *tuf = mpa_tuf(mpa_ctx(sk));

	if (!mpa_pack_passes(tuf, head, len))
		return false;
	if (begins == MPA_BEGINS_FPDU) {
		tuf->contained++;
		return false;
	}
	if (begins == MPA_BEGINS_UNKNOWN &&
	    !(tuf->pack.careful && mpa_pos_before(seq, tuf->pack.careful_end)))
		return false;
	if (fixed)
		return false;
	tuf->trimmed++;
	SNMP_INC_STATS(tuf->ctx.tcp.mib, MPA_MIB_TUF_TRIMMED);
	return true;
}
