// SPDX-License-Identifier: GPL-2.0
/* Socket options at level SOL_MPA. */

#include <linux/fs.h>
#include <linux/in6.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/uaccess.h>

#include "mpa_face.h"

/* An upper bound, to keep far from the wrap of jiffies. */
#define MPA_TIMEOUT_MS_MAX	3600000U

/* Flags that are valid for a role and revision. */
static u32 mpa_start_flags(const struct mpa_start *start)
{
	u32 flags = MPA_START_MARKERS | MPA_START_NO_CRC;
	bool enhanced = start->revision == 2;

	switch (start->role) {
	case MPA_ROLE_INITIATOR:
		flags |= MPA_START_PERMISSIVE | MPA_START_MANUAL;
		if (enhanced)
			flags |= MPA_START_ENHANCED | MPA_START_P2P |
				 MPA_START_RTR;
		return flags;
	case MPA_ROLE_RESPONDER:
		flags |= MPA_START_PERMISSIVE | MPA_START_MANUAL;
		if (enhanced)
			flags |= MPA_START_RTR;
		return flags;
	default:
		return flags | MPA_START_TX_MARKERS | MPA_START_TX_NO_CRC;
	}
}

static bool mpa_private_fits(u16 len, size_t room, bool enhanced)
{
	return len <= room &&
	       len <= MPA_PRIVATE_DATA_MAX - (enhanced ? MPA_ENHANCED_LEN : 0);
}

static int mpa_start_check(const struct mpa_start *start, size_t private_room)
{
	bool enhanced = start->flags & MPA_START_ENHANCED;
	u32 rtr = start->flags & MPA_START_RTR;

	if (start->role < MPA_ROLE_INITIATOR || start->role > MPA_ROLE_DIRECT ||
	    start->revision > 2)
		return -EINVAL;
	if (memchr_inv(start->reserved, 0, sizeof(start->reserved)))
		return -EINVAL;
	if (start->flags & ~mpa_start_flags(start))
		return -EINVAL;
	if (start->role == MPA_ROLE_DIRECT &&
	    (start->private_len || start->timeout_ms))
		return -EINVAL;
	if (start->ird > MPA_DEPTH_MAX || start->ord > MPA_DEPTH_MAX)
		return -EINVAL;
	/* A responder of revision 2 may get an enhanced request. */
	if (start->role == MPA_ROLE_RESPONDER && start->revision == 2)
		enhanced = true;
	/* Depths go into enhanced frames only. */
	if ((start->ird || start->ord) && !enhanced)
		return -EINVAL;
	/* RFC 6581 section 9.2: A and at least one of B, C, D, or none. */
	if (start->role == MPA_ROLE_INITIATOR &&
	    (start->flags & MPA_START_P2P ? !enhanced || !rtr : rtr))
		return -EINVAL;
	if (!mpa_private_fits(start->private_len, private_room, enhanced))
		return -EINVAL;
	return 0;
}

/* Octets of private data that a struct of @len octets has room for. */
static size_t mpa_private_room(unsigned int len, size_t offset)
{
	return len > offset ? min_t(size_t, len - offset, MPA_PRIVATE_DATA_MAX)
			    : 0;
}

static struct mpa_params *mpa_params_alloc(const u8 *private, u16 private_len)
{
	struct mpa_params *params;

	params = kzalloc(struct_size(params, private, private_len),
			 GFP_KERNEL_ACCOUNT);
	if (!params)
		return NULL;
	params->private_len = private_len;
	memcpy(params->private, private, private_len);
	return params;
}

static struct mpa_params *mpa_start_params(const struct mpa_start *start)
{
	struct mpa_params *params = mpa_params_alloc(start->private_data,
						     start->private_len);

	if (!params)
		return NULL;
	params->offer.role = start->role;
	params->offer.revision = start->revision;
	params->offer.flags = start->flags;
	params->offer.ird = start->ird;
	params->offer.ord = start->ord;
	if (start->timeout_ms)
		params->timeout = msecs_to_jiffies(min(start->timeout_ms,
						       MPA_TIMEOUT_MS_MAX));
	return params;
}

