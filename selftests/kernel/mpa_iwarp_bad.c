// SPDX-License-Identifier: GPL-2.0
/*
 * A peer violates DDP or RDMAP. The iWARP end (mpa_iwarp.h) sends the Terminate of RFC
 * 5040 section 4.8 and RFC 5041 section 7.2 for the error, with a copy of the bad
 * segment's headers. Then the stream ends.
 */

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_iwarp.h"

#define ROOM		64	/* size of the buffer for a Send */
#define LENGTH		1000	/* length of each tagged buffer */
#define BASE		0x500000001000

#define WHOLE		(RDMAP_TERM_LENGTH | RDMAP_TERM_DDP)
#define WITH_READ	(WHOLE | RDMAP_TERM_READ)

/* Tagged buffers of the good end. */
enum which { BOTH, READ_ONLY, WRITE_ONLY, STRANGE, LOCAL, BUFFERS, NONE };

FIXTURE(iwarp)
{
	struct iw_end bad;	/* the initiator, whose segments the test builds */
	struct iw_end good;
	struct iw_end stranger;	/* end of another stream */
	bool kernel;
	struct mpa_start start[2];
	struct iw_buffer *buffer[BUFFERS];
	u8 octets[BUFFERS][LENGTH];
	u8 room[ROOM];
	u8 segment[2048];
	u32 length;
};

FIXTURE_VARIANT(iwarp)
{
	u32 flags;
	bool kernel;	/* the good end is samples/mpa_ddp */
};

FIXTURE_VARIANT_ADD(iwarp, plain) { .flags = 0 };
FIXTURE_VARIANT_ADD(iwarp, markers) { .flags = MPA_START_MARKERS };
FIXTURE_VARIANT_ADD(iwarp, kernel) { .kernel = true };
FIXTURE_VARIANT_ADD(iwarp, kernel_markers) {
	.flags = MPA_START_MARKERS, .kernel = true,
};

FIXTURE_SETUP(iwarp)
{
	int i;

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, iw_open(&self->bad, false));
	ASSERT_EQ(0, iw_open(&self->good, variant->kernel)) {
		TH_LOG("needs samples/mpa_ddp/mpa_ddp.ko: selftests/kmod/build KERNEL");
	}
	ASSERT_EQ(0, iw_open(&self->stranger, variant->kernel));
	self->kernel = variant->kernel;
	for (i = 0; i < 2; i++)
		self->start[i] = (struct mpa_start) {
			.role = i ? MPA_ROLE_RESPONDER : MPA_ROLE_INITIATOR,
			.revision = 1, .flags = variant->flags,
		};
}

#define self_t struct _test_data_iwarp

static void drop(struct iw_end *end)
{
	hang_up(end->fd);
	end->fd = -1;
	iw_free(end);
}

FIXTURE_TEARDOWN(iwarp)
{
	drop(&self->bad);
	drop(&self->good);
	drop(&self->stranger);
}

/* Open both ends again. */
static bool reopened(self_t *self)
{
	int i;

	for (i = 0; i < BUFFERS; i++)
		if (self->buffer[i] && self->buffer[i]->octets)
			iw_unregister(self->buffer[i]);
	drop(&self->bad);
	drop(&self->good);
	return !iw_open(&self->bad, false) &&
	       !iw_open(&self->good, self->kernel);
}

static bool registered(self_t *self)
{
	static const u8 access[BUFFERS] = {
		IW_REMOTE_READ | IW_REMOTE_WRITE, IW_REMOTE_READ,
		IW_REMOTE_WRITE, IW_REMOTE_READ | IW_REMOTE_WRITE,
	};
	int i;

	for (i = 0; i < BUFFERS; i++) {
		memset(self->octets[i], 0, LENGTH);
		self->buffer[i] = iw_register(i == STRANGE ? &self->stranger :
							     &self->good,
					      self->octets[i], LENGTH, BASE,
					      access[i]);
		if (!self->buffer[i])
			return false;
	}
	return true;
}

