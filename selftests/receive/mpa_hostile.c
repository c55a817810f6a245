// SPDX-License-Identifier: GPL-2.0
/*
 * FPDUs from a simulated peer: correct ones, octet by octet as in RFC 5044, and every
 * kind of error.
 */

#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"

FIXTURE(peer)
{
	int fd;
	struct peer peer;
	u8 *fpdu;
	u8 *buf;
};

FIXTURE_VARIANT(peer)
{
	bool initiates;
	bool to_us;
	bool from_us;
};

FIXTURE_VARIANT_ADD(peer, initiator) { true, false, false };
FIXTURE_VARIANT_ADD(peer, initiator_marked) { true, true, true };
FIXTURE_VARIANT_ADD(peer, responder) { false, false, false };
FIXTURE_VARIANT_ADD(peer, responder_marked) { false, true, true };

#define BUF	(128 << 10)

FIXTURE_SETUP(peer)
{
	unsigned int flags = variant->to_us ? MPA_START_MARKERS : 0;
	int fd[2];

	self->fpdu = malloc(BUF);
	self->buf = malloc(BUF);
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	self->fd = fd[0];
	self->peer.fd = fd[1];
	if (variant->initiates) {
		ASSERT_EQ(0, peer_initiates(&self->peer, self->fd,
					    variant->from_us, flags));
	} else {
		ASSERT_EQ(0, peer_responds(&self->peer, self->fd,
					   variant->from_us, flags));
	}
	ASSERT_EQ(variant->to_us, self->peer.tx_markers);
}

FIXTURE_TEARDOWN(peer)
{
	close(self->fd);
	close(self->peer.fd);
	free(self->fpdu);
	free(self->buf);
}

static size_t next_fpdu(struct peer *peer, size_t len, u8 *fpdu)
{
	u8 record[MPA_ULPDU_MAX];

	record_fill(record, len);
	return peer_fpdu(peer, record, len, fpdu);
}

/* Check that only the receiving half has ended, with this code. */
#define EXPECT_ENDED(code) do {						\
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));		\
	EXPECT_EQ(EBADMSG, errno);					\
	EXPECT_EQ(code, mpa_info(self->fd).error);			\
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(self->fd).state);		\
	EXPECT_EQ(POLLIN, POLLIN & poll_for(self->fd, POLLIN, 0));	\
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, MSG_DONTWAIT));	\
	EXPECT_EQ(EBADMSG, errno);					\
} while (0)

/* Check that sending still works: section 8 allows it after an error. */
#define EXPECT_STILL_SENDS() do {					\
	EXPECT_EQ(4, send(self->fd, "last", 4, MSG_NOSIGNAL));		\
	EXPECT_LT(0, recv(self->peer.fd, self->buf, BUF, 0));		\
} while (0)

TEST_F(peer, fpdus_received_are_the_models)
{
	size_t len;

	for (len = 1; len < 2000; len += 13) {
		ASSERT_EQ(0, peer_send_record(&self->peer, len));
		ASSERT_EQ(len, recv(self->fd, self->buf, BUF, 0));
		ASSERT_TRUE(record_good(self->buf, len));
	}
}

TEST_F(peer, fpdus_sent_are_the_models)
{
	struct peer sender = { .tx_markers = variant->from_us };
	u8 record[3000], expected[4000];
	size_t len;

	ASSERT_EQ(0, peer_send_record(&self->peer, 1));
	ASSERT_EQ(1, recv(self->fd, self->buf, BUF, 0));
	for (len = 1; len < 3000; len += 17) {
		size_t n;

		record_fill(record, len);
		n = peer_fpdu(&sender, record, len, expected);
		ASSERT_EQ(len, send(self->fd, record, len, 0));
		ASSERT_EQ(n, read_all(self->peer.fd, self->buf, n));
		ASSERT_EQ(0, memcmp(self->buf, expected, n)) {
			TH_LOG("FPDU of %zu octets", len);
		}
	}
}

