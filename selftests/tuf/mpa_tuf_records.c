// SPDX-License-Identifier: GPL-2.0
/* Records over TUF: boundaries, flags, control messages, and errors. */

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

#include "mpa_harness.h"
#include "mpa_tuf.h"

/* Receive from fd[1] with recvmsg. */
#define RECV(len, flags) \
	receive(self->fd[1], self->buf, len, flags, self->got)

/* Send a record. */
#define PUT(len, flags) \
	ASSERT_EQ(len, send(self->fd[0], record_of(len), len, flags))

/* Check that the next record is the self-checking one of this length. */
#define EXPECT_RECORD(len) do {						\
	EXPECT_EQ(len, RECV(BUF, 0));					\
	EXPECT_TRUE(record_good(self->buf, len));			\
	EXPECT_EQ(MSG_EOR, self->got->msg_flags & MSG_EOR);		\
} while (0)

TEST_F(tuf, one_send_is_one_recv)
{
	static const size_t lens[] = {
		1, 2, 3, 4, 5, 7, 8, 9, 100, 111, 112, 113, 114, 115, 116, 117,
		118, 119, 120, 121, 127, 128, 129, 500, 2031, 2032, 2036, 2040,
		4096, 32768, 60000, 63000,
	};
	u64 octets = 0;
	int i;

	START();
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		PUT(lens[i], 0);
		EXPECT_RECORD(lens[i]);
		tuf_record(&self->way, lens[i], self->octets);
		octets += lens[i];
	}
	EXPECT_EQ(ARRAY_SIZE(lens), tuf_info(self->fd[0]).tx_ulpdus);
	EXPECT_EQ(ARRAY_SIZE(lens), tuf_info(self->fd[0]).tx_fpdus);
	EXPECT_EQ(octets, tuf_info(self->fd[0]).tx_octets);
	EXPECT_EQ(ARRAY_SIZE(lens), tuf_info(self->fd[1]).rx_fpdus);
	EXPECT_EQ(octets, tuf_info(self->fd[1]).rx_octets);
	EXPECT_EQ(tuf_info(self->fd[0]).tx_markers,
		  tuf_info(self->fd[1]).rx_markers);
	EXPECT_EQ(variant->mode == TUF_MARKERS,
		  tuf_info(self->fd[0]).tx_markers > 0);
	EXPECT_EQ(self->way.position, tuf_info(self->fd[1]).rx_edge);
	EXPECT_EQ(0, tuf_info(self->fd[1]).rx_wrong_key);
	EXPECT_EQ(0, tuf_info(self->fd[1]).error_position);
}

/* Use all lengths, even those that no sender of this kernel uses. */
TEST_F_TIMEOUT(tuf, every_length_by_hand, 120)
{
	size_t len, longest = 0;

	START_BY_HAND();
	for (len = 1; ; len += len < 300 ? 1 : 13) {
		/* The longest record comes last. */
		if (len > 2100) {
			longest = variant->mode == TUF_ALIGN ?
				  TUF_LENGTH_MAX : tuf_longest(&self->way);
			len = longest;
		}
		ASSERT_EQ(0, hand_record(self->fd[0], &self->way, len));
		ASSERT_EQ(len, recv(self->fd[1], self->buf, BUF, 0)) {
			TH_LOG("%zu octets: %m", len);
		}
		ASSERT_TRUE(record_good(self->buf, len));
		if (len == longest)
			break;
	}
}

/* The stream arrives in pieces of any size. */
TEST_F_TIMEOUT(tuf, stream_cut_anywhere, 120)
{
	static const size_t lens[] = { 9, 1, 700, 2, 300, 103 };
	size_t step, n, at;
	int i;

	START_BY_HAND();
	for (step = 1; step < 800; step = step * 3 / 2 + 1) {
		for (n = 0, i = 0; i < ARRAY_SIZE(lens); i++)
			n += tuf_record(&self->way, lens[i], self->octets + n);
		for (at = 0; at < n; at += step)
			ASSERT_EQ(0, write_all(self->fd[0], self->octets + at,
					       n - at < step ? n - at : step));
		for (i = 0; i < ARRAY_SIZE(lens); i++)
			EXPECT_RECORD(lens[i]);
	}
}

