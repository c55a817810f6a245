// SPDX-License-Identifier: GPL-2.0
/*
 * Reading FPDUs in TCP's queue, RFC 5044 section 6: headers, CRCs, markers,
 * ULPDUs. These functions return what is wrong with an FPDU; the callers handle
 * it.
 */

#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "mpa.h"
#include "mpa_pages.h"

/*
 * ---- the stash: an FPDU that does not fit into TCP's receive buffer ----
 *
 * Its pages are filled as octets arrive, which lets the peer continue to send.
 * They are charged to the socket and to its memory control group.
 */

struct mpa_stash_filling {
	struct mpa_stash *stash;
	struct sock *sk;
	u32 off;
};

static struct page *mpa_stash_page(struct sock *sk)
{
	struct page *page = alloc_page(sk->sk_allocation);

	if (page)
		mpa_tcp_charge_pages(sk, PAGE_SIZE);
	return page;
}

static int mpa_stash_octets(void *arg, const u8 *data, u32 len)
{
	struct mpa_stash_filling *filling = arg;

	while (len) {
		struct page **page = filling->stash->page +
				     (filling->off >> PAGE_SHIFT);
		u32 skip = offset_in_page(filling->off);
		u32 n = min_t(u32, len, PAGE_SIZE - skip);

		if (!*page)
			*page = mpa_stash_page(filling->sk);
		if (!*page)
			return -ENOMEM;
		memcpy(page_address(*page) + skip, data, n);
		filling->off += n;
		data += n;
		len -= n;
	}
	return 0;
}

/**
 * mpa_stash_fill() - copy octets from TCP's receive queue without consuming
 * them
 * @stash:	allocated if it is NULL
 * @at:		where they are
 * @off:	offset of the first of them in the FPDU
 * @len:	octets to copy, all of which have arrived
 * @filled:	set to the number copied
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int mpa_stash_fill(struct mpa_stash **stash, struct mpa_cursor *at, u32 off,
		   u32 len, u32 *filled)
{
	struct mpa_stash_filling filling = { .sk = at->sk, .off = off };
	int err;

	*filled = 0;
	if (!*stash) {
		*stash = kzalloc(sizeof(**stash), at->sk->sk_allocation);
		if (!*stash)
			return -ENOMEM;
		mpa_tcp_charge_pages(at->sk, sizeof(**stash));
	}
	filling.stash = *stash;
	err = mpa_cursor_walk(at, len, mpa_stash_octets, &filling);
	*filled = filling.off - off;
	return err;
}

/* Call @fn for octets of an FPDU, as mpa_cursor_walk() does. */
static int mpa_stash_walk(const struct mpa_stash *stash, u32 off, u32 len,
			  mpa_walk_fn fn, void *arg)
{
	while (len) {
		u32 skip = offset_in_page(off);
		u32 n = min_t(u32, len, PAGE_SIZE - skip);
		int err;

		err = fn(arg, page_address(stash->page[off >> PAGE_SHIFT]) +
			 skip, n);
		if (err)
			return err;
		off += n;
		len -= n;
	}
	return 0;
}

void mpa_stash_free(struct mpa_stash *stash, struct sock *sk)
{
	u32 i;

	for (i = 0; i < MPA_STASH_PAGES && stash->page[i]; i++)
		put_page(stash->page[i]);
	mpa_tcp_uncharge_pages(sk, sizeof(*stash) + i * PAGE_SIZE);
	kfree(stash);
}

/* ---- reading ---- */

struct mpa_read_user {
	void __user *to;
};

static __always_inline bool mpa_read_to_user(void *arg, const u8 *from, u32 len)
{
	struct mpa_read_user *user = arg;

	if (mpa_copy_to_user(user->to, from, len))
		return false;
	user->to += len;
	return true;
}

static bool mpa_read_to_iter(void *to, const u8 *from, u32 len)
{
	return copy_to_iter(from, len, to) == len;
}

static int mpa_read_copy_octets(void *to, const u8 *data, u32 len)
{
	void __user *user = mpa_iter_user(to, len);

	if (user) {
		if (mpa_copy_to_user(user, data, len))
			return -EFAULT;
		mpa_iter_skip(to, len);
		return 0;
	}
	return mpa_read_to_iter(to, data, len) ? 0 : -EFAULT;
}

