/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engine (layer 2): sending. mpa_tx.c divides octets into FPDUs, and
 * mpa_tx_build.c builds these in a buffer. mpa_tx_queue.c makes segments start
 * with an FPDU, and passes FPDUs to TCP at once or later.
 *
 * Functions that take a struct mpa_ctx are called in process context with the
 * socket lock held, unless their comment has a "Context:".
 */
#ifndef _MPA_TX_H
#define _MPA_TX_H

#include <linux/types.h>
#include <net/mpa.h>

#include "mpa_framing.h"
#include "mpa_tcp.h"

struct iov_iter;
struct mpa_ctx;
struct msghdr;

/* Where the next FPDU goes. Lengths are in octets. */
struct mpa_slot {
	u32	emss;	/* length of a full segment */
	u32	packet;	/* length of the full segments that TCP sends as one packet */
	u32	begun;	/* used in TCP's last segment, before the FPDUs in the buffer */
	u32	used;	/* used in the last FPDU's segment; 0: the next FPDU starts a segment */
	u32	frags;	/* number of fragments of that segment's skb */
	bool	end;	/* TCP must start a segment with the next FPDU */
};

struct mpa_tx {
	struct mpa_format	format;
	bool			ended;		/* no more will be sent; read by poll(2) */
	u16			options;	/* BIT(MPA_PACKING), BIT(MPA_OVERSIZE) */
	bool			seq_known : 1;	/* @seq is valid */
	bool			rtr_due : 1;	/* see mpa_tx_rtr() */
	bool			starved;	/* a call had no memory; read by poll(2) */
	int			segment;	/* the user's MPA_SEGMENT */
	u32			seq;		/* sequence number after the octets passed to TCP */
	u32			pos;		/* stream position of the next FPDU */
	u16			pos_high;	/* upper bits of @pos */
	u16			mss_reported;	/* last path MSS reported */
	u32			ulpdu_len;	/* octets of the open ULPDU; read by poll(2) */
	u32			largest;	/* octets of the longest FPDU in @out */
	u32			same_len;	/* octets of the last FPDU */
	u32			same;		/* consecutive FPDUs of @same_len */
	u32			tail_used;	/* octets in TCP's last segment */
	u32			tail_emss;	/* EMSS for its layout; 0: its FPDU is larger */
	/*
	 * The open ULPDU, or FPDUs not yet passed to TCP: between calls, only
	 * FPDUs of a batch. Allocated for the first ULPDU.
	 */
	struct mpa_txbuf	*out;
	struct mpa_slot		slot;		/* for the FPDUs in @out */
	u32			fit_unit;	/* @unit of the last mpa_tcp_fit() */
	u32			fit_emss;	/* its result */
	u32			fit_end;	/* octets before this must keep their MSS */
	struct mpa_window	window;
	u64			ulpdus;		/* counters for MPA_INFO */
	u64			octets;
	u64			markers;
};

struct mpa_tx_call {
	struct msghdr	*msg;
	size_t		size;
	size_t		done;		/* octets of @size already in FPDUs */
	int		segment;	/* octets of a ULPDU, or MPA_SEGMENT_* */
	/* Octets that precede the call's in a ULPDU, not counted in @size and @done. */
	struct kvec	header;
	/* With MPA_SEGMENT_FILL: writes @header for each ULPDU; or NULL. */
	const struct mpa_headers *headers;
	bool		ends;		/* the last octet ends a ULPDU */
	bool		more;		/* more ULPDUs follow soon */
	bool		keep;		/* TCP may hold the octets until more follow */
	long		timeo;		/* jiffies left */
};

static inline bool mpa_tx_open(const struct mpa_tx *tx)
{
	return READ_ONCE(tx->ulpdu_len) > 0;
}

/* Whether FPDUs wait in @out for more of a batch, until the work item runs. */
static inline bool mpa_tx_queued(const struct mpa_tx *tx)
{
	return tx->out && tx->out->len;
}

/* Return the octets that precede the call's octets in its next ULPDU. */
static inline struct kvec mpa_tx_header(const struct mpa_tx *tx,
					const struct mpa_tx_call *call)
{
	if (mpa_tx_open(tx))
		return (struct kvec){ tx->out->open, tx->ulpdu_len };
	return call->header;
}

