// SPDX-License-Identifier: GPL-2.0
/*
 * Finding FPDUs out of order: RFC 5044 section 6.
 *
 * An FPDU behind a gap is found in one of two ways, as section 6 has it: by a
 * marker, whose place in the stream is known and which points to the FPDU's start;
 * or by the ULPDU_Length of the FPDU in front of it, if that one's CRC is good.
 * Nothing else is tried: the first octet behind a gap may be the first one of an
 * FPDU, or octets of a ULPDU that look like one.
 *
 * When a segment has arrived, only what TCP holds side by side with it is looked
 * at, and there only what has not been looked at before: the search goes on at the
 * end of the run in front of it, and with the markers behind that.
 */

#include "mpa_tuf.h"

/* Octets to verify at a time: in softirq, and in the work item. */
#define MPA_PLACE_OCTETS_SOFTIRQ	(2 * MPA_FPDU_MAX)
#define MPA_PLACE_OCTETS_WORK		(16 * MPA_FPDU_MAX)

/* skbs to look at in softirq. A peer can make them hold an octet each. */
#define MPA_PLACE_SKBS_SOFTIRQ		128

/**
 * struct mpa_search - one search for FPDUs out of order
 * @ctx:	the context
 * @octets:	how many may still be verified
 * @skbs:	how many may still be looked at
 * @found:	there are records that the user can get
 */
struct mpa_search {
	struct mpa_ctx *ctx;
	u32 octets;
	u32 skbs;
	bool found;
};

/* An FPDU at the end of a run does not go beyond the start of the next one. */
static bool mpa_search_fits(const struct mpa_place *place, u32 i, u32 len)
{
	const struct mpa_run *run = place->run + i;

	return i + 1 == place->nr || len <= run[1].start - run->end;
}

/*
 * Octets are not there, or cannot be read. Return: whether it was only thought
 * that they were: the work item looks again.
 */
static bool mpa_search_thrown(struct mpa_place *place, struct mpa_run *run)
{
	if (!run->held)
		return false;
	run->held = 0;
	place->again = true;
	return true;
}

/*
 * The next FPDU at the end of a run, @side octets from where @from->at is are
 * there. Return: whether it is whole and good.
 */
static bool mpa_search_verify(struct mpa_search *search, u32 i,
			      struct mpa_rx_source *from, u32 side)
{
	struct mpa_place *place = search->ctx->rx.place;
	const struct mpa_rx *rx = &search->ctx->rx;
	struct mpa_run *run = place->run + i;
	struct mpa_fpdu fpdu;
	enum mpa_error code;

	switch (mpa_read_head(from, 0, side, run->end, rx, false, &fpdu)) {
	case MPA_HEAD_MORE:
		/* No more was looked for: the work item goes on. */
		if (side >= search->octets)
			place->again = true;
		else if (side >= MPA_FPDU_HEAD_MAX)
			mpa_search_thrown(place, run);
		return false;
	case MPA_HEAD_BAD:
		mpa_place_stop(place, run->end);
		return false;
	case MPA_HEAD_GOOD:
		break;
	}
	/* Of TUF one with another key is not trusted. */
	if (!mpa_search_fits(place, i, fpdu.len) || fpdu.wrong_key) {
		mpa_place_stop(place, run->end);
		return false;
	}
	/* The work item verifies it. */
	if (fpdu.len > search->octets)
		place->again = true;
	if (fpdu.len > search->octets || fpdu.len > side)
		return false;
	search->octets -= fpdu.len;
	if (mpa_read_fpdu(from, &fpdu, rx->format.crc, NULL, 0, &code) ||
	    code) {
		if (code != MPA_ERR_TCP || !mpa_search_thrown(place, run))
			mpa_place_stop(place, run->end);
		return false;
	}
	mpa_place_grow(run, &fpdu);
	return true;
}

/* The next run begins where this one ends; they cannot be made one yet. */
static bool mpa_search_touches(const struct mpa_place *place, u32 i)
{
	const struct mpa_run *run = place->run + i;

	return i + 1 < place->nr && run->end == run[1].start;
}

/*
 * How many octets are side by side at the end of a run, where a cursor is. Not
 * those are looked at again that were the last time: a peer that sends one octet
 * in each segment would have all of them looked at for each.
 */
static u32 mpa_search_side(struct mpa_search *search, struct mpa_run *run,
			   const struct mpa_cursor *at)
{
	u32 held = min_t(u32, run->held, search->octets), side;

	if (!held)
		side = mpa_tcp_ooo_behind(at, search->octets, &search->skbs);
	else
		side = held + mpa_tcp_ooo_side(search->ctx->sk, at->seq + held,
					       search->octets - held,
					       &search->skbs);
	run->held = clamp_t(u32, side, run->held, U16_MAX);
	return side;
}