TEST_F(tuf, many_records_wait_in_order)
{
	size_t len;

	START();
	for (len = 1; len <= 300; len++)
		PUT(len, 0);
	for (len = 1; len <= 300; len++)
		EXPECT_RECORD(len);
	EXPECT_EQ(-1, RECV(BUF, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
}

TEST_F(tuf, short_buffer_gets_the_rest_with_the_next_call)
{
	static const size_t steps[] = { 1, 7, 509, 1000, 70000 };
	const size_t len = 3001;
	size_t done, want;
	int i;

	START();
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		PUT(len, 0);
		PUT(5, 0);
		for (done = 0; done < len; done += want) {
			want = len - done < steps[i] ? len - done : steps[i];
			ASSERT_EQ(want, receive(self->fd[1], self->buf + done,
						steps[i], 0, self->got));
			ASSERT_EQ(done + want == len ? MSG_EOR : 0,
				  self->got->msg_flags & MSG_EOR);
		}
		ASSERT_TRUE(record_good(self->buf, len));
		EXPECT_RECORD(5);
	}
	EXPECT_EQ(2 * ARRAY_SIZE(steps), tuf_info(self->fd[1]).rx_fpdus);
}

TEST_F(tuf, peek_and_trunc)
{
	START();
	PUT(1000, 0);
	PUT(10, 0);
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_EQ(1000, recv(self->fd[1], NULL, 0, MSG_PEEK | MSG_TRUNC));
	EXPECT_EQ(100, RECV(100, MSG_PEEK));
	EXPECT_EQ(0, memcmp(self->buf, record_of(1000), 100));
	EXPECT_EQ(1000, RECV(BUF, MSG_PEEK));
	EXPECT_TRUE(record_good(self->buf, 1000));
	EXPECT_EQ(600, RECV(600, 0));
	EXPECT_EQ(400, RECV(BUF, MSG_PEEK));
	EXPECT_EQ(0, memcmp(self->buf, record_of(1000) + 600, 400));
	EXPECT_EQ(300, recv(self->fd[1], NULL, 300, MSG_TRUNC));
	EXPECT_EQ(100, inq(self->fd[1]));
	EXPECT_EQ(100, RECV(BUF, 0));
	EXPECT_EQ(0, memcmp(self->buf, record_of(1000) + 900, 100));
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_EQ(10, inq(self->fd[1]));
	EXPECT_RECORD(10);
	EXPECT_EQ(0, inq(self->fd[1]));
}

TEST_F(tuf, recvinfo_says_where_a_record_lies)
{
	static const size_t lens[] = { 50, 114, 1, 4000, 2 };
	u64 at;
	int i;

	START();
	ASSERT_EQ(0, set_int(self->fd[1], MPA_RECVINFO, 1));
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		const struct mpa_recvinfo *info = &self->got->info;

		PUT(lens[i], 0);
		at = self->way.position;
		tuf_record(&self->way, lens[i], self->octets);
		if (lens[i] == 4000) {
			ASSERT_EQ(1000, RECV(1000, 0));
			EXPECT_EQ(at, info->position);
			EXPECT_EQ(0, info->offset);
			EXPECT_EQ(0, info->flags);
		}
		ASSERT_EQ(lens[i] - (lens[i] == 4000 ? 1000 : 0), RECV(BUF, 0));
		ASSERT_TRUE(self->got->has_info);
		EXPECT_EQ(at, info->position);
		EXPECT_EQ(i, info->order);
		EXPECT_EQ(at, info->edge);
		EXPECT_EQ(lens[i], info->length);
		EXPECT_EQ(lens[i] == 4000 ? 1000 : 0, info->offset);
		EXPECT_EQ(MPA_RECVINFO_LAST, info->flags);
		EXPECT_EQ(MPA_RECVINFO_VALID_ORDER, info->valid);
	}
}

TEST_F(tuf, batch_has_a_length_for_each_record)
{
	START();
	ASSERT_EQ(0, set_int(self->fd[1], MPA_RECV_BATCH, 1));
	PUT(9, 0);
	PUT(700, 0);
	PUT(1, 0);
	PUT(300, 0);
	tuf_record(&self->way, 9, self->octets);
	tuf_record(&self->way, 700, self->octets);
	tuf_record(&self->way, 1, self->octets);
	tuf_record(&self->way, 300, self->octets);
	ASSERT_TRUE(arrived(self->fd[1], self->way.position));
	ASSERT_EQ(710, RECV(1000, 0));
	EXPECT_BATCH(9, 700, 1);
	ASSERT_EQ(300, RECV(BUF, 0));
	EXPECT_BATCH(300);
}

