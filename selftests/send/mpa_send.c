// SPDX-License-Identifier: GPL-2.0
/* Sends: the resulting ULPDUs and segments, and when TCP sends them. */

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_send.h"

/* ---- options ---- */

static const struct {
	int name;
	int at_first;
	int lowest;
	int highest;
} options[] = {
	{ MPA_SEGMENT, MPA_SEGMENT_OFF, -1, MPA_ULPDU_MAX },
	{ MPA_PACKING, 1, 0, 1 },
	{ MPA_OVERSIZE, 1, 0, 1 },
};

TEST_F(send, options_are_what_was_set)
{
	int i, fd[2];

	/* Options set before MPA_START remain valid. */
	ASSERT_EQ(0, tcp_pair(variant->family, fd));
	for (i = 0; i < ARRAY_SIZE(options); i++)
		EXPECT_EQ(-12345, option_get(fd[0], SOL_MPA, options[i].name));
	ASSERT_EQ(0, mpa_attach(fd[0]));
	for (i = 0; i < ARRAY_SIZE(options); i++) {
		int name = options[i].name;

		EXPECT_EQ(options[i].at_first,
			  option_get(fd[0], SOL_MPA, name));
		EXPECT_EQ(0, option_put(fd[0], SOL_MPA, name,
					options[i].lowest));
		EXPECT_EQ(options[i].lowest,
			  option_get(fd[0], SOL_MPA, name));
		EXPECT_EQ(0, option_put(fd[0], SOL_MPA, name,
					options[i].highest));
	}
	ASSERT_EQ(0, mpa_attach(fd[1]));
	ASSERT_EQ(0, mpa_start(fd[1], MPA_ROLE_RESPONDER, 0));
	ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_INITIATOR, 0));
	for (i = 0; i < ARRAY_SIZE(options); i++) {
		EXPECT_EQ(options[i].highest,
			  option_get(fd[0], SOL_MPA, options[i].name));
		EXPECT_EQ(options[i].at_first,
			  option_get(fd[1], SOL_MPA, options[i].name));
	}
	hang_up(fd[0]);
	hang_up(fd[1]);
}

TEST_F(send, options_out_of_bounds_change_nothing)
{
	char octets[sizeof(int)] = {};
	int i;

	ASSERT_EQ(0, segment(self, 1000));
	EXPECT_EQ(EINVAL, segment(self, -2));
	EXPECT_EQ(EINVAL, segment(self, MPA_ULPDU_MAX + 1));
	EXPECT_EQ(EINVAL, segment(self, 1 << 16));
	EXPECT_EQ(EINVAL, segment(self, 1 << 31));
	for (i = 0; i < ARRAY_SIZE(options); i++) {
		int was = option_get(self->fd[0], SOL_MPA, options[i].name);

		EXPECT_EQ(-1, setsockopt(self->fd[0], SOL_MPA, options[i].name,
					 octets, sizeof(int) - 1));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, setsockopt(self->fd[0], SOL_MPA, options[i].name,
					 (void *)8, sizeof(int)));
		EXPECT_EQ(EFAULT, errno);
		EXPECT_EQ(was, option_get(self->fd[0], SOL_MPA,
					  options[i].name));
	}
	EXPECT_EQ(1000, option_get(self->fd[0], SOL_MPA, MPA_SEGMENT));
}

/* ---- one send, several ULPDUs ---- */

TEST_F(send, segment_cuts_a_send)
{
	static const u32 sizes[] = {
		1, 2, 3, 63, 64, 500, 502, 506, 510, 512, 1000, 1024, 1442,
		1443, 4096, 20000 };
	u64 ulpdus = 0;
	int i;

	/* With the last sizes an FPDU is about as long as a segment. */
	for (i = 0; i < ARRAY_SIZE(sizes) + 5; i++) {
		const u32 n = i < ARRAY_SIZE(sizes) ? sizes[i] :
			      self->emss - 6 - 4 * (i - ARRAY_SIZE(sizes));
		ASSERT_EQ(0, segment(self, n));
		/* Send a full ULPDU, a short one, several, and several with a remainder. */
		ASSERT_EQ(n, put(self, n, 0));
		ASSERT_TRUE(taken_cut(self, n, n));
		ASSERT_EQ(9 * n, put(self, 9 * n, 0));
		ASSERT_TRUE(taken_cut(self, 9 * n, n));
		ASSERT_EQ(3 * n + 1, put(self, 3 * n + 1, 0));
		ASSERT_TRUE(taken_cut(self, 3 * n + 1, n));
		ulpdus += 1 + 9 + 3 + 1;
		if (n == 1)
			continue;
		ASSERT_EQ(n - 1, put(self, n - 1, 0));
		ASSERT_TRUE(taken_cut(self, n - 1, n));
		ulpdus++;
	}
	EXPECT_NO_MORE();
	EXPECT_EQ(ulpdus, mpa_info(self->fd[0]).tx_ulpdus);
	EXPECT_EQ(self->sent, mpa_info(self->fd[0]).tx_octets);

	ASSERT_EQ(0, segment(self, MPA_SEGMENT_OFF));
	ASSERT_EQ(5000, put(self, 5000, 0));
	EXPECT_RECORDS(5000);
}

