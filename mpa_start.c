// SPDX-License-Identifier: GPL-2.0
/*
 * The startup phase: RFC 5044 section 7.1 and appendix C, RFC 6581. The
 * initiator sends a request, the responder answers it, both enter Full
 * Operation.
 */

#include <linux/slab.h>

#include "mpa.h"

/* ---- states ---- */

/* Enter Full Operation: both directions begin after the startup frames. */
static void mpa_startup_full(struct mpa_ctx *ctx)
{
	u8 sent = mpa_startup_flags(ctx), got = ctx->peer.flags;

	/*
	 * Section 7.1.1: the flags of a frame are valid at revision 0 as well.
	 * Figure 16: a request of a later revision gets markers after a reply of
	 * revision 0, without having asked for them.
	 */
	ctx->tx.format.marked = got & MPA_PEER_MARKERS ||
			 (!ctx->revision && ctx->peer.revision);
	ctx->rx.format.marked = (ctx->revision ? sent : sent | got) & MPA_PEER_MARKERS;
	ctx->tx.format.crc = (sent | got) & MPA_PEER_CRC;
	ctx->rx.format.crc = ctx->tx.format.crc;
	/* Section 7.1.2 rule 4: the responder waits for the first FPDU. */
	WRITE_ONCE(ctx->may_send, ctx->role == MPA_ROLE_INITIATOR);
	if (ctx->control & MPA_START_RTR_FPDU) {
		ctx->tx.rtr_due = ctx->may_send;
		ctx->rx.rtr = !ctx->may_send;
	}
	mpa_rx_begin(ctx);
	mpa_tx_begin(ctx);
	if (ctx->tx.rtr_due) {
		WRITE_ONCE(ctx->may_send, false);
		mpa_tx_rtr(ctx);
	}
	mpa_startup_done(ctx, MPA_STATE_FULL);
	mpa_rx_update(ctx);
	if (ctx->rx.ready)
		mpa_wake_reader(ctx);
}

/* ---- the peer's frame ---- */

/* The peer's frame is not complete yet. */
static int mpa_startup_more(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;

	if (mpa_tcp_input_ended(sk)) {
		if (mpa_tcp_inq(sk))
			return mpa_startup_malformed(ctx);
		return mpa_fail(ctx, MPA_STARTUP, -ECONNRESET, MPA_ERR_TCP);
	}
	if (atomic_read(&ctx->pending) & MPA_PENDING_EVICTION)
		return mpa_fail(ctx, MPA_STARTUP, -EUSERS, MPA_ERR_LOCAL);
	/* Rules 8 and 10 of section 7.1.2. */
	if (time_after_eq(jiffies, ctx->deadline))
		return mpa_fail(ctx, MPA_STARTUP, -ETIMEDOUT, MPA_ERR_STARTUP);
	/* The work item may already be due sooner, to send our frame. */
	mpa_schedule_work(ctx, ctx->deadline - jiffies);
	return 0;
}

/* Apply the reply's IRD, ORD and flags. Return: 0, or the errno of a failed negotiation. */
static int mpa_startup_enhance(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = ctx->params;
	struct mpa_enhanced peer;

	mpa_enhanced_get(ctx->peer_private, &peer);
	ctx->enhanced = true;
	ctx->ird = params->offer.ird;
	ctx->control = 0;

	if (params->offer.flags & MPA_START_P2P)
		ctx->control = MPA_START_P2P |
			       mpa_agree_rtr(params->offer.flags, peer.control,
					     peer.ird);
	ctx->ord = mpa_agree_limit(mpa_agree_depth(params->offer.ord, ctx->control),
				   peer.ird);
	if (params->offer.flags & MPA_START_P2P) {
		if (ctx->control == MPA_START_P2P) {
			ctx->failure[MPA_STARTUP].code = MPA_ERR_RTR;
			return -EOPNOTSUPP;
		}
	}
	if (params->offer.ird != MPA_DEPTH_BY_USER &&
	    peer.ord != MPA_DEPTH_BY_USER && peer.ord > params->offer.ird) {
		ctx->failure[MPA_STARTUP].code = MPA_ERR_IRD;
		return -ENOBUFS;
	}
	return 0;
}

