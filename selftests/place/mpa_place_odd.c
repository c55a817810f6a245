// SPDX-License-Identifier: GPL-2.0
/*
 * MPA_PLACE in unusual cases: other kinds of connections, a peer that sends octets
 * again with other content, urgent data, a RST, and other calls than recvmsg.
 */

#include <linux/sock_diag.h>
#include <poll.h>
#include <sys/uio.h>

#include "mpa_harness.h"
#include "mpa_debugfs.h"

/* Declare the variant before the fixture. */
FIXTURE_VARIANT(place)
{
	int family;
	bool mapped;		/* IPv4 on an IPv6 socket */
	bool child;		/* the listening socket has the option */
	unsigned int wraps;	/* stream position of sequence number 0 */
};

#define PLACE_CONNECTS
#include "mpa_place.h"

FIXTURE_VARIANT_ADD(place, ipv4) { .family = AF_INET };
FIXTURE_VARIANT_ADD(place, ipv6) { .family = AF_INET6 };
FIXTURE_VARIANT_ADD(place, mapped) { .family = AF_INET6, .mapped = true };
FIXTURE_VARIANT_ADD(place, child) { .family = AF_INET, .child = true };
FIXTURE_VARIANT_ADD(place, wraps) { .family = AF_INET, .wraps = 5000 };

/* ---- connections ---- */

static int sack_off(void)
{
	int fd = open("/proc/sys/net/ipv4/tcp_sack", O_WRONLY);

	return write(fd, "0", 1) != 1 || close(fd) ? -1 : 0;
}

/* Set the initial sequence number of a socket that will connect. */
static int begin_with(int fd, u32 seq)
{
	int on = TCP_REPAIR_ON, off = TCP_REPAIR_OFF_NO_WP;
	int queue = TCP_SEND_QUEUE;

	return setsockopt(fd, SOL_TCP, TCP_REPAIR, &on, sizeof(on)) ||
	       setsockopt(fd, SOL_TCP, TCP_REPAIR_QUEUE, &queue,
			  sizeof(queue)) ||
	       setsockopt(fd, SOL_TCP, TCP_QUEUE_SEQ, &seq, sizeof(seq)) ||
	       setsockopt(fd, SOL_TCP, TCP_REPAIR, &off, sizeof(off)) ? -1 : 0;
}

static int listen_to_place(int listener)
{
	return mpa_attach(listener) ||
	       mpa_start(listener, MPA_ROLE_RESPONDER, MPA_START_MARKERS) ||
	       set_int(listener, MPA_PLACE, 1) ? -1 : 0;
}

static socklen_t loopback(const struct _fixture_variant_place *variant,
			  struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	struct sockaddr_in *in = (struct sockaddr_in *)addr;

	memset(addr, 0, sizeof(*addr));
	addr->ss_family = variant->family;
	if (variant->mapped)
		inet_pton(AF_INET6, "::ffff:127.0.0.1", &in6->sin6_addr);
	else if (variant->family == AF_INET6)
		in6->sin6_addr = in6addr_loopback;
	else
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return sizeof(*addr);
}

/* Connect; fd[0] becomes the peer's end. */
static int connect_as(const struct _fixture_variant_place *variant, int fd[2])
{
	int listener = socket(variant->family, SOCK_STREAM, 0), err;
	struct sockaddr_storage addr;
	socklen_t len = loopback(variant, &addr);

	fd[0] = socket(variant->family, SOCK_STREAM, 0);
	err = bind(listener, (struct sockaddr *)&addr, len) ||
	      (variant->child && listen_to_place(listener)) ||
	      listen(listener, 1) ||
	      getsockname(listener, (struct sockaddr *)&addr, &len) ||
	      /* A SYN takes a sequence number. */
	      (variant->wraps &&
	       begin_with(fd[0], -(WINDOW_OPENED + variant->wraps) - 1)) ||
	      connect(fd[0], (struct sockaddr *)&addr, len);
	fd[1] = err ? -1 : accept(listener, NULL, NULL);
	close(listener);
	return fd[1] < 0 ? -1 : 0;
}

