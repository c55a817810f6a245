// SPDX-License-Identifier: GPL-2.0
/* Marker PDU Aligned framing (RFC 5044) as an upper-layer protocol of TCP. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "mpa_sock.h"
#include "mpa_net.h"
#include "mpa_pages.h"

/* Also N if the processor has no CRC instruction, or a self-test fails. */
static bool mpa_crc_lockstep __ro_after_init = true;
module_param_named(crc_lockstep, mpa_crc_lockstep, bool, 0444);
MODULE_PARM_DESC(crc_lockstep,
		 "compute CRCs of three FPDUs at a time where the processor has an instruction for it; N: use the kernel's CRC alone");

static struct mpa_ctx *mpa_ctx_new(struct sock *sk)
{
	struct mpa_ctx *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);

	if (ctx)
		mpa_ctx_setup(ctx, sk);
	return ctx;
}

static int mpa_init(struct sock *sk)
{
	struct mpa_ctx *ctx;
	int err;

	if (mpa_tcp_listening(sk))
		return -EINVAL;
	mpa_delay(MPA_POINT_INIT_BEGIN);
	if (!mpa_tcp_may_attach(sk))
		return -ENOTCONN;
	if (mpa_tcp_has_listened(sk))
		synchronize_net();

	ctx = mpa_ctx_new(sk);
	if (!ctx)
		return -ENOMEM;
	err = mpa_attach(ctx, sk->sk_socket->ops);
	if (err)
		kfree_rcu(ctx, rcu);
	mpa_delay(MPA_POINT_INIT_END);
	return err;
}

/*
 * TCP has created a child as a copy of a listening socket, with our operations. Make
 * the child a plain TCP socket until it is accepted: the listener may be closing, and
 * the child may migrate to a listener without MPA. mpa_hook_exit() waits for this
 * function.
 */
static void mpa_clone(const struct request_sock *req, struct sock *child,
		      const gfp_t priority)
{
	struct inet_connection_sock *icsk = inet_csk(child);

	mpa_delay(MPA_POINT_CLONE_BEGIN);
	mpa_hook_clone(child);
	mpa_tcp_keep_urgent(child);
	icsk->icsk_ulp_ops = NULL;
	RCU_INIT_POINTER(icsk->icsk_ulp_data, NULL);
	mpa_delay(MPA_POINT_CLONE_END);
}

/* For ss: everyone who may see the socket may see this. */
#ifdef MPA_HAVE_ULP_INFO_ADMIN
static int mpa_ulp_info(struct sock *sk, struct sk_buff *skb, bool net_admin)
#else
static int mpa_ulp_info(struct sock *sk, struct sk_buff *skb)
#endif
{
	return mpa_show_ulp(sk, skb);
}

#ifdef MPA_HAVE_ULP_INFO_ADMIN
static size_t mpa_ulp_info_size(const struct sock *sk, bool net_admin)
#else
static size_t mpa_ulp_info_size(const struct sock *sk)
#endif
{
	return mpa_show_ulp_size(sk);
}

static struct tcp_ulp_ops mpa_ulp_ops __read_mostly = {
	.name	= "mpa",
	.owner	= THIS_MODULE,
	.init	= mpa_init,
	.clone	= mpa_clone,
	.get_info = mpa_ulp_info,
	.get_info_size = mpa_ulp_info_size,
#ifdef MPA_HAVE_ULP_HOOKS
	.ofo	= mpa_tcp_ofo,
	.xmit	= mpa_tcp_xmit,
#endif
};

static struct tcp_ulp_ops mpa_tuf_ulp_ops __read_mostly = {
	.name	= "tuf",
	.owner	= THIS_MODULE,
	.init	= mpa_alt_attach,
	.get_info = mpa_ulp_info,
	.get_info_size = mpa_ulp_info_size,
#ifdef MPA_HAVE_ULP_HOOKS
	.ofo	= mpa_tcp_ofo,
	.xmit	= mpa_tcp_xmit,
#endif
};

/* Copy a listener's options and startup parameters for its child. */
static int mpa_inherit(struct mpa_ctx *ctx, struct mpa_ctx *listener,
		       struct mpa_params **params)
{
	const struct mpa_params *theirs;
	int err = 0;

	lock_sock(listener->sk);
	ctx->tx.segment = listener->tx.segment;
	ctx->tx.options = listener->tx.options;
	ctx->rx.options = listener->rx.options;
	theirs = listener->params;
	/* If the listener has become a connection, do not copy its own parameters. */
	if (theirs && listener->state == MPA_STATE_IDLE) {
		*params = kmemdup(theirs, struct_size(theirs, private,
						      theirs->private_len),
				  GFP_KERNEL_ACCOUNT);
		if (!*params)
			err = -ENOMEM;
	}
	release_sock(listener->sk);
	return err;
}

