/* SPDX-License-Identifier: GPL-2.0 */
/* Access octet by octet, which is right on every machine. */
#ifndef _UNIT_LINUX_UNALIGNED_H
#define _UNIT_LINUX_UNALIGNED_H

#include <linux/types.h>

static inline u16 get_unaligned_be16(const void *from)
{
	const u8 *octet = from;

	return octet[0] << 8 | octet[1];
}

static inline u32 get_unaligned_be32(const void *from)
{
	const u8 *octet = from;

	return (u32)get_unaligned_be16(octet) << 16 |
	       get_unaligned_be16(octet + 2);
}

static inline u16 get_unaligned_le16(const void *from)
{
	const u8 *octet = from;

	return octet[1] << 8 | octet[0];
}

static inline u32 get_unaligned_le32(const void *from)
{
	const u8 *octet = from;

	return (u32)get_unaligned_le16(octet + 2) << 16 |
	       get_unaligned_le16(octet);
}

static inline void put_unaligned_be16(u16 value, void *to)
{
	u8 *octet = to;

	octet[0] = value >> 8;
	octet[1] = value;
}

static inline void put_unaligned_be32(u32 value, void *to)
{
	u8 *octet = to;

	put_unaligned_be16(value >> 16, octet);
	put_unaligned_be16(value, octet + 2);
}

static inline void put_unaligned_le16(u16 value, void *to)
{
	u8 *octet = to;

	octet[0] = value;
	octet[1] = value >> 8;
}

static inline void put_unaligned_le32(u32 value, void *to)
{
	u8 *octet = to;

	put_unaligned_le16(value, octet);
	put_unaligned_le16(value >> 16, octet + 2);
}

#endif /* _UNIT_LINUX_UNALIGNED_H */
