// SPDX-License-Identifier: GPL-2.0

#include "compare.h"
#include "unit.h"

static struct model_octet model_octets[COMPARE_OCTETS];
static struct model_sender sender = { .octets = model_octets };
static const struct compare_ops *framing_ops;
static struct mpa_format framed;

static const enum mpa_field fields[] = {
	[MODEL_MARKER]	= MPA_FIELD_MARKER,
	[MODEL_LENGTH]	= MPA_FIELD_LENGTH,
	[MODEL_ULPDU]	= MPA_FIELD_ULPDU,
	[MODEL_PAD]	= MPA_FIELD_PAD,
	[MODEL_CRC]	= MPA_FIELD_CRC,
};

/**
 * compare_begin() - begin a stream at some position
 * @ops:	functions of its framing
 * @position:	octets since framing began; beyond 32 bits to make positions wrap
 * @format:	how it is framed
 */
void compare_begin(const struct compare_ops *ops, u64 position,
		   const struct mpa_format *format)
{
	framing_ops = ops;
	framed = *format;
	sender.position = position;
	sender.markers = format->marked;
	sender.count = 0;
}

static void compare_fpdu(const struct mpa_fpdu *fpdu, u64 position, u32 len,
			 const struct model_fpdu *model)
{
	const struct model_octet *octets = model_octets + model->begin;
	u32 count = model->end - model->begin, head = 0;

	for (u32 off = 0; off < count; off++)
		if (octets[off].field == MODEL_LENGTH)
			head = off + 1;
	EXPECT_EQ((u32)position, fpdu->pos, "pos");
	EXPECT_EQ(len, fpdu->ulpdu_len, "ulpdu_len");
	EXPECT_EQ(count, fpdu->len, "octets of the FPDU");
	EXPECT_EQ(model->markers, fpdu->markers, "markers");
	EXPECT_EQ(count && octets->field == MODEL_MARKER ? 4 : 0, fpdu->head,
		  "octets before the header");
	if (head)
		EXPECT_EQ(head, mpa_framing_head_len(&framed, position),
			  "octets to learn the length");
	EXPECT_EQ(framed.marked, fpdu->marked, "marked");
	EXPECT_EQ(framed.framing, fpdu->framing, "framing");
	EXPECT_EQ(framed.period, fpdu->period, "period");
	EXPECT_EQ(false, fpdu->wrong_key, "wrong key");
}

/**
 * compare_append() - append an FPDU to the stream
 * @ulpdu:	its ULPDU
 * @len:	its length, up to the framing's limit
 *
 * Return: where the model put it.
 */
const struct model_fpdu *compare_append(const u8 *ulpdu, u32 len)
{
	static u8 expected[MPA_ANY_FPDU_MAX];
	static struct model_fpdu model;
	u64 position = sender.position;
	struct mpa_fpdu fpdu;

	framing_ops->send(&sender, ulpdu, len, &model);
	for (u32 i = model.begin; i < model.end; i++)
		expected[i - model.begin] = model_octets[i].value;

	memset(&fpdu, 0xff, sizeof(fpdu));
	mpa_framing_init(&fpdu, position, len, &framed);
	compare_fpdu(&fpdu, position, len, &model);
	framing_ops->check(&fpdu, position, model_octets + model.begin, ulpdu,
			   expected);
	return &model;
}

