// SPDX-License-Identifier: GPL-2.0
/* Attaching, starting, options, startup frames, closing. */

#include <linux/net_tstamp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"

FIXTURE(tcp)
{
	int fd[2];
};

FIXTURE_VARIANT(tcp)
{
	int family;
};

FIXTURE_VARIANT_ADD(tcp, ipv4) { .family = AF_INET };
FIXTURE_VARIANT_ADD(tcp, ipv6) { .family = AF_INET6 };

FIXTURE_SETUP(tcp)
{
	ASSERT_EQ(0, tcp_pair(variant->family, self->fd));
}

FIXTURE_TEARDOWN(tcp)
{
	close(self->fd[0]);
	close(self->fd[1]);
}

TEST_F(tcp, start_wants_a_connection_or_a_listener)
{
	int fd = socket(variant->family, SOCK_STREAM, 0);

	EXPECT_EQ(0, mpa_attach(fd));
	EXPECT_EQ(-1, mpa_start(fd, MPA_ROLE_RESPONDER, 0));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(-1, mpa_start(fd, MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(0, listen(fd, 1));
	EXPECT_EQ(-1, mpa_start(fd, MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, mpa_start(fd, MPA_ROLE_RESPONDER, 0));
	EXPECT_EQ(-1, mpa_start(fd, MPA_ROLE_RESPONDER, 0));
	EXPECT_EQ(EISCONN, errno);
	close(fd);
}

TEST_F(tcp, attach_only_once)
{
	EXPECT_EQ(0, mpa_attach(self->fd[0]));
	EXPECT_EQ(-1, mpa_attach(self->fd[0]));
	EXPECT_EQ(EEXIST, errno);
}

TEST_F(tcp, attached_socket_is_ordinary_tcp)
{
	char buf[16];

	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(self->fd[0]).state);
	EXPECT_EQ(5, send(self->fd[0], "hello", 5, 0));
	EXPECT_EQ(5, recv(self->fd[1], buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "hello", 5));
	EXPECT_EQ(2, send(self->fd[1], "ab", 2, 0));
	EXPECT_EQ(2, send(self->fd[1], "cd", 2, 0));
	EXPECT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
	EXPECT_EQ(POLLIN | POLLOUT, poll_for(self->fd[0], POLLIN | POLLOUT, 0));
	EXPECT_EQ(4, recv(self->fd[0], buf, 4, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "abcd", 4));
	EXPECT_EQ(0, poll_for(self->fd[0], POLLIN, 0));
}

TEST_F(tcp, wrong_start_is_refused)
{
	struct {
		struct mpa_start start;
		u8 more[16];
	} big = { .start = { .role = MPA_ROLE_RESPONDER, .revision = 1 } };
	struct mpa_start start = big.start;
	const size_t private_at = offsetof(struct mpa_start, private_data);
	const size_t least = offsetof(struct mpa_start, ird);
	int fd = self->fd[0];

	ASSERT_EQ(0, mpa_attach(fd));
#define REFUSED(err, value, len) do {					\
	EXPECT_EQ(-1, setsockopt(fd, SOL_MPA, MPA_START, value, len));	\
	EXPECT_EQ(err, errno);						\
} while (0)
	REFUSED(EINVAL, &start, 0);
	REFUSED(EINVAL, &start, least - 1);
	REFUSED(EFAULT, NULL, sizeof(start));
	start.role = 0;
	REFUSED(EINVAL, &start, sizeof(start));
	start.role = 99;
	REFUSED(EINVAL, &start, sizeof(start));
	start.role = MPA_ROLE_RESPONDER;
	start.revision = 3;
	REFUSED(EINVAL, &start, sizeof(start));
	start.revision = 1;
	start.flags = 1U << 31;
	REFUSED(EINVAL, &start, sizeof(start));
	start.flags = 0;
	start.private_len = MPA_PRIVATE_DATA_MAX + 1;
	REFUSED(EINVAL, &start, sizeof(start));
	start.private_len = 11;
	REFUSED(EINVAL, &start, private_at + 10);
	start.private_len = 0;
	start.reserved[0] = 1;
	REFUSED(EINVAL, &start, sizeof(start));
	start.reserved[0] = 0;
	start.reserved[3] = 1;
	REFUSED(EINVAL, &start, private_at);
	start.reserved[3] = 0;
	big.more[15] = 1;
	REFUSED(E2BIG, &big, sizeof(big));
	REFUSED(E2BIG, &big, 1 << 20);
#undef REFUSED
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(fd).state);

	/* The struct may be shorter or longer than the kernel's. */
	big.more[15] = 0;
	EXPECT_EQ(0, setsockopt(fd, SOL_MPA, MPA_START, &big, sizeof(big)));
	ASSERT_EQ(0, mpa_attach(self->fd[1]));
	start.role = MPA_ROLE_INITIATOR;
	EXPECT_EQ(0, setsockopt(self->fd[1], SOL_MPA, MPA_START, &start, least));
}

