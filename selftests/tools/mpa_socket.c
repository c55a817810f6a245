// SPDX-License-Identifier: GPL-2.0
/* libmpa/mpa_socket.h, as programs use it. */

#include "mpa_test.h"
#include "mpa_harness.h"

#include <pthread.h>

#include "libmpa/mpa_socket.h"

FIXTURE(helper)
{
	char port[8];
	int listener;
	int fd;		/* the client's */
	int end;	/* the accepted socket */
	u8 buf[MPA_ULPDU_MAX];
};

FIXTURE_VARIANT(helper)
{
	const char *listen;
	const char *host;
};

FIXTURE_VARIANT_ADD(helper, all)
{
	.listen = NULL,
	.host = "127.0.0.1",
};

FIXTURE_VARIANT_ADD(helper, ipv6)
{
	.listen = "::1",
	.host = "::1",
};

/* Return: the port of a bound socket. */
static int port_of(int fd, char port[8])
{
	struct sockaddr_in6 at = {};
	socklen_t len = sizeof(at);

	if (getsockname(fd, (struct sockaddr *)&at, &len))
		return -1;
	snprintf(port, 8, "%u", ntohs(at.sin6_port));
	return 0;
}

FIXTURE_SETUP(helper)
{
	ASSERT_EQ(0, own_netns());
	self->fd = -1;
	self->end = -1;
	self->listener = mpa_socket_listen(variant->listen, "0", 0);
	ASSERT_LE(0, self->listener);
	ASSERT_EQ(0, port_of(self->listener, self->port));
}

FIXTURE_TEARDOWN(helper)
{
	hang_up(self->fd);
	hang_up(self->end);
	hang_up(self->listener);
}

/* The request is answered once accept() returns the other end. */
static void *accept_one(void *arg)
{
	struct _test_data_helper *self = arg;

	self->end = mpa_socket_accept(self->listener);
	return NULL;
}

static int both(struct _test_data_helper *self, const char *host, unsigned int flags)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, accept_one, self))
		return -1;
	self->fd = mpa_socket_connect(host, self->port, flags, 20000);
	if (self->fd < 0)
		shutdown(self->listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	return self->fd < 0 ? -1 : 0;
}

TEST_F(helper, records_go_both_ways)
{
	ASSERT_EQ(0, both(self, variant->host, 0));
	ASSERT_EQ(5, mpa_socket_send(self->fd, "hello", 5));
	ASSERT_EQ(5, mpa_socket_receive(self->end, self->buf, sizeof(self->buf), NULL));
	EXPECT_EQ(0, memcmp(self->buf, "hello", 5));
	ASSERT_EQ(3, mpa_socket_send(self->end, "you", 3));
	ASSERT_EQ(3, mpa_socket_receive(self->fd, self->buf, sizeof(self->buf), NULL));
	close(self->fd);
	self->fd = -1;
	EXPECT_EQ(0, mpa_socket_receive(self->end, self->buf, sizeof(self->buf), NULL));
	EXPECT_EQ(MPA_ERR_TCP, mpa_socket_error(self->end));
}

TEST_F(helper, the_socket_blocks_and_has_nodelay)
{
	int one = 0;
	socklen_t len = sizeof(one);

	ASSERT_EQ(0, both(self, variant->host, 0));
	EXPECT_EQ(0, fcntl(self->fd, F_GETFL) & O_NONBLOCK);
	EXPECT_NE(0, fcntl(self->fd, F_GETFD) & FD_CLOEXEC);
	ASSERT_EQ(0, getsockopt(self->fd, SOL_TCP, TCP_NODELAY, &one, &len));
	EXPECT_EQ(1, one);
}

TEST_F(helper, recvinfo_says_where_a_record_lies)
{
	struct mpa_recvinfo info;

	ASSERT_EQ(0, both(self, variant->host, 0));
	ASSERT_EQ(0, mpa_socket_set(self->end, MPA_RECVINFO, 1));
	ASSERT_EQ(5, mpa_socket_send(self->fd, "first", 5));
	ASSERT_EQ(6, mpa_socket_send(self->fd, "second", 6));
	ASSERT_EQ(5, mpa_socket_receive(self->end, self->buf, 10, &info));
	EXPECT_EQ(0, info.order);
	EXPECT_EQ(MPA_RECVINFO_LAST, info.flags);
	ASSERT_EQ(4, mpa_socket_receive(self->end, self->buf, 4, &info));
	EXPECT_EQ(1, info.order);
	EXPECT_EQ(6, info.length);
	EXPECT_EQ(0, info.flags);
	ASSERT_EQ(2, mpa_socket_receive(self->end, self->buf, 4, &info));
	EXPECT_EQ(4, info.offset);
	EXPECT_EQ(MPA_RECVINFO_LAST, info.flags);
}