/* CRCs are computed three at a time; records before the fault are sent. */
TEST_F(send, segment_cuts_up_to_a_fault)
{
	const u32 len = 300;
	int good;

	ASSERT_EQ(0, segment(self, len));
	for (good = 1; good < 9; good++) {
		u8 *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		u8 *from = page + 4096 - good * len - 100;
		ssize_t n;

		ASSERT_NE(MAP_FAILED, page);
		memcpy(from, stream_at(self->sent), good * len + 100);
		ASSERT_EQ(0, mprotect(page + 4096, 4096, PROT_NONE));
		n = send(self->fd[0], from, 12 * len, MSG_NOSIGNAL);
		EXPECT_EQ(good * len, n);
		if (n > 0)
			self->sent += n;
		ASSERT_TRUE(taken_cut(self, good * len, len));
		munmap(page, 8192);
	}
	EXPECT_NO_MORE();
}

/* The send is longer than any ULPDU, and than the buffers. */
TEST_F_TIMEOUT(send, a_long_send_is_cut, 120)
{
	static const int sizes[] = { 0, 1000, 65, MPA_ULPDU_MAX };
	const size_t len = 300001;
	struct reader reader;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		const struct connecting usual = {};

		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &usual));
		ASSERT_EQ(0, reader_start(&reader, self->fd[1]));
		ASSERT_EQ(0, segment(self, sizes[i]));
		EXPECT_EQ(len, put(self, len, 0));
		EXPECT_READER_HAS(&reader, len);
		if (!sizes[i])
			continue;
		EXPECT_EQ(len % sizes[i], reader.shortest);
		EXPECT_EQ(sizes[i], reader.longest);
		EXPECT_EQ((len + sizes[i] - 1) / sizes[i], reader.records);
	}
	EXPECT_EQ(EMSGSIZE, segment(self, MPA_SEGMENT_OFF) ?:
		  put(self, len, 0) < 0 ? errno : 0);
}

TEST_F(send, segment_0_fills_segments)
{
	static const int sizes[] = { 0, 1460, 1459, 1458, 1457, 1000, 536 };
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		const struct connecting how = { .maxseg = sizes[i] };
		size_t len;

		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &how));
		ASSERT_EQ(0, segment(self, MPA_SEGMENT_FILL));
		for (len = 1; len < 40000; len = len * 3 + 1) {
			ASSERT_EQ(len, put(self, len, 0));
			ASSERT_TRUE(taken_filling(self, len)) {
				TH_LOG("send of %zu, EMSS %u", len, self->emss);
			}
		}
		EXPECT_NO_MORE();
		EXPECT_EQ(self->emss / 4,
			  mpa_info(self->fd[0]).emss / 4);
	}
}

/* MPA_SEGMENT changes forth and back, with and without data in flight. */
TEST_F(send, segment_can_change_at_any_time)
{
	static const int sizes[] = {
		1024, 0, 64, MPA_SEGMENT_OFF, 0, 3000, 1024, 512, 0, 1,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_EQ(0, segment(self, sizes[i]));
		ASSERT_EQ(2999, put(self, 2999, 0));
		if (i & 4)
			ASSERT_TRUE(acked(self->fd[0]));
	}
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u64 end = self->seen + 2999;

		if (sizes[i]) {
			ASSERT_TRUE(taken_cut(self, 2999, sizes[i] < 0 ?
					      2999 : sizes[i]));
		}
		/* The MSS may still be fitted to records in flight. */
		while (self->seen < end)
			ASSERT_LT(0, take(self, 0));
		ASSERT_EQ(end, self->seen);
	}
	EXPECT_NO_MORE();

	/* Without data in flight earlier records have no effect. */
	ASSERT_TRUE(acked(self->fd[0]));
	ASSERT_EQ(0, segment(self, 0));
	ASSERT_EQ(20000, put(self, 20000, 0));
	EXPECT_TRUE(taken_filling(self, 20000));
}

