// SPDX-License-Identifier: GPL-2.0
/*
 * Hundreds of connections a second open and close during dumps, and with event
 * listeners: fast ones, and one that does not read.
 */

#include <dirent.h>
#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_many.h"

/**
 * struct traffic - a thread that opens and closes pairs of connections
 * @ip:		the address
 * @away:	it runs in its own network namespace, where one pair stays open
 * @pairs:	number of pairs; 0: until @stop
 * @stop:	set: the thread has to end
 * @done:	pairs opened and closed so far
 * @failed:	something failed
 */
struct traffic {
	const char *ip;
	bool away;
	unsigned int pairs;
	bool stop;
	unsigned int done;
	bool failed;
	pthread_t thread;
};

static bool traffic_continues(const struct traffic *traffic)
{
	return traffic->pairs ? traffic->done < traffic->pairs :
				!__atomic_load_n(&traffic->stop,
						 __ATOMIC_RELAXED);
}

/*
 * Open and close a pair. Every other connection ends with a RST, the others with a FIN
 * and then a RST.
 */
static bool come_and_go(struct traffic *traffic, int listener,
			const struct sockaddr_in *addr)
{
	int fd[2] = { -1, -1 };
	bool good;

	good = !full_pair(fd, listener, addr) &&
	       record_goes(fd[0], fd[1], 100);
	if (traffic->done % 2)
		shutdown(fd[0], SHUT_WR);
	hang_up(fd[0]);
	hang_up(fd[1]);
	return good;
}

static void *traffic_thread(void *data)
{
	int listener, stay[2] = { -1, -1 };
	struct traffic *traffic = data;
	struct sockaddr_in addr;

	if (traffic->away && own_netns())
		traffic->failed = true;
	listener = listener_open(&addr, traffic->ip);
	if (traffic->away && full_pair(stay, listener, &addr))
		traffic->failed = true;
	while (!traffic->failed && traffic_continues(traffic)) {
		if (!come_and_go(traffic, listener, &addr))
			traffic->failed = true;
		else
			__atomic_add_fetch(&traffic->done, 1, __ATOMIC_RELAXED);
	}
	if (traffic->away) {
		hang_up(stay[0]);
		hang_up(stay[1]);
	}
	close(listener);
	return NULL;
}

static void traffic_begin(struct traffic *traffic, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		pthread_create(&traffic[i].thread, NULL, traffic_thread,
			       traffic + i);
}

/* Return: the number of pairs, or -1. */
static int traffic_end(struct traffic *traffic, unsigned int n)
{
	bool failed = false;
	unsigned int i;
	int done = 0;

	for (i = 0; i < n; i++)
		__atomic_store_n(&traffic[i].stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < n; i++) {
		pthread_join(traffic[i].thread, NULL);
		failed |= traffic[i].failed;
		done += traffic[i].done;
	}
	return failed ? -1 : done;
}

static unsigned int traffic_so_far(const struct traffic *traffic,
				   unsigned int n)
{
	unsigned int i, done = 0;

	for (i = 0; i < n; i++)
		done += __atomic_load_n(&traffic[i].done, __ATOMIC_RELAXED);
	return done;
}

FIXTURE(some)
{
	struct crowd crowd;
	long kept;
	u16 family;
	u32 group;
};

FIXTURE_SETUP(some)
{
	struct family family;

	ASSERT_EQ(0, own_netns());
	family = mpa_family();
	ASSERT_NE(0, family.id);
	ASSERT_NE(0, family.events);
	self->family = family.id;
	self->group = family.events;
	self->kept = statistic("MpaMemKept");
	ASSERT_EQ(0, crowd_gather(&self->crowd, many(600, 100)));
}

/* Check that the memory of all connections is freed. */
FIXTURE_TEARDOWN(some)
{
	long until = now_ms() + 20000;

	crowd_leaves(&self->crowd);
	while (statistic("MpaMemKept") > self->kept && now_ms() < until)
		usleep(10000);
	EXPECT_GE(self->kept, statistic("MpaMemKept"));
	EXPECT_EQ(0, statistic("MpaCurrDirect"));
}