/* Call @fn for octets of an FPDU from @off on; @from->at must be there. */
static int mpa_read_walk(const struct mpa_rx_source *from, u32 off, u32 len,
			 mpa_walk_fn fn, void *arg)
{
	if (from->stash)
		return mpa_stash_walk(from->stash, off, len, fn, arg);
	return mpa_cursor_walk(from->at, len, fn, arg);
}

/*
 * Copy a ULPDU up to its octet @end, from FPDU offset @pick->off on, where
 * @from->at is.
 */
static int mpa_read_pick(const struct mpa_rx_source *from, struct mpa_pick *pick,
			 u32 end, struct iov_iter *to)
{
	u32 len = mpa_fpdu_offset(pick->fpdu, end) - pick->off;
	size_t room = iov_iter_count(to);
	int err;

	pick->copy = mpa_read_copy_octets;
	pick->to = to;
	err = mpa_read_walk(from, pick->off, len, mpa_pick_octets, pick);
	if (err)
		iov_iter_revert(to, room - iov_iter_count(to));
	return err;
}

/* TUF: skip its markers. */
static noinline int mpa_read_copy_alt(const struct mpa_fpdu *fpdu,
				      const u8 *data, struct iov_iter *to, u32 n)
{
	struct mpa_pick pick = { .copy = mpa_read_copy_octets, .to = to };
	u32 end = mpa_fpdu_offset(fpdu, n), off;
	size_t room = iov_iter_count(to);
	int err;

	mpa_pick_begin(&pick, fpdu, 0);
	off = pick.off;
	err = end > off ? mpa_pick_octets(&pick, data + off, end - off) : 0;
	if (err)
		iov_iter_revert(to, room - iov_iter_count(to));
	return err;
}

/* Copy the first @n octets of a contiguous FPDU's ULPDU. */
static int mpa_read_copy_linear(const struct mpa_fpdu *fpdu, const u8 *data,
				struct iov_iter *to, u32 n)
{
	struct mpa_read_user user = { .to = mpa_iter_user(to, n) };
	size_t room = iov_iter_count(to);

	if (mpa_alt_fpdu(fpdu))
		return mpa_read_copy_alt(fpdu, data, to, n);
	if (user.to) {
		if (!mpa_fpdu_read(fpdu, data, n, mpa_read_to_user, &user))
			return -EFAULT;
		mpa_iter_skip(to, n);
		return 0;
	}
	if (mpa_fpdu_read(fpdu, data, n, mpa_read_to_iter, to))
		return 0;
	iov_iter_revert(to, room - iov_iter_count(to));
	return -EFAULT;
}

static noinline int
mpa_read_pieces(const struct mpa_rx_source *from,
		const struct mpa_fpdu *fpdu, bool crc, struct iov_iter *to,
		    u32 n, enum mpa_error *code)
{
	struct mpa_cursor again = *from->at;
	struct mpa_rx_source ulpdu = { .stash = from->stash, .at = &again };
	struct mpa_verify verify;
	struct mpa_pick pick;
	int err;

	mpa_verify_begin(&verify, fpdu, crc);
	err = mpa_read_walk(from, 0, fpdu->len, mpa_verify_octets, &verify);
	if (!err) {
		*code = mpa_verify_end(&verify);
		if (*code || !to)
			return 0;
		mpa_pick_begin(&pick, fpdu, 0);
		mpa_cursor_skip(&again, pick.off);
		err = mpa_read_pick(&ulpdu, &pick, n, to);
	}
	/* A FIN was counted as an octet, or octets are in device memory. */
	if (err == -ENODATA) {
		*code = MPA_ERR_TCP;
		err = 0;
	}
	return err;
}

/**
 * mpa_read_fpdu() - verify an FPDU, then copy octets of its ULPDU
 * @from:	where the whole FPDU is; unless stashed, @from->at is moved to
 *		its end
 * @fpdu:	its layout
 * @crc:	CRCs are checked
 * @to:		where octets go, or NULL
 * @n:		the number to copy
 * @code:	set to what is wrong with the FPDU, or MPA_ERR_NONE; valid if 0
 *		is returned
 *
 * Context: process, unless @to is NULL.
 * Return: 0, or -EFAULT with @to unchanged. If the FPDU is not valid no octet
 * is copied.
 */