TEST_F(send, segment_of_zero_octets_is_none)
{
	ASSERT_EQ(0, segment(self, 100));
	EXPECT_EQ(-1, put(self, 0, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	ASSERT_EQ(0, segment(self, 0));
	EXPECT_EQ(-1, put(self, 0, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_NO_MORE();
}

TEST_F(send, control_message_holds_for_one_send)
{
	u16 small = 100;
	int n = 300;

	ASSERT_EQ(1000, put_with(self, 1000, MPA_SEGMENT, &n, sizeof(n)));
	EXPECT_RECORDS(300, 300, 300, 100);
	ASSERT_EQ(250, put_with(self, 250, MPA_SEGMENT, &small, sizeof(small)));
	EXPECT_RECORDS(100, 100, 50);
	ASSERT_EQ(1000, put(self, 1000, 0));
	EXPECT_RECORDS(1000);
	EXPECT_EQ(-1, option_get(self->fd[0], SOL_MPA, MPA_SEGMENT));

	/* Values above the limit, and 0. */
	ASSERT_EQ(0, segment(self, 400));
	n = MPA_SEGMENT_OFF;
	ASSERT_EQ(1000, put_with(self, 1000, MPA_SEGMENT, &n, sizeof(n)));
	EXPECT_RECORDS(1000);
	n = MPA_SEGMENT_FILL;
	ASSERT_EQ(5000, put_with(self, 5000, MPA_SEGMENT, &n, sizeof(n)));
	EXPECT_TRUE(taken_filling(self, 5000));
	n = MPA_ULPDU_MAX;
	ASSERT_EQ(5000, put_with(self, 5000, MPA_SEGMENT, &n, sizeof(n)));
	EXPECT_RECORDS(5000);
	ASSERT_EQ(1000, put(self, 1000, 0));
	EXPECT_RECORDS(400, 400, 200);
	EXPECT_NO_MORE();
}

TEST_F(send, wrong_control_messages_send_nothing)
{
	static const int wrong[] = { -2, MPA_ULPDU_MAX + 1, 1 << 30, 1 << 31 };
	u8 octets[16] = { 100 };
	u16 wide = 0xffff;
	int i, n = 100;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		EXPECT_EQ(-1, put_with(self, 1000, MPA_SEGMENT, &wrong[i],
				       sizeof(int)));
		EXPECT_EQ(EINVAL, errno);
	}
	EXPECT_EQ(-1, put_with(self, 1000, MPA_SEGMENT, &wide, sizeof(wide)));
	EXPECT_EQ(EINVAL, errno);
	for (i = 0; i <= 8; i++) {
		if (i == sizeof(u16) || i == sizeof(int))
			continue;
		EXPECT_EQ(-1, put_with(self, 1000, MPA_SEGMENT, octets, i)) {
			TH_LOG("a value of %d octets", i);
		}
		EXPECT_EQ(EINVAL, errno);
	}
	/* The other options do not apply to a single send. */
	for (i = 0; i < 12; i++) {
		if (i == MPA_SEGMENT)
			continue;
		EXPECT_EQ(-1, put_with(self, 1000, i, &n, sizeof(n)));
		EXPECT_EQ(EINVAL, errno);
	}
	EXPECT_EQ(0, mpa_info(self->fd[0]).tx_ulpdus);
	ASSERT_EQ(9, put(self, 9, 0));
	EXPECT_RECORDS(9);
	EXPECT_NO_MORE();
}

/* ---- MSG_MORE and MSG_EOR ---- */

TEST_F(send, msg_eor_ends_the_record)
{
	/* MSG_EOR has no effect without MSG_MORE. */
	ASSERT_EQ(300, put(self, 300, MSG_EOR));
	EXPECT_RECORDS(300);

	ASSERT_EQ(100, put(self, 100, MSG_MORE));
	ASSERT_EQ(50, put(self, 50, MSG_MORE | MSG_EOR));
	ASSERT_EQ(70, put(self, 70, MSG_MORE | MSG_EOR));
	ASSERT_EQ(20, put(self, 20, MSG_MORE));
	ASSERT_EQ(10, put(self, 10, MSG_EOR));
	EXPECT_RECORDS(150, 70, 30);

	/* A call without octets ends a record. */
	ASSERT_EQ(100, put(self, 100, MSG_MORE));
	ASSERT_EQ(0, put(self, 0, MSG_MORE | MSG_EOR));
	ASSERT_EQ(33, put(self, 33, 0));
	EXPECT_RECORDS(100, 33);
	EXPECT_EQ(-1, put(self, 0, MSG_MORE | MSG_EOR));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_NO_MORE();
	EXPECT_EQ(6, mpa_info(self->fd[0]).tx_ulpdus);
}

/*
 * MSG_MORE
 *
 * MSG_EOR announces more records. If none comes, the last one is sent nevertheless.
 */
TEST_F(send, msg_more_and_eor_is_a_record_that_goes)
{
	ASSERT_EQ(100, put(self, 100, MSG_MORE | MSG_EOR));
	EXPECT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_RECORDS(100);
	ASSERT_EQ(0, segment(self, 1000));
	ASSERT_EQ(2500, put(self, 2500, MSG_MORE | MSG_EOR));
	EXPECT_RECORDS(1000, 1000, 500);
	ASSERT_EQ(2000, put(self, 2000, MSG_MORE));
	EXPECT_RECORDS(1000, 1000);
	ASSERT_EQ(100, put(self, 100, MSG_MORE | MSG_EOR));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_RECORDS(100);
	EXPECT_EQ(0, take(self, 0));
}

TEST_F(send, msg_more_fills_up_the_remainder)
{
	ASSERT_EQ(0, segment(self, 100));
	ASSERT_EQ(250, put(self, 250, MSG_MORE));
	ASSERT_EQ(30, put(self, 30, MSG_MORE));
	ASSERT_EQ(90, put(self, 90, 0));
	EXPECT_RECORDS(100, 100, 100, 70);

	/* 250 is a multiple of the ULPDU length, so no record is open. */
	ASSERT_EQ(250, put(self, 250, MSG_MORE));
	ASSERT_EQ(50, put(self, 50, MSG_MORE));
	EXPECT_EQ(-1, put(self, 0, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	ASSERT_EQ(10, put(self, 10, 0));
	EXPECT_RECORDS(100, 100, 100, 10);

	/* MSG_EOR, a call without octets, or a single octet ends a record. */
	ASSERT_EQ(250, put(self, 250, MSG_MORE | MSG_EOR));
	ASSERT_EQ(120, put(self, 120, MSG_MORE));
	ASSERT_EQ(0, put(self, 0, 0));
	ASSERT_EQ(199, put(self, 199, MSG_MORE));
	ASSERT_EQ(1, put(self, 1, 0));
	EXPECT_RECORDS(100, 100, 50, 100, 20, 100, 100);
	EXPECT_NO_MORE();
}

TEST_F(send, msg_more_fills_segments_across_sends)
{
	size_t sent = 0;

	ASSERT_EQ(0, segment(self, MPA_SEGMENT_FILL));
	while (sent < 20000) {
		ASSERT_EQ(777, put(self, 777, MSG_MORE));
		sent += 777;
	}
	ASSERT_EQ(1, put(self, 1, 0));
	EXPECT_TRUE(taken_filling(self, sent + 1));
	EXPECT_NO_MORE();
}

TEST_F(send, remainder_is_dropped_at_the_end)
{
	ASSERT_EQ(0, segment(self, 100));
	ASSERT_EQ(250, put(self, 250, MSG_MORE));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_RECORDS(100, 100);
	EXPECT_EQ(0, take(self, 0));
	EXPECT_EQ(0, take(self, 0));
}

/* If MPA_SEGMENT changes while a ULPDU is open, all octets arrive in order. */
TEST_F(send, open_record_outlives_a_change_of_segment)
{
	static const int sizes[] = { 100, 40, 0, MPA_SEGMENT_OFF, 1000, 10, 0 };
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_EQ(0, segment(self, sizes[i]));
		ASSERT_EQ(2055, put(self, 2055, MSG_MORE));
	}
	ASSERT_EQ(1, put(self, 1, 0));
	while (self->seen < self->sent)
		ASSERT_LT(0, take(self, 0));
	EXPECT_NO_MORE();
}

/* A failing call does not end the open record, whatever MPA_SEGMENT is. */
TEST_F(send, failing_call_leaves_the_open_record)
{
	static const int sizes[] = { 100, 600, MPA_SEGMENT_FILL };
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_EQ(0, segment(self, MPA_SEGMENT_OFF));
		ASSERT_EQ(2000, put(self, 2000, MSG_MORE));
		ASSERT_EQ(0, segment(self, sizes[i]));
		EXPECT_EQ(-1, send(self->fd[0], unreadable(50), 50, 0));
		EXPECT_EQ(EFAULT, errno);
		ASSERT_EQ(0, segment(self, MPA_SEGMENT_OFF));
		ASSERT_EQ(30, put(self, 30, 0));
		EXPECT_RECORDS(2030);
	}
	EXPECT_NO_MORE();
}

/* ---- a batch in a small send buffer ---- */

/* Whether all records of a batch are accepted before TCP sends any of it. */
static bool batch_accepted(void)
{
	int fd[2], size = 4096, i;

	if (tcp_pair(AF_INET, fd) || mpa_started_pair(fd, 0, 0) ||
	    setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)))
		return false;
	for (i = 0; i < 9; i++)
		if (send(fd[0], record_of(1450), 1450,
			 MSG_MORE | MSG_EOR | MSG_DONTWAIT) != 1450)
			break;
	hang_up(fd[0]);
	hang_up(fd[1]);
	return i == 9;
}

/*
 * As in TCP, a batch larger than SO_SNDBUF may fill the packet that it has begun. There
 * are several tries: MPA sends a batch that is incomplete after 10 ms.
 */
TEST_F(send, batch_fills_a_packet_beyond_the_send_buffer)
{
	bool accepted = false;
	int i;

	ASSERT_EQ(0, lo_mtu(65536));
	for (i = 0; i < 20 && !accepted; i++)
		accepted = batch_accepted();
	EXPECT_TRUE(accepted);
}

/* ---- segments: which records share one ---- */

#define SMALL	64
#define MANY	64	/* 64 records of 64 octets fit 4 segments of 1440 */

static void put_single(struct _test_data_send *self)
{
	int i;

	for (i = 0; i < MANY; i++) {
		put(self, SMALL, 0);
		/* Otherwise the next record would be packed with unsent ones. */
		while (unsent(self->fd[0]) > 0)
			poll(NULL, 0, 1);
		/* The initial congestion window has room for 8. */
		if (i % 8 == 7)
			acked(self->fd[0]);
	}
}

static void put_with_more(struct _test_data_send *self)
{
	int i;

	for (i = 1; i < MANY; i++)
		put(self, SMALL, MSG_MORE | MSG_EOR);
	put(self, SMALL, 0);
}

static void put_batch(struct _test_data_send *self)
{
	struct mmsghdr msgs[MANY] = {};
	struct iovec iov[MANY];
	int i;

	for (i = 0; i < MANY; i++) {
		iov[i].iov_base = stream_at(self->sent + i * SMALL);
		iov[i].iov_len = SMALL;
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	for (i = 0; i < MANY; ) {
		int n = sendmmsg(self->fd[0], msgs + i, MANY - i, 0);

		if (n <= 0)
			return;
		i += n;
	}
	self->sent += MANY * SMALL;
}

static void put_cut(struct _test_data_send *self)
{
	segment(self, SMALL);
	put(self, MANY * SMALL, 0);
	segment(self, MPA_SEGMENT_OFF);
}

static void put_cut_with_more(struct _test_data_send *self)
{
	int i;

	segment(self, SMALL);
	for (i = 1; i < MANY; i++)
		put(self, SMALL, MSG_MORE);
	put(self, SMALL, 0);
	segment(self, MPA_SEGMENT_OFF);
}

static void put_corked(struct _test_data_send *self)
{
	int i;

	option_put(self->fd[0], SOL_TCP, TCP_CORK, 1);
	for (i = 0; i < MANY; i++)
		put(self, SMALL, 0);
	option_put(self->fd[0], SOL_TCP, TCP_CORK, 0);
}

static const struct {
	const char *name;
	void (*put)(struct _test_data_send *self);
	bool waits;	/* other records can be packed with it */
} ways[] = {
	{ "single sends", put_single, false },
	{ "MSG_MORE | MSG_EOR", put_with_more, true },
	{ "sendmmsg", put_batch, true },
	{ "MPA_SEGMENT", put_cut, true },
	{ "MPA_SEGMENT and MSG_MORE", put_cut_with_more, true },
	{ "TCP_CORK", put_corked, true },
};

TEST_F(send, small_records_share_segments)
{
	const int tries = 5;
	int i, try;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		/*
		 * TCP holds it for 0.2 s, in which this process may not run: try
		 * several times.
		 */
		for (try = 0; try < tries; try++) {
			u32 again = retransmissions(self->fd[0]);
			u64 before = segments(self), after;

			ways[i].put(self);
			ASSERT_TRUE(taken_cut(self, MANY * SMALL, SMALL));
			after = segments(self) - before;
			again = retransmissions(self->fd[0]) - again;
			EXPECT_LE(ways[i].waits ? 4 : MANY, after) {
				TH_LOG("%s", ways[i].name);
			}
			if (after <= (ways[i].waits ? 5 : MANY) + again)
				break;
		}
		EXPECT_GT(tries, try) {
			TH_LOG("%s", ways[i].name);
		}
	}
	EXPECT_NO_MORE();
	EXPECT_TRUE(all_aligned(self));
}

TEST_F(send, without_packing_none_shares_a_segment)
{
	int i;

	ASSERT_EQ(0, option_put(self->fd[0], SOL_MPA, MPA_PACKING, 0));
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		u32 again = retransmissions(self->fd[0]);
		u64 before = segments(self), after;

		ways[i].put(self);
		ASSERT_TRUE(taken_cut(self, MANY * SMALL, SMALL));
		after = segments(self) - before;
		again = retransmissions(self->fd[0]) - again;
		EXPECT_LE(MANY, after) {
			TH_LOG("%s", ways[i].name);
		}
		EXPECT_GE(MANY + again, after) {
			TH_LOG("%s", ways[i].name);
		}
	}
	EXPECT_NO_MORE();
	EXPECT_TRUE(all_aligned(self));
}

