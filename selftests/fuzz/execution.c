// SPDX-License-Identifier: GPL-2.0
/*
 * One execution of the socket fuzzer: the life of a connection, with a
 * simulated peer that sends MPA, almost MPA, or nonsense.
 *
 * An input is a small program: it starts the socket, and then both ends act. It runs in
 * a guest with one processor and virtual time: the work item has run before a sleeper
 * wakes, and waiting costs nothing.
 *
 * Rules, checked with the model (unit/model.c) from the octets sent:
 * - Full Operation begins only after a valid frame;
 * - the startup phase ends;
 * - recv() delivers all records up to the first bad FPDU, each whole, verified, and
 *   once;
 * - the stream's end is reported correctly: 0 between FPDUs, EBADMSG otherwise;
 * - exactly the octets that send() accepted are in FPDUs at the peer, in order.
 */

#include "mpa_test.h"
#include "socket.h"

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#endif

#define STREAM_MAX	(48 << 10)
#define SENT_MAX	(48 << 10)
#define STARTUP_MS_MAX	12000	/* startup times out before */
#define TUF_FIRST	0xe0	/* inputs that begin with this value or more are for TUF */
#define PIECES_MAX	16	/* pieces into which octets are cut at a time */

unsigned long fulls, records;

/* ---- connections ---- */

/* Listeners for all executions, with normal and with small receive buffers. */
static int listeners[2];
static struct sockaddr_in listener_addrs[2];

static int listeners_open(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct sockaddr_in *addr = listener_addrs + i;
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		socklen_t len = sizeof(*addr);

		addr->sin_family = AF_INET;
		addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		/* The accepted end inherits the size. */
		if (i && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){ 4096 },
				    sizeof(int)))
			return -1;
		if (setsockopt(fd, SOL_TCP, TCP_NODELAY, &(int){ 1 },
			       sizeof(int)) ||
		    bind(fd, (struct sockaddr *)addr, len) || listen(fd, 1) ||
		    getsockname(fd, (struct sockaddr *)addr, &len))
			return -1;
		listeners[i] = fd;
	}
	return 0;
}

static int pair_open(int fd[2], bool small)
{
	struct sockaddr_in *addr = listener_addrs + small;

	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (fd[0] < 0 ||
	    setsockopt(fd[0], SOL_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)) ||
	    connect(fd[0], (struct sockaddr *)addr, sizeof(*addr)))
		return -1;
	fd[1] = accept4(listeners[small], NULL, NULL, SOCK_NONBLOCK);
	return fd[1] < 0 ? -1 : 0;
}

/* ---- one execution ---- */

/* KCOV does not see the work item: the way that a connection ends stands for it. */
static void ending(u32 what, int value, const struct mpa_info *info)
{
	u32 value16 = value & 0xffff;

	ended_as(1 + (what << 28 | info->state << 24 | info->error << 20 |
		      info->role << 16 | value16));
}

struct run {
	const u8 *octets;
	u32 left;
	int fd;			/* the tested socket */
	int raw;		/* the simulated peer's socket */
	struct mpa_start start;
	struct mpa_info info;	/* state in Full Operation */
	bool full;
	bool peer_ended;
	bool reset;
	bool batch;
	bool told;		/* the result of RFC 6581's negotiation was reported */
	struct peer peer;
	u8 stream[STREAM_MAX];	/* octets from the peer */
	u32 stream_len;
	u32 written;		/* of these, octets written to TCP */
	u8 got[STREAM_MAX];	/* records received */
	u32 got_len;
	u16 got_ends[STREAM_MAX / 4];
	u32 got_nr;
	u8 sent[SENT_MAX];	/* records sent */
	u32 sent_len;
	u16 sent_ends[SENT_MAX];
	u32 sent_nr;
	int last;		/* errno of the last recv(), or 0 */
	bool over;
};

static struct run run;
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

/* Let the work item run. */
static void settle(void)
{
	poll(NULL, 0, 1);
}

static void look(void)
{
	struct mpa_info info = mpa_info(run.fd);

	if (info.state != MPA_STATE_FULL)
		return;
	run.info = info;
	run.full = true;
}

