// SPDX-License-Identifier: GPL-2.0
/* TCP glue, receiving: walking over TCP's queues, consuming octets. */

#include <linux/highmem.h>
#include <linux/tcp.h>
#include <net/busy_poll.h>
#include <net/tcp.h>

#include "mpa_tcp.h"

/*
 * Do mpa_tcp_inq() once a FIN has arrived: rcv_nxt counts FINs, too, and an skb
 * may contain several.
 */
u32 mpa_tcp_inq_done(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct sk_buff *skb;
	u32 octets;

	skb = skb_peek_tail(&sk->sk_receive_queue);
	if (!skb)
		return 0;
	octets = TCP_SKB_CB(skb)->seq + skb->len - tp->copied_seq;
	return (s32)octets > 0 ? octets : 0;
}

/* Lockless. */
u32 mpa_tcp_advmss(const struct sock *sk)
{
	return tcp_sk(sk)->advmss;
}

/* Return the round-trip time in jiffies. */
unsigned long mpa_tcp_rtt(const struct sock *sk)
{
	return usecs_to_jiffies(tcp_sk(sk)->srtt_us >> 3);
}

/*
 * Whether the receive buffer is full: the peer cannot send until octets are
 * consumed. Unlike tcp_epollin_ready(), ignore memory pressure, and do not
 * count a FIN as an octet.
 */
bool mpa_tcp_window_closed(const struct sock *sk)
{
	int rcvbuf = READ_ONCE(sk->sk_rcvbuf);

	return mpa_tcp_inq(sk) &&
	       (atomic_read(&sk->sk_rmem_alloc) > rcvbuf - (rcvbuf >> 3) ||
		tcp_receive_window(tcp_sk(sk)) <=
		inet_csk(sk)->icsk_ack.rcv_mss);
}

/* Whether unread octets take half of the receive window: no less than what is left. */
bool mpa_tcp_window_short(const struct sock *sk)
{
	return mpa_tcp_inq(sk) >= tcp_receive_window(tcp_sk(sk));
}

/*
 * Undo SO_RCVLOWAT, as any octet may complete a record. The lock is not needed
 * if nothing else can reach the socket.
 */
void mpa_tcp_any_octet_counts(struct sock *sk)
{
	WRITE_ONCE(sk->sk_rcvlowat, 1);
}

/*
 * Treat urgent octets like all others. Otherwise TCP reports POLLPRI, leaves
 * its fast path, and skips an unread urgent octet at copied_seq when another
 * one arrives: tcp_check_urg(). This runs in sk_data_ready, before TCP can skip
 * an octet. Return whether there were urgent octets.
 */
bool mpa_tcp_forget_urgent(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (likely(!tp->urg_data))
		return false;
	WRITE_ONCE(tp->urg_data, 0);
	tcp_fast_path_check(sk);
	return true;
}

/*
 * Set SO_OOBINLINE for a child that has TCP's callbacks until it is accepted,
 * so that TCP skips no urgent octet. Users never see the flag: accept(2) calls
 * mpa_tcp_skip_urgent() first. In softirq; nothing else can reach the socket.
 */
void mpa_tcp_keep_urgent(struct sock *sk)
{
	sock_set_flag(sk, SOCK_URGINLINE);
}

/* Undo mpa_tcp_keep_urgent(). Process context. */
void mpa_tcp_skip_urgent(struct sock *sk)
{
	sock_reset_flag(sk, SOCK_URGINLINE);
}

#ifdef CONFIG_NET_RX_BUSY_POLL
struct mpa_busy {
	struct sock *sk;
	bool (*done)(const struct mpa_ctx *ctx);
	const struct mpa_ctx *ctx;
};

static bool mpa_busy_end(void *arg, unsigned long start)
{
	const struct mpa_busy *busy = arg;

	return busy->done(busy->ctx) || sk_busy_loop_end(busy->sk, start);
}

