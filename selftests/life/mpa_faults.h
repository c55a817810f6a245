/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults: each operation is repeated, first with its first allocation or user copy
 * failing, then with its second, and so on to the last. Accepted octets must always
 * arrive, once and whole; errors must be documented; and a failed call can be repeated.
 *
 * The debug kernel checks that no fault leaks memory.
 */
#ifndef _MPA_FAULTS_H
#define _MPA_FAULTS_H

#include <sys/mman.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_debugfs.h"

#define BUF		(256 << 10)
#define FILE_LEN	100000

/* Maximum number of faults before an operation must succeed. */
#define FAULTS_MAX	2000

/* ---- the fixture ---- */

FIXTURE(faults)
{
	int fd[2];
	u8 *buf;
	unsigned int nth;
	unsigned int retries;
	bool hit;
	int file;
};

FIXTURE_SETUP(faults)
{
	self->fd[0] = -1;
	self->fd[1] = -1;
	self->buf = malloc(BUF);
	self->nth = 0;
	self->file = memfd_create("row", 0);
	ASSERT_NE(NULL, self->buf);
	ASSERT_EQ(FILE_LEN, write(self->file, record_row, FILE_LEN));
	fail_nth_fd = open(FAIL_NTH, O_RDWR);
	if (fail_nth_fd < 0 || faults_set_up("failslab") ||
	    faults_set_up("fail_page_alloc") ||
	    debugfs_put("fail_page_alloc", "min-order", "0") ||
	    debugfs_put("fail_page_alloc", "ignore-gfp-highmem", "N"))
		/* Do not return: the test itself would still run. */
		SKIP(_exit(255), "this kernel has no fault injection");
	debugfs_put("fail_usercopy", "verbose", "0");
}

FIXTURE_TEARDOWN(faults)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
	free(self->buf);
	close(self->file);
	close(fail_nth_fd);
}

/* Open a new connection, and arm the next fault. */
static inline bool next(struct _test_data_faults *self)
{
	if (self->nth && !self->hit)
		return false;
	if (self->nth++ == FAULTS_MAX)
		return false;
	self->retries = 0;
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
	if (tcp_pair(self->nth % 2 ? AF_INET : AF_INET6, self->fd))
		abort();
	patience(self->fd[0], 20);
	patience(self->fd[1], 20);
	return true;
}

/* Every other connection has markers. */
static inline unsigned int flags(const struct _test_data_faults *self)
{
	return self->nth & 2 ? MPA_START_MARKERS : 0;
}

static inline bool next_started(struct _test_data_faults *self)
{
	if (!next(self))
		return false;
	if (mpa_started_pair(self->fd, flags(self), flags(self)))
		abort();
	return true;
}

/* The operation succeeded without a fault, after one fault or more. */
#define EXPECT_WALKED() do {						\
	EXPECT_FALSE(self->hit);					\
	EXPECT_GT(self->nth, 1) TH_LOG("no fault came");		\
	TH_LOG("%u faults", self->nth - 1);				\
} while (0)

/* Whether this errno fits a call that copies from the program, and allocates. */
static inline bool no_memory_or_fault(int err)
{
	return no_memory(err) || err == EFAULT;
}

static inline bool records_go(struct _test_data_faults *self)
{
	return record_goes(self->fd[0], self->fd[1], 1000) &&
	       record_goes(self->fd[1], self->fd[0], 3000);
}

/*
 * Repeat a call after a fault. It succeeds, as there is only one fault. So a sending
 * function sends all its octets, or returns 0.
 */
static inline bool again(struct _test_data_faults *self)
{
	return no_memory_or_fault(errno) && !self->retries++;
}

static inline size_t send_sized(struct _test_data_faults *self, int fd, u8 *row, size_t len)
{
	ssize_t n;

	do {
		n = send(fd, row, len, MSG_NOSIGNAL);
	} while (n < 0 && again(self));
	return n == len ? len : 0;
}

#endif /* _MPA_FAULTS_H */
