// SPDX-License-Identifier: GPL-2.0
/*
 * FPDUs out of order: RFC 5044 section 6 and appendix A.3.
 *
 * While octets are missing, the octets after the gap are in TCP's out-of-order queue,
 * in contiguous islands. FPDUs found there are recorded as runs (struct mpa_run),
 * sorted by stream position.
 *
 * Records in order are delivered first. When the gap before a run is filled, the run's
 * delivered octets are skipped, and the record after them becomes the current one.
 *
 * Section 8 applies to octets in order only: a bad FPDU here does not end the half
 * connection. The bad FPDU and all octets after it are delivered in order only.
 */

#include <trace/events/mpa.h>

#include "mpa.h"

static_assert(sizeof(struct mpa_place) <= 2 * 4096);

/* ---- runs ---- */

/* Return the stream position before which all octets have arrived. */
static u32 mpa_place_ordered(const struct mpa_ctx *ctx)
{
	return mpa_tcp_rcv_nxt(ctx->sk) - ctx->rx.seq;
}

/* Return the number of runs that begin at or before a stream position. */
static u32 mpa_place_find(const struct mpa_place *place, u32 pos)
{
	u32 i = place->nr;

	while (i && mpa_pos_before(pos, place->run[i - 1].start))
		i--;
	return i;
}

static void mpa_place_remove(struct mpa_place *place, u32 i, u32 nr)
{
	struct mpa_run *run = place->run + i;

	/* If all entries were in use, search again for FPDUs that had no entry. */
	place->again |= mpa_place_full(place);
	place->nr -= nr;
	memmove(run, run + nr, (place->nr - i) * sizeof(*run));
	if (place->low > i)
		place->low -= min(nr, place->low - i);
}

/* Insert an empty run before run @i. Return: false if all entries are in use. */
static bool mpa_place_insert(struct mpa_place *place, u32 i, u32 start, u8 scanned)
{
	struct mpa_run *run = place->run + i;

	if (mpa_place_full(place))
		return false;
	memmove(run + 1, run, (place->nr - i) * sizeof(*run));
	*run = (struct mpa_run){
		.start = start, .placed = start, .end = start, .scanned = scanned,
	};
	place->nr++;
	if (place->low >= i)
		place->low++;
	return true;
}

/* Join runs @i and @i + 1 if they touch and the delivered records stay contiguous. */
static bool mpa_place_merge(struct mpa_place *place, u32 i)
{
	struct mpa_run *run = place->run + i, *next = run + 1;

	if (i + 1 == place->nr || run->end != next->start || run->waits)
		return false;
	if (next->placed != next->start) {
		if (run->placed != run->end)
			return false;
		run->placed = next->placed;
	}
	run->end = next->end;
	run->held = next->held;
	run->scanned = next->scanned;
	run->records += next->records;
	run->waits = next->waits;
	mpa_place_remove(place, i + 1, 1);
	place->low = min(place->low, i);
	return true;
}

static void mpa_place_stop(struct mpa_place *place, u32 pos)
{
	if (!place->stops || mpa_pos_before(pos, place->stop))
		place->stop = pos;
	place->stops = true;
}

/* Whether an error at or before @pos prevents delivery out of order there. */
static bool mpa_place_stopped(const struct mpa_place *place, u32 pos)
{
	return place->stops && !mpa_pos_before(pos, place->stop);
}

/* Forget the run's undelivered records. */
static void mpa_place_cut(struct mpa_run *run)
{
	run->end = run->placed;
	run->held = 0;
	run->scanned = 0;
}

static void mpa_place_grow(struct mpa_run *run, const struct mpa_fpdu *fpdu)
{
	run->end += fpdu->len;
	run->held -= min_t(u32, run->held, fpdu->len);
	run->scanned -= min_t(u32, run->scanned, fpdu->markers);
}

/* ---- changes in TCP's queues ---- */

/* Search again: the next record to deliver was pruned, or has changed. */
void mpa_place_changed(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;

	mpa_place_cut(place->run + place->low);
	place->again = true;
	mpa_schedule_work(ctx, 0);
}

/*
 * Set place->low to the first run with an undelivered record. Forget undelivered
 * records that are in order now, or that TCP has pruned. It is enough to check for
 * their first and last octet: TCP prunes from the end, and mpa_place_first() checks the
 * next record.
 */
