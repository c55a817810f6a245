// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that FPDUs are built in, reused once the peer has acknowledged their
 * octets.
 *
 * Allocating a page costs about as much as the CRC of its octets, as the kernel
 * may clear it. Each processor keeps a few, and frees them when it has used
 * none for a while, or when memory is short.
 */

#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/shrinker.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <net/sock.h>

#include "mpa_pages.h"

/* What skb_page_frag_refill() allocates if it can: 32 KiB, or one page. */
#define MPA_PAGES_ORDER		get_order(32768)
#define MPA_PAGES_SIZE		(PAGE_SIZE << MPA_PAGES_ORDER)
#define MPA_PAGES		128
#define MPA_PAGES_TRIES		4
#define MPA_PAGES_IDLE		(2 * HZ)

/**
 * struct mpa_pages - pages of one processor, by the time of their last use
 * @lock:	for all of it; taken in process context only. Reclaim takes it
 *		too: nothing is allocated under it
 * @page:	a ring of pages that we hold a reference to; a page is free if
 *		that is the only one
 * @first:	the least recently used one: pages become free roughly in this
 *		order
 * @nr:		the number of pages
 * @used:	since mpa_pages_trim() ran last
 */
struct mpa_pages {
	spinlock_t lock; /* for all of it */
	struct page *page[MPA_PAGES];
	u32 first;
	u32 nr;
	bool used;
};

static DEFINE_PER_CPU(struct mpa_pages, mpa_pages);
static void mpa_pages_trim(struct work_struct *work);
static DECLARE_DELAYED_WORK(mpa_pages_work, mpa_pages_trim);

static struct page **mpa_pages_at(struct mpa_pages *pages, u32 i)
{
	return pages->page + (pages->first + i) % MPA_PAGES;
}

/* The caller gets the reference, and holds the lock. */
static struct page *mpa_pages_pop(struct mpa_pages *pages)
{
	struct page *page = *mpa_pages_at(pages, 0);

	pages->first++;
	WRITE_ONCE(pages->nr, pages->nr - 1);
	return page;
}

static void mpa_pages_push(struct mpa_pages *pages, struct page *page)
{
	*mpa_pages_at(pages, pages->nr) = page;
	WRITE_ONCE(pages->nr, pages->nr + 1);
	pages->used = true;
}

/* A free page with a reference for the caller, or NULL. */
static struct page *mpa_pages_get(void)
{
	struct mpa_pages *pages = raw_cpu_ptr(&mpa_pages);
	struct page *page = NULL;
	u32 i;

	spin_lock(&pages->lock);
	for (i = 0; i < min_t(u32, MPA_PAGES_TRIES, pages->nr); i++) {
		if (page_ref_count(*mpa_pages_at(pages, i)) > 1)
			continue;
		swap(*mpa_pages_at(pages, 0), *mpa_pages_at(pages, i));
		page = mpa_pages_pop(pages);
		mpa_pages_push(pages, page);
		get_page(page);
		break;
	}
	spin_unlock(&pages->lock);
	return page;
}

/* Keep a page; in a full ring it replaces the oldest one in use. */
static void mpa_pages_keep(struct page *page)
{
	struct mpa_pages *pages = raw_cpu_ptr(&mpa_pages);
	struct page *old = NULL;

	get_page(page);
	spin_lock(&pages->lock);
	if (pages->nr == MPA_PAGES)
		old = mpa_pages_pop(pages);
	mpa_pages_push(pages, page);
	spin_unlock(&pages->lock);
	if (old)
		put_page(old);
	schedule_delayed_work(&mpa_pages_work, MPA_PAGES_IDLE);
}

/*
 * Release up to @max pages; those that TCP holds are freed when it releases
 * them. Return: the number freed now. @pages->lock is held.
 */
static u32 mpa_pages_drop(struct mpa_pages *pages, u32 *max)
{
	u32 nr = 0;

	for (; pages->nr && *max; --*max) {
		struct page *page = mpa_pages_pop(pages);

		nr += page_ref_count(page) == 1;
		put_page(page);
	}
	return nr;
}

static void mpa_pages_trim(struct work_struct *work)
{
	bool left = false;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct mpa_pages *pages = per_cpu_ptr(&mpa_pages, cpu);
		u32 max = MPA_PAGES;

		spin_lock(&pages->lock);
		if (pages->used)
			left = true;
		else
			mpa_pages_drop(pages, &max);
		pages->used = false;
		spin_unlock(&pages->lock);
	}
	if (left)
		schedule_delayed_work(&mpa_pages_work, MPA_PAGES_IDLE);
}

/* Octets of memory kept for future FPDUs, of all processors. */
unsigned long mpa_pages_held(void)
{
	unsigned long nr = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		nr += READ_ONCE(per_cpu_ptr(&mpa_pages, cpu)->nr);
	return nr * MPA_PAGES_SIZE;
}

static unsigned long mpa_pages_count(struct shrinker *shrinker,
				     struct shrink_control *sc)
{
	return mpa_pages_held() / PAGE_SIZE ?: SHRINK_EMPTY;
}

static unsigned long mpa_pages_scan(struct shrinker *shrinker,
				    struct shrink_control *sc)
{
	u32 max = DIV_ROUND_UP(sc->nr_to_scan, 1 << MPA_PAGES_ORDER), nr = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct mpa_pages *pages = per_cpu_ptr(&mpa_pages, cpu);

		spin_lock(&pages->lock);
		nr += mpa_pages_drop(pages, &max);
		spin_unlock(&pages->lock);
	}
	return nr ? nr << MPA_PAGES_ORDER : SHRINK_STOP;
}

static struct shrinker *mpa_pages_shrinker;

/**
 * mpa_pages_refill() - get room for octets in a page fragment
 * @sk:		socket
 * @frag:	the task's
 * @len:	contiguous octets wanted, up to a page
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
		/* Enters memory pressure, and limits the send buffer. */
		return sk_page_frag_refill(sk, frag);
	if (frag->page != old && frag->size == MPA_PAGES_SIZE &&
	    !page_is_pfmemalloc(frag->page))
		mpa_pages_keep(frag->page);
	return true;
}

int mpa_pages_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		spin_lock_init(&per_cpu_ptr(&mpa_pages, cpu)->lock);

	mpa_pages_shrinker = shrinker_alloc(0, "mpa-pages");
	if (!mpa_pages_shrinker)
		return -ENOMEM;
	mpa_pages_shrinker->count_objects = mpa_pages_count;
	mpa_pages_shrinker->scan_objects = mpa_pages_scan;
	shrinker_register(mpa_pages_shrinker);
	return 0;
}

/* At module exit, and if loading fails: nobody sends. */
void mpa_pages_exit(void)
{
	u32 max = U32_MAX;
	int cpu;

	shrinker_free(mpa_pages_shrinker);
	cancel_delayed_work_sync(&mpa_pages_work);
	for_each_possible_cpu(cpu)
		mpa_pages_drop(per_cpu_ptr(&mpa_pages, cpu), &max);
}
