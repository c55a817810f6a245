// SPDX-License-Identifier: GPL-2.0
/*
 * Upcalls of kernel users, and how they read a ULPDU: see include/net/mpa.h.
 *
 * Layer 2 wakes a kernel user as it wakes a program: by ctx->wake (struct mpa_wake).
 * Upcalls do not nest: if one becomes due during another upcall, it is called
 * afterwards.
 */

#include <linux/export.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <net/mpa.h>

#include "mpa_sock.h"

/* ---- ULPDUs ---- */

/* Inlined, so that the compiler can inline @show, too. */
static __always_inline int
mpa_ulpdu_show_contiguous(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
			  int (*show)(void *arg, const u8 *data, u32 len), void *arg)
{
	const struct mpa_fpdu *fpdu = ulpdu->fpdu;
	u32 at, span;
	int err;

	if (!fpdu->markers)
		return show(arg, ulpdu->data + MPA_LENGTH_LEN + off, len);
	/* Octets before the first marker need no mpa_fpdu_offset(), which costs more. */
	at = mpa_fpdu_first_span(fpdu, &span);
	if (off < span) {
		at += off;
		span -= off;
	} else {
		at = mpa_fpdu_offset(fpdu, off);
		span = mpa_marker_distance(fpdu->pos + at);
	}
	for (; len > span; span = MPA_MARKER_GAP) {
		err = show(arg, ulpdu->data + at, span);
		if (err)
			return err;
		len -= span;
		at += span + MPA_MARKER_LEN;
	}
	return show(arg, ulpdu->data + at, len);
}

static int mpa_ulpdu_show(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
			  int (*show)(void *arg, const u8 *data, u32 len),
			  void *arg)
{
	struct mpa_cursor at = *ulpdu->at;

	return mpa_read_show(&ulpdu->ctx->rx, &at, ulpdu->fpdu,
			     ulpdu->first + off, len, show, arg);
}

static __always_inline int
mpa_ulpdu_each(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
	       int (*show)(void *arg, const u8 *data, u32 len), void *arg)
{
	lockdep_assert(lockdep_sock_is_held(ulpdu->ctx->sk));
	if (off > ulpdu->len || len > ulpdu->len - off)
		return -EINVAL;
	if (!len)
		return 0;
	return ulpdu->data ?
	       mpa_ulpdu_show_contiguous(ulpdu, off, len, show, arg) :
	       mpa_ulpdu_show(ulpdu, off, len, show, arg);
}

/**
 * mpa_ulpdu_walk() - pass octets of a ULPDU to a function
 * @ulpdu:	argument of the upcall
 * @off:	offset of the first octet in the ULPDU
 * @len:	number of octets
 * @show:	called for each piece in order, until it returns nonzero
 * @arg:	first argument of @show
 *
 * Context: in the upcall. @show does not sleep.
 * Return: 0, what @show has returned, -EINVAL if @ulpdu has fewer octets, or
 * -ENODATA if the octets cannot be read.
 */
int mpa_ulpdu_walk(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
		   int (*show)(void *arg, const u8 *data, u32 len), void *arg)
{
	return mpa_ulpdu_each(ulpdu, off, len, show, arg);
}
EXPORT_SYMBOL_GPL(mpa_ulpdu_walk);

static int mpa_ulpdu_to_memory(void *arg, const u8 *data, u32 len)
{
	u8 **to = arg;

	memcpy(*to, data, len);
	*to += len;
	return 0;
}

/**
 * mpa_ulpdu_read() - copy octets of a ULPDU to memory: a header, for example
 * @ulpdu:	argument of the upcall
 * @off:	offset of the first octet in the ULPDU
 * @to:		destination
 * @len:	number of octets
 *
 * Context: in the upcall.
 * Return: 0, or as mpa_ulpdu_walk().
 */
int mpa_ulpdu_read(const struct mpa_ulpdu *ulpdu, u32 off, void *to, u32 len)
{
	return mpa_ulpdu_each(ulpdu, off, len, mpa_ulpdu_to_memory, &to);
}
EXPORT_SYMBOL_GPL(mpa_ulpdu_read);

