/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Floor 0: the framing of a direction, MPA's or TUF's: lengths, layout, header,
 * check. It is chosen when framing begins. MPA's is inlined, and never called through
 * a pointer; TUF's is in mpa_tuf.c, behind branches that the kernel does not have
 * until the first socket of TUF is attached.
 */
#ifndef _MPA_FRAMING_H
#define _MPA_FRAMING_H

#include "mpa_proto.h"

#ifdef __KERNEL__
#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(mpa_tuf_used);

/* There has been a socket of TUF. */
#define mpa_tuf_exists()	static_branch_unlikely(&mpa_tuf_used)
#else
#define mpa_tuf_exists()	true
#endif

/**
 * struct mpa_tuf_key - a key that octets are searched for
 * @key:	the key
 * @skip:	for each octet: how far the search goes on if it does not fit
 */
struct mpa_tuf_key {
	u8 key[TUF_KEY_LEN];
	u8 skip[256];
};

/* ---- mpa_tuf.c ---- */

u32 mpa_tuf_distance(u32 pos, u32 period);
void mpa_tuf_init(struct mpa_fpdu *fpdu, u32 pos, u32 ulpdu_len,
		  const struct mpa_format *format);
void mpa_tuf_field_at(const struct mpa_fpdu *fpdu, u32 off,
		      struct mpa_field_span *run);
u32 mpa_tuf_offset(const struct mpa_fpdu *fpdu, u32 ulpdu_off);
void mpa_tuf_put_header(const struct mpa_fpdu *fpdu, const u8 *key, u32 skip,
			u8 *to, u32 n);
void mpa_tuf_marker_put(const struct mpa_fpdu *fpdu, u32 off, u32 skip, u8 *to,
			u32 n);
bool mpa_tuf_marker_good(const struct mpa_fpdu *fpdu, u32 off, const u8 *field);
bool mpa_tuf_markers_good(const struct mpa_fpdu *fpdu, const u8 *data);
u32 mpa_tuf_room(const struct mpa_format *format, u32 pos, u32 room);
u32 mpa_tuf_mulpdu(const struct mpa_format *format, u32 emss);
u32 mpa_tuf_limit(const struct mpa_format *format, u32 emss);
u32 mpa_tuf_head_len(const struct mpa_format *format, u32 pos);
u32 mpa_tuf_get_header(const struct mpa_format *format, u32 pos, const u8 *head,
		       u8 *key);
u32 mpa_tuf_marker_fpdu(const struct mpa_format *format, u32 pos,
			const u8 *field);
bool mpa_tuf_finds(const struct mpa_tuf_key *key, const u8 *data, u32 len);
void mpa_tuf_set_key(struct mpa_tuf_key *key, const u8 *octets);

/* ---- of either ---- */

/* Of a socket of TUF: framed, or not framed. */
static inline bool mpa_format_tuf(const struct mpa_format *format)
{
	return mpa_tuf_exists() && format->framing != MPA_FRAMING_MPA;
}

/* The same of an FPDU. */
static inline bool mpa_fpdu_tuf(const struct mpa_fpdu *fpdu)
{
	return mpa_tuf_exists() && fpdu->framing != MPA_FRAMING_MPA;
}

/**
 * mpa_format_mode() - what the user calls it
 * @format:	of a socket of TUF
 *
 * Return: enum tuf_mode.
 */
static inline u8 mpa_format_mode(const struct mpa_format *format)
{
	BUILD_BUG_ON(MPA_FRAMING_SEGMENTS - MPA_FRAMING_OFF != TUF_SEGMENTS);
	return format->framing - MPA_FRAMING_OFF;
}

/* The direction is framed. */
static inline bool mpa_format_on(const struct mpa_format *format)
{
	return !mpa_tuf_exists() || format->framing != MPA_FRAMING_OFF;
}

/* Segments start with FPDUs. */
static inline bool mpa_format_aligns(const struct mpa_format *format)
{
	return !mpa_tuf_exists() || format->framing != MPA_FRAMING_TUF_MARKERS;
}

/* Several FPDUs may share a segment. */
static inline bool mpa_format_shares(const struct mpa_format *format)
{
	return !mpa_format_tuf(format) ||
	       format->framing == MPA_FRAMING_TUF_MARKERS;
}

/* An FPDU is a segment, as far as it can be, and has a key that tells. */
static inline bool mpa_format_contained(const struct mpa_format *format)
{
	return mpa_tuf_exists() && format->framing == MPA_FRAMING_TUF;
}

/* There are markers, of either kind. */
static inline bool mpa_format_markers(const struct mpa_format *format)
{
	return format->marked || (mpa_tuf_exists() &&
	       format->framing == MPA_FRAMING_TUF_MARKERS);
}

/* Octets from one marker to the next. */
static inline u32 mpa_format_interval(const struct mpa_format *format)
{
	return mpa_format_tuf(format) ? 1U << format->period :
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
	if (mpa_format_tuf(format))
		mpa_tuf_init(fpdu, pos, ulpdu_len, format);
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
	return mpa_format_tuf(format) ? mpa_tuf_mulpdu(format, emss) :
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
	return mpa_format_tuf(format) ? mpa_tuf_room(format, pos, room) :
					mpa_fpdu_fill(pos, room, format->marked);
}

/**
 * mpa_framing_max() - no ULPDU is longer
 * @format:	how the direction is framed
 * @pos:	stream position where its FPDU starts
 */
static inline u32 mpa_framing_max(const struct mpa_format *format, u32 pos)
{
	return mpa_format_tuf(format) ?
	       mpa_tuf_room(format, pos, MPA_TUF_FPDU_MAX) : MPA_ULPDU_MAX;
}

/**
 * mpa_framing_head_len() - octets needed to learn an FPDU's length
 * @format:	how the direction is framed
 * @pos:	stream position where the FPDU starts
 */
static inline u32 mpa_framing_head_len(const struct mpa_format *format, u32 pos)
{
	return mpa_format_tuf(format) ? mpa_tuf_head_len(format, pos) :
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
	return mpa_fpdu_tuf(fpdu) ?
	       mpa_tuf_marker_good(fpdu, off, field) :
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
	return mpa_fpdu_tuf(fpdu) ? mpa_tuf_markers_good(fpdu, data) :
					 mpa_fpdu_markers_good(fpdu, data);
}

#endif /* _MPA_FRAMING_H */
