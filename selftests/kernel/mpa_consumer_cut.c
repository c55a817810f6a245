// SPDX-License-Identifier: GPL-2.0
/* mpa_sock_send_cut(): it cuts data into ULPDUs that fill segments, each with a header. */

#include "mpa_consumer.h"
#include "mpa_send.h"

#define MOST		0x100000
#define HEADER		18

static u8 octets[MOST];

static void fill(void)
{
	unsigned int i;

	for (i = 0; i < MOST; i++)
		octets[i] = i * 2654435761U >> 24;
}

/*
 * Send octets from @at on. Return: errno. @sent: set to the number accepted; @end: set
 * to the upcall's end.
 */
static int cut(int user, u32 at, u32 len, u32 header, u32 flags, u32 *sent,
	       u64 *end)
{
	struct upcall_send send = {
		.payload = (u64)(unsigned long)(octets + at), .len = len,
		.header_len = header, .flags = flags,
	};
	int err = user_call(user, UPCALLS_CUT, &send);

	*sent = err ? 0 : send.len;
	if (end)
		*end = send.end;
	return err;
}

/*
 * Check the next ULPDU of a call whose octets begin at @base: a header, and octets from
 * @at on. Return: the number of octets, or 0. @last: set to the header's flag.
 */
static u32 next_cut(struct _test_data_consumer *self, u32 base, u32 at, u32 header,
		    bool *last)
{
	ssize_t got = recv(self->fd[0], self->buf, BUF, 0);
	struct upcall_header is;
	u32 n = got - header;

	if (got <= (ssize_t)header)
		return 0;
	memcpy(&is, self->buf, sizeof(is));
	*last = is.last;
	if (is.off != at - base || is.len != n || at + n > MOST ||
	    memcmp(self->buf + header, octets + at, n))
		return 0;
	return n;
}

static struct mpa_info user_info(int user)
{
	struct mpa_info info = {};

	user_call(user, UPCALLS_INFO, &info);
	return info;
}

static int begin(struct _test_data_consumer *self, unsigned int flags, int mtu)
{
	fill();
	return lo_mtu(mtu) || both_direct(self, flags) ? -1 : 0;
}

/*
 * All ULPDUs except the last fill a segment; with markers they may be up to four octets
 * shorter.
 */
TEST_F(consumer, ulpdus_fill_segments)
{
	u32 sent, at = 0, n, less = variant->flags ? 4 : 0;
	const u32 size = 300000;
	struct mpa_info info;
	bool last = false;
	u64 end;

	ASSERT_EQ(0, begin(self, variant->flags, 1500));
	ASSERT_EQ(0, cut(self->user, 0, size, HEADER, 0, &sent, &end));
	ASSERT_EQ(size, sent);
	info = user_info(self->user);
	for (; at < size; at += n) {
		n = next_cut(self, 0, at, HEADER, &last);
		ASSERT_NE(0, n);
		ASSERT_EQ(at + n == size, last);
		if (!last) {
			EXPECT_LE(info.mulpdu - less, n + HEADER);
			EXPECT_GE(info.mulpdu + less, n + HEADER);
		}
	}
	EXPECT_EQ(0, info.tx_segs_unaligned);
	EXPECT_EQ(size + info.tx_ulpdus * HEADER, info.tx_octets);
	while (upcall_of(self->user, UPCALL_ACKED, self->told) &&
	       self->told->is.position < end)
		;
	EXPECT_EQ(end, self->told->is.position);
}

/* Send payload of any length, with the longest header, the shortest, and none. */
TEST_F(consumer, cuts_any_length)
{
	static const u32 headers[] = { HEADER, 64, 12 };
	static const u32 sizes[] = {
		1, 2, 3, 127, 1412, 1423, 1424, 1425, 1426, 1430, 1442, 1443,
		2848, 2849, 64768, 65536, 200001,
	};
	u32 sent, at, n, i, j;
	bool last;

	ASSERT_EQ(0, begin(self, variant->flags, 1500));
	for (i = 0; i < ARRAY_SIZE(headers); i++) {
		for (j = 0; j < ARRAY_SIZE(sizes); j++) {
			ASSERT_EQ(0, cut(self->user, 0, sizes[j], headers[i], 0,
					 &sent, NULL));
			ASSERT_EQ(sizes[j], sent);
			for (at = 0; at < sent; at += n) {
				n = next_cut(self, 0, at, headers[i], &last);
				ASSERT_NE(0, n) {
					TH_LOG("%u octets, at %u", sent, at);
				}
				ASSERT_EQ(at + n == sent, last);
			}
		}
	}
	ASSERT_EQ(0, cut(self->user, 0, 5000, 0, 0, &sent, NULL));
	for (at = 0; at < 5000; at += n) {
		n = recv(self->fd[0], self->buf, BUF, 0);
		ASSERT_LT(0, (int)n);
		ASSERT_EQ(0, memcmp(self->buf, octets + at, n));
	}
}

