/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections of siwm. This file replaces siw's header of the same name, which siw's files
 * include.
 */
#ifndef _SIW_CM_H
#define _SIW_CM_H

#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include <net/mpa.h>
#include <rdma/iw_cm.h>

struct ib_ucontext;
struct siw_device;
struct siw_qp;

/**
 * enum siwm_state - state of an endpoint
 * @SIWM_NEW:		not in use yet, or being closed without an event to iw_cm
 * @SIWM_LISTENING:	a listening socket
 * @SIWM_AWAIT_REQUEST:	responder: accepted by TCP, no MPA Request Frame yet
 * @SIWM_REQUESTED:	the request was reported to iw_cm, which has to decide
 * @SIWM_AWAIT_REPLY:	initiator: the MPA Request Frame has been sent
 * @SIWM_RDMA:		the connection was reported to iw_cm as established
 * @SIWM_CLOSED:	siwm_cep_end() has been called
 */
enum siwm_state {
	SIWM_NEW,
	SIWM_LISTENING,
	SIWM_AWAIT_REQUEST,
	SIWM_REQUESTED,
	SIWM_AWAIT_REPLY,
	SIWM_RDMA,
	SIWM_CLOSED,
};

/* Maximum length of private data in struct iw_cm_event */
#define SIWM_PRIVATE_MAX	U8_MAX

/* Bits of siw_cep.events, which the work item handles */
enum siwm_event {
	SIWM_EV_INCOMING,	/* the listening socket has children */
	SIWM_EV_REQUEST,	/* an MPA Request Frame has arrived */
	SIWM_EV_FULL,		/* Full Operation, with startup_err */
	SIWM_EV_FIRST,		/* a responder has received the first ULPDU */
	SIWM_EV_RESUME,		/* a ULPDU was deferred: the state lock was held */
	SIWM_EV_SILENT,		/* timeout: no decision, or no first ULPDU */
	SIWM_EV_CLOSED,		/* the peer has ended the stream */
	SIWM_EV_DROP,		/* startup or the connection has ended, or must end */
};

/* Bits of siw_cep.flags, which are never cleared */
enum siwm_flag {
	SIWM_RESPONDER,
	SIWM_GOT_FIRST,	/* a ULPDU has arrived */
	SIWM_DROPPED,	/* siwm_cm_drop_all() has dropped the endpoint */
};

/* An endpoint; siwm_cep.c describes references and locks */
struct siw_cep {
	struct kref ref;
	struct siw_device *sdev;
	struct list_head devq;		/* in @sdev->cep_list */

	struct mutex lock;		/* protects the members up to @listener */
	enum siwm_state state;
	struct iw_cm_id *cm_id;		/* with a reference */
	struct socket *sock;
	struct siw_qp *qp;		/* with a reference; upcalls read it */
	struct siw_cep *listener;	/* of a responder, with a reference */
	u16 ird;			/* while SIWM_REQUESTED limited by the peer's request */
	u16 ord;
	bool enhanced;			/* the request has IRD and ORD */

	struct work_struct work;	/* runs all that is not done in iw_cm's calls */
	unsigned long events;		/* enum siwm_event */
	unsigned long flags;		/* enum siwm_flag */
	struct timer_list silent;	/* raises SIWM_EV_SILENT */
	u32 request;			/* number by which iw_cm knows a responder, or 0 */
	int startup_err;		/* as reported by the state upcall */
};

int siw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int siw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int siw_reject(struct iw_cm_id *id, const void *data, u8 len);
int siw_create_listen(struct iw_cm_id *id, int backlog);
int siw_destroy_listen(struct iw_cm_id *id);

/* Shared by siwm_cep.c and siwm_cm.c */
extern const struct mpa_upcalls siwm_upcalls;

struct siw_cep *siwm_cep_new(struct siw_device *sdev);
void siwm_cep_end(struct siw_cep *cep, int status);
void siwm_tell(struct siw_cep *cep, enum iw_cm_event_type type, int status);
int siwm_tell_frame(struct siw_cep *cep, struct iw_cm_id *id,
		    enum iw_cm_event_type type, int status,
		    struct mpa_peer *peer);

void siwm_accept_children(struct siw_cep *cep);
void siwm_requested(struct siw_cep *cep);
void siwm_replied(struct siw_cep *cep);
void siwm_rejected(struct siw_cep *cep);

void siw_cep_get(struct siw_cep *cep);
void siw_cep_put(struct siw_cep *cep);
void siwm_cep_tell(struct siw_cep *cep, enum siwm_event event);
void siwm_cep_cannot_send(struct siw_cep *cep);
void siwm_cep_watch(struct siw_cep *cep, unsigned long delay);
void siwm_cep_unwatch(struct siw_cep *cep);
int siwm_cep_number(struct siw_cep *cep);
struct siw_cep *siwm_cep_numbered(const struct iw_cm_id *id);

/* How long a responder waits for the initiator's first FPDU, and for iw_cm's decision */
#define SIWM_SILENT		(10 * HZ)
#define SIWM_UNDECIDED		(60 * HZ)

void siwm_cm_drop_all(struct siw_device *sdev);
void siwm_cm_close_all(struct siw_device *sdev);
void siwm_disassociate_ucontext(struct ib_ucontext *ctx);

int siw_cm_init(void);
void siw_cm_exit(void);

#endif /* _SIW_CM_H */
