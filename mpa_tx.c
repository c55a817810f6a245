// SPDX-License-Identifier: GPL-2.0
/*
 * Divide the octets of a call into FPDUs, and pass these to TCP.
 * mpa_tx_sendmsg.c waits for room and memory.
 *
 * An FPDU is complete before TCP gets its first octet, and the socket lock is
 * held meanwhile. So after a fault, a signal or a failed allocation no part of
 * it is on the wire, and records of several threads never mix. Between calls
 * the socket keeps either the octets of one ULPDU that MSG_MORE has left open,
 * or the complete FPDUs of a batch.
 */

#include <linux/slab.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>

#include "mpa.h"

/* Maximum number of octets passed to TCP at once, unless one FPDU is larger. */
#define MPA_HANDOVER_MAX	65536

/* Number of FPDUs of one length after which more are expected. */
#define MPA_SAME_MIN		16

/* Return 0, or -ENOBUFS. */
int mpa_tx_alloc_out(struct mpa_ctx *ctx)
{
	struct mpa_txbuf *out;

	if (ctx->tx.out)
		return 0;
	out = kzalloc(sizeof(*out), mpa_gfp(ctx->sk));
	if (!out)
		return -ENOBUFS;
	out->split = MPA_SPLIT_NOT;
	/* mpa_show_conn() reads @out without the lock. */
	smp_store_release(&ctx->tx.out, out);
	return 0;
}

static void mpa_tx_free_out(struct mpa_tx *tx)
{
	struct mpa_txbuf *out = tx->out;

	/* mpa_show_conn() may be reading the buffer. */
	WRITE_ONCE(tx->out, NULL);
	if (out)
		kfree_rcu(out, rcu);
}

/* Send a startup frame. Return 0, or a negative errno if no octet was sent. */
int mpa_tx_frame(struct mpa_ctx *ctx, const u8 *frame, u32 len)
{
	struct page_frag *page = sk_page_frag(ctx->sk);
	struct mpa_tx *tx = &ctx->tx;
	int err = -ENOBUFS;
	u8 *p;

	if (mpa_tx_alloc_out(ctx))
		return err;
	/* Contiguous and in a separate skb: TCP takes all of it or nothing. */
	p = mpa_txbuf_span(ctx, page, len);
	if (p) {
		memcpy(p, frame, len);
		tx->out->split = 0;
		err = mpa_txbuf_commit(tx->out, page, len) ?:
		      mpa_tx_hand_over(ctx, MPA_PUSH_ALL);
		mpa_tcp_push(ctx->sk, &tx->window, false);
	}
	/* The buffer is not needed again before the first record. */
	mpa_tx_free_out(tx);
	return err;
}

/*
 * Send the zero-length FPDU of RFC 6581 section 9.2, before any FPDU of the
 * user. Without memory the work item retries.
 */
void mpa_tx_rtr(struct mpa_ctx *ctx)
{
	struct msghdr msg = {};
	struct mpa_tx_call call = { .msg = &msg };
	struct mpa_fpdu fpdu;

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, NULL, 0, 0);
	mpa_framing_init(&fpdu, ctx->tx.pos, 0, &ctx->tx.format);
	if (mpa_tx_alloc_out(ctx) || mpa_build(ctx, &call, &fpdu, 1)) {
		mpa_schedule_work(ctx, MPA_RETRY_DELAY);
		return;
	}
	mpa_align_begin(ctx, mpa_tcp_emss(ctx->sk));
	mpa_align_break(&ctx->tx);
	ctx->tx.slot.used = fpdu.len;
	mpa_tx_flush(ctx, MPA_PUSH_ALL);
	mpa_tcp_push(ctx->sk, &ctx->tx.window, false);
	ctx->tx.rtr_due = false;
	mpa_open_sending(ctx);
}

static u32 mpa_tx_fpdu_len(const struct mpa_tx *tx, u32 ulpdu_len)
{
	struct mpa_fpdu fpdu;

	mpa_framing_init(&fpdu, tx->pos, ulpdu_len, &tx->format);
	return fpdu.len;
}

/*
 * Return MULPDU (section 4.5), and set @emss to EMSS if not NULL. Both apply
 * once the peer has acknowledged all that TCP has sent.
 */
u32 mpa_tx_mulpdu(struct mpa_ctx *ctx, u32 *emss)
{
	u32 full;

	mpa_tcp_emss(ctx->sk);
	full = mpa_tcp_emss_full(ctx->sk, &ctx->tcp);
	if (emss)
		*emss = full;
	return mpa_framing_mulpdu(&ctx->tx.format, full);
}

