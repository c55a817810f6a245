/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TCP glue (layer 1): the interface of mpa_tcp*.c, for the layers above. No other file
 * reads or writes the TCP state of a connection. (mpa_hook.c and mpa_core.c
 * write the pointers to operations and to the ULP.)
 *
 * All functions are called with the socket lock held, in process context or in
 * softirq, unless they say otherwise. "Hint": may be called without the lock,
 * but the result may then be out of date.
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
 * There are two implementations. A stock kernel has no hooks for what mpa
 * needs, so mpa writes TCP's fields. On a kernel with the hooks of
 * scripts/export.d/hooks, mpa_tcp_hooks.c uses these instead.
 */
#endif

struct mpa_ctx;
struct tcphdr;

/*
 * For the longest FPDU: pages without their last octets, and three short
 * fragments.
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

/* Maximum number of fragments passed to TCP together, to share an skb. */
#define MPA_SKB_FRAGS		min_t(u32, mpa_skb_frags_max(), MPA_TX_FRAGS)

#define MPA_SPLIT_NOT		U32_MAX

/**
 * struct mpa_txbuf - octets to be passed to TCP
 * @frag:	the octets; each entry holds a page reference
 * @nr:		entries of @frag in use
 * @len:	octets
 * @sent:	octets that TCP has taken
 * @split:	offset of the octet that has to begin a segment, or
 *		MPA_SPLIT_NOT
 * @piece:	returns the length of that segment, after which another begins;
 *		or NULL
 * @open:	octets of the ULPDU that MSG_MORE has left open
 * @open_room:	octets allocated for it
 * @charged:	octets charged to the socket
 * @rcu:	for freeing
 */
struct mpa_txbuf {
	struct bio_vec	frag[MPA_TX_FRAGS];
	u32		nr;
	u32		len;
	u32		sent;
	u32		split;
	u32		(*piece)(struct sock *sk, const struct mpa_txbuf *out);
	u8		*open;
	u32		open_room;
	u32		charged;
	struct rcu_head	rcu;
};

/**
 * struct mpa_watch - which segments start with an FPDU
 * @seq:	sequence number of the next octet to be sent for the first time
 * @fpdu:	sequence number of the first FPDU that begins at @seq or later,
 *		or whose length is not known yet
 * @end:	sequence number after the last FPDU, once framing is off
 * @pos:	stream position of @fpdu
 * @len:	octets of the FPDU before @fpdu
 * @options:	octets of occasional TCP options other than SACK in the last two
 *		packets: AccECN, BPF
 * @options_seen: the same of the last packet; a DSACK included
 * @high:	first octet of ULPDU_Length, if a packet ended after it
 * @framing:	enum mpa_framing
 * @cut:	enum mpa_cut: why @seq is not the first octet of an FPDU
 * @marked:	MPA only: FPDUs carry markers
 * @guarded:	FPDUs with a key have been sent: see mpa_tcp_watch_init()
 * @packets:	counter for MPA_INFO
 * @aligned:	counter for MPA_INFO
 * @unaligned:	counter for MPA_INFO
 */
struct mpa_watch {
	u32	seq;
	u32	fpdu;
	u32	end;
	u32	pos;
	u32	len;
	u8	options;
	u8	options_seen;
	u8	high;
	u8	framing : 3;
	u8	cut : 3;
	bool	marked : 1;
	bool	guarded : 1;
	u64	packets;
	u64	aligned;
	u64	unaligned;
};

/* Contiguous out-of-order octets, as sequence numbers. */
struct mpa_island {
	u32	start;
	u32	end;	/* after the last */
};

/* The segments in one skb. */
struct mpa_segments {
	u32	nr;	/* their number, 0: not known */
	u32	octets;	/* their octets */
	u32	each;	/* octets of each except the last, 0: not known */
};

/*
 * This layer's state of a socket. It is the first member of struct mpa_ctx, so
 * that mpa_tcp() finds it.
 */
struct mpa_tcp {
	struct proto		*base;		/* TCP's own operations */
	struct mpa_mib __percpu	*mib;		/* counters of its namespace */
	struct mpa_watch	watch;		/* see struct mpa_watch */
	u32			ooo_seen;	/* rcv_ooopack when last read */
	bool			ooo_tracked;	/* track segments out of order */
	bool			worker;		/* the work item has the lock */
	u16			less;		/* by which mpa_tcp_fit() lowers the MSS */
#ifdef MPA_HAVE_ULP_HOOKS
	bool			watched;	/* inspect packets that are sent */
	u32			ooo_gap;	/* rcv_nxt when the last one arrived */
#else
	u16			ext_hdr_len;	/* icsk_ext_hdr_len as mpa_tcp_fit() left it */
	__be16			kept_port;	/* see mpa_tcp_disconnect() */
#endif
};

/*
 * Return: NULL if MPA is not, or no longer, attached. Context: also without the
 * lock, inside a system call on the socket.
 */
static inline struct mpa_tcp *mpa_tcp(const struct sock *sk)
{
	return (__force struct mpa_tcp *)inet_csk(sk)->icsk_ulp_data;
}

/* What TCP does with octets passed to it. */
enum mpa_push {
	MPA_PUSH_NOT,	/* it holds them if it can; mpa_tcp_push() follows */
	MPA_PUSH_FULL,	/* it sends full segments */
	MPA_PUSH_ALL	/* it sends all it has */
};

