// SPDX-License-Identifier: GPL-2.0
/*
 * Receiving in order: RFC 5044 sections 5.2 and 6.
 *
 * FPDUs stay in TCP's receive queue until they are read. When octets arrive,
 * only the length of the current FPDU is looked at, to tell whether it is
 * whole; the reader (mpa_recvmsg.c) verifies it and then copies its ULPDU,
 * around the markers. Only an FPDU that the receive buffer has no room for, or
 * TCP no memory, is taken out of the queue piece by piece before it is whole.
 *
 * Octets do not change between the two walks, with one exception: over loopback
 * they may lie in pages of the sender's, given with sendfile(2) or vmsplice(2),
 * that somebody writes to. The length is read once and bounds both walks; what
 * the sender puts in place of verified octets it could have framed as well.
 */

#include <linux/uio.h>

#include "mpa.h"

/* Section 8: nothing is delivered on this half connection any more. */
static void mpa_rx_fail(struct mpa_ctx *ctx, int err, enum mpa_error code)
{
	WRITE_ONCE(ctx->rx.error, err);
	WRITE_ONCE(ctx->rx.ready, true);
	/* What startup has ended with, if anything, came first. */
	if (!ctx->code)
		ctx->code = code;
	/* See mpa_rx_discard(). */
	mpa_schedule_work(ctx, 0);
	/* For readers, and for a sender that waits for the first FPDU. */
	ctx->sk->sk_state_change(ctx->sk);
}

/*
 * All octets that left the receive queue have left it through MPA. A call of
 * TCP's own that is older than the attachment may take some when it is woken:
 * what is left then is no stream of FPDUs.
 */
static bool mpa_rx_in_place(struct mpa_ctx *ctx)
{
	struct mpa_rx *rx = &ctx->rx;

	if (rx->error)
		return false;
	if (likely(mpa_tcp_reads_at(ctx->sk,
				    rx->seq + (u32)rx->pos + rx->taken)))
		return true;
	mpa_rx_fail(ctx, -EBADMSG, MPA_ERR_LOCAL);
	return false;
}

/* With the last octets the FIN goes, which has a sequence number. */
static void mpa_rx_consume(struct mpa_ctx *ctx, u32 len)
{
	ctx->rx.seq += mpa_tcp_consume(ctx->sk, len) - len;
}

/* The first FPDU lets the responder send. An initiator waits for its own RTR. */
static bool mpa_rx_opens_sending(const struct mpa_ctx *ctx)
{
	return !ctx->may_send && !ctx->tx.rtr_due;
}

/* ---- walks over an FPDU ---- */

static int mpa_rx_copy_octets(void *to, const u8 *data, u32 len)
{
	void __user *user = mpa_iter_user(to, len);

	if (user) {
		if (mpa_copy_to_user(user, data, len))
			return -EFAULT;
		mpa_iter_skip(to, len);
		return 0;
	}
	return copy_to_iter(data, len, to) == len ? 0 : -EFAULT;
}

/* Octets of an FPDU from @off on: in the stash, or in the queue at @at. */
static int mpa_rx_walk(struct mpa_ctx *ctx, struct mpa_cursor *at, u32 off,
		       u32 len, mpa_walk_fn fn, void *arg)
{
	if (ctx->rx.stash)
		return mpa_stash_walk(ctx->rx.stash, off, len, fn, arg);
	return mpa_cursor_walk(at, len, fn, arg);
}

/* Octets of a ULPDU up to @end, from @pick->off on, which is where @at is. */
static int mpa_rx_pick(struct mpa_ctx *ctx, struct mpa_pick *pick,
		       struct mpa_cursor *at, u32 end, struct iov_iter *to)
{
	u32 len = mpa_fpdu_offset(pick->fpdu, end) - pick->off;
	size_t room = iov_iter_count(to);
	int err;

