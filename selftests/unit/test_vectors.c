// SPDX-License-Identifier: GPL-2.0
/*
 * The FPDUs printed in RFC 5044 (figures 5 and 6) and in draft-culley-iwarp-mpa-01
 * (figures of the same numbers).
 */

#include "engine.h"
#include "unit.h"

#define VECTOR_ULPDU	42

struct vector {
	const char *name;
	u32 pos;
	u32 marker_off;
	u16 fpduptr;
	u32 register_value;	/* the CRC after its final inversion */
	u8 ddp[VECTOR_ULPDU];
	u8 fpdu[52];
};

#define DDP(control0, control1, msn) {					\
	control0, control1, 0, 0, 0, 0,					\
	0, 0, 0, 0, 0, 0, 0, msn,					\
	0, 0, 0, 0,							\
}

static const struct vector rfc5044_figure5 = {
	.name = "RFC 5044 figure 5",
	.pos = 0,
	.marker_off = 0,
	.fpduptr = 0,
	.register_value = 0x83992352,
	.ddp = DDP(0x41, 0x43, 1),
	.fpdu = {
		0x00, 0x00, 0x00, 0x00,		/* marker */
		0x00, 0x2a, 0x41, 0x43,
		[0x13] = 0x01,
		[0x30] = 0x52, 0x23, 0x99, 0x83,
	},
};

static const struct vector rfc5044_figure6 = {
	.name = "RFC 5044 figure 6",
	.pos = 0x1ec,
	.marker_off = 0x14,
	.fpduptr = 0x14,
	.register_value = 0x98589284,
	.ddp = DDP(0x41, 0x43, 2),
	.fpdu = {
		0x00, 0x2a, 0x41, 0x43,
		[0x0f] = 0x02,
		[0x14] = 0x00, 0x00, 0x00, 0x14,	/* marker */
		[0x30] = 0x84, 0x92, 0x58, 0x98,
	},
};

static const struct vector culley_figure5 = {
	.name = "draft-culley-iwarp-mpa-01 figure 5",
	.pos = 0,
	.marker_off = 0,
	.fpduptr = 0,
	.register_value = 0x84b3864c,
	.ddp = DDP(0x40, 0x03, 1),
	.fpdu = {
		0x00, 0x00, 0x00, 0x00,		/* marker */
		0x00, 0x2a, 0x40, 0x03,
		[0x13] = 0x01,
		[0x30] = 0x4c, 0x86, 0xb3, 0x84,
	},
};

static const struct vector culley_figure6 = {
	.name = "draft-culley-iwarp-mpa-01 figure 6",
	.pos = 0x1ec,
	.marker_off = 0x14,
	.fpduptr = 0x14,
	.register_value = 0x03d19ca1,
	.ddp = DDP(0x40, 0x03, 2),
	.fpdu = {
		0x00, 0x2a, 0x40, 0x03,
		[0x0f] = 0x02,
		[0x14] = 0x00, 0x00, 0x00, 0x14,	/* marker */
		[0x30] = 0xa1, 0x9c, 0xd1, 0x03,
	},
};

static void check_crc(const struct vector *v)
{
	const u8 *field = v->fpdu + sizeof(v->fpdu) - MPA_CRC_LEN;
	u32 len = sizeof(v->fpdu) - MPA_CRC_LEN;
	u8 put[MPA_CRC_LEN], wrong[MPA_CRC_LEN];
	u32 crc, again;

	crc = mpa_crc_update(MPA_CRC_INIT, v->fpdu, len);
	EXPECT_EQ(v->register_value, (u32)~crc, "CRC32c");

	again = mpa_crc_update(MPA_CRC_INIT, v->fpdu, 0);
	for (u32 i = 0; i < len; i++)
		again = mpa_crc_update(again, v->fpdu + i, 1);
	EXPECT_EQ(crc, again, "CRC32c octet by octet");

	mpa_crc_put(crc, put);
	EXPECT_OCTETS(field, put, MPA_CRC_LEN, "CRC field");
	EXPECT_EQ(true, mpa_crc_match(crc, field), "the printed CRC matches");
	for (u32 bit = 0; bit < 8 * MPA_CRC_LEN; bit++) {
		memcpy(wrong, field, MPA_CRC_LEN);
		wrong[bit / 8] ^= 1 << bit % 8;
		EXPECT_EQ(false, mpa_crc_match(crc, wrong),
			  "CRC with bit %u flipped matches", bit);
	}
}

static void check_layout(const struct vector *v)
{
	u8 marker[MPA_MARKER_LEN];
	struct mpa_field_span run;
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, v->pos, VECTOR_ULPDU, true);
	EXPECT_EQ(v->pos, fpdu.pos, "pos");
	EXPECT_EQ(VECTOR_ULPDU, fpdu.ulpdu_len, "ulpdu_len");
	EXPECT_EQ(sizeof(v->fpdu), fpdu.len, "octets of the FPDU");
	EXPECT_EQ(1, fpdu.markers, "markers");
	EXPECT_EQ(v->marker_off ? 0 : MPA_MARKER_LEN, fpdu.head,
		  "offset of ULPDU_Length");

	mpa_fpdu_field_at(&fpdu, v->marker_off, &run);
	EXPECT_EQ(MPA_FIELD_MARKER, run.field, "field at 0x%x", v->marker_off);
	EXPECT_EQ(v->fpduptr, mpa_fpdu_ptr(&fpdu, v->marker_off), "FPDUPTR");
	mpa_marker_put(marker, v->fpduptr);
	EXPECT_OCTETS(v->fpdu + v->marker_off, marker, MPA_MARKER_LEN,
		      "marker");
	EXPECT_EQ(v->fpduptr, mpa_marker_get(v->fpdu + v->marker_off),
		  "FPDUPTR read back");
	EXPECT_EQ(v->marker_off, mpa_marker_distance(v->pos),
		  "octets to the marker");
}

