// SPDX-License-Identifier: GPL-2.0
/* MPA_RECVINFO and MPA_RECV_BATCH: control messages, several records in a call. */

#include <poll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/uio.h>

#include "mpa_harness.h"
#include "mpa_receive.h"

/* ---- MPA_RECVINFO ---- */

TEST_F(rx, recvinfo_says_which_octets_of_which_record)
{
	static const size_t lens[] = { 1, 2, 700, 3, 64768, 507, 4 };
	static const size_t steps[] = { 1000000, 300, 1 };
	unsigned int order = 0, i, k;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECVINFO, 1));
	for (k = 0; k < ARRAY_SIZE(steps); k++) {
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			u64 position = self->peer.tx_position;
			size_t done = 0;

			if (steps[k] == 1 && lens[i] > 1000)
				continue;
			SEND(lens[i]);
			while (done < lens[i]) {
				struct mpa_recvinfo *info = &self->got->info;
				ssize_t n = RECEIVE(steps[k], 0);

				ASSERT_LT(0, n);
				ASSERT_TRUE(self->got->has_info);
				EXPECT_EQ(40, self->got->info_len);
				EXPECT_EQ(position, info->position);
				EXPECT_EQ(position, info->edge);
				EXPECT_EQ(order, info->order);
				EXPECT_EQ(lens[i], info->length);
				EXPECT_EQ(done, info->offset);
				EXPECT_EQ(MPA_RECVINFO_VALID_ORDER, info->valid);
				done += n;
				EXPECT_EQ(done == lens[i] ? MPA_RECVINFO_LAST :
							    0, info->flags);
				EXPECT_EQ(0, self->got->others);
			}
			order++;
		}
	}
}

TEST_F(rx, recvinfo_of_a_peek)
{
	ASSERT_EQ(0, set_int(self->fd, MPA_RECVINFO, 1));
	SEND(100);
	EXPECT_EQ(40, RECEIVE(40, 0));
	EXPECT_EQ(20, RECEIVE(20, MSG_PEEK));
	EXPECT_EQ(40, self->got->info.offset);
	EXPECT_EQ(0, self->got->info.flags);
	EXPECT_EQ(60, RECEIVE(0, MSG_PEEK | MSG_TRUNC));
	EXPECT_EQ(40, self->got->info.offset);
	EXPECT_EQ(60, RECEIVE(BUF, 0));
	EXPECT_EQ(40, self->got->info.offset);
	EXPECT_EQ(MPA_RECVINFO_LAST, self->got->info.flags);
}

TEST_F(rx, control_messages_come_only_if_asked_for)
{
	SEND(10);
	EXPECT_EQ(10, RECEIVE(BUF, 0));
	EXPECT_FALSE(self->got->has_info);
	EXPECT_FALSE(self->got->has_lengths);
	EXPECT_EQ(MSG_EOR, self->got->msg_flags);

	ASSERT_EQ(0, set_int(self->fd, MPA_RECVINFO, 1));
	SEND(11);
	EXPECT_EQ(11, RECEIVE(BUF, 0));
	EXPECT_TRUE(self->got->has_info);
	EXPECT_FALSE(self->got->has_lengths);

	ASSERT_EQ(0, set_int(self->fd, MPA_RECVINFO, 0));
	SEND(12);
	EXPECT_EQ(12, RECEIVE(BUF, 0));
	EXPECT_FALSE(self->got->has_info);
}

TEST_F(rx, control_buffer_too_short_is_reported)
{
	ASSERT_EQ(0, set_int(self->fd, MPA_RECVINFO, 1));
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(10, 11, 12);
	EXPECT_EQ(10, receive_with(self->fd, self->buf, BUF, 0, self->got, 0));
	EXPECT_EQ(MSG_EOR | MSG_CTRUNC, self->got->msg_flags);
	EXPECT_EQ(11, receive_with(self->fd, self->buf, BUF, 0, self->got,
				   CMSG_SPACE(sizeof(struct mpa_recvinfo))));
	EXPECT_EQ(MSG_EOR | MSG_CTRUNC, self->got->msg_flags);
	EXPECT_TRUE(self->got->has_info);
	EXPECT_EQ(12, recv(self->fd, self->buf, BUF, 0));
}

