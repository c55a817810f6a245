// SPDX-License-Identifier: GPL-2.0
/* Sending without send(2): sendfile, splice, vmsplice, io_uring. */

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_send.h"

/* Create a file that has the stream's octets. */
static int row_file(size_t len)
{
	int fd = memfd_create("row", 0);
	size_t n = 0;

	while (fd >= 0 && n < len) {
		ssize_t done = pwrite(fd, stream_row + n, len - n, n);

		if (done <= 0)
			return -1;
		n += done;
	}
	return fd;
}

/* Send the next octets from the file. Return: their number. */
static ssize_t put_file(struct _test_data_send *self, int file, size_t len)
{
	loff_t at = self->sent;
	ssize_t n = sendfile(self->fd[0], file, &at, len);

	if (n > 0)
		self->sent += n;
	return n;
}

static ssize_t put_pipe(struct _test_data_send *self, int pipe, size_t len,
			int flags)
{
	ssize_t n = splice(pipe, NULL, self->fd[0], NULL, len, flags);

	if (n > 0)
		self->sent += n;
	return n;
}

/* Receive all octets sent, cut in any way; no record may exceed a segment. */
static bool taken_all(struct _test_data_send *self)
{
	while (self->seen < self->sent) {
		u64 pos = self->pos;
		ssize_t n;

		n = take(self, 0);
		if (n < 0 || self->pos - pos > self->emss) {
			fprintf(stderr, "# a record of %zd octets (%s)\n", n,
				n < 0 ? strerror(errno) : "too long");
			return false;
		}
	}
	return true;
}

/* ---- sendfile ---- */

TEST_F(send, sendfile_fills_segments)
{
	static const size_t sizes[] = {
		1, 1000, 4095, 4096, 4097, 1442, 12288, 65536, 100001, 3, 70000,
	};
	int file = row_file(STREAM_PERIOD), i;

	ASSERT_LE(0, file);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_EQ(sizes[i], put_file(self, file, sizes[i]));
		/* On Linux 6.1 a record may end after each 16 pages of the file. */
		EXPECT_TRUE(sizes[i] < 61440 ? taken_filling(self, sizes[i]) :
					       taken_all(self)) {
			TH_LOG("%zu octets", sizes[i]);
		}
		ASSERT_EQ(self->sent, self->seen);
	}
	EXPECT_NO_MORE();
	close(file);
}

/*
 * Software checksums and segmentation copy all pages that may change. MPA's pages do
 * not change, so they must not be copied.
 */
TEST_F(send, pages_of_our_own_are_nobody_elses)
{
	int file = row_file(STREAM_PERIOD), i;
	char args[64];

	if (!getenv("MPA_KERNEL"))
		SKIP(return, "needs kmod/mpa_kernel_user.ko");
	ASSERT_LE(0, file);
	for (i = 0; i < 3; i++) {
		const struct connecting how = { .rcvbuf = 10000 };
		ssize_t n;

		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &how));
		ASSERT_EQ(0, segment(self, i == 1 ? MPA_SEGMENT_OFF : 0));
		set_nonblock(self->fd[0]);
		/* Send beyond the closing of the peer's window. */
		do {
			loff_t at = 0;

			n = i < 2 ? send(self->fd[0], stream_row, 20000,
					 0) :
				    sendfile(self->fd[0], file, &at, 20000);
		} while (n > 0);
		ASSERT_EQ(EAGAIN, errno);
		snprintf(args, sizeof(args), "how=own fd=%d", self->fd[0]);
		EXPECT_TRUE(kernel_user(args)) {
			TH_LOG("%s", i < 2 ? "send" : "sendfile");
		}
	}
	close(file);
}

TEST_F(send, sendfile_is_cut_as_segment_says)
{
	static const int sizes[] = { 1000, 64, 4096, 30000, 1 };
	int file = row_file(STREAM_PERIOD), i;

	ASSERT_LE(0, file);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i] > 1 ? 40001 : 100;

		ASSERT_EQ(0, segment(self, sizes[i]));
		ASSERT_EQ(len, put_file(self, file, len));
		EXPECT_TRUE(taken_cut(self, len, sizes[i])) {
			TH_LOG("MPA_SEGMENT %d", sizes[i]);
		}
		ASSERT_EQ(self->sent, self->seen);
	}
	EXPECT_NO_MORE();
	close(file);
}

