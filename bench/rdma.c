// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA Send, RDMA Write and RDMA Read, over the RDMA device of the hosts' addresses,
 * such as siw. A message needs a receive buffer, so each end counts the messages that
 * it may send. With --send mmsg all work requests of a call are posted together.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "traffic.h"

#define WINDOW		128	/* messages that may be outstanding */
#define GRANT		32	/* messages received before the same number is granted */
#define QUEUE		256
#define WRITES		16	/* RDMA Writes or Reads, reported by one notice */
#define READS		16	/* Reads that may be outstanding */

/*
 * Two kinds of messages have a length of their own: grants of messages, and notices of
 * Writes or Reads.
 */
#define GRANT_LEN	1
#define NOTICE_LEN	2

struct rdma {
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *data, *in;
	uint8_t *room;			/* WINDOW + 16 receive buffers */
	size_t each;
	size_t into;			/* offset in @room for Writes */
	uint64_t posted, completed;	/* requests to send */
	struct ibv_send_wr list[WRITES + 1];	/* not posted yet */
	struct ibv_sge listed[WRITES + 1];
	unsigned int waiting;		/* in @list */
	unsigned int credit;		/* messages that may be sent */
	unsigned int owed;		/* messages to grant */
	uint64_t arrived;		/* octets */
	uint64_t peer;			/* address that Writes go to, or Reads come from */
	uint32_t peer_key;
	unsigned int ready;		/* notices of batches that can be read */
	unsigned int reading;		/* batches of outstanding Reads */
	bool writes, reads;
};

static void wait_for(struct rdma_event_channel *events,
		     enum rdma_cm_event_type type, struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(events, &event))
		fail("rdma_get_cm_event");
	if (event->event != type) {
		errno = event->status < 0 ? -event->status : EPROTO;
		fail(rdma_event_str(event->event));
	}
	if (id)
		*id = event->id;
	rdma_ack_cm_event(event);
}

static void post_recv(struct rdma *rdma, uint64_t i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(rdma->room + i * rdma->each),
		.length = rdma->each,
		.lkey = rdma->in->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = i, .sg_list = &sge, .num_sge = 1,
	};

	if (ibv_post_recv(rdma->id->qp, &wr, &bad))
		fail("ibv_post_recv");
}

static void make_queues(struct end *end, struct rdma *rdma)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = QUEUE, .max_recv_wr = QUEUE,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
	};
	size_t i, len;

	rdma->reads = end->plan->way == &way_rdma_read;
	rdma->writes = end->plan->way == &way_rdma_write || rdma->reads;
	rdma->each = rdma->writes ? 64 : end->plan->size;
	rdma->into = (WINDOW + 16) * rdma->each;
	len = rdma->into + (rdma->writes ? end->len : 0);
	rdma->room = malloc(len);
	if (!rdma->room)
		fail("memory");
	memset(rdma->room, 0, len);

	rdma->channel = ibv_create_comp_channel(rdma->id->verbs);
	if (!rdma->channel)
		fail("ibv_create_comp_channel");
	rdma->cq = ibv_create_cq(rdma->id->verbs, 2 * QUEUE, NULL,
				 rdma->channel, 0);
	attr.send_cq = rdma->cq;
	attr.recv_cq = rdma->cq;
	if (!rdma->cq || rdma_create_qp(rdma->id, NULL, &attr))
		fail("rdma_create_qp");
	rdma->data = ibv_reg_mr(rdma->id->pd, end->data, end->len,
				IBV_ACCESS_REMOTE_READ);
	rdma->in = ibv_reg_mr(rdma->id->pd, rdma->room, len,
			      IBV_ACCESS_LOCAL_WRITE |
			      IBV_ACCESS_REMOTE_WRITE);
	if (!rdma->data || !rdma->in)
		fail("ibv_reg_mr");
	for (i = 0; i < WINDOW + 16; i++)
		post_recv(rdma, i);
	rdma->credit = WINDOW;
}

static struct sockaddr *host(bool sender, int port)
{
	static struct sockaddr_in hosts[2];
	struct sockaddr_in *at = &hosts[sender];

	at->sin_family = AF_INET;
	at->sin_port = htons(port);
	at->sin_addr.s_addr = htonl(sender ? 0x0a050401 : 0x0a050402);
	return (struct sockaddr *)at;
}

