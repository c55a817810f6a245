// SPDX-License-Identifier: GPL-2.0
/*
 * Limits of sending: many pieces, closed connections, and calls that begin before MPA
 * starts.
 */

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_pair.h"

/* This option number once allowed sendfile without copies. */
#define OPTION_RESERVED		10

static int option_put(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? errno : 0;
}

static int option_get(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int value = -12345;

	getsockopt(fd, level, name, &value, &len);
	return value;
}

/* ---- many pieces ---- */

/* The task also sends on this connection: both use its page fragment. */
struct other {
	int fd[2];
	u32 octets;
};

static int other_open(struct other *other)
{
	other->octets = 0;
	return tcp_pair(AF_INET, other->fd);
}

static int other_send(struct other *other)
{
	char buf[4096];

	if (send(other->fd[0], "x", 1, 0) != 1)
		return -1;
	if (++other->octets % sizeof(buf))
		return 0;
	return read_all(other->fd[1], buf, sizeof(buf)) == sizeof(buf) ? 0 : -1;
}

static void other_close(struct other *other)
{
	hang_up(other->fd[0]);
	hang_up(other->fd[1]);
}

/* Whether @len octets, sent in pieces of @piece octets, arrive as one record. */
static bool pieces_go(struct _test_data_pair *self, struct other *other,
		      size_t piece, size_t len)
{
	static u8 seen[MPA_ULPDU_MAX + 1];
	const u8 *record = record_of(len);
	size_t at, n;
	ssize_t got;

	for (at = 0; at < len; at += n) {
		n = len - at < piece ? len - at : piece;
		got = send(self->fd[0], record + at, n, MSG_DONTWAIT |
			   (at + n < len ? MSG_MORE : 0));
		if (got != n) {
			fprintf(stderr, "# piece of %zu at %zu: expected %zu, seen %zd (%m)\n",
				piece, at, n, got);
			return false;
		}
		if (other_send(other))
			return false;
	}
	got = recv(self->fd[1], seen, sizeof(seen), 0);
	if (got == len && record_good(seen, len))
		return true;
	fprintf(stderr, "# pieces of %zu: expected a record of %zu, seen %zd\n",
		piece, len, got);
	return false;
}

static const size_t pieces[] = { 1, 3, 17, 64, 1000, 3999, 4097, 30000 };

TEST_F_TIMEOUT(pair, record_of_any_number_of_pieces, 300)
{
	struct other other;
	int i, markers;

	for (markers = 0; markers < 2; markers++) {
		self->start[1].flags = markers ? MPA_START_MARKERS : 0;
		ASSERT_EQ(0, negotiate(self));
		ASSERT_EQ(0, other_open(&other));
		for (i = 0; i < ARRAY_SIZE(pieces); i++) {
			size_t piece = pieces[i];

			/* With the shortest pieces a longer record would take long. */
			EXPECT_TRUE(pieces_go(self, &other, piece,
					      4000 * piece < MPA_ULPDU_MAX ?
					      4000 * piece : MPA_ULPDU_MAX));
		}
		other_close(&other);
	}
}

/* Each short record is built at the present position of the task's page fragment. */
TEST_F(pair, batch_of_any_number_of_records)
{
	struct other other;
	u8 seen[200];
	int i;

	ASSERT_EQ(0, negotiate(self));
	ASSERT_EQ(0, other_open(&other));
	for (i = 0; i < 200; i++) {
		ASSERT_EQ(100, send(self->fd[0], record_of(100), 100,
				    i < 199 ? MSG_MORE | MSG_EOR : 0));
		ASSERT_EQ(0, other_send(&other));
	}
	for (i = 0; i < 200; i++) {
		ASSERT_EQ(100, recv(self->fd[1], seen, sizeof(seen), 0));
		ASSERT_TRUE(record_good(seen, 100));
	}
	other_close(&other);
}

/* Whether octets sent to fd[0] arrive at fd[1] as records. */
static bool stream_arrives(int fd, const u8 *octets, size_t len)
{
	static u8 seen[MPA_ULPDU_MAX + 1];
	size_t at = 0;
	ssize_t n;

	while (at < len) {
		n = recv(fd, seen, sizeof(seen), 0);
		if (n <= 0 || at + n > len || memcmp(seen, octets + at, n)) {
			fprintf(stderr, "# at %zu of %zu: recv() said %zd (%m)\n",
				at, len, n);
			return false;
		}
		at += n;
	}
	return true;
}

