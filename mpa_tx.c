// SPDX-License-Identifier: GPL-2.0
/*
 * Sending: what a system call asks for becomes FPDUs, and these go to TCP, many
 * at a time.
 *
 * An FPDU is made whole before TCP gets its first octet, without dropping the
 * socket lock from begin to end: a fault, a signal or a lack of memory leaves
 * nothing behind on the wire, and records of several threads never mix. With
 * MSG_MORE it is made in several calls; then the socket keeps it meanwhile,
 * and nothing else. Of a batch it keeps whole FPDUs, and no open one.
 */

#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "mpa.h"

/* Octets of FPDUs that are handed to TCP at once, unless one is larger. */
#define MPA_HANDOVER_MAX		65536

/* Equal FPDUs in a row that let one expect another. */
#define MPA_SAME_MIN		16

/**
 * struct mpa_call - what one system call sends
 * @msg:	the octets
 * @size:	how many
 * @done:	how many of them are in FPDUs
 * @segment:	octets of a ULPDU, or MPA_SEGMENT_*
 * @ends:	with the last of them ends a ULPDU
 * @more:	more ULPDUs follow soon
 * @keep:	TCP may keep them until it gets more
 * @timeo:	jiffies left
 */
struct mpa_call {
	struct msghdr	*msg;
	size_t		size;
	size_t		done;
	int		segment;
	bool		ends;
	bool		more;
	bool		keep;
	long		timeo;
};

/* ---- startup, and before the first record ---- */

static int mpa_tx_make_out(struct mpa_ctx *ctx)
{
	if (ctx->tx.out)
		return 0;
	ctx->tx.out = kzalloc(sizeof(*ctx->tx.out), mpa_gfp(ctx->sk));
	if (!ctx->tx.out)
		return -ENOBUFS;
	ctx->tx.out->split = MPA_SPLIT_NOT;
	return 0;
}

static void mpa_tx_free_out(struct mpa_tx *tx)
{
	kfree(tx->out);
	tx->out = NULL;
}

/**
 * mpa_tx_frame() - send a startup frame
 * @ctx:	the context
 * @frame:	its octets
 * @len:	how many
 *
 * Context: process, socket lock held.
 * Return: 0 when it is on its way, else nothing of it is.
 */
int mpa_tx_frame(struct mpa_ctx *ctx, const u8 *frame, u32 len)
{
	struct mpa_tx *tx = &ctx->tx;
	int err;

	err = mpa_tx_make_out(ctx);
	if (err)
		return err;
	err = mpa_txbuf_reserve(ctx, len);
	if (err) {
		mpa_tx_drop_out(ctx);
		return err;
	}
	while (len) {
		u32 n;
		u8 *p = mpa_txbuf_tail(tx->out, &n);

		n = min(n, len);
		memcpy(p, frame, n);
		mpa_txbuf_advance(tx->out, n);
		frame += n;
		len -= n;
	}
	err = mpa_tx_hand_over(ctx, MPA_PUSH_ALL);
	mpa_tcp_push(ctx->sk, &tx->window, false);
	/* Who knows when the first record comes. */
	if (!mpa_tx_stuck(tx))
		mpa_tx_free_out(tx);
	return err == -EAGAIN ? 0 : err;
}

/**
 * mpa_tx_rtr() - send the zero-length FPDU that RFC 6581 section 9.2 wants
 *		  before all others
 * @ctx:	the context, with @ctx->tx.rtr_due set
 *
 * Afterwards the user may send; without memory the work item tries again.
 *
 * Context: process, socket lock held.
 */
