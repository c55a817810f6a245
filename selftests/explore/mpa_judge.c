// SPDX-License-Identifier: GPL-2.0
/*
 * Rules for MPA in addition to judge.c: startup ends, and records begin where the
 * peer's startup frame ends.
 */

#include "mpa.h"

/* ---- the state ---- */

static u32 frame_at(const u8 *octets, u32 count, bool request)
{
	struct model_frame frame;

	if (model_startup(octets, count, request, &frame) !=
	    MODEL_STARTUP_GOOD)
		return 0;
	return FRAME_LEN + frame.pd_length;
}

static void became_full(struct world *w, const struct mpa_info *info)
{
	u32 len = 0;

	w->info_markers = info->flags;
	w->role = info->role;
	if (w->role != MPA_ROLE_DIRECT) {
		len = frame_at(w->wrote + w->begin, w->wrote_len - w->begin,
			       w->role == MPA_ROLE_RESPONDER);
		if (!len && !w->fuzzy)
			violated("Full Operation without a frame");
	}
	/* Sent data has markers if the peer's frame requested them. */
	if (len) {
		w->info_markers &= ~(u64)MPA_INFO_TX_MARKERS;
		if (w->wrote[w->begin + 16] & 0x80)
			w->info_markers |= MPA_INFO_TX_MARKERS;
	}
	w->rx_begin = w->begin + len;
	w->rx_at = w->rx_begin;
}

static void became_plain(struct world *w)
{
	u32 len = frame_at(w->wrote + w->begin, w->wrote_len - w->begin,
			   w->role == MPA_ROLE_RESPONDER);

	w->plain_got = w->begin + len;
}

/* Read the state only if it may have changed, as the read itself might change it. */
void judge_state(struct world *w)
{
	struct mpa_info info = {};
	socklen_t len = sizeof(info);
	int before = w->state;

	if (w->s < 0 || before == MPA_STATE_FULL ||
	    before == MPA_STATE_FAILED)
		return;
	if (getsockopt(w->s, SOL_MPA, MPA_INFO, &info, &len)) {
		w->state = -1;
		return;
	}
	w->attached = true;
	w->state = info.state;
	if (before == w->state)
		return;
	if (w->state == MPA_STATE_FULL)
		became_full(w, &info);
	else if (w->state == MPA_STATE_REJECTED)
		became_plain(w);
}

/* ---- receiving ---- */

enum verdict receive(struct world *w, const u8 *octets, u32 count)
{
	static const enum verdict verdicts[] = {
		[MODEL_GOOD] = WHOLE,
		[MODEL_SHORT] = PART,
		[MODEL_BAD_LENGTH] = BAD_LENGTH,
		[MODEL_BAD_CRC] = BAD_CRC,
		[MODEL_BAD_MARKER] = BAD_MARKER,
	};
	struct model_receiver rx = {
		.markers = w->info_markers & MPA_INFO_RX_MARKERS, .crc = true,
		.position = w->cur_at, .octets = octets, .count = count,
	};
	enum verdict verdict;
	size_t len;

	verdict = verdicts[model_receive(&rx, w->cur, &len)];
	w->cur_len = len;
	w->cur_wire = count - rx.count;
	return verdict == WHOLE && !len ? BAD_LENGTH : verdict;
}

/* Check octets of a record that was received without MPA_RECVINFO. */
void judge_unsaid(struct world *w, const u8 *buf, u32 n)
{
	u64 position;

	if (next_record(w) != WHOLE && ahead_is(w, buf, n, &position))
		judge_placed(w, position, buf, n, 0);
	else
		judge_octets(w, buf, n, false, HOW_NO_EOR);
}

void judge_plain(struct world *w, const u8 *buf, ssize_t n)
{
	if (n <= 0)
		return;
	if (!w->fuzzy && (n > w->wrote_len - w->plain_got ||
			  memcmp(buf, w->wrote + w->plain_got, n)))
		violated("octets of plain TCP differ");
	w->plain_got += n;
}

/* Check a receive without records. */
void judge_unframed(struct world *w, const u8 *buf, ssize_t n, int err, int how)
{
	if (n < 0)
		judge_reported(w, err, "recv");
	else if (n && started(w))
		violated("octets were delivered in state %d", w->state);
	else if (!(how & (MSG_PEEK | MSG_OOB | MSG_TRUNC)))
		judge_plain(w, buf, n);
	else if (how & MSG_TRUNC && !(how & MSG_PEEK))
		w->plain_got += n;
}

static void judge_bad(struct world *w, enum verdict verdict)
{
	w->failed = true;
	/* After a shutdown of both halves TCP accepts nothing, and sends a RST. */
	if (w->fuzzy || w->stolen || w->shut == 3 || w->ended)
		return;
	if (verdict == WHOLE)
		violated("a good record is refused");
	else if (verdict == NOTHING && w->fin && !ahead_beyond(w))
		violated("a good end was taken for a bad one");
	else if (verdict == NOTHING && !w->fin)
		violated("EBADMSG, and nothing is wrong");
}

