// SPDX-License-Identifier: GPL-2.0
/*
 * Responses to the RDMA Reads of this end: which Read a segment answers, and when a whole
 * response was received.
 */

#include "ddp.h"

static struct ddp_range ddp_range_of(const struct ddp_item *read,
				     const struct ddp_segment *segment)
{
	u32 from = be64_to_cpu(segment->tagged.to) - read->post.to;

	return (struct ddp_range){ .from = from, .to = from + segment->length };
}

/* Whether none of these octets was received */
static bool ddp_read_lacks(const struct ddp_item *read, struct ddp_range octets)
{
	u32 i;

	for (i = 0; i < read->nr; i++)
		if (octets.from < read->ranges[i].to &&
		    octets.to > read->ranges[i].from)
			return false;
	return octets.from >= read->next;
}

/* Whether there is space to record that these octets were received */
static bool ddp_read_remembers(const struct ddp_item *read,
			       struct ddp_range octets)
{
	u32 i;

	if (read->nr < DDP_RANGES || octets.from == read->next)
		return true;
	for (i = 0; i < read->nr; i++)
		if (octets.from == read->ranges[i].to ||
		    octets.to == read->ranges[i].from)
			return true;
	return false;
}

/* Record that these octets were received. There is space for the record. */
static void ddp_read_add(struct ddp_item *read, struct ddp_range octets)
{
	struct ddp_range *range;
	u32 i = 0;

	while (i < read->nr) {
		range = &read->ranges[i];
		if (octets.from == range->to) {
			octets.from = range->from;
		} else if (octets.to == range->from) {
			octets.to = range->to;
		} else {
			i++;
			continue;
		}
		*range = read->ranges[--read->nr];
	}
	if (octets.from == read->next)
		read->next = octets.to;
	else
		read->ranges[read->nr++] = octets;
}

/*
 * Check that a segment has only octets of the RDMA Read's response that were not
 * received yet. A segment in order must have the next octets, as responses arrive in
 * the order of their octets. Return: 0, or the error.
 */
static int ddp_check_response(const struct ddp_item *read,
			      const struct ddp_segment *segment)
{
	u64 off = be64_to_cpu(segment->tagged.to) - read->post.to;
	struct ddp_range octets = ddp_range_of(read, segment);

	if (segment->length) {
		if (be32_to_cpu(segment->tagged.stag) != read->post.stag)
			return DDP_ERR_STAG;
		if (off >= read->post.length ||
		    segment->length > read->post.length - off ||
		    !ddp_read_lacks(read, octets))
			return DDP_ERR_BOUNDS;
		if (segment->ordered && octets.from != read->next)
			return DDP_ERR_BOUNDS;
		if (ddp_is_last(segment) && octets.to != read->post.length)
			return DDP_ERR_BOUNDS;
	}
	if (segment->ordered && ddp_is_last(segment) &&
	    (read->ends || read->nr ||
	     read->next + segment->length != read->post.length))
		return DDP_ERR_BOUNDS;
	return 0;
}

/*
 * Find the RDMA Read that a segment out of order answers: the only Read that lacks these
 * octets. An empty segment could answer any Read.
 */
static struct ddp_item *ddp_find_read_early(struct ddp_end *end,
					    const struct ddp_segment *segment)
{
	u64 position = segment->ulpdu->position;
	struct ddp_item *read, *found = NULL;

	if (!segment->length)
		return NULL;
	list_for_each_entry(read, &end->reads, todo) {
		/* The responses to this Read and to earlier Reads end before the segment. */
		if (read->ends && position > read->end_at) {
			found = NULL;
			continue;
		}
		if (!ddp_check_response(read, segment)) {
			if (found)
				return NULL;
			found = read;
		}
		/* The responses to later Reads begin after the segment. */
		if (read->ends)
			break;
	}
	if (found && !ddp_read_remembers(found, ddp_range_of(found, segment)))
		return NULL;
	return found;
}

static void ddp_read_done(struct ddp_end *end, struct ddp_item *read)
{
	list_del(&read->todo);
	ddp_post_done(end, read, 0);
	ddp_tx_soon(end);
}

/*
 * Place a segment of a response (RFC 5040 section 5.2.2). @mr is its checked region; NULL if
 * there are no octets. Finding the Read, placing and counting are done under one lock: a Read
 * that is added meanwhile could be mistaken for the one found. Context: socket lock held.
 * Return: 0, or the error.
 */
int ddp_take_response(struct ddp_end *end, const struct ddp_segment *segment,
		      const struct ddp_mr *mr)
{
	struct ddp_item *read;
	int error;

	spin_lock_bh(&end->lock);
	read = segment->ordered ?
	       list_first_entry_or_null(&end->reads, struct ddp_item, todo) :
	       ddp_find_read_early(end, segment);
	error = read ? ddp_check_response(read, segment) : RDMAP_ERR_OPCODE;
	error = error ?: ddp_place_tagged(end, segment, mr);
	if (error)
		goto unlock;
	if (segment->length)
		ddp_read_add(read, ddp_range_of(read, segment));
	if (!ddp_is_last(segment))
		goto unlock;
	if (segment->ordered) {
		ddp_read_done(end, read);
	} else {
		read->ends = true;
		read->end_at = segment->ulpdu->position;
		end->ended++;
	}
unlock:
	spin_unlock_bh(&end->lock);
	return error;
}

/*
 * All octets before @position were received: complete the RDMA Reads whose last
 * segment, received out of order, begins before it. Context: socket lock held. Return:
 * 0, or the error.
 */
int ddp_pass(struct ddp_end *end, u64 position)
{
	struct ddp_item *read;
	int error = 0;

	if (!end->ended)
		return 0;
	spin_lock_bh(&end->lock);
	while (!list_empty(&end->reads)) {
		read = list_first_entry(&end->reads, struct ddp_item, todo);
		if (!read->ends || read->end_at >= position)
			break;
		if (read->next != read->post.length) {
			error = DDP_ERR_BOUNDS;
			break;
		}
		end->ended--;
		ddp_read_done(end, read);
	}
	spin_unlock_bh(&end->lock);
	return error;
}