static void mpa_startup_agreed(struct mpa_ctx *ctx)
{
	int err = 0;

	if (ctx->peer.flags & MPA_PEER_ENHANCED) {
		err = mpa_startup_enhance(ctx);
		/*
		 * RFC 6581 section 9: the layer above sends its Terminate
		 * message with the code, and closes.
		 */
		if (err) {
			ctx->control = 0;
			mpa_startup_report(ctx, err);
		}
	}
	mpa_startup_full(ctx);
	if (err)
		mpa_report_failed(ctx, MPA_STARTUP);
}

static void mpa_startup_await_decision(struct mpa_ctx *ctx)
{
	/* There is no time limit for the program. */
	mpa_startup_uncount(ctx);
	mpa_startup_enter(ctx, MPA_STATE_REQUESTED);
	mpa_wake_reader(ctx);
}

static int mpa_startup_got_reply(struct mpa_ctx *ctx)
{
	if (ctx->peer.flags & MPA_PEER_REJECTED)
		mpa_startup_rejected(ctx);
	else if (ctx->params->offer.flags & MPA_START_MANUAL)
		mpa_startup_await_decision(ctx);
	else
		mpa_startup_agreed(ctx);
	return 0;
}

/* Reply to the request, with private data, IRD and ORD of @reply. */
static int mpa_startup_answer(struct mpa_ctx *ctx,
			      const struct mpa_params *reply, bool reject)
{
	bool is_enhanced = ctx->peer.flags & MPA_PEER_ENHANCED;
	const struct mpa_params *params = ctx->params;
	struct mpa_enhanced peer, enhanced = {};
	u8 flags = mpa_startup_flags(ctx);
	int err;

	if (is_enhanced) {
		mpa_enhanced_get(ctx->peer_private, &peer);
		mpa_agree_reply(&params->offer, &reply->offer, &peer, reject,
				&enhanced);
	}
	if (reject)
		flags |= MPA_PEER_REJECTED;
	err = mpa_startup_send(ctx, MPA_REPLY, flags,
			       is_enhanced ? &enhanced : NULL,
			       reply->private, reply->private_len);
	if (err)
		return mpa_fail(ctx, MPA_STARTUP, err, MPA_ERR_LOCAL);
	if (reject) {
		mpa_startup_done(ctx, MPA_STATE_REJECTED);
		return 0;
	}
	if (is_enhanced) {
		ctx->enhanced = true;
		/* RFC 6581 section 9.1: 0x3fff leaves IRD unchanged. */
		ctx->ird = peer.ord == MPA_DEPTH_BY_USER ? reply->offer.ird :
			   enhanced.ird;
		ctx->ord = mpa_agree_limit(reply->offer.ord, peer.ird);
		/* The first FPDU shows which RTR the initiator has chosen. */
		ctx->control = enhanced.control &
			       (peer.control | MPA_START_P2P);
	}
	mpa_startup_full(ctx);
	return 0;
}

static int mpa_startup_got_request(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = ctx->params;

	if (!(params->offer.flags & MPA_START_MANUAL))
		return mpa_startup_answer(ctx, params, false);

	mpa_startup_await_decision(ctx);
	return 0;
}

/* No memory for the private data: try again until the deadline. */
static int mpa_startup_no_memory(struct mpa_ctx *ctx)
{
	if (atomic_read(&ctx->pending) & MPA_PENDING_EVICTION)
		return mpa_fail(ctx, MPA_STARTUP, -EUSERS, MPA_ERR_LOCAL);
	if (time_after_eq(jiffies, ctx->deadline))
		return mpa_fail(ctx, MPA_STARTUP, -ENOMEM, MPA_ERR_LOCAL);
	mpa_schedule_work(ctx, MPA_RETRY_DELAY);
	return 0;
}

static int mpa_startup_got(struct mpa_ctx *ctx,
			   const struct mpa_frame *frame, int revision)
{
	int err = mpa_startup_take(ctx, frame);

	if (err == -ENODATA)
		return mpa_startup_malformed(ctx);
	if (err)
		return mpa_startup_no_memory(ctx);
	ctx->revision = revision;

	return ctx->role == MPA_ROLE_RESPONDER ? mpa_startup_got_request(ctx) :
						 mpa_startup_got_reply(ctx);
}

