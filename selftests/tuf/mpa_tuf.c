// SPDX-License-Identifier: GPL-2.0
/* The options of "tuf": their values and errors. */

#include "mpa_harness.h"
#include "mpa_tuf.h"
#include "mpa_nl.h"

/* Minimum length of a struct tuf_framing. */
#define FRAMING_MIN	(offsetof(struct tuf_framing, flags) + sizeof(u32))

static const int ways[] = { TUF_TX, TUF_RX };

/* Check that the struct is refused with this errno. */
#define EXPECT_REFUSED(error, fd, option, ...) do {			\
	EXPECT_EQ(error, tuf_set(fd, option,				\
				 (struct tuf_framing){ __VA_ARGS__ }));	\
	EXPECT_EQ(TUF_OFF, tuf_get(fd, option).mode);			\
} while (0)

static int tuf_on(int fd, int option, u8 mode)
{
	return tuf_set(fd, option, (struct tuf_framing){ .mode = mode });
}

/* Read an option of TUF. Return: 0 or errno. */
static int get_error(int fd, int option)
{
	u8 value[256];
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_MPA, option, value, &len) ? errno : 0;
}

static int set_error(int fd, int option)
{
	static const u8 value[sizeof(struct mpa_start)];

	return setsockopt(fd, SOL_MPA, option, value, sizeof(value)) ? errno : 0;
}

TEST_F(tuf, attached_socket_is_ordinary)
{
	socklen_t len = 8;
	char name[8] = "";

	ASSERT_EQ(0, getsockopt(self->fd[0], SOL_TCP, TCP_ULP, name, &len));
	EXPECT_STREQ("tuf", name);
	EXPECT_EQ(EEXIST, tuf_attach(self->fd[0]));
	EXPECT_EQ(TUF_OFF, tuf_get(self->fd[0], TUF_TX).mode);
	EXPECT_EQ(TUF_OFF, tuf_get(self->fd[0], TUF_RX).mode);
	EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
	EXPECT_TRUE(text_goes(self->fd[1], self->fd[0]));
}

TEST_F(tuf, connections_are_counted_while_a_direction_is_framed)
{
	EXPECT_EQ(0, tuf_count("MpaTuf"));
	START();
	EXPECT_EQ(2, tuf_count("MpaCurrTuf"));
	ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	EXPECT_EQ(1, tuf_count("MpaCurrTuf"));
	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_RX, &self->way));
	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));
	EXPECT_EQ(2, tuf_count("MpaCurrTuf"));
	hang_up(self->fd[0]);
	EXPECT_EQ(1, tuf_count("MpaCurrTuf"));
	EXPECT_EQ(3, tuf_count("MpaTuf"));
	EXPECT_EQ(0, tuf_count("MpaCurrDirect"));
	self->fd[0] = -1;
}

TEST_F(tuf, options_of_mpa_are_none_of_tuf)
{
	static const int set[] = {
		MPA_START, MPA_ACCEPT, MPA_REJECT, MPA_PEER, TUF_TX_KEY, TUF_INFO,
	};
	unsigned int i, started;

	for (started = 0; started < 2; started++) {
		for (i = 0; i < ARRAY_SIZE(set); i++)
			EXPECT_EQ(ENOPROTOOPT, set_error(self->fd[0], set[i])) {
				TH_LOG("option %d", set[i]);
			}
		EXPECT_EQ(ENOPROTOOPT, get_error(self->fd[0], MPA_PEER));
		EXPECT_EQ(ENOPROTOOPT, get_error(self->fd[0], MPA_START));
		if (!started)
			START();
	}
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 1000));
}

TEST_F(tuf, options_of_tuf_are_none_of_mpa)
{
	int fd[2], i;

	ASSERT_EQ(0, tcp_pair(variant->family, fd));
	ASSERT_EQ(0, mpa_attach(fd[0]));
	ASSERT_EQ(0, mpa_attach(fd[1]));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(ENOPROTOOPT, tuf_on(fd[0], TUF_TX, TUF_ALIGN));
		EXPECT_EQ(ENOPROTOOPT, tuf_on(fd[0], TUF_RX, TUF_ALIGN));
		EXPECT_EQ(ENOPROTOOPT, get_error(fd[0], TUF_TX));
		EXPECT_EQ(ENOPROTOOPT, get_error(fd[0], TUF_RX));
		EXPECT_EQ(ENOPROTOOPT, get_error(fd[0], TUF_TX_KEY));
		EXPECT_EQ(ENOPROTOOPT, get_error(fd[0], TUF_INFO));
		if (i)
			break;
		ASSERT_EQ(0, mpa_start(fd[1], MPA_ROLE_RESPONDER, 0));
		ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_INITIATOR, 0));
	}
	EXPECT_TRUE(record_goes(fd[0], fd[1], 1000));
	hang_up(fd[0]);
	hang_up(fd[1]);
}

