// SPDX-License-Identifier: GPL-2.0
/* Use the protocol layer run by run, like the module's engines. */

#include "compat.h"
#include "engine.h"
#include "unit.h"

/* Write the whole field of a run, even if the run begins inside the field. */
static void fill_run(const struct mpa_fpdu *fpdu, const struct mpa_field_span *run,
		     const u8 *ulpdu, u32 crc, u8 *out)
{
	u8 field[4];

	switch (run->field) {
	case MPA_FIELD_MARKER:
		mpa_marker_put(field, mpa_fpdu_ptr(fpdu, run->off - run->skip));
		break;
	case MPA_FIELD_LENGTH:
		put_unaligned_be16(fpdu->ulpdu_len, field);
		break;
	case MPA_FIELD_ULPDU:
		EXPECT_EQ(true, run->skip + run->len <= fpdu->ulpdu_len,
			  "run at %u: stays in the ULPDU", run->off);
		memcpy(out, ulpdu + run->skip, run->len);
		return;
	case MPA_FIELD_PAD:
		memset(field, 0, sizeof(field));
		break;
	case MPA_FIELD_CRC:
		mpa_crc_put(crc, field);
		break;
	}
	EXPECT_EQ(true, run->skip + run->len <= sizeof(field),
		  "run at %u: stays in field %d", run->off, run->field);
	memcpy(out, field + run->skip, run->len);
}

static void check_run(const struct mpa_fpdu *fpdu, const struct mpa_field_span *run,
		      u32 off)
{
	EXPECT_EQ(off, run->off, "run at %u: off", off);
	EXPECT_EQ(true, run->len > 0, "run at %u: is not empty", off);
	EXPECT_EQ(true, run->len <= fpdu->len - off,
		  "run at %u: %u octets end within the FPDU's %u", off,
		  run->len, fpdu->len);
}

struct copier {
	const u8 *from;
	u32 calls;
};

/* Copy, but only a limited number of times, as from user memory that ends. */
static bool copy_in(void *arg, u8 *to, u32 len)
{
	struct copier *copier = arg;

	if (!copier->calls)
		return false;
	copier->calls--;
	memcpy(to, copier->from, len);
	copier->from += len;
	return true;
}

static bool copy_out(void *arg, const u8 *from, u32 len)
{
	struct copier *copier = arg;

	if (!copier->calls)
		return false;
	copier->calls--;
	EXPECT_EQ(0, memcmp(copier->from, from, len),
		  "%u octets of the ULPDU", len);
	copier->from += len;
	return true;
}

/* Build the same FPDU in one step, and compare them. */
static void check_fill_in(const struct mpa_fpdu *fpdu, const u8 *ulpdu,
			  const u8 *octets)
{
	u32 spans = fpdu->markers + 1, crc_at = fpdu->len - MPA_CRC_LEN;
	static u8 again[MPA_FPDU_MAX + 1024];
	struct copier copier;

	memset(again, 0xa5, fpdu->len);
	copier = (struct copier){ ulpdu, spans };
	EXPECT_EQ(true, mpa_fpdu_write(fpdu, again, copy_in, &copier),
		  "FPDU of %u octets in one go", fpdu->len);
	EXPECT_OCTETS(octets, again, crc_at, "FPDU made in one go");
	for (spans -= copier.calls; spans--;) {
		copier = (struct copier){ ulpdu, spans };
		EXPECT_EQ(false, mpa_fpdu_write(fpdu, again, copy_in,
						&copier),
			  "FPDU of which only %u pieces can be read", spans);
	}
	if (fpdu->marked)
		return;
	memset(again, 0xa5, fpdu->len);
	mpa_fpdu_put_plain(again, fpdu->len, fpdu->ulpdu_len);
	memcpy(again + MPA_LENGTH_LEN, ulpdu, fpdu->ulpdu_len);
	EXPECT_OCTETS(octets, again, crc_at, "FPDU without markers");
}

/**
 * engine_send() - build an FPDU, run by run
 * @pos:	stream position where it starts
 * @marked:	with markers
 * @ulpdu:	its ULPDU
 * @len:	its length
 * @out:	buffer for the FPDU
 *
 * Return: its length.
 */
u32 engine_send(u32 pos, bool marked, const u8 *ulpdu, u32 len, u8 *out)
{
	struct mpa_field_span run;
	u32 crc = MPA_CRC_INIT;
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, pos, len, marked);
	for (u32 off = 0; off < fpdu.len; off += run.len) {
		mpa_fpdu_field_at(&fpdu, off, &run);
		check_run(&fpdu, &run, off);
		fill_run(&fpdu, &run, ulpdu, crc, out + off);
		if (run.field != MPA_FIELD_CRC)
			crc = mpa_crc_update(crc, out + off, run.len);
	}
	check_fill_in(&fpdu, ulpdu, out);
	return fpdu.len;
}