/*
 * Whether octets after the peer's frame are an error. Neither end may send an
 * FPDU yet: the initiator has not received a reply, the responder no FPDU (rule
 * 4). So octets after a request mean that PD_Length does not match the private
 * data (section 7.1.1), whenever they arrive. After a reply they are accepted
 * if they are a valid FPDU, of a responder that does not obey rule 4.
 */
static bool mpa_startup_too_early(struct mpa_ctx *ctx, u32 off, int revision,
				  u8 flags)
{
	if (ctx->role == MPA_ROLE_RESPONDER)
		return true;
	/* After a rejection octets belong to the user's protocol. */
	if (flags & MPA_PEER_REJECTED)
		return false;
	/* draft-culley-iwarp-mpa-01 section 8.1 has no rule 4. */
	return revision && !mpa_startup_fpdu_at(ctx, off, flags);
}

/*
 * While the program decides, octets after a request are an error, even if a
 * passthrough call has read them. Full Operation checks those after a reply.
 */
static int mpa_startup_undecided(struct mpa_ctx *ctx)
{
	if (ctx->role == MPA_ROLE_RESPONDER &&
	    (mpa_tcp_inq(ctx->sk) || !mpa_rx_start_unread(ctx)))
		return mpa_startup_malformed(ctx);
	return 0;
}

/**
 * mpa_startup_progress() - advance the startup phase as far as possible
 * @ctx:	the context, in MPA_STATE_STARTUP or MPA_STATE_REQUESTED
 *
 * Return: 0, or the negative errno that startup has failed with: the caller
 * passes it to mpa_startup_abort().
 */
int mpa_startup_progress(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = ctx->params;
	struct mpa_frame frame;
	u32 have, len;
	int revision;

	if (mpa_failed(ctx, MPA_STARTUP))
		return mpa_failed(ctx, MPA_STARTUP);
	if (ctx->state == MPA_STATE_REQUESTED)
		return mpa_startup_undecided(ctx);

	switch (mpa_startup_peek_frame(ctx, &frame)) {
	case MPA_FRAME_OK:
		break;
	case MPA_FRAME_MORE:
		return mpa_startup_more(ctx);
	default:
		return mpa_startup_malformed(ctx);
	}

	revision = mpa_agree_revision(&params->offer, &frame);
	if (revision < 0)
		return mpa_startup_malformed(ctx);

	have = mpa_tcp_inq(ctx->sk);
	len = MPA_FRAME_LEN + frame.private_len;
	if (have < len)
		return mpa_startup_more(ctx);
	if (have > len &&
	    mpa_startup_too_early(ctx, len, revision, frame.flags))
		return mpa_startup_malformed(ctx);

	return mpa_startup_got(ctx, &frame, revision);
}

/* ---- begin ---- */

static void mpa_startup_reset(struct mpa_ctx *ctx,
			      const struct mpa_params *params)
{
	mpa_tx_reset(ctx);
	kfree(ctx->peer_private);
	ctx->peer_private = NULL;
	ctx->peer_valid = false;
	WRITE_ONCE(ctx->failure[MPA_STARTUP].code, MPA_ERR_NONE);
	WRITE_ONCE(ctx->failure[MPA_STARTUP].err, 0);
	ctx->restarts = false;
	ctx->err_returned = false;
	ctx->role = params->offer.role;
	ctx->revision = params->offer.revision;
	ctx->enhanced = false;
	ctx->control = 0;
	ctx->ird = 0;
	ctx->ord = 0;
	/* Section 4.4: "on the explicit request of the system administrator" */
	ctx->want_crc = !(params->offer.flags & MPA_START_NO_CRC &&
			  mpa_policy_get(sock_net(ctx->sk),
					 MPA_A_POLICY_CRC_OPTIONAL));
}

static void mpa_startup_arm(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = ctx->params;
	unsigned long timeout = params->timeout ?:
		msecs_to_jiffies(mpa_policy_get(sock_net(ctx->sk),
						MPA_A_POLICY_STARTUP_TIMEOUT_MS));

	/* Round up: no timeout may end early. */
	timeout++;
	ctx->deadline = jiffies + timeout;
	if (mpa_tcp_inq(ctx->sk) || mpa_tcp_input_ended(ctx->sk))
		timeout = 0;
	mpa_schedule_work(ctx, timeout);
}