/* "ENOTCONN" before the connection, and after a RST. */
TEST_F(tuf, socket_has_to_be_connected)
{
	int fd = socket(variant->family, SOCK_STREAM, 0), i;

	ASSERT_LE(0, fd);
	EXPECT_EQ(ENOTCONN, tuf_attach(fd));
	ASSERT_EQ(0, listen(fd, 1));
	EXPECT_EQ(ENOTCONN, tuf_attach(fd));
	close(fd);
	hang_up(self->fd[1]);
	self->fd[1] = -1;
	ASSERT_TRUE(tcp_closed(self->fd[0]));
	for (i = 0; i < 2; i++)
		EXPECT_REFUSED(ENOTCONN, self->fd[0], ways[i],
			       .mode = variant->mode);
}

/* The socket is in SYN_SENT; an earlier connection had framing. */
TEST_F(tuf, socket_that_connects_is_not_connected)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int i;

	ASSERT_EQ(0, getpeername(self->fd[0], (struct sockaddr *)&addr, &len));
	ASSERT_EQ(0, connect(self->fd[0], &nobody, sizeof(nobody)));
	if (system("tc qdisc add dev lo root pfifo limit 0"))
		SKIP(return, "needs tc");
	ASSERT_EQ(0, fcntl(self->fd[0], F_SETFL, O_NONBLOCK));
	ASSERT_EQ(-1, connect(self->fd[0], (struct sockaddr *)&addr, len));
	ASSERT_EQ(EINPROGRESS, errno);
	for (i = 0; i < 2; i++)
		EXPECT_REFUSED(ENOTCONN, self->fd[0], ways[i],
			       .mode = variant->mode);
}

/* "up to @flags at the least; a longer one ... else E2BIG" */
TEST_F(tuf, struct_may_be_shorter_or_longer)
{
	struct { struct tuf_framing known; u8 rest[100]; } framing = {
		.known.mode = variant->mode,
	};
	int i;

	for (i = 0; i < 2; i++) {
		const int fd = self->fd[i], option = ways[i];

		EXPECT_EQ(EINVAL, tuf_set_len(fd, option, &framing, 0));
		EXPECT_EQ(EINVAL, tuf_set_len(fd, option, &framing, 1));
		EXPECT_EQ(EINVAL, tuf_set_len(fd, option, &framing,
					      offsetof(struct tuf_framing,
						       flags) - 1));
		framing.rest[99] = 1;
		EXPECT_EQ(E2BIG, tuf_set_len(fd, option, &framing,
					     sizeof(framing)));
		EXPECT_EQ(TUF_OFF, tuf_get(fd, option).mode);
		EXPECT_EQ(EFAULT, tuf_set_len(fd, option, (void *)8,
					      sizeof(framing.known)));
		EXPECT_EQ(TUF_OFF, tuf_get(fd, option).mode);

		EXPECT_EQ(0, tuf_set_len(fd, option, &framing, FRAMING_MIN));
		EXPECT_EQ(variant->mode, tuf_get(fd, option).mode);
		EXPECT_EQ(0, tuf_stop(fd, option));
		framing.rest[99] = 0;
		EXPECT_EQ(0, tuf_set_len(fd, option, &framing,
					 sizeof(framing)));
		EXPECT_EQ(variant->mode, tuf_get(fd, option).mode);
	}
}

TEST_F(tuf, what_is_reserved_is_zero)
{
	int i;

	for (i = 0; i < 2; i++) {
		const int fd = self->fd[0], option = ways[i];

		EXPECT_REFUSED(EINVAL, fd, option, .mode = variant->mode,
			       .reserved = 1);
		EXPECT_REFUSED(EINVAL, fd, option, .mode = variant->mode,
			       .reserved2[0] = 1);
		EXPECT_REFUSED(EINVAL, fd, option, .mode = variant->mode,
			       .reserved2[3] = 1U << 31);
		EXPECT_REFUSED(EINVAL, fd, option, .mode = variant->mode,
			       .flags = 1U << 2);
		EXPECT_REFUSED(EINVAL, fd, option, .mode = variant->mode,
			       .flags = 1U << 31);
		EXPECT_REFUSED(EINVAL, fd, option, .mode = TUF_SEGMENTS + 1);
		EXPECT_REFUSED(EINVAL, fd, option, .mode = 255);
	}
	EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
}

