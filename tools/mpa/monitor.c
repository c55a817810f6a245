// SPDX-License-Identifier: GPL-2.0
/* "mpa monitor": print events of connections, or their records, as they happen. */
#include "tool.h"
#include "monitor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUFFER		4194304
#define BUFFER_MAX	1073741824
#define NS_IN_S		1e9
#define TIMEOUT_MAX	1e9

enum {
	KEY_OCTETS = 0x100,
	KEY_HEX,
	KEY_BUFFER,
	KEY_TIMEOUT,
};

struct monitor {
	struct output output;
	bool records;
	uint32_t octets;
	int buffer;
	double timeout;		/* seconds; 0: none */
	double until;		/* CLOCK_MONOTONIC, in seconds */
	unsigned int kinds;	/* a bit for each MPA_CMD_*; 0: all */
	int words;
	struct filter filter;
	struct nl events;
	struct nl ask;
	struct taps taps;
	struct conns conns;
	uint32_t number;	/* number of the last event; 0: none yet */
	bool over;		/* the selected connection has ended */
};

/* A signal has arrived. */
static bool stopped;

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "print each event or record as a line of JSON", 0 },
	{ "count", 'c', "N", 0, "exit after N events or records", 0 },
	{ "timeout", KEY_TIMEOUT, "SECONDS", 0, "exit after this time", 0 },
	{ "timestamp", 't', NULL, 0, "print a line with date and time before each event", 0 },
	{ "tshort", 's', NULL, 0, "print date and time in the line of the event; also -ts", 0 },
	{ "event", 'e', "NAME[,NAME]...", 0,
	  "print only these: started, refused, failed, mulpdu, unaligned, closed", 0 },
	{ "records", 'r', NULL, 0,
	  "print the records of matching connections; with a cookie, exit when that one closes",
	  0 },
	{ "octets", KEY_OCTETS, "N", 0, "octets to print of each record (default 64)", 0 },
	{ "hex", KEY_HEX, NULL, 0, "print all octets in hexadecimal, also text", 0 },
	{ "buffer", KEY_BUFFER, "OCTETS", 0,
	  "size of the receive buffer (default 4194304)", 0 },
	{}
};

static unsigned long number_of(struct argp_state *state, const char *text,
			       unsigned long least, unsigned long most, const char *what)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || *end || end == text || *text == '-' || value < least || value > most)
		argp_error(state, "%s: expected for %s a number from %lu to %lu", text, what, least,
			   most);
	return value;
}