static void mpa_place_trim(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;
	u32 ordered = mpa_place_ordered(ctx);

	for (; place->low < place->nr; place->low++) {
		struct mpa_run *run = place->run + place->low;

		if (run->placed == run->end)
			continue;
		if (mpa_pos_before(ordered, run->placed)) {
			if (mpa_ooo_holds(ctx->sk, ctx->rx.seq + run->placed) &&
			    mpa_ooo_holds(ctx->sk, ctx->rx.seq + run->end - 1))
				return;
			SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_RX_PRUNED);
			mpa_place_changed(ctx);
		} else {
			mpa_place_cut(run);
		}
	}
}

/* ---- the gap is filled ---- */

/* Remove runs that are in order now, and skip their delivered records. */
void mpa_place_pass(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;
	struct mpa_record *cur = &ctx->rx.cur;
	const struct mpa_run *run;
	u32 nr;

	for (nr = 0; nr < place->nr; nr++) {
		run = place->run + nr;
		if (mpa_pos_before(cur->pos, run->start))
			break;
		if (run->start != (u32)cur->pos)
			continue;
		/* The run's first FPDU is the current one. */
		if (run->placed == run->start)
			break;
		cur->pos += run->placed - run->start;
		place->ahead -= run->records;
	}
	if (nr)
		mpa_place_remove(place, 0, nr);
	if (place->stops && mpa_pos_before(place->stop, cur->pos)) {
		place->stops = false;
		place->again = true;
	}
	if (place->again)
		mpa_schedule_work(ctx, 0);
}

/* ---- delivery ---- */

/* Whether a record can be delivered out of order. Call only with @ctx->rx.place. */
bool mpa_place_ready(struct mpa_ctx *ctx)
{
	const struct mpa_place *place = ctx->rx.place;

	if (mpa_failed(ctx, MPA_RX))
		return false;
	mpa_place_trim(ctx);
	return place->low < place->nr &&
	       !mpa_place_stopped(place, place->run[place->low].placed);
}

/*
 * Get the first undelivered record out of order, after mpa_place_ready(). Return: the
 * number of octets of this record and the contiguous ones after it, or 0 if TCP no
 * longer has the record.
 */
u32 mpa_place_first(struct mpa_ctx *ctx, struct mpa_cursor *at,
		    struct mpa_fpdu *fpdu)
{
	const struct mpa_place *place = ctx->rx.place;
	const struct mpa_run *run = place->run + place->low;
	u32 have = run->end - run->placed;

	mpa_cursor_begin(at, ctx->sk, ctx->rx.seq + run->placed);
	if (mpa_read_head(&ctx->rx, at, have, run->placed, fpdu) ==
	    MPA_HEAD_GOOD && fpdu->len <= have &&
	    !(mpa_alt_fpdu(fpdu) && fpdu->wrong_key))
		return have;
	mpa_place_changed(ctx);
	return 0;
}

/*
 * Let a record be delivered in order, as the user's buffer is too short or a kernel
 * user has refused the record. Records after it are still delivered out of order.
 */
void mpa_place_refuse(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu)
{
	struct mpa_place *place = ctx->rx.place;
	struct mpa_run *run = place->run + place->low;
	u32 next = run->placed + fpdu->len;
	struct mpa_run all = *run;

	mpa_place_cut(run);
	run->waits = true;
	if (place->low + 1 < place->nr && run[1].start == next)
		return;
	/* If all entries are in use, a later search finds @next by a marker. */
	if (mpa_place_insert(place, place->low + 1, next, all.scanned)) {
		run[1].end = all.end;
		run[1].held = all.held;
		run[1].waits = all.waits;
	}
}

/* Record that @fpdu and @more after it were delivered out of order. */
void mpa_place_advance(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		       const struct mpa_rx_more *more)
{
	struct mpa_place *place = ctx->rx.place;
	struct mpa_run *run = place->run + place->low;
	u32 nr = 1 + more->ulpdus;

	if (mpa_tapped(ctx))
		__mpa_tap_placed(ctx, fpdu);
	trace_mpa_placed(ctx->sk, mpa_rx_position(&ctx->rx, fpdu->pos), nr,
			 fpdu->ulpdu_len + more->octets,
			 fpdu->markers + more->markers);
	run->placed += fpdu->len + more->len;
	run->records += nr;
	place->ahead += nr;
	ctx->rx.placed += nr;
	SNMP_ADD_STATS(ctx->tcp.mib, MPA_MIB_RX_PLACED, nr);
	mpa_count_received(ctx, nr, fpdu->ulpdu_len + more->octets,
			   fpdu->markers + more->markers);
	if (run->placed == run->end)
		mpa_place_merge(place, place->low);
	/* This happens if octets before the run were pruned, and have arrived again. */
	if (place->run->start == (u32)ctx->rx.cur.pos)
		mpa_place_pass(ctx);
	else if (place->again)
		mpa_schedule_work(ctx, 0);
}

