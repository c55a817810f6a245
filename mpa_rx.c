// SPDX-License-Identifier: GPL-2.0
/*
 * Receiving in order: RFC 5044 sections 5.2 and 6.
 *
 * FPDUs stay in TCP's receive queue until they are read. When octets arrive, this file
 * reads only the length of the current FPDU, to know whether the FPDU is complete. The
 * reader (mpa_rx_recvmsg.c) verifies the FPDU, and then copies its ULPDU.
 *
 * Over loopback octets may change between verifying and copying: the sender may write
 * to its pages after sendfile(2) or vmsplice(2). This is harmless: the length is read
 * only once, and the sender could have sent the new octets in a valid FPDU.
 */

#include <linux/vmalloc.h>
#include <trace/events/mpa.h>

#include "mpa.h"

/*
 * Check that only MPA has read from the receive queue. A plain TCP call that began
 * before MPA was attached may take octets when it is woken. The octets left are then
 * not a stream of FPDUs.
 */
static inline bool mpa_rx_in_place(struct mpa_ctx *ctx)
{
	struct mpa_rx *rx = &ctx->rx;

	if (mpa_failed(ctx, MPA_RX))
		return false;
	if (likely(mpa_tcp_reads_at(ctx->sk, mpa_record_seq(rx, &rx->cur))) ||
	    mpa_rx_skip(rx, ctx->sk))
		return true;
	mpa_fail_receiving(ctx, -EBADMSG, MPA_ERR_LOCAL);
	return false;
}

/* Consume octets. With the last octet TCP also consumes the FIN's sequence number. */
static void mpa_rx_consume(struct mpa_ctx *ctx, u32 len)
{
	ctx->rx.seq += mpa_tcp_consume(ctx->sk, len) - len;
}

static inline void mpa_rx_take_skip(struct mpa_ctx *ctx)
{
	u32 n = mpa_rx_skip(&ctx->rx, ctx->sk);

	if (unlikely(n))
		mpa_rx_consume(ctx, min(n, mpa_tcp_inq(ctx->sk)));
}

/* Whether a valid FPDU opens sending. While our RTR is due, it does not. */
static bool mpa_rx_opens_sending(const struct mpa_ctx *ctx)
{
	return !ctx->may_send && !ctx->tx.rtr_due;
}

/*
 * Point @at to the current record, which is in the stash (if there is one) and
 * continues in TCP's queue. @at is valid until the lock is dropped or octets are
 * consumed.
 */
void mpa_rx_cursor(struct mpa_ctx *ctx, struct mpa_cursor *at)
{
	const struct mpa_record *cur = &ctx->rx.cur;

	mpa_cursor_begin(at, ctx->sk, mpa_record_seq(&ctx->rx, cur));
	if (unlikely(cur->stash)) {
		at->data = cur->stash->octets;
		at->left = cur->taken;
		at->seq -= cur->taken;
	}
}

static inline void mpa_rx_tap(struct mpa_ctx *ctx, enum mpa_error verdict)
{
	struct mpa_cursor at;

	if (!mpa_tapped(ctx))
		return;
	mpa_rx_cursor(ctx, &at);
	__mpa_tap_received(ctx, &at, &ctx->rx.cur.fpdu, verdict);
}

/* Whether the current record overlaps a record that was delivered out of order. */
static bool mpa_rx_disagrees(const struct mpa_rx *rx)
{
	return mpa_rx_gap(rx, rx->cur.pos, rx->cur.fpdu.len) <
	       rx->cur.fpdu.len;
}

static void mpa_rx_bad(struct mpa_ctx *ctx, enum mpa_error code)
{
	mpa_rx_tap(ctx, code);
	mpa_fail_receiving(ctx, -EBADMSG, code);
}

/* Fail receiving after mpa_rx_disagrees(). If the FPDU itself is bad, report its error. */
static int mpa_rx_fail_disagreeing(struct mpa_ctx *ctx,
				   struct mpa_cursor *at)
{
	enum mpa_error code;

