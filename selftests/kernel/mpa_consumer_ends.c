// SPDX-License-Identifier: GPL-2.0
/*
 * include/net/mpa.h: events that end a stream, upcalls that report the end, and the
 * number of upcalls in a row.
 */

#include <pthread.h>

#include "mpa_consumer.h"
#include "mpa_forge.h"
#include "mpa_nl.h"

/* ---- what does not end a stream ---- */

TEST_F(consumer, local_shutdown_of_receiving_is_no_end)
{
	size_t len;

	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	len = next_fpdu(&self->peer, 700, self->buf);
	ASSERT_EQ(0, write_all(self->fd[0], self->buf, len / 2));
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_RD));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_CLOSED));
	ASSERT_EQ(0, write_all(self->fd[0], self->buf + len / 2,
			       len - len / 2));
	EXPECT_TRUE(user_gets(self, 700));
	shutdown(self->fd[0], SHUT_WR);
	EXPECT_TRUE(upcall_of(self->user, UPCALL_CLOSED, self->told));
}

/* Send an ICMP message about the forger's connection. */
static int host_unreachable(const struct forger *forger)
{
	struct {
		u8 type;
		u8 code;
		__be16 sum;
		u32 unused;
		u8 ip[20];
		__be16 source;
		__be16 dest;
		__be32 seq;
	} message = {
		.type = 3, .code = 1,
		.ip = { [0] = 0x45, [3] = 40, [8] = 64, [9] = IPPROTO_TCP },
		.source = forger->dest, .dest = forger->source,
		.seq = htonl(forger->ack),
	};
	struct sockaddr_in to = *(const struct sockaddr_in *)&forger->to;
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), sent;
	u32 sum;

	memcpy(message.ip + 12, &to.sin_addr, 4);
	memcpy(message.ip + 16, &to.sin_addr, 4);
	sum = sum_words(0, (u8 *)&message, sizeof(message));
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	message.sum = htons(~sum);
	sent = sendto(raw, &message, sizeof(message), 0, (void *)&to,
		      sizeof(to));
	close(raw);
	return sent == sizeof(message) ? 0 : -1;
}

/* With IP_RECVERR the socket has an error, but the connection continues. */
TEST_F(consumer, error_that_the_connection_survives)
{
	struct forger forger;
	int on = 1;

	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	ASSERT_EQ(0, forger_open(&forger, self->fd[0], self->fd[1]));
	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_IP, IP_RECVERR, &on,
				sizeof(on)));
	ASSERT_EQ(0, host_unreachable(&forger));
	/* The error is reported before any other upcall. */
	EXPECT_EQ(0, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
	ASSERT_EQ(0, write_all(self->fd[0], self->buf,
			       next_fpdu(&self->peer, 100, self->buf)));
	ASSERT_TRUE(user_gets(self, 100));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_FAILED));
	EXPECT_EQ(0, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
	shutdown(self->fd[0], SHUT_WR);
	EXPECT_TRUE(upcall_of(self->user, UPCALL_CLOSED, self->told));
	close(forger.raw);
}

/* ---- what ends a stream ---- */

/* The user still sends, and would wait for ACKs for ever. */
TEST_F(consumer, reset_after_the_peer_s_end)
{
	ASSERT_EQ(0, both_direct(self, variant->flags));
	shutdown(self->fd[0], SHUT_WR);
	ASSERT_TRUE(upcall_of(self->user, UPCALL_CLOSED, self->told));
	ASSERT_EQ(0, user_send(self->user, 10000, 0, MEMORY_KVEC, NULL));
	hang_up(self->fd[0]);
	ASSERT_TRUE(upcall_of(self->user, UPCALL_FAILED, self->told));
	/* TCP reports a RST after a FIN as EPIPE. */
	EXPECT_EQ(-EPIPE, self->told->is.err);
	EXPECT_EQ(MPA_ERR_TCP, self->told->is.value);
	EXPECT_EQ(EPIPE, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
}

/* There will be no space for the waiting user: it is woken, tries again, and fails. */
TEST_F(consumer, program_ends_sending_while_there_is_no_room)
{
	int small = 20000, err;

	ASSERT_EQ(0, setsockopt(self->fd[0], SOL_SOCKET, SO_RCVBUF, &small,
				sizeof(small)));
	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_SNDBUF, &small,
				sizeof(small)));
	ASSERT_EQ(0, both_direct(self, variant->flags));
	do {
		err = user_send(self->user, 10000, 0, MEMORY_KVEC, NULL);
	} while (!err || !no_upcall(self->user, UPCALL_WRITABLE));
	ASSERT_EQ(EAGAIN, err);
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_WRITABLE, self->told));
	EXPECT_EQ(EPIPE, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
}