static void check_vector(const struct vector *v)
{
	struct engine_receiver receiver = {
		.pos = v->pos,
		.format = { .marked = true, .crc = true },
		.octets = v->fpdu,
		.count = sizeof(v->fpdu),
	};
	static u8 ulpdu[MPA_ULPDU_MAX];
	u8 fpdu[sizeof(v->fpdu)];
	u32 len;

	unit_context("%s", v->name);
	check_crc(v);
	check_layout(v);

	len = engine_send(v->pos, true, v->ddp, VECTOR_ULPDU, fpdu);
	EXPECT_EQ(sizeof(v->fpdu), len, "octets sent run by run");
	EXPECT_OCTETS(v->fpdu, fpdu, len, "sent run by run");

	memset(fpdu, 0xee, sizeof(fpdu));
	len = engine_send_octets(v->pos, true, v->ddp, VECTOR_ULPDU, fpdu);
	EXPECT_EQ(sizeof(v->fpdu), len, "octets sent octet by octet");
	EXPECT_OCTETS(v->fpdu, fpdu, len, "sent octet by octet");

	EXPECT_EQ(ENGINE_GOOD, engine_receive(&receiver, ulpdu, &len),
		  "verdict of the receiver");
	EXPECT_EQ(VECTOR_ULPDU, len, "octets of ULPDU received");
	EXPECT_OCTETS(v->ddp, ulpdu, len, "ULPDU received");
	EXPECT_EQ(0, receiver.count, "octets left over");
}

static void vector_rfc5044_figure5(void)
{
	check_vector(&rfc5044_figure5);
}

static void vector_rfc5044_figure6(void)
{
	check_vector(&rfc5044_figure6);
}

static void vector_culley_figure5(void)
{
	check_vector(&culley_figure5);
}

static void vector_culley_figure6(void)
{
	check_vector(&culley_figure6);
}

/* Figure 6 follows an FPDU of 492 octets: a marker, and 482 octets of ULPDU. */
static void vector_rfc5044_figure6_predecessor(void)
{
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, 0, 482, true);
	EXPECT_EQ(0x1ec, fpdu.len, "octets of the first FPDU");
	EXPECT_EQ(1, fpdu.markers, "markers in the first FPDU");
}

/* The RFC prints the whole figure, except the CRC. */
static void vector_rfc5044_figure4(void)
{
	static const u8 figure[] = {
		0x00, 0x10, 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u',
		0x00, 0x00, 0x00, 0x0c,
		'u', 'u', 'u', 'u', 'u', 'u', 0x00, 0x00,
	};
	u8 ulpdu[16], fpdu[sizeof(figure) + MPA_CRC_LEN];
	u32 len;

	memset(ulpdu, 'u', sizeof(ulpdu));
	len = engine_send(MPA_MARKER_INTERVAL - 12, true, ulpdu, sizeof(ulpdu),
			  fpdu);
	EXPECT_EQ(sizeof(fpdu), len, "octets of the FPDU");
	EXPECT_OCTETS(figure, fpdu, sizeof(figure), "FPDU before its CRC");
}

/* RFC 3720 section B.4. */
static void vector_rfc3720_crc(void)
{
	static const u8 zeros_crc[] = { 0xaa, 0x36, 0x91, 0x8a };
	static const u8 ones_crc[] = { 0x43, 0xab, 0xa8, 0x62 };
	static const u8 down_crc[] = { 0x5c, 0xdb, 0x3f, 0x11 };
	static const u8 up_crc[] = { 0x4e, 0x79, 0xdd, 0x46 };
	u8 data[32], crc[MPA_CRC_LEN];

	memset(data, 0, sizeof(data));
	mpa_crc_put(mpa_crc_update(MPA_CRC_INIT, data, sizeof(data)), crc);
	EXPECT_OCTETS(zeros_crc, crc, sizeof(crc), "CRC of 32 zeros");

	memset(data, 0xff, sizeof(data));
	mpa_crc_put(mpa_crc_update(MPA_CRC_INIT, data, sizeof(data)), crc);
	EXPECT_OCTETS(ones_crc, crc, sizeof(crc), "CRC of 32 octets of ones");

	for (u32 i = 0; i < sizeof(data); i++)
		data[i] = i;
	mpa_crc_put(mpa_crc_update(MPA_CRC_INIT, data, sizeof(data)), crc);
	EXPECT_OCTETS(up_crc, crc, sizeof(crc), "CRC of 0 to 31");

	for (u32 i = 0; i < sizeof(data); i++)
		data[i] = 31 - i;
	mpa_crc_put(mpa_crc_update(MPA_CRC_INIT, data, sizeof(data)), crc);
	EXPECT_OCTETS(down_crc, crc, sizeof(crc), "CRC of 31 to 0");
}

const struct unit_test vector_tests[] = {
	UNIT_TEST(vector_rfc5044_figure5),
	UNIT_TEST(vector_rfc5044_figure6),
	UNIT_TEST(vector_culley_figure5),
	UNIT_TEST(vector_culley_figure6),
	UNIT_TEST(vector_rfc5044_figure6_predecessor),
	UNIT_TEST(vector_rfc5044_figure4),
	UNIT_TEST(vector_rfc3720_crc),
	{ }
};
