// SPDX-License-Identifier: GPL-2.0
/*
 * Startup with a peer that violates RFC 5044 section 7.1, or that does not use
 * MPA.
 */

#include "mpa_test.h"
#include "mpa_harness.h"

#define PRIVATE_LEN	16	/* octets of private data in most of the frames */
#define USUAL_LEN	(FRAME_LEN + PRIVATE_LEN)
#define PATIENCE	20	/* seconds: longer than any startup */

/* The result of a startup. */
struct outcome {
	int err;	/* errno of recv() */
	u8 state;
	u8 code;
	bool reset;	/* the peer has received a RST */
};

static bool shut_out(const struct outcome *seen, int err, u8 code)
{
	return seen->err == err && seen->state == MPA_STATE_FAILED &&
	       seen->code == code && seen->reset;
}

#define EXPECT_SHUT_OUT(want_err, want_code, seen, ...) do {		\
	const struct outcome _seen = (seen);				\
									\
	EXPECT_TRUE(shut_out(&_seen, want_err, want_code)) {		\
		TH_LOG("seen: errno %d, state %u, code %u, reset %u",	\
		       _seen.err, _seen.state, _seen.code, _seen.reset);\
		TH_LOG(__VA_ARGS__);					\
	}								\
} while (0)

FIXTURE(startup)
{
	int fd;		/* uses MPA */
	int peer;	/* does not */
	u8 frame[FRAME_LEN + 1024];
	struct mpa_start start;
};

FIXTURE_VARIANT(startup)
{
	bool initiator;
};

FIXTURE_VARIANT_ADD(startup, responder) { .initiator = false };
FIXTURE_VARIANT_ADD(startup, initiator) { .initiator = true };

FIXTURE_SETUP(startup)
{
	ASSERT_EQ(0, own_netns());
	self->fd = -1;
	self->peer = -1;
	self->start.role = variant->initiator ? MPA_ROLE_INITIATOR :
						MPA_ROLE_RESPONDER;
	self->start.revision = 1;
	memset(self->frame, 0, sizeof(self->frame));
	frame_put(self->frame, variant->initiator, 0x40, 1, PRIVATE_LEN);
	memset(self->frame + FRAME_LEN, 'p', PRIVATE_LEN);
}

static void end(int *fd)
{
	if (*fd >= 0)
		hang_up(*fd);
	*fd = -1;
}

FIXTURE_TEARDOWN(startup)
{
	end(&self->fd);
	end(&self->peer);
}

/* Open a connection, and have it wait for the peer's frame. Return: 0 or -1. */
static int begin(struct _test_data_startup *self)
{
	u8 request[FRAME_LEN];
	int fd[2];

	end(&self->fd);
	end(&self->peer);
	if (tcp_pair(AF_INET, fd) || mpa_attach(fd[0]))
		return -1;
	self->fd = fd[0];
	self->peer = fd[1];
	patience(self->fd, PATIENCE);
	patience(self->peer, PATIENCE);
	if (self->start.role == MPA_ROLE_RESPONDER)
		return mpa_start_as(self->fd, &self->start);

	set_nonblock(self->fd);
	if (!mpa_start_as(self->fd, &self->start) || errno != EINPROGRESS)
		return -1;
	set_block(self->fd);
	return read_all(self->peer, request, FRAME_LEN) == FRAME_LEN ? 0 : -1;
}

static struct outcome outcome_of(struct _test_data_startup *self)
{
	struct outcome outcome = {};
	u8 buf[64];

	if (recv(self->fd, buf, sizeof(buf), 0) < 0)
		outcome.err = errno;
	outcome.state = mpa_info(self->fd).state;
	outcome.code = mpa_info(self->fd).error;
	if (self->peer < 0)
		outcome.reset = true;
	else if (recv(self->peer, buf, sizeof(buf), 0) < 0)
		outcome.reset = errno == ECONNRESET;
	return outcome;
}