/* As mpa_tx_mulpdu(), without a route lookup. Context: any, socket lock held. */
u32 mpa_tx_mulpdu_now(const struct mpa_ctx *ctx)
{
	return mpa_framing_mulpdu(&ctx->tx.format,
				  mpa_tcp_emss_full(ctx->sk, &ctx->tcp));
}

/* Return the acknowledged stream position. Context: any, socket lock held. */
u32 mpa_tx_acked(const struct mpa_ctx *ctx)
{
	u32 acked = ctx->tx.pos - mpa_tcp_unacked(ctx->sk);

	return ctx->tx.out ? acked - ctx->tx.out->len : acked;
}

/* Return the length of the next ULPDU of a call that sends several. */
static u32 mpa_tx_target(const struct mpa_tx *tx, const struct mpa_tx_call *call,
			 const struct mpa_slot *slot)
{
	u32 fill = 0;

	if (call->segment)
		return mpa_alt_format(&tx->format) ?
		       mpa_pack_target(tx, call->segment, slot->emss) :
		       call->segment;
	if (slot->used && tx->options & BIT(MPA_PACKING) && mpa_format_shares(&tx->format))
		fill = mpa_framing_fill(&tx->format, tx->pos,
					slot->emss - slot->used);
	if (fill < MPA_MULPDU_MIN)
		fill = mpa_framing_fill(&tx->format, tx->pos, slot->emss);
	return max_t(u32, fill, MPA_MULPDU_MIN);
}

/* Return the length of the longest of this call's FPDUs. */
static u32 mpa_tx_usual_len(const struct mpa_tx *tx,
			    const struct mpa_tx_call *call, u32 emss)
{
	size_t left = call->size - call->done +
		      mpa_tx_header(tx, call).iov_len;

	if (call->segment > 0)
		left = min_t(size_t, left, call->segment);
	else if (call->segment == MPA_SEGMENT_FILL)
		left = max_t(u32, mpa_framing_fill(&tx->format, tx->pos, emss),
			     MPA_MULPDU_MIN);
	return mpa_tx_fpdu_len(tx, min_t(size_t, left, MPA_ULPDU_MAX));
}

/* Return the unit of which the MSS should be a multiple for this call. */
static u32 mpa_tx_unit(const struct mpa_ctx *ctx, const struct mpa_tx_call *call,
		       u32 full)
{
	const struct mpa_tx *tx = &ctx->tx;
	u32 len;

	if (mpa_alt_format(&tx->format))
		return 1;
	if (tx->format.marked)
		return 4;
	len = mpa_tx_usual_len(tx, call, full);
	if (len > full)
		return 4;
	if (full > MPA_FPDU_MAX)
		return len;
	/* Use @len if many FPDUs have this length, in this call or in TCP's queue. */
	if (call->segment > 0 &&
	    call->size - call->done >= 2 * (size_t)call->segment)
		return len;
	if (tx->same >= MPA_SAME_MIN && tx->same_len == len &&
	    mpa_tcp_unsent(ctx->sk))
		return len;
	/*
	 * Keep the last unit if the FPDU fits, even if the MSS was restored
	 * meanwhile.
	 */
	return tx->fit_unit && len <= full - full % tx->fit_unit ? tx->fit_unit : 4;
}

/*
 * Round the MSS to the FPDUs' length, unless that would cut unsent packets
 * differently: those of several segments, or segments longer than the new MSS.
 * In that case a later call retries. Until then each segment is a separate skb,
 * and an FPDU longer than the MSS is cut.
 */
static void mpa_tx_fit(struct mpa_ctx *ctx, const struct mpa_tx_call *call,
		       u32 *emss)
{
	u32 full = mpa_tcp_emss_full(ctx->sk, &ctx->tcp), unsent;
	u32 unit = mpa_tx_unit(ctx, call, full);
	struct mpa_tx *tx = &ctx->tx;

	if (*emss == full - full % unit ||
	    (unit == tx->fit_unit && *emss == tx->fit_emss)) {
		tx->fit_unit = unit;
		return;
	}
	unsent = mpa_tcp_unsent(ctx->sk);
	if (unsent > tx->seq - tx->fit_end ||
	    unsent > (u64)tx->same * tx->same_len)
		return;
	*emss = mpa_tcp_fit(ctx->sk, unit);
	tx->fit_unit = unit;
	tx->fit_emss = *emss;
}

