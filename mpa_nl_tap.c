// SPDX-License-Identifier: GPL-2.0
/*
 * Taps: a netlink socket requests the events of its network namespace, or the records of a
 * connection with their first octets.
 *
 * Taps on records are for debugging: each record is then processed alone, on the slow path. A
 * message is sent for a sent record when its FPDU has been built, for a received record when it
 * has been verified or found bad, and for a record out of order when it is delivered to the
 * user.
 *
 * A multicast group would be unsafe: a user may join a group's number before the module is
 * loaded, and is still a member afterwards. netlink_unicast() to the reader's port would be
 * unsafe, too: netlink may give the port to another socket before its notifier reports that the
 * reader is closed.
 *
 * A tap is in a list of its namespace until its connection or its reader is closed. Closing
 * either removes the tap, under the list's lock. The tap is freed after a grace period. The
 * reader is freed after netlink's notifier and a grace period. So a tap found under RCU is
 * valid, and so is its reader.
 *
 * The number of taps is limited: the list is searched for each record, and for each netlink
 * socket that is closed in the namespace. Taps for events have a lower limit, as a connection
 * waits while its event is sent to each of these taps.
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

/* Octets allocated for a record's attributes other than MPA_A_TAP_DATA. */
#define MPA_TAP_SIZE		128

/* Maximum number of taps in a network namespace, and of taps for events among them. */
#define MPA_TAPS_MAX		256
#define MPA_TAPS_EVENTS_MAX	16

/* Sends records of a connection, or events of the namespace, to a netlink socket */
struct mpa_tap {
	struct list_head	list;	/* in mpa_conns.taps */
	struct mpa_ctx		*ctx;	/* NULL: events of the namespace */
	struct sock		*reader;
	u32			portid;	/* may be reused while @reader is being closed */
	u32			octets;	/* limit per record; written without the socket lock */
	u32			seq;	/* records so far; protected by @ctx's socket lock */
	/* The last message was lost. Protected like @seq; for events by mpa_conns.queue.lock */
	bool			lost;
	struct rcu_head		rcu;
};

unsigned int mpa_conns_id __read_mostly;

const struct genl_family *mpa_conns_family __ro_after_init;

/* Enabled by the first tap, never disabled. Until then checks for taps cost nothing. */
DEFINE_STATIC_KEY_FALSE(mpa_tap_used);

/* Find a connection's tap. Context: under RCU, or mpa_conns.lock held. */
static struct mpa_tap *mpa_tap_of(const struct mpa_ctx *ctx)
{
	struct mpa_conns *conns = mpa_conns(sock_net(ctx->sk));
	struct mpa_tap *tap;

	list_for_each_entry_rcu(tap, &conns->taps, list,
				lockdep_is_held(&conns->lock))
		if (tap->ctx == ctx)
			return tap;
	return NULL;
}

/* Remove a tap, and free it after a grace period. Context: mpa_conns.lock held. */
static void mpa_tap_end(struct mpa_conns *conns, struct mpa_tap *tap)
{
	list_del_rcu(&tap->list);
	conns->nr_taps--;
	if (tap->ctx)
		WRITE_ONCE(tap->ctx->tapped, false);
	else
		WRITE_ONCE(conns->nr_joined, conns->nr_joined - 1);
	kfree_rcu(tap, rcu);
}

/*
 * Send records or events to @reader from now on. @ctx is NULL for events. Another call for the
 * same reader changes @octets.
 *
 * Context: any. With @ctx, mpa_tap_used is enabled, and the caller holds the RCU read lock under
 * which it found @ctx. Return: 0; -EBUSY: another socket has a tap on the connection; -ENOSPC:
 * MPA_TAPS_MAX or MPA_TAPS_EVENTS_MAX is reached; -ENOMEM; -ENOENT: the connection has just been
 * closed.
 */
int mpa_tap_set(struct net *net, struct mpa_ctx *ctx, struct sock *reader,
		u32 portid, u32 octets)
{
	struct mpa_tap *new = kzalloc(sizeof(*new), GFP_ATOMIC | __GFP_ACCOUNT);
	struct mpa_conns *conns = mpa_conns(net);
	struct mpa_tap *tap;
	int err = 0;

	if (!new)
		return -ENOMEM;
	spin_lock_bh(&conns->lock);
	list_for_each_entry(tap, &conns->taps, list) {
		if (tap->ctx != ctx || (!ctx && tap->reader != reader))
			continue;
		if (tap->reader == reader)
			WRITE_ONCE(tap->octets, octets);
		else
			err = -EBUSY;
		goto out;
	}
	if (ctx && !READ_ONCE(ctx->listed)) {
		err = -ENOENT;
		goto out;
	}
	if (conns->nr_taps >= MPA_TAPS_MAX ||
	    (!ctx && conns->nr_joined >= MPA_TAPS_EVENTS_MAX)) {
		err = -ENOSPC;
		goto out;
	}
	new->ctx = ctx;
	new->reader = reader;
	new->portid = portid;
	new->octets = octets;
	list_add_rcu(&new->list, &conns->taps);
	conns->nr_taps++;
	if (ctx)
		WRITE_ONCE(ctx->tapped, true);
	else
		WRITE_ONCE(conns->nr_joined, conns->nr_joined + 1);
	new = NULL;
out:
	spin_unlock_bh(&conns->lock);
	kfree(new);
	return err;
}

