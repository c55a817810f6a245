/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Protocol (layer 0), in addition to mpa_framing.h: TUF's header, search for TUF's key
 */
#ifndef _MPA_TUF_LAYOUT_H
#define _MPA_TUF_LAYOUT_H

#include "../mpa_framing.h"

#include <uapi/linux/tuf.h>

/* Lengths of the Length field, of the longest FPDU, and of a header that contains a marker */
#define TUF_LENGTH_LEN		2
#define MPA_TUF_FPDU_MAX	65536
#define MPA_TUF_HEAD_MAX	(TUF_HEADER_LEN + MPA_MARKER_LEN)

/* A key to search for */
struct mpa_tuf_key {
	u8 key[TUF_KEY_LEN];
	u8 skip[256];	/* how far the search advances at an octet of this value */
};

/* Return the mode as user space's enum tuf_mode. */
static inline u8 mpa_format_mode(const struct mpa_format *format)
{
	BUILD_BUG_ON(TUF_HEADER_LEN != MPA_ANY_HEAD_LEN);
	BUILD_BUG_ON(TUF_LENGTH_MAX + TUF_HEADER_LEN != MPA_ANY_FPDU_MAX);
	BUILD_BUG_ON(TUF_ULPDU_MAX != MPA_ALT_ULPDU_MAX);
	BUILD_BUG_ON(MPA_FRAMING_SEGMENTS - MPA_FRAMING_OFF != TUF_SEGMENTS);
	return format->framing - MPA_FRAMING_OFF;
}

u32 mpa_tuf_distance(u32 pos, u32 period);
void mpa_tuf_put_header(const struct mpa_fpdu *fpdu, const u8 *key, u32 skip,
			u8 *to, u32 n);
void mpa_tuf_marker_put(const struct mpa_fpdu *fpdu, u32 off, u32 skip, u8 *to,
			u32 n);
u32 mpa_tuf_limit(const struct mpa_format *format, u32 emss);
u32 mpa_tuf_get_header(const struct mpa_format *format, u32 pos, const u8 *head,
		       u8 *key);
bool mpa_tuf_finds(const struct mpa_tuf_key *key, const u8 *data, u32 len);
void mpa_tuf_set_key(struct mpa_tuf_key *key, const u8 *octets);

#endif /* _MPA_TUF_LAYOUT_H */
