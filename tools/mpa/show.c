// SPDX-License-Identifier: GPL-2.0
/* "mpa show": list the connections of the network namespace. */
#include "tool.h"
#include "conn.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	KEY_TUF = 0x100,
	KEY_OPENMETRICS,
};

struct show {
	struct show_options options;
	bool verbose;
	bool summary;
	bool processes;
	bool tuf;
	struct rounds rounds;
	int words;		/* index of the first filter in argv[] */
	struct filter filter;
	struct nl nl;
	struct conns now;
	struct conns before;	/* connections in the previous round */
	struct procs procs;
};

static const struct argp_option options[] = {
	{ "verbose", 'v', NULL, 0, "print all attributes of each connection, one a line", 0 },
	{ "json", 'j', NULL, 0, "print JSON, with the names of the netlink specification", 0 },
	{ "watch", 'w', "SECONDS", 0, "repeat at this interval, with rates per second", 0 },
	{ "count", 'c', "N", 0, "with --watch: number of outputs", 0 },
	{ "processes", 'p', NULL, 0, "print the processes of each socket (of other users: sudo)",
	  0 },
	{ "no-header", 'H', NULL, 0, "do not print the names of the columns", 0 },
	{ "summary", 's', NULL, 0, "print the number of connections by state and role", 0 },
	{ "all", 'a', NULL, 0, "with stat: print counters that are 0 as well", 0 },
	{ "openmetrics", KEY_OPENMETRICS, NULL, 0,
	  "print counters and numbers of connections for Prometheus", 0 },
	{ "tuf", KEY_TUF, NULL, 0, "print only TUF sockets", 0 },
	{}
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct show *show = state->input;
	char *end;

	switch (key) {
	case 'v':
		show->verbose = true;
		break;
	case 'j':
		show->options.json = true;
		break;
	case 'w':
		show->rounds.every = strtod(arg, &end);
		if (*end || !(show->rounds.every >= 0.01 && show->rounds.every <= 86400))
			argp_error(state, "%s: --watch takes 0.01 to 86400 seconds", arg);
		break;
	case 'c':
		show->rounds.count = strtoul(arg, &end, 0);
		if (*end || !show->rounds.count || *arg == '-')
			argp_error(state, "%s: --count takes a number greater than 0", arg);
		break;
	case 'p':
		show->processes = true;
		break;
	case 'H':
		show->options.no_header = true;
		break;
	case 's':
		show->summary = true;
		break;
	case 'a':
		show->options.all = true;
		break;
	case KEY_OPENMETRICS:
		show->options.openmetrics = true;
		break;
	case KEY_TUF:
		show->tuf = true;
		break;
	case ARGP_KEY_ARGS:
		show->words = state->next;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	options, parse, "[FILTER]...\nstat",
	"List the connections of this network namespace; with \"stat\", its counters.\v" FILTER_DOC,
	NULL, NULL, NULL,
};

/* ---- rates ---- */

static const unsigned int rated[] = {
	MPA_A_CONN_TX_ULPDUS, MPA_A_CONN_TX_OCTETS, MPA_A_CONN_RX_ULPDUS, MPA_A_CONN_RX_OCTETS,
};

#define RATED	(sizeof(rated) / sizeof(*rated))

/* Return: the rate; negative if unknown. */
static double rate_of(const struct show *show, const struct conn *conn, unsigned int attr)
{
	const struct conn *before = conn_find(&show->before,
					      conn_value(conn, MPA_A_CONN_COOKIE));

	if (!before || show->rounds.since <= 0 || !conn_has(conn, attr) ||
	    conn_value(conn, attr) < conn_value(before, attr))
		return -1;
	return (conn_value(conn, attr) - conn_value(before, attr)) / show->rounds.since;
}

static char *rate_text(double rate)
{
	return rate < 0 ? need_memory(strdup("-")) : table_rate(rate);
}

/* ---- JSON ---- */

static json_t *json_of(const struct show *show, const struct conn *conn)
{
	json_t *object = conn_json(conn), *rates;
	char *health = health_of(conn);

	json_object_set_new(object, "health", json_string(health));
	json_object_set_new(object, "has-failed", json_boolean(health_has_failed(conn)));
	free(health);
	if (show->processes)
		json_object_set_new(object, "processes",
				    procs_json(&show->procs, conn_value(conn, MPA_A_CONN_INODE)));
	if (show->rounds.since <= 0)
		return object;
	rates = need_memory(json_object());
	for (size_t i = 0; i < RATED; i++) {
		const double rate = rate_of(show, conn, rated[i]);

		if (rate >= 0)
			json_object_set_new(rates, conn_attr_name(rated[i]), json_real(rate));
	}
	json_object_set_new(object, "rates", rates);
	return object;
}

static void print_json(const struct show *show)
{
	json_t *list = need_memory(json_array());

	for (size_t i = 0; i < show->now.n; i++)
		if (filter_lets(&show->filter, &show->now.list[i]))
			json_array_append_new(list, json_of(show, &show->now.list[i]));
	if (show->rounds.every > 0)
		list = json_pack("{s:o}", "connections", list);
	rounds_json(&show->rounds, list);
}

/* ---- all attributes ---- */

#define NAME_WIDTH	18

static void print_line(const char *name, char *text)
{
	printf("    %-*s %s\n", NAME_WIDTH, name, text);
	free(text);
}

static void print_all(const struct show *show, const struct conn *conn)
{
	char *local = conn_end(conn, false), *remote = conn_end(conn, true);
	char *agreed = health_agreed(conn);

	printf("%s -> %s\n", local, remote);
	print_line("health", health_of(conn));
	if (*agreed)
		print_line("agreed on", strdup(agreed));
	if (show->processes)
		print_line("processes",
			   procs_text(&show->procs, conn_value(conn, MPA_A_CONN_INODE)));
	for (unsigned int i = 0; i <= MPA_A_CONN_MAX; i++)
		if (conn_has(conn, i))
			print_line(conn_attr_name(i), conn_attr_text(conn, i));
	for (size_t i = 0; show->rounds.since > 0 && i < RATED; i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s/s", conn_attr_name(rated[i]));
		print_line(name, rate_text(rate_of(show, conn, rated[i])));
	}
	free(local);
	free(remote);
	free(agreed);
}

static void print_verbose(const struct show *show)
{
	bool first = true;

	rounds_head(&show->rounds);
	for (size_t i = 0; i < show->now.n; i++) {
		if (!filter_lets(&show->filter, &show->now.list[i]))
			continue;
		if (!first)
			putchar('\n');
		first = false;
		print_all(show, &show->now.list[i]);
	}
}

/* ---- the table ---- */

static char *name_text(const struct conn *conn, unsigned int attr)
{
	if (conn->listens)
		return need_memory(strdup(attr == MPA_A_CONN_STATE ? "listening" : "-"));
	if (attr == MPA_A_CONN_ROLE && conn_is_tuf(conn))
		return need_memory(strdup("tuf"));
	return conn_attr_text(conn, attr);
}

static void columns(const struct show *show, struct table *table)
{
	table_column(table, "STATE", false);
	table_column(table, "ROLE", false);
	table_column(table, "LOCAL", false);
	table_column(table, "REMOTE", false);
	table_column(table, "AGREED ON", false);
	table_column(table, "MULPDU", true);
	if (show->rounds.every > 0) {
		table_column(table, "SENT/s", true);
		table_column(table, "OCTETS/s", true);
		table_column(table, "READ/s", true);
		table_column(table, "OCTETS/s", true);
	}
	if (show->processes)
		table_column(table, "PROCESSES", false);
	table_column(table, "HEALTH", false);
}

static void row(const struct show *show, struct table *table, const struct conn *conn)
{
	char **cell = table_row(table), *agreed = health_agreed(conn);

	if (!*agreed) {
		free(agreed);
		agreed = need_memory(strdup("-"));
	}
	*cell++ = name_text(conn, MPA_A_CONN_STATE);
	*cell++ = name_text(conn, MPA_A_CONN_ROLE);
	*cell++ = conn_end(conn, false);
	*cell++ = conn_end(conn, true);
	*cell++ = agreed;
	*cell++ = conn_value(conn, MPA_A_CONN_STATE) == MPA_STATE_FULL ?
		  conn_attr_text(conn, MPA_A_CONN_MULPDU) : need_memory(strdup("-"));
	for (size_t i = 0; show->rounds.every > 0 && i < RATED; i++)
		*cell++ = rate_text(rate_of(show, conn, rated[i]));
	if (show->processes)
		*cell++ = conn_has(conn, MPA_A_CONN_KERNEL) ?
			  need_memory(strdup("kernel")) :
			  procs_text(&show->procs, conn_value(conn, MPA_A_CONN_INODE));
	*cell = health_of(conn);
	if (health_has_failed(conn))
		table_colour(table, COLOUR_BAD);
}

static void print_table(const struct show *show)
{
	struct table table = {};

	columns(show, &table);
	for (size_t i = 0; i < show->now.n; i++)
		if (filter_lets(&show->filter, &show->now.list[i]))
			row(show, &table, &show->now.list[i]);
	rounds_head(&show->rounds);
	table_print(&table, !show->options.no_header);
	table_free(&table);
}

/* ---- the summary: a row for each pair of state and role ---- */

struct group {
	char *state;
	char *role;
	unsigned long n;
	unsigned long failed;
};

struct groups {
	struct group *list;
	size_t n;
};

static struct group *group_of(struct groups *groups, char *state, char *role)
{
	struct group *each = groups->list;

	for (; each < groups->list + groups->n; each++) {
		if (strcmp(each->state, state) || strcmp(each->role, role))
			continue;
		free(state);
		free(role);
		return each;
	}
	groups->list = need_memory(reallocarray(groups->list, groups->n + 1,
						sizeof(*groups->list)));
	each = &groups->list[groups->n++];
	*each = (struct group){ .state = state, .role = role };
	return each;
}

static void groups_count(const struct show *show, struct groups *groups)
{
	for (size_t i = 0; i < show->now.n; i++) {
		const struct conn *conn = &show->now.list[i];
		struct group *group;

		if (!filter_lets(&show->filter, conn))
			continue;
		group = group_of(groups, name_text(conn, MPA_A_CONN_STATE),
				 name_text(conn, MPA_A_CONN_ROLE));
		group->n++;
		group->failed += health_has_failed(conn);
	}
}

static int compare(const void *a, const void *b)
{
	const struct group *left = a, *right = b;

	return strcmp(left->state, right->state) ?: strcmp(left->role, right->role);
}

static json_t *groups_json(const struct groups *groups)
{
	json_t *list = need_memory(json_array());

	for (size_t i = 0; i < groups->n; i++) {
		const struct group *each = &groups->list[i];

		json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I}", "state",
						      each->state, "role", each->role,
						      "number", (json_int_t)each->n, "failed",
						      (json_int_t)each->failed));
	}
	return list;
}