TEST_F(tuf, recvmmsg_takes_a_record_for_each_message)
{
	struct mmsghdr msgs[4] = {};
	struct iovec iov[4];
	int i;

	START();
	for (i = 0; i < 3; i++) {
		PUT(100 + i, 0);
		tuf_record(&self->way, 100 + i, self->octets);
	}
	ASSERT_TRUE(arrived(self->fd[1], self->way.position));
	for (i = 0; i < 4; i++) {
		iov[i] = (struct iovec){ self->buf + 1000 * i, 1000 };
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	ASSERT_EQ(3, recvmmsg(self->fd[1], msgs, 4, MSG_DONTWAIT, NULL));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(100 + i, msgs[i].msg_len);
		EXPECT_TRUE(record_good(self->buf + 1000 * i, 100 + i));
		EXPECT_EQ(MSG_EOR, msgs[i].msg_hdr.msg_flags & MSG_EOR);
	}
}

/* "splice(2) from the socket takes octets of one record a call" */
TEST_F(tuf, splice_takes_octets_of_one_record)
{
	int pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	START();
	PUT(1000, 0);
	PUT(10, 0);
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_EQ(600, splice(self->fd[1], NULL, pipes[1], NULL, 600, 0));
	EXPECT_EQ(400, splice(self->fd[1], NULL, pipes[1], NULL, 2000, 0));
	EXPECT_EQ(10, splice(self->fd[1], NULL, pipes[1], NULL, 2000, 0));
	ASSERT_EQ(1010, read(pipes[0], self->buf, BUF));
	EXPECT_TRUE(record_good(self->buf, 1000));
	EXPECT_TRUE(record_good(self->buf + 1000, 10));
	close(pipes[0]);
	close(pipes[1]);
}

/* A file is a stream: records do not matter. */
TEST_F(tuf, sendfile_arrives)
{
	const size_t len = 200001;
	size_t sent, done = 0;
	int file, status;
	loff_t at = 0;
	ssize_t n;
	pid_t pid;

	file = memfd_create("octets", 0);
	ASSERT_LE(0, file);
	ASSERT_EQ(len, write(file, record_of(len), len));
	START();
	pid = fork();
	if (!pid) {
		for (sent = 0; sent < len; sent += n) {
			n = sendfile(self->fd[0], file, &at, len - sent);
			if (n <= 0)
				break;
		}
		shutdown(self->fd[0], SHUT_WR);
		_exit(sent != len);
	}
	close(self->fd[0]);
	self->fd[0] = -1;
	while ((n = RECV(BUF, 0)) > 0) {
		ASSERT_EQ(0, memcmp(self->buf, record_of(len) + done, n));
		done += n;
	}
	EXPECT_EQ(0, n);
	EXPECT_EQ(len, done);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(file);
}

TEST_F(tuf, msg_more_carries_a_record_on)
{
	static const size_t steps[] = { 1, 3, 250, 506, 10000 };
	size_t done, len;
	int i;

	START();
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		len = 5 * steps[i];
		for (done = 0; done < len; done += steps[i])
			ASSERT_EQ(steps[i], send(self->fd[0],
						 record_of(len) + done,
						 steps[i], MSG_MORE));
		EXPECT_EQ(-1, RECV(BUF, MSG_DONTWAIT));
		EXPECT_EQ(EAGAIN, errno);
		ASSERT_EQ(0, send(self->fd[0], NULL, 0, 0));
		EXPECT_RECORD(len);
	}
	EXPECT_EQ(ARRAY_SIZE(steps), tuf_info(self->fd[0]).tx_ulpdus);
}

/* "this record ends here, and more follow" */
TEST_F(tuf, msg_more_and_eor_ends_a_record)
{
	START();
	PUT(100, MSG_MORE | MSG_EOR);
	PUT(200, MSG_MORE | MSG_EOR);
	PUT(300, 0);
	EXPECT_RECORD(100);
	EXPECT_RECORD(200);
	EXPECT_RECORD(300);
	EXPECT_EQ(3, tuf_info(self->fd[0]).tx_ulpdus);
	EXPECT_EQ(3, tuf_info(self->fd[0]).tx_fpdus);
}

