/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Protocol (layer 0): pure functions on octets and offsets, for any context.
 * They also build in user space.
 *
 * A stream position counts octets of one direction of the TCP stream from
 * SeqStart, where its first FPDU (with its leading marker) begins: RFC 5044
 * section 4.3. Positions are u32 and wrap as sequence numbers do. Marker
 * arithmetic works across the wrap, as 512 divides 2^32.
 */
#ifndef _MPA_PROTO_H
#define _MPA_PROTO_H

#include <linux/types.h>
#include <uapi/linux/mpa.h>

#include "compat.h"

#define MPA_MARKER_INTERVAL	512
#define MPA_MARKER_LEN		4
/* Octets from the end of a marker to the next marker. */
#define MPA_MARKER_GAP		(MPA_MARKER_INTERVAL - MPA_MARKER_LEN)
#define MPA_LENGTH_LEN		2	/* the ULPDU_Length field */
#define MPA_CRC_LEN		4
#define MPA_FPDU_OVERHEAD	(MPA_LENGTH_LEN + MPA_CRC_LEN)

/* Maximum length from the start of an FPDU to the end of its ULPDU_Length. */
#define MPA_FPDU_HEAD_MAX	(MPA_MARKER_LEN + MPA_LENGTH_LEN)

/* The longest FPDU: 64768 octets of ULPDU, two of pad, 128 markers. */
#define MPA_FPDU_MAX		(MPA_LENGTH_LEN + MPA_ULPDU_MAX + 2 + \
				 MPA_CRC_LEN + 128 * MPA_MARKER_LEN)

/* Maximum lengths over all framings (mpa_framing.h). */
#define MPA_ANY_HEAD_LEN	8
#define MPA_ANY_HEAD_MAX	(MPA_ANY_HEAD_LEN + MPA_MARKER_LEN)
#define MPA_ANY_FPDU_MAX	(MPA_ANY_HEAD_LEN + 65535)
#define MPA_ALT_ULPDU_MAX	65528

/* Whether stream position @a is before @b, across the wrap. */
static inline bool mpa_pos_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

/* ---- CRC32c: mpa_crc.c, RFC 5044 section 4.4 ---- */

#define MPA_CRC_INIT		0xffffffffU

u32 mpa_crc_update(u32 crc, const void *data, size_t len);
void mpa_crc_put(u32 crc, u8 *field);
bool mpa_crc_match(u32 crc, const u8 *field);
void mpa_crc_put_many(u8 *fpdus, u32 len, u32 nr);
u32 mpa_crc_match_many(const u8 *fpdus, u32 len, u32 nr);

/* For longer FPDUs crc32c() is as fast, and three do not fit in an L1 cache. */
#define MPA_CRC3_MAX		4096

/* Whether three CRCs are computed at a time: see mpa_crc3_init(). */
extern bool mpa_crc3_on;

bool mpa_has_crc32(void);
void mpa_crc32c_3(u32 crc[3], const u8 *a, const u8 *b, const u8 *c,
		  size_t len);
void mpa_crc3_init(void);

/*
 * Return the best number of FPDUs of @len octets for mpa_crc_put_many() and
 * mpa_crc_match_many(), which accept any number.
 */
static inline u32 mpa_crc_parallel(u32 len)
{
	return mpa_crc3_on && len <= MPA_CRC3_MAX ? 3 : 1;
}

/* ---- markers: mpa_marker.c, RFC 5044 sections 4.2 and 4.3 ---- */

u32 mpa_marker_count(u32 pos, u32 len);
u32 mpa_marker_fpdu(u32 pos, u16 fpduptr);

/* Return the octets from @pos to the next marker; 0: a marker starts at @pos. */
static inline u32 mpa_marker_distance(u32 pos)
{
	return -pos % MPA_MARKER_INTERVAL;
}

/* Write a marker. @fpduptr: octets from ULPDU_Length to @field; 0: a leading marker. */
static inline void mpa_marker_put(u8 *field, u16 fpduptr)
{
	put_unaligned_be32(fpduptr, field);
}

/*
 * Return the FPDUPTR of a received marker. Section 4.2: ignore the reserved
 * half, and treat the two low bits as zero.
 */
static inline u16 mpa_marker_get(const u8 *field)
{
	return get_unaligned_be16(field + 2) & ~3;
}