/* "sending only" */
TEST_F(tuf, segments_are_not_for_receiving)
{
	EXPECT_REFUSED(EINVAL, self->fd[0], TUF_RX, .mode = TUF_SEGMENTS);
	EXPECT_EQ(0, tuf_on(self->fd[0], TUF_TX, TUF_SEGMENTS));
	EXPECT_EQ(TUF_SEGMENTS, tuf_get(self->fd[0], TUF_TX).mode);
}

/* "a power of two in these bounds" */
TEST_F(tuf, period_is_a_power_of_two)
{
	static const u32 bad[] = {
		1, 2, 64, 127, 129, 511, 2047, 3072, 32767, 65536, 1U << 31, -1,
	};
	u32 period;
	int i, k;

	for (i = 0; i < 2; i++) {
		const int fd = self->fd[0], option = ways[i];

		for (k = 0; k < ARRAY_SIZE(bad); k++)
			EXPECT_REFUSED(EINVAL, fd, option, .mode = TUF_MARKERS,
				       .period = bad[k]);
		for (period = TUF_PERIOD_MIN; period <= TUF_PERIOD_MAX;
		     period *= 2) {
			EXPECT_EQ(0, tuf_set(fd, option, (struct tuf_framing){
				.mode = TUF_MARKERS, .period = period,
			}));
			EXPECT_EQ(period, tuf_get(fd, option).period);
			EXPECT_EQ(period, i ? tuf_info(fd).rx_period :
					      tuf_info(fd).tx_period);
			EXPECT_EQ(0, tuf_stop(fd, option));
		}
		/* "0 is TUF_PERIOD_DEFAULT" */
		EXPECT_EQ(0, tuf_on(fd, option, TUF_MARKERS));
		EXPECT_EQ(TUF_PERIOD_DEFAULT, tuf_get(fd, option).period);
	}
}

/* "getsockopt() reports mode, period and flags; no key" */
TEST_F(tuf, framing_can_be_read)
{
	struct tuf_framing framing, none = {};
	struct tuf_info info;

	ASSERT_EQ(0, tuf_start_flags(self->fd[0], TUF_TX, &self->way,
				     TUF_TELL_EMSS));
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way));
	framing = tuf_get(self->fd[0], TUF_TX);
	EXPECT_EQ(variant->mode, framing.mode);
	EXPECT_EQ(variant->period, framing.period);
	EXPECT_EQ(TUF_KEY_GIVEN | TUF_TELL_EMSS, framing.flags);
	EXPECT_EQ(0, memcmp(framing.key, none.key, TUF_KEY_LEN));
	framing = tuf_get(self->fd[1], TUF_RX);
	EXPECT_EQ(variant->mode, framing.mode);
	EXPECT_EQ(variant->period, framing.period);
	EXPECT_EQ(TUF_KEY_GIVEN, framing.flags);
	EXPECT_EQ(0, memcmp(framing.key, none.key, TUF_KEY_LEN));
	EXPECT_EQ(TUF_OFF, tuf_get(self->fd[0], TUF_RX).mode);
	EXPECT_EQ(TUF_OFF, tuf_get(self->fd[1], TUF_TX).mode);

	info = tuf_info(self->fd[0]);
	EXPECT_EQ(variant->mode, info.tx_mode);
	EXPECT_EQ(TUF_OFF, info.rx_mode);
	EXPECT_EQ(variant->period, info.tx_period);
	EXPECT_EQ(0, info.flags & TUF_INFO_RX_KEY);
	info = tuf_info(self->fd[1]);
	EXPECT_EQ(TUF_OFF, info.tx_mode);
	EXPECT_EQ(variant->mode, info.rx_mode);
	EXPECT_EQ(variant->period, info.rx_period);
	EXPECT_EQ(TUF_INFO_RX_KEY, info.flags & TUF_INFO_RX_KEY);
	EXPECT_EQ(MPA_ERR_NONE, info.error);
}

