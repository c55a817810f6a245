// SPDX-License-Identifier: GPL-2.0
/*
 * Sending. mpa_sock_send() may sleep and must not be called in upcalls, so each end has a work
 * item that sends: what was posted, responses to the peer's RDMA Reads, a Terminate. The work
 * item returns when there is no space; the upcall @writable queues it again.
 */

#include <linux/net.h>
#include <linux/slab.h>
#include <net/sock.h>

#include "ddp.h"

/* Maximum number of octets sent in one call, during which the socket is locked. */
#define DDP_TX_CALL	65536

/* Drop a Terminate after this long without space. */
#define DDP_TX_PATIENCE	(5 * HZ)

/* ---- the next message ---- */

static void ddp_tx_begin(struct ddp_end *end, u8 opcode, u32 length)
{
	end->msg = (struct ddp_message){
		.active = true, .opcode = opcode, .length = length,
	};
}

static void ddp_tx_begin_terminate(struct ddp_end *end)
{
	ddp_tx_begin(end, RDMAP_TERMINATE, end->terminate_len);
	end->msg.octets = end->terminate;
}

/*
 * Begin the next response. Return: false if all requests are answered. Context:
 * @end->lock held.
 */
static bool ddp_tx_begin_response(struct ddp_end *end)
{
	const struct rdmap_read_request *request;

	if (end->asked == end->answered)
		return false;
	request = &end->requests[end->answered % DDP_READS_MAX];
	ddp_tx_begin(end, RDMAP_READ_RESPONSE, be32_to_cpu(request->size));
	end->msg.stag = be32_to_cpu(request->source_stag);
	end->msg.to = be64_to_cpu(request->source_to);
	end->msg.remote_stag = be32_to_cpu(request->sink_stag);
	end->msg.remote_to = be64_to_cpu(request->sink_to);
	return true;
}

static void ddp_tx_begin_request(struct ddp_end *end,
				 const struct ddp_post *post)
{
	struct ddp_message *msg = &end->msg;

	ddp_tx_begin(end, RDMAP_READ_REQUEST, sizeof(msg->request));
	msg->request = (struct rdmap_read_request){
		.sink_stag = cpu_to_be32(post->stag),
		.sink_to = cpu_to_be64(post->to),
		.size = cpu_to_be32(post->length),
		.source_stag = cpu_to_be32(post->remote_stag),
		.source_to = cpu_to_be64(post->remote_to),
	};
	msg->octets = &msg->request;
}

/*
 * Whether this end has as many outstanding RDMA Reads as the peer allows. A Read that is the
 * RTR indication counts: the peer counts it, too.
 */
static bool ddp_tx_reads_full(const struct ddp_end *end)
{
	const struct ddp_item *item;
	u32 n = 0;

	list_for_each_entry(item, &end->reads, todo)
		n++;
	return n >= end->info.ord;
}

/*
 * Return the first item to send, or NULL. If the peer allows no RDMA Reads, the Reads before
 * this item fail here. Context: @end->lock held.
 */
static struct ddp_item *ddp_tx_first_unsent(struct ddp_end *end)
{
	struct ddp_item *item;

	for (;;) {
		item = list_first_entry_or_null(&end->unsent, struct ddp_item,
						todo);
		if (!item || item->silent || end->info.ord ||
		    item->post.opcode != RDMAP_READ_REQUEST)
			return item;
		list_del(&item->todo);
		ddp_post_done(end, item, -EOPNOTSUPP);
	}
}

/*
 * Begin the program's next request. Return: false if there is no request, or if it has to wait
 * for a response. Context: @end->lock held.
 */
static bool ddp_tx_begin_post(struct ddp_end *end)
{
	const struct ddp_post *post;
	struct ddp_item *item;

	item = ddp_tx_first_unsent(end);
	if (!item)
		return false;
	post = &item->post;
	if (post->opcode == RDMAP_READ_REQUEST) {
		if (!item->silent && ddp_tx_reads_full(end))
			return false;
		ddp_tx_begin_request(end, post);
		list_move_tail(&item->todo, &end->reads);
		return true;
	}
	ddp_tx_begin(end, post->opcode, post->length);
	end->msg.stag = post->stag;
	end->msg.to = post->to;
	end->msg.remote_stag = post->remote_stag;
	end->msg.remote_to = post->remote_to;
	end->msg.item = item;
	list_del(&item->todo);
	return true;
}

