/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common (layer 0): lengths, layout, header and check of one direction's
 * framing. RFC 5044's framing is inlined. A direction can have the framing of
 * tuf/ instead, chosen when framing begins. mpa_alt_format() and mpa_alt_fpdu()
 * return whether a direction or an FPDU has TUF's framing; the other mpa_alt_
 * functions implement this framing. They are behind a static branch, which the
 * first TUF socket enables.
 */
#ifndef _MPA_FRAMING_H
#define _MPA_FRAMING_H

#include "mpa_proto.h"

#ifdef __KERNEL__
#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(mpa_alt_used);

/* Whether a TUF socket was ever attached. */
#define mpa_alt_exists()	static_branch_unlikely(&mpa_alt_used)
#else
#define mpa_alt_exists()	true
#endif

void mpa_alt_init(struct mpa_fpdu *fpdu, u32 pos, u32 ulpdu_len,
		  const struct mpa_format *format);
void mpa_alt_field_at(const struct mpa_fpdu *fpdu, u32 off,
		      struct mpa_field_span *run);
u32 mpa_alt_offset(const struct mpa_fpdu *fpdu, u32 ulpdu_off);
bool mpa_alt_marker_good(const struct mpa_fpdu *fpdu, u32 off, const u8 *field);
bool mpa_alt_markers_good(const struct mpa_fpdu *fpdu, const u8 *data);
u32 mpa_alt_room(const struct mpa_format *format, u32 pos, u32 room);
u32 mpa_alt_mulpdu(const struct mpa_format *format, u32 emss);
u32 mpa_alt_head_len(const struct mpa_format *format, u32 pos);
u32 mpa_alt_marker_fpdu(const struct mpa_format *format, u32 pos,
			const u8 *field);

/* Whether the direction is a TUF socket's, framed or not. */
static inline bool mpa_alt_format(const struct mpa_format *format)
{
	return mpa_alt_exists() && format->framing != MPA_FRAMING_MPA;
}

static inline bool mpa_alt_fpdu(const struct mpa_fpdu *fpdu)
{
	return mpa_alt_exists() && fpdu->framing != MPA_FRAMING_MPA;
}

static inline bool mpa_format_on(const struct mpa_format *format)
{
	return !mpa_alt_exists() || format->framing != MPA_FRAMING_OFF;
}

/* Whether segments should start with an FPDU. */
static inline bool mpa_format_aligns(const struct mpa_format *format)
{
	return !mpa_alt_exists() || format->framing != MPA_FRAMING_POINTERS;
}

/* Whether several FPDUs may share a segment. */
static inline bool mpa_format_shares(const struct mpa_format *format)
{
	return !mpa_alt_format(format) ||
	       format->framing == MPA_FRAMING_POINTERS;
}

/* Whether FPDUs have a key, and each its own segment if possible. */
static inline bool mpa_format_contained(const struct mpa_format *format)
{
	return mpa_alt_exists() && format->framing == MPA_FRAMING_KEYED;
}

static inline bool mpa_format_forward(const struct mpa_format *format)
{
	return mpa_alt_exists() && format->framing == MPA_FRAMING_POINTERS;
}

static inline bool mpa_format_markers(const struct mpa_format *format)
{
	return format->marked || mpa_format_forward(format);
}

/* Return the octets from one marker to the next. */
static inline u32 mpa_format_interval(const struct mpa_format *format)
{
	return mpa_alt_format(format) ? 1U << format->period :
					MPA_MARKER_INTERVAL;
}

/* Lay out an FPDU. @ulpdu_len is at most 65535. */
static inline void mpa_framing_init(struct mpa_fpdu *fpdu, u32 pos,
				    u32 ulpdu_len,
				    const struct mpa_format *format)
{
	if (mpa_alt_format(format))
		mpa_alt_init(fpdu, pos, ulpdu_len, format);
	else
		mpa_fpdu_init(fpdu, pos, ulpdu_len, format->marked);
}

/* Return the largest ULPDU that fits a segment. */
static inline u32 mpa_framing_mulpdu(const struct mpa_format *format, u32 emss)
{
	return mpa_alt_format(format) ? mpa_alt_mulpdu(format, emss) :
					mpa_mulpdu(emss, format->marked);
}

/* Return the largest ULPDU whose FPDU fits @room octets at @pos, or 0. */
static inline u32 mpa_framing_fill(const struct mpa_format *format, u32 pos,
				   u32 room)
{
	return mpa_alt_format(format) ? mpa_alt_room(format, pos, room) :
					mpa_fpdu_fill(pos, room, format->marked);
}

/* Return the longest ULPDU whose FPDU may start at @pos. */
static inline u32 mpa_framing_max(const struct mpa_format *format, u32 pos)
{
	return mpa_alt_format(format) ?
	       mpa_alt_room(format, pos, MPA_ANY_FPDU_MAX) : MPA_ULPDU_MAX;
}

/* Return how many octets of the FPDU at @pos are needed to know its length. */
static inline u32 mpa_framing_head_len(const struct mpa_format *format, u32 pos)
{
	return mpa_alt_format(format) ? mpa_alt_head_len(format, pos) :
					mpa_fpdu_head_len(pos, format->marked);
}

/* Whether the marker at @off of the FPDU points where it should. */
static inline bool mpa_framing_marker_good(const struct mpa_fpdu *fpdu, u32 off,
					   const u8 *field)
{
	return mpa_alt_fpdu(fpdu) ?
	       mpa_alt_marker_good(fpdu, off, field) :
	       mpa_marker_get(field) == mpa_fpdu_ptr(fpdu, off);
}

/* Whether all markers point where they should. @data: the FPDU, contiguous. */
static inline bool mpa_framing_markers_good(const struct mpa_fpdu *fpdu,
					    const u8 *data)
{
	return mpa_alt_fpdu(fpdu) ? mpa_alt_markers_good(fpdu, data) :
					 mpa_fpdu_markers_good(fpdu, data);
}

#endif /* _MPA_FRAMING_H */
