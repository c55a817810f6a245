// SPDX-License-Identifier: GPL-2.0
/* MPA together with other options and uses of a socket. */

#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/tls.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_pair.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP	262
#endif
#ifndef SO_PEEK_OFF
#define SO_PEEK_OFF	42
#endif

static int int_put(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? errno : 0;
}

static int listen_at(int family, struct sockaddr_storage *addr, int reuseport)
{
	int fd = socket(family, SOCK_STREAM, 0);
	socklen_t len = sizeof(*addr);

	if (reuseport && int_put(fd, SOL_SOCKET, SO_REUSEPORT, 1))
		return -1;
	if (!addr->ss_family)
		addr->ss_family = family;
	if (bind(fd, (struct sockaddr *)addr, len) || mpa_attach(fd) ||
	    listen(fd, 16) || getsockname(fd, (struct sockaddr *)addr, &len))
		return -1;
	patience(fd, 20);
	return fd;
}

/* ---- other users of a socket's callbacks ---- */

static int sockmap_new(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_SOCKMAP, .key_size = 4,
		.value_size = 4, .max_entries = 1,
	};

	return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

static int sockmap_do(int cmd, int map, int fd)
{
	u32 key = 0, value = fd;
	union bpf_attr attr = {
		.map_fd = map, .key = (unsigned long)&key,
		.value = (unsigned long)&value,
	};

	if (cmd == BPF_MAP_DELETE_ELEM)
		attr.value = 0;
	return syscall(SYS_bpf, cmd, &attr, sizeof(attr)) ? errno : 0;
}

TEST_F(pair, sockmap)
{
	int map = sockmap_new();

	if (map < 0)
		SKIP(return, "no sockmap: %m");
	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(EINVAL, sockmap_do(BPF_MAP_UPDATE_ELEM, map, self->fd[0]));
	EXPECT_TRUE(records_go(self));

	/* Now in the other order. */
	ASSERT_EQ(0, fresh(self, false, true));
	ASSERT_EQ(0, sockmap_do(BPF_MAP_UPDATE_ELEM, map, self->fd[0]));
	EXPECT_EQ(-1, mpa_attach(self->fd[0]));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
	ASSERT_EQ(0, sockmap_do(BPF_MAP_DELETE_ELEM, map, self->fd[0]));
	EXPECT_EQ(0, mpa_attach(self->fd[0]));
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_TRUE(records_go(self));
	close(map);
}

TEST_F(pair, tls)
{
	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(-1, setsockopt(self->fd[0], SOL_TCP, TCP_ULP, "tls", 4));
	EXPECT_TRUE(errno == EEXIST || errno == ENOENT);
	EXPECT_TRUE(records_go(self));

	ASSERT_EQ(0, fresh(self, false, false));
	if (setsockopt(self->fd[0], SOL_TCP, TCP_ULP, "tls", 4))
		SKIP(return, "no tls: %m");
	EXPECT_EQ(-1, mpa_attach(self->fd[0]));
	EXPECT_EQ(EEXIST, errno);
	EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
}

TEST_F(pair, mptcp)
{
	int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);

	if (fd < 0)
		SKIP(return, "no MPTCP: %m");
	EXPECT_EQ(-1, mpa_attach(fd));
	EXPECT_TRUE(errno == ENOPROTOOPT || errno == EOPNOTSUPP);
	close(fd);
}

/* ---- options that would bypass MPA ---- */

TEST_F(pair, repair)
{
	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(EOPNOTSUPP, int_put(self->fd[0], SOL_TCP, TCP_REPAIR, 1));
	EXPECT_TRUE(records_go(self));

	ASSERT_EQ(0, fresh(self, true, true));
	ASSERT_EQ(0, int_put(self->fd[0], SOL_TCP, TCP_REPAIR, 1));
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(EBUSY, errno);
	ASSERT_EQ(0, int_put(self->fd[0], SOL_TCP, TCP_REPAIR, 0));
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	EXPECT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_TRUE(records_go(self));
}

TEST_F(pair, zerocopy)
{
	struct tcp_zerocopy_receive receive = {};
	socklen_t len = sizeof(receive);

	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(0, int_put(self->fd[0], SOL_SOCKET, SO_ZEROCOPY, 1));
	EXPECT_EQ(-1, send(self->fd[0], "zero", 4, MSG_ZEROCOPY));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, getsockopt(self->fd[1], SOL_TCP, TCP_ZEROCOPY_RECEIVE,
				 &receive, &len));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED,
				   self->fd[1], 0));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_TRUE(records_go(self));
}

