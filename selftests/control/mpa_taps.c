// SPDX-License-Identifier: GPL-2.0
/*
 * Taps, while netlink sockets close and others bind the same ports: netlink frees a
 * port before its notifier reports that the socket is closed. The test polls for the
 * port, so do not run it in virtual time, where the clock stops meanwhile.
 */

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_nl.h"

#define PORT	4242
#define NOBODY	65534
#define MS	4000		/* duration of the test, in ms */

/**
 * struct shared - state shared by the processes
 * @stop:	set: the processes have to end
 * @closed:	how often the first reader was closed
 * @bound:	how often the other process bound the same port
 * @got:	records that the other process received
 * @bad:	an unexpected failure
 */
struct shared {
	bool stop;
	unsigned int closed;
	unsigned int bound;
	unsigned int got;
	unsigned int bad;
};

/* ---- without the module: before other tests, which leave connections ---- */

static void *joins(void *stop)
{
	struct nl nl;

	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
		if (!nl_open(&nl))
			nl_join(&nl);
		nl_close(&nl);
	}
	return NULL;
}

/* Listeners do not hold the module. The debug kernel finds leaked memory. */
FIXTURE(joined)
{
	int ko;
	bool stop;
	pthread_t thread;
};

FIXTURE_SETUP(joined)
{
	if (!getenv("MPA_KO"))
		SKIP(return, "no MPA_KO");
	self->ko = open(getenv("MPA_KO"), O_RDONLY);
	ASSERT_LE(0, self->ko);
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, joins, &self->stop));
}

FIXTURE_TEARDOWN(joined)
{
	__atomic_store_n(&self->stop, true, __ATOMIC_RELAXED);
	pthread_join(self->thread, NULL);
	close(self->ko);
}

TEST_F_TIMEOUT(joined, module_goes_and_comes, 300)
{
	unsigned int i;

	for (i = 0; i < 10; i++) {
		/* Wait for earlier programs' sockets, too. */
		const long until = now_ms() + (i ? 20000 : 120000);
		struct nl nl;
		int err;

		ASSERT_EQ(0, nl_open(&nl));
		ASSERT_EQ(0, nl_join(&nl));
		while ((err = syscall(SYS_delete_module, "mpa", O_NONBLOCK)) &&
		       now_ms() < until)
			usleep(1000);
		EXPECT_EQ(0, err);
		if (!err)
			ASSERT_EQ(0, syscall(SYS_finit_module, self->ko, "", 0));
		nl_close(&nl);
	}
}

/* ---- taps ---- */

FIXTURE(taps)
{
	int fd[2], other[2];
	struct nl nl;
	struct shared *shared;
};

FIXTURE_SETUP(taps)
{
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, tcp_pair(AF_INET, self->fd));
	ASSERT_EQ(0, mpa_started_pair(self->fd, 0, 0));
	ASSERT_EQ(0, tcp_pair(AF_INET, self->other));
	ASSERT_EQ(0, mpa_started_pair(self->other, 0, 0));
	ASSERT_EQ(0, nl_open(&self->nl));
	self->shared = mmap(NULL, sizeof(*self->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->shared);
}

FIXTURE_TEARDOWN(taps)
{
	int i;

	for (i = 0; i < 2; i++) {
		close(self->fd[i]);
		close(self->other[i]);
	}
	nl_close(&self->nl);
	munmap(self->shared, sizeof(*self->shared));
}

static bool stopped(const struct shared *shared)
{
	return __atomic_load_n(&shared->stop, __ATOMIC_RELAXED);
}

/* Bind a socket to the port as soon as it is free. Return: NULL when the test ends. */
static struct mnl_socket *port_bind(const struct shared *shared)
{
	struct mnl_socket *sock = mnl_socket_open(NETLINK_GENERIC);

	while (!stopped(shared))
		if (!mnl_socket_bind(sock, 0, PORT))
			return sock;
	mnl_socket_close(sock);
	return NULL;
}

/* Pause; @n selects the length. */
static void pause_some(unsigned int n)
{
	struct timespec some = { .tv_nsec = n * 7919 % 300 * 1000 };

	nanosleep(&some, NULL);
}

/* Open and close a tap on a connection, again and again. */
static int reader_comes_and_goes(const struct nl *nl, int fd,
				 struct shared *shared)
{
	struct nl own = *nl;

	while ((own.sock = port_bind(shared))) {
		/*
		 * EBUSY: the previous tap still exists. ENOBUFS: there are too many
		 * records at once.
		 */
		if (nl_tap(&own, fd, 1000) && errno != EBUSY &&
		    errno != ENOBUFS)
			shared->bad++;
		pause_some(++shared->closed);
		mnl_socket_close(own.sock);
		pause_some(100);
	}
	return 0;
}

