/* SPDX-License-Identifier: GPL-2.0 */
/* Common (layer 0): recycled pages, and the buffers of programs. */
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

/*
 * copy_to_user() without the check of hardened usercopy that the octets stay
 * within one object: once for each piece of each FPDU it costs more than the
 * copy. Most octets lie in pages, of which that check knows only the size. The
 * lengths of skbs and fragments, which mpa_tcp_in.c observes, and of pages in
 * mpa_rx_read.c, guarantee that the octets belong to the skb. Context: process.
 * Return: the number of octets that were not copied.
 */
static inline unsigned long mpa_copy_to_user(void __user *to, const void *from,
					     unsigned long n)
{
	return _copy_to_user(to, from, n);
}

/*
 * The next @n contiguous octets of a program's buffer, for mpa_copy_to_user()
 * and _copy_from_user(): copy_to_iter() for each FPDU would take a tenth of all
 * instructions. NULL if they are in kernel memory, or if there are none: after
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

/* As mpa_iter_span() if the next @n octets are contiguous, else NULL. */
static inline void __user *mpa_iter_user(const struct iov_iter *iter, size_t n)
{
	size_t span;
	void __user *user = mpa_iter_span(iter, &span);

	return n <= span ? user : NULL;
}

/* Advance past octets that mpa_iter_span() has found. */
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
