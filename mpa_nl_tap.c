// SPDX-License-Identifier: GPL-2.0
/*
 * Taps: a netlink socket requests the events of its network namespace, or the
 * records of a connection with their first octets.
 *
 * Taps on records are for debugging: each record is then processed alone, on the
 * slow path. A message is sent for a sent record when its FPDU has been built,
 * for a received record when it has been verified or found bad, and for a record
 * out of order when it is delivered to the user.
 *
 * Not a multicast group: any user may join the number of a group that does not
 * exist yet, and is still a member when the module is loaded. Not
 * netlink_unicast() to the reader's port: netlink may give the port to another
 * socket before its notifier reports that the reader is closed.
 *
 * A tap is in a list of its namespace until its connection or netlink socket is
 * closed. That removes the tap, under the list's lock. It is freed after a grace
 * period, as is the netlink socket, after netlink's notifier: so taps found under
 * RCU are valid. The list has a limit, as it is searched for each record, and for
 * each netlink socket that is closed in the namespace. Taps of events have a lower
 * limit, as the connection waits while an event is sent to each of them.
 */

#include <linux/netlink.h>
#include <linux/notifier.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <net/genetlink.h>
#include <net/netns/generic.h>
#include <uapi/linux/mpa_netlink.h>

#include "mpa.h"

/* Attributes of a record without its octets. */
#define MPA_TAP_SIZE		128

/* Limits of taps in a network namespace: of all, and of those for events. */
#define MPA_TAPS_MAX		256
#define MPA_TAPS_EVENTS_MAX	16

/**
 * struct mpa_tap - records of a connection, or events, for a monitor
 * @list:	in mpa_taps.list
 * @ctx:	the connection's context; NULL: events of the namespace
 * @reader:	the monitor's netlink socket
 * @portid:	its port; another socket may get the same one while this socket is
 *		being closed
 * @octets:	maximum number of octets copied from a record; written without the
 *		socket lock
 * @seq:	records so far; protected by the connection's socket lock, as is
 *		@lost
 * @lost:	the last message was lost, and the reader notified; for events
 *		protected by the lock of the queue of events
 * @rcu:	for freeing
 */
struct mpa_tap {
	struct list_head	list;
	struct mpa_ctx		*ctx;
	struct sock		*reader;
	u32			portid;
	u32			octets;
	u32			seq;
	bool			lost;
	struct rcu_head		rcu;
};

/**
 * struct mpa_taps - taps of one network namespace
 * @lock:	for @list, @n and mpa_ctx.tapped of the namespace's connections
 * @list:	all of them
 * @n:		at most MPA_TAPS_MAX
 * @events:	number of taps for events; read without @lock
 */
struct mpa_taps {
	spinlock_t		lock; /* for all following members */
	struct list_head	list;
	unsigned int		n;
	unsigned int		events;
};

/* Enabled with the first tap: until then checks for taps cost nothing. */
DEFINE_STATIC_KEY_FALSE(mpa_tap_used);

static const struct genl_family *mpa_tap_family __ro_after_init;
static unsigned int mpa_taps_id __read_mostly;

static struct mpa_taps *mpa_taps(const struct net *net)
{
	return net_generic(net, mpa_taps_id);
}

/* Context: under RCU, or mpa_taps.lock held. Return: the context's tap, or NULL. */
static struct mpa_tap *mpa_tap_of(const struct mpa_ctx *ctx)
{
	struct mpa_taps *taps = mpa_taps(sock_net(ctx->sk));
	struct mpa_tap *tap;

	list_for_each_entry_rcu(tap, &taps->list, list,
				lockdep_is_held(&taps->lock))
		if (tap->ctx == ctx)
			return tap;
	return NULL;
}

/* Context: mpa_taps.lock held. */
static void mpa_tap_end(struct mpa_taps *taps, struct mpa_tap *tap)
{
	list_del_rcu(&tap->list);
	taps->n--;
	if (tap->ctx)
		WRITE_ONCE(tap->ctx->tapped, false);
	else
		WRITE_ONCE(taps->events, taps->events - 1);
	kfree_rcu(tap, rcu);
}

