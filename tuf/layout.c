// SPDX-License-Identifier: GPL-2.0
/*
 * The layout of TUF's FPDUs: draft-ietf-tsvwg-tcp-ulp-frame-01, and the markers of -00. An FPDU
 * is a header and the octets after it, without pad and CRC. Its length need not be a multiple
 * of 4, so a marker may begin at any of its octets.
 */

#include "../compat.h"
#include "layout.h"

#ifdef __KERNEL__
DEFINE_STATIC_KEY_FALSE(mpa_alt_used);
#endif

static u32 mpa_tuf_header_len(const struct mpa_fpdu *fpdu)
{
	return fpdu->framing == MPA_FRAMING_SEGMENTS ? 0 : TUF_HEADER_LEN;
}

/* Return the distance from one marker to the next; 0: there are no markers. */
static u32 mpa_tuf_period(u8 framing, u8 shift)
{
	return framing == MPA_FRAMING_POINTERS ? 1U << shift : 0;
}

/* Return the distance from @pos to the next marker; 0 if a marker starts at @pos. */
u32 mpa_tuf_distance(u32 pos, u32 period)
{
	return -pos & (period - 1);
}

/*
 * Return the number of markers before an octet. Its offset @at does not count markers.
 */
static u32 mpa_tuf_markers_before(const struct mpa_fpdu *fpdu, u32 at)
{
	u32 period = mpa_tuf_period(fpdu->framing, fpdu->period), first;

	if (!period)
		return 0;
	first = mpa_tuf_distance(fpdu->pos, period);
	return at < first ? 0 : 1 + (at - first) / (period - MPA_MARKER_LEN);
}

void mpa_alt_init(struct mpa_fpdu *fpdu, u32 pos, u32 ulpdu_len,
		  const struct mpa_format *format)
{
	u32 period = mpa_tuf_period(format->framing, format->period);
	u32 len;

	fpdu->pos = pos;
	fpdu->ulpdu_len = ulpdu_len;
	fpdu->marked = false;
	fpdu->framing = format->framing;
	fpdu->period = format->period;
	fpdu->wrong_key = false;
	fpdu->markers = 0;
	len = mpa_tuf_header_len(fpdu) + ulpdu_len;
	if (period && len)
		fpdu->markers = mpa_tuf_markers_before(fpdu, len - 1);
	fpdu->head = period && !mpa_tuf_distance(pos, period) ?
		     MPA_MARKER_LEN : 0;
	fpdu->len = len + fpdu->markers * MPA_MARKER_LEN;
}

/* As mpa_fpdu_field_at(), for TUF. MPA_FIELD_LENGTH is the whole header. */
void mpa_alt_field_at(const struct mpa_fpdu *fpdu, u32 off,
		      struct mpa_field_span *run)
{
	u32 period = mpa_tuf_period(fpdu->framing, fpdu->period);
	u32 header = mpa_tuf_header_len(fpdu);
	u32 room = fpdu->len - off, at = off;

	run->off = off;
	if (period) {
		u32 first = mpa_tuf_distance(fpdu->pos, period);
		u32 phase = (fpdu->pos + off) & (period - 1);

		/* A marker that began before the FPDU is not part of it. */
		if (phase < MPA_MARKER_LEN && off >= first) {
			run->field = MPA_FIELD_MARKER;
			run->skip = phase;
			run->len = MPA_MARKER_LEN - phase;
			return;
		}
		if (off >= first)
			at -= MPA_MARKER_LEN * (1 + (off - first) / period);
		room = min(room, period - phase);
	}
	if (at < header) {
		run->field = MPA_FIELD_LENGTH;
		run->skip = at;
		run->len = header - at;
	} else {
		run->field = MPA_FIELD_ULPDU;
		run->skip = at - header;
		run->len = header + fpdu->ulpdu_len - at;
	}
	run->len = min(run->len, room);
}

