// SPDX-License-Identifier: GPL-2.0
/* A user's operations on a socket. */

#include <sys/sendfile.h>
#include <sys/uio.h>

#include "mpa.h"

/* ---- receive ---- */

/* Receive into buffers that op_many()'s records fill exactly. */
static int op_recv_vec(struct world *w, long len)
{
	static u8 buf[16 * 64];
	struct iovec iov[16];
	int i;

	for (i = 0; i < 16; i++) {
		iov[i].iov_base = buf + i * len;
		iov[i].iov_len = len;
	}
	return take_iov(w, iov, 16, buf, 16 * len, 0);
}

static int op_recv_oob(struct world *w, long arg)
{
	ssize_t n;
	u8 octet;

	(void)arg;
	n = recv(w->s, &octet, 1, MSG_OOB | MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

/* Read the error queue, which is empty. */
static int op_recv_err(struct world *w, long arg)
{
	ssize_t n;
	u8 octet;

	(void)arg;
	n = recv(w->s, &octet, 1, MSG_ERRQUEUE | MSG_DONTWAIT);
	if (n >= 0)
		violated("%zd octets from an empty error queue", n);
	return n < 0 ? -errno : n;
}

static int op_splice_out(struct world *w, long arg)
{
	static u8 buf[70000];
	int ends[2], err;
	ssize_t n;

	(void)arg;
	refresh(w);
	if (pipe(ends))
		return -errno;
	set_nonblock(w->s);
	n = splice(w->s, NULL, ends[1], NULL, 4096, SPLICE_F_NONBLOCK);
	err = errno;
	set_block(w->s);
	if (n > 0 && read(ends[0], buf, n) == n) {
		if (w->state == MPA_STATE_FULL) {
			/* The lengths in a batch are not reported. */
			if (w->batch)
				w->fuzzy = true;
			judge_unsaid(w, buf, n);
		} else {
			judge_plain(w, buf, n);
		}
	} else if (n < 0) {
		judge_reported(w, err, "recv");
	}
	close(ends[0]);
	close(ends[1]);
	return n < 0 ? -err : n;
}

/* ---- send ---- */

/* Note that @n octets were accepted. */
static void gave(struct world *w, ssize_t n, int how)
{
	bool records = w->state == MPA_STATE_FULL;

	if (n < 0) {
		judge_reported(w, errno, "send");
		return;
	}
	note_sent(w, records ? SEG_RECORDS : SEG_PLAIN, n);
	w->kept |= how & MSG_MORE;
	if (!records)
		return;
	if (how & MSG_MORE && !(how & MSG_EOR))
		w->open += n;
	else
		w->open = 0;
}

int give(struct world *w, u32 len, int how)
{
	int mask, err;
	ssize_t n;

	refresh(w);
	if (len > STREAM_MAX - w->sent_len)
		return -ENOBUFS;
	mask = poll_for(w->s, POLLOUT, 0);
	fill(w, len);
	n = send(w->s, w->sent + w->sent_len, len,
		 how | MSG_DONTWAIT | MSG_NOSIGNAL);
	err = errno;
	if (n < 0 && err == EAGAIN && mask & POLLOUT && !busy(w, JOB_ANY))
		violated("poll() says 0x%x, send() EAGAIN", mask);
	errno = err;
	gave(w, n, how);
	return n < 0 ? -err : n;
}

/* End a record, without octets. */
static int op_send_nothing(struct world *w, long arg)
{
	ssize_t n;

	(void)arg;
	refresh(w);
	n = send(w->s, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (!n)
		w->open = 0;
	else
		judge_reported(w, errno, "send");
	return n < 0 ? -errno : n;
}

static int op_send_oob(struct world *w, long arg)
{
	(void)arg;
	refresh(w);
	if (w->state == MPA_STATE_FULL) {
		ssize_t n = send(w->s, "o", 1, MSG_OOB | MSG_DONTWAIT |
				 MSG_NOSIGNAL);

		if (n >= 0)
			violated("MSG_OOB was accepted");
		return n < 0 ? -errno : n;
	}
	return give(w, 1, MSG_OOB);
}

static int op_send_cut(struct world *w, long segment)
{
	ssize_t n;

	refresh(w);
	n = send_cut(w, 3000, segment);
	gave(w, n, 0);
	return n < 0 ? -errno : n;
}

/* Send small pieces of a record, and send on another socket in between. */
static int op_pieces(struct world *w, long pieces)
{
	int n = 0;

	while (pieces-- && n >= 0) {
		n = give(w, 40, MSG_MORE);
		elsewhere();
	}
	return n;
}

static int op_sendfile(struct world *w, long at)
{
	ssize_t n;

	refresh(w);
	n = send_file(w, at, 4000);
	gave(w, n, 0);
	w->kept |= n > 0;
	return n < 0 ? -errno : n;
}

/* Call splice(2) from a pipe whose pages have a few octets each. */
static int op_splice_in(struct world *w, long size)
{
	int ends[2], i, flags = SPLICE_F_NONBLOCK;
	ssize_t n = 0;

	refresh(w);
	if (pipe(ends))
		return -errno;
	fill(w, 14 * size);
	for (i = 0; i < 14; i++) {
		struct iovec iov = { w->sent + w->sent_len + i * size, size };

		if (vmsplice(ends[1], &iov, 1, 0) != size)
			break;
	}
	set_nonblock(w->s);
	n = splice(ends[0], NULL, w->s, NULL, 14 * size, flags);
	if (n < 0)
		n = -errno;
	set_block(w->s);
	errno = n < 0 ? -n : 0;
	gave(w, n, 0);
	w->kept = true;
	close(ends[0]);
	close(ends[1]);
	return n;
}

/* ---- calls that wait ---- */

static u8 flood[600 << 10] = { [0 ... (600 << 10) - 1] = FLOOD };

static void start_noted(struct world *w, u8 role)
{
	w->begin = w->plain_got;
	w->peer.tx_position = w->wrote_len - w->begin;
	w->role = role;
	w->open = 0;
	w->state = MPA_STATE_STARTUP;
	if (role != MPA_ROLE_DIRECT)
		note_sent(w, SEG_FRAME, 0);
}

static int op_job(struct world *w, long kind)
{
	int err;

	refresh(w);
	err = job_begin(w, kind, w->s, flood, 200);
	if (!err && kind == JOB_START && w->attached && !started(w) &&
	    mpa_info(w->s).state == MPA_STATE_STARTUP)
		start_noted(w, MPA_ROLE_INITIATOR);
	return err;
}

/* Return: the number of octets passed to TCP to send. */
static u64 octets_taken(struct world *w)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);
	int left = 0;

	getsockopt(w->s, SOL_TCP, TCP_INFO, &info, &len);
	ioctl(w->s, SIOCOUTQ, &left);
	return info.tcpi_bytes_acked + left;
}

static int op_flood(struct world *w, long arg)
{
	(void)arg;
	refresh(w);
	if (started(w))
		return -EISCONN;
	if (w->job)
		return -EBUSY;
	note_sent(w, SEG_FLOOD, 0);
	w->flood = true;
	w->flood_from = octets_taken(w);
	return job_begin(w, JOB_SEND, w->s, flood, sizeof(flood));
}

/* ---- start and end ---- */

static int op_attach(struct world *w, long arg)
{
	(void)arg;
	if (mpa_attach(w->s))
		return -errno;
	w->attached = true;
	w->state = MPA_STATE_IDLE;
	return 0;
}

static int start_as(struct world *w, u8 role, u8 revision, u32 flags)
{
	struct mpa_start start = {
		.role = role, .revision = revision, .flags = flags,
		.timeout_ms = role == MPA_ROLE_DIRECT ? 0 : STARTUP_MS,
	};
	int before, err;
	u64 taken;

	refresh(w);
	before = w->state;
	taken = octets_taken(w) - w->flood_from + 1;
	if (role == MPA_ROLE_INITIATOR)
		set_nonblock(w->s);
	err = mpa_start_as(w->s, &start) ? -errno : 0;
	if (role == MPA_ROLE_INITIATOR)
		set_block(w->s);
	if (err && err != -EINPROGRESS) {
		judge_reported(w, -err, "MPA_START");
		return err;
	}
	if (before != MPA_STATE_IDLE && before != MPA_STATE_REJECTED) {
		violated("MPA_START worked in state %d", before);
		return err;
	}
	start_noted(w, role);
	if (busy(w, JOB_ANY) && w->job->kind == JOB_SEND && !w->job->framed)
		w->flood_most = taken;
	if (role == MPA_ROLE_DIRECT)
		judge_state(w);
	return 0;
}

static int op_start(struct world *w, long role)
{
	return start_as(w, role, 1, 0);
}

static int op_start_manual(struct world *w, long arg)
{
	(void)arg;
	return start_as(w, MPA_ROLE_RESPONDER, 1, MPA_START_MANUAL);
}

/* Call MPA_START with revision 0. */
static int op_start_old(struct world *w, long role)
{
	int err = start_as(w, role, 0, 0);

	w->old = !err || err == -EINPROGRESS;
	return err;
}

static int op_start_marked(struct world *w, long arg)
{
	int err = start_as(w, MPA_ROLE_DIRECT, 1,
			   MPA_START_MARKERS | MPA_START_TX_MARKERS);

	(void)arg;
	if (!err)
		w->peer.tx_markers = true;
	return err;
}

static int op_decide(struct world *w, long option)
{
	int err = decide(w->s, option);

	refresh(w);
	return -err;
}

static int op_shutdown(struct world *w, long how)
{
	refresh(w);
	if (shutdown(w->s, how))
		return -errno;
	w->shut |= how == SHUT_RDWR ? 3 : how == SHUT_RD ? 1 : 2;
	w->open = 0;
	return 0;
}

static int op_close(struct world *w, long arg)
{
	(void)arg;
	/* Nothing else would end the connection, for which a call waits. */
	if (busy(w, JOB_ANY) && w->raw < 0)
		shutdown(w->s, SHUT_RDWR);
	close(w->s);
	w->s = -1;
	return 0;
}

static int op_dup(struct world *w, long arg)
{
	int fd = dup(w->s);

	(void)arg;
	epoll_ctl(w->ep, EPOLL_CTL_DEL, w->s, NULL);
	epoll_ctl(w->ep_out, EPOLL_CTL_DEL, w->s, NULL);
	close(w->s);
	w->s = fd;
	watch(w);
	return 0;
}

static int op_disconnect(struct world *w, long arg)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	(void)arg;
	refresh(w);
	if (connect(w->s, &none, sizeof(none)))
		return -errno;
	w->ended = true;
	w->due = 0;
	return 0;
}

