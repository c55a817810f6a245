// SPDX-License-Identifier: GPL-2.0
/*
 * Describe a connection's state, from the attributes that the kernel reports.
 * mpa-show(1) explains each description.
 */
#include "tool.h"
#include "conn.h"

#include <errno.h>
#include <linux/tuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One whole, in tenths of a per cent. */
#define PERMILLE	1000
#define TENTHS		10

/* a growing text */
struct words {
	char *text;
	size_t len;
	FILE *out;
};

static void words_begin(struct words *words)
{
	words->out = need_memory(open_memstream(&words->text, &words->len));
}

static char *words_end(struct words *words)
{
	fclose(words->out);
	return need_memory(words->text);
}

/* Append to the text, after a separator. */
static FILE *also(const struct words *words)
{
	if (ftell(words->out))
		fputs(", ", words->out);
	return words->out;
}

static unsigned int state_of(const struct conn *conn)
{
	return conn_value(conn, MPA_A_CONN_STATE);
}

/* ---- single words ---- */

/* Return: EBADMSG and so on; "?" without a name. */
const char *health_errno(int err)
{
	return strerrorname_np(err) ?: "?";
}

/* Return: text for enum mpa_refusal. */
const char *health_refusal(unsigned int refusal)
{
	static const char *const why[] = {
		[MPA_REFUSAL_BY_PEER] = "the peer rejected the request",
		[MPA_REFUSAL_BY_USER] = "rejected by the local program",
		[MPA_REFUSAL_MALFORMED] = "does the peer speak MPA, the other role, this revision?",
		[MPA_REFUSAL_TIMEOUT] = "the peer's startup frame did not arrive in time",
		[MPA_REFUSAL_LOST] = "the TCP connection ended during startup",
		[MPA_REFUSAL_OUSTED] = "evicted (mpa policy: startup-max)",
		[MPA_REFUSAL_LIMIT] = "mpa policy startup-max is 0",
		[MPA_REFUSAL_GIVEN_UP] = "the local program ended startup with shutdown",
		[MPA_REFUSAL_LOCAL] = "aborted locally: out of memory, or a send failed",
	};

	if (refusal < sizeof(why) / sizeof(*why) && why[refusal])
		return why[refusal];
	return "unknown reason";
}

/* Return: text for enum mpa_cause. */
const char *health_cause(unsigned int cause)
{
	switch (cause) {
	case MPA_CAUSE_OVERSIZED:
		return "the record is longer than a segment: send records of up to MULPDU";
	case MPA_CAUSE_WINDOW:
		return "TCP split it at the edge of the peer's receive window";
	default:
		return "the segment size changed, or TCP split it elsewhere";
	}
}

/* ---- failures ---- */

/*
 * Whether the peer has closed after a complete record: RFC 5044 section 8 error 1
 * without an errno.
 */
static bool peer_has_closed(const struct conn *conn)
{
	return state_of(conn) == MPA_STATE_FULL &&
	       conn_value(conn, MPA_A_CONN_ERROR) == MPA_ERR_TCP &&
	       !conn_has(conn, MPA_A_CONN_ERRNO);
}

bool health_has_failed(const struct conn *conn)
{
	if (state_of(conn) == MPA_STATE_FAILED || state_of(conn) == MPA_STATE_REJECTED)
		return true;
	return conn_value(conn, MPA_A_CONN_ERROR) && !peer_has_closed(conn);
}

/* Reasons for a startup failure, by errno: conn-get reports only the errno. */
static const struct {
	int err;
	const char *why;
} startups[] = {
	{ EPROTO, "the peer's frame is malformed: does it speak MPA?" },
	{ ETIMEDOUT, "the peer's frame did not arrive in time" },
	{ EUSERS, "too many connections in startup: see mpa policy startup-max" },
	{ ECONNABORTED, "the local program aborted it" },
	{ ECONNRESET, "the TCP connection has ended" },
	{ ENOMEM, "no memory" },
	{ ENOBUFS, "no memory" },
	{}
};

static void startup_words(FILE *out, const struct conn *conn)
{
	const int err = conn_value(conn, MPA_A_CONN_ERRNO);
	const char *why = err ? strerror(err) : "no reason reported";

	for (int i = 0; startups[i].err; i++)
		if (startups[i].err == err)
			why = startups[i].why;
	fprintf(out, "startup failed: %s", why);
	if (err)
		fprintf(out, " (%s)", health_errno(err));
}

