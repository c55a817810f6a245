// SPDX-License-Identifier: GPL-2.0
/*
 * TUF's own options: framing is switched on and off, in each direction by itself; keys;
 * and what is told of the socket. The drafts leave it to the programs to agree on that,
 * and on where in the stream it happens.
 *
 * A direction that is not framed is TCP's own. Calls of TCP's own on it are counted
 * (mpa_passthrough_begin()), and so are ours on one that is: it is not switched while
 * one of them may wait.
 */

#include <linux/log2.h>
#include <linux/random.h>

#include "mpa_face.h"
#include "mpa_tuf.h"

/**
 * mpa_tufopt_setup() - a socket of TUF is attached
 * @ctx:	its context, seen by nobody yet
 */
void mpa_tufopt_setup(struct mpa_ctx *ctx)
{
	ctx->tx.format.framing = MPA_FRAMING_OFF;
	ctx->rx.format.framing = MPA_FRAMING_OFF;
	/* Appendix A of -01: EMSGSIZE, unless it is switched off. */
	ctx->tx.oversize = false;
	WRITE_ONCE(ctx->may_send, true);
}

/* ---- calls under way ---- */

static u32 *mpa_tufopt_inside(struct mpa_ctx *ctx, u8 dir)
{
	return dir == MPA_DIR_TX ? &mpa_tuf(ctx)->inside_tx :
				   &mpa_tuf(ctx)->inside_rx;
}

/**
 * mpa_tufopt_enter() - a call of ours begins
 * @ctx:	the context
 * @dir:	what it touches
 *
 * Context: process, socket lock held.
 * Return: false if the direction is not framed any more.
 */
bool mpa_tufopt_enter(struct mpa_ctx *ctx, u8 dir)
{
	if (!mpa_framed(ctx, dir))
		return false;
	++*mpa_tufopt_inside(ctx, dir);
	return true;
}

/**
 * mpa_tufopt_leave() - undo mpa_tufopt_enter()
 * @ctx:	the context
 * @dir:	the same
 *
 * Context: process, socket lock held.
 */
void mpa_tufopt_leave(struct mpa_ctx *ctx, u8 dir)
{
	--*mpa_tufopt_inside(ctx, dir);
}

/* ---- modes ---- */

static u32 mpa_tufopt_period(const struct mpa_format *format)
{
	return format->framing == MPA_FRAMING_TUF_MARKERS ?
	       1U << format->period : 0;
}

/* Return: -EINVAL if @framing makes no sense for @dir, or 0: @format is filled in. */
static int mpa_tufopt_format(u8 dir, const struct tuf_framing *framing,
			     struct mpa_format *format)
{
	u32 period = framing->period, flags = TUF_KEY_GIVEN;

	if (dir == MPA_DIR_TX)
		flags |= TUF_TELL_EMSS;
	if (framing->mode > (dir == MPA_DIR_TX ? TUF_SEGMENTS : TUF_MARKERS) ||
	    framing->reserved || framing->flags & ~flags ||
	    memchr_inv(framing->reserved2, 0, sizeof(framing->reserved2)))
		return -EINVAL;
	/* Only what has a header has a key. */
	if (framing->flags & TUF_KEY_GIVEN && framing->mode != TUF_ALIGN &&
	    framing->mode != TUF_MARKERS)
		return -EINVAL;
	if (framing->mode == TUF_OFF && framing->flags)
		return -EINVAL;
	memset(format, 0, sizeof(*format));
	format->framing = MPA_FRAMING_OFF + framing->mode;
	if (framing->mode != TUF_MARKERS)
		return period ? -EINVAL : 0;
	period = period ?: TUF_PERIOD_DEFAULT;
	if (period < TUF_PERIOD_MIN || period > TUF_PERIOD_MAX ||
	    !is_power_of_2(period))
		return -EINVAL;
	format->period = ilog2(period);
	return 0;
}

/* Full Operation, as far as the other floors know. */
static void mpa_tufopt_set_state(struct mpa_ctx *ctx)
{
	bool on = mpa_format_on(&ctx->tx.format) ||
		  mpa_format_on(&ctx->rx.format);
	u8 state = on ? MPA_STATE_FULL : MPA_STATE_IDLE;

	if (ctx->state != state)
		mpa_set_state(ctx, state);
}

