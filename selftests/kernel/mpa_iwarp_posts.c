// SPDX-License-Identifier: GPL-2.0
/*
 * The order in which the kernel's iWARP end (samples/mpa_ddp) reports posts and the end
 * of the stream, and the state that closing leaves. The peer is simulated, or another
 * end.
 */

#include <sys/mman.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_kmod.h"
#include "samples/mpa_ddp/mpa_ddp.h"
#include "samples/mpa_ddp/wire.h"

#define MEMORY		(8 << 20)
#define READ_SINK	100	/* number of octets that each Read requests */
#define ROOM		100	/* size of the buffer for a Send */

FIXTURE(posts)
{
	int fd[2];		/* peer, end */
	int dev[2];
	struct peer peer;
	u8 *memory;
	u32 stag;		/* dev[1]'s STag for all the memory */
};

/* Open two sockets, and two ends without a socket. */
static bool opened(struct _test_data_posts *self)
{
	struct ddp_region region = {
		.addr = (unsigned long)self->memory, .length = MEMORY,
		.access = DDP_REMOTE_WRITE,
	};
	int i;

	if (tcp_pair_buf(AF_INET, self->fd, 400000))
		return false;
	self->peer = (struct peer) { .fd = self->fd[0] };
	for (i = 0; i < 2; i++) {
		self->dev[i] = open("/dev/mpa_ddp", O_RDWR | O_NONBLOCK);
		if (self->dev[i] < 0)
			return false;
	}
	if (ioctl(self->dev[1], DDP_REGISTER, &region))
		return false;
	self->stag = region.stag;
	return true;
}

static void closed(struct _test_data_posts *self)
{
	int i;

	for (i = 0; i < 2; i++) {
		hang_up(self->fd[i]);
		close(self->dev[i]);
	}
}

FIXTURE_SETUP(posts)
{
	ASSERT_EQ(0, own_netns());
	if (access("/dev/mpa_ddp", F_OK))
		ASSERT_EQ(0, kmod_do("insmod $MODULES/samples/mpa_ddp/mpa_ddp.ko"));
	self->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->memory);
	ASSERT_TRUE(opened(self));
}

FIXTURE_TEARDOWN(posts)
{
	closed(self);
}

#define self_t struct _test_data_posts

static bool starts(int dev, int fd, const struct mpa_start *start)
{
	return !ioctl(dev, DDP_ATTACH, &fd) && !ioctl(dev, DDP_START, start);
}

/* Start in Full Operation directly; the test writes the peer's octets. */
static bool direct(self_t *self)
{
	const struct mpa_start start = {
		.role = MPA_ROLE_DIRECT, .revision = 1,
	};

	return starts(self->dev[1], self->fd[1], &start);
}

/* Start both ends in the kernel; dev[1] is the initiator. @reads: IRD and ORD of both. */
static bool negotiated(self_t *self, u32 reads, u32 flags)
{
	const struct mpa_start responder = {
		.role = MPA_ROLE_RESPONDER, .revision = 2,
		.flags = flags & MPA_START_RTR_READ, .ird = reads, .ord = reads,
	};
	const struct mpa_start initiator = {
		.role = MPA_ROLE_INITIATOR, .revision = 2,
		.flags = MPA_START_ENHANCED | flags, .ird = reads, .ord = reads,
	};

	return starts(self->dev[0], self->fd[0], &responder) &&
	       starts(self->dev[1], self->fd[1], &initiator);
}

static bool posts(self_t *self, u64 id, u32 opcode, u32 length)
{
	const struct ddp_post post = {
		.id = id, .opcode = opcode, .length = length, .stag = self->stag,
		.remote_stag = 77,
	};

	return !ioctl(self->dev[1], DDP_POST, &post);
}

/* Read the next report of an end, within @ms milliseconds. */
static bool tells(int dev, struct ddp_done *done, int ms)
{
	return poll_for(dev, POLLIN, ms) == POLLIN &&
	       read(dev, done, sizeof(*done)) == sizeof(*done);
}

