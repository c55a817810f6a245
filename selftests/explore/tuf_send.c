// SPDX-License-Identifier: GPL-2.0
/* A user's operations for sending. */

#include <sys/mman.h>

#include "tuf.h"

struct tuf_info info_now(const struct world *w)
{
	struct tuf_info info = {};
	socklen_t len = sizeof(info);

	getsockopt(w->s, SOL_MPA, TUF_INFO, &info, &len);
	return info;
}

/* ---- what is accepted ---- */

/* Note that a ULPDU ends with the last accepted octet. */
static void ulpdu_ends(struct world *w)
{
	const struct span *span = span_now(w);
	u32 first = w->sent_len - w->open;

	w->mark[w->sent_len - 1] |= MARK_END;
	if (w->packing_off && span->mode == TUF_ALIGN)
		w->mark[first] |= MARK_ALONE;
	if (span->mode == TUF_SEGMENTS)
		w->mark[first] |= MARK_SEGMENT;
	w->tx_octets += w->open;
	w->ulpdus++;
	w->open = 0;
}

/* Note that @n octets of @w->sent were accepted. */
void gave(struct world *w, ssize_t n, int err, int how)
{
	if (n < 0) {
		judge_reported(w, err, "send");
		return;
	}
	if (n)
		memset(w->mark + w->sent_len, 0, n);
	w->sent_len += n;
	w->kept |= !!(how & MSG_MORE);
	if (span_now(w)->mode == TUF_OFF)
		return;
	w->open += n;
	if ((!(how & MSG_MORE) || how & MSG_EOR) && w->open)
		ulpdu_ends(w);
}

/*
 * Return: the longest ULPDU that must be accepted. @more: set to the number of further
 * octets that may be accepted.
 */
static u32 longest(const struct world *w, const struct tuf_info *info, u32 *more)
{
	u8 mode = info->tx_mode;

	*more = mode == TUF_MARKERS ? 600 : 0;
	if (mode == TUF_MARKERS)
		return info->mulpdu;
	if (w->oversize) {
		*more = TUF_HEADER_LEN;
		return TUF_ULPDU_MAX;
	}
	if (mode == TUF_ALIGN && info->emss < TUF_EMERGENCY &&
	    info->mulpdu < TUF_EMERGENCY)
		return TUF_EMERGENCY;
	return info->mulpdu;
}

static void judge_length(struct world *w, const struct tuf_info *info, u32 len,
			 ssize_t n, int err)
{
	u32 total = w->open + len, more, most;

	if (info->tx_mode == TUF_OFF)
		return;
	most = longest(w, info, &more);
	if (n < 0 && err == EMSGSIZE) {
		if (w->reports_emss && w->known != info->mulpdu)
			w->known = info->mulpdu;
		else if (total && total <= most)
			violated("a ULPDU of %u octets is EMSGSIZE, %u are good",
				 total, most);
	} else if (n >= 0) {
		if (!total)
			violated("a ULPDU without octets is accepted");
		else if (total > most + more && len)
			violated("a ULPDU of %u octets is accepted, %u are good",
				 total, most);
	}
}

static void judge_errno(struct world *w, int err, bool message)
{
	switch (err) {
	case EAGAIN:
		break;
	case EMSGSIZE:
		if (!message)
			violated("a plain send() is EMSGSIZE");
		break;
	case EPIPE:
		if (!(w->shut & 2) && !w->ended)
			violated("EPIPE, and nothing has ended");
		break;
	default:
		if (err != w->due && !(w->ended && err == ENOTCONN))
			violated("send() fails: %s", strerror(err));
	}
}

static void gave_nothing(struct world *w, int err, bool message)
{
	judge_errno(w, err, message);
	gave(w, -1, err, 0);
}

/* Send octets that are already in @w->sent. */
static int offer(struct world *w, u32 len, int how)
{
	int mask = poll_for(w->s, POLLOUT, 0), err;
	struct tuf_info info = info_now(w);
	ssize_t n;

	n = send(w->s, w->sent + w->sent_len, len,
		 how | MSG_DONTWAIT | MSG_NOSIGNAL);
	err = errno;
	if (n < 0 && err == EAGAIN && mask & POLLOUT)
		violated("poll() says 0x%x, send() EAGAIN", mask);
	if (n < 0)
		judge_errno(w, err, info.tx_mode);
	else if (info.tx_mode && n != len)
		violated("%zd of %u octets of a ULPDU are accepted", n, len);
	judge_length(w, &info, len, n, err);
	gave(w, n, err, how);
	return n < 0 ? -err : n;
}

static int room_for(const struct world *w, u32 len)
{
	if (busy(w, JOB_SEND))
		return -EALREADY;
	return len > STREAM_MAX - w->sent_len ? -ENOBUFS : 0;
}

int give(struct world *w, u32 len, int how)
{
	int err = room_for(w, len);

	if (err)
		return err;
	fill(w, len);
	return offer(w, len, how);
}

/* ---- operations ---- */