/* What both directions have in common. */
static int mpa_tufopt_may_begin(struct mpa_ctx *ctx, u8 dir)
{
	int err;

	if (mpa_tcp_repaired(ctx->sk))
		return -EBUSY;
	err = mpa_plain_close(ctx, dir);
	if (err)
		return err;
	err = mpa_hook_callbacks(ctx);
	if (err)
		mpa_plain_open(ctx, dir);
	return err;
}

/* ---- sending ---- */

/* Have a key for the framing that comes next. */
static void mpa_tufopt_make_key(struct mpa_tuf *tuf)
{
	if (tuf->key_known)
		return;
	get_random_bytes(tuf->next_key, sizeof(tuf->next_key));
	tuf->key_known = true;
	tuf->key_told = false;
}

static void mpa_tufopt_take_key(struct mpa_tuf *tuf,
				const struct tuf_framing *framing)
{
	tuf->key_given = framing->flags & TUF_KEY_GIVEN;
	if (tuf->key_given) {
		memcpy(tuf->next_key, framing->key, TUF_KEY_LEN);
		tuf->key_known = true;
		tuf->key_told = true;
	}
	mpa_tufopt_make_key(tuf);
	mpa_tuf_set_key(&tuf->key, tuf->next_key);
}

static int mpa_tufopt_begin_tx(struct mpa_ctx *ctx,
			       const struct tuf_framing *framing,
			       const struct mpa_format *format)
{
	struct mpa_tuf *tuf = mpa_tuf(ctx);
	struct mpa_tx *tx = &ctx->tx;
	int err;

	if (mpa_format_on(&tx->format))
		return -EISCONN;
	if (mpa_tcp_gone(ctx->sk) || !mpa_tcp_synchronized(ctx->sk))
		return -ENOTCONN;
	if (mpa_tcp_send_ended(ctx->sk))
		return -EPIPE;
	/* What was sent in frames before is looked at with its key. */
	if (mpa_tcp_sending(ctx->sk) || !mpa_guard_idle(ctx))
		return -EBUSY;
	err = mpa_tufopt_may_begin(ctx, MPA_DIR_TX);
	if (err)
		return err;
	if (format->framing != MPA_FRAMING_SEGMENTS)
		mpa_tufopt_take_key(tuf, framing);
	mpa_tx_reset(ctx);
	mpa_tx_rebegin(ctx, format);
	memset(&tuf->pack, 0, sizeof(tuf->pack));
	memset(&tuf->guard, 0, sizeof(tuf->guard));
	tuf->tell_emss = framing->flags & TUF_TELL_EMSS;
	mpa_tufopt_mulpdu_read(ctx);
	mpa_tufopt_set_state(ctx);
	return 0;
}

static int mpa_tufopt_end_tx(struct mpa_ctx *ctx)
{
	struct mpa_tuf *tuf = mpa_tuf(ctx);
	struct mpa_tx *tx = &ctx->tx;

	if (!mpa_format_on(&tx->format))
		return 0;
	if (tuf->inside_tx || mpa_tx_open(tx))
		return -EBUSY;
	mpa_tx_end_batch(ctx, false);
	/* Octets that TCP has no memory for would come behind others. */
	if (mpa_tx_push(ctx) == -EAGAIN)
		return -EBUSY;
	mpa_pack_forget(ctx);
	mpa_tx_leave(ctx);
	/* The key that was sent. */
	if (tx->format.framing != MPA_FRAMING_SEGMENTS)
		tuf->key_known = false;
	tx->format.framing = MPA_FRAMING_OFF;
	mpa_plain_open(ctx, MPA_DIR_TX);
	tuf->key_given = false;
	/* Who waits for memory waits for TCP's own from here on. */
	WRITE_ONCE(tx->starved, false);
	mpa_tufopt_set_state(ctx);
	mpa_wake_writers(ctx);
	return 0;
}

/**
 * mpa_tufopt_mulpdu_read() - the user knows MULPDU
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 */
void mpa_tufopt_mulpdu_read(struct mpa_ctx *ctx)
{
	/* TCP may not have noticed a change of the path. */
	mpa_tcp_emss(ctx->sk);
	mpa_tuf(ctx)->mulpdu =
		mpa_framing_mulpdu(&ctx->tx.format,
				   mpa_tcp_path_mss(ctx->sk) + ctx->tx.fit.less);
}

/* ---- receiving ---- */