/* "copies as much as the program has room for and returns that length" */
TEST_F(tuf, short_buffer_has_the_beginning_of_info)
{
	struct tuf_info info;
	socklen_t len = 8;

	START();
	memset(&info, 0xff, sizeof(info));
	ASSERT_EQ(0, getsockopt(self->fd[0], SOL_MPA, TUF_INFO, &info, &len));
	EXPECT_EQ(8, len);
	EXPECT_EQ(variant->mode, info.tx_mode);
	EXPECT_EQ(0xffffffff, info.emss);
}

/* "EISCONN if it is on in another mode" */
TEST_F(tuf, mode_changes_only_through_off)
{
	const u8 other = variant->mode == TUF_ALIGN ? TUF_MARKERS : TUF_ALIGN;

	START();
	EXPECT_EQ(EISCONN, tuf_on(self->fd[0], TUF_TX, other));
	EXPECT_EQ(EISCONN, tuf_on(self->fd[0], TUF_TX, TUF_SEGMENTS));
	EXPECT_EQ(EISCONN, tuf_on(self->fd[1], TUF_RX, other));
	EXPECT_EQ(variant->mode, tuf_get(self->fd[0], TUF_TX).mode);
	EXPECT_EQ(variant->mode, tuf_get(self->fd[1], TUF_RX).mode);
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 700));
	EXPECT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	EXPECT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
	self->way.mode = other;
	self->way.period = TUF_PERIOD_MIN;
	START();
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 700));
}

/* ---- keys ---- */

TEST_F(tuf, made_key_is_read_once)
{
	u8 key[3][TUF_KEY_LEN], fpdu[200];
	struct tuf_way way = self->way;
	int i;

	/* Read the key before TUF_TX, after it, and after another TUF_TX. */
	for (i = 0; i < 3; i++) {
		if (i == 0)
			ASSERT_EQ(0, tuf_key(self->fd[0], key[i]));
		ASSERT_EQ(0, tuf_set(self->fd[0], TUF_TX, (struct tuf_framing){
			.mode = way.mode, .period = way.period,
		}));
		if (i)
			ASSERT_EQ(0, tuf_key(self->fd[0], key[i]));
		EXPECT_EQ(ENODATA, tuf_key(self->fd[0], fpdu));
		memcpy(way.key, key[i], TUF_KEY_LEN);
		way.position = 0;
		tuf_record(&way, 100, self->octets);
		ASSERT_EQ(100, send(self->fd[0], record_of(100), 100, 0));
		ASSERT_EQ(way.position, read_all(self->fd[1], fpdu,
						 way.position));
		EXPECT_EQ(0, memcmp(fpdu, self->octets, way.position));
		ASSERT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	}
	EXPECT_NE(0, memcmp(key[0], key[1], TUF_KEY_LEN));
	EXPECT_NE(0, memcmp(key[0], key[2], TUF_KEY_LEN));
	EXPECT_NE(0, memcmp(key[1], key[2], TUF_KEY_LEN));
}

TEST_F(tuf, key_that_will_be_is_made_once)
{
	u8 key[TUF_KEY_LEN];

	ASSERT_EQ(0, tuf_key(self->fd[0], key));
	EXPECT_EQ(ENODATA, tuf_key(self->fd[0], key));
}

/* "or if it was given: ENODATA" */
TEST_F(tuf, given_key_cannot_be_read)
{
	u8 key[TUF_KEY_LEN];

	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));
	EXPECT_EQ(ENODATA, tuf_key(self->fd[0], key));
	ASSERT_EQ(100, send(self->fd[0], record_of(100), 100, 0));
	EXPECT_EQ(ENODATA, tuf_key(self->fd[0], key));
}

TEST_F(tuf, each_direction_has_its_own_key)
{
	u8 key[2][TUF_KEY_LEN], none[TUF_KEY_LEN] = {};
	int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, tuf_on(self->fd[i], TUF_TX, variant->mode));
		ASSERT_EQ(0, tuf_key(self->fd[i], key[i]));
		EXPECT_NE(0, memcmp(key[i], none, TUF_KEY_LEN));
	}
	EXPECT_NE(0, memcmp(key[0], key[1], TUF_KEY_LEN));
}

