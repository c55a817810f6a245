// SPDX-License-Identifier: GPL-2.0
/* TCP glue, sending: EMSS, passing octets to TCP, segments. */

#include <linux/tcp.h>
#include <net/tcp.h>

#include "mpa_tcp.h"

/* Return the octets that SACK blocks for the peer take from each segment. */
static u32 mpa_tcp_sack_len(const struct tcp_sock *tp)
{
	u32 room = MAX_TCP_OPTION_SPACE + sizeof(struct tcphdr) -
		   tp->tcp_header_len;
	u32 blocks = tp->rx_opt.num_sacks + tp->rx_opt.dsack;

	if (!blocks || room < TCPOLEN_SACK_BASE_ALIGNED + TCPOLEN_SACK_PERBLOCK)
		return 0;
	blocks = min_t(u32, blocks, (room - TCPOLEN_SACK_BASE_ALIGNED) /
				    TCPOLEN_SACK_PERBLOCK);
	return TCPOLEN_SACK_BASE_ALIGNED + blocks * TCPOLEN_SACK_PERBLOCK;
}

/* Return the EMSS before rounding, as if no SACK blocks were sent. Lockless. */
u32 mpa_tcp_path_mss(const struct sock *sk, const struct mpa_tcp *tcp)
{
	return READ_ONCE(tcp_sk(sk)->mss_cache) + READ_ONCE(tcp->less) -
	       READ_ONCE(tcp->watch.options);
}

/* Return the EMSS before rounding. Lockless. */
u32 mpa_tcp_emss_full(const struct sock *sk, const struct mpa_tcp *tcp)
{
	return mpa_tcp_path_mss(sk, tcp) - mpa_tcp_sack_len(tcp_sk(sk));
}

#ifndef MPA_HAVE_ULP_HOOKS
/* Return the effective maximum segment size (EMSS). Lockless. */
u32 mpa_tcp_emss_now(const struct sock *sk)
{
	const struct mpa_tcp *tcp = mpa_tcp(sk);

	return mpa_tcp_emss_full(sk, tcp) - tcp->less;
}
#endif

/* Return the octets of a packet's options beyond tcp_header_len and SACK blocks. */
u32 mpa_tcp_other_options(const struct sock *sk, const struct tcphdr *th)
{
	return max_t(int, __tcp_hdrlen(th) - tcp_sk(sk)->tcp_header_len -
			  mpa_tcp_sack_len(tcp_sk(sk)), 0);
}

/* Check for a changed path MTU. Return the EMSS. Process context. */
u32 mpa_tcp_emss(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct dst_entry *dst;

	/* Look up a changed route now, not when segments are sent. */
	icsk->icsk_af_ops->rebuild_header(sk);
	dst = __sk_dst_get(sk);
	if (dst) {
		u32 mtu = dst_mtu(dst);

		if (mtu != icsk->icsk_pmtu_cookie)
			icsk->icsk_sync_mss(sk, mtu);
	}
	return mpa_tcp_emss_now(sk);
}

#ifndef MPA_HAVE_ULP_HOOKS
static void mpa_tcp_lower_mss(struct sock *sk, u32 less)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct mpa_tcp *tcp = mpa_tcp(sk);

	if (less == tcp->less)
		return;
	/* If IPv6 options were set since, our part of the value is gone. */
	if (icsk->icsk_ext_hdr_len == tcp->ext_hdr_len)
		icsk->icsk_ext_hdr_len -= tcp->less;
	icsk->icsk_ext_hdr_len += less;
	WRITE_ONCE(tcp->less, less);
	tcp->ext_hdr_len = icsk->icsk_ext_hdr_len;
	icsk->icsk_sync_mss(sk, icsk->icsk_pmtu_cookie);
}

/* Process context. */
void mpa_tcp_unfit(struct sock *sk)
{
	mpa_tcp_lower_mss(sk, 0);
}

/* Round the MSS down to a multiple of @unit. @emss: EMSS before rounding. */
void mpa_tcp_round_mss(struct sock *sk, u32 emss, u32 unit)
{
	mpa_tcp_lower_mss(sk, emss % unit);
	/* Do not round if another limit applies, such as half a small window. */
	if (mpa_tcp_emss(sk) != emss - emss % unit)
		mpa_tcp_unfit(sk);
}
#endif