/* Connect to a peer that knows nothing of the previous connection. */
static int connect_anew(struct world *w)
{
	struct sockaddr_in addr = {};
	int l, err = 0;

	if (listen_make(&l, &addr) || listen(l, 1))
		return -errno;
	set_nonblock(w->s);
	if (connect(w->s, (struct sockaddr *)&addr, sizeof(addr)))
		err = -errno;
	set_block(w->s);
	settle(1);
	w->connects = err == -EINPROGRESS;
	if (!err || w->connects) {
		if (w->raw >= 0)
			hang_up(w->raw);
		w->raw = accept(l, NULL, NULL);
		set_nonblock(w->raw);
		setsockopt(w->raw, SOL_SOCKET, SO_OOBINLINE, &(int){ 1 },
			   sizeof(int));
		w->ended = false;
		w->fin = false;
		w->fuzzy = w->racing;
		w->shut = 0;
		w->wrote_len = 0;
		w->plain_got = 0;
		w->sent_len = 0;
		w->nsegs = 0;
		w->got_len = 0;
		w->begin = 0;
		w->rest_left = 0;
		w->ahead_nr = 0;
		w->framed = 0;
		w->open = 0;
		w->cur_valid = false;
		refresh(w);
	}
	close(l);
	return err;
}

static bool disconnected(const struct world *w)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);
	struct sockaddr_in to;
	socklen_t to_len = sizeof(to);

	getsockopt(w->s, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_state == 7 && !w->due &&
	       getpeername(w->s, (struct sockaddr *)&to, &to_len);
}

