// SPDX-License-Identifier: GPL-2.0
/*
 * Startup frames, out and in: RFC 5044 section 7.1.1, RFC 6581 section 9; who is in
 * startup, and how it ends.
 */

#include <linux/slab.h>
#include <trace/events/mpa.h>

#include "mpa.h"

/* ---- out ---- */

/**
 * mpa_startup_send() - send a startup frame
 * @ctx:	the context
 * @kind:	request or reply
 * @flags:	M, C, R
 * @enhanced:	S, and what goes in front of the user's private data; or NULL
 * @private:	the user's private data
 * @private_len: octets of them
 *
 * Context: process, socket lock held.
 * Return: 0 when it is on its way; -ENOMEM, -ENOBUFS, -EPIPE, and nothing of it
 * is.
 */
int mpa_startup_send(struct mpa_ctx *ctx, enum mpa_frame_kind kind, u8 flags,
		     const struct mpa_enhanced *enhanced, const u8 *private,
		     u16 private_len)
{
	struct mpa_frame head = {
		.flags = flags,
		.revision = ctx->revision,
		.private_len = private_len,
	};
	u8 *frame, *p;
	int err;

	if (enhanced) {
		head.flags |= MPA_PEER_ENHANCED;
		head.private_len += MPA_ENHANCED_LEN;
	}
	frame = kmalloc(MPA_FRAME_LEN + head.private_len,
			ctx->sk->sk_allocation);
	if (!frame)
		return -ENOMEM;
	mpa_frame_put(frame, kind, &head);
	p = frame + MPA_FRAME_LEN;
	if (enhanced) {
		mpa_enhanced_put(p, enhanced);
		p += MPA_ENHANCED_LEN;
	}
	if (private_len)
		memcpy(p, private, private_len);
	err = mpa_tx_frame(ctx, frame, MPA_FRAME_LEN + head.private_len);
	kfree(frame);
	if (!err)
		trace_mpa_startup_frame(ctx->sk, true, kind == MPA_REPLY,
					head.flags, head.revision,
					head.private_len);
	return err;
}

/**
 * mpa_startup_flags() - M and C of the frame that we send, or have sent
 * @ctx:	the context
 *
 * A request that asks for CRCs gets a reply that says so: there are initiators
 * that look only there.
 *
 * Context: process, socket lock held.
 */
u8 mpa_startup_flags(struct mpa_ctx *ctx)
{
	bool reply = ctx->role == MPA_ROLE_RESPONDER;
	u8 flags = 0;

	/* Figure 14: revision 0 always has both. */
	if (!(reply ? ctx->revision : ctx->params->offer.revision))
		return MPA_PEER_MARKERS | MPA_PEER_CRC;
	if (ctx->params->offer.flags & MPA_START_MARKERS)
		flags |= MPA_PEER_MARKERS;
	if (ctx->want_crc)
		flags |= MPA_PEER_CRC;
	if (reply)
		flags |= ctx->peer.flags & MPA_PEER_CRC;
	return flags;
}

/**
 * mpa_startup_request() - send the request
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 * Return: as mpa_startup_send().
 */
int mpa_startup_request(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = ctx->params;
	struct mpa_enhanced enhanced = {
		.ird = params->offer.ird,
		.ord = mpa_agree_depth(params->offer.ord, params->offer.flags),
		.control = params->offer.flags & (MPA_START_P2P | MPA_START_RTR),
	};

	return mpa_startup_send(ctx, MPA_REQUEST, mpa_startup_flags(ctx),
				params->offer.flags & MPA_START_ENHANCED ?
				&enhanced : NULL,
				params->private, params->private_len);
}

/* ---- in ---- */

static int mpa_startup_copy(void *arg, const u8 *data, u32 len)
{
	u8 **to = arg;

	memcpy(*to, data, len);
	*to += len;
	return 0;
}

static int mpa_startup_peek(struct mpa_ctx *ctx, u32 off, u8 *to, u32 len)
{
	struct mpa_cursor at;

	mpa_cursor_begin(&at, ctx->sk, mpa_tcp_copied_seq(ctx->sk) + off);
	return mpa_cursor_walk(&at, len, mpa_startup_copy, &to);
}

/**
 * mpa_startup_peek_frame() - look at what has come of the peer's frame
 * @ctx:	the context
 * @frame:	filled in when the verdict is MPA_FRAME_OK; its private data
 *		need not be here yet
 *
 * Context: process, socket lock held.
 */
enum mpa_frame_verdict mpa_startup_peek_frame(struct mpa_ctx *ctx,
					      struct mpa_frame *frame)
{
	u32 len = min_t(u32, mpa_tcp_inq(ctx->sk), MPA_FRAME_LEN);
	u8 octets[MPA_FRAME_LEN];

	if (mpa_startup_peek(ctx, 0, octets, len))
		return MPA_FRAME_BAD_KEY;
	return mpa_frame_parse(octets, len,
				 ctx->role == MPA_ROLE_INITIATOR ? MPA_REPLY :
				 MPA_REQUEST, frame);
}

