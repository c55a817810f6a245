// SPDX-License-Identifier: GPL-2.0
/* Startup frames: RFC 5044 section 7.1.1, and RFC 6581 sections 6 and 9. */

#include <linux/slab.h>
#include "unit.h"

#define M	0x80
#define C	0x40
#define R	0x20
#define S	0x10

static const u8 keys[][MPA_KEY_LEN] = {
	[MPA_REQUEST] = {
		0x4d, 0x50, 0x41, 0x20, 0x49, 0x44, 0x20, 0x52,
		0x65, 0x71, 0x20, 0x46, 0x72, 0x61, 0x6d, 0x65,
	},
	[MPA_REPLY] = {
		0x4d, 0x50, 0x41, 0x20, 0x49, 0x44, 0x20, 0x52,
		0x65, 0x70, 0x20, 0x46, 0x72, 0x61, 0x6d, 0x65,
	},
};

static const char *const names[] = { "request", "reply" };

static const enum mpa_frame_kind kinds[] = { MPA_REQUEST, MPA_REPLY };

/* Parse in a buffer of exactly this size, so that an access beyond it is detected. */
static enum mpa_frame_verdict parse_exactly(const u8 *frame, u32 len,
					    enum mpa_frame_kind kind,
					      struct mpa_frame *startup)
{
	u8 *copy = kmalloc(len ? len : 1, GFP_KERNEL);
	enum mpa_frame_verdict verdict;

	memcpy(copy, frame, len);
	verdict = mpa_frame_parse(copy, len, kind, startup);
	kfree(copy);
	return verdict;
}

static void make_frame(u8 *frame, enum mpa_frame_kind kind, u8 flags, u8 rev,
		       u16 pd_length)
{
	memcpy(frame, keys[kind], MPA_KEY_LEN);
	frame[16] = flags;
	frame[17] = rev;
	frame[18] = pd_length >> 8;
	frame[19] = pd_length;
}

static void startup_frames_look_as_in_figure8(void)
{
	static const struct mpa_frame startup = {
		.flags = MPA_PEER_MARKERS | MPA_PEER_REJECTED,
		.revision = 1,
		.private_len = 0x0102,
	};
	u8 expected[MPA_FRAME_LEN], frame[MPA_FRAME_LEN];

	for (u32 i = 0; i < ARRAY_SIZE(kinds); i++) {
		memcpy(expected, keys[kinds[i]], MPA_KEY_LEN);
		memcpy(expected + MPA_KEY_LEN, "\xa0\x01\x01\x02", 4);
		mpa_frame_put(frame, kinds[i], &startup);
		EXPECT_OCTETS(expected, frame, sizeof(frame), "%s", names[i]);
	}
}

static void startup_flags_are_m_c_r_and_s(void)
{
	EXPECT_EQ(M, MPA_PEER_MARKERS, "M");
	EXPECT_EQ(C, MPA_PEER_CRC, "C");
	EXPECT_EQ(R, MPA_PEER_REJECTED, "R");
	EXPECT_EQ(S, MPA_PEER_ENHANCED, "S");
}

static void startup_put_leaves_private_data_alone(void)
{
	static const u8 behind[] = { 0x5a, 0x5a, 0x5a, 0x5a };
	static const struct mpa_frame startup = {
		.revision = 1,
		.private_len = 4,
	};
	u8 frame[MPA_FRAME_LEN + sizeof(behind)];

	memset(frame, 0x5a, sizeof(frame));
	mpa_frame_put(frame, MPA_REQUEST, &startup);
	EXPECT_OCTETS(behind, frame + MPA_FRAME_LEN, sizeof(behind),
		      "octets after the fixed part");
}

