// SPDX-License-Identifier: GPL-2.0
/*
 * Building FPDUs: each octet of a ULPDU is copied once, to its position between
 * header, markers and trailer. RFC 5044 section 4.
 */

#include <linux/uio.h>
#include <trace/events/mpa.h>

#include "mpa.h"
#include "mpa_pages.h"

/*
 * Source of a ULPDU's octets: @header, then @user if contiguous user memory,
 * else @iter. @off: their offset in the call, if known.
 */
struct mpa_build_source {
	struct kvec header;
	const void __user *user;
	struct iov_iter *iter;
	const struct mpa_tx_call *call;
	size_t off;
};

/*
 * Skip the object size check of copy_from_iter(), a tenth of the cost of a
 * copy: mpa_txbuf_span() and mpa_txbuf_tail() return memory of known size.
 */
static __always_inline bool
mpa_copy_from_iter(u8 *to, u32 n, struct iov_iter *from)
{
	size_t copied = _copy_from_iter(to, n, from);

	if (likely(copied == n))
		return true;
	iov_iter_revert(from, copied);
	return false;
}

static __always_inline bool mpa_build_get(void *arg, u8 *to, u32 n)
{
	struct mpa_build_source *from = arg;

	if (!from->user)
		return mpa_copy_from_iter(to, n, from->iter);
	if (_copy_from_user(to, from->user, n))
		return false;
	from->user += n;
	return true;
}

/* mpa_build_get(), preceded by what is left of the header. */
static bool mpa_build_get_headed(void *arg, u8 *to, u32 n)
{
	struct mpa_build_source *from = arg;
	struct kvec *header = &from->header;
	u32 got;

	if (!header->iov_len)
		return mpa_build_get(from, to, n);
	got = min_t(size_t, n, header->iov_len);
	memcpy(to, header->iov_base, got);
	header->iov_base += got;
	header->iov_len -= got;
	return n == got || mpa_build_get(from, to + got, n - got);
}

/* Write the header of a ULPDU of @n octets of the call. */
static void mpa_build_put_header(const struct mpa_tx_call *call, u8 *header,
				 size_t off, u32 n)
{
	call->headers->write(call->headers, header, off, n, off + n == call->size);
}

/* Write the CRC fields of @nr contiguous FPDUs of @len octets. */
static void mpa_build_seal(const struct mpa_tx *tx, u8 *p, u32 len, u32 nr)
{
	if (tx->format.crc) {
		mpa_crc_put_many(p, len, nr);
		return;
	}
	/* Section 4.1: any value if CRCs are not enabled. */
	for (; nr; nr--, p += len)
		put_unaligned(0, (u32 *)(p + len) - 1);
}

/* Build a TUF FPDU in contiguous memory. */
static noinline int
mpa_build_alt(const struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
	      u8 *p, struct mpa_build_source *from)
{
	struct mpa_field_span run;
	u32 off;

	for (off = 0; off < fpdu->len; off += run.len) {
		mpa_fpdu_field_at(fpdu, off, &run);
		if (run.field != MPA_FIELD_ULPDU)
			mpa_alt_put(ctx, fpdu, &run, p + off, run.len);
		else if (!mpa_build_get_headed(from, p + off, run.len))
			return -EFAULT;
	}
	return 0;
}

/* Build an FPDU, except for its CRC, in contiguous memory: the usual case. */
static __always_inline int
mpa_build_linear(const struct mpa_fpdu *fpdu, u8 *p,
		 struct mpa_build_source *from)
{
	bool made = likely(!from->header.iov_len) ?
		    mpa_fpdu_write(fpdu, p, mpa_build_get, from) :
		    mpa_fpdu_write(fpdu, p, mpa_build_get_headed, from);

	return made ? 0 : -EFAULT;
}

/*
 * Continue the FPDU that starts at octet @at of the buffer, up to its offset
 * @end.
 */
