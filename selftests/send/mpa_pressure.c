// SPDX-License-Identifier: GPL-2.0
/*
 * Full send buffers, slow peers, interrupted programs, and several senders: only
 * accepted octets arrive, in whole records.
 */

#include <signal.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_send.h"

static int fresh(struct _test_data_send *self,
		 const struct _fixture_variant_send *variant, int sndbuf,
		 int rcvbuf)
{
	const struct connecting how = { .sndbuf = sndbuf, .rcvbuf = rcvbuf };

	return reconnect(self, variant->family, variant->marked, &how);
}

/* Receive the available octets. Return: their number, or -1. */
static ssize_t take_some(struct _test_data_send *self, size_t most)
{
	u64 was = self->seen;

	while (self->seen - was < most) {
		if (take(self, MSG_DONTWAIT) > 0)
			continue;
		return errno == EAGAIN ? self->seen - was : -1;
	}
	return self->seen - was;
}

/* After EAGAIN, read until poll allows a send. Return: whether it does in time. */
static bool make_room(struct _test_data_send *self)
{
	long end = now_ms() + 20000;

	while (!poll_for(self->fd[0], POLLOUT, 0)) {
		if (take_some(self, 100000) < 0 || now_ms() > end)
			return false;
		/* Acknowledgements may be late. */
		poll_for(self->fd[0], POLLOUT, 10);
	}
	return true;
}

/* ---- not blocking ---- */

TEST_F_TIMEOUT(send, nonblocking_send_takes_whole_records, 120)
{
	static const int sizes[] = { 1000, 0, 17, 20000, MPA_ULPDU_MAX };
	const size_t len = 200000;
	int i, partly = 0;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		const u32 n = sizes[i];
		int k;

		ASSERT_EQ(0, fresh(self, variant, 20000, 20000));
		ASSERT_EQ(0, segment(self, n));
		for (k = 0; k < 50; k++) {
			ssize_t done = put(self, len, MSG_DONTWAIT);

			if (done < 0) {
				ASSERT_EQ(EAGAIN, errno);
				ASSERT_TRUE(make_room(self));
				continue;
			}
			ASSERT_LT(0, done);
			partly += done < len;
			/* Octets after the last record are in no record yet. */
			if (n && done < len)
				ASSERT_EQ(0, done % n);
		}
		while (self->seen < self->sent)
			ASSERT_LT(0, take(self, 0));
		EXPECT_NO_MORE();
		EXPECT_EQ(self->sent, mpa_info(self->fd[0]).tx_octets);
	}
	EXPECT_LT(0, partly);
}

/* A record may begin below the limit and end above it; one more packet is allowed. */
TEST_F(send, notsent_lowat_bounds_what_waits)
{
	static const u32 sizes[] = { 100, 1000, 3000, 20000 };
	const u32 mark = 16384;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct tcp_info info = {};
		socklen_t len = sizeof(info);

		ASSERT_EQ(0, fresh(self, variant, 1000000, 20000));
		ASSERT_EQ(0, option_put(self->fd[0], SOL_TCP,
					TCP_NOTSENT_LOWAT, mark));
		while (put(self, sizes[i], MSG_DONTWAIT) > 0)
			;
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_EQ(0, getsockopt(self->fd[0], SOL_TCP, TCP_INFO, &info,
					&len));
		EXPECT_GT(2 * (mark + sizes[i]), info.tcpi_notsent_bytes) {
			TH_LOG("records of %u octets", sizes[i]);
		}
		while (self->seen < self->sent)
			ASSERT_LT(0, take(self, 0));
		EXPECT_NO_MORE();
	}
}

TEST_F_TIMEOUT(send, nonblocking_send_is_all_or_nothing, 120)
{
	static const u32 sizes[] = { 100, 5000, MPA_ULPDU_MAX };
	int i, k, full = 0;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		const u32 n = sizes[i];

		ASSERT_EQ(0, fresh(self, variant, 20000, 20000));
		for (k = 0; k < 200; k++) {
			ssize_t done = put(self, n, MSG_DONTWAIT);

			if (done < 0) {
				ASSERT_EQ(EAGAIN, errno);
				full++;
				ASSERT_TRUE(make_room(self));
			} else {
				ASSERT_EQ(n, done);
			}
		}
		ASSERT_TRUE(taken_cut(self, self->sent - self->seen, n));
		EXPECT_NO_MORE();
	}
	EXPECT_LT(0, full);
}

