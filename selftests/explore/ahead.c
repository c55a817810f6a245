// SPDX-License-Identifier: GPL-2.0
/*
 * Records that come before those in front of them: the peer has yet to send them,
 * and sends them all, but segments made by hand have brought their octets already.
 */

#include <linux/filter.h>

#include "explore.h"
#include "ops.h"

#define AHEAD		5	/* records at a time */
#define AHEAD_LEN	700	/* each of them has a marker */
#define AHEAD_MISSING	300	/* octets of the first that do not come yet */

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

/* ---- segments ---- */

static u32 repair_seq(int fd, int queue)
{
	socklen_t len = sizeof(u32);
	u32 seq = 0;

	setsockopt(fd, SOL_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue));
	getsockopt(fd, SOL_TCP, TCP_QUEUE_SEQ, &seq, &len);
	return seq;
}

static int raw_socket(void)
{
	/* It receives nothing. */
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog deaf = { .len = 1, .filter = &drop };
	static int raw = -1;

	if (raw < 0) {
		raw = socket(AF_INET, SOCK_RAW, IPPROTO_TCP);
		setsockopt(raw, SOL_SOCKET, SO_ATTACH_FILTER, &deaf,
			   sizeof(deaf));
	}
	return raw;
}

static u16 checksum(const u8 *octets, size_t len)
{
	/* The pseudo header: 127.0.0.1 twice, protocol, length. */
	u32 sum = 2 * (0x7f00 + 1) + IPPROTO_TCP + len;
	size_t i;

	for (i = 0; i < len; i++)
		sum += i % 2 ? octets[i] : octets[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* From the peer, @off octets behind what it has sent. */
static int forge(struct world *w, u32 off, const u8 *octets, u32 len)
{
	struct sockaddr_in from, to = { .sin_family = AF_INET };
	int on = TCP_REPAIR_ON, done = TCP_REPAIR_OFF_NO_WP;
	socklen_t size = sizeof(from);
	struct tcp_head head = {};
	static u8 packet[8192];

	if (getsockname(w->raw, (struct sockaddr *)&from, &size) ||
	    getpeername(w->raw, (struct sockaddr *)&to, &size) ||
	    setsockopt(w->raw, SOL_TCP, TCP_REPAIR, &on, sizeof(on)))
		return -errno;
	head.source = from.sin_port;
	head.dest = to.sin_port;
	head.seq = htonl(repair_seq(w->raw, TCP_SEND_QUEUE) + off);
	head.ack_seq = htonl(repair_seq(w->raw, TCP_RECV_QUEUE));
	setsockopt(w->raw, SOL_TCP, TCP_REPAIR, &done, sizeof(done));
	head.words = 5 << 4;
	head.flags = 0x10;
	head.window = htons(1000);
	memcpy(packet, &head, sizeof(head));
	memcpy(packet + sizeof(head), octets, len);
	len += sizeof(head);
	head.check = htons(checksum(packet, len));
	memcpy(packet, &head, sizeof(head));
	to.sin_port = 0;
	return sendto(raw_socket(), packet, len, 0, (struct sockaddr *)&to,
		      sizeof(to)) == len ? 0 : -errno;
}

/* ---- what comes ahead ---- */

/* Segments that TCP has taken out of order. */
static u32 out_of_order(const struct world *w)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	getsockopt(w->s, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_rcv_ooopack;
}

static u32 ahead_add(struct world *w, u8 *fpdu, bool whole)
{
	struct ahead *ahead = w->ahead + w->ahead_nr++;
	static u8 record[4096];

	ahead->at = w->peer.tx_position;
	ahead->len = AHEAD_LEN + 4 * w->ahead_nr;
	ahead->here = whole;
	record_fill(record, ahead->len);
	ahead->octets = peer_fpdu(&w->peer, record, ahead->len, fpdu);
	return ahead->octets;
}

/*
 * Some records behind what is still to go, without the octets in front. With a
 * @bad one among them nothing behind it is found.
 */
static int op_ahead(struct world *w, long bad)
{
	u32 i, first = w->ahead_nr, n = 0, before, from, to;
	u8 *fpdus;
	int err;

	judge_state(w);
	if (w->s < 0 || w->state != MPA_STATE_FULL || w->fin || w->shut ||
	    w->ended || w->fuzzy || first + AHEAD > AHEAD_MAX)
		return -EINVAL;
	if (!w->half_left)
		w->half_at = 0;
	from = w->half_left;
	fpdus = w->half + w->half_at + from;
	if (w->half_at + from + 8192 > sizeof(w->half))
		return -ENOBUFS;
	for (i = 0; i < AHEAD; i++) {
		to = n + ahead_add(w, fpdus + n, i);
		if (bad && i == bad)
			fpdus[to - 1] ^= 1;
		if (bad && i >= bad)
			w->ahead[first + i].here = false;
		n = to;
	}
	w->half_left += n;
	before = out_of_order(w);
	err = forge(w, from + AHEAD_MISSING, fpdus + AHEAD_MISSING,
		    n - AHEAD_MISSING);
	/* TCP has no room for it, or the connection is over. */
	if (err || out_of_order(w) == before)
		for (i = first; i < w->ahead_nr; i++)
			w->ahead[i].here = false;
	return err;
}

const struct op ahead_ops[] = {
	{ "peer.ahead", ACTOR_PEER, 0, op_ahead, 0 },
	{ "peer.ahead.bad", ACTOR_PEER, 0, op_ahead, 3 },
};

const int ahead_ops_nr = ARRAY_SIZE(ahead_ops);

/* ---- what comes of it ---- */

struct ahead *ahead_at(struct world *w, u64 position)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++)
		if (w->ahead[i].at == position)
			return w->ahead + i;
	return NULL;
}

