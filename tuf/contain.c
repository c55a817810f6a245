// SPDX-License-Identifier: GPL-2.0
/*
 * The containment test (draft-ietf-tsvwg-tcp-ulp-frame-01): a segment that
 * consists of a length, the key and that number of octets is an FPDU, even if
 * octets before it are missing. Only the beginning of a segment is tested. All
 * functions are called with the socket lock held.
 *
 * TCP and the driver merge segments. What remains is where contiguous octets
 * begin, the number of segments that the first of them arrived in, and, if the
 * driver (GRO) merged them, their length. If TCP merged them, it is known only
 * if it was looked at before.
 *
 * If almost no segment passes, a middlebox changes the segmentation of the
 * stream: then the test is given up.
 */

#include "tuf.h"

/* Larger groups of merged segments fail, and wait for order. */
#define MPA_CONTAIN_SEGMENTS	128

/*
 * The test is given up if, of at least this many segments, fewer than one in
 * MPA_CONTAIN_RARE pass for longer than MPA_CONTAIN_RTTS round-trip times, and
 * longer than a second.
 */
#define MPA_CONTAIN_TESTS	64
#define MPA_CONTAIN_RARE	16
#define MPA_CONTAIN_RTTS	16

/*
 * Begin anew with another key, or none. The segmentation that was seen does not
 * depend on it. Context: process. Return: whether the key is another one.
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
 * A direction begins, or ends. @key: of what will be received, or NULL.
 * Context: process.
 */
void mpa_contain_begin(struct mpa_tuf *tuf, const u8 *key)
{
	tuf->contain.seen = false;
	mpa_contain_key(tuf, key);
}

/*
 * Records can be found out of order: with markers always; with the test if
 * there is a key, it is not given up, and segments are large enough for most
 * FPDUs.
 */
bool mpa_contain_possible(const struct mpa_ctx *ctx)
{
	const struct mpa_contain *contain = &mpa_tuf_const(ctx)->contain;

	if (!mpa_format_contained(&ctx->rx.format))
		return mpa_format_markers(&ctx->rx.format);
	return contain->keyed && !contain->given_up &&
	       mpa_tcp_advmss(ctx->sk) >= MPA_MULPDU_MIN + TUF_HEADER_LEN;
}

/* Count, and decide whether to give up. */
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

/* The length of each segment is known. */
static bool mpa_contain_lengths_known(const struct mpa_segments *segments)
{
	return segments->nr == 1 || segments->each;
}

/*
 * Octets have arrived out of order: remember their segments, before others that
 * follow are merged with them. In any context, inside TCP's receive path: it
 * changes nothing.
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
	contain->seen = true;
	contain->seen_pos = island.start - ctx->rx.seq;
	contain->seen_segments = segments;
}

/* Whether the segments that an island begins with are an FPDU each. */
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
		/* All but the last one have the same length. */
		if (segments->each && i + 1 < segments->nr &&
		    fpdu.len != segments->each)
			return false;
		mpa_cursor_skip(&at, fpdu.len);
		left -= fpdu.len;
		pos += fpdu.len;
	}
	return !left;
}

static bool mpa_contain_failed(const struct mpa_contain *contain, u64 what)
{
	u32 i;

	for (i = 0; i < MPA_CONTAIN_FAILED; i++)
		if (contain->failed[i] == what)
			return true;
	return false;
}

/*
 * Whether octets out of order begin with FPDUs; @pos: of the first octet after
 * a gap. The segment or segments that they begin with are tested once, unless
 * too many fail. Context: any; mpa_contain_possible().
 */
bool mpa_contain_test(struct mpa_ctx *ctx, u32 pos)
{
	struct mpa_contain *contain = &mpa_tuf(ctx)->contain;
	struct mpa_segments segments;
	bool passed;
	u64 what;

	/* It could not be recorded if it passed. */
	if (ctx->rx.place->full ||
	    !mpa_tcp_ooo_segments(ctx->sk, ctx->rx.seq + pos, &segments))
		return false;
	if (!mpa_contain_lengths_known(&segments)) {
		if (!contain->seen || contain->seen_pos != pos)
			return false;
		segments = contain->seen_segments;
	}
	/*
	 * A longer segment may have replaced it; one merged after it does not
	 * count.
	 */
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
