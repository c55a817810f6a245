// SPDX-License-Identifier: GPL-2.0
/*
 * The generic netlink family "mpa" (Documentation/netlink/specs/mpa.yaml). A test compares the
 * policies here with mpa.yaml.
 *
 * Nothing here takes a socket lock, or delays a task that holds one.
 */

#include <linux/mutex.h>
#include <net/genetlink.h>
#include <uapi/linux/mpa_netlink.h>

#include "mpa_sock.h"

static struct genl_family mpa_netlink_family;

/* ---- connections ---- */

static int mpa_netlink_put_conn(struct sk_buff *skb, u32 portid, u32 seq,
				int flags, const struct mpa_ctx *ctx,
				struct user_namespace *user_ns)
{
	void *head = genlmsg_put(skb, portid, seq, &mpa_netlink_family, flags,
				 MPA_CMD_CONN_GET);

	if (!head)
		return -EMSGSIZE;
	if (mpa_show_conn(skb, ctx, user_ns, NULL)) {
		genlmsg_cancel(skb, head);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, head);
	return 0;
}

/*
 * Take a reference to the socket of @ctx, under RCU. Return false if the socket was freed, even
 * if its memory was reused for another socket.
 */
static bool mpa_netlink_hold(const struct mpa_ctx *ctx)
{
	if (!refcount_inc_not_zero(&ctx->sk->sk_refcnt))
		return false;
	if (mpa_ctx_rcu(ctx->sk) == ctx)
		return true;
	sock_put(ctx->sk);
	return false;
}

/*
 * Find the context that has the request's cookie (attribute @attr), and hold its socket.
 * Context: under RCU. Return: the context, or an ERR_PTR().
 */
static struct mpa_ctx *mpa_netlink_find(struct genl_info *info, int attr)
{
	struct mpa_ctx *ctx;
	u64 cookie;

	if (GENL_REQ_ATTR_CHECK(info, attr))
		return ERR_PTR(-EINVAL);
	cookie = nla_get_u64(info->attrs[attr]);
	ctx = xa_load(&mpa_conns(genl_info_net(info))->all, cookie);
	if (ctx && mpa_netlink_hold(ctx)) {
		/* On 32-bit machines the lookup ignores the upper half of the cookie. */
		if (mpa_show_cookie(ctx->sk) == cookie)
			return ctx;
		sock_put(ctx->sk);
	}
	NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[attr],
			    "no socket with MPA in this network namespace has this cookie");
	return ERR_PTR(-ENOENT);
}

static int mpa_netlink_conn_get(struct sk_buff *skb, struct genl_info *info)
{
	struct sk_buff *reply = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	struct mpa_ctx *ctx;
	int err;

	if (!reply)
		return -ENOMEM;
	rcu_read_lock();
	ctx = mpa_netlink_find(info, MPA_A_CONN_COOKIE);
	err = PTR_ERR_OR_ZERO(ctx);
	if (!err) {
		err = mpa_netlink_put_conn(reply, info->snd_portid,
					   info->snd_seq, 0, ctx,
					   sk_user_ns(NETLINK_CB(skb).sk));
		sock_put(ctx->sk);
	}
	rcu_read_unlock();
	if (!err)
		return genlmsg_reply(reply, info);
	nlmsg_free(reply);
	return err;
}

static int mpa_netlink_conn_dump(struct sk_buff *skb,
				 struct netlink_callback *cb)
{
	struct user_namespace *user_ns = sk_user_ns(NETLINK_CB(cb->skb).sk);
	struct mpa_conns *conns = mpa_conns(sock_net(skb->sk));
	unsigned long cookie = cb->args[0];
	struct mpa_ctx *ctx;
	int err = 0;

	/* Skip most connections added during the dump, so that the dump ends. */
	if (!cookie)
		cb->args[1] = READ_ONCE(conns->last);
	rcu_read_lock();
	while (!err && (ctx = xa_find_after(&conns->all, &cookie, cb->args[1],
					    XA_PRESENT))) {
		if (!mpa_netlink_hold(ctx))
			continue;
		err = mpa_netlink_put_conn(skb, NETLINK_CB(cb->skb).portid,
					   cb->nlh->nlmsg_seq, NLM_F_MULTI, ctx,
					   user_ns);
		sock_put(ctx->sk);
		if (!err)
			cb->args[0] = cookie;
		/* Not cond_resched_rcu(): with preemptible RCU it does nothing. */
		rcu_read_unlock();
		cond_resched();
		rcu_read_lock();
	}
	rcu_read_unlock();
	return skb->len ?: err;
}