/* Begin a new stream. The good end has a buffer for one Send. */
static bool fresh(self_t *self)
{
	int fd[2];

	if (!reopened(self) || tcp_pair(AF_INET, fd) || !registered(self) ||
	    iw_start(&self->good, fd[1], &self->start[1]) ||
	    iw_start(&self->bad, fd[0], &self->start[0]))
		return false;
	iw_post(&self->good, self->room, ROOM);
	return true;
}

static u32 stag_of(self_t *self, enum which which)
{
	return which < BUFFERS ? self->buffer[which]->stag : 0xdeadbeef;
}

/* Build the segment to send: a header and @length octets. */
static void tagged(self_t *self, u8 opcode, u32 stag, u64 to, u32 length)
{
	struct ddp_tagged header = {
		.control = ddp_control_of(DDP_TAGGED | DDP_LAST, opcode),
		.stag = htonl(stag), .to = __cpu_to_be64(to),
	};

	memcpy(self->segment, &header, sizeof(header));
	memset(self->segment + sizeof(header), 0x77, length);
	self->length = sizeof(header) + length;
}

static void untagged(self_t *self, u8 opcode, u32 queue, u32 msn, u32 mo,
		     u32 length)
{
	struct ddp_untagged header = {
		.control = ddp_control_of(DDP_LAST, opcode),
		.queue = htonl(queue), .msn = htonl(msn), .mo = htonl(mo),
	};

	memcpy(self->segment, &header, sizeof(header));
	memset(self->segment + sizeof(header), 0x77, length);
	self->length = sizeof(header) + length;
}

static void request(self_t *self, u32 stag, u64 to, u32 size)
{
	struct rdmap_read_request request = {
		.sink_stag = htonl(0x51), .sink_to = __cpu_to_be64(0x52),
		.size = htonl(size), .source_stag = htonl(stag),
		.source_to = __cpu_to_be64(to),
	};

	untagged(self, RDMAP_READ_REQUEST, RDMAP_QUEUE_READ, 1, 0,
		 sizeof(request));
	memcpy(self->segment + sizeof(struct ddp_untagged), &request,
	       sizeof(request));
}

static bool goes(self_t *self)
{
	return !write_all(self->bad.fd, self->segment, self->length);
}

/* Whether the Terminate has the segment's headers, if it must. */
static bool shows_segment(self_t *self, u8 headers)
{
	const struct rdmap_terminate *terminate = (void *)self->bad.terminate;
	u32 len = ddp_header_len((void *)self->segment);

	if (terminate->headers != headers)
		return false;
	if (!headers)
		return true;
	if (headers & RDMAP_TERM_READ)
		len += sizeof(struct rdmap_read_request);
	return ntohs(terminate->length) == self->length &&
	       !memcmp(terminate + 1, self->segment, len);
}

/*
 * Send the segment. The end must reply with a Terminate, and with nothing else. Return:
 * the Terminate's code, or -1.
 */
static int answer(self_t *self, u8 headers)
{
	const char *what = NULL;
	u8 octet;

	if (!goes(self))
		what = "the segment cannot be sent";
	else if (!iw_progress(&self->good))
		what = "it is taken";
	else if (iw_progress(&self->bad) != -1)
		what = "no Terminate has come";
	else if (!shows_segment(self, headers))
		what = "the Terminate has not the segment's headers";
	else if (self->good.sent != self->bad.received)
		what = "the Terminate differs from the one reported";
	else if (recv(self->bad.fd, &octet, 1, 0))
		what = "the stream does not end";
	else
		return self->bad.received;
	fprintf(stderr, "# %s: sent %d, received %d, errno %d\n", what,
		self->good.sent, self->bad.received, errno);
	return -1;
}

/* Whether all buffers are unchanged. */
static bool untouched(self_t *self)
{
	int i, k;

	for (i = 0; i < BUFFERS; i++)
		for (k = 0; k < LENGTH; k++)
			if (self->octets[i][k])
				return false;
	return true;
}

