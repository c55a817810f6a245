/* SPDX-License-Identifier: GPL-2.0 */
/* Records that both ends compute from their number and a seed. */
#ifndef _MPA_REORDER_H
#define _MPA_REORDER_H

#include <netdb.h>
#include <stdarg.h>

#include "mpa_test.h"
#include "mpa_stream.h"

/* Longer than any FPDU, with markers. */
#define FPDU_MAX	(MPA_ULPDU_MAX + 1024)

static inline void fail(const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "mpa_reorder: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, " (errno %d, %s)\n", err, strerror(err));
	va_end(ap);
	exit(1);
}

static inline u64 mixed(u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Most records fit a segment, a few have the maximum length; none is empty. */
static inline u32 record_len(u64 seed, u64 number)
{
	u64 r = mixed(seed * 0x9e3779b97f4a7c15ull + number), kind = r & 31;

	r >>= 8;
	if (kind < 4)
		return 1 + r % 20;
	if (kind < 12)
		return 1 + r % 200;
	if (kind < 20)
		return 200 + r % 1250;
	if (kind < 26)
		return 1400 + r % 60;
	if (kind < 31)
		return 1 + r % 5000;
	return r % 16 ? 5000 + r % 10000 : MPA_ULPDU_MAX - r / 16 % 4;
}

static inline u8 *record_octets(u64 seed, u64 number)
{
	return stream_at(mixed(seed + number * 31));
}

/* State of the random numbers that only one end uses. */
static u64 drawn;

static inline u32 draw(u32 below)
{
	return mixed(++drawn * 0x9e3779b97f4a7c15ull) % below;
}

static inline struct addrinfo *address_of(const char *address, const char *port)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST,
	}, *info;

	if (getaddrinfo(address, port, &hints, &info))
		fail("%s %s: no address", address, port);
	return info;
}

/* Accept a connection. Print "listening" first, so that no peer connects too early. */
static inline int tcp_accepted(const char *address, const char *port,
			       int rcvbuf)
{
	struct addrinfo *info = address_of(address, port);
	int listener = socket(info->ai_family, SOCK_STREAM, 0);
	int fd, one = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (rcvbuf)
		setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &rcvbuf,
			   sizeof(rcvbuf));
	if (bind(listener, info->ai_addr, info->ai_addrlen) ||
	    listen(listener, 1))
		fail("listen");
	puts("listening");
	fflush(stdout);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		fail("accept");
	close(listener);
	freeaddrinfo(info);
	return fd;
}

static inline int tcp_connected(const char *address, const char *port)
{
	struct addrinfo *info = address_of(address, port);
	int fd = socket(info->ai_family, SOCK_STREAM, 0), one = 1;

	if (connect(fd, info->ai_addr, info->ai_addrlen))
		fail("connect");
	setsockopt(fd, SOL_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(info);
	return fd;
}

#endif /* _MPA_REORDER_H */
