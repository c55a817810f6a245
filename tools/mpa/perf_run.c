// SPDX-License-Identifier: GPL-2.0
/*
 * A run: serve all connections with epoll until each is shut down in both directions.
 * An end that only receives calls shutdown() after the end of stream, so that the
 * sender knows that all was read.
 */
#include "perf.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	EVENTS = 64,
	BUF_MAX = 1 << 20,
	LOOK_MS = 1000,			/* interval between checks for progress */
};

atomic_bool perf_interrupted;

static uint64_t whole(uint64_t octets, unsigned int size)
{
	return (octets + size - 1) / size * size;
}

static void fill_pattern(struct perf_run *run, size_t len)
{
	uint64_t state = 0x6d7061706572665f;

	run->pattern = need_memory(malloc(PERF_PATTERN + len));
	for (size_t i = 0; i < PERF_PATTERN; i++) {
		/* xorshift64 */
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		run->pattern[i] = state >> 56;
	}
	for (size_t i = 0; i < len; i++)
		run->pattern[PERF_PATTERN + i] = run->pattern[i];
}

/* Return: the size of the receive buffer; for plain TCP, the size of one send. */
static size_t buffer_of(const struct perf_params *params)
{
	size_t len = params->size;

	if (params->mpa)
		return params->batch > 1 ? BUF_MAX : MPA_ULPDU_MAX;
	if (params->segment == MPA_SEGMENT_OFF)
		len *= params->batch;
	return len < BUF_MAX ? len : BUF_MAX;
}

void perf_run_init(struct perf_run *run, const struct perf_params *params, bool server,
		   int control)
{
	memset(run, 0, sizeof(*run));
	run->params = params;
	run->server = server;
	run->control = control;
	run->epoll = -1;
	run->asks = params->test == PERF_LATENCY && !server;
	run->answers = params->test == PERF_LATENCY && server;
	run->sends = params->test != PERF_LATENCY &&
		     (server ? params->to_client : params->to_server);
	run->buf_len = buffer_of(params);
	run->buf = need_memory(malloc(run->buf_len));
	fill_pattern(run, run->buf_len > params->size ? run->buf_len : params->size);
	if (params->mpa && (params->batch > 1 || (params->verify && params->start.place)))
		run->cmsg_len = CMSG_SPACE(params->batch * sizeof(uint32_t)) +
				CMSG_SPACE(sizeof(struct mpa_recvinfo));
	run->cmsg = need_memory(malloc(run->cmsg_len + 1));
	run->times = perf_histogram_new();
	run->interval_times = perf_histogram_new();
	run->flow = need_memory(calloc(params->connections, sizeof(*run->flow)));
	for (unsigned int i = 0; i < params->connections; i++)
		run->flow[i] = (struct perf_flow){
			.run = run,
			.fd = -1,
			.tx_limit = run->sends ? UINT64_MAX : 0,
			.tx_final = UINT64_MAX,
		};
}

void perf_run_end(struct perf_run *run)
{
	for (unsigned int i = 0; i < run->params->connections; i++)
		if (run->flow[i].fd >= 0)
			close(run->flow[i].fd);
	if (run->epoll >= 0)
		close(run->epoll);
	json_decref(run->peer);
	free(run->flow);
	free(run->buf);
	free(run->cmsg);
	free(run->pattern);
	free(run->times);
	free(run->interval_times);
}

void perf_run_sums(const struct perf_run *run, struct perf_sums *sums)
{
	*sums = (struct perf_sums){};
	for (unsigned int i = 0; i < run->n; i++) {
		const struct perf_flow *flow = &run->flow[i];

		sums->tx_octets += flow->tx_octets;
		sums->tx_records += perf_flow_sent(flow);
		sums->rx_octets += flow->rx_octets;
		sums->rx_records += perf_flow_received(flow);
	}
}

static void take_answer(struct perf_run *run, struct perf_flow *flow)
{
	uint64_t now = perf_now();

	if (run->warm)
		perf_histogram_add(run->interval_times, now - flow->asked);
	if (flow->tx_limit + run->params->size <= flow->tx_final) {
		flow->tx_limit += run->params->size;
		flow->asked = now;
	} else {
		flow->tx_final = flow->tx_limit;
	}
}

/* Whether the connection's sending is complete. */
static bool has_sent(const struct perf_run *run, const struct perf_flow *flow)
{
	if (run->sends)
		return flow->tx_octets == flow->tx_final;
	if (run->asks)
		return flow->rx_octets == flow->tx_octets && flow->tx_octets == flow->tx_final;
	return flow->ended && flow->tx_octets == flow->tx_limit;
}

