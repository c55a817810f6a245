// SPDX-License-Identifier: GPL-2.0
/*
 * Where segments start: RFC 5044 sections 4.3 to 5.1.
 *
 * TCP cuts what it is given into segments of EMSS octets, counted from the
 * beginning of an skb. So it is enough to know the tail of its queue: an FPDU
 * that fits behind it follows, one that does not begins an skb of its own.
 * What has been laid out so is written down in spans, a run of segments of one
 * size each; when segments leave, again ones included, they are compared with
 * it and counted. An FPDU starts every segment of a span, or the span says why
 * that could not be.
 */

#include <linux/mm.h>
#include <linux/slab.h>

#include "mpa.h"

#define MPA_SPANS_MIN	16
#define MPA_SPANS_KEPT	128

/**
 * struct mpa_span - octets that TCP has been given, and how it shall cut them
 * @seq:	sequence number of the first one
 * @len:	how many
 * @seg:	from one start of a segment to the next
 * @cut:	why only the first segment starts with an FPDU, or MPA_CUT_NOT
 */
struct mpa_span {
	u32	seq;
	u32	len;
	u32	seg;
	u8	cut;
};

static struct mpa_span *mpa_span(const struct mpa_align *align, u32 i)
{
	return align->span + ((align->first + i) & (align->room - 1));
}

static struct mpa_span *mpa_span_last(const struct mpa_align *align)
{
	return align->nr ? mpa_span(align, align->nr - 1) : NULL;
}

