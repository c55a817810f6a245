/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The time that octets need from a system call to the other end, with MPA, and with
 * plain TCP and the same calls. TCP sends the number of octets that MPA sends in FPDUs.
 */
#ifndef _MPA_LATE_H
#define _MPA_LATE_H

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "mpa_harness.h"
#include "mpa_wires.h"
#include "mpa_stream.h"

#define PATIENCE	1000	/* milliseconds */

static bool virtual_time;

/* Milliseconds that MPA may need more than TCP, in an emulated guest. */
static int allowance = 20;
/* Milliseconds until MPA sends the last record of a batch without an end. */
static int soon = 10;

/*
 * The debug kernel has virtual time: a busy machine causes no delays, but timers expire
 * only every 10 ms.
 */
static void __attribute__((constructor(302))) allowance_set(void)
{
	FILE *file = fopen("/proc/cmdline", "r");
	char line[4096];

	while (file && fgets(line, sizeof(line), file)) {
		if (!strstr(line, "time-travel"))
			continue;
		virtual_time = true;
		allowance = 5;
		soon = 20;
	}
	if (file)
		fclose(file);
}

/* ---- what is sent ---- */

enum how {
	NOTHING,
	SEND,		/* send(2) */
	MESSAGE,	/* one message of a sendmmsg(2); adjacent ones share a call */
	SENDFILE,
	SPLICE,		/* from a pipe, 64 KiB or less */
	CORK,		/* set TCP_CORK to @len */
	ASK,		/* SIOCOUTQ */
};

/**
 * struct step - some calls of one kind
 * @how:	the call
 * @len:	octets in each
 * @flags:	of send(2)
 * @n:		their number, 0: one
 */
struct step {
	enum how how;
	int len;
	int flags;
	int n;
};

#define S(len)		{ SEND, len }
#define SN(len, n)	{ SEND, len, 0, n }
#define MORE(len)	{ SEND, len, MSG_MORE }
#define EOR(len)	{ SEND, len, MSG_MORE | MSG_EOR }
#define EORN(len, n)	{ SEND, len, MSG_MORE | MSG_EOR, n }
#define NOWAIT(len)	{ SEND, len, MSG_DONTWAIT }
#define MSG(len)	{ MESSAGE, len }
#define F(len)		{ SENDFILE, len }
#define FEND(len)	{ SENDFILE, len, MSG_MORE }
#define P(len)		{ SPLICE, len }
#define PMORE(len)	{ SPLICE, len, MSG_MORE }

enum against {
	SAME,		/* TCP with the same calls */
	BARE,		/* TCP without MSG_MORE, which sends at once */
	BARE_SOON,	/* as BARE, but MPA may wait a moment for more */
};

#define STEPS		6

/**
 * struct row - calls, and the comparison
 * @step:	the calls
 * @against:	TCP's calls to compare with
 * @cut:	MPA_SEGMENT; 0: off; or CUT_FILL
 * @due:	octets that have to arrive; 0: all
 * @warm:	records sent before, each on an idle connection
 * @warm_len:	octets in each of them
 * @sndbuf:	SO_SNDBUF, if not 0
 */
struct row {
	struct step step[STEPS];
	enum against against;
	int cut;
	int due;
	int warm;
	int warm_len;
	int sndbuf;
};

#define CUT_FILL	-1

/* Whether MPA refuses this record, as too long, and all later ones. */
static bool refused(const struct step *step)
{
	return step->how == MESSAGE && step->len > MPA_ULPDU_MAX;
}

static bool is_left_open(const struct row *row, const struct step *step)
{
	return !row->cut && (step->flags & (MSG_MORE | MSG_EOR)) == MSG_MORE;
}

static bool is_octets(const struct step *step)
{
	return step->how >= SEND && step->how <= SPLICE && !refused(step);
}

/* Return: the number of octets of a row that have to arrive. */
static size_t row_due(const struct row *row)
{
	const struct step *s;
	size_t due = 0;

	for (s = row->step; s < row->step + STEPS && s->how; s++)
		if (is_octets(s))
			due += (size_t)s->len * (s->n ?: 1);
	return row->due ?: due;
}

/*
 * Return: octets that TCP sends for a call, the number that MPA sends in FPDUs. @open:
 * octets already sent of the open record.
 */
static size_t tcp_len(const struct row *row, const struct step *step,
		      size_t *open)
{
	size_t len = step->len, cut = row->cut;

	if (row->cut == CUT_FILL || step->how == SENDFILE ||
	    step->how == SPLICE)
		cut = MULPDU;
	if (cut && row->due && row->against != SAME)
		len = row->due;	/* The rest stays open. */
	if (cut)
		return framed(len, cut);
	if (is_left_open(row, step)) {
		*open += len;
		return len;
	}
	len = fpdu_of(*open + len) - *open;
	*open = 0;
	return len;
}

static size_t row_due_tcp(const struct row *row)
{
	size_t due = 0, open = 0;
	const struct step *s;

	for (s = row->step; s < row->step + STEPS && s->how; s++)
		if (is_octets(s))
			due += tcp_len(row, s, &open) * (s->n ?: 1);
	return due;
}