TEST_F(pair, record_of_spliced_pieces)
{
	const size_t len = 200 * 64;
	int pipes[2], on = 1, i;

	ASSERT_EQ(0, negotiate(self));
	setsockopt(self->fd[0], SOL_MPA, OPTION_RESERVED, &on, sizeof(on));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_MPA, MPA_SEGMENT, len));
	/* Each piece has its own page of the pipe. */
	ASSERT_EQ(0, pipe2(pipes, O_DIRECT));
	ASSERT_LE(len, fcntl(pipes[1], F_SETPIPE_SZ, 1 << 20));
	for (i = 0; i < 200; i++)
		ASSERT_EQ(64, write(pipes[1], record_row + i * 64, 64));
	set_nonblock(self->fd[0]);
	ASSERT_EQ(len, splice(pipes[0], NULL, self->fd[0], NULL, len, 0))
		TH_LOG("%m");
	EXPECT_TRUE(stream_arrives(self->fd[1], record_row, len));
	close(pipes[0]);
	close(pipes[1]);
}

static int row_file(size_t len)
{
	char path[] = "/tmp/mpa_limits.XXXXXX";
	int fd = mkstemp(path);

	unlink(path);
	return fd >= 0 && write(fd, record_row, len) == len ? fd : -1;
}

TEST_F(pair, sendfile_at_an_odd_offset)
{
	const size_t len = 200000;
	int file = row_file(len), on = 1;
	off_t at = 4095;

	ASSERT_LE(0, file);
	ASSERT_EQ(0, negotiate(self));
	setsockopt(self->fd[0], SOL_MPA, OPTION_RESERVED, &on, sizeof(on));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_MPA, MPA_SEGMENT,
				MPA_ULPDU_MAX));
	set_nonblock(self->fd[0]);
	ASSERT_EQ(MPA_ULPDU_MAX, sendfile(self->fd[0], file, &at,
					  MPA_ULPDU_MAX))
		TH_LOG("%m");
	EXPECT_TRUE(stream_arrives(self->fd[1], record_row + 4095,
				   MPA_ULPDU_MAX));
	close(file);
}

/* ---- a call that waits ---- */

struct sender {
	pthread_t thread;
	int fd;
	int file;
	pid_t tid;
	const struct mpa_start *start;
	const u8 *octets;
	size_t len;
	ssize_t done;
	int err;
};

static void *sender_run(void *arg)
{
	struct sender *s = arg;
	off_t at = 0;
	u8 octet;

	__atomic_store_n(&s->tid, gettid(), __ATOMIC_RELEASE);
	if (s->start)
		s->done = mpa_start_as(s->fd, s->start) ? errno : 0;
	else if (s->octets)
		s->done = send(s->fd, s->octets, s->len, MSG_NOSIGNAL);
	else if (s->len)
		s->done = sendfile(s->fd, s->file, &at, s->len);
	else
		s->done = recv(s->fd, &octet, 1, 0);
	s->err = errno;
	return NULL;
}

/* MPA must not start: the send's octets would be mixed with FPDUs. */
TEST_F(pair, start_while_a_send_waits_since_before_attaching)
{
	struct mpa_start direct = { .role = MPA_ROLE_DIRECT, .revision = 1 };
	struct sender s = { .octets = record_row, .len = 1 << 17 };
	u8 *seen = malloc(1 << 17);

	ASSERT_EQ(0, fresh(self, false, true));
	/* Use a small buffer, so that the send waits. */
	ASSERT_EQ(0, option_put(self->fd[0], SOL_SOCKET, SO_SNDBUF, 4096));
	ASSERT_EQ(0, option_put(self->fd[1], SOL_SOCKET, SO_RCVBUF, 4096));
	s.fd = self->fd[0];
	pthread_create(&s.thread, NULL, sender_run, &s);
	ASSERT_TRUE(asleep(&s.tid));
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &direct));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(self->fd[0]).state);

	ASSERT_EQ(s.len, read_all(self->fd[1], seen, s.len));
	EXPECT_EQ(0, memcmp(seen, record_row, s.len));
	pthread_join(s.thread, NULL);
	EXPECT_EQ(s.len, s.done);
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_TRUE(records_go(self));
	free(seen);
}

