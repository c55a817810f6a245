// SPDX-License-Identifier: GPL-2.0
/*
 * Connections: the functions that iw_cm calls, on sockets with MPA (RFC 5044 section 7, RFC
 * 6581). For references and locks see siwm_cep.c.
 */

#include <linux/in.h>
#include <linux/in6.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/ipv6.h>
#include <net/sock.h>

#include "compat.h"
#include "siw.h"
#include "siw_cm.h"

static bool siwm_peer_to_peer = true;
module_param_named(peer_to_peer, siwm_peer_to_peer, bool, 0644);
MODULE_PARM_DESC(peer_to_peer,
		 "as initiator, ask for the peer-to-peer model, so that the responder may send first");

static bool siwm_markers;
module_param_named(markers, siwm_markers, bool, 0644);
MODULE_PARM_DESC(markers, "ask for markers in what is received");

/* Timeouts for the whole request, as in siw, and for the reply */
#define SIWM_REQUEST_MS		5000
#define SIWM_REPLY_MS		10000

/* ---- both ends ---- */

/* Join queue pair and endpoint. Takes over the caller's reference to @qp. */
static int siwm_join(struct siw_cep *cep, struct siw_qp *qp)
{
	int rv = 0;

	down_write(&qp->state_lock);
	if (qp->cep || qp->attrs.state > SIW_QP_STATE_RTR) {
		rv = -EINVAL;
	} else {
		siw_cep_get(cep);
		qp->cep = cep;
	}
	up_write(&qp->state_lock);
	if (rv)
		siw_qp_put(qp);
	else
		WRITE_ONCE(cep->qp, qp);
	return rv;
}

static int siwm_to_rts(struct siw_cep *cep)
{
	struct siw_qp_attrs attrs = {
		.state = SIW_QP_STATE_RTS,
		.irq_size = cep->ird,
		.orq_size = cep->ord,
		.sk = cep->sock,
	};
	struct siw_qp *qp = cep->qp;
	int rv = -EINVAL;

	down_write(&qp->state_lock);
	if (qp->attrs.state <= SIW_QP_STATE_RTR)
		rv = siw_qp_modify(qp, &attrs,
				   SIW_QP_ATTR_STATE | SIW_QP_ATTR_LLP_HANDLE |
				   SIW_QP_ATTR_ORD | SIW_QP_ATTR_IRD |
				   SIW_QP_ATTR_MPA);
	up_write(&qp->state_lock);
	return rv;
}

/* ---- the initiator ---- */

/*
 * RFC 6581 section 9: if negotiation has failed, the initiator sends a Terminate, in Full
 * Operation.
 */
static void siwm_no_agreement(struct siw_cep *cep)
{
	siw_init_terminate(cep->qp, TERM_ERROR_LAYER_LLP, LLP_ETYPE_MPA,
			   cep->startup_err == -ENOBUFS ?
			   LLP_ECODE_INSUFFICIENT_IRD :
			   LLP_ECODE_NO_MATCHING_RTR, 0);
	siwm_cep_end(cep, -EINVAL);
}

void siwm_replied(struct siw_cep *cep)
{
	enum mpa_v2_ctrl rtr = MPA_V2_RDMA_NO_RTR;
	struct mpa_peer *peer;
	struct mpa_info info;
	int rv = -ENOMEM;

	if (cep->startup_err) {
		siwm_no_agreement(cep);
		return;
	}
	peer = kzalloc(sizeof(*peer), GFP_KERNEL);
	if (!peer)
		goto end;
	rv = mpa_sock_info(cep->sock, &info) ?:
	     mpa_sock_peer(cep->sock, peer);
	if (rv)
		goto end;
	if (info.flags & MPA_INFO_ENHANCED) {
		cep->ird = info.ird;
		cep->ord = info.ord;
	}
	rv = siwm_to_rts(cep);
	if (rv)
		goto end;
	if (info.flags & MPA_INFO_P2P)
		rtr = info.rtr & MPA_START_RTR_WRITE ? MPA_V2_RDMA_WRITE_RTR :
						       MPA_V2_RDMA_READ_RTR;
	if (rtr != MPA_V2_RDMA_NO_RTR) {
		down_read(&cep->qp->state_lock);
		rv = siw_qp_mpa_rts(cep->qp, rtr);
		up_read(&cep->qp->state_lock);
		if (rv)
			goto end;
	}
	rv = siwm_tell_frame(cep, cep->cm_id, IW_CM_EVENT_CONNECT_REPLY, 0, peer);
	if (rv)
		goto end;
	cep->state = SIWM_RDMA;
	kfree(peer);
	/* siwm_ulpdu() may have deferred ULPDUs before RTS. */
	mpa_sock_resume(cep->sock);
	return;

end:
	kfree(peer);
	siwm_cep_end(cep, rv);
}

