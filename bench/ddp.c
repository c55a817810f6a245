// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA Send and RDMA Write over mpa, with samples/mpa_ddp. rdma.c does the same over siw.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/mpa.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "samples/mpa_ddp/mpa_ddp.h"
#include "samples/mpa_ddp/wire.h"
#include "traffic.h"

#define WINDOW		128	/* messages that may be outstanding */
#define GRANT		32	/* messages received before the same number is granted */
#define QUEUE		256
#define WRITES		16	/* RDMA Writes reported by one notice */

/*
 * Two kinds of messages have a length of their own: grants of messages, and notices of
 * Writes.
 */
#define GRANT_LEN	1
#define NOTICE_LEN	2

struct ddp {
	int dev;
	uint8_t *room;			/* WINDOW + 16 receive buffers */
	size_t each;
	size_t into;			/* offset in @room for Writes */
	uint32_t data, in;		/* STags */
	uint64_t posted, completed;	/* requests to send */
	unsigned int credit;		/* messages that may be sent */
	unsigned int owed;		/* messages to grant */
	uint64_t arrived;		/* octets */
	uint32_t peer;			/* STag for Writes */
	bool writes;
};

static uint32_t name(struct ddp *ddp, void *octets, size_t len)
{
	struct ddp_region region = {
		.addr = (uintptr_t)octets, .length = len,
		.access = DDP_REMOTE_WRITE,
	};

	if (ioctl(ddp->dev, DDP_REGISTER, &region))
		fail("DDP_REGISTER");
	return region.stag;
}

static void post(struct ddp *ddp, struct ddp_post *post)
{
	if (ioctl(ddp->dev, DDP_POST, post))
		fail("DDP_POST");
}

static void post_recv(struct ddp *ddp, uint64_t i)
{
	struct ddp_post buffer = {
		.id = i, .opcode = DDP_RECEIVE, .length = ddp->each,
		.stag = ddp->in, .to = i * ddp->each,
	};

	post(ddp, &buffer);
}

static void make_queues(struct end *end, struct ddp *ddp)
{
	size_t i, len;

	ddp->writes = end->plan->way == &way_ddp_write;
	ddp->each = ddp->writes ? 64 : end->len;
	ddp->into = (WINDOW + 16) * ddp->each;
	len = ddp->into + (ddp->writes ? end->len : 0);
	ddp->room = malloc(len);
	if (!ddp->room)
		fail("memory");
	memset(ddp->room, 0, len);
	ddp->data = name(ddp, end->data, end->len);
	ddp->in = name(ddp, ddp->room, len);
	for (i = 0; i < WINDOW + 16; i++)
		post_recv(ddp, i);
	ddp->credit = WINDOW;
}

static void await(struct ddp *ddp)
{
	struct pollfd tells = { .fd = ddp->dev, .events = POLLIN };

	if (poll(&tells, 1, -1) < 0)
		fail("poll");
}

static void ddp_start(struct end *end)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	struct ddp *ddp = calloc(1, sizeof(*ddp));
	struct mpa_start start = {
		.role = end->sender ? MPA_ROLE_INITIATOR : MPA_ROLE_RESPONDER,
		.revision = 1,
	};
	struct ddp_done done;

	if (!ddp || setrlimit(RLIMIT_MEMLOCK, &all))
		fail("memory");
	end->priv = ddp;
	set_int(end->fd, SOL_TCP, TCP_NODELAY, 1);
	ddp->dev = open("/dev/mpa_ddp", O_RDWR | O_NONBLOCK);
	if (ddp->dev < 0)
		fail("/dev/mpa_ddp");
	make_queues(end, ddp);
	if (end->plan->markers > (end->sender ? 1 : 0))
		start.flags |= MPA_START_MARKERS;
	if (end->sender)
		hear(end);
	if (ioctl(ddp->dev, DDP_ATTACH, &end->fd) ||
	    ioctl(ddp->dev, DDP_START, &start))
		fail("DDP_START");
	if (!end->sender)
		tell(end, 0);
	await(ddp);
	if (read(ddp->dev, &done, sizeof(done)) != sizeof(done) ||
	    done.what != DDP_STARTED || done.status) {
		errno = EPROTO;
		fail("start");
	}
	tell(end, ddp->in);
	ddp->peer = hear(end);
}

