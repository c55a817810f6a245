// SPDX-License-Identifier: GPL-2.0
/*
 * TCP has little or no memory: a send accepts a whole record or nothing, and accepted
 * records arrive.
 */

#include <linux/sock_diag.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"

#define TCP_MEM		"/proc/sys/net/ipv4/tcp_mem"

static ssize_t text_get(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, room - 1);

	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n;
}

static int text_put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), err;

	err = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

/* ---- TCP's own limit ---- */

#define SMALL	100	/* number of records of 1000 octets; longer ones follow */

FIXTURE(shortage)
{
	int hog[2];
	int fd[2];	/* fd[0], the initiator, has a large send buffer */
	unsigned int accepted;
	char usual[64];
	u8 buf[MPA_ULPDU_MAX];
};

FIXTURE_SETUP(shortage)
{
	int large = 1 << 22;

	self->accepted = 0;
	ASSERT_LT(0, text_get(TCP_MEM, self->usual, sizeof(self->usual)));
	ASSERT_EQ(0, tcp_pair(AF_INET, self->hog));
	ASSERT_EQ(0, tcp_pair_buf(AF_INET, self->fd, 4096));
	patience(self->fd[0], 30);
	patience(self->fd[1], 30);
	if (setsockopt(self->hog[0], SOL_SOCKET, SO_SNDBUFFORCE, &large,
		       sizeof(large)) ||
	    setsockopt(self->fd[0], SOL_SOCKET, SO_SNDBUFFORCE, &large,
		       sizeof(large)))
		SKIP(_exit(255), "needs root");
	ASSERT_EQ(0, mpa_started_pair(self->fd, 0, 0));
	/* Raise TCP's memory count, which is coarse, above any limit. */
	while (send(self->hog[0], record_row, sizeof(record_row),
		    MSG_DONTWAIT) > 0)
		;
}

FIXTURE_TEARDOWN(shortage)
{
	text_put(TCP_MEM, self->usual);
	hang_up(self->hog[0]);
	hang_up(self->hog[1]);
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
}

static size_t nth_len(unsigned int i)
{
	return i < SMALL ? 1000 : 50000;
}

/*
 * Send records until TCP has no memory. The peer does not read, and its ACKs free less
 * memory than a record needs.
 */
static bool fill_up(struct _test_data_shortage *self)
{
	for (;;) {
		size_t len = nth_len(self->accepted);

		record_fill(self->buf, len);
		if (send(self->fd[0], self->buf, len, MSG_DONTWAIT) != len)
			return errno == EAGAIN && self->accepted >= SMALL;
		if (++self->accepted == SMALL && text_put(TCP_MEM, "1 1 1"))
			return false;
	}
}

/* Check that all accepted octets arrive, then the end of stream. */
#define EXPECT_ALL_AND_THE_END() do {					\
	unsigned int i_;						\
									\
	for (i_ = 0; i_ < self->accepted; i_++) {			\
		size_t len_ = nth_len(i_);				\
									\
		ASSERT_EQ(len_, recv(self->fd[1], self->buf,		\
				     sizeof(self->buf), 0)) {		\
			TH_LOG("record %u of %u: %m", i_,		\
			       self->accepted);				\
		}							\
		ASSERT_TRUE(record_good(self->buf, len_));		\
	}								\
	EXPECT_EQ(0, recv(self->fd[1], self->buf, sizeof(self->buf), 0)); \
} while (0)

static u32 meminfo(int fd, int what)
{
	u32 info[SK_MEMINFO_VARS] = {};
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len);
	return info[what];
}

/* ---- startup frames ---- */

/*
 * Send octets of record_row with plain TCP until it has no memory. Try several times,
 * as the peer's delayed ACKs free some. Return: the number of octets.
 */
static size_t plain_octets_taken(int fd)
{
	size_t done = 100000;
	unsigned int tries;
	ssize_t n;

	if (send(fd, record_row, done, MSG_DONTWAIT) != done ||
	    text_put(TCP_MEM, "1 1 1"))
		return 0;
	for (tries = 0; tries < 4; tries++) {
		do {
			n = send(fd, record_row + done, 1000, MSG_DONTWAIT);
			if (n > 0)
				done += n;
			if (done + 1000 > sizeof(record_row))
				return 0;
		} while (n > 0);
		poll(NULL, 0, 100);
	}
	return done;
}