static void judge_again(struct world *w, enum verdict verdict)
{
	if (w->fuzzy || w->stolen)
		return;
	if (verdict == WHOLE && !w->failed && w->cur_len <= 4000 && !w->ended &&
	    !(w->squeezed && w->ahead_nr))
		violated("a record that is here is not delivered");
	if (w->fin && w->wrote_len < 4000)
		violated("EAGAIN at the end of the stream");
}

/* Check a receive in Full Operation that returned no octets. */
void judge_end(struct world *w, ssize_t n, int err)
{
	enum verdict verdict = next_record(w);

	if (!n) {
		judge_zero(w, verdict);
	} else if (err == EBADMSG) {
		judge_bad(w, verdict);
	} else {
		if (err == EAGAIN)
			judge_again(w, verdict);
		judge_reported(w, err, "recv");
	}
}

/* ---- calls in a thread ---- */

static void job_received(struct world *w, struct job *job)
{
	bool plain = !job->framed;

	if (plain) {
		if (w->state <= MPA_STATE_IDLE ||
		    w->state == MPA_STATE_REJECTED)
			judge_plain(w, job->buf, job->ret);
		else if (w->begin >= w->plain_got)
			w->plain_got += job->ret > 0 ? job->ret : 0;
		if (job->ret < 0)
			judge_reported(w, job->err, "a blocked recv");
		/* MPA must detect the missing octets. */
		judge_state(w);
		if (job->ret > 0 && w->state > MPA_STATE_IDLE &&
		    w->state != MPA_STATE_REJECTED)
			w->stolen = true;
		return;
	}
	judge_state(w);
	if (w->state != MPA_STATE_FULL) {
		if (job->ret < 0)
			judge_reported(w, job->err, "recv");
		else if (job->ret > 0)
			judge_plain(w, job->buf, job->ret);
		return;
	}
	if (job->ret > 0)
		judge_unsaid(w, job->buf, job->ret);
	else
		judge_end(w, job->ret, job->err);
}

static void job_sent(struct world *w, struct job *job, u8 octet)
{
	if (job->ret < 0) {
		judge_reported(w, job->err, "a blocked send");
		return;
	}
	if (job->ret > STREAM_MAX - w->sent_len || w->flood)
		return;
	memset(w->sent + w->sent_len, octet, job->ret);
	note_sent(w, job->framed ? SEG_RECORDS : SEG_PLAIN, job->ret);
	if (job->framed)
		w->open = 0;
}

void job_over(struct world *w, struct job *job)
{
	switch (job->kind) {
	case JOB_RECV:
		job_received(w, job);
		break;
	case JOB_SEND:
		job_sent(w, job, FLOOD);
		break;
	case JOB_SENDFILE:
		job_sent(w, job, 0xe5);
		break;
	case JOB_START:
		if (job->ret < 0)
			judge_reported(w, job->err, "MPA_START");
		break;
	case JOB_ACCEPT:
		if (job->ret >= 0 && w->s < 0) {
			w->s = job->ret;
			job->ret = -1;
			judge_state(w);
			watch(w);
		}
		break;
	default:
		break;
	}
}

/* ---- sending ---- */

void note_sent(struct world *w, enum seg_kind kind, u32 len)
{
	struct seg *last = w->segs + w->nsegs - 1;

	if (kind != SEG_FRAME && w->nsegs && last->kind == kind) {
		last->len += len;
	} else if (w->nsegs < SEGS_MAX) {
		last[1].kind = kind;
		last[1].len = len;
		w->nsegs++;
	}
	w->sent_len += len;
}

/* Check records of @len octets in total. Return: the number of octets found. */
static u32 judge_records(struct model_receiver *rx,
			 const u8 *sent, u32 len)
{
	enum model_verdict verdict;
	static u8 ulpdu[70000];
	u32 done = 0;
	size_t n;

	while (rx->count) {
		verdict = model_receive(rx, ulpdu, &n);
		if (verdict == MODEL_SHORT)
			break;
		if (verdict != MODEL_GOOD) {
			violated("an FPDU was sent that is not valid: %d",
				 verdict);
			break;
		}
		if (n > len - done || memcmp(ulpdu, sent + done, n)) {
			violated("a record was sent that nobody gave");
			break;
		}
		done += n;
	}
	return done;
}

static void judge_flood(struct world *w, struct model_receiver *rx)
{
	u32 n = 0;

	while (rx->count && *rx->octets == FLOOD) {
		rx->octets++;
		rx->count--;
		n++;
	}
	if (w->flood_most && n > w->flood_most - 1)
		violated("a send() of plain TCP continues after MPA_START");
}

