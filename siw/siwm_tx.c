// SPDX-License-Identifier: GPL-2.0
/*
 * Sending: the DDP segments of a work request (RFC 5040 section 4, RFC 5041 section 4), and the
 * Terminate.
 *
 * A program's siw_post_send() sends in the caller's context. The queue pair's work item sends
 * all else: Read Responses, what kernel users post, and what has waited for the writable
 * upcall. Both may run at once, so siwm_sq.lock protects the current work request. The task
 * that gets the lock second finds the work request done, or continues with the next one. The
 * lock is taken with the queue pair's state lock held for reading, so that the socket and the
 * queues stay; the socket lock is taken last. A work request completes as soon as mpa has
 * copied its last octet.
 */

#include <linux/highmem.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "siw.h"
#include "siw_cm.h"
#include "siw_mem.h"
#include "siw_verbs.h"

/* Maximum number of calls of mpa for a queue pair before other queue pairs get their turn */
#define SIWM_BURST		64

/*
 * A ULPDU of this length fits a segment on any path (RFC 5044 section 4.5), so mpa_sock_send()
 * is sufficient.
 */
#define SIWM_SHORT		128

static struct workqueue_struct *siwm_tx_wq;

/* ---- headers ---- */

/* Return the RDMAP opcode of a work request, or a negative errno. */
static int siwm_tx_opcode(const struct siw_wqe *wqe)
{
	bool solicited = wqe->sqe.flags & SIW_WQE_SOLICITED;

	switch (wqe->sqe.opcode) {
	case SIW_OP_WRITE:
		return RDMAP_RDMA_WRITE;
	case SIW_OP_READ:
	case SIW_OP_READ_LOCAL_INV:
		return RDMAP_RDMA_READ_REQ;
	case SIW_OP_READ_RESPONSE:
		return RDMAP_RDMA_READ_RESP;
	case SIW_OP_SEND:
		return solicited ? RDMAP_SEND_SE : RDMAP_SEND;
	case SIW_OP_SEND_REMOTE_INV:
		return solicited ? RDMAP_SEND_SE_INVAL : RDMAP_SEND_INVAL;
	default:
		return -EOPNOTSUPP;
	}
}

/*
 * Fill in the header of a message, as if the message were one segment. The header's
 * ULPDU length field is not sent.
 */
static int siwm_tx_header(struct siw_iwarp_tx *tx, const struct siw_wqe *wqe)
{
	int opcode = siwm_tx_opcode(wqe);

	if (opcode < 0)
		return opcode;
	memset(&tx->pkt.hdr, 0, sizeof(tx->pkt.hdr));
	tx->pkt.ctrl = iwarp_pktinfo[opcode].ctrl;
	tx->ctrl_len = iwarp_pktinfo[opcode].hdr_len;
	switch (opcode) {
	case RDMAP_RDMA_WRITE:
	case RDMAP_RDMA_READ_RESP:
		tx->pkt.c_tagged.ddp_stag = cpu_to_be32(wqe->sqe.rkey);
		tx->pkt.c_tagged.ddp_to = cpu_to_be64(wqe->sqe.raddr);
		break;
	case RDMAP_RDMA_READ_REQ:
		tx->pkt.rreq.ddp_qn = cpu_to_be32(RDMAP_UNTAGGED_QN_RDMA_READ);
		tx->pkt.rreq.ddp_msn =
			cpu_to_be32(++tx->ddp_msn[RDMAP_UNTAGGED_QN_RDMA_READ]);
		tx->pkt.rreq.sink_stag = cpu_to_be32(wqe->sqe.sge[0].lkey);
		tx->pkt.rreq.sink_to = cpu_to_be64(wqe->sqe.sge[0].laddr);
		tx->pkt.rreq.read_size = cpu_to_be32(wqe->sqe.sge[0].length);
		tx->pkt.rreq.source_stag = cpu_to_be32(wqe->sqe.rkey);
		tx->pkt.rreq.source_to = cpu_to_be64(wqe->sqe.raddr);
		break;
	default:
		if (wqe->sqe.opcode == SIW_OP_SEND_REMOTE_INV)
			tx->pkt.send_inv.inval_stag =
				cpu_to_be32(wqe->sqe.rkey);
		tx->pkt.c_untagged.ddp_msn =
			cpu_to_be32(++tx->ddp_msn[RDMAP_UNTAGGED_QN_SEND]);
		break;
	}
	return 0;
}

