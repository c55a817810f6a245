// SPDX-License-Identifier: GPL-2.0
/* mpa perf: measure MPA, also in comparison with plain TCP. This file has the options. */
#include "perf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define DEFAULT_SECONDS		10
#define DEFAULT_COMPARE_SECONDS	2

#define PERF_PORT		"5201"	/* iperf3's port */

enum {
	DEFAULT_ROUNDS = 5,
	DEFAULT_SMALL = 64,		/* octets in a record or request */
	DEFAULT_BATCH = 64,		/* records per call of a stream with --segment */
	ROUNDS_MAX = 1000,
	BASE = 10,
};

enum {
	KEY_TEST = 0x200,
	KEY_SEGMENT,
	KEY_BIDIR,
	KEY_VERIFY,
	KEY_NODELAY,
	KEY_COMPARE,
	KEY_ROUNDS,
	KEY_TCP,
	KEY_WINDOW,
	KEY_FQ_RATE,
};

static const struct argp_option client_options[] = {
	{ NULL, 0, NULL, 0, "What to measure:", 1 },
	{ "test", KEY_TEST, "TEST", 0,
	  "stream: throughput (default); rate: records per second; latency: round trips", 0 },
	{ "reverse", 'R', NULL, 0, "the server sends", 0 },
	{ "bidir", KEY_BIDIR, NULL, 0, "both ends send", 0 },
	{ "size", 's', "OCTETS", 0, "size of a record, or with --segment of a call", 0 },
	{ "length", 'l', NULL, OPTION_ALIAS, NULL, 0 },
	{ "segment", KEY_SEGMENT, "N", 0,
	  "split calls into records: fill (each fills a segment), N octets, or off", 0 },
	{ "batch", 'b', "N", 0, "records per system call", 0 },
	{ "parallel", 'P', "N", 0, "number of parallel connections (default 1)", 0 },
	{ "connections", 'c', NULL, OPTION_ALIAS, NULL, 0 },
	{ "time", 't', "SECONDS", 0, "duration (default 10; with --compare 2 for each run)", 0 },
	{ "octets", 'n', "N", 0, "end after N octets in total", 0 },
	{ "omit", 'O', "SECONDS", 0, "warm-up before the measurement", 0 },
	{ "warmup", 'w', NULL, OPTION_ALIAS, NULL, 0 },
	{ "verify", KEY_VERIFY, NULL, 0, "verify each received octet", 0 },
	{ "no-delay", 'N', NULL, 0, "set TCP_NODELAY (latency always does)", 0 },
	{ "nodelay", KEY_NODELAY, NULL, OPTION_ALIAS, NULL, 0 },
	{ "congestion", 'C', "NAME", 0, "TCP congestion control", 0 },
	{ "window", KEY_WINDOW, "OCTETS", 0, "size of the socket buffers", 0 },
	{ "fq-rate", KEY_FQ_RATE, "BITS", 0, "limit each connection to BITS per second", 0 },
	ENDPOINT_PORT,
	{ "tcp", KEY_TCP, NULL, 0, "measure plain TCP instead of MPA", 0 },
	{ "compare", KEY_COMPARE, NULL, 0, "measure MPA and plain TCP in turns", 0 },
	{ "rounds", KEY_ROUNDS, "N", 0, "with --compare: runs of each (default 5)", 0 },
	{ NULL, 0, NULL, 0, "What to print:", 2 },
	{ "interval", 'i', "SECONDS", 0, "interval between progress lines (on a terminal: 1)", 0 },
	{ "json", 'J', NULL, 0, "print all results as JSON", 0 },
	{ "quiet", 'q', NULL, 0, "print only the results", 0 },
	{}
};

/* The client's options; negative if not given. */
struct client_input {
	struct perf_client client;
	struct start_options start;
	int64_t size;
	int64_t batch;
	double seconds;
	double interval;
	int segment;
	bool reverse;
	bool bidir;
	bool tcp;
};

enum { UNSAID = -2 };

