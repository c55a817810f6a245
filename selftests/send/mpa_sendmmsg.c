// SPDX-License-Identifier: GPL-2.0
/* Batches of records: how MPA collects them, and when and how TCP sends them. */

#include <linux/net_tstamp.h>

#include "mpa_test.h"
#include "kselftest_harness.h"
#include "mpa_send.h"

#define MANY	8

/* Send @n records of the stream with one call. Return: the number accepted. */
static int put_batch(struct _test_data_send *self, const size_t *len, int n,
		     int flags)
{
	struct mmsghdr msgs[MANY] = {};
	struct iovec iov[MANY];
	u64 at = self->sent;
	int i, done;

	for (i = 0; i < n; i++) {
		iov[i].iov_base = stream_at(at);
		iov[i].iov_len = len[i];
		msgs[i].msg_hdr.msg_iov = len[i] ? &iov[i] : NULL;
		msgs[i].msg_hdr.msg_iovlen = 1;
		at += len[i];
	}
	done = sendmmsg(self->fd[0], msgs, n, flags | MSG_NOSIGNAL);
	for (i = 0; i < done; i++)
		self->sent += len[i];
	return done;
}

/* Return: segments sent so far. */
static u64 left(struct _test_data_send *self)
{
	const struct mpa_info info = mpa_info(self->fd[0]);

	return info.tx_segs_aligned + info.tx_segs_unaligned;
}

/* left() uses MPA_INFO, which does not make TCP send anything. */
TEST_F(send, segments_wait_for_the_end_of_a_batch)
{
	bool waited = false;
	int i, k;

	/*
	 * By now the MSS is fitted to the records. With markers their FPDUs differ in
	 * length.
	 */
	for (i = 0; i < 40; i++) {
		u64 before;

		ASSERT_TRUE(acked(self->fd[0]));
		before = left(self);
		for (k = 0; k < 4; k++)
			ASSERT_EQ(1300, put(self, 1300, MSG_MORE | MSG_EOR));
		/*
		 * TCP sends them after a while in any case; this process may not run in
		 * time.
		 */
		waited |= left(self) == before;
		ASSERT_EQ(1300, put(self, 1300, 0));
		EXPECT_RECORDS(1300, 1300, 1300, 1300, 1300);
	}
	EXPECT_EQ(!variant->marked, waited);
	EXPECT_TRUE(all_aligned(self));
	EXPECT_NO_MORE();
}

TEST_F(send, batch_that_does_not_end_goes_all_the_same)
{
	const size_t len[] = { 500, 500, 0 };
	int i;

	for (i = 0; i < 5; i++) {
		/* The kernel does not call MPA for the third message. */
		ASSERT_EQ(2, put_batch(self, len, 3, 0));
		EXPECT_RECORDS(500, 500);
		ASSERT_EQ(1300, put(self, 1300, MSG_MORE | MSG_EOR));
		ASSERT_EQ(1300, put(self, 1300, MSG_MORE | MSG_EOR));
		EXPECT_RECORDS(1300, 1300);
	}
	EXPECT_NO_MORE();
}

TEST_F(send, batch_with_an_error_is_sent_up_to_it)
{
	const size_t too_long[] = { 500, 400, MPA_ULPDU_MAX + 1, 300 };
	int i;

	for (i = 0; i < 20; i++) {
		ASSERT_EQ(2, put_batch(self, too_long, 4, 0));
		/* The records are sent at once, as if the second message were the last. */
		EXPECT_EQ(0, unsent(self->fd[0]));
		EXPECT_RECORDS(500, 400);
		ASSERT_EQ(1, put_batch(self, too_long, 1, 0));
		ASSERT_EQ(200, put(self, 200, MSG_MORE | MSG_EOR));
		ASSERT_EQ(-1, put(self, 0, 0));
		EXPECT_EQ(EMSGSIZE, errno);
		EXPECT_EQ(0, unsent(self->fd[0]));
		EXPECT_RECORDS(500, 200);
	}
	EXPECT_TRUE(all_aligned(self));
	EXPECT_NO_MORE();
}

TEST_F(send, batch_is_sent_before_the_end)
{
	int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(700, put(self, 700, MSG_MORE | MSG_EOR));
	close(self->fd[0]);
	self->fd[0] = -1;
	EXPECT_RECORDS(700, 700, 700);
	EXPECT_EQ(0, take(self, 0));
}