/* Skip copy_to_iter()'s checks, which cost more than the copy. */
static int mpa_ulpdu_to_iter(void *to, const u8 *data, u32 len)
{
	return _copy_to_iter(data, len, to) == len ? 0 : -EFAULT;
}

/**
 * mpa_ulpdu_copy() - copy octets of a ULPDU to an iterator
 * @ulpdu:	argument of the upcall
 * @off:	offset of the first octet in the ULPDU
 * @len:	number of octets
 * @to:		iterator over kernel memory (kvec or bvec); advanced
 *
 * Context: in the upcall.
 * Return: 0, -EFAULT if @to has no room, or as mpa_ulpdu_walk().
 */
int mpa_ulpdu_copy(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
		   struct iov_iter *to)
{
	return mpa_ulpdu_each(ulpdu, off, len, mpa_ulpdu_to_iter, to);
}
EXPORT_SYMBOL_GPL(mpa_ulpdu_copy);

/* ---- receiving ---- */

/*
 * Maximum number of octets to deliver in one run. A ULPDU counts as its FPDU's octets
 * and MPA_UPCALL_EACH more, as short ULPDUs cost time, too: most runs are in softirq
 * with the socket lock held.
 */
#define MPA_UPCALL_BUDGET	262144
#define MPA_UPCALL_EACH		1024

/* Handle an error that the user's ->ulpdu has returned. */
static void mpa_upcall_refused(struct mpa_ctx *ctx, int err)
{
	if (err == -EAGAIN)
		ctx->consumer->paused = true;
	else
		mpa_fail_receiving(ctx, err, MPA_ERR_LOCAL);
}

/* Charge a ULPDU's FPDU of @len octets. Return: whether budget is left. */
static bool mpa_upcall_spend(struct mpa_consumer *user, u32 len)
{
	user->budget -= len + MPA_UPCALL_EACH;
	return user->budget > 0;
}

static enum mpa_rx_taken
mpa_upcall_take(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu, const u8 *data)
{
	struct mpa_consumer *user = ctx->consumer;
	struct mpa_ulpdu ulpdu = {
		.position = ctx->rx.cur.pos,
		.order = ctx->rx.ulpdus,
		.len = fpdu->ulpdu_len,
		.ctx = ctx,
		.fpdu = fpdu,
		.data = data,
	};
	int err = user->upcalls->ulpdu(user->priv, &ulpdu);

	if (err)
		mpa_upcall_refused(ctx, err);
	else if (mpa_upcall_spend(user, fpdu->len))
		return MPA_RX_MORE;
	else
		return MPA_RX_ENOUGH;
	return MPA_RX_NOT_TAKEN;
}

/* Deliver the current record. Return: whether the user has taken it. */
static bool mpa_upcall_ordered(struct mpa_ctx *ctx)
{
	const struct mpa_record *cur = &ctx->rx.cur;
	struct mpa_consumer *user = ctx->consumer;
	struct mpa_ulpdu ulpdu;
	struct mpa_cursor at;
	int err;

	mpa_rx_cursor(ctx, &at);
	if (mpa_rx_read(ctx, &at, NULL, 0))
		return false;
	mpa_rx_cursor(ctx, &at);
	ulpdu = (struct mpa_ulpdu){
		.position = cur->pos,
		.order = ctx->rx.ulpdus - mpa_rx_ahead(&ctx->rx),
		.len = cur->fpdu.ulpdu_len - cur->read,
		.first = cur->read,
		.ctx = ctx,
		.fpdu = &cur->fpdu,
		.at = &at,
	};
	err = user->upcalls->ulpdu(user->priv, &ulpdu);
	if (err) {
		mpa_upcall_refused(ctx, err);
		return false;
	}
	mpa_upcall_spend(user, cur->fpdu.len);
	mpa_rx_advance(ctx, ulpdu.len, NULL);
	return true;
}

