// SPDX-License-Identifier: GPL-2.0
/*
 * The startup phase: RFC 5044 section 7.1 and appendix C, RFC 6581. The
 * initiator sends a request, the responder answers it, both enter Full
 * Operation.
 */

#include <linux/slab.h>

#include "mpa.h"

static void mpa_startup_set_params(struct mpa_ctx *ctx,
				   struct mpa_params *params)
{
	struct mpa_params *old = mpa_params(ctx);

	rcu_assign_pointer(ctx->params, params);
	if (old)
		kfree_rcu(old, rcu);
}

/* ---- states ---- */

/* Have the work item run, unless another one has got the place meanwhile. */
static void mpa_startup_kick(struct mpa_ctx *ctx, unsigned long delay)
{
	mpa_schedule_work(ctx, delay);
	/* mpa_schedule_work_of() may have come before, and been put off by this. */
	if (READ_ONCE(mpa_params(ctx)->admission.ousted))
		mpa_schedule_work(ctx, 0);
}

/* As when connect(2) has come to its end. */
static void mpa_startup_wake(struct mpa_ctx *ctx, u8 state)
{
	struct sock *sk = ctx->sk;

	/* Pairs with mpa_poll_state(): what led here is seen with it. */
	smp_store_release(&ctx->state, state);
	sk->sk_state_change(sk);
	sk_wake_async(sk, SOCK_WAKE_IO, POLL_OUT);
}

static void mpa_startup_done(struct mpa_ctx *ctx, u8 state)
{
	mpa_startup_uncount(ctx);
	mpa_startup_set_params(ctx, NULL);
	/* Our frame goes nowhere any more. */
	if (state == MPA_STATE_FAILED)
		mpa_tx_drop(ctx);
	/* An ordinary TCP socket again. */
	if (state == MPA_STATE_REJECTED)
		mpa_tcp_uncork(ctx->sk, &ctx->tx.window);
	mpa_startup_wake(ctx, state);
}

/*
 * Startup has failed: the caller calls mpa_startup_abort() with the errno that
 * this returns. Until that is done nothing seems to have happened, so that
 * whoever notices finds the errno in place.
 */
static int mpa_startup_fail(struct mpa_ctx *ctx, int err, enum mpa_error code)
{
	if (!ctx->startup_error) {
		WRITE_ONCE(ctx->startup_error, err);
		ctx->code = code;
	}
	return ctx->startup_error;
}

static int mpa_startup_malformed(struct mpa_ctx *ctx)
{
	return mpa_startup_fail(ctx, -EPROTO, MPA_ERR_STARTUP);
}

/* The result is for the user to find: by SO_ERROR, or MPA_START itself. */
static void mpa_startup_tell(struct mpa_ctx *ctx, int err)
{
	ctx->startup_error = err;
	WRITE_ONCE(ctx->sk->sk_err, -err);
}

/* Both directions of the stream start anew behind the startup frames. */
static void mpa_startup_full(struct mpa_ctx *ctx)
{
	u8 sent = mpa_startup_flags(ctx), got = ctx->peer.flags;

	/*
	 * Section 7.1.1: what a frame says holds, also at revision 0. Figure 16:
	 * there a reply has markers behind it that a request of a later revision
	 * has not asked for.
	 */
	ctx->tx.marked = got & MPA_PEER_MARKERS ||
			 (!ctx->revision && ctx->peer.revision);
	ctx->rx.marked = (ctx->revision ? sent : sent | got) & MPA_PEER_MARKERS;
	ctx->tx.crc = (sent | got) & MPA_PEER_CRC;
	ctx->rx.crc = ctx->tx.crc;
	/* Section 7.1.2 rule 4: the responder waits for the first FPDU. */
	ctx->may_send = ctx->role == MPA_ROLE_INITIATOR;
	if (ctx->control & MPA_START_RTR_FPDU) {
		ctx->tx.rtr_due = ctx->may_send;
		ctx->rx.rtr = !ctx->may_send;
	}
	mpa_rx_begin(ctx);
	mpa_tx_begin(ctx);
	if (ctx->tx.rtr_due) {
		ctx->may_send = false;
		mpa_tx_rtr(ctx);
	}
	mpa_startup_done(ctx, MPA_STATE_FULL);
	mpa_rx_update(ctx);
	if (ctx->rx.ready)
		ctx->data_ready(ctx->sk);
}

