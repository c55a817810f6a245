// SPDX-License-Identifier: GPL-2.0
/*
 * MPA_PLACE: records after a gap are delivered at once (RFC 5044 sections 3, 6, 8 and
 * appendix A.3).
 */

#include <poll.h>
#include <sys/epoll.h>

#include "mpa_harness.h"
#include "mpa_place.h"

TEST_F(place, records_after_a_lost_one_come_at_once)
{
	unsigned int i;

	stream_add_many(self, 1400, 10);
	for (i = 1; i < 5; i++) {
		COME(i, i + 1);
		PLACED(i);
		EXPECT_EQ(0, self->got->info.edge);
	}
	NOTHING();
	EXPECT_EQ(4, mpa_info(self->fd).rx_placed);
	EXPECT_EQ(0, mpa_info(self->fd).rx_edge);
	COME(0, 1);
	ORDERED(0);
	NOTHING();
	EXPECT_EQ(self->start[5], mpa_info(self->fd).rx_edge);
	COME(5, 6);
	ORDERED(5);
	COME(7, 9);
	PLACED(7);
	EXPECT_EQ(self->start[6], self->got->info.edge);
	COME(6, 7);
	ORDERED(6);
	ORDERED(8);
	COME(9, 10);
	ORDERED(9);
	EXPECT_EQ(10, mpa_info(self->fd).rx_ulpdus);
	EXPECT_EQ(14000, mpa_info(self->fd).rx_octets);
	EXPECT_EQ(5, mpa_info(self->fd).rx_placed);
	EXPECT_EQ(stream_end(self), mpa_info(self->fd).rx_edge);
}

/* Records in order come first, then records out of order, the lowest first. */
TEST_F(place, order_comes_first)
{
	stream_add_many(self, 1000, 8);
	COME(6, 7);
	COME(4, 5);
	COME(2, 3);
	usleep(20000);
	COME(0, 1);
	ORDERED(0);
	PLACED(2);
	PLACED(4);
	COME(1, 2);
	ORDERED(1);
	PLACED(6);
	COME(3, 4);
	ORDERED(3);
	COME(5, 6);
	ORDERED(5);
	COME(7, 8);
	ORDERED(7);
}

/* A record arrives in segments of any length. */
TEST_F_TIMEOUT(place, records_cut_anywhere, 300)
{
	unsigned int i;
	u32 cut, at;

	for (cut = 1; cut < 1100; cut += cut < 20 ? 1 : 37) {
		i = self->records;
		stream_add_many(self, 700, 1);
		stream_add_many(self, 600, 3);
		at = self->start[i + 1];
		/* A record of 600 octets has a marker. */
		ASSERT_EQ(0, come_cut(self, at, self->start[i + 3], cut));
		ASSERT_TRUE(gives(self, i + 1, true)) {
			TH_LOG("in steps of %u", cut);
		}
		ASSERT_TRUE(gives(self, i + 2, true));
		COME(i, i + 1);
		ORDERED(i);
		COME(i + 3, i + 4);
		ORDERED(i + 3);
	}
}

/* Append a record whose FPDU ends @behind octets after a marker's place. */
static void stream_add_up_to(struct _test_data_place *self, u32 behind)
{
	const struct peer peer = self->peer;
	u32 len = 0;

	do {
		self->peer = peer;
		stream_add(self, ++len);
		self->records--;
	} while (self->start[self->records + 1] % 512 != behind);
	self->records++;
}

/* Records begin at every distance from a marker. */
TEST_F_TIMEOUT(place, records_beside_markers, 300)
{
	unsigned int i;
	u32 at;

	for (at = 0; at < 512; at += 4) {
		/* No FPDU ends with a marker. */
		if (at == 4)
			continue;
		i = self->records;
		stream_add_up_to(self, at);
		stream_add(self, 1100);
		stream_add(self, 510);
		/* The search reads markers before the record is complete. */
		ASSERT_EQ(0, come(self, self->start[i + 1],
				  self->start[i + 1] + 700));
		ASSERT_EQ(0, come(self, self->start[i + 1] + 700,
				  self->start[i + 3]));
		ASSERT_TRUE(gives(self, i + 1, true)) {
			TH_LOG("at %u", at);
		}
		PLACED(i + 2);
		COME(i, i + 1);
		ORDERED(i);
	}
}