static noinline void mpa_busy_poll(struct sock *sk, bool nonblock,
				   bool (*done)(const struct mpa_ctx *ctx),
				   const struct mpa_ctx *ctx)
{
	struct mpa_busy busy = { .sk = sk, .done = done, .ctx = ctx };
	unsigned int napi_id = READ_ONCE(sk->sk_napi_id);

	if (napi_id < MIN_NAPI_ID ||
	    !skb_queue_empty_lockless(&sk->sk_receive_queue) ||
	    inet_sk_state_load(sk) != TCP_ESTABLISHED)
		return;
	napi_busy_loop(napi_id, nonblock ? NULL : mpa_busy_end, &busy,
		       READ_ONCE(sk->sk_prefer_busy_poll),
		       READ_ONCE(sk->sk_busy_poll_budget) ?: BUSY_POLL_BUDGET);
}
#endif

/*
 * Busy-poll before sleeping (SO_BUSY_POLL), until @done or, as in TCP, until
 * octets have arrived in order. If @nonblock, poll once. Process context,
 * socket lock not held.
 */
void mpa_tcp_busy_poll(struct sock *sk, bool nonblock,
		       bool (*done)(const struct mpa_ctx *ctx),
		       const struct mpa_ctx *ctx)
{
#ifdef CONFIG_NET_RX_BUSY_POLL
	if (sk_can_busy_loop(sk))
		mpa_busy_poll(sk, nonblock, done, ctx);
#endif
}

/*
 * Acknowledge octets that have arrived but cannot be read yet. TCP sends most
 * ACKs when octets are read. If an FPDU is longer than the peer's congestion
 * window, each ACK would wait for the delayed-ACK timer.
 */
void mpa_tcp_acknowledge(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	/* RFC 1122 section 4.2.3.2: at least every second segment. */
	if (inet_csk_ack_scheduled(sk) &&
	    tp->rcv_nxt - tp->rcv_wup > inet_csk(sk)->icsk_ack.rcv_mss)
		__tcp_send_ack(sk, tp->rcv_nxt, 0);
}

/*
 * An skb's octets are in pieces: its linear part, its fragments, then the same
 * for each skb in its fragment list. An skb in that list that has a fragment
 * list itself (reassembled IP fragments) counts as one piece, which is walked
 * from its start each time.
 */
static inline bool mpa_piece_nests(const struct mpa_cursor *at)
{
	return at->part != at->skb && skb_has_frag_list(at->part);
}

static const skb_frag_t *mpa_piece_frag(const struct mpa_cursor *at)
{
	return &skb_shinfo(at->part)->frags[at->piece - 1];
}

static __always_inline u32 mpa_piece_len(const struct mpa_cursor *at)
{
	if (at->piece)
		return skb_frag_size(mpa_piece_frag(at));
	return mpa_piece_nests(at) ? at->part->len : skb_headlen(at->part);
}

/* Move forward to the piece with octet @off of at->skb. */
static bool mpa_piece_seek(struct mpa_cursor *at, u32 off)
{
	while (at->part) {
		const struct skb_shared_info *info = skb_shinfo(at->part);
		u32 frags = mpa_piece_nests(at) ? 0 : info->nr_frags;
		u32 len = mpa_piece_len(at);

		while (off - at->start >= len && at->piece < frags) {
			at->start += len;
			len = skb_frag_size(&info->frags[at->piece++]);
		}
		if (off - at->start < len)
			return true;
		at->start += len;
		at->piece = 0;
		at->part = at->part == at->skb ? info->frag_list :
						 at->part->next;
	}
	return false;
}

static void mpa_cursor_enter(struct mpa_cursor *at, struct sk_buff *skb)
{
	at->skb = skb;
	at->part = skb;
	at->piece = 0;
	at->start = 0;
	at->left = 0;
}

static int mpa_frag_walk(const skb_frag_t *frag, u32 off, u32 len,
			 mpa_walk_fn fn, void *arg)
{
	u32 p_off, p_len, done;
	struct page *page;
	int err;

	skb_frag_foreach_page(frag, skb_frag_off(frag) + off, len, page, p_off,
			      p_len, done) {
		u8 *data = kmap_local_page(page);

		err = fn(arg, data + p_off, p_len);
		kunmap_local(data);
		if (err)
			return err;
	}
	return 0;
}