	pick->copy = mpa_rx_copy_octets;
	pick->to = to;
	err = mpa_rx_walk(ctx, at, pick->off, len, mpa_pick_octets, pick);
	if (err)
		iov_iter_revert(to, room - iov_iter_count(to));
	return err;
}

/* ULPDU octets of an FPDU that lies in one piece, to a buffer that does too */
static bool mpa_rx_copy_user(const struct mpa_fpdu *fpdu, const u8 *data,
			     void __user *to, u32 n)
{
	u32 run;

	data += mpa_fpdu_first_span(fpdu, &run);
	for (; n; n -= run, run = MPA_MARKER_GAP) {
		run = min(run, n);
		if (mpa_copy_to_user(to, data, run))
			return false;
		to += run;
		data += run + MPA_MARKER_LEN;
	}
	return true;
}

/* The first @n octets of the ULPDU of an FPDU that lies in one piece. */
static int mpa_rx_copy_linear(const struct mpa_fpdu *fpdu, const u8 *data,
			     struct iov_iter *to, u32 n)
{
	void __user *user = mpa_iter_user(to, n);
	size_t room = iov_iter_count(to);
	u32 run, left;

	if (user) {
		if (!mpa_rx_copy_user(fpdu, data, user, n))
			return -EFAULT;
		mpa_iter_skip(to, n);
		return 0;
	}
	data += mpa_fpdu_first_span(fpdu, &run);
	for (left = n; left; left -= run, run = MPA_MARKER_GAP) {
		run = min(run, left);
		if (copy_to_iter(data, run, to) != run) {
			iov_iter_revert(to, room - iov_iter_count(to));
			return -EFAULT;
		}
		data += run + MPA_MARKER_LEN;
	}
	return 0;
}

static noinline int
mpa_rx_check_pieces(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		    struct mpa_cursor *at, struct iov_iter *to, u32 n,
		    enum mpa_error *code)
{
	struct mpa_cursor again = *at;
	struct mpa_verify verify;
	struct mpa_pick pick;
	int err;

	mpa_verify_begin(&verify, fpdu, ctx->rx.crc);
	err = mpa_rx_walk(ctx, at, 0, fpdu->len, mpa_verify_octets, &verify);
	if (!err) {
		*code = mpa_verify_end(&verify);
		if (*code || !to)
			return 0;
		mpa_pick_begin(&pick, fpdu, 0);
		mpa_cursor_skip(&again, pick.off);
		err = mpa_rx_pick(ctx, &pick, &again, n, to);
	}
	/* TCP counts a FIN that another one came behind as an octet. */
	if (err == -ENODATA) {
		*code = MPA_ERR_TCP;
		err = 0;
	}
	return err;
}

/**
 * mpa_rx_check() - verify an FPDU, then copy octets of its ULPDU
 * @ctx:	the context
 * @fpdu:	the FPDU, which is whole: the current one, or one behind it
 * @at:		where in the receive queue it begins, unless it is in the
 *		stash; moved to its end
 * @to:		where octets go, or NULL
 * @n:		how many
 *
 * If it is not valid, the half connection ends (RFC 5044 section 8).
 *
 * Context: socket lock held; process, unless @to is NULL.
 * Return: 0, -EBADMSG, or -EFAULT. After an error @to is where it was.
 */
int mpa_rx_check(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		 struct mpa_cursor *at, struct iov_iter *to, u32 n)
{
	const u8 *data = ctx->rx.stash ? NULL : mpa_cursor_data(at, fpdu->len);
	enum mpa_error code;
	int err = 0;

	if (data) {
		code = mpa_verify_linear(fpdu, data, ctx->rx.crc);
		if (!code && to)
			err = mpa_rx_copy_linear(fpdu, data, to, n);
		mpa_cursor_pass(at, fpdu->len);
	} else {
		err = mpa_rx_check_pieces(ctx, fpdu, at, to, n, &code);
	}
	if (err)
		return err;
	if (code) {
		mpa_rx_fail(ctx, -EBADMSG, code);
		return -EBADMSG;
	}
	if (mpa_rx_opens_sending(ctx)) {
		/* Section 7.1.2 rule 4: now the responder may send. */
		WRITE_ONCE(ctx->may_send, true);
		mpa_tcp_wake_writers(ctx->sk);
	}
	return 0;
}