/* Start a child up. The simulated peer is an initiator, which sends markers if requested. */
static int startup_of_a_child(struct peer *peer, int peer_fd)
{
	u8 frame[FRAME_LEN];

	*peer = (struct peer){ .fd = peer_fd };
	frame_put(frame, false, 0x40, 1, 0);
	patience(peer_fd, 20);
	if (write_all(peer_fd, frame, sizeof(frame)) ||
	    read_all(peer_fd, frame, sizeof(frame)) != sizeof(frame))
		return -1;
	peer->tx_markers = frame[16] & 0x80;
	return 0;
}

FIXTURE_SETUP(place)
{
	int fd[2];

	ASSERT_EQ(0, place_prepare(self));
	ASSERT_EQ(0, connect_as(variant, fd));
	self->fd = fd[1];
	if (variant->child) {
		ASSERT_EQ(0, startup_of_a_child(&self->peer, fd[0]));
		ASSERT_TRUE(self->peer.tx_markers);
		EXPECT_EQ(1, get_int(self->fd, MPA_PLACE));
	} else {
		ASSERT_EQ(0, open_window(fd, self->buf));
		ASSERT_EQ(0, receive_directly(self->fd, &self->peer, fd[0],
					      MPA_START_MARKERS));
		EXPECT_EQ(0, get_int(self->fd, MPA_PLACE));
		ASSERT_EQ(0, set_int(self->fd, MPA_PLACE, 1));
	}
	ASSERT_EQ(0, place_begin(self));
	if (variant->wraps)
		ASSERT_EQ(0, self->forger.seq + variant->wraps);
}

TEST_F(place, gaps_open_and_close)
{
	unsigned int i;

	stream_add_many(self, 900, 12);
	COME(4, 6);
	PLACED(4);
	PLACED(5);
	NOTHING();
	COME(8, 10);
	PLACED(8);
	PLACED(9);
	COME(6, 7);
	PLACED(6);
	COME(1, 2);
	PLACED(1);
	NOTHING();
	COME(0, 1);
	ORDERED(0);
	NOTHING();
	COME(3, 4);
	PLACED(3);
	COME(2, 3);
	ORDERED(2);
	NOTHING();
	EXPECT_EQ(self->start[7], mpa_info(self->fd).rx_edge);
	COME(7, 8);
	ORDERED(7);
	for (i = 10; i < 12; i++) {
		COME(i, i + 1);
		ORDERED(i);
	}
	NOTHING();
	EXPECT_EQ(12, mpa_info(self->fd).rx_ulpdus);
	EXPECT_EQ(12 * 900, mpa_info(self->fd).rx_octets);
	EXPECT_EQ(7, mpa_info(self->fd).rx_placed);
	EXPECT_EQ(stream_end(self), mpa_info(self->fd).rx_edge);
}

/*
 * TCP merges a segment with the one before it, but keeps later segments that it covers
 * in the queue. The marker follows in the merged skb.
 */
TEST_F(place, segments_that_another_one_covers)
{
	static const u32 pieces[] = { 1, 3, 6, 30 };
	u32 i, j, n, first, at;

	for (j = 0; j < ARRAY_SIZE(pieces); j++) {
		first = self->records;
		stream_add_many(self, 600, 8);
		i = first;
		do {
			at = self->start[++i];
		} while (at % 512 < 4 || at % 512 > 512 - 390);
		for (n = 0; n < pieces[j]; n++)
			ASSERT_EQ(0, come(self, at + 260 + 4 * n,
					  at + 262 + 4 * n));
		/* The second segment fits into the first one's skb. */
		ASSERT_EQ(0, come(self, at, at + 250));
		ASSERT_EQ(0, come(self, at + 250, at + 540));
		ASSERT_EQ(0, come(self, at + 540, self->start[i + 1]));
		/* If there are many covered segments, not all are inspected. */
		if (pieces[j] < 8)
			PLACED(i);
		COME(first, i);
		for (n = first; n < i; n++)
			ORDERED(n);
		if (pieces[j] >= 8)
			ORDERED(i);
		COME(i + 1, self->records);
		for (n = i + 1; n < self->records; n++)
			ORDERED(n);
		NOTHING();
	}
	EXPECT_EQ(self->records, mpa_info(self->fd).rx_ulpdus);
}

