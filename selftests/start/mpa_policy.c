// SPDX-License-Identifier: GPL-2.0
/*
 * Startup beyond its frames: the user's decisions (MPA_START_MANUAL), direct start, and
 * the policy of a network namespace's administrator.
 */

#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_pair.h"

/* ---- RFC 5044 section 7.1.2 rules 2, 3, 6: deciding by hand ---- */

TEST_F(pair, responder_decides_by_hand)
{
	u8 frame[FRAME_LEN + 3], reply[FRAME_LEN + 2];
	struct mpa_peer peer;

	frame_put(frame, false, 0xc0, 1, 3);
	memcpy(frame + FRAME_LEN, "who", 3);
	self->start[1].flags = MPA_START_MANUAL;
	self->start[1].private_len = 2;
	memcpy(self->start[1].private_data, "me", 2);
	ASSERT_EQ(0, request(self, frame, sizeof(frame)));
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN | POLLOUT, 20000));
	EXPECT_EQ(MPA_STATE_REQUESTED, mpa_info(self->fd[1]).state);
	peer = mpa_peer(self->fd[1]);
	EXPECT_EQ(1, peer.revision);
	EXPECT_EQ(MPA_PEER_MARKERS | MPA_PEER_CRC, peer.flags);
	EXPECT_EQ(3, peer.private_len);
	EXPECT_EQ(0, memcmp(peer.private_data, "who", 3));
	EXPECT_EQ(-1, recv(self->fd[0], reply, 1, MSG_DONTWAIT));

	EXPECT_EQ(0, decide(self->fd[1], MPA_ACCEPT));
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(self->fd[1]).state);
	ASSERT_EQ(sizeof(reply), read_all(self->fd[0], reply, sizeof(reply)));
	frame_put(frame, true, 0x40, 1, 2);
	EXPECT_EQ(0, memcmp(reply, frame, FRAME_LEN));
	EXPECT_EQ(0, memcmp(reply + FRAME_LEN, "me", 2));
	/* Rule 4 holds for this responder, too. */
	EXPECT_EQ(0, poll_for(self->fd[1], POLLIN | POLLOUT, 0));
	EXPECT_EQ(0, mpa_info(self->fd[1]).flags & MPA_INFO_MAY_SEND);
}

TEST_F(pair, reply_by_hand_takes_its_own_private_data)
{
	const size_t private_at = offsetof(struct mpa_reply, private_data);
	const size_t least = offsetof(struct mpa_reply, reserved2);
	struct {
		struct mpa_reply reply;
		u8 more[8];
	} big = { .reply = { .private_len = 512 } };
	const struct { u16 private_len; size_t len; } fits[] = {
		{ 0, least }, { 0, sizeof(big) }, { 1, private_at + 1 },
		{ 512, private_at + 512 }, { 512, sizeof(big) },
	};
	unsigned int i, reject;

	self->start[1].flags = MPA_START_MANUAL;
	self->start[1].private_len = 9;
	record_fill(big.reply.private_data, 512);
	for (i = 0; i < ARRAY_SIZE(fits); i++) {
		for (reject = 0; reject < 2; reject++) {
			u16 len = fits[i].private_len;
			u8 frame[FRAME_LEN];

			frame_put(frame, false, 0x40, 1, 0);
			ASSERT_EQ(0, request(self, frame, FRAME_LEN));
			ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
			big.reply.private_len = len;
			ASSERT_EQ(0, decide_as(self->fd[1], reject ?
					       MPA_REJECT : MPA_ACCEPT,
					       &big, fits[i].len));
			ASSERT_EQ(FRAME_LEN + len,
				  read_all(self->fd[0], self->buf,
					   FRAME_LEN + len));
			frame_put(frame, true, reject ? 0x60 : 0x40, 1, len);
			EXPECT_EQ(0, memcmp(self->buf, frame, FRAME_LEN));
			EXPECT_EQ(0, memcmp(self->buf + FRAME_LEN,
					    big.reply.private_data, len));
		}
	}
}