void mpa_tx_rtr(struct mpa_ctx *ctx)
{
	struct mpa_fpdu fpdu;

	if (mpa_tx_push(ctx) == -EAGAIN)
		return;
	mpa_fpdu_init(&fpdu, ctx->tx.pos, 0, ctx->tx.marked);
	if (mpa_tx_make_out(ctx) ||
	    mpa_make_append(ctx, &fpdu, NULL, 0, true)) {
		mpa_schedule_work(ctx, MPA_RETRY_DELAY);
		return;
	}
	mpa_align_begin(ctx, &ctx->tx.out->slot, mpa_tcp_emss(ctx->sk));
	mpa_align_break(&ctx->tx.out->slot);
	ctx->tx.out->slot.used = fpdu.len;
	mpa_tx_flush(ctx, MPA_PUSH_ALL);
	mpa_tcp_push(ctx->sk, &ctx->tx.window, false);
	ctx->tx.rtr_due = false;
	WRITE_ONCE(ctx->may_send, true);
	mpa_tcp_wake_writers(ctx->sk);
}

/* ---- sendmsg: waiting ---- */

static bool mpa_tx_may_send(const struct mpa_ctx *ctx)
{
	return READ_ONCE(ctx->may_send) || READ_ONCE(ctx->rx.error) ||
	       READ_ONCE(ctx->sk->sk_err) || mpa_tcp_peer_left(ctx->sk) ||
	       READ_ONCE(ctx->sk->sk_shutdown) & SEND_SHUTDOWN;
}

static bool mpa_tx_over(const struct mpa_ctx *ctx)
{
	return READ_ONCE(ctx->sk->sk_err) ||
	       READ_ONCE(ctx->sk->sk_shutdown) & SEND_SHUTDOWN;
}

/* What shutdown(2) has left goes on. */
static bool mpa_tx_unstuck(const struct mpa_ctx *ctx)
{
	return !mpa_tx_stuck(&ctx->tx) || READ_ONCE(ctx->sk->sk_err) ||
	       mpa_tcp_gone(ctx->sk);
}

/* Another thread's open ULPDU may be gone on with, as it is begun. */
static bool mpa_tx_room(const struct mpa_ctx *ctx)
{
	bool writable = mpa_tcp_want_writable(ctx->sk);

	return (writable && !mpa_tx_stuck(&ctx->tx)) ||
	       mpa_tx_open(&ctx->tx) || mpa_tx_over(ctx);
}

static int mpa_sendmsg_wait_room(struct mpa_ctx *ctx, long *timeo)
{
	mpa_tx_flush_held(ctx, MPA_PUSH_FULL);
	mpa_tcp_push(ctx->sk, &ctx->tx.window, false);
	return mpa_tcp_wait(ctx, timeo, mpa_tx_room);
}

/*
 * Wait a little for memory: nobody says when there is some again, and the
 * socket's own octets may be all that its send buffer is full of.
 *
 * Return: 0 to try again, -EPIPE if @over, or why not to wait.
 */
static int mpa_tx_wait_memory(struct mpa_ctx *ctx, long *timeo,
			      bool (*over)(const struct mpa_ctx *ctx))
{
	long wait = min_t(long, *timeo, MPA_RETRY_DELAY), left = wait;
	int err;

	if (!wait) {
		/* The work item says when to try again, or TCP after that. */
		WRITE_ONCE(ctx->tx.starved, true);
		mpa_tcp_want_writable(ctx->sk);
		mpa_schedule_work(ctx, MPA_RETRY_DELAY);
	}
	mpa_tx_flush_held(ctx, MPA_PUSH_FULL);
	mpa_tcp_push(ctx->sk, &ctx->tx.window, false);
	err = mpa_tcp_wait(ctx, &left, over);
	if (!err)
		return -EPIPE;
	if (err == -EINTR)
		return sock_intr_errno(*timeo);
	if (*timeo != MAX_SCHEDULE_TIMEOUT)
		*timeo -= wait - left;
	return err == -EAGAIN && *timeo ? 0 : err;
}

/*
 * Section 7.1.2 rule 4: not before the first FPDU. It may be here, with the end
 * of the stream behind it, and the work item not have looked at it.
 */
