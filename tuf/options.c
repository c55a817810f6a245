// SPDX-License-Identifier: GPL-2.0
/*
 * TUF's options: framing on and off for each direction, keys, and TUF_INFO. The drafts
 * do not define how programs agree on the options, or on where in the stream framing
 * begins.
 *
 * A direction without framing is plain TCP. A direction is not switched during a call
 * that sends or receives, with or without framing: mpa_call_begin() counts these calls.
 */

#include <linux/log2.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../mpa_sock.h"
#include "tuf.h"

/*
 * tcp_ulp_ops.init of TUF. Fails for listeners, as TUF has no startup that children could
 * inherit. Context: process, socket lock held. Return: 0, -ENOTCONN, -ENOMEM, or as
 * mpa_attach().
 */
int mpa_alt_attach(struct sock *sk)
{
	struct mpa_tuf *tuf;
	struct mpa_ctx *ctx;
	int err;

	mpa_delay(MPA_POINT_INIT_BEGIN);
	if (!mpa_tcp_connected(sk))
		return -ENOTCONN;
	/* This static key is never disabled again. */
	static_branch_enable(&mpa_alt_used);
	tuf = kzalloc(sizeof(*tuf), GFP_KERNEL_ACCOUNT);
	if (!tuf)
		return -ENOMEM;
	ctx = &tuf->ctx;
	mpa_ctx_setup(ctx, sk);
	ctx->tx.format.framing = MPA_FRAMING_OFF;
	ctx->rx.format.framing = MPA_FRAMING_OFF;
	/* Appendix A of -01: EMSGSIZE for large ULPDUs, unless the user switches this off */
	ctx->tx.options &= ~BIT(MPA_OVERSIZE);
	WRITE_ONCE(ctx->may_send, true);
	err = mpa_attach(ctx, sk->sk_socket->ops);
	if (err)
		kfree_rcu(tuf, ctx.rcu);
	mpa_delay(MPA_POINT_INIT_END);
	return err;
}

/* ---- modes ---- */

static u32 mpa_tufopt_period(const struct mpa_format *format)
{
	return format->framing == MPA_FRAMING_POINTERS ?
	       1U << format->period : 0;
}

/* Fill in @format. Return: 0, or -EINVAL if @framing is not valid for @dir. */
static int mpa_tufopt_format(u8 dir, const struct tuf_framing *framing,
			     struct mpa_format *format)
{
	u32 period = framing->period, flags = TUF_KEY_GIVEN;

