// SPDX-License-Identifier: GPL-2.0
/* A connection and its threads: made in one of the start states, and ended. */

#include <sched.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#include "explore.h"

/* How long a call may sleep when its connection has ended, in virtual time. */
#define BOUND_MS	30000

static int common, crowded;	/* listening sockets: for all; with no room */
static struct sockaddr_in common_addr, crowded_addr;
static int epoll_in, epoll_out;
static struct job *job_free;
int file_fd;			/* a file to send */

/* ---- a call in a thread ---- */

struct job_thread {
	struct job job;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool wanted;
	long arg;
};

static void job_run(struct job *job, long arg)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 1,
		.timeout_ms = STARTUP_MS,
	};
	static u8 flood[4 << 20];
	off_t at = arg;

	switch (job->kind) {
	case JOB_RECV:
		job->ret = recv(job->fd, job->buf, sizeof(job->buf), 0);
		break;
	case JOB_SEND:
		if (!flood[0])
			memset(flood, FLOOD, sizeof(flood));
		job->ret = send(job->fd, flood, arg, MSG_NOSIGNAL);
		break;
	case JOB_START:
		job->ret = mpa_start_as(job->fd, &start);
		break;
	case JOB_SENDFILE:
		job->ret = sendfile(job->fd, file_fd, &at, 4000);
		break;
	case JOB_ACCEPT:
		job->ret = accept(job->fd, NULL, NULL);
		break;
	default:
		break;
	}
	job->err = job->ret < 0 ? errno : 0;
}

static void *job_main(void *arg)
{
	struct job_thread *thread = arg;

	pthread_mutex_lock(&thread->lock);
	for (;;) {
		while (!thread->wanted)
			pthread_cond_wait(&thread->wake, &thread->lock);
		thread->wanted = false;
		pthread_mutex_unlock(&thread->lock);
		job_run(&thread->job, thread->arg);
		__atomic_store_n(&thread->job.done, true, __ATOMIC_RELEASE);
		pthread_mutex_lock(&thread->lock);
	}
	return NULL;
}

static struct job *job_make(void)
{
	struct job_thread *thread = calloc(1, sizeof(*thread));
	pthread_t id;

	pthread_mutex_init(&thread->lock, NULL);
	pthread_cond_init(&thread->wake, NULL);
	if (pthread_create(&id, NULL, job_main, thread))
		return NULL;
	return &thread->job;
}