int mpa_read_fpdu(const struct mpa_rx_source *from, const struct mpa_fpdu *fpdu,
		  bool crc, struct iov_iter *to, u32 n, enum mpa_error *code)
{
	const u8 *data = from->stash ? NULL :
				       mpa_cursor_data(from->at, fpdu->len);
	int err = 0;

	if (!data)
		return mpa_read_pieces(from, fpdu, crc, to, n, code);
	*code = mpa_verify_linear(fpdu, data, crc);
	if (!*code && to)
		err = mpa_read_copy_linear(fpdu, data, to, n);
	mpa_cursor_pass(from->at, fpdu->len);
	return err;
}

static int mpa_read_copy_head(void *arg, const u8 *data, u32 len)
{
	u8 **to = arg;

	memcpy(*to, data, len);
	*to += len;
	return 0;
}

/* Copy a header that is not contiguous. @stashed: its octets in the stash. */
static noinline bool mpa_read_head_pieces(const struct mpa_rx_source *from,
					  u8 *head, u32 stashed, u32 len)
{
	struct mpa_cursor here = *from->at;

	stashed = min(stashed, len);
	if (stashed)
		mpa_stash_walk(from->stash, 0, stashed, mpa_read_copy_head,
			       &head);
	return !mpa_cursor_walk(&here, len - stashed, mpa_read_copy_head, &head);
}

/* Read a marker. Return: whether it was read. */
bool mpa_read_marker(struct mpa_cursor *at, u8 *marker)
{
	const u8 *data = mpa_cursor_data(at, MPA_MARKER_LEN);
	struct mpa_rx_source from = { .at = at };

	if (!data)
		return mpa_read_head_pieces(&from, marker, 0, MPA_MARKER_LEN);
	memcpy(marker, data, MPA_MARKER_LEN);
	return true;
}

/**
 * mpa_read_head() - read an FPDU's length, and compute its layout
 * @from:	where it is
 * @stashed:	its octets in the stash; @from->at is after those
 * @have:	octets from its start on, in stash and queue
 * @pos:	its stream position
 * @rx:		state of the receiver
 * @may_be_empty: it may be RFC 6581's FPDU without a ULPDU
 * @fpdu:	filled in for MPA_HEAD_GOOD
 */
enum mpa_head mpa_read_head(const struct mpa_rx_source *from,
			    u32 stashed, u32 have, u64 pos,
				   const struct mpa_rx *rx, bool may_be_empty,
				   struct mpa_fpdu *fpdu)
{
	u32 len = mpa_framing_head_len(&rx->format, pos), ulpdu_len;
	u8 pieces[MPA_ANY_HEAD_MAX];
	const u8 *head;

	if (have < len)
		return MPA_HEAD_MORE;
	head = stashed ? NULL : mpa_cursor_data(from->at, len);
	if (!head) {
		if (!mpa_read_head_pieces(from, pieces, stashed, len))
			return MPA_HEAD_MORE;
		head = pieces;
	}
	if (mpa_alt_format(&rx->format))
		return mpa_alt_head(rx, pos, head, fpdu);
	ulpdu_len = mpa_ulpdu_length(head, len);
	if (!mpa_ulpdu_len_good(ulpdu_len) && !(may_be_empty && !ulpdu_len))
		return MPA_HEAD_BAD;
	mpa_fpdu_init(fpdu, pos, ulpdu_len, rx->format.marked);
	return MPA_HEAD_GOOD;
}

/*
 * Call @show for @n octets of a verified ULPDU, from @first on; @from->at is
 * after @taken octets of the FPDU. Nonzero from @show ends the walk. Return: 0,
 * what @show returned, or -ENODATA if octets cannot be read.
 */
