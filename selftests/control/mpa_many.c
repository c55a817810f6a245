// SPDX-License-Identifier: GPL-2.0
/*
 * Ten thousand connections: the cost of a netlink dump, compared with inet_diag, which
 * "ss -ti" uses, and the delay that the dump causes for others.
 *
 * Times are asserted in a guest whose clock counts instructions (vm/run --icount): a
 * nanosecond is one instruction, and each run has the same result. In other emulated
 * guests a busy host stops a processor for milliseconds, which would hide a delay. The
 * counting guest has only one processor: it does not show contention between
 * processors, nor slow memory. But a task that holds a lock delays other tasks as long
 * as on another processor.
 */

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_many.h"

static bool clock_counts(void)
{
	return getenv("MPA_ICOUNT");
}

/* ---- ten thousand ---- */

#define MOST	10000	/* number of sockets, one for each end */

FIXTURE(many)
{
	struct crowd crowd;
	char mpa_buf[128], diag_buf[128];
	struct dump mpa, diag;
};

FIXTURE_SETUP(many)
{
	ASSERT_EQ(0, own_netns());
	self->mpa = (struct dump){
		.nl = netlink_open(NETLINK_GENERIC),
		.request = ask_mpa(self->mpa_buf),
	};
	self->diag = (struct dump){
		.nl = netlink_open(NETLINK_SOCK_DIAG),
		.request = ask_diag(self->diag_buf),
	};
	ASSERT_NE(0, self->mpa.request->nlmsg_type);
}

FIXTURE_TEARDOWN(many)
{
	crowd_leaves(&self->crowd);
	mnl_socket_close(self->mpa.nl);
	mnl_socket_close(self->diag.nl);
}

#define RUNS	5

static u64 middle(u64 *times)
{
	sort(times, RUNS);
	return times[RUNS / 2];
}

/*
 * Measure the memory that the reader needs for each dump. This is separate, as reading
 * the memory's size takes time.
 */
static int both_weigh(struct dump *a, struct dump *b)
{
	int err;

	a->weigh = true;
	b->weigh = true;
	err = dump_run(a) ?: dump_run(b);
	a->weigh = false;
	b->weigh = false;
	return err;
}

static void dump_show(const char *who, const struct dump *dump, const u64 *ns)
{
	printf("# %s: %u us (%u to %u), %zu octets, at most %zu in an answer, %zu of memory\n",
	       who, (u32)(ns[RUNS / 2] / 1000), (u32)(ns[0] / 1000),
	       (u32)(ns[RUNS - 1] / 1000), dump->octets, dump->largest,
	       dump->memory);
	fflush(stdout);
}

static double per(u64 a, u64 b)
{
	return (double)a / b;
}

/* Without CAP_NET_ADMIN inet_diag reports only TCP. Print this cost for comparison. */
static int bare_diag(struct dump *diag, u64 mpa_ns, size_t mpa_octets)
{
	struct dump bare = *diag;
	u64 ns[RUNS];
	int i, err;

	for (i = 0; i < RUNS; i++) {
		if (seteuid(65534))
			return -1;
		err = dump_run(&bare);
		if (seteuid(0) || err)
			return -1;
		ns[i] = bare.ns;
	}
	middle(ns);
	dump_show("inet_diag without mpa's part", &bare, ns);
	printf("# ratios to that: time %.2f, octets %.2f\n",
	       per(mpa_ns, ns[RUNS / 2]), per(mpa_octets, bare.octets));
	fflush(stdout);
	return 0;
}

