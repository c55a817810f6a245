// SPDX-License-Identifier: GPL-2.0
/*
 * The tables of operations: which system calls on a socket come to MPA, and
 * how they and the socket's callbacks are put in and taken out.
 *
 * The module's text and the tables must stay as long as anything points to
 * them. These hold a reference to the module, and who gives it back:
 * - icsk_ulp_ops: TCP, when it destroys the connection (tcp_cleanup_ulp());
 * - sock->ops, as proto_ops.owner: __sock_release(), behind the return of
 *   mpa_close(), and so of all of our text;
 * - sk_prot_creator of a listener's child, as proto.owner: mpa_hook_clone(), which
 *   points it to TCP's own. A packet in a queue may hold a sock for seconds after
 *   TCP has destroyed it, and what is in TIME_WAIT has a pointer of its own.
 * A request of a handshake points to sk_prot of its listener and holds nothing:
 * so the tables outlive the module, see mpa_hook_exit().
 */

#include <linux/kmemleak.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/inet_common.h>
#include <net/tcp.h>

#include <asm/ioctls.h>

#include "mpa.h"

/**
 * struct mpa_table - operations of attached sockets, one for each kind of
 *		      socket met (IPv4, IPv6)
 * @list:	in mpa_tables
 * @base:	TCP's own
 * @base_ops:	TCP's own
 * @data_ready:	TCP's own
 * @write_space: TCP's own
 * @state_change: TCP's own
 * @proto:	@base with ours put in
 * @ops:	@base_ops with ours put in
 */
struct mpa_table {
	struct list_head	list;
	struct proto		*base;
	const struct proto_ops	*base_ops;
	void			(*data_ready)(struct sock *sk);
	void			(*write_space)(struct sock *sk);
	void			(*state_change)(struct sock *sk);
	struct proto		proto;
	struct proto_ops	ops;
};

static LIST_HEAD(mpa_tables);
static DEFINE_MUTEX(mpa_tables_lock);

/* ---- operations: ours while MPA runs, TCP's otherwise ---- */

/*
 * A child of a listening socket for which there was no memory has no context
 * (see mpa_clone()): it is good for nothing but being closed.
 *
 * TCP also calls the operations of one socket with another one, which may be
 * none of ours: inet_child_forget() a listener's with a child, and with
 * net.ipv4.tcp_migrate_req a child may come from another listener.
 */

static bool mpa_proto_ours(const struct proto *proto)
{
	return proto->close == mpa_close;
}

static bool mpa_ops_ours(const struct sock *sk)
{
	return mpa_proto_ours(READ_ONCE(sk->sk_prot));
}

/* Of a socket that is ours. */
static struct mpa_table *mpa_table(const struct sock *sk)
{
	return container_of(READ_ONCE(sk->sk_prot), struct mpa_table, proto);
}

static struct mpa_ctx *mpa_ops_ctx(const struct sock *sk)
{
	return mpa_ops_ours(sk) ? mpa_ctx(sk) : NULL;
}

static const struct proto_ops *mpa_base_ops(const struct socket *sock)
{
	return container_of(READ_ONCE(sock->ops), struct mpa_table,
			    ops)->base_ops;
}

/*
 * Whether a call is TCP's own. MPA is not started before mpa_passthrough_end().
 */
static bool mpa_passthrough_begin(struct mpa_ctx *ctx)
{
	bool plain;

	if (mpa_started(ctx))
		return false;
	mpa_delay(MPA_POINT_PLAIN_BEGIN);
	lock_sock(ctx->sk);
	plain = !mpa_started(ctx);
	ctx->passthrough += plain;
	release_sock(ctx->sk);
	return plain;
}

static void mpa_passthrough_end(struct mpa_ctx *ctx)
{
	mpa_delay(MPA_POINT_PLAIN_END);
	lock_sock(ctx->sk);
	ctx->passthrough--;
	release_sock(ctx->sk);
}