/* The span that holds an octet, by bisection: they lie in order. */
static const struct mpa_span *mpa_span_find(const struct mpa_align *align,
					    u32 seq)
{
	u32 low = 0, high = align->nr;

	while (low < high) {
		u32 mid = low + (high - low) / 2;
		const struct mpa_span *span = mpa_span(align, mid);

		if (seq - span->seq < span->len)
			return span;
		if ((s32)(seq - span->seq) < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

/**
 * mpa_align_free() - give back what was written down
 * @align:	what TCP has been given is acknowledged, or nobody uses it any more
 */
void mpa_align_free(struct mpa_align *align)
{
	kvfree(align->span);
	align->span = NULL;
	align->room = 0;
}

/* Forget what the peer has acknowledged, have room for one more. */
static int mpa_spans_reserve(struct mpa_align *align, u32 una, gfp_t gfp)
{
	struct mpa_span *span;
	u32 room, i;

	while (align->nr) {
		span = mpa_span(align, 0);
		if ((s32)(span->seq + span->len - una) > 0)
			break;
		align->first++;
		align->nr--;
	}
	/* Many have been waiting, and wait no more. */
	if (!align->nr && align->room > MPA_SPANS_KEPT)
		mpa_align_free(align);
	if (align->nr < align->room)
		return 0;

	room = max_t(u32, align->room * 2, MPA_SPANS_MIN);
	span = kvmalloc_array(room, sizeof(*span), gfp | __GFP_NOWARN);
	if (!span)
		return -ENOBUFS;
	for (i = 0; i < align->nr; i++)
		span[i] = *mpa_span(align, i);
	kvfree(align->span);
	align->span = span;
	align->room = room;
	align->first = 0;
	return 0;
}

/* The last span will not go on; equal ones side by side become one. */
static void mpa_span_close(struct mpa_align *align)
{
	struct mpa_span *last = mpa_span_last(align), *prev;

	if (!last)
		return;
	if (last->len < last->seg)
		last->seg = last->len;
	if (align->nr < 2)
		return;
	prev = mpa_span(align, align->nr - 2);
	if (last->cut || prev->cut || last->seg != prev->seg ||
	    prev->seq + prev->len != last->seq || prev->len % prev->seg)
		return;
	prev->len += last->len;
	align->nr--;
}

static void mpa_align_look(struct mpa_ctx *ctx, const struct mpa_tail *tail,
			   struct mpa_slot *slot, u32 emss)
{
	const struct mpa_span *last;

	slot->used = 0;
	slot->frags = 0;
	slot->end = false;
	slot->follow = false;
	if (!tail->open)
		return;

	last = mpa_span_last(&ctx->tx.align);
	if (!last || last->cut || last->seg != emss ||
	    last->seq + last->len != tail->end ||
	    (tail->seq - last->seq) % last->seg) {
		/* Not ours, or the MSS has changed, or TCP has cut elsewhere */
		slot->end = true;
		return;
	}
	slot->used = last->len % last->seg;
	slot->frags = tail->frags;
	slot->follow = true;
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
 * Return: 0, or -ENOBUFS.
 */
int mpa_align_begin(struct mpa_ctx *ctx, struct mpa_slot *slot, u32 emss)
{
	struct mpa_tail tail;
	u32 una;

	mpa_tcp_tail(ctx->sk, &tail, &una);
	if (mpa_spans_reserve(&ctx->tx.align, una, mpa_gfp(ctx->sk)))
		return -ENOBUFS;
	mpa_align_look(ctx, &tail, slot, emss);
	slot->emss = emss;
	slot->begun = slot->used;
	return 0;
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
	u32 emss = mpa_tcp_emss(ctx->sk);
	struct mpa_tail tail;
	u32 una;

	mpa_tcp_tail(ctx->sk, &tail, &una);
	mpa_align_look(ctx, &tail, slot, emss);
	if (slot->emss != emss)
		mpa_align_break(slot);
	slot->begun = slot->used;
	slot->used = (slot->begun + len) % slot->emss;
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
	slot->follow = false;
	slot->begun = 0;
	slot->used = 0;
	slot->frags = 0;
}

static u8 mpa_align_cut(u32 emss, u32 largest)
{
	if (largest <= emss)
		return MPA_CUT_NOT;
	/* Section 3: MULPDU is not less than 128 octets, whatever fits. */
	return emss < MPA_FPDU_OVERHEAD + MPA_MULPDU_MIN + 2 * MPA_MARKER_LEN ?
	       MPA_CUT_SMALL_MSS : MPA_CUT_OVERSIZED;
}

/**
 * mpa_align_given() - write down what TCP is about to be given
 * @ctx:	the context
 * @slot:	from mpa_align_begin(), perhaps mpa_align_break()
 * @seq:	sequence number of the first octet
 * @len:	octets
 * @largest:	octets of the largest FPDU among them
 *
 * Context: process, socket lock held.
 */
void mpa_align_given(struct mpa_ctx *ctx, const struct mpa_slot *slot,
		     u32 seq, u32 len, u32 largest)
{
	struct mpa_align *align = &ctx->tx.align;
	struct mpa_span *span;

	if (slot->follow) {
		mpa_span_last(align)->len += len;
		return;
	}
	mpa_span_close(align);
	align->nr++;
	span = mpa_span_last(align);
	span->seq = seq;
	span->len = len;
	span->seg = slot->emss;
	span->cut = mpa_align_cut(slot->emss, largest);
}

/* ---- what left ---- */

static bool mpa_align_starts(const struct mpa_span *span, u32 seq)
{
	return seq == span->seq ||
	       (!span->cut && !((seq - span->seq) % span->seg));
}

/* Segments are not what they were to be. */
static enum mpa_cut mpa_align_resized(const struct mpa_span *span,
				      const struct mpa_sent *sent)
{
	if (sent->emss == span->seg)
		return MPA_CUT_NOT;
	return sent->emss < span->seg && sent->sacks ? MPA_CUT_SACK :
						       MPA_CUT_PMTU;
}

static enum mpa_cut mpa_align_why(const struct mpa_align *align,
				  const struct mpa_span *span,
				  const struct mpa_sent *sent)
{
	if (span->cut)
		return span->cut;
	if (sent->emss >= span->seg && align->broken)
		return align->broken;
	return mpa_align_resized(span, sent) ?: MPA_CUT_OTHER;
}

/* Octets up to @end leave: what starts there begins with an FPDU, or why not */
static void mpa_align_note_end(struct mpa_align *align, u32 end,
			       const struct mpa_sent *sent)
{
	const struct mpa_span *span = mpa_span_find(align, end);

	if (!span || mpa_align_starts(span, end))
		align->broken = MPA_CUT_NOT;
	else if (sent->probe)
		align->broken = MPA_CUT_PROBE;
	else if (end == sent->window_end)
		align->broken = MPA_CUT_WINDOW;
	else if (end == align->residue)
		align->broken = MPA_CUT_RESIDUE;
	else if (!align->broken)
		align->broken = mpa_align_resized(span, sent) ?: MPA_CUT_OTHER;
}

static void mpa_align_count(struct mpa_ctx *ctx, u32 skbs, enum mpa_cut cut,
			    u32 n)
{
	ctx->tx.align.skbs += skbs;
	ctx->tx.align.segs[cut] += n;
	mpa_stat_sent(ctx->sk, skbs, cut, n);
}

/* All segments of a packet start with an FPDU, and so does what is next. */
static bool mpa_align_whole(const struct mpa_span *span, u32 seq, u32 len,
			    u32 seg)
{
	u32 at = seq - span->seq;

	return !span->cut && !(at % span->seg) &&
	       (seg == span->seg || len <= span->seg) &&
	       (at + len == span->len ||
		(at + len < span->len && !((at + len) % span->seg)));
}

static noinline void
mpa_align_sent_cut(struct mpa_ctx *ctx, const struct mpa_sent *sent)
{
	struct mpa_align *align = &ctx->tx.align;
	const struct mpa_span *span;
	enum mpa_cut cut;
	u32 at;

	for (at = 0; at < sent->len; at += sent->seg) {
		span = mpa_span_find(align, sent->seq + at);
		if (!span)
			continue;
		cut = MPA_CUT_NOT;
		if (!mpa_align_starts(span, sent->seq + at))
			cut = mpa_align_why(align, span, sent);
		mpa_align_count(ctx, !at, cut, 1);
	}
	mpa_align_note_end(align, sent->seq + sent->len, sent);
}

/**
 * mpa_align_sent() - count segments that leave
 * @ctx:	the context
 * @seq:	sequence number of the packet that TCP hands to IP
 * @len:	octets of payload
 * @seg:	octets of a segment of it
 *
 * Context: any, socket lock held.
 */
void mpa_align_sent(struct mpa_ctx *ctx, u32 seq, u32 len, u32 seg)
{
	struct mpa_align *align = &ctx->tx.align;
	const struct mpa_span *span = mpa_span_find(align, seq);
	struct mpa_sent sent;

	/* Startup frames, and what was sent before them, are no FPDUs. */
	if (!span)
		return;

	if (mpa_align_whole(span, seq, len, seg)) {
		align->broken = MPA_CUT_NOT;
		mpa_align_count(ctx, 1, MPA_CUT_NOT, DIV_ROUND_UP(len, seg));
		return;
	}
	sent.seq = seq;
	sent.len = len;
	sent.seg = seg;
	mpa_tcp_sent_how(ctx->sk, &sent);
	mpa_align_sent_cut(ctx, &sent);
}