TEST_F(iwarp, tagged_segments_outside_of_their_buffer)
{
	const struct { enum which which; u64 to; u32 len; int error; } rows[] = {
		{ NONE, BASE, 1, DDP_ERR_STAG },
		{ READ_ONLY, BASE, 1, DDP_ERR_STAG },
		{ STRANGE, BASE, 1, DDP_ERR_STREAM },
		{ BOTH, BASE - 1, 1, DDP_ERR_BOUNDS },
		{ BOTH, BASE - 1, LENGTH, DDP_ERR_BOUNDS },
		{ BOTH, BASE, LENGTH + 1, DDP_ERR_BOUNDS },
		{ BOTH, BASE + 1, LENGTH, DDP_ERR_BOUNDS },
		{ BOTH, BASE + LENGTH - 1, 2, DDP_ERR_BOUNDS },
		{ BOTH, BASE + LENGTH, 1, DDP_ERR_BOUNDS },
		{ BOTH, 0, 1, DDP_ERR_BOUNDS },
		{ BOTH, ~0ULL, 2, DDP_ERR_WRAP },
		{ BOTH, ~0ULL - 9, 10, DDP_ERR_WRAP },
		{ BOTH, ~0ULL - 9, 9, DDP_ERR_BOUNDS },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		ASSERT_TRUE(fresh(self));
		tagged(self, RDMAP_WRITE, stag_of(self, rows[i].which),
		       rows[i].to, rows[i].len);
		EXPECT_EQ(rows[i].error, answer(self, WHOLE)) {
			TH_LOG("row %u", i);
		}
		EXPECT_TRUE(untouched(self));
	}
}

TEST_F(iwarp, stags_beside_a_valid_one)
{
	unsigned int bit;

	for (bit = 0; bit < 32; bit++) {
		ASSERT_TRUE(fresh(self));
		tagged(self, RDMAP_WRITE, stag_of(self, BOTH) ^ 1U << bit, BASE,
		       1);
		/* Skip another buffer's STag. */
		if (iw_find(stag_of(self, BOTH) ^ 1U << bit))
			continue;
		EXPECT_EQ(DDP_ERR_STAG, answer(self, WHOLE));
	}
}

TEST_F(iwarp, edges_of_a_buffer_are_in_it)
{
	struct iw_message message;

	ASSERT_TRUE(fresh(self));
	tagged(self, RDMAP_WRITE, stag_of(self, BOTH), BASE + LENGTH - 1, 1);
	ASSERT_TRUE(goes(self));
	tagged(self, RDMAP_WRITE, stag_of(self, WRITE_ONLY), BASE, LENGTH);
	ASSERT_TRUE(goes(self));
	/* In an empty segment STag and TO are ignored (RFC 5041 section 5.2). */
	tagged(self, RDMAP_WRITE, stag_of(self, NONE), ~0ULL, 0);
	ASSERT_TRUE(goes(self));
	untagged(self, RDMAP_SEND_SE, RDMAP_QUEUE_SEND, 1, 0, ROOM);
	ASSERT_TRUE(goes(self));
	ASSERT_EQ(0, iw_receive(&self->good, &message));
	EXPECT_EQ(ROOM, message.length);
	EXPECT_EQ(RDMAP_SEND_SE, message.opcode);
	EXPECT_EQ(3, self->good.written);
	EXPECT_EQ(0, self->octets[BOTH][LENGTH - 2]);
	EXPECT_EQ(0x77, self->octets[BOTH][LENGTH - 1]);
	EXPECT_EQ(0x77, self->octets[WRITE_ONLY][0]);
	EXPECT_EQ(0x77, self->octets[WRITE_ONLY][LENGTH - 1]);
}

