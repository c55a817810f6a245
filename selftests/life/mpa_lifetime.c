// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets that get MPA's operations, and how long they need the module: children that
 * migrate to other listeners, users inside the kernel, sockets that outlive their file.
 */

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_kill.h"
#include "mpa_kmod.h"
#include "kmod/mpa_upcalls.h"

#define HELD		1100	/* more than a workqueue has workers */
#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP	262
#endif

#ifndef AF_SMC
#define AF_SMC		43
#endif

#define HELD_FIRST	400	/* file descriptor of the first */

FIXTURE(life)
{
	struct sockaddr_in addr;
	struct mpa_start start;
	char buf[64];
};

FIXTURE_SETUP(life)
{
	ASSERT_EQ(0, own_netns());
	self->addr = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	self->start = (struct mpa_start){
		.role = MPA_ROLE_RESPONDER, .revision = 1,
	};
}

FIXTURE_TEARDOWN(life)
{
}

static int put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), err;

	if (fd < 0)
		return -1;
	err = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

/* Open one listener of a group on the same port. */
static int listener_of(struct _test_data_life *self, bool mpa, int protocol)
{
	int fd = socket(AF_INET, SOCK_STREAM, protocol);
	socklen_t len = sizeof(self->addr);

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){ 1 },
		       sizeof(int)) ||
	    bind(fd, (void *)&self->addr, len) ||
	    (mpa && (mpa_attach(fd) || mpa_start_as(fd, &self->start))) ||
	    listen(fd, 64) ||
	    getsockname(fd, (void *)&self->addr, &len))
		return -1;
	patience(fd, 20);
	return fd;
}

static int listener(struct _test_data_life *self, bool mpa)
{
	return listener_of(self, mpa, 0);
}

static int client(struct _test_data_life *self)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (void *)&self->addr, sizeof(self->addr)))
		return -1;
	patience(fd, 20);
	return fd;
}

static int child(int listener)
{
	int fd = accept(listener, NULL, NULL);

	patience(fd, 20);
	return fd;
}

static int ask_of(int fd)
{
	u8 frame[FRAME_LEN];

	frame_put(frame, false, 0x40, 1, 0);
	return write_all(fd, frame, FRAME_LEN);
}

static bool served(int fd)
{
	u8 reply[FRAME_LEN];

	return read_all(fd, reply, FRAME_LEN) == FRAME_LEN &&
	       !memcmp(reply, "MPA ID Rep Frame", 16);
}

/*
 * Open a listener, with a client that migrates from another listener's queue. Return:
 * the listener, or -1.
 */
static int moved_to(struct _test_data_life *self, bool mpa, int protocol,
		    int *client_fd)
{
	int from, to;

	if (put_text("/proc/sys/net/ipv4/tcp_migrate_req", "1"))
		return -1;
	from = listener(self, !mpa);
	*client_fd = client(self);
	to = listener_of(self, mpa, protocol);
	if (from < 0 || *client_fd < 0 || to < 0 ||
	    poll_for(from, POLLIN, 20000) != POLLIN)
		return -1;
	close(from);
	return poll_for(to, POLLIN, 20000) == POLLIN ? to : -1;
}

static int moved(struct _test_data_life *self, bool mpa, int *client_fd)
{
	return moved_to(self, mpa, 0, client_fd);
}

/* ---- sockets without MPA ---- */

/* End a listener in one of three ways. */
static int listener_end(int fd, int how)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (how == 0)
		return shutdown(fd, SHUT_RDWR);
	return how == 1 ? connect(fd, &none, sizeof(none)) : 0;
}

TEST_F(life, plain_child_in_the_queue_of_a_listener_is_shut_down_with_it)
{
	int fd, to, how;

	for (how = 0; how < 3; how++) {
		self->addr.sin_port = 0;
		to = moved(self, true, &fd);
		ASSERT_LE(0, to);
		ASSERT_EQ(0, listener_end(to, how));
		close(to);
		EXPECT_EQ(-1, recv(fd, self->buf, 1, 0));
		EXPECT_EQ(ECONNRESET, errno) {
			TH_LOG("by way %d", how);
		}
		close(fd);
	}
}

