/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engine (layer 2): the context of a TUF socket, which uses MPA's engine. The engine
 * calls TUF through functions declared in mpa_framing.h and at the end of mpa.h.
 *
 * pack.c packs ULPDUs into FPDUs. guard.c makes sure that no piece of an FPDU looks
 * like a whole FPDU. contain.c has the receiver's containment test, and engine.c the
 * rest. options.c is part of the socket interface (layer 3).
 */
#ifndef _MPA_TUF_H
#define _MPA_TUF_H

#include "../mpa.h"
#include "layout.h"

/* The last FPDU that was built */
struct mpa_pack {
	/* Its Length field, in a page held by the buffer or by TCP */
	u8		*length;	/* NULL: no more ULPDUs can be added */
	u32		len;
	bool		extends;	/* the buffer has new octets of an FPDU that TCP has */
};

/* State of the search for the key in FPDUs that are built */
struct mpa_guard {
	u8		before[TUF_KEY_LEN - 1];	/* last octets before the last FPDU */
	u8		nr_before;
	u8		tail[TUF_KEY_LEN - 1];	/* last octets of the last FPDU */
	u8		nr_tail;
	bool		found;			/* TCP may still send an FPDU with the key */
	u32		found_end;		/* sequence number after the last such FPDU */
};

/* Number of failed tests that are remembered, so as not to be repeated */
#define MPA_CONTAIN_FAILED	16

/* The containment test */
struct mpa_contain {
	bool		keyed;		/* @key is valid */
	bool		given_up;	/* almost no segment has passed for some time */
	u8		key[TUF_KEY_LEN];	/* the peer's key */
	u64		failed[MPA_CONTAIN_FAILED];	/* recent failures: mpa_contain_test() */
	u8		next;		/* entry of @failed to replace, modulo MPA_CONTAIN_FAILED */
	u32		seen_pos;	/* stream position of the newest island */
	/*
	 * The island's segments before TCP merged others with them; .nr is 0: not known
	 */
	struct mpa_segments seen_segments;
	unsigned long	since;		/* jiffies when @tests and @passes were 0 */
	u32		tests;		/* segments tested since @since */
	u32		passes;		/* segments passed since @since */
};

/**
 * struct mpa_tuf - context of a TUF socket
 * @ctx:	the part for MPA's engine
 * @key_known:	@next_key is valid
 * @key_returned: the user has read or set @next_key
 * @key_given:	the user has set @next_key
 * @report_emss: one send fails when MULPDU has changed
 * @mulpdu:	MULPDU as last reported to the user
 * @next_key:	key of the present or next framing of sent data
 * @key:	key of the present or previous framing of sent data
 * @pack:	sending: the last FPDU, to which ULPDUs may be added
 * @guard:	sending: whether FPDUs contain the key
 * @contain:	receiving: the containment test
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

/* mpa_ctx_free() frees the struct by the address of @ctx. */
static_assert(!offsetof(struct mpa_tuf, ctx));

/* Call this only if mpa_alt(@ctx): for a TUF socket. */
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
