/* SPDX-License-Identifier: GPL-2.0 */
/* Common (layer 0): a network namespace's sysctls, connections in startup and counters. */
#ifndef _MPA_NET_H
#define _MPA_NET_H

#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <net/netns/generic.h>
#include <net/snmp.h>
#include <net/sock.h>
#include <uapi/linux/mpa.h>
#include <uapi/linux/mpa_netlink.h>

/* ---- policy and admission to startup: mpa_policy.c ---- */

struct mpa_bucket;

/**
 * struct mpa_admission - a connection's place among those in startup
 * @list:	entry in the list of @bucket, the oldest first
 * @bucket:	counts the connection; NULL: not in startup
 * @sk:		the connection's socket; NULL: never admitted
 * @notify:	called when the connection is evicted, under the lock of
 *		mpa_policy.c, which also protects this struct
 */
struct mpa_admission {
	struct list_head	list;
	struct mpa_bucket	*bucket;
	struct sock		*sk;
	void			(*notify)(struct sock *sk);
};

#define MPA_POLICY_TIMEOUT_MS_MAX	(3600 * 1000)

int mpa_policy_init(void);
void mpa_policy_exit(void);
u32 mpa_policy_get(const struct net *net, int attr);
void mpa_policy_set(const struct net *net, int attr, u32 n);
bool mpa_policy_enter_startup(struct mpa_admission *admission, struct sock *sk,
			      bool initiator,
			      void (*notify)(struct sock *sk));
void mpa_policy_leave_startup(struct mpa_admission *admission);
void mpa_policy_startups(const struct net *net, unsigned int *now,
			 unsigned long *evicted);

/* ---- counters: mpa_stat.c ---- */

/**
 * enum mpa_cut - why a segment does not start with an FPDU
 * @MPA_CUT_NOT:	it starts with an FPDU
 * @MPA_CUT_OVERSIZED:	its FPDU is larger than EMSS
 * @MPA_CUT_WINDOW:	TCP cut an FPDU at the edge of the window, or to probe it
 * @MPA_CUT_OTHER:	EMSS has changed, or another reason
 * @MPA_CUTS:	the number of values
 */
enum mpa_cut {
	MPA_CUT_NOT,
	MPA_CUT_OVERSIZED,
	MPA_CUT_WINDOW,
	MPA_CUT_OTHER,
	MPA_CUTS
};

/* Counters in /proc/net/mpa_stat: Documentation/networking/mpa/administration.rst. */
#define MPA_MIB_KINDS	(MPA_ROLE_DIRECT + 1)

enum mpa_mib_field {
	/*
	 * Connections in Full Operation, and in total: one counter for each enum
	 * mpa_role, then one for TUF.
	 */
	MPA_MIB_CURR,
	MPA_MIB_TOTAL = MPA_MIB_CURR + MPA_MIB_KINDS,
	/* Failed startups, one counter for each enum mpa_refusal. */
	MPA_MIB_REFUSED = MPA_MIB_TOTAL + MPA_MIB_KINDS,
	MPA_MIB_TX_FPDUS = MPA_MIB_REFUSED + MPA_REFUSAL_LOCAL,
	MPA_MIB_TX_OCTETS,
	MPA_MIB_TX_MARKERS,
	MPA_MIB_TX_FAILED,
	MPA_MIB_TX_PACKETS,
	MPA_MIB_TX_SEGS,		/* one for each enum mpa_cut */
	MPA_MIB_RX_FPDUS = MPA_MIB_TX_SEGS + MPA_CUTS,
	MPA_MIB_RX_OCTETS,
	MPA_MIB_RX_MARKERS,
	/* Failures of receiving, one counter for each enum mpa_error. */
	MPA_MIB_RX_FAILED,
	MPA_MIB_RX_PLACED = MPA_MIB_RX_FAILED + MPA_ERR_RTR,
	MPA_MIB_RX_PRUNED,
	MPA_MIB_RX_STASHED,
	MPA_MIB_LOST,
	MPA_MIB_TIMED_OUT,
	MPA_MIB_EVENTS_LOST,
	MPA_MIB_RECORDS_LOST,
	MPA_MIB_TUF_RESEGMENTED,
	MPA_MIB_TUF_TRIMMED,
	MPA_MIB_MAX
};

struct mpa_mib {
	unsigned long mibs[MPA_MIB_MAX];
};

struct mpa_stat {
	DEFINE_SNMP_STAT(struct mpa_mib, mib);
};

extern unsigned int mpa_stat_id;

/* Counters for connections whose namespace is gone. */
DECLARE_PER_CPU(struct mpa_mib, mpa_mib_nowhere);

int mpa_stat_init(void);
void mpa_stat_exit(void);

/*
 * Return a namespace's counters. A connection keeps the pointer: a look-up costs more
 * than counting.
 */
static inline struct mpa_mib __percpu *mpa_stat_mib(const struct net *net)
{
	struct mpa_stat *stat = net_generic(net, mpa_stat_id);

	return stat->mib;
}

/* Count the segments of a packet passed to IP. @cut: why @unaligned is not 0. */
static inline void mpa_stat_sent(struct mpa_mib __percpu *mib, u32 aligned,
				 u32 unaligned, enum mpa_cut cut)
{
	SNMP_INC_STATS(mib, MPA_MIB_TX_PACKETS);
	SNMP_ADD_STATS(mib, MPA_MIB_TX_SEGS, aligned);
	if (unaligned)
		SNMP_ADD_STATS(mib, MPA_MIB_TX_SEGS + cut, unaligned);
}

/*
 * Count FPDUs to send (@first: MPA_MIB_TX_FPDUS), or FPDUs that were verified and read
 * completely (MPA_MIB_RX_FPDUS). @octets: total length of their ULPDUs.
 */
static __always_inline void
mpa_stat_fpdus(struct mpa_mib __percpu *mib, enum mpa_mib_field first,
	       u32 fpdus, u32 octets, u32 markers)
{
	SNMP_ADD_STATS(mib, first, fpdus);
	SNMP_ADD_STATS(mib, first + 1, octets);
	if (markers)
		SNMP_ADD_STATS(mib, first + 2, markers);
}

#endif /* _MPA_NET_H */