/* Compare the field at every offset, not only where runs begin. */
static void compare_runs(const struct mpa_fpdu *fpdu,
			 const struct model_octet *octets)
{
	u32 until_next = 0, end = 0;
	struct mpa_field_span run;

	for (u32 off = fpdu->len; off--;) {
		const struct model_octet *octet = octets + off;

		if (until_next && octet[1].field == octet->field &&
		    octet[1].nth == octet->nth + 1)
			until_next++;
		else
			until_next = 1;
		mpa_fpdu_field_at(fpdu, off, &run);
		EXPECT_EQ(off, run.off, "run at %u: off", off);
		EXPECT_EQ(fields[octet->field], run.field, "run at %u: field",
			  off);
		EXPECT_EQ(octet->nth, run.skip, "run at %u: skip", off);
		EXPECT_EQ(until_next, run.len, "run at %u: len", off);
		if (octet->field == MODEL_ULPDU)
			EXPECT_EQ(off, mpa_fpdu_offset(fpdu, octet->nth),
				  "offset of octet %u of the ULPDU",
				  octet->nth);
		if (!end && (octet->field == MODEL_LENGTH ||
			     octet->field == MODEL_ULPDU))
			end = off + 1;
	}
	EXPECT_EQ(end, mpa_fpdu_offset(fpdu, fpdu->ulpdu_len),
		  "offset of the ULPDU's end");
}

/**
 * compare_send() - append an FPDU to the stream, and compare each octet
 * @ulpdu:	its ULPDU
 * @len:	as in compare_append()
 *
 * Return: where the model put it.
 */
const struct model_fpdu *compare_send(const u8 *ulpdu, u32 len)
{
	const struct model_fpdu *model;
	u64 position = sender.position;
	struct mpa_fpdu fpdu;

	model = compare_append(ulpdu, len);
	mpa_framing_init(&fpdu, position, len, &framed);
	compare_runs(&fpdu, model_octets + model->begin);
	return model;
}

/* Return: the octets that the model has sent since compare_begin(). */
const struct model_octet *compare_stream(size_t *count)
{
	*count = sender.count;
	return model_octets;
}

/**
 * compare_stream_octets() - get the model's stream as octets on the wire
 * @octets:	buffer for them
 */
void compare_stream_octets(u8 *octets)
{
	for (size_t i = 0; i < sender.count; i++)
		octets[i] = model_octets[i].value;
}

/**
 * compare_receive_as() - let both receive a stream, valid or not
 * @ops:	functions of its framing
 * @position:	position of its first octet
 * @format:	how it is framed
 * @octets:	the stream
 * @count:	its length
 *
 * Return: the number of good FPDUs.
 */
u32 compare_receive_as(const struct compare_ops *ops, u64 position,
		       const struct mpa_format *format, const u8 *octets,
		       size_t count)
{
	static u8 expected[1 << 16], seen[1 << 16];
	struct engine_receiver engine = {
		.ops = ops->engine,
		.format = *format,
		.pos = position,
		.octets = octets,
		.count = count,
	};
	struct model_receiver model = {
		.position = position,
		.markers = format->marked,
		.crc = format->crc,
		.octets = octets,
		.count = count,
	};

	for (u32 nth = 0;; nth++) {
		enum engine_verdict verdict;
		enum model_verdict should;
		size_t expected_len = 0;
		u32 len = 0;

		should = ops->receive(&model, expected, &expected_len);
		verdict = engine_receive(&engine, seen, &len);
		/* Both enums have the same order. */
		EXPECT_EQ((u32)should, (u32)verdict, "verdict on FPDU %u", nth);
		if (should != MODEL_GOOD)
			return nth;
		EXPECT_EQ(expected_len, len, "octets of ULPDU %u", nth);
		EXPECT_OCTETS(expected, seen, len, "ULPDU %u", nth);
		EXPECT_EQ(model.count, engine.count,
			  "octets left after FPDU %u", nth);
		EXPECT_EQ((u32)model.position, engine.pos,
			  "position after FPDU %u", nth);
	}
}

/* ---- MPA ---- */

static void mpa_check(const struct mpa_fpdu *fpdu, u64 position,
		      const struct model_octet *model, const u8 *ulpdu,
		      const u8 *octets)
{
	static u8 sent[MPA_FPDU_MAX];

	(void)model;
	if (fpdu->marked)
		EXPECT_EQ(fpdu->markers,
			  mpa_marker_count(position,
					   fpdu->len - 4 * fpdu->markers),
			  "mpa_marker_count()");
	EXPECT_EQ(fpdu->len, engine_send(position, fpdu->marked, ulpdu,
					 fpdu->ulpdu_len, sent), "octets sent");
	EXPECT_OCTETS(octets, sent, fpdu->len, "FPDU");
}