static unsigned int kinds(struct argp_state *state, const char *text)
{
	char *copy = need_memory(strdup(text)), *rest = copy, *each;
	unsigned int set = 0;

	while ((each = strsep(&rest, ","))) {
		unsigned int cmd = 0;

		while (cmd <= MPA_CMD_MAX &&
		       (!event_name(cmd) || strcmp(event_name(cmd), each)))
			cmd++;
		if (cmd > MPA_CMD_MAX)
			argp_error(state,
				   "%s: an event is started, refused, failed, mulpdu, unaligned or closed",
				   each);
		set |= 1U << cmd;
	}
	free(copy);
	return set;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct monitor *monitor = state->input;
	char *end;

	switch (key) {
	case 'j':
		monitor->output.json = true;
		break;
	case 'c':
		monitor->output.count = number_of(state, arg, 1, ULONG_MAX, "--count");
		break;
	case 't':
		if (monitor->output.stamp == STAMP_CLOCK)
			monitor->output.stamp = STAMP_LINE;
		break;
	case 's':
		monitor->output.stamp = STAMP_SHORT;
		break;
	case KEY_TIMEOUT:
		monitor->timeout = strtod(arg, &end);
		if (*end || !(monitor->timeout > 0 && monitor->timeout <= TIMEOUT_MAX))
			argp_error(state, "%s: --timeout takes seconds", arg);
		break;
	case 'e':
		monitor->kinds |= kinds(state, arg);
		break;
	case 'r':
		monitor->records = true;
		break;
	case KEY_OCTETS:
		monitor->octets = number_of(state, arg, 0, MPA_ULPDU_MAX, "--octets");
		break;
	case KEY_HEX:
		monitor->output.hex = true;
		break;
	case KEY_BUFFER:
		monitor->buffer = number_of(state, arg, 1, BUFFER_MAX, "--buffer");
		break;
	case ARGP_KEY_ARGS:
		monitor->words = state->next;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	options, parse, "[FILTER]...",
	"Print the events of this network namespace's connections, or their records.\v" FILTER_DOC,
	NULL, NULL, NULL,
};

/* ---- records ---- */

/* Whether the connection can send or receive records. */
static bool may_have_records(const struct conn *conn)
{
	const __u64 state = conn_value(conn, MPA_A_CONN_STATE);

	return !conn_is_alone(conn) && state != MPA_STATE_FAILED &&
	       state != MPA_STATE_REJECTED;
}

static void tap(struct monitor *monitor, const struct conn *conn)
{
	const __u64 cookie = conn_value(conn, MPA_A_CONN_COOKIE);

	if (!filter_lets(&monitor->filter, conn) || !may_have_records(conn) ||
	    taps_find(&monitor->taps, cookie))
		return;
	if (taps_add(&monitor->taps, conn)) {
		note("records of %s, cookie %llu", taps_find(&monitor->taps, cookie)->ends,
		     cookie);
		return;
	}
	complain("no records of the connection with cookie %llu: %s", cookie,
		 monitor->taps.nl.error.err == ENOENT ? "it is already closed" :
		 nl_why(&monitor->taps.nl));
}

/* Tap existing connections, and remove those that have ended without an event. */
static void tap_all(struct monitor *monitor)
{
	struct taps *taps = &monitor->taps;

	conn_dump(&monitor->ask, &monitor->conns);
	for (size_t i = taps->n; i-- > 0;) {
		const __u64 cookie = taps->list[i].cookie;

		if (conn_find(&monitor->conns, cookie))
			continue;
		taps_take(taps);
		taps_gone(taps, cookie);
	}
	for (size_t i = 0; i < monitor->conns.n; i++)
		tap(monitor, &monitor->conns.list[i]);
	monitor->over = monitor->filter.has_cookie && !taps->n;
}

static void begin_records(struct monitor *monitor)
{
	nl_open(&monitor->ask);
	taps_open(&monitor->taps, &monitor->output, monitor->octets, monitor->buffer);
	tap_all(monitor);
	if (monitor->over)
		die(STATUS_LOCAL,
		    "there is no connection with cookie %llu: mpa show -v has them",
		    monitor->filter.cookie);
	if (!monitor->taps.n)
		note("no connection matches yet: waiting for one to start");
}

/* Start or end a connection's tap, because of an event. */
static void records_event(struct monitor *monitor, uint8_t cmd, const struct conn *conn)
{
	const __u64 cookie = conn_value(conn, MPA_A_CONN_COOKIE);

	if (cmd == MPA_CMD_STARTED_NTF)
		tap(monitor, conn);
	if (!taps_find(&monitor->taps, cookie))
		return;
	/* The kernel has sent these records before the event. */
	taps_take(&monitor->taps);
	if (output_enough(&monitor->output))
		return;
	if (cmd == MPA_CMD_FAILED_NTF || cmd == MPA_CMD_CLOSED_NTF) {
		output_event(&monitor->output, cmd, conn);
		/* With --records only records count. */
		monitor->output.done--;
	}
	if (cmd != MPA_CMD_CLOSED_NTF)
		return;
	taps_gone(&monitor->taps, cookie);
	monitor->over = monitor->filter.has_cookie;
}

/* ---- events ---- */

static int event_come(const struct nlmsghdr *nlh, void *data)
{
	const uint8_t cmd = nl_command(nlh);
	struct monitor *monitor = data;
	struct conn conn;
	uint32_t number;

	if (!event_name(cmd) || output_enough(&monitor->output))
		return MNL_CB_OK;
	conn_parse(&conn, nlh);
	number = conn_value(&conn, MPA_A_CONN_EVENT);
	if (monitor->number && number != monitor->number + 1)
		output_lost(&monitor->output, "events", (uint32_t)(number - monitor->number - 1));
	monitor->number = number;
	if (monitor->records)
		records_event(monitor, cmd, &conn);
	else if ((!monitor->kinds || monitor->kinds >> cmd & 1) &&
		 filter_lets(&monitor->filter, &conn))
		output_event(&monitor->output, cmd, &conn);
	return MNL_CB_OK;
}

/* Read all events that have arrived. */
static void take_events(struct monitor *monitor)
{
	int ret;

	while (!output_enough(&monitor->output) && !monitor->over) {
		ret = nl_take(&monitor->events, event_come, monitor);
		if (!ret)
			return;
		if (ret > 0)
			continue;
		if (errno != ENOBUFS)
			die(STATUS_LOCAL, "cannot read events: %m");
		output_lost(&monitor->output, "events", 0);
		if (monitor->records)
			tap_all(monitor);
	}
}

static void begin_events(struct monitor *monitor)
{
	nl_open(&monitor->events);
	nl_buffer(&monitor->events, monitor->buffer);
	if (!nl_listen(&monitor->events))
		return;
	if (monitor->events.error.err == EPERM)
		die(STATUS_LOCAL,
		    "only root may (CAP_NET_ADMIN in the network namespace): sudo mpa monitor");
	die(STATUS_LOCAL, "no events: %s", nl_why(&monitor->events));
}

/* ---- the main loop ---- */

static void stop(int signal)
{
	(void)signal;
	__atomic_store_n(&stopped, true, __ATOMIC_RELAXED);
}

/* Unblock signals only while the program waits, so that none is missed. */
static void catch_signals(sigset_t *before)
{
	struct sigaction action = { .sa_handler = stop };
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGHUP);
	sigprocmask(SIG_BLOCK, &blocked, before);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / NS_IN_S;
}

