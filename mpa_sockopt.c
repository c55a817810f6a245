// SPDX-License-Identifier: GPL-2.0
/* Socket options at level SOL_MPA. */

#include <linux/fs.h>
#include <linux/in6.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/uaccess.h>

#include "mpa_sock.h"

/*
 * Copy a struct of @size octets from the user, who passes @len octets, at least @min.
 * Return: the struct, which the caller frees, or an ERR_PTR().
 */
static void *mpa_get_struct(size_t size, unsigned int min, sockptr_t val,
			    unsigned int len)
{
	void *to;
	int err;

	if (len < min)
		return ERR_PTR(-EINVAL);
	if (len > PAGE_SIZE)
		return ERR_PTR(-E2BIG);
	to = kmalloc(size, GFP_KERNEL);
	if (!to)
		return ERR_PTR(-ENOMEM);
	err = copy_struct_from_sockptr(to, size, val, len);
	if (!err)
		return to;
	kfree(to);
	return ERR_PTR(err);
}

static int mpa_set_start(struct sock *sk, sockptr_t val, unsigned int len)
{
	struct socket *sock = sk->sk_socket;
	struct mpa_start *start;
	int err;

	start = mpa_get_struct(sizeof(*start), offsetof(struct mpa_start, ird),
			       val, len);
	if (IS_ERR(start))
		return PTR_ERR(start);
	err = mpa_control_start(sk, start, len, sock && sock->file &&
				sock->file->f_flags & O_NONBLOCK);
	kfree(start);
	return err;
}

static int mpa_set_decision(struct sock *sk, sockptr_t val, unsigned int len,
			    bool reject)
{
	struct mpa_reply *reply = NULL;
	int err;

	if (len)
		reply = mpa_get_struct(sizeof(*reply),
				       offsetof(struct mpa_reply, reserved2),
				       val, len);
	if (IS_ERR(reply))
		return PTR_ERR(reply);
	err = mpa_control_decide(sk, reply, len, reject);
	kfree(reply);
	return err;
}

/* Return the word in which BIT(@name) is the value of an on/off option. */
static u16 *mpa_option_word(struct mpa_ctx *ctx, int name)
{
	return name == MPA_PACKING || name == MPA_OVERSIZE ? &ctx->tx.options :
							     &ctx->rx.options;
}

static int mpa_set_value(struct sock *sk, int name, sockptr_t val,
			 unsigned int len)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	u16 *word = mpa_option_word(ctx, name);
	int value;

	if (len < sizeof(value))
		return -EINVAL;
	if (copy_from_sockptr(&value, val, sizeof(value)))
		return -EFAULT;
	if (name == MPA_SEGMENT ?
	    value < MPA_SEGMENT_OFF || value > mpa_ulpdu_max(ctx) : value & ~1)
		return -EINVAL;
	if (name == MPA_PLACE)
		return mpa_control_place(sk, value);

	lock_sock(sk);
	if (name == MPA_SEGMENT)
		WRITE_ONCE(ctx->tx.segment, value);
	else
		WRITE_ONCE(*word, (*word & ~BIT(name)) | value << name);
	release_sock(sk);
	return 0;
}

/* Whether an option is of the startup phase, which TUF does not have. */
static bool mpa_option_startup(int name)
{
	return name == MPA_START || name == MPA_ACCEPT || name == MPA_REJECT ||
	       name == MPA_PEER;
}

/* ---- options of TCP and IP ---- */

/* Whether MPA sets an option of TCP for its own purposes. */
static bool mpa_sockopt_borrowed(int level, int name)
{
	return level == SOL_TCP && (name == TCP_CORK || name == TCP_NODELAY);
}