/* FPDUs from the end of a run on. */
static void mpa_search_extend(struct mpa_search *search, u32 i)
{
	struct mpa_place *place = search->ctx->rx.place;
	struct mpa_run *run = place->run + i;
	struct sock *sk = search->ctx->sk;
	struct mpa_cursor at;
	struct mpa_rx_source from = { .at = &at };
	u32 side, end;

	do {
		if (run->waits || mpa_search_touches(place, i) ||
		    mpa_place_stopped(place, run->end) ||
		    !mpa_pos_before(mpa_place_ordered(search->ctx), run->end))
			return;
		mpa_cursor_begin(&at, sk, search->ctx->rx.seq + run->end);
		side = mpa_search_side(search, run, &at);
		for (end = run->end; side; end = run->end) {
			if (!mpa_search_verify(search, i, &from, side))
				return;
			side -= run->end - end;
			search->found = true;
			place->low = min(place->low, i);
			if (mpa_place_merge(place, i))
				break;
			if (mpa_search_touches(place, i))
				return;
		}
	} while (side);
}

/* The marker at @pos, behind @before runs, points to where no FPDU can begin. */
static bool mpa_search_disagrees(const struct mpa_search *search, u32 before,
				 u32 pos, u32 known, u32 start)
{
	const struct mpa_place *place = search->ctx->rx.place;

	if (!mpa_is_tuf(search->ctx))
		return mpa_pos_before(start, known);
	/* TUF's point forward. */
	return mpa_pos_before(start, pos) ||
	       (before < place->nr &&
		mpa_pos_before(place->run[before].start, start));
}

/* An FPDU is known to begin at @start. Those of TUF point to the next run. */
static bool mpa_search_known(const struct mpa_search *search, u32 before,
			     u32 known, u32 start)
{
	const struct mpa_place *place = search->ctx->rx.place;

	if (start == known)
		return before;
	return mpa_is_tuf(search->ctx) && before < place->nr &&
	       start == place->run[before].start;
}

static u32 mpa_search_points_to(const struct mpa_rx *rx, u32 pos,
				const u8 *marker)
{
	if (mpa_format_tuf(&rx->format))
		return mpa_tuf_marker_fpdu(&rx->format, pos, marker);
	return mpa_marker_fpdu(pos, mpa_marker_get(marker));
}

/*
 * The markers from @pos to @limit, behind @before runs. One that points to an FPDU
 * that is not known makes a new run.
 * Return: where to go on.
 */
static u32 mpa_search_markers(struct mpa_search *search, u32 before, u32 pos,
			      u32 limit)
{
	struct mpa_place *place = search->ctx->rx.place;
	struct mpa_run *run = before ? place->run + before - 1 : NULL;
	const struct mpa_rx *rx = &search->ctx->rx;
	const u32 interval = mpa_format_interval(&rx->format);
	u32 known = run ? run->end : (u32)rx->cur.pos, start;
	/* The first marker behind the run. */
	u32 first = known + (-known & (interval - 1));
	u8 marker[MPA_MARKER_LEN];
	struct mpa_cursor at;
	u8 looked;

	pos += -pos & (interval - 1);
	if (mpa_pos_before(pos, first))
		pos = first;
	if (run && (pos - first) / interval < run->looked)
		pos = first + run->looked * interval;
	if (mpa_pos_before(limit, pos + MPA_MARKER_LEN))
		return limit;
	mpa_cursor_begin(&at, search->ctx->sk, rx->seq + pos);
	for (; !mpa_pos_before(limit, pos + MPA_MARKER_LEN);
	     pos += interval) {
		mpa_cursor_seek(&at, rx->seq + pos);
		if (mpa_place_stopped(place, pos) ||
		    !mpa_read_marker(&at, marker))
			return limit;
		start = mpa_search_points_to(rx, pos, marker);
		if (mpa_search_known(search, before, known, start)) {
			/* Of TUF all from here on point to the next run as well. */
			if (start != known)
				return limit;
			if (run)
				run->looked = min_t(u32, U8_MAX,
						    (pos - first) / interval + 1);
			continue;
		}
		if (mpa_search_disagrees(search, before, pos, known, start)) {
			mpa_place_stop(place, pos);
			return limit;
		}
		looked = mpa_is_tuf(search->ctx) ? 0 :
			 (pos - start) / interval + 1;
		if (!mpa_place_insert(place, before, start, looked))
			return limit;
		/* Of TUF it may begin behind all that is looked at. */
		mpa_search_extend(search, before);
		return pos + MPA_MARKER_LEN;
	}
	return limit;
}

/*
 * TUF in alignment mode: octets side by side, from @pos to @end, some of which are new.
 * They begin with a segment, all of which may be an FPDU, or which may be one of those
 * behind one.
 */