/* Other languages' programs build these structs octet by octet. */
TEST(structs_are_laid_out_as_documented)
{
	EXPECT_EQ(32, offsetof(struct mpa_start, private_data));
	EXPECT_EQ(32, offsetof(struct mpa_reply, private_data));
	EXPECT_EQ(32, offsetof(struct mpa_peer, private_data));
	EXPECT_EQ(8, offsetof(struct mpa_start, ird));
	EXPECT_EQ(12, offsetof(struct mpa_start, timeout_ms));
	EXPECT_EQ(8, offsetof(struct mpa_peer, control));
	EXPECT_EQ(24, offsetof(struct mpa_info, tx_ulpdus));
	EXPECT_EQ(96, offsetof(struct mpa_info, rx_placed));
	EXPECT_EQ(112, offsetof(struct mpa_info, error_position));
	EXPECT_EQ(120, sizeof(struct mpa_info));
	EXPECT_EQ(36, offsetof(struct mpa_recvinfo, valid));
	EXPECT_EQ(40, sizeof(struct mpa_recvinfo));
}

TEST_F(tcp, unknown_options_are_refused)
{
	socklen_t len = sizeof(int);
	int val = 0;

	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	EXPECT_EQ(-1, setsockopt(self->fd[0], SOL_MPA, 99, &val, len));
	EXPECT_EQ(ENOPROTOOPT, errno);
	EXPECT_EQ(-1, getsockopt(self->fd[0], SOL_MPA, 99, &val, &len));
	EXPECT_EQ(ENOPROTOOPT, errno);
	EXPECT_EQ(-1, setsockopt(self->fd[0], SOL_MPA, MPA_INFO, &val, len));
	EXPECT_EQ(ENOPROTOOPT, errno);
	EXPECT_EQ(-1, getsockopt(self->fd[0], SOL_MPA, MPA_START, &val, &len));
	EXPECT_EQ(ENOPROTOOPT, errno);
}