/*
 * Round the MSS down to a multiple of @unit: the FPDUs' length, or 4 if they
 * differ in length. TCP cuts an skb at multiples of the MSS, so FPDUs of one
 * length can share an skb, and use TSO, only if the MSS is a multiple of that
 * length. This costs no segments, as a segment never ends with a part of an
 * FPDU anyway.
 *
 * Context: process, socket lock held. The new MSS must not cut FPDUs that are
 * already in TCP's queue. Return: the resulting EMSS.
 */
u32 mpa_tcp_fit(struct sock *sk, u32 unit)
{
	u32 emss;

	mpa_tcp_unfit(sk);
	emss = mpa_tcp_emss(sk);
	mpa_tcp_round_mss(sk, emss, unit <= emss ? unit : 4);
	return mpa_tcp_emss(sk);
}

u32 mpa_tcp_unsent(const struct sock *sk)
{
	return tcp_sk(sk)->write_seq - tcp_sk(sk)->snd_nxt;
}

u32 mpa_tcp_unacked(const struct sock *sk)
{
	return tcp_sk(sk)->write_seq - tcp_sk(sk)->snd_una;
}

/* Return TCP's last skb if TCP may append the next octets to it, else NULL. */
const struct sk_buff *mpa_tcp_tail(const struct sock *sk)
{
	const struct sk_buff *skb = tcp_write_queue_tail(sk);

	return skb && tcp_skb_can_collapse_to(skb) ? skb : NULL;
}

/*
 * Whether the last @len octets in TCP's queue are in our memory, at @data. TCP
 * has copied the octets if the device does not support fragments.
 */
bool mpa_tcp_tail_holds(const struct sock *sk, const u8 *data, u32 len)
{
	const struct sk_buff *skb = tcp_write_queue_tail(sk);
	u32 at, i;

	if (!skb)
		return false;
	at = skb_headlen(skb);
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = skb_shinfo(skb)->frags + i;
		const u8 *begin = skb_frag_address(frag);

		if (data >= begin && data < begin + skb_frag_size(frag))
			return at + (data - begin) + len == skb->len;
		at += skb_frag_size(frag);
	}
	return false;
}

/* Make the next octets start an skb, and so a segment. */
void mpa_tcp_end_segment(struct sock *sk)
{
	struct sk_buff *skb = tcp_write_queue_tail(sk);

	if (skb)
		TCP_SKB_CB(skb)->eor = 1;
}

/*
 * Make a segment start @len octets after the end (@seq) of the send head, which
 * TCP is sending.
 */
void mpa_tcp_split(struct sock *sk, u32 seq, u32 len)
{
	struct sk_buff *skb = tcp_send_head(sk);

	if (!skb || TCP_SKB_CB(skb)->end_seq != seq || tcp_skb_is_last(sk, skb))
		return;
	skb = skb_queue_next(&sk->sk_write_queue, skb);
	if (TCP_SKB_CB(skb)->seq != seq || skb->len < len || skb_headlen(skb))
		return;
	if (skb->len > len)
		mpa_tcp_split_skb(sk, skb, len);
	TCP_SKB_CB(skb)->eor = 1;
}

/* Restore the user's TCP_CORK and TCP_NODELAY. */
void mpa_tcp_uncork(struct sock *sk, struct mpa_window *window)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!window->corked)
		return;
	window->corked = false;
	tp->nonagle &= ~TCP_NAGLE_CORK;
	if (!(tp->nonagle & TCP_NAGLE_OFF))
		tp->nonagle &= ~TCP_NAGLE_PUSH;
}

#ifndef MPA_HAVE_ULP_HOOKS
/*
 * Split an skb in the send queue, as tso_fragment() does: octets from @len on
 * move to a new skb. Do nothing without memory, or if a timestamp is requested
 * for the skb.
 */