/* With MSG_MORE and MPA_SEGMENT an incomplete ULPDU stays open. */
TEST_F_TIMEOUT(send, nonblocking_send_carries_on_an_open_record, 120)
{
	int k, full = 0;

	ASSERT_EQ(0, fresh(self, variant, 10000, 10000));
	ASSERT_EQ(0, segment(self, 1000));
	for (k = 0; k < 500; k++) {
		ssize_t done = put(self, 777, MSG_MORE | MSG_DONTWAIT);

		if (done > 0)
			continue;
		ASSERT_EQ(EAGAIN, errno);
		full++;
		ASSERT_TRUE(make_room(self));
	}
	EXPECT_LT(0, full);
	while (put(self, 1, MSG_DONTWAIT) < 0)
		ASSERT_TRUE(make_room(self));
	ASSERT_TRUE(taken_cut(self, self->sent - self->seen, 1000));
	EXPECT_NO_MORE();
}

/* EPOLLOUT is reported if and only if a record would be accepted. */
TEST_F_TIMEOUT(send, epollout_means_that_a_record_goes, 120)
{
	static const struct {
		int segment;
		u32 len;
	} kinds[] = {
		{ MPA_SEGMENT_OFF, 100 }, { MPA_SEGMENT_OFF, MPA_ULPDU_MAX },
		{ 0, 100000 }, { 1000, 100000 },
	};
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET };
	int i, k, epfd;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		ASSERT_EQ(0, fresh(self, variant, 30000, 30000));
		ASSERT_EQ(0, segment(self, kinds[i].segment));
		epfd = epoll_create1(0);
		event.events = EPOLLOUT | EPOLLET;
		ASSERT_EQ(0, epoll_ctl(epfd, EPOLL_CTL_ADD, self->fd[0],
				       &event));
		EXPECT_EQ(1, epoll_wait(epfd, &event, 1, 0));
		for (k = 0; k < 30; k++) {
			/* Level-triggered: while it is set, a record is accepted. */
			while (poll_for(self->fd[0], POLLOUT, 0)) {
				ASSERT_LT(0, put(self, kinds[i].len,
						 MSG_DONTWAIT));
			}
			/* Edge-triggered: after EAGAIN one event reports the space. */
			while (put(self, kinds[i].len, MSG_DONTWAIT) > 0)
				;
			EXPECT_EQ(EAGAIN, errno);
			while (self->seen < self->sent)
				ASSERT_LT(0, take(self, 0));
			EXPECT_EQ(1, epoll_wait(epfd, &event, 1, 20000)) {
				TH_LOG("record of %u, round %d", kinds[i].len,
				       k);
			}
			EXPECT_EQ(EPOLLOUT, event.events);
		}
		close(epfd);
	}
}

/* Records have different lengths, for which the MSS would change. */
TEST_F_TIMEOUT(send, epollout_waits_with_the_send, 120)
{
	static const int sizes[] = { 1000, 0, 600, 64 };
	int k, waits = 0;

	for (k = 0; k < 400; k++) {
		/* The peer may end its own half. */
		if (k == 200)
			ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
		ASSERT_EQ(0, segment(self, sizes[k % ARRAY_SIZE(sizes)]));
		if (put(self, 30000, MSG_DONTWAIT) > 0)
			continue;
		ASSERT_EQ(EAGAIN, errno);
		waits++;
		ASSERT_TRUE(make_room(self));
		ASSERT_LT(0, put(self, 30000, MSG_DONTWAIT)) {
			TH_LOG("round %d: %s", k, strerror(errno));
		}
	}
	EXPECT_LT(0, waits);
	while (self->seen < self->sent)
		ASSERT_LT(0, take(self, 0));
	EXPECT_NO_MORE();
}

/* ---- blocking ---- */

TEST_F_TIMEOUT(send, smallest_buffers_take_longest_records, 240)
{
	static const struct {
		int segment;
		size_t len;
	} kinds[] = {
		{ MPA_SEGMENT_OFF, MPA_ULPDU_MAX },
		{ MPA_ULPDU_MAX, 3 * MPA_ULPDU_MAX + 1 },
		{ 0, 100000 }, { 1000, 100000 },
	};
	struct reader reader;
	int i, k;

	for (i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
		size_t len = kinds[i / 2].len;

		ASSERT_EQ(0, fresh(self, variant, 1, i % 2 ? 1 : 0));
		ASSERT_EQ(0, segment(self, kinds[i / 2].segment));
		ASSERT_EQ(0, reader_start(&reader, self->fd[1]));
		for (k = 0; k < 3; k++)
			EXPECT_EQ(len, put(self, len, 0));
		EXPECT_READER_HAS(&reader, 3 * len);
	}
}

