// SPDX-License-Identifier: GPL-2.0
/*
 * Upcalls from mpa, above all for received segments: first DDP's checks (RFC 5041 section 7.1),
 * then RDMAP's (RFC 5040 section 7.2), then the octets are placed.
 *
 * A tagged segment is placed as soon as it is received, if mpa allows placing out of
 * order (RFC 5041 section 5.3). A tagged segment with any error is deferred, and the
 * error is reported when the segment arrives in order. All untagged segments are
 * deferred, as a queue's next message is known only in order.
 */

#include <linux/module.h>
#include <linux/slab.h>

#include "ddp.h"

static bool ddp_is_tagged(const struct ddp_segment *segment)
{
	return segment->control.ddp & DDP_TAGGED;
}

/* Read the header of a segment. Return: 0, or the error to report to the peer. */
static int ddp_read_header(struct ddp_segment *segment)
{
	const struct mpa_ulpdu *ulpdu = segment->ulpdu;
	u32 len;

	/* Read the longer header in a single call: the call is most of the cost. */
	if (ulpdu->len < sizeof(segment->control) ||
	    mpa_ulpdu_read(ulpdu, 0, &segment->untagged,
			   min_t(u32, ulpdu->len, sizeof(segment->untagged))))
		return DDP_ERR_LOCAL;
	len = ddp_header_len(&segment->control);
	if (ulpdu->len >= len) {
		segment->header_len = len;
		segment->length = ulpdu->len - len;
	}
	if ((segment->control.ddp & DDP_VERSION_MASK) != DDP_VERSION)
		return ddp_is_tagged(segment) ? DDP_ERR_TAGGED_VERSION :
						DDP_ERR_UNTAGGED_VERSION;
	return segment->header_len ? 0 : DDP_ERR_LOCAL;
}

static int ddp_check_version(const struct ddp_segment *segment)
{
	return rdmap_version_of(&segment->control) == RDMAP_VERSION ?
	       0 : RDMAP_ERR_VERSION;
}

/* ---- reporting an error to the peer ---- */

/* Return the headers that a Terminate contains: RFC 5040 section 4.8, figure 10. */
static u8 ddp_terminate_headers(int error, const struct ddp_segment *segment)
{
	u8 headers = RDMAP_TERM_LENGTH | RDMAP_TERM_DDP;

	if (!segment || !segment->header_len || error == DDP_ERR_LOCAL)
		return 0;
	if (error >> 8 == RDMAP_ERR_STAG >> 8 &&
	    rdmap_opcode_of(&segment->control) == RDMAP_READ_REQUEST)
		headers |= RDMAP_TERM_READ;
	return headers;
}

/*
 * End the stream, and report the reason to the peer. @segment: the segment with the
 * error, or NULL. Context: socket lock held.
 */
static void ddp_terminate(struct ddp_end *end, int error,
			  const struct ddp_segment *segment)
{
	struct rdmap_terminate *terminate = (void *)end->terminate;
	u8 headers = ddp_terminate_headers(error, segment);
	u32 len = RDMAP_TERM_SHORT;

	spin_lock_bh(&end->lock);
	if (end->over) {
		spin_unlock_bh(&end->lock);
		return;
	}
	terminate->layer_type = error >> 8;
	terminate->code = error;
	terminate->headers = headers;
	if (headers) {
		len = sizeof(*terminate);
		terminate->length = cpu_to_be16(segment->ulpdu->len);
		memcpy(end->terminate + len, &segment->control,
		       segment->header_len);
		len += segment->header_len;
	}
	if (headers & RDMAP_TERM_READ) {
		memcpy(end->terminate + len, end->request, sizeof(end->request));
		len += sizeof(end->request);
	}
	end->terminate_len = len;
	end->over = true;
	end->status = -EPROTO;
	spin_unlock_bh(&end->lock);
	ddp_tx_soon(end);
}

/* End the stream, without a report to the peer. */
static void ddp_over(struct ddp_end *end, int status)
{
	spin_lock_bh(&end->lock);
	if (!end->over) {
		end->over = true;
		end->status = status;
	}
	spin_unlock_bh(&end->lock);
	ddp_tx_soon(end);
}