/* ---- in ---- */

/* Neither the peer's frame nor a reason to give up is here yet. */
static int mpa_startup_more(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;

	if (mpa_tcp_input_ended(sk)) {
		if (mpa_tcp_inq(sk))
			return mpa_startup_malformed(ctx);
		return mpa_startup_fail(ctx, -ECONNRESET, MPA_ERR_TCP);
	}
	if (READ_ONCE(mpa_params(ctx)->admission.ousted))
		return mpa_startup_fail(ctx, -EUSERS, MPA_ERR_LOCAL);
	/* Rules 8 and 10 of section 7.1.2. */
	if (time_after_eq(jiffies, ctx->deadline))
		return mpa_startup_fail(ctx, -ETIMEDOUT, MPA_ERR_STARTUP);
	/* Sooner if TCP had no memory for our frame. */
	mpa_startup_kick(ctx, ctx->deadline - jiffies);
	return 0;
}

/* The reply's depths and flags may ask for more than there is. */
static int mpa_startup_enhance(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = mpa_params(ctx);
	struct mpa_enhanced peer;

	mpa_enhanced_get(ctx->peer_private, &peer);
	ctx->enhanced = true;
	ctx->ird = params->ird;
	ctx->control = 0;

	if (params->flags & MPA_START_P2P)
		ctx->control = MPA_START_P2P |
			       mpa_agree_rtr(params->flags, peer.control,
					     peer.ird);
	ctx->ord = mpa_agree_limit(mpa_agree_depth(params->ord, ctx->control),
				   peer.ird);
	if (params->flags & MPA_START_P2P) {
		if (ctx->control == MPA_START_P2P) {
			ctx->code = MPA_ERR_RTR;
			return -EOPNOTSUPP;
		}
	}
	if (params->ird != MPA_DEPTH_BY_USER &&
	    peer.ord != MPA_DEPTH_BY_USER && peer.ord > params->ird) {
		ctx->code = MPA_ERR_IRD;
		return -ENOBUFS;
	}
	return 0;
}

/*
 * The peer has not waited for the request, of which TCP has not taken all yet:
 * the socket is not the user's with a part of a frame still to go.
 */
static int mpa_startup_withdraw(struct mpa_ctx *ctx)
{
	if (!mpa_tx_stuck(&ctx->tx))
		return 0;
	if (ctx->tx.out->sent && !mpa_tcp_gone(ctx->sk))
		return mpa_startup_fail(ctx, -ENOBUFS, MPA_ERR_LOCAL);
	mpa_tx_drop(ctx);
	return 0;
}

static int mpa_startup_rejected(struct mpa_ctx *ctx)
{
	int err = mpa_startup_withdraw(ctx);

	if (err)
		return err;
	/* Else mpa_startup_reset_came() has told. */
	if (mpa_tcp_gone(ctx->sk))
		ctx->startup_error = -ECONNREFUSED;
	else
		mpa_startup_tell(ctx, -ECONNREFUSED);
	mpa_startup_done(ctx, MPA_STATE_REJECTED);
	/* What is behind the reply is the user's. */
	ctx->data_ready(ctx->sk);
	return 0;
}

/* The reply is acceptable. */
static void mpa_startup_agreed(struct mpa_ctx *ctx)
{
	int err;

	if (ctx->peer.flags & MPA_PEER_ENHANCED) {
		err = mpa_startup_enhance(ctx);
		/*
		 * RFC 6581 section 9: it is for the layer above to send its
		 * Terminate message with the code, and to close.
		 */
		if (err) {
			ctx->control = 0;
			mpa_startup_tell(ctx, err);
		}
	}
	mpa_startup_full(ctx);
}

/* The program decides what becomes of the peer's frame. */
static void mpa_startup_await_decision(struct mpa_ctx *ctx)
{
	/* Not the peer's fault any more if it takes long. */
	mpa_startup_uncount(ctx);
	mpa_startup_wake(ctx, MPA_STATE_REQUESTED);
	ctx->data_ready(ctx->sk);
}

