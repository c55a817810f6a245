// SPDX-License-Identifier: GPL-2.0
/* Replaces the kernel's crc32c(). */

#include <linux/crc32c.h>

#define CRC32C_POLY_REFLECTED	0x82f63b78U

static u32 table[256];

static void fill_table(void)
{
	for (u32 i = 0; i < 256; i++) {
		u32 crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLY_REFLECTED : 0);
		table[i] = crc;
	}
}

u32 crc32c(u32 crc, const void *address, unsigned int length)
{
	const u8 *octet = address;

	if (!table[1])
		fill_table();
	while (length--)
		crc = crc >> 8 ^ table[(u8)crc ^ *octet++];
	return crc;
}
