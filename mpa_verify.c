// SPDX-License-Identifier: GPL-2.0
/*
 * Walks over the octets of an FPDU: RFC 5044 sections 4.1, 4.2, 4.4, 6. They
 * come in pieces of any size. The first walk checks the CRC and the markers; a
 * second one hands on octets of the ULPDU, when the first has found them good.
 */

#include "compat.h"
#include "mpa_framing.h"

/**
 * mpa_verify_begin() - begin the walk
 * @verify:	filled in
 * @fpdu:	the FPDU
 * @crc:	CRCs are checked
 */
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

/**
 * mpa_verify_octets() - the next octets of the FPDU
 * @arg:	struct mpa_verify
 * @data:	the octets
 * @len:	how many; all pieces together are not longer than the FPDU
 *
 * A function for those that walk over octets.
 *
 * Return: 0.
 */
int mpa_verify_octets(void *arg, const u8 *data, u32 len)
{
	struct mpa_verify *verify = arg;

	/*
	 * All octets at once: a CRC call for each field would double the cost.
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

/**
 * mpa_verify_end() - what the walk has found
 * @verify:	has seen all octets of the FPDU
 *
 * Return: MPA_ERR_NONE, MPA_ERR_CRC or MPA_ERR_MARKER.
 */
enum mpa_error mpa_verify_end(const struct mpa_verify *verify)
{
	/* The CRC field is last: its octets are what "field" holds. */
	if (verify->crc_end && !mpa_crc_match(verify->crc, verify->field))
		return MPA_ERR_CRC;
	/* Section 8 code 3: "In the event that the CRC is valid". */
	return verify->bad_marker ? MPA_ERR_MARKER : MPA_ERR_NONE;
}

/**
 * mpa_pick_begin() - begin the walk for octets of the ULPDU
 * @pick:	filled in, but for @copy and @to
 * @fpdu:	the FPDU, which is good
 * @first:	the first octet of its ULPDU to be handed on
 *
 * The walk begins @pick->off octets behind the start of the FPDU.
 */
void mpa_pick_begin(struct mpa_pick *pick, const struct mpa_fpdu *fpdu,
		    u32 first)
{
	pick->fpdu = fpdu;
	pick->off = mpa_fpdu_offset(fpdu, first);
}

/**
 * mpa_pick_octets() - hand on what of the next octets belongs to the ULPDU
 * @arg:	struct mpa_pick
 * @data:	the octets
 * @len:	how many; all pieces together do not go beyond the FPDU
 *
 * A function for those that walk over octets.
 *
 * Context: that of @copy in struct mpa_pick.
 * Return: 0, or what @copy has returned.
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

/* ---- an FPDU that lies in one piece, as nearly all do ---- */

/**
 * mpa_verify_linear() - check an FPDU
 * @fpdu:	the FPDU
 * @data:	its octets
 * @crc:	CRCs are checked
 *
 * Return: what mpa_verify_end() would.
 */
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
