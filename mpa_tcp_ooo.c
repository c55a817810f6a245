// SPDX-License-Identifier: GPL-2.0
/*
 * TCP's internals: the out-of-order queue; how new segments are noticed and
 * found.
 *
 * TCP calls no hook when it queues a segment out of order. Two other calls
 * notice each one soon, with the socket lock held:
 *
 * - mpa_tcp_ooo_acked(), when TCP passes the ACK for the first one to IP, at
 *   once. It interrupts other work, so it only queues the work item and sets
 *   SOCK_NOSPACE.
 * - sk_write_space, which TCP calls after each out-of-order segment while
 *   SOCK_NOSPACE is set. It is kept set as long as the queue is not empty. So
 *   an EPOLLET waiter for EPOLLOUT is woken by each such segment, if there is
 *   room.
 *
 * Without memory for that ACK, TCP sends it TCP_DELACK_MAX later, and the first
 * segment is noticed then, or when another one arrives.
 *
 * While a user holds the socket lock, segments wait in the backlog until it is
 * released.
 */

#include <linux/tcp.h>
#include <net/tcp.h>

#include "mpa_tcp.h"

void (*mpa_ooo_arrived)(struct sock *sk) __ro_after_init;

/*
 * Set the function to call when octets arrive out of order on a socket that
 * mpa_tcp_ooo_track() tracks. It is called with the socket lock held, maybe in
 * softirq, and may only queue work. At module init.
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
/* Track new out-of-order segments if @on, not those queued. Process context. */
void mpa_tcp_ooo_track(struct sock *sk, bool on)
{
	struct mpa_tcp *tcp = mpa_tcp(sk);

	tcp->ooo_tracked = on;
	tcp->ooo_seen = tcp_sk(sk)->rcv_ooopack;
	mpa_tcp_ooo_ask(sk);
}

/*
 * Make TCP call sk_write_space after the next out-of-order segment; that calls
 * this again. Return: whether this set SOCK_NOSPACE.
 */
bool mpa_tcp_ooo_ask(struct sock *sk)
{
	return mpa_tcp(sk)->ooo_tracked && !mpa_ooo_empty(sk) && sk->sk_socket &&
	       !test_and_set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
}

/*
 * Called for each packet passed to IP, to notice new segments. TCP may call it
 * while it queues a segment: it sends an ACK if all SACK blocks are in use.
 */
void mpa_tcp_ooo_acked(struct sock *sk)
{
	if (tcp_sk(sk)->rcv_ooopack != mpa_tcp(sk)->ooo_seen &&
	    mpa_tcp_ooo_ask(sk))
		mpa_ooo_arrived(sk);
}
#endif

/* Whether segments have arrived out of order since the last call, and some are queued. */
bool mpa_tcp_ooo_new(struct sock *sk)
{
	u32 arrived = tcp_sk(sk)->rcv_ooopack;
	struct mpa_tcp *tcp = mpa_tcp(sk);

	if (arrived == tcp->ooo_seen)
		return false;
	tcp->ooo_seen = arrived;
	return !mpa_ooo_empty(sk);
}

/* The end of an skb's octets. Unlike end_seq, it does not count a FIN. */
static u32 mpa_ooo_octets_end(const struct sk_buff *skb)
{
	return TCP_SKB_CB(skb)->seq + skb->len;
}

/*
 * Get the segments of the out-of-order skb that begins at @seq, as they are
 * after trimming by TCP and merging by the driver (GRO). Return: false if no
 * segment is known to begin at @seq.
 */
bool mpa_tcp_ooo_segments(struct sock *sk, u32 seq,
			  struct mpa_segments *segments)
{
	const struct sk_buff *skb = mpa_ooo_find(sk, seq);
	const struct skb_shared_info *shinfo;

	if (!skb || TCP_SKB_CB(skb)->seq != seq)
		return false;
	shinfo = skb_shinfo(skb);
	/*
	 * No headroom: it is from tcp_collapse(), and its segments are unknown.
	 */
	segments->nr = skb_headroom(skb) ? max_t(u32, shinfo->gso_segs, 1) : 0;
	segments->octets = skb->len;
	segments->each = 0;
	if (!shinfo->gso_size || !segments->nr)
		return true;
	/* From virtio, gso_segs may not be set (SKB_GSO_DODGY). */
	if (!shinfo->gso_segs)
		segments->nr = DIV_ROUND_UP(skb->len, shinfo->gso_size);
	/* After coalescing these rarely agree. */
	if (DIV_ROUND_UP(skb->len, shinfo->gso_size) == segments->nr)
		segments->each = shinfo->gso_size;
	return true;
}

/* Count contiguous octets directly before @seq, up to @enough. */
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

/**
 * mpa_tcp_ooo_newest() - find the contiguous out-of-order octets that include
 * the newest
 * @sk:		socket
 * @edge:	number of octets to include on either side of these, if present
 * @island:	filled in
 *
 * This is the first SACK block, RFC 2018 section 4. Octets of forgotten blocks
 * may adjoin it, as TCP remembers four. Pruning makes TCP forget all other
 * blocks. The cost does not grow with the queue.
 *
 * Return: false if TCP has forgotten all blocks.
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
 * The end of the contiguous octets from @seq on, in @skb and those after it; or
 * @seq. Stops at @far or after @max skbs; each one inspected decrements @max.
 */
static u32 mpa_ooo_follow(struct sk_buff *skb, u32 seq, u32 far, u32 *max)
{
	for (; skb && *max && !after(TCP_SKB_CB(skb)->seq, seq) &&
	     before(seq, far); skb = skb_rb_next(skb), --*max)
		if (after(mpa_ooo_octets_end(skb), seq))
			seq = mpa_ooo_octets_end(skb);
	return seq;
}

/*
 * Find the first out-of-order island, in full, that ends after @seq. Return:
 * false if there are none.
 */
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

/**
 * mpa_tcp_ooo_contiguous() - count contiguous octets out of order
 * @sk:		socket
 * @seq:	sequence number of the first octet
 * @enough:	stop at this number of octets
 * @max:	maximum number of skbs to inspect, as each may have only one octet;
 *		decremented for each
 */
u32 mpa_tcp_ooo_contiguous(struct sock *sk, u32 seq, u32 enough, u32 *max)
{
	return mpa_ooo_follow(mpa_ooo_find(sk, seq), seq, seq + enough, max) -
	       seq;
}