/* Append octets from the peer to the stream, then write them to TCP in pieces. */
static void peer_say(const u8 *octets, u32 len)
{
	if (run.peer_ended || len > STREAM_MAX - run.stream_len)
		return;
	memcpy(run.stream + run.stream_len, octets, len);
	run.stream_len += len;
}

static void peer_write(u32 piece)
{
	u32 pieces = 0;

	while (run.written < run.stream_len) {
		u32 n = run.stream_len - run.written;

		if (piece && n > piece && pieces++ < PIECES_MAX)
			n = piece;
		if (send(run.raw, run.stream + run.written, n,
			 MSG_NOSIGNAL | MSG_DONTWAIT) != n) {
			/* The peer's connection was reset, or the socket does not read. */
			run.stream_len = run.written;
			run.peer_ended = true;
			return;
		}
		run.written += n;
		if (piece > 64)
			return;
	}
}

static void peer_frame(void)
{
	u32 kind = take(1), private = take(2) % 600, damage = take(1);
	bool reply = run.start.role == MPA_ROLE_INITIATOR;
	u8 frame[FRAME_LEN + 516] = "";
	u32 len;

	if (kind & 1)
		private = kind & 2 ? 4 : 0;
	frame_put(frame, (kind & 0xc0) == 0xc0 ? !reply : reply,
		  take(1) & 0xf0, kind & 4 ? run.start.revision : take(1) % 4,
		  private);
	len = FRAME_LEN + (private < 516 ? private : 516);
	if (kind & 8)
		frame[damage % FRAME_LEN] ^= 1 << damage % 8;
	if (kind & 16)
		len = damage % len;
	peer_say(frame, len);
	run.peer.tx_position = 0;
	run.peer.tx_markers = kind & 32;
}

static void peer_record(u32 len, u32 damage)
{
	static u8 ulpdu[2048], fpdu[4096];
	u32 n;

	if (run.full)
		run.peer.tx_markers = run.info.flags & MPA_INFO_RX_MARKERS;
	len %= sizeof(ulpdu);
	record_fill(ulpdu, len);
	n = peer_fpdu(&run.peer, ulpdu, len, fpdu);
	if (damage & 1)
		fpdu[(damage >> 4) % n] ^= 1 << (damage >> 1) % 8;
	peer_say(fpdu, n);
}

static void note_send(u32 from, ssize_t n, u32 segment, bool more)
{
	u32 end = from + n;

	run.sent_len = end;
	if (!segment) {
		if (!more && n >= 0)
			run.sent_ends[run.sent_nr++] = end;
		return;
	}
	while (from < end) {
		u32 len = end - from < segment ? end - from : segment;

		from += len;
		run.sent_ends[run.sent_nr++] = from;
	}
}

static bool open_record(void)
{
	return run.sent_len && (!run.sent_nr || run.sent_len !=
				run.sent_ends[run.sent_nr - 1]);
}

static void we_send(void)
{
	u32 kind = take(1), len = take(2) % 5000, segment = 0;
	struct iovec iov = { run.sent + run.sent_len, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	char control[CMSG_SPACE(sizeof(int))] = "";
	bool more = kind & 1;
	ssize_t n;
	u32 i;

	if (!run.full || len > SENT_MAX - run.sent_len)
		return;
	for (i = 0; i < len; i++)
		run.sent[run.sent_len + i] = i * 7 + run.sent_len;
	if ((kind & 6) == 6 && !open_record()) {
		struct cmsghdr *cmsg;

		segment = 16 + take(1) * 4;
		more = false;
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_MPA;
		cmsg->cmsg_type = MPA_SEGMENT;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		*(int *)CMSG_DATA(cmsg) = segment;
	}
	n = sendmsg(run.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT |
		    (more ? MSG_MORE : 0));
	ending(1, n < 0 ? errno : 0, &run.info);
	if (n > len || (n >= 0 && n < len && (!segment || n % segment)))
		violated("a part of a record was accepted");
	else if (n > 0 || (!n && open_record() && !more))
		note_send(run.sent_len, n, segment, more);
	else if (!n)
		violated("an empty record was accepted");
}

/* Note the ends of a batch's records, except for the last. */
static void note_lengths(struct msghdr *msg, u32 octets)
{
	struct cmsghdr *cmsg;
	u32 i, n, at = 0;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		const u32 *lengths = (const u32 *)CMSG_DATA(cmsg);

		if (cmsg->cmsg_type != MPA_RECV_BATCH)
			continue;
		n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(u32);
		for (i = 0; i < n; i++) {
			at += lengths[i];
			if (i + 1 < n)
				run.got_ends[run.got_nr++] = run.got_len + at;
		}
		if (at != octets)
			violated("lengths of a batch do not add up");
	}
}

