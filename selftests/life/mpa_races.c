// SPDX-License-Identifier: GPL-2.0
/*
 * Races: many threads on one socket, killed ends, and thousands of connections while
 * the module is unloaded. A thread or process sees only whole records, or an end.
 *
 * MPA_LONG in the environment adds many rounds: 10 000 kills.
 */

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"

static unsigned int rounds(unsigned int few, unsigned int many)
{
	return getenv("MPA_LONG") ? many : few;
}

/* Each thread gets the same random numbers in each run; only the interleaving differs. */
static u32 dice(u32 *seed, u32 sides)
{
	*seed = *seed * 1664525 + 1013904223;
	return (*seed >> 8) % sides;
}

/* ---- threads on one socket ---- */

struct crowd {
	int fd[2];
	unsigned int calls;
	bool stop;
	unsigned long sent;	/* records sent at fd[0] */
	unsigned long got;	/* records received at fd[1] */
	unsigned long bad;
	unsigned long odd;	/* wrong results */
	bool may_end;
};

struct member {
	struct crowd *crowd;
	u32 seed;
	pthread_t thread;
};

static void odd(struct crowd *crowd, const char *call, ssize_t ret)
{
	fprintf(stderr, "# %s: %zd, %s\n", call, ret, strerror(errno));
	__atomic_add_fetch(&crowd->odd, 1, __ATOMIC_RELAXED);
}

/* Whether this errno may occur after another thread has ended the connection. */
static bool the_end(const struct crowd *crowd)
{
	return crowd->may_end && (errno == EPIPE || errno == EBADF ||
				  errno == ECONNRESET || errno == ENOTCONN ||
				  errno == EBADMSG || errno == ENOTSOCK);
}

/* Send @n records of @len octets with one call. */
static ssize_t send_cut(int fd, const u8 *octets, size_t len, int n, int how)
{
	struct iovec iov = { (void *)octets, len * n };
	char control[CMSG_SPACE(sizeof(int))] = "";
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_MPA;
	cmsg->cmsg_type = MPA_SEGMENT;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(cmsg) = len;
	return sendmsg(fd, &msg, how | MSG_NOSIGNAL);
}

static void *sender(void *arg)
{
	struct member *me = arg;
	struct crowd *crowd = me->crowd;
	unsigned int i, k;
	u8 octets[8192];

	for (i = 0; i < crowd->calls; i++) {
		int how = dice(&me->seed, 3) ? 0 : MSG_DONTWAIT;
		size_t len = 1 + dice(&me->seed, 2000);
		int n = dice(&me->seed, 3) ? 1 : 4;
		ssize_t ret;

		if (dice(&me->seed, 4) == 0)
			how |= MSG_MORE | MSG_EOR;
		for (k = 0; k < n; k++)
			record_fill(octets + k * len, len);
		ret = n == 1 ? send(crowd->fd[0], octets, len,
				    how | MSG_NOSIGNAL) :
			       send_cut(crowd->fd[0], octets, len, n, how);
		if (ret > 0 && !(ret % len))
			__atomic_add_fetch(&crowd->sent, ret / len,
					   __ATOMIC_RELAXED);
		else if (ret < 0 && the_end(crowd))
			break;
		else if (ret >= 0 || errno != EAGAIN)
			odd(crowd, "send", ret);
	}
	return NULL;
}

static void *receiver(void *arg)
{
	struct member *me = arg;
	struct crowd *crowd = me->crowd;
	u8 octets[4096];

	for (;;) {
		int how = dice(&me->seed, 2) ? MSG_DONTWAIT : 0;
		ssize_t ret;

		if (!dice(&me->seed, 8))
			recv(crowd->fd[1], octets, dice(&me->seed, 4096),
			     MSG_PEEK | MSG_DONTWAIT);
		ret = recv(crowd->fd[1], octets, sizeof(octets), how);
		if (!ret)
			break;
		if (ret > 0) {
			if (!record_good(octets, ret))
				__atomic_add_fetch(&crowd->bad, 1,
						   __ATOMIC_RELAXED);
			__atomic_add_fetch(&crowd->got, 1, __ATOMIC_RELAXED);
		} else if (the_end(crowd)) {
			break;
		} else if (errno != EAGAIN) {
			odd(crowd, "recv", ret);
			break;
		} else if (how) {
			poll_for(crowd->fd[1], POLLIN, 10);
		}
	}
	return NULL;
}

