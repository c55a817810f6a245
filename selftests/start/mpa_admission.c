// SPDX-License-Identifier: GPL-2.0
/*
 * When a port has net.mpa.startup_max responders in startup, a new one evicts the one
 * that has waited longest.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/fsuid.h>
#include <sys/resource.h>

#include "mpa_test.h"
#include "mpa_harness.h"

#define MOST	8	/* net.mpa.startup_max */
#define PORTS	2
#define CROWD	160

FIXTURE(gate)
{
	struct mpa_start start;
	struct sockaddr_in addr[PORTS];
	int listener[PORTS];
	int client[CROWD];
	int child[CROWD];
	int n;
};

static int listener_open(struct _test_data_gate *self, int port)
{
	struct sockaddr_in *addr = &self->addr[port];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*addr);

	*addr = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	patience(fd, 20);
	self->listener[port] = fd;
	return bind(fd, (void *)addr, len) || mpa_attach(fd) ||
	       mpa_start_as(fd, &self->start) || listen(fd, 64) ||
	       getsockname(fd, (void *)addr, &len) ? -1 : 0;
}

FIXTURE_SETUP(gate)
{
	int i;

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, sysctl_put("startup_max", MOST));
	self->start = (struct mpa_start){
		.role = MPA_ROLE_RESPONDER, .revision = 1,
		.timeout_ms = 3600000,
	};
	self->n = 0;
	for (i = 0; i < PORTS; i++)
		ASSERT_EQ(0, listener_open(self, i));
}

FIXTURE_TEARDOWN(gate)
{
	int i;

	for (i = 0; i < self->n; i++) {
		hang_up(self->client[i]);
		hang_up(self->child[i]);
	}
	for (i = 0; i < PORTS; i++)
		close(self->listener[i]);
}

/* Return: a lower bound of the connections counted so far, in startup or evicted. */
static long long counted(void)
{
	return statistics("MpaInStartup", "MpaStartupOusted");
}

/*
 * Connect to a port, and send @says octets of the request. Return: the connection's
 * index, or -1.
 */
static int comes(struct _test_data_gate *self, int port, size_t says)
{
	const bool stays = says < FRAME_LEN && sysctl_get("startup_max");
	int fd = socket(AF_INET, SOCK_STREAM, 0), child;
	const long until = now_ms() + 20000;
	const long long before = counted();
	u8 frame[FRAME_LEN];

	patience(fd, 20);
	frame_put(frame, false, 0x40, 1, 0);
	if (self->n == CROWD ||
	    connect(fd, (void *)&self->addr[port], sizeof(self->addr[port])) ||
	    (says && write_all(fd, frame, says)))
		return -1;
	child = accept(self->listener[port], NULL, NULL);
	if (child < 0)
		return -1;
	/* Wait, so that connections are counted in this order. Refused ones are not counted. */
	while (stays && counted() == before && now_ms() < until &&
	       mpa_info(child).state != MPA_STATE_FAILED)
		poll(NULL, 0, 1);
	patience(child, 20);
	self->client[self->n] = fd;
	self->child[self->n] = child;
	return self->n++;
}

/* Connect @n times to a port. Return: the index of the first, or -1. */
static int come(struct _test_data_gate *self, int port, size_t says, int n)
{
	int first = self->n;

	while (n--)
		if (comes(self, port, says) < 0)
			return -1;
	return first;
}

static bool waits(struct _test_data_gate *self, int i)
{
	return mpa_info(self->child[i]).state == MPA_STATE_STARTUP;
}

/* Whether the connection was evicted, and its client received an error. */
static bool had_to_go(struct _test_data_gate *self, int i)
{
	char octet;

	return POLLERR & poll_for(self->child[i], 0, 20000) &&
	       so_error(self->child[i]) == EUSERS &&
	       mpa_info(self->child[i]).state == MPA_STATE_FAILED &&
	       mpa_info(self->child[i]).error == MPA_ERR_LOCAL &&
	       recv(self->client[i], &octet, 1, 0) == -1 &&
	       errno == ECONNRESET;
}

