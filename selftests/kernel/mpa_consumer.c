// SPDX-License-Identifier: GPL-2.0
/*
 * include/net/mpa.h: how a user inside the kernel starts, sends and receives, and its
 * errors.
 */

#include <sys/wait.h>

#include "mpa_consumer.h"

/* ---- records ---- */

static const size_t lengths[] = {
	1, 2, 3, 4, 13, 500, 508, 1400, 1448, 9000, 32768, 65000 - 232,
};

TEST_F(consumer, ulpdus_come_by_upcall)
{
	u64 position = 0;
	unsigned int i;

	ASSERT_EQ(0, both_direct(self, variant->flags));
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		ASSERT_TRUE(record_goes_in(self, lengths[i])) {
			TH_LOG("%zu octets", lengths[i]);
		}
		EXPECT_EQ(i, self->told->is.order);
		EXPECT_EQ(position, self->told->is.position);
		ASSERT_TRUE(upcall_of(self->user, UPCALL_EDGE, self->told));
		position = self->told->is.position;
	}
	shutdown(self->fd[0], SHUT_WR);
	EXPECT_TRUE(upcall_of(self->user, UPCALL_CLOSED, self->told));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_FAILED));
}

TEST_F(consumer, sends_what_it_is_given)
{
	u64 end = 0, was;
	unsigned int i;
	int memory;

	ASSERT_EQ(0, both_direct(self, variant->flags));
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (memory = MEMORY_USER; memory <= MEMORY_BVEC; memory++) {
			size_t header[] = {
				0, 1, lengths[i] / 2, lengths[i] - 1, lengths[i],
			};
			unsigned int h;

			for (h = 0; h < ARRAY_SIZE(header); h++) {
				was = end;
				ASSERT_EQ(0, user_send(self->user, lengths[i],
						       header[h], memory, &end));
				EXPECT_LT(was + lengths[i], end);
				ASSERT_TRUE(program_gets(self, lengths[i])) {
					TH_LOG("%zu octets, header %zu, memory %d",
					       lengths[i], header[h], memory);
				}
			}
		}
	}
	/* Wait until all octets are acknowledged. */
	do {
		ASSERT_TRUE(upcall_of(self->user, UPCALL_ACKED, self->told));
	} while (self->told->is.position < end);
	EXPECT_EQ(end, self->told->is.position);
}

TEST_F(consumer, refuses_what_is_no_ulpdu)
{
	struct upcall_send send = { .flags = 1U << 5 };

	ASSERT_EQ(0, both_direct(self, variant->flags));
	EXPECT_EQ(EMSGSIZE, user_send(self->user, 0, 0, MEMORY_USER, NULL));
	EXPECT_EQ(EMSGSIZE, user_send(self->user, MPA_ULPDU_MAX + 1, 10,
				      MEMORY_USER, NULL));
	EXPECT_EQ(EMSGSIZE, user_send(self->user, MPA_ULPDU_MAX + 1,
				      MPA_ULPDU_MAX + 1, MEMORY_USER, NULL));
	EXPECT_EQ(EINVAL, user_call(self->user, UPCALLS_SEND, &send));
	send = (struct upcall_send){
		.payload = 4096, .len = 1000, .header_len = 10,
		.header = (u64)(unsigned long)self->buf,
	};
	EXPECT_EQ(EFAULT, user_call(self->user, UPCALLS_SEND, &send));
	EXPECT_TRUE(record_goes_out(self, 1000));
}

/*
 * A ULPDU is accepted whole, or not at all. The user is notified once there is space,
 * perhaps as soon as the peer's TCP acknowledges octets in flight.
 */
TEST_F(consumer, full_buffer)
{
	unsigned int sent = 0, before, i;
	bool more;

	ASSERT_EQ(0, both_direct(self, variant->flags));
	do {
		before = sent;
		while (sent < 10000 &&
		       !user_send(self->user, 10000, 100, MEMORY_KVEC, NULL))
			sent++;
		EXPECT_EQ(EAGAIN, errno);
		/* After a notification at least one send must succeed. */
		ASSERT_LT(before, sent);
		more = !no_upcall(self->user, UPCALL_WRITABLE);
	} while (more && sent < 10000);
	for (i = 0; i < sent; i++)
		ASSERT_TRUE(program_gets(self, 10000));
	EXPECT_TRUE(upcall_of(self->user, UPCALL_WRITABLE, self->told));
	EXPECT_TRUE(record_goes_out(self, 1234));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_WRITABLE));
}

