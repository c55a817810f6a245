// SPDX-License-Identifier: GPL-2.0
/* The iWARP end: start, buffers, sending, closing. See mpa_iwarp.h. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mpa_iwarp.h"

#ifndef TCP_NODELAY
#define TCP_NODELAY	1
#endif
#ifndef TCP_ULP
#define TCP_ULP		31
#endif

/* Buffers of all the process's streams, as an STag may belong to another stream. */
static struct iw_buffer buffers[64];

struct iw_buffer *iw_find(u32 stag)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(buffers); i++)
		if (buffers[i].octets && buffers[i].stag == stag)
			return &buffers[i];
	return NULL;
}

struct iw_buffer *iw_register(const struct iw_end *end, void *octets, u32 length,
			      u64 base, u8 access)
{
	/* STags do not begin at zero, and are not reused. */
	static u32 last = 0x4d504100;
	u32 stag;
	size_t i;

	if (end->dev < 0)
		stag = last += 0x101;
	else if (iw_dev_register(end, octets, length, base, access, &stag))
		return NULL;

	for (i = 0; i < ARRAY_SIZE(buffers); i++) {
		struct iw_buffer *buffer = &buffers[i];

		if (buffer->octets)
			continue;
		buffer->octets = octets;
		buffer->length = length;
		buffer->stag = stag;
		buffer->base = base;
		buffer->access = access;
		buffer->end = end;
		return buffer;
	}
	return NULL;
}

void iw_unregister(struct iw_buffer *buffer)
{
	if (buffer->end->dev >= 0)
		iw_dev_unregister(buffer->end, buffer->stag);
	buffer->octets = NULL;
}

void iw_post(struct iw_end *end, void *octets, u32 room)
{
	u32 id = end->posted++ % IW_DEPTH;
	struct iw_message *message = &end->sends[id];

	message->octets = octets;
	message->room = room;
	if (end->dev >= 0)
		iw_dev_post(end, id, message);
}

static u32 mulpdu_of(int fd)
{
	socklen_t len = sizeof(int);
	int mulpdu = 0;

	if (getsockopt(fd, SOL_MPA, MPA_MULPDU, &mulpdu, &len) || mulpdu <= 0)
		return MPA_MULPDU_MIN;
	return mulpdu;
}

static int send_segment(struct iw_end *end, const void *header, u32 header_len,
			const void *octets, u32 length)
{
	struct iovec iov[2] = {
		{ .iov_base = (void *)header, .iov_len = header_len },
		{ .iov_base = (void *)octets, .iov_len = length },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = length ? 2 : 1 };

	if (sendmsg(end->fd, &msg, MSG_NOSIGNAL) == header_len + length)
		return 0;
	end->closed = true;
	return -1;
}

/* Whether this end may still send (RFC 5040 section 5.4). */
static bool over(const struct iw_end *end)
{
	return end->sent >= 0 || end->received >= 0 || end->closed;
}

/* Send a message, cut into segments not longer than MULPDU (RFC 5041 section 5.2). */
int iw_send_tagged(struct iw_end *end, u8 opcode, u32 stag, u64 to,
		   const void *octets, u32 length)
{
	u32 most = mulpdu_of(end->fd) - sizeof(struct ddp_tagged), done = 0;

	do {
		u32 n = length - done < most ? length - done : most;
		bool last = done + n == length;
		struct ddp_tagged header = {
			.control = ddp_control_of(DDP_TAGGED |
						  (last ? DDP_LAST : 0), opcode),
			.stag = __cpu_to_be32(stag),
			.to = __cpu_to_be64(to + done),
		};

		if (over(end) || send_segment(end, &header, sizeof(header),
					      octets + done, n))
			return -1;
		done += n;
	} while (done < length);
	return 0;
}

static int send_untagged(struct iw_end *end, u8 opcode, u32 invalidate,
			 const void *octets, u32 length)
{
	u32 most = mulpdu_of(end->fd) - sizeof(struct ddp_untagged), done = 0;
	u32 queue = rdmap_queue_of(opcode);

	do {
		u32 n = length - done < most ? length - done : most;
		bool last = done + n == length;
		struct ddp_untagged header = {
			.control = ddp_control_of(last ? DDP_LAST : 0, opcode),
			.invalidate = __cpu_to_be32(invalidate),
			.queue = __cpu_to_be32(queue),
			.msn = __cpu_to_be32(end->msn[queue]),
			.mo = __cpu_to_be32(done),
		};

		if (over(end) || send_segment(end, &header, sizeof(header),
					      octets + done, n))
			return -1;
		done += n;
	} while (done < length);
	end->msn[queue]++;
	return 0;
}

