// SPDX-License-Identifier: GPL-2.0
/*
 * mpa ping: whether a host speaks MPA, which kind, and how far it is. What it does
 * not accept is tried without: markers, then revision 2.
 */
#include "relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIES_MOST	4
#define COUNT_MOST	1000000
#define TIMEOUT_MS	5000		/* of a startup, or of an echo */
#define INTERVAL	1.0		/* seconds */
#define DEPTH		1		/* IRD and ORD that are offered */
#define ECHO_SIZE	64
#define MS		1000.0

enum {
	KEY_ECHO = 0x300,
	KEY_SIZE,
	KEY_JSON,
};

struct options {
	struct start_options start;
	struct endpoint to;
	char *words[2];
	int given;
	unsigned long count;
	unsigned long size;
	double interval;
	bool echo;
	bool json;
	bool verbose;
};

static const struct argp_option options[] = {
	{ "count", 'c', "N", 0, "so many connections (1)", 0 },
	{ "interval", 'i', "SECONDS", 0, "between them (1)", 0 },
	{ "echo", KEY_ECHO, NULL, 0, "send a record and wait until it comes back", 0 },
	{ "size", KEY_SIZE, "OCTETS", 0, "of that record (64)", 0 },
	{ "json", KEY_JSON, NULL, 0, "results as JSON, one a line", 0 },
	{ "quiet", 'q', NULL, 0, "only the exit status, and errors", 0 },
	{ "verbose", 'v', NULL, 0, "more of what the peer has said", 0 },
	{}
};

static double parse_number(struct argp_state *state, const char *text, double least, double most)
{
	double value;
	char *end;

	value = strtod(text, &end);
	if (*end || end == text || !(value >= least && value <= most))
		argp_error(state, "%s: a number from %g to %g is expected", text, least, most);
	return value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &opt->start;
		break;
	case 'c':
		opt->count = parse_number(state, arg, 1, COUNT_MOST);
		break;
	case 'i':
		opt->interval = parse_number(state, arg, 0, 3600);
		break;
	case KEY_ECHO:
		opt->echo = true;
		break;
	case KEY_SIZE:
		opt->size = parse_number(state, arg, 1, MPA_ULPDU_MAX);
		opt->echo = true;
		break;
	case KEY_JSON:
		opt->json = true;
		break;
	case 'q':
		say_quiet = true;
		break;
	case 'v':
		opt->verbose = true;
		break;
	case ARGP_KEY_ARG:
		if (opt->given == 2)
			argp_error(state, "too many arguments");
		opt->words[opt->given++] = arg;
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "whom? For example: mpa ping localhost:4242");
		break;
	case ARGP_KEY_SUCCESS:
		if (opt->start.role && opt->start.role != MPA_ROLE_INITIATOR)
			argp_error(state, "ping is the initiator: leave out --role");
		endpoint_parse_words(&opt->to, opt->given, opt->words);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* One connection: what was asked for, and what has come of it. */
struct try {
	int revision;
	bool markers;
	enum status status;
	char *why;
	double tcp_ms;
	double mpa_ms;
	double echo_ms;		/* negative: none */
	double rtt_ms;		/* TCP's own measurement */
};

/* What is asked for, one after the other, as far as the options leave it open. */
static int plan(const struct options *opt, struct try *tries)
{
	const struct mpa_start *start = &opt->start.start;
	int revision, n = 0;

	for (revision = 2; revision; revision--)
		for (int markers = 1; markers >= 0; markers--) {
			if (start->flags & MPA_START_MARKERS && !markers)
				continue;
			if (start->revision != REVISION_UNSET) {
				if (revision == 1)
					continue;
				tries[n].revision = start->revision;
			} else {
				tries[n].revision = revision;
			}
			tries[n++].markers = markers;
		}
	return n;
}

static double since(const struct timespec *began)
{
	return (now() - began->tv_sec - began->tv_nsec / 1e9) * MS;
}

static void fail(struct try *try, enum status status, const char *why)
{
	try->status = status;
	try->why = need_memory(strdup(why));
}