/* The file ends before the count: its last octets are sent nevertheless. */
TEST_F(send, sendfile_beyond_the_end_of_the_file)
{
	static const size_t sizes[] = { 1, 100, 4096, 5000, 100001 };
	int i, n;

	for (n = MPA_SEGMENT_OFF; n < 1; n++) {
		for (i = 0; i < ARRAY_SIZE(sizes); i++) {
			const struct connecting usual = {};
			int file = row_file(sizes[i]);

			ASSERT_LE(0, file);
			ASSERT_EQ(0, reconnect(self, variant->family,
					       variant->marked, &usual));
			ASSERT_EQ(0, segment(self, n < 0 ? n : 900));
			ASSERT_EQ(sizes[i], put_file(self, file, 1 << 20));
			EXPECT_TRUE(taken_all(self)) {
				TH_LOG("a file of %zu octets", sizes[i]);
			}
			EXPECT_EQ(0, put_file(self, file, 1 << 20));
			EXPECT_NO_MORE();
			/* No record is left open. */
			ASSERT_EQ(10, put(self, 10, 0));
			EXPECT_RECORDS(10);
			close(file);
		}
	}
}

/* Create a file of @pages pages, one unreadable. Return: -1 if that is impossible. */
static int broken_file(int pages, int broken)
{
	int file = row_file(4096 * pages);
	pid_t pid;
	char c;

	if (file < 0)
		return -1;
	/* The kernel may kill the owner of such a page. */
	pid = fork();
	if (!pid) {
		u8 *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
				file, 4096 * broken);

		if (page == MAP_FAILED)
			_exit(1);
		(void)__atomic_load_n(page, __ATOMIC_RELAXED);
		madvise(page, 4096, MADV_HWPOISON);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	if (pread(file, &c, 1, 4096 * broken) < 0)
		return file;
	close(file);
	return -1;
}

/* MSG_MORE announces the rest of the file, which is never sent. */
TEST_F(send, file_that_cannot_be_read_to_its_end)
{
	int file = broken_file(40, 20), off;

	if (file < 0)
		SKIP(return, "no page can be taken away");
	for (off = 0; off < 2; off++) {
		const struct connecting usual = {};
		ssize_t n;

		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &usual));
		ASSERT_EQ(0, segment(self, off ? MPA_SEGMENT_OFF : 1000));
		n = put_file(self, file, 40 * 4096);
		ASSERT_LT(0, n);
		EXPECT_TRUE(taken_all(self)) {
			TH_LOG("%zd octets accepted", n);
		}
		ASSERT_EQ(5, put(self, 5, 0));
		EXPECT_RECORDS(5);
		EXPECT_NO_MORE();
	}
	close(file);
}

/*
 * Octets that fit a segment become one record, even if they exceed the formula's
 * MULPDU, and even if the end was unknown.
 */
TEST_F(send, end_of_a_file_makes_no_record_too_long)
{
	u32 len = option_get(self->fd[0], SOL_MPA, MPA_MULPDU), full;
	const struct connecting usual = {};
	int file;

	do {
		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &usual));
		ASSERT_EQ(0, option_put(self->fd[0], SOL_MPA, MPA_OVERSIZE, 0));
		ASSERT_EQ(10, put(self, 10, 0));
		EXPECT_RECORDS(10);
		full = ulpdu_filling(self->pos, self->emss / 4 * 4,
				     self->marked);
		file = row_file(10 + len);
		ASSERT_LE(0, file);
		ASSERT_EQ(len, put_file(self, file, 1 << 20));
		/* The record is not left open. */
		ASSERT_EQ(2, mpa_info(self->fd[0]).tx_ulpdus) {
			TH_LOG("a file of %u octets", len);
		}
		EXPECT_RECORDS(len);
		ASSERT_EQ(10, put(self, 10, 0));
		EXPECT_RECORDS(10);
		EXPECT_NO_MORE();
		close(file);
	} while (len++ < full);
}

/* The file is longer than the buffers, and than each read of it by the kernel. */
TEST_F_TIMEOUT(send, sendfile_of_much, 120)
{
	static const int kinds[] = { MPA_SEGMENT_OFF, 1000, MPA_ULPDU_MAX };
	int file = row_file(STREAM_PERIOD), i, k;
	struct reader reader;

	ASSERT_LE(0, file);
	for (i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
		const struct connecting how = {
			.sndbuf = i % 2 ? 10000 : 0,
			.rcvbuf = i % 2 ? 10000 : 0,
		};

		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &how));
		ASSERT_EQ(0, reader_start(&reader, self->fd[1]));
		ASSERT_EQ(0, segment(self, kinds[i / 2]));
		for (k = 0; k < 2; k++) {
			/* Send more than one period of the stream. */
			self->sent %= STREAM_PERIOD;
			while (self->sent < STREAM_PERIOD) {
				ASSERT_LT(0, put_file(self, file,
						      STREAM_PERIOD -
						      self->sent));
			}
		}
		EXPECT_READER_HAS(&reader, 2 * STREAM_PERIOD);
		EXPECT_GE(i < 2 ? self->emss : kinds[i / 2], reader.longest);
	}
	close(file);
}

