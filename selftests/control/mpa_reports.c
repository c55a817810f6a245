// SPDX-License-Identifier: GPL-2.0
/*
 * The peer sends a bad FPDU, or the path damages one: the event, the counter, the
 * tracepoint, inet_diag, conn-get and MPA_INFO report the same error. A lost connection
 * is reported once, even if its program reads the error first.
 */

#include <pthread.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_counts.h"
#include "mpa_kill.h"
#include "mpa_nl.h"
#include "mpa_pair.h"

/* A simulated peer sends the FPDUs, or mpa sends them over a path that changes them. */
enum maker {
	BY_PEER,
	BY_PATH,
};

/**
 * struct wrong - an error of an FPDU
 * @what:	its description
 * @field:	enum model_field: the field with the octet to change
 * @nth:	the octet's index in the field
 * @flip:	bits to change in it
 * @sealed:	compute the CRC of the changed FPDU
 * @cut:	end the stream before this octet
 * @marked:	needs markers
 * @code:	the reported code
 * @counter:	the counter
 */
static const struct wrong {
	const char *what;
	u8 field;
	u16 nth;
	u8 flip;
	bool sealed;
	bool cut;
	bool marked;
	u8 code;
	const char *counter;
} wrongs[] = {
	{ "a bit of the ULPDU", MODEL_ULPDU, 700, 0x10,
	  .code = MPA_ERR_CRC, .counter = "MpaRxBadCrc" },
	{ "a bit of the ULPDU's last octet", MODEL_ULPDU, 1000, 0x01,
	  .code = MPA_ERR_CRC, .counter = "MpaRxBadCrc" },
	{ "a bit of the CRC", MODEL_CRC, 3, 0x80,
	  .code = MPA_ERR_CRC, .counter = "MpaRxBadCrc" },
	{ "a bit of the padding", MODEL_PAD, 0, 0x02,
	  .code = MPA_ERR_CRC, .counter = "MpaRxBadCrc" },
	/* 1001 octets become 1000: the FPDU has the same length */
	{ "a bit of ULPDU_Length", MODEL_LENGTH, 1, 0x01,
	  .code = MPA_ERR_CRC, .counter = "MpaRxBadCrc" },
	/* 0x03e9 becomes 0xffe9 */
	{ "a ULPDU_Length that no FPDU has", MODEL_LENGTH, 0, 0xfc,
	  .code = MPA_ERR_CRC, .counter = "MpaRxBadCrc" },
	{ "a bit of FPDUPTR", MODEL_MARKER, 3, 0x04, .marked = true,
	  .code = MPA_ERR_CRC, .counter = "MpaRxBadCrc" },
	{ "an FPDUPTR that is wrong, not covered by the CRC", MODEL_MARKER, 3, 0x04,
	  .sealed = true, .marked = true,
	  .code = MPA_ERR_MARKER, .counter = "MpaRxBadMarker" },
	/* section 4.3: ignored, but covered by the CRC */
	{ "a reserved bit of a marker", MODEL_MARKER, 0, 0x40, .marked = true,
	  .code = MPA_ERR_CRC, .counter = "MpaRxBadCrc" },
	{ "the end of the stream within a ULPDU", MODEL_ULPDU, 500, .cut = true,
	  .code = MPA_ERR_TCP, .counter = "MpaRxIncomplete" },
	{ "the end of the stream within ULPDU_Length", MODEL_LENGTH, 1,
	  .cut = true, .code = MPA_ERR_TCP, .counter = "MpaRxIncomplete" },
	{ "the end of the stream within the CRC", MODEL_CRC, 3, .cut = true,
	  .code = MPA_ERR_TCP, .counter = "MpaRxIncomplete" },
};

/* Names of the error codes in the tracepoint. */
static const char *const code_names[] = {
	[MPA_ERR_TCP] = "tcp", [MPA_ERR_CRC] = "crc",
	[MPA_ERR_MARKER] = "marker",
};

/* Counters of errors: exactly one is incremented, once. */
static const char *const failures[] = {
	"MpaRefusedByPeer", "MpaRefusedByUser", "MpaRefusedMalformed",
	"MpaRefusedTimeout", "MpaRefusedLost", "MpaRefusedOusted",
	"MpaRefusedLimit", "MpaRefusedGivenUp", "MpaRefusedLocal",
	"MpaTxFailed", "MpaRxIncomplete", "MpaRxBadCrc", "MpaRxBadMarker",
	"MpaRxFailedLocal", "MpaDepthRefused", "MpaRtrRefused", "MpaRxPruned",
	"MpaLost", "MpaTimedOut", "MpaEventsLost", "MpaRecordsLost",
};

