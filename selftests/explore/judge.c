// SPDX-License-Identifier: GPL-2.0
/*
 * What must hold, whatever was done:
 * - octets delivered are those of the records that the peer has framed, in
 *   order, each record whole and verified;
 * - an end of the stream is one, and an error reaches the user once;
 * - what poll() says, recv() and send() find, and whoever waits learns it:
 *   in epoll, edge-triggered, and in a blocked call;
 * - what send() accepted is at the peer, framed, and nothing else is;
 * - the startup phase has an end, and a good connection goes on.
 */

#include "explore.h"
#include "ops.h"

#define EVENTS	(POLLIN | POLLOUT | POLLRDHUP | POLLPRI)

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

	w->full_known = true;
	w->info_markers = info->flags;
	w->role = info->role;
	if (w->role != MPA_ROLE_DIRECT) {
		len = frame_at(w->wrote + w->begin, w->wrote_len - w->begin,
			       w->role == MPA_ROLE_RESPONDER);
		if (!len && !w->fuzzy)
			violated("Full Operation without a frame");
	}
	/* What goes out has markers where the peer's frame asked for them. */
	if (len) {
		w->info_markers &= ~(u64)MPA_INFO_TX_MARKERS;
		if (w->wrote[w->begin + 16] & 0x80)
			w->info_markers |= MPA_INFO_TX_MARKERS;
	}
	w->full_at = w->begin + len;
	w->rx_at = w->full_at;
}

static void became_plain(struct world *w)
{
	u32 len = frame_at(w->wrote + w->begin, w->wrote_len - w->begin,
			   w->role == MPA_ROLE_RESPONDER);

	w->plain_got = w->begin + len;
}

/* Only where it may have changed: asking might change it. */
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

/* ---- received ---- */

/* What was placed is not there any more, whatever comes in its place. */
static void pass_placed(struct world *w)
{
	struct ahead *ahead = ahead_at(w, w->rx_at - w->full_at);

	while (ahead && ahead->taken &&
	       ahead->octets <= w->wrote_len - w->rx_at) {
		w->rx_at += ahead->octets;
		w->framed++;
		ahead = ahead_at(w, w->rx_at - w->full_at);
	}
}

static enum model_verdict next_record(struct world *w)
{
	struct model_receiver rx = {
		.markers = w->info_markers & MPA_INFO_RX_MARKERS, .crc = true,
	};
	enum model_verdict verdict;
	size_t len;

	if (w->cur_valid)
		return MODEL_GOOD;
	pass_placed(w);
	rx.position = w->rx_at - w->full_at;
	rx.octets = w->wrote + w->rx_at;
	rx.count = w->wrote_len - w->rx_at;
	verdict = model_receive(&rx, w->cur, &len);
	if (verdict != MODEL_GOOD)
		return verdict;
	if (!len)
		return MODEL_BAD_LENGTH;
	w->cur_at = w->rx_at - w->full_at;
	w->rx_at = w->wrote_len - rx.count;
	w->framed++;
	w->cur_valid = true;
	w->cur_len = len;
	w->cur_read = 0;
	return MODEL_GOOD;
}

static const char *verdict_name(enum model_verdict verdict)
{
	static const char * const names[] = {
		[MODEL_GOOD] = "a good record",
		[MODEL_SHORT] = "no whole one",
		[MODEL_BAD_LENGTH] = "a bad length",
		[MODEL_BAD_CRC] = "a bad CRC",
		[MODEL_BAD_MARKER] = "a bad marker",
	};

	return names[verdict];
}

/* What MPA_RECVINFO says of the next one in order. */
void judge_ordered(struct world *w, const struct mpa_recvinfo *info)
{
	if (w->fuzzy || w->stolen || next_record(w) != MODEL_GOOD)
		return;
	if (info->position != w->cur_at)
		violated("a record at %llu is said to be at %llu",
			 (unsigned long long)w->cur_at,
			 (unsigned long long)info->position);
	if (!(info->valid & MPA_RECVINFO_VALID_ORDER) ||
	    info->order != w->framed - 1)
		violated("record %u in order is said to be %lld", w->framed - 1,
			 info->valid & MPA_RECVINFO_VALID_ORDER ?
			 (long long)info->order : -1ll);
	if (info->offset != w->cur_read)
		violated("offset %u is said to be %u", w->cur_read,
			 info->offset);
}

