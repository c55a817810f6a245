// SPDX-License-Identifier: GPL-2.0
/* The result of two startup frames: RFC 5044 appendix C, and RFC 6581 section 9. */

#include "unit.h"

#define WRITES	MPA_START_RTR_WRITE
#define READS	MPA_START_RTR_READ
#define FPDU	MPA_START_RTR_FPDU
#define P2P	MPA_START_P2P
#define FREE	MPA_DEPTH_BY_USER

static void revision_is_one_that_both_speak(void)
{
	static const struct {
		u8 role, ours, theirs;
		int revision;
		u32 flags;
		u8 frame_flags;
	} cases[] = {
		{ MPA_ROLE_INITIATOR, 1, 1, 1, 0, 0 },
		{ MPA_ROLE_INITIATOR, 1, 2, -1, 0, 0 },
		{ MPA_ROLE_INITIATOR, 2, 1, 1, 0, 0 },
		{ MPA_ROLE_INITIATOR, 2, 2, 2, 0, 0 },
		{ MPA_ROLE_INITIATOR, 2, 3, -1, 0, 0 },
		{ MPA_ROLE_RESPONDER, 1, 1, 1, 0, 0 },
		{ MPA_ROLE_RESPONDER, 1, 2, -1, 0, 0 },
		{ MPA_ROLE_RESPONDER, 2, 1, 1, 0, 0 },
		{ MPA_ROLE_RESPONDER, 2, 2, 2, 0, 0 },
		/* Revision 0 needs an end that permits it. */
		{ MPA_ROLE_INITIATOR, 1, 0, -1, 0, 0 },
		{ MPA_ROLE_INITIATOR, 1, 0, 0, MPA_START_PERMISSIVE, 0 },
		{ MPA_ROLE_RESPONDER, 1, 0, -1, 0, 0 },
		{ MPA_ROLE_RESPONDER, 2, 0, 0, MPA_START_PERMISSIVE, 0 },
		/* An initiator of revision 0 accepts no other revision. */
		{ MPA_ROLE_INITIATOR, 0, 0, 0, 0, 0 },
		{ MPA_ROLE_INITIATOR, 0, 1, -1, 0, 0 },
		{ MPA_ROLE_RESPONDER, 0, 1, 0, 0, 0 },
		{ MPA_ROLE_RESPONDER, 0, 2, 0, 0, 0 },
		{ MPA_ROLE_RESPONDER, 0, 3, -1, 0, 0 },
		{ MPA_ROLE_RESPONDER, 0, 2, -1, 0, MPA_PEER_ENHANCED },
		/* The reply to an enhanced request must be enhanced. */
		{ MPA_ROLE_INITIATOR, 2, 2, 2,
		  MPA_START_ENHANCED, MPA_PEER_ENHANCED },
		{ MPA_ROLE_INITIATOR, 2, 1, -1,
		  MPA_START_ENHANCED, MPA_PEER_ENHANCED },
		{ MPA_ROLE_INITIATOR, 2, 2, -1, MPA_START_ENHANCED, 0 },
		{ MPA_ROLE_INITIATOR, 2, 2, -1, 0, MPA_PEER_ENHANCED },
		{ MPA_ROLE_RESPONDER, 2, 2, 2, 0, MPA_PEER_ENHANCED },
		/* A rejection stays one, whatever else the frame contains. */
		{ MPA_ROLE_INITIATOR, 2, 1, 2,
		  MPA_START_ENHANCED, MPA_PEER_REJECTED },
		{ MPA_ROLE_INITIATOR, 1, 0, 1, 0, MPA_PEER_REJECTED },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mpa_offer offer = {
			.role = cases[i].role,
			.revision = cases[i].ours,
			.flags = cases[i].flags,
		};
		struct mpa_frame frame = {
			.revision = cases[i].theirs,
			.flags = cases[i].frame_flags,
		};

		EXPECT_EQ(cases[i].revision,
			  mpa_agree_revision(&offer, &frame), "case %u", i);
	}
}

static void rtr_is_write_before_read_before_an_empty_fpdu(void)
{
	EXPECT_EQ(WRITES, mpa_agree_rtr(WRITES | READS | FPDU,
					WRITES | READS | FPDU, 1), "all");
	EXPECT_EQ(READS, mpa_agree_rtr(READS | FPDU, WRITES | READS | FPDU, 1),
		  "no Write");
	EXPECT_EQ(FPDU, mpa_agree_rtr(READS | FPDU, READS | FPDU, 0),
		  "no room for a Read");
	EXPECT_EQ(FPDU, mpa_agree_rtr(FPDU, WRITES | FPDU, 1), "an FPDU");
	EXPECT_EQ(0, mpa_agree_rtr(WRITES, READS, 1), "nothing in common");
	EXPECT_EQ(0, mpa_agree_rtr(READS, READS, 0), "a Read without room");
}