static void ddp_tx_cancel_message(struct ddp_end *end)
{
	if (end->msg.item)
		ddp_post_done(end, end->msg.item, -ECANCELED);
	memset(&end->msg, 0, sizeof(end->msg));
}

/*
 * Alternate between responses and posts: a peer that always has an outstanding RDMA Read must
 * not keep the program from sending. Return: whether there is anything to send. Context:
 * @end->lock held.
 */
static bool ddp_tx_begin_next(struct ddp_end *end)
{
	bool found;

	if (end->responded)
		found = ddp_tx_begin_post(end) || ddp_tx_begin_response(end);
	else
		found = ddp_tx_begin_response(end) || ddp_tx_begin_post(end);
	end->responded = found && end->msg.opcode == RDMAP_READ_RESPONSE;
	return found;
}

/*
 * Choose a message, unless one is being sent. Return: whether there is a message to
 * send. Set @over to whether only a Terminate may be sent. A task that changes the
 * state afterwards queues the work item again.
 */
static bool ddp_tx_choose(struct ddp_end *end, bool *over)
{
	bool found;

	spin_lock_bh(&end->lock);
	if (end->over) {
		found = end->terminate_len;
		if (found && end->msg.opcode != RDMAP_TERMINATE) {
			ddp_tx_cancel_message(end);
			ddp_tx_begin_terminate(end);
		}
	} else {
		found = end->started &&
			(end->msg.active || ddp_tx_begin_next(end));
	}
	*over = end->over;
	spin_unlock_bh(&end->lock);
	return found;
}

/* ---- a segment ---- */

union ddp_header {
	struct ddp_control control;
	struct ddp_tagged tagged;
	struct ddp_untagged untagged;
};

static bool ddp_tx_tagged(const struct ddp_message *msg)
{
	return rdmap_queue_of(msg->opcode) == RDMAP_QUEUES;
}

/* Write the header of the segment that begins @off octets into the message. */
static void ddp_tx_header(const struct ddp_end *end, u32 off, bool last,
			  union ddp_header *header)
{
	const struct ddp_message *msg = &end->msg;
	u32 queue = rdmap_queue_of(msg->opcode);
	u8 ddp = last ? DDP_LAST : 0;

	if (ddp_tx_tagged(msg))
		header->tagged = (struct ddp_tagged){
			.control = ddp_control_of(DDP_TAGGED | ddp, msg->opcode),
			.stag = cpu_to_be32(msg->remote_stag),
			.to = cpu_to_be64(msg->remote_to + off),
		};
	else
		header->untagged = (struct ddp_untagged){
			.control = ddp_control_of(ddp, msg->opcode),
			.invalidate = cpu_to_be32(msg->remote_stag),
			.queue = cpu_to_be32(queue),
			.msn = cpu_to_be32(end->msn[queue]),
			.mo = cpu_to_be32(off),
		};
}

static u32 ddp_tx_header_len(const struct ddp_message *msg)
{
	return ddp_tx_tagged(msg) ? sizeof(struct ddp_tagged) :
				    sizeof(struct ddp_untagged);
}

/*
 * Count a response whose last segment is being sent. The peer may receive this segment,
 * and send a new request, before the call that sends the segment returns.
 */
static void ddp_tx_answered(struct ddp_end *end)
{
	struct ddp_message *msg = &end->msg;

	if (msg->opcode != RDMAP_READ_RESPONSE || msg->answered)
		return;
	msg->answered = true;
	spin_lock_bh(&end->lock);
	end->answered++;
	spin_unlock_bh(&end->lock);
}

/* Finish the message, which was sent, or aborted with @status. */
static void ddp_tx_end(struct ddp_end *end, int status)
{
	const struct rdmap_terminate *terminate = (void *)end->terminate;
	struct ddp_message *msg = &end->msg;

	if (!ddp_tx_tagged(msg))
		end->msn[rdmap_queue_of(msg->opcode)]++;
	spin_lock_bh(&end->lock);
	if (msg->item)
		ddp_post_done(end, msg->item, status);
	if (msg->opcode == RDMAP_READ_RESPONSE && !status)
		end->info.reads++;
	if (msg->opcode == RDMAP_TERMINATE) {
		end->terminate_len = 0;
		ddp_happened(end, DDP_EVENT_TERMINATE, DDP_TERMINATE_SENT,
			     terminate->layer_type << 8 | terminate->code, 0);
	}
	spin_unlock_bh(&end->lock);
	memset(msg, 0, sizeof(*msg));
}

