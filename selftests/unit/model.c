// SPDX-License-Identifier: GPL-2.0
/* See model.h. It is naive on purpose: do not make it clever. */

#include <linux/string.h>
#include "model.h"

/*
 * RFC 3720 section 12.1: a division by the polynomial. Each octet enters with its least
 * significant bit first. The remainder starts as all ones, and its complement is the
 * CRC, in the same order of bits: the coefficient of x^31 is the least significant bit
 * of the CRC's first octet.
 */
#define DIVISION_START	0xffffffffU

static u32 divide_by_hand(u32 remainder, u8 octet)
{
	for (int bit = 0; bit < 8; bit++) {
		bool carry = remainder >> 31 ^ (octet >> bit & 1);

		remainder <<= 1;
		if (carry)
			remainder ^= 0x1edc6f41;
	}
	return remainder;
}

/*
 * As divide_by_hand(), eight bits at a time, for streams. The octet's bits are added to
 * the remainder's top bits, and have the same effect as those. So a table of
 * divide_by_hand() for each value of these eight bits is sufficient.
 */
static u32 divide(u32 remainder, u8 octet)
{
	static u8 reversed[256];
	static u32 steps[256];
	static bool known;

	if (!known) {
		for (u32 i = 0; i < 256; i++) {
			steps[i] = divide_by_hand(i << 24, 0);
			for (u32 bit = 0; bit < 8; bit++)
				reversed[i] |= (i >> bit & 1) << (7 - bit);
		}
		known = true;
	}
	return remainder << 8 ^ steps[remainder >> 24 ^ reversed[octet]];
}

static void divide_end(u32 remainder, u8 crc[4])
{
	memset(crc, 0, 4);
	for (int power = 31; power >= 0; power--) {
		int nth = 31 - power;

		if (!(remainder >> power & 1))
			crc[nth / 8] |= 1 << nth % 8;
	}
}

void model_crc(const u8 *octets, size_t count, u8 crc[4])
{
	u32 remainder = DIVISION_START;

	while (count--)
		remainder = divide_by_hand(remainder, *octets++);
	divide_end(remainder, crc);
}

/* an FPDU that is being sent */
struct outgoing {
	struct model_sender *sender;
	struct model_fpdu *fpdu;
	u32 remainder;
	bool length_begun;
	u64 length_position;
};

static void write_octet(struct outgoing *out, u8 value,
			enum model_field field, size_t nth)
{
	struct model_sender *sender = out->sender;

	sender->octets[sender->count++] = (struct model_octet) {
		.value = value,
		.field = field,
		.nth = nth,
	};
	sender->position++;
	out->remainder = divide(out->remainder, value);
}

static void write_marker_if_due(struct outgoing *out)
{
	u64 fpduptr = 0;

	if (!out->sender->markers || out->sender->position % 512 != 0)
		return;
	if (out->length_begun)
		fpduptr = out->sender->position - out->length_position;
	write_octet(out, 0, MODEL_MARKER, 0);
	write_octet(out, 0, MODEL_MARKER, 1);
	write_octet(out, fpduptr >> 8, MODEL_MARKER, 2);
	write_octet(out, fpduptr, MODEL_MARKER, 3);
	out->fpdu->markers++;
}

static void write_next(struct outgoing *out, u8 value,
		       enum model_field field, size_t nth)
{
	write_marker_if_due(out);
	if (field == MODEL_LENGTH && nth == 0) {
		out->length_begun = true;
		out->length_position = out->sender->position;
	}
	write_octet(out, value, field, nth);
}

void model_send(struct model_sender *sender, const u8 *ulpdu, size_t len,
		struct model_fpdu *fpdu)
{
	struct outgoing out = {
		.sender = sender,
		.fpdu = fpdu,
		.remainder = DIVISION_START,
	};
	size_t pad = 0;
	u8 crc[4];

	fpdu->begin = sender->count;
	fpdu->markers = 0;