TEST_F(pair, wrong_reply_changes_nothing)
{
	const size_t private_at = offsetof(struct mpa_reply, private_data);
	const size_t least = offsetof(struct mpa_reply, reserved2);
	struct {
		struct mpa_reply reply;
		u8 more[8];
	} big = {};
	unsigned int i;
	u8 frame[32];
	int fd;

	self->start[1].revision = 2;
	self->start[1].flags = MPA_START_MANUAL;
	ASSERT_EQ(0, request(self, frame, enhanced_frame(frame, false, 0x40,
							 0, 1, 1)));
	fd = self->fd[1];
	ASSERT_EQ(POLLIN, poll_for(fd, POLLIN, 20000));
	for (i = 0; i < 2; i++) {
		int option = i ? MPA_REJECT : MPA_ACCEPT;

#define REFUSED(err, field, value, len) do {				\
	big.field = value;						\
	EXPECT_EQ(err, decide_as(fd, option, &big, len)) {		\
		TH_LOG("%s of %s, length %zu", #value, #field,		\
		       (size_t)(len));					\
	}								\
	big.field = 0;							\
} while (0)
		REFUSED(EINVAL, reply.ird, 0, 1);
		REFUSED(EINVAL, reply.ird, 0, least - 1);
		REFUSED(EINVAL, reply.ird, 0x4000, sizeof(big.reply));
		REFUSED(EINVAL, reply.ord, 0x4000, sizeof(big.reply));
		REFUSED(EINVAL, reply.reserved, 1, sizeof(big.reply));
		REFUSED(EINVAL, reply.reserved2[0], 1, sizeof(big.reply));
		REFUSED(EINVAL, reply.reserved2[5], 1, private_at);
		REFUSED(EINVAL, reply.private_len, 513, sizeof(big.reply));
		REFUSED(EINVAL, reply.private_len, 11, private_at + 10);
		/* IRD and ORD take four of the 512 octets. */
		REFUSED(EINVAL, reply.private_len, 509, sizeof(big.reply));
		REFUSED(E2BIG, more[7], 1, sizeof(big));
		REFUSED(E2BIG, reply.ird, 0, 1 << 20);
#undef REFUSED
		EXPECT_EQ(EFAULT, decide_as(fd, option, NULL,
					    sizeof(big.reply)));
	}
	EXPECT_EQ(MPA_STATE_REQUESTED, mpa_info(fd).state);
	big.reply.private_len = 508;
	EXPECT_EQ(0, decide_as(fd, MPA_ACCEPT, &big, sizeof(big)));
}

TEST_F(pair, decision_has_its_time)
{
	int options[] = { MPA_ACCEPT, MPA_REJECT };
	u8 frame[FRAME_LEN];
	unsigned int i;

	frame_put(frame, false, 0x40, 1, 0);
	for (i = 0; i < 2; i++) {
		int option = options[i];

		/* MPA is not started, or not manual, or not a responder. */
		ASSERT_EQ(0, fresh(self, true, true));
		EXPECT_EQ(EINVAL, decide(self->fd[1], option));
		self->start[1].flags = 0;
		ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
		EXPECT_EQ(EINVAL, decide(self->fd[1], option));
		ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
		EXPECT_EQ(EINVAL, decide(self->fd[0], option));
		EXPECT_EQ(EINVAL, decide(self->fd[1], option));

		/* Decide too early, in time, and again. */
		self->start[1].flags = MPA_START_MANUAL;
		ASSERT_EQ(0, request(self, frame, FRAME_LEN - 1));
		EXPECT_EQ(EAGAIN, decide(self->fd[1], option));
		EXPECT_EQ(0xff, mpa_peer(self->fd[1]).revision);
		ASSERT_EQ(0, write_all(self->fd[0], frame + FRAME_LEN - 1, 1));
		ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
		EXPECT_EQ(-1, mpa_start_as(self->fd[1], &self->start[1]));
		EXPECT_EQ(EALREADY, errno);
		EXPECT_EQ(0, decide(self->fd[1], option));
		EXPECT_EQ(EINVAL, decide(self->fd[1], MPA_ACCEPT));
		EXPECT_EQ(EINVAL, decide(self->fd[1], MPA_REJECT));

		/* Decide too late. */
		ASSERT_EQ(0, request(self, frame, FRAME_LEN));
		ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
		hang_up(self->fd[0]);
		self->fd[0] = -1;
		EXPECT_NE(0, POLLHUP & poll_for(self->fd[1], 0, 20000));
		EXPECT_EQ(ENOTCONN, decide(self->fd[1], option));
		EXPECT_EQ(ECONNRESET, so_error(self->fd[1]));
		EXPECT_EQ(MPA_STATE_FAILED, mpa_info(self->fd[1]).state);
		EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd[1]).error);
	}
}

