// SPDX-License-Identifier: GPL-2.0
/*
 * Choices that the RFCs leave open, but other implementations rely on: Linux's drivers
 * for iWARP hardware (cxgb4, irdma) and siw.
 */

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_pair.h"

/*
 * RFC 6581 sections 9.1 and 9.2: a Read of zero octets takes an entry of the Read
 * queue. irdma and siw fail if a reply has Read as RTR but an IRD of 0.
 */
TEST_F(pair, responder_has_a_place_for_the_read_that_it_offers)
{
	const struct { u32 ours, theirs; u16 ird; u32 reply; u16 place; } cases[] = {
		{ 0, C | D, 0, C, 0 }, { 0, C | D, 3, C | D, 3 },
		{ 0, D, 0, D, 1 }, { 0, D, 2, D, 2 }, { 0, B | D, 0, D, 1 },
		{ D, C, 0, D, 1 }, { B | D, B | D, 0, B, 0 },
		{ 0, C, 0, C, 0 }, { D, D, 0x3fff, D, 0x3fff },
	};
	unsigned int i;

	self->start[1].revision = 2;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u8 frame[FRAME_LEN + 4];
		size_t n;

		self->start[1].flags = cases[i].ours;
		self->start[1].ird = cases[i].ird;
		n = enhanced_frame(frame, false, 0x40, A | cases[i].theirs, 9,
				   9);
		ASSERT_EQ(0, request(self, frame, n));
		enhanced_frame(frame, true, 0x40, A | cases[i].reply,
			       cases[i].place, 0);
		ASSERT_EQ(n, read_all(self->fd[0], self->buf, n));
		EXPECT_EQ(0, memcmp(frame, self->buf, n)) {
			TH_LOG("case %u: %02x%02x %02x%02x", i,
			       self->buf[FRAME_LEN], self->buf[FRAME_LEN + 1],
			       self->buf[FRAME_LEN + 2],
			       self->buf[FRAME_LEN + 3]);
		}
		EXPECT_EQ(cases[i].place, mpa_info(self->fd[1]).ird);
	}
}

TEST_F(pair, initiator_chooses_a_read_only_where_there_is_a_place)
{
	const struct { u32 ours, theirs; u16 ord, ird; u32 rtr; u16 agreed; } rows[] = {
		{ C | D, D, 0, 0, 0, 0 }, { D, D, 4, 0, 0, 0 },
		{ B | D, B | D, 4, 0, B, 0 }, { D, D, 0, 1, D, 1 },
		{ C | D, C | D, 0, 0, C, 0 }, { C | D, D, 0, 4, D, 1 },
		{ D, D, 4, 2, D, 2 },
	};
	unsigned int i;

	self->start[0].revision = 2;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		u8 frame[FRAME_LEN + 4], asked[4];
		struct mpa_info info;
		size_t n;
		u16 ord;

		self->start[0].flags = MPA_START_ENHANCED | A | rows[i].ours;
		self->start[0].ord = rows[i].ord;
		ASSERT_LT(0, ask(self));
		/* The initiator's own queue has an entry for the Read, too. */
		ord = rows[i].ord ? rows[i].ord : 1;
		enhanced_put(asked, A | rows[i].ours, 0, ord);
		EXPECT_EQ(0, memcmp(asked, self->buf + FRAME_LEN, 4));
		n = enhanced_frame(frame, true, 0x40, A | rows[i].theirs,
				   rows[i].ird, 0);
		EXPECT_EQ(rows[i].rtr ? 0 : EOPNOTSUPP,
			  answer(self, frame, n)) {
			TH_LOG("case %u", i);
		}
		info = mpa_info(self->fd[0]);
		EXPECT_EQ(rows[i].rtr, info.rtr) {
			TH_LOG("case %u: 0x%x", i, info.rtr);
		}
		EXPECT_EQ(rows[i].rtr ? MPA_ERR_NONE : MPA_ERR_RTR,
			  info.error);
		EXPECT_EQ(rows[i].agreed, info.ord) {
			TH_LOG("case %u", i);
		}
	}
}

