// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that FPDUs are built in, reused once the peer has acknowledged their
 * octets.
 *
 * Allocating a page costs about as much as the CRC of its octets, as the kernel
 * may clear it. Each processor keeps a few pages. They are freed when the
 * processor has used none for a while, or when memory is short.
 */

#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/shrinker.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <net/sock.h>

#include "mpa_pages.h"

/* What skb_page_frag_refill() allocates if it can: 32 KiB, or one larger page. */
#define MPA_PAGES_ORDER		get_order(32768)
#define MPA_PAGES_SIZE		(PAGE_SIZE << MPA_PAGES_ORDER)
#define MPA_PAGES		128
#define MPA_PAGES_TRIES		4
#define MPA_PAGES_IDLE		(2 * HZ)

/*
 * The pages of one processor. @list has a reference to each, and the least
 * recently used page is first; pages become free roughly in this order. A page
 * is free if there is no other reference.
 */
struct mpa_pages {
	spinlock_t lock; /* Process context only. Reclaim takes it: allocate nothing under it. */
	struct list_head list;
	u32 nr;
	bool used;	/* a page was requested since mpa_pages_trim() ran last */
};

static DEFINE_PER_CPU(struct mpa_pages, mpa_pages);
static void mpa_pages_trim(struct work_struct *work);
static DECLARE_DELAYED_WORK(mpa_pages_work, mpa_pages_trim);

/* Return a free page with a reference for the caller, or NULL. */
static struct page *mpa_pages_get(void)
{
	struct mpa_pages *pages = raw_cpu_ptr(&mpa_pages);
	struct page *page, *found = NULL;
	u32 i;

	spin_lock(&pages->lock);
	for (i = 0; !found && i < min_t(u32, MPA_PAGES_TRIES, pages->nr); i++) {
		page = list_first_entry(&pages->list, struct page, lru);
		list_move_tail(&page->lru, &pages->list);
		if (page_ref_count(page) == 1)
			found = page;
	}
	if (found)
		get_page(found);
	pages->used = true;
	spin_unlock(&pages->lock);
	return found;
}

/* Keep a page. If there are too many, replace the oldest one. */
static void mpa_pages_keep(struct page *page)
{
	struct mpa_pages *pages = raw_cpu_ptr(&mpa_pages);
	struct page *old;

	get_page(page);
	spin_lock(&pages->lock);
	list_add_tail(&page->lru, &pages->list);
	if (pages->nr < MPA_PAGES) {
		WRITE_ONCE(pages->nr, pages->nr + 1);
	} else {
		old = list_first_entry(&pages->list, struct page, lru);
		list_del(&old->lru);
		put_page(old);
	}
	spin_unlock(&pages->lock);
	schedule_delayed_work(&mpa_pages_work, MPA_PAGES_IDLE);
}

/*
 * With @all release the pages of all processors, else of those that have used
 * none since the last call. Pages that TCP holds are freed when TCP releases
 * them. Return the number of released pages.
 */
static unsigned long mpa_pages_drop(bool all)
{
	struct page *page, *next;
	unsigned long nr = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct mpa_pages *pages = per_cpu_ptr(&mpa_pages, cpu);

		spin_lock(&pages->lock);
		if (all || !pages->used) {
			list_for_each_entry_safe(page, next, &pages->list, lru) {
				list_del(&page->lru);
				put_page(page);
			}
			nr += pages->nr;
			WRITE_ONCE(pages->nr, 0);
		}
		pages->used = false;
		spin_unlock(&pages->lock);
	}
	return nr;
}

static void mpa_pages_trim(struct work_struct *work)
{
	mpa_pages_drop(false);
	if (mpa_pages_held())
		schedule_delayed_work(&mpa_pages_work, MPA_PAGES_IDLE);
}

/* Return the octets of memory kept for future FPDUs. */
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
	return mpa_pages_drop(true) << MPA_PAGES_ORDER ?: SHRINK_STOP;
}

static struct shrinker *mpa_pages_shrinker;

/*
 * Get room for @len contiguous octets, up to a page, in the task's page
 * fragment. Process context. Return false without memory.
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
		/* This enters memory pressure, and limits the send buffer. */
		return sk_page_frag_refill(sk, frag);
	if (frag->page != old && frag->size == MPA_PAGES_SIZE &&
	    !page_is_pfmemalloc(frag->page))
		mpa_pages_keep(frag->page);
	return true;
}

int mpa_pages_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct mpa_pages *pages = per_cpu_ptr(&mpa_pages, cpu);

		spin_lock_init(&pages->lock);
		INIT_LIST_HEAD(&pages->list);
	}
	mpa_pages_shrinker = shrinker_alloc(0, "mpa-pages");
	if (!mpa_pages_shrinker)
		return -ENOMEM;
	mpa_pages_shrinker->count_objects = mpa_pages_count;
	mpa_pages_shrinker->scan_objects = mpa_pages_scan;
	shrinker_register(mpa_pages_shrinker);
	return 0;
}

/* At module exit, and if loading fails. No socket is sending. */
void mpa_pages_exit(void)
{
	shrinker_free(mpa_pages_shrinker);
	cancel_delayed_work_sync(&mpa_pages_work);
	mpa_pages_drop(true);
}
