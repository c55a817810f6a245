// SPDX-License-Identifier: GPL-2.0
/* The startup phase: RFC 5044 section 7.1 and appendix C, RFC 6581. */

#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <trace/events/mpa.h>

#include "mpa.h"

/* ---- frames ---- */

/* Send a startup frame with the private data of @with. @flags: M, C, R, S. */
static int mpa_startup_send(struct mpa_ctx *ctx, u8 flags,
			    const struct mpa_enhanced *enhanced,
			    const struct mpa_params *with)
{
	bool reply = ctx->role == MPA_ROLE_RESPONDER;
	struct mpa_frame head = {
		.flags = flags,
		.revision = ctx->revision,
		.private_len = with->private_len,
	};
	u8 *frame, *p;
	int err;

	frame = kmalloc(MPA_FRAME_MAX, ctx->sk->sk_allocation);
	if (!frame)
		return -ENOMEM;
	p = frame + MPA_FRAME_LEN;
	if (flags & MPA_PEER_ENHANCED) {
		mpa_enhanced_put(p, enhanced);
		p += MPA_ENHANCED_LEN;
		head.private_len += MPA_ENHANCED_LEN;
	}
	memcpy(p, with->private, with->private_len);
	mpa_frame_put(frame, reply ? MPA_REPLY : MPA_REQUEST, &head);
	err = mpa_tx_frame(ctx, frame, MPA_FRAME_LEN + head.private_len);
	kfree(frame);
	if (!err)
		trace_mpa_startup_frame(ctx->sk, true, reply, head.flags,
					head.revision, head.private_len);
	return err;
}

