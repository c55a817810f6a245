// SPDX-License-Identifier: GPL-2.0
/* A connection of TUF: made in one of the start states, judged at its end. */

#include <sys/mman.h>

#include "tuf.h"

/* How long a call may sleep when its connection has ended, in virtual time. */
#define BOUND_MS	30000
#define EVENTS		(POLLIN | POLLOUT | POLLRDHUP | POLLPRI)

u16 tuf_port;
int file_fd;			/* a file to send */
static int listener, epoll_in, epoll_out, lo_mtu_usual;
static struct sockaddr_in listener_addr;
static struct world world;

struct world *world_of(void)
{
	return &world;
}

void world_say(const struct world *w, char *text, size_t room)
{
	snprintf(text, room, "tx %u, rx %u, poll 0x%x, sent %u, got %u, wrote %u, read %u",
		 w->spans[w->nspans - 1].mode, w->rx_mode, w->mask,
		 w->sent_len, w->got_len, w->wrote_len, w->rx_at);
}

/* ---- a call in a thread ---- */

static void *job_main(void *arg)
{
	struct job *job = arg;

	if (job->kind == JOB_RECV)
		job->ret = recv(job->fd, job->buf, sizeof(job->buf), 0);
	else
		job->ret = send(job->fd, job->buf, job->len, MSG_NOSIGNAL);
	job->err = errno;
	__atomic_store_n(&job->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* The call is under way when this returns. */
int job_begin(struct world *w, enum job_kind kind, u32 len)
{
	static struct job job;

	if (w->job)
		return -EBUSY;
	memset(&job, 0, sizeof(job));
	job.kind = kind;
	job.fd = w->s;
	job.len = len;
	job.mode = kind == JOB_RECV ? w->rx_mode : span_now(w)->mode;
	memcpy(job.buf, w->sent + w->sent_len, len);
	if (pthread_create(&job.thread, NULL, job_main, &job))
		return -EAGAIN;
	w->job = &job;
	settle(1);
	return 0;
}

/* Whether it has come to its end, in time. */
bool job_wait(struct world *w, int ms)
{
	int step;

	for (step = 1; ms > 0; ms -= step, step *= 2) {
		if (__atomic_load_n(&w->job->done, __ATOMIC_ACQUIRE))
			return true;
		settle(step);
	}
	return w->job->done;
}

static void job_over(struct world *w, struct job *job)
{
	job->noted = true;
	if (job->kind == JOB_SEND) {
		gave(w, job->ret, job->err, 0);
		return;
	}
	if (job->ret <= 0)
		judge_end(w, job->ret, job->err);
	else if (job->mode)
		judge_octets(w, job->buf, job->ret, false, HOW_NO_EOR);
	else
		judge_plain(w, job->buf, job->ret, 0);
}

static int mask_of(const struct world *w)
{
	return poll_for(w->s, EVENTS, 0);
}

/* A blocked call must not sleep where it would not have begun to. */
void judge_job(struct world *w)
{
	struct job *job = w->job;
	int on;

	if (!job || job->noted)
		return;
	on = POLLERR | POLLHUP | (job->kind == JOB_RECV ? POLLIN : POLLOUT);
	if (!__atomic_load_n(&job->done, __ATOMIC_ACQUIRE) && w->s >= 0 &&
	    mask_of(w) & on && !job_wait(w, 20) && mask_of(w) & on)
		violated("%s sleeps while poll() says 0x%x",
			 job->kind == JOB_RECV ? "recv()" : "send()", mask_of(w));
	if (__atomic_load_n(&job->done, __ATOMIC_ACQUIRE))
		job_over(w, job);
}

/* ---- who is woken ---- */

static u32 woken_by(const struct world *w, int ep)
{
	struct epoll_event events[8];
	int i, n = epoll_wait(ep, events, ARRAY_SIZE(events), 0);
	u32 came = 0;

	for (i = 0; i < n; i++)
		if (events[i].data.fd == w->s)
			came |= events[i].events;
	return came;
}

/* What poll() says and did not say before must have woken epoll. */
void judge_edge(struct world *w, bool woken)
{
	const u32 out = POLLOUT, both = POLLERR | POLLHUP;
	u32 mask, new, in_came, out_came;

	if (w->s < 0)
		return;
	mask = mask_of(w);
	new = mask & ~w->mask;
	in_came = woken_by(w, w->ep);
	out_came = woken_by(w, w->ep_out);
	if (woken && new & ~out & ~in_came)
		violated("poll() says 0x%x, before 0x%x, and who reads was not woken",
			 mask, w->mask);
	if (woken && new & (out | both) & ~out_came)
		violated("poll() says 0x%x, before 0x%x, and who writes was not woken",
			 mask, w->mask);
	w->mask = mask;
}

static void watch(struct world *w)
{
	struct epoll_event in = {
		.events = EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLET,
		.data.fd = w->s,
	};
	struct epoll_event out = {
		.events = EPOLLOUT | EPOLLET, .data.fd = w->s,
	};

	w->ep = epoll_in;
	w->ep_out = epoll_out;
	epoll_ctl(epoll_in, EPOLL_CTL_ADD, w->s, &in);
	epoll_ctl(epoll_out, EPOLL_CTL_ADD, w->s, &out);
	judge_edge(w, false);
}

/* ---- operations ---- */

void ops_collect(void)
{
	ops_add(tuf_send_ops, tuf_send_ops_nr);
	ops_add(tuf_recv_ops, tuf_recv_ops_nr);
	ops_add(tuf_set_ops, tuf_set_ops_nr);
	ops_add(tuf_peer_ops, tuf_peer_ops_nr);
}

bool op_suits(const struct start *start, const struct op *op)
{
	(void)start;
	(void)op;
	return true;
}

bool op_can(const struct world *w, const struct op *op)
{
	return op->actor == ACTOR_S ? w->s >= 0 : w->raw >= 0;
}

/* One operation, what comes of it, and who learns of that. */
int step(struct world *w, const struct op *op)
{
	int ret = op->fn(w, op->arg);

	if (op->actor == ACTOR_S)
		judge_edge(w, false);
	settle(1);
	judge_edge(w, true);
	judge_job(w);
	wire_read(w);
	return ret;
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

static int pair_make(struct world *w, int rcvbuf)
{
	w->raw = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(w->raw, SOL_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	if (rcvbuf)
		setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &rcvbuf,
			   sizeof(rcvbuf));
	if (connect(w->raw, (struct sockaddr *)&listener_addr,
		    sizeof(listener_addr)))
		return -1;
	set_nonblock(w->raw);
	w->s = accept(listener, NULL, NULL);
	if (rcvbuf)
		setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &(int){ 131072 },
			   sizeof(int));
	wire_read(w);
	return w->s < 0 ? -1 : setsockopt(w->s, SOL_TCP, TCP_ULP, "tuf",
					  sizeof("tuf"));
}

/* A state is where some operations lead to, all of which must succeed. */
static int way(struct world *w, const char *names)
{
	char text[200], *name, *rest = text;

	snprintf(text, sizeof(text), "%s", names);
	while ((name = strsep(&rest, " ")))
		if (*name && step(w, op_named(name)) < 0)
			return -1;
	return 0;
}

static int by_way(struct world *w, long names)
{
	if (pair_make(w, 0))
		return -1;
	watch(w);
	return way(w, (const char *)names);
}

static int by_way_small(struct world *w, long names)
{
	u8 octet;

	w->squeezed = true;
	if (pair_make(w, 4096))
		return -1;
	watch(w);
	if (way(w, "rx.align"))
		return -1;
	/* A full buffer is only emptied for a call that asks for a record. */
	if (recv(w->s, &octet, 1, MSG_DONTWAIT) >= 0)
		return -1;
	return way(w, (const char *)names);
}

#define WAY(name, ops)	{ name, false, by_way, (long)(ops) }

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
	{ "small", false, by_way_small, (long)"peer.long" },
};

const int starts_nr = ARRAY_SIZE(starts);

int world_make(struct world *w, const struct start *start)
{
	memset(w, 0, offsetof(struct world, cur));
	w->s = -1;
	w->raw = -1;
	w->nspans = 1;
	return start->make(w, start->arg);
}

/* ---- the end ---- */

static bool alive(const struct world *w)
{
	return w->s >= 0 && w->raw >= 0 && !w->ended && !w->fin && !w->shut &&
	       !w->due && !(w->job && !w->job->noted);
}

/* Somebody is told of an error, if nobody was. */
static void judge_due(struct world *w)
{
	int tries, n = 1;

	if (!w->due || w->times_told || w->due_maybe || w->s < 0 || w->failed)
		return;
	if (!(mask_of(w) & POLLERR))
		violated("%s is not told: no POLLERR", strerror(w->due));
	for (tries = 0; tries < 40 && n > 0 && !w->times_told; tries++)
		n = take(w, 4096, 0);
	if (!w->times_told)
		judge_told(w, so_error(w->s), "SO_ERROR");
	if (!w->times_told)
		violated("%s reached nobody", strerror(w->due));
}

/* All that was accepted comes, at once or when a timer of TCP's is over. */
static void all_comes(struct world *w)
{
	int ms;

	for (ms = 1; ms < 2000; ms *= 4) {
		settle(ms);
		peer_read(w);
		if (!judge_sent(w, false) || violation[0])
			break;
	}
	judge_sent(w, true);
}

static bool all_read(struct world *w)
{
	pass_placed(w);
	return !w->cur_valid && w->rx_at == w->wrote_len && !w->rest_left;
}

/* And what comes when there is room for it. */
static void take_all(struct world *w)
{
	int n, quiet = 0, tries;

	for (tries = 0; tries < 300 && quiet < 8 && !violation[0]; tries++) {
		if (w->rest_left)
			peer_say(w, NULL, 0);
		n = take(w, 4096, 0);
		if (!n || (n < 0 && n != -EAGAIN) || all_read(w))
			break;
		if (n < 0)
			settle(4 << quiet++);
		else
			quiet = 0;
	}
}

/* Octets that are no FPDU are one all the same, as long as they say. */
static void fill_up(struct world *w)
{
	static const u8 zeros[2000];
	int tries;

	for (tries = 0; tries < 60 && !w->failed && !violation[0]; tries++) {
		if (next_record(w) == NOTHING)
			break;
		peer_say(w, zeros, sizeof(zeros));
		settle(1);
		take_all(w);
	}
}

static void receiving_goes_on(struct world *w)
{
	enum verdict verdict;

	if (w->failed)
		return;
	if (w->rx_mode ? peer_record(w, 40) : peer_text(w, 20))
		peer_say(w, NULL, 0);
	settle(1);
	judge_edge(w, true);
	take_all(w);
	if (!w->rx_mode) {
		if (!violation[0] && w->rx_at != w->wrote_len)
			violated("plain octets were lost");
		return;
	}
	verdict = next_record(w);
	if (verdict == PART || verdict == BAD_PART)
		fill_up(w);
	if (w->failed || violation[0])
		return;
	verdict = next_record(w);
	if (verdict == WHOLE)
		violated("a record was lost");
	else if (verdict == BAD || verdict == BAD_PART)
		violated("the stream is not valid, and recv() does not say so");
}

/* What the peer has read leaves room, at once or a little later. */
static void room_comes(struct world *w)
{
	int ms;

	for (ms = 1; ms < 2000; ms *= 4) {
		if (mask_of(w) & POLLOUT)
			return;
		settle(ms);
		peer_read(w);
	}
	violated("no POLLOUT, and nobody will make room");
}

static void sending_goes_on(struct world *w)
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
	receiving_goes_on(w);
	if (!violation[0])
		sending_goes_on(w);
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

/* The connection goes on if it is good, and ends if it is not. */
void judge_last(struct world *w)
{
	/* What is kept for a batch goes out by then. */
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
		/* A user who has shut down or closed has lost nothing. */
		if (!w->ended && w->raw >= 0 && !busy(w, JOB_SEND))
			all_comes(w);
		else
			judge_sent(w, false);
	}
	if (!violation[0])
		judge_wire(w);
}

