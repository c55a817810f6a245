// SPDX-License-Identifier: GPL-2.0
/*
 * The client: request runs from the server, open their connections, and compare both
 * ends' counters.
 */
#include "perf.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAST_WORDS_MS = 1000 };	/* for the server's error, after a failure */

static void on_interrupt(int signal)
{
	(void)signal;
	perf_interrupted = true;
}

/* Report an error, with --json in JSON, too. Return: the exit status. */
static int failed(const struct perf_client *client, enum status status, const char *why)
{
	json_t *object;

	complain("%s", why);
	if (!client->json)
		return status;
	object = need_memory(json_pack("{s:s, s:i}", "error", why, "status", status));
	json_dumpf(object, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(object);
	return status;
}

/* Append the reason, if the server has reported it before closing the connections. */
static void add_last_words(int control, enum status *status, char **why)
{
	json_t *message, *error;
	char *nothing, *said;

	message = perf_control_receive(control, LAST_WORDS_MS, &nothing);
	error = json_object_get(message, "error");
	if (json_is_string(error)) {
		said = printable(json_string_value(error), json_string_length(error));
		*why = perf_text("%s; the server says: %s", *why, said);
		if (json_integer_value(json_object_get(message, "status")) == STATUS_DIFFERS)
			*status = STATUS_DIFFERS;
		free(said);
	}
	json_decref(message);
}

/* Wait for the server's next message, which must have the member @what. */
static enum status await(int control, const char *what, json_t **value, char **why)
{
	json_t *message = perf_control_receive(control, PERF_PATIENCE_MS, why), *error;
	enum status status = STATUS_STARTUP;
	char *said;

	if (!message)
		return STATUS_LOST;
	*value = json_incref(json_object_get(message, what));
	error = json_object_get(message, "error");
	if (*value) {
		status = STATUS_OK;
	} else if (json_is_string(error)) {
		said = printable(json_string_value(error), json_string_length(error));
		*why = perf_text("the server says: %s", said);
		free(said);
		status = json_integer_value(json_object_get(message, "status"));
		if (status <= STATUS_OK || status > STATUS_DIFFERS)
			status = STATUS_LOST;
	} else {
		*why = perf_text("unexpected message from the server");
	}
	json_decref(message);
	return status;
}

static enum status open_flow(struct perf_run *run, const struct endpoint *to, const char *token,
			     unsigned int index, char **why)
{
	struct perf_flow *flow = &run->flow[index];
	enum status status;

	flow->fd = endpoint_connect(to, AF_UNSPEC);
	if (!perf_hello_send(flow->fd, "DATA %s %u", token, index)) {
		*why = perf_text("the server closed a connection: %s", strerror(errno));
		return STATUS_LOST;
	}
	status = perf_hello_answer(flow->fd, why);
	if (status == STATUS_OK)
		status = perf_flow_start(flow, why);
	if (status == STATUS_OK)
		run->n = index + 1;
	return status;
}

/* Open all connections of the run, to the control connection's address. */
static enum status open_flows(struct perf_run *run, const char *token, char **why)
{
	char *address = endpoint_of(run->control, true);
	enum status status = STATUS_OK;
	json_t *ready = NULL;
	struct endpoint to;

	endpoint_parse(&to, address);
	free(address);
	for (unsigned int i = 0; i < run->params->connections && status == STATUS_OK; i++)
		status = open_flow(run, &to, token, i, why);
	if (status != STATUS_OK) {
		add_last_words(run->control, &status, why);
		return status;
	}
	status = await(run->control, "ready", &ready, why);
	json_decref(ready);
	return status;
}

/* Start the run: the receiver has to start its clock before the other end sends. */
static enum status go(struct perf_run *run, char **why)
{
	json_t *going = NULL;
	enum status status;

	run->begun = perf_now();
	if (!perf_control_send(run->control, json_pack("{s:b}", "go", 1))) {
		*why = perf_text("the server has gone");
		return STATUS_LOST;
	}
	status = await(run->control, "going", &going, why);
	json_decref(going);
	if (run->params->to_server)
		run->begun = perf_now();
	return status;
}

/*
 * Whether both ends count the same. Plain TCP has no records: their number is octets
 * divided by the size.
 */
static bool same(const struct perf_count *sent, const struct perf_count *received, bool mpa)
{
	return sent->octets == received->octets && (!mpa || sent->records == received->records);
}

static enum status judge(const struct perf_round *round, char **why)
{
	const struct perf_count *sent = &round->client.sent, *received = &round->server.received;
	static const char differ[] =
		"to the %s: sent %llu octets, %llu records; received there %llu and %llu";
	const char *to = "server";

	if (same(sent, received, round->mpa)) {
		sent = &round->server.sent;
		received = &round->client.received;
		to = "client";
	}
	if (same(sent, received, round->mpa))
		return STATUS_OK;
	*why = perf_text(differ, to, (unsigned long long)sent->octets,
			 (unsigned long long)sent->records, (unsigned long long)received->octets,
			 (unsigned long long)received->records);
	return STATUS_DIFFERS;
}

static double per_second(double number, double seconds)
{
	return seconds > 0 ? number / seconds : 0;
}

static double metric_of(const struct perf_params *params, const struct perf_round *round)
{
	const struct perf_count *up = &round->server.received, *down = &round->client.received;

	if (params->test == PERF_LATENCY)
		return perf_histogram_at(round->times, 50) / NS_PER_US;
	if (params->test == PERF_RATE)
		return per_second(up->measured_records, up->seconds) +
		       per_second(down->measured_records, down->seconds);
	return per_second(up->measured_octets, up->seconds) +
	       per_second(down->measured_octets, down->seconds);
}

static void tick(struct perf_run *run, double from, double to, const struct perf_sums *now)
{
	const struct perf_sums *base = &run->interval_base;
	struct perf_round *round = run->tick_data;
	struct perf_sums sums = {
		.tx_octets = now->tx_octets - base->tx_octets,
		.tx_records = now->tx_records - base->tx_records,
		.rx_octets = now->rx_octets - base->rx_octets,
		.rx_records = now->rx_records - base->rx_records,
	};

	/* This is after the last octet, and before the end of the run. */
	if (!sums.tx_octets && !sums.rx_octets && to - from < run->interval / 2)
		return;
	if (round->client_options->json)
		json_array_append_new(round->intervals,
				      perf_json_interval(from, to, &sums, run->interval_times));
	else
		perf_report_interval(round->client_options, from, to, &sums,
				     run->interval_times);
}

/* Exchange counters with the other end. */
static enum status exchange(struct perf_run *run, struct perf_round *round, char **why)
{
	json_t *results = json_incref(run->peer);
	enum status status = STATUS_OK;

	perf_run_side(run, &round->client);
	if (!perf_control_send(run->control,
			       json_pack("{s:o}", "results",
					 perf_side_pack(&round->client, round->mpa)))) {
		*why = perf_text("the server closed the connection before it sent its results");
		status = STATUS_LOST;
	}
	if (status == STATUS_OK && !results)
		status = await(run->control, "results", &results, why);
	if (status == STATUS_OK && !perf_side_unpack(&round->server, results)) {
		*why = perf_text("invalid results from the server: a number is missing");
		status = STATUS_STARTUP;
	}
	json_decref(results);
	return status == STATUS_OK ? judge(round, why) : status;
}

static enum status run_it(struct perf_run *run, struct perf_round *round, char **why)
{
	enum status status;
	json_t *token;

	*why = perf_text("the server has gone");
	if (!perf_control_send(run->control, perf_params_pack(run->params)))
		return STATUS_LOST;
	status = await(run->control, "token", &token, why);
	if (status != STATUS_OK)
		return status;
	status = STATUS_STARTUP;
	if (json_string_length(token) == PERF_TOKEN)
		status = open_flows(run, json_string_value(token), why);
	json_decref(token);
	if (status == STATUS_OK)
		status = go(run, why);
	if (status != STATUS_OK)
		return status;
	status = perf_run(run, why);
	if (status == STATUS_OK)
		return exchange(run, round, why);
	if (status == STATUS_LOST)
		add_last_words(run->control, &status, why);
	perf_control_send(run->control, json_pack("{s:s, s:i}", "error", *why, "status", status));
	return status;
}

static enum status measure(const struct perf_client *client, int control,
			   struct perf_round *round, char **why)
{
	struct perf_params params = client->params;
	struct perf_run run;
	enum status status;

	params.mpa = round->mpa;
	round->client_options = client;
	round->intervals = need_memory(json_array());
	perf_run_init(&run, &params, false, control);
	if (client->interval > 0) {
		run.interval = client->interval;
		run.tick = tick;
		run.tick_data = round;
	}
	status = run_it(&run, round, why);
	round->times = perf_histogram_new();
	perf_histogram_merge(round->times, run.times);
	round->interrupted = run.interrupted;
	round->metric = metric_of(&params, round);
	perf_run_end(&run);
	return status;
}

static void show(const struct perf_client *client, const char *peer,
		 const struct perf_round *rounds, unsigned int n, int status)
{
	if (client->json) {
		json_t *object = perf_json(client, peer, rounds, n, status);

		json_dumpf(object, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(object);
	} else if (client->compare) {
		perf_report_compare(client, rounds, n);
	} else if (n) {
		perf_report_round(client, rounds);
	}
}

/* Alternate between MPA and TCP, so that changes over time affect both. */
static int measure_all(const struct perf_client *client, int control, const char *peer)
{
	unsigned int n = client->compare ? 2 * client->rounds : 1, i;
	struct perf_round *rounds = need_memory(calloc(n, sizeof(*rounds)));
	int status = STATUS_OK;
	char *why = NULL;

	if (!client->json)
		perf_report_begin(client, peer);
	for (i = 0; i < n && !perf_interrupted; i++) {
		rounds[i].mpa = client->compare ? i % 2 == 0 : client->params.mpa;
		status = measure(client, control, &rounds[i], &why);
		if (status != STATUS_OK)
			return failed(client, status, why);
		if (client->compare && !client->json)
			perf_report_line(client, &rounds[i], i);
	}
	if (i < n || rounds[i - 1].interrupted)
		status = STATUS_INTERRUPTED;
	/* An interrupted round cannot be compared. */
	if (client->compare && i && rounds[i - 1].interrupted)
		i--;
	show(client, peer, rounds, i, status);
	if (fflush(stdout))
		die(STATUS_LOCAL, "standard output: %m");
	return status;
}

int perf_client(struct perf_client *client)
{
	/* The first SIGINT interrupts a waiting run, the second kills the program. */
	struct sigaction action = {
		.sa_handler = on_interrupt,
		.sa_flags = SA_RESETHAND | SA_RESTART,
	};
	enum status status;
	char *peer, *why;
	int control, rc;

	if (client->params.mpa || client->compare) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		/* Check that the kernel has MPA before contacting the server. */
		start_attach(fd);
		close(fd);
	}
	control = endpoint_connect(&client->to, client->params.start.family);
	why = perf_text("the peer closed the connection: is it an mpa perf server?");
	status = perf_hello_send(control, "CONTROL") ? perf_hello_answer(control, &why) :
						       STATUS_STARTUP;
	if (status != STATUS_OK)
		return failed(client, status, why);
	sigaction(SIGINT, &action, NULL);
	peer = endpoint_of(control, true);
	rc = measure_all(client, control, peer);
	free(peer);
	close(control);
	return rc;
}
