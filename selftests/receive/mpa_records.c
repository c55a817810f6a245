// SPDX-License-Identifier: GPL-2.0
/* Sending and receiving records: boundaries, flags, poll, small buffers, threads. */

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_proc.h"

FIXTURE(mpa)
{
	int fd[2];
	u8 *record;
	u8 *buf;
};

FIXTURE_VARIANT(mpa)
{
	int family;
	unsigned int flags[2];
};

#define BOTH	{ MPA_START_MARKERS, MPA_START_MARKERS }
FIXTURE_VARIANT_ADD(mpa, ipv4) { AF_INET, { 0, 0 } };
FIXTURE_VARIANT_ADD(mpa, ipv4_to) { AF_INET, { 0, MPA_START_MARKERS } };
FIXTURE_VARIANT_ADD(mpa, ipv4_fro) { AF_INET, { MPA_START_MARKERS, 0 } };
FIXTURE_VARIANT_ADD(mpa, ipv4_both) { AF_INET, BOTH };
FIXTURE_VARIANT_ADD(mpa, ipv6) { AF_INET6, { 0, 0 } };
FIXTURE_VARIANT_ADD(mpa, ipv6_both) { AF_INET6, BOTH };

#define BUF	(1024 << 10)

FIXTURE_SETUP(mpa)
{
	self->record = malloc(BUF);
	self->buf = malloc(BUF);
	ASSERT_NE(NULL, self->record);
	ASSERT_NE(NULL, self->buf);
	ASSERT_EQ(0, tcp_pair(variant->family, self->fd));
	ASSERT_EQ(0, mpa_started_pair(self->fd, variant->flags[0],
				      variant->flags[1]));
}

FIXTURE_TEARDOWN(mpa)
{
	close(self->fd[0]);
	close(self->fd[1]);
	free(self->record);
	free(self->buf);
}

static int send_record(int fd, u8 *room, size_t len)
{
	record_fill(room, len);
	return send(fd, room, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -1;
}

/* Let the responder send: RFC 5044 section 7.1.2 rule 4. */
#define OPEN_RESPONDER() do {						\
	ASSERT_EQ(1, send(self->fd[0], "o", 1, 0));			\
	ASSERT_EQ(1, recv(self->fd[1], self->buf, BUF, 0));		\
} while (0)

TEST_F(mpa, one_send_is_one_recv)
{
	static const size_t lens[] = {
		1, 2, 3, 4, 5, 63, 500, 501, 502, 503, 504, 505, 506, 507, 508,
		509, 510, 511, 512, 513, 514, 1442, 1448, 4096, 32768, 60000,
		64765, 64766, 64767, MPA_ULPDU_MAX,
	};
	unsigned int i, way;

	for (way = 0; way < 2; way++) {
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			ASSERT_EQ(0, send_record(self->fd[way], self->record,
						 lens[i]));
			ASSERT_EQ(lens[i], recv(self->fd[!way], self->buf, BUF,
						0));
			ASSERT_TRUE(record_good(self->buf, lens[i]));
		}
	}
	EXPECT_EQ(ARRAY_SIZE(lens), mpa_info(self->fd[0]).tx_ulpdus);
	EXPECT_EQ(ARRAY_SIZE(lens), mpa_info(self->fd[0]).rx_ulpdus);
	EXPECT_EQ(mpa_info(self->fd[0]).tx_octets,
		  mpa_info(self->fd[1]).rx_octets);
	EXPECT_EQ(mpa_info(self->fd[0]).tx_markers,
		  mpa_info(self->fd[1]).rx_markers);
	EXPECT_EQ(!!variant->flags[1], !!mpa_info(self->fd[0]).tx_markers);
}