static int mpa_startup_got_reply(struct mpa_ctx *ctx)
{
	if (ctx->peer.flags & MPA_PEER_REJECTED)
		return mpa_startup_rejected(ctx);
	if (mpa_params(ctx)->flags & MPA_START_MANUAL)
		mpa_startup_await_decision(ctx);
	else
		mpa_startup_agreed(ctx);
	return 0;
}

/*
 * Answer the request that has been taken. @reply holds private data and depths.
 */
static int mpa_startup_answer(struct mpa_ctx *ctx,
			      const struct mpa_params *reply, bool reject)
{
	const struct mpa_params *params = mpa_params(ctx);
	struct mpa_enhanced peer, enhanced = {};
	bool is_enhanced = ctx->peer.flags & MPA_PEER_ENHANCED;
	u8 flags = mpa_startup_flags(ctx);
	int err;

	if (is_enhanced) {
		mpa_enhanced_get(ctx->peer_private, &peer);
		mpa_agree_reply(params, reply, &peer, reject, &enhanced);
	}
	if (reject)
		flags |= MPA_PEER_REJECTED;
	err = mpa_startup_send(ctx, MPA_REPLY, flags,
			       is_enhanced ? &enhanced : NULL,
			       reply->private, reply->private_len);
	/* The socket would be the user's, with octets of ours still to go. */
	if (!err && reject && mpa_tx_stuck(&ctx->tx))
		err = -ENOBUFS;
	if (err)
		return mpa_startup_fail(ctx, err, MPA_ERR_LOCAL);
	if (reject) {
		mpa_startup_done(ctx, MPA_STATE_REJECTED);
		return 0;
	}
	if (is_enhanced) {
		ctx->enhanced = true;
		ctx->ird = mpa_agree_depth(reply->ird, enhanced.control);
		ctx->ord = mpa_agree_limit(reply->ord, peer.ird);
		/* Which of them the initiator takes, the first FPDU shows. */
		ctx->control = enhanced.control &
			       (peer.control | MPA_START_P2P);
	}
	mpa_startup_full(ctx);
	return 0;
}

static int mpa_startup_got_request(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = mpa_params(ctx);

	if (!(params->flags & MPA_START_MANUAL))
		return mpa_startup_answer(ctx, params, false);

	mpa_startup_await_decision(ctx);
	return 0;
}

/* For what the peer's frame holds: try again as long as there is time. */
static int mpa_startup_no_memory(struct mpa_ctx *ctx)
{
	if (READ_ONCE(mpa_params(ctx)->admission.ousted))
		return mpa_startup_fail(ctx, -EUSERS, MPA_ERR_LOCAL);
	if (time_after_eq(jiffies, ctx->deadline))
		return mpa_startup_fail(ctx, -ENOMEM, MPA_ERR_LOCAL);
	mpa_schedule_work(ctx, MPA_RETRY_DELAY);
	return 0;
}

/* The peer's frame is one to go on with. */
static int mpa_startup_got(struct mpa_ctx *ctx,
			   const struct mpa_frame *startup, int revision)
{
	int err = mpa_startup_take(ctx, startup);

	if (err == -ENODATA)
		return mpa_startup_malformed(ctx);
	if (err)
		return mpa_startup_no_memory(ctx);
	ctx->revision = revision;

	return ctx->role == MPA_ROLE_RESPONDER ? mpa_startup_got_request(ctx) :
						 mpa_startup_got_reply(ctx);
}

/*
 * Octets behind the peer's frame. Nobody may send an FPDU before the other end
 * has read the frame in front of it: the initiator has not seen a reply, the
 * responder no FPDU (rule 4). So those behind a request mean that PD_Length does
 * not match the private data (section 7.1.1), whenever they come. Behind a reply
 * they may be an FPDU all the same, of a responder that does not keep rule 4,
 * and are taken for one if they are.
 */
static bool mpa_startup_too_early(struct mpa_ctx *ctx, u32 off, int revision,
				  u8 flags)
{
	if (ctx->role == MPA_ROLE_RESPONDER)
		return true;
	/* After a rejection both go on in their own way. */
	if (flags & MPA_PEER_REJECTED)
		return false;
	/* draft-culley-iwarp-mpa-01 section 8.1 has no rule 4. */
	return revision && !mpa_startup_fpdu_at(ctx, off, flags);
}