TEST_F(many, dump_of_ten_thousand)
{
	struct dump *mpa = &self->mpa, *diag = &self->diag;
	struct roll roll = { .most = many(MOST, 1000) };
	u64 mpa_ns[RUNS], diag_ns[RUNS];
	int i;

	ASSERT_EQ(0, crowd_gather(&self->crowd, roll.most));
	roll.cookie = calloc(roll.most, U64);
	ASSERT_EQ(0, roll_dump(&roll, mpa));
	EXPECT_EQ(NULL, roll.bad);
	EXPECT_EQ(self->crowd.n, roll.n);
	EXPECT_EQ(0, memcmp(self->crowd.cookie, roll.cookie, roll.n * U64));
	free(roll.cookie);

	mpa->each = NULL;
	ASSERT_EQ(0, both_weigh(mpa, diag));
	for (i = 0; i < RUNS; i++) {
		ASSERT_EQ(0, dump_run(mpa));
		ASSERT_EQ(0, dump_run(diag));
		ASSERT_EQ(self->crowd.n, mpa->messages);
		ASSERT_EQ(self->crowd.n, diag->messages);
		mpa_ns[i] = mpa->ns;
		diag_ns[i] = diag->ns;
	}
	middle(mpa_ns);
	middle(diag_ns);
	dump_show("mpa", mpa, mpa_ns);
	dump_show("inet_diag", diag, diag_ns);
	printf("# ratios: time %.2f, octets %.2f, memory %.2f\n",
	       per(mpa_ns[RUNS / 2], diag_ns[RUNS / 2]),
	       per(mpa->octets, diag->octets), per(mpa->memory, diag->memory));
	ASSERT_EQ(0, bare_diag(diag, mpa_ns[RUNS / 2], mpa->octets));

	EXPECT_GE(diag->octets * 3 / 2, mpa->octets);
	EXPECT_GE(diag->memory * 3 / 2, mpa->memory);
	if (clock_counts())
		EXPECT_GE(diag_ns[RUNS / 2] * 3 / 2, mpa_ns[RUNS / 2]);
}

/* Return: the minimum time in ns to look up an unknown cookie; 0 on failure. */
static u64 look_up_takes(struct mnl_socket *nl)
{
	char buf[128];
	struct dump ask = {
		.nl = nl, .request = genl_request(buf, mpa_family().id,
						  MPA_CMD_CONN_GET, 0, 1),
	};
	u64 ns = ~0ULL, from;
	int i;

	mnl_attr_put_u64(ask.request, MPA_A_CONN_COOKIE, ~0ULL);
	for (i = 0; i < 200; i++) {
		from = now_ns();
		if (!dump_run(&ask) || errno != ENOENT)
			return 0;
		from = now_ns() - from;
		ns = from < ns ? from : ns;
	}
	return ns;
}

/*
 * Any user may send thousands of requests at once. Generic netlink serves no other
 * request until all of them are answered.
 */
TEST_F(many, look_up_takes_no_longer_beside_many)
{
	u64 alone, beside;

	alone = look_up_takes(self->mpa.nl);
	ASSERT_EQ(0, crowd_gather(&self->crowd, many(MOST, 1000)));
	beside = look_up_takes(self->mpa.nl);
	printf("# a look-up takes %llu us alone, %llu us beside %u\n", alone / 1000,
	       beside / 1000, self->crowd.n);
	fflush(stdout);
	ASSERT_LT(0, alone);
	EXPECT_GT(alone * 4 + 100000, beside);
}

/* ---- the delay for others ---- */

#define TRIES		5
#define PERIOD		250000		/* ns between the starts of two rounds */
#define STALL_MAX	1000000		/* longest permitted delay, in ns */

/**
 * struct load - a thread that dumps continuously
 * @dump:	its dump; NULL: it does nothing
 * @stop:	set: the thread has to end
 * @dumps:	number of complete dumps
 * @failed:	a dump has failed
 */
struct load {
	struct dump *dump;
	bool stop;
	unsigned int dumps;
	bool failed;
	pthread_t thread;
};

