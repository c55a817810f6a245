// SPDX-License-Identifier: GPL-2.0
/*
 * Reading FPDUs in TCP's queue (RFC 5044 section 6): headers, CRCs, markers, ULPDUs.
 * These functions return the error of a bad FPDU. The caller acts on it.
 */

#include <linux/uio.h>

#include "mpa.h"
#include "mpa_pages.h"

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

/*
 * Call @show for @n octets of a verified ULPDU, from octet @first on, until @show
 * returns nonzero. @at is at or before octet @first. Return: 0, what @show returned, or
 * -ENODATA if octets cannot be read.
 */
int mpa_read_show(const struct mpa_rx *rx, struct mpa_cursor *at,
		  const struct mpa_fpdu *fpdu, u32 first, u32 n,
		  int (*show)(void *arg, const u8 *data, u32 len), void *arg)
{
	struct mpa_pick pick = { .copy = show, .to = arg };

	mpa_pick_begin(&pick, fpdu, first);
	mpa_cursor_skip(at, rx->seq + fpdu->pos + pick.off - at->seq);
	return mpa_cursor_walk(at, mpa_fpdu_offset(fpdu, first + n) - pick.off,
			       mpa_pick_octets, &pick);
}

/*
 * Copy octets of a verified ULPDU to @to; other arguments as in mpa_read_show().
 * Process context. Return: 0, or an errno with @to unchanged.
 */
int mpa_read_ulpdu(const struct mpa_rx *rx, struct mpa_cursor *at,
		   const struct mpa_fpdu *fpdu, u32 first, struct iov_iter *to,
		   u32 n)
{
	size_t room = iov_iter_count(to);
	int err;

	err = mpa_read_show(rx, at, fpdu, first, n, mpa_read_copy_octets, to);
	if (err)
		iov_iter_revert(to, room - iov_iter_count(to));
	return err;
}

static int mpa_read_copy_linear(const struct mpa_fpdu *fpdu, const u8 *data,
				struct iov_iter *to, u32 n)
{
	struct mpa_read_user user = { .to = mpa_iter_user(to, n) };
	size_t room = iov_iter_count(to);

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
mpa_read_pieces(const struct mpa_rx *rx, struct mpa_cursor *at,
		const struct mpa_fpdu *fpdu, struct iov_iter *to, u32 n,
		enum mpa_error *code)
{
	struct mpa_cursor again = *at;
	struct mpa_verify verify;
	int err;

	mpa_verify_begin(&verify, fpdu, rx->format.crc);
	err = mpa_cursor_walk(at, fpdu->len, mpa_verify_octets, &verify);
	if (!err) {
		*code = mpa_verify_end(&verify);
		if (*code || !to)
			return 0;
		err = mpa_read_ulpdu(rx, &again, fpdu, 0, to, n);
	}
	/* TCP counted the FIN as an octet, or octets are in device memory. */
	if (err == -ENODATA) {
		*code = MPA_ERR_TCP;
		err = 0;
	}
	return err;
}

/**
 * mpa_read_fpdu() - verify an FPDU, then copy octets of its ULPDU
 * @rx:		state of the receiver
 * @at:		start of the FPDU, which has arrived completely; moved to its end
 * @fpdu:	layout of the FPDU
 * @to:		destination of the octets, or NULL
 * @n:		number of octets to copy
 * @code:	set to the FPDU's error or MPA_ERR_NONE, if 0 is returned
 *
 * Context: process, unless @to is NULL.
 * Return: 0, or -EFAULT with @to unchanged. If the FPDU is not valid, no octet is
 * copied.
 */
int mpa_read_fpdu(const struct mpa_rx *rx, struct mpa_cursor *at,
		  const struct mpa_fpdu *fpdu, struct iov_iter *to, u32 n,
		  enum mpa_error *code)
{
	const u8 *data = mpa_cursor_data(at, fpdu->len);
	int err = 0;

