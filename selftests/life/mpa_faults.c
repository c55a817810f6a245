// SPDX-License-Identifier: GPL-2.0
/* Faults while MPA is attached, started, ended or inherited. */

#include "mpa_faults.h"

/* ---- attach and start ---- */

TEST_F_TIMEOUT(faults, attach, 120)
{
	while (next(self)) {
		int err;

		fault_arm(self->nth);
		err = mpa_attach(self->fd[0]) ? errno : 0;
		self->hit = fault_disarm();
		if (err) {
			ASSERT_TRUE(no_memory_or_fault(err)) TH_LOG("%d", err);
			/* The failed call has had no effect. */
			ASSERT_TRUE(text_goes(self->fd[0], self->fd[1]));
			ASSERT_EQ(0, mpa_attach(self->fd[0]));
		}
		ASSERT_EQ(0, mpa_attach(self->fd[1]));
		ASSERT_EQ(0, mpa_start(self->fd[1], MPA_ROLE_RESPONDER, 0));
		ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
		ASSERT_TRUE(records_go(self));
	}
	EXPECT_WALKED();
}

/* Start fd[0], and its peer before or after it. Start again after a failure. */
static int start_under_fault(struct _test_data_faults *self,
			     const struct mpa_start *start, int *err)
{
	fault_arm(self->nth);
	*err = mpa_start_as(self->fd[0], start) ? errno : 0;
	self->hit = fault_disarm();
	if (!*err)
		return 0;
	if (mpa_info(self->fd[0]).state != MPA_STATE_IDLE)
		return *err;
	return mpa_start_as(self->fd[0], start);
}

TEST_F_TIMEOUT(faults, start_as_initiator, 120)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 2,
		.flags = MPA_START_ENHANCED | MPA_START_P2P |
			 MPA_START_RTR_FPDU,
		.private_len = 500,
	};
	struct mpa_start responder = {
		.role = MPA_ROLE_RESPONDER, .revision = 2, .private_len = 500,
	};
	int err;

	while (next(self)) {
		ASSERT_EQ(0, mpa_attach(self->fd[0]));
		ASSERT_EQ(0, mpa_attach(self->fd[1]));
		ASSERT_EQ(0, mpa_start_as(self->fd[1], &responder));
		ASSERT_EQ(0, start_under_fault(self, &start, &err));
		ASSERT_TRUE(!err || no_memory_or_fault(err)) TH_LOG("%d", err);
		ASSERT_EQ(500, mpa_peer(self->fd[0]).private_len);
		ASSERT_EQ(500, mpa_peer(self->fd[1]).private_len);
		ASSERT_TRUE(records_go(self));
	}
	EXPECT_WALKED();
}

TEST_F_TIMEOUT(faults, start_as_responder, 120)
{
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1, .private_len = 300,
	};
	int err;

	while (next(self)) {
		ASSERT_EQ(0, mpa_attach(self->fd[0]));
		ASSERT_EQ(0, mpa_attach(self->fd[1]));
		ASSERT_EQ(0, start_under_fault(self, &start, &err));
		ASSERT_TRUE(!err || no_memory_or_fault(err)) TH_LOG("%d", err);
		ASSERT_EQ(0, mpa_start(self->fd[1], MPA_ROLE_INITIATOR, 0));
		ASSERT_TRUE(record_goes(self->fd[1], self->fd[0], 99));
		ASSERT_TRUE(records_go(self));
	}
	EXPECT_WALKED();
}

TEST_F_TIMEOUT(faults, start_without_frames, 120)
{
	struct mpa_start start = {
		.role = MPA_ROLE_DIRECT, .revision = 1,
	};
	int err;

	while (next(self)) {
		ASSERT_EQ(0, mpa_attach(self->fd[0]));
		ASSERT_EQ(0, mpa_attach(self->fd[1]));
		ASSERT_EQ(0, start_under_fault(self, &start, &err));
		ASSERT_TRUE(!err || no_memory_or_fault(err)) TH_LOG("%d", err);
		ASSERT_EQ(0, mpa_start_as(self->fd[1], &start));
		ASSERT_TRUE(records_go(self));
	}
	EXPECT_WALKED();
}

