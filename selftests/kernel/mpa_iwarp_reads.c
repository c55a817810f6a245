// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA Reads of the kernel's iWARP end (samples/mpa_ddp), with response segments in any
 * order: each segment counts for its Read, and a Read is reported as done only when all
 * its octets have arrived.
 */

#include "mpa_test.h"
#include "mpa_forge.h"
#include "mpa_harness.h"
#include "mpa_kmod.h"
#include "samples/mpa_ddp/mpa_ddp.h"
#include "samples/mpa_ddp/wire.h"

#define MEMORY		65536
#define STREAM		(256 << 10)
#define SEGMENTS	512
#define REQUEST		52	/* octets of a Read Request's FPDU */

FIXTURE(reads)
{
	int fd[2];		/* peer, whose segments are forged; end */
	int dev;
	u32 stag;
	u64 posted;
	struct peer peer;
	struct forger forger;
	u8 *stream;		/* octets that the peer sends */
	u32 n;			/* number of its segments */
	u32 at[SEGMENTS + 1];	/* where each segment begins */
	u32 error;		/* error of the Terminate that was sent */
	u8 *memory;
};

static int open_end(struct _test_data_reads *self)
{
	struct mpa_start start = {
		.role = MPA_ROLE_DIRECT, .revision = 1,
		.flags = MPA_START_MARKERS,
	};
	struct ddp_region region = {
		.addr = (unsigned long)self->memory, .length = MEMORY,
	};
	int on = 1;

	if (tcp_pair_buf(AF_INET, self->fd, 400000))
		return -1;
	self->peer = (struct peer) { .fd = self->fd[0], .tx_markers = true };
	self->dev = open("/dev/mpa_ddp", O_RDWR | O_NONBLOCK);
	if (self->dev < 0 || ioctl(self->dev, DDP_ATTACH, &self->fd[1]) ||
	    ioctl(self->dev, DDP_START, &start) ||
	    ioctl(self->dev, DDP_PLACE, &on) ||
	    ioctl(self->dev, DDP_REGISTER, &region))
		return -1;
	self->stag = region.stag;
	self->posted = 0;
	self->n = 0;
	self->error = 0;
	memset(self->memory, 0, MEMORY);
	return forger_open(&self->forger, self->fd[0], self->fd[1]);
}

static void close_end(struct _test_data_reads *self)
{
	close(self->forger.raw);
	close(self->dev);
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
}

FIXTURE_SETUP(reads)
{
	ASSERT_EQ(0, own_netns());
	/* On one processor forged segments are received when the call returns. */
	ASSERT_EQ(0, one_processor());
	if (access("/dev/mpa_ddp", F_OK))
		ASSERT_EQ(0, kmod_do("insmod $MODULES/samples/mpa_ddp/mpa_ddp.ko"));
	ASSERT_EQ(0, posix_memalign((void **)&self->memory, 4096, MEMORY));
	self->stream = malloc(STREAM);
	ASSERT_EQ(0, open_end(self));
}

FIXTURE_TEARDOWN(reads)
{
	close_end(self);
	free(self->stream);
	free(self->memory);
}

#define self_t struct _test_data_reads

/* Post a Read of @length octets to @to. On return its request is sent. */
static bool post(self_t *self, u64 to, u32 length)
{
	struct ddp_post post = {
		.id = self->posted++, .opcode = RDMAP_READ_REQUEST, .length = length,
		.stag = self->stag, .to = to, .remote_stag = 77,
	};
	u8 request[REQUEST];
	int on = 1;

	/* The last call waits until the sender has unlocked the socket. */
	return !ioctl(self->dev, DDP_POST, &post) &&
	       read_all(self->fd[0], request, REQUEST) == REQUEST &&
	       !ioctl(self->dev, DDP_PLACE, &on);
}

/* Append a segment to the peer's stream. */
static void segment(self_t *self, u64 to, u32 length, u8 octet, bool last)
{
	struct ddp_tagged header = {
		.control = ddp_control_of(DDP_TAGGED | (last ? DDP_LAST : 0),
					  RDMAP_READ_RESPONSE),
		.stag = htonl(self->stag), .to = __cpu_to_be64(to),
	};
	static u8 ulpdu[4096];
	u32 i = self->n++;

	memcpy(ulpdu, &header, sizeof(header));
	memset(ulpdu + sizeof(header), octet, length);
	self->at[i + 1] = self->at[i] +
			  peer_fpdu(&self->peer, ulpdu, sizeof(header) + length,
				    self->stream + self->at[i]);
}