TEST_F(rx, receive_options_are_0_or_1)
{
	static const int options[] = { MPA_RECVINFO, MPA_RECV_BATCH };
	unsigned int i;
	char one = 1;

	for (i = 0; i < ARRAY_SIZE(options); i++) {
		EXPECT_EQ(0, get_int(self->fd, options[i]));
		EXPECT_EQ(EINVAL, set_int(self->fd, options[i], 2));
		EXPECT_EQ(EINVAL, set_int(self->fd, options[i], -1));
		EXPECT_EQ(-1, setsockopt(self->fd, SOL_MPA, options[i], &one,
					 1));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, setsockopt(self->fd, SOL_MPA, options[i],
					 (void *)8, 4));
		EXPECT_EQ(EFAULT, errno);
		EXPECT_EQ(0, get_int(self->fd, options[i]));
		EXPECT_EQ(0, set_int(self->fd, options[i], 1));
		EXPECT_EQ(1, get_int(self->fd, options[i]));
		EXPECT_EQ(0, set_int(self->fd, options[i], 0));
		EXPECT_EQ(0, get_int(self->fd, options[i]));
	}
}

TEST_F(rx, accepted_socket_begins_with_the_listeners_options)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0), child;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	ASSERT_EQ(0, mpa_attach(listener));
	ASSERT_EQ(0, set_int(listener, MPA_RECVINFO, 1));
	ASSERT_EQ(0, listen(listener, 1));
	ASSERT_EQ(0, getsockname(listener, (struct sockaddr *)&addr, &len));
	ASSERT_EQ(0, connect(fd, (struct sockaddr *)&addr, len));
	child = accept(listener, NULL, NULL);
	ASSERT_LE(0, child);
	EXPECT_EQ(1, get_int(child, MPA_RECVINFO));
	EXPECT_EQ(0, get_int(child, MPA_RECV_BATCH));
	close(fd);
	close(child);
	close(listener);
}

/* ---- MPA_RECV_BATCH ---- */

TEST_F(rx, batch_is_what_is_here)
{
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(1, 2, 600, 3, 1000, 4, 5000);
	EXPECT_EQ(6610, RECEIVE(BUF, 0));
	EXPECT_BATCH(1, 2, 600, 3, 1000, 4, 5000);
	EXPECT_EQ(-1, RECEIVE(BUF, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, poll_for(self->fd, POLLIN, 0));
	SEND(9);
	EXPECT_EQ(9, RECEIVE(BUF, 0));
	EXPECT_BATCH(9);
	EXPECT_EQ(8, mpa_info(self->fd).rx_ulpdus);
	EXPECT_EQ(6619, mpa_info(self->fd).rx_octets);
}

TEST_F(rx, batch_ends_before_what_is_not_whole)
{
	size_t n;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(100, 200);
	n = next_fpdu(&self->peer, 900, self->fpdu);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n - 1));
	ASSERT_TRUE(arrived(self->fd, self->peer.tx_position - 1));
	EXPECT_EQ(300, RECEIVE(BUF, MSG_WAITALL));
	EXPECT_BATCH(100, 200);
	EXPECT_EQ(-1, RECEIVE(BUF, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu + n - 1, 1));
	EXPECT_EQ(900, RECEIVE(BUF, 0));
	EXPECT_BATCH(900);
}