TEST_F(peer, rfc_5044_example_fpdus_arrive)
{
	u8 ulpdu[42] = { 0x41, 0x43 };
	u8 fill[482];
	size_t n;

	ulpdu[13] = 1;
	n = peer_fpdu(&self->peer, ulpdu, sizeof(ulpdu), self->fpdu);
	if (variant->to_us) {
		/* Figure 5 begins with the marker. */
		ASSERT_EQ(52, n);
		EXPECT_EQ(0, memcmp(self->fpdu + 48, "\x52\x23\x99\x83", 4));
	}
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	ASSERT_EQ(sizeof(ulpdu), recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(0, memcmp(self->buf, ulpdu, sizeof(ulpdu)));

	/* Figure 6: the second FPDU of a stream, after one of 492 octets. */
	self->peer.tx_position = 0;
	memset(fill, 0, sizeof(fill));
	n = peer_fpdu(&self->peer, fill, sizeof(fill), self->fpdu);
	ulpdu[13] = 2;
	n = peer_fpdu(&self->peer, ulpdu, sizeof(ulpdu), self->fpdu);
	if (variant->to_us) {
		ASSERT_EQ(52, n);
		EXPECT_EQ(0, memcmp(self->fpdu + 48, "\x84\x92\x58\x98", 4));
	}
}

TEST_F_TIMEOUT(peer, fpdu_split_at_every_octet, 120)
{
	size_t n, i;

	for (i = 1; ; i++) {
		n = next_fpdu(&self->peer, 530, self->fpdu);
		if (i == n)
			break;
		ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, i));
		ASSERT_EQ(-1, recv(self->fd, self->buf, BUF, MSG_DONTWAIT));
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_EQ(0, poll_for(self->fd, POLLIN, 0));
		ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu + i, n - i));
		ASSERT_EQ(POLLIN, poll_for(self->fd, POLLIN, 20000));
		ASSERT_EQ(530, recv(self->fd, self->buf, BUF, MSG_DONTWAIT));
		ASSERT_TRUE(record_good(self->buf, 530));
	}
}

TEST_F_TIMEOUT(peer, octet_by_octet, 120)
{
	size_t n = next_fpdu(&self->peer, 1200, self->fpdu), i;

	for (i = 0; i < n; i++)
		ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu + i, 1));
	ASSERT_EQ(1200, recv(self->fd, self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 1200));
}

/*
 * Section 4.4: an FPDU with one wrong bit is not delivered. If the bit is in the
 * length, the peer's next octets are taken as the rest of the FPDU.
 */
TEST_F_TIMEOUT(peer, any_bit_wrong_ends_the_half_connection, 120)
{
	const size_t record = 40;
	unsigned int bit;

	/* The responder uses the same code: test only some of the bits. */
	for (bit = 0; ; bit += variant->initiates ? 1 : 7) {
		struct peer peer = {};
		int fd[2];
		size_t n;

		ASSERT_EQ(0, tcp_pair(AF_INET, fd));
		peer.fd = fd[1];
		ASSERT_EQ(0, peer_initiates(&peer, fd[0], false,
					    variant->to_us ? MPA_START_MARKERS
							   : 0));
		ASSERT_EQ(0, peer_send_record(&peer, 21));
		n = next_fpdu(&peer, record, self->fpdu);
		if (bit < 8 * n) {
			self->fpdu[bit / 8] ^= 0x80 >> bit % 8;
			memset(self->fpdu + n, 0x5a, 66000);
			ASSERT_EQ(0, write_all(peer.fd, self->fpdu, n));
			/* These octets are taken as the rest of the FPDU. */
			shutdown(peer.fd, SHUT_WR);
			EXPECT_EQ(21, recv(fd[0], self->buf, BUF, 0));
			EXPECT_EQ(-1, recv(fd[0], self->buf, BUF, 0)) {
				TH_LOG("bit %u", bit);
			}
			EXPECT_EQ(EBADMSG, errno);
			EXPECT_NE(MPA_ERR_NONE, mpa_info(fd[0]).error);
			EXPECT_EQ(21, mpa_info(fd[0]).rx_octets);
		}
		close(fd[0]);
		close(fd[1]);
		if (bit >= 8 * n)
			break;
	}
}

