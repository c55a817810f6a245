// SPDX-License-Identifier: GPL-2.0
/*
 * Negotiation in startup frames: private data, revisions 0, 1 and 2, and which end
 * sends first.
 */

#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_pair.h"

/* ---- RFC 5044 section 7.1.1: private data ---- */

TEST_F(pair, private_data_of_each_length_goes_both_ways)
{
	unsigned int len;

	for (len = 0; len <= 512; len += len < 8 || len > 500 ? 1 : 41) {
		self->start[0].private_len = len;
		self->start[1].private_len = 512 - len;
		record_fill(self->start[0].private_data, len);
		record_fill(self->start[1].private_data, 512 - len);
		ASSERT_EQ(0, negotiate(self));
		ASSERT_EQ(len, mpa_peer(self->fd[1]).private_len);
		ASSERT_EQ(512 - len, mpa_peer(self->fd[0]).private_len);
		EXPECT_TRUE(record_good(mpa_peer(self->fd[1]).private_data,
					len));
		EXPECT_TRUE(record_good(mpa_peer(self->fd[0]).private_data,
					512 - len));
		EXPECT_TRUE(records_go(self));
	}
}

/* Section 7.1: MPA follows streaming data, as in figure 9. */
TEST_F(pair, delayed_startup_follows_streaming_data)
{
	ASSERT_EQ(0, fresh(self, true, true));
	EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
	EXPECT_TRUE(text_goes(self->fd[1], self->fd[0]));
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_TRUE(records_go(self));
}

/* The request may arrive before the responder is started. */
TEST_F(pair, request_before_the_responder_starts)
{
	ASSERT_EQ(0, fresh(self, true, true));
	set_nonblock(self->fd[0]);
	ASSERT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(POLLOUT, poll_for(self->fd[0], POLLOUT, 20000));
	set_block(self->fd[0]);
	EXPECT_TRUE(records_go(self));
}

/* ---- section 7.1.2 rule 4 ---- */

TEST_F(pair, responder_is_silent_until_an_fpdu_is_valid)
{
	unsigned int bad, manual;

	for (bad = 0; bad < 4; bad++) {
		struct peer peer = { .tx_markers = true };
		u8 frame[FRAME_LEN];
		pid_t sender;
		size_t n;
		int how;

		manual = bad & 1;
		self->start[1].flags = MPA_START_MARKERS |
				       (manual ? MPA_START_MANUAL : 0);
		frame_put(frame, false, 0xc0, 1, 0);
		ASSERT_EQ(0, request(self, frame, FRAME_LEN));
		if (manual) {
			ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
			ASSERT_EQ(0, decide(self->fd[1], MPA_ACCEPT));
		}
		ASSERT_EQ(FRAME_LEN, read_all(self->fd[0], frame, FRAME_LEN));
		EXPECT_EQ(-1, send(self->fd[1], "x", 1, MSG_DONTWAIT));
		EXPECT_EQ(EAGAIN, errno);
		sender = fork();
		if (!sender)
			_exit(send(self->fd[1], "word", 4, MSG_NOSIGNAL) == 4 ?
			      0 : errno);

		n = peer_fpdu(&peer, (const u8 *)"ulpdu", 5, self->buf);
		if (bad >= 2)
			self->buf[n - 1] ^= 1;
		ASSERT_EQ(0, write_all(self->fd[0], self->buf, n - 1));
		EXPECT_EQ(0, poll_for(self->fd[0], POLLIN, 20));
		EXPECT_EQ(0, mpa_info(self->fd[1]).flags & MPA_INFO_MAY_SEND);
		ASSERT_EQ(0, write_all(self->fd[0], self->buf + n - 1, 1));

		ASSERT_EQ(sender, waitpid(sender, &how, 0));
		EXPECT_EQ(bad < 2 ? 0 : EBADMSG, WEXITSTATUS(how));
		if (bad >= 2) {
			EXPECT_EQ(-1, recv(self->fd[0], self->buf, 1,
					   MSG_DONTWAIT));
			EXPECT_EQ(EAGAIN, errno);
			continue;
		}
		/* Rule 7: the stream begins with a marker of 0x00000000. */
		ASSERT_EQ(16, read_all(self->fd[0], self->buf, 16));
		EXPECT_EQ(0, memcmp(self->buf, "\0\0\0\0\0\4word", 10));
	}
}

/* ---- RFC 6581 sections 6, 9.1, 10: revision 2 ---- */