/* Before the decision calls for records wait, and do not fail. */
TEST_F(pair, reader_and_writer_wait_for_the_decision)
{
	struct peer peer = {};
	pid_t reader, writer;
	u8 frame[FRAME_LEN];
	int how;

	frame_put(frame, false, 0x40, 1, 0);
	self->start[1].flags = MPA_START_MANUAL;
	ASSERT_EQ(0, request(self, frame, 1));
	reader = fork();
	if (!reader)
		_exit(recv(self->fd[1], self->buf, 100, 0) == 10 ? 0 : errno);
	writer = fork();
	if (!writer)
		_exit(send(self->fd[1], "word", 4, MSG_NOSIGNAL) == 4 ? 0 :
									errno);
	ASSERT_EQ(0, write_all(self->fd[0], frame + 1, FRAME_LEN - 1));
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_EQ(-1, recv(self->fd[1], self->buf, 1, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, send(self->fd[1], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, poll_for(self->fd[0], POLLIN, 30));
	ASSERT_EQ(0, decide(self->fd[1], MPA_ACCEPT));
	ASSERT_EQ(FRAME_LEN, read_all(self->fd[0], frame, FRAME_LEN));
	peer.fd = self->fd[0];
	ASSERT_EQ(0, peer_send_record(&peer, 10));
	ASSERT_EQ(12, read_all(self->fd[0], self->buf, 12));
	EXPECT_EQ(0, memcmp(self->buf, "\0\4word", 6));
	ASSERT_EQ(reader, waitpid(reader, &how, 0));
	EXPECT_EQ(0, how);
	ASSERT_EQ(writer, waitpid(writer, &how, 0));
	EXPECT_EQ(0, how);
}

/* The timeout limits the peer, not the user's decision. */
TEST_F(pair, decision_may_take_longer_than_startup)
{
	u8 frame[FRAME_LEN];

	frame_put(frame, false, 0x40, 1, 0);
	self->start[1].flags = MPA_START_MANUAL;
	self->start[1].timeout_ms = 3000;
	ASSERT_EQ(0, request(self, frame, FRAME_LEN));
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_EQ(0, poll_for(self->fd[1], POLLOUT, 3200));
	EXPECT_EQ(0, decide(self->fd[1], MPA_ACCEPT));
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(self->fd[1]).state);
}

/* Rule 3: both ends return to streaming mode, and may start again. */
TEST_F(pair, rejection_leaves_two_ordinary_sockets)
{
	const struct mpa_reply no = {
		.private_len = 2, .private_data = "no",
	};
	unsigned int round;

	self->start[1].flags = MPA_START_MANUAL;
	ASSERT_EQ(0, fresh(self, true, true));
	for (round = 0; round < 3; round++) {
		struct mpa_peer peer;

		ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
		set_nonblock(self->fd[0]);
		ASSERT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
		ASSERT_EQ(EINPROGRESS, errno);
		set_block(self->fd[0]);
		ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
		ASSERT_EQ(0, decide_as(self->fd[1], MPA_REJECT, &no,
				       sizeof(no)));
		EXPECT_EQ(MPA_STATE_REJECTED, mpa_info(self->fd[1]).state);
		EXPECT_NE(0, POLLERR & poll_for(self->fd[0], POLLIN, 20000));
		EXPECT_EQ(ECONNREFUSED, so_error(self->fd[0]));
		EXPECT_EQ(MPA_STATE_REJECTED, mpa_info(self->fd[0]).state);
		peer = mpa_peer(self->fd[0]);
		EXPECT_EQ(MPA_PEER_REJECTED | MPA_PEER_CRC, peer.flags);
		EXPECT_EQ(2, peer.private_len);
		EXPECT_EQ(0, memcmp(peer.private_data, "no", 2));

		EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
		EXPECT_TRUE(text_goes(self->fd[1], self->fd[0]));
	}
	self->start[1].flags = 0;
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_TRUE(records_go(self));
}

/* Streaming data after a rejection is the user's. mpa_manners has other cases. */
TEST_F(pair, data_after_a_rejection_is_streaming_data)
{
	u8 frame[FRAME_LEN + 5], buf[8];

	frame_put(frame, false, 0x40, 1, 0);
	self->start[1].flags = MPA_START_MANUAL;
	ASSERT_EQ(0, request(self, frame, FRAME_LEN));
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_EQ(0, decide(self->fd[1], MPA_REJECT));
	ASSERT_EQ(0, write_all(self->fd[0], "later", 5));
	EXPECT_EQ(5, recv(self->fd[1], buf, sizeof(buf), 0));

	ASSERT_LT(0, ask(self));
	frame_put(frame, true, 0x60, 1, 0);
	memcpy(frame + FRAME_LEN, "other", 5);
	EXPECT_EQ(ECONNREFUSED, answer(self, frame, sizeof(frame)));
	EXPECT_EQ(5, recv(self->fd[0], buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "other", 5));
}

/* ---- what MPA_START refuses ---- */

TEST_F(pair, start_that_makes_no_sense_is_refused)
{
	const u8 initiator = MPA_ROLE_INITIATOR, direct = MPA_ROLE_DIRECT;
	const u8 responder = MPA_ROLE_RESPONDER;
	const u32 enhanced = MPA_START_ENHANCED;
	const struct mpa_start bad[] = {
		{ initiator, 1, 0, enhanced },
		{ initiator, 0, 0, enhanced },
		{ initiator, 2, 0, A | B },
		{ initiator, 2, 0, enhanced | A },
		{ initiator, 2, 0, enhanced | B },
		{ initiator, 2, 0, B },
		{ initiator, 2, 509, enhanced },
		{ initiator, 2, 513, 0 },
		{ initiator, 2, 0, enhanced, 0x4000, 0 },
		{ initiator, 2, 0, enhanced, 0, 0x4000 },
		{ initiator, 2, 0, 0, 1, 0 },
		{ initiator, 1, 0, 0, 0, 1 },
		{ initiator, 1, 0, MPA_START_TX_MARKERS },
		{ initiator, 1, 0, MPA_START_TX_NO_CRC },
		{ responder, 1, 0, 0, 1, 0 },
		{ responder, 1, 0, B },
		{ responder, 2, 0, enhanced },
		{ responder, 2, 509, 0 },
		{ responder, 2, 0, A },
		{ responder, 2, 0, MPA_START_TX_MARKERS },
		{ responder, 3, 0, 0 },
		{ direct, 1, 1, 0 },
		{ direct, 1, 0, 0, 0, 0, 1 },
		{ direct, 1, 0, MPA_START_MANUAL },
		{ direct, 1, 0, MPA_START_PERMISSIVE },
		{ direct, 2, 0, enhanced },
		{ direct, 1, 0, 0, 1, 1 },
		{ direct, 2, 0, 0, 1, 0 },
		{ 4, 1, 0, 0 },
	};
	unsigned int i;

	ASSERT_EQ(0, fresh(self, true, false));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-1, mpa_start_as(self->fd[0], &bad[i])) {
			TH_LOG("case %u", i);
		}
		EXPECT_EQ(EINVAL, errno);
	}
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(self->fd[0]).state);
}