/* For every buffer length: complete records, or a part of the first one. */
TEST_F_TIMEOUT(rx, batch_fits_the_buffer, 120)
{
	static const size_t lens[] = { 5, 1, 30, 2, 8 };
	size_t size;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	for (size = 1; size <= 50; size++) {
		size_t start = 0, offset = 0, done = 0;
		unsigned int i = 0, k;

		SEND(5, 1, 30, 2, 8);
		while (done < 46) {
			ssize_t n = RECEIVE(size, 0);
			size_t sum = 0, most = 0;

			ASSERT_LT(0, n);
			ASSERT_TRUE(self->got->has_lengths);
			for (k = 0; k < self->got->n; k++)
				sum += self->got->length[k];
			ASSERT_EQ(n, sum);
			if (offset || size < lens[i]) {
				/* Only a part of the first record fits. */
				most = lens[i] - offset < size ?
				       lens[i] - offset : size;
				ASSERT_EQ(1, self->got->n);
				ASSERT_EQ(most, n);
				offset += n;
				if (offset == lens[i]) {
					offset = 0;
					i++;
				}
				ASSERT_EQ(offset ? 0 : MSG_EOR,
					  self->got->msg_flags);
			} else {
				for (k = 0; k < self->got->n; k++)
					ASSERT_EQ(lens[i++],
						  self->got->length[k]);
				/* The rest of its octets were not delivered. */
				if (i < 5)
					ASSERT_GT(n + lens[i], size);
				ASSERT_EQ(MSG_EOR, self->got->msg_flags);
			}
			memcpy(self->fpdu + done, self->buf, n);
			done += n;
		}
		ASSERT_EQ(46, done);
		ASSERT_EQ(5, i);
		for (i = 0; i < 5; start += lens[i++])
			ASSERT_TRUE(record_good(self->fpdu + start, lens[i]));
	}
}

TEST_F(rx, batch_has_a_length_for_each_record)
{
	unsigned int room, left = 60, i;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	for (i = 0; i < left; i++)
		SEND(10);
	for (room = 1; room <= 10; room++) {
		ASSERT_EQ(room * 10, receive_with(self->fd, self->buf, BUF, 0,
						  self->got,
						  CMSG_LEN(room * 4)));
		EXPECT_EQ(room, self->got->n);
		EXPECT_EQ(MSG_EOR, self->got->msg_flags);
		left -= room;
	}
	/* Without space for a control message a call returns one record. */
	EXPECT_EQ(10, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(10, read(self->fd, self->buf, BUF));
	EXPECT_EQ(10, receive_with(self->fd, self->buf, BUF, 0, self->got,
				   CMSG_LEN(3)));
	EXPECT_EQ(MSG_EOR | MSG_CTRUNC, self->got->msg_flags);
	left -= 3;
	EXPECT_EQ(left * 10, RECEIVE(BUF, 0));
}

TEST_F_TIMEOUT(rx, batch_has_a_limit, 120)
{
	unsigned int i;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	for (i = 0; i < LENGTHS + 10; i++)
		ASSERT_EQ(0, peer_send_record(&self->peer, 8));
	ASSERT_TRUE(arrived(self->fd, self->peer.tx_position));
	EXPECT_EQ(LENGTHS * 8, RECEIVE(BUF, 0));
	EXPECT_EQ(LENGTHS, self->got->n);
	EXPECT_EQ(80, RECEIVE(BUF, 0));
	EXPECT_EQ(10, self->got->n);
}

TEST_F(rx, batch_with_recvinfo)
{
	u64 second;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECVINFO, 1));
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(100, 200, 300);
	second = self->peer.tx_position;
	SEND(400, 500);
	EXPECT_EQ(600, RECEIVE(900, 0));
	EXPECT_BATCH(100, 200, 300);
	EXPECT_EQ(0, self->got->info.position);
	EXPECT_EQ(0, self->got->info.order);
	EXPECT_EQ(100, self->got->info.length);
	EXPECT_EQ(MPA_RECVINFO_LAST, self->got->info.flags);
	EXPECT_EQ(900, RECEIVE(BUF, 0));
	EXPECT_BATCH(400, 500);
	EXPECT_EQ(second, self->got->info.position);
	EXPECT_EQ(3, self->got->info.order);
	EXPECT_EQ(400, self->got->info.length);
}

