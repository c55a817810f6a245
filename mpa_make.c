// SPDX-License-Identifier: GPL-2.0
/*
 * FPDUs are made: each octet of a ULPDU is copied once, to its place between
 * header, markers and trailer. RFC 5044 section 4.
 */

#include <linux/uio.h>

#include "mpa.h"

/* Where octets of a ULPDU come from: @user if they lie there side by side. */
struct mpa_source {
	const void __user *user;
	struct iov_iter *iter;
};

/*
 * The memory is that of mpa_txbuf_span() or mpa_txbuf_tail(): what
 * copy_from_iter() has to check of it would be a tenth of a copy's work.
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

static __always_inline bool mpa_make_get(u8 *to, u32 n, struct mpa_source *from)
{
	if (!from->user)
		return mpa_copy_from_iter(to, n, from->iter);
	if (_copy_from_user(to, from->user, n))
		return false;
	from->user += n;
	return true;
}

/* CRC fields of @nr FPDUs of @len octets, one behind the other. */
static void mpa_make_seal(const struct mpa_tx *tx, u8 *p, u32 len, u32 nr)
{
	if (tx->crc) {
		mpa_crc_put_many(p, len, nr);
		return;
	}
	/* Section 4.1: any value if CRCs are not enabled. */
	for (; nr; nr--, p += len)
		put_unaligned(0, (u32 *)(p + len) - 1);
}

/*
 * A whole FPDU in one piece of memory, as nearly all of them are, but for its
 * CRC field.
 */
static __always_inline int
mpa_make_linear(const struct mpa_fpdu *fpdu, u8 *p, struct mpa_source *from)
{
	u32 left = fpdu->ulpdu_len, run;
	u32 off = mpa_fpdu_first_span(fpdu, &run);

	if (fpdu->head)
		mpa_marker_put(p, 0);
	put_unaligned_be16(left, p + fpdu->head);

	for (; left > run; run = MPA_MARKER_GAP) {
		if (!mpa_make_get(p + off, run, from))
			return -EFAULT;
		left -= run;
		off += run;
		mpa_marker_put(p + off, off - fpdu->head);
		off += MPA_MARKER_LEN;
	}
	if (left && !mpa_make_get(p + off, left, from))
		return -EFAULT;

	/* The pad, and a marker behind it. */
	off += left;
	while (off % 4)
		p[off++] = 0;
	if (off < fpdu->len - MPA_CRC_LEN)
		mpa_marker_put(p + off, mpa_fpdu_ptr(fpdu, off));
	return 0;
}

/*
 * Go on with an FPDU from where it is: put fields that are ours, take ULPDU
 * octets from @from, and stop in front of octet @end. It begins with octet @at
 * of what TCP will be given.
 */
static int mpa_make_fill(struct mpa_tx *tx, const struct mpa_fpdu *fpdu,
			 u32 at, u32 end, struct iov_iter *from)
{
	struct mpa_txbuf *out = tx->out;

	while (out->len - at < end) {
		struct mpa_field_span run;
		u32 n;
		u8 *p;

		mpa_fpdu_field_at(fpdu, out->len - at, &run);
		p = mpa_txbuf_tail(out, &n);
		n = min3(n, run.len, end - (out->len - at));

		switch (run.field) {
		case MPA_FIELD_MARKER:
			mpa_marker_put(p, mpa_fpdu_ptr(fpdu, run.off));
			break;
		case MPA_FIELD_LENGTH:
			put_unaligned_be16(fpdu->ulpdu_len, p);
			break;
		case MPA_FIELD_ULPDU:
			if (!mpa_copy_from_iter(p, n, from))
				return -EFAULT;
			break;
		case MPA_FIELD_PAD:
			memset(p, 0, n);
			break;
		case MPA_FIELD_CRC:
			/* Section 4.1: any value if CRCs are not enabled. */
			if (tx->crc)
				mpa_crc_put(mpa_txbuf_crc(out, at), p);
			else
				memset(p, 0, n);
			break;
		}
		mpa_txbuf_advance(out, n);
	}
	return 0;
}