/* Two FPDUs of 1300 octets do not fit a segment: none is split. */
TEST_F(send, no_fpdu_is_split_to_fill_a_segment)
{
	struct mmsghdr msgs[2] = {};
	struct iovec iov[2];
	int i, k;

	for (i = 0; i < 20; i++) {
		for (k = 0; k < 2; k++) {
			iov[k].iov_base = stream_at(self->sent + k * 1300);
			iov[k].iov_len = k ? 300 + 10 * i : 1300;
			msgs[k].msg_hdr.msg_iov = &iov[k];
			msgs[k].msg_hdr.msg_iovlen = 1;
		}
		ASSERT_EQ(2, sendmmsg(self->fd[0], msgs, 2, 0));
		self->sent += iov[0].iov_len + iov[1].iov_len;
		EXPECT_RECORDS(1300, 300 + 10 * i);
	}
	EXPECT_TRUE(all_aligned(self));
	EXPECT_LE(40, segments(self));
}

/* Send bulk data: every segment begins with an FPDU, and an skb has many segments. */
TEST_F(send, bulk_is_aligned)
{
	static const int sizes[] = { 0, 1000, 1024, 64, 1400 };
	struct mpa_info info;
	struct reader reader;
	int i, k;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		const struct connecting usual = {};

		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &usual));
		ASSERT_EQ(0, reader_start(&reader, self->fd[1]));
		ASSERT_EQ(0, segment(self, sizes[i]));
		for (k = 0; k < 8; k++)
			ASSERT_EQ(65536, put(self, 65536, 0));
		EXPECT_READER_HAS(&reader, 8 * 65536);
		info = mpa_info(self->fd[0]);
		/*
		 * On a busy machine TCP may cut a tail loss probe at the window's edge;
		 * and a late reader causes window probes.
		 */
		EXPECT_EQ(0, statistic("MpaTxSegsOversized"));
		EXPECT_EQ(0, statistic("MpaTxSegsOther"))
			all_aligned(self);
		EXPECT_LT(8 * 65536 / 1448, info.tx_segs_aligned);
		EXPECT_LT(0, info.tx_packets);
	}
}

