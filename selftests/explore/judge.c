// SPDX-License-Identifier: GPL-2.0
/*
 * Rules that hold after any operation:
 * - delivered octets are those of the peer's records, each whole and verified, in order
 *   or, if it came ahead, out of order;
 * - an end of the stream is a real one, and an error reaches the user once;
 * - recv() and send() agree with poll(), and waiting tasks are woken, in edge-triggered
 *   epoll and in blocked calls;
 * - exactly the octets that send() accepted are at the peer, framed;
 * - a good connection continues.
 * mpa_judge.c and tuf_judge.c have further rules for MPA and TUF.
 */

#include WORLD_H

#define EVENTS	(POLLIN | POLLOUT | POLLRDHUP | POLLPRI)

/* ---- errors ---- */

void judge_reported(struct world *w, int err, const char *by)
{
	if (!err || err != w->due)
		return;
	if (w->told++ && !may_repeat(by))
		violated("%s was returned by %s and again by %s", strerror(err),
			 w->teller, by);
	w->teller = by;
}

/* Check that an error is due or has been reported. */
void judge_due(struct world *w)
{
	int tries, n = 1;

	if (!w->due || w->told || w->due_maybe || w->s < 0)
		return;
	if (!(mask_of(w) & POLLERR))
		violated("%s is not reported: no POLLERR", strerror(w->due));
	for (tries = 0; tries < 40 && n > 0 && !w->told; tries++)
		n = take(w, 4096, 0);
	if (!w->told)
		judge_reported(w, so_error(w->s), "SO_ERROR");
	if (!w->told)
		violated("%s reached nobody", strerror(w->due));
}

/* ---- wakeups ---- */

int mask_of(const struct world *w)
{
	return poll_for(w->s, EVENTS, 0);
}

static u32 woken_by(const struct world *w, int ep)
{
	struct epoll_event events[8];
	int i, n = epoll_wait(ep, events, ARRAY_SIZE(events), 0);
	u32 came = 0;

	for (i = 0; i < n; i++)
		if (events[i].data.fd == w->s)
			came |= events[i].events;
	return came;
}

/* Check that a new event of poll() has woken epoll. */
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
		violated("poll() says 0x%x, before 0x%x, and the reader was not woken",
			 mask, w->mask);
	if (woken && new & (out | both) & ~out_came)
		violated("poll() says 0x%x, before 0x%x, and the writer was not woken",
			 mask, w->mask);
	w->mask = mask;
	if (rx_framed(w) && mask & POLLPRI)
		violated("POLLPRI, and records are received");
}

static u32 job_needs(const struct world *w, const struct job *job)
{
	const u32 ends = POLLERR | POLLHUP;

	switch (job->kind) {
	case JOB_RECV:
		return asked(w) ? ends : ends | POLLIN;
	case JOB_SEND:
	case JOB_SENDFILE:
	case JOB_START:
		return ends | POLLOUT;
	default:
		return 0;
	}
}

/* Check that a blocked call sleeps only if the same call would block now. */
void judge_job(struct world *w)
{
	static const char * const names[] = {
		"nothing", "recv()", "send()", "MPA_START", "sendfile()",
	};
	struct job *job = w->job;

	if (!job || job->noted)
		return;
	if (!__atomic_load_n(&job->done, __ATOMIC_ACQUIRE)) {
		if (w->s < 0 || !(mask_of(w) & job_needs(w, job)))
			return;
		refresh(w);
		if (mask_of(w) & job_needs(w, job) && !job_wait(w, 20))
			violated("%s sleeps while poll() says 0x%x",
				 names[job->kind], mask_of(w));
	}
	if (__atomic_load_n(&job->done, __ATOMIC_ACQUIRE)) {
		job->noted = true;
		job_over(w, job);
	}
}

/* ---- records in order ---- */

const char *verdict_name(enum verdict verdict)
{
	static const char * const names[] = {
		[NOTHING] = "nothing",
		[PART] = "no whole one",
		[BAD_PART] = "a part of one that is not valid",
		[WHOLE] = "a good record",
		[BAD] = "one that is not valid",
		[BAD_LENGTH] = "a bad length",
		[BAD_CRC] = "a bad CRC",
		[BAD_MARKER] = "a bad marker",
	};

	return names[verdict];
}

/* Read the next record in order into @w->cur. */
enum verdict next_record(struct world *w)
{
	enum verdict verdict;

	if (w->cur_valid)
		return WHOLE;
	pass_placed(w);
	w->cur_at = w->rx_at - w->rx_begin;
	if (w->rx_at == w->wrote_len)
		return NOTHING;
	verdict = receive(w, w->wrote + w->rx_at, w->wrote_len - w->rx_at);
	w->cur_read = 0;
	w->cur_valid = verdict == WHOLE;
	return verdict;
}

/* Check MPA_RECVINFO of an in-order record. */
void judge_ordered(struct world *w, const struct mpa_recvinfo *info)
{
	if (w->fuzzy || w->stolen || next_record(w) != WHOLE)
		return;
	if (info->position != w->cur_at)
		violated("a record at %llu is said to be at %llu",
			 (unsigned long long)w->cur_at,
			 (unsigned long long)info->position);
	if (info->offset != w->cur_read || info->length != w->cur_len)
		violated("octet %u of %u is said to be %u of %u", w->cur_read,
			 w->cur_len, info->offset, info->length);
	judge_order(w, info);
}

