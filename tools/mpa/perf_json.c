// SPDX-License-Identifier: GPL-2.0
/* Results as JSON: mpa-perf(1) describes the fields. */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BITS_PER_OCTET	8

enum { FORMAT = 1 };		/* version of the output */

/* Return: a number per second; null if @seconds is 0. */
static json_t *per_second(double number, double seconds)
{
	return seconds > 0 ? json_real(number / seconds) : json_null();
}

static json_t *us(double ns)
{
	return json_real(ns / NS_PER_US);
}

/* Return: a percentile; null if there are too few values. */
static json_t *percentile(const struct perf_histogram *times, double percent, unsigned int needs)
{
	return perf_histogram_count(times) >= needs ? us(perf_histogram_at(times, percent)) :
						      json_null();
}

static json_t *latency(const struct perf_histogram *times)
{
	return need_memory(json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"count", (json_int_t)perf_histogram_count(times),
		"min_us", us(perf_histogram_least(times)),
		"p50_us", percentile(times, 50, 2), "p90_us", percentile(times, 90, 10),
		"p99_us", percentile(times, 99, 100), "p99_9_us", percentile(times, 99.9, 1000),
		"max_us", us(perf_histogram_most(times)),
		"mean_us", us(perf_histogram_mean(times)),
		"deviation_us", us(perf_histogram_deviation(times))));
}

json_t *perf_json_interval(double from, double to, const struct perf_sums *sums,
			   const struct perf_histogram *times)
{
	json_t *object = need_memory(json_pack("{s:f, s:f, s:I, s:I, s:I, s:I}",
		"from", from, "to", to,
		"sent_octets", (json_int_t)sums->tx_octets,
		"sent_records", (json_int_t)sums->tx_records,
		"received_octets", (json_int_t)sums->rx_octets,
		"received_records", (json_int_t)sums->rx_records));

	if (perf_histogram_count(times))
		json_object_set_new(object, "latency", latency(times));
	return object;
}

/* Return: one direction's octets and records, sent and received. */
static json_t *direction(const struct perf_count *sent, const struct perf_count *received)
{
	return need_memory(json_pack("{s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:o}",
		"octets", (json_int_t)sent->octets, "records", (json_int_t)sent->records,
		"measured_octets", (json_int_t)received->measured_octets,
		"measured_records", (json_int_t)received->measured_records,
		"seconds", received->seconds,
		"octets_per_second", per_second(received->measured_octets, received->seconds),
		"bits_per_second", per_second((double)received->measured_octets * BITS_PER_OCTET,
					      received->seconds),
		"records_per_second", per_second(received->measured_records, received->seconds)));
}

static json_t *agreed(const struct mpa_info *mpa)
{
	static const char *const roles[] = { "none", "initiator", "responder", "direct" };

	return need_memory(json_pack("{s:s, s:i, s:b, s:b, s:b, s:b, s:i, s:i, s:i, s:i}",
		"role", roles[mpa->role & MPA_ROLE_DIRECT], "revision", mpa->revision,
		"markers_sent", !!(mpa->flags & MPA_INFO_TX_MARKERS),
		"markers_received", !!(mpa->flags & MPA_INFO_RX_MARKERS),
		"crcs_sent", !!(mpa->flags & MPA_INFO_TX_CRC),
		"crcs_received", !!(mpa->flags & MPA_INFO_RX_CRC),
		"emss", (int)mpa->emss, "mulpdu", (int)mpa->mulpdu,
		"ird", mpa->ird, "ord", mpa->ord));
}

static json_t *round_of(const struct perf_client *client, const struct perf_round *round)
{
	json_t *object = need_memory(json_pack("{s:s, s:b, s:o, s:o, s:o, s:o}",
		"framing", round->mpa ? "mpa" : "tcp",
		"interrupted", round->interrupted,
		"client", perf_side_pack(&round->client, round->mpa),
		"server", perf_side_pack(&round->server, round->mpa),
		"to_server", direction(&round->client.sent, &round->server.received),
		"to_client", direction(&round->server.sent, &round->client.received)));

	if (round->mpa)
		json_object_set_new(object, "agreed", agreed(&round->client.mpa));
	if (client->interval > 0)
		json_object_set(object, "intervals", round->intervals);
	if (client->params.test == PERF_LATENCY) {
		json_object_set_new(object, "latency", latency(round->times));
		json_object_set_new(object, "histogram", perf_histogram_pack(round->times));
	}
	return object;
}

static json_t *spread_of(const struct perf_spread *spread)
{
	return json_pack("{s:f, s:f, s:f}", "median", spread->median, "min", spread->least,
			 "max", spread->most);
}

static json_t *comparison(const struct perf_client *client, const struct perf_round *rounds,
			  unsigned int n)
{
	static const char *const metrics[] = {
		"octets_per_second", "records_per_second", "p50_us"
	};
	struct perf_spread mpa, tcp;

	perf_spread(&mpa, rounds, n, true);
	perf_spread(&tcp, rounds, n, false);
	return need_memory(json_pack("{s:s, s:b, s:o, s:o, s:o}",
		"metric", metrics[client->params.test],
		"one_machine", n && !strcmp(rounds[0].client.boot, rounds[0].server.boot),
		"mpa", spread_of(&mpa), "tcp", spread_of(&tcp),
		"ratio", tcp.median > 0 ? json_real(mpa.median / tcp.median) : json_null()));
}

json_t *perf_json(const struct perf_client *client, const char *peer,
		  const struct perf_round *rounds, unsigned int n, int status)
{
	json_t *object, *list = need_memory(json_array());
	time_t now = time(NULL);
	char when[32];

	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	for (unsigned int i = 0; i < n; i++)
		json_array_append_new(list, round_of(client, &rounds[i]));
	object = need_memory(json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:i}", "mpa_perf", FORMAT,
				       "version", argp_program_version, "time", when, "peer", peer,
				       "parameters", perf_params_pack(&client->params),
				       "rounds", list, "status", status));
	json_object_set_new(json_object_get(object, "parameters"), "interval",
			    json_real(client->interval));
	if (client->compare)
		json_object_set_new(object, "compare", comparison(client, rounds, n));
	return object;
}
