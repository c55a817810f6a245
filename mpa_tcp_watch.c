// SPDX-License-Identifier: GPL-2.0
/*
 * TCP glue: count the segments that start with an FPDU. Each packet is
 * inspected when TCP passes it to IP for the first time. FPDU lengths are read
 * from the packet, so the counters show what was really sent.
 */

#include <linux/mutex.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "mpa_tcp.h"

#include <trace/events/mpa.h>

#ifndef MPA_HAVE_ULP_HOOKS
/* icsk_af_ops with a queue_xmit that inspects packets. */
struct mpa_xmit {
	const struct inet_connection_sock_af_ops *base;	/* TCP's own */
	struct inet_connection_sock_af_ops ops;		/* a copy with our queue_xmit */
};

/* For IPv4, IPv6, and IPv4 mapped into IPv6. */
static struct mpa_xmit mpa_xmits[3];
static DEFINE_MUTEX(mpa_xmits_lock);
#endif

static void (*mpa_watch_report)(struct sock *sk, enum mpa_cut cut) __ro_after_init;

static mpa_guard_fn mpa_watch_guard __ro_after_init;

/*
 * Set the callbacks, at module init. Both are called with the socket lock held,
 * maybe in softirq: @unaligned for a connection's first segment that is not
 * aligned, @guard for each segment once FPDUs with a key were sent.
 */
void __init mpa_tcp_watch_init(void (*unaligned)(struct sock *sk,
						 enum mpa_cut cut),
			       mpa_guard_fn guard)
{
	mpa_watch_report = unaligned;
	mpa_watch_guard = guard;
}

/* The payload of a packet, read from its start. */
struct mpa_payload {
	const struct sk_buff *skb;
	u32 seq;		/* of the first octet */
	u32 end;		/* after the last octet */
	const u8 *piece;	/* current contiguous octets */
	u32 from;		/* their offset in the payload */
	u32 to;			/* offset after them */
	u32 frag;		/* next fragment of @skb */
};

static u8 mpa_payload_octet(struct mpa_payload *payload, u32 off)
{
	while (off >= payload->to) {
		const skb_frag_t *frag = skb_shinfo(payload->skb)->frags +
					 payload->frag++;

		payload->piece = skb_frag_address(frag);
		payload->from = payload->to;
		payload->to += skb_frag_size(frag);
	}
	return payload->piece[off - payload->from];
}

/*
 * Read ULPDU_Length at @off. If the packet has only its first octet, store the
 * octet and return false.
 */
static bool mpa_watch_length(struct mpa_watch *watch,
			     struct mpa_payload *payload, s32 off, u32 *len)
{
	u8 high = off < 0 ? watch->high : mpa_payload_octet(payload, off);

	if (off + 1 == (s32)(payload->end - payload->seq)) {
		watch->high = high;
		return false;
	}
	*len = high << 8 | mpa_payload_octet(payload, off + 1);
	return true;
}

/* Advance over an FPDU. Return false if its length is not yet complete. */
static __always_inline bool
mpa_watch_pass(struct mpa_watch *watch, struct mpa_payload *payload)
{
	const bool marked = watch->marked;
	/* Negative if the previous packet ended within the length. */
	s32 off = watch->fpdu - payload->seq;
	struct mpa_fpdu fpdu;
	u32 len;

	if (marked) {
		off += mpa_fpdu_head_len(watch->pos, true) - MPA_LENGTH_LEN;
		if (off >= (s32)(payload->end - payload->seq))
			return false;
	}
	if (off >= (s32)payload->from && off + 1 < (s32)payload->to)
		len = get_unaligned_be16(payload->piece + off - payload->from);
	else if (!mpa_watch_length(watch, payload, off, &len))
		return false;
	if (marked) {
		mpa_fpdu_init(&fpdu, watch->pos, len, true);
		len = fpdu.len;
	} else if (mpa_alt_exists() && watch->framing) {
		len += MPA_ANY_HEAD_LEN;
	} else {
		len = mpa_fpdu_plain_len(len);
	}
	watch->len = len;
	watch->fpdu += len;
	watch->pos += len;
	return true;
}

