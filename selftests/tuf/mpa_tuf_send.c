// SPDX-License-Identifier: GPL-2.0
/*
 * Sending with "tuf" in every mode: the octets are those of the model, and no ULPDU
 * exceeds the limit.
 */

#include "mpa_harness.h"
#include "mpa_tuf_tx.h"

FIXTURE_VARIANT_ADD(tx, align) { AF_INET, TUF_ALIGN, 0 };
FIXTURE_VARIANT_ADD(tx, align_ipv6) { AF_INET6, TUF_ALIGN, 0 };
FIXTURE_VARIANT_ADD(tx, markers_128) { AF_INET, TUF_MARKERS, 128 };
FIXTURE_VARIANT_ADD(tx, markers_512) { AF_INET6, TUF_MARKERS, 512 };
FIXTURE_VARIANT_ADD(tx, markers_2048) { AF_INET, TUF_MARKERS, 2048 };
FIXTURE_VARIANT_ADD(tx, markers_32768) { AF_INET6, TUF_MARKERS, 32768 };
FIXTURE_VARIANT_ADD(tx, segments) { AF_INET, TUF_SEGMENTS, 0 };
FIXTURE_VARIANT_ADD(tx, segments_ipv6) { AF_INET6, TUF_SEGMENTS, 0 };

#define MARKED	(variant->mode == TUF_MARKERS)

/* ---- octets ---- */

TEST_F_TIMEOUT(tx, octets_are_the_models, 300)
{
	const size_t most = mulpdu(self);
	const size_t steps = most < 2000 ? most - 1 : 6000;
	size_t len;

	for (len = 1; len < steps; len += len < 300 ? 1 : 41)
		ASSERT_TRUE(goes(self, len));
	ASSERT_TRUE(goes(self, most - 1));
	ASSERT_TRUE(goes(self, most));
	ASSERT_TRUE(goes(self, 1));
	ASSERT_TRUE(goes(self, most));
	TOO_LONG(most + 1);
	ASSERT_TRUE(goes(self, 1));
	EXPECT_EQ(self->sent, tuf_info(self->fd[0]).tx_octets);
	if (variant->mode != TUF_SEGMENTS)
		EXPECT_EQ(tuf_info(self->fd[0]).tx_ulpdus,
			  tuf_info(self->fd[0]).tx_fpdus);
}

/* A marker comes at each octet of the header, and before and after the last octet. */
TEST_F_TIMEOUT(tx, marker_anywhere_in_an_fpdu, 300)
{
	/* Other modes use the same lengths. */
	const u32 period = MARKED ? self->way.period : 128;
	u32 distance, more;

	for (distance = 0; distance < 24; distance++) {
		for (more = 0; more < 16; more++) {
			u32 phase = self->way.position % period;
			u32 want = period - distance;

			/* The next FPDU's header is at @want. */
			while (want < phase + 20)
				want += period;
			if (want - phase > 8 + 1 + 4)
				ASSERT_TRUE(goes(self, want - phase - 8));
			ASSERT_TRUE(goes(self, 1 + more));
		}
	}
	/* Send an FPDU that ends where a marker is due. */
	for (more = 0; more < 3; more++) {
		u32 most = mulpdu(self), twice = 2 * period - 4 - 8;
		u32 left = -self->way.position & (period - 1);

		if (left > 8)
			ASSERT_TRUE(goes(self, left - 8));
		ASSERT_TRUE(goes(self, period));
		ASSERT_TRUE(goes(self, twice < most ? twice : most));
	}
}

TEST_F(tx, mulpdu_is_what_a_segment_holds)
{
	const struct tuf_info info = tuf_info(self->fd[0]);
	struct tuf_way at_start = self->way;

	EXPECT_EQ(variant->family == AF_INET ? 1448 : 1428, info.emss);
	EXPECT_EQ(info.mulpdu, mulpdu(self));
	switch (variant->mode) {
	case TUF_ALIGN:
		EXPECT_EQ(info.emss - 8, info.mulpdu);
		break;
	case TUF_SEGMENTS:
		EXPECT_EQ(info.emss, info.mulpdu);
		break;
	default:
		/* MULPDU is 2^16 - 8 - 4 x (markers), and does not depend on segments. */
		EXPECT_EQ(tuf_longest(&at_start), info.mulpdu);
	}
}

/* MPA_OVERSIZE: "An incompressible ULPDU larger than MULPDU travels alone". */
TEST_F_TIMEOUT(tx, oversized_ulpdus_are_cut, 120)
{
	const size_t most = mulpdu(self);

	EXPECT_EQ(0, get_int(self->fd[0], MPA_OVERSIZE));
	ASSERT_EQ(0, set_int(self->fd[0], MPA_OVERSIZE, 1));
	if (variant->mode == TUF_ALIGN) {
		ASSERT_TRUE(goes(self, most + 1));
		ASSERT_TRUE(goes(self, 30000));
		ASSERT_TRUE(goes(self, TUF_ULPDU_MAX - 1));
		ASSERT_TRUE(goes(self, TUF_ULPDU_MAX));
		ASSERT_TRUE(acked(self->fd[0]));
		EXPECT_LT(0, tuf_info(self->fd[0]).tx_segs_unaligned);
		EXPECT_EQ(0, tuf_info(self->fd[0]).tx_segs_contained);
		EXPECT_EQ(4, tuf_info(self->fd[0]).tx_segs_aligned);
	}
	TOO_LONG(TUF_ULPDU_MAX + 1);
	TOO_LONG(100000);
	ASSERT_TRUE(goes(self, 1));
	ASSERT_EQ(0, set_int(self->fd[0], MPA_OVERSIZE, 0));
	TOO_LONG(most + 1);
}

