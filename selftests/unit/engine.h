/* SPDX-License-Identifier: GPL-2.0 */
/* A sender and a receiver over flat buffers, built on the protocol floor. */
#ifndef _UNIT_ENGINE_H
#define _UNIT_ENGINE_H

#include "mpa_proto.h"

enum engine_verdict {
	ENGINE_GOOD,
	ENGINE_SHORT,
	ENGINE_BAD_LENGTH,
	ENGINE_BAD_CRC,
	ENGINE_BAD_MARKER,
};

struct engine_receiver {
	u32 pos;
	bool marked;
	bool crc;
	const u8 *octets;
	size_t count;
};

u32 engine_send(u32 pos, bool marked, const u8 *ulpdu, u32 len, u8 *out);
u32 engine_send_octets(u32 pos, bool marked, const u8 *ulpdu, u32 len, u8 *out);
enum engine_verdict engine_receive(struct engine_receiver *receiver, u8 *ulpdu,
				   u32 *len);

#endif /* _UNIT_ENGINE_H */
