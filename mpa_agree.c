// SPDX-License-Identifier: GPL-2.0
/*
 * What the startup frames of both ends agree on: RFC 5044 section 7.1.2 and
 * appendix C, RFC 6581 section 9.
 */

#include "mpa.h"

/*
 * The revision to go on with, or -1. Appendix C: the Rev fields of request and
 * reply may differ, where one peer is of the RDMA Consortium's kind and the
 * other permissive. RFC 6581 section 6: who speaks 2 serves 1 as well.
 */
static int mpa_agree_revision(const struct mpa_params *params, u8 theirs)
{
	bool initiator = params->role == MPA_ROLE_INITIATOR;

	if (!params->revision)
		return !theirs || (!initiator && theirs == 1) ? 0 : -1;
	/* Who wants enhanced setup gets that or none. */
	if (initiator && params->flags & MPA_START_ENHANCED)
		return theirs == params->revision ? theirs : -1;
	if (!theirs)
		return params->flags & MPA_START_PERMISSIVE ? 0 : -1;
	return theirs <= params->revision ? theirs : -1;
}

/**
 * mpa_agree_judge() - whether the peer's frame is one to go on with
 * @params:	what we want
 * @startup:	what the peer's frame says
 *
 * Return: the revision to go on with, or -1.
 */
int mpa_agree_judge(const struct mpa_params *params,
		    const struct mpa_startup *startup)
{
	/* Rule 3 of section 7.1.2, first of all: nothing has to fit. */
	if (startup->flags & MPA_PEER_REJECTED)
		return params->revision;
	/* RFC 6581 section 10: enhanced is answered enhanced, else not. */
	if (params->role == MPA_ROLE_INITIATOR &&
	    !(params->flags & MPA_START_ENHANCED) !=
	    !(startup->flags & MPA_PEER_ENHANCED))
		return -1;
	return mpa_agree_revision(params, startup->revision);
}

/**
 * mpa_agree_too_early() - whether octets behind the peer's frame are too early
 * @role:	ours
 * @revision:	what mpa_agree_judge() has said
 * @flags:	MPA_PEER_* of the frame
 *
 * Nobody may send an FPDU before the other end has read the frame in front of
 * it: the initiator has not seen a reply, the responder no FPDU. So octets
 * behind it mean that PD_Length does not match the private data (section
 * 7.1.1), whenever they come. Two replies may have some behind them: one that
 * rejects, as both go on in their own way, and one of revision 0, as
 * draft-culley-iwarp-mpa-01 section 8.1 does not let the responder wait.
 */
bool mpa_agree_too_early(u8 role, int revision, u8 flags)
{
	bool reply = role == MPA_ROLE_INITIATOR;

	return !(reply && (!revision || flags & MPA_PEER_REJECTED));
}

/**
 * mpa_agree_rtr() - which RTR indication the initiator generates
 * @ours:	MPA_START_RTR_* of the request
 * @theirs:	and of the reply
 *
 * RFC 6581 section 9.2, "at the initiator's sole discretion" (section 1.1). B is
 * a zero-length Send there, and RFC 5044 section 3 knows no empty ULPDU: a peer
 * may look for a DDP header in it. So it comes last.
 *
 * Return: one of them, or 0.
 */
u32 mpa_agree_rtr(u32 ours, u32 theirs)
{
	u32 both = ours & theirs & MPA_START_RTR;

	if (both & MPA_START_RTR_WRITE)
		return MPA_START_RTR_WRITE;
	if (both & MPA_START_RTR_READ)
		return MPA_START_RTR_READ;
	return both;
}

/**
 * mpa_agree_offer() - which RTR indications the responder's reply names
 * @ours:	MPA_START_RTR_* that the program names
 * @theirs:	and those of the request
 *
 * A program that names none leaves what comes to the layer above, so that Write
 * and Read are as good as any record; B is for a peer that has nothing else.
 *
 * Return: at least one.
 */
u32 mpa_agree_offer(u32 ours, u32 theirs)
{
	ours &= MPA_START_RTR;
	theirs &= MPA_START_RTR;
	if (ours)
		return ours;
	return theirs == MPA_START_RTR_FPDU ? theirs :
	       MPA_START_RTR_WRITE | MPA_START_RTR_READ;
}

/**
 * mpa_agree_limit() - a depth that we can use of what the peer can take
 * @ours:	what we would like
 * @theirs:	the peer's
 *
 * RFC 6581 section 9.1.
 */
u16 mpa_agree_limit(u16 ours, u16 theirs)
{
	if (theirs == MPA_DEPTH_BY_USER || ours == MPA_DEPTH_BY_USER)
		return ours;
	return min(ours, theirs);
}
