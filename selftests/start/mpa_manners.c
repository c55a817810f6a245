// SPDX-License-Identifier: GPL-2.0
/*
 * Startup with unusual programs and peers: shutdown() during startup, early octets,
 * unexpected replies, rejected replies, signals.
 */

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_pair.h"

/* This timeout exceeds any test: nothing else ends the startup. */
#define FOR_EVER_MS	3000000

/* Upper bound for calls that return at once, on a busy machine. */
#define AT_ONCE_MS	4000

/* ---- a call that waits, in its own thread ---- */

enum call {
	CALL_START,
	CALL_RECV,
	CALL_SEND,
	CALL_POLL,
	CALL_EPOLL_EDGE,
	CALL_EPOLL_LEVEL,
	CALLS
};

static const char * const call_names[] = {
	"MPA_START", "recv", "send", "poll", "epoll (edge)", "epoll (level)",
};

struct waiter {
	int fd;
	enum call call;
	struct mpa_start start;
	pthread_t thread;
	pid_t tid;
	int ret;
	int err;
	bool done;
};

static int epoll_once(int fd, u32 events)
{
	struct epoll_event event = { .events = events };
	int epoll = epoll_create1(0), ret;

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		return -1;
	event.events = 0;
	ret = epoll_wait(epoll, &event, 1, -1);
	/* Skip events that were pending before the wait. */
	while (events & EPOLLET && ret == 1 && !(event.events & ~EPOLLOUT))
		ret = epoll_wait(epoll, &event, 1, -1);
	close(epoll);
	return ret == 1 ? event.events : -1;
}

static int wait_call(struct waiter *waiter)
{
	int fd = waiter->fd;
	char octet = 0;

	switch (waiter->call) {
	case CALL_START:
		return mpa_start_as(fd, &waiter->start);
	case CALL_RECV:
		return recv(fd, &octet, 1, 0);
	case CALL_SEND:
		return send(fd, &octet, 1, MSG_NOSIGNAL);
	case CALL_POLL:
		return poll_for(fd, POLLOUT, -1);
	case CALL_EPOLL_EDGE:
		return epoll_once(fd, EPOLLOUT | EPOLLET);
	default:
		return epoll_once(fd, EPOLLOUT);
	}
}