/* Whether a client that sends its whole request is served. */
static bool served(struct _test_data_gate *self, int port)
{
	int i = comes(self, port, FRAME_LEN);
	u8 reply[FRAME_LEN];

	return i >= 0 &&
	       read_all(self->client[i], reply, FRAME_LEN) == FRAME_LEN &&
	       !memcmp(reply, "MPA ID Rep Frame", 16) &&
	       mpa_info(self->child[i]).state == MPA_STATE_FULL;
}

TEST_F(gate, oldest_silent_one_makes_room)
{
	int i;

	ASSERT_EQ(0, come(self, 0, 0, MOST));
	for (i = 0; i < 5; i++) {
		int last = comes(self, 0, 0);

		ASSERT_LE(0, last);
		EXPECT_TRUE(had_to_go(self, i)) {
			TH_LOG("number %d should have gone, number %d has come",
			       i, last);
		}
		EXPECT_TRUE(waits(self, i + 1));
		EXPECT_TRUE(waits(self, last));
	}
	EXPECT_EQ(MOST, statistic("MpaInStartup"));
	EXPECT_EQ(5, statistic("MpaStartupOusted"));
}

TEST_F(gate, failed_startups_block_nobody)
{
	int i;

	for (i = 0; i < 4; i++) {
		ASSERT_LE(0, come(self, 0, 0, MOST));
		EXPECT_TRUE(served(self, 0)) {
			TH_LOG("round %d", i);
		}
		EXPECT_TRUE(served(self, 1));
	}
}

/* A started request does not protect a connection. */
TEST_F(gate, begun_ones_make_room_if_all_have_begun)
{
	int i;

	ASSERT_EQ(0, come(self, 0, 1, MOST));
	for (i = 0; i < MOST; i++)
		ASSERT_TRUE(arrived(self->child[i], 1));
	EXPECT_TRUE(served(self, 0));
	EXPECT_TRUE(had_to_go(self, 0));
	EXPECT_TRUE(served(self, 1));
	EXPECT_TRUE(waits(self, MOST - 1));
}

/* A started request does not protect it among silent connections that came later, either. */
TEST_F(gate, request_that_stops_counts_as_silence)
{
	int i;

	ASSERT_EQ(0, come(self, 0, 1, 1));
	ASSERT_TRUE(arrived(self->child[0], 1));
	ASSERT_EQ(1, come(self, 0, 0, MOST - 1));
	i = comes(self, 0, 0);
	ASSERT_EQ(MOST, i);
	EXPECT_TRUE(had_to_go(self, 0));
	EXPECT_TRUE(waits(self, 1));
	EXPECT_TRUE(waits(self, i));
}

TEST_F(gate, listener_with_most_pays)
{
	int quiet, i;

	ASSERT_LE(0, come(self, 0, 0, MOST));
	quiet = come(self, 1, 0, 2);
	ASSERT_LE(0, quiet);
	ASSERT_LE(0, come(self, 0, 0, 3 * MOST));
	EXPECT_TRUE(waits(self, quiet));
	EXPECT_TRUE(waits(self, quiet + 1));
	for (i = self->n - 1; i >= self->n - MOST + 2; i--)
		EXPECT_TRUE(waits(self, i));
	EXPECT_EQ(MOST + 2, statistic("MpaInStartup"));
	EXPECT_TRUE(served(self, 1));
}

/* The program, not the kernel, calls accept(2) and MPA_START. */
TEST_F(gate, responder_started_by_hand_makes_room_as_well)
{
	int i, idle = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(self->addr[0]);

	/* Replace a started listener by one that is only attached. */
	close(self->listener[0]);
	self->listener[0] = idle;
	patience(idle, 20);
	self->addr[0].sin_port = 0;
	ASSERT_EQ(0, bind(idle, (void *)&self->addr[0], len));
	ASSERT_EQ(0, mpa_attach(idle));
	ASSERT_EQ(0, listen(idle, 64));
	ASSERT_EQ(0, getsockname(idle, (void *)&self->addr[0], &len));
	for (i = 0; i < MOST + 2; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		patience(fd, 20);
		ASSERT_EQ(0, connect(fd, (void *)&self->addr[0], len));
		self->client[i] = fd;
		self->child[i] = accept(idle, NULL, NULL);
		self->n = i + 1;
		ASSERT_LE(0, self->child[i]);
		EXPECT_EQ(0, mpa_start_as(self->child[i], &self->start)) {
			TH_LOG("number %d: %m", i);
		}
	}
	EXPECT_TRUE(had_to_go(self, 0));
	EXPECT_TRUE(had_to_go(self, 1));
	for (i = 2; i < MOST + 2; i++)
		EXPECT_TRUE(waits(self, i));
}

