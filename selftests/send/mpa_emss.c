// SPDX-License-Identifier: GPL-2.0
/* Compare EMSS and MULPDU with received segments. */

#include "mpa_test.h"
#include "kselftest_harness.h"
#include "mpa_send.h"

/* Return: the length of the longest segment that has arrived. */
static u32 longest_segment(int fd)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_rcv_mss;
}

/* RFC 5044, section 4.5: MPA_INFO's EMSS is the size of segments on the wire. */
TEST_F(send, emss_and_mulpdu_are_those_of_the_wire)
{
	static const int sizes[] = { 9000, 1460, 1456, 536 };
	struct mpa_info info;
	u32 emss, markers;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		const struct connecting how = { .maxseg = sizes[i] };

		ASSERT_EQ(0, reconnect(self, variant->family, variant->marked,
				       &how));
		ASSERT_EQ(60000, put(self, 60000, 0));
		ASSERT_EQ(60000, take(self, 0));
		emss = longest_segment(self->fd[1]);
		info = mpa_info(self->fd[0]);
		EXPECT_EQ(emss, info.emss);
		markers = variant->marked ? 4 * ((emss + 511) / 512) : 0;
		EXPECT_EQ(emss - (6 + markers + emss % 4), info.mulpdu);
	}
}

TEST_HARNESS_MAIN