/* Return our frame's M and C. Some initiators read C only in the reply: repeat it there. */
static u8 mpa_startup_flags(struct mpa_ctx *ctx)
{
	bool reply = ctx->role == MPA_ROLE_RESPONDER;
	u8 flags = 0;

	/* Figure 14: revision 0 always sets both flags. */
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

/* Send the request. Return: 0; -ENOMEM, -ENOBUFS or -EPIPE if nothing was sent. */
static int mpa_startup_request(struct mpa_ctx *ctx)
{
	const struct mpa_offer *offer = &ctx->params->offer;
	u8 flags = mpa_startup_flags(ctx);
	struct mpa_enhanced enhanced = {
		.ird = offer->ird,
		.ord = mpa_agree_depth(offer->ord, offer->flags),
		.control = offer->flags & (MPA_START_P2P | MPA_START_RTR),
	};

	if (offer->flags & MPA_START_ENHANCED)
		flags |= MPA_PEER_ENHANCED;
	return mpa_startup_send(ctx, flags, &enhanced, ctx->params);
}

static int mpa_startup_peek(struct mpa_ctx *ctx, u32 off, u8 *to, u32 len)
{
	struct mpa_cursor at;

	mpa_cursor_begin(&at, ctx->sk, mpa_tcp_copied_seq(ctx->sk) + off);
	return mpa_cursor_copy(&at, to, len);
}

/*
 * Parse the received part of the peer's frame. Context: any, socket lock held. Return:
 * the revision to use; -EAGAIN if the frame is incomplete; -EPROTO if it is not
 * acceptable, even before its private data have arrived.
 */
static int mpa_startup_look(struct mpa_ctx *ctx, struct mpa_frame *frame)
{
	u32 have = mpa_tcp_inq(ctx->sk), len = min_t(u32, have, MPA_FRAME_LEN);
	u8 octets[MPA_FRAME_LEN];
	int revision;

	if (mpa_startup_peek(ctx, 0, octets, len))
		return -EPROTO;
	switch (mpa_frame_parse(octets, len,
				ctx->role == MPA_ROLE_INITIATOR ? MPA_REPLY :
				MPA_REQUEST, frame)) {
	case MPA_FRAME_OK:
		break;
	case MPA_FRAME_MORE:
		return -EAGAIN;
	default:
		return -EPROTO;
	}
	revision = mpa_agree_revision(&ctx->params->offer, frame);
	if (revision < 0)
		return -EPROTO;
	return have < MPA_FRAME_LEN + frame->private_len ? -EAGAIN : revision;
}

/* Take the peer's complete frame out of the receive queue. Return: 0, -ENOMEM or -ENODATA. */
static int mpa_startup_take(struct mpa_ctx *ctx, const struct mpa_frame *frame)
{
	u16 len = frame->private_len;
	struct mem_cgroup *old;
	u8 *private = NULL;
	int err;

	if (len) {
		/* If TCP has ended, mpa_state_change() may have called this in softirq. */
		old = set_active_memcg(mem_cgroup_from_sk(ctx->sk));
		private = kmalloc(len, mpa_tcp_gone(ctx->sk) ?
				       GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT :
				       mpa_gfp(ctx->sk));
		set_active_memcg(old);
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

/*
 * Whether octets after the peer's frame are an error. Neither end may send an FPDU yet:
 * the initiator has not received a reply, and the responder has not received an FPDU
 * (section 7.1.2 rule 4). So octets after a request, whenever they arrive, mean that
 * PD_Length does not match the private data (section 7.1.1). Octets after a reply are
 * accepted if they are a valid FPDU, as some responders do not obey rule 4.
 */
static bool mpa_startup_too_early(struct mpa_ctx *ctx, const struct mpa_frame *frame,
				  int revision)
{
	bool crc = (mpa_startup_flags(ctx) | frame->flags) & MPA_PEER_CRC;
	bool marked = mpa_startup_flags(ctx) & MPA_PEER_MARKERS;
	u32 off = MPA_FRAME_LEN + frame->private_len;
	u8 head[MPA_MARKER_LEN + MPA_LENGTH_LEN];
	u32 have = mpa_tcp_inq(ctx->sk) - off;
	struct mpa_verify verify;
	struct mpa_cursor at;
	struct mpa_fpdu fpdu;
	u32 len;

	if (!have || ctx->role == MPA_ROLE_RESPONDER)
		return have;
	/*
	 * After a rejection octets belong to the user's protocol. Revision 0
	 * (draft-culley-iwarp-mpa-01 section 8.1) has no rule 4.
	 */
	if (frame->flags & MPA_PEER_REJECTED || !revision)
		return false;
	len = mpa_fpdu_head_len(0, marked);
	if (have < len || mpa_startup_peek(ctx, off, head, len))
		return true;
	len = mpa_ulpdu_length(head, len);
	if (!mpa_ulpdu_len_good(len))
		return true;
	mpa_fpdu_init(&fpdu, 0, len, marked);
	if (fpdu.len > have)
		return true;
	mpa_verify_begin(&verify, &fpdu, crc);
	mpa_cursor_begin(&at, ctx->sk, mpa_tcp_copied_seq(ctx->sk) + off);
	return mpa_cursor_walk(&at, fpdu.len, mpa_verify_octets, &verify) ||
	       mpa_verify_end(&verify);
}

/* ---- the end of startup ---- */

void mpa_startup_uncount(struct mpa_ctx *ctx)
{
	if (ctx->params)
		mpa_policy_leave_startup(&ctx->params->admission);
	atomic_andnot(MPA_PENDING_EVICTION, &ctx->pending);
}

void mpa_startup_set_params(struct mpa_ctx *ctx, struct mpa_params *params)
{
	kfree(ctx->params);
	ctx->params = params;
}

static void mpa_startup_enter(struct mpa_ctx *ctx, u8 state)
{
	mpa_set_state(ctx, state);
	mpa_wake_all(ctx);
	sk_wake_async(ctx->sk, SOCK_WAKE_IO, POLL_OUT);
}

static void mpa_startup_done(struct mpa_ctx *ctx, u8 state)
{
	mpa_startup_uncount(ctx);
	mpa_startup_set_params(ctx, NULL);
	/* The socket is an ordinary TCP socket from now on. */
	if (state == MPA_STATE_REJECTED)
		mpa_tcp_uncork(ctx->sk, &ctx->tx.window);
	mpa_startup_enter(ctx, state);
}

/*
 * Fail startup and reset the connection (section 7.1.2). The state changes last: a
 * reader of MPA_STATE_FAILED finds sk_err set. Context: process, or TCP is closed
 * already.
 */
void mpa_startup_fail(struct mpa_ctx *ctx, int err, enum mpa_error code)
{
	mpa_fail(ctx, MPA_STARTUP, err, code);
	mpa_delay(MPA_POINT_ABORT);
	mpa_tcp_abort(ctx->sk, -err);
	mpa_startup_done(ctx, MPA_STATE_FAILED);
}

static void mpa_startup_malformed(struct mpa_ctx *ctx)
{
	mpa_startup_fail(ctx, -EPROTO, MPA_ERR_STARTUP);
}

/* Record a negative errno for SO_ERROR, or for a waiting MPA_START. */
static void mpa_startup_report(struct mpa_ctx *ctx, int err)
{
	WRITE_ONCE(ctx->failure[MPA_STARTUP].err, err);
	mpa_tcp_set_error(ctx->sk, -err);
}

static void mpa_startup_rejected(struct mpa_ctx *ctx)
{
	/* If the connection is gone, mpa_startup_ended() has set the error. */
	if (mpa_tcp_gone(ctx->sk))
		WRITE_ONCE(ctx->failure[MPA_STARTUP].err, -ECONNREFUSED);
	else
		mpa_startup_report(ctx, -ECONNREFUSED);
	mpa_startup_done(ctx, MPA_STATE_REJECTED);
	/* Octets after the reply belong to the user. */
	mpa_wake_reader(ctx);
}

/* Replace the error of a reset: ECONNRESET, or EPIPE if a FIN came first. */
static void mpa_startup_replace_error(struct sock *sk, int err)
{
	if (mpa_tcp_replace_error(sk, ECONNRESET, err) == EPIPE)
		mpa_tcp_replace_error(sk, EPIPE, err);
}

/*
 * Handle the end of the TCP connection during startup, before TCP's error is reported.
 * A frame that arrived before a reset says more than the reset, and replaces TCP's
 * error. But octets after a rejecting reply belong to the program: TCP's error stays.
 * Context: softirq or process, socket lock held.
 */
void mpa_startup_ended(struct mpa_ctx *ctx)
{
	bool expected = ctx->state == MPA_STATE_STARTUP;
	struct sock *sk = ctx->sk;
	struct mpa_frame frame;
	int look, err;

	/* mpa_startup_fail() has ended TCP, or the work item will call mpa_startup_fail(). */
	if (mpa_failed(ctx, MPA_STARTUP))
		return;
	look = expected ? mpa_startup_look(ctx, &frame) : -EAGAIN;
	if (look >= 0 && frame.flags & MPA_PEER_REJECTED &&
	    !mpa_startup_take(ctx, &frame)) {
		if (!mpa_tcp_inq(sk))
			mpa_startup_replace_error(sk, ECONNREFUSED);
		mpa_startup_rejected(ctx);
		return;
	}
	if (look == -EPROTO)
		mpa_startup_replace_error(sk, EPROTO);
	err = -mpa_tcp_error(sk);
	if (look == -EPROTO && (!err || err == -EPROTO))
		mpa_startup_malformed(ctx);
	else
		mpa_startup_fail(ctx, err ?: -ECONNRESET, MPA_ERR_TCP);
}

/* ---- Full Operation ---- */

static void mpa_startup_run(struct mpa_ctx *ctx, bool may_send)
{
	WRITE_ONCE(ctx->may_send, may_send);
	mpa_rx_begin(ctx);
	mpa_tx_begin(ctx);
	if (ctx->tx.rtr_due)
		mpa_tx_rtr(ctx);
	mpa_startup_done(ctx, MPA_STATE_FULL);
	mpa_rx_update(ctx);
	if (ctx->rx.ready)
		mpa_wake_reader(ctx);
}

static void mpa_startup_full(struct mpa_ctx *ctx)
{
	u8 sent = mpa_startup_flags(ctx), got = ctx->peer.flags;
	bool initiator = ctx->role == MPA_ROLE_INITIATOR;

	/*
	 * Section 7.1.1: a frame's flags are valid also at revision 0. Figure 16: a
	 * responder of revision 0 sends markers to an initiator of a later revision,
	 * even if the request does not ask for them.
	 */
	ctx->tx.format.marked = got & MPA_PEER_MARKERS ||
			 (!ctx->revision && ctx->peer.revision);
	ctx->rx.format.marked = (ctx->revision ? sent : sent | got) & MPA_PEER_MARKERS;
	ctx->tx.format.crc = (sent | got) & MPA_PEER_CRC;
	ctx->rx.format.crc = ctx->tx.format.crc;
	if (ctx->control & MPA_START_RTR_FPDU) {
		ctx->tx.rtr_due = initiator;
		ctx->rx.rtr = !initiator;
	}
	/* Section 7.1.2 rule 4: the responder waits for the first FPDU before it sends. */
	mpa_startup_run(ctx, initiator && !ctx->tx.rtr_due);
}

static void mpa_startup_direct(struct mpa_ctx *ctx)
{
	bool no_crc = mpa_policy_get(sock_net(ctx->sk), MPA_A_POLICY_CRC_OPTIONAL);
	const struct mpa_params *params = ctx->params;

	ctx->rx.format.marked = !params->offer.revision || params->offer.flags & MPA_START_MARKERS;
	ctx->tx.format.marked = !params->offer.revision ||
			 params->offer.flags & MPA_START_TX_MARKERS;
	no_crc = no_crc && params->offer.revision;
	ctx->rx.format.crc = !(no_crc && params->offer.flags & MPA_START_NO_CRC);
	ctx->tx.format.crc = !(no_crc && params->offer.flags & MPA_START_TX_NO_CRC);
	mpa_rx_set_start(ctx);
	mpa_startup_run(ctx, true);
}

/* ---- the peer's frame ---- */

/* Apply the reply's IRD, ORD and flags. Return: 0, or the errno of a failed negotiation. */
static int mpa_startup_enhance(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = ctx->params;
	struct mpa_enhanced peer;

	mpa_enhanced_get(ctx->peer_private, &peer);
	ctx->ird = params->offer.ird;
	if (params->offer.flags & MPA_START_P2P)
		ctx->control = MPA_START_P2P |
			       mpa_agree_rtr(params->offer.flags, peer.control,
					     peer.ird);
	ctx->ord = mpa_agree_limit(mpa_agree_depth(params->offer.ord, ctx->control),
				   peer.ird);
	if (ctx->control == MPA_START_P2P) {
		WRITE_ONCE(ctx->failure[MPA_STARTUP].code, MPA_ERR_RTR);
		return -EOPNOTSUPP;
	}
	if (params->offer.ird != MPA_DEPTH_BY_USER &&
	    peer.ord != MPA_DEPTH_BY_USER && peer.ord > params->offer.ird) {
		WRITE_ONCE(ctx->failure[MPA_STARTUP].code, MPA_ERR_IRD);
		return -ENOBUFS;
	}
	return 0;
}

static void mpa_startup_agreed(struct mpa_ctx *ctx)
{
	int err = 0;

	if (ctx->peer.flags & MPA_PEER_ENHANCED) {
		err = mpa_startup_enhance(ctx);
		/* Begin Full Operation: the layer above sends a Terminate (RFC 6581 section 9). */
		if (err) {
			ctx->control = 0;
			mpa_startup_report(ctx, err);
		}
	}
	mpa_startup_full(ctx);
	if (err)
		mpa_report_failed(ctx, MPA_STARTUP);
}

/* Reply to the request with the private data, IRD and ORD of @reply. */
static void mpa_startup_answer(struct mpa_ctx *ctx,
			       const struct mpa_params *reply, bool reject)
{
	bool is_enhanced = ctx->peer.flags & MPA_PEER_ENHANCED;
	const struct mpa_params *params = ctx->params;
	struct mpa_enhanced peer, enhanced;
	u8 flags = mpa_startup_flags(ctx);
	int err;

	if (is_enhanced) {
		mpa_enhanced_get(ctx->peer_private, &peer);
		mpa_agree_reply(&params->offer, &reply->offer, &peer, reject,
				&enhanced);
		flags |= MPA_PEER_ENHANCED;
	}
	if (reject)
		flags |= MPA_PEER_REJECTED;
	err = mpa_startup_send(ctx, flags, &enhanced, reply);
	/* A reset may have ended startup meanwhile (mpa_startup_ended()). */
	if (!mpa_starting(ctx))
		return;
	if (err)
		return mpa_startup_fail(ctx, err, MPA_ERR_LOCAL);
	if (reject)
		return mpa_startup_done(ctx, MPA_STATE_REJECTED);
	if (is_enhanced) {
		/* RFC 6581 section 9.1: an ORD of 0x3fff does not limit our IRD. */
		ctx->ird = peer.ord == MPA_DEPTH_BY_USER ? reply->offer.ird :
			   enhanced.ird;
		ctx->ord = mpa_agree_limit(reply->offer.ord, peer.ird);
		/* The first FPDU shows which RTR the initiator has chosen. */
		ctx->control = enhanced.control &
			       (peer.control | MPA_START_P2P);
	}
	mpa_startup_full(ctx);
}

/*
 * Whether the program may still decide. If not, fail startup: octets after a request
 * are an error, even if a passthrough call has read them. Octets after a reply are
 * checked in Full Operation.
 */
static bool mpa_startup_undecided(struct mpa_ctx *ctx)
{
	if (ctx->role != MPA_ROLE_RESPONDER ||
	    (!mpa_tcp_inq(ctx->sk) && mpa_rx_start_unread(ctx)))
		return true;
	mpa_startup_malformed(ctx);
	return false;
}

/* Wait until the deadline: for octets if @err is -EAGAIN, for memory if -ENOMEM. */
static void mpa_startup_later(struct mpa_ctx *ctx, int err)
{
	bool more = err == -EAGAIN;

	if (more && mpa_tcp_input_ended(ctx->sk)) {
		if (mpa_tcp_inq(ctx->sk))
			return mpa_startup_malformed(ctx);
		return mpa_startup_fail(ctx, -ECONNRESET, MPA_ERR_TCP);
	}
	if (atomic_read(&ctx->pending) & MPA_PENDING_EVICTION)
		return mpa_startup_fail(ctx, -EUSERS, MPA_ERR_LOCAL);
	if (time_before(jiffies, ctx->deadline))
		return mpa_schedule_work(ctx, more ? ctx->deadline - jiffies :
						     MPA_RETRY_DELAY);
	/* Section 7.1.2 rules 8 and 10: the peer's frame must arrive in time. */
	if (more)
		mpa_startup_fail(ctx, -ETIMEDOUT, MPA_ERR_STARTUP);
	else
		mpa_startup_fail(ctx, -ENOMEM, MPA_ERR_LOCAL);
}

void mpa_startup_progress(struct mpa_ctx *ctx)
{
	int err = mpa_failed(ctx, MPA_STARTUP), revision;
	const struct mpa_params *params = ctx->params;
	struct mpa_frame frame;

	/* mpa_startup_inherit() has recorded a failure. */
	if (err)
		return mpa_startup_fail(ctx, err, MPA_ERR_LOCAL);
	if (ctx->state == MPA_STATE_REQUESTED) {
		mpa_startup_undecided(ctx);
		return;
	}
	revision = mpa_startup_look(ctx, &frame);
	err = revision < 0 ? revision :
	      mpa_startup_too_early(ctx, &frame, revision) ? -EPROTO :
	      mpa_startup_take(ctx, &frame);
	if (err == -EAGAIN || err == -ENOMEM)
		return mpa_startup_later(ctx, err);
	if (err)
		return mpa_startup_malformed(ctx);
	ctx->revision = revision;

	if (frame.flags & MPA_PEER_REJECTED) {
		mpa_startup_rejected(ctx);
	} else if (params->offer.flags & MPA_START_MANUAL) {
		/* The program may take any time to decide. */
		mpa_startup_uncount(ctx);
		mpa_startup_enter(ctx, MPA_STATE_REQUESTED);
		mpa_wake_reader(ctx);
	} else if (ctx->role == MPA_ROLE_INITIATOR) {
		mpa_startup_agreed(ctx);
	} else {
		mpa_startup_answer(ctx, params, false);
	}
}

/* ---- begin ---- */

/* Forget the startup frame of an earlier connection's peer. */
void mpa_startup_forget_peer(struct mpa_ctx *ctx)
{
	kfree(ctx->peer_private);
	ctx->peer_private = NULL;
	ctx->peer_valid = false;
	WRITE_ONCE(ctx->peer.flags, 0);
}

static void mpa_startup_reset(struct mpa_ctx *ctx,
			      const struct mpa_params *params)
{
	mpa_tx_reset(ctx);
	mpa_startup_forget_peer(ctx);
	WRITE_ONCE(ctx->failure[MPA_STARTUP].code, MPA_ERR_NONE);
	WRITE_ONCE(ctx->failure[MPA_STARTUP].err, 0);
	ctx->restarts = false;
	ctx->err_returned = false;
	ctx->role = params->offer.role;
	ctx->revision = params->offer.revision;
	ctx->control = 0;
	ctx->ird = 0;
	ctx->ord = 0;
	/* Section 4.4: no CRC only "on the explicit request of the system administrator" */
	ctx->want_crc = !(params->offer.flags & MPA_START_NO_CRC &&
			  mpa_policy_get(sock_net(ctx->sk),
					 MPA_A_POLICY_CRC_OPTIONAL));
	mpa_tcp_any_octet_counts(ctx->sk);
	mpa_tcp_forget_urgent(ctx->sk);
}

static void mpa_startup_arm(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = ctx->params;
	unsigned long timeout = params->timeout ?:
		msecs_to_jiffies(mpa_policy_get(sock_net(ctx->sk),
						MPA_A_POLICY_STARTUP_TIMEOUT_MS));

	/* TCP may have ended before accept(2), or while the request was sent. */
	if (mpa_tcp_gone(ctx->sk))
		return mpa_startup_ended(ctx);
	/* Round up: no timeout may end early. */
	timeout++;
	ctx->deadline = jiffies + timeout;
	if (mpa_tcp_inq(ctx->sk) || mpa_tcp_input_ended(ctx->sk))
		timeout = 0;
	mpa_schedule_work(ctx, timeout);
}

/* Whether @params are for the sockets that @sk accepts: @sk listens, or may listen later. */
bool mpa_startup_for_children(const struct sock *sk,
			      const struct mpa_params *params)
{
	return params->offer.role == MPA_ROLE_RESPONDER &&
	       (mpa_tcp_listening(sk) || mpa_tcp_may_listen(sk));
}

static int mpa_startup_may_begin(struct mpa_ctx *ctx,
				 const struct mpa_params *params)
{
	struct sock *sk = ctx->sk;

	switch (ctx->state) {
	case MPA_STATE_STARTUP:
	case MPA_STATE_REQUESTED:
		return -EALREADY;
	case MPA_STATE_FULL:
		return -EISCONN;
	case MPA_STATE_FAILED:
		return -ENOTCONN;
	}
	if (mpa_tcp_listening(sk) && params->offer.role != MPA_ROLE_RESPONDER)
		return -EINVAL;
	if (mpa_startup_for_children(sk, params))
		return ctx->params ? -EISCONN : 0;
	if (!mpa_tcp_connected(sk))
		return -ENOTCONN;
	if (mpa_tcp_sending(sk) || mpa_tcp_repaired(sk))
		return -EBUSY;
	/* Unread octets from before the request are not MPA's. */
	if (params->offer.role == MPA_ROLE_INITIATOR && mpa_tcp_inq(sk))
		return -EBUSY;
	return 0;
}

static bool mpa_startup_answered(const struct mpa_ctx *ctx)
{
	return READ_ONCE(ctx->state) != MPA_STATE_STARTUP;
}

/* Return startup's errno. Clear SO_ERROR if it still has this errno. */
static int mpa_startup_result(struct mpa_ctx *ctx)
{
	if (mpa_failed(ctx, MPA_STARTUP)) {
		mpa_tcp_replace_error(ctx->sk, -mpa_failed(ctx, MPA_STARTUP), 0);
		ctx->err_returned = true;
	}
	return mpa_failed(ctx, MPA_STARTUP);
}

static int mpa_startup_wait_result(struct mpa_ctx *ctx, long timeo)
{
	int err = mpa_tcp_wait(ctx->sk, &timeo, mpa_startup_answered, ctx);

	if (err == -EAGAIN)
		return -EINPROGRESS;
	ctx->restarts = err == -ERESTARTSYS;
	return err ?: mpa_startup_result(ctx);
}

/*
 * As in connect(2), a call restarted after a signal returns the result that has arrived
 * meanwhile, and a new call first returns the unreported result of an earlier call.
 * Return: 1 if there is no such result; else the result, 0 or a negative errno.
 */
static int mpa_startup_no_result(struct mpa_ctx *ctx,
				 const struct mpa_params *params)
{
	bool restarted = ctx->restarts && params->offer.role == MPA_ROLE_INITIATOR;
	bool rejected = ctx->state == MPA_STATE_REJECTED;
	int err;

	if (ctx->state == MPA_STATE_STARTUP || !(restarted || rejected))
		return 1;
	ctx->restarts = false;
	/* Each waiting thread returns the errno, even if another has returned it. */
	if (restarted && ctx->err_returned)
		return mpa_startup_result(ctx);
	err = sock_error(ctx->sk);
	if (err || ctx->state == MPA_STATE_FULL ||
	    ctx->state == MPA_STATE_REQUESTED)
		return err;
	return 1;
}

static void mpa_startup_evict(struct sock *sk)
{
	mpa_set_pending(mpa_ctx(sk), MPA_PENDING_EVICTION);
}

static bool mpa_startup_count(struct mpa_ctx *ctx)
{
	struct mpa_params *params = ctx->params;

	return mpa_policy_enter_startup(&params->admission, ctx->sk,
					params->offer.role == MPA_ROLE_INITIATOR,
					mpa_startup_evict);
}

/* Undo MPA_START, which has failed: the socket keeps its previous role. */
static int mpa_startup_not_begun(struct mpa_ctx *ctx, u8 role,
				 enum mpa_refusal why, int err)
{
	mpa_report_refused(ctx, why, err);
	mpa_startup_uncount(ctx);
	mpa_startup_set_params(ctx, NULL);
	WRITE_ONCE(ctx->role, role);
	return err;
}

/*
 * Check whether MPA may be started with @params, whose fields have been checked.
 * Context: process, socket lock held; waiting drops it. Return: 1 if it may: the caller
 * calls mpa_startup_begin(), or mpa_startup_set_params() if mpa_startup_for_children().
 * Otherwise the result of an earlier MPA_START, as connect(2) returns it after a
 * signal; or -EISCONN, -EALREADY, -ENOTCONN, -EBUSY, -EINVAL.
 */
int mpa_startup_prepare(struct mpa_ctx *ctx, const struct mpa_params *params,
			bool nonblock)
{
	int err;

	if (ctx->state == MPA_STATE_STARTUP && !nonblock &&
	    ctx->role == MPA_ROLE_INITIATOR &&
	    params->offer.role == MPA_ROLE_INITIATOR)
		return mpa_startup_wait_result(ctx, sock_sndtimeo(ctx->sk, 0));

	err = mpa_startup_no_result(ctx, params);
	if (err <= 0)
		return err;
	return mpa_startup_may_begin(ctx, params) ?: 1;
}

/*
 * Start MPA on a socket that has our callbacks. Take over @params. Context: process,
 * socket lock held; waiting drops it. Return: 0; -EINPROGRESS; -EUSERS when no more may
 * be in startup; -ECONNREFUSED when the peer rejected the request; -ENOBUFS,
 * -EOPNOTSUPP when RFC 6581's negotiation failed, in Full Operation; the errno that the
 * connection failed with; -EINTR or -ERESTARTSYS while startup continues.
 */
int mpa_startup_begin(struct mpa_ctx *ctx, struct mpa_params *params,
		      bool nonblock)
{
	bool initiator = params->offer.role == MPA_ROLE_INITIATOR;
	u8 before = ctx->role;
	int err;

	mpa_startup_set_params(ctx, params);
	/* Count first: if this fails, the result of an earlier MPA_START stays. */
	if (params->offer.role != MPA_ROLE_DIRECT && !mpa_startup_count(ctx))
		return mpa_startup_not_begun(ctx, before, MPA_REFUSAL_LIMIT,
					     -EUSERS);
	mpa_startup_reset(ctx, params);
	if (params->offer.role == MPA_ROLE_DIRECT) {
		mpa_startup_direct(ctx);
		return 0;
	}
	err = initiator ? mpa_startup_request(ctx) : 0;
	if (err)
		return mpa_startup_not_begun(ctx, before, MPA_REFUSAL_LOCAL,
					     err);
	mpa_set_state(ctx, MPA_STATE_STARTUP);
	mpa_startup_arm(ctx);
	if (!initiator)
		return 0;
	return mpa_startup_wait_result(ctx, sock_sndtimeo(ctx->sk, nonblock));
}

/*
 * Begin startup on a connection that was just accepted. Take over @params, a copy of
 * the listener's. If @err is a negative errno, startup fails with it.
 */
void mpa_startup_inherit(struct mpa_ctx *ctx, struct mpa_params *params, int err)
{
	mpa_startup_set_params(ctx, params);
	mpa_startup_reset(ctx, params);
	mpa_plain_close(ctx, MPA_TX);
	mpa_plain_close(ctx, MPA_RX);
	mpa_set_state(ctx, MPA_STATE_STARTUP);
	if (!err && !mpa_startup_count(ctx))
		err = -EUSERS;
	if (!err)
		return mpa_startup_arm(ctx);
	mpa_fail(ctx, MPA_STARTUP, err, MPA_ERR_LOCAL);
	mpa_schedule_work(ctx, 0);
}

/*
 * Accept or reject a request or a reply (MPA_START_MANUAL). @reply: our parameters, or
 * NULL for those of MPA_START. Return: 0; -EAGAIN if the peer's frame has not arrived;
 * -EINVAL if there is nothing to decide, or @reply is not valid here; -ENOTCONN if
 * startup failed earlier; or the errno with which startup fails now.
 */
int mpa_startup_decide(struct mpa_ctx *ctx, struct mpa_params *reply,
		       bool reject)
{
	bool initiator = ctx->role == MPA_ROLE_INITIATOR;
	const struct mpa_params *params = ctx->params;

	if (ctx->state == MPA_STATE_FAILED)
		return -ENOTCONN;
	if (ctx->state == MPA_STATE_STARTUP &&
	    params->offer.flags & MPA_START_MANUAL)
		return -EAGAIN;
	if (ctx->state != MPA_STATE_REQUESTED)
		return -EINVAL;
	if (ctx->peer.flags & MPA_PEER_ENHANCED && reply &&
	    reply->private_len > MPA_PRIVATE_DATA_MAX - MPA_ENHANCED_LEN)
		return -EINVAL;
	/* An initiator decides without sending a frame. */
	if (initiator && reply)
		return -EINVAL;
	if (!mpa_startup_undecided(ctx))
		return mpa_startup_result(ctx);
	if (!initiator)
		mpa_startup_answer(ctx, reply ?: params, reject);
	else if (reject)
		mpa_startup_done(ctx, MPA_STATE_REJECTED);
	else
		mpa_startup_agreed(ctx);
	return mpa_startup_result(ctx);
}

static bool mpa_startup_over(const struct mpa_ctx *ctx)
{
	return !mpa_starting(ctx);
}

/*
 * Wait until startup is over. Context: process, socket lock held; waiting drops it.
 * Return: 0; -EAGAIN, -EINTR, -ERESTARTSYS; or the errno of startup, which each waiting
 * call returns.
 */
int mpa_startup_wait(struct mpa_ctx *ctx, long *timeo)
{
	bool waits = !mpa_startup_over(ctx);
	int err;

	err = mpa_tcp_wait(ctx->sk, timeo, mpa_startup_over, ctx);
	/* A call that has not waited leaves the error to SO_ERROR. */
	return err ?: waits ? mpa_startup_result(ctx) : 0;
}

void mpa_startup_free(struct mpa_ctx *ctx)
{
	kfree(ctx->params);
	kfree(ctx->peer_private);
}