TEST_F(life, child_that_moves_to_a_listener_with_mpa_starts)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct peer peer = {};
	int fd, to, c, epoll;

	to = moved(self, true, &fd);
	ASSERT_LE(0, to);
	c = child(to);
	ASSERT_LE(0, c);
	epoll = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, c, &event));
	ASSERT_EQ(0, ask_of(fd));
	/* This is the first call on the child. */
	EXPECT_TRUE(served(fd));
	peer.fd = fd;
	ASSERT_EQ(0, peer_send_record(&peer, 50));
	ASSERT_EQ(1, epoll_wait(epoll, &event, 1, 20000));
	EXPECT_EQ(50, recv(c, self->buf, sizeof(self->buf), MSG_DONTWAIT));
	EXPECT_EQ(2, send(c, "ok", 2, MSG_DONTWAIT));
	close(epoll);
	close(c);
	close(fd);
	close(to);
}

/* A child migrates from a listener with MPA to one of TCP or MPTCP. */
static void is_ordinary_tcp(struct __test_metadata *_metadata,
			    struct _test_data_life *self, int protocol)
{
	int fd, to, c, pipe_fd[2], pending = 0;

	ASSERT_TRUE(module_unused());
	to = moved_to(self, false, protocol, &fd);
	ASSERT_LE(0, to);
	/* The child has no pointer into the module. */
	ASSERT_TRUE(module_unused());
	c = child(to);
	ASSERT_LE(0, c);
	EXPECT_EQ(POLLOUT, poll_for(c, POLLIN | POLLOUT, 0));
	EXPECT_TRUE(text_goes(fd, c));
	EXPECT_TRUE(text_goes(c, fd));
	EXPECT_EQ(0, setsockopt(c, SOL_SOCKET, SO_RCVLOWAT, &(int){ 1 },
				sizeof(int)));
	ASSERT_EQ(0, pipe(pipe_fd));
	ASSERT_EQ(3, send(fd, "abc", 3, 0));
	ASSERT_EQ(POLLIN, poll_for(c, POLLIN, 20000));
	EXPECT_EQ(0, ioctl(c, SIOCINQ, &pending));
	EXPECT_EQ(3, pending);
	EXPECT_EQ(3, splice(c, NULL, pipe_fd[1], NULL, 3, 0));

	/* MPA can be attached to the child as to any other socket. */
	ASSERT_EQ(0, mpa_attach(c));
	ASSERT_EQ(0, mpa_start_as(c, &self->start));
	ASSERT_EQ(0, ask_of(fd));
	EXPECT_TRUE(served(fd));
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	close(c);
	close(fd);
	close(to);
	EXPECT_TRUE(module_unused()) {
		TH_LOG("%ld references are left", module_refs());
	}
}

TEST_F(life, child_that_moves_to_an_ordinary_listener_is_tcp)
{
	is_ordinary_tcp(_metadata, self, 0);
}

static bool have_mptcp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

TEST_F(life, child_that_moves_to_a_listener_of_mptcp_is_tcp)
{
	if (!have_mptcp())
		SKIP(return, "this kernel has no MPTCP");
	is_ordinary_tcp(_metadata, self, IPPROTO_MPTCP);
}

/* MPTCP replaces a child's operations at accept(2); no worker runs before close(2). */
TEST_F(life, child_that_moves_to_mptcp_and_is_closed_at_once)
{
	int fd, to, i;

	if (!have_mptcp())
		SKIP(return, "this kernel has no MPTCP");
	ASSERT_TRUE(module_unused());
	for (i = 0; i < 60; i++) {
		self->addr.sin_port = 0;
		to = moved_to(self, false, IPPROTO_MPTCP, &fd);
		ASSERT_LE(0, to);
		ASSERT_EQ(0, real_time(true));
		close(accept(to, NULL, NULL));
		ASSERT_EQ(0, real_time(false));
		close(to);
		close(fd);
	}
	EXPECT_TRUE(module_unused()) {
		TH_LOG("%ld references are left", module_refs());
	}
}

