// SPDX-License-Identifier: GPL-2.0
/* The start states of connections with MPA. */

#include "mpa.h"

static int crowded;		/* a listening socket whose queue is full */
static struct sockaddr_in crowded_addr;

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

int job_other(struct job *job)
{
	struct mpa_start start = {
		.role = MPA_ROLE_INITIATOR, .revision = 1,
		.timeout_ms = STARTUP_MS,
	};

	return mpa_start_as(job->fd, &start);
}

/* ---- connections ---- */

int listen_as(int *fd, bool attach, int flags, struct sockaddr_in *addr)
{
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1,
		.flags = flags, .timeout_ms = STARTUP_MS,
	};

	if (listen_make(fd, addr))
		return -1;
	return attach && (mpa_attach(*fd) || mpa_start_as(*fd, &start)) ? -1 : 0;
}

/* As pair_make(), but test the connecting end. */
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

static int by_way_client(struct world *w, long names)
{
	if (client_make(w))
		return -1;
	watch(w);
	return way(w, (const char *)names);
}

/* Make a listening socket, and a child that is not accepted. */
static int with_child(struct world *w, bool attach, bool other, int flags)
{
	struct sockaddr_in addr = {};
	u8 frame[FRAME_LEN];
	int fd;

	if (listen_as(&w->l, attach, flags, &addr) || listen(w->l, 8))
		return -1;
	w->raw = raw_connect(&addr);
	if (w->raw < 0)
		return -1;
	/* Open the other listener late, so that the child belongs to the first one. */
	if (other && (listen_as(&fd, !attach, flags, &addr) ||
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
	if (listen_as(&w->l, false, 0, &addr) || listen(w->l, 8))
		return -1;
	set_block(w->l);
	return job_begin(w, JOB_ACCEPT, dup(w->l), NULL, 0);
}

static int listening(struct world *w, long arg)
{
	struct sockaddr_in addr = {};

	return listen_as(&w->l, arg, 0, &addr) || listen(w->l, 8) ? -1 : 0;
}

static int bound(struct world *w, long arg)
{
	struct sockaddr_in addr = {};

	return listen_as(&w->l, arg, 0, &addr);
}

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
	{ "crowd" },
};

const int starts_nr = ARRAY_SIZE(starts);

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
	if (connections_begin() || listen_make(&crowded, &crowded_addr) ||
	    listen(crowded, 0) || raw_connect(&crowded_addr) < 0)
		return -1;
	put("/proc/sys/net/ipv4/tcp_migrate_req", "1");
	put("/proc/sys/net/ipv4/tcp_max_syn_backlog", "128");
	return sysctl_put("startup_timeout_ms", STARTUP_MS);
}
