// SPDX-License-Identifier: GPL-2.0
/* Print results as text. */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB		1048576.0
#define GIB		1073741824.0
#define BITS_PER_GBIT	1e9
#define US_PER_S	1e6
#define SHORTEST	0.0001	/* minimum number of seconds for a rate */

/* Return: four significant digits, or all digits before the point. The caller frees it. */
static char *digits(double value)
{
	int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;

	if (value > 0 && value < 0.1)
		return perf_text("%.3g", value);
	return perf_text("%.*f", decimals, value);
}

char *perf_report_rate(double octets, double seconds)
{
	char *mib, *gbit, *text;

	if (octets <= 0)
		return perf_text("nothing");
	if (seconds < SHORTEST)
		return perf_text("too short for a rate");
	mib = digits(octets / seconds / MIB);
	gbit = digits(octets / seconds * 8 / BITS_PER_GBIT);
	text = perf_text("%s MiB/s, %s Gbit/s", mib, gbit);
	free(mib);
	free(gbit);
	return text;
}

static char *per_second(double number, double seconds)
{
	return seconds < SHORTEST ? perf_text("?") : digits(number / seconds);
}

static const char *many(double n)
{
	return n == 1 ? "" : "s";
}

static void describe(const struct perf_params *params)
{
	if (params->test == PERF_LATENCY)
		printf("requests and answers of %u octets", params->size);
	else if (!params->mpa)
		printf("calls of %u octets", params->size);
	else if (params->segment == MPA_SEGMENT_OFF)
		printf("records of %u octets", params->size);
	else if (params->segment == MPA_SEGMENT_FILL)
		printf("calls of %u octets, split into records that fill segments", params->size);
	else
		printf("calls of %u octets, split into records of %d", params->size,
		       params->segment);
	if (params->batch > 1)
		printf(", up to %u a call", params->batch);
}

void perf_report_begin(const struct perf_client *client, const char *peer)
{
	const struct perf_params *params = &client->params;
	const char *direction = params->to_server && params->to_client ? "both ways" :
				params->to_server ? "to the server" : "to the client";

	if (say_quiet)
		return;
	printf("%s: %s, %s, %u connection%s, ", peer, perf_tests[params->test],
	       params->test == PERF_LATENCY ? "round trip" : direction,
	       params->connections, many(params->connections));
	describe(params);
	if (client->compare)
		printf("; MPA and plain TCP, %u rounds each", client->rounds);
	else if (!params->mpa)
		printf("; plain TCP");
	printf("\n");
	fflush(stdout);
}

static void interval_direction(const char *what, uint64_t octets, uint64_t records, double seconds)
{
	char *rate = perf_report_rate(octets, seconds), *records_rate;

	if (octets) {
		records_rate = per_second(records, seconds);
		printf("  %s %s, %s records/s", what, rate, records_rate);
		free(records_rate);
	} else {
		printf("  %s nothing", what);
	}
	free(rate);
}

void perf_report_interval(const struct perf_client *client, double from, double to,
			  const struct perf_sums *sums, const struct perf_histogram *times)
{
	const struct perf_params *params = &client->params;

	printf("%7.2f to %7.2f s:", from, to);
	if (params->test == PERF_LATENCY) {
		printf("  %llu answers, 50 %% within %.1f us, max %.1f us",
		       (unsigned long long)perf_histogram_count(times),
		       perf_histogram_at(times, 50) / NS_PER_US,
		       perf_histogram_most(times) / NS_PER_US);
	} else {
		if (params->to_server)
			interval_direction("sent", sums->tx_octets, sums->tx_records, to - from);
		if (params->to_client)
			interval_direction("received", sums->rx_octets, sums->rx_records,
					   to - from);
	}
	printf("\n");
	fflush(stdout);
}

static void report_direction(const char *to, const struct perf_count *sent,
			     const struct perf_count *received, bool mpa)
{
	char *rate = perf_report_rate(received->measured_octets, received->seconds);
	char *records = per_second(received->measured_records, received->seconds);

	printf("to the %s: %llu octets (%.2f MiB), %llu records%s sent and received\n",
	       to, (unsigned long long)sent->octets, sent->octets / MIB,
	       (unsigned long long)sent->records, mpa ? "" : " (octets divided by the size)");
	printf("  received: %llu octets in %.3f s: %s, %s records/s\n",
	       (unsigned long long)received->measured_octets, received->seconds, rate, records);
	free(rate);
	free(records);
	rate = perf_report_rate(sent->measured_octets, sent->seconds);
	printf("  sent:     %llu octets in %.3f s: %s, including octets still in buffers\n",
	       (unsigned long long)sent->measured_octets, sent->seconds, rate);
	free(rate);
}

