// SPDX-License-Identifier: GPL-2.0
/*
 * How startup ends: what is given back, what the user is told; rejected, failed, or as
 * TCP goes, be it that the peer has reset the connection or that it is given up here.
 */

#include <linux/slab.h>

#include "mpa.h"

/**
 * mpa_startup_set_params() - how startup goes from now on
 * @ctx:	the context
 * @params:	kept until others are set; or NULL
 *
 * Context: process, socket lock held.
 */
void mpa_startup_set_params(struct mpa_ctx *ctx, struct mpa_params *params)
{
	kfree(ctx->params);
	ctx->params = params;
}

/**
 * mpa_startup_enter() - a state of startup, or behind it, begins
 * @ctx:	the context
 * @state:	enum mpa_state
 *
 * Context: process, socket lock held.
 */
void mpa_startup_enter(struct mpa_ctx *ctx, u8 state)
{
	mpa_set_state(ctx, state);
	mpa_wake_all(ctx);
	sk_wake_async(ctx->sk, SOCK_WAKE_IO, POLL_OUT);
}

/**
 * mpa_startup_done() - startup is over
 * @ctx:	the context
 * @state:	enum mpa_state: what comes of it
 *
 * Context: process, socket lock held.
 */
void mpa_startup_done(struct mpa_ctx *ctx, u8 state)
{
	mpa_startup_uncount(ctx);
	mpa_startup_set_params(ctx, NULL);
	/* Drop a frame that TCP has not taken. */
	if (state == MPA_STATE_FAILED)
		mpa_tx_drop(ctx);
	/* An ordinary TCP socket from here on. */
	if (state == MPA_STATE_REJECTED)
		mpa_tcp_uncork(ctx->sk, &ctx->tx.window);
	mpa_startup_enter(ctx, state);
}

/**
 * mpa_startup_malformed() - what the peer has sent is no startup frame
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 * Return: what startup fails with.
 */
int mpa_startup_malformed(struct mpa_ctx *ctx)
{
	return mpa_fail_startup(ctx, -EPROTO, MPA_ERR_STARTUP);
}

/**
 * mpa_startup_tell() - leave the result for SO_ERROR, or for MPA_START itself
 * @ctx:	the context
 * @err:	negative errno
 *
 * Context: process, socket lock held.
 */
void mpa_startup_tell(struct mpa_ctx *ctx, int err)
{
	WRITE_ONCE(ctx->startup_error, err);
	mpa_tcp_set_error(ctx->sk, -err);
}

/**
 * mpa_startup_withdraw() - drop a request that TCP has not taken completely
 * @ctx:	the context; the peer has already answered
 *
 * If a part of it has left, the socket cannot be handed back to the user.
 *
 * Context: process, socket lock held.
 * Return: 0, or what startup fails with.
 */
int mpa_startup_withdraw(struct mpa_ctx *ctx)
{
	if (!mpa_tx_stuck(&ctx->tx))
		return 0;
	if (ctx->tx.out->sent && !mpa_tcp_gone(ctx->sk))
		return mpa_fail_startup(ctx, -ENOBUFS, MPA_ERR_LOCAL);
	mpa_tx_drop(ctx);
	return 0;
}

/**
 * mpa_startup_rejected() - the peer's reply rejects the request
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 * Return: 0, or what startup fails with instead.
 */
int mpa_startup_rejected(struct mpa_ctx *ctx)
{
	int err = mpa_startup_withdraw(ctx);

	if (err)
		return err;
	/* If it is gone, mpa_startup_reset_came() has set the error. */
	if (mpa_tcp_gone(ctx->sk))
		WRITE_ONCE(ctx->startup_error, -ECONNREFUSED);
	else
		mpa_startup_tell(ctx, -ECONNREFUSED);
	mpa_startup_done(ctx, MPA_STATE_REJECTED);
	/* Octets behind the reply belong to the user. */
	mpa_wake_reader(ctx);
	return 0;
}

/* ---- TCP goes ---- */

/**
 * mpa_startup_abort() - reset a connection whose startup has failed
 * @ctx:	the context
 * @err:	negative errno that it has failed with
 *
 * Section 7.1.2: the TCP connection must be closed.
 *
 * Context: process, socket lock held.
 */
void mpa_startup_abort(struct mpa_ctx *ctx, int err)
{
	mpa_delay(MPA_POINT_ABORT);
	mpa_tcp_abort(ctx->sk, -err);
	mpa_startup_notice_reset(ctx);
}

/* Replace the error of a reset: EPIPE if a FIN came before it. */
static void mpa_startup_say_why(struct sock *sk, int err)
{
	if (mpa_tcp_replace_error(sk, ECONNRESET, err) == EPIPE)
		mpa_tcp_replace_error(sk, EPIPE, err);
}

/**
 * mpa_startup_reset_came() - TCP has just gone during startup
 * @ctx:	the context
 *
 * Nobody has been told of the error yet. What the peer has sent before it reset
 * the connection says more than the reset. Octets behind a reply that rejects
 * are the program's, and do not end well: then it stays as it is.
 *
 * Context: softirq or process, socket lock held.
 */
void mpa_startup_reset_came(struct mpa_ctx *ctx)
{
	struct mpa_params *params = ctx->params;
	struct mpa_frame frame;
	u32 len = mpa_startup_rejection(ctx, &frame);

	if (len && len == mpa_tcp_inq(ctx->sk))
		mpa_startup_say_why(ctx->sk, ECONNREFUSED);
	else if (mpa_startup_bad(ctx))
		mpa_startup_say_why(ctx->sk, EPROTO);
	/* SO_ERROR may take it before the work item tells others. */
	if (!params->reset)
		params->reset = mpa_tcp_error(ctx->sk);
	mpa_schedule_work(ctx, 0);
}

/**
 * mpa_startup_notice_reset() - take note that TCP has gone during startup
 * @ctx:	the context
 *
 * Whoever has ended the connection, the peer or mpa_startup_abort().
 *
 * Context: process, socket lock held.
 */
void mpa_startup_notice_reset(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;
	struct mpa_frame frame;
	bool bad;
	int err;

	if (!mpa_starting(ctx) || !mpa_tcp_gone(sk))
		return;
	if (mpa_startup_rejection(ctx, &frame) &&
	    !mpa_startup_take(ctx, &frame) && !mpa_startup_rejected(ctx))
		return;
	bad = mpa_startup_bad(ctx);
	/* If TCP had gone before accept(2) mpa_startup_reset_came() has not run. */
	if (bad)
		mpa_startup_say_why(sk, EPROTO);
	err = -(ctx->params->reset ?: mpa_tcp_error(sk));
	if (bad && (!err || err == -EPROTO))
		mpa_startup_malformed(ctx);
	else
		mpa_fail_startup(ctx, err ?: -ECONNRESET, MPA_ERR_TCP);
	mpa_startup_done(ctx, MPA_STATE_FAILED);
}

/**
 * mpa_startup_shutdown() - shutdown(2) during startup ends it
 * @ctx:	the context
 *
 * Without the one half no frame can come, without the other no FPDU can follow,
 * and the responder could never send one.
 *
 * Context: process, socket lock held.
 * Return: whether startup was under way: TCP is reset, and not shut down.
 */
bool mpa_startup_shutdown(struct mpa_ctx *ctx)
{
	mpa_startup_notice_reset(ctx);
	if (!mpa_starting(ctx))
		return false;
	mpa_startup_abort(ctx, mpa_fail_startup(ctx, -ECONNABORTED,
						MPA_ERR_LOCAL));
	return true;
}
