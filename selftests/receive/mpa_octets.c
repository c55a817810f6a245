// SPDX-License-Identifier: GPL-2.0
/*
 * Octets that other readers take, and urgent octets: only MPA may read the stream. All
 * waiting tasks are notified of ends and errors.
 */

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#include "mpa_harness.h"
#include "mpa_proc.h"
#include "mpa_receive.h"

#define PATIENCE_MS	5000

static void send_patience(int fd)
{
	struct timeval time = { .tv_sec = PATIENCE_MS / 1000 };

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

/* ---- a recv() that began before MPA was attached ---- */

FIXTURE(older)
{
	int fd[2];
	struct peer peer;
	pthread_t thread;
	pid_t tid;
	ssize_t got;
	u8 buf[2048];
};

FIXTURE_VARIANT(older)
{
	unsigned int flags;
};

FIXTURE_VARIANT_ADD(older, plain) { 0 };
FIXTURE_VARIANT_ADD(older, crc_off) { MPA_START_NO_CRC };

static void *take_octets(void *arg)
{
	struct _test_data_older *self = arg;
	char octets[8];

	__atomic_store_n(&self->tid, gettid(), __ATOMIC_RELEASE);
	self->got = recv(self->fd[0], octets, sizeof(octets), 0);
	return NULL;
}

FIXTURE_SETUP(older)
{
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, sysctl_put("crc_optional", 1));
	ASSERT_EQ(0, tcp_pair(AF_INET, self->fd));
	patience(self->fd[0], 20);
	patience(self->fd[1], 20);
	self->tid = 0;
	pthread_create(&self->thread, NULL, take_octets, self);
	ASSERT_TRUE(asleep(&self->tid));
	ASSERT_EQ(0, receive_directly(self->fd[0], &self->peer, self->fd[1],
				      variant->flags));
}

FIXTURE_TEARDOWN(older)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
}

/* Check that nothing more is delivered, though octets have arrived, and that sending works. */
#define EXPECT_RECEIVING_IS_OVER() do {					\
	int i_;								\
									\
	for (i_ = 0; i_ < 2; i_++) {					\
		EXPECT_EQ(-1, recv(self->fd[0], self->buf,		\
				   sizeof(self->buf), MSG_DONTWAIT));	\
		EXPECT_EQ(EBADMSG, errno);				\
	}								\
	EXPECT_EQ(MPA_ERR_LOCAL, mpa_info(self->fd[0]).error);		\
	EXPECT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 0));		\
	EXPECT_EQ(0, inq(self->fd[0]));					\
	EXPECT_EQ(4, send(self->fd[0], "more", 4, MSG_NOSIGNAL));	\
	EXPECT_EQ(12, recv(self->fd[1], self->buf, sizeof(self->buf), 0)); \
} while (0)

TEST_F(older, record_without_its_first_octets_is_not_delivered)
{
	ASSERT_EQ(0, peer_send_record(&self->peer, 1000));
	ASSERT_EQ(0, peer_send_record(&self->peer, 1000));
	pthread_join(self->thread, NULL);
	EXPECT_EQ(8, self->got);
	ASSERT_TRUE(arrived(self->fd[0], self->peer.tx_position));
	EXPECT_RECEIVING_IS_OVER();
}

/* Another reader took octets of the record after it was verified. */
TEST_F(older, verified_record_is_not_delivered_either)
{
	ssize_t n;

	ASSERT_EQ(0, peer_send_record(&self->peer, 1000));
	n = recv(self->fd[0], self->buf, 10, MSG_PEEK | MSG_DONTWAIT);
	EXPECT_TRUE(n == 10 || errno == EAGAIN || errno == EBADMSG);
	pthread_join(self->thread, NULL);
	EXPECT_EQ(8, self->got);
	ASSERT_EQ(0, peer_send_record(&self->peer, 1000));
	ASSERT_TRUE(arrived(self->fd[0], self->peer.tx_position));
	EXPECT_RECEIVING_IS_OVER();
}