static void position_words(FILE *out, const struct conn *conn)
{
	if (conn_has(conn, MPA_A_CONN_ERROR_POSITION))
		fprintf(out, " at stream position %llu",
			conn_value(conn, MPA_A_CONN_ERROR_POSITION));
}

static void lost_words(FILE *out, const struct conn *conn)
{
	const int err = conn_value(conn, MPA_A_CONN_ERRNO);

	if (err == EBADMSG) {
		fputs("stopped: the stream ends inside a record (1)", out);
		position_words(out, conn);
		return;
	}
	fprintf(out, "lost: %s (%s)", err == ETIMEDOUT ?
		"the peer did not answer TCP for too long" : strerror(err),
		health_errno(err));
	if (conn_has(conn, MPA_A_CONN_ERROR_POSITION)) {
		fputs(", inside a record", out);
		position_words(out, conn);
	}
}

static void local_words(FILE *out, const struct conn *conn)
{
	const int err = conn_value(conn, MPA_A_CONN_ERRNO);

	if (err == EPROTO) {
		fputs("sending stopped: local error (5): other octets were written to TCP",
		      out);
		return;
	}
	fputs("stopped: local error (5)", out);
	position_words(out, conn);
	if (err == EBADMSG)
		fputs(": octets were read without MPA, or the kernel consumer refused more",
		      out);
	else if (err)
		fprintf(out, ": %s (%s)", strerror(err), health_errno(err));
}

/* Describe a failure in Full Operation. */
static void full_words(FILE *out, const struct conn *conn)
{
	const unsigned int code = conn_value(conn, MPA_A_CONN_ERROR);

	switch (code) {
	case MPA_ERR_TCP:
		lost_words(out, conn);
		break;
	case MPA_ERR_CRC:
		fputs(conn_is_tuf(conn) ? "stopped: invalid length (2)" :
					  "stopped: CRC error (2)", out);
		position_words(out, conn);
		break;
	case MPA_ERR_MARKER:
		fputs("stopped: marker error (3)", out);
		position_words(out, conn);
		break;
	case MPA_ERR_LOCAL:
		local_words(out, conn);
		break;
	case MPA_ERR_IRD:
		fputs("IRD and ORD do not match (6): the responder wants more",
		      out);
		break;
	case MPA_ERR_RTR:
		fputs("no common RTR (7)", out);
		break;
	default:
		fprintf(out, "stopped: error %u", code);
		position_words(out, conn);
	}
}

/* Return: the failure, or NULL. The caller frees it. */
char *health_failure(const struct conn *conn)
{
	struct words words;

	if (!health_has_failed(conn))
		return NULL;
	words_begin(&words);
	if (state_of(conn) == MPA_STATE_REJECTED)
		fputs(conn_has(conn, MPA_A_CONN_ERRNO) ? "refused by the peer" :
							 "refused by the local program",
		      words.out);
	else if (state_of(conn) == MPA_STATE_FULL || conn_is_tuf(conn))
		full_words(words.out, conn);
	else
		startup_words(words.out, conn);
	return words_end(&words);
}

/* ---- its state ---- */

static void say_idle(FILE *out, const struct conn *conn)
{
	if (!conn_is_alone(conn))
		fputs(conn_is_tuf(conn) ? "no direction is framed" : "attached, not started",
		      out);
	else
		fputs(conn->listens ? "listens" : "attached, not connected", out);
}

/* Print the reason why the connection waits, or "good". */
static void say_state(FILE *out, const struct conn *conn)
{
	const bool initiator = conn_value(conn, MPA_A_CONN_ROLE) == MPA_ROLE_INITIATOR;

	switch (state_of(conn)) {
	case MPA_STATE_IDLE:
		say_idle(out, conn);
		break;
	case MPA_STATE_STARTUP:
		fprintf(out, "waits for the peer's %s", initiator ? "reply" : "request");
		break;
	case MPA_STATE_REQUESTED:
		fprintf(out, "waits for its program to accept or reject the %s",
			initiator ? "reply" : "request");
		break;
	case MPA_STATE_FULL:
		if (peer_has_closed(conn))
			fputs("closed by the peer", out);
		else if (!conn_is_tuf(conn) &&
			 !(conn_value(conn, MPA_A_CONN_FLAGS) & MPA_INFO_MAY_SEND))
			fputs("waits for the peer's first record", out);
		else
			fputs("good", out);
		break;
	default:
		fprintf(out, "state %u", state_of(conn));
	}
}