TEST_F(send, record_may_be_open_after_a_batch)
{
	const size_t len[] = { 100, 200, 300 };

	ASSERT_EQ(3, put_batch(self, len, 3, MSG_MORE | MSG_EOR));
	ASSERT_EQ(40, put(self, 40, MSG_MORE));
	EXPECT_RECORDS(100, 200, 300);
	ASSERT_EQ(50, put(self, 50, MSG_MORE | MSG_EOR));
	ASSERT_EQ(60, put(self, 60, MSG_MORE | MSG_EOR));
	ASSERT_EQ(70, put(self, 70, MSG_MORE));
	ASSERT_EQ(0, put(self, 0, 0));
	EXPECT_RECORDS(90, 60, 70);
	EXPECT_NO_MORE();
	EXPECT_TRUE(all_aligned(self));
}

/* The MSS is fitted to records of 64 octets, so it is a little smaller than the last record. */
TEST_F(send, large_record_in_a_batch_is_not_cut)
{
	u32 most = ulpdu_filling(self->pos, self->emss, self->marked);
	struct reader reader;
	u64 octets;
	int i, k;

	ASSERT_EQ(0, reader_start(&reader, self->fd[1]));
	for (i = 0; i < 10; i++) {
		for (k = 0; k < 40; k++)
			ASSERT_EQ(64, put(self, 64, MSG_MORE | MSG_EOR));
		ASSERT_EQ(64, put(self, 64, 0));
		ASSERT_TRUE(acked(self->fd[0]));
		/* These records fill segments of 1440 octets. */
		for (k = 0; k < 20; k++)
			ASSERT_EQ(64, put(self, 64, MSG_MORE | MSG_EOR));
		ASSERT_EQ(most - 4, put(self, most - 4, MSG_MORE | MSG_EOR));
		ASSERT_EQ(64, put(self, 64, 0));
		ASSERT_TRUE(acked(self->fd[0]));
	}
	EXPECT_TRUE(all_aligned(self));
	octets = self->sent;
	EXPECT_READER_HAS(&reader, octets);
}

/* Queued FPDUs are cut as planned, or their segments are counted as misaligned. */
TEST_F(send, path_may_change_within_a_batch)
{
	int i, k;

	for (i = 0; i < 10; i++) {
		for (k = 0; k < 20; k++)
			ASSERT_EQ(300, put(self, 300, MSG_MORE | MSG_EOR));
		ASSERT_EQ(0, lo_mtu(i % 2 ? 1500 : 1400));
		ASSERT_EQ(300, put(self, 300, 0));
		ASSERT_TRUE(taken_cut(self, 21 * 300, 300));
	}
	ASSERT_TRUE(acked(self->fd[0]));
	EXPECT_EQ(0, statistic("MpaTxSegsOversized"));
	EXPECT_NO_MORE();
}

/*
 * Ways to end a batch without a last message. If TCP expected more, it would hold a
 * last segment that is not full until its probe timer expires, after 200 ms.
 */
enum way {
	LONG_ONE, CUT_ONE, REFUSED_NEXT, SMALL_AND_SIOCOUTQ, LONG_AND_SIOCOUTQ,
	SMALL_AND_NODELAY, LONG_AND_CORK, WAYS
};

/* End a batch in this way. Return: octets of its complete records. */
static size_t end_without_an_end(struct _test_data_send *self, enum way way)
{
	const bool small = way == SMALL_AND_SIOCOUTQ ||
			   way == SMALL_AND_NODELAY;
	const size_t lens[2] = { 5000, 70000 }, len = small ? 100 : 5000;
	int value;

	if (way == REFUSED_NEXT)
		return put_batch(self, lens, 2, 0) == 1 ? len : 0;
	if (way == CUT_ONE) {
		segment(self, 400);
		return put(self, 1000, MSG_MORE) / 400 * 400;
	}
	if (put(self, len, MSG_MORE | MSG_EOR) != len)
		return 0;
	if (way == SMALL_AND_SIOCOUTQ || way == LONG_AND_SIOCOUTQ)
		ioctl(self->fd[0], SIOCOUTQ, &value);
	else if (way != LONG_ONE)
		option_get(self->fd[0], SOL_TCP,
			   small ? TCP_NODELAY : TCP_CORK);
	return len;
}

