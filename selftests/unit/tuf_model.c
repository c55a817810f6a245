// SPDX-License-Identifier: GPL-2.0
/* See tuf_model.h. It is naive on purpose: do not make it clever. */

#include "tuf_model.h"

/* Whether a marker begins at this position. */
static bool marker_due(const struct tuf_model_framing *framing, u64 position)
{
	return framing->period && position % framing->period == 0;
}

/**
 * tuf_model_octets() - count the octets of an FPDU
 * @framing:	how the direction is framed
 * @position:	where it starts
 * @len:	octets of ULPDUs
 */
size_t tuf_model_octets(const struct tuf_model_framing *framing, u64 position,
			size_t len)
{
	size_t octets = 0;

	for (size_t i = 0; i < (framing->bare ? 0 : 8) + len; i++) {
		if (marker_due(framing, position + octets))
			octets += 4;
		octets++;
	}
	return octets;
}

/**
 * tuf_model_room() - find, by trying, the octets of ULPDUs that fit an FPDU
 * @framing:	how the direction is framed
 * @position:	where it starts
 * @room:	its largest size
 *
 * -00: a PDU has up to 2^16 - 8 octets, less 4 for each marker.
 */
size_t tuf_model_room(const struct tuf_model_framing *framing, u64 position,
		      size_t room)
{
	size_t octets = 0, n = 0;

	for (;;) {
		if (marker_due(framing, position + octets))
			octets += 4;
		octets++;
		if (octets > room || octets > 65536)
			break;
		n++;
	}
	if (!framing->bare)
		n = n > 8 ? n - 8 : 0;
	return n > 65536 - 8 ? 65536 - 8 : n;
}

static void write_octet(struct model_sender *sender, u8 value,
			enum model_field field, size_t nth)
{
	sender->octets[sender->count++] = (struct model_octet) {
		.value = value,
		.field = field,
		.nth = nth,
	};
	sender->position++;
}

/* A marker's value is unknown until the FPDU has ended. */
static void write_next(const struct tuf_model_framing *framing,
		       struct model_sender *sender, struct model_fpdu *fpdu,
		       u8 value, enum model_field field, size_t nth)
{
	if (marker_due(framing, sender->position)) {
		for (int i = 0; i < 4; i++)
			write_octet(sender, 0, MODEL_MARKER, i);
		fpdu->markers++;
	}
	write_octet(sender, value, field, nth);
}

/* "octets from the end of the marker to the start of the next PDU", twice */
static void fill_markers(const struct tuf_model_framing *framing,
			 struct model_sender *sender,
			 const struct model_fpdu *fpdu)
{
	size_t next_header = fpdu->end;

	if (marker_due(framing, sender->position))
		next_header += 4;
	for (size_t i = fpdu->begin; i < fpdu->end; i++) {
		struct model_octet *marker = sender->octets + i;
		size_t offset = next_header - (i + 4);

		if (marker->field != MODEL_MARKER || marker->nth != 0)
			continue;
		/* For a marker before the header that is this FPDU. */
		if (i == fpdu->begin)
			offset = 0;
		marker[0].value = offset / 256;
		marker[1].value = offset % 256;
		marker[2].value = offset / 256;
		marker[3].value = offset % 256;
	}
}

/**
 * tuf_model_send() - append an FPDU to the stream
 * @framing:	how the direction is framed
 * @sender:	the stream
 * @ulpdu:	octets of its ULPDUs
 * @len:	their number
 * @fpdu:	filled in
 */
void tuf_model_send(const struct tuf_model_framing *framing,
		    struct model_sender *sender, const u8 *ulpdu, size_t len,
		    struct model_fpdu *fpdu)
{
	u8 header[8] = { len / 256, len % 256 };

	fpdu->begin = sender->count;
	fpdu->markers = 0;
	for (int i = 0; i < 6; i++)
		header[2 + i] = framing->key[i];
	for (int i = 0; !framing->bare && i < 8; i++)
		write_next(framing, sender, fpdu, header[i], MODEL_LENGTH, i);
	for (size_t i = 0; i < len; i++)
		write_next(framing, sender, fpdu, ulpdu[i], MODEL_ULPDU, i);
	fpdu->end = sender->count;
	fill_markers(framing, sender, fpdu);
}

static bool read_octet(struct model_receiver *receiver, u8 *value)
{
	if (receiver->count == 0)
		return false;
	*value = *receiver->octets++;
	receiver->count--;
	receiver->position++;
	return true;
}

static bool read_next(const struct tuf_model_framing *framing,
		      struct model_receiver *receiver, u8 *value)
{
	u8 skipped;

	if (marker_due(framing, receiver->position)) {
		for (int i = 0; i < 4; i++) {
			if (!read_octet(receiver, &skipped))
				return false;
		}
	}
	return read_octet(receiver, value);
}

/*
 * A marker before the header is 0. Others point to the next FPDU's header; if that FPDU
 * begins with a marker, they may also point to the marker.
 */
static bool marker_good(const struct tuf_model_framing *framing, u64 begin,
			u64 position, u64 end, const u8 *octets)
{
	size_t second = octets[2] * 256 + octets[3];
	size_t first = octets[0] * 256 + octets[1];

	if (first != second)
		return false;
	if (position == begin)
		return first == 0;
	if (position + 4 + first == end)
		return true;
	return marker_due(framing, end) && position + 4 + first == end + 4;
}

static bool markers_good(const struct tuf_model_framing *framing, u64 begin,
			 u64 end, const u8 *octets)
{
	for (u64 position = begin; position < end; position++, octets++) {
		if (marker_due(framing, position) &&
		    !marker_good(framing, begin, position, end, octets))
			return false;
	}
	return true;
}

/**
 * tuf_model_receive() - receive an FPDU from the stream
 * @framing:	how the direction is framed; its key is set to the FPDU's
 * @receiver:	the stream
 * @ulpdu:	buffer of 65535 octets
 * @len:	set to the number of octets filled in
 */
enum model_verdict tuf_model_receive(struct tuf_model_framing *framing,
				     struct model_receiver *receiver,
				     u8 *ulpdu, size_t *len)
{
	const u8 *octets = receiver->octets;
	u64 begin = receiver->position;
	u8 header[8];

	for (int i = 0; i < 8; i++) {
		if (!read_next(framing, receiver, &header[i]))
			return MODEL_SHORT;
	}
	*len = header[0] * 256 + header[1];
	for (int i = 0; i < 6; i++)
		framing->key[i] = header[2 + i];
	if (*len == 0)
		return MODEL_BAD_LENGTH;
	if (framing->period && tuf_model_octets(framing, begin, *len) > 65536)
		return MODEL_BAD_LENGTH;
	for (size_t i = 0; i < *len; i++) {
		if (!read_next(framing, receiver, &ulpdu[i]))
			return MODEL_SHORT;
	}
	if (!markers_good(framing, begin, receiver->position, octets))
		return MODEL_BAD_MARKER;
	return MODEL_GOOD;
}

/**
 * tuf_model_finds() - whether octets contain a key
 * @key:	the key
 * @octets:	the octets
 * @count:	their number
 */
bool tuf_model_finds(const u8 key[6], const u8 *octets, size_t count)
{
	for (size_t at = 0; at + 6 <= count; at++) {
		bool same = true;

		for (int i = 0; i < 6; i++) {
			if (octets[at + i] != key[i])
				same = false;
		}
		if (same)
			return true;
	}
	return false;
}
