/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TCP glue (layer 1): the interface of mpa_tcp*.c. The layers above access
 * TCP's state of a connection only by these functions, except that mpa_hook.c
 * and mpa_core.c set the pointers to operations and to the ULP.
 *
 * Call these functions with the socket lock held, in process context or in
 * softirq, unless a comment says otherwise. "Lockless": the lock is not needed,
 * but without it the result may be out of date.
 */
#ifndef _MPA_TCP_H
#define _MPA_TCP_H

#include <linux/bvec.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/inet_connection_sock.h>
#include <net/sock.h>
#include <net/tcp.h>
#ifdef MPA_HAVE_HOTDATA_FRAGS
#include <net/hotdata.h>
#endif

#include "compat.h"
#include "mpa_net.h"
#include "mpa_framing.h"

#ifndef MPA_HAVE_ULP_HOOKS
/*
 * On a kernel with the hooks of scripts/export.d/hooks, mpa_tcp_hooks.c
 * replaces the code for stock kernels, which writes TCP's fields.
 */
#endif

struct mpa_ctx;
struct tcphdr;

/*
 * Maximum number of fragments of the longest FPDU: all but three have at least
 * PAGE_SIZE - 64 octets.
 */
#define MPA_TX_FRAGS		(DIV_ROUND_UP(MPA_ANY_FPDU_MAX, PAGE_SIZE - 64) + 3)

static inline u32 mpa_skb_frags_max(void)
{
#ifdef MPA_HAVE_HOTDATA_FRAGS
	return READ_ONCE(net_hotdata.sysctl_max_skb_frags);
#else
	return READ_ONCE(sysctl_max_skb_frags);
#endif
}

/* Maximum number of fragments to pass to TCP for one skb. */
#define MPA_SKB_FRAGS		min_t(u32, mpa_skb_frags_max(), MPA_TX_FRAGS)

#define MPA_SPLIT_NOT		U32_MAX

/* Octets to be passed to TCP. */
struct mpa_txbuf {
	struct bio_vec	frag[MPA_TX_FRAGS];	/* each holds a page reference */
	u32		nr;		/* used entries of @frag */
	u32		len;		/* octets in @frag */
	u32		sent;		/* octets that TCP has taken */
	u32		split;		/* offset where a segment must begin, or MPA_SPLIT_NOT */
	/* Returns the length of the segment at @split; may be NULL. */
	u32		(*piece)(struct sock *sk, const struct mpa_txbuf *out);
	u8		*open;		/* octets of the ULPDU that MSG_MORE has left open */
	u32		open_room;	/* octets allocated at @open */
	u32		charged;	/* octets charged to the socket */
	struct rcu_head	rcu;
};

/* State for counting the segments that start with an FPDU. */
struct mpa_watch {
	u32	seq;		/* next octet to be sent for the first time */
	u32	fpdu;		/* next FPDU from @seq on, or an earlier one of unknown length */
	u32	end;		/* after the last FPDU, once framing is off */
	u32	pos;		/* stream position of @fpdu */
	u32	len;		/* octets of the FPDU before @fpdu */
	/* Octets of occasional TCP options other than SACK (AccECN, BPF): */
	u8	options;	/* the minimum of the last two packets */
	u8	options_seen;	/* of the last packet, including a DSACK */
	u8	high;		/* first octet of ULPDU_Length, if the last packet ended with it */
	u8	framing : 3;	/* enum mpa_framing */
	u8	cut : 3;	/* enum mpa_cut: why no FPDU begins at @seq */
	bool	marked : 1;	/* MPA only: FPDUs carry markers */
	bool	guarded : 1;	/* FPDUs with a key were sent: see mpa_tcp_watch_init() */
	u64	packets;	/* counters for MPA_INFO */
	u64	aligned;
	u64	unaligned;
};

/* Contiguous out-of-order octets, as sequence numbers. */
struct mpa_island {
	u32	start;
	u32	end;
};

struct mpa_segments {
	u32	nr;	/* number of segments; 0: not known */
	u32	octets;
	u32	each;	/* octets of each segment except the last; 0: not known */
};

/* This layer's state: the first member of struct mpa_ctx, see mpa_tcp(). */
struct mpa_tcp {
	struct proto		*base;		/* TCP's own operations */
	struct mpa_mib __percpu	*mib;		/* counters of the network namespace */
	struct mpa_watch	watch;
	u32			ooo_seen;	/* rcv_ooopack when last read */
	bool			ooo_tracked;
	bool			worker;		/* the work item has the lock */
	u16			less;		/* octets by which mpa_tcp_fit() lowers the MSS */
#ifdef MPA_HAVE_ULP_HOOKS
	bool			watched;	/* inspect packets that are sent */
	u32			ooo_gap;	/* rcv_nxt at the last out-of-order segment */
#else
	u16			ext_hdr_len;	/* icsk_ext_hdr_len as mpa_tcp_fit() left it */
	__be16			kept_port;	/* see mpa_tcp_disconnect() */
#endif
};