static struct outcome meet(struct _test_data_startup *self,
			   const void *octets, size_t len)
{
	if (begin(self) || (len && write_all(self->peer, octets, len)))
		return (struct outcome){ .err = -1 };
	return outcome_of(self);
}

static bool accepted(struct _test_data_startup *self)
{
	u8 reply[FRAME_LEN];

	if (self->start.role == MPA_ROLE_INITIATOR)
		poll_for(self->fd, POLLOUT, PATIENCE * 1000);
	else if (read_all(self->peer, reply, FRAME_LEN) != FRAME_LEN)
		return false;
	return mpa_info(self->fd).state == MPA_STATE_FULL;
}

static bool welcome(struct _test_data_startup *self, const void *octets,
		    size_t len)
{
	return !begin(self) && !write_all(self->peer, octets, len) &&
	       accepted(self);
}

/* ---- RFC 5044 section 7.1.1: each field ---- */

TEST_F(startup, usual_frame_is_accepted)
{
	EXPECT_TRUE(welcome(self, self->frame, USUAL_LEN));
	EXPECT_EQ(PRIVATE_LEN, mpa_peer(self->fd).private_len);
}

/* Section 7.1.1, Key, and section 7.1.2 rule 5. */
TEST_F(startup, key_is_compared_to_its_last_bit)
{
	const u8 bits[] = { 0x01, 0x20, 0x80 };
	unsigned int at, i;

	for (at = 0; at < 16; at++) {
		for (i = 0; i < ARRAY_SIZE(bits); i++) {
			self->frame[at] ^= bits[i];
			EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
					meet(self, self->frame, USUAL_LEN),
					"octet %u of the key ^ 0x%02x", at,
					bits[i]);
			self->frame[at] ^= bits[i];
		}
	}
}

TEST_F(startup, key_is_refused_at_its_first_wrong_octet)
{
	unsigned int at;

	for (at = 0; at < 16; at++) {
		self->frame[at] ^= 0x20;
		EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
				meet(self, self->frame, at + 1),
				"octet %u of the key", at);
		self->frame[at] ^= 0x20;
	}
}

/* Section 7.1.2 rule 8: a request in place of a reply, or the reverse. */
TEST_F(startup, frame_of_the_own_role_is_refused)
{
	frame_put(self->frame, !variant->initiator, 0x40, 1, PRIVATE_LEN);
	EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
			meet(self, self->frame, USUAL_LEN), "whole");
	EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
			meet(self, self->frame, 10), "as far as they differ");
}

/* Res: "not checked on reception"; nor is R in a request. */
TEST_F(startup, reserved_bits_are_not_checked)
{
	unsigned int flags;

	for (flags = 0x40; flags < 0x80; flags++) {
		if (variant->initiator && flags & MPA_PEER_REJECTED)
			continue;
		self->frame[16] = flags;
		EXPECT_TRUE(welcome(self, self->frame, USUAL_LEN)) {
			TH_LOG("flags 0x%02x", flags);
		}
		EXPECT_EQ(MPA_PEER_CRC, mpa_peer(self->fd).flags);
	}
}

/* Rev: "MUST check this field" */
TEST_F(startup, revision_is_checked)
{
	unsigned int revision;

	for (revision = 0; revision < 256; revision += revision < 8 ? 1 : 19) {
		self->frame[17] = revision;
		if (revision == 1)
			continue;
		EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
				meet(self, self->frame, USUAL_LEN),
				"revision %u", revision);
	}
}

TEST_F(startup, too_long_private_data_is_refused_without_waiting_for_it)
{
	const u16 lengths[] = { 513, 514, 1024, 4096, 32768, 65535 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		frame_put(self->frame, variant->initiator, 0x40, 1,
			  lengths[i]);
		EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
				meet(self, self->frame, FRAME_LEN),
				"PD_Length %u, none of it sent", lengths[i]);
	}
	frame_put(self->frame, variant->initiator, 0x40, 1, 513);
	EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
			meet(self, self->frame, FRAME_LEN + 513),
			"PD_Length 513, all of it sent");
}