TEST_F(iwarp, versions)
{
	unsigned int version;

	for (version = 0; version < 4; version++) {
		if (version == 1)
			continue;
		ASSERT_TRUE(fresh(self));
		tagged(self, RDMAP_WRITE, stag_of(self, BOTH), BASE, 1);
		self->segment[0] = DDP_TAGGED | DDP_LAST | version;
		EXPECT_EQ(DDP_ERR_TAGGED_VERSION, answer(self, WHOLE));

		ASSERT_TRUE(fresh(self));
		untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, 1);
		self->segment[0] = DDP_LAST | version;
		EXPECT_EQ(DDP_ERR_UNTAGGED_VERSION, answer(self, WHOLE));

		ASSERT_TRUE(fresh(self));
		tagged(self, RDMAP_WRITE, stag_of(self, BOTH), BASE, 1);
		self->segment[1] = version << RDMAP_VERSION_SHIFT | RDMAP_WRITE;
		EXPECT_EQ(RDMAP_ERR_VERSION, answer(self, WHOLE));
		EXPECT_TRUE(untouched(self));

		ASSERT_TRUE(fresh(self));
		untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, 1);
		self->segment[1] = version << RDMAP_VERSION_SHIFT | RDMAP_SEND;
		EXPECT_EQ(RDMAP_ERR_VERSION, answer(self, WHOLE));
	}
}

TEST_F(iwarp, reserved_bits_are_not_looked_at)
{
	struct ddp_untagged *header = (void *)self->segment;
	struct iw_message message;

	ASSERT_TRUE(fresh(self));
	untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, 1);
	self->segment[0] |= 0x3c;
	self->segment[1] |= 0x30;
	/* This Send does not invalidate, so the STag stays valid. */
	header->invalidate = htonl(stag_of(self, BOTH));
	ASSERT_TRUE(goes(self));
	EXPECT_EQ(0, iw_receive(&self->good, &message));
	tagged(self, RDMAP_WRITE, stag_of(self, BOTH), BASE, 1);
	ASSERT_TRUE(goes(self));
	EXPECT_EQ(0, iw_take(&self->good, 2));
	EXPECT_EQ(1, self->good.written);
}

/* Send every opcode wherever it is not allowed. */
TEST_F(iwarp, opcodes)
{
	unsigned int opcode, queue;

	for (opcode = 0; opcode < 16; opcode++) {
		for (queue = 0; queue < RDMAP_QUEUES; queue++) {
			if (rdmap_queue_of(opcode) == queue)
				continue;
			ASSERT_TRUE(fresh(self));
			untagged(self, opcode, queue, 1, 0, 4);
			EXPECT_EQ(RDMAP_ERR_OPCODE, answer(self, WHOLE)) {
				TH_LOG("%u on queue %u", opcode, queue);
			}
		}
		if (opcode == RDMAP_WRITE)
			continue;
		/* This Read Response was not requested. */
		ASSERT_TRUE(fresh(self));
		tagged(self, opcode, stag_of(self, BOTH), BASE, 4);
		EXPECT_EQ(RDMAP_ERR_OPCODE, answer(self, WHOLE)) {
			TH_LOG("%u, tagged", opcode);
		}
		EXPECT_TRUE(untouched(self));
	}
}

TEST_F(iwarp, untagged_segments_without_a_place)
{
	const struct { u32 queue, msn, mo, len; int error; } rows[] = {
		{ 3, 1, 0, 1, DDP_ERR_QUEUE },
		{ ~0U, 1, 0, 1, DDP_ERR_QUEUE },
		{ 0, 0, 0, 1, DDP_ERR_MSN },
		{ 0, 2, 0, 1, DDP_ERR_MSN },
		{ 0, ~0U, 0, 1, DDP_ERR_MSN },
		{ 1, 2, 0, 28, DDP_ERR_MSN },
		{ 2, 2, 0, 4, DDP_ERR_MSN },
		{ 0, 1, 1, 1, DDP_ERR_MO },
		{ 0, 1, ROOM, 1, DDP_ERR_MO },
		{ 0, 1, ~0U, 2, DDP_ERR_MO },
		{ 0, 1, 0, ROOM + 1, DDP_ERR_TOO_LONG },
		{ 1, 1, 0, 29, DDP_ERR_TOO_LONG },
		{ 2, 1, 0, RDMAP_TERM_MAX + 1, DDP_ERR_TOO_LONG },
	};
	static const u8 opcodes[] = {
		RDMAP_SEND, RDMAP_READ_REQUEST, RDMAP_TERMINATE,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		ASSERT_TRUE(fresh(self));
		untagged(self, rows[i].queue < 3 ? opcodes[rows[i].queue] :
						   RDMAP_SEND,
			 rows[i].queue, rows[i].msn, rows[i].mo, rows[i].len);
		EXPECT_EQ(rows[i].error, answer(self, WHOLE)) {
			TH_LOG("row %u", i);
		}
	}
}