int mpa_read_show(const struct mpa_rx_source *from, const struct mpa_fpdu *fpdu,
		  u32 taken, u32 first, u32 n,
		  int (*show)(void *arg, const u8 *data, u32 len), void *arg)
{
	struct mpa_pick pick = { .copy = show, .to = arg };

	mpa_pick_begin(&pick, fpdu, first);
	if (!from->stash)
		mpa_cursor_skip(from->at, pick.off - taken);
	return mpa_read_walk(from, pick.off,
			     mpa_fpdu_offset(fpdu, first + n) - pick.off,
			     mpa_pick_octets, &pick);
}

/*
 * Copy octets of a verified ULPDU; arguments as for mpa_read_show(). Process
 * context. Return: 0, or an errno with @to unchanged.
 */
int mpa_read_ulpdu(const struct mpa_rx_source *from,
		   const struct mpa_fpdu *fpdu, u32 taken, u32 first,
		   struct iov_iter *to, u32 n)
{
	struct mpa_pick pick;

	mpa_pick_begin(&pick, fpdu, first);
	if (!from->stash)
		mpa_cursor_skip(from->at, pick.off - taken);
	return mpa_read_pick(from, &pick, first + n, to);
}

/* ---- many FPDUs at a time ---- */

/* Contiguous FPDUs, and where their ULPDUs go. */
struct mpa_read_span {
	const u8	*data;		/* the first FPDU */
	const u8	*end;		/* of the contiguous octets; the last FPDU may be cut */
	void __user	*to;		/* destination of its ULPDU */
	size_t		room;		/* octets that fit there */
	u32		*lengths;	/* destination of its ULPDU's length */
	u32		max;		/* maximum number of FPDUs */
};

/* Parse the first FPDU, and those of equal length to verify with it. */
static __always_inline u32
mpa_read_lay_out(const struct mpa_read_span *span, u32 max, u32 pos, bool marked,
		 struct mpa_fpdu *fpdu)
{
	const u8 *data = span->data;
	u32 nr;

	if (!max || !mpa_fpdu_parse(fpdu, data, span->end - data, pos, marked))
		return 0;
	max = min(max, mpa_crc_parallel(fpdu->len));
	for (nr = 1; nr < max; nr++) {
		data += fpdu->len;
		pos += fpdu->len;
		if (!mpa_fpdu_parse(fpdu + nr, data, span->end - data, pos,
				    marked) || fpdu[nr].len != fpdu->len)
			break;
	}
	return nr;
}

/**
 * mpa_read_good() - count the next good FPDUs in contiguous memory
 * @rx:		state of the receiver
 * @data:	the first of them, at stream position @pos
 * @have:	contiguous octets there
 * @pos:	stream position
 * @fpdu:	set to the layout of up to MPA_READ_GOOD_MAX of them
 */
u32 mpa_read_good(const struct mpa_rx *rx, const u8 *data, u32 have, u32 pos,
		  struct mpa_fpdu *fpdu)
{
	struct mpa_read_span span = { .data = data, .end = data + have };
	u32 n = mpa_read_lay_out(&span, MPA_READ_GOOD_MAX, pos,
				 rx->format.marked, fpdu), i;

	if (rx->format.crc && n)
		n = mpa_crc_match_many(data, fpdu->len, n);
	for (i = 0; i < n; i++, data += fpdu->len)
		if (fpdu[i].markers && !mpa_fpdu_markers_good(fpdu + i, data))
			break;
	return i;
}

/* Read FPDUs with markers, from @pos on. Return: their number. */
static u32 mpa_read_marked(struct mpa_read_span *span, u32 pos, bool crc,
			   u32 *markers)
{
	struct mpa_fpdu some[MPA_READ_GOOD_MAX], *fpdu;
	u32 nr = 0, n, good;

	do {
		n = mpa_read_lay_out(span, span->max - nr, pos, true, some);
		good = n;
		if (crc && n)
			good = mpa_crc_match_many(span->data, some->len, n);
		for (fpdu = some; fpdu < some + good; fpdu++) {
			struct mpa_read_user user = { .to = span->to };
			u32 ulpdu_len = fpdu->ulpdu_len;

			if (ulpdu_len > span->room ||
			    !mpa_fpdu_markers_good(fpdu, span->data) ||
			    !mpa_fpdu_read(fpdu, span->data, ulpdu_len,
					       mpa_read_to_user, &user))
				return nr;
			span->lengths[nr++] = ulpdu_len;
			span->to = user.to;
			span->room -= ulpdu_len;
			span->data += fpdu->len;
			*markers += fpdu->markers;
			pos += fpdu->len;
		}
	} while (n && good == n);
	return nr;
}