/*
 * A frame waits for the program's decision. Octets behind a request are too
 * early, also if a call of TCP's own has read them; those behind a reply are
 * looked at in Full Operation.
 */
static int mpa_startup_undecided(struct mpa_ctx *ctx)
{
	mpa_tx_push(ctx);
	if (ctx->role == MPA_ROLE_RESPONDER &&
	    (mpa_tcp_inq(ctx->sk) || !mpa_rx_start_unread(ctx)))
		return mpa_startup_malformed(ctx);
	return 0;
}

/**
 * mpa_startup_progress() - see how far the startup phase has come
 * @ctx:	the context, in MPA_STATE_STARTUP or MPA_STATE_REQUESTED
 *
 * Context: process, socket lock held.
 * Return: 0; or a negative errno when startup has failed: the caller then
 * calls mpa_startup_abort() with it.
 */
int mpa_startup_progress(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = mpa_params(ctx);
	struct mpa_frame startup;
	u32 have, len;
	int revision;

	if (ctx->startup_error)
		return ctx->startup_error;
	if (ctx->state == MPA_STATE_REQUESTED)
		return mpa_startup_undecided(ctx);

	mpa_tx_push(ctx);

	switch (mpa_startup_peek_frame(ctx, &startup)) {
	case MPA_FRAME_OK:
		break;
	case MPA_FRAME_MORE:
		return mpa_startup_more(ctx);
	default:
		return mpa_startup_malformed(ctx);
	}

	revision = mpa_agree_judge(params, &startup);
	if (revision < 0)
		return mpa_startup_malformed(ctx);

	have = mpa_tcp_inq(ctx->sk);
	len = MPA_FRAME_LEN + startup.private_len;
	if (have < len)
		return mpa_startup_more(ctx);
	if (have > len &&
	    mpa_startup_too_early(ctx, len, revision, startup.flags))
		return mpa_startup_malformed(ctx);

	return mpa_startup_got(ctx, &startup, revision);
}

/* ---- begin ---- */

static void mpa_startup_reset(struct mpa_ctx *ctx,
			      const struct mpa_params *params)
{
	mpa_tx_reset(ctx);
	kfree(ctx->peer_private);
	ctx->peer_private = NULL;
	ctx->have_peer = false;
	ctx->code = MPA_ERR_NONE;
	ctx->startup_error = 0;
	ctx->restarts = false;
	ctx->told = false;
	ctx->role = params->role;
	ctx->revision = params->revision;
	ctx->enhanced = false;
	ctx->control = 0;
	ctx->ird = 0;
	ctx->ord = 0;
	/* Section 4.4: "on the explicit request of the system administrator" */
	ctx->want_crc = !(params->flags & MPA_START_NO_CRC &&
			  mpa_policy_crc_optional(ctx->sk));
}

static void mpa_startup_arm(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = mpa_params(ctx);
	unsigned long timeout = params->timeout ?:
				mpa_policy_timeout(ctx->sk);

	/* A part of this jiffy is over, and no timeout is too short. */
	timeout++;
	ctx->deadline = jiffies + timeout;
	if (mpa_tcp_inq(ctx->sk) || mpa_tcp_input_ended(ctx->sk))
		timeout = 0;
	mpa_startup_heard(ctx);
	mpa_startup_kick(ctx, timeout);
}

/* The RDMA Consortium's way: Full Operation from here on, no frames. */
static void mpa_startup_direct(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = mpa_params(ctx);
	bool no_crc = mpa_policy_crc_optional(ctx->sk);

	ctx->rx.marked = !params->revision || params->flags & MPA_START_MARKERS;
	ctx->tx.marked = !params->revision ||
			 params->flags & MPA_START_TX_MARKERS;
	no_crc = no_crc && params->revision;
	ctx->rx.crc = !(no_crc && params->flags & MPA_START_NO_CRC);
	ctx->tx.crc = !(no_crc && params->flags & MPA_START_TX_NO_CRC);
	ctx->may_send = true;
	mpa_rx_set_start(ctx);
	mpa_rx_begin(ctx);
	mpa_tx_begin(ctx);
	mpa_startup_done(ctx, MPA_STATE_FULL);
	mpa_rx_update(ctx);
	if (ctx->rx.ready)
		ctx->data_ready(ctx->sk);
}