TEST_F(iwarp, sends_beyond_the_posted_buffers)
{
	struct iw_message message;

	ASSERT_TRUE(fresh(self));
	untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, 1);
	ASSERT_TRUE(goes(self));
	ASSERT_EQ(0, iw_receive(&self->good, &message));
	untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 2, 0, 1);
	EXPECT_EQ(DDP_ERR_NO_BUFFER, answer(self, WHOLE));

	/* Use the same message number again. */
	ASSERT_TRUE(fresh(self));
	iw_post(&self->good, self->room, ROOM);
	untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, 1);
	ASSERT_TRUE(goes(self));
	ASSERT_EQ(0, iw_receive(&self->good, &message));
	EXPECT_EQ(DDP_ERR_MSN, answer(self, WHOLE));
}

/* A Send has two segments, and the second is wrong. */
TEST_F(iwarp, second_segments)
{
	const struct { u8 opcode; u32 msn, mo, len; int error; } rows[] = {
		{ RDMAP_SEND, 1, 31, 1, DDP_ERR_MO },
		{ RDMAP_SEND, 1, 33, 1, DDP_ERR_MO },
		{ RDMAP_SEND, 1, 0, 1, DDP_ERR_MO },
		{ RDMAP_SEND, 2, 32, 1, DDP_ERR_MSN },
		{ RDMAP_SEND, 1, 32, ROOM - 31, DDP_ERR_TOO_LONG },
		{ RDMAP_SEND_SE, 1, 32, 1, RDMAP_ERR_OPCODE },
	};
	struct iw_message message;
	unsigned int i;

	for (i = 0; i <= ARRAY_SIZE(rows); i++) {
		ASSERT_TRUE(fresh(self));
		untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, 32);
		self->segment[0] &= ~DDP_LAST;
		ASSERT_TRUE(goes(self));
		ASSERT_EQ(0, iw_take(&self->good, 1));
		EXPECT_EQ(0, self->good.arrived);
		if (i == ARRAY_SIZE(rows))
			break;
		untagged(self, rows[i].opcode, RDMAP_QUEUE_SEND, rows[i].msn,
			 rows[i].mo, rows[i].len);
		EXPECT_EQ(rows[i].error, answer(self, WHOLE)) {
			TH_LOG("row %u", i);
		}
	}
	/* This is the right segment. */
	untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 32, ROOM - 32);
	ASSERT_TRUE(goes(self));
	ASSERT_EQ(0, iw_receive(&self->good, &message));
	EXPECT_EQ(ROOM, message.length);
}

TEST_F(iwarp, invalidation)
{
	struct ddp_untagged *header = (void *)self->segment;
	struct iw_message message;

	ASSERT_TRUE(fresh(self));
	untagged(self, RDMAP_SEND_INVALIDATE, RDMAP_QUEUE_SEND, 1, 0, 1);
	header->invalidate = htonl(stag_of(self, NONE));
	EXPECT_EQ(RDMAP_ERR_INVALIDATE, answer(self, WHOLE));

	ASSERT_TRUE(fresh(self));
	untagged(self, RDMAP_SEND_SE_INVALIDATE, RDMAP_QUEUE_SEND, 1, 0, 1);
	header->invalidate = htonl(stag_of(self, STRANGE));
	EXPECT_EQ(RDMAP_ERR_INVALIDATE, answer(self, WHOLE));

	/* The peer never received this STag. */
	ASSERT_TRUE(fresh(self));
	untagged(self, RDMAP_SEND_INVALIDATE, RDMAP_QUEUE_SEND, 1, 0, 1);
	header->invalidate = htonl(stag_of(self, LOCAL));
	EXPECT_EQ(RDMAP_ERR_INVALIDATE, answer(self, WHOLE));

	/* An STag that was invalidated is not valid. */
	ASSERT_TRUE(fresh(self));
	untagged(self, RDMAP_SEND_INVALIDATE, RDMAP_QUEUE_SEND, 1, 0, 1);
	header->invalidate = htonl(stag_of(self, BOTH));
	ASSERT_TRUE(goes(self));
	ASSERT_EQ(0, iw_receive(&self->good, &message));
	tagged(self, RDMAP_WRITE, stag_of(self, BOTH), BASE, 1);
	EXPECT_EQ(DDP_ERR_STAG, answer(self, WHOLE));
}