/* Whether an option changes the length of headers, and so the MSS. */
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

	/* Refuse repair mode if framed: TCP would queue octets and not send them. */
	if (level == SOL_TCP && name == TCP_REPAIR) {
		bool tx = mpa_call_begin(ctx, MPA_TX);
		bool rx = mpa_call_begin(ctx, MPA_RX);

		err = tx || rx ? -EOPNOTSUPP :
		      base->setsockopt(sk, level, name, val, len);
		mpa_call_end(ctx, MPA_RX, rx);
		mpa_call_end(ctx, MPA_TX, tx);
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

	/* Refuse this if framed: it would take unverified octets out of the queue. */
	if (level == SOL_TCP && name == TCP_ZEROCOPY_RECEIVE) {
		bool framed = mpa_call_begin(ctx, MPA_RX);

		err = framed ? -EOPNOTSUPP :
		      base->getsockopt(sk, level, name, val, len);
		mpa_call_end(ctx, MPA_RX, framed);
		return err;
	}
	if (!mpa_sockopt_borrowed(level, name))
		return base->getsockopt(sk, level, name, val, len);
	mpa_tx_restore_options(ctx, false);
	err = base->getsockopt(sk, level, name, val, len);
	mpa_tx_reapply_options(ctx);
	return err;
}

/* ---- all options ---- */

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
	case MPA_PACKING:
	case MPA_OVERSIZE:
	case MPA_RECVINFO:
	case MPA_RECV_BATCH:
	case MPA_PLACE:
		return mpa_set_value(sk, name, val, len);
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

static int mpa_get_mulpdu(struct mpa_ctx *ctx)
{
	int mulpdu;

	lock_sock(ctx->sk);
	mulpdu = mpa_tx_mulpdu(ctx, NULL);
	if (mpa_alt(ctx))
		mpa_alt_mulpdu_read(ctx);
	release_sock(ctx->sk);
	return mulpdu;
}

int mpa_getsockopt(struct sock *sk, int level, int name, char __user *val,
		   int __user *len)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	int err, value;

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
		value = mpa_get_mulpdu(ctx);
		break;
	case MPA_SEGMENT:
		value = READ_ONCE(ctx->tx.segment);
		break;
	case MPA_PACKING:
	case MPA_OVERSIZE:
	case MPA_RECVINFO:
	case MPA_RECV_BATCH:
	case MPA_PLACE:
		value = READ_ONCE(*mpa_option_word(ctx, name)) >> name & 1;
		break;
	default:
		return -ENOPROTOOPT;
	}
	return mpa_put_value(&value, sizeof(value), val, len);
}

/* ---- MPA_START, MPA_ACCEPT, MPA_REJECT, reporting: also for kernel users ---- */

/* A longer timeout is reduced to this, so that jiffies do not wrap. */
#define MPA_TIMEOUT_MS_MAX	3600000U

/* Return the MPA_START_* flags that are valid for a role and revision. */
static u32 mpa_start_flags(const struct mpa_start *start)
{
	u32 flags = MPA_START_MARKERS | MPA_START_NO_CRC;

	if (start->role == MPA_ROLE_DIRECT)
		return flags | MPA_START_TX_MARKERS | MPA_START_TX_NO_CRC;
	flags |= MPA_START_PERMISSIVE | MPA_START_MANUAL;
	if (start->revision < 2)
		return flags;
	flags |= MPA_START_RTR;
	return start->role == MPA_ROLE_RESPONDER ? flags :
	       flags | MPA_START_ENHANCED | MPA_START_P2P;
}

static bool mpa_private_fits(u16 len, int room, bool enhanced)
{
	return len <= max(room, 0) &&
	       len <= MPA_PRIVATE_DATA_MAX - (enhanced ? MPA_ENHANCED_LEN : 0);
}

static bool mpa_start_good(const struct mpa_start *start, unsigned int len)
{
	/* A responder of revision 2 may receive an enhanced request. */
	bool enhanced = start->flags & MPA_START_ENHANCED ||
			(start->role == MPA_ROLE_RESPONDER && start->revision == 2);
	int room = len - offsetof(struct mpa_start, private_data);
	u32 rtr = start->flags & MPA_START_RTR;

	if (start->role < MPA_ROLE_INITIATOR || start->role > MPA_ROLE_DIRECT ||
	    start->revision > 2 || start->flags & ~mpa_start_flags(start) ||
	    memchr_inv(start->reserved, 0, sizeof(start->reserved)))
		return false;
	if (start->role == MPA_ROLE_DIRECT &&
	    (start->private_len || start->timeout_ms))
		return false;
	/* RFC 6581 section 9.2: A requires one of B, C, D, and each of these requires A. */
	if (start->role == MPA_ROLE_INITIATOR &&
	    (start->flags & MPA_START_P2P ? !enhanced || !rtr : rtr))
		return false;
	/* Only enhanced frames have IRD and ORD. */
	return max(start->ird, start->ord) <= (enhanced ? MPA_DEPTH_MAX : 0) &&
	       mpa_private_fits(start->private_len, room, enhanced);
}