/* Call @fn for @len octets of at->skb from @off, which must not precede the piece. */
static int mpa_cursor_walk_skb(struct mpa_cursor *at, u32 off, u32 len,
			       mpa_walk_fn fn, void *arg)
{
	struct mpa_cursor inner;
	u32 skip, n;
	int err;

	while (len) {
		if (!mpa_piece_seek(at, off))
			return -ENODATA;
		/* Device memory (TCP devmem) cannot be read. */
		if (at->piece && !skb_frags_readable(at->part))
			return -ENODATA;

		skip = off - at->start;
		n = min(mpa_piece_len(at) - skip, len);
		if (at->piece) {
			err = mpa_frag_walk(mpa_piece_frag(at), skip, n, fn,
					    arg);
		} else if (!mpa_piece_nests(at)) {
			err = fn(arg, at->part->data + skip, n);
		} else {
			mpa_cursor_enter(&inner, at->part);
			err = mpa_cursor_walk_skb(&inner, skip, n, fn, arg);
		}
		if (err)
			return err;
		off += n;
		len -= n;
	}
	return 0;
}

/* Maximum number of skbs to inspect: a peer can make many overlap. */
#define MPA_OOO_COVERED	8

/* Return the last out-of-order skb that begins at or before @seq, or NULL. */
static struct sk_buff *mpa_ooo_begun(struct sock *sk, u32 seq)
{
	struct rb_node *node = tcp_sk(sk)->out_of_order_queue.rb_node;
	struct sk_buff *skb, *found = NULL;

	while (node) {
		skb = rb_to_skb(node);
		if (after(TCP_SKB_CB(skb)->seq, seq)) {
			node = node->rb_left;
		} else {
			found = skb;
			node = node->rb_right;
		}
	}
	return found;
}

/*
 * Return the out-of-order skb that contains @seq and ends last; or else the
 * first one that begins after @seq, or NULL.
 *
 * The queue is sorted by the start of skbs, but not by their end: when TCP
 * coalesces a segment with an skb, it keeps the skbs that the merged skb
 * covers. A peer can make many skbs overlap, so only MPA_OOO_COVERED skbs are
 * inspected, and an skb that ends later may be missed.
 */
struct sk_buff *mpa_ooo_find(struct sock *sk, u32 seq)
{
	struct sk_buff *skb, *begun = mpa_ooo_begun(sk, seq), *found = NULL;
	u32 reach, most = 0;
	int i;

	if (!begun)
		return skb_rb_first(&tcp_sk(sk)->out_of_order_queue);
	for (i = 0, skb = begun; skb && i < MPA_OOO_COVERED; i++) {
		reach = TCP_SKB_CB(skb)->seq + skb->len - seq;
		if ((s32)reach > (s32)most) {
			most = reach;
			found = skb;
		}
		skb = skb_rb_prev(skb);
	}
	return found ?: skb_rb_next(begun);
}

/*
 * Whether the octet or the FIN at @seq is in the out-of-order queue. Also true
 * if the search would take too long.
 */
bool mpa_ooo_holds(struct sock *sk, u32 seq)
{
	struct sk_buff *skb = mpa_ooo_begun(sk, seq);
	int i;

	for (i = 0; skb && i < MPA_OOO_COVERED; i++) {
		if (before(seq, TCP_SKB_CB(skb)->end_seq))
			return true;
		skb = skb_rb_prev(skb);
	}
	return skb;
}

static struct sk_buff *mpa_cursor_next_skb(const struct mpa_cursor *at)
{
	if (likely(at->ordered))
		return skb_peek_next(at->skb, &at->sk->sk_receive_queue);
	return skb_rb_next(at->skb);
}

/*
 * Set a cursor to @seq, which must be unread: in the receive queue up to
 * mpa_tcp_rcv_nxt(), else in the out-of-order queue. The cursor is valid until
 * the lock is dropped or octets are consumed. The out-of-order queue is
 * searched here, the receive queue only when octets are looked up.
 */
void mpa_cursor_begin(struct mpa_cursor *at, struct sock *sk, u32 seq)
{
	at->sk = sk;
	at->seq = seq;
	at->ordered = !after(seq, tcp_sk(sk)->rcv_nxt);
	if (likely(at->ordered))
		mpa_cursor_enter(at, skb_peek(&sk->sk_receive_queue));
	else
		mpa_cursor_enter(at, mpa_ooo_find(sk, seq));
}

/* Whether two fragments adjoin: a large folio may be in several fragments. */
static bool mpa_frag_follows(const skb_frag_t *next, const skb_frag_t *frag)
{
	return skb_frag_address(next) ==
	       skb_frag_address(frag) + skb_frag_size(frag) &&
	       page_folio(skb_frag_page(next)) ==
	       page_folio(skb_frag_page(frag));
}