/* End the connection's tap, if any. Context: under RCU, or @ctx is no longer listed. */
void mpa_tap_clear(struct mpa_ctx *ctx)
{
	struct mpa_conns *conns = mpa_conns(sock_net(ctx->sk));
	struct mpa_tap *tap;

	if (!static_branch_unlikely(&mpa_tap_used))
		return;
	/* Test @tapped under the lock: another task may be adding a tap. */
	spin_lock_bh(&conns->lock);
	tap = ctx->tapped ? mpa_tap_of(ctx) : NULL;
	if (tap)
		mpa_tap_end(conns, tap);
	spin_unlock_bh(&conns->lock);
}

/*
 * End the taps of a closed netlink socket. Called by netlink's notifier. Another socket may
 * already have the port, so check SOCK_DEAD. Context: process.
 */
static int mpa_tap_released(struct notifier_block *block, unsigned long event,
			    void *arg)
{
	const struct netlink_notify *notify = arg;
	struct mpa_tap *tap, *next;
	struct mpa_conns *conns;

	if (event != NETLINK_URELEASE || notify->protocol != NETLINK_GENERIC)
		return NOTIFY_DONE;
	conns = mpa_conns(notify->net);
	spin_lock_bh(&conns->lock);
	list_for_each_entry_safe(tap, next, &conns->taps, list)
		if (tap->portid == notify->portid &&
		    sock_flag(tap->reader, SOCK_DEAD))
			mpa_tap_end(conns, tap);
	spin_unlock_bh(&conns->lock);
	return NOTIFY_DONE;
}

struct notifier_block mpa_tap_notifier = {
	.notifier_call = mpa_tap_released,
};

/*
 * End the taps that are left at module exit. These are taps for events, as a connection with a
 * tap holds a reference to the module.
 */
void mpa_tap_end_all(struct mpa_conns *conns)
{
	struct mpa_tap *tap, *next;

	list_for_each_entry_safe(tap, next, &conns->taps, list)
		mpa_tap_end(conns, tap);
}

/* ---- a record ---- */

struct mpa_tap_record {
	enum mpa_direction	direction;
	enum mpa_error		verdict;
	bool			placed;		/* delivered out of order */
	u64			position;	/* stream position of the FPDU */
	u32			len;		/* octets of the ULPDU; 0: not known */
};

static int mpa_tap_put(struct sk_buff *skb, const struct mpa_ctx *ctx, u32 seq,
		       const struct mpa_tap_record *record)
{
	if (nla_put_u64_64bit(skb, MPA_A_TAP_COOKIE, mpa_show_cookie(ctx->sk),
			      MPA_A_TAP_PAD) ||
	    nla_put_u32(skb, MPA_A_TAP_SEQ, seq) ||
	    nla_put_u32(skb, MPA_A_TAP_DIRECTION, record->direction) ||
	    nla_put_u64_64bit(skb, MPA_A_TAP_POSITION, record->position,
			      MPA_A_TAP_PAD) ||
	    (record->len && nla_put_u32(skb, MPA_A_TAP_LENGTH, record->len)) ||
	    (record->placed && nla_put_flag(skb, MPA_A_TAP_PLACED)) ||
	    (record->direction == MPA_DIRECTION_RX &&
	     nla_put_u32(skb, MPA_A_TAP_VERDICT, record->verdict)))
		return -EMSGSIZE;
	return 0;
}

/* Copy to *@to, and advance *@to. */
static int mpa_tap_copy(void *to, const u8 *data, u32 len)
{
	u8 **at = to;

	memcpy(*at, data, len);
	*at += len;
	return 0;
}

/*
 * Copy the first @n octets of the ULPDU to @to. Read a received record from @at. If @at is NULL,
 * the record is the last FPDU in ctx->tx.out.
 */
static int mpa_tap_octets(const struct mpa_ctx *ctx, struct mpa_cursor *at,
			  const struct mpa_fpdu *fpdu, u8 *to, u32 n)
{
	struct mpa_pick pick = { .copy = mpa_tap_copy, .to = &to };
	const struct mpa_txbuf *out = ctx->tx.out;
	u32 end = mpa_fpdu_offset(fpdu, n);

	if (at)
		return mpa_read_show(&ctx->rx, at, fpdu, 0, n, mpa_tap_copy, &to);
	mpa_pick_begin(&pick, fpdu, 0);
	while (pick.off < end) {
		const u8 *data;
		u32 len;

		data = mpa_txbuf_at(out, out->len - fpdu->len + pick.off, &len);
		mpa_pick_octets(&pick, data, min(len, end - pick.off));
	}
	return 0;
}

