/* SPDX-License-Identifier: GPL-2.0 */
/* Modules that selftests/kmod/build builds for the guest's kernel. */
#ifndef _MPA_KMOD_H
#define _MPA_KMOD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Run a shell command. $MODULES is the folder of this kernel's modules, next to this
 * program's folder. Return: as system(3); -1 if the kernel is unknown.
 */
static inline int kmod_do(const char *line)
{
	const char *kernel = getenv("MPA_KERNEL");
	char dir[512], *slash, exe[256] = "";

	if (!kernel || readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
		return -1;
	slash = strrchr(exe, '/');
	*slash = 0;
	snprintf(dir, sizeof(dir), "%s/../%s", exe, kernel);
	setenv("MODULES", dir, 1);
	return system(line);
}

#endif /* _MPA_KMOD_H */