TEST_F(pair, urgent_data)
{
	char octet;

	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(-1, send(self->fd[0], "u", 1, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, recv(self->fd[1], &octet, 1, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(0, int_put(self->fd[1], SOL_SOCKET, SO_OOBINLINE, 1));
	EXPECT_TRUE(records_go(self));
}

TEST_F(pair, peek_off)
{
	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(EOPNOTSUPP, int_put(self->fd[1], SOL_SOCKET, SO_PEEK_OFF, 2));
	ASSERT_EQ(10, send(self->fd[0], "0123456789", 10, 0));
	EXPECT_EQ(10, recv(self->fd[1], self->buf, 100, MSG_PEEK));
	EXPECT_EQ(10, recv(self->fd[1], self->buf, 100, MSG_PEEK));
	EXPECT_EQ(10, recv(self->fd[1], self->buf, 100, 0));
}

TEST_F(pair, disconnect)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(-1, connect(self->fd[0], &none, sizeof(none)));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_TRUE(records_go(self));

	/* A socket with MPA attached but not started stays plain TCP. */
	ASSERT_EQ(0, fresh(self, true, true));
	EXPECT_EQ(0, connect(self->fd[0], &none, sizeof(none)));
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(self->fd[0]).state);
}

TEST_F(pair, addrform)
{
	struct sockaddr_storage addr = {};
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&addr;
	int listener;

	/* An IPv6 socket with an IPv4 peer may become an IPv4 socket. */
	listener = listen_at(AF_INET6, &addr, 0);
	ASSERT_LE(0, listener);
	ASSERT_EQ(0, mpa_start_as(listener, &self->start[1]));
	inet_pton(AF_INET6, "::ffff:127.0.0.1", &six->sin6_addr);
	self->fd[0] = socket(AF_INET6, SOCK_STREAM, 0);
	ASSERT_EQ(0, connect(self->fd[0], (struct sockaddr *)&addr,
			     sizeof(*six)));
	self->fd[1] = accept(listener, NULL, NULL);
	close(listener);
	patience(self->fd[0], 20);
	patience(self->fd[1], 20);
	ASSERT_EQ(0, mpa_attach(self->fd[0]));
	EXPECT_EQ(EBUSY, int_put(self->fd[0], SOL_IPV6, IPV6_ADDRFORM,
				 AF_INET));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(EBUSY, int_put(self->fd[0], SOL_IPV6, IPV6_ADDRFORM,
				 AF_INET));
	EXPECT_EQ(EBUSY, int_put(self->fd[1], SOL_IPV6, IPV6_ADDRFORM,
				 AF_INET));
	EXPECT_TRUE(records_go(self));
}

/* ---- listening ---- */

static int write_sysctl(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY), ret;

	if (fd < 0)
		return -1;
	ret = write(fd, value, strlen(value)) < 0 ? -1 : 0;
	close(fd);
	return ret;
}

/* A request may arrive in the SYN. */
TEST_F(pair, fast_open)
{
	struct sockaddr_storage addr = {};
	u8 frame[FRAME_LEN];
	int listener;

	/* Use no cookies, and allow all listeners. */
	ASSERT_EQ(0, write_sysctl("/proc/sys/net/ipv4/tcp_fastopen", "1543"));
	listener = listen_at(AF_INET, &addr, 0);
	ASSERT_LE(0, listener);
	ASSERT_EQ(0, mpa_start_as(listener, &self->start[1]));
	self->fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	patience(self->fd[0], 20);
	frame_put(frame, false, 0x40, 1, 0);
	ASSERT_EQ(FRAME_LEN, sendto(self->fd[0], frame, FRAME_LEN,
				    MSG_FASTOPEN, (struct sockaddr *)&addr,
				    sizeof(addr)));
	self->fd[1] = accept(listener, NULL, NULL);
	ASSERT_LE(0, self->fd[1]);
	close(listener);
	ASSERT_EQ(FRAME_LEN, read_all(self->fd[0], frame, FRAME_LEN));
	EXPECT_EQ(0, memcmp(frame, "MPA ID Rep Frame", 16));

	ASSERT_EQ(0, negotiate(self));
	EXPECT_EQ(-1, sendto(self->fd[0], "x", 1, MSG_FASTOPEN,
			     (struct sockaddr *)&addr, sizeof(addr)));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_TRUE(records_go(self));
}

