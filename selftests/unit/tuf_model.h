/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TUF read off its drafts (draft-ietf-tsvwg-tcp-ulp-frame-01, the markers of -00) and
 * done as model.h does MPA: one octet after the other, with nothing in common with the
 * code under test.
 *
 * Positions count octets since framing began in 64 bits, so nothing here ever wraps.
 */
#ifndef _UNIT_TUF_MODEL_H
#define _UNIT_TUF_MODEL_H

#include <linux/types.h>

enum tuf_model_field {
	TUF_MODEL_MARKER,
	TUF_MODEL_HEADER,
	TUF_MODEL_ULPDU,
};

/**
 * struct tuf_model_octet - one octet of a stream
 * @value:	what goes on the wire
 * @field:	enum tuf_model_field
 * @nth:	which octet of its field it is, markers not counted in the others
 */
struct tuf_model_octet {
	u8 value;
	u8 field;
	u16 nth;
};

/**
 * struct tuf_model_framing - what the two ends have agreed on
 * @period:	octets from one marker to the next; 0: there are none
 * @bare:	ULPDUs have no header (TUF_SEND_TCP)
 * @key:	of the direction
 */
struct tuf_model_framing {
	u32 period;
	bool bare;
	u8 key[6];
};

/**
 * struct tuf_model_sender - turns ULPDUs into a stream
 * @framing:	how
 * @position:	of the next octet
 * @octets:	what was sent so far; the caller provides the room
 * @count:	how many those are
 */
struct tuf_model_sender {
	struct tuf_model_framing framing;
	u64 position;
	struct tuf_model_octet *octets;
	size_t count;
};

/**
 * struct tuf_model_fpdu - what tuf_model_send() did
 * @begin:	index of the FPDU's first octet, maybe that of a marker
 * @end:	index behind its last octet
 * @markers:	markers among them
 */
struct tuf_model_fpdu {
	size_t begin;
	size_t end;
	unsigned int markers;
};

/**
 * struct tuf_model_receiver - turns a stream into ULPDUs
 * @framing:	how; the key is set to that of the last FPDU
 * @position:	of the next octet
 * @octets:	what was received
 * @count:	how many octets are left
 */
struct tuf_model_receiver {
	struct tuf_model_framing framing;
	u64 position;
	const u8 *octets;
	size_t count;
};

enum tuf_model_verdict {
	TUF_MODEL_GOOD,
	TUF_MODEL_SHORT,	/* the stream ends inside the FPDU */
	TUF_MODEL_BAD_LENGTH,	/* no FPDU has it */
	TUF_MODEL_BAD_MARKER,
};

size_t tuf_model_octets(const struct tuf_model_framing *framing, u64 position,
			size_t len);
size_t tuf_model_room(const struct tuf_model_framing *framing, u64 position,
		      size_t room);
void tuf_model_send(struct tuf_model_sender *sender, const u8 *ulpdu,
		    size_t len, struct tuf_model_fpdu *fpdu);
enum tuf_model_verdict tuf_model_receive(struct tuf_model_receiver *receiver,
					 u8 *ulpdu, size_t *len);
bool tuf_model_finds(const u8 key[6], const u8 *octets, size_t count);

#endif /* _UNIT_TUF_MODEL_H */