/* Send ULPDUs longer than a page, and than the rest of the memory for FPDUs. */
static void cut_long(struct __test_metadata *_metadata,
		     struct _test_data_consumer *self, u32 flags, int mtu)
{
	u32 sent, at, n, i;
	bool last;

	ASSERT_EQ(0, begin(self, flags, mtu));
	for (i = 0; i < 6; i++) {
		ASSERT_EQ(0, cut(self->user, 0, 65536, HEADER, 0, &sent, NULL));
		ASSERT_EQ(65536, sent);
		for (at = 0; at < sent; at += n) {
			n = next_cut(self, 0, at, HEADER, &last);
			ASSERT_NE(0, n) {
				TH_LOG("call %u, at %u", i, at);
			}
			ASSERT_EQ(at + n == sent, last);
		}
	}
}

TEST_F(consumer, cuts_for_a_mtu_of_9000)
{
	cut_long(_metadata, self, variant->flags, 9000);
}

TEST_F(consumer, cuts_for_a_mtu_of_65536)
{
	cut_long(_metadata, self, variant->flags, 65536);
}

/* A full buffer takes a part, in whole ULPDUs, and the next call continues there. */
TEST_F(consumer, full_buffer_takes_a_part)
{
	u32 sent, base = 0, at = 0, n, calls = 0, calls_base[200];
	bool last;
	int err;

	ASSERT_EQ(0, begin(self, variant->flags, 1500));
	do {
		calls_base[calls++] = base;
		err = cut(self->user, base, MOST / 4, HEADER, 1,
			  &sent, NULL);
		base += sent;
	} while (!err && base < MOST - MOST / 4 && calls < 199);
	for (; at < base; at += n) {
		u32 i = calls - 1;

		while (calls_base[i] > at)
			i--;
		n = next_cut(self, calls_base[i], at, HEADER, &last);
		ASSERT_NE(0, n) {
			TH_LOG("at %u of %u", at, base);
		}
	}
	EXPECT_EQ(base, at);
}

/* With a small send buffer send until -EAGAIN, and continue once space is reported. */
TEST_F(consumer, continues_when_there_is_room)
{
	u32 sent, base = 0, at = 0, n, from = 0;
	int small = 20000, err;
	bool last;

	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_SNDBUF, &small,
				sizeof(small)));
	ASSERT_EQ(0, setsockopt(self->fd[0], SOL_SOCKET, SO_RCVBUF, &small,
				sizeof(small)));
	ASSERT_EQ(0, begin(self, variant->flags, 1500));
	while (base < MOST) {
		err = cut(self->user, base, MOST - base, HEADER, 0, &sent, NULL);
		from = base;
		base += sent;
		while (at < base) {
			n = next_cut(self, from, at, HEADER, &last);
			ASSERT_NE(0, n);
			at += n;
		}
		if (err) {
			ASSERT_EQ(EAGAIN, err);
			ASSERT_TRUE(upcall_of(self->user, UPCALL_WRITABLE,
					      self->told));
		}
	}
}

/* Mix mpa_sock_send_cut() and mpa_sock_send(). */
TEST_F(consumer, cut_and_single_ulpdus)
{
	u32 sent, at, n, i;
	bool last;

	ASSERT_EQ(0, begin(self, variant->flags, 1500));
	for (i = 1; i < 40; i++) {
		ASSERT_EQ(0, cut(self->user, 0, 333 * i, HEADER,
				 i & 1 ? 1 : 0, &sent, NULL));
		ASSERT_EQ(0, user_send(self->user, 100 * i, i, MEMORY_BVEC,
				       NULL));
		for (at = 0; at < 333 * i; at += n) {
			n = next_cut(self, 0, at, HEADER, &last);
			ASSERT_NE(0, n);
		}
		ASSERT_TRUE(program_gets(self, 100 * i));
	}
}

TEST_F(consumer, refuses_to_cut)
{
	u32 sent;

	ASSERT_EQ(0, begin(self, variant->flags, 1500));
	EXPECT_EQ(EMSGSIZE, cut(self->user, 0, 0, HEADER, 0, &sent, NULL));
	EXPECT_EQ(EINVAL, cut(self->user, 0, 10, 64 + 1, 0,
			      &sent, NULL));
	EXPECT_EQ(EINVAL, cut(self->user, 0, 10, HEADER, 2, &sent, NULL));
	ASSERT_EQ(10, send(self->fd[1], octets, 10, MSG_MORE));
	EXPECT_EQ(EBUSY, cut(self->user, 0, 10, HEADER, 0, &sent, NULL));
}

TEST_HARNESS_MAIN