/* ---- dumps ---- */

TEST_F(some, dump_while_they_come_and_go)
{
	const unsigned int dumps = many(40, 5), pairs = many(1000, 100);
	struct traffic traffic[] = {
		{ .ip = "127.0.0.1" }, { .ip = "127.0.0.1" },
		{ .ip = "127.1.2.3", .away = true },
	};
	char buf[128];
	struct dump dump = {
		.nl = netlink_open(NETLINK_GENERIC), .request = ask_mpa(buf),
	};
	struct roll roll = { .most = self->crowd.n + 4096 };
	unsigned int n = 0, others = 0;
	const long from = now_ms();
	int done, err = 0;

	roll.cookie = calloc(roll.most, sizeof(u64));
	traffic_begin(traffic, ARRAY_SIZE(traffic));
	while ((n < dumps || !others ||
		traffic_so_far(traffic, 3) < pairs) &&
	       now_ms() < from + 60000) {
		err = roll_dump(&roll, &dump) ? errno : 0;
		if (err || roll.bad || roll_missing(&roll, &self->crowd) ||
		    roll_twice(&roll))
			break;
		n++;
		others += roll.n - self->crowd.n;
	}
	done = traffic_end(traffic, ARRAY_SIZE(traffic));
	printf("# %u dumps, with %u of those that came and went; %d pairs in %ld ms\n",
	       n, others, done, now_ms() - from);
	fflush(stdout);
	EXPECT_EQ(0, err);
	EXPECT_EQ(NULL, roll.bad) {
		TH_LOG("%s", roll.bad);
	}
	EXPECT_LE(pairs, done);
	EXPECT_LE(dumps, n);
	EXPECT_LT(0, others);
	EXPECT_EQ(0, roll_missing(&roll, &self->crowd));
	EXPECT_EQ(0, roll_twice(&roll));
	free(roll.cookie);
	mnl_socket_close(dump.nl);
}

/* ---- events ---- */

/**
 * struct listener - a listener for events
 * @nl:		its socket
 * @events:	number of events received
 * @last:	number of the last event
 * @gap:	events missing, by their numbers
 * @started:	number of MPA_CMD_STARTED_NTF
 * @closed:	number of MPA_CMD_CLOSED_NTF
 * @overrun:	number of reports that events were lost
 * @bad:	what was wrong with a message, or NULL
 */
struct listener {
	struct mnl_socket *nl;
	unsigned int events;
	u32 last;
	unsigned int gap;
	unsigned int started;
	unsigned int closed;
	unsigned int overrun;
	const char *bad;
};

/* Have this socket receive its namespace's events. */
static int listener_joins(struct mnl_socket *nl)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh;
	ssize_t n;

	nlh = genl_request(buf, mpa_family().id, MPA_CMD_EVENT_JOIN, NLM_F_ACK, 1);
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -1;
	n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
	return n < 0 ? -1 : mnl_cb_run(buf, n, 1, 0, NULL, NULL);
}

/*
 * Start a listener. @group: a multicast group, or 0 to request the events. @rcvbuf:
 * limit of memory for queued events.
 */
static int listener_begin(struct listener *listener, u32 group, int rcvbuf)
{
	int fd;

	*listener = (struct listener){ .nl = netlink_open(NETLINK_GENERIC) };
	fd = mnl_socket_get_fd(listener->nl);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof(rcvbuf)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof(rcvbuf));
	set_nonblock(fd);
	if (!group)
		return listener_joins(listener->nl);
	return mnl_socket_setsockopt(listener->nl, NETLINK_ADD_MEMBERSHIP,
				     &group, sizeof(group));
}

