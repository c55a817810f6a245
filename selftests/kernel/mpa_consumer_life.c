// SPDX-License-Identifier: GPL-2.0
/* include/net/mpa.h: attaching and detaching, also during traffic, and ULPDUs out of order. */

#include <sys/wait.h>

#include "mpa_consumer.h"
#include "mpa_debugfs.h"
#include "mpa_forge.h"

/* ---- attaching and detaching ---- */

TEST_F(consumer, attaches_to_what_it_may)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int other = user_open(), fd, listener;

	ASSERT_EQ(0, both_direct(self, variant->flags));
	EXPECT_EQ(EBUSY, user_attach(other, self->fd[1]));
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	EXPECT_EQ(EOPNOTSUPP, user_attach(other, fd));
	close(fd);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, bind(listener, (void *)&addr, sizeof(addr)));
	ASSERT_EQ(0, listen(listener, 5));
	EXPECT_EQ(EINVAL, user_attach(other, listener));
	close(listener);
	EXPECT_EQ(EBADF, user_attach(other, -1));
	EXPECT_EQ(ENOTCONN, user_call(other, UPCALLS_DETACH, NULL));
	close(other);
	EXPECT_TRUE(record_goes_in(self, 100));
}

/* The next reader, another user or the program, receives the remaining records. */
TEST_F(consumer, another_continues)
{
	int other = user_open(), mine = self->user;
	unsigned int i;

	ASSERT_EQ(0, both_direct(self, variant->flags));
	for (i = 1; i < 20; i++) {
		ASSERT_TRUE(record_goes_in(self, 100 * i));
		ASSERT_TRUE(record_goes_out(self, 100 * i));
		ASSERT_EQ(0, user_call(self->user, UPCALLS_DETACH, NULL));
		EXPECT_EQ(ENOTCONN, user_call(self->user, UPCALLS_DETACH, NULL));
		ASSERT_EQ(77, send(self->fd[0], record_of(77), 77, 0));
		if (i % 3 == 0) {
			EXPECT_EQ(77, recv(self->fd[1], self->buf, BUF, 0));
			ASSERT_EQ(50, send(self->fd[0], record_of(50), 50, 0));
		}
		self->user = self->user == mine ? other : mine;
		ASSERT_EQ(0, user_attach(self->user, self->fd[1]));
		ASSERT_TRUE(user_gets(self, i % 3 ? 77 : 50));
	}
	close(self->user == mine ? other : mine);
}

/* Releasing the socket without detaching ends the upcalls, too. */
TEST_F(consumer, releases_the_socket)
{
	ASSERT_EQ(0, both_direct(self, variant->flags));
	ASSERT_TRUE(record_goes_in(self, 100));
	close(self->fd[1]);
	self->fd[1] = -1;
	ASSERT_EQ(0, user_call(self->user, UPCALLS_RELEASE, NULL));
	EXPECT_EQ(0, recv(self->fd[0], self->buf, BUF, 0));
	EXPECT_EQ(ENOTCONN, user_call(self->user, UPCALLS_RESUME, NULL));
}

TEST_F(consumer, module_stays_while_attached)
{
	ASSERT_EQ(0, both_direct(self, variant->flags));
	EXPECT_NE(0, system("rmmod mpa 2>/dev/null"));
	EXPECT_NE(0, system("rmmod mpa_upcalls 2>/dev/null"));
	EXPECT_TRUE(record_goes_in(self, 100));
}

/* The segment with the last ULPDU and the FIN is lost: TCP retransmits it. */
TEST_F(consumer, released_while_segments_are_lost)
{
	ASSERT_EQ(0, user_connects(self));
	ASSERT_EQ(0, user_start(self->user, MPA_ROLE_DIRECT, variant->flags &
				MPA_START_MARKERS ? MPA_START_TX_MARKERS : 0));
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, variant->flags));
	ASSERT_EQ(0, lo_set(false));
	EXPECT_EQ(0, user_send(self->user, 1000, 0, MEMORY_KVEC, NULL));
	EXPECT_EQ(0, user_call(self->user, UPCALLS_RELEASE, NULL));
	usleep(20000);
	ASSERT_EQ(0, lo_set(true));
	EXPECT_TRUE(program_gets(self, 1000));
	EXPECT_EQ(0, recv(self->fd[0], self->buf, BUF, 0));
}

