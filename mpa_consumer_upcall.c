// SPDX-License-Identifier: GPL-2.0
/*
 * What a user inside the kernel is told, and how he reads a ULPDU: see
 * include/net/mpa.h.
 *
 * The engines wake the user as they wake a program: by ctx->data_ready when there
 * is something to read, an end or an error, by sk_write_space and sk_state_change.
 * Here these become upcalls. One that leads to another (a bad FPDU is found
 * while ULPDUs are handed up) has it wait until it is over.
 */

#include <linux/export.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <net/mpa.h>

#include "mpa_face.h"

/* ---- ULPDUs ---- */

/*
 * Octets of a ULPDU whose FPDU lies side by side. Inlined, so that calling @show
 * costs nothing.
 */
static __always_inline int
mpa_ulpdu_show_side(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
		    int (*show)(void *arg, const u8 *data, u32 len), void *arg)
{
	const struct mpa_fpdu *fpdu = ulpdu->fpdu;
	u32 at, span;
	int err;

	if (!fpdu->markers)
		return show(arg, ulpdu->data + MPA_LENGTH_LEN + off, len);
	/* In front of the first marker no place has to be computed. */
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

/* The same wherever it lies. */
static int mpa_ulpdu_show(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
			  int (*show)(void *arg, const u8 *data, u32 len),
			  void *arg)
{
	const struct mpa_ctx *ctx = ulpdu->ctx;
	struct mpa_cursor at;
	struct mpa_rx_source from = { .stash = ulpdu->stash, .at = &at };

	mpa_cursor_begin(&at, ctx->sk, ctx->rx.seq + (u32)ulpdu->position +
				       ulpdu->taken);
	return mpa_read_show(&from, ulpdu->fpdu, ulpdu->taken,
			     ulpdu->first + off, len, show, arg);
}

static bool mpa_ulpdu_holds(const struct mpa_ulpdu *ulpdu, u32 off, u32 len)
{
	lockdep_assert(lockdep_sock_is_held(ulpdu->ctx->sk));
	return off <= ulpdu->len && len <= ulpdu->len - off;
}

/**
 * mpa_ulpdu_walk() - show octets of a ULPDU to a function
 * @ulpdu:	of an upcall that is under way
 * @off:	the first octet
 * @len:	how many; @ulpdu has them all
 * @show:	called with one piece after the other, in order; another value than 0
 *		ends the walk
 * @arg:	for @show
 *
 * Context: in the upcall. @show does not sleep.
 * Return: 0, what @show has returned, -EINVAL if there are not so many octets,
 * or -ENODATA if they cannot be read.
 */
int mpa_ulpdu_walk(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
		   int (*show)(void *arg, const u8 *data, u32 len), void *arg)
{
	if (!mpa_ulpdu_holds(ulpdu, off, len))
		return -EINVAL;
	if (!len)
		return 0;
	return ulpdu->data ?
	       mpa_ulpdu_show_side(ulpdu, off, len, show, arg) :
	       mpa_ulpdu_show(ulpdu, off, len, show, arg);
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
 * mpa_ulpdu_read() - copy octets of a ULPDU to memory: a header, say
 * @ulpdu:	of an upcall that is under way
 * @off:	the first octet
 * @to:		where they go
 * @len:	how many
 *
 * Context: in the upcall.
 * Return: 0, or as mpa_ulpdu_walk().
 */
int mpa_ulpdu_read(const struct mpa_ulpdu *ulpdu, u32 off, void *to, u32 len)
{
	if (!mpa_ulpdu_holds(ulpdu, off, len))
		return -EINVAL;
	if (!len)
		return 0;
	return ulpdu->data ?
	       mpa_ulpdu_show_side(ulpdu, off, len, mpa_ulpdu_to_memory, &to) :
	       mpa_ulpdu_show(ulpdu, off, len, mpa_ulpdu_to_memory, &to);
}
EXPORT_SYMBOL_GPL(mpa_ulpdu_read);

/* As mpa_copy_to_user(): what copy_to_iter() checks costs more than the copy. */
static int mpa_ulpdu_to_iter(void *to, const u8 *data, u32 len)
{
	return _copy_to_iter(data, len, to) == len ? 0 : -EFAULT;
}

/**
 * mpa_ulpdu_copy() - copy octets of a ULPDU to where an iterator says
 * @ulpdu:	of an upcall that is under way
 * @off:	the first octet
 * @len:	how many
 * @to:		of kernel memory: kvec or bvec; moved on
 *
 * Context: in the upcall.
 * Return: 0, -EFAULT if @to has no room for them, or as mpa_ulpdu_walk().
 */
int mpa_ulpdu_copy(const struct mpa_ulpdu *ulpdu, u32 off, u32 len,
		   struct iov_iter *to)
{
	if (!mpa_ulpdu_holds(ulpdu, off, len))
		return -EINVAL;
	if (!len)
		return 0;
	return ulpdu->data ?
	       mpa_ulpdu_show_side(ulpdu, off, len, mpa_ulpdu_to_iter, to) :
	       mpa_ulpdu_show(ulpdu, off, len, mpa_ulpdu_to_iter, to);
}
EXPORT_SYMBOL_GPL(mpa_ulpdu_copy);

/* ---- receiving ---- */

/*
 * Octets of FPDUs that are handed up at a time, each ULPDU counting for as many as
 * that more: a peer chooses how many there are, and this is mostly softirq, with the
 * socket lock held.
 */
#define MPA_UPCALL_BUDGET	262144
#define MPA_UPCALL_EACH		1024

/* The user has put a ULPDU off, and not called mpa_sock_resume() since. */
static bool mpa_upcall_paused(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;
	int resumes = atomic_read(&user->resumes);

	if (resumes != user->resumed)
		user->paused = false;
	user->resumed = resumes;
	return user->paused;
}

/* The user has not taken the current record. */
static void mpa_upcall_refused(struct mpa_ctx *ctx, int err)
{
	if (err == -EAGAIN)
		ctx->consumer->paused = true;
	else
		mpa_fail_receiving(ctx, err, MPA_ERR_LOCAL);
}

/* What a ULPDU costs. Return: whether there may be more. */
static bool mpa_upcall_spend(struct mpa_consumer *user, u32 len)
{
	user->budget -= len + MPA_UPCALL_EACH;
	return user->budget > 0;
}

/* Show the user a record that lies side by side. */
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

/* Show the user the current record. Return: whether it is taken. */
static bool mpa_upcall_ordered(struct mpa_ctx *ctx)
{
	const struct mpa_record *cur = &ctx->rx.cur;
	struct mpa_consumer *user = ctx->consumer;
	struct mpa_rx_source from;
	struct mpa_ulpdu ulpdu;
	struct mpa_cursor at;
	int err;

	mpa_rx_begin_source(ctx, &at, &from);
	if (mpa_rx_read(ctx, &from, NULL, 0))
		return false;
	ulpdu = (struct mpa_ulpdu){
		.position = cur->pos,
		.order = ctx->rx.ulpdus - mpa_rx_ahead(&ctx->rx),
		.len = cur->fpdu.ulpdu_len - cur->read,
		.first = cur->read,
		.taken = cur->taken,
		.ctx = ctx,
		.fpdu = &cur->fpdu,
		.stash = cur->stash,
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

/* Show the user a record out of order. */
static void mpa_upcall_placed(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;
	struct mpa_ulpdu ulpdu = { .ctx = ctx };
	static const struct mpa_rx_more none;
	struct mpa_rx_source from = {};
	struct mpa_cursor at;
	struct mpa_fpdu fpdu;
	enum mpa_error code;

	if (!mpa_place_first(ctx, &at, &fpdu))
		return;
	from.at = &at;
	if (mpa_read_fpdu(&from, &fpdu, true, NULL, 0, &code) || code) {
		mpa_place_gone(ctx);
		return;
	}
	ulpdu.position = mpa_rx_position(&ctx->rx, fpdu.pos);
	ulpdu.len = fpdu.ulpdu_len;
	ulpdu.fpdu = &fpdu;
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
 * Nothing can be sent any more: the connection is lost, whoever has got its error; or
 * sending has failed. An error that the connection survives is for nobody: one of
 * ICMP's, with IP_RECVERR.
 */
static void mpa_upcall_lost(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;
	int err = sock_error(ctx->sk);

	if (user->lost)
		return;
	if (user->broken) {
		user->lost = true;
		mpa_upcall_failed(ctx, user->broken, MPA_ERR_LOCAL);
	} else if (mpa_tcp_gone(ctx->sk) &&
		   /* As it was then: this may be called later. */
		   (ctx->broken || !mpa_ended_well(ctx))) {
		user->lost = true;
		mpa_upcall_failed(ctx, err ?: -ENOTCONN, MPA_ERR_TCP);
	}
}

/* The peer has ended the stream. */
static void mpa_upcall_input_ended(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;

	/* Not by a local shutdown(2): octets may come still. */
	if (!mpa_tcp_peer_ended(ctx->sk))
		return;
	/* An FPDU that is not whole fails receiving: that is told. */
	if (mpa_rx_end(ctx))
		return;
	user->ended = true;
	if (user->upcalls->closed)
		user->upcalls->closed(user->priv);
}

/* All that could be handed up has been: is there an end, or an error? */
static void mpa_upcall_end(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;

	if (ctx->rx.error && !user->ended) {
		if (ctx->rx.error == user->broken)
			user->lost = true;
		mpa_upcall_failed(ctx, ctx->rx.error, ctx->code);
	}
	mpa_upcall_lost(ctx);
	if (!user->ended)
		mpa_upcall_input_ended(ctx);
}

/* Return: whether there is nothing more to hand up, as far as one knows. */
static bool mpa_upcall_ulpdus(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;
	enum mpa_rx_taken taken;

	user->budget = MPA_UPCALL_BUDGET;
	while (user->budget > 0) {
		taken = mpa_rx_take_side(ctx, mpa_upcall_take);
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
	/* The work item goes on; and so it does behind mpa_sock_resume(). */
	if (!mpa_upcall_paused(ctx) && !mpa_upcall_ulpdus(ctx))
		mpa_schedule_work(ctx, 0);
	mpa_upcall_edge(ctx);
	/* Behind what is put off, or is not all there. */
	if (!mpa_upcall_paused(ctx) && !mpa_rx_complete(ctx))
		mpa_upcall_end(ctx);
	/* What is left for the work item, and whether there is anything. */
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
				     READ_ONCE(ctx->startup_error));
	/* It has been told. */
	if (ctx->startup_error)
		sock_error(ctx->sk);
}

/* ---- sending ---- */

static void mpa_upcall_acked(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;
	u32 acked = mpa_tx_acked(ctx) - (u32)user->acked;

	/* The peer may have acknowledged a FIN, which is no octet. */
	if (acked - 1 >= S32_MAX || ctx->tx.end != MPA_TX_GOES_ON)
		return;
	user->acked += acked;
	/* So much of a startup frame is none. */
	if (user->upcalls->acked && (s64)user->acked > 0)
		user->upcalls->acked(user->priv, user->acked);
}

static void mpa_upcall_sent(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;
	u32 mulpdu = mpa_tx_mulpdu_now(ctx);

	mpa_upcall_acked(ctx);
	/* Have sk_write_space called with the next ACK as well. */
	if (user->upcalls->acked && mpa_tcp_unacked(ctx->sk))
		mpa_tcp_want_writable(ctx->sk);
	if (mulpdu == user->mulpdu)
		return;
	user->mulpdu = mulpdu;
	if (user->upcalls->mulpdu)
		user->upcalls->mulpdu(user->priv, mulpdu);
}

/* To try again is no use, but for the reason: he is to find it. */
static bool mpa_upcall_may_not_send(const struct mpa_ctx *ctx)
{
	return mpa_tcp_send_ended(ctx->sk) || ctx->tx.end != MPA_TX_GOES_ON;
}

static void mpa_upcall_writable(struct mpa_ctx *ctx)
{
	struct mpa_consumer *user = ctx->consumer;

	if (!user->wants_room ||
	    !(mpa_tcp_roomy(ctx->sk) || mpa_upcall_may_not_send(ctx)))
		return;
	user->wants_room = false;
	if (user->upcalls->writable)
		user->upcalls->writable(user->priv);
}

/* ---- all of it ---- */

/**
 * mpa_upcall() - tell the user what there is
 * @ctx:	the context, which has one
 *
 * Context: any, socket lock held.
 */
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
		mpa_upcall_paused(ctx);
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

/**
 * mpa_upcall_leave() - there is no user inside the kernel any more
 * @ctx:	the context
 *
 * Context: process, socket lock held: no upcall is under way.
 */
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

/* In place of sk_data_ready. Context: any, socket lock held. */
static void mpa_upcall_data_ready(struct sock *sk)
{
	mpa_upcall(mpa_ctx(sk));
}

/* In place of sk_write_space. Context: any, socket lock held. */
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