TEST_F(tcp, start_wants_a_connection)
{
	struct linger reset = { .l_onoff = 1 };

	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	setsockopt(self->fd[1], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(self->fd[1]);
	EXPECT_NE(0, POLLHUP & poll_for(self->fd[0], POLLIN, 20000));
	so_error(self->fd[0]);
	EXPECT_EQ(-1, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(ENOTCONN, errno);
}

TEST_F(tcp, start_only_once)
{
	set_nonblock(self->fd[0]);
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	EXPECT_EQ(-1, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(EINPROGRESS, errno);
	EXPECT_EQ(-1, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(EALREADY, errno);

	ASSERT_EQ(0, mpa_attach(self->fd[1]));
	EXPECT_EQ(0, mpa_start(self->fd[1], MPA_ROLE_RESPONDER, 0));
	EXPECT_EQ(POLLOUT, poll_for(self->fd[0], POLLOUT, 20000));
	EXPECT_EQ(0, so_error(self->fd[0]));
	EXPECT_EQ(-1, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(EISCONN, errno);
	EXPECT_EQ(-1, mpa_start(self->fd[1], MPA_ROLE_RESPONDER, 0));
	EXPECT_EQ(EISCONN, errno);
}

/* RFC 5044 section 7.1: streaming data before MPA belongs to the user. */
TEST_F(tcp, initiator_does_not_swallow_streaming_data)
{
	char buf[8];

	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(5, send(self->fd[1], "Hello", 5, 0));
	ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
	EXPECT_EQ(-1, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(5, recv(self->fd[0], buf, sizeof(buf), 0));
}

TEST_F(tcp, nonblocking_start_reports_by_poll)
{
	u8 frame[FRAME_LEN];
	char buf[4];

	set_nonblock(self->fd[0]);
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(-1, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
	ASSERT_EQ(EINPROGRESS, errno);
	EXPECT_EQ(MPA_STATE_STARTUP, mpa_info(self->fd[0]).state);
	EXPECT_EQ(0, poll_for(self->fd[0], POLLIN | POLLOUT, 0));
	EXPECT_EQ(-1, send(self->fd[0], "x", 1, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, recv(self->fd[0], buf, sizeof(buf), 0));
	EXPECT_EQ(EAGAIN, errno);

	/* A reply has no effect until its last octet arrives. */
	frame_put(frame, true, 0x40, 1, 0);
	ASSERT_EQ(0, write_all(self->fd[1], frame, FRAME_LEN - 1));
	EXPECT_EQ(0, poll_for(self->fd[0], POLLIN | POLLOUT, 50));
	ASSERT_EQ(0, write_all(self->fd[1], frame + FRAME_LEN - 1, 1));
	EXPECT_EQ(POLLOUT, poll_for(self->fd[0], POLLIN | POLLOUT, 20000));
	EXPECT_EQ(0, so_error(self->fd[0]));
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(self->fd[0]).state);
}

/* Messages in MSG_ERRQUEUE do not affect startup. */
TEST_F(tcp, error_queue_does_not_make_startup_writable)
{
	int stamps = SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE |
		     SOF_TIMESTAMPING_OPT_TSONLY | SOF_TIMESTAMPING_OPT_ID;
	u8 frame[FRAME_LEN];

	ASSERT_EQ(0, setsockopt(self->fd[0], SOL_SOCKET, SO_TIMESTAMPING,
				&stamps, sizeof(stamps)));
	ASSERT_TRUE(text_goes(self->fd[0], self->fd[1]));
	ASSERT_EQ(POLLERR, poll_for(self->fd[0], 0, 20000));
	/* The request causes no message. */
	stamps = 0;
	ASSERT_EQ(0, setsockopt(self->fd[0], SOL_SOCKET, SO_TIMESTAMPING,
				&stamps, sizeof(stamps)));

	set_nonblock(self->fd[0]);
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(-1, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
	ASSERT_EQ(EINPROGRESS, errno);
	EXPECT_EQ(POLLERR, poll_for(self->fd[0], POLLIN | POLLOUT, 0));
	EXPECT_EQ(0, so_error(self->fd[0]));
	EXPECT_EQ(-1, send(self->fd[0], "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EAGAIN, errno);

	ASSERT_EQ(0, recv(self->fd[0], frame, sizeof(frame), MSG_ERRQUEUE));
	EXPECT_EQ(0, poll_for(self->fd[0], POLLIN | POLLOUT, 0));
	frame_put(frame, true, 0x40, 1, 0);
	ASSERT_EQ(0, write_all(self->fd[1], frame, FRAME_LEN));
	EXPECT_EQ(POLLOUT, poll_for(self->fd[0], POLLIN | POLLOUT, 20000));
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(self->fd[0]).state);
}

/* RFC 5044 section 7.1.1, figure 8, octet by octet. */
TEST_F(tcp, startup_frames_are_as_in_figure_8)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 1,
		.flags = MPA_START_MARKERS, .private_len = 3,
		.private_data = "abc",
	};
	u8 expected[23], seen[64];

	set_nonblock(self->fd[0]);
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(-1, setsockopt(self->fd[0], SOL_MPA, MPA_START, &start,
				 sizeof(start)));
	ASSERT_EQ(EINPROGRESS, errno);
	frame_put(expected, false, 0xc0, 1, 3);
	memcpy(expected + 20, "abc", 3);
	ASSERT_EQ(23, read_all(self->fd[1], seen, 23));
	EXPECT_EQ(0, memcmp(expected, seen, 23));
	EXPECT_EQ(-1, recv(self->fd[1], seen, 1, MSG_DONTWAIT));
}

TEST_F(tcp, responder_answers_by_itself)
{
	u8 frame[FRAME_LEN], expected[FRAME_LEN];

	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_RESPONDER, 0));
	/* R and the reserved bits are ignored in a request. */
	frame_put(frame, false, 0x40 | 0x3f, 1, 0);
	ASSERT_EQ(0, write_all(self->fd[1], frame, FRAME_LEN));
	ASSERT_EQ(FRAME_LEN, read_all(self->fd[1], frame, FRAME_LEN));
	frame_put(expected, true, 0x40, 1, 0);
	EXPECT_EQ(0, memcmp(expected, frame, FRAME_LEN));
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(self->fd[0]).state);
}

TEST_F(tcp, private_data_goes_both_ways)
{
	struct mpa_start start = { .revision = 1 };
	struct mpa_peer peer;
	socklen_t len = sizeof(peer);

	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_attach(self->fd[1]));
	EXPECT_EQ(-1, getsockopt(self->fd[0], SOL_MPA, MPA_PEER, &peer, &len));
	EXPECT_EQ(ENODATA, errno);

	start.role = MPA_ROLE_RESPONDER;
	start.private_len = 512;
	record_fill(start.private_data, 512);
	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_MPA, MPA_START, &start,
				sizeof(start)));
	start.role = MPA_ROLE_INITIATOR;
	start.private_len = 77;
	start.flags = MPA_START_MARKERS;
	record_fill(start.private_data, 77);
	ASSERT_EQ(0, setsockopt(self->fd[0], SOL_MPA, MPA_START, &start,
				sizeof(start)));

	len = sizeof(peer);
	ASSERT_EQ(0, getsockopt(self->fd[0], SOL_MPA, MPA_PEER, &peer, &len));
	EXPECT_EQ(sizeof(peer), len);
	EXPECT_EQ(1, peer.revision);
	EXPECT_EQ(MPA_PEER_CRC, peer.flags);
	EXPECT_EQ(512, peer.private_len);
	EXPECT_TRUE(record_good(peer.private_data, 512));
	ASSERT_EQ(0, getsockopt(self->fd[1], SOL_MPA, MPA_PEER, &peer, &len));
	EXPECT_EQ(MPA_PEER_CRC | MPA_PEER_MARKERS, peer.flags);
	EXPECT_EQ(77, peer.private_len);
	EXPECT_TRUE(record_good(peer.private_data, 77));
}

/* RFC 5044 section 7.1.2 rule 3: after a rejection TCP stays open, without MPA. */
TEST_F(tcp, rejected_socket_is_ordinary_tcp_again)
{
	u8 frame[FRAME_LEN + 2], buf[16];
	struct mpa_peer peer;
	socklen_t len = sizeof(peer);

	set_nonblock(self->fd[0]);
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0);
	ASSERT_EQ(FRAME_LEN, read_all(self->fd[1], frame, FRAME_LEN));
	frame_put(frame, true, 0x60, 1, 2);
	memcpy(frame + FRAME_LEN, "no", 2);
	ASSERT_EQ(0, write_all(self->fd[1], frame, sizeof(frame)));
	ASSERT_EQ(0, write_all(self->fd[1], "plain", 5));
	EXPECT_NE(0, POLLERR & poll_for(self->fd[0], POLLOUT, 20000));
	EXPECT_EQ(ECONNREFUSED, so_error(self->fd[0]));
	EXPECT_EQ(0, so_error(self->fd[0]));
	EXPECT_EQ(MPA_STATE_REJECTED, mpa_info(self->fd[0]).state);
	ASSERT_EQ(0, getsockopt(self->fd[0], SOL_MPA, MPA_PEER, &peer, &len));
	EXPECT_EQ(2, peer.private_len);
	EXPECT_EQ(0, memcmp(peer.private_data, "no", 2));

	EXPECT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
	EXPECT_EQ(5, recv(self->fd[0], buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "plain", 5));
	EXPECT_EQ(4, send(self->fd[0], "back", 4, 0));
	EXPECT_EQ(4, recv(self->fd[1], buf, sizeof(buf), 0));
}