static int mpa_sendmsg_wait_first(struct mpa_ctx *ctx, long *timeo)
{
	int err = mpa_tcp_wait(ctx, timeo, mpa_tx_may_send);

	if (err || ctx->may_send)
		return err;
	/* A reader is told of what that has found. */
	if (mpa_rx_drain(ctx) == -ENOMEM)
		return mpa_tx_wait_memory(ctx, timeo, mpa_tx_over);
	return ctx->may_send ? 0 : ctx->rx.error ?: -EPIPE;
}

/* Return once a ULPDU can be made, or with the reason why never or not yet. */
static int mpa_sendmsg_wait(struct mpa_ctx *ctx, long *timeo)
{
	struct sock *sk = ctx->sk;
	int err;

	for (;;) {
		if (sk->sk_err || sk->sk_shutdown & SEND_SHUTDOWN ||
		    ctx->tx.finished)
			return -EPIPE;

		if (mpa_starting(ctx)) {
			err = mpa_startup_wait(ctx, timeo);
		} else if (ctx->state != MPA_STATE_FULL) {
			return ctx->state == MPA_STATE_REJECTED ?
			       -ECONNREFUSED : -EPIPE;
		} else if (!ctx->may_send) {
			err = mpa_sendmsg_wait_first(ctx, timeo);
		} else if (mpa_tx_open(&ctx->tx)) {
			/* It has been begun; the rest needs no more room. */
			return 0;
		} else if (mpa_tx_push(ctx) == -EAGAIN ||
			   !mpa_tcp_writable(sk)) {
			err = mpa_sendmsg_wait_room(ctx, timeo);
		} else if (!mpa_tx_make_out(ctx)) {
			return 0;
		} else {
			err = mpa_tx_wait_memory(ctx, timeo, mpa_tx_over);
		}
		if (err)
			return err;
	}
}

/* ---- sendmsg: cutting ---- */

static u32 mpa_tx_fpdu_len(const struct mpa_tx *tx, u32 ulpdu_len)
{
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, tx->pos, ulpdu_len, tx->marked);
	return fpdu.len;
}

/**
 * mpa_tx_mulpdu() - the current maximum ULPDU
 * @ctx:	the context
 * @emss:	set to EMSS if not NULL
 *
 * Both are what they will be when the peer has what TCP has. Section 4.5.
 *
 * Context: process, socket lock held.
 */
u32 mpa_tx_mulpdu(struct mpa_ctx *ctx, u32 *emss)
{
	u32 whole = mpa_tcp_emss(ctx->sk) + ctx->tx.fit.less;

	if (emss)
		*emss = whole;
	return mpa_mulpdu(whole, ctx->tx.marked);
}

/* Octets at which the next ULPDU of a call that is cut ends. */
static u32 mpa_tx_target(const struct mpa_tx *tx, const struct mpa_call *call,
			 const struct mpa_slot *slot)
{
	u32 fill = 0;

	if (call->segment)
		return call->segment;
	if (slot->used && tx->packing)
		fill = mpa_fpdu_fill(tx->pos, slot->emss - slot->used,
				     tx->marked);
	if (fill < MPA_MULPDU_MIN)
		fill = mpa_fpdu_fill(tx->pos, slot->emss, tx->marked);
	return max_t(u32, fill, MPA_MULPDU_MIN);
}

/* What the FPDUs of this call are long: all of them, or the longest. */
static u32 mpa_tx_usual_len(const struct mpa_tx *tx,
			    const struct mpa_call *call, u32 emss)
{
	size_t left = call->size - call->done + tx->ulpdu_len;

	if (call->segment > 0)
		left = min_t(size_t, left, call->segment);
	else if (call->segment == MPA_SEGMENT_FILL)
		left = max_t(u32, mpa_fpdu_fill(tx->pos, emss, tx->marked),
			     MPA_MULPDU_MIN);
	return mpa_tx_fpdu_len(tx, min_t(size_t, left, MPA_ULPDU_MAX));
}

