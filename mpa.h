/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The connection: the context that floors 2 and 3 share, its locks and its
 * lifetime. Floor 2 includes this; what floor 3 adds is in mpa_face.h.
 *
 * Words
 * -----
 * record	a ULPDU, for the user; its FPDU, on the wire
 * position	octets from the start of a direction's first FPDU
 * span		octets that lie side by side in memory
 * slot		where in a segment the next FPDU goes
 * batch	FPDUs of several calls that leave together
 * held		FPDUs of a batch that wait for the rest of it
 * stuck	octets that TCP has had no memory for
 * placed	records that the user gets out of order: in front of them octets are
 *		missing
 * run		FPDUs side by side, behind a gap
 * stash	pages with the first octets of an FPDU that is too long for the
 *		receive buffer
 * passthrough	a call of TCP's own, on a socket that MPA is attached to and has
 *		not started on, or in a direction that is not framed
 *
 * Locks
 * -----
 * Everything in struct mpa_ctx belongs to the socket lock: process context
 * takes it with lock_sock(), TCP's softirq side and the backlog call
 * sk_data_ready with it held. The exceptions are marked "poll": they are
 * written under the lock with WRITE_ONCE() and read without it.
 *
 * No pointer into a TCP queue is kept when the lock is dropped. Waiting drops
 * it, and so does handing data to TCP, which may work off the backlog. What is
 * kept are stream positions and lengths.
 *
 * Lifetime
 * --------
 * mpa_init() makes the context under the socket lock and publishes it in
 * icsk_ulp_data together with the replaced operations. Callbacks are replaced
 * when MPA starts, so a listening socket, on which they are called without its
 * lock, keeps its own. mpa_close() takes all of them back under the lock, then,
 * without it, ends the work item and calls TCP's own close. Only then is the
 * context freed, after a grace period. A system call holds a reference to the
 * file, and close runs when the last one is gone, so it never races with them.
 * It can run beside the work item (stopped with cancel_delayed_work_sync();
 * MPA_LIFE_CLOSING keeps it from being armed again) and softirqs (they see
 * either our sk_data_ready and the context, or TCP's own: both change under the
 * lock that they hold).
 *
 * The work item takes the socket lock only if nobody has it. A user may hold it
 * for as long as he likes, by letting a page fault under it, and one workqueue
 * serves all sockets. If somebody has it, mpa_op_release_cb() queues the work
 * item again when the lock is released.
 *
 * If at close(2) TCP has no memory for octets that a send has accepted, the
 * socket goes to a struct socket of ours ("linger"), and the work item does the
 * rest of mpa_close() once TCP has taken them: nobody else uses it any more.
 *
 * A socket is attached before it listens. Its children are TCP's own (mpa_clone()
 * sees to that) until accept(2) returns one from a listener that has MPA:
 * mpa_accept() attaches it, and startup begins as the listener was told.
 *
 * mpa_hook.c says who holds references to the module, and for how long.
 */
#ifndef _MPA_H
#define _MPA_H

#include <linux/jump_label.h>
#include <linux/sock_diag.h>
#include <linux/uio.h>
#include <linux/workqueue.h>
#include <net/sock.h>

#include "mpa_delay.h"
#include "mpa_net.h"
#include "mpa_rx.h"
#include "mpa_start.h"
#include "mpa_tcp.h"
#include "mpa_tx.h"

struct genl_family;
struct mpa_tap;
struct mpa_upcalls;
struct mpa_table;

/* Wait before memory is asked for again after a failed allocation. */
#define MPA_RETRY_DELAY		(HZ / 20 + 1)

/**
 * enum mpa_life - who has the socket
 * @MPA_LIFE_USER:	a file, or the kernel user that has made it
 * @MPA_LIFE_LINGERING:	the work item, after close(2)
 * @MPA_LIFE_CLOSING:	nobody any more: no work is armed
 */
enum mpa_life {
	MPA_LIFE_USER,
	MPA_LIFE_LINGERING,
	MPA_LIFE_CLOSING
};

/**
 * struct mpa_wake - how a user is woken
 * @data_ready:	there is something to read, or an end, or an error
 * @write_space: there is room
 */
struct mpa_wake {
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
};