static void *wait_run(void *arg)
{
	struct waiter *waiter = arg;

	__atomic_store_n(&waiter->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	waiter->ret = wait_call(waiter);
	waiter->err = errno;
	__atomic_store_n(&waiter->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool waiter_begin(struct waiter *waiter)
{
	waiter->tid = 0;
	waiter->done = false;
	return !pthread_create(&waiter->thread, NULL, wait_run, waiter) &&
	       asleep(&waiter->tid);
}

/* Return: milliseconds until the waiter's call returned, AT_ONCE_MS if it has not. */
static long waiter_end(struct waiter *waiter)
{
	const long begun = now_ms();

	while (!__atomic_load_n(&waiter->done, __ATOMIC_ACQUIRE) &&
	       now_ms() < begun + AT_ONCE_MS)
		poll(NULL, 0, 1);
	return now_ms() - begun;
}

/* ---- shutdown() while startup waits ---- */

enum where {
	WHERE_INITIATOR,
	WHERE_RESPONDER,
	WHERE_REQUESTED,
	WHERES
};

static const char * const where_names[] = {
	"an initiator", "a responder", "a responder with a request",
};

static const char * const how_names[] = { "SHUT_RD", "SHUT_WR", "SHUT_RDWR" };

/* Make an end wait for ever. Return: -1 on failure. */
static int waits_at(struct _test_data_pair *self, enum where where,
		    bool started)
{
	u8 frame[FRAME_LEN];

	self->start[0].timeout_ms = FOR_EVER_MS;
	self->start[1].timeout_ms = FOR_EVER_MS;
	self->start[1].flags = MPA_START_MANUAL;
	frame_put(frame, false, 0x40, 1, 0);
	if (where == WHERE_INITIATOR) {
		if (fresh(self, true, false))
			return -1;
		if (!started)
			return self->fd[0];
		set_nonblock(self->fd[0]);
		if (!mpa_start_as(self->fd[0], &self->start[0]) ||
		    errno != EINPROGRESS)
			return -1;
		set_block(self->fd[0]);
		return self->fd[0];
	}
	if (request(self, frame, where == WHERE_REQUESTED ? FRAME_LEN : 0))
		return -1;
	if (where == WHERE_REQUESTED &&
	    poll_for(self->fd[1], POLLIN, 20000) != POLLIN)
		return -1;
	return self->fd[1];
}

/* Remove the socket's timeout: it would end the wait, too. */
static void no_patience(int fd)
{
	patience(fd, 0);
}

static void shutdown_wakes(struct __test_metadata *_metadata,
			   struct _test_data_pair *self, enum where where,
			   int how, enum call call)
{
	struct waiter waiter = { .call = call, .start = self->start[0] };
	long ms;

	waiter.fd = waits_at(self, where, call != CALL_START);
	waiter.start = self->start[0];
	ASSERT_LE(0, waiter.fd);
	no_patience(waiter.fd);
	ASSERT_TRUE(waiter_begin(&waiter));
	ASSERT_EQ(0, shutdown(waiter.fd, how));
	ms = waiter_end(&waiter);
	EXPECT_GT(AT_ONCE_MS, ms) {
		TH_LOG("%s of %s sleeps on after %s", call_names[call],
		       where_names[where], how_names[how]);
		/* Release the waiting call. */
		hang_up(self->fd[where == WHERE_INITIATOR]);
		self->fd[where == WHERE_INITIATOR] = -1;
	}
	pthread_join(waiter.thread, NULL);
	if (ms >= AT_ONCE_MS)
		return;
	if (call < CALL_POLL) {
		EXPECT_EQ(-1, waiter.ret);
		EXPECT_EQ(ECONNABORTED, waiter.err) {
			TH_LOG("%s of %s after %s: %s", call_names[call],
			       where_names[where], how_names[how],
			       strerror(waiter.err));
		}
		/* The error is returned once. */
		EXPECT_EQ(0, so_error(waiter.fd));
	} else {
		EXPECT_NE(0, POLLERR & waiter.ret);
		EXPECT_EQ(ECONNABORTED, so_error(waiter.fd));
	}
	EXPECT_EQ(MPA_STATE_FAILED, mpa_info(waiter.fd).state);
	EXPECT_EQ(MPA_ERR_LOCAL, mpa_info(waiter.fd).error);
}

static void shutdown_wakes_all(struct __test_metadata *_metadata,
			       struct _test_data_pair *self, enum where where)
{
	unsigned int how, call;

	for (how = SHUT_RD; how <= SHUT_RDWR; how++) {
		for (call = 0; call < CALLS; call++) {
			if (call == CALL_START && where != WHERE_INITIATOR)
				continue;
			shutdown_wakes(_metadata, self, where, how, call);
		}
	}
}

TEST_F_TIMEOUT(pair, shutdown_wakes_whoever_waits_at_an_initiator, 300)
{
	shutdown_wakes_all(_metadata, self, WHERE_INITIATOR);
}

TEST_F_TIMEOUT(pair, shutdown_wakes_whoever_waits_at_a_responder, 300)
{
	shutdown_wakes_all(_metadata, self, WHERE_RESPONDER);
}

TEST_F_TIMEOUT(pair, shutdown_wakes_whoever_waits_with_a_request, 300)
{
	shutdown_wakes_all(_metadata, self, WHERE_REQUESTED);
}

/* poll(2) and recv() agree, so that no event loop spins. */
TEST_F_TIMEOUT(pair, poll_and_recv_agree_after_shutdown, 300)
{
	unsigned int where, how;

	for (where = 0; where < WHERES; where++) {
		for (how = SHUT_RD; how <= SHUT_RDWR; how++) {
			int fd = waits_at(self, where, true), rounds, events;
			char octet;

			ASSERT_LE(0, fd);
			ASSERT_EQ(0, shutdown(fd, how));
			for (rounds = 0; rounds < 1000; rounds++) {
				events = poll_for(fd, POLLIN | POLLOUT |
						  POLLRDHUP, AT_ONCE_MS);
				if (recv(fd, &octet, 1, MSG_DONTWAIT) != -1 ||
				    errno != EAGAIN)
					break;
			}
			EXPECT_GT(3, rounds) {
				TH_LOG("%s after %s: poll says 0x%x, recv waits, %d times",
				       where_names[where], how_names[how],
				       events, rounds);
			}
			EXPECT_EQ(MPA_STATE_FAILED, mpa_info(fd).state);
		}
	}
}

/* The other end's startup fails at once, too. */
TEST_F(pair, shutdown_ends_startup_for_the_peer)
{
	unsigned int where, how;

	for (where = 0; where < WHERES; where++) {
		for (how = SHUT_RD; how <= SHUT_RDWR; how++) {
			int fd = waits_at(self, where, true), other;
			u8 frame[FRAME_LEN];

			ASSERT_LE(0, fd);
			other = self->fd[where == WHERE_INITIATOR];
			if (where == WHERE_INITIATOR)
				ASSERT_EQ(FRAME_LEN, read_all(other, frame,
							      FRAME_LEN));
			patience(other, 4);
			ASSERT_EQ(0, shutdown(fd, how));
			EXPECT_EQ(-1, recv(other, frame, 1, 0));
			EXPECT_EQ(ECONNRESET, errno) {
				TH_LOG("%s after %s: %s", where_names[where],
				       how_names[how], strerror(errno));
			}
		}
	}
}

/* ---- early octets: RFC 5044 section 7.1.2 rules 2 and 4 ---- */

/* Check that the responder has failed as after a malformed request. */
static void is_malformed(struct __test_metadata *_metadata,
			 struct _test_data_pair *self, const char *when)
{
	u8 octet;

	EXPECT_NE(0, POLLERR & poll_for(self->fd[1], 0, AT_ONCE_MS)) {
		TH_LOG("octets %s", when);
	}
	EXPECT_EQ(EPROTO, so_error(self->fd[1])) {
		TH_LOG("octets %s", when);
	}
	EXPECT_EQ(MPA_STATE_FAILED, mpa_info(self->fd[1]).state);
	EXPECT_EQ(MPA_ERR_STARTUP, mpa_info(self->fd[1]).error);
	patience(self->fd[0], 4);
	EXPECT_EQ(-1, recv(self->fd[0], &octet, 1, 0));
	EXPECT_EQ(ECONNRESET, errno);
}

TEST_F(pair, octets_after_a_request_are_malformed_whenever_they_come)
{
	u8 frame[FRAME_LEN + 5];
	unsigned int revision;

	for (revision = 0; revision < 3; revision++) {
		frame_put(frame, false, 0xc0, revision, 0);
		memcpy(frame + FRAME_LEN, "early", 5);
		self->start[1].revision = revision;
		self->start[1].flags = MPA_START_MANUAL;

		ASSERT_EQ(0, request(self, frame, sizeof(frame)));
		is_malformed(_metadata, self, "in one segment with it");

		ASSERT_EQ(0, request(self, frame, FRAME_LEN));
		ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
		ASSERT_EQ(0, write_all(self->fd[0], frame + FRAME_LEN, 5));
		is_malformed(_metadata, self, "while it waits for an answer");
	}
}

/* No octet is consumed, no matter whether the work item or the program runs first. */
TEST_F(pair, early_octets_bar_both_answers)
{
	const int options[] = { MPA_ACCEPT, MPA_REJECT };
	u8 frame[FRAME_LEN], octet;
	unsigned int i, round;

	ASSERT_EQ(0, one_processor());
	frame_put(frame, false, 0x40, 1, 0);
	self->start[1].flags = MPA_START_MANUAL;
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 2; i++) {
			int err;

			ASSERT_EQ(0, request(self, frame, FRAME_LEN));
			ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
			ASSERT_EQ(0, write_all(self->fd[0], "early", 5));
			ASSERT_TRUE(lo_delivered());
			err = decide(self->fd[1], options[i]);
			/* The call or SO_ERROR returns the error. */
			if (err != ENOTCONN || so_error(self->fd[1]) != EPROTO)
				EXPECT_EQ(EPROTO, err);
			EXPECT_EQ(0, so_error(self->fd[1]));
			EXPECT_EQ(MPA_STATE_FAILED,
				  mpa_info(self->fd[1]).state);
			EXPECT_EQ(-1, recv(self->fd[0], &octet, 1, 0));
			EXPECT_EQ(ECONNRESET, errno);
		}
	}
}

/* ---- revision 0: draft-culley-iwarp-mpa-01 section 8.1 ---- */

/* The reply and an FPDU arrive in one segment, or in two. */
TEST_F(pair, revision_0_fpdu_after_the_reply_is_delivered)
{
	unsigned int i;

	for (i = 0; i < 4; i++) {
		struct peer peer = { .tx_markers = true };
		bool permissive = i & 1, later = i & 2;
		u8 frame[FRAME_LEN + 64], seen[16];
		size_t n;

		self->start[0].revision = permissive;
		self->start[0].flags = permissive ? MPA_START_PERMISSIVE : 0;
		ASSERT_EQ(FRAME_LEN, ask(self));
		n = frame_put(frame, true, 0xc0, 0, 0);
		n += peer_fpdu(&peer, (const u8 *)"first", 5, frame + n);
		if (later) {
			EXPECT_EQ(0, answer(self, frame, FRAME_LEN));
			ASSERT_EQ(0, write_all(self->fd[1], frame + FRAME_LEN,
					       n - FRAME_LEN));
		} else {
			EXPECT_EQ(0, answer(self, frame, n)) {
				TH_LOG("%s initiator",
				       permissive ? "permissive" : "RDMAC");
			}
		}
		EXPECT_EQ(5, recv(self->fd[0], seen, sizeof(seen), 0));
		EXPECT_EQ(0, memcmp(seen, "first", 5));
		EXPECT_EQ(MPA_STATE_FULL, mpa_info(self->fd[0]).state);
	}
}

/* As with RFC 5044, the initiator may not be ready. */
TEST_F(pair, revision_0_responder_waits_for_the_first_fpdu)
{
	u8 frame[FRAME_LEN];

	self->start[1].revision = 0;
	frame_put(frame, false, 0xc0, 0, 0);
	ASSERT_EQ(0, request(self, frame, FRAME_LEN));
	ASSERT_EQ(FRAME_LEN, read_all(self->fd[0], frame, FRAME_LEN));
	EXPECT_EQ(-1, send(self->fd[1], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
	EXPECT_EQ(EAGAIN, errno);
}

/* ---- replies ---- */

/* Section 7.1.2 rule 3: R leaves TCP open, whatever the rest of the reply. */
TEST_F(pair, rejection_of_another_kind_leaves_tcp_open)
{
	const struct { u8 revision; u32 flags; } ours[] = {
		{ 0, 0 }, { 1, 0 }, { 1, MPA_START_PERMISSIVE }, { 2, 0 },
		{ 2, MPA_START_ENHANCED },
	};
	const struct { u8 flags, revision, pd_length; } theirs[] = {
		{ 0x60, 0, 0 }, { 0x60, 1, 0 }, { 0x60, 2, 0 }, { 0x70, 1, 0 },
		{ 0x70, 2, 4 }, { 0x70, 3, 4 }, { 0x60, 255, 2 },
	};
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(ours); i++) {
		for (j = 0; j < ARRAY_SIZE(theirs); j++) {
			u8 frame[FRAME_LEN + 4] = {};

			self->start[0].revision = ours[i].revision;
			self->start[0].flags = ours[i].flags;
			ASSERT_LT(0, ask(self));
			frame_put(frame, true, theirs[j].flags,
				  theirs[j].revision, theirs[j].pd_length);
			EXPECT_EQ(ECONNREFUSED,
				  answer(self, frame, FRAME_LEN +
					 theirs[j].pd_length)) {
				TH_LOG("request %u, reply %u", i, j);
			}
			EXPECT_EQ(MPA_STATE_REJECTED,
				  mpa_info(self->fd[0]).state);
			EXPECT_EQ(theirs[j].revision,
				  mpa_peer(self->fd[0]).revision);
			EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
			EXPECT_TRUE(text_goes(self->fd[1], self->fd[0]));
		}
	}
}

/* RFC 6581 sections 1.1 and 9.2: an RTR that a DDP peer expects has priority. */
TEST_F(pair, empty_fpdu_is_the_last_choice_of_an_initiator)
{
	const struct { u32 ours, theirs, chosen; } cases[] = {
		{ B | C | D, B | C | D, C }, { B | C, B | C, C },
		{ B | D, B | C | D, D }, { C | D, B | C | D, C },
		{ B | C | D, B | D, D }, { B | C | D, B, B }, { B, B | C, B },
	};
	unsigned int i;

	self->start[0].revision = 2;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u8 frame[FRAME_LEN + 4];
		size_t n;

		self->start[0].flags = MPA_START_ENHANCED | A | cases[i].ours;
		ASSERT_LT(0, ask(self));
		n = enhanced_frame(frame, true, 0x40, A | cases[i].theirs, 1,
				   0);
		EXPECT_EQ(0, answer(self, frame, n));
		EXPECT_EQ(cases[i].chosen, mpa_info(self->fd[0]).rtr) {
			TH_LOG("case %u: 0x%x", i, mpa_info(self->fd[0]).rtr);
		}
		if (cases[i].chosen == B)
			EXPECT_EQ(8, read_all(self->fd[1], frame, 8));
		EXPECT_EQ(-1, recv(self->fd[1], frame, 1, MSG_DONTWAIT));
	}
}

/*
 * If the responder's program names no RTR, its reply has those of a DDP peer; or B if
 * the initiator has no other. Some initiators use the reply's first RTR even if they
 * did not request it, so the reply has only common ones, if there are any.
 */
TEST_F(pair, responder_offers_what_the_initiator_has_asked_for)
{
	const struct { u32 ours, theirs, reply; } cases[] = {
		{ 0, B | C | D, C | D }, { 0, B | C, C }, { 0, C, C },
		{ 0, D, D }, { 0, B | D, D }, { 0, 0, C | D }, { 0, B, B },
		{ B, B | C, B }, { B | C, C | D, C }, { C, B, C },
		{ D, B | C, D },
	};
	unsigned int i;

	self->start[1].revision = 2;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u8 frame[FRAME_LEN + 4];
		size_t n;

		self->start[1].flags = cases[i].ours;
		self->start[1].ird = 1;
		n = enhanced_frame(frame, false, 0x40, A | cases[i].theirs, 0,
				   0);
		ASSERT_EQ(0, request(self, frame, n));
		enhanced_frame(frame, true, 0x40, A | cases[i].reply, 1, 0);
		ASSERT_EQ(n, read_all(self->fd[0], self->buf, n));
		EXPECT_EQ(0, memcmp(frame, self->buf, n)) {
			TH_LOG("case %u: control octets %02x %02x", i,
			       self->buf[FRAME_LEN], self->buf[FRAME_LEN + 2]);
		}
		EXPECT_EQ(cases[i].reply & cases[i].theirs,
			  mpa_info(self->fd[1]).rtr);
	}
}