/* When both directions have ended, nothing is lost. */
TEST_F(consumer, end_of_both_is_no_failure)
{
	ASSERT_EQ(0, both_direct(self, variant->flags));
	shutdown(self->fd[0], SHUT_WR);
	ASSERT_TRUE(upcall_of(self->user, UPCALL_CLOSED, self->told));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_SHUT, NULL));
	EXPECT_EQ(0, recv(self->fd[0], self->buf, BUF, 0));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_FAILED));
}

/* An octet bypasses MPA: the peer's stream of FPDUs is broken. */
TEST_F(consumer, somebody_else_has_sent)
{
	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	ASSERT_EQ(0, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_STRANGER, NULL));
	EXPECT_EQ(EPIPE, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_FAILED, self->told));
	EXPECT_EQ(-EPROTO, self->told->is.err);
	EXPECT_EQ(MPA_ERR_LOCAL, self->told->is.value);
}

/* As above, after the end of receiving, when no more ACKs are processed. */
TEST_F(consumer, somebody_else_has_sent_after_the_end)
{
	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	ASSERT_EQ(0, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
	shutdown(self->fd[0], SHUT_WR);
	ASSERT_TRUE(upcall_of(self->user, UPCALL_CLOSED, self->told));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_STRANGER, NULL));
	EXPECT_EQ(EPIPE, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_FAILED, self->told));
	EXPECT_EQ(-EPROTO, self->told->is.err);
	EXPECT_TRUE(no_upcall(self->user, UPCALL_FAILED));
}

/* A program reads the error first: without an upcall the user would wait for ACKs for ever. */
TEST_F(consumer, lost_and_the_error_read_by_a_program)
{
	struct upcall_how how = { .put_off = 1 };

	ASSERT_EQ(0, user_how(self->user, how));
	ASSERT_EQ(0, both_direct(self, variant->flags));
	ASSERT_EQ(0, user_send(self->user, 10000, 0, MEMORY_KVEC, NULL));
	ASSERT_EQ(100, send(self->fd[0], record_of(100), 100, 0));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_ULPDU));
	shutdown(self->fd[0], SHUT_WR);
	hang_up(self->fd[0]);
	EXPECT_EQ(EPIPE, so_error(self->fd[1]));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_RESUME, NULL));
	EXPECT_TRUE(user_gets(self, 100));
	ASSERT_TRUE(upcall_of(self->user, UPCALL_FAILED, self->told));
	EXPECT_EQ(-ENOTCONN, self->told->is.err);
	EXPECT_EQ(MPA_ERR_TCP, self->told->is.value);
	EXPECT_TRUE(no_upcall(self->user, UPCALL_CLOSED));
}

/* ---- a program with the same socket ---- */

TEST_F(consumer, open_ulpdu_of_a_program)
{
	ASSERT_EQ(0, both_direct(self, variant->flags));
	ASSERT_EQ(100, send(self->fd[1], record_of(200), 100, MSG_MORE));
	EXPECT_EQ(EBUSY, user_send(self->user, 50, 0, MEMORY_KVEC, NULL));
	ASSERT_EQ(100, send(self->fd[1], record_of(200) + 100, 100, 0));
	EXPECT_TRUE(program_gets(self, 200));
	EXPECT_TRUE(record_goes_out(self, 50));
}

struct reader {
	int fd;
	int tid;
	u8 buf[1000];
	ssize_t got;
};

static void *reads(void *arg)
{
	struct reader *reader = arg;

	__atomic_store_n(&reader->tid, gettid(), __ATOMIC_RELEASE);
	reader->got = recv(reader->fd, reader->buf, sizeof(reader->buf), 0);
	return NULL;
}

