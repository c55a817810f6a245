// SPDX-License-Identifier: GPL-2.0
/*
 * Events of connections are counted, traced, logged (dynamic debug) and sent by netlink. Unless
 * its comment says otherwise, mpa_report_...() is called with the socket lock held, in any
 * context.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/net.h>
#include <linux/sched/mm.h>
#include <linux/skbuff.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>
#include <net/genetlink.h>
#include <net/netns/generic.h>
#include <trace/events/mpa.h>
#include <uapi/linux/mpa_netlink.h>

#include "mpa.h"

/*
 * ---- events to netlink listeners ----
 *
 * mpa_event() builds an event, and sends it at once to the few sockets that have requested the
 * events of its namespace (mpa_nl_tap.c).
 *
 * A work item of the namespace also sends the event to the multicast group. For each event
 * netlink walks all listeners of the machine, and connections must not wait for this walk. In a
 * user namespace any user can open a thousand listeners, and cause any number of events. So
 * only namespaces of the initial user namespace send to the group.
 */

/* Octets allocated for an event: some forty numbers and two addresses. */
#define MPA_EVENT_SIZE		640

/* Maximum number of events in a namespace's queue, and in one run of its work item. */
#define MPA_EVENTS_MAX		1024
#define MPA_EVENT_RUN		128

struct workqueue_struct *mpa_event_wq __ro_after_init;

/* Build an event. mpa_event_queue() sets its number later. */
static struct sk_buff *mpa_event_build(const struct mpa_ctx *ctx, u8 cmd,
				       u16 attr, u32 value,
				       const struct mpa_failure *failure)
{
	struct sk_buff *skb = genlmsg_new(MPA_EVENT_SIZE,
					  GFP_ATOMIC | __GFP_ACCOUNT);
	void *head;

	if (!skb)
		return NULL;
	head = genlmsg_put(skb, 0, 0, mpa_conns_family, 0, cmd);
	if (WARN_ON_ONCE(!head || nla_put_u32(skb, MPA_A_CONN_EVENT, 0) ||
			 (attr && nla_put_u32(skb, attr, value)) ||
			 mpa_show_conn(skb, ctx, sock_net(ctx->sk)->user_ns,
				       failure))) {
		nlmsg_free(skb);
		return NULL;
	}
	genlmsg_end(skb, head);
	return skb;
}

/* Whether to send to the group. Netlink knows only whether any namespace has members. */
static bool mpa_event_has_group(struct net *net)
{
	return net->user_ns == &init_user_ns &&
	       genl_has_listeners(mpa_conns_family, net, MPA_NLGRP_EVENTS);
}

/*
 * Number an event, send it to the namespace's taps for events, and queue it for the group. The
 * lock keeps events in the order of their numbers. If @skb is NULL, there was no memory for the
 * event, but it takes a number, so that listeners notice the loss. Return false if the event is
 * lost for the group or for all listeners.
 */
static bool mpa_event_queue(struct mpa_conns *conns, struct sk_buff *skb)
{
	struct sk_buff_head *queue = &conns->queue;
	bool sent = skb;

	/* Readers' socket filters run here, so do not disable interrupts. */
	spin_lock_bh(&queue->lock);
	conns->number++;
	if (skb) {
		/* The number is the first attribute. */
		*(u32 *)nla_data(genlmsg_data(nlmsg_data(nlmsg_hdr(skb)))) = conns->number;
		mpa_tap_event(conns, skb);
	}
	if (skb && mpa_event_has_group(conns->net)) {
		sent = !conns->closed && queue->qlen < MPA_EVENTS_MAX;
		if (sent) {
			__skb_queue_tail(queue, skb_get(skb));
			queue_work(mpa_event_wq, &conns->work);
		}
	}
	spin_unlock_bh(&queue->lock);
	return sent;
}

/*
 * Send an event if there is a listener. @attr: an attribute that only this event has, with
 * @value; 0: none. @failure: the error to report; NULL: the connection's current error.
 */
static void mpa_event(const struct mpa_ctx *ctx, u8 cmd, u16 attr, u32 value,
		      const struct mpa_failure *failure)
{
	struct mpa_conns *conns = mpa_conns(sock_net(ctx->sk));
	struct mem_cgroup *old;
	struct sk_buff *skb;

	if (!READ_ONCE(conns->nr_joined) && !mpa_event_has_group(conns->net))
		return;
	/* Charge the queued event to the connection's memory cgroup. */
	old = set_active_memcg(mem_cgroup_from_sk(ctx->sk));
	skb = mpa_event_build(ctx, cmd, attr, value, failure);
	set_active_memcg(old);
	if (!mpa_event_queue(conns, skb))
		SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_EVENTS_LOST);
	nlmsg_free(skb);
}

