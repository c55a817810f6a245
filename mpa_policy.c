// SPDX-License-Identifier: GPL-2.0
/* The policy of a network namespace, net.mpa.*; admission to startup. */

#include <linux/jhash.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/sock.h>

#include "compat.h"
#include "mpa_net.h"

/* Number of hash lists of buckets. */
#define MPA_BUCKETS		512

/**
 * struct mpa_bucket - connections of one user and port that are in startup
 * @node:	entry in a list of mpa_policy.ports
 * @uid:	the user
 * @port:	the port
 * @list:	the connections, the oldest first
 * @n:		number of connections
 */
struct mpa_bucket {
	struct hlist_node node;
	kuid_t uid;
	u16 port;
	struct list_head list;
	unsigned int n;
};

/* Indexed by netlink attribute. sysctl and netlink use the same values. */
static const struct {
	const char *name;
	unsigned int least, most, initial;
} mpa_policy_values[] = {
	[MPA_A_POLICY_CRC_OPTIONAL] = { "crc_optional", 0, 1, 0 },
	[MPA_A_POLICY_STARTUP_TIMEOUT_MS] = {
		"startup_timeout_ms", 1, MPA_POLICY_TIMEOUT_MS_MAX, 10 * 1000
	},
	[MPA_A_POLICY_STARTUP_MAX] = { "startup_max", 0, UINT_MAX, 4096 },
	[MPA_A_POLICY_MARKERS] = { "markers", 0, 1, 0 },
	[MPA_A_POLICY_PLACE] = { "place", 0, 1, 1 },
};

static_assert(ARRAY_SIZE(mpa_policy_values) == MPA_A_POLICY_MAX + 1);

/**
 * struct mpa_policy - policy of one network namespace
 * @value:	the values, by netlink attribute
 * @sysctl:	a sysctl for each value; older kernels need an empty last entry
 * @header:	registration of the sysctls
 * @seed:	makes it unpredictable which ports share a list
 * @lock:	for the members below and each struct mpa_admission; taken with
 *		socket locks held, so do not take a socket lock under it
 * @starting:	number of connections in startup
 * @evicted:	number of responders evicted so far
 * @unlimited:	initiators in startup; also responders if their bucket cannot be
 *		allocated
 * @ports:	buckets of responders in startup, by hash of user and port
 */
struct mpa_policy {
	unsigned int value[MPA_A_POLICY_MAX + 1];
	struct ctl_table sysctl[MPA_A_POLICY_MAX + 1];
	struct ctl_table_header *header;
	u32 seed;
	spinlock_t lock; /* for all following members */
	unsigned int starting;
	unsigned long evicted;
	struct mpa_bucket unlimited;
	struct hlist_head ports[MPA_BUCKETS];
};

static unsigned int mpa_policy_id __read_mostly;

static struct mpa_policy *mpa_policy(const struct net *net)
{
	return net_generic(net, mpa_policy_id);
}

static int __net_init mpa_policy_net_init(struct net *net)
{
	struct mpa_policy *policy = mpa_policy(net);
	unsigned int i;

	policy->seed = get_random_u32();
	spin_lock_init(&policy->lock);
	INIT_LIST_HEAD(&policy->unlimited.list);

	for (i = 1; i <= MPA_A_POLICY_MAX; i++) {
		policy->value[i] = mpa_policy_values[i].initial;
		policy->sysctl[i - 1] = (struct ctl_table){
			.procname	= mpa_policy_values[i].name,
			.data		= &policy->value[i],
			.maxlen		= sizeof(policy->value[i]),
			.mode		= 0644,
			.proc_handler	= proc_douintvec_minmax,
			.extra1		= (void *)&mpa_policy_values[i].least,
			.extra2		= (void *)&mpa_policy_values[i].most,
		};
	}
	policy->header = register_net_sysctl_sz(net, "net/mpa", policy->sysctl,
						MPA_A_POLICY_MAX);
	return policy->header ? 0 : -ENOMEM;
}

static void __net_exit mpa_policy_net_exit(struct net *net)
{
	unregister_net_sysctl_table(mpa_policy(net)->header);
}

static struct pernet_operations mpa_policy_ops = {
	.init	= mpa_policy_net_init,
	.exit	= mpa_policy_net_exit,
	.id	= &mpa_policy_id,
	.size	= sizeof(struct mpa_policy),
};

int __init mpa_policy_init(void)
{
	return register_pernet_subsys(&mpa_policy_ops);
}

void mpa_policy_exit(void)
{
	unregister_pernet_subsys(&mpa_policy_ops);
}

u32 mpa_policy_get(const struct net *net, int attr)
{
	return READ_ONCE(mpa_policy(net)->value[attr]);
}