/* "The responder MUST set its ORD at most to the initiator IRD". */
TEST_F(pair, responder_answers_a_number_with_a_number)
{
	u8 frame[FRAME_LEN + 4];
	size_t n;

	self->start[1].revision = 2;
	self->start[1].ird = 0x3fff;
	self->start[1].ord = 0x3fff;
	n = enhanced_frame(frame, false, 0x40, 0, 5, 7);
	ASSERT_EQ(0, request(self, frame, n));
	enhanced_frame(frame, true, 0x40, 0, 0x3fff, 5);
	ASSERT_EQ(n, read_all(self->fd[0], self->buf, n));
	EXPECT_EQ(0, memcmp(frame, self->buf, n)) {
		TH_LOG("ORD 0x%02x%02x", self->buf[FRAME_LEN + 2],
		       self->buf[FRAME_LEN + 3]);
	}
}

/*
 * RFC 5044 section 7.1.1: markers are sent only if M requests them. Appendix C sets M
 * in revision 0; cxgb4 and siw do not always set it.
 */
TEST_F(pair, markers_of_revision_0_follow_the_bits)
{
	unsigned int i;

	for (i = 0; i < 8; i++) {
		bool initiator = i & 1, m = i & 2, direct = i & 4;
		u32 flags = (m ? MPA_INFO_TX_MARKERS : 0) | MPA_INFO_CRC;
		u8 frame[FRAME_LEN];
		int fd;

		frame_put(frame, initiator, m ? 0xc0 : 0x40, 0, 0);
		/* MPA starts with revision 0, or downgrades from revision 1. */
		self->start[0].revision = !direct;
		self->start[0].flags = direct ? 0 : MPA_START_PERMISSIVE;
		self->start[1].revision = self->start[0].revision;
		self->start[1].flags = self->start[0].flags;
		if (initiator) {
			ASSERT_EQ(FRAME_LEN, ask(self));
			ASSERT_EQ(0, answer(self, frame, FRAME_LEN));
			fd = self->fd[0];
			/* Only an end that never requested markers receives none. */
			flags |= MPA_INFO_MAY_SEND |
				 (direct || m ? MPA_INFO_RX_MARKERS : 0);
		} else {
			ASSERT_EQ(0, request(self, frame, FRAME_LEN));
			ASSERT_EQ(FRAME_LEN, read_all(self->fd[0], frame,
						      FRAME_LEN));
			fd = self->fd[1];
			flags |= MPA_INFO_RX_MARKERS;
		}
		EXPECT_EQ(flags, mpa_info(fd).flags) {
			TH_LOG("initiator %u, M %u, revision 0 by name %u",
			       initiator, m, direct);
		}
		EXPECT_EQ(0, mpa_info(fd).revision);
	}
}

/* Figure 16's RDMAC responder inspects only the fields that it knows. */
TEST_F(pair, revision_0_responder_answers_later_ones)
{
	unsigned int revision;

	self->start[1].revision = 0;
	for (revision = 0; revision < 3; revision++) {
		u8 frame[FRAME_LEN];

		frame_put(frame, false, 0xc0, revision, 0);
		ASSERT_EQ(0, request(self, frame, FRAME_LEN));
		ASSERT_EQ(FRAME_LEN, read_all(self->fd[0], frame, FRAME_LEN)) {
			TH_LOG("revision %u", revision);
		}
		EXPECT_EQ(0, frame[17]);
	}
}

