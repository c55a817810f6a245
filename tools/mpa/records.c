// SPDX-License-Identifier: GPL-2.0
/*
 * Read records from a descriptor, and write records to one: as lines, with lengths, or
 * as a stream.
 */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOURCE_ROOM	(4 * 65536)	/* more than the longest record */
#define LENGTH_OCTETS	4

/* Store an error about invalid input in *error, and read no more records. */
static void wrong(struct source *from, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void wrong(struct source *from, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!from->error && vasprintf(&from->error, format, args) < 0)
		need_memory(NULL);
	va_end(args);
}

void source_open(struct source *from, int fd, enum form form)
{
	*from = (struct source){
		.fd = fd,
		.form = form,
		.buf = need_memory(malloc(SOURCE_ROOM)),
		.eof = fd < 0,
	};
}

void source_close(struct source *from)
{
	free(from->error);
	free(from->buf);
	from->buf = NULL;
}

bool source_has_room(const struct source *from)
{
	return from->end - from->start < SOURCE_ROOM;
}

/* Call read() once. It does not block if poll() has reported input. */
void source_read(struct source *from)
{
	ssize_t n;

	if (from->start) {
		memmove(from->buf, from->buf + from->start, from->end - from->start);
		from->end -= from->start;
		from->start = 0;
	}
	n = read(from->fd, from->buf + from->end, SOURCE_ROOM - from->end);
	if (n < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return;
		/* A terminal returns EIO if its other end is gone. */
		if (errno != EIO)
			wrong(from, "cannot read the input: %m");
		n = 0;
	}
	from->end += n;
	from->eof = !n;
}

/* Return: whether there is a complete line at @at, or the input's last line. */
static bool next_line(struct source *from, size_t at, struct record *record)
{
	const char *line = from->buf + at;
	size_t len = from->end - at;
	const char *end = memchr(line, '\n', len);

	if (end)
		len = end - line;
	if (len > MPA_ULPDU_MAX) {
		wrong(from,
		      "line %llu of the input is longer than a record can be (%d octets): use --records stream",
		      from->count + 1, MPA_ULPDU_MAX);
		return false;
	}
	if (!end && !(from->eof && len))
		return false;
	/* A record has at least one octet: an empty line is sent with its newline. */
	*record = (struct record){ line, len ?: 1, at + len + !!end };
	return true;
}

static bool next_length(struct source *from, size_t at, struct record *record)
{
	const unsigned char *octets = (unsigned char *)from->buf + at;
	size_t left = from->end - at, len;

	if (left >= LENGTH_OCTETS) {
		len = (size_t)octets[0] << 24 | octets[1] << 16 | octets[2] << 8 | octets[3];
		if (!len || len > MPA_ULPDU_MAX) {
			wrong(from,
			      "record %llu of the input has length %zu, expected 1 to %d octets (a length of 4 octets, big-endian, precedes each record)",
			      from->count + 1, len, MPA_ULPDU_MAX);
			return false;
		}
		if (left >= LENGTH_OCTETS + len) {
			*record = (struct record){ (char *)octets + LENGTH_OCTETS, len,
						   at + LENGTH_OCTETS + len };
			return true;
		}
	}
	if (from->eof && left)
		wrong(from, "the input ends inside record %llu", from->count + 1);
	return false;
}

static bool next_piece(struct source *from, size_t at, struct record *record)
{
	*record = (struct record){ from->buf + at, from->end - at, from->end };
	return record->len;
}

/*
 * Return: the number of complete unsent records, up to @most, in @list. They stay valid
 * until source_sent(). Records before an error come first, then the error is reported.
 */
size_t source_records(struct source *from, struct record *list, size_t most)
{
	static bool (*const next[])(struct source *from, size_t at, struct record *record) = {
		[FORM_LINES] = next_line,
		[FORM_LENGTH] = next_length,
		[FORM_STREAM] = next_piece,
	};
	unsigned long long count = from->count;
	size_t at = from->start, n;

	for (n = 0; n < most && next[from->form](from, at, &list[n]); n++) {
		at = list[n].end;
		/* Count the next record, for error messages. */
		from->count++;
	}
	from->count = count;
	return n;
}