/* It is not the socket itself that is to start, but what it will accept. */
static bool mpa_startup_for_children(const struct sock *sk,
				     const struct mpa_params *params)
{
	return params->role == MPA_ROLE_RESPONDER &&
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
	if (mpa_tcp_listening(sk) && params->role != MPA_ROLE_RESPONDER)
		return -EINVAL;
	if (mpa_startup_for_children(sk, params))
		return mpa_params(ctx) ? -EISCONN : 0;
	if (!mpa_tcp_connected(sk))
		return -ENOTCONN;
	/* A call of TCP's own would go on taking or giving octets. */
	if (ctx->passthrough || mpa_tcp_sending(sk) || mpa_tcp_repaired(sk))
		return -EBUSY;
	/* Unread octets came before a reply could: they are not MPA's. */
	if (params->role == MPA_ROLE_INITIATOR && mpa_tcp_inq(sk))
		return -EBUSY;
	return 0;
}

/* Something has come of the request, or the program has to decide what. */
static bool mpa_startup_answered(const struct mpa_ctx *ctx)
{
	return READ_ONCE(ctx->state) != MPA_STATE_STARTUP ||
	       mpa_tcp_gone(ctx->sk);
}

/* Not a second time from SO_ERROR; another error that has come since is. */
static int mpa_startup_result(struct mpa_ctx *ctx)
{
	if (ctx->startup_error) {
		cmpxchg(&ctx->sk->sk_err, -ctx->startup_error, 0);
		ctx->told = true;
	}
	return ctx->startup_error;
}

static int mpa_startup_wait_result(struct mpa_ctx *ctx, long timeo)
{
	int err = mpa_tcp_wait(ctx, &timeo, mpa_startup_answered);

	if (err == -EAGAIN)
		return -EINPROGRESS;
	ctx->restarts = err == -ERESTARTSYS;
	if (err)
		return err;
	mpa_startup_notice_reset(ctx);
	return mpa_startup_result(ctx);
}

/*
 * As connect(2): a call that a signal has restarted has the result that came
 * meanwhile, and what has come of an earlier one is told before a new one.
 * Return: 1, 0 for such a result, or a negative errno.
 */
static int mpa_startup_no_result(struct mpa_ctx *ctx,
				 const struct mpa_params *params)
{
	bool restarted = ctx->restarts && params->role == MPA_ROLE_INITIATOR;
	bool rejected = ctx->state == MPA_STATE_REJECTED;
	int err;

	if (ctx->state == MPA_STATE_STARTUP || !(restarted || rejected))
		return 1;
	ctx->restarts = false;
	/* Somebody else who waited has been told as well. */
	if (restarted && ctx->told)
		return mpa_startup_result(ctx);
	err = sock_error(ctx->sk);
	if (err || ctx->state == MPA_STATE_FULL ||
	    ctx->state == MPA_STATE_REQUESTED)
		return err;
	return 1;
}

/* Both roles that exchange frames. */
static int mpa_startup_go(struct mpa_ctx *ctx, bool nonblock)
{
	bool initiator = ctx->role == MPA_ROLE_INITIATOR;
	int err = 0;

	if (!mpa_policy_enter_startup(ctx, &mpa_params(ctx)->admission))
		err = -EUSERS;
	if (!err && initiator)
		err = mpa_startup_request(ctx);
	if (err) {
		mpa_startup_uncount(ctx);
		mpa_startup_set_params(ctx, NULL);
		return err;
	}
	WRITE_ONCE(ctx->state, MPA_STATE_STARTUP);
	mpa_startup_arm(ctx);
	if (!initiator)
		return 0;
	return mpa_startup_wait_result(ctx, sock_sndtimeo(ctx->sk, nonblock));
}

