// SPDX-License-Identifier: GPL-2.0
/* Listening sockets, and connections accepted from them. */

#include <pthread.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"

#define STRANGERS	50	/* many, as each is a race */

FIXTURE(listener)
{
	int fd;
	struct sockaddr_storage addr;	/* for clients */
	socklen_t len;
	struct mpa_start start;
	u8 buf[2048];
};

FIXTURE_VARIANT(listener)
{
	int family;
	bool mapped;
};

FIXTURE_VARIANT_ADD(listener, ipv4) { .family = AF_INET };
FIXTURE_VARIANT_ADD(listener, ipv6) { .family = AF_INET6 };
FIXTURE_VARIANT_ADD(listener, mapped) { .family = AF_INET6, .mapped = true };

FIXTURE_SETUP(listener)
{
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	bool ipv6 = variant->family == AF_INET6;

	ASSERT_EQ(0, own_netns());
	self->start = (struct mpa_start){
		.role = MPA_ROLE_RESPONDER, .revision = 1,
	};
	self->fd = socket(variant->family, SOCK_STREAM, 0);
	ASSERT_EQ(0, bind(self->fd, ipv6 ? (void *)&any6 : (void *)&any,
			  ipv6 ? sizeof(any6) : sizeof(any)));
	self->len = sizeof(self->addr);
	ASSERT_EQ(0, getsockname(self->fd, (void *)&self->addr, &self->len));
	v4.sin_port = ((struct sockaddr_in *)&self->addr)->sin_port;
	if (variant->mapped || !ipv6) {
		memcpy(&self->addr, &v4, sizeof(v4));
		self->len = sizeof(v4);
	} else {
		((struct sockaddr_in6 *)&self->addr)->sin6_addr =
			in6addr_loopback;
	}
	patience(self->fd, 20);
}

FIXTURE_TEARDOWN(listener)
{
	close(self->fd);
}

static int listener_start(struct _test_data_listener *self)
{
	if (mpa_attach(self->fd) || mpa_start_as(self->fd, &self->start))
		return -1;
	return listen(self->fd, 512);
}

/* Move the listener to another port. */
static int listener_moved(struct _test_data_listener *self)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (getsockname(self->fd, (void *)&addr, &len))
		return -1;
	((struct sockaddr_in *)&self->addr)->sin_port =
		((struct sockaddr_in *)&addr)->sin_port;
	return 0;
}

static int client(struct _test_data_listener *self)
{
	int fd = socket(self->addr.ss_family, SOCK_STREAM, 0);

	if (connect(fd, (void *)&self->addr, self->len))
		return -1;
	patience(fd, 20);
	return fd;
}

/* Connect, and send the first @len octets of a request of 20 + 3 octets. */
static int client_says(struct _test_data_listener *self, size_t len)
{
	u8 frame[FRAME_LEN + 3] = {};
	int fd = client(self);

	frame_put(frame, false, 0x40, 1, 3);
	return fd < 0 || write_all(fd, frame, len) ? -1 : fd;
}

static int child(struct _test_data_listener *self)
{
	int fd = accept(self->fd, NULL, NULL);

	patience(fd, 20);
	return fd;
}

/* Whether the client, which has sent its request, receives the reply. */
static bool served(int client_fd)
{
	u8 reply[FRAME_LEN];

	return read_all(client_fd, reply, FRAME_LEN) == FRAME_LEN &&
	       !memcmp(reply, "MPA ID Rep Frame", 16);
}

