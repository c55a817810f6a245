/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TUF, implemented from its drafts (draft-ietf-tsvwg-tcp-ulp-frame-01, the
 * markers of -00) in the same way as model.h does MPA: octet by octet, with
 * nothing in common with the code under test.
 *
 * Positions count octets since framing began in 64 bits, so they never wrap.
 */
#ifndef _UNIT_TUF_MODEL_H
#define _UNIT_TUF_MODEL_H

#include "model.h"

/**
 * struct tuf_model_framing - what the two ends have agreed on
 * @period:	octets from one marker to the next; 0: no markers
 * @bare:	ULPDUs have no header (TUF_SEND_TCP)
 * @key:	of the direction
 */
struct tuf_model_framing {
	u32 period;
	bool bare;
	u8 key[6];
};

/*
 * Senders, receivers and verdicts are those of model.h; their markers and crc
 * are for MPA alone. MODEL_LENGTH is the whole header.
 */
size_t tuf_model_octets(const struct tuf_model_framing *framing, u64 position,
			size_t len);
size_t tuf_model_room(const struct tuf_model_framing *framing, u64 position,
		      size_t room);
void tuf_model_send(const struct tuf_model_framing *framing,
		    struct model_sender *sender, const u8 *ulpdu, size_t len,
		    struct model_fpdu *fpdu);
enum model_verdict tuf_model_receive(struct tuf_model_framing *framing,
				     struct model_receiver *receiver,
				     u8 *ulpdu, size_t *len);
bool tuf_model_finds(const u8 key[6], const u8 *octets, size_t count);

#endif /* _UNIT_TUF_MODEL_H */
