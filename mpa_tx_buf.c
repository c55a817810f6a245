// SPDX-License-Identifier: GPL-2.0
/* The buffer of octets for TCP: page fragments, and how they are filled. */

#include <linux/mm.h>

#include "mpa.h"
#include "mpa_pages.h"

/* Drop all octets. The caller has uncharged them. */
void mpa_txbuf_reset(struct mpa_txbuf *out)
{
	while (out->nr)
		put_page(out->frag[--out->nr].bv_page);
	if (out->own.page)
		put_page(out->own.page);
	out->own.page = NULL;
	out->room = 0;
	out->len = 0;
	out->sent = 0;
	out->split = MPA_SPLIT_NOT;
	out->piece = NULL;
	out->cur = 0;
	out->cur_off = 0;
}

/* Save the fill level, for mpa_txbuf_rewind(). */
void mpa_txbuf_mark(const struct mpa_txbuf *out, struct mpa_txbuf_mark *mark)
{
	mark->nr = out->nr;
	mark->last = out->nr ? out->frag[out->nr - 1].bv_len : 0;
	mark->room = out->room;
	mark->len = out->len;
	mark->cur = out->cur;
	mark->cur_off = out->cur_off;
	mark->own = out->own;
}

/* Drop what was added since @mark. */
void mpa_txbuf_rewind(struct mpa_txbuf *out, const struct mpa_txbuf_mark *mark)
{
	while (out->nr > mark->nr)
		put_page(out->frag[--out->nr].bv_page);
	if (out->nr)
		out->frag[out->nr - 1].bv_len = mark->last;
	out->room = mark->room;
	out->len = mark->len;
	out->cur = mark->cur;
	out->cur_off = mark->cur_off;

	/* The next octets follow the remaining ones. */
	if (out->own.page == mark->own.page) {
		out->own.offset = mark->own.offset;
	} else if (out->nr && out->frag[out->nr - 1].bv_page == mark->own.page) {
		put_page(out->own.page);
		out->own = mark->own;
		get_page(out->own.page);
	} else {
		out->own.offset = 0;
	}
}

/* Reserve @n more octets of the current page. */
static __always_inline int
mpa_txbuf_grow(struct mpa_txbuf *out, struct page_frag *page, u32 n)
{
	struct bio_vec *last = out->frag + out->nr - 1;

	if (out->nr && last->bv_page == page->page &&
	    last->bv_offset + last->bv_len == page->offset) {
		last->bv_len += n;
	} else {
		/* Not -ENOBUFS: waiting for memory would not help. */
		if (out->nr == MPA_TX_FRAGS)
			return -EMSGSIZE;
		get_page(page->page);
		bvec_set_page(&out->frag[out->nr++], page->page, n,
			      page->offset);
	}
	page->offset += n;
	out->room += n;
	return 0;
}

/*
 * Align the destination of ULPDU copies (FPDUs themselves are multiples of 4
 * octets): a ULPDU, or its part after a marker, begins at a multiple of 8, or
 * of 4 if the page is in use already.
 */
static __always_inline u32
mpa_txbuf_start(const struct mpa_tx *tx, const struct page_frag *page)
{
	u32 want = tx->format.marked ? tx->pos - MPA_MARKER_LEN : -MPA_LENGTH_LEN;
	u32 unit = page->offset ? 4 : 8;

	/* TUF's FPDUs have any length, and must be contiguous. */
	if (mpa_alt_format(&tx->format))
		return page->offset;
	return page->offset + (want - page->offset) % unit;
}

/*
 * The page for the next octets: the task's page fragment, if its free part
 * directly follows the last octets. Otherwise an open ULPDU would need a
 * fragment for each piece. So it gets separate pages, which are charged in
 * full.
 */
static struct page_frag *mpa_txbuf_page(struct mpa_ctx *ctx)
{
	struct page_frag *page = sk_page_frag(ctx->sk);
	struct mpa_txbuf *out = ctx->tx.out;
	const struct bio_vec *last = out->frag + out->nr - 1;

	if (!mpa_tx_open(&ctx->tx))
		return page;
	if (out->own.page || last->bv_page != page->page ||
	    last->bv_offset + last->bv_len != page->offset)
		return &out->own;
	return page;
}

static bool mpa_txbuf_refill(struct mpa_ctx *ctx, struct page_frag *page)
{
	struct page *fresh;

	if (page != &ctx->tx.out->own)
		return mpa_pages_refill(ctx->sk, page, 32);
	if (page->page && page->offset + 32 <= page->size)
		return true;
	fresh = alloc_page(ctx->sk->sk_allocation);
	if (!fresh)
		return false;
	if (page->page)
		put_page(page->page);
	page->page = fresh;
	page->offset = 0;
	page->size = PAGE_SIZE;
	return true;
}

