/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MPA, implemented from RFCs 5044 and 6581 in the slowest way, octet by octet. It
 * shares only names of types with the code under test: where they differ, one of them
 * has misread the standard.
 *
 * Positions count octets from SeqStart in 64 bits, so they never wrap.
 */
#ifndef _UNIT_MODEL_H
#define _UNIT_MODEL_H

#include <linux/types.h>

enum model_field {
	MODEL_MARKER,
	MODEL_LENGTH,
	MODEL_ULPDU,
	MODEL_PAD,
	MODEL_CRC,
};

/**
 * struct model_octet - one octet of a stream
 * @value:	the value on the wire
 * @field:	enum model_field
 * @nth:	index of the octet in its field, without markers inside the field
 */
struct model_octet {
	u8 value;
	u8 field;
	u16 nth;
};

/**
 * struct model_sender - turns ULPDUs into a stream
 * @position:	position of the next octet
 * @markers:	markers are enabled
 * @octets:	octets sent so far; the caller provides the buffer
 * @count:	their number
 */
struct model_sender {
	u64 position;
	bool markers;
	struct model_octet *octets;
	size_t count;
};

/**
 * struct model_fpdu - the result of model_send()
 * @begin:	index of the FPDU's first octet, which may be a marker's
 * @end:	index after its last octet
 * @markers:	number of markers
 */
struct model_fpdu {
	size_t begin;
	size_t end;
	unsigned int markers;
};

/**
 * struct model_layout - where the octets of an FPDU are, without their values
 * @position:	position of its first octet
 * @markers:	markers are enabled
 * @len:	octets of ULPDU
 * @off:	index of an octet in the FPDU
 * @nth:	index of an octet in the ULPDU; @len: its end
 * @octets:	number of octets of the FPDU
 * @nr_markers:	number of markers
 * @head:	octets before ULPDU_Length
 * @to_marker:	octets from @position to the next marker
 * @field:	enum model_field at @off
 * @field_nth:	index of that octet in the field
 * @run:	contiguous octets of the field from @off on
 * @fpduptr:	FPDUPTR of the marker that begins at @off
 * @ulpdu_off:	offset of octet @nth; if @nth is @len, the offset after the ULPDU
 */
struct model_layout {
	u64 position;
	bool markers;
	u32 len;
	u32 off;
	u32 nth;
	u32 octets;
	u32 nr_markers;
	u32 head;
	u32 to_marker;
	u32 field;
	u32 field_nth;
	u32 run;
	u32 fpduptr;
	u32 ulpdu_off;
};

/**
 * struct model_receiver - turns a stream into ULPDUs
 * @position:	position of the next octet
 * @markers:	markers are enabled
 * @crc:	CRCs are checked
 * @octets:	received octets
 * @count:	number of octets left
 */
struct model_receiver {
	u64 position;
	bool markers;
	bool crc;
	const u8 *octets;
	size_t count;
};

enum model_verdict {
	MODEL_GOOD,
	MODEL_SHORT,		/* the stream ends inside the FPDU */
	MODEL_BAD_LENGTH,	/* no ULPDU has this length */
	MODEL_BAD_CRC,
	MODEL_BAD_MARKER,
};

enum model_startup {
	MODEL_STARTUP_GOOD,
	MODEL_STARTUP_SHORT,
	MODEL_STARTUP_BAD_KEY,
	MODEL_STARTUP_OWN_KEY,
	MODEL_STARTUP_BAD_LENGTH,
};

struct model_frame {
	bool m, c, r, s;
	unsigned int rev;
	unsigned int pd_length;
};

/* RFC 6581 section 9: control flags, by their letters. */
struct model_enhanced {
	bool a, b, c, d;
	unsigned int ird;
	unsigned int ord;
};

void model_crc(const u8 *octets, size_t count, u8 crc[4]);
void model_send(struct model_sender *sender, const u8 *ulpdu, size_t len,
		struct model_fpdu *fpdu);
void model_layout(struct model_layout *layout);
enum model_verdict model_receive(struct model_receiver *receiver,
				 u8 *ulpdu, size_t *len);
enum model_startup model_startup(const u8 *octets, size_t count,
				 bool request, struct model_frame *frame);
void model_enhanced(const u8 octets[4], struct model_enhanced *enhanced);
void model_enhanced_octets(const struct model_enhanced *enhanced,
			   u8 octets[4]);

#endif /* _UNIT_MODEL_H */