/* The stream ends in front of what was handed out. */
bool ahead_taken_beyond(const struct world *w)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++)
		if (w->ahead[i].taken &&
		    w->ahead[i].at >= w->wrote_len - w->full_at)
			return true;
	return false;
}

/* A record that came out of order, or what of it was shown. */
void judge_placed(struct world *w, u64 position, const u8 *buf, u32 n, int how)
{
	struct ahead *ahead = ahead_at(w, position);

	if (w->fuzzy)
		return;
	if (!w->place)
		violated("a record is placed, and MPA_PLACE is off");
	else if (!ahead)
		violated("a record is placed where none is");
	else if (!ahead->here)
		violated("a record is placed that has not come, or is not good");
	else if (ahead->taken)
		violated("a record is placed twice");
	else if (buf && memcmp(buf, record_of(ahead->len), n))
		violated("octets placed are not those that were framed");
	else if (!(how & MSG_PEEK) && n != ahead->len)
		violated("%u of %u octets are placed", n, ahead->len);
	if (ahead && !(how & MSG_PEEK))
		ahead->taken = true;
}

/* One that came without saying where from: each has a length of its own. */
bool ahead_is(struct world *w, const u8 *buf, u32 n, u64 *position)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++) {
		struct ahead *ahead = w->ahead + i;

		if (ahead->len != n || ahead->at < w->rx_at - w->full_at ||
		    memcmp(buf, record_of(n), n))
			continue;
		*position = ahead->at;
		return true;
	}
	return false;
}

static bool ready(const struct world *w, const struct ahead *ahead)
{
	return w->place && ahead->here && !ahead->taken && !ahead->waits &&
	       ahead->at >= w->wrote_len - w->full_at;
}

/* poll() has told of a record that the buffer has no room for. */
bool ahead_too_long(const struct world *w, u32 room)
{
	u32 i;

	for (i = 0; i < w->ahead_nr; i++)
		if (ready(w, w->ahead + i) && w->ahead[i].len > room)
			return true;
	return false;
}

/* recv() had nothing for so many octets: what is here is too long for it. */
void judge_nothing_placed(struct world *w, u32 room, bool looked)
{
	u32 i;

	if (w->fuzzy || w->stolen || w->squeezed || w->ended ||
	    w->fin || w->shut || w->rcv_error)
		return;
	for (i = 0; i < w->ahead_nr; i++) {
		struct ahead *ahead = w->ahead + i;

		if (!ready(w, ahead))
			continue;
		if (ahead->len <= room || looked)
			violated("a record that is here out of order is not placed");
		ahead->waits = true;
	}
}