/* Section 7.1.2 rule 3: the rest of the reply does not matter, even if it is missing. */
TEST_F(pair, rejection_without_depths_leaves_tcp_open)
{
	unsigned int len, revision;

	for (revision = 2; revision < 4; revision++) {
		for (len = 0; len < 4; len++) {
			u8 frame[FRAME_LEN + 4] = {};

			self->start[0].revision = 2;
			self->start[0].flags = MPA_START_ENHANCED;
			ASSERT_LT(0, ask(self));
			frame_put(frame, true, 0x70, revision, len);
			EXPECT_EQ(ECONNREFUSED,
				  answer(self, frame, FRAME_LEN + len)) {
				TH_LOG("revision %u, PD_Length %u", revision,
				       len);
			}
			EXPECT_EQ(MPA_STATE_REJECTED,
				  mpa_info(self->fd[0]).state);
			EXPECT_EQ(len, mpa_peer(self->fd[0]).private_len);
			EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
			EXPECT_TRUE(text_goes(self->fd[1], self->fd[0]));
		}
	}
}

/*
 * FPDUs may follow a good reply: a siw responder does not hold its program's data.
 * After any other reply rule 4 forbids octets, and they do not belong to the frame.
 */
TEST_F(pair, octets_after_the_reply_are_an_fpdu_or_malformed)
{
	unsigned int i;

	for (i = 0; i < 12; i++) {
		bool markers = i & 1, manual = i & 2;
		struct peer peer = { .tx_markers = markers };
		u8 frame[FRAME_LEN + 64];
		size_t n, len;

		self->start[0].flags = (markers ? MPA_START_MARKERS : 0) |
				       (manual ? MPA_START_MANUAL : 0);
		ASSERT_EQ(FRAME_LEN, ask(self));
		n = frame_put(frame, true, 0x40, 1, 0);
		len = peer_fpdu(&peer, (const u8 *)"first", 5, frame + n);
		/* Use a good FPDU, one with a bad CRC, and an incomplete one. */
		if (i / 4 == 1)
			frame[n + len - 1] ^= 1;
		if (i / 4 == 2)
			len--;
		if (i / 4) {
			EXPECT_EQ(EPROTO, answer(self, frame, n + len)) {
				TH_LOG("case %u", i);
			}
			continue;
		}
		ASSERT_EQ(0, write_all(self->fd[1], frame, n + len));
		ASSERT_NE(0, poll_for(self->fd[0], POLLIN, 20000));
		if (manual)
			EXPECT_EQ(0, decide(self->fd[0], MPA_ACCEPT));
		EXPECT_EQ(5, recv(self->fd[0], self->buf, 100, 0)) {
			TH_LOG("case %u: %m", i);
		}
		EXPECT_EQ(0, memcmp(self->buf, "first", 5));
	}
}

/* TCP reports a RST's error a moment before POLLHUP. */
static bool hung_up(int fd)
{
	long end = now_ms() + 20000;

	while (now_ms() < end)
		if (poll_for(fd, 0, 20000) & POLLHUP)
			return true;
	return false;
}

/* A responder that rejects may close TCP; some send a RST. */
TEST_F(pair, rejection_followed_by_a_reset_is_a_rejection)
{
	unsigned int i;

	/* With real-time priority usually nothing inspects the reply before the RST arrives. */
	real_time(true);
	for (i = 0; i < 60; i++) {
		const bool behind = i % 3 == 1, wait = i % 3 == 2;
		const bool enhanced = i % 6 / 3;
		u8 frame[FRAME_LEN + 8];
		struct mpa_peer peer;
		int err, left;

		self->start[0].revision = 2;
		self->start[0].flags = enhanced ? MPA_START_ENHANCED : 0;
		ASSERT_LT(0, ask(self));
		if (enhanced)
			enhanced_frame(frame, true, 0x60, 0, 5, 6);
		else
			frame_put(frame, true, 0x60, 2, 4);
		memcpy(frame + FRAME_LEN + 4, "text", 4);
		ASSERT_EQ(0, write_all(self->fd[1], frame,
				       FRAME_LEN + (behind ? 8 : 4)));
		if (wait)
			ASSERT_NE(0, poll_for(self->fd[0], POLLOUT, 20000));
		/* Close with a RST, with and without unread octets. */
		hang_up(self->fd[1]);
		self->fd[1] = -1;
		/* poll() reports the rejection, an error, at once. */
		for (left = 20000; left && !(POLLHUP & poll_for(self->fd[0], 0,
								1)); left--)
			usleep(1000);
		ASSERT_NE(0, left);
		err = so_error(self->fd[0]);
		/* The RST replaces the rejection if nothing reads the rejection first. */
		EXPECT_TRUE(err == ECONNREFUSED || err == ECONNRESET) {
			TH_LOG("case %u: %s", i, strerror(err));
		}
		EXPECT_EQ(MPA_STATE_REJECTED, mpa_info(self->fd[0]).state) {
			TH_LOG("case %u: error %u", i,
			       mpa_info(self->fd[0]).error);
		}
		peer = mpa_peer(self->fd[0]);
		EXPECT_EQ(4, peer.private_len + 4 * enhanced) {
			TH_LOG("case %u: %u octets", i, peer.private_len);
		}
		EXPECT_EQ(enhanced ? 5 : 0, peer.ird);
		if (behind)
			EXPECT_EQ(4, recv(self->fd[0], frame, 8, 0));
	}
}