static int mpa_op_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	int ret;

	if (!ctx)
		return -ENOMEM;
	mpa_hook_adopt(ctx);
	if (!mpa_passthrough_begin(ctx))
		return mpa_sendmsg(ctx, msg, size);
	ret = ctx->table->base->sendmsg(sk, msg, size);
	mpa_passthrough_end(ctx);
	return ret;
}

static int mpa_op_recvmsg(struct sock *sk, struct msghdr *msg, size_t len,
			   int flags MPA_ADDR_LEN_PARAM)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	int ret;

	if (!ctx)
		return -ENOMEM;
	mpa_hook_adopt(ctx);
	if (flags & MSG_ERRQUEUE)
		return ctx->table->base->recvmsg(sk, msg, len,
						 flags MPA_ADDR_LEN_ARG);
	if (!mpa_passthrough_begin(ctx))
		return mpa_recvmsg(ctx, msg, len, flags);
	ret = ctx->table->base->recvmsg(sk, msg, len, flags MPA_ADDR_LEN_ARG);
	mpa_passthrough_end(ctx);
	return ret;
}

#ifdef MPA_HAVE_SENDPAGE
static int mpa_op_sendpage(struct sock *sk, struct page *page, int offset,
			    size_t size, int flags)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	struct bio_vec vec = {
		.bv_page = page, .bv_offset = offset, .bv_len = size,
	};
	struct msghdr msg = { .msg_flags = flags | MSG_SPLICE_PAGES };
	int ret;

	if (!ctx)
		return -ENOMEM;
	if (mpa_passthrough_begin(ctx)) {
		ret = ctx->table->base->sendpage(sk, page, offset, size, flags);
		mpa_passthrough_end(ctx);
		return ret;
	}
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, size);
	return mpa_sendmsg(ctx, &msg, size);
}
#endif

#ifdef MPA_HAVE_SPLICE_EOF
static void mpa_op_splice_eof(struct socket *sock)
{
	struct mpa_ctx *ctx = mpa_ctx(sock->sk);

	if (!ctx || !mpa_started(ctx)) {
		mpa_table(sock->sk)->base->splice_eof(sock);
		return;
	}
	/* What sendfile(2) had announced does not come. */
	lock_sock(sock->sk);
	mpa_tx_end_batch(ctx, false);
	release_sock(sock->sk);
}
#endif

static int mpa_op_ioctl(struct sock *sk, int cmd, mpa_ioctl_arg arg)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	u32 octets = 0;

	if (!ctx || !mpa_started(ctx))
		return mpa_table(sk)->base->ioctl(sk, cmd, arg);
	if (cmd == SIOCINQ)
		return mpa_ioctl_put(arg, mpa_recvmsg_inq(ctx));

	lock_sock(sk);
	mpa_tx_end_batch(ctx, true);
	if (mpa_tx_stuck(&ctx->tx))
		octets = ctx->tx.out->len - ctx->tx.out->sent;
	if (octets)
		octets += cmd == SIOCOUTQ ? mpa_tcp_unacked(sk) :
					    mpa_tcp_unsent(sk);
	release_sock(sk);
	if (octets && (cmd == SIOCOUTQ || cmd == SIOCOUTQNSD))
		return mpa_ioctl_put(arg, octets);
	/* TCP has all of them. */
	return mpa_table(sk)->base->ioctl(sk, cmd, arg);
}

/* Called with the socket lock held. */
static void mpa_op_shutdown(struct sock *sk, int how)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	long timeo = 0;

	if (ctx && mpa_startup_shutdown(ctx))
		return;
	/* The FIN stands behind what has been accepted. */
	if (ctx && how & SEND_SHUTDOWN && mpa_started(ctx) &&
	    !mpa_tx_finish(ctx, &timeo))
		ctx->tx.fin_due = true;
	else
		mpa_ops_base_shutdown(sk, how);
}

/* Give a socket its own callbacks back, if it has ours. */
static void mpa_hook_put_back(struct sock *sk, const struct mpa_table *table)
{
	if (sk->sk_data_ready != mpa_data_ready)
		return;
	WRITE_ONCE(sk->sk_data_ready, table->data_ready);
	WRITE_ONCE(sk->sk_write_space, table->write_space);
	WRITE_ONCE(sk->sk_state_change, table->state_change);
}

