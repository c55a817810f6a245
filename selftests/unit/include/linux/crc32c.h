/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's CRC32c: no inversion before or after. */
#ifndef _UNIT_LINUX_CRC32C_H
#define _UNIT_LINUX_CRC32C_H

#include <linux/types.h>

u32 crc32c(u32 crc, const void *address, unsigned int length);

#endif /* _UNIT_LINUX_CRC32C_H */