static bool arrives(self_t *self, u32 i)
{
	return !forge(&self->forger, self->at[i], self->stream + self->at[i],
		      self->at[i + 1] - self->at[i], 0, 0) && lo_delivered();
}

static bool arrive(self_t *self, const u32 *order, u32 n)
{
	while (n--)
		if (!arrives(self, *order++))
			return false;
	return true;
}

/* Return: the number of Reads reported as done, in order, until no report follows. */
static int done(self_t *self, int ms)
{
	struct ddp_done done;
	int n = 0;

	while (poll_for(self->dev, POLLIN, n == self->posted ? 0 : ms) == POLLIN &&
	       read(self->dev, &done, sizeof(done)) == sizeof(done)) {
		if (done.what == DDP_TERMINATE_SENT)
			self->error = done.error;
		if (done.what == DDP_ENDED)
			break;
		if (done.what == DDP_POSTED && !done.status)
			n += done.id == n ? 1 : 1000;
	}
	return n;
}

static bool holds(self_t *self, u32 from, u32 to, u8 octet)
{
	for (; from < to; from++)
		if (self->memory[from] != octet)
			return false;
	return true;
}

/* Return: the number of octets placed out of order. */
static u64 placed(self_t *self)
{
	struct ddp_info info = {};

	ioctl(self->dev, DDP_INFO, &info);
	return info.placed;
}

/* Whether this number of octets is placed, at once or once the work item has run. */
static bool places(self_t *self, u64 octets)
{
	long until = now_ms() + 20000;

	while (placed(self) < octets && now_ms() < until)
		usleep(1000);
	return placed(self) == octets;
}

/* Post two Reads: of 1500 octets in three segments, and of 1000 octets in two. */
static bool two_reads(self_t *self, u64 second)
{
	u32 i;

	if (!post(self, 0, 1500) || !post(self, second, 1000))
		return false;
	for (i = 0; i < 3; i++)
		segment(self, 500 * i, 500, 'a', i == 2);
	for (i = 0; i < 2; i++)
		segment(self, second + 500 * i, 500, 'b', i == 1);
	return true;
}

TEST_F(reads, responses_in_order)
{
	static const u32 order[] = { 0, 1, 2, 3, 4 };

	ASSERT_TRUE(two_reads(self, 0));
	ASSERT_TRUE(arrive(self, order, 5));
	EXPECT_EQ(2, done(self, 5000));
	EXPECT_TRUE(holds(self, 0, 1000, 'b'));
	EXPECT_TRUE(holds(self, 1000, 1500, 'a'));
}

TEST_F(reads, segments_backwards)
{
	static const u32 order[] = { 4, 3, 2, 1, 0 };

	ASSERT_TRUE(two_reads(self, 2000));
	ASSERT_TRUE(arrive(self, order, 5));
	EXPECT_EQ(2, done(self, 5000));
	EXPECT_TRUE(holds(self, 0, 1500, 'a'));
	EXPECT_TRUE(holds(self, 2000, 3000, 'b'));
}

TEST_F(reads, middle_segment_after_the_last_one)
{
	static const u32 order[] = { 0, 3, 4 };

	ASSERT_TRUE(two_reads(self, 0));
	ASSERT_TRUE(arrives(self, 2));
	EXPECT_TRUE(places(self, 500));
	ASSERT_TRUE(arrives(self, 1));
	EXPECT_TRUE(places(self, 1000)) {
		TH_LOG("%llu octets", (unsigned long long)placed(self));
	}
	ASSERT_TRUE(arrive(self, order, 3));
	EXPECT_EQ(2, done(self, 5000)) {
		TH_LOG("Terminate %x", self->error);
	}
}