/* Without privileges bind the same port, and count the records that arrive. */
static int other_namespace_waits(const struct nl *nl, struct shared *shared)
{
	struct mnl_socket *sock;
	u8 buf[8192];

	if (setgid(NOBODY) || setuid(NOBODY))
		shared->bad++;
	while ((sock = port_bind(shared))) {
		const struct nlmsghdr *nlh = (void *)buf;
		const int fd = mnl_socket_get_fd(sock);

		shared->bound++;
		pause_some(100);
		while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			shared->got += nlh->nlmsg_type == nl->family;
		mnl_socket_close(sock);
		pause_some(200);
	}
	return 0;
}

static void taps_end(struct shared *shared)
{
	__atomic_store_n(&shared->stop, true, __ATOMIC_RELAXED);
	while (wait(NULL) > 0)
		;
	printf("# the reader was closed %u times, the other one bound its port %u times\n",
	       shared->closed, shared->bound);
}

TEST_F(taps, who_binds_the_port_of_a_reader_gets_no_records)
{
	static u8 record[1000], sink[1000];
	const long until = now_ms() + MS;

	if (!fork())
		_exit(reader_comes_and_goes(&self->nl, self->fd[0],
					    self->shared));
	if (!fork())
		_exit(other_namespace_waits(&self->nl, self->shared));
	while (now_ms() < until) {
		ASSERT_EQ(1000, send(self->fd[0], record, 1000, 0));
		ASSERT_EQ(1000, recv(self->fd[1], sink, 1000, 0));
	}
	taps_end(self->shared);
	EXPECT_EQ(0, self->shared->bad);
	EXPECT_LT(0, self->shared->closed);
	EXPECT_LT(0, self->shared->bound);
	EXPECT_EQ(0, self->shared->got);
}

TEST_F(taps, closing_a_reader_ends_no_tap_of_who_has_bound_its_port)
{
	unsigned int set = 0, silent = 0;
	const long until = now_ms() + MS;
	struct nl own = self->nl;
	struct nl_reported told;

	if (!fork())
		_exit(reader_comes_and_goes(&self->nl, self->fd[0],
					    self->shared));
	while (now_ms() < until) {
		own.sock = port_bind(self->shared);
		ASSERT_EQ(0, nl_tap(&own, self->other[0], 10));
		set++;
		/* Wait until the previous reader is freed. */
		poll(NULL, 0, 3);
		ASSERT_EQ(2, send(self->other[0], "ab", 2, 0));
		silent += nl_next(&own, &told, 0) != 0;
		ASSERT_EQ(2, recv(self->other[1], &told, 2, 0));
		mnl_socket_close(own.sock);
		pause_some(200);
	}
	self->shared->bound = set;
	taps_end(self->shared);
	EXPECT_EQ(0, self->shared->bad);
	EXPECT_LT(0, set);
	EXPECT_EQ(0, silent);
}

/* ---- a tap's reader that does not read ---- */

/* Transfer records on a connection, without reading the tap. */
static int records_go(const int fd[2], int n)
{
	static u8 record[1000], sink[1000];

	while (n--)
		if (send(fd[0], record, sizeof(record), 0) != sizeof(record) ||
		    recv(fd[1], sink, sizeof(sink), 0) != sizeof(sink))
			return -1;
	return 0;
}

/* Read all messages. Return: the number of ENOBUFS. */
static int reader_reads(const struct nl *nl)
{
	const int fd = mnl_socket_get_fd(nl->sock);
	static u8 buf[8192];
	int told = 0;
	ssize_t n;

	do {
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		told += n < 0 && errno == ENOBUFS;
	} while (n > 0 || errno == ENOBUFS);
	return told;
}

/* A reader with two taps gets ENOBUFS for each sequence of lost records. */
TEST_F(taps, each_row_of_lost_records_is_reported)
{
	const int fd = mnl_socket_get_fd(self->nl.sock);
	int room = 8192;

	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room,
				sizeof(room)));
	ASSERT_EQ(0, nl_tap(&self->nl, self->fd[0], 1000));
	ASSERT_EQ(0, nl_tap(&self->nl, self->other[0], 1000));
	ASSERT_EQ(0, records_go(self->fd, 40));
	EXPECT_EQ(1, reader_reads(&self->nl));
	EXPECT_EQ(0, reader_reads(&self->nl));
	ASSERT_EQ(0, records_go(self->fd, 1));
	ASSERT_EQ(0, records_go(self->other, 1));
	EXPECT_EQ(0, reader_reads(&self->nl));
	/* The reader has read nothing since the other tap's record. */
	ASSERT_EQ(0, records_go(self->other, 1));
	ASSERT_EQ(0, records_go(self->fd, 40));
	EXPECT_EQ(1, reader_reads(&self->nl));
}