static void *load_thread(void *data)
{
	struct load *load = data;

	while (load->dump && !__atomic_load_n(&load->stop, __ATOMIC_RELAXED)) {
		if (dump_run(load->dump)) {
			load->failed = true;
			break;
		}
		__atomic_add_fetch(&load->dumps, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/*
 * Send a record to the peer, and one back. Return: ns since the round was due, with the
 * delay until this thread ran.
 */
static u64 round_takes(const int fd[2], u64 due)
{
	const struct timespec when = { due / 1000000000, due % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
	if (!record_goes(fd[0], fd[1], 16) || !record_goes(fd[1], fd[0], 16))
		return ~0ULL;
	return now_ns() - due;
}

/**
 * struct stalls - duration of rounds
 * @ns:		duration of each round
 * @n:		their number
 * @worst:	the longest round of each try
 */
struct stalls {
	u64 ns[100000];
	unsigned int n;
	u64 worst[TRIES];
};

/* Continue until a dump was completed meanwhile; without a load, for @rounds rounds. */
static bool try_continues(const struct load *load, unsigned int i,
			  unsigned int dumps, unsigned int rounds)
{
	if (!load->dump)
		return i < rounds;
	return __atomic_load_n(&load->dumps, __ATOMIC_RELAXED) < dumps + 2 &&
	       !load->failed;
}

/* Run a try. Return: the number of rounds. */
static unsigned int try_rounds(const int fd[2], const struct load *load,
			       unsigned int rounds, struct stalls *stalls,
			       u64 *worst)
{
	const unsigned int dumps = __atomic_load_n(&load->dumps,
						   __ATOMIC_RELAXED);
	u64 due = now_ns(), ns;
	unsigned int i;

	*worst = 0;
	for (i = 0; try_continues(load, i, dumps, rounds); i++) {
		due += PERIOD;
		if (due < now_ns())
			due = now_ns() + PERIOD;
		ns = round_takes(fd, due);
		if (ns > *worst)
			*worst = ns;
		if (stalls->n < ARRAY_SIZE(stalls->ns))
			stalls->ns[stalls->n++] = ns;
	}
	return i;
}

/* As try_rounds(), during dumps. Return: 0 if a dump failed. */
static unsigned int try_load(const int fd[2], struct dump *dump,
			     unsigned int rounds, struct stalls *stalls, int i)
{
	struct load load = { .dump = dump };

	pthread_create(&load.thread, NULL, load_thread, &load);
	real_time(true);
	rounds = try_rounds(fd, &load, rounds, stalls, stalls->worst + i);
	real_time(false);
	__atomic_store_n(&load.stop, true, __ATOMIC_RELAXED);
	pthread_join(load.thread, NULL);
	return load.failed ? 0 : rounds;
}

static void stalls_show(const char *who, struct stalls *stalls)
{
	sort(stalls->ns, stalls->n);
	sort(stalls->worst, TRIES);
	printf("# %-10s %u rounds: median %llu us, 99.9%% %llu us, longest of a try %llu-%llu us\n",
	       who, stalls->n, stalls->ns[stalls->n / 2] / 1000,
	       stalls->ns[(u64)stalls->n * 999 / 1000] / 1000,
	       stalls->worst[0] / 1000, stalls->worst[TRIES - 1] / 1000);
	fflush(stdout);
}

/*
 * One thread has both ends. It sleeps between the rounds, and has priority over all
 * others. So it waits only for a lock, or until the kernel yields the processor; a dump
 * yields when a reply of 32 KiB is full.
 */
TEST_F(many, dump_stalls_nobody)
{
	static struct stalls none, mpa, diag;
	unsigned int rounds;
	const int *fd;
	int i;

	if (!clock_counts())
		SKIP(return, "needs a clock that counts instructions");
	ASSERT_EQ(0, crowd_gather(&self->crowd, MOST));
	/* Use a pair in the middle of the dump. */
	fd = self->crowd.fd + MOST / 2;
	for (i = 0; i < TRIES; i++) {
		rounds = try_load(fd, &self->mpa, 0, &mpa, i);
		ASSERT_NE(0, rounds);
		ASSERT_NE(0, try_load(fd, &self->diag, 0, &diag, i));
		ASSERT_NE(0, try_load(fd, NULL, rounds, &none, i));
	}
	stalls_show("no dump:", &none);
	stalls_show("mpa:", &mpa);
	stalls_show("inet_diag:", &diag);
	EXPECT_GE(none.worst[TRIES - 1] + STALL_MAX, mpa.worst[TRIES - 1]);
}

TEST_HARNESS_MAIN