int iw_send(struct iw_end *end, u8 opcode, u32 invalidate, const void *octets,
	    u32 length)
{
	if (end->dev >= 0)
		return over(end) ? -1 : iw_dev_send(end, opcode, invalidate, 0,
						    octets, length);
	return send_untagged(end, opcode, invalidate, octets, length);
}

int iw_write(struct iw_end *end, u32 stag, u64 to, const void *octets, u32 length)
{
	if (end->dev >= 0)
		return over(end) ? -1 : iw_dev_send(end, RDMAP_WRITE, stag, to,
						    octets, length);
	return iw_send_tagged(end, RDMAP_WRITE, stag, to, octets, length);
}

static int send_read(struct iw_end *end, u32 sink, u64 sink_to, u32 stag, u64 to,
		     u32 length)
{
	struct iw_read *read = &end->reads[end->asked % IW_DEPTH];
	struct rdmap_read_request request = {
		.sink_stag = __cpu_to_be32(sink),
		.sink_to = __cpu_to_be64(sink_to),
		.size = __cpu_to_be32(length),
		.source_stag = __cpu_to_be32(stag),
		.source_to = __cpu_to_be64(to),
	};

	read->sink = sink;
	read->to = sink_to;
	read->left = length;
	end->asked++;
	return send_untagged(end, RDMAP_READ_REQUEST, 0, &request,
			     sizeof(request));
}

int iw_read(struct iw_end *end, const struct iw_buffer *sink, u32 offset, u32 stag,
	    u64 to, u32 length)
{
	while (end->asked - end->answered >= end->ord)
		if (!end->ord || iw_progress(end))
			return -1;
	if (end->dev >= 0)
		return iw_dev_read(end, sink, offset, stag, to, length);
	return send_read(end, sink->stag, sink->base + offset, stag, to, length);
}

int iw_read_all(struct iw_end *end)
{
	while (end->answered != end->asked)
		if (iw_progress(end))
			return -1;
	return 0;
}

int iw_take(struct iw_end *end, u32 segments)
{
	if (end->dev >= 0)
		return iw_dev_take(end, segments);
	while (end->segments < segments)
		if (iw_progress(end))
			return -1;
	return 0;
}

int iw_receive(struct iw_end *end, struct iw_message *message)
{
	while (end->taken == end->arrived)
		if (iw_progress(end))
			return -1;
	*message = end->sends[end->taken++ % IW_DEPTH];
	return 0;
}

/* Return: the headers to send with an error: RFC 5040 section 4.8, figure 10. */
static u8 headers_of(int error, const u8 *segment, u32 length)
{
	const struct ddp_control *control = (const void *)segment;
	u8 headers = RDMAP_TERM_LENGTH | RDMAP_TERM_DDP;

	if (!segment || length < sizeof(*control) ||
	    length < ddp_header_len(control) || error == DDP_ERR_LOCAL)
		return 0;
	if (error >> 8 == RDMAP_ERR_STAG >> 8 &&
	    rdmap_opcode_of(control) == RDMAP_READ_REQUEST)
		headers |= RDMAP_TERM_READ;
	return headers;
}

void iw_terminate(struct iw_end *end, int error, const u8 *segment, u32 length)
{
	struct rdmap_terminate *terminate;
	u8 message[RDMAP_TERM_MAX] = {};
	u32 n = RDMAP_TERM_SHORT;

	if (over(end))
		return;
	terminate = (struct rdmap_terminate *)message;
	terminate->layer_type = error >> 8;
	terminate->code = error;
	terminate->headers = headers_of(error, segment, length);
	if (terminate->headers) {
		u32 header = ddp_header_len((const void *)segment);

		n = sizeof(*terminate);
		terminate->length = __cpu_to_be16(length);
		memcpy(message + n, segment, header);
		n += header;
	}
	if (terminate->headers & RDMAP_TERM_READ) {
		memcpy(message + n, end->request, sizeof(end->request));
		n += sizeof(end->request);
	}
	if (!send_untagged(end, RDMAP_TERMINATE, 0, message, n))
		end->sent = error;
	shutdown(end->fd, SHUT_WR);
}