/* Startup frames are always sent: they are short, one in each direction. */
TEST_F(shortage, startup_needs_no_memory)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 1,
	};
	int fd[2], large = 1 << 22;
	u8 frame[FRAME_LEN], *seen;
	size_t len;

	ASSERT_EQ(0, tcp_pair_buf(AF_INET, fd, 4096));
	ASSERT_EQ(0, setsockopt(fd[0], SOL_SOCKET, SO_SNDBUFFORCE, &large,
				sizeof(large)));
	patience(fd[1], 20);
	ASSERT_EQ(0, mpa_attach(fd[0]));
	len = plain_octets_taken(fd[0]);
	ASSERT_NE(0, len);
	set_nonblock(fd[0]);
	ASSERT_EQ(-1, mpa_start_as(fd[0], &start));
	ASSERT_EQ(EINPROGRESS, errno);
	/* Let the peer receive. */
	ASSERT_EQ(0, text_put(TCP_MEM, self->usual));
	seen = calloc(1, len + sizeof(frame));
	EXPECT_EQ(len + sizeof(frame), read_all(fd[1], seen, len + sizeof(frame)));
	EXPECT_EQ(0, memcmp(seen, record_row, len));
	frame_put(frame, false, 0x40, 1, 0);
	EXPECT_EQ(0, memcmp(seen + len, frame, sizeof(frame)));
	free(seen);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* An unsent request's memory is freed before close(2). */
TEST_F(shortage, request_that_is_not_sent_leaves_the_errno)
{
	const int large = 1000000;
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 1, .timeout_ms = 200,
	};
	int fd[2];

	ASSERT_EQ(0, tcp_pair_buf(AF_INET, fd, 4096));
	ASSERT_EQ(0, setsockopt(fd[0], SOL_SOCKET, SO_SNDBUFFORCE, &large,
				sizeof(large)));
	ASSERT_EQ(0, mpa_attach(fd[0]));
	/* Fill its queue: with an empty one it would continue at the limit. */
	ASSERT_NE(0, plain_octets_taken(fd[0]));
	set_nonblock(fd[0]);
	ASSERT_EQ(-1, mpa_start_as(fd[0], &start));
	ASSERT_EQ(EINPROGRESS, errno);
	ASSERT_NE(0, POLLERR & poll_for(fd[0], 0, 20000));
	EXPECT_EQ(0, meminfo(fd[0], SK_MEMINFO_WMEM_QUEUED));
	shutdown(fd[0], SHUT_WR);
	EXPECT_EQ(ETIMEDOUT, so_error(fd[0]));
	EXPECT_EQ(MPA_STATE_FAILED, mpa_info(fd[0]).state);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* shutdown(2) neither waits nor drops octets. */
