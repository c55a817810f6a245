// SPDX-License-Identifier: GPL-2.0
/*
 * Received data is verified before it is copied, is copied as far as there is space,
 * and is charged to the socket until it is read.
 */

#include <linux/sock_diag.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "mpa_harness.h"
#include "mpa_receive.h"

/* ---- verified first, then copied: RFC 5044 section 6 ---- */

#define UNTOUCHED	0xa5

static size_t touched(const u8 *buf, size_t len)
{
	size_t i, n = 0;

	for (i = 0; i < len; i++)
		n += buf[i] != UNTOUCHED;
	return n;
}

/* Send pieces that are not contiguous in memory: the task also sends on @other. */
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

TEST_F(rx, octets_of_a_bad_record_after_a_batch_are_not_shown)
{
	int other[2];
	size_t n;

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

/* As above, for a record larger than the receive buffer. */
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

/* Good records in several pieces are read part by part, without the markers. */
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

/* Call recvmsg once with these buffers. */
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
 * A record in two skbs fills the last buffer, and more records follow: the call does
 * not inspect them.
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

/* ---- SO_BUSY_POLL ---- */

/* Accept a connection at 192.0.2.2, in a network namespace of its own. */
static int peer_over_veth(int to_parent, int from_parent)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = 1 };
	char octet = 0;
	int listener;

	if (unshare(CLONE_NEWNET) || write(to_parent, &octet, 1) != 1 ||
	    read(from_parent, &octet, 1) != 1 ||
	    system("ethtool -K vb tso off >/dev/null") ||
	    system("ip addr add 192.0.2.2/24 dev vb && ip link set vb up"))
		_exit(1);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) ||
	    listen(listener, 1) || write(to_parent, &octet, 1) != 1)
		_exit(2);
	return accept(listener, NULL, NULL);
}

/* Send nothing, and exit when the connection ends. */
static void silent_peer(int to_parent, int from_parent)
{
	int fd = peer_over_veth(to_parent, from_parent);
	char octet;

	_exit(recv(fd, &octet, 1, 0) ? 3 : 0);
}

/* Send three records; the second is lost, and not retransmitted before an ACK. */
static void losing_peer(int to_parent, int from_parent)
{
	int fd = peer_over_veth(to_parent, from_parent), on = 1;
	struct peer peer = { .tx_markers = true };
	static u8 out[4096];
	u32 n[3], i;
	char octet;

	for (i = 0; i < 3; i++)
		n[i] = peer_fpdu(&peer, record_of(1000), 1000, out + 1200 * i);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (write_all(fd, out, n[0]) || read(from_parent, &octet, 1) != 1 ||
	    system("tc qdisc add dev vb root netem loss 100%") ||
	    write_all(fd, out + 1200, n[1]) ||
	    system("tc qdisc del dev vb root") ||
	    write_all(fd, out + 2400, n[2]))
		_exit(3);
	while (recv(fd, &octet, 1, 0) > 0)
		;
	_exit(0);
}

static long thread_ms(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/* Open a connection over a device with NAPI and a delay of @ms. Return: the socket, or -1. */
static int connect_over_veth(pid_t peer, int to_peer, int from_peer, int ms)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = 1 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char text[80], octet;

	inet_pton(AF_INET, "192.0.2.2", &addr.sin_addr);
	snprintf(text, sizeof(text),
		 "ip link add va type veth peer name vb netns %d", peer);
	if (read(from_peer, &octet, 1) != 1 || system(text) ||
	    system("ethtool -K va gro on >/dev/null") ||
	    system("ip addr add 192.0.2.1/24 dev va && ip link set va up"))
		goto failed;
	snprintf(text, sizeof(text),
		 "tc qdisc add dev va root netem delay %dms", ms);
	if ((ms && system(text)) ||
	    write(to_peer, &octet, 1) != 1 || read(from_peer, &octet, 1) != 1 ||
	    connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		goto failed;
	return fd;
failed:
	close(fd);
	return -1;
}

/* recv() waits for a second, and polls the device's queue for part of it. */
TEST(busy_poll_is_heeded)
{
	int to[2], from[2], fd, usec = 400000;
	long before, busy, plain;
	struct peer none;
	char octet;
	pid_t pid;

	/* PREEMPT_RT has no busy polling. */
	if (access("/proc/sys/net/core/busy_poll", F_OK))
		SKIP(return, "no busy polling");
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, pipe(to));
	ASSERT_EQ(0, pipe(from));
	pid = fork();
	if (!pid)
		silent_peer(from[1], to[0]);
	fd = connect_over_veth(pid, to[1], from[0], 0);
	if (fd < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		SKIP(return, "no veth with NAPI: %m");
	}
	patience(fd, 1);
	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &usec,
				sizeof(usec)));
	before = thread_ms();
	EXPECT_EQ(-1, recv(fd, &octet, 1, 0));
	plain = thread_ms() - before;
	ASSERT_EQ(0, receive_directly(fd, &none, -1, 0));
	before = thread_ms();
	EXPECT_EQ(-1, recv(fd, &octet, 1, 0));
	EXPECT_EQ(EAGAIN, errno);
	busy = thread_ms() - before;
	hang_up(fd);
	waitpid(pid, NULL, 0);
	if (plain < 100)
		SKIP(return, "TCP does not poll here");
	EXPECT_LE(plain / 3, busy);
}