/* Markers are negotiated while the call waits. */
TEST_F(pair, sendfile_begun_during_startup_has_markers)
{
	struct peer peer = { .tx_markers = false };
	struct sender s = { .len = 5000 };
	u8 frame[FRAME_LEN], *wire;
	int on = 1;
	size_t n;

	s.file = row_file(s.len);
	ASSERT_LE(0, s.file);
	ASSERT_EQ(FRAME_LEN, ask(self));
	setsockopt(self->fd[0], SOL_MPA, OPTION_RESERVED, &on, sizeof(on));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_MPA, MPA_SEGMENT, s.len));
	s.fd = self->fd[0];
	pthread_create(&s.thread, NULL, sender_run, &s);
	ASSERT_TRUE(asleep(&s.tid));

	/* flags M and C */
	frame_put(frame, true, 0xc0, 1, 0);
	ASSERT_EQ(0, write_all(self->fd[1], frame, sizeof(frame)));
	pthread_join(s.thread, NULL);
	ASSERT_EQ(s.len, s.done);

	peer.tx_markers = true;
	wire = malloc(3 * s.len);
	n = peer_fpdu(&peer, record_row, s.len, wire);
	ASSERT_EQ(n, read_all(self->fd[1], wire + n, n));
	EXPECT_EQ(0, memcmp(wire, wire + n, n))
		TH_LOG("the FPDU has no markers, or other ones");
	free(wire);
	close(s.file);
}

/* ---- after a startup that failed ---- */

static int connect_anew(struct _test_data_pair *self)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	if (bind(listener, (struct sockaddr *)&addr, len) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) ||
	    connect(self->fd[0], &none, sizeof(none)) ||
	    connect(self->fd[0], (struct sockaddr *)&addr, len)) {
		hang_up(listener);
		return -1;
	}
	hang_up(self->fd[1]);
	self->fd[1] = accept(listener, NULL, NULL);
	close(listener);
	patience(self->fd[1], 20);
	return self->fd[1] < 0 ? -1 : 0;
}

TEST_F(pair, rejected_connects_anew)
{
	u8 frame[FRAME_LEN];

	ASSERT_EQ(FRAME_LEN, ask(self));
	/* flags C and R */
	frame_put(frame, true, 0x60, 1, 0);
	ASSERT_EQ(ECONNREFUSED, answer(self, frame, sizeof(frame)));
	ASSERT_EQ(0, connect_anew(self));
	ASSERT_EQ(0, mpa_attach(self->fd[1]));
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0])) TH_LOG("%m");
	EXPECT_TRUE(records_go(self)) TH_LOG("%m");
}

/*
 * shutdown(2) has ended startup, and so MPA. The socket may not be usable for another
 * connection; if it is, sending works.
 */
TEST_F(pair, shutdown_in_startup_ends_nothing_later)
{
	u8 frame[FRAME_LEN];

	ASSERT_EQ(FRAME_LEN, ask(self));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	frame_put(frame, true, 0x60, 1, 0);
	write_all(self->fd[1], frame, sizeof(frame));
	ASSERT_NE(0, poll_for(self->fd[0], POLLIN, 20000));
	ASSERT_NE(0, so_error(self->fd[0]));
	if (connect_anew(self)) {
		EXPECT_EQ(EOPNOTSUPP, errno);
		return;
	}
	ASSERT_EQ(0, mpa_attach(self->fd[1]));
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0])) TH_LOG("%m");
	EXPECT_TRUE(records_go(self)) TH_LOG("%m");
}

/* ---- each error once ---- */

/*
 * While a batch is queued, the peer resets the connection. Then a call or the work item
 * passes the batch to TCP.
 */
enum hand_over { NOTHING, SIOCOUTQ_ASKED, OPTION_SET, SHUT_DOWN, WORK_ITEM };

static int reset_with_a_batch(struct _test_data_pair *self, enum hand_over how)
{
	int octets;

	if (negotiate(self) ||
	    send(self->fd[0], record_of(100), 100, MSG_MORE | MSG_EOR) != 100)
		return -1;
	hang_up(self->fd[1]);
	self->fd[1] = -1;
	if (!(poll_for(self->fd[0], 0, 20000) & POLLERR))
		return -1;
	switch (how) {
	case NOTHING:
		return 0;
	case SIOCOUTQ_ASKED:
		return ioctl(self->fd[0], SIOCOUTQ, &octets);
	case OPTION_SET:
		return option_put(self->fd[0], SOL_TCP, TCP_NODELAY, 1);
	case SHUT_DOWN:
		/* The result is ENOTCONN: the connection is gone. */
		shutdown(self->fd[0], SHUT_WR);
		return 0;
	case WORK_ITEM:
		/* The work item passes the batch to TCP after 5 ms. */
		poll(NULL, 0, 50);
		return 0;
	}
	return -1;
}

