// SPDX-License-Identifier: GPL-2.0
/*
 * Receiving: a ULPDU is a DDP segment (RFC 5041 section 4), whole and verified. Its
 * header is read and checked here, siw's functions for each RDMAP message check it
 * against what is expected, and call back for its payload to be copied.
 *
 * All of it is in the ulpdu upcall: socket lock, often softirq, state lock read.
 */

#include <linux/highmem.h>

#include "siw.h"
#include "siw_cm.h"
#include "siw_mem.h"
#include "siw_verbs.h"

/* ---- to memory ---- */

/**
 * siw_rx_kva() - copy payload to the kernel's memory
 * @srx:	the stream
 * @kva:	where to
 * @len:	how much
 *
 * Return: @len, or a negative errno; so the next two.
 */
int siw_rx_kva(struct siw_rx_stream *srx, void *kva, int len)
{
	int rv = mpa_ulpdu_read(srx->ulpdu, srx->skb_offset, kva, len);

	if (rv)
		return rv;
	srx->skb_offset += len;
	srx->skb_copied += len;
	srx->skb_new -= len;
	return len;
}

/**
 * siw_rx_umem() - copy payload to a program's registered memory
 * @srx:	the stream
 * @umem:	the memory
 * @addr:	where to, as the program sees it
 * @len:	how much
 *
 * Page by page: an iterator for all of them costs twice as much as what it saves.
 */
int siw_rx_umem(struct siw_rx_stream *srx, struct siw_umem *umem, u64 addr,
		int len)
{
	int done, piece, rv;
	struct page *page;
	void *kva;

	for (done = 0; done < len; done += piece, addr += piece) {
		page = siw_get_upage(umem, addr);
		if (!page)
			return -EFAULT;
		piece = min_t(int, len - done, PAGE_SIZE - offset_in_page(addr));
		kva = kmap_local_page(page);
		rv = siw_rx_kva(srx, kva + offset_in_page(addr), piece);
		kunmap_local(kva);
		if (rv < 0)
			return rv;
	}
	return len;
}

/**
 * siw_rx_pbl() - copy payload to a kernel user's registered memory
 * @srx:	the stream
 * @pbl_idx:	which of its buffers was the last
 * @mem:	the memory
 * @addr:	where to
 * @len:	how much
 */
int siw_rx_pbl(struct siw_rx_stream *srx, int *pbl_idx, struct siw_mem *mem,
	       u64 addr, int len)
{
	int done, piece, rv;
	dma_addr_t buffer;

	for (done = 0; done < len; done += piece) {
		buffer = siw_pbl_get_buffer(mem->pbl, addr + done - mem->va, &piece,
					    pbl_idx);
		if (!buffer)
			return -EFAULT;
		piece = min(piece, len - done);
		rv = siw_rx_kva(srx, (void *)(uintptr_t)buffer, piece);
		if (rv < 0)
			return rv;
	}
	return len;
}

/* ---- the header ---- */

static int siwm_rx_bad(struct siw_qp *qp, enum term_elayer layer, u8 etype, u8 ecode)
{
	siw_init_terminate(qp, layer, etype, ecode, 0);
	return -EINVAL;
}

static int siwm_rx_bad_version(struct siw_qp *qp, const struct iwarp_ctrl *ctrl)
{
	if (ctrl->ddp_rdmap_ctrl & DDP_FLAG_TAGGED)
		return siwm_rx_bad(qp, TERM_ERROR_LAYER_DDP, DDP_ETYPE_TAGGED_BUF,
				   DDP_ECODE_T_VERSION);
	return siwm_rx_bad(qp, TERM_ERROR_LAYER_DDP, DDP_ETYPE_UNTAGGED_BUF,
			   DDP_ECODE_UT_VERSION);
}

/*
 * What siw does not look at: a Read Request is one segment of its queue (RFC 5040
 * section 4.4). Sends are siw_send_check_ntoh()'s.
 */
static int siwm_rx_check_read(struct siw_qp *qp)
{
	const struct iwarp_rdma_rreq *rreq = &qp->rx_stream.hdr.rreq;
	u8 ecode;

	if (rreq->ddp_qn != cpu_to_be32(RDMAP_UNTAGGED_QN_RDMA_READ))
		ecode = DDP_ECODE_UT_INVALID_QN;
	else if (rreq->ddp_mo)
		ecode = DDP_ECODE_UT_INVALID_MO;
	else
		return 0;
	return siwm_rx_bad(qp, TERM_ERROR_LAYER_DDP, DDP_ETYPE_UNTAGGED_BUF, ecode);
}

