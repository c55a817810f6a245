// SPDX-License-Identifier: GPL-2.0
/*
 * Replacing the operations and callbacks of a socket, and restoring them.
 *
 * The module must stay as long as a pointer to its text or to the tables exists. Each
 * such pointer holds a reference to the module:
 * - icsk_ulp_ops: TCP drops the reference when it destroys the connection
 *   (tcp_cleanup_ulp());
 * - sock->ops, as proto_ops.owner: __sock_release() drops the reference after
 *   mpa_close(), and so all of our text, has returned;
 * - sk_prot_creator of a listener's child, as proto.owner: mpa_hook_clone() drops the
 *   reference, and points sk_prot_creator to TCP's own proto. Otherwise the module
 *   could not be unloaded for seconds: a queued packet may hold the sock after TCP has
 *   destroyed it, and a TIME_WAIT socket copies the pointer, with a reference.
 * A child in a listener's queue has no such pointer, even if it migrates to another
 * listener. A request sock points to its listener's sk_prot without a reference, so
 * the tables outlive the module: see mpa_hook_exit().
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

void mpa_hook_init(const struct mpa_overrides *overrides, mpa_accept_t accept)
{
	mpa_overrides = overrides;
	mpa_hook_accept = accept;
}

/*
 * Whether @proto is ours. TCP also calls an operation of one socket for another socket,
 * whose proto may not be ours: inet_child_forget() calls a listener's operation for a
 * child, and with net.ipv4.tcp_migrate_req the child may come from another listener.
 */
static bool mpa_proto_ours(const struct proto *proto)
{
	return proto->close == mpa_overrides->close;
}

bool mpa_hook_ours(const struct sock *sk)
{
	return mpa_proto_ours(READ_ONCE(sk->sk_prot));
}

/* Return TCP's own operations of a struct socket that has ours. */
const struct proto_ops *mpa_base_ops(const struct socket *sock)
{
	return container_of(READ_ONCE(sock->ops), struct mpa_table,
			    ops)->base_ops;
}

/* ---- passthrough ---- */

/*
 * Slow path of mpa_call_begin(). With TUF all calls are counted, as framing may also be
 * switched off.
 */
bool __mpa_call_begin(struct mpa_ctx *ctx, enum mpa_part dir)
{
	mpa_delay(MPA_POINT_PLAIN_BEGIN);
	while (!atomic_inc_unless_negative(&ctx->plain[dir == MPA_TX])) {
		/* The lock holder is switching framing on or off: wait for the lock. */
		lock_sock(ctx->sk);
		release_sock(ctx->sk);
		if (!mpa_alt(ctx) && mpa_started(ctx))
			return true;
	}
	return mpa_framed(ctx, dir);
}

/* ---- callbacks ---- */

/*
 * Whether sk_user_data belongs to another user, who has hooked the socket or may hook
 * it. On a kernel socket sk_user_data belongs to the user that starts MPA, with two
 * exceptions: a psock takes octets out of the receive queue; and when SMC falls back to
 * TCP, the program gets a file of SMC's TCP socket.
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

/*
 * Restore TCP's callbacks. Context: process, socket lock held. Return: 0, or -EBUSY if
 * others have replaced our callbacks: they may restore ours later.
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

/*
 * Replace the callbacks of a socket on which MPA starts. Our callbacks rely on the
 * socket lock, which TCP holds for connections, but not for listening sockets. Our
 * callbacks stay until the socket is detached or disconnected. Context: process, socket
 * lock held. Return: 0, or -EBUSY if others have hooked the socket since it was
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
	/* Never put these references, as the table is never freed. */
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

/* Find or build a table. The list is short: it has about one table per address family. */
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

/*
 * Replace the operations of a socket, so that its system calls call us from now on.
 * @ops: TCP's own operations of the struct socket. During accept(2) the struct socket
 * has the listener's operations (ours) and a reference to our module; or
 * kernel_accept() sets both later. Context: process, socket lock held. Return: 0,
 * -ENOMEM, or -EBUSY if others have hooked the socket.
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
	/* A call that sees our operations also sees the context: see mpa_ctx(). */
	smp_store_release(&sk->sk_prot, &ctx->table->proto);
	if (sock->ops == ops) {
		__module_get(THIS_MODULE);
		module_put(ops->owner);
	}
	if (sock->ops) {
		/* Pairs with mpa_ctx(). */
		smp_store_release(&sock->ops, &ctx->table->ops);
	}
out:
	write_unlock_bh(&sk->sk_callback_lock);
	return err;
}

/*
 * Restore the operations of a socket. The struct socket keeps our operations, as
 * close(2) is releasing it. Context: process, socket lock held, no other system call in
 * progress.
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

/*
 * Restore TCP's own operations in a child, a fresh copy of its listener. If the
 * listener is closing, the child may have TCP's operations already. Context: softirq,
 * the child is locked and nobody else can reach it.
 */
void mpa_hook_clone(struct sock *child)
{
	struct mpa_table *table;

	if (mpa_proto_ours(child->sk_prot_creator)) {
		/* Take the reference that sk_prot_alloc() would have taken. */
		table = container_of(child->sk_prot_creator, struct mpa_table,
				     proto);
		__module_get(table->base->owner);
		child->sk_prot_creator = table->base;
		module_put(THIS_MODULE);
	}
	if (!mpa_hook_ours(child))
		return;
	table = mpa_table(child);
	/* Restore the callbacks, too: the listener's user may have replaced them. */
	mpa_hook_put_own(child, table);
	WRITE_ONCE(child->sk_prot, table->base);
}

/*
 * Remove all pointers to the module from the tables at module exit, when no socket uses
 * the tables. The tables themselves stay, a few KiB per load of the module. If a
 * listener is closed during a handshake, the request sock points to the listener's
 * sk_prot, without a reference, until TCP drops the request: up to TCP_RTO_MAX later.
 */
void mpa_hook_exit(void)
{
	struct mpa_table *table;

	list_for_each_entry(table, &mpa_tables, list) {
		table->proto = *table->base;
		table->ops = *table->base_ops;
		kmemleak_ignore(table);
	}
	/* Wait for RCU readers that have read a pointer to the module. */
	synchronize_net();
}
