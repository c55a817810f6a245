/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Records on TCP sockets with MPA (RFC 5044), in a few calls. All functions are static
 * inline, for C and C++: there is no library to link. mpa(7) explains the options.
 *
 *	int fd = mpa_socket_connect("localhost", "4242", 0, 5000);
 *
 *	if (fd < 0)
 *		fprintf(stderr, "%s\n", mpa_socket_strerror(fd, errno));
 *	mpa_socket_send(fd, "hello", 5);
 *	len = mpa_socket_receive(fd, buf, sizeof(buf), NULL);
 *
 * A call that fails returns -1 and sets errno, as system calls do. poll(2), setsockopt(2)
 * and close(2) work as for any socket. Threads may share a socket.
 */
#ifndef MPA_SOCKET_H
#define MPA_SOCKET_H

#include <errno.h>
#include <fcntl.h>
#include <linux/mpa.h>
#include <netdb.h>
#include <netinet/in.h>
/* Do not include both this header and linux/tcp.h. */
#ifndef _LINUX_TCP_H
#include <netinet/tcp.h>
#endif
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MPA_SOCKET_BACKLOG	1024	/* backlog of mpa_socket_listen() */

/* Internal, up to the next such line. */

static inline long long mpa_socket_now_(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Return: ms, or -1. */
static inline int mpa_socket_left_(long long until)
{
	long long left;

	if (until < 0)
		return -1;
	left = until - mpa_socket_now_();
	return left > 0 ? (int)left : 0;
}

/* Wait for the end of connect() or MPA_START. Return: SO_ERROR. */
static inline int mpa_socket_finish_(int fd, long long until)
{
	struct pollfd room = { fd, POLLOUT, 0 };
	socklen_t len = sizeof(int);
	int n, err = 0;

	do
		n = poll(&room, 1, mpa_socket_left_(until));
	while (n < 0 && errno == EINTR);
	if (!n)
		errno = ETIMEDOUT;
	if (n <= 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -1;
	errno = err;
	return err ? -1 : 0;
}

static inline int mpa_socket_close_(int fd)
{
	int err = errno;

	close(fd);
	errno = err;
	return -1;
}

static inline struct addrinfo *mpa_socket_resolve_(const char *host, const char *port, int flags)
{
	struct addrinfo hints, *list = NULL;
	int err;

	memset(&hints, 0, sizeof(hints));
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = flags;
	err = getaddrinfo(host, port, &hints, &list);
	if (!err)
		return list;
	if (err != EAI_SYSTEM)
		errno = err == EAI_MEMORY ? ENOMEM : EADDRNOTAVAIL;
	return NULL;
}

/* ---- attach and start ---- */

/**
 * mpa_socket_set() - set an int option of MPA
 * @fd:		the socket
 * @option:	MPA_SEGMENT, MPA_PACKING, MPA_OVERSIZE, MPA_RECVINFO, MPA_RECV_BATCH,
 *		MPA_PLACE
 * @value:	its value
 *
 * Return: 0, or -1 with errno.
 */
static inline int mpa_socket_set(int fd, int option, int value)
{
	return setsockopt(fd, SOL_MPA, option, &value, sizeof(value));
}

/**
 * mpa_socket_attach() - attach MPA to a TCP socket; it is plain TCP until MPA is started
 * @fd:		socket, connected or not
 *
 * Return: 0, or -1 with errno; ENOENT: the kernel has no mpa.
 */
static inline int mpa_socket_attach(int fd)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_ULP, "mpa", sizeof("mpa"));
}

/**
 * mpa_socket_start() - attach MPA to a connected socket and start it
 * @fd:		the socket
 * @role:	MPA_ROLE_INITIATOR or MPA_ROLE_RESPONDER
 * @flags:	MPA_START_*
 * @timeout_ms:	timeout for the peer's frame; 0: the administrator's setting
 *
 * On a non-blocking socket it fails with EINPROGRESS: see mpa(7). For other parameters,
 * such as private data, use struct mpa_start.
 *
 * Return: 0, or -1 with errno.
 */
static inline int mpa_socket_start(int fd, unsigned int role, unsigned int flags,
				   unsigned int timeout_ms)
{
	struct mpa_start start;

	memset(&start, 0, sizeof(start));
	start.role = (__u8)role;
	/* A responder with revision 2 also accepts revision 1. */
	start.revision = role == MPA_ROLE_RESPONDER ||
			 flags & (MPA_START_ENHANCED | MPA_START_P2P) ? 2 : 1;
	start.flags = flags;
	start.timeout_ms = timeout_ms;
	if (mpa_socket_attach(fd) && errno != EEXIST)
		return -1;
	return setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start));
}

