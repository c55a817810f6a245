// SPDX-License-Identifier: GPL-2.0
/*
 * FPDUs and segments with TUF_ALIGN: each FPDU begins a segment, and fills it if it
 * fits; packing of ULPDUs; the effects of a smaller EMSS.
 */

#include "mpa_harness.h"
#include "mpa_tuf_tx.h"
#include "mpa_sniff.h"

FIXTURE_VARIANT_ADD(tx, ipv4) { AF_INET, TUF_ALIGN, 0 };
FIXTURE_VARIANT_ADD(tx, ipv6) { AF_INET6, TUF_ALIGN, 0 };

/* ---- segments ---- */

/* Whether the next segment, except retransmissions, has these octets. */
static bool segment_is(struct sniffer *sniffer, u32 at, u32 len)
{
	struct sniffed seen;

	do {
		if (!sniff(sniffer, &seen)) {
			fprintf(stderr, "# expected a segment of %u octets, seen none\n",
				len);
			return false;
		}
	} while (seen.at < at);
	if (seen.at == at && seen.len == len)
		return true;
	fprintf(stderr, "# expected octets %u to %u in a segment, seen %u to %u\n",
		at, at + len, seen.at, seen.at + seen.len);
	return false;
}

/* Sends stay separate segments, even if TCP cannot send them yet. */
static void sends_are_segments(struct __test_metadata *_metadata,
			       struct _test_data_tx *self)
{
	static const size_t lens[] = { 1, 1400, 8, 700, 700, 700, 2, 100, 1 };
	const u32 header = self->way.mode == TUF_ALIGN ? TUF_HEADER_LEN : 0;
	struct sniffer sniffer;
	struct sniffed more;
	int i, held;
	u32 at = 0;

	ASSERT_EQ(0, lo_cuts_nothing());
	ASSERT_EQ(0, sniff_open(&sniffer, self->fd[0]));
	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));
	for (held = 0; held < 2; held++) {
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			const bool last = i == ARRAY_SIZE(lens) - 1;

			ASSERT_EQ(lens[i], tx_put(self, lens[i], held && !last ?
						  MSG_MORE | MSG_EOR : 0));
		}
		ASSERT_TRUE(acked(self->fd[0]));
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			const u32 n = lens[i] + header;

			ASSERT_TRUE(segment_is(&sniffer, at, n)) {
				TH_LOG("send %d of %zu octets", i, lens[i]);
			}
			at += n;
		}
	}
	while (sniff(&sniffer, &more))
		EXPECT_LT(more.at, at);
	close(sniffer.fd);
}

TEST_F(tx, each_send_is_a_segment)
{
	struct tuf_info info;

	ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	sends_are_segments(_metadata, self);
	info = tuf_info(self->fd[0]);
	EXPECT_EQ(info.tx_fpdus, info.tx_segs_contained);
	EXPECT_EQ(info.tx_fpdus, info.tx_segs_aligned);
	EXPECT_EQ(0, info.tx_segs_unaligned);
}

/* "no header, each send is a segment of its own" */
TEST_F(tx, each_send_is_a_segment_without_a_header)
{
	ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	self->way.mode = TUF_SEGMENTS;
	sends_are_segments(_metadata, self);
}

/* Send the longest ULPDU that fits a segment. */
TEST_F(tx, longest_ulpdu_is_a_full_segment)
{
	const size_t most = mulpdu(self);
	int i;

	for (i = 0; i < 20; i++)
		ASSERT_TRUE(goes(self, most));
	ASSERT_TRUE(acked(self->fd[0]));
	EXPECT_EQ(20, tuf_info(self->fd[0]).tx_segs_contained);
	EXPECT_EQ(20, tuf_info(self->fd[0]).tx_segs_aligned);
	EXPECT_EQ(0, tuf_info(self->fd[0]).tx_segs_unaligned);
}

/* MPA_SEGMENT_FILL builds FPDUs that fill segments. */
TEST_F(tx, segment_0_fills_segments)
{
	const size_t most = mulpdu(self);
	size_t left;
	u64 at = 0;

	ASSERT_EQ(0, set_int(self->fd[0], MPA_SEGMENT, MPA_SEGMENT_FILL));
	ASSERT_EQ(20000, tx_put(self, 20000, 0));
	for (left = 20000; left; ) {
		size_t n = left < most ? left : most;

		ASSERT_TRUE(fpdu_comes(self, at, n));
		at += n;
		left -= n;
	}
	ASSERT_TRUE(acked(self->fd[0]));
	EXPECT_EQ(20000 / most + 1, tuf_info(self->fd[0]).tx_segs_contained);
}

/* ---- packing ---- */

