/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mpa

#if !defined(_TRACE_MPA_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_MPA_H

#include <linux/ipv6.h>
#include <linux/tracepoint.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <uapi/linux/mpa.h>

TRACE_DEFINE_ENUM(MPA_STATE_IDLE);
TRACE_DEFINE_ENUM(MPA_STATE_STARTUP);
TRACE_DEFINE_ENUM(MPA_STATE_FULL);
TRACE_DEFINE_ENUM(MPA_STATE_REJECTED);
TRACE_DEFINE_ENUM(MPA_STATE_FAILED);
TRACE_DEFINE_ENUM(MPA_STATE_REQUESTED);
TRACE_DEFINE_ENUM(MPA_ERR_NONE);
TRACE_DEFINE_ENUM(MPA_ERR_TCP);
TRACE_DEFINE_ENUM(MPA_ERR_CRC);
TRACE_DEFINE_ENUM(MPA_ERR_MARKER);
TRACE_DEFINE_ENUM(MPA_ERR_STARTUP);
TRACE_DEFINE_ENUM(MPA_ERR_LOCAL);
TRACE_DEFINE_ENUM(MPA_ERR_IRD);
TRACE_DEFINE_ENUM(MPA_ERR_RTR);

#define mpa_show_state(state)						\
	__print_symbolic(state,						\
			 { MPA_STATE_IDLE, "idle" },			\
			 { MPA_STATE_STARTUP, "startup" },		\
			 { MPA_STATE_FULL, "full" },			\
			 { MPA_STATE_REJECTED, "rejected" },		\
			 { MPA_STATE_FAILED, "failed" },		\
			 { MPA_STATE_REQUESTED, "requested" })

#define mpa_show_error(code)						\
	__print_symbolic(code,						\
			 { MPA_ERR_NONE, "none" },			\
			 { MPA_ERR_TCP, "tcp" },			\
			 { MPA_ERR_CRC, "crc" },			\
			 { MPA_ERR_MARKER, "marker" },			\
			 { MPA_ERR_STARTUP, "startup" },		\
			 { MPA_ERR_LOCAL, "local" },			\
			 { MPA_ERR_IRD, "ird" },			\
			 { MPA_ERR_RTR, "rtr" })

#ifndef _TRACE_MPA_ADDR
#define _TRACE_MPA_ADDR

/* Store both addresses, IPv4 mapped into IPv6. @saddr and @daddr are aligned to words. */
static inline void mpa_trace_addr(const struct sock *sk, u8 *saddr, u8 *daddr)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		memcpy(saddr, &sk->sk_v6_rcv_saddr, 16);
		memcpy(daddr, &sk->sk_v6_daddr, 16);
		return;
	}
#endif
	ipv6_addr_set_v4mapped(sk->sk_rcv_saddr, (struct in6_addr *)saddr);
	ipv6_addr_set_v4mapped(sk->sk_daddr, (struct in6_addr *)daddr);
}

#endif

/* Fields of the socket, for all events but mpa_unaligned */
#define MPA_SOCK_ASSIGN						\
	do {							\
		__entry->sk = sk;				\
		__entry->family = sk->sk_family;		\
		__entry->sport = ntohs(inet_sk(sk)->inet_sport); \
		__entry->dport = ntohs(sk->sk_dport);		\
		mpa_trace_addr(sk, __entry->saddr_v6, __entry->daddr_v6); \
	} while (0)

/* A startup frame has been passed to TCP, or received from it. */
TRACE_EVENT(mpa_startup_frame,

	TP_PROTO(const struct sock *sk, bool out, bool reply, u8 flags,
		 u8 revision, u16 private_len),

	TP_ARGS(sk, out, reply, flags, revision, private_len),

	TP_STRUCT__entry(
		__field(const void *, sk)
		__array(u8, saddr_v6, 16)
		__array(u8, daddr_v6, 16)
		__field(u16, family)
		__field(u16, sport)
		__field(u16, dport)
		__field(bool, out)
		__field(bool, reply)
		__field(u8, flags)
		__field(u8, revision)
		__field(u16, private_len)
	),

	TP_fast_assign(
		MPA_SOCK_ASSIGN;
		__entry->out = out;
		__entry->reply = reply;
		__entry->flags = flags;
		__entry->revision = revision;
		__entry->private_len = private_len;
	),

	TP_printk("sk=%p local=[%pI6c]:%u peer=[%pI6c]:%u %s %s flags=%s revision=%u private_data=%u",
		  __entry->sk, __entry->saddr_v6, __entry->sport,
		  __entry->daddr_v6, __entry->dport,
		  __entry->out ? "out" : "in",
		  __entry->reply ? "reply" : "request",
		  __print_flags(__entry->flags, "",
				{ MPA_PEER_MARKERS, "M" },
				{ MPA_PEER_CRC, "C" },
				{ MPA_PEER_REJECTED, "R" },
				{ MPA_PEER_ENHANCED, "S" }),
		  __entry->revision, __entry->private_len)
);

