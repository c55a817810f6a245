// SPDX-License-Identifier: GPL-2.0
/*
 * Marker PDU Aligned framing (RFC 5044) as an upper-layer protocol of TCP: the
 * module, and how a socket gets a context.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "mpa_face.h"
#include "mpa_net.h"
#include "mpa_pages.h"
#include "mpa_tuf.h"

/*
 * Reads as N as well if the processor has no such instruction, or the check at
 * load has failed.
 */
static bool mpa_crc_lockstep __ro_after_init = true;
module_param_named(crc_lockstep, mpa_crc_lockstep, bool, 0444);
MODULE_PARM_DESC(crc_lockstep,
		 "compute CRCs of three FPDUs side by side where the processor has an instruction for it; N: use the kernel's CRC alone");

static void mpa_ctx_setup(struct mpa_ctx *ctx, struct sock *sk)
{
	ctx->sk = sk;
	ctx->tcp.mib = mpa_stat_mib(sock_net(sk));
	ctx->tx.segment = MPA_SEGMENT_OFF;
	ctx->tx.packing = true;
	ctx->tx.oversize = true;
	INIT_DELAYED_WORK(&ctx->work, mpa_work);
}

/* Put a context into its socket; or it is freed. */
static int mpa_attach(struct mpa_ctx *ctx)
{
	int err = mpa_conns_add(ctx, GFP_KERNEL) ?: mpa_hook_attach(ctx);

	if (err) {
		mpa_conns_remove(ctx);
		kfree_rcu(ctx, rcu);
	}
	return err;
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

	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	if (!ctx)
		return -ENOMEM;
	mpa_ctx_setup(ctx, sk);

	err = mpa_attach(ctx);
	mpa_delay(MPA_POINT_INIT_END);
	return err;
}

/*
 * The first socket of TUF switches the key on, which stays so: to switch it for each
 * would cost everybody.
 */
static void mpa_tuf_use(void)
{
	static bool used;

	/* Pairs with the release below. */
	if (smp_load_acquire(&used))
		return;
	static_branch_enable(&mpa_tuf_used);
	/* Not before all branches are patched. */
	smp_store_release(&used, true);
}

/* TUF has no startup that a listener's children could inherit. */
static int mpa_tuf_attach(struct sock *sk)
{
	struct mpa_tuf *tuf;
	int err;

	mpa_delay(MPA_POINT_INIT_BEGIN);
	if (!mpa_tcp_connected(sk))
		return -ENOTCONN;
	mpa_tuf_use();
	tuf = kzalloc(sizeof(*tuf), GFP_KERNEL_ACCOUNT);
	if (!tuf)
		return -ENOMEM;
	mpa_ctx_setup(&tuf->ctx, sk);
	mpa_tufopt_setup(&tuf->ctx);
	err = mpa_attach(&tuf->ctx);
	mpa_delay(MPA_POINT_INIT_END);
	return err;
}

static struct mpa_ctx *mpa_clone_ctx(const struct mpa_ctx *listener,
				     struct sock *child, gfp_t priority)
{
	struct mpa_params *params, *copy = NULL;
	struct mpa_ctx *ctx;

	ctx = kzalloc(sizeof(*ctx), priority);
	if (!ctx)
		return NULL;
	mpa_ctx_setup(ctx, child);
	mpa_tx_inherit(&ctx->tx, &listener->tx);
	ctx->rx.info = READ_ONCE(listener->rx.info);
	ctx->rx.batch = READ_ONCE(listener->rx.batch);
	ctx->rx.want_place = READ_ONCE(listener->rx.want_place);

	ctx->life = MPA_LIFE_UNACCEPTED;
	params = rcu_dereference(listener->params);
	if (!params)
		goto out;
	copy = kmemdup(params, struct_size(params, private,
					   params->private_len), priority);
	if (!copy) {
		kfree(ctx);
		return NULL;
	}
	mpa_startup_inherit(ctx, copy);
out:
	if (!mpa_conns_add(ctx, priority))
		return ctx;
	mpa_ctx_free(ctx);
	return NULL;
}

/*
 * Memory for a child that nobody has accepted is charged to the listener's
 * control group.
 */