static void world_join(struct world *w)
{
	if (!w->job)
		return;
	if (!job_wait(w, BOUND_MS)) {
		violated("a call still sleeps after the end");
		return;
	}
	pthread_join(w->job->thread, NULL);
	w->job = NULL;
}

void world_end(struct world *w)
{
	if (w->raw >= 0)
		hang_up(w->raw);
	else if (w->job && w->s >= 0)
		shutdown(w->s, SHUT_RDWR);
	if (w->s >= 0 && w->job)
		settle(1);
	world_join(w);
	if (w->s >= 0)
		hang_up(w->s);
	if (w->mtu)
		lo_mtu(lo_mtu_usual);
	w->raw = -1;
	wire_read(w);
}

/* ---- once ---- */

int world_begin(void)
{
	socklen_t len = sizeof(listener_addr);
	static char octets[8192];

	epoll_in = epoll_create1(0);
	epoll_out = epoll_create1(0);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	listener_addr.sin_family = AF_INET;
	listener_addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	if (bind(listener, (struct sockaddr *)&listener_addr, len) ||
	    getsockname(listener, (struct sockaddr *)&listener_addr, &len) ||
	    listen(listener, 64))
		return -1;
	tuf_port = ntohs(listener_addr.sin_port);
	lo_mtu_usual = lo_mtu(0);
	memset(octets, 0xe5, sizeof(octets));
	file_fd = memfd_create("file", 0);
	if (write(file_fd, octets, sizeof(octets)) != sizeof(octets))
		return -1;
	return wire_open();
}
