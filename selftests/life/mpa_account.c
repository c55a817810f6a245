// SPDX-License-Identifier: GPL-2.0
/* MPA's memory for a socket is charged to the socket, like TCP's. */

#include <dirent.h>
#include <linux/sock_diag.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_pair.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO	55
#endif

static const struct mpa_start direct = {
	.role = MPA_ROLE_DIRECT, .revision = 1,
};

static int option_put(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? errno : 0;
}

/* Return: octets charged to this account of the socket, or -1. */
static int meminfo(int fd, int account)
{
	u32 info[SK_MEMINFO_VARS] = {};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len))
		return -1;
	return info[account];
}

/* Return: octets charged to the send buffer, or -1. */
static int queued(int fd)
{
	return meminfo(fd, SK_MEMINFO_WMEM_QUEUED);
}

/* Whether all charged memory is released in time. */
static bool nothing_queued(int fd)
{
	const long until = now_ms() + 20000;

	while (queued(fd) && now_ms() < until)
		poll(NULL, 0, 1);
	if (queued(fd))
		fprintf(stderr, "# expected nothing queued, seen %d octets\n",
			queued(fd));
	return !queued(fd);
}

/* Return: the memory of all TCP sockets, in octets, or -1. */
static long tcp_memory(void)
{
	FILE *file = fopen("/proc/net/sockstat", "r");
	char line[256], *mem;
	long pages = -1;

	while (file && fgets(line, sizeof(line), file)) {
		mem = strstr(line, " mem ");
		if (!strncmp(line, "TCP:", 4) && mem)
			pages = atol(mem + 5);
	}
	if (file)
		fclose(file);
	return pages < 0 ? -1 : pages * sysconf(_SC_PAGESIZE);
}

/* ---- octets ---- */

#define SOCKETS	150
#define OPEN	64000

TEST_F(pair, open_records_of_many_sockets)
{
	/* Each processor keeps some memory in reserve. */
	const long slack = sysconf(_SC_NPROCESSORS_CONF) * (1 << 20);
	const long all = (long)SOCKETS * OPEN;
	long before, during, until;
	static int fd[SOCKETS][2];
	int i;

	before = tcp_memory();
	ASSERT_LE(0, before);
	for (i = 0; i < SOCKETS; i++) {
		ASSERT_EQ(0, tcp_pair(AF_INET, fd[i]));
		ASSERT_EQ(0, mpa_attach(fd[i][0]));
		ASSERT_EQ(0, mpa_start_as(fd[i][0], &direct));
		ASSERT_EQ(OPEN, send(fd[i][0], record_row, OPEN, MSG_MORE));
	}
	during = tcp_memory();
	/* Other sockets may have freed memory meanwhile. */
	EXPECT_LE(all - slack, during)
		TH_LOG("%d sockets hold %ld octets, TCP's memory went from %ld to %ld",
		       SOCKETS, all, before, during);
	for (i = 0; i < SOCKETS; i++) {
		hang_up(fd[i][0]);
		hang_up(fd[i][1]);
	}
	until = now_ms() + 20000;
	while (tcp_memory() > before + slack && now_ms() < until)
		poll(NULL, 0, 1);
	EXPECT_GE(before + slack, tcp_memory());
}

TEST_F(pair, open_record_counts_for_the_send_buffer)
{
	static u8 seen[MPA_ULPDU_MAX];
	size_t at;

	ASSERT_EQ(0, negotiate(self));
	ASSERT_EQ(0, queued(self->fd[0]));
	for (at = 0; at < 50000; at += 1000) {
		ASSERT_EQ(1000, send(self->fd[0], record_of(50000) + at, 1000,
				     MSG_MORE));
		ASSERT_LE(at + 1000, queued(self->fd[0]));
		ASSERT_GE(at + 1000 + 8192, queued(self->fd[0]));
	}
	/* The call that ends the record must not charge its memory again. */
	ASSERT_EQ(0, send(self->fd[0], NULL, 0, 0));
	EXPECT_EQ(50000, recv(self->fd[1], seen, sizeof(seen), 0));
	EXPECT_TRUE(record_good(seen, 50000));
	EXPECT_TRUE(nothing_queued(self->fd[0]));
}