/* Call MPA_ACCEPT or MPA_REJECT on fd[1]. */
static int decide_under_fault(struct _test_data_faults *self, int option)
{
	struct mpa_reply reply = { .private_len = 200 };
	int err;

	set_nonblock(self->fd[0]);
	if (mpa_attach(self->fd[0]) || mpa_attach(self->fd[1]) ||
	    mpa_start(self->fd[1], MPA_ROLE_RESPONDER, MPA_START_MANUAL) ||
	    !mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0) ||
	    errno != EINPROGRESS ||
	    !(poll_for(self->fd[1], POLLIN, 20000) & POLLIN))
		return -1;
	set_block(self->fd[0]);

	fault_arm(self->nth);
	err = decide_as(self->fd[1], option, &reply, sizeof(reply));
	self->hit = fault_disarm();
	if (err && mpa_info(self->fd[1]).state == MPA_STATE_REQUESTED) {
		if (!no_memory_or_fault(err))
			return -1;
		err = decide_as(self->fd[1], option, &reply, sizeof(reply));
	}
	return err;
}

TEST_F_TIMEOUT(faults, accept_by_hand, 120)
{
	while (next(self)) {
		int err = decide_under_fault(self, MPA_ACCEPT);

		ASSERT_NE(0, poll_for(self->fd[0], POLLOUT, 20000));
		if (err) {
			/* Startup has failed at both ends. */
			ASSERT_TRUE(no_memory(err)) TH_LOG("%d", err);
			ASSERT_EQ(MPA_STATE_FAILED,
				  mpa_info(self->fd[1]).state);
			ASSERT_EQ(MPA_ERR_LOCAL, mpa_info(self->fd[1]).error);
			ASSERT_EQ(ECONNRESET, so_error(self->fd[0]));
			continue;
		}
		ASSERT_EQ(0, so_error(self->fd[0]));
		ASSERT_EQ(200, mpa_peer(self->fd[0]).private_len);
		ASSERT_TRUE(records_go(self));
	}
	EXPECT_WALKED();
}

TEST_F_TIMEOUT(faults, reject_by_hand, 120)
{
	while (next(self)) {
		int err = decide_under_fault(self, MPA_REJECT);

		ASSERT_NE(0, poll_for(self->fd[0], POLLOUT, 20000));
		if (err) {
			ASSERT_TRUE(no_memory(err)) TH_LOG("%d", err);
			ASSERT_EQ(MPA_STATE_FAILED,
				  mpa_info(self->fd[1]).state);
			ASSERT_EQ(ECONNRESET, so_error(self->fd[0]));
			continue;
		}
		ASSERT_EQ(ECONNREFUSED, so_error(self->fd[0]));
		ASSERT_EQ(200, mpa_peer(self->fd[0]).private_len);
		ASSERT_TRUE(text_goes(self->fd[0], self->fd[1]));
		ASSERT_TRUE(text_goes(self->fd[1], self->fd[0]));
	}
	EXPECT_WALKED();
}

TEST_F_TIMEOUT(faults, options, 120)
{
	while (next_started(self)) {
		struct mpa_info info;
		struct mpa_peer peer;
		socklen_t len[3] = { sizeof(info), sizeof(peer), sizeof(int) };
		int value = 1000, err[5] = {};
		unsigned int i;

		fault_arm(self->nth);
		if (getsockopt(self->fd[0], SOL_MPA, MPA_INFO, &info, len))
			err[0] = errno;
		if (getsockopt(self->fd[0], SOL_MPA, MPA_PEER, &peer, len + 1))
			err[1] = errno;
		if (setsockopt(self->fd[0], SOL_MPA, MPA_SEGMENT, &value,
			       sizeof(value)))
			err[2] = errno;
		if (getsockopt(self->fd[0], SOL_MPA, MPA_MULPDU, &value,
			       len + 2))
			err[3] = errno;
		if (setsockopt(self->fd[0], SOL_TCP, TCP_CORK, &(int){ 0 },
			       sizeof(int)))
			err[4] = errno;
		self->hit = fault_disarm();
		for (i = 0; i < ARRAY_SIZE(err); i++)
			ASSERT_TRUE(!err[i] || no_memory_or_fault(err[i]));
		ASSERT_TRUE(records_go(self));
	}
	EXPECT_WALKED();
}

