// SPDX-License-Identifier: GPL-2.0
/*
 * TCP's hooks for an upper-layer protocol: the end of a connection, memory,
 * segments out of order, the MSS, where segments end, and when they are sent.
 */

#include "mpa_tcp.h"

#ifdef MPA_HAVE_ULP_HOOKS

#include <linux/bottom_half.h>
#include <linux/tcp.h>
#include <net/sock.h>
#include <net/tcp.h>

/* ---- the end, and the lock ---- */

/* Reset the connection at once, and drop unread octets. Process context. */
void mpa_tcp_abort(struct sock *sk, int err)
{
	if (sk->sk_state == TCP_CLOSE)
		return;
	tcp_abort_locked(sk, err);
	mpa_tcp_consume(sk, mpa_tcp_inq(sk));
}

/* The peer's port, or 0. Any context. */
__be16 mpa_tcp_peer_port(const struct mpa_tcp *tcp, const struct sock *sk)
{
	return READ_ONCE(inet_sk(sk)->inet_dport);
}

/*
 * Take the socket lock for the work item, unless a user holds it, maybe until a
 * page fault is served. In that case set @deferred: release_cb queues the work
 * item. Process context. Return: whether the lock was taken; mpa_tcp_unlock()
 * releases it.
 */
bool mpa_tcp_try_lock(struct sock *sk, bool *deferred)
{
	struct mpa_tcp *tcp;

	if (!trylock_sock(sk)) {
		*deferred = true;
		/*
		 * The user may have released the lock before it could read
		 * @deferred.
		 */
		if (!trylock_sock(sk))
			return false;
		*deferred = false;
	}
	tcp = mpa_tcp(sk);
	if (tcp)
		tcp->worker = true;
	return true;
}

/* ---- memory ---- */

/* Reserve memory for accepted octets. @size: their truesize. */
void mpa_tcp_force(struct sock *sk, int size)
{
	local_bh_disable();
	sk_forced_mem_schedule(sk, size);
	local_bh_enable();
}

/* ---- out of order ---- */

/* Track new out-of-order segments if @on, not those queued. Process context. */
void mpa_tcp_ooo_track(struct sock *sk, bool on)
{
	struct mpa_tcp *tcp = mpa_tcp(sk);

	tcp->ooo_tracked = on;
	tcp->ooo_seen = tcp_sk(sk)->rcv_ooopack;
	tcp->ooo_gap = tcp_sk(sk)->rcv_nxt - 1;
}

/* Not needed: TCP reports each segment. */
bool mpa_tcp_ooo_ask(struct sock *sk)
{
	return false;
}

/*
 * For tcp_ulp_ops.ofo. The work item searches the first segment after a new
 * gap; the socket's sk_write_space searches each further one at once.
 */
void mpa_tcp_ofo(struct sock *sk, u32 seq, u32 end_seq)
{
	struct mpa_tcp *tcp = mpa_tcp(sk);
	u32 gap = tcp_sk(sk)->rcv_nxt;

	if (!tcp || !tcp->ooo_tracked)
		return;
	if (tcp->ooo_gap != gap) {
		tcp->ooo_gap = gap;
		mpa_ooo_arrived(sk);
	} else {
		sk->sk_write_space(sk);
	}
}

/* ---- EMSS ---- */

/* EMSS, the effective maximum segment size. Hint. */
u32 mpa_tcp_emss_of(const struct sock *sk, const struct mpa_tcp *tcp)
{
	u32 emss = mpa_tcp_emss_full(sk, tcp), unit = tcp_sk(sk)->mss_unit;

	return unit && emss > unit ? emss - emss % unit : emss;
}

u32 mpa_tcp_emss_now(const struct sock *sk)
{
	struct mpa_tcp *tcp = mpa_tcp(sk);
	u32 emss = mpa_tcp_emss_of(sk, tcp);

	if (tcp->fit)
		WRITE_ONCE(tcp->fit->less, mpa_tcp_emss_full(sk, tcp) - emss);
	return emss;
}