/* What FPDUs of this call shall be a whole part of the MSS. */
static u32 mpa_tx_unit(const struct mpa_ctx *ctx, const struct mpa_call *call,
		       u32 emss)
{
	const struct mpa_tx *tx = &ctx->tx;
	u32 whole = emss + tx->fit.less, len;

	if (tx->marked)
		return 4;
	len = mpa_tx_usual_len(tx, call, whole);
	if (len > whole)
		return 4;
	if (whole > MPA_FPDU_MAX)
		return len;
	/* Many of one length, in one call or in those that TCP still has. */
	if (call->segment > 0 &&
	    call->size - call->done >= 2 * (size_t)call->segment)
		return len;
	if (tx->same >= MPA_SAME_MIN && tx->same_len == len &&
	    mpa_tcp_unsent(ctx->sk))
		return len;
	return len <= emss && tx->fit.unit ? tx->fit.unit : 4;
}

/*
 * Let the MSS fit what is sent, if TCP then cuts nothing elsewhere that it has
 * not sent: packets of many segments, or segments that are longer than the MSS
 * becomes. That is not waited for. Until then each segment is an skb of its own,
 * and an FPDU that is longer than the MSS is cut.
 */
static void mpa_tx_fit(struct mpa_ctx *ctx, const struct mpa_call *call,
		       u32 *emss)
{
	u32 unit = mpa_tx_unit(ctx, call, *emss), unsent, whole;
	struct mpa_tx *tx = &ctx->tx;

	whole = *emss + tx->fit.less;
	if (*emss == whole - whole % unit ||
	    (unit == tx->fit.unit && *emss == tx->fit.emss)) {
		/* It fits, or as well as it can. */
		tx->fit.unit = unit;
		return;
	}
	unsent = mpa_tcp_unsent(ctx->sk);
	if (unsent > tx->seq - tx->fit.end ||
	    unsent > (u64)tx->same * tx->same_len)
		return;
	mpa_tcp_fit(ctx->sk, &tx->fit, unit);
	*emss = tx->fit.emss;
}

/* Where the next FPDU goes: behind those that are held, or what TCP has. */
static void mpa_tx_begin_make(struct mpa_ctx *ctx, const struct mpa_call *call)
{
	struct mpa_txbuf *out = ctx->tx.out;
	u32 emss;

	if (mpa_tx_held(&ctx->tx)) {
		if (out->slot.begun)
			mpa_align_resume(ctx, &out->slot, out->len);
		return;
	}
	emss = mpa_tcp_emss(ctx->sk);
	mpa_tx_fit(ctx, call, &emss);
	mpa_align_begin(ctx, &out->slot, emss);
	/* One small record is no packet's worth; cut, it may be many FPDUs. */
	if (call->segment < 0 && call->size <= emss && !call->more)
		out->slot.packet = emss;
	else
		out->slot.packet = mpa_tcp_packet_max(ctx->sk);
}

/* An FPDU of @len octets needs so many fragments at most. */
static u32 mpa_tx_frags(u32 len)
{
	return len / PAGE_SIZE + 2;
}

/*
 * As long as one FPDU after the other fills a segment, or the next part of one,
 * nothing is to be decided: make all of them.
 */
static void mpa_tx_make_equal(struct mpa_ctx *ctx, struct mpa_call *call,
			 struct mpa_slot *slot, const struct mpa_fpdu *fpdu,
			 u32 budget)
{
	struct mpa_txbuf *out = ctx->tx.out;
	u32 len = fpdu->len, begin = out->len, n;

	if (call->segment < 0 || call->done == call->size ||
	    begin >= budget || slot->emss % len || slot->used % len)
		return;
	if (slot->emss != len && (!call->segment || !ctx->tx.packing))
		return;
	/* Among markers ULPDUs of one size are not FPDUs of one size. */
	if (call->segment && (ctx->tx.marked ||
			      call->segment != fpdu->ulpdu_len))
		return;
	do {
		n = min_t(size_t, call->size - call->done, MPA_HANDOVER_MAX);
		/* As much goes over the budget as would singly. */
		n = mpa_make_equal(ctx, len, fpdu->ulpdu_len,
				   &call->msg->msg_iter, n,
				   min(budget - out->len + len - 1,
				       mpa_tcp_frag_room(out, slot->frags)));
		call->done += n;
	} while (n && call->done < call->size && out->len < budget);
	slot->used = (slot->used + out->len - begin) % slot->emss;
}