/* A connection has changed its state, an enum mpa_state. */
TRACE_EVENT(mpa_state,

	TP_PROTO(const struct sock *sk, u8 from, u8 to),

	TP_ARGS(sk, from, to),

	TP_STRUCT__entry(
		__field(const void *, sk)
		__array(u8, saddr_v6, 16)
		__array(u8, daddr_v6, 16)
		__field(u16, family)
		__field(u16, sport)
		__field(u16, dport)
		__field(u8, from)
		__field(u8, to)
	),

	TP_fast_assign(
		MPA_SOCK_ASSIGN;
		__entry->from = from;
		__entry->to = to;
	),

	TP_printk("sk=%p local=[%pI6c]:%u peer=[%pI6c]:%u from=%s to=%s",
		  __entry->sk, __entry->saddr_v6, __entry->sport,
		  __entry->daddr_v6, __entry->dport,
		  mpa_show_state(__entry->from), mpa_show_state(__entry->to))
);

DECLARE_EVENT_CLASS(mpa_run,

	TP_PROTO(const struct sock *sk, u64 position, u32 fpdus, u32 octets,
		 u32 markers),

	TP_ARGS(sk, position, fpdus, octets, markers),

	TP_STRUCT__entry(
		__field(const void *, sk)
		__array(u8, saddr_v6, 16)
		__array(u8, daddr_v6, 16)
		__field(u16, family)
		__field(u16, sport)
		__field(u16, dport)
		__field(u64, position)
		__field(u32, fpdus)
		__field(u32, octets)
		__field(u32, markers)
	),

	TP_fast_assign(
		MPA_SOCK_ASSIGN;
		__entry->position = position;
		__entry->fpdus = fpdus;
		__entry->octets = octets;
		__entry->markers = markers;
	),

	TP_printk("sk=%p local=[%pI6c]:%u peer=[%pI6c]:%u position=%llu fpdus=%u octets=%u markers=%u",
		  __entry->sk, __entry->saddr_v6, __entry->sport,
		  __entry->daddr_v6, __entry->dport,
		  __entry->position, __entry->fpdus,
		  __entry->octets, __entry->markers)
);

#define DEFINE_RUN_EVENT(name)					\
	DEFINE_EVENT(mpa_run, name,				\
		TP_PROTO(const struct sock *sk, u64 position,	\
			 u32 fpdus, u32 octets, u32 markers),	\
		TP_ARGS(sk, position, fpdus, octets, markers))

/* Contiguous FPDUs have been built. The position is that of the first FPDU. */
DEFINE_RUN_EVENT(mpa_tx);

/*
 * Contiguous FPDUs have been verified and read. A ULPDU that is read in pieces is counted with
 * its last piece.
 */
DEFINE_RUN_EVENT(mpa_rx);

/* FPDUs have been verified and read out of order: octets before them are missing. */
DEFINE_RUN_EVENT(mpa_placed);

/*
 * Startup, receiving or sending has failed. The position is that of the FPDU that could not be
 * received, or 0.
 */
TRACE_EVENT(mpa_error,

	TP_PROTO(const struct sock *sk, u8 code, int err, u64 position),

	TP_ARGS(sk, code, err, position),

	TP_STRUCT__entry(
		__field(const void *, sk)
		__array(u8, saddr_v6, 16)
		__array(u8, daddr_v6, 16)
		__field(u16, family)
		__field(u16, sport)
		__field(u16, dport)
		__field(u8, code)
		__field(int, err)
		__field(u64, position)
	),

	TP_fast_assign(
		MPA_SOCK_ASSIGN;
		__entry->code = code;
		__entry->err = err;
		__entry->position = position;
	),

	TP_printk("sk=%p local=[%pI6c]:%u peer=[%pI6c]:%u code=%s errno=%d position=%llu",
		  __entry->sk, __entry->saddr_v6, __entry->sport,
		  __entry->daddr_v6, __entry->dport,
		  mpa_show_error(__entry->code), __entry->err,
		  __entry->position)
);

/* A packet has segments that do not start with an FPDU, or its last segment ends within an FPDU. */
TRACE_EVENT(mpa_unaligned,

	TP_PROTO(const struct sock *sk, u32 seq, u32 len, u32 seg,
		 u32 unaligned, s32 next, u8 cut),

	TP_ARGS(sk, seq, len, seg, unaligned, next, cut),

	TP_STRUCT__entry(
		__field(const void *, sk)
		__field(u16, sport)
		__field(u16, dport)
		__field(u32, seq)
		__field(u32, len)
		__field(u32, seg)
		__field(u32, unaligned)
		__field(s32, next)
		__field(u8, cut)
	),

	TP_fast_assign(
		__entry->sk = sk;
		__entry->sport = sk->sk_num;
		__entry->dport = ntohs(sk->sk_dport);
		__entry->seq = seq;
		__entry->len = len;
		__entry->seg = seg;
		__entry->unaligned = unaligned;
		__entry->next = next;
		__entry->cut = cut;
	),

	TP_printk("sk=%p sport=%u dport=%u seq=%u len=%u segment=%u unaligned=%u next_fpdu=%d cause=%s",
		  __entry->sk, __entry->sport, __entry->dport, __entry->seq,
		  __entry->len, __entry->seg, __entry->unaligned,
		  __entry->next,
		  __print_symbolic(__entry->cut, { 0, "none" },
				   { 1, "oversized" }, { 2, "window" },
				   { 3, "other" }))
);

#endif /* _TRACE_MPA_H */

#include <trace/define_trace.h>