TEST_F(consumer, puts_off)
{
	struct upcall_how how = { .put_off = 3 };
	unsigned int i;

	ASSERT_EQ(0, user_how(self->user, how));
	ASSERT_EQ(0, both_direct(self, variant->flags));
	for (i = 1; i <= 10; i++)
		ASSERT_EQ(100 * i, send(self->fd[0], record_of(100 * i),
					100 * i, 0));
	for (i = 1; i <= 10; i++) {
		if (i % 3 == 0) {
			EXPECT_TRUE(no_upcall(self->user, UPCALL_ULPDU));
			ASSERT_EQ(0, user_call(self->user, UPCALLS_RESUME,
					       NULL));
		}
		ASSERT_TRUE(user_gets(self, 100 * i));
		EXPECT_EQ(i - 1, self->told->is.order);
	}
	/* Without a deferred ULPDU mpa_sock_resume() has no effect. */
	ASSERT_EQ(0, user_call(self->user, UPCALLS_RESUME, NULL));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_ULPDU));
}

TEST_F(consumer, resumes_before_it_puts_off)
{
	struct upcall_how how = { .put_off = 2, .resume_early = 1 };
	unsigned int i;

	ASSERT_EQ(0, user_how(self->user, how));
	ASSERT_EQ(0, both_direct(self, variant->flags));
	for (i = 1; i <= 20; i++)
		ASSERT_TRUE(record_goes_in(self, 100 * i));
}

/* The user cannot accept a ULPDU: TCP's window closes, and nothing is lost. */
TEST_F(consumer, has_no_room)
{
	const unsigned int n = 200;
	int child, status;
	unsigned int i;

	ASSERT_EQ(0, both_direct(self, variant->flags));
	child = fork();
	if (!child) {
		for (i = 0; i < n; i++)
			if (send(self->fd[0], record_of(20000 + i), 20000 + i,
				 0) < 0)
				break;
		_exit(i != n);
	}
	poll(NULL, 0, 500);
	for (i = 0; i < n; i++)
		ASSERT_TRUE(user_gets(self, 20000 + i));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

/* A record exceeds the receive buffer: the work item stores it piece by piece. */
TEST_F(consumer, small_receive_buffer)
{
	unsigned int i;

	close(self->fd[0]);
	close(self->fd[1]);
	ASSERT_EQ(0, tcp_pair_buf(AF_INET, self->fd, 4096));
	patience(self->fd[0], 20);
	ASSERT_EQ(0, both_direct(self, variant->flags));
	for (i = 0; i < 5; i++)
		ASSERT_TRUE(record_goes_in(self, 60000 + i));
}

/* ---- startup ---- */

TEST_F(consumer, initiates)
{
	struct mpa_info info;

	ASSERT_EQ(0, user_attach(self->user, self->fd[1]));
	ASSERT_EQ(EINPROGRESS, user_start(self->user, MPA_ROLE_INITIATOR,
					  variant->flags));
	EXPECT_EQ(EAGAIN, user_send(self->user, 10, 0, MEMORY_KVEC, NULL));
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_RESPONDER,
			       variant->flags));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
	EXPECT_EQ(MPA_STATE_FULL, self->told->is.value);
	EXPECT_EQ(0, self->told->is.err);
	EXPECT_TRUE(upcall_of(self->user, UPCALL_WRITABLE, self->told));
	EXPECT_TRUE(record_goes_out(self, 100));
	EXPECT_TRUE(record_goes_in(self, 100));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_INFO, &info));
	EXPECT_EQ(MPA_STATE_FULL, info.state);
	EXPECT_EQ(MPA_ROLE_INITIATOR, info.role);
	EXPECT_EQ(!!variant->flags, !!(info.flags & MPA_INFO_RX_MARKERS));
}

