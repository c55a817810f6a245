// SPDX-License-Identifier: GPL-2.0
/* mpa listen: accept connections and exchange records with the peers. */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BACKLOG		128
#define MAX_DEFAULT	64	/* maximum of parallel processes */
#define MAX_MOST	4096
#define SHORTAGE_MS	100	/* delay before accept() is tried again */
#define ACTIVATED_FD	3	/* first socket that systemd passes: sd_listen_fds(3) */

enum {
	KEY_REJECT = 0x300,
	KEY_MAX,
	KEY_COUNT,
	KEY_PORT_FILE,
};

struct options {
	struct session_options session;
	struct endpoint at;
	const char *port_file;
	unsigned long count;	/* number of connections; 0: no limit */
	unsigned long max;
	bool keep;
	bool fork;
};

static const struct argp_option options[] = {
	{ "keep", 'k', NULL, 0, "serve one connection after another", 0 },
	{ "fork", 'f', NULL, 0, "serve connections in parallel, each in a process of its own", 0 },
	{ "max", KEY_MAX, "N", 0, "with --fork: at most N at a time (default 64)", 0 },
	{ "count", KEY_COUNT, "N", 0, "with --keep or --fork: exit after N connections", 0 },
	ENDPOINT_PORT,
	{ "port-file", KEY_PORT_FILE, "FILE", 0, "write the port to FILE once it is open", 0 },
	{ "reject", KEY_REJECT, "TEXT", 0, "reject each request, with this private data", 0 },
	{}
};

/* The listening socket was passed by systemd. */
static bool passed;

/* Whether systemd, or a program with its protocol, passed sockets to this process. */
static bool activated(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");

	return pid && fds && strtoul(pid, NULL, 10) == (unsigned long)getpid() && atoi(fds) > 0;
}

static unsigned long parse_number(struct argp_state *state, const char *option, const char *text,
				  unsigned long most)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || !value || value > most)
		argp_error(state, "%s %s: expected a number from 1 to %lu", option, text,
			   most);
	return value;
}