static void round_trip(enum mpa_frame_kind kind,
		       const struct mpa_frame *startup)
{
	u8 frame[MPA_FRAME_LEN];
	struct mpa_frame seen;

	memset(&seen, 0xee, sizeof(seen));
	mpa_frame_put(frame, kind, startup);
	EXPECT_EQ(MPA_FRAME_OK,
		  parse_exactly(frame, sizeof(frame), kind, &seen),
		  "verdict on a %s", names[kind]);
	EXPECT_EQ(startup->flags, seen.flags, "flags of a %s", names[kind]);
	EXPECT_EQ(startup->revision, seen.revision, "revision of a %s",
		  names[kind]);
	EXPECT_EQ(startup->private_len, seen.private_len, "PD_Length of a %s",
		  names[kind]);
}

static void startup_frames_survive_the_round_trip(void)
{
	static const u8 request_flags[] = { 0, M, C, M | C };
	static const u8 reply_flags[] = {
		0, M, C, M | C, R, R | M, R | C, R | M | C
	};
	struct mpa_frame startup;

	for (u32 len = 0; len <= MPA_PRIVATE_DATA_MAX; len++) {
		for (u32 rev = 0; rev < 256; rev += len % 32 ? 85 : 1) {
			startup.revision = rev;
			startup.private_len = len;
			for (u32 i = 0; i < ARRAY_SIZE(request_flags); i++) {
				startup.flags = request_flags[i];
				round_trip(MPA_REQUEST, &startup);
			}
			for (u32 i = 0; i < ARRAY_SIZE(reply_flags); i++) {
				startup.flags = reply_flags[i];
				round_trip(MPA_REPLY, &startup);
			}
		}
	}
}

static void startup_asks_for_more_while_all_is_right(void)
{
	struct mpa_frame startup;
	u8 frame[MPA_FRAME_LEN];

	for (u32 i = 0; i < ARRAY_SIZE(kinds); i++) {
		/* PD_Length is too long, and the frame is not complete yet. */
		make_frame(frame, kinds[i], C, 1, 0xffff);
		for (u32 len = 0; len < MPA_FRAME_LEN; len++) {
			EXPECT_EQ(MPA_FRAME_MORE,
				  parse_exactly(frame, len, kinds[i], &startup),
				  "verdict on %u octets of a %s", len, names[i]);
		}
	}
}

/* Use any wrong value of any octet, with any number of octets received. */
static void startup_reports_a_wrong_key_at_its_first_wrong_octet(void)
{
	struct mpa_frame startup;
	u8 frame[MPA_FRAME_LEN];

	for (u32 k = 0; k < ARRAY_SIZE(kinds); k++) {
		const u8 *other = keys[!k];

		for (u32 at = 0; at < MPA_KEY_LEN; at++) {
			for (u32 bits = 1; bits < 256; bits++) {
				make_frame(frame, kinds[k], C, 1, 0);
				frame[at] ^= bits;
				if (!memcmp(frame, other, MPA_KEY_LEN))
					continue;
				for (u32 len = 0; len <= sizeof(frame); len++) {
					u32 seen = parse_exactly(frame, len,
								 kinds[k],
								 &startup);

					EXPECT_EQ(len <= at ?
						  MPA_FRAME_MORE :
						  MPA_FRAME_BAD_KEY, seen,
						  "verdict on %u octets of a %s with octet %u wrong",
						  len, names[k], at);
				}
			}
		}
	}
}

static void startup_reports_the_frame_of_its_own_role(void)
{
	struct mpa_frame startup;
	u8 frame[MPA_FRAME_LEN];
	const u32 differs = 9;

	for (u32 k = 0; k < ARRAY_SIZE(kinds); k++) {
		make_frame(frame, kinds[!k], C, 1, 0);
		for (u32 len = 0; len <= sizeof(frame); len++) {
			EXPECT_EQ(len <= differs ? MPA_FRAME_MORE :
						   MPA_FRAME_SAME_KEY,
				  parse_exactly(frame, len, kinds[k], &startup),
				  "verdict on %u octets where a %s is due",
				  len, names[k]);
		}
		/* The key begins like our own frame's, but is neither key. */
		for (u32 at = differs + 1; at < MPA_KEY_LEN; at++) {
			make_frame(frame, kinds[!k], C, 1, 0);
			frame[at] ^= 0x20;
			for (u32 len = differs + 1; len <= sizeof(frame); len++) {
				EXPECT_EQ(len <= at ? MPA_FRAME_SAME_KEY :
						      MPA_FRAME_BAD_KEY,
					  parse_exactly(frame, len, kinds[k],
							&startup),
					  "verdict on %u octets, octet %u of neither key",
					  len, at);
			}
		}
	}
}

