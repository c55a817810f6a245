// SPDX-License-Identifier: GPL-2.0
/*
 * mpa_delivery [--long]: streams of FPDUs from network namespace alpha to beta, over
 * any path, read in every way: the same records must arrive. mpa_delivery.sh sets up
 * the path.
 *
 * mpa_delivery --changed: the path changes octets, undetected by TCP's checksum.
 *
 * mpa_delivery --autotune: a connection's receive buffer grows like plain TCP's.
 */

#include <pthread.h>
#include <sys/epoll.h>

#include "mpa_test.h"

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define ADDRESS		"10.5.4.2"
#define STREAM_MAX	(512 << 10)

static int netns[2] = { -1, -1 };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int socket_in(int which)
{
	int fd;

	if (setns(netns[which], CLONE_NEWNET))
		die("setns");
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		die("socket");
	return fd;
}

/* fd[0] in alpha, fd[1] in beta. */
static void connect_hosts(int fd[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int listener = socket_in(1), one = 1;
	socklen_t len = sizeof(addr);

	inet_pton(AF_INET, ADDRESS, &addr.sin_addr);
	if (bind(listener, (struct sockaddr *)&addr, len) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len))
		die("listen");
	fd[0] = socket_in(0);
	if (connect(fd[0], (struct sockaddr *)&addr, len))
		die("connect");
	fd[1] = accept(listener, NULL, NULL);
	if (fd[1] < 0)
		die("accept");
	close(listener);
	setsockopt(fd[0], SOL_TCP, TCP_NODELAY, &one, sizeof(one));
	patience(fd[1], 120);
}

enum reader { BLOCKING, POLLING, EPOLL_EDGE, BATCHING, READERS };

static const char * const reader_name[] = {
	"blocking", "poll", "epoll", "batch",
};

/**
 * struct delivery - a stream, and how it is sent and read
 * @segment:	octets in each write, and so in each segment
 * @reader:	how records are read
 * @buffer:	size of the buffer
 * @markers:	the receiver requests markers; [1]: the sender does, which
 *		changes only its request
 * @crc:	CRCs are on
 * @direct:	without startup frames
 */
struct delivery {
	size_t segment;
	enum reader reader;
	size_t buffer;
	bool markers[2];
	bool crc;
};

static const size_t short_lens[] = { 1, 2, 500, 3, 700, 4, 5, 600 };
static const size_t long_lens[] = {
	1, 1442, 3, 64768, 5, 509, 4096, 30001, 7, 1000, 2000, 64767, 12,
};

struct sender {
	int fd;
	const u8 *octets;
	size_t len;
	size_t segment;
};

static void *sender(void *arg)
{
	struct sender *s = arg;
	size_t at;

	for (at = 0; at < s->len; at += s->segment)
		if (write_all(s->fd, s->octets + at, s->len - at < s->segment ?
			      s->len - at : s->segment))
			die("send");
	shutdown(s->fd, SHUT_WR);
	return NULL;
}

/* Both ends use MPA, but a plain TCP socket writes the sender's octets. */
static int start(struct peer *peer, int fd, const struct delivery *d)
{
	unsigned int flags = d->markers[0] ? MPA_START_MARKERS : 0;

	if (d->crc)
		return peer_initiates(peer, fd, d->markers[1], flags);
	peer->tx_markers = d->markers[0];
	return mpa_attach(fd) ||
	       mpa_start(fd, MPA_ROLE_DIRECT, flags | MPA_START_NO_CRC |
			 (d->markers[1] ? MPA_START_TX_MARKERS : 0)) ? -1 : 0;
}

static ssize_t wait_and_read(int fd, int epfd, const struct delivery *d,
			     struct msghdr *msg)
{
	struct epoll_event event;
	ssize_t n;

	for (;;) {
		if (d->reader == POLLING &&
		    !poll_for(fd, POLLIN, 120000))
			return -1;
		n = recvmsg(fd, msg, 0);
		if (d->reader != EPOLL_EDGE || n >= 0 || errno != EAGAIN)
			return n;
		/* Each record that arrives now must cause an event. */
		if (epoll_wait(epfd, &event, 1, 120000) != 1)
			return -1;
	}
}

