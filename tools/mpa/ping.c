// SPDX-License-Identifier: GPL-2.0
/*
 * mpa ping: check whether a host uses MPA, and in which variant, and measure the round
 * trip. If the host refuses, later attempts leave out markers, then revision 2.
 */
#include "relay.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define TRIES_MOST	4
#define COUNT_MOST	1000000
#define TIMEOUT_FILE	"/proc/sys/net/mpa/startup_timeout_ms"
#define TIMEOUT_MS	10000		/* used if the policy cannot be read */
#define AGAIN_US	100000		/* repeat a signal that came before the call */
#define INTERVAL	1.0		/* seconds */
#define DEPTH		1		/* IRD and ORD to offer */
#define ECHO_SIZE	64
#define MS		1000.0
#define US_IN_MS	1000

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
	{ "count", 'c', "N", 0, "number of connections (default 1)", 0 },
	{ "interval", 'i', "SECONDS", 0, "time between connections (default 1)", 0 },
	{ "echo", KEY_ECHO, NULL, 0, "send a record and wait for its echo", 0 },
	{ "size", KEY_SIZE, "OCTETS", 0, "size of that record (default 64)", 0 },
	ENDPOINT_PORT,
	{ NULL, 'W', "SECONDS", 0, "same as --timeout", 0 },
	{ "json", KEY_JSON, NULL, 0, "print results as JSON, one a line", 0 },
	{ "quiet", 'q', NULL, 0, "print only errors", 0 },
	{ "verbose", 'v', NULL, 0, "print more of the peer's answer", 0 },
	{}
};

static double parse_number(struct argp_state *state, const char *text, double least, double most)
{
	double value;
	char *end;

	value = strtod(text, &end);
	if (*end || end == text || !(value >= least && value <= most))
		argp_error(state, "%s: expected a number from %g to %g", text, least, most);
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
	case 'p':
		opt->to.port = arg;
		break;
	case 'W':
		opt->start.start.timeout_ms = start_seconds(state, "-W", arg);
		break;
	case ARGP_KEY_ARG:
		if (opt->given == 2)
			argp_error(state, "too many arguments");
		opt->words[opt->given++] = arg;
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "the host is missing, for example: mpa ping localhost:4242");
		break;
	case ARGP_KEY_SUCCESS:
		if (opt->start.role && opt->start.role != MPA_ROLE_INITIATOR)
			argp_error(state, "--role cannot be used: ping is the initiator");
		if (opt->start.start.flags & (MPA_START_TX_MARKERS | MPA_START_TX_NO_CRC))
			argp_error(state, "--tx-markers and --tx-no-crc cannot be used");
		endpoint_parse_words(&opt->to, opt->given, opt->words);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* an attempt: the request and its result */
struct try {
	int revision;
	bool markers;
	enum status status;
	char *why;
	double tcp_ms;
	double mpa_ms;
	double echo_ms;		/* negative: none */
	double rtt_ms;		/* TCP's own measurement */
	bool has_peer;		/* the peer's startup frame was received */
	struct mpa_peer peer;
};

/* Set up the attempts that the options permit. */
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

/* ---- interrupting a connection: SIGINT and SIGALRM ---- */

static bool interrupted;

static void on_interrupt(int signal)
{
	(void)signal;
	__atomic_store_n(&interrupted, true, __ATOMIC_RELAXED);
}