/* Advance to the first FPDU at @seq or later. Return whether it is at @seq. */
static bool mpa_watch_reach(struct mpa_watch *watch, struct mpa_payload *payload,
			    u32 seq)
{
	while (before(watch->fpdu, seq))
		if (!mpa_watch_pass(watch, payload))
			return false;
	return watch->fpdu == seq;
}

/* Return why a packet ends within an FPDU. */
static noinline enum mpa_cut mpa_watch_why(const struct sock *sk,
					   const struct mpa_watch *watch,
					   u32 end)
{
	/* While the length is not known, assume that the FPDU fits. */
	if (watch->cut == MPA_CUT_OVERSIZED ||
	    (after(watch->fpdu, end) && watch->len > mpa_tcp_emss_now(sk)))
		return MPA_CUT_OVERSIZED;
	if (end == tcp_wnd_end(tcp_sk(sk)))
		return MPA_CUT_WINDOW;
	return watch->cut ?: MPA_CUT_OTHER;
}

static void mpa_watch_packet(struct sock *sk, struct mpa_watch *watch,
			     struct mpa_payload *payload, u32 seg)
{
	u32 start = payload->seq, aligned = 0, unaligned = 0;
	enum mpa_cut cut = watch->cut;

	/*
	 * Skip segments inspected before: TCP may have added octets to a packet
	 * that IP has dropped.
	 */
	while (before(start, watch->seq))
		start += seg;
	for (; before(start, payload->end); start += seg) {
		if (mpa_watch_reach(watch, payload, start))
			aligned++;
		else
			unaligned++;
	}
	watch->seq = payload->end;
	watch->cut = mpa_watch_reach(watch, payload, payload->end) ?
		     MPA_CUT_NOT : mpa_watch_why(sk, watch, payload->end);
	if (unaligned && !cut)
		cut = watch->cut ?: watch->len > seg ? MPA_CUT_OVERSIZED :
						       MPA_CUT_OTHER;
	if (unaligned || watch->cut)
		trace_mpa_unaligned(sk, payload->seq, payload->end - payload->seq,
				    seg, unaligned, watch->fpdu - payload->end,
				    cut ?: watch->cut);

	/* Send the cut FPDU's rest as a segment, so that the next FPDU is aligned. */
	if (watch->cut > MPA_CUT_OVERSIZED && after(watch->fpdu, payload->end))
		mpa_tcp_split(sk, payload->end, watch->fpdu - payload->end);

	if (unlikely(unaligned && !watch->unaligned))
		mpa_watch_report(sk, cut);
	watch->packets++;
	watch->aligned += aligned;
	watch->unaligned += unaligned;
	mpa_stat_sent(mpa_tcp(sk)->mib, aligned, unaligned, cut);
}

/* Whether to count segments: they should start with FPDUs that have a length field. */
static bool mpa_watch_counts(const struct mpa_watch *watch)
{
	return !mpa_alt_exists() || watch->framing == MPA_FRAMING_MPA ||
	       watch->framing == MPA_FRAMING_KEYED ||
	       before(watch->seq, watch->end);
}

/* Return how the segment at @start begins. @at: a copy of the watch. */
static enum mpa_begins mpa_watch_begins(struct mpa_watch *at,
					struct mpa_payload *payload, u32 start)
{
	if (!mpa_watch_counts(at) || before(start, at->seq))
		return MPA_BEGINS_UNKNOWN;
	return mpa_watch_reach(at, payload, start) ? MPA_BEGINS_FPDU :
						     MPA_BEGINS_ELSEWHERE;
}

/* RFC 5925; the kernel has TCPOPT_AO since 6.7. */
#define MPA_TCPOPT_AO	29

/* Whether the packet has a signature, which cannot be recomputed here. */
static bool mpa_watch_signed(const struct tcphdr *th)
{
	const u8 *end = (const u8 *)th + __tcp_hdrlen(th);
	const u8 *option = (const u8 *)(th + 1);

	while (option + 1 < end && *option != TCPOPT_EOL) {
		if (*option == TCPOPT_NOP) {
			option++;
			continue;
		}
		if (*option == TCPOPT_MD5SIG || *option == MPA_TCPOPT_AO)
			return true;
		option += max_t(u8, option[1], 2);
	}
	return false;
}