/* Headers for mpa_sock_send_cut() */
struct siwm_headers {
	struct mpa_headers headers;
	const struct siw_iwarp_tx *tx;	/* has the message's header */
	u32 done;	/* octets of the message sent by earlier calls */
	bool whole;	/* this call has the message's last octet */
};

static void siwm_write_header(const struct mpa_headers *headers, void *to, u32 off,
			      u32 len, bool last)
{
	const struct siwm_headers *at =
		container_of(headers, struct siwm_headers, headers);
	union iwarp_hdr hdr = at->tx->pkt.hdr;

	off += at->done;
	if (hdr.ctrl.ddp_rdmap_ctrl & DDP_FLAG_TAGGED)
		be64_add_cpu(&hdr.c_tagged.ddp_to, off);
	else
		hdr.c_untagged.ddp_mo = cpu_to_be32(off);
	if (!last || !at->whole)
		hdr.ctrl.ddp_rdmap_ctrl &= ~DDP_FLAG_LAST;
	memcpy(to, (u8 *)&hdr + MPA_HDR_SIZE, headers->len);
}

/* ---- memory ---- */

/* Set @vec to the memory at @addr of @mem, at most @len octets. Return: its length, or -EFAULT. */
static int siwm_tx_piece(struct bio_vec *vec, struct siw_mem *mem, u64 addr,
			 u32 len)
{
	void *kva = (void *)(uintptr_t)addr;
	struct page *page;
	dma_addr_t buffer;
	int left;

	if (mem && mem->mem_obj && !mem->is_pbl) {
		page = siw_get_upage(mem->umem, addr);
	} else {
		if (mem && mem->mem_obj) {
			buffer = siw_pbl_get_buffer(mem->pbl, addr - mem->va,
						    &left, NULL);
			if (!buffer)
				return -EFAULT;
			kva = (void *)(uintptr_t)buffer;
			len = min_t(u32, len, left);
		}
		page = is_vmalloc_addr(kva) ? vmalloc_to_page(kva) :
					      virt_to_page(kva);
	}
	if (!page)
		return -EFAULT;
	len = min_t(u32, len, PAGE_SIZE - offset_in_page(kva));
	bvec_set_page(vec, page, len, offset_in_page(kva));
	return len;
}

/*
 * Set @to to the message's next octets, in up to SIWM_PIECES pieces. Return: the number of
 * octets, or -EFAULT.
 */
static int siwm_tx_gather(struct siw_qp *qp, struct siw_wqe *wqe,
			  struct iov_iter *to)
{
	bool is_inline = wqe->sqe.flags & SIW_WQE_INLINE;
	u32 skip = wqe->processed, octets = 0;
	struct bio_vec *vec = qp->sq.vec;
	struct siw_sge *sge;
	int i, len, n = 0;
	u32 off;

	for (i = 0; i < wqe->sqe.num_sge && n < SIWM_PIECES; i++) {
		sge = &wqe->sqe.sge[i];
		off = min(skip, sge->length);
		skip -= off;
		for (; off < sge->length && n < SIWM_PIECES; off += len) {
			len = siwm_tx_piece(&vec[n++],
					    is_inline ? NULL : wqe->mem[i],
					    sge->laddr + off, sge->length - off);
			if (len < 0)
				return len;
			octets += len;
		}
	}
	iov_iter_bvec(to, ITER_SOURCE, vec, n, octets);
	return octets;
}

/* ---- a work request ---- */

static bool siwm_tx_response_waits(const struct siw_qp *qp)
{
	u32 size = qp->attrs.irq_size;

	return size && READ_ONCE(qp->irq[qp->irq_get % size].flags) & SIW_WQE_VALID;
}

