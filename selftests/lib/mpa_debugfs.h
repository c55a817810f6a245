/* SPDX-License-Identifier: GPL-2.0 */
/* Fault injection for all tasks, through debugfs. */
#ifndef _MPA_DEBUGFS_H
#define _MPA_DEBUGFS_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEBUG		"/sys/kernel/debug/"

static inline int debugfs_put(const char *dir, const char *name, const char *value)
{
	char path[96];
	int fd, ret;

	snprintf(path, sizeof(path), DEBUG "%s/%s", dir, name);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	ret = write(fd, value, strlen(value)) < 0 ? -1 : 0;
	close(fd);
	return ret;
}

/* Select the allocations that can fail, and do not log each fault. */
static inline int faults_set_up(const char *dir)
{
	return debugfs_put(dir, "verbose", "0") |
	       debugfs_put(dir, "probability", "0") |
	       debugfs_put(dir, "interval", "1") |
	       debugfs_put(dir, "ignore-gfp-wait", "N");
}

/* Have one allocation, of any task or softirq, fail after @space octets. */
static inline void slab_fault_arm(unsigned int space, bool atomic)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", space);
	debugfs_put("failslab", "ignore-gfp-wait", atomic ? "Y" : "N");
	debugfs_put("failslab", "space", text);
	debugfs_put("failslab", "times", "1");
	debugfs_put("failslab", "probability", "100");
}

static inline bool slab_fault_disarm(void)
{
	char text[16] = "";
	int fd;

	debugfs_put("failslab", "probability", "0");
	debugfs_put("failslab", "ignore-gfp-wait", "N");
	fd = open(DEBUG "failslab/times", O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		abort();
	close(fd);
	return !atoi(text);
}

/* ---- faults of this thread ---- */

#define FAIL_NTH	"/proc/thread-self/fail-nth"

static int fail_nth_fd;

static inline void fault_arm(unsigned int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	if (pwrite(fail_nth_fd, text, len, 0) != len)
		abort();
}

/* Whether the fault has happened. This read copies to user space, so it can fail, too. */
static inline bool fault_disarm(void)
{
	char text[16] = "";
	ssize_t len = pread(fail_nth_fd, text, sizeof(text) - 1, 0);

	if (pwrite(fail_nth_fd, "0", 1, 0) != 1 &&
	    pwrite(fail_nth_fd, "0", 1, 0) != 1)
		abort();
	return len > 0 && !atoi(text);
}

static inline bool no_memory(int err)
{
	return err == ENOMEM || err == ENOBUFS;
}

#endif /* _MPA_DEBUGFS_H */