static const u8 *mpa_tufopt_given_key(const struct tuf_framing *framing)
{
	return framing->flags & TUF_KEY_GIVEN ? framing->key : NULL;
}

/* Another key, or the same: then the test is begun anew. */
static void mpa_tufopt_change_key(struct mpa_ctx *ctx,
				  const struct tuf_framing *framing)
{
	bool changed = mpa_contain_key(mpa_tuf(ctx), mpa_tufopt_given_key(framing));

	if (changed)
		mpa_rx_compare_key(ctx);
	if (ctx->rx.place && ctx->rx.place->on)
		mpa_place_look_again(ctx, changed);
	mpa_rx_update(ctx);
}

static int mpa_tufopt_begin_rx(struct mpa_ctx *ctx,
			       const struct tuf_framing *framing,
			       const struct mpa_format *format)
{
	struct mpa_rx *rx = &ctx->rx;
	int err;

	if (mpa_format_on(&rx->format)) {
		if (rx->format.framing != format->framing ||
		    rx->format.period != format->period)
			return -EISCONN;
		mpa_tufopt_change_key(ctx, framing);
		return 0;
	}
	if (!mpa_tcp_synchronized(ctx->sk))
		return -ENOTCONN;
	/* What has come can still be read. */
	if (mpa_tcp_input_ended(ctx->sk) && !mpa_tcp_inq(ctx->sk))
		return mpa_tcp_gone(ctx->sk) ? -ENOTCONN : -EPIPE;
	err = mpa_tufopt_may_begin(ctx, MPA_DIR_RX);
	if (err)
		return err;
	if (!mpa_format_on(&ctx->tx.format))
		mpa_tcp_watch_plain(ctx->sk);
	mpa_tcp_any_octet_counts(ctx->sk);
	rx->format = *format;
	mpa_rx_set_start(ctx);
	mpa_contain_begin(mpa_tuf(ctx), mpa_tufopt_given_key(framing));
	mpa_tufopt_set_state(ctx);
	mpa_rx_begin(ctx);
	mpa_rx_update(ctx);
	if (rx->ready)
		mpa_wake_reader(ctx);
	return 0;
}

static int mpa_tufopt_end_rx(struct mpa_ctx *ctx)
{
	struct mpa_rx *rx = &ctx->rx;

	if (!mpa_format_on(&rx->format))
		return 0;
	if (rx->error)
		return rx->error;
	if (mpa_tuf(ctx)->inside_rx || rx->cur.taken || rx->cur.read ||
	    mpa_rx_skip(rx) || mpa_rx_ahead(rx))
		return -EBUSY;
	mpa_rx_leave(ctx);
	mpa_contain_begin(mpa_tuf(ctx), NULL);
	rx->format.framing = MPA_FRAMING_OFF;
	mpa_plain_open(ctx, MPA_DIR_RX);
	mpa_tufopt_set_state(ctx);
	/* What has come is a plain reader's. */
	mpa_wake_reader(ctx);
	return 0;
}

/* ---- options ---- */

/**
 * mpa_tufopt_set() - TUF_TX, TUF_RX
 * @sk:		socket
 * @dir:	MPA_DIR_TX or MPA_DIR_RX
 * @framing:	what is asked for
 *
 * Context: process, socket lock not held.
 * Return: 0, -EINVAL, -EBUSY, -EISCONN, -ENOTCONN, -EPIPE, or the error that
 * receiving has ended with.
 */
int mpa_tufopt_set(struct sock *sk, u8 dir, const struct tuf_framing *framing)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	struct mpa_format format;
	int err;

	err = mpa_tufopt_format(dir, framing, &format);
	if (err)
		return err;
	mpa_delay(MPA_POINT_START);
	lock_sock(sk);
	mpa_delay(MPA_POINT_START_LOCKED);
	if (dir == MPA_DIR_TX)
		err = framing->mode ?
		      mpa_tufopt_begin_tx(ctx, framing, &format) :
		      mpa_tufopt_end_tx(ctx);
	else
		err = framing->mode ?
		      mpa_tufopt_begin_rx(ctx, framing, &format) :
		      mpa_tufopt_end_rx(ctx);
	release_sock(sk);
	return err;
}

/**
 * mpa_tufopt_get() - TUF_TX, TUF_RX
 * @sk:		socket
 * @dir:	MPA_DIR_TX or MPA_DIR_RX
 * @framing:	filled in, without a key
 *
 * Context: process, socket lock not held.
 */