/* The marker comes before the covered segments. It leads to the record, whose end they hide. */
TEST_F(place, record_that_ends_over_many_covered_segments)
{
	u32 i = 0, n, at;

	stream_add_many(self, 600, 8);
	do {
		at = self->start[++i];
	} while (at % 512 < 270 || at % 512 > 500);
	for (n = 0; n < 30; n++)
		ASSERT_EQ(0, come(self, at + 300 + 4 * n, at + 302 + 4 * n));
	ASSERT_EQ(0, come(self, at, at + 250));
	ASSERT_EQ(0, come(self, at + 250, self->start[i + 1]));
	PLACED(i);
	COME(0, i);
	for (n = 0; n < i; n++)
		ORDERED(n);
	COME(i + 1, self->records);
	for (n = i + 1; n < self->records; n++)
		ORDERED(n);
	NOTHING();
}

/*
 * Part of the record itself is covered: the last skb that begins before the record has
 * only some of its octets.
 */
TEST_F(place, segment_covered_within_the_record)
{
	static const u32 pieces[] = { 1, 20, 150 };
	u32 i, j, n, first, at;

	for (j = 0; j < ARRAY_SIZE(pieces); j++) {
		first = self->records;
		stream_add_many(self, 200, 12);
		i = first + 2;
		do {
			at = self->start[++i];
		} while (at % 512 < 512 - 180 || at % 512 > 512 - 30);
		ASSERT_EQ(0, come(self, at - 250, at - 100));
		ASSERT_EQ(0, come(self, at - 20, at + pieces[j]));
		/* The second segment fits into the first one's skb. */
		ASSERT_EQ(0, come(self, at - 100, self->start[i + 1]));
		PLACED(i);
		COME(i + 1, self->records);
		for (n = i + 1; n < self->records; n++)
			PLACED(n);
		NOTHING();
		ASSERT_EQ(0, come(self, self->start[first], at - 250));
		for (n = first; n < i; n++)
			ORDERED(n);
		NOTHING();
	}
	EXPECT_EQ(self->records, mpa_info(self->fd).rx_ulpdus);
}

/*
 * A record does not fit the buffer, and there is no free entry for the next record.
 * Once there is one, markers that were read before find that record again.
 */
TEST_F(place, no_room_after_a_refused_record)
{
	u32 i, n;

	stream_add(self, 600);
	stream_add(self, 3000);
	stream_add(self, 2000);
	stream_add_many(self, 520, 2 * MPA_PLACE_MAX);
	/* The markers of the second record are read before it is complete. */
	ASSERT_EQ(0, come(self, self->start[1], self->start[3] - 8));
	usleep(20000);
	ASSERT_EQ(0, come(self, self->start[3] - 8, self->start[4]));
	usleep(20000);
	for (i = 0, n = 5; i < MPA_PLACE_MAX - 1; i++, n += 2)
		COME(n, n + 1);
	usleep(50000);
	/* The next record does not fit either. */
	ASSERT_EQ(520, RECEIVE(1500, MSG_DONTWAIT));
	EXPECT_EQ(self->start[5], self->got->info.position);
	for (i = 1; i < MPA_PLACE_MAX - 1; i++)
		PLACED(5 + 2 * i);
	NOTHING();
	COME(6, 7);
	PLACED(6);
	PLACED(2);
	PLACED(3);
	NOTHING();
}

/* Send more islands than TCP records, which is four: it forgets the first ones. */
static int come_apart(struct _test_data_place *self, unsigned int from)
{
	unsigned int i;

	for (i = from; i < from + 18; i += 3)
		if (come(self, self->start[i], self->start[i + 1]))
			return -1;
	usleep(20000);
	return 0;
}