/* Update the events that epoll reports for the connection. */
static enum status wait_for(struct perf_run *run, struct perf_flow *flow, char **why)
{
	unsigned int events = (flow->ended ? 0 : EPOLLIN) |
			      (flow->tx_octets < flow->tx_limit ? EPOLLOUT : 0);
	struct epoll_event event = { .events = events, .data.ptr = flow };
	int op = EPOLL_CTL_MOD;

	if (flow->shut && flow->ended)
		op = EPOLL_CTL_DEL;
	else if (events == flow->events)
		return STATUS_OK;
	flow->events = events;
	if (!epoll_ctl(run->epoll, op, flow->fd, &event))
		return STATUS_OK;
	*why = perf_text("epoll_ctl: %s", strerror(errno));
	return STATUS_LOCAL;
}

/* Send the octets that may be sent; after the last ones shut the direction down. */
static enum status advance(struct perf_run *run, struct perf_flow *flow, char **why)
{
	uint64_t before = flow->tx_octets;
	enum status status;

	status = perf_flow_send(flow, why);
	if (status != STATUS_OK)
		return status;
	if (flow->tx_octets != before)
		run->last_tx = 0;
	if (!flow->shut && has_sent(run, flow)) {
		if (shutdown(flow->fd, SHUT_WR)) {
			*why = perf_text("the connection is lost: %s", strerror(errno));
			return STATUS_LOST;
		}
		flow->shut = true;
	}
	return wait_for(run, flow, why);
}

static enum status flow_event(struct perf_run *run, struct perf_flow *flow, char **why)
{
	uint64_t before = flow->rx_octets;
	enum status status;

	status = perf_flow_receive(flow, why);
	if (status != STATUS_OK)
		return status;
	if (flow->rx_octets != before)
		run->last_rx = 0;
	if (run->asks && flow->rx_octets != before && flow->rx_octets == flow->tx_limit)
		take_answer(run, flow);
	if (run->answers)
		flow->tx_limit = flow->rx_octets / run->params->size * run->params->size;
	if (flow->ended && run->asks && !flow->shut) {
		*why = perf_text("the peer closed a connection early");
		return STATUS_LOST;
	}
	return advance(run, flow, why);
}

static enum status stop(struct perf_run *run, char **why)
{
	enum status status = STATUS_OK;

	run->stopping = true;
	for (unsigned int i = 0; i < run->n && status == STATUS_OK; i++) {
		struct perf_flow *flow = &run->flow[i];

		if (flow->shut || (!run->sends && !run->asks))
			continue;
		flow->tx_final = run->asks ? flow->tx_limit :
				 whole(flow->tx_octets, run->params->size);
		flow->tx_limit = flow->tx_final;
		status = advance(run, flow, why);
	}
	return status;
}

/* Handle a message during the run: the peer stops, has failed, or has finished. */
static enum status control_event(struct perf_run *run, char **why)
{
	json_t *message = perf_control_receive(run->control, PERF_PATIENCE_MS, why), *value;
	enum status status = STATUS_OK;

	if (!message)
		return STATUS_LOST;
	value = json_object_get(message, "error");
	if (json_is_string(value)) {
		char *text = printable(json_string_value(value), json_string_length(value));

		*why = perf_text("the %s says: %s", run->server ? "client" : "server", text);
		free(text);
		status = json_integer_value(json_object_get(message, "status"));
		if (status <= STATUS_OK || status > STATUS_DIFFERS)
			status = STATUS_LOST;
	} else if (json_object_get(message, "stop")) {
		run->interrupted = true;
		status = stop(run, why);
	} else if (json_object_get(message, "results") && !run->peer) {
		run->peer = json_incref(json_object_get(message, "results"));
	} else {
		*why = perf_text("unexpected message from the peer");
		status = STATUS_LOST;
	}
	json_decref(message);
	return status;
}

/* End the warm-up. */
static void become_warm(struct perf_run *run, uint64_t now)
{
	const struct perf_params *params = run->params;
	uint64_t share = whole(params->octets / params->connections +
			       !!(params->octets % params->connections), params->size);

	run->warm = true;
	run->measured_from = now;
	run->last_tx = now;
	run->last_rx = now;
	run->interval_from = now;
	getrusage(RUSAGE_SELF, &run->usage_base);
	perf_run_sums(run, &run->base);
	run->interval_base = run->base;
	if (params->seconds > 0)
		run->stop_at = now + params->seconds * NS_PER_S;
	for (unsigned int i = 0; i < run->n && params->octets; i++) {
		struct perf_flow *flow = &run->flow[i];
		uint64_t from = run->asks ? flow->tx_limit : whole(flow->tx_octets, params->size);

		flow->tx_final = from + share;
		if (run->sends)
			flow->tx_limit = flow->tx_final;
	}
}