/* "For receiving, the same mode again sets another key." */
TEST_F(tuf, other_key_for_receiving)
{
	START();
	self->way.key[5] ^= 1;
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 10));
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way));
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 20));
	EXPECT_EQ(1, tuf_info(self->fd[1]).rx_wrong_key);
	self->way.key[5] ^= 1;
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way));
	EXPECT_TRUE(tuf_goes(self->fd[0], self->fd[1], 30));
	EXPECT_EQ(1, tuf_info(self->fd[1]).rx_wrong_key);
}

/* A new key also applies to unread octets. */
TEST_F(tuf, other_key_for_what_is_unread)
{
	struct tuf_way other = self->way;

	START();
	other.key[5] ^= 1;
	ASSERT_EQ(10, send(self->fd[0], record_of(10), 10, 0));
	ASSERT_TRUE(poll_for(self->fd[1], POLLIN, 5000));
	ASSERT_EQ(10, recv(self->fd[1], self->buf, BUF, MSG_PEEK));
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &other));
	EXPECT_TRUE(record_comes(self->fd[1], self->buf, 10));
	EXPECT_EQ(1, tuf_info(self->fd[1]).rx_wrong_key);
	ASSERT_EQ(20, send(self->fd[0], record_of(20), 20, 0));
	ASSERT_TRUE(poll_for(self->fd[1], POLLIN, 5000));
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way));
	EXPECT_TRUE(poll_for(self->fd[1], POLLIN, 0));
	EXPECT_TRUE(record_comes(self->fd[1], self->buf, 20));
	EXPECT_EQ(1, tuf_info(self->fd[1]).rx_wrong_key);
}

/* The record exceeds the receive buffer, so it is in the stash. */
TEST_F(tuf, other_key_for_what_is_in_the_stash)
{
	struct call peek = {
		.fd = self->fd[1], .buf = self->buf, .len = BUF,
		.flags = MSG_PEEK,
	};
	struct tuf_way other = self->way;
	const int room = 2304;
	size_t at, n;
	int i;

	START_BY_HAND();
	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_RCVBUF, &room,
				sizeof(room)));
	other.key[0] ^= 1;
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(call_start(&peek));
		n = tuf_record(&self->way, 20000, self->octets);
		for (at = 0; at < n; at += 500)
			ASSERT_EQ(0, write_all(self->fd[0], self->octets + at,
					       n - at < 500 ? n - at : 500));
		ASSERT_EQ(20000, call_end(&peek));
		ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX,
				       i ? &self->way : &other));
		EXPECT_TRUE(record_comes(self->fd[1], self->buf, 20000));
		EXPECT_EQ(1, tuf_info(self->fd[1]).rx_wrong_key);
	}
}

/* A read of no octets consumes no record. */
TEST_F(tuf, other_key_after_a_read_of_nothing)
{
	struct tuf_way other = self->way;

	START();
	other.key[5] ^= 1;
	ASSERT_EQ(30, send(self->fd[0], record_of(30), 30, 0));
	ASSERT_TRUE(poll_for(self->fd[1], POLLIN, 5000));
	ASSERT_EQ(0, recv(self->fd[1], self->buf, 0, 0));
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &other));
	EXPECT_TRUE(record_comes(self->fd[1], self->buf, 30));
	EXPECT_EQ(1, tuf_info(self->fd[1]).rx_wrong_key);
}

/* After a failure of receiving the stash and all later octets are dropped. */
TEST_F(tuf, other_key_after_a_wrong_marker)
{
	struct call call = { .fd = self->fd[1], .buf = self->buf, .len = BUF };
	struct tuf_way other = self->way;
	const int room = 2304;
	size_t at, n;
	int i;

	if (variant->mode != TUF_MARKERS)
		SKIP(return, "it has no markers");
	START_BY_HAND();
	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_RCVBUF, &room,
				sizeof(room)));
	ASSERT_TRUE(call_start(&call));
	n = tuf_record(&self->way, 20000, self->octets);
	self->octets[2 * variant->period + 1] ^= 1;
	for (at = 0; at < n; at += 500)
		ASSERT_EQ(0, write_all(self->fd[0], self->octets + at,
				       n - at < 500 ? n - at : 500));
	EXPECT_EQ(-1, call_end(&call));
	EXPECT_EQ(EBADMSG, errno);
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, write_all(self->fd[0], self->octets, 1000));
		poll(NULL, 0, 10);
		other.key[5] ^= 1;
		EXPECT_EQ(0, tuf_start(self->fd[1], TUF_RX, &other));
	}
}

