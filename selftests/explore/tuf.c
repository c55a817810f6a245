// SPDX-License-Identifier: GPL-2.0
/* A connection with TUF: set up in a start state, and judged at its end. */

#include "tuf.h"

static int lo_mtu_usual;

void world_say(const struct world *w, char *text, size_t room)
{
	snprintf(text, room, "tx %u, rx %u, poll 0x%x, sent %u, got %u, wrote %u, read %u",
		 span_now(w)->mode, w->rx_mode, w->mask,
		 w->sent_len, w->got_len, w->wrote_len, w->rx_at);
}

void ops_collect(void)
{
	ops_add(tuf_send_ops, tuf_send_ops_nr);
	ops_add(tuf_recv_ops, tuf_recv_ops_nr);
	ops_add(tuf_set_ops, tuf_set_ops_nr);
	ops_add(tuf_peer_ops, tuf_peer_ops_nr);
}

int job_other(struct job *job)
{
	(void)job;
	return 0;
}

void job_over(struct world *w, struct job *job)
{
	if (job->kind == JOB_SEND)
		gave(w, job->ret, job->err, 0);
	else if (job->ret <= 0)
		judge_end(w, job->ret, job->err);
	else if (job->framed)
		judge_octets(w, job->buf, job->ret, false, HOW_NO_EOR);
	else
		judge_plain(w, job->buf, job->ret, 0);
}

/* ---- start states ---- */

int lo_mtu(int mtu)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_mtu = mtu };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), err;

	err = ioctl(fd, mtu ? SIOCSIFMTU : SIOCGIFMTU, &lo) ? -errno : 0;
	close(fd);
	return mtu ? err : lo.ifr_mtu;
}

int pair_attach(struct world *w)
{
	return setsockopt(w->s, SOL_TCP, TCP_ULP, "tuf", sizeof("tuf"));
}

static int by_way_full(struct world *w, long names)
{
	u8 octet;

	/* A full buffer is emptied only for a call that needs a record. */
	return by_way_small(w, (long)"rx.align") ?:
	       recv(w->s, &octet, 1, MSG_DONTWAIT) >= 0 ? -1 :
	       way(w, (const char *)names);
}

const struct start starts[] = {
	WAY("plain", ""),
	WAY("tx", "tx.align"),
	WAY("rx", "rx.align"),
	WAY("both", "rx.align tx.align.own"),
	WAY("markers", "rx.markers tx.markers"),
	WAY("segments", "tx.segments"),
	WAY("gap", "rx.align place peer.ahead"),
	WAY("gap.markers", "rx.markers place peer.ahead"),
	WAY("reading", "t.recv"),
	WAY("reading.rx", "rx.align t.recv"),
	WAY("writing", "t.send"),
	WAY("writing.tx", "tx.align t.send"),
	WAY("open", "tx.align more"),
	WAY("held", "tx.align eor"),
	WAY("delayed", "tx.align delay send send"),
	WAY("corked", "tx.align cork send"),
	WAY("cut", "tx.align oversize mtu"),
	WAY("half", "rx.align peer.fpdu recv.short"),
	WAY("begun", "rx.align peer.half"),
	WAY("batch", "rx.align batch peer.many"),
	{ "small", false, by_way_full, (long)"peer.long" },
};

const int starts_nr = ARRAY_SIZE(starts);

/* ---- the end ---- */

static void receiving_continues(struct world *w)
{
	enum verdict verdict;

	if (w->failed)
		return;
	if (w->rx_mode ? peer_record(w, 40) : peer_text(w, 20))
		peer_say(w, NULL, 0, 0);
	settle(1);
	judge_edge(w, true);
	take_all(w);
	if (!w->rx_mode) {
		if (!violation[0] && w->rx_at != w->wrote_len)
			violated("plain octets were lost");
		return;
	}
	fill_up(w, 60);
	if (w->failed || violation[0])
		return;
	verdict = next_record(w);
	if (verdict == WHOLE)
		violated("a record was lost");
	else if (verdict == BAD || verdict == BAD_PART)
		violated("the stream is not valid, and recv() does not say so");
}

static void sending_continues(struct world *w)
{
	int n;

	room_comes(w);
	n = give(w, 16, 0);
	if (n == -EMSGSIZE && !violation[0])
		n = give(w, w->open ? 0 : 16, 0);
	if (n < 0)
		violated("send() fails on a good connection: %s", strerror(-n));
	all_comes(w);
}

static void judge_good(struct world *w)
{
	judge_info(w);
	receiving_continues(w);
	if (!violation[0])
		sending_continues(w);
	if (!violation[0])
		judge_info(w);
}

static void judge_end_of_stream(struct world *w)
{
	int n = 1, tries;

	if (w->s < 0)
		return;
	for (tries = 0; tries < 200 && n > 0; tries++)
		n = take(w, 4096, 0);
	if (w->fin && !w->ended && !w->shut && !violation[0] && n == -EAGAIN &&
	    !w->batch)
		violated("the stream has ended, and recv() does not say so");
}

/* Check that a good connection continues, and a bad one ends. */
void judge_last(struct world *w)
{
	/* By then a held batch was sent. */
	settle(w->kept ? 60 : 1);
	judge_edge(w, true);
	peer_read(w);
	settle(1);
	judge_job(w);
	judge_due(w);
	if (violation[0])
		return;
	if (alive(w)) {
		judge_good(w);
	} else {
		judge_end_of_stream(w);
		/* shutdown(2) and close(2) lose no octets. */
		if (!w->ended && w->raw >= 0 && !busy(w, JOB_SEND))
			all_comes(w);
		else
			judge_sent(w, false);
	}
	if (!violation[0])
		judge_wire(w);
}

void world_over(struct world *w)
{
	if (w->mtu)
		lo_mtu(lo_mtu_usual);
	wire_read(w);
}

int world_begin(void)
{
	lo_mtu_usual = lo_mtu(0);
	return connections_begin() ?: wire_open();
}
