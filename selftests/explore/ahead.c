// SPDX-License-Identifier: GPL-2.0
/*
 * Records that come before those in front of them: the peer has yet to send them,
 * and sends them all, but segments made by hand have brought their octets already.
 */

#include "explore.h"
#include "ops.h"
#include "mpa_forge.h"

#define AHEAD		5	/* records at a time */
#define AHEAD_LEN	700	/* each of them has a marker */
#define AHEAD_MISSING	300	/* octets of the first that do not come yet */

/* ---- segments ---- */

/* From the peer, @off octets behind what it has sent. */
static int forge_ahead(struct world *w, u32 off, const u8 *octets, u32 len)
{
	struct forger forger;
	int err = 0;

	if (forger_open(&forger, w->raw, w->s))
		err = -errno;
	/* The peer's own segments say how much it takes. */
	forger.window = 1000;
	if (!err && forge(&forger, off, octets, len, 0, 0))
		err = -errno;
	close(forger.raw);
	return err;
}

/* ---- what comes ahead ---- */

/* Segments that TCP has taken out of order. */
static u32 out_of_order(const struct world *w)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	getsockopt(w->s, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_rcv_ooopack;
}

static u32 ahead_add(struct world *w, u8 *fpdu, bool whole)
{
	struct ahead *ahead = w->ahead + w->ahead_nr++;
	static u8 record[4096];

	ahead->at = w->peer.tx_position;
	ahead->len = AHEAD_LEN + 4 * w->ahead_nr;
	ahead->here = whole;
	record_fill(record, ahead->len);
	ahead->octets = peer_fpdu(&w->peer, record, ahead->len, fpdu);
	return ahead->octets;
}

/*
 * Some records behind what is still to go, without the octets in front. With a
 * @bad one among them nothing behind it is found. The peer's TCP must send what is
 * in front in one go: it has no use for a segment that acknowledges octets which it
 * has not sent yet.
 */
static int op_ahead(struct world *w, long bad)
{
	u32 i, first = w->ahead_nr, n = 0, before, from, to;
	u8 *fpdus;
	int err;

	judge_state(w);
	if (w->s < 0 || w->state != MPA_STATE_FULL || w->fin || w->shut ||
	    w->ended || w->fuzzy || w->squeezed || first + AHEAD > AHEAD_MAX)
		return -EINVAL;
	if (!w->half_left)
		w->half_at = 0;
	from = w->half_left;
	fpdus = w->half + w->half_at + from;
	if (w->half_at + from + 8192 > sizeof(w->half))
		return -ENOBUFS;
	for (i = 0; i < AHEAD; i++) {
		to = n + ahead_add(w, fpdus + n, i);
		if (bad && i == bad)
			fpdus[to - 1] ^= 1;
		if (bad && i >= bad)
			w->ahead[first + i].here = false;
		n = to;
	}
	w->half_left += n;
	before = out_of_order(w);
	err = forge_ahead(w, from + AHEAD_MISSING, fpdus + AHEAD_MISSING,
			  n - AHEAD_MISSING);
	/* TCP has no room for it, or the connection is over. */
	if (err || out_of_order(w) == before)
		for (i = first; i < w->ahead_nr; i++)
			w->ahead[i].here = false;
	return err;
}

const struct op ahead_ops[] = {
	{ "peer.ahead", ACTOR_PEER, 0, op_ahead, 0 },
	{ "peer.ahead.bad", ACTOR_PEER, 0, op_ahead, 2 },
};

const int ahead_ops_nr = ARRAY_SIZE(ahead_ops);

/* ---- what comes of it ---- */

struct ahead *ahead_at(struct world *w, u64 position)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++)
		if (w->ahead[i].at == position)
			return w->ahead + i;
	return NULL;
}

/* The stream ends in front of what was handed out. */
bool ahead_taken_beyond(const struct world *w)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++)
		if (w->ahead[i].taken &&
		    w->ahead[i].at >= w->wrote_len - w->full_at)
			return true;
	return false;
}

/* A record that came out of order, or what of it was shown. */
void judge_placed(struct world *w, u64 position, const u8 *buf, u32 n, int how)
{
	struct ahead *ahead = ahead_at(w, position);

	if (w->fuzzy)
		return;
	if (!w->place)
		violated("a record is placed, and MPA_PLACE is off");
	else if (!ahead)
		violated("a record is placed where none is");
	else if (!ahead->here)
		violated("a record is placed that has not come, or is not good");
	else if (ahead->taken)
		violated("a record is placed twice");
	else if (buf && memcmp(buf, record_of(ahead->len), n))
		violated("octets placed are not those that were framed");
	else if (!(how & MSG_PEEK) && n != ahead->len)
		violated("%u of %u octets are placed", n, ahead->len);
	if (ahead && !(how & MSG_PEEK))
		ahead->taken = true;
}

/* One that came without saying where from: each has a length of its own. */
bool ahead_is(struct world *w, const u8 *buf, u32 n, u64 *position)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++) {
		struct ahead *ahead = w->ahead + i;

		if (ahead->len != n || ahead->at < w->rx_at - w->full_at ||
		    memcmp(buf, record_of(n), n))
			continue;
		*position = ahead->at;
		return true;
	}
	return false;
}

static bool ready(const struct world *w, const struct ahead *ahead)
{
	return w->place && ahead->here && !ahead->taken && !ahead->waits &&
	       ahead->at >= w->wrote_len - w->full_at;
}

/* poll() has told of a record that the buffer has no room for. */
bool ahead_too_long(const struct world *w, u32 room)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++)
		if (ready(w, w->ahead + i) && w->ahead[i].len > room)
			return true;
	return false;
}

/* recv() had nothing for so many octets: what is here is too long for it. */
void judge_nothing_placed(struct world *w, u32 room, bool looked)
{
	u32 i;

	if (w->fuzzy || w->stolen || w->squeezed || w->ended ||
	    w->fin || w->shut || w->rcv_error)
		return;
	for (i = 0; i < w->ahead_nr; i++) {
		struct ahead *ahead = w->ahead + i;

		if (!ready(w, ahead))
			continue;
		if (ahead->len <= room || looked)
			violated("a record that is here out of order is not placed");
		ahead->waits = true;
	}
}