static void groups_table(const struct show *show, const struct groups *groups)
{
	struct table table = {};

	table_column(&table, "NUMBER", true);
	table_column(&table, "FAILED", true);
	table_column(&table, "STATE", false);
	table_column(&table, "ROLE", false);
	for (size_t i = 0; i < groups->n; i++) {
		char **cell = table_row(&table);

		if (asprintf(&cell[0], "%lu", groups->list[i].n) < 0 ||
		    asprintf(&cell[1], "%lu", groups->list[i].failed) < 0)
			need_memory(NULL);
		cell[2] = need_memory(strdup(groups->list[i].state));
		cell[3] = need_memory(strdup(groups->list[i].role));
	}
	rounds_head(&show->rounds);
	table_print(&table, !show->options.no_header);
	table_free(&table);
}

static void groups_metrics(const struct groups *groups)
{
	puts("# TYPE mpa_connections gauge\n"
	     "# HELP mpa_connections sockets of MPA and TUF now");
	for (size_t i = 0; i < groups->n; i++)
		printf("mpa_connections{state=\"%s\",role=\"%s\"} %lu\n", groups->list[i].state,
		       groups->list[i].role, groups->list[i].n);
	puts("# EOF");
}

static void print_summary(const struct show *show)
{
	struct groups groups = {};

	groups_count(show, &groups);
	if (groups.n)
		qsort(groups.list, groups.n, sizeof(*groups.list), compare);
	if (show->options.openmetrics)
		groups_metrics(&groups);
	else if (show->options.json)
		rounds_json(&show->rounds, show->rounds.every > 0 ?
			    json_pack("{s:o}", "summary", groups_json(&groups)) :
			    groups_json(&groups));
	else
		groups_table(show, &groups);
	for (size_t i = 0; i < groups.n; i++) {
		free(groups.list[i].state);
		free(groups.list[i].role);
	}
	free(groups.list);
}

