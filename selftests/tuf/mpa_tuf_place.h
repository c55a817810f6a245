/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MPA_PLACE on "tuf": a receiver, and a stream of FPDUs whose segments a test
 * sends in any order. Include it after mpa_harness.h, and add the variants.
 */
#ifndef _MPA_TUF_PLACE_H
#define _MPA_TUF_PLACE_H

#include "mpa_tuf.h"

/* Declare the variant before the fixture. */
FIXTURE_VARIANT(place)
{
	int family;
	u8 mode;
	u32 period;
	bool keyless;	/* the receiver does not know the key */
	unsigned int seed;
};

/* How the stream is framed; each test is a process. */
static struct tuf_way stream_way;

#define PLACE_CONNECTS
#define PLACE_FPDU(self, octets, len, to) \
	tuf_fpdu(&stream_way, octets, len, to)
#include "mpa_place.h"

static inline int start_receiving(struct _test_data_place *self, bool keyless)
{
	struct tuf_framing framing = {
		.mode = stream_way.mode, .period = stream_way.period,
		.flags = keyless ? 0 : TUF_KEY_GIVEN,
	};

	if (!keyless)
		memcpy(framing.key, stream_way.key, TUF_KEY_LEN);
	return tuf_set(self->fd, TUF_RX, framing);
}

FIXTURE_SETUP(place)
{
	const u8 key[] = TUF_KEY_OF_TESTS;
	int fd[2];

	stream_way = (struct tuf_way){
		.mode = variant->mode, .period = variant->period,
	};
	memcpy(stream_way.key, key, sizeof(key));
	ASSERT_EQ(0, place_prepare(self));
	ASSERT_EQ(0, tcp_pair(variant->family, fd));
	ASSERT_EQ(0, open_window(fd, self->buf));
	self->fd = fd[1];
	self->peer.fd = fd[0];
	ASSERT_EQ(0, tuf_attach(self->fd));
	ASSERT_EQ(0, start_receiving(self, variant->keyless));
	ASSERT_EQ(0, place_begin(self));
}

/* Close the gap: all undelivered records must arrive in order. */
#define IN_ORDER(first, end) do {					\
	unsigned int i_;						\
									\
	for (i_ = first; i_ < (end); i_++)				\
		ASSERT_TRUE(gives(self, i_, false)) {			\
			TH_LOG("record %u", i_);			\
		}							\
	NOTHING();							\
} while (0)

#endif /* _MPA_TUF_PLACE_H */