#define BAD_LEN	1001

FIXTURE(reported)
{
	int fd;			/* the receiver */
	int from;			/* mpa's end on the other side of the path, or -1 */
	int path_in;			/* the path's end of its connection, or -1 */
	struct peer peer;		/* builds FPDUs; its fd is the last hop */
	struct nl nl;			/* for requests */
	struct nl events;		/* for events */
	struct trace trace;
	bool traces;
	long long before[ARRAY_SIZE(failures)];
	u8 fpdu[4096];
	u8 buf[4096];
};

FIXTURE_VARIANT(reported)
{
	enum maker maker;
	bool marked;
	int family;
};

FIXTURE_VARIANT_ADD(reported, peer) { BY_PEER, false, AF_INET };
FIXTURE_VARIANT_ADD(reported, peer_marked) { BY_PEER, true, AF_INET6 };
FIXTURE_VARIANT_ADD(reported, path) { BY_PATH, false, AF_INET6 };
FIXTURE_VARIANT_ADD(reported, path_marked) { BY_PATH, true, AF_INET };

FIXTURE_SETUP(reported)
{
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, nl_open(&self->nl));
	ASSERT_EQ(0, nl_open(&self->events));
	ASSERT_EQ(0, nl_listen(&self->events, self->events.events));
	self->traces = trace_open(&self->trace, "mpa_error");
	if (!self->traces)
		TH_LOG("no tracefs: what the tracepoint says is not looked at");
	self->fd = -1;
	self->from = -1;
	self->path_in = -1;
	self->peer.fd = -1;
}

static void part(struct _test_data_reported *self)
{
	hang_up(self->fd);
	hang_up(self->from);
	hang_up(self->path_in);
	hang_up(self->peer.fd);
	self->fd = -1;
	self->from = -1;
	self->path_in = -1;
	self->peer.fd = -1;
}

FIXTURE_TEARDOWN(reported)
{
	part(self);
	nl_close(&self->nl);
	nl_close(&self->events);
	trace_close(&self->trace);
}

/* Forward a startup frame over the path. */
static int pass_frame(int in, int out)
{
	u8 frame[FRAME_LEN];

	return read_all(in, frame, FRAME_LEN) == FRAME_LEN ?
	       write_all(out, frame, FRAME_LEN) : -1;
}

/* Start up. The receiver is the responder, so its stream begins after a frame. */
static int meet(struct _test_data_reported *self, int family, enum maker maker,
		bool marked)
{
	unsigned int flags = marked ? MPA_START_MARKERS : 0;
	int in[2] = { -1, -1 }, out[2];

	if (tcp_pair(family, out))
		return -1;
	self->fd = out[1];
	self->peer = (struct peer){ .fd = out[0] };
	patience(out[0], 20);
	patience(out[1], 20);
	if (maker == BY_PEER)
		return peer_initiates(&self->peer, self->fd, false, flags);

	if (tcp_pair(family, in))
		return -1;
	self->from = in[0];
	self->path_in = in[1];
	self->peer.tx_markers = marked;
	patience(in[1], 20);
	set_nonblock(in[0]);
	if (mpa_attach(in[0]) || mpa_attach(out[1]) ||
	    mpa_start(out[1], MPA_ROLE_RESPONDER, flags) ||
	    !mpa_start(in[0], MPA_ROLE_INITIATOR, 0) || errno != EINPROGRESS)
		return -1;
	set_block(in[0]);
	if (pass_frame(in[1], out[0]) || pass_frame(out[0], in[1]))
		return -1;
	return poll_for(in[0], POLLOUT, 20000) == POLLOUT ? 0 : -1;
}

/* Get the next FPDU as it arrives at the last hop. Return: its length, or 0 on failure. */
static size_t next_octets(struct _test_data_reported *self, size_t len)
{
	static u8 record[4096];
	size_t n;

	record_fill(record, len);
	n = peer_fpdu(&self->peer, record, len, self->fpdu);
	if (self->from < 0)
		return n;
	if (send(self->from, record, len, MSG_NOSIGNAL) != len ||
	    read_all(self->path_in, self->buf, n) != n ||
	    memcmp(self->buf, self->fpdu, n))
		return 0;
	return n;
}

