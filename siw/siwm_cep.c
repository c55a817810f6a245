// SPDX-License-Identifier: GPL-2.0
/*
 * Endpoints: their lifetime, the upcalls, and the events for iw_cm.
 *
 * References
 * ----------
 * An endpoint, struct siw_cep, has one socket. References to the endpoint are held by:
 *
 *	the open endpoint	from siwm_cep_new() to siwm_cep_end(); only siwm_cep_end()
 *				releases the socket
 *	qp->cep			under qp->state_lock; siw_qp_llp_close(), siw_destroy_qp() and
 *				the change to the error state put the reference
 *	each queued work item
 *	each running timer
 *	each child, to its listening endpoint
 *
 * iw_cm has no reference, as it may drop IW_CM_EVENT_CONNECT_REQUEST. iw_cm knows a
 * responder by a number, which siwm_cep_end() invalidates.
 *
 * The endpoint has references to its queue pair and to iw_cm's cm_id, and so to its device:
 * siwm_cm_close_all() waits for the last endpoint before the device is freed.
 *
 * Locks, the outer ones first
 * ---------------------------
 *	cep->lock		for iw_cm's calls and the work item. First a child's
 *				lock, then its listener's; but siwm_cep_new() takes a
 *				new child's lock under its listener's
 *	qp->state_lock		for writing to change the state and to flush the queues, for
 *				reading to send and to receive
 *	qp->sq.lock		see siwm_tx.c
 *	the socket lock		for mpa's calls; held in upcalls, mostly in softirq
 *	queue locks		siw's spinlocks
 *
 * So an upcall must not wait for any of the first three. It tries the state lock. If
 * the lock is held, the upcall defers the ULPDU; the work item can wait for the lock,
 * and then resumes receiving. The upcall leaves all else to the work item, as an event.
 * siw_qp_cm_drop() also queues an event, as its callers hold the state lock: cep->lock
 * must be taken first.
 *
 * The end
 * -------
 * siwm_cep_end() always does this, in the work item or in a call from iw_cm:
 *
 * 1. With the state lock held for writing: send the Terminate, if there is one, and set
 *    rx_suspend and tx_suspend, so that nothing is sent or received afterwards.
 * 2. Report the end to iw_cm.
 * 3. mpa_sock_detach(): no upcall is running, and none will run; sends that are about to begin
 *    get -ENOTCONN.
 * 4. siw_qp_llp_close() waits for the state lock, so that no send is running. It clears the
 *    queue pair's socket and flushes its queues.
 * 5. sock_release(): TCP sends a FIN after the Terminate and all other data.
 * 6. Put cm_id and queue pair.
 *
 * If a queue pair is destroyed while octets arrive, siw_destroy_qp() changes the state,
 * which drops the connection. Then siw_destroy_qp() waits, without the lock, for the
 * endpoint to put its reference.
 *
 * If the peer closes, the "closed" upcall follows the last ULPDU, and then the endpoint ends. If
 * both ends close at once, the first event ends the endpoint, and the second finds SIWM_CLOSED.
 *
 * If a link is deleted while connections exist, programs lose their contexts
 * (disassociate_ucontext), which destroys their queue pairs. siwm_cm_close_all() ends endpoints
 * that have no queue pair yet.
 */

#include <linux/net.h>
#include <linux/slab.h>
#include <net/sock.h>

#include "compat.h"
#include "siw.h"
#include "siw_cm.h"

static struct workqueue_struct *siwm_cm_wq;
/* siwm_cm_close_all() waits for the last endpoint. */
static DECLARE_WAIT_QUEUE_HEAD(siwm_gone);
/* Responders' endpoints by number */
static DEFINE_XARRAY_ALLOC1(siwm_requests);

/* ---- endpoints ---- */

static void siwm_cep_work(struct work_struct *work);
static void siwm_silent(struct timer_list *timer);

/* Return a new endpoint, locked, or NULL. */
struct siw_cep *siwm_cep_new(struct siw_device *sdev)
{
	struct siw_cep *cep = kzalloc(sizeof(*cep), GFP_KERNEL);

