// SPDX-License-Identifier: GPL-2.0
/* Startup frames and enhanced data, read and written: code and model must agree. */

#include "compare.h"
#include "fuzz.h"

static const char keys[2][MPA_KEY_LEN + 1] = {
	[MPA_REQUEST]	= "MPA ID Req Frame",
	[MPA_REPLY]	= "MPA ID Rep Frame",
};

static void both_look(const u8 *frame, u32 len)
{
	fuzz_note("startup frame of %llu octets", len, 0);
	compare_startup(frame, len, MPA_REQUEST);
	compare_startup(frame, len, MPA_REPLY);
}

/* Combine a frame that has its key with the input. */
static void nearly_right(struct fuzz_input *in)
{
	u8 frame[MPA_FRAME_LEN + 4] = { 0 };
	u32 len;

	memcpy(frame, keys[fuzz_take(in, 1) & 1], MPA_KEY_LEN);
	len = min_t(size_t, in->size, sizeof(frame));
	for (u32 i = 0; i < len; i++)
		frame[i] ^= in->data[i];
	both_look(frame, len);
}

/* Use the right key; the input decides how many octets have arrived. */
static void fields(struct fuzz_input *in)
{
	u32 kind = fuzz_take(in, 1);
	u8 frame[MPA_FRAME_LEN];

	memcpy(frame, keys[kind & 1], MPA_KEY_LEN);
	for (u32 i = MPA_KEY_LEN; i < sizeof(frame); i++)
		frame[i] = fuzz_take(in, 1);
	if (kind & 2)
		frame[18] &= 3;
	both_look(frame, sizeof(frame));
	both_look(frame, fuzz_take(in, 1) % sizeof(frame));
}

static void round_trip(struct fuzz_input *in)
{
	enum mpa_frame_kind kind = fuzz_take(in, 1) & 1;
	bool long_enough, rejects;
	struct mpa_frame sent = {
		.flags = fuzz_take(in, 1) &
			 (MPA_PEER_MARKERS | MPA_PEER_CRC | MPA_PEER_REJECTED |
			  MPA_PEER_ENHANCED),
		.revision = fuzz_take(in, 1),
		.private_len = fuzz_take(in, 2),
	};
	u8 frame[MPA_FRAME_LEN];
	struct model_frame seen;

	fuzz_note("frame with flags 0x%llx and PD_Length %llu", sent.flags,
		  sent.private_len);
	if (kind == MPA_REQUEST)
		sent.flags &= ~MPA_PEER_REJECTED;
	if (sent.revision < 2)
		sent.flags &= ~MPA_PEER_ENHANCED;
	mpa_frame_put(frame, kind, &sent);
	EXPECT_OCTETS((const u8 *)keys[kind], frame, MPA_KEY_LEN, "key");
	both_look(frame, sizeof(frame));

	rejects = sent.flags & MPA_PEER_REJECTED;
	long_enough = !(sent.flags & MPA_PEER_ENHANCED) ||
		      sent.private_len >= 4;
	EXPECT_EQ(sent.private_len <= 512 && (long_enough || rejects) ?
		  MODEL_STARTUP_GOOD : MODEL_STARTUP_BAD_LENGTH,
		  model_startup(frame, sizeof(frame), kind == MPA_REQUEST,
				&seen), "model's verdict");
	EXPECT_EQ(!!(sent.flags & MPA_PEER_MARKERS), seen.m, "M");
	EXPECT_EQ(!!(sent.flags & MPA_PEER_CRC), seen.c, "C");
	EXPECT_EQ(!!(sent.flags & MPA_PEER_REJECTED), seen.r, "R");
	EXPECT_EQ(sent.flags & MPA_PEER_ENHANCED && (long_enough || !rejects),
		  seen.s, "S");
	EXPECT_EQ(sent.revision, seen.rev, "Rev");
	EXPECT_EQ(sent.private_len, seen.pd_length, "PD_Length");
}

static void enhanced_data(struct fuzz_input *in)
{
	u8 octets[MPA_ENHANCED_LEN];

	for (u32 i = 0; i < sizeof(octets); i++)
		octets[i] = fuzz_take(in, 1);
	fuzz_note("enhanced data %04llx %04llx", octets[0] << 8 | octets[1],
		  octets[2] << 8 | octets[3]);
	compare_enhanced(octets);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { .data = data, .size = size };

	switch (fuzz_take(&in, 1) % 5) {
	case 0:
		both_look(in.data, in.size);
		break;
	case 1:
		nearly_right(&in);
		break;
	case 2:
		fields(&in);
		break;
	case 3:
		round_trip(&in);
		break;
	case 4:
		enhanced_data(&in);
		break;
	}
	return 0;
}