static int op_connect(struct world *w, long arg)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(9),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	(void)arg;
	if (disconnected(w))
		return connect_anew(w);
	set_nonblock(w->s);
	arg = connect(w->s, (struct sockaddr *)&to, sizeof(to)) ? errno : 0;
	if (!arg && !w->connects)
		violated("a connection was made twice");
	w->connects = false;
	set_block(w->s);
	judge_reported(w, arg, "connect");
	return -arg;
}

/* Disconnect and connect again. */
static int op_renew(struct world *w, long arg)
{
	return op_disconnect(w, arg) ?: connect_anew(w);
}

/* ---- options and queries ---- */

const struct sockopt options[] = {
	{ SOL_MPA, MPA_RECVINFO, 1 }, { SOL_MPA, MPA_RECV_BATCH, 1 },
	{ SOL_MPA, MPA_SEGMENT, 100 }, { SOL_MPA, 10, 1 },
	{ SOL_MPA, 77, 1 }, { SOL_SOCKET, SO_OOBINLINE, 1 },
	{ SOL_SOCKET, SO_RCVBUF, 2048 }, { SOL_SOCKET, SO_SNDBUF, 2048 },
	{ SOL_TCP, TCP_CORK, 1 }, { SOL_SOCKET, SO_RCVLOWAT, 100 },
	{ SOL_TCP, TCP_NODELAY, 0 }, { SOL_SOCKET, SO_PEEK_OFF, 3 },
	{ SOL_SOCKET, SO_BUSY_POLL, 10 },
	{ SOL_MPA, MPA_PLACE, 1 }, { SOL_MPA, MPA_PLACE, 0 },
};