/* Wait for more. Return: whether to continue. */
static bool wait_for_more(struct monitor *monitor, const sigset_t *signals)
{
	struct pollfd polled[2] = {
		{ .fd = nl_fd(&monitor->events), .events = POLLIN },
		{ .fd = monitor->records ? nl_fd(&monitor->taps.nl) : -1, .events = POLLIN },
	};
	struct timespec left, *limit = NULL;
	double seconds;

	say_flush();
	if (__atomic_load_n(&stopped, __ATOMIC_RELAXED) || monitor->over ||
	    output_enough(&monitor->output))
		return false;
	if (monitor->timeout > 0) {
		seconds = monitor->until - now();
		if (seconds <= 0)
			return false;
		left.tv_sec = seconds;
		left.tv_nsec = (seconds - left.tv_sec) * NS_IN_S;
		limit = &left;
	}
	if (ppoll(polled, 2, limit, signals) < 0 && errno != EINTR)
		die(STATUS_LOCAL, "poll: %m");
	return true;
}

int monitor_main(int argc, char **argv)
{
	static struct monitor monitor = { .octets = MONITOR_OCTETS, .buffer = BUFFER };
	sigset_t signals;

	monitor.words = argc;
	argp_parse(&argp, argc, argv, 0, NULL, &monitor);
	filter_parse(&monitor.filter, argc - monitor.words, argv + monitor.words);
	catch_signals(&signals);
	monitor.until = now() + monitor.timeout;
	begin_events(&monitor);
	if (monitor.records)
		begin_records(&monitor);
	note("watching");
	while (wait_for_more(&monitor, &signals)) {
		take_events(&monitor);
		if (monitor.records)
			taps_take(&monitor.taps);
	}
	if (monitor.records)
		taps_close(&monitor.taps);
	say_flush();
	return monitor.output.count && !output_enough(&monitor.output) && !stopped ?
	       STATUS_LOCAL : STATUS_OK;
}