TEST_F(mpa, many_records_wait_in_order)
{
	size_t len;

	for (len = 1; len <= 300; len++)
		ASSERT_EQ(0, send_record(self->fd[0], self->record, len));
	for (len = 1; len <= 300; len++) {
		ASSERT_EQ(len, recv(self->fd[1], self->buf, BUF, 0));
		ASSERT_TRUE(record_good(self->buf, len));
	}
	EXPECT_EQ(-1, recv(self->fd[1], self->buf, BUF, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
}

TEST_F(mpa, short_buffer_gets_the_rest_with_the_next_call)
{
	static const size_t steps[] = { 1, 7, 509, 1000, 70000 };
	const size_t len = 3001;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		size_t done = 0;

		ASSERT_EQ(0, send_record(self->fd[0], self->record, len));
		ASSERT_EQ(0, send_record(self->fd[0], self->record, 5));
		while (done < len) {
			struct iovec iov = { self->buf + done, steps[i] };
			struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
			ssize_t n;

			n = recvmsg(self->fd[1], &msg, 0);
			ASSERT_EQ(n, steps[i] < len - done ? steps[i] :
							     len - done);
			done += n;
			ASSERT_EQ(done == len ? MSG_EOR : 0,
				  msg.msg_flags & MSG_EOR);
		}
		ASSERT_TRUE(record_good(self->buf, len));
		ASSERT_EQ(5, recv(self->fd[1], self->buf, BUF, MSG_WAITALL));
	}
	EXPECT_EQ(2 * ARRAY_SIZE(steps), mpa_info(self->fd[1]).rx_ulpdus);
}

TEST_F(mpa, peek_and_trunc)
{
	ASSERT_EQ(0, send_record(self->fd[0], self->record, 1000));
	ASSERT_EQ(0, send_record(self->fd[0], self->record, 10));
	ASSERT_NE(0, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_EQ(1000, recv(self->fd[1], NULL, 0, MSG_PEEK | MSG_TRUNC));
	EXPECT_EQ(100, recv(self->fd[1], self->buf, 100, MSG_PEEK));
	EXPECT_EQ(0, memcmp(self->buf, self->buf, 100));
	EXPECT_EQ(1000, recv(self->fd[1], self->buf, BUF, MSG_PEEK));
	record_fill(self->record, 1000);
	EXPECT_EQ(0, memcmp(self->buf, self->record, 1000));
	EXPECT_EQ(600, recv(self->fd[1], self->buf, 600, 0));
	EXPECT_EQ(400, recv(self->fd[1], self->buf, BUF, MSG_PEEK));
	EXPECT_EQ(0, memcmp(self->buf, self->record + 600, 400));
	EXPECT_EQ(300, recv(self->fd[1], NULL, 300, MSG_TRUNC));
	EXPECT_EQ(100, inq(self->fd[1]));
	EXPECT_EQ(100, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(0, memcmp(self->buf, self->record + 900, 100));
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_EQ(10, inq(self->fd[1]));
	EXPECT_EQ(10, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(0, inq(self->fd[1]));
}

TEST_F(mpa, record_of_a_wrong_length_is_not_sent)
{
	EXPECT_EQ(-1, send(self->fd[0], self->record, 0, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, send(self->fd[0], self->record, MPA_ULPDU_MAX + 1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, send(self->fd[0], self->record, BUF, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(0, mpa_info(self->fd[0]).tx_ulpdus);
	ASSERT_EQ(0, send_record(self->fd[0], self->record, 3));
	EXPECT_EQ(3, recv(self->fd[1], self->buf, BUF, 0));
}

TEST_F(mpa, fault_leaks_nothing)
{
	struct iovec iov[2] = { { self->record, 3000 }, { (void *)8, 100 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	EXPECT_EQ(-1, sendmsg(self->fd[0], &msg, 0));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(0, send_record(self->fd[0], self->record, 9));
	EXPECT_EQ(-1, recv(self->fd[1], (void *)8, 9, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(9, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 9));

	/* A failed call does not change an open record. */
	record_fill(self->record, 600);
	EXPECT_EQ(550, send(self->fd[0], self->record, 550, MSG_MORE));
	EXPECT_EQ(-1, sendmsg(self->fd[0], &msg, MSG_MORE));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(50, send(self->fd[0], self->record + 550, 50, 0));
	EXPECT_EQ(600, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 600));
}

/* Send pieces of a record, each after a call that fails half-way. */
TEST_F(mpa, faults_use_up_no_room)
{
	static const size_t lost[] = { 900, 5000 };
	const int pieces = 100, len = 100 * pieces;
	int i, k;

	record_fill(self->record, len);
	for (k = 0; k < ARRAY_SIZE(lost); k++) {
		struct iovec iov[2] = {
			{ self->record, lost[k] }, { (void *)8, 100 },
		};
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

		for (i = 0; i < pieces; i++) {
			EXPECT_EQ(-1, sendmsg(self->fd[0], &msg, MSG_MORE));
			ASSERT_EQ(EFAULT, errno);
			ASSERT_EQ(100, send(self->fd[0],
					    self->record + 100 * i, 100,
					    i < pieces - 1 ? MSG_MORE : 0)) {
				TH_LOG("piece %d: %m", i);
			}
		}
		ASSERT_EQ(len, recv(self->fd[1], self->buf, BUF, 0));
		EXPECT_TRUE(record_good(self->buf, len));
	}
}

TEST_F(mpa, msg_more_carries_a_record_on)
{
	static const size_t steps[] = { 1, 3, 250, 506, 512, 10000 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		const size_t len = steps[i] * 6 + 2;
		size_t done;

		record_fill(self->record, len);
		for (done = 0; done + steps[i] < len; done += steps[i])
			ASSERT_EQ(steps[i], send(self->fd[0],
						 self->record + done, steps[i],
						 MSG_MORE));
		EXPECT_EQ(-1, recv(self->fd[1], self->buf, BUF, MSG_DONTWAIT));
		/* The last call has octets, or has none. */
		if (i % 2) {
			ASSERT_EQ(len - done, send(self->fd[0],
						   self->record + done,
						   len - done, MSG_MORE));
			ASSERT_EQ(0, send(self->fd[0], NULL, 0, 0));
		} else {
			ASSERT_EQ(len - done, send(self->fd[0],
						   self->record + done,
						   len - done, 0));
		}
		ASSERT_EQ(len, recv(self->fd[1], self->buf, BUF, 0));
		ASSERT_TRUE(record_good(self->buf, len));
	}
}

TEST_F(mpa, open_record_that_grows_too_long_is_kept)
{
	record_fill(self->record, MPA_ULPDU_MAX);
	ASSERT_EQ(60000, send(self->fd[0], self->record, 60000, MSG_MORE));
	EXPECT_EQ(-1, send(self->fd[0], self->record, 5000, MSG_MORE));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, send(self->fd[0], self->record, 0, MSG_MORE));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(4768, send(self->fd[0], self->record + 60000, 4768, 0));
	EXPECT_EQ(MPA_ULPDU_MAX, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, MPA_ULPDU_MAX));
}

/* Half a record is never sent, nor counted. */
TEST_F(mpa, open_record_is_dropped_at_the_end)
{
	ASSERT_EQ(0, send_record(self->fd[0], self->record, 7));
	ASSERT_EQ(100, send(self->fd[0], self->record, 100, MSG_MORE));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_EQ(7, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(-1, send(self->fd[0], "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
}

/* RFC 5044 section 7.1.2 rule 4. */
TEST_F(mpa, responder_waits_for_the_first_fpdu)
{
	pid_t pid;

	set_nonblock(self->fd[1]);
	EXPECT_EQ(0, mpa_info(self->fd[1]).flags & MPA_INFO_MAY_SEND);
	EXPECT_EQ(0, poll_for(self->fd[1], POLLOUT, 0));
	EXPECT_EQ(-1, send(self->fd[1], "x", 1, 0));
	EXPECT_EQ(EAGAIN, errno);
	fcntl(self->fd[1], F_SETFL, 0);

	/* The responder sends without a read: MPA itself verifies the FPDU. */
	pid = fork();
	if (!pid)
		_exit(send(self->fd[1], "answer", 6, 0) == 6 ? 0 : 1);
	ASSERT_EQ(0, send_record(self->fd[0], self->record, 2000));
	EXPECT_EQ(6, recv(self->fd[0], self->buf, BUF, 0));
	EXPECT_EQ(POLLOUT | POLLIN, poll_for(self->fd[1], POLLIN | POLLOUT, 0));
	EXPECT_EQ(2000, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 2000));
	waitpid(pid, NULL, 0);
}

TEST_F(mpa, poll_says_that_a_send_fails_after_shutdown)
{
	unsigned int end;

	for (end = 0; end < 2; end++) {
		ASSERT_EQ(0, shutdown(self->fd[!end], SHUT_WR));
		EXPECT_NE(0, POLLOUT & poll_for(self->fd[!end], POLLOUT, 0));
		EXPECT_EQ(-1, send(self->fd[!end], "x", 1, MSG_NOSIGNAL));
		EXPECT_EQ(EPIPE, errno);
	}
}

TEST_F(mpa, poll_means_a_whole_record)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epfd = epoll_create1(0);

	ASSERT_EQ(0, epoll_ctl(epfd, EPOLL_CTL_ADD, self->fd[1], &event));
	EXPECT_EQ(0, epoll_wait(epfd, &event, 1, 0));
	EXPECT_EQ(0, poll_for(self->fd[1], POLLIN, 0));
	ASSERT_EQ(0, send_record(self->fd[0], self->record, 64000));
	EXPECT_EQ(1, epoll_wait(epfd, &event, 1, 20000));
	EXPECT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 0));
	EXPECT_EQ(64000, recv(self->fd[1], self->buf, BUF, MSG_DONTWAIT));
	EXPECT_EQ(0, poll_for(self->fd[1], POLLIN, 0));
	ASSERT_EQ(0, send_record(self->fd[0], self->record, 5));
	EXPECT_EQ(1, epoll_wait(epfd, &event, 1, 20000));
	close(epfd);
}

TEST_F(mpa, end_of_stream_between_records_is_0)
{
	ASSERT_EQ(0, send_record(self->fd[0], self->record, 11));
	ASSERT_EQ(0, send_record(self->fd[0], self->record, 12));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_NE(0, POLLRDHUP & poll_for(self->fd[1], POLLRDHUP, 20000));
	EXPECT_EQ(11, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(12, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
	/* The other half connection still works. */
	ASSERT_EQ(0, send_record(self->fd[1], self->record, 13));
	EXPECT_EQ(13, recv(self->fd[0], self->buf, BUF, 0));
}

TEST_F(mpa, close_sends_what_was_accepted)
{
	size_t len;

	for (len = 1; len <= 200; len++)
		ASSERT_EQ(0, send_record(self->fd[0], self->record, len));
	close(self->fd[0]);
	self->fd[0] = -1;
	for (len = 1; len <= 200; len++)
		ASSERT_EQ(len, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
}

/* The batch is still in MPA's buffer: shutdown(2) must pass it to TCP at once. */
TEST_F(mpa, shutdown_sends_a_batch_that_waits)
{
	size_t len;

	for (len = 1; len <= 50; len++)
		ASSERT_EQ(len, send(self->fd[0], self->record, len,
				    MSG_MORE | MSG_EOR));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	for (len = 1; len <= 50; len++)
		ASSERT_EQ(len, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
}

TEST_F_TIMEOUT(mpa, timeouts_are_kept, 120)
{
	struct timeval tv = { .tv_usec = 20000 };
	int sndbuf = 1, sent = 0;

	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_RCVTIMEO, &tv,
				sizeof(tv)));
	EXPECT_EQ(-1, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(EAGAIN, errno);

	ASSERT_EQ(0, setsockopt(self->fd[0], SOL_SOCKET, SO_SNDTIMEO, &tv,
				sizeof(tv)));
	setsockopt(self->fd[0], SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf));
	/* Repeat until all buffers are full, the receiver's, too, and all is acknowledged. */
	do {
		while (!send_record(self->fd[0], self->record, 5000))
			sent++;
		ASSERT_EQ(EAGAIN, errno);
	} while (poll_for(self->fd[0], POLLOUT, 300));
	patience(self->fd[1], 20);
	while (sent--) {
		ASSERT_EQ(5000, recv(self->fd[1], self->buf, BUF, 0));
		ASSERT_TRUE(record_good(self->buf, 5000));
	}
	EXPECT_EQ(POLLOUT, poll_for(self->fd[0], POLLOUT, 20000));
	EXPECT_EQ(0, send_record(self->fd[0], self->record, 5000));
}

static void on_alarm(int sig)
{
}

TEST_F_TIMEOUT(mpa, signal_leaves_no_half_record, 120)
{
	struct itimerval timer = { .it_interval.tv_usec = 1000,
				   .it_value.tv_usec = 1000 };
	struct sigaction act = { .sa_handler = on_alarm };
	pid_t pid = fork();
	int sent = 0, i;

	if (!pid) {
		ssize_t n;

		while ((n = recv(self->fd[1], self->buf, BUF, 0)) > 0) {
			if (n != 30001 || !record_good(self->buf, n))
				_exit(255);
			sent++;
		}
		_exit(n ? 254 : sent);
	}
	close(self->fd[1]);
	self->fd[1] = -1;
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	record_fill(self->record, 30001);
	for (i = 0; i < 150; i++) {
		ssize_t n = send(self->fd[0], self->record, 30001, 0);

		if (n == 30001)
			sent++;
		else
			ASSERT_EQ(EINTR, errno);
	}
	memset(&timer, 0, sizeof(timer));
	setitimer(ITIMER_REAL, &timer, NULL);
	shutdown(self->fd[0], SHUT_WR);
	ASSERT_EQ(pid, waitpid(pid, &i, 0));
	EXPECT_EQ(sent, WEXITSTATUS(i));
}

struct sender {
	int fd;
	size_t len;
	int count;
};

static void *sender(void *arg)
{
	struct sender *s = arg;
	u8 record[9000];

	record_fill(record, s->len);
	while (s->count-- && send(s->fd, record, s->len, 0) == (ssize_t)s->len)
		;
	return NULL;
}

TEST_F_TIMEOUT(mpa, records_of_threads_do_not_mix, 120)
{
	struct sender s[3] = {
		{ self->fd[0], 9000, 100 }, { self->fd[0], 1, 100 },
		{ self->fd[0], 511, 100 },
	};
	int seen[3] = {}, i, k;
	pthread_t thread[3];

	for (i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, sender, &s[i]);
	for (i = 0; i < 300; i++) {
		ssize_t n = recv(self->fd[1], self->buf, BUF, 0);

		ASSERT_TRUE(n > 0 && record_good(self->buf, n));
		for (k = 0; k < 3; k++)
			seen[k] += n == (ssize_t)s[k].len;
	}
	for (i = 0; i < 3; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(100, seen[i]);
	}
}

/* sendfile cuts a file into ULPDUs; splice reads one ULPDU at a time. */
TEST_F_TIMEOUT(mpa, sendfile_and_splice, 120)
{
	char name[] = "/tmp/mpa-XXXXXX";
	int file = mkstemp(name), pipefd[2];
	const size_t len = 200001;
	size_t done = 0, spliced;
	pid_t pid;

	ASSERT_LE(0, file);
	unlink(name);
	ASSERT_EQ(0, pipe(pipefd));
	record_fill(self->record, len);
	ASSERT_EQ(len, write(file, self->record, len));
	lseek(file, 0, SEEK_SET);
	pid = fork();
	if (!pid) {
		size_t sent = 0;
		ssize_t n;

		while ((n = sendfile(self->fd[0], file, NULL, len - sent)) > 0)
			sent += n;
		shutdown(self->fd[0], SHUT_WR);
		_exit(sent != len);
	}
	close(self->fd[0]);
	self->fd[0] = -1;
	while (done < len) {
		ssize_t n = splice(self->fd[1], NULL, pipefd[1], NULL, 30000, 0);

		ASSERT_LT(0, n);
		for (spliced = 0; spliced < n; ) {
			ssize_t m = read(pipefd[0], self->buf + done + spliced,
					 n - spliced);

			ASSERT_LT(0, m);
			spliced += m;
		}
		done += n;
	}
	EXPECT_EQ(0, memcmp(self->buf, self->record, len));
	EXPECT_EQ(0, splice(self->fd[1], NULL, pipefd[1], NULL, 100, 0));
	ASSERT_EQ(pid, waitpid(pid, &file, 0));
	EXPECT_EQ(0, WEXITSTATUS(file));
	EXPECT_LT(len / 64768, mpa_info(self->fd[1]).rx_ulpdus);
	close(pipefd[0]);
	close(pipefd[1]);
}

/* The records of 64768 octets are larger than the receive buffer. */
TEST_F_TIMEOUT(mpa, small_buffers_make_progress, 120)
{
	int small = 1, fd[2], i, status;
	pid_t pid;

	ASSERT_EQ(0, tcp_pair_buf(variant->family, fd, 1));
	setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	ASSERT_EQ(0, mpa_started_pair(fd, variant->flags[0],
				      variant->flags[1]));
	pid = fork();
	if (!pid) {
		for (i = 0; i < 4; i++)
			if (send_record(fd[0], self->record, MPA_ULPDU_MAX - i))
				_exit(1);
		_exit(0);
	}
	for (i = 0; i < 4; i++) {
		/* Read after poll(2), or in a blocking call. */
		if (i % 2)
			ASSERT_EQ(POLLIN, poll_for(fd[1], POLLIN, 20000));
		ASSERT_EQ(MPA_ULPDU_MAX - i, recv(fd[1], self->buf, BUF, 0));
		ASSERT_TRUE(record_good(self->buf, MPA_ULPDU_MAX - i));
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	close(fd[0]);
	close(fd[1]);
}

/* As above, but the responder sends before it reads. */
TEST_F(mpa, first_fpdu_larger_than_the_buffer_is_validated)
{
	int fd[2], status;
	pid_t pid;

	ASSERT_EQ(0, tcp_pair_buf(variant->family, fd, 1));
	ASSERT_EQ(0, mpa_started_pair(fd, variant->flags[0],
				      variant->flags[1]));
	pid = fork();
	if (!pid)
		_exit(send_record(fd[0], self->record, 50000) ? 1 : 0);
	EXPECT_EQ(2, send(fd[1], "ok", 2, 0));
	EXPECT_EQ(2, recv(fd[0], self->buf, BUF, 0));
	EXPECT_EQ(50000, recv(fd[1], self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 50000));
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	close(fd[0]);
	close(fd[1]);
}

TEST_F(mpa, both_ways_at_once)
{
	int i, status;
	pid_t pid;

	OPEN_RESPONDER();
	pid = fork();
	if (!pid) {
		for (i = 0; i < 100; i++) {
			ssize_t n = recv(self->fd[1], self->buf, BUF, 0);

			if (n <= 0 || send(self->fd[1], self->buf, n, 0) != n)
				_exit(1);
		}
		_exit(0);
	}
	for (i = 0; i < 100; i++) {
		size_t len = 1 + i * 37 % 2000;

		ASSERT_EQ(0, send_record(self->fd[0], self->record, len));
		ASSERT_EQ(len, recv(self->fd[0], self->buf, BUF, 0));
		ASSERT_TRUE(record_good(self->buf, len));
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
}

TEST_F(mpa, batches)
{
	struct mmsghdr msgs[8] = {};
	struct iovec iov[8];
	int i;

	record_fill(self->record, 100);
	for (i = 0; i < 8; i++) {
		iov[i] = (struct iovec){ self->record, 100 + i };
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	ASSERT_EQ(8, sendmmsg(self->fd[0], msgs, 8, 0));
	for (i = 0; i < 8; i++)
		iov[i] = (struct iovec){ self->buf + 1000 * i, 1000 };
	ASSERT_EQ(8, recvmmsg(self->fd[1], msgs, 8, 0, NULL));
	for (i = 0; i < 8; i++) {
		EXPECT_EQ(100 + i, msgs[i].msg_len);
		EXPECT_EQ(MSG_EOR, msgs[i].msg_hdr.msg_flags & MSG_EOR);
	}
}

/* The kernel has no tool that counts page references, but a leak of 200 MB is visible. */
TEST_F_TIMEOUT(mpa, pages_come_back, 120)
{
	long before;
	int i;

	if (variant->family != AF_INET || variant->flags[0])
		return;
	before = free_kb();
	for (i = 0; i < 3200; i++) {
		ASSERT_EQ(0, send_record(self->fd[0], self->record,
					 MPA_ULPDU_MAX));
		ASSERT_EQ(MPA_ULPDU_MAX, recv(self->fd[1], self->buf, BUF, 0));
	}
	EXPECT_LT(before - free_kb(), 100 * 1024);
}

TEST_HARNESS_MAIN
