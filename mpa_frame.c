// SPDX-License-Identifier: GPL-2.0
/* Startup frames: RFC 5044 section 7.1.1, RFC 6581 section 9. */

#include "compat.h"
#include "mpa_proto.h"

static const char mpa_keys[][MPA_KEY_LEN + 1] = {
	[MPA_REQUEST]	= "MPA ID Req Frame",
	[MPA_REPLY]	= "MPA ID Rep Frame",
};

/**
 * mpa_frame_put() - write the fixed part of a startup frame
 * @frame:	MPA_FRAME_LEN octets; private data goes behind them
 * @kind:	request or reply
 * @startup:	what it says
 */
void mpa_frame_put(u8 *frame, enum mpa_frame_kind kind,
		   const struct mpa_frame *startup)
{
	memcpy(frame, mpa_keys[kind], MPA_KEY_LEN);
	frame[16] = startup->flags;
	frame[17] = startup->revision;
	put_unaligned_be16(startup->private_len, frame + 18);
}

/**
 * mpa_frame_parse() - look at what should be a startup frame
 * @frame:	octets received so far, at least the first MPA_FRAME_LEN if
 *		that many are there
 * @len:	how many those are
 * @expected:	which frame is due
 * @startup:	filled in when the verdict is MPA_FRAME_OK
 *
 * A wrong key is told from its first wrong octet on. Reserved bits are not
 * checked; neither is R in a request, where it reads as zero, nor S before
 * revision 2, where it is reserved. Whether the revision can be served is for
 * the caller to say. A rejection without the depths that S announces is one all
 * the same: it is told without S.
 */
enum mpa_frame_verdict
mpa_frame_parse(const u8 *frame, u32 len, enum mpa_frame_kind expected,
		struct mpa_frame *startup)
{
	u32 key_len = min_t(u32, len, MPA_KEY_LEN);

	if (memcmp(frame, mpa_keys[expected], key_len)) {
		if (memcmp(frame, mpa_keys[!expected], key_len))
			return MPA_FRAME_BAD_KEY;
		return MPA_FRAME_SAME_KEY;
	}
	if (len < MPA_FRAME_LEN)
		return MPA_FRAME_MORE;

	startup->revision = frame[17];
	startup->flags = frame[16] & (MPA_PEER_MARKERS | MPA_PEER_CRC);
	if (expected == MPA_REPLY)
		startup->flags |= frame[16] & MPA_PEER_REJECTED;
	if (startup->revision >= 2)
		startup->flags |= frame[16] & MPA_PEER_ENHANCED;
	startup->private_len = get_unaligned_be16(frame + 18);
	if (startup->private_len > MPA_PRIVATE_DATA_MAX)
		return MPA_FRAME_BAD_LEN;
	if (startup->flags & MPA_PEER_ENHANCED &&
	    startup->private_len < MPA_ENHANCED_LEN) {
		if (!(startup->flags & MPA_PEER_REJECTED))
			return MPA_FRAME_BAD_LEN;
		startup->flags &= ~MPA_PEER_ENHANCED;
	}
	return MPA_FRAME_OK;
}

/* RFC 6581 section 9: two bits of control in front of each 14-bit depth. */
#define MPA_CONTROL_HIGH	0x8000	/* A, C */
#define MPA_CONTROL_LOW		0x4000	/* B, D */

/**
 * mpa_enhanced_put() - write enhanced connection establishment data
 * @field:	four octets
 * @enhanced:	what they say
 */
void mpa_enhanced_put(u8 *field, const struct mpa_enhanced *enhanced)
{
	u16 ird = enhanced->ird & MPA_DEPTH_MAX;
	u16 ord = enhanced->ord & MPA_DEPTH_MAX;

	if (enhanced->control & MPA_START_P2P)
		ird |= MPA_CONTROL_HIGH;
	if (enhanced->control & MPA_START_RTR_FPDU)
		ird |= MPA_CONTROL_LOW;
	if (enhanced->control & MPA_START_RTR_WRITE)
		ord |= MPA_CONTROL_HIGH;
	if (enhanced->control & MPA_START_RTR_READ)
		ord |= MPA_CONTROL_LOW;
	put_unaligned_be16(ird, field);
	put_unaligned_be16(ord, field + 2);
}

/**
 * mpa_enhanced_get() - read enhanced connection establishment data
 * @field:	four octets
 * @enhanced:	filled in; without A, the flags B to D are ignored (RFC 6581
 *		section 9.2)
 */
void mpa_enhanced_get(const u8 *field, struct mpa_enhanced *enhanced)
{
	u16 ord = get_unaligned_be16(field + 2);
	u16 ird = get_unaligned_be16(field);

	enhanced->ird = ird & MPA_DEPTH_MAX;
	enhanced->ord = ord & MPA_DEPTH_MAX;
	enhanced->control = 0;
	if (!(ird & MPA_CONTROL_HIGH))
		return;
	enhanced->control = MPA_START_P2P;
	if (ird & MPA_CONTROL_LOW)
		enhanced->control |= MPA_START_RTR_FPDU;
	if (ord & MPA_CONTROL_HIGH)
		enhanced->control |= MPA_START_RTR_WRITE;
	if (ord & MPA_CONTROL_LOW)
		enhanced->control |= MPA_START_RTR_READ;
}