/* Call the guard for each segment of a packet. Return how many octets of it to send. */
static noinline u32
mpa_watch_segments(struct sock *sk, const struct mpa_watch *watch,
		   const struct mpa_payload *payload, u32 seg)
{
	struct mpa_payload heads = *payload, lengths = *payload;
	u32 len = payload->end - payload->seq, off, i;
	const struct sk_buff *skb = payload->skb;
	struct mpa_watch at = *watch;
	u8 head[MPA_ANY_HEAD_LEN];
	enum mpa_begins begins;
	bool fixed;

	/* Device memory cannot be read, but contains no FPDUs. */
	if (!skb_frags_readable(skb))
		return len;
	/* A packet with a signature or a full checksum cannot be shortened. */
	fixed = skb->ip_summed != CHECKSUM_PARTIAL ||
		mpa_watch_signed((const struct tcphdr *)skb->data);
	for (off = 0; off + MPA_ANY_HEAD_LEN <= len; off += seg) {
		u32 n = min(seg, len - off), start = payload->seq + off;

		begins = mpa_watch_begins(&at, &lengths, start);
		for (i = 0; i < MPA_ANY_HEAD_LEN; i++)
			head[i] = mpa_payload_octet(&heads, off + i);
		if (mpa_watch_guard(sk, head, start, n, begins, fixed))
			return off + n - 1;
	}
	return len;
}

/*
 * Trim a packet to its first @len octets. TCP handles the rest, even a FIN, as
 * lost on the path. Return false without memory: do not send the packet.
 */
static noinline bool mpa_watch_trim(struct sk_buff *skb, u32 len)
{
	struct tcphdr *th = (struct tcphdr *)skb->data;
	u32 old_len = skb->len, new_len = __tcp_hdrlen(th) + len;
	struct skb_shared_info *shinfo;

	if (skb_unclone(skb, GFP_ATOMIC) || pskb_trim(skb, new_len))
		return false;
	th = (struct tcphdr *)skb->data;
	th->fin = 0;
	/* The checksum so far covers only the pseudo header. */
	inet_proto_csum_replace4(&th->check, skb, htonl(old_len), htonl(new_len),
				 true);
	shinfo = skb_shinfo(skb);
	if (shinfo->gso_size) {
		shinfo->gso_segs = DIV_ROUND_UP(len, shinfo->gso_size);
		if (shinfo->gso_segs == 1)
			shinfo->gso_size = 0;
	}
	return true;
}

/*
 * Inspect a packet to be sent. Return false if it must not be sent. Context:
 * socket lock held, maybe in softirq.
 */
static bool mpa_watch_xmit(struct sock *sk, struct sk_buff *skb)
{
	const struct tcphdr *th = (const struct tcphdr *)skb->data;
	u32 len = skb->len - __tcp_hdrlen(th), leaves = len;
	struct mpa_watch *watch = &mpa_tcp(sk)->watch;
	u32 seg = skb_shinfo(skb)->gso_size ?: len;
	struct mpa_payload payload = {
		.skb = skb, .seq = ntohl(th->seq), .end = ntohl(th->seq) + len,
		.piece = (const u8 *)th + __tcp_hdrlen(th),
		.to = len - skb->data_len,
	};

	if (!len)
		return true;
	if (__tcp_hdrlen(th) != tcp_sk(sk)->tcp_header_len || watch->options_seen) {
		u32 options = mpa_tcp_other_options(sk, th);

		watch->options = min_t(u32, options, watch->options_seen);
		watch->options_seen = options;
	}
	if (mpa_alt_exists() && watch->guarded)
		leaves = mpa_watch_segments(sk, watch, &payload, seg);
	/* Retransmissions have been inspected before. */
	if (!after(payload.seq, watch->seq) && after(payload.end, watch->seq) &&
	    mpa_watch_counts(watch))
		mpa_watch_packet(sk, watch, &payload, seg);
	return likely(leaves == len) || mpa_watch_trim(skb, leaves);
}

/* Forget what only framed octets need: they will not be sent again. */
static void mpa_watch_forget(struct mpa_watch *watch)
{
	watch->guarded = false;
	WRITE_ONCE(watch->options, 0);
	watch->options_seen = 0;
}