/*
 * Whether a work request follows at once, so that both can share a segment. False if the next
 * one may have to wait: for earlier Reads (a fence), or for a free ORQ entry.
 */
static bool siwm_tx_more(struct siw_qp *qp)
{
	const struct siw_sqe *sqe = sq_get_next(qp);

	if (!sqe)
		return siwm_tx_response_waits(qp);
	if (sqe->flags & SIW_WQE_READ_FENCE)
		return false;
	switch (sqe->opcode) {
	case SIW_OP_WRITE:
	case SIW_OP_SEND:
		return true;
	case SIW_OP_READ:
		return qp->attrs.orq_size && orq_get_free(qp);
	default:
		return false;
	}
}

static int siwm_tx_begin(struct siw_qp *qp, struct siw_wqe *wqe)
{
	int rv = 0;

	/*
	 * The peer's Read Request names one piece of memory. If it is empty, siw_activate_tx()
	 * leaves that of an earlier work request in place.
	 */
	if (tx_type(wqe) == SIW_OP_READ_RESPONSE) {
		if (!wqe->sqe.num_sge)
			wqe->sqe.sge[0].length = 0;
		wqe->sqe.num_sge = 1;
	}
	if (tx_type(wqe) == SIW_OP_READ || tx_type(wqe) == SIW_OP_READ_LOCAL_INV) {
		wqe->bytes = 0;
	} else if (wqe->sqe.flags & SIW_WQE_INLINE) {
		if (wqe->sqe.sge[0].length > SIW_MAX_INLINE)
			return -EINVAL;
		/* Ignore the program's address of inline data. */
		wqe->sqe.sge[0].laddr = (uintptr_t)&wqe->sqe.sge[1];
		wqe->sqe.num_sge = 1;
		wqe->bytes = wqe->sqe.sge[0].length;
	} else {
		rv = siw_check_sgl_tx(qp->pd, wqe,
				      tx_type(wqe) == SIW_OP_READ_RESPONSE ?
				      IB_ACCESS_REMOTE_READ : 0);
		if (rv < 0)
			return rv;
		wqe->bytes = rv;
	}
	rv = siwm_tx_header(&qp->tx_ctx, wqe);
	if (rv)
		return rv;
	wqe->processed = 0;
	wqe->wr_status = SIW_WR_INPROGRESS;
	return 0;
}

/*
 * Call mpa once. Return: 0: the whole message has been sent; -EINPROGRESS: a part of it; or
 * another negative errno.
 */
static int siwm_tx_some(struct siw_qp *qp, struct siw_wqe *wqe)
{
	unsigned int more = siwm_tx_more(qp) ? MPA_SEND_MORE : 0;
	struct siw_iwarp_tx *tx = &qp->tx_ctx;
	struct siwm_headers at = {
		.headers.len = tx->ctrl_len - MPA_HDR_SIZE,
		.headers.write = siwm_write_header,
		.tx = tx,
		.done = wqe->processed,
	};
	struct iov_iter payload;
	struct kvec header = {
		.iov_base = (u8 *)&tx->pkt.hdr + MPA_HDR_SIZE,
		.iov_len = at.headers.len,
	};
	int n;

	if (!wqe->bytes)
		return mpa_sock_send(qp->attrs.sk, &header, NULL, more, NULL);
	n = siwm_tx_gather(qp, wqe, &payload);
	if (n < 0)
		return n;
	if (header.iov_len + wqe->bytes <= SIWM_SHORT)
		return mpa_sock_send(qp->attrs.sk, &header, &payload, more, NULL);
	at.whole = wqe->processed + n == wqe->bytes;
	n = mpa_sock_send_cut(qp->attrs.sk, &at.headers, &payload,
			      at.whole ? more : MPA_SEND_MORE, NULL);
	if (n < 0)
		return n;
	wqe->processed += n;
	return wqe->processed == wqe->bytes ? 0 : -EINPROGRESS;
}