static double seconds_of(struct argp_state *state, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (*end || end == text || !(seconds >= 0 && seconds <= PERF_SECONDS_MAX))
		argp_error(state, "%s: expected seconds, 0 to %d", text, PERF_SECONDS_MAX);
	return seconds;
}

/* Return: a number, which K, M or G may follow: powers of @unit_is. */
static uint64_t number_of(struct argp_state *state, const char *text, unsigned int unit_is,
			  uint64_t least, uint64_t most)
{
	static const char units[] = "KMGT";
	unsigned long long value;
	const char *unit;
	char *end;

	errno = 0;
	value = strtoull(text, &end, BASE);
	if (end != text && *end && !end[1]) {
		unit = strchr(units, *end == 'k' ? 'K' : *end);
		for (const char *each = units; unit && each <= unit; each++)
			if (__builtin_mul_overflow(value, unit_is, &value))
				errno = ERANGE;
		end += !!unit;
	}
	if (errno || *end || end == text || *text == '-' || value < least || value > most)
		argp_error(state, "%s: expected %llu to %llu, or with K, M or G", text,
			   (unsigned long long)least, (unsigned long long)most);
	return value;
}

static uint64_t octets_of(struct argp_state *state, const char *text, uint64_t least,
			  uint64_t most)
{
	return number_of(state, text, 1024, least, most);
}

/* Return: bits, counted as by iperf3. */
static uint64_t bits_of(struct argp_state *state, const char *text)
{
	return number_of(state, text, 1000, 8, INT64_MAX);
}

static int segment_of(struct argp_state *state, const char *text)
{
	if (!strcmp(text, "fill"))
		return MPA_SEGMENT_FILL;
	if (!strcmp(text, "off"))
		return MPA_SEGMENT_OFF;
	return octets_of(state, text, 1, MPA_ULPDU_MAX);
}

static int test_of(struct argp_state *state, const char *text)
{
	for (int i = PERF_STREAM; i <= PERF_LATENCY; i++)
		if (!strcmp(text, perf_tests[i]))
			return i;
	argp_error(state, "%s: a test is stream, rate or latency", text);
	return PERF_STREAM;
}

/* Set the defaults, which depend on the test. */
static void finish(struct argp_state *state, struct client_input *input)
{
	struct perf_params *params = &input->client.params;
	const char *wrong;

	params->start = input->start;
	params->mpa = !input->tcp;
	params->to_server = !input->reverse || input->bidir;
	params->to_client = input->reverse || input->bidir;
	if (params->test == PERF_LATENCY) {
		if (params->to_client)
			argp_error(state,
				   "--test latency has requests and answers: --reverse and --bidir cannot be used");
		params->to_client = 1;
	}
	if (input->tcp && input->client.compare)
		argp_error(state, "--compare and --tcp cannot be combined");
	if (input->segment == UNSAID)
		input->segment = params->test == PERF_STREAM && input->size < 0 ?
				 MPA_SEGMENT_FILL : MPA_SEGMENT_OFF;
	params->segment = input->segment;
	params->size = input->size > 0 ? input->size :
		       params->segment != MPA_SEGMENT_OFF ? PERF_CALL :
		       params->test == PERF_STREAM ? MPA_ULPDU_MAX : DEFAULT_SMALL;
	params->batch = input->batch > 0 ? input->batch :
			params->segment != MPA_SEGMENT_OFF ? DEFAULT_BATCH : 1;
	params->seconds = input->seconds >= 0 ? input->seconds : params->octets ? 0 :
			  input->client.compare ? DEFAULT_COMPARE_SECONDS : DEFAULT_SECONDS;
	input->client.interval = input->interval >= 0 ? input->interval :
				 isatty(STDOUT_FILENO) && !say_quiet && !input->client.json &&
				 !input->client.compare;
	wrong = perf_params_wrong(params);
	if (wrong)
		argp_error(state, "%s", wrong);
}