/* A record that the reader's socket filter drops is not lost. */
TEST_F(taps, record_that_the_reader_filters_is_not_lost)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog filter = { .len = 1, .filter = &nothing };
	const int fd = mnl_socket_get_fd(self->nl.sock);
	const int before = statistic("MpaRecordsLost");

	ASSERT_EQ(0, nl_tap(&self->nl, self->fd[0], 1000));
	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter,
				sizeof(filter)));
	ASSERT_EQ(0, records_go(self->fd, 3));
	EXPECT_EQ(-1, recv(fd, &filter, sizeof(filter), MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(before, statistic("MpaRecordsLost"));
}

/* ---- events ---- */

/* Two connections end: @nl must receive each end once, in order, and nothing else. */
static int ends_received(struct _test_data_taps *self, struct nl *nl)
{
	u64 cookie[2] = { cookie_of(self->fd[0]), cookie_of(self->other[0]) };
	struct nl_reported told = {};
	unsigned int i;
	u64 last = 0;

	hang_up(self->fd[0]);
	hang_up(self->other[0]);
	for (i = 0; i < 2; i++) {
		if (nl_event(nl, cookie[i], MPA_CMD_CLOSED_NTF, &told) ||
		    told.value[MPA_A_CONN_EVENT] <= last)
			return -1;
		last = told.value[MPA_A_CONN_EVENT];
	}
	return 0;
}

TEST_F(taps, events_come_to_who_has_joined)
{
	ASSERT_EQ(0, nl_join(&self->nl));
	/* Joining again has no effect. */
	EXPECT_EQ(0, nl_join(&self->nl));
	EXPECT_EQ(0, ends_received(self, &self->nl));
}

/* The connections are in the other namespace. */
TEST_F(taps, events_of_the_own_namespace_only)
{
	struct nl_reported told = {};
	struct nl nl;

	ASSERT_EQ(0, nl_join(&self->nl));
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, nl_open(&nl));
	ASSERT_EQ(0, nl_join(&nl));
	EXPECT_EQ(0, ends_received(self, &self->nl));
	EXPECT_EQ(-1, nl_next(&nl, &told, 0));
	EXPECT_EQ(ETIMEDOUT, errno);
	nl_close(&nl);
}

/* In a user namespace, sockets that have joined get events, but the group does not. */
TEST_F(taps, events_in_a_user_namespace_come_to_who_has_joined)
{
	struct nl_reported told = {};
	struct nl group, joined;
	int fd[2];
	u64 end;

	ASSERT_EQ(0, unshare(CLONE_NEWUSER));
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, nl_open(&group));
	ASSERT_EQ(0, nl_listen(&group, group.events));
	ASSERT_EQ(0, nl_open(&joined));
	ASSERT_EQ(0, nl_join(&joined));
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	ASSERT_EQ(0, mpa_started_pair(fd, 0, 0));
	end = cookie_of(fd[0]);
	hang_up(fd[0]);
	EXPECT_EQ(0, nl_event(&joined, end, MPA_CMD_CLOSED_NTF, &told));
	EXPECT_EQ(-1, nl_next(&group, &told, 0));
	EXPECT_EQ(ETIMEDOUT, errno);
	close(fd[1]);
	nl_close(&group);
	nl_close(&joined);
}

TEST_F(taps, those_who_join_have_a_limit)
{
	struct nl nl[17];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nl); i++)
		ASSERT_EQ(0, nl_open(nl + i));
	for (i = 0; i < 16; i++)
		EXPECT_EQ(0, nl_join(nl + i));
	EXPECT_EQ(-1, nl_join(nl + 16));
	EXPECT_EQ(ENOSPC, errno);
	nl_close(nl);
	EXPECT_EQ(0, nl_join(nl + 16));
	EXPECT_EQ(0, ends_received(self, nl + 16));
	for (i = 1; i < ARRAY_SIZE(nl); i++)
		nl_close(nl + i);
}

/* The listener gets ENOBUFS once, and the events' numbers show the number of lost events. */
TEST_F(taps, events_lost_are_reported_and_counted)
{
	const int fd = mnl_socket_get_fd(self->nl.sock);
	const int before = statistic("MpaEventsLost");
	int pair[2], room = 4096, i;

	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room,
				sizeof(room)));
	ASSERT_EQ(0, nl_join(&self->nl));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, tcp_pair(AF_INET, pair));
		ASSERT_EQ(0, mpa_started_pair(pair, 0, 0));
		hang_up(pair[0]);
		hang_up(pair[1]);
	}
	EXPECT_LT(before, statistic("MpaEventsLost"));
	EXPECT_EQ(1, reader_reads(&self->nl));
	EXPECT_EQ(0, reader_reads(&self->nl));
	EXPECT_EQ(0, ends_received(self, &self->nl));
}

TEST_HARNESS_MAIN
