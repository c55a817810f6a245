// SPDX-License-Identifier: GPL-2.0
/* What a user receives. */

#include <sys/mman.h>

#include "tuf.h"

/* What is said of where octets come from; NULL if nothing is. */
static const struct mpa_recvinfo *info_of(struct msghdr *msg)
{
	struct cmsghdr *cmsg;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg))
		if (cmsg->cmsg_level == SOL_MPA &&
		    cmsg->cmsg_type == MPA_RECVINFO)
			return (const struct mpa_recvinfo *)CMSG_DATA(cmsg);
	return NULL;
}

/* Records of a batch, each behind the other; the first one at @position. */
static void judge_batch(struct world *w, struct msghdr *msg, u64 position,
			bool placed, const u8 *buf, u32 n)
{
	struct cmsghdr *cmsg;
	u32 i, nr, at = 0;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		const u32 *lengths = (const u32 *)CMSG_DATA(cmsg);

		if (cmsg->cmsg_type != MPA_RECV_BATCH)
			continue;
		nr = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(u32);
		for (i = 0; i < nr && at + lengths[i] <= n; i++) {
			struct ahead *ahead = ahead_at(w, w->rx_begin + position);

			if (placed)
				judge_placed(w, position, buf + at, lengths[i], 0);
			else
				judge_octets(w, buf + at, lengths[i], i + 1 < nr ||
					     msg->msg_flags & MSG_EOR, 0);
			position += placed && ahead ? ahead->octets : 0;
			at += lengths[i];
		}
	}
	if (at != n)
		violated("lengths of a batch do not add up");
}

static void judge_ordered(struct world *w, const struct mpa_recvinfo *info)
{
	if (next_record(w) != WHOLE || w->fuzzy_rx)
		return;
	if (info->position != w->cur_at)
		violated("a record at %llu is said to be at %llu",
			 (unsigned long long)w->cur_at,
			 (unsigned long long)info->position);
	if (info->offset != w->cur_read || info->length != w->cur_len)
		violated("octet %u of %u is said to be %u of %u", w->cur_read,
			 w->cur_len, info->offset, info->length);
}

static void got_octets(struct world *w, struct msghdr *msg, const u8 *buf, u32 n,
		       int how)
{
	const struct mpa_recvinfo *info = info_of(msg);
	bool placed = info && info->flags & MPA_RECVINFO_PLACED;
	const u8 *seen = how & MSG_TRUNC ? NULL : buf;

	if (w->rx_mode == TUF_OFF) {
		/* TCP says how much of the buffer it has dropped. */
		judge_plain(w, seen, n, how);
		return;
	}
	if (info && !placed)
		judge_ordered(w, info);
	if (w->batch && !(how & (MSG_PEEK | MSG_TRUNC)))
		judge_batch(w, msg, info ? info->position : 0, placed, buf, n);
	else if (placed)
		judge_placed(w, info->position, seen, n, how);
	else
		judge_octets(w, seen, n, msg->msg_flags & MSG_EOR, how);
}

static void judge_poll(struct world *w, int mask, ssize_t n, int err, u32 room)
{
	/* A full buffer is only emptied for a call that asks for a record. */
	if (busy(w, JOB_RECV) || w->squeezed)
		return;
	if (n < 0 && err == EAGAIN && mask & POLLIN && !ahead_too_long(w, room))
		violated("poll() says 0x%x, recv() EAGAIN", mask);
	if (n >= 0 && !(mask & POLLIN))
		violated("poll() says 0x%x, recv() %zd octets", mask, n);
}

/* What take() fills in. */
static u64 control[200];
static u8 taken[70000];

int take(struct world *w, u32 room, int how)
{
	struct iovec iov = { taken, room };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = w->batch || w->tells ? sizeof(control) : 0,
	};
	int mask, err;
	ssize_t n;
	u32 i;

	mask = poll_for(w->s, POLLIN, 0);
	memset(taken, 0xaa, room);
	n = recvmsg(w->s, &msg, how | MSG_DONTWAIT);
	err = errno;
	judge_poll(w, mask, n, err, room);
	for (i = 0; n < 0 && i < room && !violation[0]; i++)
		if (taken[i] != 0xaa)
			violated("octets in the buffer of a call that has failed");
	if (n > 0) {
		got_octets(w, &msg, taken, n, how);
	} else {
		if (n < 0 && err == EAGAIN && w->rx_mode && !busy(w, JOB_RECV))
			judge_nothing_placed(w, room, how & MSG_PEEK);
		judge_end(w, n, err);
	}
	return n < 0 ? -err : n;
}

static int op_recv(struct world *w, long how)
{
	return take(w, 4096, how);
}

static int op_room(struct world *w, long room)
{
	return take(w, room, 0);
}

/* The buffer cannot be written, from the octet @good on. */
static int op_fault(struct world *w, long good)
{
	static u8 *pages;
	ssize_t n;

	if (!pages) {
		pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mprotect(pages + 4096, 4096, PROT_NONE);
	}
	if (w->rx_mode == TUF_OFF || w->batch || w->ahead_nr)
		return -EINVAL;
	n = recv(w->s, pages + 4096 - good, 1000, MSG_DONTWAIT);
	if (n > good)
		violated("recv() has written behind a page");
	else if (n > 0)
		judge_octets(w, pages + 4096 - good, n, false, HOW_NO_EOR);
	else if (!n || errno != EFAULT)
		judge_end(w, n, errno);
	return n < 0 ? -errno : n;
}

static int op_blocked(struct world *w, long arg)
{
	int mask = poll_for(w->s, POLLIN | POLLHUP | POLLERR, 0);

	(void)arg;
	/* It is to sleep. */
	if (mask || w->batch || w->place)
		return -EINVAL;
	return job_begin(w, JOB_RECV, 0);
}

static int op_inq(struct world *w, long arg)
{
	enum verdict verdict;
	int n = -1, is;

	(void)arg;
	if (ioctl(w->s, SIOCINQ, &n))
		return -errno;
	if (w->fuzzy_rx || !all_here(w) || w->ended || w->ahead_nr || w->shut ||
	    w->fin || busy(w, JOB_RECV))
		return 0;
	verdict = w->rx_mode ? next_record(w) : NOTHING;
	if (w->rx_mode == TUF_OFF)
		is = w->wrote_len - w->rx_at;
	else
		is = verdict == WHOLE ? w->cur_len - w->cur_read : 0;
	/* Of one that is not valid it may say what the header says. */
	if (is != n && verdict < BAD && !w->failed && !w->squeezed)
		violated("%d octets are here, SIOCINQ says %d", is, n);
	return 0;
}

#define USER(name, flags, fn, arg)	{ name, ACTOR_S, flags, fn, arg }

const struct op tuf_recv_ops[] = {
	USER("recv", 0, op_recv, 0),
	USER("recv.short", 0, op_room, 10),
	USER("recv.peek", OP_LOOKS, op_recv, MSG_PEEK),
	USER("recv.trunc", 0, op_recv, MSG_TRUNC),
	USER("recv.peek.trunc", OP_LOOKS, op_recv, MSG_PEEK | MSG_TRUNC),
	USER("recv.fault", 0, op_fault, 0),
	USER("recv.fault.late", 0, op_fault, 30),
	USER("t.recv", 0, op_blocked, 0),
	USER("inq", OP_LOOKS, op_inq, 0),
};

const int tuf_recv_ops_nr = ARRAY_SIZE(tuf_recv_ops);