/* ---- direct start ---- */

TEST_F(pair, direct_start_has_each_direction_by_itself)
{
	unsigned int i;

	ASSERT_EQ(0, sysctl_put("crc_optional", 1));
	for (i = 0; i < 16; i++) {
		const struct mpa_start start[2] = { {
			.role = MPA_ROLE_DIRECT, .revision = 1,
			.flags = (i & 1 ? MPA_START_TX_MARKERS : 0) |
				 (i & 2 ? MPA_START_MARKERS : 0) |
				 (i & 4 ? MPA_START_TX_NO_CRC : 0) |
				 (i & 8 ? MPA_START_NO_CRC : 0),
		}, {
			.role = MPA_ROLE_DIRECT, .revision = 1,
			.flags = (i & 1 ? MPA_START_MARKERS : 0) |
				 (i & 2 ? MPA_START_TX_MARKERS : 0) |
				 (i & 4 ? MPA_START_NO_CRC : 0) |
				 (i & 8 ? MPA_START_TX_NO_CRC : 0),
		} };
		u32 flags = MPA_INFO_MAY_SEND |
			    (i & 1 ? MPA_INFO_TX_MARKERS : 0) |
			    (i & 2 ? MPA_INFO_RX_MARKERS : 0) |
			    (i & 4 ? 0 : MPA_INFO_TX_CRC) |
			    (i & 8 ? 0 : MPA_INFO_RX_CRC);

		ASSERT_EQ(0, fresh(self, true, true));
		ASSERT_EQ(0, mpa_start_as(self->fd[0], &start[0]));
		ASSERT_EQ(0, mpa_start_as(self->fd[1], &start[1]));
		EXPECT_EQ(flags, mpa_info(self->fd[0]).flags);
		EXPECT_EQ(MPA_STATE_FULL, mpa_info(self->fd[0]).state);
		/* Either end may send first. */
		EXPECT_TRUE(record_goes(self->fd[1], self->fd[0], 1500));
		EXPECT_TRUE(record_goes(self->fd[0], self->fd[1], 1500));
		EXPECT_EQ(i & 1 ? 3 : 0, mpa_info(self->fd[0]).tx_markers);
		EXPECT_EQ(i & 2 ? 3 : 0, mpa_info(self->fd[0]).rx_markers);
	}
}

TEST_F(pair, direct_start_puts_nothing_on_the_wire)
{
	struct mpa_start start = {
		.role = MPA_ROLE_DIRECT, .flags = MPA_START_NO_CRC |
						  MPA_START_TX_NO_CRC,
	};
	struct peer peer = { .tx_markers = true };

	/* Revision 0 always has markers and CRCs. */
	ASSERT_EQ(0, sysctl_put("crc_optional", 1));
	ASSERT_EQ(0, fresh(self, true, false));
	peer.fd = self->fd[1];
	/* FPDUs may arrive before direct start. */
	ASSERT_EQ(0, peer_send_record(&peer, 700));
	ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &start));
	EXPECT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
	EXPECT_EQ(MPA_INFO_CRC | MPA_INFO_MAY_SEND | MPA_INFO_TX_MARKERS |
		  MPA_INFO_RX_MARKERS, mpa_info(self->fd[0]).flags);
	EXPECT_EQ(0, mpa_info(self->fd[0]).revision);
	EXPECT_EQ(MPA_ROLE_DIRECT, mpa_info(self->fd[0]).role);
	EXPECT_EQ(700, recv(self->fd[0], self->buf, sizeof(self->buf), 0));
	EXPECT_TRUE(record_good(self->buf, 700));
	EXPECT_EQ(-1, recv(self->fd[1], self->buf, 1, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &start));
	EXPECT_EQ(EISCONN, errno);
}

