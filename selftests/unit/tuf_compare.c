// SPDX-License-Identifier: GPL-2.0

#include "compat.h"
#include "tuf_compare.h"
#include "unit.h"

static struct tuf_model_octet model_octets[TUF_COMPARE_OCTETS];
static struct tuf_model_sender sender = { .octets = model_octets };
static struct mpa_format framed;

static const enum mpa_field fields[] = {
	[TUF_MODEL_MARKER]	= MPA_FIELD_MARKER,
	[TUF_MODEL_HEADER]	= MPA_FIELD_LENGTH,
	[TUF_MODEL_ULPDU]	= MPA_FIELD_ULPDU,
};

static struct tuf_model_framing model_framing(const struct mpa_format *format)
{
	struct tuf_model_framing framing = {
		.bare = format->framing == MPA_FRAMING_SEGMENTS,
	};

	if (format->framing == MPA_FRAMING_TUF_MARKERS) {
		framing.period = 1;
		for (u32 i = 0; i < format->period; i++)
			framing.period *= 2;
	}
	return framing;
}

/**
 * tuf_compare_begin() - begin a stream in its middle
 * @position:	octets since framing began; beyond 32 bits to make the floor wrap
 * @format:	how it is framed
 * @key:	its key
 */
void tuf_compare_begin(u64 position, const struct mpa_format *format,
		       const u8 *key)
{
	framed = *format;
	sender.framing = model_framing(format);
	memcpy(sender.framing.key, key, sizeof(sender.framing.key));
	sender.position = position;
	sender.count = 0;
}

/* Pieces of all sizes from one octet on, others for each FPDU. */
static u32 piece_len(u32 off, u32 len, u32 pos)
{
	u32 n = 1 + (off * 2654435761U + pos * 40503) / 8 %
		    (pos % 3 ? 300 : 5);

	return min(n, len - off);
}

/* ---- sending ---- */

static void check_layout(const struct mpa_fpdu *fpdu, u64 position, u32 len,
			 const struct tuf_model_fpdu *model)
{
	u32 octets = model->end - model->begin;
	bool head = octets &&
		    model_octets[model->begin].field == TUF_MODEL_MARKER;

	EXPECT_EQ((u32)position, fpdu->pos, "pos");
	EXPECT_EQ(len, fpdu->ulpdu_len, "ulpdu_len");
	EXPECT_EQ(octets, fpdu->len, "octets of the FPDU");
	EXPECT_EQ(model->markers, fpdu->markers, "markers");
	EXPECT_EQ(head ? 4 : 0, fpdu->head, "octets in front of the header");
	EXPECT_EQ(false, fpdu->marked, "marked");
	EXPECT_EQ(false, fpdu->wrong_key, "wrong key");
	EXPECT_EQ(framed.framing, fpdu->framing, "framing");
	EXPECT_EQ(framed.period, fpdu->period, "period");
}

/* Octets of a run, or the first of them. */
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
		mpa_tuf_put_header(fpdu, sender.framing.key, run->skip, to, n);
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

/* Run by run, or in pieces that begin and end anywhere. */
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
		n = pieces ? piece_len(0, run.len, fpdu->pos + off) : run.len;
		put_run(fpdu, &run, ulpdu, to + off, n);
	}
}

/* A marker, and what is made of it when it has come in. */
static void check_marker(const struct mpa_fpdu *fpdu, u32 off)
{
	u32 pos = fpdu->pos + off, end = fpdu->pos + fpdu->len, target;
	u32 interval = mpa_format_interval(&framed);
	u8 field[4];

	target = off ? end : fpdu->pos;
	mpa_tuf_marker_put(fpdu, off, 0, field, sizeof(field));
	EXPECT_EQ(true, mpa_framing_marker_good(fpdu, off, field),
		  "marker at %u is good", off);
	EXPECT_EQ(target, mpa_tuf_marker_fpdu(&framed, pos, field),
		  "FPDU that the marker at %u leads to", off);

	/* Only up to the marker that the next FPDU begins with. */
	if (off && end % interval == 0) {
		put_unaligned_be16(get_unaligned_be16(field) - 4, field);
		put_unaligned_be16(get_unaligned_be16(field), field + 2);
		EXPECT_EQ(true, mpa_framing_marker_good(fpdu, off, field),
			  "marker at %u that leads to the next one is good",
			  off);
		EXPECT_EQ(target, mpa_tuf_marker_fpdu(&framed, pos, field),
			  "FPDU that it leads to");
	}
	field[off % 4] ^= 0x10;
	EXPECT_EQ(false, mpa_framing_marker_good(fpdu, off, field),
		  "marker at %u of two that differ", off);
	EXPECT_EQ(pos - 1, mpa_tuf_marker_fpdu(&framed, pos, field),
		  "FPDU that it leads to");
}

/**
 * tuf_compare_append() - append an FPDU to the stream
 * @ulpdu:	its ULPDU
 * @len:	octets of it; all of the FPDU may have 65536, or 65543 if there are no
 *		markers
 *
 * Return: where the model put it.
 */
