// SPDX-License-Identifier: GPL-2.0
/*
 * Pages for an FPDU that TCP's receive buffer has no room for: filled piece by
 * piece, so that the peer can send on. They are on the socket's account, and
 * so on that of its memory control group.
 */

#include <linux/mm.h>
#include <linux/slab.h>

#include "mpa_rx.h"

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
 * mpa_stash_fill() - copy octets out of TCP's receive queue
 * @stash:	made if it is NULL
 * @at:		where they are
 * @off:	offset of the first of them in the FPDU
 * @len:	octets to copy, all of which are there
 * @filled:	set to how many are in the stash now; they are still in the
 *		queue
 *
 * Context: process, socket lock held.
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

/**
 * mpa_stash_walk() - show octets of an FPDU to a function
 * @stash:	which holds them
 * @off:	offset of the first in the FPDU
 * @len:	how many
 * @fn:		as for mpa_cursor_walk()
 * @arg:	for @fn
 *
 * Context: socket lock held.
 * Return: 0, or what @fn returned.
 */
int mpa_stash_walk(const struct mpa_stash *stash, u32 off, u32 len,
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

/**
 * mpa_stash_free() - give the pages back
 * @stash:	which holds them
 * @sk:		socket
 *
 * Context: socket lock held.
 */
void mpa_stash_free(struct mpa_stash *stash, struct sock *sk)
{
	u32 i;

	for (i = 0; i < MPA_STASH_PAGES && stash->page[i]; i++)
		put_page(stash->page[i]);
	mpa_tcp_uncharge_pages(sk, sizeof(*stash) + i * PAGE_SIZE);
	kfree(stash);
}