/* As above, in two segments, cut at any octet. */
TEST_F_TIMEOUT(peer, any_bit_wrong_in_every_segmentation, 240)
{
	const unsigned int flags = variant->to_us ? MPA_START_MARKERS : 0;
	unsigned int bit = variant->initiates;
	size_t n = 1, cut;
	int aside[2];

	ASSERT_EQ(0, tcp_pair(AF_INET, aside));
	/* Each of two variants tests every other bit. */
	for (; bit < 8 * n; bit += 2) {
		for (cut = 1; cut < n || n == 1; cut++) {
			struct peer peer = { .tx_markers = variant->to_us };
			int fd[2];

			ASSERT_EQ(0, tcp_pair(AF_INET, fd));
			peer.fd = fd[1];
			ASSERT_EQ(0, mpa_attach(fd[0]));
			ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_DIRECT, flags));
			n = next_fpdu(&peer, 5, self->fpdu);
			self->fpdu[bit / 8] ^= 0x80 >> bit % 8;
			ASSERT_EQ(0, write_all(peer.fd, self->fpdu, cut));
			ASSERT_TRUE(arrived(fd[0], cut));
			/* Without this write both parts would be contiguous in memory. */
			ASSERT_EQ(1, write(aside[0], "", 1));
			ASSERT_EQ(0, write_all(peer.fd, self->fpdu + cut,
					       n - cut));
			shutdown(peer.fd, SHUT_WR);
			EXPECT_EQ(-1, recv(fd[0], self->buf, BUF, 0)) {
				TH_LOG("bit %u, cut at %zu", bit, cut);
			}
			EXPECT_EQ(EBADMSG, errno);
			EXPECT_EQ(0, mpa_info(fd[0]).rx_octets);
			hang_up(fd[0]);
			hang_up(fd[1]);
		}
	}
	close(aside[0]);
	close(aside[1]);
}