TEST_F(shortage, shutdown_needs_no_memory)
{
	ASSERT_TRUE(fill_up(self));
	/* The peer's ACKs free memory for one or two records. */
	EXPECT_GE(SMALL + 2, self->accepted);
	EXPECT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_EQ(0, so_error(self->fd[0]));
	EXPECT_EQ(-1, send(self->fd[0], "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	ASSERT_EQ(0, text_put(TCP_MEM, self->usual));
	EXPECT_ALL_AND_THE_END();
	/* The other direction still works. */
	EXPECT_TRUE(record_goes(self->fd[1], self->fd[0], 77));
}

/*
 * The send buffer grows by less than a record at a time. With any free octet TCP would
 * accept a whole record.
 */
TEST_F(shortage, raised_buffer_takes_no_more_at_the_limit)
{
	int sndbuf, i, before;

	ASSERT_TRUE(fill_up(self));
	before = self->accepted;
	for (i = 0; i < 10; i++) {
		sndbuf = meminfo(self->fd[0], SK_MEMINFO_WMEM_QUEUED) / 2 + 2;
		ASSERT_EQ(0, setsockopt(self->fd[0], SOL_SOCKET, SO_SNDBUFFORCE,
					&sndbuf, sizeof(sndbuf)));
		self->accepted += send(self->fd[0], self->buf, nth_len(SMALL),
				       MSG_DONTWAIT) > 0;
	}
	EXPECT_GE(before + 1, self->accepted);
	ASSERT_EQ(0, text_put(TCP_MEM, self->usual));
}

/*
 * At the limit close(2) resets a connection that has more than a packet in its queue,
 * as with TCP.
 */
TEST_F(shortage, close_at_the_limit_resets_as_tcp_does)
{
	ASSERT_TRUE(fill_up(self));
	close(self->fd[0]);
	self->fd[0] = -1;
	ASSERT_EQ(0, text_put(TCP_MEM, self->usual));
	while (recv(self->fd[1], self->buf, sizeof(self->buf), 0) > 0)
		;
	EXPECT_EQ(ECONNRESET, errno);
	/* Use plain TCP's limit: only its octets fill the hog. */
	ASSERT_EQ(0, text_put(TCP_MEM, "1 1 1"));
	close(self->hog[0]);
	self->hog[0] = -1;
	ASSERT_EQ(0, text_put(TCP_MEM, self->usual));
	while (recv(self->hog[1], self->buf, sizeof(self->buf), 0) > 0)
		;
	EXPECT_EQ(ECONNRESET, errno);
}

/*
 * At the limit a record is accepted if nothing else is queued, as no ACK would free
 * memory. It is sent at once.
 */
TEST_F(shortage, record_goes_at_the_limit_where_nothing_else_is_queued)
{
	static const size_t lens[] = { 3000, 8000, MPA_ULPDU_MAX };
	unsigned int i;
	int fd[2];

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		ASSERT_EQ(0, tcp_pair(AF_INET, fd));
		patience(fd[1], 20);
		ASSERT_EQ(0, mpa_started_pair(fd, 0, 0));
		ASSERT_TRUE(record_goes(fd[0], fd[1], 100));
		ASSERT_TRUE(acked(fd[0]));
		ASSERT_EQ(0, text_put(TCP_MEM, "1 1 1"));
		ASSERT_EQ(lens[i], send(fd[0], record_of(lens[i]), lens[i],
					MSG_DONTWAIT));
		EXPECT_EQ(lens[i], recv(fd[1], self->buf, sizeof(self->buf),
					0)) {
			TH_LOG("%zu octets: %m", lens[i]);
		}
		ASSERT_EQ(0, text_put(TCP_MEM, self->usual));
		hang_up(fd[0]);
		hang_up(fd[1]);
	}
}

/* Unread data cause a RST, and queued octets are lost, as with TCP. */
TEST_F(shortage, unread_records_reset)
{
	ASSERT_TRUE(fill_up(self));
	ASSERT_EQ(1000, recv(self->fd[1], self->buf, sizeof(self->buf), 0));
	ASSERT_EQ(5, send(self->fd[1], "lucky", 5, 0));
	ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
	close(self->fd[0]);
	self->fd[0] = -1;
	while (recv(self->fd[1], self->buf, sizeof(self->buf), 0) > 0)
		;
	EXPECT_EQ(ECONNRESET, errno);
}

/* ---- records that MSG_MORE leaves open ---- */

#define PIECE	4000	/* octets; the record has up to MPA_ULPDU_MAX */

/* Send pieces from octet @at on until one is refused. Return: the octets accepted so far. */
static size_t open_pieces(struct _test_data_shortage *self, size_t at)
{
	while (at + PIECE < MPA_ULPDU_MAX &&
	       send(self->fd[0], record_of(MPA_ULPDU_MAX) + at, PIECE,
		    MSG_DONTWAIT | MSG_MORE) == PIECE)
		at += PIECE;
	return at;
}

/* Send the rest of the record, from octet @at on; it must arrive whole. */
#define EXPECT_ENDS_WELL(at) do {					\
	const size_t at_ = at, left_ = MPA_ULPDU_MAX - at_;		\
									\
	ASSERT_EQ(left_, send(self->fd[0],				\
			      record_of(MPA_ULPDU_MAX) + at_, left_, 0)); \
	ASSERT_EQ(MPA_ULPDU_MAX, recv(self->fd[1], self->buf,		\
				      sizeof(self->buf), 0));		\
	EXPECT_TRUE(record_good(self->buf, MPA_ULPDU_MAX));		\
} while (0)

/* If TCP's queue is empty, no ACK will free memory, so the open record must continue. */
TEST_F(shortage, open_record_continues_where_nothing_else_is_queued)
{
	size_t at;

	ASSERT_TRUE(record_goes(self->fd[0], self->fd[1], 1000));
	ASSERT_TRUE(acked(self->fd[0]));
	ASSERT_EQ(0, text_put(TCP_MEM, "1 1 1"));
	at = open_pieces(self, 0);
	EXPECT_LE(MPA_ULPDU_MAX - PIECE, at) {
		TH_LOG("%zu octets, then: %m", at);
	}
	ASSERT_EQ(0, text_put(TCP_MEM, self->usual));
	EXPECT_ENDS_WELL(at);
}

/* Return: how often poll reports space but a send fails. */
static int spins(struct _test_data_shortage *self)
{
	const long until = now_ms() + 200;
	int i, n = 0;

	for (i = 0; i < 1000 && now_ms() < until; i++)
		if (poll_for(self->fd[0], POLLOUT, 10) == POLLOUT)
			n += send(self->fd[0], record_row, PIECE,
				  MSG_DONTWAIT | MSG_MORE) < 0;
	return n;
}