/* Report MULPDU if the path has changed it; SACK blocks do not count. */
static void mpa_tx_note_path(struct mpa_ctx *ctx)
{
	u16 mss = mpa_tcp_path_mss(ctx->sk, &ctx->tcp);

	if (likely(ctx->tx.mss_reported == mss))
		return;
	if (ctx->tx.mss_reported)
		mpa_report_mulpdu(ctx);
	ctx->tx.mss_reported = mss;
}

/* Determine where the next FPDU goes: after FPDUs in @out, or after TCP's octets. */
static void mpa_tx_begin_build(struct mpa_ctx *ctx, const struct mpa_tx_call *call)
{
	u32 emss;

	if (mpa_tx_queued(&ctx->tx))
		return;
	emss = mpa_tcp_emss(ctx->sk);
	mpa_tx_note_path(ctx);
	mpa_tx_fit(ctx, call, &emss);
	mpa_align_begin(ctx, emss);
	/* A single small record does not wait for a full packet. */
	if (call->segment < 0 && call->size <= emss && !call->more)
		ctx->tx.slot.packet = emss;
	else
		ctx->tx.slot.packet = mpa_tcp_packet_max(ctx->sk);
}

static u32 mpa_tx_frags(u32 len)
{
	return len / PAGE_SIZE + 2;
}

/* Return the number of FPDUs of @fpdu's length to build at once. */
static u32 mpa_tx_run(const struct mpa_ctx *ctx, const struct mpa_tx_call *call,
		      const struct mpa_fpdu *fpdu, u32 budget)
{
	u32 len = fpdu->len, begin = ctx->tx.out->len;
	const struct mpa_slot *slot = &ctx->tx.slot;
	const struct mpa_tx *tx = &ctx->tx;

	if (call->segment < 0 || mpa_tx_open(tx) || mpa_alt(ctx) ||
	    begin >= budget || slot->emss % len || slot->used % len)
		return 1;
	if (slot->emss != len &&
	    (!call->segment || !(tx->options & BIT(MPA_PACKING))))
		return 1;
	/* With markers, the FPDUs of equal ULPDUs differ in length. */
	if (call->segment && (tx->format.marked ||
			      call->segment != fpdu->ulpdu_len))
		return 1;
	/* The last FPDU may exceed the budget. */
	return min(budget - begin + len - 1,
		   mpa_tcp_frag_room(tx->out, slot->frags)) / len ?: 1;
}

/*
 * Return how many of the call's octets the next ULPDU gets. @ends: they end the
 * ULPDU.
 */
static size_t mpa_tx_next(const struct mpa_tx *tx, const struct mpa_tx_call *call,
			  const struct mpa_slot *slot, bool *ends)
{
	size_t left = call->size - call->done;
	size_t n = min_t(size_t, left, mpa_framing_max(&tx->format, tx->pos));
	u32 target, open;

	*ends = call->ends && n == left;
	if (call->segment < 0)
		return n;
	target = mpa_tx_target(tx, call, slot);
	/*
	 * End a longer open ULPDU with one octet of this call: if the call
	 * fails, the ULPDU stays open.
	 */
	open = mpa_tx_header(tx, call).iov_len;
	target = target > open ? target - open :
				 open < mpa_framing_max(&tx->format, tx->pos);
	/* An FPDU of several ULPDUs contains only complete ULPDUs. */
	if (n < target && target > call->segment && call->segment &&
	    !call->ends && n >= call->segment)
		target = n - n % call->segment;
	if (n < target)
		return n;
	*ends = true;
	return target;
}

/*
 * Choose where an FPDU goes, so that segments start with an FPDU. Return false
 * if the FPDUs built so far must be passed to TCP first.
 */
static bool mpa_tx_find_slot(struct mpa_tx *tx, const struct mpa_fpdu *fpdu)
{
	struct mpa_slot *slot = &tx->slot;
	struct mpa_txbuf *out = tx->out;
	u32 made = out->len;

	/* An oversized FPDU does not follow others in the buffer. */
	if (made && fpdu->len > slot->emss)
		return false;
	if (!mpa_align_fits(tx, fpdu->len)) {
		if (made)
			return false;
		mpa_align_break(tx);
	}
	/*
	 * If an skb has too few free fragments, start another, even within a
	 * segment.
	 */
	if (mpa_tcp_frags(out) + slot->frags + mpa_tx_frags(fpdu->len) >
	    MPA_SKB_FRAGS) {
		if (made)
			return false;
		if (slot->frags)
			mpa_align_break(tx);
	}
	return true;
}