static int mpa_set_start(struct sock *sk, struct mpa_ctx *ctx, sockptr_t val,
			 unsigned int len)
{
	const size_t private_at = offsetof(struct mpa_start, private_data);
	struct socket *sock = sk->sk_socket;
	struct mpa_params *params = NULL;
	struct mpa_start *start;
	bool nonblock;
	int err;

	if (len < offsetof(struct mpa_start, ird))
		return -EINVAL;
	if (len > PAGE_SIZE)
		return -E2BIG;

	start = kmalloc(sizeof(*start), GFP_KERNEL);
	if (!start)
		return -ENOMEM;
	err = mpa_copy_struct(start, sizeof(*start), val, len);
	if (!err)
		err = mpa_start_check(start, mpa_private_room(len, private_at));
	if (!err) {
		params = mpa_start_params(start);
		err = params ? 0 : -ENOMEM;
	}
	kfree(start);
	if (err)
		return err;

	nonblock = sock && sock->file && sock->file->f_flags & O_NONBLOCK;
	mpa_delay(MPA_POINT_START);
	lock_sock(sk);
	mpa_delay(MPA_POINT_START_LOCKED);
	err = mpa_start(ctx, params, nonblock);
	release_sock(sk);
	return err;
}

static bool mpa_reply_good(const struct mpa_reply *reply, size_t private_room)
{
	return !reply->reserved &&
	       !memchr_inv(reply->reserved2, 0, sizeof(reply->reserved2)) &&
	       reply->ird <= MPA_DEPTH_MAX && reply->ord <= MPA_DEPTH_MAX &&
	       mpa_private_fits(reply->private_len, private_room, false);
}

static int mpa_get_reply(struct mpa_params **params, sockptr_t val,
			 unsigned int len)
{
	const size_t private_at = offsetof(struct mpa_reply, private_data);
	struct mpa_reply *reply;
	int err;

	*params = NULL;
	if (!len)
		return 0;
	if (len < offsetof(struct mpa_reply, reserved2))
		return -EINVAL;
	if (len > PAGE_SIZE)
		return -E2BIG;

	reply = kmalloc(sizeof(*reply), GFP_KERNEL);
	if (!reply)
		return -ENOMEM;
	err = mpa_copy_struct(reply, sizeof(*reply), val, len);
	if (!err && !mpa_reply_good(reply, mpa_private_room(len, private_at)))
		err = -EINVAL;
	if (!err) {
		*params = mpa_params_alloc(reply->private_data,
					   reply->private_len);
		err = *params ? 0 : -ENOMEM;
	}
	if (!err) {
		(*params)->offer.ird = reply->ird;
		(*params)->offer.ord = reply->ord;
	}
	kfree(reply);
	return err;
}

static int mpa_set_decision(struct sock *sk, struct mpa_ctx *ctx,
			    sockptr_t val, unsigned int len, bool reject)
{
	struct mpa_params *reply;
	int err;

	err = mpa_get_reply(&reply, val, len);
	if (err)
		return err;

	lock_sock(sk);
	err = mpa_startup_decide(ctx, reply, reject);
	if (err && err == ctx->startup_error && mpa_starting(ctx)) {
		mpa_startup_abort(ctx, err);
		sock_error(sk);
	}
	release_sock(sk);
	kfree(reply);
	return err;
}

static int mpa_set_segment(struct sock *sk, struct mpa_ctx *ctx, sockptr_t val,
			   unsigned int len)
{
	int value;

	if (len < sizeof(value))
		return -EINVAL;
	if (copy_from_sockptr(&value, val, sizeof(value)))
		return -EFAULT;
	if (value < MPA_SEGMENT_OFF || value > MPA_ULPDU_MAX)
		return -EINVAL;

	lock_sock(sk);
	WRITE_ONCE(ctx->tx.segment, value);
	release_sock(sk);
	return 0;
}