/* Each child starts with its own listening socket's parameters. */
TEST_F(pair, reuseport)
{
	struct sockaddr_storage addr = {};
	int listener[2], had[2] = {}, i;

	for (i = 0; i < 2; i++) {
		listener[i] = listen_at(AF_INET, &addr, 1);
		ASSERT_LE(0, listener[i]);
		set_nonblock(listener[i]);
		self->start[1].private_len = 10 + i;
		ASSERT_EQ(0, mpa_start_as(listener[i], &self->start[1]));
	}
	for (i = 0; i < 64; i++) {
		int from;

		self->fd[0] = socket(AF_INET, SOCK_STREAM, 0);
		patience(self->fd[0], 20);
		ASSERT_EQ(0, connect(self->fd[0], (struct sockaddr *)&addr,
				     sizeof(addr)));
		do {
			from = 0;
			self->fd[1] = accept(listener[0], NULL, NULL);
			if (self->fd[1] >= 0)
				break;
			from = 1;
			self->fd[1] = accept(listener[1], NULL, NULL);
		} while (self->fd[1] < 0 && !poll(NULL, 0, 1));
		patience(self->fd[1], 20);
		had[from]++;
		ASSERT_EQ(0, mpa_attach(self->fd[0]));
		ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
		ASSERT_EQ(10 + from, mpa_peer(self->fd[0]).private_len);
		ASSERT_TRUE(records_go(self));
		hang_up(self->fd[0]);
		hang_up(self->fd[1]);
	}
	EXPECT_NE(0, had[0]);
	EXPECT_NE(0, had[1]);
	close(listener[0]);
	close(listener[1]);
	self->fd[0] = -1;
	self->fd[1] = -1;
}

/* ---- one socket shared by several users ---- */

static int fd_pass(int over, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = "", octet = 'f';
	struct iovec iov = { &octet, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	if (fd < 0) {
		if (recvmsg(over, &msg, 0) != 1 || !CMSG_FIRSTHDR(&msg))
			return -1;
		return *(int *)CMSG_DATA(CMSG_FIRSTHDR(&msg));
	}
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(cmsg) = fd;
	return sendmsg(over, &msg, 0) == 1 ? 0 : -1;
}

TEST_F(pair, dup_and_pass_on)
{
	int other, unix_fd[2], status;
	pid_t pid;

	ASSERT_EQ(0, negotiate(self));
	/* Begin a record through one descriptor, and end it through another. */
	other = dup(self->fd[0]);
	record_fill(self->buf, 1000);
	ASSERT_EQ(400, send(self->fd[0], self->buf, 400, MSG_MORE));
	close(self->fd[0]);
	self->fd[0] = other;
	ASSERT_EQ(600, send(self->fd[0], self->buf + 400, 600, 0));
	ASSERT_EQ(1000, recv(self->fd[1], self->buf, sizeof(self->buf), 0));
	EXPECT_TRUE(record_good(self->buf, 1000));

	/* Pass the descriptor to another process, and close it here. */
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, unix_fd));
	record_fill(self->buf, 500);
	ASSERT_EQ(500, send(self->fd[0], self->buf, 500, 0));
	ASSERT_EQ(0, fd_pass(unix_fd[0], self->fd[1]));
	close(self->fd[1]);
	self->fd[1] = -1;
	pid = fork();
	if (!pid) {
		int fd = fd_pass(unix_fd[1], -1);

		_exit(recv(fd, self->buf, 100, 0) == 100 &&
		      recv(fd, self->buf, sizeof(self->buf), 0) == 400 &&
		      send(fd, "thanks", 6, 0) == 6 ? 0 : 1);
	}
	close(unix_fd[0]);
	close(unix_fd[1]);
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_EQ(6, recv(self->fd[0], self->buf, sizeof(self->buf), 0));
	EXPECT_EQ(0, recv(self->fd[0], self->buf, sizeof(self->buf), 0));
}

struct plain_reader {
	int fd;
	pid_t tid;
	ssize_t got;
};

static void *read_plainly(void *arg)
{
	struct plain_reader *reader = arg;
	char buf[8];

	__atomic_store_n(&reader->tid, gettid(), __ATOMIC_RELEASE);
	reader->got = recv(reader->fd, buf, sizeof(buf), 0);
	return NULL;
}