/* A record, and the same one back. */
static void echo_record(const struct options *opt, struct try *try, int fd)
{
	char sent[MPA_ULPDU_MAX], got[MPA_ULPDU_MAX];
	struct pollfd fds = { fd, POLLIN, 0 };
	double began;
	ssize_t n;

	for (size_t i = 0; i < opt->size; i++)
		sent[i] = 'a' + i % 26;
	began = now();
	if (send(fd, sent, opt->size, MSG_NOSIGNAL) < 0) {
		try->status = start_error(fd, errno, &try->why);
		return;
	}
	if (!poll(&fds, 1, opt->start.start.timeout_ms)) {
		fail(try, STATUS_LOST, "the record has not come back in time: does the peer echo?");
		return;
	}
	n = recv(fd, got, sizeof(got), 0);
	try->echo_ms = (now() - began) * MS;
	if (n < 0)
		try->status = start_error(fd, errno, &try->why);
	else if (!n)
		fail(try, STATUS_LOST, "the peer has ended instead of an echo");
	else if ((size_t)n != opt->size || memcmp(sent, got, n))
		fail(try, STATUS_DIFFERS, "what came back is not what was sent");
}

static void read_rtt(struct try *try, int fd)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	if (!getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len))
		try->rtt_ms = info.tcpi_rtt / 1000.0;
}

/* Returns a socket if the peer has accepted, else -1. */
static int attempt(const struct options *opt, struct try *try)
{
	struct start_options start = opt->start;
	struct timespec began;
	int fd;

	free(try->why);
	try->why = NULL;
	try->status = STATUS_OK;
	try->echo_ms = -1;
	fd = endpoint_try(&opt->to, start.family, true, &began);
	if (fd < 0) {
		fail(try, STATUS_CONNECT, strerror(-fd));
		return -1;
	}
	try->tcp_ms = since(&began);
	start.start.revision = try->revision;
	if (try->markers)
		start.start.flags |= MPA_START_MARKERS;
	if (try->revision == 2 && !(start.start.flags & MPA_START_ENHANCED)) {
		start.start.flags |= MPA_START_ENHANCED;
		start.start.ird = DEPTH;
		start.start.ord = DEPTH;
	}
	clock_gettime(CLOCK_MONOTONIC, &began);
	try->status = start_mpa(fd, &start, MPA_ROLE_INITIATOR, &try->why);
	try->mpa_ms = since(&began);
	if (try->status) {
		close(fd);
		return -1;
	}
	read_rtt(try, fd);
	if (opt->echo)
		echo_record(opt, try, fd);
	return fd;
}

static void tell_json(const struct options *opt, const struct try *try, int fd)
{
	json_t *object = json_pack("{s:s?, s:s, s:i, s:b, s:i, s:f}", "host", opt->to.host,
				   "port", opt->to.port, "asked_revision", try->revision,
				   "asked_markers", try->markers, "status", try->status,
				   "tcp_ms", try->tcp_ms);
	json_t *agreed = fd >= 0 ? event_agreed(fd) : NULL;

	if (try->status != STATUS_CONNECT)
		json_object_set_new(object, "mpa_ms", json_real(try->mpa_ms));
	if (try->echo_ms >= 0)
		json_object_set_new(object, "echo_ms", json_real(try->echo_ms));
	if (try->why)
		json_object_set_new(object, "error", json_string(try->why));
	if (agreed) {
		json_object_set_new(object, "tcp_rtt_ms", json_real(try->rtt_ms));
		json_object_update(object, agreed);
		json_decref(agreed);
	}
	event("ping", NULL, object);
}

static void tell_accepted(const struct options *opt, const struct try *try, int fd)
{
	struct mpa_info info;
	struct mpa_peer peer;
	char *text;

	start_info(fd, &info);
	text = start_agreed(&info);
	printf("accepted: %s; TCP %.2f ms, MPA %.2f ms", text, try->tcp_ms, try->mpa_ms);
	if (try->echo_ms >= 0)
		printf(", record of %lu octets %.2f ms", opt->size, try->echo_ms);
	putchar('\n');
	free(text);
	if (start_peer(fd, &peer) && peer.private_len) {
		text = start_private(&peer);
		printf("  private data \"%s\"\n", text);
		free(text);
	}
	if (!opt->verbose)
		return;
	printf("  round trip by TCP %.2f ms, EMSS %u", try->rtt_ms, info.emss);
	if (info.flags & MPA_INFO_ENHANCED)
		printf(", IRD %u, ORD %u, the peer's %u and %u", info.ird, info.ord, peer.ird,
		       peer.ord);
	putchar('\n');
}

static void tell(const struct options *opt, const struct try *try, int fd)
{
	if (opt->json) {
		tell_json(opt, try, fd);
		return;
	}
	if (say_quiet)
		return;
	printf("%s port %s, revision %d%s: ", opt->to.host ?: "localhost", opt->to.port,
	       try->revision, try->markers ? ", markers" : "");
	if (fd >= 0)
		tell_accepted(opt, try, fd);
	if (try->status)
		printf("%s%s\n", fd >= 0 ? "  but: " : "no: ", try->why);
	fflush(stdout);
}

