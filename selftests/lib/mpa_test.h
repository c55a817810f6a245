/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of the tests: connections, and a simulated peer: a plain TCP socket to
 * which a test writes MPA's octets. They come from the model (unit/model.c), not from
 * the code under test.
 */
#ifndef _MPA_TEST_H
#define _MPA_TEST_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mpa.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "mpa_kmod.h"
#include "unit/model.h"

#ifndef SOL_TCP
#define SOL_TCP		6
#endif

#define FRAME_LEN	20	/* length of a startup frame without private data */

/*
 * Self-checking records: a record of LEN octets is a part of one long random sequence,
 * at an offset that depends on LEN. So a wrong length or octet is found.
 */
static u8 record_row[1 << 20];

/* Fill it before main(), as several threads read it. */
static void __attribute__((constructor)) record_row_fill(void)
{
	u32 x = 1;
	size_t i;

	for (i = 0; i < sizeof(record_row); i++) {
		x = x * 1664525 + 1013904223;
		record_row[i] = x >> 24;
	}
}

static inline const u8 *record_of(size_t len)
{
	return record_row + len * 37 % 65536;
}

static inline void record_fill(u8 *record, size_t len)
{
	memcpy(record, record_of(len), len);
}

static inline bool record_good(const u8 *record, size_t len)
{
	return !memcmp(record, record_of(len), len);
}

/* Open a TCP connection over loopback. Return: 0 or -1. */
static inline int tcp_pair_buf(int family, int fd[2], int rcvbuf)
{
	struct sockaddr_storage addr = { .ss_family = family };
	socklen_t len = sizeof(addr);
	int one = 1, listener;

	if (family == AF_INET)
		((struct sockaddr_in *)&addr)->sin_addr.s_addr =
			htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&addr)->sin6_addr = in6addr_loopback;

	listener = socket(family, SOCK_STREAM, 0);
	fd[0] = socket(family, SOCK_STREAM, 0);
	if (listener < 0 || fd[0] < 0)
		return -1;
	/* The accepted socket inherits the buffer size. */
	if (rcvbuf)
		setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &rcvbuf,
			   sizeof(rcvbuf));
	if (bind(listener, (struct sockaddr *)&addr, len) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) ||
	    connect(fd[0], (struct sockaddr *)&addr, len))
		return -1;
	fd[1] = accept(listener, NULL, NULL);
	close(listener);
	if (fd[1] < 0)
		return -1;
	setsockopt(fd[0], SOL_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd[1], SOL_TCP, TCP_NODELAY, &one, sizeof(one));
	return 0;
}

static inline int tcp_pair(int family, int fd[2])
{
	return tcp_pair_buf(family, fd, 0);
}

static inline int mpa_attach(int fd)
{
	return setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa"));
}

static inline int mpa_start(int fd, int role, unsigned int flags)
{
	struct mpa_start start = {
		.role = role, .revision = 1, .flags = flags,
	};

	return setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start));
}

/* Start both ends: fd[0] as initiator, fd[1] as responder. */
static inline int mpa_started_pair(int fd[2], unsigned int initiator_flags,
				   unsigned int responder_flags)
{
	if (mpa_attach(fd[0]) || mpa_attach(fd[1]))
		return -1;
	if (mpa_start(fd[1], MPA_ROLE_RESPONDER, responder_flags))
		return -1;
	return mpa_start(fd[0], MPA_ROLE_INITIATOR, initiator_flags);
}

static inline int mpa_start_as(int fd, const struct mpa_start *start)
{
	return setsockopt(fd, SOL_MPA, MPA_START, start, sizeof(*start));
}

/* Return: the contents of the peer's startup frame; all ones if it has not arrived. */
static inline struct mpa_peer mpa_peer(int fd)
{
	struct mpa_peer peer = {};
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_MPA, MPA_PEER, &peer, &len))
		memset(&peer, 0xff, sizeof(peer));
	return peer;
}