static int mpa_make_copy(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
			 u32 at, struct iov_iter *from, bool last)
{
	struct mpa_tx *tx = &ctx->tx;
	struct mpa_txbuf *out = tx->out;
	int err;

	err = mpa_txbuf_reserve(ctx, fpdu->len - (out->len - at));
	if (err)
		return err;
	err = mpa_make_fill(tx, fpdu, at,
			    mpa_fpdu_offset(fpdu, fpdu->ulpdu_len), from);
	if (err || !last)
		return err;
	if (mpa_tx_open(tx))
		put_unaligned_be16(fpdu->ulpdu_len,
				   page_address(out->frag[0].bv_page) +
				   out->frag[0].bv_offset + fpdu->head);
	return mpa_make_fill(tx, fpdu, at, fpdu->len, NULL);
}

static noinline int
mpa_make_pieces(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		struct iov_iter *from, bool last)
{
	struct mpa_tx *tx = &ctx->tx;
	u32 at = mpa_tx_open(tx) ? 0 : tx->out->len;
	struct mpa_txbuf_mark mark;
	int err;

	mpa_txbuf_mark(tx->out, &mark);
	err = mpa_make_copy(ctx, fpdu, at, from, last);
	/* TCP takes finished ones at once, and counts them itself. */
	if (!err && !last)
		err = mpa_tcp_charge(ctx->sk, tx->out,
				     mpa_txbuf_memory(tx->out));
	if (err)
		mpa_txbuf_rewind(tx->out, &mark);
	return err;
}

static int mpa_make_octets(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
			   struct iov_iter *from, u32 n, bool last)
{
	struct page_frag *page = sk_page_frag(ctx->sk);
	struct mpa_source source = { .iter = from };
	struct mpa_tx *tx = &ctx->tx;
	int err;
	u8 *p;

	p = NULL;
	if (last && !mpa_tx_open(tx))
		p = mpa_txbuf_span(ctx, page, fpdu->len);
	if (!p)
		return mpa_make_pieces(ctx, fpdu, from, last);
	if (n)
		source.user = mpa_iter_user(from, n);
	err = mpa_make_linear(fpdu, p, &source);
	if (err)
		return err;
	mpa_make_seal(tx, p, fpdu->len, 1);
	err = mpa_txbuf_commit(ctx, page, fpdu->len);
	if (!err && source.user)
		mpa_iter_skip(from, n);
	return err;
}

/* @nr FPDUs of @len octets are made. */
static void mpa_make_count(struct mpa_tx *tx, u32 len, u32 nr)
{
	tx->pos += nr * len;
	tx->largest = max(tx->largest, len);
	tx->same = len == tx->same_len ? tx->same + nr : nr;
	tx->same_len = len;
}

/**
 * mpa_make_append() - take the next octets of the ULPDU being made
 * @ctx:	the context
 * @fpdu:	its FPDU, as if these octets were the last ones
 * @from:	the octets
 * @n:		how many
 * @last:	they are: finish the FPDU
 *
 * The length of a ULPDU is not known before the last of its octets, but nothing
 * in front of its end depends on that except for the ULPDU_Length field.
 *
 * Context: process, socket lock held.
 * Return: 0; -ENOBUFS or -EFAULT, and everything is as it was before, @from
 * as well.
 */
int mpa_make_append(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		    struct iov_iter *from, u32 n, bool last)
{
	size_t left = from ? iov_iter_count(from) : 0;
	struct mpa_tx *tx = &ctx->tx;
	int err;

	err = mpa_make_octets(ctx, fpdu, from, n, last);
	if (err) {
		if (from)
			iov_iter_revert(from, left - iov_iter_count(from));
		return err;
	}
	tx->ulpdu_len = fpdu->ulpdu_len;
	if (!last) {
		mpa_tx_waits(tx, MPA_WAIT_ULPDU);
		return 0;
	}
	if (mpa_tx_open(tx))
		mpa_tx_waits(tx, MPA_WAIT_NOT);

	mpa_make_count(tx, fpdu->len, 1);
	tx->ulpdu_len = 0;
	tx->ulpdus += !!fpdu->ulpdu_len;
	tx->octets += fpdu->ulpdu_len;
	tx->markers += fpdu->markers;
	return 0;
}

