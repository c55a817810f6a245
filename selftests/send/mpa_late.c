// SPDX-License-Identifier: GPL-2.0
/*
 * MPA does not send later than plain TCP. For each way to send, and for sizes around
 * EMSS, this measures the time from a call until the octets have arrived, with and
 * without a delay on the path, and with and without TCP_NODELAY.
 *
 * Each row is printed with the median times of TCP and MPA, in milliseconds. The number
 * after a call's name is the length of a record; "m" is MSG_MORE, "e" MSG_MORE |
 * MSG_EOR, "n" MSG_DONTWAIT. A test fails for "LATE".
 */

#include "mpa_late.h"

FIXTURE(late)
{
	struct kind kind;
};

FIXTURE_VARIANT(late)
{
	bool far;
	bool nagle;
};

FIXTURE_VARIANT_ADD(late, near) { false, false };
FIXTURE_VARIANT_ADD(late, far) { true, false };
FIXTURE_VARIANT_ADD(late, near_nagle) { false, true };
FIXTURE_VARIANT_ADD(late, far_nagle) { true, true };

FIXTURE_SETUP(late)
{
	if (lacking)
		SKIP(_exit(255), "%s", lacking);
	memset(&self->kind, 0, sizeof(self->kind));
	self->kind.far = variant->far;
	self->kind.nagle = variant->nagle;
}

FIXTURE_TEARDOWN(late)
{
}

/* for tables of many sizes */
static const struct bound sweep = { 1, 1, PATIENCE };
/* for tables that have found defects before */
static const struct bound thorough = { 1, 2, PATIENCE };

#define EXPECT_IN_TIME(kind, rows, bound) do {				\
	int late_ = rows_late(kind, rows, ARRAY_SIZE(rows), bound);	\
									\
	EXPECT_EQ(0, late_) {						\
		TH_LOG("%d of %zu rows are later than TCP, see above",	\
		       late_, ARRAY_SIZE(rows));			\
	}								\
} while (0)

/* ---- sends ---- */

TEST_F(late, single_records)
{
	static const struct row rows[] = {
		{ { S(1) } }, { { S(64) } }, { { S(1000) } },
		{ { S(MULPDU - 1) } }, { { S(MULPDU) } },
		{ { S(MULPDU + 1) } }, { { S(EMSS) } }, { { S(EMSS + 1) } },
		{ { S(2 * MULPDU - 1) } }, { { S(2 * MULPDU) } },
		{ { S(2 * MULPDU + 1) } }, { { S(2 * EMSS) } },
		{ { S(3 * MULPDU) } }, { { S(20000) } },
		{ { S(MPA_ULPDU_MAX) } },
	};

	EXPECT_IN_TIME(&self->kind, rows, &sweep);
}

/* Combine each size with each; fewer on the far path, which takes long. */
TEST_F(late, two_records_in_a_row)
{
	static const int sizes[] = { 64, 1000, MULPDU, 3000, 1, MULPDU + 1 };
	const int most = variant->far ? 4 : 6;
	int i, n = most * most, late;
	struct row rows[36] = {};

	for (i = 0; i < n; i++) {
		rows[i].step[0] = (struct step)S(sizes[i / most]);
		rows[i].step[1] = (struct step)S(sizes[i % most]);
	}
	late = rows_late(&self->kind, rows, n, &sweep);
	EXPECT_EQ(0, late) {
		TH_LOG("%d of %d rows are later than TCP, see above", late, n);
	}
}

