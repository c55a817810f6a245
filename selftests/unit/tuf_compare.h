/* SPDX-License-Identifier: GPL-2.0 */
/* Compare the protocol layer's TUF with the model. A difference ends the test. */
#ifndef _UNIT_TUF_COMPARE_H
#define _UNIT_TUF_COMPARE_H

#include <uapi/linux/tuf.h>

#include "compare.h"
#include "tuf_model.h"

void tuf_compare_begin(u64 position, const struct mpa_format *format,
		       const u8 *key);
u32 tuf_compare_receive(u64 position, const struct mpa_format *format,
			const u8 *octets, size_t count);
void tuf_compare_room(u64 position, const struct mpa_format *format, u32 room);
void tuf_compare_mulpdu(const struct mpa_format *format, u32 emss);
void tuf_compare_finds(const u8 *key, const u8 *octets, u32 count);

#endif /* _UNIT_TUF_COMPARE_H */