/* End the stream: the region was deregistered while a message was sent from it. */
static void ddp_tx_broken(struct ddp_end *end)
{
	struct rdmap_terminate *terminate = (void *)end->terminate;

	spin_lock_bh(&end->lock);
	if (!end->over) {
		terminate->layer_type = RDMAP_ERR_LOCAL >> 8;
		terminate->code = (u8)RDMAP_ERR_LOCAL;
		end->terminate_len = RDMAP_TERM_SHORT;
		end->over = true;
		end->status = -EFAULT;
	}
	spin_unlock_bh(&end->lock);
	ddp_tx_end(end, -EFAULT);
}

/* Headers of the segments into which a region's octets are cut */
struct ddp_headers {
	struct mpa_headers headers;
	struct ddp_end *end;
	bool last;	/* the call has the last octets of the message */
};

static void ddp_tx_write_header(const struct mpa_headers *headers, void *to,
				u32 off, u32 len, bool last)
{
	const struct ddp_headers *of =
		container_of(headers, struct ddp_headers, headers);

	last = last && of->last;
	ddp_tx_header(of->end, of->end->msg.sent + off, last, to);
	if (last)
		ddp_tx_answered(of->end);
}

/*
 * Send octets of a region. mpa splits them to fill TCP's segments (RFC 5041 section 5.2).
 * Return: the number of octets sent, or an error of mpa_sock_send_cut().
 */
static int ddp_tx_region(struct ddp_end *end, u32 left)
{
	struct ddp_message *msg = &end->msg;
	struct ddp_headers of;
	struct iov_iter iter;
	struct ddp_mr *mr;
	int sent;
	u32 n;

	n = min_t(u32, left, DDP_TX_CALL);
	of = (struct ddp_headers){
		.headers.len = ddp_tx_header_len(msg),
		.headers.write = ddp_tx_write_header,
		.end = end,
		.last = n == left,
	};
	mr = ddp_mr_get_own(end, msg->stag, msg->to + msg->sent, n);
	if (!mr)
		return -EFAULT;
	ddp_mr_iter(mr, ITER_SOURCE, msg->to + msg->sent, n, &iter);
	sent = mpa_sock_send_cut(end->sock, &of.headers, &iter,
				 of.last ? 0 : MPA_SEND_MORE, NULL);
	ddp_mr_put(mr);
	return sent;
}

/* Send a short message, or a header without octets. Return: as ddp_tx_region(). */
static int ddp_tx_short(struct ddp_end *end)
{
	struct ddp_message *msg = &end->msg;
	union ddp_header header;
	struct kvec octets = {
		.iov_base = (void *)msg->octets, .iov_len = msg->length,
	};
	struct iov_iter iter;
	struct kvec head = {
		.iov_base = &header, .iov_len = ddp_tx_header_len(msg),
	};

	ddp_tx_header(end, 0, true, &header);
	ddp_tx_answered(end);
	iov_iter_kvec(&iter, ITER_SOURCE, &octets, 1, octets.iov_len);
	return mpa_sock_send(end->sock, &head, &iter, 0, NULL) ?: msg->length;
}

/* Send the message, or a part of it. Return: 0, or an error of mpa_sock_send(). */
static int ddp_tx_next(struct ddp_end *end)
{
	struct ddp_message *msg = &end->msg;
	u32 left = msg->length - msg->sent;
	int sent;

	sent = left && !msg->octets ? ddp_tx_region(end, left) :
				      ddp_tx_short(end);
	if (sent == -EFAULT) {
		ddp_tx_broken(end);
		return 0;
	}
	if (sent < 0)
		return sent;
	msg->sent += sent;
	if (msg->sent == msg->length)
		ddp_tx_end(end, 0);
	return 0;
}

/* ---- the end of the stream ---- */

static void ddp_tx_cancel_posts(struct ddp_end *end, struct list_head *list)
{
	struct ddp_item *item, *next;

	list_for_each_entry_safe(item, next, list, todo) {
		list_del(&item->todo);
		ddp_post_done(end, item, -ECANCELED);
	}
}

static void ddp_tx_cancel_receives(struct ddp_end *end)
{
	struct ddp_item *item, *next;

	list_for_each_entry_safe(item, next, &end->receives, list) {
		list_del(&item->list);
		ddp_done(end, item, -ECANCELED);
	}
}

/*
 * Whether an operation of either peer is incomplete: no graceful termination (RFC 5040 section
 * 2.4). Buffers that received no Send do not count. Context: @end->lock held, upcalls are over.
 */
