/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TUF, implemented from its drafts (draft-ietf-tsvwg-tcp-ulp-frame-01; -00 for markers)
 * like MPA in model.h: octet by octet, sharing nothing with the code under test.
 *
 * Positions count octets since framing began in 64 bits, so they never wrap.
 */
#ifndef _UNIT_TUF_MODEL_H
#define _UNIT_TUF_MODEL_H

#include "model.h"

/**
 * struct tuf_model_framing - the framing that both ends use
 * @period:	octets between the starts of two markers; 0: no markers
 * @bare:	ULPDUs have no header (TUF_SEND_TCP)
 * @key:	key of the direction
 */
struct tuf_model_framing {
	u32 period;
	bool bare;
	u8 key[6];
};

/*
 * Senders, receivers and verdicts are model.h's; their markers and crc apply to MPA
 * only. MODEL_LENGTH is the whole header.
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
