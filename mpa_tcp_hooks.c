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
u32 mpa_tcp_emss_now(const struct sock *sk)
{
	u32 emss = mpa_tcp_emss_full(sk, mpa_tcp(sk));
	u32 unit = tcp_sk(sk)->mss_unit;

	return unit && emss > unit ? emss - emss % unit : emss;
}

/* Undo mpa_tcp_fit(). Process context. */
void mpa_tcp_unfit(struct sock *sk)
{
	if (tcp_sk(sk)->mss_unit)
		tcp_set_mss_unit(sk, 1);
}

/* Round the MSS down to a multiple of @unit. @emss: EMSS so far */
void mpa_tcp_round_mss(struct sock *sk, u32 emss, u32 unit)
{
	tcp_set_mss_unit(sk, unit);
}

/* ---- segments ---- */

/*
 * Split an skb in the send queue: octets from @len on move to a new one. No
 * effect without memory.
 */
void mpa_tcp_split_skb(struct sock *sk, struct sk_buff *skb, u32 len)
{
	tcp_fragment(sk, TCP_FRAG_IN_WRITE_QUEUE, skb, len, mpa_tcp_emss_now(sk),
		     GFP_ATOMIC | __GFP_NOWARN);
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