static void mpa_upcall_placed(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;
	struct mpa_ulpdu ulpdu = { .ctx = ctx };
	static const struct mpa_rx_more none;
	struct mpa_cursor at, end;
	struct mpa_fpdu fpdu;
	enum mpa_error code;

	if (!mpa_place_first(ctx, &at, &fpdu))
		return;
	end = at;
	if (mpa_read_fpdu(&ctx->rx, &end, &fpdu, NULL, 0, &code) || code) {
		mpa_place_changed(ctx);
		return;
	}
	ulpdu.position = mpa_rx_position(&ctx->rx, fpdu.pos);
	ulpdu.len = fpdu.ulpdu_len;
	ulpdu.fpdu = &fpdu;
	ulpdu.at = &at;
	mpa_upcall_spend(user, fpdu.len);
	if (!user->upcalls->place ||
	    user->upcalls->place(user->priv, &ulpdu))
		mpa_place_refuse(ctx, &fpdu);
	else
		mpa_place_advance(ctx, &fpdu, &none);
}

static void mpa_upcall_edge(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;

	if (user->edge == ctx->rx.cur.pos)
		return;
	user->edge = ctx->rx.cur.pos;
	if (user->upcalls->edge)
		user->upcalls->edge(user->priv, user->edge);
}

static void mpa_upcall_failed(struct mpa_ctx *ctx, int err, enum mpa_error code)
{
	struct mpa_consumer *user = ctx->consumer;

	user->ended = true;
	if (user->upcalls->failed)
		user->upcalls->failed(user->priv, err, code, ctx->rx.cur.pos);
}

/*
 * Report the end of sending once: sending has failed, or the connection is lost (even
 * if a program has read SO_ERROR). An error that the connection survives, such as an
 * ICMP error with IP_RECVERR, is not reported.
 */
static void mpa_upcall_lost(struct mpa_ctx *ctx)
{
	const struct mpa_failure *failure = &ctx->failure[MPA_TX];
	struct mpa_consumer *user = ctx->consumer;
	int err = sock_error(ctx->sk);

	if (user->lost)
		return;
	if (failure->code == MPA_ERR_LOCAL) {
		user->lost = true;
		mpa_upcall_failed(ctx, failure->err, MPA_ERR_LOCAL);
	} else if (mpa_tcp_gone(ctx->sk) &&
		   /* MPA_TX failed when TCP ended; mpa_ended_cleanly() may have changed. */
		   (mpa_failed(ctx, MPA_TX) || !mpa_ended_cleanly(ctx))) {
		user->lost = true;
		mpa_upcall_failed(ctx, err ?: -ENOTCONN, MPA_ERR_TCP);
	}
}

static void mpa_upcall_input_ended(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;

	/* After a local shutdown(2) octets may still arrive. */
	if (!mpa_tcp_peer_ended(ctx->sk))
		return;
	/* At an incomplete FPDU mpa_rx_end() records a failure: the next round reports it. */
	if (mpa_rx_end(ctx))
		return;
	user->ended = true;
	if (user->upcalls->closed)
		user->upcalls->closed(user->priv);
}

/* Report an end or an error, after all records have been delivered. */
static void mpa_upcall_end(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;

	if (mpa_failed(ctx, MPA_RX) && !user->ended) {
		if (ctx->failure[MPA_TX].code == MPA_ERR_LOCAL &&
		    mpa_failed(ctx, MPA_RX) == mpa_failed(ctx, MPA_TX))
			user->lost = true;
		mpa_upcall_failed(ctx, mpa_failed(ctx, MPA_RX),
				  mpa_show_code(ctx));
	}
	mpa_upcall_lost(ctx);
	if (!user->ended)
		mpa_upcall_input_ended(ctx);
}

/* Deliver ULPDUs. Return: false if the budget is spent, and ULPDUs may be left. */
static bool mpa_upcall_ulpdus(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;
	enum mpa_rx_taken taken;

	user->budget = MPA_UPCALL_BUDGET;
	while (user->budget > 0) {
		taken = mpa_rx_take_contiguous(ctx, mpa_upcall_take);
		if (taken == MPA_RX_NOT_TAKEN)
			return true;
		if (taken != MPA_RX_NONE)
			continue;
		if (mpa_rx_deliverable(ctx)) {
			if (!mpa_upcall_ordered(ctx))
				return true;
		} else if (mpa_rx_placed(ctx)) {
			mpa_upcall_placed(ctx);
		} else {
			return true;
		}
	}
	return false;
}