/**
 * struct mpa_consumer - a user inside the kernel (mpa_consumer_upcall.c)
 * @upcalls:	what he is told by
 * @priv:	their first argument
 * @upcalled:	they are under way, in or over this task; read without the lock
 * @header:	the first octets of the ULPDU that he is sending, in front of the
 *		iterator's
 * @head:	them, if struct mpa_headers has made them
 * @resumes:	times that he has asked for more; written without the lock
 * @resumed:	@resumes when that was looked at last
 * @again:	there is something to tell since it was looked last
 * @paused:	@upcalls->ulpdu has put a ULPDU off
 * @wants_room:	a send has failed with -EAGAIN
 * @ended:	@upcalls->failed or @upcalls->closed has been called
 * @lost:	he has been told that nothing can be sent any more
 * @budget:	what may be handed up still, just now
 * @broken:	the errno that sending has failed with, and that he does not know of
 * @state:	the state that he knows of
 * @mulpdu:	what he knows of it
 * @edge:	what he knows of it
 * @acked:	what he knows of it
 * @sent:	the last stream position that he was told of
 * @rcu:	frees it
 *
 * Belongs to the socket lock.
 */
struct mpa_consumer {
	const struct mpa_upcalls *upcalls;
	void			*priv;
	struct task_struct	*upcalled;
	struct kvec		header;
	u8			head[MPA_HEADER_MAX];
	atomic_t		resumes;
	int			resumed;
	bool			again;
	bool			paused;
	bool			wants_room;
	bool			ended;
	bool			lost;
	u8			state;
	s32			budget;
	int			broken;
	u32			mulpdu;
	u64			edge;
	u64			acked;
	u64			sent;
	struct rcu_head		rcu;
};

/**
 * struct mpa_ctx - what MPA knows of a socket
 * @tcp:	floor 1's part, found by the socket: must be first
 * @sk:		the socket
 * @table:	its operations before and after attaching
 * @wake:	as before attaching, in @table; or that of @consumer
 * @state:	poll: enum mpa_state; mpa_set_state() writes it
 * @role:	enum mpa_role
 * @revision:	revision in use
 * @code:	enum mpa_error for MPA_INFO
 * @life:	enum mpa_life
 * @want_crc:	C in the startup frame sent
 * @may_send:	poll: RFC 5044 section 7.1.2 rule 4 is met
 * @put_off:	the work item has found the lock taken: release_cb queues it
 *		again; written with the spinlock of the socket lock held
 * @restarts:	a signal has interrupted MPA_START before it had a result
 * @told:	a call that waited has been told what startup failed with
 * @enhanced:	IRD and ORD were negotiated
 * @have_peer:	@peer is valid
 * @lost:	TCP was lost while receiving went on, and others were told
 * @was_kernel:	a user inside the kernel has closed it: events say so still
 * @tapped:	a monitor gets copies of its records; written with mpa_taps.lock
 * @listed:	mpa_nl_show.c has it
 * @lingerer:	whose count it is on while it lingers, see mpa_life.c
 * @plain:	of each direction, calls of TCP's own that are under way, and of ours if
 *		it can be switched off; -1: none may begin, see mpa_plain_close(). Written
 *		without the lock
 * @broken:	negative errno that sending has failed with, or that TCP was lost
 *		with, or 0
 * @startup_error: poll: negative errno that startup ended with
 * @ird:	agreed on
 * @ord:	agreed on
 * @control:	MPA_START_P2P and MPA_START_RTR_* agreed on
 * @peer:	the peer's startup frame
 * @deadline:	jiffies when startup must be over, or lingering
 * @params:	how startup goes, freed when it is over; on a listening socket, for
 *		those that it accepts
 * @peer_private: the peer's private data, enhanced data included
 * @linger:	has the socket after close(2), until TCP has taken all
 * @consumer:	a user inside the kernel, or NULL; written under the lock, read
 *		under RCU as well
 * @tx:		sending
 * @rx:		receiving
 * @work:	all that must not be done in softirq
 * @rcu:	for freeing, when no work is armed any more
 */
struct mpa_ctx {
	struct mpa_tcp		tcp;
	struct sock		*sk;
	struct mpa_table	*table;
	const struct mpa_wake	*wake;

	u8			state;
	u8			role;
	u8			revision;
	u8			code;
	u8			life;
	bool			want_crc;
	bool			may_send;
	bool			put_off;
	bool			restarts : 1;
	bool			told : 1;
	bool			have_peer : 1;
	bool			enhanced;
	bool			lost;
	bool			was_kernel;
	bool			tapped;
	bool			listed;
	u8			lingerer;
	atomic_t		plain[2];
	s16			broken;
	s16			startup_error;
	u16			ird;
	u16			ord;
	u32			control;
	struct mpa_frame	peer;
	unsigned long		deadline;
	struct mpa_params	*params;
	u8			*peer_private;
	struct socket		*linger;