static bool told(int dev, u32 what, struct ddp_done *done, int ms)
{
	while (tells(dev, done, ms))
		if (done->what == what)
			return true;
	return false;
}

/* Whether the next reported post is this one. */
static bool done_next(self_t *self, u64 id, int status)
{
	struct ddp_done done = {};

	if (told(self->dev[1], DDP_POSTED, &done, 5000) && done.id == id &&
	    done.status == status)
		return true;
	fprintf(stderr, "# post %llu with %d instead of %llu with %d\n",
		(unsigned long long)done.id, done.status,
		(unsigned long long)id, status);
	return false;
}

/* Return: the status of the stream's end, or 1. */
static int ends_with(self_t *self)
{
	struct ddp_done done;

	return told(self->dev[1], DDP_ENDED, &done, 5000) ? done.status : 1;
}

/* ---- the peer ---- */

static bool peer_untagged(self_t *self, u8 opcode, u8 ddp, u32 length)
{
	struct ddp_untagged header = {
		.control = ddp_control_of(ddp, opcode),
		.queue = htonl(rdmap_queue_of(opcode)), .msn = htonl(1),
	};
	u8 ulpdu[sizeof(header) + ROOM] = {};

	memcpy(ulpdu, &header, sizeof(header));
	return !peer_send(&self->peer, ulpdu, sizeof(header) + length);
}

static bool peer_tagged(self_t *self, u8 opcode, u8 ddp, u32 length)
{
	struct ddp_tagged header = {
		.control = ddp_control_of(DDP_TAGGED | ddp, opcode),
		.stag = htonl(self->stag),
	};
	u8 ulpdu[sizeof(header) + ROOM] = {};

	memcpy(ulpdu, &header, sizeof(header));
	return !peer_send(&self->peer, ulpdu, sizeof(header) + length);
}

/* Whether the peer receives exactly these Read Requests and empty Sends. */
static bool peer_gets(self_t *self, u32 requests, u32 sends)
{
	size_t len = requests * 52 + sends * 24;
	u8 seen[len];

	return read_all(self->fd[0], seen, len) == len;
}

/* ---- what the peer receives ---- */

/* RFC 5040 section 4.1: the STag is zero, except in Sends that invalidate one. */
TEST_F(posts, untagged_headers_field_by_field)
{
	static const struct { u8 opcode, stag, queue, msn; u32 len; } rows[] = {
		{ RDMAP_SEND, 0, 0, 1, 24 },
		{ RDMAP_SEND_INVALIDATE, 77, 0, 2, 24 },
		{ RDMAP_SEND_SE, 0, 0, 3, 24 },
		{ RDMAP_SEND_SE_INVALIDATE, 77, 0, 4, 24 },
		{ RDMAP_READ_REQUEST, 0, 1, 1, 52 },
	};
	const struct ddp_untagged *header;
	u8 fpdu[52];
	u32 i;

	ASSERT_TRUE(direct(self));
	for (i = 0; i < 5; i++) {
		ASSERT_TRUE(posts(self, i, rows[i].opcode, i < 4 ? 0 : READ_SINK));
		ASSERT_EQ(rows[i].len, read_all(self->fd[0], fpdu, rows[i].len));
		header = (const void *)(fpdu + 2);
		/* Both versions are 1, and only the flag L is set. */
		EXPECT_EQ(0x41, header->control.ddp);
		EXPECT_EQ(0x40 | rows[i].opcode, header->control.rdmap);
		EXPECT_EQ(rows[i].stag, ntohl(header->invalidate)) {
			TH_LOG("opcode %u", rows[i].opcode);
		}
		EXPECT_EQ(rows[i].queue, ntohl(header->queue));
		EXPECT_EQ(rows[i].msn, ntohl(header->msn));
		EXPECT_EQ(0, header->mo);
	}
}

