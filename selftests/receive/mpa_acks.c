// SPDX-License-Identifier: GPL-2.0
/*
 * Acknowledgments while a long record is incomplete: RFC 1122 section 4.2.3.2, "an ACK
 * for at least every second segment".
 */

#include "mpa_test.h"
#include "mpa_proc.h"
#include "kselftest_harness.h"
#include "mpa_send.h"

#define CONNECTIONS	10

/*
 * The record is longer than the initial congestion window: without ACKs the sender
 * would wait for the receiver's delayed-ACK timer.
 */
TEST_F(send, long_record_does_not_wait_for_a_delayed_ack)
{
	long before = tcp_counter("DelayedACKs");
	const struct connecting usual = {};
	int i;

	ASSERT_LE(0, before);
	for (i = 0; i < CONNECTIONS; i++) {
		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &usual));
		ASSERT_EQ(MPA_ULPDU_MAX, put(self, MPA_ULPDU_MAX, 0));
		EXPECT_RECORDS(MPA_ULPDU_MAX);
	}
	/* On a busy machine that timer may expire nevertheless. */
	EXPECT_GT(CONNECTIONS / 2, tcp_counter("DelayedACKs") - before);
}

TEST_HARNESS_MAIN
