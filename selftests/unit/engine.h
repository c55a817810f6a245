/* SPDX-License-Identifier: GPL-2.0 */
/* A sender and a receiver on flat buffers, which use the protocol layer. */
#ifndef _UNIT_ENGINE_H
#define _UNIT_ENGINE_H

#include "mpa_framing.h"

enum engine_verdict {
	ENGINE_GOOD,
	ENGINE_SHORT,
	ENGINE_BAD_LENGTH,
	ENGINE_BAD_CRC,
	ENGINE_BAD_MARKER,
};

struct engine_receiver {
	const struct engine_ops *ops;	/* NULL: engine_mpa */
	struct mpa_format format;
	u32 pos;
	const u8 *octets;
	size_t count;
};

/**
 * struct engine_ops - the functions for receiving one framing
 * @length:	reads the ULPDU's length from the FPDU's first @head octets; false if no
 *		FPDU can have it
 * @good:	checks a good FPDU again
 */
struct engine_ops {
	bool (*length)(const struct engine_receiver *receiver, u32 head,
		       u32 *len);
	void (*good)(const struct mpa_fpdu *fpdu, const u8 *octets,
		     const u8 *ulpdu);
};

extern const struct engine_ops engine_mpa;

u32 engine_send(u32 pos, bool marked, const u8 *ulpdu, u32 len, u8 *out);
u32 engine_send_octets(u32 pos, bool marked, const u8 *ulpdu, u32 len, u8 *out);
u32 engine_piece(u32 off, u32 len, u32 pos);
enum engine_verdict engine_receive(struct engine_receiver *receiver, u8 *ulpdu,
				   u32 *len);

#endif /* _UNIT_ENGINE_H */