enum mpa_framing {
	MPA_FRAMING_MPA,	/* RFC 5044 */
	MPA_FRAMING_OFF,	/* plain TCP on a TUF socket */
	MPA_FRAMING_KEYED,	/* TUF: a header with a key, one FPDU per segment */
	MPA_FRAMING_POINTERS,	/* TUF: the same header, and markers that point forward */
	MPA_FRAMING_SEGMENTS	/* TUF: no header, one FPDU per segment */
};

struct mpa_format {
	u8	framing : 4;	/* enum mpa_framing */
	u8	period : 4;	/* TUF only: log2 of the octets from one marker to the next */
	bool	marked;		/* MPA only: markers are in use */
	bool	crc;		/* MPA only: CRCs are generated or checked */
};

/* ---- FPDUs: mpa_fpdu.c, RFC 5044 sections 4.1 and 4.5 ---- */

/*
 * Position and layout of an FPDU. Offsets ("off" below) count octets from @pos.
 * The CRC covers all octets except the last four, the CRC field.
 */
struct mpa_fpdu {
	u32 pos;		/* stream position of its leading marker, or else of ULPDU_Length */
	u32 ulpdu_len;		/* octets of ULPDU */
	u32 head;		/* offset of ULPDU_Length: 4 after a leading marker, or 0 */
	u32 len;		/* octets, including markers and CRC */
	u32 markers;		/* number of markers */
	bool marked;		/* MPA only: this direction carries markers */
	u8 framing : 4;		/* enum mpa_framing */
	u8 period : 4;		/* see struct mpa_format */
	bool wrong_key;		/* its key is not the direction's */
};

enum mpa_field {
	MPA_FIELD_MARKER,
	MPA_FIELD_LENGTH,
	MPA_FIELD_ULPDU,
	MPA_FIELD_PAD,
	MPA_FIELD_CRC,
};

/* Contiguous octets of one field of an FPDU. */
struct mpa_field_span {
	enum mpa_field field;
	u32 off;	/* offset of the first octet in the FPDU */
	u32 len;	/* octets from @off until another field begins */
	u32 skip;	/* octets of the field before @off, not counting markers */
};

void mpa_fpdu_field_at(const struct mpa_fpdu *fpdu, u32 off, struct mpa_field_span *run);
bool mpa_fpdu_markers_good(const struct mpa_fpdu *fpdu, const u8 *data);
u32 mpa_fpdu_offset(const struct mpa_fpdu *fpdu, u32 ulpdu_off);
u32 mpa_mulpdu(u32 emss, bool marked);
u32 mpa_fpdu_fill(u32 pos, u32 room, bool marked);
bool mpa_fpdu_init_marked(struct mpa_fpdu *fpdu, u32 pos, u32 len);

/* Return the FPDUPTR of the marker at @off: octets since ULPDU_Length, or 0. */
static inline u16 mpa_fpdu_ptr(const struct mpa_fpdu *fpdu, u32 off)
{
	return off < fpdu->head ? 0 : off - fpdu->head;
}

/* Return how many octets of the FPDU at @pos are needed to know its length. */
static inline u32 mpa_fpdu_head_len(u32 pos, bool marked)
{
	return marked && !(pos % MPA_MARKER_INTERVAL) ? MPA_FPDU_HEAD_MAX :
							MPA_LENGTH_LEN;
}

/* Return the length of the ULPDU. @head_len: mpa_fpdu_head_len() of the FPDU. */
static inline u32 mpa_ulpdu_length(const u8 *head, u32 head_len)
{
	return get_unaligned_be16(head + head_len - MPA_LENGTH_LEN);
}

static inline u32 mpa_fpdu_plain_len(u32 ulpdu_len)
{
	return round_up(MPA_LENGTH_LEN + ulpdu_len, 4) + MPA_CRC_LEN;
}

/* Lay out an FPDU. @pos is a multiple of 4, @ulpdu_len at most 65535. */
static inline void mpa_fpdu_init(struct mpa_fpdu *fpdu, u32 pos, u32 ulpdu_len,
				 bool marked)
{
	u32 len = mpa_fpdu_plain_len(ulpdu_len);

	fpdu->pos = pos;
	fpdu->ulpdu_len = ulpdu_len;
	fpdu->marked = marked;
	fpdu->framing = MPA_FRAMING_MPA;
	fpdu->period = 0;
	fpdu->wrong_key = false;
	fpdu->markers = marked ? mpa_marker_count(pos, len) : 0;
	fpdu->head = marked && !mpa_marker_distance(pos) ? MPA_MARKER_LEN : 0;
	fpdu->len = len + fpdu->markers * MPA_MARKER_LEN;
}