u32 mpa_alt_offset(const struct mpa_fpdu *fpdu, u32 ulpdu_off)
{
	u32 before = mpa_tuf_header_len(fpdu) + ulpdu_off;

	if (ulpdu_off == fpdu->ulpdu_len)
		return fpdu->len;
	return before + MPA_MARKER_LEN * mpa_tuf_markers_before(fpdu, before);
}

/* Write @n octets of the header, from its octet @skip. */
void mpa_tuf_put_header(const struct mpa_fpdu *fpdu, const u8 *key, u32 skip,
			u8 *to, u32 n)
{
	u8 header[TUF_HEADER_LEN];

	put_unaligned_be16(fpdu->ulpdu_len, header);
	memcpy(header + TUF_LENGTH_LEN, key, TUF_KEY_LEN);
	memcpy(to, header + skip, n);
}

/*
 * Return the pointer in the marker at @off: the distance from the end of the marker to
 * the next FPDU's header. If that FPDU begins with a marker, its header follows the
 * marker.
 */
static u16 mpa_tuf_next(const struct mpa_fpdu *fpdu, u32 off)
{
	u32 period = mpa_tuf_period(fpdu->framing, fpdu->period);
	u32 next = fpdu->len;

	if (off < fpdu->head)
		return 0;
	if (!mpa_tuf_distance(fpdu->pos + next, period))
		next += MPA_MARKER_LEN;
	return next - off - MPA_MARKER_LEN;
}

/* Write @n octets of the marker at @off, from its octet @skip. The FPDU's length must be final. */
void mpa_tuf_marker_put(const struct mpa_fpdu *fpdu, u32 off, u32 skip, u8 *to,
			u32 n)
{
	u16 next = mpa_tuf_next(fpdu, off);
	u8 marker[MPA_MARKER_LEN];

	put_unaligned_be16(next, marker);
	put_unaligned_be16(next, marker + sizeof(next));
	memcpy(to, marker + skip, n);
}

/*
 * Whether both copies of the pointer in the marker at @off are right. If the next FPDU
 * begins with a marker, a peer may point to the start or the end of that marker: -00
 * can be read either way.
 */
bool mpa_alt_marker_good(const struct mpa_fpdu *fpdu, u32 off, const u8 *field)
{
	u16 got = get_unaligned_be16(field);

	if (get_unaligned_be16(field + sizeof(got)) != got)
		return false;
	return got == mpa_tuf_next(fpdu, off) ||
	       (off >= fpdu->head && got == fpdu->len - off - MPA_MARKER_LEN);
}

bool mpa_alt_markers_good(const struct mpa_fpdu *fpdu, const u8 *data)
{
	u32 period = mpa_tuf_period(fpdu->framing, fpdu->period), i;
	u32 off = period ? mpa_tuf_distance(fpdu->pos, period) : 0;

	for (i = 0; i < fpdu->markers; i++, off += period)
		if (!mpa_alt_marker_good(fpdu, off, data + off))
			return false;
	return true;
}

/* Return the largest ULPDU whose FPDU fits @room octets at @pos; 0 if none does. */
u32 mpa_alt_room(const struct mpa_format *format, u32 pos, u32 room)
{
	u32 period = mpa_tuf_period(format->framing, format->period);
	u32 header = TUF_HEADER_LEN, first, markers;

	if (format->framing == MPA_FRAMING_SEGMENTS)
		header = 0;
	room = min_t(u32, room, MPA_TUF_FPDU_MAX);
	first = period ? mpa_tuf_distance(pos, period) : room;
	if (room > first) {
		markers = DIV_ROUND_UP(room - first, period);
		/* A marker at the end of the room belongs to the next FPDU. */
		if (room - first - (markers - 1) * period <= MPA_MARKER_LEN)
			room = first + --markers * period;
		room -= markers * MPA_MARKER_LEN;
	}
	return room <= header ? 0 : min_t(u32, room - header, TUF_ULPDU_MAX);
}

