// SPDX-License-Identifier: GPL-2.0
/* A test's parameters: their JSON, their validation, and how each end starts MPA. */
#include "perf.h"

#include <netinet/in.h>
#include <string.h>

/* The flags that a client may set. */
enum {
	FLAGS = MPA_START_MARKERS | MPA_START_NO_CRC | MPA_START_PERMISSIVE |
		MPA_START_ENHANCED | MPA_START_P2P | MPA_START_RTR |
		MPA_START_TX_MARKERS | MPA_START_TX_NO_CRC,
};

const char *const perf_tests[] = { "stream", "rate", "latency" };

static json_t *start_pack(const struct start_options *options)
{
	const struct mpa_start *start = &options->start;

	return json_pack("{s:i, s:i, s:I, s:i, s:i, s:I, s:b}", "role", options->role,
			 "revision", start->revision, "flags", (json_int_t)start->flags,
			 "ird", start->ird, "ord", start->ord,
			 "timeout_ms", (json_int_t)start->timeout_ms, "place", options->place);
}

json_t *perf_params_pack(const struct perf_params *params)
{
	static const char format[] =
		"{s:s,s:s,s:b,s:b,s:b,s:b,s:I,s:I,s:i,s:I,s:I,s:f,s:f,s:s,s:I,s:I}";
	json_t *object = json_pack(format, "test", perf_tests[params->test],
				   "framing", params->mpa ? "mpa" : "tcp",
				   "to_server", params->to_server, "to_client", params->to_client,
				   "verify", params->verify, "nodelay", params->nodelay,
				   "connections", (json_int_t)params->connections,
				   "size", (json_int_t)params->size, "segment", params->segment,
				   "batch", (json_int_t)params->batch,
				   "octets", (json_int_t)params->octets,
				   "seconds", params->seconds, "warmup", params->warmup,
				   "congestion", params->congestion,
				   "window", (json_int_t)params->window,
				   "pacing", (json_int_t)params->pacing);

	json_object_set_new(need_memory(object), "start", start_pack(&params->start));
	return object;
}

/* Parse the parameters of MPA's start. Return: whether all numbers are in range. */
static bool start_unpack(struct start_options *options, json_t *from)
{
	struct mpa_start *start = &options->start;
	int revision, ird, ord, place;
	json_int_t flags, timeout_ms;

	start_defaults(options);
	if (json_unpack(from, "{s:i, s:i, s:I, s:i, s:i, s:I, s:b}", "role", &options->role,
			"revision", &revision, "flags", &flags, "ird", &ird, "ord", &ord,
			"timeout_ms", &timeout_ms, "place", &place) ||
	    options->role < 0 || options->role > MPA_ROLE_DIRECT || revision < 0 ||
	    revision > 2 || ird < 0 || ird > UINT16_MAX || ord < 0 || ord > UINT16_MAX ||
	    timeout_ms < 0 || timeout_ms > UINT32_MAX || flags & ~(json_int_t)FLAGS)
		return false;
	options->place = place;
	start->revision = revision;
	start->flags = flags;
	start->ird = ird;
	start->ord = ord;
	start->timeout_ms = timeout_ms;
	return true;
}

/* Parse the output of perf_params_pack(). Return: NULL, or an error that the caller frees. */
char *perf_params_unpack(struct perf_params *params, json_t *from)
{
	json_int_t connections, size, batch, octets, window = 0, pacing = 0;
	const char *test, *framing, *congestion = "";
	json_error_t error;
	json_t *start;

	memset(params, 0, sizeof(*params));
	if (json_unpack_ex(from, &error, 0,
			   "{s:s, s:s, s:b, s:b, s:b, s:b, s:I, s:I, s:i, s:I, s:I, s:F, s:F, s:o, s?s, s?I, s?I}",
			   "test", &test, "framing", &framing, "to_server", &params->to_server,
			   "to_client", &params->to_client, "verify", &params->verify,
			   "nodelay", &params->nodelay, "connections", &connections,
			   "size", &size, "segment", &params->segment, "batch", &batch,
			   "octets", &octets, "seconds", &params->seconds,
			   "warmup", &params->warmup, "start", &start,
			   "congestion", &congestion, "window", &window, "pacing", &pacing))
		return perf_text("the parameters: %s", error.text);
	params->test = -1;
	for (int i = PERF_STREAM; i <= PERF_LATENCY; i++)
		if (!strcmp(test, perf_tests[i]))
			params->test = i;
	params->mpa = !strcmp(framing, "mpa");
	if (params->test < 0 || (!params->mpa && strcmp(framing, "tcp")))
		return perf_text("the parameters have an unknown test or framing");
	if (connections < 1 || connections > PERF_CONNECTIONS_MAX ||
	    size < 1 || size > PERF_SIZE_MAX || batch < 1 || batch > MPA_RECV_BATCH_MAX ||
	    octets < 0 || window < 0 || window > PERF_WINDOW_MAX || pacing < 0 ||
	    strlen(congestion) >= PERF_CONGESTION || !start_unpack(&params->start, start))
		return perf_text("a number in the parameters is out of range");
	params->connections = connections;
	params->size = size;
	params->batch = batch;
	params->octets = octets;
	params->window = window;
	params->pacing = pacing;
	strcpy(params->congestion, congestion);
	test = perf_params_wrong(params);
	return test ? perf_text("%s", test) : NULL;
}

