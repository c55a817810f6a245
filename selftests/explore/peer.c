// SPDX-License-Identifier: GPL-2.0
/* The peer made by hand: what it sends is noted, what it gets is kept. */

#include "explore.h"
#include "ops.h"

int peer_say(struct world *w, const u8 *octets, u32 len, int flags)
{
	ssize_t n;

	if (len > STREAM_MAX - w->wrote_len)
		return -ENOBUFS;
	n = send(w->raw, octets, len, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
	if (n < 0)
		return -errno;
	memcpy(w->wrote + w->wrote_len, octets, n);
	w->wrote_len += n;
	return n == len ? 0 : -EAGAIN;
}

void peer_read(struct world *w)
{
	ssize_t n;

	if (w->raw < 0)
		return;
	for (;;) {
		n = recv(w->raw, w->got + w->got_len,
			 sizeof(w->got) - w->got_len, MSG_DONTWAIT);
		if (n <= 0)
			return;
		w->got_len += n;
	}
}

/* What is sent next lies elsewhere in memory. */
void elsewhere(void)
{
	static int other[2] = { -1, -1 };
	static u8 junk[4096];

	if (other[0] < 0 && tcp_pair(AF_INET, other))
		return;
	send(other[0], junk, 100, MSG_DONTWAIT);
	while (recv(other[1], junk, sizeof(junk), MSG_DONTWAIT) > 0)
		;
}

/* ---- frames ---- */

static int say_frame(struct world *w, const u8 *frame)
{
	/* Only one is in its place. */
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

static u32 fpdu_make(struct world *w, u8 *fpdu, u32 len)
{
	static u8 record[70000];

	record_fill(record, len);
	return peer_fpdu(&w->peer, record, len, fpdu);
}

/* The rest of one that was begun goes first. */
static int say_rest(struct world *w)
{
	int err;

	if (!w->half_left)
		return 0;
	err = peer_say(w, w->half + w->half_at, w->half_left, 0);
	w->half_left = 0;
	return err;
}

int say_record(struct world *w, long len)
{
	static u8 fpdu[80000];
	int err = say_rest(w);

	return err ?: peer_say(w, fpdu, fpdu_make(w, fpdu, len), 0);
}

static int op_fpdu(struct world *w, long len)
{
	return say_record(w, len);
}

static int op_many(struct world *w, long len)
{
	static u8 fpdus[8192];
	u32 n = 0, i;

	for (i = 0; i < 20; i++)
		n += fpdu_make(w, fpdus + n, len);
	return say_rest(w) ?: peer_say(w, fpdus, n, 0);
}

/* The first octets of one, or, if some have been sent, the others. */
static int op_half(struct world *w, long len)
{
	u32 n, first;
	int err;

	if (w->half_left)
		return say_rest(w);
	n = fpdu_make(w, w->half, len);
	first = n / 2;
	err = peer_say(w, w->half, first, 0);
	elsewhere();
	if (err)
		return err;
	w->half_at = first;
	w->half_left = n - first;
	return 0;
}

static int op_damaged(struct world *w, long where)
{
	static u8 fpdu[4096];
	u32 n;

	if (w->half_left) {
		/* The one that was begun, in its CRC. */
		w->half[w->half_at + w->half_left - 1] ^= 1;
		return say_rest(w);
	}
	n = fpdu_make(w, fpdu, 100);
	fpdu[where < 0 ? n + where : where] ^= 0xff;
	return peer_say(w, fpdu, n, 0);
}

/* Of no octets: RFC 5044 has none such. */
static int op_empty(struct world *w, long arg)
{
	u8 fpdu[16];

	(void)arg;
	return say_rest(w) ?: peer_say(w, fpdu, fpdu_make(w, fpdu, 0), 0);
}

/* A reply of revision 0, and an FPDU with it. */
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
	n += fpdu_make(w, octets + n, len);
	err = peer_say(w, octets, n, 0);
	if (!err && good && w->s >= 0 && !w->shut) {
		settle(5);
		if (mpa_info(w->s).state == MPA_STATE_FAILED &&
		    mpa_info(w->s).error == MPA_ERR_STARTUP)
			violated("a good reply of revision 0 is malformed");
	}
	return err;
}

/* One that is good, but its last octet is urgent. */
static int op_urgent(struct world *w, long len)
{
	static u8 fpdu[4096];
	u32 n;

	if (w->half_left)
		say_rest(w);
	n = fpdu_make(w, fpdu, len);
	if (w->state != MPA_STATE_FULL)
		w->fuzzy = true;
	return peer_say(w, fpdu, n, MSG_OOB);
}

/* Its first octet is urgent, and before that is read the last one. */
static int op_urgent_twice(struct world *w, long len)
{
	static u8 fpdu[4096];
	u32 n;

	say_rest(w);
	n = fpdu_make(w, fpdu, len);
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

/* ---- ends ---- */

static int op_fin(struct world *w, long arg)
{
	(void)arg;
	if (shutdown(w->raw, SHUT_WR))
		return -errno;
	w->fin = true;
	return 0;
}

static int op_rst(struct world *w, long arg)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	(void)arg;
	if (w->s >= 0)
		getsockopt(w->s, SOL_TCP, TCP_INFO, &info, &len);
	hang_up(w->raw);
	w->raw = -1;
	if (info.tcpi_state == 1 && !w->due)
		w->due = ECONNRESET;
	w->ended = true;
	return 0;
}

static int op_read(struct world *w, long arg)
{
	(void)arg;
	peer_read(w);
	return 0;
}

#define PEER(name, fn, arg)	{ "peer." name, ACTOR_PEER, 0, fn, arg }

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
	PEER("empty", op_empty, 0),
	PEER("urgent", op_urgent, 100),
	PEER("urgent.twice", op_urgent_twice, 100),
	PEER("text", op_text, 0),
	PEER("fin", op_fin, 0),
	PEER("rst", op_rst, 0),
	PEER("read", op_read, 0),
};

const int peer_ops_nr = ARRAY_SIZE(peer_ops);
