// SPDX-License-Identifier: GPL-2.0
/*
 * First process of the debug kernel.
 *
 * It mounts the host's files as root (writes stay in memory), runs one command with its
 * output on two serial lines, has kmemleak look for leaks, and stores the result in a
 * file on the host.
 *
 * run puts into the host's directory $mpa_work: args and environment
 * (NUL-terminated strings), cwd, modules (the kernel's own), rw (directories
 * to mount writable), mode ("split" or "merge" for standard error). It finds
 * there afterwards: booted, status, found-leaks, began.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/reboot.h>
#include <termios.h>

#include "../init.h"

#define WORK "/run/mpa"
#define LEAKS "/sys/kernel/debug/kmemleak"

struct relay {
	int from;
	int to;
	pthread_t thread;
};

/* Write to the kernel's log, which run reads. */
static void say(const char *fmt, ...)
{
	char text[600];
	int fd, len;
	va_list ap;

	len = snprintf(text, sizeof(text), "<5>mpa-init: ");
	va_start(ap, fmt);
	len += vsnprintf(text + len, sizeof(text) - len, fmt, ap);
	va_end(ap);
	fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (len >= (int)sizeof(text))
		len = sizeof(text) - 1;
	if (write(fd, text, len) < 0)
		fprintf(stderr, "%s\n", text);
	close(fd);
}

static void leave(void)
{
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

static void die(const char *fmt, ...)
{
	int error = errno;
	char text[500];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say("failed: %s: %s", text, strerror(error));
	leave();
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die("write %s", path);
	close(fd);
}

static void must_mount(const char *what, const char *where, const char *type,
		       unsigned long flags, const char *options)
{
	if (mkdir(where, 0755) && errno != EEXIST && errno != EROFS)
		die("mkdir %s", where);
	if (mount(what, where, type, flags, options))
		die("mount %s (%s) on %s", what, options ?: "", where);
}

static void enter_root(const char *work)
{
	char from[PATH_MAX], to[PATH_MAX];
	struct list rw, modules;
	size_t i;

	/* The host's root is read-only, and has /run. */
	must_mount("tmpfs", "/run", "tmpfs", 0, "size=75%");
	must_mount("lower", "/run/lower", "hostfs", MS_RDONLY, "/");
	mkdir("/run/upper", 0755);
	mkdir("/run/work", 0755);
	must_mount("overlay", "/run/root", "overlay", 0,
		   "lowerdir=/run/lower,upperdir=/run/upper,workdir=/run/work");
	if (chdir("/run/root"))
		die("enter the new root");
	must_mount("devtmpfs", "dev", "devtmpfs", 0, NULL);
	must_mount("proc", "proc", "proc", 0, NULL);
	must_mount("sysfs", "sys", "sysfs", 0, NULL);
	must_mount("tmpfs", "run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755");
	mkdir("run/lock", 0755);
	chmod("run/lock", 01777);
	must_mount("work", "run/mpa", "hostfs", 0, work);
	/* On a reboot UML starts again. */
	if (open("run/mpa/booted", O_CREAT | O_EXCL | O_CLOEXEC, 0644) < 0)
		die("the command has rebooted");

	modules = read_list("run/mpa/modules");
	snprintf(from, sizeof(from), "/run/lower%s", modules.v[0]);
	must_mount(from, "lib/modules", NULL, MS_BIND, NULL);
	rw = read_list("run/mpa/rw");
	for (i = 0; i < rw.n; i++) {
		snprintf(to, sizeof(to), "/run/root%s", rw.v[i]);
		must_mount("rw", to, "hostfs", 0, rw.v[i]);
	}
	if (mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		die("switch to the new root");
}

static void set_up_system(void)
{
	mount_common();
	try_mount("bpf", "/sys/fs/bpf");
	write_file("/proc/sys/kernel/hung_task_warnings", "-1");
	write_file("/proc/sys/kernel/printk_ratelimit", "0");
	sethostname("guest", 5);
	loopback_up();
}

static int open_line(const char *path)
{
	int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios t;

	if (fd < 0 || tcgetattr(fd, &t))
		die("open %s", path);
	cfmakeraw(&t);
	if (tcsetattr(fd, TCSANOW, &t))
		die("set %s up", path);
	return fd;
}

static void *relay(void *arg)
{
	struct relay *r = arg;
	char buf[16384];
	ssize_t n, done, w;

	while ((n = read(r->from, buf, sizeof(buf))) > 0) {
		for (done = 0; done < n; done += w) {
			w = write(r->to, buf + done, n - done);
			if (w < 0)
				die("write output");
		}
	}
	tcdrain(r->to);
	return NULL;
}

static int start_relay(struct relay *r, const char *line)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		die("pipe");
	r->from = p[0];
	r->to = open_line(line);
	if (pthread_create(&r->thread, NULL, relay, r))
		die("create a thread");
	return p[1];
}

static pid_t spawn(int out, int err)
{
	struct list args = read_list(WORK "/args");
	struct list env = read_list(WORK "/environment");
	struct list cwd = read_list(WORK "/cwd");
	pid_t pid = fork();
	int null;

	if (pid < 0)
		die("fork");
	if (pid)
		return pid;

	setsid();
	null = open("/dev/null", O_RDONLY);
	dup2(null, 0);
	if (null > 2)
		close(null);
	dup2(out, 1);
	dup2(err, 2);
	run_command(&args, &env, cwd.v[0]);
	return -1;
}

static double uptime(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/*
 * kmemleak computes an object's checksum in one scan. A later scan reports the object
 * if the sum is unchanged and the object is a second old. A third scan checks objects
 * that the second found.
 */
static void find_leaks(double start)
{
	const struct timespec pause = { .tv_sec = 1, .tv_nsec = 100000000 };
	char text[32];
	size_t len;
	char *found;
	int i;

	if (access(LEAKS, F_OK))
		return;
	for (i = 0; i < 3; i++) {
		if (i)
			nanosleep(&pause, NULL);
		write_file(LEAKS, "scan");
		found = slurp(LEAKS, &len);
		if (i && !len)
			return;
	}
	snprintf(text, sizeof(text), "%.2f\n", start);
	write_file(WORK "/began", text);
	write_file(WORK "/found-leaks", found);
}

int main(void)
{
	const char *work = getenv("mpa_work");
	struct relay relays[2];
	int out, err, s, n = 1, status = 0;
	char text[16];
	double start;
	size_t len;
	pid_t command, pid;

	signal(SIGPIPE, SIG_IGN);
	enter_root(work);
	set_up_system();

	out = start_relay(&relays[0], "/dev/ttyS1");
	err = out;
	if (!strcmp(slurp(WORK "/mode", &len), "split"))
		err = start_relay(&relays[n++], "/dev/ttyS2");

	start = uptime();
	say("begins");
	command = spawn(out, err);
	close(out);
	if (n > 1)
		close(err);
	do {
		pid = wait(&s);
		if (pid == command)
			status = exit_status(s);
	} while (pid != command);
	say("ends with %d", status);

	/* Remaining processes would keep sockets and pipes open. */
	kill(-1, SIGKILL);
	while (wait(NULL) > 0)
		;
	while (n--)
		pthread_join(relays[n].thread, NULL);

	find_leaks(start);
	snprintf(text, sizeof(text), "%d\n", status);
	write_file(WORK "/status", text);
	say("done");
	leave();
}