TEST_F(listener, each_child_starts_by_itself)
{
	int clients[8], children[8], i;
	struct mpa_info info;

	self->start.flags = MPA_START_MARKERS;
	self->start.private_len = 5;
	memcpy(self->start.private_data, "hello", 5);
	ASSERT_EQ(0, listener_start(self));
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(self->fd).state);
	for (i = 0; i < 8; i++) {
		u8 frame[FRAME_LEN + 8] = {};

		clients[i] = client(self);
		ASSERT_LE(0, clients[i]);
		frame_put(frame, false, i & 1 ? 0xc0 : 0x40, 1, i);
		memset(frame + FRAME_LEN, 'a' + i, i);
		ASSERT_EQ(0, write_all(clients[i], frame, FRAME_LEN + i));
	}
	for (i = 0; i < 8; i++) {
		u8 reply[FRAME_LEN + 5];

		children[i] = child(self);
		ASSERT_LE(0, children[i]);
		ASSERT_EQ(sizeof(reply), read_all(clients[i], reply,
						  sizeof(reply)));
		EXPECT_EQ(0xc0, reply[16]);
		EXPECT_EQ(0, memcmp(reply + FRAME_LEN, "hello", 5));
	}
	for (i = 0; i < 8; i++) {
		struct peer peer = { .fd = clients[i], .tx_markers = true };

		EXPECT_EQ(i, mpa_peer(children[i]).private_len);
		EXPECT_TRUE(!i || mpa_peer(children[i]).private_data[0] ==
				  'a' + i);
		info = mpa_info(children[i]);
		EXPECT_EQ(MPA_STATE_FULL, info.state);
		EXPECT_EQ(MPA_ROLE_RESPONDER, info.role);
		EXPECT_EQ(MPA_INFO_CRC | MPA_INFO_RX_MARKERS |
			  (i & 1 ? MPA_INFO_TX_MARKERS : 0), info.flags);
		ASSERT_EQ(0, peer_send_record(&peer, 600 + i));
		EXPECT_EQ(600 + i, recv(children[i], self->buf, 1000, 0));
		EXPECT_TRUE(record_good(self->buf, 600 + i));
		EXPECT_EQ(1, mpa_info(children[i]).rx_ulpdus);
	}
	/* Children do not need their listener, nor each other. */
	close(self->fd);
	self->fd = -1;
	for (i = 0; i < 8; i++) {
		EXPECT_EQ(3, send(children[i], "yes", 3, MSG_NOSIGNAL));
		EXPECT_LT(0, recv(clients[i], self->buf, 100, 0));
		close(children[i]);
		close(clients[i]);
	}
}

/* MPA_START precedes listen(2), so that no client can connect before MPA_START. */
TEST_F(listener, start_before_listen)
{
	int fd, c, first;

	/* Once its socket is closed, the fixture's port is free. */
	close(self->fd);
	first = socket(variant->family, SOCK_STREAM, 0);
	ASSERT_EQ(0, mpa_attach(first));
	EXPECT_EQ(-1, mpa_start_as(first, &self->start));
	EXPECT_EQ(ENOTCONN, errno);
	if (variant->family == AF_INET) {
		struct sockaddr_in any = { .sin_family = AF_INET };

		any.sin_port = ((struct sockaddr_in *)&self->addr)->sin_port;
		ASSERT_EQ(0, bind(first, (void *)&any, sizeof(any)));
	} else {
		struct sockaddr_in6 any = { .sin6_family = AF_INET6 };

		any.sin6_port = ((struct sockaddr_in *)&self->addr)->sin_port;
		ASSERT_EQ(0, bind(first, (void *)&any, sizeof(any)));
	}
	EXPECT_EQ(-1, mpa_start(first, MPA_ROLE_INITIATOR, 0));
	EXPECT_EQ(ENOTCONN, errno);
	ASSERT_EQ(0, mpa_start_as(first, &self->start));
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(first).state);
	EXPECT_EQ(-1, mpa_start_as(first, &self->start));
	EXPECT_EQ(EISCONN, errno);
	self->fd = first;
	ASSERT_EQ(0, listen(self->fd, 512));
	fd = client_says(self, FRAME_LEN + 3);
	c = child(self);
	ASSERT_LE(0, c);
	EXPECT_TRUE(served(fd));
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(c).state);
	hang_up(fd);
	close(c);
}