/* ---- closing ---- */

/* Check that accepted octets arrive, then the end of stream. */
static void walk_end(struct __test_metadata *_metadata, struct _test_data_faults *self,
		     bool closing)
{
	static u8 seen[MPA_ULPDU_MAX];
	unsigned int accepted;
	ssize_t n;

	while (next_started(self)) {
		fault_arm(self->nth);
		record_fill(self->buf, 50000);
		for (accepted = 0; accepted < 3; accepted++)
			ASSERT_NE(0, send_sized(self, self->fd[0], self->buf,
						50000));
		if (closing) {
			close(self->fd[0]);
			self->fd[0] = -1;
		} else {
			ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
		}
		self->hit = fault_disarm();
		while (accepted--) {
			ASSERT_EQ(50000, recv(self->fd[1], seen, sizeof(seen),
					      0));
			ASSERT_TRUE(record_good(seen, 50000));
		}
		n = recv(self->fd[1], seen, sizeof(seen), 0);
		ASSERT_EQ(0, n) TH_LOG("fault %u: %m", self->nth);
		if (!closing)
			ASSERT_TRUE(record_goes(self->fd[1], self->fd[0], 77));
	}
	EXPECT_WALKED();
}

TEST_F_TIMEOUT(faults, send_and_shut_down, 300)
{
	walk_end(_metadata, self, false);
}

TEST_F_TIMEOUT(faults, send_and_close, 300)
{
	walk_end(_metadata, self, true);
}

/*
 * A batch is queued, and TCP has no memory for an skb: the peer must not see a regular
 * end of stream.
 */
static void walk_batch_end(struct __test_metadata *_metadata,
			   struct _test_data_faults *self, bool closing)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 5 };
	const int small = 1;
	u8 seen[4096];
	ssize_t n;

	while (next_started(self)) {
		/* With a full send buffer no allocation is retried. */
		ASSERT_EQ(0, setsockopt(self->fd[0], SOL_SOCKET, SO_SNDBUF,
					&small, sizeof(small)));
		ASSERT_TRUE(record_goes(self->fd[0], self->fd[1], 100));
		ASSERT_TRUE(acked(self->fd[0]));
		ASSERT_EQ(3000, send(self->fd[0], record_of(3000), 3000,
				     MSG_MORE | MSG_EOR));
		fault_arm(self->nth);
		if (!closing)
			shutdown(self->fd[0], SHUT_WR);
		else
			close(self->fd[0]);
		self->hit = fault_disarm();
		/* close(2) resets the connection, though SO_LINGER does not request it. */
		if (!closing) {
			ASSERT_EQ(0, setsockopt(self->fd[0], SOL_SOCKET, SO_LINGER,
						&linger, sizeof(linger)));
			close(self->fd[0]);
		}
		self->fd[0] = -1;
		n = recv(self->fd[1], seen, sizeof(seen), 0);
		ASSERT_NE(0, n) TH_LOG("fault %u", self->nth);
		/* TCP sends no FIN if it has no memory for it. */
		if (n > 0)
			ASSERT_EQ(3000, n);
	}
	EXPECT_WALKED();
}

TEST_F_TIMEOUT(faults, batch_and_shut_down, 120)
{
	walk_batch_end(_metadata, self, false);
}

TEST_F_TIMEOUT(faults, batch_and_close, 120)
{
	walk_batch_end(_metadata, self, true);
}

/* ---- listening sockets ---- */