TEST_F(startup, longest_private_data_is_accepted)
{
	frame_put(self->frame, variant->initiator, 0x40, 1, 512);
	EXPECT_TRUE(welcome(self, self->frame, FRAME_LEN + 512));
	EXPECT_EQ(512, mpa_peer(self->fd).private_len);
}

/* PD_Length, and section 7.1.2 rule 9: less than the octets sent. */
TEST_F(startup, octets_after_private_data_are_refused)
{
	const u16 lengths[] = { 0, 1, PRIVATE_LEN, 511, 512 };
	unsigned int i, more;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		frame_put(self->frame, variant->initiator, 0x40, 1,
			  lengths[i]);
		for (more = 1; more < 400; more *= 7)
			EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
					meet(self, self->frame, FRAME_LEN +
					     lengths[i] + more),
					"PD_Length %u, %u octets more",
					lengths[i], more);
	}
}

/* PD_Length is more than the octets sent; then the stream ends. */
TEST_F(startup, missing_private_data_is_refused)
{
	const u16 lengths[] = { 1, PRIVATE_LEN, 512 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		frame_put(self->frame, variant->initiator, 0x40, 1,
			  lengths[i]);
		ASSERT_EQ(0, begin(self));
		ASSERT_EQ(0, write_all(self->peer, self->frame,
				       FRAME_LEN + lengths[i] - 1));
		shutdown(self->peer, SHUT_WR);
		EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
				outcome_of(self), "PD_Length %u", lengths[i]);
	}
}

/* Rule 10: PD_Length is more than the octets sent, and nothing follows. */
TEST_F(startup, missing_private_data_times_out)
{
	self->start.timeout_ms = 50;
	EXPECT_SHUT_OUT(ETIMEDOUT, MPA_ERR_STARTUP,
			meet(self, self->frame, USUAL_LEN - 1), "one missing");
}

/* ---- cut anywhere ---- */

/* Section 8 code 4; before the first octet the connection counts as lost: code 1. */
TEST_F(startup, end_of_stream_at_every_octet)
{
	unsigned int at;

	for (at = 0; at < USUAL_LEN; at++) {
		ASSERT_EQ(0, begin(self));
		if (at)
			ASSERT_EQ(0, write_all(self->peer, self->frame, at));
		shutdown(self->peer, SHUT_WR);
		EXPECT_SHUT_OUT(at ? EPROTO : ECONNRESET,
				at ? MPA_ERR_STARTUP : MPA_ERR_TCP,
				outcome_of(self), "FIN after %u octets", at);
	}
}

/* Section 8 code 1. */
TEST_F(startup, reset_at_every_octet)
{
	unsigned int at;

	for (at = 0; at < USUAL_LEN; at++) {
		ASSERT_EQ(0, begin(self));
		if (at)
			ASSERT_EQ(0, write_all(self->peer, self->frame, at));
		end(&self->peer);
		EXPECT_SHUT_OUT(ECONNRESET, MPA_ERR_TCP,
				outcome_of(self), "RST after %u octets", at);
	}
}

TEST_F(startup, split_at_every_octet)
{
	unsigned int at;

	for (at = 1; at < USUAL_LEN; at++) {
		ASSERT_EQ(0, begin(self));
		ASSERT_EQ(0, write_all(self->peer, self->frame, at));
		EXPECT_EQ(0, poll_for(self->fd, POLLIN | POLLOUT, 0));
		EXPECT_EQ(MPA_STATE_STARTUP, mpa_info(self->fd).state);
		ASSERT_EQ(0, write_all(self->peer, self->frame + at,
				       USUAL_LEN - at));
		EXPECT_TRUE(accepted(self)) {
			TH_LOG("split at %u", at);
		}
		EXPECT_EQ(PRIVATE_LEN, mpa_peer(self->fd).private_len);
	}
}

