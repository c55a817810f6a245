// SPDX-License-Identifier: GPL-2.0
/*
 * Segments as no sender of this kernel makes them: put on the wire by hand, so
 * that those in the receive queue overlap, end anywhere, and come in any order.
 */

#include <linux/ip.h>
#include <poll.h>

#include "mpa_harness.h"
#include "mpa_receive.h"

#define TCP_FLAG_BITS_ACK	0x10
#define TCP_FLAG_BITS_URG	0x20

struct tcp_head {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	u8 words;
	u8 flags;
	__be16 window;
	__be16 check;
	__be16 urg_ptr;
};

/**
 * struct forger - speaks for the peer of a connection over loopback
 * @raw:	raw socket
 * @source:	the peer's port
 * @dest:	ours
 * @seq:	sequence number of the first octet that the peer may send
 * @ack:	what the peer has received
 */
struct forger {
	int raw;
	__be16 source;
	__be16 dest;
	u32 seq;
	u32 ack;
};

static u32 repair_seq(int fd, int queue)
{
	socklen_t len = sizeof(u32);
	u32 seq = 0;

	setsockopt(fd, SOL_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue));
	getsockopt(fd, SOL_TCP, TCP_QUEUE_SEQ, &seq, &len);
	return seq;
}

static int forger_open(struct forger *forger, int peer_fd, int fd)
{
	int on = TCP_REPAIR_ON, off = TCP_REPAIR_OFF_NO_WP;
	struct sockaddr_in source, dest;
	socklen_t len = sizeof(source);

	forger->raw = socket(AF_INET, SOCK_RAW, IPPROTO_TCP);
	if (forger->raw < 0 ||
	    getsockname(peer_fd, (struct sockaddr *)&source, &len) ||
	    getsockname(fd, (struct sockaddr *)&dest, &len) ||
	    setsockopt(peer_fd, SOL_TCP, TCP_REPAIR, &on, sizeof(on)))
		return -1;
	forger->source = source.sin_port;
	forger->dest = dest.sin_port;
	forger->seq = repair_seq(peer_fd, TCP_SEND_QUEUE);
	forger->ack = repair_seq(peer_fd, TCP_RECV_QUEUE);
	return setsockopt(peer_fd, SOL_TCP, TCP_REPAIR, &off, sizeof(off));
}

static u32 sum_words(u32 sum, const u8 *octets, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		sum += i % 2 ? octets[i] : octets[i] << 8;
	return sum;
}

/* Octets of the stream from @off on, with flags besides ACK. */
static int forge(struct forger *forger, u32 off, const u8 *octets, size_t len,
		 u8 flags, u16 urg_ptr)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct tcp_head head = {
		.source = forger->source, .dest = forger->dest,
		.seq = htonl(forger->seq + off), .ack_seq = htonl(forger->ack),
		.words = 5 << 4, .flags = TCP_FLAG_BITS_ACK | flags,
		.window = htons(60000), .urg_ptr = htons(urg_ptr),
	};
	static u8 packet[70000];
	u32 sum;

	memcpy(packet, &head, sizeof(head));
	memcpy(packet + sizeof(head), octets, len);
	len += sizeof(head);
	/* The pseudo header: 127.0.0.1 twice, protocol, length. */
	sum = 2 * (0x7f00 + 1) + IPPROTO_TCP + len;
	sum = sum_words(sum, packet, len);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	head.check = htons(~sum);
	memcpy(packet, &head, sizeof(head));
	return sendto(forger->raw, packet, len, 0, (struct sockaddr *)&to,
		      sizeof(to)) == (ssize_t)len ? 0 : -1;
}

#define FORGE(off, end) \
	ASSERT_EQ(0, forge(&forger, off, self->fpdu + (off), (end) - (off), 0, \
			   0))

/* A few records, in self->fpdu: how many octets they take. */
static size_t stream_make(struct peer *peer, u8 *fpdu)
{
	static const size_t lens[] = { 9, 1, 700, 2, 300 };
	size_t n = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++)
		n += next_fpdu(peer, lens[i], fpdu + n);
	return n;
}

