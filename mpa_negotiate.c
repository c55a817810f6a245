// SPDX-License-Identifier: GPL-2.0
/*
 * Startup frames, and what those of both ends agree on: RFC 5044 section 7.1 and
 * appendix C, RFC 6581 section 9.
 */

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

/* ---- what the two ends agree on ---- */

/*
 * The revision to go on with, or -1. Appendix C: the Rev fields of request and
 * reply may differ, where one peer is of the RDMA Consortium's kind and the
 * other permissive. RFC 6581 section 6: who speaks 2 serves 1 as well.
 */
static int mpa_agree_rev(const struct mpa_offer *offer, u8 theirs)
{
	bool initiator = offer->role == MPA_ROLE_INITIATOR;

	if (!offer->revision)
		return !theirs || (!initiator && theirs <= 2) ? 0 : -1;
	/* An initiator that asks for enhanced setup accepts nothing else. */
	if (initiator && offer->flags & MPA_START_ENHANCED)
		return theirs == offer->revision ? theirs : -1;
	if (!theirs)
		return offer->flags & MPA_START_PERMISSIVE ? 0 : -1;
	return theirs <= offer->revision ? theirs : -1;
}

/**
 * mpa_agree_revision() - whether the peer's frame is one to go on with
 * @offer:	what we want
 * @frame:	the peer's frame
 *
 * Return: the revision to go on with, or -1.
 */
int mpa_agree_revision(const struct mpa_offer *offer,
		       const struct mpa_frame *frame)
{
	/* Rule 3 of section 7.1.2: a rejection counts whatever else it says. */
	if (frame->flags & MPA_PEER_REJECTED)
		return offer->revision;
	/* RFC 6581 section 10: enhanced is answered enhanced, else not. */
	if (offer->role == MPA_ROLE_INITIATOR &&
	    !(offer->flags & MPA_START_ENHANCED) !=
	    !(frame->flags & MPA_PEER_ENHANCED))
		return -1;
	/* Revision 0 has no enhanced reply. */
	if (!offer->revision && frame->flags & MPA_PEER_ENHANCED)
		return -1;
	return mpa_agree_rev(offer, frame->revision);
}

/**
 * mpa_agree_rtr() - which RTR indication the initiator generates
 * @ours:	MPA_START_RTR_* of the request
 * @theirs:	and of the reply
 * @ird:	RDMA Reads that the reply has room for
 *
 * RFC 6581 section 9.2, "at the initiator's sole discretion" (section 1.1). B is
 * a zero-length Send there, and RFC 5044 section 3 knows no empty ULPDU: a peer
 * may look for a DDP header in it. So it comes last. A Read, of no octets as
 * well, takes a place in the peer's queue.
 *
 * Return: one of them, or 0.
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
 * Which RTR indications the responder's reply names, at least one.
 *
 * A program that names none leaves what comes to the layer above, so that Write
 * and Read are as good as any record; B is for a peer that has nothing else.
 * Of what both have, all: RFC 6581 section 9.2 lets a reply name more, but there
 * are initiators that then take one that they have not asked for. And there are
 * some that give up if Read is named without a place for one.
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

/**
 * mpa_agree_limit() - a depth that we can use of what the peer can take
 * @ours:	what we would like
 * @theirs:	the peer's
 *
 * RFC 6581 section 9.1. 0x3fff leaves it alone if the peer says so; a peer that
 * answers our 0x3fff with a number has that many.
 */
u16 mpa_agree_limit(u16 ours, u16 theirs)
{
	return theirs == MPA_DEPTH_BY_USER ? ours : min(ours, theirs);
}

/**
 * mpa_agree_depth() - a depth that has a place for the RTR indication
 * @depth:	RDMA Reads that the program names
 * @control:	MPA_START_RTR_*: Read, of no octets as it is, takes one
 */
u16 mpa_agree_depth(u16 depth, u32 control)
{
	return control & MPA_START_RTR_READ && !depth ? 1 : depth;
}

/**
 * mpa_agree_reply() - what an enhanced reply says
 * @offer:	how we were started
 * @ours:	the depths that we reply with
 * @theirs:	what the request says
 * @reject:	the reply rejects it
 * @reply:	filled in
 *
 * RFC 6581 sections 9.1 and 9.2: A as in the request, our ORD at most the peer's
 * IRD.
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
