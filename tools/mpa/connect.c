// SPDX-License-Identifier: GPL-2.0
/* mpa connect: connect to a host, exchange records with it. */
#include "relay.h"

#include <unistd.h>

struct options {
	struct session_options session;
	struct endpoint to;
	char *words[2];
	int count;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &opt->session;
		break;
	case ARGP_KEY_ARG:
		if (opt->count == 2)
			argp_error(state, "too many arguments");
		opt->words[opt->count++] = arg;
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "where to? For example: mpa connect localhost:4242");
		break;
	case ARGP_KEY_SUCCESS:
		endpoint_parse_words(&opt->to, opt->count, opt->words);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const char doc[] =
	"Connects to a host and exchanges records of MPA with it: each line of standard\n"
	"input becomes a record, each record that comes a line of standard output.\n"
	"\vExamples:\n"
	"  mpa connect server:4242\n"
	"  mpa connect --send image.iso server:4242\n"
	"  mpa connect --records length --markers [fd05:44::2]:4242 <requests >answers\n\n"
	"mpa-connect(1) has more.";

int connect_main(int argc, char **argv)
{
	static const struct argp_child children[] = { { &session_argp, 0, NULL, 0 }, {} };
	static const struct argp argp = {
		NULL, parse, "HOST:PORT\nHOST PORT", doc, children, NULL, NULL
	};
	struct session session = {};
	struct options opt = {};
	struct source input;

	session_defaults(&opt.session);
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	if (opt.session.form == FORM_STREAM)
		opt.session.start.segment = MPA_SEGMENT_FILL;
	tidy_signals();
	session.opt = &opt.session;
	session.fd = endpoint_connect_mpa(&opt.to, opt.session.start.family);
	source_open(&input, STDIN_FILENO, opt.session.form);
	session.input = &input;
	return session_run(&session, MPA_ROLE_INITIATOR);
}