static inline struct mpa_info mpa_info(int fd)
{
	struct mpa_info info = {};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, SOL_MPA, MPA_INFO, &info, &len))
		memset(&info, 0xff, sizeof(info));
	return info;
}

static inline int so_error(int fd)
{
	socklen_t len = sizeof(int);
	int err = -1;

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
	return err;
}

static inline int poll_for(int fd, int events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, ms) < 0 ? -1 : p.revents;
}

static inline void set_nonblock(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static inline void set_block(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

/* Set a receive timeout, so that no test hangs. */
static inline void patience(int fd, int seconds)
{
	struct timeval time = { .tv_sec = seconds };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
}

/* Close with RST, or at least avoid TIME_WAIT. */
static inline void hang_up(int fd)
{
	struct linger reset = { .l_onoff = 1 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
}

/* Return: memory that is a valid argument, but cannot be read or written. */
static inline void *unreadable(size_t len)
{
	return mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static inline long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- a network namespace, and so sysctls, of the test's own ---- */

/* Set the loopback device of the socket's network namespace up or down. */
static inline int lo_set_of(int fd, bool up)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = up ? IFF_UP : 0 };

	return ioctl(fd, SIOCSIFFLAGS, &lo);
}

static inline int lo_set(bool up)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), err;

	err = lo_set_of(fd, up);
	close(fd);
	return err;
}

static inline int own_netns(void)
{
	return unshare(CLONE_NEWNET) ? -1 : lo_set(true);
}

/* Stay on this processor, so that this process's packets stay in order. */
static inline int one_processor(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	return sched_setaffinity(0, sizeof(one), &one);
}

/*
 * Wait until TCP has received all segments that this process has sent over loopback. On
 * one processor packets stay in order, so a datagram is sent last and awaited.
 */
static inline bool lo_delivered(void)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(addr);
	char octet = 0;
	bool came;

	came = !bind(fd, (struct sockaddr *)&addr, len) &&
	       !getsockname(fd, (struct sockaddr *)&addr, &len) &&
	       !connect(fd, (struct sockaddr *)&addr, len) &&
	       send(fd, &octet, 1, 0) == 1 &&
	       poll_for(fd, POLLIN, 20000) == POLLIN;
	close(fd);
	return came;
}

/* Return: the sysctl net.mpa.@name, or -1. */
static inline long sysctl_get(const char *name)
{
	char path[64], text[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/mpa/%s", name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) <= 0)
		text[0] = '-';
	close(fd);
	return text[0] == '-' ? -1 : atol(text);
}

static inline int sysctl_put(const char *name, long value)
{
	char path[64], text[16];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/sys/net/mpa/%s", name);
	snprintf(text, sizeof(text), "%ld", value);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	err = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

/*
 * Return: a counter in /proc/net/mpa_stat of this network namespace, or -1. With a
 * second name, the sum of both, read at the same time.
 */
static inline long long statistics(const char *name, const char *also)
{
	FILE *file = fopen("/proc/net/mpa_stat", "r");
	long long value = -1, n;
	char seen[64];

	while (file && fscanf(file, "%63s %lld", seen, &n) == 2)
		if (!strcmp(seen, name) || !strcmp(seen, also))
			value = value < 0 ? n : value + n;
	if (file)
		fclose(file);
	return value;
}

static inline long long statistic(const char *name)
{
	return statistics(name, "");
}

/* Return: the octets that TCP has received, startup frames included. */
static inline u64 received(int fd)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_bytes_received;
}

/* Whether TCP receives @octets octets within 20 s. */
static inline bool arrived(int fd, u32 octets)
{
	const long until = now_ms() + 20000;

	while (received(fd) < octets && now_ms() < until)
		usleep(1000);
	return received(fd) >= octets;
}

/*
 * Whether a thread sleeps within 20 s. The thread stores its number in *@tid, and then
 * makes the only call in which it can sleep.
 */
static inline bool asleep(const pid_t *tid)
{
	const long until = now_ms() + 20000;
	char path[64], state = 0;
	FILE *stat;

	do {
		usleep(1000);
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat",
			 __atomic_load_n(tid, __ATOMIC_ACQUIRE));
		stat = fopen(path, "r");
		if (!stat)
			continue;
		if (fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
			state = 0;
		fclose(stat);
	} while (state != 'S' && now_ms() < until);
	return state == 'S';
}

static inline int inq(int fd)
{
	int octets = -1;

	ioctl(fd, SIOCINQ, &octets);
	return octets;
}

/* Read @len octets, or up to the end of stream. Return: the number of octets, or -1. */
static inline ssize_t read_all(int fd, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = recv(fd, buf + done, len - done, 0);

		if (n < 0)
			return -1;
		if (!n)
			break;
		done += n;
	}
	return done;
}