/* Send some events and requeue: a namespace with many events must not block others. */
static void mpa_event_work(struct work_struct *work)
{
	struct mpa_conns *conns = container_of(work, struct mpa_conns, work);
	struct sk_buff *skb;
	int left, err;

	for (left = MPA_EVENT_RUN; left; left--) {
		spin_lock_bh(&conns->queue.lock);
		skb = __skb_dequeue(&conns->queue);
		spin_unlock_bh(&conns->queue.lock);
		if (!skb)
			return;
		err = genlmsg_multicast_netns(mpa_conns_family, conns->net, skb, 0,
					      MPA_NLGRP_EVENTS, GFP_KERNEL);
		/* -ESRCH: there was no receiver. */
		if (err && err != -ESRCH)
			SNMP_INC_STATS(mpa_stat_mib(conns->net), MPA_MIB_EVENTS_LOST);
	}
	queue_work(mpa_event_wq, work);
}

static int __net_init mpa_conns_net_init(struct net *net)
{
	struct mpa_conns *conns = mpa_conns(net);

	conns->net = net;
	xa_init_flags(&conns->all, XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	spin_lock_init(&conns->lock);
	INIT_LIST_HEAD(&conns->taps);
	skb_queue_head_init(&conns->queue);
	INIT_WORK(&conns->work, mpa_event_work);
	return 0;
}

/*
 * A kernel user that was loaded before this module runs its pernet exit after this one, and may
 * close sockets there. Such sockets must not queue events or use the namespace's counters.
 * Events queued so far are sent.
 */
static void __net_exit mpa_conns_net_exit(struct net *net)
{
	struct mpa_conns *conns = mpa_conns(net);
	struct mpa_ctx *ctx;
	unsigned long id;

	mpa_tap_end_all(conns);
	spin_lock_bh(&conns->queue.lock);
	conns->closed = true;
	spin_unlock_bh(&conns->queue.lock);
	while (!skb_queue_empty_lockless(&conns->queue))
		flush_work(&conns->work);
	cancel_work_sync(&conns->work);

	if (xa_empty(&conns->all))
		return;
	rcu_read_lock();
	xa_for_each(&conns->all, id, ctx)
		WRITE_ONCE(ctx->tcp.mib, &mpa_mib_nowhere);
	rcu_read_unlock();
	synchronize_net();
	xa_destroy(&conns->all);
}

static struct pernet_operations mpa_conns_ops = {
	.init	= mpa_conns_net_init,
	.exit	= mpa_conns_net_exit,
	.id	= &mpa_conns_id,
	.size	= sizeof(struct mpa_conns),
};

int __init mpa_conns_init(void)
{
	return register_pernet_subsys(&mpa_conns_ops);
}

void mpa_conns_exit(void)
{
	unregister_pernet_subsys(&mpa_conns_ops);
}

/* ---- what has happened ---- */

static void mpa_report_debug(const struct sock *sk, const char *what, int err,
			     u8 code, u64 position)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		net_dbg_ratelimited("[%pI6c]:%u: %s: errno %d, MPA error %u, stream position %llu\n",
				    &sk->sk_v6_daddr, ntohs(sk->sk_dport), what,
				    err, code, position);
		return;
	}
#endif
	net_dbg_ratelimited("%pI4:%u: %s: errno %d, MPA error %u, stream position %llu\n",
			    &sk->sk_daddr, ntohs(sk->sk_dport), what, err, code,
			    position);
}

static u32 mpa_report_kind(const struct mpa_ctx *ctx)
{
	return (mpa_alt(ctx) ? MPA_MIB_KINDS : ctx->role) - 1;
}

/* Report a change of state from @old. The socket lock is held, or @ctx is not yet published. */
void mpa_report_state(const struct mpa_ctx *ctx, u8 old)
{
	bool by_peer;

	trace_mpa_state(ctx->sk, old, ctx->state);
	switch (ctx->state) {
	case MPA_STATE_FULL:
		SNMP_INC_STATS(ctx->tcp.mib,
			       MPA_MIB_CURR + mpa_report_kind(ctx));
		SNMP_INC_STATS(ctx->tcp.mib,
			       MPA_MIB_TOTAL + mpa_report_kind(ctx));
		mpa_event(ctx, MPA_CMD_STARTED_NTF, 0, 0, NULL);
		break;
	case MPA_STATE_REJECTED:
		by_peer = ctx->role == MPA_ROLE_INITIATOR && ctx->peer_valid &&
			  ctx->peer.flags & MPA_PEER_REJECTED;
		mpa_report_refused(ctx, by_peer ? MPA_REFUSAL_BY_PEER :
						  MPA_REFUSAL_BY_USER,
				   -ECONNREFUSED);
		break;
	case MPA_STATE_IDLE:
		if (old == MPA_STATE_FULL)
			SNMP_ADD_STATS(ctx->tcp.mib,
				       MPA_MIB_CURR + mpa_report_kind(ctx), -1);
		break;
	}
}

/* Count, trace, log and send a failure. @why: the reason if startup has failed, or 0. */
static void mpa_report_failure(const struct mpa_ctx *ctx, u32 counter,
			       const char *what, enum mpa_refusal why,
			       const struct mpa_failure *failure)
{
	u64 position = failure == &ctx->failure[MPA_RX] ? ctx->rx.cur.pos : 0;

	SNMP_INC_STATS(ctx->tcp.mib, counter);
	trace_mpa_error(ctx->sk, failure->code, failure->err, position);
	mpa_report_debug(ctx->sk, what, failure->err, failure->code, position);
	mpa_event(ctx, why ? MPA_CMD_REFUSED_NTF : MPA_CMD_FAILED_NTF,
		  why ? MPA_A_CONN_REFUSAL : 0, why, failure);
}