	mpa_read_fpdu(&ctx->rx, at, &ctx->rx.cur.fpdu, NULL, 0, &code);
	mpa_rx_bad(ctx, code ?: MPA_ERR_MARKER);
	return -EBADMSG;
}

/*
 * Verify the current record if it is not yet verified. Then copy its next @n
 * undelivered octets to @to, which may be NULL. A bad FPDU ends the half connection
 * (RFC 5044 section 8). Context: process, unless @to is NULL. Return: 0, or -EBADMSG or
 * -EFAULT with @to unchanged.
 */
int mpa_rx_read(struct mpa_ctx *ctx, struct mpa_cursor *at, struct iov_iter *to,
		u32 n)
{
	struct mpa_rx *rx = &ctx->rx;
	struct mpa_record *cur = &rx->cur;
	enum mpa_error code;
	int err;

	if (mpa_record_verified(cur))
		return to && n ? mpa_read_ulpdu(rx, at, &cur->fpdu, cur->read,
						to, n) : 0;
	if (mpa_rx_disagrees(rx))
		return mpa_rx_fail_disagreeing(ctx, at);
	err = mpa_read_fpdu(rx, at, &cur->fpdu, to, n, &code);
	if (err)
		return err;
	if (code) {
		mpa_rx_bad(ctx, code);
		return -EBADMSG;
	}
	cur->state = MPA_RECORD_VERIFIED;
	mpa_rx_tap(ctx, MPA_ERR_NONE);
	if (mpa_rx_opens_sending(ctx)) {
		rx->rtr = false;
		mpa_open_sending(ctx);
	}
	return 0;
}

static void mpa_rx_verify(struct mpa_ctx *ctx)
{
	struct mpa_cursor at;

	mpa_rx_cursor(ctx, &at);
	mpa_rx_read(ctx, &at, NULL, 0);
}

/* TUF: until a call requests a record, octets may belong to plain TCP. */
static inline bool mpa_rx_unrequested(const struct mpa_ctx *ctx)
{
	return mpa_alt(ctx) && !ctx->rx.requested;
}

static void mpa_rx_read_head(struct mpa_ctx *ctx, u32 have)
{
	struct mpa_rx *rx = &ctx->rx;
	struct mpa_record *cur = &rx->cur;
	struct mpa_cursor at;

	mpa_rx_cursor(ctx, &at);
	switch (mpa_read_head(rx, &at, have, cur->pos, &cur->fpdu)) {
	case MPA_HEAD_GOOD:
		cur->state = MPA_RECORD_KNOWN;
		break;
	case MPA_HEAD_BAD:
		rx->unrequested = mpa_rx_unrequested(ctx);
		if (rx->unrequested)
			break;
		if (mpa_tapped(ctx))
			__mpa_tap_received(ctx, NULL, NULL, MPA_ERR_CRC);
		mpa_fail_receiving(ctx, -EBADMSG, MPA_ERR_CRC);
		break;
	case MPA_HEAD_MORE:
		break;
	}
}

static bool mpa_rx_complete_in(struct mpa_ctx *ctx, u32 have)
{
	struct mpa_rx *rx = &ctx->rx;
	struct mpa_record *cur = &rx->cur;

	if (mpa_record_verified(cur))
		return true;
	rx->unrequested = false;
	if (cur->state == MPA_RECORD_NEW && have)
		mpa_rx_read_head(ctx, have);
	return cur->state != MPA_RECORD_NEW && have >= cur->fpdu.len;
}

bool mpa_rx_complete(struct mpa_ctx *ctx)
{
	return mpa_rx_in_place(ctx) && mpa_rx_complete_in(ctx, mpa_rx_available(ctx));
}

/*
 * Whether the work item has to act: to consume an FPDU without a ULPDU, or to move an
 * incomplete FPDU to the stash, as the receive buffer is too small or TCP had no memory
 * for a segment. Memory pressure alone is no reason.
 */