TEST_F(tcp, blocking_start_returns_the_rejection)
{
	u8 frame[FRAME_LEN];
	pid_t pid = fork();

	if (!pid) {
		read_all(self->fd[1], frame, FRAME_LEN);
		frame_put(frame, true, 0x60, 1, 0);
		_exit(write_all(self->fd[1], frame, FRAME_LEN) ? 1 : 0);
	}
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	EXPECT_EQ(-1, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(ECONNREFUSED, errno);
	EXPECT_EQ(0, so_error(self->fd[0]));
	waitpid(pid, NULL, 0);
}

/* Section 7.1.2 rules 2, 3 and 5: refuse a peer that does not use MPA. */
TEST_F(tcp, other_protocol_is_refused)
{
	static const char * const strangers[] = {
		"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01", "MPA ID Rep Frame",
		"MPA ID Req FramE", "M\n",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(strangers); i++) {
		int fd[2];
		char c;

		ASSERT_EQ(0, tcp_pair(variant->family, fd));
		ASSERT_EQ(0, mpa_attach(fd[0]));
		ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_RESPONDER, 0));
		ASSERT_EQ(0, write_all(fd[1], strangers[i],
				       strlen(strangers[i])));
		EXPECT_NE(0, POLLERR & poll_for(fd[0], POLLIN, 20000)) {
			TH_LOG("peer %u", i);
		}
		EXPECT_EQ(-1, recv(fd[0], &c, 1, 0));
		EXPECT_EQ(EPROTO, errno);
		EXPECT_EQ(MPA_STATE_FAILED, mpa_info(fd[0]).state);
		EXPECT_EQ(MPA_ERR_STARTUP, mpa_info(fd[0]).error);
		EXPECT_EQ(-1, recv(fd[1], &c, 1, 0));
		EXPECT_EQ(ECONNRESET, errno);
		close(fd[0]);
		close(fd[1]);
	}
}

