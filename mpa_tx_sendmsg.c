// SPDX-License-Identifier: GPL-2.0
/* sendmsg: flags and control messages, waiting, and the end of sending. */

#include <linux/sched/signal.h>
#include <linux/socket.h>
#include <linux/uio.h>

#include "mpa_sock.h"

static bool mpa_sendmsg_may_send(const struct mpa_ctx *ctx)
{
	return READ_ONCE(ctx->may_send) || mpa_failed(ctx, MPA_RX) ||
	       mpa_tcp_error(ctx->sk) || mpa_tcp_peer_left(ctx->sk) ||
	       mpa_tcp_send_ended(ctx->sk);
}

static bool mpa_sendmsg_over(const struct mpa_ctx *ctx)
{
	return mpa_tcp_error(ctx->sk) || READ_ONCE(ctx->tx.ended) ||
	       mpa_tcp_send_ended(ctx->sk);
}

/* Whether there is room. An open ULPDU, even of another thread, needs none. */
static bool mpa_sendmsg_room(const struct mpa_ctx *ctx)
{
	return mpa_tcp_want_writable(ctx->sk) || mpa_tx_open(&ctx->tx) ||
	       mpa_sendmsg_over(ctx);
}

static int mpa_sendmsg_wait_room(struct mpa_ctx *ctx, long *timeo)
{
	mpa_tx_flush_queued(ctx, MPA_PUSH_FULL);
	/* As in TCP, a batch continues in the packet that it has begun. */
	if (mpa_tcp_writable(ctx->sk))
		return 0;
	mpa_tcp_push(ctx->sk, &ctx->tx.window, false);
	return mpa_tcp_wait(ctx->sk, timeo, mpa_sendmsg_room, ctx);
}

/*
 * Wait a short time for memory. Nothing reports free memory, not even an ACK if
 * octets not yet passed to TCP fill the send buffer. Return 0 to retry, or a
 * negative errno.
 */
static int mpa_sendmsg_wait_memory(struct mpa_ctx *ctx, long *timeo)
{
	long wait = min_t(long, *timeo, MPA_RETRY_DELAY), left = wait;
	int err;

	if (!wait) {
		/* The work item, or later TCP, wakes poll(2). */
		WRITE_ONCE(ctx->tx.starved, true);
		mpa_tcp_want_writable(ctx->sk);
		mpa_schedule_work(ctx, MPA_RETRY_DELAY);
	}
	mpa_tx_flush_queued(ctx, MPA_PUSH_FULL);
	mpa_tcp_push(ctx->sk, &ctx->tx.window, false);
	err = mpa_tcp_wait(ctx->sk, &left, mpa_sendmsg_over, ctx);
	if (!err)
		return -EPIPE;
	if (err == -EINTR)
		return sock_intr_errno(*timeo);
	if (*timeo != MAX_SCHEDULE_TIMEOUT)
		*timeo -= wait - left;
	return err == -EAGAIN && *timeo ? 0 : err;
}

/*
 * Section 7.1.2 rule 4: a responder sends nothing before it has received an
 * FPDU. The FPDU may be in TCP's queue, not yet verified, maybe followed by a
 * FIN.
 */
static int mpa_sendmsg_wait_first(struct mpa_ctx *ctx, long *timeo)
{
	int err = mpa_tcp_wait(ctx->sk, timeo, mpa_sendmsg_may_send, ctx);

	if (err || ctx->may_send)
		return err;
	/* A reader gets the error of an invalid FPDU found here. */
	if (mpa_rx_drain(ctx) == -ENOMEM)
		return mpa_sendmsg_wait_memory(ctx, timeo);
	return ctx->may_send ? 0 : mpa_failed(ctx, MPA_RX) ?: -EPIPE;
}

static __always_inline int mpa_sendmsg_wait(struct mpa_ctx *ctx, long *timeo)
{
	struct sock *sk = ctx->sk;
	int err;

	for (;;) {
		if (mpa_sendmsg_over(ctx))
			return -EPIPE;

		if (mpa_starting(ctx)) {
			err = mpa_startup_wait(ctx, timeo);
		} else if (ctx->state != MPA_STATE_FULL) {
			return ctx->state == MPA_STATE_REJECTED ?
			       -ECONNREFUSED : -EPIPE;
		} else if (!ctx->may_send) {
			err = mpa_sendmsg_wait_first(ctx, timeo);
		} else if (mpa_tx_open(&ctx->tx)) {
			return 0;
		} else if (!mpa_tcp_writable(sk)) {
			err = mpa_sendmsg_wait_room(ctx, timeo);
		} else {
			if (!mpa_tx_alloc_out(ctx))
				return 0;
			err = mpa_sendmsg_wait_memory(ctx, timeo);
		}
		if (err)
			return err;
	}
}

