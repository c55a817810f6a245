// SPDX-License-Identifier: GPL-2.0
/*
 * TUF is switched on and off, one direction at a time. Octets before and after framing,
 * and the other direction, are plain TCP.
 */

#include <sys/epoll.h>
#include <sys/wait.h>

#include "mpa_harness.h"
#include "mpa_tuf.h"

#define PLAIN	"octets of plain TCP"
#define PLAIN_LEN	(sizeof(PLAIN) - 1)

static int put_plain(int fd)
{
	return write_all(fd, PLAIN, PLAIN_LEN);
}

static bool plain_comes(int fd)
{
	char seen[PLAIN_LEN];

	return read_all(fd, seen, PLAIN_LEN) == PLAIN_LEN &&
	       !memcmp(seen, PLAIN, PLAIN_LEN);
}

/* ---- framed octets among others ---- */

/* All octets have arrived before the receiver sets TUF_RX. */
TEST_F(tuf, framing_begins_among_unread_octets)
{
	size_t total = 0;
	int round;

	for (round = 0; round < 2; round++) {
		ASSERT_EQ(0, put_plain(self->fd[0]));
		ASSERT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));
		ASSERT_EQ(0, set_int(self->fd[0], MPA_PACKING, 0));
		ASSERT_EQ(300, send(self->fd[0], record_of(300), 300, 0));
		ASSERT_EQ(1, send(self->fd[0], record_of(1), 1, 0));
		ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
		tuf_record(&self->way, 300, self->octets);
		tuf_record(&self->way, 1, self->octets);
		total += PLAIN_LEN + self->way.position;
		self->way.key[0]++;
	}
	ASSERT_EQ(0, put_plain(self->fd[0]));
	ASSERT_TRUE(arrived(self->fd[1], total + PLAIN_LEN));
	self->way.key[0] -= 2;
	for (round = 0; round < 2; round++) {
		ASSERT_TRUE(plain_comes(self->fd[1]));
		ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way));
		EXPECT_EQ(300, inq(self->fd[1]));
		EXPECT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 0));
		EXPECT_TRUE(record_comes(self->fd[1], self->buf, 300));
		EXPECT_TRUE(record_comes(self->fd[1], self->buf, 1));
		ASSERT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
		EXPECT_EQ(0, tuf_info(self->fd[1]).rx_wrong_key);
		self->way.key[0]++;
	}
	EXPECT_EQ(PLAIN_LEN, inq(self->fd[1]));
	EXPECT_TRUE(plain_comes(self->fd[1]));
}

/* Both directions have ended, but unread data remains. */
TEST_F(tuf, framing_begins_after_both_ends)
{
	size_t n;

	ASSERT_EQ(0, put_plain(self->fd[0]));
	n = tuf_record(&self->way, 300, self->octets);
	n += tuf_record(&self->way, 20, self->octets + n);
	ASSERT_EQ(0, write_all(self->fd[0], self->octets, n));
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	ASSERT_TRUE(tcp_closed(self->fd[1]));
	ASSERT_TRUE(plain_comes(self->fd[1]));
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way));
	EXPECT_EQ(0, set_int(self->fd[1], MPA_RECVINFO, 1));
	EXPECT_EQ(0, set_int(self->fd[1], MPA_PLACE, 1));
	EXPECT_TRUE(record_comes(self->fd[1], self->buf, 300));
	EXPECT_TRUE(record_comes(self->fd[1], self->buf, 20));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
}

/*
 * MPA_RECV_BATCH: octets after the returned records do not affect a call. They cannot
 * be an FPDU, are an FPDU with another key, or begin an FPDU.
 */
TEST_F(tuf, batch_leaves_plain_octets_alone)
{
	static const char *const plain[] = {
		"\0\0\0\0plain octets with markers in the way",
		"\0\3another key, or what the markers leave of it",
		"\77\77 and so on",
	};
	const int len = 40;
	size_t n;
	int i;

	for (i = 0; i < ARRAY_SIZE(plain); i++) {
		START_BY_HAND();
		ASSERT_EQ(0, set_int(self->fd[1], MPA_RECV_BATCH, 1));
		n = tuf_record(&self->way, 30, self->octets);
		n += tuf_record(&self->way, 50, self->octets + n);
		memcpy(self->octets + n, plain[i], len);
		ASSERT_EQ(0, write_all(self->fd[0], self->octets, n + len));
		ASSERT_TRUE(poll_for(self->fd[1], POLLIN, 5000));
		ASSERT_EQ(80, receive(self->fd[1], self->buf, BUF, 0,
				      self->got));
		ASSERT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
		ASSERT_EQ(len, recv(self->fd[1], self->buf, BUF, 0));
		EXPECT_EQ(0, memcmp(self->buf, plain[i], len));
	}
}