/* Octets of the call that go into its next ULPDU; @whole: it ends with them. */
static size_t mpa_tx_next(const struct mpa_tx *tx, const struct mpa_call *call,
			  const struct mpa_slot *slot, bool *whole)
{
	size_t left = call->size - call->done;
	size_t n = min_t(size_t, left, MPA_ULPDU_MAX);
	u32 target;

	*whole = call->ends && n == left;
	if (call->segment < 0)
		return n;
	target = mpa_tx_target(tx, call, slot);
	target -= min(target, tx->ulpdu_len);
	if (n < target)
		return n;
	*whole = true;
	return target;
}

/*
 * Find room for an FPDU such that segments start with one. Return: false if
 * those that have been made go to TCP before it.
 */
static bool mpa_tx_find_slot(struct mpa_tx *tx, const struct mpa_fpdu *fpdu,
			 bool whole)
{
	struct mpa_txbuf *out = tx->out;
	struct mpa_slot *slot = &out->slot;
	bool made = out->len && !mpa_tx_open(tx);

	/* What stays open has TCP's next octets to itself. */
	if (made && (!whole || fpdu->len > slot->emss))
		return false;
	if (whole && !mpa_align_fits(tx, slot, fpdu->len)) {
		if (made)
			return false;
		mpa_align_break(slot);
	}
	/* A skb that is full ends where it is, within an FPDU or not. */
	if (mpa_tcp_frags(out) + slot->frags + mpa_tx_frags(fpdu->len) >
	    MPA_SKB_FRAGS) {
		if (made)
			return false;
		if (slot->frags)
			mpa_align_break(slot);
	}
	return true;
}

/* An FPDU that fits no segment, which the user does not want. */
static bool mpa_tx_oversized(struct mpa_ctx *ctx, const struct mpa_call *call,
			     const struct mpa_fpdu *fpdu)
{
	/* What fills a segment fits it, above the formula's MULPDU. */
	return !ctx->tx.oversize && call->segment != MPA_SEGMENT_FILL &&
	       fpdu->ulpdu_len > mpa_tx_mulpdu(ctx, NULL);
}

/* Make FPDUs that TCP can be given at once, some @budget octets of them. */
static int mpa_tx_make(struct mpa_ctx *ctx, struct mpa_call *call, u32 budget)
{
	struct mpa_tx *tx = &ctx->tx;
	struct mpa_txbuf *out = tx->out;
	struct mpa_slot *slot = &out->slot;
	struct mpa_fpdu fpdu;
	bool whole;
	size_t n;
	int err;

	do {
		n = mpa_tx_next(tx, call, slot, &whole);
		mpa_fpdu_init(&fpdu, tx->pos, tx->ulpdu_len + n, tx->marked);
		if (n && mpa_tx_oversized(ctx, call, &fpdu))
			return -EMSGSIZE;
		if (!mpa_tx_find_slot(tx, &fpdu, whole))
			return 0;
		err = mpa_make_append(ctx, &fpdu, &call->msg->msg_iter, n,
				      whole);
		if (err)
			return err;
		call->done += n;
		slot->used = (slot->used + fpdu.len) % slot->emss;
		if (whole)
			mpa_tx_make_equal(ctx, call, slot, &fpdu, budget);
		n = call->size - call->done;
		/* The short end of a call goes along with what is before it. */
	} while (whole && n && (out->len < budget || n < fpdu.ulpdu_len) &&
		 fpdu.len <= slot->emss);
	return 0;
}

/*
 * Make FPDUs and give them to TCP: such that every segment starts with one.
 *
 * Return: 0 if the call has got on, -ENOBUFS, -EMSGSIZE, -EFAULT, or the error
 * that the connection is in.
 */