TEST_F_TIMEOUT(send, send_timeout_returns_what_was_accepted, 120)
{
	static const int sizes[] = { 1000, 0, 30000 };
	struct timeval time = { .tv_usec = 50000 };
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ssize_t n;

		ASSERT_EQ(0, fresh(self, variant, 20000, 20000));
		ASSERT_EQ(0, setsockopt(self->fd[0], SOL_SOCKET, SO_SNDTIMEO,
					&time, sizeof(time)));
		ASSERT_EQ(0, segment(self, sizes[i]));
		/* The receive buffer fills as well, so this sends more than the first call. */
		n = put(self, 300000, 0);
		EXPECT_LT(0, n);
		EXPECT_GT(300000, n);
		if (sizes[i])
			EXPECT_EQ(0, n % sizes[i]);
		while (put(self, 300000, 0) > 0)
			;
		EXPECT_EQ(EAGAIN, errno);
		while (self->seen < self->sent)
			ASSERT_LT(0, take(self, 0));
		EXPECT_NO_MORE();
	}
}

static void on_signal(int sig)
{
}

static void signals(bool on)
{
	struct sigaction act = { .sa_handler = on_signal };
	const struct itimerval often = {
		.it_interval.tv_usec = on ? 300 : 0,
		.it_value.tv_usec = on ? 300 : 0,
	};

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

/* Read in another process, so that only the sender gets signals. */
static pid_t reader_fork(struct _test_data_send *self, u64 *octets)
{
	struct reader reader = { .fd = self->fd[1] };
	int ends[2];
	pid_t pid;

	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		close(self->fd[0]);
		reader_run(&reader);
		if (reader.error)
			fprintf(stderr, "# reader: %s\n",
				strerror(reader.error));
		_exit(reader.error ||
		      write(ends[1], &reader.seen, sizeof(u64)) != sizeof(u64));
	}
	close(ends[1]);
	*octets = ends[0];
	return pid;
}

static bool reader_reaped(pid_t pid, u64 *octets)
{
	int end = *octets, status;
	bool good;

	good = read(end, octets, sizeof(u64)) == sizeof(u64);
	close(end);
	return waitpid(pid, &status, 0) == pid && !status && good;
}

TEST_F_TIMEOUT(send, signals_leave_whole_records, 120)
{
	static const struct {
		int segment;
		size_t len;
	} kinds[] = {
		{ MPA_SEGMENT_OFF, 30001 }, { 0, 100000 }, { 1000, 100000 },
		{ 64, 50000 }, { MPA_ULPDU_MAX, 300000 },
	};
	int i, k, cut = 0;
	u64 octets;
	pid_t pid;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		const int n = kinds[i].segment;

		ASSERT_EQ(0, fresh(self, variant, 20000, 20000));
		ASSERT_EQ(0, segment(self, n));
		pid = reader_fork(self, &octets);
		ASSERT_LT(0, pid);
		signals(true);
		for (k = 0; k < 60; k++) {
			ssize_t done = put(self, kinds[i].len, 0);

			if (done < 0) {
				ASSERT_EQ(EINTR, errno);
				cut++;
				continue;
			}
			if (done < kinds[i].len) {
				cut++;
				EXPECT_NE(MPA_SEGMENT_OFF, n);
				EXPECT_EQ(0, n > 0 ? done % n : 0);
			}
		}
		signals(false);
		shutdown(self->fd[0], SHUT_WR);
		ASSERT_TRUE(reader_reaped(pid, &octets));
		EXPECT_EQ(self->sent, octets);
	}
	EXPECT_LT(0, cut);
}

/* ---- several at once ---- */

/* Each word of a record has its sender and its number. */
struct stamp {
	u16 who;
	u16 which;
};

struct writer {
	pthread_t thread;
	int fd;
	u16 who;
	u32 len;		/* octets in a record, a multiple of 4 */
	u32 a_send;		/* records in a send, cut by MPA_SEGMENT */
	u32 records;
	u32 sent;		/* octets */
	int error;
};

