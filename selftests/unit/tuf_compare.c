// SPDX-License-Identifier: GPL-2.0

#include "compat.h"
#include "tuf/layout.h"
#include "tuf_compare.h"
#include "unit.h"

/* Framing of the stream that is sent or received. */
static struct tuf_model_framing framing;
static struct mpa_format framed;
static u8 key_seen[TUF_KEY_LEN];

static struct tuf_model_framing model_framing(const struct mpa_format *format)
{
	struct tuf_model_framing framing = {
		.bare = format->framing == MPA_FRAMING_SEGMENTS,
	};

	if (format->framing == MPA_FRAMING_POINTERS) {
		framing.period = 1;
		for (u32 i = 0; i < format->period; i++)
			framing.period *= 2;
	}
	return framing;
}

/* ---- sending ---- */

/* Write a run, or its first octets. */
static void put_run(const struct mpa_fpdu *fpdu,
		    const struct mpa_field_span *run, const u8 *ulpdu, u8 *to,
		    u32 n)
{
	switch (run->field) {
	case MPA_FIELD_MARKER:
		mpa_tuf_marker_put(fpdu, run->off - run->skip, run->skip, to,
				   n);
		break;
	case MPA_FIELD_LENGTH:
		mpa_tuf_put_header(fpdu, framing.key, run->skip, to, n);
		break;
	case MPA_FIELD_ULPDU:
		EXPECT_EQ(true, run->skip + n <= fpdu->ulpdu_len,
			  "run at %u: stays in the ULPDU", run->off);
		memcpy(to, ulpdu + run->skip, n);
		break;
	default:
		EXPECT_EQ(MPA_FIELD_ULPDU, run->field, "run at %u: field",
			  run->off);
	}
}

/* Build an FPDU run by run, or in pieces that begin and end anywhere. */
static void make_fpdu(const struct mpa_fpdu *fpdu, const u8 *ulpdu,
		      bool pieces, u8 *to)
{
	struct mpa_field_span run;
	u32 n;

	for (u32 off = 0; off < fpdu->len; off += n) {
		mpa_fpdu_field_at(fpdu, off, &run);
		EXPECT_EQ(off, run.off, "run at %u: off", off);
		EXPECT_EQ(true, run.len && run.len <= fpdu->len - off,
			  "run at %u: %u octets, of the FPDU's %u", off,
			  run.len, fpdu->len);
		n = pieces ? engine_piece(0, run.len, fpdu->pos + off) : run.len;
		put_run(fpdu, &run, ulpdu, to + off, n);
	}
}

/* Compare a marker, and the result of parsing it. */
static void check_marker(const struct mpa_fpdu *fpdu, u32 off)
{
	u32 pos = fpdu->pos + off, end = fpdu->pos + fpdu->len, target;
	u32 interval = mpa_format_interval(&framed);
	u8 field[4];

	target = off ? end : fpdu->pos;
	mpa_tuf_marker_put(fpdu, off, 0, field, sizeof(field));
	EXPECT_EQ(true, mpa_framing_marker_good(fpdu, off, field),
		  "marker at %u is good", off);
	EXPECT_EQ(target, mpa_alt_marker_fpdu(&framed, pos, field),
		  "FPDU that the marker at %u leads to", off);

	/* The marker may point to the marker with which the next FPDU begins. */
	if (off && end % interval == 0) {
		put_unaligned_be16(get_unaligned_be16(field) - 4, field);
		put_unaligned_be16(get_unaligned_be16(field), field + 2);
		EXPECT_EQ(true, mpa_framing_marker_good(fpdu, off, field),
			  "marker at %u that leads to the next one is good",
			  off);
		EXPECT_EQ(target, mpa_alt_marker_fpdu(&framed, pos, field),
			  "FPDU that it leads to");
	}
	field[off % 4] ^= 0x10;
	EXPECT_EQ(false, mpa_framing_marker_good(fpdu, off, field),
		  "marker at %u of two that differ", off);
	EXPECT_EQ(pos - 1, mpa_alt_marker_fpdu(&framed, pos, field),
		  "FPDU that it leads to");
}

/* Check an FPDU built run by run and in pieces, and each of its markers. */
static void check_made(const struct mpa_fpdu *fpdu, u64 position,
		       const struct model_octet *model, const u8 *ulpdu,
		       const u8 *octets)
{
	static u8 seen[MPA_ANY_FPDU_MAX];

	(void)position;
	for (u32 pieces = 0; pieces < 2; pieces++) {
		memset(seen, 0xa5, fpdu->len);
		make_fpdu(fpdu, ulpdu, pieces, seen);
		EXPECT_OCTETS(octets, seen, fpdu->len, "FPDU");
	}
	for (u32 off = 0; off < fpdu->len; off++) {
		if (model[off].field == MODEL_MARKER && model[off].nth == 0)
			check_marker(fpdu, off);
	}
}