/*
 * Initiators wait at the will of their program. The limit does not count them:
 * otherwise one user could use it up for ever.
 */
TEST_F(gate, initiators_bar_nobody)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 1,
		.timeout_ms = 3600000,
	};
	int fd[2 * MOST][2], i;

	ASSERT_EQ(0, come(self, 0, 0, MOST));
	for (i = 0; i < 2 * MOST; i++) {
		if (i == MOST)
			ASSERT_EQ(0, sysctl_put("startup_max", 0));
		ASSERT_EQ(0, tcp_pair(AF_INET, fd[i]));
		ASSERT_EQ(0, mpa_attach(fd[i][0]));
		set_nonblock(fd[i][0]);
		EXPECT_EQ(-1, mpa_start_as(fd[i][0], &start));
		EXPECT_EQ(EINPROGRESS, errno) {
			TH_LOG("number %d: %m", i);
		}
	}
	EXPECT_EQ(3 * MOST, statistic("MpaInStartup"));
	ASSERT_EQ(0, sysctl_put("startup_max", MOST));
	ASSERT_LE(0, come(self, 0, 0, MOST));
	EXPECT_TRUE(served(self, 0));
	for (i = 0; i < 2 * MOST; i++) {
		EXPECT_EQ(MPA_STATE_STARTUP, mpa_info(fd[i][0]).state);
		hang_up(fd[i][0]);
		hang_up(fd[i][1]);
	}
}

/* A reset connection is not in startup, even if nothing reads its state. */
TEST_F(gate, who_has_been_reset_has_no_place)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 1,
		.timeout_ms = 3600000,
	};
	int fd[2], i;

	ASSERT_EQ(0, come(self, 0, 0, MOST));
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	ASSERT_EQ(0, mpa_attach(fd[0]));
	set_nonblock(fd[0]);
	ASSERT_EQ(-1, mpa_start_as(fd[0], &start));
	ASSERT_EQ(EINPROGRESS, errno);
	EXPECT_EQ(MOST + 1, statistic("MpaInStartup"));
	hang_up(fd[1]);
	for (i = 0; i < MOST; i++)
		hang_up(self->client[i]);
	for (i = 0; statistic("MpaInStartup") && i < 20000; i++)
		poll(NULL, 0, 1);
	EXPECT_EQ(0, statistic("MpaInStartup"));
	EXPECT_EQ(ECONNRESET, so_error(fd[0]));
	EXPECT_EQ(0, so_error(fd[0]));
	for (i = 0; i < MOST; i++) {
		EXPECT_EQ(ECONNRESET, so_error(self->child[i]));
		close(self->child[i]);
	}
	self->n = 0;
	close(fd[0]);
}

TEST_F(gate, none_may_begin_if_the_administrator_wants_none)
{
	int i;

	ASSERT_EQ(0, come(self, 0, 0, 2));
	ASSERT_EQ(0, sysctl_put("startup_max", 0));
	i = comes(self, 0, 0);
	ASSERT_EQ(2, i);
	EXPECT_TRUE(had_to_go(self, 2));
	EXPECT_TRUE(waits(self, 0));
	EXPECT_TRUE(waits(self, 1));
}

