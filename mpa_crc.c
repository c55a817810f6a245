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
	return mpa_crc32c(crc, data, len);
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
