// SPDX-License-Identifier: GPL-2.0
/*
 * What happens to connections is told here: counted, traced, made an event
 * (below), and written to the kernel's log if an administrator has asked for
 * that (dynamic debug).
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

static void mpa_report_event(const struct mpa_ctx *ctx, u8 cmd)
{
	const struct mpa_event event = { .cmd = cmd };

	mpa_event(ctx, &event);
}

static void mpa_report_failed(const struct mpa_ctx *ctx, int err, u8 code,
			      bool rx)
{
	const struct mpa_failure failure = { .err = err, .code = code, .rx = rx };
	const struct mpa_event event = {
		.cmd = MPA_CMD_FAILED_NTF, .failure = &failure,
	};

	mpa_event(ctx, &event);
}

/* ---- the kernel's log ---- */

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

/* ---- what happens ---- */

/* The peer has rejected the request, and not a program here. */
static bool mpa_report_by_peer(const struct mpa_ctx *ctx)
{
	return ctx->role == MPA_ROLE_INITIATOR && ctx->have_peer &&
	       ctx->peer.flags & MPA_PEER_REJECTED;
}

/* Whose connections are counted together: those of a role, or TUF's. */
static u32 mpa_report_kind(const struct mpa_ctx *ctx)
{
	return (mpa_alt(ctx) ? MPA_MIB_KINDS : ctx->role) - 1;
}

/**
 * mpa_report_state() - the state changes
 * @ctx:	the context, in the new state
 * @old:	enum mpa_state: the one before
 *
 * Context: any, socket lock held; or nobody else knows @ctx.
 */
void mpa_report_state(const struct mpa_ctx *ctx, u8 old)
{
	struct sock *sk = ctx->sk;

	trace_mpa_state(sk, old, ctx->state);
	switch (ctx->state) {
	case MPA_STATE_FULL:
		SNMP_INC_STATS(ctx->tcp.mib,
			       MPA_MIB_CURR + mpa_report_kind(ctx));
		SNMP_INC_STATS(ctx->tcp.mib,
			       MPA_MIB_TOTAL + mpa_report_kind(ctx));
		mpa_report_event(ctx, MPA_CMD_STARTED_NTF);
		break;
	case MPA_STATE_REJECTED:
		mpa_report_refused(ctx, mpa_report_by_peer(ctx) ?
				   MPA_REFUSAL_BY_PEER : MPA_REFUSAL_BY_USER,
				   -ECONNREFUSED);
		break;
	case MPA_STATE_IDLE:
		/* TUF is off in both directions. */
		if (old == MPA_STATE_FULL)
			SNMP_ADD_STATS(ctx->tcp.mib,
				       MPA_MIB_CURR + mpa_report_kind(ctx), -1);
		break;
	}
}

/**
 * mpa_report_refused() - startup has come to nothing
 * @ctx:	the context
 * @why:	the reason
 * @err:	negative errno
 *
 * Context: any, socket lock held.
 */
void mpa_report_refused(const struct mpa_ctx *ctx, enum mpa_refusal why, int err)
{
	static const char * const reasons[] = {
		[MPA_REFUSAL_BY_PEER] = "the peer has rejected the request",
		[MPA_REFUSAL_BY_USER] = "rejected by the program",
		[MPA_REFUSAL_MALFORMED] = "its startup frame is malformed",
		[MPA_REFUSAL_TIMEOUT] = "its startup frame has not come in time",
		[MPA_REFUSAL_LOST] = "the connection has ended during startup",
		[MPA_REFUSAL_OUSTED] = "made room for another startup",
		[MPA_REFUSAL_LIMIT] = "no responder may be in startup",
		[MPA_REFUSAL_GIVEN_UP] = "startup was given up by shutdown(2)",
		[MPA_REFUSAL_LOCAL] = "startup was given up",
	};
	const struct mpa_failure failure = { .err = err, .code = ctx->code };
	const struct mpa_event event = {
		.cmd = MPA_CMD_REFUSED_NTF, .attr = MPA_A_CONN_REFUSAL,
		.value = why, .failure = &failure,
	};

	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_REFUSED + why - 1);
	trace_mpa_error(ctx->sk, ctx->code, err, 0);
	mpa_report_debug(ctx->sk, reasons[why], err, ctx->code, 0);
	mpa_event(ctx, &event);
}

