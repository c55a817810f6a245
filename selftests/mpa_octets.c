// SPDX-License-Identifier: GPL-2.0
/*
 * Whose octets they are: what is delivered has been verified and lies where MPA
 * left off, and what is kept is on the socket's account.
 */

#include <linux/sock_diag.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "mpa_harness.h"
#include "mpa_receive.h"

#define PATIENCE_MS	5000

static void send_patience(int fd)
{
	struct timeval time = { .tv_sec = PATIENCE_MS / 1000 };

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

/* Until the thread sleeps: there is only one call for it to sleep in. */
static bool asleep(const pid_t *tid)
{
	const long until = now_ms() + 20000;
	char path[64], text[256], *state;
	int fd;

	while (now_ms() < until) {
		pid_t id = __atomic_load_n(tid, __ATOMIC_ACQUIRE);

		poll(NULL, 0, 1);
		if (!id)
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", id);
		memset(text, 0, sizeof(text));
		fd = open(path, O_RDONLY);
		if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
			text[0] = 0;
		close(fd);
		state = strrchr(text, ')');
		if (state && state[2] == 'S')
			return true;
	}
	return false;
}

/* ---- a recv() that is older than the attachment ---- */

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

/* Nothing more is delivered, whatever else is here; sending goes on. */
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

/* It had been found good, before octets of it went elsewhere. */
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

/* The FIN is in the numbers of the stream as well, and is nobody's octet. */
TEST_F(older, end_of_the_stream_may_be_read_by_both)
{
	shutdown(self->fd[1], SHUT_WR);
	pthread_join(self->thread, NULL);
	EXPECT_EQ(0, self->got);
	EXPECT_EQ(0, recv(self->fd[0], self->buf, sizeof(self->buf), 0));
	EXPECT_EQ(0, recv(self->fd[0], self->buf, sizeof(self->buf), 0));
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd[0]).error);
}

/* ---- urgent data: octets of the stream like all others ---- */