/* Section 7.1.2 rule 3: the program rejects the private data. */
TEST_F(pair, initiator_may_decide_on_the_reply)
{
	u8 frame[FRAME_LEN + 2];
	unsigned int accept;
	int fd;

	frame_put(frame, true, 0x40, 1, 2);
	memcpy(frame + FRAME_LEN, "hm", 2);
	self->start[0].flags = MPA_START_MANUAL;
	for (accept = 0; accept < 2; accept++) {
		ASSERT_EQ(FRAME_LEN, ask(self));
		fd = self->fd[0];
		EXPECT_EQ(EAGAIN, decide(fd, MPA_ACCEPT));
		ASSERT_EQ(0, write_all(self->fd[1], frame, sizeof(frame)));
		ASSERT_EQ(POLLIN, poll_for(fd, POLLIN | POLLOUT, 20000));
		EXPECT_EQ(0, so_error(fd));
		EXPECT_EQ(MPA_STATE_REQUESTED, mpa_info(fd).state);
		EXPECT_EQ(2, mpa_peer(fd).private_len);
		EXPECT_EQ(-1, recv(fd, self->buf, 1, MSG_DONTWAIT));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(-1, send(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
		EXPECT_EQ(EAGAIN, errno);
		/* No later frame could carry private data. */
		EXPECT_EQ(EINVAL, decide_as(fd, MPA_REJECT,
					    &(struct mpa_reply){},
					    sizeof(struct mpa_reply)));
		if (accept) {
			EXPECT_EQ(0, decide(fd, MPA_ACCEPT));
			EXPECT_EQ(MPA_STATE_FULL, mpa_info(fd).state);
			EXPECT_EQ(POLLOUT, poll_for(fd, POLLOUT, 0));
			EXPECT_EQ(2, send(fd, "ok", 2, MSG_NOSIGNAL));
			EXPECT_EQ(8, read_all(self->fd[1], self->buf, 8));
			EXPECT_EQ(0, memcmp(self->buf, "\0\2ok", 4));
			continue;
		}
		EXPECT_EQ(0, decide(fd, MPA_REJECT));
		EXPECT_EQ(MPA_STATE_REJECTED, mpa_info(fd).state);
		EXPECT_TRUE(text_goes(fd, self->fd[1]));
		EXPECT_TRUE(text_goes(self->fd[1], fd));
		/* MPA can be started again. */
		self->start[1].flags = 0;
		ASSERT_EQ(0, mpa_attach(self->fd[1]));
		ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
		ASSERT_EQ(0, mpa_start(fd, MPA_ROLE_INITIATOR, 0));
		EXPECT_TRUE(records_go(self));
	}
}

/* The RTR indication waits for the decision. A bad reply needs no decision. */
TEST_F(pair, blocking_start_returns_with_the_reply_to_decide_on)
{
	struct waiter waiter = { .call = CALL_START };
	u8 frame[FRAME_LEN + 4];
	size_t n;

	ASSERT_EQ(0, fresh(self, true, false));
	self->start[0].revision = 2;
	self->start[0].flags = MPA_START_ENHANCED | MPA_START_MANUAL | A | B;
	waiter.fd = self->fd[0];
	waiter.start = self->start[0];
	ASSERT_TRUE(waiter_begin(&waiter));
	n = enhanced_frame(frame, true, 0x40, A | B, 0, 0);
	ASSERT_EQ(0, write_all(self->fd[1], frame, n));
	EXPECT_GT(AT_ONCE_MS, waiter_end(&waiter));
	pthread_join(waiter.thread, NULL);
	EXPECT_EQ(0, waiter.ret);
	EXPECT_EQ(MPA_STATE_REQUESTED, mpa_info(self->fd[0]).state);
	ASSERT_EQ(n, read_all(self->fd[1], frame, n));
	EXPECT_EQ(-1, recv(self->fd[1], frame, 1, MSG_DONTWAIT));
	EXPECT_EQ(0, decide(self->fd[0], MPA_ACCEPT));
	EXPECT_EQ(8, read_all(self->fd[1], frame, 8));
	EXPECT_EQ(B, mpa_info(self->fd[0]).rtr);
	EXPECT_TRUE(MPA_INFO_MAY_SEND & mpa_info(self->fd[0]).flags);

	/* A rejection or a malformed frame needs no decision. */
	ASSERT_LT(0, ask(self));
	n = enhanced_frame(frame, true, 0x60, A | B, 0, 0);
	EXPECT_EQ(ECONNREFUSED, answer(self, frame, n));
	ASSERT_LT(0, ask(self));
	EXPECT_EQ(EPROTO, answer(self, (const u8 *)"none", 4));
	/* Octets that arrive before the decision are inspected after it. */
	ASSERT_LT(0, ask(self));
	n = enhanced_frame(frame, true, 0x40, A | B, 0, 0);
	ASSERT_EQ(0, write_all(self->fd[1], frame, n));
	ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
	ASSERT_EQ(0, write_all(self->fd[1], "\0\2ok", 4));
	poll_for(self->fd[0], 0, AT_ONCE_MS / 10);
	ASSERT_EQ(0, write_all(self->fd[1], "nono", 4));
	EXPECT_EQ(0, decide(self->fd[0], MPA_ACCEPT));
	EXPECT_EQ(-1, recv(self->fd[0], frame, sizeof(frame), 0));
	EXPECT_EQ(EBADMSG, errno);
}

/* ---- results reach the program once ---- */

static int answer_pipe[2];

/* The reply arrives while a signal handler runs. */
static void on_signal(int sig)
{
	int fd = answer_pipe[1];
	char octet = 0;

	if (write(fd, &octet, 1) != 1 || read(answer_pipe[0], &octet, 1) != 1)
		abort();
}

struct replier {
	int fd;
	int watched;
	pthread_t target;
	u8 flags;
	int handshake[2];
};

static void *reply_in_handler(void *arg)
{
	struct replier *replier = arg;
	u8 frame[FRAME_LEN];
	char octet;

	if (read_all(replier->fd, frame, FRAME_LEN) != FRAME_LEN)
		return NULL;
	pthread_kill(replier->target, SIGUSR1);
	if (read(replier->handshake[0], &octet, 1) != 1)
		return NULL;
	frame_put(frame, true, replier->flags, 1, 0);
	write_all(replier->fd, frame, FRAME_LEN);
	/* poll(2) returns when startup is over. */
	poll_for(replier->watched, POLLOUT, 20000);
	if (write(replier->handshake[1], &octet, 1) != 1)
		abort();
	return NULL;
}

/* When MPA_START is restarted, it returns the result, like connect(2). */
TEST_F(pair, start_that_a_signal_restarts_has_its_result)
{
	struct sigaction act = { .sa_handler = on_signal,
				 .sa_flags = SA_RESTART };
	const struct { u8 flags; int err; } rows[] = {
		{ 0x40, 0 }, { 0x60, ECONNREFUSED },
	};
	unsigned int i;

	sigaction(SIGUSR1, &act, NULL);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct replier replier = { .flags = rows[i].flags };
		int to[2], from[2], err;
		pthread_t thread;

		ASSERT_EQ(0, fresh(self, true, false));
		ASSERT_EQ(0, pipe(to));
		ASSERT_EQ(0, pipe(from));
		answer_pipe[0] = from[0];
		answer_pipe[1] = to[1];
		replier.handshake[0] = to[0];
		replier.handshake[1] = from[1];
		replier.fd = self->fd[1];
		replier.watched = self->fd[0];
		replier.target = pthread_self();
		ASSERT_EQ(0, pthread_create(&thread, NULL, reply_in_handler,
					    &replier));
		err = mpa_start_as(self->fd[0], &self->start[0]) ? errno : 0;
		pthread_join(thread, NULL);
		EXPECT_EQ(rows[i].err, err) {
			TH_LOG("%s", strerror(err));
		}
		EXPECT_EQ(0, so_error(self->fd[0]));
		EXPECT_EQ(rows[i].err ? MPA_STATE_REJECTED : MPA_STATE_FULL,
			  mpa_info(self->fd[0]).state);
		close(to[0]);
		close(to[1]);
		close(from[0]);
		close(from[1]);
	}
}

/* A new MPA_START first returns a result that was not read. */
TEST_F(pair, rejection_is_reported_before_a_new_start)
{
	u8 frame[FRAME_LEN];

	ASSERT_EQ(FRAME_LEN, ask(self));
	frame_put(frame, true, 0x60, 1, 0);
	ASSERT_EQ(0, write_all(self->fd[1], frame, FRAME_LEN));
	ASSERT_NE(0, POLLERR & poll_for(self->fd[0], POLLOUT, 20000));
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(ECONNREFUSED, errno);
	EXPECT_EQ(MPA_STATE_REJECTED, mpa_info(self->fd[0]).state);
	EXPECT_EQ(0, so_error(self->fd[0]));
	set_nonblock(self->fd[0]);
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(EINPROGRESS, errno);
	EXPECT_EQ(FRAME_LEN, read_all(self->fd[1], frame, FRAME_LEN));
}

/* ---- options ---- */

TEST_F(pair, unknown_option_is_no_protocol_option)
{
	int names[] = { 0, 99, -1, MPA_RECV_BATCH + 1000 }, value = 0;
	socklen_t len = sizeof(value);
	unsigned int i;

	ASSERT_EQ(0, fresh(self, true, false));
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		EXPECT_EQ(-1, setsockopt(self->fd[0], SOL_MPA, names[i],
					 &value, len));
		EXPECT_EQ(ENOPROTOOPT, errno);
		EXPECT_EQ(-1, getsockopt(self->fd[0], SOL_MPA, names[i],
					 &value, &len));
		EXPECT_EQ(ENOPROTOOPT, errno);
	}
	/* These options can only be read, or only be set. */
	EXPECT_EQ(-1, setsockopt(self->fd[0], SOL_MPA, MPA_INFO, &value, len));
	EXPECT_EQ(ENOPROTOOPT, errno);
	EXPECT_EQ(-1, getsockopt(self->fd[0], SOL_MPA, MPA_START, &value,
				 &len));
	EXPECT_EQ(ENOPROTOOPT, errno);
}