/*
 * If SMC falls back to TCP, the program gets a file of the TCP socket, whose callbacks
 * SMC has replaced.
 */
TEST_F(life, socket_that_smc_has_hooked_is_not_attached)
{
	int to, fd, c;

	system("modprobe -q smc");
	fd = socket(AF_SMC, SOCK_STREAM, 0);
	if (fd < 0)
		SKIP(return, "this kernel has no SMC");
	to = listener(self, false);
	ASSERT_LE(0, to);
	ASSERT_EQ(0, connect(fd, (void *)&self->addr, sizeof(self->addr)));
	c = child(to);
	ASSERT_LE(0, c);
	EXPECT_EQ(-1, mpa_attach(fd));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_TRUE(text_goes(fd, c));
	EXPECT_TRUE(text_goes(c, fd));
	close(c);
	close(fd);
	close(to);
}

/*
 * As above, with a user inside the kernel: kernel_accept() gives the child the
 * operations of its new listener.
 */
TEST_F(life, child_that_moves_is_attached_to_by_the_kernel)
{
	int user, to, fd, n = 0;
	long refs;

	if (access("/dev/mpa_upcalls", R_OK))
		ASSERT_EQ(0, kmod_do("insmod $MODULES/kmod/mpa_upcalls.ko"));
	refs = module_refs();
	to = moved(self, true, &fd);
	ASSERT_LE(0, to);
	user = open("/dev/mpa_upcalls", O_RDWR);
	ASSERT_LE(0, user);
	ASSERT_EQ(0, ioctl(user, UPCALLS_ACCEPT, &to));
	close(user);
	close(fd);
	close(to);
	while (module_refs() != refs && n++ < 500)
		usleep(10000);
	EXPECT_EQ(refs, module_refs());
	EXPECT_EQ(0, system("rmmod mpa_upcalls"));
}

/* Open a connection whose request is rejected. Return: 0 or -1. */
static int rejected_pair(int fd[2])
{
	u8 frame[FRAME_LEN];

	frame_put(frame, true, 0x60, 1, 0);
	if (tcp_pair(AF_INET, fd) || mpa_attach(fd[0]))
		return -1;
	set_nonblock(fd[0]);
	if (!mpa_start(fd[0], MPA_ROLE_INITIATOR, 0) || errno != EINPROGRESS ||
	    write_all(fd[1], frame, FRAME_LEN) ||
	    !(POLLOUT & poll_for(fd[0], POLLOUT, 20000)))
		return -1;
	set_block(fd[0]);
	return so_error(fd[0]) == ECONNREFUSED &&
	       mpa_info(fd[0]).state == MPA_STATE_REJECTED ? 0 : -1;
}

static int disconnect(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	return connect(fd, &none, sizeof(none));
}

/* Listen on a socket that had a connection. */
static int listen_anew(struct _test_data_life *self, int fd, bool start)
{
	socklen_t len = sizeof(self->addr);

	so_error(fd);
	patience(fd, 20);
	return bind(fd, (void *)&self->addr, len) ||
	       (start && mpa_start_as(fd, &self->start)) || listen(fd, 16) ||
	       getsockname(fd, (void *)&self->addr, &len) ? -1 : 0;
}

/* A failed connection leaves no MPA state in the socket. */
TEST_F(life, socket_that_was_rejected_may_listen)
{
	int fd[2], clients[4], i;

	ASSERT_EQ(0, rejected_pair(fd));
	ASSERT_EQ(0, disconnect(fd[0]));
	so_error(fd[0]);
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(fd[0]).state);

	ASSERT_EQ(0, listen_anew(self, fd[0], true));
	for (i = 0; i < 4; i++) {
		clients[i] = client(self);
		ASSERT_LE(0, clients[i]);
		ASSERT_EQ(0, write_all(clients[i], "M", 1));
	}
	/* Startup does not begin before accept(2). */
	usleep(100000);
	close(fd[0]);
	for (i = 0; i < 4; i++)
		close(clients[i]);
	close(fd[1]);
}

