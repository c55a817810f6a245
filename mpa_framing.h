/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Floor 0: the framing of a direction: lengths, layout, header, check. RFC 5044's is
 * inlined. The engine can carry another one, chosen when framing begins: mpa_alt...()
 * says whether a socket, a direction or an FPDU has it, and functions called mpa_alt_
 * are its own. There is one, in tuf/; branches to it are patched in when its first
 * socket is attached.
 */
#ifndef _MPA_FRAMING_H
#define _MPA_FRAMING_H

#include "mpa_proto.h"

#ifdef __KERNEL__
#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(mpa_alt_used);

/* There has been a socket of another framing. */
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

/* It is not RFC 5044's: framed otherwise, or not framed. */
static inline bool mpa_alt_format(const struct mpa_format *format)
{
	return mpa_alt_exists() && format->framing != MPA_FRAMING_MPA;
}

/* The same of an FPDU. */
static inline bool mpa_alt_fpdu(const struct mpa_fpdu *fpdu)
{
	return mpa_alt_exists() && fpdu->framing != MPA_FRAMING_MPA;
}

/* The direction is framed. */
static inline bool mpa_format_on(const struct mpa_format *format)
{
	return !mpa_alt_exists() || format->framing != MPA_FRAMING_OFF;
}

/* Segments start with FPDUs. */
static inline bool mpa_format_aligns(const struct mpa_format *format)
{
	return !mpa_alt_exists() || format->framing != MPA_FRAMING_POINTERS;
}

/* Several FPDUs may share a segment. */
static inline bool mpa_format_shares(const struct mpa_format *format)
{
	return !mpa_alt_format(format) ||
	       format->framing == MPA_FRAMING_POINTERS;
}

/* An FPDU is a segment, as far as it can be, and has a key that tells. */
static inline bool mpa_format_contained(const struct mpa_format *format)
{
	return mpa_alt_exists() && format->framing == MPA_FRAMING_KEYED;
}

/* Markers point to the next FPDU, not back into this one. */
static inline bool mpa_format_forward(const struct mpa_format *format)
{
	return mpa_alt_exists() && format->framing == MPA_FRAMING_POINTERS;
}

/* There are markers, of either kind. */
static inline bool mpa_format_markers(const struct mpa_format *format)
{
	return format->marked || mpa_format_forward(format);
}

/* Octets from one marker to the next. */
static inline u32 mpa_format_interval(const struct mpa_format *format)
{
	return mpa_alt_format(format) ? 1U << format->period :
					MPA_MARKER_INTERVAL;
}

/**
 * mpa_framing_init() - lay out an FPDU
 * @fpdu:	filled in
 * @pos:	stream position where it starts
 * @ulpdu_len:	octets of ULPDU, up to 65535
 * @format:	how the direction is framed
 */
static inline void mpa_framing_init(struct mpa_fpdu *fpdu, u32 pos,
				    u32 ulpdu_len,
				    const struct mpa_format *format)
{
	if (mpa_alt_format(format))
		mpa_alt_init(fpdu, pos, ulpdu_len, format);
	else
		mpa_fpdu_init(fpdu, pos, ulpdu_len, format->marked);
}

/**
 * mpa_framing_mulpdu() - largest ULPDU that fits a segment
 * @format:	how the direction is framed
 * @emss:	effective maximum segment size, in octets
 */
static inline u32 mpa_framing_mulpdu(const struct mpa_format *format, u32 emss)
{
	return mpa_alt_format(format) ? mpa_alt_mulpdu(format, emss) :
					mpa_mulpdu(emss, format->marked);
}

/**
 * mpa_framing_fill() - largest ULPDU whose FPDU fits a place in the stream
 * @format:	how the direction is framed
 * @pos:	stream position where the FPDU starts
 * @room:	octets that it may have
 *
 * Return: octets, 0 if not one fits.
 */
static inline u32 mpa_framing_fill(const struct mpa_format *format, u32 pos,
				   u32 room)
{
	return mpa_alt_format(format) ? mpa_alt_room(format, pos, room) :
					mpa_fpdu_fill(pos, room, format->marked);
}

/**
 * mpa_framing_max() - no ULPDU is longer
 * @format:	how the direction is framed
 * @pos:	stream position where its FPDU starts
 */
static inline u32 mpa_framing_max(const struct mpa_format *format, u32 pos)
{
	return mpa_alt_format(format) ?
	       mpa_alt_room(format, pos, MPA_ANY_FPDU_MAX) : MPA_ULPDU_MAX;
}

/**
 * mpa_framing_head_len() - octets needed to learn an FPDU's length
 * @format:	how the direction is framed
 * @pos:	stream position where the FPDU starts
 */
static inline u32 mpa_framing_head_len(const struct mpa_format *format, u32 pos)
{
	return mpa_alt_format(format) ? mpa_alt_head_len(format, pos) :
					mpa_fpdu_head_len(pos, format->marked);
}

/**
 * mpa_framing_marker_good() - whether a marker says what it should
 * @fpdu:	the FPDU that it is in
 * @off:	offset of its first octet from the FPDU's start
 * @field:	its octets
 */
static inline bool mpa_framing_marker_good(const struct mpa_fpdu *fpdu, u32 off,
					   const u8 *field)
{
	return mpa_alt_fpdu(fpdu) ?
	       mpa_alt_marker_good(fpdu, off, field) :
	       mpa_marker_get(field) == mpa_fpdu_ptr(fpdu, off);
}

/**
 * mpa_framing_markers_good() - whether all markers of an FPDU do
 * @fpdu:	the FPDU
 * @data:	its octets, side by side
 */
static inline bool mpa_framing_markers_good(const struct mpa_fpdu *fpdu,
					    const u8 *data)
{
	return mpa_alt_fpdu(fpdu) ? mpa_alt_markers_good(fpdu, data) :
					 mpa_fpdu_markers_good(fpdu, data);
}

#endif /* _MPA_FRAMING_H */
