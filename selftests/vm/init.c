// SPDX-License-Identifier: GPL-2.0
/*
 * First process of the guest, alone in its initramfs with a few modules.
 *
 * It mounts the host's file system as root (read-only; writes stay in memory), runs one
 * command with its output on two virtio ports, and reports the end on a third. It is in
 * C because the command's arguments may contain any octet, and the last output must
 * reach the host before the power goes off.
 *
 * "run" puts these files beside it: modules (names, in order), args and env
 * (NUL-terminated strings), cwd, base (the host's directory that is the root, if
 * not its own root), binds (pairs of source and target, NUL terminated), rw
 * (directories to mount writable from the tags rw0, rw1, ...),
 * mode ("split", "merge", or "shell" with the terminal's rows and columns).
 */
#define _GNU_SOURCE
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>

#include "init.h"

#define P9_OPTIONS "trans=virtio,version=9p2000.L,msize=512000"

/* Ports of the one virtio-serial device, as numbered by run. */
#define PORT_OUT "/dev/vport%dp1"
#define PORT_ERR "/dev/vport%dp2"
#define PORT_STATUS "/dev/vport%dp3"
#define SHELL_TTY "/dev/hvc0"

struct relay {
	int from;
	int to;
	char buf[32768];
	size_t have;
	size_t done;
	bool eof;
};

static int status_port = -1;

static void drain(int port)
{
	/* A port is writable once the host has received the earlier output. */
	struct pollfd p = { .fd = port, .events = POLLOUT };

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

static void leave(const char *fmt, ...)
{
	va_list ap;

	if (status_port >= 0) {
		va_start(ap, fmt);
		vdprintf(status_port, fmt, ap);
		va_end(ap);
		drain(status_port);
	}
	sync();
	/* With QEMU's -no-reboot this is the fastest way to end it. */
	reboot(RB_AUTOBOOT);
	_exit(1);
}

static void die(const char *fmt, ...)
{
	int error = errno;
	char msg[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	printf("init: %s: %s\n", msg, strerror(error));
	leave("failed %s: %s\n", msg, strerror(error));
}

static void make_dirs(const char *path)
{
	char buf[PATH_MAX], *p;

	snprintf(buf, sizeof(buf), "%s", path);
	for (p = buf + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		mkdir(buf, 0755);
		*p = '/';
	}
	mkdir(buf, 0755);
}

static void must_mount(const char *what, const char *where, const char *type,
		       unsigned long flags, const char *options)
{
	make_dirs(where);
	if (mount(what, where, type, flags, options))
		die("cannot mount %s on %s", what, where);
}

static void load_modules(void)
{
	struct list names = read_list("/modules");
	size_t i;

	for (i = 0; i < names.n; i++) {
		int fd = open(names.v[i], O_RDONLY | O_CLOEXEC);

		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) &&
			       errno != EEXIST))
			die("cannot load %s", names.v[i]);
		close(fd);
	}
}

/*
 * The host announces its ports a while after the driver is loaded. Their name has the
 * device's number in the order of discovery, which differs on s390x.
 */