/* Count the contiguous octets from @off in the piece; stop once there are @len. */
static u32 mpa_piece_contiguous(const struct mpa_cursor *at, u32 off, u32 len)
{
	const struct skb_shared_info *info = skb_shinfo(at->part);
	u32 left = mpa_piece_len(at) - off;
	u32 i;

	for (i = at->piece; i && i < info->nr_frags && left < len; i++) {
		if (!mpa_frag_follows(&info->frags[i], &info->frags[i - 1]))
			break;
		left += skb_frag_size(&info->frags[i]);
	}
	return left;
}

/*
 * Look up the contiguous octets at a cursor, for mpa_cursor_data(). These are
 * usually many FPDUs, as TCP coalesces fragments of a page. Return whether
 * there are @len octets.
 */
bool mpa_cursor_map(struct mpa_cursor *at, u32 len)
{
	const skb_frag_t *frag;
	u32 off;

	/*
	 * Octets before copied_seq are in the stash: the queue may have
	 * different copies.
	 */
	if (unlikely(at->ordered && before(at->seq, tcp_sk(at->sk)->copied_seq)))
		return false;
	for (; at->skb; mpa_cursor_enter(at, mpa_cursor_next_skb(at))) {
		if (unlikely(before(at->seq, TCP_SKB_CB(at->skb)->seq)))
			return false;
		off = at->seq - TCP_SKB_CB(at->skb)->seq;
		if (off < at->skb->len)
			break;
	}
	if (!at->skb)
		return false;
	if (!mpa_piece_seek(at, off) || mpa_piece_nests(at))
		return false;

	off -= at->start;
	if (!at->piece) {
		at->data = at->part->data + off;
	} else {
		frag = mpa_piece_frag(at);
		if (!skb_frags_readable(at->part) ||
		    PageHighMem(skb_frag_page(frag)))
			return false;
		at->data = skb_frag_address(frag) + off;
	}
	at->left = mpa_piece_contiguous(at, off, len);
	return at->left >= len;
}

/*
 * Call @fn for each contiguous piece of the next @len octets. @fn may sleep if
 * the caller may, but must not drop the lock. A nonzero result of @fn ends the
 * walk. Skbs in the queue may overlap, so the cursor's position is a sequence
 * number.
 *
 * Return 0, what @fn returned, or -ENODATA if octets are missing or cannot be
 * read. After an error @at is not valid.
 */
int mpa_cursor_walk(struct mpa_cursor *at, u32 len, mpa_walk_fn fn, void *arg)
{
	u32 n = min(at->left, len);
	int err;

	if (n) {
		err = fn(arg, at->data, n);
		if (err)
			return err;
		mpa_cursor_skip(at, n);
		len -= n;
	}
	while (len && at->skb) {
		u32 skip = at->seq - TCP_SKB_CB(at->skb)->seq;

		/* The octets at at->seq have not arrived. */
		if (unlikely(before(at->seq, TCP_SKB_CB(at->skb)->seq)))
			break;
		if (skip >= at->skb->len) {
			mpa_cursor_enter(at, mpa_cursor_next_skb(at));
			continue;
		}
		n = min(at->skb->len - skip, len);
		err = mpa_cursor_walk_skb(at, skip, n, fn, arg);
		if (err)
			return err;
		at->seq += n;
		len -= n;
	}
	return len ? -ENODATA : 0;
}

static int mpa_cursor_copy_octets(void *arg, const u8 *data, u32 len)
{
	u8 **to = arg;

	memcpy(*to, data, len);
	*to += len;
	return 0;
}

int mpa_cursor_copy(struct mpa_cursor *at, u8 *to, u32 len)
{
	return mpa_cursor_walk(at, len, mpa_cursor_copy_octets, &to);
}

/*
 * Consume @len octets, at most mpa_tcp_inq(), and open the window. Return the
 * number of sequence numbers consumed, including the FIN's.
 */
u32 mpa_tcp_consume(struct sock *sk, u32 len)
{
	u32 seq = tcp_sk(sk)->copied_seq;

	if (len)
		tcp_read_done(sk, len);
	return tcp_sk(sk)->copied_seq - seq;
}