/* ---- the module's references ---- */

static int module_reload(void)
{
	return system("rmmod mpa") || system("insmod $MPA_KO") ? -1 : 0;
}

/*
 * A queued packet holds its socket long after the close. The socket must have no
 * pointer into the module; KASAN checks that.
 */
TEST_F(life, packets_of_dead_sockets_do_not_need_the_module)
{
	int fd[2], c, to, i;

	if (!getenv("MPA_KO"))
		SKIP(return, "needs MPA_KO");
	ASSERT_TRUE(module_unused());
	to = listener(self, true);
	for (i = 0; i < 2; i++)
		fd[i] = client(self);
	c = child(to);
	ASSERT_LE(0, c);
	ASSERT_EQ(0, system("modprobe -q sch_netem; "
			    "tc qdisc add dev lo root netem delay 3s"));
	/* Reset the accepted connection, and the one in the accept queue. */
	hang_up(c);
	close(to);
	for (i = 0; i < 2; i++)
		hang_up(fd[i]);
	ASSERT_TRUE(module_unused());
	ASSERT_EQ(0, module_reload());
	usleep(5000000);
}

/* An unfinished handshake holds its listener. */
TEST_F(life, handshakes_of_dead_listeners_do_not_need_the_module)
{
	int fd, to;

	if (!getenv("MPA_KO"))
		SKIP(return, "needs MPA_KO");
	ASSERT_TRUE(module_unused());
	to = listener(self, true);
	ASSERT_EQ(0, setsockopt(to, SOL_TCP, TCP_DEFER_ACCEPT, &(int){ 30 },
				sizeof(int)));
	fd = client(self);
	ASSERT_LE(0, fd);
	close(to);
	ASSERT_TRUE(module_unused());
	ASSERT_EQ(0, module_reload());
	/* An administrator and TCP's timer read the handshake's state. */
	EXPECT_EQ(0, system("ss -HK state syn-recv >/dev/null"));
	usleep(5000000);
	close(fd);
}

/* Open a listener with TCP_DEFER_ACCEPT: a handshake ends when octets arrive, within 30 s. */
static int deferring_listener(struct _test_data_life *self, bool mpa)
{
	int fd = listener(self, mpa);

	return setsockopt(fd, SOL_TCP, TCP_DEFER_ACCEPT, &(int){ 30 },
			  sizeof(int)) ? -1 : fd;
}

/*
 * A handshake migrates to another listener, but keeps the first one's operations, which
 * TCP reads when the handshake ends.
 */
TEST_F(life, handshakes_that_move_do_not_need_the_module)
{
	int fd, from, to;

	if (!getenv("MPA_KO"))
		SKIP(return, "needs MPA_KO");
	system("modprobe -q tcp_diag");
	ASSERT_TRUE(module_unused());
	ASSERT_EQ(0, put_text("/proc/sys/net/ipv4/tcp_migrate_req", "1"));
	from = deferring_listener(self, true);
	fd = client(self);
	ASSERT_LE(0, fd);
	to = deferring_listener(self, false);
	ASSERT_LE(0, to);
	close(from);
	ASSERT_TRUE(module_unused());
	ASSERT_EQ(0, system("rmmod mpa"));
	EXPECT_EQ(0, kill_other_end(fd));
	ASSERT_EQ(0, system("insmod $MPA_KO"));
	close(to);
	hang_up(fd);
}