TEST_F(older, record_half_read_is_not_carried_on)
{
	ssize_t n;

	ASSERT_EQ(0, peer_send_record(&self->peer, 1000));
	n = recv(self->fd[0], self->buf, 10, MSG_DONTWAIT);
	EXPECT_TRUE(n == 10 || errno == EAGAIN || errno == EBADMSG);
	pthread_join(self->thread, NULL);
	EXPECT_EQ(8, self->got);
	ASSERT_EQ(0, peer_send_record(&self->peer, 1000));
	ASSERT_TRUE(arrived(self->fd[0], self->peer.tx_position));
	EXPECT_RECEIVING_IS_OVER();
}

/* The FIN has a sequence number, too, but is no octet. */
TEST_F(older, end_of_the_stream_may_be_read_by_both)
{
	shutdown(self->fd[1], SHUT_WR);
	pthread_join(self->thread, NULL);
	EXPECT_EQ(0, self->got);
	EXPECT_EQ(0, recv(self->fd[0], self->buf, sizeof(self->buf), 0));
	EXPECT_EQ(0, recv(self->fd[0], self->buf, sizeof(self->buf), 0));
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd[0]).error);
}

static void nothing(int signal)
{
}

/* A missing octet is not mistaken for a FIN. */
TEST_F(older, octet_before_the_end_is_missed)
{
	ASSERT_EQ(0, write_all(self->fd[1], "\0", 1));
	ASSERT_TRUE(arrived(self->fd[0], 1));
	/* Nothing else wakes the reader: half a length field is no record. */
	signal(SIGUSR1, nothing);
	pthread_kill(self->thread, SIGUSR1);
	pthread_join(self->thread, NULL);
	ASSERT_EQ(1, self->got);
	shutdown(self->fd[1], SHUT_WR);
	ASSERT_NE(0, POLLRDHUP & poll_for(self->fd[0], POLLRDHUP, 20000));
	EXPECT_RECEIVING_IS_OVER();
}

/* ---- urgent data: octets of the stream like all others ---- */

static bool send_urgent(int fd, const u8 *octets, size_t len)
{
	return send(fd, octets, len, MSG_OOB) == (ssize_t)len;
}

static int answered[2];

static void *take_an_fpdu(void *arg)
{
	u8 octets[20];

	__atomic_store_n((pid_t *)arg, gettid(), __ATOMIC_RELEASE);
	return (void *)(long)recv(answered[0], octets, sizeof(octets), 0);
}

/*
 * FPDUs may arrive before the program has accepted the reply. The stream begins at the
 * end of the frame, even if another reader has read further.
 */
TEST(record_read_by_another_before_the_decision_is_missed)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 0,
		.flags = MPA_START_MANUAL,
	};
	struct peer peer = { .tx_markers = true };
	pthread_t thread;
	u8 octets[600];
	pid_t tid = 0;
	void *took;
	size_t n;
	int i;

	ASSERT_EQ(0, tcp_pair(AF_INET, answered));
	patience(answered[0], 20);
	pthread_create(&thread, NULL, take_an_fpdu, &tid);
	ASSERT_TRUE(asleep(&tid));
	ASSERT_EQ(0, mpa_attach(answered[0]));
	set_nonblock(answered[0]);
	ASSERT_EQ(-1, mpa_start_as(answered[0], &start));
	ASSERT_EQ(EINPROGRESS, errno);
	ASSERT_EQ(FRAME_LEN, read_all(answered[1], octets, FRAME_LEN));
	n = frame_put(octets, true, 0xc0, 0, 0);
	/* Use FPDUs of 20 octets each, the first with a marker. */
	n += peer_fpdu(&peer, (const u8 *)"first one", 9, octets + n);
	ASSERT_EQ(FRAME_LEN + 20, n);
	for (i = 0; i < 3; i++)
		n += peer_fpdu(&peer, (const u8 *)"another one", 11,
			       octets + n);
	ASSERT_EQ(0, write_all(answered[1], octets, n));
	pthread_join(thread, &took);
	if ((long)took != 20)
		SKIP(return, "the other reader got %ld octets", (long)took);
	ASSERT_EQ(0, decide(answered[0], MPA_ACCEPT));
	EXPECT_EQ(-1, recv(answered[0], octets, sizeof(octets), 0));
	EXPECT_EQ(EBADMSG, errno) {
		TH_LOG("a record is missing, and this is said: %m");
	}
	EXPECT_EQ(MPA_ERR_LOCAL, mpa_info(answered[0]).error);
	hang_up(answered[0]);
	hang_up(answered[1]);
}