TEST_F(pair, enhanced_request_octet_by_octet)
{
	const struct {
		u32 flags;
		u16 ird, ord;
		const char *octets;
	} cases[] = {
		{ 0, 0x1234, 0x0567, "\x12\x34\x05\x67" },
		{ 0, 0x3fff, 0x3fff, "\x3f\xff\x3f\xff" },
		{ A | B, 0, 0, "\xc0\0\0\0" },
		{ A | C, 1, 2, "\x80\1\x80\2" },
		{ A | D, 1, 2, "\x80\1\x40\2" },
		{ A | B | C | D, 0x3fff, 0x3fff, "\xff\xff\xff\xff" },
	};
	unsigned int i;
	u8 frame[FRAME_LEN];

	self->start[0].revision = 2;
	self->start[0].private_len = 508;
	record_fill(self->start[0].private_data, 508);
	frame_put(frame, false, 0x50, 2, 512);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		self->start[0].flags = MPA_START_ENHANCED | cases[i].flags;
		self->start[0].ird = cases[i].ird;
		self->start[0].ord = cases[i].ord;
		ASSERT_EQ(FRAME_LEN + 512, ask(self));
		EXPECT_EQ(0, memcmp(self->buf, frame, FRAME_LEN));
		EXPECT_EQ(0, memcmp(self->buf + FRAME_LEN, cases[i].octets,
				    4)) {
			TH_LOG("case %u", i);
		}
		EXPECT_TRUE(record_good(self->buf + FRAME_LEN + 4, 508));
	}
}

/* Section 9.1: the responder's IRD and ORD, used and sent. */
TEST_F(pair, responder_limits_ord_and_leaves_to_the_user_what_is_the_users)
{
	const struct {
		u16 peer_ird, peer_ord, ird, ord;
		u16 said_ird, said_ord, has_ird, has_ord;
	} cases[] = {
		{ 8, 4, 16, 32, 16, 8, 16, 8 },
		{ 64, 16, 16, 32, 16, 32, 16, 32 },
		{ 8, 64, 16, 32, 16, 8, 16, 8 },
		{ 0, 0, 16, 32, 16, 0, 16, 0 },
		{ 8, 4, 0, 0, 0, 0, 0, 0 },
		{ 0x3fff, 0x3fff, 16, 32, 0x3fff, 0x3fff, 16, 32 },
		{ 0x3fff, 4, 16, 32, 16, 0x3fff, 16, 32 },
		{ 8, 0x3fff, 16, 32, 0x3fff, 8, 16, 8 },
		{ 0x3ffe, 0x3ffe, 0x3ffe, 0x3ffe, 0x3ffe, 0x3ffe, 0x3ffe,
		  0x3ffe },
	};
	u8 frame[FRAME_LEN + 4], seen[FRAME_LEN + 4];
	unsigned int i, manual;

	self->start[1].revision = 2;
	for (i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		struct mpa_reply reply = {};
		struct mpa_info info;
		int n = i / 2;

		manual = i & 1;
		self->start[1].flags = manual ? MPA_START_MANUAL : 0;
		self->start[1].ird = manual ? 99 : cases[n].ird;
		self->start[1].ord = manual ? 99 : cases[n].ord;
		ASSERT_EQ(0, request(self, frame,
				     enhanced_frame(frame, false, 0x40, 0,
						    cases[n].peer_ird,
						    cases[n].peer_ord)));
		if (manual) {
			ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
			reply.ird = cases[n].ird;
			reply.ord = cases[n].ord;
			ASSERT_EQ(0, decide_as(self->fd[1], MPA_ACCEPT, &reply,
					       sizeof(reply)));
		}
		ASSERT_EQ(sizeof(seen), read_all(self->fd[0], seen,
						 sizeof(seen)));
		enhanced_frame(frame, true, 0x40, 0, cases[n].said_ird,
			       cases[n].said_ord);
		EXPECT_EQ(0, memcmp(frame, seen, sizeof(seen))) {
			TH_LOG("case %d, by hand %u: %02x%02x %02x%02x", n,
			       manual, seen[20], seen[21], seen[22], seen[23]);
		}
		info = mpa_info(self->fd[1]);
		EXPECT_EQ(2, info.revision);
		EXPECT_EQ(MPA_INFO_ENHANCED, info.flags & (MPA_INFO_ENHANCED |
							   MPA_INFO_P2P));
		EXPECT_EQ(cases[n].has_ird, info.ird);
		EXPECT_EQ(cases[n].has_ord, info.ord);
		/* "MUST pass the peer's provided IRD and ORD values" */
		EXPECT_EQ(cases[n].peer_ird, mpa_peer(self->fd[1]).ird);
		EXPECT_EQ(cases[n].peer_ord, mpa_peer(self->fd[1]).ord);
	}
}

/* Section 9.1: 0x3fff leaves IRD unchanged, even if Read is the reply's only RTR. */
TEST_F(pair, ird_is_left_to_the_user_with_a_read_as_rtr)
{
	static const u16 depth[2] = { 4, 0x3fff };
	u8 frame[FRAME_LEN + 4];
	unsigned int i;

	self->start[1].revision = 2;
	self->start[1].flags = D;
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, request(self, frame,
				     enhanced_frame(frame, false, 0x40, A | D, 4,
						    depth[i])));
		ASSERT_EQ(sizeof(frame), read_all(self->fd[0], frame,
						  sizeof(frame)));
		EXPECT_EQ(!i, mpa_info(self->fd[1]).ird);
	}
}

