// SPDX-License-Identifier: GPL-2.0
/*
 * recvmsg: wait for a record, deliver one or a batch, write control messages.
 */

#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/uio.h>

#include "mpa_sock.h"

/* Growth factor of mpa_batch.lengths: 1 entry, then 64, then @max. */
#define MPA_BATCH_GROWTH	64

enum mpa_recv {
	MPA_RECV_END,		/* the stream has ended */
	MPA_RECV_ORDERED,	/* the current record */
	MPA_RECV_PLACED		/* a record out of order */
};

struct mpa_batch {
	const struct mpa_fpdu *fpdu;	/* the first FPDU */
	u64 pos;			/* stream position of @fpdu */
	u32 read;			/* octets of its ULPDU that earlier calls returned */
	bool placed;			/* @fpdu is out of order */
	u32 have;			/* octets available from @fpdu's start on; 0: no batch */
	u32 *lengths;			/* of each ULPDU: &@first, or allocated */
	u32 first;			/* octets returned of the first ULPDU */
	u32 nr;				/* number of ULPDUs */
	u32 room;			/* number of entries of @lengths */
	u32 max;			/* number of lengths that fit in the control buffer */
	struct mpa_rx_more more;	/* totals of the ULPDUs after the first */
	enum mpa_error code;		/* error of the FPDU after @nr good ones */
};

static bool mpa_recvmsg_may_read(const struct mpa_ctx *ctx)
{
	return READ_ONCE(ctx->rx.ready) || mpa_tcp_error(ctx->sk) ||
	       mpa_tcp_input_ended(ctx->sk);
}

/* Wait for a complete FPDU. Return: enum mpa_recv, or a negative errno. */
static int mpa_recvmsg_wait(struct mpa_ctx *ctx, long *timeo)
{
	struct sock *sk = ctx->sk;
	int err;

	for (;;) {
		if (mpa_starting(ctx)) {
			err = mpa_startup_wait(ctx, timeo);
			if (err)
				return err;
			continue;
		}
		/* Set @requested in each round, as another call's read clears it. */
		ctx->rx.requested = true;
		if (ctx->state != MPA_STATE_FULL)
			return sock_error(sk) ?:
			       ctx->state == MPA_STATE_REJECTED &&
			       !mpa_tcp_gone(sk) ? -ECONNREFUSED : -ENOTCONN;

		err = mpa_rx_make_room(ctx);
		/* Without memory for the stash a record out of order can still be read. */
		if (err == -ENOMEM && mpa_rx_placed(ctx))
			return MPA_RECV_PLACED;
		if (err)
			return err < 0 ? err : MPA_RECV_ORDERED;
		if (mpa_failed(ctx, MPA_RX))
			return mpa_failed(ctx, MPA_RX);
		if (mpa_rx_placed(ctx))
			return MPA_RECV_PLACED;
		/* As in TCP, ignore an error after the FIN. */
		err = mpa_tcp_peer_ended(sk) ? 0 : sock_error(sk);
		if (err)
			return err;
		if (mpa_tcp_input_ended(sk))
			return mpa_rx_end(ctx);

		WRITE_ONCE(ctx->rx.ready, false);
		err = mpa_tcp_wait(sk, timeo, mpa_recvmsg_may_read, ctx);
		if (err)
			return err;
	}
}

/* ---- several records at a time ---- */

/* Return the number of lengths that fit in the control buffer. */
static u32 mpa_batch_room(const struct mpa_ctx *ctx, const struct msghdr *msg)
{
	size_t taken = CMSG_LEN(0);

	if (!msg->msg_control)
		return 1;
	if (ctx->rx.options & BIT(MPA_RECVINFO))
		taken += CMSG_SPACE(sizeof(struct mpa_recvinfo));
	if (msg->msg_controllen < taken + sizeof(u32))
		return 1;
	return min_t(size_t, (msg->msg_controllen - taken) / sizeof(u32),
		     MPA_RECV_BATCH_MAX);
}