static int mpa_build_fill(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
			  u32 at, u32 end, struct mpa_build_source *from)
{
	struct mpa_tx *tx = &ctx->tx;
	struct mpa_txbuf *out = tx->out;

	while (out->len - at < end) {
		struct mpa_field_span run;
		u32 n;
		u8 *p;

		mpa_fpdu_field_at(fpdu, out->len - at, &run);
		p = mpa_txbuf_tail(out, &n);
		n = min3(n, run.len, end - (out->len - at));

		if (mpa_alt_fpdu(fpdu) && run.field != MPA_FIELD_ULPDU) {
			mpa_alt_put(ctx, fpdu, &run, p, n);
			mpa_txbuf_advance(out, n);
			continue;
		}
		switch (run.field) {
		case MPA_FIELD_MARKER:
			mpa_marker_put(p, mpa_fpdu_ptr(fpdu, run.off));
			break;
		case MPA_FIELD_LENGTH:
			put_unaligned_be16(fpdu->ulpdu_len, p);
			break;
		case MPA_FIELD_ULPDU:
			if (!mpa_build_get_headed(from, p, n))
				return -EFAULT;
			break;
		case MPA_FIELD_PAD:
			memset(p, 0, n);
			break;
		case MPA_FIELD_CRC:
			/* Section 4.1: any value if CRCs are not enabled. */
			if (tx->format.crc)
				mpa_crc_put(mpa_txbuf_crc(out, at), p);
			else
				memset(p, 0, n);
			break;
		}
		mpa_txbuf_advance(out, n);
	}
	return 0;
}

static int mpa_build_copy(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
			  u32 at, struct mpa_build_source *from, bool last)
{
	struct mpa_tx *tx = &ctx->tx;
	struct mpa_txbuf *out = tx->out;
	int err;

	err = mpa_txbuf_reserve(ctx, fpdu->len - (out->len - at));
	if (err)
		return err;
	err = mpa_build_fill(ctx, fpdu, at,
			     mpa_fpdu_offset(fpdu, fpdu->ulpdu_len), from);
	if (err || !last)
		return err;
	if (mpa_alt_fpdu(fpdu)) {
		if (mpa_tx_open(tx))
			mpa_alt_finish(ctx, fpdu);
		return 0;
	}
	if (mpa_tx_open(tx))
		put_unaligned_be16(fpdu->ulpdu_len,
				   page_address(out->frag[0].bv_page) +
				   out->frag[0].bv_offset + fpdu->head);
	return mpa_build_fill(ctx, fpdu, at, fpdu->len, NULL);
}

static noinline int
mpa_build_pieces(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		 struct mpa_build_source *from, bool last)
{
	struct mpa_tx *tx = &ctx->tx;
	u32 at = mpa_tx_open(tx) ? 0 : tx->out->len;
	struct mpa_txbuf_mark mark;
	int err;

	mpa_txbuf_mark(tx->out, &mark);
	err = mpa_build_copy(ctx, fpdu, at, from, last);
	/* Complete FPDUs are charged when passed to TCP. */
	if (!err && !last)
		err = mpa_tcp_charge(ctx->sk, tx->out,
				     mpa_txbuf_memory(tx->out));
	if (err)
		mpa_txbuf_rewind(tx->out, &mark);
	return err;
}

static int mpa_build_octets(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
			    struct iov_iter *from, u32 n, bool last)
{
	struct page_frag *page = sk_page_frag(ctx->sk);
	struct mpa_build_source source;
	struct mpa_tx *tx = &ctx->tx;
	int err;
	u8 *p;

	/* Set only the fields that are read: this is a hot path. */
	source.iter = from;
	source.user = NULL;
	source.header.iov_len = 0;
	if (unlikely(ctx->consumer))
		source.header = ctx->consumer->header;
	p = NULL;
	if (last && !mpa_tx_open(tx))
		p = mpa_txbuf_span(ctx, page, fpdu->len);
	if (!p)
		return mpa_build_pieces(ctx, fpdu, &source, last);
	n -= source.header.iov_len;
	if (n)
		source.user = mpa_iter_user(from, n);
	err = mpa_alt_fpdu(fpdu) ?
	      mpa_build_alt(ctx, fpdu, p, &source) :
	      mpa_build_linear(fpdu, p, &source);
	if (err)
		return err;
	if (!mpa_alt_fpdu(fpdu))
		mpa_build_seal(tx, p, fpdu->len, 1);
	err = mpa_txbuf_commit(ctx, page, fpdu->len);
	if (!err && source.user)
		mpa_iter_skip(from, n);
	return err;
}

static void mpa_build_count(struct mpa_tx *tx, u32 len, u32 nr)
{
	tx->pos += nr * len;
	tx->pos_high += tx->pos < nr * len;
	tx->largest = max(tx->largest, len);
	tx->same = len == tx->same_len ? tx->same + nr : nr;
	tx->same_len = len;
}

/**
 * mpa_build_header() - generate the header of the next ULPDU
 * @ctx:	the context
 * @call:	the call, with headers
 * @n:		octets of the call in this ULPDU
 *
 * Call mpa_build_append() next.
 */