static int mpa_tx_make_and_send(struct mpa_ctx *ctx, struct mpa_call *call)
{
	struct mpa_txbuf *out = ctx->tx.out;
	enum mpa_push push = MPA_PUSH_FULL;
	u32 budget;
	int err;

	mpa_tx_begin_make(ctx, call);
	/*
	 * What is more than a packet would leave as a short one of its own. As
	 * with TCP a packet may go beyond the end of the send buffer.
	 */
	budget = min_t(u32, out->slot.packet, MPA_HANDOVER_MAX);
	err = mpa_tx_make(ctx, call, budget);
	if (!out->len || mpa_tx_open(&ctx->tx))
		return err;
	if (!err && call->more && call->done == call->size &&
	    out->len < budget && mpa_tx_may_hold(&ctx->tx) &&
	    !mpa_tcp_charge(ctx->sk, out, mpa_txbuf_memory(out))) {
		mpa_tx_hold(ctx);
		return 0;
	}
	/* What was wrong with the next one is found again without these. */
	if (call->done == call->size && !call->more)
		push = MPA_PUSH_ALL;
	else if (call->keep)
		push = MPA_PUSH_NOT;
	return mpa_tx_flush(ctx, push);
}

/* A ULPDU of the length that this call would give it cannot be. */
static bool mpa_sendmsg_too_long(const struct mpa_tx *tx,
			    const struct mpa_call *call)
{
	return call->segment == MPA_SEGMENT_OFF &&
	       call->size > MPA_ULPDU_MAX - tx->ulpdu_len;
}

static int mpa_sendmsg_locked(struct mpa_ctx *ctx, struct mpa_call *call)
{
	struct mpa_tx *tx = &ctx->tx;
	int err;

	/* Zero octets may end an open ULPDU, but are none. */
	if (!call->size && !(mpa_tx_open(tx) && call->ends))
		return -EMSGSIZE;

	if (!mpa_tx_in_batch(tx) && !mpa_tcp_user_corks(ctx->sk, &tx->window))
		tx->window.since = mpa_tcp_write_seq(ctx->sk);
	do {
		err = mpa_sendmsg_wait(ctx, &call->timeo);
		if (err)
			break;
		/* Another thread may have sent the open one meanwhile. */
		if (mpa_sendmsg_too_long(tx, call) ||
		    (!call->size && !mpa_tx_open(tx))) {
			err = -EMSGSIZE;
			break;
		}
		err = mpa_tx_make_and_send(ctx, call);
		if (err == -ENOBUFS)
			err = mpa_tx_wait_memory(ctx, &call->timeo,
						 mpa_tx_over);
		else if (!err && call->done == call->size)
			break;
	} while (!err);

	mpa_tx_end_call(ctx, call->more && !err);
	return call->done && call->segment != MPA_SEGMENT_OFF ? 0 : err;
}

/* ---- sendmsg: what is asked for ---- */

static int mpa_sendmsg_control(struct msghdr *msg, int *segment)
{
	struct cmsghdr *cmsg;

	if (!msg->msg_controllen)
		return 0;
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
		if (*segment < MPA_SEGMENT_OFF || *segment > MPA_ULPDU_MAX)
			return -EINVAL;
	}
	return 0;
}

static int mpa_sendmsg_parse(struct mpa_ctx *ctx, struct msghdr *msg, size_t size,
		      struct mpa_call *call)
{
	bool splice = msg->msg_flags & MSG_SPLICE_PAGES &&
		      iov_iter_is_bvec(&msg->msg_iter);
	int err;

	if (msg->msg_flags & ~(MSG_MORE | MSG_DONTWAIT | MSG_NOSIGNAL |
			       MSG_EOR | MSG_BATCH | MSG_CMSG_COMPAT |
			       MSG_CONFIRM | MSG_DONTROUTE | MSG_WAITALL |
			       MSG_SPLICE_PAGES |
			       (splice ? MSG_SENDPAGE_NOTLAST : 0)))
		return -EOPNOTSUPP;