static bool mpa_tap_full(const struct sock *reader)
{
	return atomic_read(&reader->sk_rmem_alloc) >=
	       READ_ONCE(reader->sk_rcvbuf);
}

/* Count a lost message, and report the first loss in a row to the reader as ENOBUFS. */
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

/* Send @skb to the tap's reader. If the reader is being closed, netlink frees @skb later. */
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

/* Send an event to the namespace's taps for events. Context: conns->queue.lock held. */
void mpa_tap_event(struct mpa_conns *conns, struct sk_buff *skb)
{
	struct mpa_tap *tap;

	rcu_read_lock();
	list_for_each_entry_rcu(tap, &conns->taps, list)
		if (!tap->ctx)
			mpa_tap_send(tap, skb_clone(skb, GFP_ATOMIC));
	rcu_read_unlock();
}

/*
 * Build the message about a record. Context: under RCU, socket lock held. Return: the message;
 * NULL if there is no memory, or the octets cannot be read.
 */
static struct sk_buff *mpa_tap_build(const struct mpa_ctx *ctx,
				     const struct mpa_tap *tap,
				     const struct mpa_tap_record *record,
				     struct mpa_cursor *at,
				     const struct mpa_fpdu *fpdu)
{
	u32 octets = min(record->len, READ_ONCE(tap->octets));
	struct nlattr *data = NULL;
	struct sk_buff *skb;
	void *head;

	skb = genlmsg_new(MPA_TAP_SIZE + nla_total_size(octets),
			  GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	head = genlmsg_put(skb, 0, 0, mpa_conns_family, 0, MPA_CMD_RECORD_NTF);
	if (!head || mpa_tap_put(skb, ctx, tap->seq, record))
		goto failed;
	if (octets)
		data = nla_reserve(skb, MPA_A_TAP_DATA, octets);
	if (octets && (!data || mpa_tap_octets(ctx, at, fpdu, nla_data(data),
					       octets)))
		goto failed;
	genlmsg_end(skb, head);
	return skb;

failed:
	nlmsg_free(skb);
	return NULL;
}

/* Send a message about a record to the connection's tap, if there is one. */
static void mpa_tap_show(const struct mpa_ctx *ctx,
			 const struct mpa_tap_record *record,
			 struct mpa_cursor *at, const struct mpa_fpdu *fpdu)
{
	struct mpa_tap *tap;

	rcu_read_lock();
	tap = mpa_tap_of(ctx);
	if (tap) {
		tap->seq++;
		/* Copy nothing if the reader's buffer is full. */
		if (mpa_tap_full(tap->reader)) {
			atomic_inc(&tap->reader->sk_drops);
			mpa_tap_lost(tap, NULL);
		} else {
			mpa_tap_send(tap, mpa_tap_build(ctx, tap, record, at,
							fpdu));
		}
	}
	rcu_read_unlock();
}

/*
 * Report a sent record to the tap. Its FPDU was just built, and is the last one in ctx->tx.out.
 * Call this if mpa_tapped(), in process context with the socket lock held.
 */
void __mpa_tap_sent(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		    u64 position)
{
	const struct mpa_tap_record record = {
		.direction = MPA_DIRECTION_TX,
		.position = position, .len = fpdu->ulpdu_len,
	};

	mpa_tap_show(ctx, &record, NULL, fpdu);
}

/*
 * Report the current record, which begins at @at, to the tap. @fpdu is NULL if the record's
 * length is not valid. @verdict: MPA_ERR_NONE if the record is verified, or its error. Call this
 * if mpa_tapped(), with the socket lock held.
 */
void __mpa_tap_received(struct mpa_ctx *ctx, struct mpa_cursor *at,
			const struct mpa_fpdu *fpdu, enum mpa_error verdict)
{
	const struct mpa_tap_record record = {
		.direction = MPA_DIRECTION_RX, .verdict = verdict,
		.position = ctx->rx.cur.pos, .len = fpdu ? fpdu->ulpdu_len : 0,
	};

	mpa_tap_show(ctx, &record, at, fpdu);
}

/*
 * Report a record that is delivered out of order to the tap. Call this if mpa_tapped(), with the
 * socket lock held.
 */
void __mpa_tap_placed(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu)
{
	const struct mpa_tap_record record = {
		.direction = MPA_DIRECTION_RX, .placed = true,
		.position = mpa_rx_position(&ctx->rx, fpdu->pos),
		.len = fpdu->ulpdu_len,
	};
	struct mpa_cursor at;

	mpa_cursor_begin(&at, ctx->sk, ctx->rx.seq + fpdu->pos);
	mpa_tap_show(ctx, &record, &at, fpdu);
}