TEST_F(rx, urgent_octets_are_octets_of_the_record)
{
	size_t n = next_fpdu(&self->peer, 100, self->fpdu);
	int fd = self->peer.fd;

	ASSERT_TRUE(send_urgent(fd, self->fpdu, 1));
	ASSERT_TRUE(arrived(self->fd, 1));
	EXPECT_EQ(0, poll_for(self->fd, POLLPRI, 0));
	ASSERT_TRUE(send_urgent(fd, self->fpdu + 1, n - 1));
	ASSERT_TRUE(arrived(self->fd, n));
	EXPECT_EQ(POLLIN, poll_for(self->fd, POLLIN | POLLPRI, 0));
	EXPECT_EQ(100, recv(self->fd, self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 100));
	EXPECT_EQ(0, poll_for(self->fd, POLLIN | POLLPRI, 0));
	SEND(200);
	EXPECT_EQ(200, recv(self->fd, self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 200));
}

TEST_F(rx, urgent_pointer_does_not_shift_a_record_half_read)
{
	const size_t first = 40, len = 300;
	size_t at = first + (self->peer.tx_markers ? 6 : 2);
	size_t n = next_fpdu(&self->peer, len, self->fpdu);

	/* The urgent octet is the next to be read. */
	ASSERT_TRUE(send_urgent(self->peer.fd, self->fpdu, at + 1));
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu + at + 1,
			       n - at - 1));
	ASSERT_TRUE(arrived(self->fd, n));
	EXPECT_EQ(first, recv(self->fd, self->buf, first, 0));
	n = next_fpdu(&self->peer, 77, self->fpdu);
	ASSERT_TRUE(send_urgent(self->peer.fd, self->fpdu, n));
	ASSERT_TRUE(arrived(self->fd, self->peer.tx_position));
	EXPECT_EQ(len - first, recv(self->fd, self->buf + first, BUF - first,
				    0));
	EXPECT_TRUE(record_good(self->buf, len));
	EXPECT_EQ(77, recv(self->fd, self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 77));
}

/* An urgent octet may precede the first FPDU, or the start of MPA. */
TEST_F(rx, urgent_mark_of_before_is_gone)
{
	struct peer peer;
	int fd[2];
	u8 octet;

	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	ASSERT_TRUE(send_urgent(fd[1], (const u8 *)"ab", 2));
	ASSERT_EQ(POLLPRI, poll_for(fd[0], POLLPRI, 20000));
	ASSERT_EQ(1, recv(fd[0], &octet, 1, 0));
	patience(fd[0], 20);
	ASSERT_EQ(0, receive_directly(fd[0], &peer, fd[1], variant->flags));
	EXPECT_EQ(0, poll_for(fd[0], POLLPRI, 0));
	hang_up(fd[0]);
	hang_up(fd[1]);
}

static long fast_path_hits(struct _test_data_rx *self)
{
	long before = tcp_counter("TCPHPHits");
	int i;

	for (i = 0; i < 40; i++)
		if (peer_send_record(&self->peer, 100) ||
		    !arrived(self->fd, self->peer.tx_position))
			return -1;
	for (i = 0; i < 40; i++)
		if (recv(self->fd, self->buf, BUF, 0) != 100)
			return -1;
	return tcp_counter("TCPHPHits") - before;
}

TEST_F(rx, urgent_data_do_not_cost_the_fast_path)
{
	long usual = fast_path_hits(self), now;
	size_t n;

	n = next_fpdu(&self->peer, 100, self->fpdu);
	if (usual < 10)
		SKIP(return, "it is hardly used here anyway");
	ASSERT_TRUE(send_urgent(self->peer.fd, self->fpdu, n));
	ASSERT_EQ(100, recv(self->fd, self->buf, BUF, 0));
	now = fast_path_hits(self);
	EXPECT_LE(usual / 2, now);
}