/* As above, but before MPA is started: TCP retransmits the FIN. */
TEST_F(consumer, released_while_the_fin_is_lost)
{
	ASSERT_EQ(0, user_connects(self));
	ASSERT_EQ(0, lo_set(false));
	EXPECT_EQ(0, user_call(self->user, UPCALLS_RELEASE, NULL));
	usleep(20000);
	ASSERT_EQ(0, lo_set(true));
	EXPECT_EQ(0, recv(self->fd[0], self->buf, BUF, 0));
}

/* The user sets sk_user_data. */
TEST_F(consumer, connects)
{
	ASSERT_EQ(0, user_connects(self));
	ASSERT_EQ(EINPROGRESS, user_start(self->user, MPA_ROLE_INITIATOR,
					  variant->flags));
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_RESPONDER,
			       variant->flags));
	EXPECT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
	EXPECT_TRUE(record_goes_out(self, 100));
	EXPECT_TRUE(record_goes_in(self, 100));
}

/*
 * Accept a child of a listening socket with MPA, and start it. @watched: the user has
 * its own callback in the listener. Return: whether it worked.
 */
static bool user_accepts(struct _test_data_consumer *self, unsigned int flags,
			 bool watched)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	if (bind(listener, (void *)&addr, sizeof(addr)) ||
	    mpa_attach(listener) ||
	    mpa_start(listener, MPA_ROLE_RESPONDER, flags) ||
	    (watched && user_call(self->user, UPCALLS_WATCH, &listener)) ||
	    listen(listener, 5) ||
	    getsockname(listener, (void *)&addr, &len))
		return false;
	hang_up(self->fd[0]);
	self->fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	patience(self->fd[0], 20);
	if (connect(self->fd[0], (void *)&addr, sizeof(addr)) ||
	    (watched &&
	     !upcall_of(self->user, UPCALL_CONNECTION, self->told)) ||
	    user_call(self->user, UPCALLS_ACCEPT, &listener) ||
	    mpa_attach(self->fd[0]) ||
	    mpa_start(self->fd[0], MPA_ROLE_INITIATOR, flags) ||
	    !upcall_of(self->user, UPCALL_STATE, self->told) ||
	    self->told->is.value != MPA_STATE_FULL)
		return false;
	close(listener);
	return record_goes_in(self, 100) && record_goes_out(self, 100);
}

TEST_F(consumer, accepts)
{
	EXPECT_TRUE(user_accepts(self, variant->flags, false));
}

TEST_F(consumer, accepts_from_a_socket_with_its_own_callback)
{
	EXPECT_TRUE(user_accepts(self, variant->flags, true));
}

/* shutdown(2) of a listening socket with MPA and the user's own sk_data_ready */
TEST_F(consumer, shuts_a_listening_socket_with_its_own_callback)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int other = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	ASSERT_EQ(0, bind(listener, (void *)&addr, sizeof(addr)));
	ASSERT_EQ(0, mpa_attach(listener));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_WATCH, &listener));
	ASSERT_EQ(0, listen(listener, 5));
	ASSERT_EQ(0, getsockname(listener, (void *)&addr, &len));
	EXPECT_EQ(0, shutdown(listener, SHUT_RDWR));
	EXPECT_EQ(-1, connect(other, (void *)&addr, sizeof(addr)));
	EXPECT_EQ(ECONNREFUSED, errno);
	close(other);
	close(listener);
}

static int user_port(struct _test_data_consumer *self)
{
	u16 port;

	return user_call(self->user, UPCALLS_LISTEN, &port) ? -1 : port;
}

/* Connect to a kernel listener, and wait until the connection can be accepted. */
static int comes_to(struct _test_data_consumer *self, int port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(port),
	};

	hang_up(self->fd[0]);
	self->fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	patience(self->fd[0], 20);
	return connect(self->fd[0], (void *)&addr, sizeof(addr));
}

