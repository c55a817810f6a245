// SPDX-License-Identifier: GPL-2.0
/*
 * Forged segments that no sender of this kernel sends: they overlap, end anywhere, and
 * arrive in any order.
 */

#include <linux/ip.h>
#include <poll.h>

#include "mpa_harness.h"
#include "mpa_receive.h"
#include "mpa_forge.h"

#define FORGE(off, end) \
	ASSERT_EQ(0, forge(&forger, off, self->fpdu + (off), (end) - (off), 0, \
			   0))

/* Build a few records in @fpdu. Return: the number of octets. */
static size_t stream_make(struct peer *peer, u8 *fpdu)
{
	static const size_t lens[] = { 9, 1, 700, 2, 300 };
	unsigned int i;
	size_t n = 0;

	for (i = 0; i < ARRAY_SIZE(lens); i++)
		n += next_fpdu(peer, lens[i], fpdu + n);
	return n;
}

static bool stream_comes(int fd, u8 *buf)
{
	static const size_t lens[] = { 9, 1, 700, 2, 300 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++)
		if (recv(fd, buf, 70000, 0) != (ssize_t)lens[i] ||
		    !record_good(buf, lens[i]))
			return false;
	return true;
}

/* Loopback drops segments when net.core.netdev_max_backlog (1000) are waiting. */
#define STEPS_AT_ONCE	100

/*
 * Of two copies of an octet in its queue TCP uses the first: the second copy is always
 * wrong here.
 */
TEST_F_TIMEOUT(rx, segments_that_overlap, 120)
{
	size_t len, at, step, i;
	struct forger forger;
	u8 junk[2000];
	u32 before;

	ASSERT_EQ(0, forger_open(&forger, self->peer.fd, self->fd));
	before = received(self->fd) - self->peer.tx_position;
	for (step = 1; step < 300; step = step * 2 + 1) {
		u32 start = self->peer.tx_position;

		len = stream_make(&self->peer, self->fpdu);
		for (at = 0; at < len; at += step) {
			/* Begin up to 100 octets too early, with wrong content. */
			size_t n = len - at < step ? len - at : step;
			size_t back = at < 100 ? at : 100;

			for (i = 0; i < back; i++)
				junk[i] = ~self->fpdu[at - back + i];
			memcpy(junk + back, self->fpdu + at, n);
			ASSERT_EQ(0, forge(&forger, start + at - back, junk,
					   back + n, 0, 0));
			if (at / step % STEPS_AT_ONCE == STEPS_AT_ONCE - 1)
				ASSERT_TRUE(arrived(self->fd, before + start + at + n));
		}
		ASSERT_TRUE(stream_comes(self->fd, self->buf)) {
			TH_LOG("in steps of %zu", step);
		}
	}
	close(forger.raw);
}

/* A batch of overlapping segments: mpa_cursor skips what repeats. */
TEST_F(rx, batch_over_segments_that_overlap)
{
	struct forger forger;
	size_t len, at;

	ASSERT_EQ(0, forger_open(&forger, self->peer.fd, self->fd));
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	len = stream_make(&self->peer, self->fpdu);
	for (at = 0; at < len; at += 10)
		FORGE(at < 17 ? 0 : at - 17, len - at < 10 ? len : at + 10);
	ASSERT_TRUE(arrived(self->fd, len));
	EXPECT_EQ(1012, RECEIVE(BUF, 0));
	EXPECT_BATCH(9, 1, 700, 2, 300);
	close(forger.raw);
}

/* Split the stream at every octet; the second part arrives first. */
TEST_F_TIMEOUT(rx, segments_in_reverse_order, 120)
{
	struct forger forger;
	size_t len, cut;
	u32 start;

	ASSERT_EQ(0, forger_open(&forger, self->peer.fd, self->fd));
	for (cut = 1; cut < 200; cut += cut < 30 ? 1 : 13) {
		start = self->peer.tx_position;
		len = stream_make(&self->peer, self->fpdu);
		ASSERT_EQ(0, forge(&forger, start + cut, self->fpdu + cut,
				   len - cut, 0, 0));
		ASSERT_EQ(-1, recv(self->fd, self->buf, BUF, MSG_DONTWAIT));
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_EQ(0, forge(&forger, start, self->fpdu, cut, 0, 0));
		ASSERT_TRUE(stream_comes(self->fd, self->buf)) {
			TH_LOG("cut at %zu", cut);
		}
	}
	close(forger.raw);
}

TEST_F_TIMEOUT(rx, urgent_pointer_anywhere, 120)
{
	struct forger forger;
	size_t len, at;

	ASSERT_EQ(0, forger_open(&forger, self->peer.fd, self->fd));
	for (at = 1; at < 40; at++) {
		u32 start = self->peer.tx_position;

		len = stream_make(&self->peer, self->fpdu);
		ASSERT_EQ(0, forge(&forger, start, self->fpdu, len,
				   TCP_FLAG_BITS_URG, at));
		ASSERT_TRUE(stream_comes(self->fd, self->buf)) {
			TH_LOG("urgent octet %zu", at);
		}
	}
	close(forger.raw);
}

/* ---- two FINs ---- */

#define END_LEN		5	/* short, so that TCP appends them to other segments */

/*
 * Send two segments that end with a FIN. They wait for the octets before @begin, and
 * TCP merges them: the first FIN then counts as an octet, the one before the last
 * END_LEN, which never arrives. Return: 0, or -1 if they cannot be sent.
 */