static void mpa_upcall_receive(struct mpa_ctx *ctx)
{
	const struct mpa_consumer *user = ctx->consumer;

	if (!user->paused && !mpa_upcall_ulpdus(ctx))
		mpa_schedule_work(ctx, 0);
	mpa_upcall_edge(ctx);
	/* Report the end once no complete ULPDU is left. */
	if (!user->paused && !mpa_rx_complete(ctx))
		mpa_upcall_end(ctx);
	mpa_rx_update(ctx);
}

/* ---- startup ---- */

static void mpa_upcall_state(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;

	if (user->state == ctx->state)
		return;
	user->state = ctx->state;
	if (ctx->state == MPA_STATE_IDLE || ctx->state == MPA_STATE_STARTUP)
		return;
	if (user->upcalls->state)
		user->upcalls->state(user->priv, ctx->state,
				     mpa_failed(ctx, MPA_STARTUP));
	if (mpa_failed(ctx, MPA_STARTUP))
		sock_error(ctx->sk);
}

/* ---- sending ---- */

static void mpa_upcall_acked(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;
	u32 acked = mpa_tx_acked(ctx) - (u32)user->acked;

	/* The peer may have acknowledged a FIN, which is not an octet. */
	if (acked - 1 >= S32_MAX || ctx->tx.ended)
		return;
	user->acked += acked;
	if (user->upcalls->acked && (s64)user->acked > 0)
		user->upcalls->acked(user->priv, user->acked);
}

static void mpa_upcall_sent(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;
	u32 mulpdu = mpa_tx_mulpdu_now(ctx);

	mpa_upcall_acked(ctx);
	/* Let the next ACK call sk_write_space. */
	if (user->upcalls->acked && mpa_tcp_unacked(ctx->sk))
		mpa_tcp_want_writable(ctx->sk);
	if (mulpdu == user->mulpdu)
		return;
	user->mulpdu = mulpdu;
	if (user->upcalls->mulpdu)
		user->upcalls->mulpdu(user->priv, mulpdu);
}

/* Whether a send would fail. If so, call ->writable: the user retries, and gets the errno. */
static bool mpa_upcall_may_not_send(const struct mpa_ctx *ctx)
{
	return mpa_tcp_send_ended(ctx->sk) || ctx->tx.ended;
}

static void mpa_upcall_writable(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;

	if (!user->wants_room ||
	    !(sk_stream_is_writeable(ctx->sk) || mpa_upcall_may_not_send(ctx)))
		return;
	user->wants_room = false;
	if (user->upcalls->writable)
		user->upcalls->writable(user->priv);
}

/* Call all upcalls that are due. Context: any, socket lock held. */
void mpa_upcall(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;

	lockdep_assert(lockdep_sock_is_held(ctx->sk));
	if (user->upcalled) {
		user->again = true;
		return;
	}
	WRITE_ONCE(user->upcalled, current);
	rcu_read_lock();
	do {
		user->again = false;
		mpa_upcall_state(ctx);
		if (ctx->state != MPA_STATE_FULL)
			continue;
		mpa_upcall_receive(ctx);
		mpa_upcall_sent(ctx);
		mpa_upcall_writable(ctx);
	} while (user->again);
	rcu_read_unlock();
	WRITE_ONCE(user->upcalled, NULL);
}

/* End the upcalls. Context: process, socket lock held, so no upcall is running. */
void mpa_upcall_leave(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;

	if (!user)
		return;
	WRITE_ONCE(ctx->consumer, NULL);
	ctx->wake = &ctx->table->wake;
	module_put(user->upcalls->owner);
	kfree_rcu(user, rcu);
}

static void mpa_upcall_data_ready(struct sock *sk)
{
	mpa_upcall(mpa_ctx(sk));
}

static void mpa_upcall_write_space(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	ctx->table->wake.write_space(sk);
	mpa_upcall(ctx);
}

const struct mpa_wake mpa_upcall_wake = {
	.data_ready	= mpa_upcall_data_ready,
	.write_space	= mpa_upcall_write_space,
};
