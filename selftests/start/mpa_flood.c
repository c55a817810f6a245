// SPDX-License-Identifier: GPL-2.0
/*
 * Floods of connections that never finish startup: the limit and the timeout hold, and
 * a good client is served, if need be after the flood.
 */

#include <sys/resource.h>

#include "mpa_test.h"
#include "mpa_harness.h"

#define FLOOD		2000
#define MOST		1000	/* net.mpa.startup_max */
#define PRIVATE_LEN	3
#define USUAL_LEN	(FRAME_LEN + PRIVATE_LEN)

FIXTURE(flood)
{
	int listener;
	struct sockaddr_in addr;
	struct mpa_start start;
	int client[FLOOD];
	int child[FLOOD];
};

FIXTURE_SETUP(flood)
{
	struct rlimit files = { 2 * FLOOD + 64, 2 * FLOOD + 64 };
	socklen_t len = sizeof(self->addr);

	if (setrlimit(RLIMIT_NOFILE, &files))
		SKIP(_exit(255), "needs %d files", 2 * FLOOD + 64);
	ASSERT_EQ(0, own_netns());
	memset(self->client, 0xff, sizeof(self->client));
	memset(self->child, 0xff, sizeof(self->child));
	self->start = (struct mpa_start){
		.role = MPA_ROLE_RESPONDER, .revision = 1,
		.timeout_ms = 3600000,
	};
	self->addr = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	self->listener = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, bind(self->listener, (void *)&self->addr, len));
	ASSERT_EQ(0, mpa_attach(self->listener));
	ASSERT_EQ(0, listen(self->listener, 64));
	ASSERT_EQ(0, getsockname(self->listener, (void *)&self->addr, &len));
	patience(self->listener, 60);
	ASSERT_EQ(0, sysctl_put("startup_max", MOST));
}

static void ebb(int *fd, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		hang_up(fd[i]);
		fd[i] = -1;
	}
}

FIXTURE_TEARDOWN(flood)
{
	ebb(self->client, FLOOD);
	ebb(self->child, FLOOD);
	close(self->listener);
}

static int client(struct _test_data_flood *self)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	patience(fd, 60);
	return connect(fd, (void *)&self->addr, sizeof(self->addr)) ? -1 : fd;
}

static int child(struct _test_data_flood *self)
{
	int fd = accept(self->listener, NULL, NULL);

	patience(fd, 60);
	return fd;
}

/* Connection n stops after n octets of its request, modulo the request's length. */
static bool flow(struct _test_data_flood *self, int n)
{
	u8 frame[USUAL_LEN] = {};
	int i;

	frame_put(frame, false, 0x40, 1, PRIVATE_LEN);
	for (i = 0; i < n; i++) {
		self->client[i] = client(self);
		if (self->client[i] < 0 ||
		    (i % USUAL_LEN && write_all(self->client[i], frame,
						i % USUAL_LEN)))
			return false;
		self->child[i] = child(self);
		if (self->child[i] < 0)
			return false;
	}
	return true;
}

/*
 * Send a whole request. Return: the result. This client uses plain TCP, so that it is
 * not counted itself.
 */
static int good_client(struct _test_data_flood *self)
{
	struct peer peer = { .fd = client(self) };
	u8 frame[USUAL_LEN] = {}, seen[1000];
	int c, err = 0;

	frame_put(frame, false, 0x40, 1, PRIVATE_LEN);
	if (peer.fd < 0 || write_all(peer.fd, frame, USUAL_LEN))
		return -1;
	c = child(self);
	if (read_all(peer.fd, frame, FRAME_LEN) != FRAME_LEN)
		err = errno;
	else if (peer_send_record(&peer, 500) ||
		 recv(c, seen, sizeof(seen), 0) != 500 ||
		 !record_good(seen, 500))
		err = -1;
	hang_up(peer.fd);
	hang_up(c);
	return err;
}