	struct mpa_consumer	*consumer;

	struct mpa_tx		tx;
	struct mpa_rx		rx;

	union {
		struct delayed_work	work;
		struct rcu_head		rcu;
	};
};

static_assert(!offsetof(struct mpa_ctx, tcp));

/**
 * mpa_ctx() - the context of a socket
 * @sk:	socket
 *
 * Context: socket lock held, or inside a system call on the socket.
 * Return: NULL for a socket that MPA is not attached to, or no longer.
 */
static inline struct mpa_ctx *mpa_ctx(const struct sock *sk)
{
	/* What called us was read without the lock: see mpa_hook_attach(). */
	smp_rmb();
	return (__force struct mpa_ctx *)inet_csk(sk)->icsk_ulp_data;
}

/* The socket's framing is not RFC 5044's. */
static inline bool mpa_alt(const struct mpa_ctx *ctx)
{
	return mpa_alt_format(&ctx->tx.format);
}

/* No ULPDU is longer, wherever it is in the stream. */
static inline int mpa_ulpdu_max(const struct mpa_ctx *ctx)
{
	return mpa_alt(ctx) ? MPA_ALT_ULPDU_MAX : MPA_ULPDU_MAX;
}

/* For poll: with a state go the errno and the octets that led to it. */
static inline u8 mpa_poll_state(const struct mpa_ctx *ctx)
{
	/* Pairs with mpa_set_state(). */
	return smp_load_acquire(&ctx->state);
}

/* The startup phase is not over; until it is, there are no records. */
static inline bool mpa_starting(const struct mpa_ctx *ctx)
{
	u8 state = READ_ONCE(ctx->state);

	return state == MPA_STATE_STARTUP || state == MPA_STATE_REQUESTED;
}

/* Octets on the wire are no longer the user's own: frames or FPDUs. */
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

/* Directions of the stream. */
#define MPA_DIR_TX	1
#define MPA_DIR_RX	2
#define MPA_DIR_BOTH	(MPA_DIR_TX | MPA_DIR_RX)

/**
 * mpa_framed() - octets of a direction are not the user's own
 * @ctx:	the context
 * @dirs:	MPA_DIR_*
 *
 * MPA frames both directions, another framing each by itself.
 *
 * Context: any; without the socket lock it is a hint.
 * Return: whether one of them is framed, or being started.
 */
static inline bool mpa_framed(const struct mpa_ctx *ctx, u8 dirs)
{
	if (!mpa_started(ctx))
		return false;
	if (!mpa_alt(ctx))
		return true;
	return (dirs & MPA_DIR_TX && mpa_format_on(&ctx->tx.format)) ||
	       (dirs & MPA_DIR_RX && mpa_format_on(&ctx->rx.format));
}

static inline atomic_t *mpa_plain(struct mpa_ctx *ctx, u8 dir)
{
	return &ctx->plain[dir == MPA_DIR_RX];
}

/**
 * mpa_plain_open() - calls of TCP's own may begin again
 * @ctx:	the context
 * @dirs:	MPA_DIR_*; what is open already stays as it is
 *
 * Context: any, socket lock held.
 */
static inline void mpa_plain_open(struct mpa_ctx *ctx, u8 dirs)
{
	if (dirs & MPA_DIR_RX)
		atomic_cmpxchg(mpa_plain(ctx, MPA_DIR_RX), -1, 0);
	if (dirs & MPA_DIR_TX)
		atomic_cmpxchg(mpa_plain(ctx, MPA_DIR_TX), -1, 0);
}

/**
 * mpa_plain_close() - no call of TCP's own may begin
 * @ctx:	the context
 * @dirs:	MPA_DIR_* that are about to be framed
 *
 * Context: process, socket lock held.
 * Return: 0, or -EBUSY while such a call is under way.
 */
static inline int mpa_plain_close(struct mpa_ctx *ctx, u8 dirs)
{
	if (dirs & MPA_DIR_TX && atomic_cmpxchg(mpa_plain(ctx, MPA_DIR_TX), 0, -1))
		return -EBUSY;
	if (!(dirs & MPA_DIR_RX) || !atomic_cmpxchg(mpa_plain(ctx, MPA_DIR_RX), 0, -1))
		return 0;
	mpa_plain_open(ctx, dirs & MPA_DIR_TX);
	return -EBUSY;
}