/* Return how many of @len octets from @pos on precede the first delivered record. */
u32 mpa_place_gap(const struct mpa_place *place, u32 pos, u32 len)
{
	const struct mpa_run *run;

	for (run = place->run; run < place->run + place->nr; run++) {
		if (!mpa_pos_before(run->start, pos + len))
			break;
		if (run->placed != run->start)
			return run->start - pos;
	}
	return len;
}

/* ---- the option ---- */

/*
 * Deliver no more records out of order. Keep the runs of delivered records, so that no
 * record is delivered twice.
 */
static void mpa_place_end(struct mpa_place *place)
{
	u32 i = 0;

	while (i < place->nr) {
		struct mpa_run *run = place->run + i;

		mpa_place_cut(run);
		run->waits = false;
		if (run->placed == run->start)
			mpa_place_remove(place, i, 1);
		else
			i++;
	}
	place->low = place->nr;
	place->again = false;
	place->stops = false;
}

/*
 * Whether FPDUs can be found after a gap. RFC 5044 section 6 requires markers and CRCs.
 * TUF with a key has the containment test instead; the key may be set later.
 */
static bool mpa_place_supported(const struct mpa_format *format)
{
	if (mpa_alt_format(format))
		return mpa_format_contained(format) ||
		       mpa_format_markers(format);
	return format->marked && format->crc;
}

/*
 * Search the whole out-of-order queue. @forget: forget undelivered records first, as
 * they may not be valid. Process context.
 */
void mpa_place_search_again(struct mpa_ctx *ctx, bool forget)
{
	if (forget)
		mpa_place_end(ctx->rx.place);
	ctx->rx.place->again = true;
	mpa_schedule_work(ctx, 0);
}

/*
 * Turn delivery out of order on or off. Call only in MPA_STATE_FULL. Context: process.
 * Return: 0; -EINVAL without markers or CRCs; -ENOBUFS without memory, or if
 * net.core.optmem_max is reached.
 */
int mpa_place_set(struct mpa_ctx *ctx, bool on)
{
	struct mpa_rx *rx = &ctx->rx;

	if (on && !mpa_place_supported(&rx->format))
		return -EINVAL;
	if (on && !rx->place)
		rx->place = sock_kmalloc(ctx->sk, sizeof(*rx->place),
					 mpa_gfp(ctx->sk) | __GFP_ZERO);
	if (!rx->place)
		return on ? -ENOBUFS : 0;
	mpa_place_end(rx->place);
	mpa_tcp_ooo_track(ctx->sk, on && mpa_tcp_has_sack(ctx->sk));
	if (on)
		mpa_place_search_again(ctx, false);
	return 0;
}

/*
 * Forget all runs before stream positions restart at 0. All records that were delivered
 * out of order are in order now. Keep the memory, as the user may often switch framing
 * on and off. Process context.
 */
void mpa_place_clear(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;

	if (!place)
		return;
	mpa_place_set(ctx, false);
	place->nr = 0;
	place->low = 0;
}

/* Context: socket lock held, or nobody else can reach the socket. */
void mpa_place_free(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;

	if (!place)
		return;
	mpa_tcp_ooo_track(ctx->sk, false);
	ctx->rx.place = NULL;
	sock_kfree_s(ctx->sk, place, sizeof(*place));
}

/*
 * ---- finding ----
 *
 * An FPDU after a gap is found in one of two ways (section 6):
 * - by a marker, whose stream position is known, and which points to the start of
 *   the FPDU;
 * - by the ULPDU_Length of the preceding FPDU, if the CRC of that FPDU is good.
 * Without TUF's key no other way is safe: the first octets after a gap may be within a
 * ULPDU and look like an FPDU.
 *
 * After a segment arrives, only octets contiguous with it are searched, and of these
 * only octets not searched before. The search first extends the run before the segment,
 * then reads the markers after that run.
 */

/* Maximum number of octets to verify in one search. */
#define MPA_PLACE_OCTETS_SOFTIRQ	(2 * MPA_FPDU_MAX)
#define MPA_PLACE_OCTETS_WORK		(16 * MPA_FPDU_MAX)