/* Transfer good FPDUs of several lengths, so that the next may begin anywhere. */
static bool good_ones_go(struct _test_data_reported *self, unsigned int row)
{
	size_t lens[] = { 1, 511, 1300 + 4 * row, 20 + row, 2000 }, n;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		n = next_octets(self, lens[i]);
		if (!n || write_all(self->peer.fd, self->fpdu, n) ||
		    recv(self->fd, self->buf, sizeof(self->buf), 0) != lens[i] ||
		    !record_good(self->buf, lens[i]))
			return false;
	}
	return true;
}

/* Return: the index in the FPDU of the octet to change, or -1. */
static int octet_of(const struct peer *peer, u64 position, u8 field, u16 nth)
{
	static struct model_octet octets[4096];
	struct model_sender sender = {
		.position = position, .markers = peer->tx_markers,
		.octets = octets,
	};
	struct model_fpdu where;
	size_t i;

	model_send(&sender, record_of(BAD_LEN), BAD_LEN, &where);
	for (i = 0; i < sender.count; i++)
		if (octets[i].field == field && octets[i].nth == nth)
			return i;
	return -1;
}

/* Send an FPDU with this error. Return: its stream position, or -1. */
static long long wrong_one_goes(struct _test_data_reported *self, const struct wrong *wrong)
{
	u64 position = self->peer.tx_position;
	int at = octet_of(&self->peer, position, wrong->field, wrong->nth);
	size_t n = next_octets(self, BAD_LEN);

	if (!n || at < 0)
		return -1;
	self->fpdu[at] ^= wrong->flip;
	if (wrong->sealed)
		model_crc(self->fpdu, n - 4, self->fpdu + n - 4);
	if (write_all(self->peer.fd, self->fpdu, wrong->cut ? at : n))
		return -1;
	if (wrong->cut)
		shutdown(self->peer.fd, SHUT_WR);
	return position;
}

/* Return: the message as a line of text. */
static const char *said(const struct nl_reported *told)
{
	static char text[128];

	snprintf(text, sizeof(text), "code=%lld errno=%lld position=%lld",
		 nl_has(told, MPA_A_CONN_ERROR) ?
		 (long long)told->value[MPA_A_CONN_ERROR] : -1,
		 nl_has(told, MPA_A_CONN_ERRNO) ?
		 (long long)told->value[MPA_A_CONN_ERRNO] : -1,
		 nl_has(told, MPA_A_CONN_ERROR_POSITION) ?
		 (long long)told->value[MPA_A_CONN_ERROR_POSITION] : -1);
	return text;
}