TEST_F(startup, octet_by_octet)
{
	unsigned int at;

	ASSERT_EQ(0, begin(self));
	for (at = 0; at < USUAL_LEN; at++) {
		EXPECT_EQ(0, poll_for(self->fd, POLLIN | POLLOUT, 0));
		ASSERT_EQ(0, write_all(self->peer, self->frame + at, 1));
	}
	EXPECT_TRUE(accepted(self));
	EXPECT_EQ(0, memcmp(self->frame + FRAME_LEN,
			    mpa_peer(self->fd).private_data, PRIVATE_LEN));
}

/* an error in a frame */
struct wrong {
	const char *what;
	u8 at, bits;		/* @at: octet of the frame; @bits: bits to invert */
	u16 pd_length;
	size_t len;		/* octets sent */
	size_t enough;		/* number of octets that reveal the error */
};

/* Wait until the octets have arrived, or startup is over. Return: whether startup continues. */
static bool goes_on(int fd, size_t octets)
{
	const long until = now_ms() + PATIENCE * 1000;

	while (received(fd) < octets && now_ms() < until)
		if (poll_for(fd, POLLOUT, 1))
			return false;
	return !poll_for(fd, POLLOUT, 0);
}

/* Send the octets in steps, and wait until each has arrived. */
static struct outcome meet_in_steps(struct _test_data_startup *self, size_t len,
				    size_t first, size_t step)
{
	struct outcome outcome;
	bool reset = false;
	size_t at, n;

	if (begin(self))
		return (struct outcome){ .err = -1 };
	for (at = 0; at < len && !reset; at += n) {
		n = at ? step : first;
		n = n < len - at ? n : len - at;
		if (send(self->peer, self->frame + at, n, MSG_NOSIGNAL) < 0)
			reset = errno == ECONNRESET;
		if (!goes_on(self->fd, at + n))
			break;
	}
	outcome = outcome_of(self);
	outcome.reset |= reset;
	return outcome;
}

TEST_F_TIMEOUT(startup, malformed_frame_in_every_segmentation, 240)
{
	const struct wrong wrongs[] = {
		{ "first octet of the key", 0, 0x20, 2, 22, 1 },
		{ "key", 9, 0x01, 2, 22, 10 },
		{ "last octet of the key", 15, 0x80, 2, 22, 16 },
		{ "revision", 17, 0x0c, 2, 22, 22 },
		{ "PD_Length", 0, 0, 513, 22, 20 },
		{ "more than PD_Length", 0, 0, 0, 22, 22 },
		{ "more than PD_Length says", 0, 0, 1, 22, 22 },
	};
	unsigned int i;
	size_t cut;

	for (i = 0; i < ARRAY_SIZE(wrongs); i++) {
		const struct wrong *w = &wrongs[i];

		frame_put(self->frame, variant->initiator, 0x40, 1,
			  w->pd_length);
		self->frame[w->at] ^= w->bits;
		for (cut = 1; cut < w->len; cut++) {
			/* Octets after a complete frame may be an FPDU. */
			if (w->enough == w->len && !w->bits &&
			    cut >= FRAME_LEN + w->pd_length)
				continue;
			EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
					meet_in_steps(self, w->len, cut,
						      w->len),
					"%s, cut at %zu", w->what, cut);
		}
		if (w->enough == w->len && !w->bits)
			continue;
		EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
				meet_in_steps(self, w->len, 1, 1),
				"%s, octet by octet", w->what);
	}
}

/* ---- section 7.1.2 rules 8 and 10: timeouts ---- */

TEST_F(startup, silence_times_out)
{
	/* The kernel's timers count ticks, and some ticks are late here. */
	const long least = 30;
	long begun;

	self->start.timeout_ms = 50;
	begun = now_ms();
	EXPECT_SHUT_OUT(ETIMEDOUT, MPA_ERR_STARTUP,
			meet(self, NULL, 0), "per socket");
	EXPECT_LE(least, now_ms() - begun);

	self->start.timeout_ms = 0;
	ASSERT_EQ(0, sysctl_put("startup_timeout_ms", 50));
	begun = now_ms();
	EXPECT_SHUT_OUT(ETIMEDOUT, MPA_ERR_STARTUP,
			meet(self, NULL, 0), "net.mpa.startup_timeout_ms");
	EXPECT_LE(least, now_ms() - begun);
}