/* MPA_ROLE_DIRECT: Full Operation without startup frames. */
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
	WRITE_ONCE(ctx->may_send, true);
	mpa_rx_set_start(ctx);
	mpa_rx_begin(ctx);
	mpa_tx_begin(ctx);
	mpa_startup_done(ctx, MPA_STATE_FULL);
	mpa_rx_update(ctx);
	if (ctx->rx.ready)
		mpa_wake_reader(ctx);
}

/**
 * mpa_startup_for_children() - whether the accepted sockets are to start, not @sk
 * itself
 * @sk:		socket
 * @params:	what the user asked for
 */
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
	/* Unread octets that arrived before any request are not MPA's. */
	if (params->offer.role == MPA_ROLE_INITIATOR && mpa_tcp_inq(sk))
		return -EBUSY;
	return 0;
}

static bool mpa_startup_answered(const struct mpa_ctx *ctx)
{
	return READ_ONCE(ctx->state) != MPA_STATE_STARTUP ||
	       mpa_tcp_gone(ctx->sk);
}

/* Return the error, and clear it in SO_ERROR unless a later one replaced it. */
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
	if (err)
		return err;
	mpa_startup_notice_reset(ctx);
	return mpa_startup_result(ctx);
}

/*
 * As in connect(2), a call restarted after a signal returns the result that has
 * arrived meanwhile, and a new call first returns the result of an earlier one.
 * Return: 1 if there is none, or the result: 0 or a negative errno.
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
	/* Another waiting thread has returned the errno: return it here, too. */
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

/* Count the connection as in startup. Return: false if there are too many. */
static bool mpa_startup_count(struct mpa_ctx *ctx)
{
	struct mpa_params *params = ctx->params;

	return mpa_policy_enter_startup(&params->admission, ctx->sk,
					params->offer.role == MPA_ROLE_INITIATOR,
					mpa_startup_evict);
}

/* MPA_START itself has failed: the socket keeps its role. */
static int mpa_startup_not_begun(struct mpa_ctx *ctx, u8 role,
				 enum mpa_refusal why, int err)
{
	mpa_report_refused(ctx, why, err);
	mpa_startup_uncount(ctx);
	mpa_startup_set_params(ctx, NULL);
	WRITE_ONCE(ctx->role, role);
	return err;
}

/* Begin the startup phase. @before: the role that the socket had */
static int mpa_startup_exchange(struct mpa_ctx *ctx, u8 before, bool nonblock)
{
	bool initiator = ctx->role == MPA_ROLE_INITIATOR;
	int err = initiator ? mpa_startup_request(ctx) : 0;

	if (err)
		return mpa_startup_not_begun(ctx, before, MPA_REFUSAL_LOCAL,
					     err);
	mpa_set_state(ctx, MPA_STATE_STARTUP);
	mpa_startup_arm(ctx);
	if (!initiator)
		return 0;
	return mpa_startup_wait_result(ctx, sock_sndtimeo(ctx->sk, nonblock));
}

/**
 * mpa_startup_prepare() - check whether MPA may be started
 * @ctx:	the context
 * @params:	what the user asked for, its fields have been checked
 * @nonblock:	do not wait for the result of a request that is under way
 *
 * Context: process, socket lock held; waiting drops it.
 * Return: 1 if it may: call mpa_startup_begin(), or mpa_startup_set_params() for
 * a listener, even a future one. Otherwise the result of an earlier
 * MPA_START, as connect(2) returns it after a signal; or -EISCONN, -EALREADY,
 * -ENOTCONN, -EBUSY, -EINVAL.
 */
int mpa_startup_prepare(struct mpa_ctx *ctx, const struct mpa_params *params,
			bool nonblock)
{
	int err;

	mpa_startup_notice_reset(ctx);
	if (ctx->state == MPA_STATE_STARTUP && !nonblock &&
	    ctx->role == MPA_ROLE_INITIATOR &&
	    params->offer.role == MPA_ROLE_INITIATOR)
		return mpa_startup_wait_result(ctx, sock_sndtimeo(ctx->sk, 0));

	err = mpa_startup_no_result(ctx, params);
	if (err <= 0)
		return err;
	return mpa_startup_may_begin(ctx, params) ?: 1;
}