TEST_F(send, batch_without_an_end_goes_soon)
{
	enum way way;

	for (way = 0; way < WAYS; way++) {
		long best = 1000, began, took;
		int i;

		/* Try several times: this process or the other end may not run in time. */
		for (i = 0; i < 10 && best > 100; i++) {
			size_t whole, got = 0;
			ssize_t n;

			ASSERT_TRUE(acked(self->fd[0]));
			began = now_ms();
			whole = end_without_an_end(self, way);
			ASSERT_NE(0, whole);
			while (got < whole) {
				n = recv(self->fd[1], self->buf,
					 sizeof(self->buf), 0);
				ASSERT_LT(0, n);
				got += n;
			}
			took = now_ms() - began;
			if (took < best)
				best = took;
			if (way == CUT_ONE) {
				ASSERT_EQ(200, put(self, 200, 0));
				ASSERT_EQ(400, recv(self->fd[1], self->buf,
						    sizeof(self->buf), 0));
				segment(self, MPA_SEGMENT_OFF);
			}
		}
		EXPECT_GT(100, best) {
			TH_LOG("way %u: %ld ms at best, 10 and a little expected",
			       way, best);
		}
	}
}

/*
 * Setting an option makes TCP send held octets. With Nagle's algorithm the last segment
 * waits only for the previous one's ACK, which is delayed by 40 ms.
 */
TEST_F(send, option_after_a_batch_holds_nothing_back)
{
	const size_t lens[] = { 200, 200 };
	bool held_back = false;
	long best = 1000;
	int i;

	ASSERT_EQ(0, option_put(self->fd[0], SOL_TCP, TCP_NODELAY, 0));
	for (i = 0; i < 10 && (best > 100 || !held_back); i++) {
		long began;

		ASSERT_EQ(2, put_batch(self, lens, 2, 0));
		EXPECT_RECORDS(200, 200);
		ASSERT_TRUE(acked(self->fd[0]));
		ASSERT_EQ(0, option_put(self->fd[1], SOL_TCP, TCP_QUICKACK, 0));
		began = now_ms();
		ASSERT_EQ(1000, put(self, 1000, 0));
		ASSERT_EQ(200, put(self, 200, 0));
		ASSERT_EQ(0, option_get(self->fd[0], SOL_TCP, TCP_NODELAY));
		EXPECT_RECORDS(1000);
		held_back |= !poll_for(self->fd[1], POLLIN, 0);
		EXPECT_RECORDS(200);
		if (now_ms() - began < best)
			best = now_ms() - began;
	}
	EXPECT_TRUE(held_back);
	EXPECT_GT(100, best) {
		TH_LOG("%ld ms at best, 40 and a little expected", best);
	}
	EXPECT_NO_MORE();
}

static int said(int fd, int level, int type, const u64 *value, u32 len)
{
	return send_with(fd, "x", 1, level, type, value, len) < 0 ? errno : 0;
}

/* TCP handles control messages of other levels. */
TEST_F(send, control_messages_of_other_levels)
{
	static const struct {
		int level, type;
		u32 value, len;
	} cases[] = {
		{ SOL_SOCKET, SO_MARK, 7, 4 }, { SOL_SOCKET, SO_MARK, 7, 3 },
		{ SOL_SOCKET, SO_TIMESTAMPING, 0, 4 },
		{ SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE, 4 },
		{ SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE, 4 },
		{ SOL_SOCKET, SO_TIMESTAMPING, 1 << 31, 4 },
		{ SOL_SOCKET, SO_TXTIME, 0, 8 }, { SOL_SOCKET, SO_TXTIME, 0, 4 },
		{ SOL_SOCKET, SCM_RIGHTS, 0, 4 },
		{ SOL_SOCKET, SCM_CREDENTIALS, 0, 4 },
		{ SOL_SOCKET, 4242, 0, 4 }, { SOL_SOCKET, SO_PRIORITY, 3, 4 },
		{ SOL_IP, IP_TTL, 64, 4 }, { SOL_IP, 4242, 0, 4 },
		{ SOL_IPV6, IPV6_HOPLIMIT, 64, 4 }, { SOL_TCP, TCP_NODELAY, 1, 4 },
		{ 4242, 0, 0, 4 },
	};
	int plain[2], wanted, err;
	unsigned int i;

	ASSERT_EQ(0, tcp_pair(AF_INET, plain));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u64 value = cases[i].value;

		wanted = said(plain[0], cases[i].level, cases[i].type, &value,
			      cases[i].len);
		err = said(self->fd[0], cases[i].level, cases[i].type, &value,
			   cases[i].len);
		EXPECT_EQ(wanted, err) {
			TH_LOG("level %d, type %d, %u octets", cases[i].level,
			       cases[i].type, cases[i].len);
		}
	}
	close(plain[0]);
	close(plain[1]);
}

TEST_HARNESS_MAIN