/* RFC 5044 section 6: no marker points to records before the first marker. */
TEST_F(place, short_records_before_the_first_marker_wait)
{
	unsigned int i, first;

	stream_add(self, 400);
	for (i = 1; i < 40; i++)
		stream_add(self, 50 + i);
	COME(1, 40);
	/* Find the record that contains the first marker. */
	for (first = 1; self->start[first + 1] <= 512; first++)
		;
	ASSERT_LT(1, first);
	for (i = first; i < 40; i++)
		PLACED(i);
	NOTHING();
	COME(0, 1);
	for (i = 0; i < first; i++)
		ORDERED(i);
	NOTHING();
	EXPECT_EQ(40, mpa_info(self->fd).rx_ulpdus);
}

TEST_F_TIMEOUT(place, large_records, 300)
{
	stream_add(self, 64768);
	stream_add(self, 64768);
	stream_add(self, 3000);
	stream_add(self, 64000);
	/* The records in the middle are missing. */
	ASSERT_EQ(0, come(self, 0, 20000));
	ASSERT_EQ(0, come(self, 22000, self->start[1] + 30000));
	ASSERT_EQ(0, come(self, self->start[1] + 31000, stream_end(self)));
	PLACED(2);
	PLACED(3);
	NOTHING();
	ASSERT_EQ(0, come(self, self->start[1] + 30000, self->start[1] + 31000));
	PLACED(1);
	NOTHING();
	ASSERT_EQ(0, come(self, 20000, 22000));
	ORDERED(0);
	NOTHING();
}

/*
 * An FPDU has its only marker in two adjacent islands. TCP, which remembers four, has
 * forgotten one.
 */
TEST_F(place, marker_in_two_islands)
{
	const u32 marker = 4 * 512;
	unsigned int at, i;

	stream_add_many(self, 400, 60);
	for (at = 0; self->start[at + 1] <= marker; at++)
		;
	ASSERT_GT(marker, self->start[at]);
	ASSERT_EQ(0, come(self, marker + 2, self->start[at + 1]));
	for (i = 0; i < 6; i++)
		COME(at + 10 + 3 * i, at + 11 + 3 * i);
	usleep(20000);
	ASSERT_EQ(0, come(self, self->start[at], marker + 2));
	PLACED(at);
	/* As above, with a new island after it. */
	ASSERT_EQ(0, come(self, self->start[at + 1], marker + 512 + 1));
	for (i = 6; i < 12; i++)
		COME(at + 10 + 3 * i, at + 11 + 3 * i);
	usleep(20000);
	ASSERT_EQ(0, come(self, marker + 512 + 1, self->start[at + 2]));
	PLACED(at + 1);
}

/* A search that stops at an FPDU's end continues after it. */
TEST_F_TIMEOUT(place, maximum_of_pieces_inspected, 120)
{
	unsigned int pieces;
	u32 base, at;

	for (pieces = 120; pieces < 136; pieces++) {
		base = self->records;
		stream_add_many(self, 600, 2);
		/* One record arrives in @pieces pieces, and one has no marker. */
		stream_add(self, pieces - 6);
		stream_add(self, 2);
		COME(base + 1, base + 2);
		PLACED(base + 1);
		COME(base + 3, base + 4);
		usleep(2000);
		for (at = self->start[base + 3]; at > self->start[base + 2]; at--)
			ASSERT_EQ(0, forge(&self->forger, at - 1,
					   self->stream + at - 1, 1, 0, 0));
		ASSERT_TRUE(gives(self, base + 2, true)) {
			TH_LOG("in %u pieces", pieces);
		}
		PLACED(base + 3);
		COME(base, base + 1);
		ORDERED(base);
		NOTHING();
	}
}