/* Sections 9.1 and 8: the initiator's reaction to the reply. */
TEST_F(pair, initiator_limits_ord_and_fails_without_ird)
{
	const struct {
		u16 ird, ord, peer_ird, peer_ord;
		int err;
		u16 has_ird, has_ord;
	} cases[] = {
		{ 8, 4, 16, 8, 0, 8, 4 },
		{ 8, 4, 2, 8, 0, 8, 2 },
		{ 8, 4, 0, 0, 0, 8, 0 },
		{ 8, 4, 4, 9, ENOBUFS, 8, 4 },
		{ 0, 0, 0, 1, ENOBUFS, 0, 0 },
		{ 8, 4, 0x3fff, 0x3fff, 0, 8, 4 },
		{ 8, 4, 0x3fff, 9, ENOBUFS, 8, 4 },
		{ 8, 4, 1, 0x3fff, 0, 8, 1 },
		{ 0x3fff, 0x3fff, 5, 6, 0, 0x3fff, 5 },
		{ 0x3fff, 4, 5, 0x3ffe, 0, 0x3fff, 4 },
	};
	u8 frame[FRAME_LEN + 4];
	unsigned int i;

	self->start[0].revision = 2;
	self->start[0].flags = MPA_START_ENHANCED;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mpa_info info;
		size_t len;

		self->start[0].ird = cases[i].ird;
		self->start[0].ord = cases[i].ord;
		ASSERT_EQ(FRAME_LEN + 4, ask(self));
		len = enhanced_frame(frame, true, 0x40, 0, cases[i].peer_ird,
				     cases[i].peer_ord);
		EXPECT_EQ(cases[i].err, answer(self, frame, len)) {
			TH_LOG("case %u", i);
		}
		info = mpa_info(self->fd[0]);
		EXPECT_EQ(MPA_STATE_FULL, info.state);
		EXPECT_EQ(!!cases[i].err, info.error == MPA_ERR_IRD);
		EXPECT_EQ(!cases[i].err, info.error == MPA_ERR_NONE);
		EXPECT_EQ(cases[i].has_ird, info.ird);
		EXPECT_EQ(cases[i].has_ord, info.ord);
		EXPECT_EQ(cases[i].peer_ird, mpa_peer(self->fd[0]).ird);
		EXPECT_EQ(cases[i].peer_ord, mpa_peer(self->fd[0]).ord);
		/* The upper layer can still send its Terminate message. */
		EXPECT_EQ(4, send(self->fd[0], "term", 4, MSG_NOSIGNAL));
		EXPECT_EQ(12, recv(self->fd[1], self->buf, 100, 0));
	}
}

/* A rejection has the depths that the responder would have needed (section 9.1). */
TEST_F(pair, enhanced_rejection_names_the_depths)
{
	const struct mpa_reply reply = {
		.ird = 3, .ord = 77, .private_len = 2, .private_data = "no",
	};

	self->start[0].revision = 2;
	self->start[0].flags = MPA_START_ENHANCED;
	self->start[0].ird = 5;
	self->start[0].ord = 6;
	self->start[1].revision = 2;
	self->start[1].flags = MPA_START_MANUAL;
	ASSERT_EQ(0, fresh(self, true, true));
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	set_nonblock(self->fd[0]);
	ASSERT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_EQ(0, decide_as(self->fd[1], MPA_REJECT, &reply,
			       sizeof(reply)));
	EXPECT_NE(0, POLLERR & poll_for(self->fd[0], POLLIN, 20000));
	EXPECT_EQ(ECONNREFUSED, so_error(self->fd[0]));
	EXPECT_EQ(MPA_PEER_CRC | MPA_PEER_REJECTED | MPA_PEER_ENHANCED,
		  mpa_peer(self->fd[0]).flags);
	EXPECT_EQ(3, mpa_peer(self->fd[0]).ird);
	EXPECT_EQ(77, mpa_peer(self->fd[0]).ord);
	EXPECT_EQ(2, mpa_peer(self->fd[0]).private_len);
}

/* Section 10, and section 6: "MUST continue to accept [...] version one" */
TEST_F(pair, unenhanced_is_answered_unenhanced)
{
	const struct { u8 flags, revision; } cases[] = {
		{ 0x40, 1 }, { 0x50, 1 }, { 0x40, 2 }, { 0x4f, 2 },
	};
	u8 frame[FRAME_LEN];
	unsigned int i;

	self->start[1].revision = 2;
	self->start[1].ird = 7;
	self->start[1].ord = 7;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		frame_put(frame, false, cases[i].flags, cases[i].revision, 0);
		ASSERT_EQ(0, request(self, frame, FRAME_LEN));
		ASSERT_EQ(FRAME_LEN, read_all(self->fd[0], self->buf,
					      FRAME_LEN));
		frame_put(frame, true, 0x40, cases[i].revision, 0);
		EXPECT_EQ(0, memcmp(self->buf, frame, FRAME_LEN));
		EXPECT_EQ(cases[i].revision, mpa_info(self->fd[1]).revision);
		EXPECT_EQ(0, mpa_info(self->fd[1]).flags & MPA_INFO_ENHANCED);
		EXPECT_EQ(0, mpa_info(self->fd[1]).ird);
	}
}