TEST_F(iwarp, read_requests_outside_of_their_buffer)
{
	const struct { enum which which; u64 to; u32 size; int error; } rows[] = {
		{ NONE, BASE, 1, RDMAP_ERR_STAG },
		{ STRANGE, BASE, 1, RDMAP_ERR_STREAM },
		{ WRITE_ONLY, BASE, 1, RDMAP_ERR_ACCESS },
		{ BOTH, BASE - 1, 1, RDMAP_ERR_BOUNDS },
		{ BOTH, BASE, LENGTH + 1, RDMAP_ERR_BOUNDS },
		{ BOTH, BASE + LENGTH, 1, RDMAP_ERR_BOUNDS },
		{ BOTH, BASE, ~0U, RDMAP_ERR_BOUNDS },
		{ BOTH, ~0ULL, 2, RDMAP_ERR_WRAP },
		{ BOTH, ~0ULL - 9, 10, RDMAP_ERR_WRAP },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		ASSERT_TRUE(fresh(self));
		request(self, stag_of(self, rows[i].which), rows[i].to,
			rows[i].size);
		EXPECT_EQ(rows[i].error, answer(self, WITH_READ)) {
			TH_LOG("row %u", i);
		}
		EXPECT_EQ(0, self->good.served);
	}
}

TEST_F(iwarp, read_requests_of_a_wrong_length)
{
	u32 len;

	for (len = 0; len < sizeof(struct rdmap_read_request); len++) {
		ASSERT_TRUE(fresh(self));
		request(self, stag_of(self, BOTH), BASE, 1);
		self->length = sizeof(struct ddp_untagged) + len;
		EXPECT_EQ(RDMAP_ERR_UNSPECIFIED, answer(self, WHOLE));
	}
}

/* A Read Request, like any message, may arrive in several segments. */
TEST_F(iwarp, read_requests_in_pieces)
{
	struct rdmap_read_request read;
	u8 seen[128];
	u32 i;

	ASSERT_TRUE(fresh(self));
	request(self, stag_of(self, BOTH), BASE + 1, 7);
	memcpy(&read, self->segment + sizeof(struct ddp_untagged), sizeof(read));
	for (i = 0; i < sizeof(read); i++) {
		untagged(self, RDMAP_READ_REQUEST, RDMAP_QUEUE_READ, 1, i, 1);
		self->segment[sizeof(struct ddp_untagged)] = ((u8 *)&read)[i];
		if (i != sizeof(read) - 1)
			self->segment[0] &= ~DDP_LAST;
		ASSERT_TRUE(goes(self));
		ASSERT_EQ(0, iw_take(&self->good, i + 1));
	}
	EXPECT_EQ(sizeof(struct ddp_tagged) + 7,
		  recv(self->bad.fd, seen, sizeof(seen), 0));
	EXPECT_EQ(0, memcmp(seen + 2, &read, 12));
}

TEST_F(iwarp, reads_that_were_not_negotiated)
{
	self->start[0].revision = 2;
	self->start[0].flags |= MPA_START_ENHANCED;
	self->start[1].revision = 2;
	ASSERT_TRUE(fresh(self));
	request(self, stag_of(self, BOTH), BASE, 1);
	EXPECT_EQ(DDP_ERR_NO_BUFFER, answer(self, WHOLE));
}

/*
 * RFC 6581 section 9.2: MPA handles an FPDU without a ULPDU itself; the upper layer
 * does not see it.
 */
