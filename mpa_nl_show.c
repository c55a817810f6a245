// SPDX-License-Identifier: GPL-2.0
/*
 * A connection as netlink attributes, for the family "mpa"
 * (Documentation/netlink/specs/mpa.yaml) and for inet_diag, which ss uses.
 *
 * Nothing here takes the socket lock, which a user may hold for a long time. Values are read
 * one by one, and may change meanwhile.
 */

#include <linux/cred.h>
#include <linux/inet_diag.h>
#include <linux/sched.h>
#include <linux/xarray.h>
#include <net/inet_sock.h>
#include <net/net_namespace.h>
#include <net/netlink.h>
#include <net/netns/generic.h>
#include <uapi/linux/mpa_netlink.h>

#include "mpa.h"

static int mpa_show_addresses(struct sk_buff *skb, const struct mpa_ctx *ctx)
{
	const struct sock *sk = ctx->sk;

	if (nla_put_u16(skb, MPA_A_CONN_FAMILY, sk->sk_family) ||
	    nla_put_be16(skb, MPA_A_CONN_LOCAL_PORT,
			 READ_ONCE(inet_sk(sk)->inet_sport)) ||
	    nla_put_be16(skb, MPA_A_CONN_REMOTE_PORT, mpa_tcp_peer_port(&ctx->tcp, sk)))
		return -EMSGSIZE;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return nla_put_in6_addr(skb, MPA_A_CONN_LOCAL_ADDR6,
					&sk->sk_v6_rcv_saddr) ?:
		       nla_put_in6_addr(skb, MPA_A_CONN_REMOTE_ADDR6,
					&sk->sk_v6_daddr);
#endif
	return nla_put_in_addr(skb, MPA_A_CONN_LOCAL_ADDR4,
			       READ_ONCE(sk->sk_rcv_saddr)) ?:
	       nla_put_in_addr(skb, MPA_A_CONN_REMOTE_ADDR4,
			       READ_ONCE(sk->sk_daddr));
}

static int mpa_show_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, MPA_A_CONN_PAD);
}

static int mpa_show_owner(struct sk_buff *skb, const struct mpa_ctx *ctx,
			  struct user_namespace *user_ns)
{
	struct sock *sk = ctx->sk;
	u64 ino = sock_i_ino(sk);

	if ((ino && mpa_show_u64(skb, MPA_A_CONN_INODE, ino)) ||
	    ((READ_ONCE(ctx->consumer) || READ_ONCE(ctx->was_kernel)) &&
	     nla_put_flag(skb, MPA_A_CONN_KERNEL)))
		return -EMSGSIZE;
	return nla_put_u32(skb, MPA_A_CONN_UID,
			   from_kuid_munged(user_ns, READ_ONCE(sk->sk_uid)));
}

/* Return MPA_INFO_* flags, also before Full Operation. */
u32 mpa_show_flags(const struct mpa_ctx *ctx)
{
	return (READ_ONCE(ctx->tx.format.crc) ? MPA_INFO_TX_CRC : 0) |
	       (READ_ONCE(ctx->rx.format.crc) ? MPA_INFO_RX_CRC : 0) |
	       (READ_ONCE(ctx->peer.flags) & MPA_PEER_ENHANCED ? MPA_INFO_ENHANCED : 0) |
	       (READ_ONCE(ctx->control) & MPA_START_P2P ? MPA_INFO_P2P : 0) |
	       (READ_ONCE(ctx->tx.format.marked) ? MPA_INFO_TX_MARKERS : 0) |
	       (READ_ONCE(ctx->rx.format.marked) ? MPA_INFO_RX_MARKERS : 0) |
	       (READ_ONCE(ctx->may_send) ? MPA_INFO_MAY_SEND : 0);
}

/*
 * Return the error code for MPA_INFO. Once the peer has closed or TCP has ended, this is code
 * 1, unless there is another code. RFC 5044 section 8: "TCP connection closed, terminated, or
 * lost. This includes lost by timeout, too many retries, RST received, or FIN received".
 */
u8 mpa_show_code(const struct mpa_ctx *ctx)
{
	u8 code = READ_ONCE(ctx->failure[MPA_STARTUP].code) ?:
		  READ_ONCE(ctx->failure[MPA_RX].code);

	if (code || mpa_poll_state(ctx) != MPA_STATE_FULL)
		return code;
	return mpa_tcp_peer_left(ctx->sk) ? MPA_ERR_TCP : MPA_ERR_NONE;
}