static void *meddler(void *arg)
{
	struct member *me = arg;
	struct crowd *crowd = me->crowd;

	while (!__atomic_load_n(&crowd->stop, __ATOMIC_RELAXED)) {
		int fd = crowd->fd[dice(&me->seed, 2)];
		int size = 4096 << dice(&me->seed, 8);
		int on = dice(&me->seed, 2);
		struct mpa_start start = {
			.role = 1 + dice(&me->seed, 3), .revision = 1,
		};
		u8 value[1024] = {};
		socklen_t len = dice(&me->seed, sizeof(value));

		switch (dice(&me->seed, 14)) {
		case 0:
			setsockopt(fd, SOL_TCP, TCP_NODELAY, &on, sizeof(on));
			break;
		case 1:
			setsockopt(fd, SOL_TCP, TCP_CORK, &on, sizeof(on));
			break;
		case 2:
			setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size,
				   sizeof(size));
			break;
		case 3:
			setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size,
				   sizeof(size));
			break;
		case 4:
			setsockopt(fd, SOL_IP, IP_OPTIONS,
				   "\x01\x01\x01\x01\x01\x01\x01\x01",
				   on ? 8 : 0);
			break;
		case 5:
			setsockopt(fd, SOL_MPA, MPA_PACKING, &on, sizeof(on));
			break;
		case 6:
			setsockopt(fd, SOL_MPA, MPA_OVERSIZE, &on, sizeof(on));
			break;
		case 7:
			getsockopt(fd, SOL_MPA, 1 + dice(&me->seed, 12), value,
				   &len);
			break;
		case 8:
			getsockopt(fd, SOL_TCP, TCP_CORK, value, &len);
			break;
		case 9:
			/* From now on all connections are refused. */
			if (!mpa_start_as(fd, &start) ||
			    !setsockopt(fd, SOL_MPA, MPA_ACCEPT, NULL, 0) ||
			    !setsockopt(fd, SOL_MPA, MPA_REJECT, NULL, 0) ||
			    !mpa_attach(fd))
				odd(crowd, "start", 0);
			break;
		case 10:
			inq(fd);
			break;
		case 11:
			setsockopt(fd, SOL_TCP, TCP_NOTSENT_LOWAT, &size,
				   sizeof(size));
			break;
		case 12:
			poll_for(fd, POLLIN | POLLOUT, 0);
			break;
		default:
			setsockopt(fd, SOL_TCP, TCP_MAXSEG,
				   &(int){ 200 + dice(&me->seed, 1200) },
				   sizeof(int));
		}
		/* Leave time for the other threads. */
		if (!dice(&me->seed, 4))
			poll(NULL, 0, 1);
	}
	return NULL;
}

#define SENDERS		3
#define RECEIVERS	2
#define MEDDLERS	2

static void crowd_gather(struct crowd *crowd, struct member *members, u32 seed,
			 bool receive)
{
	int i;

	for (i = 0; i < SENDERS + MEDDLERS + RECEIVERS; i++) {
		members[i].crowd = crowd;
		members[i].seed = seed * 1000 + i;
		if (i >= SENDERS + MEDDLERS && !receive)
			break;
		pthread_create(&members[i].thread, NULL,
			       i < SENDERS ? sender :
			       i < SENDERS + MEDDLERS ? meddler : receiver,
			       members + i);
	}
}

static void crowd_join(struct member *members, int from, int to)
{
	while (from < to)
		pthread_join(members[from++].thread, NULL);
}

