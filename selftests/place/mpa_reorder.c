// SPDX-License-Identifier: GPL-2.0
/*
 * A receiver with MPA_PLACE, over a network that loses and reorders packets. It must
 * receive each record once, in order or out of order, at its position, with the right
 * MPA_RECVINFO.
 *
 *	mpa_reorder ADDRESS PORT SEED READER LEAST
 *
 * READER is how it reads, words joined by "+":
 *	poll, edge	waits with poll(2), or epoll(7), edge-triggered
 *	batch, mmsg	receives several records in a call
 *	short, peek	often has a short buffer, or peeks before it reads
 *	slow		sometimes does not read for a while
 *	toggle, shrink	changes MPA_PLACE, SO_RCVBUF during the transfer
 * LEAST is the number of records, of a thousand, that have to arrive out of order.
 */

#include <sys/epoll.h>

#include "mpa_reorder.h"

#define PATIENCE	60	/* seconds, less than for the senders */
#define ROOM		(256 << 10)
#define CALLS		8	/* number of messages in one recvmmsg */
#define FAR		(64 << 20)

/**
 * struct got - the result of one recvmsg
 * @buf:	octets
 * @n:		their number
 * @room:	size of the buffer
 * @eor:	MSG_EOR
 * @info:	control message MPA_RECVINFO
 * @nr:		entries in @length, 0: no such control message
 * @length:	control message MPA_RECV_BATCH
 */
struct got {
	u8 *buf;
	u32 n;
	u32 room;
	bool eor;
	struct mpa_recvinfo info;
	u32 nr;
	u32 length[MPA_RECV_BATCH_MAX];
};

static struct reader {
	bool poll, edge, batch, mmsg, cut, peek, slow, toggle, shrink;
} reader;

static u64 seed;
static int fd, ep;
static bool placing = true;

/* Stream position of each record's FPDU, and whether the record has arrived. */
static u64 *position;
static bool *came;
static u64 known, room_known;
/* The first missing record, and the number of its octets received. */
static u64 missing;
static u32 missing_read;
static u64 reported_edge;
static u64 records, octets, placed, behind, at_edge, calls;

static void know_next(void)
{
	struct model_layout layout = {
		.position = known ? position[known - 1] : 0, .markers = true,
	};

	if (known == room_known) {
		room_known = room_known * 2 ?: 1024;
		position = realloc(position, room_known * sizeof(*position));
		came = realloc(came, room_known * sizeof(*came));
		if (!position || !came)
			fail("no memory");
	}
	came[known] = false;
	if (!known) {
		position[known++] = 0;
		return;
	}
	layout.len = record_len(seed, known - 1);
	model_layout(&layout);
	position[known] = layout.position + layout.octets;
	known++;
}

static u64 position_of(u64 number)
{
	while (known <= number)
		know_next();
	return position[number];
}