static void mpa_search_contained(struct mpa_search *search, u32 pos, u32 end)
{
	struct mpa_place *place = search->ctx->rx.place;
	u32 i = mpa_place_find(place, pos);

	if (i)
		mpa_search_extend(search, i - 1);
	i = mpa_place_find(place, pos);
	/*
	 * Behind a run, nothing that its end is not in is known. In front of the
	 * current record are those that the user has got and TCP has thrown away.
	 */
	if (!mpa_pos_before(pos, search->ctx->rx.cur.pos) &&
	    (!i || mpa_pos_before(place->run[i - 1].end, pos)) &&
	    !mpa_place_stopped(place, pos) &&
	    mpa_contain_test(search->ctx, pos) &&
	    mpa_place_insert(place, i, pos, 0))
		i++;
	/* And those that were islands of their own before. */
	for (i -= !!i; i < place->nr &&
	     mpa_pos_before(place->run[i].start, end); i++)
		mpa_search_extend(search, i);
}

/* Octets side by side, some of which are new. */
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

static void mpa_search_tell(const struct mpa_search *search)
{
	struct mpa_ctx *ctx = search->ctx;

	/* All that may be looked at has been: the work item goes on. */
	if (!search->octets || !search->skbs)
		ctx->rx.place->again = true;
	if (ctx->rx.place->again)
		mpa_schedule_work(ctx, 0);
	if (!search->found || !mpa_place_ready(ctx))
		return;
	WRITE_ONCE(ctx->rx.ready, true);
	mpa_wake_reader(ctx);
}

/* Without SACK each segment would cost a walk of the whole queue. */
static bool mpa_search_on(const struct mpa_ctx *ctx)
{
	return ctx->rx.place && ctx->rx.place->on && !ctx->rx.error &&
	       (!mpa_is_tuf(ctx) || mpa_contain_possible(ctx)) &&
	       ctx->state == MPA_STATE_FULL && ctx->life == MPA_LIFE_USER &&
	       mpa_tcp_has_sack(ctx->sk) && !mpa_tcp_gone(ctx->sk);
}

/**
 * mpa_search_look() - look at what has arrived out of order a moment ago
 * @ctx:	the context
 *
 * Context: any, socket lock held.
 * Return: whether records that were found cannot be handed out any more, as TCP has
 * thrown them away or something is wrong in front of them: mpa_rx_update() is due.
 */
bool mpa_search_look(struct mpa_ctx *ctx)
{
	struct mpa_search search = {
		.ctx = ctx, .octets = MPA_PLACE_OCTETS_SOFTIRQ,
		.skbs = MPA_PLACE_SKBS_SOFTIRQ,
	};
	bool known, lost, stopped;
	struct mpa_island island;
	u32 stop;

	if (!mpa_search_on(ctx) || !mpa_tcp_ooo_new(ctx->sk))
		return false;
	stopped = ctx->rx.place->stops;
	stop = ctx->rx.place->stop;
	/* A marker may lie in two blocks. */
	known = mpa_tcp_ooo_newest(ctx->sk, MPA_MARKER_LEN - 1, &island);
	lost = mpa_place_trim(ctx, known ? &island : NULL);
	if (known) {
		/* It may have made room, and have got the last ones again. */
		if (island.alone && mpa_place_lost(ctx, &island))
			lost = true;
		mpa_search_scan(&search, &island);
	} else {
		ctx->rx.place->again = true;
	}
	mpa_search_tell(&search);
	return lost || ctx->rx.place->stops != stopped ||
	       ctx->rx.place->stop != stop;
}

/**
 * mpa_search_walk() - look at all that is out of order, if something is left that
 *		      mpa_search_look() has not seen
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 */
void mpa_search_walk(struct mpa_ctx *ctx)
{
	struct mpa_search search = {
		.ctx = ctx, .octets = MPA_PLACE_OCTETS_WORK, .skbs = U32_MAX,
	};
	struct mpa_island island;
	u32 seq;

	if (!ctx->rx.place || !ctx->rx.place->again)
		return;
	/* Where nothing can be found it would be set for ever. */
	ctx->rx.place->again = false;
	if (!mpa_search_on(ctx))
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
	mpa_search_tell(&search);
}

/**
 * mpa_search_arrived() - something has arrived out of order
 * @sk:	socket
 *
 * Context: any, socket lock held.
 */
void mpa_search_arrived(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	/* Though a key may not be known yet. */
	if (ctx->rx.place && ctx->rx.place->on &&
	    mpa_format_contained(&ctx->rx.format))
		mpa_contain_see(ctx);
	if (!mpa_search_on(ctx))
		return;
	ctx->rx.place->again = true;
	mpa_schedule_work(ctx, 0);
}