/**
 * struct mpa_rx_side - where FPDUs lie side by side, and where their ULPDUs go
 * @data:	the first FPDU
 * @end:	the octet behind the last one
 * @to:		where its ULPDU goes
 * @room:	octets of room there
 * @lengths:	where the length of its ULPDU goes
 * @max:	FPDUs at most
 */
struct mpa_rx_side {
	const u8	*data;
	const u8	*end;
	void __user	*to;
	size_t		room;
	u32		*lengths;
	u32		max;
};

/* Lay out the FPDU with markers at @data. Return: whether it is all here. */
static bool mpa_rx_lay_out(const struct mpa_rx_side *side, const u8 *data,
			   u32 pos, struct mpa_fpdu *fpdu)
{
	u32 head_len = mpa_fpdu_head_len(pos, true), ulpdu_len;

	if (side->end - data < head_len)
		return false;
	ulpdu_len = mpa_ulpdu_length(data, head_len);
	if (!ulpdu_len || ulpdu_len > MPA_ULPDU_MAX)
		return false;
	mpa_fpdu_init(fpdu, pos, ulpdu_len, true);
	return fpdu->len <= side->end - data;
}

/* The first, and as many as its length allows to verify together with it. */
static u32 mpa_rx_lay_out_some(const struct mpa_rx_side *side, u32 max, u32 pos,
			       struct mpa_fpdu *fpdu)
{
	const u8 *data = side->data;
	u32 nr;

	if (!max || !mpa_rx_lay_out(side, data, pos, fpdu))
		return 0;
	max = min(max, mpa_crc_together(fpdu->len));
	for (nr = 1; nr < max; nr++) {
		data += fpdu->len;
		pos += fpdu->len;
		if (!mpa_rx_lay_out(side, data, pos, fpdu + nr) ||
		    fpdu[nr].len != fpdu->len)
			break;
	}
	return nr;
}

/* FPDUs with markers, the first one at @pos. Return: how many. */
static u32 mpa_rx_take_marked(struct mpa_rx_side *side, u32 pos, bool crc,
			      u32 *markers)
{
	struct mpa_fpdu some[3], *fpdu;
	u32 nr = 0, n, good;

	do {
		n = mpa_rx_lay_out_some(side, side->max - nr, pos, some);
		good = n;
		if (crc && n)
			good = mpa_crc_match_many(side->data, some->len, n);
		for (fpdu = some; fpdu < some + good; fpdu++) {
			u32 ulpdu_len = fpdu->ulpdu_len;

			if (ulpdu_len > side->room ||
			    !mpa_fpdu_markers_good(fpdu, side->data) ||
			    !mpa_rx_copy_user(fpdu, side->data, side->to,
					      ulpdu_len))
				return nr;
			side->lengths[nr++] = ulpdu_len;
			side->to += ulpdu_len;
			side->room -= ulpdu_len;
			side->data += fpdu->len;
			*markers += fpdu->markers;
			pos += fpdu->len;
		}
	} while (n && good == n);
	return nr;
}

/*
 * FPDUs without markers that are as long as the first, up to @max of them that
 * can be verified together. Each length is read once.
 */
static __always_inline u32
mpa_rx_count_equal(const struct mpa_rx_side *side, u32 ulpdu_len, u32 len, u32 max)
{
	const u8 *data = side->data;
	u32 nr;

	max = min(max, mpa_crc_together(len));
	if (side->end - data < max * len || side->room < max * ulpdu_len)
		return 1;
	for (nr = 1; nr < max; nr++) {
		data += len;
		if (mpa_ulpdu_length(data, MPA_LENGTH_LEN) != ulpdu_len)
			break;
	}
	return nr;
}

