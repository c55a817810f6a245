/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the first processes of both kinds of guests, init.c and debug/init.c. */
#ifndef _MPA_VM_INIT_H
#define _MPA_VM_INIT_H

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct list {
	char **v;
	size_t n;
};

/* Print the error, with errno, and end the guest. */
static void die(const char *fmt, ...);

static char *slurp(const char *path, size_t *len)
{
	FILE *from = fopen(path, "re"), *to;
	char chunk[4096], *data = NULL;
	size_t n;

	if (!from)
		die("cannot open %s", path);
	to = open_memstream(&data, len);
	while ((n = fread(chunk, 1, sizeof(chunk), from)) > 0)
		fwrite(chunk, 1, n, to);
	fclose(to);
	fclose(from);
	return data;
}

/* Read NUL-terminated strings, as a list that ends with NULL. */
static struct list read_list(const char *path)
{
	struct list list = { .v = calloc(1, sizeof(char *)) };
	size_t len, at;
	char *data = slurp(path, &len);

	for (at = 0; at < len; at += strlen(data + at) + 1) {
		list.v = realloc(list.v, (list.n + 2) * sizeof(*list.v));
		list.v[list.n++] = data + at;
		list.v[list.n] = NULL;
	}
	return list;
}

static void try_mount(const char *type, const char *where)
{
	mkdir(where, 0755);
	mount(type, where, type, 0, NULL);
}

/* Mount the common file systems; skip those that the kernel lacks. */
static void mount_common(void)
{
	try_mount("devpts", "/dev/pts");
	try_mount("tmpfs", "/dev/shm");
	chmod("/dev/shm", 01777);
	try_mount("mqueue", "/dev/mqueue");
	try_mount("cgroup2", "/sys/fs/cgroup");
	try_mount("debugfs", "/sys/kernel/debug");
	try_mount("tracefs", "/sys/kernel/tracing");
	if (symlink("/proc/self/fd", "/dev/fd") ||
	    symlink("/proc/self/fd/0", "/dev/stdin") ||
	    symlink("/proc/self/fd/1", "/dev/stdout") ||
	    symlink("/proc/self/fd/2", "/dev/stderr"))
		die("cannot make the links in /dev");
}

static void loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr))
		die("no loopback interface");
	ifr.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &ifr))
		die("cannot bring loopback up");
	close(fd);
}

/* Become the command, in its process. */
static void run_command(const struct list *args, const struct list *env,
			const char *cwd)
{
	if (chdir(cwd)) {
		dprintf(2, "guest: cannot enter %s: %s\n", cwd,
			strerror(errno));
		_exit(125);
	}
	environ = env->v;
	execvp(args->v[0], args->v);
	dprintf(2, "guest: cannot run %s: %s\n", args->v[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* Return: the exit status, as in a shell. */
static int exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif /* _MPA_VM_INIT_H */
