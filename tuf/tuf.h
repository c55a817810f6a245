/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engine (layer 2): the context of a TUF socket, which uses MPA's engine. The
 * engine calls TUF by the functions in mpa_framing.h and at the end of mpa.h.
 * pack.c packs ULPDUs into FPDUs; guard.c prevents receivers from mistaking a
 * piece of an FPDU for one; contain.c has the containment test; engine.c has the
 * rest. options.c is part of the socket interface (layer 3).
 */
#ifndef _MPA_TUF_H
#define _MPA_TUF_H

#include "../mpa.h"
#include "layout.h"

/**
 * struct mpa_pack - the last FPDU that was built
 * @length:	its Length field: in a page held by the buffer, or by TCP while
 *		TCP has the FPDU; NULL: no more ULPDUs can be added
 * @len:	its length, in octets
 * @extends:	octets in the buffer belong to an FPDU that TCP has
 */
struct mpa_pack {
	u8		*length;
	u32		len;
	bool		extends;
};

/**
 * struct mpa_guard - whether FPDUs that were built contain the key
 * @before:	the last octets before the last FPDU
 * @nr_before:	their number
 * @tail:	the last octets of the last FPDU
 * @nr_tail:	their number
 * @found:	an FPDU that TCP may still send contains the key
 * @found_end:	sequence number after the last such FPDU
 */
struct mpa_guard {
	u8		before[TUF_KEY_LEN - 1];
	u8		nr_before;
	u8		tail[TUF_KEY_LEN - 1];
	u8		nr_tail;
	bool		found;
	u32		found_end;
};

/* The number of failed tests that are remembered, so as not to repeat them. */
#define MPA_CONTAIN_FAILED	16

/**
 * struct mpa_contain - the containment test
 * @keyed:	@key is valid
 * @given_up:	almost no segment has passed for some time
 * @key:	the peer's key
 * @failed:	recent failures: stream position, and in the upper half the
 *		length of the segment, if it was a single one
 * @next:	the next entry of @failed to replace, modulo their number
 * @seen_pos:	stream position of the newest island
 * @seen_segments: its segments, before TCP merged others with them; none (.nr):
 *		not known
 * @since:	jiffies when @tests and @passes were 0
 * @tests:	segments tested since
 * @passes:	segments passed since
 */
struct mpa_contain {
	bool		keyed;
	bool		given_up;
	u8		key[TUF_KEY_LEN];
	u64		failed[MPA_CONTAIN_FAILED];
	u8		next;
	u32		seen_pos;
	struct mpa_segments seen_segments;
	unsigned long	since;
	u32		tests;
	u32		passes;
};

/**
 * struct mpa_tuf - context of a TUF socket
 * @ctx:	the part for MPA's engine
 * @key_known:	@next_key is the key of the next framing, or of this one
 * @key_returned:	the user has read or set it
 * @key_given:	the user has set it
 * @report_emss:	a send fails once when MULPDU has changed
 * @mulpdu:	MULPDU as last reported to the user
 * @next_key:	key of the next framing to be sent, or of this one
 * @key:	key of the framing that is sent, or was
 * @pack:	sending
 * @guard:	sending
 * @contain:	receiving
 *
 * Protected by the socket lock.
 */
struct mpa_tuf {
	struct mpa_ctx		ctx;
	bool			key_known;
	bool			key_returned;
	bool			key_given;
	bool			report_emss;
	u32			mulpdu;
	u8			next_key[TUF_KEY_LEN];
	struct mpa_tuf_key	key;
	struct mpa_pack		pack;
	struct mpa_guard	guard;
	struct mpa_contain	contain;
	/* private: counters of TUF_INFO */
	u64			tx_fpdus;
	u64			contained;
	u64			trimmed;
	u64			tested;
	u64			passed;
	u64			wrong_key;
};

/* mpa_ctx_free() frees it by the address of @ctx. */
static_assert(!offsetof(struct mpa_tuf, ctx));

/* @ctx must be a TUF socket's: mpa_alt(). */
static inline struct mpa_tuf *mpa_tuf(struct mpa_ctx *ctx)
{
	return container_of(ctx, struct mpa_tuf, ctx);
}

static inline const struct mpa_tuf *mpa_tuf_const(const struct mpa_ctx *ctx)
{
	return container_of_const(ctx, struct mpa_tuf, ctx);
}

static inline const struct mpa_tuf *mpa_tuf_of_rx(const struct mpa_rx *rx)
{
	return mpa_tuf_const(container_of_const(rx, struct mpa_ctx, rx));
}

bool mpa_guard_idle(struct mpa_ctx *ctx);
void mpa_guard_built(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu);
bool mpa_guard_added(struct mpa_ctx *ctx, u16 length, u32 n);

void mpa_contain_begin(struct mpa_tuf *tuf, const u8 *key);
bool mpa_contain_key(struct mpa_tuf *tuf, const u8 *key);

#endif /* _MPA_TUF_H */
