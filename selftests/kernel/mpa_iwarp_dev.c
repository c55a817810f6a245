// SPDX-License-Identifier: GPL-2.0
/* The kernel's iWARP end, samples/mpa_ddp, through the calls of mpa_iwarp.h. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "mpa_iwarp.h"
#include "mpa_kmod.h"
#include "samples/mpa_ddp/mpa_ddp.h"

#define PATIENCE	100	/* seconds to wait for a report */
#define POSTED		0x100	/* ids from here on are not those of buffers */

int iw_dev_open(struct iw_end *end)
{
	if (access("/dev/mpa_ddp", F_OK) &&
	    kmod_do("insmod $MODULES/samples/mpa_ddp/mpa_ddp.ko"))
		return -1;
	end->dev = open("/dev/mpa_ddp", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return end->dev < 0 ? -1 : 0;
}

static void look(struct iw_end *end)
{
	struct ddp_info info;

	if (ioctl(end->dev, DDP_INFO, &info))
		return;
	end->written = info.writes;
	end->served = info.reads;
	end->segments = info.segments;
	end->ird = info.ird;
	end->ord = info.ord;
}

/* A Send has arrived, or its buffer comes back empty. */
static void take_message(struct iw_end *end, const struct ddp_done *done)
{
	struct iw_message *message = &end->sends[done->id % IW_DEPTH];

	iw_dev_unregister(end, message->stag);
	if (done->status)
		return;
	message->length = done->length;
	message->opcode = done->opcode;
	end->arrived++;
	if (done->stag && iw_find(done->stag))
		iw_unregister(iw_find(done->stag));
}

static void take_done(struct iw_end *end, const struct ddp_done *done)
{
	switch (done->what) {
	case DDP_STARTED:
		end->agreed = !done->status;
		errno = -done->status;
		break;
	case DDP_RECEIVED:
		take_message(end, done);
		break;
	case DDP_POSTED:
		if (done->opcode != RDMAP_READ_REQUEST)
			end->posted_done = true;
		else if (!done->status)
			end->answered++;
		break;
	case DDP_TERMINATE_SENT:
		end->sent = done->error;
		break;
	case DDP_TERMINATE_RECEIVED:
		end->received = done->error;
		break;
	case DDP_ENDED:
		errno = -done->status;
		end->closed = true;
		break;
	}
	look(end);
}

static bool over(const struct iw_end *end)
{
	return end->closed || end->sent >= 0 || end->received >= 0;
}

/* Read the kernel's next report, within @ms milliseconds. */
static int read_done(struct iw_end *end, struct ddp_done *done, int ms)
{
	struct pollfd tells = { .fd = end->dev, .events = POLLIN };

	/* Read before polling, as there usually is a report. */
	if (read(end->dev, done, sizeof(*done)) == sizeof(*done))
		return 0;
	if (poll(&tells, 1, ms) == 1 &&
	    read(end->dev, done, sizeof(*done)) == sizeof(*done))
		return 0;
	errno = EAGAIN;
	return -1;
}

int iw_dev_next(struct iw_end *end, struct ddp_done *done)
{
	return read_done(end, done, PATIENCE * 1000);
}

static int next(struct iw_end *end, int ms)
{
	struct ddp_done done;

	if (read_done(end, &done, ms))
		return -1;
	take_done(end, &done);
	return 0;
}

int iw_dev_progress(struct iw_end *end)
{
	bool agreed;

	/* Skip the report of the start. */
	do {
		agreed = end->agreed;
		if (over(end) || next(end, PATIENCE * 1000) || over(end))
			return -1;
	} while (end->agreed != agreed);
	return 0;
}

int iw_dev_take(struct iw_end *end, u32 segments)
{
	time_t began = time(NULL);

	for (look(end); end->segments < segments; look(end)) {
		if (over(end) || time(NULL) - began > PATIENCE)
			return -1;
		next(end, 1);
	}
	return 0;
}

int iw_dev_start(struct iw_end *end, const struct mpa_start *start)
{
	if (ioctl(end->dev, DDP_ATTACH, &end->fd) ||
	    ioctl(end->dev, DDP_START, start))
		return -1;
	if (start->role == MPA_ROLE_RESPONDER)
		return 0;
	while (!end->agreed)
		if (over(end) || next(end, PATIENCE * 1000))
			return -1;
	return 0;
}

int iw_dev_register(const struct iw_end *end, void *octets, u32 length, u64 base,
		    u8 access, u32 *stag)
{
	struct ddp_region region = {
		.addr = (unsigned long)octets, .base = base, .length = length,
		.access = (access & IW_REMOTE_READ ? DDP_REMOTE_READ : 0) |
			  (access & IW_REMOTE_WRITE ? DDP_REMOTE_WRITE : 0),
	};

	if (ioctl(end->dev, DDP_REGISTER, &region))
		return -1;
	*stag = region.stag;
	return 0;
}

void iw_dev_unregister(const struct iw_end *end, u32 stag)
{
	ioctl(end->dev, DDP_DEREGISTER, &stag);
}

int iw_dev_post(struct iw_end *end, u32 id, struct iw_message *message)
{
	struct ddp_post post = {
		.opcode = DDP_RECEIVE, .id = id, .length = message->room,
	};

	if (iw_dev_register(end, message->octets, message->room, 0, 0,
			    &message->stag))
		return -1;
	post.stag = message->stag;
	return ioctl(end->dev, DDP_POST, &post);
}

/* Post a send, and wait until it is done, so that the caller may reuse the memory. */
static int send_and_wait(struct iw_end *end, struct ddp_post *post)
{
	end->posted_done = false;
	if (ioctl(end->dev, DDP_POST, post))
		return -1;
	while (!end->posted_done)
		if (iw_dev_progress(end))
			return -1;
	return 0;
}

int iw_dev_send(struct iw_end *end, u8 opcode, u32 remote_stag, u64 remote_to,
		const void *octets, u32 length)
{
	struct ddp_post post = {
		.id = POSTED, .opcode = opcode, .length = length,
		.remote_stag = remote_stag, .remote_to = remote_to,
	};
	int rc;

	if (!length)
		return send_and_wait(end, &post);
	if (iw_dev_register(end, (void *)octets, length, 0, 0, &post.stag))
		return -1;
	rc = send_and_wait(end, &post);
	iw_dev_unregister(end, post.stag);
	return rc;
}

int iw_dev_read(struct iw_end *end, const struct iw_buffer *sink, u32 offset,
		u32 stag, u64 to, u32 length)
{
	struct ddp_post post = {
		.id = POSTED, .opcode = RDMAP_READ_REQUEST, .length = length,
		.stag = sink->stag, .to = sink->base + offset,
		.remote_stag = stag, .remote_to = to,
	};

	end->asked++;
	return ioctl(end->dev, DDP_POST, &post);
}