/* Pass the private data of a rejection to the program. */
void siwm_rejected(struct siw_cep *cep)
{
	struct mpa_peer *peer = kzalloc(sizeof(*peer), GFP_KERNEL);

	if (peer && mpa_sock_peer(cep->sock, peer))
		peer->private_len = 0;
	/* Without memory for the private data, report the rejection alone. */
	if (siwm_tell_frame(cep, cep->cm_id, IW_CM_EVENT_CONNECT_REPLY,
			    -ECONNREFUSED, peer))
		siwm_tell(cep, IW_CM_EVENT_CONNECT_REPLY, -ECONNREFUSED);
	kfree(peer);
	/* iw_cm expects no further event: in state SIWM_NEW it gets none. */
	cep->state = SIWM_NEW;
	siwm_cep_end(cep, 0);
}

static int siwm_start_initiator(struct siw_cep *cep,
				struct iw_cm_conn_param *params)
{
	struct mpa_start *start = kzalloc(sizeof(*start), GFP_KERNEL);
	int rv;

	if (!start)
		return -ENOMEM;
	start->role = MPA_ROLE_INITIATOR;
	start->revision = 2;
	start->flags = MPA_START_ENHANCED;
	if (siwm_markers)
		start->flags |= MPA_START_MARKERS;
	if (siwm_peer_to_peer)
		start->flags |= MPA_START_P2P | MPA_START_RTR_WRITE |
				MPA_START_RTR_READ;
	start->ird = cep->ird;
	start->ord = cep->ord;
	start->timeout_ms = SIWM_REPLY_MS;
	start->private_len = params->private_data_len;
	memcpy(start->private_data, params->private_data,
	       params->private_data_len);
	rv = mpa_sock_start(cep->sock, start, false);
	kfree(start);
	return rv == -EINPROGRESS ? 0 : rv;
}

static size_t siwm_addr_len(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
					    sizeof(struct sockaddr_in6);
}

/*
 * Create a socket in the caller's network namespace. The socket keeps a reference to the
 * namespace.
 */
static int siwm_socket(struct iw_cm_id *id, struct socket **sock)
{
	int family = id->local_addr.ss_family;
	int rv;

	if (family != AF_INET && family != AF_INET6)
		return -EAFNOSUPPORT;
	rv = sock_create(family, SOCK_STREAM, IPPROTO_TCP, sock);
	if (rv)
		return rv;
	sock_set_reuseaddr((*sock)->sk);
	tcp_sock_set_nodelay((*sock)->sk);
	if (id->afonly && family == AF_INET6)
		rv = ip6_sock_set_v6only((*sock)->sk);
	if (!rv)
		return 0;
	sock_release(*sock);
	return rv;
}

static int siwm_connect_from(struct siw_cep *cep, struct iw_cm_id *id,
			     struct sockaddr_storage *local)
{
	int rv = siwm_socket(id, &cep->sock);

	if (rv) {
		cep->sock = NULL;
		return rv;
	}
	rv = kernel_bind(cep->sock, (void *)local, siwm_addr_len(local));
	return rv ?: kernel_connect(cep->sock, (void *)&id->remote_addr,
				    siwm_addr_len(&id->remote_addr), 0);
}

/*
 * Connect, as siw does, in the caller's context. rdma_cm has chosen the local port without
 * asking TCP: if a TCP socket has this port, use any other.
 */
static int siwm_connect(struct siw_cep *cep, struct iw_cm_id *id)
{
	struct sockaddr_storage local = id->local_addr;
	int rv = siwm_connect_from(cep, id, &local);

	if (rv != -EADDRINUSE && rv != -EADDRNOTAVAIL)
		return rv;
	if (cep->sock)
		sock_release(cep->sock);
	/* sin6_port has the same offset. */
	((struct sockaddr_in *)&local)->sin_port = 0;
	return siwm_connect_from(cep, id, &local);
}

/*
 * Connect, and send the MPA Request Frame. Return: 0: IW_CM_EVENT_CONNECT_REPLY follows; or a
 * negative errno.
 */
