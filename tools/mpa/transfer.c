// SPDX-License-Identifier: GPL-2.0
/* Shared by both ends of a file transfer. */
#include "transfer.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define DRAIN_SECONDS	5.0
#define LOOK_MS		10	/* interval between checks that have no event */

/* Whether a record has this tag, and at least its struct's length. */
bool transfer_is(const char *octets, size_t len, const char *tag, size_t least)
{
	return len >= least && !memcmp(octets, tag, TRANSFER_PLACE);
}

/*
 * Return: a hint for a command that expected other records; NULL: the record is not a
 * transfer's.
 */
const char *transfer_hint(const char *octets, size_t len)
{
	if (transfer_is(octets, len, TRANSFER_WANT, TRANSFER_PLACE) ||
	    transfer_is(octets, len, TRANSFER_DONE, sizeof(struct transfer_done)))
		return "the peer wants a file: send one with --send FILE";
	if (transfer_is(octets, len, TRANSFER_HEAD, sizeof(struct transfer_head)))
		return "the peer sends a file: receive it with --receive FILE";
	return NULL;
}

/*
 * Wait until the socket is ready. Return: poll()'s events, or a negative errno; -ETIME:
 * --idle expired.
 */
int transfer_wait(struct session *session, short events)
{
	struct pollfd fds = { session->fd, events, 0 };
	int n = poll(&fds, 1, session_left(session));

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n ? fds.revents : -ETIME;
}

/* Send a record; wait for space if necessary. Return: 0 or an errno. */
int transfer_put_one(struct session *session, const void *octets, size_t len)
{
	int ready;

	while (send(session->fd, octets, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return errno;
		session_waits(session);
		ready = transfer_wait(session, POLLOUT);
		if (ready < 0)
			return -ready;
	}
	session_active(session);
	return 0;
}

/*
 * Wait until the peer's TCP has acknowledged all octets: then a RST does not discard
 * them there.
 */
static void wait_arrived(int fd, double until)
{
	int left = 0;

	while (now() < until && !ioctl(fd, SIOCOUTQ, &left) && left)
		poll(NULL, 0, LOOK_MS);
}

/*
 * Read until the peer closes: close() with unread records would send a RST, and the
 * answer could be lost. After a damaged record reading fails.
 */
void transfer_drain(struct session *session)
{
	struct pollfd fds = { session->fd, POLLIN, 0 };
	double until = now() + DRAIN_SECONDS, left;
	char octets[MPA_ULPDU_MAX];
	ssize_t n = 1;

	shutdown(session->fd, SHUT_WR);
	while (n && (left = until - now()) > 0) {
		if (poll(&fds, 1, left * 1000 + 1) < 0 && errno != EINTR)
			return;
		n = recv(session->fd, octets, sizeof(octets), MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			wait_arrived(session->fd, until);
			return;
		}
	}
}

/* Return: a digest in hexadecimal. The caller frees it. */
char *transfer_hex(const uint8_t *digest)
{
	char *text = need_memory(malloc(2 * SHA256_DIGEST_SIZE + 1));

	for (int i = 0; i < SHA256_DIGEST_SIZE; i++)
		sprintf(text + 2 * i, "%02x", digest[i]);
	return text;
}

/* Report an error. Return: the status. */
int transfer_fail(struct session *session, enum status status, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		need_memory(NULL);
	va_end(args);
	complain("%s: %s", session->peer, text);
	if (session->opt->json)
		event("error", session->peer,
		      json_pack("{s:s?, s:i}", "error", text, "status", status));
	free(text);
	return status;
}

/* Report that the connection failed with this errno; ETIME means --idle. */
int transfer_lost(struct session *session, int err)
{
	enum status status = STATUS_IDLE;
	char *why;

	if (err == ETIME)
		why = session_why_idle(session);
	else
		status = start_error(session->fd, err, &why);
	transfer_fail(session, status, "%s", why);
	free(why);
	return status;
}