/* Each new connection evicts two, until the lowered limit is reached. */
TEST_F(gate, lowered_limit_is_reached)
{
	ASSERT_EQ(0, come(self, 0, 0, MOST));
	ASSERT_EQ(0, sysctl_put("startup_max", 2));
	ASSERT_LE(0, come(self, 0, 0, MOST));
	EXPECT_EQ(2, statistic("MpaInStartup"));
	EXPECT_TRUE(waits(self, self->n - 1));
	EXPECT_TRUE(waits(self, self->n - 2));
	EXPECT_TRUE(had_to_go(self, self->n - 3));
}

static long long least;
static atomic_bool enough;

static void *look_for_less(void *unused)
{
	while (!enough) {
		long long n = statistic("MpaInStartup");

		if (n >= 0 && n < least)
			least = n;
	}
	return NULL;
}

/* The eviction and the new connection are counted in one step. */
TEST_F(gate, nobody_sees_a_place_between_two)
{
	pthread_t reader;

	ASSERT_EQ(0, come(self, 0, 0, MOST));
	ASSERT_EQ(MOST, statistic("MpaInStartup"));
	least = MOST;
	enough = false;
	ASSERT_EQ(0, pthread_create(&reader, NULL, look_for_less, NULL));
	EXPECT_LE(0, come(self, 0, 0, CROWD - MOST));
	enough = true;
	pthread_join(reader, NULL);
	EXPECT_EQ(MOST, least);
}

/* An evicted connection is subtracted once, not again at its close. */
TEST_F(gate, places_are_given_back_once)
{
	int i;

	ASSERT_EQ(0, come(self, 0, 0, 2 * MOST));
	EXPECT_EQ(MOST, statistic("MpaInStartup"));
	for (i = 0; i < 2 * MOST; i++) {
		hang_up(self->client[i]);
		hang_up(self->child[i]);
	}
	self->n = 0;
	EXPECT_EQ(0, statistic("MpaInStartup"));
	ASSERT_EQ(0, come(self, 0, 0, MOST));
	for (i = 0; i < MOST; i++)
		EXPECT_TRUE(waits(self, i));
	EXPECT_EQ(MOST, statistic("MpaInStartup"));
}

/* ---- users ---- */

#define OTHERS	8
#define PUSHING	1500

/* Open a connection at a port of its own, with a waiting responder of this user. */
static int responder_of(uid_t user, const struct mpa_start *start, int *fd)
{
	int err;

	setfsuid(user);
	err = tcp_pair(AF_INET, fd) || mpa_attach(fd[1]) ||
	      mpa_start_as(fd[1], start);
	setfsuid(0);
	patience(fd[0], 20);
	return err ? -1 : 0;
}

/* A user has a connection at each of many ports: other users' connections are not evicted. */
TEST_F_TIMEOUT(gate, user_at_many_ports_bars_no_other_user, 120)
{
	const struct rlimit files = { 3 * PUSHING, 3 * PUSHING };
	static int other[OTHERS][2], fd[PUSHING][2];
	u8 frame[FRAME_LEN], reply[FRAME_LEN];
	int i;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, sysctl_put("startup_max", 1));
	for (i = 0; i < OTHERS; i++)
		ASSERT_EQ(0, responder_of(2000 + i, &self->start, other[i]));
	for (i = 0; i < PUSHING; i++) {
		ASSERT_EQ(0, responder_of(1000, &self->start, fd[i]));
		ASSERT_EQ(0, write_all(fd[i][0], "M", 1));
		ASSERT_TRUE(arrived(fd[i][1], 1));
	}
	EXPECT_EQ(OTHERS + PUSHING, statistic("MpaInStartup"));
	EXPECT_EQ(0, statistic("MpaStartupOusted"));
	frame_put(frame, false, 0x40, 1, 0);
	for (i = 0; i < OTHERS; i++) {
		EXPECT_EQ(MPA_STATE_STARTUP, mpa_info(other[i][1]).state);
		EXPECT_EQ(0, write_all(other[i][0], frame, FRAME_LEN));
		EXPECT_EQ(FRAME_LEN, read_all(other[i][0], reply, FRAME_LEN));
		EXPECT_EQ(0, memcmp(reply, "MPA ID Rep Frame", 16));
	}
	for (i = 0; i < OTHERS; i++) {
		hang_up(other[i][0]);
		hang_up(other[i][1]);
	}
	for (i = 0; i < PUSHING; i++) {
		hang_up(fd[i][0]);
		hang_up(fd[i][1]);
	}
}