/*
 * Build octets in place of a good reply. Return: their length. @err: set to the result
 * of startup.
 */
static size_t other_reply(unsigned int which, u8 *frame, int *err, u8 *code)
{
	*err = EPROTO;
	*code = MPA_ERR_STARTUP;
	/* In case 0 the other end is an initiator, too. */
	frame_put(frame, which, 0x40, which == 1 ? 9 : 1, 0);
	switch (which) {
	case 2:
		frame[5] = '1';
		break;
	case 3:
		memcpy(frame, "HTTP/1.1", 8);
		return 8;
	case 4:
		/* These octets may begin a reply. */
		*err = ECONNRESET;
		*code = MPA_ERR_TCP;
		return 10;
	}
	return FRAME_LEN;
}

/* Return: the errno that the first call gets. @who: the first call. */
static int first_reported(int fd, unsigned int who)
{
	char octet;

	switch (who) {
	case 0:
		return recv(fd, &octet, 1, 0) < 0 ? errno : 0;
	case 1:
		return send(fd, "x", 1, MSG_NOSIGNAL) < 0 ? errno : 0;
	case 2:
		/* MPA_INFO sees the error without reporting it. */
		mpa_info(fd);
	}
	return so_error(fd);
}

/* A failing peer may also reset TCP, before anything inspects the reply. */
TEST_F(pair, bad_reply_followed_by_a_reset_is_a_bad_reply)
{
	unsigned int i;

	real_time(true);
	for (i = 0; i < 80; i++) {
		const unsigned int which = i % 5, who = i / 5 % 4;
		const bool wait = i / 20 % 2 && which < 4;
		const bool fin = i >= 40 && which < 4;
		u8 frame[FRAME_LEN], code;
		struct mpa_info info;
		int err, seen;
		size_t n;

		n = other_reply(which, frame, &err, &code);
		ASSERT_EQ(FRAME_LEN, ask(self));
		ASSERT_EQ(0, write_all(self->fd[1], frame, n));
		/* TCP reports a RST after a FIN as EPIPE. */
		if (fin)
			shutdown(self->fd[1], SHUT_WR);
		if (wait)
			ASSERT_NE(0, poll_for(self->fd[0], POLLOUT, 20000));
		hang_up(self->fd[1]);
		self->fd[1] = -1;
		ASSERT_EQ(true, hung_up(self->fd[0]));
		seen = first_reported(self->fd[0], who);
		EXPECT_EQ(err, seen) {
			TH_LOG("reply %u, seen by %u, fin %d: %s", which, who,
			       fin, strerror(seen));
		}
		info = mpa_info(self->fd[0]);
		EXPECT_EQ(MPA_STATE_FAILED, info.state);
		EXPECT_EQ(code, info.error) {
			TH_LOG("reply %u, seen by %u", which, who);
		}
		/* The error is reported once. */
		EXPECT_EQ(0, so_error(self->fd[0]));
	}
}