static int mpa_show_agreed(struct sk_buff *skb, const struct mpa_ctx *ctx)
{
	int err = nla_put_u32(skb, MPA_A_CONN_REVISION, READ_ONCE(ctx->revision)) ?:
		  nla_put_u32(skb, MPA_A_CONN_FLAGS, mpa_show_flags(ctx));

	if (err || !(READ_ONCE(ctx->peer.flags) & MPA_PEER_ENHANCED))
		return err;
	return nla_put_u32(skb, MPA_A_CONN_IRD, READ_ONCE(ctx->ird)) ?:
	       nla_put_u32(skb, MPA_A_CONN_ORD, READ_ONCE(ctx->ord));
}

static int mpa_show_parameters(struct sk_buff *skb, const struct mpa_ctx *ctx)
{
	u32 emss = mpa_tcp_emss_full(ctx->sk, &ctx->tcp);
	u8 state = mpa_poll_state(ctx);

	if (nla_put_u32(skb, MPA_A_CONN_ROLE, READ_ONCE(ctx->role)) ||
	    nla_put_u32(skb, MPA_A_CONN_STATE, state) ||
	    (mpa_alt(ctx) ? mpa_alt_show(skb, ctx) :
	     state == MPA_STATE_FULL && mpa_show_agreed(skb, ctx)) ||
	    (READ_ONCE(ctx->rx.options) & BIT(MPA_PLACE) &&
	     nla_put_flag(skb, MPA_A_CONN_PLACING)))
		return -EMSGSIZE;
	return nla_put_u32(skb, MPA_A_CONN_EMSS, emss) ?:
	       nla_put_u32(skb, MPA_A_CONN_MULPDU,
			   mpa_framing_mulpdu(&ctx->tx.format, emss));
}

static const struct {
	u16 attr;
	u16 at;
} mpa_show_counters[] = {
	{ MPA_A_CONN_TX_ULPDUS, offsetof(struct mpa_ctx, tx.ulpdus) },
	{ MPA_A_CONN_TX_OCTETS, offsetof(struct mpa_ctx, tx.octets) },
	{ MPA_A_CONN_TX_MARKERS, offsetof(struct mpa_ctx, tx.markers) },
	{ MPA_A_CONN_TX_PACKETS, offsetof(struct mpa_ctx, tcp.watch.packets) },
	{ MPA_A_CONN_TX_SEGS_ALIGNED, offsetof(struct mpa_ctx, tcp.watch.aligned) },
	{ MPA_A_CONN_TX_SEGS_UNALIGNED, offsetof(struct mpa_ctx, tcp.watch.unaligned) },
	{ MPA_A_CONN_RX_ULPDUS, offsetof(struct mpa_ctx, rx.ulpdus) },
	{ MPA_A_CONN_RX_OCTETS, offsetof(struct mpa_ctx, rx.octets) },
	{ MPA_A_CONN_RX_MARKERS, offsetof(struct mpa_ctx, rx.markers) },
	{ MPA_A_CONN_RX_PLACED, offsetof(struct mpa_ctx, rx.placed) },
	{ MPA_A_CONN_RX_EDGE, offsetof(struct mpa_ctx, rx.cur.pos) },
};

static int mpa_show_counts(struct sk_buff *skb, const struct mpa_ctx *ctx)
{
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < ARRAY_SIZE(mpa_show_counters); i++) {
		const u64 *count = (void *)ctx + mpa_show_counters[i].at;

		err = mpa_show_u64(skb, mpa_show_counters[i].attr,
				   READ_ONCE(*count));
	}
	return err;
}

/* Put the numbers of octets that MPA holds outside TCP's queues. */
static int mpa_show_held(struct sk_buff *skb, const struct mpa_ctx *ctx)
{
	const struct mpa_txbuf *out = READ_ONCE(ctx->tx.out);
	const struct mpa_record *cur = &ctx->rx.cur;
	u32 rx = READ_ONCE(cur->stash) ? READ_ONCE(cur->taken) : 0;
	u32 tx = out ? READ_ONCE(out->len) : 0;

	tx += READ_ONCE(ctx->tx.ulpdu_len);
	return nla_put_u32(skb, MPA_A_CONN_RX_HELD, rx) ?:
	       nla_put_u32(skb, MPA_A_CONN_TX_HELD, tx);
}

static void mpa_show_failure(const struct mpa_ctx *ctx,
			     struct mpa_failure *failure)
{
	int rx_error = mpa_failed(ctx, MPA_RX), err = mpa_failed(ctx, MPA_TX);
	int startup = mpa_failed(ctx, MPA_STARTUP);

	failure->code = mpa_show_code(ctx);
	/* Report the loss of the connection, not the FPDU that the loss has cut. */
	if (failure->code == MPA_ERR_TCP && mpa_lost_receiving(ctx))
		rx_error = 0;
	/* After disconnect startup's errno is kept only for calls that wait for it. */
	if (mpa_poll_state(ctx) == MPA_STATE_IDLE)
		startup = 0;
	failure->err = rx_error ?: startup ?: err;
	if (!failure->code && err)
		failure->code = MPA_ERR_LOCAL;
}