/* ---- memory ---- */

#define GROUP	"/tmp/mpa-cgroup"

static int group_put(const char *name, const char *value)
{
	char path[96];
	int fd, err;

	snprintf(path, sizeof(path), GROUP "/%s", name);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	err = write(fd, value, strlen(value)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

/* Put this process into a memory cgroup. */
static int group_enter(void)
{
	mkdir(GROUP, 0700);
	if (mount("none", GROUP, "cgroup2", 0, NULL) ||
	    group_put("cgroup.subtree_control", "+memory"))
		return -1;
	mkdir(GROUP "/mpa", 0700);
	return group_put("mpa/cgroup.procs", "0");
}

static void group_leave(void)
{
	group_put("cgroup.procs", "0");
	rmdir(GROUP "/mpa");
	umount(GROUP);
}

/* Return: octets of slab memory charged to the cgroup, or -1. */
static long group_slab(void)
{
	FILE *file = fopen(GROUP "/mpa/memory.stat", "r");
	long octets = -1;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "slab_unreclaimable %ld", &octets) == 1)
			break;
	if (file)
		fclose(file);
	return octets;
}

/* Return: group_slab() once it is stable: statistics and RCU's frees are late. */
static long group_slab_at_rest(void)
{
	long last = -1, octets = group_slab();
	int still = 0, i;

	for (i = 0; i < 100 && still < 5; i++) {
		usleep(200000);
		last = octets;
		octets = group_slab();
		still = octets == last ? still + 1 : 0;
	}
	return octets;
}