/* After MPA_START the socket may connect instead of listen. */
TEST_F(listener, start_before_connect_is_forgotten)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	int fd, c;

	if (self->addr.ss_family != AF_INET)
		return;
	ASSERT_EQ(0, listener_start(self));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, bind(fd, (void *)&any, sizeof(any)));
	ASSERT_EQ(0, mpa_attach(fd));
	ASSERT_EQ(0, mpa_start_as(fd, &self->start));
	ASSERT_EQ(0, connect(fd, (void *)&self->addr, self->len));
	patience(fd, 20);
	c = child(self);
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(fd).state);
	ASSERT_EQ(0, mpa_start(fd, MPA_ROLE_INITIATOR, 0));
	EXPECT_TRUE(record_goes(fd, c, 99));
	/* The socket does not listen after the connection has ended. */
	hang_up(c);
	EXPECT_NE(0, POLLHUP & poll_for(fd, 0, 20000));
	EXPECT_EQ(-1, mpa_start_as(fd, &self->start));
	close(fd);
}

TEST_F(listener, request_waits_for_accept)
{
	int fd, c;

	ASSERT_EQ(0, listener_start(self));
	fd = client_says(self, FRAME_LEN + 3);
	ASSERT_EQ(POLLIN, poll_for(self->fd, POLLIN, 20000));
	/* There is no reply before accept(2). */
	EXPECT_EQ(0, poll_for(fd, POLLIN, 30));
	c = child(self);
	ASSERT_LE(0, c);
	EXPECT_TRUE(served(fd));
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(c).state);
	close(c);
	close(fd);
}

TEST_F(listener, children_decide_by_hand)
{
	const struct mpa_reply no = { .private_len = 1, .private_data = "n" };
	int fd, c, reject;
	char buf[8];

	self->start.flags = MPA_START_MANUAL;
	self->start.private_len = 4;
	memcpy(self->start.private_data, "four", 4);
	ASSERT_EQ(0, listener_start(self));
	for (reject = 0; reject < 2; reject++) {
		fd = client_says(self, FRAME_LEN + 3);
		c = child(self);
		ASSERT_LE(0, c);
		ASSERT_EQ(POLLIN, poll_for(c, POLLIN, 20000));
		EXPECT_EQ(MPA_STATE_REQUESTED, mpa_info(c).state);
		EXPECT_EQ(3, mpa_peer(c).private_len);
		EXPECT_EQ(0, reject ? decide_as(c, MPA_REJECT, &no, sizeof(no))
				    : decide(c, MPA_ACCEPT));
		EXPECT_TRUE(served(fd));
		EXPECT_EQ(reject ? 1 : 4, recv(fd, buf, sizeof(buf), 0));
		EXPECT_EQ(0, memcmp(buf, reject ? "n" : "four",
				    reject ? 1 : 4));
		if (reject)
			EXPECT_TRUE(text_goes(fd, c));
		close(c);
		close(fd);
	}
}

TEST_F(listener, children_of_an_attached_listener_are_idle)
{
	int fd, c;

	ASSERT_EQ(0, mpa_attach(self->fd));
	ASSERT_EQ(0, listen(self->fd, 512));
	fd = client(self);
	c = child(self);
	ASSERT_LE(0, c);
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(c).state);
	EXPECT_TRUE(text_goes(fd, c));
	EXPECT_TRUE(text_goes(c, fd));
	ASSERT_EQ(0, mpa_start_as(c, &self->start));
	ASSERT_EQ(0, mpa_attach(fd));
	ASSERT_EQ(0, mpa_start(fd, MPA_ROLE_INITIATOR, 0));
	EXPECT_TRUE(record_goes(fd, c, 77));
	close(c);
	close(fd);
}

/* The listener's parameters at accept(2) apply. */
TEST_F(listener, listener_is_started_after_a_client_has_come)
{
	int fd, c;

	ASSERT_EQ(0, mpa_attach(self->fd));
	ASSERT_EQ(0, listen(self->fd, 512));
	fd = client_says(self, FRAME_LEN + 3);
	ASSERT_EQ(POLLIN, poll_for(self->fd, POLLIN, 20000));
	ASSERT_EQ(0, mpa_start_as(self->fd, &self->start));
	c = child(self);
	EXPECT_TRUE(served(fd));
	close(c);
	close(fd);
}