/* RFC 5040 section 4.8: prepare a Terminate if a work request has failed. */
static void siwm_tx_error(struct siw_qp *qp, const struct siw_wqe *wqe, int err)
{
	/* @err is from siw_check_sgl_tx(): a negative enum siw_access_state. */
	if (tx_type(wqe) == SIW_OP_READ_RESPONSE && wqe->wr_status == SIW_WR_QUEUED)
		siw_init_terminate(qp, TERM_ERROR_LAYER_RDMAP,
				   RDMAP_ETYPE_REMOTE_PROTECTION,
				   siw_rdmap_error(-err), 1);
	else
		siw_init_terminate(qp, TERM_ERROR_LAYER_RDMAP,
				   RDMAP_ETYPE_CATASTROPHIC,
				   RDMAP_ECODE_UNSPECIFIED, 1);
}

/*
 * Send the current work request, @wqe, or the rest of it. Context: process, state lock
 * held for reading, siwm_sq.lock held. Return: 0: mpa has copied all of it; -EAGAIN:
 * wait for the writable upcall; -EINPROGRESS: let other queue pairs send first; another
 * errno: the work request has failed.
 */
int siw_qp_sq_proc_tx(struct siw_qp *qp, struct siw_wqe *wqe)
{
	struct siw_iwarp_tx *tx = &qp->tx_ctx;
	int rv = 0;

	if (wqe->wr_status == SIW_WR_IDLE)
		return 0;
	if (wqe->wr_status == SIW_WR_QUEUED) {
		rv = siwm_tx_begin(qp, wqe);
		if (rv) {
			siwm_tx_error(qp, wqe, rv);
			return -EINVAL;
		}
	}
	do {
		if (tx->tx_suspend)
			return -ECONNABORTED;
		if (!tx->burst--)
			return -EINPROGRESS;
		rv = siwm_tx_some(qp, wqe);
	} while (rv == -EINPROGRESS);
	if (rv == -EAGAIN)
		siwm_cep_cannot_send(qp->cep);
	else if (rv)
		siwm_tx_error(qp, wqe, rv);
	return rv;
}

/* ---- the send queue ---- */

/* Work on the send queue of a queue pair in RTS. Context: process, state lock held for reading. */
void siwm_sq_process(struct siw_qp *qp)
{
	mutex_lock(&qp->sq.lock);
	qp->tx_ctx.burst = SIWM_BURST;
	/* Start a fenced work request only after the Reads before it are complete. */
	if (tx_wqe(qp)->wr_status != SIW_WR_IDLE &&
	    !READ_ONCE(qp->tx_ctx.orq_fence) &&
	    siw_qp_sq_process(qp) < 0 && !qp->tx_ctx.tx_suspend)
		siw_qp_cm_drop(qp, 1);
	mutex_unlock(&qp->sq.lock);
}

static void siwm_sq_work(struct work_struct *work)
{
	struct siw_qp *qp = container_of(work, struct siw_qp, sq.work);

	down_read(&qp->state_lock);
	if (qp->attrs.state == SIW_QP_STATE_RTS && !qp->tx_ctx.tx_suspend)
		siwm_sq_process(qp);
	up_read(&qp->state_lock);
	siw_qp_put(qp);
}

void siwm_sq_init(struct siw_qp *qp)
{
	mutex_init(&qp->sq.lock);
	INIT_WORK(&qp->sq.work, siwm_sq_work);
}

int siw_sq_start(struct siw_qp *qp)
{
	siw_qp_get(qp);
	if (!queue_work(siwm_tx_wq, &qp->sq.work))
		siw_qp_put(qp);
	return 0;
}

/* ---- Terminate ---- */

/* RFC 5040 section 4.8, figures 7 and 8 */
struct siwm_terminate {
	struct iwarp_ctrl_untagged hdr;
	__be32 control;
	/* The DDP Segment Length is where siw's headers have the ULPDU length. */
	union iwarp_hdr about;
} __packed;

#define SIWM_TERM_LENGTH	BIT(15)
#define SIWM_TERM_DDP		BIT(14)
#define SIWM_TERM_READ		BIT(13)

static void siwm_terminated_read(const struct siw_wqe *wqe,
				 struct iwarp_rdma_rreq *rreq)
{
	const struct siw_sge *sge = wqe->sqe.sge;

