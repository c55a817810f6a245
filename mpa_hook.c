// SPDX-License-Identifier: GPL-2.0
/*
 * Replacing the operations and callbacks of a socket, and restoring them.
 *
 * The module's text and the tables must stay as long as anything points to
 * them. Each such pointer holds a reference to the module, which is dropped
 * - for icsk_ulp_ops by TCP, when it destroys the connection
 *   (tcp_cleanup_ulp());
 * - for sock->ops, as proto_ops.owner, by __sock_release(), after mpa_close()
 *   and so all of our text has returned;
 * - for sk_prot_creator of a listener's child, as proto.owner, by
 *   mpa_hook_clone(), which points it to TCP's own. A queued packet may hold a
 *   sock for seconds after TCP has destroyed it, and a TIME_WAIT socket has a
 *   pointer of its own.
 * A child in a listener's queue has nothing of ours, wherever it moves. A
 * request sock points to sk_prot of its listener and holds no reference: so the
 * tables outlive the module, see mpa_hook_exit().
 */

#include <linux/kmemleak.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/inet_common.h>
#include <net/tcp.h>

#include "mpa_sock.h"

static LIST_HEAD(mpa_tables);
static DEFINE_MUTEX(mpa_tables_lock);

static const struct mpa_overrides *mpa_overrides __ro_after_init;

mpa_accept_t mpa_hook_accept __ro_after_init;

/**
 * mpa_hook_init() - set what replaces TCP's own in sockets
 * @overrides:	the operations and callbacks
 * @accept:	attaches MPA to an accepted connection
 *
 * Context: module init.
 */
void mpa_hook_init(const struct mpa_overrides *overrides, mpa_accept_t accept)
{
	mpa_overrides = overrides;
	mpa_hook_accept = accept;
}

/*
 * TCP also calls the operations of one socket for another one, which may not
 * have ours: inet_child_forget() calls a listener's for a child, and with
 * net.ipv4.tcp_migrate_req a child may come from another listener.
 */
static bool mpa_proto_ours(const struct proto *proto)
{
	return proto->close == mpa_overrides->close;
}

/* Whether the socket has our operations. */
bool mpa_hook_ours(const struct sock *sk)
{
	return mpa_proto_ours(READ_ONCE(sk->sk_prot));
}

/* TCP's own operations of a struct socket that has ours */
const struct proto_ops *mpa_base_ops(const struct socket *sock)
{
	return container_of(READ_ONCE(sock->ops), struct mpa_table,
			    ops)->base_ops;
}

/* ---- passthrough ---- */

/* Slow path of mpa_call_begin(). TUF counts all calls: it also ends framing. */
bool __mpa_call_begin(struct mpa_ctx *ctx, enum mpa_part dir)
{
	mpa_delay(MPA_POINT_PLAIN_BEGIN);
	while (!atomic_inc_unless_negative(&ctx->plain[dir == MPA_TX])) {
		/* The direction is being switched, with the lock held: wait for that. */
		lock_sock(ctx->sk);
		release_sock(ctx->sk);
		if (!mpa_alt(ctx) && mpa_started(ctx))
			return true;
	}
	return mpa_framed(ctx, dir);
}

/* ---- callbacks ---- */

/*
 * sk_user_data belongs to whatever has hooked the socket, or may hook it. On a
 * kernel socket this is the user that starts MPA, with two exceptions: a psock
 * takes octets out of the receive queue, and SMC gives the program a file of its
 * TCP socket when it falls back.
 */
static bool mpa_hook_user_data_used(const struct sock *sk)
{
	return sk->sk_user_data &&
	       (!sk->sk_kern_sock || sk->sk_socket->file ||
		(uintptr_t)sk->sk_user_data & SK_USER_DATA_PSOCK);
}

static void mpa_hook_put_own(struct sock *sk, const struct mpa_table *table)
{
	WRITE_ONCE(sk->sk_data_ready, table->wake.data_ready);
	WRITE_ONCE(sk->sk_write_space, table->wake.write_space);
	WRITE_ONCE(sk->sk_state_change, table->state_change);
}