/* Return: -EBUSY if somebody else has put his in, and may put ours back. */
static int mpa_hook_restore_callbacks(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;
	int err;

	write_lock_bh(&sk->sk_callback_lock);
	mpa_hook_put_back(sk, ctx->table);
	err = sk->sk_data_ready == ctx->data_ready ? 0 : -EBUSY;
	write_unlock_bh(&sk->sk_callback_lock);
	return err;
}

/*
 * Called with the socket lock held: by connect(2), or for the children that
 * wait in the queue of a listener that is shut down.
 */
static int mpa_op_disconnect(struct sock *sk, int flags)
{
	struct mpa_ctx *ctx = mpa_ops_ctx(sk);

	if (!mpa_ops_ours(sk))
		return READ_ONCE(sk->sk_prot)->disconnect(sk, flags);
	if (ctx && mpa_started(ctx) && !(ctx->unaccepted && !sk->sk_socket))
		return -EOPNOTSUPP;
	/* It may be made to listen next. */
	if (ctx && !ctx->unaccepted) {
		if (mpa_hook_restore_callbacks(ctx))
			return -EBUSY;
		WRITE_ONCE(ctx->state, MPA_STATE_IDLE);
	}
	return mpa_table(sk)->base->disconnect(sk, flags);
}

/*
 * Called with the socket lock held, in softirq context: it is about to be
 * released. accept(2) has just given a child its struct socket.
 */
static void mpa_op_release_cb(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	mpa_table(sk)->base->release_cb(sk);
	if (!ctx)
		return;
	if (ctx->unaccepted && sk->sk_socket) {
		mpa_hook_adopt(ctx);
		mpa_startup_adopted(ctx);
		mpa_schedule_work(ctx, 0);
	} else if (ctx->put_off) {
		mpa_schedule_work(ctx, 0);
	}
	ctx->put_off = false;
}

/*
 * accept(2) gives the new socket the listener's operations before it knows the
 * connection. kernel_accept() does so afterwards.
 */
static void mpa_op_accepted(struct socket *sock)
{
	const struct proto_ops *base;

	mpa_delay(MPA_POINT_ACCEPTED);
	if (!sock->ops || mpa_ops_ours(sock->sk))
		return;
	base = mpa_base_ops(sock);
	__module_get(base->owner);
	WRITE_ONCE(sock->ops, base);
	module_put(THIS_MODULE);
}

#ifdef MPA_HAVE_ACCEPT_ARG
static int mpa_op_accept(struct socket *sock, struct socket *newsock,
			  struct proto_accept_arg *arg)
{
	int err = mpa_base_ops(sock)->accept(sock, newsock, arg);
#else
static int mpa_op_accept(struct socket *sock, struct socket *newsock,
			  int flags, bool kern)
{
	int err = mpa_base_ops(sock)->accept(sock, newsock, flags, kern);
#endif

	if (!err)
		mpa_op_accepted(newsock);
	return err;
}

static __poll_t mpa_op_poll(struct file *file, struct socket *sock,
			     struct poll_table_struct *wait)
{
	struct mpa_ctx *ctx = mpa_ops_ctx(sock->sk);
	__poll_t mask;
	u8 before, state;

	if (!ctx) {
		mask = mpa_base_ops(sock)->poll(file, sock, wait);
		return mpa_ops_ours(sock->sk) ? mask | EPOLLERR : mask;
	}