/*
 * Memory is reserved before octets are copied: if the copy fails, the memory must be
 * released.
 */
TEST_F(pair, failed_send_reserves_nothing)
{
	ASSERT_EQ(0, negotiate(self));
	ASSERT_EQ(-1, send(self->fd[0], unreadable(60000), 60000, 0));
	ASSERT_EQ(EFAULT, errno);
	EXPECT_GT(sysconf(_SC_PAGESIZE),
		  meminfo(self->fd[0], SK_MEMINFO_FWD_ALLOC));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_MPA, MPA_OVERSIZE, 0));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_TCP, TCP_MAXSEG, 1000));
	ASSERT_EQ(-1, send(self->fd[0], record_of(MPA_ULPDU_MAX),
			   MPA_ULPDU_MAX, 0));
	ASSERT_EQ(EMSGSIZE, errno);
	EXPECT_GT(sysconf(_SC_PAGESIZE),
		  meminfo(self->fd[0], SK_MEMINFO_FWD_ALLOC));
}

TEST_F(pair, batch_counts_for_the_send_buffer)
{
	u8 seen[1000];
	int i;

	ASSERT_EQ(0, negotiate(self));
	/* The batch is in MPA's buffer, or already in TCP's queue: it may arrive late. */
	for (i = 1; i <= 10; i++)
		ASSERT_EQ(1000, send(self->fd[0], record_of(1000), 1000,
				     MSG_MORE | MSG_EOR));
	EXPECT_LT(0, queued(self->fd[0]));
	for (i = 0; i < 10; i++)
		ASSERT_EQ(1000, recv(self->fd[1], seen, sizeof(seen), 0));
	EXPECT_TRUE(nothing_queued(self->fd[0]));
}

/* Nothing more is sent, so no later call updates the count. */
TEST_F(pair, open_record_is_dropped_with_the_connection)
{
	int way;

	for (way = 0; way < 4; way++) {
		ASSERT_EQ(0, negotiate(self));
		ASSERT_EQ(30000, send(self->fd[0], record_row, 30000,
				      MSG_MORE));
		switch (way) {
		case 0:
			/* fresh() closes the connection. */
			break;
		case 1:
			ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
			EXPECT_TRUE(nothing_queued(self->fd[0]));
			break;
		case 2:
			hang_up(self->fd[1]);
			self->fd[1] = -1;
			ASSERT_NE(0, poll_for(self->fd[0], 0, 20000));
			break;
		case 3:
			ASSERT_EQ(0, shutdown(self->fd[1], SHUT_RDWR));
			break;
		}
		close(self->fd[0]);
		self->fd[0] = -1;
	}
}

/* ---- octets at a limit ---- */

#define TCP_MEM		"/proc/sys/net/ipv4/tcp_mem"
#define FULL_WINDOW	10	/* number of records, of 1000 octets */

FIXTURE(limit)
{
	char usual[64];
	int hog[2];
	int fd[SOCKETS][2];
};

FIXTURE_VARIANT(limit)
{
	bool queued;	/* octets already wait for a closed window */
};

FIXTURE_VARIANT_ADD(limit, idle) { false };
FIXTURE_VARIANT_ADD(limit, queued) { true };