static int open_port(const char *format, int flags)
{
	char path[32];
	int device, fd;

	for (device = 0;; device = (device + 1) % 32) {
		snprintf(path, sizeof(path), format, device);
		fd = open(path, flags | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		if (errno != ENOENT && errno != ENODEV && errno != ENXIO)
			die("cannot open %s", path);
		if (!device)
			usleep(1000);
	}
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		printf("init: cannot write %s: %s\n", path, strerror(errno));
	close(fd);
}

static void enter_root(void)
{
	static const char * const carried[] = { "/dev", "/proc", "/sys" };
	struct list binds = read_list("/binds");
	struct list rw = read_list("/rw");
	char source[PATH_MAX], path[PATH_MAX], tag[32], *options, *base;
	size_t len, i;

	must_mount("hostroot", "/lower", "9p", MS_RDONLY,
		   P9_OPTIONS ",cache=loose");
	must_mount("tmpfs", "/memory", "tmpfs", 0, "size=75%");
	make_dirs("/memory/upper");
	make_dirs("/memory/work");
	base = slurp("/base", &len);
	if (asprintf(&options,
		     "lowerdir=/lower%s,upperdir=/memory/upper,workdir=/memory/work",
		     base) < 0)
		die("no memory");
	must_mount("overlay", "/root", "overlay", 0, options);

	for (i = 0; i < sizeof(carried) / sizeof(*carried); i++) {
		snprintf(path, sizeof(path), "/root%s", carried[i]);
		must_mount(carried[i], path, NULL, MS_MOVE, NULL);
	}
	must_mount("tmpfs", "/root/run", "tmpfs", MS_NOSUID | MS_NODEV,
		   "mode=755");
	make_dirs("/root/run/lock");
	chmod("/root/run/lock", 01777);

	for (i = 0; i + 1 < binds.n; i += 2) {
		/*
		 * Take it from the lower root: /run and similar folders are new in the
		 * upper one.
		 */
		snprintf(source, sizeof(source), "/lower%s", binds.v[i]);
		snprintf(path, sizeof(path), "/root%s", binds.v[i + 1]);
		must_mount(source, path, NULL, MS_BIND, NULL);
	}
	for (i = 0; i < rw.n; i++) {
		snprintf(tag, sizeof(tag), "rw%zu", i);
		snprintf(path, sizeof(path), "/root%s", rw.v[i]);
		must_mount(tag, path, "9p", 0, P9_OPTIONS ",cache=mmap");
	}

	if (chdir("/root") || mount(".", "/", NULL, MS_MOVE, NULL) ||
	    chroot(".") || chdir("/"))
		die("cannot switch to the host's root");
}

static void set_up_system(void)
{
	static const struct {
		const char *path;
		const char *text;
	} settings[] = {
		/* If the guest hangs, report where. */
		{ "/proc/sys/kernel/hung_task_timeout_secs", "60" },
		{ "/proc/sys/kernel/hung_task_warnings", "-1" },
		{ "/proc/sys/kernel/printk_ratelimit", "0" },
		{ "/proc/sys/kernel/hostname", "guest" },
	};
	size_t i;

	mount_common();
	for (i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		write_file(settings[i].path, settings[i].text);
	loopback_up();
}

static pid_t spawn(const struct list *args, const struct list *env,
		   const char *cwd, int in, int out, int err, bool tty)
{
	pid_t pid = fork();
	sigset_t none;

	if (pid < 0)
		die("fork");
	if (pid)
		return pid;

	setsid();
	if (tty)
		ioctl(in, TIOCSCTTY, 1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(in, 0);
	dup2(out, 1);
	dup2(err, 2);
	run_command(args, env, cwd);
	return -1;
}

/* Move all octets that can be moved now; never wait. */
static void pump(struct relay *r)
{
	ssize_t n;

	if (r->have == r->done && !r->eof) {
		n = read(r->from, r->buf, sizeof(r->buf));
		if (n > 0) {
			r->have = n;
			r->done = 0;
		} else if (n == 0) {
			r->eof = true;
		}
	}
	if (r->have > r->done) {
		n = write(r->to, r->buf + r->done, r->have - r->done);
		if (n > 0)
			r->done += n;
	}
}

static bool pending(const struct relay *r)
{
	int n = 0;

	return r->have > r->done ||
	       (!ioctl(r->from, FIONREAD, &n) && n > 0);
}

static int reap(pid_t command, int *status)
{
	int ended = 0, s;
	pid_t pid;

	while ((pid = waitpid(-1, &s, WNOHANG)) > 0) {
		if (pid != command)
			continue;
		*status = exit_status(s);
		ended = 1;
	}
	return ended;
}

/*
 * When the command ends, the guest ends, after all octets that are in the pipes by
 * then. A background process that keeps a pipe open does not delay that.
 */
static int wait_and_relay(pid_t command, int children, struct relay *relays,
			  int n)
{
	struct pollfd p[3];
	bool ended = false;
	int status = 0, i;

	for (;;) {
		struct signalfd_siginfo info;
		bool left = false;

		for (i = 0; i < n; i++) {
			bool full = relays[i].have > relays[i].done;

			p[i].fd = full ? relays[i].to : relays[i].from;
			p[i].events = full ? POLLOUT : POLLIN;
			if (relays[i].eof)
				p[i].fd = -1;
			left |= pending(&relays[i]);
		}
		if (ended && !left)
			break;
		p[n].fd = children;
		p[n].events = POLLIN;
		if (poll(p, n + 1, -1) < 0 && errno != EINTR)
			die("poll");
		for (i = 0; i < n; i++)
			if (p[i].fd >= 0 && p[i].revents)
				pump(&relays[i]);
		if (p[n].revents) {
			if (read(children, &info, sizeof(info)) < 0)
				die("signalfd");
			ended |= reap(command, &status);
		}
	}
	for (i = 0; i < n; i++)
		drain(relays[i].to);
	return status;
}

static void make_relay(struct relay *r, const char *port, int *command_end)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		die("pipe");
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	*r = (struct relay) {
		.from = ends[0],
		.to = open_port(port, O_WRONLY | O_NONBLOCK),
	};
	*command_end = ends[1];
}

int main(void)
{
	static struct relay relays[2];
	struct winsize size = { 0 };
	struct list args, env;
	int children, null, out, err, status, n = 0;
	size_t len;
	char *cwd, *mode, *taint;
	sigset_t mask;
	pid_t command;

	setvbuf(stdout, NULL, _IOLBF, 0);
	must_mount("proc", "/proc", "proc", 0, NULL);
	must_mount("sysfs", "/sys", "sysfs", 0, NULL);
	if (mount("devtmpfs", "/dev", "devtmpfs", 0, NULL) && errno != EBUSY)
		die("cannot mount /dev");
	load_modules();
	status_port = open_port(PORT_STATUS, O_WRONLY);

	args = read_list("/args");
	env = read_list("/env");
	cwd = slurp("/cwd", &len);
	mode = slurp("/mode", &len);
	enter_root();
	set_up_system();

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	children = signalfd(-1, &mask, SFD_CLOEXEC);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (sscanf(mode, "shell %hu %hu", &size.ws_row, &size.ws_col) == 2) {
		out = open_port(SHELL_TTY, O_RDWR | O_NOCTTY);
		ioctl(out, TIOCSWINSZ, &size);
		command = spawn(&args, &env, cwd, out, out, out, true);
	} else {
		make_relay(&relays[n++], PORT_OUT, &out);
		err = out;
		if (!strcmp(mode, "split"))
			make_relay(&relays[n++], PORT_ERR, &err);
		command = spawn(&args, &env, cwd, null, out, err, false);
		if (err != out)
			close(err);
	}
	close(out);
	dprintf(status_port, "started\n");

	status = wait_and_relay(command, children, relays, n);
	dprintf(status_port, "exit %d\n", status);

	/*
	 * Sockets that the command left open are closed while the kernel's messages are
	 * still read.
	 */
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	taint = slurp("/proc/sys/kernel/tainted", &len);
	leave("taint %s", taint);
}
