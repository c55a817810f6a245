// SPDX-License-Identifier: GPL-2.0
/* Octets that a peer with MPA sends: startup frames, and bad FPDUs. */

#include "mpa.h"

/* ---- frames ---- */

static int say_frame(struct world *w, const u8 *frame)
{
	/* Only one of these frames is valid. */
	if (w->state < 0 ||
	    (w->wrote_len == w->begin && w->state != MPA_STATE_FULL))
		w->peer.tx_position = 0;
	return peer_say(w, frame, FRAME_LEN, 0);
}

static int op_request(struct world *w, long flags)
{
	u8 frame[FRAME_LEN];

	frame_put(frame, false, flags, 1, 0);
	return say_frame(w, frame);
}

static int op_reply(struct world *w, long flags)
{
	u8 frame[FRAME_LEN];

	frame_put(frame, true, flags, 1, 0);
	return say_frame(w, frame);
}

static int op_half_frame(struct world *w, long arg)
{
	u8 frame[FRAME_LEN];

	(void)arg;
	frame_put(frame, w->role == MPA_ROLE_INITIATOR, 0x40, 1, 0);
	return peer_say(w, frame, 10, 0);
}

/* ---- FPDUs ---- */

u32 fpdu_make(struct world *w, u32 behind, const u8 *octets, u32 len, u8 *fpdu)
{
	(void)behind;
	return peer_fpdu(&w->peer, octets, len, fpdu);
}

static u32 make(struct world *w, u8 *fpdu, u32 len)
{
	return fpdu_make(w, 0, record_of(len), len, fpdu);
}

static int op_many(struct world *w, long len)
{
	return peer_many(w, 20, len, 0);
}

static int op_damaged(struct world *w, long where)
{
	static u8 fpdu[4096];
	u32 n;

	if (w->rest_left) {
		/* Change the CRC of the FPDU that is half sent. */
		w->rest[w->rest_at + w->rest_left - 1] ^= 1;
		return say_rest(w);
	}
	n = make(w, fpdu, 100);
	fpdu[where < 0 ? n + where : where] ^= 0xff;
	return peer_say(w, fpdu, n, 0);
}

/* Send a reply of revision 0, together with an FPDU. */
static int op_reply_old(struct world *w, long len)
{
	u8 octets[FRAME_LEN + 200];
	int n = frame_put(octets, true, 0xc0, 0, 0), err;
	bool good = false;

	if (w->state == MPA_STATE_STARTUP && w->wrote_len == w->begin) {
		w->peer.tx_position = 0;
		w->peer.tx_markers = true;
		good = w->old;
	}
	n += make(w, octets + n, len);
	err = peer_say(w, octets, n, 0);
	if (!err && good && w->s >= 0 && !w->shut) {
		settle(5);
		if (mpa_info(w->s).state == MPA_STATE_FAILED &&
		    mpa_info(w->s).error == MPA_ERR_STARTUP)
			violated("a good reply of revision 0 is malformed");
	}
	return err;
}

/* Send a good FPDU whose last octet is urgent. */
static int op_urgent(struct world *w, long len)
{
	static u8 fpdu[4096];
	u32 n;

	say_rest(w);
	n = make(w, fpdu, len);
	if (w->state != MPA_STATE_FULL)
		w->fuzzy = true;
	return peer_say(w, fpdu, n, MSG_OOB);
}

/* The first octet of an FPDU is urgent. Before it is read, the last octet becomes urgent. */
static int op_urgent_twice(struct world *w, long len)
{
	static u8 fpdu[4096];
	u32 n;

	say_rest(w);
	n = make(w, fpdu, len);
	if (w->state != MPA_STATE_FULL)
		w->fuzzy = true;
	return peer_say(w, fpdu, 1, MSG_OOB) ?:
	       peer_say(w, fpdu + 1, n - 1, MSG_OOB);
}

static int op_text(struct world *w, long arg)
{
	(void)arg;
	return peer_say(w, (const u8 *)"no frame, no FPDU: text.", 24, 0);
}

const struct op peer_ops[] = {
	PEER("request", op_request, 0x40),
	PEER("request.bad", op_request, 0x4f),
	PEER("reply", op_reply, 0x40),
	PEER("reply.marked", op_reply, 0xc0),
	PEER("reply.old", op_reply_old, 100),
	PEER("reject", op_reply, 0x60),
	PEER("frame.half", op_half_frame, 0),
	PEER("fpdu", op_fpdu, 100),
	PEER("long", op_half, 30000),
	PEER("half", op_half, 1000),
	PEER("many", op_many, 20),
	PEER("crc", op_damaged, -1),
	PEER("length", op_damaged, 0),
	PEER("empty", op_fpdu, 0),
	PEER("urgent", op_urgent, 100),
	PEER("urgent.twice", op_urgent_twice, 100),
	PEER("text", op_text, 0),
	PEER("fin", op_fin, 0),
	PEER("rst", op_rst, 0),
	PEER("read", op_read, 0),
};

const int peer_ops_nr = ARRAY_SIZE(peer_ops);