/* TCP handles a listener's handshakes without its lock, so its operations must not change. */
TEST_F(listener, socket_that_listens_is_not_attached)
{
	int fd, c;

	ASSERT_EQ(0, listen(self->fd, 512));
	ASSERT_EQ(-1, mpa_attach(self->fd));
	EXPECT_EQ(EINVAL, errno);
	fd = client(self);
	c = child(self);
	ASSERT_LE(0, c);
	EXPECT_TRUE(text_goes(fd, c));

	/* MPA can be attached to its children. */
	ASSERT_EQ(0, mpa_attach(c));
	EXPECT_EQ(0, mpa_start_as(c, &self->start));
	ASSERT_EQ(0, mpa_attach(fd));
	EXPECT_EQ(0, mpa_start(fd, MPA_ROLE_INITIATOR, 0));
	EXPECT_TRUE(record_goes(fd, c, 99));
	close(c);
	close(fd);
}

TEST_F(listener, socket_that_has_listened_may_do_so_again)
{
	int fd, c;

	ASSERT_EQ(0, listen(self->fd, 512));
	fd = client(self);
	ASSERT_EQ(POLLIN, poll_for(self->fd, POLLIN, 20000));
	ASSERT_EQ(0, shutdown(self->fd, SHUT_RDWR));
	EXPECT_EQ(-1, recv(fd, self->buf, 1, 0));
	EXPECT_EQ(ECONNRESET, errno);
	close(fd);
	ASSERT_EQ(0, mpa_attach(self->fd));
	ASSERT_EQ(0, listen(self->fd, 512));
	ASSERT_EQ(0, listener_moved(self));
	ASSERT_EQ(0, mpa_start_as(self->fd, &self->start));
	fd = client_says(self, FRAME_LEN + 3);
	c = child(self);
	ASSERT_LE(0, c);
	EXPECT_TRUE(served(fd));
	close(c);
	close(fd);
}

TEST_F(listener, many_children_at_once)
{
	int clients[200], children[200], i;

	ASSERT_EQ(0, listener_start(self));
	for (i = 0; i < 200; i++) {
		clients[i] = client(self);
		ASSERT_LE(0, clients[i]);
		set_nonblock(clients[i]);
		ASSERT_EQ(0, mpa_attach(clients[i]));
		ASSERT_EQ(-1, mpa_start(clients[i], MPA_ROLE_INITIATOR,
					i & 1 ? MPA_START_MARKERS : 0));
		ASSERT_EQ(EINPROGRESS, errno);
	}
	for (i = 0; i < 200; i++) {
		children[i] = child(self);
		ASSERT_LE(0, children[i]);
	}
	for (i = 0; i < 200; i++) {
		ASSERT_EQ(POLLOUT, poll_for(clients[i], POLLOUT, 20000));
		EXPECT_EQ(0, so_error(clients[i]));
		EXPECT_TRUE(record_goes(clients[i], children[i], 1 + i));
		EXPECT_EQ(i & 1 ? MPA_INFO_TX_MARKERS : 0,
			  mpa_info(children[i]).flags & MPA_INFO_TX_MARKERS);
	}
	for (i = 0; i < 200; i++) {
		hang_up(clients[i]);
		close(children[i]);
	}
}

/* Add clients: silent, with half a request, with a whole request, and closed. */
static void fill_queue(struct _test_data_listener *self, int fd[40])
{
	const size_t says[] = { 0, 11, FRAME_LEN + 3, 5 };
	int i;

	for (i = 0; i < 40; i++)
		fd[i] = client_says(self, says[i % 4]);
	for (i = 3; i < 40; i += 4) {
		hang_up(fd[i]);
		fd[i] = -1;
	}
}

TEST_F(listener, end_of_a_listener_ends_the_children_in_its_queue)
{
	int fd[40], i, round;

	ASSERT_EQ(0, sysctl_put("startup_max", 1));
	ASSERT_EQ(0, listener_start(self));
	for (round = 0; round < 4; round++) {
		fill_queue(self, fd);
		if (round < 3) {
			ASSERT_EQ(0, shutdown(self->fd, SHUT_RDWR));
		} else {
			close(self->fd);
			self->fd = -1;
		}
		for (i = 0; i < 40; i++) {
			if (fd[i] < 0)
				continue;
			EXPECT_EQ(-1, recv(fd[i], self->buf, 1, 0));
			EXPECT_EQ(ECONNRESET, errno);
			close(fd[i]);
		}
		if (round == 3)
			break;
		/* The socket may listen again, and its children start as before. */
		ASSERT_EQ(0, listen(self->fd, 512));
		ASSERT_EQ(0, listener_moved(self));
		fd[0] = client_says(self, FRAME_LEN + 3);
		i = child(self);
		ASSERT_LE(0, i);
		EXPECT_TRUE(served(fd[0]));
		hang_up(fd[0]);
		close(i);
	}
}