static __always_inline bool
mpa_sendmsg_too_long(const struct mpa_tx *tx, const struct mpa_tx_call *call)
{
	return call->segment == MPA_SEGMENT_OFF &&
	       call->size + mpa_tx_header(tx, call).iov_len >
	       mpa_framing_max(&tx->format, tx->pos);
}

static int mpa_sendmsg_locked(struct mpa_ctx *ctx, struct mpa_tx_call *call)
{
	struct mpa_tx *tx = &ctx->tx;
	int err;

	/* A call of 0 octets may end an open ULPDU, but cannot be a ULPDU. */
	if (!call->size &&
	    !(mpa_tx_header(tx, call).iov_len && call->ends))
		return -EMSGSIZE;

	if (!mpa_tx_in_batch(tx) && !mpa_tcp_user_corks(ctx->sk, &tx->window))
		tx->window.since = mpa_tcp_write_seq(ctx->sk);
	do {
		err = mpa_sendmsg_wait(ctx, &call->timeo);
		if (err)
			break;
		/* Another thread may have ended the open ULPDU meanwhile. */
		if (mpa_sendmsg_too_long(tx, call) ||
		    (!call->size && !mpa_tx_header(tx, call).iov_len)) {
			err = -EMSGSIZE;
			break;
		}
		err = mpa_tx_build_and_send(ctx, call);
		if (err == -ENOBUFS)
			err = mpa_sendmsg_wait_memory(ctx, &call->timeo);
		else if (!err && call->done == call->size)
			break;
	} while (!err);

	mpa_tx_end_call(ctx, call->more && !err);
	return call->done && call->segment != MPA_SEGMENT_OFF ? 0 : err;
}

static int mpa_sendmsg_control(struct sock *sk, struct msghdr *msg, int *segment,
			       int max)
{
	struct sockcm_cookie cookie;
	struct cmsghdr *cmsg;

	if (!msg->msg_controllen)
		return 0;
	/* Control messages of SOL_SOCKET are checked as in TCP, then ignored. */
	sockcm_init(&cookie, sk);
	if (sock_cmsg_send(sk, msg, &cookie))
		return -EINVAL;
	for_each_cmsghdr(cmsg, msg) {
		if (!CMSG_OK(msg, cmsg))
			return -EINVAL;
		if (cmsg->cmsg_level != SOL_MPA)
			continue;
		if (cmsg->cmsg_type != MPA_SEGMENT)
			return -EINVAL;
		if (cmsg->cmsg_len == CMSG_LEN(sizeof(int)))
			*segment = *(int *)CMSG_DATA(cmsg);
		else if (cmsg->cmsg_len == CMSG_LEN(sizeof(u16)))
			*segment = *(u16 *)CMSG_DATA(cmsg);
		else
			return -EINVAL;
		if (*segment < MPA_SEGMENT_OFF || *segment > max)
			return -EINVAL;
	}
	return 0;
}

#define MPA_SEND_KNOWN	(MSG_MORE | MSG_DONTWAIT | MSG_NOSIGNAL | MSG_EOR |	\
			 MSG_BATCH | MSG_CMSG_COMPAT | MSG_CONFIRM |		\
			 MSG_DONTROUTE | MSG_WAITALL | MSG_SPLICE_PAGES)

static int mpa_sendmsg_parse(struct mpa_ctx *ctx, struct msghdr *msg, size_t size,
			     struct mpa_tx_call *call)
{
	bool splice = msg->msg_flags & MSG_SPLICE_PAGES &&
		      iov_iter_is_bvec(&msg->msg_iter);
	u32 unknown = msg->msg_flags & ~MPA_SEND_KNOWN;
	int err;

#ifdef MPA_HAVE_SENDPAGE
	if (splice)
		unknown &= ~MSG_SENDPAGE_NOTLAST;
#endif
	if (unknown)
		return -EOPNOTSUPP;