/* ---- placing tagged segments ---- */

/*
 * Find the region of a tagged segment that is not empty (RFC 5041 section 7.1). Return: 0, or
 * the error.
 */
static int ddp_check_tagged(struct ddp_end *end,
			    const struct ddp_segment *segment,
			    struct ddp_mr **mr)
{
	u8 opcode = rdmap_opcode_of(&segment->control);
	u64 to = be64_to_cpu(segment->tagged.to);

	*mr = ddp_mr_get(be32_to_cpu(segment->tagged.stag));
	if (!*mr)
		return DDP_ERR_STAG;
	if ((*mr)->end != end)
		return DDP_ERR_STREAM;
	/* DDP has no error code for access: report an invalid STag. */
	if (opcode == RDMAP_WRITE && !((*mr)->access & DDP_REMOTE_WRITE))
		return DDP_ERR_STAG;
	if (to + segment->length < to)
		return DDP_ERR_WRAP;
	return ddp_mr_holds(*mr, to, segment->length) ? 0 : DDP_ERR_BOUNDS;
}

/*
 * Write the octets of a checked tagged segment to its region; @mr is NULL if there are no
 * octets. Context: socket lock held. Return: 0, or the error.
 */
int ddp_place_tagged(struct ddp_end *end, const struct ddp_segment *segment,
		     const struct ddp_mr *mr)
{
	struct iov_iter iter;

	if (!segment->length)
		return 0;
	ddp_mr_iter(mr, ITER_DEST, be64_to_cpu(segment->tagged.to),
		    segment->length, &iter);
	if (mpa_ulpdu_copy(segment->ulpdu, segment->header_len, segment->length,
			   &iter))
		return DDP_ERR_LOCAL;
	end->info.tagged += segment->length;
	if (!segment->ordered)
		end->info.placed += segment->length;
	return 0;
}

/* ---- tagged segments ---- */

/* Count a segment of an RDMA Write that was placed, in order or not. */
static void ddp_count_write(struct ddp_end *end,
			    const struct ddp_segment *segment)
{
	end->info.writes += ddp_is_last(segment);
	if (segment->ulpdu->position < end->write_at)
		return;
	end->write_at = segment->ulpdu->position;
	end->writing = !ddp_is_last(segment);
}

static int ddp_take_tagged(struct ddp_end *end,
			   const struct ddp_segment *segment)
{
	u8 opcode = rdmap_opcode_of(&segment->control);
	struct ddp_mr *mr = NULL;
	int error = 0;

	/* The STag and TO of an empty segment are ignored (RFC 5041 section 5.2). */
	if (segment->length)
		error = ddp_check_tagged(end, segment, &mr);
	error = error ?: ddp_check_version(segment);
	if (error)
		goto put;
	switch (opcode) {
	case RDMAP_WRITE:
		error = ddp_place_tagged(end, segment, mr);
		if (!error)
			ddp_count_write(end, segment);
		break;
	case RDMAP_READ_RESPONSE:
		error = ddp_take_response(end, segment, mr);
		break;
	default:
		error = RDMAP_ERR_OPCODE;
	}
put:
	ddp_mr_put(mr);
	return error;
}

/* ---- untagged segments ---- */

/* The buffer in which a queue's message is reassembled */
struct ddp_room {
	u32 length;	/* in octets */
	u8 *octets;	/* NULL if @buffer was posted for the message */
	struct ddp_item *buffer;
};

/*
 * Use the first buffer for the Send that begins. The buffer stays in the list until the Send
 * ends.
 */
static void ddp_choose_buffer(struct ddp_end *end)
{
	spin_lock_bh(&end->lock);
	end->buffer = list_first_entry_or_null(&end->receives, struct ddp_item,
					       list);
	spin_unlock_bh(&end->lock);
}