/* Each TUF_TX begins at position 0. A plain socket receives the octets. */
TEST_F(tuf, each_start_begins_anew)
{
	size_t len;
	int round;

	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, put_plain(self->fd[0]));
		self->way.key[1] = round;
		ASSERT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));
		ASSERT_EQ(0, set_int(self->fd[0], MPA_PACKING, 0));
		EXPECT_TRUE(plain_comes(self->fd[1]));
		for (len = 1; len < 500; len += 83) {
			size_t n = tuf_record(&self->way, len, self->octets);

			ASSERT_EQ(len, send(self->fd[0], record_of(len), len,
					    0));
			ASSERT_EQ(n, read_all(self->fd[1], self->buf, n));
			ASSERT_EQ(0, memcmp(self->buf, self->octets, n)) {
				TH_LOG("round %d, %zu octets", round, len);
			}
		}
		ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	}
	ASSERT_EQ(0, put_plain(self->fd[0]));
	EXPECT_TRUE(plain_comes(self->fd[1]));
}

/* Switch framing many times, at different offsets. */
TEST_F(tuf, on_and_off_again)
{
	int i;

	for (i = 0; i < 50; i++) {
		self->way.key[2] = i;
		START();
		EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 1 + 17 * i));
		EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 1000 + i));
		ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
		ASSERT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
		EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
		EXPECT_TRUE(text_goes(self->fd[1], self->fd[0]));
	}
	EXPECT_EQ(0, tuf_info(self->fd[1]).rx_wrong_key);
}

TEST_F(tuf, directions_differ)
{
	struct tuf_way back = {
		.mode = variant->mode == TUF_ALIGN ? TUF_MARKERS : TUF_ALIGN,
		.period = 4096, .key = { 1, 2, 3, 4, 5, 6 },
	};
	size_t len;

	START();
	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_RX, &back));
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_TX, &back));
	ASSERT_EQ(0, set_int(self->fd[1], MPA_PACKING, 0));
	for (len = 1; len < 1400; len += 101) {
		ASSERT_TRUE(tuf_goes(self->fd[0], self->fd[1], len));
		ASSERT_TRUE(tuf_goes(self->fd[1], self->fd[0], len));
	}
	EXPECT_EQ(0, tuf_info(self->fd[0]).rx_wrong_key);
	EXPECT_EQ(0, tuf_info(self->fd[1]).rx_wrong_key);
	/* End framing in one direction; it continues in the other. */
	ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	ASSERT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
	EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
	EXPECT_TRUE(tuf_goes(self->fd[1], self->fd[0], 1234));
}

/* ---- received data while only sending is framed ---- */

TEST_F(tuf, plain_receiver_is_tcps)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0), pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, put_plain(self->fd[1]));
	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->fd[0], &event));
	ASSERT_EQ(0, put_plain(self->fd[1]));
	ASSERT_TRUE(arrived(self->fd[0], 2 * PLAIN_LEN));
	EXPECT_EQ(1, epoll_wait(epoll, &event, 1, 20000));
	EXPECT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
	EXPECT_EQ(2 * PLAIN_LEN, inq(self->fd[0]));
	EXPECT_EQ(2 * PLAIN_LEN, recv(self->fd[0], self->buf, BUF, MSG_PEEK));
	EXPECT_EQ(0, memcmp(self->buf + PLAIN_LEN, PLAIN, PLAIN_LEN));
	EXPECT_EQ(7, recv(self->fd[0], self->buf, 7, 0));
	EXPECT_EQ(0, memcmp(self->buf, PLAIN, 7));
	EXPECT_EQ(2 * PLAIN_LEN - 7, inq(self->fd[0]));
	/* recvmsg returns octets, not records. */
	ASSERT_EQ(PLAIN_LEN, receive(self->fd[0], self->buf, PLAIN_LEN, 0,
				     self->got));
	EXPECT_EQ(0, self->got->msg_flags & MSG_EOR);
	EXPECT_FALSE(self->got->has_info);
	EXPECT_EQ(0, memcmp(self->buf, &(PLAIN PLAIN)[7], PLAIN_LEN));
	ASSERT_EQ(PLAIN_LEN - 7, splice(self->fd[0], NULL, pipes[1], NULL, 1000,
					0));
	ASSERT_EQ(PLAIN_LEN - 7, read(pipes[0], self->buf, BUF));
	EXPECT_EQ(0, memcmp(self->buf, PLAIN + 7, PLAIN_LEN - 7));
	EXPECT_EQ(0, inq(self->fd[0]));
	EXPECT_EQ(0, epoll_wait(epoll, &event, 1, 0));
	EXPECT_EQ(-1, recv(self->fd[0], self->buf, BUF, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, tuf_info(self->fd[0]).rx_fpdus);
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
	EXPECT_EQ(0, recv(self->fd[0], self->buf, BUF, 0));
	close(epoll);
	close(pipes[0]);
	close(pipes[1]);
}