	if (!cep)
		return NULL;
	kref_init(&cep->ref);
	mutex_init(&cep->lock);
	/*
	 * Lock the endpoint, as siwm_cm_drop_all() may find it. The lock is nested if a
	 * child is allocated, under its listener's lock.
	 */
	mutex_lock_nested(&cep->lock, SINGLE_DEPTH_NESTING);
	INIT_WORK(&cep->work, siwm_cep_work);
	timer_setup(&cep->silent, siwm_silent, 0);
	cep->sdev = sdev;
	spin_lock_bh(&sdev->lock);
	list_add_tail(&cep->devq, &sdev->cep_list);
	spin_unlock_bh(&sdev->lock);
	return cep;
}

static void siwm_cep_free(struct kref *ref)
{
	struct siw_cep *cep = container_of(ref, struct siw_cep, ref);
	struct siw_device *sdev = cep->sdev;

	spin_lock_bh(&sdev->lock);
	list_del(&cep->devq);
	/*
	 * Wake up with the lock held. siwm_none_left() takes the lock, so the device is
	 * freed only after this unlock. The next owner of the lock may free it, even
	 * with PREEMPT_RT, as this unlock does not touch it once the next owner has it.
	 */
	wake_up_all(&siwm_gone);
	spin_unlock_bh(&sdev->lock);
	kfree(cep);
}

void siw_cep_get(struct siw_cep *cep)
{
	kref_get(&cep->ref);
}

void siw_cep_put(struct siw_cep *cep)
{
	kref_put(&cep->ref, siwm_cep_free);
}

/* Queue an event for the work item. Context: any. */
void siwm_cep_tell(struct siw_cep *cep, enum siwm_event event)
{
	set_bit(event, &cep->events);
	siw_cep_get(cep);
	if (!queue_work(siwm_cm_wq, &cep->work))
		siw_cep_put(cep);
}

/*
 * Give a responder a number for iw_cm. Numbers are not reused soon, so that a late decision
 * does not apply to another request.
 */
int siwm_cep_number(struct siw_cep *cep)
{
	static u32 next;
	int rv = xa_alloc_cyclic(&siwm_requests, &cep->request, cep, xa_limit_31b,
				 &next, GFP_KERNEL);

	return min(rv, 0);
}

/* Return the endpoint with the number in @id, with a reference, or NULL. */
struct siw_cep *siwm_cep_numbered(const struct iw_cm_id *id)
{
	struct siw_cep *cep;

	xa_lock(&siwm_requests);
	cep = xa_load(&siwm_requests, (unsigned long)id->provider_data);
	if (cep)
		siw_cep_get(cep);
	xa_unlock(&siwm_requests);
	return cep;
}

static void siwm_silent(struct timer_list *timer)
{
	struct siw_cep *cep = container_of(timer, struct siw_cep, silent);

	siwm_cep_tell(cep, SIWM_EV_SILENT);
	siw_cep_put(cep);
}

/*
 * Raise SIWM_EV_SILENT after @delay jiffies. Context: cep->lock held, or state lock held for
 * reading.
 */
void siwm_cep_watch(struct siw_cep *cep, unsigned long delay)
{
	siw_cep_get(cep);
	if (mod_timer(&cep->silent, jiffies + delay))
		siw_cep_put(cep);
}

/* Cancel SIWM_EV_SILENT. Context: cep->lock held. */
void siwm_cep_unwatch(struct siw_cep *cep)
{
	if (timer_delete_sync(&cep->silent))
		siw_cep_put(cep);
	clear_bit(SIWM_EV_SILENT, &cep->events);
}

/*
 * A send has returned -EAGAIN. A responder must not send an FPDU before it has received
 * one (RFC 5044 section 7.1.2 rule 4). If the responder's program is to send first, and
 * the peer has not asked for the peer-to-peer model, both ends would wait for ever:
 * limit the time. Context: process, state lock held for reading.
 */
void siwm_cep_cannot_send(struct siw_cep *cep)
{
	if (!test_bit(SIWM_RESPONDER, &cep->flags) ||
	    test_bit(SIWM_GOT_FIRST, &cep->flags))
		return;
	/*
	 * The time runs from the first failed attempt; the writable upcall may cause
	 * more.
	 */
	if (!timer_pending(&cep->silent))
		siwm_cep_watch(cep, SIWM_SILENT);
}

/* ---- events for iw_cm ---- */

static int siwm_event(struct iw_cm_id *id, struct iw_cm_event *event)
{
	return id->event_handler(id, event);
}

