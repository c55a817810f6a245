// SPDX-License-Identifier: GPL-2.0
/* FPDU layout and verification: RFC 5044 sections 4 and 6. */

#include "compat.h"
#include "mpa_framing.h"

/* Count the markers in the first @off octets, including a partial one. */
static u32 mpa_fpdu_markers_before(const struct mpa_fpdu *fpdu, u32 off)
{
	u32 first = mpa_marker_distance(fpdu->pos);

	return off > first ?
	       DIV_ROUND_UP(off - first, MPA_MARKER_INTERVAL) : 0;
}

/* Find the field at offset @off of an FPDU; @off < @fpdu->len. */
void mpa_fpdu_field_at(const struct mpa_fpdu *fpdu, u32 off, struct mpa_field_span *run)
{
	u32 ulpdu_end = MPA_LENGTH_LEN + fpdu->ulpdu_len;
	u32 crc = round_up(ulpdu_end, 4);
	u32 room = fpdu->len - off;
	u32 at = off;

	if (mpa_alt_fpdu(fpdu)) {
		mpa_alt_field_at(fpdu, off, run);
		return;
	}
	run->off = off;

	if (fpdu->marked) {
		u32 phase = (fpdu->pos + off) % MPA_MARKER_INTERVAL;

		if (phase < MPA_MARKER_LEN) {
			run->field = MPA_FIELD_MARKER;
			run->skip = phase;
			run->len = MPA_MARKER_LEN - phase;
			return;
		}
		room = min(room, MPA_MARKER_INTERVAL - phase);
		at -= mpa_fpdu_markers_before(fpdu, off) * MPA_MARKER_LEN;
	}

	/* From here, "at" counts octets as if there were no markers. */
	if (at < MPA_LENGTH_LEN) {
		run->field = MPA_FIELD_LENGTH;
		run->skip = at;
		run->len = MPA_LENGTH_LEN - at;
	} else if (at < ulpdu_end) {
		run->field = MPA_FIELD_ULPDU;
		run->skip = at - MPA_LENGTH_LEN;
		run->len = ulpdu_end - at;
	} else if (at < crc) {
		run->field = MPA_FIELD_PAD;
		run->skip = at - ulpdu_end;
		run->len = crc - at;
	} else {
		run->field = MPA_FIELD_CRC;
		run->skip = at - crc;
		run->len = crc + MPA_CRC_LEN - at;
	}
	run->len = min(run->len, room);
}

/*
 * Return the offset in the FPDU of octet @ulpdu_off of the ULPDU. If @ulpdu_off
 * is the end of the ULPDU, do not skip a marker there.
 */
u32 mpa_fpdu_offset(const struct mpa_fpdu *fpdu, u32 ulpdu_off)
{
	u32 before = MPA_LENGTH_LEN + ulpdu_off;
	u32 markers = 0;

	if (mpa_alt_fpdu(fpdu))
		return mpa_alt_offset(fpdu, ulpdu_off);
	if (fpdu->marked)
		markers = mpa_marker_count(fpdu->pos, ulpdu_off <
					   fpdu->ulpdu_len ? before + 1 :
							     before);
	return before + markers * MPA_MARKER_LEN;
}

/* Return MULPDU. Section 4.5 has both formulas, section 3 has the bounds. */
u32 mpa_mulpdu(u32 emss, bool marked)
{
	u32 overhead = MPA_FPDU_OVERHEAD + emss % 4;

	if (marked)
		overhead += MPA_MARKER_LEN *
			    DIV_ROUND_UP(emss, MPA_MARKER_INTERVAL);
	if (emss < overhead + MPA_MULPDU_MIN)
		return MPA_MULPDU_MIN;
	return min_t(u32, emss - overhead, MPA_ULPDU_MAX);
}

/*
 * Return the largest ULPDU whose FPDU fits @room octets at @pos, or 0. Section
 * 4.5 leaves the exact size to an implementation. Count the markers at their
 * real places: at most 3 octets stay unused, or 7 if a marker falls on the last
 * four and so belongs to the next FPDU.
 */
u32 mpa_fpdu_fill(u32 pos, u32 room, bool marked)
{
	room = round_down(min_t(u32, room, MPA_FPDU_MAX), 4);
	if (marked) {
		u32 first = mpa_marker_distance(pos);

		if (room > first)
			room -= MPA_MARKER_LEN *
				DIV_ROUND_UP(room - first, MPA_MARKER_INTERVAL);
	}
	if (room <= MPA_FPDU_OVERHEAD)
		return 0;
	return min_t(u32, room - MPA_FPDU_OVERHEAD, MPA_ULPDU_MAX);
}

/*
 * Lay out a marked FPDU of exactly @len octets, a multiple of 4 up to
 * MPA_FPDU_MAX: mpa_fpdu_fill() and mpa_fpdu_init() in one step. Return false
 * if no FPDU at @pos has this length.
 */
