// SPDX-License-Identifier: GPL-2.0
/* Socket options at level SOL_MPA. */

#include <linux/fs.h>
#include <linux/in6.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/uaccess.h>

#include "mpa_sock.h"

/* Octets of private data that a struct of @len octets has room for. */
static size_t mpa_private_room(unsigned int len, size_t offset)
{
	return len > offset ? min_t(size_t, len - offset, MPA_PRIVATE_DATA_MAX)
			    : 0;
}

static int mpa_set_start(struct sock *sk, sockptr_t val, unsigned int len)
{
	const size_t private_at = offsetof(struct mpa_start, private_data);
	struct socket *sock = sk->sk_socket;
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
	err = copy_struct_from_sockptr(start, sizeof(*start), val, len);
	nonblock = sock && sock->file && sock->file->f_flags & O_NONBLOCK;
	if (!err)
		err = mpa_control_start(sk, start,
					mpa_private_room(len, private_at),
					nonblock);
	kfree(start);
	return err;
}

static int mpa_set_decision(struct sock *sk, sockptr_t val, unsigned int len,
			    bool reject)
{
	const size_t private_at = offsetof(struct mpa_reply, private_data);
	struct mpa_reply *reply;
	int err;

	if (!len)
		return mpa_control_decide(sk, NULL, 0, reject);
	if (len < offsetof(struct mpa_reply, reserved2))
		return -EINVAL;
	if (len > PAGE_SIZE)
		return -E2BIG;

	reply = kmalloc(sizeof(*reply), GFP_KERNEL);
	if (!reply)
		return -ENOMEM;
	err = copy_struct_from_sockptr(reply, sizeof(*reply), val, len);
	if (!err)
		err = mpa_control_decide(sk, reply,
					 mpa_private_room(len, private_at),
					 reject);
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
	if (value < MPA_SEGMENT_OFF || value > mpa_ulpdu_max(ctx))
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

static int mpa_set_place(struct sock *sk, sockptr_t val, unsigned int len)
{
	bool on;
	int err;

	err = mpa_get_value(&on, val, len);
	return err ?: mpa_control_place(sk, on);
}

/* Options of the startup phase, which only MPA has. */
static bool mpa_option_startup(int name)
{
	return name == MPA_START || name == MPA_ACCEPT || name == MPA_REJECT ||
	       name == MPA_PEER;
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
	bool mss = mpa_sockopt_mss(level, name);
	struct mpa_ctx *ctx = mpa_ctx(sk);
	struct proto *base = ctx->table->base;
	int err;

	/* In repair mode TCP queues octets and does not send them. */
	if (level == SOL_TCP && name == TCP_REPAIR) {
		if (!mpa_passthrough_begin(ctx, MPA_DIR_BOTH))
			return -EOPNOTSUPP;
		err = base->setsockopt(sk, level, name, val, len);
		mpa_passthrough_end(ctx, MPA_DIR_BOTH);
		return err;
	}
	if (!(mss || mpa_sockopt_borrowed(level, name)))
		return base->setsockopt(sk, level, name, val, len);
	mpa_tx_restore_options(ctx, mss);
	err = base->setsockopt(sk, level, name, val, len);
	mpa_tx_reapply_options(ctx);
	return err;
}

static int mpa_base_getsockopt(struct sock *sk, int level, int name,
			       char __user *val, int __user *len)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	struct proto *base = ctx->table->base;
	int err;

	/* This option would take unverified octets out of the queue. */
	if (level == SOL_TCP && name == TCP_ZEROCOPY_RECEIVE) {
		if (!mpa_passthrough_begin(ctx, MPA_DIR_RX))
			return -EOPNOTSUPP;
		err = base->getsockopt(sk, level, name, val, len);
		mpa_passthrough_end(ctx, MPA_DIR_RX);
		return err;
	}
	if (!mpa_sockopt_borrowed(level, name))
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
 * Return: 0, -EINVAL, -E2BIG, -EFAULT, -ENOPROTOOPT for an unknown option, or
 * the errno of the option.
 */
int mpa_setsockopt(struct sock *sk, int level, int name, sockptr_t val,
		   unsigned int len)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	int err;

	if (level != SOL_MPA)
		return mpa_base_setsockopt(sk, level, name, val, len);
	if (mpa_alt(ctx)) {
		err = mpa_alt_setsockopt(sk, name, val, len);
		if (err != -ENOPROTOOPT || mpa_option_startup(name))
			return err;
	}

	switch (name) {
	case MPA_START:
		return mpa_set_start(sk, val, len);
	case MPA_ACCEPT:
		return mpa_set_decision(sk, val, len, false);
	case MPA_REJECT:
		return mpa_set_decision(sk, val, len, true);
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
		return mpa_set_place(sk, val, len);
	default:
		return -ENOPROTOOPT;
	}
}