static void *writer_run(void *arg)
{
	struct writer *w = arg;
	size_t size = w->len * w->a_send;
	struct stamp *stamps = malloc(size);
	u32 i, k, which = 0;

	for (i = 0; i < w->records; i += w->a_send) {
		for (k = 0; k < size / sizeof(*stamps); k++) {
			stamps[k].who = w->who;
			stamps[k].which = which + k * sizeof(*stamps) / w->len;
		}
		if (send(w->fd, stamps, size, MSG_NOSIGNAL) != size) {
			w->error = errno;
			break;
		}
		which += w->a_send;
		w->sent += size;
	}
	free(stamps);
	return NULL;
}

/* Check that each sender's records are whole, and in order. */
static bool writers_read(int fd, struct writer *w, int n)
{
	static struct stamp stamps[MPA_ULPDU_MAX / sizeof(struct stamp)];
	u32 next[4] = {}, left = 0;
	int i;

	for (i = 0; i < n; i++)
		left += w[i].records;
	for (; left; left--) {
		ssize_t len = recv(fd, stamps, sizeof(stamps), 0);

		if (len <= 0 || stamps[0].who >= n ||
		    len != w[stamps[0].who].len) {
			fprintf(stderr, "# a record of %zd octets (%s), begins with that of %u\n",
				len, len < 0 ? strerror(errno) : "",
				stamps[0].who);
			return false;
		}
		for (i = 1; i < len / sizeof(*stamps); i++) {
			if (!memcmp(&stamps[i], stamps, sizeof(*stamps)))
				continue;
			fprintf(stderr, "# octet %zu is of another record\n",
				i * sizeof(*stamps));
			return false;
		}
		if (stamps[0].which != (u16)next[stamps[0].who]++) {
			fprintf(stderr, "# record %u of %u is not the next\n",
				stamps[0].which, stamps[0].who);
			return false;
		}
	}
	return true;
}

static const struct writers {
	int segment;
	struct writer each[4];
} writers[] = {
	/* Each send is a record. */
	{ MPA_SEGMENT_OFF, { { .len = 9000, .a_send = 1, .records = 60 },
			     { .len = 4, .a_send = 1, .records = 200 },
			     { .len = 512, .a_send = 1, .records = 200 },
			     { .len = 60000, .a_send = 1, .records = 20 } } },
	/* With MPA_SEGMENT a long send waits for space between its records. */
	{ 1000, { { .len = 1000, .a_send = 100, .records = 600 },
		  { .len = 1000, .a_send = 1, .records = 200 },
		  { .len = 1000, .a_send = 7, .records = 700 },
		  { .len = 400, .a_send = 1, .records = 200 } } },
	{ 64, { { .len = 64, .a_send = 1000, .records = 2000 },
		{ .len = 64, .a_send = 1000, .records = 2000 },
		{ .len = 64, .a_send = 1, .records = 100 },
		{ .len = 4, .a_send = 1, .records = 100 } } },
};

TEST_F_TIMEOUT(send, records_of_threads_stay_whole, 120)
{
	int i, k;

	for (i = 0; i < ARRAY_SIZE(writers); i++) {
		struct writers all = writers[i];

		ASSERT_EQ(0, fresh(self, variant, 20000, 20000));
		ASSERT_EQ(0, segment(self, all.segment));
		for (k = 0; k < 4; k++) {
			all.each[k].fd = self->fd[0];
			all.each[k].who = k;
			pthread_create(&all.each[k].thread, NULL, writer_run,
				       &all.each[k]);
		}
		ASSERT_TRUE(writers_read(self->fd[1], all.each, 4));
		for (k = 0; k < 4; k++) {
			pthread_join(all.each[k].thread, NULL);
			EXPECT_EQ(0, all.each[k].error);
		}
		EXPECT_EQ(-1, take(self, MSG_DONTWAIT));
	}
}

TEST_F_TIMEOUT(send, records_of_processes_stay_whole, 120)
{
	int i, k, status;
	pid_t pid[4];

	for (i = 0; i < ARRAY_SIZE(writers); i++) {
		struct writers all = writers[i];

		ASSERT_EQ(0, fresh(self, variant, 20000, 20000));
		ASSERT_EQ(0, segment(self, all.segment));
		for (k = 0; k < 4; k++) {
			all.each[k].fd = self->fd[0];
			all.each[k].who = k;
			pid[k] = fork();
			if (pid[k])
				continue;
			writer_run(&all.each[k]);
			_exit(all.each[k].error);
		}
		ASSERT_TRUE(writers_read(self->fd[1], all.each, 4));
		for (k = 0; k < 4; k++) {
			waitpid(pid[k], &status, 0);
			EXPECT_EQ(0, status);
		}
		EXPECT_EQ(-1, take(self, MSG_DONTWAIT));
	}
}