/* ---- sending it ---- */

static int row_file = -1;

static void __attribute__((constructor(301))) row_file_make(void)
{
	row_file = memfd_create("octets", 0);
	if (write(row_file, stream_row, sizeof(stream_row)) !=
	    sizeof(stream_row))
		abort();
}

static bool send_all(int fd, size_t len, int flags)
{
	ssize_t n = send(fd, stream_row, len, flags | MSG_NOSIGNAL);

	/* A nonblocking send may accept a part with TCP, but all or nothing with MPA. */
	return n == len;
}

/* With MSG_MORE, send the file's last octets, but request more than it has. */
static bool send_file(int fd, size_t len, int flags)
{
	size_t more = flags & MSG_MORE ? 4096 : 0;
	loff_t end = more ? lseek(row_file, 0, SEEK_END) : len, at = end - len;

	while (at < end)
		if (sendfile(fd, row_file, &at, end - at + more) <= 0)
			return false;
	return true;
}

static bool send_pipe(int fd, size_t len, int flags)
{
	int ends[2], more = flags & MSG_MORE ? SPLICE_F_MORE : 0;
	bool good;

	if (pipe(ends))
		return false;
	good = write(ends[1], stream_row, len) == len &&
	       splice(ends[0], NULL, fd, NULL, len, more) == len;
	close(ends[0]);
	close(ends[1]);
	return good;
}

/* Send messages up to a refused one, or to the end. Return: the next step. */
static const struct step *send_messages(struct conn *c, const struct row *row,
					const struct step *s)
{
	struct mmsghdr msgs[STEPS] = {};
	struct iovec iov[STEPS];
	int n = 0, taken = 0;
	size_t open = 0;

	for (; n < STEPS && s[n].how == MESSAGE; n++) {
		if (!refused(&s[n]))
			taken++;
		else if (!c->mpa)
			break;
		iov[n].iov_base = stream_row;
		iov[n].iov_len = c->mpa ? s[n].len : tcp_len(row, &s[n], &open);
		msgs[n].msg_hdr.msg_iov = &iov[n];
		msgs[n].msg_hdr.msg_iovlen = 1;
	}
	if (sendmmsg(c->fd[0], msgs, n, MSG_NOSIGNAL) != taken)
		return NULL;
	while (s->how == MESSAGE)
		s++;
	return s;
}

static bool send_step(struct conn *c, const struct row *row,
		      const struct step *s, size_t *open)
{
	size_t len = c->mpa ? s->len : tcp_len(row, s, open);
	int flags = s->flags, octets;

	if (!c->mpa && row->against != SAME)
		flags &= ~MSG_MORE;
	switch (s->how) {
	case SEND:
		return send_all(c->fd[0], len, flags);
	case SENDFILE:
		return send_file(c->fd[0], len, flags);
	case SPLICE:
		return send_pipe(c->fd[0], len, flags);
	case CORK:
		option_put(c->fd[0], SOL_TCP, TCP_CORK, s->len);
		return true;
	case ASK:
		return !ioctl(c->fd[0], SIOCOUTQ, &octets);
	default:
		return false;
	}
}

static bool row_send(struct conn *c, const struct row *row)
{
	const struct step *s = row->step;
	size_t open = 0;
	int i;

	while (s && s < row->step + STEPS && s->how) {
		if (s->how == MESSAGE) {
			s = send_messages(c, row, s);
			continue;
		}
		for (i = 0; i < (s->n ?: 1); i++)
			if (!send_step(c, row, s, &open))
				return false;
		s++;
	}
	return s;
}

/*
 * Send records of one length, each on an idle connection. Send only two on the far
 * path, which takes long.
 */
static bool row_warm(struct conn *c, const struct row *row, bool far)
{
	size_t len = c->mpa ? row->warm_len : fpdu_of(row->warm_len);
	int i;

	conn_expect(c, len * row->warm);
	for (i = 0; i < row->warm; i++) {
		bool wait = !far || i >= row->warm - 3;

		option_put(c->fd[1], SOL_TCP, TCP_QUICKACK, 1);
		if (!send_all(c->fd[0], len, 0) || (wait && !acked(c->fd[0])))
			return false;
	}
	if (row->warm && !conn_came(c, PATIENCE))
		return false;
	option_put(c->fd[1], SOL_TCP, TCP_QUICKACK, 0);
	return true;
}

/* ---- measuring ---- */

#define ROUNDS		7
#define NEVER		(-1)
#define FAILED		(-2)