static void post_send(struct ddp *ddp, uint32_t opcode, size_t off, size_t len,
		      uint64_t to)
{
	struct ddp_post what = {
		.id = ++ddp->posted, .opcode = opcode, .length = len,
		.stag = ddp->data, .to = off,
	};

	if (opcode == RDMAP_WRITE) {
		what.remote_stag = ddp->peer;
		what.remote_to = to;
	}
	post(ddp, &what);
}

static void received(struct end *end, const struct ddp_done *done)
{
	struct ddp *ddp = end->priv;
	size_t len = done->length;
	const uint8_t *octets;

	if (len == GRANT_LEN) {
		ddp->credit += GRANT;
		post_recv(ddp, done->id);
		return;
	}
	octets = ddp->room + done->id * ddp->each;
	if (len == NOTICE_LEN) {
		octets = ddp->room + ddp->into;
		len = end->len;
		end->records += WRITES;
	} else {
		end->records++;
	}
	check(end, octets, len);
	post_recv(ddp, done->id);
	ddp->arrived += len;
	if (++ddp->owed == GRANT) {
		ddp->owed = 0;
		post_send(ddp, RDMAP_SEND, 0, GRANT_LEN, 0);
	}
}

static bool reap(struct end *end)
{
	struct ddp *ddp = end->priv;
	struct ddp_done done[16];
	ssize_t n = read(ddp->dev, done, sizeof(done));
	unsigned int i;

	if (n < 0)
		return false;
	for (i = 0; i < n / sizeof(done[0]); i++) {
		if (done[i].what == DDP_RECEIVED && !done[i].status) {
			received(end, &done[i]);
		} else if (done[i].what == DDP_POSTED && !done[i].status) {
			ddp->completed = done[i].id;
		} else {
			errno = -done[i].status;
			fail("done");
		}
	}
	return true;
}

/* Sleep until there are completions, and handle them. */
static void progress(struct end *end)
{
	if (reap(end))
		return;
	await(end->priv);
	reap(end);
}

/* Wait for space in the queue; the last entries are for grants. */
static void wait_queue(struct end *end)
{
	struct ddp *ddp = end->priv;

	while (ddp->posted - ddp->completed >= QUEUE - 32)
		progress(end);
}

static void send_message(struct end *end, size_t len)
{
	struct ddp *ddp = end->priv;

	while (!ddp->credit)
		progress(end);
	wait_queue(end);
	ddp->credit--;
	post_send(ddp, RDMAP_SEND, 0, len, 0);
}

static void ddp_send(struct end *end)
{
	send_message(end, end->len);
}

static void ddp_write(struct end *end)
{
	size_t size = end->plan->size, i;
	struct ddp *ddp = end->priv;

	for (i = 0; i < WRITES; i++) {
		wait_queue(end);
		post_send(ddp, RDMAP_WRITE, i * size, size,
			  ddp->into + i * size);
	}
	send_message(end, NOTICE_LEN);
}

static size_t ddp_recv(struct end *end)
{
	struct ddp *ddp = end->priv;
	size_t n;

	while (!ddp->arrived)
		progress(end);
	n = ddp->arrived;
	ddp->arrived = 0;
	return n;
}

const struct way way_ddp_send = {
	.name = "ddp-send",
	.start = ddp_start,
	.send = ddp_send,
	.recv = ddp_recv,
};

/* Use this way with a batch of WRITES records. */
const struct way way_ddp_write = {
	.name = "ddp-write",
	.start = ddp_start,
	.send = ddp_write,
	.recv = ddp_recv,
};