/* Check sent octets. @all: the connection is good, so none may be missing. */
u32 judge_sent(struct world *w, bool all)
{
	struct model_receiver rx = {
		.markers = w->info_markers & MPA_INFO_TX_MARKERS,
		.crc = true, .octets = w->got, .count = w->got_len,
	};
	const u8 *sent = w->sent;
	u32 i, n, missing = 0;

	for (i = 0; i < w->nsegs && !violation[0]; i++) {
		struct seg *seg = w->segs + i;

		switch (seg->kind) {
		case SEG_FLOOD:
			judge_flood(w, &rx);
			continue;
		case SEG_PLAIN:
			n = rx.count < seg->len ? rx.count : seg->len;
			if (memcmp(rx.octets, sent, n))
				violated("plain octets sent differ");
			break;
		case SEG_FRAME:
			n = rx.count < FRAME_LEN ? rx.count : FRAME_LEN;
			if (memcmp(rx.octets, "MPA ID Re", n < 9 ? n : 9))
				violated("octets sent are no startup frame");
			rx.position = 0;
			rx.octets += n;
			rx.count -= n;
			continue;
		default:
			n = judge_records(&rx, sent, seg->len);
			missing += seg->len - n;
			sent += seg->len;
			continue;
		}
		rx.octets += n;
		rx.count -= n;
		missing += seg->len - n;
		sent += seg->len;
	}
	if (all && missing > w->open)
		violated("%u octets that were accepted have not come",
			 missing - w->open);
	if (all && rx.count)
		violated("%zu octets came that nobody gave", rx.count);
	return missing > w->open ? missing - w->open : 0;
}

/* ---- at the end ---- */

static bool in_startup(const struct world *w)
{
	return w->state == MPA_STATE_STARTUP;
}

static bool established(struct world *w)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	getsockopt(w->s, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_state == 1;
}

/* Check that all received octets are delivered or refused, and none is left. */
static void judge_stream(struct world *w)
{
	enum verdict verdict;

	fill_up(w, 400);
	verdict = next_record(w);
	if (w->failed || violation[0])
		return;
	if (verdict == WHOLE)
		violated("a record was lost");
	else if (verdict == PART)
		violated("an FPDU has no end");
	else if (verdict != NOTHING)
		violated("the stream has %s, and recv() does not say so",
			 verdict_name(verdict));
}

static void full_continues(struct world *w)
{
	bool may_send = w->role != MPA_ROLE_RESPONDER;
	int n;

	if (w->stolen) {
		take_all(w);
	} else if (!w->failed && !w->fuzzy) {
		if (peer_record(w, 40))
			return;
		settle(1);
		judge_edge(w, true);
		take_all(w);
		judge_stream(w);
		may_send |= !w->failed;
	}
	if (violation[0] || !may_send)
		return;
	room_comes(w);
	n = give(w, 16, 0);
	if (n < 0)
		violated("send() fails on a good connection: %s",
			 strerror(-n));
	all_comes(w);
}

static void plain_continues(struct world *w)
{
	int n;

	if (w->fuzzy)
		return;
	peer_say(w, (const u8 *)"text", 4, 0);
	settle(1);
	judge_edge(w, true);
	take_all(w);
	if (w->plain_got != w->wrote_len)
		violated("plain octets were lost");
	n = give(w, 16, 0);
	if (n < 0)
		violated("send() fails on a good plain connection: %s",
			 strerror(-n));
	all_comes(w);
}

/* Check that startup is over, but not because of its timeout. */
static void judge_startup(struct world *w)
{
	u32 len = frame_at(w->wrote + w->begin, w->wrote_len - w->begin, true);

	if (in_startup(w) && w->shut == 3)
		violated("a shutdown has not ended startup");
	if (w->state == MPA_STATE_REQUESTED && !w->fuzzy && !w->stolen &&
	    !w->shut && w->role == MPA_ROLE_RESPONDER && len &&
	    w->wrote_len - w->begin > len)
		violated("early octets after a request were accepted");
}

/* Check that a good connection continues, and a bad one ends. */
void judge_last(struct world *w)
{
	int n = 1, tries;

	/* By then a queued batch was sent. */
	settle(w->kept ? 60 : 1);
	judge_job(w);
	if (w->s < 0) {
		peer_read(w);
		return;
	}
	judge_edge(w, true);
	judge_state(w);
	judge_startup(w);
	if (in_startup(w)) {
		settle(STARTUP_MS + 100);
		judge_edge(w, true);
		judge_job(w);
		judge_state(w);
		if (in_startup(w))
			violated("the startup phase has no end");
	}
	peer_read(w);
	judge_due(w);
	if (violation[0])
		return;
	if (alive(w) && established(w)) {
		if (w->state == MPA_STATE_FULL)
			full_continues(w);
		else if (w->state <= 0 || w->state == MPA_STATE_REJECTED)
			plain_continues(w);
		return;
	}
	if (w->state != MPA_STATE_FULL)
		return;
	for (tries = 0; tries < 60 && n > 0 && !w->failed; tries++)
		n = take(w, 4096, 0);
	settle(50);
	peer_read(w);
	judge_sent(w, false);
}
