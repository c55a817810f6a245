// SPDX-License-Identifier: GPL-2.0
/*
 * The peer of mpa_reorder: a sender of records, or a proxy that changes the segmentation.
 *
 *	mpa_reorder_peer kernel ADDRESS PORT SEED MILLISECONDS
 *	mpa_reorder_peer hand ADDRESS PORT SEED MILLISECONDS
 *	mpa_reorder_peer proxy ADDRESS PORT SEED TO-ADDRESS TO-PORT
 *
 * "kernel" sends with the module, "hand" writes the model's octets to plain TCP. At the
 * end both send their count, and compare it with the receiver's. They send at most 1000
 * octets a millisecond on average.
 */

#include "mpa_reorder.h"

#define PATIENCE	100	/* seconds */

static u64 seed, number, octets;
static u64 most;
static long until;

/* All records were sent: compare their number with the receiver's reply. */
static void end_with(u64 counted)
{
	if (counted != number)
		fail("%llu records were sent, %llu have come",
		     (unsigned long long)number, (unsigned long long)counted);
	printf("sent %llu records, %llu octets\n", (unsigned long long)number,
	       (unsigned long long)octets);
}

/* ---- by the kernel ---- */

static void send_record(int fd)
{
	u32 len = record_len(seed, number);
	/* Sometimes put more records into a segment. */
	int more = draw(4) ? 0 : MSG_MORE | MSG_EOR;
	ssize_t n = send(fd, record_octets(seed, number), len,
			 MSG_NOSIGNAL | more);

	if (n != len)
		fail("send of record %llu, %u octets: %zd",
		     (unsigned long long)number, len, n);
	octets += len;
	number++;
}

static void by_kernel(int fd)
{
	u64 counted = 0;

	if (mpa_attach(fd) || mpa_start(fd, MPA_ROLE_INITIATOR, 0))
		fail("start");
	while (octets < most && now_ms() < until)
		send_record(fd);
	shutdown(fd, SHUT_WR);
	if (recv(fd, &counted, sizeof(counted), 0) != sizeof(counted))
		fail("no count");
	end_with(counted);
}

/* ---- by hand ---- */

/* Write pieces of random size; each may become a segment. */
static void write_cut(int fd, const u8 *buf, size_t len)
{
	while (len) {
		size_t n = 1 + draw(draw(3) ? 1448 : 6000);

		if (n > len)
			n = len;
		if (write_all(fd, buf, n))
			fail("write");
		buf += n;
		len -= n;
	}
}

static void hand_starts(struct peer *peer)
{
	u8 frame[FRAME_LEN];

	frame_put(frame, false, 0x40, 1, 0);
	if (write_all(peer->fd, frame, FRAME_LEN) ||
	    read_all(peer->fd, frame, FRAME_LEN) != FRAME_LEN)
		fail("no reply");
	if (!(frame[16] & 0x80))
		fail("the reply asks for no markers");
	peer->tx_markers = true;
}

static u64 hand_counted(int fd)
{
	struct model_receiver rx = { .crc = true };
	u8 fpdu[16], ulpdu[16];
	u64 counted;
	size_t len;

	if (read_all(fd, fpdu, sizeof(fpdu)) != sizeof(fpdu))
		fail("no count");
	rx.octets = fpdu;
	rx.count = sizeof(fpdu);
	if (model_receive(&rx, ulpdu, &len) != MODEL_GOOD ||
	    len != sizeof(counted))
		fail("a bad count");
	memcpy(&counted, ulpdu, sizeof(counted));
	return counted;
}

static void by_hand(int fd)
{
	struct peer peer = { .fd = fd };
	static u8 fpdus[4 * FPDU_MAX];

	hand_starts(&peer);
	while (octets < most && now_ms() < until) {
		size_t len = 0;
		int i;

		for (i = draw(4); i >= 0; i--, number++) {
			u32 n = record_len(seed, number);

			len += peer_fpdu(&peer, record_octets(seed, number), n,
					 fpdus + len);
			octets += n;
		}
		write_cut(fd, fpdus, len);
	}
	shutdown(fd, SHUT_WR);
	end_with(hand_counted(fd));
}

/* ---- proxy ---- */

struct way {
	int from;
	int to;
	bool over;
	size_t at;
	size_t len;
	u8 buf[20000];
};

/* Forward octets in pieces of other sizes. */
static void go_on(struct way *way)
{
	ssize_t n;

	if (way->at == way->len) {
		way->at = 0;
		n = recv(way->from, way->buf, 1 + draw(sizeof(way->buf)),
			 MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			fail("proxy reads");
		way->len = n > 0 ? n : 0;
		if (!n) {
			way->over = true;
			shutdown(way->to, SHUT_WR);
		}
	}
	while (way->at < way->len) {
		size_t piece = 1 + draw(draw(4) ? 1448 : 8000);

		if (piece > way->len - way->at)
			piece = way->len - way->at;
		n = send(way->to, way->buf + way->at, piece,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			fail("proxy writes");
		if (n <= 0)
			break;
		way->at += n;
	}
}

static void carry(int fd, int to)
{
	static struct way ways[2];
	int i;

	ways[0] = (struct way){ .from = fd, .to = to };
	ways[1] = (struct way){ .from = to, .to = fd };
	while (!ways[0].over || !ways[1].over) {
		struct pollfd p[2];

		for (i = 0; i < 2; i++) {
			const bool full = ways[i].at < ways[i].len;

			p[i].fd = ways[i].over ? -1 :
				  full ? ways[i].to : ways[i].from;
			p[i].events = full ? POLLOUT : POLLIN;
		}
		if (poll(p, 2, PATIENCE * 1000) <= 0)
			fail("proxy waits");
		for (i = 0; i < 2; i++)
			if (p[i].revents)
				go_on(ways + i);
	}
}

int main(int argc, char **argv)
{
	int fd, to;

	if (argc < 6)
		fail("too few arguments, see mpa_reorder_peer.c");
	seed = strtoull(argv[4], NULL, 0);
	drawn = seed << 32;
	if (!strcmp(argv[1], "proxy")) {
		fd = tcp_accepted(argv[2], argv[3], 0);
		to = tcp_connected(argv[5], argv[6]);
		carry(fd, to);
		return 0;
	}
	fd = tcp_connected(argv[2], argv[3]);
	patience(fd, PATIENCE);
	until = now_ms() + atol(argv[5]);
	most = atol(argv[5]) * 1000;
	if (!strcmp(argv[1], "kernel"))
		by_kernel(fd);
	else
		by_hand(fd);
	return 0;
}