TEST_F(listener, child_reset_before_accept_has_failed)
{
	const size_t says[] = { 0, 7, FRAME_LEN + 3 };
	unsigned int i;

	ASSERT_EQ(0, listener_start(self));
	ASSERT_EQ(0, one_processor());
	for (i = 0; i < ARRAY_SIZE(says); i++) {
		int c;

		hang_up(client_says(self, says[i]));
		ASSERT_TRUE(lo_delivered());
		c = child(self);
		ASSERT_LE(0, c);
		EXPECT_EQ(-1, recv(c, self->buf, 1, 0));
		EXPECT_EQ(ECONNRESET, errno) {
			TH_LOG("after %zu octets", says[i]);
		}
		EXPECT_EQ(MPA_STATE_FAILED, mpa_info(c).state);
		EXPECT_EQ(MPA_ERR_TCP, mpa_info(c).error);
		close(c);
	}
}

TEST_F(listener, child_whose_client_has_no_more_to_say_is_judged_at_accept)
{
	const struct { size_t says; int err; } cases[] = {
		{ 0, ECONNRESET }, { 7, EPROTO }, { FRAME_LEN + 3, 0 },
	};
	unsigned int i;

	/* This exceeds a child's receive timeout. */
	self->start.timeout_ms = 600000;
	ASSERT_EQ(0, listener_start(self));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		int fd = client_says(self, cases[i].says), c;

		shutdown(fd, SHUT_WR);
		c = child(self);
		ASSERT_LE(0, c);
		if (cases[i].err) {
			EXPECT_EQ(-1, recv(c, self->buf, 1, 0));
			EXPECT_EQ(cases[i].err, errno);
		} else {
			EXPECT_EQ(0, recv(c, self->buf, 1, 0));
			EXPECT_TRUE(served(fd));
		}
		close(c);
		close(fd);
	}
}

TEST_F(listener, failed_startup_harms_no_sibling)
{
	int good, bad, c[2];

	ASSERT_EQ(0, listener_start(self));
	bad = client(self);
	ASSERT_EQ(0, write_all(bad, "GET / HTTP/1.0\r\n", 16));
	good = client_says(self, FRAME_LEN + 3);
	c[0] = child(self);
	c[1] = child(self);
	EXPECT_EQ(-1, recv(c[0], self->buf, 1, 0));
	EXPECT_EQ(EPROTO, errno);
	EXPECT_TRUE(served(good));
	EXPECT_EQ(MPA_STATE_FULL, mpa_info(c[1]).state);
	close(c[0]);
	close(c[1]);
	close(good);
	close(bad);
}

static bool has_address(int fd)
{
	struct sockaddr_storage addr = {};
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (void *)&addr, &len))
		return false;
	return addr.ss_family == AF_INET6 ?
	       !IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)&addr)->sin6_addr) :
	       ((struct sockaddr_in *)&addr)->sin_addr.s_addr != INADDR_ANY;
}

/* Startup may fail before accept(2) reads the peer's address. */
TEST_F(listener, plain_child_is_accepted_with_its_address)
{
	int bad, fd, i;

	ASSERT_EQ(0, listener_start(self));
	for (i = 0; i < STRANGERS; i++) {
		struct sockaddr_storage addr = {}, own = {};
		socklen_t len = sizeof(addr);

		bad = client(self);
		ASSERT_EQ(0, getsockname(bad, (void *)&own, &len));
		len = sizeof(addr);
		ASSERT_EQ(0, write_all(bad, "GET / HTTP/1.0\r\n", 16));
		fd = accept(self->fd, (void *)&addr, &len);
		ASSERT_LE(0, fd)
			TH_LOG("peer %d: errno %d", i, errno);
		EXPECT_EQ(((struct sockaddr_in *)&own)->sin_port,
			  ((struct sockaddr_in *)&addr)->sin_port);
		EXPECT_EQ(-1, recv(fd, self->buf, 1, 0));
		EXPECT_EQ(EPROTO, errno);
		EXPECT_TRUE(has_address(fd));
		close(fd);
		close(bad);
	}
}