static bool ddp_tx_breaks_off(const struct ddp_end *end)
{
	u32 queue;

	for (queue = 0; queue < RDMAP_QUEUES; queue++)
		if (end->in[queue].begun)
			return true;
	return end->writing || end->msg.active || end->asked != end->answered ||
	       !list_empty(&end->posts);
}

/* The stream has ended: cancel everything that is still posted. */
static void ddp_tx_cancel_all(struct ddp_end *end)
{
	if (end->cancelled)
		return;
	end->cancelled = true;
	/*
	 * An upcall that began before @over was set may be placing a Send in one of @receives,
	 * under the socket lock and not @end->lock. Wait for this upcall. Later upcalls do nothing.
	 */
	lock_sock(end->sock->sk);
	release_sock(end->sock->sk);
	spin_lock_bh(&end->lock);
	if (!end->status && ddp_tx_breaks_off(end))
		end->status = -ECONNRESET;
	ddp_tx_cancel_posts(end, &end->reads);
	ddp_tx_cancel_posts(end, &end->unsent);
	ddp_tx_cancel_receives(end);
	spin_unlock_bh(&end->lock);
}

/*
 * There is no space for the Terminate: cancel the posts, and wait at most
 * DDP_TX_PATIENCE.
 */
static void ddp_tx_await(struct ddp_end *end)
{
	ddp_tx_cancel_all(end);
	queue_delayed_work(end->queue, &end->late, DDP_TX_PATIENCE);
}

/* End sending, and report the end of the stream. */
static void ddp_tx_finish(struct ddp_end *end)
{
	if (end->finished)
		return;
	end->finished = true;
	ddp_tx_cancel_all(end);
	kernel_sock_shutdown(end->sock, SHUT_WR);
	spin_lock_bh(&end->lock);
	ddp_tx_cancel_message(end);
	ddp_happened(end, DDP_EVENT_ENDED, DDP_ENDED, 0, end->status);
	spin_unlock_bh(&end->lock);
}

/* Note that sending has failed. An earlier @end->status has precedence. */
static void ddp_tx_fail(struct ddp_end *end, int err)
{
	spin_lock_bh(&end->lock);
	if (!end->over)
		end->status = err;
	end->over = true;
	end->terminate_len = 0;
	spin_unlock_bh(&end->lock);
}

/* Send as much as there is space for. */
static void ddp_tx_work(struct work_struct *work)
{
	struct ddp_end *end = container_of(work, struct ddp_end, tx);
	bool found, over;
	int err;

	for (;;) {
		if (READ_ONCE(end->dead))
			return;
		found = ddp_tx_choose(end, &over);
		if (!found)
			break;
		err = ddp_tx_next(end);
		if (err == -EAGAIN) {
			if (over)
				ddp_tx_await(end);
			return;
		}
		if (err)
			ddp_tx_fail(end, err);
		cond_resched();
	}
	if (over)
		ddp_tx_finish(end);
}

/* The peer does not read: drop the Terminate. */
static void ddp_tx_late(struct work_struct *work)
{
	struct ddp_end *end = container_of(to_delayed_work(work),
					   struct ddp_end, late);

	ddp_tx_fail(end, -ETIMEDOUT);
	ddp_tx_work(&end->tx);
}

/* Create the work items and their queue. Context: process. Return: 0 or -ENOMEM. */
int ddp_tx_open(struct ddp_end *end)
{
	/*
	 * One queue for each end: the work item takes the socket lock, which its owner
	 * may hold for a long time. WQ_MEM_RECLAIM would reserve a thread for each end,
	 * and is of no use, as the work item itself allocates memory.
	 */
	end->queue = alloc_ordered_workqueue("mpa_ddp", 0);
	if (!end->queue)
		return -ENOMEM;
	INIT_WORK(&end->tx, ddp_tx_work);
	INIT_DELAYED_WORK(&end->late, ddp_tx_late);
	return 0;
}

/* Undo ddp_tx_open(), after the last upcall. Context: process. */
void ddp_tx_close(struct ddp_end *end)
{
	cancel_work_sync(&end->tx);
	cancel_delayed_work_sync(&end->late);
	destroy_workqueue(end->queue);
}

/* Queue the work item: there may be something to send. Context: any. */
void ddp_tx_soon(struct ddp_end *end)
{
	queue_work(end->queue, &end->tx);
}