/* A program sleeps while the user has deferred a ULPDU; then it reads that ULPDU. */
TEST_F(consumer, sleeping_program_is_woken_by_detaching)
{
	struct upcall_how how = { .put_off = 1 };
	struct reader reader = {};
	pthread_t thread;
	long began;

	ASSERT_EQ(0, user_how(self->user, how));
	ASSERT_EQ(0, both_direct(self, variant->flags));
	reader.fd = self->fd[1];
	patience(self->fd[1], 20);
	ASSERT_EQ(0, pthread_create(&thread, NULL, reads, &reader));
	ASSERT_TRUE(asleep(&reader.tid));
	ASSERT_EQ(100, send(self->fd[0], record_of(100), 100, 0));
	EXPECT_TRUE(no_upcall(self->user, UPCALL_ULPDU));
	began = now_ms();
	ASSERT_EQ(0, user_call(self->user, UPCALLS_DETACH, NULL));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	/* The program was woken: its timeout has not expired. */
	EXPECT_GT(10000, now_ms() - began);
	EXPECT_EQ(100, reader.got);
	EXPECT_TRUE(record_good(reader.buf, 100));
}

/* ---- events of the end ---- */

/* The user releases its own socket. */
TEST_F(consumer, event_of_release_says_that_the_user_is_inside_the_kernel)
{
	struct nl_reported started, closed;
	struct nl events;

	ASSERT_EQ(0, nl_open(&events));
	ASSERT_EQ(0, nl_listen(&events, events.events));
	ASSERT_EQ(0, user_connects(self));
	ASSERT_EQ(0, user_start(self->user, MPA_ROLE_DIRECT, 0));
	ASSERT_EQ(0, nl_next(&events, &started, 20000));
	EXPECT_EQ(MPA_CMD_STARTED_NTF, started.cmd);
	EXPECT_TRUE(nl_has(&started, MPA_A_CONN_KERNEL));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_RELEASE, NULL));
	ASSERT_EQ(0, nl_event(&events, started.value[MPA_A_CONN_COOKIE],
			      MPA_CMD_CLOSED_NTF, &closed));
	EXPECT_TRUE(nl_has(&closed, MPA_A_CONN_KERNEL));
	nl_close(&events);
}

/* The user has detached; a program closes the socket. */
TEST_F(consumer, event_of_close_says_nothing_of_a_user_who_has_left)
{
	struct nl_reported told;
	struct nl events;
	u64 cookie;

	ASSERT_EQ(0, nl_open(&events));
	ASSERT_EQ(0, both_direct(self, variant->flags));
	cookie = cookie_of(self->fd[1]);
	ASSERT_EQ(0, nl_listen(&events, events.events));
	ASSERT_EQ(0, user_call(self->user, UPCALLS_DETACH, NULL));
	close(self->fd[1]);
	self->fd[1] = -1;
	ASSERT_EQ(0, nl_event(&events, cookie, MPA_CMD_CLOSED_NTF, &told));
	EXPECT_FALSE(nl_has(&told, MPA_A_CONN_KERNEL));
	nl_close(&events);
}

/* ---- upcalls in a row ---- */

/*
 * Thousands of the shortest FPDUs arrive in one segment: a peer must not occupy a
 * processor in softirq. Each round reports the edge at its end.
 */
TEST_F(consumer, thousands_of_ulpdus_come_in_rounds)
{
	const unsigned int all = 6000, round = 300;
	unsigned int ulpdus = 0, since = 0;
	size_t len = 0;

	ASSERT_EQ(0, direct_to_peer(self, variant->flags));
	while (ulpdus++ < all)
		len += next_fpdu(&self->peer, 1, self->buf + len);
	ASSERT_EQ(0, write_all(self->fd[0], self->buf, len));
	for (ulpdus = 0; ulpdus < all || since;) {
		ASSERT_TRUE(next_upcall(self->user, self->told, 20000)) {
			TH_LOG("%u ULPDUs", ulpdus);
		}
		if (self->told->is.upcall == UPCALL_EDGE) {
			since = 0;
		} else if (self->told->is.upcall == UPCALL_ULPDU) {
			ASSERT_EQ(ulpdus, self->told->is.order);
			ASSERT_GT(round, ++since);
			ulpdus++;
		}
	}
}

TEST_HARNESS_MAIN