/*
 * Attach MPA to @sk, which @listener has just accepted and nobody else can reach yet.
 * @ops: the listening struct socket's operations. No socket lock held. Return: 0;
 * -ENOMEM; -EEXIST if @sk has another upper-layer protocol, perhaps of an earlier
 * listener; -EBUSY if others have hooked it.
 */
static int mpa_accept(struct mpa_ctx *listener, struct sock *sk,
		      const struct proto_ops *ops)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct mpa_params *params = NULL;
	struct mpa_ctx *ctx;
	int err;

	ctx = mpa_ctx_new(sk);
	if (!ctx)
		return -ENOMEM;
	err = mpa_inherit(ctx, listener, &params);

	lock_sock(sk);
	if (!err)
		err = icsk->icsk_ulp_ops ? -EEXIST : mpa_attach(ctx, ops);
	if (err)
		goto out;
	/* Take a reference, as tcp_set_ulp() does. The listener holds one, too. */
	__module_get(THIS_MODULE);
	icsk->icsk_ulp_ops = &mpa_ulp_ops;
	clear_bit(SOCK_SUPPORT_ZC, &sk->sk_socket->flags);
	if (!sock_flag(listener->sk, SOCK_URGINLINE))
		mpa_tcp_skip_urgent(sk);
	if (params)
		mpa_startup_inherit(ctx, params, mpa_hook_callbacks(ctx));
	release_sock(sk);
	return 0;

out:
	release_sock(sk);
	kfree(params);
	kfree_rcu(ctx, rcu);
	return err;
}

static bool mpa_tuf_registered __ro_after_init;

static void __init mpa_begin_crc(void)
{
	if (mpa_crc_lockstep)
		mpa_crc3_init();
	mpa_crc_lockstep = mpa_crc3_on;
}

static int __init mpa_module_init(void)
{
	int err;

	err = mpa_pages_init();
	if (err)
		return err;

	err = mpa_compat_init();
	if (err)
		goto no_compat;
	mpa_begin_crc();

	mpa_hook_init(&mpa_ops_overrides, mpa_accept);
	mpa_tcp_ooo_init(mpa_search_arrived);
	mpa_tcp_watch_init(mpa_report_unaligned, mpa_guard_segment);

	err = mpa_work_init();
	if (err)
		goto no_work;

	err = mpa_policy_init();
	if (err)
		goto no_policy;

	err = mpa_stat_init();
	if (err)
		goto no_stat;

	err = mpa_conns_init();
	if (err)
		goto no_conns;

	err = mpa_netlink_init();
	if (err)
		goto no_netlink;

	err = tcp_register_ulp(&mpa_ulp_ops);
	if (err)
		goto no_ulp;

	/* Nothing may fail from here on: sockets may have been attached. */
	mpa_tuf_registered = !tcp_register_ulp(&mpa_tuf_ulp_ops);
	if (!mpa_tuf_registered)
		pr_warn("another upper-layer protocol is called \"tuf\"\n");
	return 0;

no_ulp:
	mpa_netlink_exit();
no_netlink:
	mpa_conns_exit();
no_conns:
	mpa_stat_exit();
no_stat:
	mpa_policy_exit();
no_policy:
	mpa_work_exit();
no_work:
	mpa_compat_exit();
no_compat:
	mpa_pages_exit();
	return err;
}

static void __exit mpa_module_exit(void)
{
	if (mpa_tuf_registered)
		tcp_unregister_ulp(&mpa_tuf_ulp_ops);
	tcp_unregister_ulp(&mpa_ulp_ops);
	/*
	 * inet_diag calls get_info without the socket lock and without a reference to
	 * the module: wait until no task is in get_info.
	 */
	synchronize_rcu_tasks();
	mpa_netlink_exit();
	mpa_conns_exit();
	mpa_stat_exit();
	mpa_policy_exit();
	mpa_work_exit();
	mpa_hook_exit();
	mpa_pages_exit();
	mpa_compat_exit();
	/* kfree_rcu() may free contexts later: it needs no code of this module. */
}

module_init(mpa_module_init);
module_exit(mpa_module_exit);

MODULE_AUTHOR("The mpa developers");
MODULE_DESCRIPTION("Marker PDU Aligned framing for TCP (RFC 5044)");
MODULE_LICENSE("GPL");
MODULE_VERSION("1.0.0");
MODULE_ALIAS_TCP_ULP("mpa");
MODULE_ALIAS_TCP_ULP("tuf");
MODULE_SOFTDEP("pre: crc32c");
