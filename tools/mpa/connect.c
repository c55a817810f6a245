// SPDX-License-Identifier: GPL-2.0
/* mpa connect: connect to a host and exchange records. */
#include "relay.h"

#include <unistd.h>

struct options {
	struct session_options session;
	struct endpoint to;
};

static const struct argp_option options[] = {
	ENDPOINT_PORT,
	{}
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &opt->session;
		break;
	case 'p':
		opt->to.port = arg;
		break;
	case ARGP_KEY_ARGS:
		endpoint_parse_rest(&opt->to, state);
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "the host is missing, for example: mpa connect localhost:4242");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const char doc[] =
	"Connect to a host and exchange MPA records with it. Each line of standard input is\n"
	"sent as a record, and each received record is written as a line.\n"
	"\vExamples:\n"
	"  mpa connect server:4242\n"
	"  mpa connect --send image.iso server:4242\n"
	"  mpa connect --records length --markers [fd05:44::2]:4242 <requests >answers\n\n"
	"See mpa-connect(1).";

int connect_main(int argc, char **argv)
{
	static const struct argp_child children[] = { { &session_argp, 0, NULL, 0 }, {} };
	static const struct argp argp = {
		options, parse, "HOST:PORT\nHOST PORT\n-p PORT HOST", doc, children, NULL, NULL
	};
	struct options opt = {};
	struct session session;
	struct source input;

	session_defaults(&opt.session);
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	if (opt.session.fault)
		run_conform("connect", argc, argv);
	session_open(&session, &opt.session, &input, STDIN_FILENO);
	session.fd = endpoint_connect_mpa(&opt.to, opt.session.start.family, &session.peer);
	return session_run(&session, MPA_ROLE_INITIATOR);
}