/*
 * Runs of FPDUs: CRCs of a few at a time, while they are in the first level of
 * the cache; of what has been copied, whatever a user does to his memory.
 */

/* FPDUs without markers, one behind the other. Return: how many. */
static u32 mpa_make_plain(const struct mpa_tx *tx, u8 *p, u32 len,
			  struct mpa_source *from, u32 ulpdu_len, u32 max)
{
	u32 together = mpa_crc_together(len), open = 0, nr;

	for (nr = 0; nr < max; nr++) {
		/* The pad, and a few octets that others come over. */
		put_unaligned(0, (u32 *)(p + len) - 2);
		put_unaligned_be16(ulpdu_len, p);
		if (!mpa_make_get(p + MPA_LENGTH_LEN, ulpdu_len, from))
			break;
		p += len;
		if (++open < together)
			continue;
		mpa_make_seal(tx, p - open * len, len, open);
		open = 0;
	}
	mpa_make_seal(tx, p - open * len, len, open);
	return nr;
}

/* FPDUs of one length with markers. Return: how many. */
static u32 mpa_make_marked(struct mpa_tx *tx, u8 *p, u32 len,
			   struct mpa_source *from, u32 *octets, u32 max)
{
	u32 together = mpa_crc_together(len), open = 0, nr;
	u32 left = *octets, pos = tx->pos;
	struct mpa_fpdu fpdu;

	for (nr = 0; nr < max; nr++) {
		if (!mpa_fpdu_init_marked(&fpdu, pos, len) ||
		    fpdu.ulpdu_len > left ||
		    mpa_make_linear(&fpdu, p, from))
			break;
		tx->markers += fpdu.markers;
		left -= fpdu.ulpdu_len;
		pos += len;
		p += len;
		if (++open < together)
			continue;
		mpa_make_seal(tx, p - open * len, len, open);
		open = 0;
	}
	mpa_make_seal(tx, p - open * len, len, open);
	*octets -= left;
	return nr;
}

/**
 * mpa_make_equal() - make FPDUs that follow one, and are as long as it is
 * @ctx:	the context; no ULPDU is open
 * @len:	octets of each FPDU
 * @ulpdu_len:	octets of each ULPDU; with markers as many as fill the FPDU
 * @from:	octets of ULPDUs
 * @octets:	how many of them may be taken
 * @max:	octets of FPDUs that may be made
 *
 * For FPDUs that need no more thought than that. Those that do not lie side by
 * side where they are made, or in a program's buffer, do, and are for
 * mpa_make_append(), as are errors.
 *
 * Context: process, socket lock held.
 * Return: octets of ULPDUs that have gone into FPDUs.
 */
u32 mpa_make_equal(struct mpa_ctx *ctx, u32 len, u32 ulpdu_len,
		   struct iov_iter *from, u32 octets, u32 max)
{
	struct page_frag *page = sk_page_frag(ctx->sk);
	struct mpa_source source = { .iter = from };
	size_t run, left = iov_iter_count(from);
	struct mpa_tx *tx = &ctx->tx;
	u32 nr;
	u8 *p;

	/* If it is in no program's memory, all of it can be got. */
	source.user = mpa_iter_span(from, &run);
	p = run ? mpa_txbuf_span(ctx, page, len) : NULL;
	if (!p)
		return 0;
	octets = min_t(size_t, octets, run);
	max = min(max, page->size - page->offset) / len;

	if (tx->marked) {
		nr = mpa_make_marked(tx, p, len, &source, &octets, max);
	} else {
		nr = mpa_make_plain(tx, p, len, &source, ulpdu_len,
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
	mpa_make_count(tx, len, nr);
	tx->ulpdus += nr;
	tx->octets += octets;
	return octets;
}