static void note_place(struct world *w, bool on)
{
	refresh(w);
	if (on && w->state == MPA_STATE_FULL &&
	    !(w->info_markers & MPA_INFO_RX_MARKERS))
		violated("MPA_PLACE is on without markers");
	w->place = on;
	/* From here on each record has its position. */
	if (!setsockopt(w->s, SOL_MPA, MPA_RECVINFO, &(int){ 1 }, sizeof(int)))
		w->tells = true;
}

void option_is_set(struct world *w, const struct sockopt *option)
{
	if (option->level == SOL_MPA && option->name == MPA_RECV_BATCH)
		w->batch = true;
	if (option->level == SOL_MPA && option->name == MPA_PLACE)
		note_place(w, option->value);
	w->squeezed |= option->name == SO_RCVBUF && option->level == SOL_SOCKET;
	w->kept |= option->name == TCP_CORK && option->level == SOL_TCP;
	w->lowat |= option->name == SO_RCVLOWAT;
}

static int op_unknown(struct world *w, long nr)
{
	int err = op_option(w, nr);

	if (err && err != -ENOPROTOOPT)
		violated("an unknown option: %s", strerror(-err));
	return err;
}

/* Set SO_LINGER, so that close() resets the connection. */
static int op_linger(struct world *w, long arg)
{
	struct linger linger = { .l_onoff = 1 };

	(void)arg;
	return setsockopt(w->s, SOL_SOCKET, SO_LINGER, &linger,
			  sizeof(linger)) ? -errno : 0;
}

static int op_so_error(struct world *w, long arg)
{
	int err = so_error(w->s);

	(void)arg;
	judge_reported(w, err, "SO_ERROR");
	return err;
}

static int op_info(struct world *w, long arg)
{
	(void)arg;
	judge_state(w);
	mpa_info(w->s);
	mpa_peer(w->s);
	return 0;
}

static int op_inq(struct world *w, long arg)
{
	int n = 0;

	(void)arg;
	ioctl(w->s, SIOCINQ, &n);
	ioctl(w->s, SIOCOUTQ, &n);
	return 0;
}

static int op_poll(struct world *w, long arg)
{
	(void)arg;
	poll_for(w->s, POLLIN | POLLOUT, 0);
	return 0;
}

static int op_wait(struct world *w, long ms)
{
	(void)w;
	settle(ms);
	return 0;
}