FIXTURE(races)
{
	struct crowd crowd;
	struct member members[SENDERS + MEDDLERS + RECEIVERS];
};

FIXTURE_SETUP(races)
{
	memset(&self->crowd, 0, sizeof(self->crowd));
	ASSERT_EQ(0, own_netns());
}

FIXTURE_TEARDOWN(races)
{
}

/* All accepted octets arrive, once and whole, whatever other threads do. */
TEST_F_TIMEOUT(races, calls_from_all_sides, 600)
{
	struct crowd *crowd = &self->crowd;
	unsigned int i;

	crowd->calls = 400;
	for (i = 0; i < rounds(4, 40); i++) {
		crowd->stop = false;
		crowd->sent = 0;
		crowd->got = 0;
		ASSERT_EQ(0, tcp_pair(i % 2 ? AF_INET6 : AF_INET, crowd->fd));
		patience(crowd->fd[1], 60);
		ASSERT_EQ(0, mpa_started_pair(crowd->fd,
					      i & 2 ? MPA_START_MARKERS : 0,
					      i & 4 ? 0 : MPA_START_MARKERS));
		crowd_gather(crowd, self->members, i, true);
		crowd_join(self->members, 0, SENDERS);
		crowd->stop = true;
		crowd_join(self->members, SENDERS, SENDERS + MEDDLERS);
		ASSERT_EQ(0, shutdown(crowd->fd[0], SHUT_WR));
		crowd_join(self->members, SENDERS + MEDDLERS,
			   ARRAY_SIZE(self->members));
		EXPECT_EQ(0, crowd->odd);
		EXPECT_EQ(0, crowd->bad);
		EXPECT_EQ(crowd->sent, crowd->got);
		EXPECT_EQ(crowd->sent, mpa_info(crowd->fd[0]).tx_ulpdus);
		EXPECT_EQ(crowd->got, mpa_info(crowd->fd[1]).rx_ulpdus);
		ASSERT_NE(0, crowd->got);
		close(crowd->fd[0]);
		close(crowd->fd[1]);
	}
}

/* Close one end while threads of both ends are in calls. */
TEST_F_TIMEOUT(races, end_while_others_are_inside, 600)
{
	struct crowd *crowd = &self->crowd;
	unsigned int i;
	u32 seed = 1;

	crowd->calls = 100000;
	crowd->may_end = true;
	for (i = 0; i < rounds(60, 1000); i++) {
		int end = dice(&seed, 2);

		crowd->stop = false;
		ASSERT_EQ(0, tcp_pair(AF_INET, crowd->fd));
		patience(crowd->fd[1], 60);
		ASSERT_EQ(0, mpa_started_pair(crowd->fd, 0,
					      i & 1 ? MPA_START_MARKERS : 0));
		crowd_gather(crowd, self->members, i, true);
		poll(NULL, 0, dice(&seed, 20));
		switch (dice(&seed, 3)) {
		case 0:
			shutdown(crowd->fd[end], SHUT_RDWR);
			break;
		case 1:
			hang_up(crowd->fd[end]);
			break;
		default:
			close(crowd->fd[end]);
			break;
		}
		/* A waiting thread holds the closed file. */
		poll(NULL, 0, dice(&seed, 3));
		shutdown(crowd->fd[!end], SHUT_RDWR);
		crowd->stop = true;
		crowd_join(self->members, 0, ARRAY_SIZE(self->members));
		EXPECT_EQ(0, crowd->bad);
		ASSERT_EQ(0, crowd->odd);
		close(crowd->fd[0]);
		close(crowd->fd[1]);
	}
}

/* ---- processes that are killed ---- */