#define FOR_EACH_HAND_OVER(how) \
	for ((how) = NOTHING; (how) <= WORK_ITEM; (how)++)

TEST_F(pair, reset_is_seen_by_send)
{
	enum hand_over how;

	FOR_EACH_HAND_OVER(how) {
		ASSERT_EQ(0, reset_with_a_batch(self, how));
		EXPECT_EQ(POLLERR | POLLHUP,
			  poll_for(self->fd[0], 0, 0)) TH_LOG("way %d", how);
		EXPECT_EQ(-1, send(self->fd[0], "x", 1, MSG_NOSIGNAL));
		EXPECT_EQ(ECONNRESET, errno) TH_LOG("way %d: %m", how);
		EXPECT_EQ(-1, send(self->fd[0], "x", 1, MSG_NOSIGNAL));
		EXPECT_EQ(EPIPE, errno) TH_LOG("way %d: %m", how);
		EXPECT_EQ(0, so_error(self->fd[0]));
	}
}

TEST_F(pair, reset_is_seen_by_so_error)
{
	enum hand_over how;

	FOR_EACH_HAND_OVER(how) {
		ASSERT_EQ(0, reset_with_a_batch(self, how));
		EXPECT_EQ(ECONNRESET, so_error(self->fd[0]))
			TH_LOG("way %d", how);
		EXPECT_EQ(0, so_error(self->fd[0]));
		EXPECT_EQ(-1, send(self->fd[0], "x", 1, MSG_NOSIGNAL));
		EXPECT_EQ(EPIPE, errno) TH_LOG("way %d: %m", how);
	}
}

TEST_F(pair, reset_is_seen_by_recv)
{
	enum hand_over how;
	char octet;

	FOR_EACH_HAND_OVER(how) {
		ASSERT_EQ(0, reset_with_a_batch(self, how));
		EXPECT_EQ(-1, recv(self->fd[0], &octet, 1, 0));
		EXPECT_EQ(ECONNRESET, errno) TH_LOG("way %d: %m", how);
		EXPECT_EQ(0, so_error(self->fd[0]));
	}
}

/* No FIN was received: recv() fails, even after SO_ERROR was read. */
TEST_F(pair, reset_is_no_end_of_stream)
{
	char octet;

	ASSERT_EQ(0, reset_with_a_batch(self, NOTHING));
	ASSERT_EQ(ECONNRESET, so_error(self->fd[0]));
	EXPECT_EQ(-1, recv(self->fd[0], &octet, 1, 0))
		TH_LOG("recv() said end of stream");
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd[0]).error);
}

/*
 * The peer sends a FIN, and later a RST, because it closes with unread octets. @said:
 * set to the results of recv() and SO_ERROR.
 */
static int end_then_reset(const int *fd, int said[4])
{
	char buf[8];

	if (send(fd[1], "ask", 3, 0) != 3 || shutdown(fd[1], SHUT_WR) ||
	    recv(fd[0], buf, sizeof(buf), 0) != 3 ||
	    send(fd[0], "answer", 6, 0) != 6 ||
	    poll_for(fd[1], POLLIN, 20000) != POLLIN)
		return -1;
	hang_up(fd[1]);
	if (!tcp_closed(fd[0]))
		return -1;
	said[0] = recv(fd[0], buf, sizeof(buf), 0) < 0 ? errno : 0;
	said[1] = recv(fd[0], buf, sizeof(buf), 0) < 0 ? errno : 0;
	said[2] = so_error(fd[0]);
	said[3] = so_error(fd[0]);
	return 0;
}

TEST_F(pair, reset_after_the_end_of_the_stream_is_reported_as_tcp_does)
{
	int plain[4], mpa[4];
	unsigned int i;

	ASSERT_EQ(0, fresh(self, false, false));
	ASSERT_EQ(0, end_then_reset(self->fd, plain));
	self->fd[1] = -1;
	ASSERT_EQ(0, fresh(self, true, true));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
	ASSERT_EQ(0, mpa_start(self->fd[1], MPA_ROLE_DIRECT, 0));
	ASSERT_EQ(0, end_then_reset(self->fd, mpa));
	self->fd[1] = -1;
	for (i = 0; i < 4; i++)
		EXPECT_EQ(plain[i], mpa[i]) TH_LOG("call %u", i);
	EXPECT_EQ(EPIPE, plain[2]);
}