/* TIME_WAIT lasts for a minute. */
TEST_F(life, module_is_not_needed_in_time_wait)
{
	int fd, to, c;
	long began;

	ASSERT_TRUE(module_unused());
	to = listener(self, true);
	fd = client(self);
	c = child(to);
	ASSERT_EQ(0, ask_of(fd));
	ASSERT_TRUE(served(fd));
	close(c);
	EXPECT_EQ(0, recv(fd, self->buf, 1, 0));
	close(fd);
	close(to);
	began = now_ms();
	EXPECT_TRUE(module_unused());
	EXPECT_GT(30000, now_ms() - began);
}

TEST_F(life, every_reference_is_given_back)
{
	int fd, to, c, i, mpa;

	ASSERT_TRUE(module_unused());
	for (i = 0; i < 12; i++) {
		self->addr.sin_port = 0;
		mpa = i & 1;
		to = moved(self, mpa, &fd);
		ASSERT_LE(0, to);
		if (i < 4) {
			c = child(to);
			ASSERT_LE(0, c);
			if (i < 2)
				hang_up(c);
			else
				close(c);
		} else if (i < 8) {
			/* This child is of the same kind, but is not accepted. */
			hang_up(client(self));
			shutdown(to, SHUT_RDWR);
		}
		hang_up(fd);
		close(to);
	}
	EXPECT_TRUE(module_unused()) {
		TH_LOG("%ld references are left", module_refs());
	}
}

/* ---- users inside the kernel ---- */

TEST_F(life, kernel_accepts)
{
	char args[64];
	int fd, to;

	if (!getenv("MPA_KERNEL"))
		SKIP(return, "needs kmod/mpa_kernel_user.ko");
	ASSERT_TRUE(module_unused());
	/* Use a child of a listener with MPA. */
	to = listener(self, true);
	fd = client(self);
	snprintf(args, sizeof(args), "how=accept fd=%d", to);
	EXPECT_TRUE(kernel_user(args));
	EXPECT_NE(1, recv(fd, self->buf, 1, 0));
	close(fd);
	close(to);
	EXPECT_TRUE(module_unused());

	/* Use a child of a listener without MPA. */
	self->addr.sin_port = 0;
	to = moved(self, true, &fd);
	ASSERT_LE(0, to);
	snprintf(args, sizeof(args), "how=accept fd=%d", to);
	EXPECT_TRUE(kernel_user(args));
	EXPECT_NE(1, recv(fd, self->buf, 1, 0));
	close(fd);
	close(to);
	EXPECT_TRUE(module_unused());
}

static bool has_callbacks_of_tcp(int fd)
{
	char args[64];

	snprintf(args, sizeof(args), "how=callbacks fd=%d", fd);
	return kernel_user(args);
}

/* TCP calls a listener's callbacks without its lock, but MPA's callbacks need it. */
TEST_F(life, listener_keeps_the_callbacks_of_tcp)
{
	int fd, to, c;

	if (!getenv("MPA_KERNEL"))
		SKIP(return, "needs kmod/mpa_kernel_user.ko");
	to = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, bind(to, (void *)&self->addr, sizeof(self->addr)));
	ASSERT_EQ(0, mpa_attach(to));
	EXPECT_TRUE(has_callbacks_of_tcp(to));
	ASSERT_EQ(0, mpa_start_as(to, &self->start));
	EXPECT_TRUE(has_callbacks_of_tcp(to));
	ASSERT_EQ(0, listen(to, 16));
	EXPECT_TRUE(has_callbacks_of_tcp(to));
	ASSERT_EQ(0, getsockname(to, (void *)&self->addr,
				 &(socklen_t){ sizeof(self->addr) }));
	fd = client(self);
	ASSERT_EQ(POLLIN, poll_for(to, POLLIN, 20000));
	EXPECT_TRUE(has_callbacks_of_tcp(to));
	c = child(to);
	ASSERT_EQ(0, ask_of(fd));
	ASSERT_TRUE(served(fd));
	EXPECT_TRUE(has_callbacks_of_tcp(to));
	/* A socket with MPA started has other callbacks. */
	EXPECT_FALSE(has_callbacks_of_tcp(c));
	close(c);
	close(fd);
	close(to);
}

