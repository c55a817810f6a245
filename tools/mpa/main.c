// SPDX-License-Identifier: GPL-2.0
/* mpa: records over TCP from a shell. It runs the command that argv names. */
#include "tool.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MPA_VERSION
#define MPA_VERSION "unknown"
#endif

const char *argp_program_version = "mpa " MPA_VERSION;

/*
 * mpa-conform is a separate Python program, in the package mpa-wire: it also runs on
 * machines without mpa.
 */
void run_conform(const char *command, int argc, char **argv)
{
	char **words = need_memory(calloc(argc + 2, sizeof(*words)));
	size_t n = 0;

	words[n++] = "mpa-conform";
	if (command)
		words[n++] = (char *)command;
	memcpy(words + n, argv + 1, argc * sizeof(*argv));
	execvp(words[0], words);
	die(STATUS_LOCAL, "mpa-conform: %m; install the Debian package mpa-wire");
}

static int conform_main(int argc, char **argv)
{
	run_conform(NULL, argc, argv);
}

static const struct command commands[] = {
	{ "listen", "accept connections, exchange records", listen_main },
	{ "connect", "connect to a host, exchange records", connect_main },
	{ "ping", "check whether a host speaks MPA, and measure the round trip", ping_main },
	{ "perf", "measure throughput and latency, also of plain TCP", perf_main },
	{ "show", "list connections and their health, or counters", show_main },
	{ "monitor", "print events, or records, as they happen", monitor_main },
	{ "conform", "test an MPA implementation against correct and faulty peers", conform_main },
	{ "policy", "show or set the administrator's settings", policy_main },
	{}
};

static void print_usage(FILE *to)
{
	fputs("usage: mpa [-N NETNS] COMMAND [OPTION]... [ARGUMENT]...\n\n", to);
	for (const struct command *each = commands; each->name; each++)
		fprintf(to, "  %-9s %s\n", each->name, each->what);
	fputs("\nSee \"mpa COMMAND --help\" and mpa(1).\n", to);
}

/* Open descriptors 0 to 2 if they are closed, so that no socket gets their number. */
static void open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/*
 * Enter a network namespace. @netns: a name of "ip netns", or a path such as
 * /proc/PID/ns/net.
 */
static void enter_netns(const char *netns)
{
	char *path = NULL;
	int fd;

	if (asprintf(&path, "%s%s", strchr(netns, '/') ? "" : "/run/netns/", netns) < 0)
		need_memory(NULL);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die(STATUS_USAGE, "-N %s: %s: %m", netns, path);
	if (setns(fd, CLONE_NEWNET))
		die(STATUS_LOCAL, "-N %s: cannot enter it: %m", netns);
	close(fd);
	free(path);
}

int main(int argc, char **argv)
{
	static char name[64];

	open_standard();
	/* If the reader of a pipe has exited, write(2) fails instead of killing this process. */
	signal(SIGPIPE, SIG_IGN);
	argp_err_exit_status = STATUS_USAGE;
	if (argc >= 3 && (!strcmp(argv[1], "-N") || !strcmp(argv[1], "--netns"))) {
		enter_netns(argv[2]);
		argc -= 2;
		argv += 2;
	}
	if (argc >= 3 && !strcmp(argv[1], "help")) {
		argv[1] = argv[2];
		argv[2] = need_memory(strdup("--help"));
		argc = 3;
	}
	if (argc < 2) {
		print_usage(stderr);
		return STATUS_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_usage(stdout);
		return STATUS_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts(argp_program_version);
		return STATUS_OK;
	}
	for (const struct command *each = commands; each->name; each++) {
		if (strcmp(argv[1], each->name))
			continue;
		say_command = each->name;
		snprintf(name, sizeof(name), "mpa %s", each->name);
		argv[1] = name;
		/* -h means --help only as the last word: elsewhere it may be an argument. */
		if (argc > 2 && !strcmp(argv[argc - 1], "-h"))
			argv[argc - 1] = need_memory(strdup("--help"));
		return each->main(argc - 1, argv + 1);
	}
	complain("unknown command \"%s\"", argv[1]);
	print_usage(stderr);
	return STATUS_USAGE;
}