/* Count FPDUs of equal length, without markers, to verify together. */
static __always_inline u32
mpa_read_count_equal(const struct mpa_read_span *span, u32 ulpdu_len, u32 len, u32 max)
{
	const u8 *data = span->data;
	u32 nr;

	max = min(max, mpa_crc_parallel(len));
	if (span->end - data < max * len || span->room < max * ulpdu_len)
		return 1;
	for (nr = 1; nr < max; nr++) {
		data += len;
		if (mpa_ulpdu_length(data, MPA_LENGTH_LEN) != ulpdu_len)
			break;
	}
	return nr;
}

/* As mpa_read_marked(), for FPDUs without markers. */
static u32 mpa_read_plain(struct mpa_read_span *span, bool crc)
{
	u32 nr = 0, ulpdu_len, len, n, good, i;
	/* A copy that the compiler can keep in registers. */
	struct mpa_read_span at = *span;

	do {
		if (nr == at.max || at.end - at.data < MPA_LENGTH_LEN)
			break;
		ulpdu_len = mpa_ulpdu_length(at.data, MPA_LENGTH_LEN);
		len = mpa_fpdu_plain_len(ulpdu_len);
		if (!mpa_ulpdu_len_good(ulpdu_len) || ulpdu_len > at.room ||
		    len > at.end - at.data)
			break;
		n = mpa_read_count_equal(&at, ulpdu_len, len, at.max - nr);
		good = crc ? mpa_crc_match_many(at.data, len, n) : n;
		for (i = 0; i < good; i++) {
			if (mpa_copy_to_user(at.to, at.data + MPA_LENGTH_LEN,
					     ulpdu_len))
				break;
			at.lengths[nr++] = ulpdu_len;
			at.to += ulpdu_len;
			at.room -= ulpdu_len;
			at.data += len;
		}
	} while (i == n);
	span->data = at.data;
	span->room = at.room;
	return nr;
}

/**
 * mpa_read_many() - verify FPDUs in contiguous memory, and copy their ULPDUs to
 * a contiguous buffer
 * @rx:		state of the receiver
 * @at:		start of the first FPDU; moved to the end of the last
 * @pos:	its stream position
 * @have:	octets in TCP's queue from there on, without a gap
 * @to:		destination of the ULPDUs
 * @octets:	room there
 * @lengths:	set to the length of each ULPDU
 * @max:	maximum number of FPDUs
 * @more:	incremented by their totals
 *
 * Stops at a bad FPDU and does not read TUF: mpa_read_fpdu() handles both.
 * Context: process.
 * Return: the number of FPDUs read.
 */
u32 mpa_read_many(const struct mpa_rx *rx, struct mpa_cursor *at, u32 pos,
		  u32 have, struct iov_iter *to, size_t octets, u32 *lengths,
		  u32 max, struct mpa_rx_more *more)
{
	struct mpa_read_span span = { .lengths = lengths, .max = max };
	const u8 *data;
	size_t room;
	u32 nr;

	if (mpa_alt_format(&rx->format))
		return 0;
	/* All octets if they are contiguous, otherwise only the first piece. */
	data = mpa_cursor_data(at, have) ?: mpa_cursor_data(at, 1);
	span.to = mpa_iter_span(to, &room);
	if (!data || !span.to)
		return 0;
	span.data = data;
	room = min(room, octets);
	span.room = room;
	span.end = data + min(have, at->left);

	if (rx->format.marked)
		nr = mpa_read_marked(&span, pos, rx->format.crc, &more->markers);
	else
		nr = mpa_read_plain(&span, rx->format.crc);
	if (!nr)
		return 0;
	mpa_cursor_pass(at, span.data - data);
	mpa_iter_skip(to, room - span.room);
	more->ulpdus += nr;
	more->octets += room - span.room;
	more->len += span.data - data;
	return nr;
}