TEST_F_TIMEOUT(send, nonblocking_sendfile_loses_nothing, 120)
{
	static const int kinds[] = { MPA_SEGMENT_OFF, 1000, 20000 };
	int file = row_file(STREAM_PERIOD), i, full;

	ASSERT_LE(0, file);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct connecting how = {
			.sndbuf = 20000, .rcvbuf = 20000,
		};

		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &how));
		ASSERT_EQ(0, segment(self, kinds[i]));
		set_nonblock(self->fd[0]);
		full = 0;
		while (self->sent < STREAM_PERIOD) {
			ssize_t n = put_file(self, file,
					     STREAM_PERIOD - self->sent);

			if (n > 0)
				continue;
			ASSERT_EQ(EAGAIN, errno);
			full++;
			/* All octets may have arrived, but are not acknowledged yet. */
			if (self->seen < self->sent) {
				ASSERT_LT(0, take(self, 0));
			} else {
				ASSERT_EQ(POLLOUT, poll_for(self->fd[0],
							    POLLOUT, 20000));
			}
		}
		EXPECT_LT(0, full);
		while (self->seen < self->sent)
			ASSERT_LT(0, take(self, 0));
		EXPECT_NO_MORE();
	}
	close(file);
}

/* Writing to the file later does not change sent octets. */
TEST_F(send, pages_are_copied)
{
	const size_t len = 20000;
	u8 *other = calloc(1, 4 * len);
	int file = row_file(4 * len);

	ASSERT_LE(0, file);
	/* The responder verifies the first record without a read. */
	ASSERT_EQ(10, put(self, 10, 0));
	EXPECT_RECORDS(10);
	ASSERT_EQ(len, put_file(self, file, len));
	ASSERT_EQ(4 * len, pwrite(file, other, 4 * len, 0));
	EXPECT_TRUE(taken_filling(self, len));
	EXPECT_NO_MORE();
	close(file);
	free(other);
}

/* Send an open record, then a file, then a record. */
TEST_F(send, sendfile_between_sends)
{
	static const int kinds[] = { MPA_SEGMENT_OFF, 0, 1000 };
	int file = row_file(STREAM_PERIOD), i;

	ASSERT_LE(0, file);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		ASSERT_EQ(0, segment(self, kinds[i]));
		ASSERT_EQ(100, put(self, 100, MSG_MORE));
		ASSERT_EQ(9000, put_file(self, file, 9000));
		EXPECT_TRUE(taken_all(self));
		ASSERT_EQ(100, put(self, 100, 0));
		EXPECT_RECORDS(100);
	}
	EXPECT_NO_MORE();
	close(file);
}

/* ---- splice ---- */

TEST_F(send, splice_from_a_pipe)
{
	static const size_t sizes[] = { 1, 100, 4096, 5000, 60001, 65536 };
	int ends[2], i;

	ASSERT_EQ(0, pipe(ends));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		/* Send pieces that leave the pipe's pages partly unused. */
		size_t len = sizes[i], n;

		if (len == 5000) {
			for (n = 0; n < len; n += 500)
				ASSERT_EQ(500, write(ends[1],
						     stream_at(self->sent + n),
						     500));
		} else {
			ASSERT_EQ(len, write(ends[1], stream_at(self->sent),
					     len));
		}
		for (n = 0; n < len; ) {
			ssize_t done = put_pipe(self, ends[0], len - n, 0);

			ASSERT_LT(0, done);
			n += done;
		}
		EXPECT_TRUE(taken_filling(self, len)) {
			TH_LOG("%zu octets", len);
		}
		ASSERT_EQ(self->sent, self->seen);
	}
	EXPECT_NO_MORE();

	/* The call requests more than the pipe contains. */
	ASSERT_EQ(0, segment(self, 100));
	ASSERT_EQ(250, write(ends[1], stream_at(self->sent), 250));
	ASSERT_EQ(250, put_pipe(self, ends[0], 1000, 0));
	EXPECT_RECORDS(100, 100, 50);
	close(ends[1]);
	EXPECT_EQ(0, put_pipe(self, ends[0], 1000, 0));
	EXPECT_NO_MORE();
	close(ends[0]);
}