/* ---- a bad first FPDU: a task that waits to send is notified ---- */

enum first {
	BAD_CRC,
	BAD_LENGTH,
	END,
	END_INSIDE,
	RESET,
};

FIXTURE(first)
{
	int fd;
	struct peer peer;
	pthread_t thread;
	pid_t tid;
	ssize_t ret;
	int err;
	u8 fpdu[2048];
};

FIXTURE_VARIANT(first)
{
	enum first how;
	int err;
};

FIXTURE_VARIANT_ADD(first, bad_crc) { BAD_CRC, EBADMSG };
FIXTURE_VARIANT_ADD(first, bad_length) { BAD_LENGTH, EBADMSG };
FIXTURE_VARIANT_ADD(first, end) { END, EPIPE };
FIXTURE_VARIANT_ADD(first, end_inside) { END_INSIDE, EPIPE };
FIXTURE_VARIANT_ADD(first, reset) { RESET, ECONNRESET };

FIXTURE_SETUP(first)
{
	int fd[2];

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	self->fd = fd[0];
	self->tid = 0;
	self->peer = (struct peer){ .fd = fd[1] };
	ASSERT_EQ(0, peer_initiates(&self->peer, self->fd, false, 0));
	patience(self->fd, 20);
	send_patience(self->fd);
}

FIXTURE_TEARDOWN(first)
{
	hang_up(self->fd);
	hang_up(self->peer.fd);
}

static int send_first(struct _test_data_first *self, enum first how)
{
	size_t n = next_fpdu(&self->peer, 1000, self->fpdu);
	int err = 0;

	switch (how) {
	case BAD_CRC:
		self->fpdu[n - 1] ^= 1;
		return write_all(self->peer.fd, self->fpdu, n);
	case BAD_LENGTH:
		return write_all(self->peer.fd, "\xff\xff", 2);
	case END_INSIDE:
		err = write_all(self->peer.fd, self->fpdu, n - 1);
		return err | shutdown(self->peer.fd, SHUT_WR);
	case END:
		return shutdown(self->peer.fd, SHUT_WR);
	case RESET:
		hang_up(self->peer.fd);
		self->peer.fd = -1;
	}
	return 0;
}

static void *send_a_record(void *arg)
{
	struct _test_data_first *self = arg;

	__atomic_store_n(&self->tid, gettid(), __ATOMIC_RELEASE);
	self->ret = send(self->fd, "reply", 5, MSG_NOSIGNAL);
	self->err = errno;
	return NULL;
}

static void *poll_to_send(void *arg)
{
	struct _test_data_first *self = arg;

	__atomic_store_n(&self->tid, gettid(), __ATOMIC_RELEASE);
	self->ret = poll_for(self->fd, POLLOUT, PATIENCE_MS);
	return NULL;
}

TEST_F(first, waiting_sender_gets_the_error)
{
	pthread_create(&self->thread, NULL, send_a_record, self);
	ASSERT_TRUE(asleep(&self->tid));
	ASSERT_EQ(0, send_first(self, variant->how));
	pthread_join(self->thread, NULL);
	EXPECT_EQ(-1, self->ret);
	EXPECT_EQ(variant->err, self->err);
}

TEST_F(first, poll_for_sending_ends)
{
	pthread_create(&self->thread, NULL, poll_to_send, self);
	ASSERT_TRUE(asleep(&self->tid));
	ASSERT_EQ(0, send_first(self, variant->how));
	pthread_join(self->thread, NULL);
	EXPECT_EQ(POLLOUT, self->ret & POLLOUT);
}