static int mpa_show_error(struct sk_buff *skb, const struct mpa_ctx *ctx,
			  const struct mpa_failure *failure)
{
	bool rx = failure == &ctx->failure[MPA_RX];
	struct mpa_failure its_own;

	if (!failure) {
		rx = mpa_failed(ctx, MPA_RX);
		mpa_show_failure(ctx, &its_own);
		failure = &its_own;
	}
	if ((failure->code &&
	     nla_put_u32(skb, MPA_A_CONN_ERROR, failure->code)) ||
	    (failure->err &&
	     nla_put_u32(skb, MPA_A_CONN_ERRNO, -failure->err)) ||
	    (rx &&
	     mpa_show_u64(skb, MPA_A_CONN_ERROR_POSITION,
			  READ_ONCE(ctx->rx.cur.pos))))
		return -EMSGSIZE;
	return 0;
}

/*
 * Put the attributes of a connection, for a reader in @user_ns. If @failure is NULL, report the
 * connection's current error. Context: under RCU, or socket lock held.
 */
int mpa_show_conn(struct sk_buff *skb, const struct mpa_ctx *ctx,
		  struct user_namespace *user_ns,
		  const struct mpa_failure *failure)
{
	return mpa_show_u64(skb, MPA_A_CONN_COOKIE, mpa_show_cookie(ctx->sk)) ?:
	       mpa_show_addresses(skb, ctx) ?:
	       mpa_show_owner(skb, ctx, user_ns) ?:
	       mpa_show_parameters(skb, ctx) ?:
	       mpa_show_counts(skb, ctx) ?:
	       mpa_show_held(skb, ctx) ?:
	       mpa_show_error(skb, ctx, failure);
}

/* ---- inet_diag ---- */

/* Put MPA's attributes for tcp_ulp_ops.get_info, without the socket lock. */
int mpa_show_ulp(struct sock *sk, struct sk_buff *skb)
{
	const struct mpa_ctx *ctx;
	struct nlattr *nest;
	int err = 0;

	nest = nla_nest_start(skb, MPA_INET_ULP_INFO);
	if (!nest)
		return -EMSGSIZE;
	rcu_read_lock();
	ctx = mpa_ctx_rcu(sk);
	if (ctx)
		err = mpa_show_parameters(skb, ctx) ?:
		      mpa_show_counts(skb, ctx) ?:
		      mpa_show_error(skb, ctx, NULL);
	rcu_read_unlock();
	if (err) {
		nla_nest_cancel(skb, nest);
		return err;
	}
	nla_nest_end(skb, nest);
	return 0;
}

/* Return the maximum number of octets that mpa_show_ulp() puts. */
size_t mpa_show_ulp_size(const struct sock *sk)
{
	/* The nest, two flags, at most ten numbers of 32 bits and twelve of 64. */
	return 3 * nla_total_size(0) + 10 * nla_total_size(sizeof(u32)) +
	       12 * nla_total_size_64bit(sizeof(u64));
}

/*
 * ---- the connections of a network namespace ----
 *
 * All contexts are in an xarray, by their sockets' cookies, so that a walk can continue while
 * contexts are added and removed.
 *
 * A context is added before it is attached, and removed before it is detached. Only RCU
 * protects a listed context and its socket.
 */

/*
 * List a context. Context: process, socket lock held. Return: 0, -ENOMEM, or -EBUSY on 32-bit
 * machines, where two cookies may have the same lower half.
 */
int mpa_conns_add(struct mpa_ctx *ctx)
{
	struct mpa_conns *conns = mpa_conns(sock_net(ctx->sk));
	const unsigned long cookie = mpa_show_cookie(ctx->sk);
	int err;

	xa_lock_bh(&conns->all);
	err = __xa_insert(&conns->all, cookie, ctx, GFP_KERNEL);
	if (!err)
		WRITE_ONCE(conns->last, max(conns->last, cookie));
	xa_unlock_bh(&conns->all);
	ctx->listed = !err;
	return err;
}

/* Unlist a context. The caller frees it after a grace period at the earliest. */
void mpa_conns_remove(struct mpa_ctx *ctx)
{
	if (!ctx->listed)
		return;
	xa_erase_bh(&mpa_conns(sock_net(ctx->sk))->all,
		    mpa_show_cookie(ctx->sk));
	/*
	 * From here on no tap can be set: mpa_tap_set() checks @listed under the lock that
	 * mpa_tap_clear() takes.
	 */
	WRITE_ONCE(ctx->listed, false);
	mpa_tap_clear(ctx);
}
