// SPDX-License-Identifier: GPL-2.0
/*
 * TCP's internals: what has arrived out of order; how it is noticed, and where
 * it is.
 *
 * TCP calls nobody when it puts a segment into its out-of-order queue. Two
 * places see each of them, soon and with the socket lock held:
 *
 * - the ACK for the first one, which TCP sends at once, on its way to IP:
 *   mpa_tcp_ooo_acked(). It comes in the middle of other work, so it only
 *   queues the work item, and asks for
 * - sk_write_space, which TCP calls after each segment that is not in order,
 *   while a user waits for room to send: SOCK_NOSPACE, which is set for this
 *   purpose as long as the queue is not empty. A task that polls for room with
 *   EPOLLET is woken by each such segment, if there is room.
 *
 * If there was no memory for that ACK, TCP sends it TCP_DELACK_MAX later, and
 * the first segment is seen then, or when another one arrives.
 *
 * While a user holds the socket, segments wait in the backlog; they get here
 * when the lock is released.
 */

#include <linux/tcp.h>
#include <net/tcp.h>

#include "mpa_tcp.h"

void (*mpa_ooo_arrived)(struct sock *sk) __ro_after_init;

/*
 * Set the function to call when something is out of order on a socket that
 * mpa_tcp_ooo_track() tracks: with the socket lock held, maybe in softirq, and
 * in the middle of anything, so that it may only queue work. At module init.
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
/*
 * Track segments out of order. The caller searches old ones. Process context.
 */
void mpa_tcp_ooo_track(struct sock *sk, bool on)
{
	struct mpa_tcp *tcp = mpa_tcp(sk);

	tcp->ooo_tracked = on;
	tcp->ooo_seen = tcp_sk(sk)->rcv_ooopack;
	mpa_tcp_ooo_ask(sk);
}

/*
 * Have sk_write_space called after each segment, while something is out of
 * order: sk_write_space asks again. Return: false if that was asked before.
 */
bool mpa_tcp_ooo_ask(struct sock *sk)
{
	return mpa_tcp(sk)->ooo_tracked && !mpa_ooo_empty(sk) && sk->sk_socket &&
	       !test_and_set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
}

/*
 * A packet leaves: has something arrived out of order? TCP also sends an ACK
 * while it queues a segment, when it has no room for another SACK block.
 */
void mpa_tcp_ooo_acked(struct sock *sk)
{
	if (tcp_sk(sk)->rcv_ooopack != mpa_tcp(sk)->ooo_seen &&
	    mpa_tcp_ooo_ask(sk))
		mpa_ooo_arrived(sk);
}
#endif

/* Whether something has arrived out of order since the last call. */
bool mpa_tcp_ooo_new(struct sock *sk)
{
	u32 arrived = tcp_sk(sk)->rcv_ooopack;
	struct mpa_tcp *tcp = mpa_tcp(sk);

	if (arrived == tcp->ooo_seen)
		return false;
	tcp->ooo_seen = arrived;
	return !mpa_ooo_empty(sk);
}

/* A FIN has a sequence number, but is no octet. */
static u32 mpa_ooo_octets_end(const struct sk_buff *skb)
{
	return TCP_SKB_CB(skb)->seq + skb->len;
}

/*
 * Sequence number after all that is out of order, or mpa_tcp_rcv_nxt(). For
 * lack of room TCP drops from there. As long as it has not, mpa_ooo_holds() the
 * one before, be it an octet's or a FIN's.
 */
u32 mpa_tcp_ooo_end(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return mpa_ooo_empty(sk) ? tp->rcv_nxt :
				   TCP_SKB_CB(tp->ooo_last_skb)->end_seq;
}

/*
 * Get the segments, as far as TCP keeps them together, in which octets out of
 * order came. TCP may have cut octets off, and the driver may have joined
 * segments: the numbers are theirs. Return: false if no segment is known to
 * begin at @seq.
 */
bool mpa_tcp_ooo_segments(struct sock *sk, u32 seq,
			  struct mpa_segments *segments)
{
	const struct sk_buff *skb = mpa_ooo_find(sk, seq);
	const struct skb_shared_info *shinfo;

	if (!skb || TCP_SKB_CB(skb)->seq != seq)
		return false;
	shinfo = skb_shinfo(skb);
	/* Without room for headers, TCP has allocated it: tcp_collapse(). */
	segments->nr = skb_headroom(skb) ? max_t(u32, shinfo->gso_segs, 1) : 0;
	segments->octets = skb->len;
	segments->each = 0;
	if (!shinfo->gso_size || !segments->nr)
		return true;
	/* From the other side of a virtual machine: nobody has counted. */
	if (!shinfo->gso_segs)
		segments->nr = DIV_ROUND_UP(skb->len, shinfo->gso_size);
	/* Rarely equal if other segments were joined to it. */
	if (DIV_ROUND_UP(skb->len, shinfo->gso_size) == segments->nr)
		segments->each = shinfo->gso_size;
	return true;
}

/* The number of contiguous octets that end before @seq, up to @enough. */
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
 * mpa_tcp_ooo_newest() - find the contiguous octets that include the newest of
 *		those out of order
 * @sk:		socket
 * @edge:	octets before the newest and after them to include, if they are
 *		there
 * @island:	filled in
 *
 * The first SACK block, RFC 2018 section 4. More may be before and after it, of
 * blocks that TCP has forgotten, as it remembers four. When TCP drops octets it
 * forgets all others. The cost does not depend on the queue.
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
	island->alone = tp->rx_opt.num_sacks == 1;
	island->start -= mpa_ooo_before(sk, island->start, edge);
	island->end += min(edge,
			   mpa_tcp_ooo_contiguous(sk, island->end, edge, &max));
	return true;
}

/*
 * The end of the contiguous octets from @skb on, if it holds that at @seq.
 * Stops at @far, and after @max skbs, which is reduced by those inspected.
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
 * Find the first contiguous octets out of order, all of them, that end after
 * @seq. Return: false if there are none.
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
	island->alone = false;
	return true;
}

/**
 * mpa_tcp_ooo_contiguous() - count contiguous octets out of order
 * @sk:		socket
 * @seq:	sequence number of the first
 * @enough:	stop at this number of octets
 * @max:	skbs to inspect, which may hold one octet each; reduced
 *		by those inspected
 */
u32 mpa_tcp_ooo_contiguous(struct sock *sk, u32 seq, u32 enough, u32 *max)
{
	return mpa_ooo_follow(mpa_ooo_find(sk, seq), seq, seq + enough, max) -
	       seq;
}

/* mpa_tcp_ooo_contiguous() from where a cursor begins, after mpa_tcp_rcv_nxt(). */
u32 mpa_tcp_ooo_contiguous_at(const struct mpa_cursor *at, u32 enough, u32 *max)
{
	return mpa_ooo_follow(at->skb, at->seq, at->seq + enough, max) -
	       at->seq;
}