static void tick(struct perf_run *run, uint64_t now)
{
	struct perf_sums sums;

	if (run->tick) {
		perf_run_sums(run, &sums);
		run->tick(run, (double)(run->interval_from - run->measured_from) / NS_PER_S,
			  (double)(now - run->measured_from) / NS_PER_S, &sums);
		run->interval_base = sums;
	}
	perf_histogram_merge(run->times, run->interval_times);
	perf_histogram_clear(run->interval_times);
	run->interval_from = now;
}

static enum status look_for_progress(struct perf_run *run, uint64_t now, char **why)
{
	uint64_t octets = 0;

	for (unsigned int i = 0; i < run->n; i++)
		octets += run->flow[i].tx_octets + run->flow[i].rx_octets + run->flow[i].ended;
	if (octets != run->progress) {
		run->progress = octets;
		run->progress_at = now;
	}
	if (now - run->progress_at < PERF_STUCK_S * NS_PER_S)
		return STATUS_OK;
	*why = perf_text("no progress for %d s", PERF_STUCK_S);
	return STATUS_LOST;
}

static uint64_t interval_end(const struct perf_run *run)
{
	return run->warm && run->interval > 0 ?
	       run->interval_from + (uint64_t)(run->interval * NS_PER_S) : UINT64_MAX;
}

/* Perform the actions that are due. */
static enum status by_the_clock(struct perf_run *run, char **why)
{
	uint64_t now = perf_now();

	if (!run->last_tx)
		run->last_tx = now;
	if (!run->last_rx)
		run->last_rx = now;
	if (!run->warm && now - run->begun >= run->params->warmup * NS_PER_S)
		become_warm(run, now);
	if (now >= interval_end(run))
		tick(run, now);
	if (perf_interrupted && !run->interrupted && !run->server) {
		run->interrupted = true;
		if (run->params->to_client && run->params->test != PERF_LATENCY)
			perf_control_send(run->control, json_pack("{s:b}", "stop", 1));
		return stop(run, why);
	}
	if (run->warm && !run->stopping && run->stop_at && now >= run->stop_at)
		return stop(run, why);
	return now - run->progress_at < LOOK_MS * NS_PER_MS ? STATUS_OK :
	       look_for_progress(run, now, why);
}

static int until_next(const struct perf_run *run)
{
	uint64_t warm_at = run->begun + run->params->warmup * NS_PER_S;
	uint64_t now = perf_now(), next = now + LOOK_MS * NS_PER_MS;

	if (!run->warm && warm_at < next)
		next = warm_at;
	if (run->stop_at && !run->stopping && run->stop_at < next)
		next = run->stop_at;
	if (interval_end(run) < next)
		next = interval_end(run);
	return next > now ? (next - now + NS_PER_MS - 1) / NS_PER_MS : 0;
}

static enum status prepare(struct perf_run *run, char **why)
{
	struct epoll_event event = { .events = EPOLLIN };

	run->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (run->epoll < 0 || epoll_ctl(run->epoll, EPOLL_CTL_ADD, run->control, &event)) {
		*why = perf_text("epoll: %s", strerror(errno));
		return STATUS_LOCAL;
	}
	for (unsigned int i = 0; i < run->n; i++) {
		struct perf_flow *flow = &run->flow[i];

		if (run->asks) {
			flow->tx_limit = run->params->size;
			flow->asked = perf_now();
		}
		flow->events = EPOLLIN | (flow->tx_limit ? EPOLLOUT : 0);
		event = (struct epoll_event){ .events = flow->events, .data.ptr = flow };
		if (epoll_ctl(run->epoll, EPOLL_CTL_ADD, flow->fd, &event)) {
			*why = perf_text("epoll_ctl: %s", strerror(errno));
			return STATUS_LOCAL;
		}
	}
	return STATUS_OK;
}

static bool is_over(const struct perf_run *run)
{
	for (unsigned int i = 0; i < run->n; i++)
		if (!run->flow[i].shut || !run->flow[i].ended)
			return false;
	return true;
}

/* Run until all is sent and received. The caller has started the flows, and set @begun. */
enum status perf_run(struct perf_run *run, char **why)
{
	struct epoll_event event[EVENTS];
	enum status status;