void mpa_tcp_split_skb(struct sock *sk, struct sk_buff *skb, u32 len)
{
	struct tcp_skb_cb *cb = TCP_SKB_CB(skb);
	struct sk_buff *rest;

	if (cb->txstamp_ack || skb_shinfo(skb)->tx_flags & SKBTX_ANY_TSTAMP)
		return;
	rest = alloc_skb_fclone(MAX_TCP_HEADER, GFP_ATOMIC | __GFP_NOWARN);
	if (!rest)
		return;
	skb_reserve(rest, MAX_TCP_HEADER);
	rest->ip_summed = CHECKSUM_PARTIAL;
	INIT_LIST_HEAD(&rest->tcp_tsorted_anchor);
	mpa_tcp_force(sk, rest->truesize);
	sk_wmem_queued_add(sk, rest->truesize);
	sk_mem_charge(sk, rest->truesize);
	rest->truesize += skb->len - len;
	skb->truesize -= skb->len - len;

	/* TCP counts the segments when it sends the skbs. */
	tcp_skb_pcount_set(skb, 0);
	*TCP_SKB_CB(rest) = *cb;
	TCP_SKB_CB(rest)->seq += len;
	cb->end_seq = TCP_SKB_CB(rest)->seq;
	cb->tcp_flags &= ~(TCPHDR_FIN | TCPHDR_PSH);
	skb_split(skb, rest, len);
	__skb_header_release(rest);
	__skb_queue_after(&sk->sk_write_queue, skb, rest);
}

/* Whether TCP's queue and @more octets extend beyond the peer's window. */
static bool mpa_tcp_beyond(const struct sock *sk, u32 more)
{
	return after(tcp_sk(sk)->write_seq + more, tcp_wnd_end(tcp_sk(sk)));
}

/*
 * Cork the socket, unless the user has corked it. Without corking TCP cuts a
 * segment at the edge of the peer's window; corked, TCP cuts only at multiples
 * of the MSS. Corking holds a short last skb, but with the "push" flag TCP
 * sends it. Cork only as long as needed: while corked, each short last skb
 * costs a segment.
 *
 * With @hold, do not set "push": TCP holds a segment that is not full. MSG_MORE
 * alone would hold it only until the next ACK.
 */
static void mpa_tcp_cork(struct sock *sk, struct mpa_window *window, bool hold)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (window->borrowed || (!window->corked && tp->nonagle & TCP_NAGLE_CORK))
		return;
	window->corked = true;
	tp->nonagle |= TCP_NAGLE_CORK | TCP_NAGLE_PUSH;
	if (hold)
		tp->nonagle &= ~TCP_NAGLE_PUSH;
}

/*
 * Let TCP send when the lock is released. @more: more octets follow soon, so
 * hold a segment that is not full. Process context.
 */
