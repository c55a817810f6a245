// SPDX-License-Identifier: GPL-2.0
/* Find sockets' processes in /proc/PID/fd, like ss. */
#include "tool.h"
#include "show.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Get a program's name, escaped for a terminal. */
static void name_of(int pid, char *name, size_t size)
{
	char path[64], octets[32], *text;
	ssize_t len = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		len = read(fd, octets, sizeof(octets));
		close(fd);
	}
	if (len > 0 && octets[len - 1] == '\n')
		len--;
	text = printable(octets, len > 0 ? len : 0);
	snprintf(name, size, "%s", len > 0 ? text : "?");
	free(text);
}

static void add(struct procs *procs, __u64 inode, int pid, const char *name)
{
	struct proc *proc;

	if (procs->n == procs->room) {
		procs->room = procs->room * 2 + 64;
		procs->list = need_memory(realloc(procs->list,
						  procs->room * sizeof(*procs->list)));
	}
	proc = &procs->list[procs->n++];
	proc->inode = inode;
	proc->pid = pid;
	snprintf(proc->name, sizeof(proc->name), "%s", name);
}

static void read_process(struct procs *procs, int pid)
{
	char path[64], target[64], name[sizeof(procs->list->name)] = "";
	const struct dirent *entry;
	__u64 inode;
	ssize_t len;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir) {
		procs->hidden |= errno == EACCES;
		return;
	}
	while ((entry = readdir(dir))) {
		len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		if (len < 0)
			continue;
		target[len] = 0;
		if (sscanf(target, "socket:[%llu]", &inode) != 1)
			continue;
		if (!*name)
			name_of(pid, name, sizeof(name));
		add(procs, inode, pid, name);
	}
	closedir(dir);
}

static int by_inode(const void *a, const void *b)
{
	const struct proc *one = a, *other = b;

	if (one->inode != other->inode)
		return one->inode < other->inode ? -1 : 1;
	return one->pid - other->pid;
}

void procs_read(struct procs *procs)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;

	if (!dir)
		die(STATUS_LOCAL, "/proc: %m");
	procs->n = 0;
	while ((entry = readdir(dir)))
		if (atoi(entry->d_name) > 0)
			read_process(procs, atoi(entry->d_name));
	closedir(dir);
	if (procs->n)
		qsort(procs->list, procs->n, sizeof(*procs->list), by_inode);
}

/* Return: the first process that has a socket; NULL if none is known. */
static const struct proc *first(const struct procs *procs, __u64 inode)
{
	size_t low = 0, high = procs->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (procs->list[middle].inode < inode)
			low = middle + 1;
		else
			high = middle;
	}
	return low < procs->n && inode && procs->list[low].inode == inode ?
	       &procs->list[low] : NULL;
}

static const struct proc *next(const struct procs *procs, const struct proc *proc)
{
	const struct proc *other = proc + 1;

	while (other < procs->list + procs->n && other->inode == proc->inode) {
		/* A process may have the socket twice. */
		if (other->pid != proc->pid)
			return other;
		other++;
	}
	return NULL;
}

/* Return: NAME(PID)[,NAME(PID)]..., or "-". The caller frees it. */
char *procs_text(const struct procs *procs, __u64 inode)
{
	const struct proc *proc = first(procs, inode);
	size_t len;
	char *text;
	FILE *out;

	out = need_memory(open_memstream(&text, &len));
	if (!proc)
		putc('-', out);
	for (const char *between = ""; proc; proc = next(procs, proc), between = ",")
		fprintf(out, "%s%s(%d)", between, proc->name, proc->pid);
	fclose(out);
	return need_memory(text);
}

json_t *procs_json(const struct procs *procs, __u64 inode)
{
	const struct proc *proc = first(procs, inode);
	json_t *list = need_memory(json_array());

	for (; proc; proc = next(procs, proc))
		json_array_append_new(list, json_pack("{s:s, s:i}", "name", proc->name,
						      "pid", proc->pid));
	return list;
}