/* Send several ULPDUs that may share an FPDU. */
static int op_burst(struct world *w, long nr)
{
	int n = 0;

	while (nr-- && n >= 0)
		n = give(w, 50, MSG_MORE | MSG_EOR);
	return n < 0 ? n : give(w, 50, 0);
}

/* Send octets that look like a full segment's header at every eighth place. */
static int op_looks(struct world *w, long len)
{
	struct tuf_info info = info_now(w);
	u32 i, length = info.emss - TUF_HEADER_LEN;
	int err = room_for(w, len);
	u8 unit[TUF_HEADER_LEN];

	if (err)
		return err;
	unit[0] = length >> 8;
	unit[1] = length;
	memcpy(unit + 2, span_now(w)->key, TUF_KEY_LEN);
	for (i = 0; i < len; i++)
		w->sent[w->sent_len + i] = unit[i % sizeof(unit)];
	return offer(w, len, 0);
}

/* Note that octets from @at on may be cut into any number of ULPDUs. */
static void cut_anywhere(struct world *w, u32 at)
{
	u32 i;

	w->mark[at] &= ~(MARK_ALONE | MARK_SEGMENT);
	for (i = at; i < w->sent_len && span_now(w)->mode; i++)
		w->mark[i] |= MARK_CUT;
	w->ulpdus = info_now(w).tx_ulpdus;
}

/* Make one send, which is cut into many ULPDUs. */
static int op_segment(struct world *w, long segment)
{
	u32 open = w->open, from = w->sent_len;
	int err = room_for(w, 1500);
	ssize_t n;

	if (err)
		return err;
	if (span_now(w)->mode == TUF_OFF)
		return -EINVAL;
	n = send_cut(w, 1500, segment);
	err = errno;
	if (n < 0)
		judge_errno(w, err, true);
	gave(w, n, err, 0);
	if (n > 0)
		cut_anywhere(w, from - open);
	return n < 0 ? -err : n;
}

/* Send octets whose second half cannot be read. */
static int op_fault(struct world *w, long len)
{
	static u8 *pages;
	ssize_t n;

	if (!pages) {
		pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mprotect(pages + 4096, 4096, PROT_NONE);
	}
	if (span_now(w)->mode == TUF_OFF || busy(w, JOB_SEND))
		return -EINVAL;
	n = send(w->s, pages + 4096 - len / 2, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0)
		violated("octets that cannot be read are accepted");
	else if (errno != EFAULT)
		gave_nothing(w, errno, true);
	return n < 0 ? -errno : n;
}

static int op_refused(struct world *w, long how)
{
	ssize_t n;

	if (span_now(w)->mode == TUF_OFF)
		return -EINVAL;
	n = send(w->s, "octets", 6, how | MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0 || errno != EOPNOTSUPP)
		violated("flags 0x%lx are not EOPNOTSUPP", how);
	return n < 0 ? -errno : n;
}

static int op_sendfile(struct world *w, long len)
{
	u32 from = w->sent_len, open = w->open;
	int err = room_for(w, len);
	ssize_t n;

	if (err)
		return err;
	n = send_file(w, 0, len);
	err = errno;
	if (n < 0)
		judge_errno(w, err, span_now(w)->mode);
	gave(w, n, err, 0);
	w->kept |= n > 0;
	if (n > 0)
		cut_anywhere(w, from - open);
	return n < 0 ? -err : n;
}

/* Start a call that waits for space. */
static int op_blocked(struct world *w, long len)
{
	int n = 0, tries;

	if (w->job || w->open)
		return -EINVAL;
	setsockopt(w->s, SOL_SOCKET, SO_SNDBUF, &(int){ 4608 }, sizeof(int));
	for (tries = 0; tries < 400 && n >= 0; tries++)
		n = give(w, 450, 0);
	if (n != -EAGAIN)
		return n < 0 ? n : -ENOBUFS;
	fill(w, len);
	return job_begin(w, JOB_SEND, w->s, w->sent + w->sent_len, len);
}

const struct op tuf_send_ops[] = {
	USER("send", 0, op_send, 0),
	USER("send.1", 0, op_send_long, 1),
	USER("send.0", 0, op_send_long, 0),
	USER("send.long", 0, op_send_long, 2000),
	USER("send.huge", 0, op_send_long, 65600),
	USER("send.burst", 0, op_burst, 5),
	USER("send.looks", 0, op_looks, 3000),
	USER("send.fault", 0, op_fault, 100),
	USER("send.oob", OP_LOOKS, op_refused, MSG_OOB),
	USER("send.segment", 0, op_segment, 100),
	USER("send.fill", 0, op_segment, 0),
	USER("more", 0, op_send, MSG_MORE),
	USER("more.long", 0, op_more_long, 3000),
	USER("eor", 0, op_send, MSG_MORE | MSG_EOR),
	USER("sendfile", 0, op_sendfile, 4000),
	USER("t.send", 0, op_blocked, 400),
};

const int tuf_send_ops_nr = ARRAY_SIZE(tuf_send_ops);