static int listener_hears(const struct nlmsghdr *nlh, void *data)
{
	struct listener *listener = data;
	struct conn conn;
	u32 number;

	conn_read(&conn, nlh);
	if (!conn.bad && !conn.attr[MPA_A_CONN_EVENT])
		conn.bad = "an event without a number";
	if (conn.bad) {
		listener->bad = conn.bad;
		return MNL_CB_OK;
	}
	number = conn_u32(&conn, MPA_A_CONN_EVENT);
	if (listener->last && number != listener->last + 1)
		listener->gap += number - listener->last - 1;
	listener->last = number;
	listener->events++;
	listener->started += command(nlh) == MPA_CMD_STARTED_NTF;
	listener->closed += command(nlh) == MPA_CMD_CLOSED_NTF;
	return MNL_CB_OK;
}

/* Read all that has arrived. */
static void listener_reads(struct listener *listener)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	ssize_t n;

	do {
		n = mnl_socket_recvfrom(listener->nl, buf, sizeof(buf));
		if (n > 0)
			mnl_cb_run(buf, n, 0, 0, listener_hears, listener);
		else if (n < 0 && errno == ENOBUFS)
			listener->overrun++;
	} while (n > 0 || (n < 0 && errno == ENOBUFS));
}

/* Wait until the listener has received the end of @closed connections, for at most 20 s. */
static void listener_waits(struct listener *listener, unsigned int closed)
{
	const long until = now_ms() + 20000;

	do {
		listener_reads(listener);
	} while (listener->closed < closed && now_ms() < until &&
		 poll_for(mnl_socket_get_fd(listener->nl), POLLIN, 1000) >= 0);
}

/* Wait until the listener has received event @number, for at most 20 s. */
static void listener_waits_for(struct listener *listener, u32 number)
{
	const long until = now_ms() + 20000;

	do {
		listener_reads(listener);
	} while (listener->last != number && now_ms() < until &&
		 poll_for(mnl_socket_get_fd(listener->nl), POLLIN, 1000) >= 0);
}

static void listener_end(struct listener *listener)
{
	mnl_socket_close(listener->nl);
}

/* Check that the listener has received all events of these pairs. */
#define EXPECT_ALL(who, pairs)						\
do {									\
	const struct listener *listener_ = (who);			\
	const unsigned int ends_ = 2 * (pairs);				\
									\
	EXPECT_EQ(NULL, listener_->bad);				\
	EXPECT_EQ(0, listener_->overrun);				\
	EXPECT_EQ(0, listener_->gap);					\
	EXPECT_EQ(ends_, listener_->started);				\
	EXPECT_EQ(ends_, listener_->closed);				\
} while (0)

#define PLENTY	(64 << 20)
#define LITTLE	16384

TEST_F(some, events_of_all_that_come_and_go)
{
	const unsigned int pairs = many(300, 50);
	struct traffic traffic[] = {
		{ .ip = "127.0.0.1", .pairs = pairs },
		{ .ip = "127.0.0.1", .pairs = pairs },
		{ .ip = "127.1.2.3", .pairs = pairs, .away = true },
	};
	struct listener listener;

	ASSERT_EQ(0, listener_begin(&listener, self->group, PLENTY));
	traffic_begin(traffic, ARRAY_SIZE(traffic));
	listener_waits(&listener, 4 * pairs);
	ASSERT_EQ(3 * pairs, traffic_end(traffic, ARRAY_SIZE(traffic)));
	listener_reads(&listener);
	EXPECT_ALL(&listener, 2 * pairs);
	listener_end(&listener);
}

/*
 * Events wait in a queue of at most 1024 until a work item sends them. Each socket
 * causes an event when it starts and one when it closes, and each pair's second socket
 * one for its RST: 1000 in total.
 */
#define IN_THE_QUEUE	400

TEST_F(some, none_is_lost_when_many_close_at_once)
{
	struct listener listener;
	struct crowd crowd;

	ASSERT_EQ(0, listener_begin(&listener, self->group, PLENTY));
	ASSERT_EQ(0, crowd_gather(&crowd, IN_THE_QUEUE));
	crowd_leaves(&crowd);
	listener_waits(&listener, crowd.n);
	EXPECT_ALL(&listener, crowd.n / 2);
	EXPECT_EQ(0, statistic("MpaEventsLost"));
	listener_end(&listener);
}

