// SPDX-License-Identifier: GPL-2.0
/*
 * TUF: the containment test (draft-ietf-tsvwg-tcp-ulp-frame-01). A segment whose
 * octets are a length of that many, and the key, is an FPDU, whatever is missing
 * before it. Nothing is looked for elsewhere than where a segment begins.
 *
 * TCP and the driver put segments together. What is left of that is where octets side by
 * side begin, how many segments the first of them have come in, and, if it was the driver
 * (GRO), how long each was. Where TCP has done it, it can only be told if this was looked
 * at before.
 *
 * If almost no segment passes, something on the way cuts the stream anew: then the test
 * is given up.
 */

#include "tuf.h"

/* More segments than that at a time wait for order. */
#define MPA_CONTAIN_SEGMENTS	128

/* So many have to fail, but for one in so many, before the test is given up. */
#define MPA_CONTAIN_TESTS	64
#define MPA_CONTAIN_RARE	16

/* And for so many times the time of a round trip, and at least a second. */
#define MPA_CONTAIN_RTTS	16

/**
 * mpa_contain_key() - what is tested from here on has this key
 * @tuf:	the socket
 * @key:	the key, or NULL
 *
 * In what segments something has come does not depend on it. A test that was given
 * up begins anew.
 *
 * Context: process, socket lock held.
 * Return: whether it is another one than before.
 */
bool mpa_contain_key(struct mpa_tuf *tuf, const u8 *key)
{
	struct mpa_contain *contain = &tuf->contain;
	bool changed = contain->keyed != !!key ||
		       (key && memcmp(contain->key, key, TUF_KEY_LEN));

	contain->keyed = key;
	contain->given_up = false;
	contain->since = jiffies;
	contain->tests = 0;
	contain->passes = 0;
	memset(contain->failed, 0, sizeof(contain->failed));
	if (key)
		memcpy(contain->key, key, TUF_KEY_LEN);
	return changed;
}

/**
 * mpa_contain_begin() - a direction begins, or ends
 * @tuf:	the socket
 * @key:	of what will be received, or NULL
 *
 * Context: process, socket lock held.
 */
void mpa_contain_begin(struct mpa_tuf *tuf, const u8 *key)
{
	tuf->contain.seen = false;
	mpa_contain_key(tuf, key);
}

/**
 * mpa_contain_possible() - records can be found out of order
 * @ctx:	the context
 *
 * By markers always; by the test not without a key, nor if it is given up, nor if
 * segments are too small for most FPDUs.
 *
 * Context: socket lock held.
 */
bool mpa_contain_possible(const struct mpa_ctx *ctx)
{
	const struct mpa_contain *contain = &mpa_tuf_const(ctx)->contain;

	if (!mpa_format_contained(&ctx->rx.format))
		return mpa_format_markers(&ctx->rx.format);
	return contain->keyed && !contain->given_up &&
	       mpa_tcp_advmss(ctx->sk) >= MPA_MULPDU_MIN + TUF_HEADER_LEN;
}

/* Count, and see whether to go on. */
static void mpa_contain_count(struct mpa_ctx *ctx, u32 segments, bool passed)
{
	unsigned long least = mpa_tcp_rtt(ctx->sk) * MPA_CONTAIN_RTTS;
	struct mpa_tuf *tuf = mpa_tuf(ctx);
	struct mpa_contain *contain = &tuf->contain;

	least = max_t(unsigned long, least, HZ);
	tuf->tested += segments;
	tuf->passed += passed ? segments : 0;
	contain->tests += segments;
	contain->passes += passed ? segments : 0;
	if (contain->passes * MPA_CONTAIN_RARE >= contain->tests) {
		contain->since = jiffies;
		contain->tests = 0;
		contain->passes = 0;
	} else if (contain->tests >= MPA_CONTAIN_TESTS &&
		   time_after(jiffies, contain->since + least)) {
		contain->given_up = true;
		mpa_report_resegmented(ctx);
	}
}

/* Each segment is as long as this says, or may be. */
static bool mpa_contain_clear(const struct mpa_segments *segments)
{
	return segments->nr == 1 || segments->each;
}

/**
 * mpa_contain_see() - something has come out of order: remember in what segments
 * @ctx:	the context
 *
 * Others may come behind it before it is tested.
 *
 * Context: any, socket lock held, and in the middle of TCP's work: it only looks.
 */
void mpa_contain_see(struct mpa_ctx *ctx)
{
	struct mpa_contain *contain = &mpa_tuf(ctx)->contain;
	struct mpa_segments segments;
	struct mpa_island island;

	if (!mpa_tcp_ooo_newest(ctx->sk, 0, &island) ||
	    !mpa_tcp_ooo_segments(ctx->sk, island.start, &segments) ||
	    !mpa_contain_clear(&segments))
		return;
	contain->seen = true;
	contain->seen_pos = island.start - ctx->rx.seq;
	contain->seen_segments = segments;
}

/* Whether the first octets of an island are as many FPDUs as segments. */
static bool mpa_contain_walk(struct mpa_ctx *ctx, u32 pos,
			     const struct mpa_segments *segments)
{
	struct mpa_cursor at;
	struct mpa_rx_source from = { .at = &at };
	u32 left = segments->octets, i;
	struct mpa_fpdu fpdu;

	mpa_cursor_begin(&at, ctx->sk, ctx->rx.seq + pos);
	for (i = 0; i < segments->nr; i++) {
		if (mpa_read_head(&from, 0, left, pos, &ctx->rx, false,
				  &fpdu) != MPA_HEAD_GOOD ||
		    fpdu.wrong_key || fpdu.len > left)
			return false;
		/* All but the last one are as long. */
		if (segments->each && i + 1 < segments->nr &&
		    fpdu.len != segments->each)
			return false;
		mpa_cursor_skip(&at, fpdu.len);
		left -= fpdu.len;
		pos += fpdu.len;
	}
	return !left;
}

/* It was tested a while ago. */
static bool mpa_contain_failed(const struct mpa_contain *contain, u64 what)
{
	u32 i;

	for (i = 0; i < MPA_CONTAIN_FAILED; i++)
		if (contain->failed[i] == what)
			return true;
	return false;
}

/**
 * mpa_contain_test() - the segment, or the segments, that octets out of order begin
 *			with are FPDUs
 * @ctx:	the context; mpa_contain_possible()
 * @pos:	stream position of the first octet behind a gap
 *
 * Each segment once, as long as not too many fail.
 *
 * Context: any, socket lock held.
 * Return: whether they are.
 */
bool mpa_contain_test(struct mpa_ctx *ctx, u32 pos)
{
	struct mpa_contain *contain = &mpa_tuf(ctx)->contain;
	struct mpa_segments segments;
	bool passed;
	u64 what;

	/* It could not be remembered if it passed. */
	if (ctx->rx.place->full ||
	    !mpa_tcp_ooo_segments(ctx->sk, ctx->rx.seq + pos, &segments))
		return false;
	if (!mpa_contain_clear(&segments)) {
		if (!contain->seen || contain->seen_pos != pos)
			return false;
		segments = contain->seen_segments;
	}
	/* A longer one may have come in its place; more behind it make no other. */
	what = (u64)(segments.nr == 1 ? segments.octets : 0) << 32 | pos;
	if (mpa_contain_failed(contain, what))
		return false;
	passed = segments.nr <= MPA_CONTAIN_SEGMENTS &&
		 mpa_contain_walk(ctx, pos, &segments);
	if (!passed)
		contain->failed[contain->next++ % MPA_CONTAIN_FAILED] = what;
	mpa_contain_count(ctx, segments.nr, passed);
	return passed;
}
