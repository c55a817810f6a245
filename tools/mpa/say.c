// SPDX-License-Identifier: GPL-2.0
/* Messages for the user. */
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *say_command;
bool say_quiet;

void (*say_last)(enum status status, const char *text);

/*
 * Print a message. Use one write(), as the processes of "mpa listen --fork" may print
 * at the same time. Return: the text without the prefix; the caller frees it.
 */
static char *say(const char *format, va_list args)
{
	char *text, *line;
	int len;

	if (vasprintf(&text, format, args) < 0)
		abort();
	len = asprintf(&line, "mpa%s%s: %s\n", say_command ? " " : "", say_command ?: "", text);
	if (len < 0)
		abort();
	/* A failure cannot be reported anywhere. */
	len = write(STDERR_FILENO, line, len);
	free(line);
	return text;
}

/* Print information. */
void note(const char *format, ...)
{
	va_list args;

	if (say_quiet)
		return;
	va_start(args, format);
	free(say(format, args));
	va_end(args);
}

/* Print an error that ends the program. */
void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	free(say(format, args));
	va_end(args);
}

void die(enum status status, const char *format, ...)
{
	void (*last)(enum status status, const char *text) = say_last;
	va_list args;
	char *text;

	va_start(args, format);
	text = say(format, args);
	va_end(args);
	/* The callback may call die() itself. */
	say_last = NULL;
	if (last)
		last(status, text);
	exit(status);
}

/*
 * Return: escape sequences for a terminal, see https://no-color.org. Check once, as the
 * result does not change.
 */
const char *colour(enum colour which)
{
	static const char *const codes[] = {
		"\033[m", "\033[31m", "\033[33m", "\033[32m", "\033[1m",
	};
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
	static int wanted = -1;

	if (wanted < 0)
		wanted = !(no && *no) && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb");
	return wanted ? codes[which] : "";
}

/* Report an error on standard output, unless its reader, such as head(1), has exited. */
void say_flush(void)
{
	const bool failed = fflush(stdout) || ferror(stdout);

	if (failed && errno == EPIPE) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	if (failed)
		die(STATUS_LOCAL, "standard output: %m");
}

void *need_memory(void *memory)
{
	if (!memory)
		die(STATUS_LOCAL, "out of memory");
	return memory;
}