/* Exchange records until the end. Return: 1 if a record was not as sent, otherwise 0. */
static int exchange(int fd, u32 seed)
{
	static u8 octets[MPA_ULPDU_MAX], seen[MPA_ULPDU_MAX];

	for (;;) {
		size_t len = 1 + dice(&seed, dice(&seed, 8) ? 3000 : 60000);
		ssize_t n;

		record_fill(octets, len);
		n = send(fd, octets, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			return 0;
		n = recv(fd, seen, sizeof(seen), MSG_DONTWAIT);
		if (!n)
			return 0;
		if (n < 0) {
			if (errno != EAGAIN)
				return 0;
			poll_for(fd, POLLIN, 5);
		} else if (!record_good(seen, n)) {
			return 1;
		}
	}
}

static pid_t exchanger(const int fd[2], int way, u32 seed)
{
	struct mpa_start start = {
		.role = way ? MPA_ROLE_RESPONDER : MPA_ROLE_INITIATOR,
		.revision = 1, .flags = seed & 1 ? MPA_START_MARKERS : 0,
	};
	pid_t pid = fork();

	if (pid)
		return pid;
	close(fd[!way]);
	/* A killed peer or an unloaded module is no failure. */
	if (mpa_attach(fd[way]))
		_exit(errno == ENOTCONN || errno == ENOENT ? 0 : 2);
	if (mpa_start_as(fd[way], &start))
		_exit(errno == ECONNRESET || errno == EPROTO ||
		      errno == ENOTCONN || errno == EPIPE ? 0 : 3);
	_exit(exchange(fd[way], seed));
}

/* Unload the module if it is unused; load it again in any case. */
static void try_to_unload(struct crowd *crowd, int ko)
{
	if (!syscall(SYS_delete_module, "mpa", O_NONBLOCK)) {
		crowd->got++;
		if (syscall(SYS_finit_module, ko, "", 0))
			odd(crowd, "finit_module", -1);
	} else if (errno != EWOULDBLOCK && errno != EBUSY) {
		odd(crowd, "delete_module", -1);
	} else {
		crowd->bad++;
	}
}

TEST_F_TIMEOUT(races, kill_either_end, 3600)
{
	const char *module = getenv("MPA_KO");
	int ko = module ? open(module, O_RDONLY) : -1;
	struct crowd *crowd = &self->crowd;
	unsigned int i;
	u32 seed = 7;

	for (i = 0; i < rounds(150, 10000); i++) {
		int way = dice(&seed, 2), status;
		pid_t pid[2];
		int fd[2];

		ASSERT_EQ(0, tcp_pair(AF_INET, fd));
		pid[0] = exchanger(fd, 0, seed);
		pid[1] = exchanger(fd, 1, seed);
		close(fd[0]);
		close(fd[1]);
		if (dice(&seed, 4))
			poll(NULL, 0, dice(&seed, 12));
		else
			sched_yield();
		kill(pid[way], SIGKILL);
		if (ko >= 0 && !dice(&seed, 4))
			try_to_unload(crowd, ko);
		waitpid(pid[way], NULL, 0);
		ASSERT_EQ(pid[!way], waitpid(pid[!way], &status, 0));
		ASSERT_EQ(0, status) TH_LOG("round %u", i);
	}
	EXPECT_EQ(0, crowd->odd);
	if (ko < 0)
		return;
	EXPECT_NE(0, crowd->bad);
	TH_LOG("%u killed, the module unloaded %lu times, refused %lu times", i,
	       crowd->got, crowd->bad);
	close(ko);
}

/* ---- thousands of connections ---- */

static int listen_at(struct sockaddr_in *addr, const struct mpa_start *start)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*addr);

	*addr = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	if (bind(fd, (struct sockaddr *)addr, len) || mpa_attach(fd) ||
	    listen(fd, 128) || getsockname(fd, (struct sockaddr *)addr, &len) ||
	    mpa_start_as(fd, start))
		return -1;
	return fd;
}