static void check(struct argp_state *state, struct options *opt)
{
	struct start_options *start = &opt->session.start;

	if (opt->max && !opt->fork)
		argp_error(state, "--max needs --fork");
	if (opt->count && !opt->keep && !opt->fork)
		argp_error(state, "--count needs --keep or --fork");
	if ((opt->keep || opt->fork) && opt->session.send && !strcmp(opt->session.send, "-"))
		argp_error(state, "--send - can be read once: --keep and --fork cannot be used");
	if (opt->keep && opt->fork)
		argp_error(state, "--keep and --fork cannot be combined");
	if (start->reject && start->role && start->role != MPA_ROLE_RESPONDER)
		argp_error(state, "--reject needs the role responder");
	if (start->reject && strlen(start->reject) > MPA_PRIVATE_DATA_MAX - 4)
		argp_error(state, "private data can have at most %d octets",
			   MPA_PRIVATE_DATA_MAX - 4);
	opt->max = opt->max ?: MAX_DEFAULT;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &opt->session;
		break;
	case 'k':
		opt->keep = true;
		break;
	case 'f':
		opt->fork = true;
		break;
	case KEY_MAX:
		opt->max = parse_number(state, "--max", arg, MAX_MOST);
		break;
	case KEY_COUNT:
		opt->count = parse_number(state, "--count", arg, ULONG_MAX);
		break;
	case KEY_PORT_FILE:
		opt->port_file = arg;
		break;
	case KEY_REJECT:
		opt->session.start.reject = arg;
		break;
	case 'p':
		opt->at.port = arg;
		break;
	case ARGP_KEY_ARGS:
		endpoint_parse_rest(&opt->at, state);
		break;
	case ARGP_KEY_NO_ARGS:
		if (!opt->at.port && !activated())
			argp_error(state,
				   "the port is missing, for example: mpa listen 4242; 0 is any free port");
		break;
	case ARGP_KEY_SUCCESS:
		check(state, opt);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static void tell_port(const struct options *opt, int fd)
{
	char *name = endpoint_of(fd, false), *port = strrchr(name, ':') + 1;

	if (opt->port_file) {
		int file = open(opt->port_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

		if (file < 0 || dprintf(file, "%s\n", port) < 0)
			die(STATUS_LOCAL, "%s: %m", opt->port_file);
		close(file);
	}
	note("listening on %s", name);
	if (opt->session.json)
		event("listening", NULL, json_pack("{s:s, s:i}", "address", name, "port",
						   atoi(port)));
	free(name);
}

/* Accept a connection. Return: false if there is none. */
static bool accept_one(struct session *session, int listener)
{
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(address);

	session->fd = accept4(listener, (struct sockaddr *)&address, &len, SOCK_CLOEXEC);
	/*
	 * systemd's listening socket has no ULP. Attaching fails if the connection has
	 * already ended.
	 */
	if (session->fd >= 0 && passed && !start_attached(session->fd)) {
		close(session->fd);
		return false;
	}
	if (session->fd >= 0) {
		/* After a RST getpeername() would fail. */
		session->peer = endpoint_name(&address);
		return true;
	}
	switch (errno) {
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		complain("accept: %m; trying again");
		poll(NULL, 0, SHORTAGE_MS);
		return false;
	case EINTR:
	case ECONNABORTED:
	case EAGAIN:
	case EPROTO:
		return false;
	}
	die(STATUS_LOCAL, "accept: %m");
}

/* Serve a connection that systemd has accepted. */
static int run_activated(struct session *session, int fd)
{
	if (!start_attached(fd))
		return STATUS_CONNECT;
	session->fd = fd;
	session->peer = endpoint_of(fd, true);
	return session_run(session, MPA_ROLE_RESPONDER);
}

/* Serve one connection after another. Return: the last status that is not 0. */
static int serve(const struct options *opt, struct session *session, int listener)
{
	unsigned long count = opt->keep ? opt->count : 1, done;
	int status, kept = 0;

	for (done = 0; !count || done < count; done++) {
		tidy_ends_well(opt->keep);
		while (!accept_one(session, listener))
			;
		tidy_ends_well(false);
		if (!opt->keep)
			close(listener);
		status = session_run(session, MPA_ROLE_RESPONDER);
		kept = status ?: kept;
	}
	return kept;
}

static void on_child(int number)
{
	(void)number;
}

/* Return: the number of processes left. A process that fails reports the reason itself. */
static unsigned long reap(unsigned long running, int options, int *kept)
{
	int status;
	pid_t pid;

	while (running && (pid = waitpid(-1, &status, options)) > 0) {
		tidy_pid(pid, false);
		running--;
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			*kept = WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_LOCAL;
	}
	return running;
}

/* Return: whether another process was started. */
static bool fork_session(struct session *session, int listener, const sigset_t *unblocked)
{
	pid_t pid = fork();

	if (pid < 0)
		complain("fork: %m; closing the connection");
	else if (pid)
		tidy_pid(pid, true);
	if (pid) {
		close(session->fd);
		free(session->peer);
		return pid > 0;
	}
	tidy_ends_well(false);
	tidy_no_pids();
	close(listener);
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_SETMASK, unblocked, NULL);
	exit(session_run(session, MPA_ROLE_RESPONDER));
}

/* Report once that a new connection has to wait until another one ends. */
static void tell_full(const struct options *opt)
{
	complain("a connection waits, as %lu are being served: raise --max, or set --idle",
		 opt->max);
}

/* Block signals, except while the process waits. Return: the previous set. */
static sigset_t block_signals(void)
{
	static const int numbers[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_child };
	sigset_t block, old;

	sigaction(SIGCHLD, &action, NULL);
	sigemptyset(&block);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sigaddset(&block, numbers[i]);
	sigprocmask(SIG_BLOCK, &block, &old);
	return old;
}

/* Return: the output whose reader may exit: that must be detected before a record is lost. */
static int watched_output(const struct session_options *opt)
{
	return opt->exec || opt->send || opt->receive ? -1 : STDOUT_FILENO;
}

/* Serve connections in parallel. */
static int serve_forked(const struct options *opt, struct session *session, int listener)
{
	unsigned long running = 0, done = 0;
	sigset_t old = block_signals();
	bool told = false;
	int kept = 0;

	fcntl(listener, F_SETFL, O_NONBLOCK);
	tidy_ends_well(true);
	while (!opt->count || done < opt->count) {
		bool full = running >= opt->max;
		struct pollfd fds[] = {
			{ full && told ? -1 : listener, POLLIN, 0 },
			{ watched_output(&opt->session), 0, 0 },
		};

		if (ppoll(fds, 2, NULL, &old) > 0) {
			if (fds[1].revents)
				die(STATUS_LOCAL, "standard output: its reader has exited");
			if (full) {
				told = true;
				tell_full(opt);
			} else if (accept_one(session, listener) &&
				   fork_session(session, listener, &old)) {
				running++;
				done++;
			}
		}
		running = reap(running, WNOHANG, &kept);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(listener);
	reap(running, 0, &kept);
	return kept;
}

/*
 * Take the socket passed by systemd. Return: true for a listening socket (Accept=no),
 * false for a connection (Accept=yes).
 */
static bool take_activated(const struct options *opt, int *fd)
{
	socklen_t len = sizeof(int);
	int listens = 0;

	if (atoi(getenv("LISTEN_FDS")) != 1)
		die(STATUS_USAGE, "systemd passed %s sockets, expected one",
		    getenv("LISTEN_FDS"));
	/* The command of --exec must not see these. */
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	*fd = ACTIVATED_FD;
	passed = true;
	fcntl(*fd, F_SETFD, FD_CLOEXEC);
	if (getsockopt(*fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len))
		die(STATUS_LOCAL, "systemd did not pass a socket: %m");
	if (!listens && (opt->keep || opt->fork))
		die(STATUS_USAGE, "--keep and --fork cannot be used with Accept=yes");
	return listens;
}

static const char doc[] =
	"Wait for a connection and exchange MPA records with the peer. Each line of standard\n"
	"input is sent as a record, and each received record is written as a line.\n"
	"\vExamples:\n"
	"  mpa listen 4242\n"
	"  mpa listen --fork --exec cat 4242\n"
	"  mpa listen --keep --receive /srv/incoming/ 10.0.0.1:4242\n\n"
	"See mpa-listen(1).";

int listen_main(int argc, char **argv)
{
	static const struct argp_child children[] = { { &session_argp, 0, NULL, 0 }, {} };
	static const struct argp argp = {
		options, parse, "[ADDRESS:]PORT\nADDRESS PORT", doc, children, NULL, NULL
	};
	struct options opt = {};
	struct session session;
	struct source input;
	int listener;

	session_defaults(&opt.session);
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	if (opt.session.fault)
		run_conform("listen", argc, argv);
	/* Parallel processes cannot share an input. */
	session_open(&session, &opt.session, &input, opt.fork ? -1 : STDIN_FILENO);
	/* Accepted sockets inherit the ULP, so a connection that ends at once is no error. */
	if (!opt.at.port) {
		if (!take_activated(&opt, &listener))
			return run_activated(&session, listener);
	} else {
		listener = endpoint_listen(&opt.at, opt.session.start.family, 0);
		start_attach(listener);
		if (listen(listener, BACKLOG))
			die(STATUS_LOCAL, "listen: %m");
	}
	tidy_ends_well(opt.keep || opt.fork);
	tell_port(&opt, listener);
	return opt.fork ? serve_forked(&opt, &session, listener) :
			  serve(&opt, &session, listener);
}