	before = mpa_poll_state(ctx);
	mpa_delay(MPA_POINT_POLL);
	mask = mpa_base_ops(sock)->poll(file, sock, wait);
	state = mpa_poll_state(ctx);
	/* TCP may have spoken of octets that are no longer the user's. */
	if (state != before)
		mask = mpa_base_ops(sock)->poll(file, sock, NULL);
	return mpa_poll_mask(ctx, state, mask);
}

static ssize_t mpa_op_splice_read(struct socket *sock, loff_t *ppos,
				   struct pipe_inode_info *pipe, size_t len,
				   unsigned int flags)
{
	struct mpa_ctx *ctx = mpa_ops_ctx(sock->sk);
	ssize_t ret;

	if (!mpa_ops_ours(sock->sk))
		return mpa_base_ops(sock)->splice_read(sock, ppos, pipe, len,
						       flags);
	if (!ctx || !mpa_passthrough_begin(ctx))
		return copy_splice_read(sock->file, ppos, pipe, len, flags);
	ret = mpa_base_ops(sock)->splice_read(sock, ppos, pipe, len, flags);
	mpa_passthrough_end(ctx);
	return ret;
}

/*
 * Octets that TCP holds say nothing about records, and a mark above one octet
 * would keep sk_data_ready from being called.
 */
static int mpa_op_set_rcvlowat(struct sock *sk, int val)
{
	struct mpa_ctx *ctx = mpa_ops_ctx(sk);

	if (!mpa_ops_ours(sk))
		return mpa_base_ops(sk->sk_socket)->set_rcvlowat(sk, val);
	if (!ctx || mpa_started(ctx))
		return -EOPNOTSUPP;
	return ctx->table->base_ops->set_rcvlowat(sk, val);
}

/* MSG_PEEK looks at records, from their beginning. */
static int mpa_op_set_peek_off(struct sock *sk, int val)
{
	const struct proto_ops *base = mpa_base_ops(sk->sk_socket);
	struct mpa_ctx *ctx = mpa_ops_ctx(sk);

	if (!base->set_peek_off ||
	    (mpa_ops_ours(sk) && (!ctx || mpa_started(ctx))))
		return -EOPNOTSUPP;
	return base->set_peek_off(sk, val);
}

static struct mpa_table *mpa_table_make(struct sock *sk)
{
	struct mpa_table *table = kzalloc(sizeof(*table), GFP_KERNEL);

	if (!table)
		return NULL;

	table->base = sk->sk_prot;
	table->base_ops = sk->sk_socket->ops;
	table->data_ready = sk->sk_data_ready;
	table->write_space = sk->sk_write_space;
	table->state_change = sk->sk_state_change;
	/* For ever, as the table: sockets hold ours instead. */
	__module_get(table->base->owner);
	__module_get(table->base_ops->owner);

	table->proto = *table->base;
	table->proto.owner = THIS_MODULE;
	table->proto.close = mpa_close;
	table->proto.disconnect = mpa_op_disconnect;
	table->proto.getsockopt = mpa_getsockopt;
	table->proto.ioctl = mpa_op_ioctl;
	table->proto.recvmsg = mpa_op_recvmsg;
	table->proto.release_cb = mpa_op_release_cb;
	table->proto.sendmsg = mpa_op_sendmsg;
	table->proto.setsockopt = mpa_setsockopt;
	table->proto.shutdown = mpa_op_shutdown;
#ifdef MPA_HAVE_SENDPAGE
	table->proto.sendpage = mpa_op_sendpage;
#endif
#ifdef MPA_HAVE_SPLICE_EOF
	table->proto.splice_eof = mpa_op_splice_eof;
#endif

	table->ops = *table->base_ops;
	table->ops.owner = THIS_MODULE;
	table->ops.accept = mpa_op_accept;
	table->ops.poll = mpa_op_poll;
	table->ops.splice_read = mpa_op_splice_read;
	table->ops.set_rcvlowat = mpa_op_set_rcvlowat;
	table->ops.set_peek_off = mpa_op_set_peek_off;
	/* Not for those who would read or map octets behind our back. */
	table->ops.mmap = sock_no_mmap;
	table->ops.read_sock = NULL;
	table->ops.read_skb = NULL;
	table->ops.peek_len = NULL;

	list_add(&table->list, &mpa_tables);
	return table;
}

/* A handful at most: TCP has one pair of tables for each address family. */
static struct mpa_table *mpa_table_get(struct sock *sk)
{
	struct mpa_table *table;

