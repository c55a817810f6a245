/* SPDX-License-Identifier: GPL-2.0 */
/* Read /proc: TCP's counters, and free memory. */
#ifndef _MPA_PROC_H
#define _MPA_PROC_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return: a counter of TCP in /proc/net/netstat of this network namespace, or -1. */
static inline long tcp_counter(const char *name)
{
	FILE *file = fopen("/proc/net/netstat", "r");
	char names[8192], values[8192];
	long value = -1;

	while (file && value < 0 && fgets(names, sizeof(names), file) &&
	       fgets(values, sizeof(values), file)) {
		char *names_left, *values_left;
		char *v = strtok_r(values, "\n ", &values_left);
		char *n = strtok_r(names, "\n ", &names_left);

		for (; n && v; n = strtok_r(NULL, "\n ", &names_left),
		     v = strtok_r(NULL, "\n ", &values_left))
			if (!strcmp(n, name))
				value = atol(v);
	}
	if (file)
		fclose(file);
	return value;
}

/* Free memory, in KiB. */
static inline long free_kb(void)
{
	FILE *meminfo = fopen("/proc/meminfo", "r");
	char line[128];
	long kb = 0;

	while (meminfo && fgets(line, sizeof(line), meminfo))
		if (sscanf(line, "MemFree: %ld", &kb) == 1)
			break;
	if (meminfo)
		fclose(meminfo);
	return kb;
}

#endif /* _MPA_PROC_H */
