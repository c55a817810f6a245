// SPDX-License-Identifier: GPL-2.0
/*
 * Receiving: a ULPDU is a DDP segment (RFC 5041 section 4), whole and verified. This file reads
 * and checks its header. Then siw's functions for the RDMAP message compare the header with
 * what they expect, and call back to copy the payload.
 *
 * Everything runs in the ulpdu upcall, often in softirq: socket lock held, state lock held for
 * reading.
 */

#include <linux/highmem.h>

#include "siw.h"
#include "siw_cm.h"
#include "siw_mem.h"
#include "siw_verbs.h"

/* ---- copying to memory ---- */

/*
 * Copy payload to kernel memory. Return: @len, or a negative errno; likewise for the next two
 * functions.
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

/*
 * Copy payload to a program's registered memory, at @addr in its address space. Copy page by
 * page: an iterator over all pages costs twice as much as it saves.
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

/*
 * Copy payload to a kernel user's registered memory, at @addr. @pbl_idx: index of the last
 * buffer used.
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
 * A Read Request must be one segment with the right queue number (RFC 5040 section 4.4). siw
 * checks this only for Sends, in siw_send_check_ntoh().
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

	/* Read enough for the longest header. This may include payload. */
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
	/* RFC 5040 section 4.3: the opcode determines whether a message is tagged. */
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
 * Find the message of a segment. One tagged and one untagged message may be incomplete at a
 * time.
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
		/*
		 * Restore the incomplete message, which siw_rdmap_complete() has to
		 * end.
		 */
		set_rx_fpdu_context(qp, frx->prev_rdmap_op);
		__rdmap_set_opcode(ctrl, frx->prev_rdmap_op);
		return siwm_rx_bad(qp, TERM_ERROR_LAYER_RDMAP,
				   RDMAP_ETYPE_REMOTE_OPERATION,
				   RDMAP_ECODE_OPCODE);
	}
	/* siw_proc_write() ignores an empty segment, but takes the STag from the first one. */
	if (opcode == RDMAP_RDMA_WRITE && frx->first_ddp_seg && !srx->skb_new)
		return 0;
	frx->more_ddp_segs = !(ctrl->ddp_rdmap_ctrl & DDP_FLAG_LAST);
	return 0;
}

/* Log the Terminate of the peer, which has found an error. */
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

/*
 * Receive a ULPDU for a queue pair in RTS. Context: upcall, state lock held for reading.
 * Return: 0, or a negative errno, which ends the stream; never -EAGAIN.
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
	srx->skb_offset = iwarp_pktinfo[opcode].hdr_len - MPA_HDR_SIZE;
	srx->skb_new = ulpdu->len - srx->skb_offset;
	rv = siwm_rx_message(qp);
	if (rv)
		goto bad;
	srx->state = SIW_GET_DATA_START;
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
	if (qp->rx_fpdu &&
	    (srx->state != SIW_GET_HDR || qp->rx_fpdu->more_ddp_segs))
		siw_rdmap_complete(qp, rv);
drop:
	siw_qp_cm_drop(qp, 1);
	return rv == -EAGAIN ? -EPROTO : rv;
}