static void send_framed(struct model_sender *sender, const u8 *ulpdu,
			size_t len, struct model_fpdu *fpdu)
{
	tuf_model_send(&framing, sender, ulpdu, len, fpdu);
}

/* ---- receiving ---- */

static enum model_verdict receive_framed(struct model_receiver *receiver,
					 u8 *ulpdu, size_t *len)
{
	return tuf_model_receive(&framing, receiver, ulpdu, len);
}

static bool read_length(const struct engine_receiver *receiver, u32 head,
			u32 *len)
{
	struct mpa_fpdu fpdu;

	(void)head;
	*len = mpa_tuf_get_header(&receiver->format, receiver->pos,
				  receiver->octets, key_seen);
	if (!*len)
		return false;
	mpa_framing_init(&fpdu, receiver->pos, *len, &receiver->format);
	return !mpa_format_markers(&receiver->format) ||
	       fpdu.len <= MPA_TUF_FPDU_MAX;
}

static void check_key(const struct mpa_fpdu *fpdu, const u8 *octets,
		      const u8 *ulpdu)
{
	(void)fpdu;
	(void)octets;
	(void)ulpdu;
	EXPECT_OCTETS(framing.key, key_seen, sizeof(key_seen), "key");
}

static const struct engine_ops engine_tuf = {
	.length = read_length,
	.good = check_key,
};

static const struct compare_ops tuf_ops = {
	.send = send_framed,
	.receive = receive_framed,
	.check = check_made,
	.engine = &engine_tuf,
};

/**
 * tuf_compare_begin() - begin a stream of TUF, see compare_begin()
 * @position:	octets since framing began
 * @format:	how it is framed
 * @key:	its key
 */
void tuf_compare_begin(u64 position, const struct mpa_format *format,
		       const u8 *key)
{
	framed = *format;
	framing = model_framing(format);
	memcpy(framing.key, key, sizeof(framing.key));
	compare_begin(&tuf_ops, position, format);
}

/**
 * tuf_compare_receive() - receive a stream of TUF, see compare_receive_as()
 * @position:	position of its first octet
 * @format:	how it is framed
 * @octets:	the stream
 * @count:	its length
 */
u32 tuf_compare_receive(u64 position, const struct mpa_format *format,
			const u8 *octets, size_t count)
{
	framed = *format;
	framing = model_framing(format);
	return compare_receive_as(&tuf_ops, position, format, octets, count);
}

/* ---- sizes and keys ---- */

/**
 * tuf_compare_room() - whether the largest FPDU for a place in the stream is right
 * @position:	position of the place
 * @format:	how the direction is framed
 * @room:	its size
 */
void tuf_compare_room(u64 position, const struct mpa_format *format, u32 room)
{
	struct tuf_model_framing framing = model_framing(format);

	EXPECT_EQ(tuf_model_room(&framing, position, room),
		  mpa_framing_fill(format, position, room),
		  "ULPDU that fits %u octets at 0x%llx", room, position);
}

/**
 * tuf_compare_mulpdu() - whether MULPDU and the accepted lengths are right by the
 * drafts
 * @format:	how the direction is framed
 * @emss:	octets of a segment
 */
void tuf_compare_mulpdu(const struct mpa_format *format, u32 emss)
{
	struct tuf_model_framing framing = model_framing(format);
	u32 expected, limit;

	/* With markers segments do not matter. */
	expected = tuf_model_room(&framing, 0, framing.period ? 65536 : emss);
	if (expected < 128)
		expected = 128;
	limit = expected;
	if (format->framing == MPA_FRAMING_KEYED && emss < 512 && limit < 512)
		limit = 512;
	EXPECT_EQ(expected, mpa_framing_mulpdu(format, emss),
		  "MULPDU with an EMSS of %u", emss);
	EXPECT_EQ(limit, mpa_tuf_limit(format, emss),
		  "longest ULPDU with an EMSS of %u", emss);
}

/**
 * tuf_compare_finds() - let both search for a key
 * @key:	the key
 * @octets:	octets in which it may be
 * @count:	their number
 */
void tuf_compare_finds(const u8 *key, const u8 *octets, u32 count)
{
	struct mpa_tuf_key search;

	mpa_tuf_set_key(&search, key);
	EXPECT_OCTETS(key, search.key, TUF_KEY_LEN, "key that is searched for");
	EXPECT_EQ(tuf_model_finds(key, octets, count),
		  mpa_tuf_finds(&search, octets, count),
		  "key is in %u octets", count);
}