void mpa_tcp_push(struct sock *sk, struct mpa_window *window, bool more)
{
	struct sk_buff *skb = tcp_write_queue_tail(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	window->more = more && tcp_send_head(sk);
	/*
	 * Nagle's algorithm applies to small calls only: do not delay the last
	 * octets of a longer call, or of a batch, until the segments before
	 * them are acknowledged. TCP clears TCP_NAGLE_PUSH with the next skb.
	 */
	if (skb && !more && !tp->nonagle &&
	    before(window->since, TCP_SKB_CB(skb)->seq)) {
		tp->nonagle = TCP_NAGLE_PUSH;
		window->pushed = false;
	}
	if (window->pushed) {
		window->pushed = false;
		return;
	}
	if (window->more || mpa_tcp_beyond(sk, 0))
		mpa_tcp_cork(sk, window, window->more);
	else
		mpa_tcp_uncork(sk, window);
	/* Nothing else arms the probe timer: TCP has not tried to send. */
	if (tcp_send_head(sk))
		tcp_check_probe_timer(sk);
	if (!skb || more)
		return;
	TCP_SKB_CB(skb)->tcp_flags |= TCPHDR_PSH;
	tp->pushed_seq = tp->write_seq;
	if (!test_and_set_bit(TCP_TSQ_DEFERRED, &sk->sk_tsq_flags))
		sock_hold(sk);
}
#endif

/* Whether the send buffer or TCP's last packet has room. */
bool mpa_tcp_writable(struct sock *sk)
{
	const struct sk_buff *skb;

	if (sk_stream_memory_free(sk))
		return true;
	skb = mpa_tcp_tail(sk);
	return skb && sk->sk_wmem_queued - (int)skb->truesize < sk->sk_sndbuf &&
	       (s64)mpa_tcp_unsent(sk) - skb->len <
	       tcp_notsent_lowat(tcp_sk(sk)) &&
	       skb->len < mpa_tcp_packet_max(sk);
}

/* Whether the user has corked TCP, and TCP has octets to send. */
bool mpa_tcp_user_corks(const struct sock *sk, const struct mpa_window *window)
{
	return tcp_sk(sk)->nonagle & TCP_NAGLE_CORK && !window->corked &&
	       tcp_send_head(sk);
}

/*
 * Whether the send buffer has room. If not, TCP will call sk_write_space.
 * Lockless, process context.
 */
bool mpa_tcp_want_writable(struct sock *sk)
{
	sk_set_bit(SOCKWQ_ASYNC_NOSPACE, sk);
	if (sk->sk_socket)
		set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	return sk_stream_memory_free(sk);
}

/* Call TCP's sk_write_space, without counting the octets of @open (or NULL). */
void mpa_tcp_write_space(struct sock *sk, const struct mpa_txbuf *open,
			 void (*write_space)(struct sock *sk))
{
	int charged = open ? open->charged : 0;

	sk_wmem_queued_add(sk, -charged);
	write_space(sk);
	sk_wmem_queued_add(sk, charged);
}

/* Return the octets of full segments that TCP sends as one packet (TSO). */
u32 mpa_tcp_packet_max(struct sock *sk)
{
	u32 emss = mpa_tcp_emss_now(sk);
	u32 segs = tcp_bound_to_half_wnd(tcp_sk(sk), sk->sk_gso_max_size) /
		   emss;

	return max_t(u32, min_t(u32, segs, sk->sk_gso_max_segs), 1) * emss;
}

#ifndef MPA_HAVE_ULP_HOOKS
/*
 * Return how many octets to pass to TCP in one call, so that the call ends with
 * a full skb. If the call continued, TCP would send the skb even if corked, and
 * cut it at the window's edge.
 */
static u32 mpa_tcp_call_max(struct sock *sk)
{
	const struct sk_buff *skb = mpa_tcp_tail(sk);
	u32 goal = mpa_tcp_packet_max(sk);

	if (!skb)
		return goal;
	if (skb->len < goal)
		return goal - skb->len;
	/* The skb is full: do not let TCP add to it. */
	if (skb->len % mpa_tcp_emss_now(sk) == 0)
		mpa_tcp_end_segment(sk);
	return goal;
}
#endif

/* Count the fragments of an skb: some kernels use one for each page. */
u32 mpa_tcp_frags(const struct mpa_txbuf *out)
{
#if defined(MPA_HAVE_SENDPAGE) || defined(MPA_HAVE_ULP_HOOKS)
	return out->nr;
#else
	u32 frags = 0, i;

	for (i = 0; i < out->nr; i++)
		frags += DIV_ROUND_UP(offset_in_page(out->frag[i].bv_offset) +
				      out->frag[i].bv_len, PAGE_SIZE);
	return frags;
#endif
}

/* Return how many contiguous octets fit into an skb after @frags fragments and @out. */
u32 mpa_tcp_frag_room(const struct mpa_txbuf *out, u32 frags)
{
	u32 max = MPA_SKB_FRAGS;

	frags += mpa_tcp_frags(out) + 1;
	if (frags >= max)
		return 0;
#if defined(MPA_HAVE_SENDPAGE) || defined(MPA_HAVE_ULP_HOOKS)
	return U32_MAX;
#else
	return (max - frags) * PAGE_SIZE;
#endif
}

#ifndef MPA_HAVE_ULP_HOOKS
/* Without the hooks, mpa_tcp_send_accepted() overrides TCP's checks. */
#define MSG_COMMITTED	0
#endif

/* The pages no longer change, so TCP needs no copy for a checksum. */
#define MPA_SEND_FLAGS	(MSG_COMMITTED | MSG_DONTWAIT | \
			 MSG_NOSIGNAL | MSG_NO_SHARED_FRAGS)

/*
 * Pass up to @n octets to TCP, by reference to their pages. @push applies to
 * the last octet.
 */
#ifdef MPA_HAVE_SENDPAGE
static int mpa_tcp_send_some(struct sock *sk, struct mpa_txbuf *out, u32 n,
			     enum mpa_push push)
{
	const struct bio_vec *frag = out->frag;
	int flags = MPA_SEND_FLAGS;
	u32 skip = out->sent, left;