/* Maximum number of skbs to inspect in softirq. A peer can send skbs of one octet. */
#define MPA_PLACE_SKBS_SOFTIRQ		128

struct mpa_search {
	struct mpa_ctx *ctx;
	u32 octets;	/* number of octets that may still be verified */
	u32 skbs;	/* number of skbs that may still be inspected */
	bool found;	/* records to deliver were found */
};

/* Whether the FPDU after run @i ends at or before the start of the next run. */
static bool mpa_search_fits(const struct mpa_place *place, u32 i, u32 len)
{
	const struct mpa_run *run = place->run + i;

	return i + 1 == place->nr || len <= run[1].start - run->end;
}

/* Handle missing or unreadable octets after @run. Return: whether run->held was wrong. */
static bool mpa_search_dropped(struct mpa_place *place, struct mpa_run *run)
{
	if (!run->held)
		return false;
	run->held = 0;
	place->again = true;
	return true;
}

/* Verify the FPDU after run @i, in @avail contiguous octets. Return: whether it is good. */
static bool mpa_search_verify(struct mpa_search *search, u32 i,
			      struct mpa_cursor *at, u32 avail)
{
	struct mpa_place *place = search->ctx->rx.place;
	const struct mpa_rx *rx = &search->ctx->rx;
	struct mpa_run *run = place->run + i;
	struct mpa_fpdu fpdu;
	enum mpa_error code;

	switch (mpa_read_head(rx, at, avail, run->end, &fpdu)) {
	case MPA_HEAD_MORE:
		/* The search's limit is reached: the work item continues. */
		if (avail >= search->octets)
			place->again = true;
		else if (avail >= MPA_FPDU_HEAD_MAX)
			mpa_search_dropped(place, run);
		return false;
	case MPA_HEAD_BAD:
		mpa_place_stop(place, run->end);
		return false;
	case MPA_HEAD_GOOD:
		break;
	}
	/* Do not trust an FPDU with a wrong key. */
	if (!mpa_search_fits(place, i, fpdu.len) || fpdu.wrong_key) {
		mpa_place_stop(place, run->end);
		return false;
	}
	if (fpdu.len > search->octets)
		place->again = true;
	if (fpdu.len > search->octets || fpdu.len > avail)
		return false;
	search->octets -= fpdu.len;
	if (mpa_read_fpdu(rx, at, &fpdu, NULL, 0, &code) || code) {
		if (code != MPA_ERR_TCP || !mpa_search_dropped(place, run))
			mpa_place_stop(place, run->end);
		return false;
	}
	mpa_place_grow(run, &fpdu);
	return true;
}

/* Whether the next run begins where run @i ends, but the two cannot be joined yet. */
static bool mpa_search_touches(const struct mpa_place *place, u32 i)
{
	const struct mpa_run *run = place->run + i;

	return i + 1 < place->nr && run->end == run[1].start;
}

/*
 * Return the number of contiguous octets after a run. Octets counted before (run->held)
 * are not inspected again: if a peer sends single octets, each would cost a walk of all
 * octets before it.
 */
static u32 mpa_search_contiguous(struct mpa_search *search, struct mpa_run *run)
{
	u32 held = min_t(u32, run->held, search->octets);

	held += mpa_tcp_ooo_contiguous(search->ctx->sk,
				       search->ctx->rx.seq + run->end + held,
				       search->octets - held, &search->skbs);
	run->held = clamp_t(u32, held, run->held, U16_MAX);
	return held;
}

static void mpa_search_extend(struct mpa_search *search, u32 i)
{
	struct mpa_place *place = search->ctx->rx.place;
	struct mpa_run *run = place->run + i;
	struct sock *sk = search->ctx->sk;
	struct mpa_cursor at;
	u32 avail, end;

	do {
		if (run->waits || mpa_search_touches(place, i) ||
		    mpa_place_stopped(place, run->end) ||
		    !mpa_pos_before(mpa_place_ordered(search->ctx), run->end))
			return;
		mpa_cursor_begin(&at, sk, search->ctx->rx.seq + run->end);
		avail = mpa_search_contiguous(search, run);
		for (end = run->end; avail; end = run->end) {
			if (!mpa_search_verify(search, i, &at, avail))
				return;
			avail -= run->end - end;
			search->found = true;
			place->low = min(place->low, i);
			if (mpa_place_merge(place, i))
				break;
			if (mpa_search_touches(place, i))
				return;
		}
	} while (avail);
}