/* ---- section 7.1.1, C; section 4.4 (2a): the administrator decides ---- */

TEST_F(pair, crc_is_off_only_with_both_peers_and_the_administrator)
{
	unsigned int i;

	for (i = 0; i < 16; i++) {
		bool allowed = i & 1, want_none = i & 2, peer_c = i & 4;
		bool our_c = !(allowed && want_none), crc = our_c || peer_c;
		u8 frame[FRAME_LEN], seen[16], good[16];
		bool initiator = i & 8;
		struct peer peer = {};
		int fd;

		ASSERT_EQ(0, sysctl_put("crc_optional", allowed));
		self->start[0].flags = want_none ? MPA_START_NO_CRC : 0;
		self->start[1].flags = self->start[0].flags;
		frame_put(frame, initiator, peer_c ? 0x40 : 0, 1, 0);
		if (initiator) {
			ASSERT_EQ(FRAME_LEN, ask(self));
			EXPECT_EQ(our_c ? 0x40 : 0, self->buf[16]);
			ASSERT_EQ(0, answer(self, frame, FRAME_LEN));
			fd = self->fd[0];
			peer.fd = self->fd[1];
		} else {
			ASSERT_EQ(0, request(self, frame, FRAME_LEN));
			ASSERT_EQ(FRAME_LEN, read_all(self->fd[0], frame,
						      FRAME_LEN));
			/* siw decides by the reply alone whether to use CRCs. */
			EXPECT_EQ(crc ? 0x40 : 0, frame[16]);
			fd = self->fd[1];
			peer.fd = self->fd[0];
		}
		EXPECT_EQ(crc ? MPA_INFO_CRC : 0,
			  mpa_info(fd).flags & MPA_INFO_CRC) {
			TH_LOG("sysctl %u, NO_CRC %u, peer's C %u", allowed,
			       want_none, peer_c);
		}

		ASSERT_EQ(12, peer_fpdu(&peer, (const u8 *)"first", 5, good));
		ASSERT_EQ(0, write_all(peer.fd, good, 12));
		ASSERT_EQ(5, recv(fd, seen, sizeof(seen), 0));
		/* mpa sends this FPDU. */
		ASSERT_EQ(5, send(fd, "first", 5, MSG_NOSIGNAL));
		ASSERT_EQ(12, read_all(peer.fd, seen, 12));
		EXPECT_EQ(0, memcmp(seen, good, 8));
		EXPECT_EQ(0, memcmp(seen + 8, crc ? good + 8 :
				    (const u8 *)"\0\0\0\0", 4));
		/* "MUST be considered valid [...] regardless of its contents" */
		good[9] ^= 1;
		ASSERT_EQ(0, write_all(peer.fd, good, 12));
		if (crc) {
			EXPECT_EQ(-1, recv(fd, seen, sizeof(seen), 0));
			EXPECT_EQ(EBADMSG, errno);
		} else {
			EXPECT_EQ(5, recv(fd, seen, sizeof(seen), 0));
		}
	}
}

/* Only the administrator decides whether direct start may be without CRCs. */
TEST_F(pair, direct_start_keeps_crcs_without_the_administrator)
{
	struct mpa_start start = {
		.role = MPA_ROLE_DIRECT, .revision = 1,
		.flags = MPA_START_NO_CRC | MPA_START_TX_NO_CRC,
	};

	ASSERT_EQ(0, sysctl_put("crc_optional", 0));
	ASSERT_EQ(0, fresh(self, true, false));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &start));
	EXPECT_EQ(MPA_INFO_CRC | MPA_INFO_MAY_SEND,
		  mpa_info(self->fd[0]).flags);
}

/* ---- what the administrator of a namespace decides ---- */

/* Whether this number of connections is in startup. */
static bool startups_are(int expected)
{
	return statistic("MpaInStartup") == expected;
}

/* ---- net.mpa.markers ---- */

/* Return: the ends that request markers: 1: initiator, 2: responder. */
static int asks(struct _test_data_pair *self)
{
	u32 flags = mpa_info(self->fd[0]).flags;

	/* Both ends agree about both directions. */
	if (!!(flags & MPA_INFO_TX_MARKERS) !=
	    !!(mpa_info(self->fd[1]).flags & MPA_INFO_RX_MARKERS) ||
	    !!(flags & MPA_INFO_RX_MARKERS) !=
	    !!(mpa_info(self->fd[1]).flags & MPA_INFO_TX_MARKERS))
		return -1;
	return (flags & MPA_INFO_RX_MARKERS ? 1 : 0) |
	       (flags & MPA_INFO_TX_MARKERS ? 2 : 0);
}

