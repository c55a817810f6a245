// SPDX-License-Identifier: GPL-2.0
/*
 * The iWARP end: receiving. DDP's checks (RFC 5041 section 7.1) come first, then
 * RDMAP's (RFC 5040 section 7.2); then the octets are placed.
 */

#include <errno.h>
#include <string.h>

#include "mpa_iwarp.h"

struct segment {
	const u8 *octets;
	u32 length;
	const u8 *payload;
	u32 payload_len;
};

static const struct ddp_control *control_of(const struct segment *segment)
{
	return (const struct ddp_control *)segment->octets;
}

static bool is_last(const struct segment *segment)
{
	return control_of(segment)->ddp & DDP_LAST;
}

/* Whether @length octets from @to on are in a buffer. Return: 0, or the error. */
static int check_range(const struct iw_buffer *buffer, u64 to, u64 length, int wraps,
		       int bounds)
{
	if (to + length < to)
		return wraps;
	if (to < buffer->base || to - buffer->base > buffer->length ||
	    length > buffer->length - (to - buffer->base))
		return bounds;
	return 0;
}

/* RFC 5041 section 7.1, for tagged segments that are not empty. */
static int check_tagged(const struct iw_end *end, const struct segment *segment,
			const struct iw_buffer *buffer)
{
	const struct ddp_tagged *header = (const void *)segment->octets;
	u8 opcode = rdmap_opcode_of(&header->control);

	if (!buffer)
		return DDP_ERR_STAG;
	if (buffer->end != end)
		return DDP_ERR_STREAM;
	/* DDP has no error code for access: report an invalid STag. */
	if (opcode == RDMAP_WRITE && !(buffer->access & IW_REMOTE_WRITE))
		return DDP_ERR_STAG;
	return check_range(buffer, __be64_to_cpu(header->to),
			   segment->payload_len, DDP_ERR_WRAP, DDP_ERR_BOUNDS);
}

static int check_rdmap(const struct segment *segment)
{
	if (rdmap_version_of(control_of(segment)) != RDMAP_VERSION)
		return RDMAP_ERR_VERSION;
	return 0;
}

/* The segment must match the Read's request (RFC 5040 section 5.2.2). */
static int take_response(struct iw_end *end, const struct segment *segment)
{
	const struct ddp_tagged *header = (const void *)segment->octets;
	struct iw_read *read = &end->reads[end->answered % IW_DEPTH];

	if (end->answered == end->asked)
		return RDMAP_ERR_OPCODE;
	if (segment->payload_len) {
		if (__be32_to_cpu(header->stag) != read->sink)
			return DDP_ERR_STAG;
		if (__be64_to_cpu(header->to) != read->to ||
		    segment->payload_len > read->left)
			return DDP_ERR_BOUNDS;
	}
	if (is_last(segment) && segment->payload_len != read->left)
		return DDP_ERR_BOUNDS;
	read->to += segment->payload_len;
	read->left -= segment->payload_len;
	if (is_last(segment))
		end->answered++;
	return 0;
}

static int take_tagged(struct iw_end *end, const struct segment *segment)
{
	const struct ddp_tagged *header = (const void *)segment->octets;
	struct iw_buffer *buffer = iw_find(__be32_to_cpu(header->stag));
	int error = 0;

	if (segment->payload_len)
		error = check_tagged(end, segment, buffer);
	error = error ?: check_rdmap(segment);
	if (error)
		return error;
	switch (rdmap_opcode_of(&header->control)) {
	case RDMAP_WRITE:
		end->written += is_last(segment);
		break;
	case RDMAP_READ_RESPONSE:
		error = take_response(end, segment);
		break;
	default:
		error = RDMAP_ERR_OPCODE;
	}
	if (!error && segment->payload_len)
		memcpy(buffer->octets + (__be64_to_cpu(header->to) - buffer->base),
		       segment->payload, segment->payload_len);
	return error;
}

/* Return: the buffer in which a queue's message is reassembled, or NULL. */
static u8 *room_of(struct iw_end *end, u32 queue, u32 *room)
{
	struct iw_message *message = &end->sends[end->arrived % IW_DEPTH];

	switch (queue) {
	case RDMAP_QUEUE_READ:
		*room = sizeof(end->request);
		return end->ird ? end->request : NULL;
	case RDMAP_QUEUE_TERMINATE:
		*room = sizeof(end->terminate);
		return end->terminate;
	default:
		*room = message->room;
		return end->arrived == end->posted ? NULL : message->octets;
	}
}

/* RFC 5041 section 7.1, for untagged segments. */
static int check_untagged(struct iw_end *end, const struct segment *segment,
			  u32 queue, u8 **into)
{
	const struct ddp_untagged *header = (const void *)segment->octets;
	u32 room = 0;

	if (queue >= RDMAP_QUEUES)
		return DDP_ERR_QUEUE;
	/* Segments are received in order, so only one message can be next. */
	if (__be32_to_cpu(header->msn) != end->in[queue].msn)
		return DDP_ERR_MSN;
	*into = room_of(end, queue, &room);
	if (!*into)
		return DDP_ERR_NO_BUFFER;
	if (__be32_to_cpu(header->mo) != end->in[queue].mo)
		return DDP_ERR_MO;
	if (segment->payload_len > room - end->in[queue].mo)
		return DDP_ERR_TOO_LONG;
	return 0;
}

/* RFC 5040 section 7.2, for Read Requests that are not empty. */
static int check_source(const struct iw_end *end, const struct iw_buffer *source,
			u64 to, u32 length)
{
	if (!source)
		return RDMAP_ERR_STAG;
	if (source->end != end)
		return RDMAP_ERR_STREAM;
	if (!(source->access & IW_REMOTE_READ))
		return RDMAP_ERR_ACCESS;
	return check_range(source, to, length, RDMAP_ERR_WRAP, RDMAP_ERR_BOUNDS);
}