/* Only receiving is framed: sending is plain TCP. */
TEST_F(tuf, plain_sender_is_tcps)
{
	int pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way));
	ASSERT_EQ(0, put_plain(self->fd[1]));
	ASSERT_EQ(7, send(self->fd[1], PLAIN, 7, MSG_MORE));
	ASSERT_EQ(PLAIN_LEN - 7, write(pipes[1], PLAIN + 7, PLAIN_LEN - 7));
	ASSERT_EQ(PLAIN_LEN - 7, splice(pipes[0], NULL, self->fd[1], NULL, 1000,
					0));
	EXPECT_EQ(0, send(self->fd[1], "", 0, 0));
	EXPECT_TRUE(plain_comes(self->fd[0]));
	EXPECT_TRUE(plain_comes(self->fd[0]));
	EXPECT_EQ(0, tuf_info(self->fd[1]).tx_ulpdus);
	close(pipes[0]);
	close(pipes[1]);
}

/* A reader waits while the other direction's framing begins and ends. */
TEST_F(tuf, waiting_reader_sees_nothing_of_the_other_direction)
{
	struct call call = { .fd = self->fd[0], .buf = self->buf, .len = BUF };

	ASSERT_TRUE(call_start(&call));
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way));
	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 2000));
	ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	ASSERT_TRUE(asleep(&call.tid));
	ASSERT_EQ(0, put_plain(self->fd[1]));
	EXPECT_EQ(PLAIN_LEN, call_end(&call));
	EXPECT_EQ(0, memcmp(self->buf, PLAIN, PLAIN_LEN));
}

/* ---- threads, processes, ends ---- */

TEST_F(tuf, fork_and_dup_share_the_framing)
{
	int other, status;
	pid_t pid;

	START();
	other = dup(self->fd[0]);
	ASSERT_LE(0, other);
	pid = fork();
	if (!pid) {
		close(self->fd[0]);
		_exit(send(other, record_of(100), 100, 0) != 100 ||
		      tuf_info(other).tx_ulpdus != 1);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(record_comes(self->fd[1], self->buf, 100));
	close(other);
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 200));
	EXPECT_EQ(2, tuf_info(self->fd[0]).tx_ulpdus);
	ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	ASSERT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
	EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
}

/* Return: the first call that has returned. */
static struct call *call_first(struct call *calls, int nr)
{
	const long until = now_ms() + 20000;
	int i;

	for (; now_ms() < until; poll(NULL, 0, 1))
		for (i = 0; i < nr; i++)
			if (!pthread_tryjoin_np(calls[i].thread, NULL))
				return calls + i;
	return NULL;
}

/* Two readers wait, and one returns: the other has requested the next record. */
TEST_F(tuf, reader_beside_another_gets_a_record_larger_than_the_buffer)
{
	static u8 bufs[2][TUF_ROOM];
	struct call calls[2] = {
		{ .fd = self->fd[1], .buf = bufs[0], .len = TUF_ROOM },
		{ .fd = self->fd[1], .buf = bufs[1], .len = TUF_ROOM },
	}, *first, *other;
	const int room = 4096;

	START_BY_HAND();
	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_RCVBUF, &room,
				sizeof(room)));
	patience(self->fd[1], 5);
	ASSERT_TRUE(call_start(calls));
	ASSERT_TRUE(call_start(calls + 1));
	ASSERT_EQ(0, hand_record(self->fd[0], &self->way, 100));
	first = call_first(calls, 2);
	ASSERT_NE(NULL, first);
	EXPECT_EQ(100, first->result);
	other = first == calls ? calls + 1 : calls;
	ASSERT_EQ(0, hand_record(self->fd[0], &self->way, 60000));
	EXPECT_EQ(60000, call_end(other));
	EXPECT_TRUE(record_good(other->buf, 60000));
}