/* Whether FPDUs wait for more of a batch, in @out or in TCP. */
static inline bool mpa_tx_in_batch(const struct mpa_tx *tx)
{
	return tx->window.more || mpa_tx_queued(tx);
}

/* Whether an FPDU of @len octets fits into the last segment, or starts another. */
static inline bool mpa_align_fits(const struct mpa_tx *tx, u32 len)
{
	const struct mpa_slot *slot = &tx->slot;

	if (!slot->used || !mpa_format_aligns(&tx->format))
		return true;
	return tx->options & BIT(MPA_PACKING) && mpa_format_shares(&tx->format) &&
	       len <= slot->emss - slot->used;
}

/* Return the address of octet @at. @run: the number of contiguous octets there. */
static inline const u8 *
mpa_txbuf_at(const struct mpa_txbuf *out, u32 at, u32 *run)
{
	const struct bio_vec *frag = out->frag;

	for (; at >= frag->bv_len; frag++)
		at -= frag->bv_len;
	*run = frag->bv_len - at;
	return page_address(frag->bv_page) + frag->bv_offset + at;
}

/* Return the 64-bit stream position of the next FPDU. */
static inline u64 mpa_tx_position_now(const struct mpa_tx *tx)
{
	return (u64)tx->pos_high << 32 | tx->pos;
}

/* Extend tx->pos to 64 bits; @near is less than 2^32 octets before tx->pos. */
static inline u64 mpa_tx_position(const struct mpa_tx *tx, u64 near)
{
	return near + (u32)(tx->pos - (u32)near);
}

/* mpa_tx.c */
int mpa_tx_alloc_out(struct mpa_ctx *ctx);
int mpa_tx_frame(struct mpa_ctx *ctx, const u8 *frame, u32 len);
void mpa_tx_rtr(struct mpa_ctx *ctx);
u32 mpa_tx_mulpdu(struct mpa_ctx *ctx, u32 *emss);
u32 mpa_tx_mulpdu_now(const struct mpa_ctx *ctx);
u32 mpa_tx_acked(const struct mpa_ctx *ctx);
int mpa_tx_build_and_send(struct mpa_ctx *ctx, struct mpa_tx_call *call);
void mpa_tx_restore_options(struct mpa_ctx *ctx, bool mss);
void mpa_tx_reapply_options(struct mpa_ctx *ctx);
void mpa_tx_reset(struct mpa_ctx *ctx);
void mpa_tx_begin(struct mpa_ctx *ctx);
void mpa_tx_drop(struct mpa_ctx *ctx);
void mpa_tx_free(struct mpa_ctx *ctx);

/* mpa_tx_build.c */
void mpa_txbuf_reset(struct mpa_txbuf *out);
u8 *mpa_txbuf_span(struct mpa_ctx *ctx, struct page_frag *page, u32 len);
int mpa_txbuf_commit(struct mpa_txbuf *out, struct page_frag *page, u32 len);
int mpa_build(struct mpa_ctx *ctx, const struct mpa_tx_call *call,
	      struct mpa_fpdu *fpdu, u32 max);
int mpa_build_more(struct mpa_ctx *ctx, struct iov_iter *from, u32 n);

/* mpa_tx_queue.c */
void mpa_align_begin(struct mpa_ctx *ctx, u32 emss);
void mpa_align_break(struct mpa_tx *tx);
void mpa_tx_drop_out(struct mpa_ctx *ctx);
int mpa_tx_hand_over(struct mpa_ctx *ctx, enum mpa_push push);
int mpa_tx_flush(struct mpa_ctx *ctx, enum mpa_push push);
bool mpa_tx_may_queue(const struct mpa_tx *tx);
void mpa_tx_queue_batch(struct mpa_ctx *ctx);
int mpa_tx_flush_queued(struct mpa_ctx *ctx, enum mpa_push push);
void mpa_tx_retry(struct mpa_ctx *ctx);
void mpa_tx_end_call(struct mpa_ctx *ctx, bool more);
void mpa_tx_end_batch(struct mpa_ctx *ctx, bool more);

#endif /* _MPA_TX_H */