/* Set a socket filter that drops all events except the ends of connections. */
static int listener_filters(const struct listener *listener)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, NLMSG_HDRLEN),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MPA_CMD_CLOSED_NTF, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, ~0U),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog filter = { ARRAY_SIZE(code), code };

	return setsockopt(mnl_socket_get_fd(listener->nl), SOL_SOCKET,
			  SO_ATTACH_FILTER, &filter, sizeof(filter));
}

/* The filter drops an event, but later events still arrive. */
TEST_F(some, listener_with_a_filter_hears_the_others)
{
	const unsigned int pairs = many(300, 50);
	struct traffic traffic[] = {
		{ .ip = "127.0.0.1", .pairs = pairs },
		{ .ip = "127.0.0.1", .pairs = pairs },
	};
	struct listener listener;

	ASSERT_EQ(0, listener_begin(&listener, self->group, PLENTY));
	ASSERT_EQ(0, listener_filters(&listener));
	traffic_begin(traffic, ARRAY_SIZE(traffic));
	ASSERT_EQ(2 * pairs, traffic_end(traffic, ARRAY_SIZE(traffic)));
	listener_waits(&listener, 4 * pairs);
	EXPECT_EQ(NULL, listener.bad);
	EXPECT_EQ(0, listener.started);
	EXPECT_EQ(4 * pairs, listener.closed);
	listener_end(&listener);
}

/* Return: the socket's own count of losses. */
static u32 listener_lost(const struct listener *listener)
{
	u32 info[SK_MEMINFO_VARS] = {};
	socklen_t len = sizeof(info);

	getsockopt(mnl_socket_get_fd(listener->nl), SOL_SOCKET, SO_MEMINFO,
		   info, &len);
	return info[SK_MEMINFO_DROPS];
}

/* Send on all connections of the crowd. */
static bool crowd_talks(const struct crowd *crowd)
{
	unsigned int i;

	for (i = 0; i < crowd->n; i += 2)
		if (!record_goes(crowd->fd[i], crowd->fd[i + 1], 1000))
			return false;
	return true;
}

/*
 * When events are lost, the listener gets ENOBUFS once; the next event's number shows
 * how many. Other listeners and connections are not affected.
 */
TEST_F(some, listener_that_does_not_read_loses_events_and_nothing_else)
{
	const unsigned int pairs = many(300, 50);
	struct traffic traffic[] = {
		{ .ip = "127.0.0.1", .pairs = pairs },
		{ .ip = "127.0.0.1", .pairs = pairs },
	};
	struct traffic one = { .ip = "127.0.0.1", .pairs = 1 };
	struct listener quick, slow;

	ASSERT_EQ(0, listener_begin(&slow, self->group, LITTLE));
	ASSERT_EQ(0, listener_begin(&quick, self->group, PLENTY));
	traffic_begin(traffic, ARRAY_SIZE(traffic));
	EXPECT_TRUE(crowd_talks(&self->crowd));
	listener_waits(&quick, 4 * pairs);
	ASSERT_EQ(2 * pairs, traffic_end(traffic, ARRAY_SIZE(traffic)));
	EXPECT_ALL(&quick, 2 * pairs);

	/* Read the events that fitted the buffer. */
	listener_reads(&slow);
	EXPECT_EQ(NULL, slow.bad);
	EXPECT_EQ(1, slow.overrun);
	EXPECT_LT(0, slow.events);
	EXPECT_EQ(slow.events, slow.last);

	/* There is space again: all later events arrive. */
	traffic_begin(&one, 1);
	ASSERT_EQ(1, traffic_end(&one, 1));
	listener_waits(&quick, 4 * pairs + 2);
	listener_waits_for(&slow, quick.last);
	EXPECT_EQ(1, slow.overrun);
	EXPECT_EQ(quick.last, slow.last);
	EXPECT_EQ(quick.events, slow.events + slow.gap);
	EXPECT_EQ(slow.gap, listener_lost(&slow));
	EXPECT_EQ(0, quick.gap);
	EXPECT_EQ(0, listener_lost(&quick));
	listener_end(&quick);
	listener_end(&slow);
}

