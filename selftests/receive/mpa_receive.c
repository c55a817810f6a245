// SPDX-License-Identifier: GPL-2.0
/* Receiving: all calls that read, wakeups, small buffers, end of stream, errors. */

#include <ctype.h>
#include <dirent.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "mpa_harness.h"
#include "mpa_receive.h"

/* ---- the calls that read ---- */

TEST_F(rx, recvmmsg_takes_a_record_for_each_message)
{
	struct timespec timeout = { .tv_sec = 20 };
	struct mmsghdr msgs[4] = {};
	struct iovec iov[4];
	int i;

	for (i = 0; i < 4; i++) {
		iov[i] = (struct iovec){ self->buf + 1000 * i, 1000 };
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	SEND(10, 1500, 12);
	EXPECT_EQ(4, recvmmsg(self->fd, msgs, 4, MSG_WAITFORONE, &timeout));
	EXPECT_EQ(10, msgs[0].msg_len);
	EXPECT_EQ(1000, msgs[1].msg_len);
	EXPECT_EQ(0, msgs[1].msg_hdr.msg_flags & MSG_EOR);
	EXPECT_EQ(500, msgs[2].msg_len);
	EXPECT_EQ(MSG_EOR, msgs[2].msg_hdr.msg_flags & MSG_EOR);
	EXPECT_EQ(12, msgs[3].msg_len);
	SEND(13);
	EXPECT_EQ(1, recvmmsg(self->fd, msgs, 4, MSG_WAITFORONE, &timeout));
	EXPECT_EQ(13, msgs[0].msg_len);
}

TEST_F(rx, readv_fills_one_buffer_after_the_other)
{
	struct iovec iov[3] = {
		{ self->buf, 1 }, { self->buf + 1, 600 }, { self->buf + 601, 9 },
	};

	SEND(700, 5);
	EXPECT_EQ(610, readv(self->fd, iov, 3));
	EXPECT_EQ(90, read(self->fd, self->buf + 610, BUF));
	EXPECT_TRUE(record_good(self->buf, 700));
	EXPECT_EQ(5, readv(self->fd, iov, 3));
}

TEST_F(rx, splice_to_a_file)
{
	char name[] = "/tmp/mpa-XXXXXX";
	int file = mkstemp(name), pipefd[2];
	ssize_t n;

	ASSERT_LE(0, file);
	unlink(name);
	ASSERT_EQ(0, pipe(pipefd));
	SEND(3000, 10);
	n = splice(self->fd, NULL, pipefd[1], NULL, 65536, 0);
	EXPECT_EQ(3000, n);
	EXPECT_EQ(3000, splice(pipefd[0], NULL, file, NULL, 65536, 0));
	n = splice(self->fd, NULL, pipefd[1], NULL, 4, 0);
	EXPECT_EQ(4, n);
	n = splice(self->fd, NULL, pipefd[1], NULL, 65536, 0);
	EXPECT_EQ(6, n);
	EXPECT_EQ(10, splice(pipefd[0], NULL, file, NULL, 65536, 0));
	set_nonblock(self->fd);
	EXPECT_EQ(-1, splice(self->fd, NULL, pipefd[1], NULL, 65536, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(3010, pread(file, self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 3000));
	EXPECT_TRUE(record_good(self->buf + 3000, 10));
	shutdown(self->peer.fd, SHUT_WR);
	EXPECT_EQ(POLLIN | POLLRDHUP,
		  poll_for(self->fd, POLLIN | POLLRDHUP, 20000));
	EXPECT_EQ(0, splice(self->fd, NULL, pipefd[1], NULL, 65536, 0));
	close(file);
	close(pipefd[0]);
	close(pipefd[1]);
}

TEST_F(rx, splice_of_a_bad_record)
{
	size_t n = next_fpdu(&self->peer, 3000, self->fpdu);
	int pipefd[2], waiting = -1;

	if (variant->flags & MPA_START_NO_CRC)
		return;
	ASSERT_EQ(0, pipe(pipefd));
	self->fpdu[n - 1] ^= 1;
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	EXPECT_EQ(-1, splice(self->fd, NULL, pipefd[1], NULL, 65536, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(0, ioctl(pipefd[0], FIONREAD, &waiting));
	EXPECT_EQ(0, waiting);
	close(pipefd[0]);
	close(pipefd[1]);
}

struct uring {
	int fd;
	struct io_uring_params params;
	void *rings;
	struct io_uring_sqe *sqe;
};

static int uring_open(struct uring *uring)
{
	memset(uring, 0, sizeof(*uring));
	uring->fd = syscall(__NR_io_uring_setup, 1, &uring->params);
	if (uring->fd < 0)
		return -1;
	/* One mapping for both rings: IORING_FEAT_SINGLE_MMAP, since 5.4. */
	uring->rings = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED,
			    uring->fd, IORING_OFF_SQ_RING);
	uring->sqe = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
			  uring->fd, IORING_OFF_SQES);
	return uring->rings == MAP_FAILED || uring->sqe == MAP_FAILED ? -1 : 0;
}

/* Submit an operation, and wait for it. Return: its result. */
static int uring_do(struct uring *uring, const struct io_uring_sqe *sqe)
{
	const struct io_cqring_offsets *cq = &uring->params.cq_off;
	const struct io_sqring_offsets *sq = &uring->params.sq_off;
	u32 *tail = uring->rings + sq->tail, *array = uring->rings + sq->array;
	struct io_uring_cqe *cqes = uring->rings + cq->cqes;
	u32 *head = uring->rings + cq->head;
	int res;

	*uring->sqe = *sqe;
	array[0] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(__NR_io_uring_enter, uring->fd, 1, 1,
		    IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return -1000;
	res = cqes[*head & *(u32 *)(uring->rings + cq->ring_mask)].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return res;
}

static void *send_later(void *arg)
{
	usleep(20000);
	peer_send_record(arg, 1234);
	return NULL;
}

TEST_F(rx, io_uring_reads_records)
{
	struct io_uring_sqe sqe = { .fd = self->fd };
	struct iovec iov = { self->buf, BUF };
	char control[CMSG_SPACE(16)];
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct uring uring;
	pthread_t thread;

	if (uring_open(&uring))
		SKIP(return, "io_uring_setup: %s", strerror(errno));
	SEND(100, 200, 300, 400, 500);

	sqe.opcode = IORING_OP_RECV;
	sqe.addr = (uintptr_t)self->buf;
	sqe.len = 60;
	EXPECT_EQ(60, uring_do(&uring, &sqe));
	sqe.addr = (uintptr_t)self->buf + 60;
	sqe.len = BUF - 60;
	EXPECT_EQ(40, uring_do(&uring, &sqe));
	EXPECT_TRUE(record_good(self->buf, 100));

	sqe.opcode = IORING_OP_READ;
	sqe.addr = (uintptr_t)self->buf;
	sqe.len = BUF;
	EXPECT_EQ(200, uring_do(&uring, &sqe));
	EXPECT_TRUE(record_good(self->buf, 200));

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	sqe.opcode = IORING_OP_RECVMSG;
	sqe.addr = (uintptr_t)&msg;
	sqe.len = 1;
	EXPECT_EQ(1200, uring_do(&uring, &sqe));
	memset(self->got, 0, sizeof(*self->got));
	got_control(self->got, &msg);
	EXPECT_BATCH(300, 400, 500);

	/* This operation has to wait. */
	sqe.opcode = IORING_OP_RECV;
	sqe.addr = (uintptr_t)self->buf;
	sqe.len = BUF;
	pthread_create(&thread, NULL, send_later, &self->peer);
	EXPECT_EQ(1234, uring_do(&uring, &sqe));
	EXPECT_TRUE(record_good(self->buf, 1234));
	pthread_join(thread, NULL);

	shutdown(self->peer.fd, SHUT_WR);
	EXPECT_EQ(0, uring_do(&uring, &sqe));
	close(uring.fd);
}

TEST_F(rx, waitall_and_lowat_do_not_join_records)
{
	socklen_t len = sizeof(int);
	int lowat = 1000;

	EXPECT_EQ(-1, setsockopt(self->fd, SOL_SOCKET, SO_RCVLOWAT, &lowat,
				 sizeof(lowat)));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(0, getsockopt(self->fd, SOL_SOCKET, SO_RCVLOWAT, &lowat,
				&len));
	EXPECT_EQ(1, lowat);
	SEND(10, 20);
	EXPECT_EQ(10, recv(self->fd, self->buf, BUF, MSG_WAITALL));
	EXPECT_EQ(20, recv(self->fd, self->buf, BUF, MSG_WAITALL));
}

/* ---- poll and wakeups ---- */

TEST_F_TIMEOUT(rx, epoll_edge_triggered_misses_no_record, 120)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epfd = epoll_create1(0), seen = 0, events = 0, status;
	pid_t pid;

	set_nonblock(self->fd);
	ASSERT_EQ(0, epoll_ctl(epfd, EPOLL_CTL_ADD, self->fd, &event));
	pid = fork();
	if (!pid) {
		int i;

		for (i = 0; i < 500; i++) {
			size_t n = next_fpdu(&self->peer, 1 + i * 7,
					     self->fpdu);

			if (write_all(self->peer.fd, self->fpdu, n / 2))
				_exit(1);
			sched_yield();
			if (write_all(self->peer.fd, self->fpdu + n / 2,
				      n - n / 2))
				_exit(1);
		}
		_exit(0);
	}
	while (seen < 500) {
		ASSERT_EQ(1, epoll_wait(epfd, &event, 1, 20000)) {
			TH_LOG("%d records seen", seen);
		}
		events++;
		while (recv(self->fd, self->buf, BUF, 0) == 1 + seen * 7)
			seen++;
		ASSERT_EQ(EAGAIN, errno);
	}
	EXPECT_GE(1001, events);
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	close(epfd);
}

struct reader {
	int fd;
	int records;
	size_t len;
	long switches;
	bool good;
};

static void *reader(void *arg)
{
	u8 *buf = malloc(MPA_ULPDU_MAX);
	struct rusage before, after;
	struct reader *r = arg;
	int i;

	getrusage(RUSAGE_THREAD, &before);
	r->good = true;
	for (i = 0; i < r->records; i++)
		if (recv(r->fd, buf, MPA_ULPDU_MAX, 0) != (ssize_t)r->len ||
		    !record_good(buf, r->len))
			r->good = false;
	getrusage(RUSAGE_THREAD, &after);
	r->switches = after.ru_nvcsw - before.ru_nvcsw;
	free(buf);
	return NULL;
}

/* A reader sleeps until the record is complete, whatever the number of segments. */
TEST_F_TIMEOUT(rx, reader_is_woken_once_a_record, 120)
{
	struct reader r = { .fd = self->fd, .records = 3, .len = 900 };
	pthread_t thread;
	int i;

	pthread_create(&thread, NULL, reader, &r);
	for (i = 0; i < r.records; i++) {
		u64 start = self->peer.tx_position;
		size_t n, at;

		n = next_fpdu(&self->peer, r.len, self->fpdu);
		for (at = 0; at < n; at++) {
			ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu + at,
					       1));
			/* Wait: a task that was woken may run. */
			ASSERT_TRUE(arrived(self->fd, start + at + 1));
			if (at % 8 == 0)
				usleep(1);
		}
	}
	pthread_join(thread, NULL);
	EXPECT_TRUE(r.good);
	/*
	 * The reader may also wait for the socket lock, or for memory. With one wakeup
	 * per segment it would switch 112 to 900 times a record.
	 */
	EXPECT_GE(20 * r.records, r.switches);
}

TEST_F_TIMEOUT(rx, small_receive_buffer_wakes_the_reader_as_seldom, 120)
{
	struct reader r = { .records = 4, .len = MPA_ULPDU_MAX };
	int fd[2], i, small = 1;
	struct peer peer;
	pthread_t thread;
	long start;

	ASSERT_EQ(0, tcp_pair_buf(AF_INET, fd, 1));
	setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	ASSERT_EQ(0, receive_directly(fd[1], &peer, fd[0], variant->flags));
	patience(fd[1], 60);
	r.fd = fd[1];
	start = now_ms();
	pthread_create(&thread, NULL, reader, &r);
	for (i = 0; i < r.records; i++)
		ASSERT_EQ(0, peer_send_record(&peer, MPA_ULPDU_MAX));
	pthread_join(thread, NULL);
	EXPECT_TRUE(r.good);
	/* The buffer takes some 1000 octets: it is emptied 60 times. */
	EXPECT_GE(8 * r.records, r.switches);
	/* It did not wait for TCP's window probes, 200 ms each: that would take 48 s. */
	EXPECT_GE(24000, now_ms() - start);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/*
 * An FPDU without a ULPDU (RFC 6581 section 9.2) precedes a record larger than the
 * buffer, while no task is in recv().
 */
TEST_F(rx, large_record_after_an_rtr_becomes_readable)
{
	static const u8 depths[4] = { 0xc0, 1, 0, 1 };	/* flags A and B */
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 2,
		.flags = MPA_START_RTR_FPDU |
			 (variant->flags & MPA_START_MARKERS),
	};
	u8 frame[FRAME_LEN + 4];
	struct peer peer = {};
	pid_t pid;
	int fd[2];
	size_t n;

	ASSERT_EQ(0, tcp_pair_buf(AF_INET, fd, 1));
	frame_put(frame, false, 0x50, 2, 4);
	memcpy(frame + FRAME_LEN, depths, 4);
	ASSERT_EQ(0, mpa_attach(fd[1]));
	ASSERT_EQ(0, mpa_start_as(fd[1], &start));
	ASSERT_EQ(0, write_all(fd[0], frame, sizeof(frame)));
	ASSERT_EQ(sizeof(frame), read_all(fd[0], frame, sizeof(frame)));
	peer.tx_markers = frame[16] & 0x80;
	n = next_fpdu(&peer, 0, self->fpdu);
	n += next_fpdu(&peer, 50000, self->fpdu + n);
	pid = fork();
	if (!pid)
		_exit(write_all(fd[0], self->fpdu, n) ? 1 : 0);
	ASSERT_EQ(POLLIN, poll_for(fd[1], POLLIN, 20000));
	EXPECT_EQ(50000, recv(fd[1], self->buf, BUF, MSG_DONTWAIT));
	EXPECT_TRUE(record_good(self->buf, 50000));
	EXPECT_EQ(1, mpa_info(fd[1]).rx_ulpdus);
	waitpid(pid, NULL, 0);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/*
 * The window may end inside ULPDU_Length: a single octet of a length must not keep
 * the buffer occupied.
 */
TEST_F_TIMEOUT(rx, window_that_ends_in_a_length_opens_again, 120)
{
	const int len = 100, records = 112;
	size_t first, n;
	int fd[2], i;

	for (first = 1; first < 140; first++) {
		struct peer peer;

		ASSERT_EQ(0, tcp_pair_buf(AF_INET, fd, 4096));
		ASSERT_EQ(0, receive_directly(fd[1], &peer, fd[0],
					      variant->flags));
		patience(fd[1], 20);
		for (n = i = 0; i < records; i++)
			n += next_fpdu(&peer, len, self->fpdu + n);
		ASSERT_EQ(0, write_all(fd[0], self->fpdu, first));
		ASSERT_EQ(0, write_all(fd[0], self->fpdu + first, n - first));
		for (i = 0; i < records; i++)
			ASSERT_EQ(len, recv(fd[1], self->buf, BUF, 0))
				TH_LOG("record %d after a first segment of %zu octets: %m",
				       i, first);
		hang_up(fd[0]);
		hang_up(fd[1]);
	}
}

/* Return: the time that unbound kworkers have run, in 1/100 s. */
static long worker_ticks(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	long sum = 0;

	while (proc && (entry = readdir(proc))) {
		static const char *const format =
			"%*d (%63[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu";
		unsigned long user, system;
		char path[300], comm[64];
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		file = isdigit(entry->d_name[0]) ? fopen(path, "r") : NULL;
		if (!file)
			continue;
		if (fscanf(file, format, comm, &user, &system) == 3 &&
		    !strncmp(comm, "kworker/u", 9))
			sum += user + system;
		fclose(file);
	}
	if (proc)
		closedir(proc);
	return sum;
}

/*
 * A FIN follows a part of an FPDU, and the window stays closed: the work item must not
 * run repeatedly. One period without a run is sufficient.
 */
TEST_F(rx, end_inside_an_fpdu_in_a_small_buffer_is_left_in_peace)
{
	int fd[2], i, off = 0;
	bool quiet = false;
	struct peer peer;
	size_t n;

	ASSERT_EQ(0, tcp_pair_buf(AF_INET, fd, 4096));
	ASSERT_EQ(0, receive_directly(fd[1], &peer, fd[0], variant->flags));
	/* Without an ACK the octets and the FIN stay in separate skbs. */
	setsockopt(fd[1], SOL_TCP, TCP_QUICKACK, &off, sizeof(off));
	/* More than half of the window is in use. */
	n = next_fpdu(&peer, 1500, self->fpdu);
	next_fpdu(&peer, 20000, self->fpdu + n);
	ASSERT_EQ(0, write_all(fd[0], self->fpdu, n + 1000));
	shutdown(fd[0], SHUT_WR);
	ASSERT_NE(0, POLLRDHUP & poll_for(fd[1], POLLRDHUP, 5000));
	EXPECT_EQ(1500, recv(fd[1], self->buf, BUF, 0));
	for (i = 0; i < 50 && !quiet; i++) {
		long before = worker_ticks();

		usleep(200000);
		quiet = worker_ticks() - before <= 5;
	}
	EXPECT_TRUE(quiet) TH_LOG("the work item runs and runs");
	EXPECT_EQ(-1, recv(fd[1], self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* ---- end of stream and errors ---- */

TEST_F(rx, fin_is_visible_while_records_wait)
{
	int events = POLLIN | POLLRDHUP;

	SEND(10, 20);
	shutdown(self->peer.fd, SHUT_WR);
	ASSERT_NE(0, POLLRDHUP & poll_for(self->fd, POLLRDHUP, 20000));
	EXPECT_EQ(events, poll_for(self->fd, events, 0));
	EXPECT_EQ(10, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(events, poll_for(self->fd, events, 0));
	EXPECT_EQ(20, inq(self->fd));
	EXPECT_EQ(20, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(events, poll_for(self->fd, events, 0));
	EXPECT_EQ(0, inq(self->fd));
	EXPECT_EQ(0, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);
}

TEST_F(rx, batch_at_the_end_of_the_stream)
{
	size_t n;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(10, 20);
	n = next_fpdu(&self->peer, 30, self->fpdu);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n - 3));
	shutdown(self->peer.fd, SHUT_WR);
	ASSERT_NE(0, POLLRDHUP & poll_for(self->fd, POLLRDHUP, 20000));
	EXPECT_EQ(30, RECEIVE(BUF, 0));
	EXPECT_BATCH(10, 20);
	EXPECT_EQ(-1, RECEIVE(BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(MPA_ERR_TCP, mpa_info(self->fd).error);
}

/* Records that precede the connection's error are delivered first. */
TEST_F(rx, error_is_not_swallowed_by_records)
{
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(100, 200);
	hang_up(self->peer.fd);
	self->peer.fd = -1;
	ASSERT_NE(0, POLLHUP & poll_for(self->fd, POLLHUP, 20000));
	EXPECT_EQ(40, RECEIVE(40, 0));
	EXPECT_EQ(60, RECEIVE(BUF, 0));
	EXPECT_EQ(200, RECEIVE(BUF, 0));
	EXPECT_EQ(-1, RECEIVE(BUF, 0));
	EXPECT_EQ(ECONNRESET, errno);
	/* No FIN was received, so this is not the end of the stream. */
	EXPECT_EQ(-1, RECEIVE(BUF, 0));
	EXPECT_EQ(ENOTCONN, errno);
}

TEST_F(rx, shutdown_of_our_receiving_half)
{
	SEND(10);
	ASSERT_EQ(0, shutdown(self->fd, SHUT_RD));
	EXPECT_EQ(10, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(0, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(4, send(self->fd, "next", 4, MSG_NOSIGNAL));
	EXPECT_LT(4, recv(self->peer.fd, self->buf, BUF, 0));
}

TEST_F(rx, records_arrive_on_a_half_closed_connection)
{
	ASSERT_EQ(4, send(self->fd, "last", 4, MSG_NOSIGNAL));
	ASSERT_EQ(0, shutdown(self->fd, SHUT_WR));
	EXPECT_LT(4, read_all(self->peer.fd, self->buf, BUF));
	SEND(10, 64768);
	EXPECT_EQ(10, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(64768, recv(self->fd, self->buf, BUF, 0));
	shutdown(self->peer.fd, SHUT_WR);
	EXPECT_EQ(0, recv(self->fd, self->buf, BUF, 0));
}

TEST_F(rx, waiting_reader_gets_the_end)
{
	struct reader r = { .fd = self->fd, .records = 1, .len = 0 };
	pthread_t thread;

	pthread_create(&thread, NULL, reader, &r);
	usleep(10000);
	shutdown(self->peer.fd, SHUT_WR);
	pthread_join(thread, NULL);
	EXPECT_TRUE(r.good);
}

TEST_HARNESS_MAIN