static void record_read(struct world *w)
{
	w->cur_valid = false;
	w->cur_read = 0;
	w->rx_at += w->cur_wire;
	w->framed++;
	w->rx_fpdus++;
}

/* Check delivered octets of records. @buf is NULL if their content is unknown. */
void judge_octets(struct world *w, const u8 *buf, u32 n, bool eor, int how)
{
	enum verdict verdict;
	u32 left;

	if (w->fuzzy)
		return;
	verdict = next_record(w);
	if (w->failed)
		violated("a record was delivered after EBADMSG");
	if (verdict != WHOLE) {
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
	w->rx_octets += n;
	if (w->cur_read == w->cur_len)
		record_read(w);
}

/* Check a recv() that returned 0. */
void judge_zero(struct world *w, enum verdict verdict)
{
	if (w->shut & 1)
		return;
	if (!w->fin)
		violated("recv() says end of stream, but there was none");
	else if (verdict != NOTHING && !w->fuzzy)
		violated("the end was taken for a good one: the stream has %s",
			 verdict_name(verdict));
	else if (ahead_beyond(w) && !w->fuzzy)
		violated("a good end before what was placed");
}

/* ---- records that came ahead ---- */

/* Return: the record after @at octets of @wrote. */
struct ahead *ahead_at(struct world *w, u32 at)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++)
		if (w->ahead[i].at == at)
			return w->ahead + i;
	return NULL;
}

/* Skip records that were delivered out of order, even if their octets have changed. */
void pass_placed(struct world *w)
{
	struct ahead *ahead = ahead_at(w, w->rx_at);

	while (ahead && ahead->taken && ahead->octets <= w->wrote_len - w->rx_at) {
		w->rx_at += ahead->octets;
		w->framed++;
		ahead = ahead_at(w, w->rx_at);
	}
}

/* Whether the stream ends before a delivered record. */
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
	return w->place && (ahead->here || ahead->maybe) && !ahead->taken &&
	       !ahead->waits && ahead->at >= w->wrote_len;
}

/* Whether poll() may have reported a record that exceeds the buffer. */
bool ahead_too_long(const struct world *w, u32 room)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++)
		if (ready(w, w->ahead + i) && w->ahead[i].len > room)
			return true;
	return false;
}

/* Check a record that was delivered out of order, or the part that was peeked. */
void judge_placed(struct world *w, u64 position, const u8 *buf, u32 n, int how)
{
	struct ahead *ahead = ahead_at(w, w->rx_begin + position);

	if (w->fuzzy)
		return;
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

/* recv() returned nothing for @room octets: check that all complete records are longer. */
void judge_nothing_placed(struct world *w, u32 room, bool looked)
{
	u32 i;

	if (w->fuzzy || w->stolen || w->squeezed || w->ended || w->fin ||
	    w->shut || w->failed)
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

/* ---- a good connection continues ---- */

bool alive(const struct world *w)
{
	return w->s >= 0 && w->raw >= 0 && !w->ended && !w->fin && !w->shut &&
	       !w->due && !busy(w, JOB_ANY);
}

/* Read all octets, even those that arrive once there is space. */
void take_all(struct world *w)
{
	int n, quiet = 0, tries;

	for (tries = 0; tries < 300 && quiet < QUIET_MOST(w) && !violation[0];
	     tries++) {
		if (w->rest_left)
			peer_say(w, NULL, 0, 0);
		n = take(w, 4096, 0);
		if (n > 0) {
			quiet = 0;
			continue;
		}
		if (n != -EAGAIN || all_read(w))
			break;
		settle(QUIET_MS << quiet++);
	}
}

/*
 * Octets that are no FPDU are parsed as one: they have a length. Check that the FPDU is
 * found to be bad once all its octets have arrived, and not before.
 */
void fill_up(struct world *w, int tries)
{
	static const u8 zeros[2000];

	while (tries-- && !w->failed && !violation[0]) {
		enum verdict verdict = next_record(w);

		if (verdict != PART && verdict != BAD_PART)
			break;
		peer_say(w, zeros, sizeof(zeros), 0);
		settle(1);
		take(w, 4096, 0);
	}
	settle(1);
	judge_edge(w, true);
	take_all(w);
}

/* Check that octets read by the peer free space, now or soon. */
void room_comes(struct world *w)
{
	int ms;

	for (ms = 1; ms < LATE_MS; ms *= 4) {
		if (mask_of(w) & POLLOUT)
			return;
		settle(ms);
		peer_read(w);
	}
	violated("no POLLOUT, and no space will come");
}

/* Check that all accepted octets arrive, now or when a timer of TCP expires. */
void all_comes(struct world *w)
{
	int ms;

	for (ms = 1; ms < LATE_MS; ms *= 4) {
		settle(ms);
		peer_read(w);
		if (!judge_sent(w, false) || violation[0])
			break;
	}
	judge_sent(w, true);
}