	run->progress_at = run->begun;
	if (run->params->warmup <= 0)
		become_warm(run, run->begun);
	status = prepare(run, why);
	while (status == STATUS_OK && !is_over(run)) {
		int n = epoll_wait(run->epoll, event, EVENTS, until_next(run));

		for (int i = 0; i < n && status == STATUS_OK; i++)
			status = event[i].data.ptr ? flow_event(run, event[i].data.ptr, why) :
						     control_event(run, why);
		if (status == STATUS_OK)
			status = by_the_clock(run, why);
	}
	run->over = perf_now();
	getrusage(RUSAGE_SELF, &run->usage);
	if (status == STATUS_OK && !run->warm) {
		*why = perf_text("the test ended before its warm-up");
		return STATUS_USAGE;
	}
	if (status == STATUS_OK && run->over > run->interval_from)
		tick(run, run->over);
	for (unsigned int i = 0; i < run->n && status == STATUS_OK; i++)
		if (!perf_flow_has_all(&run->flow[i])) {
			*why = perf_text("connection %u: a record is missing or duplicated", i);
			status = STATUS_DIFFERS;
		}
	return status;
}

static double seconds_of(const struct timeval *from, const struct timeval *to)
{
	return (to->tv_sec - from->tv_sec) + (to->tv_usec - from->tv_usec) / 1e6;
}

static void add_mpa(struct mpa_info *to, const struct mpa_info *from)
{
	to->role = from->role;
	to->revision = from->revision;
	to->flags = from->flags;
	to->emss = from->emss;
	to->mulpdu = from->mulpdu;
	to->ird = from->ird;
	to->ord = from->ord;
	to->tx_ulpdus += from->tx_ulpdus;
	to->tx_octets += from->tx_octets;
	to->tx_markers += from->tx_markers;
	to->rx_ulpdus += from->rx_ulpdus;
	to->rx_octets += from->rx_octets;
	to->rx_markers += from->rx_markers;
	to->tx_packets += from->tx_packets;
	to->tx_segs_aligned += from->tx_segs_aligned;
	to->tx_segs_unaligned += from->tx_segs_unaligned;
	to->rx_placed += from->rx_placed;
}

/* Add the kernel's data about a connection. */
static void add_connection(struct perf_side *side, const struct perf_flow *flow)
{
	char congestion[16] = "?";
	struct tcp_info tcp = {};
	socklen_t len = sizeof(tcp);
	struct mpa_info mpa;

	if (!getsockopt(flow->fd, SOL_TCP, TCP_INFO, &tcp, &len)) {
		side->tcp_retransmitted += tcp.tcpi_total_retrans;
		side->tcp_rtt_us = tcp.tcpi_rtt;
		side->tcp_mss = tcp.tcpi_snd_mss;
	}
	len = sizeof(congestion) - 1;
	if (!side->congestion) {
		getsockopt(flow->fd, SOL_TCP, TCP_CONGESTION, congestion, &len);
		side->congestion = perf_text("%s", congestion);
	}
	if (flow->run->params->mpa) {
		start_info(flow->fd, &mpa);
		add_mpa(&side->mpa, &mpa);
	}
}

static void count(struct perf_count *to, uint64_t octets, uint64_t records, uint64_t from_octets,
		  uint64_t from_records, uint64_t ns)
{
	to->octets = octets;
	to->records = records;
	to->measured_octets = octets - from_octets;
	to->measured_records = records - from_records;
	to->seconds = to->measured_octets ? (double)ns / NS_PER_S : 0;
}

/* Collect the counters of this end. */
void perf_run_side(const struct perf_run *run, struct perf_side *side)
{
	const struct perf_sums *base = &run->base;
	struct perf_sums sums;

	memset(side, 0, sizeof(*side));
	perf_side_machine(side);
	perf_run_sums(run, &sums);
	count(&side->sent, sums.tx_octets, sums.tx_records, base->tx_octets, base->tx_records,
	      run->last_tx - run->measured_from);
	count(&side->received, sums.rx_octets, sums.rx_records, base->rx_octets,
	      base->rx_records, run->last_rx - run->measured_from);
	side->cpu_user = seconds_of(&run->usage_base.ru_utime, &run->usage.ru_utime);
	side->cpu_system = seconds_of(&run->usage_base.ru_stime, &run->usage.ru_stime);
	side->cpu_seconds = (double)(run->over - run->measured_from) / NS_PER_S;
	for (unsigned int i = 0; i < run->n; i++)
		add_connection(side, &run->flow[i]);
}