TEST_F(send, oversized_records_are_counted)
{
	u64 before;

	ASSERT_EQ(1000, put(self, 1000, 0));
	EXPECT_RECORDS(1000);
	before = segments(self);
	EXPECT_EQ(before, mpa_info(self->fd[0]).tx_segs_aligned);
	ASSERT_EQ(10000, put(self, 10000, 0));
	EXPECT_RECORDS(10000);
	/* The first of these segments begins with the FPDU. */
	EXPECT_LE(7, segments(self) - before);
	EXPECT_EQ(before + 1, mpa_info(self->fd[0]).tx_segs_aligned);
	EXPECT_LE(6, mpa_info(self->fd[0]).tx_segs_unaligned);
	EXPECT_EQ(mpa_info(self->fd[0]).tx_segs_unaligned,
		  statistic("MpaTxSegsOversized"));

	/* The next FPDU has a segment of its own again. */
	before = mpa_info(self->fd[0]).tx_segs_aligned;
	ASSERT_EQ(1000, put(self, 1000, 0));
	EXPECT_RECORDS(1000);
	EXPECT_TRUE(acked(self->fd[0]));
	EXPECT_LT(before, mpa_info(self->fd[0]).tx_segs_aligned);
}

TEST_F(send, statistics_are_the_sum_of_the_sockets)
{
	struct mpa_info a, b;

	ASSERT_EQ(0, statistic("MpaTxSegsOther"));
	ASSERT_EQ(30000, put(self, 30000, 0));
	EXPECT_RECORDS(30000);
	ASSERT_EQ(30000, send(self->fd[1], stream_row, 30000, 0));
	ASSERT_EQ(30000, recv(self->fd[0], self->buf, 30000, 0));
	ASSERT_EQ(0, segment(self, 1000));
	ASSERT_EQ(5000, put(self, 5000, 0));
	ASSERT_TRUE(acked(self->fd[0]) && acked(self->fd[1]));

	a = mpa_info(self->fd[0]);
	b = mpa_info(self->fd[1]);
	EXPECT_EQ(a.tx_packets + b.tx_packets, statistic("MpaTxPackets"));
	EXPECT_EQ(a.tx_segs_aligned + b.tx_segs_aligned,
		  statistic("MpaTxSegsAligned"));
	EXPECT_EQ(a.tx_segs_unaligned + b.tx_segs_unaligned,
		  statistic("MpaTxSegsOversized") +
		  statistic("MpaTxSegsWindow") + statistic("MpaTxSegsOther"));
	EXPECT_LT(0, a.tx_packets);
	EXPECT_LT(0, b.tx_segs_unaligned);

	/* The counters outlive the sockets, and are per network namespace. */
	hang_up(self->fd[0]);
	self->fd[0] = -1;
	EXPECT_EQ(a.tx_segs_aligned + b.tx_segs_aligned,
		  statistic("MpaTxSegsAligned"));
	ASSERT_EQ(0, own_netns());
	EXPECT_EQ(0, statistic("MpaTxSegsAligned"));
}