static int tcp_mem_put(const char *text)
{
	int fd = open(TCP_MEM, O_WRONLY), err;

	err = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

FIXTURE_SETUP(limit)
{
	int fd = open(TCP_MEM, O_RDONLY), i, n;

	memset(self, 0, sizeof(*self));
	ASSERT_LT(0, read(fd, self->usual, sizeof(self->usual) - 1));
	close(fd);
	/* Raise TCP's memory count, which is coarse, above any limit. */
	ASSERT_EQ(0, tcp_pair(AF_INET, self->hog));
	if (option_put(self->hog[0], SOL_SOCKET, SO_SNDBUFFORCE, 1 << 22))
		SKIP(_exit(255), "needs root");
	while (send(self->hog[0], record_row, sizeof(record_row),
		    MSG_DONTWAIT) > 0)
		;
	for (i = 0; i < SOCKETS; i++) {
		ASSERT_EQ(0, tcp_pair_buf(AF_INET, self->fd[i], 4096));
		/* Otherwise TCP shrinks the buffer while memory is short. */
		ASSERT_EQ(0, option_put(self->fd[i][0], SOL_SOCKET,
					SO_SNDBUFFORCE, 1 << 20));
		ASSERT_EQ(0, mpa_attach(self->fd[i][0]));
		ASSERT_EQ(0, mpa_start_as(self->fd[i][0], &direct));
		for (n = 0; variant->queued && n < FULL_WINDOW; n++)
			ASSERT_EQ(1000, send(self->fd[i][0], record_row, 1000,
					     MSG_DONTWAIT));
	}
}

FIXTURE_TEARDOWN(limit)
{
	int i;

	tcp_mem_put(self->usual);
	for (i = 0; i < SOCKETS; i++) {
		hang_up(self->fd[i][0]);
		hang_up(self->fd[i][1]);
	}
	hang_up(self->hog[0]);
	hang_up(self->hog[1]);
}

TEST_F(limit, accepted_octets_count_where_memory_is_short)
{
	/* Each processor keeps some memory in reserve. */
	const long slack = sysconf(_SC_NPROCESSORS_CONF) * (1 << 20);
	long before = tcp_memory(), during, all = 0;
	const long page = sysconf(_SC_PAGESIZE);
	int i, counted, octets = 0;

	ASSERT_LE(0, before);
	ASSERT_EQ(0, tcp_mem_put("1 1 1"));
	for (i = 0; i < SOCKETS; i++) {
		while (send(self->fd[i][0], record_row, MPA_ULPDU_MAX,
			    MSG_DONTWAIT) == MPA_ULPDU_MAX)
			all += MPA_ULPDU_MAX;
		counted = queued(self->fd[i][0]);
		/* Acknowledged octets are no longer charged. */
		ASSERT_EQ(0, ioctl(self->fd[i][0], SIOCOUTQ, &octets));
		EXPECT_LE(octets, counted) {
			TH_LOG("socket %d holds %d octets, %d are counted", i,
			       octets, counted);
		}
	}
	/* A socket accepts one record if nothing else is queued. */
	EXPECT_LE(variant->queued ? 0 : SOCKETS * MPA_ULPDU_MAX, all);
	during = tcp_memory();
	EXPECT_LE(all - slack - 2 * SOCKETS * page, during - before) {
		TH_LOG("%d sockets have accepted %ld octets, TCP's memory went from %ld to %ld",
		       SOCKETS, all, before, during);
	}
}

/* ---- and nothing waits for ever ---- */

/* A record begun with MSG_MORE may exceed the send buffer, so that it can always end. */
TEST_F(pair, open_record_may_be_larger_than_the_send_buffer)
{
	static u8 seen[MPA_ULPDU_MAX];
	size_t at;

	ASSERT_EQ(0, negotiate(self));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_SOCKET, SO_SNDBUF, 1));
	set_nonblock(self->fd[0]);
	for (at = 0; at < 60000; at += 1000) {
		ASSERT_EQ(POLLOUT, poll_for(self->fd[0], POLLOUT, 20000))
			TH_LOG("%zu octets are open", at);
		ASSERT_EQ(1000, send(self->fd[0], record_of(60000) + at, 1000,
				     at < 59000 ? MSG_MORE : 0))
			TH_LOG("%zu octets are open: %m", at);
	}
	EXPECT_EQ(60000, recv(self->fd[1], seen, sizeof(seen), 0));
	EXPECT_TRUE(record_good(seen, 60000));
	EXPECT_TRUE(nothing_queued(self->fd[0]));
	EXPECT_EQ(POLLOUT, poll_for(self->fd[0], POLLOUT, 20000));
}