/*
 * An invalid request or a rejection ends startup during poll(2). poll(2) must report
 * the failure, not only POLLIN for the frame's octets, which are consumed.
 */
TEST_F(tcp, poll_reports_the_failure_with_the_octets)
{
	u8 frame[FRAME_LEN];
	unsigned int i;

	for (i = 0; i < 200; i++) {
		int fd[2], seen;

		ASSERT_EQ(0, tcp_pair(variant->family, fd));
		ASSERT_EQ(0, mpa_attach(fd[0]));
		set_nonblock(fd[0]);
		if (i % 2) {
			ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_RESPONDER, 0));
			memset(frame, 'x', sizeof(frame));
		} else {
			EXPECT_EQ(-1, mpa_start(fd[0], MPA_ROLE_INITIATOR, 0));
			read_all(fd[1], frame, FRAME_LEN);
			frame_put(frame, true, 0x60, 1, 0);
		}
		ASSERT_EQ(0, write_all(fd[1], frame, sizeof(frame)));
		do {
			seen = poll_for(fd[0], POLLIN, 0);
		} while (!seen);
		EXPECT_NE(0, seen & POLLERR) {
			TH_LOG("round %u: 0x%x", i, seen);
		}
		close(fd[0]);
		close(fd[1]);
	}
}

/* Section 7.1.1: revisions, and wrong values of PD_Length. */
TEST_F(tcp, malformed_request_closes_tcp)
{
	struct {
		u8 flags, revision;
		u16 pd_length;
		size_t sent;
	} bad[] = {
		{ 0x40, 0, 0, 0 }, { 0x40, 9, 0, 0 },
		{ 0x40, 1, 513, 0 }, { 0x40, 1, 65535, 0 },
		{ 0x40, 1, 0, 1 }, { 0x40, 1, 8, 9 },
	};
	u8 frame[FRAME_LEN + 16] = {};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		int fd[2];
		char c;

		ASSERT_EQ(0, tcp_pair(variant->family, fd));
		ASSERT_EQ(0, mpa_attach(fd[0]));
		ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_RESPONDER, 0));
		frame_put(frame, false, bad[i].flags, bad[i].revision,
			  bad[i].pd_length);
		ASSERT_EQ(0, write_all(fd[1], frame, FRAME_LEN + bad[i].sent));
		EXPECT_EQ(-1, recv(fd[0], &c, 1, 0));
		EXPECT_EQ(EPROTO, errno) {
			TH_LOG("malformed request %u", i);
		}
		EXPECT_EQ(-1, recv(fd[1], &c, 1, 0));
		close(fd[0]);
		close(fd[1]);
	}
}