/* Receive octets of a record, or a batch. Return: false if there are none. */
static bool we_receive(u32 room, int how)
{
	struct iovec iov = { run.got + run.got_len, room };
	static u64 control[128];
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = run.batch ? sizeof(control) : 0,
	};
	ssize_t n;

	if (!run.full)
		look();
	if (!run.full || run.last || run.over)
		return false;
	if (room > STREAM_MAX - run.got_len) {
		violated("more was received than was sent");
		return false;
	}
	n = recvmsg(run.fd, &msg, how | MSG_DONTWAIT);
	ending(2, n < 0 ? errno : !n, &run.info);
	if (n < 0) {
		if ((errno == EOPNOTSUPP || errno == ENOBUFS) && !run.told &&
		    run.start.flags & MPA_START_P2P)
			run.told = true;
		else if (errno != EAGAIN)
			run.last = errno;
		return false;
	}
	if (how & MSG_PEEK)
		return false;
	if (!n && room) {
		run.over = true;
		return false;
	}
	if (run.batch)
		note_lengths(&msg, n);
	run.got_len += n;
	if (msg.msg_flags & MSG_EOR)
		run.got_ends[run.got_nr++] = run.got_len;
	return n;
}

static void we_set(void)
{
	static const int names[] = {
		MPA_SEGMENT, MPA_PACKING, MPA_OVERSIZE, 10 /* reserved */,
		MPA_ACCEPT, MPA_REJECT, MPA_START, MPA_INFO, 77,
	};
	u32 kind = take(1);
	int name = names[kind % ARRAY_SIZE(names)];
	int value = take(1) & 1;
	u8 buf[600];
	socklen_t len = take(2) % sizeof(buf);

	if (name == MPA_SEGMENT)
		value = -1;
	if (kind & 0x80)
		getsockopt(run.fd, SOL_MPA, name, buf, &len);
	else if (name == MPA_ACCEPT || name == MPA_REJECT)
		setsockopt(run.fd, SOL_MPA, name, NULL, 0);
	else if (name == MPA_START)
		setsockopt(run.fd, SOL_MPA, name, run.octets,
			   len < run.left ? len : run.left);
	else
		setsockopt(run.fd, SOL_MPA, name, &value, sizeof(value));
	if (kind & 0x40)
		setsockopt(run.fd, SOL_TCP, value ? TCP_CORK : TCP_NODELAY,
			   &(int){ kind >> 5 & 1 }, sizeof(int));
}

static void step(void)
{
	u8 octets[64];
	u32 n, i;

	switch (take(1) % 16) {
	case 0:
	case 1:
		peer_frame();
		peer_write(0);
		break;
	case 2:
	case 3:
	case 4:
		peer_record(take(2), 0);
		peer_write(0);
		break;
	case 5:
		peer_record(take(2), 1 | take(3) << 1);
		peer_write(0);
		break;
	case 6:
		n = take(1) % sizeof(octets);
		for (i = 0; i < n; i++)
			octets[i] = take(1);
		peer_say(octets, n);
		peer_write(0);
		break;
	case 7:
		/* Receive some records in small pieces, or without their last octets. */
		for (n = take(1) % 8; n; n--)
			peer_record(take(1) * 5, 0);
		peer_write(1 + take(1) * 8);
		break;
	case 8:
		look();
		we_send();
		break;
	case 9:
		we_receive(take(2) % 4096, take(1) & 1 ? MSG_PEEK : 0);
		break;
	case 10:
		while (we_receive(2048, 0))
			;
		break;
	case 11:
		we_set();
		break;
	case 12:
		n = take(1);
		if (n == 255)
			poll_for(run.fd, POLLIN, STARTUP_MS_MAX);
		else if (n % 3)
			settle();
		n = poll_for(run.fd, POLLIN | POLLOUT, 0);
		look();
		ending(3, n, &run.info);
		break;
	case 13:
		if (take(1) % 8)
			break;
		peer_write(0);
		shutdown(run.raw, SHUT_WR);
		run.peer_ended = true;
		break;
	case 14:
		if (take(1) % 16)
			break;
		hang_up(run.raw);
		run.raw = -1;
		run.peer_ended = true;
		run.reset = true;
		break;
	default:
		settle();
		look();
	}
}