static int mpa_get_value(bool *on, sockptr_t val, unsigned int len)
{
	int value;

	if (len < sizeof(value))
		return -EINVAL;
	if (copy_from_sockptr(&value, val, sizeof(value)))
		return -EFAULT;
	if (value & ~1)
		return -EINVAL;
	*on = value;
	return 0;
}

static int mpa_set_switch(struct sock *sk, bool *on, sockptr_t val,
			  unsigned int len)
{
	bool value;
	int err;

	err = mpa_get_value(&value, val, len);
	if (err)
		return err;

	lock_sock(sk);
	WRITE_ONCE(*on, value);
	release_sock(sk);
	return 0;
}

/*
 * Whether MPA_PLACE can be on: the direction has markers and CRCs, or certainly
 * will have.
 */
static bool mpa_place_possible(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = mpa_params(ctx);

	switch (ctx->state) {
	case MPA_STATE_FULL:
		return ctx->rx.marked && ctx->rx.crc;
	case MPA_STATE_IDLE:
	case MPA_STATE_STARTUP:
	case MPA_STATE_REQUESTED:
		return params && params->offer.flags & MPA_START_MARKERS &&
		       !(params->offer.flags & MPA_START_NO_CRC);
	default:
		return false;
	}
}

static int mpa_set_place(struct sock *sk, struct mpa_ctx *ctx, sockptr_t val,
			 unsigned int len)
{
	int err = 0;
	bool on;

	err = mpa_get_value(&on, val, len);
	if (err)
		return err;

	lock_sock(sk);
	if (on && !mpa_place_possible(ctx))
		err = -EINVAL;
	else if (ctx->state == MPA_STATE_FULL)
		err = mpa_place_set(ctx, on);
	if (!err)
		WRITE_ONCE(ctx->rx.want_place, on);
	if (!err && ctx->state == MPA_STATE_FULL)
		mpa_rx_update(ctx);
	release_sock(sk);
	return err;
}

/* ---- options of TCP and IP ---- */

/* An option of TCP that MPA sets for its own purposes. */
static bool mpa_sockopt_borrowed(int level, int name)
{
	return level == SOL_TCP && (name == TCP_CORK || name == TCP_NODELAY);
}

/* An option that changes the length of headers, and so the MSS. */
static bool mpa_sockopt_mss(int level, int name)
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

static int mpa_base_setsockopt(struct sock *sk, int level, int name,
			       sockptr_t val, unsigned int len)
{
	struct proto *base = mpa_table(sk)->base;
	bool mss = mpa_sockopt_mss(level, name);
	struct mpa_ctx *ctx = mpa_ctx(sk);
	int err;

	/* In repair mode octets are queued and not sent. */
	if (level == SOL_TCP && name == TCP_REPAIR && ctx) {
		if (!mpa_passthrough_begin(ctx))
			return -EOPNOTSUPP;
		err = base->setsockopt(sk, level, name, val, len);
		mpa_passthrough_end(ctx);
		return err;
	}
	if (!ctx || !(mss || mpa_sockopt_borrowed(level, name)))
		return base->setsockopt(sk, level, name, val, len);
	mpa_tx_restore_options(ctx, mss);
	err = base->setsockopt(sk, level, name, val, len);
	mpa_tx_reapply_options(ctx);
	return err;
}

static int mpa_base_getsockopt(struct sock *sk, int level, int name,
			       char __user *val, int __user *len)
{
	struct proto *base = mpa_table(sk)->base;
	struct mpa_ctx *ctx = mpa_ctx(sk);
	int err;

	/* It would take octets out of the queue unverified. */
	if (level == SOL_TCP && name == TCP_ZEROCOPY_RECEIVE) {
		if (!ctx || !mpa_passthrough_begin(ctx))
			return -EOPNOTSUPP;
		err = base->getsockopt(sk, level, name, val, len);
		mpa_passthrough_end(ctx);
		return err;
	}
	if (!ctx || !mpa_sockopt_borrowed(level, name))
		return base->getsockopt(sk, level, name, val, len);
	mpa_tx_restore_options(ctx, false);
	err = base->getsockopt(sk, level, name, val, len);
	mpa_tx_reapply_options(ctx);
	return err;
}

