/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The connection: the context that layers 2 and 3 share, its locks and its
 * lifetime. Layer 2 includes this file; mpa_sock.h adds what layer 3 needs.
 *
 * Words
 * -----
 * record	a ULPDU and its FPDU
 * position	stream position: octets from the start of a direction's first
 *		FPDU
 * span		contiguous octets in memory
 * slot		the place of the next FPDU in a segment
 * batch	FPDUs of several calls that are sent together
 * queued	FPDUs of a batch that wait for the rest of it
 * placed	records delivered out of order, while earlier octets are missing
 * run		contiguous FPDUs after a gap
 * stash	the first octets of an FPDU that is too long for the
 *		receive buffer
 * passthrough	a call that uses TCP's own operation, as MPA has not been
 *		started or the direction is not framed
 *
 * Locks
 * -----
 * The socket lock protects struct mpa_ctx. Process context takes it with
 * lock_sock(). TCP's softirq side and the backlog hold it when they call
 * sk_data_ready. Fields marked "poll" are written under the lock with
 * WRITE_ONCE(), and may be read without it. In layer 2, a function that changes
 * a context is called in process context with the socket lock held, unless its
 * comment has a "Context:".
 *
 * Pointers into a TCP queue are not valid after the lock was dropped. Waiting
 * drops the lock. Passing data to TCP may process the backlog, with the same
 * effect. Keep stream positions and lengths instead of pointers.
 *
 * Lifetime
 * --------
 * mpa_init() allocates the context under the socket lock, and publishes it in
 * icsk_ulp_data together with our operations. Our callbacks are installed when
 * MPA starts. A listening socket keeps TCP's callbacks, as TCP calls them
 * without the socket lock.
 *
 * mpa_close() restores TCP's operations and callbacks under the lock. Then,
 * without the lock, it cancels the work item, calls TCP's close, and frees the
 * context after a grace period. System calls hold a reference to the file, so
 * close never races with them. Close races with
 * - the work item, until cancel_delayed_work_sync(); @closing keeps the work
 *   item from being queued again;
 * - softirqs, which hold the lock. The callbacks and the context change under
 *   the lock, so a softirq sees both or neither.
 *
 * The work item takes the socket lock only if it is free: one workqueue serves
 * all sockets, and a page fault in a user's call may hold the lock for long.
 * If the lock is taken, mpa_op_release_cb() queues the work item again.
 *
 * A socket is attached before it listens. mpa_clone() makes its children plain
 * TCP sockets. When a listener that has MPA accepts a child, mpa_accept()
 * attaches it, and startup begins with the listener's parameters.
 *
 * mpa_hook.c describes the references to the module.
 */
#ifndef _MPA_H
#define _MPA_H

#include <linux/jump_label.h>
#include <linux/sock_diag.h>
#include <linux/uio.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/sock.h>

#include "mpa_delay.h"
#include "mpa_net.h"
#include "mpa_rx.h"
#include "mpa_start.h"
#include "mpa_tcp.h"
#include "mpa_tx.h"

struct genl_family;
struct mpa_upcalls;
struct mpa_table;

/* Jiffies between a failed allocation and the next try. */
#define MPA_RETRY_DELAY		(HZ / 20 + 1)

struct mpa_wake {
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
};

/* A kernel user. Protected by the socket lock. */
struct mpa_consumer {
	const struct mpa_upcalls *upcalls;
	void			*priv;		/* argument of upcalls */
	struct task_struct	*upcalled; /* task in an upcall; read without the lock */
	bool			again;		/* report again after this run */
	bool			paused;		/* ->ulpdu deferred a ULPDU */
	bool			wants_room;	/* a send failed with -EAGAIN */
	bool			ended;		/* ->failed or ->closed was called */
	bool			lost;		/* the end of sending was reported */
	u8			state;		/* last state reported */
	s32			budget;		/* octets left in this run */
	u32			mulpdu;		/* last value reported, like the next three */
	u64			edge;
	u64			acked;
	u64			sent;
	struct rcu_head		rcu;
};

enum mpa_pending {
	MPA_PENDING_RESUME = 1,	/* mpa_sock_resume() was called */
	MPA_PENDING_EVICTION = 2 /* evicted from startup */
};

enum mpa_part {
	MPA_STARTUP,
	MPA_RX,		/* receiving, from the current record on */
	MPA_TX,		/* sending, or the TCP connection */
	MPA_PARTS
};

/* Why a part has failed */
struct mpa_failure {
	s16	err;	/* poll: negative errno, or 0 */
	u8	code;	/* enum mpa_error */
};