TEST(busy_poll_ends_with_a_placed_record)
{
	int to[2], from[2], fd, usec = 2000000;
	static u8 buf[2000];
	struct peer none;
	struct got got;
	pid_t pid;

	/* PREEMPT_RT has no busy polling. */
	if (access("/proc/sys/net/core/busy_poll", F_OK))
		SKIP(return, "no busy polling");
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, pipe(to));
	ASSERT_EQ(0, pipe(from));
	pid = fork();
	if (!pid)
		losing_peer(from[1], to[0]);
	fd = connect_over_veth(pid, to[1], from[0], 600);
	if (fd < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		SKIP(return, "no veth with NAPI, or no netem: %m");
	}
	patience(fd, 20);
	ASSERT_EQ(0, receive_directly(fd, &none, -1, MPA_START_MARKERS));
	ASSERT_EQ(0, set_int(fd, MPA_PLACE, 1));
	ASSERT_EQ(0, set_int(fd, MPA_RECVINFO, 1));
	ASSERT_EQ(1000, receive(fd, buf, sizeof(buf), 0, &got));
	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &usec,
				sizeof(usec)));
	ASSERT_EQ(1, write(to[1], "", 1));
	ASSERT_EQ(1000, receive(fd, buf, sizeof(buf), 0, &got));
	EXPECT_TRUE(got.info.flags & MPA_RECVINFO_PLACED);
	hang_up(fd);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- memory ---- */

#define TCP_MEM		"/proc/sys/net/ipv4/tcp_mem"
#define HOLDERS		128

/* Return: pages charged to TCP, in all network namespaces. */
static long tcp_pages(void)
{
	FILE *file = fopen("/proc/net/sockstat", "r");
	long pages = -1;
	char line[256];

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

/* Open another connection: receiver fd[i][1], simulated peer fd[i][0]. */
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

/* Raise TCP's memory count, which is coarse, above any limit. */
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
 * On each socket 60000 octets of a record have arrived, more than the receive buffer
 * takes: sockstat must show 15 pages for each, with a tolerance of 256 pages per
 * processor.
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
	/* Read some records, and close some sockets with unread records. */
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

/* TCP drops nothing yet, and the buffer has space: no stash is needed. */
TEST_F(account, octets_stay_with_tcp_while_others_are_short_of_memory)
{
	struct peer peer;
	size_t n;
	int i;

	ASSERT_EQ(0, hog_memory(self));
	ASSERT_EQ(0, one_more(self, 0, &peer));
	ASSERT_EQ(0, tcp_mem("1 1 1000000"));
	/* TCP detects memory pressure only when another socket needs memory. */
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
 * At its limit TCP accepts a segment only if its queue is empty: a record must become
 * complete nevertheless.
 */
TEST_F(account, record_becomes_whole_at_the_limit_of_memory)
{
	int i, on = 1, off = 0;
	struct peer peer;
	size_t n;

	ASSERT_EQ(0, hog_memory(self));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, one_more(self, 0, &peer));
		n = next_fpdu(&peer, 40000, self->fpdu);
		ASSERT_EQ(0, write_all(self->fd[i][0], self->fpdu, 20000));
		ASSERT_TRUE(arrived(self->fd[i][1], 20000));
		/* Allocate the sender's memory before the limit is set. */
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
