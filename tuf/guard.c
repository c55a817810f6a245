// SPDX-License-Identifier: GPL-2.0
/*
 * If TCP cuts an FPDU, no receiver must mistake a piece for an FPDU (containment test,
 * draft-ietf-tsvwg-tcp-ulp-frame-01).
 *
 * A piece passes the test if it begins with its own length and the key. If an FPDU is
 * larger than a segment and contains the key, TCP gets it in pieces that do not pass.
 * TCP may cut other FPDUs at the edge of a window or when the path MTU decreases, so
 * each segment is checked when it is sent. On first transmission mpa_tcp_watch.c knows
 * whether the segment begins with an FPDU. On retransmission this is not known: check
 * only if an unacknowledged FPDU contains the key (@found). After close(2) nothing is
 * checked.
 */

#include "tuf.h"

/*
 * Search octets for the key, also across the boundary to the previous octets, the last
 * of which are in @guard->tail.
 */
static bool mpa_guard_search(struct mpa_guard *guard, const struct mpa_tuf_key *key,
			     const u8 *data, u32 len)
{
	const u32 most = sizeof(guard->tail);
	u32 n = min(len, most), nr = guard->nr_tail + n;
	u8 seam[2 * sizeof(guard->tail)];

	memcpy(seam, guard->tail, guard->nr_tail);
	memcpy(seam + guard->nr_tail, data, n);
	guard->nr_tail = min(nr, most);
	memcpy(guard->tail, len < most ? seam + nr - guard->nr_tail :
					data + len - most, guard->nr_tail);
	return mpa_tuf_finds(key, seam, nr) || mpa_tuf_finds(key, data, len);
}

static bool mpa_guard_search_out(struct mpa_tuf *tuf, u32 len)
{
	const struct mpa_txbuf *out = tuf->ctx.tx.out;
	u32 at = out->len - len, n;
	bool found = false;

	for (; at < out->len; at += n) {
		const u8 *data = mpa_txbuf_at(out, at, &n);

		n = min(n, out->len - at);
		found |= mpa_guard_search(&tuf->guard, &tuf->key, data, n);
	}
	return found;
}

/*
 * Search across the start of an FPDU: the octets before the FPDU, and its header. Leave
 * out the header's last octet, as the whole header contains the key.
 */
static bool mpa_guard_search_front(const struct mpa_tuf *tuf, u16 length)
{
	const struct mpa_guard *guard = &tuf->guard;
	u8 octets[sizeof(guard->before) + TUF_HEADER_LEN - 1];
	u8 *p = octets + guard->nr_before;

	memcpy(octets, guard->before, guard->nr_before);
	put_unaligned_be16(length, p);
	memcpy(p + TUF_LENGTH_LEN, tuf->key.key, TUF_KEY_LEN - 1);
	return mpa_tuf_finds(&tuf->key, octets,
			     guard->nr_before + TUF_HEADER_LEN - 1);
}

/* Whether TCP can no longer send or retransmit octets that contain the key. Context: process. */
bool mpa_guard_idle(struct mpa_ctx *ctx)
{
	struct mpa_guard *guard = &mpa_tuf(ctx)->guard;

	if (guard->found && !mpa_pos_before(mpa_tcp_write_seq(ctx->sk) -
					    mpa_tcp_unacked(ctx->sk),
					    guard->found_end))
		guard->found = false;
	return !guard->found;
}

static bool mpa_guard_passes(const struct mpa_tuf *tuf, const u8 *head, u32 len)
{
	return len == get_unaligned_be16(head) + TUF_HEADER_LEN &&
	       !memcmp(head + TUF_LENGTH_LEN, tuf->key.key, TUF_KEY_LEN);
}

/*
 * Search the last FPDU in the buffer for the key: around its start, with this Length,
 * and in its last @n octets. Context: process. Return: whether the key was found. If
 * so, all octets up to the end of the buffer count as containing the key.
 */
bool mpa_guard_added(struct mpa_ctx *ctx, u16 length, u32 n)
{
	struct mpa_tuf *tuf = mpa_tuf(ctx);
	bool found = mpa_guard_search_front(tuf, length);

	found |= mpa_guard_search_out(tuf, n);
	if (likely(!found))
		return false;
	tuf->guard.found = true;
	tuf->guard.found_end = ctx->tx.seq + ctx->tx.out->len;
	return true;
}

/* mpa_txbuf.piece: return the length of the next piece of an FPDU that is larger than a segment. */
static u32 mpa_guard_piece(struct sock *sk, const struct mpa_txbuf *out)
{
	const struct mpa_tuf *tuf = mpa_tuf(mpa_ctx(sk));
	u32 left = out->len - out->sent;
	u32 n = min(left, mpa_tcp_emss_now(sk)), i, run;
	u8 head[TUF_HEADER_LEN];

	if (!out->sent || n < TUF_HEADER_LEN)
		return n;
	for (i = 0; i < TUF_HEADER_LEN; i++)
		head[i] = *mpa_txbuf_at(out, out->sent + i, &run);
	return mpa_guard_passes(tuf, head, n) ? n - 1 : n;
}

/* Check the FPDU that has just been built, the last one in the buffer. Context: process. */
void mpa_guard_built(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu)
{
	struct mpa_guard *guard = &mpa_tuf(ctx)->guard;

	mpa_guard_idle(ctx);
	memcpy(guard->before, guard->tail, sizeof(guard->before));
	guard->nr_before = guard->nr_tail;
	guard->nr_tail = 0;
	/*
	 * Start after the first octet of the key in the FPDU's own header, so as not to
	 * find that key.
	 */
	if (!mpa_guard_added(ctx, fpdu->ulpdu_len, fpdu->len - TUF_LENGTH_LEN - 1) ||
	    fpdu->len <= ctx->tx.slot.emss)
		return;
	/*
	 * The buffer contains only this FPDU. Choose where to cut it, as TCP might cut
	 * it at any octet.
	 */
	ctx->tx.out->piece = mpa_guard_piece;
	ctx->tx.out->split = 0;
}

/*
 * Whether to send a segment without its last octet, as a receiver would mistake the
 * segment for an FPDU. @head: the segment's first TUF_HEADER_LEN octets. @begins:
 * whether it begins with an FPDU, if known. @fixed: its length cannot be changed.
 * Context: socket lock held, maybe in softirq.
 */
bool mpa_guard_segment(struct sock *sk, const u8 *head, u32 seq, u32 len,
		       enum mpa_begins begins, bool fixed)
{
	struct mpa_tuf *tuf = mpa_tuf(mpa_ctx(sk));

	if (!mpa_guard_passes(tuf, head, len))
		return false;
	if (begins == MPA_BEGINS_FPDU) {
		tuf->contained++;
		return false;
	}
	if (fixed || (begins == MPA_BEGINS_UNKNOWN &&
		      !(tuf->guard.found &&
			mpa_pos_before(seq, tuf->guard.found_end))))
		return false;
	tuf->trimmed++;
	SNMP_INC_STATS(tuf->ctx.tcp.mib, MPA_MIB_TUF_TRIMMED);
	return true;
}