/* After the connection has ended there is no search. */
TEST_F(place, option_after_a_reset)
{
	ASSERT_EQ(0, set_int(self->fd, MPA_PLACE, 0));
	stream_add_many(self, 1000, 4);
	COME(1, 3);
	ASSERT_EQ(0, forge(&self->forger, 0, self->stream, 0,
			   TCP_FLAG_BITS_RST, 0));
	ASSERT_TRUE(poll_for(self->fd, POLLERR, 5000));
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(ECONNRESET, errno);
	set_int(self->fd, MPA_PLACE, 1);
	usleep(20000);
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(ENOTCONN, errno);
}

/* A gap closes from its end, by segments of one octet. */
TEST_F(place, gap_closes_from_its_end)
{
	u32 at;

	stream_add_many(self, 900, 4);
	COME(2, 3);
	PLACED(2);
	for (at = self->start[2]; at > self->start[1]; at--)
		ASSERT_EQ(0, come(self, at - 1, at));
	PLACED(1);
	NOTHING();
	COME(3, 4);
	PLACED(3);
	COME(0, 1);
	ORDERED(0);
	NOTHING();
}

/* There are more gaps than the limit: further records wait for order, or for a free entry. */
TEST_F_TIMEOUT(place, more_gaps_than_there_may_be, 300)
{
	const unsigned int n = MPA_PLACE_MAX + 50;
	unsigned int i;

	stream_add_many(self, 600, 2 * n + 1);
	for (i = 0; i < n; i++)
		COME(2 * i + 1, 2 * i + 2);
	for (i = 0; i < MPA_PLACE_MAX; i++)
		PLACED(2 * i + 1);
	NOTHING();
	/* Two entries are free again. */
	COME(0, 1);
	ORDERED(0);
	PLACED(2 * MPA_PLACE_MAX + 1);
	NOTHING();
	for (i = 2; i < 2 * n; i += 2) {
		COME(i, i + 1);
		ORDERED(i);
		if (i < 2 * 50)
			PLACED(2 * MPA_PLACE_MAX + 1 + i);
	}
	COME(2 * n, 2 * n + 1);
	ORDERED(2 * n);
	EXPECT_EQ(n, mpa_info(self->fd).rx_placed);
}

TEST_F(place, one_that_the_buffer_is_too_short_for_waits)
{
	stream_add_many(self, 1000, 2);
	stream_add(self, 200);
	stream_add_many(self, 1000, 2);
	COME(1, 4);
	ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
	ASSERT_EQ(1000, inq(self->fd));
	/* Only the record of 200 octets fits. */
	ASSERT_EQ(200, receive(self->fd, self->buf, 300, 0, self->got));
	EXPECT_EQ(self->start[2], self->got->info.position);
	PLACED(3);
	NOTHING();
	COME(4, 5);
	PLACED(4);
	COME(0, 1);
	ORDERED(0);
	ASSERT_EQ(300, receive(self->fd, self->buf, 300, 0, self->got));
	EXPECT_EQ(1, self->got->info.order);
	EXPECT_EQ(0, self->got->info.flags);
	ASSERT_EQ(700, receive(self->fd, self->buf, 2000, 0, self->got));
	EXPECT_EQ(300, self->got->info.offset);
	NOTHING();
	EXPECT_EQ(5, mpa_info(self->fd).rx_ulpdus);
}