/* "an FPDU should hold as many whole ULPDUs as fit the current EMSS" */
TEST_F(tx, packing_fills_an_fpdu_with_whole_ulpdus)
{
	const size_t fit = (mulpdu(self) - 1) / 400;
	u64 at = 0;
	int i;

	ASSERT_EQ(0, set_int(self->fd[0], MPA_PACKING, 1));
	for (i = 1; i < 3 * fit; i++)
		ASSERT_EQ(400, tx_put(self, 400, MSG_MORE | MSG_EOR));
	ASSERT_EQ(400, tx_put(self, 400, 0));
	for (i = 0; i < 3; i++) {
		ASSERT_TRUE(fpdu_comes(self, at, 400 * fit));
		at += 400 * fit;
	}
	EXPECT_EQ(3 * fit, tuf_info(self->fd[0]).tx_ulpdus);
	EXPECT_EQ(3, tuf_info(self->fd[0]).tx_fpdus);
	ASSERT_TRUE(acked(self->fd[0]));
	EXPECT_EQ(3, tuf_info(self->fd[0]).tx_segs_contained);

	/* "Packing off: exactly one ULPDU an FPDU." */
	ASSERT_EQ(0, set_int(self->fd[0], MPA_PACKING, 0));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(40, tx_put(self, 40, MSG_MORE | MSG_EOR));
	ASSERT_EQ(40, tx_put(self, 40, 0));
	for (i = 0; i < 4; i++, at += 40)
		ASSERT_TRUE(fpdu_comes(self, at, 40));
	EXPECT_EQ(7, tuf_info(self->fd[0]).tx_fpdus);
}

/* ULPDUs are packed up to a segment's last octet. */
TEST_F(tx, packing_ends_where_the_segment_does)
{
	const size_t most = mulpdu(self);

	ASSERT_EQ(0, set_int(self->fd[0], MPA_PACKING, 1));
	ASSERT_EQ(400, tx_put(self, 400, MSG_MORE | MSG_EOR));
	ASSERT_EQ(most - 400, tx_put(self, most - 400, 0));
	EXPECT_TRUE(fpdu_comes(self, 0, most));
	ASSERT_EQ(400, tx_put(self, 400, MSG_MORE | MSG_EOR));
	ASSERT_EQ(most - 399, tx_put(self, most - 399, 0));
	EXPECT_TRUE(fpdu_comes(self, most, 400));
	EXPECT_TRUE(fpdu_comes(self, most + 400, most - 399));
	EXPECT_EQ(3, tuf_info(self->fd[0]).tx_fpdus);
	EXPECT_EQ(4, tuf_info(self->fd[0]).tx_ulpdus);
}

/* With Nagle's algorithm whole ULPDUs that wait for an ACK are packed. */
TEST_F(tx, nagle_packs_whole_ulpdus)
{
	u64 at = 0;
	int i;

	ASSERT_EQ(0, set_int(self->fd[0], MPA_PACKING, 1));
	option_put(self->fd[0], SOL_TCP, TCP_NODELAY, 0);
	for (i = 0; i < 200; i++)
		ASSERT_EQ(100, tx_put(self, 100, 0));
	while (at < 20000) {
		u8 length[2];
		size_t n;

		ASSERT_EQ(2, recv(self->fd[1], length, 2,
				  MSG_PEEK | MSG_WAITALL));
		n = length[0] << 8 | length[1];
		ASSERT_TRUE(n && n % 100 == 0 && n <= mulpdu(self)) {
			TH_LOG("an FPDU of %zu octets", n);
		}
		ASSERT_TRUE(fpdu_comes(self, at, n));
		at += n;
	}
	ASSERT_TRUE(acked(self->fd[0]));
	EXPECT_EQ(tuf_info(self->fd[0]).tx_fpdus,
		  tuf_info(self->fd[0]).tx_segs_contained);
}

/* ---- emergency ---- */

/* -00: "when EMSS < 512: PDUs up to 512 octets are accepted and may span segments" */
TEST_F_TIMEOUT(tx, emergency_takes_512_octets, 120)
{
	static const int emss[] = { 76, 128, 136, 300, 511 };
	int i;

	for (i = 0; i < ARRAY_SIZE(emss); i++) {
		const struct connecting how = { .maxseg = emss[i] + 12 };

		ASSERT_EQ(0, tx_connect(self, variant->family, &how, 0));
		ASSERT_EQ(emss[i], tuf_info(self->fd[0]).emss);
		EXPECT_EQ(TUF_INFO_EMERGENCY, tuf_info(self->fd[0]).flags &
					      TUF_INFO_EMERGENCY);
		if (emss[i] >= 136)
			EXPECT_EQ(emss[i] - 8, mulpdu(self));
		ASSERT_TRUE(goes(self, TUF_EMERGENCY));
		ASSERT_TRUE(goes(self, 1));
		ASSERT_TRUE(goes(self, emss[i] - 8));
		ASSERT_TRUE(goes(self, emss[i] - 7));
		ASSERT_TRUE(goes(self, TUF_EMERGENCY));
		ASSERT_TRUE(acked(self->fd[0]));
		EXPECT_LT(0, tuf_info(self->fd[0]).tx_segs_unaligned);
		EXPECT_EQ(2, tuf_info(self->fd[0]).tx_segs_contained);
		TOO_LONG(TUF_EMERGENCY + 1);
	}
}

TEST_F(tx, no_emergency_at_512)
{
	const struct connecting how = { .maxseg = TUF_EMERGENCY + 12 };

	ASSERT_EQ(0, tx_connect(self, variant->family, &how, 0));
	ASSERT_EQ(TUF_EMERGENCY, tuf_info(self->fd[0]).emss);
	EXPECT_EQ(0, tuf_info(self->fd[0]).flags & TUF_INFO_EMERGENCY);
	EXPECT_EQ(504, mulpdu(self));
	ASSERT_TRUE(goes(self, 504));
	TOO_LONG(505);
}

TEST_HARNESS_MAIN
