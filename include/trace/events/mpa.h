/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mpa

#if !defined(_TRACE_MPA_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_MPA_H

#include <linux/tracepoint.h>
#include <net/sock.h>

/*
 * A packet with segments that do not start with an FPDU, or the last of which
 * ends within one.
 */
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

	TP_printk("sk=%p sport=%u dport=%u seq=%u len=%u segment=%u unaligned=%u next_fpdu=%+d cause=%s",
		  __entry->sk, __entry->sport, __entry->dport, __entry->seq,
		  __entry->len, __entry->seg, __entry->unaligned,
		  __entry->next,
		  __print_symbolic(__entry->cut, { 0, "none" },
				   { 1, "oversized" }, { 2, "window" },
				   { 3, "other" }))
);

#endif /* _TRACE_MPA_H */

#include <trace/define_trace.h>