/* ---- the result of startup is one error, a reset after it another ---- */

/*
 * While a thread waits in MPA_START, the reply ends startup with an error. The peer
 * resets the connection before the thread runs again.
 */
static int reset_after_a_reply(struct _test_data_pair *self, const u8 *reply,
			       size_t len, struct sender *s)
{
	size_t request = FRAME_LEN +
			 (self->start[0].flags & MPA_START_ENHANCED ? 4 : 0);

	if (fresh(self, true, false))
		return -1;
	s->fd = self->fd[0];
	s->tid = 0;
	s->start = &self->start[0];
	pthread_create(&s->thread, NULL, sender_run, s);
	if (read_all(self->fd[1], self->buf, request) != request ||
	    !asleep(&s->tid) || real_time(true) ||
	    write_all(self->fd[1], reply, len) ||
	    !poll_for(self->fd[0], POLLOUT, 20000))
		return -1;
	hang_up(self->fd[1]);
	self->fd[1] = -1;
	real_time(false);
	pthread_join(s->thread, NULL);
	return poll_for(self->fd[0], 0, 20000) & POLLHUP ? 0 : -1;
}

/* Return: the errno of this call, which is the first to report the reset. */
static int told_by(int fd, int call)
{
	char octet;

	switch (call) {
	case 0:
		return so_error(fd);
	case 1:
		return recv(fd, &octet, 1, 0) < 0 ? errno : 0;
	default:
		return send(fd, "x", 1, MSG_NOSIGNAL) < 0 ? errno : 0;
	}
}

TEST_F(pair, reset_after_a_reply_that_fails_startup_is_reported_once)
{
	u8 reply[FRAME_LEN + 4];
	struct sender s = {};
	int call, rejected;
	size_t len;

	ASSERT_EQ(0, one_processor());
	self->start[0].revision = 2;
	self->start[0].flags = MPA_START_ENHANCED;
	self->start[0].ird = 8;
	self->start[0].ord = 4;
	for (rejected = 0; rejected < 2; rejected++) {
		/* The reply's ORD is too large, or it is a rejection (R). */
		len = enhanced_frame(reply, true, rejected ? 0x60 : 0x40, 0, 4,
				     rejected ? 4 : 9);
		for (call = 0; call < 3; call++) {
			ASSERT_EQ(0, reset_after_a_reply(self, reply, len,
							 &s)) {
				TH_LOG("%m");
			}
			EXPECT_EQ(rejected ? ECONNREFUSED : ENOBUFS, s.done);
			EXPECT_EQ(ECONNRESET, told_by(self->fd[0], call)) {
				TH_LOG("rejected %d, call %d", rejected, call);
			}
			EXPECT_EQ(0, so_error(self->fd[0]));
		}
	}
}

/* Each call that waits for startup returns. */
TEST_F(pair, all_waiters_are_woken_by_a_shutdown_in_startup)
{
	struct sender s[4] = {};
	unsigned int i;

	ASSERT_EQ(FRAME_LEN, ask(self));
	for (i = 0; i < ARRAY_SIZE(s); i++) {
		s[i].fd = self->fd[0];
		if (i % 2) {
			s[i].octets = record_row;
			s[i].len = 1;
		}
		pthread_create(&s[i].thread, NULL, sender_run, &s[i]);
		ASSERT_TRUE(asleep(&s[i].tid));
	}
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	for (i = 0; i < ARRAY_SIZE(s); i++) {
		pthread_join(s[i].thread, NULL);
		EXPECT_EQ(-1, s[i].done);
		EXPECT_EQ(ECONNABORTED, s[i].err) {
			TH_LOG("%s, number %u: %s", i % 2 ? "send" : "recv", i,
			       strerror(s[i].err));
		}
	}
	EXPECT_EQ(0, so_error(self->fd[0]));
	EXPECT_EQ(MPA_STATE_FAILED, mpa_info(self->fd[0]).state);
}

/* ---- options whose values are not available ---- */

#define CALLS		256	/* more than an 8-bit count can hold */

struct corker {
	pthread_t thread;
	int fd;
	const int *value;
	int err;
};

static void *corker_run(void *arg)
{
	struct corker *c = arg;

	c->err = setsockopt(c->fd, SOL_TCP, TCP_CORK, c->value,
			    sizeof(*c->value)) ? errno : 0;
	return NULL;
}