TEST_F(consumer, responds)
{
	ASSERT_EQ(0, user_attach(self->user, self->fd[1]));
	ASSERT_EQ(0, user_start(self->user, MPA_ROLE_RESPONDER,
				variant->flags));
	/* section 7.1.2 rule 4 */
	EXPECT_EQ(EAGAIN, user_send(self->user, 10, 0, MEMORY_KVEC, NULL));
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_INITIATOR,
			       variant->flags));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
	EXPECT_EQ(MPA_STATE_FULL, self->told->is.value);
	EXPECT_EQ(EAGAIN, user_send(self->user, 10, 0, MEMORY_KVEC, NULL));
	EXPECT_TRUE(record_goes_in(self, 100));
	EXPECT_TRUE(upcall_of(self->user, UPCALL_WRITABLE, self->told));
	EXPECT_TRUE(record_goes_out(self, 100));
}

TEST_F(consumer, decides_by_hand)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 2,
		.flags = variant->flags | MPA_START_ENHANCED, .ird = 3, .ord = 5,
		.private_len = 5, .private_data = "hello",
	};
	struct mpa_reply reply = {
		.private_len = 3, .ird = 5, .ord = 3, .private_data = "yes",
	};
	struct mpa_start by_hand = {
		.role = MPA_ROLE_RESPONDER, .revision = 2,
		.flags = variant->flags | MPA_START_MANUAL,
	};
	struct mpa_peer peer;
	struct mpa_info info;

	ASSERT_EQ(0, user_attach(self->user, self->fd[1]));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_START, &by_hand));
	EXPECT_EQ(ENODATA, user_call(self->user, UPCALLS_PEER, &peer));
	EXPECT_EQ(EAGAIN, user_call(self->user, UPCALLS_REPLY, &reply));
	set_nonblock(self->fd[0]);
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(-1, mpa_start_as(self->fd[0], &start));
	ASSERT_EQ(EINPROGRESS, errno);
	ASSERT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
	EXPECT_EQ(MPA_STATE_REQUESTED, self->told->is.value);
	ASSERT_EQ(0, user_call(self->user, UPCALLS_PEER, &peer));
	EXPECT_EQ(5, peer.private_len);
	EXPECT_EQ(0, memcmp(peer.private_data, "hello", 5));
	EXPECT_EQ(3, peer.ird);
	ASSERT_EQ(0, user_call(self->user, UPCALLS_REPLY, &reply));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
	EXPECT_EQ(MPA_STATE_FULL, self->told->is.value);
	EXPECT_EQ(POLLOUT, poll_for(self->fd[0], POLLOUT, 20000));
	set_block(self->fd[0]);
	EXPECT_TRUE(record_goes_in(self, 100));
	EXPECT_TRUE(record_goes_out(self, 100));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_INFO, &info));
	EXPECT_EQ(5, info.ird);
	EXPECT_EQ(3, info.ord);
}

TEST_F(consumer, rejects)
{
	struct mpa_reply reply = { .private_len = 2, .private_data = "no" };

	ASSERT_EQ(0, user_attach(self->user, self->fd[1]));
	ASSERT_EQ(0, user_start(self->user, MPA_ROLE_RESPONDER,
				MPA_START_MANUAL));
	set_nonblock(self->fd[0]);
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(-1, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_REJECT, &reply));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
	EXPECT_EQ(MPA_STATE_REJECTED, self->told->is.value);
	EXPECT_LE(POLLOUT, poll_for(self->fd[0], POLLOUT, 20000));
	EXPECT_EQ(ECONNREFUSED, so_error(self->fd[0]));
}