/* ---- memory of control groups ---- */

#define GROUP	"/tmp/mpa_account/group"

static int group_write(const char *file, const char *text)
{
	char path[128];
	int fd, err;

	snprintf(path, sizeof(path), "/tmp/mpa_account/%s", file);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	err = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

static long group_memory(void)
{
	int fd = open(GROUP "/memory.current", O_RDONLY);
	char text[32] = "";

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		text[0] = '-';
	close(fd);
	return text[0] == '-' ? -1 : atol(text);
}

static bool groups_mount(void)
{
	mkdir("/tmp/mpa_account", 0700);
	return !unshare(CLONE_NEWNS) &&
	       !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("none", "/tmp/mpa_account", "cgroup2", 0, NULL) &&
	       !group_write("cgroup.subtree_control", "+memory");
}

/* Put this process into a cgroup of its own. Return: false without cgroups. */
static bool group_enter(void)
{
	if (!groups_mount())
		return false;
	mkdir(GROUP, 0700);
	return !group_write("group/cgroup.procs", "0") && group_memory() > 0;
}

/*
 * Each processor charges a cgroup 64 pages at a time, so memory.current may be wrong by
 * 64 pages. On one processor this number of contexts charges at least four times that,
 * if each costs CONTEXT_LEAST octets.
 */
#define CONTEXTS	4000
#define CONTEXT_LEAST	300

/* A context has some hundreds of octets. */
TEST_F_TIMEOUT(pair, contexts_count_for_the_control_group, 300)
{
	const struct rlimit files = { CONTEXTS + 100, CONTEXTS + 100 };
	static int fd[CONTEXTS];
	long before, after;
	int i;

	if (!group_enter())
		SKIP(return, "no control groups for memory: %m");
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, one_processor());
	for (i = 0; i < CONTEXTS; i++)
		ASSERT_LE(0, fd[i] = socket(AF_INET, SOCK_STREAM, 0));
	before = group_memory();
	for (i = 0; i < CONTEXTS; i++)
		ASSERT_EQ(0, mpa_attach(fd[i]));
	after = group_memory();
	EXPECT_LE(before + CONTEXTS * CONTEXT_LEAST, after)
		TH_LOG("%d contexts: from %ld to %ld octets", CONTEXTS, before,
		       after);
	for (i = 0; i < CONTEXTS; i++)
		close(fd[i]);
}

/* Return: octets charged to the cgroup when @nr of @fd are connected to a listener. */
static long children_cost(bool mpa, int *fd, int nr)
{
	const struct mpa_start responder = {
		.role = MPA_ROLE_RESPONDER, .revision = 1,
	};
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listener = socket(AF_INET, SOCK_STREAM, 0), i;
	socklen_t len = sizeof(addr);
	long before, after;

	if (bind(listener, (struct sockaddr *)&addr, len) ||
	    (mpa && (mpa_attach(listener) ||
		     mpa_start_as(listener, &responder))) ||
	    listen(listener, nr) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len))
		return -1;
	for (i = 0; i < nr; i++)
		fd[i] = socket(AF_INET, SOCK_STREAM, 0);
	before = group_memory();
	for (i = 0; i < nr; i++) {
		if (connect(fd[i], (struct sockaddr *)&addr, len))
			return -1;
		fd[nr + i] = accept(listener, NULL, NULL);
	}
	after = group_memory();
	for (i = 0; i < 2 * nr; i++)
		hang_up(fd[i]);
	close(listener);
	return after - before;
}

/* A child is charged to its own cgroup, not to that of the accepting task. */
TEST_F_TIMEOUT(pair, children_count_for_the_control_group, 300)
{
	const struct rlimit files = { 2 * CONTEXTS + 100, 2 * CONTEXTS + 100 };
	static int fd[2 * CONTEXTS];
	long plain, mpa;

	if (!group_enter())
		SKIP(return, "no control groups for memory: %m");
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, one_processor());
	/* In the first round caches grow. */
	ASSERT_NE(-1, children_cost(false, fd, CONTEXTS));
	plain = children_cost(false, fd, CONTEXTS);
	mpa = children_cost(true, fd, CONTEXTS);
	ASSERT_NE(-1, plain);
	ASSERT_NE(-1, mpa);
	EXPECT_LE(plain + CONTEXTS * CONTEXT_LEAST, mpa)
		TH_LOG("%d children: plain %ld octets, MPA %ld", CONTEXTS,
		       plain, mpa);
}

