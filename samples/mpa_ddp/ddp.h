/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An iWARP end inside the kernel: RDMAP (RFC 5040) over DDP (RFC 5041) over mpa.
 *
 *	ddp_dev.c	the device for programs
 *	ddp_mr.c	regions: memory that has an STag
 *	ddp_rx.c	upcalls of mpa: check a segment, place its octets
 *	ddp_read.c	the same for responses to RDMA Reads
 *	ddp_tx.c	a work item: split messages into segments, and send them
 *
 * Locks, outer ones first: ddp_end.call (ioctl), the socket lock (held in
 * upcalls, taken by mpa_sock_*()), ddp_end.lock.
 */
#ifndef _DDP_H
#define _DDP_H

#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/mpa.h>

#include "mpa_ddp.h"
#include "wire.h"

/**
 * struct ddp_mr - a region
 * @list:	in ddp_end.regions
 * @end:	the end whose stream may use it
 * @rcu:	frees it
 * @users:	number of users, and one for the registration
 * @unused:	completed when @users is 0
 * @base:	tagged offset of its first octet
 * @length:	octets
 * @first:	offset in its first page
 * @stag:	its name
 * @access:	DDP_REMOTE_*
 * @invalid:	invalidated by the peer's Send with Invalidate
 * @nr:		pages
 * @pinned:	number of @pages pinned so far
 * @pages:	the pinned pages
 * @vec:	the same pages, for iterators
 * @account:	pages charged to the user that registered it
 */
struct ddp_mr {
	struct list_head list;
	struct ddp_end *end;
	struct rcu_head rcu;
	refcount_t users;
	struct completion unused;
	u64 base;
	u32 length;
	u32 first;
	u32 stag;
	u32 access;
	bool invalid;
	u32 nr;
	u32 pinned;
	struct page **pages;
	struct bio_vec *vec;
	struct mmpin account;
};

/**
 * struct ddp_range - a range of octets of an RDMA Read's response
 * @from:	the first one
 * @to:		after the last one
 */
struct ddp_range {
	u32 from;
	u32 to;
};

/* Maximum number of ranges of a response, each after missing octets. */
#define DDP_RANGES	8

/**
 * struct ddp_item - a posted operation; later, its result
 * @list:	in struct ddp_end's @posts, @receives or @done
 * @todo:	in struct ddp_end's @unsent or @reads
 * @post:	what was posted
 * @done:	the report
 * @finished:	done, but earlier @posts must be reported first
 * @silent:	there is no report
 * @ends:	RDMA Read only: its last segment was received, out of order
 * @nr:		RDMA Read only: number of @ranges
 * @next:	RDMA Read only: the first octet that was not received
 * @end_at:	stream position of that last segment
 * @ranges:	octets received after @next; no two ranges adjoin
 */
struct ddp_item {
	struct list_head list;
	struct list_head todo;
	struct ddp_post post;
	struct ddp_done done;
	bool finished;
	bool silent;
	bool ends;
	u8 nr;
	u32 next;
	u64 end_at;
	struct ddp_range ranges[DDP_RANGES];
};

/**
 * struct ddp_arrival - progress of a queue's messages
 * @msn:	number of the next message, or of the one being received
 * @mo:		octets received of it
 * @opcode:	its opcode, once it has begun
 * @begun:	some segments were received, but not the last one
 */
struct ddp_arrival {
	u32 msn;
	u32 mo;
	u8 opcode;
	bool begun;
};

/**
 * struct ddp_message - a message that is being sent
 * @opcode:	enum rdmap_opcode
 * @active:	a message is being sent
 * @answered:	the last segment of a response was passed to mpa, or is being passed
 * @length:	octets
 * @sent:	number of octets sent
 * @stag:	source region, if not @octets
 * @to:		tagged offset in it
 * @remote_stag: as in struct ddp_post
 * @remote_to:	as in struct ddp_post
 * @octets:	source buffer; or NULL
 * @item:	item to complete when it has been sent; or NULL
 * @request:	@octets of an RDMA Read Request
 */
struct ddp_message {
	u8 opcode;
	bool active;
	bool answered;
	u32 length;
	u32 sent;
	u32 stag;
	u32 remote_stag;
	u64 to;
	u64 remote_to;
	const void *octets;
	struct ddp_item *item;
	struct rdmap_read_request request;
};

/**
 * struct ddp_segment - a received segment
 * @ulpdu:	its ULPDU
 * @control:	the first two octets
 * @tagged:	the header, if it is a tagged one
 * @untagged:	the header, if it is not
 * @header_len:	length of the header
 * @length:	octets after it
 * @ordered:	nothing before it is missing
 */
struct ddp_segment {
	const struct mpa_ulpdu *ulpdu;
	union {
		struct ddp_control control;
		struct ddp_tagged tagged;
		struct ddp_untagged untagged;
	};
	u32 header_len;
	u32 length;
	bool ordered;
};

static inline bool ddp_is_last(const struct ddp_segment *segment)
{
	return segment->control.ddp & DDP_LAST;
}

enum ddp_event {
	DDP_EVENT_STARTED,
	DDP_EVENT_TERMINATE,
	DDP_EVENT_ENDED,
	DDP_EVENTS,
};

