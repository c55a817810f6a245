/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Floor 0: what belongs to a network namespace. Its administrator's sysctls, the
 * connections in startup, and counters.
 */
#ifndef _MPA_NET_H
#define _MPA_NET_H

#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/types.h>
#include <net/netns/generic.h>
#include <net/sock.h>

/* ---- sysctls, and who may be in startup: mpa_policy.c ---- */

/**
 * enum mpa_admitted - what a connection in startup counts as
 * @MPA_ADMITTED_NOT:	nothing: it is not in startup
 * @MPA_ADMITTED_INITIATOR: an initiator
 * @MPA_ADMITTED_SILENT: a responder that has received nothing
 * @MPA_ADMITTED_BEGUN: a responder that has received a part of a request
 */
enum mpa_admitted {
	MPA_ADMITTED_NOT,
	MPA_ADMITTED_INITIATOR,
	MPA_ADMITTED_SILENT,
	MPA_ADMITTED_BEGUN
};

/**
 * struct mpa_admission - a connection's place among those in startup
 * @list:	with others of its kind at its port, the oldest first
 * @sk:		its socket; NULL: never admitted
 * @notify:	called when @ousted has been set, with a spinlock held
 * @since:	jiffies when it became what @as says
 * @as:		enum mpa_admitted
 * @bucket:	which of mpa_policy.c's buckets it counts in
 * @ousted:	another connection has got its place
 *
 * Its lock is in mpa_policy.c.
 */
struct mpa_admission {
	struct list_head	list;
	struct sock		*sk;
	void			(*notify)(struct sock *sk);
	unsigned long		since;
	u8			as;
	u8			bucket;
	bool			ousted;
};

int mpa_policy_init(void);
void mpa_policy_exit(void);
bool mpa_policy_crc_optional(const struct sock *sk);
unsigned long mpa_policy_timeout(const struct sock *sk);
bool mpa_policy_enter_startup(struct mpa_admission *admission, struct sock *sk,
			      bool initiator,
			      void (*notify)(struct sock *sk));
void mpa_policy_heard(struct mpa_admission *admission);
void mpa_policy_leave_startup(struct mpa_admission *admission);
void mpa_policy_startups(const struct net *net, unsigned int *now,
			 unsigned long *ousted);

/* ---- counters: mpa_stat.c ---- */

/**
 * enum mpa_cut - why a segment starts elsewhere than with an FPDU
 * @MPA_CUT_NOT:	it does start with one
 * @MPA_CUT_OVERSIZED:	its FPDU is larger than EMSS
 * @MPA_CUT_WINDOW:	TCP has cut one at the edge of the peer's receive
 *			window, or to probe it
 * @MPA_CUT_OTHER:	EMSS has changed, or something else
 * @MPA_CUTS:		how many there are
 */
enum mpa_cut {
	MPA_CUT_NOT,
	MPA_CUT_OVERSIZED,
	MPA_CUT_WINDOW,
	MPA_CUT_OTHER,
	MPA_CUTS
};

enum mpa_mib_field {
	MPA_MIB_TX_PACKETS,
	MPA_MIB_TX_SEGS,		/* and on, as enum mpa_cut */
	MPA_MIB_MAX = MPA_MIB_TX_SEGS + MPA_CUTS,
};

/* Counters of one processor. */
struct mpa_mib {
	unsigned long mibs[MPA_MIB_MAX];
};

/* Counters of a network namespace. */
struct mpa_stat {
	struct mpa_mib __percpu *mib;
};

extern unsigned int mpa_stat_id;

int mpa_stat_init(void);
void mpa_stat_exit(void);

/**
 * mpa_stat_sent() - count a packet handed to IP
 * @sk:		socket
 * @aligned:	segments of it that start with an FPDU
 * @unaligned:	the others
 * @cut:	why those do not
 *
 * Context: any.
 */
static inline void mpa_stat_sent(const struct sock *sk, u32 aligned, u32 unaligned,
				 enum mpa_cut cut)
{
	struct mpa_stat *stat = net_generic(sock_net(sk), mpa_stat_id);

	this_cpu_inc(stat->mib->mibs[MPA_MIB_TX_PACKETS]);
	this_cpu_add(stat->mib->mibs[MPA_MIB_TX_SEGS], aligned);
	if (unaligned)
		this_cpu_add(stat->mib->mibs[MPA_MIB_TX_SEGS + cut], unaligned);
}

#endif /* _MPA_NET_H */