	while (skip >= frag->bv_len)
		skip -= frag++->bv_len;
	left = frag->bv_len - skip;
	if (left > tcp_sk(sk)->mss_cache)
		left = min(left, mpa_tcp_call_max(sk));
	if (left < n || push != MPA_PUSH_ALL)
		flags |= MSG_MORE;
	if (left < n || push == MPA_PUSH_NOT)
		flags |= MSG_SENDPAGE_NOTLAST;
	return tcp_sendpage_locked(sk, frag->bv_page, frag->bv_offset + skip,
				   min(left, n), flags);
}
#else
static int mpa_tcp_send_some(struct sock *sk, struct mpa_txbuf *out, u32 n,
			     enum mpa_push push)
{
	struct msghdr msg = {
		.msg_flags = MPA_SEND_FLAGS | MSG_SPLICE_PAGES,
	};

	if (push != MPA_PUSH_ALL)
		msg.msg_flags |= MSG_MORE;
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, out->frag, out->nr,
		      out->len);
	iov_iter_advance(&msg.msg_iter, out->sent);
	iov_iter_truncate(&msg.msg_iter, n);
	return tcp_sendmsg_locked(sk, &msg, n);
}
#endif

static int mpa_tcp_send_all(struct sock *sk, struct mpa_txbuf *out,
			    enum mpa_push push)
{
	while (out->sent < out->len) {
		u32 n = out->len - out->sent;
		int ret;

		if (out->split == out->sent) {
			mpa_tcp_end_segment(sk);
			out->split = MPA_SPLIT_NOT;
			if (unlikely(out->piece))
				out->split = out->sent + out->piece(sk, out);
		}
		if (out->split > out->sent)
			n = min(n, out->split - out->sent);
#ifndef MPA_HAVE_ULP_HOOKS
		if (mpa_tcp_beyond(sk, n))
			n = min(n, mpa_tcp_call_max(sk));
#endif
		ret = mpa_tcp_send_some(sk, out, n,
					out->sent + n == out->len ?
					push : MPA_PUSH_FULL);
		if (ret <= 0)
			return ret ?: -EAGAIN;
		out->sent += ret;
	}
	return 0;
}

static bool mpa_tcp_can_send(const struct sock *sk)
{
	return (1 << sk->sk_state) &
	       (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT | TCPF_SYN_RECV);
}

/* Return an upper bound of the truesize of the skbs for @out. */
static u32 mpa_tcp_truesize(struct sock *sk, const struct mpa_txbuf *out)
{
	u32 skbs = out->len / mpa_tcp_packet_max(sk) +
		   mpa_tcp_frags(out) / mpa_skb_frags_max() + 3;

	return out->len + skbs * SKB_TRUESIZE(MAX_TCP_HEADER);
}

#ifdef MPA_HAVE_ULP_HOOKS
static int mpa_tcp_send_accepted(struct sock *sk, struct mpa_txbuf *out,
				 struct mpa_window *window,
				 enum mpa_push *push)
{
	int err = mpa_tcp_send_all(sk, out, *push);
	u32 sent;

	while (err == -EAGAIN) {
		sent = out->sent;
		mpa_tcp_force(sk, mpa_tcp_truesize(sk, out));
		err = mpa_tcp_send_all(sk, out, *push);
		if (out->sent == sent)
			break;
	}
	return err;
}
#else
/*
 * Clear the pending error while octets are passed to TCP, as TCP would refuse
 * the octets and drop the error. An error that does not end the connection
 * (IP_RECVERR) must not block accepted octets, and must not be lost.
 */
static int mpa_tcp_save_error(struct sock *sk)
{
	return sk->sk_err ? xchg(&sk->sk_err, 0) : 0;
}

/*
 * Restore the pending error. If @err has ended the connection, make @err
 * pending instead, and return -EPIPE.
 */
static int mpa_tcp_restore_error(struct sock *sk, int saved, int err)
{
	if (err && err != -EAGAIN && mpa_tcp_gone(sk)) {
		if (err != -EPIPE)
			saved = -err;
		err = -EPIPE;
	}
	if (saved && !cmpxchg(&sk->sk_err, 0, saved))
		sk_error_report(sk);
	return err;
}