/* Section 10: TCP is closed. By RFC 5044 the frame is "improperly formatted". */
TEST_F(pair, enhanced_meets_its_like_only)
{
	const struct {
		u32 ours;
		u8 flags, revision;
		u16 pd_length;
	} replies[] = {
		{ MPA_START_ENHANCED, 0x40, 2, 0 },
		{ MPA_START_ENHANCED, 0x40, 2, 4 },
		{ MPA_START_ENHANCED, 0x50, 1, 4 },
		{ MPA_START_ENHANCED, 0x50, 3, 4 },
		{ MPA_START_ENHANCED, 0x50, 0, 4 },
		{ MPA_START_ENHANCED | MPA_START_PERMISSIVE, 0x40, 0, 0 },
		{ MPA_START_ENHANCED, 0x50, 2, 3 },
		{ MPA_START_ENHANCED, 0x50, 2, 0 },
		{ 0, 0x50, 2, 4 },
	};
	const struct { u8 ours, revision; u16 pd_length; } requests[] = {
		{ 1, 2, 4 }, { 2, 3, 4 }, { 2, 2, 0 }, { 2, 2, 3 }, { 0, 2, 4 },
	};
	u8 frame[FRAME_LEN + 4] = {};
	unsigned int i;
	u8 c;

	self->start[0].revision = 2;
	for (i = 0; i < ARRAY_SIZE(replies); i++) {
		self->start[0].flags = replies[i].ours;
		ASSERT_LT(0, ask(self));
		frame_put(frame, true, replies[i].flags, replies[i].revision,
			  replies[i].pd_length);
		EXPECT_EQ(EPROTO, answer(self, frame, FRAME_LEN +
					 replies[i].pd_length)) {
			TH_LOG("reply %u", i);
		}
		EXPECT_EQ(MPA_STATE_FAILED, mpa_info(self->fd[0]).state);
	}
	for (i = 0; i < ARRAY_SIZE(requests); i++) {
		self->start[1].revision = requests[i].ours;
		frame_put(frame, false, 0x50, requests[i].revision,
			  requests[i].pd_length);
		ASSERT_EQ(0, request(self, frame, FRAME_LEN +
				     requests[i].pd_length));
		EXPECT_EQ(-1, recv(self->fd[1], &c, 1, 0));
		EXPECT_EQ(EPROTO, errno) {
			TH_LOG("request %u", i);
		}
		EXPECT_EQ(MPA_ERR_STARTUP, mpa_info(self->fd[1]).error);
	}
}

/* ---- RFC 6581 section 9.2: the peer-to-peer model ---- */

/* Return: options 0 to 7 as flags. */
static u32 rtr_options(unsigned int bits)
{
	return (bits & 1 ? B : 0) | (bits & 2 ? C : 0) | (bits & 4 ? D : 0);
}

/* Return: the RTR to use. One that a DDP peer expects has priority. */
static u32 rtr_chosen(u32 both)
{
	return both & C ? C : both & D ? D : both & B;
}

/* Return: the RTRs in a responder's reply, if its IRD is 1. */
static u32 rtr_offered(u32 ours, u32 theirs)
{
	ours = ours ? ours : theirs == B ? B : C | D;
	return ours & theirs ? ours & theirs : ours;
}

TEST_F(pair, initiator_generates_one_of_the_options_agreed_on)
{
	unsigned int i, markers;

	self->start[0].revision = 2;
	for (i = 8; i < 128; i++) {
		u32 ours = rtr_options(i / 16), theirs = rtr_options(i / 2 % 8);
		struct peer sender = { .tx_markers = i & 1 };
		u32 chosen = rtr_chosen(ours & theirs);
		u8 frame[FRAME_LEN + 4], expected[16];
		struct mpa_info info;
		size_t n;

		markers = i & 1;
		if (!ours)
			continue;
		self->start[0].flags = MPA_START_ENHANCED | A | ours;
		ASSERT_LT(0, ask(self));
		n = enhanced_frame(frame, true, markers ? 0xc0 : 0x40,
				   A | theirs, 1, 0);
		EXPECT_EQ(chosen ? 0 : EOPNOTSUPP, answer(self, frame, n));
		info = mpa_info(self->fd[0]);
		EXPECT_EQ(MPA_STATE_FULL, info.state);
		EXPECT_EQ(chosen ? MPA_ERR_NONE : MPA_ERR_RTR, info.error);
		EXPECT_EQ(chosen, info.rtr) {
			TH_LOG("ours 0x%x, theirs 0x%x", ours, theirs);
		}
		EXPECT_EQ(chosen ? MPA_INFO_P2P : 0,
			  info.flags & MPA_INFO_P2P);
		EXPECT_EQ(MPA_INFO_MAY_SEND, info.flags & MPA_INFO_MAY_SEND);
		EXPECT_EQ(0, info.tx_ulpdus);
		EXPECT_EQ(theirs | A, mpa_peer(self->fd[0]).control);
		if (chosen == B) {
			n = peer_fpdu(&sender, NULL, 0, expected);
			EXPECT_EQ(markers ? 12 : 8, n);
			ASSERT_EQ(n, read_all(self->fd[1], self->buf, n));
			EXPECT_EQ(0, memcmp(expected, self->buf, n));
		}
		EXPECT_EQ(-1, recv(self->fd[1], self->buf, 1, MSG_DONTWAIT));
		/* The first record can be sent, or the Terminate message. */
		ASSERT_EQ(2, send(self->fd[0], "ok", 2, MSG_NOSIGNAL));
		n = peer_fpdu(&sender, (const u8 *)"ok", 2, expected);
		ASSERT_EQ(n, read_all(self->fd[1], self->buf, n));
		EXPECT_EQ(0, memcmp(expected, self->buf, n));
	}
}