/* Find the buffer for a message of the queue. Return: whether there is a buffer. */
static bool ddp_find_room(struct ddp_end *end, u32 queue, struct ddp_room *room)
{
	switch (queue) {
	case RDMAP_QUEUE_READ:
		room->octets = end->request;
		room->length = sizeof(end->request);
		return end->info.ird > 0;
	case RDMAP_QUEUE_TERMINATE:
		room->octets = end->terminated;
		room->length = sizeof(end->terminated);
		return true;
	default:
		if (!end->in[queue].mo)
			ddp_choose_buffer(end);
		room->buffer = end->buffer;
		if (room->buffer)
			room->length = room->buffer->post.length;
		return room->buffer;
	}
}

/*
 * Check an untagged segment, and find its buffer (RFC 5041 section 7.1). Return: 0, or
 * the error.
 */
static int ddp_check_untagged(struct ddp_end *end,
			      const struct ddp_segment *segment, u32 queue,
			      struct ddp_room *room)
{
	const struct ddp_untagged *header = &segment->untagged;

	if (queue >= RDMAP_QUEUES)
		return DDP_ERR_QUEUE;
	if (be32_to_cpu(header->msn) != end->in[queue].msn)
		return DDP_ERR_MSN;
	if (!ddp_find_room(end, queue, room))
		return DDP_ERR_NO_BUFFER;
	if (be32_to_cpu(header->mo) != end->in[queue].mo)
		return DDP_ERR_MO;
	if (segment->length > room->length - end->in[queue].mo)
		return DDP_ERR_TOO_LONG;
	return 0;
}

static int ddp_place_untagged(struct ddp_end *end,
			      const struct ddp_segment *segment,
			      const struct ddp_room *room, u32 mo)
{
	const struct ddp_post *post;
	struct iov_iter iter;
	struct ddp_mr *mr;
	int err;

	if (!segment->length)
		return 0;
	if (room->octets)
		return mpa_ulpdu_read(segment->ulpdu, segment->header_len,
				      room->octets + mo, segment->length) ?
		       DDP_ERR_LOCAL : 0;
	post = &room->buffer->post;
	mr = ddp_mr_get_own(end, post->stag, post->to + mo, segment->length);
	if (!mr)
		return DDP_ERR_LOCAL;
	ddp_mr_iter(mr, ITER_DEST, post->to + mo, segment->length, &iter);
	err = mpa_ulpdu_copy(segment->ulpdu, segment->header_len,
			     segment->length, &iter);
	ddp_mr_put(mr);
	return err ? DDP_ERR_LOCAL : 0;
}

/* Check the source of an RDMA Read Request (RFC 5040 section 7.2). The source is not empty. */
static int ddp_check_source(struct ddp_end *end,
			    const struct rdmap_read_request *request)
{
	u64 to = be64_to_cpu(request->source_to);
	u32 size = be32_to_cpu(request->size);
	struct ddp_mr *mr;
	int error = 0;

	mr = ddp_mr_get(be32_to_cpu(request->source_stag));
	if (!mr)
		return RDMAP_ERR_STAG;
	if (mr->end != end)
		error = RDMAP_ERR_STREAM;
	else if (!(mr->access & DDP_REMOTE_READ))
		error = RDMAP_ERR_ACCESS;
	else if (to + size < to)
		error = RDMAP_ERR_WRAP;
	else if (!ddp_mr_holds(mr, to, size))
		error = RDMAP_ERR_BOUNDS;
	ddp_mr_put(mr);
	return error;
}

static int ddp_take_request(struct ddp_end *end, u32 length)
{
	const struct rdmap_read_request *request = (void *)end->request;
	int error = 0;

	if (length != sizeof(*request))
		return RDMAP_ERR_UNSPECIFIED;
	if (request->size)
		error = ddp_check_source(end, request);
	if (error)
		return error;
	spin_lock_bh(&end->lock);
	if (end->asked - end->answered >= end->info.ird)
		error = DDP_ERR_NO_BUFFER;
	else
		end->requests[end->asked++ % DDP_READS_MAX] = *request;
	spin_unlock_bh(&end->lock);
	ddp_tx_soon(end);
	return error;
}

