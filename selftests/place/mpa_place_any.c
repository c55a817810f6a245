// SPDX-License-Identifier: GPL-2.0
/* MPA_PLACE with random segments: see mpa_place_any.h. */

#include "mpa_harness.h"

/* Declare the variant before the fixture. */
FIXTURE_VARIANT(place)
{
	unsigned int seed;
};

#include "mpa_place.h"
#include "mpa_place_any.h"

FIXTURE_VARIANT_ADD(place, seed_1000) { 1000 };
FIXTURE_VARIANT_ADD(place, seed_2000) { 2000 };
FIXTURE_VARIANT_ADD(place, seed_3000) { 3000 };
FIXTURE_VARIANT_ADD(place, seed_4000) { 4000 };
FIXTURE_VARIANT_ADD(place, seed_5000) { 5000 };
FIXTURE_VARIANT_ADD(place, seed_6000) { 6000 };
FIXTURE_VARIANT_ADD(place, seed_7000) { 7000 };
FIXTURE_VARIANT_ADD(place, seed_8000) { 8000 };

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
