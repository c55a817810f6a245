// SPDX-License-Identifier: GPL-2.0
/* Faults while records are sent and received. */

#include <sys/epoll.h>
#include <sys/sendfile.h>

#include "mpa_faults.h"

/* ---- sending ---- */

static size_t send_one(struct _test_data_faults *self, int fd, u8 *row)
{
	return send_sized(self, fd, row, 1400);
}

static size_t send_longest(struct _test_data_faults *self, int fd, u8 *row)
{
	return send_sized(self, fd, row, MPA_ULPDU_MAX);
}

static size_t send_piecemeal(struct _test_data_faults *self, int fd, u8 *row)
{
	size_t done = 0;

	while (done < 30000) {
		int more = done + 6000 < 30000 ? MSG_MORE : 0;
		ssize_t n = send(fd, row + done, 6000, MSG_NOSIGNAL | more);

		if (n == 6000)
			done += n;
		else if (n >= 0 || !again(self))
			return 0;
	}
	return done;
}

static size_t send_cut_to(struct _test_data_faults *self, int fd, u8 *row, int segment,
			  size_t len)
{
	size_t done = 0;

	while (setsockopt(fd, SOL_MPA, MPA_SEGMENT, &segment, sizeof(segment)))
		if (!again(self))
			return 0;
	while (done < len) {
		ssize_t n = send(fd, row + done, len - done, MSG_NOSIGNAL);

		if (n > 0)
			done += n;
		else if (!n || !again(self))
			return 0;
	}
	return done;
}

static size_t send_cut(struct _test_data_faults *self, int fd, u8 *row)
{
	return send_cut_to(self, fd, row, 1024, 65536);
}

/* A run has several FPDUs; sometimes one is on two pages. */
static size_t send_cut_long(struct _test_data_faults *self, int fd, u8 *row)
{
	return send_cut_to(self, fd, row, 6000, 120000);
}

static size_t send_filling(struct _test_data_faults *self, int fd, u8 *row)
{
	return send_cut_to(self, fd, row, MPA_SEGMENT_FILL, 65536);
}