	write_next(&out, len >> 8, MODEL_LENGTH, 0);
	write_next(&out, len, MODEL_LENGTH, 1);
	for (size_t i = 0; i < len; i++)
		write_next(&out, ulpdu[i], MODEL_ULPDU, i);
	while ((2 + len + pad) % 4 != 0)
		write_next(&out, 0, MODEL_PAD, pad++);

	/* This FPDU's CRC covers a marker directly after the pad. */
	write_marker_if_due(&out);
	divide_end(out.remainder, crc);
	for (int i = 0; i < 4; i++)
		write_next(&out, crc[i], MODEL_CRC, i);

	fpdu->end = sender->count;
}

void model_layout(struct model_layout *layout)
{
	const u32 length_end = 2, ulpdu_end = 2 + layout->len;
	u64 position = layout->position, length_position = 0;
	const u32 pad_end = (ulpdu_end + 3) / 4 * 4;
	u32 off = 0, ulpdu_off = 0, markers = 0;

	layout->to_marker = 0;
	while ((layout->position + layout->to_marker) % 512 != 0)
		layout->to_marker++;

	/* "at" counts all octets except markers. */
	for (u32 at = 0; at < pad_end + 4; at++) {
		enum model_field field;
		u32 nth;

		if (layout->markers && position % 512 == 0) {
			for (nth = 0; nth < 4; nth++) {
				if (off == layout->off) {
					layout->field = MODEL_MARKER;
					layout->field_nth = nth;
					layout->run = 4 - nth;
				}
				if (off == layout->off && nth == 0)
					layout->fpduptr = at ? position -
							  length_position : 0;
				off++;
				position++;
			}
			markers++;
		}
		if (at == 0) {
			length_position = position;
			layout->head = off;
		}
		if (at < length_end) {
			field = MODEL_LENGTH;
			nth = at;
		} else if (at < ulpdu_end) {
			field = MODEL_ULPDU;
			nth = at - length_end;
		} else if (at < pad_end) {
			field = MODEL_PAD;
			nth = at - ulpdu_end;
		} else {
			field = MODEL_CRC;
			nth = at - pad_end;
		}
		if (field == MODEL_ULPDU && nth == layout->nth)
			ulpdu_off = off;
		if (at < ulpdu_end && layout->nth == layout->len)
			ulpdu_off = off + 1;
		if (off == layout->off) {
			layout->field = field;
			layout->field_nth = nth;
			layout->run = 0;
		}
		if (off == layout->off + layout->run && off >= layout->off &&
		    field == layout->field &&
		    nth == layout->field_nth + layout->run)
			layout->run++;
		off++;
		position++;
	}
	layout->octets = off;
	layout->nr_markers = markers;
	layout->ulpdu_off = ulpdu_off;
}

/* an FPDU that is being received */
struct incoming {
	struct model_receiver *receiver;
	u32 remainder;
	bool length_begun;
	u64 length_position;
	bool marker_wrong;
};

static bool read_octet(struct incoming *in, u8 *value)
{
	struct model_receiver *receiver = in->receiver;

	if (receiver->count == 0)
		return false;
	*value = *receiver->octets++;
	receiver->count--;
	receiver->position++;
	in->remainder = divide(in->remainder, *value);
	return true;
}

static bool read_marker_if_due(struct incoming *in)
{
	u64 begins = in->receiver->position;
	u64 expected = 0;
	u8 marker[4];

	if (!in->receiver->markers || begins % 512 != 0)
		return true;
	for (int i = 0; i < 4; i++) {
		if (!read_octet(in, &marker[i]))
			return false;
	}
	if (in->length_begun)
		expected = begins - in->length_position;
	/* The two low bits count as zero, and marker[0..1] is reserved. */
	if ((u64)(marker[2] * 256 + marker[3] / 4 * 4) != expected)
		in->marker_wrong = true;
	return true;
}

static bool read_next(struct incoming *in, u8 *value)
{
	return read_marker_if_due(in) && read_octet(in, value);
}