/* Ended connections are no longer counted. */
TEST_F_TIMEOUT(races, thousands_come_and_go, 600)
{
	struct mpa_start start = {
		.role = MPA_ROLE_RESPONDER, .revision = 1,
	};
	struct sockaddr_in addr;
	unsigned int i;
	u32 seed = 3;
	int listener;

	/* Allow an initiator, a responder, and some sockets that are closing. */
	ASSERT_EQ(0, sysctl_put("startup_max", 8));
	listener = listen_at(&addr, &start);
	ASSERT_LE(0, listener);
	patience(listener, 20);
	for (i = 0; i < rounds(1000, 10000); i++) {
		int fd[2] = { socket(AF_INET, SOCK_STREAM, 0) };
		int when = dice(&seed, 5);

		ASSERT_EQ(0, connect(fd[0], (struct sockaddr *)&addr,
				     sizeof(addr)));
		if (!when) {
			hang_up(fd[0]);
			fd[0] = -1;
		}
		fd[1] = accept(listener, NULL, NULL);
		ASSERT_LE(0, fd[1]) TH_LOG("%m");
		if (when == 1)
			hang_up(fd[1]);
		if (when > 2) {
			patience(fd[0], 20);
			patience(fd[1], 20);
			ASSERT_EQ(0, mpa_attach(fd[0]));
			ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_INITIATOR, 0))
				TH_LOG("connection %u: %m", i);
			ASSERT_TRUE(record_goes(fd[0], fd[1], 100));
		}
		if (when == 3)
			record_goes(fd[1], fd[0], 50);
		if (when != 1)
			hang_up(fd[1]);
		hang_up(fd[0]);
	}
	close(listener);
}

static void *unloader(void *arg)
{
	int ko = open(getenv("MPA_KO"), O_RDONLY);
	struct crowd *crowd = arg;

	while (!__atomic_load_n(&crowd->stop, __ATOMIC_RELAXED)) {
		try_to_unload(crowd, ko);
		poll(NULL, 0, 1);
	}
	close(ko);
	return NULL;
}

static int users(void)
{
	int fd = open("/sys/module/mpa/refcnt", O_RDONLY);
	char text[16] = "";

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		text[0] = '0';
	close(fd);
	return atoi(text);
}

/* The module can be unloaded if and only if no socket uses it. */
TEST_F_TIMEOUT(races, unload_meanwhile, 600)
{
	struct crowd *crowd = &self->crowd;
	long until = now_ms() + 300000;
	unsigned int i, without = 0;
	pthread_t thread;

	if (!getenv("MPA_KO"))
		SKIP(return, "MPA_KO does not name the module");
	/* Earlier tests' sockets are destroyed asynchronously. */
	while (users() && now_ms() < until)
		poll(NULL, 0, 50);
	EXPECT_EQ(0, users());
	until = now_ms() + 100000;
	pthread_create(&thread, NULL, unloader, crowd);
	/* On a busy machine, continue until both were seen. */
	for (i = 0; i < rounds(100, 2000) ||
	     ((!__atomic_load_n(&crowd->got, __ATOMIC_RELAXED) ||
	       !__atomic_load_n(&crowd->bad, __ATOMIC_RELAXED)) &&
	      now_ms() < until); i++) {
		int fd[2];

		ASSERT_EQ(0, tcp_pair(AF_INET, fd));
		patience(fd[1], 20);
		if (!mpa_attach(fd[0]) && !mpa_attach(fd[1])) {
			ASSERT_EQ(0, mpa_start(fd[1], MPA_ROLE_RESPONDER, 0));
			ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_INITIATOR, 0));
			ASSERT_TRUE(record_goes(fd[0], fd[1], 1000));
		} else {
			ASSERT_EQ(ENOENT, errno);
			without++;
		}
		if (i % 2) {
			close(fd[0]);
			close(fd[1]);
		} else {
			hang_up(fd[0]);
			hang_up(fd[1]);
		}
		if (i % 4 == 0)
			poll(NULL, 0, 2);
	}
	crowd->stop = true;
	pthread_join(thread, NULL);
	EXPECT_EQ(0, crowd->odd);
	EXPECT_NE(0, crowd->got);
	EXPECT_NE(0, crowd->bad);
	TH_LOG("unloaded %lu times, refused %lu times, %u without", crowd->got,
	       crowd->bad, without);
}

TEST_HARNESS_MAIN