/* The same without markers: there is less to be thought about. */
static u32 mpa_rx_take_plain(struct mpa_rx_side *side, bool crc)
{
	/* In registers. */
	struct mpa_rx_side at = *side;
	u32 nr = 0, ulpdu_len, len, n, good, i;

	do {
		if (nr == at.max || at.end - at.data < MPA_LENGTH_LEN)
			break;
		ulpdu_len = mpa_ulpdu_length(at.data, MPA_LENGTH_LEN);
		len = round_up(MPA_LENGTH_LEN + ulpdu_len, 4) + MPA_CRC_LEN;
		if (!ulpdu_len || ulpdu_len > MPA_ULPDU_MAX ||
		    ulpdu_len > at.room || len > at.end - at.data)
			break;
		n = mpa_rx_count_equal(&at, ulpdu_len, len, at.max - nr);
		good = crc ? mpa_crc_match_many(at.data, len, n) : n;
		for (i = 0; i < good; i++) {
			if (mpa_copy_to_user(at.to, at.data + MPA_LENGTH_LEN,
					     ulpdu_len))
				break;
			at.lengths[nr++] = ulpdu_len;
			at.to += ulpdu_len;
			at.room -= ulpdu_len;
			at.data += len;
		}
	} while (i == n);
	side->data = at.data;
	side->room = at.room;
	return nr;
}

/**
 * mpa_rx_read_many() - verify FPDUs and copy their ULPDUs as long as both lie side by
 *		  side
 * @ctx:	the context; the responder may send
 * @at:		where in the receive queue the first begins; moved behind them
 * @have:	octets in the queue from there on
 * @to:		where the ULPDUs go
 * @octets:	room for them
 * @lengths:	set to the length of each ULPDU
 * @max:	FPDUs at most
 * @more:	counts them
 *
 * It stops in front of anything else, or wrong: that is for mpa_rx_head() and
 * mpa_rx_check().
 *
 * Context: process, socket lock held.
 * Return: how many.
 */
u32 mpa_rx_read_many(struct mpa_ctx *ctx, struct mpa_cursor *at, u32 have,
	       struct iov_iter *to, size_t octets, u32 *lengths, u32 max,
	       struct mpa_rx_more *more)
{
	struct mpa_rx_side side = { .lengths = lengths, .max = max };
	struct mpa_rx *rx = &ctx->rx;
	const u8 *data;
	size_t room;
	u32 nr;

	/* All of it, or as much as there is. */
	data = mpa_cursor_data(at, have) ?: mpa_cursor_data(at, 1);
	side.to = mpa_iter_span(to, &room);
	if (!data || !side.to)
		return 0;
	side.data = data;
	room = min(room, octets);
	side.room = room;
	side.end = data + min(have, at->left);

	if (rx->marked)
		nr = mpa_rx_take_marked(&side,
					rx->pos + rx->fpdu.len + more->len,
					rx->crc, &more->markers);
	else
		nr = mpa_rx_take_plain(&side, rx->crc);
	if (!nr)
		return 0;
	mpa_cursor_pass(at, side.data - data);
	mpa_iter_skip(to, room - side.room);
	more->ulpdus += nr;
	more->octets += room - side.room;
	more->len += side.data - data;
	return nr;
}

static void mpa_rx_verify(struct mpa_ctx *ctx)
{
	struct mpa_cursor at;

	mpa_cursor_begin(&at, ctx->sk);
	ctx->rx.verified = !mpa_rx_check(ctx, &ctx->rx.fpdu, &at, NULL, 0);
}

/**
 * mpa_rx_copy() - copy octets of the current ULPDU, which is verified
 * @ctx:	the context
 * @to:		where they go
 * @n:		how many, from the first that the user has not got
 *
 * Context: process, socket lock held.
 * Return: 0 or -EFAULT. After an error @to is where it was.
 */
