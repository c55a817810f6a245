// SPDX-License-Identifier: GPL-2.0
/* A connection and its thread: set up in a start state, and ended. */

#include <sys/mman.h>
#include <sys/sendfile.h>

#include WORLD_H

/* How long a call may sleep after its connection has ended, in virtual time. */
#define BOUND_MS	30000

static int common, epoll_in, epoll_out;
struct sockaddr_in common_addr;
int file_fd;			/* a file for sendfile(2) */
static struct world world;

struct world *world_of(void)
{
	return &world;
}

/* ---- a call in a thread ---- */

static struct job_thread {
	struct job job;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool wanted;
} *job_free;

static void job_run(struct job *job)
{
	off_t at = job->len;

	switch (job->kind) {
	case JOB_RECV:
		job->ret = recv(job->fd, job->buf, sizeof(job->buf), 0);
		break;
	case JOB_SEND:
		job->ret = send(job->fd, job->octets, job->len, MSG_NOSIGNAL);
		break;
	case JOB_SENDFILE:
		job->ret = sendfile(job->fd, file_fd, &at, 4000);
		break;
	case JOB_ACCEPT:
		job->ret = accept(job->fd, NULL, NULL);
		break;
	default:
		job->ret = job_other(job);
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
		job_run(&thread->job);
		__atomic_store_n(&thread->job.done, true, __ATOMIC_RELEASE);
		pthread_mutex_lock(&thread->lock);
	}
	return NULL;
}

static struct job_thread *job_make(void)
{
	struct job_thread *thread = calloc(1, sizeof(*thread));
	pthread_t id;

	pthread_mutex_init(&thread->lock, NULL);
	pthread_cond_init(&thread->wake, NULL);
	return pthread_create(&id, NULL, job_main, thread) ? NULL : thread;
}

/* Start a call in its thread. It is in progress on return. */
int job_begin(struct world *w, enum job_kind kind, int fd, const u8 *octets,
	      u32 len)
{
	struct job_thread *thread = job_free ?: job_make();

	if (w->job || !thread)
		return -EBUSY;
	job_free = NULL;
	w->job = &thread->job;
	*w->job = (struct job){
		.kind = kind, .fd = fd, .octets = octets, .len = len,
		.framed = job_framed(w, kind),
	};
	pthread_mutex_lock(&thread->lock);
	thread->wanted = true;
	pthread_cond_signal(&thread->wake);
	pthread_mutex_unlock(&thread->lock);
	settle(1);
	return 0;
}

/* Whether the call returns within @ms. */
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

/* Whether a call is in progress. */
bool busy(const struct world *w, enum job_kind kind)
{
	return w->job && !w->job->noted &&
	       (kind == JOB_ANY || w->job->kind == kind);
}

/* Print where the task sleeps, and all connections. */
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

static void job_join(struct world *w)
{
	struct job *job = w->job;

	if (!job)
		return;
	if (job_wait(w, BOUND_MS)) {
		judge_joined(w);
		if (job->kind == JOB_ACCEPT && job->ret >= 0)
			hang_up(job->ret);
		job_free = (struct job_thread *)job;
	} else {
		say_who_sleeps(job);
		violated("a call still sleeps after the end");
	}
	w->job = NULL;
}

/* ---- connections ---- */

int listen_make(int *fd, struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int one = 1;

	*fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	addr->sin_family = AF_INET;
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(*fd, SOL_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(*fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	return bind(*fd, (struct sockaddr *)addr, len) ?:
	       getsockname(*fd, (struct sockaddr *)addr, &len);
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

/* Count wakeups of the reader and the writer from here on. */
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
 * Accept the other end of a connection to the common listener. An earlier connection
 * whose setup was abandoned may be queued before it.
 */
int common_accept(int fd)
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

int pair_make(struct world *w, int rcvbuf)
{
	if (rcvbuf)
		setsockopt(common, SOL_SOCKET, SO_RCVBUF, &rcvbuf,
			   sizeof(rcvbuf));
	w->raw = raw_connect(&common_addr);
	if (w->raw < 0)
		return -1;
	w->s = common_accept(w->raw);
	if (rcvbuf)
		setsockopt(common, SOL_SOCKET, SO_RCVBUF, &(int){ 131072 },
			   sizeof(int));
	w->squeezed = rcvbuf;
	wire_read(w);
	return w->s < 0 ? -1 : pair_attach(w);
}

/* ---- operations ---- */

/* Whether the start state has the operation's actor. */
bool op_suits(const struct start *start, const struct op *op)
{
	if (!start->make || op->actor == ACTOR_CROWD)
		return !start->make && op->actor == ACTOR_CROWD;
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

/* Run an operation, and check its result and its notifications. */
int step(struct world *w, const struct op *op)
{
	int ret = op->fn(w, op->arg);

	if (op->actor != ACTOR_PEER)
		judge_edge(w, false);
	settle(1);
	judge_edge(w, true);
	judge_job(w);
	wire_read(w);
	return ret;
}

/* Reach a start state by some operations, which must all succeed. */
int way(struct world *w, const char *names)
{
	char text[200], *name, *rest = text;

	snprintf(text, sizeof(text), "%s", names);
	while ((name = strsep(&rest, " ")))
		if (*name && step(w, op_named(name)) < 0)
			return -1;
	return 0;
}

static int by_way_as(struct world *w, long names, int rcvbuf)
{
	if (pair_make(w, rcvbuf))
		return -1;
	watch(w);
	return way(w, (const char *)names);
}

int by_way(struct world *w, long names)
{
	return by_way_as(w, names, 0);
}

int by_way_small(struct world *w, long names)
{
	return by_way_as(w, names, 4096);
}

/* ---- a world ---- */

int world_make(struct world *w, const struct start *start)
{
	memset(w, 0, offsetof(struct world, cur));
	w->s = -1;
	w->raw = -1;
	w->extra = -1;
	w->l = -1;
	w->o = -1;
	w->ep = -1;
	world_clear(w);
	if (start->make && start->make(w, start->arg))
		return -1;
	if (w->s >= 0 && w->ep < 0)
		watch(w);
	refresh(w);
	return 0;
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
	job_join(w);
	w->raw = -1;
	world_over(w);
}

int connections_begin(void)
{
	static char octets[8192];

	epoll_in = epoll_create1(0);
	epoll_out = epoll_create1(0);
	if (listen_make(&common, &common_addr) || listen(common, 64))
		return -1;
	/* These octets are neither records nor their lengths. */
	memset(octets, 0xe5, sizeof(octets));
	file_fd = memfd_create("file", 0);
	return write(file_fd, octets, sizeof(octets)) == sizeof(octets) ? 0 : -1;
}