/**
 * mpa_tap_set() - send a connection's records to a netlink socket from now on
 * @ctx:	the context, found under the same RCU read lock
 * @reader:	the netlink socket
 * @portid:	its port
 * @octets:	maximum number of octets to copy from a record
 *
 * Context: under RCU; mpa_tap_used is on.
 * Return: 0; -EBUSY: another socket has a tap on the connection; -ENOSPC: the
 * namespace has MPA_TAPS_MAX taps; -ENOMEM; or -ENOENT: the connection has just
 * been closed.
 */
int mpa_tap_set(struct mpa_ctx *ctx, struct sock *reader, u32 portid, u32 octets)
{
	struct mpa_tap *new = kzalloc(sizeof(*new), GFP_ATOMIC | __GFP_ACCOUNT);
	struct mpa_taps *taps = mpa_taps(sock_net(ctx->sk));
	struct mpa_tap *tap;
	int err = 0;

	if (!new)
		return -ENOMEM;
	spin_lock_bh(&taps->lock);
	tap = mpa_tap_of(ctx);
	if (tap && tap->reader != reader) {
		err = -EBUSY;
	} else if (tap) {
		WRITE_ONCE(tap->octets, octets);
	} else if (!READ_ONCE(ctx->listed)) {
		err = -ENOENT;
	} else if (taps->n >= MPA_TAPS_MAX) {
		err = -ENOSPC;
	} else {
		new->ctx = ctx;
		new->reader = reader;
		new->portid = portid;
		new->octets = octets;
		list_add_rcu(&new->list, &taps->list);
		taps->n++;
		WRITE_ONCE(ctx->tapped, true);
		new = NULL;
	}
	spin_unlock_bh(&taps->lock);
	kfree(new);
	return err;
}

/*
 * Send events to @reader, at @portid, from now on. Context: process. Return: 0,
 * also if it receives them already; -ENOSPC: there are MPA_TAPS_EVENTS_MAX taps
 * for events, or MPA_TAPS_MAX taps; -ENOMEM.
 */
int mpa_tap_set_events(struct net *net, struct sock *reader, u32 portid)
{
	struct mpa_tap *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT), *tap;
	struct mpa_taps *taps = mpa_taps(net);
	int err = 0;

	if (!new)
		return -ENOMEM;
	new->reader = reader;
	new->portid = portid;
	spin_lock_bh(&taps->lock);
	list_for_each_entry(tap, &taps->list, list)
		if (!tap->ctx && tap->reader == reader)
			goto out;
	if (taps->n >= MPA_TAPS_MAX || taps->events >= MPA_TAPS_EVENTS_MAX) {
		err = -ENOSPC;
		goto out;
	}
	list_add_rcu(&new->list, &taps->list);
	taps->n++;
	WRITE_ONCE(taps->events, taps->events + 1);
	new = NULL;
out:
	spin_unlock_bh(&taps->lock);
	kfree(new);
	return err;
}

/* Whether there is a tap for the events of a namespace. Context: any. */
bool mpa_tap_has_events(const struct net *net)
{
	return READ_ONCE(mpa_taps(net)->events);
}

/*
 * End the tap of a connection. Context: any. The caller holds RCU, or has removed
 * the context from the list of connections.
 */
void mpa_tap_clear(struct mpa_ctx *ctx)
{
	struct mpa_taps *taps = mpa_taps(sock_net(ctx->sk));
	struct mpa_tap *tap;

	if (!static_branch_unlikely(&mpa_tap_used))
		return;
	/* @tapped is tested under the lock, as another task may be adding a tap. */
	spin_lock_bh(&taps->lock);
	tap = ctx->tapped ? mpa_tap_of(ctx) : NULL;
	if (tap)
		mpa_tap_end(taps, tap);
	spin_unlock_bh(&taps->lock);
}