TEST_F(startup, own_timeout_may_be_longer)
{
	ASSERT_EQ(0, sysctl_put("startup_timeout_ms", 1));
	self->start.timeout_ms = 60000;
	ASSERT_EQ(0, begin(self));
	EXPECT_EQ(0, poll_for(self->fd, POLLIN | POLLOUT, 30));
	ASSERT_EQ(0, write_all(self->peer, self->frame, USUAL_LEN));
	EXPECT_TRUE(accepted(self));
}

TEST_F(startup, parts_of_a_frame_time_out)
{
	const size_t parts[] = { 1, 9, 15, 16, 17, 19, 20, USUAL_LEN - 1 };
	unsigned int i;

	self->start.timeout_ms = 20;
	for (i = 0; i < ARRAY_SIZE(parts); i++)
		EXPECT_SHUT_OUT(ETIMEDOUT, MPA_ERR_STARTUP,
				meet(self, self->frame, parts[i]),
				"%zu octets", parts[i]);
}

/* "reasonable timeout while waiting for the entire set of startup frames" */
TEST_F(startup, octets_that_drip_gain_no_time)
{
	struct outcome outcome;
	unsigned int at = 0;
	bool reset;

	frame_put(self->frame, variant->initiator, 0x40, 1, 512);
	self->start.timeout_ms = 100;
	ASSERT_EQ(0, begin(self));
	do
		reset = send(self->peer, self->frame + at++, 1,
			     MSG_NOSIGNAL) < 0 && errno == ECONNRESET;
	while (at < FRAME_LEN + 512 && !poll_for(self->fd, POLLOUT, 10));
	EXPECT_LT(at, 500);
	outcome = outcome_of(self);
	/* The RST is reported once, perhaps when the last octet is sent. */
	outcome.reset |= reset;
	EXPECT_SHUT_OUT(ETIMEDOUT, MPA_ERR_STARTUP, outcome,
			"after %u octets", at);
}

TEST_F(startup, no_timeout_in_full_operation)
{
	/* A busy machine may need more time. */
	self->start.timeout_ms = 50;
	do
		self->start.timeout_ms *= 2;
	while (!welcome(self, self->frame, USUAL_LEN) &&
	       self->start.timeout_ms < 3000);
	EXPECT_EQ(0, poll_for(self->fd, POLLIN,
			      self->start.timeout_ms + 150));
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(self->fd).state);
}

/* ---- what a failed startup leaves ---- */

