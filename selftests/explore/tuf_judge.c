// SPDX-License-Identifier: GPL-2.0
/*
 * Rules for TUF in addition to judge.c. Each errno must be one that linux/tuf.h and
 * Documentation/networking/mpa/tuf.rst name.
 */

#include "tuf.h"

void judge_plain(struct world *w, const u8 *buf, u32 n, int how)
{
	if (n > w->wrote_len - w->rx_at ||
	    (buf && memcmp(buf, w->wrote + w->rx_at, n)))
		violated("octets of plain TCP differ");
	if (!(how & MSG_PEEK))
		w->rx_at += n;
}

/* ---- end of stream ---- */

static void judge_nothing_plain(struct world *w, ssize_t n, int err)
{
	if (!n && !w->fin && !w->ended && !(w->shut & 1))
		violated("a plain recv() says end of stream, but there was none");
	else if (n < 0 && err == EAGAIN && w->rx_at < w->wrote_len &&
		 all_here(w) && !w->ended && !(w->shut & 1))
		violated("plain octets that are here are not delivered");
	else if (n < 0 && err != EAGAIN && err != w->due && err != ENOTCONN)
		violated("a plain recv() fails: %s", strerror(err));
}

static void judge_again(struct world *w, enum verdict verdict)
{
	if (!all_here(w) || w->ended)
		return;
	if (w->failed)
		violated("EBADMSG is not for good");
	else if (verdict == WHOLE && !(w->squeezed && w->cur_len > 4000))
		violated("a record that is here is not delivered");
	else if (verdict == BAD)
		violated("an invalid FPDU is not reported");
	else if (w->fin && !w->rest_left)
		violated("EAGAIN at the end of the stream");
}

static void judge_bad(struct world *w, enum verdict verdict)
{
	bool stops = w->fin || w->ended || w->shut & 1;

	w->failed = true;
	if (w->shut == 3)
		return;
	if (verdict == WHOLE)
		violated("a good record is refused");
	else if (verdict == PART && !stops)
		violated("EBADMSG, and the record is still to come");
	else if (verdict == NOTHING && !w->ended && !ahead_beyond(w))
		violated("EBADMSG, and nothing is wrong");
}

/* With MSG_TRUNC TCP returns the number of dropped octets. */
void judge_unframed(struct world *w, const u8 *buf, ssize_t n, int err, int how)
{
	if (n > 0)
		judge_plain(w, how & MSG_TRUNC ? NULL : buf, n, how);
	else
		judge_end(w, n, err);
}

/* Check a receive that returned no octets. */
void judge_end(struct world *w, ssize_t n, int err)
{
	enum verdict verdict;

	if (n < 0)
		judge_reported(w, err, "recv");
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
	if (!busy(w, JOB_SEND) && !w->open) {
		same("tx_ulpdus", w->ulpdus, info.tx_ulpdus);
		same("tx_octets", w->tx_octets, info.tx_octets);
	}
	if (busy(w, JOB_RECV) || w->cur_read)
		return;
	same("rx_fpdus", w->rx_fpdus, info.rx_fpdus);
	same("rx_octets", w->rx_octets, info.rx_octets);
	pass_placed(w);
	if (w->rx_mode)
		same("rx_edge", w->rx_at - w->rx_begin, info.rx_edge);
}