/* Return NULL if MPA is not attached. Lockless within a system call. */
static inline struct mpa_tcp *mpa_tcp(const struct sock *sk)
{
	return (__force struct mpa_tcp *)inet_csk(sk)->icsk_ulp_data;
}

/* What TCP does with octets passed to it. */
enum mpa_push {
	MPA_PUSH_NOT,	/* hold them if possible; mpa_tcp_push() follows */
	MPA_PUSH_FULL,	/* send full segments */
	MPA_PUSH_ALL	/* send all octets */
};

/* State of corking: TCP must not cut an FPDU at the edge of the peer's window. */
struct mpa_window {
	bool	corked;	/* MPA has corked TCP, for the window or for @more */
	bool	more;	/* the user has announced more */
	bool	pushed;	/* the last mpa_tcp_send() made TCP send all octets */
	u32	since;	/* sequence number at which the call or the batch begins */
	u32	borrowed;	/* number of tasks in TCP's option calls: do not cork meanwhile */
};

/*
 * Whether MPA's own work item holds the lock. The work item has no caller that
 * could receive -ENOMEM, or be killed to free memory. It must not sleep when a
 * control group is at its limit, as one workqueue serves all sockets.
 */
static inline bool mpa_in_work_item(const struct sock *sk)
{
	const struct mpa_tcp *tcp = mpa_tcp(sk);

	return tcp && tcp->worker;
}

/*
 * Flags for allocations that are charged to the socket's control group. The
 * work item allocates as softirq does: it does not sleep or reclaim, and may
 * exceed the group's limit.
 */
static inline gfp_t mpa_gfp(const struct sock *sk)
{
	gfp_t gfp = mpa_in_work_item(sk) ? GFP_ATOMIC | __GFP_NOWARN :
					 sk->sk_allocation;

	return gfp | __GFP_ACCOUNT;
}

enum mpa_begins {
	MPA_BEGINS_FPDU,
	MPA_BEGINS_ELSEWHERE,	/* within an FPDU */
	MPA_BEGINS_UNKNOWN	/* not known: the segment was sent before, or is not framed */
};

/*
 * TUF with keys: called for each segment to be sent. @head: its first
 * MPA_ANY_HEAD_LEN octets. @fixed: the segment cannot be shortened. Return:
 * whether to send the segment without its last octet, because a receiver could
 * mistake the segment for an FPDU.
 */
typedef bool (*mpa_guard_fn)(struct sock *sk, const u8 *head, u32 seq, u32 len,
			     enum mpa_begins begins, bool fixed);

typedef int (*mpa_walk_fn)(void *arg, const u8 *data, u32 len);

/*
 * A position in TCP's receive queue or out-of-order queue. Many short walks
 * from one cursor cost no more than one long walk.
 */
struct mpa_cursor {
	struct sock	*sk;
	bool		ordered;	/* in the receive queue, not the out-of-order queue */
	struct sk_buff	*skb;		/* found by the last lookup */
	struct sk_buff	*part;		/* @skb, or an skb of its fragment list */
	u32		seq;		/* of the next octet */
	u32		start;		/* octets of @skb before the piece */
	int		piece;		/* 0: linear part of @part, n: fragment n - 1 */
	u32		left;		/* contiguous octets at @data; 0: not looked up */
	const u8	*data;
};

/* Lockless. */
static inline bool mpa_tcp_gone(const struct sock *sk)
{
	return inet_sk_state_load(sk) == TCP_CLOSE;
}

/* Whether no more octets arrive: FIN, shutdown(2) or reset. Lockless. */
static inline bool mpa_tcp_input_ended(const struct sock *sk)
{
	return READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN || mpa_tcp_gone(sk);
}

/* Return the pending error (positive), or 0. Lockless. */
static inline int mpa_tcp_error(const struct sock *sk)
{
	return READ_ONCE(sk->sk_err);
}

/* Lockless. */
static inline bool mpa_tcp_send_ended(const struct sock *sk)
{
	return READ_ONCE(sk->sk_shutdown) & SEND_SHUTDOWN;
}

