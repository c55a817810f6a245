// SPDX-License-Identifier: GPL-2.0
/*
 * Starting MPA, deciding by hand, and what is told of a connection: for socket
 * options and for users inside the kernel, who have their structs from different
 * places.
 */

#include <linux/slab.h>

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
 * @room:	octets of private data that the struct had room for
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
	/* Without startup frames the peer could not be asked. */
	if (start->role != MPA_ROLE_DIRECT && mpa_policy_markers(sk))
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
 * @reply:	how, or NULL: as struct mpa_start has said
 * @room:	octets of private data that the struct had room for
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
	if (err && err == ctx->startup_error && mpa_starting(ctx)) {
		mpa_startup_abort(ctx, err);
		sock_error(sk);
	}
	release_sock(sk);
	kfree(params);
	return err;
}

/*
 * Whether MPA_PLACE can be on: the direction has markers and CRCs, or certainly
 * will have.
 */
static bool mpa_place_possible(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = ctx->params;

	/* A key may come later. */
	if (mpa_is_tuf(ctx))
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
 * @on:		whether
 *
 * Context: process, socket lock not held.
 * Return: 0; -EPERM: the administrator does not allow it; or as mpa_place_set().
 */
int mpa_control_place(struct sock *sk, bool on)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	bool records;
	int err = 0;

	lock_sock(sk);
	records = ctx->state == MPA_STATE_FULL &&
		  mpa_format_on(&ctx->rx.format);
	if (on && !mpa_policy_place(sk))
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

/**
 * mpa_control_info_fill() - MPA_INFO, with the lock held
 * @ctx:	the context
 * @info:	filled in
 *
 * Context: any, socket lock held.
 */
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
	info->error_position = ctx->rx.error ? ctx->rx.cur.pos : 0;
}

/**
 * mpa_control_info() - MPA_INFO
 * @sk:		socket
 * @info:	filled in
 *
 * Context: process, socket lock not held.
 */
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
 * Return: 0, or -ENODATA if there is no startup frame of the peer's.
 */
int mpa_control_peer_fill(const struct mpa_ctx *ctx, struct mpa_peer *peer)
{
	const u8 *private = ctx->peer_private;
	struct mpa_enhanced enhanced;

	memset(peer, 0, sizeof(*peer));
	if (!ctx->have_peer)
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

/**
 * mpa_control_peer() - MPA_PEER
 * @sk:		socket
 * @peer:	filled in
 *
 * Context: process, socket lock not held.
 * Return: 0, or -ENODATA if there is no startup frame of the peer's.
 */
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