/* ---- options ---- */

static void show_round(struct show *show)
{
	const struct conns spare = show->before;

	show->before = show->now;
	show->now = spare;
	conn_dump(&show->nl, &show->now);
	conns_listeners(&show->now);
	if (show->processes) {
		procs_read(&show->procs);
		if (show->procs.hidden && show->rounds.done == 1)
			note("processes of other users are not shown: sudo mpa show -p");
	}
	if (show->options.openmetrics)
		show_stat_metrics();
	if (show->summary || show->options.openmetrics)
		print_summary(show);
	else if (show->options.json)
		print_json(show);
	else if (show->verbose)
		print_verbose(show);
	else
		print_table(show);
	say_flush();
}

int show_main(int argc, char **argv)
{
	static struct show show;

	show.words = argc;
	argp_parse(&argp, argc, argv, 0, NULL, &show);
	if (show.options.openmetrics && show.rounds.every > 0)
		die(STATUS_USAGE, "--openmetrics cannot be combined with --watch");
	if (show.words < argc && !strcmp(argv[show.words], "stat") && !show.options.openmetrics) {
		if (show.words < argc - 1)
			die(STATUS_USAGE, "%s: stat takes no argument",
			    argv[show.words + 1]);
		show_stat(&show.rounds, &show.options);
		return STATUS_OK;
	}
	filter_parse(&show.filter, argc - show.words, argv + show.words);
	show.filter.tuf |= show.tuf;
	nl_open(&show.nl);
	while (rounds_next(&show.rounds))
		show_round(&show);
	return STATUS_OK;
}
