// SPDX-License-Identifier: GPL-2.0
/*
 * FPDUs out of order: RFC 5044 section 6 and appendix A.3.
 *
 * While octets are missing, those after the gap are in TCP's out-of-order
 * queue, in contiguous islands. The FPDUs found there are recorded as sorted
 * runs of stream positions (struct mpa_run).
 *
 * Records in order are delivered first. When the gap before a run is filled,
 * its delivered octets are consumed without being read, and the record after
 * them becomes the current one.
 *
 * Section 8 applies to octets in order only: a bad FPDU here does not end the
 * half connection. It and all octets after it are delivered in order only.
 */

#include <trace/events/mpa.h>

#include "mpa.h"

static_assert(sizeof(struct mpa_place) <= 2 * 4096);

/* ---- runs ---- */

/* Return: the stream position before which all octets have arrived. */
static u32 mpa_place_ordered(const struct mpa_ctx *ctx)
{
	return mpa_tcp_rcv_nxt(ctx->sk) - ctx->rx.seq;
}

/* Return: the number of runs that begin at or before a stream position. */
static u32 mpa_place_find(const struct mpa_place *place, u32 pos)
{
	u32 low = 0, high = place->nr, mid;

	while (low < high) {
		mid = (low + high) / 2;
		if (mpa_pos_before(pos, place->run[mid].start))
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static void mpa_place_remove(struct mpa_place *place, u32 i, u32 nr)
{
	struct mpa_run *run = place->run + i;

	/* There is room now for FPDUs left out before. */
	place->again |= place->full;
	place->full = false;
	place->nr -= nr;
	memmove(run, run + nr, (place->nr - i) * sizeof(*run));
	if (place->low > i)
		place->low -= min(nr, place->low - i);
}

/* Add a run without an FPDU. Return: false if there is no room. */
static bool mpa_place_insert(struct mpa_place *place, u32 i, u32 start, u8 scanned)
{
	struct mpa_run *run = place->run + i;

	if (place->nr == MPA_PLACE_MAX) {
		place->full = true;
		return false;
	}
	memmove(run + 1, run, (place->nr - i) * sizeof(*run));
	*run = (struct mpa_run){
		.start = start, .placed = start, .end = start, .scanned = scanned,
	};
	place->nr++;
	if (place->low >= i)
		place->low++;
	return true;
}

/* Join adjacent runs, if all delivered records are then at the start. */
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

/* Whether there is an error at or before a stream position. */
static bool mpa_place_stopped(const struct mpa_place *place, u32 pos)
{
	return place->stops && !mpa_pos_before(pos, place->stop);
}

/* End a run at @end, and forget what was found after it. */
static void mpa_place_cut(struct mpa_run *run, u32 end)
{
	run->end = end;
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

/* Whether the run has records that are neither delivered nor in order. */
static bool mpa_place_unread(const struct mpa_run *run, u32 ordered)
{
	return run->placed != run->end && mpa_pos_before(ordered, run->placed);
}

static void mpa_place_pruned(const struct mpa_ctx *ctx, struct mpa_run *run)
{
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_RX_PRUNED);
	mpa_place_cut(run, run->placed);
}

/*
 * Forget records that TCP has pruned before they were delivered; they are found
 * again if they arrive again. TCP prunes from the end: if an octet is still
 * queued, so are those before it. So this inspects one octet, and one more for
 * each pruned run. Return: whether there were any.
 */
static bool mpa_place_lost(struct mpa_ctx *ctx, const struct mpa_island *island)
{
	struct mpa_place *place = ctx->rx.place;
	u32 ordered = mpa_place_ordered(ctx), i = place->nr;
	bool lost = false;

	while (i-- > place->low) {
		struct mpa_run *run = place->run + i;
		u32 start = ctx->rx.seq + run->placed;
		u32 end = ctx->rx.seq + run->end;

		if (!mpa_place_unread(run, ordered))
			continue;
		if (island && end - island->start - 1 <
			      island->end - island->start) {
			if (!mpa_pos_before(start, island->start))
				continue;
			end = island->start;
		}
		if (mpa_ooo_holds(ctx->sk, end - 1))
			break;
		mpa_place_pruned(ctx, run);
		lost = true;
	}
	if (lost) {
		place->again = true;
		mpa_schedule_work(ctx, 0);
	}
	return lost;
}

/*
 * As mpa_place_lost(), if octets may have arrived since: look up all octets of
 * undelivered records.
 */
static void mpa_place_check(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;
	u32 ordered = mpa_place_ordered(ctx), i;

	for (i = place->low; i < place->nr; i++) {
		struct mpa_run *run = place->run + i;
		u32 n = run->end - run->placed, all = U32_MAX;

		if (mpa_place_unread(run, ordered) &&
		    mpa_tcp_ooo_contiguous(ctx->sk, ctx->rx.seq + run->placed, n,
					   &all) < n)
			mpa_place_pruned(ctx, run);
	}
}

/* Drop records that are in order now. Return: whether others were pruned. */
static bool mpa_place_trim(struct mpa_ctx *ctx, const struct mpa_island *island)
{
	struct mpa_place *place = ctx->rx.place;
	u32 last = ctx->rx.seq + place->tail - 1;
	u32 ordered = mpa_place_ordered(ctx);
	bool lost = false;

	if (place->low < place->nr && !mpa_ooo_holds(ctx->sk, last))
		lost = mpa_place_lost(ctx, island);
	for (; place->low < place->nr; place->low++) {
		struct mpa_run *run = place->run + place->low;

		if (mpa_place_unread(run, ordered))
			break;
		if (run->end != run->placed)
			mpa_place_cut(run, run->placed);
	}
	place->tail = mpa_tcp_ooo_end(ctx->sk) - ctx->rx.seq;
	return lost;
}

/* ---- the gap is filled ---- */

/* The current record has changed: advance over records already delivered. */
void mpa_place_pass(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;
	struct mpa_record *cur = &ctx->rx.cur;
	const struct mpa_run *run;
	u32 nr, octets;

	for (nr = 0; nr < place->nr; nr++) {
		run = place->run + nr;
		if (mpa_pos_before(cur->pos, run->start))
			break;
		if (run->start != (u32)cur->pos)
			continue;
		/* The run's first FPDU is the current one. */
		if (run->placed == run->start)
			break;
		octets = run->placed - run->start;
		cur->pos += octets;
		place->skip += octets;
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

/*
 * Whether a record can be delivered out of order. MPA_PLACE must have been on.
 */
bool mpa_place_ready(struct mpa_ctx *ctx)
{
	const struct mpa_place *place = ctx->rx.place;

	if (mpa_failed(ctx, MPA_RX))
		return false;
	mpa_place_trim(ctx, NULL);
	return place->low < place->nr &&
	       !mpa_place_stopped(place, place->run[place->low].placed);
}

/*
 * Get the first undelivered record out of order, after mpa_place_ready() has
 * returned true. Return: false if TCP no longer has it; this calls
 * mpa_place_changed().
 */
bool mpa_place_first(struct mpa_ctx *ctx, struct mpa_cursor *at,
		     struct mpa_fpdu *fpdu)
{
	const struct mpa_place *place = ctx->rx.place;
	const struct mpa_run *run = place->run + place->low;

	mpa_cursor_begin(at, ctx->sk, ctx->rx.seq + run->placed);
	if (mpa_read_head(&ctx->rx, at, run->end - run->placed, run->placed,
			  fpdu) == MPA_HEAD_GOOD &&
	    fpdu->len <= run->end - run->placed &&
	    !(mpa_alt_fpdu(fpdu) && fpdu->wrong_key))
		return true;
	mpa_place_changed(ctx);
	return false;
}

/* The octets at mpa_place_first() have changed since they were verified. */
void mpa_place_changed(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;
	struct mpa_run *run = place->run + place->low;

	mpa_place_cut(run, run->placed);
	place->again = true;
	mpa_schedule_work(ctx, 0);
}

/*
 * The user's buffer is too short for a record: deliver it in order, but not
 * those after it.
 */
void mpa_place_refuse(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu)
{
	struct mpa_place *place = ctx->rx.place;
	struct mpa_run *run = place->run + place->low;
	u32 next = run->placed + fpdu->len;
	struct mpa_run all = *run;

	mpa_place_cut(run, run->placed);
	run->waits = true;
	/* The next run may begin at @next. */
	if (place->low + 1 < place->nr && run[1].start == next)
		return;
	/* If all entries are in use, a marker will find it later. */
	if (mpa_place_insert(place, place->low + 1, next, all.scanned)) {
		run[1].end = all.end;
		run[1].held = all.held;
		run[1].waits = all.waits;
	}
}

/* Records were delivered out of order: @fpdu, and @more after it. */
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
	place->total += nr;
	SNMP_ADD_STATS(ctx->tcp.mib, MPA_MIB_RX_PLACED, nr);
	mpa_count_received(ctx, nr, fpdu->ulpdu_len + more->octets,
			   fpdu->markers + more->markers);
	if (run->placed == run->end)
		mpa_place_merge(place, place->low);
	/* The octets before the run were pruned, and have arrived again. */
	if (place->run->start == (u32)ctx->rx.cur.pos)
		mpa_place_pass(ctx);
	else if (place->again)
		mpa_schedule_work(ctx, 0);
}

/* Octets of contiguous records that can be delivered, if mpa_place_ready(). */
u32 mpa_place_deliverable(const struct mpa_place *place)
{
	const struct mpa_run *run = place->run + place->low;

	return run->end - run->placed;
}

/* Of @len octets from @pos on, how many precede the first delivered record. */
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
 * Deliver no more records out of order, but remember the delivered ones, so as not to
 * deliver them twice.
 */
static void mpa_place_end(struct mpa_place *place)
{
	u32 i = 0;

	while (i < place->nr) {
		struct mpa_run *run = place->run + i;

		mpa_place_cut(run, run->placed);
		run->waits = false;
		if (run->placed == run->start)
			mpa_place_remove(place, i, 1);
		else
			i++;
	}
	place->low = place->nr;
	place->again = false;
	place->full = false;
	place->stops = false;
}

/*
 * RFC 5044 section 6 requires markers and CRCs. TUF with keys has the
 * containment test instead; the key may be set later.
 */
static bool mpa_place_supported(const struct mpa_format *format)
{
	if (mpa_alt_format(format))
		return mpa_format_contained(format) ||
		       mpa_format_markers(format);
	return format->marked && format->crc;
}

/*
 * Search the whole out-of-order queue. @forget: undelivered records found
 * before may not be valid. Process context.
 */
void mpa_place_search_again(struct mpa_ctx *ctx, bool forget)
{
	if (forget) {
		mpa_place_end(ctx->rx.place);
		ctx->rx.place->tail = mpa_place_ordered(ctx);
	}
	ctx->rx.place->again = true;
	mpa_schedule_work(ctx, 0);
}

/**
 * mpa_place_set() - turn MPA_PLACE on or off
 * @ctx:	the context, in MPA_STATE_FULL
 * @on:		whether to deliver records out of order from now on
 *
 * Context: process.
 * Return: 0; -EINVAL without markers or CRCs; -ENOBUFS without memory, or if
 * net.core.optmem_max is reached.
 */
int mpa_place_set(struct mpa_ctx *ctx, bool on)
{
	struct mpa_rx *rx = &ctx->rx;

	if (on && !mpa_place_supported(&rx->format))
		return -EINVAL;
	if (on && !rx->place) {
		struct mpa_place *place;

		place = sock_kmalloc(ctx->sk, sizeof(*place),
				     mpa_gfp(ctx->sk) | __GFP_ZERO);
		if (!place)
			return -ENOBUFS;
		place->tail = mpa_place_ordered(ctx);
		/* mpa_show_conn() reads it without the lock. */
		smp_store_release(&rx->place, place);
	}
	if (!rx->place || rx->place->on == on)
		return 0;
	rx->place->on = on;
	if (on)
		rx->place->tail = mpa_place_ordered(ctx);
	else
		mpa_place_end(rx->place);
	mpa_tcp_ooo_track(ctx->sk, on && mpa_tcp_has_sack(ctx->sk));
	if (on)
		mpa_place_search_again(ctx, false);
	return 0;
}

/*
 * Stream positions restart at 0; all records delivered out of order are in
 * order now. Keep the memory: the user may switch framing on and off often.
 * Process context.
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

/* Socket lock held, or no one else can reach the socket. */
void mpa_place_free(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;

	if (!place)
		return;
	mpa_tcp_ooo_track(ctx->sk, false);
	/* Like sock_kfree_s(), but mpa_show_conn() may be reading it. */
	WRITE_ONCE(ctx->rx.place, NULL);
	atomic_sub(sizeof(*place), &ctx->sk->sk_omem_alloc);
	kfree_rcu(place, rcu);
}

/*
 * ---- finding ----
 *
 * After a gap an FPDU is found in one of two ways (section 6): by a marker,
 * whose position in the stream is known and which points to the FPDU's start;
 * or by the ULPDU_Length of the FPDU before it, if that FPDU's CRC is good. No
 * other way is safe: the first octets after a gap may be within a ULPDU and
 * look like an FPDU.
 *
 * After a segment arrives, only octets contiguous with it are searched, and
 * only those not searched before: from the end of the run before it, then the
 * markers after that run.
 */

/* Maximum number of octets to verify at a time, in softirq and in the work item. */
#define MPA_PLACE_OCTETS_SOFTIRQ	(2 * MPA_FPDU_MAX)
#define MPA_PLACE_OCTETS_WORK		(16 * MPA_FPDU_MAX)

/*
 * Maximum number of skbs to inspect in softirq. A peer can make them one octet long.
 */
#define MPA_PLACE_SKBS_SOFTIRQ		128

/* One search for FPDUs out of order. */
struct mpa_search {
	struct mpa_ctx *ctx;
	u32 octets;	/* that may still be verified */
	u32 skbs;	/* that may still be inspected */
	bool found;	/* records to deliver were found */
};

/* Whether the FPDU after a run ends at or before the start of the next run. */
static bool mpa_search_fits(const struct mpa_place *place, u32 i, u32 len)
{
	const struct mpa_run *run = place->run + i;

	return i + 1 == place->nr || len <= run[1].start - run->end;
}

/* Octets are missing or not readable. Return: whether run->held was wrong. */
static bool mpa_search_dropped(struct mpa_place *place, struct mpa_run *run)
{
	if (!run->held)
		return false;
	run->held = 0;
	place->again = true;
	return true;
}

/*
 * Verify a run's next FPDU, in @avail contiguous octets. Return: whether it is
 * good.
 */
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
		/*
		 * This search has reached its limit: the work item continues.
		 */
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
	/* Leave the FPDU to the work item. */
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

/* Whether the next run begins where this one ends: they cannot be joined yet. */
static bool mpa_search_touches(const struct mpa_place *place, u32 i)
{
	const struct mpa_run *run = place->run + i;

	return i + 1 < place->nr && run->end == run[1].start;
}

/*
 * Return: the number of contiguous octets after a run, where the cursor is.
 * Octets counted at the last search are not inspected again: otherwise each
 * segment of a peer that sends single octets would cost a walk of all.
 */
static u32 mpa_search_contiguous(struct mpa_search *search, struct mpa_run *run,
				 const struct mpa_cursor *at)
{
	u32 held = min_t(u32, run->held, search->octets), avail;

	if (!held)
		avail = mpa_tcp_ooo_contiguous_at(at, search->octets, &search->skbs);
	else
		avail = held + mpa_tcp_ooo_contiguous(search->ctx->sk, at->seq + held,
						      search->octets - held,
						      &search->skbs);
	run->held = clamp_t(u32, avail, run->held, U16_MAX);
	return avail;
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
		avail = mpa_search_contiguous(search, run, &at);
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

/* Whether the marker at @pos, after @before runs, points to where no FPDU can start. */
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

/*
 * Whether an FPDU is known to start at @start. TUF's markers may point to the next run.
 */
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
 * Read the markers from @pos to @limit, after @before runs. One that points to
 * an unknown FPDU starts a run. Return: where to continue.
 */
static u32 mpa_search_markers(struct mpa_search *search, u32 before, u32 pos,
			      u32 limit)
{
	struct mpa_place *place = search->ctx->rx.place;
	struct mpa_run *run = before ? place->run + before - 1 : NULL;
	const struct mpa_rx *rx = &search->ctx->rx;
	const u32 interval = mpa_format_interval(&rx->format);
	u32 known = run ? run->end : (u32)rx->cur.pos, start;
	/* The first marker after the run. */
	u32 first = known + (-known & (interval - 1));
	u8 pieces[MPA_MARKER_LEN];
	struct mpa_cursor at;
	const u8 *marker;
	u8 scanned;

	pos += -pos & (interval - 1);
	if (mpa_pos_before(pos, first))
		pos = first;
	if (run && (pos - first) / interval < run->scanned)
		pos = first + run->scanned * interval;
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
			/* All later markers point to the next run as well. */
			if (start != known)
				return limit;
			if (run)
				run->scanned = min_t(u32, U8_MAX,
						     (pos - first) / interval + 1);
			continue;
		}
		if (mpa_search_disagrees(search, before, pos, known, start)) {
			mpa_place_stop(place, pos);
			return limit;
		}
		scanned = mpa_format_forward(&rx->format) ? 0 :
			  (pos - start) / interval + 1;
		if (!mpa_place_insert(place, before, start, scanned))
			return limit;
		/* The run may begin after all octets searched. */
		mpa_search_extend(search, before);
		return pos + MPA_MARKER_LEN;
	}
	return limit;
}

/*
 * TUF with a key: some of these contiguous octets are new. They begin with a
 * segment, which may be a whole FPDU, or may follow one.
 */
static void mpa_search_contained(struct mpa_search *search, u32 pos, u32 end)
{
	struct mpa_place *place = search->ctx->rx.place;
	u32 i = mpa_place_find(place, pos);

	if (i)
		mpa_search_extend(search, i - 1);
	i = mpa_place_find(place, pos);
	/*
	 * Test only if no run reaches @pos. Octets before the current record
	 * were delivered, pruned and received again.
	 */
	if (!mpa_pos_before(pos, search->ctx->rx.cur.pos) &&
	    (!i || mpa_pos_before(place->run[i - 1].end, pos)) &&
	    !mpa_place_stopped(place, pos) &&
	    mpa_contain_test(search->ctx, pos) &&
	    mpa_place_insert(place, i, pos, 0))
		i++;
	/* Extend runs of islands that were separate before. */
	for (i -= !!i; i < place->nr &&
	     mpa_pos_before(place->run[i].start, end); i++)
		mpa_search_extend(search, i);
}

/* Search contiguous octets, some of which are new. */
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

	/* The limit is reached: the work item continues. */
	if (!search->octets || !search->skbs)
		ctx->rx.place->again = true;
	if (ctx->rx.place->again)
		mpa_schedule_work(ctx, 0);
	if (!search->found || !mpa_place_ready(ctx))
		return;
	WRITE_ONCE(ctx->rx.ready, true);
	mpa_wake_reader(ctx);
}

/*
 * SACK is required: without it each segment would cost a walk of the whole
 * queue.
 */
static bool mpa_search_enabled(const struct mpa_ctx *ctx)
{
	return ctx->rx.place && ctx->rx.place->on && !mpa_failed(ctx, MPA_RX) &&
	       (!mpa_alt(ctx) || mpa_contain_possible(ctx)) &&
	       ctx->state == MPA_STATE_FULL && !ctx->closing &&
	       mpa_tcp_has_sack(ctx->sk) && !mpa_tcp_gone(ctx->sk);
}

/*
 * Search octets that have just arrived out of order. Return: whether to call
 * mpa_rx_update(): records found before can no longer be delivered, as TCP has
 * pruned them or an error precedes them.
 */
bool mpa_search_newest(struct mpa_ctx *ctx)
{
	struct mpa_search search = {
		.ctx = ctx, .octets = MPA_PLACE_OCTETS_SOFTIRQ,
		.skbs = MPA_PLACE_SKBS_SOFTIRQ,
	};
	bool known, lost, stopped;
	struct mpa_island island;
	u32 stop;

	if (!mpa_search_enabled(ctx) || !mpa_tcp_ooo_new(ctx->sk))
		return false;
	stopped = ctx->rx.place->stops;
	stop = ctx->rx.place->stop;
	/* A marker may be split between two SACK blocks. */
	known = mpa_tcp_ooo_newest(ctx->sk, MPA_MARKER_LEN - 1, &island);
	lost = mpa_place_trim(ctx, known ? &island : NULL);
	if (known) {
		/*
		 * To queue it, TCP may have pruned others; the last octet may
		 * have arrived again.
		 */
		if (island.alone && mpa_place_lost(ctx, &island))
			lost = true;
		mpa_search_scan(&search, &island);
	} else {
		ctx->rx.place->again = true;
	}
	mpa_search_finish(&search);
	return lost || ctx->rx.place->stops != stopped ||
	       ctx->rx.place->stop != stop;
}

/* Search what mpa_search_newest() has left. Process context. */
void mpa_search_walk(struct mpa_ctx *ctx)
{
	struct mpa_search search = {
		.ctx = ctx, .octets = MPA_PLACE_OCTETS_WORK, .skbs = U32_MAX,
	};
	struct mpa_island island;
	u32 seq;

	if (!ctx->rx.place || !ctx->rx.place->again)
		return;
	/* Clear it even if the search is off. */
	ctx->rx.place->again = false;
	if (!mpa_search_enabled(ctx))
		return;
	mpa_tcp_ooo_new(ctx->sk);
	mpa_place_trim(ctx, NULL);
	mpa_place_check(ctx);
	ctx->rx.place->again = false;
	for (seq = mpa_tcp_rcv_nxt(ctx->sk);
	     !ctx->rx.place->again && mpa_tcp_ooo_next(ctx->sk, seq, &island);
	     seq = island.end) {
		mpa_search_scan(&search, &island);
		cond_resched();
	}
	mpa_search_finish(&search);
}

/* Octets have arrived out of order. */
void mpa_search_arrived(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	/* Even if the key is not known yet. */
	if (ctx->rx.place && ctx->rx.place->on &&
	    mpa_format_contained(&ctx->rx.format))
		mpa_contain_note(ctx);
	if (!mpa_search_enabled(ctx))
		return;
	ctx->rx.place->again = true;
	mpa_schedule_work(ctx, 0);
}