/**
 * engine_send_octets() - build an FPDU, with a new request for every octet
 * @pos:	stream position where it starts
 * @marked:	with markers
 * @ulpdu:	its ULPDU
 * @len:	its length
 * @out:	buffer for the FPDU
 *
 * Return: its length.
 */
u32 engine_send_octets(u32 pos, bool marked, const u8 *ulpdu, u32 len, u8 *out)
{
	struct mpa_field_span run;
	u32 crc = MPA_CRC_INIT;
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, pos, len, marked);
	for (u32 off = 0; off < fpdu.len; off++) {
		mpa_fpdu_field_at(&fpdu, off, &run);
		check_run(&fpdu, &run, off);
		run.len = 1;
		fill_run(&fpdu, &run, ulpdu, crc, out + off);
		if (off < fpdu.len - MPA_CRC_LEN)
			crc = mpa_crc_update(crc, out + off, 1);
	}
	return fpdu.len;
}

static int copy_octets(void *to, const u8 *data, u32 len)
{
	u8 **ulpdu = to;

	memcpy(*ulpdu, data, len);
	*ulpdu += len;
	return 0;
}

/*
 * Return: the size of a piece that begins at an octet. All sizes occur, and each FPDU
 * has others.
 */
u32 engine_piece(u32 off, u32 len, u32 pos)
{
	u32 n = 1 + (off * 2654435761U + pos * 40503) / 8 %
		    (pos / 4 % 3 ? 500 : 7);

	return min(n, len - off);
}

/* Copy the ULPDU's octets @first to @last. Return: their number. */
static u32 pick(const struct mpa_fpdu *fpdu, const u8 *octets, u32 first,
		u32 last, u8 *ulpdu)
{
	u32 n, end = mpa_fpdu_offset(fpdu, last);
	u8 *to = ulpdu;
	struct mpa_pick pick = { .copy = copy_octets, .to = &to };

	mpa_pick_begin(&pick, fpdu, first);
	while (pick.off < end) {
		n = engine_piece(pick.off, end, fpdu->pos);
		EXPECT_EQ(0, mpa_pick_octets(&pick, octets + pick.off, n),
			  "what the walk returns");
	}
	return to - ulpdu;
}

/* Check a part of the ULPDU, as read into a short buffer. */
static void check_part(const struct mpa_fpdu *fpdu, const u8 *octets,
		       const u8 *ulpdu)
{
	u32 end = fpdu->ulpdu_len - fpdu->ulpdu_len / 5;
	u32 first = fpdu->ulpdu_len / 3;
	static u8 part[1 << 16];

	EXPECT_EQ(end - first, pick(fpdu, octets, first, end, part),
		  "octets of a part of the ULPDU");
	EXPECT_EQ(0, memcmp(part, ulpdu + first, end - first),
		  "the %u octets at %u of the ULPDU", end - first, first);
}

/* Check the ULPDU of a contiguous FPDU. */
static void check_runs(const struct mpa_fpdu *fpdu, const u8 *octets,
		       const u8 *ulpdu)
{
	u32 run, done, n;
	u32 off = mpa_fpdu_first_span(fpdu, &run);

	for (done = 0; done < fpdu->ulpdu_len; done += n) {
		n = min(run, fpdu->ulpdu_len - done);
		run = MPA_MARKER_GAP;
		EXPECT_EQ(0, memcmp(ulpdu + done, octets + off, n),
			  "run of %u octets at %u of the ULPDU", n, done);
		off += n + MPA_MARKER_LEN;
	}
	EXPECT_EQ(fpdu->ulpdu_len, done, "octets of all runs");
}

/* As check_runs(), with the function that iterates over runs. */
static void check_take_out(const struct mpa_fpdu *fpdu, const u8 *octets,
			   const u8 *ulpdu)
{
	struct copier copier = { ulpdu, fpdu->markers + 1 };
	u32 n = fpdu->ulpdu_len;

	EXPECT_EQ(true, mpa_fpdu_read(fpdu, octets, n, copy_out, &copier),
		  "all octets of the ULPDU");
	EXPECT_EQ(n, copier.from - ulpdu, "octets taken out");
	copier = (struct copier){ ulpdu, fpdu->markers + 1 };
	EXPECT_EQ(true, mpa_fpdu_read(fpdu, octets, n / 2, copy_out,
				      &copier), "half of the ULPDU");
	EXPECT_EQ(n / 2, copier.from - ulpdu, "octets of half of it");
	copier = (struct copier){ ulpdu, 0 };
	EXPECT_EQ(!n, mpa_fpdu_read(fpdu, octets, n, copy_out, &copier),
		  "a copy that fails");
}