/* ---- the judgement ---- */

static void judge_frame(const u8 *octets, u32 len, bool reply, u32 *frame_len)
{
	struct model_frame frame;

	*frame_len = 0;
	if (model_startup(octets, len, !reply, &frame) != MODEL_STARTUP_GOOD)
		violated("Full Operation without a frame");
	else
		*frame_len = FRAME_LEN + frame.pd_length;
}

/* Compare the received octets with the peer's. */
static void judge_received(void)
{
	struct model_receiver model = {
		.markers = run.info.flags & MPA_INFO_RX_MARKERS,
		.crc = run.info.flags & MPA_INFO_RX_CRC,
	};
	bool rtr = run.info.role == MPA_ROLE_RESPONDER &&
		   run.info.rtr & MPA_START_RTR_FPDU;
	u32 begin = 0, at = 0, nr = 0;
	enum model_verdict verdict;
	static u8 ulpdu[1 << 16];
	size_t len, left;

	if (run.start.role != MPA_ROLE_DIRECT)
		judge_frame(run.stream, run.written,
			    run.start.role == MPA_ROLE_INITIATOR, &begin);
	model.octets = run.stream + begin;
	model.count = run.written - begin;
	for (;;) {
		left = model.count;
		verdict = model_receive(&model, ulpdu, &len);
		if (verdict == MODEL_GOOD && !len) {
			if (rtr && !nr) {
				rtr = false;
				continue;
			}
			verdict = MODEL_BAD_LENGTH;
		}
		if (verdict != MODEL_GOOD)
			break;
		if (nr == run.got_nr && (run.got_len > at || run.reset))
			break;
		if (nr == run.got_nr || run.got_ends[nr] - at != len ||
		    memcmp(run.got + at, ulpdu, len)) {
			violated(nr == run.got_nr ? "a record was lost" :
						    "a record differs");
			return;
		}
		at += len;
		nr++;
		rtr = false;
	}
	if (nr != run.got_nr)
		violated("a record was delivered that is none");
	else if (run.got_len != at && !run.reset)
		violated("a part of a record was delivered");
	else if (run.reset)
		return;
	else if (run.over && !(verdict == MODEL_SHORT && !left))
		violated("the end was taken for a good one");
	else if (run.last == EBADMSG && verdict == MODEL_SHORT && !left)
		violated("a good end was taken for a bad one");
}

/* Compare the octets that the peer received with the accepted ones. */
static void judge_sent(void)
{
	bool rtr = run.info.role == MPA_ROLE_INITIATOR &&
		   run.info.rtr & MPA_START_RTR_FPDU;
	static u8 octets[4 * SENT_MAX], ulpdu[1 << 16];
	struct model_receiver model = {
		.markers = run.info.flags & MPA_INFO_TX_MARKERS,
		.crc = run.info.flags & MPA_INFO_TX_CRC,
		.octets = octets,
	};
	u32 begin = 0, at = 0, nr = 0;
	ssize_t n = 0;
	size_t len;

	if (run.raw < 0)
		return;
	shutdown(run.fd, SHUT_WR);
	for (;;) {
		n = recv(run.raw, octets + model.count,
			 sizeof(octets) - model.count, 0);
		if (n <= 0)
			break;
		model.count += n;
	}
	if (n < 0) {
		violated("the connection did not end well");
		return;
	}
	if (run.start.role != MPA_ROLE_DIRECT)
		judge_frame(octets, model.count,
			    run.start.role == MPA_ROLE_RESPONDER, &begin);
	model.octets += begin;
	model.count -= begin;
	while (model.count) {
		if (model_receive(&model, ulpdu, &len) != MODEL_GOOD) {
			violated("a bad FPDU was sent");
			return;
		}
		if (!len && rtr && !nr) {
			rtr = false;
			continue;
		}
		if (nr == run.sent_nr || run.sent_ends[nr] - at != len ||
		    memcmp(run.sent + at, ulpdu, len)) {
			violated("a record sent differs");
			return;
		}
		at += len;
		nr++;
		rtr = false;
	}
	if (nr != run.sent_nr)
		violated("a record accepted was not sent");
}