static int take_request(struct iw_end *end, u32 message_len)
{
	const struct rdmap_read_request *request = (const void *)end->request;
	u64 to = __be64_to_cpu(request->source_to);
	u32 length = __be32_to_cpu(request->size);
	const struct iw_buffer *source;
	const u8 *octets = NULL;
	int error;

	if (message_len != sizeof(*request))
		return RDMAP_ERR_UNSPECIFIED;
	/* For an empty request neither STag nor offset may be checked. */
	if (length) {
		source = iw_find(__be32_to_cpu(request->source_stag));
		error = check_source(end, source, to, length);
		if (error)
			return error;
		octets = source->octets + (to - source->base);
	}
	if (!iw_send_tagged(end, RDMAP_READ_RESPONSE,
			    __be32_to_cpu(request->sink_stag),
			    __be64_to_cpu(request->sink_to), octets, length))
		end->served++;
	return 0;
}

static int take_terminate(struct iw_end *end, u32 length)
{
	const struct rdmap_terminate *terminate = (const void *)end->terminate;

	if (length < RDMAP_TERM_SHORT)
		return RDMAP_ERR_UNSPECIFIED;
	end->received = terminate->layer_type << 8 | terminate->code;
	return 0;
}

/* A Send with Invalidate ends the STag (RFC 5040 section 5.3). */
static int take_send(struct iw_end *end, const struct segment *segment, u32 length)
{
	const struct ddp_untagged *header = (const void *)segment->octets;
	u8 opcode = rdmap_opcode_of(&header->control);

	if (opcode == RDMAP_SEND_INVALIDATE || opcode == RDMAP_SEND_SE_INVALIDATE) {
		struct iw_buffer *buffer =
			iw_find(__be32_to_cpu(header->invalidate));

		/* The STag must be one that the peer may use. */
		if (!buffer || buffer->end != end || !buffer->access)
			return RDMAP_ERR_INVALIDATE;
		iw_unregister(buffer);
	}
	end->sends[end->arrived % IW_DEPTH].length = length;
	end->sends[end->arrived % IW_DEPTH].opcode = opcode;
	end->arrived++;
	return 0;
}

static int take_untagged(struct iw_end *end, const struct segment *segment)
{
	const struct ddp_untagged *header = (const void *)segment->octets;
	u32 queue = __be32_to_cpu(header->queue), length;
	u8 opcode = rdmap_opcode_of(&header->control);
	struct iw_arrival *in;
	int error;
	u8 *into;

	error = check_untagged(end, segment, queue, &into) ?: check_rdmap(segment);
	if (error)
		return error;
	in = &end->in[queue];
	/* All segments of a message have the same opcode. */
	if (rdmap_queue_of(opcode) != queue || (in->mo && opcode != in->opcode))
		return RDMAP_ERR_OPCODE;
	memcpy(into + in->mo, segment->payload, segment->payload_len);
	in->opcode = opcode;
	in->mo += segment->payload_len;
	if (!is_last(segment))
		return 0;
	length = in->mo;
	in->mo = 0;
	in->msn++;
	switch (queue) {
	case RDMAP_QUEUE_READ:
		return take_request(end, length);
	case RDMAP_QUEUE_TERMINATE:
		return take_terminate(end, length);
	default:
		return take_send(end, segment, length);
	}
}

/* Return: 0, or the error to report to the peer. */
static int take_segment(struct iw_end *end, struct segment *segment)
{
	const struct ddp_control *control = control_of(segment);
	bool tagged;
	u32 header;

	if (segment->length < sizeof(*control))
		return DDP_ERR_LOCAL;
	tagged = control->ddp & DDP_TAGGED;
	if ((control->ddp & DDP_VERSION_MASK) != DDP_VERSION)
		return tagged ? DDP_ERR_TAGGED_VERSION :
				DDP_ERR_UNTAGGED_VERSION;
	header = ddp_header_len(control);
	if (segment->length < header)
		return DDP_ERR_LOCAL;
	segment->payload = segment->octets + header;
	segment->payload_len = segment->length - header;
	return tagged ? take_tagged(end, segment) : take_untagged(end, segment);
}

/* The stream has ended. If the reason is an error of MPA, report it to the peer. */
static void stream_ends(struct iw_end *end)
{
	struct mpa_info info = {};
	socklen_t len = sizeof(info);

	if (!getsockopt(end->fd, SOL_MPA, MPA_INFO, &info, &len) &&
	    (info.error == MPA_ERR_CRC || info.error == MPA_ERR_MARKER))
		iw_terminate(end, RDMAP_ERROR(2, 0, info.error), NULL, 0);
	end->closed = true;
}

int iw_progress(struct iw_end *end)
{
	static u8 octets[MPA_ULPDU_MAX];
	struct segment segment = { .octets = octets };
	ssize_t n;
	int error;

	if (end->closed || end->sent >= 0 || end->received >= 0)
		return -1;
	if (end->dev >= 0)
		return iw_dev_progress(end);
	n = recv(end->fd, octets, sizeof(octets), 0);
	if (n <= 0) {
		stream_ends(end);
		return -1;
	}
	if (!end->agreed && iw_agreed(end))
		return -1;
	segment.length = n;
	error = take_segment(end, &segment);
	if (error)
		iw_terminate(end, error, octets, n);
	else
		end->segments++;
	return error || end->received >= 0 ? -1 : 0;
}
