/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DDP (RFC 5041) and RDMAP (RFC 5040) on the wire: the content of MPA's ULPDUs. For the
 * kernel and for user space.
 *
 *	tagged segment:		ddp_tagged, payload
 *	untagged segment:	ddp_untagged, payload
 *
 * The payload of an RDMA Read Request is an rdmap_read_request; the payload of a Terminate
 * begins with an rdmap_terminate.
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

/* RFC 5040 section 4.1, figure 4: tagged are RDMAP_WRITE and RDMAP_READ_RESPONSE. */
enum rdmap_opcode {
	RDMAP_WRITE,
	RDMAP_READ_REQUEST,
	RDMAP_READ_RESPONSE,
	RDMAP_SEND,
	RDMAP_SEND_INVALIDATE,
	RDMAP_SEND_SE,			/* Send with Solicited Event */
	RDMAP_SEND_SE_INVALIDATE,
	RDMAP_TERMINATE,		/* higher opcodes are reserved */
};

/* Queues of untagged buffers (RFC 5040 section 4.1, figure 4) */
enum rdmap_queue {
	RDMAP_QUEUE_SEND,		/* Sends of all kinds */
	RDMAP_QUEUE_READ,		/* RDMA Read Requests */
	RDMAP_QUEUE_TERMINATE,
	RDMAP_QUEUES,
};

/* Start of every DDP header (RFC 5041 section 4.1, RFC 5040 section 4.1) */
struct ddp_control {
	__u8 ddp;			/* DDP_TAGGED, DDP_LAST, version of DDP */
	__u8 rdmap;			/* version of RDMAP, enum rdmap_opcode */
} __attribute__((packed));

/* Header of a tagged segment (RFC 5041 section 4.2) */
struct ddp_tagged {
	struct ddp_control control;	/* DDP_TAGGED is set */
	__be32 stag;			/* of the destination */
	__be64 to;			/* tagged offset of the destination */
} __attribute__((packed));

/* Header of an untagged segment (RFC 5041 section 4.3) */
struct ddp_untagged {
	struct ddp_control control;	/* DDP_TAGGED is clear */
	__be32 invalidate;		/* STag of a Send with Invalidate (RFC 5040 section 4.1) */
	__be32 queue;			/* enum rdmap_queue */
	__be32 msn;			/* number of the message in its queue, from 1 */
	__be32 mo;			/* octets of the message before this payload */
} __attribute__((packed));

/* Payload of an RDMA Read Request (RFC 5040 section 4.4) */
struct rdmap_read_request {
	__be32 sink_stag;		/* STag of the Read Response */
	__be64 sink_to;			/* tagged offset of the Read Response */
	__be32 size;			/* octets to read */
	__be32 source_stag;		/* buffer to read from */
	__be64 source_to;		/* tagged offset in this buffer */
} __attribute__((packed));

/* rdmap_terminate.headers: what follows (RFC 5040 section 4.8, figure 8) */
#define RDMAP_TERM_LENGTH	0x80	/* M: the length is valid */
#define RDMAP_TERM_DDP		0x40	/* D: the DDP header follows */
#define RDMAP_TERM_READ		0x20	/* R: the rdmap_read_request follows, too */

/* Start of a Terminate's payload (RFC 5040 section 4.8); the headers in @headers follow */
struct rdmap_terminate {
	__u8 layer_type;		/* layer in the upper half, error type in the lower */
	__u8 code;			/* error code */
	__u8 headers;			/* RDMAP_TERM_* */
	__u8 reserved;
	__be16 length;			/* of the bad DDP segment; only if @headers is not zero */
} __attribute__((packed));

/* Length of a Terminate without headers */
#define RDMAP_TERM_SHORT	4

/* Length of a Terminate with the longest headers */
#define RDMAP_TERM_MAX		(sizeof(struct rdmap_terminate) + \
				 sizeof(struct ddp_untagged) + \
				 sizeof(struct rdmap_read_request))

/* An error as in a Terminate: layer, type, code */
#define RDMAP_ERROR(layer, type, code)	((layer) << 12 | (type) << 8 | (code))

/*
 * Errors in a Terminate: RFC 5040 section 4.8 (figure 9), RFC 5041 section 7.2, RFC 5044 section
 * 8, RFC 6581 section 8. Functions return 0 for no error, so they cannot return
 * RDMAP_ERR_LOCAL, which is 0: they return DDP_ERR_LOCAL instead.
 */