/* The buffer was too short for two records: both wait. */
TEST_F(place, two_that_the_buffer_is_too_short_for_wait)
{
	stream_add(self, 600);
	stream_add_many(self, 1000, 2);
	stream_add(self, 600);
	COME(2, 3);
	EXPECT_EQ(-1, RECEIVE(300, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	COME(1, 2);
	EXPECT_EQ(-1, RECEIVE(300, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	NOTHING();
	COME(3, 4);
	PLACED(3);
	NOTHING();
	COME(0, 1);
	ORDERED(0);
	ORDERED(1);
	ORDERED(2);
	NOTHING();
}

TEST_F(place, peek_and_trunc)
{
	stream_add_many(self, 1000, 4);
	COME(1, 4);
	ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
	EXPECT_EQ(100, RECEIVE(100, MSG_PEEK));
	EXPECT_TRUE(!memcmp(self->buf, record_of(1000), 100));
	EXPECT_EQ(0, self->got->msg_flags & MSG_EOR);
	EXPECT_EQ(MPA_RECVINFO_PLACED, self->got->info.flags);
	EXPECT_EQ(1000, RECEIVE(0, MSG_PEEK | MSG_TRUNC));
	EXPECT_EQ(0, RECEIVE(0, 0));
	EXPECT_EQ(1000, RECEIVE(2000, MSG_PEEK));
	PLACED(1);
	EXPECT_EQ(1000, RECEIVE(2000, MSG_TRUNC));
	EXPECT_EQ(self->start[2], self->got->info.position);
	PLACED(3);
	NOTHING();
}

TEST_F(place, batch_of_contiguous_records)
{
	stream_add_many(self, 1000, 12);
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	COME(1, 4);
	COME(5, 6);
	/* The first segment after a gap is searched by the work item, maybe later. */
	do {
		ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
		ASSERT_EQ(1000, RECEIVE(BUF, MSG_PEEK));
	} while (self->got->info.position != self->start[1]);
	ASSERT_EQ(3000, RECEIVE(BUF, 0));
	EXPECT_BATCH(1000, 1000, 1000);
	EXPECT_EQ(self->start[1], self->got->info.position);
	ASSERT_EQ(1000, RECEIVE(BUF, 0));
	EXPECT_EQ(self->start[5], self->got->info.position);
	COME(0, 1);
	COME(4, 5);
	COME(6, 8);
	/* A batch in order ends before a delivered record. */
	ASSERT_EQ(1000, RECEIVE(BUF, 0));
	EXPECT_BATCH(1000);
	EXPECT_EQ(0, self->got->info.order);
	ASSERT_EQ(1000, RECEIVE(BUF, 0));
	EXPECT_EQ(4, self->got->info.order);
	ASSERT_EQ(2000, RECEIVE(BUF, 0));
	EXPECT_BATCH(1000, 1000);
	EXPECT_EQ(6, self->got->info.order);
	NOTHING();
	COME(9, 12);
	ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
	/* Two records fit. */
	ASSERT_EQ(2000, RECEIVE(2500, 0));
	EXPECT_BATCH(1000, 1000);
	ASSERT_EQ(1000, RECEIVE(2500, 0));
	NOTHING();
}

/* Each readable record causes an edge. */
TEST_F(place, edge_triggered_readers)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(0);
	unsigned int i;

	stream_add_many(self, 1400, 8);
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->fd, &event));
	EXPECT_EQ(0, epoll_wait(epoll, &event, 1, 0));
	for (i = 1; i < 8; i++) {
		COME(i, i + 1);
		ASSERT_EQ(1, epoll_wait(epoll, &event, 1, 5000));
		/* The first record is not read; each later one causes an edge nevertheless. */
		if (i > 1)
			ASSERT_TRUE(gives(self, i - 1, true));
		/* Skip earlier edges. */
		while (epoll_wait(epoll, &event, 1, 10) == 1)
			;
	}
	close(epoll);
}

TEST_F(place, option_off_and_on)
{
	stream_add_many(self, 1400, 10);
	COME(1, 3);
	PLACED(1);
	ASSERT_EQ(0, set_int(self->fd, MPA_PLACE, 0));
	EXPECT_EQ(0, get_int(self->fd, MPA_PLACE));
	NOTHING();
	COME(3, 4);
	NOTHING();
	ASSERT_EQ(0, set_int(self->fd, MPA_PLACE, 1));
	PLACED(2);
	PLACED(3);
	ASSERT_EQ(0, set_int(self->fd, MPA_PLACE, 0));
	COME(0, 1);
	ORDERED(0);
	NOTHING();
	COME(4, 5);
	ORDERED(4);
}

TEST_F(place, option_needs_markers_and_crcs)
{
	int fd[2], other[2];
	struct peer peer;

	EXPECT_EQ(EINVAL, set_int(self->fd, MPA_PLACE, 2));
	EXPECT_EQ(1, get_int(self->fd, MPA_PLACE));
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	ASSERT_EQ(0, mpa_attach(fd[0]));
	EXPECT_EQ(EINVAL, set_int(fd[0], MPA_PLACE, 1));
	ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_DIRECT, 0));
	EXPECT_EQ(EINVAL, set_int(fd[0], MPA_PLACE, 1));
	EXPECT_EQ(0, set_int(fd[0], MPA_PLACE, 0));

	ASSERT_EQ(0, sysctl_put("crc_optional", 1));
	ASSERT_EQ(0, tcp_pair(AF_INET, other));
	ASSERT_EQ(0, receive_directly(other[0], &peer, other[1],
				      MPA_START_MARKERS | MPA_START_NO_CRC));
	EXPECT_EQ(EINVAL, set_int(other[0], MPA_PLACE, 1));
	hang_up(fd[0]);
	hang_up(fd[1]);
	hang_up(other[0]);
	hang_up(other[1]);
}