static void startup_limits_private_data_to_512_octets(void)
{
	struct mpa_frame startup;
	u8 frame[MPA_FRAME_LEN];

	for (u32 k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (u32 len = 0; len <= 65535; len++) {
			make_frame(frame, kinds[k], C, 1, len);
			EXPECT_EQ(len <= 512 ? MPA_FRAME_OK :
					       MPA_FRAME_BAD_LEN,
				  mpa_frame_parse(frame, sizeof(frame),
						  kinds[k], &startup),
				  "verdict on a %s with PD_Length %u",
				  names[k], len);
			if (len <= 512)
				EXPECT_EQ(len, startup.private_len,
					  "PD_Length of a %s", names[k]);
		}
	}
}

static void startup_ignores_reserved_bits(void)
{
	struct mpa_frame startup;
	u8 frame[MPA_FRAME_LEN];

	for (u32 k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (u32 flags = 0; flags < 256; flags++) {
			u8 known = kinds[k] == MPA_REQUEST ? M | C : M | C | R;

			make_frame(frame, kinds[k], flags, 1, 0);
			EXPECT_EQ(MPA_FRAME_OK,
				  parse_exactly(frame, sizeof(frame), kinds[k],
						&startup),
				  "verdict on a %s with flags 0x%02x",
				  names[k], flags);
			EXPECT_EQ(flags & known, startup.flags,
				  "flags of a %s with flags 0x%02x", names[k],
				  flags);
		}
	}
}

static void startup_ignores_r_in_a_request(void)
{
	struct mpa_frame startup;
	u8 frame[MPA_FRAME_LEN];

	make_frame(frame, MPA_REQUEST, R, 1, 0);
	EXPECT_EQ(MPA_FRAME_OK,
		  mpa_frame_parse(frame, sizeof(frame), MPA_REQUEST,
				  &startup), "verdict on a request with R");
	EXPECT_EQ(0, startup.flags, "its flags");
}

static void startup_keeps_r_of_a_reply(void)
{
	struct mpa_frame startup;
	u8 frame[MPA_FRAME_LEN];

	make_frame(frame, MPA_REPLY, R, 1, 0);
	EXPECT_EQ(MPA_FRAME_OK,
		  mpa_frame_parse(frame, sizeof(frame), MPA_REPLY, &startup),
		  "verdict on a reply with R");
	EXPECT_EQ(MPA_PEER_REJECTED, startup.flags, "its flags");
}

static void startup_reads_no_private_data(void)
{
	static u8 frame[MPA_FRAME_MAX];
	struct mpa_frame startup;

	/* The private data has arrived, but need not follow the frame in memory. */
	make_frame(frame, MPA_REPLY, M | C, 1, 512);
	for (u32 len = MPA_FRAME_LEN; len <= MPA_FRAME_MAX; len++) {
		u8 *fixed = kmalloc(MPA_FRAME_LEN, GFP_KERNEL);
		u32 seen;

		memcpy(fixed, frame, MPA_FRAME_LEN);
		seen = mpa_frame_parse(fixed, len, MPA_REPLY, &startup);
		kfree(fixed);
		EXPECT_EQ(MPA_FRAME_OK, seen, "verdict on %u octets", len);
		EXPECT_EQ(512, startup.private_len, "PD_Length");
	}
}

