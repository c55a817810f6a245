// SPDX-License-Identifier: GPL-2.0
/*
 * Regions. An STag is an index in the upper 24 bits and a random key in the lower 8: a guessed
 * STag should not be valid (RFC 5042 section 7.3).
 *
 * A region is looked up for each segment and released after the segment, so deregistering waits
 * for one segment at most.
 */

#include <linux/mm.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "ddp.h"

#define DDP_STAG_KEY_BITS	8

/*
 * Maximum number of pages pinned in one call, as other tasks need the processor, too.
 */
#define DDP_MR_BATCH		512

/* One array for all streams, as an STag of another stream has its own error code. */
static DEFINE_XARRAY_FLAGS(ddp_regions, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);

/*
 * Charge the pages from index @i on. A pin holds a huge page as a whole, so charge all
 * of it.
 */
static int ddp_mr_account(struct ddp_mr *mr, u32 i)
{
	struct page *last = i ? compound_head(mr->pages[i - 1]) : NULL;
	struct page *head;
	size_t octets = 0;

	for (; i < mr->pinned; i++) {
		head = compound_head(mr->pages[i]);
		if (head != last)
			octets += page_size(head);
		last = head;
	}
	return mm_account_pinned_pages(&mr->account, octets) ? -ENOMEM : 0;
}

static int ddp_mr_pin(struct ddp_mr *mr, unsigned long addr)
{
	int n, err;
	u32 i;

	while (mr->pinned < mr->nr) {
		i = mr->pinned;
		n = pin_user_pages_fast(addr + (unsigned long)i * PAGE_SIZE,
					min_t(u32, mr->nr - i, DDP_MR_BATCH),
					FOLL_WRITE | FOLL_LONGTERM,
					mr->pages + i);
		if (n <= 0)
			return n ?: -EFAULT;
		mr->pinned += n;
		err = ddp_mr_account(mr, i);
		if (err)
			return err;
		for (; i < mr->pinned; i++)
			mr->vec[i] = (struct bio_vec){
				.bv_page = mr->pages[i], .bv_len = PAGE_SIZE,
			};
		cond_resched();
	}
	return 0;
}

static void ddp_mr_unpin(struct ddp_mr *mr)
{
	u32 n;

	while (mr->pinned) {
		n = min_t(u32, mr->pinned, DDP_MR_BATCH);
		mr->pinned -= n;
		unpin_user_pages_dirty_lock(mr->pages + mr->pinned, n, true);
		cond_resched();
	}
	mm_unaccount_pinned_pages(&mr->account);
}

static void ddp_mr_free(struct ddp_mr *mr)
{
	ddp_mr_unpin(mr);
	kvfree(mr->vec);
	kvfree(mr->pages);
	kfree_rcu(mr, rcu);
}

static int ddp_mr_name(struct ddp_mr *mr)
{
	static u32 next;
	u32 index;
	int err;

	err = xa_alloc_cyclic(&ddp_regions, &index, NULL,
			      XA_LIMIT(1, U32_MAX >> DDP_STAG_KEY_BITS), &next,
			      GFP_KERNEL);
	if (err < 0)
		return err;
	mr->stag = index << DDP_STAG_KEY_BITS |
		   (get_random_u32() & (BIT(DDP_STAG_KEY_BITS) - 1));
	xa_store(&ddp_regions, index, mr, GFP_KERNEL);
	return 0;
}

/* Return a region without pages and STag; NULL if there is no memory. */
static struct ddp_mr *ddp_mr_new(struct ddp_end *end,
				 const struct ddp_region *region)
{
	struct ddp_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);

	if (!mr)
		return NULL;
	mr->end = end;
	mr->base = region->base;
	mr->length = region->length;
	mr->access = region->access;
	mr->first = offset_in_page(region->addr);
	mr->nr = DIV_ROUND_UP(mr->first + region->length, PAGE_SIZE);
	refcount_set(&mr->users, 1);
	init_completion(&mr->unused);
	mr->pages = kvcalloc(mr->nr, sizeof(*mr->pages), GFP_KERNEL_ACCOUNT);
	mr->vec = kvcalloc(mr->nr, sizeof(*mr->vec), GFP_KERNEL_ACCOUNT);
	if (mr->pages && mr->vec)
		return mr;
	ddp_mr_free(mr);
	return NULL;
}