/* ---- the order of posts: RFC 5040 section 5.5, 15 ---- */

TEST_F(posts, sends_after_a_read)
{
	struct ddp_done done;

	ASSERT_TRUE(direct(self));
	ASSERT_TRUE(told(self->dev[1], DDP_STARTED, &done, 5000));
	ASSERT_TRUE(posts(self, 1, RDMAP_SEND, 0));
	ASSERT_TRUE(posts(self, 2, RDMAP_READ_REQUEST, READ_SINK));
	ASSERT_TRUE(posts(self, 3, RDMAP_SEND, 0));
	ASSERT_TRUE(posts(self, 4, RDMAP_SEND, 0));
	/* All posts were sent, but the Read is not done. */
	ASSERT_TRUE(peer_gets(self, 1, 3));
	EXPECT_TRUE(done_next(self, 1, 0));
	EXPECT_FALSE(tells(self->dev[1], &done, 200)) {
		TH_LOG("post %llu is reported", (unsigned long long)done.id);
	}
	ASSERT_TRUE(peer_tagged(self, RDMAP_READ_RESPONSE, DDP_LAST, READ_SINK));
	EXPECT_TRUE(done_next(self, 2, 0));
	EXPECT_TRUE(done_next(self, 3, 0));
	EXPECT_TRUE(done_next(self, 4, 0));
}

/* There are more Reads than may be outstanding: some were sent, one is done, others wait. */
TEST_F(posts, cancelled_in_their_order)
{
	u32 id;

	ASSERT_TRUE(direct(self));
	ASSERT_TRUE(posts(self, 0, RDMAP_READ_REQUEST, READ_SINK));
	ASSERT_TRUE(posts(self, 1, RDMAP_SEND, 0));
	for (id = 2; id < DDP_READS_MAX + 3; id++)
		ASSERT_TRUE(posts(self, id, RDMAP_READ_REQUEST, READ_SINK));
	ASSERT_TRUE(posts(self, id, RDMAP_SEND, 0));
	ASSERT_TRUE(peer_gets(self, DDP_READS_MAX, 1));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	for (id = 0; id < DDP_READS_MAX + 4; id++)
		EXPECT_TRUE(done_next(self, id, id == 1 ? 0 : -ECANCELED));
	EXPECT_EQ(-ECONNRESET, ends_with(self));
}

/* ---- the number of Reads ---- */

/* The Read that opens the stream counts as outstanding. */
TEST_F(posts, reads_after_the_one_that_opens_the_stream)
{
	struct ddp_region region = {
		.addr = (unsigned long)self->memory, .length = READ_SINK,
		.access = DDP_REMOTE_READ,
	};
	struct ddp_post post = {
		.opcode = RDMAP_READ_REQUEST, .length = READ_SINK,
	};
	u32 reads, tries;

	for (tries = 0; tries < 40; tries++) {
		reads = 1 + tries % 2;
		closed(self);
		ASSERT_TRUE(opened(self));
		ASSERT_EQ(0, ioctl(self->dev[0], DDP_REGISTER, &region));
		post.stag = self->stag;
		post.remote_stag = region.stag;
		for (post.id = 0; post.id < reads; post.id++)
			ASSERT_EQ(0, ioctl(self->dev[1], DDP_POST, &post));
		ASSERT_TRUE(negotiated(self, reads, MPA_START_P2P |
				       MPA_START_RTR_READ));
		for (post.id = 0; post.id < reads; post.id++)
			ASSERT_TRUE(done_next(self, post.id, 0)) {
				TH_LOG("try %u", tries);
			}
	}
}