void mpa_build_header(struct mpa_ctx *ctx, const struct mpa_tx_call *call, u32 n)
{
	struct mpa_consumer *user = ctx->consumer;

	mpa_build_put_header(call, user->head, call->done, n);
	user->header.iov_base = user->head;
	user->header.iov_len = call->headers->len;
}

/**
 * mpa_build_append() - add octets to the ULPDU being built
 * @ctx:	the context
 * @fpdu:	its FPDU, as if these octets were the last ones
 * @from:	the octets
 * @n:		their number
 * @last:	these are the ULPDU's last octets: finish the FPDU
 *
 * The length of a ULPDU is known only with its last octet. Of the FPDU up to
 * there, only ULPDU_Length depends on it.
 *
 * Return: 0; or -ENOBUFS or -EFAULT with the buffer and @from unchanged.
 */
int mpa_build_append(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		     struct iov_iter *from, u32 n, bool last)
{
	size_t left = from ? iov_iter_count(from) : 0;
	struct mpa_tx *tx = &ctx->tx;
	u64 position;
	int err;

	err = mpa_build_octets(ctx, fpdu, from, n, last);
	if (err) {
		if (from)
			iov_iter_revert(from, left - iov_iter_count(from));
		return err;
	}
	tx->ulpdu_len = fpdu->ulpdu_len;
	if (!last) {
		mpa_tx_set_wait(tx, MPA_WAIT_ULPDU);
		return 0;
	}
	if (mpa_tx_open(tx))
		mpa_tx_set_wait(tx, MPA_WAIT_NOT);

	position = mpa_tx_position_now(tx);
	mpa_build_count(tx, fpdu->len, 1);
	tx->ulpdu_len = 0;
	mpa_count_built(ctx, !!fpdu->ulpdu_len, fpdu->ulpdu_len, fpdu->markers);
	trace_mpa_tx(ctx->sk, position, 1, fpdu->ulpdu_len, fpdu->markers);
	if (mpa_tapped(ctx))
		__mpa_tap_sent(ctx, fpdu, position);
	return 0;
}

static int mpa_build_more_octets(struct mpa_ctx *ctx, struct iov_iter *from, u32 n)
{
	struct mpa_txbuf *out = ctx->tx.out;
	int err = mpa_txbuf_reserve(ctx, n);

	while (!err && n) {
		u32 run;
		u8 *p = mpa_txbuf_tail(out, &run);

		run = min(run, n);
		if (!mpa_copy_from_iter(p, run, from))
			return -EFAULT;
		mpa_txbuf_advance(out, run);
		n -= run;
	}
	return err;
}

/**
 * mpa_build_more() - add a whole ULPDU's octets to the last FPDU (only for TUF)
 * @ctx:	the context; no ULPDU is open
 * @from:	the octets
 * @n:		their number
 *
 * The caller writes the FPDU's Length.
 *
 * Return: 0; or -ENOBUFS or -EFAULT with the buffer and @from unchanged.
 */
int mpa_build_more(struct mpa_ctx *ctx, struct iov_iter *from, u32 n)
{
	struct mpa_tx *tx = &ctx->tx;
	u64 position = mpa_tx_position_now(tx);
	size_t left = iov_iter_count(from);
	struct mpa_txbuf_mark mark;
	int err;

	mpa_txbuf_mark(tx->out, &mark);
	err = mpa_build_more_octets(ctx, from, n);
	if (err) {
		mpa_txbuf_rewind(tx->out, &mark);
		iov_iter_revert(from, left - iov_iter_count(from));
		return err;
	}
	tx->pos += n;
	tx->pos_high += tx->pos < n;
	/* Count a ULPDU, but no FPDU. */
	tx->ulpdus++;
	tx->octets += n;
	mpa_stat_fpdus(ctx->tcp.mib, MPA_MIB_TX_FPDUS, 0, n, 0);
	trace_mpa_tx(ctx->sk, position, 1, n, 0);
	return 0;
}

/*
 * Build contiguous FPDUs without markers, each with a header of @head octets
 * and @n octets after it. CRCs are computed for a few FPDUs at a time, while
 * these are in the L1 cache, and over the copy, as a user may write to the
 * original meanwhile. Return: the number of FPDUs.
 */
static u32 mpa_build_plain(const struct mpa_tx *tx, u8 *p, u32 len,
			   struct mpa_build_source *from, u32 head, u32 n, u32 max)
{
	u32 parallel = mpa_crc_parallel(len), open = 0, nr;