/* The timeout begins at accept(2): the client is not to blame for the time before. */
TEST_F(listener, timeout_of_children_begins_with_accept)
{
	int silent, fd, c;

	self->start.timeout_ms = 100;
	ASSERT_EQ(0, listener_start(self));
	ASSERT_EQ(0, one_processor());
	fd = client_says(self, FRAME_LEN + 3);
	silent = client(self);
	ASSERT_TRUE(lo_delivered());
	EXPECT_EQ(0, poll_for(fd, POLLIN, 150));
	c = child(self);
	EXPECT_TRUE(served(fd));
	close(c);
	c = child(self);
	EXPECT_EQ(-1, recv(c, self->buf, 1, 0));
	EXPECT_EQ(ETIMEDOUT, errno);
	EXPECT_EQ(MPA_ERR_STARTUP, mpa_info(c).error);
	EXPECT_EQ(-1, recv(silent, self->buf, 1, 0));
	EXPECT_EQ(ECONNRESET, errno);
	close(c);
	close(fd);
	close(silent);
}

TEST_F(listener, silent_child_makes_room_for_one_too_many)
{
	int fd[2], c[2], i;

	ASSERT_EQ(0, sysctl_put("startup_max", 1));
	ASSERT_EQ(0, listener_start(self));
	fd[0] = client(self);
	fd[1] = client(self);
	c[0] = child(self);
	/* Wait until the child is counted. */
	for (i = 0; statistic("MpaInStartup") < 1 && i < 20000; i++)
		poll(NULL, 0, 1);
	c[1] = child(self);
	EXPECT_EQ(-1, recv(c[0], self->buf, 1, 0));
	EXPECT_EQ(EUSERS, errno);
	EXPECT_EQ(MPA_STATE_FAILED, mpa_info(c[0]).state);
	EXPECT_EQ(MPA_ERR_LOCAL, mpa_info(c[0]).error);
	EXPECT_EQ(-1, recv(fd[0], self->buf, 1, 0));
	EXPECT_EQ(ECONNRESET, errno);
	EXPECT_EQ(MPA_STATE_STARTUP, mpa_info(c[1]).state);
	close(c[0]);
	close(c[1]);
	close(fd[0]);
	close(fd[1]);
}

static void serve(int listener, int count)
{
	u8 buf[256];

	while (count--) {
		int fd = accept(listener, NULL, NULL);
		ssize_t n;

		if (fd < 0)
			_exit(1);
		patience(fd, 20);
		n = recv(fd, buf, sizeof(buf), 0);
		if (n <= 0 || send(fd, buf, n, MSG_NOSIGNAL) != n)
			_exit(2);
		/* Wait until the client has read the reply and closed. */
		recv(fd, buf, 1, 0);
		close(fd);
	}
	_exit(0);
}

TEST_F(listener, several_processes_accept)
{
	int i, how;

	ASSERT_EQ(0, listener_start(self));
	for (i = 0; i < 4; i++)
		if (!fork())
			serve(self->fd, 5);
	for (i = 0; i < 20; i++) {
		int fd = client(self);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, mpa_attach(fd));
		ASSERT_EQ(0, mpa_start(fd, MPA_ROLE_INITIATOR, 0));
		ASSERT_EQ(100 + i, send(fd, record_of(100 + i), 100 + i, 0));
		ASSERT_EQ(100 + i, recv(fd, self->buf, 300, 0));
		EXPECT_TRUE(record_good(self->buf, 100 + i));
		close(fd);
	}
	for (i = 0; i < 4; i++) {
		ASSERT_LT(0, wait(&how));
		EXPECT_EQ(0, how);
	}
}

