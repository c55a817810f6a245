// SPDX-License-Identifier: GPL-2.0
/* A user's operations for receiving. */

#include <sys/mman.h>

#include "tuf.h"

/* Receive into a buffer that cannot be written after @good octets. */
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
		violated("recv() has written beyond a page");
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
	/* Continue only if the call will sleep. */
	if (mask || w->batch || w->place)
		return -EINVAL;
	return job_begin(w, JOB_RECV, w->s, NULL, 0);
}

static int op_inq(struct world *w, long arg)
{
	enum verdict verdict;
	int n = -1, is;

	(void)arg;
	if (ioctl(w->s, SIOCINQ, &n))
		return -errno;
	if (!all_here(w) || w->ended || w->ahead_nr || w->shut ||
	    w->fin || busy(w, JOB_RECV))
		return 0;
	verdict = w->rx_mode ? next_record(w) : NOTHING;
	if (w->rx_mode == TUF_OFF)
		is = w->wrote_len - w->rx_at;
	else
		is = verdict == WHOLE ? w->cur_len - w->cur_read : 0;
	/* For an invalid FPDU it may return the header's length. */
	if (is != n && verdict != BAD && verdict != BAD_PART && !w->failed && !w->squeezed)
		violated("%d octets are here, SIOCINQ says %d", is, n);
	return 0;
}

const struct op tuf_recv_ops[] = {
	USER("recv", 0, op_recv, 0),
	USER("recv.short", 0, op_recv_room, 10),
	USER("recv.peek", OP_LOOKS, op_recv, MSG_PEEK),
	USER("recv.trunc", 0, op_recv, MSG_TRUNC),
	USER("recv.peek.trunc", OP_LOOKS, op_recv, MSG_PEEK | MSG_TRUNC),
	USER("recv.fault", 0, op_fault, 0),
	USER("recv.fault.late", 0, op_fault, 30),
	USER("t.recv", 0, op_blocked, 0),
	USER("inq", OP_LOOKS, op_inq, 0),
};

const int tuf_recv_ops_nr = ARRAY_SIZE(tuf_recv_ops);
