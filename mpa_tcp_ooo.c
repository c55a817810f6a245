// SPDX-License-Identifier: GPL-2.0
/*
 * TCP glue: notice and find new segments in the out-of-order queue.
 *
 * TCP calls no hook when it queues a segment out of order. MPA notices the
 * segment soon afterwards, in two other calls with the socket lock held:
 *
 * - mpa_tcp_ooo_acked(), when TCP passes the ACK for the first segment to IP.
 *   TCP may not have finished with the segment, so this call only queues the
 *   work item and sets SOCK_NOSPACE.
 * - sk_write_space, which TCP calls after each out-of-order segment while
 *   SOCK_NOSPACE is set. The flag is kept set as long as the queue is not
 *   empty. A side effect: each segment wakes an EPOLLET waiter for EPOLLOUT, if
 *   the send buffer has room.
 *
 * Without memory TCP sends the ACK only after TCP_DELACK_MAX. Until then the
 * first segment is noticed only if another one arrives. While a user holds the
 * socket lock, segments wait in the backlog.
 */

#include <linux/tcp.h>
#include <net/tcp.h>

#include "mpa_tcp.h"

void (*mpa_ooo_arrived)(struct sock *sk) __ro_after_init;

/*
 * At module init: set the function to call when octets arrive out of order on a
 * tracked socket. The function is called with the socket lock held, maybe in
 * softirq, and may only queue work.
 */
void __init mpa_tcp_ooo_init(void (*arrived)(struct sock *sk))
{
	mpa_ooo_arrived = arrived;
}

static bool mpa_ooo_empty(const struct sock *sk)
{
	return RB_EMPTY_ROOT(&tcp_sk(sk)->out_of_order_queue);
}

#ifndef MPA_HAVE_ULP_HOOKS
/* If @on, track out-of-order segments from now on. Process context. */
void mpa_tcp_ooo_track(struct sock *sk, bool on)
{
	struct mpa_tcp *tcp = mpa_tcp(sk);

	tcp->ooo_tracked = on;
	tcp->ooo_seen = tcp_sk(sk)->rcv_ooopack;
	mpa_tcp_ooo_ask(sk);
}

/*
 * Make TCP call sk_write_space, and so this function, after the next
 * out-of-order segment. Return whether this call has set SOCK_NOSPACE.
 */
bool mpa_tcp_ooo_ask(struct sock *sk)
{
	return mpa_tcp(sk)->ooo_tracked && !mpa_ooo_empty(sk) && sk->sk_socket &&
	       !test_and_set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
}

/*
 * Notice new segments; called for each packet that TCP passes to IP. TCP may be
 * queueing a segment: it sends an ACK at once if all SACK blocks are in use.
 */
void mpa_tcp_ooo_acked(struct sock *sk)
{
	if (tcp_sk(sk)->rcv_ooopack != mpa_tcp(sk)->ooo_seen &&
	    mpa_tcp_ooo_ask(sk))
		mpa_ooo_arrived(sk);
}
#endif

/* Whether new segments have arrived out of order, and the queue is not empty. */
bool mpa_tcp_ooo_new(struct sock *sk)
{
	u32 arrived = tcp_sk(sk)->rcv_ooopack;
	struct mpa_tcp *tcp = mpa_tcp(sk);

	if (arrived == tcp->ooo_seen)
		return false;
	tcp->ooo_seen = arrived;
	return !mpa_ooo_empty(sk);
}

/* Return the end of the skb's octets. Unlike end_seq, do not count a FIN. */
static u32 mpa_ooo_octets_end(const struct sk_buff *skb)
{
	return TCP_SKB_CB(skb)->seq + skb->len;
}

/*
 * Get the number and the length of the segments that were merged in the
 * out-of-order skb at @seq. Return false if no skb begins at @seq.
 */