TEST_F(reported, all_report_the_same)
{
	char wanted[128], traced[128], says[512];
	const struct wrong *wrong;
	struct nl_reported told;
	struct mpa_info info;
	unsigned int row, i;
	long long position;

	for (row = 0; row < ARRAY_SIZE(wrongs); row++) {
		wrong = &wrongs[row];
		if (wrong->marked && !variant->marked)
			continue;
		ASSERT_EQ(0, meet(self, variant->family, variant->maker,
				  variant->marked));
		ASSERT_TRUE(good_ones_go(self, row));
		ASSERT_EQ(0, nl_conn_get(&self->nl, self->fd, &told));
		ASSERT_STREQ("code=-1 errno=-1 position=-1", said(&told));
		for (i = 0; i < ARRAY_SIZE(failures); i++)
			self->before[i] = statistic(failures[i]);

		position = wrong_one_goes(self, wrong);
		ASSERT_LT(0, position);
		for (i = 0; i < 2; i++) {
			EXPECT_EQ(-1, recv(self->fd, self->buf,
					   sizeof(self->buf), 0));
			EXPECT_EQ(EBADMSG, errno) TH_LOG("%s: %m", wrong->what);
		}

		snprintf(wanted, sizeof(wanted), "code=%d errno=%d position=%lld",
			 wrong->code, EBADMSG, (long long)position);
		ASSERT_EQ(0, nl_event(&self->events, cookie_of(self->fd),
				      MPA_CMD_FAILED_NTF, &told));
		EXPECT_STREQ(wanted, said(&told))
			TH_LOG("the event, of %s", wrong->what);
		ASSERT_EQ(0, nl_conn_get(&self->nl, self->fd, &told));
		EXPECT_STREQ(wanted, said(&told))
			TH_LOG("conn-get, of %s", wrong->what);
		ASSERT_EQ(0, nl_conn_dump(&self->nl, self->fd, &told));
		EXPECT_STREQ(wanted, said(&told))
			TH_LOG("a dump, of %s", wrong->what);
		ASSERT_EQ(0, diag_get(self->fd, &told));
		EXPECT_STREQ(wanted, said(&told))
			TH_LOG("inet_diag, of %s", wrong->what);

		info = mpa_info(self->fd);
		EXPECT_EQ(wrong->code, info.error)
			TH_LOG("MPA_INFO, of %s", wrong->what);
		EXPECT_EQ(position, info.error_position)
			TH_LOG("MPA_INFO, of %s", wrong->what);
		EXPECT_EQ(position, info.rx_edge);

		for (i = 0; i < ARRAY_SIZE(failures); i++) {
			EXPECT_EQ(self->before[i] +
				  !strcmp(failures[i], wrong->counter),
				  statistic(failures[i]))
				TH_LOG("%s, of %s", failures[i], wrong->what);
		}

		if (self->traces) {
			snprintf(traced, sizeof(traced),
				 " code=%s errno=%d position=%lld\n",
				 code_names[wrong->code], -EBADMSG,
				 (long long)position);
			EXPECT_EQ(1, trace_find(&self->trace, "mpa_error",
						self->fd, says, sizeof(says)));
			EXPECT_NE(NULL, strstr(says, traced))
				TH_LOG("the tracepoint, of %s: %s, and not%s",
				       wrong->what, says, traced);
			EXPECT_EQ(0, trace_clear(&self->trace));
		}
		part(self);
	}
}

/* ---- connections that end ---- */

/*
 * Read a socket's events, up to that of close(). Return: the number of events @cmd, or
 * -1. @first: set to the first event @cmd; @closed: set to that of close().
 */
static int events_of(struct nl *events, u64 cookie, u8 cmd,
		     struct nl_reported *first, struct nl_reported *closed)
{
	int found = 0;

	memset(first, 0, sizeof(*first));
	while (!nl_next(events, closed, 20000)) {
		if (closed->value[MPA_A_CONN_COOKIE] != cookie)
			continue;
		if (closed->cmd == MPA_CMD_CLOSED_NTF)
			return found;
		if (closed->cmd == cmd && !found++)
			*first = *closed;
	}
	return -1;
}

static u64 close_one(int *fd)
{
	u64 cookie = cookie_of(*fd);

	close(*fd);
	*fd = -1;
	return cookie;
}

/* The program is notified of the end of startup, but does not read the error. */
TEST_F(pair, reset_in_startup_is_reported_before_close)
{
	struct nl_reported told, closed;
	struct nl events;
	int i;

	ASSERT_EQ(0, nl_open(&events));
	ASSERT_EQ(0, nl_listen(&events, events.events));
	for (i = 0; i < 200; i++) {
		ASSERT_EQ(0, request(self, NULL, 0));
		hang_up(self->fd[0]);
		self->fd[0] = -1;
		ASSERT_TRUE(POLLHUP & poll_for(self->fd[1], 0, 20000));
		ASSERT_EQ(1, events_of(&events, close_one(&self->fd[1]),
				       MPA_CMD_REFUSED_NTF, &told, &closed))
			TH_LOG("the %d. startup", i);
		EXPECT_EQ(MPA_REFUSAL_LOST, told.value[MPA_A_CONN_REFUSAL]);
		EXPECT_STREQ("code=1 errno=104 position=-1", said(&told));
		EXPECT_STREQ("code=1 errno=104 position=-1", said(&closed));
		EXPECT_EQ(MPA_STATE_FAILED, closed.value[MPA_A_CONN_STATE]);
	}
	EXPECT_COUNTS({ "MpaRefusedLost", i });
	nl_close(&events);
}