/* Netlink's notifier: a netlink socket was closed, and has SOCK_DEAD. Context: process. */
static int mpa_tap_released(struct notifier_block *block, unsigned long event,
			    void *arg)
{
	const struct netlink_notify *notify = arg;
	struct mpa_tap *tap, *next;
	struct mpa_taps *taps;

	if (event != NETLINK_URELEASE || notify->protocol != NETLINK_GENERIC)
		return NOTIFY_DONE;
	taps = mpa_taps(notify->net);
	spin_lock_bh(&taps->lock);
	list_for_each_entry_safe(tap, next, &taps->list, list)
		if (tap->portid == notify->portid &&
		    sock_flag(tap->reader, SOCK_DEAD))
			mpa_tap_end(taps, tap);
	spin_unlock_bh(&taps->lock);
	return NOTIFY_DONE;
}

static struct notifier_block mpa_tap_notifier = {
	.notifier_call = mpa_tap_released,
};

static int __net_init mpa_tap_net_init(struct net *net)
{
	struct mpa_taps *taps = mpa_taps(net);

	spin_lock_init(&taps->lock);
	INIT_LIST_HEAD(&taps->list);
	return 0;
}

/*
 * Connections with a tap hold a reference to the module, but taps for events may
 * be left at module exit.
 */
static void __net_exit mpa_tap_net_exit(struct net *net)
{
	struct mpa_taps *taps = mpa_taps(net);
	struct mpa_tap *tap, *next;

	list_for_each_entry_safe(tap, next, &taps->list, list)
		mpa_tap_end(taps, tap);
}

static struct pernet_operations mpa_tap_net_ops = {
	.init	= mpa_tap_net_init,
	.exit	= mpa_tap_net_exit,
	.id	= &mpa_taps_id,
	.size	= sizeof(struct mpa_taps),
};

/* At module init. Return: 0 or a negative errno. */
int __init mpa_tap_init(const struct genl_family *family)
{
	int err = register_pernet_subsys(&mpa_tap_net_ops);

	if (err)
		return err;
	mpa_tap_family = family;
	err = netlink_register_notifier(&mpa_tap_notifier);
	if (err)
		unregister_pernet_subsys(&mpa_tap_net_ops);
	return err;
}

void mpa_tap_exit(void)
{
	netlink_unregister_notifier(&mpa_tap_notifier);
	unregister_pernet_subsys(&mpa_tap_net_ops);
}

/* ---- a record ---- */

/**
 * struct mpa_tap_record - a message about one record
 * @ctx:	the connection's context
 * @tap:	its tap
 * @head:	the message's header
 * @direction:	enum mpa_direction
 * @verdict:	enum mpa_error
 * @placed:	the record is delivered out of order
 * @position:	stream position of its FPDU
 * @len:	octets of the ULPDU; 0: not known
 * @octets:	octets of the ULPDU to copy
 * @to:		destination of the next octet
 */
struct mpa_tap_record {
	struct mpa_ctx		*ctx;
	struct mpa_tap		*tap;
	void			*head;
	enum mpa_direction	direction;
	enum mpa_error		verdict;
	bool			placed;
	u64			position;
	u32			len;
	u32			octets;
	u8			*to;
};

