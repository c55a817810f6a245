// SPDX-License-Identifier: GPL-2.0
/*
 * FPDUs out of order: RFC 5044 section 6 and appendix A.3.
 *
 * While octets of the stream are missing, those behind the gap lie in TCP's queue
 * of what is out of order, side by side in islands. What mpa_search.c finds there
 * is kept as runs of stream positions (struct mpa_run), sorted.
 *
 * The reader gets records that are in order first. When order reaches a run, the
 * octets of it that he has got are taken out of the receive queue unseen, and the
 * current record is the one behind them; the rest of the run comes in order.
 *
 * Section 8 is about order alone: an FPDU that is bad here ends nothing, it and
 * all behind it wait until order gets there.
 */

#include <trace/events/mpa.h>

#include "mpa.h"

static_assert(sizeof(struct mpa_place) <= 2 * 4096);

/* ---- runs ---- */

/**
 * mpa_place_ordered() - everything in front of this stream position has arrived
 * @ctx:	the context
 *
 * Context: socket lock held.
 */
u32 mpa_place_ordered(const struct mpa_ctx *ctx)
{
	return mpa_tcp_rcv_nxt(ctx->sk) - ctx->rx.seq;
}

/**
 * mpa_place_find() - how many runs begin at a stream position or in front of it
 * @place:	placing
 * @pos:	the stream position
 */
u32 mpa_place_find(const struct mpa_place *place, u32 pos)
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

	/* There is room now for what was left out. */
	place->again |= place->full;
	place->full = false;
	place->nr -= nr;
	memmove(run, run + nr, (place->nr - i) * sizeof(*run));
	if (place->low > i)
		place->low -= min(nr, place->low - i);
}

/**
 * mpa_place_insert() - a run of no FPDU yet
 * @place:	placing
 * @i:		so many runs are in front of it
 * @start:	stream position where its first FPDU begins
 * @looked:	so many markers from there on need not be looked at
 *
 * Return: false if there is no room.
 */
bool mpa_place_insert(struct mpa_place *place, u32 i, u32 start, u8 looked)
{
	struct mpa_run *run = place->run + i;

	if (place->nr == MPA_PLACE_MAX) {
		place->full = true;
		return false;
	}
	memmove(run + 1, run, (place->nr - i) * sizeof(*run));
	*run = (struct mpa_run){
		.start = start, .placed = start, .end = start, .looked = looked,
	};
	place->nr++;
	if (place->low >= i)
		place->low++;
	return true;
}

/**
 * mpa_place_merge() - make one of a run and the next, if they touch, and the user
 *		       has got only what is in front
 * @place:	placing
 * @i:		number of the run
 *
 * Return: whether it was done.
 */
bool mpa_place_merge(struct mpa_place *place, u32 i)
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
	run->looked = next->looked;
	run->records += next->records;
	run->waits = next->waits;
	mpa_place_remove(place, i + 1, 1);
	place->low = min(place->low, i);
	return true;
}

/**
 * mpa_place_stop() - something is wrong at a stream position
 * @place:	placing
 * @pos:	the stream position: nothing from there on is handed out before order
 *		gets there
 */
void mpa_place_stop(struct mpa_place *place, u32 pos)
{
	if (!place->stops || mpa_pos_before(pos, place->stop))
		place->stop = pos;
	place->stops = true;
}

/**
 * mpa_place_stopped() - something is wrong at a stream position or in front of it
 * @place:	placing
 * @pos:	the stream position
 */
bool mpa_place_stopped(const struct mpa_place *place, u32 pos)
{
	return place->stops && !mpa_pos_before(pos, place->stop);
}

/* What is found at the end of a run does not go beyond those that were there. */
static void mpa_place_cut(struct mpa_run *run, u32 end)
{
	run->end = end;
	run->held = 0;
	run->looked = 0;
}

/**
 * mpa_place_grow() - the FPDU at the end of a run is good
 * @run:	the run
 * @fpdu:	the FPDU's layout
 */
void mpa_place_grow(struct mpa_run *run, const struct mpa_fpdu *fpdu)
{
	run->end += fpdu->len;
	run->held -= min_t(u32, run->held, fpdu->len);
	run->looked -= min_t(u32, run->looked, fpdu->markers);
}

/* ---- what TCP has done meanwhile ---- */

/* It has records that the user has not got, and that are not in order. */
static bool mpa_place_unread(const struct mpa_run *run, u32 ordered)
{
	return run->placed != run->end && mpa_pos_before(ordered, run->placed);
}