TEST_F(pair, administrator_has_all_ask_for_markers)
{
	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(0, asks(self));
	ASSERT_EQ(0, sysctl_put("markers", 1));
	/* An existing connection does not change. */
	EXPECT_EQ(0, asks(self));
	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(3, asks(self));
	EXPECT_TRUE(records_go(self));
	EXPECT_LT(0, mpa_info(self->fd[0]).rx_markers);
	EXPECT_LT(0, mpa_info(self->fd[1]).rx_markers);
	ASSERT_EQ(0, sysctl_put("markers", 0));
	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(0, asks(self));
	self->start[1].flags = MPA_START_MARKERS;
	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(2, asks(self));
}

/* The sysctl applies to each later MPA_START. */
TEST_F(pair, markers_are_asked_for_by_who_starts_later)
{
	ASSERT_EQ(0, fresh(self, true, true));
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(0, sysctl_put("markers", 1));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(1, asks(self));
	ASSERT_EQ(0, fresh(self, true, true));
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(0, sysctl_put("markers", 0));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(2, asks(self));
}

/* Without startup frames there is no request for markers. */
TEST_F(pair, direct_start_asks_nobody_for_markers)
{
	ASSERT_EQ(0, sysctl_put("markers", 1));
	ASSERT_EQ(0, fresh(self, true, true));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
	ASSERT_EQ(0, mpa_start(self->fd[1], MPA_ROLE_DIRECT, 0));
	EXPECT_EQ(0, asks(self));
	EXPECT_TRUE(records_go(self));
}

/* Open a listener whose children start with these flags. Return: the socket, or -1. */
static int listener_of(unsigned int flags, struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*addr);

	*addr = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	if (mpa_attach(fd) || bind(fd, (struct sockaddr *)addr, len) ||
	    mpa_start(fd, MPA_ROLE_RESPONDER, flags) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)addr, &len))
		return -1;
	return fd;
}

/* Start a client, and a child of the listener. Return: 0 or -1. */
static int serve(struct _test_data_pair *self, int listener,
		 const struct sockaddr_in *addr)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
	self->fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	self->fd[1] = -1;
	if (connect(self->fd[0], (struct sockaddr *)addr, sizeof(*addr)))
		return -1;
	self->fd[1] = accept(listener, NULL, NULL);
	patience(self->fd[0], 20);
	patience(self->fd[1], 20);
	return self->fd[1] < 0 || mpa_attach(self->fd[0]) ||
	       mpa_start_as(self->fd[0], &self->start[0]) ? -1 : 0;
}

TEST_F(pair, listener_asks_for_markers_as_when_it_was_started)
{
	struct sockaddr_in before, after;
	int listener[2];

	listener[0] = listener_of(0, &before);
	ASSERT_LE(0, listener[0]);
	ASSERT_EQ(0, sysctl_put("markers", 1));
	listener[1] = listener_of(0, &after);
	ASSERT_LE(0, listener[1]);
	/* The client always requests markers. */
	ASSERT_EQ(0, serve(self, listener[0], &before));
	EXPECT_EQ(1, asks(self));
	ASSERT_EQ(0, serve(self, listener[1], &after));
	EXPECT_EQ(3, asks(self));
	EXPECT_TRUE(records_go(self));
	ASSERT_EQ(0, sysctl_put("markers", 0));
	ASSERT_EQ(0, serve(self, listener[0], &before));
	EXPECT_EQ(0, asks(self));
	ASSERT_EQ(0, serve(self, listener[1], &after));
	EXPECT_EQ(2, asks(self));
	close(listener[0]);
	close(listener[1]);
}

/* ---- net.mpa.place ---- */

static int place(int fd, int on)
{
	return setsockopt(fd, SOL_MPA, MPA_PLACE, &on, sizeof(on)) ? errno : 0;
}

static int places(int fd)
{
	socklen_t len = sizeof(int);
	int on = -1;

	getsockopt(fd, SOL_MPA, MPA_PLACE, &on, &len);
	return on;
}

TEST_F(pair, administrator_allows_no_placing)
{
	self->start[0].flags = MPA_START_MARKERS;
	self->start[1].flags = MPA_START_MARKERS;
	ASSERT_EQ(0, negotiate(self));
	ASSERT_EQ(0, place(self->fd[0], 1));
	ASSERT_EQ(0, sysctl_put("place", 0));
	EXPECT_EQ(EPERM, place(self->fd[1], 1));
	EXPECT_EQ(0, places(self->fd[1]));
	/* A socket keeps MPA_PLACE. */
	EXPECT_EQ(1, places(self->fd[0]));
	EXPECT_TRUE(records_go(self));
	EXPECT_EQ(0, place(self->fd[1], 0));
	EXPECT_EQ(0, place(self->fd[0], 0));
	EXPECT_EQ(EPERM, place(self->fd[0], 1));
	EXPECT_EQ(0, places(self->fd[0]));
	/* The error is the same without markers, and before Full Operation. */
	self->start[1].flags = 0;
	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(EPERM, place(self->fd[1], 1));
	ASSERT_EQ(0, request(self, NULL, 0));
	EXPECT_EQ(EPERM, place(self->fd[1], 1));
	ASSERT_EQ(0, sysctl_put("place", 1));
	EXPECT_EQ(EINVAL, place(self->fd[1], 1));
}

