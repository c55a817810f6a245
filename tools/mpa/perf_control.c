// SPDX-License-Identifier: GPL-2.0
/*
 * The control protocol. Each connection begins in plain TCP with a hello and its
 * answer, which are lines of text, padded with blanks to a fixed length:
 *
 *	MPA-PERF 1 CONTROL		a client begins
 *	MPA-PERF 1 DATA TOKEN INDEX	a connection of the run with this token
 *	MPA-PERF 1 OK
 *	MPA-PERF 1 NO reason
 *
 * The first number is the protocol version. After the hello, messages on a control
 * connection are a length of 4 octets, big-endian, and a JSON object. A data
 * connection starts MPA, or stays plain TCP if that is measured.
 */
#include "perf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char magic[] = "MPA-PERF ";

enum { MESSAGE_MAX = 65536 };

uint64_t perf_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Return: a formatted text. The caller frees it. */
char *perf_text(const char *format, ...)
{
	va_list args;
	char *text;
	int len;

	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0)
		need_memory(NULL);
	return text;
}

/* Wait until the socket is readable or writable. Return: 0 or a negative errno. */
static int wait_for(int fd, short events, uint64_t until)
{
	struct pollfd poll_for = { .fd = fd, .events = events };
	uint64_t now = perf_now();

	if (now >= until)
		return -ETIMEDOUT;
	if (poll(&poll_for, 1, (until - now) / NS_PER_MS + 1) < 0 && errno != EINTR)
		return -errno;
	return 0;
}

/* Read @len octets in time. Return: 0, or a negative errno; -ENODATA: end of stream. */
static int receive_all(int fd, void *to, size_t len, int timeout_ms)
{
	uint64_t until = perf_now() + timeout_ms * NS_PER_MS;
	size_t have = 0;
	int err;

	while (have < len) {
		ssize_t n = recv(fd, (char *)to + have, len - have, MSG_DONTWAIT);

		if (n > 0) {
			have += n;
			continue;
		}
		if (!n)
			return -ENODATA;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		err = wait_for(fd, POLLIN, until);
		if (err)
			return err;
	}
	return 0;
}

static int send_all(int fd, const void *from, size_t len, int timeout_ms)
{
	uint64_t until = perf_now() + timeout_ms * NS_PER_MS;
	size_t done = 0;
	int err;

	while (done < len) {
		ssize_t n = send(fd, (const char *)from + done, len - done,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			done += n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		err = wait_for(fd, POLLOUT, until);
		if (err)
			return err;
	}
	return 0;
}

static void hello_fill(char *hello, const char *format, va_list args)
{
	int len = snprintf(hello, PERF_HELLO, "%s%d ", magic, PERF_VERSION);

	len += vsnprintf(hello + len, PERF_HELLO - len, format, args);
	if (len > PERF_HELLO - 1)
		len = PERF_HELLO - 1;
	memset(hello + len, ' ', PERF_HELLO - len);
	hello[PERF_HELLO - 1] = '\n';
}

void perf_hello_make(char *hello, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	hello_fill(hello, format, args);
	va_end(args);
}

/* Whether the octets may begin a hello. */
bool perf_hello_may_be(const char *hello, size_t have)
{
	return !memcmp(hello, magic, have < strlen(magic) ? have : strlen(magic));
}

bool perf_hello_send(int fd, const char *format, ...)
{
	char hello[PERF_HELLO];
	va_list args;

	va_start(args, format);
	hello_fill(hello, format, args);
	va_end(args);
	return !send_all(fd, hello, sizeof(hello), PERF_PATIENCE_MS);
}

static enum status not_perf(const char *octets, size_t len, char **why)
{
	char *text = printable(octets, len);

	*why = perf_text("the peer is not an mpa perf server: it says \"%s\"", text);
	free(text);
	return STATUS_STARTUP;
}

/* Parse a complete answer. */
static enum status judge_answer(char *answer, char **why)
{
	size_t len = PERF_HELLO;
	int version, at = 0;
	char *text;

	answer[PERF_HELLO] = 0;
	while (len && (answer[len - 1] == ' ' || answer[len - 1] == '\n'))
		answer[--len] = 0;
	if (sscanf(answer + strlen(magic), "%d %n", &version, &at) < 1 || !at)
		return not_perf(answer, strlen(answer), why);
	text = answer + strlen(magic) + at;
	if (version != PERF_VERSION) {
		*why = perf_text("the server has version %d, not %d: use the same mpa at both ends",
				 version, PERF_VERSION);
		return STATUS_STARTUP;
	}
	if (!strcmp(text, "OK"))
		return STATUS_OK;
	text = printable(text, strlen(text));
	*why = perf_text("the server refuses: %s", text + (strncmp(text, "NO ", 3) ? 0 : 3));
	free(text);
	return STATUS_REFUSED;
}

/*
 * Read the answer to a hello. Check its first octets at once: a peer with another
 * protocol may never send the full length.
 */
enum status perf_hello_answer(int fd, char **why)
{
	uint64_t until = perf_now() + PERF_PATIENCE_MS * NS_PER_MS;
	char answer[PERF_HELLO + 1];
	size_t have = 0;
	int err = 0;

	while (!err && have < PERF_HELLO) {
		ssize_t n = recv(fd, answer + have, PERF_HELLO - have, MSG_DONTWAIT);

		if (n > 0) {
			have += n;
			if (!perf_hello_may_be(answer, have))
				return not_perf(answer, have, why);
		} else if (!n) {
			err = -ENODATA;
		} else if (errno == EAGAIN || errno == EINTR) {
			err = wait_for(fd, POLLIN, until);
		} else {
			err = -errno;
		}
	}
	if (!err)
		return judge_answer(answer, why);
	if (err == -ETIMEDOUT)
		*why = perf_text("the peer did not answer within %d s: is it an mpa perf server?",
				 PERF_PATIENCE_MS / 1000);
	else
		*why = perf_text("the peer closed the connection (%s): is it an mpa perf server?",
				 err == -ENODATA ? "end of the stream" : strerror(-err));
	return STATUS_STARTUP;
}

/* Send a message. Takes ownership of @message. */
bool perf_control_send(int fd, json_t *message)
{
	char *text = need_memory(json_dumps(need_memory(message), JSON_COMPACT));
	size_t len = strlen(text);
	uint32_t front = htonl(len);
	bool good;

	json_decref(message);
	good = !send_all(fd, &front, sizeof(front), PERF_PATIENCE_MS) &&
	       !send_all(fd, text, len, PERF_PATIENCE_MS);
	free(text);
	return good;
}

/* Read the next message, an object. Return: NULL on an error, with the reason in *why. */
json_t *perf_control_receive(int fd, int timeout_ms, char **why)
{
	json_error_t error;
	char *text = NULL;
	json_t *message;
	uint32_t front;
	size_t len;
	int err;

	err = receive_all(fd, &front, sizeof(front), timeout_ms);
	len = ntohl(front);
	if (!err && len > MESSAGE_MAX) {
		*why = perf_text("invalid message from the peer: %zu octets", len);
		return NULL;
	}
	if (!err) {
		text = need_memory(malloc(len + 1));
		err = receive_all(fd, text, len, PERF_PATIENCE_MS);
	}
	if (err) {
		free(text);
		*why = perf_text("the control connection has ended: %s",
				 err == -ENODATA ? "the peer closed it" : strerror(-err));
		return NULL;
	}
	message = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	free(text);
	if (json_is_object(message))
		return message;
	json_decref(message);
	*why = perf_text("invalid message from the peer: not a JSON object");
	return NULL;
}
