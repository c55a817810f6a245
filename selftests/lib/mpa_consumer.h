/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An in-kernel consumer (kmod/mpa_upcalls.c) that executes a test's commands, called
 * the user, and a connection between it and a program.
 */
#ifndef _MPA_CONSUMER_H
#define _MPA_CONSUMER_H

#include <poll.h>
#include <sys/ioctl.h>

#include "mpa_harness.h"
#include "mpa_receive.h"
#include "kmod/mpa_upcalls.h"

/* ---- the user ---- */

/* An upcall, as reported by the user. */
struct told {
	struct upcall_event is;
	u8 octets[MPA_ULPDU_MAX];
};

static inline int load_upcalls(void)
{
	if (!access("/dev/mpa_upcalls", R_OK))
		return 0;
	return kmod_do("insmod $MODULES/kmod/mpa_upcalls.ko");
}

static inline int user_open(void)
{
	return load_upcalls() ? -1 : open("/dev/mpa_upcalls", O_RDWR);
}

/* Read the next upcall, within @ms milliseconds. */
static inline bool next_upcall(int user, struct told *told, int ms)
{
	return poll_for(user, POLLIN, ms) == POLLIN &&
	       read(user, told, sizeof(*told)) >= (ssize_t)sizeof(told->is);
}

/* Read the next upcall of this kind, and skip others. */
static inline bool upcall_of(int user, enum upcall kind, struct told *told)
{
	while (next_upcall(user, told, 20000))
		if (told->is.upcall == kind)
			return true;
	return false;
}

/* Whether no upcall of this kind comes within 300 ms. */
static inline bool no_upcall(int user, enum upcall kind)
{
	static struct told told;

	while (next_upcall(user, &told, 300))
		if (told.is.upcall == kind)
			return false;
	return true;
}

static inline int user_call(int user, unsigned long call, void *arg)
{
	return ioctl(user, call, arg) ? errno : 0;
}

static inline int user_attach(int user, int fd)
{
	return user_call(user, UPCALLS_ATTACH, &fd);
}

static inline int user_how(int user, struct upcall_how how)
{
	return user_call(user, UPCALLS_HOW, &how);
}

static inline int user_start(int user, int role, unsigned int flags)
{
	struct mpa_start start = {
		.role = role, .revision = 1, .flags = flags,
	};

	return user_call(user, UPCALLS_START, &start);
}

/* Send a self-checking record: part of it as header, the rest as payload. */
static inline int user_send(int user, size_t len, size_t header, int memory, u64 *end)
{
	struct upcall_send send = {
		.header = (u64)(unsigned long)record_of(len),
		.header_len = header, .len = len - header, .memory = memory,
	};
	int err;

	send.payload = send.header + header;
	err = user_call(user, UPCALLS_SEND, &send);
	if (end)
		*end = send.end;
	return err;
}

/* ---- a connection: the user's end, and a program's ---- */

FIXTURE(consumer)
{
	int user;
	int fd[2];		/* program, user */
	struct peer peer;	/* used if the program has plain TCP */
	struct told *told;
	u8 *buf;
};

FIXTURE_VARIANT(consumer)
{
	unsigned int flags;	/* of both ends */
};

FIXTURE_VARIANT_ADD(consumer, plain) { 0 };
FIXTURE_VARIANT_ADD(consumer, markers) { MPA_START_MARKERS };

FIXTURE_SETUP(consumer)
{
	self->buf = malloc(BUF);
	self->told = malloc(sizeof(*self->told));
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, tcp_pair(AF_INET, self->fd));
	self->user = user_open();
	ASSERT_LE(0, self->user) {
		TH_LOG("needs kmod/mpa_upcalls.ko: selftests/kmod/build KERNEL");
	}
	patience(self->fd[0], 20);
}

FIXTURE_TEARDOWN(consumer)
{
	close(self->user);
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
	free(self->buf);
	free(self->told);
}

/* Whether the next ULPDU that the user receives is this self-checking record. */
static inline bool user_gets(struct _test_data_consumer *self, size_t len)
{
	return upcall_of(self->user, UPCALL_ULPDU, self->told) &&
	       self->told->is.len == len &&
	       record_good(self->told->octets, len);
}

static inline bool record_goes_in(struct _test_data_consumer *self, size_t len)
{
	return send(self->fd[0], record_of(len), len, 0) == (ssize_t)len &&
	       user_gets(self, len);
}

static inline bool program_gets(struct _test_data_consumer *self, size_t len)
{
	return recv(self->fd[0], self->buf, BUF, 0) == (ssize_t)len &&
	       record_good(self->buf, len);
}

static inline bool record_goes_out(struct _test_data_consumer *self, size_t len)
{
	return !user_send(self->user, len, 0, MEMORY_KVEC, NULL) &&
	       program_gets(self, len);
}

/* Start both ends in Full Operation, without startup frames. */
static inline int both_direct(struct _test_data_consumer *self, unsigned int flags)
{
	if (flags & MPA_START_MARKERS)
		flags |= MPA_START_TX_MARKERS;
	return mpa_attach(self->fd[0]) ||
	       mpa_start(self->fd[0], MPA_ROLE_DIRECT, flags) ||
	       user_attach(self->user, self->fd[1]) ||
	       user_start(self->user, MPA_ROLE_DIRECT, flags) ? -1 : 0;
}

/* Have the user connect to the program with a socket created by the kernel. */
static inline int user_connects(struct _test_data_consumer *self)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);
	u16 port;

	if (bind(listener, (void *)&addr, sizeof(addr)) || listen(listener, 5) ||
	    getsockname(listener, (void *)&addr, &len))
		return -1;
	port = ntohs(addr.sin_port);
	if (user_call(self->user, UPCALLS_CONNECT, &port))
		return -1;
	hang_up(self->fd[0]);
	self->fd[0] = accept(listener, NULL, NULL);
	patience(self->fd[0], 20);
	close(listener);
	return self->fd[0] < 0 ? -1 : 0;
}

/* Start the user in Full Operation; the program writes FPDUs with plain TCP. */
static inline int direct_to_peer(struct _test_data_consumer *self, unsigned int flags)
{
	self->peer = (struct peer){
		.fd = self->fd[0], .tx_markers = flags & MPA_START_MARKERS,
	};
	return user_attach(self->user, self->fd[1]) ||
	       user_start(self->user, MPA_ROLE_DIRECT, flags) ? -1 : 0;
}

#endif /* _MPA_CONSUMER_H */