/* A call that waits inside TCP takes octets as they arrive, so MPA cannot start. */
TEST_F(pair, start_while_another_thread_reads)
{
	struct mpa_start direct = { .role = MPA_ROLE_DIRECT, .revision = 1 };
	struct plain_reader reader = {};
	pthread_t thread;

	ASSERT_EQ(0, fresh(self, true, true));
	reader.fd = self->fd[0];
	pthread_create(&thread, NULL, read_plainly, &reader);
	ASSERT_TRUE(asleep(&reader.tid));
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &direct));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(-1, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(self->fd[0]).state);
	ASSERT_EQ(5, send(self->fd[1], "plain", 5, 0));
	pthread_join(thread, NULL);
	EXPECT_EQ(5, reader.got);
	ASSERT_EQ(0, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(0, mpa_start_as(self->fd[0], &self->start[0]));
	EXPECT_TRUE(records_go(self));
}

/* ---- io_uring, with the kernel's header alone ---- */

struct ring {
	int fd;
	u32 *sq_tail, *sq_array, *cq_head, *cq_tail, mask;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
};

static int ring_open(struct ring *ring)
{
	struct io_uring_params p = {};
	u8 *map;

	ring->fd = syscall(SYS_io_uring_setup, 8, &p);
	if (ring->fd < 0)
		return -1;
	map = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*ring->cqe) +
		   p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE,
		   MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
	ring->sqe = mmap(NULL, p.sq_entries * sizeof(*ring->sqe),
			 PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			 IORING_OFF_SQES);
	if (map == MAP_FAILED || ring->sqe == MAP_FAILED)
		return -1;
	ring->sq_tail = (u32 *)(map + p.sq_off.tail);
	ring->sq_array = (u32 *)(map + p.sq_off.array);
	ring->cq_head = (u32 *)(map + p.cq_off.head);
	ring->cq_tail = (u32 *)(map + p.cq_off.tail);
	ring->cqe = (struct io_uring_cqe *)(map + p.cq_off.cqes);
	ring->mask = p.cq_entries - 1;
	return 0;
}

static int ring_submit(struct ring *ring, int op, int fd, const void *addr,
		       u32 len, u64 id)
{
	u32 tail = *ring->sq_tail, at = tail & 7;

	ring->sqe[at] = (struct io_uring_sqe){
		.opcode = op, .fd = fd, .addr = (unsigned long)addr,
		.len = len, .user_data = id,
	};
	ring->sq_array[at] = at;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
	return syscall(SYS_io_uring_enter, ring->fd, 1, 0, 0, NULL, 0);
}

/* Wait for the next completion. Return: the operation's result. */
static int ring_result(struct ring *ring, u64 *id)
{
	u32 head = *ring->cq_head;
	int res;

	while (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
		syscall(SYS_io_uring_enter, ring->fd, 0, 1,
			IORING_ENTER_GETEVENTS, NULL, 0);
	res = ring->cqe[head & ring->mask].res;
	*id = ring->cqe[head & ring->mask].user_data;
	__atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
	return res;
}

TEST_F(pair, io_uring)
{
	struct ring ring;
	int i, res[2];
	u64 id[2];

	if (ring_open(&ring))
		SKIP(return, "no io_uring: %m");
	ASSERT_EQ(0, negotiate(self));

	/* Cancel a waiting recv: it must have consumed nothing. */
	for (i = 0; i < 50; i++) {
		size_t len = 10 + i;

		ASSERT_EQ(1, ring_submit(&ring, IORING_OP_RECV, self->fd[1],
					 self->buf, sizeof(self->buf), 1));
		ASSERT_EQ(1, ring_submit(&ring, IORING_OP_ASYNC_CANCEL, -1,
					 (void *)1, 0, 2));
		res[0] = ring_result(&ring, &id[0]);
		res[1] = ring_result(&ring, &id[1]);
		ASSERT_EQ(-ECANCELED, id[0] == 1 ? res[0] : res[1]);
		ASSERT_EQ(0, id[0] == 2 ? res[0] : res[1]);

		ASSERT_EQ(1, ring_submit(&ring, IORING_OP_RECV, self->fd[1],
					 self->buf, sizeof(self->buf), 3));
		ASSERT_EQ(1, ring_submit(&ring, IORING_OP_SEND, self->fd[0],
					 record_of(len), len, 4));
		res[0] = ring_result(&ring, &id[0]);
		res[1] = ring_result(&ring, &id[1]);
		ASSERT_EQ(len, res[0]);
		ASSERT_EQ(len, res[1]);
		ASSERT_TRUE(record_good(self->buf, len));
	}
	ASSERT_EQ(1, ring_submit(&ring, IORING_OP_SEND_ZC, self->fd[0],
				 record_of(9), 9, 5));
	EXPECT_EQ(-EOPNOTSUPP, ring_result(&ring, &id[0]));
	EXPECT_TRUE(records_go(self));
	close(ring.fd);
}

TEST_HARNESS_MAIN
