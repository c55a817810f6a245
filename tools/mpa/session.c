// SPDX-License-Identifier: GPL-2.0
/* One connection: startup, records, and messages. */
#include "relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS	1000.0

enum {
	KEY_SEND = 0x200,
	KEY_RECEIVE,
	KEY_EXEC,
	KEY_FORCE,
	KEY_IDLE,
	KEY_RAW,
	KEY_JSON,
	KEY_NO_SHUTDOWN,
	KEY_END_WITH_PEER,
	KEY_FAULT,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Records:", 1 },
	{ "records", 'R', "FORM", 0,
	  "lines (default); length: 4 octets of length before each record; stream: no boundaries",
	  0 },
	{ "exec", KEY_EXEC, "COMMAND", 0,
	  "run a shell command that reads and writes the records", 0 },
	{ "send", KEY_SEND, "FILE", 0, "send a file to a peer with --receive", 0 },
	{ "receive", KEY_RECEIVE, "FILE|DIR", 0, "receive a file; - is standard output", 0 },
	{ "force", KEY_FORCE, NULL, 0, "overwrite an existing file", 0 },
	{ "no-shutdown", KEY_NO_SHUTDOWN, NULL, 0,
	  "do not shut down the connection at the end of the input", 0 },
	{ "end-with-peer", KEY_END_WITH_PEER, NULL, 0,
	  "end when the peer ends, even if there is more input", 0 },
	{ "idle", KEY_IDLE, "SECONDS", 0,
	  "end a connection that is idle for this time", 0 },
	{ "raw", KEY_RAW, NULL, 0, "do not escape control characters on a terminal", 0 },
	{ "fault", KEY_FAULT, "WHAT[@N]", 0,
	  "inject an error (in user space), such as crc@3 in the third record", 0 },
	{ NULL, 0, NULL, 0, "Output:", 2 },
	{ "json", KEY_JSON, NULL, 0, "print events and records as JSON, one a line", 0 },
	{ "quiet", 'q', NULL, 0, "print only errors", 0 },
	{ "verbose", 'v', NULL, 0, "print negotiated parameters, private data and counts", 0 },
	{}
};

static enum form form(struct argp_state *state, const char *text)
{
	static const char *const names[] = { "lines", "length", "stream" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(text, names[i]))
			return i;
	argp_error(state, "%s: records are lines, length or stream", text);
	return FORM_LINES;
}

/* Check that the options can be combined. */
static void check(struct argp_state *state, struct session_options *opt)
{
	bool out = opt->receive && !strcmp(opt->receive, "-");
	struct mpa_start *start = &opt->start.start;

	if (!!opt->send + !!opt->receive + !!opt->exec > 1)
		argp_error(state, "--send, --receive and --exec cannot be combined");
	if (opt->start.place && opt->form == FORM_STREAM)
		argp_error(state,
			   "--place delivers out of order: use lines, length or --receive FILE");
	if (opt->start.place && out)
		argp_error(state,
			   "--place needs a file that can be written out of order, not --receive -");
	if (opt->start.place && start->flags & MPA_START_NO_CRC)
		argp_error(state, "--place needs CRCs: leave out --no-crc");
	if (opt->json && out)
		argp_error(state, "--json and --receive - cannot be combined");
	if (opt->json && opt->form != FORM_LINES && !opt->exec)
		argp_error(state, "--json and --records cannot be combined");
}

/* Report an error that ends the program. */
static void tell_last(enum status status, const char *text)
{
	event("error", NULL, json_pack("{s:s?, s:i}", "error", text, "status", status));
}