static bool mpa_rx_needs_work(struct mpa_ctx *ctx, bool complete)
{
	const struct mpa_rx *rx = &ctx->rx;
	const struct mpa_record *cur = &rx->cur;

	if (mpa_record_verified(cur) || mpa_failed(ctx, MPA_RX) || rx->unrequested)
		return false;
	/*
	 * Moving octets to the stash also frees the memory of delivered octets in the
	 * same skb. A plain TCP reader would have freed it at once.
	 */
	if (!complete)
		return mpa_tcp_window_closed(ctx->sk) ||
		       (cur->state == MPA_RECORD_KNOWN &&
			mpa_tcp_window_short(ctx->sk)) ||
		       (rx->starved && mpa_tcp_inq(ctx->sk));
	return !cur->fpdu.ulpdu_len;
}

/* Whether the current record can be delivered. An FPDU without a ULPDU cannot. */
bool mpa_rx_deliverable(struct mpa_ctx *ctx)
{
	return mpa_rx_complete(ctx) && ctx->rx.cur.fpdu.ulpdu_len;
}

/* Set rx.ready after octets have arrived or were read. */
void mpa_rx_update(struct mpa_ctx *ctx)
{
	struct mpa_rx *rx = &ctx->rx;
	struct mpa_record *cur = &rx->cur;
	bool complete = false;
	u32 have;

	if (mpa_failed(ctx, MPA_RX) && mpa_tcp_window_closed(ctx->sk))
		mpa_schedule_work(ctx, 0);
	if (!mpa_rx_in_place(ctx))
		goto out;
	if (mpa_rx_skip(rx, ctx->sk) && mpa_tcp_inq(ctx->sk))
		mpa_schedule_work(ctx, 0);
	have = mpa_rx_available(ctx);
	if (!have)
		goto out;
	complete = mpa_rx_complete_in(ctx, have);
	/* Verify the first FPDU at once: it opens sending, and the user may send before reading. */
	if (complete && cur->fpdu.ulpdu_len && mpa_rx_opens_sending(ctx))
		mpa_rx_verify(ctx);

	if (!complete && mpa_rx_unrequested(ctx) &&
	    mpa_rx_needs_work(ctx, false)) {
		rx->unrequested = true;
	} else if (mpa_rx_needs_work(ctx, complete)) {
		mpa_schedule_work(ctx, rx->no_memory ? MPA_RETRY_DELAY : 0);
		complete = complete && cur->fpdu.ulpdu_len;
	}
out:
	WRITE_ONCE(rx->ready, complete || mpa_failed(ctx, MPA_RX) || rx->unrequested ||
		   mpa_rx_placed(ctx) ||
		   mpa_tcp_input_ended(ctx->sk));
}

/*
 * Called by sk_data_ready: TCP has new octets, or had no memory for a segment. Without
 * memory TCP accepts a segment only into an empty queue: @starved lets the work item
 * move the current FPDU to the stash.
 */
void mpa_rx_arrived(struct mpa_ctx *ctx)
{
	bool urgent = mpa_tcp_forget_urgent(ctx->sk);
	u32 end = mpa_tcp_rcv_nxt(ctx->sk);
	struct mpa_rx *rx = &ctx->rx;

	if (end == rx->cur.arrived && !urgent && mpa_tcp_inq(ctx->sk))
		rx->starved = true;
	rx->cur.arrived = end;
	mpa_rx_update(ctx);
}

/* Let stream position 0 be the next unread octet. Process context. */
void mpa_rx_set_start(struct mpa_ctx *ctx)
{
	ctx->rx.seq = mpa_tcp_copied_seq(ctx->sk);
}

bool mpa_rx_start_unread(const struct mpa_ctx *ctx)
{
	return mpa_tcp_reads_at(ctx->sk, ctx->rx.seq);
}

/* Begin Full Operation. Process context. */
void mpa_rx_begin(struct mpa_ctx *ctx)
{
	mpa_tcp_forget_urgent(ctx->sk);
	ctx->rx.cur.arrived = mpa_tcp_rcv_nxt(ctx->sk);
	/* If MPA_PLACE is not possible, deliver all records in order. */
	if (ctx->rx.options & BIT(MPA_PLACE) && mpa_place_set(ctx, true))
		WRITE_ONCE(ctx->rx.options, ctx->rx.options & ~BIT(MPA_PLACE));
}

