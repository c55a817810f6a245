// SPDX-License-Identifier: GPL-2.0
/* MPA_PLACE on "tuf", with both ways to find an FPDU after a gap. */

#include "mpa_harness.h"
#include "mpa_tuf_place.h"

FIXTURE_VARIANT_ADD(place, align) { AF_INET, TUF_ALIGN, 0, false };
FIXTURE_VARIANT_ADD(place, align_ipv6) { AF_INET6, TUF_ALIGN, 0, false };
FIXTURE_VARIANT_ADD(place, markers) { AF_INET, TUF_MARKERS, 512, false };
FIXTURE_VARIANT_ADD(place, markers_keyless) { AF_INET6, TUF_MARKERS, 512, true };

/* Some octets arrive again, together with others. */
TEST_F(place, nothing_comes_twice)
{
	stream_add(self, 500);
	stream_add_many(self, 500, 4);
	COME(1, 2);
	PLACED(1);
	COME(1, 2);
	NOTHING();
	ASSERT_EQ(0, come(self, self->start[1] - 5, self->start[2]));
	COME(1, 3);
	PLACED(2);
	NOTHING();
	COME(0, 3);
	ORDERED(0);
	NOTHING();
	COME(0, 3);
	NOTHING();
	COME(3, 5);
	ORDERED(3);
	ORDERED(4);
	EXPECT_EQ(5, tuf_info(self->fd).rx_fpdus);
}

/* "EBUSY ... while records are read out of order" */
TEST_F(place, no_switching_while_records_are_out_of_order)
{
	stream_add(self, 500);
	stream_add_many(self, 500, 2);
	COME(1, 2);
	PLACED(1);
	EXPECT_EQ(EBUSY, tuf_stop(self->fd, TUF_RX));
	COME(0, 1);
	ORDERED(0);
	NOTHING();
	EXPECT_EQ(0, tuf_stop(self->fd, TUF_RX));
	COME(2, 3);
	EXPECT_EQ(self->start[3] - self->start[2],
		  recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(0, memcmp(self->buf, self->stream + self->start[2],
			    self->start[3] - self->start[2]));
}

TEST_F(place, end_of_stream_before_a_placed_record)
{
	stream_add(self, 500);
	stream_add_many(self, 500, 2);
	COME(1, 2);
	PLACED(1);
	ASSERT_EQ(0, forge(&self->forger, 0, self->stream, 0,
			   TCP_FLAG_BITS_FIN, 0));
	ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
	EXPECT_EQ(-1, recv(self->fd, self->buf, BUF, 0));
	EXPECT_EQ(EBADMSG, errno);
	EXPECT_EQ(MPA_ERR_TCP, tuf_info(self->fd).error);
}

TEST_F(place, batch_of_placed_records)
{
	unsigned int n, i;

	stream_add(self, 500);
	stream_add_many(self, 300, 4);
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	COME(1, 2);
	COME(2, 4);
	/* All records found are returned in batches. */
	for (n = 0; n < 3; n += self->got->n) {
		ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
		ASSERT_LT(0, RECEIVE(BUF, 0));
		ASSERT_TRUE(self->got->has_lengths);
		EXPECT_EQ(self->start[1 + n], self->got->info.position);
		EXPECT_EQ(MPA_RECVINFO_LAST | MPA_RECVINFO_PLACED,
			  self->got->info.flags);
		for (i = 0; i < self->got->n; i++) {
			EXPECT_EQ(300, self->got->length[i]);
			EXPECT_TRUE(record_good(self->buf + 300 * i, 300));
		}
	}
	EXPECT_EQ(3, n);
	COME(0, 1);
	ASSERT_EQ(500, RECEIVE(BUF, 0));
	COME(4, 5);
	ASSERT_EQ(300, RECEIVE(BUF, 0));
	NOTHING();
}

TEST_HARNESS_MAIN
