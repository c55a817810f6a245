// SPDX-License-Identifier: GPL-2.0
/* What the administrator of a network namespace decides: net.mpa.* */

#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "mpa.h"

/**
 * struct mpa_policy - of one network namespace
 * @crc_optional: connections may do without CRCs if both peers want to
 * @startup_timeout_ms: longest time that the startup phase may take
 * @startup_max: connections in the startup phase, at most
 * @in_startup:	how many are
 * @header:	of the sysctls
 */
struct mpa_policy {
	unsigned int crc_optional;
	unsigned int startup_timeout_ms;
	unsigned int startup_max;
	atomic_t in_startup;
	struct ctl_table_header *header;
};

static unsigned int mpa_policy_id __read_mostly;
static unsigned int mpa_timeout_least = 1;
static unsigned int mpa_timeout_most = 3600 * 1000;

static struct mpa_policy *mpa_policy(const struct net *net)
{
	return net_generic(net, mpa_policy_id);
}

static const struct ctl_table mpa_sysctls[] = {
	{
		.procname	= "crc_optional",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
	{
		.procname	= "startup_timeout_ms",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= &mpa_timeout_least,
		.extra2		= &mpa_timeout_most,
	},
	{
		.procname	= "startup_max",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
};

static int __net_init mpa_policy_net_init(struct net *net)
{
	struct mpa_policy *policy = mpa_policy(net);
	struct ctl_table *table;

	policy->startup_timeout_ms = 10 * 1000;
	policy->startup_max = 4096;

	/* Older kernels look for an empty entry behind the last. */
	table = kcalloc(ARRAY_SIZE(mpa_sysctls) + 1, sizeof(*table),
			GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	memcpy(table, mpa_sysctls, sizeof(mpa_sysctls));
	table[0].data = &policy->crc_optional;
	table[1].data = &policy->startup_timeout_ms;
	table[2].data = &policy->startup_max;

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

/**
 * mpa_policy_crc_optional() - RFC 5044 section 4.4 (2a): the administrator has
 *			       allowed connections without CRCs
 * @sk:	socket, for its namespace
 */
bool mpa_policy_crc_optional(const struct sock *sk)
{
	return READ_ONCE(mpa_policy(sock_net(sk))->crc_optional);
}

/**
 * mpa_policy_timeout() - longest time for the startup phase
 * @sk:	socket, for its namespace
 *
 * Return: jiffies.
 */
unsigned long mpa_policy_timeout(const struct sock *sk)
{
	struct mpa_policy *policy = mpa_policy(sock_net(sk));

	return msecs_to_jiffies(READ_ONCE(policy->startup_timeout_ms));
}

/**
 * mpa_policy_enter_startup() - count a connection that begins its startup
 * @sk:	socket, for its namespace
 *
 * Context: any.
 * Return: false when there are too many; then it is not counted.
 */
bool mpa_policy_enter_startup(const struct sock *sk)
{
	struct mpa_policy *policy = mpa_policy(sock_net(sk));
	unsigned int most = READ_ONCE(policy->startup_max);

	if ((unsigned int)atomic_inc_return(&policy->in_startup) <= most)
		return true;
	atomic_dec(&policy->in_startup);
	return false;
}

/**
 * mpa_policy_leave_startup() - undo mpa_policy_enter_startup()
 * @sk:	socket, for its namespace
 *
 * Context: any.
 */
void mpa_policy_leave_startup(const struct sock *sk)
{
	atomic_dec(&mpa_policy(sock_net(sk))->in_startup);
}
