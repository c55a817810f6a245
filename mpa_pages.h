/* SPDX-License-Identifier: GPL-2.0 */
/* Common (layer 0): recycled pages, and the buffers of programs. */
#ifndef _MPA_PAGES_H
#define _MPA_PAGES_H

#include <linux/uaccess.h>
#include <linux/uio.h>

#include "compat.h"

struct page_frag;
struct sock;

/* mpa_pages.c */

bool mpa_pages_refill(struct sock *sk, struct page_frag *frag, u32 len);
unsigned long mpa_pages_held(void);
int mpa_pages_init(void);
void mpa_pages_exit(void);

/*
 * copy_to_user() without hardened usercopy's check that the octets stay within
 * one object. Done for each piece of each FPDU, the check costs more than the
 * copy; for most octets it knows only the size of their page. The lengths of
 * skbs and fragments (mpa_tcp_in.c) and of pages (mpa_rx_read.c) guarantee that
 * the octets belong to the skb. Process context. Return the number of octets
 * not copied.
 */
static inline unsigned long mpa_copy_to_user(void __user *to, const void *from,
					     unsigned long n)
{
	return _copy_to_user(to, from, n);
}

/*
 * Return the next contiguous octets of a program's buffer, and set @n to their
 * number. mpa_copy_to_user() and _copy_from_user() use them directly:
 * copy_to_iter() for each FPDU would take a tenth of all instructions. Return
 * NULL for kernel memory, or if no octets are left, as there may be no iovec.
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

/* As mpa_iter_span() if the next @n octets are contiguous, else return NULL. */
static inline void __user *mpa_iter_user(const struct iov_iter *iter, size_t n)
{
	size_t span;
	void __user *user = mpa_iter_span(iter, &span);

	return n <= span ? user : NULL;
}

/* Advance past @n octets that mpa_iter_span() has returned. */
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