/* RFC 6581 section 6: before revision 2 the bit is reserved. */
static void startup_keeps_s_from_revision_2_on(void)
{
	struct mpa_frame startup;
	u8 frame[MPA_FRAME_LEN];

	for (u32 k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (u32 rev = 0; rev < 256; rev++) {
			make_frame(frame, kinds[k], S | C, rev, 4);
			EXPECT_EQ(MPA_FRAME_OK,
				  parse_exactly(frame, sizeof(frame), kinds[k],
						&startup),
				  "verdict on a %s of revision %u", names[k],
				  rev);
			EXPECT_EQ(rev < 2 ? C : C | S, startup.flags,
				  "flags of a %s of revision %u", names[k],
				  rev);
			EXPECT_EQ(rev, startup.revision, "revision");
		}
	}
}

static void startup_ignores_reserved_bits_of_revision_2(void)
{
	struct mpa_frame startup;
	u8 frame[MPA_FRAME_LEN];

	for (u32 k = 0; k < ARRAY_SIZE(kinds); k++) {
		u8 known = kinds[k] == MPA_REQUEST ? M | C | S : M | C | R | S;

		for (u32 flags = 0; flags < 256; flags++) {
			make_frame(frame, kinds[k], flags, 2, 4);
			EXPECT_EQ(MPA_FRAME_OK,
				  parse_exactly(frame, sizeof(frame), kinds[k],
						&startup),
				  "verdict on a %s with flags 0x%02x",
				  names[k], flags);
			EXPECT_EQ(flags & known, startup.flags,
				  "flags of a %s with flags 0x%02x", names[k],
				  flags);
		}
	}
}

/* S announces enhanced data, which needs four octets of private data. */
static void startup_with_s_has_four_octets_of_private_data(void)
{
	static const u8 revisions[] = { 0, 1, 2, 3, 255 };
	struct mpa_frame startup;
	u8 frame[MPA_FRAME_LEN];

	for (u32 k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (u32 i = 0; i < ARRAY_SIZE(revisions); i++) {
			for (u32 len = 0; len <= 513; len++) {
				bool bad = len > 512 ||
					   (revisions[i] >= 2 && len < 4);

				make_frame(frame, kinds[k], S, revisions[i],
					   len);
				EXPECT_EQ(bad ? MPA_FRAME_BAD_LEN :
						MPA_FRAME_OK,
					  parse_exactly(frame, sizeof(frame),
							kinds[k], &startup),
					  "verdict on a %s of revision %u with S and PD_Length %u",
					  names[k], revisions[i], len);
				/* A rejection without them is still a rejection. */
				make_frame(frame, MPA_REPLY, S | R,
					   revisions[i], len);
				EXPECT_EQ(len > 512 ? MPA_FRAME_BAD_LEN :
						      MPA_FRAME_OK,
					  parse_exactly(frame, sizeof(frame),
							MPA_REPLY, &startup),
					  "verdict on a rejection of revision %u with S and PD_Length %u",
					  revisions[i], len);
				make_frame(frame, kinds[k], 0, revisions[i],
					   len);
				EXPECT_EQ(len > 512 ? MPA_FRAME_BAD_LEN :
						      MPA_FRAME_OK,
					  parse_exactly(frame, sizeof(frame),
							kinds[k], &startup),
					  "verdict on a %s of revision %u without S and PD_Length %u",
					  names[k], revisions[i], len);
			}
		}
	}
}