	call->msg = msg;
	call->size = size;
	call->segment = READ_ONCE(ctx->tx.segment);
	/* A file is a stream. */
	if (splice && call->segment == MPA_SEGMENT_OFF)
		call->segment = MPA_SEGMENT_FILL;
	call->ends = !(msg->msg_flags & MSG_MORE) || msg->msg_flags & MSG_EOR;
	/* More of a file does not come if that ends, or cannot be read. */
	if (splice)
		call->ends = !(msg->msg_flags & MSG_SENDPAGE_NOTLAST);
	call->more = msg->msg_flags & (MSG_MORE | MSG_BATCH) || !call->ends;
	call->keep = splice && call->more;
	call->timeo = sock_sndtimeo(ctx->sk, msg->msg_flags & MSG_DONTWAIT);
	err = mpa_sendmsg_control(msg, &call->segment);
	if (!err && call->segment == MPA_SEGMENT_OFF && size > MPA_ULPDU_MAX)
		err = -EMSGSIZE;
	return err;
}

/**
 * mpa_sendmsg() - send ULPDUs: one, or as many as MPA_SEGMENT makes of it
 * @ctx:	the context
 * @msg:	the octets; MSG_MORE: more octets of the last ULPDU follow, or,
 *		with MSG_EOR, more ULPDUs
 * @size:	how many
 *
 * Context: process, socket lock not held.
 * Return: @size; with MPA_SEGMENT, how many went into ULPDUs; -EMSGSIZE for a
 * ULPDU of 0 or more than 64768 octets, or more than MULPDU if MPA_OVERSIZE is
 * off; -EAGAIN, -EINTR, -ERESTARTSYS, -EPIPE, -EFAULT, -EINVAL for a control
 * message that is none, -EOPNOTSUPP for a flag that has no meaning here, or
 * the error that the connection is in. With an error nothing of @msg has been
 * or will be sent, unless it is the connection's.
 */
int mpa_sendmsg(struct mpa_ctx *ctx, struct msghdr *msg, size_t size)
{
	struct mpa_call call = {};
	struct sock *sk = ctx->sk;
	int ret;

	mpa_delay(MPA_POINT_SEND);
	lock_sock(sk);
	mpa_delay(MPA_POINT_SEND_LOCKED);
	ret = mpa_sendmsg_parse(ctx, msg, size, &call) ?: mpa_sendmsg_locked(ctx, &call);
	if (ret < 0) {
		/* What is behind it in a batch will not come. */
		mpa_tx_end_batch(ctx, false);
		ret = sk_stream_error(sk, msg->msg_flags, ret);
	} else {
		ret = call.done;
	}
	mpa_delay(MPA_POINT_SEND_END);
	release_sock(sk);
	return ret;
}

/* ---- the user's options ---- */

/**
 * mpa_tx_restore_options() - let TCP's options be as the user knows them
 * @ctx:	the context
 * @mss:	the MSS as well
 *
 * Context: process, socket lock not held.
 */
void mpa_tx_restore_options(struct mpa_ctx *ctx, bool mss)
{
	struct mpa_tx *tx = &ctx->tx;

	lock_sock(ctx->sk);
	mpa_tx_end_batch(ctx, true);
	mpa_tcp_uncork(ctx->sk, &tx->window);
	tx->window.lent++;
	if (mss)
		mpa_tcp_unfit(ctx->sk, &tx->fit);
	release_sock(ctx->sk);
}

/**
 * mpa_tx_reapply_options() - undo mpa_tx_restore_options()
 * @ctx:	the context
 *
 * Context: process, socket lock not held.
 */
void mpa_tx_reapply_options(struct mpa_ctx *ctx)
{
	lock_sock(ctx->sk);
	ctx->tx.window.lent--;
	if (ctx->state == MPA_STATE_FULL)
		mpa_tx_end_call(ctx, ctx->tx.window.more);
	release_sock(ctx->sk);
}