/* TCP has thrown away octets of records that the user has not got. */
static void mpa_place_pruned(const struct mpa_ctx *ctx, struct mpa_run *run)
{
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_RX_PRUNED);
	mpa_place_cut(run, run->placed);
}

/**
 * mpa_place_lost() - TCP may have thrown away octets that were out of order: were
 *		      there records among them that the user has not got?
 * @ctx:	the context
 * @island:	what has come since; or NULL
 *
 * TCP throws away from the end: what is in front of an octet that is still there
 * is there as well. So this looks at one octet, and at one more for each run that
 * is gone.
 *
 * Context: socket lock held.
 * Return: whether there were: they are forgotten, and found again if they come
 * again.
 */
bool mpa_place_lost(struct mpa_ctx *ctx, const struct mpa_island *island)
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

/**
 * mpa_place_check() - look for all octets of records that the user has not got
 * @ctx:	the context
 *
 * As mpa_place_lost(), if it is not known what has come since.
 *
 * Context: process, socket lock held.
 */
void mpa_place_check(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;
	u32 ordered = mpa_place_ordered(ctx), i;

	for (i = place->low; i < place->nr; i++) {
		struct mpa_run *run = place->run + i;
		u32 n = run->end - run->placed, all = U32_MAX;

		if (mpa_place_unread(run, ordered) &&
		    mpa_tcp_ooo_side(ctx->sk, ctx->rx.seq + run->placed, n,
				     &all) < n)
			mpa_place_pruned(ctx, run);
	}
}

/**
 * mpa_place_trim() - records that were found and are in order now come in order
 * @ctx:	the context
 * @island:	what has come since the last time; or NULL
 *
 * Context: socket lock held.
 * Return: whether some that were found are gone.
 */
bool mpa_place_trim(struct mpa_ctx *ctx, const struct mpa_island *island)
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

/* ---- order gets there ---- */

/**
 * mpa_place_pass() - the current record has changed: pass over what the user has
 *		      got out of order
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 */
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
		/* An FPDU begins here: the current one. */
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

/* ---- handing out ---- */

/**
 * mpa_place_ready() - there is a record out of order for the user
 * @ctx:	the context; MPA_PLACE has been on
 *
 * Context: socket lock held.
 */
bool mpa_place_ready(struct mpa_ctx *ctx)
{
	const struct mpa_place *place = ctx->rx.place;

	if (ctx->rx.error)
		return false;
	mpa_place_trim(ctx, NULL);
	return place->low < place->nr &&
	       !mpa_place_stopped(place, place->run[place->low].placed);
}

/**
 * mpa_place_first() - the first record out of order that the user has not got
 * @ctx:	the context; mpa_place_ready()
 * @at:		put on it
 * @fpdu:	set to its layout
 *
 * Context: socket lock held.
 * Return: false if TCP does not have it any more: mpa_place_gone() is called.
 */
bool mpa_place_first(struct mpa_ctx *ctx, struct mpa_cursor *at,
		     struct mpa_fpdu *fpdu)
{
	const struct mpa_place *place = ctx->rx.place;
	const struct mpa_run *run = place->run + place->low;
	struct mpa_rx_source from = { .at = at };

	mpa_cursor_begin(at, ctx->sk, ctx->rx.seq + run->placed);
	if (mpa_read_head(&from, 0, run->end - run->placed, run->placed,
			  &ctx->rx, false, fpdu) == MPA_HEAD_GOOD &&
	    fpdu->len <= run->end - run->placed &&
	    !(mpa_fpdu_tuf(fpdu) && fpdu->wrong_key))
		return true;
	mpa_place_gone(ctx);
	return false;
}

/**
 * mpa_place_gone() - what mpa_place_first() has found is not what was verified
 * @ctx:	the context
 *
 * Context: socket lock held.
 */
void mpa_place_gone(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;
	struct mpa_run *run = place->run + place->low;

	mpa_place_cut(run, run->placed);
	place->again = true;
	mpa_schedule_work(ctx, 0);
}

/**
 * mpa_place_refuse() - the user's buffer is too short for a record: it waits
 * @ctx:	the context
 * @fpdu:	what mpa_place_first() has found
 *
 * Those behind it do not.
 *
 * Context: socket lock held.
 */
