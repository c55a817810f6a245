// SPDX-License-Identifier: GPL-2.0
/*
 * The memory that an idle connection uses in addition to plain TCP's: slab memory of
 * each end, before and after thousands of connections start; and the amount of memory
 * that is kept for reuse, and the time.
 */

#include <sys/resource.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_proc.h"

/* Slab object size of the context; nothing else may stay allocated. */
#define CONTEXT		512

/* Return: octets in use in all slab caches; -1 if the kernel does not show them. */
static double slab_octets(void)
{
	FILE *slabinfo = fopen("/proc/slabinfo", "r");
	unsigned long active, all, size;
	double octets = 0;
	char line[512];

	if (!slabinfo)
		return -1;
	while (fgets(line, sizeof(line), slabinfo))
		if (sscanf(line, "%*s %lu %lu %lu", &active, &all, &size) == 3)
			octets += (double)active * size;
	fclose(slabinfo);
	return octets;
}

/* With KASAN and similar checks objects are larger than requested. */
static bool slabs_are_plain(void)
{
	unsigned long all, objects, slab_pages, size = 0;
	FILE *slabinfo = fopen("/proc/slabinfo", "r");
	bool plain = false;
	char line[512];

	while (slabinfo && fgets(line, sizeof(line), slabinfo))
		if (sscanf(line, "kmalloc-512 %*u %lu %lu %lu %lu", &all,
			   &size, &objects, &slab_pages) == 4)
			plain = size == 512;
	if (slabinfo)
		fclose(slabinfo);
	return plain;
}

FIXTURE(idle)
{
	int (*fd)[2];
	unsigned int n;
};

FIXTURE_VARIANT(idle)
{
	bool frames;
};

FIXTURE_VARIANT_ADD(idle, direct) { false };
FIXTURE_VARIANT_ADD(idle, after_startup) { true };

FIXTURE_SETUP(idle)
{
	struct rlimit files = { 65536, 65536 };
	unsigned int i;

	self->n = slabs_are_plain() ? 10000 : 1000;
	self->fd = calloc(self->n, sizeof(*self->fd));
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	for (i = 0; i < self->n; i++)
		ASSERT_EQ(0, tcp_pair(AF_INET, self->fd[i]));
}

FIXTURE_TEARDOWN(idle)
{
	unsigned int i;

	for (i = 0; i < self->n; i++) {
		hang_up(self->fd[i][0]);
		hang_up(self->fd[i][1]);
	}
	free(self->fd);
}

TEST_F_TIMEOUT(idle, connections_are_cheap, 280)
{
	long kb, until = now_ms() + 250000;
	double before, each;
	unsigned int i;

	kb = free_kb();
	before = slab_octets();
	for (i = 0; i < self->n; i++) {
		int *fd = self->fd[i];

		if (variant->frames) {
			ASSERT_EQ(0, mpa_started_pair(fd, 0, 0));
		} else {
			ASSERT_EQ(0, mpa_attach(fd[0]));
			ASSERT_EQ(0, mpa_attach(fd[1]));
			ASSERT_EQ(0, mpa_start(fd[0], MPA_ROLE_DIRECT, 0));
			ASSERT_EQ(0, mpa_start(fd[1], MPA_ROLE_DIRECT, 0));
		}
	}
	/* Memory for startup is freed some grace periods later. */
	do
		each = (slab_octets() - before) / self->n / 2;
	while (each > CONTEXT * 1.05 && slabs_are_plain() &&
	       now_ms() < until && !poll(NULL, 0, 50));
	kb -= free_kb();
	TH_LOG("%u connections: each end %.0f octets of slab, %ld of memory",
	       self->n, each, kb * 1024 / self->n / 2);
	if (slabs_are_plain())
		EXPECT_GE(CONTEXT * 1.05, each);
	/* The connections still work. */
	EXPECT_TRUE(record_goes(self->fd[self->n / 2][0],
				self->fd[self->n / 2][1], 1000));
}

/* ---- pages kept for reuse ---- */

/* Maximum number of pages kept on each processor. */
#define KEPT_MAX	(128 * (sysconf(_SC_PAGESIZE) > 32768 ? \
				sysconf(_SC_PAGESIZE) : 32768))

FIXTURE(kept)
{
	int fd[2];
};

FIXTURE_SETUP(kept)
{
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, tcp_pair(AF_INET, self->fd));
	ASSERT_EQ(0, mpa_started_pair(self->fd, 0, 0));
}

FIXTURE_TEARDOWN(kept)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
}

static bool much_goes(int from, int to)
{
	static u8 seen[60000];
	const size_t len = sizeof(seen);
	unsigned int i;

	for (i = 0; i < 200; i++)
		if (send(from, record_of(len), len, MSG_NOSIGNAL) != len ||
		    recv(to, seen, len, MSG_WAITALL) != len ||
		    !record_good(seen, len))
			return false;
	return true;
}

/* Shrink caches, as under memory pressure. */
static bool shrink(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
	bool done = write(fd, "2", 1) == 1;

	close(fd);
	return done;
}

static long long kept(void)
{
	return statistic("MpaMemKept");
}

TEST_F(kept, memory_is_bounded_and_goes_with_the_traffic)
{
	long until;

	ASSERT_TRUE(much_goes(self->fd[0], self->fd[1]));
	EXPECT_LT(0, kept());
	EXPECT_GE(KEPT_MAX * sysconf(_SC_NPROCESSORS_CONF), kept());
	until = now_ms() + 60000;
	while (kept() && now_ms() < until)
		poll(NULL, 0, 100);
	EXPECT_EQ(0, kept());
	EXPECT_TRUE(much_goes(self->fd[0], self->fd[1]));
}

TEST_F(kept, memory_goes_at_once_when_it_is_short)
{
	unsigned int tries = 20;
	long begun;

	/* Kept pages are freed after two seconds. */
	do {
		ASSERT_TRUE(much_goes(self->fd[0], self->fd[1]));
		ASSERT_LT(0, kept());
		begun = now_ms();
		if (!shrink())
			SKIP(return, "nobody else may say that memory is short");
		EXPECT_EQ(0, kept());
	} while (now_ms() - begun > 1900 && --tries);
	EXPECT_LT(0, tries);
	EXPECT_TRUE(much_goes(self->fd[0], self->fd[1]));
}

TEST_HARNESS_MAIN