/**
 * mpa_txbuf_reserve() - reserve room for more octets
 * @ctx:	the context
 * @len:	their number; for MPA the total is rounded up to a multiple of 4
 *
 * Return: 0, -ENOBUFS without memory, or -EMSGSIZE if they need too many
 * fragments.
 */
int mpa_txbuf_reserve(struct mpa_ctx *ctx, u32 len)
{
	struct page_frag *page = mpa_txbuf_page(ctx);
	struct mpa_txbuf *out = ctx->tx.out;
	int err;

	len += out->len;
	if (!mpa_alt_format(&ctx->tx.format))
		len = round_up(len, 4);
	while (out->room < len) {
		u32 n;

		page->offset = mpa_txbuf_start(&ctx->tx, page);
		if (!mpa_txbuf_refill(ctx, page))
			return -ENOBUFS;
		page->offset = mpa_txbuf_start(&ctx->tx, page);
		/* Multiples of 4, so that no marker or CRC field is split. */
		n = min_t(u32, len - out->room,
			  round_down(page->size - page->offset, 4));
		err = mpa_txbuf_grow(out, page, n);
		if (err)
			return err;
	}
	return 0;
}

/**
 * mpa_txbuf_span() - find contiguous memory for octets
 * @ctx:	the context; all reserved octets must have been filled
 * @page:	the task's page fragment
 * @len:	octets; mpa_txbuf_commit() adds them
 *
 * Return: where to write them, or NULL if that would waste memory, or without
 * memory.
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

static void mpa_txbuf_filled(struct mpa_txbuf *out)
{
	out->len = out->room;
	out->cur = out->nr - 1;
	out->cur_off = out->frag[out->cur].bv_len;
}

/**
 * mpa_txbuf_commit() - add the octets written at mpa_txbuf_span()
 * @ctx:	the context
 * @page:	as for mpa_txbuf_span()
 * @len:	as for mpa_txbuf_span()
 *
 * Context: process, socket lock held since mpa_txbuf_span().
 * Return: 0 or -EMSGSIZE.
 */
int mpa_txbuf_commit(struct mpa_ctx *ctx, struct page_frag *page, u32 len)
{
	int err = mpa_txbuf_grow(ctx->tx.out, page, len);

	if (!err)
		mpa_txbuf_filled(ctx->tx.out);
	return err;
}

/* Find octet @at. @run: the number of contiguous octets from it on */
const u8 *mpa_txbuf_at(const struct mpa_txbuf *out, u32 at, u32 *run)
{
	const struct bio_vec *frag = out->frag;

	for (; at >= frag->bv_len; frag++)
		at -= frag->bv_len;
	*run = frag->bv_len - at;
	return page_address(frag->bv_page) + frag->bv_offset + at;
}

/*
 * Find where to write next. @run: the number of contiguous octets reserved
 * there
 */
u8 *mpa_txbuf_tail(struct mpa_txbuf *out, u32 *run)
{
	struct bio_vec *frag = out->frag + out->cur;

	if (out->cur_off == frag->bv_len) {
		frag = out->frag + ++out->cur;
		out->cur_off = 0;
	}
	*run = frag->bv_len - out->cur_off;
	return page_address(frag->bv_page) + frag->bv_offset + out->cur_off;
}

/* Add @n octets written at the tail. */
void mpa_txbuf_advance(struct mpa_txbuf *out, u32 n)
{
	out->len += n;
	out->cur_off += n;
}

/* Memory to charge. Of a shared page only the part in use counts, as in TCP. */
u32 mpa_txbuf_memory(const struct mpa_txbuf *out)
{
	u32 held = out->room;

	if (out->own.page)
		held += out->own.size - out->own.offset;
	return held;
}

/* CRC of the octets from @at on, for mpa_crc_put() */
u32 mpa_txbuf_crc(struct mpa_txbuf *out, u32 at)
{
	u32 crc = MPA_CRC_INIT, start = 0, i;

	for (i = 0; start < out->len; start += out->frag[i++].bv_len) {
		struct bio_vec *frag = out->frag + i;
		const u8 *data = page_address(frag->bv_page) + frag->bv_offset;
		u32 end = min(start + frag->bv_len, out->len);

		if (at >= end)
			continue;
		crc = mpa_crc_update(crc, data + at - start, end - at);
		at = end;
	}
	return crc;
}