void mpa_tufopt_get(struct sock *sk, u8 dir, struct tuf_framing *framing)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	const struct mpa_format *format = dir == MPA_DIR_TX ? &ctx->tx.format :
							      &ctx->rx.format;
	const struct mpa_tuf *tuf = mpa_tuf(ctx);

	memset(framing, 0, sizeof(*framing));
	lock_sock(sk);
	framing->mode = mpa_format_mode(format);
	framing->period = mpa_tufopt_period(format);
	if (dir == MPA_DIR_RX && mpa_format_on(format) && tuf->contain.keyed)
		framing->flags |= TUF_KEY_GIVEN;
	if (dir == MPA_DIR_TX && mpa_format_on(format))
		framing->flags |= (tuf->key_given ? TUF_KEY_GIVEN : 0) |
				  (tuf->tell_emss ? TUF_TELL_EMSS : 0);
	release_sock(sk);
}

/**
 * mpa_tufopt_key() - TUF_TX_KEY
 * @sk:		socket
 * @key:	set to the key
 *
 * Context: process, socket lock not held.
 * Return: 0, or -ENODATA if it has been told, or was given.
 */
int mpa_tufopt_key(struct sock *sk, u8 *key)
{
	struct mpa_tuf *tuf = mpa_tuf(mpa_ctx(sk));
	int err = 0;

	lock_sock(sk);
	mpa_tufopt_make_key(tuf);
	if (tuf->key_told)
		err = -ENODATA;
	else
		memcpy(key, tuf->next_key, TUF_KEY_LEN);
	tuf->key_told = true;
	release_sock(sk);
	return err;
}

/**
 * mpa_tufopt_key_untold() - the user has not got what mpa_tufopt_key() has returned
 * @sk:	socket
 *
 * Context: process, socket lock not held.
 */
void mpa_tufopt_key_untold(struct sock *sk)
{
	lock_sock(sk);
	mpa_tuf(mpa_ctx(sk))->key_told = false;
	release_sock(sk);
}

static void mpa_tufopt_info_fill(struct mpa_ctx *ctx, struct tuf_info *info)
{
	const struct mpa_watch *watch = &ctx->tcp.watch;
	const struct mpa_tuf *tuf = mpa_tuf(ctx);
	const struct mpa_tx *tx = &ctx->tx;
	const struct mpa_rx *rx = &ctx->rx;

	info->tx_mode = mpa_format_mode(&tx->format);
	info->rx_mode = mpa_format_mode(&rx->format);
	info->error = mpa_show_code(ctx);
	info->mulpdu = mpa_tx_mulpdu(ctx, &info->emss);
	info->tx_period = mpa_tufopt_period(&tx->format);
	info->rx_period = mpa_tufopt_period(&rx->format);
	if (tuf->contain.keyed)
		info->flags |= TUF_INFO_RX_KEY;
	if (tuf->contain.given_up)
		info->flags |= TUF_INFO_RESEGMENTED;
	if (info->emss < TUF_EMERGENCY)
		info->flags |= TUF_INFO_EMERGENCY;
	info->tx_ulpdus = tx->ulpdus;
	info->tx_fpdus = tuf->tx_fpdus;
	info->tx_octets = tx->octets;
	info->tx_markers = tx->markers;
	info->rx_fpdus = rx->ulpdus;
	info->rx_octets = rx->octets;
	info->rx_markers = rx->markers;
	info->tx_packets = watch->packets;
	info->tx_segs_aligned = watch->aligned;
	info->tx_segs_unaligned = watch->unaligned;
	info->tx_segs_contained = tuf->contained;
	info->tx_trimmed = tuf->trimmed;
	info->rx_placed = rx->place ? rx->place->total : 0;
	info->rx_tested = tuf->tested;
	info->rx_contained = tuf->passed;
	info->rx_wrong_key = tuf->wrong_key;
	info->rx_edge = rx->cur.pos;
	info->error_position = rx->error ? rx->cur.pos : 0;
}

/**
 * mpa_tufopt_info() - TUF_INFO
 * @sk:		socket
 * @info:	filled in
 *
 * Context: process, socket lock not held.
 */
void mpa_tufopt_info(struct sock *sk, struct tuf_info *info)
{
	memset(info, 0, sizeof(*info));
	lock_sock(sk);
	mpa_tufopt_info_fill(mpa_ctx(sk), info);
	release_sock(sk);
}