/* Part of a marker arrives first, then the octets before and after it. */
TEST_F(place, markers_in_three_islands)
{
	unsigned int at, piece, front;
	u32 from, to, marker;

	stream_add_many(self, 480, 200);
	for (piece = 0; piece < 6; piece++) {
		/* First come up to three octets at the end, then those at the beginning. */
		front = piece / 3;
		marker = (24 * piece + 4) * 512;
		from = marker + (front ? 0 : 3 - piece);
		to = front ? marker + piece - 2 : marker + 4;
		for (at = 0; self->start[at + 1] <= to + 3; at++)
			;
		ASSERT_GT(marker, self->start[at]);
		ASSERT_EQ(0, come(self, from, to));
		ASSERT_EQ(0, come_apart(self, at + 2));
		while (poll_for(self->fd, POLLIN, 30))
			ASSERT_LT(0, RECEIVE(BUF, MSG_DONTWAIT));
		ASSERT_EQ(0, come(self, front ? to : self->start[at],
				  front ? self->start[at + 1] : from));
		usleep(20000);
		ASSERT_EQ(0, come(self, front ? self->start[at] : to,
				  front ? from : self->start[at + 1]));
		PLACED(at);
		NOTHING();
	}
}

/* ---- octets that arrive again, with other content ---- */

enum change {
	OTHER_RECORD,
	TWO_RECORDS,
	NO_RECORD,
};

/* Replace a record of 900 octets in the stream. */
static const u8 *change(struct _test_data_place *self, unsigned int record,
			enum change what)
{
	u32 len = self->start[record + 1] - self->start[record];
	u8 *at = self->stream + self->start[record];
	struct peer peer = { .tx_markers = true };
	static u8 other[900];

	record_fill(other, sizeof(other));
	other[7] ^= 0xff;
	peer.tx_position = self->start[record];
	switch (what) {
	case OTHER_RECORD:
		peer_fpdu(&peer, other, sizeof(other), at);
		break;
	case TWO_RECORDS:
		at += peer_fpdu(&peer, other, 300, at);
		peer_fpdu(&peer, other, 500, at);
		break;
	case NO_RECORD:
		memset(at, 0xee, len);
		break;
	}
	return other;
}

/* Records that were read are not inspected again. */
TEST_F(place, other_octets_after_a_record_that_was_read)
{
	enum change what;
	unsigned int i;

	for (what = OTHER_RECORD; what <= NO_RECORD; what++) {
		i = self->records;
		stream_add_many(self, 900, 3);
		COME(i + 1, i + 2);
		PLACED(i + 1);
		change(self, i + 1, what);
		COME(i, i + 2);
		ORDERED(i);
		NOTHING();
		COME(i + 2, i + 3);
		ORDERED(i + 2);
		EXPECT_EQ(i + 3, mpa_info(self->fd).rx_ulpdus);
		EXPECT_EQ(MPA_ERR_NONE, mpa_info(self->fd).error);
	}
}

/* Whether the record can be read out of order. Do not read it. */
static bool found(struct _test_data_place *self, unsigned int record)
{
	return poll_for(self->fd, POLLIN, 5000) &&
	       is_record(self, RECEIVE(BUF, MSG_PEEK | MSG_DONTWAIT), record,
			 record_of(self->len[record]), true);
}

#define FOUND(record)	ASSERT_TRUE(found(self, record))

/* Send the record again together with adjacent octets, so that TCP uses the new octets. */
static int come_over(struct _test_data_place *self, unsigned int record)
{
	return come(self, self->start[record] - 8, self->start[record + 1] + 8);
}

/* A record is verified on each copy. */
TEST_F(place, other_record_over_an_unread_one)
{
	const u8 *other;

	stream_add_many(self, 900, 4);
	COME(2, 3);
	FOUND(2);
	other = change(self, 2, OTHER_RECORD);
	ASSERT_EQ(0, come_over(self, 2));
	ASSERT_TRUE(gives_octets(self, 2, other, true));
	NOTHING();
	COME(0, 2);
	ORDERED(0);
	ORDERED(1);
	NOTHING();
	COME(3, 4);
	ORDERED(3);
}