TEST_F(send, splice_f_more_is_followed_by_more)
{
	int ends[2], i;

	ASSERT_EQ(0, pipe(ends));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(777, write(ends[1], stream_at(self->sent), 777));
		ASSERT_EQ(777, put_pipe(self, ends[0], 777,
					i < 19 ? SPLICE_F_MORE : 0));
	}
	EXPECT_TRUE(taken_all(self));
	EXPECT_NO_MORE();
	ASSERT_EQ(10, put(self, 10, 0));
	EXPECT_RECORDS(10);
	close(ends[0]);
	close(ends[1]);
}

TEST_F(send, vmsplice_copies_what_may_change)
{
	const size_t len = 30000;
	u8 *mine = mmap(NULL, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov = { mine + 5, len - 10 };
	int ends[2], i;
	size_t n;

	ASSERT_EQ(0, pipe(ends));
	for (i = 0; i < 3; i++) {
		memcpy(iov.iov_base, stream_at(self->sent), iov.iov_len);
		ASSERT_EQ(iov.iov_len, vmsplice(ends[1], &iov, 1, 0));
		for (n = 0; n < iov.iov_len; ) {
			ssize_t done = put_pipe(self, ends[0],
						iov.iov_len - n, 0);

			ASSERT_LT(0, done);
			n += done;
		}
		memset(mine, 0xee, len);
		EXPECT_TRUE(taken_filling(self, iov.iov_len));
		ASSERT_EQ(self->sent, self->seen);
	}
	EXPECT_NO_MORE();
	munmap(mine, len);
	close(ends[0]);
	close(ends[1]);
}

/* ---- a closed window ---- */

/* Return: octets in TCP's queue, or -1. @timer: set to the running timer. */
static int queue_and_timer(int fd, int family, unsigned int *timer)
{
	const char *path = family == AF_INET ? "/proc/net/tcp" :
					       "/proc/net/tcp6";
	unsigned int port, octets, runs;
	struct sockaddr_in6 addr = {};
	FILE *file = fopen(path, "r");
	socklen_t len = sizeof(addr);
	char line[512];
	int found = -1;

	getsockname(fd, (struct sockaddr *)&addr, &len);
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %*[^:]: %*[^:]:%x %*s %*s %x:%*x %x:", &port,
			   &octets, &runs) != 3 || port != ntohs(addr.sin6_port))
			continue;
		found = octets;
		*timer = runs;
	}
	if (file)
		fclose(file);
	return found;
}

/* Send until the peer's window is smaller than a segment, and all is acknowledged. */
static bool close_window(struct _test_data_send *self)
{
	struct tcp_info info;
	int i;

	for (i = 0; i < 200; i++) {
		socklen_t len = sizeof(info);

		memset(&info, 0, sizeof(info));
		if (!acked(self->fd[0]) ||
		    getsockopt(self->fd[0], SOL_TCP, TCP_INFO, &info, &len))
			return false;
		if (info.tcpi_snd_wnd < 1400)
			return true;
		if (put(self, 600, 0) != 600)
			return false;
	}
	fprintf(stderr, "# the window is still of %u octets\n",
		info.tcpi_snd_wnd);
	return false;
}

/* If the ACK that opens the window is lost, only a probe detects the opening. */
TEST_F(send, window_is_probed_for_octets_spliced_with_more)
{
	const struct connecting small = { .rcvbuf = 20000 };
	unsigned int timer = 0;
	int ends[2], octets;
	u32 got = 0;
	long until;

	ASSERT_EQ(0, reconnect(self, variant->family, variant->marked, &small));
	ASSERT_TRUE(close_window(self));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_SOCKET, SO_SNDBUF, 4000));
	ASSERT_EQ(0, pipe(ends));
	ASSERT_EQ(60000, write(ends[1], stream_at(self->sent), 60000));
	set_nonblock(self->fd[0]);
	ASSERT_LT(1400, put_pipe(self, ends[0], 60000, SPLICE_F_MORE));
	/* A batch without an end is sent after a while. */
	until = now_ms() + 1000;
	do
		octets = queue_and_timer(self->fd[0], variant->family, &timer);
	while (octets > 0 && !timer && now_ms() < until && !poll(NULL, 0, 5));
	EXPECT_LT(0, octets);
	EXPECT_NE(0, timer) {
		TH_LOG("%d octets wait, and no timer runs", octets);
	}
	while (self->seen < self->sent && take(self, MSG_DONTWAIT) > 0)
		got++;
	EXPECT_LT(0, got);
	close(ends[0]);
	close(ends[1]);
}