void source_sent(struct source *from, size_t end, size_t records)
{
	from->start = end;
	from->count += records;
}

/*
 * O_NONBLOCK would affect other processes that share the descriptor, so open a pipe
 * again. If that fails, write at most PIPE_BUF octets at a time, which does not block
 * after POLLOUT.
 */
void sink_open(struct sink *to, int fd, enum form form)
{
	char path[sizeof("/proc/self/fd/") + 3 * sizeof(int)];
	struct stat st;
	int own;

	*to = (struct sink){ .fd = fd, .form = form, .most = SIZE_MAX };
	if (fd < 0 || fstat(fd, &st) || S_ISREG(st.st_mode) || fcntl(fd, F_GETFL) & O_NONBLOCK)
		return;
	to->is_socket = S_ISSOCK(st.st_mode);
	if (to->is_socket)
		return;
	to->most = PIPE_BUF;
	if (!S_ISFIFO(st.st_mode))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (own < 0)
		return;
	to->fd = own;
	to->most = SIZE_MAX;
	to->reopened = true;
}

/* Set up standard output, which other processes may share (mpa listen --fork). */
void sink_output(struct sink *to, bool raw)
{
	struct stat st;

	to->shared = to->form == FORM_LINES && !fstat(to->fd, &st) && !S_ISREG(st.st_mode);
	to->escape = to->form == FORM_LINES && !raw && isatty(to->fd);
}

void sink_close(struct sink *to)
{
	if (to->reopened)
		close(to->fd);
	free(to->buf);
	to->buf = NULL;
}

void sink_put(struct sink *to, const void *octets, size_t len)
{
	if (to->broken || !len)
		return;
	if (to->end + len > to->room && to->end) {
		memmove(to->buf, to->buf + to->start, to->end - to->start);
		to->end -= to->start;
		to->start = 0;
	}
	if (to->end + len > to->room) {
		to->room = 2 * (to->end + len);
		to->buf = need_memory(realloc(to->buf, to->room));
	}
	memcpy(to->buf + to->end, octets, len);
	to->end += len;
}

/* Write a line for a terminal, with control characters escaped. */
static void sink_escaped(struct sink *to, const char *octets, size_t len)
{
	char *text = printable_but(octets, octets[len - 1] == '\n' ? len - 1 : len, "\t\\");

	sink_put(to, text, strlen(text));
	sink_put(to, "\n", 1);
	free(text);
}

/* Write a record in the selected form. */
void sink_record(struct sink *to, const char *octets, size_t len)
{
	unsigned char length[LENGTH_OCTETS] = { len >> 24, len >> 16, len >> 8, len };

	if (to->escape) {
		sink_escaped(to, octets, len);
		return;
	}
	if (to->form == FORM_LENGTH)
		sink_put(to, length, sizeof(length));
	sink_put(to, octets, len);
	if (to->form == FORM_LINES && octets[len - 1] != '\n')
		sink_put(to, "\n", 1);
}

/*
 * Return: the number of octets for the next write(). Writes of up to PIPE_BUF octets to
 * a pipe are atomic, so that several processes' lines do not mix.
 */
static size_t sink_next(const struct sink *to)
{
	const char *from = to->buf + to->start, *end = NULL;
	size_t len = to->end - to->start;

	if (to->shared && len > PIPE_BUF) {
		end = memrchr(from, '\n', PIPE_BUF) ?:
		      memchr(from + PIPE_BUF, '\n', len - PIPE_BUF);
		len = end ? (size_t)(end + 1 - from) : len;
	}
	return len < to->most ? len : to->most;
}

/* Write all that does not block. Return: 0 or an errno. */
int sink_flush(struct sink *to)
{
	while (to->end > to->start) {
		size_t len = sink_next(to);
		ssize_t n;

		n = to->is_socket ? send(to->fd, to->buf + to->start, len,
					 MSG_DONTWAIT | MSG_NOSIGNAL) :
				    write(to->fd, to->buf + to->start, len);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : errno;
		to->start += n;
		/* The next write might block: wait for poll(). */
		if (to->most != SIZE_MAX)
			break;
	}
	if (to->start == to->end) {
		to->start = 0;
		to->end = 0;
	}
	return 0;
}
