// SPDX-License-Identifier: GPL-2.0
/*
 * Records that arrive before earlier ones, in forged segments. The peer's TCP sends the
 * same octets later.
 */

#include "mpa.h"

static u32 ahead_add(struct world *w, u8 *fpdu, bool whole)
{
	struct ahead *ahead = w->ahead + w->ahead_nr++;

	memset(ahead, 0, sizeof(*ahead));
	ahead->at = w->rx_begin + w->peer.tx_position;
	ahead->len = AHEAD_LEN + 4 * w->ahead_nr;
	ahead->here = whole;
	ahead->octets = fpdu_make(w, 0, record_of(ahead->len), ahead->len, fpdu);
	return ahead->octets;
}

/*
 * Forge segments with some records, after unsent octets. If record @bad has a wrong
 * CRC, nothing after it is found. The peer's TCP must soon send the missing octets: it
 * ignores segments that acknowledge octets that it has not sent.
 */
static int op_ahead(struct world *w, long bad)
{
	u32 i, first = w->ahead_nr, n = 0, from = w->rest_left, to;
	u8 *fpdus = rest_room(w, 8192);
	int err;

	judge_state(w);
	if (w->s < 0 || w->state != MPA_STATE_FULL || w->fin || w->shut ||
	    w->ended || w->fuzzy || w->squeezed || first + AHEAD > AHEAD_MAX)
		return -EINVAL;
	if (!fpdus)
		return -ENOBUFS;
	for (i = 0; i < AHEAD; i++) {
		to = n + ahead_add(w, fpdus + n, i);
		if (bad && i == bad)
			fpdus[to - 1] ^= 1;
		if (bad && i >= bad)
			w->ahead[first + i].here = false;
		n = to;
	}
	w->rest_left += n;
	err = forge_ahead(w, from + AHEAD_MISSING, fpdus + AHEAD_MISSING,
			  n - AHEAD_MISSING);
	/* TCP's buffer is full, or the connection has ended. */
	for (i = first; err && i < w->ahead_nr; i++)
		w->ahead[i].here = false;
	return err;
}

const struct op ahead_ops[] = {
	{ "peer.ahead", ACTOR_PEER, 0, op_ahead, 0 },
	{ "peer.ahead.bad", ACTOR_PEER, 0, op_ahead, 2 },
};

const int ahead_ops_nr = ARRAY_SIZE(ahead_ops);

/* ---- results ---- */

/* Find a record that was received without a position, by its unique length. */
bool ahead_is(struct world *w, const u8 *buf, u32 n, u64 *position)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++) {
		struct ahead *ahead = w->ahead + i;

		if (ahead->len != n || ahead->at < w->rx_at ||
		    memcmp(buf, record_of(n), n))
			continue;
		*position = ahead->at - w->rx_begin;
		return true;
	}
	return false;
}