/* ---- the path ---- */

static int mulpdu(struct _test_data_send *self)
{
	return option_get(self->fd[0], SOL_MPA, MPA_MULPDU);
}

/* Return: MULPDU as in RFC 5044 section 4.5 */
static int mulpdu_of(u32 emss, bool marked)
{
	return emss - (6 + (marked ? 4 * ((emss + 511) / 512) : 0) + emss % 4);
}

TEST_F(send, mulpdu_follows_the_path_at_once)
{
	static const int mtus[] = { 9000, 1500, 4001, 1280, 1499, 9000, 1500 };
	const int headers = variant->family == AF_INET ? 52 : 72;
	const struct connecting usual = {};
	int i;

	ASSERT_EQ(0, lo_mtu(9000));
	ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
			       &usual));
	for (i = 0; i < ARRAY_SIZE(mtus); i++) {
		const u32 emss = mtus[i] - headers;

		ASSERT_EQ(0, lo_mtu(mtus[i]));
		EXPECT_EQ(mulpdu_of(emss, variant->marked), mulpdu(self)) {
			TH_LOG("MTU %d", mtus[i]);
		}
		EXPECT_EQ(emss, mpa_info(self->fd[0]).emss);
		/* The ULPDUs have these lengths, too. */
		self->emss = emss;
		ASSERT_EQ(0, segment(self, MPA_SEGMENT_FILL));
		ASSERT_EQ(20000, put(self, 20000, 0));
		EXPECT_TRUE(taken_filling(self, 20000)) {
			TH_LOG("MTU %d", mtus[i]);
		}
		ASSERT_EQ(0, segment(self, MPA_SEGMENT_OFF));
		ASSERT_TRUE(acked(self->fd[0]));
	}
	EXPECT_NO_MORE();
}