/* A rejection is reported, even if a RST follows. */
TEST_F(pair, rejection_and_reset_are_reported_before_close)
{
	struct nl_reported told, closed;
	u8 reply[FRAME_LEN];
	struct nl events;
	int i;

	ASSERT_EQ(0, nl_open(&events));
	ASSERT_EQ(0, nl_listen(&events, events.events));
	frame_put(reply, true, 0x60, 1, 0);
	for (i = 0; i < 50; i++) {
		ASSERT_LT(0, ask(self));
		ASSERT_EQ(0, write_all(self->fd[1], reply, FRAME_LEN));
		hang_up(self->fd[1]);
		self->fd[1] = -1;
		/* Wait for the frame, or for the RST. */
		ASSERT_TRUE(poll_for(self->fd[0], 0, 20000));
		ASSERT_EQ(1, events_of(&events, close_one(&self->fd[0]),
				       MPA_CMD_REFUSED_NTF, &told, &closed))
			TH_LOG("the %d. startup", i);
		EXPECT_EQ(MPA_REFUSAL_BY_PEER, told.value[MPA_A_CONN_REFUSAL]);
	}
	EXPECT_COUNTS({ "MpaRefusedByPeer", i });
	nl_close(&events);
}

/* The program reads the error before the work item runs. */
TEST_F(pair, errno_in_startup_is_the_program_s)
{
	const char *const aborted = "code=1 errno=103 position=-1";
	struct nl_reported told, closed;
	struct nl nl, events;
	int i;

	ASSERT_EQ(0, nl_open(&nl));
	ASSERT_EQ(0, nl_open(&events));
	ASSERT_EQ(0, nl_listen(&events, events.events));
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, request(self, NULL, 0));
		ASSERT_EQ(0, kill_other_end(self->fd[0]));
		ASSERT_EQ(ECONNABORTED, so_error(self->fd[1]));
		ASSERT_EQ(0, nl_event(&events, cookie_of(self->fd[1]),
				      MPA_CMD_REFUSED_NTF, &told));
		ASSERT_STREQ(aborted, said(&told)) TH_LOG("startup %d", i);
		ASSERT_EQ(0, nl_conn_get(&nl, self->fd[1], &told));
		ASSERT_STREQ(aborted, said(&told));
		EXPECT_EQ(0, so_error(self->fd[1]));
		ASSERT_EQ(0, events_of(&events, close_one(&self->fd[1]),
				       MPA_CMD_REFUSED_NTF, &told, &closed));
		ASSERT_STREQ(aborted, said(&closed));
	}
	EXPECT_COUNTS({ "MpaRefusedLost", i });
	nl_close(&events);
	nl_close(&nl);
}

/* In a thread, read the error as soon as it is set. */
static void *fetch_error(void *arg)
{
	const long until = now_ms() + 20000;
	long err = 0;

	while (!err && now_ms() < until)
		err = so_error(*(int *)arg);
	return (void *)err;
}

TEST_F(pair, loss_is_reported_whoever_has_its_error)
{
	struct nl_reported told, closed;
	pthread_t thread;
	struct nl events;
	void *got;
	int i;

	ASSERT_EQ(0, nl_open(&events));
	ASSERT_EQ(0, nl_listen(&events, events.events));
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, fresh(self, false, true));
		ASSERT_EQ(0, mpa_start(self->fd[1], MPA_ROLE_DIRECT, 0));
		ASSERT_EQ(0, pthread_create(&thread, NULL, fetch_error,
					    &self->fd[1]));
		ASSERT_EQ(0, kill_other_end(self->fd[0]));
		ASSERT_EQ(0, pthread_join(thread, &got));
		EXPECT_EQ(ECONNABORTED, (long)got);
		ASSERT_EQ(1, events_of(&events, close_one(&self->fd[1]),
				       MPA_CMD_FAILED_NTF, &told, &closed))
			TH_LOG("the %d. connection", i);
		EXPECT_EQ(MPA_ERR_TCP, told.value[MPA_A_CONN_ERROR]);
		/* If the RST came first, the cause is no longer known. */
		if (told.value[MPA_A_CONN_ERRNO] != ECONNABORTED)
			EXPECT_EQ(ECONNRESET, told.value[MPA_A_CONN_ERRNO]);
	}
	EXPECT_COUNTS({ "MpaDirect", i }, { "MpaLost", i });
	nl_close(&events);
}

/* Regular ends: the order in which ends shut halves down. Then both ends close. */
static const char *const orderly[] = {
	"0w 1w", "1w 0b", "0b 1b", "0r 1w 0w", "1w 0r 0w 0b",
};

