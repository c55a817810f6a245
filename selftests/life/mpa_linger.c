// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets that are closed while TCP has no memory for what they have accepted:
 * so many of them wait for it, the others are reset.
 */

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"

#define TCP_MEM		"/proc/sys/net/ipv4/tcp_mem"
#define LINGER_MAX	1024	/* sockets that wait */
#define TOO_MANY	40	/* more than that are closed */
#define SOCKETS		(LINGER_MAX + TOO_MANY)
#define FEW		10
#define RECORDS		10	/* of 1000 octets: the peer's window is full */
#define RECORD_FPDU	1008
#define LAST_LEN	8000	/* more than TCP has set aside for a socket */
#define LAST_FPDU	8008
#define ALL_FPDUS	(RECORDS * RECORD_FPDU + LAST_FPDU)

static ssize_t tcp_mem_get(char *text, size_t room)
{
	int fd = open(TCP_MEM, O_RDONLY);
	ssize_t n = read(fd, text, room - 1);

	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n;
}

static int tcp_mem_put(const char *text)
{
	int fd = open(TCP_MEM, O_WRONLY), err;

	err = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

FIXTURE(linger)
{
	char usual[64];
	int hog[2];
	int fd[SOCKETS];
	int peer[SOCKETS];	/* plain TCP */
	uid_t user[SOCKETS];	/* who opens it */
};

FIXTURE_SETUP(linger)
{
	const struct rlimit files = { 2 * SOCKETS + 100, 2 * SOCKETS + 100 };
	int i, large = 1 << 22;

	for (i = 0; i < SOCKETS; i++) {
		self->fd[i] = -1;
		self->peer[i] = -1;
		self->user[i] = 0;
	}
	self->hog[0] = -1;
	self->hog[1] = -1;
	ASSERT_LT(0, tcp_mem_get(self->usual, sizeof(self->usual)));
	if (setrlimit(RLIMIT_NOFILE, &files))
		SKIP(_exit(255), "needs %lu files", (long)files.rlim_cur);
	ASSERT_TRUE(module_unused());
	/* So that TCP's count of its memory, a coarse one, is above any limit */
	ASSERT_EQ(0, tcp_pair(AF_INET, self->hog));
	if (setsockopt(self->hog[0], SOL_SOCKET, SO_SNDBUFFORCE, &large,
		       sizeof(large)))
		SKIP(_exit(255), "needs root");
	while (send(self->hog[0], record_row, sizeof(record_row),
		    MSG_DONTWAIT) > 0)
		;
}

static void hang_up_all(struct _test_data_linger *self)
{
	int i;

	for (i = 0; i < SOCKETS; i++) {
		hang_up(self->fd[i]);
		hang_up(self->peer[i]);
		self->fd[i] = -1;
		self->peer[i] = -1;
	}
}

FIXTURE_TEARDOWN(linger)
{
	tcp_mem_put(self->usual);
	hang_up(self->hog[0]);
	hang_up(self->hog[1]);
	hang_up_all(self);
}

/* TCP has more than the peer takes, though not more than it may have. */
static int fill_window(struct _test_data_linger *self, int i)
{
	int pair[2], large = 1 << 20, n;

	if (seteuid(self->user[i]) || tcp_pair_buf(AF_INET, pair, 4096) ||
	    seteuid(0))
		return -1;
	self->fd[i] = pair[0];
	self->peer[i] = pair[1];
	patience(pair[1], 30);
	/* Or TCP shrinks it while memory is short. */
	if (setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &large,
		       sizeof(large)) ||
	    mpa_attach(pair[0]) || mpa_start(pair[0], MPA_ROLE_DIRECT, 0))
		return -1;
	for (n = 0; n < RECORDS; n++)
		if (send(pair[0], record_of(1000), 1000, MSG_DONTWAIT) != 1000)
			return -1;
	return 0;
}

/* So many connections; 0 or -1. */
static int fill_windows(struct _test_data_linger *self, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		if (!fill_window(self, i))
			continue;
		fprintf(stderr, "# socket %d: %m\n", i);
		return -1;
	}
	return 0;
}

/* They are closed with a record that TCP has no memory for; 0 or -1. */
static int close_stuck(struct _test_data_linger *self, int count)
{
	int i;

	if (tcp_mem_put("1 1 1"))
		return -1;
	for (i = 0; i < count; i++) {
		ssize_t n = send(self->fd[i], record_of(LAST_LEN), LAST_LEN,
				 MSG_DONTWAIT);
		int events = poll_for(self->fd[i], POLLOUT, 0);

		if (n == LAST_LEN && !events)
			continue;
		fprintf(stderr, "# socket %d: send said %zd (%m), poll %#x\n",
			i, n, events);
		return -1;
	}
	for (i = 0; i < count; i++) {
		close(self->fd[i]);
		self->fd[i] = -1;
	}
	return 0;
}

/* How many have been reset; their peers are closed. */
static int count_reset(struct _test_data_linger *self)
{
	int i, n = 0;

	for (i = 0; i < SOCKETS; i++) {
		if (self->peer[i] < 0 || so_error(self->peer[i]) != ECONNRESET)
			continue;
		n++;
		close(self->peer[i]);
		self->peer[i] = -1;
	}
	return n;
}