int mpa_rx_copy(struct mpa_ctx *ctx, struct iov_iter *to, u32 n)
{
	struct mpa_rx *rx = &ctx->rx;
	struct mpa_cursor at;
	struct mpa_pick pick;

	if (!n)
		return 0;
	mpa_pick_begin(&pick, &rx->fpdu, rx->read);
	mpa_cursor_begin(&at, ctx->sk);
	mpa_cursor_seek(&at, pick.off - rx->taken);
	return mpa_rx_pick(ctx, &pick, &at, rx->read + n, to);
}

/* ---- how much is there ---- */

static int mpa_rx_copy_head(void *arg, const u8 *data, u32 len)
{
	u8 **to = arg;

	memcpy(*to, data, len);
	*to += len;
	return 0;
}

/*
 * The same where it does not lie in one piece, or its first octets in the
 * stash. Return: -ENODATA or 0.
 */
static noinline int mpa_rx_head_pieces(const struct mpa_ctx *ctx,
				       const struct mpa_cursor *at, u8 *head,
				       u32 stashed, u32 len)
{
	struct mpa_cursor here = *at;

	if (stashed)
		mpa_stash_walk(ctx->rx.stash, 0, stashed, mpa_rx_copy_head,
			       &head);
	return mpa_cursor_walk(&here, len - stashed, mpa_rx_copy_head, &head) ?
	       -ENODATA : 0;
}

/**
 * mpa_rx_head() - read the length of an FPDU and lay it out
 * @ctx:	the context
 * @at:		where in the receive queue it begins
 * @pos:	its stream position
 * @have:	octets of it in the stash, and in the queue from there on
 * @fpdu:	filled in
 *
 * If no FPDU can have that length, the half connection ends.
 *
 * Context: socket lock held.
 * Return: 1, 0 if the length is not here yet, or -EBADMSG.
 */
int mpa_rx_head(struct mpa_ctx *ctx, struct mpa_cursor *at, u64 pos,
		u32 have, struct mpa_fpdu *fpdu)
{
	/* One behind the current has nothing in the stash. */
	u32 stashed = ctx->rx.known ? 0 : ctx->rx.taken;
	u8 pieces[MPA_FPDU_HEAD_MAX];
	u32 len, ulpdu_len;
	const u8 *head;

	len = mpa_fpdu_head_len(pos, ctx->rx.marked);
	if (have < len)
		return 0;
	head = stashed ? NULL : mpa_cursor_data(at, len);
	if (!head) {
		if (mpa_rx_head_pieces(ctx, at, pieces, stashed, len))
			return 0;
		head = pieces;
	}
	ulpdu_len = mpa_ulpdu_length(head, len);
	/*
	 * Section 3: "any size between one and 64768 octets"; but for a first
	 * FPDU without a ULPDU that has been agreed on.
	 */
	if ((!ulpdu_len && !(ctx->rx.rtr && !ctx->may_send)) ||
	    ulpdu_len > MPA_ULPDU_MAX) {
		mpa_rx_fail(ctx, -EBADMSG, MPA_ERR_CRC);
		return -EBADMSG;
	}
	mpa_fpdu_init(fpdu, pos, ulpdu_len, ctx->rx.marked);
	return 1;
}

static void mpa_rx_read_head(struct mpa_ctx *ctx, u32 have)
{
	struct mpa_rx *rx = &ctx->rx;
	struct mpa_cursor at;

	mpa_cursor_begin(&at, ctx->sk);
	rx->known = mpa_rx_head(ctx, &at, rx->pos, have, &rx->fpdu) > 0;
}

/**
 * mpa_rx_complete() - the current FPDU is whole
 * @ctx:	the context, in MPA_STATE_FULL
 *
 * Context: socket lock held.
 * Return: whether all of it is in the queue, in the stash, or in both.
 */
