// SPDX-License-Identifier: GPL-2.0
/* Counters of a network namespace: /proc/net/mpa_stat. */

#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "mpa_net.h"
#include "mpa_pages.h"

static const char * const mpa_mib_names[] = {
	[MPA_MIB_TX_PACKETS] = "MpaTxPackets",
	[MPA_MIB_TX_SEGS + MPA_CUT_NOT] = "MpaTxSegsAligned",
	[MPA_MIB_TX_SEGS + MPA_CUT_OVERSIZED] = "MpaTxSegsOversized",
	[MPA_MIB_TX_SEGS + MPA_CUT_WINDOW] = "MpaTxSegsWindow",
	[MPA_MIB_TX_SEGS + MPA_CUT_OTHER] = "MpaTxSegsOther",
};

unsigned int mpa_stat_id __read_mostly;

static int mpa_stat_show(struct seq_file *seq, void *v)
{
	struct net *net = seq->private;
	struct mpa_stat *stat = net_generic(net, mpa_stat_id);
	unsigned int i, in_startup;
	unsigned long ousted;

	for (i = 0; i < MPA_MIB_MAX; i++) {
		unsigned long sum = 0;
		int cpu;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu_ptr(stat->mib, cpu)->mibs[i]);
		seq_printf(seq, "%-32s\t%lu\n", mpa_mib_names[i], sum);
	}
	mpa_policy_startups(net, &in_startup, &ousted);
	seq_printf(seq, "%-32s\t%u\n", "MpaInStartup", in_startup);
	seq_printf(seq, "%-32s\t%lu\n", "MpaStartupOusted", ousted);
	/* For the whole system, as TCP's "mem" in /proc/net/sockstat. */
	seq_printf(seq, "%-32s\t%lu\n", "MpaMemKept", mpa_pages_held());
	return 0;
}

static int __net_init mpa_stat_net_init(struct net *net)
{
	struct mpa_stat *stat = net_generic(net, mpa_stat_id);

	stat->mib = alloc_percpu(struct mpa_mib);
	if (!stat->mib)
		return -ENOMEM;
	if (!proc_create_net_single("mpa_stat", 0444, net->proc_net,
				    mpa_stat_show, NULL)) {
		free_percpu(stat->mib);
		return -ENOMEM;
	}
	return 0;
}

static void __net_exit mpa_stat_net_exit(struct net *net)
{
	struct mpa_stat *stat = net_generic(net, mpa_stat_id);

	remove_proc_entry("mpa_stat", net->proc_net);
	free_percpu(stat->mib);
}

static struct pernet_operations mpa_stat_ops = {
	.init	= mpa_stat_net_init,
	.exit	= mpa_stat_net_exit,
	.id	= &mpa_stat_id,
	.size	= sizeof(struct mpa_stat),
};

int mpa_stat_init(void)
{
	return register_pernet_subsys(&mpa_stat_ops);
}

void mpa_stat_exit(void)
{
	unregister_pernet_subsys(&mpa_stat_ops);
}