/* RFC 6581 section 9: A, B, IRD, C, D, ORD, in network byte order. */
static void enhanced_data_looks_as_in_section9(void)
{
	static const struct {
		struct mpa_enhanced enhanced;
		u8 octets[MPA_ENHANCED_LEN];
	} cases[] = {
		{ { 0, 0, 0 }, { 0x00, 0x00, 0x00, 0x00 } },
		{ { 0x1234, 0x2b67, 0 }, { 0x12, 0x34, 0x2b, 0x67 } },
		{ { 0x3fff, 0, 0 }, { 0x3f, 0xff, 0x00, 0x00 } },
		{ { 0, 0x3fff, 0 }, { 0x00, 0x00, 0x3f, 0xff } },
		{ { 0, 0, MPA_START_P2P }, { 0x80, 0x00, 0x00, 0x00 } },
		{ { 0, 0, MPA_START_P2P | MPA_START_RTR_FPDU },
		  { 0xc0, 0x00, 0x00, 0x00 } },
		{ { 0, 0, MPA_START_P2P | MPA_START_RTR_WRITE },
		  { 0x80, 0x00, 0x80, 0x00 } },
		{ { 0, 0, MPA_START_P2P | MPA_START_RTR_READ },
		  { 0x80, 0x00, 0x40, 0x00 } },
		{ { 0x3fff, 0x3fff, MPA_START_P2P | MPA_START_RTR },
		  { 0xff, 0xff, 0xff, 0xff } },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		u8 octets[MPA_ENHANCED_LEN + 1];
		struct mpa_enhanced seen;

		octets[MPA_ENHANCED_LEN] = 0x5a;
		mpa_enhanced_put(octets, &cases[i].enhanced);
		EXPECT_OCTETS(cases[i].octets, octets, MPA_ENHANCED_LEN,
			      "case %u", i);
		EXPECT_EQ(0x5a, octets[MPA_ENHANCED_LEN],
			  "the octet after it");
		mpa_enhanced_get(cases[i].octets, &seen);
		EXPECT_EQ(cases[i].enhanced.ird, seen.ird, "IRD, case %u", i);
		EXPECT_EQ(cases[i].enhanced.ord, seen.ord, "ORD, case %u", i);
		EXPECT_EQ(cases[i].enhanced.control, seen.control,
			  "control flags, case %u", i);
	}
}

/* Section 9.2: "On reception, if Control Flag A is set to 0 [...]". */
static void enhanced_flags_without_a_are_ignored(void)
{
	static const u8 octets[] = { 0x7f, 0xff, 0xff, 0xff };
	struct mpa_enhanced seen;

	mpa_enhanced_get(octets, &seen);
	EXPECT_EQ(0, seen.control, "control flags");
	EXPECT_EQ(0x3fff, seen.ird, "IRD");
	EXPECT_EQ(0x3fff, seen.ord, "ORD");
}

/* A depth above 14 bits must not set a flag. */
static void enhanced_depths_have_14_bits(void)
{
	static const struct mpa_enhanced enhanced = { 0xffff, 0xffff, 0 };
	static const u8 expected[] = { 0x3f, 0xff, 0x3f, 0xff };
	u8 octets[MPA_ENHANCED_LEN];

	mpa_enhanced_put(octets, &enhanced);
	EXPECT_OCTETS(expected, octets, sizeof(octets), "enhanced data");
}

const struct unit_test startup_tests[] = {
	UNIT_TEST(startup_frames_look_as_in_figure8),
	UNIT_TEST(startup_flags_are_m_c_r_and_s),
	UNIT_TEST(startup_put_leaves_private_data_alone),
	UNIT_TEST(startup_frames_survive_the_round_trip),
	UNIT_TEST(startup_asks_for_more_while_all_is_right),
	UNIT_TEST(startup_reports_a_wrong_key_at_its_first_wrong_octet),
	UNIT_TEST(startup_reports_the_frame_of_its_own_role),
	UNIT_TEST(startup_limits_private_data_to_512_octets),
	UNIT_TEST(startup_ignores_reserved_bits),
	UNIT_TEST(startup_ignores_r_in_a_request),
	UNIT_TEST(startup_keeps_r_of_a_reply),
	UNIT_TEST(startup_reads_no_private_data),
	UNIT_TEST(startup_keeps_s_from_revision_2_on),
	UNIT_TEST(startup_ignores_reserved_bits_of_revision_2),
	UNIT_TEST(startup_with_s_has_four_octets_of_private_data),
	UNIT_TEST(enhanced_data_looks_as_in_section9),
	UNIT_TEST(enhanced_flags_without_a_are_ignored),
	UNIT_TEST(enhanced_depths_have_14_bits),
	{ }
};