bool mpa_fpdu_init_marked(struct mpa_fpdu *fpdu, u32 pos, u32 len)
{
	u32 overhead = MPA_FPDU_OVERHEAD, markers = 0;
	u32 first = mpa_marker_distance(pos);

	if (len > first) {
		/* The last four octets would be a marker, after the CRC. */
		if ((len - first) % MPA_MARKER_INTERVAL == MPA_MARKER_LEN)
			return false;
		markers = DIV_ROUND_UP(len - first, MPA_MARKER_INTERVAL);
		overhead += markers * MPA_MARKER_LEN;
	}
	if (len <= overhead || len - overhead > MPA_ULPDU_MAX)
		return false;
	fpdu->pos = pos;
	fpdu->ulpdu_len = len - overhead;
	fpdu->head = first ? 0 : MPA_MARKER_LEN;
	fpdu->len = len;
	fpdu->markers = markers;
	fpdu->marked = true;
	fpdu->framing = MPA_FRAMING_MPA;
	fpdu->period = 0;
	fpdu->wrong_key = false;
	return true;
}

/*
 * The octets of an FPDU arrive in pieces of any size. A first walk checks the
 * CRC and the markers. If both are good, a second walk delivers the ULPDU.
 */

/* Begin the first walk. @crc: check the CRC. */
void mpa_verify_begin(struct mpa_verify *verify, const struct mpa_fpdu *fpdu,
		      bool crc)
{
	memset(verify, 0, sizeof(*verify));
	verify->fpdu = fpdu;
	verify->crc_end = crc ? fpdu->len - MPA_CRC_LEN : 0;
	verify->crc = MPA_CRC_INIT;
}

static void mpa_verify_marker(struct mpa_verify *verify,
			      const struct mpa_field_span *run, u32 n)
{
	if (run->skip + n == MPA_MARKER_LEN &&
	    !mpa_framing_marker_good(verify->fpdu, run->off - run->skip,
				     verify->field))
		verify->bad_marker = true;
}

/*
 * Verify the next octets of the FPDU; the pieces must not exceed the FPDU. An
 * mpa_walk_fn: @arg is a struct mpa_verify. Return 0.
 */
int mpa_verify_octets(void *arg, const u8 *data, u32 len)
{
	struct mpa_verify *verify = arg;

	/*
	 * Update the CRC for all octets at once: a call for each field would
	 * double the cost.
	 */
	if (verify->off < verify->crc_end)
		verify->crc = mpa_crc_update(verify->crc, data,
					     min(len, verify->crc_end -
						      verify->off));

	while (len) {
		struct mpa_field_span run;
		u32 n;

		mpa_fpdu_field_at(verify->fpdu, verify->off, &run);
		n = min(run.len, len);

		switch (run.field) {
		case MPA_FIELD_MARKER:
			memcpy(verify->field + run.skip, data, n);
			mpa_verify_marker(verify, &run, n);
			break;
		case MPA_FIELD_CRC:
			memcpy(verify->field + run.skip, data, n);
			break;
		default:
			break;
		}
		verify->off += n;
		data += n;
		len -= n;
	}
	return 0;
}

/* End the first walk. Return MPA_ERR_NONE, MPA_ERR_CRC or MPA_ERR_MARKER. */
enum mpa_error mpa_verify_end(const struct mpa_verify *verify)
{
	/* The CRC field is last, so verify->field has its octets. */
	if (verify->crc_end && !mpa_crc_match(verify->crc, verify->field))
		return MPA_ERR_CRC;
	/* Section 8 code 3: "In the event that the CRC is valid". */
	return verify->bad_marker ? MPA_ERR_MARKER : MPA_ERR_NONE;
}

/* Begin the second walk at octet @first of the ULPDU, at offset @pick->off. */
void mpa_pick_begin(struct mpa_pick *pick, const struct mpa_fpdu *fpdu,
		    u32 first)
{
	pick->fpdu = fpdu;
	pick->off = mpa_fpdu_offset(fpdu, first);
}

/*
 * Pass to @copy the octets of @data that belong to the ULPDU. An mpa_walk_fn:
 * @arg is a struct mpa_pick. Return 0, or what @copy returned.
 */
int mpa_pick_octets(void *arg, const u8 *data, u32 len)
{
	struct mpa_pick *pick = arg;

	while (len) {
		struct mpa_field_span run;
		u32 n;

		mpa_fpdu_field_at(pick->fpdu, pick->off, &run);
		n = min(run.len, len);
		if (run.field == MPA_FIELD_ULPDU) {
			int err = pick->copy(pick->to, data, n);

			if (err)
				return err;
		}
		pick->off += n;
		data += n;
		len -= n;
	}
	return 0;
}

/* Verify a contiguous FPDU, as nearly all are. Return: as mpa_verify_end(). */
enum mpa_error mpa_verify_linear(const struct mpa_fpdu *fpdu, const u8 *data,
				 bool crc)
{
	u32 crc_at = fpdu->len - MPA_CRC_LEN;

	if (crc && !mpa_crc_match(mpa_crc_update(MPA_CRC_INIT, data, crc_at),
				  data + crc_at))
		return MPA_ERR_CRC;
	if (fpdu->markers && !mpa_framing_markers_good(fpdu, data))
		return MPA_ERR_MARKER;
	return MPA_ERR_NONE;
}