/* Print a percentile; "-" if there are fewer than @needs values. */
static void percentile(const struct perf_histogram *times, double percent, unsigned int needs)
{
	if (perf_histogram_count(times) < needs)
		printf("  %g %% -", percent);
	else
		printf("  %g %% %.1f", percent, perf_histogram_at(times, percent) / NS_PER_US);
}

static void report_latency(const struct perf_params *params, const struct perf_round *round)
{
	const struct perf_count *received = &round->client.received;
	const struct perf_histogram *times = round->times;
	uint64_t n = perf_histogram_count(times);
	char *rate = per_second(n, received->seconds);

	printf("%llu requests of %u octets answered in %.3f s: %s/s\n", (unsigned long long)n,
	       params->size, received->seconds, rate);
	free(rate);
	if (!n)
		return;
	printf("round trip in us: min %.1f", perf_histogram_least(times) / NS_PER_US);
	percentile(times, 50, 2);
	percentile(times, 90, 10);
	percentile(times, 99, 100);
	percentile(times, 99.9, 1000);
	printf("  max %.1f  mean %.1f  deviation %.1f\n", perf_histogram_most(times) / NS_PER_US,
	       perf_histogram_mean(times) / NS_PER_US,
	       perf_histogram_deviation(times) / NS_PER_US);
	if (n < 1000)
		printf("  -: too few answers for that percentile\n");
}

static void report_cpu(const char *name, const struct perf_side *side,
		       const struct perf_params *params)
{
	double octets = side->sent.measured_octets + side->received.measured_octets;
	double cpu = side->cpu_user + side->cpu_system;

	printf("CPU of the %s: user %.3f s, system %.3f s", name, side->cpu_user,
	       side->cpu_system);
	if (side->cpu_seconds >= SHORTEST)
		printf(", %.1f %% of a processor", 100 * cpu / side->cpu_seconds);
	if (params->test == PERF_LATENCY && side->sent.measured_records)
		printf(", %.1f us a request", cpu * US_PER_S / side->sent.measured_records);
	else if (octets > 0)
		printf(", %.3g s per GiB", cpu / (octets / GIB));
	printf("; TCP retransmitted %llu segment%s (%s, MSS %llu)\n",
	       (unsigned long long)side->tcp_retransmitted, many(side->tcp_retransmitted),
	       side->congestion, (unsigned long long)side->tcp_mss);
}

static void report_segments(const char *name, const struct mpa_info *mpa)
{
	uint64_t all = mpa->tx_segs_aligned + mpa->tx_segs_unaligned;

	printf("MPA of the %s: ", name);
	if (all)
		printf("%.2f %% of %llu segments start with an FPDU", 100.0 *
		       mpa->tx_segs_aligned / all, (unsigned long long)all);
	else
		printf("no segments sent");
	printf("; markers: %llu sent, %llu received; out of order: %llu records\n",
	       (unsigned long long)mpa->tx_markers, (unsigned long long)mpa->rx_markers,
	       (unsigned long long)mpa->rx_placed);
}

static void report_mpa(const struct perf_params *params, const struct perf_round *round)
{
	char *agreed = start_agreed(&round->client.mpa);

	printf("negotiated: %s at the client, %u at the server\n", agreed,
	       round->server.mpa.mulpdu);
	free(agreed);
	report_segments("client", &round->client.mpa);
	report_segments("server", &round->server.mpa);
	if (params->start.start.flags & MPA_START_NO_CRC && round->client.mpa.flags & MPA_INFO_CRC)
		puts("CRCs are on: --no-crc needs net.mpa.crc_optional=1 at both ends");
}

/* Report a test that ended early. */
static void report_missing(const struct perf_params *params, const struct perf_round *round)
{
	uint64_t sent = params->to_server ? round->client.sent.measured_octets :
					    round->server.sent.measured_octets;

	if (round->interrupted)
		printf("interrupted: the test ended early\n");
	else if (params->octets && sent < params->octets)
		printf("--time expired before %llu octets were sent\n",
		       (unsigned long long)params->octets);
}

void perf_report_round(const struct perf_client *client, const struct perf_round *round)
{
	const struct perf_params *params = &client->params;

	if (params->test == PERF_LATENCY) {
		report_latency(params, round);
	} else {
		if (params->to_server)
			report_direction("server", &round->client.sent, &round->server.received,
					 round->mpa);
		if (params->to_client)
			report_direction("client", &round->server.sent, &round->client.received,
					 round->mpa);
	}
	report_missing(params, round);
	if (say_quiet)
		return;
	if (params->verify)
		printf("all received octets were verified\n");
	report_cpu("client", &round->client, params);
	report_cpu("server", &round->server, params);
	if (round->mpa)
		report_mpa(params, round);
}

