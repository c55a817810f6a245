// SPDX-License-Identifier: GPL-2.0
/* Callbacks, and operations of an attached socket: these call TCP's until MPA is started. */

#include <linux/module.h>
#include <linux/poll.h>
#include <net/tcp.h>

#include <asm/ioctls.h>

#include "mpa_sock.h"

/* ---- operations of the protocol ---- */

static int mpa_op_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	bool framed = mpa_call_begin(ctx, MPA_TX);
	int ret;

	ret = framed ? mpa_sendmsg(ctx, msg, size) :
		       ctx->table->base->sendmsg(sk, msg, size);
	mpa_call_end(ctx, MPA_TX, framed);
	return ret;
}

static int mpa_op_recvmsg(struct sock *sk, struct msghdr *msg, size_t len,
			  int flags MPA_ADDR_LEN_PARAM)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	bool framed;
	int ret;

	if (flags & MSG_ERRQUEUE)
		return ctx->table->base->recvmsg(sk, msg, len,
						 flags MPA_ADDR_LEN_ARG);
	framed = mpa_call_begin(ctx, MPA_RX);
	ret = framed ? mpa_recvmsg(ctx, msg, len, flags) :
		       ctx->table->base->recvmsg(sk, msg, len,
						 flags MPA_ADDR_LEN_ARG);
	mpa_call_end(ctx, MPA_RX, framed);
	return ret;
}

#ifdef MPA_HAVE_SENDPAGE
static int mpa_op_sendpage(struct sock *sk, struct page *page, int offset,
			   size_t size, int flags)
{
	struct msghdr msg = { .msg_flags = flags | MSG_SPLICE_PAGES };
	struct mpa_ctx *ctx = mpa_ctx(sk);
	struct bio_vec vec = {
		.bv_page = page, .bv_offset = offset, .bv_len = size,
	};
	bool framed;
	int ret;

	framed = mpa_call_begin(ctx, MPA_TX);
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, size);
	ret = framed ? mpa_sendmsg(ctx, &msg, size) :
		       ctx->table->base->sendpage(sk, page, offset, size, flags);
	mpa_call_end(ctx, MPA_TX, framed);
	return ret;
}
#endif

#ifdef MPA_HAVE_SPLICE_EOF
static void mpa_op_splice_eof(struct socket *sock)
{
	struct mpa_ctx *ctx = mpa_ctx(sock->sk);

	if (!mpa_framed(ctx, MPA_TX)) {
		ctx->table->base->splice_eof(sock);
		return;
	}
	/* sendfile(2) has announced more octets, but none will follow: end the batch. */
	lock_sock(sock->sk);
	mpa_tx_end_batch(ctx, false);
	release_sock(sock->sk);
}
#endif

/* Return SIOCINQ's value if receiving is framed; else -1: the caller calls TCP's ioctl. */
static int mpa_op_queued(struct sock *sk, int cmd)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	if (!mpa_framed(ctx, cmd == SIOCINQ ? MPA_RX : MPA_TX))
		return -1;
	if (cmd == SIOCINQ)
		return mpa_recvmsg_inq(ctx);

	/* Pass all queued octets to TCP, so that TCP counts them. */
	lock_sock(sk);
	mpa_tx_end_batch(ctx, true);
	release_sock(sk);
	return -1;
}

#ifdef MPA_HAVE_IOCTL_KARG
static int mpa_op_ioctl(struct sock *sk, int cmd, int *karg)
{
	int answer = mpa_op_queued(sk, cmd);

	if (answer < 0)
		return mpa_table(sk)->base->ioctl(sk, cmd, karg);
	*karg = answer;
	return 0;
}
#else
static int mpa_op_ioctl(struct sock *sk, int cmd, unsigned long arg)
{
	int answer = mpa_op_queued(sk, cmd);

	if (answer < 0)
		return mpa_table(sk)->base->ioctl(sk, cmd, arg);
	return put_user(answer, (int __user *)arg);
}
#endif