static int forge_two_fins(struct forger *forger, const u8 *octets, size_t begin,
			  size_t len)
{
	size_t fin = len - END_LEN - 1;

	return forge(forger, begin, octets + begin, fin - begin,
		     TCP_FLAG_BITS_FIN, 0) ||
	       forge(forger, fin + 1, octets + fin + 1, END_LEN,
		     TCP_FLAG_BITS_FIN, 0) ||
	       forge(forger, 0, octets, begin, 0, 0) ? -1 : 0;
}

#define EXPECT_RECORD_CUT_SHORT(how) do {				\
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, how));		\
	EXPECT_EQ(EBADMSG, errno) {					\
		TH_LOG("flags %#x: expected EBADMSG, seen %m", how);	\
	}								\
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);		\
} while (0)

/* A FIN is no octet of a record: every call reports a truncated record. */
TEST_F(rx, fin_before_another_is_no_octet_of_a_record)
{
	struct forger forger;
	size_t len;

	ASSERT_EQ(0, forger_open(&forger, self->peer.fd, self->fd));
	len = next_fpdu(&self->peer, 180, self->fpdu);
	ASSERT_EQ(0, forge_two_fins(&forger, self->fpdu, 100, len));
	ASSERT_EQ(POLLIN, poll_for(self->fd, POLLIN, 20000));
	if (received(self->fd) <= len)
		SKIP(return, "TCP does not join them");
	EXPECT_RECORD_CUT_SHORT(MSG_DONTWAIT | MSG_PEEK);
	EXPECT_RECORD_CUT_SHORT(MSG_DONTWAIT);
	EXPECT_RECORD_CUT_SHORT(0);
	close(forger.raw);
}

TEST_F(rx, records_before_two_fins_are_read_in_a_batch)
{
	struct forger forger;
	size_t len;

	ASSERT_EQ(0, forger_open(&forger, self->peer.fd, self->fd));
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	len = next_fpdu(&self->peer, 30, self->fpdu);
	len += next_fpdu(&self->peer, 20, self->fpdu + len);
	len += next_fpdu(&self->peer, 110, self->fpdu + len);
	ASSERT_EQ(0, forge_two_fins(&forger, self->fpdu, 100, len));
	ASSERT_EQ(POLLIN, poll_for(self->fd, POLLIN, 20000));
	if (received(self->fd) <= len)
		SKIP(return, "TCP does not join them");
	EXPECT_EQ(50, RECEIVE(BUF, 0));
	EXPECT_BATCH(30, 20);
	EXPECT_RECORD_CUT_SHORT(MSG_DONTWAIT);
	close(forger.raw);
}

/*
 * The frame announces private data, but TCP counts FINs as these octets. The memory's
 * previous content must not be shown.
 */
TEST_F(rx, fins_are_no_private_data)
{
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1, .timeout_ms = 5000,
	};
	struct forger forger;
	struct mpa_peer peer;
	socklen_t len = sizeof(peer);
	u8 frame[FRAME_LEN];
	int fd[2], i;

	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	patience(fd[1], 20);
	ASSERT_EQ(0, mpa_attach(fd[1]));
	ASSERT_EQ(0, forger_open(&forger, fd[0], fd[1]));
	ASSERT_EQ(0, mpa_start_as(fd[1], &start));
	frame_put(frame, false, 0x40, 1, 512);
	ASSERT_EQ(0, forge(&forger, 10, frame + 10, 10, TCP_FLAG_BITS_FIN, 0));
	for (i = 0; i < 512; i++)
		ASSERT_EQ(0, forge(&forger, 21 + i, NULL, 0,
				   TCP_FLAG_BITS_FIN, 0));
	ASSERT_EQ(0, forge(&forger, 0, frame, 10, 0, 0));
	EXPECT_NE(0, POLLERR & poll_for(fd[1], 0, 20000));
	EXPECT_EQ(MPA_STATE_FAILED, mpa_info(fd[1]).state);
	EXPECT_EQ(EPROTO, so_error(fd[1]));
	EXPECT_EQ(-1, getsockopt(fd[1], SOL_MPA, MPA_PEER, &peer, &len));
	EXPECT_EQ(ENODATA, errno);
	close(forger.raw);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* A record larger than the receive buffer is moved to the stash first. */
TEST_F(rx, fin_before_another_is_no_octet_of_a_large_record)
{
	struct forger forger;
	struct peer peer;
	int fd[2];

	hang_up(self->fd);
	hang_up(self->peer.fd);
	ASSERT_EQ(0, tcp_pair_buf(AF_INET, fd, 4096));
	ASSERT_EQ(0, receive_directly(fd[1], &peer, fd[0], variant->flags));
	self->peer.fd = fd[0];
	self->fd = fd[1];
	patience(self->fd, 20);
	ASSERT_EQ(0, forger_open(&forger, fd[0], fd[1]));
	next_fpdu(&peer, 30000, self->fpdu);
	/* The window is then smaller than a segment: the buffer counts as full. */
	ASSERT_EQ(0, forge_two_fins(&forger, self->fpdu, 2500, 2600));
	ASSERT_EQ(POLLIN, poll_for(self->fd, POLLIN, 20000));
	if (received(self->fd) <= 2600)
		SKIP(return, "TCP does not join them");
	EXPECT_RECORD_CUT_SHORT(MSG_DONTWAIT);
	EXPECT_RECORD_CUT_SHORT(0);
	close(forger.raw);
}

TEST_HARNESS_MAIN