/* Whether the octets might not fit: an FPDU can exceed the send buffer. */
static bool mpa_tcp_fills(struct sock *sk, const struct mpa_txbuf *out)
{
	return sk->sk_sndbuf - sk->sk_wmem_queued <=
	       (int)mpa_tcp_truesize(sk, out) ||
	       mpa_tcp_unsent(sk) + out->len >= tcp_notsent_lowat(tcp_sk(sk));
}

/*
 * Pass all octets to TCP. They were accepted before, so exceed the send buffer
 * and the limits of memory if necessary.
 */
static int mpa_tcp_send_unbounded(struct sock *sk, struct mpa_txbuf *out,
				  enum mpa_push push)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 lowat = tp->notsent_lowat;
	int sndbuf = sk->sk_sndbuf;
	int err = -EAGAIN;
	u32 sent;

	if (!mpa_tcp_fills(sk, out))
		err = mpa_tcp_send_all(sk, out, push);
	if (err != -EAGAIN)
		return err;
	/* Others read these variables without the lock. */
	WRITE_ONCE(tp->notsent_lowat, UINT_MAX);
	do {
		sent = out->sent;
		mpa_tcp_force(sk, mpa_tcp_truesize(sk, out));
		WRITE_ONCE(sk->sk_sndbuf, INT_MAX);
		err = mpa_tcp_send_all(sk, out, push);
	} while (err == -EAGAIN && out->sent != sent);
	WRITE_ONCE(tp->notsent_lowat, lowat);
	/* Keep a smaller value: TCP lowers sk_sndbuf under memory pressure. */
	if (sk->sk_sndbuf > sndbuf)
		WRITE_ONCE(sk->sk_sndbuf, sndbuf);
	return err;
}

static int mpa_tcp_send_accepted(struct sock *sk, struct mpa_txbuf *out,
				 struct mpa_window *window,
				 enum mpa_push *push)
{
	int saved, shut, err;

	/*
	 * Hold the octets until mpa_tcp_push(), so that TCP does not cut them
	 * at the window's edge when ACKs arrive.
	 */
	if (mpa_tcp_beyond(sk, out->len - out->sent)) {
		mpa_tcp_cork(sk, window, true);
		if (*push == MPA_PUSH_ALL)
			*push = MPA_PUSH_FULL;
	} else if (*push == MPA_PUSH_ALL) {
		mpa_tcp_uncork(sk, window);
	}
	saved = mpa_tcp_save_error(sk);
	/*
	 * With SEND_SHUTDOWN, which shutdown(2) sets first, TCP would accept no
	 * octets.
	 */
	shut = sk->sk_shutdown & SEND_SHUTDOWN;
	if (shut)
		WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown & ~SEND_SHUTDOWN);
	err = mpa_tcp_send_unbounded(sk, out, *push);
	if (shut)
		WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | SEND_SHUTDOWN);
	return mpa_tcp_restore_error(sk, saved, err);
}
#endif

/*
 * Pass the octets in @out to TCP, without waiting; @out->sent counts the octets
 * that TCP has taken and charged. Exceed the send buffer and the limits of
 * memory if necessary: the caller checks both before it starts an FPDU. Keep a
 * pending error of the connection for the user.
 *
 * Context: process, socket lock held. TCP may process the backlog meanwhile, so
 * the receive queue can change. Return: 0 if TCP has taken all octets, -EPIPE
 * if the connection accepts no more, or -ENOBUFS without memory for an skb.
 */
int mpa_tcp_send(struct sock *sk, struct mpa_txbuf *out,
		 struct mpa_window *window, enum mpa_push push)
{
	int err;

	if (!mpa_tcp_can_send(sk))
		return -EPIPE;
	mpa_tcp_pass_charge(sk, out);
	/* At a control group's limit TCP would sleep or call the OOM killer. */
	if (mpa_in_work_item(sk))
		mpa_tcp_force(sk, mpa_tcp_truesize(sk, out) + PAGE_SIZE);
	err = mpa_tcp_send_accepted(sk, out, window, &push);
	window->pushed = push == MPA_PUSH_ALL && !err;
	/* Release the excess reservation, or the next call would use it. */
	if (tcp_under_memory_pressure(sk))
		mpa_tcp_unreserve(sk);
	return err == -EAGAIN ? -ENOBUFS : err;
}