static void shut_down(const int *fd, const char *ends)
{
	for (; *ends; ends += ends[2] ? 3 : 2)
		shutdown(fd[*ends - '0'], ends[1] == 'r' ? SHUT_RD :
					  ends[1] == 'w' ? SHUT_WR : SHUT_RDWR);
}

TEST_F(pair, orderly_end_is_no_loss)
{
	struct nl_reported told, closed;
	struct nl nl, events;
	unsigned int i, j;

	ASSERT_EQ(0, nl_open(&nl));
	ASSERT_EQ(0, nl_open(&events));
	ASSERT_EQ(0, nl_listen(&events, events.events));
	/* Try without an unread record, and with one. */
	for (i = 0; i < 2 * ARRAY_SIZE(orderly); i++) {
		ASSERT_EQ(0, fresh(self, true, true));
		ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
		ASSERT_EQ(0, mpa_start(self->fd[1], MPA_ROLE_DIRECT, 0));
		if (i % 2) {
			ASSERT_EQ(100, send(self->fd[0], record_row, 100, 0));
			/* TCP answers octets that arrive after SHUT_RD by a RST. */
			ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
		}
		shut_down(self->fd, orderly[i / 2]);
		for (j = 0; j < 2; j++) {
			ASSERT_TRUE(tcp_closed(self->fd[j]))
				TH_LOG("%s, end %d: %d", orderly[i / 2], j,
				       tcp_state(self->fd[j]));
			/* A second shutdown() wakes a polling task again. */
			EXPECT_EQ(-1, shutdown(self->fd[j], SHUT_RDWR));
			EXPECT_EQ(0, so_error(self->fd[j]));
			ASSERT_EQ(0, nl_conn_get(&nl, self->fd[j], &told));
			EXPECT_STREQ("code=1 errno=-1 position=-1", said(&told));
		}
		for (j = 0; j < 2; j++)
			EXPECT_EQ(0, events_of(&events, close_one(&self->fd[j]),
					       MPA_CMD_FAILED_NTF, &told,
					       &closed));
	}
	EXPECT_COUNTS({ "MpaDirect", 2 * i }, { "MpaTxFpdus", i / 2 },
		      { "MpaTxOctets", i / 2 * 100 });
	nl_close(&events);
	nl_close(&nl);
}

/* Both ends close regularly while an error waits for SO_ERROR: no loss is reported. */
TEST_F(pair, peer_wants_more_depth_and_both_close)
{
	const long until = now_ms() + 20000;
	u8 reply[FRAME_LEN + 4];

	ASSERT_LT(0, ask_enhanced(self));
	enhanced_frame(reply, true, 0x40, 0, 4, 9);
	ASSERT_EQ(0, write_all(self->fd[1], reply, sizeof(reply)));
	while (mpa_info(self->fd[0]).state != MPA_STATE_FULL &&
	       now_ms() < until)
		poll(NULL, 0, 1);
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	ASSERT_EQ(0, recv(self->fd[1], reply, sizeof(reply), 0));
	EXPECT_TRUE(tcp_closed(self->fd[0]));
	EXPECT_EQ(ENOBUFS, so_error(self->fd[0]));
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaCurrInitiators", 1 },
		      { "MpaDepthRefused", 1 });
}