/* Set MPA_PLACE before Full Operation, once it is certain that markers will be received. */
TEST_F(place, option_before_full_operation)
{
	int fd[2];

	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	ASSERT_EQ(0, mpa_attach(fd[0]));
	ASSERT_EQ(0, mpa_attach(fd[1]));
	ASSERT_EQ(0, mpa_start(fd[1], MPA_ROLE_RESPONDER, MPA_START_MARKERS));
	EXPECT_EQ(0, set_int(fd[1], MPA_PLACE, 1));
	ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(EINVAL, set_int(fd[0], MPA_PLACE, 1));
	EXPECT_TRUE(record_goes(fd[0], fd[1], 3000));
	EXPECT_EQ(1, get_int(fd[1], MPA_PLACE));
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* ---- errors ---- */

TEST_F(place, bad_crc_decides_nothing)
{
	stream_add_many(self, 1000, 8);
	self->stream[self->start[4] + 100] ^= 1;
	COME(2, 6);
	PLACED(2);
	PLACED(3);
	NOTHING();
	/* Nor is a record found in a later island. */
	COME(7, 8);
	NOTHING();
	EXPECT_EQ(MPA_ERR_NONE, mpa_info(self->fd).error);
	COME(0, 2);
	ORDERED(0);
	ORDERED(1);
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(MPA_ERR_CRC, mpa_info(self->fd).error);
}

/* Records after a bad FPDU may be found before it arrives, or arrive later. */
TEST_F(place, bad_crc_before_what_was_found)
{
	stream_add_many(self, 1000, 10);
	self->stream[self->start[4] + 100] ^= 1;
	COME(7, 8);
	ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
	COME(4, 5);
	usleep(20000);
	NOTHING();
	COME(2, 4);
	PLACED(2);
	PLACED(3);
	NOTHING();
	EXPECT_EQ(MPA_ERR_NONE, mpa_info(self->fd).error);
}

/* A segment has octets of a ULPDU that look like an FPDU with a good CRC. */
TEST_F(place, fpdu_in_a_record_is_none)
{
	struct peer inner = { .tx_markers = true, .tx_position = 1100 };
	static u8 record[20000], fpdu[512];
	u32 at = inner.tx_position, n = next_fpdu(&inner, 300, fpdu);

	stream_add(self, 100);
	record_fill(record, sizeof(record));
	/* ULPDU_Length and two markers precede it, and it contains no marker. */
	memcpy(record + at - self->start[1] - 2 - 2 * 4, fpdu, n);
	stream_add_octets(self, record, sizeof(record));
	stream_add(self, 700);
	ASSERT_EQ(0, memcmp(self->stream + at, fpdu, n));
	ASSERT_EQ(0, come(self, at, at + n));
	NOTHING();
	ASSERT_EQ(0, come(self, at, stream_end(self)));
	PLACED(2);
	NOTHING();
	ASSERT_EQ(0, come(self, 0, at));
	ORDERED(0);
	ASSERT_TRUE(gives_octets(self, 1, record, false));
	NOTHING();
}

/* The FIN is before a delivered record's octets. */
TEST_F(place, end_of_stream_before_a_placed_record)
{
	stream_add_many(self, 1000, 3);
	COME(2, 3);
	PLACED(2);
	COME(0, 1);
	ORDERED(0);
	ASSERT_EQ(0, forge(&self->forger, self->start[1], self->stream, 0,
			   TCP_FLAG_BITS_FIN, 0));
	ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);
}