	for (nr = 0; nr < max; nr++) {
		mpa_fpdu_put_plain(p, len, head + n);
		if (head)
			mpa_build_put_header(from->call, p + MPA_LENGTH_LEN,
					     from->off + nr * n, n);
		if (!mpa_build_get(from, p + MPA_LENGTH_LEN + head, n))
			break;
		p += len;
		if (++open < parallel)
			continue;
		mpa_build_seal(tx, p - open * len, len, open);
		open = 0;
	}
	mpa_build_seal(tx, p - open * len, len, open);
	return nr;
}

/*
 * The same for FPDUs of one length with markers. Adds the number of markers to
 * @markers.
 */
static u32 mpa_build_marked(struct mpa_ctx *ctx, u8 *p, u32 len,
			    struct mpa_build_source *from, u32 head, u32 *octets,
			    u32 *markers, u32 max)
{
	u32 parallel = mpa_crc_parallel(len), open = 0, nr;
	struct mpa_tx *tx = &ctx->tx;
	u32 left = *octets, pos = tx->pos, n;
	struct mpa_fpdu fpdu;

	for (nr = 0; nr < max; nr++) {
		if (!mpa_fpdu_init_marked(&fpdu, pos, len))
			break;
		n = fpdu.ulpdu_len - head;
		if (n > left)
			break;
		if (head) {
			from->header.iov_base = ctx->consumer->head;
			from->header.iov_len = head;
			mpa_build_put_header(from->call, ctx->consumer->head,
					     from->off + *octets - left, n);
		}
		if (mpa_build_linear(&fpdu, p, from))
			break;
		*markers += fpdu.markers;
		left -= n;
		pos += len;
		p += len;
		if (++open < parallel)
			continue;
		mpa_build_seal(tx, p - open * len, len, open);
		open = 0;
	}
	mpa_build_seal(tx, p - open * len, len, open);
	*octets -= left;
	return nr;
}

/**
 * mpa_build_equal() - build FPDUs of the same length as the one before
 * @ctx:	the context; no ULPDU is open
 * @len:	octets of each FPDU
 * @ulpdu_len:	octets of each ULPDU; not used with markers
 * @call:	the call
 * @octets:	maximum number of octets to take from the call
 * @max:	maximum total length of the FPDUs, in octets
 *
 * The fast path, for contiguous octets and contiguous FPDUs only. Other cases
 * and errors are left to mpa_build_append().
 *
 * Return: octets taken from the call.
 */
u32 mpa_build_equal(struct mpa_ctx *ctx, u32 len, u32 ulpdu_len,
		    struct mpa_tx_call *call, u32 octets, u32 max)
{
	u32 head = call->headers ? call->headers->len : 0, markers = 0, nr;
	struct page_frag *page = sk_page_frag(ctx->sk);
	struct iov_iter *from = &call->msg->msg_iter;
	size_t run, left = iov_iter_count(from);
	struct mpa_build_source source = {
		.iter = from, .call = call, .off = call->done,
	};
	struct mpa_tx *tx = &ctx->tx;
	u64 position = mpa_tx_position_now(tx);
	u8 *p;

	/* A monitor receives each FPDU separately. */
	if (mpa_tapped(ctx))
		return 0;
	/* NULL for kernel memory: then @run is the length of @from. */
	source.user = mpa_iter_span(from, &run);
	p = run ? mpa_txbuf_span(ctx, page, len) : NULL;
	if (!p)
		return 0;
	octets = min_t(size_t, octets, run);
	max = min_t(u32, max, page->size - page->offset) / len;

	if (tx->format.marked) {
		nr = mpa_build_marked(ctx, p, len, &source, head, &octets,
				      &markers, max);
	} else {
		ulpdu_len -= head;
		nr = mpa_build_plain(tx, p, len, &source, head, ulpdu_len,
				     min(octets / ulpdu_len, max));
		octets = nr * ulpdu_len;
	}
	if (!nr || mpa_txbuf_commit(ctx, page, nr * len))
		octets = 0;
	if (source.user)
		mpa_iter_skip(from, octets);
	else
		iov_iter_revert(from, left - octets - iov_iter_count(from));
	if (!octets)
		return 0;
	mpa_build_count(tx, len, nr);
	mpa_count_built(ctx, nr, octets + nr * head, markers);
	trace_mpa_tx(ctx->sk, position, nr, octets + nr * head, markers);
	return octets;
}