TEST_F(consumer, is_rejected)
{
	struct mpa_peer peer;
	int i;

	ASSERT_EQ(0, user_attach(self->user, self->fd[1]));
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	/* A second startup reports its result, too. */
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(EINPROGRESS, user_start(self->user,
						  MPA_ROLE_INITIATOR, 0));
		ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_RESPONDER,
				       MPA_START_MANUAL));
		ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
		ASSERT_EQ(0, decide(self->fd[0], MPA_REJECT));
		ASSERT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
		EXPECT_EQ(MPA_STATE_REJECTED, self->told->is.value);
		EXPECT_EQ(-ECONNREFUSED, self->told->is.err);
	}
	ASSERT_EQ(0, user_call(self->user, UPCALLS_PEER, &peer));
	EXPECT_EQ(MPA_PEER_REJECTED, peer.flags & MPA_PEER_REJECTED);
	EXPECT_EQ(ENOTCONN, user_send(self->user, 10, 0, MEMORY_KVEC, NULL));
}

TEST_F(consumer, startup_fails)
{
	ASSERT_EQ(0, user_attach(self->user, self->fd[1]));
	ASSERT_EQ(EINPROGRESS, user_start(self->user, MPA_ROLE_INITIATOR, 0));
	ASSERT_EQ(20, send(self->fd[0], "this is no MPA frame", 20, 0));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
	EXPECT_EQ(MPA_STATE_FAILED, self->told->is.value);
	EXPECT_EQ(-EPROTO, self->told->is.err);
	EXPECT_TRUE(no_upcall(self->user, UPCALL_STATE));
}

TEST_F(consumer, peer_leaves_in_startup)
{
	ASSERT_EQ(0, user_attach(self->user, self->fd[1]));
	ASSERT_EQ(EINPROGRESS, user_start(self->user, MPA_ROLE_INITIATOR, 0));
	hang_up(self->fd[0]);
	ASSERT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
	EXPECT_EQ(MPA_STATE_FAILED, self->told->is.value);
	EXPECT_EQ(-ECONNRESET, self->told->is.err);
}

/* mpa_sock_start() waits for the reply, like connect(2). */
TEST_F(consumer, waits_for_the_reply)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 1,
		.flags = variant->flags,
	};

	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_RESPONDER, 0));
	ASSERT_EQ(0, user_attach(self->user, self->fd[1]));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_WAIT, &start));
	EXPECT_TRUE(record_goes_out(self, 100));
}

/* ---- errors ---- */

TEST_F(consumer, bad_crc)
{
	size_t first, len;

	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	first = next_fpdu(&self->peer, 700, self->buf);
	len = first + next_fpdu(&self->peer, 700, self->buf + first);
	self->buf[first + 300] ^= 1;
	ASSERT_EQ(0, write_all(self->fd[0], self->buf, len));
	EXPECT_TRUE(user_gets(self, 700));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_FAILED, self->told));
	EXPECT_EQ(-EBADMSG, self->told->is.err);
	EXPECT_EQ(MPA_ERR_CRC, self->told->is.value);
	EXPECT_EQ(first, self->told->is.position);
	/* Section 8: sending is still possible. */
	EXPECT_EQ(0, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
	EXPECT_LT(100, recv(self->fd[0], self->buf, BUF, 0));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_FAILED));
	/* Sending is possible until the connection is lost. */
	hang_up(self->fd[0]);
	ASSERT_TRUE(upcall_of(self->user, UPCALL_FAILED, self->told));
	EXPECT_EQ(-ECONNRESET, self->told->is.err);
	EXPECT_EQ(MPA_ERR_TCP, self->told->is.value);
	EXPECT_TRUE(no_upcall(self->user, UPCALL_CLOSED));
}

/* A marker is bad, but the CRC is good; a good FPDU is in the same skb. */
TEST_F(consumer, bad_marker)
{
	size_t first, len;
	u8 *bad;

	if (!variant->flags)
		SKIP(return, "needs markers");
	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	ASSERT_EQ(0, write_all(self->fd[0], self->buf,
			       next_fpdu(&self->peer, 50, self->buf)));
	EXPECT_TRUE(user_gets(self, 50));
	first = next_fpdu(&self->peer, 100, self->buf);
	bad = self->buf + first;
	len = next_fpdu(&self->peer, 900, bad);
	/* This is the marker at stream position 512. */
	bad[len - (self->peer.tx_position - 512) + 3] ^= 4;
	model_crc(bad, len - 4, bad + len - 4);
	ASSERT_EQ(0, write_all(self->fd[0], self->buf, first + len));
	EXPECT_TRUE(user_gets(self, 100));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_FAILED, self->told));
	EXPECT_EQ(-EBADMSG, self->told->is.err);
	EXPECT_EQ(MPA_ERR_MARKER, self->told->is.value);
	EXPECT_TRUE(no_upcall(self->user, UPCALL_ULPDU));
}