static void wait_interval(double seconds)
{
	struct timespec ts = { seconds, (seconds - (long)seconds) * 1e9 };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

struct series {
	const char *name;
	double *ms;
	size_t n;
};

static void add(struct series *series, double ms)
{
	series->ms = need_memory(reallocarray(series->ms, series->n + 1, sizeof(ms)));
	series->ms[series->n++] = ms;
}

enum { TCP, MPA, ECHO, SERIES };

static void summary(const struct options *opt, struct series *all, unsigned long good)
{
	json_t *object = json_pack("{s:I, s:I}", "connections", (json_int_t)opt->count,
				   "good", (json_int_t)good);

	if (!opt->json && !say_quiet)
		printf("%lu of %lu connections good; min/median/max in ms:", good, opt->count);
	for (struct series *each = all; each < all + SERIES; each++) {
		double median;

		if (!each->n)
			continue;
		qsort(each->ms, each->n, sizeof(*each->ms), compare);
		median = (each->ms[(each->n - 1) / 2] + each->ms[each->n / 2]) / 2;
		json_object_set_new(object, each->name,
				    json_pack("{s:f, s:f, s:f}", "min_ms", each->ms[0],
					      "median_ms", median, "max_ms",
					      each->ms[each->n - 1]));
		if (!opt->json && !say_quiet)
			printf(" %s %.2f/%.2f/%.2f", each->name, each->ms[0], median,
			       each->ms[each->n - 1]);
		free(each->ms);
	}
	if (!opt->json && !say_quiet)
		putchar('\n');
	if (opt->json)
		event("summary", NULL, object);
	else
		json_decref(object);
}

/* The way that was accepted, again and again. Returns the worst that has happened. */
static enum status repeat(const struct options *opt, struct try *try)
{
	struct series all[SERIES] = { { .name = "TCP" }, { .name = "MPA" }, { .name = "echo" } };
	enum status kept = try->status;
	unsigned long good = 0;
	int fd;

	for (unsigned long i = 0; i < opt->count; i++) {
		if (i) {
			wait_interval(opt->interval);
			fd = attempt(opt, try);
			tell(opt, try, fd);
			if (fd >= 0)
				close(fd);
		}
		if (try->status) {
			kept = try->status;
			continue;
		}
		good++;
		add(&all[TCP], try->tcp_ms);
		add(&all[MPA], try->mpa_ms);
		if (try->echo_ms >= 0)
			add(&all[ECHO], try->echo_ms);
	}
	if (opt->count > 1)
		summary(opt, all, good);
	return kept;
}

/* A refusal tells more than what does not speak MPA, or not that revision. */
static enum status ping(const struct options *opt)
{
	struct try tries[TRIES_MOST] = {};
	int n = plan(opt, tries), fd;
	enum status kept = STATUS_OK;

	for (struct try *each = tries; each < tries + n; each++) {
		fd = attempt(opt, each);
		tell(opt, each, fd);
		if (fd >= 0) {
			close(fd);
			return repeat(opt, each);
		}
		if (kept != STATUS_REFUSED)
			kept = each->status;
		if (each->status != STATUS_REFUSED && each->status != STATUS_STARTUP)
			break;
	}
	return kept;
}

static const char doc[] =
	"Connects to a host, asks it to speak MPA, and says what it has answered and\n"
	"how long that took. What it refuses is tried without: first markers, then\n"
	"revision 2; --markers and --revision hold fast to one.\n"
	"\vExamples:\n"
	"  mpa ping server:4242\n"
	"  mpa ping --count 5 --echo server:4242\n\n"
	"mpa-ping(1) has more.";

int ping_main(int argc, char **argv)
{
	static const struct argp_child children[] = { { &start_argp, 0, NULL, 0 }, {} };
	struct options opt = { .count = 1, .size = ECHO_SIZE, .interval = INTERVAL };
	static const struct argp argp = {
		options, parse, "HOST:PORT\nHOST PORT", doc, children, NULL, NULL
	};

	start_defaults(&opt.start);
	opt.start.start.revision = REVISION_UNSET;
	opt.start.quick = true;
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	if (!opt.start.start.timeout_ms)
		opt.start.start.timeout_ms = TIMEOUT_MS;
	return ping(&opt);
}