/* The loss is reported once, though the reader also finds a truncated record. */
TEST_F(pair, reset_within_a_record_is_reported_once)
{
	const char *const reset = "code=1 errno=104 position=-1";
	/* MPA_INFO then also has the position where receiving ended. */
	const char *const cut = "code=1 errno=104 position=0";
	struct nl_reported told, closed;
	struct peer peer = {};
	struct nl nl, events;
	int i;

	ASSERT_EQ(0, nl_open(&nl));
	ASSERT_EQ(0, nl_open(&events));
	ASSERT_EQ(0, nl_listen(&events, events.events));
	ASSERT_EQ(0, fresh(self, false, true));
	ASSERT_EQ(0, mpa_start(self->fd[1], MPA_ROLE_DIRECT, 0));
	ASSERT_LT(0, peer_fpdu(&peer, record_of(1000), 1000, self->buf));
	ASSERT_EQ(0, write_all(self->fd[0], self->buf, 500));
	ASSERT_TRUE(arrived(self->fd[1], 500));
	hang_up(self->fd[0]);
	self->fd[0] = -1;
	ASSERT_EQ(0, nl_event(&events, cookie_of(self->fd[1]),
			      MPA_CMD_FAILED_NTF, &told));
	EXPECT_STREQ(reset, said(&told));
	EXPECT_EQ(-1, recv(self->fd[1], self->buf, sizeof(self->buf), 0));
	EXPECT_EQ(ECONNRESET, errno);
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-1, recv(self->fd[1], self->buf, sizeof(self->buf), 0));
		EXPECT_EQ(EBADMSG, errno);
	}
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd[1]).error);
	ASSERT_EQ(0, nl_conn_get(&nl, self->fd[1], &told));
	EXPECT_STREQ(cut, said(&told));
	EXPECT_EQ(0, events_of(&events, close_one(&self->fd[1]),
			       MPA_CMD_FAILED_NTF, &told, &closed));
	EXPECT_STREQ(cut, said(&closed));
	EXPECT_COUNTS({ "MpaDirect", 1 }, { "MpaLost", 1 });
	nl_close(&events);
	nl_close(&nl);
}

TEST_F(pair, refused_start_leaves_no_role)
{
	struct nl_reported told;
	struct nl nl;

	ASSERT_EQ(0, nl_open(&nl));
	ASSERT_EQ(0, sysctl_put("startup_max", 0));
	ASSERT_EQ(0, fresh(self, false, true));
	ASSERT_EQ(-1, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(EUSERS, errno);
	ASSERT_EQ(0, nl_conn_get(&nl, self->fd[1], &told));
	EXPECT_EQ(MPA_STATE_IDLE, told.value[MPA_A_CONN_STATE]);
	EXPECT_EQ(MPA_ROLE_UNSPEC, told.value[MPA_A_CONN_ROLE]);
	EXPECT_EQ(MPA_ROLE_UNSPEC, mpa_info(self->fd[1]).role);
	nl_close(&nl);
}

/* A refused MPA_START does not change the result of an earlier startup. */
TEST_F(pair, refused_start_leaves_a_rejection)
{
	struct mpa_peer peer;
	socklen_t len = sizeof(peer);
	u8 reply[FRAME_LEN];

	ASSERT_LT(0, ask(self));
	frame_put(reply, true, 0x60, 1, 0);
	ASSERT_EQ(ECONNREFUSED, answer(self, reply, FRAME_LEN));
	ASSERT_EQ(0, sysctl_put("startup_max", 0));
	ASSERT_EQ(-1, mpa_start_as(self->fd[0], &self->start[1]));
	ASSERT_EQ(EUSERS, errno);
	EXPECT_EQ(MPA_STATE_REJECTED, mpa_info(self->fd[0]).state);
	EXPECT_EQ(MPA_ROLE_INITIATOR, mpa_info(self->fd[0]).role);
	ASSERT_EQ(0, getsockopt(self->fd[0], SOL_MPA, MPA_PEER, &peer, &len));
	EXPECT_TRUE(peer.flags & MPA_PEER_REJECTED);
}

/* Nothing of a connection is reported for the next one. */
TEST_F(pair, disconnected_socket_forgets_a_rejection)
{
	const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	struct nl_reported told;
	struct mpa_peer peer;
	socklen_t len = sizeof(peer);
	u8 reply[FRAME_LEN];
	struct nl nl;

	ASSERT_EQ(0, nl_open(&nl));
	ASSERT_LT(0, ask(self));
	frame_put(reply, true, 0x60, 1, 0);
	ASSERT_EQ(ECONNREFUSED, answer(self, reply, FRAME_LEN));
	ASSERT_EQ(0, connect(self->fd[0], &nowhere, sizeof(nowhere)));
	EXPECT_EQ(-1, getsockopt(self->fd[0], SOL_MPA, MPA_PEER, &peer, &len));
	EXPECT_EQ(ENODATA, errno);
	ASSERT_EQ(0, nl_conn_get(&nl, self->fd[0], &told));
	EXPECT_EQ(MPA_STATE_IDLE, told.value[MPA_A_CONN_STATE]);
	EXPECT_FALSE(nl_has(&told, MPA_A_CONN_ERRNO));
	nl_close(&nl);
}

TEST_HARNESS_MAIN