static void mpa_hook_put_back(struct sock *sk, const struct mpa_table *table)
{
	if (sk->sk_data_ready == mpa_overrides->data_ready)
		mpa_hook_put_own(sk, table);
}

/**
 * mpa_hook_restore_callbacks() - undo mpa_hook_callbacks()
 * @ctx:	the context
 *
 * Context: process, socket lock held.
 * Return: 0, or -EBUSY if something else has replaced the callbacks since: it
 * may restore ours.
 */
int mpa_hook_restore_callbacks(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;
	int err;

	write_lock_bh(&sk->sk_callback_lock);
	mpa_hook_put_back(sk, ctx->table);
	err = sk->sk_data_ready == ctx->table->wake.data_ready ? 0 : -EBUSY;
	write_unlock_bh(&sk->sk_callback_lock);
	return err;
}

/**
 * mpa_hook_callbacks() - replace the callbacks of a socket
 * @ctx:	its context
 *
 * Only if MPA starts: our callbacks rely on the socket lock, which TCP holds for
 * connections, but not for listening sockets. They stay until mpa_hook_detach(),
 * or until the socket is disconnected.
 *
 * Context: process, socket lock held.
 * Return: 0, or -EBUSY when something else has hooked the socket since it was
 * attached.
 */
int mpa_hook_callbacks(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;
	int err = 0;

	write_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_data_ready == mpa_overrides->data_ready)
		goto out;
	if (mpa_hook_user_data_used(sk) ||
	    sk->sk_data_ready != ctx->table->wake.data_ready ||
	    sk->sk_write_space != ctx->table->wake.write_space ||
	    sk->sk_state_change != ctx->table->state_change) {
		err = -EBUSY;
		goto out;
	}
	WRITE_ONCE(sk->sk_data_ready, mpa_overrides->data_ready);
	WRITE_ONCE(sk->sk_write_space, mpa_overrides->write_space);
	WRITE_ONCE(sk->sk_state_change, mpa_overrides->state_change);
out:
	write_unlock_bh(&sk->sk_callback_lock);
	return err;
}

/* ---- tables, attaching and detaching ---- */

static struct mpa_table *mpa_table_build(struct sock *sk,
					 const struct proto_ops *base_ops)
{
	struct mpa_table *table = kzalloc(sizeof(*table), GFP_KERNEL);

	if (!table)
		return NULL;

	table->base = sk->sk_prot;
	table->base_ops = base_ops;
	table->wake.data_ready = sk->sk_data_ready;
	table->wake.write_space = sk->sk_write_space;
	table->state_change = sk->sk_state_change;
	/* Never put: the table is never freed. Sockets hold our module. */
	__module_get(table->base->owner);
	__module_get(table->base_ops->owner);

	table->proto = *table->base;
	table->proto.owner = THIS_MODULE;
	table->ops = *table->base_ops;
	table->ops.owner = THIS_MODULE;
	mpa_overrides->fill(&table->proto, &table->ops);

	list_add(&table->list, &mpa_tables);
	return table;
}

/* The list is short: TCP has one pair of tables per address family. */
static struct mpa_table *mpa_table_get(struct sock *sk,
				       const struct proto_ops *base_ops)
{
	struct mpa_table *table;

	mutex_lock(&mpa_tables_lock);
	list_for_each_entry(table, &mpa_tables, list) {
		if (table->base == sk->sk_prot &&
		    table->base_ops == base_ops &&
		    table->wake.data_ready == sk->sk_data_ready &&
		    table->wake.write_space == sk->sk_write_space &&
		    table->state_change == sk->sk_state_change)
			goto found;
	}
	table = mpa_table_build(sk, base_ops);
found:
	mutex_unlock(&mpa_tables_lock);
	return table;
}