static size_t send_many(struct _test_data_faults *self, int fd, u8 *row)
{
	struct mmsghdr messages[20] = {};
	struct iovec iov[20];
	int i, n;

	for (i = 0; i < 20; i++) {
		iov[i] = (struct iovec){ row + i * 500, 500 };
		messages[i].msg_hdr.msg_iov = iov + i;
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	for (i = 0; i < 20; i += n) {
		n = sendmmsg(fd, messages + i, 20 - i, MSG_NOSIGNAL);
		if (n <= 0) {
			if (!n || !again(self))
				return 0;
			n = 0;
		}
	}
	return 10000;
}

static size_t send_file(struct _test_data_faults *self, int fd, u8 *row)
{
	size_t len = FILE_LEN;
	off_t at = 0;

	while (at < len) {
		ssize_t n = sendfile(fd, self->file, &at, len - at);

		if (!n || (n < 0 && !again(self)))
			return 0;
	}
	return len;
}

/*
 * Receive records from @fd, up to the record "the end". @longest: set to the length of
 * the longest.
 */
static ssize_t read_to_the_end(int fd, u8 *buf, size_t *longest)
{
	size_t done = 0, start = 0;

	*longest = 0;
	for (;;) {
		struct iovec iov = { buf + done, BUF - done };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n = recvmsg(fd, &msg, 0);

		if (n <= 0)
			return -1;
		done += n;
		if (!(msg.msg_flags & MSG_EOR))
			continue;
		if (done - start == 7 && !memcmp(buf + start, "the end", 7))
			return start;
		if (done - start > *longest)
			*longest = done - start;
		start = done;
	}
}

/* Whether the send buffer becomes empty, in spite of a fault. */
static bool all_acknowledged(int fd)
{
	long until = now_ms() + 20000;
	int octets;

	/* Sleep in each round, so that virtual time advances. */
	do {
		if (ioctl(fd, SIOCOUTQ, &octets))
			return false;
	} while (octets && now_ms() < until && !poll(NULL, 0, 1));
	return !octets;
}

static void walk_send(struct __test_metadata *_metadata, struct _test_data_faults *self,
		      size_t (*form)(struct _test_data_faults *self,
				     int fd, u8 *row), size_t longest)
{
	while (next_started(self)) {
		int way = self->nth % 3 == 0;
		size_t sent, most;

		if (way)
			ASSERT_TRUE(record_goes(self->fd[0], self->fd[1], 9));
		fault_arm(self->nth);
		sent = form(self, self->fd[way], record_row);
		self->hit = fault_disarm();
		ASSERT_NE(0, sent) TH_LOG("fault %u: %m", self->nth);
		ASSERT_EQ(7, send_sized(self, self->fd[way], (u8 *)"the end",
					7));
		ASSERT_EQ(sent, read_to_the_end(self->fd[!way], self->buf,
						&most));
		ASSERT_EQ(0, memcmp(self->buf, record_row, sent));
		ASSERT_GE(longest, most);
		ASSERT_TRUE(all_acknowledged(self->fd[way]));
	}
	EXPECT_WALKED();
}

TEST_F_TIMEOUT(faults, send_one, 300)
{
	walk_send(_metadata, self, send_one, 1400);
}

TEST_F_TIMEOUT(faults, send_longest, 300)
{
	walk_send(_metadata, self, send_longest, MPA_ULPDU_MAX);
}

TEST_F_TIMEOUT(faults, send_piecemeal, 300)
{
	walk_send(_metadata, self, send_piecemeal, 30000);
}

TEST_F_TIMEOUT(faults, send_cut, 300)
{
	walk_send(_metadata, self, send_cut, 1024);
}

TEST_F_TIMEOUT(faults, send_cut_long, 300)
{
	walk_send(_metadata, self, send_cut_long, 6000);
}

TEST_F_TIMEOUT(faults, send_filling, 300)
{
	walk_send(_metadata, self, send_filling, MPA_ULPDU_MAX);
}

TEST_F_TIMEOUT(faults, send_many, 300)
{
	walk_send(_metadata, self, send_many, 500);
}

TEST_F_TIMEOUT(faults, send_file, 300)
{
	walk_send(_metadata, self, send_file, MPA_ULPDU_MAX);
}

/* ---- receiving ---- */

/* Receive a record at fd[1], @step octets a call. Return: 0 if it is not as sent. */
static size_t receive(struct _test_data_faults *self, size_t len, size_t step, int how)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = recv(self->fd[1], self->buf + done, step, how);

		if (n > 0)
			done += how & MSG_PEEK ? 0 : n;
		else if (!n || !again(self))
			return 0;
		if (n > 0 && how & MSG_PEEK)
			return memcmp(self->buf, record_of(len), n) ? 0 : n;
	}
	return record_good(self->buf, len) ? len : 0;
}

static void walk_receive(struct __test_metadata *_metadata, struct _test_data_faults *self,
			 size_t len, size_t step)
{
	u8 *record = self->buf + MPA_ULPDU_MAX;

	record_fill(record, len);
	while (next_started(self)) {
		size_t peeked = len < step ? len : step, got;

		ASSERT_EQ(len, send(self->fd[0], record, len, 0));
		ASSERT_NE(0, poll_for(self->fd[1], POLLIN, 20000));
		fault_arm(self->nth);
		got = receive(self, len, step, MSG_PEEK);
		if (got == peeked)
			got = receive(self, len, step, 0);
		self->hit = fault_disarm();
		ASSERT_EQ(len, got) TH_LOG("fault %u: %m", self->nth);
		ASSERT_TRUE(records_go(self));
	}
	EXPECT_WALKED();
}

TEST_F_TIMEOUT(faults, receive_whole, 300)
{
	walk_receive(_metadata, self, 60000, MPA_ULPDU_MAX);
}

TEST_F_TIMEOUT(faults, receive_in_short_buffers, 300)
{
	walk_receive(_metadata, self, 5000, 700);
}