void mpa_place_refuse(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu)
{
	struct mpa_place *place = ctx->rx.place;
	struct mpa_run *run = place->run + place->low;
	u32 next = run->placed + fpdu->len;
	struct mpa_run all = *run;

	mpa_place_cut(run, run->placed);
	run->waits = true;
	/* The next run may begin there. */
	if (place->low + 1 < place->nr && run[1].start == next)
		return;
	/* If there is no room it is found by its markers, when there is. */
	if (mpa_place_insert(place, place->low + 1, next, all.looked)) {
		run[1].end = all.end;
		run[1].held = all.held;
		run[1].waits = all.waits;
	}
}

/**
 * mpa_place_advance() - records have gone to the user out of order
 * @ctx:	the context
 * @fpdu:	the first of them, from mpa_place_first()
 * @more:	those behind it
 *
 * Context: process, socket lock held.
 */
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
	/* The octets in front of it have been thrown away, and come again. */
	if (place->run->start == (u32)ctx->rx.cur.pos)
		mpa_place_pass(ctx);
	else if (place->again)
		mpa_schedule_work(ctx, 0);
}

/**
 * mpa_place_behind() - octets of records side by side that the user can get
 * @place:	mpa_place_ready()
 */
u32 mpa_place_behind(const struct mpa_place *place)
{
	const struct mpa_run *run = place->run + place->low;

	return run->end - run->placed;
}

/**
 * mpa_place_gap() - how far it is to what the user has got out of order
 * @place:	placing
 * @pos:	a stream position that order has not gone beyond
 * @len:	octets from there on
 *
 * Return: so many of them are in front of that.
 */
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

/* The user gets nothing out of order any more, and nothing twice. */
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
 * RFC 5044 section 6 wants markers and CRCs. TUF has its test, for which a key may
 * come later.
 */
static bool mpa_place_suits(const struct mpa_format *format)
{
	if (mpa_format_tuf(format))
		return mpa_format_contained(format) ||
		       mpa_format_markers(format);
	return format->marked && format->crc;
}

/**
 * mpa_place_look_again() - look at all that is out of order
 * @ctx:	the context; places records
 * @forget:	what was found and not handed out may be none
 *
 * Context: process, socket lock held.
 */
void mpa_place_look_again(struct mpa_ctx *ctx, bool forget)
{
	if (forget) {
		mpa_place_end(ctx->rx.place);
		ctx->rx.place->tail = mpa_place_ordered(ctx);
	}
	ctx->rx.place->again = true;
	mpa_schedule_work(ctx, 0);
}

/**
 * mpa_place_set() - MPA_PLACE
 * @ctx:	the context, in MPA_STATE_FULL
 * @on:		whether records are placed from now on
 *
 * Context: process, socket lock held.
 * Return: 0; -EINVAL if there are no markers, or no CRCs; -ENOBUFS: no memory, or
 * net.core.optmem_max is reached.
 */
int mpa_place_set(struct mpa_ctx *ctx, bool on)
{
	struct mpa_rx *rx = &ctx->rx;

	if (on && !mpa_place_suits(&rx->format))
		return -EINVAL;
	if (on && !rx->place) {
		struct mpa_place *place;

		place = sock_kmalloc(ctx->sk, sizeof(*place),
				     mpa_gfp(ctx->sk) | __GFP_ZERO);
		if (!place)
			return -ENOBUFS;
		place->tail = mpa_place_ordered(ctx);
		/* For mpa_show_conn(). */
		smp_store_release(&rx->place, place);
	}
	if (!rx->place || rx->place->on == on)
		return 0;
	rx->place->on = on;
	if (on)
		rx->place->tail = mpa_place_ordered(ctx);
	else
		mpa_place_end(rx->place);
	mpa_tcp_ooo_mind(ctx->sk, on && mpa_tcp_has_sack(ctx->sk));
	if (on)
		mpa_place_look_again(ctx, false);
	return 0;
}

/**
 * mpa_place_clear() - stream positions begin anew
 * @ctx:	the context; the user has got nothing out of order that order has
 *		not reached
 *
 * The memory is kept: a program can switch TUF on and off as often as it likes.
 *
 * Context: process, socket lock held.
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

/**
 * mpa_place_free() - give back what is known of records out of order
 * @ctx:	the context
 *
 * Context: socket lock held, or nobody else knows the socket any more.
 */
void mpa_place_free(struct mpa_ctx *ctx)
{
	struct mpa_place *place = ctx->rx.place;

	if (!place)
		return;
	mpa_tcp_ooo_mind(ctx->sk, false);
	/* As sock_kfree_s(); but mpa_show_conn() may be reading it. */
	WRITE_ONCE(ctx->rx.place, NULL);
	atomic_sub(sizeof(*place), &ctx->sk->sk_omem_alloc);
	kfree_rcu(place, rcu);
}