TEST_F(shortage, send_without_memory_is_reported_when_there_is_some)
{
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET };
	int epoll = epoll_create1(0), n;
	size_t at;

	/* Send more than the peer takes, so that TCP's queue is not empty. */
	for (n = 0; n < 10; n++)
		ASSERT_EQ(1000, send(self->fd[0], record_of(1000), 1000, 0));
	ASSERT_EQ(0, text_put(TCP_MEM, "1 1 1"));
	at = open_pieces(self, 0);
	ASSERT_GE(MPA_ULPDU_MAX - PIECE, at) {
		TH_LOG("it does not lack memory: %zu octets are taken", at);
	}
	EXPECT_EQ(EAGAIN, errno);
	n = spins(self);
	/* This may happen each time the work item fails. */
	EXPECT_GE(10, n) {
		TH_LOG("%d times POLLOUT and EAGAIN in 200 ms", n);
	}

	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->fd[0], &event));
	epoll_wait(epoll, &event, 1, 0);
	EXPECT_EQ(-1, send(self->fd[0], record_row, PIECE,
			   MSG_DONTWAIT | MSG_MORE));
	ASSERT_EQ(0, text_put(TCP_MEM, self->usual));
	EXPECT_EQ(1, epoll_wait(epoll, &event, 1, 20000)) {
		TH_LOG("there is memory again, and no edge comes");
	}
	for (n = 0; n < 10; n++)
		ASSERT_EQ(1000, recv(self->fd[1], self->buf,
				     sizeof(self->buf), 0));
	EXPECT_ENDS_WELL(at);
	close(epoll);
}

/* ---- waiting for send buffer space ---- */

/*
 * While memory is short, poll reports no space, though TCP has some. Once there is
 * memory, TCP has little space. MPA has to wake the waiting task: TCP does not know
 * about it.
 */
TEST_F(shortage, poll_reports_room_that_comes_after_the_memory)
{
	struct epoll_event event = { .events = EPOLLOUT };
	int epoll = epoll_create1(0), sndbuf;
	unsigned int i;

	ASSERT_TRUE(fill_up(self));
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->fd[0], &event));
	do {
		ASSERT_EQ(-1, send(self->fd[0], self->buf, nth_len(SMALL),
				   MSG_DONTWAIT));
	} while (epoll_wait(epoll, &event, 1, 0));
	/* Less than a third is free now. The kernel doubles SO_SNDBUF. */
	sndbuf = meminfo(self->fd[0], SK_MEMINFO_WMEM_QUEUED) / 8 * 5;
	ASSERT_EQ(0, setsockopt(self->fd[0], SOL_SOCKET, SO_SNDBUFFORCE,
				&sndbuf, sizeof(sndbuf)));
	ASSERT_EQ(0, text_put(TCP_MEM, self->usual));
	/* The work item runs meanwhile. */
	EXPECT_EQ(0, epoll_wait(epoll, &event, 1, 200));
	for (i = 0; i < self->accepted; i++)
		ASSERT_EQ(nth_len(i), recv(self->fd[1], self->buf,
					   sizeof(self->buf), 0));
	EXPECT_EQ(1, epoll_wait(epoll, &event, 1, 20000)) {
		TH_LOG("all has been read, and no event comes");
	}
	close(epoll);
}

/* ---- a limit of a control group ---- */

/*
 * Use a memory cgroup of version 1, which limits sockets separately. At memory.max of
 * version 2 the kernel kills the program that reads or sends.
 */
#define CGROUP		"/tmp/mpa-cgroup"
#define RECORDS		400

static size_t record_len(int i)
{
	return i % 5 ? 1 + i * 7919 % MPA_ULPDU_MAX : MPA_ULPDU_MAX;
}

static int cgroup_put(const char *group, const char *name, const char *text)
{
	char path[96];

	snprintf(path, sizeof(path), CGROUP "/%s/%s", group, name);
	return text_put(path, text);
}

/* Put this process, and the memory of its later sockets, into a cgroup. */
static int cgroup_enter(const char *group, const char *limit)
{
	char path[64], pid[16];

	snprintf(path, sizeof(path), CGROUP "/%s", group);
	snprintf(pid, sizeof(pid), "%d", getpid());
	mkdir(path, 0755);
	return cgroup_put(group, "memory.kmem.tcp.limit_in_bytes", limit) |
	       cgroup_put(group, "cgroup.procs", pid);
}

