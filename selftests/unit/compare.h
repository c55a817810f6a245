/* SPDX-License-Identifier: GPL-2.0 */
/* Compare the protocol layer with the model. A difference ends the test. */
#ifndef _UNIT_COMPARE_H
#define _UNIT_COMPARE_H

#include "engine.h"
#include "model.h"

/* Maximum number of FPDUs in a stream, and length of the longest. */
#define COMPARE_FPDUS		8
#define COMPARE_OCTETS		(COMPARE_FPDUS * MPA_ANY_FPDU_MAX)

/**
 * struct compare_ops - a framing's model, and its own functions
 * @send:	append an FPDU to the model's stream
 * @receive:	receive an FPDU from the model's stream
 * @check:	build an FPDU, and check that it has these octets
 * @engine:	receives the stream
 */
struct compare_ops {
	void (*send)(struct model_sender *sender, const u8 *ulpdu, size_t len,
		     struct model_fpdu *fpdu);
	enum model_verdict (*receive)(struct model_receiver *receiver,
				      u8 *ulpdu, size_t *len);
	void (*check)(const struct mpa_fpdu *fpdu, u64 position,
		      const struct model_octet *model, const u8 *ulpdu,
		      const u8 *octets);
	const struct engine_ops *engine;
};

void compare_begin(const struct compare_ops *ops, u64 position,
		   const struct mpa_format *format);
const struct model_fpdu *compare_append(const u8 *ulpdu, u32 len);
const struct model_fpdu *compare_send(const u8 *ulpdu, u32 len);
const struct model_octet *compare_stream(size_t *count);
void compare_stream_octets(u8 *octets);
u32 compare_receive_as(const struct compare_ops *ops, u64 position,
		       const struct mpa_format *format, const u8 *octets,
		       size_t count);

/* for MPA */
void compare_stream_begin(u64 position, bool markers);
u32 compare_receive(u64 position, bool markers, bool crc, const u8 *octets,
		    size_t count);
void compare_startup(const u8 *frame, u32 len, enum mpa_frame_kind kind);
void compare_enhanced(const u8 *octets);
void compare_layout(u64 position, bool markers, u32 len, u32 off, u32 nth);
void compare_fill(u64 position, bool markers, u32 room);
void compare_mulpdu(u64 position, bool markers, u32 emss);

#endif /* _UNIT_COMPARE_H */