/* ---- connections ---- */

static inline int mpa_socket_connect_one_(const struct addrinfo *to, unsigned int flags,
					  long long until)
{
	int fd, one = 1, wait_ms, mode;

	fd = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC, to->ai_protocol);
	if (fd < 0)
		return -1;
	mode = fcntl(fd, F_GETFL);
	if (mode < 0 || fcntl(fd, F_SETFL, mode | O_NONBLOCK) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) ||
	    /* Attach before connect(): attaching fails once the peer has closed. */
	    mpa_socket_attach(fd))
		return mpa_socket_close_(fd);
	if (connect(fd, to->ai_addr, to->ai_addrlen) &&
	    (errno != EINPROGRESS || mpa_socket_finish_(fd, until)))
		return mpa_socket_close_(fd);
	wait_ms = mpa_socket_left_(until);
	/* 0 would mean the administrator's setting. */
	if (mpa_socket_start(fd, MPA_ROLE_INITIATOR, flags,
			     wait_ms < 0 ? 0 : wait_ms ? (unsigned int)wait_ms : 1) &&
	    (errno != EINPROGRESS || mpa_socket_finish_(fd, -1)))
		return mpa_socket_close_(fd);
	if (fcntl(fd, F_SETFL, mode) < 0)
		return mpa_socket_close_(fd);
	return fd;
}

/**
 * mpa_socket_connect() - connect, and start MPA as the initiator
 * @host:	name or address
 * @port:	number or name
 * @flags:	MPA_START_*
 * @timeout_ms:	for TCP and MPA together, and all addresses, without the name's lookup;
 *		-1: no limit for TCP, the administrator's setting for MPA
 *
 * Tries each address of the host until one answers. Sets TCP_NODELAY.
 *
 * Return: a blocking socket in Full Operation, or -1 with errno; EADDRNOTAVAIL: unknown
 * host or port.
 */
static inline int mpa_socket_connect(const char *host, const char *port, unsigned int flags,
				     int timeout_ms)
{
	long long until = timeout_ms < 0 ? -1 : mpa_socket_now_() + timeout_ms;
	struct addrinfo *all = mpa_socket_resolve_(host, port, 0), *to;
	int fd = -1, err;

	if (!all)
		return -1;
	for (to = all; to && fd < 0; to = to->ai_next)
		fd = mpa_socket_connect_one_(to, flags, until);
	err = errno;
	freeaddrinfo(all);
	errno = err;
	return fd;
}

/**
 * mpa_socket_listen() - listen; accepted connections start as responders
 * @host:	address; NULL: all, IPv4 and IPv6
 * @port:	number or name; "0": any free port, see getsockname(2)
 * @flags:	MPA_START_*
 *
 * Return: a listening socket, or -1 with errno.
 */
static inline int mpa_socket_listen(const char *host, const char *port, unsigned int flags)
{
	struct addrinfo *all = mpa_socket_resolve_(host ? host : "::", port, AI_PASSIVE);
	int one = 1, off = 0, fd = -1, err;

	/* Try IPv4: the kernel has no IPv6. */
	if (!all && !host)
		all = mpa_socket_resolve_(NULL, port, AI_PASSIVE);
	if (!all)
		return -1;
	fd = socket(all->ai_family, all->ai_socktype | SOCK_CLOEXEC, all->ai_protocol);
	if (fd < 0 && !host && errno == EAFNOSUPPORT) {
		freeaddrinfo(all);
		return mpa_socket_listen("0.0.0.0", port, flags);
	}
	if (fd >= 0 && !host && all->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	/* Attach before listen(): otherwise an early client would get plain TCP. */
	if (fd >= 0 &&
	    (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	     setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) ||
	     bind(fd, all->ai_addr, all->ai_addrlen) ||
	     mpa_socket_start(fd, MPA_ROLE_RESPONDER, flags, 0) ||
	     listen(fd, MPA_SOCKET_BACKLOG)))
		fd = mpa_socket_close_(fd);
	err = errno;
	freeaddrinfo(all);
	errno = err;
	return fd;
}

/**
 * mpa_socket_accept() - accept a connection; skip connections that have already ended
 * @listener:	returned by mpa_socket_listen()
 *
 * Its first mpa_socket_receive() waits for the peer's request.
 *
 * Return: a socket, or -1 with errno.
 */