/* ---- the administrator's policy ---- */

/* Serializes requests, so that a request reads or sets all values together. */
static DEFINE_MUTEX(mpa_netlink_policy_lock);

static int mpa_netlink_policy_get(struct sk_buff *skb, struct genl_info *info)
{
	struct sk_buff *reply = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	unsigned int i;
	int err = 0;
	void *head;

	if (!reply)
		return -ENOMEM;
	head = genlmsg_put_reply(reply, info, &mpa_netlink_family, 0,
				 MPA_CMD_POLICY_GET);
	mutex_lock(&mpa_netlink_policy_lock);
	for (i = 1; head && !err && i <= MPA_A_POLICY_MAX; i++)
		err = nla_put_u32(reply, i,
				  mpa_policy_get(genl_info_net(info), i));
	mutex_unlock(&mpa_netlink_policy_lock);
	if (!head || err) {
		nlmsg_free(reply);
		return -EMSGSIZE;
	}
	genlmsg_end(reply, head);
	return genlmsg_reply(reply, info);
}

/* mpa_policy_set_policy has checked the ranges. */
static int mpa_netlink_policy_set(struct sk_buff *skb, struct genl_info *info)
{
	unsigned int i;

	mutex_lock(&mpa_netlink_policy_lock);
	for (i = 1; i <= MPA_A_POLICY_MAX; i++) {
		const struct nlattr *attr = info->attrs[i];

		if (attr)
			mpa_policy_set(genl_info_net(info), i,
				       nla_get_u32(attr));
	}
	mutex_unlock(&mpa_netlink_policy_lock);
	return 0;
}

/* ---- taps ---- */

static int mpa_netlink_tap_set(struct sk_buff *skb, struct genl_info *info)
{
	struct mpa_ctx *ctx;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, MPA_A_TAP_OCTETS))
		return -EINVAL;
	/* static_branch_enable() may sleep, so it is not called under RCU. */
	static_branch_enable(&mpa_tap_used);
	rcu_read_lock();
	ctx = mpa_netlink_find(info, MPA_A_TAP_COOKIE);
	err = PTR_ERR_OR_ZERO(ctx);
	if (!err) {
		err = mpa_tap_set(genl_info_net(info), ctx, NETLINK_CB(skb).sk,
				  info->snd_portid,
				  nla_get_u32(info->attrs[MPA_A_TAP_OCTETS]));
		sock_put(ctx->sk);
	}
	rcu_read_unlock();
	if (err == -EBUSY)
		NL_SET_ERR_MSG(info->extack,
			       "another socket has a tap on this connection");
	else if (err == -ENOSPC)
		NL_SET_ERR_MSG(info->extack,
			       "too many taps in this network namespace");
	return err;
}

static int mpa_netlink_tap_clear(struct sk_buff *skb, struct genl_info *info)
{
	struct mpa_ctx *ctx;

	rcu_read_lock();
	ctx = mpa_netlink_find(info, MPA_A_TAP_COOKIE);
	if (!IS_ERR(ctx)) {
		mpa_tap_clear(ctx);
		sock_put(ctx->sk);
	}
	rcu_read_unlock();
	return PTR_ERR_OR_ZERO(ctx);
}

/* ---- events ---- */

static int mpa_netlink_event_join(struct sk_buff *skb, struct genl_info *info)
{
	int err = mpa_tap_set(genl_info_net(info), NULL, NETLINK_CB(skb).sk,
			      info->snd_portid, 0);

	if (err == -ENOSPC)
		NL_SET_ERR_MSG(info->extack,
			       "too many event listeners or taps in this network namespace");
	return err;
}

/* ---- the family ---- */

static struct netlink_range_validation mpa_netlink_timeout = {
	.min = 1,
	.max = MPA_POLICY_TIMEOUT_MS_MAX,
};

static struct netlink_range_validation mpa_netlink_octets = {
	.max = MPA_ULPDU_MAX,
};

/* conn-get and tap-clear share the policy: the attribute has the same number in both. */
static_assert((int)MPA_A_TAP_COOKIE == MPA_A_CONN_COOKIE);

static const struct nla_policy mpa_netlink_cookie_policy[] = {
	[MPA_A_CONN_COOKIE] = { .type = NLA_U64 },
};

