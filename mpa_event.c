// SPDX-License-Identifier: GPL-2.0
/*
 * Events of connections to those who listen for them by netlink.
 *
 * An event is built where it happens, and goes from there to the sockets that have asked
 * for those of its namespace (mpa_tap.c), of which there are few.
 *
 * It goes to the multicast group as well, by a work item of the namespace: netlink walks
 * all listeners of the machine for each, those of other namespaces as well, and no
 * connection waits for that. Whoever can make a user namespace can have a thousand
 * listeners there, and as many events as he likes: for namespaces that belong to one
 * nothing goes to the group.
 */

#include <linux/sched/mm.h>
#include <linux/skbuff.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>
#include <net/genetlink.h>
#include <net/netns/generic.h>
#include <uapi/linux/mpa_netlink.h>

#include "mpa.h"

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
