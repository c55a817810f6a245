// SPDX-License-Identifier: GPL-2.0
/*
 * FPDUs that are cut: no piece may pass the containment test, or a receiver would
 * mistake it for an FPDU. The ULPDUs have [Length][Key] wherever a piece may begin.
 */

#include "mpa_harness.h"
#include "mpa_tuf.h"
#include "mpa_send.h"
#include "mpa_sniff.h"

#define FPDUS_MAX	4000

/*
 * With this key a segment of SAME_LEN octets, each of them 5, passes the containment
 * test, wherever it begins.
 */
#define SAME		5
#define SAME_LEN	(SAME * 257 + TUF_HEADER_LEN)

FIXTURE(cuts)
{
	int fd[2];		/* fd[1] is plain TCP */
	struct tuf_way way;
	struct sniffer sniffer;
	unsigned int fpdus;
	u32 start[FPDUS_MAX + 1];
	u8 *stream;		/* expected octets */
	u8 *seen;
	u8 *ulpdu;
	u32 pieces;		/* number of segments that did not begin with an FPDU */
	u32 read;
};

FIXTURE_SETUP(cuts)
{
	self->fd[0] = -1;
	self->fd[1] = -1;
	self->stream = malloc(8 * BUF);
	self->seen = malloc(BUF);
	self->ulpdu = malloc(BUF);
	self->sniffer.fd = -1;
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, lo_mtu(1500));
	ASSERT_EQ(0, lo_cuts_nothing());
}

FIXTURE_TEARDOWN(cuts)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
	close(self->sniffer.fd);
	free(self->stream);
	free(self->seen);
	free(self->ulpdu);
}

static int cuts_connect(struct _test_data_cuts *self,
			const struct connecting *how)
{
	self->way = (struct tuf_way){ .mode = TUF_ALIGN };
	memset(self->way.key, SAME, TUF_KEY_LEN);
	self->fpdus = 0;
	self->start[0] = 0;
	self->read = 0;
	self->pieces = 0;
	return tcp_pair_how(AF_INET, self->fd, how) ||
	       tuf_attach(self->fd[0]) ||
	       sniff_open(&self->sniffer, self->fd[0]) ||
	       tuf_start(self->fd[0], TUF_TX, &self->way) ||
	       set_int(self->fd[0], MPA_PACKING, 0) ||
	       set_int(self->fd[0], MPA_OVERSIZE, 1) ? -1 : 0;
}

/* Send self->ulpdu. Return: 0, or errno. */
static int cuts_send(struct _test_data_cuts *self, size_t len, int flags)
{
	u32 at = self->start[self->fpdus];

	if (send(self->fd[0], self->ulpdu, len, flags) != (ssize_t)len)
		return errno;
	self->start[++self->fpdus] = at +
		tuf_fpdu(&self->way, self->ulpdu, len, self->stream + at);
	return 0;
}

static bool cuts_read(struct _test_data_cuts *self, u32 to)
{
	while (self->read < to) {
		u32 n = to - self->read < BUF ? to - self->read : BUF;
		ssize_t got = recv(self->fd[1], self->seen, n, 0);

		if (got <= 0 || memcmp(self->seen, self->stream + self->read,
				       got)) {
			fprintf(stderr, "# of octets %u to %u: seen %zd (%s)\n",
				self->read, to, got,
				got < 0 ? strerror(errno) : "others");
			return false;
		}
		self->read += got;
	}
	return true;
}

/* Whether this segment, received alone, would be mistaken for an FPDU. */
static bool passes(const struct _test_data_cuts *self,
		   const struct sniffed *seen)
{
	return seen->len > TUF_HEADER_LEN &&
	       (seen->head[0] << 8 | seen->head[1]) + TUF_HEADER_LEN ==
			seen->len &&
	       !memcmp(seen->head + 2, self->way.key, TUF_KEY_LEN);
}

