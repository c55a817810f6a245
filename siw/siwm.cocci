// SPDX-License-Identifier: GPL-2.0
// Changes to siw's files when siwm is built (siw/build). Rules without a match are for
// other kernels.

// ---- headers: replace what siw's framing needed ----

@@ @@
 #include "iwarp.h"
+#include "siwm.h"

@@ @@
 struct siw_rx_stream {
 	...
-	struct sk_buff *skb;
+	const struct mpa_ulpdu *ulpdu;
 	...
 };

// bool, as adjacent bitfields must not be written under different locks
@@ @@
 struct siw_rx_stream {
 	...
-	u8 rx_suspend : 1;
+	bool rx_suspend;
 	...
 };

@@ @@
 struct siw_iwarp_tx {
 	...
-	u8 tx_suspend : 1;
+	bool tx_suspend;
 	...
 };

@@ @@
 struct siw_iwarp_tx {
 	...
-	u8 orq_fence : 1;
+	bool orq_fence;
 	...
 };

@@ @@
 struct siw_qp {
 	...
 	struct siw_iwarp_tx tx_ctx;
+	struct siwm_sq sq;
 	...
 };

@ gone @
identifier f = { siw_csum_update, siw_csum_combine, siw_crc_skb,
	siw_qp_llp_data_ready, siw_qp_llp_write_space, siw_qp_enable_crc,
	siw_send_terminate,
	siw_rx_umem, siw_rx_kva, siw_rx_pbl, siw_proc_terminate,
	siw_get_trailer, siw_get_hdr, siw_tcp_rx_data,
	siw_get_pblpage, siw_get_page, siw_sendmsg,
	siw_try_1seg, siw_qp_prepare_tx, siw_tx_ctrl,
	siw_tcp_sendpages, siw_0copy_tx, siw_unmap_pages, siw_tx_hdt,
	siw_update_tcpseg, siw_prepare_fpdu, siw_qp_sq_proc_tx,
	siw_sq_resume, siw_stop_tx_thread, siw_stop_tx_threads,
	siw_update_skb_rcvd, siw_run_sq, siw_sq_start,
	siw_create_tx_threads, siw_init_cpulist, siw_destroy_cpulist,
	siw_get_tx_cpu, siw_put_tx_cpu, siw_netdev_down,
	siw_device_goes_down };
type T;
@@
-T f(...) { ... }

// ---- functions that siwm's files call ----

@@
identifier f = { siw_check_sgl_tx, siw_rdmap_complete };
type T;
@@
-static
 T f(...) { ... }

// ---- what a peer may send ----

// A sum of the peer's offset and length wraps.
@@
typedef u32;
symbol addr, len, mem;
@@
-addr < mem->va || addr + len > mem->va + mem->len
+addr < mem->va || addr - mem->va > mem->len ||
+    (u32)len > mem->len - (addr - mem->va)

@@
expression wqe;
symbol srx;
@@
-wqe->bytes < wqe->processed + srx->fpdu_part_rem
+wqe->bytes - wqe->processed < srx->fpdu_part_rem

@@
symbol len, sge;
@@
 siw_check_sgl_tx(...)
 {
 	<...
-	len += sge->length;
+	if (check_add_overflow(len, sge->length, &len))
+		return -E_BASE_BOUNDS;
 	...>
 }

// RFC 5041 section 7.1
@@ @@
 wqe->wc_status = SIW_WC_LOC_LEN_ERR;
-ecode = DDP_ECODE_UT_INVALID_MSN_NOBUF;
+ecode = DDP_ECODE_UT_MSG_TOOLONG;

// RFC 5040 section 7.2: a Read Response without a Read
@@
symbol qp, rv;
@@
 rv = siw_orqe_start_rx(qp);
 if (rv) {
 	...
+	siw_init_terminate(qp, TERM_ERROR_LAYER_RDMAP,
+			   RDMAP_ETYPE_REMOTE_OPERATION, RDMAP_ECODE_OPCODE, 0);
 	goto error_term;
 }