/* ---- places of those whose connection has gone, with its port ---- */

#define ENDS	3

/* Wait until no connection is in startup. Return: false on timeout. */
static bool all_gone(struct _test_data_gate *self)
{
	const long until = now_ms() + 20000;

	while (statistic("MpaInStartup") && now_ms() < until)
		poll(NULL, 0, 1);
	while (self->n--) {
		hang_up(self->client[self->n]);
		hang_up(self->child[self->n]);
	}
	self->n = 0;
	return !statistic("MpaInStartup");
}

/* Whether the limit holds while twice as many silent clients connect to each port. */
static bool limit_holds(struct _test_data_gate *self)
{
	int port, i;

	for (port = 0; port < PORTS; port++) {
		const long long ousted = statistic("MpaStartupOusted");
		long long in, out;

		if (come(self, port, 0, 2 * MOST) < 0)
			return false;
		in = statistic("MpaInStartup");
		out = statistic("MpaStartupOusted") - ousted;
		if (in != MOST || out != MOST) {
			fprintf(stderr, "# port %d: %lld in, %lld out, not %d each\n",
				port, in, out, MOST);
			return false;
		}
		for (i = 0; i < 2 * MOST; i++)
			if (i < MOST ? !had_to_go(self, i) : !waits(self, i))
				return false;
		for (i = 0; i < 2 * MOST; i++)
			hang_up(self->client[i]);
		if (!all_gone(self))
			return false;
	}
	return true;
}

TEST_F(gate, limit_holds_after_resets)
{
	int i;

	ASSERT_EQ(0, come(self, 0, 0, ENDS));
	for (i = 0; i < ENDS; i++)
		hang_up(self->client[i]);
	ASSERT_TRUE(all_gone(self));
	EXPECT_TRUE(limit_holds(self));
}

TEST_F(gate, limit_holds_after_malformed_requests)
{
	int i;

	ASSERT_EQ(0, come(self, 0, 0, ENDS));
	for (i = 0; i < ENDS; i++)
		ASSERT_EQ(0, write_all(self->client[i], "GET / HTTP/1.0\r\n",
				       16));
	ASSERT_TRUE(all_gone(self));
	EXPECT_TRUE(limit_holds(self));
}

TEST_F(gate, limit_holds_after_timeouts)
{
	close(self->listener[0]);
	self->start.timeout_ms = 500;
	ASSERT_EQ(0, listener_open(self, 0));
	ASSERT_EQ(0, come(self, 0, 0, ENDS));
	ASSERT_TRUE(all_gone(self));
	close(self->listener[0]);
	self->start.timeout_ms = 3600000;
	ASSERT_EQ(0, listener_open(self, 0));
	EXPECT_TRUE(limit_holds(self));
}

TEST_F(gate, limit_holds_after_shutdowns)
{
	ASSERT_EQ(0, come(self, 0, 0, ENDS));
	ASSERT_EQ(0, shutdown(self->child[0], SHUT_RDWR));
	ASSERT_EQ(0, shutdown(self->child[1], SHUT_RD));
	ASSERT_EQ(0, shutdown(self->child[2], SHUT_WR));
	ASSERT_TRUE(all_gone(self));
	EXPECT_TRUE(limit_holds(self));
}

TEST_F(gate, limit_holds_after_closes)
{
	int i;

	ASSERT_EQ(0, come(self, 0, 0, ENDS));
	close(self->child[0]);
	hang_up(self->child[1]);
	/* Reset one of them. */
	hang_up(self->client[2]);
	close(self->child[2]);
	for (i = 0; i < ENDS; i++)
		self->child[i] = -1;
	self->client[2] = -1;
	ASSERT_TRUE(all_gone(self));
	EXPECT_TRUE(limit_holds(self));
}

TEST_HARNESS_MAIN
