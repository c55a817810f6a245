// SPDX-License-Identifier: GPL-2.0
/*
 * Build FPDUs in a buffer of page fragments: RFC 5044 section 4. Each octet of
 * a ULPDU is copied once, to its place between header, markers and trailer.
 */

#include <linux/mm.h>
#include <linux/uio.h>
#include <trace/events/mpa.h>

#include "mpa.h"
#include "mpa_pages.h"

/* Drop the octets from @len on. */
static void mpa_txbuf_cut(struct mpa_txbuf *out, u32 len)
{
	while (out->len > len) {
		struct bio_vec *last = out->frag + out->nr - 1;
		u32 n = min(out->len - len, last->bv_len);

		out->len -= n;
		last->bv_len -= n;
		if (last->bv_len)
			break;
		put_page(last->bv_page);
		out->nr--;
	}
}

static void mpa_txbuf_close(struct mpa_txbuf *out)
{
	kvfree(out->open);
	out->open = NULL;
	out->open_room = 0;
}

/* Drop all octets. The caller has uncharged them. */
void mpa_txbuf_reset(struct mpa_txbuf *out)
{
	mpa_txbuf_cut(out, 0);
	if (unlikely(out->open))
		mpa_txbuf_close(out);
	out->sent = 0;
	out->split = MPA_SPLIT_NOT;
	out->piece = NULL;
}

/*
 * Return the next FPDU's offset in the page. Aligned copies are faster: a
 * ULPDU, or its part after a marker, begins at a multiple of 8, or of 4 if the
 * page is in use already.
 */
static __always_inline u32
mpa_txbuf_start(const struct mpa_tx *tx, const struct page_frag *page)
{
	u32 want = tx->format.marked ? tx->pos - MPA_MARKER_LEN : -MPA_LENGTH_LEN;
	u32 unit = page->offset ? 4 : 8;

	/* TUF's FPDUs have any length, and there must be no gap between them. */
	if (mpa_alt_format(&tx->format))
		return page->offset;
	return page->offset + (want - page->offset) % unit;
}

/*
 * Find memory for @len contiguous octets; mpa_txbuf_commit() adds them. Return
 * NULL without memory, or if the rest of a page would be wasted.
 */
u8 *mpa_txbuf_span(struct mpa_ctx *ctx, struct page_frag *page, u32 len)
{
	u32 offset = mpa_txbuf_start(&ctx->tx, page);

	if (!page->page || offset + len > page->size) {
		if (len > PAGE_SIZE || !mpa_pages_refill(ctx->sk, page, len))
			return NULL;
		offset = mpa_txbuf_start(&ctx->tx, page);
		if (offset + len > page->size)
			return NULL;
	}
	page->offset = offset;
	return page_address(page->page) + offset;
}

/*
 * Add the @len octets written at mpa_txbuf_span(). The socket lock was held
 * since. Return 0, or -EMSGSIZE if there are too many fragments.
 */
int mpa_txbuf_commit(struct mpa_txbuf *out, struct page_frag *page, u32 len)
{
	struct bio_vec *last = out->frag + out->nr - 1;

	if (out->nr && last->bv_page == page->page &&
	    last->bv_offset + last->bv_len == page->offset) {
		last->bv_len += len;
	} else {
		if (out->nr == MPA_TX_FRAGS)
			return -EMSGSIZE;
		get_page(page->page);
		bvec_set_page(&out->frag[out->nr++], page->page, len,
			      page->offset);
	}
	page->offset += len;
	out->len += len;
	return 0;
}

/* Where octets come from: @header, then @user if not NULL, else @iter. */
struct mpa_build_source {
	struct kvec header;
	const void __user *user;
	struct iov_iter *iter;
};

static __always_inline bool mpa_build_get(void *arg, u8 *to, u32 n)
{
	struct mpa_build_source *from = arg;

	/*
	 * Skip the object size check of copy_from_iter(), which costs a tenth
	 * of a copy: mpa_txbuf_span() returns memory of known size.
	 */
	if (!from->user)
		return _copy_from_iter(to, n, from->iter) == n;
	if (_copy_from_user(to, from->user, n))
		return false;
	from->user += n;
	return true;
}