const struct tuf_model_fpdu *tuf_compare_append(const u8 *ulpdu, u32 len)
{
	static u8 expected[MPA_ANY_FPDU_MAX], seen[MPA_ANY_FPDU_MAX];
	static struct tuf_model_fpdu model;
	u64 position = sender.position;
	struct mpa_fpdu fpdu;
	u32 octets;

	tuf_model_send(&sender, ulpdu, len, &model);
	octets = model.end - model.begin;
	for (u32 i = 0; i < octets; i++)
		expected[i] = model_octets[model.begin + i].value;

	memset(&fpdu, 0xff, sizeof(fpdu));
	mpa_framing_init(&fpdu, position, len, &framed);
	check_layout(&fpdu, position, len, &model);
	for (u32 pieces = 0; pieces < 2; pieces++) {
		memset(seen, 0xa5, octets);
		make_fpdu(&fpdu, ulpdu, pieces, seen);
		EXPECT_OCTETS(expected, seen, octets, "FPDU");
	}
	for (u32 off = 0; off < octets; off++) {
		if (model_octets[model.begin + off].field == TUF_MODEL_MARKER &&
		    model_octets[model.begin + off].nth == 0)
			check_marker(&fpdu, off);
	}
	return &model;
}

/* At each offset, not only where the floor says that runs begin. */
static void check_runs(const struct mpa_fpdu *fpdu,
		       const struct tuf_model_octet *octets)
{
	struct mpa_field_span run;
	u32 until_next = 0;

	for (u32 off = fpdu->len; off--;) {
		const struct tuf_model_octet *octet = octets + off;

		if (until_next && octet[1].field == octet->field &&
		    octet[1].nth == octet->nth + 1)
			until_next++;
		else
			until_next = 1;
		mpa_tuf_field_at(fpdu, off, &run);
		EXPECT_EQ(off, run.off, "run at %u: off", off);
		EXPECT_EQ(fields[octet->field], run.field, "run at %u: field",
			  off);
		EXPECT_EQ(octet->nth, run.skip, "run at %u: skip", off);
		EXPECT_EQ(until_next, run.len, "run at %u: len", off);
		if (octet->field == TUF_MODEL_ULPDU)
			EXPECT_EQ(off, mpa_fpdu_offset(fpdu, octet->nth),
				  "offset of octet %u of the ULPDU",
				  octet->nth);
	}
	EXPECT_EQ(fpdu->len, mpa_fpdu_offset(fpdu, fpdu->ulpdu_len),
		  "offset of the ULPDU's end");
}

/**
 * tuf_compare_send() - append an FPDU to the stream, and look at each octet
 * @ulpdu:	its ULPDU
 * @len:	as in tuf_compare_append()
 *
 * Return: where the model put it.
 */
const struct tuf_model_fpdu *tuf_compare_send(const u8 *ulpdu, u32 len)
{
	const struct tuf_model_fpdu *model;
	u64 position = sender.position;
	struct mpa_fpdu fpdu;

	model = tuf_compare_append(ulpdu, len);
	mpa_tuf_init(&fpdu, position, len, &framed);
	check_runs(&fpdu, model_octets + model->begin);
	return model;
}

/* What the model sent since tuf_compare_begin(). */
const struct tuf_model_octet *tuf_compare_stream(size_t *count)
{
	*count = sender.count;
	return model_octets;
}

/**
 * tuf_compare_stream_octets() - the same, as it goes on the wire
 * @octets:	room for them
 */
void tuf_compare_stream_octets(u8 *octets)
{
	for (size_t i = 0; i < sender.count; i++)
		octets[i] = model_octets[i].value;
}

/* ---- receiving ---- */

static int copy_octets(void *to, const u8 *data, u32 len)
{
	u8 **ulpdu = to;

	memcpy(*ulpdu, data, len);
	*ulpdu += len;
	return 0;
}

/* Octets of the ULPDU from @first to @last; how many. */
static u32 pick(const struct mpa_fpdu *fpdu, const u8 *octets, u32 first,
		u32 last, u8 *ulpdu)
{
	u32 n, end = mpa_fpdu_offset(fpdu, last);
	u8 *to = ulpdu;
	struct mpa_pick pick = { .copy = copy_octets, .to = &to };

	mpa_pick_begin(&pick, fpdu, first);
	while (pick.off < end) {
		n = piece_len(pick.off, end, fpdu->pos);
		EXPECT_EQ(0, mpa_pick_octets(&pick, octets + pick.off, n),
			  "what the walk returns");
	}
	return to - ulpdu;
}

/* A part of the ULPDU, as for who reads it with a short buffer. */
static void check_part(const struct mpa_fpdu *fpdu, const u8 *octets,
		       const u8 *ulpdu)
{
	u32 end = fpdu->ulpdu_len - fpdu->ulpdu_len / 5;
	u32 first = fpdu->ulpdu_len / 3;
	static u8 part[TUF_LENGTH_MAX];

	EXPECT_EQ(end - first, pick(fpdu, octets, first, end, part),
		  "octets of a part of the ULPDU");
	EXPECT_EQ(0, memcmp(part, ulpdu + first, end - first),
		  "the %u octets at %u of the ULPDU", end - first, first);
}