static const struct compare_ops mpa_ops = {
	.send = model_send,
	.receive = model_receive,
	.check = mpa_check,
	.engine = &engine_mpa,
};

void compare_stream_begin(u64 position, bool markers)
{
	const struct mpa_format format = { .marked = markers };

	compare_begin(&mpa_ops, position, &format);
}

u32 compare_receive(u64 position, bool markers, bool crc, const u8 *octets,
		    size_t count)
{
	const struct mpa_format format = { .marked = markers, .crc = crc };

	return compare_receive_as(&mpa_ops, position, &format, octets, count);
}

/**
 * compare_startup() - let both parse octets that may be a startup frame
 * @frame:	received octets
 * @len:	their number
 * @kind:	the expected kind
 */
void compare_startup(const u8 *frame, u32 len, enum mpa_frame_kind kind)
{
	static const enum mpa_frame_verdict verdicts[] = {
		[MODEL_STARTUP_GOOD]		= MPA_FRAME_OK,
		[MODEL_STARTUP_SHORT]		= MPA_FRAME_MORE,
		[MODEL_STARTUP_BAD_KEY]		= MPA_FRAME_BAD_KEY,
		[MODEL_STARTUP_OWN_KEY]		= MPA_FRAME_SAME_KEY,
		[MODEL_STARTUP_BAD_LENGTH]	= MPA_FRAME_BAD_LEN,
	};
	enum model_startup should;
	struct mpa_frame startup;
	struct model_frame model;
	u8 flags;

	should = model_startup(frame, len, kind == MPA_REQUEST, &model);
	EXPECT_EQ(verdicts[should],
		  mpa_frame_parse(frame, len, kind, &startup), "verdict");
	if (should != MODEL_STARTUP_GOOD)
		return;
	flags = (model.m ? MPA_PEER_MARKERS : 0) |
		(model.c ? MPA_PEER_CRC : 0) |
		(model.r ? MPA_PEER_REJECTED : 0) |
		(model.s ? MPA_PEER_ENHANCED : 0);
	EXPECT_EQ(flags, startup.flags, "flags");
	EXPECT_EQ(model.rev, startup.revision, "revision");
	EXPECT_EQ(model.pd_length, startup.private_len, "PD_Length");
}

/**
 * compare_enhanced() - let both parse enhanced data, and build it again
 * @octets:	four
 */
void compare_enhanced(const u8 *octets)
{
	struct mpa_enhanced enhanced;
	struct model_enhanced model;
	u8 expected[4], seen[4];
	u32 control;

	memset(&enhanced, 0xee, sizeof(enhanced));
	model_enhanced(octets, &model);
	mpa_enhanced_get(octets, &enhanced);
	control = (model.a ? MPA_START_P2P : 0) |
		  (model.b ? MPA_START_RTR_FPDU : 0) |
		  (model.c ? MPA_START_RTR_WRITE : 0) |
		  (model.d ? MPA_START_RTR_READ : 0);
	EXPECT_EQ(control, enhanced.control, "control flags");
	EXPECT_EQ(model.ird, enhanced.ird, "IRD");
	EXPECT_EQ(model.ord, enhanced.ord, "ORD");

	model_enhanced_octets(&model, expected);
	mpa_enhanced_put(seen, &enhanced);
	EXPECT_OCTETS(expected, seen, sizeof(seen), "enhanced data");
}

/**
 * compare_layout() - let both lay out an FPDU, and compare two of its octets
 * @position:	where it starts
 * @markers:	markers are enabled
 * @len:	octets of ULPDU, up to 65535
 * @off:	any number: selects an octet of the FPDU
 * @nth:	any number: selects an octet of the ULPDU
 */
