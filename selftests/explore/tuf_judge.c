// SPDX-License-Identifier: GPL-2.0
/*
 * What must hold of what is received and told: see judge.c, which has the same of MPA.
 * Each errno is one that linux/tuf.h and Documentation/networking/mpa/tuf.rst name.
 */

#include "tuf.h"

/* ---- errors ---- */

void judge_told(struct world *w, int err, const char *by)
{
	if (!err || !w->due || err != w->due)
		return;
	if (w->times_told++)
		violated("%s was told by %s and again by %s", strerror(err),
			 w->teller, by);
	w->teller = by;
}

/* ---- octets ---- */

void judge_plain(struct world *w, const u8 *buf, u32 n, int how)
{
	if (n > w->wrote_len - w->rx_at ||
	    (buf && memcmp(buf, w->wrote + w->rx_at, n)))
		violated("octets of plain TCP differ");
	if (!(how & MSG_PEEK))
		w->rx_at += n;
}

static void record_read(struct world *w)
{
	w->cur_valid = false;
	w->cur_read = 0;
	w->rx_at += w->cur_wire;
	w->rx_fpdus++;
}

/* Octets of the record that comes next in order. @buf is NULL if nobody saw them. */
void judge_octets(struct world *w, const u8 *buf, u32 n, bool eor, int how)
{
	static const char * const names[] = {
		[NOTHING] = "nothing", [PART] = "a part of one",
		[BAD] = "one that is not valid",
		[BAD_PART] = "a part of one that is not valid",
	};
	enum verdict verdict = next_record(w);
	u32 left;

	if (w->fuzzy_rx)
		return;
	if (w->failed)
		violated("a record was delivered behind EBADMSG");
	if (verdict != WHOLE) {
		violated("a record was delivered where the stream has %s",
			 names[verdict]);
		return;
	}
	left = w->cur_len - w->cur_read;
	if (how & MSG_TRUNC && how & MSG_PEEK) {
		if (n != left)
			violated("MSG_PEEK | MSG_TRUNC says %u of %u", n, left);
		return;
	}
	if (n > left)
		violated("octets of two records at once");
	else if (buf && memcmp(buf, w->cur + w->cur_read, n))
		violated("octets delivered are not those that were framed");
	else if (!(how & HOW_NO_EOR) && eor != (n == left))
		violated("MSG_EOR is %d with %u of %u octets", eor, n, left);
	if (how & MSG_PEEK)
		return;
	w->cur_read += n;
	w->rx_octets += n;
	if (w->cur_read == w->cur_len)
		record_read(w);
}

/* A record that came out of order, or what of it was shown. */
void judge_placed(struct world *w, u64 position, const u8 *buf, u32 n, int how)
{
	struct ahead *ahead = ahead_at(w, w->rx_begin + position);

	if (!w->place)
		violated("a record is placed, and MPA_PLACE is off");
	else if (!ahead)
		violated("a record is placed where none is");
	else if (!ahead->here && !ahead->maybe)
		violated("a record is placed that could not be found");
	else if (ahead->taken)
		violated("a record is placed twice");
	else if (buf && memcmp(buf, record_of(ahead->len), n))
		violated("octets placed are not those that were framed");
	else if (!(how & MSG_PEEK) && n != ahead->len)
		violated("%u of %u octets are placed", n, ahead->len);
	if (!ahead || how & MSG_PEEK)
		return;
	ahead->taken = true;
	w->rx_fpdus++;
	w->rx_octets += ahead->len;
}

/* The stream ends in front of what was handed out. */
bool ahead_beyond(const struct world *w)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++)
		if (w->ahead[i].taken && w->ahead[i].at >= w->wrote_len)
			return true;
	return false;
}

static bool ready(const struct world *w, const struct ahead *ahead)
{
	return w->place && !ahead->taken && !ahead->waits &&
	       ahead->at >= w->wrote_len;
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

	if (w->ended || w->fin || w->shut || w->failed)
		return;
	for (i = 0; i < w->ahead_nr; i++) {
		struct ahead *ahead = w->ahead + i;

		if (!ready(w, ahead) || !ahead->here)
			continue;
		if ((ahead->len <= room || looked) && !ahead->maybe)
			violated("a record that is here out of order is not placed");
		ahead->waits = true;
	}
}

