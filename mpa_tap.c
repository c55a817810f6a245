// SPDX-License-Identifier: GPL-2.0
/*
 * Records to a monitor: an administrator may have what is said of a connection's
 * records, and their first octets, sent to the netlink group "records", to find out
 * what its ends say to each other. It is for debugging: each record then goes the
 * long way, one by one.
 *
 * A record sent is shown when its FPDU has been made; one received, when it has been
 * verified, or found bad; one out of order, when it goes to the user.
 */

#include <net/genetlink.h>
#include <uapi/linux/mpa_netlink.h>

#include "mpa.h"

/* Attributes of a record beside its octets. */
#define MPA_TAP_SIZE		128

/* Since the first tap: what looks for taps costs nothing before. */
DEFINE_STATIC_KEY_FALSE(mpa_tap_used);

static const struct genl_family *mpa_tap_family __ro_after_init;

/**
 * mpa_tap_init() - learn how records are sent
 * @family:	the netlink family
 *
 * Context: module init.
 */
void __init mpa_tap_init(const struct genl_family *family)
{
	mpa_tap_family = family;
}

/**
 * mpa_tap_set() - have a connection's records shown from now on
 * @ctx:	the context
 * @octets:	of each as many at most
 *
 * Context: any, under RCU; mpa_tap_used is on.
 */
void mpa_tap_set(struct mpa_ctx *ctx, u32 octets)
{
	WRITE_ONCE(ctx->tap.octets, octets);
	WRITE_ONCE(ctx->tap.on, true);
}

/**
 * mpa_tap_clear() - show no more of them
 * @ctx:	the context
 *
 * Context: any, under RCU or with the socket lock held.
 */
void mpa_tap_clear(struct mpa_ctx *ctx)
{
	WRITE_ONCE(ctx->tap.on, false);
}

/**
 * struct mpa_tap_record - what is said of a record
 * @ctx:	the connection's context
 * @head:	the message's header
 * @direction:	enum mpa_direction
 * @verdict:	enum mpa_error
 * @placed:	out of order
 * @position:	stream position of its FPDU
 * @len:	octets of the ULPDU; 0: not known
 * @octets:	so many are to be copied
 * @to:		where the next one goes
 */
struct mpa_tap_record {
	struct mpa_ctx		*ctx;
	void			*head;
	enum mpa_direction	direction;
	enum mpa_error		verdict;
	bool			placed;
	u64			position;
	u32			len;
	u32			octets;
	u8			*to;
};

static int mpa_tap_fill(struct sk_buff *skb, struct mpa_tap_record *record)
{
	struct mpa_ctx *ctx = record->ctx;
	struct nlattr *data;

	record->head = genlmsg_put(skb, 0, 0, mpa_tap_family, 0,
				   MPA_CMD_RECORD_NTF);
	if (!record->head ||
	    nla_put_u64_64bit(skb, MPA_A_TAP_COOKIE, mpa_show_cookie(ctx->sk),
			      MPA_A_TAP_PAD) ||
	    nla_put_u32(skb, MPA_A_TAP_SEQ, ctx->tap.seq) ||
	    nla_put_u32(skb, MPA_A_TAP_DIRECTION, record->direction) ||
	    nla_put_u64_64bit(skb, MPA_A_TAP_POSITION, record->position,
			      MPA_A_TAP_PAD))
		return -EMSGSIZE;
	if (record->len && nla_put_u32(skb, MPA_A_TAP_LENGTH, record->len))
		return -EMSGSIZE;
	if (record->placed && nla_put_flag(skb, MPA_A_TAP_PLACED))
		return -EMSGSIZE;
	if (record->direction == MPA_DIRECTION_RX &&
	    nla_put_u32(skb, MPA_A_TAP_VERDICT, record->verdict))
		return -EMSGSIZE;
	if (!record->octets)
		return 0;
	data = nla_reserve(skb, MPA_A_TAP_DATA, record->octets);
	if (!data)
		return -EMSGSIZE;
	record->to = nla_data(data);
	return 0;
}

/* Begin a message. Return: NULL if there is none to be sent. */
static struct sk_buff *mpa_tap_begin(struct mpa_tap_record *record)
{
	struct mpa_ctx *ctx = record->ctx;
	struct sk_buff *skb;

	if (!genl_has_listeners(mpa_tap_family, sock_net(ctx->sk),
				MPA_NLGRP_RECORDS)) {
		mpa_tap_clear(ctx);
		return NULL;
	}
	ctx->tap.seq++;
	record->octets = min(record->len, READ_ONCE(ctx->tap.octets));
	skb = genlmsg_new(MPA_TAP_SIZE + nla_total_size(record->octets),
			  GFP_ATOMIC);
	if (skb && !mpa_tap_fill(skb, record))
		return skb;
	nlmsg_free(skb);
	SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_RECORDS_LOST);
	return NULL;
}

