// SPDX-License-Identifier: GPL-2.0
/*
 * Startup frames and their negotiation: RFC 5044 section 7.1 and appendix C,
 * RFC 6581 section 9.
 */

#include "compat.h"
#include "mpa_proto.h"

static const char mpa_keys[][MPA_KEY_LEN + 1] = {
	[MPA_REQUEST]	= "MPA ID Req Frame",
	[MPA_REPLY]	= "MPA ID Rep Frame",
};

/* Write the fixed part of a startup frame, MPA_FRAME_LEN octets. */
void mpa_frame_put(u8 *frame, enum mpa_frame_kind kind,
		   const struct mpa_frame *startup)
{
	memcpy(frame, mpa_keys[kind], MPA_KEY_LEN);
	frame[16] = startup->flags;
	frame[17] = startup->revision;
	put_unaligned_be16(startup->private_len, frame + 18);
}

/*
 * Parse the first @len octets of a startup frame. On MPA_FRAME_OK fill in
 * @startup.
 *
 * Report a wrong key at its first wrong octet. Ignore reserved bits, R in a
 * request and S before revision 2. The caller checks the revision. A rejection
 * too short for the depths that S announces is still a rejection: clear S.
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

/* RFC 6581 section 9: two control bits precede each 14-bit depth. */
#define MPA_CONTROL_HIGH	0x8000	/* A, C */
#define MPA_CONTROL_LOW		0x4000	/* B, D */

/* Write the four octets of enhanced connection establishment data. */
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

/* Without A, ignore the flags B to D (RFC 6581 section 9.2). */
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

/*
 * Return the revision to use, or -1. Appendix C: the Rev fields of request and
 * reply may differ if one peer follows the RDMA Consortium's specification and
 * the other is permissive. RFC 6581 section 6: revision 2 includes revision 1.
 */
static int mpa_agree_rev(const struct mpa_offer *offer, u8 theirs)
{
	bool initiator = offer->role == MPA_ROLE_INITIATOR;

	if (!offer->revision)
		return !theirs || (!initiator && theirs <= 2) ? 0 : -1;
	/* An initiator that asks for enhanced setup accepts only its own revision. */
	if (initiator && offer->flags & MPA_START_ENHANCED)
		return theirs == offer->revision ? theirs : -1;
	if (!theirs)
		return offer->flags & MPA_START_PERMISSIVE ? 0 : -1;
	return theirs <= offer->revision ? theirs : -1;
}

/* Return the revision to use after the peer's frame, or -1. */
int mpa_agree_revision(const struct mpa_offer *offer,
		       const struct mpa_frame *frame)
{
	/* Section 7.1.2 rule 3: a rejection counts whatever else it says. */
	if (frame->flags & MPA_PEER_REJECTED)
		return offer->revision;
	/* RFC 6581 section 10: the reply is enhanced if the request is. */
	if (offer->role == MPA_ROLE_INITIATOR &&
	    !(offer->flags & MPA_START_ENHANCED) !=
	    !(frame->flags & MPA_PEER_ENHANCED))
		return -1;
	/* Revision 0 has no enhanced reply. */
	if (!offer->revision && frame->flags & MPA_PEER_ENHANCED)
		return -1;
	return mpa_agree_rev(offer, frame->revision);
}

/*
 * Return the RTR indication to generate, "at the initiator's sole discretion"
 * (RFC 6581 section 1.1), or 0 for none. @ird: the IRD in the reply. Even a
 * zero-length Read takes a place in the peer's queue.
 *
 * B is the last choice: RFC 6581 section 9.2 calls it a zero-length Send, but
 * RFC 5044 section 3 has no empty ULPDU, and a peer may expect a DDP header.
 */
u32 mpa_agree_rtr(u32 ours, u32 theirs, u16 ird)
{
	u32 both = ours & theirs & MPA_START_RTR;

	if (both & MPA_START_RTR_WRITE)
		return MPA_START_RTR_WRITE;
	if (!ird)
		both &= ~MPA_START_RTR_READ;
	if (both & MPA_START_RTR_READ)
		return MPA_START_RTR_READ;
	return both;
}

/*
 * Return the RTR indications that the responder's reply names, at least one.
 *
 * If the program names none, take Write and Read, as the layer above handles
 * either, or B if the peer names only B. If the peer names some of ours, name
 * only these. RFC 6581 section 9.2 lets a reply name more, but some initiators
 * then choose an indication that they have not requested. If the IRD is 0, do
 * not name Read along with others: some initiators give up.
 */
static u32 mpa_agree_offer(u32 ours, u32 theirs, u16 ird)
{
	u32 offer;

	ours &= MPA_START_RTR;
	theirs &= MPA_START_RTR;
	if (!ours)
		ours = theirs == MPA_START_RTR_FPDU ? theirs :
		       MPA_START_RTR_WRITE | MPA_START_RTR_READ;
	offer = ours & theirs ?: ours;
	if (!ird && offer != MPA_START_RTR_READ)
		offer &= ~MPA_START_RTR_READ;
	return offer;
}

/*
 * Return the depth to use: ours, limited by the peer's (RFC 6581 section 9.1).
 * If the peer's is 0x3fff, use ours; if ours is 0x3fff, use the peer's.
 */
u16 mpa_agree_limit(u16 ours, u16 theirs)
{
	return theirs == MPA_DEPTH_BY_USER ? ours : min(ours, theirs);
}

/* Return @depth, at least 1 for an RTR that is a Read (even of zero length). */
u16 mpa_agree_depth(u16 depth, u32 control)
{
	return control & MPA_START_RTR_READ && !depth ? 1 : depth;
}

/*
 * Build an enhanced reply (RFC 6581 section 9): A as in the request, our ORD at
 * most the peer's IRD unless @reject. @offer: how we were started; @ours: the
 * depths to reply with; @theirs: the request.
 */
void mpa_agree_reply(const struct mpa_offer *offer,
		     const struct mpa_offer *ours,
		     const struct mpa_enhanced *theirs, bool reject,
		     struct mpa_enhanced *reply)
{
	reply->control = 0;
	if (theirs->control & MPA_START_P2P)
		reply->control = MPA_START_P2P |
				 mpa_agree_offer(offer->flags,
						 theirs->control, ours->ird);
	reply->ird = theirs->ord == MPA_DEPTH_BY_USER ? MPA_DEPTH_BY_USER :
		     mpa_agree_depth(ours->ird, reply->control);
	if (theirs->ird == MPA_DEPTH_BY_USER)
		reply->ord = MPA_DEPTH_BY_USER;
	else
		reply->ord = reject ? ours->ord : min(ours->ord, theirs->ird);
}