/*
 * Return MULPDU. With markers FPDUs need not fit a segment: return the largest ULPDU of
 * an FPDU at any position.
 */
u32 mpa_alt_mulpdu(const struct mpa_format *format, u32 emss)
{
	if (format->framing == MPA_FRAMING_POINTERS)
		return mpa_alt_room(format, 0, MPA_TUF_FPDU_MAX);
	return max_t(u32, mpa_alt_room(format, 0, emss), MPA_MULPDU_MIN);
}

/*
 * Return the largest ULPDU that is accepted. With a small EMSS a ULPDU of 512 octets is
 * accepted (-00, emergency mode).
 */
u32 mpa_tuf_limit(const struct mpa_format *format, u32 emss)
{
	u32 mulpdu = mpa_alt_mulpdu(format, emss);

	if (format->framing != MPA_FRAMING_KEYED)
		return mulpdu;
	return emss < TUF_EMERGENCY ? max_t(u32, mulpdu, TUF_EMERGENCY) : mulpdu;
}

/* Return the number of octets to read for a header, including a marker within it. */
u32 mpa_alt_head_len(const struct mpa_format *format, u32 pos)
{
	u32 period = mpa_tuf_period(format->framing, format->period);

	return period && mpa_tuf_distance(pos, period) < TUF_HEADER_LEN ?
	       MPA_TUF_HEAD_MAX : TUF_HEADER_LEN;
}

/* Read a header of mpa_alt_head_len() octets. Set @key to its key, and return its Length. */
u32 mpa_tuf_get_header(const struct mpa_format *format, u32 pos, const u8 *head,
		       u8 *key)
{
	u32 first = mpa_tuf_distance(pos, 1U << format->period);
	u8 header[TUF_HEADER_LEN];

	if (mpa_alt_head_len(format, pos) == TUF_HEADER_LEN) {
		memcpy(header, head, sizeof(header));
	} else {
		memcpy(header, head, first);
		memcpy(header + first, head + first + MPA_MARKER_LEN,
		       sizeof(header) - first);
	}
	memcpy(key, header + TUF_LENGTH_LEN, TUF_KEY_LEN);
	return get_unaligned_be16(header);
}

/*
 * Return the stream position of the FPDU that the marker at @pos points to, or @pos - 1 if the
 * two copies of the pointer differ. If the FPDU begins with a marker, a peer may point to the
 * start or the end of that marker.
 */
u32 mpa_alt_marker_fpdu(const struct mpa_format *format, u32 pos,
			const u8 *field)
{
	u32 period = mpa_tuf_period(format->framing, format->period);
	u16 next = get_unaligned_be16(field);
	u32 header = pos + MPA_MARKER_LEN + next;

	if (get_unaligned_be16(field + sizeof(next)) != next)
		return pos - 1;
	return mpa_tuf_distance(header - MPA_MARKER_LEN, period) ?
	       header : header - MPA_MARKER_LEN;
}

/*
 * Whether the octets contain the key, without which no piece of them looks like an FPDU
 * (Horspool's search).
 */
bool mpa_tuf_finds(const struct mpa_tuf_key *key, const u8 *data, u32 len)
{
	const u8 last = key->key[TUF_KEY_LEN - 1];
	u32 at = TUF_KEY_LEN - 1;

	while (at < len) {
		if (data[at] == last &&
		    !memcmp(data + at - (TUF_KEY_LEN - 1), key->key,
			    TUF_KEY_LEN))
			return true;
		at += key->skip[data[at]];
	}
	return false;
}

void mpa_tuf_set_key(struct mpa_tuf_key *key, const u8 *octets)
{
	u32 i;

	memcpy(key->key, octets, TUF_KEY_LEN);
	memset(key->skip, TUF_KEY_LEN, sizeof(key->skip));
	for (i = 0; i < TUF_KEY_LEN - 1; i++)
		key->skip[octets[i]] = TUF_KEY_LEN - 1 - i;
}
