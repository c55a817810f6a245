// SPDX-License-Identifier: GPL-2.0
/*
 * FPDUs around octets that stay where they are: a user inside the kernel has said
 * that they do not change any more (MPA_SEND_STABLE). Only length, header, pad and
 * CRC are put into memory of ours. RFC 5044 section 4.
 */

#include <linux/bvec.h>
#include <linux/highmem.h>
#include <linux/net.h>
#include <linux/uio.h>

#include "mpa.h"
#include "mpa_pages.h"

/*
 * Octets that a piece has at least, on the average: each one is a fragment of an skb.
 * For fewer the copy is cheaper; measured by bench/kmod/mpa_bench_stable.c.
 */
#define MPA_STABLE_PIECE	2048
/* Pieces without those that hold length and header, and pad and CRC. */
#define MPA_STABLE_PIECES	(MPA_SKB_FRAGS - 2)

/* A page that TCP may refer to, and whose octets can be read here. */
static bool mpa_stable_page(struct page *page)
{
	return sendpage_ok(page) && !PageHighMem(page);
}

static struct bvec_iter mpa_stable_begin(const struct iov_iter *from, u32 n)
{
	struct bvec_iter begin = { .bi_size = from->iov_offset + n };

	bvec_iter_advance(from->bvec, &begin, from->iov_offset);
	return begin;
}

/**
 * mpa_stable_pieces() - see whether octets are better sent where they are
 * @from:	the octets
 * @n:		how many of them, for one FPDU without markers
 *
 * Context: any.
 * Return: in how many pieces they are, none of which crosses the end of a page; 0: they
 * are to be copied.
 */
u32 mpa_stable_pieces(const struct iov_iter *from, u32 n)
{
	struct bvec_iter start, i;
	struct bio_vec piece;
	u32 pieces = 0;

	if (!iov_iter_is_bvec(from) || n < MPA_STABLE_PIECE ||
	    from->iov_offset > U32_MAX - n)
		return 0;
	start = mpa_stable_begin(from, n);
	for_each_bvec(piece, from->bvec, i, start) {
		if (!piece.bv_len)
			continue;
		if (++pieces > MPA_STABLE_PIECES ||
		    pieces * MPA_STABLE_PIECE > n ||
		    !mpa_stable_page(piece.bv_page))
			return 0;
	}
	return pieces;
}

static int mpa_stable_refer(struct mpa_txbuf *out, struct iov_iter *from, u32 n)
{
	struct bvec_iter start = mpa_stable_begin(from, n), i;
	struct bio_vec piece;
	int err;

	for_each_bvec(piece, from->bvec, i, start) {
		if (!piece.bv_len)
			continue;
		err = mpa_txbuf_refer(out, &piece);
		if (err)
			return err;
	}
	iov_iter_advance(from, n);
	return 0;
}

/**
 * mpa_stable_make() - make an FPDU around octets that stay where they are
 * @ctx:	the context, with all FPDUs finished
 * @fpdu:	the FPDU, without markers
 * @header:	first octets of its ULPDU, which are copied
 * @from:	those behind them, for which mpa_stable_pieces() is not 0; moved on
 *
 * Context: process, socket lock held.
 * Return: 0; or -ENOBUFS or -EMSGSIZE, and nothing has changed: it does not work
 * like this, or not now.
 */
int mpa_stable_make(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		    const struct kvec *header, struct iov_iter *from)
{
	u32 front = MPA_LENGTH_LEN + header->iov_len, crc;
	struct page_frag *page = sk_page_frag(ctx->sk);
	u32 n = fpdu->ulpdu_len - header->iov_len;
	struct mpa_txbuf *out = ctx->tx.out;
	u32 back = fpdu->len - front - n;
	struct mpa_txbuf_mark mark;
	u32 at = out->len;
	int err;
	u8 *p;

	/* Both ends are side by side, so that the next FPDU's follow on. */
	p = mpa_txbuf_span(ctx, page, round_up(front + back, 4));
	if (!p)
		return -ENOBUFS;
	put_unaligned_be16(fpdu->ulpdu_len, p);
	memcpy(p + MPA_LENGTH_LEN, header->iov_base, header->iov_len);
	/* Section 4.1: any CRC if CRCs are not enabled. */
	memset(p + front, 0, back);

	mpa_txbuf_mark(out, &mark);
	err = mpa_txbuf_commit(ctx, page, front) ?:
	      mpa_stable_refer(out, from, n);
	if (!err && ctx->tx.crc) {
		crc = mpa_txbuf_crc(out, at);
		crc = mpa_crc_update(crc, p + front, back - MPA_CRC_LEN);
		mpa_crc_put(crc, p + front + back - MPA_CRC_LEN);
	}
	err = err ?: mpa_txbuf_commit(ctx, page, back);
	if (err)
		mpa_txbuf_rewind(out, &mark);
	return err;
}
