// SPDX-License-Identifier: GPL-2.0
/*
 * Run a command that reads and writes a connection's records (--exec). If a signal or
 * an error ends this program, clean up: end processes, and remove an incomplete file.
 */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIDY_PIDS	4096
#define SHELL_NOT_THERE	127
#define MOMENT_NS	(10 * 1000 * 1000)
#define MOMENTS_TO_TERM	100
#define MOMENTS_TO_KILL	500

static struct {
	const char *file;
	pid_t pid[TIDY_PIDS];
	int pids;
	bool ends_well;
} tidy;

/* Use only async-signal-safe functions: a signal handler calls this. */
static void on_signal(int number)
{
	if (tidy.file)
		unlink(tidy.file);
	for (int i = 0; i < tidy.pids; i++)
		if (tidy.pid[i])
			kill(tidy.pid[i], SIGTERM);
	if (tidy.ends_well)
		_exit(STATUS_OK);
	signal(number, SIG_DFL);
	raise(number);
}

static void on_exit_too(void)
{
	if (tidy.file)
		unlink(tidy.file);
}

void tidy_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal }, old;
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		/* A shell ignores SIGINT in background jobs: keep it ignored. */
		sigaction(numbers[i], NULL, &old);
		if (old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
	atexit(on_exit_too);
}

/* Set the file to remove when this program ends; NULL: none. */
void tidy_file(const char *path)
{
	tidy.file = path;
}

/* Set a process that gets SIGTERM when this program ends. */
void tidy_pid(pid_t pid, bool there)
{
	int i;

	for (i = 0; i < tidy.pids; i++)
		if (tidy.pid[i] == (there ? 0 : pid))
			break;
	if (!there) {
		if (i < tidy.pids)
			tidy.pid[i] = 0;
		return;
	}
	if (i == TIDY_PIDS)
		return;
	tidy.pid[i] = pid;
	if (i == tidy.pids)
		tidy.pids++;
}

/* In a child: leave processes and file to the parent. */
void tidy_no_pids(void)
{
	tidy.pids = 0;
}

/* Set whether a signal ends the program with status 0, as it interrupts nothing. */
void tidy_ends_well(bool well)
{
	tidy.ends_well = well;
}

static void run(const char *command, const struct session *session, int in, int out)
{
	setenv("MPA_PEER", session->peer, 1);
	setenv("MPA_LOCAL", session->local, 1);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
		_exit(SHELL_NOT_THERE);
	execl("/bin/sh", "sh", "-c", command, NULL);
	complain("/bin/sh: %m");
	_exit(SHELL_NOT_THERE);
}

void child_start(struct child *child, const char *command, const struct session *session)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	sigset_t block, old;
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		die(STATUS_LOCAL, "pipe: %m");
	sigemptyset(&block);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sigaddset(&block, numbers[i]);
	/* Block signals until the process is noted. */
	sigprocmask(SIG_BLOCK, &block, &old);
	child->pid = fork();
	if (child->pid < 0)
		die(STATUS_LOCAL, "fork: %m");
	if (!child->pid) {
		for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
			signal(numbers[i], SIG_DFL);
		sigprocmask(SIG_SETMASK, &old, NULL);
		run(command, session, in[0], out[1]);
	}
	tidy_pid(child->pid, true);
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(in[0]);
	close(out[1]);
	child->in = in[1];
	child->out = out[0];
	fcntl(child->in, F_SETFL, O_NONBLOCK);
	fcntl(child->out, F_SETFL, O_NONBLOCK);
}

/*
 * Wait for the command. If its connection has @failed, send SIGTERM after a second, and
 * SIGKILL some seconds later. Return: the exit status, as in a shell.
 */
int child_end(struct child *child, bool failed)
{
	static const struct timespec moment = { .tv_nsec = MOMENT_NS };
	int status = 0, moments = 0;
	pid_t pid;

	if (child->in >= 0)
		close(child->in);
	if (child->out >= 0)
		close(child->out);
	child->in = -1;
	child->out = -1;
	while (!(pid = waitpid(child->pid, &status, failed ? WNOHANG : 0)) ||
	       (pid < 0 && errno == EINTR)) {
		if (!failed)
			continue;
		nanosleep(&moment, NULL);
		if (++moments == MOMENTS_TO_TERM)
			kill(child->pid, SIGTERM);
		if (moments == MOMENTS_TO_KILL)
			kill(child->pid, SIGKILL);
	}
	if (pid < 0)
		die(STATUS_LOCAL, "waitpid: %m");
	tidy_pid(child->pid, false);
	return WIFSIGNALED(status) ? SHELL_SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
}
