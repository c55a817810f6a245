// SPDX-License-Identifier: GPL-2.0
/* Octets that a peer with TUF sends. */

#include "tuf.h"

static u8 fpdus[70000];

/* Whether the socket's TCP has received all octets that the peer sent. */
bool all_here(const struct world *w)
{
	int unacked = 0;

	return w->raw < 0 ||
	       (!ioctl(w->raw, SIOCOUTQ, &unacked) && unacked <= w->fin);
}

/* After a shutdown of both halves TCP accepts nothing, and sends a RST. */
void said(struct world *w, u32 n)
{
	if (w->shut != 3 || !n || w->ended)
		return;
	w->ended = true;
	w->due = ECONNRESET;
	w->due_maybe = true;
}

/* ---- FPDUs ---- */

static const u8 *key_of(const struct world *w)
{
	return w->rx_keyed ? w->rx_key : key_peer;
}

static u32 make(struct world *w, u32 behind, u32 len, const u8 *key, u8 *fpdu)
{
	u32 position = w->wrote_len + w->rest_left + behind - w->rx_begin;

	return tuf_fpdu(w, position, record_of(len), len, key, fpdu);
}

u32 fpdu_make(struct world *w, u32 behind, const u8 *octets, u32 len, u8 *fpdu)
{
	u32 position = w->wrote_len + w->rest_left + behind - w->rx_begin;

	return tuf_fpdu(w, position, octets, len, key_of(w), fpdu);
}

static int op_key(struct world *w, long len)
{
	return peer_say(w, fpdus, make(w, 0, len, key_other, fpdus), 0);
}

static int op_many(struct world *w, long len)
{
	return peer_many(w, 12, len, 1);
}

/* Send an FPDU whose ULPDU contains an FPDU. */
static int op_inner(struct world *w, long len)
{
	u8 ulpdu[400];
	u32 n;

	memcpy(ulpdu, record_of(len), len);
	n = tuf_fpdu(w, 0, record_of(50), 50, key_of(w), ulpdu + 40);
	n = tuf_fpdu(w, w->wrote_len + w->rest_left - w->rx_begin, ulpdu,
		     len > 40 + n ? len : 40 + n, key_of(w), fpdus);
	return peer_say(w, fpdus, n, 0);
}

/* Send an FPDU with a wrong marker; without markers, with a wrong octet in the middle. */
static int op_marker(struct world *w, long len)
{
	u32 at = w->wrote_len + w->rest_left - w->rx_begin;
	u32 n = make(w, 0, len, key_of(w), fpdus);

	if (w->rx_mode != TUF_MARKERS)
		return -EINVAL;
	fpdus[(PERIOD - at % PERIOD) % PERIOD] ^= 1;
	return peer_say(w, fpdus, n, 0);
}

int peer_text(struct world *w, long len)
{
	static const u8 text[] = "plain text that is no FPDU of TUF";

	return peer_say(w, text, len, 0);
}

/* ---- out of order ---- */

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
 * Forge FPDUs after unsent octets. With TUF_ALIGN each is a segment, and the first one
 * is missing. With @how half of the first is missing, or the key is wrong.
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
	/* TCP's buffer is full. */
	for (i = first; err && i < w->ahead_nr; i++)
		w->ahead[i].maybe = true;
	/* Octets after the gap may not be tested; then their records wait for order. */
	return 0;
}

const struct op tuf_peer_ops[] = {
	PEER("text", peer_text, 24),
	PEER("fpdu", op_fpdu, 100),
	PEER("many", op_many, 20),
	PEER("half", op_half, 1000),
	PEER("long", op_half, 30000),
	PEER("inner", op_inner, 150),
	PEER("empty", op_fpdu, 0),
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