static void mpa_op_shutdown(struct sock *sk, int how)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	/* Startup needs both directions (section 7.1.2 rule 4), so it cannot succeed. */
	if (mpa_starting(ctx))
		return mpa_startup_fail(ctx, -ECONNABORTED, MPA_ERR_LOCAL);
	/* Pass all accepted octets to TCP before the FIN. */
	if (how & SEND_SHUTDOWN && mpa_started(ctx))
		mpa_sendmsg_finish(ctx);
	/* If octets are lost, send no FIN: it would look like a clean end. close(2) sends a RST. */
	if (!mpa_failed(ctx, MPA_TX))
		ctx->table->base->shutdown(sk, how);
}

/* @sk may be a child in the queue of a listener that is shut down: a plain TCP socket. */
static int mpa_op_disconnect(struct sock *sk, int flags)
{
	struct mpa_ctx *ctx;
	int rc;

	if (!mpa_hook_ours(sk))
		return READ_ONCE(sk->sk_prot)->disconnect(sk, flags);
	ctx = mpa_ctx(sk);
	if (mpa_started(ctx))
		return -EOPNOTSUPP;
	/*
	 * The socket may listen next: restore TCP's own callbacks. A listening socket
	 * never has our callbacks, but may have those of a kernel user.
	 */
	if (!mpa_tcp_listening(sk) && mpa_hook_restore_callbacks(ctx))
		return -EBUSY;
	mpa_report_closed(ctx);
	mpa_set_state(ctx, MPA_STATE_IDLE);
	/* Some kernels refuse to disconnect while another thread waits in a call. */
	rc = ctx->table->base->disconnect(sk, flags);
	if (rc)
		return rc;
	/* Forget the state of the connection, but not the socket's options. */
	WRITE_ONCE(ctx->failure[MPA_TX], (struct mpa_failure){});
	mpa_startup_forget_peer(ctx);
	mpa_tx_reset(ctx);
	mpa_tcp_unwatch(sk);
	return 0;
}

/*
 * Queue the work item again if it found the lock taken. Context: softirqs disabled,
 * sk_lock.slock held, just before the lock is released.
 */
static void mpa_op_release_cb(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	mpa_table(sk)->base->release_cb(sk);
	if (ctx && ctx->work_deferred) {
		ctx->work_deferred = false;
		mpa_schedule_work(ctx, 0);
	}
}

/* ---- operations of the struct socket ---- */