static int mpa_get_info(struct sock *sk, char __user *val, int __user *len)
{
	struct mpa_info info;

	mpa_control_info(sk, &info);
	return mpa_put_value(&info, sizeof(info), val, len);
}

static int mpa_get_peer(struct sock *sk, char __user *val, int __user *len)
{
	struct mpa_peer *peer;
	int err;

	peer = kmalloc(sizeof(*peer), GFP_KERNEL);
	if (!peer)
		return -ENOMEM;
	err = mpa_control_peer(sk, peer) ?:
	      mpa_put_value(peer, sizeof(*peer), val, len);
	kfree(peer);
	return err;
}

static int mpa_get_mulpdu(struct sock *sk, struct mpa_ctx *ctx,
			  char __user *val, int __user *len)
{
	int mulpdu;

	lock_sock(sk);
	mulpdu = mpa_tx_mulpdu(ctx, NULL);
	if (mpa_alt(ctx))
		mpa_alt_mulpdu_read(ctx);
	release_sock(sk);

	return mpa_put_value(&mulpdu, sizeof(mulpdu), val, len);
}

static int mpa_get_segment(const struct mpa_ctx *ctx, char __user *val,
			   int __user *len)
{
	int value = READ_ONCE(ctx->tx.segment);

	return mpa_put_value(&value, sizeof(value), val, len);
}

