// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of TUF for other users: a segment's processing, if the peer has filled FPDUs
 * with markers; and memory that is kept for a program that no longer sends.
 */

#include <poll.h>
#include <sys/resource.h>

#include "mpa_harness.h"
#include "mpa_proc.h"
#include "mpa_tuf_place.h"
#include "mpa_place_cost.h"

FIXTURE_VARIANT_ADD(place, ipv4) { AF_INET, TUF_MARKERS, 128, true };

/*
 * Send octets of an FPDU in segments of 128, each with a marker that points to the next
 * one. The last segment is sent first, so that TCP merges none. Return: the position
 * after them, or 0.
 */
static u32 add_markers(struct _test_data_place *self, u32 octets)
{
	u32 start, n;

	stream_add_many(self, 60000, 3);
	start = self->start[self->records - 2] + 16;
	for (n = octets; n; n -= 128)
		if (forge(&self->forger, start + n - 128,
			  self->stream + start + n - 128, 128, 0, 0))
			return 0;
	poll(NULL, 0, 300);
	return start + octets;
}

TEST_F(place, an_octet_after_many_markers)
{
	double few = segment_us(self, add_markers(self, 10 * 128), 1, 0);

	COSTS_THE_SAME(few, segment_us(self, add_markers(self, 400 * 128), 1,
				       0));
}

/* ---- a program that has sent ---- */

#define IDLE	400

FIXTURE(idle)
{
	int fd[IDLE][2];
};

FIXTURE_SETUP(idle)
{
	const struct rlimit files = { 4096, 4096 };
	int i;

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	for (i = 0; i < IDLE; i++)
		ASSERT_EQ(0, tcp_pair(AF_INET, self->fd[i]));
}

FIXTURE_TEARDOWN(idle)
{
	int i;

	for (i = 0; i < IDLE; i++) {
		hang_up(self->fd[i][0]);
		hang_up(self->fd[i][1]);
	}
}

/* Send octets on each socket; the peer reads all. @more: octets of framing. */
static int each_sends(struct _test_data_idle *self, ssize_t more)
{
	static u8 seen[16008];
	int i, n;

	for (i = 0; i < IDLE; i++)
		for (n = 0; n < 2; n++)
			if (send(self->fd[i][0], record_row, 16000, 0) != 16000 ||
			    recv(self->fd[i][1], seen, 16000 + more,
				 MSG_WAITALL) != 16000 + more)
				return -1;
	return 0;
}

/* The last page for sending, of 32 KiB, is not kept for the next FPDU. */
TEST_F_TIMEOUT(idle, no_page_is_kept_for_each, 120)
{
	struct tuf_way way = { .mode = TUF_ALIGN };
	long kb, until;
	int i;

	/* First have the memory allocated that TCP's own sends, and debugging, keep. */
	ASSERT_EQ(0, each_sends(self, 0));
	kb = free_kb();
	for (i = 0; i < IDLE; i++) {
		ASSERT_EQ(0, tuf_attach(self->fd[i][0]));
		ASSERT_EQ(0, tuf_start(self->fd[i][0], TUF_TX, &way));
	}
	ASSERT_EQ(0, each_sends(self, TUF_HEADER_LEN));
	until = now_ms() + 60000;
	while (kb - free_kb() > 16 * IDLE && now_ms() < until)
		poll(NULL, 0, 100);
	TH_LOG("%ld KiB for each", (kb - free_kb()) / IDLE);
	EXPECT_GE(16 * IDLE, kb - free_kb());
}

TEST_HARNESS_MAIN