TEST_F(send, window_is_probed_at_once_for_octets_spliced_with_more)
{
	const struct connecting small = { .rcvbuf = 20000 };
	unsigned int timer = 0;
	int ends[2], octets;
	u32 got = 0;

	ASSERT_EQ(0, reconnect(self, variant->family, variant->marked, &small));
	ASSERT_TRUE(close_window(self));
	ASSERT_EQ(0, option_put(self->fd[0], SOL_SOCKET, SO_SNDBUF, 4000));
	ASSERT_EQ(0, pipe(ends));
	ASSERT_EQ(8000, write(ends[1], stream_at(self->sent), 8000));
	set_nonblock(self->fd[0]);
	ASSERT_LT(1400, put_pipe(self, ends[0], 8000, SPLICE_F_MORE));
	/*
	 * Check at once: when the rest of a batch is sent later, it starts the timer,
	 * too, but there need not be a rest. TCP does not send these octets on its own:
	 * they are few.
	 */
	octets = queue_and_timer(self->fd[0], variant->family, &timer);
	if (octets <= 0)
		SKIP(return, "the peer has taken all of them");
	EXPECT_NE(0, timer) {
		TH_LOG("%d octets wait, and no timer runs", octets);
	}
	while (self->seen < self->sent && take(self, MSG_DONTWAIT) > 0)
		got++;
	EXPECT_LT(0, got);
	close(ends[0]);
	close(ends[1]);
}

/* ---- io_uring ---- */

struct ring {
	int fd;
	struct io_uring_params p;
	u8 *rings;
	struct io_uring_sqe *sqes;
	u32 queued;
};

static int ring_open(struct ring *r)
{
	size_t size;

	memset(r, 0, sizeof(*r));
	r->fd = syscall(__NR_io_uring_setup, 16, &r->p);
	if (r->fd < 0)
		return -1;
	size = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
	if (size < r->p.sq_off.array + r->p.sq_entries * sizeof(u32))
		size = r->p.sq_off.array + r->p.sq_entries * sizeof(u32);
	r->rings = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQ_RING);
	r->sqes = mmap(NULL, r->p.sq_entries * sizeof(*r->sqes),
		       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		       r->fd, IORING_OFF_SQES);
	return r->rings == MAP_FAILED || r->sqes == MAP_FAILED ? -1 : 0;
}

static u32 *ring_word(struct ring *r, u32 offset)
{
	return (u32 *)(r->rings + offset);
}

static struct io_uring_sqe *ring_next(struct ring *r, int op, int fd)
{
	u32 *tail = ring_word(r, r->p.sq_off.tail);
	u32 i = *tail & (r->p.sq_entries - 1);

	memset(&r->sqes[i], 0, sizeof(r->sqes[i]));
	r->sqes[i].opcode = op;
	r->sqes[i].fd = fd;
	ring_word(r, r->p.sq_off.array)[i] = i;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	r->queued++;
	return &r->sqes[i];
}