TEST_F(reads, octets_that_never_came)
{
	ASSERT_TRUE(post(self, 0, 1000));
	segment(self, 0, 500, 'a', false);
	segment(self, 0, 500, 'a', true);
	ASSERT_TRUE(arrives(self, 1));
	ASSERT_TRUE(arrives(self, 0));
	EXPECT_EQ(0, done(self, 5000));
	EXPECT_EQ(DDP_ERR_BOUNDS, self->error);
}

TEST_F(reads, octets_that_came_twice)
{
	ASSERT_TRUE(post(self, 0, 1000));
	segment(self, 0, 500, 'a', false);
	segment(self, 250, 500, 'a', false);
	segment(self, 500, 500, 'a', true);
	ASSERT_TRUE(arrives(self, 2));
	ASSERT_TRUE(arrives(self, 1));
	ASSERT_TRUE(arrives(self, 0));
	EXPECT_EQ(0, done(self, 5000));
	EXPECT_EQ(DDP_ERR_BOUNDS, self->error);
}

/* A response arrives in more pieces than the end can record. */
TEST_F(reads, every_other_segment_first)
{
	u32 i;

	ASSERT_TRUE(post(self, 0, 10000));
	for (i = 0; i < 100; i++)
		segment(self, 100 * i, 100, 'a' + i % 26, i == 99);
	for (i = 1; i < 100; i += 2)
		ASSERT_TRUE(arrives(self, i));
	for (i = 0; i < 100; i += 2)
		ASSERT_TRUE(arrives(self, i));
	EXPECT_EQ(1, done(self, 5000)) {
		TH_LOG("Terminate %x", self->error);
	}
	for (i = 0; i < 100; i++)
		EXPECT_TRUE(holds(self, 100 * i, 100 * i + 100, 'a' + i % 26));
}

/* ---- any order ---- */

#define READS		8
#define SINK		6000

/*
 * Post Reads of random lengths, some empty. @apart: distance between their sinks; 0:
 * they share one.
 */
static bool many_reads(self_t *self, u32 apart, u32 lengths[READS])
{
	u32 r, left, to, k;

	for (r = 0; r < READS; r++) {
		lengths[r] = rand() % 8 ? 1 + rand() % 3000 : 0;
		if (!post(self, apart * r, lengths[r]))
			return false;
		left = lengths[r];
		to = apart * r;
		do {
			k = left ? 1 + rand() % 900 : 0;
			k = k > left ? left : k;
			left -= k;
			segment(self, to, k, 'a' + r, !left);
			to += k;
		} while (left);
	}
	return true;
}

/* Shuffle: swap each entry with one of the @reach - 1 entries after it. */
static void shuffle(u32 *order, u32 n, u32 reach)
{
	u32 i, j, was;

	for (i = 0; i < n; i++)
		order[i] = i;
	for (i = 0; i < n; i++) {
		j = i + rand() % (reach < n - i ? reach : n - i);
		was = order[i];
		order[i] = order[j];
		order[j] = was;
	}
}

static bool reads_in_any_order(self_t *self, u32 apart, u32 reach)
{
	u32 lengths[READS], order[SEGMENTS], r;
	bool good = true;

	close_end(self);
	if (open_end(self) || !many_reads(self, apart, lengths))
		return false;
	shuffle(order, self->n, reach);
	if (!arrive(self, order, self->n) || done(self, 5000) != READS)
		return false;
	for (r = 0; r < READS && apart; r++)
		good = good && holds(self, apart * r, apart * r + lengths[r],
				     'a' + r);
	return good;
}

TEST_F(reads, any_order)
{
	int seed;

	for (seed = 0; seed < 40; seed++) {
		srand(seed);
		EXPECT_TRUE(reads_in_any_order(self, SINK, seed % 2 ? 4 : 1000)) {
			TH_LOG("seed %d: Terminate %x", seed, self->error);
		}
	}
}

TEST_F(reads, any_order_to_the_same_sink)
{
	int seed;

	for (seed = 0; seed < 40; seed++) {
		srand(seed);
		EXPECT_TRUE(reads_in_any_order(self, 0, seed % 2 ? 4 : 1000)) {
			TH_LOG("seed %d: Terminate %x", seed, self->error);
		}
	}
}

TEST_HARNESS_MAIN