TEST_F(rx, batch_ends_before_a_bad_record)
{
	const bool crc = !(variant->flags & MPA_START_NO_CRC);
	size_t n;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(100, 200);
	n = next_fpdu(&self->peer, 300, self->fpdu);
	if (crc)
		self->fpdu[n - 10] ^= 1;
	else	/* Without CRCs only an impossible length is detected. */
		memset(self->fpdu, 0, 8);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	SEND(400);
	memset(self->buf, 0, 1000);
	EXPECT_EQ(300, RECEIVE(BUF, 0));
	EXPECT_BATCH(100, 200);
	EXPECT_EQ(2, mpa_info(self->fd).rx_ulpdus);
	EXPECT_EQ(300, mpa_info(self->fd).rx_octets);
	/* The error that follows the records is reported at once. */
	EXPECT_EQ(MPA_ERR_CRC, mpa_info(self->fd).error);
	EXPECT_EQ(0, inq(self->fd));
	EXPECT_EQ(POLLIN, poll_for(self->fd, POLLIN, 0));
	EXPECT_EQ(-1, RECEIVE(BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(MPA_ERR_CRC, mpa_info(self->fd).error);
	EXPECT_EQ(-1, RECEIVE(BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(2, mpa_info(self->fd).rx_ulpdus);
}

/* Section 8: a last message may report the error. */
TEST_F(rx, close_after_a_batch_before_a_bad_record_loses_nothing)
{
	const bool crc = !(variant->flags & MPA_START_NO_CRC);
	size_t n;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(100, 200);
	n = next_fpdu(&self->peer, 300, self->fpdu);
	if (crc)
		self->fpdu[n - 10] ^= 1;
	else
		memset(self->fpdu, 0, 8);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, n));
	ASSERT_EQ(true, acked(self->peer.fd));
	EXPECT_EQ(300, RECEIVE(BUF, 0));
	EXPECT_EQ(3, send(self->fd, "bye", 3, 0));
	EXPECT_EQ(0, close(self->fd));
	self->fd = -1;
	n = 0;
	while (n < BUF) {
		ssize_t ret = read(self->peer.fd, self->buf + n,
				   BUF - n);

		ASSERT_LE(0, ret);
		if (!ret)
			break;
		n += ret;
	}
	EXPECT_LE(12, n);
}

/* Contiguous records of one length are verified three at a time. */
#define ALIKE		8
#define ALIKE_LEN	300

/*
 * Send ALIKE such records on a new connection. FPDU @bad has a bad CRC, or a bad marker
 * with a good CRC. With @next, the FPDU after it does, too.
 */
static int send_alike(struct _test_data_rx *self, unsigned int flags, int bad,
		      bool next, bool marker)
{
	size_t at = 0, n, off;
	int fd[2], i;

	hang_up(self->fd);
	hang_up(self->peer.fd);
	self->fd = -1;
	self->peer.fd = -1;
	if (tcp_pair(AF_INET, fd))
		return -1;
	self->fd = fd[0];
	patience(self->fd, 20);
	if (receive_directly(self->fd, &self->peer, fd[1], flags) ||
	    set_int(self->fd, MPA_RECV_BATCH, 1))
		return -1;
	for (i = 0; i < ALIKE; i++, at += n) {
		u64 pos = self->peer.tx_position;
		u8 *fpdu = self->fpdu + at;

		n = next_fpdu(&self->peer, ALIKE_LEN, fpdu);
		off = -pos % 512;
		if (i != bad && !(next && i == bad + 1))
			continue;
		if (!marker) {
			fpdu[n / 2] ^= 1;
		} else if (off < n - 4) {
			fpdu[off + 3] ^= 4;
			model_crc(fpdu, n - 4, fpdu + n - 4);
		} else {
			return 1;
		}
	}
	if (write_all(self->peer.fd, self->fpdu, at) ||
	    !arrived(self->fd, self->peer.tx_position))
		return -1;
	return 0;
}

static void expect_alike(struct __test_metadata *_metadata,
			 struct _test_data_rx *self, int good, int code)
{
	int i;

	memset(self->buf, 0, ALIKE * ALIKE_LEN);
	if (good) {
		EXPECT_EQ(good * ALIKE_LEN, RECEIVE(BUF, 0));
		EXPECT_EQ(good, self->got->n);
		for (i = 0; i < good; i++)
			EXPECT_TRUE(record_good(self->buf + i * ALIKE_LEN,
						ALIKE_LEN));
	}
	EXPECT_EQ(good, mpa_info(self->fd).rx_ulpdus);
	if (good == ALIKE)
		return;
	EXPECT_EQ(-1, RECEIVE(BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(code, mpa_info(self->fd).error);
	EXPECT_EQ(good, mpa_info(self->fd).rx_ulpdus);
	/* No octet of an unverified record was delivered. */
	for (i = good * ALIKE_LEN; i < ALIKE * ALIKE_LEN; i++)
		EXPECT_EQ(0, self->buf[i]) break;
}

TEST_F(rx, batch_of_equal_records_ends_before_the_first_bad)
{
	int bad, next;

	if (variant->flags & MPA_START_NO_CRC)
		return;
	for (bad = 0; bad <= ALIKE; bad++) {
		for (next = 0; next < 2; next++) {
			ASSERT_EQ(0, send_alike(self, variant->flags, bad,
						next, false));
			expect_alike(_metadata, self, bad, MPA_ERR_CRC);
		}
	}
}

TEST_F(rx, batch_of_equal_records_ends_before_a_bad_marker)
{
	int bad, rc, seen = 0;

	if (!(variant->flags & MPA_START_MARKERS))
		return;
	for (bad = 0; bad < ALIKE; bad++) {
		rc = send_alike(self, variant->flags, bad, false, true);
		ASSERT_LE(0, rc);
		if (rc)	/* It has no marker. */
			continue;
		expect_alike(_metadata, self, bad, MPA_ERR_MARKER);
		seen++;
	}
	EXPECT_LE(ALIKE / 2, seen);
}

/* A record that does not fit the buffer stays queued, and so do all later ones. */
TEST_F(rx, batch_of_equal_records_ends_with_the_room)
{
	int room, i;

	for (room = 1; room < ALIKE; room++) {
		size_t len = room * ALIKE_LEN + 100;

		ASSERT_EQ(0, send_alike(self, variant->flags, -2, false,
					false));
		memset(self->buf, 0, BUF);
		EXPECT_EQ(room * ALIKE_LEN, RECEIVE(len, 0));
		EXPECT_EQ(room, self->got->n);
		for (i = room * ALIKE_LEN; i < ALIKE * ALIKE_LEN; i++)
			EXPECT_EQ(0, self->buf[i]) break;
		EXPECT_EQ((ALIKE - room) * ALIKE_LEN, RECEIVE(BUF, 0));
		EXPECT_EQ(ALIKE - room, self->got->n);
		EXPECT_TRUE(record_good(self->buf, ALIKE_LEN));
	}
}

/* As above, but the program's mapped memory ends. */
TEST_F(rx, batch_of_equal_records_ends_with_the_memory)
{
	int room;

	for (room = 1; room < ALIKE; room++) {
		u8 *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		u8 *to = page + 4096 - room * ALIKE_LEN - 100;

		ASSERT_NE(MAP_FAILED, page);
		ASSERT_EQ(0, mprotect(page + 4096, 4096, PROT_NONE));
		ASSERT_EQ(0, send_alike(self, variant->flags, -2, false,
					false));
		EXPECT_EQ(room * ALIKE_LEN,
			  receive(self->fd, to, ALIKE * ALIKE_LEN, 0,
				  self->got));
		EXPECT_EQ(room, self->got->n);
		EXPECT_EQ(room, mpa_info(self->fd).rx_ulpdus);
		EXPECT_TRUE(record_good(to + (room - 1) * ALIKE_LEN,
					ALIKE_LEN));
		EXPECT_EQ((ALIKE - room) * ALIKE_LEN, RECEIVE(BUF, 0));
		EXPECT_TRUE(record_good(self->buf, ALIKE_LEN));
		munmap(page, 8192);
	}
}

TEST_F(rx, batch_that_cannot_be_written_stays)
{
	struct iovec iov[2] = { { self->buf, 150 }, { (void *)8, 1000 } };
	char *control = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct msghdr msg = {
		.msg_iov = iov, .msg_iovlen = 2,
		.msg_control = control, .msg_controllen = 4096,
	};

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(100, 200, 300);

	/* A fault occurs when the lengths are copied: no record is lost. */
	iov[0].iov_len = 1000;
	msg.msg_iovlen = 1;
	ASSERT_EQ(0, mprotect(control, 4096, PROT_READ));
	EXPECT_EQ(-1, recvmsg(self->fd, &msg, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, mpa_info(self->fd).rx_ulpdus);
	ASSERT_EQ(0, mprotect(control, 4096, PROT_READ | PROT_WRITE));

	/* A fault occurs at the second record: the first is delivered, then the error. */
	iov[0].iov_len = 150;
	msg.msg_iovlen = 2;
	EXPECT_EQ(100, recvmsg(self->fd, &msg, 0));
	EXPECT_EQ(1, mpa_info(self->fd).rx_ulpdus);
	msg.msg_controllen = 4096;
	EXPECT_EQ(-1, recvmsg(self->fd, &msg, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(500, RECEIVE(BUF, 0));
	EXPECT_BATCH(200, 300);
	munmap(control, 4096);
}

/* Records stay queued even if the next record is bad. */
TEST_F(rx, batch_before_a_bad_record_that_cannot_be_written_stays)
{
	struct iovec iov = { self->buf, BUF };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = (void *)8, .msg_controllen = 1000,
	};

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(100, 200);
	memset(self->fpdu, 0, 8);
	ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu, 8));
	ASSERT_TRUE(arrived(self->fd, self->peer.tx_position + 8));
	EXPECT_EQ(-1, recvmsg(self->fd, &msg, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(MPA_ERR_NONE, mpa_info(self->fd).error);
	EXPECT_EQ(300, RECEIVE(BUF, 0));
	EXPECT_BATCH(100, 200);
	EXPECT_EQ(-1, RECEIVE(BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
}

TEST_F(rx, batch_is_not_for_peek_and_trunc)
{
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	SEND(100, 200, 300);
	EXPECT_EQ(100, RECEIVE(BUF, MSG_PEEK));
	EXPECT_BATCH(100);
	EXPECT_EQ(100, RECEIVE(10, MSG_PEEK | MSG_TRUNC));
	EXPECT_EQ(100, self->got->length[0]);
	EXPECT_EQ(100, RECEIVE(BUF, MSG_TRUNC));
	EXPECT_EQ(1, self->got->n);
	EXPECT_EQ(500, RECEIVE(BUF, 0));
	EXPECT_BATCH(200, 300);
}

static int file_put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), err;

	if (fd < 0)
		return -1;
	err = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

/* Whether the fault that was armed last has happened. */
static bool failed(int fail_nth)
{
	char left[16] = "";

	return pread(fail_nth, left, sizeof(left) - 1, 0) > 0 && atoi(left) <= 0;
}

/*
 * On a kernel with fault injection: the allocation of the lengths fails, and each copy
 * to and from the program. No octet is lost.
 */
TEST_F(rx, batch_under_faults)
{
	int fail_nth = open("/proc/thread-self/fail-nth", O_RDWR), nth;
	bool hit = true;
	int alone = 0;

	mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
	if (fail_nth < 0 ||
	    file_put("/sys/kernel/debug/failslab/ignore-gfp-wait", "N"))
		SKIP(return, "no fault injection");
	/* Do not log each fault. */
	file_put("/sys/kernel/debug/failslab/verbose", "0");
	file_put("/sys/kernel/debug/fail_usercopy/verbose", "0");
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	for (nth = 1; hit; nth++) {
		static const u32 lens[] = { 10, 20, 30 };
		unsigned int k, seen = 0, calls = 0;
		char text[4];

		ASSERT_GT(50, nth);
		snprintf(text, sizeof(text), "%d", nth);
		SEND(10, 20, 30);
		ASSERT_LT(0, write(fail_nth, text, strlen(text)));
		while (seen < 3) {
			u8 *at = self->buf;

			if (RECEIVE(BUF, MSG_DONTWAIT) < 0) {
				ASSERT_EQ(EFAULT, errno);
				continue;
			}
			if (!calls++)
				hit = failed(fail_nth);
			for (k = 0; k < self->got->n; k++) {
				ASSERT_GT(3, seen);
				ASSERT_EQ(lens[seen], self->got->length[k]);
				ASSERT_TRUE(record_good(at, lens[seen]));
				at += lens[seen++];
			}
			if (calls == 1 && seen == 1)
				alone++;
		}
		/* The fault may hit this write. */
		while (write(fail_nth, "0", 1) < 0)
			;
	}
	/* This happens at least if there is no memory for the lengths. */
	EXPECT_LE(1, alone);
	close(fail_nth);
}

/*
 * Try many divisions of octets into segments, and of segments into packets. Octets that
 * a task sends are contiguous in memory, unless the task also sends on @between.
 */
static void batch_in_steps(struct __test_metadata *_metadata, struct _test_data_rx *self,
			   size_t step, const int *between)
{
	size_t len = 0, at, seen = 0;
	unsigned int i;
	u8 gap[100];

	for (i = 0; i < 20; i++)
		len += next_fpdu(&self->peer, 1 + i * 13, self->fpdu + len);
	for (at = 0; at < len; at += step) {
		ASSERT_EQ(0, write_all(self->peer.fd, self->fpdu + at,
				       len - at < step ? len - at : step));
		if (!between)
			continue;
		ASSERT_EQ(0, write_all(between[0], self->fpdu, sizeof(gap)));
		ASSERT_EQ(sizeof(gap), read_all(between[1], gap, sizeof(gap)));
	}
	ASSERT_TRUE(arrived(self->fd, self->peer.tx_position));
	ASSERT_EQ(2490, RECEIVE(BUF, 0));
	ASSERT_EQ(20, self->got->n);
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(1 + i * 13, self->got->length[i]);
		ASSERT_TRUE(record_good(self->buf + seen, 1 + i * 13));
		seen += 1 + i * 13;
	}
}

static const size_t batch_steps[] = { 1, 2, 3, 7, 509, 1448, 5000 };

TEST_F_TIMEOUT(rx, batch_over_any_segments, 120)
{
	unsigned int k;

	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	for (k = 0; k < ARRAY_SIZE(batch_steps); k++)
		batch_in_steps(_metadata, self, batch_steps[k], NULL);
}

TEST_F_TIMEOUT(rx, batch_over_octets_apart, 120)
{
	unsigned int k;
	int other[2];

	ASSERT_EQ(0, tcp_pair(AF_INET, other));
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	for (k = 0; k < ARRAY_SIZE(batch_steps); k++)
		batch_in_steps(_metadata, self, batch_steps[k], other);
	hang_up(other[0]);
	hang_up(other[1]);
}

TEST_HARNESS_MAIN