TEST_F(peer, bad_crc_after_good_records)
{
	size_t n;

	ASSERT_EQ(0, peer_send_record(&self->peer, 100));
	ASSERT_EQ(0, peer_send_record(&self->peer, 200));
	n = next_fpdu(&self->peer, 300, self->fpdu);
	self->fpdu[n - 1] ^= 1;
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	ASSERT_EQ(0, peer_send_record(&self->peer, 400));
	EXPECT_EQ(100, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(200, recv(self->fd, self->buf, BUF, 0));
	EXPECT_ENDED(MPA_ERR_CRC);
	EXPECT_STILL_SENDS();
	EXPECT_EQ(2, mpa_info(self->fd).rx_ulpdus);
	EXPECT_EQ(300, mpa_info(self->fd).rx_octets);
}

TEST_F(peer, bad_crc_is_found_with_a_short_buffer)
{
	size_t n = next_fpdu(&self->peer, 3000, self->fpdu);

	self->fpdu[n - 10] ^= 0x10;
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	EXPECT_EQ(-1, recv(self->fd, self->buf, 1, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(-1, recv(self->fd, self->buf, 1, MSG_PEEK));
	EXPECT_EQ(EBADMSG, errno);
}

/* Section 7.1.2 rule 4: a bad first FPDU does not allow the responder to send. */
TEST_F(peer, bad_first_fpdu_does_not_count)
{
	size_t n = next_fpdu(&self->peer, 30, self->fpdu);

	if (!variant->initiates)
		return;
	self->fpdu[n - 1] ^= 1;
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	EXPECT_EQ(-1, send(self->fd, "x", 1, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_NE(0, POLLOUT & poll_for(self->fd, POLLOUT, 0));
	EXPECT_ENDED(MPA_ERR_CRC);
}

/* Section 4.1: only the CRC depends on the pad's content. */
TEST_F(peer, pad_of_any_octets)
{
	size_t n = next_fpdu(&self->peer, 5, self->fpdu);

	self->fpdu[n - 5] = 0xff;
	model_crc(self->fpdu, n - 4, self->fpdu + n - 4);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	EXPECT_EQ(5, recv(self->fd, self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 5));
}

static void recrc(u8 *fpdu, size_t n)
{
	model_crc(fpdu, n - 4, fpdu + n - 4);
}

/* Section 8 code 3: the CRC is good, but the marker is wrong. */
TEST_F(peer, marker_that_disagrees)
{
	size_t n;

	if (!variant->to_us)
		return;
	ASSERT_EQ(0, peer_send_record(&self->peer, 100));
	n = next_fpdu(&self->peer, 900, self->fpdu);
	/* This is the marker at stream position 512. */
	self->fpdu[n - (self->peer.tx_position - 512) + 3] ^= 4;
	recrc(self->fpdu, n);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	EXPECT_EQ(100, recv(self->fd, self->buf, BUF, 0));
	EXPECT_ENDED(MPA_ERR_MARKER);
	EXPECT_STILL_SENDS();
}

/* Section 4.2: the reserved half is ignored, and the two low bits count as zero. */
TEST_F(peer, marker_bits_that_mean_nothing)
{
	size_t n, at;

	if (!variant->to_us)
		return;
	ASSERT_EQ(0, peer_send_record(&self->peer, 100));
	n = next_fpdu(&self->peer, 900, self->fpdu);
	at = n - (self->peer.tx_position - 512);
	self->fpdu[at] = 0xff;
	self->fpdu[at + 1] = 0xff;
	self->fpdu[at + 3] |= 3;
	recrc(self->fpdu, n);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	EXPECT_EQ(100, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(900, recv(self->fd, self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 900));
}

TEST_F(peer, markers_missing)
{
	struct peer other = self->peer;
	size_t n;

	if (!variant->to_us)
		return;
	other.tx_markers = false;
	n = next_fpdu(&other, 600, self->fpdu);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	shutdown(self->peer.fd, SHUT_WR);
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
}

/* Start with MPA_ROLE_DIRECT; fd[0] receives. */
static int direct_pair(int fd[2], struct peer *peer, unsigned int flags)
{
	*peer = (struct peer){ .tx_markers = flags & MPA_START_MARKERS };
	if (tcp_pair(AF_INET, fd) || mpa_attach(fd[0]))
		return -1;
	peer->fd = fd[1];
	return mpa_start(fd[0], MPA_ROLE_DIRECT, flags);
}

/* The marker points before the stream, after the FPDU, or into it, but not to its start. */
TEST_F(peer, marker_that_points_anywhere)
{
	static const u16 values[] = {
		0, 4, 8, 400, 408, 412, 416, 508, 512, 1000, 32768, 65532,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		struct peer peer;
		size_t n, at;
		u16 right;
		int fd[2];

		ASSERT_EQ(0, direct_pair(fd, &peer, MPA_START_MARKERS));
		ASSERT_EQ(0, peer_send_record(&peer, 90));
		n = next_fpdu(&peer, 900, self->fpdu);
		at = n - (peer.tx_position - 512);
		right = self->fpdu[at + 2] << 8 | self->fpdu[at + 3];
		self->fpdu[at + 2] = values[i] >> 8;
		self->fpdu[at + 3] = values[i];
		recrc(self->fpdu, n);
		ASSERT_EQ(0, write_all(peer.fd, self->fpdu, n));
		EXPECT_EQ(90, recv(fd[0], self->buf, BUF, 0));
		if (values[i] == right) {
			EXPECT_EQ(900, recv(fd[0], self->buf, BUF, 0));
		} else {
			EXPECT_EQ(-1, recv(fd[0], self->buf, BUF, 0)) {
				TH_LOG("%u instead of %u", values[i], right);
			}
			EXPECT_EQ(EBADMSG, errno);
			EXPECT_EQ(MPA_ERR_MARKER, mpa_info(fd[0]).error);
		}
		close(fd[0]);
		close(fd[1]);
	}
}

/* The marker is one or four octets too early or too late. */
TEST_F(peer, marker_early_or_late)
{
	static const int shifts[] = { -4, -1, 1, 4 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(shifts); i++) {
		int fd[2], shift = shifts[i];
		struct peer peer;
		u8 marker[4];
		size_t n, at;

		ASSERT_EQ(0, direct_pair(fd, &peer, MPA_START_MARKERS));
		n = next_fpdu(&peer, 900, self->fpdu);
		at = 512;
		memcpy(marker, self->fpdu + at, 4);
		if (shift < 0)
			memmove(self->fpdu + at + shift + 4,
				self->fpdu + at + shift, -shift);
		else
			memmove(self->fpdu + at, self->fpdu + at + 4, shift);
		memcpy(self->fpdu + at + shift, marker, 4);
		recrc(self->fpdu, n);
		ASSERT_EQ(0, write_all(peer.fd, self->fpdu, n));
		EXPECT_EQ(-1, recv(fd[0], self->buf, BUF, 0)) {
			TH_LOG("shifted by %d", shift);
		}
		EXPECT_EQ(EBADMSG, errno);
		EXPECT_EQ(MPA_ERR_MARKER, mpa_info(fd[0]).error);
		close(fd[0]);
		close(fd[1]);
	}
}

TEST_F(peer, markers_not_asked_for)
{
	struct peer peer;
	int fd[2];
	size_t n;

	ASSERT_EQ(0, direct_pair(fd, &peer, 0));
	peer.tx_markers = true;
	n = next_fpdu(&peer, 600, self->fpdu);
	ASSERT_EQ(0, write_all(peer.fd, self->fpdu, n));
	shutdown(peer.fd, SHUT_WR);
	EXPECT_EQ(-1, recv(fd[0], self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(0, mpa_info(fd[0]).rx_octets);
	close(fd[0]);
	close(fd[1]);
}

/* Section 4.4: without CRCs, only lengths and markers are checked. */
TEST_F(peer, wrong_octets_without_crc)
{
	struct peer peer;
	int fd[2], i;
	size_t n;

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, sysctl_put("crc_optional", 1));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, direct_pair(fd, &peer, MPA_START_NO_CRC |
					 MPA_START_MARKERS));
		n = next_fpdu(&peer, 900, self->fpdu);
		self->fpdu[i ? 515 : 600] ^= 0x10;
		ASSERT_EQ(0, write_all(peer.fd, self->fpdu, n));
		errno = 0;
		EXPECT_EQ(i ? -1 : 900, recv(fd[0], self->buf, BUF, 0));
		EXPECT_EQ(i ? EBADMSG : 0, errno);
		EXPECT_TRUE(i || !record_good(self->buf, 900));
		EXPECT_EQ(i ? MPA_ERR_MARKER : MPA_ERR_NONE,
			  mpa_info(fd[0]).error);
		close(fd[0]);
		close(fd[1]);
	}
}

TEST_F_TIMEOUT(peer, stream_that_stops_anywhere, 120)
{
	unsigned int flags = variant->to_us ? MPA_START_MARKERS : 0;
	size_t first, all = 1, cut;

	if (!variant->initiates)
		return;
	for (cut = 0; cut <= all; cut += cut % 50 == 9 ? 13 : 1) {
		struct peer peer;
		int fd[2];

		ASSERT_EQ(0, direct_pair(fd, &peer, flags));
		first = next_fpdu(&peer, 33, self->fpdu);
		all = first + next_fpdu(&peer, 600, self->fpdu + first);
		ASSERT_EQ(0, write_all(peer.fd, self->fpdu, cut));
		shutdown(peer.fd, SHUT_WR);
		if (cut >= first)
			ASSERT_EQ(33, recv(fd[0], self->buf, BUF, 0));
		if (cut == all)
			ASSERT_EQ(600, recv(fd[0], self->buf, BUF, 0));
		if (!cut || cut == first || cut == all) {
			ASSERT_EQ(0, recv(fd[0], self->buf, BUF, 0));
			ASSERT_EQ(MPA_ERR_TCP, mpa_info(fd[0]).error);
		} else {
			ASSERT_EQ(-1, recv(fd[0], self->buf, BUF, 0)) {
				TH_LOG("after %zu octets", cut);
			}
			ASSERT_EQ(EBADMSG, errno);
			ASSERT_EQ(MPA_ERR_TCP, mpa_info(fd[0]).error);
		}
		close(fd[0]);
		close(fd[1]);
	}
}

/* Section 3: "any size between one and 64768 octets". */
TEST_F(peer, length_that_no_ulpdu_has)
{
	static const u16 lengths[] = { 0, MPA_ULPDU_MAX + 1, 65535 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t at = variant->to_us ? 4 : 0;
		struct peer peer = {};
		u8 octets[12] = {};
		int fd[2];

		ASSERT_EQ(0, tcp_pair(AF_INET, fd));
		peer.fd = fd[1];
		ASSERT_EQ(0, peer_initiates(&peer, fd[0], false,
					    variant->to_us ? MPA_START_MARKERS
							   : 0));
		octets[at] = lengths[i] >> 8;
		octets[at + 1] = lengths[i];
		ASSERT_EQ(0, write_all(peer.fd, octets, sizeof(octets)));
		EXPECT_EQ(-1, recv(fd[0], self->buf, BUF, 0));
		EXPECT_EQ(EBADMSG, errno) {
			TH_LOG("length %u", lengths[i]);
		}
		EXPECT_EQ(MPA_ERR_CRC, mpa_info(fd[0]).error);
		close(fd[0]);
		close(fd[1]);
	}
}

/* Section 8 code 1. */
TEST_F(peer, end_of_stream_inside_an_fpdu)
{
	size_t n;

	ASSERT_EQ(0, peer_send_record(&self->peer, 100));
	n = next_fpdu(&self->peer, 100, self->fpdu);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n - 1));
	shutdown(self->peer.fd, SHUT_WR);
	EXPECT_EQ(100, recv(self->fd, self->buf, BUF, 0));
	EXPECT_ENDED(MPA_ERR_TCP);
	EXPECT_STILL_SENDS();
}

TEST_F(peer, urgent_octet_is_an_octet_like_any_other)
{
	size_t n = next_fpdu(&self->peer, 1000, self->fpdu);

	ASSERT_EQ(500, send(self->peer.fd, self->fpdu, 500, MSG_OOB));
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu + 500, n - 500));
	EXPECT_EQ(1000, recv(self->fd, self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 1000));
	ASSERT_EQ(0, peer_send_record(&self->peer, 10));
	EXPECT_EQ(10, recv(self->fd, self->buf, BUF, 0));
}

TEST_F_TIMEOUT(peer, random_octets, 120)
{
	unsigned int seed, i;

	for (seed = 0; seed < 100; seed++) {
		struct peer peer = {};
		int fd[2];

		ASSERT_EQ(0, tcp_pair(AF_INET, fd));
		peer.fd = fd[1];
		ASSERT_EQ(0, peer_initiates(&peer, fd[0], false,
					    variant->to_us ? MPA_START_MARKERS
							   : 0));
		srand(seed);
		for (i = 0; i < 3000; i++)
			self->buf[i] = rand() >> 8;
		/* Use a short length, so that there is something to check. */
		if (seed & 1)
			self->buf[variant->to_us ? 4 : 0] = 0;
		ASSERT_EQ(0, write_all(peer.fd, self->buf, 3000));
		shutdown(peer.fd, SHUT_WR);
		EXPECT_EQ(-1, recv(fd[0], self->buf, BUF, 0));
		EXPECT_EQ(EBADMSG, errno) {
			TH_LOG("seed %u", seed);
		}
		EXPECT_EQ(0, mpa_info(fd[0]).rx_octets);
		close(fd[0]);
		close(fd[1]);
	}
}

/* Change a bit, insert or remove an octet, cut the stream, or change nothing. */
static size_t mutate(u8 *stream, size_t len)
{
	size_t at = rand() % len;

	switch (rand() % 4) {
	case 0:
		stream[at] ^= 1 << rand() % 8;
		break;
	case 1:
		memmove(stream + at + 1, stream + at, len - at);
		stream[at] = rand() >> 8;
		len++;
		break;
	case 2:
		memmove(stream + at, stream + at + 1, len - at - 1);
		len--;
		break;
	default:
		if (rand() % 8 == 0)
			len = at;
	}
	return len;
}

/*
 * From a damaged stream only a prefix of the sent records is read. 100 000 streams with
 * MPA_LONG in the environment.
 */
TEST_F_TIMEOUT(peer, mutated_streams, 3600)
{
	unsigned int flags = variant->to_us ? MPA_START_MARKERS : 0, seed, i;
	const unsigned int streams = getenv("MPA_LONG") ? 25000 : 250;

	for (seed = 0; seed < streams; seed++) {
		size_t lens[4], len = 0, at = 0, room;
		struct peer peer;
		int fd[2], k = 0;
		ssize_t n;

		srand(seed * 4 + variant->to_us * 2 + variant->initiates);
		ASSERT_EQ(0, direct_pair(fd, &peer, flags));
		for (i = 0; i < 4; i++) {
			lens[i] = 1 + rand() % (rand() % 3 ? 50 : 1500);
			len += next_fpdu(&peer, lens[i], self->fpdu + len);
		}
		for (i = rand() % 3; i && len; i--)
			len = mutate(self->fpdu, len);
		ASSERT_EQ(0, write_all(peer.fd, self->fpdu, len));
		shutdown(peer.fd, SHUT_WR);

		room = rand() % 2 ? BUF : 1 + rand() % 200;
		while ((n = recv(fd[0], self->buf + at, room, 0)) > 0) {
			at += n;
			ASSERT_LT(k, 4);
			ASSERT_GE(lens[k], at);
			if (at < lens[k])
				continue;
			ASSERT_TRUE(record_good(self->buf, at)) {
				TH_LOG("seed %u, record %d", seed, k);
			}
			k++;
			at = 0;
		}
		ASSERT_EQ(0, at);
		ASSERT_EQ(n ? EBADMSG : 0, n ? errno : 0);
		/* A regular end of stream has a code, too. */
		ASSERT_NE(MPA_ERR_NONE, mpa_info(fd[0]).error);
		ASSERT_TRUE(n || mpa_info(fd[0]).error == MPA_ERR_TCP);
		ASSERT_EQ(k, mpa_info(fd[0]).rx_ulpdus);
		hang_up(fd[0]);
		hang_up(fd[1]);
	}
}

TEST_F(peer, reset_after_whole_records)
{
	struct linger reset = { .l_onoff = 1 };

	ASSERT_EQ(0, peer_send_record(&self->peer, 100));
	ASSERT_EQ(POLLIN, poll_for(self->fd, POLLIN, 20000));
	setsockopt(self->peer.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(self->peer.fd);
	self->peer.fd = -1;
	ASSERT_NE(0, POLLHUP & poll_for(self->fd, POLLHUP, 20000));
	EXPECT_EQ(100, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(ECONNRESET, errno);
	EXPECT_EQ(-1, send(self->fd, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
}

/* Section 8 code 1 "includes lost by ... RST received". */
TEST_F(peer, reset_inside_an_fpdu)
{
	size_t n = next_fpdu(&self->peer, 100, self->fpdu);
	struct linger reset = { .l_onoff = 1 };

	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n - 1));
	setsockopt(self->peer.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(self->peer.fd);
	self->peer.fd = -1;
	ASSERT_NE(0, POLLHUP & poll_for(self->fd, POLLHUP, 20000));
	EXPECT_EQ(ECONNRESET, so_error(self->fd));
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);
}

TEST_HARNESS_MAIN