static enum tuf_model_verdict verify(const struct mpa_fpdu *fpdu,
				     const u8 *octets)
{
	struct mpa_verify verify;
	enum mpa_error error;
	u32 n;

	mpa_verify_begin(&verify, fpdu, false);
	for (u32 off = 0; off < fpdu->len; off += n) {
		n = piece_len(off, fpdu->len, fpdu->pos);
		EXPECT_EQ(0, mpa_verify_octets(&verify, octets + off, n),
			  "what the walk returns");
	}
	error = mpa_verify_end(&verify);
	EXPECT_EQ(error, mpa_verify_linear(fpdu, octets, false),
		  "verdict on the FPDU in one piece");
	EXPECT_EQ(!error, mpa_framing_markers_good(fpdu, octets),
		  "all its markers are good");
	if (!error)
		return TUF_MODEL_GOOD;
	EXPECT_EQ(MPA_ERR_MARKER, error, "what is wrong");
	return TUF_MODEL_BAD_MARKER;
}

/* As the module does it, see mpa_read_head(). */
static enum tuf_model_verdict receive(const struct mpa_format *format, u32 pos,
				      const u8 *octets, size_t count, u8 *key,
				      struct mpa_fpdu *fpdu)
{
	u32 head = mpa_framing_head_len(format, pos), len;

	if (count < head)
		return TUF_MODEL_SHORT;
	len = mpa_tuf_get_header(format, pos, octets, key);
	if (!len)
		return TUF_MODEL_BAD_LENGTH;
	mpa_framing_init(fpdu, pos, len, format);
	if (mpa_format_markers(format) && fpdu->len > MPA_TUF_FPDU_MAX)
		return TUF_MODEL_BAD_LENGTH;
	if (count < fpdu->len)
		return TUF_MODEL_SHORT;
	return verify(fpdu, octets);
}

/**
 * tuf_compare_receive() - let both receive a stream, right or wrong
 * @position:	of its first octet
 * @format:	how it is framed
 * @octets:	the stream
 * @count:	how many those are
 *
 * Return: how many FPDUs came through.
 */
u32 tuf_compare_receive(u64 position, const struct mpa_format *format,
			const u8 *octets, size_t count)
{
	static u8 expected[TUF_LENGTH_MAX], seen[TUF_LENGTH_MAX];
	struct tuf_model_receiver model = {
		.framing = model_framing(format),
		.position = position,
		.octets = octets,
		.count = count,
	};
	u8 key[TUF_KEY_LEN];

	for (u32 nth = 0;; nth++) {
		enum tuf_model_verdict should, verdict;
		u32 pos = model.position;
		struct mpa_fpdu fpdu;
		size_t len = 0;

		octets = model.octets;
		count = model.count;
		should = tuf_model_receive(&model, expected, &len);
		verdict = receive(format, pos, octets, count, key, &fpdu);
		EXPECT_EQ((u32)should, (u32)verdict, "verdict on FPDU %u", nth);
		if (should != TUF_MODEL_GOOD)
			return nth;
		EXPECT_EQ(len, fpdu.ulpdu_len, "octets of ULPDU %u", nth);
		EXPECT_OCTETS(model.framing.key, key, sizeof(key),
			      "key of FPDU %u", nth);
		EXPECT_EQ(len, pick(&fpdu, octets, 0, len, seen),
			  "octets picked of ULPDU %u", nth);
		EXPECT_OCTETS(expected, seen, len, "ULPDU %u", nth);
		EXPECT_EQ((u32)model.position, pos + fpdu.len,
			  "position behind FPDU %u", nth);
		check_part(&fpdu, octets, expected);
	}
}

/* ---- sizes and keys ---- */

/**
 * tuf_compare_room() - whether the largest FPDU for a place in the stream is that
 * @position:	of the place
 * @format:	how the direction is framed
 * @room:	octets that it has
 */
void tuf_compare_room(u64 position, const struct mpa_format *format, u32 room)
{
	struct tuf_model_framing framing = model_framing(format);

	EXPECT_EQ(tuf_model_room(&framing, position, room),
		  mpa_framing_fill(format, position, room),
		  "ULPDU that fits %u octets at 0x%llx", room, position);
}

/**
 * tuf_compare_mulpdu() - whether MULPDU, and what is accepted, are the drafts'
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
	if (format->framing == MPA_FRAMING_TUF && emss < 512 && limit < 512)
		limit = 512;
	EXPECT_EQ(expected, mpa_framing_mulpdu(format, emss),
		  "MULPDU with an EMSS of %u", emss);
	EXPECT_EQ(limit, mpa_tuf_limit(format, emss),
		  "longest ULPDU with an EMSS of %u", emss);
}

/**
 * tuf_compare_finds() - let both look for a key
 * @key:	the key
 * @octets:	where it may be
 * @count:	how many those are
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