int siw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *params)
{
	struct siw_device *sdev = to_siw_dev(id->device);
	struct siw_cep *cep;
	struct siw_qp *qp;
	int rv;

	if (params->private_data_len > MPA_MAX_PRIVDATA)
		return -EINVAL;
	if (params->ird > sdev->attrs.max_ird || params->ord > sdev->attrs.max_ord)
		return -ENOMEM;
	cep = siwm_cep_new(sdev);
	if (!cep)
		return -ENOMEM;
	/* This function's reference */
	siw_cep_get(cep);
	cep->ird = params->ird;
	cep->ord = params->ord;
	/* The RTR indication may be a Read, for which the ORD must be at least 1. */
	if (siwm_peer_to_peer && !cep->ord)
		cep->ord = 1;
	rv = siwm_connect(cep, id);
	if (rv)
		goto end;
	rv = -EINVAL;
	qp = siw_qp_id2obj(sdev, params->qpn);
	if (!qp)
		goto end;
	rv = siwm_join(cep, qp) ?:
	     mpa_sock_attach(cep->sock, &siwm_upcalls, cep, GFP_KERNEL) ?:
	     siwm_start_initiator(cep, params);
	if (rv)
		goto end;
	id->add_ref(id);
	cep->cm_id = id;
	cep->state = SIWM_AWAIT_REPLY;
end:
	if (rv)
		siwm_cep_end(cep, rv);
	mutex_unlock(&cep->lock);
	siw_cep_put(cep);
	return rv;
}

/* ---- the responder ---- */

/*
 * The peer's IRD limits our ORD, and its ORD our IRD. The value for "do not negotiate"
 * (RFC 6581 section 9.1) exceeds any device's maximum, and so does not limit ours.
 */
static void siwm_peer_depths(struct siw_cep *cep, const struct mpa_peer *peer)
{
	cep->enhanced = peer->flags & MPA_PEER_ENHANCED;
	cep->ord = min_t(u32, peer->ird, cep->sdev->attrs.max_ord);
	cep->ird = min_t(u32, peer->ord, cep->sdev->attrs.max_ird);
}

/* If there is still a listener, report the request to iw_cm, which has to decide. */
void siwm_requested(struct siw_cep *cep)
{
	struct siw_cep *listener = cep->listener;
	struct mpa_peer *peer;
	int rv = -ENOMEM;

	peer = kzalloc(sizeof(*peer), GFP_KERNEL);
	if (!peer)
		goto end;
	rv = mpa_sock_peer(cep->sock, peer);
	if (rv)
		goto end;
	if (peer->private_len > SIWM_PRIVATE_MAX) {
		rv = mpa_sock_reject(cep->sock, NULL) ?: -EMSGSIZE;
		goto end;
	}
	rv = siwm_cep_number(cep);
	if (rv)
		goto end;
	siwm_peer_depths(cep, peer);
	cep->state = SIWM_REQUESTED;
	/* Limit the time: iw_cm drops the event if the listener is destroyed first. */
	siwm_cep_watch(cep, SIWM_UNDECIDED);
	mutex_lock_nested(&listener->lock, SINGLE_DEPTH_NESTING);
	rv = !listener->cm_id ? -ECONNREFUSED :
	     siwm_tell_frame(cep, listener->cm_id, IW_CM_EVENT_CONNECT_REQUEST, 0,
			     peer);
	mutex_unlock(&listener->lock);
end:
	kfree(peer);
	if (rv)
		siwm_cep_end(cep, rv);
}

/*
 * Set IRD and ORD of the reply. If the peer asks for more Reads than the program
 * allows, it may have them, up to the device's maximum.
 */
static int siwm_depths(struct siw_cep *cep, const struct iw_cm_conn_param *params)
{
	if (params->ord > cep->sdev->attrs.max_ord ||
	    params->ird > cep->sdev->attrs.max_ird)
		return -EINVAL;
	if (!cep->enhanced) {
		cep->ird = params->ird;
		cep->ord = params->ord;
		return 0;
	}
	cep->ird = max_t(u32, cep->ird, params->ird);
	cep->ord = min_t(u32, cep->ord, params->ord);
	return 0;
}

static int siwm_send_reply(struct siw_cep *cep, const void *data, u32 len,
			   int (*decide)(struct socket *sock,
					 const struct mpa_reply *reply))
{
	struct mpa_reply *reply = kzalloc(sizeof(*reply), GFP_KERNEL);
	int rv;

	if (!reply)
		return -ENOMEM;
	if (cep->enhanced) {
		reply->ird = cep->ird;
		reply->ord = cep->ord;
	}
	reply->private_len = len;
	memcpy(reply->private_data, data, len);
	rv = decide(cep->sock, reply);
	kfree(reply);
	return rv;
}

