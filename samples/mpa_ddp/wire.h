/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DDP (RFC 5041) and RDMAP (RFC 5040) on the wire: the content of a ULPDU of
 * MPA. For the kernel and for user space.
 *
 *	tagged segment:		ddp_tagged, payload
 *	untagged segment:	ddp_untagged, payload
 *
 * The payload of an RDMA Read Request is an rdmap_read_request, that of a
 * Terminate an rdmap_terminate.
 */
#ifndef _MPA_DDP_WIRE_H
#define _MPA_DDP_WIRE_H

#include <asm/byteorder.h>
#include <linux/types.h>

/* ddp_control.ddp, RFC 5041 section 4.1; the other bits are reserved. */
#define DDP_TAGGED		0x80
#define DDP_LAST		0x40
#define DDP_VERSION_MASK	0x03
#define DDP_VERSION		1

/* ddp_control.rdmap, RFC 5040 section 4.1; the other bits are reserved. */
#define RDMAP_VERSION_SHIFT	6
#define RDMAP_VERSION		1
#define RDMAP_OPCODE_MASK	0x0f

/**
 * enum rdmap_opcode - what a message is (RFC 5040 section 4.1, figure 4)
 * @RDMAP_WRITE:		RDMA Write, tagged
 * @RDMAP_READ_REQUEST:		RDMA Read Request, untagged
 * @RDMAP_READ_RESPONSE:	RDMA Read Response, tagged
 * @RDMAP_SEND:			Send, untagged
 * @RDMAP_SEND_INVALIDATE:	Send with Invalidate
 * @RDMAP_SEND_SE:		Send with Solicited Event
 * @RDMAP_SEND_SE_INVALIDATE:	Send with Solicited Event and Invalidate
 * @RDMAP_TERMINATE:		Terminate, untagged; those above are reserved
 */
enum rdmap_opcode {
	RDMAP_WRITE,
	RDMAP_READ_REQUEST,
	RDMAP_READ_RESPONSE,
	RDMAP_SEND,
	RDMAP_SEND_INVALIDATE,
	RDMAP_SEND_SE,
	RDMAP_SEND_SE_INVALIDATE,
	RDMAP_TERMINATE,
};

/**
 * enum rdmap_queue - queues of untagged buffers (RFC 5040 section 4.1, figure 4)
 * @RDMAP_QUEUE_SEND:		Sends of all kinds
 * @RDMAP_QUEUE_READ:		RDMA Read Requests
 * @RDMAP_QUEUE_TERMINATE:	Terminates
 * @RDMAP_QUEUES:		their number
 */
enum rdmap_queue {
	RDMAP_QUEUE_SEND,
	RDMAP_QUEUE_READ,
	RDMAP_QUEUE_TERMINATE,
	RDMAP_QUEUES,
};

/**
 * struct ddp_control - the beginning of every DDP header
 * @ddp:	DDP_TAGGED, DDP_LAST, the version of DDP (RFC 5041 section 4.1)
 * @rdmap:	the version of RDMAP, enum rdmap_opcode (RFC 5040 section 4.1)
 */
struct ddp_control {
	__u8 ddp;
	__u8 rdmap;
} __attribute__((packed));

/**
 * struct ddp_tagged - header of a tagged segment (RFC 5041 section 4.2)
 * @control:	DDP_TAGGED is set
 * @stag:	STag of the destination
 * @to:		tagged offset of the destination
 */
struct ddp_tagged {
	struct ddp_control control;
	__be32 stag;
	__be64 to;
} __attribute__((packed));

/**
 * struct ddp_untagged - header of an untagged segment (RFC 5041 section 4.3)
 * @control:	DDP_TAGGED is clear
 * @invalidate:	the STag that a Send with Invalidate ends (RFC 5040 section 4.1)
 * @queue:	enum rdmap_queue
 * @msn:	number of the message in its queue; the first has 1
 * @mo:		octets of the message before this payload
 */
struct ddp_untagged {
	struct ddp_control control;
	__be32 invalidate;
	__be32 queue;
	__be32 msn;
	__be32 mo;
} __attribute__((packed));

/**
 * struct rdmap_read_request - payload of an RDMA Read Request (RFC 5040
 *			       section 4.4)
 * @sink_stag:		STag of the Read Response
 * @sink_to:		its tagged offset
 * @size:		octets wanted
 * @source_stag:	buffer to read from
 * @source_to:		tagged offset in it
 */