/**
 * mpa_report_receiving() - nothing more is received
 * @ctx:	the context; what @ctx->rx.error says
 * @code:	the error code
 *
 * Context: any, socket lock held.
 */
void mpa_report_receiving(const struct mpa_ctx *ctx, enum mpa_error code)
{
	u64 position = ctx->rx.cur.pos;

	/* The same loss has cut an FPDU: it has been told. */
	if (ctx->lost && code == MPA_ERR_TCP)
		return;
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_RX_FAILED + code - 1);
	trace_mpa_error(ctx->sk, code, ctx->rx.error, position);
	mpa_report_debug(ctx->sk, "nothing more is received", ctx->rx.error,
			 code, position);
	mpa_report_failed(ctx, ctx->rx.error, code, true);
}

/**
 * mpa_report_sending() - nothing more can be sent
 * @ctx:	the context
 * @err:	negative errno
 *
 * Context: process, socket lock held.
 */
void mpa_report_sending(struct mpa_ctx *ctx, int err)
{
	if (ctx->broken)
		return;
	WRITE_ONCE(ctx->broken, err);
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_TX_FAILED);
	trace_mpa_error(ctx->sk, MPA_ERR_LOCAL, err, 0);
	mpa_report_debug(ctx->sk, "nothing more can be sent", err,
			 MPA_ERR_LOCAL, 0);
	mpa_report_failed(ctx, err, MPA_ERR_LOCAL, false);
}

/**
 * mpa_report_disagreed() - Full Operation has begun without what RFC 6581 was to
 *			    agree on
 * @ctx:	the context; its code says what
 * @err:	negative errno
 *
 * Context: process, socket lock held.
 */
void mpa_report_disagreed(const struct mpa_ctx *ctx, int err)
{
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_RX_FAILED + ctx->code - 1);
	trace_mpa_error(ctx->sk, ctx->code, err, 0);
	mpa_report_debug(ctx->sk, "IRD, ORD or RTR do not suit", err, ctx->code,
			 0);
	mpa_report_failed(ctx, err, ctx->code, false);
}

/**
 * mpa_report_lost() - TCP has gone, and not by an orderly end
 * @ctx:	the context, in MPA_STATE_FULL
 * @err:	negative errno
 *
 * Context: any, socket lock held.
 */
void mpa_report_lost(struct mpa_ctx *ctx, int err)
{
	if (ctx->broken)
		return;
	WRITE_ONCE(ctx->broken, err);
	WRITE_ONCE(ctx->lost,
		   !ctx->rx.error && !mpa_tcp_peer_ended(ctx->sk));
	SNMP_INC_STATS(ctx->tcp.mib, err == -ETIMEDOUT ? MPA_MIB_TIMED_OUT :
							 MPA_MIB_LOST);
	trace_mpa_error(ctx->sk, MPA_ERR_TCP, err, 0);
	mpa_report_debug(ctx->sk, "the connection is lost", err, MPA_ERR_TCP, 0);
	mpa_report_failed(ctx, err, MPA_ERR_TCP, false);
}

/**
 * mpa_report_mulpdu() - MULPDU has changed
 * @ctx:	the context, in MPA_STATE_FULL
 *
 * Context: process, socket lock held.
 */
void mpa_report_mulpdu(const struct mpa_ctx *ctx)
{
	mpa_report_event(ctx, MPA_CMD_MULPDU_NTF);
}

/**
 * mpa_report_unaligned() - the first segment that does not start with an FPDU
 * @sk:		socket
 * @cut:	why it does not
 *
 * Context: any, socket lock held.
 */
void mpa_report_unaligned(struct sock *sk, enum mpa_cut cut)
{
	const struct mpa_event event = {
		.cmd = MPA_CMD_UNALIGNED_NTF, .attr = MPA_A_CONN_CAUSE,
		.value = cut,
	};

	mpa_event(mpa_ctx(sk), &event);
}

/**
 * mpa_report_resegmented() - something on the way cuts a stream of TUF anew
 * @ctx:	the context
 *
 * Context: any, socket lock held.
 */
void mpa_report_resegmented(const struct mpa_ctx *ctx)
{
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_TUF_RESEGMENTED);
	mpa_report_debug(ctx->sk, "almost no segment holds an FPDU", 0,
			 MPA_ERR_NONE, ctx->rx.cur.pos);
}