#define REJECTED	4000
#define REASON_LEN		512

/* Return: the number of objects of 512 octets that are charged to cgroups, or -1. */
static long charged_objects(void)
{
	FILE *file = fopen("/proc/slabinfo", "r");
	char line[256];
	long nr = -1;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "kmalloc-cg-512 %ld", &nr);
	if (file)
		fclose(file);
	return nr;
}

/* Softirqs process the rejection, and then the RST. */
TEST_F_TIMEOUT(pair, private_data_of_a_rejection_count_for_the_group, 120)
{
	const struct rlimit files = { 3 * REJECTED, 3 * REJECTED };
	const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	u8 frame[FRAME_LEN + REASON_LEN] = {}, request[FRAME_LEN];
	const struct mpa_start initiator = {
		.role = MPA_ROLE_INITIATOR, .revision = 1,
	};
	static int fd[REJECTED][2];
	long before, after;
	int i;

	before = charged_objects();
	if (before < 0 || !group_enter())
		SKIP(return, "no control groups for memory");
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	frame_put(frame, true, 0x60, 1, REASON_LEN);
	for (i = 0; i < REJECTED; i++) {
		ASSERT_EQ(0, tcp_pair(AF_INET, fd[i]));
		ASSERT_EQ(0, mpa_attach(fd[i][0]));
		set_nonblock(fd[i][0]);
		ASSERT_EQ(-1, mpa_start_as(fd[i][0], &initiator));
		ASSERT_EQ(FRAME_LEN, read_all(fd[i][1], request, FRAME_LEN));
	}
	before = charged_objects();
	for (i = 0; i < REJECTED; i++) {
		ASSERT_EQ(0, write_all(fd[i][1], frame, sizeof(frame)));
		ASSERT_EQ(0, connect(fd[i][1], &nowhere, sizeof(nowhere)));
		ASSERT_NE(0, poll_for(fd[i][0], POLLHUP, 20000));
		ASSERT_EQ(REASON_LEN, mpa_peer(fd[i][0]).private_len);
	}
	/* The kernel counts some free objects as used. */
	after = charged_objects();
	EXPECT_LE(before + REJECTED / 2, after)
		TH_LOG("%ld objects before, %ld after", before, after);
	for (i = 0; i < REJECTED; i++) {
		hang_up(fd[i][1]);
		hang_up(fd[i][0]);
	}
}

/* ---- a group at its limit does not affect others ---- */

#define GROUPS		4
#define IN_GROUP	200
#define RESPONDERS	(GROUPS * IN_GROUP)
#define PRIVATE		400

/* Use several cgroups in turn, as the kernel charges each in batches. */
static int nth_group_write(int group, const char *file, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "high%d/%s", group, file);
	return group_write(path, text);
}

static int nth_group_enter(int group)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/mpa_account/high%d", group);
	mkdir(path, 0700);
	return nth_group_write(group, "cgroup.procs", "0");
}

static int nth_group_remove(int group)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/mpa_account/high%d", group);
	return rmdir(path);
}

/* Open a responder as a member of each cgroup, then leave the cgroups. */
static int responders_of_groups(int fd[][2], bool place)
{
	const struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1,
		.flags = place ? MPA_START_MARKERS : 0, .timeout_ms = 3600000,
	};
	const int on = place;
	int i;

	for (i = 0; i < RESPONDERS; i++) {
		if (!(i % IN_GROUP) && nth_group_enter(i / IN_GROUP))
			return -1;
		if (tcp_pair(AF_INET, fd[i]) || mpa_attach(fd[i][1]) ||
		    mpa_start_as(fd[i][1], &start) ||
		    setsockopt(fd[i][1], SOL_MPA, MPA_PLACE, &on, sizeof(on)))
			return -1;
	}
	return group_write("cgroup.procs", "0");
}