/* Whether the marker at @pos, after @before runs, points to @start, where no FPDU can start. */
static bool mpa_search_disagrees(const struct mpa_search *search, u32 before,
				 u32 pos, u32 known, u32 start)
{
	const struct mpa_place *place = search->ctx->rx.place;

	if (!mpa_format_forward(&search->ctx->rx.format))
		return mpa_pos_before(start, known);
	return mpa_pos_before(start, pos) ||
	       (before < place->nr &&
		mpa_pos_before(place->run[before].start, start));
}

/* Whether an FPDU is known to start at @start. TUF's markers may point to the next run. */
static bool mpa_search_known(const struct mpa_search *search, u32 before,
			     u32 known, u32 start)
{
	const struct mpa_place *place = search->ctx->rx.place;

	if (start == known)
		return before;
	return mpa_format_forward(&search->ctx->rx.format) && before < place->nr &&
	       start == place->run[before].start;
}

static u32 mpa_search_points_to(const struct mpa_rx *rx, u32 pos,
				const u8 *marker)
{
	if (mpa_format_forward(&rx->format))
		return mpa_alt_marker_fpdu(&rx->format, pos, marker);
	return mpa_marker_fpdu(pos, mpa_marker_get(marker));
}

/*
 * Read the markers from @pos to @limit, after @before runs. Start a run where a marker
 * points to an unknown FPDU. Return: the stream position at which to continue.
 */
static u32 mpa_search_markers(struct mpa_search *search, u32 before, u32 pos,
			      u32 limit)
{
	struct mpa_place *place = search->ctx->rx.place;
	struct mpa_run *run = before ? place->run + before - 1 : NULL;
	const struct mpa_rx *rx = &search->ctx->rx;
	const u32 interval = mpa_format_interval(&rx->format);
	u32 known = run ? run->end : (u32)rx->cur.pos, start;
	/* Position of the first unread marker after the run. */
	u32 first = known + (-known & (interval - 1));
	u8 pieces[MPA_MARKER_LEN];
	struct mpa_cursor at;
	const u8 *marker;

	if (run)
		first += run->scanned * interval;
	pos += -pos & (interval - 1);
	if (mpa_pos_before(pos, first))
		pos = first;
	if (mpa_pos_before(limit, pos + MPA_MARKER_LEN))
		return limit;
	mpa_cursor_begin(&at, search->ctx->sk, rx->seq + pos);
	for (; !mpa_pos_before(limit, pos + MPA_MARKER_LEN);
	     pos += interval) {
		mpa_cursor_skip(&at, rx->seq + pos - at.seq);
		marker = mpa_read_peek(&at, pieces, MPA_MARKER_LEN);
		if (mpa_place_stopped(place, pos) || !marker)
			return limit;
		start = mpa_search_points_to(rx, pos, marker);
		if (mpa_search_known(search, before, known, start)) {
			/* The next run begins at @start: all markers up to there point to it. */
			if (start != known)
				return limit;
			if (run)
				run->scanned += min_t(u32, U8_MAX - run->scanned,
						      (pos - first) / interval + 1);
			first = pos + interval;
			continue;
		}
		if (mpa_search_disagrees(search, before, pos, known, start)) {
			mpa_place_stop(place, pos);
			return limit;
		}
		if (!mpa_place_insert(place, before, start,
				      mpa_format_forward(&rx->format) ?
				      0 : (pos - start) / interval + 1))
			return limit;
		/* Continue here: TUF's run may begin after @limit. */
		mpa_search_extend(search, before);
		return pos + MPA_MARKER_LEN;
	}
	return limit;
}

/*
 * TUF with a key: search contiguous octets, some of which are new. A segment begins at
 * @pos. It may be one FPDU, or follow a run.
 */
static void mpa_search_contained(struct mpa_search *search, u32 pos, u32 end)
{
	struct mpa_place *place = search->ctx->rx.place;
	u32 i = mpa_place_find(place, pos);

	if (i)
		mpa_search_extend(search, i - 1);
	i = mpa_place_find(place, pos);
	/*
	 * Test only if no run reaches @pos. If @pos is before the current record, the
	 * octets were delivered, pruned, and received again.
	 */
	if (!mpa_pos_before(pos, search->ctx->rx.cur.pos) &&
	    (!i || mpa_pos_before(place->run[i - 1].end, pos)) &&
	    !mpa_place_stopped(place, pos) &&
	    mpa_contain_test(search->ctx, pos) &&
	    mpa_place_insert(place, i, pos, 0))
		i++;
	/* Extend also later runs up to @end, as the new octets may join islands. */
	for (i -= !!i; i < place->nr &&
	     mpa_pos_before(place->run[i].start, end); i++)
		mpa_search_extend(search, i);
}