static void mpa_rx_drop_stash(struct mpa_ctx *ctx)
{
	struct mpa_record *cur = &ctx->rx.cur;

	if (!cur->stash)
		return;
	mpa_tcp_uncharge_pages(ctx->sk, cur->stash->size);
	/* An upcall, which runs under RCU and must not sleep, may call this. */
	if (ctx->consumer)
		kvfree_rcu(cur->stash, rcu);
	else
		kvfree(cur->stash);
	cur->stash = NULL;
}

/* Consume @n delivered octets of the current ULPDU, and @more ULPDUs after it. */
void mpa_rx_advance(struct mpa_ctx *ctx, u32 n, const struct mpa_rx_more *more)
{
	static const struct mpa_rx_more none;
	struct mpa_rx *rx = &ctx->rx;
	struct mpa_record *cur = &rx->cur;
	bool all;
	u32 end;

	more = more ?: &none;
	cur->read += n;
	all = cur->read == cur->fpdu.ulpdu_len;
	/* A read of 0 octets consumes nothing, not even the FPDU's header. */
	if (!n && !all)
		return;
	end = all ? cur->fpdu.len : mpa_fpdu_offset(&cur->fpdu, cur->read);

	if (all || !cur->stash) {
		mpa_rx_consume(ctx, end - cur->taken + more->len);
		cur->taken = end;
	}
	if (!all) {
		mpa_count_received(ctx, 0, n, 0);
		return;
	}
	mpa_count_received(ctx, !!cur->fpdu.ulpdu_len + more->ulpdus,
			   n + more->octets, cur->fpdu.markers + more->markers);
	trace_mpa_rx(ctx->sk, cur->pos, 1 + more->ulpdus,
		     cur->fpdu.ulpdu_len + more->octets,
		     cur->fpdu.markers + more->markers);
	if (mpa_alt_fpdu(&cur->fpdu))
		mpa_alt_received(ctx, &cur->fpdu);
	mpa_rx_drop_stash(ctx);
	rx->starved = false;
	rx->no_memory = false;
	cur->pos += cur->fpdu.len + more->len;
	cur->taken = 0;
	cur->read = 0;
	cur->state = MPA_RECORD_NEW;
	rx->requested = false;
	if (unlikely(rx->place)) {
		mpa_place_pass(ctx);
		mpa_rx_take_skip(ctx);
	}
}

/* Offer contiguous FPDUs from @data on to @take. Set @sum to the totals of taken ones. */
static void mpa_rx_take_from(struct mpa_ctx *ctx, const u8 *data, u32 have,
			     mpa_rx_take_fn take, enum mpa_rx_taken *last,
			     struct mpa_rx_more *sum)
{
	struct mpa_fpdu some[MPA_READ_GOOD_MAX];
	struct mpa_rx *rx = &ctx->rx;
	struct mpa_record *cur = &rx->cur;
	u32 taken = 0, n, i;

	do {
		n = mpa_read_good(rx, data + taken, have - taken, cur->pos,
				  some);
		for (i = 0; i < n && *last <= MPA_RX_MORE; i++) {
			cur->fpdu = some[i];
			cur->state = MPA_RECORD_VERIFIED;
			*last = take(ctx, &cur->fpdu, data + taken);
			if (*last == MPA_RX_NOT_TAKEN)
				break;
			mpa_count_taken(rx, 1, some[i].ulpdu_len,
					some[i].markers);
			sum->ulpdus++;
			sum->octets += some[i].ulpdu_len;
			sum->markers += some[i].markers;
			cur->pos += some[i].len;
			cur->state = MPA_RECORD_NEW;
			taken += some[i].len;
		}
	} while (n && *last <= MPA_RX_MORE);
	sum->len = taken;
}

/*
 * Verify the next records in contiguous memory, several at a time, and offer them to
 * @take. All other records, bad ones included, are left to mpa_rx_deliverable() and
 * mpa_rx_read(). Octets are consumed after the last call of @take, so that TCP's queue
 * does not change before. Return: the last value that @take returned, or MPA_RX_NONE.
 */