void compare_layout(u64 position, bool markers, u32 len, u32 off, u32 nth)
{
	struct model_layout model = {
		.position = position,
		.markers = markers,
		.len = len,
		.nth = nth % (len + 1),
	};
	struct mpa_field_span run;
	struct mpa_fpdu fpdu;

	mpa_fpdu_init(&fpdu, position, len, markers);
	model.off = off % fpdu.len;
	model_layout(&model);
	EXPECT_EQ((u32)position, fpdu.pos, "pos");
	EXPECT_EQ(len, fpdu.ulpdu_len, "ulpdu_len");
	EXPECT_EQ(markers, fpdu.marked, "marked");
	EXPECT_EQ(model.octets, fpdu.len, "octets of the FPDU");
	EXPECT_EQ(model.nr_markers, fpdu.markers, "markers");
	EXPECT_EQ(model.head, fpdu.head, "offset of ULPDU_Length");
	EXPECT_EQ(model.head + 2, mpa_fpdu_head_len(position, markers),
		  "octets to learn the length");
	EXPECT_EQ(model.to_marker, mpa_marker_distance(position),
		  "octets to the next marker");
	if (markers)
		EXPECT_EQ(model.nr_markers,
			  mpa_marker_count(position, model.octets -
						     4 * model.nr_markers),
			  "mpa_marker_count()");

	mpa_fpdu_field_at(&fpdu, model.off, &run);
	EXPECT_EQ(model.off, run.off, "run at %u: off", model.off);
	EXPECT_EQ(fields[model.field], run.field, "run at %u: field",
		  model.off);
	EXPECT_EQ(model.field_nth, run.skip, "run at %u: skip", model.off);
	EXPECT_EQ(model.run, run.len, "run at %u: len", model.off);
	if (model.field == MODEL_MARKER && model.field_nth == 0)
		EXPECT_EQ((u16)model.fpduptr, mpa_fpdu_ptr(&fpdu, model.off),
			  "FPDUPTR at %u", model.off);
	EXPECT_EQ(model.ulpdu_off, mpa_fpdu_offset(&fpdu, model.nth),
		  "offset of octet %u of the ULPDU", model.nth);
}

static u32 model_fpdu_len(u64 position, bool markers, u32 len)
{
	struct model_layout model = {
		.position = position,
		.markers = markers,
		.len = len,
	};

	model_layout(&model);
	return model.octets;
}

/**
 * compare_fill() - whether mpa_fpdu_fill() fills a place in the stream
 * @position:	position of the place
 * @markers:	markers are enabled
 * @room:	its size
 */
void compare_fill(u64 position, bool markers, u32 room)
{
	u32 fill = mpa_fpdu_fill(position, room, markers);

	if (fill)
		EXPECT_EQ(true, model_fpdu_len(position, markers, fill) <= room,
			  "%u octets of ULPDU fit %u", fill, room);
	if (fill < MPA_ULPDU_MAX)
		EXPECT_EQ(true,
			  model_fpdu_len(position, markers, fill + 1) > room,
			  "%u octets of ULPDU do not fit %u", fill + 1, room);
	EXPECT_EQ(true, fill <= MPA_ULPDU_MAX, "%u octets of ULPDU", fill);
}

/**
 * compare_mulpdu() - whether MULPDU is that of section 4.5, and fits
 * @position:	where an FPDU starts
 * @markers:	markers are enabled
 * @emss:	octets of a segment
 */
void compare_mulpdu(u64 position, bool markers, u32 emss)
{
	int expected = (int)emss - 6 - (int)(emss % 4);
	u32 mulpdu = mpa_mulpdu(emss, markers);

	for (u32 begun = 0; markers && begun < emss; begun += 512)
		expected -= 4;
	if (expected >= 128)
		EXPECT_EQ(true,
			  model_fpdu_len(position, markers, mulpdu) <= emss,
			  "%u octets of ULPDU fit a segment of %u", mulpdu,
			  emss);
	if (expected < 128)
		expected = 128;
	if (expected > 64768)
		expected = 64768;
	EXPECT_EQ(expected, mulpdu, "MULPDU");
}