enum rdmap_error {
	RDMAP_ERR_LOCAL		= RDMAP_ERROR(0, 0, 0x00),	/* local catastrophic error */
	RDMAP_ERR_STAG		= RDMAP_ERROR(0, 1, 0x00),	/* source STag is invalid */
	RDMAP_ERR_BOUNDS	= RDMAP_ERROR(0, 1, 0x01),	/* source not within the buffer */
	RDMAP_ERR_ACCESS	= RDMAP_ERROR(0, 1, 0x02),	/* source may not be read */
	RDMAP_ERR_STREAM	= RDMAP_ERROR(0, 1, 0x03),	/* source of another stream */
	RDMAP_ERR_WRAP		= RDMAP_ERROR(0, 1, 0x04),	/* source exceeds 64 bits */
	RDMAP_ERR_INVALIDATE	= RDMAP_ERROR(0, 1, 0x09),	/* STag may not be invalidated */
	RDMAP_ERR_VERSION	= RDMAP_ERROR(0, 2, 0x05),
	RDMAP_ERR_OPCODE	= RDMAP_ERROR(0, 2, 0x06),
	RDMAP_ERR_UNSPECIFIED	= RDMAP_ERROR(0, 2, 0xff),	/* any other */
	DDP_ERR_LOCAL		= RDMAP_ERROR(1, 0, 0x00),	/* local catastrophic error */
	DDP_ERR_STAG		= RDMAP_ERROR(1, 1, 0x00),	/* tagged: STag is invalid */
	DDP_ERR_BOUNDS		= RDMAP_ERROR(1, 1, 0x01),	/* tagged: not within the buffer */
	DDP_ERR_STREAM		= RDMAP_ERROR(1, 1, 0x02),	/* tagged: of another stream */
	DDP_ERR_WRAP		= RDMAP_ERROR(1, 1, 0x03),	/* tagged: TO exceeds 64 bits */
	DDP_ERR_TAGGED_VERSION	= RDMAP_ERROR(1, 1, 0x04),
	DDP_ERR_QUEUE		= RDMAP_ERROR(1, 2, 0x01),	/* untagged: no such queue */
	DDP_ERR_NO_BUFFER	= RDMAP_ERROR(1, 2, 0x02),	/* untagged: no buffer */
	DDP_ERR_MSN		= RDMAP_ERROR(1, 2, 0x03),	/* untagged: not the next message */
	DDP_ERR_MO		= RDMAP_ERROR(1, 2, 0x04),	/* untagged: not the next octets */
	DDP_ERR_TOO_LONG	= RDMAP_ERROR(1, 2, 0x05),	/* untagged: exceeds the buffer */
	DDP_ERR_UNTAGGED_VERSION = RDMAP_ERROR(1, 2, 0x06),
	MPA_TERM_CRC		= RDMAP_ERROR(2, 0, 0x02),	/* a CRC does not match */
	MPA_TERM_MARKER		= RDMAP_ERROR(2, 0, 0x03),	/* markers and lengths disagree */
	MPA_TERM_IRD		= RDMAP_ERROR(2, 0, 0x06),	/* insufficient IRD */
	MPA_TERM_RTR		= RDMAP_ERROR(2, 0, 0x07),	/* no RTR indication in common */
};

/* Return the first two octets of a segment. @ddp: DDP_TAGGED, DDP_LAST, or 0. */
static inline struct ddp_control ddp_control_of(__u8 ddp, __u8 opcode)
{
	struct ddp_control control = {
		.ddp = ddp | DDP_VERSION,
		.rdmap = RDMAP_VERSION << RDMAP_VERSION_SHIFT | opcode,
	};

	return control;
}

/* Return an enum rdmap_opcode, or a reserved value. */
static inline __u8 rdmap_opcode_of(const struct ddp_control *control)
{
	return control->rdmap & RDMAP_OPCODE_MASK;
}

static inline __u8 rdmap_version_of(const struct ddp_control *control)
{
	return control->rdmap >> RDMAP_VERSION_SHIFT;
}

static inline __u32 ddp_header_len(const struct ddp_control *control)
{
	return control->ddp & DDP_TAGGED ? sizeof(struct ddp_tagged) :
					   sizeof(struct ddp_untagged);
}

/*
 * Return an enum rdmap_queue, or RDMAP_QUEUES for a tagged message or a reserved opcode
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