/* Whether an FPDU is longer than a segment, and MPA_OVERSIZE is off. */
static bool mpa_tx_oversized(struct mpa_ctx *ctx, const struct mpa_tx_call *call,
			     const struct mpa_fpdu *fpdu)
{
	if (mpa_alt(ctx))
		return mpa_alt_oversized(ctx, call, fpdu);
	/* A ULPDU that fills a segment exactly may be longer than MULPDU. */
	return !(ctx->tx.options & BIT(MPA_OVERSIZE)) && call->segment != MPA_SEGMENT_FILL &&
	       fpdu->ulpdu_len > mpa_tx_mulpdu(ctx, NULL);
}

/* Keep @n octets of a ULPDU that continues later. Return: as mpa_build(). */
static int mpa_tx_keep_open(struct mpa_ctx *ctx, struct iov_iter *from, u32 n)
{
	gfp_t gfp = ctx->sk->sk_allocation | __GFP_NOWARN;
	u32 room = PAGE_ALIGN(ctx->tx.ulpdu_len + n);
	struct mpa_txbuf *out = ctx->tx.out;
	struct mpa_tx *tx = &ctx->tx;
	int ret = n;

	if (room > out->open_room) {
		/* Above a page, kvmalloc() would round up to a power of two. */
		u8 *open = room > PAGE_SIZE ? __vmalloc(room, gfp) : kmalloc(room, gfp);

		if (open && !mpa_tcp_charge(ctx->sk, out, room)) {
			memcpy(open, out->open, tx->ulpdu_len);
			swap(open, out->open);
			out->open_room = room;
		} else {
			ret = -ENOBUFS;
		}
		kvfree(open);
	}
	if (ret > 0 && !copy_from_iter_full(out->open + tx->ulpdu_len, n, from))
		ret = -EFAULT;
	if (ret > 0)
		WRITE_ONCE(tx->ulpdu_len, tx->ulpdu_len + n);
	else if (!mpa_tx_open(tx))
		mpa_tx_drop(ctx);
	return ret;
}

/*
 * Build FPDUs of about @budget octets. Return 0, or a negative errno. In
 * either case the caller passes the FPDUs built so far to TCP.
 */
static int mpa_tx_build(struct mpa_ctx *ctx, struct mpa_tx_call *call, u32 budget)
{
	struct iov_iter *from = &call->msg->msg_iter;
	struct mpa_tx *tx = &ctx->tx;
	struct mpa_slot *slot = &tx->slot;
	struct mpa_fpdu fpdu;
	bool ends;
	size_t n;
	int ret;

	do {
		u32 begin = tx->out->len;

		n = mpa_tx_next(tx, call, slot, &ends);
		mpa_framing_init(&fpdu, tx->pos,
				 mpa_tx_header(tx, call).iov_len + n,
				 &tx->format);
		if ((n || call->header.iov_len) && mpa_tx_oversized(ctx, call, &fpdu))
			return -EMSGSIZE;
		if (!ends) {
			if (begin)
				return 0;
			ret = mpa_tx_keep_open(ctx, from, n);
		} else if (mpa_alt(ctx) && mpa_pack_fits(ctx, n)) {
			fpdu.len = 0;
			fpdu.ulpdu_len = 0;
			ret = mpa_pack_add(ctx, from, n) ?: n;
		} else if (mpa_tx_find_slot(tx, &fpdu)) {
			ret = mpa_build(ctx, call, &fpdu,
					mpa_tx_run(ctx, call, &fpdu, budget));
			slot->used = (slot->used + tx->out->len - begin) %
				     slot->emss;
			if (mpa_alt(ctx) && ret >= 0)
				mpa_pack_built(ctx, &fpdu);
		} else {
			return 0;
		}
		if (ret < 0)
			return ret;
		call->done += ret;
		/* Count the second and later ULPDUs of an FPDU. */
		if (mpa_alt(ctx) && call->segment > 0 && n > call->segment)
			tx->ulpdus += (n - 1) / call->segment;
		n = call->size - call->done;
		/* Add a short last FPDU, even beyond the budget. */
	} while (n && (tx->out->len < budget || n < fpdu.ulpdu_len) &&
		 fpdu.len <= slot->emss);
	return 0;
}

/* Return how many octets of the call to take next, about @budget. */
static u32 mpa_tx_need(const struct mpa_tx_call *call, u32 budget)
{
	size_t left = call->size - call->done;

	/* A record is taken whole. */
	if (call->segment == MPA_SEGMENT_OFF)
		return left + call->header.iov_len;
	return min_t(size_t, left, max_t(int, call->segment, budget));
}