void siwm_tell(struct siw_cep *cep, enum iw_cm_event_type type, int status)
{
	struct iw_cm_event event = {
		.event = type,
		.status = status,
		.ird = cep->ird,
		.ord = cep->ord,
	};

	siwm_event(cep->cm_id, &event);
}

/* As siwm_tell(), with addresses and the private data of @peer */
int siwm_tell_frame(struct siw_cep *cep, struct iw_cm_id *id,
		    enum iw_cm_event_type type, int status, struct mpa_peer *peer)
{
	struct iw_cm_event event = { .event = type, .status = status };

	if (type == IW_CM_EVENT_CONNECT_REQUEST) {
		event.provider_data = (void *)(unsigned long)cep->request;
		/* iw_cm expects the peer's IRD and ORD, which limit our ORD and IRD. */
		event.ird = cep->ord;
		event.ord = cep->ird;
	} else {
		event.ird = cep->ird;
		event.ord = cep->ord;
	}
	if (peer && peer->private_len) {
		event.private_data = peer->private_data;
		event.private_data_len = min_t(u32, peer->private_len,
					       SIWM_PRIVATE_MAX);
	}
	kernel_getsockname(cep->sock, (struct sockaddr *)&event.local_addr);
	kernel_getpeername(cep->sock, (struct sockaddr *)&event.remote_addr);
	return siwm_event(id, &event);
}

/* ---- the end ---- */

/* Report only what iw_cm expects in its state: iw_cm has a BUG() for any other event. */
static void siwm_tell_end(struct siw_cep *cep, enum siwm_state was, int status)
{
	switch (was) {
	case SIWM_AWAIT_REPLY:
		siwm_tell(cep, IW_CM_EVENT_CONNECT_REPLY, status ?: -ECONNRESET);
		break;
	case SIWM_RDMA:
		if (test_bit(SIWM_EV_CLOSED, &cep->events))
			siwm_tell(cep, IW_CM_EVENT_DISCONNECT, 0);
		siwm_tell(cep, IW_CM_EVENT_CLOSE, 0);
		break;
	default:
		break;
	}
}

static void siwm_terminate(struct siw_cep *cep)
{
	struct siw_qp *qp = cep->qp;

	down_write(&qp->state_lock);
	qp->rx_stream.rx_suspend = true;
	qp->tx_ctx.tx_suspend = true;
	/*
	 * Send it even if, on the error, the program has destroyed the queue pair:
	 * qp->cep is NULL.
	 */
	if (!qp->cep || qp->cep == cep)
		siwm_send_terminate(qp, cep->sock);
	up_write(&qp->state_lock);
}

void siwm_cep_end(struct siw_cep *cep, int status)
{
	enum siwm_state was = cep->state;
	struct siw_qp *qp = cep->qp;

	if (was == SIWM_CLOSED)
		return;
	cep->state = SIWM_CLOSED;
	/* From here on iw_cm can neither accept nor reject the request. */
	if (cep->request)
		xa_erase(&siwm_requests, cep->request);
	if (qp)
		siwm_terminate(cep);
	if (cep->cm_id)
		siwm_tell_end(cep, was, status);
	if (cep->sock)
		mpa_sock_detach(cep->sock);
	if (qp)
		siw_qp_llp_close(qp);
	siwm_cep_unwatch(cep);
	if (cep->sock)
		sock_release(cep->sock);
	cep->sock = NULL;
	if (cep->cm_id)
		cep->cm_id->rem_ref(cep->cm_id);
	cep->cm_id = NULL;
	cep->qp = NULL;
	if (qp)
		siw_qp_put(qp);
	if (cep->listener)
		siw_cep_put(cep->listener);
	cep->listener = NULL;
	/* Put the open endpoint's reference. The caller holds another one. */
	siw_cep_put(cep);
}

/*
 * End the connection, always in the work item: @schedule, an argument of siw's, is ignored.
 * Context: any, state lock held for reading or writing.
 */
void siw_qp_cm_drop(struct siw_qp *qp, int schedule)
{
	qp->rx_stream.rx_suspend = true;
	qp->tx_ctx.tx_suspend = true;
	if (qp->cep)
		siwm_cep_tell(qp->cep, SIWM_EV_DROP);
}