#ifdef MPA_HAVE_ACCEPT_ARG
static int mpa_op_accept(struct socket *sock, struct socket *newsock,
			 struct proto_accept_arg *arg)
{
	const struct proto_ops *base = mpa_base_ops(sock);
	int err = base->accept(sock, newsock, arg);
#else
static int mpa_op_accept(struct socket *sock, struct socket *newsock,
			 int flags, bool kern)
{
	const struct proto_ops *base = mpa_base_ops(sock);
	int err = base->accept(sock, newsock, flags, kern);
#endif

	mpa_delay(MPA_POINT_ACCEPTED);
	if (!err)
		err = mpa_hook_accept(mpa_ctx(sock->sk), newsock->sk, base);
	/* kernel_accept() has not set ->ops yet, but sock_release() needs it. */
	if (err && newsock->sk && !newsock->ops) {
		__module_get(base->owner);
		newsock->ops = base;
	}
	return err;
}

/* Whether a responder may not send yet: section 7.1.2 rule 4. */
static bool mpa_poll_first(const struct mpa_ctx *ctx)
{
	return !READ_ONCE(ctx->may_send) && !mpa_failed(ctx, MPA_RX) &&
	       !mpa_tcp_peer_left(ctx->sk);
}

static __poll_t mpa_poll_records(const struct mpa_ctx *ctx, __poll_t mask)
{
	const __poll_t in = EPOLLIN | EPOLLRDNORM;

	/* MPA treats urgent data like other data, but TCP may still report EPOLLPRI. */
	mask &= ~EPOLLPRI;
	if (READ_ONCE(ctx->rx.ready))
		return mask | in;
	return mpa_tcp_input_ended(ctx->sk) ? mask : mask & ~in;
}

/* Adapt TCP's @mask to @state. A later change of state wakes pollers. */
static __poll_t mpa_poll_mask(const struct mpa_ctx *ctx, u8 state, __poll_t mask)
{
	const __poll_t out = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
	const __poll_t in = EPOLLIN | EPOLLRDNORM;
	bool over;

	/* Read @over first: mpa_startup_fail() records the failure before it ends TCP. */
	over = mpa_tcp_gone(ctx->sk);
	if (state == MPA_STATE_STARTUP || state == MPA_STATE_REQUESTED) {
		/* sk_err may not be set yet: report nothing until the state changes. */
		if (mpa_failed(ctx, MPA_STARTUP))
			return 0;
		/* After the end of the connection TCP's mask is right. */
		if (!over)
			mask &= ~(in | out);
		/* Readable: MPA_PEER returns the frame. */
		return state == MPA_STATE_REQUESTED ? mask | in : mask;
	}
	if (state != MPA_STATE_FULL)
		return mask;
	/* A call may continue an open ULPDU even without room in the send buffer. */
	if (mpa_tx_open(&ctx->tx))
		mask |= out;
	if (mpa_format_on(&ctx->rx.format))
		mask = mpa_poll_records(ctx, mask);
	/* Writable: a send that fails does not block. */
	if (READ_ONCE(ctx->tx.ended))
		return mask | out;
	return !mpa_tcp_send_ended(ctx->sk) &&
	       (mpa_poll_first(ctx) || READ_ONCE(ctx->tx.starved)) ?
	       mask & ~out : mask;
}

static __poll_t mpa_op_poll(struct file *file, struct socket *sock,
			    struct poll_table_struct *wait)
{
	struct mpa_ctx *ctx = mpa_ctx(sock->sk);
	u8 before, state;
	__poll_t mask;

	before = mpa_poll_state(ctx);
	mpa_delay(MPA_POINT_POLL);
	mask = mpa_base_ops(sock)->poll(file, sock, wait);
	state = mpa_poll_state(ctx);
	if (state != before)
		mask = mpa_base_ops(sock)->poll(file, sock, NULL);
	return mpa_poll_mask(ctx, state, mask);
}

static ssize_t mpa_op_splice_read(struct socket *sock, loff_t *ppos,
				  struct pipe_inode_info *pipe, size_t len,
				   unsigned int flags)
{
	struct mpa_ctx *ctx = mpa_ctx(sock->sk);
	bool framed = mpa_call_begin(ctx, MPA_RX);
	ssize_t ret;

	ret = framed ? copy_splice_read(sock->file, ppos, pipe, len, flags) :
	      mpa_base_ops(sock)->splice_read(sock, ppos, pipe, len, flags);
	mpa_call_end(ctx, MPA_RX, framed);
	return ret;
}

/* Refuse SO_RCVLOWAT if framed: TCP would not call sk_data_ready below the mark. */
static int mpa_op_set_rcvlowat(struct sock *sk, int val)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	if (mpa_framed(ctx, MPA_RX))
		return -EOPNOTSUPP;
	return ctx->table->base_ops->set_rcvlowat(sk, val);
}

/* Refuse SO_PEEK_OFF if framed: MSG_PEEK always starts at the first unread octet. */
static int mpa_op_set_peek_off(struct sock *sk, int val)
{
	const struct proto_ops *base = mpa_base_ops(sk->sk_socket);

	if (!base->set_peek_off || mpa_framed(mpa_ctx(sk), MPA_RX))
		return -EOPNOTSUPP;
	return base->set_peek_off(sk, val);
}

/* ---- callbacks ---- */