static int listener(struct _test_data_faults *self, int family, struct sockaddr_storage *addr,
		    const struct mpa_start *start)
{
	int fd = socket(family, SOCK_STREAM, 0);
	socklen_t len = sizeof(*addr);

	memset(addr, 0, sizeof(*addr));
	addr->ss_family = family;
	if (bind(fd, (struct sockaddr *)addr, len) || mpa_attach(fd) ||
	    listen(fd, 8) ||
	    getsockname(fd, (struct sockaddr *)addr, &len))
		return -1;
	if (start && mpa_start_as(fd, start))
		return -1;
	return fd;
}

TEST_F_TIMEOUT(faults, start_a_listener, 120)
{
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1, .private_len = 100,
	};
	struct sockaddr_storage addr;
	int fd, err;

	while (next(self)) {
		hang_up(self->fd[0]);
		hang_up(self->fd[1]);
		fd = listener(self, AF_INET6, &addr, NULL);
		ASSERT_LE(0, fd);
		self->fd[0] = socket(AF_INET6, SOCK_STREAM, 0);

		fault_arm(self->nth);
		err = mpa_start_as(fd, &start) ? errno : 0;
		self->hit = fault_disarm();
		ASSERT_TRUE(!err || no_memory_or_fault(err)) TH_LOG("%d", err);
		if (err)
			ASSERT_EQ(0, mpa_start_as(fd, &start));
		ASSERT_EQ(0, connect(self->fd[0], (struct sockaddr *)&addr,
				     sizeof(addr)));
		patience(self->fd[0], 20);
		self->fd[1] = accept(fd, NULL, NULL);
		ASSERT_LE(0, self->fd[1]);
		close(fd);
		patience(self->fd[1], 20);
		ASSERT_EQ(0, mpa_attach(self->fd[0]));
		ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
		ASSERT_EQ(100, mpa_peer(self->fd[0]).private_len);
		ASSERT_TRUE(records_go(self));
	}
	EXPECT_WALKED();
}

/* Without memory for the RTR indication no FPDU may be sent (RFC 6581 section 5). */
TEST_F_TIMEOUT(faults, rtr_indication_comes_first, 300)
{
	const struct model_enhanced enhanced = { .a = true, .b = true };
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 2,
		.flags = MPA_START_ENHANCED | MPA_START_MANUAL |
			 MPA_START_P2P | MPA_START_RTR_FPDU,
	};

	while (next(self)) {
		struct peer peer = {};
		u8 octets[64];
		size_t n;
		int err;

		ASSERT_EQ(0, mpa_attach(self->fd[0]));
		set_nonblock(self->fd[0]);
		ASSERT_EQ(-1, mpa_start_as(self->fd[0], &start));
		ASSERT_EQ(EINPROGRESS, errno);
		ASSERT_EQ(FRAME_LEN + 4, read_all(self->fd[1], octets,
						  FRAME_LEN + 4));
		frame_put(octets, true, 0x40 | MPA_PEER_ENHANCED, 2, 4);
		model_enhanced_octets(&enhanced, octets + FRAME_LEN);
		ASSERT_EQ(0, write_all(self->fd[1], octets, FRAME_LEN + 4));
		ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
		fault_arm(self->nth);
		err = decide(self->fd[0], MPA_ACCEPT);
		self->hit = fault_disarm();
		ASSERT_TRUE(!err || no_memory(err)) TH_LOG("%d", err);
		if (err)
			ASSERT_EQ(0, decide(self->fd[0], MPA_ACCEPT));
		/* The peer sends too early: it should wait for the RTR indication. */
		n = peer_fpdu(&peer, (const u8 *)"early", 5, octets);
		ASSERT_EQ(0, write_all(self->fd[1], octets, n));
		ASSERT_NE(0, poll_for(self->fd[0], POLLIN, 20000));
		set_block(self->fd[0]);
		ASSERT_EQ(6, send(self->fd[0], "record", 6, MSG_NOSIGNAL));
		ASSERT_EQ(8, read_all(self->fd[1], octets, 8));
		EXPECT_EQ(0, octets[0] + octets[1]) {
			TH_LOG("fault %u: a ULPDU of %u octets comes first",
			       self->nth, octets[0] << 8 | octets[1]);
		}
		EXPECT_EQ(5, recv(self->fd[0], octets, sizeof(octets), 0));
	}
	EXPECT_WALKED();
}