/**
 * mpa_startup_take() - take the peer's frame out of the receive queue
 * @ctx:	the context
 * @frame:	the frame, which is well-formed; its private data are here
 *
 * Context: process, socket lock held.
 * Return: 0; -ENOMEM; or -ENODATA if octets are not there, or cannot be read.
 */
int mpa_startup_take(struct mpa_ctx *ctx, const struct mpa_frame *frame)
{
	u16 len = frame->private_len;
	u8 *private = NULL;
	int err;

	if (len) {
		private = kmalloc(len, mpa_gfp(ctx->sk));
		if (!private)
			return -ENOMEM;
		err = mpa_startup_peek(ctx, MPA_FRAME_LEN, private, len);
		if (err) {
			kfree(private);
			return err;
		}
	}
	kfree(ctx->peer_private);
	ctx->peer_private = private;
	ctx->peer = *frame;
	ctx->have_peer = true;
	trace_mpa_startup_frame(ctx->sk, false,
				ctx->role == MPA_ROLE_INITIATOR, frame->flags,
				frame->revision, len);
	mpa_tcp_consume(ctx->sk, MPA_FRAME_LEN + len);
	mpa_rx_set_start(ctx);
	return 0;
}

/**
 * mpa_startup_fpdu_at() - a valid FPDU stands behind the reply
 * @ctx:	the context
 * @off:	octets in front of it that nobody has read
 * @flags:	M and C of the reply, which is of revision 1 or later
 *
 * Context: process, socket lock held.
 */
bool mpa_startup_fpdu_at(struct mpa_ctx *ctx, u32 off, u8 flags)
{
	u8 head[MPA_MARKER_LEN + MPA_LENGTH_LEN], sent;
	u32 have = mpa_tcp_inq(ctx->sk) - off;
	struct mpa_verify verify;
	struct mpa_cursor at;
	struct mpa_fpdu fpdu;
	u32 len, ulpdu_len;

	sent = mpa_startup_flags(ctx);
	len = mpa_fpdu_head_len(0, sent & MPA_PEER_MARKERS);
	if (have < len || mpa_startup_peek(ctx, off, head, len))
		return false;
	ulpdu_len = mpa_ulpdu_length(head, len);
	if (!mpa_ulpdu_len_good(ulpdu_len))
		return false;
	mpa_fpdu_init(&fpdu, 0, ulpdu_len, sent & MPA_PEER_MARKERS);
	if (fpdu.len > have)
		return false;
	mpa_verify_begin(&verify, &fpdu,
			 (sent | flags) & MPA_PEER_CRC);
	mpa_cursor_begin(&at, ctx->sk, mpa_tcp_copied_seq(ctx->sk) + off);
	return !mpa_cursor_walk(&at, fpdu.len, mpa_verify_octets, &verify) &&
	       !mpa_verify_end(&verify);
}

/* ---- in front of a reset ---- */

/*
 * The peer has rejected the request, and reset TCP. Return: octets of the
 * reply, or 0.
 */
static u32 mpa_startup_rejection(struct mpa_ctx *ctx, struct mpa_frame *frame)
{
	u32 len;

	if (ctx->state != MPA_STATE_STARTUP || ctx->startup_error ||
	    ctx->role != MPA_ROLE_INITIATOR ||
	    mpa_startup_peek_frame(ctx, frame) != MPA_FRAME_OK ||
	    !(frame->flags & MPA_PEER_REJECTED))
		return 0;
	len = MPA_FRAME_LEN + frame->private_len;
	return mpa_tcp_inq(ctx->sk) < len ? 0 : len;
}

/* No startup frame has come, or not one to go on with. */
static bool mpa_startup_bad(struct mpa_ctx *ctx)
{
	struct mpa_frame frame;

	if (ctx->state != MPA_STATE_STARTUP || ctx->startup_error)
		return false;
	switch (mpa_startup_peek_frame(ctx, &frame)) {
	case MPA_FRAME_OK:
		return mpa_agree_revision(&ctx->params->offer,
					  &frame) < 0;
	case MPA_FRAME_MORE:
		return false;
	default:
		return true;
	}
}

/* ---- its place among those in startup ---- */

/**
 * mpa_startup_uncount() - the connection is no longer in startup
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 */
void mpa_startup_uncount(struct mpa_ctx *ctx)
{
	struct mpa_params *params = ctx->params;

	if (params)
		mpa_policy_leave_startup(&params->admission);
}

/**
 * mpa_startup_heard() - octets have come during startup
 * @ctx:	the context
 *
 * Context: softirq or process, socket lock held.
 */
void mpa_startup_heard(struct mpa_ctx *ctx)
{
	if (mpa_tcp_inq(ctx->sk))
		mpa_policy_heard(&ctx->params->admission);
}

/* ---- the end ---- */

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