/* EMSS without SACK blocks. */
u32 mpa_tcp_path_mss(const struct sock *sk)
{
	const struct mpa_tcp *tcp = mpa_tcp(sk);

	return tcp_sk(sk)->mss_cache - tcp->watch.options -
	       (tcp->fit ? tcp->fit->less : 0);
}

/* Set whether TCP must not cut a segment at the window's edge. Process context. */
void mpa_tcp_keep_whole(struct sock *sk, bool on)
{
	tcp_set_mss_unit(sk, on);
}

/* Undo mpa_tcp_fit(). Process context. */
void mpa_tcp_unfit(struct sock *sk, struct mpa_fit *fit)
{
	if (fit->unit)
		tcp_set_mss_unit(sk, 1);
	fit->unit = 0;
	fit->less = 0;
}

/**
 * mpa_tcp_fit() - round the MSS down to a multiple of the FPDUs' length
 * @sk:		socket; TCP must have no octets that it would then cut
 *		differently
 * @fit:	how far the MSS has been lowered
 * @unit:	the FPDUs' length; 4 if they differ in length
 *
 * TCP cuts an skb at multiples of the MSS. FPDUs of one length can share an
 * skb, and so use TSO, only if the MSS is a multiple of that length. The number
 * of segments stays the same, as no FPDU is cut.
 *
 * Context: process, socket lock held.
 */
void mpa_tcp_fit(struct sock *sk, struct mpa_fit *fit, u32 unit)
{
	mpa_tcp(sk)->fit = fit;
	tcp_set_mss_unit(sk, 1);
	fit->unit = unit;
	tcp_set_mss_unit(sk, unit <= mpa_tcp_emss(sk) ? unit : 4);
	fit->emss = mpa_tcp_emss(sk);
}

/* ---- segments ---- */

/* Make the next octets start an skb, and with it a segment. */
void mpa_tcp_end_segment(struct sock *sk)
{
	tcp_write_collapse_fence(sk);
}

/*
 * Make a segment start @len octets after @seq, the end of the first unsent skb,
 * which is just being sent. No effect without memory.
 */
void mpa_tcp_split(struct sock *sk, u32 seq, u32 len)
{
	struct sk_buff *skb = tcp_send_head(sk);

	if (!skb || TCP_SKB_CB(skb)->end_seq != seq || tcp_skb_is_last(sk, skb))
		return;
	skb = skb_queue_next(&sk->sk_write_queue, skb);
	if (TCP_SKB_CB(skb)->seq != seq || skb->len < len)
		return;
	if (skb->len == len ||
	    !tcp_fragment(sk, TCP_FRAG_IN_WRITE_QUEUE, skb, len,
			  mpa_tcp_emss_now(sk), GFP_ATOMIC | __GFP_NOWARN))
		TCP_SKB_CB(skb)->eor = 1;
}

/* No effect: nothing is corked. */
void mpa_tcp_uncork(struct sock *sk, struct mpa_window *window)
{
}

/**
 * mpa_tcp_push() - let TCP send
 * @sk:		socket
 * @window:	the peer's window
 * @more:	more follows soon: hold a segment that is not full, as with
 *		MSG_MORE
 *
 * Context: process.
 */
void mpa_tcp_push(struct sock *sk, struct mpa_window *window, bool more)
{
	const struct sk_buff *skb = tcp_write_queue_tail(sk);
	bool nodelay;

	window->more = more && tcp_send_head(sk);
	/*
	 * Nagle's algorithm applies to small calls only: do not delay the last
	 * octets of a longer call, or of a batch, until the segments before
	 * them are acknowledged.
	 */
	nodelay = skb && !more && !tcp_sk(sk)->nonagle &&
		  before(window->since, TCP_SKB_CB(skb)->seq);
	if (!more && (nodelay || !window->pushed))
		tcp_push_queued(sk, nodelay);
	window->pushed = false;
}

#endif /* MPA_HAVE_ULP_HOOKS */
