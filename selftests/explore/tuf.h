/* SPDX-License-Identifier: GPL-2.0 */
/* The explorer of TUF. */
#ifndef _EXPLORE_TUF_H
#define _EXPLORE_TUF_H

#include <linux/tuf.h>

#include "world.h"

#define SPANS_MAX	24
#define SEGMENTS_MAX	4096
#define PERIOD		128
#define LATE_MS		2000	/* maximum time until sent data is at the peer */
#define QUIET_MS	4	/* wait without an arrival, the first time */
#define QUIET_MOST(w)	8

/* Properties of a sent octet. */
#define MARK_END	1	/* a ULPDU ends with it */
#define MARK_CUT	2	/* a ULPDU may end with it */
#define MARK_ALONE	4	/* it begins an FPDU: packing was off */
#define MARK_SEGMENT	8	/* it begins a segment: TUF_SEGMENTS */

/* Properties of an octet received by the peer. */
#define WIRE_PLAIN	0
#define WIRE_BEGIN	1	/* an FPDU begins with it, or framing has ended */
#define WIRE_INSIDE	2

/**
 * struct span - octets of @sent with one framing
 * @mode:	enum tuf_mode
 * @keyed:	@key is known: it was given, or read, or is the first FPDU's
 * @key:	of the FPDUs
 * @period:	of markers
 * @from:	the first octet
 */
struct span {
	u8 mode;
	bool keyed;
	u8 key[TUF_KEY_LEN];
	u32 period;
	u32 from;
};

/* A segment sent by the tested socket. */
struct segment {
	u32 at;
	u32 len;
	bool again;		/* it is a retransmission, at least in part */
	bool closed;		/* the socket was closed by then */
};

/**
 * struct world - a connection, and the model's knowledge of it
 * @mtu:	the MTU of lo was changed
 * @was_closed:	@s was closed
 * @spans:	framings of the octets sent; the last is the present one
 * @key_reported:	the key for sending cannot be read, or no longer
 * @next_known:	@next_key was read
 * @known:	MULPDU as last read or reported
 * @rx_mode:	enum tuf_mode
 * @rx_key:	the key set with TUF_RX, if @rx_keyed
 * @left:	octets sent, as @segments
 * @mark:	properties of the octets of @sent
 * @wire:	properties of the octets of @got
 */
struct world {
	bool mtu, was_closed;
	struct span spans[SPANS_MAX];
	u32 nspans;
	bool key_reported, next_known;
	u8 next_key[TUF_KEY_LEN];
	bool packing_off, oversize, reports_emss;
	u32 known;
	u64 ulpdus, tx_octets;
	u8 rx_mode;
	bool rx_keyed;
	u8 rx_key[TUF_KEY_LEN];
	u32 rx_period;
	bool isn_known;
	u32 isn, left, nsegments;
	struct connection;
	struct segment segments[SEGMENTS_MAX];
	u8 mark[STREAM_MAX];
	u8 wire[1 << 20];
};

static inline struct span *span_now(const struct world *w)
{
	return (struct span *)w->spans + w->nspans - 1;
}

static const u8 key_peer[TUF_KEY_LEN] = { 0xa1, 0x5b, 0x3c, 0xd4, 0x77, 0x0e };
static const u8 key_other[TUF_KEY_LEN] = { 0x0f, 0x91, 0xb2, 0x3d, 0xe4, 0x55 };
static const u8 key_mine[TUF_KEY_LEN] = { 0xc3, 0x18, 0x6d, 0x72, 0xe9, 0xf6 };

extern const struct op tuf_send_ops[], tuf_recv_ops[], tuf_set_ops[], tuf_peer_ops[];
extern const int tuf_send_ops_nr, tuf_recv_ops_nr, tuf_set_ops_nr, tuf_peer_ops_nr;

/* tuf.c */
int lo_mtu(int mtu);
int pair_attach(struct world *w);
void world_over(struct world *w);

/* tuf_send.c */
struct tuf_info info_now(const struct world *w);
void gave(struct world *w, ssize_t n, int err, int how);

/* tuf_peer.c */
int peer_text(struct world *w, long len);
bool all_here(const struct world *w);
void said(struct world *w, u32 n);

/* tuf_model.c */
u32 tuf_fpdu(const struct world *w, u64 position, const u8 *octets, u32 len,
	     const u8 *key, u8 *fpdu);

/* tuf_judge.c */
void judge_plain(struct world *w, const u8 *buf, u32 n, int how);
void judge_info(struct world *w);

/* tuf_wire.c */
int wire_open(void);
void wire_read(struct world *w);
void judge_wire(struct world *w);

/* ---- specific to TUF, for files shared with MPA ---- */

static inline bool rx_framed(const struct world *w)
{
	return w->rx_mode != TUF_OFF;
}

static inline bool job_framed(const struct world *w, enum job_kind kind)
{
	return kind == JOB_RECV ? w->rx_mode : span_now(w)->mode;
}

/* A full buffer is emptied only for a call that needs a record. */
static inline bool poll_unsure(const struct world *w)
{
	return w->squeezed;
}

static inline bool all_read(struct world *w)
{
	pass_placed(w);
	return !w->cur_valid && w->rx_at == w->wrote_len && !w->rest_left;
}

static inline void world_clear(struct world *w)
{
	w->nspans = 1;
}

/* There is no startup, and no error is reported twice. */
#define asked(w)		((void)(w), false)
#define may_repeat(by)		((void)(by), false)
#define refresh(w)		((void)(w))
#define judge_order(w, info)	((void)(info))
#define judge_joined(w)		((void)(w))

#endif /* _EXPLORE_TUF_H */