int iw_close(struct iw_end *end)
{
	static u8 dropped[MPA_ULPDU_MAX];
	int rc = 0;

	shutdown(end->fd, SHUT_WR);
	if (over(end) && end->dev < 0) {
		while (recv(end->fd, dropped, sizeof(dropped), 0) > 0)
			;
		rc = -1;
	} else {
		while (!iw_progress(end))
			;
		rc = end->received >= 0 || end->sent >= 0 ? -1 : 0;
	}
	close(end->fd);
	end->fd = -1;
	iw_free(end);
	return rc;
}

void iw_free(struct iw_end *end)
{
	if (end->fd >= 0)
		close(end->fd);
	if (end->dev >= 0)
		close(end->dev);
	end->fd = -1;
	end->dev = -1;
}

int iw_agreed(struct iw_end *end)
{
	struct mpa_info info = {};
	socklen_t len = sizeof(info);

	if (getsockopt(end->fd, SOL_MPA, MPA_INFO, &info, &len))
		return -1;
	end->agreed = true;
	end->ird = IW_DEPTH;
	end->ord = IW_DEPTH;
	if (info.flags & MPA_INFO_ENHANCED) {
		end->ird = info.ird;
		end->ord = info.ord < IW_DEPTH ? info.ord : IW_DEPTH;
	}
	if (!(info.flags & MPA_INFO_P2P) || info.role != MPA_ROLE_INITIATOR)
		return 0;
	/* RFC 6581 section 9.2. MPA itself sends an FPDU without a ULPDU. */
	if (info.rtr & MPA_START_RTR_WRITE)
		return iw_write(end, 1, 0, NULL, 0);
	if (info.rtr & MPA_START_RTR_READ)
		return send_read(end, 1, 0, 1, 0, 0);
	return 0;
}

int iw_open(struct iw_end *end, bool kernel)
{
	int queue;

	memset(end, 0, sizeof(*end));
	end->fd = -1;
	end->dev = -1;
	end->sent = -1;
	end->received = -1;
	for (queue = 0; queue < RDMAP_QUEUES; queue++) {
		end->msn[queue] = 1;
		end->in[queue].msn = 1;
	}
	return kernel ? iw_dev_open(end) : 0;
}

static int accepted(int listener, const struct addrinfo *info)
{
	int one = 1, fd;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, info->ai_addr, info->ai_addrlen) ||
	    listen(listener, 1))
		return -1;
	puts("listening");
	fflush(stdout);
	fd = accept(listener, NULL, NULL);
	close(listener);
	return fd;
}

int iw_connect(const char *address, const char *port, bool server)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *info;
	int fd;

	if (getaddrinfo(address, port, &hints, &info)) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	fd = socket(info->ai_family, SOCK_STREAM, 0);
	if (server)
		fd = accepted(fd, info);
	else if (connect(fd, info->ai_addr, info->ai_addrlen))
		fd = -1;
	freeaddrinfo(info);
	return fd;
}

static void use(struct iw_end *end, int fd)
{
	struct timeval patience = { .tv_sec = 20 };
	int one = 1;

	end->fd = fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* If the peer does not answer, fail. */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

int iw_start(struct iw_end *end, int fd, const struct mpa_start *start)
{
	int error;

	use(end, fd);
	if (end->dev >= 0)
		return iw_dev_start(end, start);
	if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, "mpa", sizeof("mpa")))
		return -1;
	if (!setsockopt(fd, SOL_MPA, MPA_START, start, sizeof(*start)))
		return start->role == MPA_ROLE_INITIATOR ? iw_agreed(end) : 0;
	/* RFC 6581 section 8: after these two errors a Terminate can still be sent. */
	error = errno;
	if (error == ENOBUFS)
		iw_terminate(end, MPA_TERM_IRD, NULL, 0);
	else if (error == EOPNOTSUPP)
		iw_terminate(end, MPA_TERM_RTR, NULL, 0);
	else
		end->closed = true;
	errno = error;
	return -1;
}