/* Return: the number of the record that begins at @at. There must be one. */
static u64 number_at(u64 at)
{
	u64 low = 0, high;

	if (at > position_of(missing) + FAR)
		fail("position %llu is far away", (unsigned long long)at);
	while (!known || position[known - 1] < at)
		know_next();
	for (high = known - 1; low < high;) {
		u64 middle = (low + high) / 2;

		if (position[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	if (position[low] != at)
		fail("position %llu is inside of record %llu",
		     (unsigned long long)at, (unsigned long long)low - 1);
	return low;
}

/* ---- what must hold ---- */

static void say(const struct got *got, u64 number)
{
	const struct mpa_recvinfo *info = &got->info;

	fprintf(stderr, "record %llu, first missing %llu at %llu, MPA_PLACE %d\n",
		(unsigned long long)number, (unsigned long long)missing,
		(unsigned long long)position_of(missing), placing);
	fprintf(stderr, "%u octets, room %u, MSG_EOR %d, batch of %u\n",
		got->n, got->room, got->eor, got->nr);
	fprintf(stderr, "position %llu, order %llu, edge %llu\n",
		(unsigned long long)info->position,
		(unsigned long long)info->order, (unsigned long long)info->edge);
	fprintf(stderr, "length %u, offset %u, flags %#x, valid %#x\n",
		info->length, info->offset, info->flags, info->valid);
}

#define MUST(condition, got, number, what) do {				\
	if (!(condition)) {						\
		say(got, number);					\
		fail("%s: not so: %s", what, #condition);		\
	}								\
} while (0)

static void judge_placed(const struct got *got, u64 number)
{
	const struct mpa_recvinfo *info = &got->info;

	MUST(placing, got, number, "MPA_PLACE is off");
	/*
	 * Octets that TCP drops after MPA has read them have to arrive again. So the
	 * next record is out of order for TCP, though nothing is missing.
	 */
	MUST(number > missing || reader.shrink, got, number,
	     "nothing is missing before it");
	at_edge += number == missing;
	MUST(!(info->valid & MPA_RECVINFO_VALID_ORDER), got, number, "order");
	MUST(!info->offset, got, number, "in one piece");
	MUST(info->flags & MPA_RECVINFO_LAST, got, number, "in one piece");
	MUST(got->nr || got->n == info->length || got->room < info->length,
	     got, number, "in one piece");
	MUST(got->eor, got, number, "in one piece");
}

static void judge_in_order(const struct got *got, u64 number)
{
	const struct mpa_recvinfo *info = &got->info;
	bool last = got->nr > 1 || got->n == info->length - info->offset;

	MUST(number == missing, got, number, "the next one in order");
	MUST(info->valid & MPA_RECVINFO_VALID_ORDER, got, number, "order");
	MUST(info->order == number, got, number, "order");
	MUST(info->offset == missing_read, got, number, "offset");
	MUST(!!(info->flags & MPA_RECVINFO_LAST) == last, got, number, "last");
	MUST(got->eor == last, got, number, "MSG_EOR");
	/* The edge is not before the position. */
	MUST(info->edge >= info->position, got, number, "edge");
}

static void judge_octets(const struct got *got, u64 number, const u8 *buf,
			 u32 offset, u32 n)
{
	if (memcmp(buf, record_octets(seed, number) + offset, n)) {
		say(got, number);
		fail("octets of record %llu differ", (unsigned long long)number);
	}
}

/* Note that record @number was received, or @n octets of it at @offset. */
static void note(const struct got *got, u64 number, u32 offset, u32 n)
{
	u32 len = record_len(seed, number);

	position_of(number + 1);
	MUST(!came[number], got, number, "it has come before");
	octets += n;
	if (offset + n < len) {
		missing_read = offset + n;
		return;
	}
	records++;
	came[number] = true;
	missing_read = number == missing ? 0 : missing_read;
	while (came[missing]) {
		missing++;
		position_of(missing);
	}
}

static void judge_edge(const struct got *got, u64 number)
{
	const struct mpa_recvinfo *info = &got->info;

	MUST(info->edge >= reported_edge, got, number, "edge advances");
	MUST(info->edge <= position_of(missing), got, number,
	     "all before edge was received");
	reported_edge = info->edge;
	if (info->flags & MPA_RECVINFO_PLACED && info->edge < position[missing])
		behind++;
}

static void judge(const struct got *got, bool peeked)
{
	const struct mpa_recvinfo *info = &got->info;
	u64 number = number_at(info->position);
	u32 i, at = 0;

	calls++;
	MUST(info->length == record_len(seed, number), got, number, "length");
	MUST(!came[number], got, number, "it has come before");
	if (peeked) {
		judge_octets(got, number, got->buf, info->offset, got->n);
		return;
	}
	if (info->flags & MPA_RECVINFO_PLACED)
		judge_placed(got, number);
	else
		judge_in_order(got, number);
	if (info->flags & MPA_RECVINFO_PLACED)
		placed += got->nr ?: 1;
	if (got->nr < 2) {
		judge_octets(got, number, got->buf, info->offset, got->n);
		note(got, number, info->offset, got->n);
	}
	for (i = 0; got->nr > 1 && i < got->nr; i++) {
		u32 offset = i ? 0 : info->offset;
		u32 len = got->length[i];

		MUST(offset + len == record_len(seed, number + i), got,
		     number + i, "length in the batch");
		MUST(at + len <= got->n, got, number + i, "lengths add up");
		judge_octets(got, number + i, got->buf + at, offset, len);
		note(got, number + i, offset, len);
		at += len;
	}
	MUST(got->nr < 2 || at == got->n, got, number, "lengths add up");
	judge_edge(got, number);
}

/* ---- calls ---- */

#define CONTROL_MAX	(CMSG_SPACE(sizeof(struct mpa_recvinfo)) + \
			 CMSG_SPACE(MPA_RECV_BATCH_MAX * sizeof(u32)))

static void got_from(struct got *got, struct msghdr *msg, u32 n)
{
	struct cmsghdr *cmsg;
	bool told = false;

	got->n = n;
	got->nr = 0;
	got->buf = msg->msg_iov->iov_base;
	got->room = msg->msg_iov->iov_len;
	got->eor = msg->msg_flags & MSG_EOR;
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		size_t len = cmsg->cmsg_len - CMSG_LEN(0);

		if (cmsg->cmsg_type == MPA_RECVINFO) {
			memcpy(&got->info, CMSG_DATA(cmsg), sizeof(got->info));
			told = len == sizeof(got->info);
		} else if (cmsg->cmsg_type == MPA_RECV_BATCH) {
			memcpy(got->length, CMSG_DATA(cmsg), len);
			got->nr = len / sizeof(u32);
		}
	}
	if (!told)
		fail("%u octets came without MPA_RECVINFO", n);
}

static u8 buf[CALLS][ROOM];
static u64 control[CALLS][CONTROL_MAX / sizeof(u64) + 1];

/* Make one call, or with recvmmsg(2) up to CALLS. Return: as recvmsg(2). */
static ssize_t take(int flags)
{
	const bool many = reader.mmsg && !(flags & MSG_PEEK);
	static struct mmsghdr msg[CALLS];
	static struct iovec iov[CALLS];
	int i, nr = many ? CALLS : 1;
	static struct got got;
	ssize_t n;

	for (i = 0; i < CALLS; i++) {
		iov[i].iov_base = buf[i];
		iov[i].iov_len = reader.cut && !draw(3) ? 1 + draw(3000) : ROOM;
		msg[i].msg_hdr = (struct msghdr){
			.msg_iov = iov + i, .msg_iovlen = 1,
			.msg_control = control[i],
			.msg_controllen = CONTROL_MAX,
		};
		msg[i].msg_len = 0;
	}
	if (many) {
		nr = recvmmsg(fd, msg, CALLS, flags | MSG_WAITFORONE, NULL);
		n = nr > 0 ? (ssize_t)msg[0].msg_len : nr;
	} else {
		n = recvmsg(fd, &msg[0].msg_hdr, flags);
		msg[0].msg_len = n;
		nr = n > 0;
	}
	for (i = 0; i < nr && msg[i].msg_len; i++) {
		got_from(&got, &msg[i].msg_hdr, msg[i].msg_len);
		judge(&got, flags & MSG_PEEK);
	}
	return n;
}

static void set_int(int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		fail("option %d of level %d", option, level);
}

/* Nothing arrives: print whether TCP or MPA waits. */
static void nothing_comes(void)
{
	int octets = inq(fd), events = poll_for(fd, POLLIN, 0);
	ssize_t n = recv(fd, buf[0], ROOM, MSG_DONTWAIT);

	fprintf(stderr, "missing %llu at %llu, %u octets of it read\n",
		(unsigned long long)missing,
		(unsigned long long)position_of(missing), missing_read);
	fprintf(stderr, "TCP has received %llu, SIOCINQ %d, poll 0x%x, recv %zd\n",
		(unsigned long long)received(fd), octets, events, n);
	if (system("ss -Htinmo >&2; ip netns exec alpha ss -Htinmo >&2"))
		perror("ss");
	fail("nothing comes");
}

/* Return: whether anything was read. @over: set at the end. */
static bool read_once(int flags, bool *over)
{
	ssize_t n;

	if (reader.toggle && !draw(30)) {
		placing = !placing;
		set_int(SOL_MPA, MPA_PLACE, placing);
	}
	if (reader.shrink && !draw(50))
		set_int(SOL_SOCKET, SO_RCVBUF, 2048 << draw(7));
	if (reader.slow && !draw(20))
		usleep(1000 + draw(50000));
	if (reader.peek && !draw(3))
		take(flags | MSG_PEEK | MSG_DONTWAIT);
	n = take(flags);
	if (n < 0 && errno != EAGAIN)
		fail("recvmsg, MPA's error %d", mpa_info(fd).error);
	if (n < 0 && !(flags & MSG_DONTWAIT))
		nothing_comes();
	*over = !n;
	return n > 0;
}

/* ---- waiting ---- */

static int woken(int ms)
{
	struct epoll_event event;

	return epoll_wait(ep, &event, 1, ms);
}

/* Wait for an event, edge-triggered: without one this never ends. */
static void wait_edge(void)
{
	long end = now_ms() + PATIENCE * 1000;

	while (!woken(200)) {
		if (poll_for(fd, POLLIN, 0) & POLLIN && !woken(20))
			fail("poll() says POLLIN, epoll was not notified");
		if (now_ms() >= end)
			nothing_comes();
	}
}

static void read_all_records(void)
{
	const int flags = reader.poll || reader.edge ? MSG_DONTWAIT : 0;
	bool over = false;

	while (!over) {
		if (reader.poll && !poll_for(fd, POLLIN, PATIENCE * 1000))
			nothing_comes();
		else if (reader.edge)
			wait_edge();
		while (read_once(flags, &over))
			;
	}
}

static void judge_end(void)
{
	struct mpa_info info = mpa_info(fd);
	u64 i;

	for (i = missing; i < known; i++)
		if (came[i])
			fail("record %llu has come, %llu has not",
			     (unsigned long long)i, (unsigned long long)missing);
	if (missing_read)
		fail("the last record was cut");
	if (info.rx_ulpdus != records || info.rx_octets != octets ||
	    info.rx_placed != placed || info.rx_edge != position_of(missing))
		fail("MPA_INFO says %llu records, %llu octets, %llu placed, edge %llu",
		     (unsigned long long)info.rx_ulpdus,
		     (unsigned long long)info.rx_octets,
		     (unsigned long long)info.rx_placed,
		     (unsigned long long)info.rx_edge);
}

static void reader_of(const char *words)
{
	reader.poll = strstr(words, "poll");
	reader.edge = strstr(words, "edge");
	reader.batch = strstr(words, "batch");
	reader.mmsg = strstr(words, "mmsg");
	reader.cut = strstr(words, "short");
	reader.peek = strstr(words, "peek");
	reader.slow = strstr(words, "slow");
	reader.toggle = strstr(words, "toggle");
	reader.shrink = strstr(words, "shrink");
}

static void start(void)
{
	struct epoll_event in = { .events = EPOLLIN | EPOLLET };

	patience(fd, PATIENCE);
	if (mpa_attach(fd) ||
	    mpa_start(fd, MPA_ROLE_RESPONDER, MPA_START_MARKERS))
		fail("start");
	set_int(SOL_MPA, MPA_PLACE, 1);
	set_int(SOL_MPA, MPA_RECVINFO, 1);
	set_int(SOL_MPA, MPA_RECV_BATCH, reader.batch);
	ep = epoll_create1(0);
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &in))
		fail("epoll");
}

int main(int argc, char **argv)
{
	u64 least;

	if (argc != 6)
		fail("five arguments, see mpa_reorder.c");
	seed = strtoull(argv[3], NULL, 0);
	drawn = seed << 33;
	reader_of(argv[4]);
	least = atol(argv[5]);
	fd = tcp_accepted(argv[1], argv[2], 0);
	start();
	position_of(0);
	read_all_records();
	judge_end();
	printf("%llu records, %llu octets, %llu calls\n",
	       (unsigned long long)records, (unsigned long long)octets,
	       (unsigned long long)calls);
	printf("%llu placed, %llu at the edge, %llu with the edge after them\n",
	       (unsigned long long)placed, (unsigned long long)at_edge,
	       (unsigned long long)behind);
	if (send(fd, &records, sizeof(records), MSG_NOSIGNAL) !=
	    sizeof(records))
		fail("send of the count");
	shutdown(fd, SHUT_WR);
	if (placed * 1000 < least * records)
		fail("fewer than %llu of 1000 were placed",
		     (unsigned long long)least);
	return 0;
}