/* "the responder MUST set Control Flag A to 1"; without A, B to D have no meaning. */
TEST_F(pair, reply_without_peer_to_peer_model_has_no_rtr)
{
	u8 frame[FRAME_LEN + 4];
	size_t n;

	self->start[0].revision = 2;
	self->start[0].flags = MPA_START_ENHANCED | A | B | C | D;
	ASSERT_LT(0, ask(self));
	n = enhanced_frame(frame, true, 0x40, B | C | D, 0, 0);
	EXPECT_EQ(EOPNOTSUPP, answer(self, frame, n));
	EXPECT_EQ(MPA_ERR_RTR, mpa_info(self->fd[0]).error);
	EXPECT_EQ(0, mpa_peer(self->fd[0]).control);
}

/* A is set in the reply, but not in the request: no RTR was requested. */
TEST_F(pair, client_server_model_has_no_rtr)
{
	u8 frame[FRAME_LEN + 4];
	size_t n;

	self->start[0].revision = 2;
	self->start[0].flags = MPA_START_ENHANCED;
	ASSERT_LT(0, ask(self));
	n = enhanced_frame(frame, true, 0x40, A | B, 0, 0);
	EXPECT_EQ(0, answer(self, frame, n));
	EXPECT_EQ(0, mpa_info(self->fd[0]).rtr);
	EXPECT_EQ(0, mpa_info(self->fd[0]).flags & MPA_INFO_P2P);
	EXPECT_EQ(-1, recv(self->fd[1], self->buf, 1, MSG_DONTWAIT));

	/* "if Control Flag A is 0 in the request" */
	self->start[1].revision = 2;
	self->start[1].flags = C | D;
	ASSERT_EQ(0, request(self, frame,
			     enhanced_frame(frame, false, 0x40, B | C | D,
					    0, 0)));
	n = enhanced_frame(frame, true, 0x40, 0, 0, 0);
	ASSERT_EQ(n, read_all(self->fd[0], self->buf, n));
	EXPECT_EQ(0, memcmp(frame, self->buf, n));
	EXPECT_EQ(0, mpa_info(self->fd[1]).rtr);
}

TEST_F(pair, responder_names_the_options_it_supports)
{
	u8 frame[FRAME_LEN + 4];
	unsigned int i;

	self->start[1].revision = 2;
	for (i = 0; i < 64; i++) {
		u32 theirs = rtr_options(i / 8), ours = rtr_options(i % 8);
		size_t n;

		self->start[1].flags = ours;
		self->start[1].ird = 1;
		n = enhanced_frame(frame, false, 0x40, A | theirs, 0, 0);
		ASSERT_EQ(0, request(self, frame, n));
		enhanced_frame(frame, true, 0x40, A | rtr_offered(ours, theirs),
			       1, 0);
		ASSERT_EQ(n, read_all(self->fd[0], self->buf, n));
		EXPECT_EQ(0, memcmp(frame, self->buf, n)) {
			TH_LOG("ours 0x%x, theirs 0x%x", ours, theirs);
		}
		EXPECT_EQ(MPA_INFO_P2P,
			  mpa_info(self->fd[1]).flags & MPA_INFO_P2P);
		/* Only a common RTR may open the connection. */
		ASSERT_EQ(rtr_offered(ours, theirs) & theirs,
			  mpa_info(self->fd[1]).rtr) {
			TH_LOG("ours 0x%x, theirs 0x%x", ours, theirs);
		}
	}
}

TEST_F(pair, peer_to_peer_lets_either_end_begin)
{
	unsigned int i;

	self->start[0].revision = 2;
	self->start[1].revision = 2;
	self->start[1].ird = 1;
	for (i = 8; i < 64; i++) {
		u32 ours = rtr_options(i / 8), theirs = rtr_options(i % 8);
		u32 chosen = rtr_chosen(ours & rtr_offered(theirs, ours));

		self->start[0].flags = MPA_START_ENHANCED | A | ours |
				       (i & 1 ? MPA_START_MARKERS : 0);
		self->start[1].flags = theirs |
				       (i & 2 ? MPA_START_MARKERS : 0);
		EXPECT_EQ(chosen ? 0 : EOPNOTSUPP, negotiate(self));
		EXPECT_EQ(chosen, mpa_info(self->fd[0]).rtr);
		if (chosen == B) {
			/* Neither end has received or sent a record. */
			EXPECT_EQ(POLLOUT, poll_for(self->fd[1], POLLOUT,
						    20000));
			EXPECT_EQ(0, poll_for(self->fd[1], POLLIN, 0));
			EXPECT_EQ(0, mpa_info(self->fd[1]).rx_ulpdus);
			EXPECT_TRUE(record_goes(self->fd[1], self->fd[0],
						100));
		} else {
			EXPECT_EQ(0, poll_for(self->fd[1], POLLOUT, 0));
		}
		EXPECT_TRUE(records_go(self));
	}
}