static int mpa_tap_fill(struct sk_buff *skb, struct mpa_tap_record *record)
{
	struct mpa_ctx *ctx = record->ctx;
	struct nlattr *data;

	record->head = genlmsg_put(skb, 0, 0, mpa_tap_family, 0,
				   MPA_CMD_RECORD_NTF);
	if (!record->head ||
	    nla_put_u64_64bit(skb, MPA_A_TAP_COOKIE, mpa_show_cookie(ctx->sk),
			      MPA_A_TAP_PAD) ||
	    nla_put_u32(skb, MPA_A_TAP_SEQ, record->tap->seq) ||
	    nla_put_u32(skb, MPA_A_TAP_DIRECTION, record->direction) ||
	    nla_put_u64_64bit(skb, MPA_A_TAP_POSITION, record->position,
			      MPA_A_TAP_PAD))
		return -EMSGSIZE;
	if (record->len && nla_put_u32(skb, MPA_A_TAP_LENGTH, record->len))
		return -EMSGSIZE;
	if (record->placed && nla_put_flag(skb, MPA_A_TAP_PLACED))
		return -EMSGSIZE;
	if (record->direction == MPA_DIRECTION_RX &&
	    nla_put_u32(skb, MPA_A_TAP_VERDICT, record->verdict))
		return -EMSGSIZE;
	if (!record->octets)
		return 0;
	data = nla_reserve(skb, MPA_A_TAP_DATA, record->octets);
	if (!data)
		return -EMSGSIZE;
	record->to = nla_data(data);
	return 0;
}

static bool mpa_tap_full(const struct sock *reader)
{
	return atomic_read(&reader->sk_rmem_alloc) >=
	       READ_ONCE(reader->sk_rcvbuf);
}

/* The reader loses a message. The first loss in a row is reported as ENOBUFS. */
static void mpa_tap_lost(struct mpa_tap *tap, struct sk_buff *skb)
{
	nlmsg_free(skb);
	SNMP_INC_STATS(mpa_stat_mib(sock_net(tap->reader)),
		       tap->ctx ? MPA_MIB_RECORDS_LOST : MPA_MIB_EVENTS_LOST);
	if (tap->lost)
		return;
	tap->lost = true;
	WRITE_ONCE(tap->reader->sk_err, ENOBUFS);
	sk_error_report(tap->reader);
}

/*
 * Begin a message. Context: under RCU, connection's socket lock held. Return: the
 * message, or NULL if none is to be sent.
 */
static struct sk_buff *mpa_tap_begin(struct mpa_tap_record *record)
{
	struct mpa_ctx *ctx = record->ctx;
	struct mpa_tap *tap = mpa_tap_of(ctx);
	struct sk_buff *skb;

	if (!tap)
		return NULL;
	record->tap = tap;
	tap->seq++;
	record->octets = min(record->len, READ_ONCE(tap->octets));
	/* If the reader's buffer is full, do not copy anything. */
	if (mpa_tap_full(tap->reader)) {
		atomic_inc(&tap->reader->sk_drops);
		mpa_tap_lost(tap, NULL);
		return NULL;
	}
	skb = genlmsg_new(MPA_TAP_SIZE + nla_total_size(record->octets),
			  GFP_ATOMIC | __GFP_NOWARN);
	if (skb && !mpa_tap_fill(skb, record))
		return skb;
	mpa_tap_lost(tap, skb);
	return NULL;
}

/* A reader that has just been closed is no problem: netlink purges its queue later. */
static void mpa_tap_send(struct mpa_tap *tap, struct sk_buff *skb)
{
	int err = skb ? sock_queue_rcv_skb(tap->reader, skb) : -ENOMEM;

	if (!err)
		tap->lost = false;
	else if (err == -EPERM)
		/* Rejected by the reader's socket filter. */
		nlmsg_free(skb);
	else
		mpa_tap_lost(tap, skb);
}

/*
 * Send an event to all sockets that have requested its namespace's events.
 * Context: any, lock of the queue of events held.
 */
void mpa_tap_event(const struct net *net, struct sk_buff *skb)
{
	struct mpa_tap *tap;

	rcu_read_lock();
	list_for_each_entry_rcu(tap, &mpa_taps(net)->list, list)
		if (!tap->ctx)
			mpa_tap_send(tap, skb_clone(skb, GFP_ATOMIC));
	rcu_read_unlock();
}