static bool is_interrupted(void)
{
	return __atomic_load_n(&interrupted, __ATOMIC_RELAXED);
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* The first SIGINT makes blocking calls fail with EINTR; the second kills the program. */
static void catch_signals(void)
{
	struct sigaction interrupt = { .sa_handler = on_interrupt, .sa_flags = SA_RESETHAND };
	struct sigaction alarm = { .sa_handler = on_alarm };

	sigaction(SIGINT, &interrupt, NULL);
	sigaction(SIGALRM, &alarm, NULL);
}

static void set_alarm(unsigned int ms)
{
	struct itimerval timer = {
		.it_value = { ms / 1000, ms % 1000 * US_IN_MS },
		.it_interval.tv_usec = ms ? AGAIN_US : 0,
	};

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Return: the policy's startup timeout. */
static unsigned int policy_timeout(void)
{
	FILE *file = fopen(TIMEOUT_FILE, "re");
	unsigned int ms;

	if (!file)
		return TIMEOUT_MS;
	if (fscanf(file, "%u", &ms) != 1)
		ms = TIMEOUT_MS;
	fclose(file);
	return ms;
}

/* ---- a connection ---- */

static double since(const struct timespec *began)
{
	return (now() - began->tv_sec - began->tv_nsec / 1e9) * MS;
}

static void fail(struct try *try, enum status status, const char *why)
{
	try->status = status;
	try->why = need_memory(strdup(why));
}

/* Send a record and receive its echo. */
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
	if (poll(&fds, 1, opt->start.start.timeout_ms) <= 0) {
		fail(try, STATUS_LOST, "the echo did not arrive in time: is it an echo server?");
		return;
	}
	n = recv(fd, got, sizeof(got), 0);
	try->echo_ms = (now() - began) * MS;
	if (n < 0)
		try->status = start_error(fd, errno, &try->why);
	else if (!n)
		fail(try, STATUS_LOST, "the peer closed the connection without an echo");
	else if ((size_t)n != opt->size || memcmp(sent, got, n))
		fail(try, STATUS_DIFFERS, "the echo differs from what was sent");
}

static void read_rtt(struct try *try, int fd)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	if (!getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len))
		try->rtt_ms = info.tcpi_rtt / 1000.0;
}

/* Connect within @ms. Return: a socket or a negative errno. */
static int connect_within(const struct options *opt, unsigned int ms, struct timespec *began)
{
	int fd;

	set_alarm(ms);
	fd = endpoint_try(&opt->to, opt->start.family, true, began);
	set_alarm(0);
	return fd == -EINTR ? -ETIMEDOUT : fd;
}

/* Set this attempt's parameters, with a timeout of @ms. */
static void ask(const struct options *opt, const struct try *try, struct start_options *start,
		unsigned int ms)
{
	*start = opt->start;
	start->start.revision = try->revision;
	start->start.timeout_ms = ms;
	if (try->markers)
		start->start.flags |= MPA_START_MARKERS;
	if (try->revision == 2 && !(start->start.flags & MPA_START_ENHANCED)) {
		start->start.flags |= MPA_START_ENHANCED;
		start->start.ird = DEPTH;
		start->start.ord = DEPTH;
	}
}

/*
 * Make an attempt within @ms. Startup may take one of @shares of the time that TCP
 * leaves. Return: a socket if the peer accepted, otherwise -1.
 */
static int attempt(const struct options *opt, struct try *try, unsigned int ms, int shares)
{
	struct start_options start;
	struct timespec began;
	double share;
	int fd;

	free(try->why);
	try->why = NULL;
	try->status = STATUS_OK;
	try->echo_ms = -1;
	try->has_peer = false;
	fd = connect_within(opt, ms, &began);
	if (fd < 0) {
		try->status = STATUS_CONNECT;
		if (asprintf(&try->why, "no TCP connection: %s%s", strerror(-fd),
			     fd == -ECONNREFUSED ? " (nothing listens there)" : "") < 0)
			need_memory(NULL);
		return -1;
	}
	try->tcp_ms = since(&began);
	share = (ms - try->tcp_ms) / shares;
	/* 0 would mean the policy's timeout. */
	ask(opt, try, &start, share > 1 ? share : 1);
	clock_gettime(CLOCK_MONOTONIC, &began);
	try->status = start_mpa(fd, &start, MPA_ROLE_INITIATOR, &try->why);
	try->mpa_ms = since(&began);
	try->has_peer = start_peer(fd, &try->peer);
	if (try->status) {
		close(fd);
		return -1;
	}
	read_rtt(try, fd);
	if (opt->echo)
		echo_record(opt, try, fd);
	return fd;
}

/* ---- output ---- */

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
	} else if (try->has_peer) {
		event_frame(object, &try->peer);
	}
	event("ping", NULL, object);
}

/* Print the negotiated parameters. Leave out the revision if it is the requested one. */
static void tell_agreed(const struct try *try, const struct mpa_info *info)
{
	char *text = start_agreed(info), *rest = strchr(text, ' ');

	if (info->revision == try->revision && rest)
		rest = strchr(rest + 1, ' ');
	printf("accepted (%s)", rest && info->revision == try->revision ? rest + 1 : text);
	free(text);
}