/* Add a part of a record, maybe the last part. Return: whether it is correct. */
static bool take(u8 *record, size_t *at, const u8 *octets, size_t n, bool last,
		 const size_t *len)
{
	if (*at + n > *len || last != (*at + n == *len))
		return false;
	memcpy(record + *at, octets, n);
	*at += n;
	if (!last)
		return true;
	*at = 0;
	return record_good(record, *len);
}

/* Read @count records and the end of stream. Return: an error message, or NULL. */
static const char *read_records(int fd, const struct delivery *d,
				const size_t *lens, size_t count)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	static u8 buf[1 << 20], record[MPA_ULPDU_MAX];
	char control[CMSG_SPACE(16 * sizeof(u32))];
	struct iovec iov = { buf, d->buffer };
	int epfd = epoll_create1(0), one = 1;
	const char *wrong = NULL;
	size_t i = 0, at = 0;

	if (d->reader == BATCHING)
		setsockopt(fd, SOL_MPA, MPA_RECV_BATCH, &one, sizeof(one));
	if (d->reader != BLOCKING && d->reader != BATCHING)
		set_nonblock(fd);
	epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event);
	while (!wrong) {
		struct msghdr msg = {
			.msg_iov = &iov, .msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};
		ssize_t n = wait_and_read(fd, epfd, d, &msg);
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
		u32 *length = cmsg ? (u32 *)CMSG_DATA(cmsg) : NULL;
		bool last = msg.msg_flags & MSG_EOR;
		u8 *from = buf;
		size_t k;

		if (n < 0)
			wrong = strerror(errno);
		if (n <= 0)
			break;
		if (!cmsg) {
			if (i == count ||
			    !take(record, &at, buf, n, last, &lens[i]))
				wrong = "a wrong record";
			i += last;
			continue;
		}
		for (k = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(u32);
		     k && !wrong; k--, from += *length++) {
			if (i == count || !take(record, &at, from, *length,
						last, &lens[i]))
				wrong = "a wrong record in a batch";
			i += last;
		}
	}
	if (!wrong && (i != count || at))
		wrong = "not all records";
	close(epfd);
	return wrong;
}

static int deliver(const struct delivery *d)
{
	const bool is_short = d->segment < 100 || d->buffer < 100;
	const size_t *lens = is_short ? short_lens : long_lens;
	static u8 octets[STREAM_MAX], record[MPA_ULPDU_MAX];
	struct sender s = { .octets = octets, .segment = d->segment };
	size_t count = is_short ? ARRAY_SIZE(short_lens) :
				  ARRAY_SIZE(long_lens), i;
	struct peer peer = {};
	const char *wrong;
	pthread_t thread;
	int fd[2];

	connect_hosts(fd);
	peer.fd = fd[0];
	if (start(&peer, fd[1], d))
		die("start");
	for (i = 0; i < count; i++) {
		record_fill(record, lens[i]);
		s.len += peer_fpdu(&peer, record, lens[i], octets + s.len);
	}
	s.fd = fd[0];
	pthread_create(&thread, NULL, sender, &s);
	wrong = read_records(fd[1], d, lens, count);
	if (wrong)
		printf("segments of %zu, %s reader, buffer of %zu, markers %d %d, CRC %d: %s\n",
		       d->segment, reader_name[d->reader], d->buffer,
		       d->markers[0], d->markers[1], d->crc, wrong);
	hang_up(fd[1]);
	pthread_join(thread, NULL);
	hang_up(fd[0]);
	return wrong ? 1 : 0;
}

/* Test all combinations (@every), or each segment size with each reader and buffer once. */
static int deliver_all(bool every)
{
	static const size_t buffers[] = { 1, 1000, 65536, 1 << 20 };
	static const size_t segments[] = { 1, 1448, 65536 };
	int failed = 0, done = 0;
	unsigned int s, b, m;
	struct delivery d;

	for (s = 0; s < ARRAY_SIZE(segments); s++) {
		for (d.reader = 0; d.reader < READERS; d.reader++) {
			for (b = 0; b < ARRAY_SIZE(buffers); b++) {
				for (m = 0; m < 8; m++) {
					if (!every && m != (s * 3 + d.reader +
							    b * 5) % 8)
						continue;
					d.segment = segments[s];
					d.buffer = buffers[b];
					d.markers[0] = m & 1;
					d.markers[1] = m & 2;
					d.crc = !(m & 4);
					failed += deliver(&d);
					done++;
				}
			}
		}
	}
	printf("%d of %d streams arrived\n", done - failed, done);
	return failed ? 1 : 0;
}