/* Whether only FPDUs pass, among all segments sent. */
static bool none_passes(struct _test_data_cuts *self)
{
	struct sniffed seen;
	unsigned int i = 0;
	bool good = true;

	while (sniff(&self->sniffer, &seen)) {
		bool whole;

		/* A retransmission goes back to an earlier FPDU. */
		while (i && self->start[i] > seen.at)
			i--;
		while (i < self->fpdus && self->start[i] < seen.at)
			i++;
		whole = i < self->fpdus && self->start[i] == seen.at &&
			self->start[i + 1] == seen.at + seen.len;
		self->pieces += i == self->fpdus || self->start[i] != seen.at;
		if (passes(self, &seen) && !whole) {
			fprintf(stderr, "# octets %u to %u pass, but are no FPDU\n",
				seen.at, seen.at + seen.len);
			good = false;
		}
	}
	return good;
}

/* FPDUs are cut at the MSS: each piece except the first would pass. */
TEST_F_TIMEOUT(cuts, oversized_fpdus, 120)
{
	const struct connecting how = { .maxseg = SAME_LEN + 12 };
	u32 len;

	ASSERT_EQ(0, cuts_connect(self, &how));
	ASSERT_EQ(SAME_LEN, tuf_info(self->fd[0]).emss);
	memset(self->ulpdu, SAME, BUF);
	for (len = SAME_LEN - 10; len < 3 * SAME_LEN + 20;
	     len += len % SAME_LEN > 20 && len % SAME_LEN < SAME_LEN - 20 ?
	     31 : 1) {
		ASSERT_EQ(0, cuts_send(self, len, 0));
		ASSERT_TRUE(cuts_read(self, self->start[self->fpdus]));
		ASSERT_TRUE(acked(self->fd[0]));
		ASSERT_TRUE(none_passes(self)) {
			TH_LOG("a ULPDU of %u octets", len);
		}
	}
	ASSERT_EQ(0, cuts_send(self, TUF_ULPDU_MAX, 0));
	ASSERT_TRUE(cuts_read(self, self->start[self->fpdus]));
	ASSERT_TRUE(acked(self->fd[0]));
	ASSERT_TRUE(none_passes(self));
	EXPECT_LT(100, self->pieces);
}

/* Send bulk data, which TCP cuts into segments later. */
TEST_F_TIMEOUT(cuts, oversized_fpdus_that_wait, 120)
{
	const struct connecting how = {
		.maxseg = SAME_LEN + 12, .sndbuf = 200000, .rcvbuf = 20000,
	};
	int len = 3000;

	ASSERT_EQ(0, cuts_connect(self, &how));
	ASSERT_EQ(SAME_LEN, tuf_info(self->fd[0]).emss);
	memset(self->ulpdu, SAME, BUF);
	while (self->start[self->fpdus] < 200000) {
		/* Send far more than the window. */
		while (self->start[self->fpdus] < self->read + 50000) {
			ASSERT_EQ(0, cuts_send(self, len, 0));
			len = 1400 + (len * 7 + 1) % 9000;
		}
		ASSERT_TRUE(cuts_read(self, self->read + 7777));
	}
	ASSERT_TRUE(cuts_read(self, self->start[self->fpdus]));
	ASSERT_TRUE(acked(self->fd[0]));
	EXPECT_TRUE(none_passes(self));
	EXPECT_LT(50, self->pieces);
}

/* Framing ends while TCP has unsent FPDUs. */
static void waiting_when(struct __test_metadata *_metadata,
			 struct _test_data_cuts *self, bool stop, bool end,
			 bool hangs_up)
{
	const struct connecting how = {
		.maxseg = SAME_LEN + 12, .sndbuf = 200000, .rcvbuf = 20000,
	};
	int i;

	ASSERT_EQ(0, cuts_connect(self, &how));
	ASSERT_EQ(SAME_LEN, tuf_info(self->fd[0]).emss);
	memset(self->ulpdu, SAME, BUF);
	for (i = 0; i < 12; i++)
		ASSERT_EQ(0, cuts_send(self, 6000 + i, 0));
	ASSERT_LT(20000, unsent(self->fd[0]));
	if (stop)
		ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	if (end)
		ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	if (hangs_up)
		close(self->fd[0]);
	ASSERT_TRUE(cuts_read(self, self->start[self->fpdus]));
	if (end || hangs_up)
		ASSERT_EQ(0, recv(self->fd[1], self->seen, 1, 0));
	EXPECT_TRUE(none_passes(self));
	EXPECT_LT(20, self->pieces);
	if (hangs_up)
		self->fd[0] = -1;
}