/* Copy the rest of the header, then do mpa_build_get(). */
static bool mpa_build_get_headed(void *arg, u8 *to, u32 n)
{
	struct mpa_build_source *from = arg;
	struct kvec *header = &from->header;
	u32 got = min_t(size_t, n, header->iov_len);

	memcpy(to, header->iov_base, got);
	header->iov_base += got;
	header->iov_len -= got;
	return n == got || mpa_build_get(from, to + got, n - got);
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

/* Build an FPDU, except for its CRC. */
static __always_inline bool
mpa_build_linear(const struct mpa_fpdu *fpdu, u8 *p,
		 struct mpa_build_source *from)
{
	if (unlikely(from->header.iov_len))
		return mpa_fpdu_write(fpdu, p, mpa_build_get_headed, from);
	return mpa_fpdu_write(fpdu, p, mpa_build_get, from);
}

struct mpa_built {
	u32 fpdus;
	u32 octets;	/* octets taken from the call */
	u32 markers;
};

/*
 * Build up to @max FPDUs of the length of @fpdu, from up to @left octets of the
 * call. Compute CRCs over the copy, as a user may write to the original. Do so
 * for a few FPDUs at a time, while they are in the L1 cache.
 */
static void mpa_build_run(struct mpa_ctx *ctx, const struct mpa_tx_call *call,
			  struct mpa_fpdu *fpdu, u8 *p,
			  struct mpa_build_source *from, size_t left, u32 max,
			  struct mpa_built *built)
{
	u32 len = fpdu->len, parallel = mpa_crc_parallel(len), open = 0, n;
	u32 ulpdu_len = fpdu->ulpdu_len, nr = 0, octets = 0, markers = 0;
	const struct kvec header = from->header;
	/* Kept in a register: to the compiler, each copy may change any memory. */
	bool plain = !header.iov_len && !fpdu->marked;

	for (;;) {
		n = ulpdu_len - header.iov_len;
		if (n > left)
			break;
		if (plain) {
			mpa_fpdu_put_plain(p, len, ulpdu_len);
			if (!mpa_build_get(from, p + MPA_LENGTH_LEN, n))
				break;
			goto built;
		}
		if (call->headers && header.iov_len) {
			size_t off = call->done + octets;

			from->header = header;
			call->headers->write(call->headers, header.iov_base, off,
					     n, off + n == call->size);
		}
		if (!mpa_build_linear(fpdu, p, from))
			break;
		markers += fpdu->markers;
built:
		left -= n;
		p += len;
		octets += n;
		if (++open == parallel) {
			mpa_build_seal(&ctx->tx, p - open * len, len, open);
			open = 0;
		}
		if (++nr == max)
			break;
		if (fpdu->marked) {
			if (!mpa_fpdu_init_marked(fpdu, fpdu->pos + len, len))
				break;
			ulpdu_len = fpdu->ulpdu_len;
		}
	}
	mpa_build_seal(&ctx->tx, p - open * len, len, open);
	*built = (struct mpa_built){ nr, octets, markers };
}

/* Write @n octets of a field. The FPDU starts at offset @at of the buffer. */
static int mpa_build_field(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
			   const struct mpa_field_span *run, u32 at, u8 *p,
			   u32 n, struct mpa_build_source *from)
{
	const struct mpa_txbuf *out = ctx->tx.out;
	u32 crc = MPA_CRC_INIT, len;

	if (run->field == MPA_FIELD_ULPDU)
		return mpa_build_get_headed(from, p, n) ? 0 : -EFAULT;
	if (mpa_alt_fpdu(fpdu)) {
		mpa_alt_put(ctx, fpdu, run, p, n);
		return 0;
	}
	switch (run->field) {
	case MPA_FIELD_MARKER:
		mpa_marker_put(p, mpa_fpdu_ptr(fpdu, run->off));
		break;
	case MPA_FIELD_LENGTH:
		put_unaligned_be16(fpdu->ulpdu_len, p);
		break;
	case MPA_FIELD_CRC:
		/* Section 4.1: any value if CRCs are not enabled. */
		for (; ctx->tx.format.crc && at < out->len; at += len) {
			const u8 *data = mpa_txbuf_at(out, at, &len);

			crc = mpa_crc_update(crc, data, len);
		}
		mpa_crc_put(crc, p);
		break;
	default:
		memset(p, 0, n);
		break;
	}
	return 0;
}

/*
 * Build an FPDU for which there is no contiguous memory. Each field starts with
 * room for 32 octets, so that only the ULPDU is split.
 */
static noinline int
mpa_build_pieces(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		 struct page_frag *page, struct mpa_build_source *from)
{
	struct mpa_txbuf *out = ctx->tx.out;
	u32 at = out->len, off, n;
	int err;

	page->offset = mpa_txbuf_start(&ctx->tx, page);
	for (off = 0; off < fpdu->len; off += n) {
		struct mpa_field_span run;

		err = -ENOBUFS;
		if (!mpa_pages_refill(ctx->sk, page, 32))
			break;
		mpa_fpdu_field_at(fpdu, off, &run);
		n = min_t(u32, run.len, page->size - page->offset);
		err = mpa_build_field(ctx, fpdu, &run, at,
				      page_address(page->page) + page->offset,
				      n, from) ?:
		      mpa_txbuf_commit(out, page, n);
		if (err)
			break;
	}
	if (err)
		mpa_txbuf_cut(out, at);
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

/*
 * Build up to @max FPDUs of the length of @fpdu, which is changed. @max is more
 * than one only if the FPDUs start at multiples of their length in a segment.
 * Return the number of octets taken from the call, which may be 0; or -ENOBUFS
 * or -EFAULT with nothing changed.
 */
int mpa_build(struct mpa_ctx *ctx, const struct mpa_tx_call *call,
	      struct mpa_fpdu *fpdu, u32 max)
{
	struct page_frag *page = sk_page_frag(ctx->sk);
	struct iov_iter *from = &call->msg->msg_iter;
	struct mpa_tx *tx = &ctx->tx;
	struct mpa_build_source source = {
		.header = mpa_tx_header(tx, call), .iter = from,
	};
	u32 header = source.header.iov_len, n = fpdu->ulpdu_len - header, octets;
	size_t span, left = iov_iter_count(from);
	u64 position = mpa_tx_position_now(tx);
	bool tapped = mpa_tapped(ctx);
	struct mpa_built built = {};
	int err;
	u8 *p;

	/* For kernel memory @user is NULL, and @span is all of the octets. */
	source.user = mpa_iter_span(from, &span);
	/* A monitor receives each FPDU separately. */
	if (n > span || tapped)
		max = 1;
	if (n > span) {
		source.user = NULL;
		span = left;
	}
	p = mpa_alt_fpdu(fpdu) ? NULL : mpa_txbuf_span(ctx, page, fpdu->len);
	if (p) {
		if (max > 1)
			max = min_t(u32, max, (page->size - page->offset) / fpdu->len);
		mpa_build_run(ctx, call, fpdu, p, &source, span, max, &built);
		err = built.fpdus ? mpa_txbuf_commit(tx->out, page,
						     built.fpdus * fpdu->len) :
				    -EFAULT;
	} else {
		if (call->headers && header)
			call->headers->write(call->headers, source.header.iov_base, call->done,
					     n, call->done + n == call->size);
		err = mpa_build_pieces(ctx, fpdu, page, &source);
		built = (struct mpa_built){ 1, n, fpdu->markers };
	}
	if (err)
		built.octets = 0;
	if (!source.user)
		iov_iter_revert(from, left - built.octets - iov_iter_count(from));
	else if (!err)
		mpa_iter_skip(from, built.octets);
	if (err)
		return err;
	if (mpa_tx_open(tx)) {
		WRITE_ONCE(tx->ulpdu_len, 0);
		mpa_txbuf_close(tx->out);
	}
	mpa_build_count(tx, fpdu->len, built.fpdus);
	octets = built.octets + built.fpdus * header;
	mpa_count_built(ctx, octets ? built.fpdus : 0, octets, built.markers);
	trace_mpa_tx(ctx->sk, position, built.fpdus, octets, built.markers);
	if (tapped)
		__mpa_tap_sent(ctx, fpdu, position);
	return built.octets;
}

/*
 * TUF only: add a whole ULPDU of @n octets to the last FPDU; the caller writes
 * its Length. No ULPDU is open. Return 0; or -ENOBUFS or -EFAULT with the
 * buffer and @from unchanged.
 */
int mpa_build_more(struct mpa_ctx *ctx, struct iov_iter *from, u32 n)
{
	struct page_frag *page = sk_page_frag(ctx->sk);
	struct mpa_tx *tx = &ctx->tx;
	u64 position = mpa_tx_position_now(tx);
	size_t count = iov_iter_count(from);
	u32 at = tx->out->len, left, run;
	int err = 0;

	for (left = n; left && !err; left -= run) {
		if (!mpa_pages_refill(ctx->sk, page, 32)) {
			err = -ENOBUFS;
			break;
		}
		run = min_t(u32, left, page->size - page->offset);
		err = copy_from_iter_full(page_address(page->page) + page->offset,
					  run, from) ?
		      mpa_txbuf_commit(tx->out, page, run) : -EFAULT;
	}
	if (err) {
		iov_iter_revert(from, count - iov_iter_count(from));
		mpa_txbuf_cut(tx->out, at);
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
