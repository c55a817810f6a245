/* SPDX-License-Identifier: GPL-2.0 */
/* Floor 0: memory. Pages that are used again, and the buffers of programs. */
#ifndef _MPA_PAGES_H
#define _MPA_PAGES_H

#include <linux/uaccess.h>
#include <linux/uio.h>

#include "compat.h"

struct page_frag;
struct sock;

/* ---- pages: mpa_pages.c ---- */

bool mpa_pages_refill(struct sock *sk, struct page_frag *frag, u32 len);
unsigned long mpa_pages_held(void);
int mpa_pages_init(void);
void mpa_pages_exit(void);

/* ---- buffers of programs ---- */

/**
 * mpa_copy_to_user() - copy octets of a packet to a program
 * @to:		where they go
 * @from:	where they are: in an skb, or in a page of ours
 * @n:		how many
 *
 * copy_to_user() without the check of hardened usercopy that they stay within
 * one object: done for each piece of each FPDU it costs more than the copy. Most
 * octets lie in pages, of which that check knows only the size; that they
 * belong to the skb is sure from the lengths of skbs and fragments, by which
 * mpa_tcp_in.c goes, and mpa_rx_read.c by pages.
 *
 * Context: process.
 * Return: how many octets have not been copied.
 */
static inline unsigned long mpa_copy_to_user(void __user *to, const void *from,
					     unsigned long n)
{
	return _copy_to_user(to, from, n);
}

/**
 * mpa_iter_span() - where the next octets of a program's buffer are
 * @iter:	the buffer
 * @n:		set to how many octets lie there side by side
 *
 * For mpa_copy_to_user() and _copy_from_user(). copy_to_iter() for each FPDU
 * would take a tenth of all instructions.
 *
 * Return: NULL if they are in the kernel's memory, or if there are none: behind
 * the last octet there may be no iovec.
 */
static inline void __user *mpa_iter_span(const struct iov_iter *iter, size_t *n)
{
	const struct iovec *iov;

	*n = iov_iter_count(iter);
	if (!*n)
		return NULL;
	if (iter_is_ubuf(iter))
		return iter->ubuf + iter->iov_offset;
	if (!iter_is_iovec(iter))
		return NULL;
	iov = iter_iov(iter);
	*n = min(*n, iov->iov_len - iter->iov_offset);
	return iov->iov_base + iter->iov_offset;
}

/* The same if the next @n octets lie side by side, else NULL. */
static inline void __user *mpa_iter_user(const struct iov_iter *iter, size_t n)
{
	size_t span;
	void __user *user = mpa_iter_span(iter, &span);

	return n <= span ? user : NULL;
}

/* What was at mpa_iter_span() has been copied. */
static inline void mpa_iter_skip(struct iov_iter *iter, size_t n)
{
	if (iter_is_ubuf(iter) || n == iter->count ||
	    n < iter_iov(iter)->iov_len - iter->iov_offset) {
		iter->iov_offset += n;
		iter->count -= n;
	} else {
		iov_iter_advance(iter, n);
	}
}

#endif /* _MPA_PAGES_H */
