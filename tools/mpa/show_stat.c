// SPDX-License-Identifier: GPL-2.0
/*
 * "mpa show stat": the counters of /proc/net/mpa_stat in words; and the rounds
 * of --watch.
 */
#include "tool.h"
#include "show.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STAT_FILE	"/proc/net/mpa_stat"
#define NS_IN_S		1e9

/* ---- rounds ---- */

static double seconds_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec / NS_IN_S;
}

/* Wait for the next output. Return: false after the last one. */
bool rounds_next(struct rounds *rounds)
{
	double now = seconds_now(CLOCK_MONOTONIC), wait = rounds->before + rounds->every - now;

	if (rounds->done && (rounds->every <= 0 || rounds->done == rounds->count))
		return false;
	if (rounds->done && wait > 0) {
		struct timespec time = { .tv_sec = wait };

		time.tv_nsec = (wait - time.tv_sec) * NS_IN_S;
		while (nanosleep(&time, &time) && errno == EINTR)
			;
		now = seconds_now(CLOCK_MONOTONIC);
	}
	rounds->since = rounds->done ? now - rounds->before : 0;
	rounds->before = now;
	rounds->done++;
	return true;
}

/* Print the time before a table. */
void rounds_head(const struct rounds *rounds)
{
	const time_t now = time(NULL);
	struct tm local;
	char text[32];

	if (rounds->every <= 0)
		return;
	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	else if (rounds->done > 1)
		putchar('\n');
	localtime_r(&now, &local);
	strftime(text, sizeof(text), "%F %T", &local);
	printf("%s\n", text);
}

/* Print on one line if more outputs follow. Takes ownership of @it. */
void rounds_json(const struct rounds *rounds, json_t *it)
{
	const bool more = rounds->every > 0;

	if (more) {
		json_object_set_new(it, "time", json_real(seconds_now(CLOCK_REALTIME)));
		if (rounds->since > 0)
			json_object_set_new(it, "seconds", json_real(rounds->since));
	}
	json_dumpf(it, stdout, more ? JSON_COMPACT : JSON_INDENT(2));
	putchar('\n');
	json_decref(it);
}

/* ---- counters ---- */

/* Descriptions of the counters. */
static const struct counter_words {
	const char *name;
	const char *words;
	bool gauge;
} all_words[] = {
	{ "MpaCurrInitiators", "connections now, as initiators", true },
	{ "MpaCurrResponders", "connections now, as responders", true },
	{ "MpaCurrDirect", "connections now, started without startup frames", true },
	{ "MpaCurrTuf", "TUF connections with a framed direction now", true },
	{ "MpaInitiators", "connections started as initiators", false },
	{ "MpaResponders", "connections started as responders", false },
	{ "MpaDirect", "connections started without startup frames", false },
	{ "MpaTuf", "times that framing was enabled on a TUF connection", false },
	{ "MpaRefusedByPeer", "startups rejected by the peer", false },
	{ "MpaRefusedByUser", "startups rejected by the local program", false },
	{ "MpaRefusedMalformed", "startups with a malformed frame from the peer", false },
	{ "MpaRefusedTimeout", "startups whose peer sent no frame in time", false },
	{ "MpaRefusedLost", "startups during which TCP ended", false },
	{ "MpaRefusedOusted", "startups evicted, as startup-max was reached", false },
	{ "MpaRefusedLimit", "startups refused, as startup-max is 0", false },
	{ "MpaRefusedGivenUp", "startups ended by shutdown(2)", false },
	{ "MpaRefusedLocal", "startups aborted locally: out of memory, or a send failed", false },
	{ "MpaTxFpdus", "records sent", false },
	{ "MpaTxOctets", "octets of records sent", false },
	{ "MpaTxMarkers", "markers sent", false },
	{ "MpaTxFailed", "connections stopped: octets bypassed MPA, or no memory", false },
	{ "MpaTxPackets", "packets with data handed to IP", false },
	{ "MpaTxSegsAligned", "segments sent that start with a record", false },
	{ "MpaTxSegsOversized", "segments that do not: the record is too long for one", false },
	{ "MpaTxSegsWindow", "segments that do not: split at the peer's receive window", false },
	{ "MpaTxSegsOther", "segments that do not: the segment size changed", false },
	{ "MpaRxFpdus", "records received, verified and read", false },
	{ "MpaRxOctets", "octets of records received", false },
	{ "MpaRxMarkers", "markers received and checked", false },
	{ "MpaRxIncomplete", "connections stopped: the stream ended inside a record", false },
	{ "MpaRxBadCrc", "connections stopped: a CRC or a length was wrong", false },
	{ "MpaRxBadMarker", "connections stopped: a marker was wrong", false },
	{ "MpaRxFailedLocal", "connections stopped: read without MPA, or refused locally", false },
	{ "MpaDepthRefused", "connections without an agreement on IRD and ORD", false },
	{ "MpaRtrRefused", "connections without an agreement on RTR", false },
	{ "MpaRxPlaced", "records read out of order (placing)", false },
	{ "MpaRxPruned", "times that TCP dropped out-of-order records", false },
	{ "MpaRxStashed", "records longer than the receive buffer, copied in pieces", false },
	{ "MpaLost", "connections lost by TCP", false },
	{ "MpaTimedOut", "connections whose peer did not answer TCP for too long", false },
	{ "MpaEventsLost", "events that could not be sent to listeners", false },
	{ "MpaRecordsLost", "records that taps have missed", false },
	{ "MpaTufResegmented", "TUF connections whose stream is resegmented on the path", false },
	{ "MpaTufTrimmed", "TUF segments sent one octet shorter", false },
	{ "MpaInStartup", "connections in startup now: responders and initiators", true },
	{ "MpaStartupOusted", "responders evicted, as startup-max was reached", false },
	{ "MpaMemKept", "octets cached for transmission, of the whole machine", true },
	{}
};