/* Have the kernel module save, take or restore @fd's callbacks; @keeper holds them. */
static bool with_callbacks(const char *how, int fd, int keeper)
{
	char args[64];

	snprintf(args, sizeof(args), "how=%s fd=%d other=%d", how, fd, keeper);
	return kernel_user(args);
}

/*
 * Whether children are not in startup before accept(2), though octets and the end of
 * stream arrive.
 */
static bool silent_before_accept(struct _test_data_life *self)
{
	int fd[4], i, in;

	for (i = 0; i < 4; i++) {
		fd[i] = client(self);
		if (fd[i] < 0 || write_all(fd[i], "M", 1))
			return false;
	}
	usleep(100000);
	in = statistic("MpaInStartup");
	for (i = 0; i < 4; i++)
		hang_up(fd[i]);
	usleep(10000);
	if (in)
		fprintf(stderr, "# %d of 4 in startup, nobody has accepted them\n",
			in);
	return !in;
}

TEST_F(life, start_over_callbacks_of_others_leaves_a_plain_socket)
{
	struct mpa_start direct = { .role = MPA_ROLE_DIRECT, .revision = 1 };
	int fd[2], keeper;

	if (!getenv("MPA_KERNEL"))
		SKIP(return, "needs kmod/mpa_kernel_user.ko");
	keeper = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	ASSERT_EQ(0, mpa_attach(fd[0]));
	ASSERT_TRUE(with_callbacks("take", fd[0], keeper));
	EXPECT_EQ(-1, mpa_start_as(fd[0], &direct));
	EXPECT_EQ(EBUSY, errno);
	ASSERT_TRUE(with_callbacks("save", fd[0], keeper));
	EXPECT_TRUE(text_goes(fd[0], fd[1]));
	EXPECT_TRUE(text_goes(fd[1], fd[0]));

	ASSERT_EQ(0, mpa_attach(fd[1]));
	EXPECT_EQ(0, mpa_start_as(fd[0], &direct));
	EXPECT_EQ(0, mpa_start_as(fd[1], &direct));
	EXPECT_TRUE(record_goes(fd[0], fd[1], 9));
	close(fd[0]);
	close(fd[1]);
	close(keeper);
}

/* Another user has replaced MPA's callbacks, and may still restore them. */
TEST_F(life, socket_with_callbacks_of_others_is_not_disconnected)
{
	int fd[2], keeper, c, other;

	if (!getenv("MPA_KERNEL"))
		SKIP(return, "needs kmod/mpa_kernel_user.ko");
	keeper = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, rejected_pair(fd));
	ASSERT_TRUE(with_callbacks("save", fd[0], keeper));
	ASSERT_TRUE(with_callbacks("take", fd[0], keeper));
	EXPECT_EQ(-1, disconnect(fd[0]));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(MPA_STATE_REJECTED, mpa_info(fd[0]).state);
	ASSERT_TRUE(with_callbacks("restore", fd[0], keeper));
	EXPECT_TRUE(text_goes(fd[1], fd[0]));

	ASSERT_EQ(0, disconnect(fd[0]));
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(fd[0]).state);
	EXPECT_TRUE(has_callbacks_of_tcp(fd[0]));
	close(fd[1]);
	ASSERT_EQ(0, listen_anew(self, fd[0], true));
	EXPECT_TRUE(silent_before_accept(self));
	while (POLLIN & poll_for(fd[0], POLLIN, 0))
		close(child(fd[0]));
	other = client(self);
	c = child(fd[0]);
	ASSERT_EQ(0, ask_of(other));
	EXPECT_TRUE(served(other));
	close(c);
	close(other);
	close(fd[0]);
	close(keeper);
}