/* Set the queue pair to RTS before the reply is sent: the peer may send an FPDU at once. */
static int siwm_do_accept(struct siw_cep *cep, struct iw_cm_id *id,
			  struct iw_cm_conn_param *params)
{
	struct siw_qp *qp;
	int rv;

	if (params->private_data_len > MPA_MAX_PRIVDATA)
		return -EINVAL;
	rv = siwm_depths(cep, params);
	if (rv)
		return rv;
	qp = siw_qp_id2obj(cep->sdev, params->qpn);
	if (!qp)
		return -EINVAL;
	rv = siwm_join(cep, qp) ?: siwm_to_rts(cep);
	if (rv)
		return rv;
	return siwm_send_reply(cep, params->private_data, params->private_data_len,
			       mpa_sock_accept);
}

/*
 * Accept the request whose number is in @id->provider_data. Return: 0 once
 * IW_CM_EVENT_ESTABLISHED was reported, or a negative errno.
 *
 * iw_cm must not wait for a peer's RTR indication (RFC 6581 section 9): before
 * IW_CM_EVENT_ESTABLISHED the program can neither destroy @id nor decide again without harm to
 * iw_cm. MPA sends nothing before the indication has arrived.
 */
int siw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *params)
{
	struct siw_cep *cep = siwm_cep_numbered(id);
	int rv = -ECONNRESET;

	if (!cep)
		return rv;
	mutex_lock(&cep->lock);
	if (cep->state != SIWM_REQUESTED)
		goto out;
	siwm_cep_unwatch(cep);
	rv = siwm_do_accept(cep, id, params);
	if (rv) {
		siwm_cep_end(cep, rv);
		goto out;
	}
	id->add_ref(id);
	cep->cm_id = id;
	cep->state = SIWM_RDMA;
	siwm_tell(cep, IW_CM_EVENT_ESTABLISHED, 0);
out:
	mutex_unlock(&cep->lock);
	siw_cep_put(cep);
	return rv;
}

/* Reject the request whose number is in @id->provider_data. */
int siw_reject(struct iw_cm_id *id, const void *data, u8 len)
{
	struct siw_cep *cep = siwm_cep_numbered(id);
	int rv = -ECONNRESET;

	if (!cep)
		return rv;
	mutex_lock(&cep->lock);
	if (cep->state == SIWM_REQUESTED) {
		/* A rejected peer has no use for IRD and ORD. */
		cep->ird = 0;
		cep->ord = 0;
		rv = siwm_send_reply(cep, data, len, mpa_sock_reject);
		siwm_cep_end(cep, rv);
	}
	mutex_unlock(&cep->lock);
	siw_cep_put(cep);
	return rv;
}

/* ---- listening ---- */

/* sk_data_ready of a listener: TCP has a new child. Context: softirq. */
static void siwm_incoming(struct sock *sk)
{
	struct siw_cep *cep;

	read_lock_bh(&sk->sk_callback_lock);
	cep = rcu_dereference_sk_user_data(sk);
	if (cep)
		siwm_cep_tell(cep, SIWM_EV_INCOMING);
	read_unlock_bh(&sk->sk_callback_lock);
}

/*
 * sk_user_data is for siwm_incoming(), and children do not inherit it. siwm_incoming() does not
 * call the original callback: no program waits for this socket.
 */
static void siwm_hook(struct sock *sk, struct siw_cep *cep)
{
	write_lock_bh(&sk->sk_callback_lock);
	if (cep) {
		__rcu_assign_sk_user_data_with_flags(sk, cep,
						     SK_USER_DATA_NOCOPY);
		sk->sk_data_ready = siwm_incoming;
	} else {
		rcu_assign_sk_user_data(sk, NULL);
	}
	write_unlock_bh(&sk->sk_callback_lock);
}

/* Begin startup of an accepted connection, which has inherited MPA from the listener. */
static void siwm_child(struct siw_cep *listener, struct socket *sock)
{
	struct siw_cep *cep = siwm_cep_new(listener->sdev);

	if (!cep) {
		sock_release(sock);
		return;
	}
	siw_cep_get(cep);
	set_bit(SIWM_RESPONDER, &cep->flags);
	cep->sock = sock;
	siw_cep_get(listener);
	cep->listener = listener;
	cep->state = SIWM_AWAIT_REQUEST;
	if (mpa_sock_attach(sock, &siwm_upcalls, cep, GFP_KERNEL))
		siwm_cep_end(cep, 0);
	mutex_unlock(&cep->lock);
	siw_cep_put(cep);
}