/* Queue the end of all connections of a device. Context: any but hard interrupt. */
void siwm_cm_drop_all(struct siw_device *sdev)
{
	struct siw_cep *cep, *found;

	do {
		found = NULL;
		spin_lock_bh(&sdev->lock);
		list_for_each_entry(cep, &sdev->cep_list, devq) {
			if (READ_ONCE(cep->state) == SIWM_LISTENING ||
			    test_and_set_bit(SIWM_DROPPED, &cep->flags) ||
			    !kref_get_unless_zero(&cep->ref))
				continue;
			found = cep;
			break;
		}
		spin_unlock_bh(&sdev->lock);
		if (found) {
			siwm_cep_tell(found, SIWM_EV_DROP);
			siw_cep_put(found);
		}
	} while (found);
}

static bool siwm_none_left(struct siw_device *sdev)
{
	bool none;

	spin_lock_bh(&sdev->lock);
	none = list_empty(&sdev->cep_list);
	spin_unlock_bh(&sdev->lock);
	return none;
}

/*
 * End all connections of a device that is about to be removed and has no listening endpoints.
 * Context: process.
 */
void siwm_cm_close_all(struct siw_device *sdev)
{
	siwm_cm_drop_all(sdev);
	wait_event(siwm_gone, siwm_none_left(sdev));
}

/* ---- upcalls ---- */

static int siwm_ulpdu(void *priv, const struct mpa_ulpdu *ulpdu)
{
	struct siw_cep *cep = priv;
	struct siw_qp *qp = READ_ONCE(cep->qp);
	int rv = 0;

	/* The work item has not set cep->qp yet, and resumes later. */
	if (!qp)
		return -EAGAIN;
	if (!down_read_trylock(&qp->state_lock)) {
		siwm_cep_tell(cep, SIWM_EV_RESUME);
		return -EAGAIN;
	}
	if (qp->attrs.state < SIW_QP_STATE_RTS) {
		rv = -EAGAIN;
	} else if (qp->attrs.state == SIW_QP_STATE_RTS &&
		   !qp->rx_stream.rx_suspend) {
		rv = siwm_rx_ulpdu(qp, ulpdu);
		if (!rv && !test_and_set_bit(SIWM_GOT_FIRST, &cep->flags) &&
		    test_bit(SIWM_RESPONDER, &cep->flags))
			siwm_cep_tell(cep, SIWM_EV_FIRST);
	}
	/* In other states the ULPDU is too late, and is dropped. */
	up_read(&qp->state_lock);
	return rv;
}

static void siwm_writable(void *priv)
{
	struct siw_cep *cep = priv;
	struct siw_qp *qp = READ_ONCE(cep->qp);

	if (qp)
		siw_sq_start(qp);
}

static void siwm_state(void *priv, enum mpa_state state, int err)
{
	struct siw_cep *cep = priv;

	switch (state) {
	case MPA_STATE_REQUESTED:
		siwm_cep_tell(cep, SIWM_EV_REQUEST);
		break;
	case MPA_STATE_FULL:
		cep->startup_err = err;
		siwm_cep_tell(cep, SIWM_EV_FULL);
		break;
	case MPA_STATE_REJECTED:
		cep->startup_err = -ECONNREFUSED;
		siwm_cep_tell(cep, SIWM_EV_DROP);
		break;
	case MPA_STATE_FAILED:
		cep->startup_err = err;
		siwm_cep_tell(cep, SIWM_EV_DROP);
		break;
	default:
		break;
	}
}

static void siwm_failed(void *priv, int err, enum mpa_error code, u64 position)
{
	struct siw_cep *cep = priv;
	struct siw_qp *qp = READ_ONCE(cep->qp);

	/* RFC 5044 section 8 */
	if (qp && code == MPA_ERR_CRC)
		siw_init_terminate(qp, TERM_ERROR_LAYER_LLP, LLP_ETYPE_MPA,
				   LLP_ECODE_RECEIVED_CRC, 0);
	else if (qp && code == MPA_ERR_MARKER)
		siw_init_terminate(qp, TERM_ERROR_LAYER_LLP, LLP_ETYPE_MPA,
				   LLP_ECODE_FPDU_START, 0);
	siwm_cep_tell(cep, SIWM_EV_DROP);
}