/* Set a value; the caller has checked the range of @n. */
void mpa_policy_set(const struct net *net, int attr, u32 n)
{
	WRITE_ONCE(mpa_policy(net)->value[attr], n);
}

/* ---- admission to startup ---- */

/* Find or allocate the bucket of a responder. Without memory use @unlimited. */
static struct mpa_bucket *mpa_bucket(struct mpa_policy *policy, struct sock *sk)
{
	kuid_t uid = READ_ONCE(sk->sk_uid);
	struct mpa_bucket *bucket;
	struct hlist_head *list;
	u16 port = sk->sk_num;

	list = &policy->ports[jhash_2words(__kuid_val(uid), port, policy->seed) %
			      MPA_BUCKETS];
	hlist_for_each_entry(bucket, list, node)
		if (uid_eq(bucket->uid, uid) && bucket->port == port)
			return bucket;
	bucket = kzalloc(sizeof(*bucket), GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT);
	if (!bucket)
		return &policy->unlimited;
	bucket->uid = uid;
	bucket->port = port;
	INIT_LIST_HEAD(&bucket->list);
	hlist_add_head(&bucket->node, list);
	return bucket;
}

static void mpa_policy_leave(struct mpa_policy *policy,
			     struct mpa_admission *admission)
{
	struct mpa_bucket *bucket = admission->bucket;

	if (!bucket)
		return;
	list_del(&admission->list);
	admission->bucket = NULL;
	policy->starting--;
	if (--bucket->n || bucket == &policy->unlimited)
		return;
	hlist_del(&bucket->node);
	kfree(bucket);
}

/*
 * Evict the connection that has waited longest. Its work item does the rest. No
 * reference to the socket is needed: it stays until mpa_policy_leave_startup() returns.
 */
static void mpa_policy_evict(struct mpa_policy *policy, struct mpa_bucket *bucket)
{
	struct mpa_admission *oldest;

	oldest = list_first_entry(&bucket->list, struct mpa_admission, list);
	mpa_policy_leave(policy, oldest);
	policy->evicted++;
	oldest->notify(oldest->sk);
}

/*
 * Admit a connection to startup. @admission is all zero at first. @notify is called
 * when the connection is evicted, under a spinlock: it must not sleep, nor take a
 * socket lock. @notify is never called after mpa_policy_leave_startup().
 *
 * Initiators are not limited here: their program's own limits apply, as in connect(2).
 * Responders wait for unauthenticated peers: at the limit of a port the responder that
 * has waited longest is evicted. Most likely its peer is silent: a request fits a
 * segment, so a peer has usually sent all of it, or nothing.
 *
 * Context: any, socket lock held. Return: whether the connection may begin startup. If
 * not, it is not counted.
 */
bool mpa_policy_enter_startup(struct mpa_admission *admission, struct sock *sk,
			      bool initiator, void (*notify)(struct sock *sk))
{
	unsigned int most = mpa_policy_get(sock_net(sk), MPA_A_POLICY_STARTUP_MAX);
	struct mpa_policy *policy = mpa_policy(sock_net(sk));
	struct mpa_bucket *bucket;
	int i;

	if (!initiator && !most)
		return false;
	admission->sk = sk;
	admission->notify = notify;
	spin_lock_bh(&policy->lock);
	bucket = initiator ? &policy->unlimited : mpa_bucket(policy, sk);
	/* Remember the bucket: TCP may clear the port before the connection leaves. */
	admission->bucket = bucket;
	list_add_tail(&admission->list, &bucket->list);
	bucket->n++;
	policy->starting++;
	/* Evict up to two, as the limit may have been lowered; never the new connection. */
	for (i = 0; i < 2 && bucket != &policy->unlimited && bucket->n > most; i++)
		mpa_policy_evict(policy, bucket);
	spin_unlock_bh(&policy->lock);
	return true;
}

/*
 * Undo mpa_policy_enter_startup(), if it was called. From then on @admission->notify is
 * not called. Context: any, socket lock held.
 */
void mpa_policy_leave_startup(struct mpa_admission *admission)
{
	struct mpa_policy *policy;

	if (!admission->sk)
		return;
	policy = mpa_policy(sock_net(admission->sk));
	spin_lock_bh(&policy->lock);
	mpa_policy_leave(policy, admission);
	spin_unlock_bh(&policy->lock);
}

/*
 * Count connections in startup, and connections evicted so far. Both are read under the
 * lock, so that a connection is counted in exactly one of them. Context: process.
 */
void mpa_policy_startups(const struct net *net, unsigned int *now,
			 unsigned long *evicted)
{
	struct mpa_policy *policy = mpa_policy(net);

	spin_lock_bh(&policy->lock);
	*now = policy->starting;
	*evicted = policy->evicted;
	spin_unlock_bh(&policy->lock);
}
