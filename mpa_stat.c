// SPDX-License-Identifier: GPL-2.0
/* /proc/net/mpa_stat: counters of a network namespace. Defines the tracepoints. */

#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "mpa_net.h"
#include "mpa_pages.h"

#define CREATE_TRACE_POINTS
#include <trace/events/mpa.h>

#define MPA_MIB_REFUSED_ITEM(name, why) \
	SNMP_MIB_ITEM(name, MPA_MIB_REFUSED + MPA_REFUSAL_ ## why - 1)
#define MPA_MIB_FAILED_ITEM(name, code) \
	SNMP_MIB_ITEM(name, MPA_MIB_RX_FAILED + MPA_ERR_ ## code - 1)

static const struct snmp_mib mpa_mib_list[] = {
	SNMP_MIB_ITEM("MpaCurrInitiators", MPA_MIB_CURR),
	SNMP_MIB_ITEM("MpaCurrResponders", MPA_MIB_CURR + 1),
	SNMP_MIB_ITEM("MpaCurrDirect", MPA_MIB_CURR + 2),
	SNMP_MIB_ITEM("MpaCurrTuf", MPA_MIB_CURR + 3),
	SNMP_MIB_ITEM("MpaInitiators", MPA_MIB_TOTAL),
	SNMP_MIB_ITEM("MpaResponders", MPA_MIB_TOTAL + 1),
	SNMP_MIB_ITEM("MpaDirect", MPA_MIB_TOTAL + 2),
	SNMP_MIB_ITEM("MpaTuf", MPA_MIB_TOTAL + 3),
	MPA_MIB_REFUSED_ITEM("MpaRefusedByPeer", BY_PEER),
	MPA_MIB_REFUSED_ITEM("MpaRefusedByUser", BY_USER),
	MPA_MIB_REFUSED_ITEM("MpaRefusedMalformed", MALFORMED),
	MPA_MIB_REFUSED_ITEM("MpaRefusedTimeout", TIMEOUT),
	MPA_MIB_REFUSED_ITEM("MpaRefusedLost", LOST),
	MPA_MIB_REFUSED_ITEM("MpaRefusedOusted", OUSTED),
	MPA_MIB_REFUSED_ITEM("MpaRefusedLimit", LIMIT),
	MPA_MIB_REFUSED_ITEM("MpaRefusedGivenUp", GIVEN_UP),
	MPA_MIB_REFUSED_ITEM("MpaRefusedLocal", LOCAL),
	SNMP_MIB_ITEM("MpaTxFpdus", MPA_MIB_TX_FPDUS),
	SNMP_MIB_ITEM("MpaTxOctets", MPA_MIB_TX_OCTETS),
	SNMP_MIB_ITEM("MpaTxMarkers", MPA_MIB_TX_MARKERS),
	SNMP_MIB_ITEM("MpaTxFailed", MPA_MIB_TX_FAILED),
	SNMP_MIB_ITEM("MpaTxPackets", MPA_MIB_TX_PACKETS),
	SNMP_MIB_ITEM("MpaTxSegsAligned", MPA_MIB_TX_SEGS + MPA_CUT_NOT),
	SNMP_MIB_ITEM("MpaTxSegsOversized",
		      MPA_MIB_TX_SEGS + MPA_CUT_OVERSIZED),
	SNMP_MIB_ITEM("MpaTxSegsWindow", MPA_MIB_TX_SEGS + MPA_CUT_WINDOW),
	SNMP_MIB_ITEM("MpaTxSegsOther", MPA_MIB_TX_SEGS + MPA_CUT_OTHER),
	SNMP_MIB_ITEM("MpaRxFpdus", MPA_MIB_RX_FPDUS),
	SNMP_MIB_ITEM("MpaRxOctets", MPA_MIB_RX_OCTETS),
	SNMP_MIB_ITEM("MpaRxMarkers", MPA_MIB_RX_MARKERS),
	MPA_MIB_FAILED_ITEM("MpaRxIncomplete", TCP),
	MPA_MIB_FAILED_ITEM("MpaRxBadCrc", CRC),
	MPA_MIB_FAILED_ITEM("MpaRxBadMarker", MARKER),
	MPA_MIB_FAILED_ITEM("MpaRxFailedLocal", LOCAL),
	MPA_MIB_FAILED_ITEM("MpaDepthRefused", IRD),
	MPA_MIB_FAILED_ITEM("MpaRtrRefused", RTR),
	SNMP_MIB_ITEM("MpaRxPlaced", MPA_MIB_RX_PLACED),
	SNMP_MIB_ITEM("MpaRxPruned", MPA_MIB_RX_PRUNED),
	SNMP_MIB_ITEM("MpaRxStashed", MPA_MIB_RX_STASHED),
	SNMP_MIB_ITEM("MpaLost", MPA_MIB_LOST),
	SNMP_MIB_ITEM("MpaTimedOut", MPA_MIB_TIMED_OUT),
	SNMP_MIB_ITEM("MpaEventsLost", MPA_MIB_EVENTS_LOST),
	SNMP_MIB_ITEM("MpaRecordsLost", MPA_MIB_RECORDS_LOST),
	SNMP_MIB_ITEM("MpaTufResegmented", MPA_MIB_TUF_RESEGMENTED),
	SNMP_MIB_ITEM("MpaTufTrimmed", MPA_MIB_TUF_TRIMMED),
};

unsigned int mpa_stat_id __read_mostly;

DEFINE_PER_CPU(struct mpa_mib, mpa_mib_nowhere);

static int mpa_stat_show(struct seq_file *seq, void *v)
{
	struct net *net = seq->private;
	struct mpa_mib __percpu *mib = mpa_stat_mib(net);
	unsigned int i, in_startup;
	unsigned long evicted;
	int cpu;

	for (i = 0; i < ARRAY_SIZE(mpa_mib_list); i++) {
		const int field = mpa_mib_list[i].entry;
		long sum = 0;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu_ptr(mib, cpu)->mibs[field]);
		/* The sum may be below 0 while processors change a gauge. */
		if (field < MPA_MIB_TOTAL)
			sum = max(sum, 0L);
		seq_printf(seq, "%-32s\t%lu\n", mpa_mib_list[i].name, sum);
	}
	mpa_policy_startups(net, &in_startup, &evicted);
	seq_printf(seq, "%-32s\t%u\n", "MpaInStartup", in_startup);
	seq_printf(seq, "%-32s\t%lu\n", "MpaStartupOusted", evicted);
	/* MpaMemKept is of the whole system, like TCP's "mem" in /proc/net/sockstat. */
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
	struct mpa_mib __percpu *mib = stat->mib;

	remove_proc_entry("mpa_stat", net->proc_net);
	WRITE_ONCE(stat->mib, &mpa_mib_nowhere);
	free_percpu(mib);
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