/* The limit holds. mpa_admission tests the choice of evicted connections. */
TEST_F_TIMEOUT(flood, the_most_are_in_startup_and_no_more, 300)
{
	int i, in = 0, out = 0;

	ASSERT_EQ(0, mpa_start_as(self->listener, &self->start));
	ASSERT_TRUE(flow(self, FLOOD)) TH_LOG("%m");
	/* The last connection is counted asynchronously. */
	for (i = 0; i < 20000; i++) {
		if (statistics("MpaInStartup", "MpaStartupOusted") == FLOOD)
			break;
		poll(NULL, 0, 1);
	}
	EXPECT_EQ(MOST, statistic("MpaInStartup"));
	EXPECT_EQ(FLOOD - MOST, statistic("MpaStartupOusted"));
	EXPECT_EQ(0, good_client(self));
	for (i = 0; i < FLOOD; i++) {
		if (mpa_info(self->child[i]).state == MPA_STATE_STARTUP &&
		    !poll_for(self->child[i], 0, 0)) {
			in++;
			continue;
		}
		ASSERT_NE(0, POLLERR & poll_for(self->child[i], 0, 20000));
		EXPECT_EQ(EUSERS, so_error(self->child[i]));
		out += mpa_info(self->child[i]).state == MPA_STATE_FAILED;
	}
	/* The good client has left startup. */
	EXPECT_EQ(MOST - 1, in);
	EXPECT_EQ(FLOOD - MOST + 1, out);

	/* Served clients, and clients that give up, are no longer counted. */
	for (i = 0; i < FLOOD; i++) {
		u8 frame[USUAL_LEN] = {};

		if (mpa_info(self->child[i]).state != MPA_STATE_STARTUP)
			continue;
		frame_put(frame, false, 0x40, 1, PRIVATE_LEN);
		ASSERT_EQ(0, write_all(self->client[i], frame + i % USUAL_LEN,
				       USUAL_LEN - i % USUAL_LEN));
		ASSERT_EQ(FRAME_LEN, read_all(self->client[i], frame,
					      FRAME_LEN));
	}
	EXPECT_EQ(0, statistic("MpaInStartup"));
}

TEST_F_TIMEOUT(flood, time_ends_it, 300)
{
	int i;

	self->start.timeout_ms = 200;
	ASSERT_EQ(0, mpa_start_as(self->listener, &self->start));
	ASSERT_EQ(0, sysctl_put("startup_max", FLOOD));
	ASSERT_TRUE(flow(self, FLOOD)) TH_LOG("%m");
	for (i = 0; i < FLOOD; i++) {
		u8 octet;

		ASSERT_NE(0, POLLERR & poll_for(self->child[i], 0, 60000)) {
			TH_LOG("stopped before octet %d", i % USUAL_LEN);
		}
		EXPECT_EQ(ETIMEDOUT, so_error(self->child[i]));
		EXPECT_EQ(MPA_ERR_STARTUP, mpa_info(self->child[i]).error);
		EXPECT_EQ(-1, recv(self->client[i], &octet, 1, 0));
		EXPECT_EQ(ECONNRESET, errno);
	}
	/* No connection is counted, though no socket is closed. */
	EXPECT_EQ(0, statistic("MpaInStartup"));
}

/*
 * Requests that wait for MPA_ACCEPT are not counted, and have no timeout: the program
 * was notified of each, and has an open file for it.
 */
TEST_F_TIMEOUT(flood, requests_that_wait_for_the_program_bar_nobody, 300)
{
	u8 frame[USUAL_LEN] = {};
	int i, fd, c;

	frame_put(frame, false, 0x40, 1, PRIVATE_LEN);
	self->start.flags = MPA_START_MANUAL;
	ASSERT_EQ(0, sysctl_put("startup_max", 1));
	ASSERT_EQ(0, mpa_start_as(self->listener, &self->start));
	for (i = 0; i < MOST; i++) {
		self->client[i] = client(self);
		ASSERT_LE(0, self->client[i]);
		ASSERT_EQ(0, write_all(self->client[i], frame, USUAL_LEN));
		self->child[i] = child(self);
		ASSERT_LE(0, self->child[i]);
		ASSERT_EQ(POLLIN, poll_for(self->child[i], POLLIN, 20000)) {
			TH_LOG("request %d: %s", i,
			       strerror(so_error(self->child[i])));
		}
	}
	EXPECT_EQ(0, statistic("MpaInStartup"));
	fd = client(self);
	ASSERT_EQ(0, write_all(fd, frame, USUAL_LEN));
	c = child(self);
	ASSERT_EQ(POLLIN, poll_for(c, POLLIN, 20000));
	EXPECT_EQ(0, decide(c, MPA_ACCEPT));
	EXPECT_EQ(FRAME_LEN, read_all(fd, frame, FRAME_LEN));
	hang_up(fd);
	hang_up(c);
	/* The oldest request can still be accepted. */
	EXPECT_EQ(0, decide(self->child[0], MPA_ACCEPT));
	EXPECT_EQ(FRAME_LEN, read_all(self->client[0], frame, FRAME_LEN));
}

TEST_HARNESS_MAIN
