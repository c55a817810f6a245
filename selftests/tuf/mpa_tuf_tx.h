/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Octets that "tuf" sends over loopback with MTU 1500, in a network namespace of its
 * own, to a plain TCP socket. Include it after mpa_harness.h, and add the variants.
 */
#ifndef _MPA_TUF_TX_H
#define _MPA_TUF_TX_H

#include "mpa_tuf.h"
#include "mpa_send.h"

/* ULPDUs have octets of a long sequence. */
FIXTURE(tx)
{
	int fd[2];		/* fd[1] is plain TCP */
	struct tuf_way way;
	u64 sent;		/* octets sent in ULPDUs */
	u8 *fpdu;
	u8 *seen;
};

FIXTURE_VARIANT(tx)
{
	int family;
	u8 mode;
	u32 period;
};

/* Open a new framed connection; each send is an FPDU. */
static inline int tx_connect(struct _test_data_tx *self, int family,
			     const struct connecting *how, u32 flags)
{
	int i;

	for (i = 0; i < 2; i++)
		if (self->fd[i] >= 0)
			hang_up(self->fd[i]);
	self->sent = 0;
	return tcp_pair_how(family, self->fd, how) ||
	       tuf_attach(self->fd[0]) ||
	       tuf_start_flags(self->fd[0], TUF_TX, &self->way, flags) ||
	       set_int(self->fd[0], MPA_PACKING, 0) ? -1 : 0;
}

FIXTURE_SETUP(tx)
{
	const struct connecting usual = {};
	const u8 key[] = TUF_KEY_OF_TESTS;

	self->fd[0] = -1;
	self->fd[1] = -1;
	self->fpdu = malloc(BUF);
	self->seen = malloc(BUF);
	self->way = (struct tuf_way){
		.mode = variant->mode, .period = variant->period,
	};
	memcpy(self->way.key, key, sizeof(key));
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, lo_mtu(1500));
	ASSERT_EQ(0, tx_connect(self, variant->family, &usual, 0));
}

FIXTURE_TEARDOWN(tx)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
	free(self->fpdu);
	free(self->seen);
}

static inline ssize_t tx_put(struct _test_data_tx *self, size_t len, int flags)
{
	ssize_t n = send(self->fd[0], stream_at(self->sent), len,
			 flags | MSG_NOSIGNAL);

	if (n > 0)
		self->sent += n;
	return n;
}

/* Whether the plain socket receives an FPDU with the @len octets at @at of the sequence. */
static inline bool fpdu_comes(struct _test_data_tx *self, u64 at, size_t len)
{
	size_t n = tuf_fpdu(&self->way, stream_at(at), len, self->fpdu), i;
	ssize_t got = read_all(self->fd[1], self->seen, n);

	if (got != (ssize_t)n) {
		fprintf(stderr, "# FPDU of %zu octets: seen %zd of %zu (%s)\n",
			len, got, n, got < 0 ? strerror(errno) : "");
		return false;
	}
	for (i = 0; i < n && self->seen[i] == self->fpdu[i]; i++)
		;
	if (i == n)
		return true;
	fprintf(stderr, "# FPDU of %zu octets, octet %zu: expected %02x, seen %02x\n",
		len, i, self->fpdu[i], self->seen[i]);
	return false;
}

/* Whether a send arrives as one FPDU. */
static inline bool goes(struct _test_data_tx *self, size_t len)
{
	ssize_t n = tx_put(self, len, 0);
	u64 at = self->sent - (n > 0 ? n : 0);

	if (n == (ssize_t)len)
		return fpdu_comes(self, at, len);
	fprintf(stderr, "# send of %zu octets: %zd (%s)\n", len, n,
		n < 0 ? strerror(errno) : "");
	return false;
}

static inline int mulpdu(struct _test_data_tx *self)
{
	return get_int(self->fd[0], MPA_MULPDU);
}

#define TOO_LONG(len) do {						\
	EXPECT_EQ(-1, tx_put(self, len, 0));				\
	EXPECT_EQ(EMSGSIZE, errno);					\
} while (0)

#endif /* _MPA_TUF_TX_H */
