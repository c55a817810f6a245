// SPDX-License-Identifier: GPL-2.0
/*
 * The containment test (draft-ietf-tsvwg-tcp-ulp-frame-01): a segment that consists of a
 * Length, the key and Length octets is an FPDU, even if octets before the segment are missing.
 * Only the start of a segment is tested. The socket lock is held in all functions.
 *
 * TCP and GRO merge segments. Afterwards the first skb of contiguous octets shows only
 * where the octets begin, and the number of its segments; their length only if GRO
 * alone has merged them. If TCP has merged segments, the length is known only if
 * mpa_contain_note() was called before.
 *
 * If almost no segment passes, a middlebox changes the segmentation of the stream. Then no
 * further segments are tested.
 */

#include "tuf.h"

/*
 * If more segments than this are merged, the test fails: their records are delivered in
 * order.
 */
#define MPA_CONTAIN_SEGMENTS	128

/*
 * Give up the test after MPA_CONTAIN_TESTS segments, MPA_CONTAIN_RTTS round-trip times and a
 * second, if fewer than one in MPA_CONTAIN_RARE of the segments has passed.
 */
#define MPA_CONTAIN_TESTS	64
#define MPA_CONTAIN_RARE	16
#define MPA_CONTAIN_RTTS	16

/*
 * Restart the test with @key, or without a key if NULL. @seen_segments stays valid, as
 * it does not depend on the key. Context: process. Return: whether the key has changed.
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

/*
 * Reset the test when framing of received data begins or ends. @key: the peer's, or NULL.
 * Context: process.
 */
void mpa_contain_begin(struct mpa_tuf *tuf, const u8 *key)
{
	tuf->contain.seen_segments.nr = 0;
	mpa_contain_key(tuf, key);
}

/*
 * Whether records can be found out of order. With markers they can. With the
 * containment test they can if there is a key, the test is not given up, and segments
 * are large enough for most FPDUs.
 */
bool mpa_contain_possible(const struct mpa_ctx *ctx)
{
	const struct mpa_contain *contain = &mpa_tuf_const(ctx)->contain;

	if (!mpa_format_contained(&ctx->rx.format))
		return mpa_format_markers(&ctx->rx.format);
	return contain->keyed && !contain->given_up &&
	       mpa_tcp_advmss(ctx->sk) >= MPA_MULPDU_MIN + TUF_HEADER_LEN;
}

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

static bool mpa_contain_lengths_known(const struct mpa_segments *segments)
{
	return segments->nr == 1 || segments->each;
}

/*
 * Record the segments of octets that have arrived out of order, before TCP merges later
 * segments with them. Context: any, in TCP's receive path, so do not change TCP's
 * state.
 */
void mpa_contain_note(struct mpa_ctx *ctx)
{
	struct mpa_contain *contain = &mpa_tuf(ctx)->contain;
	struct mpa_segments segments;
	struct mpa_island island;

	if (!mpa_tcp_ooo_newest(ctx->sk, 0, &island) ||
	    !mpa_tcp_ooo_segments(ctx->sk, island.start, &segments) ||
	    !mpa_contain_lengths_known(&segments))
		return;
	contain->seen_pos = island.start - ctx->rx.seq;
	contain->seen_segments = segments;
}

/* Whether each of @segments, the first segments of an island, is an FPDU */
static bool mpa_contain_walk(struct mpa_ctx *ctx, u32 pos,
			     const struct mpa_segments *segments)
{
	u32 left = segments->octets, i;
	struct mpa_cursor at;
	struct mpa_fpdu fpdu;

	mpa_cursor_begin(&at, ctx->sk, ctx->rx.seq + pos);
	for (i = 0; i < segments->nr; i++) {
		if (mpa_read_head(&ctx->rx, &at, left, pos, &fpdu) !=
		    MPA_HEAD_GOOD ||
		    fpdu.wrong_key || fpdu.len > left)
			return false;
		/* All segments but the last have the same length. */
		if (segments->each && i + 1 < segments->nr &&
		    fpdu.len != segments->each)
			return false;
		mpa_cursor_skip(&at, fpdu.len);
		left -= fpdu.len;
		pos += fpdu.len;
	}
	return !left;
}

/*
 * Whether the octets after a gap, from stream position @pos, begin with FPDUs. A failed test is
 * not repeated, unless too many other tests have failed since. Context: any;
 * mpa_contain_possible() is true.
 */
bool mpa_contain_test(struct mpa_ctx *ctx, u32 pos)
{
	struct mpa_contain *contain = &mpa_tuf(ctx)->contain;
	struct mpa_segments segments;
	bool passed;
	u64 what;
	u32 i;

	/* If the list of places is full, a success could not be recorded. */
	if (mpa_place_full(ctx->rx.place) ||
	    !mpa_tcp_ooo_segments(ctx->sk, ctx->rx.seq + pos, &segments))
		return false;
	if (!mpa_contain_lengths_known(&segments)) {
		if (!contain->seen_segments.nr || contain->seen_pos != pos)
			return false;
		segments = contain->seen_segments;
	}
	/*
	 * A failure is remembered by its stream position and, in the upper half, the
	 * length of a single segment. So if a longer segment replaces a single one, the
	 * test is repeated. If TCP merges another segment with a single one, the test
	 * is not repeated, as @seen_segments is the same.
	 */
	what = (u64)(segments.nr == 1 ? segments.octets : 0) << 32 | pos;
	for (i = 0; i < MPA_CONTAIN_FAILED; i++)
		if (contain->failed[i] == what)
			return false;
	passed = segments.nr <= MPA_CONTAIN_SEGMENTS &&
		 mpa_contain_walk(ctx, pos, &segments);
	if (!passed)
		contain->failed[contain->next++ % MPA_CONTAIN_FAILED] = what;
	mpa_contain_count(ctx, segments.nr, passed);
	return passed;
}