enum model_verdict model_receive(struct model_receiver *receiver,
				 u8 *ulpdu, size_t *len)
{
	u8 length[2], pad, expected[4], crc[4];
	struct incoming in = {
		.receiver = receiver,
		.remainder = DIVISION_START,
	};

	if (!read_marker_if_due(&in))
		return MODEL_SHORT;
	in.length_begun = true;
	in.length_position = receiver->position;
	if (!read_next(&in, &length[0]) || !read_next(&in, &length[1]))
		return MODEL_SHORT;
	*len = length[0] * 256 + length[1];
	if (*len > 64768)
		return MODEL_BAD_LENGTH;
	for (size_t i = 0; i < *len; i++) {
		if (!read_next(&in, &ulpdu[i]))
			return MODEL_SHORT;
	}
	for (size_t i = 2 + *len; i % 4 != 0; i++) {
		if (!read_next(&in, &pad))
			return MODEL_SHORT;
	}
	if (!read_marker_if_due(&in))
		return MODEL_SHORT;
	divide_end(in.remainder, expected);
	for (int i = 0; i < 4; i++) {
		if (!read_next(&in, &crc[i]))
			return MODEL_SHORT;
	}
	if (receiver->crc && memcmp(crc, expected, 4) != 0)
		return MODEL_BAD_CRC;
	if (in.marker_wrong)
		return MODEL_BAD_MARKER;
	return MODEL_GOOD;
}

enum model_startup model_startup(const u8 *octets, size_t count,
				 bool request, struct model_frame *frame)
{
	const char *own = request ? "MPA ID Rep Frame" : "MPA ID Req Frame";
	const char *expected = request ? "MPA ID Req Frame" :
					 "MPA ID Rep Frame";
	bool is_expected = true, is_own = true;

	for (size_t i = 0; i < 16 && i < count; i++) {
		if (octets[i] != expected[i])
			is_expected = false;
		if (octets[i] != own[i])
			is_own = false;
	}
	if (!is_expected)
		return is_own ? MODEL_STARTUP_OWN_KEY : MODEL_STARTUP_BAD_KEY;
	if (count < 20)
		return MODEL_STARTUP_SHORT;

	frame->m = octets[16] / 128 % 2;
	frame->c = octets[16] / 64 % 2;
	/* R is ignored in a request. */
	frame->r = !request && octets[16] / 32 % 2;
	frame->rev = octets[17];
	/* The bit is reserved before RFC 6581. */
	frame->s = frame->rev > 1 && octets[16] / 16 % 2;
	frame->pd_length = octets[18] * 256 + octets[19];
	if (frame->pd_length > 512)
		return MODEL_STARTUP_BAD_LENGTH;
	/* S announces four octets, but a rejection is not checked. */
	if (frame->s && frame->pd_length < 4) {
		if (!frame->r)
			return MODEL_STARTUP_BAD_LENGTH;
		frame->s = false;
	}
	return MODEL_STARTUP_GOOD;
}

/* Return: a bit, as RFC 6581 section 9 numbers bits: bit 0 is the most significant. */
static bool drawn_bit(const u8 *octets, int bit)
{
	return octets[bit / 8] >> (7 - bit % 8) & 1;
}

static unsigned int drawn_number(const u8 *octets, int first, int last)
{
	unsigned int number = 0;

	for (int bit = first; bit <= last; bit++)
		number = 2 * number + drawn_bit(octets, bit);
	return number;
}

void model_enhanced(const u8 octets[4], struct model_enhanced *enhanced)
{
	bool a = drawn_bit(octets, 0);

	enhanced->a = a;
	/* "if Control Flag A is set to 0, then [...] MUST be ignored" */
	enhanced->b = a && drawn_bit(octets, 1);
	enhanced->c = a && drawn_bit(octets, 16);
	enhanced->d = a && drawn_bit(octets, 17);
	enhanced->ird = drawn_number(octets, 2, 15);
	enhanced->ord = drawn_number(octets, 18, 31);
}

void model_enhanced_octets(const struct model_enhanced *enhanced, u8 octets[4])
{
	octets[0] = enhanced->a * 128 + enhanced->b * 64 + enhanced->ird / 256;
	octets[1] = enhanced->ird % 256;
	octets[2] = enhanced->c * 128 + enhanced->d * 64 + enhanced->ord / 256;
	octets[3] = enhanced->ord % 256;
}