/* Packing (-01): the receiver gets the ULPDUs of one FPDU as one record. */
TEST_F(tuf, packed_ulpdus_have_no_boundary)
{
	const bool packs = variant->mode == TUF_ALIGN;

	START();
	ASSERT_EQ(0, set_int(self->fd[0], MPA_PACKING, 1));
	PUT(100, MSG_MORE | MSG_EOR);
	PUT(200, MSG_MORE | MSG_EOR);
	PUT(300, 0);
	if (packs) {
		EXPECT_EQ(600, RECV(BUF, 0));
		EXPECT_TRUE(record_good(self->buf, 100));
		EXPECT_TRUE(record_good(self->buf + 100, 200));
		EXPECT_TRUE(record_good(self->buf + 300, 300));
	} else {
		/* With markers there is no packing. */
		EXPECT_RECORD(100);
		EXPECT_RECORD(200);
		EXPECT_RECORD(300);
	}
	EXPECT_EQ(3, tuf_info(self->fd[0]).tx_ulpdus);
	EXPECT_EQ(packs ? 1 : 3, tuf_info(self->fd[0]).tx_fpdus);
	EXPECT_EQ(600, tuf_info(self->fd[0]).tx_octets);
	EXPECT_EQ(packs ? 1 : 3, tuf_info(self->fd[1]).rx_fpdus);
	/* A single ULPDU is sent at once. */
	PUT(50, 0);
	EXPECT_RECORD(50);
}