struct rdmap_read_request {
	__be32 sink_stag;
	__be64 sink_to;
	__be32 size;
	__be32 source_stag;
	__be64 source_to;
} __attribute__((packed));

/* rdmap_terminate.headers: what follows (RFC 5040 section 4.8, figure 8) */
#define RDMAP_TERM_LENGTH	0x80	/* M: the length is valid */
#define RDMAP_TERM_DDP		0x40	/* D: the DDP header follows */
#define RDMAP_TERM_READ		0x20	/* R: the rdmap_read_request as well */

/**
 * struct rdmap_terminate - beginning of a Terminate's payload (RFC 5040 section 4.8)
 * @layer_type:	layer in the upper half, error type in the lower
 * @code:	error code
 * @headers:	RDMAP_TERM_*
 * @reserved:	zero
 * @length:	of the DDP segment with the error; only present if
 *		@headers is not zero
 *
 * The headers of that segment follow.
 */
struct rdmap_terminate {
	__u8 layer_type;
	__u8 code;
	__u8 headers;
	__u8 reserved;
	__be16 length;
} __attribute__((packed));

/* Length of a Terminate without headers. */
#define RDMAP_TERM_SHORT	4

/* Length of a Terminate with the longest headers. */
#define RDMAP_TERM_MAX		(sizeof(struct rdmap_terminate) + \
				 sizeof(struct ddp_untagged) + \
				 sizeof(struct rdmap_read_request))

/* An error as encoded in a Terminate: layer, type, code. */
#define RDMAP_ERROR(layer, type, code)	((layer) << 12 | (type) << 8 | (code))

/**
 * enum rdmap_error - errors in a Terminate
 * @RDMAP_ERR_LOCAL:		RDMAP, local catastrophic error
 * @RDMAP_ERR_STAG:		a Read Request's source STag is invalid
 * @RDMAP_ERR_BOUNDS:		the source is not within that buffer
 * @RDMAP_ERR_ACCESS:		that buffer may not be read
 * @RDMAP_ERR_STREAM:		that buffer belongs to another stream
 * @RDMAP_ERR_WRAP:		its offset and size exceed 64 bits
 * @RDMAP_ERR_INVALIDATE:	this stream may not invalidate the STag
 * @RDMAP_ERR_VERSION:		invalid version of RDMAP
 * @RDMAP_ERR_OPCODE:		unexpected opcode
 * @RDMAP_ERR_UNSPECIFIED:	any other
 * @DDP_ERR_LOCAL:		DDP, local catastrophic error
 * @DDP_ERR_STAG:		tagged: the STag is invalid
 * @DDP_ERR_BOUNDS:		tagged: not within the buffer
 * @DDP_ERR_STREAM:		tagged: the buffer belongs to another stream
 * @DDP_ERR_WRAP:		tagged: offset and length exceed 64 bits
 * @DDP_ERR_TAGGED_VERSION:	tagged: invalid version of DDP
 * @DDP_ERR_QUEUE:		untagged: no such queue
 * @DDP_ERR_NO_BUFFER:		untagged: no buffer for this message
 * @DDP_ERR_MSN:		untagged: not the next message
 * @DDP_ERR_MO:			untagged: not the next octets of it
 * @DDP_ERR_TOO_LONG:		untagged: longer than the buffer
 * @DDP_ERR_UNTAGGED_VERSION:	untagged: invalid version of DDP
 * @MPA_TERM_CRC:		MPA: a CRC does not match
 * @MPA_TERM_MARKER:		MPA: markers and lengths do not agree
 * @MPA_TERM_IRD:		MPA: insufficient IRD
 * @MPA_TERM_RTR:		MPA: no RTR indication in common
 *
 * RFC 5040 section 4.8 (figure 9), RFC 5041 section 7.2, RFC 5044 section 8,
 * RFC 6581 section 8. Functions return 0 for no error, so they cannot return
 * RDMAP_ERR_LOCAL, which is 0: DDP_ERR_LOCAL replaces it there.
 */