bool mpa_rx_complete(struct mpa_ctx *ctx)
{
	struct mpa_rx *rx = &ctx->rx;
	u32 have;

	if (!mpa_rx_in_place(ctx))
		return false;
	if (rx->verified)
		return true;
	have = rx->taken + mpa_tcp_inq(ctx->sk);
	if (!rx->known && have)
		mpa_rx_read_head(ctx, have);
	return rx->known && have >= rx->fpdu.len;
}

/* Not even the first octet of the current FPDU has arrived. */
static bool mpa_rx_nothing(const struct mpa_ctx *ctx)
{
	return !ctx->rx.taken && !mpa_tcp_inq(ctx->sk);
}

/*
 * An FPDU for which the receive window has no room, or TCP no memory, or whose
 * rest has come since, or which has to be validated outside of it. That memory
 * is short elsewhere is no reason: octets that TCP takes are best left to it.
 */
static bool mpa_rx_needs_work(struct mpa_ctx *ctx, bool whole)
{
	const struct mpa_rx *rx = &ctx->rx;

	if (rx->verified || rx->error)
		return false;
	/*
	 * One octet may be all that is left of an skb, which stays for it. And
	 * a reader of TCP's would long have begun to take what is here.
	 */
	if (!whole)
		return mpa_tcp_window_closed(ctx->sk) ||
		       (rx->known && mpa_tcp_window_short(ctx->sk)) ||
		       (rx->starved && mpa_tcp_inq(ctx->sk));
	if (!rx->fpdu.ulpdu_len)
		return true;
	return rx->stash && (rx->taken < rx->fpdu.len || mpa_rx_opens_sending(ctx));
}

/**
 * mpa_rx_update() - learn what has arrived, or what is left
 * @ctx:	the context, in MPA_STATE_FULL
 *
 * Afterwards ctx->rx.ready says whether a reader would wait.
 *
 * Context: softirq or process, socket lock held.
 */
void mpa_rx_update(struct mpa_ctx *ctx)
{
	struct mpa_rx *rx = &ctx->rx;
	bool whole = false;

	if (rx->error && mpa_tcp_window_closed(ctx->sk))
		mpa_schedule_work(ctx, 0);
	if (!mpa_rx_in_place(ctx) || mpa_rx_nothing(ctx))
		goto out;
	whole = mpa_rx_complete(ctx);
	/*
	 * Somebody has to validate the first FPDU, even if the user wants to
	 * send before it reads.
	 */
	if (whole && rx->fpdu.ulpdu_len && mpa_rx_opens_sending(ctx) &&
	    (!rx->stash || rx->taken == rx->fpdu.len))
		mpa_rx_verify(ctx);

	if (mpa_rx_needs_work(ctx, whole)) {
		mpa_schedule_work(ctx, 0);
		whole = whole && rx->fpdu.ulpdu_len;
	}
out:
	WRITE_ONCE(rx->ready, whole || rx->error ||
			      mpa_tcp_input_ended(ctx->sk));
}

/**
 * mpa_rx_arrived() - TCP says that something has arrived
 * @ctx:	the context, in MPA_STATE_FULL
 *
 * It says so as well when it had no memory for a segment. At that limit it
 * takes one only when its queue is empty: without the current FPDU's octets.
 *
 * Context: softirq or process (backlog), socket lock held.
 */
void mpa_rx_arrived(struct mpa_ctx *ctx)
{
	bool urgent = mpa_tcp_forget_urgent(ctx->sk);
	u32 end = mpa_tcp_rcv_nxt(ctx->sk);
	struct mpa_rx *rx = &ctx->rx;

	if (end == rx->end && !urgent && mpa_tcp_inq(ctx->sk))
		rx->starved = true;
	rx->end = end;
	mpa_rx_update(ctx);
}

/**
 * mpa_rx_set_start() - the stream of FPDUs begins with the next octet
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 */
void mpa_rx_set_start(struct mpa_ctx *ctx)
{
	ctx->rx.seq = mpa_tcp_copied_seq(ctx->sk);
}