/**
 * mpa_report_closed() - the socket is closed
 * @ctx:	the context
 *
 * Context: any, socket lock held.
 */
void mpa_report_closed(const struct mpa_ctx *ctx)
{
	if (ctx->state == MPA_STATE_FULL)
		SNMP_ADD_STATS(ctx->tcp.mib,
			       MPA_MIB_CURR + mpa_report_kind(ctx), -1);
	if (ctx->state != MPA_STATE_IDLE)
		mpa_report_event(ctx, MPA_CMD_CLOSED_NTF);
}

/*
 * ---- events to those who listen for them by netlink ----
 *
 * An event is built where it happens, and goes from there to the sockets that have asked
 * for those of its namespace (mpa_nl_tap.c), of which there are few.
 *
 * It goes to the multicast group as well, by a work item of the namespace: netlink walks
 * all listeners of the machine for each, those of other namespaces as well, and no
 * connection waits for that. Whoever can make a user namespace can have a thousand
 * listeners there, and as many events as he likes: for namespaces that belong to one
 * nothing goes to the group.
 */

/* Attributes of an event: some forty numbers and two addresses. */
#define MPA_EVENT_SIZE		640

/* The number of a namespace that may wait to be sent. */
#define MPA_EVENTS_MAX		1024

/* Namespaces that send at the same time. */
#define MPA_EVENTS_AT_ONCE	4

/**
 * struct mpa_events - of one network namespace
 * @net:	the namespace
 * @queue:	made, and not sent; its lock is for all that follows
 * @number:	of the last one
 * @closed:	the namespace goes, or the module: no more are taken
 * @work:	sends them
 */
struct mpa_events {
	struct net		*net;
	struct sk_buff_head	queue;
	u32			number;
	bool			closed;
	struct work_struct	work;
};

static const struct genl_family *mpa_event_family __ro_after_init;
static struct workqueue_struct *mpa_event_wq __ro_after_init;
static unsigned int mpa_events_id __read_mostly;

static struct mpa_events *mpa_events(const struct net *net)
{
	return net_generic(net, mpa_events_id);
}

/* ---- making one ---- */

/* @number is set to where its number goes. */
static int mpa_event_fill(struct sk_buff *skb, const struct mpa_ctx *ctx,
			  const struct mpa_event *event, struct nlattr **number)
{
	void *head = genlmsg_put(skb, 0, 0, mpa_event_family, 0, event->cmd);

	if (!head)
		return -EMSGSIZE;
	*number = nla_reserve(skb, MPA_A_CONN_EVENT, sizeof(u32));
	if (!*number ||
	    (event->attr && nla_put_u32(skb, event->attr, event->value)) ||
	    mpa_show_conn(skb, ctx, sock_net(ctx->sk)->user_ns, event->failure))
		return -EMSGSIZE;
	genlmsg_end(skb, head);
	return 0;
}

static struct sk_buff *mpa_event_make(const struct mpa_ctx *ctx,
				      const struct mpa_event *event,
				      struct nlattr **number)
{
	struct sk_buff *skb = genlmsg_new(MPA_EVENT_SIZE,
					  GFP_ATOMIC | __GFP_ACCOUNT);

	if (skb && WARN_ON_ONCE(mpa_event_fill(skb, ctx, event, number))) {
		nlmsg_free(skb);
		skb = NULL;
	}
	return skb;
}

/* Somebody in some namespace has joined the group: netlink does not know more. */
static bool mpa_event_has_group(struct net *net)
{
	return net->user_ns == &init_user_ns &&
	       genl_has_listeners(mpa_event_family, net, MPA_NLGRP_EVENTS);
}

/*
 * Events leave in the order of their numbers. @skb: NULL if there was no memory: it takes
 * a number as well, so that the gap shows. Return: false if the event is lost to the
 * group, or to all.
 */
static bool mpa_event_queue(struct mpa_events *events, struct sk_buff *skb,
			    struct nlattr *number)
{
	struct sk_buff_head *queue = &events->queue;
	bool sent = skb;