/* A user has put MPA's callbacks back into a listener: children do not inherit them. */
TEST_F(life, children_have_not_what_is_put_back_into_their_listener)
{
	int fd[2], keeper, c, other;

	if (!getenv("MPA_KERNEL"))
		SKIP(return, "needs kmod/mpa_kernel_user.ko");
	keeper = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, rejected_pair(fd));
	ASSERT_TRUE(with_callbacks("save", fd[0], keeper));
	ASSERT_EQ(0, disconnect(fd[0]));
	close(fd[1]);
	ASSERT_EQ(0, listen_anew(self, fd[0], false));
	ASSERT_TRUE(with_callbacks("restore", fd[0], keeper));
	ASSERT_FALSE(has_callbacks_of_tcp(fd[0]));

	other = client(self);
	c = child(fd[0]);
	ASSERT_LE(0, c);
	EXPECT_EQ(MPA_STATE_IDLE, mpa_info(c).state);
	EXPECT_TRUE(has_callbacks_of_tcp(c));
	ASSERT_EQ(0, mpa_start_as(c, &self->start));
	ASSERT_EQ(0, ask_of(other));
	EXPECT_TRUE(served(other));
	close(c);
	close(other);

	ASSERT_EQ(0, mpa_start_as(fd[0], &self->start));
	EXPECT_TRUE(silent_before_accept(self));
	close(fd[0]);
	close(keeper);
	EXPECT_TRUE(module_unused()) {
		TH_LOG("%ld references are left", module_refs());
	}
}

/*
 * A user causes page faults under many sockets' locks, and does not serve them. Other
 * sockets must not wait.
 */
TEST_F_TIMEOUT(life, locks_that_are_held_stop_nobody_else, 300)
{
	struct rlimit files = { HELD_FIRST + 2 * HELD, HELD_FIRST + 2 * HELD };
	int fd[2], i, status;
	char args[64];
	long began;
	pid_t pid;

	if (!getenv("MPA_KERNEL"))
		SKIP(return, "needs kmod/mpa_kernel_user.ko");
	if (setrlimit(RLIMIT_NOFILE, &files))
		SKIP(return, "needs %d files", HELD_FIRST + 2 * HELD);
	self->start.timeout_ms = 1000;
	for (i = 0; i < HELD; i++) {
		ASSERT_EQ(0, tcp_pair(AF_INET, fd));
		ASSERT_EQ(HELD_FIRST + i, dup2(fd[0], HELD_FIRST + i));
		ASSERT_EQ(HELD_FIRST + HELD + i,
			  dup2(fd[1], HELD_FIRST + HELD + i));
		close(fd[0]);
		close(fd[1]);
		ASSERT_EQ(0, mpa_attach(HELD_FIRST + i));
	}
	ASSERT_EQ(0, tcp_pair(AF_INET, fd));
	for (i = 0; i < HELD; i++)
		ASSERT_EQ(0, mpa_start_as(HELD_FIRST + i, &self->start));
	pid = fork();
	if (!pid) {
		snprintf(args, sizeof(args), "how=hold fd=%d count=%d ms=8000",
			 HELD_FIRST, HELD);
		_exit(!kernel_user(args));
	}
	/* By now all startups have timed out; ending them needs the socket locks. */
	usleep(3000000);
	ASSERT_EQ(0, waitpid(pid, &status, WNOHANG));
	began = now_ms();
	self->start.timeout_ms = 0;
	ASSERT_EQ(0, mpa_attach(fd[0]));
	ASSERT_EQ(0, mpa_attach(fd[1]));
	ASSERT_EQ(0, mpa_start_as(fd[1], &self->start));
	EXPECT_EQ(0, mpa_start(fd[0], MPA_ROLE_INITIATOR, 0));
	EXPECT_GT(2000, now_ms() - began) {
		TH_LOG("another socket's startup took %ld ms",
		       now_ms() - began);
	}
	EXPECT_TRUE(record_goes(fd[0], fd[1], 100));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	/* Deferred work runs once the locks are free. */
	for (i = 0; i < HELD; i++) {
		EXPECT_NE(0, POLLERR & poll_for(HELD_FIRST + i, POLLIN, 20000));
		EXPECT_EQ(ETIMEDOUT, so_error(HELD_FIRST + i));
	}
}

TEST_HARNESS_MAIN
