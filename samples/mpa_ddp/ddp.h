/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An iWARP end inside the kernel: RDMAP (RFC 5040) over DDP (RFC 5041) over mpa.
 *
 *	ddp_dev.c	the device for programs
 *	ddp_mr.c	regions: memory that has an STag
 *	ddp_rx.c	upcalls of mpa: check a segment, place its octets
 *	ddp_read.c	check and place responses to this end's RDMA Reads
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

/* A region */
struct ddp_mr {
	struct list_head list;		/* in ddp_end.regions */
	struct ddp_end *end;		/* the end whose stream may use the region */
	struct rcu_head rcu;
	refcount_t users;		/* number of users, including the registration */
	struct completion unused;	/* completed when @users is 0 */
	u64 base;			/* tagged offset of the first octet */
	u32 length;			/* in octets */
	u32 first;			/* offset in the first page */
	u32 stag;
	u32 access;			/* DDP_REMOTE_* */
	bool invalid;			/* by the peer's Send with Invalidate */
	u32 nr;				/* pages */
	u32 pinned;			/* number of @pages pinned so far */
	struct page **pages;
	struct bio_vec *vec;		/* @pages, for iterators */
	struct mmpin account;		/* pages charged to the user that registered the region */
};

/* A range of octets of an RDMA Read's response */
struct ddp_range {
	u32 from;
	u32 to;				/* after the last octet */
};

/* Maximum number of ranges of a response, each after missing octets */
#define DDP_RANGES	8

/* A posted operation; later, its result */
struct ddp_item {
	struct list_head list;		/* in ddp_end.posts, .receives or .done */
	struct list_head todo;		/* in ddp_end.unsent or .reads */
	struct ddp_post post;
	struct ddp_done done;
	bool finished;			/* done, but earlier posts must be reported first */
	bool silent;			/* there is no report */
	/* RDMA Reads only */
	bool ends;			/* the last segment was received, out of order */
	u8 nr;				/* number of @ranges */
	u32 next;			/* the first octet that was not received */
	u64 end_at;			/* stream position of that last segment */
	struct ddp_range ranges[DDP_RANGES]; /* received after @next; no two adjoin */
};

/* Progress of a queue's messages */
struct ddp_arrival {
	u32 msn;			/* of the next message, or of the one being received */
	u32 mo;				/* octets received of the message */
	u8 opcode;			/* of the message, once it has begun */
	bool begun;			/* segments were received, but not the last one */
};

/* A message that is being sent */
struct ddp_message {
	u8 opcode;			/* enum rdmap_opcode */
	bool active;			/* a message is being sent */
	bool answered;			/* passing a response's last segment to mpa has begun */
	u32 length;			/* in octets */
	u32 sent;			/* number of octets sent */
	u32 stag;			/* source region, if @octets is NULL */
	u32 remote_stag;		/* as in struct ddp_post */
	u64 to;				/* tagged offset in the source region */
	u64 remote_to;			/* as in struct ddp_post */
	const void *octets;		/* source buffer; or NULL */
	struct ddp_item *item;		/* item to complete after sending; or NULL */
	struct rdmap_read_request request; /* @octets of an RDMA Read Request */
};

/* A received segment */
struct ddp_segment {
	const struct mpa_ulpdu *ulpdu;
	union {
		struct ddp_control control;
		struct ddp_tagged tagged;
		struct ddp_untagged untagged;
	};
	u32 header_len;
	u32 length;			/* octets after the header */
	bool ordered;			/* nothing before the segment is missing */
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

/* An end of a stream: an open file; exists until @free has run */
struct ddp_end {
	bool dead;			/* the file was closed */
	struct work_struct leave;	/* in @queue: leaves @sock */
	struct work_struct free;	/* in ddp_frees, queued by @leave: frees the end */

	struct mutex call;		/* one ioctl at a time; protects @regions, @nr_regions */
	struct socket *sock;		/* the program's, attached; or NULL */
	struct list_head regions;
	u32 nr_regions;

	/* Protects the members up to @info, and setting @terminate */
	spinlock_t lock;
	wait_queue_head_t wait;		/* for @done */
	struct list_head posts;		/* posts not reported yet, in order; without @receives */
	struct list_head unsent;	/* @posts and @rtr that were not sent, in order */
	struct list_head reads;		/* RDMA Reads without a response yet, oldest first */
	struct list_head receives;	/* buffers for Sends, in this order */
	struct list_head done;		/* reports to be read */
	u32 items;			/* number of items in these lists, without @event */
	struct rdmap_read_request requests[DDP_READS_MAX]; /* the peer's, a ring */
	u32 asked;			/* number of @requests received so far */
	u32 answered;			/* number of @requests whose response was passed to mpa */
	bool started;			/* Full Operation */
	bool over;			/* receiving has ended, and only @terminate is sent */
	int status;			/* reason of @over */
	u32 terminate_len;		/* octets of @terminate to send; 0: none */
	struct ddp_item event[DDP_EVENTS]; /* items of reports that occur once */
	struct ddp_item rtr;		/* RTR indication that this end sends (RFC 6581) */
	struct ddp_info info;

	struct workqueue_struct *queue;	/* ordered, for @tx, @late and @leave */
	struct work_struct tx;		/* sends, and at the end cancels what was posted */
	struct delayed_work late;	/* gives up sending a Terminate */

	/* Only @tx uses these. */
	struct ddp_message msg;
	u32 msn[RDMAP_QUEUES];		/* of the next message, by queue */
	bool responded;			/* the last message was a response */
	bool cancelled;			/* what was posted was cancelled */
	bool finished;			/* sending has ended, and was reported */

	/* Protected by the socket lock */
	struct ddp_arrival in[RDMAP_QUEUES];
	u64 write_at;			/* stream position of an RDMA Write's last segment */
	bool writing;			/* that segment does not end the RDMA Write */
	struct ddp_item *buffer;	/* first of @receives, in which a Send is reassembled */
	u32 ended;			/* number of @reads with @ends */
	u8 request[sizeof(struct rdmap_read_request)];	/* to reassemble a Read Request */
	u8 terminated[RDMAP_TERM_MAX];	/* to reassemble a Terminate */
	u8 terminate[RDMAP_TERM_MAX];	/* the Terminate to send; set once */
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