/*
 * Urgent octets are part of the stream, even before accept(2). Without SO_OOBINLINE TCP
 * would skip each urgent octet when the next arrives.
 */
TEST_F(listener, request_of_urgent_octets_waits_to_be_accepted)
{
	int inlined, before, fd, i, c = -1;

	ASSERT_EQ(0, listener_start(self));
	for (i = 0; i < 4; i++) {
		socklen_t len = sizeof(inlined);
		u8 frame[FRAME_LEN];
		int at;

		before = i & 1;
		inlined = !!(i & 2);
		ASSERT_EQ(0, setsockopt(self->fd, SOL_SOCKET, SO_OOBINLINE,
					&inlined, sizeof(inlined)));
		fd = client(self);
		ASSERT_LE(0, fd);
		frame_put(frame, false, 0x40, 1, 0);
		if (!before)
			c = child(self);
		for (at = 0; at < FRAME_LEN; at++) {
			ASSERT_EQ(1, send(fd, frame + at, 1, MSG_OOB));
			ASSERT_TRUE(acked(fd));
		}
		if (before)
			c = child(self);
		ASSERT_LE(0, c);
		EXPECT_TRUE(served(fd));
		EXPECT_EQ(MPA_STATE_FULL, mpa_info(c).state) {
			TH_LOG("accepted %s them: error %u, %s",
			       before ? "after" : "before",
			       mpa_info(c).error, strerror(so_error(c)));
		}
		/* The user's option is unchanged. */
		EXPECT_EQ(0, getsockopt(c, SOL_SOCKET, SO_OOBINLINE, &at,
					&len));
		EXPECT_EQ(inlined, at);
		hang_up(fd);
		close(c);
	}
}

#define SYN_RECV	3	/* the value in TCP_INFO */

/* Connect, and send the request in the SYN and after it. */
static int client_opens_fast(struct _test_data_listener *self)
{
	int fd = socket(self->addr.ss_family, SOCK_STREAM, 0);
	u8 frame[FRAME_LEN];

	frame_put(frame, false, 0x40, 1, 0);
	patience(fd, 20);
	return sendto(fd, frame, FRAME_LEN, MSG_FASTOPEN | MSG_DONTWAIT,
		      (void *)&self->addr, self->len) == FRAME_LEN ? fd : -1;
}

/* With octets in its SYN (TCP Fast Open) a child can be accepted, read and written at once. */
TEST_F(listener, child_starts_before_its_handshake_is_over)
{
	int fd, c, attached;

	/* Use no cookies, and allow all listeners. */
	ASSERT_EQ(0, system("echo 1543 >/proc/sys/net/ipv4/tcp_fastopen"));
	if (system("modprobe -q sch_netem; "
		   "tc qdisc add dev lo root netem delay 400ms"))
		SKIP(return, "no netem");
	for (attached = 0; attached < 2; attached++) {
		struct peer peer = {};

		if (attached) {
			ASSERT_EQ(0, shutdown(self->fd, SHUT_RDWR));
			ASSERT_EQ(0, mpa_attach(self->fd));
		}
		ASSERT_EQ(0, listen(self->fd, 512));
		ASSERT_EQ(0, listener_moved(self));
		fd = client_opens_fast(self);
		ASSERT_LE(0, fd);
		c = child(self);
		ASSERT_LE(0, c);
		if (tcp_state(c) != SYN_RECV)
			SKIP(return, "the handshake is over too soon");
		if (!attached)
			ASSERT_EQ(0, mpa_attach(c));
		ASSERT_EQ(0, mpa_start_as(c, &self->start)) {
			TH_LOG("the listener attached: %d: %m", attached);
		}
		EXPECT_TRUE(served(fd));
		EXPECT_EQ(MPA_STATE_FULL, mpa_info(c).state);
		peer.fd = fd;
		EXPECT_EQ(0, peer_send_record(&peer, 99));
		EXPECT_EQ(99, recv(c, self->buf, sizeof(self->buf), 0));
		EXPECT_TRUE(record_good(self->buf, 99));
		hang_up(fd);
		close(c);
	}
}

