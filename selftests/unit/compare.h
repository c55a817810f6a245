/* SPDX-License-Identifier: GPL-2.0 */
/* The floor against the model. Whatever differs ends the test. */
#ifndef _UNIT_COMPARE_H
#define _UNIT_COMPARE_H

#include "model.h"
#include "mpa_proto.h"

/* FPDUs that a stream may have here, and the octets of the longest of them. */
#define COMPARE_FPDUS		8
#define COMPARE_OCTETS		(COMPARE_FPDUS * MPA_FPDU_MAX)

void compare_stream_begin(u64 position, bool markers);
const struct model_fpdu *compare_append(const u8 *ulpdu, u32 len);
const struct model_fpdu *compare_send(const u8 *ulpdu, u32 len);
const struct model_octet *compare_stream(size_t *count);
void compare_stream_octets(u8 *octets);
u32 compare_receive(u64 position, bool markers, bool crc, const u8 *octets,
		    size_t count);
void compare_startup(const u8 *frame, u32 len, enum mpa_frame_kind kind);
void compare_enhanced(const u8 *octets);
void compare_layout(u64 position, bool markers, u32 len, u32 off, u32 nth);
void compare_fill(u64 position, bool markers, u32 room);
void compare_mulpdu(u64 position, bool markers, u32 emss);

#endif /* _UNIT_COMPARE_H */
