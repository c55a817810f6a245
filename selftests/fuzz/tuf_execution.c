// SPDX-License-Identifier: GPL-2.0
/*
 * One execution of the socket fuzzer with a socket of TUF: the input starts and
 * ends framing in both directions, and the peer is plain TCP.
 *
 * Rules, checked with the model (unit/tuf_model.c) from the octets sent:
 * - recv() delivers all plain octets and records up to the first invalid FPDU, in
 *   order, each once;
 * - the stream's end is reported correctly: 0 after a whole FPDU, EBADMSG otherwise;
 * - exactly the octets that send() accepted are at the peer, in order, with the framing
 *   of that time, each ULPDU in one FPDU.
 */

#include <linux/tuf.h>

#include "mpa_test.h"
#include "../unit/tuf_model.h"
#include "socket.h"

#define STREAM_MAX	(48 << 10)
#define SPANS_MAX	64
#define PERIOD_OF(n)	(128u << ((n) % 4))

/* octets that are sent in one mode */
struct span {
	u8 mode;
	u32 period;
	u32 from;
};

static struct tuf_run {
	const u8 *octets;
	u32 left;
	int fd;
	int raw;
	bool peer_ended, reset, bad, over;
	u8 rx_mode;
	u32 rx_period;
	u32 rx_begin;
	u32 rx_at;
	u32 rx_read;		/* octets of the present record that were read */
	u32 stream_len;
	struct span spans[SPANS_MAX];
	u32 nspans;
	u32 sent_len;
	u32 open;
	unsigned long records;
	u8 stream[STREAM_MAX];	/* octets from the peer */
	u8 sent[STREAM_MAX];	/* octets that send() has accepted */
	bool ends[STREAM_MAX];	/* a ULPDU ends with this octet */
} run;

static const u8 key_tx[TUF_KEY_LEN] = { 0xc3, 0x18, 0x6d, 0x72, 0xe9, 0xf6 };
static const u8 key_rx[TUF_KEY_LEN] = { 0xa1, 0x5b, 0x3c, 0xd4, 0x77, 0x0e };
static const char *broken;

static void violated(const char *what)
{
	if (!broken)
		broken = what;
}

static u32 take(u32 octets)
{
	u32 value = 0;

	while (octets--) {
		value <<= 8;
		if (run.left) {
			value |= *run.octets++;
			run.left--;
		}
	}
	return value;
}

/* KCOV does not see softirqs: the way that a call ends stands for them. */
static void ending(u32 what, int err)
{
	ended_as(1 + (0xful << 32 | what << 24 | run.rx_mode << 20 |
		      run.spans[run.nspans - 1].mode << 16 | (err & 0xffff)));
}

/* ---- the peer ---- */

static void peer_write(const u8 *octets, u32 len, u32 piece)
{
	u32 n;

	if (run.peer_ended || len > STREAM_MAX - run.stream_len)
		return;
	for (; len; len -= n, octets += n) {
		n = piece && piece < len ? piece : len;
		if (send(run.raw, octets, n, MSG_NOSIGNAL | MSG_DONTWAIT) != n) {
			/* The connection was reset, or there is no space. */
			hang_up(run.raw);
			run.raw = -1;
			run.peer_ended = true;
			run.reset = true;
			return;
		}
		memcpy(run.stream + run.stream_len, octets, n);
		run.stream_len += n;
		/* Send only the beginning in small pieces. */
		piece = piece > 64 ? 0 : piece * 2;
	}
}

static void peer_frames(u32 len, u32 damage, u32 piece)
{
	struct tuf_model_framing framing = { .period = run.rx_period };
	static struct model_octet made[8192];
	struct model_sender sender = {
		.octets = made,
		.position = run.stream_len - run.rx_begin,
	};
	struct model_fpdu fpdu;
	static u8 octets[8192];
	u32 i;

	memcpy(framing.key, key_rx, sizeof(key_rx));
	tuf_model_send(&framing, &sender, record_of(len), len, &fpdu);
	for (i = 0; i < sender.count; i++)
		octets[i] = made[i].value;
	if (damage)
		octets[damage % (sender.count < 40 ? sender.count : 40)] ^= damage;
	peer_write(octets, sender.count, piece);
}

