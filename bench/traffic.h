/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the parts of the measuring program: the measurement, the two ends of a connection,
 * and the ways to send octets between them.
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

/* A measurement */
struct plan {
	const struct way *way;
	const char *mode;	/* see usage */
	enum form send;
	enum form recv;
	size_t size;		/* octets of a sending call, or of each record in it */
	size_t batch;		/* records of a sending call, with FORM_MMSG */
	size_t least;		/* if not 0, records have from @least to @size octets */
	bool packing;		/* MPA_PACKING */
	size_t read;		/* octets of the receiver's buffer */
	int segment;		/* MPA_SEGMENT */
	int markers;		/* 0: none, 1: towards the receiver, 2: both ways */
	bool no_crc;		/* MPA without CRCs */
	bool place;		/* MPA_PLACE */
	bool unordered;		/* SCTP: messages need no order */
	bool relay;		/* through a proxy that resegments the stream */
	uint64_t rate;		/* records a second */
	uint64_t octets;	/* to measure over, at least */
	uint64_t warm;		/* octets before these, to let windows and buffers grow */
	uint64_t count;		/* round trips or connections to measure over */
	int repeat;		/* measurements */
};

/* An end of a connection */
struct end {
	const struct plan *plan;
	bool sender;		/* sends in bulk, or sends requests */
	int fd;
	int file;		/* for sendfile() */
	uint8_t *data;		/* octets of a sending call */
	size_t len;		/* their number */
	uint8_t *buf;		/* receive buffer */
	uint64_t pos;		/* octets received */
	uint64_t records;	/* records received; 0 for plain octets */
	bool checking;		/* compare received octets */
	const char *form;	/* how the end receives, if not as requested */
	void *priv;		/* private data of the way */
};

/* The result of one measurement */
struct result {
	uint64_t ns;		/* duration */
	uint64_t tx_ns;		/* the sender's part, or its processor time */
	uint64_t rx_ns;		/* the receiver's */
	uint64_t octets;	/* octets sent */
	uint64_t tx_calls;	/* sending calls */
	uint64_t records;	/* records received, or receiving calls */
	uint64_t waited;	/* times that the sender had to wait until all was sent */
	char form[16];		/* how octets were received, if not as requested */
};

/* A way to send octets from one end to the other */
struct way {
	const char *name;
	int protocol;		/* of the socket, 0 for TCP */
	void (*open)(struct end *end);	/* instead of connecting a socket */
	void (*start)(struct end *end);	/* set up a connection for this way */
	void (*send)(struct end *end);	/* send all octets of one call */
	size_t (*recv)(struct end *end);	/* return the octets received; 0: the end */
};

extern const struct way way_tcp, way_ktls, way_sctp, way_library, way_mpa;
extern const struct way way_ddp_send, way_ddp_write;
extern const struct way way_rdma_send, way_rdma_write, way_rdma_read;

/*
 * Return the length of record @i of a sending call: it varies with @i, but is the same
 * in each call.
 */
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

/* marks.c: where profiles begin and end */
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