/**
 * mpa_rx_start_unread() - no octet has been read since mpa_rx_set_start()
 * @ctx:	the context, not in Full Operation
 *
 * Context: process, socket lock held.
 */
bool mpa_rx_start_unread(const struct mpa_ctx *ctx)
{
	return mpa_tcp_reads_at(ctx->sk, ctx->rx.seq);
}

/**
 * mpa_rx_begin() - Full Operation begins
 * @ctx:	the context; mpa_rx_set_start() has said with which octet
 *
 * Context: process, socket lock held.
 */
void mpa_rx_begin(struct mpa_ctx *ctx)
{
	mpa_tcp_forget_urgent(ctx->sk);
	ctx->rx.end = mpa_tcp_rcv_nxt(ctx->sk);
}

/**
 * mpa_rx_advance() - octets have gone to the user
 * @ctx:	the context
 * @n:		octets of the current ULPDU
 * @more:	if not NULL: whole ULPDUs behind it, and @n was its rest
 *
 * Context: process, socket lock held.
 */
void mpa_rx_advance(struct mpa_ctx *ctx, u32 n, const struct mpa_rx_more *more)
{
	static const struct mpa_rx_more none;
	struct mpa_rx *rx = &ctx->rx;
	bool whole;
	u32 end;

	more = more ?: &none;
	rx->read += n;
	rx->octets += n + more->octets;
	whole = rx->read == rx->fpdu.ulpdu_len;
	end = whole ? rx->fpdu.len : mpa_fpdu_offset(&rx->fpdu, rx->read);

	if (!rx->stash) {
		mpa_rx_consume(ctx, end - rx->taken + more->len);
		rx->taken = end;
	}
	if (!whole)
		return;

	mpa_rx_free(ctx);
	rx->starved = false;
	rx->ulpdus += !!rx->fpdu.ulpdu_len + more->ulpdus;
	rx->markers += rx->fpdu.markers + more->markers;
	rx->pos += rx->fpdu.len + more->len;
	rx->taken = 0;
	rx->read = 0;
	rx->known = false;
	rx->verified = false;
}

/* ---- what must not be done in softirq ---- */

/*
 * RFC 6581 section 9.2: the zero-length FPDU opens the connection and is
 * nobody's ULPDU.
 */
static void mpa_rx_take_rtr(struct mpa_ctx *ctx)
{
	mpa_rx_verify(ctx);
	if (!ctx->rx.verified)
		return;
	ctx->rx.rtr = false;
	mpa_rx_advance(ctx, 0, NULL);
}

static int mpa_rx_take_octets(struct mpa_ctx *ctx)
{
	struct mpa_rx *rx = &ctx->rx;
	u32 n = mpa_tcp_inq(ctx->sk);
	int err;

	/* Otherwise it is a part of the head. */
	if (rx->known)
		n = min(n, rx->fpdu.len - rx->taken);

	err = mpa_stash_fill(&rx->stash, ctx->sk, rx->taken, n, &n);
	rx->taken += n;
	mpa_rx_consume(ctx, n);
	return err;
}

/**
 * mpa_rx_make_room() - take the current FPDU out of the receive buffer, if it
 *			cannot become whole there, or has become so in part
 * @ctx:	the context, in MPA_STATE_FULL
 *
 * Context: process, socket lock held.
 * Return: whether it is whole, as mpa_rx_complete() does; -ENOMEM: it will be tried
 * again; or -EBADMSG.
 */
int mpa_rx_make_room(struct mpa_ctx *ctx)
{
	struct mpa_rx *rx = &ctx->rx;
	bool whole;
	int err;

	if (!mpa_rx_in_place(ctx) || mpa_rx_nothing(ctx))
		return false;
	whole = mpa_rx_complete(ctx);
	if (!mpa_rx_needs_work(ctx, whole))
		return whole;
	/* What has begun in the stash ends there. */
	if (!whole || rx->stash) {
		err = mpa_rx_take_octets(ctx);
		if (err == -ENODATA) {
			mpa_rx_fail(ctx, -EBADMSG, MPA_ERR_TCP);
			return -EBADMSG;
		}
		if (err) {
			/* The work item tells when there is some. */
			WRITE_ONCE(rx->ready, false);
			mpa_schedule_work(ctx, MPA_RETRY_DELAY);
			return err;
		}
	}
	if (whole && !rx->fpdu.ulpdu_len)
		mpa_rx_take_rtr(ctx);
	return mpa_rx_complete(ctx);
}