TEST_F(posts, reads_where_none_is_allowed)
{
	struct ddp_post buffer = { .opcode = DDP_RECEIVE };
	struct ddp_done done;

	ASSERT_TRUE(posts(self, 1, RDMAP_READ_REQUEST, READ_SINK));
	ASSERT_TRUE(posts(self, 2, RDMAP_READ_REQUEST, READ_SINK));
	ASSERT_TRUE(posts(self, 3, RDMAP_SEND, 0));
	ASSERT_EQ(0, ioctl(self->dev[0], DDP_POST, &buffer));
	ASSERT_TRUE(negotiated(self, 0, 0));
	EXPECT_TRUE(done_next(self, 1, -EOPNOTSUPP));
	EXPECT_TRUE(done_next(self, 2, -EOPNOTSUPP));
	EXPECT_TRUE(done_next(self, 3, 0));
	EXPECT_TRUE(told(self->dev[0], DDP_RECEIVED, &done, 5000));
	ASSERT_TRUE(posts(self, 4, RDMAP_READ_REQUEST, READ_SINK));
	EXPECT_TRUE(done_next(self, 4, -EOPNOTSUPP));
}

/* ---- end of the stream ---- */

TEST_F(posts, the_peer_ends_the_stream_when_all_is_done)
{
	struct ddp_done done;

	ASSERT_TRUE(direct(self));
	ASSERT_TRUE(posts(self, 1, DDP_RECEIVE, ROOM));
	ASSERT_TRUE(posts(self, 2, DDP_RECEIVE, ROOM));
	ASSERT_TRUE(posts(self, 3, RDMAP_READ_REQUEST, READ_SINK));
	ASSERT_TRUE(posts(self, 4, RDMAP_SEND, 0));
	ASSERT_TRUE(peer_gets(self, 1, 1));
	ASSERT_TRUE(peer_tagged(self, RDMAP_READ_RESPONSE, DDP_LAST, READ_SINK));
	ASSERT_TRUE(done_next(self, 3, 0));
	ASSERT_TRUE(done_next(self, 4, 0));
	ASSERT_TRUE(peer_tagged(self, RDMAP_WRITE, 0, 1));
	ASSERT_TRUE(peer_tagged(self, RDMAP_WRITE, DDP_LAST, 1));
	ASSERT_TRUE(peer_untagged(self, RDMAP_SEND, DDP_LAST, 1));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	ASSERT_TRUE(told(self->dev[1], DDP_RECEIVED, &done, 5000));
	EXPECT_EQ(0, done.status);
	/* A buffer without a message is cancelled, not completed. */
	ASSERT_TRUE(told(self->dev[1], DDP_RECEIVED, &done, 5000));
	EXPECT_EQ(-ECANCELED, done.status);
	EXPECT_EQ(0, ends_with(self));
}

/* The buffer is no longer registered, so nothing can be placed there. */
TEST_F(posts, a_send_to_a_region_that_is_gone)
{
	struct ddp_done done;

	ASSERT_TRUE(direct(self));
	ASSERT_TRUE(posts(self, 1, DDP_RECEIVE, ROOM));
	ASSERT_EQ(0, ioctl(self->dev[1], DDP_DEREGISTER, &self->stag));
	ASSERT_TRUE(peer_untagged(self, RDMAP_SEND, DDP_LAST, ROOM));
	ASSERT_TRUE(told(self->dev[1], DDP_TERMINATE_SENT, &done, 5000));
	EXPECT_EQ(DDP_ERR_LOCAL, done.error);
	ASSERT_TRUE(told(self->dev[1], DDP_RECEIVED, &done, 5000));
	EXPECT_EQ(-ECANCELED, done.status);
}

TEST_F(posts, the_peer_ends_the_stream_in_a_send)
{
	u32 length;

	/* The first segment may have no octets. */
	for (length = 0; length < 2; length++) {
		closed(self);
		ASSERT_TRUE(opened(self));
		ASSERT_TRUE(direct(self));
		ASSERT_TRUE(posts(self, 1, DDP_RECEIVE, ROOM));
		ASSERT_TRUE(peer_untagged(self, RDMAP_SEND, 0, length));
		ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
		EXPECT_EQ(-ECONNRESET, ends_with(self));
	}
}