TEST_F(first, edge_for_sending_comes)
{
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET };
	int epfd = epoll_create1(0);

	ASSERT_EQ(0, epoll_ctl(epfd, EPOLL_CTL_ADD, self->fd, &event));
	ASSERT_EQ(0, epoll_wait(epfd, &event, 1, 0));
	ASSERT_EQ(0, send_first(self, variant->how));
	EXPECT_EQ(1, epoll_wait(epfd, &event, 1, PATIENCE_MS));
	EXPECT_EQ(EPOLLOUT, event.events & EPOLLOUT);
	close(epfd);
}

/* ---- O_ASYNC: the same as poll ---- */

/* Have a signal report events of @fd. */
static int reports_by_signal(int fd)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	return sigprocmask(SIG_BLOCK, &set, NULL) ||
	       fcntl(fd, F_SETOWN, getpid()) || fcntl(fd, F_SETSIG, SIGRTMIN) ||
	       fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) ? -1 : 0;
}

/* Wait @ms for the next signal. Return: its events, or 0. */
static long reported_by_signal(int fd, unsigned int ms)
{
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	if (sigtimedwait(&set, &info, &time) < 0)
		return 0;
	return info.si_fd == fd ? info.si_band : -1;
}

TEST_F(rx, signal_comes_with_each_whole_record)
{
	size_t n = next_fpdu(&self->peer, 3000, self->fpdu);

	ASSERT_EQ(0, reports_by_signal(self->fd));
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n / 2));
	EXPECT_EQ(0, reported_by_signal(self->fd, 100));
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu + n / 2, n - n / 2));
	EXPECT_NE(0, POLLIN & reported_by_signal(self->fd, 20000));
	EXPECT_EQ(3000, recv(self->fd, self->buf, BUF, 0));
	SEND(10);
	EXPECT_NE(0, POLLIN & reported_by_signal(self->fd, 20000));
	EXPECT_EQ(10, recv(self->fd, self->buf, BUF, 0));
}

TEST_F(rx, signal_comes_with_the_end)
{
	ASSERT_EQ(0, reports_by_signal(self->fd));
	shutdown(self->peer.fd, SHUT_WR);
	EXPECT_NE(0, POLLIN & reported_by_signal(self->fd, 20000));
	EXPECT_EQ(0, recv(self->fd, self->buf, BUF, 0));
}

TEST_F(rx, signal_comes_with_an_error)
{
	size_t n = next_fpdu(&self->peer, 3000, self->fpdu);

	self->fpdu[n / 2] ^= 1;
	if (variant->flags & MPA_START_NO_CRC)
		SKIP(return, "no CRC is looked at");
	ASSERT_EQ(0, reports_by_signal(self->fd));
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	EXPECT_NE(0, (POLLIN | POLLERR) & reported_by_signal(self->fd, 20000));
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
}

TEST_F(rx, signal_comes_with_room_to_send)
{
	long told = 0;
	int i;

	ASSERT_EQ(0, peer_send_record(&self->peer, 1));
	ASSERT_EQ(1, recv(self->fd, self->buf, BUF, 0));
	ASSERT_EQ(0, reports_by_signal(self->fd));
	/* Once the peer's buffer takes some octets, there is space again. */
	do {
		while (send(self->fd, self->buf, 60000, MSG_NOSIGNAL) == 60000)
			;
		ASSERT_EQ(EAGAIN, errno);
	} while (reported_by_signal(self->fd, 100));
	for (i = 0; i < 400 && !told; i++) {
		while (recv(self->peer.fd, self->buf, BUF, MSG_DONTWAIT) > 0)
			;
		told = reported_by_signal(self->fd, 50);
	}
	EXPECT_NE(0, POLLOUT & told);
}

/* The first record allows a responder to send: RFC 5044 section 7.1.2 rule 4 */
TEST_F(first, signal_comes_with_the_permission_to_send)
{
	long told;

	ASSERT_EQ(0, reports_by_signal(self->fd));
	ASSERT_EQ(-1, send(self->fd, "x", 1, MSG_NOSIGNAL));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, peer_send_record(&self->peer, 1));
	do {
		told = reported_by_signal(self->fd, 20000);
	} while (told && !(told & POLLOUT));
	EXPECT_NE(0, POLLOUT & told);
}