/* a thread that reads the plain TCP stream to its end */
struct drain {
	pthread_t thread;
	int fd;
	u8 *buf;
	size_t seen;
};

static void *drain_run(void *arg)
{
	struct drain *drain = arg;
	ssize_t n;

	while ((n = recv(drain->fd, drain->buf + drain->seen, BUF, 0)) > 0)
		drain->seen += n;
	return NULL;
}

#define BULK	(2 << 20)

/* Send bulk data of all lengths. */
TEST_F_TIMEOUT(tx, bulk_is_the_models_and_contained, 300)
{
	struct drain drain = { .fd = self->fd[1] };
	struct tuf_way way = self->way;
	u8 *all = malloc(2 * BULK);
	struct tuf_info info;
	u32 x = 5044, fpdus;
	u64 at = 0;
	size_t n;

	drain.buf = malloc(2 * BULK);
	ASSERT_EQ(0, pthread_create(&drain.thread, NULL, drain_run, &drain));
	for (n = 0, fpdus = 0; at < BULK; fpdus++) {
		size_t len;

		x = x * 1664525 + 1013904223;
		len = fpdus % 100 < 50 ? 1 + (x >> 8) % 1428 : 1000;
		if (len > 1420 && variant->mode != TUF_SEGMENTS)
			len = 1420;
		ASSERT_EQ(len, tx_put(self, len, 0));
		n += tuf_fpdu(&way, stream_at(at), len, all + n);
		at += len;
	}
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	pthread_join(drain.thread, NULL);
	ASSERT_EQ(n, drain.seen);
	EXPECT_EQ(0, memcmp(all, drain.buf, n));
	info = tuf_info(self->fd[0]);
	EXPECT_EQ(fpdus, info.tx_ulpdus);
	if (variant->mode == TUF_ALIGN) {
		EXPECT_EQ(fpdus, info.tx_fpdus);
		EXPECT_EQ(fpdus, info.tx_segs_contained);
		EXPECT_EQ(fpdus, info.tx_segs_aligned);
		EXPECT_EQ(0, info.tx_segs_unaligned);
		EXPECT_LE(info.tx_packets, fpdus);
	}
	free(drain.buf);
	free(all);
}

/* The path MTU drops and rises: MULPDU follows at once. */
TEST_F(tx, mulpdu_follows_the_path)
{
	/* With markers FPDUs do not depend on segments. */
	const int less = MARKED ? 0 : 200;
	const int most = mulpdu(self);

	ASSERT_TRUE(goes(self, most));
	ASSERT_EQ(0, lo_mtu(1300));
	EXPECT_EQ(most - less, mulpdu(self));
	TOO_LONG(most - less + 1);
	ASSERT_TRUE(goes(self, most - less));
	ASSERT_EQ(0, lo_mtu(1500));
	EXPECT_EQ(most, mulpdu(self));
	ASSERT_TRUE(goes(self, most));
}

/* "a send fails with EMSGSIZE, once, when MULPDU has changed since it was read" */
TEST_F(tx, change_of_emss_is_reported_once)
{
	const struct connecting usual = {};
	int most, times;

	ASSERT_EQ(0, tx_connect(self, variant->family, &usual, TUF_TELL_EMSS));
	most = mulpdu(self);
	ASSERT_TRUE(goes(self, 100));
	for (times = 0; times < 2; times++) {
		ASSERT_EQ(0, lo_mtu(1300));
		if (!MARKED)
			TOO_LONG(100);
		ASSERT_TRUE(goes(self, 100));
		ASSERT_TRUE(goes(self, 101));
		EXPECT_EQ(MARKED ? most : most - 200, mulpdu(self));
		ASSERT_TRUE(goes(self, 102));
		/* MULPDU was read before the send: there is nothing to report. */
		ASSERT_EQ(0, lo_mtu(1500));
		EXPECT_EQ(most, mulpdu(self));
		ASSERT_TRUE(goes(self, 103));
	}
}

TEST_F(tx, change_of_emss_is_not_reported_unrequested)
{
	ASSERT_TRUE(goes(self, 100));
	ASSERT_EQ(0, lo_mtu(1300));
	ASSERT_TRUE(goes(self, 100));
	ASSERT_EQ(0, lo_mtu(1500));
	ASSERT_TRUE(goes(self, 100));
}

TEST_HARNESS_MAIN