/* ---- all of them ---- */

/**
 * mpa_setsockopt() - proto.setsockopt
 * @sk:		socket
 * @level:	SOL_MPA, or TCP's and IP's
 * @name:	option
 * @val:	its value
 * @len:	octets of it
 *
 * Context: process, socket lock not held.
 * Return: 0, -EINVAL, -E2BIG, -EFAULT, -ENOPROTOOPT for an option that there is
 * not, or what the option says.
 */
int mpa_setsockopt(struct sock *sk, int level, int name, sockptr_t val,
		   unsigned int len)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	if (level != SOL_MPA)
		return mpa_base_setsockopt(sk, level, name, val, len);
	if (!ctx)
		return -ENOMEM;
	mpa_hook_adopt(ctx);

	switch (name) {
	case MPA_START:
		return mpa_set_start(sk, ctx, val, len);
	case MPA_ACCEPT:
		return mpa_set_decision(sk, ctx, val, len, false);
	case MPA_REJECT:
		return mpa_set_decision(sk, ctx, val, len, true);
	case MPA_SEGMENT:
		return mpa_set_segment(sk, ctx, val, len);
	case MPA_PACKING:
		return mpa_set_switch(sk, &ctx->tx.packing, val, len);
	case MPA_OVERSIZE:
		return mpa_set_switch(sk, &ctx->tx.oversize, val, len);
	case MPA_RECVINFO:
		return mpa_set_switch(sk, &ctx->rx.info, val, len);
	case MPA_RECV_BATCH:
		return mpa_set_switch(sk, &ctx->rx.batch, val, len);
	case MPA_PLACE:
		return mpa_set_place(sk, ctx, val, len);
	default:
		return -ENOPROTOOPT;
	}
}