static bool send_urgent(int fd, const u8 *octets, size_t len)
{
	return send(fd, octets, len, MSG_OOB) == (ssize_t)len;
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
	size_t n = next_fpdu(&self->peer, len, self->fpdu);
	size_t at = first + (self->peer.tx_markers ? 6 : 2);

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

/* Before the first FPDU, and before MPA, it is no different. */
TEST_F(rx, urgent_mark_of_before_is_gone)
{
	struct peer peer;
	u8 octet;
	int fd[2];

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

/* Of TcpExt in /proc/net/netstat, of this network namespace; or -1. */
static long netstat(const char *name)
{
	static char names[8192], values[8192];
	char *n, *v, *at_n, *at_v;
	long value = -1;
	FILE *file = fopen("/proc/net/netstat", "r");

	while (file && fgets(names, sizeof(names), file) &&
	       fgets(values, sizeof(values), file)) {
		n = strtok_r(names, " \n", &at_n);
		v = strtok_r(values, " \n", &at_v);
		while (n && v) {
			if (!strcmp(n, name))
				value = atol(v);
			n = strtok_r(NULL, " \n", &at_n);
			v = strtok_r(NULL, " \n", &at_v);
		}
	}
	if (file)
		fclose(file);
	return value;
}

static long fast_path_hits(struct _test_data_rx *self)
{
	long before = netstat("TCPHPHits");
	int i;

	for (i = 0; i < 40; i++)
		if (peer_send_record(&self->peer, 100) ||
		    !arrived(self->fd, self->peer.tx_position))
			return -1;
	for (i = 0; i < 40; i++)
		if (recv(self->fd, self->buf, BUF, 0) != 100)
			return -1;
	return netstat("TCPHPHits") - before;
}

TEST_F(rx, urgent_data_do_not_cost_the_fast_path)
{
	long usual = fast_path_hits(self), now;
	size_t n = next_fpdu(&self->peer, 100, self->fpdu);

	if (usual < 10)
		SKIP(return, "it is hardly used here anyway");
	ASSERT_TRUE(send_urgent(self->peer.fd, self->fpdu, n));
	ASSERT_EQ(100, recv(self->fd, self->buf, BUF, 0));
	now = fast_path_hits(self);
	EXPECT_LE(usual / 2, now);
}

/* ---- a first FPDU that is not good: who waits to send is told ---- */

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
		/* fallthrough */
	case END:
		return err | shutdown(self->peer.fd, SHUT_WR);
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

TEST_F(first, sender_that_waits_is_told)
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

/* ---- code 1 of RFC 5044 section 8: "RST received, or FIN received" ---- */

TEST_F(rx, info_tells_of_the_fin_before_it_is_read)
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

TEST_F(rx, info_tells_of_the_reset_before_it_is_read)
{
	SEND(10);
	hang_up(self->peer.fd);
	self->peer.fd = -1;
	ASSERT_NE(0, POLLHUP & poll_for(self->fd, POLLHUP, 20000));
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);
}

/* What was wrong before the end came says more. */
TEST_F(rx, info_keeps_the_code_of_a_bad_fpdu)
{
	ASSERT_EQ(0, write_all(self->peer.fd, self->peer.tx_markers ?
			       "\0\0\0\0\xff\xff" : "\xff\xff",
			       self->peer.tx_markers ? 6 : 2));
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

/* ---- verified first, then copied: RFC 5044 section 6 ---- */

#define UNTOUCHED	0xa5

static size_t touched(const u8 *buf, size_t len)
{
	size_t i, n = 0;

	for (i = 0; i < len; i++)
		n += buf[i] != UNTOUCHED;
	return n;
}

/* In pieces: what a task sends elsewhere meanwhile lies in between. */
static int send_in_pieces(int fd, const u8 *octets, size_t len, int other)
{
	size_t at, n;

	for (at = 0; at < len; at += n) {
		n = len - at < 300 ? len - at : 300;
		if (write_all(fd, octets + at, n) || write_all(other, "-", 1))
			return -1;
	}
	return 0;
}

TEST_F(rx, octets_of_a_bad_record_in_pieces_are_not_shown)
{
	size_t n = next_fpdu(&self->peer, 1000, self->fpdu);
	int other[2];

	if (variant->flags & MPA_START_NO_CRC)
		return;
	ASSERT_EQ(0, tcp_pair(AF_INET, other));
	self->fpdu[n - 1] ^= 1;
	ASSERT_EQ(0, send_in_pieces(self->peer.fd, self->fpdu, n, other[0]));
	ASSERT_TRUE(arrived(self->fd, n));
	memset(self->buf, UNTOUCHED, BUF);
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(0, touched(self->buf, BUF));
	hang_up(other[0]);
	hang_up(other[1]);
}

TEST_F(rx, octets_of_a_bad_record_behind_a_batch_are_not_shown)
{
	size_t n;
	int other[2];

	if (variant->flags & MPA_START_NO_CRC)
		return;
	ASSERT_EQ(0, tcp_pair(AF_INET, other));
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(100);
	n = next_fpdu(&self->peer, 1000, self->fpdu);
	self->fpdu[n - 1] ^= 1;
	ASSERT_EQ(0, send_in_pieces(self->peer.fd, self->fpdu, n, other[0]));
	ASSERT_TRUE(arrived(self->fd, self->peer.tx_position));
	memset(self->buf, UNTOUCHED, BUF);
	EXPECT_EQ(100, RECEIVE(BUF, 0));
	EXPECT_EQ(0, touched(self->buf + 100, BUF - 100));
	EXPECT_EQ(-1, RECEIVE(BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(0, touched(self->buf + 100, BUF - 100));
	hang_up(other[0]);
	hang_up(other[1]);
}

/* The same for a record that the receive buffer has no room for. */
TEST_F(rx, octets_of_a_large_bad_record_are_not_shown)
{
	struct peer peer;
	int fd[2];
	size_t n;

	if (variant->flags & MPA_START_NO_CRC)
		return;
	ASSERT_EQ(0, tcp_pair_buf(AF_INET, fd, 4096));
	ASSERT_EQ(0, receive_directly(fd[1], &peer, fd[0], variant->flags));
	patience(fd[1], 20);
	n = next_fpdu(&peer, 30000, self->fpdu);
	self->fpdu[n - 1] ^= 1;
	ASSERT_EQ(0, write_all(fd[0], self->fpdu, n));
	memset(self->buf, UNTOUCHED, BUF);
	EXPECT_EQ(-1, recv(fd[1], self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(0, touched(self->buf, BUF));
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* Good ones in pieces come as before, around the markers, part by part. */
TEST_F(rx, record_in_pieces_is_read_part_by_part)
{
	size_t n = next_fpdu(&self->peer, 5000, self->fpdu), at;
	int other[2];

	ASSERT_EQ(0, tcp_pair(AF_INET, other));
	ASSERT_EQ(0, send_in_pieces(self->peer.fd, self->fpdu, n, other[0]));
	ASSERT_TRUE(arrived(self->fd, n));
	EXPECT_EQ(5000, recv(self->fd, self->buf, BUF, MSG_PEEK));
	EXPECT_TRUE(record_good(self->buf, 5000));
	memset(self->buf, 0, 5000);
	for (at = 0; at < 5000; at += n) {
		n = 5000 - at < 333 ? 5000 - at : 333;
		ASSERT_EQ(n, recv(self->fd, self->buf + at, n, 0));
	}
	EXPECT_TRUE(record_good(self->buf, 5000));
	hang_up(other[0]);
	hang_up(other[1]);
}

/* ---- where octets go ---- */

/* One recvmsg into these buffers. */
static ssize_t receive_iov(struct _test_data_rx *self, struct iovec *iov,
			   int n)
{
	static u64 control[CONTROL_MAX / sizeof(u64) + 1];
	struct msghdr msg = {
		.msg_iov = iov, .msg_iovlen = n,
		.msg_control = control, .msg_controllen = CONTROL_MAX,
	};
	ssize_t ret;

	memset(self->got, 0, sizeof(*self->got));
	ret = recvmsg(self->fd, &msg, 0);
	if (ret >= 0)
		got_control(self->got, &msg);
	return ret;
}

/*
 * The last of them ends with the last octet of a record that lies in two, and
 * there are more records: nothing is looked for behind the last.
 */
TEST_F(rx, batch_fills_the_last_buffer_exactly)
{
	struct iovec iov[16];
	int i;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	for (i = 0; i < 16; i++)
		iov[i] = (struct iovec){ self->buf + 64 * i, 64 };
	SEND(64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 128, 7);
	EXPECT_EQ(1024, receive_iov(self, iov, 16));
	EXPECT_BATCH(64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
		     128);
	EXPECT_EQ(7, receive_iov(self, iov, 16));
	EXPECT_BATCH(7);
}

TEST_F(rx, empty_buffers_among_others_hold_nothing)
{
	struct iovec iov[16];
	int i;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	for (i = 0; i < 16; i++)
		iov[i] = (struct iovec){ self->buf + 32 * (i / 2 * 2),
					 i % 2 ? 64 : 0 };
	SEND(64, 10, 100, 64, 3, 271, 9);
	EXPECT_EQ(512, receive_iov(self, iov, 16));
	EXPECT_BATCH(64, 10, 100, 64, 3, 271);
	iov[15].iov_len = 0;
	EXPECT_EQ(9, receive_iov(self, iov, 16));
	EXPECT_BATCH(9);
}

TEST_F(rx, no_buffer_at_all_takes_nothing)
{
	struct iovec iov = { self->buf, 0 };

	SEND(5);
	EXPECT_EQ(0, receive_iov(self, &iov, 1));
	EXPECT_EQ(0, receive_iov(self, NULL, 0));
	EXPECT_EQ(5, recv(self->fd, self->buf, BUF, 0));
}

/* ---- memory ---- */

#define TCP_MEM		"/proc/sys/net/ipv4/tcp_mem"
#define HOLDERS		128

/* Pages that TCP has on its account, all network namespaces together. */
static long tcp_pages(void)
{
	FILE *file = fopen("/proc/net/sockstat", "r");
	char line[256];
	long pages = -1;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "TCP:", 4))
			sscanf(strstr(line, "mem"), "mem %ld", &pages);
	if (file)
		fclose(file);
	return pages;
}

static u32 rmem_alloc(int fd)
{
	u32 info[SK_MEMINFO_VARS] = {};
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len);
	return info[SK_MEMINFO_RMEM_ALLOC];
}

FIXTURE(account)
{
	int hog[2];
	int (*fd)[2];
	int n;
	char usual[64];
	u8 *fpdu;
};

FIXTURE_SETUP(account)
{
	int file = open(TCP_MEM, O_RDONLY);

	memset(self->usual, 0, sizeof(self->usual));
	ASSERT_LT(0, read(file, self->usual, sizeof(self->usual) - 1));
	close(file);
	self->fd = calloc(HOLDERS, sizeof(*self->fd));
	self->fpdu = malloc(BUF);
	self->n = 0;
	self->hog[0] = -1;
	self->hog[1] = -1;
}

static int tcp_mem(const char *text)
{
	int file = open(TCP_MEM, O_WRONLY), err;

	err = write(file, text, strlen(text)) < 0 ? -1 : 0;
	close(file);
	return err;
}

FIXTURE_TEARDOWN(account)
{
	tcp_mem(self->usual);
	hang_up(self->hog[0]);
	hang_up(self->hog[1]);
	while (self->n--) {
		hang_up(self->fd[self->n][0]);
		hang_up(self->fd[self->n][1]);
	}
	free(self->fd);
	free(self->fpdu);
}

/* One more receiver: fd[i][1], with a hand-made peer at fd[i][0]. */
static int one_more(struct _test_data_account *self, int rcvbuf,
		    struct peer *peer)
{
	int *fd = self->fd[self->n];

	if (tcp_pair_buf(AF_INET, fd, rcvbuf))
		return -1;
	self->n++;
	patience(fd[1], 20);
	return receive_directly(fd[1], peer, fd[0], 0);
}

/* So much that TCP's count of its memory, a coarse one, is above any limit. */
static int hog_memory(struct _test_data_account *self)
{
	int large = 1 << 22;

	if (tcp_pair(AF_INET, self->hog) ||
	    setsockopt(self->hog[0], SOL_SOCKET, SO_SNDBUFFORCE, &large,
		       sizeof(large)))
		return -1;
	while (send(self->hog[0], record_row, sizeof(record_row),
		    MSG_DONTWAIT) > 0)
		;
	return 0;
}

/*
 * Of each record 60000 octets are here, for which its receive buffer has no
 * room: 15 pages each that sockstat must show, with an error of some 256 pages
 * a processor.
 */
TEST_F(account, what_the_buffer_has_no_room_for_is_on_the_socket)
{
	long before = tcp_pages(), held, after;
	struct peer peer;
	int i;

	for (i = 0; i < HOLDERS; i++) {
		ASSERT_EQ(0, one_more(self, 8192, &peer));
		next_fpdu(&peer, MPA_ULPDU_MAX, self->fpdu);
		ASSERT_EQ(0, write_all(self->fd[i][0], self->fpdu, 60000));
	}
	for (i = 0; i < HOLDERS; i++)
		ASSERT_TRUE(arrived(self->fd[i][1], 60000));
	held = tcp_pages();
	EXPECT_LE(HOLDERS * 15 - 800, held - before);
	/* Some are read, some are closed as they are. */
	for (i = 0; i < HOLDERS / 2; i++) {
		ASSERT_EQ(0, write_all(self->fd[i][0], self->fpdu + 60000,
				       MPA_ULPDU_MAX + 8 - 60000));
		ASSERT_EQ(MPA_ULPDU_MAX, recv(self->fd[i][1], self->fpdu, BUF,
					      0));
		next_fpdu(&peer, MPA_ULPDU_MAX, self->fpdu);
	}
	for (i = 0; i < HOLDERS; i++) {
		hang_up(self->fd[i][0]);
		hang_up(self->fd[i][1]);
	}
	self->n = 0;
	after = tcp_pages();
	EXPECT_GE(800, after - before);
}

/* TCP drops nothing yet, and the buffer has room. */
TEST_F(account, octets_stay_with_tcp_while_others_are_short_of_memory)
{
	struct peer peer;
	size_t n;
	int i;

	ASSERT_EQ(0, hog_memory(self));
	ASSERT_EQ(0, one_more(self, 0, &peer));
	ASSERT_EQ(0, tcp_mem("1 1 1000000"));
	/* It takes somebody who wants memory for TCP to notice. */
	ASSERT_EQ(0, write_all(self->hog[1], record_row, 65536));
	n = next_fpdu(&peer, 20000, self->fpdu);
	ASSERT_EQ(0, write_all(self->fd[0][0], self->fpdu, 1000));
	ASSERT_TRUE(arrived(self->fd[0][1], 1000));
	for (i = 0; i < 100; i++) {
		ASSERT_NE(0, rmem_alloc(self->fd[0][1])) {
			TH_LOG("taken out of the buffer after %d ms", i);
		}
		poll(NULL, 0, 1);
	}
	ASSERT_EQ(0, write_all(self->fd[0][0], self->fpdu + 1000, n - 1000));
	ASSERT_EQ(POLLIN, poll_for(self->fd[0][1], POLLIN, 20000));
	EXPECT_EQ(20000, recv(self->fd[0][1], self->fpdu, BUF, 0));
	EXPECT_TRUE(record_good(self->fpdu, 20000));
}

/*
 * TCP takes a segment at its limit only while its queue is empty: that must
 * not keep a record from becoming whole.
 */
TEST_F(account, record_becomes_whole_at_the_limit_of_memory)
{
	struct peer peer;
	int i, on = 1, off = 0;
	size_t n;

	ASSERT_EQ(0, hog_memory(self));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, one_more(self, 0, &peer));
		n = next_fpdu(&peer, 40000, self->fpdu);
		ASSERT_EQ(0, write_all(self->fd[i][0], self->fpdu, 20000));
		ASSERT_TRUE(arrived(self->fd[i][1], 20000));
		/* The sender's share is there before. */
		setsockopt(self->fd[i][0], SOL_TCP, TCP_CORK, &on, sizeof(on));
		ASSERT_EQ(0, write_all(self->fd[i][0], self->fpdu + 20000,
				       n - 20000));
		ASSERT_EQ(0, tcp_mem("1 1 1"));
		setsockopt(self->fd[i][0], SOL_TCP, TCP_CORK, &off,
			   sizeof(off));
		ASSERT_EQ(POLLIN, poll_for(self->fd[i][1], POLLIN, 20000));
		EXPECT_EQ(40000, recv(self->fd[i][1], self->fpdu, BUF, 0));
		EXPECT_TRUE(record_good(self->fpdu, 40000));
		ASSERT_EQ(0, tcp_mem(self->usual));
	}
}

TEST_HARNESS_MAIN