/* Enlarge @lengths. Without memory the batch ends, and the next call reads the rest. */
static bool mpa_batch_grow(struct mpa_batch *batch)
{
	u32 room = min(batch->max, batch->room * MPA_BATCH_GROWTH);
	bool first = batch->lengths == &batch->first;
	u32 *lengths;

	if (batch->room == room)
		return false;
	lengths = krealloc_array(first ? NULL : batch->lengths, room,
				 sizeof(*lengths), GFP_KERNEL);
	if (!lengths)
		return false;
	if (first)
		lengths[0] = batch->first;
	batch->lengths = lengths;
	batch->room = room;
	return true;
}

/* Read the header of the batch's next FPDU. Return: whether the FPDU is complete and fits. */
static bool mpa_batch_next(const struct mpa_rx *rx, struct mpa_batch *batch,
			   struct mpa_cursor *at, u32 have, size_t room,
			   struct mpa_fpdu *fpdu)
{
	u64 pos = batch->pos + batch->fpdu->len + batch->more.len;

	switch (mpa_read_head(rx, at, have, pos, fpdu)) {
	case MPA_HEAD_BAD:
		batch->code = MPA_ERR_CRC;
		return false;
	case MPA_HEAD_MORE:
		return false;
	case MPA_HEAD_GOOD:
		break;
	}
	/* TUF: octets with a wrong key may be without framing. */
	return fpdu->len <= have && fpdu->ulpdu_len <= room &&
	       !(mpa_alt_fpdu(fpdu) && fpdu->wrong_key);
}

/*
 * Add complete FPDUs while their ULPDUs fit into @len octets of @to. @have octets
 * follow the first FPDU. Stop before an FPDU that is bad or cannot be copied.
 */
static void mpa_batch_fill(struct mpa_ctx *ctx, struct mpa_batch *batch,
			   struct mpa_cursor *at, u32 have, struct iov_iter *to,
			   size_t len)
{
	u32 pos = batch->pos + batch->fpdu->len, nr;
	struct mpa_rx_more *more = &batch->more;
	const struct mpa_rx *rx = &ctx->rx;
	struct mpa_fpdu fpdu;

	mpa_cursor_skip(at, rx->seq + pos - at->seq);
	while (more->len < have) {
		if (batch->nr == batch->room && !mpa_batch_grow(batch))
			return;
		nr = mpa_read_many(rx, at, pos + more->len,
				   have - more->len, to, len - more->octets,
				   batch->lengths + batch->nr,
				   batch->room - batch->nr, more);
		batch->nr += nr;
		if (nr)
			continue;
		if (!mpa_batch_next(rx, batch, at, have - more->len,
				    len - more->octets, &fpdu) ||
		    mpa_read_fpdu(rx, at, &fpdu, to, fpdu.ulpdu_len,
				  &batch->code) || batch->code)
			return;
		batch->lengths[batch->nr++] = fpdu.ulpdu_len;
		more->ulpdus++;
		more->octets += fpdu.ulpdu_len;
		more->markers += fpdu.markers;
		more->len += fpdu.len;
	}
}

static int mpa_recvmsg_put_info(const struct mpa_rx *rx, struct msghdr *msg,
				const struct mpa_batch *batch, bool last)
{
	struct mpa_recvinfo info = {
		.position = batch->pos,
		.edge = rx->cur.pos,
		.length = batch->fpdu->ulpdu_len,
		.offset = batch->read,
		.flags = last ? MPA_RECVINFO_LAST : 0,
	};

	if (batch->placed) {
		info.flags |= MPA_RECVINFO_PLACED;
	} else {
		info.order = rx->ulpdus - mpa_rx_ahead(rx);
		info.valid = MPA_RECVINFO_VALID_ORDER;
	}
	return put_cmsg(msg, SOL_MPA, MPA_RECVINFO, sizeof(info), &info);
}

static noinline int mpa_recvmsg_put(const struct mpa_rx *rx, struct msghdr *msg,
				    const struct mpa_batch *batch, bool last)
{
	int err = 0;

	if (rx->options & BIT(MPA_RECVINFO))
		err = mpa_recvmsg_put_info(rx, msg, batch, last);
	if (!err && rx->options & BIT(MPA_RECV_BATCH))
		err = put_cmsg(msg, SOL_MPA, MPA_RECV_BATCH,
			       batch->nr * sizeof(u32), batch->lengths);
	return err;
}