static error_t parse_amount(int key, char *arg, struct argp_state *state)
{
	struct client_input *input = state->input;
	struct perf_params *params = &input->client.params;

	switch (key) {
	case 's':
	case 'l':
		input->size = octets_of(state, arg, 1, PERF_SIZE_MAX);
		break;
	case KEY_SEGMENT:
		input->segment = segment_of(state, arg);
		break;
	case 'b':
		input->batch = octets_of(state, arg, 1, MPA_RECV_BATCH_MAX);
		break;
	case 'c':
	case 'P':
		params->connections = octets_of(state, arg, 1, PERF_CONNECTIONS_MAX);
		break;
	case 't':
		input->seconds = seconds_of(state, arg);
		break;
	case 'n':
		params->octets = octets_of(state, arg, 1, INT64_MAX);
		break;
	case 'w':
	case 'O':
		params->warmup = seconds_of(state, arg);
		break;
	case 'i':
		input->interval = seconds_of(state, arg);
		break;
	case KEY_WINDOW:
		params->window = octets_of(state, arg, 1, PERF_WINDOW_MAX);
		break;
	case KEY_FQ_RATE:
		params->pacing = bits_of(state, arg);
		break;
	case KEY_ROUNDS:
		input->client.rounds = octets_of(state, arg, 1, ROUNDS_MAX);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_kind(int key, char *arg, struct argp_state *state)
{
	struct client_input *input = state->input;
	struct perf_params *params = &input->client.params;

	switch (key) {
	case KEY_TEST:
		params->test = test_of(state, arg);
		break;
	case 'C':
		if (!*arg || strlen(arg) >= PERF_CONGESTION)
			argp_error(state, "%s: the name of a congestion control is shorter", arg);
		strcpy(params->congestion, arg);
		break;
	case 'R':
		input->reverse = true;
		break;
	case KEY_BIDIR:
		input->bidir = true;
		break;
	case KEY_VERIFY:
		params->verify = true;
		break;
	case 'N':
	case KEY_NODELAY:
		params->nodelay = true;
		break;
	case KEY_TCP:
		input->tcp = true;
		break;
	case KEY_COMPARE:
		input->client.compare = true;
		break;
	case 'J':
		input->client.json = true;
		break;
	case 'q':
		say_quiet = true;
		break;
	default:
		return parse_amount(key, arg, state);
	}
	return 0;
}

/*
 * Parse an endpoint. A word without a colon is a host; if it is a number, a port of
 * localhost.
 */
static void server_parse(struct endpoint *to, const struct argp_state *state)
{
	const int count = state->argc - state->next;
	char **words = state->argv + state->next;
	struct in6_addr address;

	if (!to->port && count == 1 && words[0][strspn(words[0], "0123456789")] &&
	    (!strchr(words[0], ':') || inet_pton(AF_INET6, words[0], &address) == 1 ||
	     words[0][strlen(words[0]) - 1] == ']'))
		to->port = PERF_PORT;
	endpoint_parse_words(to, count, words);
}

static error_t parse_client(int key, char *arg, struct argp_state *state)
{
	struct client_input *input = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &input->start;
		break;
	case 'p':
		input->client.to.port = arg;
		break;
	case ARGP_KEY_ARGS:
		if (state->argc - state->next > 2)
			argp_usage(state);
		server_parse(&input->client.to, state);
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "the server is missing: HOST or HOST:PORT");
		break;
	case ARGP_KEY_SUCCESS:
		finish(state, input);
		break;
	default:
		return parse_kind(key, arg, state);
	}
	return 0;
}

static int client_main(int argc, char **argv)
{
	static const struct argp_child children[] = { { &start_argp, 0, NULL, 0 }, {} };
	static const struct argp argp = {
		client_options, parse_client, "HOST:PORT\nHOST PORT\nHOST",
		"Measure between this host and an \"mpa perf server\". The options for starting MPA apply to both ends.",
		children, NULL, NULL,
	};
	struct client_input input = {
		.client.params.connections = 1,
		.client.rounds = DEFAULT_ROUNDS,
		.size = UNSAID,
		.batch = UNSAID,
		.seconds = UNSAID,
		.interval = UNSAID,
		.segment = UNSAID,
	};

	start_defaults(&input.start);
	argp_parse(&argp, argc, argv, 0, NULL, &input);
	return perf_client(&input.client);
}