	call->msg = msg;
	call->size = size;
	call->segment = READ_ONCE(ctx->tx.segment);
	/* A file has no records: fill segments. */
	if (splice && call->segment == MPA_SEGMENT_OFF)
		call->segment = MPA_SEGMENT_FILL;
	call->ends = !(msg->msg_flags & MSG_MORE) || msg->msg_flags & MSG_EOR;
	/* splice(2) sets MSG_MORE even before the end of a file. */
	if (splice)
		call->ends = true;
#ifdef MPA_HAVE_SENDPAGE
	if (splice && msg->msg_flags & MSG_SENDPAGE_NOTLAST)
		call->ends = false;
#endif
	call->more = msg->msg_flags & (MSG_MORE | MSG_BATCH) || !call->ends;
	call->keep = splice && call->more;
	call->timeo = sock_sndtimeo(ctx->sk, msg->msg_flags & MSG_DONTWAIT);
	err = mpa_sendmsg_control(ctx->sk, msg, &call->segment,
				  mpa_ulpdu_max(ctx));
	if (!err && call->segment == MPA_SEGMENT_OFF &&
	    size > mpa_framing_max(&ctx->tx.format, ctx->tx.pos))
		err = -EMSGSIZE;
	return err;
}

/*
 * Send one ULPDU, or with MPA_SEGMENT several. MSG_MORE: more octets of the
 * last ULPDU follow, or, with MSG_EOR, more ULPDUs.
 *
 * Context: process, socket lock not held. Return: @size; with MPA_SEGMENT, the
 * number of octets accepted; -EMSGSIZE for a ULPDU of 0 or more than 64768
 * octets, or more than MULPDU if MPA_OVERSIZE is off; -EINVAL for an invalid
 * control message; -EOPNOTSUPP for an unsupported flag; -EAGAIN, -EINTR,
 * -ERESTARTSYS, -EPIPE, -EFAULT, or the error of the connection. After an error
 * other than the connection's no octet of @msg is or will be sent.
 */
int mpa_sendmsg(struct mpa_ctx *ctx, struct msghdr *msg, size_t size)
{
	struct mpa_tx_call call = {};
	struct sock *sk = ctx->sk;
	int ret;

	mpa_delay(MPA_POINT_SEND);
	lock_sock(sk);
	mpa_delay(MPA_POINT_SEND_LOCKED);
	ret = mpa_sendmsg_parse(ctx, msg, size, &call) ?: mpa_sendmsg_locked(ctx, &call);
	if (ret < 0) {
		/* The rest of the batch will not follow. */
		mpa_tx_end_batch(ctx, false);
		ret = sk_stream_error(sk, msg->msg_flags, ret);
	} else {
		ret = call.done;
	}
	mpa_delay(MPA_POINT_SEND_END);
	release_sock(sk);
	return ret;
}

/*
 * Send one ULPDU of a kernel user, or several that fill segments. Do not wait
 * for room. Advance @payload (may be NULL) past the octets sent. Return 0, with
 * @call->done octets sent. Otherwise nothing is sent: -EAGAIN, -EMSGSIZE,
 * -EFAULT, -EPIPE, -EBUSY, or -ENOTCONN before MPA is started.
 */
int mpa_sendmsg_call(struct mpa_ctx *ctx, struct mpa_tx_call *call,
		     struct iov_iter *payload)
{
	struct msghdr msg = {};
	int err;

	if (!mpa_started(ctx))
		return -ENOTCONN;
	/* Clear a pending error that the connection survives. */
	if (!mpa_tcp_gone(ctx->sk))
		sock_error(ctx->sk);
	/* A program that shares the socket has sent with MSG_MORE. */
	if (mpa_tx_open(&ctx->tx))
		return -EBUSY;
	if (payload)
		msg.msg_iter = *payload;
	call->msg = &msg;
	call->size = iov_iter_count(&msg.msg_iter);
	call->ends = true;
	err = mpa_sendmsg_too_long(&ctx->tx, call) ||
	      (call->headers && call->size - 1 >= MPA_CUT_MAX) ?
	      -EMSGSIZE : mpa_sendmsg_locked(ctx, call);
	if (err || call->done < call->size)
		mpa_tx_end_batch(ctx, false);
	if (payload && !err)
		*payload = msg.msg_iter;
	return err;
}

/*
 * Pass all complete FPDUs to TCP. Drop a ULPDU that MSG_MORE has left open.
 * Process context, socket lock held.
 */
void mpa_sendmsg_finish(struct mpa_ctx *ctx)
{
	struct mpa_tx *tx = &ctx->tx;

	WRITE_ONCE(tx->ended, true);
	if (mpa_tx_open(tx))
		mpa_tx_drop(ctx);
	mpa_tx_end_batch(ctx, false);
}