TEST_F(tcp, end_of_stream_ends_startup)
{
	char c;

	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_RESPONDER, 0));
	shutdown(self->fd[1], SHUT_WR);
	EXPECT_EQ(-1, recv(self->fd[0], &c, 1, 0));
	EXPECT_EQ(ECONNRESET, errno);
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd[0]).error);
}

TEST_F(tcp, end_of_stream_inside_a_frame_is_malformed)
{
	char c;

	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_RESPONDER, 0));
	ASSERT_EQ(0, write_all(self->fd[1], "MPA ID Req", 10));
	shutdown(self->fd[1], SHUT_WR);
	EXPECT_EQ(-1, recv(self->fd[0], &c, 1, 0));
	EXPECT_EQ(EPROTO, errno);
	EXPECT_EQ(MPA_ERR_STARTUP, mpa_info(self->fd[0]).error);
}

TEST_F(tcp, reset_ends_a_blocking_start)
{
	struct linger reset = { .l_onoff = 1 };
	pid_t pid = fork();

	if (!pid) {
		u8 frame[FRAME_LEN];

		close(self->fd[0]);
		read_all(self->fd[1], frame, FRAME_LEN);
		setsockopt(self->fd[1], SOL_SOCKET, SO_LINGER, &reset,
			   sizeof(reset));
		_exit(0);
	}
	close(self->fd[1]);
	self->fd[1] = -1;
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	EXPECT_EQ(-1, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(ECONNRESET, errno);
	EXPECT_EQ(MPA_STATE_FAILED, mpa_info(self->fd[0]).state);
	waitpid(pid, NULL, 0);
}

static void on_alarm(int sig)
{
}

/* When MPA_START is restarted after a signal, it continues to wait, like connect(2). */
TEST_F(tcp, blocking_start_continues_after_a_signal)
{
	struct itimerval timer = { .it_value.tv_usec = 20000 };
	struct sigaction act = { .sa_handler = on_alarm,
				 .sa_flags = SA_RESTART };
	pid_t pid = fork();
	int ticks = 0;

	if (!pid) {
		u8 frame[FRAME_LEN];

		/* The call returns long after the timer expires. */
		close(self->fd[0]);
		read_all(self->fd[1], frame, FRAME_LEN);
		while (ticks++ < 10)
			poll(NULL, 0, 10);
		frame_put(frame, true, 0x40, 1, 0);
		_exit(write_all(self->fd[1], frame, FRAME_LEN) ? 1 : 0);
	}
	sigaction(SIGALRM, &act, NULL);
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	setitimer(ITIMER_REAL, &timer, NULL);
	EXPECT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, 0)) {
		TH_LOG("%s", strerror(errno));
	}
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(self->fd[0]).state);
	waitpid(pid, NULL, 0);
}