TEST_F(posts, the_peer_ends_the_stream_in_a_write)
{
	ASSERT_TRUE(direct(self));
	ASSERT_TRUE(peer_tagged(self, RDMAP_WRITE, DDP_LAST, 1));
	ASSERT_TRUE(peer_tagged(self, RDMAP_WRITE, 0, 1));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_EQ(-ECONNRESET, ends_with(self));
}

TEST_F(posts, the_peer_ends_the_stream_without_a_response)
{
	ASSERT_TRUE(direct(self));
	ASSERT_TRUE(posts(self, 1, RDMAP_READ_REQUEST, READ_SINK));
	ASSERT_TRUE(peer_gets(self, 1, 0));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_TRUE(done_next(self, 1, -ECANCELED));
	EXPECT_EQ(-ECONNRESET, ends_with(self));
}

/* TCP does not take a whole Send. */
TEST_F(posts, the_peer_ends_the_stream_while_it_is_sent_to)
{
	ASSERT_TRUE(direct(self));
	ASSERT_TRUE(posts(self, 1, RDMAP_SEND, MEMORY));
	ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 5000));
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_TRUE(done_next(self, 1, -ECANCELED));
	EXPECT_EQ(-ECONNRESET, ends_with(self));
}

/* RFC 5044 section 7.1.2: a responder sends nothing before a good FPDU. */
TEST_F(posts, no_terminate_after_a_bad_first_fpdu)
{
	const struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1,
	};
	struct ddp_done done;
	u8 frame[FRAME_LEN];

	frame_put(frame, false, 0x40, 1, 0);
	ASSERT_EQ(0, write_all(self->fd[0], frame, FRAME_LEN));
	ASSERT_TRUE(starts(self->dev[1], self->fd[1], &start));
	ASSERT_EQ(FRAME_LEN, read_all(self->fd[0], frame, FRAME_LEN));
	memset(frame, 0, FRAME_LEN);
	/* This FPDU has four octets, and its CRC is not 0. */
	frame[1] = 2;
	ASSERT_EQ(0, write_all(self->fd[0], frame, 8));
	do {
		ASSERT_TRUE(tells(self->dev[1], &done, 5000));
		EXPECT_NE(DDP_TERMINATE_SENT, done.what);
	} while (done.what != DDP_ENDED);
	EXPECT_EQ(-EPROTO, done.status);
	EXPECT_EQ(0, recv(self->fd[0], frame, 1, 0));
}

/* ---- what is left to the program ---- */

/* Whether the stream has not ended after these octets. */
static bool goes_on(self_t *self)
{
	while (poll_for(self->fd[0], POLLIN, 20) == POLLIN)
		if (recv(self->fd[0], self->memory, MEMORY, 0) <= 0)
			return false;
	return true;
}

/* Close an end while it sends. The program still owns the socket. */
TEST_F(posts, closing_an_end_does_not_shut_the_socket)
{
	int status, tries;
	pid_t peer;

	for (tries = 0; tries < 40; tries++) {
		closed(self);
		ASSERT_TRUE(opened(self));
		ASSERT_TRUE(direct(self));
		ASSERT_TRUE(posts(self, 1, RDMAP_SEND, MEMORY));
		peer = fork();
		if (!peer) {
			close(self->dev[1]);
			_exit(goes_on(self) ? 0 : 1);
		}
		usleep(20 * tries);
		close(self->dev[1]);
		self->dev[1] = -1;
		ASSERT_EQ(peer, waitpid(peer, &status, 0));
		ASSERT_EQ(0, status) {
			TH_LOG("try %d", tries);
		}
		ASSERT_EQ(1, send(self->fd[1], "x", 1, MSG_NOSIGNAL));
	}
}

TEST_HARNESS_MAIN