static bool ddp_mr_valid(const struct ddp_region *region)
{
	return region->length && region->length <= DDP_REGION_MAX &&
	       region->base + region->length >= region->base &&
	       !region->reserved &&
	       !(region->access & ~(DDP_REMOTE_READ | DDP_REMOTE_WRITE)) &&
	       region->addr + region->length >= region->addr &&
	       region->addr == (unsigned long)region->addr;
}

/*
 * Register memory of the calling program, and set @region->stag. Context: process, @end->call
 * held. Return: 0, or a negative errno, see DDP_REGISTER in mpa_ddp.h.
 */
int ddp_mr_register(struct ddp_end *end, struct ddp_region *region)
{
	struct ddp_mr *mr;
	int err;

	if (!ddp_mr_valid(region))
		return -EINVAL;
	if (end->nr_regions == DDP_REGIONS_MAX)
		return -ENOSPC;
	mr = ddp_mr_new(end, region);
	if (!mr)
		return -ENOMEM;
	err = ddp_mr_pin(mr, region->addr & PAGE_MASK) ?: ddp_mr_name(mr);
	if (err) {
		ddp_mr_free(mr);
		return err;
	}
	list_add(&mr->list, &end->regions);
	end->nr_regions++;
	region->stag = mr->stag;
	return 0;
}

static void ddp_mr_end(struct ddp_mr *mr)
{
	list_del(&mr->list);
	mr->end->nr_regions--;
	xa_erase(&ddp_regions, mr->stag >> DDP_STAG_KEY_BITS);
	ddp_mr_put(mr);
	wait_for_completion(&mr->unused);
	ddp_mr_free(mr);
}

/*
 * Deregister a region, and wait for its present users. Context: process, @end->call
 * held. Return: 0: the memory is no longer accessed; or -ENOENT.
 */
int ddp_mr_deregister(struct ddp_end *end, u32 stag)
{
	struct ddp_mr *mr;

	list_for_each_entry(mr, &end->regions, list) {
		if (mr->stag == stag) {
			ddp_mr_end(mr);
			return 0;
		}
	}
	return -ENOENT;
}

void ddp_mr_deregister_all(struct ddp_end *end)
{
	struct ddp_mr *mr, *next;

	list_for_each_entry_safe(mr, next, &end->regions, list)
		ddp_mr_end(mr);
}

/*
 * Return the region of an STag, with a reference for ddp_mr_put(), or NULL. Context:
 * any.
 */
struct ddp_mr *ddp_mr_get(u32 stag)
{
	struct ddp_mr *mr;

	rcu_read_lock();
	mr = xa_load(&ddp_regions, stag >> DDP_STAG_KEY_BITS);
	if (mr && (mr->stag != stag || READ_ONCE(mr->invalid) ||
		   !refcount_inc_not_zero(&mr->users)))
		mr = NULL;
	rcu_read_unlock();
	return mr;
}

void ddp_mr_put(struct ddp_mr *mr)
{
	if (mr && refcount_dec_and_test(&mr->users))
		complete(&mr->unused);
}

/* Whether the @length octets from tagged offset @to are within a region. */
bool ddp_mr_holds(const struct ddp_mr *mr, u64 to, u64 length)
{
	return to >= mr->base && to - mr->base <= mr->length &&
	       length <= mr->length - (to - mr->base);
}

/*
 * Return the region of this end that contains the octets, with a reference for
 * ddp_mr_put(), or NULL. Context: any.
 */
struct ddp_mr *ddp_mr_get_own(struct ddp_end *end, u32 stag, u64 to, u32 length)
{
	struct ddp_mr *mr = ddp_mr_get(stag);

	if (mr && (mr->end != end || !ddp_mr_holds(mr, to, length))) {
		ddp_mr_put(mr);
		mr = NULL;
	}
	return mr;
}

/*
 * Initialize an iterator over @length octets from tagged offset @to of a region. @direction:
 * ITER_SOURCE or ITER_DEST.
 */
void ddp_mr_iter(const struct ddp_mr *mr, unsigned int direction, u64 to,
		 u32 length, struct iov_iter *iter)
{
	u64 at = mr->first + (to - mr->base);
	u32 page = at >> PAGE_SHIFT;

	iov_iter_bvec(iter, direction, mr->vec + page, mr->nr - page, length);
	iter->iov_offset = offset_in_page(at);
}