TEST_F_TIMEOUT(cuts, waiting_at_the_stop, 120)
{
	waiting_when(_metadata, self, true, false, false);
}

TEST_F_TIMEOUT(cuts, waiting_at_the_end, 120)
{
	waiting_when(_metadata, self, false, true, false);
}

TEST_F_TIMEOUT(cuts, waiting_at_the_stop_and_the_end, 120)
{
	waiting_when(_metadata, self, true, true, false);
}

TEST_F_TIMEOUT(cuts, waiting_at_close, 120)
{
	waiting_when(_metadata, self, false, false, true);
}

TEST_F_TIMEOUT(cuts, waiting_at_the_stop_and_close, 120)
{
	waiting_when(_metadata, self, true, false, true);
}

/* FPDUs that contain the key wait when framing ends: none of their pieces may pass. */
TEST_F_TIMEOUT(cuts, fpdus_that_wait_at_the_stop_leave_whole, 120)
{
	const struct connecting how = {
		.maxseg = SAME_LEN + 12, .sndbuf = 200000, .rcvbuf = 20000,
	};
	struct tuf_info info;
	u32 i, plain;
	u64 whole;

	ASSERT_EQ(0, cuts_connect(self, &how));
	memset(self->ulpdu, 0, BUF);
	memset(self->ulpdu + 50, SAME, TUF_KEY_LEN);
	for (i = 0; i < 40; i++)
		ASSERT_EQ(0, cuts_send(self, 1000 + i, 0));
	ASSERT_LT(20000, unsent(self->fd[0]));
	ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	whole = tuf_info(self->fd[0]).tx_segs_contained;
	ASSERT_GE(20, whole);
	/* The data after them looks like an FPDU, but is not framed. */
	plain = self->start[40];
	i = tuf_fpdu(&self->way, self->ulpdu, 100, self->stream + plain);
	ASSERT_EQ(i, send(self->fd[0], self->stream + plain, i, 0));
	ASSERT_TRUE(cuts_read(self, plain + i));
	ASSERT_TRUE(acked(self->fd[0]));
	info = tuf_info(self->fd[0]);
	EXPECT_EQ(40, info.tx_segs_aligned);
	EXPECT_GE(40, info.tx_segs_contained);
	/* Some are cut at the edge of the window. */
	EXPECT_LT(whole + 10, info.tx_segs_contained);
}

/* "EBUSY ... while octets of an earlier framing are not acknowledged" */
TEST_F_TIMEOUT(cuts, no_new_start_while_the_key_is_on_its_way, 120)
{
	const struct connecting how = {
		.maxseg = SAME_LEN + 12, .sndbuf = 200000, .rcvbuf = 20000,
	};
	int i;

	ASSERT_EQ(0, cuts_connect(self, &how));
	memset(self->ulpdu, SAME, BUF);
	for (i = 0; i < 12; i++)
		ASSERT_EQ(0, cuts_send(self, 6000, 0));
	ASSERT_LT(20000, unsent(self->fd[0]));
	ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	EXPECT_EQ(EBUSY, tuf_start(self->fd[0], TUF_TX, &self->way));
	ASSERT_TRUE(cuts_read(self, self->start[self->fpdus]));
	ASSERT_TRUE(acked(self->fd[0]));
	EXPECT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));
	EXPECT_TRUE(none_passes(self));
}

/* Build a ULPDU that has a length and the key wherever this EMSS would cut it. */
static void ulpdu_for_cuts(struct _test_data_cuts *self, u32 len, u32 emss)
{
	u32 all = TUF_HEADER_LEN + len, at, n;

	memset(self->ulpdu, SAME, len);
	for (at = emss; at + TUF_HEADER_LEN < all; at += emss) {
		n = all - at < emss ? all - at : emss;
		self->ulpdu[at - 8] = (n - TUF_HEADER_LEN) >> 8;
		self->ulpdu[at - 7] = n - TUF_HEADER_LEN;
	}
}