TEST_F(tuf, close_sends_what_was_accepted)
{
	size_t len;

	START();
	for (len = 1; len <= 200; len++)
		ASSERT_EQ(len, send(self->fd[0], record_of(len), len, 0));
	close(self->fd[0]);
	self->fd[0] = -1;
	for (len = 1; len <= 200; len++)
		ASSERT_TRUE(record_comes(self->fd[1], self->buf, len));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
}

/* Framing is switched off, and the socket closed, while framed octets are unsent. */
TEST_F(tuf, stop_sends_what_was_accepted)
{
	int i;

	START();
	set_nonblock(self->fd[0]);
	for (i = 0; send(self->fd[0], record_of(1000), 1000, 0) == 1000; i++)
		;
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	close(self->fd[0]);
	self->fd[0] = -1;
	while (i--)
		ASSERT_TRUE(record_comes(self->fd[1], self->buf, 1000));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
}

TEST_F(tuf, open_ulpdu_is_dropped_at_the_end)
{
	START();
	ASSERT_EQ(7, send(self->fd[0], record_of(7), 7, 0));
	ASSERT_EQ(100, send(self->fd[0], record_of(100), 100, MSG_MORE));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_TRUE(record_comes(self->fd[1], self->buf, 7));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(-1, send(self->fd[0], "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
}

/* With MPA_SEGMENT a full FPDU ends its ULPDU, with or without MSG_MORE. */
TEST_F(tuf, ulpdu_of_full_fpdus_is_not_open)
{
	START();
	ASSERT_EQ(0, set_int(self->fd[0], MPA_SEGMENT, 100));
	ASSERT_EQ(200, send(self->fd[0], record_of(200), 200, MSG_MORE));
	ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));
	ASSERT_EQ(150, send(self->fd[0], record_of(150), 150, MSG_MORE));
	EXPECT_EQ(EBUSY, tuf_stop(self->fd[0], TUF_TX));
	ASSERT_EQ(50, send(self->fd[0], record_of(50), 50, 0));
	EXPECT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
}

TEST_F(tuf, end_between_fpdus_is_0)
{
	START_BY_HAND();
	ASSERT_EQ(0, hand_record(self->fd[0], &self->way, 11));
	ASSERT_EQ(0, hand_record(self->fd[0], &self->way, 12));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_NE(0, POLLRDHUP & poll_for(self->fd[1], POLLRDHUP, 20000));
	EXPECT_TRUE(record_comes(self->fd[1], self->buf, 11));
	EXPECT_TRUE(record_comes(self->fd[1], self->buf, 12));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
	/* As with MPA, the error is "TCP connection closed", not that of an FPDU. */
	EXPECT_EQ(MPA_ERR_TCP, tuf_info(self->fd[1]).error);
	EXPECT_EQ(0, tuf_info(self->fd[1]).error_position);
	/* The other direction still works. */
	EXPECT_TRUE(text_goes(self->fd[1], self->fd[0]));
}

/* The stream ends in a header, in a marker, or before the last octet. */
TEST_F(tuf, end_inside_an_fpdu_is_an_error)
{
	size_t first, n, cut;

	for (cut = 1; ; cut += cut < 20 ? 1 : 57) {
		hang_up(self->fd[0]);
		hang_up(self->fd[1]);
		ASSERT_EQ(0, tcp_pair(variant->family, self->fd));
		patience(self->fd[1], 20);
		ASSERT_EQ(0, tuf_attach(self->fd[1]));
		START_BY_HAND();
		first = tuf_record(&self->way, 115, self->octets);
		n = first + tuf_record(&self->way, 300, self->octets + first);
		if (first + cut >= n)
			break;
		ASSERT_EQ(0, write_all(self->fd[0], self->octets, first + cut));
		ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
		ASSERT_TRUE(record_comes(self->fd[1], self->buf, 115));
		ASSERT_EQ(-1, recv(self->fd[1], self->buf, BUF, 0)) {
			TH_LOG("after %zu octets of it", cut);
		}
		EXPECT_EQ(EBADMSG, errno);
		EXPECT_EQ(MPA_ERR_TCP, tuf_info(self->fd[1]).error);
		EXPECT_EQ(first, tuf_info(self->fd[1]).error_position);
		EXPECT_EQ(1, tuf_info(self->fd[1]).rx_fpdus);
	}
}