TEST_F(consumer, end_within_an_fpdu)
{
	size_t len;

	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	len = next_fpdu(&self->peer, 700, self->buf);
	ASSERT_EQ(0, write_all(self->fd[0], self->buf, len - 1));
	shutdown(self->fd[0], SHUT_WR);
	ASSERT_TRUE(upcall_of(self->user, UPCALL_FAILED, self->told));
	EXPECT_EQ(-EBADMSG, self->told->is.err);
	EXPECT_EQ(MPA_ERR_TCP, self->told->is.value);
	EXPECT_TRUE(no_upcall(self->user, UPCALL_CLOSED));
}

TEST_F(consumer, reset)
{
	struct linger now = { .l_onoff = 1 };

	ASSERT_EQ(0, both_direct(self, variant->flags));
	ASSERT_TRUE(record_goes_in(self, 100));
	setsockopt(self->fd[0], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	hang_up(self->fd[0]);
	ASSERT_TRUE(upcall_of(self->user, UPCALL_FAILED, self->told));
	EXPECT_EQ(-ECONNRESET, self->told->is.err);
	EXPECT_EQ(MPA_ERR_TCP, self->told->is.value);
	EXPECT_EQ(EPIPE, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_CLOSED));
}

/* The end is reported after deferred ULPDUs. */
TEST_F(consumer, end_after_what_is_put_off)
{
	struct upcall_how how = { .put_off = 1 };

	ASSERT_EQ(0, user_how(self->user, how));
	ASSERT_EQ(0, both_direct(self, variant->flags));
	ASSERT_EQ(100, send(self->fd[0], record_of(100), 100, 0));
	shutdown(self->fd[0], SHUT_WR);
	EXPECT_TRUE(no_upcall(self->user, UPCALL_CLOSED));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_RESUME, NULL));
	EXPECT_TRUE(user_gets(self, 100));
	EXPECT_TRUE(upcall_of(self->user, UPCALL_CLOSED, self->told));
}

TEST_F(consumer, can_make_nothing_of_it)
{
	struct upcall_how how = { .fail_at = 3 };

	ASSERT_EQ(0, user_how(self->user, how));
	ASSERT_EQ(0, both_direct(self, variant->flags));
	EXPECT_TRUE(record_goes_in(self, 100));
	EXPECT_TRUE(record_goes_in(self, 200));
	ASSERT_EQ(300, send(self->fd[0], record_of(300), 300, 0));
	ASSERT_EQ(400, send(self->fd[0], record_of(400), 400, 0));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_FAILED, self->told));
	EXPECT_EQ(-EPROTO, self->told->is.err);
	EXPECT_EQ(MPA_ERR_LOCAL, self->told->is.value);
	EXPECT_TRUE(no_upcall(self->user, UPCALL_ULPDU));
	EXPECT_TRUE(record_goes_out(self, 100));
}

/* Upcalls call mpa: in softirq, and in a work item for a deferred ULPDU. */
TEST_F(consumer, calls_back)
{
	struct upcall_how how = { .call_back = 1, .put_off = 1 };
	int i;

	ASSERT_EQ(0, user_how(self->user, how));
	ASSERT_EQ(0, both_direct(self, variant->flags));
	ASSERT_EQ(100, send(self->fd[0], record_of(100), 100, 0));
	for (i = 0; i < 4; i++) {
		ASSERT_TRUE(upcall_of(self->user, UPCALL_RESULT, self->told));
		EXPECT_EQ(-EDEADLK, self->told->is.err);
		if (i == 1)
			ASSERT_EQ(0, user_call(self->user, UPCALLS_RESUME,
					       NULL));
	}
	EXPECT_TRUE(user_gets(self, 100));
}

TEST_HARNESS_MAIN