TEST_F(send, oversize_0_refuses_what_no_segment_holds)
{
	const int most = mulpdu(self);
	int n;

	ASSERT_EQ(0, option_put(self->fd[0], SOL_MPA, MPA_OVERSIZE, 0));
	ASSERT_EQ(most, put(self, most, 0));
	EXPECT_RECORDS(most);
	EXPECT_EQ(-1, put(self, most + 1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, put(self, MPA_ULPDU_MAX, 0));
	EXPECT_EQ(EMSGSIZE, errno);

	/* The limit is also valid for an open ULPDU. */
	ASSERT_EQ(most, put(self, most, MSG_MORE));
	EXPECT_EQ(-1, put(self, 1, MSG_MORE));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, put(self, 1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	ASSERT_EQ(0, put(self, 0, 0));
	EXPECT_RECORDS(most);

	/* With MPA_SEGMENT the limit is for each ULPDU. */
	ASSERT_EQ(0, segment(self, most));
	ASSERT_EQ(3 * most + 5, put(self, 3 * most + 5, 0));
	EXPECT_RECORDS(most, most, most, 5);
	ASSERT_EQ(0, segment(self, most + 1));
	EXPECT_EQ(-1, put(self, 3 * most, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	ASSERT_EQ(10, put(self, 10, 0));
	EXPECT_RECORDS(10);
	ASSERT_EQ(0, segment(self, 0));
	ASSERT_EQ(9000, put(self, 9000, 0));
	EXPECT_TRUE(taken_filling(self, 9000));
	n = most + 1;
	EXPECT_EQ(-1, put_with(self, n, MPA_SEGMENT, &n, sizeof(n)));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_NO_MORE();
	EXPECT_EQ(0, mpa_info(self->fd[0]).tx_segs_unaligned);

	ASSERT_EQ(0, segment(self, MPA_SEGMENT_OFF));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_MPA, MPA_OVERSIZE, 1));
	ASSERT_EQ(most + 1, put(self, most + 1, 0));
	EXPECT_RECORDS(most + 1);
}

/* When the path MTU shrinks, ULPDUs that fitted before are refused at once. */
TEST_F(send, oversize_0_goes_by_the_path_of_the_moment)
{
	int most = mulpdu(self);

	ASSERT_EQ(0, option_put(self->fd[0], SOL_MPA, MPA_OVERSIZE, 0));
	ASSERT_EQ(0, lo_mtu(1300));
	EXPECT_EQ(-1, put(self, most, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	ASSERT_EQ(0, lo_mtu(1500));
	EXPECT_EQ(most, put(self, most, 0));
	EXPECT_RECORDS(most);

	/* A ULPDU that has begun may be finished. */
	EXPECT_EQ(most, put(self, most, MSG_MORE));
	ASSERT_EQ(0, lo_mtu(1300));
	EXPECT_EQ(0, put(self, 0, 0));
	EXPECT_RECORDS(most);
	ASSERT_EQ(0, lo_mtu(1500));
}

/* ---- Nagle and cork ---- */

#define EXPECT_KNOBS(nodelay, cork) do {				\
	EXPECT_EQ(nodelay, option_get(self->fd[0], SOL_TCP,		\
				      TCP_NODELAY));			\
	EXPECT_EQ(cork, option_get(self->fd[0], SOL_TCP, TCP_CORK));	\
} while (0)

/* Fill the send buffer, while the peer does not read. */
static void put_all(struct _test_data_send *self, size_t len)
{
	while (put(self, len, MSG_DONTWAIT) > 0)
		;
}

TEST_F_TIMEOUT(send, nodelay_and_cork_are_the_users, 120)
{
	static const int sizes[] = { 0, 1024, 1, MPA_SEGMENT_OFF };
	int i, nodelay, cork;

	for (i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
		const struct connecting how = {
			.sndbuf = 100000, .rcvbuf = i % 2 ? 5000 : 60000,
		};

		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &how));
		ASSERT_EQ(0, segment(self, sizes[i / 2]));
		EXPECT_KNOBS(1, 0);
		/* Send more than the window, which then opens in small steps. */
		put_all(self, 3001);
		EXPECT_KNOBS(1, 0);
		for (nodelay = 0; nodelay < 2; nodelay++) {
			for (cork = 0; cork < 2; cork++) {
				option_put(self->fd[0], SOL_TCP, TCP_NODELAY,
					   nodelay);
				option_put(self->fd[0], SOL_TCP, TCP_CORK,
					   cork);
				EXPECT_KNOBS(nodelay, cork);
				while (self->seen + 20000 < self->sent)
					ASSERT_LT(0, take(self, 0));
				EXPECT_KNOBS(nodelay, cork);
				put_all(self, 3001);
				EXPECT_KNOBS(nodelay, cork);
			}
		}
		/* Read all: short segments are sent once the cork is removed. */
		option_put(self->fd[0], SOL_TCP, TCP_CORK, 0);
		while (self->seen < self->sent)
			ASSERT_LT(0, take(self, 0));
		EXPECT_KNOBS(1, 0);
		EXPECT_NO_MORE();
	}
}

/* Octets that are held before the cork is set are sent when it is removed. */
TEST_F(send, cork_holds_and_lets_go)
{
	bool held = false;
	int i;

	for (i = 0; i < 20; i++) {
		ASSERT_TRUE(acked(self->fd[0]));
		option_put(self->fd[0], SOL_TCP, TCP_CORK, 1);
		ASSERT_EQ(100, put(self, 100, 0));
		ASSERT_EQ(50, put(self, 50, 0));
		/* TCP holds them for 0.2 s, in which this process may not run. */
		held |= unsent(self->fd[0]) >= 150;
		option_put(self->fd[0], SOL_TCP, TCP_CORK, 0);
		EXPECT_EQ(0, unsent(self->fd[0]));
		EXPECT_RECORDS(100, 50);
	}
	EXPECT_TRUE(held);
	EXPECT_KNOBS(1, 0);

	/* MSG_MORE holds octets, too, until a send without it. */
	held = false;
	for (i = 0; i < 20; i++) {
		ASSERT_TRUE(acked(self->fd[0]));
		ASSERT_EQ(100, put(self, 100, MSG_MORE | MSG_EOR));
		held |= unsent(self->fd[0]) >= 100;
		ASSERT_EQ(50, put(self, 50, 0));
		EXPECT_EQ(0, unsent(self->fd[0]));
		EXPECT_RECORDS(100, 50);
	}
	EXPECT_TRUE(held);
	EXPECT_KNOBS(1, 0);

	/* TCP_NODELAY sends held octets, as with TCP. */
	option_put(self->fd[0], SOL_TCP, TCP_NODELAY, 0);
	ASSERT_EQ(100, put(self, 100, MSG_MORE | MSG_EOR));
	option_put(self->fd[0], SOL_TCP, TCP_NODELAY, 1);
	EXPECT_EQ(0, unsent(self->fd[0]));
	EXPECT_RECORDS(100);
}

/* Nagle's algorithm delays records after an unacknowledged one, and MPA packs them. */
TEST_F(send, nagle_packs_whole_records)
{
	int i;

	option_put(self->fd[0], SOL_TCP, TCP_NODELAY, 0);
	for (i = 0; i < 200; i++)
		ASSERT_EQ(100, put(self, 100, 0));
	ASSERT_TRUE(taken_cut(self, 20000, 100));
	EXPECT_TRUE(all_aligned(self));
	EXPECT_KNOBS(0, 0);
	EXPECT_NO_MORE();
}

TEST_HARNESS_MAIN