/* ---- code 1 of RFC 5044 section 8: "RST received, or FIN received" ---- */

TEST_F(rx, info_reports_the_fin_before_it_is_read)
{
	SEND(10);
	EXPECT_EQ(MPA_ERR_NONE, mpa_info(self->fd).error);
	shutdown(self->peer.fd, SHUT_WR);
	ASSERT_NE(0, POLLRDHUP & poll_for(self->fd, POLLRDHUP, 20000));
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);
	EXPECT_EQ(10, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(0, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);
}

TEST_F(rx, info_reports_the_reset_before_it_is_read)
{
	SEND(10);
	hang_up(self->peer.fd);
	self->peer.fd = -1;
	ASSERT_NE(0, POLLHUP & poll_for(self->fd, POLLHUP, 20000));
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);
}

#define BAD_LENGTH_LEN(peer)	((peer)->tx_markers ? 6 : 2)

/* Send the stream's first FPDU with an invalid length. */
static int send_bad_length(const struct peer *peer)
{
	const size_t len = BAD_LENGTH_LEN(peer);

	return write_all(peer->fd, "\0\0\0\0\xff\xff" + 6 - len, len);
}

/* The code of a bad FPDU is kept: it is more specific than the later end of stream. */
TEST_F(rx, info_keeps_the_code_of_a_bad_fpdu)
{
	ASSERT_EQ(0, send_bad_length(&self->peer));
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	shutdown(self->peer.fd, SHUT_WR);
	ASSERT_NE(0, POLLRDHUP & poll_for(self->fd, POLLRDHUP, 20000));
	EXPECT_EQ(MPA_ERR_CRC, mpa_info(self->fd).error);
}

TEST_F(rx, info_has_no_code_for_a_shutdown_of_our_own)
{
	ASSERT_EQ(0, shutdown(self->fd, SHUT_RD));
	EXPECT_EQ(MPA_ERR_NONE, mpa_info(self->fd).error);
	ASSERT_EQ(0, shutdown(self->fd, SHUT_WR));
	EXPECT_EQ(MPA_ERR_NONE, mpa_info(self->fd).error);
}

/* ---- section 8: after a bad FPDU a last message may report what was wrong ---- */

/* Fill the send buffer with records of 1000 octets. Return: octets of their FPDUs. */
static size_t fill_send_buffer(int fd)
{
	size_t sent = 0;

	while (send(fd, record_of(1000), 1000,
		    MSG_DONTWAIT | MSG_NOSIGNAL) == 1000)
		sent += 1008;
	return sent;
}

/* Octets that can no longer be read must not make close(2) send a RST. */
TEST_F(rx, close_after_a_bad_fpdu_loses_nothing_that_was_sent)
{
	const int sndbuf = 30000;
	size_t sent, seen;
	struct peer peer;
	int fd[2], i;
	ssize_t n;

	for (i = 0; i < 4; i++) {
		const bool before = i & 1, shut = i & 2;

		ASSERT_EQ(0, tcp_pair(AF_INET, fd));
		ASSERT_EQ(0, receive_directly(fd[1], &peer, fd[0],
					      variant->flags));
		patience(fd[0], 20);
		patience(fd[1], 20);
		setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &sndbuf,
			   sizeof(sndbuf));
		/* On one processor the work item runs after close(). */
		ASSERT_EQ(0, real_time(true));
		ASSERT_EQ(0, send_bad_length(&peer));
		if (before)
			ASSERT_EQ(0, write_all(fd[0], record_row, 5000));
		EXPECT_EQ(-1, recv(fd[1], self->buf, BUF, 0));
		EXPECT_EQ(EBADMSG, errno);
		if (!before)
			ASSERT_EQ(0, write_all(fd[0], record_row, 5000));
		/* Octets that arrive after close() are lost and cause a RST, as with TCP. */
		ASSERT_TRUE(arrived(fd[1], BAD_LENGTH_LEN(&peer) + 5000));
		sent = fill_send_buffer(fd[1]);
		EXPECT_LT(0, sent);
		if (shut)
			EXPECT_EQ(0, shutdown(fd[1], SHUT_WR));
		close(fd[1]);
		ASSERT_EQ(0, real_time(false));
		for (seen = 0; (n = recv(fd[0], self->buf, BUF, 0)) > 0; )
			seen += n;
		EXPECT_EQ(0, n) {
			TH_LOG("case %d: %m", i);
		}
		EXPECT_EQ(sent, seen);
		hang_up(fd[0]);
	}
}