	rreq->ctrl = iwarp_pktinfo[RDMAP_RDMA_READ_REQ].ctrl;
	rreq->ddp_qn = cpu_to_be32(RDMAP_UNTAGGED_QN_RDMA_READ);
	/* siw_init_rresp() has stored the MSN in sge[1]. */
	rreq->ddp_msn = cpu_to_be32(sge[1].length);
	rreq->sink_stag = cpu_to_be32(wqe->sqe.rkey);
	rreq->sink_to = cpu_to_be64(wqe->sqe.raddr);
	rreq->read_size = cpu_to_be32(sge->length);
	rreq->source_stag = cpu_to_be32(sge->lkey);
	rreq->source_to = cpu_to_be64(sge->laddr);
}

/* Add the headers of figure 10. Return: the number of octets of @term->about in use. */
static int siwm_terminate_about(struct siw_qp *qp, struct siwm_terminate *term,
				u32 *control)
{
	const union iwarp_hdr *hdr = &qp->rx_stream.hdr;
	bool read;
	int len;

	if (qp->term_info.layer == TERM_ERROR_LAYER_LLP ||
	    qp->term_info.etype == RDMAP_ETYPE_CATASTROPHIC)
		return 0;
	if (qp->term_info.in_tx)
		siwm_terminated_read(tx_wqe(qp), &term->about.rreq);
	else
		term->about = *hdr;
	*control |= SIWM_TERM_LENGTH | SIWM_TERM_DDP;
	read = __rdmap_get_opcode(&term->about.ctrl) == RDMAP_RDMA_READ_REQ;
	if (term->about.ctrl.ddp_rdmap_ctrl & DDP_FLAG_TAGGED)
		len = sizeof(struct iwarp_ctrl_tagged);
	else
		len = sizeof(struct iwarp_ctrl_untagged);
	if (read && qp->term_info.layer == TERM_ERROR_LAYER_RDMAP &&
	    qp->term_info.etype == RDMAP_ETYPE_REMOTE_PROTECTION) {
		*control |= SIWM_TERM_READ;
		len = sizeof(struct iwarp_rdma_rreq);
	}
	return len;
}

/*
 * Send the Terminate of siw_init_terminate(), if there is one. Nothing else is sent afterwards.
 * The Terminate may interrupt a message, but no FPDU. The Terminate is dropped if the send
 * buffer is full: the peer does not read. Context: process, state lock held for writing, so
 * that nothing is sent or received.
 */
void siwm_send_terminate(struct siw_qp *qp, struct socket *sock)
{
	struct siwm_terminate *term;
	struct kvec vec;
	u32 control;
	int len, rv;

	if (!qp->term_info.valid)
		return;
	qp->term_info.valid = 0;
	term = kzalloc(sizeof(*term), GFP_KERNEL);
	if (!term)
		return;
	control = qp->term_info.layer << 28 | qp->term_info.etype << 24 |
		  qp->term_info.ecode << 16;
	len = siwm_terminate_about(qp, term, &control);
	term->hdr.ctrl = iwarp_pktinfo[RDMAP_TERMINATE].ctrl;
	term->hdr.ddp_qn = cpu_to_be32(RDMAP_UNTAGGED_QN_TERMINATE);
	term->hdr.ddp_msn = cpu_to_be32(1);
	term->control = cpu_to_be32(control);
	vec.iov_base = (u8 *)term + MPA_HDR_SIZE;
	vec.iov_len = offsetof(struct siwm_terminate, about) - MPA_HDR_SIZE + len;
	rv = mpa_sock_send(sock, &vec, NULL, 0, NULL);
	siw_dbg_qp(qp, "sent Terminate %04x: %d\n", control >> 16, rv);
	kfree(term);
}

int siwm_tx_init(void)
{
	siwm_tx_wq = alloc_workqueue("siwm_tx", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return siwm_tx_wq ? 0 : -ENOMEM;
}

void siwm_tx_exit(void)
{
	if (siwm_tx_wq)
		destroy_workqueue(siwm_tx_wq);
}