bool mpa_tcp_ooo_segments(struct sock *sk, u32 seq,
			  struct mpa_segments *segments)
{
	const struct sk_buff *skb = mpa_ooo_find(sk, seq);
	const struct skb_shared_info *shinfo;

	if (!skb || TCP_SKB_CB(skb)->seq != seq)
		return false;
	shinfo = skb_shinfo(skb);
	/* No headroom: tcp_collapse() has built the skb from unknown segments. */
	segments->nr = skb_headroom(skb) ? max_t(u32, shinfo->gso_segs, 1) : 0;
	segments->octets = skb->len;
	segments->each = 0;
	if (!shinfo->gso_size || !segments->nr)
		return true;
	/* virtio may leave gso_segs unset (SKB_GSO_DODGY). */
	if (!shinfo->gso_segs)
		segments->nr = DIV_ROUND_UP(skb->len, shinfo->gso_size);
	/* gso_size is the length of the segments only if it fits their number. */
	if (DIV_ROUND_UP(skb->len, shinfo->gso_size) == segments->nr)
		segments->each = shinfo->gso_size;
	return true;
}

/* Count the contiguous out-of-order octets right before @seq, up to @enough. */
static u32 mpa_ooo_before(struct sock *sk, u32 seq, u32 enough)
{
	const struct sk_buff *skb;
	u32 n = 0;

	while (n < enough) {
		skb = mpa_ooo_find(sk, seq - n - 1);
		if (!skb || !before(TCP_SKB_CB(skb)->seq, seq - n))
			break;
		n = min(enough, seq - TCP_SKB_CB(skb)->seq);
	}
	return n;
}

/*
 * Find the contiguous out-of-order octets that include the newest: the first
 * SACK block (RFC 2018 section 4). TCP remembers at most four blocks, so octets
 * of forgotten blocks may adjoin this block: include up to @edge octets on
 * either side. The cost does not grow with the queue. Return false if TCP has
 * forgotten all blocks.
 */
bool mpa_tcp_ooo_newest(struct sock *sk, u32 edge, struct mpa_island *island)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 max = edge;

	if (!tp->rx_opt.num_sacks)
		return false;
	island->start = tp->selective_acks[0].start_seq;
	island->end = tp->selective_acks[0].end_seq;
	island->start -= mpa_ooo_before(sk, island->start, edge);
	island->end += min(edge,
			   mpa_tcp_ooo_contiguous(sk, island->end, edge, &max));
	return true;
}

/*
 * Return where the contiguous octets from @seq end, in @skb and later skbs; or
 * @seq if there are none. Stop at @far, or after @max skbs; decrement @max for
 * each.
 */
static u32 mpa_ooo_follow(struct sk_buff *skb, u32 seq, u32 far, u32 *max)
{
	for (; skb && *max && !after(TCP_SKB_CB(skb)->seq, seq) &&
	     before(seq, far); skb = skb_rb_next(skb), --*max)
		if (after(mpa_ooo_octets_end(skb), seq))
			seq = mpa_ooo_octets_end(skb);
	return seq;
}

/* Find the first out-of-order island that ends after @seq, or return false. */
bool mpa_tcp_ooo_next(struct sock *sk, u32 seq, struct mpa_island *island)
{
	struct sk_buff *skb = mpa_ooo_find(sk, seq);
	u32 all = U32_MAX;

	if (!skb)
		return false;
	island->start = TCP_SKB_CB(skb)->seq;
	island->end = mpa_ooo_follow(skb, island->start,
				     island->start + S32_MAX, &all);
	return true;
}

/*
 * Count the contiguous out-of-order octets from @seq, up to @enough. Inspect at
 * most @max skbs, as each may have only one octet; decrement @max for each.
 */
u32 mpa_tcp_ooo_contiguous(struct sock *sk, u32 seq, u32 enough, u32 *max)
{
	return mpa_ooo_follow(mpa_ooo_find(sk, seq), seq, seq + enough, max) -
	       seq;
}
