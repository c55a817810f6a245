// SPDX-License-Identifier: GPL-2.0
/*
 * Acknowledgements while a record is too long to be read yet: RFC 1122 section
 * 4.2.3.2, "an ACK for at least every second segment".
 */

#include "mpa_test.h"
#include "kselftest_harness.h"
#include "mpa_send.h"

#define CONNECTIONS	10

/* A counter of /proc/net/netstat, or -1. */
static long tcp_counter(const char *name)
{
	FILE *file = fopen("/proc/net/netstat", "r");
	char names[8192], values[8192];
	long value = -1;

	while (file && value < 0 && fgets(names, sizeof(names), file) &&
	       fgets(values, sizeof(values), file)) {
		char *names_left, *values_left;
		char *v = strtok_r(values, "\n ", &values_left);
		char *n = strtok_r(names, "\n ", &names_left);

		for (; n && v; n = strtok_r(NULL, "\n ", &names_left),
		     v = strtok_r(NULL, "\n ", &values_left))
			if (!strcmp(n, name))
				value = atol(v);
	}
	if (file)
		fclose(file);
	return value;
}

/*
 * It is longer than the first congestion window: without an ACK the rest stays
 * at the sender until the receiver's timer for delayed ACKs runs out.
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
	/* A timer may run out all the same when the machine is busy. */
	EXPECT_GT(CONNECTIONS / 2, tcp_counter("DelayedACKs") - before);
}

TEST_HARNESS_MAIN