/* Return: milliseconds from the first call until row_due() octets have arrived. */
static double measure(const struct kind *kind, const struct row *row, bool mpa,
		      int patience_ms)
{
	double ms = FAILED;
	u64 begin, came;
	struct conn c;

	if (!conn_open(&c, kind, mpa) && row_warm(&c, row, kind->far)) {
		if (mpa && row->cut)
			option_put(c.fd[0], SOL_MPA, MPA_SEGMENT,
				   row->cut == CUT_FILL ? 0 : row->cut);
		conn_expect(&c, mpa ? row_due(row) : row_due_tcp(row));
		begin = now_ns();
		errno = 0;
		if (row_send(&c, row)) {
			came = conn_came(&c, patience_ms);
			ms = came ? (came - begin) / 1e6 : NEVER;
		} else {
			fprintf(stderr, "# a call of %s failed: %m\n",
				mpa ? "MPA's" : "TCP's");
		}
	}
	conn_close(&c);
	return ms;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* NEVER counts as the longest. */
static double median(double *ms, int n)
{
	int i, never = 0;

	for (i = 0; i < n; i++)
		never += ms[i] == NEVER;
	qsort(ms, n, sizeof(*ms), compare);
	return n / 2 + never < n ? ms[n / 2 + never] : NEVER;
}

static const char *ms_text(double ms, char *text)
{
	if (ms == NEVER)
		sprintf(text, "never");
	else if (ms == FAILED)
		sprintf(text, "failed");
	else
		sprintf(text, "%.1f", ms);
	return text;
}

static void row_text(const struct row *row, char *text, size_t room)
{
	static const char *const hows[] = {
		"", "send", "sendmmsg", "sendfile", "splice", "cork", "outq",
	};
	const struct step *s;
	int n = 0;

	if (row->sndbuf)
		n += snprintf(text + n, room - n, "sndbuf %d: ", row->sndbuf);
	if (row->cut == CUT_FILL)
		n += snprintf(text + n, room - n, "filling: ");
	else if (row->cut)
		n += snprintf(text + n, room - n, "cut %d: ", row->cut);
	if (row->warm)
		n += snprintf(text + n, room - n, "%dx%d acked, ", row->warm,
			      row->warm_len);
	for (s = row->step; s < row->step + STEPS && s->how && n < room; s++) {
		bool same = s > row->step && s[-1].how == s->how;

		n += snprintf(text + n, room - n, "%s%s ",
			      s > row->step ? " " : "",
			      same ? "+" : hows[s->how]);
		if (s->n && n < room)
			n += snprintf(text + n, room - n, "%dx", s->n);
		n += snprintf(text + n, room - n, "%d%s", s->len,
			      s->flags & MSG_EOR ? "e" :
			      s->flags & MSG_MORE ? "m" :
			      s->flags & MSG_DONTWAIT ? "n" : "");
	}
	if (row->due && n < room)
		snprintf(text + n, room - n, " (%d due)", row->due);
}

static void print_row(const struct kind *kind, const struct row *row,
		      double tcp, double mpa, const char *verdict)
{
	char text[80], t[16], m[16];

	row_text(row, text, sizeof(text));
	printf("# %-4s %-5s %-44s %8s %8s %s\n", kind->far ? "far" : "near",
	       kind->nagle ? "nagle" : "", text, ms_text(tcp, t),
	       ms_text(mpa, m), verdict);
	/* The test calls _exit(). */
	fflush(stdout);
}

/**
 * struct bound - the permitted delay of MPA
 * @factor:	permitted multiple of TCP's delay, plus the allowance
 * @rounds:	rounds that must be in time; one on the far path
 * @patience_ms: maximum time to wait
 */
struct bound {
	double factor;
	int rounds;
	int patience_ms;
};

static bool is_late(const struct bound *bound, const struct row *row,
		    double tcp, double mpa)
{
	double most = tcp * bound->factor + allowance;

	if (row->against == BARE_SOON)
		most += soon;
	return mpa < 0 || mpa > most;
}

/*
 * Measure TCP and MPA in turn. A busy machine may be late at any time, so a row is good
 * if some of seven rounds are in time. A send that waits for a timer or an ACK is late
 * in each round.
 */
static bool row_good(const struct kind *base, const struct row *row,
		     const struct bound *bound)
{
	int rounds = base->far ? 1 : bound->rounds;
	int tries = virtual_time ? rounds : ROUNDS;
	double tcp[ROUNDS], mpa[ROUNDS];
	struct kind kind = *base;
	double least = 1e9;
	int good = 0, n;

	if (row->sndbuf)
		kind.sndbuf = row->sndbuf;
	for (n = 0; n < tries && good < rounds; n++) {
		tcp[n] = measure(&kind, row, false, bound->patience_ms);
		mpa[n] = measure(&kind, row, true, bound->patience_ms);
		if (tcp[n] < 0 || mpa[n] == FAILED) {
			print_row(&kind, row, tcp[n], mpa[n], "FAILED");
			return false;
		}
		if (tcp[n] < least)
			least = tcp[n];
		/* If TCP is slow, compare with its shortest time. */
		good += !is_late(bound, row, bound->factor > 1 ? least : tcp[n],
				 mpa[n]);
	}
	print_row(&kind, row, median(tcp, n), median(mpa, n),
		  good == rounds ? "" : "LATE");
	return good == rounds;
}

/* Return: the number of late rows. */
static int rows_late(const struct kind *kind, const struct row *rows, int n,
		     const struct bound *bound)
{
	int late = 0, i;

	for (i = 0; i < n; i++)
		late += !row_good(kind, &rows[i], bound);
	return late;
}

#endif /* _MPA_LATE_H */