/* The record exceeds the receive buffer, so it is moved to the stash. */
TEST_F_TIMEOUT(faults, receive_what_exceeds_the_buffer, 300)
{
	u8 *record = self->buf + MPA_ULPDU_MAX;
	const size_t len = 60000;

	record_fill(record, len);
	while (next(self)) {
		size_t got;

		hang_up(self->fd[0]);
		hang_up(self->fd[1]);
		ASSERT_EQ(0, tcp_pair_buf(AF_INET, self->fd, 4096));
		patience(self->fd[0], 20);
		patience(self->fd[1], 20);
		ASSERT_EQ(0, mpa_started_pair(self->fd, flags(self), 0));
		/*
		 * The record has arrived, so most faults affect the reader, not the
		 * work item.
		 */
		ASSERT_EQ(len, send(self->fd[0], record, len, 0));
		fault_arm(self->nth);
		got = receive(self, len, len, 0);
		self->hit = fault_disarm();
		ASSERT_EQ(len, got) TH_LOG("fault %u: %m", self->nth);
		ASSERT_TRUE(records_go(self));
	}
	EXPECT_WALKED();
}

/* Shrink caches, as under memory pressure, so that no pages are kept for reuse. */
static bool shrink(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
	bool done = write(fd, "2", 1) == 1;

	close(fd);
	return done;
}

/*
 * A task that waits in edge-triggered epoll to send gets an event once there is memory.
 * Until then poll(2) reports no space.
 */
static void room_reported(struct __test_metadata *_metadata,
			  struct _test_data_faults *self, size_t len)
{
	unsigned int without = 0;
	bool spun = false;

	while (next_started(self)) {
		struct epoll_event event = { .events = EPOLLOUT | EPOLLET };
		int epoll = epoll_create1(0);
		ssize_t n;

		set_nonblock(self->fd[0]);
		ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->fd[0],
				       &event));
		ASSERT_EQ(1, epoll_wait(epoll, &event, 1, 20000));
		ASSERT_TRUE(shrink());
		fault_arm(self->nth);
		n = send(self->fd[0], record_row, len, MSG_NOSIGNAL);
		self->hit = fault_disarm();
		if (n < 0 && errno == EAGAIN) {
			without++;
			spun |= poll_for(self->fd[0], POLLOUT, 0) == POLLOUT;
			ASSERT_EQ(1, epoll_wait(epoll, &event, 1, 20000)) {
				TH_LOG("fault %u: no edge", self->nth);
			}
		}
		/* Repeat the send after EAGAIN, or after an error that took no octets. */
		if (n < 0)
			n = send(self->fd[0], record_row, len, MSG_NOSIGNAL);
		ASSERT_EQ(len, n) TH_LOG("fault %u: %m", self->nth);
		ASSERT_EQ(len, recv(self->fd[1], self->buf, len, 0));
		ASSERT_EQ(0, memcmp(self->buf, record_row, len));
		close(epoll);
	}
	EXPECT_WALKED();
	EXPECT_LT(0, without) TH_LOG("no send has lacked memory");
	EXPECT_FALSE(spun);
	TH_LOG("%u times without memory", without);
}

TEST_F_TIMEOUT(faults, edge_comes_when_there_is_memory_to_send, 300)
{
	room_reported(_metadata, self, 3000);
}

TEST_F_TIMEOUT(faults, edge_comes_when_there_is_memory_to_send_much, 300)
{
	room_reported(_metadata, self, MPA_ULPDU_MAX);
}

TEST_F_TIMEOUT(faults, splice_from_the_socket, 300)
{
	const size_t len = 9000;
	int pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	while (next_started(self)) {
		bool armed = true;
		size_t done = 0;

		record_fill(self->buf, len);
		ASSERT_EQ(len, send(self->fd[0], self->buf, len, 0));
		ASSERT_NE(0, poll_for(self->fd[1], POLLIN, 20000));
		fault_arm(self->nth);
		while (done < len) {
			ssize_t n;

			n = splice(self->fd[1], NULL, pipes[1], NULL,
				   len - done, 0);
			if (armed)
				self->hit = fault_disarm();
			armed = false;
			/* A fault within splice(2) is returned as EAGAIN. */
			ASSERT_TRUE(n > 0 || (n < 0 && (errno == EAGAIN ||
							again(self))))
				TH_LOG("fault %u: %zd %m", self->nth, n);
			if (n > 0)
				ASSERT_EQ(n, read(pipes[0], self->buf + done,
						  n));
			if (n > 0)
				done += n;
		}
		ASSERT_TRUE(record_good(self->buf, len));
		ASSERT_TRUE(records_go(self));
	}
	close(pipes[0]);
	close(pipes[1]);
	EXPECT_WALKED();
}

TEST_HARNESS_MAIN
