// SPDX-License-Identifier: GPL-2.0
/* Transport: MPA by this module, with each form of sending and receiving. */

#include <errno.h>
#include <fcntl.h>
#include <linux/mpa.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "traffic.h"

#ifndef MPA_RECV_BATCH
#define MPA_RECV_BATCH	12
#endif

#define LENGTHS		1024
#define CRC_OPTIONAL	"/proc/sys/net/mpa/crc_optional"

static void crc_optional(void)
{
	int fd = open(CRC_OPTIONAL, O_WRONLY);

	if (fd < 0 || write(fd, "1", 1) != 1)
		fail(CRC_OPTIONAL);
	close(fd);
}

static void mpa_begin(struct end *end)
{
	const struct plan *plan = end->plan;
	struct mpa_start start = {
		.role = end->sender ? MPA_ROLE_INITIATOR : MPA_ROLE_RESPONDER,
		.revision = 1,
	};

	if (plan->markers > (end->sender ? 1 : 0))
		start.flags |= MPA_START_MARKERS;
	if (plan->no_crc)
		start.flags |= MPA_START_NO_CRC;
	if (setsockopt(end->fd, SOL_MPA, MPA_START, &start, sizeof(start)))
		fail("MPA_START");
}

/* Check that MPA has the requested parameters. */
static void mpa_verify(struct end *end)
{
	const struct plan *plan = end->plan;
	struct mpa_info info = {};
	socklen_t len = sizeof(info);
	unsigned int want = 0;

	if (plan->markers)
		want |= end->sender ? MPA_INFO_TX_MARKERS : MPA_INFO_RX_MARKERS;
	if (plan->markers > 1)
		want |= end->sender ? MPA_INFO_RX_MARKERS : MPA_INFO_TX_MARKERS;
	if (!plan->no_crc)
		want |= MPA_INFO_CRC;
	if (getsockopt(end->fd, SOL_MPA, MPA_INFO, &info, &len))
		fail("MPA_INFO");
	errno = EPROTO;
	if ((info.flags & ~MPA_INFO_MAY_SEND) != want)
		fail("the parameters of MPA");
}

static void mpa_start(struct end *end)
{
	const struct plan *plan = end->plan;
	int one = 1;

	set_int(end->fd, SOL_TCP, TCP_NODELAY, 1);
	if (plan->no_crc)
		crc_optional();
	if (setsockopt(end->fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")))
		fail("TCP_ULP mpa");
	if (end->sender)
		hear(end);
	mpa_begin(end);
	tell(end, 0);
	if (!end->sender)
		hear(end);
	mpa_verify(end);

	if (plan->segment != MPA_SEGMENT_OFF && end->sender)
		set_int(end->fd, SOL_MPA, MPA_SEGMENT, plan->segment);
	if (plan->packing && end->sender)
		set_int(end->fd, SOL_MPA, MPA_PACKING, 1);
	if (plan->place && !end->sender)
		set_int(end->fd, SOL_MPA, MPA_PLACE, 1);
	if (end->sender || plan->recv != FORM_BATCH)
		return;
	/* If batches are not available, receive in the next best form, and report it. */
	if (setsockopt(end->fd, SOL_MPA, MPA_RECV_BATCH, &one, sizeof(one)))
		end->form = "call";
	if (!end->form)
		end->priv = malloc(CMSG_SPACE(LENGTHS * sizeof(uint32_t)));
}

static size_t recv_messages(struct end *end)
{
	static struct mmsghdr msg[BATCH_MAX];
	static struct iovec iov[BATCH_MAX];
	/* 64 records share the buffer. */
	size_t each = end->plan->read / 64, n = 0;
	int got, i;

	if (!msg[0].msg_hdr.msg_iov) {
		for (i = 0; i < 64; i++) {
			iov[i].iov_base = end->buf + i * each;
			iov[i].iov_len = each;
			msg[i].msg_hdr.msg_iov = &iov[i];
			msg[i].msg_hdr.msg_iovlen = 1;
		}
	}
	got = recvmmsg(end->fd, msg, 64, MSG_WAITFORONE, NULL);
	if (got < 0)
		fail("recvmmsg");
	for (i = 0; i < got && msg[i].msg_len; i++) {
		check(end, iov[i].iov_base, msg[i].msg_len);
		n += msg[i].msg_len;
		end->records++;
	}
	return n;
}

static size_t recv_batch(struct end *end)
{
	struct iovec iov = { end->buf, end->plan->read };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = end->priv,
		.msg_controllen = CMSG_SPACE(LENGTHS * sizeof(uint32_t)),
	};
	ssize_t n = recvmsg(end->fd, &msg, 0);
	struct cmsghdr *cmsg;

	if (n < 0)
		fail("recvmsg");
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg && cmsg->cmsg_type == MPA_RECV_BATCH)
		end->records += (cmsg->cmsg_len - CMSG_LEN(0)) /
				sizeof(uint32_t);
	check(end, end->buf, n);
	return n;
}

static size_t mpa_recv(struct end *end)
{
	if (end->form || end->plan->recv == FORM_CALL)
		return stream_recv(end);
	if (end->plan->recv == FORM_MMSG)
		return recv_messages(end);
	return recv_batch(end);
}

const struct way way_mpa = {
	.name = "mpa",
	.start = mpa_start,
	.send = stream_send,
	.recv = mpa_recv,
};