static void tell_times(const struct options *opt, const struct try *try)
{
	printf("TCP %.2f ms, MPA %.2f ms", try->tcp_ms, try->mpa_ms);
	if (try->echo_ms >= 0)
		printf(", record of %lu octets %.2f ms", opt->size, try->echo_ms);
}

/* Print the frame, even if the peer refused. */
static void tell_frame(const struct options *opt, const struct try *try)
{
	char *text;

	if (!opt->verbose || !try->has_peer)
		return;
	text = start_frame(&try->peer);
	printf("  the peer's frame: %s\n", text);
	free(text);
}

/* Get and print the peer's startup frame. */
static void tell_peer(const struct options *opt, const struct try *try, int fd)
{
	struct mpa_info info;
	char *text;

	if (try->has_peer && try->peer.private_len) {
		text = start_private(&try->peer);
		printf("  private data \"%s\"\n", text);
		free(text);
	}
	if (!opt->verbose)
		return;
	start_info(fd, &info);
	printf("  TCP round trip %.2f ms, EMSS %u", try->rtt_ms, info.emss);
	if (info.flags & MPA_INFO_ENHANCED)
		printf(", IRD %u, ORD %u", info.ird, info.ord);
	putchar('\n');
	tell_frame(opt, try);
}

static bool tells(const struct options *opt)
{
	return !opt->json && !say_quiet;
}

/* Announce an attempt. @number is 0 for the first one. */
static void tell_try(const struct options *opt, const struct try *try, unsigned long number)
{
	if (!tells(opt))
		return;
	if (number)
		printf("connection %lu ... ", number);
	else
		printf("revision %d%s ... ", try->revision, try->markers ? " with markers" : "");
	fflush(stdout);
}

static void tell(const struct options *opt, const struct try *try, unsigned long number, int fd)
{
	struct mpa_info info;

	if (opt->json)
		tell_json(opt, try, fd);
	if (!tells(opt))
		return;
	if (fd < 0) {
		printf("no, %s\n", try->why);
		tell_frame(opt, try);
	} else {
		if (!number) {
			start_info(fd, &info);
			tell_agreed(try, &info);
			fputs(", ", stdout);
		}
		tell_times(opt, try);
		putchar('\n');
		if (!number || opt->verbose)
			tell_peer(opt, try, fd);
		if (try->status)
			printf("  but %s\n", try->why);
	}
	fflush(stdout);
}

/* ---- all connections ---- */

