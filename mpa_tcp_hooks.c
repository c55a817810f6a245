// SPDX-License-Identifier: GPL-2.0
/* TCP glue with TCP's hooks for upper-layer protocols. */

#include "mpa_tcp.h"

#ifdef MPA_HAVE_ULP_HOOKS

#include <linux/bottom_half.h>
#include <linux/tcp.h>
#include <net/sock.h>
#include <net/tcp.h>

/* Reset the connection at once, and drop unread octets. Process context. */
void mpa_tcp_abort(struct sock *sk, int err)
{
	if (sk->sk_state == TCP_CLOSE)
		return;
	tcp_abort_locked(sk, err);
	mpa_tcp_consume(sk, mpa_tcp_inq(sk));
}

/* Any context. */
__be16 mpa_tcp_peer_port(const struct mpa_tcp *tcp, const struct sock *sk)
{
	return READ_ONCE(inet_sk(sk)->inet_dport);
}

/*
 * Take the socket lock for the work item, without waiting: a user may hold the
 * lock until a page fault is served. If a user holds it, return false and set
 * @deferred, so that release_cb queues the work item. Process context.
 */
bool mpa_tcp_try_lock(struct sock *sk, bool *deferred)
{
	struct mpa_tcp *tcp;

	if (!trylock_sock(sk)) {
		*deferred = true;
		/* The user may have released the lock just before. */
		if (!trylock_sock(sk))
			return false;
		*deferred = false;
	}
	tcp = mpa_tcp(sk);
	if (tcp)
		tcp->worker = true;
	return true;
}

void mpa_tcp_force(struct sock *sk, int size)
{
	local_bh_disable();
	sk_forced_mem_schedule(sk, size);
	local_bh_enable();
}

/* If @on, track out-of-order segments from now on. Process context. */
void mpa_tcp_ooo_track(struct sock *sk, bool on)
{
	struct mpa_tcp *tcp = mpa_tcp(sk);

	tcp->ooo_tracked = on;
	tcp->ooo_seen = tcp_sk(sk)->rcv_ooopack;
	tcp->ooo_gap = tcp_sk(sk)->rcv_nxt - 1;
}

/* There is nothing to ask for: TCP calls mpa_tcp_ofo() for each segment. */
bool mpa_tcp_ooo_ask(struct sock *sk)
{
	return false;
}

/*
 * tcp_ulp_ops.ofo: a segment has arrived out of order. The work item searches
 * the first segment after a new gap; sk_write_space searches each later segment
 * at once.
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

/* Lockless. */
u32 mpa_tcp_emss_now(const struct sock *sk)
{
	u32 emss = mpa_tcp_emss_full(sk, mpa_tcp(sk));
	u32 unit = tcp_sk(sk)->mss_unit;

	return unit && emss > unit ? emss - emss % unit : emss;
}

/* Process context. */
void mpa_tcp_unfit(struct sock *sk)
{
	if (tcp_sk(sk)->mss_unit)
		tcp_set_mss_unit(sk, 1);
}

void mpa_tcp_round_mss(struct sock *sk, u32 emss, u32 unit)
{
	tcp_set_mss_unit(sk, unit);
}

void mpa_tcp_split_skb(struct sock *sk, struct sk_buff *skb, u32 len)
{
	tcp_fragment(sk, TCP_FRAG_IN_WRITE_QUEUE, skb, len, mpa_tcp_emss_now(sk),
		     GFP_ATOMIC | __GFP_NOWARN);
}

/*
 * Let TCP send. @more: more octets follow soon, so hold a segment that is not
 * full. Process context.
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
