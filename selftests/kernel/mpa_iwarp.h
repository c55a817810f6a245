/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An iWARP end in user space: RDMAP (RFC 5040) and DDP (RFC 5041) over a socket with
 * mpa. One send is one DDP segment, which is one ULPDU. The same calls also work with
 * the kernel's end, samples/mpa_ddp.
 *
 * Use an end from one thread only. A call sends, or receives until its message has
 * arrived, and answers the peer's requests meanwhile. Two ends wait for ever if both
 * send more than TCP takes, and do not receive.
 */
#ifndef _MPA_IWARP_H
#define _MPA_IWARP_H

#include <linux/mpa.h>
#include <linux/types.h>
#include <sys/socket.h>

#include "samples/mpa_ddp/wire.h"

/* The peer's access rights. A buffer without any is for Read Responses. */
#define IW_REMOTE_READ		1
#define IW_REMOTE_WRITE		2

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(x)		(sizeof(x) / sizeof((x)[0]))
#endif

#define IW_DEPTH		16	/* maximum of buffers for Sends, and of outstanding Reads */

/**
 * struct iw_buffer - a tagged buffer
 * @octets:	its memory; NULL: not registered
 * @length:	number of octets
 * @stag:	its STag
 * @base:	tagged offset of the first octet
 * @access:	IW_REMOTE_*
 * @end:	the end whose stream may use it
 */
struct iw_buffer {
	u8 *octets;
	u32 length;
	u32 stag;
	u64 base;
	u8 access;
	const struct iw_end *end;
};

/**
 * struct iw_message - an untagged buffer, and the Send received in it
 * @octets:	its memory
 * @room:	its size
 * @length:	of the message
 * @opcode:	the kind of Send
 * @stag:	its STag, for the kernel's end
 */
struct iw_message {
	u8 *octets;
	u32 room;
	u32 length;
	u8 opcode;
	u32 stag;
};

/**
 * struct iw_read - an RDMA Read that waits for its response
 * @sink:	STag of the response
 * @to:		tagged offset of its next octet
 * @left:	octets outstanding
 */
struct iw_read {
	u32 sink;
	u32 left;
	u64 to;
};

/**
 * struct iw_arrival - progress of a queue of untagged messages
 * @msn:	number of the message being received, or of the next
 * @mo:		octets received of this message
 * @opcode:	its opcode, once @mo is not 0
 */
struct iw_arrival {
	u32 msn;
	u32 mo;
	u8 opcode;
};

/**
 * struct iw_end - one end of a stream
 * @fd:		socket in Full Operation
 * @dev:	the kernel's end, or -1
 * @posted_done: the kernel's end has completed the last post
 * @agreed:	@ird and @ord are known, at the responder once the first segment arrives
 * @ird:	Reads that the peer may have outstanding
 * @ord:	Reads that this end may have outstanding
 * @sent:	enum rdmap_error of the Terminate that this end has sent, or -1
 * @received:	enum rdmap_error of the peer's Terminate, or -1
 * @closed:	the peer has ended the stream, with or without a Terminate
 * @sends:	ring of buffers for Sends
 * @posted:	number of buffers posted so far
 * @arrived:	number of buffers filled with a message
 * @taken:	number of buffers that iw_receive() has returned
 * @reads:	ring of this end's Reads
 * @asked:	number of Reads sent so far
 * @answered:	number of Reads completed
 * @served:	the peer's Reads that were answered
 * @written:	the peer's RDMA Writes that are complete
 * @segments:	number of good segments received
 * @in:		by enum rdmap_queue: state of arriving messages
 * @msn:	by enum rdmap_queue: number of the next message to send
 * @request:	buffer in which a Read Request is reassembled
 * @terminate:	buffer in which a Terminate is reassembled
 */