TEST_F(tuf, sendmmsg_sends_a_record_for_each_message)
{
	struct mmsghdr msgs[5] = {};
	struct iovec iov[5];
	int i;

	START();
	for (i = 0; i < 5; i++) {
		iov[i] = (struct iovec){ (void *)record_of(10 + i), 10 + i };
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	ASSERT_EQ(5, sendmmsg(self->fd[0], msgs, 5, 0));
	for (i = 0; i < 5; i++)
		EXPECT_RECORD(10 + i);
	EXPECT_EQ(5, tuf_info(self->fd[0]).tx_ulpdus);
}

TEST_F(tuf, segment_cuts_a_send)
{
	size_t at;

	START();
	ASSERT_EQ(0, set_int(self->fd[0], MPA_SEGMENT, 700));
	PUT(3000, 0);
	for (at = 0; at < 3000; at += 700) {
		ASSERT_EQ(at + 700 < 3000 ? 700 : 200, RECV(BUF, 0));
		EXPECT_EQ(0, memcmp(self->buf, record_of(3000) + at,
				    at + 700 < 3000 ? 700 : 200));
	}
	EXPECT_EQ(5, tuf_info(self->fd[0]).tx_ulpdus);
}

TEST_F(tuf, record_of_a_wrong_length_is_not_sent)
{
	START();
	EXPECT_EQ(-1, send(self->fd[0], self->octets, 0, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, send(self->fd[0], self->octets, TUF_ULPDU_MAX + 1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, send(self->fd[0], self->octets, BUF, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(0, tuf_info(self->fd[0]).tx_ulpdus);
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 3));
}

TEST_F(tuf, fault_leaks_nothing)
{
	struct iovec iov[2] = { { self->octets, 3000 }, { (void *)8, 100 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	START();
	EXPECT_EQ(-1, sendmsg(self->fd[0], &msg, 0));
	EXPECT_EQ(EFAULT, errno);
	PUT(9, 0);
	EXPECT_EQ(-1, recv(self->fd[1], (void *)8, 9, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_RECORD(9);
}

/* ---- waiting ---- */

TEST_F(tuf, poll_means_a_whole_record)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(0);
	size_t n;

	START_BY_HAND();
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->fd[1], &event));
	n = tuf_record(&self->way, 5000, self->octets);
	ASSERT_EQ(0, write_all(self->fd[0], self->octets, n - 1));
	ASSERT_TRUE(arrived(self->fd[1], n - 1));
	EXPECT_EQ(0, epoll_wait(epoll, &event, 1, 10));
	EXPECT_EQ(0, poll_for(self->fd[1], POLLIN, 0));
	EXPECT_EQ(0, inq(self->fd[1]));
	ASSERT_EQ(0, write_all(self->fd[0], self->octets + n - 1, 1));
	EXPECT_EQ(1, epoll_wait(epoll, &event, 1, 20000));
	EXPECT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_EQ(5000, inq(self->fd[1]));
	EXPECT_RECORD(5000);
	EXPECT_EQ(0, poll_for(self->fd[1], POLLIN, 0));
	close(epoll);
}

TEST_F(tuf, blocked_reader_gets_a_whole_record)
{
	struct call call = { .fd = self->fd[1], .buf = self->buf, .len = BUF };
	size_t n;

	START_BY_HAND();
	ASSERT_TRUE(call_start(&call));
	n = tuf_record(&self->way, 3000, self->octets);
	ASSERT_EQ(0, write_all(self->fd[0], self->octets, n / 2));
	ASSERT_TRUE(arrived(self->fd[1], n / 2));
	ASSERT_TRUE(asleep(&call.tid));
	ASSERT_EQ(0, write_all(self->fd[0], self->octets + n / 2, n - n / 2));
	EXPECT_EQ(3000, call_end(&call));
	EXPECT_TRUE(record_good(self->buf, 3000));
}

TEST_F(tuf, timeouts_are_kept)
{
	struct timeval tv = { .tv_usec = 20000 };

	START();
	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_RCVTIMEO, &tv,
				sizeof(tv)));
	EXPECT_EQ(-1, RECV(BUF, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 100));
}

/* ---- invalid FPDUs ---- */

#define INVALID(code, at) do {						\
	ASSERT_NE(0, poll_for(self->fd[1], POLLIN, 20000));		\
	EXPECT_EQ(-1, RECV(BUF, 0));					\
	EXPECT_EQ(EBADMSG, errno);					\
	EXPECT_EQ(code, tuf_info(self->fd[1]).error);			\
	EXPECT_EQ(at, tuf_info(self->fd[1]).error_position);		\
	EXPECT_EQ(-1, RECV(BUF, 0));					\
	EXPECT_EQ(EBADMSG, errno);					\
	EXPECT_EQ(0, so_error(self->fd[1]));				\
} while (0)

/* "0 is never valid" */
TEST_F(tuf, length_of_0_is_an_error)
{
	size_t n;
	u64 at;

	START_BY_HAND();
	ASSERT_EQ(0, hand_record(self->fd[0], &self->way, 100));
	at = self->way.position;
	n = tuf_fpdu(&self->way, NULL, 0, self->octets);
	n += tuf_record(&self->way, 100, self->octets + n);
	ASSERT_EQ(0, write_all(self->fd[0], self->octets, n));
	EXPECT_RECORD(100);
	INVALID(MPA_ERR_CRC, at);
	/* The other direction still works. */
	EXPECT_TRUE(text_goes(self->fd[1], self->fd[0]));
}

/* Invert a bit in each octet of a marker. */
TEST_F(tuf, wrong_marker_is_an_error)
{
	const size_t marker = variant->period ?: 512;
	size_t first, n;
	int octet;

	self->way.mode = TUF_MARKERS;
	self->way.period = marker;
	for (octet = 0; octet < 8; octet++) {
		hang_up(self->fd[0]);
		hang_up(self->fd[1]);
		ASSERT_EQ(0, tcp_pair(variant->family, self->fd));
		patience(self->fd[1], 20);
		ASSERT_EQ(0, tuf_attach(self->fd[1]));
		START_BY_HAND();
		/* Use the marker at the stream's start, or the next one, in the second FPDU. */
		first = tuf_record(&self->way, 50, self->octets);
		n = first + tuf_record(&self->way, 2 * marker,
				       self->octets + first);
		self->octets[(octet < 4 ? 0 : marker) + octet % 4] ^= 1;
		ASSERT_EQ(0, write_all(self->fd[0], self->octets, n));
		if (octet >= 4)
			EXPECT_RECORD(50);
		INVALID(MPA_ERR_MARKER, octet < 4 ? 0 : first);
	}
}

/* An FPDU, with its markers, has at most 65536 octets. */
TEST_F(tuf, fpdu_that_markers_make_too_long_is_an_error)
{
	size_t n;

	self->way.mode = TUF_MARKERS;
	self->way.period = variant->period ?: 32768;
	START_BY_HAND();
	n = tuf_record(&self->way, TUF_LENGTH_MAX, self->octets);
	ASSERT_LT(65536, n);
	ASSERT_EQ(0, write_all(self->fd[0], self->octets, 1000));
	INVALID(MPA_ERR_CRC, 0);
}

TEST_HARNESS_MAIN
