// SPDX-License-Identifier: GPL-2.0
/* The sysctls net.mpa.* of a network namespace; admission to startup. */

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

/* Users share buckets by hash, and so do the ports of a user. */
#define MPA_BUCKET_USERS		8
#define MPA_BUCKET_PORTS		32
#define MPA_BUCKETS		(MPA_BUCKET_USERS * MPA_BUCKET_PORTS)

/* A connection is protected this long after its request has begun to arrive. */
#define MPA_REQUEST_TIME	(2 * HZ)

/**
 * struct mpa_bucket - responders in startup that share a user and a port, by
 *                     hash
 * @silent:	those that have received nothing, the oldest first
 * @begun:	those that have received a part of a request, in the order of
 *		their first octet
 * @n:		the number of both
 * @n_begun:	the number in @begun
 */
struct mpa_bucket {
	struct list_head silent;
	struct list_head begun;
	unsigned int n;
	unsigned int n_begun;
};

/**
 * struct mpa_policy - policy of one network namespace
 * @value:	the sysctls
 * @seed:	makes it unpredictable who shares a bucket
 * @lock:	for all following members and each struct mpa_admission; taken with
 *		socket locks held, and no socket lock is taken with it held
 * @initiators:	initiators in startup
 * @responders:	responders in startup
 * @evicted:	responders evicted so far
 * @per_user:	the number of responders, by user
 * @bucket:	and for each user by local port
 * @header:	of the sysctls
 */
struct mpa_policy {
	unsigned int value[MPA_POLICY_VALUES];
	u32 seed;
	spinlock_t lock; /* for all following members */
	unsigned int initiators;
	unsigned int responders;
	unsigned long evicted;
	unsigned int per_user[MPA_BUCKET_USERS];
	struct mpa_bucket bucket[MPA_BUCKETS];
	struct ctl_table_header *header;
};

static unsigned int mpa_policy_id __read_mostly;
static unsigned int mpa_timeout_least = 1;
static unsigned int mpa_timeout_most = MPA_POLICY_TIMEOUT_MS_MAX;

static struct mpa_policy *mpa_policy(const struct net *net)
{
	return net_generic(net, mpa_policy_id);
}

#define MPA_SYSCTL_SWITCH(name) {				\
		.procname	= name,				\
		.maxlen		= sizeof(unsigned int),		\
		.mode		= 0644,				\
		.proc_handler	= proc_douintvec_minmax,	\
		.extra1		= SYSCTL_ZERO,			\
		.extra2		= SYSCTL_ONE,			\
	}