static void rdma_open(struct end *end)
{
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	struct rdma_conn_param param = {
		.retry_count = 7, .initiator_depth = READS,
		.responder_resources = READS,
	};
	struct rdma *rdma = calloc(1, sizeof(*rdma));
	struct rdma_cm_id *id;

	/* Buffers are pinned, so raise the limit. */
	if (setrlimit(RLIMIT_MEMLOCK, &all))
		fail("RLIMIT_MEMLOCK");
	if (!events || !rdma || rdma_create_id(events, &id, NULL, RDMA_PS_TCP))
		fail("rdma_create_id");
	end->priv = rdma;
	rdma->id = id;
	if (end->sender) {
		if (rdma_resolve_addr(id, host(true, 0),
				      host(false, hear(end)), 2000))
			fail("rdma_resolve_addr");
		wait_for(events, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
		if (rdma_resolve_route(id, 2000))
			fail("rdma_resolve_route");
		wait_for(events, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
		make_queues(end, rdma);
		if (rdma_connect(id, &param))
			fail("rdma_connect");
	} else {
		if (rdma_bind_addr(id, host(false, 0)) || rdma_listen(id, 1))
			fail("rdma_listen");
		tell(end, ntohs(rdma_get_src_port(id)));
		wait_for(events, RDMA_CM_EVENT_CONNECT_REQUEST, &rdma->id);
		make_queues(end, rdma);
		if (rdma_accept(rdma->id, &param))
			fail("rdma_accept");
	}
	wait_for(events, RDMA_CM_EVENT_ESTABLISHED, NULL);
	tell(end, rdma->reads ? (uintptr_t)end->data :
				(uintptr_t)rdma->room + rdma->into);
	tell(end, rdma->reads ? rdma->data->rkey : rdma->in->rkey);
	rdma->peer = hear(end);
	rdma->peer_key = hear(end);
}

static void hand_over(struct rdma *rdma)
{
	struct ibv_send_wr *bad;

	if (rdma->waiting && ibv_post_send(rdma->id->qp, rdma->list, &bad))
		fail("ibv_post_send");
	rdma->waiting = 0;
}

/*
 * Post a request at once, unless the call's requests are posted together. @tell: signal
 * the completion of this request, and so of earlier requests.
 */
static void post_send(struct end *end, enum ibv_wr_opcode opcode, const void *octets,
		      size_t len, uint64_t to, bool tell)
{
	struct rdma *rdma = end->priv;
	struct ibv_send_wr *wr = &rdma->list[rdma->waiting];
	struct ibv_sge *sge = &rdma->listed[rdma->waiting];
	bool read = opcode == IBV_WR_RDMA_READ;

	*sge = (struct ibv_sge) {
		.addr = (uintptr_t)octets, .length = len,
		.lkey = read ? rdma->in->lkey : rdma->data->lkey,
	};
	*wr = (struct ibv_send_wr) {
		.wr_id = ++rdma->posted, .sg_list = sge, .num_sge = 1,
		.opcode = opcode,
		.send_flags = tell ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = { .remote_addr = to, .rkey = rdma->peer_key },
	};
	if (rdma->waiting)
		wr[-1].next = wr;
	rdma->waiting++;
	if (end->plan->send != FORM_MMSG || rdma->waiting == ARRAY_SIZE(rdma->list))
		hand_over(rdma);
}

static void grant(struct end *end)
{
	struct rdma *rdma = end->priv;

	if (++rdma->owed < GRANT)
		return;
	rdma->owed = 0;
	post_send(end, IBV_WR_SEND, end->data, GRANT_LEN, 0, true);
	hand_over(rdma);
}

static void received(struct end *end, const struct ibv_wc *wc)
{
	struct rdma *rdma = end->priv;
	size_t len = wc->byte_len;
	const uint8_t *octets;

	if (len == GRANT_LEN) {
		rdma->credit += GRANT;
		post_recv(rdma, wc->wr_id);
		return;
	}
	octets = rdma->room + wc->wr_id * rdma->each;
	if (len == NOTICE_LEN && rdma->reads) {
		rdma->ready++;
		post_recv(rdma, wc->wr_id);
		return;
	}
	if (len == NOTICE_LEN) {
		octets = rdma->room + rdma->into;
		len = end->len;
		end->records += WRITES;
	} else {
		end->records++;
	}
	check(end, octets, len);
	post_recv(rdma, wc->wr_id);
	rdma->arrived += len;
	grant(end);
}

/* Count a batch whose last Read has completed. */
static void has_read(struct end *end)
{
	struct rdma *rdma = end->priv;

	check(end, rdma->room + rdma->into, end->len);
	end->records += WRITES;
	rdma->arrived += end->len;
	rdma->reading--;
	grant(end);
}

static bool reap(struct end *end)
{
	struct rdma *rdma = end->priv;
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(rdma->cq, 16, wc), i;

	for (i = 0; i < n; i++) {
		if (wc[i].status) {
			errno = EIO;
			fail(ibv_wc_status_str(wc[i].status));
		}
		if (wc[i].opcode == IBV_WC_RECV) {
			received(end, &wc[i]);
			continue;
		}
		/* A Send may be reported before an earlier Read. */
		if (wc[i].wr_id > rdma->completed)
			rdma->completed = wc[i].wr_id;
		if (wc[i].opcode == IBV_WC_RDMA_READ)
			has_read(end);
	}
	return n > 0;
}

/* Sleep until there are completions, and handle them. */
static void progress(struct end *end)
{
	struct rdma *rdma = end->priv;
	struct ibv_cq *cq;
	void *context;

	if (reap(end))
		return;
	if (ibv_req_notify_cq(rdma->cq, 0))
		fail("ibv_req_notify_cq");
	if (reap(end))
		return;
	if (ibv_get_cq_event(rdma->channel, &cq, &context))
		fail("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	reap(end);
}

/* Wait for space in the queue; the last entries are for grants. */
static void wait_queue(struct end *end)
{
	struct rdma *rdma = end->priv;

	while (rdma->posted - rdma->completed >= QUEUE - 32) {
		hand_over(rdma);
		progress(end);
	}
}

static void send_message(struct end *end, const void *octets, size_t len)
{
	struct rdma *rdma = end->priv;

	while (!rdma->credit) {
		hand_over(rdma);
		progress(end);
	}
	wait_queue(end);
	rdma->credit--;
	post_send(end, IBV_WR_SEND, octets, len, 0, rdma->posted % 16 == 15);
}

static void rdma_send(struct end *end)
{
	size_t size = end->plan->size, i;

	for (i = 0; i < end->plan->batch; i++)
		send_message(end, end->data + i * size, size);
	hand_over(end->priv);
}

static void rdma_write(struct end *end)
{
	size_t size = end->plan->size, i;
	struct rdma *rdma = end->priv;

	for (i = 0; i < WRITES; i++) {
		wait_queue(end);
		post_send(end, IBV_WR_RDMA_WRITE, end->data + i * size, size,
			  rdma->peer + i * size, rdma->posted % 16 == 15);
	}
	send_message(end, end->data, NOTICE_LEN);
	hand_over(rdma);
}

/* Notify the receiver that it may read the octets. */
static void rdma_offer(struct end *end)
{
	send_message(end, end->data, NOTICE_LEN);
	hand_over(end->priv);
}

static void fetch(struct end *end)
{
	size_t size = end->plan->size, i;
	struct rdma *rdma = end->priv;

	for (i = 0; i < WRITES; i++)
		post_send(end, IBV_WR_RDMA_READ, rdma->room + rdma->into + i * size,
			  size, rdma->peer + i * size, i == WRITES - 1);
	hand_over(rdma);
	rdma->ready--;
	rdma->reading++;
}

static size_t rdma_recv(struct end *end)
{
	struct rdma *rdma = end->priv;
	size_t n;

	while (!rdma->arrived) {
		/* Read two batches at a time, so that one is always in flight. */
		while (rdma->ready && rdma->reading < 2)
			fetch(end);
		progress(end);
	}
	n = rdma->arrived;
	rdma->arrived = 0;
	return n;
}

const struct way way_rdma_send = {
	.name = "rdma-send",
	.open = rdma_open,
	.send = rdma_send,
	.recv = rdma_recv,
};

/* Use this way with a batch of WRITES records. */
const struct way way_rdma_write = {
	.name = "rdma-write",
	.open = rdma_open,
	.send = rdma_write,
	.recv = rdma_recv,
};

/* Use this way with a batch of WRITES records. */
const struct way way_rdma_read = {
	.name = "rdma-read",
	.open = rdma_open,
	.send = rdma_offer,
	.recv = rdma_recv,
};