/* Act as the initiator of a peer-to-peer startup. */
static int p2p_request(struct _test_data_pair *self, struct peer *peer,
		       u32 control, bool markers)
{
	u8 frame[FRAME_LEN + 4];
	size_t n = enhanced_frame(frame, false, 0x40, control, 0, 0);

	*peer = (struct peer){ .fd = self->fd[0], .tx_markers = markers };
	self->start[1].revision = 2;
	self->start[1].flags = markers ? MPA_START_MARKERS : 0;
	if (request(self, frame, n) ||
	    read_all(self->fd[0], frame, n) != n)
		return -1;
	peer->fd = self->fd[0];
	return 0;
}

TEST_F(pair, rtr_fpdu_is_consumed_in_pieces_and_with_what_follows)
{
	unsigned int markers, at;
	struct peer peer;

	for (markers = 0; markers < 2; markers++) {
		size_t n = 2, rtr = markers ? 12 : 8;

		for (at = 1; at < n; at++) {
			ASSERT_EQ(0, p2p_request(self, &peer, A | B, markers));
			n = peer_fpdu(&peer, NULL, 0, self->buf);
			n += peer_fpdu(&peer, record_of(100), 100,
				       self->buf + n);
			ASSERT_EQ(0, write_all(peer.fd, self->buf, at));
			if (at >= rtr) {
				EXPECT_EQ(POLLOUT, poll_for(self->fd[1],
							    POLLOUT, 20000));
			} else {
				EXPECT_EQ(0, poll_for(self->fd[1], POLLOUT, 0));
			}
			EXPECT_EQ(0, poll_for(self->fd[1], POLLIN, 0));
			ASSERT_EQ(0, write_all(peer.fd, self->buf + at,
					       n - at));
			ASSERT_EQ(100, recv(self->fd[1], self->buf, 200, 0));
			EXPECT_TRUE(record_good(self->buf, 100));
			EXPECT_EQ(1, mpa_info(self->fd[1]).rx_ulpdus);
		}
	}
}

/* An initiator may begin with a record nevertheless (section 9.2). */
TEST_F(pair, first_record_opens_as_well)
{
	struct peer peer;

	ASSERT_EQ(0, p2p_request(self, &peer, A | B, true));
	ASSERT_EQ(0, peer_send_record(&peer, 50));
	EXPECT_EQ(50, recv(self->fd[1], self->buf, 100, 0));
	EXPECT_EQ(MPA_INFO_MAY_SEND,
		  mpa_info(self->fd[1]).flags & MPA_INFO_MAY_SEND);
	/* A later FPDU without a ULPDU is no RTR. */
	ASSERT_EQ(0, peer_send(&peer, NULL, 0));
	EXPECT_EQ(-1, recv(self->fd[1], self->buf, 100, 0));
	EXPECT_EQ(EBADMSG, errno);
}

TEST_F(pair, bad_rtr_opens_nothing)
{
	unsigned int at, markers;
	struct peer peer;

	for (markers = 0; markers < 2; markers++) {
		for (at = 0; at < (markers ? 12 : 8); at++) {
			size_t n;

			/* Leave ULPDU_Length unchanged. */
			if (at / 2 == (markers ? 2 : 0))
				continue;
			ASSERT_EQ(0, p2p_request(self, &peer, A | B, markers));
			n = peer_fpdu(&peer, NULL, 0, self->buf);
			self->buf[at] ^= 0x10;
			ASSERT_EQ(0, write_all(peer.fd, self->buf, n));
			EXPECT_EQ(-1, recv(self->fd[1], self->buf, 100, 0));
			EXPECT_EQ(EBADMSG, errno) {
				TH_LOG("octet %u, markers %u", at, markers);
			}
			EXPECT_EQ(-1, send(self->fd[1], "x", 1, MSG_NOSIGNAL));
			EXPECT_EQ(EBADMSG, errno);
			EXPECT_EQ(MPA_ERR_CRC, mpa_info(self->fd[1]).error);
			EXPECT_EQ(0, mpa_info(self->fd[1]).flags &
				  MPA_INFO_MAY_SEND);
			EXPECT_EQ(-1, recv(peer.fd, self->buf, 1,
					   MSG_DONTWAIT));
			EXPECT_EQ(EAGAIN, errno);
		}
	}
}