	/* Readers' own filters run meanwhile: not with interrupts off. */
	spin_lock_bh(&queue->lock);
	events->number++;
	if (skb) {
		*(u32 *)nla_data(number) = events->number;
		mpa_tap_event(events->net, skb);
	}
	if (skb && mpa_event_has_group(events->net)) {
		sent = !events->closed && queue->qlen < MPA_EVENTS_MAX;
		if (sent) {
			__skb_queue_tail(queue, skb_get(skb));
			queue_work(mpa_event_wq, &events->work);
		}
	}
	spin_unlock_bh(&queue->lock);
	return sent;
}

static noinline void mpa_event_send(const struct mpa_ctx *ctx,
				    const struct mpa_event *event)
{
	struct mem_cgroup *old;
	struct nlattr *number;
	struct sk_buff *skb;

	/* While it waits it is the connection's. */
	old = set_active_memcg(mem_cgroup_from_sk(ctx->sk));
	skb = mpa_event_make(ctx, event, &number);
	set_active_memcg(old);
	if (!mpa_event_queue(mpa_events(sock_net(ctx->sk)), skb, number))
		SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_EVENTS_LOST);
	nlmsg_free(skb);
}

/**
 * mpa_event() - send an event, if anybody listens
 * @ctx:	the context
 * @event:	what happens
 *
 * Context: any, socket lock held.
 */
void mpa_event(const struct mpa_ctx *ctx, const struct mpa_event *event)
{
	struct net *net = sock_net(ctx->sk);

	if (mpa_tap_has_events(net) || mpa_event_has_group(net))
		mpa_event_send(ctx, event);
}

/* ---- sending them ---- */

/* The oldest one that waits. */
static void mpa_event_send_next(struct mpa_events *events)
{
	struct sk_buff *skb;
	int err;

	spin_lock_bh(&events->queue.lock);
	skb = __skb_dequeue(&events->queue);
	spin_unlock_bh(&events->queue.lock);
	if (!skb)
		return;
	err = genlmsg_multicast_netns(mpa_event_family, events->net, skb, 0,
				      MPA_NLGRP_EVENTS, GFP_KERNEL);
	/* -ESRCH: nobody has got it. */
	if (err && err != -ESRCH)
		SNMP_INC_STATS(mpa_stat_mib(events->net), MPA_MIB_EVENTS_LOST);
}

/* Namespaces take turns: one with many events, or listeners, does not stop others. */
static void mpa_event_work(struct work_struct *work)
{
	struct mpa_events *events = container_of(work, struct mpa_events, work);

	do {
		mpa_event_send_next(events);
		if (skb_queue_empty_lockless(&events->queue))
			return;
		cond_resched();
	} while (events->closed);
	queue_work(mpa_event_wq, work);
}

static int __net_init mpa_event_net_init(struct net *net)
{
	struct mpa_events *events = mpa_events(net);

	events->net = net;
	skb_queue_head_init(&events->queue);
	INIT_WORK(&events->work, mpa_event_work);
	return 0;
}

/* Send those that wait, and no more: users inside the kernel may close sockets later. */
static void __net_exit mpa_event_net_exit(struct net *net)
{
	struct mpa_events *events = mpa_events(net);

	spin_lock_bh(&events->queue.lock);
	events->closed = true;
	spin_unlock_bh(&events->queue.lock);
	cancel_work_sync(&events->work);
	mpa_event_work(&events->work);
}

static struct pernet_operations mpa_event_net_ops = {
	.init	= mpa_event_net_init,
	.exit	= mpa_event_net_exit,
	.id	= &mpa_events_id,
	.size	= sizeof(struct mpa_events),
};

/**
 * mpa_event_init() - learn how events are sent
 * @family:	the netlink family
 *
 * Context: module init; before there is a connection.
 * Return: 0 or a negative errno.
 */
int __init mpa_event_init(const struct genl_family *family)
{
	int err;

	mpa_event_family = family;
	mpa_event_wq = alloc_workqueue("mpa_events", WQ_UNBOUND,
				       MPA_EVENTS_AT_ONCE);
	if (!mpa_event_wq)
		return -ENOMEM;
	err = register_pernet_subsys(&mpa_event_net_ops);
	if (err)
		destroy_workqueue(mpa_event_wq);
	return err;
}

/**
 * mpa_event_exit() - send those that wait, and no more
 *
 * Context: module exit; when no connection is left.
 */
void mpa_event_exit(void)
{
	unregister_pernet_subsys(&mpa_event_net_ops);
	destroy_workqueue(mpa_event_wq);
}