	mutex_lock(&mpa_tables_lock);
	list_for_each_entry(table, &mpa_tables, list) {
		if (table->base == sk->sk_prot &&
		    table->base_ops == sk->sk_socket->ops &&
		    table->data_ready == sk->sk_data_ready &&
		    table->write_space == sk->sk_write_space &&
		    table->state_change == sk->sk_state_change)
			goto found;
	}
	table = mpa_table_make(sk);
found:
	mutex_unlock(&mpa_tables_lock);
	return table;
}

/**
 * mpa_hook_attach() - put our operations into a socket
 * @ctx:	its context, complete but for what is set here
 *
 * From here on the socket's system calls come to us.
 *
 * Context: process, socket lock held.
 * Return: 0, or -ENOMEM, or -EBUSY when something else has hooked the socket.
 */
int mpa_hook_attach(struct mpa_ctx *ctx)
{
	struct inet_connection_sock *icsk = inet_csk(ctx->sk);
	struct sock *sk = ctx->sk;
	int err = 0;

	ctx->table = mpa_table_get(sk);
	if (!ctx->table)
		return -ENOMEM;
	ctx->data_ready = ctx->table->data_ready;
	ctx->write_space = ctx->table->write_space;
	mpa_delay(MPA_POINT_ATTACH);

	write_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_user_data) {
		err = -EBUSY;
		goto out;
	}
	rcu_assign_pointer(icsk->icsk_ulp_data, ctx);
	WRITE_ONCE(sk->sk_prot, &ctx->table->proto);
	mpa_hook_adopt(ctx);
out:
	write_unlock_bh(&sk->sk_callback_lock);
	return err;
}

/**
 * mpa_hook_callbacks() - put our callbacks into a socket
 * @ctx:	its context
 *
 * Only where MPA starts, as the lock that they rely on is held for connections
 * and not for listening sockets. They stay until mpa_hook_detach(), or until the
 * socket is disconnected.
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
	if (sk->sk_data_ready == mpa_data_ready)
		goto out;
	if (sk->sk_user_data || sk->sk_data_ready != ctx->data_ready ||
	    sk->sk_write_space != ctx->write_space ||
	    sk->sk_state_change != ctx->table->state_change) {
		err = -EBUSY;
		goto out;
	}
	WRITE_ONCE(sk->sk_data_ready, mpa_data_ready);
	WRITE_ONCE(sk->sk_write_space, mpa_write_space);
	WRITE_ONCE(sk->sk_state_change, mpa_state_change);
out:
	write_unlock_bh(&sk->sk_callback_lock);
	return err;
}

/**
 * mpa_hook_detach() - give a socket its own operations back
 * @ctx:	its context
 *
 * But for those of its struct socket, which is on its way out.
 *
 * Context: process, socket lock held, no system call on the socket under way
 * but close.
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

/* The reference to TCP's module that sk_prot_alloc() would have taken. */
static void mpa_hook_set_creator(struct sock *child)
{
	struct mpa_table *table;

	if (!mpa_proto_ours(child->sk_prot_creator))
		return;
	table = container_of(child->sk_prot_creator, struct mpa_table, proto);
	__module_get(table->base->owner);
	child->sk_prot_creator = table->base;
	module_put(THIS_MODULE);
}

/**
 * mpa_hook_clone() - give a child of a listening socket a context of its own
 * @child:	the child, made a moment ago in the listener's image
 * @ctx:	its context, or NULL: there is none to be had
 *
 * Context: softirq, the child is locked and nobody else knows it; it holds the
 * module.
 * Return: false when the listener is closing and has its own operations back
 * already. TCP destroys the child next, unless it moves to another listener.
 */