/* Report that startup has failed or was rejected. @err: negative errno. */
void mpa_report_refused(const struct mpa_ctx *ctx, enum mpa_refusal why, int err)
{
	static const char * const reasons[] = {
		[MPA_REFUSAL_BY_PEER] = "the peer has rejected the request",
		[MPA_REFUSAL_BY_USER] = "rejected by the program",
		[MPA_REFUSAL_MALFORMED] = "its startup frame is malformed",
		[MPA_REFUSAL_TIMEOUT] = "its startup frame has not come in time",
		[MPA_REFUSAL_LOST] = "the connection has ended during startup",
		[MPA_REFUSAL_OUSTED] = "evicted: too many responders in startup",
		[MPA_REFUSAL_LIMIT] = "net.mpa.startup_max is 0",
		[MPA_REFUSAL_GIVEN_UP] = "startup was given up by shutdown(2)",
		[MPA_REFUSAL_LOCAL] = "startup was given up",
	};
	const struct mpa_failure failure = {
		.err = err, .code = ctx->failure[MPA_STARTUP].code,
	};

	mpa_report_failure(ctx, MPA_MIB_REFUSED + why - 1, reasons[why], why,
			   &failure);
}

static enum mpa_refusal mpa_report_refusal(const struct mpa_ctx *ctx)
{
	const struct mpa_failure *failure = &ctx->failure[MPA_STARTUP];

	if (failure->code == MPA_ERR_TCP)
		return MPA_REFUSAL_LOST;
	switch (failure->err) {
	case -EPROTO:
		return MPA_REFUSAL_MALFORMED;
	case -ETIMEDOUT:
		return MPA_REFUSAL_TIMEOUT;
	case -EUSERS:
		return atomic_read(&ctx->pending) & MPA_PENDING_EVICTION ?
		       MPA_REFUSAL_OUSTED : MPA_REFUSAL_LIMIT;
	case -ECONNABORTED:
		return MPA_REFUSAL_GIVEN_UP;
	default:
		return MPA_REFUSAL_LOCAL;
	}
}

/* Report a failure. In Full Operation MPA_STARTUP means: no agreement on IRD, ORD or RTR. */
void mpa_report_failed(const struct mpa_ctx *ctx, enum mpa_part part)
{
	const struct mpa_failure *failure = &ctx->failure[part];
	u32 counter = MPA_MIB_RX_FAILED + failure->code - 1;
	const char *what = "nothing more is received";

	if (part == MPA_STARTUP && ctx->state != MPA_STATE_FULL)
		return mpa_report_refused(ctx, mpa_report_refusal(ctx),
					  failure->err);
	/* The loss of the connection, which cut the FPDU, was reported already. */
	if (part == MPA_RX && failure->code == MPA_ERR_TCP &&
	    mpa_lost_receiving(ctx))
		return;
	if (part == MPA_STARTUP) {
		what = "no agreement on IRD, ORD or RTR";
	} else if (part == MPA_TX && failure->code == MPA_ERR_LOCAL) {
		counter = MPA_MIB_TX_FAILED;
		what = "nothing more can be sent";
	} else if (part == MPA_TX) {
		counter = failure->err == -ETIMEDOUT ? MPA_MIB_TIMED_OUT :
						       MPA_MIB_LOST;
		what = "the connection is lost";
	}
	mpa_report_failure(ctx, counter, what, 0, failure);
}

/* Report a new MULPDU, in MPA_STATE_FULL. Context: process. */
void mpa_report_mulpdu(const struct mpa_ctx *ctx)
{
	mpa_event(ctx, MPA_CMD_MULPDU_NTF, 0, 0, NULL);
}

/* Report the connection's first segment that does not start with an FPDU. */
void mpa_report_unaligned(struct sock *sk, enum mpa_cut cut)
{
	mpa_event(mpa_ctx(sk), MPA_CMD_UNALIGNED_NTF, MPA_A_CONN_CAUSE, cut, NULL);
}

/* TUF only: report that a middlebox changes the segmentation of the stream. */
void mpa_report_resegmented(const struct mpa_ctx *ctx)
{
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_TUF_RESEGMENTED);
	mpa_report_debug(ctx->sk, "almost no segment holds an FPDU", 0,
			 MPA_ERR_NONE, ctx->rx.cur.pos);
}

void mpa_report_closed(const struct mpa_ctx *ctx)
{
	if (ctx->state == MPA_STATE_FULL)
		SNMP_ADD_STATS(ctx->tcp.mib,
			       MPA_MIB_CURR + mpa_report_kind(ctx), -1);
	if (ctx->state != MPA_STATE_IDLE)
		mpa_event(ctx, MPA_CMD_CLOSED_NTF, 0, 0, NULL);
}
