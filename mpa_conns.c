// SPDX-License-Identifier: GPL-2.0
/*
 * The connections of a network namespace: all contexts, by their sockets' cookies. One
 * is found at once, and a walk goes on where it was while others come and go.
 *
 * A context is in from before it is attached until it is detached, or its socket
 * is destroyed. It and its socket are to be used under RCU alone; what is read
 * there without the socket lock may be changing.
 */

#include <linux/sched.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "mpa.h"

/**
 * struct mpa_conns - of one network namespace
 * @all:	contexts, by cookie
 * @last:	the largest cookie ever; written with the lock of @all
 */
struct mpa_conns {
	struct xarray	all;
	unsigned long	last;
};

static unsigned int mpa_conns_id __read_mostly;

static struct mpa_conns *mpa_conns(const struct net *net)
{
	return net_generic(net, mpa_conns_id);
}

/**
 * mpa_conns_add() - have a context found
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 * Return: 0 or -ENOMEM; -EBUSY on 32-bit machines, where a cookie may come again.
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

/**
 * mpa_conns_remove() - have it found no more
 * @ctx:	the context; freed after a grace period at the earliest
 *
 * Context: any.
 */
void mpa_conns_remove(struct mpa_ctx *ctx)
{
	if (!ctx->listed)
		return;
	xa_erase_bh(&mpa_conns(sock_net(ctx->sk))->all,
		    mpa_show_cookie(ctx->sk));
	/* No tap is set from here on: mpa_tap_set() looks, with the lock that comes next. */
	WRITE_ONCE(ctx->listed, false);
	mpa_tap_clear(ctx);
}

/**
 * mpa_conns_last() - the largest cookie so far
 * @net:	namespace
 *
 * Cookies grow, but for some thousands on each processor: a walk as far as this ends,
 * however many come meanwhile.
 *
 * Context: any.
 */
unsigned long mpa_conns_last(const struct net *net)
{
	return READ_ONCE(mpa_conns(net)->last);
}

/*
 * The memory of a socket that was freed may be another's now.
 * Return: whether it is held; the context is its own.
 */
static bool mpa_conns_hold(const struct mpa_ctx *ctx)
{
	if (!refcount_inc_not_zero(&ctx->sk->sk_refcnt))
		return false;
	if (mpa_ctx_rcu(ctx->sk) == ctx)
		return true;
	sock_put(ctx->sk);
	return false;
}

/**
 * mpa_conns_next() - walk through the connections of a namespace
 * @net:	namespace
 * @cookie:	of the last one that was seen, or 0; set to that of the one found
 * @last:	not beyond this one
 *
 * Context: process, under RCU, but for moments in between. mpa_conns_put() comes
 * next.
 * Return: the context, whose socket is held; or NULL when there are no more.
 */
struct mpa_ctx *mpa_conns_next(const struct net *net, unsigned long *cookie,
			       unsigned long last)
{
	struct xarray *all = &mpa_conns(net)->all;
	struct mpa_ctx *ctx;

	/* cond_resched_rcu() does nothing where RCU is preemptible and tasks are not. */
	rcu_read_unlock();
	cond_resched();
	rcu_read_lock();

	while ((ctx = xa_find_after(all, cookie, last, XA_PRESENT)))
		if (mpa_conns_hold(ctx))
			return ctx;
	return NULL;
}

/**
 * mpa_conns_put() - give back what mpa_conns_next() or mpa_conns_find() has found
 * @ctx:	the context
 *
 * Context: under RCU.
 */
void mpa_conns_put(struct mpa_ctx *ctx)
{
	sock_put(ctx->sk);
}

/**
 * mpa_conns_find() - find a connection by its socket's cookie
 * @net:	namespace
 * @cookie:	the cookie
 *
 * Context: under RCU. mpa_conns_put() comes next.
 * Return: the context, whose socket is held; or NULL.
 */
struct mpa_ctx *mpa_conns_find(const struct net *net, u64 cookie)
{
	struct mpa_ctx *ctx = xa_load(&mpa_conns(net)->all, cookie);

	if (!ctx || !mpa_conns_hold(ctx))
		return NULL;
	/* On 32-bit machines the upper half of it has not been looked at. */
	if (mpa_show_cookie(ctx->sk) == cookie)
		return ctx;
	mpa_conns_put(ctx);
	return NULL;
}

static int __net_init mpa_conns_net_init(struct net *net)
{
	struct mpa_conns *conns = mpa_conns(net);

	xa_init_flags(&conns->all, XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	return 0;
}

/*
 * Somebody inside the kernel, who was there before this module, may close his sockets in
 * an exit of his own that comes later. They count nowhere from here on.
 */
static void __net_exit mpa_conns_net_exit(struct net *net)
{
	struct mpa_conns *conns = mpa_conns(net);
	struct mpa_ctx *ctx;
	unsigned long id;

	if (xa_empty(&conns->all))
		return;
	rcu_read_lock();
	xa_for_each(&conns->all, id, ctx)
		WRITE_ONCE(ctx->tcp.mib, &mpa_mib_nowhere);
	rcu_read_unlock();
	synchronize_net();
	xa_destroy(&conns->all);
}

static struct pernet_operations mpa_conns_ops = {
	.init	= mpa_conns_net_init,
	.exit	= mpa_conns_net_exit,
	.id	= &mpa_conns_id,
	.size	= sizeof(struct mpa_conns),
};

int __init mpa_conns_init(void)
{
	return register_pernet_subsys(&mpa_conns_ops);
}

void mpa_conns_exit(void)
{
	unregister_pernet_subsys(&mpa_conns_ops);
}