static bool all_counted(const struct listener *listener)
{
	return listener_lost(listener) == statistic("MpaEventsLost");
}

/* With NETLINK_BROADCAST_ERROR mpa is notified of the loss, too, and counts it. */
TEST_F(some, events_lost_are_counted_if_a_listener_asks_for_that)
{
	const unsigned int pairs = many(300, 50);
	struct traffic traffic = { .ip = "127.0.0.1", .pairs = pairs };
	struct listener quick, slow;
	int i, one = 1;

	ASSERT_EQ(0, listener_begin(&quick, self->group, PLENTY));
	ASSERT_EQ(0, listener_begin(&slow, self->group, LITTLE));
	ASSERT_EQ(0, mnl_socket_setsockopt(slow.nl, NETLINK_BROADCAST_ERROR,
					   &one, sizeof(one)));
	traffic_begin(&traffic, 1);
	ASSERT_EQ(pairs, traffic_end(&traffic, 1));
	listener_waits(&quick, 2 * pairs);
	EXPECT_LT(0, listener_lost(&slow));
	/* The work item may not have counted the last loss yet. */
	for (i = 0; i < 1000 && !all_counted(&slow); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	EXPECT_EQ(listener_lost(&slow), statistic("MpaEventsLost"));
	listener_end(&quick);
	listener_end(&slow);
}

/* ---- listeners of other users ---- */

#define STRANGERS	4

/**
 * struct delays - delays from the end of a connection to its event
 * @median:	in us
 * @worst:	in us
 * @kworkers:	processor time of all kworkers meanwhile, in ms
 * @lost:	number of events lost
 */
struct delays {
	long median;
	long worst;
	long kworkers;
	unsigned int lost;
};

/*
 * Act as a user in namespaces of its own: its listeners do not read, while connections
 * open and close. It runs at idle priority.
 */
static void other_listener(u32 group, unsigned int n, int ready)
{
	struct traffic traffic = { .ip = "127.0.0.1" };
	const struct rlimit files = { 4096, 4096 };
	const struct sched_param param = {};
	struct listener listener;

	/* Without SCHED_IDLE this process would get half of the processor time. */
	if (setrlimit(RLIMIT_NOFILE, &files) || unshare(CLONE_NEWUSER) ||
	    own_netns() || sched_setscheduler(0, SCHED_IDLE, &param))
		_exit(1);
	while (n--)
		if (listener_begin(&listener, group, 1))
			_exit(1);
	if (write(ready, "", 1) != 1)
		_exit(1);
	traffic_thread(&traffic);
	_exit(1);
}

/* Return: processor time of all kworkers so far, in ns. */
static u64 kworkers_run(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	u64 sum = 0;

	while ((entry = readdir(proc))) {
		char path[300], name[32] = "";
		unsigned long long ns;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = atoi(entry->d_name) ? fopen(path, "r") : NULL;
		if (!file)
			continue;
		if (!fgets(name, sizeof(name), file))
			name[0] = 0;
		fclose(file);
		if (strncmp(name, "kworker", 7))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/schedstat", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fscanf(file, "%llu", &ns) == 1)
			sum += ns;
		fclose(file);
	}
	closedir(proc);
	return sum;
}

static int by_size(const void *a, const void *b)
{
	const long *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Measure the delays of a listener in @group; 0: of one that requests events. */
static int delays_measure(struct delays *delays, u32 group)
{
	const unsigned int n = many(400, 50);
	struct listener listener = {};
	struct sockaddr_in addr;
	long delay[400], from;
	unsigned int i;
	int on, fd[2];
	u64 ran;

	on = listener_open(&addr, "127.0.0.1");
	if (listener_begin(&listener, group, PLENTY))
		return -1;
	ran = kworkers_run();
	for (i = 0; i < n; i++) {
		if (full_pair(fd, on, &addr))
			return -1;
		from = now_ns();
		hang_up(fd[0]);
		hang_up(fd[1]);
		listener_waits(&listener, 2 * i + 2);
		delay[i] = (now_ns() - from) / 1000;
	}
	delays->kworkers = (kworkers_run() - ran) / 1000000;
	delays->lost = listener.gap + listener.overrun;
	qsort(delay, n, sizeof(delay[0]), by_size);
	delays->median = delay[n / 2];
	delays->worst = delay[n - 1];
	close(on);
	listener_end(&listener);
	printf("# %s: %ld us, %ld us at most; %ld ms of kworkers; %u lost\n",
	       group ? "group" : "joined", delays->median, delays->worst,
	       delays->kworkers, delays->lost);
	fflush(stdout);
	return 0;
}

/*
 * Measure while other users have @n listeners each: first with a listener that requests
 * events, then with one in the group.
 */
static int delays_beside(struct delays *delays, u32 group, unsigned int n)
{
	pid_t pid[STRANGERS];
	int ready[2], i, err;
	char c;

	if (pipe(ready))
		return -1;
	for (i = 0; i < STRANGERS; i++) {
		pid[i] = fork();
		if (!pid[i])
			other_listener(group, n, ready[1]);
	}
	close(ready[1]);
	for (err = 0, i = 0; i < STRANGERS; i++)
		err |= read(ready[0], &c, 1) != 1;
	close(ready[0]);
	err = err || delays_measure(delays, 0) ||
	      delays_measure(delays + 1, group);
	for (i = 0; i < STRANGERS; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	return err ? -1 : 0;
}

TEST_F_TIMEOUT(some, listeners_of_other_users_cost_no_event, 300)
{
	struct delays alone[2] = {}, beside[2] = {};

	ASSERT_EQ(0, delays_beside(alone, self->group, 0));
	ASSERT_EQ(0, delays_beside(beside, self->group, many(1200, 100)));
	/* The group may lose events: netlink walks all listeners for each event. */
	EXPECT_EQ(0, beside[0].lost);
}

/* ---- names ---- */

/**
 * struct bad_peers - connections whose startup fails, and the threads for them
 * @listener:	listening socket, with MPA
 * @addr:	its address
 * @stop:	set: the threads have to end
 * @made:	number of connections opened
 * @thread:	connects
 * @server:	accepts
 */
struct bad_peers {
	int listener;
	struct sockaddr_in addr;
	bool stop;
	unsigned int made;
	pthread_t thread;
	pthread_t server;
};

static bool stopped(const struct bad_peers *bad_peers)
{
	return __atomic_load_n(&bad_peers->stop, __ATOMIC_RELAXED);
}

static void *bad_peers_thread(void *data)
{
	struct bad_peers *bad_peers = data;
	const struct sockaddr_in *addr = &bad_peers->addr;

	while (!stopped(bad_peers)) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (!connect(fd, (const void *)addr, sizeof(*addr))) {
			write_all(fd, "GET / HTTP/1.0\r\n\r\n  ", 20);
			__atomic_add_fetch(&bad_peers->made, 1, __ATOMIC_RELAXED);
		}
		hang_up(fd);
	}
	return NULL;
}

static void *bad_peers_server(void *data)
{
	struct bad_peers *bad_peers = data;

	while (!stopped(bad_peers)) {
		int fd = accept(bad_peers->listener, NULL, NULL);

		/* Wait: startup fails within this time. */
		if (fd >= 0 && poll_for(fd, POLLIN, 100) >= 0)
			close(fd);
	}
	return NULL;
}

/* Listen, with MPA started for the children. */
static int bad_peers_listen(struct bad_peers *bad_peers)
{
	bad_peers->listener = socket(AF_INET, SOCK_STREAM, 0);
	bad_peers->addr.sin_family = AF_INET;
	bad_peers->addr.sin_port = 0;
	patience(bad_peers->listener, 1);
	return bind(bad_peers->listener, (void *)&bad_peers->addr,
		    sizeof(bad_peers->addr)) ||
	       getsockname(bad_peers->listener, (void *)&bad_peers->addr,
			   &(socklen_t){ sizeof(bad_peers->addr) }) ||
	       mpa_attach(bad_peers->listener) ||
	       mpa_start(bad_peers->listener, MPA_ROLE_RESPONDER, 0) ||
	       listen(bad_peers->listener, 64) ? -1 : 0;
}

static int bad_peers_begin(struct bad_peers *bad_peers)
{
	return bad_peers_listen(bad_peers) ||
	       pthread_create(&bad_peers->thread, NULL, bad_peers_thread,
			      bad_peers) ||
	       pthread_create(&bad_peers->server, NULL, bad_peers_server,
			      bad_peers) ? -1 : 0;
}

static void bad_peers_end(struct bad_peers *bad_peers)
{
	__atomic_store_n(&bad_peers->stop, true, __ATOMIC_RELAXED);
	pthread_join(bad_peers->thread, NULL);
	pthread_join(bad_peers->server, NULL);
	close(bad_peers->listener);
}

/**
 * struct nameless - connections in dumps
 * @seen:	number of connections seen
 * @addresses:	number without one of the addresses
 * @ports:	number without one of the ports
 */
struct nameless {
	unsigned int seen;
	unsigned int addresses;
	unsigned int ports;
};

static int nameless_count(const struct nlmsghdr *nlh, struct dump *dump)
{
	const struct nlattr *attr[MPA_A_CONN_MAX + 1] = {}, *each;
	struct nameless *nameless = dump->data;

	mnl_attr_for_each(each, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(each) <= MPA_A_CONN_MAX)
			attr[mnl_attr_get_type(each)] = each;
	/* Skip listeners. */
	if (mnl_attr_get_u32(attr[MPA_A_CONN_STATE]) == MPA_STATE_IDLE)
		return MNL_CB_OK;
	nameless->seen++;
	nameless->addresses +=
		!mnl_attr_get_u32(attr[MPA_A_CONN_LOCAL_ADDR4]) ||
		!mnl_attr_get_u32(attr[MPA_A_CONN_REMOTE_ADDR4]);
	nameless->ports += !mnl_attr_get_u16(attr[MPA_A_CONN_LOCAL_PORT]) ||
			   !mnl_attr_get_u16(attr[MPA_A_CONN_REMOTE_PORT]);
	return MNL_CB_OK;
}

/* Dump for some seconds. Return: 0, or -1 with errno. */
static int nameless_look(struct nameless *nameless)
{
	const long until = now_ms() + 8000;
	struct dump dump = {
		.nl = netlink_open(NETLINK_GENERIC),
		.each = nameless_count, .data = nameless,
	};
	char buf[128];
	int err = 0;

	dump.request = ask_mpa(buf);
	while (!err && now_ms() < until)
		err = dump_run(&dump);
	mnl_socket_close(dump.nl);
	return err;
}

/* TCP's disconnect() clears the peer's port, but dumps must still show it. */
TEST(who_comes_and_fails_has_a_name)
{
	struct bad_peers bad_peers = {};
	struct nameless nameless = {};

	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, bad_peers_begin(&bad_peers));
	EXPECT_EQ(0, nameless_look(&nameless));
	bad_peers_end(&bad_peers);
	TH_LOG("%u connections, %u seen", bad_peers.made, nameless.seen);
	EXPECT_LT(0, nameless.seen);
	EXPECT_EQ(0, nameless.addresses);
	EXPECT_EQ(0, nameless.ports);
}

TEST_HARNESS_MAIN