static inline u32 mpa_tcp_copied_seq(const struct sock *sk)
{
	return tcp_sk(sk)->copied_seq;
}

static inline u32 mpa_tcp_rcv_nxt(const struct sock *sk)
{
	return tcp_sk(sk)->rcv_nxt;
}

static inline bool mpa_tcp_has_sack(const struct sock *sk)
{
	return tcp_is_sack(tcp_sk(sk));
}

static inline u32 mpa_tcp_write_seq(const struct sock *sk)
{
	return tcp_sk(sk)->write_seq;
}

/* mpa_tcp.c */
bool mpa_tcp_synchronized(const struct sock *sk);
bool mpa_tcp_listening(const struct sock *sk);
bool mpa_tcp_may_listen(const struct sock *sk);
bool mpa_tcp_may_attach(const struct sock *sk);
bool mpa_tcp_has_listened(const struct sock *sk);
bool mpa_tcp_repaired(const struct sock *sk);
bool mpa_tcp_sending(const struct sock *sk);
bool mpa_tcp_connected(const struct sock *sk);
bool mpa_tcp_peer_ended(const struct sock *sk);
bool mpa_tcp_peer_left(const struct sock *sk);
void mpa_tcp_set_error(struct sock *sk, int err);
int mpa_tcp_replace_error(struct sock *sk, int old, int err);
void mpa_tcp_reset_on_close(struct sock *sk);
void mpa_tcp_abort(struct sock *sk, int err);
__be16 mpa_tcp_peer_port(const struct mpa_tcp *tcp, const struct sock *sk);
bool mpa_tcp_try_lock(struct sock *sk, bool *deferred);
void mpa_tcp_unlock(struct sock *sk);
void mpa_tcp_wake_writers(struct sock *sk);
int mpa_tcp_wait(struct sock *sk, long *timeo,
		 bool (*done)(const struct mpa_ctx *ctx),
		 const struct mpa_ctx *ctx);

/* mpa_tcp_in.c */
u32 mpa_tcp_inq_done(const struct sock *sk);
u32 mpa_tcp_advmss(const struct sock *sk);
unsigned long mpa_tcp_rtt(const struct sock *sk);
bool mpa_tcp_window_closed(const struct sock *sk);
bool mpa_tcp_window_short(const struct sock *sk);
void mpa_tcp_any_octet_counts(struct sock *sk);
bool mpa_tcp_forget_urgent(struct sock *sk);
void mpa_tcp_keep_urgent(struct sock *sk);
void mpa_tcp_skip_urgent(struct sock *sk);
void mpa_tcp_busy_poll(struct sock *sk, bool nonblock,
		       bool (*done)(const struct mpa_ctx *ctx),
		       const struct mpa_ctx *ctx);
void mpa_tcp_acknowledge(struct sock *sk);
void mpa_cursor_begin(struct mpa_cursor *at, struct sock *sk, u32 seq);
int mpa_cursor_walk(struct mpa_cursor *at, u32 len, mpa_walk_fn fn, void *arg);
int mpa_cursor_copy(struct mpa_cursor *at, u8 *to, u32 len);
bool mpa_cursor_map(struct mpa_cursor *at, u32 len);
u32 mpa_tcp_consume(struct sock *sk, u32 len);

struct sk_buff *mpa_ooo_find(struct sock *sk, u32 seq);
bool mpa_ooo_holds(struct sock *sk, u32 seq);

/* Return the number of unread octets in order, including urgent ones. */
static inline u32 mpa_tcp_inq(const struct sock *sk)
{
	u32 octets = tcp_sk(sk)->rcv_nxt - tcp_sk(sk)->copied_seq;

	return octets && sock_flag(sk, SOCK_DONE) ? mpa_tcp_inq_done(sk) : octets;
}

/* Whether MPA alone has read: copied_seq is @seq, or after a FIN at @seq. */
static inline bool mpa_tcp_reads_at(const struct sock *sk, u32 seq)
{
	u32 at = mpa_tcp_copied_seq(sk);

	return likely(at == seq) ||
	       (sock_flag(sk, SOCK_DONE) && at == seq + 1 &&
		at == mpa_tcp_rcv_nxt(sk));
}

/* mpa_tcp_ooo.c */
extern void (*mpa_ooo_arrived)(struct sock *sk);
void mpa_tcp_ooo_init(void (*arrived)(struct sock *sk));
void mpa_tcp_ooo_track(struct sock *sk, bool on);
bool mpa_tcp_ooo_ask(struct sock *sk);
void mpa_tcp_ooo_acked(struct sock *sk);
bool mpa_tcp_ooo_new(struct sock *sk);
bool mpa_tcp_ooo_segments(struct sock *sk, u32 seq,
			  struct mpa_segments *segments);