struct iw_end {
	int fd;
	int dev;
	bool posted_done;
	bool agreed;
	u32 ird;
	u32 ord;
	int sent;
	int received;
	bool closed;
	struct iw_message sends[IW_DEPTH];
	u32 posted;
	u32 arrived;
	u32 taken;
	struct iw_read reads[IW_DEPTH];
	u32 asked;
	u32 answered;
	u32 served;
	u32 written;
	u32 segments;
	struct iw_arrival in[RDMAP_QUEUES];
	u32 msn[RDMAP_QUEUES];
	u8 request[sizeof(struct rdmap_read_request)];
	u8 terminate[RDMAP_TERM_MAX];
};

/* ---- mpa_iwarp.c: all calls return 0, or -1 once the stream is over ---- */

/* Open an end in user space, or in the kernel. iw_free() closes it at once. */
int iw_open(struct iw_end *end, bool kernel);
void iw_free(struct iw_end *end);

/* Open a TCP connection; a server prints "listening" first. Return: fd or -1. */
int iw_connect(const char *address, const char *port, bool server);

/* Start MPA on a connected socket. errno has a failure other than a Terminate. */
int iw_start(struct iw_end *end, int fd, const struct mpa_start *start);

/* Register memory for the peer. Return: NULL if there are too many buffers. */
struct iw_buffer *iw_register(const struct iw_end *end, void *octets, u32 length,
			      u64 base, u8 access);
void iw_unregister(struct iw_buffer *buffer);
struct iw_buffer *iw_find(u32 stag);

/* Post a buffer for a Send, after earlier ones. */
void iw_post(struct iw_end *end, void *octets, u32 room);

/* Send a message. @opcode: one of the Sends; @invalidate: STag for those with Invalidate. */
int iw_send(struct iw_end *end, u8 opcode, u32 invalidate, const void *octets,
	    u32 length);
int iw_write(struct iw_end *end, u32 stag, u64 to, const void *octets, u32 length);
/* Start an RDMA Read. The call returns once the request is sent. */
int iw_read(struct iw_end *end, const struct iw_buffer *sink, u32 offset, u32 stag,
	    u64 to, u32 length);
/* Wait until no Read is outstanding. */
int iw_read_all(struct iw_end *end);
/* Wait until @segments segments have arrived since the start. */
int iw_take(struct iw_end *end, u32 segments);
/* Return the next Send. Its buffer is free again. */
int iw_receive(struct iw_end *end, struct iw_message *message);

/*
 * Send a Terminate for an error, with or without this segment's headers. Nothing is
 * sent later.
 */
void iw_terminate(struct iw_end *end, int error, const u8 *segment, u32 length);
/* End sending, wait until the peer does, too, and close. */
int iw_close(struct iw_end *end);

/* Shared with mpa_iwarp_rx.c: the result of the startup frames, and a tagged message. */
int iw_agreed(struct iw_end *end);
int iw_send_tagged(struct iw_end *end, u8 opcode, u32 stag, u64 to,
		   const void *octets, u32 length);

/* ---- mpa_iwarp_rx.c ---- */

/* Receive a segment and process it. */
int iw_progress(struct iw_end *end);

/* ---- mpa_iwarp_dev.c: the same with the end in the kernel ---- */

int iw_dev_open(struct iw_end *end);
int iw_dev_start(struct iw_end *end, const struct mpa_start *start);
int iw_dev_register(const struct iw_end *end, void *octets, u32 length, u64 base,
		    u8 access, u32 *stag);
void iw_dev_unregister(const struct iw_end *end, u32 stag);
int iw_dev_post(struct iw_end *end, u32 id, struct iw_message *message);
int iw_dev_send(struct iw_end *end, u8 opcode, u32 remote_stag, u64 remote_to,
		const void *octets, u32 length);
int iw_dev_read(struct iw_end *end, const struct iw_buffer *sink, u32 offset,
		u32 stag, u64 to, u32 length);
int iw_dev_take(struct iw_end *end, u32 segments);
/* Read the kernel's next report. Use this in place of iw_dev_progress(). */
struct ddp_done;
int iw_dev_next(struct iw_end *end, struct ddp_done *done);
int iw_dev_progress(struct iw_end *end);

#endif /* _MPA_IWARP_H */
