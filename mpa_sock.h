/* SPDX-License-Identifier: GPL-2.0 */
/* The socket interface (layer 3): system calls, callbacks, the module itself. */
#ifndef _MPA_SOCK_H
#define _MPA_SOCK_H

#include <linux/sockptr.h>
#include <linux/uaccess.h>

#include "mpa.h"

struct kvec;
struct msghdr;
struct mpa_upcalls;

/*
 * Operations of attached sockets, one table for each kind of socket (IPv4, IPv6).
 * @base, @base_ops and the callbacks are TCP's own; @proto and @ops are copies with our
 * operations.
 */
struct mpa_table {
	struct list_head	list;
	struct proto		*base;
	const struct proto_ops	*base_ops;
	struct mpa_wake		wake;
	void			(*state_change)(struct sock *sk);
	struct proto		proto;
	struct proto_ops	ops;
};

/* Our operations and callbacks. A proto with this @close is ours. */
struct mpa_overrides {
	void (*close)(struct sock *sk, long timeout);
	void (*fill)(struct proto *proto, struct proto_ops *ops);
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	void (*state_change)(struct sock *sk);
};

/* Return the table of a socket for which mpa_hook_ours() is true. */
static inline struct mpa_table *mpa_table(const struct sock *sk)
{
	return container_of(READ_ONCE(sk->sk_prot), struct mpa_table, proto);
}

typedef int (*mpa_accept_t)(struct mpa_ctx *listener, struct sock *sk,
			    const struct proto_ops *ops);

/* mpa_hook.c */
extern mpa_accept_t mpa_hook_accept;
void mpa_hook_init(const struct mpa_overrides *overrides, mpa_accept_t accept);
void mpa_hook_exit(void);
int mpa_hook_attach(struct mpa_ctx *ctx, const struct proto_ops *ops);
int mpa_hook_callbacks(struct mpa_ctx *ctx);
int mpa_hook_restore_callbacks(struct mpa_ctx *ctx);
void mpa_hook_detach(struct mpa_ctx *ctx);
void mpa_hook_clone(struct sock *child);
bool mpa_hook_ours(const struct sock *sk);
const struct proto_ops *mpa_base_ops(const struct socket *sock);
bool __mpa_call_begin(struct mpa_ctx *ctx, enum mpa_part dir);

/*
 * Begin a call that sends or receives. Until mpa_call_end() framing is neither switched
 * on nor off. Context: process, socket lock not held. Return: whether the direction is
 * framed; if not, use TCP's own operation.
 */
static inline bool mpa_call_begin(struct mpa_ctx *ctx, enum mpa_part dir)
{
	return (!mpa_alt(ctx) && mpa_started(ctx)) || __mpa_call_begin(ctx, dir);
}

/* Undo mpa_call_begin(), which has returned @framed. Context: any. */
static inline void mpa_call_end(struct mpa_ctx *ctx, enum mpa_part dir, bool framed)
{
	if (framed && !mpa_alt(ctx))
		return;
	mpa_delay(MPA_POINT_PLAIN_END);
	atomic_dec(&ctx->plain[dir == MPA_TX]);
}

/* Whether both ends have ended the stream, and each has received all octets. */
static inline bool mpa_ended_cleanly(const struct mpa_ctx *ctx)
{
	return mpa_tcp_peer_ended(ctx->sk) && !mpa_tcp_unacked(ctx->sk) &&
	       ctx->tx.ended;
}

/* mpa_tx_sendmsg.c */
int mpa_sendmsg(struct mpa_ctx *ctx, struct msghdr *msg, size_t size);
int mpa_sendmsg_call(struct mpa_ctx *ctx, struct mpa_tx_call *call,
		     struct iov_iter *payload);
void mpa_sendmsg_finish(struct mpa_ctx *ctx);

/* mpa_rx_recvmsg.c */
int mpa_recvmsg(struct mpa_ctx *ctx, struct msghdr *msg, size_t len, int flags);
u32 mpa_recvmsg_inq(struct mpa_ctx *ctx);

/* mpa_life.c */
void mpa_ctx_setup(struct mpa_ctx *ctx, struct sock *sk);
int mpa_attach(struct mpa_ctx *ctx, const struct proto_ops *ops);
int mpa_start(struct mpa_ctx *ctx, struct mpa_params *params, bool nonblock);
void mpa_work(struct work_struct *work);
void mpa_close(struct sock *sk, long timeout);

/* mpa_ops.c */
extern const struct mpa_overrides mpa_ops_overrides;

/* mpa_consumer_upcall.c */
void mpa_upcall(struct mpa_ctx *ctx);
void mpa_upcall_leave(struct mpa_ctx *ctx);
extern const struct mpa_wake mpa_upcall_wake;

/*
 * Copy as much of an option's value as fits to @val, and set @len to the number of
 * octets copied.
 */
static inline int mpa_put_value(const void *from, size_t size, char __user *val,
				int __user *len)
{
	int room;

	if (get_user(room, len))
		return -EFAULT;
	if (room < 0)
		return -EINVAL;
	size = min_t(size_t, size, room);
	if (put_user(size, len) || copy_to_user(val, from, size))
		return -EFAULT;
	return 0;
}

/* mpa_sockopt.c */
int mpa_setsockopt(struct sock *sk, int level, int name, sockptr_t val,
		   unsigned int len);
int mpa_getsockopt(struct sock *sk, int level, int name, char __user *val,
		   int __user *len);
int mpa_control_start(struct sock *sk, const struct mpa_start *start,
		      unsigned int len, bool nonblock);
int mpa_control_decide(struct sock *sk, const struct mpa_reply *reply,
		       unsigned int len, bool reject);
int mpa_control_place(struct sock *sk, bool on);
void mpa_control_info_fill(struct mpa_ctx *ctx, struct mpa_info *info);
void mpa_control_info(struct sock *sk, struct mpa_info *info);
int mpa_control_peer_fill(const struct mpa_ctx *ctx, struct mpa_peer *peer);
int mpa_control_peer(struct sock *sk, struct mpa_peer *peer);

/* TUF */
int mpa_alt_attach(struct sock *sk);
void mpa_alt_mulpdu_read(struct mpa_ctx *ctx);
int mpa_alt_setsockopt(struct sock *sk, int name, sockptr_t val,
		       unsigned int len);
int mpa_alt_getsockopt(struct sock *sk, int name, char __user *val,
		       int __user *len);

/* mpa_nl.c */
int mpa_netlink_init(void);
void mpa_netlink_exit(void);

#endif /* _MPA_SOCK_H */