/**
 * struct ddp_end - one end of a stream: an open file; exists until @free has run
 * @dead:	the file was closed
 * @leave:	work item in @queue: leaves @sock
 * @free:	work item, queued by @leave in another queue than @queue: frees the end
 * @call:	serializes ioctls
 * @sock:	the program's socket, attached; or NULL
 * @regions:	protected by @call
 * @nr_regions:	their number, protected by @call
 *
 * @lock:	protects the following members
 * @wait:	for @done
 * @posts:	posts that were not reported, in order, without @receives
 * @unsent:	@posts and @rtr that were not sent, in order
 * @reads:	RDMA Reads that have no response yet, oldest first
 * @receives:	buffers for Sends, in this order
 * @done:	reports to be read
 * @items:	number in all of them, without @event
 * @requests:	the peer's RDMA Read Requests: a ring
 * @asked:	number received so far
 * @answered:	number of them whose response's last segment was passed to mpa
 * @started:	Full Operation
 * @over:	nothing more is received, and only @terminate is sent
 * @status:	reason of @over
 * @terminate_len: octets of @terminate to send; 0: none
 * @event:	items for reports that occur once
 * @rtr:	item for the RDMA Read that opens a stream (RFC 6581 section 9)
 * @info:	counters
 *
 * @queue:	ordered queue for @tx, @late and @leave
 * @tx:		work item: sends, and at the end cancels what was posted
 * @late:	work item: gives up sending a Terminate
 * @msg:	@tx alone
 * @msn:	of the next message, by queue: @tx alone
 * @responded:	the message before the next one is a response: @tx alone
 * @cancelled:	@tx alone: what was posted was cancelled
 * @finished:	@tx alone: nothing more is sent, and that was reported
 *
 * @in:		by queue: socket lock
 * @write_at:	stream position of the last segment of an RDMA Write: socket lock
 * @writing:	that segment does not end the RDMA Write: socket lock
 * @buffer:	the first of @receives, in which a Send is reassembled: socket lock
 * @ended:	number of @reads with @ends: socket lock
 * @request:	buffer to reassemble a Read Request: socket lock
 * @terminated:	buffer to reassemble a Terminate: socket lock
 * @terminate:	written once, under @lock
 */
struct ddp_end {
	bool dead;
	struct work_struct leave;
	struct work_struct free;

	struct mutex call;		/* one ioctl at a time */
	struct socket *sock;
	struct list_head regions;
	u32 nr_regions;

	spinlock_t lock;		/* protects the next ones */
	wait_queue_head_t wait;
	struct list_head posts;
	struct list_head unsent;
	struct list_head reads;
	struct list_head receives;
	struct list_head done;
	u32 items;
	struct rdmap_read_request requests[DDP_READS_MAX];
	u32 asked;
	u32 answered;
	bool started;
	bool over;
	int status;
	u32 terminate_len;
	struct ddp_item event[DDP_EVENTS];
	struct ddp_item rtr;
	struct ddp_info info;

	struct workqueue_struct *queue;
	struct work_struct tx;
	struct delayed_work late;
	struct ddp_message msg;
	u32 msn[RDMAP_QUEUES];
	bool responded;
	bool cancelled;
	bool finished;

	struct ddp_arrival in[RDMAP_QUEUES];
	u64 write_at;
	bool writing;
	struct ddp_item *buffer;
	u32 ended;
	u8 request[sizeof(struct rdmap_read_request)];
	u8 terminated[RDMAP_TERM_MAX];
	u8 terminate[RDMAP_TERM_MAX];
};

/* ddp_mr.c */
int ddp_mr_register(struct ddp_end *end, struct ddp_region *region);
int ddp_mr_deregister(struct ddp_end *end, u32 stag);
void ddp_mr_deregister_all(struct ddp_end *end);
struct ddp_mr *ddp_mr_get(u32 stag);
void ddp_mr_put(struct ddp_mr *mr);
bool ddp_mr_holds(const struct ddp_mr *mr, u64 to, u64 length);
struct ddp_mr *ddp_mr_get_own(struct ddp_end *end, u32 stag, u64 to, u32 length);
void ddp_mr_iter(const struct ddp_mr *mr, unsigned int direction, u64 to,
		 u32 length, struct iov_iter *iter);

/* ddp_rx.c */
extern const struct mpa_upcalls ddp_upcalls;
int ddp_place_tagged(struct ddp_end *end, const struct ddp_segment *segment,
		     const struct ddp_mr *mr);

/* ddp_read.c */
int ddp_take_response(struct ddp_end *end, const struct ddp_segment *segment,
		      const struct ddp_mr *mr);
int ddp_pass(struct ddp_end *end, u64 position);

/* ddp_tx.c */
int ddp_tx_open(struct ddp_end *end);
void ddp_tx_close(struct ddp_end *end);
void ddp_tx_soon(struct ddp_end *end);

/* ddp_dev.c */
void ddp_done(struct ddp_end *end, struct ddp_item *item, int status);
void ddp_post_done(struct ddp_end *end, struct ddp_item *item, int status);
void ddp_happened(struct ddp_end *end, enum ddp_event event, enum ddp_what what,
		  u32 error, int status);

#endif /* _DDP_H */