bool mpa_hook_clone(struct sock *child, struct mpa_ctx *ctx)
{
	bool ours = mpa_ops_ours(child);

	mpa_hook_set_creator(child);
	if (ours)
		mpa_hook_put_back(child, mpa_table(child));
	if (ours && ctx) {
		ctx->table = mpa_table(child);
		ctx->data_ready = ctx->table->data_ready;
		ctx->write_space = ctx->table->write_space;
	}
	rcu_assign_pointer(inet_csk(child)->icsk_ulp_data, ours ? ctx : NULL);
	return ours;
}

/**
 * mpa_hook_forget() - TCP destroys a socket, which has not been closed if it
 *		      has our operations still
 * @sk:	socket
 *
 * Context: any, nobody else uses the socket.
 */
void mpa_hook_forget(struct sock *sk)
{
	if (mpa_ops_ours(sk))
		WRITE_ONCE(sk->sk_prot, mpa_table(sk)->base);
	rcu_assign_pointer(inet_csk(sk)->icsk_ulp_data, NULL);
}

/**
 * mpa_hook_keep() - keep a socket that is being closed
 * @ctx:	its context; @ctx->linger is set
 *
 * Context: process, socket lock held, no system call on the socket under way
 * but close.
 * Return: false without memory for a struct socket.
 */
bool mpa_hook_keep(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;
	kuid_t uid = sk->sk_uid;
	struct socket *keeper;

	if (sock_create_lite(sk->sk_family, sk->sk_type, sk->sk_protocol,
			     &keeper))
		return false;
	sock_graft(sk, keeper);
	WRITE_ONCE(sk->sk_uid, uid);
	ctx->linger = keeper;
	return true;
}

/**
 * mpa_hook_free_keeper() - free what mpa_hook_keep() has made
 * @keeper:	@ctx->linger, whose socket TCP has closed
 *
 * Context: process.
 */
void mpa_hook_free_keeper(struct socket *keeper)
{
	keeper->sk = NULL;
	keeper->ops = NULL;
	sock_release(keeper);
}

/**
 * mpa_hook_adopt() - see to it that the struct socket has our operations
 * @ctx:	the context of a socket that has got one
 *
 * A child has not, if it has moved to a listener of TCP's own. The struct
 * socket then changes its reference from TCP's module to ours. A listener of
 * MPTCP's gives it TCP's operations once more when it has been accepted, so that
 * each call looks again.
 *
 * Context: any, socket lock held; or inside a system call on the socket.
 */
void mpa_hook_adopt(struct mpa_ctx *ctx)
{
	const struct proto_ops *base = ctx->table->base_ops;
	struct socket *sock = ctx->sk->sk_socket;

	if (likely(READ_ONCE(sock->ops) != base))
		return;
	__module_get(THIS_MODULE);
	if (cmpxchg(&sock->ops, base, &ctx->table->ops) == base)
		module_put(base->owner);
	else
		module_put(THIS_MODULE);
}

/**
 * mpa_hook_hold_text() - have the module outlive the close of a socket
 * @sk:	socket
 *
 * Where the struct socket has our operations, __sock_release() holds the module.
 * A child that a user inside the kernel has accepted from a listener of TCP's own
 * never got them: then the module has to stay loaded.
 *
 * Context: process.
 */
void mpa_hook_hold_text(const struct sock *sk)
{
	const struct socket *sock = sk->sk_socket;

	if (sock && sock->ops && sock->ops->owner != THIS_MODULE)
		__module_get(THIS_MODULE);
}

/**
 * mpa_hook_exit() - leave nothing of ours in the tables
 *
 * They themselves stay, a few KiB each time. A handshake that was under way
 * when its listener was closed has a pointer to the listener's sk_prot, without
 * a reference, until TCP gives up the request: up to TCP_RTO_MAX later.
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
	/* Whoever has read one of ours from them. */
	synchronize_net();
}

/* An option of TCP's that sending uses itself. */
static bool mpa_ops_borrowed(int level, int name)
{
	return level == SOL_TCP && (name == TCP_CORK || name == TCP_NODELAY);
}