static inline int mpa_socket_accept(int listener)
{
	int fd;

	do
		fd = accept(listener, NULL, NULL);
	while (fd < 0 && (errno == ECONNABORTED || errno == EINTR));
	if (fd >= 0)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

/* ---- records ---- */

/**
 * mpa_socket_send() - send a record
 * @fd:		the socket
 * @record:	octets of the record
 * @len:	number of octets, 1 to MPA_ULPDU_MAX
 *
 * Return: @len, or -1 with errno. There is no SIGPIPE.
 */
static inline ssize_t mpa_socket_send(int fd, const void *record, size_t len)
{
	return send(fd, record, len, MSG_NOSIGNAL);
}

/**
 * mpa_socket_receive() - receive octets of one record, verified
 * @fd:		the socket
 * @buf:	buffer
 * @size:	size of @buf; the next call returns the other octets
 * @info:	NULL; or MPA_RECVINFO_LAST is set at the record's end, and, if the option
 *		MPA_RECVINFO is 1, the record's place in the stream
 *
 * Return: number of octets; 0: the peer closed after a complete record; -1 with errno.
 */
static inline ssize_t mpa_socket_receive(int fd, void *buf, size_t size, struct mpa_recvinfo *info)
{
	union {
		struct cmsghdr align;
		char octets[CMSG_SPACE(sizeof(struct mpa_recvinfo))];
	} control;
	struct cmsghdr *cmsg;
	struct msghdr msg;
	struct iovec iov;
	ssize_t len;

	if (!info)
		return recv(fd, buf, size, 0);
	memset(info, 0, sizeof(*info));
	memset(&msg, 0, sizeof(msg));
	iov.iov_base = buf;
	iov.iov_len = size;
	msg.msg_iov = &iov;
	msg.msg_iovlen = 1;
	msg.msg_control = control.octets;
	msg.msg_controllen = sizeof(control.octets);
	len = recvmsg(fd, &msg, 0);
	if (len <= 0)
		return len;
	for (cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg))
		if (cmsg->cmsg_level == SOL_MPA && cmsg->cmsg_type == MPA_RECVINFO)
			memcpy(info, CMSG_DATA(cmsg), sizeof(*info));
	if (msg.msg_flags & MSG_EOR)
		info->flags |= MPA_RECVINFO_LAST;
	return len;
}

/* ---- errors ---- */

/**
 * mpa_socket_error() - why receiving has stopped
 * @fd:		the socket
 *
 * Return: MPA_ERR_*; MPA_ERR_TCP also after an orderly end; MPA_ERR_NONE if receiving
 * continues, or @fd has no MPA.
 */
static inline unsigned int mpa_socket_error(int fd)
{
	socklen_t len = sizeof(struct mpa_info);
	struct mpa_info info;
	int err = errno;

	memset(&info, 0, sizeof(info));
	if (getsockopt(fd, SOL_MPA, MPA_INFO, &info, &len))
		info.error = MPA_ERR_NONE;
	errno = err;
	return info.error;
}

/**
 * mpa_socket_strerror() - describe an error
 * @fd:		the socket, or -1
 * @err:	errno of the call that failed
 *
 * Return: a constant string, or the result of strerror().
 */
static inline const char *mpa_socket_strerror(int fd, int err)
{
	unsigned int code = MPA_ERR_NONE;

	if (fd >= 0)
		code = mpa_socket_error(fd);
	switch (err) {
	case EADDRNOTAVAIL:
		return "no such host, address or port";
	case EBADMSG:
		return code == MPA_ERR_MARKER ? "a marker in the peer's stream is wrong" :
		       code == MPA_ERR_TCP ? "the peer's stream ended inside a record" :
		       "a record is damaged: its CRC or its length is wrong";
	case ECONNREFUSED:
		return "nothing listens there, or the peer rejected the request";
	case EMSGSIZE:
		return "a record has 1 to 64768 octets, with MPA_OVERSIZE 0 at most MPA_MULPDU";
	case ENOENT:
		/* With a socket MPA is loaded, so ENOENT has another reason. */
		return fd < 0 ? "the kernel has no mpa: modprobe mpa, as root" : strerror(err);
	case ENOBUFS:
		return code == MPA_ERR_IRD ? "the peer wants more inbound RDMA Reads" :
		       strerror(err);
	case EOPNOTSUPP:
		return code == MPA_ERR_RTR ? "no RTR that both ends support" :
		       strerror(err);
	case EPROTO:
		return "the peer does not speak MPA, or not this revision, or has the same role";
	case ETIMEDOUT:
		return "the peer did not answer in time";
	case EUSERS:
		return "too many connections are in startup (net.mpa.startup_max)";
	default:
		return strerror(err);
	}
}

#ifdef __cplusplus
}
#endif

#endif /* MPA_SOCKET_H */