static u32 start_flags(u32 flags)
{
	u32 allowed = MPA_START_MARKERS | MPA_START_NO_CRC;

	switch (run.start.role) {
	case MPA_ROLE_DIRECT:
		return flags & (allowed | MPA_START_TX_MARKERS |
				MPA_START_TX_NO_CRC);
	case MPA_ROLE_RESPONDER:
		allowed |= MPA_START_MANUAL;
		break;
	default:
		if (run.start.revision == 2 && flags & MPA_START_P2P)
			return (flags & allowed) | MPA_START_ENHANCED |
			       MPA_START_P2P | MPA_START_RTR_FPDU;
		allowed |= run.start.revision == 2 ? MPA_START_ENHANCED : 0;
	}
	return flags & (allowed | MPA_START_PERMISSIVE);
}

static bool in_startup(void)
{
	return mpa_info(run.fd).state == MPA_STATE_STARTUP;
}

/* Whether an input's first octet selects TUF. The octet is consumed only then. */
static bool is_tuf(const struct input *input)
{
	return input->len > 1 && input->octets[0] >= TUF_FIRST;
}

/* Return: the violated invariant, or NULL. */
const char *execute(const struct input *input)
{
	bool small;
	int fd[2];

	if (is_tuf(input)) {
		if (pair_open(fd, input->octets[1] % 8 == 0))
			return "no connection";
		return execute_tuf(input->octets + 2, input->len - 2, fd[0], fd[1]);
	}
	memset(&run, 0, offsetof(struct run, stream));
	run.stream_len = 0;
	run.written = 0;
	run.got_len = 0;
	run.got_nr = 0;
	run.sent_len = 0;
	run.sent_nr = 0;
	run.last = 0;
	run.over = false;
	run.octets = input->octets;
	run.left = input->len;
	broken = NULL;

	run.start.role = 1 + take(1) % 3;
	run.start.revision = take(1) % 8 < 5 ? 1 : take(1) % 3;
	run.start.flags = start_flags(take(2));
	run.start.private_len = take(1);
	if (run.start.role == MPA_ROLE_DIRECT)
		run.start.private_len = 0;
	small = take(1) % 8 == 0;
	run.batch = take(1) & 1;
	if (pair_open(fd, small))
		return "no connection";
	run.fd = fd[1];
	run.raw = fd[0];
	run.peer.fd = fd[0];
	patience(run.raw, 10);
	if (mpa_attach(run.fd) ||
	    setsockopt(run.fd, SOL_MPA, MPA_RECV_BATCH, &(int){ run.batch },
		       sizeof(int)))
		return "not attached";
	if (take(1) % 8 == 0)
		step();
	mpa_start_as(run.fd, &run.start);
	while (run.left && !broken)
		step();

	if (!run.peer_ended) {
		peer_write(0);
		shutdown(run.raw, SHUT_WR);
	}
	if (in_startup() && !poll_for(run.fd, POLLIN, STARTUP_MS_MAX) &&
	    in_startup())
		violated("the startup phase has no end");
	look();
	while (run.full && !run.last && !run.over && !broken) {
		if (!we_receive(4096, 0) && !run.last && !run.over &&
		    !poll_for(run.fd, POLLIN, 5000))
			violated("neither a record nor an end");
	}
	ending(4, run.last, &run.info);
	fulls += run.full;
	records += run.got_nr + run.sent_nr;
	if (run.full && !broken)
		judge_received();
	if (run.full && !broken && !run.reset && run.last != EPIPE &&
	    run.last != ECONNRESET)
		judge_sent();
	hang_up(run.fd);
	hang_up(run.raw);
	return broken;
}

int execute_begin(void)
{
	if (listeners_open()) {
		perror("listeners");
		return -1;
	}
	if (sysctl_put("crc_optional", 1))
		perror("net.mpa.crc_optional");
	return 0;
}