/* In-order octets or a FIN have arrived. Context: any, socket lock held. */
static void mpa_data_ready(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	if (!ctx)
		return;
	switch (ctx->state) {
	case MPA_STATE_STARTUP:
		mpa_tcp_forget_urgent(sk);
		mpa_schedule_work(ctx, 0);
		break;
	case MPA_STATE_REQUESTED:
		mpa_tcp_forget_urgent(sk);
		/* The work item checks whether octets are an error in this state. */
		mpa_schedule_work(ctx, 0);
		mpa_wake_reader(ctx);
		break;
	case MPA_STATE_FULL:
		if (!mpa_format_on(&ctx->rx.format)) {
			mpa_wake_reader(ctx);
			break;
		}
		mpa_rx_arrived(ctx);
		if (ctx->rx.ready)
			mpa_wake_reader(ctx);
		else
			mpa_tcp_acknowledge(sk);
		break;
	default:
		mpa_wake_reader(ctx);
	}
}

/*
 * TCP has freed room, or reports an ACK. An open ULPDU does not count against the send
 * buffer: the user may continue a ULPDU that fills the buffer. Context: any, socket
 * lock held.
 */
static void mpa_write_space(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	if (!ctx)
		return;
	if (ctx->rx.place)
		mpa_search_newest(ctx);
	mpa_tcp_write_space(sk, mpa_tx_open(&ctx->tx) ? ctx->tx.out : NULL,
			    ctx->wake->write_space);
	if (ctx->rx.place)
		mpa_tcp_ooo_ask(sk);
}

/* Record a loss of the connection, even if another thread's SO_ERROR has cleared the error. */
static void mpa_check_loss(struct mpa_ctx *ctx)
{
	/* After a clean end sk_err may have an error that the connection survived. */
	if (!mpa_ended_cleanly(ctx))
		mpa_fail(ctx, MPA_TX, -(mpa_tcp_error(ctx->sk) ?: ECONNRESET),
			 MPA_ERR_TCP);
}

/*
 * TCP's state has changed. Handle a reset during startup at once: nothing else would
 * report the reset before the deadline. Context: any, socket lock held.
 */
static void mpa_state_change(struct sock *sk)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	if (!ctx)
		return;
	if (mpa_starting(ctx) && mpa_tcp_gone(sk))
		mpa_startup_ended(ctx);
	if (ctx->state == MPA_STATE_FULL && mpa_tcp_gone(sk))
		mpa_check_loss(ctx);
	ctx->table->state_change(sk);
	if (unlikely(ctx->consumer))
		mpa_upcall(ctx);
}

static void mpa_ops_fill(struct proto *proto, struct proto_ops *ops)
{
	proto->close = mpa_close;
	proto->disconnect = mpa_op_disconnect;
	proto->getsockopt = mpa_getsockopt;
	proto->ioctl = mpa_op_ioctl;
	proto->recvmsg = mpa_op_recvmsg;
	proto->release_cb = mpa_op_release_cb;
	proto->sendmsg = mpa_op_sendmsg;
	proto->setsockopt = mpa_setsockopt;
	proto->shutdown = mpa_op_shutdown;
#ifdef MPA_HAVE_SENDPAGE
	proto->sendpage = mpa_op_sendpage;
#endif
#ifdef MPA_HAVE_SPLICE_EOF
	proto->splice_eof = mpa_op_splice_eof;
#endif

	ops->accept = mpa_op_accept;
	ops->poll = mpa_op_poll;
	ops->splice_read = mpa_op_splice_read;
	ops->set_rcvlowat = mpa_op_set_rcvlowat;
	ops->set_peek_off = mpa_op_set_peek_off;
	/* These operations would let a program read or map octets that were not verified. */
	ops->mmap = sock_no_mmap;
	ops->read_sock = NULL;
	ops->read_skb = NULL;
	ops->peek_len = NULL;
}

const struct mpa_overrides mpa_ops_overrides = {
	.close		= mpa_close,
	.fill		= mpa_ops_fill,
	.data_ready	= mpa_data_ready,
	.write_space	= mpa_write_space,
	.state_change	= mpa_state_change,
};