static void say_aligned(struct words *words, const struct conn *conn)
{
	const __u64 unaligned = conn_value(conn, MPA_A_CONN_TX_SEGS_UNALIGNED);
	const __u64 aligned = conn_value(conn, MPA_A_CONN_TX_SEGS_ALIGNED);
	unsigned int permille;

	if (!unaligned && aligned)
		fputs("aligned 100 %", also(words));
	if (!unaligned)
		return;
	/* Round down: 100 % means all segments. */
	permille = (double)aligned / ((double)aligned + unaligned) * PERMILLE;
	fprintf(also(words), "aligned %u.%u %%", permille / TENTHS, permille % TENTHS);
}

static void say_placing(struct words *words, const struct conn *conn)
{
	const __u64 placed = conn_value(conn, MPA_A_CONN_RX_PLACED);

	if (conn_has(conn, MPA_A_CONN_PLACING))
		fputs("placing on", also(words));
	if (placed)
		fprintf(also(words), "%llu record%s read out of order", placed,
			placed == 1 ? "" : "s");
	if (conn_has(conn, MPA_A_CONN_RESEGMENTED))
		fputs("resegmented on the path", also(words));
}

static void say_held(struct words *words, const struct conn *conn)
{
	const __u64 tx = conn_value(conn, MPA_A_CONN_TX_HELD);
	const __u64 rx = conn_value(conn, MPA_A_CONN_RX_HELD);

	if (tx)
		fprintf(also(words), "%llu octets unsent", tx);
	if (rx)
		fprintf(also(words), "%llu octets of a long record received", rx);
}

/* Return: the state as a line. The caller frees it. */
char *health_of(const struct conn *conn)
{
	char *failure = health_failure(conn);
	struct words words;

	words_begin(&words);
	if (failure)
		fputs(failure, words.out);
	else
		say_state(words.out, conn);
	free(failure);
	say_aligned(&words, conn);
	say_placing(&words, conn);
	say_held(&words, conn);
	return words_end(&words);
}

/* ---- the negotiated parameters ---- */

static const char *agreed_ways(__u64 flags, __u64 tx, __u64 rx)
{
	if (!(flags & (tx | rx)))
		return NULL;
	return (flags & (tx | rx)) == (tx | rx) ? "both ways" : flags & tx ? "sent" : "received";
}

static char *agreed_tuf(const struct conn *conn)
{
	char *tx = conn_attr_text(conn, MPA_A_CONN_TUF_TX);
	char *rx = conn_attr_text(conn, MPA_A_CONN_TUF_RX);
	char *text;

	if (asprintf(&text, "TUF sent %s, received %s", tx, rx) < 0)
		need_memory(NULL);
	free(tx);
	free(rx);
	return text;
}

/* Return: the negotiated parameters; "" if there are none yet. The caller frees it. */
char *health_agreed(const struct conn *conn)
{
	const __u64 flags = conn_value(conn, MPA_A_CONN_FLAGS);
	const char *crc, *markers;
	struct words words;

	if (conn_is_tuf(conn))
		return agreed_tuf(conn);
	words_begin(&words);
	if (conn_has(conn, MPA_A_CONN_FLAGS)) {
		crc = agreed_ways(flags, MPA_INFO_TX_CRC, MPA_INFO_RX_CRC);
		markers = agreed_ways(flags, MPA_INFO_TX_MARKERS, MPA_INFO_RX_MARKERS);
		fprintf(words.out, "rev %llu", conn_value(conn, MPA_A_CONN_REVISION));
		if ((flags & MPA_INFO_CRC) == MPA_INFO_CRC)
			fputs(", CRC", words.out);
		else
			fprintf(words.out, crc ? ", CRC %s" : ", no CRC", crc);
		if (markers)
			fprintf(words.out, ", markers %s", markers);
		if (conn_has(conn, MPA_A_CONN_IRD))
			fprintf(words.out, ", IRD %llu ORD %llu",
				conn_value(conn, MPA_A_CONN_IRD),
				conn_value(conn, MPA_A_CONN_ORD));
		if (flags & MPA_INFO_P2P)
			fputs(", p2p", words.out);
	}
	return words_end(&words);
}