TEST_F(consumer, accepts_from_the_kernel_s_own_socket)
{
	int his = -1;

	ASSERT_EQ(0, comes_to(self, user_port(self)));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_ACCEPT, &his));
	ASSERT_EQ(0, user_start(self->user, MPA_ROLE_RESPONDER,
				variant->flags));
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_INITIATOR, variant->flags));
	EXPECT_TRUE(upcall_of(self->user, UPCALL_STATE, self->told));
	EXPECT_TRUE(record_goes_in(self, 100));
	EXPECT_TRUE(record_goes_out(self, 100));
	/* Wait: the peer's delayed ACK would make TCP retransmit the FIN. */
	usleep(300000);
	ASSERT_EQ(0, lo_set(false));
	EXPECT_EQ(0, user_call(self->user, UPCALLS_RELEASE, NULL));
	usleep(20000);
	ASSERT_EQ(0, lo_set(true));
	EXPECT_EQ(0, recv(self->fd[0], self->buf, BUF, 0));
}

/* accept() fails: the connection is closed, and the next one is served. */
TEST_F(consumer, accepts_without_memory)
{
	int his = -1, port = user_port(self), err;
	unsigned int nth = 0;

	fail_nth_fd = open(FAIL_NTH, O_RDWR);
	if (fail_nth_fd < 0 || faults_set_up("failslab"))
		SKIP(return, "this kernel has no fault injection");
	do {
		ASSERT_EQ(0, comes_to(self, port));
		fault_arm(++nth);
		err = user_call(self->user, UPCALLS_ACCEPT, &his);
		if (!fault_disarm())
			break;
		ASSERT_TRUE(!err || no_memory(err)) TH_LOG("%u: %d", nth, err);
		/* If accept() failed before TCP was called, the child is still in the queue. */
		if (err)
			user_call(self->user, UPCALLS_ACCEPT, &(int){ -2 });
		user_call(self->user, UPCALLS_RELEASE, NULL);
		ASSERT_EQ(0, recv(self->fd[0], self->buf, BUF, 0));
	} while (nth < 1000);
	EXPECT_EQ(0, err);
	EXPECT_LT(3, nth);
	close(fail_nth_fd);
}

/* ---- out of order ---- */

/* A stream of records whose segments arrive in an order that the test chooses. */
struct stream {
	struct forger forger;
	u8 *octets;
	u32 start[20];
	unsigned int records;
};

static int stream_begin(struct _test_data_consumer *self, struct stream *stream)
{
	unsigned int i;
	int on = 1;

	stream->octets = self->buf;
	for (i = 0; i < 10; i++)
		stream->start[i + 1] = stream->start[i] +
			next_fpdu(&self->peer, 600 + i,
				  self->buf + stream->start[i]);
	return forger_open(&stream->forger, self->fd[0], self->fd[1]) ||
	       user_call(self->user, UPCALLS_PLACE, &on);
}

static int come(struct stream *stream, unsigned int first, unsigned int end)
{
	u32 at = stream->start[first];

	return forge(&stream->forger, at, stream->octets + at,
		     stream->start[end] - at, 0, 0);
}

/* Deliver records out of order to the user; no other upcall may occur. */
static bool user_places(struct _test_data_consumer *self,
			const struct stream *stream, unsigned int first,
			unsigned int end)
{
	unsigned int i;

	for (i = first; i < end; i++)
		if (!upcall_of(self->user, UPCALL_PLACE, self->told) ||
		    self->told->is.position != stream->start[i] ||
		    self->told->is.len != 600 + i ||
		    !record_good(self->told->octets, 600 + i))
			return false;
	return true;
}

TEST_F(consumer, ulpdus_out_of_order)
{
	struct stream stream = {};

	if (!variant->flags)
		SKIP(return, "needs markers");
	ASSERT_EQ(0, one_processor());
	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	ASSERT_EQ(0, stream_begin(self, &stream));
	ASSERT_EQ(0, come(&stream, 2, 5));
	EXPECT_TRUE(user_places(self, &stream, 2, 5));
	ASSERT_EQ(0, come(&stream, 7, 8));
	EXPECT_TRUE(user_places(self, &stream, 7, 8));
	ASSERT_EQ(0, come(&stream, 0, 2));
	EXPECT_TRUE(user_gets(self, 600));
	EXPECT_TRUE(user_gets(self, 601));
	EXPECT_EQ(1, self->told->is.order);
	ASSERT_TRUE(upcall_of(self->user, UPCALL_EDGE, self->told));
	EXPECT_EQ(stream.start[5], self->told->is.position);
	ASSERT_EQ(0, come(&stream, 5, 7));
	EXPECT_TRUE(user_gets(self, 605));
	EXPECT_EQ(5, self->told->is.order);
	EXPECT_TRUE(user_gets(self, 606));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_EDGE, self->told));
	EXPECT_EQ(stream.start[8], self->told->is.position);
	EXPECT_TRUE(no_upcall(self->user, UPCALL_ULPDU));
	close(stream.forger.raw);
}