TEST_F(place, end_of_stream_out_of_order)
{
	stream_add_many(self, 1000, 4);
	ASSERT_EQ(0, forge(&self->forger, self->start[3],
			   self->stream + self->start[3],
			   self->start[4] - self->start[3], TCP_FLAG_BITS_FIN,
			   0));
	PLACED(3);
	COME(1, 2);
	PLACED(1);
	NOTHING();
	COME(2, 3);
	PLACED(2);
	COME(0, 1);
	ORDERED(0);
	ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
	EXPECT_EQ(0, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(0, recv(self->fd, self->buf, BUF, 0));
}

/*
 * Append two FPDUs with good CRCs. The first ends 40 octets into the second, before the
 * second's marker: the first's CRC is in the second's ULPDU.
 */
static void add_overlap(struct _test_data_place *self, u8 record[1000])
{
	u32 from = stream_end(self), end = from + 640;
	u32 len = 640 - 2 - 4 * (from ? 1 : 2) - 4;
	u8 fpdu[640], ulpdu[640], *tail = ulpdu + len - 36;
	struct peer peer = self->peer;

	record_fill(record, 1000);
	record_fill(ulpdu, len);
	tail[0] = 1000 >> 8;
	tail[1] = 1000 & 0xff;
	memcpy(tail + 2, record, 34);
	peer_fpdu(&peer, ulpdu, len, fpdu);
	memcpy(record + 34, fpdu + 636, 4);
	/* No FPDU follows the first. */
	memset(record + 38, 0, 2);

	memcpy(self->stream + from, fpdu, 600);
	self->start[++self->records] = end - 40;
	self->peer.tx_position = end - 40;
	stream_add_octets(self, record, 1000);
	if (memcmp(self->stream + from, fpdu, 640))
		printf("# the octets of both do not agree\n");
}

#define UNTOUCHED	0xa5

/* Check that receiving fails with RFC 5044 section 8 code 3, and that no octet is delivered. */
#define DISAGREES() do {						\
	ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));			\
	memset(self->buf, UNTOUCHED, 4000);				\
	EXPECT_EQ(-1, recv(self->fd, self->buf, 4000, 0));		\
	EXPECT_EQ(EBADMSG, errno);					\
	EXPECT_EQ(UNTOUCHED, self->buf[0]);				\
	EXPECT_EQ(0, memcmp(self->buf, self->buf + 1, 3999));		\
	EXPECT_EQ(MPA_ERR_MARKER, mpa_info(self->fd).error);		\
	EXPECT_EQ(-1, recv(self->fd, self->buf, 4000, 0));		\
	EXPECT_EQ(EBADMSG, errno);					\
} while (0)

/* A record was delivered out of order, but no record in order begins there. */
TEST_F(place, order_disagrees)
{
	u8 record[1000];

	add_overlap(self, record);
	COME(1, 2);
	ASSERT_TRUE(gives_octets(self, 1, record, true));
	COME(0, 1);
	DISAGREES();
	EXPECT_EQ(1, mpa_info(self->fd).rx_ulpdus);
}

TEST_F(place, order_disagrees_in_a_batch)
{
	u8 record[1000];

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	stream_add(self, 100);
	add_overlap(self, record);
	COME(2, 3);
	ASSERT_TRUE(gives_octets(self, 2, record, true));
	COME(0, 2);
	ASSERT_EQ(100, RECEIVE(4000, 0));
	EXPECT_BATCH(100);
	DISAGREES();
}

/* A record out of order that is still unread has no effect: the order decides. */
TEST_F(place, order_overlaps_an_unread_record)
{
	u8 record[1000];

	add_overlap(self, record);
	COME(1, 2);
	ASSERT_EQ(1000, RECEIVE(BUF, MSG_PEEK));
	EXPECT_EQ(MPA_RECVINFO_LAST | MPA_RECVINFO_PLACED,
		  self->got->info.flags);
	COME(0, 1);
	ASSERT_EQ(626, RECEIVE(BUF, 0));
	EXPECT_EQ(MPA_RECVINFO_LAST, self->got->info.flags);
	EXPECT_EQ(0, self->got->info.order);
	/* No record follows. */
	ASSERT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(1, mpa_info(self->fd).rx_ulpdus);
}

TEST_HARNESS_MAIN