/* Map a page that is not available before page_serve(). Return: a userfaultfd, or -1. */
static int page_late(const int **page)
{
	struct uffdio_api api = { .api = UFFD_API };
	size_t len = getpagesize();
	struct uffdio_register late = {
		.range.len = len, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (faults < 0)
		return -1;
	*page = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	late.range.start = (unsigned long)*page;
	if (ioctl(faults, UFFDIO_API, &api) ||
	    ioctl(faults, UFFDIO_REGISTER, &late)) {
		close(faults);
		return -1;
	}
	return faults;
}

/* Wait until @tasks tasks wait for the page. */
static bool page_awaited(int faults, unsigned int tasks)
{
	struct uffd_msg msg;

	while (tasks--)
		if (poll_for(faults, POLLIN, 20000) != POLLIN ||
		    read(faults, &msg, sizeof(msg)) != sizeof(msg))
			return false;
	return true;
}

static int page_serve(int faults, const int *page, int value)
{
	size_t len = getpagesize();
	int *source = aligned_alloc(len, len);
	struct uffdio_copy copy = {
		.dst = (unsigned long)page, .src = (unsigned long)source,
		.len = len,
	};
	int err;

	*source = value;
	err = ioctl(faults, UFFDIO_COPY, &copy);
	free(source);
	return err;
}

/*
 * MPA does not change TCP options while a program sets them. So it keeps the TCP_CORK
 * that it has set to stay within the peer's window.
 */
TEST_F(pair, cork_is_kept_that_many_set_at_once)
{
	struct corker *corkers = calloc(CALLS, sizeof(*corkers));
	unsigned int i, sent = 0, got = 0;
	const int *page;
	int faults;

	faults = page_late(&page);
	if (faults < 0)
		SKIP(return, "no userfaultfd: %m");
	ASSERT_EQ(0, negotiate(self));
	for (i = 0; i < CALLS; i++) {
		corkers[i].fd = self->fd[0];
		corkers[i].value = page;
		ASSERT_EQ(0, pthread_create(&corkers[i].thread, NULL,
					    corker_run, corkers + i));
	}
	ASSERT_TRUE(page_awaited(faults, CALLS));
	while (send(self->fd[0], record_of(1000), 1000, MSG_DONTWAIT) == 1000)
		sent++;
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, page_serve(faults, page, 1));
	for (i = 0; i < CALLS; i++) {
		pthread_join(corkers[i].thread, NULL);
		EXPECT_EQ(0, corkers[i].err);
	}
	EXPECT_EQ(1, option_get(self->fd[0], SOL_TCP, TCP_CORK));
	EXPECT_EQ(1, option_get(self->fd[0], SOL_TCP, TCP_NODELAY));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_TCP, TCP_CORK, 0));
	while (got < sent && recv(self->fd[1], self->buf, sizeof(self->buf),
				  0) == 1000)
		got++;
	EXPECT_EQ(sent, got);
	EXPECT_EQ(0, option_get(self->fd[0], SOL_TCP, TCP_CORK));
	close(faults);
	free(corkers);
}

/* ---- the send buffer's size ---- */

struct asker {
	pthread_t thread;
	int fd;
	int expected;
	int seen;
	bool stop;
};

static void *asker_run(void *arg)
{
	struct asker *a = arg;

	while (!__atomic_load_n(&a->stop, __ATOMIC_ACQUIRE)) {
		int value = option_get(a->fd, SOL_SOCKET, SO_SNDBUF);

		if (value != a->expected)
			a->seen = value;
	}
	return NULL;
}

/* Only two processors can find a defect here. */
TEST_F(pair, send_buffer_is_as_large_as_was_set)
{
	struct asker a = {};
	int i;

	ASSERT_EQ(0, negotiate(self));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_SOCKET, SO_SNDBUF, 100000));
	a.expected = option_get(self->fd[0], SOL_SOCKET, SO_SNDBUF);
	a.fd = self->fd[0];
	pthread_create(&a.thread, NULL, asker_run, &a);
	for (i = 0; i < 500 && !a.seen; i++)
		ASSERT_TRUE(record_goes(self->fd[0], self->fd[1], 1000));
	__atomic_store_n(&a.stop, true, __ATOMIC_RELEASE);
	pthread_join(a.thread, NULL);
	EXPECT_EQ(0, a.seen)
		TH_LOG("SO_SNDBUF: expected %d", a.expected);
}

TEST_HARNESS_MAIN
