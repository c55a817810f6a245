// SPDX-License-Identifier: GPL-2.0
/*
 * The server's side of a test, in a separate process, so that a failure does not end
 * the server. The server process passes the data connections.
 */
#include "perf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Receive a connection that the server process has accepted, and its hello. */
static int receive_connection(int channel, char *hello)
{
	union {
		struct cmsghdr first;
		char octets[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = hello, .iov_len = PERF_HELLO };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(channel, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg = n == PERF_HELLO ? CMSG_FIRSTHDR(&msg) : NULL;
	int fd;

	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	return fd;
}

/*
 * Return: the run's next connection; refuse those with another token. If the client has
 * closed, return a negative value, and the reason in *why.
 */
static int next_connection(int control, int channel, const char *token, unsigned int index,
			   char **why)
{
	uint64_t until = perf_now() + PERF_PATIENCE_MS * NS_PER_MS;
	char hello[PERF_HELLO + 1] = "", want[PERF_HELLO];
	struct pollfd poll_for[] = {
		{ .fd = control, .events = POLLIN },
		{ .fd = channel, .events = POLLIN },
	};
	uint64_t now;
	int fd;

	perf_hello_make(want, "DATA %s %u", token, index);
	while ((now = perf_now()) < until) {
		if (poll(poll_for, 2, (until - now) / NS_PER_MS + 1) < 0)
			continue;
		if (poll_for[0].revents) {
			*why = perf_text("the client has gone");
			return -1;
		}
		if (!poll_for[1].revents)
			continue;
		fd = receive_connection(channel, hello);
		if (fd < 0)
			break;
		if (!memcmp(hello, want, PERF_HELLO)) {
			/* Startup has to block. */
			fcntl(fd, F_SETFL, 0);
			return fd;
		}
		perf_hello_send(fd, "NO no run has that token");
		close(fd);
	}
	*why = perf_text("connection %u of the client did not arrive", index);
	return -1;
}

static enum status open_flows(struct perf_run *run, int channel, const char *token, char **why)
{
	for (unsigned int i = 0; i < run->params->connections; i++) {
		struct perf_flow *flow = &run->flow[i];
		enum status status;

		flow->fd = next_connection(run->control, channel, token, i, why);
		if (flow->fd < 0 || !perf_hello_send(flow->fd, "OK"))
			return STATUS_LOST;
		status = perf_flow_start(flow, why);
		if (status != STATUS_OK)
			return status;
		run->n = i + 1;
	}
	return STATUS_OK;
}

static void say_direction(const char *what, const struct perf_count *count)
{
	char *rate = perf_report_rate(count->measured_octets, count->seconds);

	if (count->octets)
		printf(", %s %llu octets, %s", what, (unsigned long long)count->octets, rate);
	free(rate);
}

static void say_run(const struct perf_run *run, const struct perf_side *side, bool json,
		    const char *peer)
{
	const struct perf_params *params = run->params;

	if (json) {
		json_t *line = json_pack("{s:s, s:s, s:o, s:o}", "event", "run", "peer", peer,
					 "parameters", perf_params_pack(params),
					 "results", perf_side_pack(side, params->mpa));

		json_dumpf(need_memory(line), stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(line);
	} else if (!say_quiet) {
		printf("%s: %s over %s, %u connection%s", peer, perf_tests[params->test],
		       params->mpa ? "MPA" : "plain TCP", params->connections,
		       params->connections == 1 ? "" : "s");
		say_direction("received", &side->received);
		say_direction("sent", &side->sent);
		putchar('\n');
	}
	fflush(stdout);
}

/*
 * Get the client's next message, which must have the member @what. It may have arrived
 * already.
 */
static enum status await(struct perf_run *run, const char *what, char **why)
{
	json_t *message = perf_control_receive(run->control, PERF_PATIENCE_MS, why);
	enum status status = STATUS_OK;

	if (!message)
		return STATUS_LOST;
	if (!json_object_get(message, what)) {
		*why = perf_text("the client closed the connection, or sent an unexpected message");
		status = STATUS_LOST;
	}
	json_decref(message);
	return status;
}

static enum status run_it(struct perf_run *run, int channel, bool json, const char *peer,
			  char **why)
{
	char token[PERF_TOKEN + 1];
	struct perf_side side;
	enum status status;
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		die(STATUS_LOCAL, "getrandom: %m");
	snprintf(token, sizeof(token), "%016llx", (unsigned long long)number);
	*why = perf_text("the client has gone");
	if (!perf_control_send(run->control, json_pack("{s:s}", "token", token)))
		return STATUS_LOST;
	status = open_flows(run, channel, token, why);
	if (status == STATUS_OK &&
	    !perf_control_send(run->control, json_pack("{s:b}", "ready", 1)))
		status = STATUS_LOST;
	if (status == STATUS_OK)
		status = await(run, "go", why);
	if (status == STATUS_OK) {
		/* The receiver has to start its clock before the other end sends. */
		run->begun = perf_now();
		if (!perf_control_send(run->control, json_pack("{s:b}", "going", 1)))
			status = STATUS_LOST;
	}
	if (status == STATUS_OK)
		status = perf_run(run, why);
	if (status == STATUS_OK && !run->peer)
		status = await(run, "results", why);
	if (status != STATUS_OK)
		return status;
	perf_run_side(run, &side);
	if (!perf_control_send(run->control, json_pack("{s:o}", "results",
						       perf_side_pack(&side, run->params->mpa))))
		return STATUS_LOST;
	say_run(run, &side, json, peer);
	return STATUS_OK;
}

/* Report an error, to the client as well. */
static enum status failed(int control, enum status status, const char *peer, const char *why)
{
	complain("%s: %s", peer, why);
	perf_control_send(control, json_pack("{s:s, s:i}", "error", why, "status", status));
	return status;
}

/* Serve runs until the client closes. */
int perf_session(int control, int channel, bool json)
{
	char *peer = endpoint_of(control, true), *why = NULL;
	enum status status = STATUS_OK;
	struct perf_params params;
	struct perf_run run;
	unsigned int runs;
	json_t *request;

	if (!perf_hello_send(control, "OK"))
		return PERF_NOTHING;
	for (runs = 0; status == STATUS_OK; runs++) {
		request = perf_control_receive(control, PERF_PATIENCE_MS, &why);
		if (!request)
			return runs ? STATUS_OK : PERF_NOTHING;
		why = perf_params_unpack(&params, request);
		json_decref(request);
		if (why)
			return failed(control, STATUS_REFUSED, peer, why);
		perf_run_init(&run, &params, true, control);
		status = run_it(&run, channel, json, peer, &why);
		if (status != STATUS_OK)
			failed(control, status, peer, why);
		perf_run_end(&run);
	}
	return status;
}
