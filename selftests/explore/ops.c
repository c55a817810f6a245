// SPDX-License-Identifier: GPL-2.0
/* A user's operations on a socket with either ULP. */

#include <sys/sendfile.h>

#include WORLD_H

/* ---- receive ---- */

/* Return: MPA_RECVINFO, or NULL. */
static const struct mpa_recvinfo *info_of(struct msghdr *msg)
{
	struct cmsghdr *cmsg;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg))
		if (cmsg->cmsg_level == SOL_MPA &&
		    cmsg->cmsg_type == MPA_RECVINFO)
			return (const struct mpa_recvinfo *)CMSG_DATA(cmsg);
	return NULL;
}

/* Judge the records of a batch, one after another; the first one is at @position. */
static void judge_batch(struct world *w, struct msghdr *msg, u64 position,
			bool placed, const u8 *buf, u32 n)
{
	struct cmsghdr *cmsg;
	u32 i, nr, at = 0;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		const u32 *lengths = (const u32 *)CMSG_DATA(cmsg);

		if (cmsg->cmsg_level != SOL_MPA ||
		    cmsg->cmsg_type != MPA_RECV_BATCH)
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

static void got_octets(struct world *w, struct msghdr *msg, const u8 *buf, u32 n,
		       int how)
{
	const struct mpa_recvinfo *info = info_of(msg);
	bool placed = info && info->flags & MPA_RECVINFO_PLACED;
	const u8 *seen = how & MSG_TRUNC ? NULL : buf;

	if (info && !placed)
		judge_ordered(w, info);
	if (w->batch && !(how & (MSG_PEEK | MSG_TRUNC)))
		judge_batch(w, msg, info ? info->position : 0, placed, buf, n);
	else if (placed)
		judge_placed(w, info->position, seen, n, how);
	else
		judge_octets(w, seen, n, msg->msg_flags & MSG_EOR, how);
}

static void got_nothing(struct world *w, ssize_t n, int err, u32 room, int how)
{
	if (n && err == EAGAIN && !busy(w, JOB_RECV))
		judge_nothing_placed(w, room, how & MSG_PEEK);
	judge_end(w, n, err);
}

static void judge_poll(struct world *w, int mask, ssize_t n, int err, u32 room)
{
	if (busy(w, JOB_RECV) || poll_unsure(w))
		return;
	if (n < 0 && err == EAGAIN && mask & POLLIN &&
	    (!asked(w) || mask & POLLHUP) && !ahead_too_long(w, room))
		violated("poll() says 0x%x, recv() EAGAIN", mask);
	if (n >= 0 && !(mask & POLLIN))
		violated("poll() says 0x%x, recv() %zd octets", mask, n);
}

int take_iov(struct world *w, struct iovec *iov, int nr, u8 *buf, u32 room,
	     int how)
{
	static u64 control[200];
	struct msghdr msg = {
		.msg_iov = iov, .msg_iovlen = nr, .msg_control = control,
		.msg_controllen = w->batch || w->tells ? sizeof(control) : 0,
	};
	int mask, err;
	ssize_t n;
	u32 i;

	refresh(w);
	mask = poll_for(w->s, POLLIN, 0);
	memset(buf, 0xaa, room);
	n = recvmsg(w->s, &msg, how | MSG_DONTWAIT);
	err = errno;
	judge_poll(w, mask, n, err, room);
	for (i = 0; n < 0 && i < room && !violation[0]; i++)
		if (buf[i] != 0xaa)
			violated("octets of nothing good in the buffer");
	if (!rx_framed(w))
		judge_unframed(w, buf, n, err, how);
	else if (n > 0)
		got_octets(w, &msg, buf, n, how);
	else
		got_nothing(w, n, err, room, how);
	return n < 0 ? -err : n;
}

int take(struct world *w, u32 room, int how)
{
	static u8 buf[70000];
	struct iovec iov = { buf, room };

	return take_iov(w, &iov, 1, buf, room, how);
}

int op_recv(struct world *w, long how)
{
	return take(w, 4096, how);
}

int op_recv_room(struct world *w, long room)
{
	return take(w, room, 0);
}

/* ---- send ---- */

/* Choose the octets to send next. */
void fill(struct world *w, u32 len)
{
	u32 i;

	for (i = 0; i < len; i++)
		w->sent[w->sent_len + i] = (w->sent_len + i) * 7 + 1;
}

int op_send(struct world *w, long how)
{
	return give(w, 200, how);
}

int op_send_long(struct world *w, long len)
{
	return give(w, len, 0);
}

int op_more_long(struct world *w, long len)
{
	return give(w, len, MSG_MORE);
}

int op_option(struct world *w, long nr)
{
	const struct sockopt *option = options + nr;

	if (setsockopt(w->s, option->level, option->name, &option->value,
		       sizeof(int)))
		return -errno;
	option_is_set(w, option);
	return 0;
}

/* Make one large send, which becomes many records. */
ssize_t send_cut(struct world *w, u32 len, int segment)
{
	struct iovec iov = { w->sent + w->sent_len, len };
	char control[CMSG_SPACE(sizeof(int))] = "";
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	fill(w, len);
	cmsg->cmsg_level = SOL_MPA;
	cmsg->cmsg_type = MPA_SEGMENT;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(cmsg) = segment;
	return sendmsg(w->s, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t send_file(struct world *w, off_t off, u32 len)
{
	ssize_t n;
	int err;

	set_nonblock(w->s);
	n = sendfile(w->s, file_fd, &off, len);
	err = errno;
	set_block(w->s);
	errno = err;
	if (n > 0)
		memset(w->sent + w->sent_len, 0xe5, n);
	return n;
}