/* How many peers of the others get all octets, and then the end. */
static int count_served(struct _test_data_linger *self)
{
	static u8 octets[ALL_FPDUS + 1];
	int i, n = 0;

	for (i = 0; i < SOCKETS; i++)
		n += self->peer[i] >= 0 &&
		     read_all(self->peer[i], octets, sizeof(octets)) ==
		     ALL_FPDUS;
	return n;
}

/* The others' places are free again when they have been served. */
TEST_F_TIMEOUT(linger, sockets_above_the_limit_are_reset, 600)
{
	long began;

	ASSERT_EQ(0, fill_windows(self, SOCKETS));
	began = now_ms();
	ASSERT_EQ(0, close_stuck(self, SOCKETS));
	ASSERT_TRUE(lo_delivered());
	if (now_ms() - began > 40000)
		SKIP(return, "this machine is too slow");
	EXPECT_EQ(TOO_MANY, count_reset(self)) {
		TH_LOG("of %d that were closed", SOCKETS);
	}
	ASSERT_EQ(0, tcp_mem_put(self->usual));
	EXPECT_EQ(LINGER_MAX, count_served(self));
	hang_up_all(self);
	EXPECT_TRUE(module_unused()) {
		TH_LOG("%ld references are left", module_refs());
	}

	ASSERT_EQ(0, fill_windows(self, FEW));
	ASSERT_EQ(0, close_stuck(self, FEW));
	ASSERT_TRUE(lo_delivered());
	EXPECT_EQ(0, count_reset(self));
	ASSERT_EQ(0, tcp_mem_put(self->usual));
	EXPECT_EQ(FEW, count_served(self));
}

/* Whoever has as many as may linger leaves those of others alone. */
TEST_F_TIMEOUT(linger, user_takes_nobody_elses_place, 600)
{
	static const uid_t users[][2] = { { 1008, 0 }, { 1029, 1042 } };
	long began;
	int i, n;

	for (i = 0; i < ARRAY_SIZE(users); i++) {
		for (n = 0; n < LINGER_MAX; n++)
			self->user[n] = users[i][0];
		self->user[n] = users[i][1];
		ASSERT_EQ(0, fill_windows(self, LINGER_MAX + 1));
		began = now_ms();
		ASSERT_EQ(0, close_stuck(self, LINGER_MAX + 1));
		ASSERT_TRUE(lo_delivered());
		/* They give up after a minute. */
		if (now_ms() - began > 40000)
			SKIP(return, "this machine is too slow");
		EXPECT_EQ(0, count_reset(self)) {
			TH_LOG("%d sockets of user %u, one of user %u",
			       LINGER_MAX, users[i][0], users[i][1]);
		}
		ASSERT_EQ(0, tcp_mem_put(self->usual));
		EXPECT_LE(LINGER_MAX, count_served(self));
		hang_up_all(self);
		ASSERT_TRUE(module_unused());
	}
}

/* Root gives a process' user namespace numbers, once it has said a word. */
static int give_numbers(pid_t pid, int from)
{
	static const char map[] = "0 100000 65536";
	char path[48], word;
	int fd;

	if (read(from, &word, 1) != 1 || word != 'x')
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	fd = open(path, O_WRONLY);
	if (write(fd, map, strlen(map)) != strlen(map))
		return -1;
	return close(fd);
}

/*
 * An ordinary user who is root in a namespace of his own opens the sockets, in
 * a process that shares this one's files.
 */
static void open_with_numbers(struct _test_data_linger *self, int fd)
{
	char word;

	if (setresuid(1000, 1000, 1000) || unshare(CLONE_NEWUSER))
		_exit(write(fd, "-", 1));
	if (write(fd, "x", 1) != 1 || read(fd, &word, 1) != 1)
		_exit(1);
	if (setresuid(0, 0, 0) || fill_windows(self, SOCKETS))
		_exit(2);
	if (write(fd, self->fd, sizeof(self->fd)) != sizeof(self->fd) ||
	    write(fd, self->peer, sizeof(self->peer)) != sizeof(self->peer))
		_exit(3);
	_exit(0);
}

/* All numbers that a user namespace has are its owner's. */
TEST_F_TIMEOUT(linger, user_of_many_numbers_is_one, 600)
{
	int ends[2], status, n;
	long began;
	pid_t pid;

	for (n = 0; n < SOCKETS; n++)
		self->user[n] = 1 + n % 16;
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	patience(ends[0], 300);
	pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid)
		open_with_numbers(self, ends[1]);
	if (give_numbers(pid, ends[0]))
		SKIP(return, "no user namespaces: %m");
	ASSERT_EQ(1, write(ends[0], "x", 1));
	ASSERT_EQ(sizeof(self->fd), recv(ends[0], self->fd, sizeof(self->fd),
					 MSG_WAITALL));
	ASSERT_EQ(sizeof(self->peer), recv(ends[0], self->peer,
					   sizeof(self->peer), MSG_WAITALL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	began = now_ms();
	ASSERT_EQ(0, close_stuck(self, SOCKETS));
	ASSERT_TRUE(lo_delivered());
	if (now_ms() - began > 40000)
		SKIP(return, "this machine is too slow");
	EXPECT_EQ(TOO_MANY, count_reset(self)) {
		TH_LOG("of %d that were closed", SOCKETS);
	}
	ASSERT_EQ(0, tcp_mem_put(self->usual));
	EXPECT_EQ(LINGER_MAX, count_served(self));
	close(ends[0]);
	close(ends[1]);
}

TEST_HARNESS_MAIN