TEST_F(pair, children_keep_a_listeners_placing)
{
	struct sockaddr_in addr;
	int listener;

	listener = listener_of(MPA_START_MARKERS, &addr);
	ASSERT_LE(0, listener);
	ASSERT_EQ(0, place(listener, 1));
	ASSERT_EQ(0, serve(self, listener, &addr));
	EXPECT_EQ(1, places(self->fd[1]));
	ASSERT_EQ(0, sysctl_put("place", 0));
	EXPECT_EQ(1, places(self->fd[1]));
	ASSERT_EQ(0, serve(self, listener, &addr));
	EXPECT_EQ(1, places(self->fd[1]));
	EXPECT_TRUE(records_go(self));
	/* MPA_PLACE can be cleared, but not set again. */
	ASSERT_EQ(0, place(listener, 0));
	EXPECT_EQ(EPERM, place(listener, 1));
	ASSERT_EQ(0, serve(self, listener, &addr));
	EXPECT_EQ(0, places(self->fd[1]));
	EXPECT_EQ(EPERM, place(self->fd[1], 1));
	close(listener);
}

/* If the administrator enforces markers, MPA_PLACE can be set. */
TEST_F(pair, markers_of_the_administrator_do_for_placing)
{
	ASSERT_EQ(0, sysctl_put("markers", 1));
	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(0, place(self->fd[0], 1));
	EXPECT_EQ(0, place(self->fd[1], 1));
	EXPECT_TRUE(records_go(self));
}

/* ---- all of them ---- */

TEST_F(pair, sysctls_are_the_namespaces_own)
{
	EXPECT_EQ(0, sysctl_get("crc_optional"));
	EXPECT_EQ(10000, sysctl_get("startup_timeout_ms"));
	EXPECT_EQ(4096, sysctl_get("startup_max"));
	EXPECT_EQ(0, sysctl_get("markers"));
	EXPECT_EQ(1, sysctl_get("place"));
	EXPECT_EQ(-1, sysctl_put("markers", 2));
	EXPECT_EQ(-1, sysctl_put("place", 2));
	EXPECT_EQ(0, sysctl_put("markers", 1));
	EXPECT_EQ(0, sysctl_put("place", 0));
	EXPECT_EQ(-1, sysctl_put("crc_optional", 2));
	EXPECT_EQ(-1, sysctl_put("startup_timeout_ms", 0));
	EXPECT_EQ(-1, sysctl_put("startup_timeout_ms", 3600001));
	EXPECT_EQ(-1, sysctl_put("startup_max", -1));
	EXPECT_EQ(0, sysctl_put("crc_optional", 1));
	EXPECT_EQ(0, sysctl_put("startup_timeout_ms", 1));
	EXPECT_EQ(0, sysctl_put("startup_timeout_ms", 3600000));
	EXPECT_EQ(0, sysctl_put("startup_max", 0));
	ASSERT_EQ(0, own_netns());
	EXPECT_EQ(0, sysctl_get("markers"));
	EXPECT_EQ(1, sysctl_get("place"));
	EXPECT_EQ(0, sysctl_get("crc_optional"));
	EXPECT_EQ(10000, sysctl_get("startup_timeout_ms"));
	EXPECT_EQ(4096, sysctl_get("startup_max"));
}

TEST_F(pair, startups_are_counted_while_they_last)
{
	u8 frame[FRAME_LEN];
	int waits[2];

	ASSERT_EQ(0, tcp_pair(AF_INET, waits));
	ASSERT_EQ(0, mpa_attach(waits[0]));
	ASSERT_EQ(0, mpa_start_as(waits[0], &self->start[1]));
	EXPECT_TRUE(startups_are(1));

	/*
	 * Rejected sockets, those in Full Operation, failed ones, and those that wait
	 * for their user are not counted.
	 */
	self->start[1].flags = MPA_START_MANUAL;
	frame_put(frame, false, 0x40, 1, 0);
	ASSERT_EQ(0, write_all(waits[1], frame, FRAME_LEN));
	ASSERT_EQ(POLLIN, poll_for(waits[1], POLLIN, 20000));
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(waits[0]).state);
	EXPECT_TRUE(startups_are(0));

	ASSERT_EQ(0, request(self, frame, FRAME_LEN));
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	waits[0] = self->fd[1];
	waits[1] = self->fd[0];
	self->fd[0] = -1;
	self->fd[1] = -1;
	EXPECT_TRUE(startups_are(0));
	EXPECT_EQ(MPA_STATE_REQUESTED, mpa_info(waits[0]).state);

	self->start[1].timeout_ms = 20;
	ASSERT_EQ(0, fresh(self, true, true));
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	EXPECT_NE(0, POLLERR & poll_for(self->fd[1], 0, 20000));
	waits[0] = self->fd[1];
	self->fd[1] = -1;
	EXPECT_TRUE(startups_are(0));
	EXPECT_EQ(MPA_STATE_FAILED, mpa_info(waits[0]).state);
}

