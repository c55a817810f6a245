// SPDX-License-Identifier: GPL-2.0
/*
 * Operations with many sockets: memory that is not charged, silent clients in all
 * places, users that hold their locks, and sockets that outlive the module.
 */

#include <sys/resource.h>
#include <sys/syscall.h>

#include "mpa.h"

#define CROWD		150
#define OPEN_LEN	60000
#define STASHED_LEN	30000
#define MEM_SLACK	(520 * 4096)	/* reserve that all processors may keep */
#define SILENT		8
#define OTHERS		3
#define HELD		600		/* more work items than a workqueue runs at once */
#define HELD_FIRST	3000

/* Return: octets charged to TCP. */
static long tcp_mem(void)
{
	FILE *file = fopen("/proc/net/sockstat", "r");
	char line[200], *at;
	long pages = 0;

	while (file && fgets(line, sizeof(line), file)) {
		at = strstr(line, " mem ");
		if (!strncmp(line, "TCP:", 4) && at)
			pages = atol(at + 5);
	}
	if (file)
		fclose(file);
	return pages * 4096;
}

struct pair {
	int s, raw;
};

static struct pair pairs[HELD];

static int pairs_make(struct world *w, int nr, bool small)
{
	int i;

	for (i = 0; i < nr; i++) {
		if (pair_make(w, small ? 4096 : 0) || mpa_attach(w->s))
			return -1;
		pairs[i].s = w->s;
		pairs[i].raw = w->raw;
	}
	w->s = -1;
	w->raw = -1;
	return 0;
}

static void pairs_end(int nr)
{
	while (nr--) {
		hang_up(pairs[nr].s);
		hang_up(pairs[nr].raw);
	}
	settle(10);
}

static void judge_mem(long before, long held, const char *what)
{
	long now = tcp_mem() - before;

	if (held < 1 << 20)
		violated("only %ld octets: nothing to judge", held);
	else if (now + MEM_SLACK < held)
		violated("%ld octets in %s, TCP counts %ld", held, what, now);
}

/* Build records with MSG_MORE. */
static int op_crowd_open(struct world *w, long arg)
{
	long before = tcp_mem(), held = 0;
	static u8 octets[OPEN_LEN];
	int i;

	(void)arg;
	if (pairs_make(w, CROWD, false))
		return -1;
	for (i = 0; i < CROWD; i++) {
		mpa_start(pairs[i].s, MPA_ROLE_DIRECT, 0);
		if (send(pairs[i].s, octets, OPEN_LEN,
			 MSG_MORE | MSG_DONTWAIT) == OPEN_LEN)
			held += OPEN_LEN;
	}
	judge_mem(before, held, "open records");
	pairs_end(CROWD);
	return 0;
}

/* Send FPDUs that exceed small receive buffers. */
static int op_crowd_stash(struct world *w, long arg)
{
	long before = tcp_mem(), held = 0;
	static u8 octets[STASHED_LEN];
	int i, left, sent[CROWD] = {};

	(void)arg;
	octets[0] = 0xfd;
	if (pairs_make(w, CROWD, true))
		return -1;
	for (i = 0; i < CROWD; i++) {
		mpa_start(pairs[i].s, MPA_ROLE_DIRECT, 0);
		sent[i] = send(pairs[i].raw, octets, STASHED_LEN,
			       MSG_DONTWAIT);
	}
	settle(2000);
	for (i = 0; i < CROWD; i++) {
		left = 0;
		ioctl(pairs[i].raw, SIOCOUTQ, &left);
		held += sent[i] - left;
		/* These octets are in the peer's send queue, and charged to the peer. */
		before += left;
	}
	judge_mem(before, held, "stashes");
	pairs_end(CROWD);
	return 0;
}

/* Connect a client. @to: set to the accepted socket. */
static int accepted(int l, struct sockaddr_in *addr, int *to)
{
	int raw = raw_connect(addr);

	*to = raw < 0 ? -1 : accept(l, NULL, NULL);
	settle(1);
	return raw;
}

/* Whether a client that sends its request is served. */
static bool served(int raw, int to)
{
	u8 frame[FRAME_LEN];
	bool good;

	if (raw < 0)
		return false;
	frame_put(frame, false, 0x40, 1, 0);
	good = !write_all(raw, frame, FRAME_LEN);
	settle(5);
	good = good &&
	       recv(raw, frame, FRAME_LEN, MSG_DONTWAIT) == FRAME_LEN &&
	       !memcmp(frame, "MPA ID Rep Frame", 16);
	hang_up(raw);
	if (to >= 0)
		hang_up(to);
	return good;
}

/*
 * Fill startup with silent clients, up to the limit. A client that sends its request
 * must be served: it connects to the same listener after them, or to another listener
 * before them. One port in 256 shares a bucket with the silent ones' port, so there are
 * several other listeners, and one of their clients must be served.
 */
