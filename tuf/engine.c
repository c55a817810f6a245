// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that MPA's engine calls to build and read TUF's FPDUs. The socket lock is
 * held, except in mpa_alt_show().
 */

#include <net/netlink.h>
#include <uapi/linux/mpa_netlink.h>

#include "tuf.h"

/* Write @n octets of the header or of a marker. Context: process. */
void mpa_alt_put(const struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		 const struct mpa_field_span *run, u8 *p, u32 n)
{
	if (run->field == MPA_FIELD_MARKER)
		mpa_tuf_marker_put(fpdu, run->off - run->skip, run->skip, p, n);
	else
		mpa_tuf_put_header(fpdu, mpa_tuf_const(ctx)->key.key, run->skip,
				   p, n);
}

/*
 * Whether MULPDU has changed since it was last reported, if the user has set TUF_TELL_EMSS.
 * SACK blocks do not change MULPDU.
 */
static bool mpa_tuf_changed(struct mpa_ctx *ctx, const struct mpa_tx_call *call,
			    u32 emss)
{
	u32 mulpdu = mpa_alt_mulpdu(&ctx->tx.format, emss);
	struct mpa_tuf *tuf = mpa_tuf(ctx);

	if (!tuf->report_emss || tuf->mulpdu == mulpdu || call->done ||
	    mpa_tx_open(&ctx->tx))
		return false;
	tuf->mulpdu = mulpdu;
	return true;
}

/*
 * Whether to refuse a ULPDU with EMSGSIZE, for one of these reasons (context: process):
 * - MULPDU has changed, and the user has set TUF_TELL_EMSS;
 * - no FPDU can hold ULPDUs of the length that the user has set (MPA_SEGMENT);
 * - the ULPDU does not fit a segment, and MPA_OVERSIZE is off.
 */
bool mpa_alt_oversized(struct mpa_ctx *ctx, const struct mpa_tx_call *call,
		       const struct mpa_fpdu *fpdu)
{
	const struct mpa_format *format = &ctx->tx.format;
	u32 emss = mpa_tcp_path_mss(ctx->sk, &ctx->tcp);

	if (mpa_tuf_changed(ctx, call, emss) ||
	    (call->segment > 0 &&
	     call->segment > mpa_framing_max(format, ctx->tx.pos)))
		return true;
	if (!mpa_format_aligns(format) || ctx->tx.options & BIT(MPA_OVERSIZE) ||
	    call->segment == MPA_SEGMENT_FILL)
		return false;
	return fpdu->ulpdu_len > mpa_tuf_limit(format, emss);
}

/*
 * Read a header of mpa_alt_head_len() octets, and compute the FPDU's layout. A wrong
 * key is no error here: it is certain where an FPDU received in order begins. Return:
 * MPA_HEAD_GOOD or MPA_HEAD_BAD.
 */
enum mpa_head mpa_alt_head(const struct mpa_rx *rx, u64 pos, const u8 *head,
			   struct mpa_fpdu *fpdu)
{
	const struct mpa_contain *contain = &mpa_tuf_of_rx(rx)->contain;
	u8 key[TUF_KEY_LEN];
	u32 len = mpa_tuf_get_header(&rx->format, pos, head, key);

	if (!len)
		return MPA_HEAD_BAD;
	mpa_alt_init(fpdu, pos, len, &rx->format);
	fpdu->wrong_key = contain->keyed &&
			memcmp(key, contain->key, TUF_KEY_LEN);
	/* The pointer in a marker has 16 bits, which limits FPDUs with markers. */
	if (mpa_format_markers(&rx->format) && fpdu->len > MPA_TUF_FPDU_MAX)
		return MPA_HEAD_BAD;
	return MPA_HEAD_GOOD;
}

/* Count a wrong key when the user has received the record. Context: process. */
void mpa_alt_received(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu)
{
	mpa_tuf(ctx)->wrong_key += fpdu->wrong_key;
}

/* Put the modes as netlink attributes. The socket lock is not held. */
int mpa_alt_show(struct sk_buff *skb, const struct mpa_ctx *ctx)
{
	if (nla_put_u32(skb, MPA_A_CONN_TUF_TX,
			mpa_format_mode(&ctx->tx.format)) ||
	    nla_put_u32(skb, MPA_A_CONN_TUF_RX,
			mpa_format_mode(&ctx->rx.format)))
		return -EMSGSIZE;
	return READ_ONCE(mpa_tuf_const(ctx)->contain.given_up) ?
	       nla_put_flag(skb, MPA_A_CONN_RESEGMENTED) : 0;
}