/* ---- receiving ---- */

/* Return: the verdict on the next record. @end: set to its end. */
static enum model_verdict next_record(u8 *ulpdu, size_t *len, u32 *end)
{
	struct tuf_model_framing framing = { .period = run.rx_period };
	struct model_receiver model = {
		.position = run.rx_at - run.rx_begin,
		.octets = run.stream + run.rx_at,
		.count = run.stream_len - run.rx_at,
	};
	enum model_verdict verdict;

	verdict = tuf_model_receive(&framing, &model, ulpdu, len);
	*end = run.stream_len - model.count;
	return verdict;
}

static void judge_received(const u8 *buf, u32 n, bool eor, bool looked)
{
	static u8 ulpdu[1 << 16];
	size_t len;
	u32 end;

	if (!run.rx_mode) {
		if (n > run.stream_len - run.rx_at ||
		    memcmp(buf, run.stream + run.rx_at, n))
			violated("plain octets differ");
		run.rx_at += looked ? 0 : n;
		return;
	}
	if (next_record(ulpdu, &len, &end) != MODEL_GOOD)
		violated("a record was delivered that is none");
	else if (n > len - run.rx_read || memcmp(buf, ulpdu + run.rx_read, n))
		violated("a record differs");
	else if (eor != (run.rx_read + n == len))
		violated("MSG_EOR is not with the last octet");
	if (looked || broken)
		return;
	run.rx_read += n;
	if (run.rx_read < len)
		return;
	run.rx_at = end;
	run.rx_read = 0;
	run.records++;
}

static void judge_ended(int err)
{
	enum model_verdict verdict;
	static u8 ulpdu[1 << 16];
	size_t len;
	u32 end;

	if (run.reset)
		return;
	if (!run.rx_mode) {
		if (err || run.rx_at != run.stream_len || !run.peer_ended)
			violated("the end of plain TCP is no good one");
		return;
	}
	verdict = next_record(ulpdu, &len, &end);
	if (verdict == MODEL_GOOD)
		violated("a record was lost");
	else if (!err && run.rx_at != run.stream_len)
		violated("the end was taken for a good one");
	else if (err && (err != EBADMSG || (run.rx_at == run.stream_len)))
		violated("a good end was taken for a bad one");
}

/* Receive octets of a record, or plain ones. Return: false if there are none. */
static bool we_receive(u32 room, int how)
{
	static u8 buf[4096];
	struct iovec iov = { .iov_base = buf, .iov_len = room };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (run.bad || run.over || !room)
		return false;
	n = recvmsg(run.fd, &msg, how | MSG_DONTWAIT);
	ending(1, n < 0 ? errno : !n);
	if (n > 0) {
		judge_received(buf, n, msg.msg_flags & MSG_EOR, how & MSG_PEEK);
		return !(how & MSG_PEEK);
	}
	if (n < 0 && errno == EAGAIN)
		return false;
	judge_ended(n ? errno : 0);
	run.bad = n < 0;
	run.over = !n;
	return false;
}

/* ---- sending ---- */

static void we_send(u32 kind, u32 len)
{
	bool more = kind & 1, ends = !more || kind & 2;
	struct span *span = run.spans + run.nspans - 1;
	ssize_t n;
	u32 i;

	if (len > STREAM_MAX - run.sent_len)
		return;
	for (i = 0; i < len; i++)
		run.sent[run.sent_len + i] = (run.sent_len + i) * 7 + 1;
	/* Make the octets look like a header. */
	if (kind & 8 && len >= TUF_HEADER_LEN)
		memcpy(run.sent + run.sent_len + len - TUF_KEY_LEN, key_tx,
		       TUF_KEY_LEN);
	n = send(run.fd, run.sent + run.sent_len, len,
		 MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0) |
		 (more && ends ? MSG_EOR : 0));
	ending(2, n < 0 ? errno : 0);
	if (n < 0)
		return;
	if (span->mode && (n != len || (!n && !run.open)))
		violated("a part of a ULPDU, or an empty one, was accepted");
	memset(run.ends + run.sent_len, 0, n);
	run.sent_len += n;
	if (!span->mode)
		return;
	run.open = ends ? 0 : run.open + n;
	if (ends)
		run.ends[run.sent_len - 1] = true;
}

