/* SPDX-License-Identifier: GPL-2.0 */
/*
 * siwm: siw, with include/net/mpa.h in place of its framing. siw.h includes this.
 *
 * siwm_cm.c	connections: iw_cm's calls, startup
 * siwm_cep.c	endpoints: upcalls, events, lifetime, locks
 * siwm_tx.c	from a work request to DDP segments; Terminate
 * siwm_rx.c	from a ULPDU to memory
 *
 * The other files are siw's own, of the kernel that siwm is built for: verbs, memory, queues, the
 * checks of DDP and RDMAP. siwm.cocci changes them during the build.
 */
#ifndef _SIWM_H
#define _SIWM_H

#include <linux/bvec.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <net/mpa.h>

#include <rdma/ib_verbs.h>

struct siw_iwarp_tx;
struct siw_mem;
struct siw_qp;
struct siw_rx_stream;
struct siw_umem;
struct siw_wqe;

/* Maximum number of pieces of memory for mpa_sock_send_cut(): enough for 64 KiB */
#define SIWM_PIECES		32

/* State for sending, in addition to struct siw_iwarp_tx */
struct siwm_sq {
	struct mutex lock;		/* for the current work request: siwm_tx.c */
	struct work_struct work;
	struct bio_vec vec[SIWM_PIECES]; /* memory to send */
};

/* siwm_tx.c */
void siwm_sq_init(struct siw_qp *qp);
void siwm_sq_process(struct siw_qp *qp);
int siw_qp_sq_proc_tx(struct siw_qp *qp, struct siw_wqe *wqe);
int siw_sq_start(struct siw_qp *qp);
void siwm_send_terminate(struct siw_qp *qp, struct socket *sock);
int siwm_tx_init(void);
void siwm_tx_exit(void);

/* siwm_rx.c */
int siwm_rx_ulpdu(struct siw_qp *qp, const struct mpa_ulpdu *ulpdu);
int siw_proc_terminate(struct siw_qp *qp);
int siw_rx_umem(struct siw_rx_stream *srx, struct siw_umem *umem, u64 addr,
		int len);
int siw_rx_kva(struct siw_rx_stream *srx, void *kva, int len);
int siw_rx_pbl(struct siw_rx_stream *srx, int *pbl_idx, struct siw_mem *mem,
	       u64 addr, int len);

/* siw's functions, which are static in siw */
int siw_check_sgl_tx(struct ib_pd *pd, struct siw_wqe *wqe,
		     enum ib_access_flags perms);
int siw_rdmap_complete(struct siw_qp *qp, int error);

#endif /* _SIWM_H */
