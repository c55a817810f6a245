// SPDX-License-Identifier: GPL-2.0
/* Shared by both worlds: violations, the kernel's log, names. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sequence.h"

char violation[256];

void violated(const char *fmt, ...)
{
	va_list ap;

	if (violation[0])
		return;
	va_start(ap, fmt);
	vsnprintf(violation, sizeof(violation), fmt, ap);
	va_end(ap);
}

/* Let softirqs and the work item run. Virtual time costs nothing. */
void settle(int ms)
{
	poll(NULL, 0, ms);
}

/* ---- operations ---- */

const struct op *ops[OPS_MAX];
int ops_nr;

void ops_add(const struct op *more, int nr)
{
	while (nr--)
		ops[ops_nr++] = more++;
}

int op_nr(const char *name)
{
	int i;

	for (i = 0; i < ops_nr; i++)
		if (!strcmp(ops[i]->name, name))
			return i;
	fprintf(stderr, "no operation %s\n", name);
	exit(2);
}

const struct op *op_named(const char *name)
{
	return ops[op_nr(name)];
}

/* ---- the kernel ---- */

static int kmsg = -1;

void kmsg_open(void)
{
	kmsg = open("/dev/kmsg", O_RDWR | O_NONBLOCK);
	lseek(kmsg, 0, SEEK_END);
}

/* Write to the kernel's log, which survives the guest. */
void announce(unsigned long nr, const char *text)
{
	char line[300];
	int n = snprintf(line, sizeof(line), "<5>mpa-explore: %lu %s\n", nr, text);

	if (kmsg >= 0 && write(kmsg, line, n) < 0)
		perror("/dev/kmsg");
}

static const char * const complaints[] = {
	"BUG: ", "WARNING: ", "UBSAN: ", "ODEBUG: ", "refcount_t: ",
	"possible ", "suspicious ", "inconsistent lock", "Oops",
	"Bad page", "corruption", "blocked for more", "lockup",
	"scheduling while atomic", "sleeping function",
};

/* Get the kernel's messages since the last call. */
bool complained(char *text, size_t room)
{
	char line[1024], *at;
	bool first = true;
	ssize_t n;
	int i;

	while ((n = read(kmsg, line, sizeof(line) - 1)) > 0 ||
	       (n < 0 && errno == EPIPE)) {
		line[n > 0 ? n : 0] = 0;
		at = strchr(line, ';');
		if (!at || strstr(at, "mpa-explore") || !first)
			continue;
		for (i = 0; i < ARRAY_SIZE(complaints); i++)
			if (strstr(at, complaints[i]))
				break;
		if (i == ARRAY_SIZE(complaints))
			continue;
		at[strcspn(at, "\n")] = 0;
		snprintf(text, room, "%s", at + 1);
		first = false;
	}
	return !first;
}