struct mpa_ctx {
	struct mpa_tcp		tcp;	/* must be first: see mpa_tcp() */
	struct sock		*sk;
	struct mpa_table	*table;	/* TCP's operations and ours */
	const struct mpa_wake	*wake;	/* @table's or @consumer's */

	u8			state;	/* poll: see mpa_set_state() */
	u8			role;	/* enum mpa_role */
	u8			revision;
	bool			closing; /* do not queue the work item again */
	bool			want_crc; /* our startup frame has C set */
	bool			may_send; /* poll: section 7.1.2 rule 4 is met */
	/*
	 * The work item found the lock taken: release_cb queues the item again.
	 * Written with sk_lock.slock held.
	 */
	bool			work_deferred;
	bool			restarts : 1; /* a signal interrupted MPA_START */
	bool			err_returned : 1; /* a waiting call has returned startup's errno */
	bool			peer_valid : 1; /* @peer is valid */
	bool			was_kernel; /* a kernel user has closed the socket */
	bool			tapped;	/* a monitor gets records; under mpa_conns.lock */
	bool			listed;	/* in mpa_conns.all */
	/*
	 * Number of calls in progress in each direction: with TUF all calls, else
	 * passthrough calls. -1: no passthrough call may begin. Written without the
	 * lock.
	 */
	atomic_t		plain[2];
	atomic_t		pending; /* enum mpa_pending; written without the lock */
	struct mpa_failure	failure[MPA_PARTS]; /* see mpa_fail() */
	u16			ird;	/* negotiated, like @ord */
	u16			ord;
	u32			control; /* MPA_START_P2P and MPA_START_RTR_* */
	struct mpa_frame	peer;	/* the peer's startup frame */
	unsigned long		deadline; /* of startup, in jiffies */
	/* Freed at the end of startup. A listener keeps them for its children. */
	struct mpa_params	*params;
	u8			*peer_private; /* enhanced data included */

	/* NULL: no kernel user. Written under the lock, also read under RCU. */
	struct mpa_consumer	*consumer;

	struct mpa_tx		tx;
	struct mpa_rx		rx;

	union {
		struct delayed_work	work;	/* does what softirq cannot do */
		struct rcu_head		rcu;	/* used once @work has ended */
	};
};

static_assert(!offsetof(struct mpa_ctx, tcp));

/*
 * Return the context of a socket, or NULL if MPA is not attached.
 * Context: socket lock held, or inside a system call on the socket.
 */
static inline struct mpa_ctx *mpa_ctx(const struct sock *sk)
{
	/* Pairs with mpa_hook_attach(): the system call read our operation without the lock. */
	smp_rmb();
	return (__force struct mpa_ctx *)inet_csk(sk)->icsk_ulp_data;
}

/* Whether the socket uses TUF's framing, not RFC 5044's. */
static inline bool mpa_alt(const struct mpa_ctx *ctx)
{
	return mpa_alt_format(&ctx->tx.format);
}

static inline int mpa_ulpdu_max(const struct mpa_ctx *ctx)
{
	return mpa_alt(ctx) ? MPA_ALT_ULPDU_MAX : MPA_ULPDU_MAX;
}

/* Return the errno that a part has failed with, or 0. A hint without the socket lock. */
static inline int mpa_failed(const struct mpa_ctx *ctx, enum mpa_part part)
{
	return READ_ONCE(ctx->failure[part].err);
}

/* Whether TCP was lost without a FIN, and the loss was recorded. */
static inline bool mpa_lost_receiving(const struct mpa_ctx *ctx)
{
	return READ_ONCE(ctx->failure[MPA_TX].code) == MPA_ERR_TCP &&
	       !mpa_tcp_peer_ended(ctx->sk);
}

/* Read the state for poll. Call this before reading the errno or octets that led to it. */
static inline u8 mpa_poll_state(const struct mpa_ctx *ctx)
{
	/* Pairs with mpa_set_state(). */
	return smp_load_acquire(&ctx->state);
}

static inline bool mpa_starting(const struct mpa_ctx *ctx)
{
	u8 state = READ_ONCE(ctx->state);

	return state == MPA_STATE_STARTUP || state == MPA_STATE_REQUESTED;
}

/* Whether the stream consists of startup frames or FPDUs, not of the user's octets. */
static inline bool mpa_started(const struct mpa_ctx *ctx)
{
	switch (READ_ONCE(ctx->state)) {
	case MPA_STATE_IDLE:
	case MPA_STATE_REJECTED:
		return false;
	default:
		return true;
	}
}

/*
 * Whether a direction is framed, or being started. TUF frames each direction
 * separately. Context: any; a hint without the socket lock.
 */