/* Return: KiB in the slab caches of contexts, requests and sockets. */
static long slab_kb(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	long kb = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "SUnreclaim: %ld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

/* KASAN keeps freed memory for a long time; that kernel detects leaks itself. */
static bool freed_memory_is_kept(void)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	bool kept = false;
	char line[256];

	while (f && !kept && fgets(line, sizeof(line), f))
		kept = strstr(line, " kasan_quarantine_put");
	if (f)
		fclose(f);
	return kept;
}

#define HALF_OPEN	2000

/* Connect to a listener and send nothing, or sometimes a part of a request. */
static int half_open(int *fd, int count, const struct mpa_start *start)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listener = socket(AF_INET, SOCK_STREAM, 0), i;
	socklen_t len = sizeof(addr);
	u8 frame[FRAME_LEN];

	frame_put(frame, false, 0x40, 1, 512);
	if (bind(listener, (void *)&addr, len) || listen(listener, 64) ||
	    getsockname(listener, (void *)&addr, &len))
		return -1;
	for (i = 0; i < count; i++) {
		fd[2 * i] = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fd[2 * i], (void *)&addr, len))
			return -1;
		fd[2 * i + 1] = accept(listener, NULL, NULL);
		/*
		 * Attach MPA before the timeout begins: on a busy machine it may end at
		 * once.
		 */
		if (fd[2 * i + 1] < 0 || mpa_attach(fd[2 * i + 1]) ||
		    (i % 8 == 0 &&
		     write_all(fd[2 * i], frame, i / 8 % FRAME_LEN + 1)) ||
		    mpa_start_as(fd[2 * i + 1], start))
			return -1;
	}
	close(listener);
	return 0;
}

/* Section 7.1.2 rule 10 */
TEST_F_TIMEOUT(pair, ten_thousand_half_open_startups_leave_nothing, 200)
{
	struct rlimit files = { 2 * HALF_OPEN + 64, 2 * HALF_OPEN + 64 };
	long before = 0, peak = 0, after, begun;
	static int fd[2 * HALF_OPEN];
	int batch, i;

	if (setrlimit(RLIMIT_NOFILE, &files))
		SKIP(return, "needs %d files: raise the hard limit (ulimit -Hn)",
		     2 * HALF_OPEN + 64);
	ASSERT_EQ(0, sysctl_put("startup_max", HALF_OPEN));
	self->start[1].timeout_ms = 600000;
	for (batch = 0; batch < 5; batch++) {
		ASSERT_EQ(0, half_open(fd, HALF_OPEN, &self->start[1])) {
			TH_LOG("batch %d: %s", batch, strerror(errno));
		}
		if (slab_kb() > peak)
			peak = slab_kb();
		EXPECT_EQ(MPA_STATE_STARTUP, mpa_info(fd[1]).state);
		EXPECT_TRUE(startups_are(HALF_OPEN));
		for (i = 0; i < 2 * HALF_OPEN; i++)
			hang_up(fd[i]);
		/* The kernel keeps some memory after the first batch. */
		if (!batch)
			before = slab_kb();
	}
	EXPECT_TRUE(startups_are(0));

	if (freed_memory_is_kept())
		return;
	/* Contexts are freed some grace periods later. */
	begun = now_ms();
	do
		after = slab_kb();
	while (after > before + (peak - before) / 10 &&
	       now_ms() - begun < 30000 && poll(NULL, 0, 20) == 0);
	EXPECT_LT(before, peak);
	EXPECT_LE(after, before + (peak - before) / 10) {
		TH_LOG("slabs: %ld kB after the first batch, %ld kB at most, %ld kB now",
		       before, peak, after);
	}
}

TEST_F(pair, many_startups_time_out_together)
{
	static int fd[400];
	int i;

	ASSERT_EQ(0, sysctl_put("startup_timeout_ms", 100));
	ASSERT_EQ(0, half_open(fd, 200, &self->start[1]));
	for (i = 0; i < 200; i++) {
		EXPECT_NE(0, POLLERR & poll_for(fd[2 * i + 1], 0, 20000));
		EXPECT_EQ(ETIMEDOUT, so_error(fd[2 * i + 1]));
		EXPECT_EQ(MPA_STATE_FAILED, mpa_info(fd[2 * i + 1]).state);
	}
	EXPECT_TRUE(startups_are(0));
	for (i = 0; i < 400; i++)
		hang_up(fd[i]);
}

TEST_HARNESS_MAIN