static void siwm_closed(void *priv)
{
	siwm_cep_tell(priv, SIWM_EV_CLOSED);
}

const struct mpa_upcalls siwm_upcalls = {
	/* No owner: siwm_cm_close_all() detaches from all sockets before module exit. */
	.ulpdu		= siwm_ulpdu,
	.writable	= siwm_writable,
	.state		= siwm_state,
	.failed		= siwm_failed,
	.closed		= siwm_closed,
};

/* ---- the work item ---- */

static void siwm_resume(struct siw_cep *cep)
{
	if (!cep->qp || cep->state == SIWM_CLOSED)
		return;
	/* Wait for the writer that held the lock in siwm_ulpdu(). */
	down_read(&cep->qp->state_lock);
	up_read(&cep->qp->state_lock);
	mpa_sock_resume(cep->sock);
}

static void siwm_was_silent(struct siw_cep *cep)
{
	if (test_bit(SIWM_GOT_FIRST, &cep->flags) || cep->state == SIWM_CLOSED)
		return;
	if (cep->state == SIWM_REQUESTED) {
		mpa_sock_reject(cep->sock, NULL);
		siwm_cep_end(cep, -ETIMEDOUT);
		return;
	}
	ibdev_warn_ratelimited(&cep->sdev->base_dev,
			       "QP %u: this end must not send before the peer does (RFC 5044 section 7.1.2 rule 4), and the peer has sent nothing: it should ask for the peer-to-peer model\n",
			       cep->qp ? qp_id(cep->qp) : 0);
	siwm_cep_end(cep, -ETIMEDOUT);
}

static void siwm_dropped(struct siw_cep *cep)
{
	/* iw_cm owns a listening endpoint: only siw_destroy_listen() ends it. */
	if (cep->state == SIWM_LISTENING)
		return;
	if (cep->state == SIWM_AWAIT_REPLY && cep->startup_err == -ECONNREFUSED)
		siwm_rejected(cep);
	else
		siwm_cep_end(cep, cep->startup_err);
}

static void siwm_cep_events(struct siw_cep *cep)
{
	if (test_and_clear_bit(SIWM_EV_INCOMING, &cep->events))
		siwm_accept_children(cep);
	if (test_and_clear_bit(SIWM_EV_REQUEST, &cep->events) &&
	    cep->state == SIWM_AWAIT_REQUEST)
		siwm_requested(cep);
	if (test_and_clear_bit(SIWM_EV_FULL, &cep->events) &&
	    cep->state == SIWM_AWAIT_REPLY)
		siwm_replied(cep);
	if (test_and_clear_bit(SIWM_EV_FIRST, &cep->events))
		siwm_cep_unwatch(cep);
	if (test_and_clear_bit(SIWM_EV_RESUME, &cep->events))
		siwm_resume(cep);
	if (test_and_clear_bit(SIWM_EV_SILENT, &cep->events))
		siwm_was_silent(cep);
	/* SIWM_EV_CLOSED is not cleared: siwm_tell_end() tests it. */
	if (test_bit(SIWM_EV_CLOSED, &cep->events))
		siwm_cep_end(cep, -ECONNRESET);
	if (test_and_clear_bit(SIWM_EV_DROP, &cep->events))
		siwm_dropped(cep);
}

static void siwm_cep_work(struct work_struct *work)
{
	struct siw_cep *cep = container_of(work, struct siw_cep, work);

	mutex_lock(&cep->lock);
	siwm_cep_events(cep);
	mutex_unlock(&cep->lock);
	siw_cep_put(cep);
}

/*
 * Do nothing when a program loses its device: the program has mapped only pages of
 * queues, which its mappings keep. The callback must exist, so that the link can be
 * deleted while the program has it open.
 */
void siwm_disassociate_ucontext(struct ib_ucontext *ctx)
{
}

int siw_cm_init(void)
{
	int rv = siwm_tx_init();

	if (rv)
		return rv;
	siwm_cm_wq = alloc_workqueue("siwm_cm", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return siwm_cm_wq ? 0 : -ENOMEM;
}

/* May be called if siw_cm_init() has failed, or was not called. */
void siw_cm_exit(void)
{
	if (siwm_cm_wq)
		destroy_workqueue(siwm_cm_wq);
	siwm_tx_exit();
}