static u32 judge_span(const struct span *span, u32 at, u32 to,
		      struct model_receiver *got)
{
	struct tuf_model_framing framing = {
		.period = span->mode == TUF_MARKERS ? span->period : 0,
	};
	static u8 ulpdu[1 << 16];
	size_t len;

	got->position = 0;
	while (at < to) {
		len = to - at < got->count ? to - at : got->count;
		if (span->mode == TUF_OFF || span->mode == TUF_SEGMENTS) {
			if (len != to - at || memcmp(got->octets, run.sent + at, len))
				violated("octets sent without a header differ");
			got->octets += len;
			got->count -= len;
		} else if (tuf_model_receive(&framing, got, ulpdu, &len) !=
			   MODEL_GOOD) {
			violated("a bad FPDU was sent, or one is missing");
		} else if (len > to - at || memcmp(ulpdu, run.sent + at, len) ||
			   !run.ends[at + len - 1] ||
			   memcmp(framing.key, key_tx, TUF_KEY_LEN)) {
			violated("an FPDU sent differs");
		}
		if (broken)
			break;
		at += len;
		run.records++;
	}
	return at;
}

/* Compare the octets that the peer received with the accepted ones. */
static void judge_sent(void)
{
	static u8 octets[4 * STREAM_MAX];
	struct model_receiver got = { .octets = octets };
	ssize_t n = 0;
	u32 i;

	shutdown(run.fd, SHUT_WR);
	do {
		got.count += n;
		n = recv(run.raw, octets + got.count,
			 sizeof(octets) - got.count, 0);
	} while (n > 0);
	if (n < 0) {
		violated("the connection did not end well");
		return;
	}
	for (i = 0; i < run.nspans && !broken; i++)
		judge_span(run.spans + i, run.spans[i].from,
			   i + 1 < run.nspans ? run.spans[i + 1].from :
						run.sent_len - run.open, &got);
	if (got.count)
		violated("octets were sent that nobody gave");
}

/* ---- modes ---- */

static void set_rx(u8 mode, u32 kind)
{
	struct tuf_framing framing = {
		.mode = mode, .flags = mode && kind & 1 ? TUF_KEY_GIVEN : 0,
		.period = mode == TUF_MARKERS ? PERIOD_OF(kind >> 1) : 0,
	};
	bool on = run.rx_mode;
	int err;

	if (framing.flags)
		memcpy(framing.key, key_rx, TUF_KEY_LEN);
	err = setsockopt(run.fd, SOL_MPA, TUF_RX, &framing,
			 sizeof(framing)) ? errno : 0;
	ending(3, err);
	if (err || (on && mode))
		return;
	if (!mode && run.rx_read)
		violated("receiving was switched off inside a record");
	run.rx_mode = mode;
	run.rx_period = framing.period;
	run.rx_begin = run.rx_at;
}

static void set_tx(u8 mode, u32 kind)
{
	struct tuf_framing framing = {
		.mode = mode,
		.flags = mode == TUF_ALIGN || mode == TUF_MARKERS ?
			 TUF_KEY_GIVEN : 0,
		.period = mode == TUF_MARKERS ? PERIOD_OF(kind >> 1) : 0,
	};
	struct span *span = run.spans + run.nspans;
	int err;

	if (run.nspans == SPANS_MAX)
		return;
	if (framing.flags)
		memcpy(framing.key, key_tx, TUF_KEY_LEN);
	err = setsockopt(run.fd, SOL_MPA, TUF_TX, &framing,
			 sizeof(framing)) ? errno : 0;
	ending(4, err);
	if (err)
		return;
	if (run.open)
		violated("sending was switched off inside a ULPDU");
	span->mode = mode;
	span->period = framing.period;
	span->from = run.sent_len;
	run.nspans++;
}