/* Copy octets of the ULPDU of an FPDU in the buffer, without markers. */
static void mpa_tap_copy_built(struct mpa_tap_record *record,
			       const struct mpa_fpdu *fpdu)
{
	const struct mpa_txbuf *out = record->ctx->tx.out;
	u32 at = out->len - fpdu->len, off = 0, left = record->octets;

	while (left) {
		struct mpa_field_span field;
		const u8 *data;
		u32 n;

		mpa_fpdu_field_at(fpdu, off, &field);
		data = mpa_txbuf_at(out, at + off, &n);
		n = min(n, field.len);
		if (field.field == MPA_FIELD_ULPDU) {
			n = min(n, left);
			memcpy(record->to, data, n);
			record->to += n;
			left -= n;
		}
		off += n;
	}
}

/*
 * The last FPDU in the buffer has just been built. Context: process, socket
 * lock held; mpa_tapped().
 */
void __mpa_tap_sent(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		    u64 position)
{
	struct mpa_tap_record record = {
		.ctx = ctx, .direction = MPA_DIRECTION_TX,
		.position = position, .len = fpdu->ulpdu_len,
	};
	struct sk_buff *skb;

	rcu_read_lock();
	skb = mpa_tap_begin(&record);
	if (skb) {
		mpa_tap_copy_built(&record, fpdu);
		genlmsg_end(skb, record.head);
		mpa_tap_send(record.tap, skb);
	}
	rcu_read_unlock();
}

static int mpa_tap_copy(void *arg, const u8 *data, u32 len)
{
	struct mpa_tap_record *record = arg;

	memcpy(record->to, data, len);
	record->to += len;
	return 0;
}

static void mpa_tap_show(struct mpa_tap_record *record,
			 struct mpa_cursor *at, const struct mpa_fpdu *fpdu)
{
	struct sk_buff *skb;

	rcu_read_lock();
	skb = mpa_tap_begin(record);
	if (!skb)
		goto out;
	if (!record->octets ||
	    !mpa_read_show(&record->ctx->rx, at, fpdu, 0, record->octets,
			   mpa_tap_copy, record)) {
		genlmsg_end(skb, record->head);
		mpa_tap_send(record->tap, skb);
		goto out;
	}
	mpa_tap_lost(record->tap, skb);
out:
	rcu_read_unlock();
}

/**
 * __mpa_tap_received() - the current record has been verified, or found bad
 * @ctx:	the context; mpa_tapped()
 * @at:		its octets
 * @fpdu:	its layout
 * @verdict:	MPA_ERR_NONE, or its error
 *
 * Context: any, socket lock held.
 */
void __mpa_tap_received(struct mpa_ctx *ctx, struct mpa_cursor *at,
			const struct mpa_fpdu *fpdu, enum mpa_error verdict)
{
	struct mpa_tap_record record = {
		.ctx = ctx, .direction = MPA_DIRECTION_RX, .verdict = verdict,
		.position = ctx->rx.cur.pos, .len = fpdu->ulpdu_len,
	};

	mpa_tap_show(&record, at, fpdu);
}

/*
 * A record is delivered out of order. Context: any, socket lock held;
 * mpa_tapped().
 */
void __mpa_tap_placed(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu)
{
	struct mpa_tap_record record = {
		.ctx = ctx, .direction = MPA_DIRECTION_RX, .placed = true,
		.position = mpa_rx_position(&ctx->rx, fpdu->pos),
		.len = fpdu->ulpdu_len,
	};
	struct mpa_cursor at;

	mpa_cursor_begin(&at, ctx->sk, ctx->rx.seq + fpdu->pos);
	mpa_tap_show(&record, &at, fpdu);
}

/*
 * The current record's length is not valid. Context: any, socket lock held;
 * mpa_tapped().
 */
void __mpa_tap_bad_length(struct mpa_ctx *ctx)
{
	struct mpa_tap_record record = {
		.ctx = ctx, .direction = MPA_DIRECTION_RX,
		.verdict = MPA_ERR_CRC, .position = ctx->rx.cur.pos,
	};

	mpa_tap_show(&record, NULL, NULL);
}