static inline int write_all(int fd, const void *buf, size_t len)
{
	return send(fd, buf, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -1;
}

/* Whether a record sent by @from arrives unchanged at @to. */
static inline bool record_goes(int from, int to, size_t len)
{
	u8 record[4096], seen[4096];

	record_fill(record, len);
	return send(from, record, len, MSG_NOSIGNAL) == len &&
	       recv(to, seen, sizeof(seen), 0) == len &&
	       record_good(seen, len);
}

/* Whether plain TCP sockets transfer octets. */
static inline bool text_goes(int from, int to)
{
	char buf[8];

	return send(from, "plain", 5, MSG_NOSIGNAL) == 5 &&
	       recv(to, buf, sizeof(buf), 0) == 5 && !memcmp(buf, "plain", 5);
}

/* Call MPA_ACCEPT or MPA_REJECT. Return: 0, or errno. */
static inline int decide(int fd, int option)
{
	return setsockopt(fd, SOL_MPA, option, NULL, 0) ? errno : 0;
}

static inline int decide_as(int fd, int option, const void *reply, size_t len)
{
	return setsockopt(fd, SOL_MPA, option, reply, len) ? errno : 0;
}

/* ---- the simulated peer ---- */

static inline size_t frame_put(u8 *frame, bool reply, u8 flags,
			       u8 revision, u16 pd_length)
{
	memcpy(frame, reply ? "MPA ID Rep Frame" : "MPA ID Req Frame", 16);
	frame[16] = flags;
	frame[17] = revision;
	frame[18] = pd_length >> 8;
	frame[19] = pd_length;
	return FRAME_LEN;
}

struct peer {
	int fd;
	bool tx_markers;
	bool rx_markers;
	u64 tx_position;
};

/* Build this peer's next FPDU. Return: its length. */
static inline size_t peer_fpdu(struct peer *peer, const u8 *ulpdu,
			       size_t len, u8 *fpdu)
{
	static struct model_octet octets[80000];
	struct model_sender sender = {
		.position = peer->tx_position,
		.markers = peer->tx_markers,
		.octets = octets,
	};
	struct model_fpdu where;
	size_t i;

	model_send(&sender, ulpdu, len, &where);
	for (i = 0; i < sender.count; i++)
		fpdu[i] = octets[i].value;
	peer->tx_position += sender.count;
	return sender.count;
}

static inline int peer_send(struct peer *peer, const u8 *ulpdu, size_t len)
{
	static u8 fpdu[80000];
	size_t n = peer_fpdu(peer, ulpdu, len, fpdu);

	return write_all(peer->fd, fpdu, n);
}

static inline int peer_send_record(struct peer *peer, size_t len)
{
	static u8 record[MPA_ULPDU_MAX];

	record_fill(record, len);
	return peer_send(peer, record, len);
}

/* Start up with the simulated peer as initiator; MPA is attached to @fd here. */
static inline int peer_initiates(struct peer *peer, int fd, bool want_markers,
				 unsigned int flags)
{
	u8 frame[FRAME_LEN];

	frame_put(frame, false, want_markers ? 0xc0 : 0x40, 1, 0);
	if (mpa_attach(fd) || mpa_start(fd, MPA_ROLE_RESPONDER, flags) ||
	    write_all(peer->fd, frame, sizeof(frame)) ||
	    read_all(peer->fd, frame, sizeof(frame)) != sizeof(frame))
		return -1;
	if (memcmp(frame, "MPA ID Rep Frame", 16))
		return -1;
	peer->rx_markers = want_markers;
	peer->tx_markers = frame[16] & 0x80;
	peer->tx_position = 0;
	return 0;
}

/* Start up with the simulated peer as responder; MPA is attached to @fd here. */
static inline int peer_responds(struct peer *peer, int fd, bool want_markers,
				unsigned int flags)
{
	int fl = fcntl(fd, F_GETFL);
	u8 frame[FRAME_LEN];

	fcntl(fd, F_SETFL, fl | O_NONBLOCK);
	if (mpa_attach(fd) || mpa_start(fd, MPA_ROLE_INITIATOR, flags) != -1 ||
	    errno != EINPROGRESS)
		return -1;
	fcntl(fd, F_SETFL, fl);
	if (read_all(peer->fd, frame, sizeof(frame)) != sizeof(frame))
		return -1;
	peer->rx_markers = want_markers;
	peer->tx_markers = frame[16] & 0x80;
	peer->tx_position = 0;
	frame_put(frame, true, want_markers ? 0xc0 : 0x40, 1, 0);
	if (write_all(peer->fd, frame, sizeof(frame)))
		return -1;
	return poll_for(fd, POLLOUT, 20000) == POLLOUT && !so_error(fd) ? 0 : -1;
}

/* Whether all octets are acknowledged within 20 s. */
static inline bool acked(int fd)
{
	long end = now_ms() + 20000;
	int octets = -1;

	while (!ioctl(fd, SIOCOUTQ, &octets) && octets && now_ms() < end)
		poll(NULL, 0, 1);
	return !octets;
}

static inline long module_refs(void)
{
	FILE *file = fopen("/sys/module/mpa/refcnt", "r");
	long refs = -1;

	if (!file || fscanf(file, "%ld", &refs) != 1)
		refs = -1;
	if (file)
		fclose(file);
	return refs;
}

/*
 * Wait until nothing uses the module: sockets close asynchronously, and a lingering one
 * takes up to a minute.
 */
static inline bool module_unused(void)
{
	const long until = now_ms() + 90000;

	while (module_refs() && now_ms() < until)
		usleep(10000);
	return !module_refs();
}

/*
 * Run with real-time priority: on one processor, kworkers then run only while the test
 * sleeps.
 */
static inline int real_time(bool on)
{
	const struct sched_param param = { .sched_priority = on ? 50 : 0 };

	return sched_setscheduler(0, on ? SCHED_FIFO : SCHED_OTHER, &param);
}

/*
 * Load kmod/mpa_kernel_user.ko, which selftests/kmod/build builds, with these
 * parameters. Return: true on success.
 */
static inline bool kernel_user(const char *args)
{
	char line[256];

	snprintf(line, sizeof(line),
		 "insmod $MODULES/kmod/mpa_kernel_user.ko %s 2>&1 | grep -q 'Operation canceled'",
		 args);
	return !kmod_do(line);
}

#define TCP_STATE_CLOSE	7

static inline u8 tcp_state(int fd)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_state;
}

/* Whether TCP's state becomes CLOSE within 20 s. */
static inline bool tcp_closed(int fd)
{
	const long until = now_ms() + 20000;

	while (tcp_state(fd) != TCP_STATE_CLOSE && now_ms() < until)
		poll(NULL, 0, 1);
	return tcp_state(fd) == TCP_STATE_CLOSE;
}

#endif /* _MPA_TEST_H */