static int ddp_take_terminate(struct ddp_end *end, u32 length)
{
	const struct rdmap_terminate *terminate = (void *)end->terminated;

	if (length < RDMAP_TERM_SHORT)
		return RDMAP_ERR_UNSPECIFIED;
	spin_lock_bh(&end->lock);
	ddp_happened(end, DDP_EVENT_TERMINATE, DDP_TERMINATE_RECEIVED,
		     terminate->layer_type << 8 | terminate->code, 0);
	spin_unlock_bh(&end->lock);
	/* RFC 5040 section 5.4: nothing more is sent. */
	ddp_over(end, -ECONNABORTED);
	return 0;
}

static int ddp_take_send(struct ddp_end *end, const struct ddp_segment *segment,
			 struct ddp_item *buffer, u32 length)
{
	u8 opcode = rdmap_opcode_of(&segment->control);
	struct ddp_mr *mr;
	u32 stag = 0;

	/*
	 * Invalidate the STag (RFC 5040 section 5.3). The peer must have access to the
	 * region: a region for local use is not associated with the stream.
	 */
	if (opcode == RDMAP_SEND_INVALIDATE ||
	    opcode == RDMAP_SEND_SE_INVALIDATE) {
		stag = be32_to_cpu(segment->untagged.invalidate);
		mr = ddp_mr_get(stag);
		if (!mr || mr->end != end || !mr->access) {
			ddp_mr_put(mr);
			return RDMAP_ERR_INVALIDATE;
		}
		WRITE_ONCE(mr->invalid, true);
		ddp_mr_put(mr);
	}
	spin_lock_bh(&end->lock);
	list_del(&buffer->list);
	buffer->done.opcode = opcode;
	buffer->done.length = length;
	buffer->done.stag = stag;
	ddp_done(end, buffer, 0);
	spin_unlock_bh(&end->lock);
	return 0;
}

static int ddp_take_untagged(struct ddp_end *end,
			     const struct ddp_segment *segment)
{
	u32 queue = be32_to_cpu(segment->untagged.queue), length;
	u8 opcode = rdmap_opcode_of(&segment->control);
	struct ddp_room room = {};
	struct ddp_arrival *in;
	int error;

	error = ddp_check_untagged(end, segment, queue, &room) ?:
		ddp_check_version(segment);
	if (error)
		return error;
	in = &end->in[queue];
	/* All segments of a message must have the same opcode. */
	if (rdmap_queue_of(opcode) != queue || (in->begun && opcode != in->opcode))
		return RDMAP_ERR_OPCODE;
	error = ddp_place_untagged(end, segment, &room, in->mo);
	if (error)
		return error;
	in->opcode = opcode;
	in->mo += segment->length;
	in->begun = !ddp_is_last(segment);
	if (in->begun)
		return 0;
	length = in->mo;
	in->mo = 0;
	in->msn++;
	switch (queue) {
	case RDMAP_QUEUE_READ:
		return ddp_take_request(end, length);
	case RDMAP_QUEUE_TERMINATE:
		return ddp_take_terminate(end, length);
	default:
		return ddp_take_send(end, segment, room.buffer, length);
	}
}

/* ---- upcalls ---- */

static int ddp_on_ulpdu(void *priv, const struct mpa_ulpdu *ulpdu)
{
	struct ddp_segment segment = { .ulpdu = ulpdu, .ordered = true };
	struct ddp_end *end = priv;
	int error;

	/* The segment is left for the next consumer that attaches. */
	if (READ_ONCE(end->dead))
		return -EAGAIN;
	if (end->over)
		return -ECONNABORTED;
	error = ddp_pass(end, ulpdu->position) ?: ddp_read_header(&segment);
	if (!error)
		error = ddp_is_tagged(&segment) ?
			ddp_take_tagged(end, &segment) :
			ddp_take_untagged(end, &segment);
	if (error) {
		ddp_terminate(end, error, &segment);
		return -EPROTO;
	}
	end->info.segments++;
	return 0;
}