/* Read the header, and check what does not depend on the state of the stream. */
static int siwm_rx_header(struct siw_qp *qp, const struct mpa_ulpdu *ulpdu)
{
	struct siw_rx_stream *srx = &qp->rx_stream;
	struct iwarp_ctrl *ctrl = &srx->hdr.ctrl;
	u8 opcode;
	u32 len;
	int rv;

	/* The longest header, and perhaps a bit of payload. */
	len = min_t(u32, ulpdu->len, sizeof(srx->hdr) - MPA_HDR_SIZE);
	rv = mpa_ulpdu_read(ulpdu, 0, (u8 *)&srx->hdr + MPA_HDR_SIZE, len);
	if (rv)
		return rv;
	ctrl->mpa_len = cpu_to_be16(ulpdu->len);
	if (len < sizeof(struct iwarp_ctrl_tagged) - MPA_HDR_SIZE)
		return siwm_rx_bad(qp, TERM_ERROR_LAYER_LLP, LLP_ETYPE_MPA,
				   LLP_ECODE_FPDU_START);
	if (__ddp_get_version(ctrl) != DDP_VERSION)
		return siwm_rx_bad_version(qp, ctrl);
	if (__rdmap_get_version(ctrl) != RDMAP_VERSION)
		return siwm_rx_bad(qp, TERM_ERROR_LAYER_RDMAP,
				   RDMAP_ETYPE_REMOTE_OPERATION,
				   RDMAP_ECODE_VERSION);
	opcode = __rdmap_get_opcode(ctrl);
	/* RFC 5040 section 4.3: whether a message is tagged follows from its opcode. */
	if (opcode > RDMAP_TERMINATE ||
	    (ctrl->ddp_rdmap_ctrl ^ iwarp_pktinfo[opcode].ctrl.ddp_rdmap_ctrl) &
	    DDP_FLAG_TAGGED)
		return siwm_rx_bad(qp, TERM_ERROR_LAYER_RDMAP,
				   RDMAP_ETYPE_REMOTE_OPERATION,
				   RDMAP_ECODE_OPCODE);
	if (ulpdu->len < iwarp_pktinfo[opcode].hdr_len - MPA_HDR_SIZE)
		return siwm_rx_bad(qp, TERM_ERROR_LAYER_LLP, LLP_ETYPE_MPA,
				   LLP_ECODE_FPDU_START);
	return opcode == RDMAP_RDMA_READ_REQ ? siwm_rx_check_read(qp) : 0;
}

/*
 * Which message it belongs to: one tagged and one untagged may be under way at a time.
 */
static int siwm_rx_message(struct siw_qp *qp)
{
	struct siw_rx_stream *srx = &qp->rx_stream;
	struct iwarp_ctrl *ctrl = &srx->hdr.ctrl;
	u8 opcode = __rdmap_get_opcode(ctrl);
	struct siw_rx_fpdu *frx;

	set_rx_fpdu_context(qp, opcode);
	frx = qp->rx_fpdu;
	frx->first_ddp_seg = !frx->more_ddp_segs;
	if (frx->first_ddp_seg) {
		frx->prev_rdmap_op = opcode;
	} else if (frx->prev_rdmap_op != opcode) {
		/* The one that is not complete is what siw_rdmap_complete() ends. */
		set_rx_fpdu_context(qp, frx->prev_rdmap_op);
		__rdmap_set_opcode(ctrl, frx->prev_rdmap_op);
		return siwm_rx_bad(qp, TERM_ERROR_LAYER_RDMAP,
				   RDMAP_ETYPE_REMOTE_OPERATION,
				   RDMAP_ECODE_OPCODE);
	}
	frx->more_ddp_segs = !(ctrl->ddp_rdmap_ctrl & DDP_FLAG_LAST);
	return 0;
}

/**
 * siw_proc_terminate() - the peer has found an error, and sends no more
 * @qp:		the queue pair
 *
 * Return: -ECONNRESET
 */
int siw_proc_terminate(struct siw_qp *qp)
{
	const struct iwarp_terminate *term = &qp->rx_stream.hdr.terminate;
	__be32 control;

	memcpy(&control, (u8 *)term + sizeof(struct iwarp_ctrl_untagged),
	       sizeof(control));
	ibdev_warn_ratelimited(&qp->sdev->base_dev,
			       "QP %u: the peer sent Terminate %04x\n", qp_id(qp),
			       be32_to_cpu(control) >> 16);
	return -ECONNRESET;
}

/**
 * siwm_rx_ulpdu() - take a ULPDU
 * @qp:		the queue pair, in RTS
 * @ulpdu:	the ULPDU
 *
 * Context: upcall, state lock read.
 * Return: 0, or a negative errno, with which the stream is over; never -EAGAIN.
 */
int siwm_rx_ulpdu(struct siw_qp *qp, const struct mpa_ulpdu *ulpdu)
{
	struct siw_rx_stream *srx = &qp->rx_stream;
	u8 opcode;
	int rv;

	srx->ulpdu = ulpdu;
	srx->state = SIW_GET_HDR;
	rv = siwm_rx_header(qp, ulpdu);
	if (rv)
		goto bad;
	opcode = __rdmap_get_opcode(&srx->hdr.ctrl);
	if (opcode == RDMAP_TERMINATE) {
		rv = siw_proc_terminate(qp);
		goto drop;
	}
	rv = siwm_rx_message(qp);
	if (rv)
		goto bad;
	srx->state = SIW_GET_DATA_START;
	srx->skb_offset = iwarp_pktinfo[opcode].hdr_len - MPA_HDR_SIZE;
	srx->skb_new = ulpdu->len - srx->skb_offset;
	srx->skb_copied = 0;
	srx->fpdu_part_rem = srx->skb_new;
	srx->fpdu_part_rcvd = 0;
	rv = iwarp_pktinfo[opcode].rx_data(qp);
	if (rv)
		goto bad;
	srx->state = SIW_GET_HDR;
	if (srx->hdr.ctrl.ddp_rdmap_ctrl & DDP_FLAG_LAST)
		rv = siw_rdmap_complete(qp, 0);
	if (!rv)
		return 0;
	goto drop;

bad:
	/* What was under way has failed. */
	if (qp->rx_fpdu &&
	    (srx->state != SIW_GET_HDR || qp->rx_fpdu->more_ddp_segs))
		siw_rdmap_complete(qp, rv);
drop:
	siw_qp_cm_drop(qp, 1);
	return rv == -EAGAIN ? -EPROTO : rv;
}