static inline bool mpa_framed(const struct mpa_ctx *ctx, enum mpa_part dir)
{
	return mpa_started(ctx) &&
	       mpa_format_on(dir == MPA_TX ? &ctx->tx.format : &ctx->rx.format);
}

/* Let passthrough calls begin again. Context: any, socket lock held. */
static inline void mpa_plain_open(struct mpa_ctx *ctx, enum mpa_part dir)
{
	atomic_cmpxchg(&ctx->plain[dir == MPA_TX], -1, 0);
}

/* Let no passthrough call begin. Return 0, or -EBUSY while one is in progress. */
static inline int mpa_plain_close(struct mpa_ctx *ctx, enum mpa_part dir)
{
	return atomic_cmpxchg(&ctx->plain[dir == MPA_TX], 0, -1) ? -EBUSY : 0;
}

/* Return the number of octets received from the start of the current FPDU on, @taken included. */
static inline u32 mpa_rx_available(const struct mpa_ctx *ctx)
{
	u32 skip = mpa_rx_skip(&ctx->rx, ctx->sk), inq = mpa_tcp_inq(ctx->sk);

	if (unlikely(skip))
		inq -= min(inq, skip);
	return ctx->rx.cur.taken + inq;
}

/* ---- mpa_nl_show.c ---- */

/* Return the context of a socket that MPA is or was attached to, or NULL. Context: RCU. */
static inline struct mpa_ctx *mpa_ctx_rcu(const struct sock *sk)
{
	return rcu_dereference_raw(inet_csk(sk)->icsk_ulp_data);
}

/**
 * struct mpa_conns - connections of one network namespace, and their monitors
 * @net:	the namespace
 * @all:	contexts, by cookie
 * @last:	the largest cookie so far; written with the lock of @all. New
 *		cookies are larger, except those of a processor's older batch
 * @lock:	for @taps, @nr_taps, @nr_joined and mpa_ctx.tapped
 * @taps:	list of struct mpa_tap, for connections and for events
 * @nr_taps:	number of @taps
 * @nr_joined:	number of @taps for events; read without @lock
 * @queue:	events for the multicast group; its lock protects the members below
 * @number:	number of the last event
 * @closed:	the namespace or the module exits: queue no more events
 * @work:	sends @queue
 */
struct mpa_conns {
	struct net		*net;
	struct xarray		all;
	unsigned long		last;
	spinlock_t		lock; /* see above */
	struct list_head	taps;
	unsigned int		nr_taps;
	unsigned int		nr_joined;
	struct sk_buff_head	queue;
	u32			number;
	bool			closed;
	struct work_struct	work;
};

extern unsigned int mpa_conns_id;
extern const struct genl_family *mpa_conns_family;

static inline struct mpa_conns *mpa_conns(const struct net *net)
{
	return net_generic(net, mpa_conns_id);
}

int mpa_conns_add(struct mpa_ctx *ctx);
void mpa_conns_remove(struct mpa_ctx *ctx);

/* Return the cookie that SO_COOKIE returns and ss -e shows. */
static inline u64 mpa_show_cookie(struct sock *sk)
{
	u32 cookie[2];

	sock_diag_save_cookie(sk, cookie);
	return (u64)cookie[1] << 32 | cookie[0];
}

u8 mpa_show_code(const struct mpa_ctx *ctx);
u32 mpa_show_flags(const struct mpa_ctx *ctx);
int mpa_show_conn(struct sk_buff *skb, const struct mpa_ctx *ctx,
		  struct user_namespace *user_ns,
		  const struct mpa_failure *failure);
int mpa_show_ulp(struct sock *sk, struct sk_buff *skb);
size_t mpa_show_ulp_size(const struct sock *sk);

/* ---- mpa_nl_report.c ---- */

/* Index of the multicast group in the netlink family's .mcgrps */
#define MPA_NLGRP_EVENTS	0

extern struct workqueue_struct *mpa_event_wq;

int mpa_conns_init(void);
void mpa_conns_exit(void);
void mpa_report_state(const struct mpa_ctx *ctx, u8 old);
void mpa_report_refused(const struct mpa_ctx *ctx, enum mpa_refusal why,
			int err);
void mpa_report_failed(const struct mpa_ctx *ctx, enum mpa_part part);
void mpa_report_mulpdu(const struct mpa_ctx *ctx);
void mpa_report_unaligned(struct sock *sk, enum mpa_cut cut);
void mpa_report_resegmented(const struct mpa_ctx *ctx);
void mpa_report_closed(const struct mpa_ctx *ctx);

/* ---- mpa_nl_tap.c ---- */

DECLARE_STATIC_KEY_FALSE(mpa_tap_used);

