// SPDX-License-Identifier: GPL-2.0
/* MPA_PLACE on "tuf" with random segments: see mpa_place_any.h. */

#include "mpa_harness.h"
#include "mpa_tuf_place.h"

#define PLACE_WHOLE	(stream_way.mode == TUF_ALIGN)
#include "mpa_place_any.h"

FIXTURE_VARIANT_ADD(place, align_1000) {
	AF_INET, TUF_ALIGN, 0, false, 1000,
};

FIXTURE_VARIANT_ADD(place, align_2000) {
	AF_INET, TUF_ALIGN, 0, false, 2000,
};

FIXTURE_VARIANT_ADD(place, align_3000) {
	AF_INET6, TUF_ALIGN, 0, false, 3000,
};

FIXTURE_VARIANT_ADD(place, markers_128_4000) {
	AF_INET, TUF_MARKERS, 128, false, 4000,
};

FIXTURE_VARIANT_ADD(place, markers_512_5000) {
	AF_INET, TUF_MARKERS, 512, true, 5000,
};

FIXTURE_VARIANT_ADD(place, markers_2048_6000) {
	AF_INET6, TUF_MARKERS, 2048, false, 6000,
};

TEST_F_TIMEOUT(place, each_comes_once, 600)
{
	any_test(_metadata, self, variant->seed);
}

/* TCP drops octets that exceed its buffer, and receives them again. */
TEST_F_TIMEOUT(place, each_comes_once_with_little_room, 600)
{
	int rcvbuf = 8192;

	ASSERT_EQ(0, setsockopt(self->fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf,
				sizeof(rcvbuf)));
	any_test(_metadata, self, variant->seed + 500);
}

TEST_HARNESS_MAIN
