// SPDX-License-Identifier: GPL-2.0
/* Positions and contents of markers: RFC 5044 sections 4.2 and 4.3. */

#include "compat.h"
#include "mpa_proto.h"

/*
 * Return the number of markers in an FPDU with @len other octets. A marker
 * right after the last octet belongs to the next FPDU (section 4.3).
 */
u32 mpa_marker_count(u32 pos, u32 len)
{
	u32 first = mpa_marker_distance(pos);

	if (len <= first)
		return 0;
	return 1 + (len - first - 1) / MPA_MARKER_GAP;
}

/*
 * Return the stream position of the FPDU to which the marker at @pos belongs.
 * FPDUPTR points to ULPDU_Length. If a marker is right before ULPDU_Length, the
 * FPDU begins with this marker (section 4.3).
 */
u32 mpa_marker_fpdu(u32 pos, u16 fpduptr)
{
	u32 length = pos - fpduptr;

	if (fpduptr && length % MPA_MARKER_INTERVAL == MPA_MARKER_LEN)
		return length - MPA_MARKER_LEN;
	return length;
}

/* Whether the markers of an FPDU point to its start. @data: all its octets. */
bool mpa_fpdu_markers_good(const struct mpa_fpdu *fpdu, const u8 *data)
{
	u32 end = fpdu->len - MPA_CRC_LEN, head = fpdu->head, off;

	off = mpa_marker_distance(fpdu->pos);
	if (head) {
		if (mpa_marker_get(data))
			return false;
		off += MPA_MARKER_INTERVAL;
	}
	for (; off < end; off += MPA_MARKER_INTERVAL)
		if (mpa_marker_get(data + off) != off - head)
			return false;
	return true;
}