/* ---- ends ---- */

struct blocked {
	pthread_t thread;
	int fd;
	ssize_t sent;
	int error;
};

static void *blocked_run(void *arg)
{
	struct blocked *b = arg;

	b->sent = send(b->fd, stream_row, STREAM_PERIOD, MSG_NOSIGNAL);
	b->error = errno;
	return NULL;
}

/* Start a thread that sleeps in a send once the buffers are full. */
static int blocked_start(struct blocked *b, int fd)
{
	int octets = 0, same = 0, last = -1;

	memset(b, 0, sizeof(*b));
	b->fd = fd;
	if (pthread_create(&b->thread, NULL, blocked_run, b))
		return -1;
	/* The buffers are full when nothing was accepted for a while. */
	while (!octets || same < 20) {
		poll(NULL, 0, 2);
		if (ioctl(fd, SIOCOUTQ, &octets))
			return -1;
		same = octets == last ? same + 1 : 0;
		last = octets;
	}
	return 0;
}

/* The sleeping send holds the file: the connection lives until the send returns. */
TEST_F_TIMEOUT(send, close_by_another_thread_cuts_no_record, 60)
{
	static const int sizes[] = { 0, 1000, 60000 };
	struct blocked blocked;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_EQ(0, fresh(self, variant, 20000, 20000));
		ASSERT_EQ(0, segment(self, sizes[i]));
		ASSERT_EQ(0, blocked_start(&blocked, self->fd[0]));
		close(self->fd[0]);
		self->fd[0] = -1;
		while (self->seen < STREAM_PERIOD)
			ASSERT_LT(0, take(self, 0));
		EXPECT_EQ(0, take(self, 0));
		pthread_join(blocked.thread, NULL);
		EXPECT_EQ(STREAM_PERIOD, blocked.sent);
	}
}

TEST_F_TIMEOUT(send, shutdown_by_another_thread_cuts_no_record, 60)
{
	static const int sizes[] = { 0, 1000, 60000 };
	struct blocked blocked;
	ssize_t n;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_EQ(0, fresh(self, variant, 20000, 20000));
		ASSERT_EQ(0, segment(self, sizes[i]));
		ASSERT_EQ(0, blocked_start(&blocked, self->fd[0]));
		ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
		pthread_join(blocked.thread, NULL);
		/* It returns the octets sent so far, as with TCP. */
		ASSERT_LT(0, blocked.sent);
		EXPECT_GT(STREAM_PERIOD, blocked.sent);
		if (sizes[i])
			EXPECT_EQ(0, blocked.sent % sizes[i]);
		while ((n = take(self, 0)) > 0)
			;
		EXPECT_EQ(0, n);
		EXPECT_EQ(blocked.sent, self->seen);
	}
}

TEST_F_TIMEOUT(send, reset_wakes_the_sender, 60)
{
	static const int sizes[] = { 0, 1000, 60000 };
	struct blocked blocked;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_EQ(0, fresh(self, variant, 20000, 20000));
		ASSERT_EQ(0, segment(self, sizes[i]));
		ASSERT_EQ(0, blocked_start(&blocked, self->fd[0]));
		hang_up(self->fd[1]);
		self->fd[1] = -1;
		pthread_join(blocked.thread, NULL);
		EXPECT_GT(STREAM_PERIOD, blocked.sent);
		if (blocked.sent < 0)
			EXPECT_EQ(ECONNRESET, blocked.error);
		/* The next send returns the error at the latest, and it is returned once. */
		if (blocked.sent > 0) {
			EXPECT_EQ(-1, put(self, 10, 0));
			EXPECT_EQ(ECONNRESET, errno);
		}
		EXPECT_EQ(-1, put(self, 10, 0));
		EXPECT_EQ(EPIPE, errno);
	}
}

static int pipes;

static void on_pipe(int sig)
{
	pipes++;
}

TEST_F(send, sigpipe_is_as_with_tcp)
{
	struct sigaction act = { .sa_handler = on_pipe };

	sigaction(SIGPIPE, &act, NULL);
	ASSERT_EQ(0, segment(self, 100));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_EQ(-1, send(self->fd[0], stream_row, 1000, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(0, pipes);
	EXPECT_EQ(-1, send(self->fd[0], stream_row, 1000, 0));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(1, pipes);
	EXPECT_EQ(-1, write(self->fd[0], stream_row, 1000));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(2, pipes);
}

TEST_HARNESS_MAIN