/* Both directions report a RST. */
TEST_F(tuf, reset_is_reported)
{
	START();
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 100));
	hang_up(self->fd[0]);
	self->fd[0] = -1;
	ASSERT_NE(0, POLLERR & poll_for(self->fd[1], POLLERR, 20000));
	EXPECT_EQ(-1, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(ECONNRESET, errno);
	EXPECT_EQ(-1, send(self->fd[1], "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
}

/* ---- another connection of the same socket ---- */

/* Disconnect the socket, and connect it to a plain socket at its own address. */
static int connect_anew(int fd)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int listener, peer = -1;

	if (getsockname(fd, (struct sockaddr *)&addr, &len))
		return -1;
	((struct sockaddr_in *)&addr)->sin_port = 0;
	listener = socket(addr.ss_family, SOCK_STREAM, 0);
	if (!connect(fd, &nobody, sizeof(nobody)) &&
	    !bind(listener, (struct sockaddr *)&addr, len) &&
	    !listen(listener, 1) &&
	    !getsockname(listener, (struct sockaddr *)&addr, &len) &&
	    !connect(fd, (struct sockaddr *)&addr, len))
		peer = accept(listener, NULL, NULL);
	close(listener);
	if (peer >= 0)
		patience(peer, 10);
	return peer;
}

/* The loss of a connection does not affect the socket's next connection. */
TEST_F(tuf, shutdown_after_another_was_reset_sends_a_fin)
{
	int peer;

	START();
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 100));
	hang_up(self->fd[0]);
	self->fd[0] = -1;
	ASSERT_NE(0, POLLERR & poll_for(self->fd[1], POLLERR, 20000));
	ASSERT_EQ(ECONNRESET, so_error(self->fd[1]));
	ASSERT_EQ(0, tuf_stop(self->fd[1], TUF_TX));
	ASSERT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
	peer = connect_anew(self->fd[1]);
	ASSERT_LE(0, peer);
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
	EXPECT_EQ(0, recv(peer, self->buf, BUF, 0));
	hang_up(peer);
}

/* End the first connection in both directions, and switch framing off. */
static bool ended(int fd, int peer)
{
	char octet;

	return !shutdown(fd, SHUT_WR) && !recv(peer, &octet, 1, 0) &&
	       !shutdown(peer, SHUT_WR) && !recv(fd, &octet, 1, 0) &&
	       tcp_closed(peer) && !tuf_stop(fd, TUF_TX);
}

/* The second connection's segments are not searched for the first one's FPDUs. */
TEST_F(tuf, plain_octets_after_a_framed_connection)
{
	int peer;

	START();
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 100));
	ASSERT_TRUE(ended(self->fd[0], self->fd[1]));
	peer = connect_anew(self->fd[0]);
	ASSERT_LE(0, peer);
	ASSERT_EQ(50000, send(self->fd[0], record_row, 50000, 0));
	EXPECT_EQ(50000, read_all(peer, self->buf, 50000));
	EXPECT_EQ(0, memcmp(self->buf, record_row, 50000));
	hang_up(peer);
}

/* The end of sending on the first connection must not make a full buffer writable. */
TEST_F(tuf, full_buffer_after_a_framed_connection)
{
	struct tuf_way way = self->way;
	int peer;

	START();
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 100));
	ASSERT_TRUE(ended(self->fd[0], self->fd[1]));
	peer = connect_anew(self->fd[0]);
	ASSERT_LE(0, peer);
	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_RX, &way));
	do {
		while (send(self->fd[0], record_row, 50000, MSG_DONTWAIT) > 0)
			;
		ASSERT_EQ(EAGAIN, errno);
		/* TCP's send buffer grows with the peer's receive buffer. */
	} while (poll_for(self->fd[0], POLLOUT, 300) == POLLOUT &&
		 send(self->fd[0], record_row, 1, MSG_DONTWAIT) == 1);
	EXPECT_EQ(0, poll_for(self->fd[0], POLLOUT, 0));
	hang_up(peer);
}

TEST_HARNESS_MAIN