/* ---- ends ---- */

static void judge_nothing_plain(struct world *w, ssize_t n, int err)
{
	if (!n && !w->fin && !w->ended && !(w->shut & 1))
		violated("a plain recv() says end of stream, but there was none");
	else if (n < 0 && err == EAGAIN && w->rx_at < w->wrote_len &&
		 all_here(w) && !w->ended && !(w->shut & 1) && !w->fuzzy_rx)
		violated("plain octets that are here are not delivered");
	else if (n < 0 && err != EAGAIN && err != w->due && err != ENOTCONN)
		violated("a plain recv() fails: %s", strerror(err));
}

static void judge_zero(struct world *w, enum verdict verdict)
{
	w->over = true;
	if (!w->fin && !(w->shut & 1))
		violated("recv() says end of stream, but there was none");
	else if (verdict != NOTHING && !(w->shut & 1) && !w->fuzzy_rx)
		violated("the end was taken for a good one, and records are left");
	else if (ahead_beyond(w) && !(w->shut & 1))
		violated("a good end in front of what was placed");
}

static void judge_again(struct world *w, enum verdict verdict)
{
	if (!all_here(w) || w->ended || w->fuzzy_rx)
		return;
	if (w->failed)
		violated("EBADMSG is not for good");
	else if (verdict == WHOLE && !(w->squeezed && w->cur_len > 4000))
		violated("a record that is here is not delivered");
	else if (verdict == BAD)
		violated("an FPDU that is not valid is not told");
	else if (w->fin && !w->rest_left)
		violated("EAGAIN at the end of the stream");
}

static void judge_bad(struct world *w, enum verdict verdict)
{
	bool stops = w->fin || w->ended || w->shut & 1;

	w->failed = true;
	if (w->fuzzy_rx || w->shut == 3)
		return;
	if (verdict == WHOLE)
		violated("a good record is refused");
	else if (verdict == PART && !stops)
		violated("EBADMSG, and the record is still to come");
	else if (verdict == NOTHING && !w->ended && !ahead_beyond(w))
		violated("EBADMSG, and nothing is wrong");
}

/* A receive that gave no octets. */
void judge_end(struct world *w, ssize_t n, int err)
{
	enum verdict verdict;

	if (n < 0)
		judge_told(w, err, "recv");
	if (w->rx_mode == TUF_OFF) {
		judge_nothing_plain(w, n, err);
		return;
	}
	verdict = next_record(w);
	if (!n)
		judge_zero(w, verdict);
	else if (err == EAGAIN)
		judge_again(w, verdict);
	else if (err == EBADMSG)
		judge_bad(w, verdict);
	else if (err == ENOTCONN ? !w->ended : err != w->due)
		violated("recv() fails: %s", strerror(err));
}

/* ---- TUF_INFO ---- */

static void same(const char *name, u64 is, u64 says)
{
	if (is != says)
		violated("%s is %llu, TUF_INFO says %llu", name,
			 (unsigned long long)is, (unsigned long long)says);
}

void judge_info(struct world *w)
{
	const struct span *span = span_now(w);
	struct tuf_info info = {};
	socklen_t len = sizeof(info);

	if (getsockopt(w->s, SOL_MPA, TUF_INFO, &info, &len)) {
		violated("TUF_INFO fails: %s", strerror(errno));
		return;
	}
	same("tx_mode", span->mode, info.tx_mode);
	same("rx_mode", w->rx_mode, info.rx_mode);
	same("tx_period", span->mode == TUF_MARKERS ? span->period : 0,
	     info.tx_period);
	same("rx_period", w->rx_mode == TUF_MARKERS ? w->rx_period : 0,
	     info.rx_period);
	if (!w->fuzzy_tx && !busy(w, JOB_SEND) && !w->open) {
		same("tx_ulpdus", w->ulpdus, info.tx_ulpdus);
		same("tx_octets", w->tx_octets, info.tx_octets);
	}
	if (w->fuzzy_rx || busy(w, JOB_RECV) || w->cur_read)
		return;
	same("rx_fpdus", w->rx_fpdus, info.rx_fpdus);
	same("rx_octets", w->rx_octets, info.rx_octets);
	pass_placed(w);
	if (w->rx_mode)
		same("rx_edge", w->rx_at - w->rx_begin, info.rx_edge);
}