/* Octets of records that were delivered. @buf is NULL if nobody saw them. */
void judge_octets(struct world *w, const u8 *buf, u32 n, bool eor, int how)
{
	enum model_verdict verdict;
	u32 left;

	if (w->fuzzy)
		return;
	verdict = next_record(w);
	if (verdict != MODEL_GOOD) {
		violated("a record was delivered where the stream has %s",
			 verdict_name(verdict));
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
	if (w->cur_read == w->cur_len)
		w->cur_valid = false;
}

/* Octets of a record that came without MPA_RECVINFO. */
void judge_unsaid(struct world *w, const u8 *buf, u32 n)
{
	u64 position;

	if (next_record(w) != MODEL_GOOD && ahead_is(w, buf, n, &position))
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

/* A receive in Full Operation that gave no octets. */
void judge_end(struct world *w, ssize_t n, int err)
{
	enum model_verdict verdict = next_record(w);
	bool boundary = verdict == MODEL_SHORT && w->rx_at == w->wrote_len;

	if (!n) {
		w->over = true;
		if (!w->fin && !(w->shut & 1))
			violated("recv() says end of stream, but there was none");
		else if (!w->fuzzy && !boundary && !(w->shut & 1))
			violated("the end was taken for a good one: the stream has %s",
				 verdict_name(verdict));
		else if (!w->fuzzy && ahead_taken_beyond(w) && !(w->shut & 1))
			violated("a good end in front of what was placed");
		return;
	}
	if (err == EBADMSG) {
		w->rcv_error = true;
		/* TCP takes nothing after a shutdown of both halves, and resets. */
		if (w->fuzzy || w->stolen || w->shut == 3)
			return;
		if (verdict == MODEL_GOOD && !w->ended)
			violated("a good record is refused");
		else if (boundary && w->fin && !w->ended &&
			 !ahead_taken_beyond(w))
			violated("a good end was taken for a bad one");
		else if (boundary && !w->fin && !w->ended)
			violated("EBADMSG, and nothing is wrong");
		return;
	}
	if (err == EAGAIN && verdict == MODEL_GOOD && !w->fuzzy && !w->stolen &&
	    !w->rcv_error && w->cur_len <= 4000 && !w->ended &&
	    !(w->squeezed && w->ahead_nr))
		violated("a record that is here is not delivered");
	if (err == EAGAIN && w->fin && !w->fuzzy && !w->stolen &&
	    w->wrote_len < 4000)
		violated("EAGAIN at the end of the stream");
	judge_told(w, err, "recv");
}

/* ---- told ---- */

void judge_told(struct world *w, int err, const char *by)
{
	if (!w->due || err != w->due)
		return;
	/* recv() may go on saying so: 0 would be an end of the stream. */
	if (w->told++ && strcmp(by, "recv"))
		violated("%s was told by %s and again by %s", strerror(err),
			 w->teller, by);
	w->teller = by;
}

static void judge_due(struct world *w)
{
	int tries, n = 1;

	if (!w->due || w->told || w->s < 0)
		return;
	if (!(poll_for(w->s, EVENTS, 0) & POLLERR))
		violated("%s is not told: no POLLERR", strerror(w->due));
	for (tries = 0; tries < 40 && n > 0 && !w->told; tries++)
		n = take(w, 4096, 0);
	if (!w->told)
		judge_told(w, so_error(w->s), "SO_ERROR");
	if (!w->told)
		violated("%s reached nobody", strerror(w->due));
}

/* ---- woken ---- */

static int mask_of(struct world *w)
{
	return poll_for(w->s, EVENTS, 0);
}

static u32 woken_by(struct world *w, int ep)
{
	struct epoll_event events[8];
	u32 came = 0;
	int i, n;

	n = epoll_wait(ep, events, ARRAY_SIZE(events), 0);
	for (i = 0; i < n; i++)
		if (events[i].data.fd == w->s)
			came |= events[i].events;
	return came;
}

/* What poll() says and did not say before must have woken epoll. */
void judge_edge(struct world *w, bool woken)
{
	const u32 out = POLLOUT, both = POLLERR | POLLHUP;
	u32 mask, new, in_came, out_came;

	if (w->ep < 0 || w->s < 0)
		return;
	mask = mask_of(w);
	new = mask & ~w->mask;
	in_came = woken_by(w, w->ep);
	out_came = woken_by(w, w->ep_out);
	if (woken && new & ~out & ~in_came)
		violated("poll() says 0x%x, before 0x%x, and who reads was not woken",
			 mask, w->mask);
	if (woken && new & (out | both) & ~out_came)
		violated("poll() says 0x%x, before 0x%x, and who writes was not woken",
			 mask, w->mask);
	w->mask = mask;
	if (w->state == MPA_STATE_FULL && mask & POLLPRI)
		violated("POLLPRI in Full Operation");
}

static void job_received(struct world *w, struct job *job)
{
	bool plain = !job->started;

	if (plain) {
		if (w->state <= MPA_STATE_IDLE ||
		    w->state == MPA_STATE_REJECTED)
			judge_plain(w, job->buf, job->ret);
		else if (w->begin >= w->plain_got)
			w->plain_got += job->ret > 0 ? job->ret : 0;
		if (job->ret < 0)
			judge_told(w, job->err, "a blocked recv");
		/* What it has taken MPA must miss. */
		judge_state(w);
		if (job->ret > 0 && w->state > MPA_STATE_IDLE &&
		    w->state != MPA_STATE_REJECTED)
			w->stolen = true;
		return;
	}
	judge_state(w);
	if (w->state != MPA_STATE_FULL) {
		if (job->ret < 0)
			judge_told(w, job->err, "recv");
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
		judge_told(w, job->err, "a blocked send");
		return;
	}
	if (job->ret > STREAM_MAX - w->sent_len || w->flood)
		return;
	memset(w->sent + w->sent_len, octet, job->ret);
	note_sent(w, job->started ? SEG_RECORDS : SEG_PLAIN, job->ret);
	if (job->started)
		w->open = 0;
}

static void job_over(struct world *w, struct job *job)
{
	job->noted = true;
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
			judge_told(w, job->err, "MPA_START");
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

static bool job_may_go_on(const struct world *w, const struct job *job)
{
	u32 in = POLLIN | POLLERR | POLLHUP, out = POLLOUT | POLLERR | POLLHUP;

	switch (job->kind) {
	case JOB_RECV:
		return w->mask & (w->state == MPA_STATE_REQUESTED ?
				  POLLERR | POLLHUP : in);
	case JOB_SEND:
	case JOB_SENDFILE:
		return w->mask & out;
	case JOB_START:
		return w->mask & (POLLOUT | POLLERR | POLLHUP);
	default:
		return false;
	}
}

/* A blocked call must not sleep where it would not have begun to. */
void judge_job(struct world *w)
{
	static const char * const names[] = {
		"nothing", "recv()", "send()", "MPA_START", "sendfile()",
		"accept()", "a call",
	};
	struct job *job = w->job;

	if (!job || job->noted)
		return;
	if (__atomic_load_n(&job->done, __ATOMIC_ACQUIRE)) {
		job_over(w, job);
		return;
	}
	if (w->s < 0 || !job_may_go_on(w, job))
		return;
	if (w->state == MPA_STATE_STARTUP)
		judge_state(w);
	w->mask = mask_of(w);
	if (job_may_go_on(w, job) && !job_wait(w, 20))
		violated("%s sleeps while poll() says 0x%x", names[job->kind],
			 w->mask);
	if (job->done)
		job_over(w, job);
}

/* ---- sent ---- */

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

/* Records of @len octets in all. Return: octets of them that were there. */
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
			violated("an FPDU was sent that has %s",
				 verdict_name(verdict));
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
		violated("a send() of TCP's own goes on behind MPA_START");
}

/* @all: the connection is a good one, so nothing may be missing. */
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

/* All that was accepted comes, at once or when a timer of TCP's is over. */
static void all_comes(struct world *w)
{
	int ms;

	for (ms = 1; ms < 300; ms *= 4) {
		settle(ms);
		peer_read(w);
		if (!judge_sent(w, false) || violation[0])
			break;
	}
	judge_sent(w, true);
}

/* ---- at the end ---- */

static bool in_startup(const struct world *w)
{
	return w->state == MPA_STATE_STARTUP;
}

/* A call is under way. */
bool busy(const struct world *w)
{
	return w->job && !w->job->noted;
}

static bool alive(struct world *w)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	if (w->s < 0 || w->raw < 0 || w->ended || w->fin || w->shut ||
	    w->due || busy(w))
		return false;
	getsockopt(w->s, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_state == 1;
}

/* And what comes when there is room for it. */
static void take_all(struct world *w)
{
	int n, quiet = 0, tries;

	for (tries = 0; tries < 200 && quiet < (w->squeezed ? 9 : 4); tries++) {
		n = take(w, 4096, 0);
		if (!n || (n < 0 && n != -EAGAIN))
			break;
		if (n > 0)
			continue;
		if (!w->cur_valid && (w->rx_at == w->wrote_len ||
				      w->plain_got == w->wrote_len))
			break;
		settle(100 << quiet++);
	}
}

/*
 * Octets that were no FPDU are one all the same: what they say is its length.
 * When so much has come it is found to be bad, and until then nothing is said.
 */
static enum model_verdict fill_up(struct world *w)
{
	static const u8 zeros[2000];
	enum model_verdict verdict;
	int tries;

	for (tries = 0; tries < 400 && !violation[0]; tries++) {
		verdict = next_record(w);
		if (verdict != MODEL_SHORT || w->rx_at == w->wrote_len)
			break;
		if (peer_say(w, zeros, sizeof(zeros), 0))
			settle(1);
		take(w, 4096, 0);
	}
	settle(1);
	judge_edge(w, true);
	take_all(w);
	return next_record(w);
}

/* All that has come is delivered, or refused, and nothing is left of it. */
static void judge_stream(struct world *w)
{
	enum model_verdict verdict = next_record(w);

	if (verdict == MODEL_SHORT && w->rx_at != w->wrote_len &&
	    !w->rcv_error)
		verdict = fill_up(w);
	if (w->rcv_error || violation[0])
		return;
	if (verdict == MODEL_GOOD)
		violated("a record was lost");
	else if (verdict != MODEL_SHORT)
		violated("the stream has %s, and recv() does not say so",
			 verdict_name(verdict));
	else if (w->rx_at != w->wrote_len)
		violated("an FPDU has no end");
}

/* What the peer has read leaves room, at once or a little later. */
static void room_comes(struct world *w)
{
	int ms;

	for (ms = 1; ms < 300; ms *= 4) {
		if (mask_of(w) & POLLOUT)
			return;
		settle(ms);
		peer_read(w);
	}
	violated("no POLLOUT, and nobody will make room");
}

static void full_goes_on(struct world *w)
{
	bool may_send = w->role != MPA_ROLE_RESPONDER;
	int n;

	if (w->stolen) {
		take_all(w);
	} else if (!w->rcv_error && !w->fuzzy) {
		if (say_record(w, 40))
			return;
		settle(1);
		judge_edge(w, true);
		take_all(w);
		judge_stream(w);
		may_send |= !w->rcv_error;
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

static void plain_goes_on(struct world *w)
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

/* Startup that has to be over, if not because of time. */
static void judge_startup(struct world *w)
{
	u32 len = frame_at(w->wrote + w->begin, w->wrote_len - w->begin, true);

	if (in_startup(w) && w->shut == 3)
		violated("a shutdown has not ended startup");
	if (w->state == MPA_STATE_REQUESTED && !w->fuzzy && !w->stolen &&
	    !w->shut && w->role == MPA_ROLE_RESPONDER && len &&
	    w->wrote_len - w->begin > len)
		violated("octets behind a request are not too early");
}

/* The connection goes on if it is good, and ends if it is not. */
void judge_last(struct world *w)
{
	int n = 1, tries;

	/* What is kept for a batch goes out by then. */
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
	if (alive(w)) {
		if (w->state == MPA_STATE_FULL)
			full_goes_on(w);
		else if (w->state <= 0 || w->state == MPA_STATE_REJECTED)
			plain_goes_on(w);
		return;
	}
	if (w->state != MPA_STATE_FULL)
		return;
	for (tries = 0; tries < 60 && n > 0 && !w->rcv_error; tries++)
		n = take(w, 4096, 0);
	settle(50);
	peer_read(w);
	judge_sent(w, false);
}