void siwm_accept_children(struct siw_cep *cep)
{
	struct socket *sock;
	int rv;

	if (cep->state != SIWM_LISTENING)
		return;
	while (!(rv = kernel_accept(cep->sock, &sock, O_NONBLOCK)))
		siwm_child(cep, sock);
	/* One child has failed (closed, without MPA, no memory): try the next one later. */
	if (rv != -EAGAIN && rv != -EINVAL)
		siwm_cep_tell(cep, SIWM_EV_INCOMING);
}

static int siwm_start_responders(struct siw_cep *cep)
{
	struct mpa_start *start = kzalloc(sizeof(*start), GFP_KERNEL);
	int rv;

	if (!start)
		return -ENOMEM;
	start->role = MPA_ROLE_RESPONDER;
	start->revision = 2;
	start->flags = MPA_START_MANUAL | MPA_START_RTR_WRITE | MPA_START_RTR_READ;
	if (siwm_markers)
		start->flags |= MPA_START_MARKERS;
	start->ird = cep->sdev->attrs.max_ird;
	start->ord = cep->sdev->attrs.max_ord;
	start->timeout_ms = SIWM_REQUEST_MS;
	rv = mpa_sock_start(cep->sock, start, false);
	kfree(start);
	return rv;
}

/*
 * For the wildcard address rdma_cm calls siw_create_listen() for each device, so bind the
 * socket to the device. Fail for a device of another network namespace than the socket's.
 */
static int siwm_bind_device(struct siw_cep *cep)
{
	struct net_device *netdev = ib_device_get_netdev(&cep->sdev->base_dev, 1);
	struct sock *sk = cep->sock->sk;
	int rv = -ENODEV;

	if (!netdev)
		return rv;
	if (net_eq(dev_net(netdev), sock_net(sk)))
		rv = sock_bindtoindex(sk, netdev->ifindex, true);
	dev_put(netdev);
	return rv;
}

static bool siwm_is_any(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ((struct sockaddr_in *)addr)->sin_addr.s_addr ==
		       htonl(INADDR_ANY);
	return ipv6_addr_any(&((struct sockaddr_in6 *)addr)->sin6_addr);
}

static int siwm_listen(struct siw_cep *cep, struct iw_cm_id *id, int backlog)
{
	int rv = siwm_socket(id, &cep->sock);

	if (rv) {
		cep->sock = NULL;
		return rv;
	}
	cep->state = SIWM_LISTENING;
	if (siwm_is_any(&id->local_addr) && siwm_bind_device(cep)) {
		sock_release(cep->sock);
		cep->sock = NULL;
		return 0;
	}
	rv = kernel_bind(cep->sock, (void *)&id->local_addr,
			 siwm_addr_len(&id->local_addr)) ?:
	     mpa_sock_attach(cep->sock, &siwm_upcalls, cep, GFP_KERNEL) ?:
	     siwm_start_responders(cep);
	if (rv)
		return rv;
	/* Set sk_user_data only now: mpa_sock_start() refuses sockets that have it. */
	siwm_hook(cep->sock->sk, cep);
	return kernel_listen(cep->sock, backlog);
}

static void siwm_unlisten(struct siw_cep *cep)
{
	if (cep->sock)
		siwm_hook(cep->sock->sk, NULL);
	/* In state SIWM_NEW iw_cm gets no event. */
	cep->state = SIWM_NEW;
	siwm_cep_end(cep, 0);
}

/* Listen on the address in @id. Sets @id->provider_data to the endpoint. */
int siw_create_listen(struct iw_cm_id *id, int backlog)
{
	struct siw_cep *cep = siwm_cep_new(to_siw_dev(id->device));
	int rv;

	if (!cep)
		return -ENOMEM;
	siw_cep_get(cep);
	rv = siwm_listen(cep, id, backlog);
	if (rv) {
		siwm_unlisten(cep);
	} else {
		id->add_ref(id);
		cep->cm_id = id;
		id->provider_data = cep;
	}
	mutex_unlock(&cep->lock);
	siw_cep_put(cep);
	return rv;
}

/* Stop listening. Connections whose requests arrive later are ended. */
int siw_destroy_listen(struct iw_cm_id *id)
{
	struct siw_cep *cep = id->provider_data;

	if (!cep)
		return 0;
	id->provider_data = NULL;
	siw_cep_get(cep);
	mutex_lock(&cep->lock);
	siwm_unlisten(cep);
	mutex_unlock(&cep->lock);
	siw_cep_put(cep);
	return 0;
}