/* Wait for all queued operations. Return: the sum of the results, or the first error. */
static ssize_t ring_run(struct ring *r)
{
	struct io_uring_cqe *cqes = (void *)(r->rings + r->p.cq_off.cqes);
	u32 *head = ring_word(r, r->p.cq_off.head);
	u32 *tail = ring_word(r, r->p.cq_off.tail);
	u32 n = r->queued, todo = n;
	ssize_t sum = 0, err = 0;

	r->queued = 0;
	while (n) {
		if (syscall(__NR_io_uring_enter, r->fd, todo, 1,
			    IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			return -errno;
		todo = 0;
		while (n && *head != __atomic_load_n(tail, __ATOMIC_ACQUIRE)) {
			int res = cqes[*head & (r->p.cq_entries - 1)].res;

			__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
			n--;
			sum += res;
			if (res < 0 && !err)
				err = res;
		}
	}
	return err ?: sum;
}

static void ring_send(struct _test_data_send *self, struct ring *r,
		      u64 at, size_t len, int msg_flags, bool link)
{
	struct io_uring_sqe *sqe = ring_next(r, IORING_OP_SEND, self->fd[0]);

	sqe->addr = (unsigned long)stream_at(at);
	sqe->len = len;
	sqe->msg_flags = msg_flags | MSG_NOSIGNAL;
	if (link)
		sqe->flags |= IOSQE_IO_LINK;
}

TEST_F(send, io_uring_sends_records)
{
	static const u32 lens[] = { 1, 64, 1000, 1442, 64, 64, 3000, 20000 };
	struct ring ring;
	u64 at = 0;
	int i;

	if (ring_open(&ring))
		SKIP(return, "no io_uring: %s", strerror(errno));
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		ring_send(self, &ring, at, lens[i], 0, i < 7);
		at += lens[i];
	}
	EXPECT_EQ(at, ring_run(&ring));
	EXPECT_TRUE(taken(self, lens, ARRAY_SIZE(lens)));
	self->sent = at;

	/* MSG_MORE and MPA_SEGMENT work as in send(2). */
	ring_send(self, &ring, at, 100, MSG_MORE, true);
	ring_send(self, &ring, at + 100, 50, 0, false);
	EXPECT_EQ(150, ring_run(&ring));
	EXPECT_RECORDS(150);
	ASSERT_EQ(0, segment(self, 1000));
	ring_send(self, &ring, at + 150, 2500, 0, false);
	EXPECT_EQ(2500, ring_run(&ring));
	EXPECT_RECORDS(1000, 1000, 500);
	self->sent += 2650;
	EXPECT_NO_MORE();
	close(ring.fd);
}

TEST_F_TIMEOUT(send, io_uring_waits_for_room, 120)
{
	static const struct {
		int segment;
		size_t len;
		int flags;
	} kinds[] = {
		{ MPA_SEGMENT_OFF, 60000, 0 },
		/*
		 * With MSG_WAITALL all octets are sent, as with TCP; otherwise perhaps
		 * only a part.
		 */
		{ 1000, 200000, MSG_WAITALL }, { 0, 200000, MSG_WAITALL },
	};
	const struct connecting how = { .sndbuf = 20000, .rcvbuf = 20000 };
	struct reader reader;
	struct ring ring;
	int i, k;

	if (ring_open(&ring))
		SKIP(return, "no io_uring: %s", strerror(errno));
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		const size_t len = kinds[i].len;

		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &how));
		ASSERT_EQ(0, segment(self, kinds[i].segment));
		for (k = 0; k < 4; k++)
			ring_send(self, &ring, k * len, len, kinds[i].flags,
				  k < 3);
		ASSERT_EQ(0, reader_start(&reader, self->fd[1]));
		EXPECT_EQ(4 * len, ring_run(&ring));
		EXPECT_READER_HAS(&reader, 4 * len);
	}
	close(ring.fd);
}

TEST_F(send, io_uring_takes_control_messages)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec iov = { stream_row, 2500 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct io_uring_sqe *sqe;
	struct ring ring;

	if (ring_open(&ring))
		SKIP(return, "no io_uring: %s", strerror(errno));
	control.align.cmsg_level = SOL_MPA;
	control.align.cmsg_type = MPA_SEGMENT;
	control.align.cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(&control.align) = 1000;
	sqe = ring_next(&ring, IORING_OP_SENDMSG, self->fd[0]);
	sqe->addr = (unsigned long)&msg;
	sqe->len = 1;
	EXPECT_EQ(2500, ring_run(&ring));
	EXPECT_RECORDS(1000, 1000, 500);
	close(ring.fd);
}

TEST_F(send, io_uring_splices)
{
	struct io_uring_sqe *sqe;
	struct ring ring;
	int ends[2];

	if (ring_open(&ring))
		SKIP(return, "no io_uring: %s", strerror(errno));
	ASSERT_EQ(0, pipe(ends));
	ASSERT_EQ(9000, write(ends[1], stream_row, 9000));
	while (self->sent < 9000) {
		ssize_t n;

		sqe = ring_next(&ring, IORING_OP_SPLICE, self->fd[0]);
		sqe->splice_fd_in = ends[0];
		sqe->len = 9000 - self->sent;
		sqe->off = -1;
		sqe->splice_off_in = -1;
		n = ring_run(&ring);
		ASSERT_LT(0, n);
		self->sent += n;
	}
	EXPECT_TRUE(taken_all(self));
	EXPECT_NO_MORE();
	close(ring.fd);
	close(ends[0]);
	close(ends[1]);
}

TEST_HARNESS_MAIN