/* ---- a path that changes octets in longer segments ---- */

static int changed(void)
{
	static u8 record[3000], buf[MPA_ULPDU_MAX];
	struct mpa_info info;
	int fd[2], i;
	ssize_t n;

	connect_hosts(fd);
	if (mpa_started_pair(fd, MPA_START_MARKERS, MPA_START_MARKERS))
		die("start");
	for (i = 0; i < 10; i++) {
		size_t len = i ? sizeof(record) : 100;

		record_fill(record, len);
		if (write_all(fd[0], record, len))
			die("send");
	}
	n = recv(fd[1], buf, sizeof(buf), 0);
	if (n != 100 || !record_good(buf, 100)) {
		printf("a good record: expected 100, seen %zd\n", n);
		return 1;
	}
	n = recv(fd[1], buf, sizeof(buf), 0);
	info = mpa_info(fd[1]);
	printf("recv gave %zd, %s; %llu octets received, code %d\n", n,
	       strerror(errno), info.rx_octets, info.error);
	i = n != -1 || errno != EBADMSG || info.error != MPA_ERR_CRC ||
	    info.rx_octets != 100;
	hang_up(fd[0]);
	hang_up(fd[1]);
	return i;
}

/* ---- the receive buffer grows as TCP's does ---- */

/* Send with TCP or MPA. Without markers all FPDUs of equal records have the same length. */
static void *send_bulk(void *arg)
{
	struct sender *s = arg;
	int i;

	for (i = 0; i < 400; i++)
		if (write_all(s->fd, s->octets, s->len))
			die("send");
	shutdown(s->fd, SHUT_WR);
	return NULL;
}

static struct tcp_info grown(bool mpa, int *rcvbuf)
{
	static u8 buf[65536], record[32768], fpdu[40000];
	struct sender s = { .octets = fpdu };
	struct tcp_info info = {};
	socklen_t len = sizeof(info);
	struct peer peer = {};
	pthread_t thread;
	int fd[2];

	connect_hosts(fd);
	peer.fd = fd[0];
	s.fd = fd[0];
	s.len = peer_fpdu(&peer, record, sizeof(record), fpdu);
	/* No CRCs: they would be the bottleneck on an emulated processor. */
	if (mpa && (mpa_attach(fd[1]) ||
		    mpa_start(fd[1], MPA_ROLE_DIRECT, MPA_START_NO_CRC)))
		die("start");
	pthread_create(&thread, NULL, send_bulk, &s);
	while (recv(fd[1], buf, sizeof(buf), 0) > 0)
		;
	getsockopt(fd[1], SOL_TCP, TCP_INFO, &info, &len);
	len = sizeof(*rcvbuf);
	getsockopt(fd[1], SOL_SOCKET, SO_RCVBUF, rcvbuf, &len);
	pthread_join(thread, NULL);
	hang_up(fd[0]);
	hang_up(fd[1]);
	return info;
}

static int autotune(void)
{
	struct tcp_info plain, mpa;
	int rcvbuf[2], tries;

	/* The octets of the last round trip depend on timing, with TCP and with MPA. */
	for (tries = 0; tries < 5; tries++) {
		plain = grown(false, &rcvbuf[0]);
		mpa = grown(true, &rcvbuf[1]);
		printf("TCP: rcv_space %u rcvbuf %d; MPA: rcv_space %u rcvbuf %d\n",
		       plain.tcpi_rcv_space, rcvbuf[0], mpa.tcpi_rcv_space,
		       rcvbuf[1]);
		if (mpa.tcpi_rcv_space >= 10 * 14600 &&
		    rcvbuf[1] >= rcvbuf[0] / 4)
			return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	bool every = false;

	netns[0] = open("/run/netns/alpha", O_RDONLY);
	netns[1] = open("/run/netns/beta", O_RDONLY);
	if (netns[0] < 0 || netns[1] < 0)
		die("/run/netns");
	for (argv++; *argv; argv++) {
		if (!strcmp(*argv, "--autotune"))
			return autotune();
		if (!strcmp(*argv, "--changed"))
			return changed();
		if (!strcmp(*argv, "--long"))
			every = true;
	}
	return deliver_all(every);
}