// Check each segment of a Read Response, not only the first one.
@@
symbol frx;
statement S;
@@
 if (frx->first_ddp_seg) {
 	...
-	rv = siw_rresp_check_ntoh(srx, frx);
-	if (unlikely(rv)) {
-		siw_qp_event(qp, IB_EVENT_QP_FATAL);
-		return rv;
-	}
 } else S
+rv = siw_rresp_check_ntoh(srx, frx);
+if (unlikely(rv)) {
+	siw_qp_event(qp, IB_EVENT_QP_FATAL);
+	return rv;
+}

// ---- remove CRCs, socket callbacks and threads: mpa and a workqueue replace them ----

@@
symbol attrs, qp, sdev, rv, nr_cpu, cpu, base_dev;
@@
-if (attrs->flags & SIW_MPA_CRC) { ... }

@@
expression e;
@@
-e = siw_get_tx_cpu(...);
-if (e < 0) { ... }

@@ @@
-siw_put_tx_cpu(...);

// ---- the end of a connection ----

// The connection may also end during setup.
@@ @@
 siw_qp_nextstate_from_idle(...)
 {
 <...
 	if (qp->cep) {
+		siw_qp_cm_drop(qp, 1);
 		siw_cep_put(qp->cep);
 		...
 	}
 ...>
 }

// If the original siw is also loaded, it finds siwm's devices by the driver's number, but no
// queue pairs in them.
@@ @@
-list_add_tail(&qp->devq, &sdev->qp_list);

@@ @@
 siw_device_cleanup(...)
 {
 	...
+	siwm_cm_close_all(sdev);
 	xa_destroy(&sdev->qp_xa);
 	...
 }

@@
expression sdev;
@@
-siw_device_goes_down(sdev);
+siwm_cm_drop_all(sdev);

// ---- the device ----

@@ @@
 struct rdma_link_ops siw_link_ops = {
-	.type = "siw",
+	.type = "siwm",
 };

@@
declarer name MODULE_ALIAS_RDMA_LINK;
@@
-MODULE_ALIAS_RDMA_LINK("siw");
+MODULE_ALIAS_RDMA_LINK("siwm");

@@ @@
 const struct ib_device_ops siw_device_ops = {
 	.dereg_mr = siw_dereg_mr,
+	.disassociate_ucontext = siwm_disassociate_ucontext,
 };

// Ignore another module's device with the same number.
@@ @@
 siw_netdev_event(...)
 {
 	...
 	if (!base_dev)
 		return NOTIFY_OK;
+	if (base_dev->ops.owner != THIS_MODULE) {
+		ib_device_put(base_dev);
+		return NOTIFY_OK;
+	}
 	...
 }

// ---- the module ----

@@ @@
-if (!siw_create_tx_threads()) { ... }

@@ @@
-rv = siw_init_cpulist();
-if (rv)
-	goto out_error;

@@ @@
-siw_destroy_cpulist(...);

@@ @@
-siw_stop_tx_threads();

@@ @@
-siw_crypto_shash = crypto_alloc_shash(...);
-if (IS_ERR(siw_crypto_shash)) { ... }

@@ @@
-if (siw_crypto_shash)
-	crypto_free_shash(siw_crypto_shash);

@@
iterator name for_each_possible_cpu;
@@
-for_each_possible_cpu(cpu) {
-	if (siw_tx_thread[cpu]) { ... }
-}

@@ @@
-for (nr_cpu = 0; nr_cpu < nr_cpu_ids; nr_cpu++) { ... }

@@
identifier f = { siw_init_module, siw_exit_module };
identifier i = { nr_cpu, cpu };
@@
 f(...)
 {
 	...
-	int i;
 	...
 }

@@ @@
-struct task_struct *siw_tx_thread[NR_CPUS];

@@ @@
-struct crypto_shash *siw_crypto_shash;

// ---- a program's work requests ----

@@ @@
-qp->tx_ctx.in_syscall = 1;
-if (<+... siw_qp_sq_process(qp) ...+>)
-	siw_qp_cm_drop(qp, 0);
-qp->tx_ctx.in_syscall = 0;
+siwm_sq_process(qp);

@@ @@
 spin_lock_init(&qp->orq_lock);
+siwm_sq_init(qp);