/* The path MTU drops after FPDUs were built for a larger one. */
TEST_F_TIMEOUT(cuts, path_mtu_that_drops, 120)
{
	static const int mtus[] = { SAME_LEN + 52, 1300, 800, 576 };
	const struct connecting how = { .rcvbuf = 20000 };
	u32 trimmed = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(mtus); i++) {
		ASSERT_EQ(0, lo_mtu(1500));
		ASSERT_EQ(0, cuts_connect(self, &how));
		ASSERT_EQ(1448, tuf_info(self->fd[0]).emss);
		ulpdu_for_cuts(self, 1440, mtus[i] - 52);
		while (!cuts_send(self, 1440, MSG_DONTWAIT))
			;
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_EQ(0, lo_mtu(mtus[i]));
		ASSERT_TRUE(cuts_read(self, self->start[self->fpdus]));
		ASSERT_TRUE(acked(self->fd[0]));
		EXPECT_TRUE(none_passes(self)) {
			TH_LOG("MTU %d", mtus[i]);
		}
		EXPECT_LT(0, self->pieces);
		trimmed += tuf_info(self->fd[0]).tx_trimmed;
		hang_up(self->fd[0]);
		hang_up(self->fd[1]);
		close(self->sniffer.fd);
	}
	EXPECT_LT(0, trimmed);
	EXPECT_EQ(trimmed, tuf_count("MpaTufTrimmed"));
}

/*
 * A window smaller than a segment cuts at an unknown place. At every eighth possible
 * place the ULPDU has octets with which the rest of the FPDU would pass.
 */
TEST_F_TIMEOUT(cuts, small_window, 120)
{
	const struct connecting usual = {};
	u32 at, phase, rounds;

	ASSERT_EQ(0, cuts_connect(self, &usual));
	ASSERT_EQ(1448, tuf_info(self->fd[0]).emss);
	option_put(self->fd[1], SOL_SOCKET, SO_RCVBUF, 1);
	for (rounds = 0; rounds < 32; rounds++) {
		const u32 len = tuf_info(self->fd[0]).mulpdu;

		phase = rounds % 8;
		ASSERT_GT(65536, len);
		memset(self->ulpdu, SAME, len);
		for (at = phase; at + 8 < len; at += 8) {
			/* From @at on, len - at octets remain. */
			self->ulpdu[at] = (len - at - 8) >> 8;
			self->ulpdu[at + 1] = len - at - 8;
		}
		while (!cuts_send(self, len, MSG_DONTWAIT) &&
		       self->start[self->fpdus] < self->read + 10000)
			;
		ASSERT_TRUE(cuts_read(self, self->read + 1000 + 13 * rounds));
	}
	ASSERT_TRUE(cuts_read(self, self->start[self->fpdus]));
	ASSERT_TRUE(acked(self->fd[0]));
	EXPECT_TRUE(none_passes(self));
	TH_LOG("%u pieces of %u FPDUs, %llu trimmed", self->pieces, self->fpdus,
	       tuf_info(self->fd[0]).tx_trimmed);
}

/* ULPDUs have up to 512 octets, but segments are shorter (-00, emergency mode). */
TEST_F_TIMEOUT(cuts, emergency, 120)
{
	static const int emss[] = { 88, 128, 200, 259, 260, 261, 400, 511 };
	int i, n;

	for (i = 0; i < ARRAY_SIZE(emss); i++) {
		const struct connecting how = { .maxseg = emss[i] + 12 };

		ASSERT_EQ(0, cuts_connect(self, &how));
		ASSERT_EQ(emss[i], tuf_info(self->fd[0]).emss);
		ASSERT_EQ(0, set_int(self->fd[0], MPA_OVERSIZE, 0));
		for (n = 0; n < 10; n++) {
			ulpdu_for_cuts(self, 512 - n, emss[i]);
			ASSERT_EQ(0, cuts_send(self, 512 - n, 0));
			ASSERT_TRUE(cuts_read(self, self->start[self->fpdus]));
		}
		ASSERT_TRUE(acked(self->fd[0]));
		EXPECT_TRUE(none_passes(self)) {
			TH_LOG("EMSS %d", emss[i]);
		}
		hang_up(self->fd[0]);
		hang_up(self->fd[1]);
		close(self->sniffer.fd);
	}
}

TEST_HARNESS_MAIN
