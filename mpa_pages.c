// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that FPDUs are made in, used again when the peer has what was in them.
 *
 * Making a page costs about as much as computing the CRC of what goes into it,
 * as the kernel may clear it. Each processor keeps a few, and those that it has
 * not used for a while it gives back.
 */

#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "mpa.h"

/* 32 KiB each: what skb_page_frag_refill() makes if it can. */
#define MPA_PAGES_SIZE		32768
#define MPA_PAGES		64
#define MPA_PAGES_TRIES		4
#define MPA_PAGES_IDLE		(2 * HZ)

/**
 * struct mpa_pages - pages of one processor
 * @lock:	for all of it; taken in process context only
 * @page:	NULL, or a page that we hold a reference to; when nobody else
 *		does it is free
 * @next:	where to look next: pages get free in the order of their use,
 *		more or less
 * @used:	since the last look
 */
struct mpa_pages {
	spinlock_t lock;
	struct page *page[MPA_PAGES];
	u32 next;
	bool used;
};

static DEFINE_PER_CPU(struct mpa_pages, mpa_pages);
static void mpa_pages_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(mpa_pages_work, mpa_pages_look);

/* A free page, with a reference for the caller, or NULL. */
static struct page *mpa_pages_get(void)
{
	struct mpa_pages *pages = raw_cpu_ptr(&mpa_pages);
	struct page *page = NULL;
	u32 i;

	spin_lock(&pages->lock);
	for (i = 0; i < MPA_PAGES_TRIES && !page; i++) {
		struct page *this = pages->page[pages->next++ % MPA_PAGES];

		if (!this)
			break;
		if (page_ref_count(this) > 1)
			continue;
		page = this;
		get_page(page);
		pages->used = true;
	}
	spin_unlock(&pages->lock);
	return page;
}

/* Keep a page, instead of the one that is still in use where we looked last. */
static void mpa_pages_keep(struct page *page)
{
	struct mpa_pages *pages = raw_cpu_ptr(&mpa_pages);
	struct page **place;

	get_page(page);
	spin_lock(&pages->lock);
	place = pages->page + (pages->next - 1) % MPA_PAGES;
	swap(page, *place);
	pages->used = true;
	spin_unlock(&pages->lock);
	if (page)
		put_page(page);
	schedule_delayed_work(&mpa_pages_work, MPA_PAGES_IDLE);
}

/* Return: whether any are left. */
static bool mpa_pages_give_back(struct mpa_pages *pages, bool all)
{
	bool left = false;
	u32 i;

	spin_lock(&pages->lock);
	for (i = 0; i < MPA_PAGES; i++) {
		if (!pages->page[i])
			continue;
		if (pages->used && !all) {
			left = true;
			break;
		}
		put_page(pages->page[i]);
		pages->page[i] = NULL;
	}
	pages->used = false;
	spin_unlock(&pages->lock);
	return left;
}

static void mpa_pages_look(struct work_struct *work)
{
	bool left = false;
	int cpu;

	for_each_possible_cpu(cpu)
		left |= mpa_pages_give_back(per_cpu_ptr(&mpa_pages, cpu),
					    false);
	if (left)
		schedule_delayed_work(&mpa_pages_work, MPA_PAGES_IDLE);
}

/**
 * mpa_pages_refill() - have room in a page fragment
 * @sk:		socket
 * @frag:	of the task
 * @len:	octets wanted side by side, up to a page
 *
 * Context: process.
 * Return: false without memory.
 */
bool mpa_pages_refill(struct sock *sk, struct page_frag *frag, u32 len)
{
	struct page *page, *old = frag->page;

	if (old && frag->offset + len <= frag->size)
		return true;
	page = mpa_pages_get();
	if (page) {
		if (old)
			put_page(old);
		frag->page = page;
		frag->offset = 0;
		frag->size = MPA_PAGES_SIZE;
		return true;
	}
	if (!skb_page_frag_refill(len, frag, sk->sk_allocation))
		/* Does what is due when memory is short. */
		return sk_page_frag_refill(sk, frag);
	if (frag->page != old && frag->size == MPA_PAGES_SIZE &&
	    !page_is_pfmemalloc(frag->page))
		mpa_pages_keep(frag->page);
	return true;
}

void mpa_pages_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		spin_lock_init(&per_cpu_ptr(&mpa_pages, cpu)->lock);
}

/* Context: module exit: nobody sends any more. */
void mpa_pages_exit(void)
{
	int cpu;

	cancel_delayed_work_sync(&mpa_pages_work);
	for_each_possible_cpu(cpu)
		mpa_pages_give_back(per_cpu_ptr(&mpa_pages, cpu), true);
}