	if (dir == MPA_TX)
		flags |= TUF_TELL_EMSS;
	if (framing->mode > (dir == MPA_TX ? TUF_SEGMENTS : TUF_MARKERS) ||
	    framing->reserved || framing->flags & ~flags ||
	    memchr_inv(framing->reserved2, 0, sizeof(framing->reserved2)))
		return -EINVAL;
	/* Only modes with a header have a key. */
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

/* For the code that MPA and TUF share: Full Operation while a direction is framed */
static void mpa_tufopt_set_state(struct mpa_ctx *ctx)
{
	bool on = mpa_format_on(&ctx->tx.format) ||
		  mpa_format_on(&ctx->rx.format);
	u8 state = on ? MPA_STATE_FULL : MPA_STATE_IDLE;

	if (ctx->state != state)
		mpa_set_state(ctx, state);
}

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

/* Generate the key of the next framing, unless the key exists already. */
static void mpa_tufopt_generate_key(struct mpa_tuf *tuf)
{
	if (tuf->key_known)
		return;
	get_random_bytes(tuf->next_key, sizeof(tuf->next_key));
	tuf->key_known = true;
	tuf->key_returned = false;
}

static void mpa_tufopt_take_key(struct mpa_tuf *tuf,
				const struct tuf_framing *framing)
{
	tuf->key_given = framing->flags & TUF_KEY_GIVEN;
	if (tuf->key_given) {
		memcpy(tuf->next_key, framing->key, TUF_KEY_LEN);
		tuf->key_known = true;
		tuf->key_returned = true;
	}
	mpa_tufopt_generate_key(tuf);
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
	/*
	 * TCP may still send segments of an earlier framing, which are checked for its
	 * key.
	 */
	if (mpa_tcp_sending(ctx->sk) || !mpa_guard_idle(ctx))
		return -EBUSY;
	err = mpa_tufopt_may_begin(ctx, MPA_TX);
	if (err)
		return err;
	if (format->framing != MPA_FRAMING_SEGMENTS)
		mpa_tufopt_take_key(tuf, framing);
	mpa_tx_reset(ctx);
	tx->format = *format;
	tx->pos = 0;
	tx->pos_high = 0;
	tx->same = 0;
	mpa_tx_begin(ctx);
	memset(&tuf->pack, 0, sizeof(tuf->pack));
	memset(&tuf->guard, 0, sizeof(tuf->guard));
	tuf->report_emss = framing->flags & TUF_TELL_EMSS;
	mpa_alt_mulpdu_read(ctx);
	mpa_tufopt_set_state(ctx);
	mpa_plain_open(ctx, MPA_TX);
	return 0;
}

static int mpa_tufopt_end_tx(struct mpa_ctx *ctx)
{
	struct mpa_tuf *tuf = mpa_tuf(ctx);
	struct mpa_tx *tx = &ctx->tx;

	if (!mpa_format_on(&tx->format))
		return 0;
	if (mpa_tx_open(tx) || mpa_plain_close(ctx, MPA_TX))
		return -EBUSY;
	mpa_tx_end_batch(ctx, false);
	/* Accepted octets were lost: plain octets must not follow them. */
	if (mpa_failed(ctx, MPA_TX) && !mpa_tcp_gone(ctx->sk)) {
		mpa_plain_open(ctx, MPA_TX);
		return -EPIPE;
	}
	mpa_pack_forget(ctx);
	mpa_tcp_uncork(ctx->sk, &tx->window);
	mpa_tcp_unfit(ctx->sk);
	/* TCP must not add plain octets to the last FPDU's segment. */
	mpa_tcp_end_segment(ctx->sk);
	mpa_tcp_watch_plain(ctx->sk);
	/* The next framing has another key. */
	if (tx->format.framing != MPA_FRAMING_SEGMENTS)
		tuf->key_known = false;
	tx->format.framing = MPA_FRAMING_OFF;
	mpa_plain_open(ctx, MPA_TX);
	tuf->key_given = false;
	/* From here on tasks wait for memory as in plain TCP. */
	WRITE_ONCE(tx->starved, false);
	mpa_tufopt_set_state(ctx);
	mpa_wake_writers(ctx);
	return 0;
}

/* Remember the MULPDU that is reported to the user. Context: process, socket lock held. */
void mpa_alt_mulpdu_read(struct mpa_ctx *ctx)
{
	/* TCP may not have noticed a new path MTU yet. */
	mpa_tcp_emss(ctx->sk);
	mpa_tuf(ctx)->mulpdu =
		mpa_framing_mulpdu(&ctx->tx.format,
				   mpa_tcp_path_mss(ctx->sk, &ctx->tcp));
}

/* ---- receiving ---- */

static const u8 *mpa_tufopt_given_key(const struct tuf_framing *framing)
{
	return framing->flags & TUF_KEY_GIVEN ? framing->key : NULL;
}

/*
 * Compare the current record's key with the new key. If the user has read a part of the
 * record, its header is gone: keep the result for the old key.
 */
static void mpa_tufopt_compare_key(struct mpa_ctx *ctx)
{
	struct mpa_record *cur = &ctx->rx.cur;
	struct mpa_cursor at;
	struct mpa_fpdu fpdu;

	if (cur->state == MPA_RECORD_NEW || mpa_failed(ctx, MPA_RX) ||
	    (cur->taken && !cur->stash))
		return;
	mpa_rx_cursor(ctx, &at);
	/*
	 * Set only wrong_key: over loopback the sender may have changed the length
	 * since.
	 */
	if (mpa_read_head(&ctx->rx, &at, mpa_rx_available(ctx), cur->pos, &fpdu) ==
	    MPA_HEAD_GOOD)
		cur->fpdu.wrong_key = fpdu.wrong_key;
}

/* Set the key. Even the same key restarts the containment test. */
static void mpa_tufopt_change_key(struct mpa_ctx *ctx,
				  const struct tuf_framing *framing)
{
	bool changed = mpa_contain_key(mpa_tuf(ctx), mpa_tufopt_given_key(framing));

	if (changed)
		mpa_tufopt_compare_key(ctx);
	if (mpa_rx_places(&ctx->rx))
		mpa_place_search_again(ctx, changed);
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
	/* After a FIN or a reset, octets that have arrived can still be read. */
	if (mpa_tcp_input_ended(ctx->sk) && !mpa_tcp_inq(ctx->sk))
		return mpa_tcp_gone(ctx->sk) ? -ENOTCONN : -EPIPE;
	err = mpa_tufopt_may_begin(ctx, MPA_RX);
	if (err)
		return err;
	if (!mpa_format_on(&ctx->tx.format))
		mpa_tcp_watch_plain(ctx->sk);
	mpa_tcp_any_octet_counts(ctx->sk);
	rx->format = *format;
	mpa_rx_set_start(ctx);
	mpa_contain_begin(mpa_tuf(ctx), mpa_tufopt_given_key(framing));
	mpa_tufopt_set_state(ctx);
	mpa_plain_open(ctx, MPA_RX);
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
	if (mpa_failed(ctx, MPA_RX))
		return mpa_failed(ctx, MPA_RX);
	if (rx->cur.taken || rx->cur.read || mpa_rx_skip(rx, ctx->sk) ||
	    mpa_rx_ahead(rx) || mpa_plain_close(ctx, MPA_RX))
		return -EBUSY;
	/* So far the user has read only whole records, in order. */
	mpa_place_clear(ctx);
	memset(&rx->cur, 0, sizeof(rx->cur));
	WRITE_ONCE(rx->ready, false);
	rx->requested = false;
	rx->unrequested = false;
	rx->starved = false;
	rx->no_memory = false;
	mpa_contain_begin(mpa_tuf(ctx), NULL);
	rx->format.framing = MPA_FRAMING_OFF;
	mpa_plain_open(ctx, MPA_RX);
	mpa_tufopt_set_state(ctx);
	mpa_wake_reader(ctx);
	return 0;
}

/*
 * Set TUF_TX or TUF_RX. Context: process, socket lock not held. Return: 0, -EINVAL, -E2BIG,
 * -EFAULT, -EBUSY, -EISCONN, -ENOTCONN, -EPIPE, or the error that has ended receiving;
 * -ENOPROTOOPT: @name is another option.
 */
int mpa_alt_setsockopt(struct sock *sk, int name, sockptr_t val,
		       unsigned int len)
{
	u8 dir = name == TUF_TX ? MPA_TX : MPA_RX;
	struct mpa_ctx *ctx = mpa_ctx(sk);
	struct tuf_framing framing;
	struct mpa_format format;
	int err;

	if (name != TUF_TX && name != TUF_RX)
		return -ENOPROTOOPT;
	if (len < offsetof(struct tuf_framing, reserved2))
		return -EINVAL;
	if (len > PAGE_SIZE)
		return -E2BIG;
	err = copy_struct_from_sockptr(&framing, sizeof(framing), val, len) ?:
	      mpa_tufopt_format(dir, &framing, &format);
	if (err)
		return err;
	mpa_delay(MPA_POINT_START);
	lock_sock(sk);
	mpa_delay(MPA_POINT_START_LOCKED);
	if (dir == MPA_TX)
		err = framing.mode ?
		      mpa_tufopt_begin_tx(ctx, &framing, &format) :
		      mpa_tufopt_end_tx(ctx);
	else
		err = framing.mode ?
		      mpa_tufopt_begin_rx(ctx, &framing, &format) :
		      mpa_tufopt_end_rx(ctx);
	release_sock(sk);
	return err;
}

static void mpa_tufopt_get(struct mpa_ctx *ctx, u8 dir, struct tuf_framing *framing)
{
	const struct mpa_format *format = dir == MPA_TX ? &ctx->tx.format :
							      &ctx->rx.format;
	const struct mpa_tuf *tuf = mpa_tuf(ctx);

	framing->mode = mpa_format_mode(format);
	framing->period = mpa_tufopt_period(format);
	if (dir == MPA_RX && mpa_format_on(format) && tuf->contain.keyed)
		framing->flags |= TUF_KEY_GIVEN;
	if (dir == MPA_TX && mpa_format_on(format))
		framing->flags |= (tuf->key_given ? TUF_KEY_GIVEN : 0) |
				  (tuf->report_emss ? TUF_TELL_EMSS : 0);
}

/* The key can be read only once, and only if the user has not set it. */
static int mpa_tufopt_key(struct sock *sk, char __user *val, int __user *len)
{
	struct mpa_tuf *tuf = mpa_tuf(mpa_ctx(sk));
	int room, err = -ENODATA;

	if (get_user(room, len))
		return -EFAULT;
	if (room < TUF_KEY_LEN)
		return -EINVAL;
	lock_sock(sk);
	mpa_tufopt_generate_key(tuf);
	if (!tuf->key_returned)
		err = mpa_put_value(tuf->next_key, TUF_KEY_LEN, val, len);
	if (!err)
		tuf->key_returned = true;
	release_sock(sk);
	return err;
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
	info->rx_placed = rx->placed;
	info->rx_tested = tuf->tested;
	info->rx_contained = tuf->passed;
	info->rx_wrong_key = tuf->wrong_key;
	info->rx_edge = rx->cur.pos;
	info->error_position = mpa_failed(ctx, MPA_RX) ? rx->cur.pos : 0;
}

/*
 * Get TUF_TX, TUF_RX, TUF_TX_KEY or TUF_INFO. @len: the room at @val; set to the length
 * written. Context: process, socket lock not held. Return: 0, -EINVAL, -EFAULT or -ENODATA;
 * -ENOPROTOOPT: @name is another option.
 */
int mpa_alt_getsockopt(struct sock *sk, int name, char __user *val,
		       int __user *len)
{
	struct tuf_framing framing = {};
	struct tuf_info info = {};

	switch (name) {
	case TUF_TX:
	case TUF_RX:
		lock_sock(sk);
		mpa_tufopt_get(mpa_ctx(sk), name == TUF_TX ? MPA_TX : MPA_RX,
			       &framing);
		release_sock(sk);
		return mpa_put_value(&framing, sizeof(framing), val, len);
	case TUF_TX_KEY:
		return mpa_tufopt_key(sk, val, len);
	case TUF_INFO:
		lock_sock(sk);
		mpa_tufopt_info_fill(mpa_ctx(sk), &info);
		release_sock(sk);
		return mpa_put_value(&info, sizeof(info), val, len);
	default:
		return -ENOPROTOOPT;
	}
}