/* Return: an error if parameters cannot be combined, otherwise NULL. */
const char *perf_params_wrong(const struct perf_params *params)
{
	if (!params->to_server && !params->to_client)
		return "neither end sends";
	if (!(params->seconds >= 0 && params->seconds <= PERF_SECONDS_MAX) ||
	    !(params->warmup >= 0 && params->warmup <= PERF_SECONDS_MAX))
		return "a time can be at most 86400 seconds";
	if (params->seconds <= 0 && !params->octets)
		return "the test needs a limit: --time or --octets";
	if (params->segment < MPA_SEGMENT_OFF || params->segment > MPA_ULPDU_MAX)
		return "--segment takes fill, off or 1 to 64768";
	if (params->segment == MPA_SEGMENT_OFF && params->size > MPA_ULPDU_MAX)
		return "a record has at most 64768 octets: larger calls need --segment";
	if (params->test == PERF_LATENCY &&
	    (params->segment != MPA_SEGMENT_OFF || params->batch != 1))
		return "--segment and --batch cannot be used with --test latency";
	if (params->verify && params->start.place && params->segment != MPA_SEGMENT_OFF)
		return "--verify with --place needs records of one size: --segment cannot be used";
	return NULL;
}

/* Return: the role of this end. */
enum mpa_role perf_params_role(const struct perf_params *params, bool server)
{
	if (params->start.role == MPA_ROLE_DIRECT)
		return MPA_ROLE_DIRECT;
	return (params->start.role == MPA_ROLE_RESPONDER) == server ? MPA_ROLE_INITIATOR :
								      MPA_ROLE_RESPONDER;
}

/*
 * Set how this end starts MPA. The parameters apply to both ends, except flags that
 * only one role has.
 */
void perf_params_start(const struct perf_params *params, bool server,
		       struct start_options *start)
{
	unsigned int flags = params->start.start.flags;
	struct mpa_start *mine = &start->start;

	/* Receiving out of order needs markers. */
	if (params->start.place)
		flags |= MPA_START_TX_MARKERS;
	*start = params->start;
	start->role = perf_params_role(params, server);
	/* Set these after MPA's start, when an error can be reported. */
	start->place = false;
	start->segment = MPA_SEGMENT_OFF;
	start->quick = false;
	start->reject = NULL;
	switch (start->role) {
	case MPA_ROLE_DIRECT:
		mine->flags = flags & (MPA_START_MARKERS | MPA_START_NO_CRC |
				       MPA_START_TX_MARKERS | MPA_START_TX_NO_CRC);
		if (!server)
			break;
		mine->flags = (flags & MPA_START_MARKERS ? MPA_START_TX_MARKERS : 0) |
			      (flags & MPA_START_NO_CRC ? MPA_START_TX_NO_CRC : 0) |
			      (flags & MPA_START_TX_MARKERS ? MPA_START_MARKERS : 0) |
			      (flags & MPA_START_TX_NO_CRC ? MPA_START_NO_CRC : 0);
		break;
	case MPA_ROLE_INITIATOR:
		mine->flags = params->start.start.flags;
		break;
	case MPA_ROLE_RESPONDER:
		mine->flags = params->start.start.flags & ~(MPA_START_ENHANCED | MPA_START_P2P);
		break;
	}
}