static void depths_are_limited_by_the_peer(void)
{
	EXPECT_EQ(3, mpa_agree_limit(5, 3), "5 of 3");
	EXPECT_EQ(2, mpa_agree_limit(2, 3), "2 of 3");
	EXPECT_EQ(5, mpa_agree_limit(5, FREE), "left to the user");
	EXPECT_EQ(7, mpa_agree_limit(FREE, 7), "ours left to the user");
	EXPECT_EQ(1, mpa_agree_depth(0, READS), "a place for the RTR");
	EXPECT_EQ(4, mpa_agree_depth(4, READS), "it is among them");
	EXPECT_EQ(0, mpa_agree_depth(0, WRITES), "a Write takes none");
}

static void reply_offers_what_the_request_names(void)
{
	static const struct {
		u32 ours, theirs;
		u16 ird;
		u32 control;
	} rows[] = {
		/* Without P2P there is no RTR. */
		{ WRITES, WRITES, 1, 0 },
		{ WRITES | READS, P2P | WRITES | READS, 1, P2P | WRITES | READS },
		{ WRITES, P2P | WRITES | READS, 1, P2P | WRITES },
		/* Without a name, offer Write and Read; the FPDU if there is nothing else. */
		{ 0, P2P | WRITES | FPDU, 1, P2P | WRITES },
		{ 0, P2P | FPDU, 1, P2P | FPDU },
		/* Without a common RTR, offer those that this end accepts. */
		{ FPDU, P2P | WRITES, 1, P2P | FPDU },
		/* Without IRD or ORD offer no Read, unless there is nothing else. */
		{ WRITES | READS, P2P | WRITES | READS, 0, P2P | WRITES },
		{ READS, P2P | READS, 0, P2P | READS },
	};

	for (u32 i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mpa_enhanced theirs = { .control = rows[i].theirs };
		struct mpa_offer ours = { .ird = rows[i].ird };
		struct mpa_offer offer = {
			.role = MPA_ROLE_RESPONDER,
			.revision = 2,
			.flags = rows[i].ours,
		};
		struct mpa_enhanced reply;

		mpa_agree_reply(&offer, &ours, &theirs, false, &reply);
		EXPECT_EQ(rows[i].control, reply.control, "case %u", i);
		EXPECT_EQ(rows[i].control & READS && !rows[i].ird ? 1 :
			  rows[i].ird, reply.ird, "IRD of case %u", i);
	}
}

static void reply_depths_follow_the_request(void)
{
	static const struct {
		u16 ird, ord, their_ird, their_ord;
		bool reject;
		u16 reply_ird, reply_ord;
	} cases[] = {
		{ 4, 8, 2, 3, false, 4, 2 },
		{ 4, 1, 2, 3, false, 4, 1 },
		{ 4, 8, 2, 3, true, 4, 8 },
		{ 4, 8, FREE, 3, false, 4, FREE },
		{ 4, 8, 2, FREE, false, FREE, 2 },
		{ 4, 8, FREE, FREE, true, FREE, FREE },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mpa_offer offer = { .revision = 2 };
		struct mpa_enhanced theirs = {
			.ird = cases[i].their_ird,
			.ord = cases[i].their_ord,
		};
		struct mpa_offer ours = {
			.ird = cases[i].ird,
			.ord = cases[i].ord,
		};
		struct mpa_enhanced reply;

		mpa_agree_reply(&offer, &ours, &theirs, cases[i].reject,
				&reply);
		EXPECT_EQ(cases[i].reply_ird, reply.ird, "IRD of case %u", i);
		EXPECT_EQ(cases[i].reply_ord, reply.ord, "ORD of case %u", i);
		EXPECT_EQ(0, reply.control, "control of case %u", i);
	}
}

const struct unit_test agree_tests[] = {
	UNIT_TEST(revision_is_one_that_both_speak),
	UNIT_TEST(rtr_is_write_before_read_before_an_empty_fpdu),
	UNIT_TEST(depths_are_limited_by_the_peer),
	UNIT_TEST(reply_offers_what_the_request_names),
	UNIT_TEST(reply_depths_follow_the_request),
	{ }
};