/* Return: the flag for a key; NULL: the key takes an argument. */
static bool *switch_of(struct session_options *opt, int key)
{
	switch (key) {
	case 'v':
		return &opt->verbose;
	case KEY_FORCE:
		return &opt->force;
	case KEY_RAW:
		return &opt->raw;
	case KEY_NO_SHUTDOWN:
		return &opt->no_shutdown;
	case KEY_END_WITH_PEER:
		return &opt->end_with_peer;
	case KEY_FAULT:
		return &opt->fault;
	}
	return NULL;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct session_options *opt = state->input;
	bool *on = switch_of(opt, key);

	if (on) {
		*on = true;
		return 0;
	}
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &opt->start;
		break;
	case 'R':
		opt->form = form(state, arg);
		break;
	case 'q':
		say_quiet = true;
		break;
	case KEY_SEND:
		opt->send = arg;
		break;
	case KEY_RECEIVE:
		opt->receive = arg;
		break;
	case KEY_EXEC:
		opt->exec = arg;
		break;
	case KEY_IDLE:
		opt->idle_ms = start_seconds(state, "--idle", arg);
		break;
	case KEY_JSON:
		opt->json = true;
		say_last = tell_last;
		break;
	case ARGP_KEY_END:
		check(state, opt);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp_child children[] = { { &start_argp, 0, NULL, 0 }, {} };

const struct argp session_argp = { options, parse, NULL, NULL, children, NULL, NULL };

void session_defaults(struct session_options *opt)
{
	memset(opt, 0, sizeof(*opt));
	start_defaults(&opt->start);
	opt->start.start.revision = REVISION_UNSET;
}

/* Make all checks that need no connection. */
void session_open(struct session *session, struct session_options *opt, struct source *input,
		  int fd)
{
	if (opt->form == FORM_STREAM)
		opt->start.segment = MPA_SEGMENT_FILL;
	if (opt->send)
		transfer_send_check(opt);
	if (opt->receive)
		transfer_receive_check(opt);
	tidy_signals();
	source_open(input, fd, opt->form);
	*session = (struct session){ .opt = opt, .input = input };
}

/* Return: the role, from the options, or else the command's default. */
static enum mpa_role role_of(const struct start_options *opt, enum mpa_role role)
{
	return opt->role ? (enum mpa_role)opt->role : role;
}

/*
 * Without --revision a responder uses 2, and so also accepts requests of revision 1,
 * unless its private data are too long for revision 2.
 */
static void default_revision(struct start_options *opt, enum mpa_role role)
{
	const size_t most = MPA_PRIVATE_DATA_MAX - 4;

	if (opt->start.revision == REVISION_UNSET)
		opt->start.revision = role_of(opt, role) == MPA_ROLE_RESPONDER &&
				      opt->start.private_len <= most ? 2 : 1;
}

/* Print the peer's frame, if it was received. */
static void tell_frame(const struct session *session)
{
	struct mpa_peer peer;
	char *text;

	if (!start_peer(session->fd, &peer))
		return;
	text = start_frame(&peer);
	note("%s: the peer's frame: %s", session->peer, text);
	free(text);
	if (peer.private_len) {
		text = start_private(&peer);
		note("%s: the peer's private data: \"%s\"", session->peer, text);
		free(text);
	}
}

static void tell_started(const struct session *session)
{
	struct mpa_info info;
	char *text;

	if (session->opt->json)
		event_started(session->peer, session->fd);
	if (!session->opt->verbose)
		return;
	start_info(session->fd, &info);
	text = start_agreed(&info);
	note("%s: %s", session->peer, text);
	free(text);
	if (info.flags & MPA_INFO_ENHANCED)
		note("%s: IRD %u, ORD %u", session->peer, info.ird, info.ord);
	tell_frame(session);
}

static void tell_end(const struct session *session, int status, bool started)
{
	struct mpa_info info;

	start_info(session->fd, &info);
	if (session->opt->verbose && started)
		note("%s: %llu records with %llu octets sent, %llu with %llu received",
		     session->peer, info.tx_ulpdus, info.tx_octets, info.rx_ulpdus,
		     info.rx_octets);
	if (session->opt->json)
		event("ended", session->peer,
		      json_pack("{s:i, s:I, s:I, s:I, s:I, s:I}", "status", status,
				"records_sent", (json_int_t)info.tx_ulpdus,
				"octets_sent", (json_int_t)info.tx_octets,
				"records_received", (json_int_t)info.rx_ulpdus,
				"octets_received", (json_int_t)info.rx_octets,
				"placed", (json_int_t)info.rx_placed));
}

/* Report once that a responder has to wait (RFC 5044 section 7.1.2 rule 4). */
void session_waits(struct session *session)
{
	struct mpa_info info;

	if (session->wait_told || !session->opt->verbose)
		return;
	start_info(session->fd, &info);
	session->wait_told = true;
	if (!(info.flags & MPA_INFO_MAY_SEND))
		note("waiting for the first record of %s: a responder must not send before it",
		     session->peer);
}

/* Note that a record was sent or received. */
void session_active(struct session *session)
{
	if (session->opt->idle_ms)
		session->active = now();
}

/* Return: ms until --idle expires, for poll(). */
int session_left(const struct session *session)
{
	double left;

	if (!session->opt->idle_ms)
		return -1;
	left = session->opt->idle_ms - (now() - session->active) * MS;
	return left > 0 ? left + 1 : 0;
}

/* Return: text about the idle connection. The caller frees it. */
char *session_why_idle(const struct session *session)
{
	char *text;

	if (asprintf(&text, "no record in either direction for %g seconds (--idle)",
		     session->opt->idle_ms / MS) < 0)
		need_memory(NULL);
	return text;
}

static int start(struct session *session, enum mpa_role role)
{
	struct start_options opt = session->opt->start;
	enum status status;
	char *why;

	default_revision(&opt, role);
	status = start_mpa(session->fd, &opt, role, &why);
	if (status) {
		complain("%s: %s", session->peer, why);
		if (session->opt->verbose)
			tell_frame(session);
		if (session->opt->json)
			event("error", session->peer,
			      json_pack("{s:s, s:i}", "error", why, "status", status));
		free(why);
	}
	return status;
}

static int use(struct session *session)
{
	if (session->opt->send)
		return transfer_send(session);
	if (session->opt->receive)
		return transfer_receive(session);
	return relay(session);
}

/*
 * Handle a connection from startup to close(). The ULP is attached, and session->peer
 * set. Return: the exit status.
 */
int session_run(struct session *session, enum mpa_role role)
{
	const struct session_options *opt = session->opt;
	bool started = false;
	int status;

	session->local = endpoint_of(session->fd, false);
	session->wait_told = false;
	if (opt->verbose)
		note("connected: %s to %s", session->local, session->peer);
	if (opt->json)
		event("connected", session->peer, json_pack("{s:s}", "local", session->local));
	status = start(session, role);
	if (!status && opt->start.reject) {
		if (opt->verbose)
			note("%s: rejected (--reject)", session->peer);
		if (opt->json)
			event("refused", session->peer, NULL);
	} else if (!status) {
		tell_started(session);
		session_active(session);
		status = use(session);
		started = true;
	}
	tell_end(session, status, started);
	close(session->fd);
	free(session->peer);
	free(session->local);
	return status;
}
