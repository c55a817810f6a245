// SPDX-License-Identifier: GPL-2.0
/*
 * Startup frames: RFC 5044 section 7.1.1, RFC 6581 section 9; which connections
 * are in startup, and how it ends.
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
 * @enhanced:	sets S, and precedes the user's private data; or NULL
 * @private:	the user's private data
 * @private_len: octets of them
 *
 * Return: 0, or -ENOMEM, -ENOBUFS, -EPIPE and nothing of it was sent.
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
 * The reply to a request with C has C: some initiators look only there.
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

/* Send the request. Return: as mpa_startup_send(). */
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

static int mpa_startup_peek(struct mpa_ctx *ctx, u32 off, u8 *to, u32 len)
{
	struct mpa_cursor at;

	mpa_cursor_begin(&at, ctx->sk, mpa_tcp_copied_seq(ctx->sk) + off);
	return mpa_cursor_copy(&at, to, len);
}

/**
 * mpa_startup_peek_frame() - parse the octets received of the peer's frame
 * @ctx:	the context
 * @frame:	filled in for MPA_FRAME_OK; private data may be missing yet
 *
 * Context: any, socket lock held.
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
 * @frame:	the frame, well-formed and complete
 *
 * Return: 0; -ENOMEM; or -ENODATA if octets are missing, or cannot be read.
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
	ctx->peer_valid = true;
	trace_mpa_startup_frame(ctx->sk, false,
				ctx->role == MPA_ROLE_INITIATOR, frame->flags,
				frame->revision, len);
	mpa_tcp_consume(ctx->sk, MPA_FRAME_LEN + len);
	mpa_rx_set_start(ctx);
	return 0;
}

/**
 * mpa_startup_fpdu_at() - a valid FPDU follows the reply
 * @ctx:	the context
 * @off:	unread octets before it
 * @flags:	M and C of the reply, which is of revision 1 or later
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

/* ---- received before a reset ---- */

/* Return: octets of a reply that rejects the request, or 0. */
static u32 mpa_startup_rejection(struct mpa_ctx *ctx, struct mpa_frame *frame)
{
	u32 len;

	if (ctx->state != MPA_STATE_STARTUP || mpa_failed(ctx, MPA_STARTUP) ||
	    ctx->role != MPA_ROLE_INITIATOR ||
	    mpa_startup_peek_frame(ctx, frame) != MPA_FRAME_OK ||
	    !(frame->flags & MPA_PEER_REJECTED))
		return 0;
	len = MPA_FRAME_LEN + frame->private_len;
	return mpa_tcp_inq(ctx->sk) < len ? 0 : len;
}