TEST_F(helper, end_of_a_record_is_known_without_recvinfo)
{
	struct mpa_recvinfo info;

	ASSERT_EQ(0, both(self, variant->host, 0));
	ASSERT_EQ(6, mpa_socket_send(self->fd, "second", 6));
	ASSERT_EQ(4, mpa_socket_receive(self->end, self->buf, 4, &info));
	EXPECT_EQ(0, info.flags);
	ASSERT_EQ(2, mpa_socket_receive(self->end, self->buf, 4, &info));
	EXPECT_EQ(MPA_RECVINFO_LAST, info.flags);
}

TEST_F(helper, enhanced_is_revision_two)
{
	ASSERT_EQ(0, both(self, variant->host, MPA_START_ENHANCED));
	EXPECT_EQ(2, mpa_info(self->fd).revision);
}

TEST_F(helper, a_length_that_cannot_be_is_reported)
{
	ASSERT_EQ(0, both(self, variant->host, 0));
	ASSERT_EQ(-1, mpa_socket_send(self->fd, "", 0));
	ASSERT_EQ(EMSGSIZE, errno);
	EXPECT_NE(NULL, strstr(mpa_socket_strerror(self->fd, errno), "1 to 64768 octets"));
}

TEST(nobody_listens)
{
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(-1, mpa_socket_connect("127.0.0.1", "4242", 0, 20000));
	ASSERT_EQ(ECONNREFUSED, errno);
	EXPECT_NE(NULL, strstr(mpa_socket_strerror(-1, errno), "nothing listens"));
}

TEST(a_host_that_is_none)
{
	ASSERT_EQ(-1, mpa_socket_connect("256.0.0.1.", "4242", 0, 20000));
	EXPECT_EQ(EADDRNOTAVAIL, errno);
}

/* With plain TCP nothing accepts the connection: TCP is connected at once, MPA never. */
TEST(a_silent_peer_takes_as_long_as_the_caller_says)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	char port[8];
	long began;
	int fd;

	ASSERT_EQ(0, own_netns());
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, bind(fd, (struct sockaddr *)&at, sizeof(at)));
	ASSERT_EQ(0, listen(fd, 1));
	ASSERT_EQ(0, port_of(fd, port));
	began = now_ms();
	ASSERT_EQ(-1, mpa_socket_connect("127.0.0.1", port, 0, 300));
	ASSERT_EQ(ETIMEDOUT, errno);
	EXPECT_LE(300 - 1, now_ms() - began);
	EXPECT_NE(NULL, strstr(mpa_socket_strerror(-1, ETIMEDOUT), "did not answer in time"));
	close(fd);
}

/* A simulated peer sends wrong octets. */
TEST(what_is_wrong_is_reported_in_words)
{
	struct peer peer = {};
	u8 fpdu[64], buf[64];
	size_t len;
	int fd[2];

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	peer.fd = fd[1];
	ASSERT_EQ(0, peer_responds(&peer, fd[0], false, 0));
	len = peer_fpdu(&peer, (const u8 *)"record", 6, fpdu);
	fpdu[3] ^= 1;
	ASSERT_EQ(0, write_all(fd[1], fpdu, len));
	ASSERT_EQ(-1, mpa_socket_receive(fd[0], buf, sizeof(buf), NULL));
	ASSERT_EQ(EBADMSG, errno);
	EXPECT_EQ(MPA_ERR_CRC, mpa_socket_error(fd[0]));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_NE(NULL, strstr(mpa_socket_strerror(fd[0], EBADMSG), "CRC"));
	hang_up(fd[0]);
	hang_up(fd[1]);

	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	peer.fd = fd[1];
	ASSERT_EQ(0, peer_responds(&peer, fd[0], false, 0));
	ASSERT_EQ(0, write_all(fd[1], fpdu, 5));
	close(fd[1]);
	ASSERT_EQ(-1, mpa_socket_receive(fd[0], buf, sizeof(buf), NULL));
	EXPECT_NE(NULL, strstr(mpa_socket_strerror(fd[0], errno), "ended inside a record"));
	close(fd[0]);
}

TEST_HARNESS_MAIN