bool mpa_tcp_ooo_newest(struct sock *sk, u32 edge, struct mpa_island *island);
bool mpa_tcp_ooo_next(struct sock *sk, u32 seq, struct mpa_island *island);
u32 mpa_tcp_ooo_contiguous(struct sock *sk, u32 seq, u32 enough, u32 *max);

/* mpa_tcp_mem.c */
void mpa_tcp_force(struct sock *sk, int size);
bool mpa_tcp_reserve(struct sock *sk, const struct mpa_txbuf *out, u32 octets);
void mpa_tcp_unreserve(struct sock *sk);
int mpa_tcp_charge(struct sock *sk, struct mpa_txbuf *out, u32 octets);
void mpa_tcp_uncharge(struct sock *sk, struct mpa_txbuf *out);
void mpa_tcp_pass_charge(struct sock *sk, struct mpa_txbuf *out);
void mpa_tcp_reserve_rx(struct sock *sk, int size);
void mpa_tcp_charge_pages(struct sock *sk, u32 size);
void mpa_tcp_uncharge_pages(struct sock *sk, u32 size);

/* mpa_tcp_out.c */
u32 mpa_tcp_emss(struct sock *sk);
u32 mpa_tcp_fit(struct sock *sk, u32 unit);
u32 mpa_tcp_path_mss(const struct sock *sk, const struct mpa_tcp *tcp);
u32 mpa_tcp_emss_full(const struct sock *sk, const struct mpa_tcp *tcp);
u32 mpa_tcp_emss_now(const struct sock *sk);
u32 mpa_tcp_other_options(const struct sock *sk, const struct tcphdr *th);
u32 mpa_tcp_unsent(const struct sock *sk);
u32 mpa_tcp_unacked(const struct sock *sk);
const struct sk_buff *mpa_tcp_tail(const struct sock *sk);
bool mpa_tcp_tail_holds(const struct sock *sk, const u8 *data, u32 len);
void mpa_tcp_unfit(struct sock *sk);
void mpa_tcp_round_mss(struct sock *sk, u32 emss, u32 unit);
void mpa_tcp_uncork(struct sock *sk, struct mpa_window *window);
void mpa_tcp_push(struct sock *sk, struct mpa_window *window, bool more);
void mpa_tcp_end_segment(struct sock *sk);
void mpa_tcp_split_skb(struct sock *sk, struct sk_buff *skb, u32 len);
void mpa_tcp_split(struct sock *sk, u32 seq, u32 len);
u32 mpa_tcp_packet_max(struct sock *sk);
bool mpa_tcp_writable(struct sock *sk);
bool mpa_tcp_user_corks(const struct sock *sk, const struct mpa_window *window);
bool mpa_tcp_want_writable(struct sock *sk);
void mpa_tcp_write_space(struct sock *sk, const struct mpa_txbuf *open,
			 void (*write_space)(struct sock *sk));
int mpa_tcp_send(struct sock *sk, struct mpa_txbuf *out,
		 struct mpa_window *window, enum mpa_push push);
u32 mpa_tcp_frags(const struct mpa_txbuf *out);
u32 mpa_tcp_frag_room(const struct mpa_txbuf *out, u32 frags);

/* mpa_tcp_watch.c */
void mpa_tcp_watch_init(void (*unaligned)(struct sock *sk, enum mpa_cut cut),
			mpa_guard_fn guard);
void mpa_tcp_watch(struct sock *sk, const struct mpa_format *format);
void mpa_tcp_watch_plain(struct sock *sk);
void mpa_tcp_unwatch(struct sock *sk);
#ifdef MPA_HAVE_ULP_HOOKS
bool mpa_tcp_xmit(struct sock *sk, struct sk_buff *skb);

/* mpa_tcp_hooks.c */
void mpa_tcp_ofo(struct sock *sk, u32 seq, u32 end_seq);
#endif

/*
 * Return the next @len octets. If they are not contiguous, or not in memory
 * that is always mapped, return NULL: use mpa_cursor_walk() instead.
 */
static inline const u8 *mpa_cursor_data(struct mpa_cursor *at, u32 len)
{
	return at->left >= len || mpa_cursor_map(at, len) ? at->data : NULL;
}

static inline void mpa_cursor_skip(struct mpa_cursor *at, u32 len)
{
	at->seq += len;
	at->data += len;
	at->left -= min(at->left, len);
}

#endif /* _MPA_TCP_H */