static const struct nla_policy mpa_policy_set_policy[] = {
	[MPA_A_POLICY_CRC_OPTIONAL] = NLA_POLICY_MAX(NLA_U32, 1),
	[MPA_A_POLICY_STARTUP_TIMEOUT_MS] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &mpa_netlink_timeout),
	[MPA_A_POLICY_STARTUP_MAX] = { .type = NLA_U32 },
	[MPA_A_POLICY_MARKERS] = NLA_POLICY_MAX(NLA_U32, 1),
	[MPA_A_POLICY_PLACE] = NLA_POLICY_MAX(NLA_U32, 1),
};

static const struct nla_policy mpa_tap_set_policy[] = {
	[MPA_A_TAP_COOKIE] = { .type = NLA_U64 },
	[MPA_A_TAP_OCTETS] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &mpa_netlink_octets),
};

static const struct genl_ops mpa_netlink_ops[] = {
	{
		.cmd		= MPA_CMD_CONN_GET,
		.doit		= mpa_netlink_conn_get,
		.dumpit		= mpa_netlink_conn_dump,
		.policy		= mpa_netlink_cookie_policy,
		.maxattr	= ARRAY_SIZE(mpa_netlink_cookie_policy) - 1,
	},
	{
		.cmd		= MPA_CMD_POLICY_GET,
		.doit		= mpa_netlink_policy_get,
	},
	{
		.cmd		= MPA_CMD_POLICY_SET,
		.flags		= GENL_UNS_ADMIN_PERM,
		.doit		= mpa_netlink_policy_set,
		.policy		= mpa_policy_set_policy,
		.maxattr	= ARRAY_SIZE(mpa_policy_set_policy) - 1,
	},
	{
		.cmd		= MPA_CMD_TAP_SET,
		.flags		= GENL_UNS_ADMIN_PERM,
		.doit		= mpa_netlink_tap_set,
		.policy		= mpa_tap_set_policy,
		.maxattr	= ARRAY_SIZE(mpa_tap_set_policy) - 1,
	},
	{
		.cmd		= MPA_CMD_TAP_CLEAR,
		.flags		= GENL_UNS_ADMIN_PERM,
		.doit		= mpa_netlink_tap_clear,
		.policy		= mpa_netlink_cookie_policy,
		.maxattr	= ARRAY_SIZE(mpa_netlink_cookie_policy) - 1,
	},
	{
		.cmd		= MPA_CMD_EVENT_JOIN,
		.flags		= GENL_UNS_ADMIN_PERM,
		.doit		= mpa_netlink_event_join,
	},
};

static const struct genl_multicast_group mpa_netlink_groups[] = {
	[MPA_NLGRP_EVENTS] = {
		.name = MPA_MCGRP_EVENTS,
		.flags = GENL_MCAST_CAP_NET_ADMIN,
	},
};

static struct genl_family mpa_netlink_family __ro_after_init = {
	.name		= MPA_FAMILY_NAME,
	.version	= MPA_FAMILY_VERSION,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.ops		= mpa_netlink_ops,
	.n_ops		= ARRAY_SIZE(mpa_netlink_ops),
	.mcgrps		= mpa_netlink_groups,
	.n_mcgrps	= ARRAY_SIZE(mpa_netlink_groups),
};

/* Maximum number of namespaces that send to the group at the same time. */
#define MPA_EVENTS_AT_ONCE	4

/* Call this last at module init, as requests may arrive from then on. */
int __init mpa_netlink_init(void)
{
	int err;

	mpa_conns_family = &mpa_netlink_family;
	mpa_event_wq = alloc_workqueue("mpa_events", WQ_UNBOUND,
				       MPA_EVENTS_AT_ONCE);
	if (!mpa_event_wq)
		return -ENOMEM;
	netlink_register_notifier(&mpa_tap_notifier);
	err = genl_register_family(&mpa_netlink_family);
	if (err) {
		netlink_unregister_notifier(&mpa_tap_notifier);
		destroy_workqueue(mpa_event_wq);
	}
	return err;
}

/* Called when no connection is left. The workqueue's items use the family: end them first. */
void mpa_netlink_exit(void)
{
	destroy_workqueue(mpa_event_wq);
	genl_unregister_family(&mpa_netlink_family);
	netlink_unregister_notifier(&mpa_tap_notifier);
}
