// SPDX-License-Identifier: GPL-2.0
/* Messages for the user. */
#include "tool.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *say_command;
bool say_quiet;

static void say(const char *format, va_list args)
{
	flockfile(stderr);
	fprintf(stderr, "mpa%s%s: ", say_command ? " " : "", say_command ?: "");
	vfprintf(stderr, format, args);
	putc('\n', stderr);
	funlockfile(stderr);
}

/* What is good to know. */
void note(const char *format, ...)
{
	va_list args;

	if (say_quiet)
		return;
	va_start(args, format);
	say(format, args);
	va_end(args);
}

/* What is wrong, and what to do about it. */
void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

void die(enum status status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	exit(status);
}

void *need_memory(void *memory)
{
	if (!memory)
		die(STATUS_LOCAL, "out of memory");
	return memory;
}

/*
 * Octets of a peer for a terminal: what is not printable ASCII as \xHH. The
 * caller frees it.
 */
char *printable(const void *octets, size_t len)
{
	char *text = need_memory(malloc(4 * len + 1)), *to = text;
	const unsigned char *from = octets;

	for (size_t i = 0; i < len; i++)
		if (from[i] >= ' ' && from[i] <= '~' && from[i] != '\\')
			*to++ = from[i];
		else
			to += sprintf(to, "\\x%02x", from[i]);
	*to = 0;
	return text;
}