#define ACCOUNTED	800

/* Return: the memory of ACCOUNTED sockets that wait for listen(2), or -1. */
static long cost_of_private_data(u16 private_len)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1,
		.private_len = private_len,
	};
	long before = group_slab_at_rest(), after;
	int fd[ACCOUNTED], i;

	for (i = 0; i < ACCOUNTED; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (bind(fd[i], (void *)&addr, sizeof(addr)) ||
		    mpa_attach(fd[i]) || mpa_start_as(fd[i], &start))
			return -1;
	}
	after = group_slab_at_rest();
	for (i = 0; i < ACCOUNTED; i++)
		close(fd[i]);
	return after - before;
}

/* MPA_START's parameters are charged to the calling program. */
TEST_F(pair, private_data_is_on_the_programs_account)
{
	long none, most;

	if (group_enter())
		SKIP(return, "needs memory control groups: %m");
	none = cost_of_private_data(0);
	most = cost_of_private_data(MPA_PRIVATE_DATA_MAX);
	group_leave();
	ASSERT_LE(0, none);
	/* Statistics are late: expect only half of it. */
	EXPECT_LT(none + ACCOUNTED * MPA_PRIVATE_DATA_MAX / 2, most) {
		TH_LOG("%d sockets cost %ld octets, with private data %ld",
		       ACCOUNTED, none, most);
	}
}

TEST_HARNESS_MAIN