static const struct argp_option server_options[] = {
	{ "one-off", '1', NULL, 0, "exit after the tests of one client", 0 },
	{ "one", '1', NULL, OPTION_ALIAS, NULL, 0 },
	{ "port", 'p', "PORT", 0,
	  "default " PERF_PORT "; then the only argument is an address", 0 },
	{ "json", 'J', NULL, 0, "print a line of JSON for each run", 0 },
	{ "quiet", 'q', NULL, 0, "print only errors", 0 },
	{ NULL, '4', NULL, 0, "IPv4 only", 0 },
	{ NULL, '6', NULL, 0, "IPv6 only", 0 },
	{}
};

static error_t parse_server(int key, char *arg, struct argp_state *state)
{
	struct perf_server *server = state->input;

	switch (key) {
	case '1':
		server->one = true;
		break;
	case 'p':
		server->at.port = arg;
		break;
	case 'J':
		server->json = true;
		break;
	case 'q':
		say_quiet = true;
		break;
	case '4':
		server->family = AF_INET;
		break;
	case '6':
		server->family = AF_INET6;
		break;
	case ARGP_KEY_ARGS:
		endpoint_parse_rest(&server->at, state);
		break;
	case ARGP_KEY_SUCCESS:
		server->at.port = server->at.port ?: PERF_PORT;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static int server_main(int argc, char **argv)
{
	static const struct argp argp = {
		server_options, parse_server, "[[ADDRESS:]PORT]",
		"Serve \"mpa perf client\", one client at a time, until stopped.",
		NULL, NULL, NULL,
	};
	struct perf_server server = { .family = AF_UNSPEC };

	argp_parse(&argp, argc, argv, 0, NULL, &server);
	return perf_server(&server);
}

/* Raise the limit of descriptors, as each connection needs one. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/*
 * Accept iperf3's form: -s is the server, -c HOST the client. Remove the option, and
 * move HOST to the end, as an argument. Return: 0 if there is neither option.
 */
static int role_of(int *argc, char **argv)
{
	int role = 0, to = 1;
	char *host = NULL;

	for (int i = 1; i < *argc; i++) {
		const bool client = !strcmp(argv[i], "-c") || !strcmp(argv[i], "--client");

		if (!client && strcmp(argv[i], "-s") && strcmp(argv[i], "--server")) {
			argv[to++] = argv[i];
			continue;
		}
		if (role)
			die(STATUS_USAGE,
			    "give -s or -c HOST once; -l is the size of records, -P the number of connections");
		role = client ? 'c' : 's';
		if (client)
			host = argv[++i];
		if (client && !host)
			die(STATUS_USAGE, "-c: the host is missing");
	}
	if (host)
		argv[to++] = host;
	argv[to] = NULL;
	*argc = to;
	return role;
}

int perf_main(int argc, char **argv)
{
	int role = 0;

	raise_limit();
	if (argc >= 2 && (!strcmp(argv[1], "server") || !strcmp(argv[1], "client"))) {
		role = *argv[1];
		argc--;
		argv++;
	} else {
		role = role_of(&argc, argv);
	}
	if (role == 's') {
		argv[0] = need_memory(strdup("mpa perf server"));
		say_command = "perf server";
		return server_main(argc, argv);
	}
	if (role == 'c') {
		argv[0] = need_memory(strdup("mpa perf client"));
		say_command = "perf client";
		return client_main(argc, argv);
	}
	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?"))) {
		puts("usage: mpa perf server [OPTION]... [[ADDRESS:]PORT]\n"
		     "       mpa perf client [OPTION]... HOST[:PORT]\n"
		     "   or: mpa perf -s [OPTION]..., mpa perf -c HOST [OPTION]..., as iperf3\n\n"
		     "See \"mpa perf client --help\" and mpa-perf(1).");
		return STATUS_OK;
	}
	die(STATUS_USAGE, "expected server or client, -s or -c HOST: see mpa perf --help");
}