/* RFC 5044 section 3: "any size between one and 64768 octets" */
TEST_F(pair, zero_length_fpdu_is_an_error_unless_agreed_on)
{
	const u32 controls[] = { 0, B, A | C, A | D, A | C | D };
	struct peer peer;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(controls) + 2; i++) {
		if (i < ARRAY_SIZE(controls)) {
			ASSERT_EQ(0, p2p_request(self, &peer, controls[i], 0));
		} else if (i == ARRAY_SIZE(controls)) {
			/* Only one RTR is permitted. */
			ASSERT_EQ(0, p2p_request(self, &peer, A | B, false));
			ASSERT_EQ(0, peer_send(&peer, NULL, 0));
		} else {
			ASSERT_EQ(0, fresh(self, false, false));
			peer = (struct peer){ .fd = self->fd[0] };
			ASSERT_EQ(0, peer_initiates(&peer, self->fd[1], false,
						    0));
		}
		ASSERT_EQ(0, peer_send(&peer, NULL, 0));
		ASSERT_EQ(0, peer_send_record(&peer, 10));
		EXPECT_EQ(-1, recv(self->fd[1], self->buf, 100, 0)) {
			TH_LOG("case %u", i);
		}
		EXPECT_EQ(EBADMSG, errno);
		EXPECT_EQ(MPA_ERR_CRC, mpa_info(self->fd[1]).error);
	}

	/* Nor does the initiator expect one. */
	self->start[0].revision = 2;
	self->start[0].flags = MPA_START_ENHANCED | A | B;
	self->start[1].revision = 2;
	self->start[1].flags = MPA_START_MANUAL;
	ASSERT_LT(0, ask(self));
	ASSERT_EQ(0, answer(self, self->buf,
			    enhanced_frame(self->buf, true, 0x40, A | B, 0,
					   0)));
	peer = (struct peer){ .fd = self->fd[1] };
	ASSERT_EQ(0, peer_send(&peer, NULL, 0));
	EXPECT_EQ(-1, recv(self->fd[0], self->buf, 100, 0));
	EXPECT_EQ(EBADMSG, errno);
}

/* ---- RFC 5044 appendix C: revision 0 ---- */

static const struct {
	const char *name;
	u8 revision;
	u32 flags;
} rnics[] = {
	{ "RDMAC", 0, MPA_START_MARKERS },
	{ "non-permissive M=0", 1, 0 },
	{ "non-permissive M=1", 1, MPA_START_MARKERS },
	{ "permissive M=0", 1, MPA_START_PERMISSIVE },
	{ "permissive M=1", 1, MPA_START_PERMISSIVE | MPA_START_MARKERS },
};

/*
 * Figures 15, 16 and 17: revision V, and M for each direction: to the initiator/to the
 * responder. N/A in figure 16 is an RDMAC initiator with a permissive responder, whose
 * reply always has M=1.
 */
static const char figures[][5][6] = {
	{ "0 1/1", "close", "close", "0 1/1", "0 1/1" },
	{ "close", "1 0/0", "1 0/1", "1 0/0", "1 0/1" },
	{ "close", "1 1/0", "1 1/1", "1 1/0", "1 1/1" },
	{ "0 1/1", "1 0/0", "1 0/1", "1 0/0", "1 0/1" },
	{ "0 1/1", "1 1/0", "1 1/1", "1 1/0", "1 1/1" },
};

static void cell_of(int fd, int err, bool initiator, char cell[8])
{
	struct mpa_info info = mpa_info(fd);
	bool rx = info.flags & MPA_INFO_RX_MARKERS;
	bool tx = info.flags & MPA_INFO_TX_MARKERS;

	if (info.state == MPA_STATE_FAILED)
		strcpy(cell, "close");
	else if (info.state != MPA_STATE_FULL || err ||
		 (info.flags & MPA_INFO_CRC) != MPA_INFO_CRC)
		strcpy(cell, "?");
	else
		snprintf(cell, 8, "%u %u/%u", info.revision,
			 initiator ? rx : tx, initiator ? tx : rx);
}

TEST_F(pair, figures_15_to_17_cell_by_cell)
{
	unsigned int i, j, end;

	for (i = 0; i < 5; i++) {
		for (j = 0; j < 5; j++) {
			char cell[8];
			int err;

			self->start[0].revision = rnics[i].revision;
			self->start[0].flags = rnics[i].flags;
			self->start[1].revision = rnics[j].revision;
			self->start[1].flags = rnics[j].flags;
			err = negotiate(self);
			if (err) {
				/* TCP reports the end to the peer. */
				poll_for(self->fd[1], POLLOUT, 20000);
				recv(self->fd[1], self->buf, 1, 0);
				mpa_info(self->fd[0]);
			}
			for (end = 0; end < 2; end++) {
				/*
				 * A responder that has replied is in Full Operation
				 * when the initiator closes.
				 */
				if (err && end && mpa_info(self->fd[1]).state ==
						  MPA_STATE_FULL)
					continue;
				cell_of(self->fd[end], err, !end, cell);
				EXPECT_STREQ(figures[i][j], cell) {
					TH_LOG("%s, %s, seen by the %s",
					       rnics[i].name, rnics[j].name,
					       end ? "responder" : "initiator");
				}
			}
			if (!err)
				EXPECT_TRUE(records_go(self));
		}
	}
}