/* The call is under way when this returns. */
int job_begin(struct world *w, enum job_kind kind, int fd, long arg)
{
	struct job *job = job_free ?: job_make();
	struct job_thread *thread = (struct job_thread *)job;

	if (w->job || !job)
		return -EBUSY;
	job_free = NULL;
	w->job = job;
	job->kind = kind;
	job->fd = fd;
	job->began = true;
	job->done = false;
	job->noted = false;
	job->started = w->state > MPA_STATE_IDLE &&
		       w->state != MPA_STATE_REJECTED;
	thread->arg = arg;
	pthread_mutex_lock(&thread->lock);
	thread->wanted = true;
	pthread_cond_signal(&thread->wake);
	pthread_mutex_unlock(&thread->lock);
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

/* ---- connections ---- */

int listen_make(int *fd, bool attach, int flags, struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int one = 1;

	*fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	addr->sin_family = AF_INET;
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(*fd, SOL_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(*fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (bind(*fd, (struct sockaddr *)addr, len) ||
	    getsockname(*fd, (struct sockaddr *)addr, &len))
		return -1;
	if (attach) {
		struct mpa_start start = {
			.role = MPA_ROLE_RESPONDER, .revision = 1,
			.flags = flags, .timeout_ms = STARTUP_MS,
		};

		if (mpa_attach(*fd) || mpa_start_as(*fd, &start))
			return -1;
	}
	return 0;
}

int raw_connect(struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &(int){ 1 }, sizeof(int));
	if (connect(fd, (struct sockaddr *)addr, sizeof(*addr))) {
		close(fd);
		return -1;
	}
	set_nonblock(fd);
	return fd;
}

/* From here on each wakeup counts, for who reads and for who writes. */
void watch(struct world *w)
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
	w->mask = 0;
	judge_edge(w, false);
}

/*
 * The other end of a connection to the common listener. In front of it there may
 * be one of an earlier connection, whose makers gave up.
 */
static int common_accept(int fd)
{
	struct sockaddr_in us = {}, peer;
	socklen_t len = sizeof(us);
	int other;

	if (getsockname(fd, (struct sockaddr *)&us, &len))
		return -1;
	for (;;) {
		len = sizeof(peer);
		other = accept(common, (struct sockaddr *)&peer, &len);
		if (other < 0 || peer.sin_port == us.sin_port)
			return other;
		hang_up(other);
	}
}

int pair_make(struct world *w, bool small)
{
	if (small)
		setsockopt(common, SOL_SOCKET, SO_RCVBUF, &(int){ 4096 },
			   sizeof(int));
	w->raw = raw_connect(&common_addr);
	if (w->raw < 0)
		return -1;
	w->s = common_accept(w->raw);
	if (small)
		setsockopt(common, SOL_SOCKET, SO_RCVBUF, &(int){ 131072 },
			   sizeof(int));
	w->peer.fd = w->raw;
	w->squeezed = small;
	return w->s < 0 ? -1 : 0;
}

/* The same, with who connects as the one that is tested. */
static int client_make(struct world *w)
{
	w->s = raw_connect(&common_addr);
	if (w->s < 0)
		return -1;
	set_block(w->s);
	setsockopt(w->s, SOL_SOCKET, SO_OOBINLINE, &(int){ 0 }, sizeof(int));
	w->raw = common_accept(w->s);
	if (w->raw < 0)
		return -1;
	set_nonblock(w->raw);
	setsockopt(w->raw, SOL_SOCKET, SO_OOBINLINE, &(int){ 1 }, sizeof(int));
	w->peer.fd = w->raw;
	return 0;
}

static int connecting(struct world *w, long arg)
{
	(void)arg;
	w->s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (!connect(w->s, (struct sockaddr *)&crowded_addr,
		     sizeof(crowded_addr)) || errno != EINPROGRESS)
		return -1;
	set_block(w->s);
	return 0;
}

/* ---- start states ---- */

static int crowd(struct world *w, long arg);

static struct world world;

struct world *world_of(void)
{
	return &world;
}

void world_say(const struct world *w, char *text, size_t room)
{
	snprintf(text, room, "state %d, poll 0x%x", w->state, w->mask);
}

void ops_collect(void)
{
	ops_add(user_ops, user_ops_nr);
	ops_add(listen_ops, listen_ops_nr);
	ops_add(peer_ops, peer_ops_nr);
	ops_add(ahead_ops, ahead_ops_nr);
	ops_add(crowd_ops, crowd_ops_nr);
}

/* Whether there is anybody who could do it. */
bool op_suits(const struct start *start, const struct op *op)
{
	if (start->make == crowd || op->actor == ACTOR_CROWD)
		return start->make == crowd && op->actor == ACTOR_CROWD;
	return start->listens || (op->actor != ACTOR_L && op->actor != ACTOR_O);
}

bool op_can(const struct world *w, const struct op *op)
{
	switch (op->actor) {
	case ACTOR_S:
		return w->s >= 0;
	case ACTOR_PEER:
		return w->raw >= 0;
	case ACTOR_L:
		return w->l >= 0;
	case ACTOR_O:
		return w->o >= 0;
	default:
		return true;
	}
}

/* One operation, what comes of it, and who learns of that. */
int step(struct world *w, const struct op *op)
{
	int ret = op->fn(w, op->arg);

	if (op->actor != ACTOR_PEER)
		judge_edge(w, false);
	settle(1);
	judge_edge(w, true);
	judge_job(w);
	return ret;
}

/* A state is where some operations lead to, all of which must succeed. */
static int way(struct world *w, const char *names)
{
	char text[200], *name, *rest = text;

	snprintf(text, sizeof(text), "%s", names);
	while ((name = strsep(&rest, " "))) {
		if (step(w, op_named(name)) < 0)
			return -1;
	}
	return 0;
}

static int by_way(struct world *w, long arg)
{
	if (pair_make(w, false))
		return -1;
	watch(w);
	return way(w, (const char *)arg);
}

static int by_way_client(struct world *w, long arg)
{
	if (client_make(w))
		return -1;
	watch(w);
	return way(w, (const char *)arg);
}

static int by_way_small(struct world *w, long arg)
{
	if (pair_make(w, true))
		return -1;
	watch(w);
	return way(w, (const char *)arg);
}

/* A listening socket, and a child that nobody has accepted. */
static int with_child(struct world *w, bool attach, bool other, int flags)
{
	struct sockaddr_in addr = {};
	u8 frame[FRAME_LEN];
	int fd;

	if (listen_make(&w->l, attach, flags, &addr) || listen(w->l, 8))
		return -1;
	w->raw = raw_connect(&addr);
	w->peer.fd = w->raw;
	if (w->raw < 0)
		return -1;
	/* After it, so that the child is the first one's. */
	if (other && (listen_make(&fd, !attach, flags, &addr) ||
		      listen(fd, 8)))
		return -1;
	w->o = other ? fd : -1;
	frame_put(frame, false, 0x40, 1, 0);
	peer_say(w, frame, sizeof(frame), 0);
	w->attached = attach;
	settle(1);
	return 0;
}

static int plain_child(struct world *w, long arg)
{
	(void)arg;
	return with_child(w, false, false, 0);
}

static int mpa_child(struct world *w, long arg)
{
	return with_child(w, true, false, arg);
}

static int plain_of_two(struct world *w, long arg)
{
	(void)arg;
	return with_child(w, false, true, 0);
}

static int mpa_of_two(struct world *w, long arg)
{
	(void)arg;
	return with_child(w, true, true, 0);
}

static int accepting(struct world *w, long arg)
{
	struct sockaddr_in addr = {};

	(void)arg;
	if (listen_make(&w->l, false, 0, &addr) || listen(w->l, 8))
		return -1;
	set_block(w->l);
	return job_begin(w, JOB_ACCEPT, dup(w->l), 0);
}

static int listening(struct world *w, long arg)
{
	struct sockaddr_in addr = {};

	return listen_make(&w->l, arg, 0, &addr) || listen(w->l, 8) ? -1 : 0;
}

static int bound(struct world *w, long arg)
{
	struct sockaddr_in addr = {};

	return listen_make(&w->l, arg, 0, &addr);
}

/* Nobody yet. */
static int crowd(struct world *w, long arg)
{
	(void)w;
	(void)arg;
	return 0;
}

#define WAY(name, ops)	{ name, false, by_way, (long)(ops) }
#define ASK		"attach start.i peer.read"

const struct start starts[] = {
	WAY("reading", "t.recv attach"),
	WAY("reading.r", "t.recv attach start.r peer.request peer.read"),
	WAY("writing", "opt.sndbuf t.flood attach"),
	WAY("attached", "attach"),
	WAY("asked", ASK),
	WAY("waiting", "attach start.r"),
	WAY("asked.old", "attach start.old peer.read"),
	WAY("requested", "attach start.m peer.request"),
	WAY("full", "attach start.d"),
	WAY("responder", "attach start.r peer.request peer.read"),
	WAY("initiator", ASK " peer.reply peer.read"),
	WAY("half", "attach start.d peer.fpdu recv.short"),
	WAY("begun", "attach start.d peer.half"),
	WAY("open", "attach start.d more"),
	WAY("held", "attach start.d eor"),
	WAY("batch", "attach start.d opt.batch"),
	WAY("marked", "attach start.marked"),
	WAY("gap", "attach start.marked opt.place peer.ahead"),
	WAY("gap.bad", "attach start.marked opt.place peer.ahead.bad"),
	WAY("awaited", "attach start.marked opt.place t.recv"),
	WAY("rejected", ASK " peer.reject so_error"),
	{ "refused", false, by_way,
	  (long)(ASK " shut.wr peer.reject so_error"), true },
	{ "small", false, by_way_small, (long)"attach start.d peer.long" },
	{ "client", false, by_way_client, (long)"attach" },
	{ "client.asked", false, by_way_client, (long)ASK },
	{ "client.full", false, by_way_client, (long)ASK " peer.reply" },
	{ "connecting", false, connecting, 0 },
	{ "bound", true, bound, 0 },
	{ "listening.plain", true, listening, 0 },
	{ "listening", true, listening, 1 },
	{ "child.plain", true, plain_child, 0 },
	{ "child", true, mpa_child, 0 },
	{ "child.manual", true, mpa_child, MPA_START_MANUAL },
	{ "two.plain", true, plain_of_two, 0 },
	{ "two", true, mpa_of_two, 0 },
	{ "accepting", true, accepting, 0 },
	{ "crowd", false, crowd, 0 },
};

const int starts_nr = ARRAY_SIZE(starts);

int world_make(struct world *w, const struct start *start)
{
	memset(w, 0, offsetof(struct world, half));
	w->s = -1;
	w->raw = -1;
	w->extra = -1;
	w->l = -1;
	w->o = -1;
	w->ep = -1;
	w->state = -1;
	if (start->make(w, start->arg))
		return -1;
	if (w->s >= 0 && w->ep < 0)
		watch(w);
	judge_state(w);
	return 0;
}

/* Where whoever sleeps is, and the connections that there are. */
static void say_who_sleeps(const struct job *job)
{
	char command[100];

	fprintf(stderr, "# a call of kind %d on descriptor %d sleeps\n",
		job->kind, job->fd);
	snprintf(command, sizeof(command),
		 "cat /proc/net/tcp /proc/%d/task/*/stack >&2", getpid());
	if (system(command))
		perror(command);
}

static void world_join(struct world *w)
{
	struct job *job = w->job;

	if (!job)
		return;
	if (job_wait(w, BOUND_MS)) {
		judge_job(w);
		if (job->kind == JOB_ACCEPT && job->ret >= 0)
			hang_up(job->ret);
		job_free = job;
	} else {
		say_who_sleeps(job);
		violated("a call still sleeps after the end");
	}
	w->job = NULL;
}

void world_end(struct world *w)
{
	if (w->extra >= 0)
		hang_up(w->extra);
	if (w->raw >= 0)
		hang_up(w->raw);
	else if (w->job && w->s >= 0)
		shutdown(w->s, SHUT_RDWR);
	if (w->job && w->job->kind == JOB_ACCEPT) {
		shutdown(w->job->fd, SHUT_RDWR);
		close(w->job->fd);
	}
	if (w->s >= 0 && w->job)
		settle(1);
	if (w->s >= 0)
		hang_up(w->s);
	if (w->l >= 0)
		close(w->l);
	if (w->o >= 0)
		close(w->o);
	world_join(w);
}

/* ---- once ---- */

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), err;

	if (fd < 0)
		return -1;
	err = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

int world_begin(void)
{
	char octets[4096];
	int fd;

	epoll_in = epoll_create1(0);
	epoll_out = epoll_create1(0);
	if (listen_make(&common, false, 0, &common_addr) ||
	    listen(common, 64))
		return -1;
	if (listen_make(&crowded, false, 0, &crowded_addr) ||
	    listen(crowded, 0) || raw_connect(&crowded_addr) < 0)
		return -1;
	/* Octets that are neither records nor lengths of such. */
	memset(octets, 0xe5, sizeof(octets));
	file_fd = memfd_create("file", 0);
	fd = file_fd;
	if (fd < 0 || write(fd, octets, sizeof(octets)) != sizeof(octets) ||
	    write(fd, octets, sizeof(octets)) != sizeof(octets))
		return -1;
	put("/proc/sys/net/ipv4/tcp_migrate_req", "1");
	put("/proc/sys/net/ipv4/tcp_max_syn_backlog", "128");
	if (sysctl_put("startup_timeout_ms", STARTUP_MS))
		return -1;
	return 0;
}
