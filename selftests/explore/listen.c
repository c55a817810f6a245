// SPDX-License-Identifier: GPL-2.0
/* Operations on listening sockets. */

#include <sys/syscall.h>

#include "mpa.h"

static int op_l_attach(struct world *w, long arg)
{
	socklen_t len = sizeof(int);
	int listens = 0;

	(void)arg;
	getsockopt(w->l, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len);
	if (mpa_attach(w->l))
		return -errno;
	if (listens)
		violated("a socket that listens was attached");
	return 0;
}

static int op_l_start(struct world *w, long flags)
{
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1, .flags = flags,
		.timeout_ms = STARTUP_MS,
	};

	return mpa_start_as(w->l, &start) ? -errno : 0;
}

static int op_listen(struct world *w, long arg)
{
	(void)arg;
	return listen(w->l, 8) ? -errno : 0;
}

static int accept_from(struct world *w, int fd)
{
	int s;

	if (w->s >= 0)
		return -EISCONN;
	set_nonblock(fd);
	s = accept(fd, NULL, NULL);
	if (s < 0)
		return -errno;
	w->s = s;
	w->attached = false;
	judge_state(w);
	if (w->attached && w->state > MPA_STATE_IDLE) {
		w->role = MPA_ROLE_RESPONDER;
		note_sent(w, SEG_FRAME, 0);
	}
	watch(w);
	return 0;
}

static int op_l_accept(struct world *w, long other)
{
	return accept_from(w, other ? w->o : w->l);
}

static int op_l_shutdown(struct world *w, long other)
{
	return shutdown(other ? w->o : w->l, SHUT_RDWR) ? -errno : 0;
}

static int op_l_disconnect(struct world *w, long other)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	return connect(other ? w->o : w->l, &none, sizeof(none)) ? -errno : 0;
}

static int op_l_close(struct world *w, long other)
{
	int *fd = other ? &w->o : &w->l;

	close(*fd);
	*fd = -1;
	return 0;
}

static int op_l_poll(struct world *w, long arg)
{
	(void)arg;
	poll_for(w->l, POLLIN | POLLOUT, 0);
	return 0;
}

/* Connect a second client, or the first one, which sends its request. */
static int op_l_connect(struct world *w, long arg)
{
	struct sockaddr_in addr = {};
	socklen_t len = sizeof(addr);
	u8 frame[FRAME_LEN];
	int fd;

	(void)arg;
	if (w->raw >= 0 && w->extra >= 0)
		return -EISCONN;
	if (getsockname(w->l, (struct sockaddr *)&addr, &len))
		return -errno;
	fd = raw_connect(&addr);
	if (fd < 0)
		return -errno;
	frame_put(frame, false, 0x40, 1, 0);
	if (w->raw >= 0) {
		w->extra = fd;
		/*
		 * With two listeners on the port another one may accept this client, so
		 * the octets may not arrive here.
		 */
		w->fuzzy |= w->o >= 0;
		return write_all(fd, frame, sizeof(frame));
	}
	w->raw = fd;
	return peer_say(w, frame, sizeof(frame), 0);
}

/* Call kernel_accept(), like the kernel's own servers. */
static int op_l_kaccept(struct world *w, long other)
{
	const char *path = getenv("MPA_KERNEL_USER");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	struct timeval soon = { .tv_usec = 20000 };
	int l = other ? w->o : w->l;
	char args[64];
	int err;

	if (fd < 0)
		return -ENOENT;
	setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	snprintf(args, sizeof(args), "how=accept fd=%d", l);
	syscall(SYS_finit_module, fd, args, 0);
	err = errno;
	close(fd);
	return err == ECANCELED ? 0 : -err;
}

#define LISTENER(name, fn, arg)	{ "l." name, ACTOR_L, 0, fn, arg }
#define OTHER(name, fn)		{ "o." name, ACTOR_O, 0, fn, 1 }

const struct op listen_ops[] = {
	LISTENER("attach", op_l_attach, 0),
	LISTENER("start", op_l_start, 0),
	LISTENER("start.m", op_l_start, MPA_START_MANUAL),
	LISTENER("listen", op_listen, 0),
	LISTENER("connect", op_l_connect, 0),
	LISTENER("accept", op_l_accept, 0),
	LISTENER("kaccept", op_l_kaccept, 0),
	LISTENER("shutdown", op_l_shutdown, 0),
	LISTENER("disconnect", op_l_disconnect, 0),
	LISTENER("close", op_l_close, 0),
	LISTENER("poll", op_l_poll, 0),
	LISTENER("kill", op_kill, 1),
	OTHER("accept", op_l_accept),
	OTHER("kaccept", op_l_kaccept),
	OTHER("shutdown", op_l_shutdown),
	OTHER("disconnect", op_l_disconnect),
	OTHER("close", op_l_close),
};

const int listen_ops_nr = ARRAY_SIZE(listen_ops);