static int mpa_get_switch(const bool *on, char __user *val, int __user *len)
{
	int value = READ_ONCE(*on);

	return mpa_put_value(&value, sizeof(value), val, len);
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
 * Return: 0, -EINVAL, -EFAULT, -ENODATA, or -ENOPROTOOPT for an unknown option.
 */
int mpa_getsockopt(struct sock *sk, int level, int name, char __user *val,
		   int __user *len)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	int err;

	if (level != SOL_MPA)
		return mpa_base_getsockopt(sk, level, name, val, len);
	if (mpa_alt(ctx)) {
		err = mpa_alt_getsockopt(sk, name, val, len);
		if (err != -ENOPROTOOPT || mpa_option_startup(name))
			return err;
	}

	switch (name) {
	case MPA_INFO:
		return mpa_get_info(sk, val, len);
	case MPA_PEER:
		return mpa_get_peer(sk, val, len);
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

/*
 * ---- MPA_START, MPA_ACCEPT and MPA_REJECT, reporting ----
 *
 * For socket options and for users inside the kernel, whose structs are in
 * kernel memory.
 */

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
	/* Only enhanced frames have depths. */
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

/**
 * mpa_control_start() - MPA_START
 * @sk:		socket
 * @start:	what is asked for
 * @room:	octets of private data that fit into the struct as passed
 * @nonblock:	do not wait for the peer
 *
 * Context: process, socket lock not held.
 * Return: 0, -EINVAL, -ENOMEM, or as mpa_start().
 */
int mpa_control_start(struct sock *sk, const struct mpa_start *start,
		      size_t room, bool nonblock)
{
	struct mpa_params *params;
	int err;

	err = mpa_start_check(start, room);
	if (err)
		return err;
	params = mpa_start_params(start);
	if (!params)
		return -ENOMEM;
	/* Only a startup frame can ask the peer for markers. */
	if (start->role != MPA_ROLE_DIRECT && mpa_policy_get(sock_net(sk), MPA_A_POLICY_MARKERS))
		params->offer.flags |= MPA_START_MARKERS;
	mpa_delay(MPA_POINT_START);
	lock_sock(sk);
	mpa_delay(MPA_POINT_START_LOCKED);
	err = mpa_start(mpa_ctx(sk), params, nonblock);
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

static struct mpa_params *mpa_reply_params(const struct mpa_reply *reply)
{
	struct mpa_params *params = mpa_params_alloc(reply->private_data,
						     reply->private_len);

	if (!params)
		return NULL;
	params->offer.ird = reply->ird;
	params->offer.ord = reply->ord;
	return params;
}

/**
 * mpa_control_decide() - MPA_ACCEPT, MPA_REJECT
 * @sk:		socket
 * @reply:	private data and depths, or NULL for those of struct mpa_start
 * @room:	octets of private data that fit into the struct as passed
 * @reject:	reject
 *
 * Context: process, socket lock not held.
 * Return: 0, -EINVAL, -ENOMEM, or as mpa_startup_decide().
 */
int mpa_control_decide(struct sock *sk, const struct mpa_reply *reply,
		       size_t room, bool reject)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	struct mpa_params *params = NULL;
	int err;

	if (reply && !mpa_reply_good(reply, room))
		return -EINVAL;
	if (reply) {
		params = mpa_reply_params(reply);
		if (!params)
			return -ENOMEM;
	}
	lock_sock(sk);
	err = mpa_startup_decide(ctx, params, reject);
	if (err && err == mpa_failed(ctx, MPA_STARTUP) && mpa_starting(ctx)) {
		mpa_startup_abort(ctx, err);
		sock_error(sk);
	}
	release_sock(sk);
	kfree(params);
	return err;
}

/* Whether MPA_PLACE is possible: it needs markers and CRCs, now or once started. */
static bool mpa_place_possible(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = ctx->params;

	/* A key may be set later. */
	if (mpa_alt(ctx))
		return true;
	switch (ctx->state) {
	case MPA_STATE_FULL:
		return ctx->rx.format.marked && ctx->rx.format.crc;
	case MPA_STATE_IDLE:
	case MPA_STATE_STARTUP:
	case MPA_STATE_REQUESTED:
		return params && params->offer.flags & MPA_START_MARKERS &&
		       !(params->offer.flags & MPA_START_NO_CRC);
	default:
		return false;
	}
}

/**
 * mpa_control_place() - MPA_PLACE
 * @sk:		socket
 * @on:		new value
 *
 * Context: process, socket lock not held.
 * Return: 0; -EPERM if the administrator does not allow it; or as
 * mpa_place_set().
 */
int mpa_control_place(struct sock *sk, bool on)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	bool records;
	int err = 0;

	lock_sock(sk);
	records = ctx->state == MPA_STATE_FULL &&
		  mpa_format_on(&ctx->rx.format);
	if (on && !mpa_policy_get(sock_net(sk), MPA_A_POLICY_PLACE))
		err = -EPERM;
	else if (on && !mpa_place_possible(ctx))
		err = -EINVAL;
	else if (records)
		err = mpa_place_set(ctx, on);
	if (!err)
		WRITE_ONCE(ctx->rx.want_place, on);
	if (!err && records)
		mpa_rx_update(ctx);
	release_sock(sk);
	return err;
}

/* MPA_INFO. Context: any, socket lock held. */
void mpa_control_info_fill(struct mpa_ctx *ctx, struct mpa_info *info)
{
	memset(info, 0, sizeof(*info));
	info->state = ctx->state;
	info->role = ctx->role;
	info->error = mpa_show_code(ctx);
	info->mulpdu = mpa_tx_mulpdu(ctx, &info->emss);
	if (ctx->state == MPA_STATE_FULL) {
		info->revision = ctx->revision;
		info->ird = ctx->ird;
		info->ord = ctx->ord;
		info->rtr = ctx->control & MPA_START_RTR;
		info->flags = mpa_show_flags(ctx);
	}
	info->tx_ulpdus = ctx->tx.ulpdus;
	info->tx_octets = ctx->tx.octets;
	info->tx_markers = ctx->tx.markers;
	info->rx_ulpdus = ctx->rx.ulpdus;
	info->rx_octets = ctx->rx.octets;
	info->rx_markers = ctx->rx.markers;
	info->tx_packets = ctx->tcp.watch.packets;
	info->tx_segs_aligned = ctx->tcp.watch.aligned;
	info->tx_segs_unaligned = ctx->tcp.watch.unaligned;
	info->rx_placed = ctx->rx.place ? ctx->rx.place->total : 0;
	info->rx_edge = ctx->rx.cur.pos;
	info->error_position = mpa_failed(ctx, MPA_RX) ? ctx->rx.cur.pos : 0;
}

/* The same. Context: process, socket lock not held. */
void mpa_control_info(struct sock *sk, struct mpa_info *info)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	lock_sock(sk);
	mpa_startup_notice_reset(ctx);
	mpa_control_info_fill(ctx, info);
	release_sock(sk);
}

/**
 * mpa_control_peer_fill() - MPA_PEER, with the lock held
 * @ctx:	the context
 * @peer:	filled in
 *
 * Context: any, socket lock held.
 * Return: 0, or -ENODATA if there is no startup frame of the peer.
 */
int mpa_control_peer_fill(const struct mpa_ctx *ctx, struct mpa_peer *peer)
{
	const u8 *private = ctx->peer_private;
	struct mpa_enhanced enhanced;

	memset(peer, 0, sizeof(*peer));
	if (!ctx->peer_valid)
		return -ENODATA;
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
	return 0;
}

/* The same. Context: process, socket lock not held. */
int mpa_control_peer(struct sock *sk, struct mpa_peer *peer)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	int err;

	lock_sock(sk);
	mpa_startup_notice_reset(ctx);
	err = mpa_control_peer_fill(ctx, peer);
	release_sock(sk);
	return err;
}