/* ---- faults in softirqs and in the work item ---- */

/* The fault comes after a multiple of this number of octets. */
#define SPACE_STEP	128
#define SPACE_MAX	(24 * 1024)

/* accept() fails and closes the connection, or the new socket has MPA. */
TEST_F_TIMEOUT(faults, accept, 600)
{
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1, .private_len = 100,
	};
	struct sockaddr_storage addr;
	unsigned int without = 0;
	int fd, err;

	fd = listener(self, AF_INET, &addr, &start);
	ASSERT_LE(0, fd);
	patience(fd, 20);
	do {
		hang_up(self->fd[0]);
		hang_up(self->fd[1]);
		self->fd[0] = socket(AF_INET, SOCK_STREAM, 0);
		patience(self->fd[0], 20);
		ASSERT_EQ(0, connect(self->fd[0], (struct sockaddr *)&addr,
				     sizeof(addr)));
		ASSERT_EQ(POLLIN, poll_for(fd, POLLIN, 20000));
		fault_arm(++self->nth);
		self->fd[1] = accept(fd, NULL, NULL);
		err = errno;
		self->hit = fault_disarm();
		patience(self->fd[1], 20);
		if (self->fd[1] >= 0) {
			ASSERT_EQ(0, mpa_attach(self->fd[0]));
			ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_INITIATOR,
					       0));
			ASSERT_TRUE(records_go(self));
			continue;
		}
		ASSERT_TRUE(no_memory(err) || err == ENFILE) TH_LOG("%d", err);
		without++;
		/* If accept() failed before TCP was called, the child is still in the queue. */
		if (poll_for(fd, POLLIN, 0) == POLLIN)
			close(accept(fd, NULL, NULL));
		ASSERT_EQ(0, recv(self->fd[0], self->buf, 1, 0));
	} while (self->hit);
	close(fd);
	EXPECT_WALKED();
	/* There are at least two allocations: the context and the copy of the parameters. */
	EXPECT_LE(2, without);
}

/*
 * Faults in a responder's work item, which replies and then verifies, and in both ends'
 * softirqs.
 */
TEST_F_TIMEOUT(faults, answer_and_receive, 600)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 2,
		.flags = MPA_START_ENHANCED | MPA_START_P2P |
			 MPA_START_RTR_FPDU,
		.private_len = 400,
	};
	unsigned int space, good = 0, failed = 0;
	struct mpa_start responder = {
		.role = MPA_ROLE_RESPONDER, .revision = 2, .private_len = 400,
	};

	for (space = 0; space < SPACE_MAX; space += SPACE_STEP) {
		int err;

		self->nth = 0;
		ASSERT_TRUE(next(self));
		ASSERT_EQ(0, mpa_attach(self->fd[0]));
		ASSERT_EQ(0, mpa_attach(self->fd[1]));
		ASSERT_EQ(0, mpa_start_as(self->fd[1], &responder));
		slab_fault_arm(space, false);
		err = mpa_start_as(self->fd[0], &start) ? errno : 0;
		self->hit = slab_fault_disarm();
		if (no_memory(err)) {
			/* An allocation in the call failed: no effect. */
			ASSERT_EQ(MPA_STATE_IDLE, mpa_info(self->fd[0]).state);
			err = mpa_start_as(self->fd[0], &start) ? errno : 0;
		}
		if (err) {
			ASSERT_EQ(ECONNRESET, err) TH_LOG("%u", space);
			ASSERT_EQ(MPA_ERR_LOCAL, mpa_info(self->fd[1]).error);
			ASSERT_TRUE(no_memory(so_error(self->fd[1])));
			failed++;
		} else {
			ASSERT_TRUE(records_go(self)) TH_LOG("%u", space);
			good++;
		}
		if (!self->hit)
			break;
	}
	EXPECT_FALSE(self->hit);
	EXPECT_NE(0, good);
	EXPECT_NE(0, failed);
	TH_LOG("%u faults: %u failed, %u did not", space / SPACE_STEP, failed,
	       good);
}

TEST_HARNESS_MAIN