/**
 * mpa_hook_attach() - replace the operations of a socket
 * @ctx:	its context, complete but for what is set here
 * @ops:	TCP's own operations of its struct socket
 *
 * The socket's system calls call us from now on. A struct socket that is being
 * accepted has the listener's operations, which are ours, and a reference to our
 * module; or kernel_accept() is about to set both.
 *
 * Context: process, socket lock held.
 * Return: 0, -ENOMEM, or -EBUSY when something else has hooked the socket.
 */
int mpa_hook_attach(struct mpa_ctx *ctx, const struct proto_ops *ops)
{
	struct inet_connection_sock *icsk = inet_csk(ctx->sk);
	struct sock *sk = ctx->sk;
	struct socket *sock = sk->sk_socket;
	int err = 0;

	ctx->table = mpa_table_get(sk, ops);
	if (!ctx->table)
		return -ENOMEM;
	ctx->wake = &ctx->table->wake;
	ctx->tcp.base = ctx->table->base;
	mpa_delay(MPA_POINT_ATTACH);

	write_lock_bh(&sk->sk_callback_lock);
	if (mpa_hook_user_data_used(sk)) {
		err = -EBUSY;
		goto out;
	}
	rcu_assign_pointer(icsk->icsk_ulp_data, ctx);
	/* A call that sees our operations sees the context: see mpa_ctx(). */
	smp_store_release(&sk->sk_prot, &ctx->table->proto);
	if (sock->ops == ops) {
		__module_get(THIS_MODULE);
		module_put(ops->owner);
	}
	if (sock->ops) {
		/* Pairs with mpa_ctx() as well. */
		smp_store_release(&sock->ops, &ctx->table->ops);
	}
out:
	write_unlock_bh(&sk->sk_callback_lock);
	return err;
}

/**
 * mpa_hook_detach() - restore the operations of a socket
 * @ctx:	its context
 *
 * The operations of its struct socket stay: it is being released.
 *
 * Context: process, socket lock held, no system call but close(2) under way.
 */
void mpa_hook_detach(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;

	mpa_delay(MPA_POINT_DETACH);
	mpa_hook_restore_callbacks(ctx);
	write_lock_bh(&sk->sk_callback_lock);
	WRITE_ONCE(sk->sk_prot, ctx->table->base);
	rcu_assign_pointer(inet_csk(sk)->icsk_ulp_data, NULL);
	write_unlock_bh(&sk->sk_callback_lock);
}

/* ---- children of listening sockets ---- */

/**
 * mpa_hook_clone() - restore TCP's own operations in a child
 * @child:	a fresh copy of its listener
 *
 * If the listener is closing, it may have TCP's operations back already.
 *
 * Context: softirq, the child is locked and nobody else knows it.
 */
void mpa_hook_clone(struct sock *child)
{
	struct mpa_table *table;

	if (mpa_proto_ours(child->sk_prot_creator)) {
		/* The reference that sk_prot_alloc() would have taken. */
		table = container_of(child->sk_prot_creator, struct mpa_table,
				     proto);
		__module_get(table->base->owner);
		child->sk_prot_creator = table->base;
		module_put(THIS_MODULE);
	}
	if (!mpa_hook_ours(child))
		return;
	table = mpa_table(child);
	/* The listener's user may have replaced the callbacks. */
	mpa_hook_put_own(child, table);
	WRITE_ONCE(child->sk_prot, table->base);
}

/**
 * mpa_hook_exit() - remove all pointers to the module from the tables
 *
 * The tables themselves stay, a few KiB each time. A handshake under way when
 * its listener was closed points to the listener's sk_prot, without a
 * reference, until TCP drops the request: up to TCP_RTO_MAX later.
 *
 * Context: module exit: no socket uses them.
 */
void mpa_hook_exit(void)
{
	struct mpa_table *table;

	list_for_each_entry(table, &mpa_tables, list) {
		table->proto = *table->base;
		table->ops = *table->base_ops;
		kmemleak_ignore(table);
	}
	/* Wait for RCU readers that have one of our pointers. */
	synchronize_net();
}
