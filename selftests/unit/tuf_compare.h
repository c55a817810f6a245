/* SPDX-License-Identifier: GPL-2.0 */
/* The floor's TUF against the model. Whatever differs ends the test. */
#ifndef _UNIT_TUF_COMPARE_H
#define _UNIT_TUF_COMPARE_H

#include "mpa_framing.h"
#include "tuf_model.h"

/* FPDUs that a stream may have here, and their octets. */
#define TUF_COMPARE_FPDUS	8
#define TUF_COMPARE_OCTETS	(TUF_COMPARE_FPDUS * MPA_TUF_FPDU_MAX)

void tuf_compare_begin(u64 position, const struct mpa_format *format,
		       const u8 *key);
const struct tuf_model_fpdu *tuf_compare_append(const u8 *ulpdu, u32 len);
const struct tuf_model_fpdu *tuf_compare_send(const u8 *ulpdu, u32 len);
const struct tuf_model_octet *tuf_compare_stream(size_t *count);
void tuf_compare_stream_octets(u8 *octets);
u32 tuf_compare_receive(u64 position, const struct mpa_format *format,
			const u8 *octets, size_t count);
void tuf_compare_room(u64 position, const struct mpa_format *format, u32 room);
void tuf_compare_mulpdu(const struct mpa_format *format, u32 emss);
void tuf_compare_finds(const u8 *key, const u8 *octets, u32 count);

#endif /* _UNIT_TUF_COMPARE_H */