static long cgroup_number(const char *group, const char *file)
{
	char path[64], text[32];

	snprintf(path, sizeof(path), CGROUP "/%s/memory.kmem.tcp.%s", group,
		 file);
	return text_get(path, text, sizeof(text)) > 0 ? atol(text) : -1;
}

/* Return: how often the limit was reached. */
static long cgroup_failed(const char *group)
{
	return cgroup_number(group, "failcnt");
}

/*
 * Wait until the cgroup's sockets are freed. Otherwise the kernel, once all such
 * cgroups are removed, would subtract their memory from another counter, and warn.
 */
static bool cgroup_idle(const char *group)
{
	const long until = now_ms() + 60000;

	while (cgroup_number(group, "usage_in_bytes") && now_ms() < until)
		usleep(10000);
	return !cgroup_number(group, "usage_in_bytes");
}

static u8 octets[MPA_ULPDU_MAX];

static int cgroup_sends(const struct sockaddr_in *addr, unsigned int flags)
{
	int fd, i, large = 1 << 22;
	u8 end;

	if (cgroup_enter("tx", "300000"))
		return 1;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof(large));
	if (connect(fd, (struct sockaddr *)addr, sizeof(*addr)) ||
	    mpa_attach(fd) || mpa_start(fd, MPA_ROLE_INITIATOR, flags))
		return 2;
	for (i = 0; i < RECORDS; i++) {
		record_fill(octets, record_len(i));
		if (send(fd, octets, record_len(i), MSG_NOSIGNAL) !=
		    record_len(i))
			return 4;
	}
	shutdown(fd, SHUT_WR);
	return recv(fd, &end, 1, 0) ? 5 : 0;
}

static int cgroup_receives(int listener, unsigned int flags)
{
	int fd, i, large = 1 << 22;
	ssize_t n;

	if (cgroup_enter("rx", "100000"))
		return 1;
	setsockopt(listener, SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof(large));
	fd = accept(listener, NULL, NULL);
	if (fd < 0 || mpa_attach(fd) ||
	    mpa_start(fd, MPA_ROLE_RESPONDER, flags))
		return 2;
	for (i = 0; i < RECORDS; i++) {
		/* Sometimes let octets wait. */
		if (i % 50 == 0)
			poll(NULL, 0, 50);
		n = recv(fd, octets, sizeof(octets), 0);
		if (n != record_len(i) || !record_good(octets, n)) {
			fprintf(stderr, "# record %d: expected %zu octets, seen %zd (%m)\n",
				i, record_len(i), n);
			return 4;
		}
	}
	return recv(fd, octets, 1, 0) ? 5 : 0;
}

TEST(records_continue_at_the_limit_of_a_cgroup)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(addr);
	unsigned int flags;
	int listener, how;
	pid_t pid[2];

	mkdir(CGROUP, 0755);
	if (mount("none", CGROUP, "cgroup", 0, "memory") ||
	    access(CGROUP "/memory.kmem.tcp.failcnt", R_OK)) {
		umount(CGROUP);
		SKIP(return, "no memory control groups, or not for TCP: %m");
	}
	listener = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, bind(listener, (struct sockaddr *)&addr, len));
	ASSERT_EQ(0, listen(listener, 1));
	ASSERT_EQ(0, getsockname(listener, (struct sockaddr *)&addr, &len));
	for (flags = 0; flags <= MPA_START_MARKERS;
	     flags += MPA_START_MARKERS) {
		pid[0] = fork();
		if (!pid[0])
			_exit(cgroup_sends(&addr, flags));
		pid[1] = fork();
		if (!pid[1])
			_exit(cgroup_receives(listener, flags));
		ASSERT_EQ(pid[0], waitpid(pid[0], &how, 0));
		EXPECT_EQ(0, WEXITSTATUS(how));
		EXPECT_TRUE(WIFEXITED(how));
		ASSERT_EQ(pid[1], waitpid(pid[1], &how, 0));
		EXPECT_EQ(0, WEXITSTATUS(how));
		EXPECT_TRUE(WIFEXITED(how));
	}
	TH_LOG("the limit was met %ld and %ld times", cgroup_failed("tx"),
	       cgroup_failed("rx"));
	EXPECT_LT(0, cgroup_failed("tx"));
	EXPECT_LT(0, cgroup_failed("rx"));
	close(listener);
	EXPECT_TRUE(cgroup_idle("tx"));
	EXPECT_TRUE(cgroup_idle("rx"));
	rmdir(CGROUP "/tx");
	rmdir(CGROUP "/rx");
	umount(CGROUP);
	rmdir(CGROUP);
}

TEST_HARNESS_MAIN