/*
 * The FIN arrives with the records after a gap. When the gap closes, TCP reports the
 * FIN while the records are still in its queue.
 */
TEST_F(consumer, end_after_those_out_of_order)
{
	struct stream stream = {};
	u32 at;

	if (!variant->flags)
		SKIP(return, "needs markers");
	ASSERT_EQ(0, one_processor());
	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	ASSERT_EQ(0, stream_begin(self, &stream));
	ASSERT_EQ(0, come(&stream, 2, 5));
	at = stream.start[5];
	ASSERT_EQ(0, forge(&stream.forger, at, stream.octets + at,
			   stream.start[10] - at, TCP_FLAG_BITS_FIN, 0));
	EXPECT_TRUE(user_places(self, &stream, 2, 10));
	ASSERT_EQ(0, come(&stream, 0, 2));
	EXPECT_TRUE(user_gets(self, 600));
	EXPECT_TRUE(user_gets(self, 601));
	while (next_upcall(self->user, self->told, 2000)) {
		ASSERT_NE(UPCALL_FAILED, self->told->is.upcall);
		if (self->told->is.upcall == UPCALL_CLOSED)
			break;
	}
	EXPECT_EQ(UPCALL_CLOSED, self->told->is.upcall);
	close(stream.forger.raw);
}

/* Refused records are later delivered in order. */
TEST_F(consumer, refuses_those_out_of_order)
{
	struct upcall_how how = { .refuse = 1 };
	struct stream stream = {};
	unsigned int i;

	if (!variant->flags)
		SKIP(return, "needs markers");
	ASSERT_EQ(0, one_processor());
	ASSERT_EQ(0, user_how(self->user, how));
	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	ASSERT_EQ(0, stream_begin(self, &stream));
	ASSERT_EQ(0, come(&stream, 2, 5));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_ULPDU));
	ASSERT_EQ(0, come(&stream, 0, 2));
	for (i = 0; i < 5; i++) {
		EXPECT_TRUE(user_gets(self, 600 + i));
		EXPECT_EQ(i, self->told->is.order);
	}
	close(stream.forger.raw);
}

/* ---- under traffic ---- */

/* Both ends send, while the user attaches and detaches. */
TEST_F(consumer, attach_and_detach_under_traffic)
{
	const unsigned int cycles = 1000;
	unsigned int i, n, next = 0;
	int child;

	ASSERT_EQ(0, both_direct(self, variant->flags));
	child = fork();
	if (!child) {
		for (i = 0; ; i++)
			if (send(self->fd[0], record_of(500 + i % 1000),
				 500 + i % 1000, MSG_NOSIGNAL) < 0)
				_exit(0);
	}
	for (i = 0; i < cycles; i++) {
		if (i % 50 == 0)
			EXPECT_NE(0, system("rmmod mpa 2>/dev/null"));
		for (n = 0; n < 20 && next_upcall(self->user, self->told, 0);
		     n++) {
			if (self->told->is.upcall != UPCALL_ULPDU)
				continue;
			ASSERT_EQ(500 + next % 1000, self->told->is.len);
			ASSERT_EQ(next, self->told->is.order);
			next++;
		}
		user_send(self->user, 100, 0, MEMORY_KVEC, NULL);
		ASSERT_EQ(0, user_call(self->user, UPCALLS_DETACH, NULL));
		/* The records received so far stay valid. */
		ASSERT_EQ(0, user_attach(self->user, self->fd[1]));
	}
	EXPECT_LT(cycles, next);
	ASSERT_EQ(0, user_call(self->user, UPCALLS_DETACH, NULL));
	hang_up(self->fd[1]);
	close(self->fd[1]);
	self->fd[1] = -1;
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

TEST_HARNESS_MAIN