/* Whether a monitor gets each record of the connection. If so, use no fast path. */
static inline bool mpa_tapped(const struct mpa_ctx *ctx)
{
	return static_branch_unlikely(&mpa_tap_used) && READ_ONCE(ctx->tapped);
}

extern struct notifier_block mpa_tap_notifier;

int mpa_tap_set(struct net *net, struct mpa_ctx *ctx, struct sock *reader,
		u32 portid, u32 octets);
void mpa_tap_event(struct mpa_conns *conns, struct sk_buff *skb);
void mpa_tap_end_all(struct mpa_conns *conns);
void mpa_tap_clear(struct mpa_ctx *ctx);
void __mpa_tap_sent(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		    u64 position);
void __mpa_tap_received(struct mpa_ctx *ctx, struct mpa_cursor *at,
			const struct mpa_fpdu *fpdu, enum mpa_error verdict);
void __mpa_tap_placed(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu);

/* ---- mpa_state.c ---- */

int mpa_work_init(void);
void mpa_work_exit(void);
void mpa_schedule_work(struct mpa_ctx *ctx, unsigned long delay);
void mpa_set_pending(struct mpa_ctx *ctx, enum mpa_pending what);
void mpa_set_state(struct mpa_ctx *ctx, enum mpa_state state);
void mpa_open_sending(struct mpa_ctx *ctx);
int mpa_fail(struct mpa_ctx *ctx, enum mpa_part part, int err,
	     enum mpa_error code);
void mpa_fail_receiving(struct mpa_ctx *ctx, int err, enum mpa_error code);
void mpa_fail_sending(struct mpa_ctx *ctx, int err);
void mpa_wake_reader(struct mpa_ctx *ctx);
void mpa_wake_writers(struct mpa_ctx *ctx);
void mpa_wake_all(struct mpa_ctx *ctx);

/* ---- counting ---- */

static inline void mpa_count_built(struct mpa_ctx *ctx, u32 ulpdus, u32 octets,
				   u32 markers)
{
	struct mpa_tx *tx = &ctx->tx;

	tx->ulpdus += ulpdus;
	tx->octets += octets;
	tx->markers += markers;
	mpa_stat_fpdus(ctx->tcp.mib, MPA_MIB_TX_FPDUS, ulpdus, octets,
		       markers);
}

static inline void mpa_count_taken(struct mpa_rx *rx, u32 ulpdus, u32 octets,
				   u32 markers)
{
	rx->ulpdus += ulpdus;
	rx->octets += octets;
	rx->markers += markers;
}

static inline void mpa_count_received(struct mpa_ctx *ctx, u32 ulpdus,
				      u32 octets, u32 markers)
{
	mpa_count_taken(&ctx->rx, ulpdus, octets, markers);
	mpa_stat_fpdus(ctx->tcp.mib, MPA_MIB_RX_FPDUS, ulpdus, octets,
		       markers);
}

static inline bool mpa_rx_placed(struct mpa_ctx *ctx)
{
	return unlikely(ctx->rx.place) && mpa_place_ready(ctx);
}

/* ---- TUF ---- */

void mpa_alt_put(const struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		 const struct mpa_field_span *run, u8 *p, u32 n);
bool mpa_alt_oversized(struct mpa_ctx *ctx, const struct mpa_tx_call *call,
		       const struct mpa_fpdu *fpdu);
enum mpa_head mpa_alt_head(const struct mpa_rx *rx, u64 pos, const u8 *head,
			   struct mpa_fpdu *fpdu);
void mpa_alt_received(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu);
int mpa_alt_show(struct sk_buff *skb, const struct mpa_ctx *ctx);

/* Several ULPDUs in one FPDU */
u32 mpa_pack_target(const struct mpa_tx *tx, u32 ulpdu_len, u32 emss);
void mpa_pack_forget(struct mpa_ctx *ctx);
void mpa_pack_built(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu);
void mpa_pack_given(struct mpa_ctx *ctx);
bool mpa_pack_extends(const struct mpa_ctx *ctx);
bool mpa_pack_fits(struct mpa_ctx *ctx, u32 n);
int mpa_pack_add(struct mpa_ctx *ctx, struct iov_iter *from, u32 n);

/* Segments that are sent, and segments received out of order */
bool mpa_guard_segment(struct sock *sk, const u8 *head, u32 seq, u32 len,
		       enum mpa_begins begins, bool fixed);
void mpa_contain_note(struct mpa_ctx *ctx);
bool mpa_contain_test(struct mpa_ctx *ctx, u32 pos);
bool mpa_contain_possible(const struct mpa_ctx *ctx);

#endif /* _MPA_H */
