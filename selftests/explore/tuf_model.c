// SPDX-License-Identifier: GPL-2.0
/* TUF's octets: built for the peer to send, and parsed once they are received. */

#include "tuf.h"
#include "../unit/tuf_model.h"

#define FPDU_MAX	(65536 + 70000)

static u32 rx_period(const struct world *w)
{
	return w->rx_mode == TUF_MARKERS ? w->rx_period : 0;
}

/* Build an FPDU, contiguous, as on the wire. */
u32 tuf_fpdu(const struct world *w, u64 position, const u8 *octets, u32 len,
	     const u8 *key, u8 *fpdu)
{
	static struct model_octet made[FPDU_MAX];
	struct model_sender sender = { .position = position, .octets = made };
	struct tuf_model_framing framing = { .period = rx_period(w) };
	struct model_fpdu layout;
	u32 i;

	memcpy(framing.key, key, TUF_KEY_LEN);
	tuf_model_send(&framing, &sender, octets, len, &layout);
	for (i = 0; i < sender.count; i++)
		fpdu[i] = made[i].value;
	return sender.count;
}

/*
 * Whether a marker in the received part of an FPDU is wrong. The error may be reported
 * before the rest arrives, or after.
 */
static bool marked_wrongly(const struct tuf_model_framing *framing,
			   const struct model_receiver *from, u32 len)
{
	u64 end = tuf_model_octets(framing, from->position, len), at;
	u32 say;

	for (at = 0; at + 4 <= from->count && at < end; at++) {
		const u8 *p = from->octets + at;

		if ((from->position + at) % framing->period)
			continue;
		say = p[0] << 8 | p[1];
		if (memcmp(p, p + 2, 2) || (!at && say) ||
		    (at && at + 4 + say != end && at + say != end))
			return true;
	}
	return false;
}

/* Copy an FPDU's ULPDUs to @to. @from is advanced past the FPDU if it is whole. */
static enum verdict take_fpdu(struct tuf_model_framing *framing,
			      struct model_receiver *from, u8 *to, u32 *len)
{
	struct model_receiver before = *from;
	size_t n = 0;

	if (!from->count)
		return NOTHING;
	switch (tuf_model_receive(framing, from, to, &n)) {
	case MODEL_GOOD:
		*len = n;
		return WHOLE;
	case MODEL_SHORT:
		return framing->period && n && marked_wrongly(framing, &before, n) ?
		       BAD_PART : PART;
	default:
		return BAD;
	}
}

enum verdict receive(struct world *w, const u8 *octets, u32 count)
{
	struct tuf_model_framing framing = { .period = rx_period(w) };
	struct model_receiver from = {
		.position = w->cur_at, .octets = octets, .count = count,
	};
	enum verdict verdict;

	verdict = take_fpdu(&framing, &from, w->cur, &w->cur_len);
	w->cur_wire = from.position - w->cur_at;
	return verdict;
}

/* ---- sending ---- */

/* Check that the FPDU ends with a ULPDU, and packs none sent with packing off. */
static void judge_packed(const struct world *w, u32 at, u32 len)
{
	u32 i;

	if (!(w->mark[at + len - 1] & (MARK_END | MARK_CUT)))
		violated("an FPDU of %u octets ends inside a ULPDU", len);
	for (i = at + 1; i < at + len; i++)
		if (w->mark[i] & MARK_ALONE)
			violated("a ULPDU was packed, and packing is off");
}

/* Compare an FPDU with the octets sent from @at on. */
static void judge_fpdu(struct world *w, struct span *span, u32 at, u32 left,
		       const u8 *ulpdu, u32 len, const u8 *key)
{
	if (!span->keyed) {
		span->keyed = true;
		memcpy(span->key, key, TUF_KEY_LEN);
	}
	if (memcmp(key, span->key, TUF_KEY_LEN))
		violated("an FPDU was sent with another key");
	else if (len > left || memcmp(ulpdu, w->sent + at, len))
		violated("octets sent in an FPDU are not those that were given");
	else
		judge_packed(w, at, len);
}

/* Check the FPDUs of octets @at to @to. Return: how many of these octets have arrived. */
static u32 judge_fpdus(struct world *w, struct span *span, u32 at, u32 to,
		       u32 *got)
{
	struct tuf_model_framing framing = {
		.period = span->mode == TUF_MARKERS ? span->period : 0,
	};
	struct model_receiver from = {
		.octets = w->got + *got, .count = w->got_len - *got,
	};
	u32 begin = *got, first = at, len;
	static u8 ulpdu[70000];
	enum verdict verdict;

	while (at < to && !violation[0]) {
		verdict = take_fpdu(&framing, &from, ulpdu, &len);
		if (verdict == NOTHING || verdict == PART)
			break;
		if (verdict != WHOLE) {
			violated("an FPDU was sent whose Length or markers are wrong");
			break;
		}
		judge_fpdu(w, span, at, to - at, ulpdu, len, framing.key);
		at += len;
		if (span->mode == TUF_ALIGN) {
			memset(w->wire + *got, WIRE_INSIDE,
			       begin + from.position - *got);
			w->wire[*got] = WIRE_BEGIN;
		}
		*got = begin + from.position;
	}
	/* The next octet begins a segment, too. */
	if (at == to && span != span_now(w) && span->mode == TUF_ALIGN &&
	    *got < w->got_len)
		w->wire[*got] = WIRE_BEGIN;
	return at - first;
}

/* As judge_fpdus(), for octets without a header. */
static u32 judge_bare(struct world *w, const struct span *span, u32 at, u32 to,
		      u32 *got)
{
	u32 n = to - at, i;

	if (n > w->got_len - *got)
		n = w->got_len - *got;
	if (memcmp(w->got + *got, w->sent + at, n))
		violated("octets sent in mode %u are not those that were given",
			 span->mode);
	for (i = 0; i < n; i++)
		if (w->mark[at + i] & MARK_SEGMENT)
			w->wire[*got + i] = WIRE_BEGIN;
	*got += n;
	return n;
}

/*
 * Check sent octets. @all: the connection is good, so none may be missing. Return: the
 * number of missing octets.
 */
u32 judge_sent(struct world *w, bool all)
{
	u32 i, got = 0, missing = 0, n, to, open = w->open;

	memset(w->wire, WIRE_PLAIN, w->got_len);
	for (i = 0; i < w->nspans && !violation[0]; i++) {
		struct span *span = w->spans + i;

		to = i + 1 < w->nspans ? span[1].from : w->sent_len - open;
		if (to <= span->from)
			continue;
		if (span->mode == TUF_ALIGN || span->mode == TUF_MARKERS)
			n = judge_fpdus(w, span, span->from, to, &got);
		else
			n = judge_bare(w, span, span->from, to, &got);
		missing += to - span->from - n;
		if (missing)
			break;
	}
	if (all && missing)
		violated("%u octets that were accepted have not come", missing);
	if (!violation[0] && !missing && got < w->got_len && (all || !w->job))
		violated("%u octets came that nobody gave", w->got_len - got);
	return missing;
}