static bool stream_comes(int fd, u8 *buf)
{
	static const size_t lens[] = { 9, 1, 700, 2, 300 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++)
		if (recv(fd, buf, 70000, 0) != (ssize_t)lens[i] ||
		    !record_good(buf, lens[i]))
			return false;
	return true;
}

/*
 * What lies in the queue twice counts once, and TCP takes what came first: here
 * the second copy of an octet is never the one that was sent.
 */
TEST_F_TIMEOUT(rx, segments_that_overlap, 120)
{
	struct forger forger;
	size_t len, at, step, i;
	u8 junk[2000];

	ASSERT_EQ(0, forger_open(&forger, self->peer.fd, self->fd));
	for (step = 1; step < 300; step = step * 2 + 1) {
		u32 start = self->peer.tx_position;

		len = stream_make(&self->peer, self->fpdu);
		for (at = 0; at < len; at += step) {
			/* Up to 100 octets back, wrong ones. */
			size_t back = at < 100 ? at : 100;
			size_t n = len - at < step ? len - at : step;

			for (i = 0; i < back; i++)
				junk[i] = ~self->fpdu[at - back + i];
			memcpy(junk + back, self->fpdu + at, n);
			ASSERT_EQ(0, forge(&forger, start + at - back, junk,
					   back + n, 0, 0));
		}
		ASSERT_TRUE(stream_comes(self->fd, self->buf)) {
			TH_LOG("in steps of %zu", step);
		}
	}
	close(forger.raw);
}

/* Also in a batch, where the cursor goes over them. */
TEST_F(rx, batch_over_segments_that_overlap)
{
	struct forger forger;
	size_t len, at;

	ASSERT_EQ(0, forger_open(&forger, self->peer.fd, self->fd));
	ASSERT_EQ(0, set_int(self->fd, MPA_RECV_BATCH, 1));
	len = stream_make(&self->peer, self->fpdu);
	for (at = 0; at < len; at += 10)
		FORGE(at < 17 ? 0 : at - 17, len - at < 10 ? len : at + 10);
	ASSERT_TRUE(arrived(self->fd, len));
	EXPECT_EQ(1012, RECEIVE(BUF, 0));
	EXPECT_BATCH(9, 1, 700, 2, 300);
	close(forger.raw);
}

/* The rest first, then the beginning: at every octet of the stream. */
TEST_F_TIMEOUT(rx, segments_in_reverse_order, 120)
{
	struct forger forger;
	size_t len, cut;
	u32 start;

	ASSERT_EQ(0, forger_open(&forger, self->peer.fd, self->fd));
	for (cut = 1; cut < 200; cut += cut < 30 ? 1 : 13) {
		start = self->peer.tx_position;
		len = stream_make(&self->peer, self->fpdu);
		ASSERT_EQ(0, forge(&forger, start + cut, self->fpdu + cut,
				   len - cut, 0, 0));
		ASSERT_EQ(-1, recv(self->fd, self->buf, BUF, MSG_DONTWAIT));
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_EQ(0, forge(&forger, start, self->fpdu, cut, 0, 0));
		ASSERT_TRUE(stream_comes(self->fd, self->buf)) {
			TH_LOG("cut at %zu", cut);
		}
	}
	close(forger.raw);
}

TEST_F_TIMEOUT(rx, urgent_pointer_anywhere, 120)
{
	struct forger forger;
	size_t len, at;

	ASSERT_EQ(0, forger_open(&forger, self->peer.fd, self->fd));
	for (at = 1; at < 40; at++) {
		u32 start = self->peer.tx_position;

		len = stream_make(&self->peer, self->fpdu);
		ASSERT_EQ(0, forge(&forger, start, self->fpdu, len,
				   TCP_FLAG_BITS_URG, at));
		ASSERT_TRUE(stream_comes(self->fd, self->buf)) {
			TH_LOG("urgent octet %zu", at);
		}
	}
	close(forger.raw);
}

TEST_HARNESS_MAIN