/* ---- begin and end ---- */

/**
 * mpa_tx_inherit() - a child has the options that its listener has
 * @tx:		of the child
 * @listener:	of the listener, which is not locked
 *
 * Context: softirq.
 */
void mpa_tx_inherit(struct mpa_tx *tx, const struct mpa_tx *listener)
{
	tx->segment = READ_ONCE(listener->segment);
	tx->packing = READ_ONCE(listener->packing);
	tx->oversize = READ_ONCE(listener->oversize);
}

/**
 * mpa_tx_reset() - startup begins: nothing is left of an earlier one
 * @ctx:	the context
 *
 * The socket may have been shut down meanwhile, and connected anew.
 *
 * Context: process, socket lock held; or nobody else knows @ctx.
 */
void mpa_tx_reset(struct mpa_ctx *ctx)
{
	mpa_tx_drop(ctx);
	ctx->tx.finished = false;
	ctx->tx.fin_due = false;
	ctx->tx.seq_known = false;
	ctx->tx.tail_emss = 0;
}

/**
 * mpa_tx_begin() - Full Operation begins
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 */
void mpa_tx_begin(struct mpa_ctx *ctx)
{
	ctx->tx.seq = mpa_tcp_write_seq(ctx->sk);
	ctx->tx.seq_known = true;
	ctx->tx.fit.end = ctx->tx.seq;
	mpa_tcp_watch(ctx->sk, &ctx->tx.watch);
}

/**
 * mpa_tx_write_space() - there may be room in the send buffer
 * @ctx:	the context
 *
 * An open ULPDU takes room there and can be gone on with all the same: whoever
 * waits for room is told.
 *
 * Context: socket lock held, maybe in softirq.
 */
void mpa_tx_write_space(struct mpa_ctx *ctx)
{
	mpa_tcp_write_space(ctx->sk, mpa_tx_open(&ctx->tx) ? ctx->tx.out : NULL,
			    ctx->write_space);
}

/**
 * mpa_tx_finish() - no more will be sent
 * @ctx:	the context
 * @timeo:	jiffies to wait for memory that TCP lacks; updated
 *
 * A ULPDU left open by MSG_MORE never becomes one and is dropped.
 *
 * Context: process, socket lock held; it is dropped while waiting.
 * Return: whether TCP has all that was accepted, or the connection is in error;
 * if not the work item goes on with it.
 */
bool mpa_tx_finish(struct mpa_ctx *ctx, long *timeo)
{
	struct mpa_tx *tx = &ctx->tx;

	tx->finished = true;
	if (mpa_tx_open(tx)) {
		mpa_tx_waits(tx, MPA_WAIT_NOT);
		tx->ulpdu_len = 0;
		mpa_tx_drop_out(ctx);
	}
	mpa_tx_end_batch(ctx, false);
	while (mpa_tx_push(ctx) == -EAGAIN) {
		if (!*timeo)
			return false;
		/* The work item may have been faster. */
		if (mpa_tx_wait_memory(ctx, timeo, mpa_tx_unstuck))
			return !mpa_tx_stuck(tx);
	}
	return true;
}

/**
 * mpa_tx_drop() - drop octets that TCP has not got
 * @ctx:	the context
 *
 * They count for the socket until then, so it has to be before TCP destroys it.
 *
 * Context: process, socket lock held; or nobody else knows @ctx.
 */
void mpa_tx_drop(struct mpa_ctx *ctx)
{
	struct mpa_tx *tx = &ctx->tx;

	mpa_tx_waits(tx, MPA_WAIT_NOT);
	tx->ulpdu_len = 0;
	mpa_tx_drop_out(ctx);
}

/**
 * mpa_tx_free() - give back what sending has allocated
 * @ctx:	the context, which nobody else uses any more
 */
void mpa_tx_free(struct mpa_ctx *ctx)
{
	if (ctx->tx.out)
		mpa_txbuf_reset(ctx->tx.out);
	mpa_tx_free_out(&ctx->tx);
}