	if (!data || mpa_alt_fpdu(fpdu))
		return mpa_read_pieces(rx, at, fpdu, to, n, code);
	*code = mpa_verify_linear(fpdu, data, rx->format.crc);
	if (!*code && to)
		err = mpa_read_copy_linear(fpdu, data, to, n);
	mpa_cursor_skip(at, fpdu->len);
	return err;
}

static noinline int mpa_read_peek_pieces(const struct mpa_cursor *at, u8 *to,
					 u32 len)
{
	struct mpa_cursor here = *at;

	return mpa_cursor_copy(&here, to, len);
}

/*
 * Return the next @len octets, at most MPA_ANY_HEAD_MAX, without moving the cursor.
 * Return NULL if they cannot be read. Octets that are not contiguous are copied to
 * @pieces.
 */
const u8 *mpa_read_peek(struct mpa_cursor *at, u8 *pieces, u32 len)
{
	const u8 *data = mpa_cursor_data(at, len);

	if (data)
		return data;
	return mpa_read_peek_pieces(at, pieces, len) ? NULL : pieces;
}

/*
 * Read an FPDU's length. For MPA_HEAD_GOOD set @fpdu to the FPDU's layout. The FPDU
 * begins at @at, at stream position @pos; @have octets are there without a gap.
 */
enum mpa_head mpa_read_head(const struct mpa_rx *rx, struct mpa_cursor *at,
			    u32 have, u64 pos, struct mpa_fpdu *fpdu)
{
	u32 len = mpa_framing_head_len(&rx->format, pos), ulpdu_len;
	u8 pieces[MPA_ANY_HEAD_MAX];
	const u8 *head;

	if (have < len)
		return MPA_HEAD_MORE;
	head = mpa_read_peek(at, pieces, len);
	if (!head)
		return MPA_HEAD_MORE;
	if (mpa_alt_format(&rx->format))
		return mpa_alt_head(rx, pos, head, fpdu);
	ulpdu_len = mpa_ulpdu_length(head, len);
	/* RFC 6581 section 9.2: only the first FPDU may have no ULPDU, if negotiated. */
	if (!mpa_ulpdu_len_good(ulpdu_len) && (ulpdu_len || pos || !rx->rtr))
		return MPA_HEAD_BAD;
	mpa_fpdu_init(fpdu, pos, ulpdu_len, rx->format.marked);
	return MPA_HEAD_GOOD;
}

/* ---- many FPDUs at a time ---- */

/* Contiguous FPDUs, and the destination of their ULPDUs. */
struct mpa_read_span {
	const u8	*data;		/* the first FPDU */
	const u8	*end;		/* end of the octets, maybe within an FPDU */
	void __user	*to;		/* destination of the first ULPDU */
	size_t		room;		/* octets that fit there */
	u32		*lengths;	/* destination of the ULPDUs' lengths */
	u32		max;		/* maximum number of FPDUs */
};

/* Parse the first FPDU and the next FPDUs of equal length, to be verified together. */
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

/*
 * Count the next good FPDUs in @have contiguous octets; the first one is at stream
 * position @pos. Set @fpdu to the layouts of up to MPA_READ_GOOD_MAX of them.
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

static u32 mpa_read_plain(struct mpa_read_span *span, bool crc)
{
	u32 nr = 0, ulpdu_len, len, n, good, i;
	/* A local copy, which the compiler can keep in registers. */
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
 * @at:		start of the first FPDU; moved to the end of the last one
 * @pos:	stream position of @at
 * @have:	number of octets in TCP's queue from @at on, without a gap
 * @to:		destination of the ULPDUs
 * @octets:	maximum number of octets of ULPDUs
 * @lengths:	set to the length of each ULPDU
 * @max:	maximum number of FPDUs
 * @more:	add the totals of these FPDUs here
 *
 * Stops at a bad FPDU, and reads none of TUF: mpa_read_fpdu() handles both.
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
	/* Read all octets if they are contiguous, otherwise only the first piece. */
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
	mpa_cursor_skip(at, span.data - data);
	mpa_iter_skip(to, room - span.room);
	more->ulpdus += nr;
	more->octets += room - span.room;
	more->len += span.data - data;
	return nr;
}