/* SO_ERROR is read before the work item runs. */
TEST_F(pair, startup_error_is_reported_once)
{
	u8 frame[FRAME_LEN];
	unsigned int which;
	char octet;
	size_t n;

	real_time(true);
	for (which = 0; which < 3; which++) {
		ASSERT_EQ(FRAME_LEN, ask(self));
		n = which ? FRAME_LEN : 0;
		frame_put(frame, true, 0x40, 9, 0);
		ASSERT_EQ(0, write_all(self->fd[1], frame, n));
		if (which == 2)
			shutdown(self->fd[1], SHUT_WR);
		hang_up(self->fd[1]);
		self->fd[1] = -1;
		ASSERT_EQ(true, hung_up(self->fd[0]));
		EXPECT_EQ(which ? EPROTO : ECONNRESET, so_error(self->fd[0]));
		EXPECT_EQ(-1, recv(self->fd[0], &octet, 1, 0));
		EXPECT_EQ(ENOTCONN, errno) {
			TH_LOG("case %u: %m", which);
		}
	}
}

/* Startup begins at accept(2). The peer has reset the connection before. */
TEST_F(pair, bad_request_and_a_reset_before_accept_is_a_bad_request)
{
	const struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1,
	};
	unsigned int fin;

	for (fin = 0; fin < 2; fin++) {
		struct sockaddr_in addr = { .sin_family = AF_INET };
		int listener = socket(AF_INET, SOCK_STREAM, 0);
		int client = socket(AF_INET, SOCK_STREAM, 0);
		socklen_t len = sizeof(addr);
		char octet;
		int child;

		addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		ASSERT_EQ(0, bind(listener, (void *)&addr, len));
		ASSERT_EQ(0, mpa_attach(listener));
		ASSERT_EQ(0, mpa_start_as(listener, &start));
		ASSERT_EQ(0, listen(listener, 1));
		ASSERT_EQ(0, getsockname(listener, (void *)&addr, &len));
		ASSERT_EQ(0, connect(client, (void *)&addr, len));
		ASSERT_EQ(0, write_all(client, (const u8 *)"HTTP/1.1", 8));
		if (fin)
			ASSERT_EQ(0, shutdown(client, SHUT_WR));
		hang_up(client);
		child = accept(listener, NULL, NULL);
		ASSERT_LE(0, child);
		patience(child, 20);
		EXPECT_EQ(-1, recv(child, &octet, 1, 0));
		EXPECT_EQ(EPROTO, errno) {
			TH_LOG("fin %u: %m", fin);
		}
		EXPECT_EQ(0, so_error(child));
		EXPECT_EQ(MPA_ERR_STARTUP, mpa_info(child).error);
		close(child);
		close(listener);
	}
}

/* ---- MPA_START that a signal restarts ---- */

struct reader {
	pthread_t thread;
	int fd;
	int error;
};

static struct reader reader;
static int rejecter;

static void *reader_main(void *arg)
{
	sigset_t all;
	char octet;

	(void)arg;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	reader.error = recv(reader.fd, &octet, 1, 0) < 0 ? errno : 0;
	return NULL;
}

/* The reply arrives while MPA_START is interrupted, and the reader gets the result. */
static void reject_meanwhile(int sig)
{
	u8 frame[FRAME_LEN];

	(void)sig;
	if (rejecter < 0)
		return;
	frame_put(frame, true, 0x60, 1, 0);
	write_all(rejecter, frame, FRAME_LEN);
	rejecter = -1;
	pthread_join(reader.thread, NULL);
}

/* Read the request, so that startup has begun, and start a waiting reader. */
static void *interrupter_main(void *arg)
{
	pthread_t *starter = arg;
	u8 frame[FRAME_LEN];
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	read_all(rejecter, frame, FRAME_LEN);
	pthread_create(&reader.thread, NULL, reader_main, NULL);
	poll(NULL, 0, 200);
	pthread_kill(*starter, SIGUSR1);
	return NULL;
}

