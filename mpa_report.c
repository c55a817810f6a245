// SPDX-License-Identifier: GPL-2.0
/*
 * What happens to connections is told here: counted, traced, made an event
 * (mpa_event.c), and written to the kernel's log if an administrator has asked for
 * that (dynamic debug).
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/net.h>
#include <trace/events/mpa.h>
#include <uapi/linux/mpa_netlink.h>

#include "mpa.h"

static void mpa_report_event(const struct mpa_ctx *ctx, u8 cmd)
{
	const struct mpa_event event = { .cmd = cmd };

	mpa_event(ctx, &event);
}

static void mpa_report_failed(const struct mpa_ctx *ctx, int err, u8 code,
			      bool rx)
{
	const struct mpa_failure failure = { .err = err, .code = code, .rx = rx };
	const struct mpa_event event = {
		.cmd = MPA_CMD_FAILED_NTF, .failure = &failure,
	};

	mpa_event(ctx, &event);
}

/* ---- the kernel's log ---- */

static void mpa_report_debug(const struct sock *sk, const char *what, int err,
			     u8 code, u64 position)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		net_dbg_ratelimited("[%pI6c]:%u: %s: errno %d, MPA error %u, stream position %llu\n",
				    &sk->sk_v6_daddr, ntohs(sk->sk_dport), what,
				    err, code, position);
		return;
	}
#endif
	net_dbg_ratelimited("%pI4:%u: %s: errno %d, MPA error %u, stream position %llu\n",
			    &sk->sk_daddr, ntohs(sk->sk_dport), what, err, code,
			    position);
}

/* ---- what happens ---- */

/* The peer has rejected the request, and not a program here. */
static bool mpa_report_by_peer(const struct mpa_ctx *ctx)
{
	return ctx->role == MPA_ROLE_INITIATOR && ctx->have_peer &&
	       ctx->peer.flags & MPA_PEER_REJECTED;
}

/* Whose connections are counted together: those of a role, or TUF's. */
static u32 mpa_report_kind(const struct mpa_ctx *ctx)
{
	return (mpa_is_tuf(ctx) ? MPA_MIB_KINDS : ctx->role) - 1;
}

/**
 * mpa_report_state() - the state changes
 * @ctx:	the context, in the new state
 * @old:	enum mpa_state: the one before
 *
 * Context: any, socket lock held; or nobody else knows @ctx.
 */
void mpa_report_state(const struct mpa_ctx *ctx, u8 old)
{
	struct sock *sk = ctx->sk;

	trace_mpa_state(sk, old, ctx->state);
	switch (ctx->state) {
	case MPA_STATE_FULL:
		SNMP_INC_STATS(ctx->tcp.mib,
			       MPA_MIB_CURR + mpa_report_kind(ctx));
		SNMP_INC_STATS(ctx->tcp.mib,
			       MPA_MIB_TOTAL + mpa_report_kind(ctx));
		mpa_report_event(ctx, MPA_CMD_STARTED_NTF);
		break;
	case MPA_STATE_REJECTED:
		mpa_report_refused(ctx, mpa_report_by_peer(ctx) ?
				   MPA_REFUSAL_BY_PEER : MPA_REFUSAL_BY_USER,
				   -ECONNREFUSED);
		break;
	case MPA_STATE_IDLE:
		/* TUF is off in both directions. */
		if (old == MPA_STATE_FULL)
			SNMP_ADD_STATS(ctx->tcp.mib,
				       MPA_MIB_CURR + mpa_report_kind(ctx), -1);
		break;
	}
}

/**
 * mpa_report_refused() - startup has come to nothing
 * @ctx:	the context
 * @why:	the reason
 * @err:	negative errno
 *
 * Context: any, socket lock held.
 */
void mpa_report_refused(const struct mpa_ctx *ctx, enum mpa_refusal why, int err)
{
	static const char * const reasons[] = {
		[MPA_REFUSAL_BY_PEER] = "the peer has rejected the request",
		[MPA_REFUSAL_BY_USER] = "rejected by the program",
		[MPA_REFUSAL_MALFORMED] = "its startup frame is malformed",
		[MPA_REFUSAL_TIMEOUT] = "its startup frame has not come in time",
		[MPA_REFUSAL_LOST] = "the connection has ended during startup",
		[MPA_REFUSAL_OUSTED] = "made room for another startup",
		[MPA_REFUSAL_LIMIT] = "no responder may be in startup",
		[MPA_REFUSAL_GIVEN_UP] = "startup was given up by shutdown(2)",
		[MPA_REFUSAL_LOCAL] = "startup was given up",
	};
	const struct mpa_failure failure = { .err = err, .code = ctx->code };
	const struct mpa_event event = {
		.cmd = MPA_CMD_REFUSED_NTF, .attr = MPA_A_CONN_REFUSAL,
		.value = why, .failure = &failure,
	};

	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_REFUSED + why - 1);
	trace_mpa_error(ctx->sk, ctx->code, err, 0);
	mpa_report_debug(ctx->sk, reasons[why], err, ctx->code, 0);
	mpa_event(ctx, &event);
}