/* Octets that bypass MPA would have neither framing nor CRC. */
TEST_F(tcp, detours_are_closed)
{
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	struct tcp_zerocopy_receive zc = {};
	socklen_t len = sizeof(zc);
	int lowat = 100;

	ASSERT_EQ(0, mpa_started_pair(self->fd, 0, 0));
	EXPECT_EQ(-1, connect(self->fd[0], &unspec, sizeof(unspec)));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, getsockopt(self->fd[0], SOL_TCP, TCP_ZEROCOPY_RECEIVE,
				 &zc, &len));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, setsockopt(self->fd[0], SOL_SOCKET, SO_RCVLOWAT, &lowat,
				 sizeof(lowat)));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, send(self->fd[0], "x", 1, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, recv(self->fd[0], &zc, 1, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
}

TEST_F(tcp, info_is_copied_as_far_as_there_is_room)
{
	struct mpa_info info = {}, room;
	socklen_t len = 8;

	ASSERT_EQ(0, mpa_started_pair(self->fd, MPA_START_MARKERS, 0));
	memset(&room, 0xa5, sizeof(room));
	ASSERT_EQ(0, getsockopt(self->fd[0], SOL_MPA, MPA_INFO, &room, &len));
	EXPECT_EQ(8, len);
	EXPECT_EQ(MPA_STATE_FULL, room.state);
	EXPECT_EQ(0xa5a5a5a5, room.emss);
	len = sizeof(info) + 100;
	ASSERT_EQ(0, getsockopt(self->fd[0], SOL_MPA, MPA_INFO, &info, &len));
	EXPECT_EQ(sizeof(info), len);
	EXPECT_EQ(1, info.revision);
	EXPECT_EQ(MPA_ROLE_INITIATOR, info.role);
	EXPECT_EQ(MPA_INFO_CRC | MPA_INFO_RX_MARKERS | MPA_INFO_MAY_SEND,
		  info.flags);
	EXPECT_EQ(MPA_INFO_CRC | MPA_INFO_TX_MARKERS,
		  mpa_info(self->fd[1]).flags);
}

/* Section 4.5. */
TEST_F(tcp, mulpdu_follows_the_formulas)
{
	socklen_t len = sizeof(int);
	int mulpdu, mss = 1460;
	struct mpa_info info;
	int fd[2];

	ASSERT_EQ(0, mpa_started_pair(self->fd, MPA_START_MARKERS, 0));
	ASSERT_EQ(0, getsockopt(self->fd[0], SOL_MPA, MPA_MULPDU, &mulpdu,
				&len));
	info = mpa_info(self->fd[0]);
	EXPECT_EQ(info.mulpdu, mulpdu);
	mss = info.emss - (6 + info.emss % 4);
	EXPECT_EQ(mss > MPA_ULPDU_MAX ? MPA_ULPDU_MAX : mss, mulpdu);

	ASSERT_EQ(0, tcp_pair(variant->family, fd));
	mss = 1300;
	ASSERT_EQ(0, setsockopt(fd[1], SOL_TCP, TCP_MAXSEG, &mss, sizeof(mss)));
	ASSERT_EQ(0, mpa_started_pair(fd, MPA_START_MARKERS, 0));
	send(fd[0], "x", 1, 0);
	recv(fd[1], &mss, 1, 0);
	send(fd[1], "x", 1, 0);
	info = mpa_info(fd[1]);
	EXPECT_EQ(info.emss - (6 + 4 * ((info.emss + 511) / 512) +
			       info.emss % 4), info.mulpdu);
	close(fd[0]);
	close(fd[1]);
}

TEST_F(tcp, close_in_every_state)
{
	unsigned int state, order;
	u8 frame[FRAME_LEN];

	frame_put(frame, false, 0x40, 1, 0);
	for (state = 0; state < 8; state++) {
		for (order = 0; order < 2; order++) {
			int fd[2];

			ASSERT_EQ(0, tcp_pair(variant->family, fd));
			set_nonblock(fd[0]);
			ASSERT_EQ(0, mpa_attach(fd[0]));
			switch (state) {
			case 0:
				break;
			case 1:
				mpa_start(fd[0], MPA_ROLE_INITIATOR, 0);
				break;
			case 2:
				mpa_start(fd[0], MPA_ROLE_RESPONDER, 0);
				break;
			case 3: /* send half of a request */
				mpa_start(fd[0], MPA_ROLE_RESPONDER, 0);
				write_all(fd[1], frame, 10);
				break;
			case 4: /* send a request, which may or may not be answered */
				mpa_start(fd[0], MPA_ROLE_RESPONDER, 0);
				write_all(fd[1], frame, FRAME_LEN);
				break;
			default:
				fcntl(fd[0], F_SETFL, 0);
				ASSERT_EQ(0, mpa_attach(fd[1]));
				mpa_start(fd[1], MPA_ROLE_RESPONDER, 0);
				ASSERT_EQ(0, mpa_start(fd[0],
						       MPA_ROLE_INITIATOR, 0));
				if (state == 6) /* leave it unread */
					send(fd[0], frame, 20, 0);
				if (state == 7) /* leave a ULPDU open */
					send(fd[0], frame, 20, MSG_MORE);
				break;
			}
			close(fd[order]);
			close(fd[!order]);
		}
	}
}

TEST_HARNESS_MAIN