TEST_F(startup, failure_is_reported_once_and_for_good)
{
	int value = 0;

	ASSERT_EQ(0, begin(self));
	ASSERT_EQ(0, write_all(self->peer, "GET ", 4));
	EXPECT_NE(0, POLLERR & poll_for(self->fd, POLLIN, PATIENCE * 1000));
	EXPECT_EQ(EPROTO, so_error(self->fd));
	EXPECT_EQ(0, so_error(self->fd));
	EXPECT_EQ(-1, send(self->fd, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(-1, recv(self->fd, &value, 1, 0));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(-1, mpa_start_as(self->fd, &self->start));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(MPA_STATE_FAILED, mpa_info(self->fd).state);
	EXPECT_EQ(MPA_ERR_STARTUP, mpa_info(self->fd).error);
	/* MPA_PEER shows nothing of this peer's octets. */
	EXPECT_EQ(0xff, mpa_peer(self->fd).revision);
}

TEST(blocking_initiator_gets_the_timeout_itself)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 1, .timeout_ms = 50,
	};
	int fd[2];

	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	ASSERT_EQ(0, mpa_attach(fd[0]));
	EXPECT_EQ(-1, mpa_start_as(fd[0], &start));
	EXPECT_EQ(ETIMEDOUT, errno);
	EXPECT_EQ(0, so_error(fd[0]));
	EXPECT_EQ(MPA_STATE_FAILED, mpa_info(fd[0]).state);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* Section 7.1.2 rule 8: both ends are initiators. */
TEST(two_initiators_refuse_each_other)
{
	unsigned int i, refused = 0;
	int fd[2];

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	/* Let the requests cross: neither arrives before both are sent. */
	ASSERT_EQ(0, lo_set(false));
	for (i = 0; i < 2; i++) {
		set_nonblock(fd[i]);
		ASSERT_EQ(0, mpa_attach(fd[i]));
		EXPECT_EQ(-1, mpa_start(fd[i], MPA_ROLE_INITIATOR, 0));
		EXPECT_EQ(EINPROGRESS, errno);
	}
	ASSERT_EQ(0, lo_set(true));
	for (i = 0; i < 2; i++) {
		int err;

		EXPECT_NE(0, POLLERR & poll_for(fd[i], POLLOUT,
						PATIENCE * 1000));
		/* The other end's RST may arrive before its request. */
		err = so_error(fd[i]);
		EXPECT_TRUE(err == EPROTO || err == ECONNRESET);
		refused += err == EPROTO;
		EXPECT_EQ(MPA_STATE_FAILED, mpa_info(fd[i]).state);
	}
	EXPECT_LT(0, refused);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

TEST(two_responders_time_out)
{
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1, .timeout_ms = 50,
	};
	int fd[2], timeouts = 0;
	unsigned int i;
	u8 c;

	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	for (i = 0; i < 2; i++) {
		patience(fd[i], PATIENCE);
		ASSERT_EQ(0, mpa_attach(fd[i]));
		ASSERT_EQ(0, mpa_start_as(fd[i], &start));
	}
	/* The end that times out first sends the RST. */
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-1, recv(fd[i], &c, 1, 0));
		EXPECT_TRUE(errno == ETIMEDOUT || errno == ECONNRESET);
		timeouts += errno == ETIMEDOUT;
		EXPECT_EQ(MPA_STATE_FAILED, mpa_info(fd[i]).state);
	}
	EXPECT_LT(0, timeouts);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* ---- draft-elzur-iwarp-mpa-tcp-analysis section 8.2 ---- */

#define STRANGER(name, octets)	{ name, octets, sizeof(octets) - 1 }