/* The octets exceed the buffer: they must be dropped, so that the FIN can arrive. */
TEST_F(rx, end_of_the_stream_follows_a_bad_fpdu)
{
	struct timeval time = { .tv_sec = 20 };
	int i;

	setsockopt(self->peer.fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
	ASSERT_EQ(0, send_bad_length(&self->peer));
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	for (i = 0; i < 8; i++)
		ASSERT_EQ(0, write_all(self->peer.fd, record_row,
				       sizeof(record_row)));
	ASSERT_EQ(0, shutdown(self->peer.fd, SHUT_WR));
	EXPECT_NE(0, POLLRDHUP & poll_for(self->fd, POLLRDHUP, 20000));
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(MPA_ERR_CRC, mpa_info(self->fd).error);
	EXPECT_EQ(4, send(self->fd, "last", 4, MSG_NOSIGNAL));
	EXPECT_EQ(12, recv(self->peer.fd, self->buf, BUF, 0));
}

/* Rule 4: the peer may not know yet that MPA has started. */
TEST(responder_that_does_not_read_waits_for_the_first_fpdu)
{
	struct peer peer = {};
	u8 octets[8];
	int fd[2];

	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	patience(fd[0], 20);
	send_patience(fd[1]);
	peer.fd = fd[0];
	ASSERT_EQ(0, peer_initiates(&peer, fd[1], false, 0));
	ASSERT_EQ(0, shutdown(fd[1], SHUT_RD));
	EXPECT_EQ(0, poll_for(fd[1], POLLOUT, 0));
	EXPECT_EQ(-1, send(fd[1], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, peer_send_record(&peer, 100));
	EXPECT_EQ(POLLOUT, poll_for(fd[1], POLLOUT, 20000));
	EXPECT_EQ(1, send(fd[1], "x", 1, MSG_NOSIGNAL)) {
		TH_LOG("%m");
	}
	EXPECT_EQ(sizeof(octets), read_all(fd[0], octets, sizeof(octets)));
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* Rule 4: the first FPDU has arrived, though nothing has read up to its end. */
TEST(responder_may_send_though_the_stream_has_ended)
{
	const size_t len = 30000;
	struct peer peer = {};
	int fd[2], on = 1;
	u8 *octets;
	size_t n;

	octets = malloc(2 * len);
	ASSERT_EQ(0, tcp_pair_buf(AF_INET, fd, 8192));
	patience(fd[1], 20);
	peer.fd = fd[0];
	ASSERT_EQ(0, peer_initiates(&peer, fd[1], false, 0));
	n = peer_fpdu(&peer, record_of(len), len, octets);
	ASSERT_EQ(0, write_all(fd[0], octets, n - 300));
	/* The octets that exceed the receive buffer are in the stash. */
	ASSERT_TRUE(acked(fd[0]));
	ASSERT_EQ(-1, send(fd[1], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, setsockopt(fd[0], SOL_TCP, TCP_CORK, &on, sizeof(on)));
	/* On one processor the work item runs after send(). */
	ASSERT_EQ(0, real_time(true));
	ASSERT_EQ(0, write_all(fd[0], octets + n - 300, 300));
	ASSERT_EQ(0, shutdown(fd[0], SHUT_WR));
	EXPECT_EQ(1, send(fd[1], "x", 1, MSG_NOSIGNAL)) {
		TH_LOG("%m");
	}
	ASSERT_EQ(0, real_time(false));
	EXPECT_EQ(len, recv(fd[1], octets, 2 * len, 0));
	EXPECT_EQ(0, recv(fd[1], octets, 2 * len, 0));
	free(octets);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

TEST_HARNESS_MAIN