static int op_crowd_silent(struct world *w, long other)
{
	int silent[2 * SILENT][2], raw[OTHERS], to[OTHERS], l[1 + OTHERS], i;
	struct sockaddr_in addr[1 + OTHERS] = {};
	const int nr = other ? OTHERS : 1;
	bool good = false;

	(void)w;
	if (sysctl_put("startup_max", SILENT))
		return -errno;
	for (i = 0; i <= OTHERS; i++)
		if (listen_as(&l[i], true, 0, &addr[i]) || listen(l[i], 64))
			return -errno;
	for (i = 0; other && i < OTHERS; i++)
		raw[i] = accepted(l[1 + i], &addr[1 + i], &to[i]);
	for (i = 0; i < 2 * SILENT; i++)
		silent[i][0] = accepted(l[0], &addr[0], &silent[i][1]);
	if (!other)
		raw[0] = accepted(l[0], &addr[0], &to[0]);
	for (i = 0; i < nr; i++)
		good |= served(raw[i], to[i]);
	if (!good)
		violated("silent clients keep others out");
	for (i = 0; i < 2 * SILENT; i++) {
		hang_up(silent[i][0]);
		hang_up(silent[i][1]);
	}
	for (i = 0; i <= OTHERS; i++)
		close(l[i]);
	sysctl_put("startup_max", 4096);
	return 0;
}

/* ---- locks ---- */

static void *hold_locks(void *arg)
{
	const char *path = getenv("MPA_KERNEL_USER");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char args[64];

	snprintf(args, sizeof(args),
		 "how=hold fd=%d count=%d ms=3000", HELD_FIRST, HELD);
	*(int *)arg = syscall(SYS_finit_module, fd, args, 0) ? errno : 0;
	close(fd);
	return NULL;
}

/* Page faults of some users are never served, so their locks stay held. */
static int op_crowd_locks(struct world *w, long arg)
{
	struct rlimit files = { 2 * HELD_FIRST, 2 * HELD_FIRST };
	struct sockaddr_in addr = {};
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1, .timeout_ms = 500,
	};
	int i, l, to, raw, err;
	pthread_t thread;

	(void)arg;
	if (!getenv("MPA_KERNEL_USER"))
		return -ENOENT;
	if (setrlimit(RLIMIT_NOFILE, &files) || pairs_make(w, HELD, false))
		return -errno;
	for (i = 0; i < HELD; i++) {
		int s = fcntl(pairs[i].s, F_DUPFD, HELD_FIRST);

		close(pairs[i].s);
		pairs[i].s = s;
	}
	if (listen_as(&l, true, 0, &addr) || listen(l, 8))
		return -errno;
	for (i = 0; i < HELD; i++)
		mpa_start_as(pairs[i].s, &start);
	if (pthread_create(&thread, NULL, hold_locks, &err))
		return -1;
	/* By now all startups have timed out; ending them needs the socket locks. */
	settle(1500);
	raw = accepted(l, &addr, &to);
	if (!served(raw, to))
		violated("a user that holds its locks stops another's startup");
	pthread_join(thread, NULL);
	if (err != ECANCELED)
		violated("locks were not held: %s", strerror(err));
	close(l);
	pairs_end(HELD);
	return 0;
}

/* ---- the module ---- */

static int module_again(void)
{
	const char *path = getenv("MPA_KO");
	int fd, err, i;

	for (i = 0; syscall(SYS_delete_module, "mpa", O_NONBLOCK); i++) {
		if (i == 100)
			return -errno;
		settle(10);
	}
	settle(5000);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = syscall(SYS_finit_module, fd, "", 0) ? -errno : 0;
	close(fd);
	sysctl_put("startup_timeout_ms", STARTUP_MS);
	return err;
}

/* Packets in flight hold sockets that were closed long before. */
static int op_crowd_wire(struct world *w, long accepted)
{
	struct sockaddr_in addr = {};
	u8 octets[1000] = "";
	int l, raw, s, err;

	(void)w;
	if (listen_as(&l, true, 0, &addr) || listen(l, 8))
		return -errno;
	raw = raw_connect(&addr);
	if (accepted)
		s = accept(l, NULL, NULL);
	if (system("tc qdisc add dev lo root netem delay 1000ms"))
		return -ENOENT;
	if (accepted) {
		close(l);
		mpa_start(s, MPA_ROLE_DIRECT, 0);
		if (send(s, octets, sizeof(octets), MSG_DONTWAIT) < 0)
			err = -errno;
		hang_up(s);
	} else {
		/* The close also resets the children. */
		close(l);
	}
	err = module_again();
	if (err == -EAGAIN || err == -EBUSY)
		err = 0;
	if (err)
		violated("the module does not come back: %s", strerror(-err));
	system("tc qdisc del dev lo root");
	hang_up(raw);
	return err;
}

/* All is closed, so the module can be unloaded, and loaded again. */
static int op_crowd_module(struct world *w, long arg)
{
	int err;

	(void)arg;
	settle(100);
	err = module_again();
	if (err)
		violated("the module cannot go: %s", strerror(-err));
	(void)w;
	return err;
}

#define CROWD_OP(name, fn, arg)	{ "crowd." name, ACTOR_CROWD, OP_ALONE, fn, arg }

const struct op crowd_ops[] = {
	CROWD_OP("open", op_crowd_open, 0),
	CROWD_OP("stash", op_crowd_stash, 0),
	CROWD_OP("silent", op_crowd_silent, 0),
	CROWD_OP("starved", op_crowd_silent, 1),
	CROWD_OP("locks", op_crowd_locks, 0),
	CROWD_OP("wire", op_crowd_wire, 1),
	CROWD_OP("queue", op_crowd_wire, 0),
	CROWD_OP("module", op_crowd_module, 0),
};

const int crowd_ops_nr = ARRAY_SIZE(crowd_ops);