/*
 * Build FPDUs and pass them to TCP; update @call->done. Segments start with an
 * FPDU, except within an FPDU longer than a segment. FPDUs of a batch may stay
 * queued until the rest follows. Return 0 if the call has made progress,
 * -ENOBUFS, -EMSGSIZE, -EFAULT or -EPIPE.
 */
int mpa_tx_build_and_send(struct mpa_ctx *ctx, struct mpa_tx_call *call)
{
	struct mpa_txbuf *out = ctx->tx.out;
	enum mpa_push push = MPA_PUSH_FULL;
	u32 budget;
	int err;

	mpa_tx_begin_build(ctx, call);
	/*
	 * One packet, as a second would be short. As in TCP, sk_sndbuf may be
	 * exceeded.
	 */
	budget = min_t(u32, ctx->tx.slot.packet, MPA_HANDOVER_MAX);
	if (!mpa_tcp_reserve(ctx->sk, out, mpa_tx_need(call, budget)))
		return -ENOBUFS;
	err = mpa_tx_build(ctx, call, budget);
	if (err)
		mpa_tcp_unreserve(ctx->sk);
	if (!out->len)
		return err;
	if (!err && call->more && call->done == call->size &&
	    out->len < budget && mpa_tx_may_queue(&ctx->tx) &&
	    !mpa_pack_extends(ctx) &&
	    !mpa_tcp_charge(ctx->sk, out, out->len)) {
		mpa_tx_queue_batch(ctx);
		return 0;
	}
	/* On an error send complete FPDUs: the next call returns the error. */
	if (call->done == call->size && !call->more)
		push = MPA_PUSH_ALL;
	else if (call->keep)
		push = MPA_PUSH_NOT;
	err = mpa_tx_flush(ctx, push);
	if (mpa_alt(ctx))
		mpa_pack_given(ctx);
	return err;
}

/*
 * Restore the user's values of TCP's options, and with @mss the MSS. Context:
 * process, socket lock not held.
 */
void mpa_tx_restore_options(struct mpa_ctx *ctx, bool mss)
{
	struct mpa_tx *tx = &ctx->tx;

	lock_sock(ctx->sk);
	mpa_tx_end_batch(ctx, true);
	mpa_tcp_uncork(ctx->sk, &tx->window);
	tx->window.borrowed++;
	if (mss)
		mpa_tcp_unfit(ctx->sk);
	release_sock(ctx->sk);
}

/* Undo mpa_tx_restore_options(). Context: process, socket lock not held. */
void mpa_tx_reapply_options(struct mpa_ctx *ctx)
{
	lock_sock(ctx->sk);
	ctx->tx.window.borrowed--;
	if (ctx->state == MPA_STATE_FULL && mpa_format_on(&ctx->tx.format))
		mpa_tx_end_call(ctx, ctx->tx.window.more);
	release_sock(ctx->sk);
}

/*
 * Drop all state of an earlier startup or connection of the socket. Context:
 * process, socket lock held; or nothing else can reach @ctx.
 */
void mpa_tx_reset(struct mpa_ctx *ctx)
{
	mpa_tx_drop(ctx);
	WRITE_ONCE(ctx->tx.ended, false);
	ctx->tx.seq_known = false;
	ctx->tx.tail_emss = 0;
}

/* Prepare for sending FPDUs, when Full Operation begins. */
void mpa_tx_begin(struct mpa_ctx *ctx)
{
	ctx->tx.seq = mpa_tcp_write_seq(ctx->sk);
	ctx->tx.seq_known = true;
	ctx->tx.fit_end = ctx->tx.seq;
	mpa_tcp_watch(ctx->sk, &ctx->tx.format);
}

/*
 * Drop octets not yet passed to TCP. They are charged to the socket: call this
 * before TCP destroys the socket. Context: process, socket lock held; or
 * nothing else can reach @ctx.
 */
void mpa_tx_drop(struct mpa_ctx *ctx)
{
	struct mpa_tx *tx = &ctx->tx;

	WRITE_ONCE(tx->ulpdu_len, 0);
	mpa_tx_drop_out(ctx);
	if (mpa_alt(ctx))
		mpa_pack_forget(ctx);
}

/* Nothing else can reach @ctx. */
void mpa_tx_free(struct mpa_ctx *ctx)
{
	if (ctx->tx.out)
		mpa_txbuf_reset(ctx->tx.out);
	mpa_tx_free_out(&ctx->tx);
	if (mpa_alt(ctx))
		mpa_pack_forget(ctx);
}