static struct mpa_params *mpa_params_alloc(const u8 *private, u16 private_len,
					   u16 ird, u16 ord)
{
	struct mpa_params *params;

	params = kzalloc(struct_size(params, private, private_len),
			 GFP_KERNEL_ACCOUNT);
	if (!params)
		return NULL;
	params->private_len = private_len;
	memcpy(params->private, private, private_len);
	params->offer.ird = ird;
	params->offer.ord = ord;
	return params;
}

/* Handle MPA_START. @len: octets of @start that the user passed. Return: as mpa_start(). */
int mpa_control_start(struct sock *sk, const struct mpa_start *start,
		      unsigned int len, bool nonblock)
{
	struct mpa_params *params;
	int err;

	if (!mpa_start_good(start, len))
		return -EINVAL;
	params = mpa_params_alloc(start->private_data, start->private_len,
				  start->ird, start->ord);
	if (!params)
		return -ENOMEM;
	params->offer.role = start->role;
	params->offer.revision = start->revision;
	params->offer.flags = start->flags;
	params->timeout = msecs_to_jiffies(min(start->timeout_ms,
					       MPA_TIMEOUT_MS_MAX));
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

static bool mpa_reply_good(const struct mpa_reply *reply, unsigned int len)
{
	int room = len - offsetof(struct mpa_reply, private_data);

	return !reply->reserved &&
	       !memchr_inv(reply->reserved2, 0, sizeof(reply->reserved2)) &&
	       reply->ird <= MPA_DEPTH_MAX && reply->ord <= MPA_DEPTH_MAX &&
	       mpa_private_fits(reply->private_len, room, false);
}

/*
 * Handle MPA_ACCEPT or MPA_REJECT. @len: octets of @reply that the user passed. @reply
 * may be NULL. Return: as mpa_startup_decide().
 */
int mpa_control_decide(struct sock *sk, const struct mpa_reply *reply,
		       unsigned int len, bool reject)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	struct mpa_params *params = NULL;
	int err;

	if (reply) {
		if (!mpa_reply_good(reply, len))
			return -EINVAL;
		params = mpa_params_alloc(reply->private_data, reply->private_len,
					  reply->ird, reply->ord);
		if (!params)
			return -ENOMEM;
	}
	lock_sock(sk);
	err = mpa_startup_decide(ctx, params, reject);
	release_sock(sk);
	kfree(params);
	return err;
}

/* Whether MPA_PLACE is possible, now or once started: it requires markers and CRCs. */
static bool mpa_place_possible(struct mpa_ctx *ctx)
{
	const struct mpa_params *params = ctx->params;

	/* TUF: a key may be set later. */
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

/* Handle MPA_PLACE. Return: -EPERM if net.mpa.place forbids it, or as mpa_place_set(). */
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
		WRITE_ONCE(ctx->rx.options, (ctx->rx.options & ~BIT(MPA_PLACE)) |
					    on << MPA_PLACE);
	if (!err && records)
		mpa_rx_update(ctx);
	release_sock(sk);
	return err;
}

/* Fill in MPA_INFO. Context: any, socket lock held. */
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
	info->rx_placed = ctx->rx.placed;
	info->rx_edge = ctx->rx.cur.pos;
	info->error_position = mpa_failed(ctx, MPA_RX) ? ctx->rx.cur.pos : 0;
}

void mpa_control_info(struct sock *sk, struct mpa_info *info)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);

	lock_sock(sk);
	mpa_control_info_fill(ctx, info);
	release_sock(sk);
}

/* Fill in MPA_PEER. Context: any, socket lock held. Return: 0; -ENODATA before the frame. */
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

int mpa_control_peer(struct sock *sk, struct mpa_peer *peer)
{
	struct mpa_ctx *ctx = mpa_ctx(sk);
	int err;

	lock_sock(sk);
	err = mpa_control_peer_fill(ctx, peer);
	release_sock(sk);
	return err;
}