enum rdmap_error {
	RDMAP_ERR_LOCAL		= RDMAP_ERROR(0, 0, 0x00),
	RDMAP_ERR_STAG		= RDMAP_ERROR(0, 1, 0x00),
	RDMAP_ERR_BOUNDS	= RDMAP_ERROR(0, 1, 0x01),
	RDMAP_ERR_ACCESS	= RDMAP_ERROR(0, 1, 0x02),
	RDMAP_ERR_STREAM	= RDMAP_ERROR(0, 1, 0x03),
	RDMAP_ERR_WRAP		= RDMAP_ERROR(0, 1, 0x04),
	RDMAP_ERR_INVALIDATE	= RDMAP_ERROR(0, 1, 0x09),
	RDMAP_ERR_VERSION	= RDMAP_ERROR(0, 2, 0x05),
	RDMAP_ERR_OPCODE	= RDMAP_ERROR(0, 2, 0x06),
	RDMAP_ERR_UNSPECIFIED	= RDMAP_ERROR(0, 2, 0xff),
	DDP_ERR_LOCAL		= RDMAP_ERROR(1, 0, 0x00),
	DDP_ERR_STAG		= RDMAP_ERROR(1, 1, 0x00),
	DDP_ERR_BOUNDS		= RDMAP_ERROR(1, 1, 0x01),
	DDP_ERR_STREAM		= RDMAP_ERROR(1, 1, 0x02),
	DDP_ERR_WRAP		= RDMAP_ERROR(1, 1, 0x03),
	DDP_ERR_TAGGED_VERSION	= RDMAP_ERROR(1, 1, 0x04),
	DDP_ERR_QUEUE		= RDMAP_ERROR(1, 2, 0x01),
	DDP_ERR_NO_BUFFER	= RDMAP_ERROR(1, 2, 0x02),
	DDP_ERR_MSN		= RDMAP_ERROR(1, 2, 0x03),
	DDP_ERR_MO		= RDMAP_ERROR(1, 2, 0x04),
	DDP_ERR_TOO_LONG	= RDMAP_ERROR(1, 2, 0x05),
	DDP_ERR_UNTAGGED_VERSION = RDMAP_ERROR(1, 2, 0x06),
	MPA_TERM_CRC		= RDMAP_ERROR(2, 0, 0x02),
	MPA_TERM_MARKER		= RDMAP_ERROR(2, 0, 0x03),
	MPA_TERM_IRD		= RDMAP_ERROR(2, 0, 0x06),
	MPA_TERM_RTR		= RDMAP_ERROR(2, 0, 0x07),
};

/**
 * ddp_control_of - the first two octets of a segment
 * @ddp:	DDP_TAGGED, DDP_LAST, or 0
 * @opcode:	enum rdmap_opcode
 *
 * Return: them, with the versions of RFC 5041 and RFC 5040.
 */
static inline struct ddp_control ddp_control_of(__u8 ddp, __u8 opcode)
{
	struct ddp_control control = {
		.ddp = ddp | DDP_VERSION,
		.rdmap = RDMAP_VERSION << RDMAP_VERSION_SHIFT | opcode,
	};

	return control;
}

/**
 * rdmap_opcode_of - the opcode of a segment's message
 * @control:	its first two octets
 *
 * Return: enum rdmap_opcode, or a reserved value.
 */
static inline __u8 rdmap_opcode_of(const struct ddp_control *control)
{
	return control->rdmap & RDMAP_OPCODE_MASK;
}

/**
 * rdmap_version_of - a segment's version of RDMAP
 * @control:	its first two octets
 *
 * Return: the version.
 */
static inline __u8 rdmap_version_of(const struct ddp_control *control)
{
	return control->rdmap >> RDMAP_VERSION_SHIFT;
}

/**
 * ddp_header_len - length of a segment's DDP header
 * @control:	its first two octets
 *
 * Return: the length.
 */
static inline __u32 ddp_header_len(const struct ddp_control *control)
{
	return control->ddp & DDP_TAGGED ? sizeof(struct ddp_tagged) :
					   sizeof(struct ddp_untagged);
}

/**
 * rdmap_queue_of - the queue of an untagged message
 * @opcode:	enum rdmap_opcode
 *
 * Return: enum rdmap_queue, or RDMAP_QUEUES if the message is not an untagged one
 * (RFC 5040 section 4.1, figure 4).
 */
static inline __u32 rdmap_queue_of(__u8 opcode)
{
	switch (opcode) {
	case RDMAP_SEND:
	case RDMAP_SEND_INVALIDATE:
	case RDMAP_SEND_SE:
	case RDMAP_SEND_SE_INVALIDATE:
		return RDMAP_QUEUE_SEND;
	case RDMAP_READ_REQUEST:
		return RDMAP_QUEUE_READ;
	case RDMAP_TERMINATE:
		return RDMAP_QUEUE_TERMINATE;
	default:
		return RDMAP_QUEUES;
	}
}

#endif /* _MPA_DDP_WIRE_H */
