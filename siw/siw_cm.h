/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections of siwm. It has the name of siw's header, in whose place it is: siw's
 * other files include it.
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
 * enum siwm_state - where an endpoint stands
 * @SIWM_NEW:		being made
 * @SIWM_LISTENING:	a listening socket
 * @SIWM_AWAIT_REQUEST:	responder: accepted by TCP, no MPA Request Frame yet
 * @SIWM_REQUESTED:	iw_cm knows of the request, and is to decide
 * @SIWM_AWAIT_REPLY:	initiator: the MPA Request Frame is out
 * @SIWM_RDMA:		iw_cm knows that the connection is established
 * @SIWM_CLOSED:	the socket has gone, iw_cm knows
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

/* All that struct iw_cm_event has room for */
#define SIWM_PRIVATE_MAX	U8_MAX

/* Bits of siw_cep.events: what its work item is to look at. */
enum siwm_event {
	SIWM_EV_INCOMING,	/* the listening socket has children */
	SIWM_EV_REQUEST,	/* an MPA Request Frame is here */
	SIWM_EV_FULL,		/* Full Operation, with startup_err */
	SIWM_EV_FIRST,		/* a responder has got the first ULPDU */
	SIWM_EV_RESUME,		/* a ULPDU was put off, as the QP's lock was taken */
	SIWM_EV_SILENT,		/* no decision or first ULPDU in time */
	SIWM_EV_CLOSED,		/* the peer has ended the stream */
	SIWM_EV_DROP,		/* startup or the connection is over, or has to be */
};

/* Bits of siw_cep.flags: set once */
enum siwm_flag {
	SIWM_RESPONDER,
	SIWM_GOT_FIRST,		/* a ULPDU has come */
	SIWM_DROPPED,		/* siwm_cm_drop_all() has seen it */
};

/**
 * struct siw_cep - an endpoint; siwm_cep.c says who holds what
 * @ref:	references
 * @sdev:	the device
 * @devq:	in @sdev->cep_list
 * @lock:	for what follows, up to @listener
 * @state:	enum siwm_state
 * @cm_id:	iw_cm's, with a reference
 * @sock:	the socket
 * @qp:		the queue pair, with a reference; upcalls read it
 * @listener:	where a responder's connection came from, with a reference
 * @ird:	inbound RDMA Read queue depth, of the peer while SIWM_REQUESTED
 * @ord:	outbound
 * @enhanced:	the request has those two
 * @work:	siwm_cep_work(): all that is done outside of iw_cm's calls
 * @events:	enum siwm_event
 * @flags:	enum siwm_flag
 * @silent:	when it runs out, SIWM_EV_SILENT
 * @request:	a responder's number in iw_cm's calls, or 0
 * @startup_err: as the state upcall has reported it
 */
struct siw_cep {
	struct kref ref;
	struct siw_device *sdev;
	struct list_head devq;

	struct mutex lock;		/* up to listener */
	enum siwm_state state;
	struct iw_cm_id *cm_id;
	struct socket *sock;
	struct siw_qp *qp;
	struct siw_cep *listener;
	u16 ird;
	u16 ord;
	bool enhanced;

	struct work_struct work;
	unsigned long events;
	unsigned long flags;
	struct timer_list silent;
	u32 request;
	int startup_err;
};

int siw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int siw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int siw_reject(struct iw_cm_id *id, const void *data, u8 len);
int siw_create_listen(struct iw_cm_id *id, int backlog);
int siw_destroy_listen(struct iw_cm_id *id);

/* What siwm_cep.c has of use to siwm_cm.c, and the other way round */
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

/* How long a responder waits for the initiator's first FPDU, and for iw_cm */
#define SIWM_SILENT		(10 * HZ)
#define SIWM_UNDECIDED		(60 * HZ)

void siwm_cm_drop_all(struct siw_device *sdev);
void siwm_cm_close_all(struct siw_device *sdev);
void siwm_disassociate_ucontext(struct ib_ucontext *ctx);

int siw_cm_init(void);
void siw_cm_exit(void);

#endif /* _SIW_CM_H */