/* As above, with a simulated peer that checks every octet. */
TEST_F(pair, initiator_meets_each_rnic_by_hand)
{
	u8 frame[FRAME_LEN];
	unsigned int i, j;

	for (i = 0; i < 5; i++) {
		for (j = 0; j < 5; j++) {
			bool peer_m = rnics[j].flags & MPA_START_MARKERS;
			bool m = rnics[i].flags & MPA_START_MARKERS;
			u8 revision = rnics[j].revision;
			char cell[8];
			int err;

			/* The permissive responder downgrades without a request. */
			if (!rnics[i].revision &&
			    rnics[j].flags & MPA_START_PERMISSIVE) {
				revision = 0;
				peer_m = true;
			}
			self->start[0].revision = rnics[i].revision;
			self->start[0].flags = rnics[i].flags;
			ASSERT_EQ(FRAME_LEN, ask(self));
			frame_put(frame, false, m ? 0xc0 : 0x40,
				  rnics[i].revision, 0);
			EXPECT_EQ(0, memcmp(frame, self->buf, FRAME_LEN));
			frame_put(frame, true, peer_m ? 0xc0 : 0x40, revision,
				  0);
			err = answer(self, frame, FRAME_LEN);
			cell_of(self->fd[0], err, true, cell);
			EXPECT_STREQ(figures[i][j], cell) {
				TH_LOG("%s meets %s", rnics[i].name,
				       rnics[j].name);
			}
			EXPECT_EQ(cell[0] == 'c' ? EPROTO : 0, err);
		}
	}
}

TEST_F(pair, responder_meets_each_rnic_by_hand)
{
	u8 frame[FRAME_LEN];
	unsigned int i, j;

	for (i = 0; i < 5; i++) {
		for (j = 0; j < 5; j++) {
			bool our_m = rnics[j].flags & MPA_START_MARKERS;
			bool m = rnics[i].flags & MPA_START_MARKERS;
			u8 revision = rnics[j].revision;
			char cell[8];

			if (i == 0 && rnics[j].flags & MPA_START_PERMISSIVE) {
				revision = 0;
				our_m = true;
			}
			self->start[1].revision = rnics[j].revision;
			self->start[1].flags = rnics[j].flags;
			frame_put(frame, false, m ? 0xc0 : 0x40,
				  rnics[i].revision, 0);
			ASSERT_EQ(0, request(self, frame, FRAME_LEN));
			if (read_all(self->fd[0], self->buf, FRAME_LEN) !=
			    FRAME_LEN) {
				recv(self->fd[1], self->buf, 1, 0);
				EXPECT_STREQ(figures[i][j], "close");
				continue;
			}
			frame_put(frame, true, our_m ? 0xc0 : 0x40, revision,
				  0);
			EXPECT_EQ(0, memcmp(frame, self->buf, FRAME_LEN));
			/* Here the initiator closes the connection. */
			if (figures[i][j][0] == 'c' && !rnics[j].revision)
				continue;
			cell_of(self->fd[1], 0, false, cell);
			EXPECT_STREQ(figures[i][j], cell) {
				TH_LOG("%s meets %s", rnics[j].name,
				       rnics[i].name);
			}
		}
	}
}

/* Figure 14: our frames always have M and C, whatever the flags. */
TEST_F(pair, revision_0_asks_for_markers_and_crcs)
{
	u8 frame[FRAME_LEN];

	ASSERT_EQ(0, sysctl_put("crc_optional", 1));
	self->start[0].revision = 0;
	self->start[0].flags = MPA_START_NO_CRC;
	ASSERT_EQ(FRAME_LEN, ask(self));
	frame_put(frame, false, 0xc0, 0, 0);
	EXPECT_EQ(0, memcmp(frame, self->buf, FRAME_LEN));
	frame_put(frame, true, 0xc0, 0, 0);
	EXPECT_EQ(0, answer(self, frame, FRAME_LEN));
	EXPECT_EQ(MPA_INFO_CRC | MPA_INFO_TX_MARKERS | MPA_INFO_RX_MARKERS |
		  MPA_INFO_MAY_SEND, mpa_info(self->fd[0]).flags);
	EXPECT_EQ(0, mpa_info(self->fd[0]).revision);

	self->start[1].flags = MPA_START_NO_CRC | MPA_START_PERMISSIVE;
	frame_put(frame, false, 0xc0, 0, 0);
	ASSERT_EQ(0, request(self, frame, FRAME_LEN));
	ASSERT_EQ(FRAME_LEN, read_all(self->fd[0], self->buf, FRAME_LEN));
	frame_put(frame, true, 0xc0, 0, 0);
	EXPECT_EQ(0, memcmp(frame, self->buf, FRAME_LEN));
	EXPECT_EQ(MPA_INFO_CRC | MPA_INFO_TX_MARKERS | MPA_INFO_RX_MARKERS,
		  mpa_info(self->fd[1]).flags);
}

TEST_HARNESS_MAIN
