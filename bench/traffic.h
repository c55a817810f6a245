/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the parts of the measuring program: the measurement, the two ends
 * of a connection, and the ways to send octets between them.
 */
#ifndef _BENCH_TRAFFIC_H
#define _BENCH_TRAFFIC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sys/socket.h>

#define BATCH_MAX	1024

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

enum form {
	FORM_CALL,	/* one system call: write, recv */
	FORM_MORE,	/* two, with MSG_MORE between them */
	FORM_MMSG,	/* sendmmsg, recvmmsg, or writev of several records */
	FORM_FILE,	/* sendfile */
	FORM_BATCH,	/* MPA_RECV_BATCH */
};

/**
 * struct plan - a measurement
 * @way:	the way octets are sent
 * @mode:	see usage
 * @send:	how the sender sends
 * @recv:	how the receiver receives
 * @size:	octets of a sending call, or of one record of it
 * @batch:	records of a sending call, with FORM_MMSG
 * @least:	not 0: their lengths are from this to @size
 * @packing:	MPA_PACKING
 * @read:	octets of the receiver's buffer
 * @segment:	MPA_SEGMENT
 * @markers:	0: none, 1: towards the receiver, 2: both ways
 * @no_crc:	MPA without CRCs
 * @place:	MPA_PLACE
 * @unordered:	SCTP: messages need no order
 * @relay:	through a proxy that resegments the stream
 * @rate:	records a second
 * @octets:	to measure over, at least
 * @warm:	before these, so that windows and buffers have grown
 * @count:	round trips or connections to measure over
 * @repeat:	measurements
 */
struct plan {
	const struct way *way;
	const char *mode;
	enum form send;
	enum form recv;
	size_t size;
	size_t batch;
	size_t least;
	bool packing;
	size_t read;
	int segment;
	int markers;
	bool no_crc;
	bool place;
	bool unordered;
	bool relay;
	uint64_t rate;
	uint64_t octets;
	uint64_t warm;
	uint64_t count;
	int repeat;
};

/**
 * struct end - an end of a connection
 * @plan:	the measurement
 * @sender:	this one sends in bulk, or sends requests
 * @fd:		its socket
 * @file:	file for sendfile()
 * @data:	octets of a sending call
 * @len:	their number
 * @buf:	receive buffer
 * @pos:	octets received
 * @records:	records received; 0 for plain octets
 * @checking:	compare received octets
 * @form:	how it receives, if not as requested
 * @priv:	private data of the way
 */
struct end {
	const struct plan *plan;
	bool sender;
	int fd;
	int file;
	uint8_t *data;
	size_t len;
	uint8_t *buf;
	uint64_t pos;
	uint64_t records;
	bool checking;
	const char *form;
	void *priv;
};

/**
 * struct result - the result of one measurement
 * @ns:		duration
 * @tx_ns:	the sender's part, or its processor time
 * @rx_ns:	the receiver's
 * @octets:	octets sent
 * @tx_calls:	sending calls
 * @records:	received, or receiving calls
 * @waited:	times that the sender had to wait until all was sent
 * @form:	how they were received, if not as requested
 */
struct result {
	uint64_t ns;
	uint64_t tx_ns;
	uint64_t rx_ns;
	uint64_t octets;
	uint64_t tx_calls;
	uint64_t records;
	uint64_t waited;
	char form[16];
};

/**
 * struct way - a way to send octets from one end to the other
 * @name:	its name
 * @protocol:	of the socket, 0 for TCP
 * @open:	instead of connecting a socket
 * @start:	set up a connection for this way
 * @send:	send the octets of one call; never less
 * @recv:	receive at least one octet; returns their number, 0 at the end
 */
struct way {
	const char *name;
	int protocol;
	void (*open)(struct end *end);
	void (*start)(struct end *end);
	void (*send)(struct end *end);
	size_t (*recv)(struct end *end);
};

extern const struct way way_tcp, way_ktls, way_sctp, way_library, way_mpa;
extern const struct way way_ddp_send, way_ddp_write;
extern const struct way way_rdma_send, way_rdma_write, way_rdma_read;

/* Octets of record @i of a sending call: varying, but always the same. */
static inline size_t record_len(const struct plan *plan, size_t i)
{
	uint32_t any = (i + 1) * 2654435761U;

	if (!plan->least)
		return plan->size;
	return plan->least + (any >> 8) % (plan->size - plan->least + 1);
}

noreturn void fail(const char *what);
void check(struct end *end, const uint8_t *octets, size_t len);
void tell(const struct end *end, uint64_t what);
uint64_t hear(const struct end *end);
void enter(bool sender);
int dial(const struct end *end, int fd);
void set_int(int fd, int level, int option, int value);

/* marks.c: the beginning and end of profiles */
void mark_none(void);
void mark_both(void);
void mark_send(void);
void mark_recv(void);

/* stream.c: shared by the ways over sockets */
void stream_send(struct end *end);
size_t stream_recv(struct end *end);

/* connections.c */
void connections(const struct plan *plan);

/* islands.c */
void islands(const struct plan *plan);

/* late.c */
void late_prepare(const struct plan *plan);
void late_send(struct end *end, struct result *to);
void late_recv(struct end *end, struct result *to);
void late_print(const struct plan *plan);

/* relay.c */
int relay(int fd, const struct sockaddr_in *to);

#endif /* _BENCH_TRAFFIC_H */
