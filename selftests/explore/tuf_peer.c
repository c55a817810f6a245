// SPDX-License-Identifier: GPL-2.0
/* The peer, which is plain TCP: what it sends is noted, what it gets is kept. */

#include "tuf.h"
#include "mpa_forge.h"

enum { TCP_ESTABLISHED = 1, TCP_CLOSE_WAIT = 8 };	/* of tcpi_state */

#define AHEAD		5	/* FPDUs at a time */
#define AHEAD_LEN	700
#define AHEAD_MISSING	300	/* octets in front that do not come yet */

/* All that the peer has sent is in the socket's TCP. */
bool all_here(const struct world *w)
{
	int unacked = 0;

	return w->raw < 0 ||
	       (!ioctl(w->raw, SIOCOUTQ, &unacked) && unacked <= w->fin);
}

static int say_now(struct world *w, const u8 *octets, u32 len)
{
	ssize_t n;

	if (len > STREAM_MAX - w->wrote_len)
		return -ENOBUFS;
	n = send(w->raw, octets, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	memcpy(w->wrote + w->wrote_len, octets, n);
	w->wrote_len += n;
	/* TCP takes nothing after a shutdown of both halves, and resets. */
	if (w->shut == 3 && n && !w->ended) {
		w->ended = true;
		w->due = ECONNRESET;
		w->due_maybe = true;
	}
	return n;
}

/* What was begun goes first. */
static int say_rest(struct world *w)
{
	int n;

	if (!w->rest_left)
		return 0;
	n = say_now(w, w->rest + w->rest_at, w->rest_left);
	if (n < 0)
		return n;
	w->rest_at += n;
	w->rest_left -= n;
	return w->rest_left ? -EAGAIN : 0;
}

/* For what is sent in part. */
static u8 *rest_room(struct world *w, u32 room)
{
	if (!w->rest_left)
		w->rest_at = 0;
	return w->rest_at + w->rest_left + room > sizeof(w->rest) ? NULL :
	       w->rest + w->rest_at + w->rest_left;
}

int peer_say(struct world *w, const u8 *octets, u32 len)
{
	u8 *room;

	if (w->fin)
		return -EPIPE;
	room = rest_room(w, len);
	if (!room)
		return -ENOBUFS;
	memcpy(room, octets, len);
	w->rest_left += len;
	return say_rest(w);
}

void peer_read(struct world *w)
{
	ssize_t n;

	while (w->raw >= 0) {
		n = recv(w->raw, w->got + w->got_len,
			 sizeof(w->got) - w->got_len, MSG_DONTWAIT);
		if (n <= 0)
			break;
		w->got_len += n;
	}
	wire_read(w);
}

/* ---- FPDUs ---- */

static const u8 *key_of(const struct world *w)
{
	return w->rx_keyed ? w->rx_key : key_peer;
}

static u32 make(struct world *w, u32 behind, u32 len, const u8 *key, u8 *fpdu)
{
	u32 position = w->wrote_len + w->rest_left + behind - w->rx_begin;

	return fpdu_make(w, position, record_of(len), len, key, fpdu);
}

static u8 fpdus[70000];

int peer_record(struct world *w, u32 len)
{
	return peer_say(w, fpdus, make(w, 0, len, key_of(w), fpdus));
}

static int op_fpdu(struct world *w, long len)
{
	return peer_record(w, len);
}

static int op_key(struct world *w, long len)
{
	return peer_say(w, fpdus, make(w, 0, len, key_other, fpdus));
}

static int op_many(struct world *w, long len)
{
	u32 n = 0, i;

	for (i = 0; i < 12; i++)
		n += make(w, n, len + i, key_of(w), fpdus + n);
	return peer_say(w, fpdus, n);
}

/* Its ULPDU has an FPDU in it. */
static int op_inner(struct world *w, long len)
{
	u8 ulpdu[400];
	u32 n;

	memcpy(ulpdu, record_of(len), len);
	n = fpdu_make(w, 0, record_of(50), 50, key_of(w), ulpdu + 40);
	n = fpdu_make(w, w->wrote_len + w->rest_left - w->rx_begin, ulpdu,
		      len > 40 + n ? len : 40 + n, key_of(w), fpdus);
	return peer_say(w, fpdus, n);
}

/* The first octets of one, or, if some have been sent, the others. */
static int op_half(struct world *w, long len)
{
	u32 n, first;
	int err;

	if (w->rest_left)
		return say_rest(w);
	if (w->fin)
		return -EPIPE;
	n = make(w, 0, len, key_of(w), fpdus);
	first = n / 2;
	err = say_now(w, fpdus, first);
	if (err < 0)
		return err;
	memcpy(rest_room(w, n), fpdus + err, n - err);
	w->rest_left = n - err;
	return 0;
}

static int op_empty(struct world *w, long arg)
{
	(void)arg;
	return peer_say(w, fpdus, make(w, 0, 0, key_of(w), fpdus));
}

/* A marker that says something else, or no marker: some octet in the middle. */
static int op_marker(struct world *w, long len)
{
	u32 at = w->wrote_len + w->rest_left - w->rx_begin;
	u32 n = make(w, 0, len, key_of(w), fpdus);

	if (w->rx_mode != TUF_MARKERS)
		return -EINVAL;
	fpdus[(PERIOD - at % PERIOD) % PERIOD] ^= 1;
	return peer_say(w, fpdus, n);
}

int peer_text(struct world *w, long len)
{
	static const u8 text[] = "plain text that is no FPDU of TUF";

	return peer_say(w, text, len);
}

/* ---- out of order ---- */

/* Segments that TCP has taken out of order. */
static u32 out_of_order(const struct world *w)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	getsockopt(w->s, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_rcv_ooopack;
}

/* From the peer, @off octets behind what it has sent. */
static int forge_ahead(struct world *w, u32 off, const u8 *octets, u32 len)
{
	u32 before = out_of_order(w);
	struct forger forger;
	int err = 0;

	if (forger_open(&forger, w->raw, w->s))
		err = -errno;
	/* The peer's own segments say how much it takes. */
	forger.window = 1000;
	if (!err && forge(&forger, off, octets, len, 0, 0))
		err = -errno;
	close(forger.raw);
	settle(1);
	return err ?: out_of_order(w) == before ? -ENOBUFS : 0;
}

enum { AHEAD_GOOD, AHEAD_CUT, AHEAD_KEY };

static u32 ahead_add(struct world *w, u32 behind, u8 *fpdu, long how)
{
	struct ahead *ahead = w->ahead + w->ahead_nr++;
	bool contained = w->rx_mode == TUF_ALIGN;

	memset(ahead, 0, sizeof(*ahead));
	ahead->at = w->wrote_len + w->rest_left + behind;
	ahead->len = AHEAD_LEN + w->ahead_nr;
	ahead->here = behind && how == AHEAD_GOOD && (w->rx_keyed || !contained);
	ahead->maybe = how != AHEAD_GOOD && !contained;
	ahead->octets = make(w, behind, ahead->len,
			     how == AHEAD_KEY ? key_other : key_of(w), fpdu);
	return ahead->octets;
}

/*
 * Some FPDUs behind what is still to go. Of TUF_ALIGN each is a segment, without the
 * first one, or, with @how, from the middle of the first on, or with another key.
 */
static int op_ahead(struct world *w, long how)
{
	u32 i, first = w->ahead_nr, n = 0, from = w->rest_left, off;
	bool whole = how != AHEAD_CUT && w->rx_mode == TUF_ALIGN;
	u8 *room = rest_room(w, 8192);
	int err = 0;

	if (w->s < 0 || !w->rx_mode || w->fin || w->shut || w->ended || w->mtu ||
	    w->squeezed || first + AHEAD > AHEAD_MAX || !room)
		return -EINVAL;
	for (i = 0; i < AHEAD; i++)
		n += ahead_add(w, n, room + n, how);
	off = whole ? w->ahead[first].octets : AHEAD_MISSING;
	if (!whole)
		err = forge_ahead(w, from + off, room + off, n - off);
	for (i = 1; whole && i < AHEAD && !err; i++) {
		err = forge_ahead(w, from + off, room + off,
				  w->ahead[first + i].octets);
		off += w->ahead[first + i].octets;
	}
	w->rest_left += n;
	/* TCP has no room for it. */
	for (i = first; err && i < w->ahead_nr; i++)
		w->ahead[i].maybe = true;
	/* Some wait for order as well behind a gap that is not tested (any more). */
	return 0;
}

/* ---- ends ---- */

static int op_fin(struct world *w, long arg)
{
	(void)arg;
	if (shutdown(w->raw, SHUT_WR))
		return -errno;
	w->fin = true;
	w->rest_left = 0;
	return 0;
}

static int op_rst(struct world *w, long arg)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	(void)arg;
	peer_read(w);
	if (w->s >= 0)
		getsockopt(w->s, SOL_TCP, TCP_INFO, &info, &len);
	hang_up(w->raw);
	w->raw = -1;
	/* tcp_reset(); in other states nobody may have to be told any more. */
	if (!w->ended && !w->due && info.tcpi_state) {
		w->due = info.tcpi_state == TCP_CLOSE_WAIT ? EPIPE : ECONNRESET;
		w->due_maybe = info.tcpi_state != TCP_ESTABLISHED;
	}
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

const struct op tuf_peer_ops[] = {
	PEER("text", peer_text, 24),
	PEER("fpdu", op_fpdu, 100),
	PEER("many", op_many, 20),
	PEER("half", op_half, 1000),
	PEER("long", op_half, 30000),
	PEER("inner", op_inner, 150),
	PEER("empty", op_empty, 0),
	PEER("key", op_key, 100),
	PEER("marker", op_marker, 300),
	PEER("ahead", op_ahead, AHEAD_GOOD),
	PEER("ahead.cut", op_ahead, AHEAD_CUT),
	PEER("ahead.key", op_ahead, AHEAD_KEY),
	PEER("fin", op_fin, 0),
	PEER("rst", op_rst, 0),
	PEER("read", op_read, 0),
};

const int tuf_peer_ops_nr = ARRAY_SIZE(tuf_peer_ops);