TEST_F(place, other_record_in_order_over_an_unread_one)
{
	const u8 *other;

	stream_add_many(self, 900, 3);
	COME(1, 2);
	FOUND(1);
	other = change(self, 1, OTHER_RECORD);
	COME(0, 3);
	ORDERED(0);
	ASSERT_TRUE(gives_octets(self, 1, other, false));
	ORDERED(2);
	NOTHING();
	EXPECT_EQ(0, mpa_info(self->fd).rx_placed);
}

TEST_F(place, bad_octets_over_an_unread_record)
{
	stream_add_many(self, 900, 4);
	COME(2, 3);
	FOUND(2);
	self->stream[self->start[2] + 100] ^= 1;
	ASSERT_EQ(0, come_over(self, 2));
	EXPECT_EQ(-1, RECEIVE(BUF, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	NOTHING();
	EXPECT_EQ(MPA_ERR_NONE, mpa_info(self->fd).error);
	COME(0, 2);
	ORDERED(0);
	ORDERED(1);
	EXPECT_EQ(-1, RECEIVE(BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(MPA_ERR_CRC, mpa_info(self->fd).error);
}

/* ---- memory ---- */

/*
 * The next record in order exceeds the receive buffer, and there is no memory for the
 * stash. Records out of order do not need it.
 */
TEST_F(place, no_memory_for_another_record)
{
	int small = 2304, n, err, probability;
	bool readable;

	probability = open(DEBUG "failslab/probability", O_WRONLY);
	if (probability < 0 || faults_set_up("failslab"))
		SKIP(return, "no failslab in debugfs");
	stream_add(self, 60000);
	stream_add_many(self, 1000, 3);
	COME(2, 3);
	ASSERT_TRUE(found(self, 2));
	ASSERT_EQ(0, come(self, 0, 30000));
	debugfs_put("failslab", "times", "-1");
	ASSERT_EQ(3, write(probability, "100", 3));
	setsockopt(self->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	usleep(50000);
	recv(self->fd, self->buf, 1, MSG_DONTWAIT | MSG_PEEK);
	readable = poll_for(self->fd, POLLIN, 0);
	n = recv(self->fd, self->buf, BUF, MSG_DONTWAIT | MSG_PEEK);
	err = errno;
	ASSERT_EQ(1, write(probability, "0", 1));
	close(probability);
	EXPECT_TRUE(readable);
	EXPECT_EQ(1000, n) {
		TH_LOG("%s", strerror(err));
	}
	PLACED(2);
}

/* ---- urgent data ---- */

static int come_urgent(struct _test_data_place *self, unsigned int record,
		       u16 urgent)
{
	u32 at = self->start[record], len = self->start[record + 1] - at;

	return forge(&self->forger, at, self->stream + at, len,
		     TCP_FLAG_BITS_URG, urgent) || !lo_delivered() ? -1 : 0;
}

/* Urgent octets are part of the stream, wherever TCP sets the mark. */
TEST_F(place, urgent_octets)
{
	static const u16 urgent[] = { 1, 2, 450, 915, 916, 917, 1000, 3000, 60000 };
	unsigned int i, j;

	for (j = 0; j < ARRAY_SIZE(urgent); j++) {
		i = self->records;
		stream_add_many(self, 900, 7);
		/*
		 * One urgent octet is in the next record to read, then one in a record
		 * out of order.
		 */
		ASSERT_EQ(0, come_urgent(self, i, 1));
		ASSERT_EQ(0, come_urgent(self, i + 2, urgent[j]));
		ORDERED(i);
		PLACED(i + 2);
		ASSERT_EQ(0, come_urgent(self, i + 4, urgent[j]));
		PLACED(i + 4);
		ASSERT_EQ(0, come_urgent(self, i + 5, urgent[j]));
		/* The next octet to arrive is urgent. */
		ASSERT_EQ(0, forge(&self->forger, self->start[i + 1], NULL, 0,
				   TCP_FLAG_BITS_URG, 1));
		ASSERT_EQ(0, come_urgent(self, i + 1, urgent[j]));
		ORDERED(i + 1);
		PLACED(i + 5);
		ASSERT_EQ(0, come_urgent(self, i + 3, urgent[j]));
		ORDERED(i + 3);
		COME(i + 6, i + 7);
		ORDERED(i + 6);
		EXPECT_EQ(0, poll_for(self->fd, POLLPRI, 0));
	}
	NOTHING();
	EXPECT_EQ(self->records, mpa_info(self->fd).rx_ulpdus);
}

/* ---- a reset ---- */

static int come_reset(struct _test_data_place *self, u32 at)
{
	return forge(&self->forger, at, NULL, 0, TCP_FLAG_BITS_RST, 0) ||
	       !lo_delivered() ? -1 : 0;
}

#define FAILS(error) do {						\
	EXPECT_EQ(-1, RECEIVE(BUF, 0));					\
	EXPECT_EQ(error, errno);					\
} while (0)

/* As with records in order, received records come first, then the error, once. */
TEST_F(place, reset_after_records)
{
	const int all = POLLIN | POLLERR | POLLHUP;

	stream_add_many(self, 900, 4);
	COME(0, 1);
	ORDERED(0);
	COME(2, 4);
	FOUND(2);
	ASSERT_EQ(0, come_reset(self, self->start[1]));
	EXPECT_EQ(all, poll_for(self->fd, POLLIN, 5000));
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);
	EXPECT_EQ(900, inq(self->fd));
	PLACED(2);
	PLACED(3);
	EXPECT_EQ(0, inq(self->fd));
	EXPECT_EQ(all, poll_for(self->fd, POLLIN, 5000));
	FAILS(ECONNRESET);
	EXPECT_EQ(POLLIN | POLLHUP, poll_for(self->fd, POLLIN, 5000));
	/* No FIN was received, so this is not the end of the stream. */
	FAILS(ENOTCONN);
	FAILS(ENOTCONN);
	EXPECT_EQ(2, mpa_info(self->fd).rx_placed);
}

/*
 * Octets were not searched before a RST: their records are delivered before the error,
 * or never.
 */
TEST_F(place, reset_before_records_are_found)
{
	unsigned int i;
	bool failed;
	ssize_t n;

	stream_add_many(self, 900, 3);
	/* The work item runs before the error is returned. */
	ASSERT_EQ(0, real_time(true));
	ASSERT_EQ(0, forge(&self->forger, self->start[1],
			   self->stream + self->start[1],
			   self->start[3] - self->start[1], 0, 0));
	ASSERT_EQ(0, forge(&self->forger, 0, NULL, 0, TCP_FLAG_BITS_RST, 0));
	while (!(poll_for(self->fd, POLLIN, 0) & POLLERR))
		;
	for (i = 0, failed = false; i < 6; i++) {
		n = RECEIVE(BUF, MSG_DONTWAIT);
		EXPECT_FALSE(failed && n >= 0) {
			TH_LOG("call %u: %zd octets after the error", i, n);
		}
		failed |= n < 0;
		if (failed) {
			real_time(false);
			poll(NULL, 0, 30);
		}
	}
}

TEST_F(place, reset_that_another_call_reports)
{
	stream_add_many(self, 900, 3);
	COME(1, 3);
	FOUND(1);
	ASSERT_EQ(0, come_reset(self, 0));
	EXPECT_EQ(ECONNRESET, so_error(self->fd));
	PLACED(1);
	PLACED(2);
	FAILS(ENOTCONN);
}

TEST_F(place, reset_within_a_record_in_order)
{
	stream_add_many(self, 900, 3);
	COME(1, 3);
	FOUND(1);
	ASSERT_EQ(0, come(self, 0, 100));
	ASSERT_EQ(0, come_reset(self, 100));
	PLACED(1);
	PLACED(2);
	FAILS(ECONNRESET);
	FAILS(EBADMSG);
	FAILS(EBADMSG);
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);
}

/* ---- other calls ---- */

TEST_F(place, splice_takes_placed_records)
{
	int pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	stream_add_many(self, 900, 5);
	COME(1, 4);
	FOUND(1);
	ASSERT_EQ(900, splice(self->fd, NULL, pipes[1], NULL, 60000, 0));
	ASSERT_EQ(900, read(pipes[0], self->buf, BUF));
	EXPECT_TRUE(record_good(self->buf, 900));
	/* A record that does not fit is later delivered in order. */
	set_nonblock(self->fd);
	EXPECT_EQ(-1, splice(self->fd, NULL, pipes[1], NULL, 100, 0));
	EXPECT_EQ(EAGAIN, errno);
	NOTHING();
	COME(0, 1);
	ORDERED(0);
	ASSERT_EQ(100, splice(self->fd, NULL, pipes[1], NULL, 100, 0));
	ASSERT_EQ(800, splice(self->fd, NULL, pipes[1], NULL, 60000, 0));
	ASSERT_EQ(900, read(pipes[0], self->buf, BUF));
	EXPECT_TRUE(record_good(self->buf, 900));
	COME(4, 5);
	ORDERED(3);
	ORDERED(4);
	close(pipes[0]);
	close(pipes[1]);
}

TEST_F(place, recvmmsg_takes_both)
{
	static const unsigned int takes[] = { 0, 2, 3, 4 };
	struct mmsghdr msgs[6] = {};
	struct iovec iov[6];
	unsigned int i;

	for (i = 0; i < 6; i++) {
		stream_add(self, 900 + i);
		iov[i] = (struct iovec){ self->buf + i * 1000, 1000 };
		msgs[i].msg_hdr.msg_iov = iov + i;
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	COME(2, 5);
	FOUND(2);
	COME(0, 1);
	ASSERT_EQ(4, recvmmsg(self->fd, msgs, 6, MSG_DONTWAIT, NULL));
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(900 + takes[i], msgs[i].msg_len);
		EXPECT_EQ(MSG_EOR, msgs[i].msg_hdr.msg_flags & MSG_EOR);
		EXPECT_TRUE(record_good(self->buf + i * 1000, 900 + takes[i]));
	}
	NOTHING();
	COME(1, 2);
	ORDERED(1);
	COME(5, 6);
	ORDERED(5);
}

/* A placed record is complete, so no call waits for more. */
TEST_F(place, flags_and_buffers)
{
	struct iovec iov[3] = {
		{ self->buf, 7 }, { self->buf + 7, 600 },
		{ self->buf + 607, 5000 },
	};

	stream_add_many(self, 900, 5);
	COME(1, 5);
	FOUND(1);
	EXPECT_EQ(900, RECEIVE(10, MSG_PEEK | MSG_TRUNC));
	EXPECT_EQ(900, RECEIVE(BUF, MSG_PEEK | MSG_TRUNC | MSG_WAITALL));
	FOUND(1);
	ASSERT_EQ(900, RECEIVE(BUF, MSG_WAITALL));
	EXPECT_TRUE(is_record(self, 900, 1, record_of(900), true));
	memset(self->buf, 0, 900);
	ASSERT_EQ(900, readv(self->fd, iov, 3));
	EXPECT_TRUE(record_good(self->buf, 900));
	EXPECT_EQ(900, RECEIVE(BUF, MSG_TRUNC));
	EXPECT_EQ(self->start[3], self->got->info.position);
	EXPECT_EQ(-1, RECEIVE(BUF, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	PLACED(4);
	COME(0, 1);
	ORDERED(0);
	NOTHING();
	EXPECT_EQ(5, mpa_info(self->fd).rx_ulpdus);
}

/* ---- the option ---- */

#define OPTMEM_MAX	"/proc/sys/net/core/optmem_max"

static u32 option_memory(int fd)
{
	u32 info[SK_MEMINFO_VARS] = {};
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len);
	return info[SK_MEMINFO_OPTMEM];
}

/* It would be too expensive to search TCP's whole queue for each segment. */
TEST(all_comes_in_order_where_the_peer_has_no_sack)
{
	const struct _fixture_variant_place variant = { .family = AF_INET };
	struct _test_data_place data = {}, *self = &data;
	unsigned int i;
	int fd[2];

	ASSERT_EQ(0, place_prepare(self));
	ASSERT_EQ(0, sack_off());
	ASSERT_EQ(0, connect_as(&variant, fd));
	self->fd = fd[1];
	ASSERT_EQ(0, open_window(fd, self->buf));
	ASSERT_EQ(0, receive_directly(self->fd, &self->peer, fd[0],
				      MPA_START_MARKERS));
	ASSERT_EQ(0, place_begin(self));
	stream_add_many(self, 900, 4);
	COME(2, 4);
	NOTHING();
	/* The search continues after record 0. */
	COME(0, 1);
	ORDERED(0);
	NOTHING();
	COME(1, 2);
	for (i = 1; i < 4; i++)
		ORDERED(i);
	NOTHING();
	place_teardown(_metadata, self, &variant);
}

static unsigned long context_switches(void)
{
	FILE *file = fopen("/proc/stat", "r");
	unsigned long n = 0;
	char line[4096];

	while (!n && fgets(line, sizeof(line), file))
		sscanf(line, "ctxt %lu", &n);
	fclose(file);
	return n;
}

/* Nor does the work item run for records in order: there is nothing to find. */
TEST(work_item_rests_where_the_peer_has_no_sack)
{
	static u8 record[1000];
	unsigned long before;
	unsigned int i;
	int fd[2];

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, sack_off());
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	ASSERT_EQ(0, mpa_started_pair(fd, MPA_START_MARKERS, MPA_START_MARKERS));
	ASSERT_EQ(0, set_int(fd[1], MPA_PLACE, 1));
	before = context_switches();
	for (i = 0; i < 4000; i++) {
		ASSERT_EQ(1000, send(fd[0], record, 1000, 0));
		ASSERT_EQ(1000, recv(fd[1], record, 1000, 0));
	}
	EXPECT_GT(1000, context_switches() - before);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* Descriptions of records out of order are charged as option memory, which has a limit. */
TEST(option_memory_is_charged)
{
	int file, fd[2], err, everywhere = open(OPTMEM_MAX, O_RDWR);
	char usual[32] = "";
	struct peer peer;

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	ASSERT_EQ(0, receive_directly(fd[1], &peer, fd[0], MPA_START_MARKERS));
	file = open(OPTMEM_MAX, O_RDWR);
	/* Older kernels have one limit for all network namespaces. */
	if (file < 0)
		file = everywhere;
	ASSERT_LT(0, read(file, usual, sizeof(usual) - 1));
	ASSERT_EQ(4, pwrite(file, "4000", 4, 0));
	err = set_int(fd[1], MPA_PLACE, 1);
	EXPECT_EQ((ssize_t)strlen(usual),
		  pwrite(file, usual, strlen(usual), 0));
	EXPECT_EQ(ENOBUFS, err);
	EXPECT_EQ(0, option_memory(fd[1]));
	EXPECT_EQ(0, set_int(fd[1], MPA_PLACE, 1));
	EXPECT_LT(400 * 20, option_memory(fd[1]));
	hang_up(fd[0]);
	hang_up(fd[1]);
}

TEST(listening_socket_asks_for_markers_and_crcs)
{
	static const unsigned int flags[] = {
		0, MPA_START_NO_CRC, MPA_START_MARKERS | MPA_START_NO_CRC,
		MPA_START_MARKERS,
	};
	struct sockaddr_in addr = { .sin_family = AF_INET };
	unsigned int i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		ASSERT_EQ(0, bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
		ASSERT_EQ(0, mpa_attach(fd));
		ASSERT_EQ(0, listen(fd, 1));
		EXPECT_EQ(EINVAL, set_int(fd, MPA_PLACE, 1));
		ASSERT_EQ(0, mpa_start(fd, MPA_ROLE_RESPONDER, flags[i]));
		EXPECT_EQ(flags[i] == MPA_START_MARKERS ? 0 : EINVAL,
			  set_int(fd, MPA_PLACE, 1));
		EXPECT_EQ(flags[i] == MPA_START_MARKERS,
			  get_int(fd, MPA_PLACE));
		EXPECT_EQ(0, set_int(fd, MPA_PLACE, 0));
		EXPECT_EQ(0, get_int(fd, MPA_PLACE));
		close(fd);
	}
}

TEST_HARNESS_MAIN