/* Whether a ULPDU has a valid length: "between one and 64768 octets" (section 3). */
static inline bool mpa_ulpdu_len_good(u32 ulpdu_len)
{
	return ulpdu_len - 1 < MPA_ULPDU_MAX;
}

/*
 * Write the header and pad of an FPDU of @len octets without markers. The
 * caller writes the ULPDU and the CRC afterwards.
 */
static inline void mpa_fpdu_put_plain(u8 *fpdu, u32 len, u32 ulpdu_len)
{
	/* Zero the pad. The ULPDU and the CRC overwrite the other octets. */
	put_unaligned_le32(0, fpdu + len - 2 * MPA_CRC_LEN);
	put_unaligned_be16(ulpdu_len, fpdu);
}

/*
 * Return the offset of the ULPDU. Set @span to the number of ULPDU octets
 * before the first marker. MPA_MARKER_GAP octets follow each marker.
 */
static inline u32 mpa_fpdu_first_span(const struct mpa_fpdu *fpdu, u32 *span)
{
	u32 off = fpdu->head + MPA_LENGTH_LEN;

	*span = fpdu->markers ?
		min(mpa_marker_distance(fpdu->pos + off), fpdu->ulpdu_len) :
		fpdu->ulpdu_len;
	return off;
}

/*
 * Write a contiguous FPDU except for its CRC. @copy writes the next @len octets
 * of the ULPDU to @to; if @copy returns false, return false at once. Inlined to
 * avoid indirect calls of @copy.
 */
static __always_inline bool
mpa_fpdu_write(const struct mpa_fpdu *fpdu, u8 *data,
	       bool (*copy)(void *from, u8 *to, u32 len), void *from)
{
	u32 left = fpdu->ulpdu_len, span;
	u32 off = mpa_fpdu_first_span(fpdu, &span);

	if (fpdu->head)
		mpa_marker_put(data, 0);
	put_unaligned_be16(left, data + fpdu->head);

	for (; left > span; span = MPA_MARKER_GAP) {
		if (!copy(from, data + off, span))
			return false;
		left -= span;
		off += span;
		mpa_marker_put(data + off, off - fpdu->head);
		off += MPA_MARKER_LEN;
	}
	if (left && !copy(from, data + off, left))
		return false;

	/* Write the pad, and the marker after it, if any. */
	off += left;
	while (off % 4)
		data[off++] = 0;
	if (off < fpdu->len - MPA_CRC_LEN)
		mpa_marker_put(data + off, mpa_fpdu_ptr(fpdu, off));
	return true;
}

/*
 * Read the first @n octets of a contiguous FPDU's ULPDU. @copy takes @len
 * octets; if @copy returns false, return false at once. Inlined for the same
 * reason as mpa_fpdu_write().
 */
static __always_inline bool
mpa_fpdu_read(const struct mpa_fpdu *fpdu, const u8 *data, u32 n,
	      bool (*copy)(void *to, const u8 *from, u32 len), void *to)
{
	u32 span;

	data += mpa_fpdu_first_span(fpdu, &span);
	for (; n; n -= span, span = MPA_MARKER_GAP) {
		span = min(span, n);
		if (!copy(to, data, span))
			return false;
		data += span + MPA_MARKER_LEN;
	}
	return true;
}

/*
 * Compute the layout of the FPDU at @pos. @data has @have octets, from @pos on.
 * Return false if the FPDU is incomplete, or its length is invalid.
 */
static inline bool mpa_fpdu_parse(struct mpa_fpdu *fpdu, const u8 *data,
				  size_t have, u32 pos, bool marked)
{
	u32 head_len = mpa_fpdu_head_len(pos, marked), ulpdu_len;

	if (have < head_len)
		return false;
	ulpdu_len = mpa_ulpdu_length(data, head_len);
	if (!mpa_ulpdu_len_good(ulpdu_len))
		return false;
	mpa_fpdu_init(fpdu, pos, ulpdu_len, marked);
	return fpdu->len <= have;
}

