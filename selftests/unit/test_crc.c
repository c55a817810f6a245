// SPDX-License-Identifier: GPL-2.0
/* CRCs of three buffers at a time, and of contiguous FPDUs. */

#include "compat.h"
#include "model.h"
#include "unit.h"

#define RUN_FPDUS	8
#define RUN_OCTETS	(RUN_FPDUS * (MPA_CRC3_MAX + 16))

static u8 octets[RUN_OCTETS];

static void fill(u32 state)
{
	for (u32 i = 0; i < sizeof(octets); i++) {
		state = state * 1664525 + 1013904223;
		octets[i] = state >> 24;
	}
}

/* As model_crc(), for octets that are no FPDU. */
static u32 model(const u8 *from, u32 len)
{
	u8 crc[4];

	model_crc(from, len, crc);
	return ~get_unaligned_le32(crc);
}

static void check_three(const u8 *a, const u8 *b, const u8 *c, u32 len)
{
	u32 crc[3] = { MPA_CRC_INIT, MPA_CRC_INIT, MPA_CRC_INIT };

	mpa_crc32c_3(crc, a, b, c, len);
	EXPECT_EQ(model(a, len), crc[0], "CRC of the first, %u octets", len);
	EXPECT_EQ(model(b, len), crc[1], "CRC of the second, %u octets", len);
	EXPECT_EQ(model(c, len), crc[2], "CRC of the third, %u octets", len);
}

static void crc3_is_used_where_the_processor_has_it(void)
{
	EXPECT_EQ(mpa_has_crc32(), mpa_crc3_on, "in use");
	EXPECT_EQ(mpa_crc3_on ? 3 : 1, mpa_crc_parallel(1448),
		  "FPDUs of an Ethernet frame at a time");
	EXPECT_EQ(mpa_crc3_on ? 3 : 1, mpa_crc_parallel(MPA_CRC3_MAX),
		  "the longest at a time");
	EXPECT_EQ(1, mpa_crc_parallel(MPA_CRC3_MAX + 1),
		  "longer ones at a time");
}

static void crc3_is_the_models_at_every_length(void)
{
	fill(1);
	for (u32 len = 0; len <= 600; len += 4)
		check_three(octets + len % 8, octets + 700 + len % 7,
			    octets + 1400 + len % 5, len);
	for (u32 len = 1380; len <= 1480; len += 4)
		check_three(octets, octets + len, octets + 2 * len, len);
}

static void crc3_is_the_models_at_every_address(void)
{
	static const u32 lens[] = { 0, 4, 8, 12, 60, 64, 68, 124, 128, 140 };

	fill(2);
	for (u32 i = 0; i < ARRAY_SIZE(lens) * 512; i++)
		check_three(octets + i % 8, octets + 200 + i / 8 % 8,
			    octets + 400 + i / 64 % 8, lens[i / 512]);
}

/* Each buffer continues its own CRC of earlier octets. */
static void crc3_continues_from_the_octets_before(void)
{
	const u8 *b = octets + 1000, *c = octets + 2000;
	u32 crc[3];

	fill(3);
	for (u32 at = 0; at <= 200; at += 4) {
		crc[0] = mpa_crc_update(MPA_CRC_INIT, octets, at);
		crc[1] = mpa_crc_update(MPA_CRC_INIT, b, at);
		crc[2] = mpa_crc_update(MPA_CRC_INIT, c, at);
		mpa_crc32c_3(crc, octets + at, b + at, c + at, 200 - at);
		EXPECT_EQ(model(octets, 200), crc[0], "first, from %u", at);
		EXPECT_EQ(model(b, 200), crc[1], "second, from %u", at);
		EXPECT_EQ(model(c, 200), crc[2], "third, from %u", at);
	}
}

/* ---- contiguous FPDUs ---- */

static const u32 run_lens[] = {
	8, 12, 72, 76, 128, 512, 1444, 1448, MPA_CRC3_MAX, MPA_CRC3_MAX + 4,
};

/* CRCs are equal to those written one by one. Octets after the last FPDU are unchanged. */
static void crc_run_is_put_as_one_by_one(void)
{
	u8 crc[4], before[MPA_CRC_LEN];

	for (u32 i = 0; i < ARRAY_SIZE(run_lens); i++) {
		for (u32 nr = 0; nr < RUN_FPDUS; nr++) {
			u32 len = run_lens[i];

			fill(nr + 10);
			memcpy(before, octets + (nr + 1) * len - MPA_CRC_LEN,
			       MPA_CRC_LEN);
			mpa_crc_put_many(octets, len, nr);
			for (u32 j = 0; j < nr; j++) {
				model_crc(octets + j * len, len - MPA_CRC_LEN,
					  crc);
				EXPECT_OCTETS(crc, octets + (j + 1) * len -
					      MPA_CRC_LEN, MPA_CRC_LEN,
					      "FPDU %u of %u of %u octets", j,
					      nr, len);
			}
			EXPECT_OCTETS(before, octets + (nr + 1) * len -
				      MPA_CRC_LEN, MPA_CRC_LEN,
				      "FPDU after %u of %u octets", nr, len);
		}
	}
}

static void crc_run_ends_before_the_first_bad_fpdu(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(run_lens); i++) {
		u32 len = run_lens[i];

		fill(30 + i);
		mpa_crc_put_many(octets, len, RUN_FPDUS);
		for (u32 nr = 0; nr <= RUN_FPDUS; nr++)
			EXPECT_EQ(nr, mpa_crc_match_many(octets, len, nr),
				  "good ones of %u octets", len);
		/*
		 * One octet of one FPDU is wrong: the first, the middle or the last, or
		 * one in the CRC.
		 */
		for (u32 bad = 0; bad < RUN_FPDUS; bad++) {
			u32 places[] = { 0, len / 2, len - 5, len - 4, len - 1 };

			for (u32 j = 0; j < ARRAY_SIZE(places); j++) {
				u8 *at = octets + bad * len + places[j];

				*at ^= 0x10;
				EXPECT_EQ(bad, mpa_crc_match_many(octets, len,
								  RUN_FPDUS),
					  "octet %u of FPDU %u of %u octets",
					  places[j], bad, len);
				*at ^= 0x10;
			}
		}
	}
}

/* Two FPDUs are wrong: the run ends before the first of them. */
static void crc_run_ends_before_the_first_of_two(void)
{
	const u32 len = 1448;

	fill(50);
	mpa_crc_put_many(octets, len, RUN_FPDUS);
	for (u32 one = 0; one < RUN_FPDUS; one++) {
		for (u32 two = one + 1; two < RUN_FPDUS; two++) {
			octets[one * len + 7] ^= 1;
			octets[two * len] ^= 1;
			EXPECT_EQ(one, mpa_crc_match_many(octets, len,
							  RUN_FPDUS),
				  "bad are %u and %u", one, two);
			octets[one * len + 7] ^= 1;
			octets[two * len] ^= 1;
		}
	}
}

const struct unit_test crc_tests[] = {
	UNIT_TEST(crc3_is_used_where_the_processor_has_it),
	UNIT_TEST(crc3_is_the_models_at_every_length),
	UNIT_TEST(crc3_is_the_models_at_every_address),
	UNIT_TEST(crc3_continues_from_the_octets_before),
	UNIT_TEST(crc_run_is_put_as_one_by_one),
	UNIT_TEST(crc_run_ends_before_the_first_bad_fpdu),
	UNIT_TEST(crc_run_ends_before_the_first_of_two),
	{ }
};