/**
 * mpa_rx_discard() - throw away what is behind an error
 * @ctx:	the context
 *
 * MPA reads none of it. Left in a full queue it would keep the peer's FIN out,
 * and have TCP reset the connection on close(2), with all that is still to be
 * sent: section 8 wants to allow a last message that says what was wrong.
 *
 * Context: process, socket lock held.
 */
void mpa_rx_discard(struct mpa_ctx *ctx)
{
	if (ctx->state != MPA_STATE_FULL || !ctx->rx.error)
		return;
	mpa_rx_free(ctx);
	mpa_rx_consume(ctx, mpa_tcp_inq(ctx->sk));
}

/**
 * mpa_rx_drain() - do what mpa_rx_update() left to process context
 * @ctx:	the context, in MPA_STATE_FULL
 *
 * Context: process, socket lock held.
 * Return: 0; -ENOMEM: it will be tried again; or -EBADMSG.
 */
int mpa_rx_drain(struct mpa_ctx *ctx)
{
	bool was_ready = ctx->rx.ready;
	int err = mpa_rx_make_room(ctx);

	/* As long as there is room, a call of TCP's own may come for it. */
	if (mpa_tcp_window_closed(ctx->sk))
		mpa_rx_discard(ctx);
	if (err < 0)
		return err;
	mpa_rx_update(ctx);
	if (ctx->rx.ready && !was_ready)
		ctx->data_ready(ctx->sk);
	return 0;
}

/**
 * mpa_rx_end() - the stream has ended; was it between two FPDUs?
 * @ctx:	the context; the current FPDU is not whole
 *
 * RFC 5044 section 8 code 1.
 *
 * Context: process, socket lock held.
 * Return: 0 if it was; -EBADMSG; or -ENOTCONN when the peer has not ended it,
 * and somebody else has got the connection's error.
 */
int mpa_rx_end(struct mpa_ctx *ctx)
{
	bool peer_ended = mpa_tcp_peer_ended(ctx->sk);
	bool gone = mpa_tcp_gone(ctx->sk);

	/* Not so if the local user has shut down receiving. */
	if (!peer_ended && !gone)
		return 0;
	if (mpa_rx_nothing(ctx))
		return peer_ended ? 0 : -ENOTCONN;
	mpa_rx_fail(ctx, -EBADMSG, MPA_ERR_TCP);
	return -EBADMSG;
}

/**
 * mpa_rx_code() - the error code for MPA_INFO
 * @ctx:	the context
 *
 * RFC 5044 section 8 code 1 is "TCP connection closed, terminated, or lost.
 * This includes lost by timeout, too many retries, RST received, or FIN
 * received": it holds as soon as that has happened, unless there is another.
 *
 * Context: process, socket lock held.
 * Return: enum mpa_error.
 */
u8 mpa_rx_code(const struct mpa_ctx *ctx)
{
	if (ctx->code || ctx->state != MPA_STATE_FULL)
		return ctx->code;
	return mpa_tcp_peer_left(ctx->sk) ? MPA_ERR_TCP : MPA_ERR_NONE;
}

/**
 * mpa_rx_free() - give back what receiving has allocated
 * @ctx:	the context
 *
 * Context: socket lock held, or nobody else knows the socket any more; before
 * TCP gives its account back.
 */
void mpa_rx_free(struct mpa_ctx *ctx)
{
	mpa_stash_free(ctx->rx.stash, ctx->sk);
	ctx->rx.stash = NULL;
}