static void mpa_search_scan(struct mpa_search *search,
			    const struct mpa_island *island)
{
	struct mpa_place *place = search->ctx->rx.place;
	u32 pos = island->start - search->ctx->rx.seq;
	u32 end = island->end - search->ctx->rx.seq;
	u32 before, limit;

	if (mpa_format_contained(&search->ctx->rx.format)) {
		mpa_search_contained(search, pos, end);
		return;
	}
	while (mpa_pos_before(pos, end)) {
		before = mpa_place_find(place, pos);
		if (before)
			mpa_search_extend(search, before - 1);
		limit = end;
		if (before < place->nr &&
		    mpa_pos_before(place->run[before].start, end))
			limit = place->run[before].start;
		pos = mpa_search_markers(search, before, pos, limit);
	}
}

static void mpa_search_finish(const struct mpa_search *search)
{
	struct mpa_ctx *ctx = search->ctx;

	if (!search->octets || !search->skbs)
		ctx->rx.place->again = true;
	if (ctx->rx.place->again)
		mpa_schedule_work(ctx, 0);
	mpa_rx_update(ctx);
	if (search->found && mpa_place_ready(ctx))
		mpa_wake_reader(ctx);
}

/* Whether to search. Without SACK each segment would cost a walk of the whole queue. */
static bool mpa_search_enabled(const struct mpa_ctx *ctx)
{
	return mpa_rx_places(&ctx->rx) && !mpa_failed(ctx, MPA_RX) &&
	       (!mpa_alt(ctx) || mpa_contain_possible(ctx)) &&
	       ctx->state == MPA_STATE_FULL && !ctx->closing &&
	       mpa_tcp_has_sack(ctx->sk) && !mpa_tcp_gone(ctx->sk);
}

/* Search octets that have just arrived out of order. Maybe in softirq. */
void mpa_search_newest(struct mpa_ctx *ctx)
{
	struct mpa_search search = {
		.ctx = ctx, .octets = MPA_PLACE_OCTETS_SOFTIRQ,
		.skbs = MPA_PLACE_SKBS_SOFTIRQ,
	};
	struct mpa_island island;

	if (!mpa_search_enabled(ctx) || !mpa_tcp_ooo_new(ctx->sk))
		return;
	mpa_place_trim(ctx);
	/* A marker may have arrived in two pieces: include octets next to the newest. */
	if (mpa_tcp_ooo_newest(ctx->sk, MPA_MARKER_LEN - 1, &island))
		mpa_search_scan(&search, &island);
	else
		ctx->rx.place->again = true;
	mpa_search_finish(&search);
}

/* Search octets that mpa_search_newest() has left. Process context. */
void mpa_search_walk(struct mpa_ctx *ctx)
{
	struct mpa_search search = {
		.ctx = ctx, .octets = MPA_PLACE_OCTETS_WORK, .skbs = U32_MAX,
	};
	struct mpa_island island;
	u32 seq;

	if (!ctx->rx.place || !ctx->rx.place->again)
		return;
	ctx->rx.place->again = false;
	if (!mpa_search_enabled(ctx))
		return;
	mpa_tcp_ooo_new(ctx->sk);
	mpa_place_trim(ctx);
	ctx->rx.place->again = false;
	for (seq = mpa_tcp_rcv_nxt(ctx->sk);
	     !ctx->rx.place->again && mpa_tcp_ooo_next(ctx->sk, seq, &island);
	     seq = island.end) {
		mpa_search_scan(&search, &island);
		cond_resched();
	}
	mpa_search_finish(&search);
}

/* Queue a search when octets have arrived out of order. */
void mpa_search_arrived(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	/* Note segments even if the key is not known yet. */
	if (mpa_rx_places(&ctx->rx) && mpa_format_contained(&ctx->rx.format))
		mpa_contain_note(ctx);
	if (!mpa_search_enabled(ctx))
		return;
	ctx->rx.place->again = true;
	mpa_schedule_work(ctx, 0);
}