/* Copy as much of a value as the program has room for. */
static int mpa_put(const void *from, size_t size, char __user *val,
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

static int mpa_get_info(struct sock *sk, struct mpa_ctx *ctx,
			char __user *val, int __user *len)
{
	struct mpa_info info = {};

	lock_sock(sk);
	mpa_startup_notice_reset(ctx);
	info.state = ctx->state;
	info.role = ctx->role;
	info.error = mpa_rx_code(ctx);
	info.mulpdu = mpa_tx_mulpdu(ctx, &info.emss);
	if (ctx->state == MPA_STATE_FULL) {
		info.revision = ctx->revision;
		info.ird = ctx->ird;
		info.ord = ctx->ord;
		info.rtr = ctx->control & MPA_START_RTR;
		if (ctx->tx.crc)
			info.flags |= MPA_INFO_TX_CRC;
		if (ctx->rx.crc)
			info.flags |= MPA_INFO_RX_CRC;
		if (ctx->enhanced)
			info.flags |= MPA_INFO_ENHANCED;
		if (ctx->control & MPA_START_P2P)
			info.flags |= MPA_INFO_P2P;
		if (ctx->tx.marked)
			info.flags |= MPA_INFO_TX_MARKERS;
		if (ctx->rx.marked)
			info.flags |= MPA_INFO_RX_MARKERS;
		if (ctx->may_send)
			info.flags |= MPA_INFO_MAY_SEND;
	}
	info.tx_ulpdus = ctx->tx.ulpdus;
	info.tx_octets = ctx->tx.octets;
	info.tx_markers = ctx->tx.markers;
	info.rx_ulpdus = ctx->rx.ulpdus;
	info.rx_octets = ctx->rx.octets;
	info.rx_markers = ctx->rx.markers;
	info.tx_packets = ctx->tcp.watch.packets;
	info.tx_segs_aligned = ctx->tcp.watch.aligned;
	info.tx_segs_unaligned = ctx->tcp.watch.unaligned;
	info.rx_placed = ctx->rx.place ? ctx->rx.place->total : 0;
	info.rx_edge = ctx->rx.cur.pos;
	release_sock(sk);

	return mpa_put(&info, sizeof(info), val, len);
}

static void mpa_peer_fill(const struct mpa_ctx *ctx, struct mpa_peer *peer)
{
	const u8 *private = ctx->peer_private;
	struct mpa_enhanced enhanced;

	peer->revision = ctx->peer.revision;
	peer->flags = ctx->peer.flags;
	peer->private_len = ctx->peer.private_len;
	if (peer->flags & MPA_PEER_ENHANCED) {
		mpa_enhanced_get(private, &enhanced);
		peer->ird = enhanced.ird;
		peer->ord = enhanced.ord;
		peer->control = enhanced.control;
		private += MPA_ENHANCED_LEN;
		peer->private_len -= MPA_ENHANCED_LEN;
	}
	if (peer->private_len)
		memcpy(peer->private_data, private, peer->private_len);
}

static int mpa_get_peer(struct sock *sk, struct mpa_ctx *ctx,
			char __user *val, int __user *len)
{
	struct mpa_peer *peer;
	int err = -ENODATA;

	peer = kzalloc(sizeof(*peer), GFP_KERNEL);
	if (!peer)
		return -ENOMEM;

	lock_sock(sk);
	mpa_startup_notice_reset(ctx);
	if (ctx->have_peer) {
		mpa_peer_fill(ctx, peer);
		err = 0;
	}
	release_sock(sk);

	if (!err)
		err = mpa_put(peer, sizeof(*peer), val, len);
	kfree(peer);
	return err;
}

static int mpa_get_mulpdu(struct sock *sk, struct mpa_ctx *ctx,
			  char __user *val, int __user *len)
{
	int mulpdu;

	lock_sock(sk);
	mulpdu = mpa_tx_mulpdu(ctx, NULL);
	release_sock(sk);

	return mpa_put(&mulpdu, sizeof(mulpdu), val, len);
}

static int mpa_get_segment(const struct mpa_ctx *ctx, char __user *val,
			   int __user *len)
{
	int value = READ_ONCE(ctx->tx.segment);

	return mpa_put(&value, sizeof(value), val, len);
}

static int mpa_get_switch(const bool *on, char __user *val, int __user *len)
{
	int value = READ_ONCE(*on);

	return mpa_put(&value, sizeof(value), val, len);
}

/**
 * mpa_getsockopt() - proto.getsockopt
 * @sk:		socket
 * @level:	SOL_MPA, or TCP's and IP's
 * @name:	option
 * @val:	where its value goes
 * @len:	room there; set to what was written
 *
 * Context: process, socket lock not held.
 * Return: 0, -EINVAL, -EFAULT, -ENODATA, or -ENOPROTOOPT for an option that there
 * is not.
 */
int mpa_getsockopt(struct sock *sk, int level, int name, char __user *val,
		   int __user *len)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	if (level != SOL_MPA)
		return mpa_base_getsockopt(sk, level, name, val, len);
	if (!ctx)
		return -ENOMEM;
	mpa_hook_adopt(ctx);

	switch (name) {
	case MPA_INFO:
		return mpa_get_info(sk, ctx, val, len);
	case MPA_PEER:
		return mpa_get_peer(sk, ctx, val, len);
	case MPA_MULPDU:
		return mpa_get_mulpdu(sk, ctx, val, len);
	case MPA_SEGMENT:
		return mpa_get_segment(ctx, val, len);
	case MPA_PACKING:
		return mpa_get_switch(&ctx->tx.packing, val, len);
	case MPA_OVERSIZE:
		return mpa_get_switch(&ctx->tx.oversize, val, len);
	case MPA_RECVINFO:
		return mpa_get_switch(&ctx->rx.info, val, len);
	case MPA_RECV_BATCH:
		return mpa_get_switch(&ctx->rx.batch, val, len);
	case MPA_PLACE:
		return mpa_get_switch(&ctx->rx.want_place, val, len);
	default:
		return -ENOPROTOOPT;
	}
}