/* A monitor gets an FPDU once, though its header is compared with several keys. */
TEST_F(tuf, new_key_shows_no_record_again)
{
	struct tuf_way other = self->way;
	struct nl nl;
	int i, fd;

	ASSERT_EQ(0, nl_open(&nl));
	fd = mnl_socket_get_fd(nl.sock);
	START();
	ASSERT_EQ(0, nl_tap(&nl, self->fd[1], 100));
	ASSERT_EQ(10, send(self->fd[0], record_of(10), 10, 0));
	ASSERT_EQ(10, recv(self->fd[1], self->buf, BUF, MSG_PEEK));
	for (i = 0; i < 3; i++) {
		other.key[1] ^= 1;
		ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &other));
		ASSERT_EQ(10, recv(self->fd[1], self->buf, BUF, MSG_PEEK));
	}
	EXPECT_TRUE(record_comes(self->fd[1], self->buf, 10));
	EXPECT_LT(0, recv(fd, self->buf, BUF, MSG_DONTWAIT));
	EXPECT_EQ(-1, recv(fd, self->buf, BUF, MSG_DONTWAIT));
	nl_close(&nl);
}

/* "of FPDUs read in order with another key than TUF_RX has said" */
TEST_F(tuf, wrong_key_is_delivered_and_counted)
{
	struct tuf_way way;

	START_BY_HAND();
	way = self->way;
	ASSERT_EQ(0, hand_record(self->fd[0], &way, 10));
	way.key[0] ^= 0x80;
	ASSERT_EQ(0, hand_record(self->fd[0], &way, 2000));
	way.key[0] ^= 0x80;
	ASSERT_EQ(0, hand_record(self->fd[0], &way, 30));
	ASSERT_EQ(10, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(0, tuf_info(self->fd[1]).rx_wrong_key);
	ASSERT_EQ(2000, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 2000));
	EXPECT_EQ(1, tuf_info(self->fd[1]).rx_wrong_key);
	ASSERT_EQ(30, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(1, tuf_info(self->fd[1]).rx_wrong_key);
	EXPECT_EQ(3, tuf_info(self->fd[1]).rx_fpdus);
	EXPECT_EQ(2040, tuf_info(self->fd[1]).rx_octets);
	EXPECT_EQ(way.position, tuf_info(self->fd[1]).rx_edge);
}

/* Without a key no key is wrong. */
TEST_F(tuf, no_key_is_tested_if_none_was_given)
{
	struct tuf_way way = self->way;

	ASSERT_EQ(0, tuf_set(self->fd[1], TUF_RX, (struct tuf_framing){
		.mode = way.mode, .period = way.period,
	}));
	EXPECT_EQ(0, tuf_get(self->fd[1], TUF_RX).flags);
	EXPECT_EQ(0, tuf_info(self->fd[1]).flags & TUF_INFO_RX_KEY);
	ASSERT_EQ(0, hand_record(self->fd[0], &way, 10));
	way.key[3] ^= 1;
	ASSERT_EQ(0, hand_record(self->fd[0], &way, 20));
	EXPECT_EQ(10, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(20, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_EQ(0, tuf_info(self->fd[1]).rx_wrong_key);
}

/* ---- EBUSY, EPIPE ---- */

TEST_F(tuf, no_switching_while_a_ulpdu_is_open)
{
	START();
	record_fill(self->octets, 700);
	ASSERT_EQ(300, send(self->fd[0], self->octets, 300, MSG_MORE));
	EXPECT_EQ(EBUSY, tuf_stop(self->fd[0], TUF_TX));
	ASSERT_EQ(400, send(self->fd[0], self->octets + 300, 400, 0));
	EXPECT_EQ(0, tuf_stop(self->fd[0], TUF_TX));
	EXPECT_EQ(700, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 700));
	EXPECT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
	EXPECT_TRUE(text_goes(self->fd[0], self->fd[1]));
}

TEST_F(tuf, no_switching_while_a_record_is_read_in_part)
{
	START();
	ASSERT_EQ(700, send(self->fd[0], record_of(700), 700, 0));
	ASSERT_EQ(300, recv(self->fd[1], self->buf, 300, 0));
	EXPECT_EQ(EBUSY, tuf_stop(self->fd[1], TUF_RX));
	EXPECT_EQ(variant->mode, tuf_get(self->fd[1], TUF_RX).mode);
	ASSERT_EQ(400, recv(self->fd[1], self->buf + 300, BUF, 0));
	EXPECT_TRUE(record_good(self->buf, 700));
	EXPECT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
}

/* During a call its direction cannot be switched off or on, but the other can. */
TEST_F(tuf, no_switching_while_a_call_reads)
{
	struct call call = { .buf = self->buf, .len = BUF };
	int on;

	for (on = 0; on < 2; on++) {
		call.fd = self->fd[1];
		if (on)
			ASSERT_EQ(0, tuf_start(self->fd[1], TUF_RX, &self->way));
		ASSERT_TRUE(call_start(&call));
		EXPECT_EQ(EBUSY, on ? tuf_stop(self->fd[1], TUF_RX) :
				      tuf_start(self->fd[1], TUF_RX,
						&self->way));
		EXPECT_EQ(0, tuf_start(self->fd[1], TUF_TX, &self->way));
		EXPECT_EQ(0, tuf_stop(self->fd[1], TUF_TX));
		if (on)
			ASSERT_EQ(0, tuf_start(self->fd[0], TUF_TX, &self->way));
		ASSERT_EQ(50, send(self->fd[0], record_of(50), 50, 0));
		EXPECT_EQ(50, call_end(&call));
		EXPECT_TRUE(record_good(self->buf, 50));
	}
	EXPECT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
}

/* Whether all octets, sent 3000 at a time, are read. */
static bool drained(struct _test_data_tuf *self, bool framed, size_t octets)
{
	size_t n;

	if (!framed)
		return read_all(self->fd[1], self->buf, octets) == octets;
	for (n = 0; n < octets; n += 3000)
		if (recv(self->fd[1], self->buf, BUF, 0) != 3000 ||
		    !record_good(self->buf, 3000))
			return false;
	return true;
}

/* Fill both ends' buffers, so that a send waits for space. */
static void sending_waits(struct __test_metadata *_metadata,
			  struct _test_data_tuf *self, bool framed)
{
	struct call call = {
		.sends = true, .fd = self->fd[0], .buf = self->octets,
		.len = 3000,
	};
	size_t sent = 0;
	int small = 1;

	setsockopt(self->fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	setsockopt(self->fd[1], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (framed)
		START();
	record_fill(self->octets, 3000);
	do {
		ssize_t n;

		while ((n = send(self->fd[0], self->octets, 3000,
				 MSG_DONTWAIT)) > 0)
			/* Without framing a send may accept a part. */
			sent += n;
		ASSERT_EQ(EAGAIN, errno);
	} while (poll_for(self->fd[0], POLLOUT, 300));
	/* Late retransmissions may free space for another send. */
	while (!call_start(&call)) {
		ASSERT_EQ(3000, call_end(&call));
		sent += 3000;
	}
	EXPECT_EQ(EBUSY, framed ? tuf_stop(self->fd[0], TUF_TX) :
				  tuf_start(self->fd[0], TUF_TX, &self->way));
	ASSERT_TRUE(drained(self, framed, sent + 3000));
	EXPECT_EQ(3000, call_end(&call));
	EXPECT_EQ(0, framed ? tuf_stop(self->fd[0], TUF_TX) :
			      tuf_start(self->fd[0], TUF_TX, &self->way));
}

TEST_F(tuf, no_start_while_a_call_sends)
{
	sending_waits(_metadata, self, false);
}

TEST_F(tuf, no_stop_while_a_call_sends)
{
	sending_waits(_metadata, self, true);
}

/* "EPIPE after the end" */
TEST_F(tuf, no_start_after_the_end)
{
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	EXPECT_REFUSED(EPIPE, self->fd[0], TUF_TX, .mode = variant->mode);
	ASSERT_EQ(0, recv(self->fd[1], self->buf, BUF, 0));
	EXPECT_REFUSED(EPIPE, self->fd[1], TUF_RX, .mode = variant->mode);
	/* The other direction has not ended. */
	ASSERT_EQ(0, tuf_start(self->fd[0], TUF_RX, &self->way));
	ASSERT_EQ(0, tuf_start(self->fd[1], TUF_TX, &self->way));
	EXPECT_TRUE(tuf_goes(self->fd[1], self->fd[0], 1000));
}

TEST_HARNESS_MAIN