static int oob_inline(int fd)
{
	socklen_t len = sizeof(int);
	int on = -1;

	getsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, &len);
	return on;
}

/* A child inherits SO_OOBINLINE from the listener; later only the user sets it. */
TEST_F(listener, option_for_urgent_octets_is_the_users_from_accept_on)
{
	int fd, c, on, seen, wanted, i;

	if (real_time(true))
		SKIP(return, "needs SCHED_FIFO");
	ASSERT_EQ(0, real_time(false));
	ASSERT_EQ(0, one_processor());
	ASSERT_EQ(0, listener_start(self));
	for (i = 0; i < 4; i++) {
		on = i & 1;
		wanted = !on;
		ASSERT_EQ(0, setsockopt(self->fd, SOL_SOCKET, SO_OOBINLINE,
					&on, sizeof(on)));
		/* Startup succeeds, or fails before it begins. */
		ASSERT_EQ(0, sysctl_put("startup_max", i < 2 ? 8 : 0));
		fd = client_says(self, FRAME_LEN + 3);
		ASSERT_EQ(POLLIN, poll_for(self->fd, POLLIN, 20000));
		ASSERT_EQ(0, real_time(true));
		c = accept(self->fd, NULL, NULL);
		seen = oob_inline(c);
		setsockopt(c, SOL_SOCKET, SO_OOBINLINE, &wanted,
			   sizeof(wanted));
		ASSERT_EQ(0, real_time(false));
		ASSERT_LE(0, c);
		EXPECT_EQ(on, seen) {
			TH_LOG("right after accept, case %d", i);
		}
		EXPECT_EQ(i < 2, served(fd));
		EXPECT_EQ(i < 2 ? MPA_STATE_FULL : MPA_STATE_FAILED,
			  mpa_info(c).state);
		EXPECT_EQ(wanted, oob_inline(c)) {
			TH_LOG("set right after accept, after startup, case %d",
			       i);
		}
		hang_up(fd);
		close(c);
	}
}

static void *accepts(void *listener)
{
	return (void *)(long)accept(*(int *)listener, NULL, NULL);
}

/* While one thread accepts, another connects the listener's socket as an initiator. */
TEST(child_of_a_listener_that_connects_is_not_started_like_it)
{
	struct sockaddr_in at = { .sin_family = AF_INET }, to = at;
	unsigned int i, initiators = 0;
	socklen_t len = sizeof(at);
	int peer, one = 1;

	ASSERT_EQ(0, own_netns());
	peer = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, bind(peer, (void *)&to, len));
	ASSERT_EQ(0, listen(peer, 500));
	ASSERT_EQ(0, getsockname(peer, (void *)&to, &len));
	for (i = 0; i < 400; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0), connected, accepted;
		int client = socket(AF_INET, SOCK_STREAM, 0);
		int spin = rand() % 64;
		pthread_t thread;
		void *child;

		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		at.sin_port = 0;
		ASSERT_EQ(0, bind(fd, (void *)&at, len));
		ASSERT_EQ(0, mpa_attach(fd));
		ASSERT_EQ(0, mpa_start(fd, MPA_ROLE_RESPONDER, 0));
		ASSERT_EQ(0, listen(fd, 5));
		ASSERT_EQ(0, getsockname(fd, (void *)&at, &len));
		ASSERT_EQ(0, pthread_create(&thread, NULL, accepts, &fd));
		usleep(500);
		connect(client, (void *)&at, len);
		while (spin--)
			sched_yield();
		shutdown(fd, SHUT_RD);
		set_nonblock(fd);
		connected = connect(fd, (void *)&to, len);
		mpa_start(fd, MPA_ROLE_INITIATOR, 0);
		pthread_join(thread, &child);
		accepted = (long)child;
		if (accepted >= 0) {
			initiators += mpa_info(accepted).role == MPA_ROLE_INITIATOR;
			hang_up(accepted);
		}
		hang_up(client);
		hang_up(fd);
		if (!connected || errno == EINPROGRESS)
			hang_up(accept4(peer, NULL, NULL, SOCK_NONBLOCK));
	}
	EXPECT_EQ(0, initiators);
}

TEST_HARNESS_MAIN