/* Return: the value to compare, with its unit. */
static char *metric(const struct perf_params *params, double value)
{
	char *number, *text;

	if (params->test == PERF_STREAM)
		return perf_report_rate(value, 1);
	number = digits(value);
	text = perf_text(params->test == PERF_RATE ? "%s records/s" :
			 "%s us (median round trip)", number);
	free(number);
	return text;
}

void perf_report_line(const struct perf_client *client, const struct perf_round *round,
		      unsigned int number)
{
	char *text;

	if (say_quiet)
		return;
	text = metric(&client->params, round->metric);
	printf("round %u, %-9s  %s%s\n", number / 2 + 1, round->mpa ? "MPA:" : "plain TCP:", text,
	       round->interrupted ? " (interrupted)" : "");
	free(text);
	fflush(stdout);
}

static int by_size(const void *one, const void *other)
{
	const double *a = one, *b = other;

	return (*a > *b) - (*a < *b);
}

void perf_spread(struct perf_spread *spread, const struct perf_round *rounds,
		 unsigned int n, bool mpa)
{
	double *value = need_memory(calloc(n + 1, sizeof(*value)));
	unsigned int have = 0;

	for (unsigned int i = 0; i < n; i++)
		if (rounds[i].mpa == mpa)
			value[have++] = rounds[i].metric;
	*spread = (struct perf_spread){};
	qsort(value, have, sizeof(*value), by_size);
	if (have) {
		spread->median = (value[(have - 1) / 2] + value[have / 2]) / 2;
		spread->least = value[0];
		spread->most = value[have - 1];
	}
	free(value);
}

static void spread_line(const struct perf_client *client, const char *name,
			const struct perf_spread *spread)
{
	char *median = metric(&client->params, spread->median);
	char *least = metric(&client->params, spread->least);
	char *most = metric(&client->params, spread->most);

	printf("%-10s median %s\n           least  %s\n           most   %s\n", name, median, least,
	       most);
	free(median);
	free(least);
	free(most);
}

static const char one_machine[] =
	"Both ends ran on one machine: they shared its processors and caches, and no packet was\n"
	"on a wire. The ratio between two machines, with the offloads of network adapters, may\n"
	"differ.";

static const char two_machines[] =
	"The network, the client or the server may have been the bottleneck. If it was the\n"
	"network, the ratio is near 1 whatever MPA costs: compare the CPU times (--json, or a\n"
	"run without --compare).";

static const char virtual_machine[] =
	"An end ran in a virtual machine: its processors may be preempted at any time, and\n"
	"emulated instructions, such as those of the CRC, cost more than on hardware. The\n"
	"ratios in README are of counted instructions instead.";

/* Print warnings that the ratio does not show. */
static void caution(const struct perf_round *round)
{
	const struct perf_side *client = &round->client, *server = &round->server;

	puts(strcmp(client->boot, server->boot) ? two_machines : one_machine);
	if (client->virtual || server->virtual)
		puts(virtual_machine);
	puts("The ratio holds only for this path, this size of records and these kernels.");
}

void perf_report_compare(const struct perf_client *client, const struct perf_round *rounds,
			 unsigned int n)
{
	const struct perf_params *params = &client->params;
	struct perf_spread mpa, tcp;

	perf_spread(&mpa, rounds, n, true);
	perf_spread(&tcp, rounds, n, false);
	if (!n || mpa.median <= 0 || tcp.median <= 0) {
		printf("nothing to compare: no round of both was completed\n");
		return;
	}
	if (n < 2 * client->rounds)
		printf("interrupted: %u of %u runs\n", n, 2 * client->rounds);
	if (params->test == PERF_RATE)
		printf("Plain TCP has no records: their number is octets divided by the size.\n");
	spread_line(client, "MPA:", &mpa);
	spread_line(client, "plain TCP:", &tcp);
	printf("ratio of the medians, MPA to plain TCP: %.3f, wall-clock (%s is better)%s\n",
	       mpa.median / tcp.median, params->test == PERF_LATENCY ? "less" : "more",
	       mpa.least <= tcp.most && tcp.least <= mpa.most ?
	       "; the ranges overlap: it may be chance" : "");
	if (!say_quiet)
		caution(rounds);
}