/* Set an option to any octets, unless that changes a mode. */
static void set_any(void)
{
	static const int names[] = {
		MPA_PACKING, MPA_OVERSIZE, MPA_START, MPA_ACCEPT, MPA_MULPDU,
		TUF_TX_KEY, TUF_INFO, 36, TUF_TX, TUF_RX,
	};
	u32 kind = take(1), nr = kind % 10;
	socklen_t len = take(1);
	int value = kind >> 7;
	u8 buf[256];

	if (nr < 2)
		setsockopt(run.fd, SOL_MPA, names[nr], &value, sizeof(value));
	else
		getsockopt(run.fd, SOL_MPA, names[nr], buf, &len);
	if (kind & 0x40)
		setsockopt(run.fd, SOL_TCP, value ? TCP_CORK : TCP_NODELAY,
			   &(int){ kind >> 5 & 1 }, sizeof(int));
	/* Set MPA_PLACE, though nothing arrives out of order. */
	if (kind & 0x20)
		setsockopt(run.fd, SOL_MPA, MPA_PLACE, &value, sizeof(value));
}

/* ---- one execution ---- */

static void peer_ends(u32 kind)
{
	if (run.peer_ended || kind % 8 > 1)
		return;
	run.peer_ended = true;
	if (kind % 16) {
		shutdown(run.raw, SHUT_WR);
		return;
	}
	hang_up(run.raw);
	run.raw = -1;
	run.reset = true;
}

static void step(void)
{
	u32 kind = take(1), n;

	switch (kind % 14) {
	case 0:
		set_rx(1 + (kind >> 4) % 2, take(1));
		break;
	case 1:
		set_rx(TUF_OFF, 0);
		break;
	case 2:
		set_tx(1 + (kind >> 4) % 3, take(1));
		break;
	case 3:
		set_tx(TUF_OFF, 0);
		break;
	case 4:
	case 5:
		peer_frames(take(2) % 3000, 0, kind >> 4);
		break;
	case 6:
		peer_frames(1 + take(1), take(1), 0);
		break;
	case 7:
		n = take(1) % 64;
		n = n < run.left ? n : run.left;
		peer_write(run.octets, n, 0);
		run.octets += n;
		run.left -= n;
		break;
	case 8:
	case 9:
		we_send(kind >> 4, take(2) % 5000);
		break;
	case 10:
		we_receive(take(1) * 8, kind & 0x80 ? MSG_PEEK : 0);
		break;
	case 11:
		while (!broken && we_receive(4096, 0))
			;
		break;
	case 12:
		set_any();
		break;
	default:
		if (kind >> 4)
			poll(NULL, 0, 1);
		else
			peer_ends(take(1));
	}
}

/* Return: the violated invariant, or NULL. */
const char *execute_tuf(const u8 *octets, u32 len, int raw, int fd)
{
	memset(&run, 0, offsetof(struct tuf_run, stream));
	run.octets = octets;
	run.left = len;
	run.raw = raw;
	run.fd = fd;
	run.nspans = 1;
	broken = NULL;
	patience(run.raw, 10);
	if (setsockopt(run.fd, SOL_TCP, TCP_ULP, "tuf", sizeof("tuf")))
		return "not attached";
	while (run.left && !broken)
		step();
	if (!run.peer_ended)
		shutdown(run.raw, SHUT_WR);
	run.peer_ended = true;
	while (!run.bad && !run.over && !broken)
		if (!we_receive(4096, 0) && !run.bad && !run.over &&
		    !poll_for(run.fd, POLLIN, 5000))
			violated("neither octets nor an end");
	if (!broken && !run.reset)
		judge_sent();
	fulls += run.nspans > 1 || run.rx_begin;
	records += run.records;
	hang_up(run.fd);
	if (run.raw >= 0)
		hang_up(run.raw);
	return broken;
}