TEST_F(pair, restarted_start_has_the_result_that_a_reader_got)
{
	struct sigaction action = {
		.sa_handler = reject_meanwhile, .sa_flags = SA_RESTART,
	};
	pthread_t starter = pthread_self(), interrupter;
	char octet;

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_EQ(0, fresh(self, true, false));
	self->start[0].timeout_ms = 20000;
	reader.fd = self->fd[0];
	rejecter = self->fd[1];
	ASSERT_EQ(0, pthread_create(&interrupter, NULL, interrupter_main,
				    &starter));
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(ECONNREFUSED, errno);
	pthread_join(interrupter, NULL);
	EXPECT_EQ(ECONNREFUSED, reader.error);
	EXPECT_EQ(MPA_STATE_REJECTED, mpa_info(self->fd[0]).state);
	/* No second request was sent. */
	EXPECT_EQ(-1, recv(self->fd[1], &octet, 1, MSG_DONTWAIT));
}

static void do_nothing(int sig)
{
	(void)sig;
}

/* As after connect(2), the program polls, and SO_ERROR returns the result. */
TEST_F(pair, interrupted_start_is_reported_once)
{
	const struct sigaction action = { .sa_handler = do_nothing };
	const struct itimerval soon = { .it_value.tv_usec = 200000 };
	u8 frame[FRAME_LEN];

	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	ASSERT_EQ(0, fresh(self, true, false));
	self->start[0].timeout_ms = 20000;
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &soon, NULL));
	ASSERT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	ASSERT_EQ(EINTR, errno);
	ASSERT_EQ(FRAME_LEN, read_all(self->fd[1], frame, FRAME_LEN));
	frame_put(frame, true, 0x60, 1, 0);
	ASSERT_EQ(0, write_all(self->fd[1], frame, FRAME_LEN));
	ASSERT_NE(0, POLLERR & poll_for(self->fd[0], POLLOUT, 20000));
	EXPECT_EQ(ECONNREFUSED, so_error(self->fd[0]));
	set_nonblock(self->fd[0]);
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(EINPROGRESS, errno);
	/* MPA_START sends a new request. */
	EXPECT_EQ(FRAME_LEN, read_all(self->fd[1], frame, FRAME_LEN));
}

/* ---- plain TCP again ---- */

TEST_F(pair, rejected_socket_is_not_corked)
{
	static u8 octets[100000];
	unsigned int i, soon = 0;
	u8 frame[FRAME_LEN];

	/* The request is queued after more octets than the peer's window. */
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
	ASSERT_EQ(0, tcp_pair_buf(AF_INET, self->fd, 4096));
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	set_nonblock(self->fd[0]);
	ASSERT_EQ(sizeof(octets), send(self->fd[0], octets, sizeof(octets),
				       0));
	ASSERT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	ASSERT_EQ(EINPROGRESS, errno);
	frame_put(frame, true, 0x60, 1, 0);
	ASSERT_EQ(0, write_all(self->fd[1], frame, FRAME_LEN));
	ASSERT_NE(0, POLLERR & poll_for(self->fd[0], POLLOUT, 20000));
	EXPECT_EQ(ECONNREFUSED, so_error(self->fd[0]));
	ASSERT_EQ(sizeof(octets), read_all(self->fd[1], octets,
					   sizeof(octets)));
	ASSERT_EQ(FRAME_LEN, read_all(self->fd[1], frame, FRAME_LEN));
	ASSERT_TRUE(acked(self->fd[0]));
	/* TCP sends corked octets after 200 ms, each time. */
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(5, send(self->fd[0], "plain", 5, 0));
		soon += poll_for(self->fd[1], POLLIN, 150) == POLLIN;
		ASSERT_EQ(5, read_all(self->fd[1], frame, 5));
	}
	EXPECT_LT(0, soon);
}

TEST_HARNESS_MAIN
