// SPDX-License-Identifier: GPL-2.0
/* CRC32c of FPDUs: RFC 5044 section 4.4, after RFC 3720 section 12.1. */

#include "compat.h"
#include "mpa_proto.h"

/**
 * mpa_crc_update() - run octets through a CRC
 * @crc:	MPA_CRC_INIT, or what the octets before gave
 * @data:	the octets
 * @len:	how many
 *
 * Context: any.
 * Return: the register's value behind them.
 */
u32 mpa_crc_update(u32 crc, const void *data, size_t len)
{
	return crc32c(crc, data, len);
}

/**
 * mpa_crc_put() - fill a CRC field
 * @crc:	what mpa_crc_update() gave for everything before the field
 * @field:	four octets
 *
 * The CRC goes out least significant octet first, as in iSCSI.
 */
void mpa_crc_put(u32 crc, u8 *field)
{
	put_unaligned_le32(~crc, field);
}

/**
 * mpa_crc_match() - compare with a CRC field
 * @crc:	what mpa_crc_update() gave for everything before the field
 * @field:	four octets as received
 *
 * Return: whether the FPDU is as it was sent.
 */
bool mpa_crc_match(u32 crc, const u8 *field)
{
	return get_unaligned_le32(field) == (u32)~crc;
}

/* CRCs of three FPDUs that are not longer than MPA_CRC3_MAX. */
static __always_inline void mpa_crc_three(u32 crc[3], const u8 *fpdus, u32 len)
{
	crc[0] = MPA_CRC_INIT;
	crc[1] = MPA_CRC_INIT;
	crc[2] = MPA_CRC_INIT;
	mpa_crc32c_3(crc, fpdus, fpdus + len, fpdus + 2 * len,
		     len - MPA_CRC_LEN);
}

/**
 * mpa_crc_put_many() - fill the CRC fields of FPDUs
 * @fpdus:	the FPDUs, one behind the other
 * @len:	octets of each
 * @nr:		how many
 *
 * Context: any.
 */
void mpa_crc_put_many(u8 *fpdus, u32 len, u32 nr)
{
	u32 crc_at = len - MPA_CRC_LEN, crc[3];

	if (mpa_crc_together(len) == 3) {
		for (; nr >= 3; nr -= 3, fpdus += 3 * len) {
			mpa_crc_three(crc, fpdus, len);
			mpa_crc_put(crc[0], fpdus + crc_at);
			mpa_crc_put(crc[1], fpdus + len + crc_at);
			mpa_crc_put(crc[2], fpdus + 2 * len + crc_at);
		}
	}
	for (; nr; nr--, fpdus += len)
		mpa_crc_put(mpa_crc_update(MPA_CRC_INIT, fpdus, crc_at),
			    fpdus + crc_at);
}

/**
 * mpa_crc_match_many() - compare with the CRC fields of FPDUs
 * @fpdus:	the FPDUs, one behind the other
 * @len:	octets of each
 * @nr:		how many
 *
 * Context: any.
 * Return: how many are as they were sent, up to the first that is not.
 */
u32 mpa_crc_match_many(const u8 *fpdus, u32 len, u32 nr)
{
	u32 crc_at = len - MPA_CRC_LEN, crc[3], done = 0;

	if (mpa_crc_together(len) == 3) {
		for (; nr - done >= 3; done += 3, fpdus += 3 * len) {
			mpa_crc_three(crc, fpdus, len);
			if (!mpa_crc_match(crc[0], fpdus + crc_at))
				return done;
			if (!mpa_crc_match(crc[1], fpdus + len + crc_at))
				return done + 1;
			if (!mpa_crc_match(crc[2], fpdus + 2 * len + crc_at))
				return done + 2;
		}
	}
	for (; done < nr; done++, fpdus += len)
		if (!mpa_crc_match(mpa_crc_update(MPA_CRC_INIT, fpdus, crc_at),
				   fpdus + crc_at))
			break;
	return done;
}