const struct op user_ops[] = {
	USER("attach", 0, op_attach, 0),
	USER("start.i", 0, op_start, MPA_ROLE_INITIATOR),
	USER("start.r", 0, op_start, MPA_ROLE_RESPONDER),
	USER("start.d", 0, op_start, MPA_ROLE_DIRECT),
	USER("start.m", 0, op_start_manual, 0),
	USER("start.old", 0, op_start_old, MPA_ROLE_INITIATOR),
	USER("start.marked", 0, op_start_marked, 0),
	USER("accept", 0, op_decide, MPA_ACCEPT),
	USER("reject", 0, op_decide, MPA_REJECT),
	USER("shut.rd", 0, op_shutdown, SHUT_RD),
	USER("shut.wr", 0, op_shutdown, SHUT_WR),
	USER("shut.rdwr", 0, op_shutdown, SHUT_RDWR),
	USER("close", 0, op_close, 0),
	USER("dup", 0, op_dup, 0),
	USER("disconnect", 0, op_disconnect, 0),
	USER("connect", 0, op_connect, 0),
	USER("renew", 0, op_renew, 0),
	USER("kill", 0, op_kill, 0),
	USER("send", 0, op_send, 0),
	USER("more", 0, op_send, MSG_MORE),
	USER("more.long", 0, op_more_long, 3000),
	USER("eor", 0, op_send, MSG_MORE | MSG_EOR),
	USER("send.long", 0, op_send_long, 40000),
	USER("send.nothing", 0, op_send_nothing, 0),
	USER("send.oob", 0, op_send_oob, 0),
	USER("send.open", 0, op_send, MSG_FASTOPEN),
	USER("send.nocopy", 0, op_send, MSG_ZEROCOPY),
	USER("send.cut", 0, op_send_cut, 100),
	USER("pieces", 0, op_pieces, 30),
	USER("sendfile", 0, op_sendfile, 0),
	USER("sendfile.odd", 0, op_sendfile, 1),
	USER("splice.in", 0, op_splice_in, 64),
	USER("recv", 0, op_recv, 0),
	USER("recv.short", 0, op_recv_room, 10),
	USER("recv.peek", 0, op_recv, MSG_PEEK),
	USER("recv.trunc", 0, op_recv, MSG_TRUNC),
	USER("recv.all", 0, op_recv, MSG_WAITALL),
	USER("recv.oob", 0, op_recv_oob, 0),
	USER("recv.err", OP_LOOKS, op_recv_err, 0),
	USER("recv.vec", 0, op_recv_vec, 10),
	USER("splice.out", 0, op_splice_out, 0),
	USER("t.recv", 0, op_job, JOB_RECV),
	USER("t.send", 0, op_job, JOB_SEND),
	USER("t.sendfile", 0, op_job, JOB_SENDFILE),
	USER("t.start", 0, op_job, JOB_START),
	USER("t.flood", 0, op_flood, 0),
	USER("opt.info", 0, op_option, 0),
	USER("opt.batch", 0, op_option, 1),
	USER("opt.segment", 0, op_option, 2),
	USER("opt.zerocopy", 0, op_option, 3),
	USER("opt.unknown", OP_LOOKS, op_unknown, 4),
	USER("opt.inline", 0, op_option, 5),
	USER("opt.rcvbuf", 0, op_option, 6),
	USER("opt.sndbuf", 0, op_option, 7),
	USER("opt.cork", 0, op_option, 8),
	USER("opt.lowat", 0, op_option, 9),
	USER("opt.delay", 0, op_option, 10),
	USER("opt.peek", 0, op_option, 11),
	USER("opt.spin", 0, op_option, 12),
	USER("opt.place", 0, op_option, 13),
	USER("opt.place.off", 0, op_option, 14),
	USER("opt.linger", 0, op_linger, 0),
	USER("so_error", 0, op_so_error, 0),
	USER("info", OP_LOOKS, op_info, 0),
	USER("inq", OP_LOOKS, op_inq, 0),
	USER("poll", OP_LOOKS, op_poll, 0),
	USER("wait", OP_LOOKS, op_wait, 50),
	USER("wait.long", OP_LOOKS, op_wait, 2 * STARTUP_MS),
};

const int user_ops_nr = ARRAY_SIZE(user_ops);