static const struct {
	const char *name;
	const char *octets;
	size_t len;
} strangers[] = {
	/* section 8.1: MPA started too early */
	STRANGER("the first marker", "\0\0\0\0"),
	STRANGER("an FPDU after its marker", "\0\0\0\0\0\2ab\0\0\0\0"),
	STRANGER("an FPDU", "\0\2ab\x12\x34\x56\x78"),
	/* section 8.2.1 */
	STRANGER("chargen", " !\"#$%&'()*+,-./0123456789:;<=>?@ABC\r\n"),
	STRANGER("quote", "\"My wallet is like an onion.\"\r\n"),
	STRANGER("daytime", "Friday, November 20, 2026 14:22:55-UTC\r\n"),
	STRANGER("time", "\xee\xa4\x3c\x7f"),
	/* section 8.2.2 */
	STRANGER("NNTP", "200 news server ready\r\n"),
	STRANGER("finger", "/W root\r\n"),
	STRANGER("gopher", "\r\n"),
	STRANGER("POP3", "+OK POP3 server ready\r\n"),
	STRANGER("IMAP4", "* OK IMAP4rev1 Service Ready\r\n"),
	STRANGER("IRC", "NICK guest\r\nUSER guest 0 * :guest\r\n"),
	STRANGER("BEEP", "RPY 0 0 . 0 52\r\n"),
	STRANGER("SIP", "INVITE sip:a@example.com SIP/2.0\r\n"),
	STRANGER("whois", "example.com\r\n"),
	STRANGER("TACACS", "LOGIN 1\r\n"),
	STRANGER("ident", "6193, 23\r\n"),
	STRANGER("rwhois", "-rwhois V-1.5:0010b6:00\r\n"),
	STRANGER("ACAP", "* ACAP (SASL \"CRAM-MD5\")\r\n"),
	STRANGER("TIP", "IDENTIFY 3 3 - -\r\n"),
	STRANGER("SSH", "SSH-2.0-OpenSSH_9.2\r\n"),
	/* section 8.2.3 */
	STRANGER("HTTP server", "HTTP/1.1 400 Bad Request\r\n\r\n"),
	STRANGER("HTTP client", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
	STRANGER("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
	STRANGER("RTSP", "RTSP/1.0 200 OK\r\n"),
	STRANGER("SMTP", "EHLO example.com\r\n"),
	STRANGER("a client that begins with M", "MAIL FROM:<a@b>\r\n"),
	STRANGER("CIFS", "\0\0\0\x2f\xffSMBr\0\0\0\0"),
	STRANGER("gnutella", "GNUTELLA CONNECT/0.4\n\n"),
	/* section 8.2.4 */
	STRANGER("iSCSI login", "\x43\x87\0\0\0\0\0\x40\0\2\x3d\0\0\0\0\0"
				"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
				"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
	STRANGER("iSNS", "\0\1\0\1\0\x10\x0c\0\0\1\0\0"),
	STRANGER("DNS over TCP", "\0\x1d\x12\x34\1\0\0\1\0\0\0\0\0\0"
				 "\7example\3com\0\0\1\0\1"),
	STRANGER("DNS, a null message", "\0\0"),
	STRANGER("LPR", "\2lp\n"),
	STRANGER("Kerberos", "\0\0\0\x05\x6a\x03\x02\x01\x05"),
	STRANGER("BGP-4 OPEN", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
			       "\xff\xff\xff\xff\xff\0\x1d\1\4"),
	STRANGER("LDAP bind", "\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03"),
	STRANGER("RTP", "\x80\0\x12\x34\0\0\0\1"),
	STRANGER("SOCKS 5", "\5\1\0"),
	STRANGER("TLS client hello", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1"),
	STRANGER("TLS alert", "\x15\x03\x01\x00\x02\x02\x28"),
	STRANGER("SLP v2", "\2\1\0\0\x31\0\0\0"),
	/* almost MPA */
	STRANGER("the key in lower case", "mpa id req frame"),
	STRANGER("another frame of MPA", "MPA ID Rtr Frame\x40\1\0\0"),
	STRANGER("a key after a marker", "\0\0\0\0MPA ID Req Frame"),
	STRANGER("a key after an empty line", "\r\nMPA ID Req Frame"),
};

TEST_F(startup, other_protocols_are_refused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(strangers); i++)
		EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
				meet(self, strangers[i].octets,
				     strangers[i].len),
				"%s", strangers[i].name);
}

/* Echo returns our own request, and discard returns nothing. */
TEST_F(startup, echo_and_discard_are_shut_out)
{
	u8 request[FRAME_LEN];

	frame_put(request, false, 0x40, 1, 0);
	if (variant->initiator)
		EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
				meet(self, request, FRAME_LEN), "echo");
	self->start.timeout_ms = 50;
	EXPECT_SHUT_OUT(ETIMEDOUT, MPA_ERR_STARTUP, meet(self, NULL, 0),
			"discard");
}

/* The peer sends a quote, and closes the connection, in one segment or more. */
TEST_F(startup, other_protocols_that_hang_up_are_refused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(strangers); i++) {
		ASSERT_EQ(0, begin(self));
		write_all(self->peer, strangers[i].octets, strangers[i].len);
		shutdown(self->peer, SHUT_WR);
		EXPECT_SHUT_OUT(EPROTO, MPA_ERR_STARTUP,
				outcome_of(self), "%s", strangers[i].name);
	}
}

TEST_HARNESS_MAIN