enum mpa_rx_taken mpa_rx_take_contiguous(struct mpa_ctx *ctx, mpa_rx_take_fn take)
{
	enum mpa_rx_taken last = MPA_RX_NONE;
	struct mpa_rx *rx = &ctx->rx;
	struct mpa_rx_more sum = {};
	struct mpa_cursor at;
	const u8 *data;
	u64 position;
	u32 have;

	if (mpa_record_verified(&rx->cur) || rx->cur.stash || rx->place ||
	    mpa_alt_format(&rx->format) || mpa_tapped(ctx) ||
	    mpa_rx_opens_sending(ctx) || !mpa_rx_in_place(ctx))
		return MPA_RX_NONE;
	have = mpa_rx_available(ctx);
	if (!have)
		return MPA_RX_NONE;
	mpa_cursor_begin(&at, ctx->sk, mpa_record_seq(rx, &rx->cur));
	/* Offer all octets if they are contiguous, otherwise only the first piece. */
	data = mpa_cursor_data(&at, have) ?: mpa_cursor_data(&at, 1);
	if (!data)
		return MPA_RX_NONE;
	position = rx->cur.pos;
	mpa_rx_take_from(ctx, data, min(have, at.left), take, &last, &sum);
	if (sum.len) {
		rx->starved = false;
		rx->no_memory = false;
		mpa_rx_consume(ctx, sum.len);
		mpa_stat_fpdus(ctx->tcp.mib, MPA_MIB_RX_FPDUS, sum.ulpdus,
			       sum.octets, sum.markers);
		trace_mpa_rx(ctx->sk, position, sum.ulpdus, sum.octets,
			     sum.markers);
	}
	return last;
}

/* Verify and consume the RTR, an FPDU without a ULPDU (RFC 6581 section 9.2). */
static void mpa_rx_take_rtr(struct mpa_ctx *ctx)
{
	mpa_rx_verify(ctx);
	if (!mpa_record_verified(&ctx->rx.cur))
		return;
	mpa_rx_advance(ctx, 0, NULL);
}

/*
 * Make room in the stash for @n more octets. The stash grows with the octets that have
 * arrived. It is charged to the socket and to its memory control group.
 */
static int mpa_rx_grow_stash(struct mpa_ctx *ctx, u32 n)
{
	u32 size = roundup_pow_of_two(sizeof(struct mpa_stash) + ctx->rx.cur.taken + n);
	gfp_t gfp = ctx->sk->sk_allocation | __GFP_NOWARN;
	struct mpa_record *cur = &ctx->rx.cur;
	struct mpa_stash *stash;

	size = min_t(u32, size, sizeof(*stash) + MPA_ANY_FPDU_MAX);
	if (cur->stash && size <= cur->stash->size)
		return 0;
	/* For more than a page kvmalloc() might round @size up. */
	stash = size > PAGE_SIZE ? __vmalloc(size, gfp) : kmalloc(size, gfp);
	if (!stash)
		return -ENOMEM;
	if (cur->stash) {
		memcpy(stash->octets, cur->stash->octets, cur->taken);
		mpa_rx_drop_stash(ctx);
	} else {
		SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_RX_STASHED);
	}
	cur->stash = stash;
	stash->size = size;
	mpa_tcp_charge_pages(ctx->sk, size);
	return 0;
}

/* Move octets of an incomplete FPDU to the stash, so that the peer can send more. */
static int mpa_rx_take_octets(struct mpa_ctx *ctx)
{
	struct mpa_record *cur = &ctx->rx.cur;
	u32 n = mpa_tcp_inq(ctx->sk);
	struct mpa_cursor at;
	int err;

	err = mpa_rx_grow_stash(ctx, n);
	if (err)
		return err;
	mpa_cursor_begin(&at, ctx->sk, mpa_record_seq(&ctx->rx, cur));
	err = mpa_cursor_copy(&at, cur->stash->octets + cur->taken, n);
	if (err)
		return err;
	cur->taken += n;
	mpa_rx_consume(ctx, n);
	return 0;
}