/* Check the parser with any number of an FPDU's first octets. */
static void check_parse(const struct mpa_fpdu *fpdu, const u8 *octets)
{
	bool good = fpdu->ulpdu_len;
	struct mpa_fpdu again;

	EXPECT_EQ(good, mpa_fpdu_parse(&again, octets, fpdu->len, fpdu->pos,
				       fpdu->marked), "all of it is here");
	EXPECT_EQ(false, mpa_fpdu_parse(&again, octets, fpdu->len - 1,
					fpdu->pos, fpdu->marked),
		  "one octet is missing");
	EXPECT_EQ(false, mpa_fpdu_parse(&again, octets, 1, fpdu->pos,
					fpdu->marked), "one octet is here");
	if (!good)
		return;
	EXPECT_EQ(fpdu->len, again.len, "its length");
	EXPECT_EQ(fpdu->ulpdu_len, again.ulpdu_len, "that of its ULPDU");
	EXPECT_EQ(fpdu->markers, again.markers, "its markers");
}

static bool mpa_length(const struct engine_receiver *receiver, u32 head,
		       u32 *len)
{
	*len = mpa_ulpdu_length(receiver->octets, head);
	return *len <= MPA_ULPDU_MAX;
}

static void mpa_good(const struct mpa_fpdu *fpdu, const u8 *octets,
		     const u8 *ulpdu)
{
	check_runs(fpdu, octets, ulpdu);
	check_take_out(fpdu, octets, ulpdu);
	check_parse(fpdu, octets);
}

const struct engine_ops engine_mpa = {
	.length = mpa_length,
	.good = mpa_good,
};

static enum engine_verdict verify(const struct engine_receiver *receiver,
				  const struct mpa_fpdu *fpdu)
{
	bool crc = receiver->format.crc;
	struct mpa_verify verify;
	enum mpa_error error;
	u32 n;

	mpa_verify_begin(&verify, fpdu, crc);
	for (u32 off = 0; off < fpdu->len; off += n) {
		n = engine_piece(off, fpdu->len, fpdu->pos);
		EXPECT_EQ(0, mpa_verify_octets(&verify, receiver->octets + off,
					       n), "what the walk returns");
	}
	error = mpa_verify_end(&verify);
	EXPECT_EQ(error, mpa_verify_linear(fpdu, receiver->octets, crc),
		  "verdict on the FPDU in one piece");
	if (error == MPA_ERR_CRC)
		return ENGINE_BAD_CRC;
	EXPECT_EQ(!error, !mpa_format_markers(&receiver->format) ||
		  mpa_framing_markers_good(fpdu, receiver->octets),
		  "all its markers are good");
	if (!error)
		return ENGINE_GOOD;
	EXPECT_EQ(MPA_ERR_MARKER, error, "what is wrong");
	return ENGINE_BAD_MARKER;
}

/**
 * engine_receive() - receive one FPDU like the module: see mpa_read_head()
 * @receiver:	advanced past the FPDU if it is good
 * @ulpdu:	buffer of 65535 octets
 * @len:	number of octets filled in
 */
enum engine_verdict engine_receive(struct engine_receiver *receiver, u8 *ulpdu,
				   u32 *len)
{
	const struct engine_ops *ops = receiver->ops ?: &engine_mpa;
	const struct mpa_format *format = &receiver->format;
	u32 head = mpa_framing_head_len(format, receiver->pos);
	enum engine_verdict verdict;
	struct mpa_field_span run;
	struct mpa_fpdu fpdu;

	if (receiver->count < head)
		return ENGINE_SHORT;
	if (!ops->length(receiver, head, len))
		return ENGINE_BAD_LENGTH;
	mpa_framing_init(&fpdu, receiver->pos, *len, format);
	if (receiver->count < fpdu.len)
		return ENGINE_SHORT;

	for (u32 off = 0; off < fpdu.len; off += run.len) {
		mpa_fpdu_field_at(&fpdu, off, &run);
		check_run(&fpdu, &run, off);
	}
	verdict = verify(receiver, &fpdu);
	if (verdict != ENGINE_GOOD)
		return verdict;
	EXPECT_EQ(*len, pick(&fpdu, receiver->octets, 0, *len, ulpdu),
		  "octets of the ULPDU");
	ops->good(&fpdu, receiver->octets, ulpdu);
	check_part(&fpdu, receiver->octets, ulpdu);
	receiver->octets += fpdu.len;
	receiver->count -= fpdu.len;
	receiver->pos += fpdu.len;
	return ENGINE_GOOD;
}