TEST_F(iwarp, opens_with_an_empty_fpdu)
{
	struct iw_message message;

	self->start[0].revision = 2;
	self->start[0].flags |= MPA_START_ENHANCED | MPA_START_P2P |
				MPA_START_RTR_FPDU;
	self->start[1].revision = 2;
	self->start[1].flags |= MPA_START_RTR_FPDU;
	ASSERT_TRUE(fresh(self));
	untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, 1);
	ASSERT_TRUE(goes(self));
	EXPECT_EQ(0, iw_receive(&self->good, &message));
	ASSERT_EQ(0, iw_take(&self->good, 1));
	EXPECT_EQ(1, self->good.segments);
}

TEST_F(iwarp, empty_reads_of_anything)
{
	u8 seen[128];

	ASSERT_TRUE(fresh(self));
	request(self, stag_of(self, NONE), ~0ULL, 0);
	ASSERT_TRUE(goes(self));
	ASSERT_EQ(0, iw_take(&self->good, 1));
	EXPECT_EQ(sizeof(struct ddp_tagged),
		  recv(self->bad.fd, seen, sizeof(seen), 0));
}

/* The good end has requested 100 octets. */
TEST_F(iwarp, read_responses_that_were_not_asked_for)
{
	const struct { enum which which; int to; u32 len; int error; } rows[] = {
		{ READ_ONLY, 0, 100, DDP_ERR_STAG },
		{ NONE, 0, 100, DDP_ERR_STAG },
		{ BOTH, 1, 100, DDP_ERR_BOUNDS },
		{ BOTH, -1, 100, DDP_ERR_BOUNDS },
		{ BOTH, 0, 101, DDP_ERR_BOUNDS },
		{ BOTH, 0, 99, DDP_ERR_BOUNDS },
		{ BOTH, 0, 0, DDP_ERR_BOUNDS },
	};
	struct iw_message message;
	u8 seen[128];
	unsigned int i;

	for (i = 0; i <= ARRAY_SIZE(rows); i++) {
		ASSERT_TRUE(fresh(self));
		/* The initiator has to open the stream. */
		untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, 1);
		ASSERT_TRUE(goes(self));
		ASSERT_EQ(0, iw_receive(&self->good, &message));
		ASSERT_EQ(0, iw_read(&self->good, self->buffer[BOTH], 10, 1, 0,
				     100));
		ASSERT_EQ(sizeof(struct ddp_untagged) +
			  sizeof(struct rdmap_read_request),
			  recv(self->bad.fd, seen, sizeof(seen), 0));
		if (i == ARRAY_SIZE(rows))
			break;
		tagged(self, RDMAP_READ_RESPONSE, stag_of(self, rows[i].which),
		       BASE + 10 + rows[i].to, rows[i].len);
		EXPECT_EQ(rows[i].error, answer(self, WHOLE)) {
			TH_LOG("row %u", i);
		}
		EXPECT_TRUE(untouched(self));
	}
	tagged(self, RDMAP_READ_RESPONSE, stag_of(self, BOTH), BASE + 10, 100);
	ASSERT_TRUE(goes(self));
	EXPECT_EQ(0, iw_read_all(&self->good));
	EXPECT_EQ(0, self->octets[BOTH][9]);
	EXPECT_EQ(0x77, self->octets[BOTH][10]);
	EXPECT_EQ(0x77, self->octets[BOTH][109]);
	EXPECT_EQ(0, self->octets[BOTH][110]);
}

TEST_F(iwarp, segments_shorter_than_their_header)
{
	u32 len;

	for (len = 1; len < sizeof(struct ddp_untagged); len++) {
		ASSERT_TRUE(fresh(self));
		untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, 0);
		self->length = len;
		EXPECT_EQ(DDP_ERR_LOCAL, answer(self, 0));
		if (len >= sizeof(struct ddp_tagged))
			continue;
		ASSERT_TRUE(fresh(self));
		tagged(self, RDMAP_WRITE, stag_of(self, BOTH), BASE, 0);
		self->length = len;
		EXPECT_EQ(DDP_ERR_LOCAL, answer(self, 0));
	}
}