/*
 * Octets of the current FPDU and behind it that are here, taken out of TCP's
 * queue or in it.
 */
static inline u32 mpa_rx_have(const struct mpa_ctx *ctx)
{
	u32 skip = mpa_rx_skip(&ctx->rx), inq = mpa_tcp_inq(ctx->sk);

	if (unlikely(skip))
		inq -= min(inq, skip);
	return ctx->rx.cur.taken + inq;
}

/* ---- handing over ---- */

/**
 * mpa_tx_push() - hand octets to TCP that it had no memory for
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 * Return: 0 when none are left; -EAGAIN when memory is short, and the work
 * item tries again; -EPIPE when the connection is gone: they are dropped.
 */
static inline int mpa_tx_push(struct mpa_ctx *ctx)
{
	return mpa_tx_stuck(&ctx->tx) ? mpa_tx_push_stuck(ctx) : 0;
}

/* ---- mpa_nl_show.c ---- */

/**
 * mpa_ctx_rcu() - the context of a socket, without its lock
 * @sk:	socket that has or had ours
 *
 * Context: under RCU.
 * Return: NULL if there is none, or none any more.
 */
static inline struct mpa_ctx *mpa_ctx_rcu(const struct sock *sk)
{
	return rcu_dereference_raw(inet_csk(sk)->icsk_ulp_data);
}

int mpa_conns_init(void);
void mpa_conns_exit(void);
int mpa_conns_add(struct mpa_ctx *ctx);
void mpa_conns_remove(struct mpa_ctx *ctx);
unsigned long mpa_conns_last(const struct net *net);
struct mpa_ctx *mpa_conns_next(const struct net *net, unsigned long *cookie,
			       unsigned long last);
struct mpa_ctx *mpa_conns_find(const struct net *net, u64 cookie);
void mpa_conns_put(struct mpa_ctx *ctx);

/**
 * struct mpa_failure - an error of a connection
 * @err:	negative errno
 * @code:	enum mpa_error
 * @rx:		it has ended receiving: there is a position
 */
struct mpa_failure {
	int	err;
	u8	code;
	bool	rx;
};

/* The number that SO_COOKIE gives and ss -e shows. */
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

/* Number of the netlink family's multicast group, among its own. */
#define MPA_NLGRP_EVENTS	0

/**
 * struct mpa_event - an event
 * @cmd:	MPA_CMD_*_NTF
 * @attr:	attribute that only this kind of event has, or 0
 * @value:	its value
 * @failure:	what it says of the connection's error; NULL: what that is in
 */
struct mpa_event {
	u8	cmd;
	u16	attr;
	u32	value;
	const struct mpa_failure *failure;
};

int mpa_event_init(const struct genl_family *family);
void mpa_event_exit(void);
void mpa_event(const struct mpa_ctx *ctx, const struct mpa_event *event);

void mpa_report_state(const struct mpa_ctx *ctx, u8 old);
void mpa_report_refused(const struct mpa_ctx *ctx, enum mpa_refusal why,
			int err);
void mpa_report_receiving(const struct mpa_ctx *ctx, enum mpa_error code);
void mpa_report_sending(struct mpa_ctx *ctx, int err);
void mpa_report_disagreed(const struct mpa_ctx *ctx, int err);
void mpa_report_lost(struct mpa_ctx *ctx, int err);
void mpa_report_mulpdu(const struct mpa_ctx *ctx);
void mpa_report_unaligned(struct sock *sk, enum mpa_cut cut);
void mpa_report_resegmented(const struct mpa_ctx *ctx);
void mpa_report_closed(const struct mpa_ctx *ctx);

/* ---- mpa_nl_tap.c: records to a monitor ---- */

DECLARE_STATIC_KEY_FALSE(mpa_tap_used);

/* Each record of the connection is to be shown: none may take a short way. */
static inline bool mpa_tapped(const struct mpa_ctx *ctx)
{
	return static_branch_unlikely(&mpa_tap_used) && READ_ONCE(ctx->tapped);
}