static const struct ctl_table mpa_sysctls[] = {
	[MPA_POLICY_CRC_OPTIONAL] = MPA_SYSCTL_SWITCH("crc_optional"),
	[MPA_POLICY_TIMEOUT_MS] = {
		.procname	= "startup_timeout_ms",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= &mpa_timeout_least,
		.extra2		= &mpa_timeout_most,
	},
	[MPA_POLICY_STARTUP_MAX] = {
		.procname	= "startup_max",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
	[MPA_POLICY_MARKERS] = MPA_SYSCTL_SWITCH("markers"),
	[MPA_POLICY_PLACE] = MPA_SYSCTL_SWITCH("place"),
};

static_assert(ARRAY_SIZE(mpa_sysctls) == MPA_POLICY_VALUES);

static int __net_init mpa_policy_net_init(struct net *net)
{
	struct mpa_policy *policy = mpa_policy(net);
	struct ctl_table *table;
	unsigned int i;

	policy->value[MPA_POLICY_TIMEOUT_MS] = 10 * 1000;
	policy->value[MPA_POLICY_STARTUP_MAX] = 4096;
	policy->value[MPA_POLICY_PLACE] = 1;
	policy->seed = get_random_u32();
	spin_lock_init(&policy->lock);
	for (i = 0; i < MPA_BUCKETS; i++) {
		INIT_LIST_HEAD(&policy->bucket[i].silent);
		INIT_LIST_HEAD(&policy->bucket[i].begun);
	}

	/* Older kernels look for an empty entry after the last. */
	table = kcalloc(ARRAY_SIZE(mpa_sysctls) + 1, sizeof(*table),
			GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	memcpy(table, mpa_sysctls, sizeof(mpa_sysctls));
	for (i = 0; i < MPA_POLICY_VALUES; i++)
		table[i].data = &policy->value[i];

	policy->header = register_net_sysctl_sz(net, "net/mpa", table,
						ARRAY_SIZE(mpa_sysctls));
	if (!policy->header) {
		kfree(table);
		return -ENOMEM;
	}
	return 0;
}

static void __net_exit mpa_policy_net_exit(struct net *net)
{
	struct mpa_policy *policy = mpa_policy(net);
	const struct ctl_table *table = policy->header->ctl_table_arg;

	unregister_net_sysctl_table(policy->header);
	kfree(table);
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

u32 mpa_policy_get(const struct net *net, enum mpa_policy_value value)
{
	return READ_ONCE(mpa_policy(net)->value[value]);
}

/* Set a value; the caller has checked the range of @n. */
void mpa_policy_set(const struct net *net, enum mpa_policy_value value, u32 n)
{
	WRITE_ONCE(mpa_policy(net)->value[value], n);
}

/* RFC 5044 section 4.4 (2a): the administrator allows to omit CRCs. */
bool mpa_policy_crc_optional(const struct sock *sk)
{
	return mpa_policy_get(sock_net(sk), MPA_POLICY_CRC_OPTIONAL);
}

/* Whether all sockets request markers from their peers. */
bool mpa_policy_markers(const struct sock *sk)
{
	return mpa_policy_get(sock_net(sk), MPA_POLICY_MARKERS);
}

/* Whether records may be delivered out of order. */
bool mpa_policy_place(const struct sock *sk)
{
	return mpa_policy_get(sock_net(sk), MPA_POLICY_PLACE);
}

/* The longest time for the startup phase, in jiffies. */
unsigned long mpa_policy_timeout(const struct sock *sk)
{
	return msecs_to_jiffies(mpa_policy_get(sock_net(sk),
					       MPA_POLICY_TIMEOUT_MS));
}

/* ---- admission to startup ---- */

/* Kept by the caller: TCP may clear the port before the connection leaves. */
static u8 mpa_bucket_of(const struct mpa_policy *policy, const struct sock *sk)
{
	u32 port = jhash_1word(sk->sk_num, policy->seed);
	uid_t uid = __kuid_val(READ_ONCE(sk->sk_uid));
	u32 user = jhash_1word(uid, policy->seed);

	return user % MPA_BUCKET_USERS * MPA_BUCKET_PORTS + port % MPA_BUCKET_PORTS;
}

static struct mpa_bucket *mpa_bucket(struct mpa_policy *policy,
				     const struct mpa_admission *admission)
{
	return &policy->bucket[admission->bucket];
}

static void mpa_policy_leave(struct mpa_policy *policy,
			     struct mpa_admission *admission)
{
	switch (admission->as) {
	case MPA_ADMITTED_NOT:
		return;
	case MPA_ADMITTED_INITIATOR:
		policy->initiators--;
		break;
	default:
		list_del(&admission->list);
		mpa_bucket(policy, admission)->n--;
		if (admission->as == MPA_ADMITTED_BEGUN)
			mpa_bucket(policy, admission)->n_begun--;
		policy->per_user[admission->bucket / MPA_BUCKET_PORTS]--;
		policy->responders--;
	}
	WRITE_ONCE(admission->as, MPA_ADMITTED_NOT);
}

static struct mpa_admission *mpa_bucket_first(struct list_head *list)
{
	return list_first_entry_or_null(list, struct mpa_admission, list);
}

/*
 * The connection that has been silent for longest. A connection that has begun
 * its request is protected for as long as the rest may take, unless most have
 * begun.
 */
static struct mpa_admission *mpa_bucket_oldest(struct mpa_bucket *bucket)
{
	struct mpa_admission *silent = mpa_bucket_first(&bucket->silent);
	struct mpa_admission *begun = mpa_bucket_first(&bucket->begun);

	if (!silent || !begun)
		return silent ?: begun;
	if (time_after_eq(jiffies, begun->since + MPA_REQUEST_TIME) &&
	    time_before(begun->since, silent->since))
		return begun;
	return bucket->n_begun > bucket->n / 2 ? begun : silent;
}

/*
 * Evict a connection of the user with most connections in startup, at that
 * user's port with most of them. Its work item does the rest. There is nothing
 * to wait for: a context calls mpa_policy_leave_startup() before it ends.
 */
static void mpa_policy_evict(struct mpa_policy *policy)
{
	struct mpa_bucket *ports, *bucket;
	struct mpa_admission *oldest;
	unsigned int i, user = 0;

	for (i = 1; i < MPA_BUCKET_USERS; i++)
		if (policy->per_user[i] > policy->per_user[user])
			user = i;
	ports = &policy->bucket[user * MPA_BUCKET_PORTS];
	bucket = ports;
	for (i = 1; i < MPA_BUCKET_PORTS; i++)
		if (ports[i].n > bucket->n)
			bucket = &ports[i];
	oldest = mpa_bucket_oldest(bucket);
	if (!oldest)
		return;
	mpa_policy_leave(policy, oldest);
	policy->evicted++;
	oldest->notify(oldest->sk);
}

static bool mpa_policy_enter(struct mpa_policy *policy,
			     struct mpa_admission *admission, bool initiator)
{
	unsigned int most = READ_ONCE(policy->value[MPA_POLICY_STARTUP_MAX]);
	struct mpa_bucket *bucket;
	unsigned int i;

	if (initiator) {
		policy->initiators++;
		admission->as = MPA_ADMITTED_INITIATOR;
		return true;
	}
	if (!most)
		return false;
	/* Evict two for one until a lowered limit is met. */
	for (i = 0; i < 2 && policy->responders >= most; i++)
		mpa_policy_evict(policy);
	admission->bucket = mpa_bucket_of(policy, admission->sk);
	bucket = mpa_bucket(policy, admission);
	bucket->n++;
	policy->per_user[admission->bucket / MPA_BUCKET_PORTS]++;
	policy->responders++;
	admission->as = MPA_ADMITTED_SILENT;
	admission->since = jiffies;
	list_add_tail(&admission->list, &bucket->silent);
	return true;
}

/**
 * mpa_policy_enter_startup() - admit a connection to startup
 * @admission:	its place, until mpa_policy_leave_startup()
 * @sk:		its socket
 * @initiator:	it is an initiator, not a responder
 * @notify:	called when it is evicted, under a spinlock: must not sleep, nor
 *		take a socket lock. Never called after
 *		mpa_policy_leave_startup()
 *
 * Initiators are not limited: their program has opened them, and what it may
 * open bounds them, as it does those in connect(2). Responders wait for
 * unauthenticated peers: at the limit the one that has been silent for longest
 * is evicted.
 *
 * Context: any, socket lock held.
 * Return: false if it may not begin; then it is not counted.
 */
bool mpa_policy_enter_startup(struct mpa_admission *admission, struct sock *sk,
			      bool initiator, void (*notify)(struct sock *sk))
{
	struct mpa_policy *policy = mpa_policy(sock_net(sk));
	bool entered;

	admission->sk = sk;
	admission->notify = notify;
	spin_lock_bh(&policy->lock);
	entered = mpa_policy_enter(policy, admission, initiator);
	spin_unlock_bh(&policy->lock);
	return entered;
}

/* Octets have arrived during startup. Context: any, socket lock held. */
void mpa_policy_request_begun(struct mpa_admission *admission)
{
	struct mpa_policy *policy;

	/* An evicted connection must not be added again. */
	if (READ_ONCE(admission->as) != MPA_ADMITTED_SILENT)
		return;
	policy = mpa_policy(sock_net(admission->sk));
	spin_lock_bh(&policy->lock);
	if (admission->as == MPA_ADMITTED_SILENT) {
		WRITE_ONCE(admission->as, MPA_ADMITTED_BEGUN);
		admission->since = jiffies;
		list_move_tail(&admission->list,
			       &mpa_bucket(policy, admission)->begun);
		mpa_bucket(policy, admission)->n_begun++;
	}
	spin_unlock_bh(&policy->lock);
}

/*
 * Undo mpa_policy_enter_startup(), if it was ever called. Then nothing here
 * touches the context, or queues its work item, until it enters again. Context:
 * any, socket lock held.
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
 * Count connections in startup, and evicted ones so far. Both numbers are of
 * one moment: a connection that is evicted is in one of them. Context: process.
 */
void mpa_policy_startups(const struct net *net, unsigned int *now,
			 unsigned long *evicted)
{
	struct mpa_policy *policy = mpa_policy(net);

	spin_lock_bh(&policy->lock);
	*now = policy->initiators + policy->responders;
	*evicted = policy->evicted;
	spin_unlock_bh(&policy->lock);
}