/* Whether the octets received are not an acceptable startup frame. */
static bool mpa_startup_bad(struct mpa_ctx *ctx)
{
	struct mpa_frame frame;

	if (ctx->state != MPA_STATE_STARTUP || mpa_failed(ctx, MPA_STARTUP))
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

/* ---- connections in startup ---- */

/* The connection is no longer in startup. */
void mpa_startup_uncount(struct mpa_ctx *ctx)
{
	if (ctx->params)
		mpa_policy_leave_startup(&ctx->params->admission);
	atomic_andnot(MPA_PENDING_EVICTION, &ctx->pending);
}

/* ---- the end ---- */

/* Keep @params, or NULL, until the next call. */
void mpa_startup_set_params(struct mpa_ctx *ctx, struct mpa_params *params)
{
	kfree(ctx->params);
	ctx->params = params;
}

/* Enter a state of startup, or the one after it. */
void mpa_startup_enter(struct mpa_ctx *ctx, u8 state)
{
	mpa_set_state(ctx, state);
	mpa_wake_all(ctx);
	sk_wake_async(ctx->sk, SOCK_WAKE_IO, POLL_OUT);
}

/* Startup is over and ends in @state: enum mpa_state. */
void mpa_startup_done(struct mpa_ctx *ctx, u8 state)
{
	mpa_startup_uncount(ctx);
	mpa_startup_set_params(ctx, NULL);
	/* From now on it is an ordinary TCP socket. */
	if (state == MPA_STATE_REJECTED)
		mpa_tcp_uncork(ctx->sk, &ctx->tx.window);
	mpa_startup_enter(ctx, state);
}

/* The peer has sent no startup frame. Return: the errno of startup. */
int mpa_startup_malformed(struct mpa_ctx *ctx)
{
	return mpa_fail(ctx, MPA_STARTUP, -EPROTO, MPA_ERR_STARTUP);
}

/* Keep a negative errno for SO_ERROR, or for MPA_START itself. */
void mpa_startup_report(struct mpa_ctx *ctx, int err)
{
	WRITE_ONCE(ctx->failure[MPA_STARTUP].err, err);
	mpa_tcp_set_error(ctx->sk, -err);
}

/* The peer's reply rejects the request. */
void mpa_startup_rejected(struct mpa_ctx *ctx)
{
	/* If the connection is gone, mpa_startup_got_reset() has set the error. */
	if (mpa_tcp_gone(ctx->sk))
		WRITE_ONCE(ctx->failure[MPA_STARTUP].err, -ECONNREFUSED);
	else
		mpa_startup_report(ctx, -ECONNREFUSED);
	mpa_startup_done(ctx, MPA_STATE_REJECTED);
	/* Octets after the reply belong to the user. */
	mpa_wake_reader(ctx);
}

/* ---- the end of the TCP connection ---- */

/**
 * mpa_startup_abort() - reset a connection whose startup has failed
 * @ctx:	the context
 * @err:	negative errno that it has failed with
 *
 * Section 7.1.2: the TCP connection must be closed.
 */
void mpa_startup_abort(struct mpa_ctx *ctx, int err)
{
	mpa_delay(MPA_POINT_ABORT);
	mpa_tcp_abort(ctx->sk, -err);
	mpa_startup_notice_reset(ctx);
}

/* Replace the error of a reset, which is EPIPE if a FIN came first. */
static void mpa_startup_replace_error(struct sock *sk, int err)
{
	if (mpa_tcp_replace_error(sk, ECONNRESET, err) == EPIPE)
		mpa_tcp_replace_error(sk, EPIPE, err);
}

/**
 * mpa_startup_got_reset() - the TCP connection has just ended during startup
 * @ctx:	the context
 *
 * The error has not been reported yet. What the peer sent before its reset says
 * more than the reset. If octets follow a rejecting reply, they are the
 * program's, and the error stays as it is.
 *
 * Context: softirq or process, socket lock held.
 */
void mpa_startup_got_reset(struct mpa_ctx *ctx)
{
	struct mpa_params *params = ctx->params;
	struct mpa_frame frame;
	u32 len = mpa_startup_rejection(ctx, &frame);

	if (len && len == mpa_tcp_inq(ctx->sk))
		mpa_startup_replace_error(ctx->sk, ECONNREFUSED);
	else if (mpa_startup_bad(ctx))
		mpa_startup_replace_error(ctx->sk, EPROTO);
	/* SO_ERROR may clear the error before the work item reports it. */
	if (!params->reset)
		params->reset = mpa_tcp_error(ctx->sk);
	mpa_schedule_work(ctx, 0);
}

/**
 * mpa_startup_notice_reset() - end startup if the TCP connection has ended
 * @ctx:	the context
 *
 * The peer may have ended it, or mpa_startup_abort().
 */
void mpa_startup_notice_reset(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;
	struct mpa_frame frame;
	bool bad;
	int err;

	if (!mpa_starting(ctx) || !mpa_tcp_gone(sk))
		return;
	if (mpa_startup_rejection(ctx, &frame) && !mpa_startup_take(ctx, &frame)) {
		mpa_startup_rejected(ctx);
		return;
	}
	bad = mpa_startup_bad(ctx);
	/* mpa_startup_got_reset() has not run if this was before accept(2). */
	if (bad)
		mpa_startup_replace_error(sk, EPROTO);
	err = -(ctx->params->reset ?: mpa_tcp_error(sk));
	if (bad && (!err || err == -EPROTO))
		mpa_startup_malformed(ctx);
	else
		mpa_fail(ctx, MPA_STARTUP, err ?: -ECONNRESET, MPA_ERR_TCP);
	mpa_startup_done(ctx, MPA_STATE_FAILED);
}

/**
 * mpa_startup_shutdown() - shutdown(2) during startup ends it
 * @ctx:	the context
 *
 * Without receiving no frame can arrive; without sending no FPDU can follow,
 * and the responder could never send one.
 *
 * Return: true if startup was under way: TCP is reset, and not shut down.
 */
bool mpa_startup_shutdown(struct mpa_ctx *ctx)
{
	mpa_startup_notice_reset(ctx);
	if (!mpa_starting(ctx))
		return false;
	mpa_startup_abort(ctx, mpa_fail(ctx, MPA_STARTUP, -ECONNABORTED,
						MPA_ERR_LOCAL));
	return true;
}