static int mpa_recvmsg_control(const struct mpa_rx *rx, struct msghdr *msg,
			       const struct mpa_batch *batch, bool last)
{
	int err = 0;

	if (rx->options & (BIT(MPA_RECVINFO) | BIT(MPA_RECV_BATCH)))
		err = mpa_recvmsg_put(rx, msg, batch, last);
	if (!err && last)
		msg->msg_flags |= MSG_EOR;
	return err;
}

static bool mpa_recvmsg_batches(const struct mpa_ctx *ctx, int flags)
{
	return ctx->rx.options & BIT(MPA_RECV_BATCH) &&
	       !(flags & (MSG_PEEK | MSG_TRUNC));
}

/*
 * Copy up to @len octets of the first record out of order. Return: 0; -EFAULT; -EAGAIN
 * if the caller has to look for another record.
 */
static int mpa_recvmsg_place(struct mpa_ctx *ctx, struct mpa_batch *batch,
			     struct mpa_cursor *at, struct mpa_fpdu *fpdu,
			     struct iov_iter *to, size_t len, int flags)
{
	enum mpa_error code;
	int err;

	batch->have = mpa_place_first(ctx, at, fpdu);
	if (!batch->have)
		return -EAGAIN;
	if (len && len < fpdu->ulpdu_len && !(flags & MSG_PEEK)) {
		mpa_place_refuse(ctx, fpdu);
		return -EAGAIN;
	}
	batch->fpdu = fpdu;
	batch->pos = mpa_rx_position(&ctx->rx, fpdu->pos);
	batch->first = min_t(size_t, len, fpdu->ulpdu_len);
	err = mpa_read_fpdu(&ctx->rx, at, fpdu, to, batch->first, &code);
	if (err || !code)
		return err;
	mpa_place_changed(ctx);
	return -EAGAIN;
}

static int mpa_recvmsg_order(struct mpa_ctx *ctx, struct mpa_batch *batch,
			     struct mpa_cursor *at, struct iov_iter *to, size_t len)
{
	const struct mpa_record *cur = &ctx->rx.cur;

	batch->fpdu = &cur->fpdu;
	batch->pos = cur->pos;
	batch->read = cur->read;
	batch->first = min_t(size_t, len, cur->fpdu.ulpdu_len - cur->read);
	/* No batch if the record was read in part, or is in the stash. */
	batch->have = cur->taken ? 0 : mpa_tcp_inq(ctx->sk);
	batch->have = mpa_rx_gap(&ctx->rx, cur->pos, batch->have);
	mpa_rx_cursor(ctx, at);
	return mpa_rx_read(ctx, at, to, batch->first);
}

/*
 * Copy octets of the next ULPDU, or a batch of ULPDUs. Return: the number of octets, or
 * a negative errno. On -EAGAIN the caller waits again.
 */
static int mpa_recvmsg_deliver(struct mpa_ctx *ctx, struct msghdr *msg, size_t len,
			       int flags, bool placed)
{
	struct iov_iter *to = flags & MSG_TRUNC ? NULL : &msg->msg_iter;
	struct mpa_batch batch = {
		.placed = placed, .lengths = &batch.first,
		.nr = 1, .room = 1, .max = 1,
	};
	struct mpa_cursor at;
	struct mpa_fpdu fpdu;
	bool last;
	int err;
	u32 n;

	err = placed ? mpa_recvmsg_place(ctx, &batch, &at, &fpdu, to, len, flags) :
		       mpa_recvmsg_order(ctx, &batch, &at, to, len);
	if (err)
		return err;
	n = batch.first;
	last = batch.read + n == batch.fpdu->ulpdu_len;
	if (flags & MSG_PEEK && flags & MSG_TRUNC)
		batch.first = batch.fpdu->ulpdu_len - batch.read;
	if (mpa_recvmsg_batches(ctx, flags) && last && batch.have &&
	    !mpa_tapped(ctx)) {
		batch.max = mpa_batch_room(ctx, msg);
		mpa_batch_fill(ctx, &batch, &at, batch.have - batch.fpdu->len,
			       to, len - n);
	}

	/* Write control messages first: on an error nothing is consumed. */
	err = mpa_recvmsg_control(&ctx->rx, msg, &batch, last);
	if (!err && !(flags & MSG_PEEK)) {
		if (!placed)
			mpa_rx_advance(ctx, n, &batch.more);
		else if (last)
			mpa_place_advance(ctx, &fpdu, &batch.more);
	}
	/*
	 * A bad FPDU after the batch ends receiving, with three exceptions. If writing
	 * failed, or after records out of order, the next call reads the FPDU again.
	 * With TUF octets may be without framing until a call requests a record.
	 */
	if (!err && batch.code && !placed && !mpa_alt(ctx))
		mpa_fail_receiving(ctx, -EBADMSG, batch.code);
	if (batch.lengths != &batch.first)
		kfree(batch.lengths);
	return err ?: batch.first + batch.more.octets;
}