/**
 * mpa_startup_begin() - start MPA
 * @ctx:	the context
 * @params:	what the user asked for, its fields have been checked; taken
 *		over unless an error other than the connection's is returned
 * @nonblock:	do not wait for the reply
 *
 * Context: process, socket lock held; waiting drops it.
 * Return: 0; -EINPROGRESS; -EISCONN, -EALREADY, -ENOTCONN, -EBUSY, -EINVAL
 * when MPA cannot be started; -EUSERS when no responder may be in startup;
 * -ECONNREFUSED when the peer rejected the request; -ENOBUFS, -EOPNOTSUPP when
 * RFC 6581's negotiation came to nothing, in Full Operation; what the connection
 * failed with, or an earlier startup that nobody has asked for; -EINTR or
 * -ERESTARTSYS: startup goes on.
 */
int mpa_startup_begin(struct mpa_ctx *ctx, struct mpa_params *params,
		      bool nonblock)
{
	struct sock *sk = ctx->sk;
	bool listening = mpa_startup_for_children(sk, params);
	int err;

	mpa_startup_notice_reset(ctx);
	/* As connect(2) does, also when a signal has restarted it. */
	if (ctx->state == MPA_STATE_STARTUP && !nonblock &&
	    ctx->role == MPA_ROLE_INITIATOR &&
	    params->role == MPA_ROLE_INITIATOR) {
		kfree(params);
		return mpa_startup_wait_result(ctx, sock_sndtimeo(sk, 0));
	}

	err = mpa_startup_no_result(ctx, params);
	if (err <= 0) {
		kfree(params);
		return err;
	}
	err = mpa_startup_may_begin(ctx, params);
	if (!err && !listening)
		err = mpa_hook_callbacks(ctx);
	if (!err && !listening) {
		mpa_hook_adopt(ctx);
		ctx->unaccepted = false;
	}
	if (err) {
		kfree(params);
		return err;
	}
	mpa_startup_set_params(ctx, params);
	if (listening)
		return 0;

	mpa_startup_reset(ctx, params);
	/* Any octet may complete a record, and none is urgent. */
	WRITE_ONCE(sk->sk_rcvlowat, 1);
	mpa_tcp_forget_urgent(sk);
	if (params->role == MPA_ROLE_DIRECT) {
		mpa_startup_direct(ctx);
		return 0;
	}
	return mpa_startup_go(ctx, nonblock);
}

/**
 * mpa_startup_inherit() - let a child of a listening socket start
 * @ctx:	the child's context, seen by nobody yet
 * @params:	a copy of the listener's
 *
 * Context: softirq.
 */
void mpa_startup_inherit(struct mpa_ctx *ctx, struct mpa_params *params)
{
	RCU_INIT_POINTER(ctx->params, params);
	mpa_startup_reset(ctx, params);
	ctx->sk->sk_rcvlowat = 1;
	/* Our callbacks are not there yet, to see to urgent octets. */
	params->urgent_kept = mpa_tcp_keep_urgent(ctx->sk);
	ctx->state = MPA_STATE_STARTUP;
}

/**
 * mpa_startup_adopted() - a child has just been given its struct socket
 * @ctx:	the context; the program does not know the socket yet
 *
 * Context: process, in release_sock(), socket lock held.
 */
void mpa_startup_adopted(struct mpa_ctx *ctx)
{
	struct mpa_params *params = mpa_params(ctx);

	/* mpa_startup_accepted() tells if that cannot be. */
	if (ctx->state != MPA_STATE_STARTUP || mpa_hook_callbacks(ctx))
		return;
	mpa_tcp_forget_urgent(ctx->sk);
	if (params->urgent_kept)
		mpa_tcp_skip_urgent(ctx->sk);
	params->urgent_kept = false;
}

/**
 * mpa_startup_accepted() - an inherited startup may begin
 * @ctx:	the context; mpa_startup_progress() comes next
 *
 * Context: process, socket lock held.
 */
void mpa_startup_accepted(struct mpa_ctx *ctx)
{
	int err = mpa_hook_callbacks(ctx);

	if (!err &&
	    !mpa_policy_enter_startup(ctx, &mpa_params(ctx)->admission))
		err = -EUSERS;
	if (err)
		mpa_startup_fail(ctx, err, MPA_ERR_LOCAL);
	else
		mpa_startup_arm(ctx);
}