#ifdef MPA_HAVE_ULP_HOOKS
/* For tcp_ulp_ops.xmit. */
bool mpa_tcp_xmit(struct sock *sk, struct sk_buff *skb)
{
	const struct mpa_tcp *tcp = mpa_tcp(sk);

	return !tcp || !tcp->watched || mpa_watch_xmit(sk, skb);
}

/*
 * Start to inspect packets. @framed: TCP must not cut a segment at the window's
 * edge. Process context.
 */
static void mpa_watch_hook(struct sock *sk, bool framed)
{
	mpa_tcp(sk)->watched = true;
	tcp_set_mss_unit(sk, framed);
}

/* Process context. */
void mpa_tcp_unwatch(struct sock *sk)
{
	mpa_tcp(sk)->watched = false;
	mpa_watch_forget(&mpa_tcp(sk)->watch);
}
#else
/* Context: socket lock held, maybe in softirq. */
static int mpa_tcp_queue_xmit(struct sock *sk, struct sk_buff *skb,
			      struct flowi *fl)
{
	const struct mpa_xmit *xmit =
		container_of(inet_csk(sk)->icsk_af_ops, struct mpa_xmit, ops);
	const struct mpa_tcp *tcp = mpa_tcp(sk);

	if (unlikely(!tcp))
		goto out;
	if (unlikely(tcp->ooo_tracked))
		mpa_tcp_ooo_acked(sk);
	if (!mpa_watch_xmit(sk, skb)) {
		kfree_skb(skb);
		return NET_XMIT_DROP;
	}
out:
	return xmit->base->queue_xmit(sk, skb, fl);
}

/* Install our queue_xmit in a socket. Process context. */
static void mpa_watch_hook(struct sock *sk, bool framed)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct mpa_xmit *xmit;

	/* Our queue_xmit is still installed if framing was on before. */
	if (icsk->icsk_af_ops->queue_xmit == mpa_tcp_queue_xmit)
		return;
	mutex_lock(&mpa_xmits_lock);
	for (xmit = mpa_xmits; xmit < mpa_xmits + ARRAY_SIZE(mpa_xmits);
	     xmit++) {
		if (!xmit->base) {
			xmit->ops = *icsk->icsk_af_ops;
			xmit->ops.queue_xmit = mpa_tcp_queue_xmit;
			xmit->base = icsk->icsk_af_ops;
		}
		if (xmit->base == icsk->icsk_af_ops) {
			/* Lockless readers must find the table complete. */
			smp_store_release(&icsk->icsk_af_ops, &xmit->ops);
			break;
		}
	}
	mutex_unlock(&mpa_xmits_lock);
	if (xmit == mpa_xmits + ARRAY_SIZE(mpa_xmits))
		pr_warn_once("sockets of a kind whose segments are not counted\n");
}

/* Process context. */
void mpa_tcp_unwatch(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);

	if (icsk->icsk_af_ops->queue_xmit == mpa_tcp_queue_xmit)
		WRITE_ONCE(icsk->icsk_af_ops,
			   container_of(icsk->icsk_af_ops, struct mpa_xmit,
					ops)->base);
	mpa_watch_forget(&mpa_tcp(sk)->watch);
}
#endif

/*
 * Start to inspect packets. The next octet passed to TCP starts an FPDU.
 * Process context.
 */
void mpa_tcp_watch(struct sock *sk, const struct mpa_format *format)
{
	struct mpa_watch *watch = &mpa_tcp(sk)->watch;

	watch->seq = tcp_sk(sk)->write_seq;
	watch->fpdu = watch->seq;
	watch->end = watch->seq;
	watch->pos = 0;
	watch->len = 0;
	watch->cut = MPA_CUT_NOT;
	watch->marked = format->marked;
	watch->framing = format->framing;
	watch->guarded |= mpa_format_contained(format);
	mpa_watch_hook(sk, true);
}

/*
 * Octets passed to TCP from now on are not framed. Still inspect packets: TCP
 * may send framed octets, even again, and ACKs report out-of-order segments.
 * Process context.
 */
void mpa_tcp_watch_plain(struct sock *sk)
{
	struct mpa_watch *watch = &mpa_tcp(sk)->watch;

	if (watch->framing == MPA_FRAMING_KEYED)
		watch->end = tcp_sk(sk)->write_seq;
	watch->framing = MPA_FRAMING_OFF;
	mpa_watch_hook(sk, false);
}