/* The edge of the peer's window. */
struct mpa_window {
	bool	corked;	/* TCP is corked because of the window or @more */
	bool	more;	/* the user has announced more */
	bool	pushed;	/* TCP must send all it has */
	u32	since;	/* sequence number where the call or the batch begins */
	u32	borrowed;	/* tasks in TCP's option calls, which see the user's cork */
};

/*
 * Whether this runs in mpa's work item, not in a kernel user's. If so, there is
 * no caller to return -ENOMEM to, nor to kill for it. One workqueue serves all
 * sockets: it must not sleep because a control group is at its limit.
 */
static inline bool mpa_in_work_item(const struct sock *sk)
{
	const struct mpa_tcp *tcp = mpa_tcp(sk);

	return tcp && tcp->worker;
}

/*
 * Flags to allocate memory that is charged to a socket's control group. The
 * work item allocates as softirq does: it neither sleeps nor reclaims, and the
 * group may exceed its limit.
 */
static inline gfp_t mpa_gfp(const struct sock *sk)
{
	gfp_t gfp = mpa_in_work_item(sk) ? GFP_ATOMIC | __GFP_NOWARN :
					 sk->sk_allocation;

	return gfp | __GFP_ACCOUNT;
}

/* How a segment begins. */
enum mpa_begins {
	MPA_BEGINS_FPDU,	/* with an FPDU */
	MPA_BEGINS_ELSEWHERE,	/* within one */
	MPA_BEGINS_UNKNOWN	/* not known, as it is a retransmission */
};

/*
 * TUF with keys: called for each segment to be sent. @head: its first
 * MPA_ANY_HEAD_LEN octets. @fixed: it cannot be shortened.
 * Return: whether to send it without its last octet, as a receiver could
 * mistake it for an FPDU.
 */
typedef bool (*mpa_guard_fn)(struct sock *sk, const u8 *head, u32 seq, u32 len,
			     enum mpa_begins begins, bool fixed);

typedef int (*mpa_walk_fn)(void *arg, const u8 *data, u32 len);

/*
 * A position in TCP's receive queue or out-of-order queue. It makes many short
 * walks over a queue cost no more than a single one.
 */
struct mpa_cursor {
	struct sock	*sk;
	bool		ordered;	/* receive queue, not out-of-order queue */
	struct sk_buff	*skb;		/* of the last lookup; never after @seq */
	struct sk_buff	*part;		/* @skb, or one of its fragment list */
	u32		seq;		/* of the next octet */
	u32		start;		/* octets of @skb before the piece */
	int		piece;		/* 0: linear part of @part, n: fragment n - 1 */
	u32		left;		/* contiguous at @data; 0: not looked up */
	const u8	*data;		/* the next octets */
};

/* The connection has been reset, or has timed out. Hint. */
static inline bool mpa_tcp_gone(const struct sock *sk)
{
	return inet_sk_state_load(sk) == TCP_CLOSE;
}

/* The peer has closed its half, or the connection is gone. Hint. */
static inline bool mpa_tcp_input_ended(const struct sock *sk)
{
	return READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN || mpa_tcp_gone(sk);
}

/* The pending socket error: positive errno, or 0. Hint. */
static inline int mpa_tcp_error(const struct sock *sk)
{
	return READ_ONCE(sk->sk_err);
}

/* shutdown(2) has closed our half. Hint. */
static inline bool mpa_tcp_send_ended(const struct sock *sk)
{
	return READ_ONCE(sk->sk_shutdown) & SEND_SHUTDOWN;
}

/* Sequence number of the next octet to be read. */
static inline u32 mpa_tcp_copied_seq(const struct sock *sk)
{
	return tcp_sk(sk)->copied_seq;
}

/* Sequence number after the last octet received in order. */
static inline u32 mpa_tcp_rcv_nxt(const struct sock *sk)
{
	return tcp_sk(sk)->rcv_nxt;
}

/* SACK is in use: TCP records blocks of out-of-order octets (RFC 2018). */
static inline bool mpa_tcp_has_sack(const struct sock *sk)
{
	return tcp_is_sack(tcp_sk(sk));
}

/* Sequence number of the next octet passed to TCP. */
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

/* Unread octets in order. Urgent ones count: they are part of MPA's stream. */
static inline u32 mpa_tcp_inq(const struct sock *sk)
{
	u32 octets = tcp_sk(sk)->rcv_nxt - tcp_sk(sk)->copied_seq;

	return octets && sock_flag(sk, SOCK_DONE) ? mpa_tcp_inq_done(sk) : octets;
}

/* Whether only MPA has read, up to @seq, or to the FIN directly after it. */
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
 * The next @len octets, or NULL if they are not contiguous, or not in memory
 * that is always mapped: then use mpa_cursor_walk().
 */
static inline const u8 *mpa_cursor_data(struct mpa_cursor *at, u32 len)
{
	return at->left >= len || mpa_cursor_map(at, len) ? at->data : NULL;
}

/* Move a cursor forward by @len octets. */
static inline void mpa_cursor_skip(struct mpa_cursor *at, u32 len)
{
	at->seq += len;
	at->data += len;
	at->left -= min(at->left, len);
}

#endif /* _MPA_TCP_H */