static int ddp_on_place(void *priv, const struct mpa_ulpdu *ulpdu)
{
	struct ddp_segment segment = { .ulpdu = ulpdu };
	struct ddp_end *end = priv;

	if (READ_ONCE(end->dead) || end->over || ddp_read_header(&segment) ||
	    !ddp_is_tagged(&segment) || ddp_take_tagged(end, &segment))
		return -EAGAIN;
	return 0;
}

static void ddp_on_edge(void *priv, u64 edge)
{
	struct ddp_end *end = priv;
	int error = ddp_pass(end, edge);

	if (error)
		ddp_terminate(end, error, NULL);
}

static void ddp_on_writable(void *priv)
{
	ddp_tx_soon(priv);
}

/* The initiator opens the stream with the RTR indication that startup has negotiated. */
static bool ddp_opens_with_read(const struct mpa_info *info)
{
	return info->flags & MPA_INFO_P2P &&
	       info->role == MPA_ROLE_INITIATOR &&
	       info->rtr & MPA_START_RTR_READ;
}

static bool ddp_opens_with_write(const struct mpa_info *info)
{
	return info->flags & MPA_INFO_P2P &&
	       info->role == MPA_ROLE_INITIATOR &&
	       info->rtr & MPA_START_RTR_WRITE;
}

static void ddp_on_full(struct ddp_end *end)
{
	struct mpa_info info;

	mpa_sock_info(end->sock, &info);
	spin_lock_bh(&end->lock);
	end->info.ird = DDP_READS_MAX;
	end->info.ord = DDP_READS_MAX;
	if (info.flags & MPA_INFO_ENHANCED) {
		end->info.ird = min_t(u32, info.ird, DDP_READS_MAX);
		end->info.ord = min_t(u32, info.ord, DDP_READS_MAX);
	}
	if (ddp_opens_with_write(&info))
		end->rtr.post.opcode = RDMAP_WRITE;
	else if (ddp_opens_with_read(&info))
		end->rtr.post.opcode = RDMAP_READ_REQUEST;
	else
		goto unlock;
	end->rtr.post.stag = 1;
	end->rtr.post.remote_stag = 1;
	end->rtr.silent = true;
	list_add(&end->rtr.todo, &end->unsent);
unlock:
	end->started = true;
	spin_unlock_bh(&end->lock);
}

static void ddp_on_state(void *priv, enum mpa_state state, int err)
{
	struct ddp_end *end = priv;

	if (state == MPA_STATE_REQUESTED)
		return;
	/* Begin only without an error: after an error only a Terminate may be sent. */
	if (state == MPA_STATE_FULL && !err)
		ddp_on_full(end);
	spin_lock_bh(&end->lock);
	ddp_happened(end, DDP_EVENT_STARTED, DDP_STARTED, 0, err);
	spin_unlock_bh(&end->lock);
	/*
	 * In Full Operation, @err is one of two errors that a Terminate reports (RFC
	 * 6581 section 8).
	 */
	if (state != MPA_STATE_FULL)
		ddp_over(end, err ?: -ECONNREFUSED);
	else if (err)
		ddp_terminate(end, err == -ENOBUFS ? MPA_TERM_IRD : MPA_TERM_RTR,
			      NULL);
	else
		ddp_tx_soon(end);
}

static void ddp_on_failed(void *priv, int err, enum mpa_error code, u64 position)
{
	struct ddp_end *end = priv;

	/* RFC 5044 section 8: the upper layer reports the error to the peer. */
	if (code == MPA_ERR_CRC || code == MPA_ERR_MARKER)
		ddp_terminate(end, RDMAP_ERROR(2, 0, code), NULL);
	else
		ddp_over(end, err);
}

static void ddp_on_closed(void *priv)
{
	ddp_over(priv, 0);
}

const struct mpa_upcalls ddp_upcalls = {
	.owner		= THIS_MODULE,
	.ulpdu		= ddp_on_ulpdu,
	.place		= ddp_on_place,
	.edge		= ddp_on_edge,
	.writable	= ddp_on_writable,
	.state		= ddp_on_state,
	.failed		= ddp_on_failed,
	.closed		= ddp_on_closed,
};