/**
 * mpa_report_receiving() - nothing more is received
 * @ctx:	the context; what @ctx->rx.error says
 * @code:	the error code
 *
 * Context: any, socket lock held.
 */
void mpa_report_receiving(const struct mpa_ctx *ctx, enum mpa_error code)
{
	u64 position = ctx->rx.cur.pos;

	/* The same loss has cut an FPDU: it has been told. */
	if (ctx->lost && code == MPA_ERR_TCP)
		return;
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_RX_FAILED + code - 1);
	trace_mpa_error(ctx->sk, code, ctx->rx.error, position);
	mpa_report_debug(ctx->sk, "nothing more is received", ctx->rx.error,
			 code, position);
	mpa_report_failed(ctx, ctx->rx.error, code, true);
}

/**
 * mpa_report_sending() - nothing more can be sent
 * @ctx:	the context
 * @err:	negative errno
 *
 * Context: process, socket lock held.
 */
void mpa_report_sending(struct mpa_ctx *ctx, int err)
{
	if (ctx->broken)
		return;
	WRITE_ONCE(ctx->broken, err);
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_TX_FAILED);
	trace_mpa_error(ctx->sk, MPA_ERR_LOCAL, err, 0);
	mpa_report_debug(ctx->sk, "nothing more can be sent", err,
			 MPA_ERR_LOCAL, 0);
	mpa_report_failed(ctx, err, MPA_ERR_LOCAL, false);
}

/**
 * mpa_report_disagreed() - Full Operation has begun without what RFC 6581 was to
 *			    agree on
 * @ctx:	the context; its code says what
 * @err:	negative errno
 *
 * Context: process, socket lock held.
 */
void mpa_report_disagreed(const struct mpa_ctx *ctx, int err)
{
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_RX_FAILED + ctx->code - 1);
	trace_mpa_error(ctx->sk, ctx->code, err, 0);
	mpa_report_debug(ctx->sk, "IRD, ORD or RTR do not suit", err, ctx->code,
			 0);
	mpa_report_failed(ctx, err, ctx->code, false);
}

/**
 * mpa_report_lost() - TCP has gone, and not by an orderly end
 * @ctx:	the context, in MPA_STATE_FULL
 * @err:	negative errno
 *
 * Context: any, socket lock held.
 */
void mpa_report_lost(struct mpa_ctx *ctx, int err)
{
	if (ctx->broken)
		return;
	WRITE_ONCE(ctx->broken, err);
	WRITE_ONCE(ctx->lost,
		   !ctx->rx.error && !mpa_tcp_peer_ended(ctx->sk));
	SNMP_INC_STATS(ctx->tcp.mib, err == -ETIMEDOUT ? MPA_MIB_TIMED_OUT :
							 MPA_MIB_LOST);
	trace_mpa_error(ctx->sk, MPA_ERR_TCP, err, 0);
	mpa_report_debug(ctx->sk, "the connection is lost", err, MPA_ERR_TCP, 0);
	mpa_report_failed(ctx, err, MPA_ERR_TCP, false);
}

/**
 * mpa_report_mulpdu() - MULPDU has changed
 * @ctx:	the context, in MPA_STATE_FULL
 *
 * Context: process, socket lock held.
 */
void mpa_report_mulpdu(const struct mpa_ctx *ctx)
{
	mpa_report_event(ctx, MPA_CMD_MULPDU_NTF);
}

/**
 * mpa_report_unaligned() - the first segment that does not start with an FPDU
 * @sk:		socket
 * @cut:	why it does not
 *
 * Context: any, socket lock held.
 */
void mpa_report_unaligned(struct sock *sk, enum mpa_cut cut)
{
	const struct mpa_event event = {
		.cmd = MPA_CMD_UNALIGNED_NTF, .attr = MPA_A_CONN_CAUSE,
		.value = cut,
	};

	mpa_event(mpa_ctx(sk), &event);
}

/**
 * mpa_report_resegmented() - something on the way cuts a stream of TUF anew
 * @ctx:	the context
 *
 * Context: any, socket lock held.
 */
void mpa_report_resegmented(const struct mpa_ctx *ctx)
{
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_TUF_RESEGMENTED);
	mpa_report_debug(ctx->sk, "almost no segment holds an FPDU", 0,
			 MPA_ERR_NONE, ctx->rx.cur.pos);
}

/**
 * mpa_report_closed() - the socket is closed
 * @ctx:	the context
 *
 * Context: any, socket lock held.
 */
void mpa_report_closed(const struct mpa_ctx *ctx)
{
	if (ctx->state == MPA_STATE_FULL)
		SNMP_ADD_STATS(ctx->tcp.mib,
			       MPA_MIB_CURR + mpa_report_kind(ctx), -1);
	if (ctx->state != MPA_STATE_IDLE)
		mpa_report_event(ctx, MPA_CMD_CLOSED_NTF);
}