struct counter {
	char name[40];
	__u64 value;
	__u64 before;
};

struct counters {
	struct counter list[128];
	size_t n;
};

static const struct counter_words *words_of(const struct counter *counter)
{
	const struct counter_words *words = all_words;

	while (words->name && strcmp(words->name, counter->name))
		words++;
	return words;
}

static double rate_of(const struct counter *counter, const struct rounds *rounds)
{
	return (counter->value - counter->before) / rounds->since;
}

static bool has_rate(const struct counter *counter, const struct rounds *rounds)
{
	return rounds->since > 0 && !words_of(counter)->gauge &&
	       counter->value >= counter->before;
}

/*
 * Read the counters. counter->before has the same position: the counters' order does
 * not change.
 */
static void counters_read(struct counters *counters)
{
	FILE *file = fopen(STAT_FILE, "re");
	struct counter line;

	if (!file && errno == ENOENT)
		die(STATUS_LOCAL, "mpa is not loaded: sudo modprobe mpa (or insmod mpa.ko)");
	if (!file)
		die(STATUS_LOCAL, STAT_FILE ": %m");
	counters->n = 0;
	while (counters->n < sizeof(counters->list) / sizeof(*counters->list) &&
	       fscanf(file, "%39s %llu", line.name, &line.value) == 2) {
		line.before = counters->list[counters->n].value;
		counters->list[counters->n++] = line;
	}
	fclose(file);
}

static void counters_json(const struct counters *counters, const struct rounds *rounds)
{
	json_t *values = need_memory(json_object()), *rates = need_memory(json_object()), *it;

	for (size_t i = 0; i < counters->n; i++) {
		const struct counter *each = &counters->list[i];

		json_object_set_new(values, each->name, json_integer(each->value));
		if (has_rate(each, rounds))
			json_object_set_new(rates, each->name, json_real(rate_of(each, rounds)));
	}
	it = values;
	if (rounds->every > 0) {
		it = need_memory(json_object());
		json_object_set(it, "counters", values);
		if (rounds->since > 0)
			json_object_set(it, "rates", rates);
		json_decref(values);
	}
	json_decref(rates);
	rounds_json(rounds, it);
}

/* ---- OpenMetrics ---- */

/* Turn MpaTxFpdus into mpa_tx_fpdus. */
static void metric_name(char *to, const char *from)
{
	for (const char *each = from; *each; each++) {
		if (each > from && isupper(*each))
			*to++ = '_';
		*to++ = tolower(*each);
	}
	*to = 0;
}

/* Print all counters once. */
void show_stat_metrics(void)
{
	static struct counters counters;
	char name[2 * sizeof(counters.list->name)];

	counters_read(&counters);
	for (size_t i = 0; i < counters.n; i++) {
		const struct counter_words *words = words_of(&counters.list[i]);

		metric_name(name, counters.list[i].name);
		printf("# TYPE %s %s\n", name, words->gauge ? "gauge" : "counter");
		if (words->words)
			printf("# HELP %s %s\n", name, words->words);
		printf("%s%s %llu\n", name, words->gauge ? "" : "_total", counters.list[i].value);
	}
}

static char *number_text(__u64 number)
{
	char *text;

	if (asprintf(&text, "%llu", number) < 0)
		need_memory(NULL);
	return text;
}

static void counter_row(struct table *table, const struct counter *counter,
			const struct rounds *rounds)
{
	const struct counter_words *words = words_of(counter);
	char **cell = table_row(table);

	*cell++ = number_text(counter->value);
	if (rounds->every > 0)
		*cell++ = has_rate(counter, rounds) ? table_rate(rate_of(counter, rounds)) :
						      need_memory(strdup("-"));
	*cell++ = need_memory(strdup(counter->name));
	*cell = need_memory(strdup(words->words ?: ""));
}

/* Print counters above 0; with --all the others follow. */
static void counters_table(const struct counters *counters, const struct rounds *rounds,
			   const struct show_options *options)
{
	struct table table = {};

	table_column(&table, "VALUE", true);
	if (rounds->every > 0)
		table_column(&table, "PER SECOND", true);
	table_column(&table, "NAME", false);
	table_column(&table, "WHAT", false);
	for (size_t i = 0; i < counters->n; i++)
		if (counters->list[i].value)
			counter_row(&table, &counters->list[i], rounds);
	for (size_t i = 0; options->all && i < counters->n; i++)
		if (!counters->list[i].value)
			counter_row(&table, &counters->list[i], rounds);
	rounds_head(rounds);
	if (table.rows)
		table_print(&table, !options->no_header);
	else
		puts("all counters are 0 (mpa show stat --all prints them)");
	table_free(&table);
}

void show_stat(struct rounds *rounds, const struct show_options *options)
{
	static struct counters counters;

	while (rounds_next(rounds)) {
		counters_read(&counters);
		if (options->json)
			counters_json(&counters, rounds);
		else
			counters_table(&counters, rounds, options);
		say_flush();
	}
}