TEST_F(iwarp, terminates_that_are_too_short)
{
	u32 len;

	for (len = 0; len < RDMAP_TERM_SHORT; len++) {
		ASSERT_TRUE(fresh(self));
		untagged(self, RDMAP_TERMINATE, RDMAP_QUEUE_TERMINATE, 1, 0, len);
		EXPECT_EQ(RDMAP_ERR_UNSPECIFIED, answer(self, WHOLE));
	}
}

/* RFC 5040 section 5.4: from then on nothing is answered or sent. */
TEST_F(iwarp, a_terminate_ends_the_stream)
{
	u8 octet;

	ASSERT_TRUE(fresh(self));
	iw_terminate(&self->bad, RDMAP_ERR_UNSPECIFIED, NULL, 0);
	EXPECT_EQ(-1, iw_progress(&self->good));
	EXPECT_EQ(RDMAP_ERR_UNSPECIFIED, self->good.received);
	EXPECT_EQ(-1, iw_send(&self->good, RDMAP_SEND, 0, "x", 1));
	EXPECT_EQ(-1, iw_send(&self->bad, RDMAP_SEND, 0, "x", 1));
	EXPECT_EQ(-1, iw_close(&self->good));
	EXPECT_EQ(0, recv(self->bad.fd, &octet, 1, 0));
}

/* ---- a simulated peer, below MPA ---- */

static bool by_hand(self_t *self, struct peer *peer)
{
	u8 frame[FRAME_LEN];
	int fd[2];

	if (!reopened(self) || tcp_pair(AF_INET, fd) || !registered(self))
		return false;
	self->bad.fd = fd[0];
	*peer = (struct peer) { .fd = fd[0] };
	peer->tx_markers = self->start[1].flags & MPA_START_MARKERS;
	frame_put(frame, false, 0x40, 1, 0);
	if (write_all(fd[0], frame, FRAME_LEN) ||
	    iw_start(&self->good, fd[1], &self->start[1]) ||
	    read_all(fd[0], frame, FRAME_LEN) != FRAME_LEN)
		return false;
	iw_post(&self->good, self->room, ROOM);
	return true;
}

TEST_F(iwarp, headers_octet_by_octet)
{
	struct iw_message message;
	struct peer peer;
	u8 fpdu[256];
	size_t n, i;

	ASSERT_TRUE(by_hand(self, &peer));
	untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, ROOM);
	n = peer_fpdu(&peer, self->segment, self->length, fpdu);
	for (i = 0; i < n; i++)
		ASSERT_EQ(0, write_all(peer.fd, fpdu + i, 1));
	ASSERT_EQ(0, iw_receive(&self->good, &message));
	EXPECT_EQ(ROOM, message.length);
}

/* RFC 5044 section 8: the upper layer reports MPA's errors to the peer. */
TEST_F(iwarp, errors_of_mpa_are_reported)
{
	struct iw_message message;
	struct peer peer;
	u8 fpdu[256];
	size_t n;

	ASSERT_TRUE(by_hand(self, &peer));
	untagged(self, RDMAP_SEND, RDMAP_QUEUE_SEND, 1, 0, ROOM);
	/* The first FPDU has to be good, so that the responder may send. */
	ASSERT_EQ(0, peer_send(&peer, self->segment, self->length));
	ASSERT_EQ(0, iw_receive(&self->good, &message));
	n = peer_fpdu(&peer, self->segment, self->length, fpdu);
	fpdu[n - 1] ^= 1;
	ASSERT_EQ(0, write_all(peer.fd, fpdu, n));
	EXPECT_EQ(-1, iw_progress(&self->good));
	EXPECT_EQ(MPA_TERM_CRC, self->good.sent);
	/* The FPDU has the length, DDP's header, four octets and the CRC. */
	ASSERT_EQ(28, read_all(peer.fd, fpdu, 28));
	EXPECT_EQ(RDMAP_TERMINATE, fpdu[3] & RDMAP_OPCODE_MASK);
	EXPECT_EQ(0x20, fpdu[20]);
	EXPECT_EQ(0x02, fpdu[21]);
	EXPECT_EQ(0, read_all(peer.fd, fpdu, 1));
}

TEST_HARNESS_MAIN