static void mpa_tap_end(struct mpa_tap_record *record, struct sk_buff *skb)
{
	const struct mpa_ctx *ctx = record->ctx;
	int err;

	genlmsg_end(skb, record->head);
	err = genlmsg_multicast_netns(mpa_tap_family, sock_net(ctx->sk), skb, 0,
				      MPA_NLGRP_RECORDS, GFP_ATOMIC);
	if (err && err != -ESRCH)
		SNMP_INC_STATS(ctx->tcp.mib, MPA_MIB_RECORDS_LOST);
}

/* ---- sent ---- */

/* Copy octets of the ULPDU that an FPDU in the buffer holds, around its markers. */
static void mpa_tap_copy_made(struct mpa_tap_record *record,
			      const struct mpa_fpdu *fpdu)
{
	const struct mpa_txbuf *out = record->ctx->tx.out;
	u32 at = out->len - fpdu->len, off = 0, left = record->octets;

	while (left) {
		struct mpa_field_span field;
		const u8 *data;
		u32 n;

		mpa_fpdu_field_at(fpdu, off, &field);
		data = mpa_txbuf_at(out, at + off, &n);
		n = min(n, field.len);
		if (field.field == MPA_FIELD_ULPDU) {
			n = min(n, left);
			memcpy(record->to, data, n);
			record->to += n;
			left -= n;
		}
		off += n;
	}
}

/**
 * __mpa_tap_sent() - the last FPDU in the buffer has just been made
 * @ctx:	the context; mpa_tapped()
 * @fpdu:	its layout
 * @position:	its stream position
 *
 * Context: process, socket lock held.
 */
void __mpa_tap_sent(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		    u64 position)
{
	struct mpa_tap_record record = {
		.ctx = ctx, .direction = MPA_DIRECTION_TX,
		.position = position, .len = fpdu->ulpdu_len,
	};
	struct sk_buff *skb = mpa_tap_begin(&record);

	if (!skb)
		return;
	mpa_tap_copy_made(&record, fpdu);
	mpa_tap_end(&record, skb);
}

/* ---- received ---- */

static int mpa_tap_copy(void *arg, const u8 *data, u32 len)
{
	struct mpa_tap_record *record = arg;

	memcpy(record->to, data, len);
	record->to += len;
	return 0;
}

static void mpa_tap_show(struct mpa_tap_record *record,
			 const struct mpa_rx_source *from,
			 const struct mpa_fpdu *fpdu, u32 taken)
{
	struct sk_buff *skb = mpa_tap_begin(record);

	if (!skb)
		return;
	if (record->octets &&
	    mpa_read_show(from, fpdu, taken, 0, record->octets, mpa_tap_copy,
			  record)) {
		nlmsg_free(skb);
		SNMP_INC_STATS(record->ctx->tcp.mib, MPA_MIB_RECORDS_LOST);
		return;
	}
	mpa_tap_end(record, skb);
}

/**
 * __mpa_tap_received() - the current record has been verified, or found bad
 * @ctx:	the context; mpa_tapped()
 * @from:	where it is
 * @fpdu:	its layout
 * @taken:	octets of it in front of @from->at
 * @verdict:	MPA_ERR_NONE, or what is wrong with it
 *
 * Context: any, socket lock held.
 */
void __mpa_tap_received(struct mpa_ctx *ctx, const struct mpa_rx_source *from,
			const struct mpa_fpdu *fpdu, u32 taken,
			enum mpa_error verdict)
{
	struct mpa_tap_record record = {
		.ctx = ctx, .direction = MPA_DIRECTION_RX, .verdict = verdict,
		.position = ctx->rx.cur.pos, .len = fpdu->ulpdu_len,
	};

	mpa_tap_show(&record, from, fpdu, taken);
}

/**
 * __mpa_tap_placed() - a record goes to the user out of order
 * @ctx:	the context; mpa_tapped()
 * @fpdu:	its FPDU
 *
 * Context: any, socket lock held.
 */
void __mpa_tap_placed(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu)
{
	struct mpa_tap_record record = {
		.ctx = ctx, .direction = MPA_DIRECTION_RX, .placed = true,
		.position = mpa_rx_position(&ctx->rx, fpdu->pos),
		.len = fpdu->ulpdu_len,
	};
	struct mpa_cursor at;
	struct mpa_rx_source from = { .at = &at };

	mpa_cursor_begin(&at, ctx->sk, ctx->rx.seq + fpdu->pos);
	mpa_tap_show(&record, &from, fpdu, 0);
}

/**
 * __mpa_tap_bad_length() - the current record has a length that no FPDU can have
 * @ctx:	the context; mpa_tapped()
 *
 * Context: any, socket lock held.
 */
void __mpa_tap_bad_length(struct mpa_ctx *ctx)
{
	struct mpa_tap_record record = {
		.ctx = ctx, .direction = MPA_DIRECTION_RX,
		.verdict = MPA_ERR_CRC, .position = ctx->rx.cur.pos,
	};

	mpa_tap_show(&record, NULL, NULL, 0);
}