static struct mpa_ctx *mpa_clone_charged(const struct mpa_ctx *listener,
					 struct sock *child, gfp_t priority)
{
	struct mem_cgroup *old;
	struct mpa_ctx *ctx;

	old = set_active_memcg(mem_cgroup_from_sk(listener->sk));
	ctx = mpa_clone_ctx(listener, child, priority | __GFP_ACCOUNT);
	set_active_memcg(old);
	return ctx;
}

/*
 * TCP has made a child of a listening socket, a copy of it, context pointer
 * and all. The listener is not locked, and may be closing.
 */
static void mpa_clone(const struct request_sock *req, struct sock *child,
		      const gfp_t priority)
{
	struct inet_connection_sock *icsk = inet_csk(child);
	struct mpa_ctx *listener, *ctx = NULL;

	/*
	 * tcp_cleanup_ulp() puts the module. If the listener was the last user,
	 * the module may be going.
	 */
	if (!try_module_get(THIS_MODULE)) {
		icsk->icsk_ulp_ops = NULL;
		RCU_INIT_POINTER(icsk->icsk_ulp_data, NULL);
		return;
	}

	mpa_delay(MPA_POINT_CLONE_BEGIN);
	rcu_read_lock();
	listener = rcu_dereference_raw(icsk->icsk_ulp_data);
	if (listener)
		ctx = mpa_clone_charged(listener, child, priority);
	mpa_delay(MPA_POINT_CLONE_CTX);
	if (!mpa_hook_clone(child, ctx)) {
		if (ctx) {
			mpa_conns_remove(ctx);
			mpa_ctx_free(ctx);
		}
		/*
		 * The child may move to another listener: leave nothing of ours
		 * in it.
		 */
		icsk->icsk_ulp_ops = NULL;
		/*
		 * mpa_module_exit() waits for a grace period, so this text
		 * stays.
		 */
		module_put(THIS_MODULE);
	}
	rcu_read_unlock();
	mpa_delay(MPA_POINT_CLONE_END);
}

/*
 * TCP destroys the socket. A context is left only if it was never accepted, and
 * so never closed.
 */
static void mpa_release(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	mpa_delay(MPA_POINT_RELEASE);
	if (ctx) {
		mpa_conns_remove(ctx);
		mpa_rx_free(ctx);
	}
	mpa_hook_forget(sk);
	if (ctx)
		mpa_ctx_free(ctx);
}

/* For ss. What is shown there is for everybody who may know of the socket. */
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
	.release = mpa_release,
	.clone	= mpa_clone,
	.get_info = mpa_ulp_info,
	.get_info_size = mpa_ulp_info_size,
};

static struct tcp_ulp_ops mpa_tuf_ulp_ops __read_mostly = {
	.name	= "tuf",
	.owner	= THIS_MODULE,
	.init	= mpa_tuf_attach,
	.release = mpa_release,
	.get_info = mpa_ulp_info,
	.get_info_size = mpa_ulp_info_size,
};

static bool mpa_tuf_registered __ro_after_init;

static void __init mpa_begin_crc(void)
{
	if (mpa_crc_lockstep && !mpa_crc3_init())
		pr_warn("CRCs of three FPDUs side by side are not the kernel's: its own is used\n");
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

	mpa_hook_init(&mpa_ops_overrides);
	mpa_tcp_ooo_init(mpa_search_arrived);
	mpa_tcp_watch_init(mpa_report_unaligned, mpa_guard_leaves);

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

	/* Nothing may fail from here on, as sockets may have been attached. */
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
	 * inet_diag calls get_info of a socket that it holds no lock of, nor the
	 * module: wait until no task can be there.
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
	/* Contexts in kfree_rcu() need none of the module's text. */
}

module_init(mpa_module_init);
module_exit(mpa_module_exit);

MODULE_AUTHOR("The mpa developers");
MODULE_DESCRIPTION("Marker PDU Aligned framing for TCP (RFC 5044)");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
MODULE_ALIAS_TCP_ULP("mpa");
MODULE_ALIAS_TCP_ULP("tuf");
MODULE_SOFTDEP("pre: crc32c");