/* Enough records of one size that the MSS is fitted to them. */
TEST_F(late, equal_records_on_an_idle_connection)
{
	static const struct row rows[] = {
		{ { S(64) }, .warm = 16, .warm_len = 64 },
		{ { S(MULPDU) }, .warm = 16, .warm_len = 64 },
		{ { S(64), S(MULPDU) }, .warm = 16, .warm_len = 64 },
		{ { S(64), S(MULPDU) }, .warm = 17, .warm_len = 64 },
		{ { S(64), S(1000) }, .warm = 17, .warm_len = 64 },
		{ { S(MULPDU), S(64) }, .warm = 17, .warm_len = 64 },
		{ { S(MULPDU), S(MULPDU) }, .warm = 17, .warm_len = 64 },
		{ { S(64), S(3000) }, .warm = 17, .warm_len = 64 },
		{ { S(700), S(MULPDU) }, .warm = 17, .warm_len = 700 },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

/* The send buffer is empty, or almost. */
TEST_F(late, sends_that_do_not_wait_are_accepted)
{
	static const struct row rows[] = {
		{ { NOWAIT(64), NOWAIT(MULPDU) } },
		{ { NOWAIT(MULPDU), NOWAIT(MULPDU + 1) } },
		{ { NOWAIT(MULPDU) }, .warm = 17, .warm_len = 64 },
		{ { NOWAIT(64), NOWAIT(MULPDU) }, .warm = 17, .warm_len = 64 },
		{ { NOWAIT(64), NOWAIT(3000) }, .warm = 17, .warm_len = 64 },
		{ { NOWAIT(700), NOWAIT(MULPDU) },
		  .warm = 17, .warm_len = 700 },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

/* ---- MSG_MORE ---- */

TEST_F(late, record_in_pieces)
{
	static const struct row rows[] = {
		{ { MORE(1), S(1) } },
		{ { MORE(500), S(500) } },
		{ { MORE(1), S(MULPDU - 1) } },
		{ { MORE(MULPDU - 1), S(1) } },
		{ { MORE(MULPDU), S(1) } },
		{ { MORE(1500), S(1500) } },
		{ { MORE(5000), S(1) } },
		{ { MORE(20000), MORE(20000), S(500) } },
	};

	EXPECT_IN_TIME(&self->kind, rows, &sweep);
}

/* MSG_MORE announces records that never follow. */
TEST_F(late, batch_left_open)
{
	static const struct row rows[] = {
		{ { EOR(1) }, BARE_SOON },
		{ { EOR(64) }, BARE_SOON },
		{ { EOR(1000) }, BARE_SOON },
		{ { EOR(MULPDU) }, BARE_SOON },
		{ { EOR(MULPDU + 1) }, BARE_SOON },
		{ { EOR(2 * MULPDU) }, BARE_SOON },
		{ { EOR(3000) }, BARE_SOON },
		{ { EOR(5000) }, BARE_SOON },
		{ { EOR(20000) }, BARE_SOON },
		{ { EORN(64, 30) }, BARE_SOON },
		{ { EOR(64), EOR(3000), EOR(64) }, BARE_SOON },
		{ { EORN(1000, 5) }, BARE_SOON },
		{ { EORN(700, 29) }, BARE_SOON, .sndbuf = 5000 },
		{ { EORN(700, 29) }, BARE_SOON, .sndbuf = 10000 },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

/* SIOCOUTQ passes queued octets to TCP, which sends them at once. */
TEST_F(late, batch_left_open_and_asked_for)
{
	static const struct row rows[] = {
		{ { EOR(64), { ASK } }, BARE_SOON },
		{ { EOR(1000), { ASK } }, BARE_SOON },
		{ { EOR(3000), { ASK } }, BARE_SOON },
		{ { EOR(20000), { ASK } }, BARE_SOON },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

TEST_F(late, batch_that_ends)
{
	static const struct row rows[] = {
		{ { EORN(64, 9), S(64) } },
		{ { EORN(1000, 3), S(1000) } },
		{ { EOR(1000), S(64) } },
		{ { EOR(64), S(1000) } },
		{ { EOR(MULPDU), S(64) } },
		{ { EOR(3000), S(3000) } },
		{ { EORN(700, 29), S(700) } },
		{ { EOR(100), EOR(1400), EOR(100), S(1400) } },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

/* ---- sendmmsg ---- */

TEST_F(late, messages)
{
	static const struct row rows[] = {
		{ { MSG(64), MSG(64), MSG(64) } },
		{ { MSG(1000), MSG(1000) } },
		{ { MSG(1000), MSG(1000), MSG(1000), MSG(1000) } },
		{ { MSG(64), MSG(MULPDU) } },
		{ { MSG(MULPDU), MSG(64) } },
		{ { MSG(MULPDU + 1), MSG(1) } },
		{ { MSG(3000), MSG(500), MSG(64) } },
		{ { MSG(20000), MSG(20000) } },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

/* MPA refuses the last message; TCP's call does not have it. */
TEST_F(late, messages_up_to_one_that_is_refused)
{
	static const struct row rows[] = {
		{ { MSG(64), MSG(70000) } },
		{ { MSG(64), MSG(64), MSG(70000) } },
		{ { MSG(1000), MSG(1000), MSG(70000) } },
		{ { MSG(MULPDU), MSG(64), MSG(70000) } },
		{ { MSG(3000), MSG(3000), MSG(70000) } },
		{ { MSG(64), MSG(20000), MSG(70000) } },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

/* ---- cut calls ---- */

TEST_F(late, cut_calls)
{
	static const struct row rows[] = {
		{ { S(640) }, .cut = 64 },
		{ { S(1000) }, .cut = 64 },
		{ { S(3000) }, .cut = 64 },
		{ { S(1440) }, .cut = 1000 },
		{ { S(1500) }, .cut = 1000 },
		{ { S(3000) }, .cut = 1000 },
		{ { S(5000) }, .cut = MULPDU },
		{ { S(7000) }, .cut = 3000 },
		{ { S(1) }, .cut = CUT_FILL },
		{ { S(MULPDU - 1) }, .cut = CUT_FILL },
		{ { S(MULPDU) }, .cut = CUT_FILL },
		{ { S(MULPDU + 1) }, .cut = CUT_FILL },
		{ { S(3000) }, .cut = CUT_FILL },
		{ { S(20000) }, .cut = CUT_FILL },
		{ { S(1000), S(1000) }, .cut = CUT_FILL },
		{ { S(3000), S(3000) }, .cut = CUT_FILL },
		{ { S(1500), S(1500) }, .cut = 1000 },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

/* The last record stays open; it does not delay complete records before it. */
TEST_F(late, cut_calls_left_open)
{
	static const struct row rows[] = {
		{ { MORE(1000) }, BARE_SOON, 1000, .due = 1000 },
		{ { MORE(1500) }, BARE_SOON, 1000, .due = 1000 },
		{ { MORE(2500) }, BARE_SOON, 1000, .due = 2000 },
		{ { MORE(1000) }, BARE_SOON, 64, .due = 960 },
		{ { MORE(1500) }, BARE_SOON, CUT_FILL, .due = MULPDU },
		{ { MORE(3000) }, BARE_SOON, CUT_FILL, .due = 2 * MULPDU },
		{ { MORE(5000) }, BARE_SOON, 3000, .due = 3000 },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

TEST_F(late, cut_calls_left_open_and_asked_for)
{
	static const struct row rows[] = {
		{ { MORE(1500), { ASK } }, BARE_SOON, 1000, .due = 1000 },
		{ { MORE(1000), { ASK } }, BARE_SOON, 64, .due = 960 },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

/* ---- files and pipes ---- */

TEST_F(late, files)
{
	static const struct row rows[] = {
		{ { F(1) } }, { { F(64) } }, { { F(1000) } }, { { F(MULPDU) } },
		{ { F(MULPDU + 1) } }, { { F(3000) } }, { { F(4096) } },
		{ { F(20000) } }, { { F(70000) } }, { { F(200000) } },
		{ { F(1000), F(1000) } }, { { F(3000), F(64) } },
		{ { FEND(64) } }, { { FEND(1000) } }, { { FEND(3000) } },
		{ { FEND(70000) } }, { { FEND(1000), FEND(1000) } },
	};

	EXPECT_IN_TIME(&self->kind, rows, &sweep);
}

TEST_F(late, pipes)
{
	static const struct row rows[] = {
		{ { P(1) } }, { { P(1000) } }, { { P(MULPDU) } },
		{ { P(MULPDU + 1) } }, { { P(3000) } }, { { P(20000) } },
		{ { P(1000), P(1000) } }, { { PMORE(1000), P(1000) } },
		{ { PMORE(3000), P(64) } },
	};

	EXPECT_IN_TIME(&self->kind, rows, &sweep);
}

TEST_F(late, pipes_left_open)
{
	static const struct row rows[] = {
		{ { PMORE(1500) }, BARE_SOON, .due = MULPDU },
		{ { PMORE(3000) }, BARE_SOON, .due = 2 * MULPDU },
	};

	EXPECT_IN_TIME(&self->kind, rows, &thorough);
}

/* ---- TCP_CORK of the user ---- */

TEST_F(late, corked)
{
	static const struct row rows[] = {
		{ { { CORK, 1 }, S(500) } },
		{ { { CORK, 1 }, S(MULPDU) } },
		{ { { CORK, 1 }, S(3000) } },
		{ { { CORK, 1 }, S(500), { CORK, 0 } } },
		{ { { CORK, 1 }, S(500), S(500), { CORK, 0 } } },
		{ { { CORK, 1 }, S(3000), S(500), { CORK, 0 } } },
		{ { { CORK, 1 }, EOR(500), EOR(500), { CORK, 0 } } },
		{ { { CORK, 1 }, F(3000), { CORK, 0 } } },
	};

	EXPECT_IN_TIME(&self->kind, rows, &sweep);
}

/* ---- a lot of data through small buffers ---- */

FIXTURE(little)
{
	struct kind kind;
};

FIXTURE_SETUP(little)
{
	if (lacking)
		SKIP(_exit(255), "%s", lacking);
	memset(&self->kind, 0, sizeof(self->kind));
}

FIXTURE_TEARDOWN(little)
{
}

/* The kernel doubles the value. */
#define MEGABYTE(cutting, sndbuf_)					\
	{ { SN(65536, 15) }, .cut = cutting, .sndbuf = (sndbuf_) / 2 }
#define MEGABYTE_FILE(sndbuf_)						\
	{ { F(983040) }, .sndbuf = (sndbuf_) / 2 }

TEST_F(little, send_buffer)
{
	/* CRCs, copies and wakeups take time in an emulated guest. */
	static const struct bound bound = { 6, 1, 20000 };
	static const struct row rows[] = {
		MEGABYTE(CUT_FILL, 0), MEGABYTE(1000, 0), MEGABYTE_FILE(0),
		MEGABYTE(CUT_FILL, 4608), MEGABYTE(1000, 4608),
		MEGABYTE_FILE(4608),
		MEGABYTE(CUT_FILL, 10000), MEGABYTE(1000, 10000),
		MEGABYTE_FILE(10000),
		MEGABYTE(CUT_FILL, 20000), MEGABYTE(1000, 20000),
		MEGABYTE_FILE(20000),
	};

	EXPECT_IN_TIME(&self->kind, rows, &bound);
}

/*
 * MPA reads records longer than the receive buffer. On the far path most of the time is
 * spent waiting for the window.
 */
static void receive_buffer(struct __test_metadata *_metadata,
			   struct kind *kind, int rcvbuf)
{
	static const struct bound far = { 1.1, 1, 20000 };
	static const struct bound near = { 2, 1, 20000 };
	static const struct row rows[] = {
		{ { S(5000) } }, { { S(20000) } }, { { S(MPA_ULPDU_MAX) } },
		{ { SN(20000, 4) } },
	}, many[] = {
		{ { SN(5000, 20) } }, { { SN(20000, 20) } },
		{ { SN(MPA_ULPDU_MAX, 5) } },
	};

	kind->records = true;
	kind->rcvbuf = rcvbuf;
	if (kind->far)
		EXPECT_IN_TIME(kind, rows, &far);
	else
		EXPECT_IN_TIME(kind, many, &near);
}

TEST_F(little, receive_buffer_near)
{
	receive_buffer(_metadata, &self->kind, 4096);
}

TEST_F(little, larger_receive_buffer_near)
{
	receive_buffer(_metadata, &self->kind, 20000);
}

TEST_F(little, receive_buffer_far)
{
	self->kind.far = true;
	receive_buffer(_metadata, &self->kind, 10000);
}

TEST_F(little, larger_receive_buffer_far)
{
	self->kind.far = true;
	receive_buffer(_metadata, &self->kind, 20000);
}

/* ---- a window smaller than a segment, and nothing in flight ---- */

static u32 peer_window(int fd)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_snd_wnd;
}

/* Fill the window, except for less than a segment, of a peer that does not read. */
static bool window_filled(struct conn *c)
{
	u32 window = 0;
	int i;

	for (i = 0; i < 20; i++) {
		window = peer_window(c->fd[0]);
		if (window < EMSS)
			break;
		option_put(c->fd[1], SOL_TCP, TCP_QUICKACK, 1);
		if (!send_all(c->fd[0], window - 900, 0) || !acked(c->fd[0]))
			return false;
	}
	option_put(c->fd[1], SOL_TCP, TCP_QUICKACK, 0);
	return window >= 400 && window < EMSS;
}

/* Return: milliseconds until the row's octets have arrived. */
static double probed_after(const struct row *row, bool mpa)
{
	const struct kind kind = { .silent = true, .rcvbuf = 10000 };
	double ms = FAILED;
	u64 begin, before;
	struct conn c;

	if (!conn_open(&c, &kind, mpa) && window_filled(&c)) {
		if (mpa && row->cut)
			option_put(c.fd[0], SOL_MPA, MPA_SEGMENT,
				   row->cut == CUT_FILL ? 0 : row->cut);
		if (row->sndbuf) {
			option_put(c.fd[0], SOL_SOCKET, SO_SNDBUF, row->sndbuf);
			set_nonblock(c.fd[0]);
		}
		before = received(c.fd[1]);
		begin = now_ns();
		/* Octets beyond the window never arrive. */
		if (row_send(&c, row) || row->sndbuf) {
			while (received(c.fd[1]) == before &&
			       now_ns() - begin < PATIENCE * 1000000ull)
				usleep(500);
			ms = received(c.fd[1]) == before ? NEVER :
			     (now_ns() - begin) / 1e6;
		}
	}
	conn_close(&c);
	return ms;
}

/* When the probe timer expires, TCP sends the octets that fit the window. */
TEST_F(little, window_is_probed)
{
	static const struct row rows[] = {
		{ { S(2000) } }, { { S(5000) } },
		{ { S(3000) }, .cut = CUT_FILL },
		{ { F(2000) } }, { { F(5000) } },
		{ { P(2000) } }, { { PMORE(2000) }, BARE },
		{ { EOR(2000) }, BARE }, { { EOR(5000) }, BARE },
		{ { F(60000) }, .sndbuf = 4000 },
		{ { PMORE(60000) }, BARE, .sndbuf = 4000 },
	};
	int i, tries;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		bool good = false;
		double tcp, mpa;

		for (tries = virtual_time ? 1 : 3; tries && !good; tries--) {
			tcp = probed_after(&rows[i], false);
			mpa = probed_after(&rows[i], true);
			good = tcp >= 0 && mpa >= 0 &&
			       mpa <= tcp + soon + allowance;
		}
		print_row(&self->kind, &rows[i], tcp, mpa, good ? "" : "LATE");
		EXPECT_TRUE(good);
	}
}

/* ---- little memory ---- */

static int tcp_mem_put(const char *line)
{
	return pwrite(tcp_mem, line, strlen(line), 0) < 0 ? -1 : 0;
}

FIXTURE(shortage)
{
	struct conn hog;
	struct conn conn;
	char usual[64];
};

FIXTURE_SETUP(shortage)
{
	const struct kind kind = { .silent = true, .rcvbuf = 4096 };
	int large = 1 << 22;

	if (lacking)
		SKIP(_exit(255), "%s", lacking);
	memset(self->usual, 0, sizeof(self->usual));
	ASSERT_LT(0, pread(tcp_mem, self->usual, sizeof(self->usual) - 1, 0));
	ASSERT_EQ(0, conn_open(&self->hog, &kind, false));
	ASSERT_EQ(0, conn_open(&self->conn, &kind, true));
	ASSERT_EQ(0, setsockopt(self->hog.fd[0], SOL_SOCKET, SO_SNDBUFFORCE,
				&large, sizeof(large)));
	ASSERT_EQ(0, setsockopt(self->conn.fd[0], SOL_SOCKET, SO_SNDBUFFORCE,
				&large, sizeof(large)));
	/* Raise TCP's memory count, which is coarse, above any limit. */
	while (send(self->hog.fd[0], stream_row, sizeof(stream_row),
		    MSG_DONTWAIT) > 0)
		;
}

FIXTURE_TEARDOWN(shortage)
{
	tcp_mem_put(self->usual);
	conn_close(&self->hog);
	conn_close(&self->conn);
}

/* Return: the number of misaligned segments that the window did not cause. */
static long long misaligned(void)
{
	return statistic("MpaTxSegsOversized") + statistic("MpaTxSegsOther");
}

/*
 * No two records fit a segment, so each begins one, even if TCP had no memory for it
 * when the previous segment had to end.
 */
TEST_F(shortage, record_that_waited_for_memory_begins_a_segment)
{
	const long long before = misaligned();
	struct conn *c = &self->conn;
	int times, n;

	for (n = 0; n < 40; n++)
		ASSERT_TRUE(send_all(c->fd[0], 1000, MSG_DONTWAIT));
	for (times = 0; times < 5; times++) {
		ASSERT_EQ(0, tcp_mem_put("1 1 1"));
		while (n < 2000 && poll_for(c->fd[0], POLLOUT, 0))
			n += send_all(c->fd[0], 1000, MSG_DONTWAIT);
		ASSERT_GT(2000, n) {
			TH_LOG("TCP does not run out of memory");
		}
		ASSERT_EQ(0, tcp_mem_put(self->usual));
		ASSERT_EQ(POLLOUT, poll_for(c->fd[0], POLLOUT, 20000));
	}
	conn_expect(c, 1000 * n);
	ASSERT_EQ(0, conn_read(c));
	EXPECT_NE(0, conn_came(c, 30000));
	ASSERT_TRUE(acked(c->fd[0]));
	EXPECT_EQ(before, misaligned()) {
		TH_LOG("%lld segments of %d records do not begin with one",
		       misaligned() - before, n);
	}
}

TEST_HARNESS_MAIN