/* Whether a thread sleeps in an allocation; only kworkers allocate for the cgroups. */
static bool sleeps_for_a_group(const char *thread)
{
	char path[280], at[80] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/wchan", thread);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	if (read(fd, at, sizeof(at) - 1) < 0)
		at[0] = 0;
	close(fd);
	return strstr(at, "mem_cgroup_handle_over_high");
}

static bool somebody_sleeps_for_a_group(void)
{
	DIR *threads = opendir("/proc");
	struct dirent *thread;
	bool sleeps = false;

	while (!sleeps && (thread = readdir(threads)))
		sleeps = thread->d_name[0] <= '9' &&
			 sleeps_for_a_group(thread->d_name);
	closedir(threads);
	return sleeps;
}

/* Return: milliseconds that a startup takes, or -1. */
static long startup_takes(struct _test_data_pair *self)
{
	const long begin = now_ms();

	return negotiate(self) ? -1 : now_ms() - begin;
}

/*
 * A task that allocates for a cgroup above memory.high sleeps for up to two seconds.
 * One workqueue handles all startups, so its workers must not sleep.
 */
static void groups_start(struct __test_metadata *_metadata,
			 struct _test_data_pair *self, bool place)
{
	const struct rlimit files = { 3 * RESPONDERS, 3 * RESPONDERS };
	u8 frame[FRAME_LEN + PRIVATE] = {};
	static int fd[RESPONDERS][2];
	long usual, sending, during;
	int i, of, tries;

	if (!groups_mount())
		SKIP(return, "no control groups for memory: %m");
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, responders_of_groups(fd, place));
	usual = startup_takes(self);
	ASSERT_LE(0, usual);
	for (i = 0; i < GROUPS; i++)
		ASSERT_EQ(0, nth_group_write(i, "memory.high", "0"));
	frame_put(frame, false, 0x40, 1, PRIVATE);
	sending = now_ms();
	for (i = 0; i < RESPONDERS; i++) {
		of = i % GROUPS * IN_GROUP + i / GROUPS;
		ASSERT_EQ(0, write_all(fd[of][0], frame, sizeof(frame)));
	}
	sending = now_ms() - sending;
	during = startup_takes(self);
	EXPECT_LE(0, during);
	EXPECT_FALSE(somebody_sleeps_for_a_group());
	/* Work may be queued, but no worker sleeps. */
	EXPECT_GE(1000 + sending / 2, during) {
		TH_LOG("startup takes %ld ms, %ld before the groups' requests that took %ld ms",
		       during, usual, sending);
	}
	for (i = 0; i < GROUPS; i++)
		EXPECT_EQ(0, nth_group_write(i, "memory.high", "max"));
	for (i = 0; i < RESPONDERS; i++) {
		EXPECT_EQ(POLLIN, poll_for(fd[i][0], POLLIN, 20000));
		/* The reply is sent before Full Operation begins. */
		for (tries = 0; place && tries < 200; tries++) {
			if (meminfo(fd[i][1], SK_MEMINFO_OPTMEM) >
			    MPA_PLACE_MAX * 20)
				break;
			usleep(10000);
		}
		EXPECT_GT(200, tries);
		hang_up(fd[i][0]);
		hang_up(fd[i][1]);
	}
	for (i = 0; i < GROUPS; i++)
		EXPECT_EQ(0, nth_group_remove(i));
}

TEST_F_TIMEOUT(pair, group_at_its_limit_delays_nobody_else, 300)
{
	groups_start(_metadata, self, false);
}

/* When Full Operation begins, the work item allocates memory for MPA_PLACE. */
TEST_F_TIMEOUT(pair, group_at_its_limit_that_places_delays_nobody_else, 300)
{
	groups_start(_metadata, self, true);
}

TEST_HARNESS_MAIN