/* An initiator's program has looked at the reply. No frame tells the peer. */
static int mpa_startup_decide_reply(struct mpa_ctx *ctx,
				    const struct mpa_params *reply, bool reject)
{
	int err = 0;

	if (reply)
		return -EINVAL;
	if (reject)
		err = mpa_startup_withdraw(ctx);
	if (err)
		return err;
	if (reject)
		mpa_startup_done(ctx, MPA_STATE_REJECTED);
	else
		mpa_startup_agreed(ctx);
	return mpa_startup_result(ctx);
}

/**
 * mpa_startup_decide() - accept or reject a request by hand, or a reply
 * @ctx:	the context
 * @reply:	private data and depths, or NULL for those of MPA_START
 * @reject:	reject
 *
 * Context: process, socket lock held.
 * Return: 0; -EAGAIN when no request is here yet, -EINVAL when there is
 * nothing to decide; or what startup has failed with: then the caller calls
 * mpa_startup_abort() with it.
 */
int mpa_startup_decide(struct mpa_ctx *ctx, struct mpa_params *reply,
		       bool reject)
{
	const struct mpa_params *params = mpa_params(ctx);
	int err;

	mpa_startup_notice_reset(ctx);
	if (ctx->state == MPA_STATE_FAILED)
		return -ENOTCONN;
	if (ctx->state == MPA_STATE_STARTUP &&
	    params->flags & MPA_START_MANUAL)
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
	mpa_ops_abort(ctx, -err);
	mpa_startup_notice_reset(ctx);
}

/* TCP says EPIPE for a reset behind a FIN. */
static void mpa_startup_say_why(struct sock *sk, int err)
{
	if (cmpxchg(&sk->sk_err, ECONNRESET, err) == EPIPE)
		cmpxchg(&sk->sk_err, EPIPE, err);
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
	struct mpa_frame startup;
	u32 len = mpa_startup_rejection(ctx, &startup);

	if (len && len == mpa_tcp_inq(ctx->sk))
		mpa_startup_say_why(ctx->sk, ECONNREFUSED);
	else if (mpa_startup_bad(ctx))
		mpa_startup_say_why(ctx->sk, EPROTO);
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
	struct mpa_frame startup;
	bool bad;
	int err;

	if (!mpa_starting(ctx) || !mpa_tcp_gone(sk))
		return;
	if (mpa_startup_rejection(ctx, &startup) &&
	    !mpa_startup_take(ctx, &startup) && !mpa_startup_rejected(ctx))
		return;
	bad = mpa_startup_bad(ctx);
	/* mpa_startup_reset_came() has not seen children that nobody has accepted. */
	if (bad)
		mpa_startup_say_why(sk, EPROTO);
	err = -READ_ONCE(sk->sk_err);
	if (bad && (!err || err == -EPROTO))
		mpa_startup_malformed(ctx);
	else
		mpa_startup_fail(ctx, err ?: -ECONNRESET, MPA_ERR_TCP);
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
	mpa_startup_abort(ctx, mpa_startup_fail(ctx, -ECONNABORTED,
						MPA_ERR_LOCAL));
	return true;
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
 * Return: 0; -EAGAIN, -EINTR, -ERESTARTSYS; or what startup has failed with,
 * for each that waits.
 */
int mpa_startup_wait(struct mpa_ctx *ctx, long *timeo)
{
	bool waits = !mpa_startup_over(ctx);
	int err = mpa_tcp_wait(ctx, timeo, mpa_startup_over);

	if (err)
		return err;
	mpa_startup_notice_reset(ctx);
	/* Who comes later asks for it as SO_ERROR does, and it is told once. */
	return waits ? mpa_startup_result(ctx) : 0;
}

/**
 * mpa_startup_free() - give back what startup has allocated
 * @ctx:	the context, which nobody else uses any more but for mpa_clone()
 */
void mpa_startup_free(struct mpa_ctx *ctx)
{
	struct mpa_params *params = rcu_dereference_protected(ctx->params,
							      true);

	if (params)
		kfree_rcu(params, rcu);
	kfree(ctx->peer_private);
}