static int mpa_recvmsg_locked(struct mpa_ctx *ctx, struct msghdr *msg, size_t len,
			      int flags)
{
	long timeo = sock_rcvtimeo(ctx->sk, flags & MSG_DONTWAIT);
	int ret;

	do {
		ret = mpa_recvmsg_wait(ctx, &timeo);
		if (ret != MPA_RECV_ORDERED && ret != MPA_RECV_PLACED)
			return ret;
		ret = mpa_recvmsg_deliver(ctx, msg, len, flags,
					  ret == MPA_RECV_PLACED);
	} while (ret == -EAGAIN);
	mpa_rx_update(ctx);
	return ret;
}

/**
 * mpa_recvmsg() - read octets of one ULPDU, or a batch of ULPDUs
 * (MPA_RECV_BATCH)
 * @ctx:	the context
 * @msg:	destination; MSG_EOR is set with a ULPDU's last octet
 * @len:	room in @msg, in octets. The next call reads the rest of a ULPDU that
 *		does not fit; but a ULPDU out of order (MPA_PLACE) that does not fit
 *		waits until it is in order
 * @flags:	MSG_DONTWAIT; MSG_PEEK; MSG_TRUNC: drop octets instead of copying
 *		them; MSG_PEEK | MSG_TRUNC: return the number of octets left of the
 *		ULPDU. MSG_WAITALL has no effect, as a ULPDU is always complete
 *
 * Context: process, socket lock not held.
 * Return: the number of octets; 0 at the end of the stream; -EBADMSG at a bad or
 * incomplete FPDU (MPA_INFO has the code); -EAGAIN, -EINTR, -ERESTARTSYS, -EFAULT,
 * -ENOMEM; -ENOTCONN (also if the connection ended without a FIN, and another call has
 * returned its error); -EOPNOTSUPP for MSG_OOB; or the error of the connection.
 */
int mpa_recvmsg(struct mpa_ctx *ctx, struct msghdr *msg, size_t len,
		int flags)
{
	struct sock *sk = ctx->sk;
	int ret;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;

	if (!READ_ONCE(ctx->rx.ready))
		mpa_tcp_busy_poll(sk, flags & MSG_DONTWAIT,
				  mpa_recvmsg_may_read, ctx);
	mpa_delay(MPA_POINT_RECV);
	lock_sock(sk);
	mpa_delay(MPA_POINT_RECV_LOCKED);
	ret = mpa_recvmsg_locked(ctx, msg, len, flags);
	mpa_delay(MPA_POINT_RECV_END);
	release_sock(sk);
	return ret;
}

/*
 * Return SIOCINQ's value: the number of octets left of the ULPDU that the next recvmsg
 * reads, or 0 if that ULPDU is incomplete. If receiving is not framed, return TCP's
 * value. Context: process, socket lock not held.
 */
u32 mpa_recvmsg_inq(struct mpa_ctx *ctx)
{
	struct mpa_rx *rx = &ctx->rx;
	struct mpa_cursor at;
	struct mpa_fpdu fpdu;
	u32 octets = 0;

	lock_sock(ctx->sk);
	if (!mpa_framed(ctx, MPA_RX))
		octets = mpa_tcp_inq(ctx->sk);
	else if (ctx->state == MPA_STATE_FULL && mpa_rx_complete(ctx))
		octets = rx->cur.fpdu.ulpdu_len - rx->cur.read;
	else if (ctx->state == MPA_STATE_FULL && mpa_rx_placed(ctx) &&
		 mpa_place_first(ctx, &at, &fpdu))
		octets = fpdu.ulpdu_len;
	release_sock(ctx->sk);
	return octets;
}