int mpa_tap_init(const struct genl_family *family);
void mpa_tap_exit(void);
int mpa_tap_set(struct mpa_ctx *ctx, struct sock *reader, u32 portid, u32 octets);
int mpa_tap_set_events(struct net *net, struct sock *reader, u32 portid);
bool mpa_tap_has_events(const struct net *net);
void mpa_tap_event(const struct net *net, struct sk_buff *skb);
void mpa_tap_clear(struct mpa_ctx *ctx);
void __mpa_tap_sent(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		    u64 position);
void __mpa_tap_received(struct mpa_ctx *ctx, const struct mpa_rx_source *from,
			const struct mpa_fpdu *fpdu, u32 taken,
			enum mpa_error verdict);
void __mpa_tap_placed(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu);
void __mpa_tap_bad_length(struct mpa_ctx *ctx);

/* ---- mpa_state.c: changing state, failing, telling the user ---- */

int mpa_work_init(void);
void mpa_work_exit(void);
void mpa_schedule_work(struct mpa_ctx *ctx, unsigned long delay);
void mpa_schedule_work_of(struct sock *sk);
void mpa_set_state(struct mpa_ctx *ctx, enum mpa_state state);
void mpa_open_sending(struct mpa_ctx *ctx);
void mpa_fail_receiving(struct mpa_ctx *ctx, int err, enum mpa_error code);
void mpa_fail_sending(struct mpa_ctx *ctx, int err);
int mpa_fail_startup(struct mpa_ctx *ctx, int err, enum mpa_error code);
void mpa_wake_reader(struct mpa_ctx *ctx);
void mpa_wake_writers(struct mpa_ctx *ctx);
void mpa_wake_all(struct mpa_ctx *ctx);

/* ---- counting ---- */

/* FPDUs have been made. */
static inline void mpa_count_made(struct mpa_ctx *ctx, u32 ulpdus, u32 octets,
				  u32 markers)
{
	struct mpa_tx *tx = &ctx->tx;

	tx->ulpdus += ulpdus;
	tx->octets += octets;
	tx->markers += markers;
	mpa_stat_made(ctx->tcp.mib, ulpdus, octets, markers);
}

/* Octets have gone to the user, and so many ULPDUs wholly. */
static inline void mpa_count_taken(struct mpa_rx *rx, u32 ulpdus, u32 octets,
				   u32 markers)
{
	rx->ulpdus += ulpdus;
	rx->octets += octets;
	rx->markers += markers;
}

/* The same, for the namespace as well. */
static inline void mpa_count_received(struct mpa_ctx *ctx, u32 ulpdus,
				      u32 octets, u32 markers)
{
	mpa_count_taken(&ctx->rx, ulpdus, octets, markers);
	mpa_stat_received(ctx->tcp.mib, ulpdus, octets, markers);
}

/* ---- out of order ---- */

/* There is a record for the user. */
static inline bool mpa_rx_placed(struct mpa_ctx *ctx)
{
	return unlikely(ctx->rx.place) && mpa_place_ready(ctx);
}

/* ---- another framing than RFC 5044's ---- */

void mpa_alt_put(const struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		 const struct mpa_field_span *run, u8 *p, u32 n);
void mpa_alt_finish(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu);
bool mpa_alt_oversized(struct mpa_ctx *ctx, const struct mpa_tx_call *call,
		       const struct mpa_fpdu *fpdu);
enum mpa_head mpa_alt_head(const struct mpa_rx *rx, u64 pos, const u8 *head,
			   struct mpa_fpdu *fpdu);
void mpa_alt_received(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu);
int mpa_alt_show(struct sk_buff *skb, const struct mpa_ctx *ctx);

/* Several ULPDUs in an FPDU */
u32 mpa_pack_target(const struct mpa_tx *tx, u32 ulpdu_len, u32 emss);
void mpa_pack_forget(struct mpa_ctx *ctx);
void mpa_pack_made(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu);
void mpa_pack_given(struct mpa_ctx *ctx);
bool mpa_pack_extends(const struct mpa_ctx *ctx);
bool mpa_pack_fits(struct mpa_ctx *ctx, u32 n);
int mpa_pack_add(struct mpa_ctx *ctx, struct iov_iter *from, u32 n);

/* What leaves, and what has come out of order */
bool mpa_guard_leaves(struct sock *sk, const u8 *head, u32 seq, u32 len,
		      enum mpa_begins begins, bool fixed);
void mpa_contain_see(struct mpa_ctx *ctx);
bool mpa_contain_test(struct mpa_ctx *ctx, u32 pos);
bool mpa_contain_possible(const struct mpa_ctx *ctx);

#endif /* _MPA_H */