/**
 * mpa_startup_begin() - start MPA
 * @ctx:	the context, with our callbacks
 * @params:	what the user asked for; taken over
 * @nonblock:	do not wait for the reply
 *
 * Context: process, socket lock held; waiting drops it.
 * Return: 0; -EINPROGRESS; -EUSERS when no more may be in startup;
 * -ECONNREFUSED when the peer rejected the request; -ENOBUFS, -EOPNOTSUPP when
 * RFC 6581's negotiation failed, in Full Operation; the errno that the
 * connection failed with; -EINTR or -ERESTARTSYS while startup continues.
 */
int mpa_startup_begin(struct mpa_ctx *ctx, struct mpa_params *params,
		      bool nonblock)
{
	u8 before = ctx->role;

	mpa_startup_set_params(ctx, params);
	/* If this startup may not begin, the result of an earlier MPA_START stays. */
	if (params->offer.role != MPA_ROLE_DIRECT && !mpa_startup_count(ctx))
		return mpa_startup_not_begun(ctx, before, MPA_REFUSAL_LIMIT,
					     -EUSERS);
	mpa_startup_reset(ctx, params);
	mpa_tcp_any_octet_counts(ctx->sk);
	mpa_tcp_forget_urgent(ctx->sk);
	if (params->offer.role == MPA_ROLE_DIRECT) {
		mpa_startup_direct(ctx);
		return 0;
	}
	return mpa_startup_exchange(ctx, before, nonblock);
}

/**
 * mpa_startup_inherit() - begin startup on a connection that was just accepted
 * @ctx:	the context, with our callbacks
 * @params:	a copy of the listener's; taken over
 * @err:	0, or a negative errno that startup fails with
 */
void mpa_startup_inherit(struct mpa_ctx *ctx, struct mpa_params *params, int err)
{
	mpa_startup_set_params(ctx, params);
	mpa_startup_reset(ctx, params);
	mpa_tcp_any_octet_counts(ctx->sk);
	mpa_tcp_forget_urgent(ctx->sk);
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

/* An initiator decides about a reply. It sends no frame for this. */
static int mpa_startup_decide_reply(struct mpa_ctx *ctx,
				    const struct mpa_params *reply, bool reject)
{
	if (reply)
		return -EINVAL;
	if (reject)
		mpa_startup_done(ctx, MPA_STATE_REJECTED);
	else
		mpa_startup_agreed(ctx);
	return mpa_startup_result(ctx);
}

/**
 * mpa_startup_decide() - accept or reject a request or a reply (MPA_START_MANUAL)
 * @ctx:	the context
 * @reply:	private data and depths, or NULL for those of MPA_START
 * @reject:	reject
 *
 * Return: 0; -EAGAIN when no request is here yet; -EINVAL when there is nothing
 * to decide; or the errno that startup has failed with: the caller passes it to
 * mpa_startup_abort().
 */
int mpa_startup_decide(struct mpa_ctx *ctx, struct mpa_params *reply,
		       bool reject)
{
	const struct mpa_params *params = ctx->params;
	int err;

	mpa_startup_notice_reset(ctx);
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
	err = mpa_startup_progress(ctx);
	if (err)
		return err;
	if (ctx->role == MPA_ROLE_INITIATOR)
		return mpa_startup_decide_reply(ctx, reply, reject);
	return mpa_startup_answer(ctx, reply ?: params, reject);
}

static bool mpa_startup_over(const struct mpa_ctx *ctx)
{
	return !mpa_starting(ctx) || mpa_tcp_gone(ctx->sk);
}

/**
 * mpa_startup_wait() - wait until the startup phase is over
 * @ctx:	the context
 * @timeo:	jiffies to wait; updated
 *
 * Context: process, socket lock held; waiting drops it.
 * Return: 0; -EAGAIN, -EINTR, -ERESTARTSYS; or the errno of startup, to each
 * call that waits.
 */
int mpa_startup_wait(struct mpa_ctx *ctx, long *timeo)
{
	bool waits = !mpa_startup_over(ctx);
	int err;

	err = mpa_tcp_wait(ctx->sk, timeo, mpa_startup_over, ctx);
	if (err)
		return err;
	mpa_startup_notice_reset(ctx);
	/* A call that did not have to wait leaves the error to SO_ERROR. */
	return waits ? mpa_startup_result(ctx) : 0;
}

/* Free what startup has allocated. Nothing else uses @ctx any longer. */
void mpa_startup_free(struct mpa_ctx *ctx)
{
	kfree(ctx->params);
	kfree(ctx->peer_private);
}