/*
 * Move the current FPDU to the stash, or consume it, if mpa_rx_needs_work(). Process
 * context. Return: as mpa_rx_complete(); -ENOMEM: the work item retries; -EBADMSG.
 */
int mpa_rx_make_room(struct mpa_ctx *ctx)
{
	struct mpa_rx *rx = &ctx->rx;
	bool complete;
	u32 have;
	int err;

	if (!mpa_rx_in_place(ctx))
		return false;
	mpa_rx_take_skip(ctx);
	have = mpa_rx_available(ctx);
	if (!have)
		return false;
	complete = mpa_rx_complete_in(ctx, have);
	if (!mpa_rx_needs_work(ctx, complete) ||
	    (!complete && mpa_rx_unrequested(ctx)))
		return complete;
	if (!complete) {
		err = mpa_rx_take_octets(ctx);
		rx->no_memory = err == -ENOMEM;
		if (err == -ENODATA) {
			mpa_fail_receiving(ctx, -EBADMSG, MPA_ERR_TCP);
			return -EBADMSG;
		}
		if (err) {
			mpa_schedule_work(ctx, MPA_RETRY_DELAY);
			return err;
		}
	}
	if (complete && !rx->cur.fpdu.ulpdu_len)
		mpa_rx_take_rtr(ctx);
	return mpa_rx_complete(ctx);
}

/*
 * Drop octets that follow an error or were delivered. They would cause two faults: a
 * full queue keeps the peer's FIN out, and on close(2) TCP resets the connection if
 * octets are unread. The reset would drop unsent octets, such as the last message about
 * the error that section 8 allows. Process context.
 */
void mpa_rx_discard(struct mpa_ctx *ctx)
{
	if (ctx->state != MPA_STATE_FULL || !mpa_format_on(&ctx->rx.format))
		return;
	if (!mpa_failed(ctx, MPA_RX)) {
		mpa_rx_take_skip(ctx);
		return;
	}
	mpa_rx_drop_stash(ctx);
	mpa_rx_consume(ctx, mpa_tcp_inq(ctx->sk));
}

/* Do what mpa_rx_update() has left to the work item. Process context. Return: 0 or an errno. */
int mpa_rx_drain(struct mpa_ctx *ctx)
{
	bool was_ready = ctx->rx.ready;
	int err;

	err = mpa_rx_make_room(ctx);
	/* Not before the window closes: a plain TCP call may still read the octets. */
	if (mpa_tcp_window_closed(ctx->sk))
		mpa_rx_discard(ctx);
	if (err < 0)
		return err;
	mpa_rx_update(ctx);
	if (ctx->rx.ready && !was_ready)
		mpa_wake_reader(ctx);
	return 0;
}

/*
 * Check where the stream has ended. Return: 0 if it was between two FPDUs; -EBADMSG if
 * it was within an FPDU (RFC 5044 section 8 code 1); -ENOTCONN if there was no FIN, and
 * another call has returned the connection's error.
 */
int mpa_rx_end(struct mpa_ctx *ctx)
{
	bool peer_ended = mpa_tcp_peer_ended(ctx->sk);
	bool gone = mpa_tcp_gone(ctx->sk);

	mpa_rx_take_skip(ctx);
	/* A local shutdown(2) of receiving is an orderly end. */
	if (!peer_ended && !gone)
		return 0;
	if (!mpa_rx_available(ctx)) {
		if (!peer_ended)
			return -ENOTCONN;
		/* If a record was delivered out of order, octets before it are missing. */
		if (!mpa_rx_skip(&ctx->rx, ctx->sk) && !mpa_rx_ahead(&ctx->rx))
			return 0;
	}
	mpa_fail_receiving(ctx, -EBADMSG, MPA_ERR_TCP);
	return -EBADMSG;
}

/* Call before TCP uncharges the socket. Lock held, or nobody else can reach the socket. */
void mpa_rx_free(struct mpa_ctx *ctx)
{
	mpa_rx_drop_stash(ctx);
	mpa_place_free(ctx);
}