/* State of verifying an FPDU piece by piece. */
struct mpa_verify {
	const struct mpa_fpdu *fpdu;
	u32 off;		/* offset of the next octet in the FPDU */
	u32 crc_end;		/* octets that the CRC covers; 0: do not check the CRC */
	u32 crc;		/* CRC so far */
	bool bad_marker;	/* a marker does not point to the FPDU's start */
	u8 field[MPA_CRC_LEN];	/* a marker or the CRC, which may arrive in pieces */
};

/* State of reading the ULPDU of an FPDU piece by piece. */
struct mpa_pick {
	const struct mpa_fpdu *fpdu;
	u32 off;	/* offset of the next octet in the FPDU */
	int (*copy)(void *to, const u8 *data, u32 len);	/* a nonzero result ends the walk */
	void *to;	/* for @copy */
};

void mpa_verify_begin(struct mpa_verify *verify, const struct mpa_fpdu *fpdu,
		      bool crc);
int mpa_verify_octets(void *arg, const u8 *data, u32 len);
enum mpa_error mpa_verify_end(const struct mpa_verify *verify);
void mpa_pick_begin(struct mpa_pick *pick, const struct mpa_fpdu *fpdu,
		    u32 first);
int mpa_pick_octets(void *arg, const u8 *data, u32 len);
enum mpa_error mpa_verify_linear(const struct mpa_fpdu *fpdu, const u8 *data,
				 bool crc);

/* ---- startup frames: mpa_negotiate.c, RFC 5044 section 7.1.1, RFC 6581 ---- */

#define MPA_KEY_LEN		16
#define MPA_FRAME_LEN		20	/* without private data */
#define MPA_FRAME_MAX		(MPA_FRAME_LEN + MPA_PRIVATE_DATA_MAX)

enum mpa_frame_kind {
	MPA_REQUEST,
	MPA_REPLY,
};

/* A startup frame without its private data. */
struct mpa_frame {
	u8 flags;		/* M, C, R and S, as MPA_PEER_* */
	u8 revision;		/* Rev */
	u16 private_len;	/* PD_Length */
};

enum mpa_frame_verdict {
	MPA_FRAME_MORE,		/* incomplete, well-formed so far */
	MPA_FRAME_OK,		/* the fixed part is complete and well-formed */
	MPA_FRAME_BAD_KEY,	/* not an MPA peer */
	MPA_FRAME_SAME_KEY,	/* both ends play the same role (section 7.1.2 rule 8) */
	MPA_FRAME_BAD_LEN,	/* PD_Length is over 512, or too small for what S announces */
};

#define MPA_ENHANCED_LEN	4
#define MPA_DEPTH_MAX		0x3fff

/* The first octets of the private data if S is set (RFC 6581). */
struct mpa_enhanced {
	u16 ird;	/* inbound RDMA Read queue depth */
	u16 ord;	/* outbound RDMA Read queue depth */
	u32 control;	/* flags A to D, as MPA_START_P2P and MPA_START_RTR_* */
};

void mpa_enhanced_put(u8 *field, const struct mpa_enhanced *enhanced);
void mpa_enhanced_get(const u8 *field, struct mpa_enhanced *enhanced);
void mpa_frame_put(u8 *frame, enum mpa_frame_kind kind,
		   const struct mpa_frame *startup);
enum mpa_frame_verdict
mpa_frame_parse(const u8 *frame, u32 len, enum mpa_frame_kind expected,
		struct mpa_frame *startup);

/* What one end proposes in the startup phase. */
struct mpa_offer {
	u8 role;	/* enum mpa_role */
	u8 revision;	/* of MPA */
	u16 ird;	/* see struct mpa_enhanced */
	u16 ord;
	u32 flags;	/* MPA_START_* */
};

int mpa_agree_revision(const struct mpa_offer *offer,
		       const struct mpa_frame *frame);
u32 mpa_agree_rtr(u32 ours, u32 theirs, u16 ird);
u16 mpa_agree_limit(u16 ours, u16 theirs);
u16 mpa_agree_depth(u16 depth, u32 control);
void mpa_agree_reply(const struct mpa_offer *offer,
		     const struct mpa_offer *ours,
		     const struct mpa_enhanced *theirs, bool reject,
		     struct mpa_enhanced *reply);

#endif /* _MPA_PROTO_H */