/* An option that changes the length of headers, and so the MSS. */
static bool mpa_ops_mss(int level, int name)
{
	if (level == SOL_IP)
		return name == IP_OPTIONS;
	if (level != SOL_IPV6)
		return false;
	switch (name) {
	case IPV6_HOPOPTS:
	case IPV6_RTHDRDSTOPTS:
	case IPV6_RTHDR:
	case IPV6_DSTOPTS:
	case IPV6_2292PKTOPTIONS:
		return true;
	default:
		return false;
	}
}

int mpa_ops_base_setsockopt(struct sock *sk, int level, int name,
			    sockptr_t val, unsigned int len)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	struct proto *base = mpa_table(sk)->base;
	bool mss = mpa_ops_mss(level, name);
	int err;

	/* It would have octets that have been framed go elsewhere. */
	if (level == SOL_TCP && name == TCP_REPAIR && ctx) {
		if (!mpa_passthrough_begin(ctx))
			return -EOPNOTSUPP;
		err = base->setsockopt(sk, level, name, val, len);
		mpa_passthrough_end(ctx);
		return err;
	}
	if (!ctx || !(mss || mpa_ops_borrowed(level, name)))
		return base->setsockopt(sk, level, name, val, len);
	mpa_tx_restore_options(ctx, mss);
	err = base->setsockopt(sk, level, name, val, len);
	mpa_tx_reapply_options(ctx);
	return err;
}

int mpa_ops_base_getsockopt(struct sock *sk, int level, int name,
			    char __user *val, int __user *len)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	struct proto *base = mpa_table(sk)->base;
	int err;

	/* It would take octets out of the queue, unframed and unverified. */
	if (level == SOL_TCP && name == TCP_ZEROCOPY_RECEIVE) {
		if (!ctx || !mpa_passthrough_begin(ctx))
			return -EOPNOTSUPP;
		err = base->getsockopt(sk, level, name, val, len);
		mpa_passthrough_end(ctx);
		return err;
	}
	if (!ctx || !mpa_ops_borrowed(level, name))
		return base->getsockopt(sk, level, name, val, len);
	mpa_tx_restore_options(ctx, false);
	err = base->getsockopt(sk, level, name, val, len);
	mpa_tx_reapply_options(ctx);
	return err;
}

/**
 * mpa_ops_base_shutdown() - TCP's own shutdown
 * @sk:		socket
 * @how:	RCV_SHUTDOWN, SEND_SHUTDOWN
 *
 * Context: process, socket lock held.
 */
void mpa_ops_base_shutdown(struct sock *sk, int how)
{
	mpa_table(sk)->base->shutdown(sk, how);
}

/**
 * mpa_ops_base_state_change() - TCP's own sk_state_change
 * @ctx:	the context
 *
 * Context: softirq or process, socket lock held.
 */
void mpa_ops_base_state_change(struct mpa_ctx *ctx)
{
	ctx->table->state_change(ctx->sk);
}

/**
 * mpa_ops_stop_listening() - make no more children
 * @ctx:	the context of a socket that listens and is being closed
 *
 * Those that wait move to another listener while they have all that is ours, or
 * end.
 *
 * Context: process, socket lock held.
 */
void mpa_ops_stop_listening(struct mpa_ctx *ctx)
{
	ctx->table->base->disconnect(ctx->sk, 0);
}

/**
 * mpa_ops_abort() - reset the connection at once
 * @ctx:	the context
 * @err:	positive errno for its user
 *
 * As tcp_abort(), which takes the lock and so may wait for as long as a user
 * lets a page fault under it.
 *
 * Context: process, socket lock held.
 */
void mpa_ops_abort(struct mpa_ctx *ctx, int err)
{
	mpa_tcp_abort(ctx->sk, ctx->table->base, err);
}

/**
 * mpa_ops_base_close() - TCP's own close
 * @table:	the socket's operations, or NULL if it is still attached
 * @sk:		socket
 * @timeout:	jiffies to linger
 *
 * Context: process, socket lock not held.
 */
void mpa_ops_base_close(struct mpa_table *table, struct sock *sk, long timeout)
{
	if (!table)
		table = mpa_table(sk);
	table->base->close(sk, timeout);
}