static void wait_interval(double seconds)
{
	struct timespec ts = { seconds, (seconds - (long)seconds) * 1e9 };

	while (!is_interrupted() && nanosleep(&ts, &ts) && errno == EINTR)
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

struct results {
	unsigned long tried;
	unsigned long good;
	struct series all[SERIES];
};

static void count(struct results *results, const struct try *try)
{
	results->tried++;
	if (try->status)
		return;
	results->good++;
	add(&results->all[TCP], try->tcp_ms);
	add(&results->all[MPA], try->mpa_ms);
	if (try->echo_ms >= 0)
		add(&results->all[ECHO], try->echo_ms);
}

static void summary_of(const struct options *opt, struct series *series, json_t *object)
{
	double least = series->ms[0], most = series->ms[series->n - 1], mean = 0, median;
	double square = 0, deviation;

	median = (series->ms[(series->n - 1) / 2] + series->ms[series->n / 2]) / 2;
	for (size_t i = 0; i < series->n; i++)
		mean += series->ms[i] / series->n;
	for (size_t i = 0; i < series->n; i++)
		square += (series->ms[i] - mean) * (series->ms[i] - mean) / series->n;
	deviation = sqrt(square);
	json_object_set_new(object, series->name,
			    json_pack("{s:f, s:f, s:f, s:f, s:f}", "min_ms", least, "mean_ms",
				      mean, "median_ms", median, "max_ms", most, "deviation_ms",
				      deviation));
	if (tells(opt))
		printf(" %s %.2f/%.2f/%.2f/%.2f", series->name, least, mean, most, deviation);
}

static void summary(const struct options *opt, struct results *results)
{
	const double lost = results->tried ?
			    100.0 * (results->tried - results->good) / results->tried : 0;
	json_t *object = json_pack("{s:I, s:I, s:f}", "connections", (json_int_t)results->tried,
				   "good", (json_int_t)results->good, "lost_percent", lost);

	if (tells(opt))
		printf("%lu connection%s, %lu good, %.3g %% lost%s", results->tried,
		       results->tried == 1 ? "" : "s", results->good, lost,
		       results->good ? "; min/avg/max/mdev in ms:" : "");
	for (struct series *each = results->all; each < results->all + SERIES; each++) {
		if (!each->n)
			continue;
		qsort(each->ms, each->n, sizeof(*each->ms), compare);
		summary_of(opt, each, object);
		free(each->ms);
	}
	if (tells(opt))
		putchar('\n');
	if (opt->json)
		event("summary", NULL, object);
	else
		json_decref(object);
}

/* Repeat the accepted attempt, with the full timeout each time. Return: the last failure. */
static enum status repeat(const struct options *opt, struct try *try, struct results *results)
{
	enum status kept = try->status;

	for (unsigned long i = 1; i < opt->count; i++) {
		int fd;

		wait_interval(opt->interval);
		if (is_interrupted())
			break;
		tell_try(opt, try, i + 1);
		fd = attempt(opt, try, opt->start.start.timeout_ms, 1);
		if (is_interrupted())
			break;
		count(results, try);
		tell(opt, try, i + 1, fd);
		if (fd >= 0)
			close(fd);
		if (try->status)
			kept = try->status;
	}
	return kept;
}

/*
 * Make attempts until one is accepted, all within the timeout. The status of a refusal
 * has precedence: it shows that the peer uses MPA.
 */
static enum status find(const struct options *opt, struct results *results)
{
	const double until = now() * MS + opt->start.start.timeout_ms;
	struct try tries[TRIES_MOST] = {};
	int n = plan(opt, tries), fd;
	enum status kept = STATUS_OK;

	for (int i = 0; i < n; i++) {
		const double left = until - now() * MS;

		tell_try(opt, &tries[i], 0);
		fd = attempt(opt, &tries[i], left > 1 ? left : 1, n - i);
		if (is_interrupted())
			break;
		count(results, &tries[i]);
		tell(opt, &tries[i], 0, fd);
		if (fd >= 0) {
			close(fd);
			results->tried = 1;
			return repeat(opt, &tries[i], results);
		}
		if (kept != STATUS_REFUSED)
			kept = tries[i].status;
		if (tries[i].status != STATUS_REFUSED && tries[i].status != STATUS_STARTUP)
			break;
	}
	return kept;
}

/* Exit before any output if no attempt is possible. */
static void check(const struct options *opt)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct addrinfo *list;
	struct timespec began;

	start_attach(fd);
	close(fd);
	if (getaddrinfo(opt->to.host, opt->to.port, NULL, &list))
		close(endpoint_try(&opt->to, opt->start.family, true, &began));
	else
		freeaddrinfo(list);
}

static int ping(const struct options *opt)
{
	struct results results = {
		.all = { { .name = "TCP" }, { .name = "MPA" }, { .name = "echo" } },
	};
	enum status status;

	check(opt);
	if (tells(opt))
		printf("%s port %s, at most %g s:\n", opt->to.host ?: "localhost", opt->to.port,
		       opt->start.start.timeout_ms / MS);
	status = find(opt, &results);
	if (is_interrupted() && tells(opt))
		putchar('\n');
	if (is_interrupted() || opt->count > 1)
		summary(opt, &results);
	return is_interrupted() ? STATUS_INTERRUPTED : (int)status;
}

static const char doc[] =
	"Connect to a host, start MPA, and print the answer and the time it took. If the host\n"
	"refuses, try again without markers, then without revision 2, unless --markers or\n"
	"--revision is given. --timeout is the limit for all attempts together.\n"
	"\vExamples:\n"
	"  mpa ping server:4242\n"
	"  mpa ping --count 5 --echo server:4242\n\n"
	"See mpa-ping(1).";

int ping_main(int argc, char **argv)
{
	static const struct argp_child children[] = { { &start_argp, 0, NULL, 0 }, {} };
	struct options opt = { .count = 1, .size = ECHO_SIZE, .interval = INTERVAL };
	static const struct argp argp = {
		options, parse, "HOST:PORT\nHOST PORT\n-p PORT HOST", doc, children, NULL, NULL
	};

	start_defaults(&opt.start);
	opt.start.start.revision = REVISION_UNSET;
	opt.start.quick = true;
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	if (!opt.start.start.timeout_ms)
		opt.start.start.timeout_ms = policy_timeout();
	catch_signals();
	return ping(&opt);
}
