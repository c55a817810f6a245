// SPDX-License-Identifier: GPL-2.0
/*
 * Receive a file as records (transfer.h). Records may arrive in any order: each is
 * written to its position in a temporary file, which is renamed at the end.
 */
#include "transfer.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define HASH_ROOM	(256 * 1024)
#define MODE_NEW	0666

struct download {
	struct session *session;
	struct inbound in;
	struct sha256_ctx sha;
	struct progress progress;
	struct transfer_tail tail;
	char *folder;		/* folder for the file */
	char *target;		/* path of the file; NULL: unknown so far */
	char *temporary;
	int file;
	bool out;		/* write to standard output */
	bool have_head;
	bool have_tail;
	uint64_t size;		/* the size in the head */
	uint64_t top;		/* end of the received data, at the highest position */
	uint64_t received;
	uint64_t hashed;	/* number of octets at the start that are in @sha */
	uint64_t records;
	enum transfer_result result;
	char *text;
	int status;
};

/* Fail the transfer. The text is also sent to the sender. */
static int over(struct download *down, enum transfer_result result, enum status status,
		const char *format, ...) __attribute__((format(printf, 4, 5)));

static int over(struct download *down, enum transfer_result result, enum status status,
		const char *format, ...)
{
	va_list args;

	if (down->status)
		return -1;
	va_start(args, format);
	if (vasprintf(&down->text, format, args) < 0)
		need_memory(NULL);
	va_end(args);
	down->result = result;
	progress_end(&down->progress);
	down->status = transfer_fail(down->session, status, "%s: %s",
				     down->target ?: down->session->opt->receive, down->text);
	return -1;
}

/* The peer's name must be a plain file name, and printable on a terminal. */
static bool name_good(const char *name, size_t len)
{
	return len && len <= TRANSFER_NAME_MAX && *name != '.' && !memchr(name, '/', len) &&
	       is_printable(name, len);
}

static int check_target(struct download *down)
{
	struct stat st;

	if (!down->session->opt->force && !lstat(down->target, &st))
		return over(down, TRANSFER_UNWANTED, STATUS_LOCAL,
			    "the file exists already: --force overwrites it");
	return 0;
}

static int take_head(struct download *down, const char *octets, size_t len)
{
	struct transfer_head head;
	const char *name = octets + sizeof(head);
	size_t name_len = len - sizeof(head);
	char *text;

	memcpy(&head, octets, sizeof(head));
	if (be32toh(head.version) != TRANSFER_VERSION)
		return over(down, TRANSFER_UNWANTED, STATUS_DIFFERS,
			    "the sender has version %u of the transfer, the receiver %u",
			    be32toh(head.version), TRANSFER_VERSION);
	if (down->have_head || be32toh(head.name_len) != name_len)
		return over(down, TRANSFER_DIFFERS, STATUS_DIFFERS,
			    "the first record of the file is malformed");
	down->have_head = true;
	down->size = be64toh(head.size);
	down->progress.size = down->size == TRANSFER_SIZE_UNKNOWN ? 0 : down->size;
	if (down->target || down->out)
		return 0;
	if (!name_good(name, name_len)) {
		text = printable(name, name_len);
		over(down, TRANSFER_UNWANTED, STATUS_DIFFERS,
		     "the sender's file name \"%s\" cannot be used: give a name with --receive FILE",
		     text);
		free(text);
		return -1;
	}
	if (asprintf(&down->target, "%s/%.*s", down->folder, (int)name_len, name) < 0)
		need_memory(NULL);
	return check_target(down);
}

static int take_tail(struct download *down, const char *octets)
{
	if (down->have_tail)
		return over(down, TRANSFER_DIFFERS, STATUS_DIFFERS, "the file has two end records");
	memcpy(&down->tail, octets, sizeof(down->tail));
	down->have_tail = true;
	return 0;
}

/* contiguous data, collected for one write */
struct run {
	struct iovec iov[INBOUND_RECORDS];
	int n;
	uint64_t place;
	uint64_t end;
};

static int write_run(struct download *down, struct run *run)
{
	uint64_t at = run->place;
	int i = 0;

	while (i < run->n) {
		ssize_t n = down->out ? writev(down->file, run->iov + i, run->n - i) :
					pwritev(down->file, run->iov + i, run->n - i, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return over(down, TRANSFER_FAILED, STATUS_LOCAL, "write: %m");
		at += n;
		for (; i < run->n && (size_t)n >= run->iov[i].iov_len; i++)
			n -= run->iov[i].iov_len;
		if (n) {
			run->iov[i].iov_base = (char *)run->iov[i].iov_base + n;
			run->iov[i].iov_len -= n;
		}
	}
	run->n = 0;
	return 0;
}

static int take_data(struct download *down, struct run *run, const char *octets, size_t len)
{
	uint64_t place, limit = down->have_head && down->size != TRANSFER_SIZE_UNKNOWN ?
				down->size : INT64_MAX;

	memcpy(&place, octets, sizeof(place));
	place = be64toh(place);
	octets += TRANSFER_PLACE;
	len -= TRANSFER_PLACE;
	if (!len || len > limit || place > limit - len)
		return over(down, TRANSFER_DIFFERS, STATUS_DIFFERS,
			    "there are octets after the end of the file");
	if (down->out && place != down->hashed)
		return over(down, TRANSFER_DIFFERS, STATUS_DIFFERS,
			    "the octets of the file do not arrive in order");
	if (place == down->hashed) {
		sha256_update(&down->sha, len, (const uint8_t *)octets);
		down->hashed += len;
	}
	if (run->n && place != run->end && write_run(down, run))
		return -1;
	if (!run->n)
		run->place = place;
	run->iov[run->n++] = (struct iovec){ (void *)octets, len };
	run->end = place + len;
	if (run->end > down->top)
		down->top = run->end;
	down->received += len;
	down->records++;
	return 0;
}

static int take_record(struct download *down, struct run *run, const char *octets, size_t len)
{
	if (transfer_is(octets, len, TRANSFER_HEAD, sizeof(struct transfer_head)))
		return take_head(down, octets, len);
	if (transfer_is(octets, len, TRANSFER_TAIL, sizeof(struct transfer_tail)))
		return take_tail(down, octets);
	if (len <= TRANSFER_PLACE || (unsigned char)*octets == TRANSFER_CONTROL)
		return over(down, TRANSFER_DIFFERS, STATUS_DIFFERS,
			    "the peer does not send a file: was it started with --send?");
	return take_data(down, run, octets, len);
}

static bool complete(const struct download *down)
{
	return down->have_head && down->have_tail &&
	       down->received >= be64toh(down->tail.size);
}

/* Report that the connection failed with this errno, to the peer as well if possible. */
static int broken(struct download *down, int err)
{
	enum status status;
	char *why;

	status = start_error(down->session->fd, err, &why);
	over(down, TRANSFER_DIFFERS, status, "%s", why);
	free(why);
	return -1;
}

static int take_batch(struct download *down)
{
	ssize_t n = inbound_receive(&down->in, down->session->fd);
	const char *at = down->in.buf;
	struct run run = {};

	if (n == -EAGAIN || n == -EINTR)
		return 0;
	if (n < 0)
		return broken(down, -n);
	session_active(down->session);
	if (!n)
		return over(down, TRANSFER_DIFFERS, STATUS_DIFFERS,
			    "the peer closed the connection before the file was complete");
	for (size_t i = 0; i < down->in.records; at += down->in.length[i++])
		if (take_record(down, &run, at, down->in.length[i]))
			return -1;
	progress_show(&down->progress, down->received);
	return run.n ? write_run(down, &run) : 0;
}

static void receive_all(struct download *down)
{
	int ready;
	char *why;

	while (!complete(down)) {
		ready = transfer_wait(down->session, POLLIN);
		if (ready == -ETIME) {
			why = session_why_idle(down->session);
			over(down, TRANSFER_UNWANTED, STATUS_IDLE, "%s", why);
			free(why);
			return;
		}
		if (ready < 0) {
			over(down, TRANSFER_FAILED, STATUS_LOCAL, "poll: %s", strerror(-ready));
			return;
		}
		if (take_batch(down))
			return;
	}
}

/* Hash octets that arrived out of order, which are read from the file. */
static int hash_rest(struct download *down, uint64_t size)
{
	char *buf = need_memory(malloc(HASH_ROOM));
	ssize_t n = 1;

	while (down->hashed < size) {
		uint64_t left = size - down->hashed;

		n = pread(down->file, buf, left < HASH_ROOM ? left : HASH_ROOM, down->hashed);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		sha256_update(&down->sha, n, (const uint8_t *)buf);
		down->hashed += n;
	}
	free(buf);
	return n < 0 ? over(down, TRANSFER_FAILED, STATUS_LOCAL, "read: %m") : 0;
}

static int verify(struct download *down, uint8_t *digest)
{
	uint64_t size = be64toh(down->tail.size);

	if (down->size != TRANSFER_SIZE_UNKNOWN && down->size != size)
		return over(down, TRANSFER_DIFFERS, STATUS_DIFFERS,
			    "the sender announced %llu octets at first, %llu at the end: did its file change?",
			    (unsigned long long)down->size, (unsigned long long)size);
	if (down->received != size || down->top != size)
		return over(down, TRANSFER_DIFFERS, STATUS_DIFFERS,
			    "%llu octets arrived, %llu were announced",
			    (unsigned long long)down->received, (unsigned long long)size);
	if (!down->out && hash_rest(down, size))
		return -1;
	sha256_digest(&down->sha, SHA256_DIGEST_SIZE, digest);
	if (memcmp(digest, down->tail.digest, SHA256_DIGEST_SIZE))
		return over(down, TRANSFER_DIFFERS, STATUS_DIFFERS,
			    "the file differs from what was sent: SHA-256 does not match");
	return 0;
}

/* Give the file its final name. */
static int finish(struct download *down)
{
	mode_t mask = umask(0);
	int err;

	umask(mask);
	fchmod(down->file, MODE_NEW & ~mask);
	if (down->session->opt->force) {
		err = rename(down->temporary, down->target);
	} else {
		err = renameat2(AT_FDCWD, down->temporary, AT_FDCWD, down->target,
				RENAME_NOREPLACE);
		/* Not all file systems support this. */
		if (err && errno == EINVAL) {
			err = link(down->temporary, down->target);
			if (!err)
				unlink(down->temporary);
		}
	}
	if (err)
		return over(down, TRANSFER_FAILED, STATUS_LOCAL, "rename: %m");
	tidy_file(NULL);
	free(down->temporary);
	down->temporary = NULL;
	return 0;
}

static void answer(struct download *down, const uint8_t *digest)
{
	size_t len = down->text ? strnlen(down->text, TRANSFER_TEXT_MAX) : 0;
	struct transfer_done done = {
		.result = htobe32(down->result),
		.size = htobe64(down->received),
	};
	char octets[sizeof(done) + TRANSFER_TEXT_MAX];
	int err;

	memcpy(done.tag, TRANSFER_DONE, sizeof(done.tag));
	memcpy(done.digest, digest, SHA256_DIGEST_SIZE);
	memcpy(octets, &done, sizeof(done));
	if (len)
		memcpy(octets + sizeof(done), down->text, len);
	err = transfer_put_one(down->session, octets, sizeof(done) + len);
	if (err && !down->status)
		down->status = transfer_lost(down->session, err);
	else if (!err)
		transfer_drain(down->session);
}

static void tell(struct download *down, const uint8_t *digest)
{
	double seconds = now() - down->progress.began;
	char *rate = octets_text(down->received / seconds), *hex = transfer_hex(digest);
	const char *name = down->target ?: "-";
	struct mpa_info info;

	start_info(down->session->fd, &info);
	note("%s: %llu octets in %llu records, %s/s, SHA-256 %s, %llu placed: complete", name,
	     (unsigned long long)down->received, (unsigned long long)down->records, rate, hex,
	     info.rx_placed);
	if (down->session->opt->json)
		event("file", down->session->peer,
		      json_pack("{s:s?, s:s, s:I, s:I, s:f, s:s, s:I}", "name", name,
				"direction", "received", "octets", (json_int_t)down->received,
				"records", (json_int_t)down->records, "seconds", seconds,
				"sha256", hex, "placed", (json_int_t)info.rx_placed));
	free(hex);
	free(rate);
}

/*
 * Parse the argument of --receive: the folder, and the path, unless the file gets the
 * sender's name. The caller frees both.
 */
static void place_of(const char *where, char **folder, char **target)
{
	const char *slash = strrchr(where, '/');
	struct stat st;

	*target = NULL;
	if ((!stat(where, &st) && S_ISDIR(st.st_mode)) || (slash && !slash[1])) {
		*folder = need_memory(strdup(where));
		for (size_t len = strlen(where); len > 1 && where[len - 1] == '/'; len--)
			(*folder)[len - 1] = 0;
	} else {
		*target = need_memory(strdup(where));
		*folder = need_memory(!slash ? strdup(".") :
				      strndup(where, slash == where ? 1 : slash - where));
	}
}

/* Check this before there is a connection. */
void transfer_receive_check(const struct session_options *opt)
{
	char *folder, *target;
	struct stat st;

	if (!strcmp(opt->receive, "-"))
		return;
	place_of(opt->receive, &folder, &target);
	if (access(folder, F_OK))
		die(STATUS_LOCAL, "the folder %s: %m", folder);
	if (access(folder, W_OK | X_OK))
		die(STATUS_LOCAL, "cannot write to the folder %s: %m", folder);
	if (target && !opt->force && !lstat(target, &st))
		die(STATUS_LOCAL, "%s exists already: --force overwrites it", target);
	free(folder);
	free(target);
}

/* Create the temporary file in the same folder. */
static int prepare(struct download *down)
{
	const char *where = down->session->opt->receive;

	down->out = !strcmp(where, "-");
	if (down->out) {
		down->file = STDOUT_FILENO;
		return 0;
	}
	place_of(where, &down->folder, &down->target);
	if (asprintf(&down->temporary, "%s/.mpa-XXXXXX", down->folder) < 0)
		need_memory(NULL);
	if (down->target && check_target(down))
		return -1;
	down->file = mkostemp(down->temporary, O_CLOEXEC);
	if (down->file < 0)
		return over(down, TRANSFER_FAILED, STATUS_LOCAL, "%s: %m", down->temporary);
	tidy_file(down->temporary);
	return 0;
}

static void release(struct download *down)
{
	if (!down->out && down->file >= 0)
		close(down->file);
	if (down->temporary && down->file >= 0)
		unlink(down->temporary);
	tidy_file(NULL);
	free(down->temporary);
	free(down->target);
	free(down->folder);
	free(down->text);
	inbound_close(&down->in);
}

/* Return: the exit status; 0 if the received file is complete and correct. */
int transfer_receive(struct session *session)
{
	struct download down = { .session = session, .file = -1 };
	uint8_t digest[SHA256_DIGEST_SIZE] = {};
	struct mpa_info info;
	int err = 0;

	sha256_init(&down.sha);
	inbound_open(&down.in, session->fd, true);
	progress_begin(&down.progress, session->opt->receive, 0);
	start_info(session->fd, &info);
	/* A responder must not send before it has received a record. */
	if (info.flags & MPA_INFO_MAY_SEND)
		err = transfer_put_one(session, TRANSFER_WANT, TRANSFER_PLACE);
	if (err)
		down.status = transfer_lost(session, err);
	else if (!prepare(&down))
		receive_all(&down);
	progress_end(&down.progress);
	if (!down.status && !verify(&down, digest) && (down.out || !finish(&down)))
		tell(&down, digest);
	if (down.status != STATUS_LOST)
		answer(&down, digest);
	err = down.status;
	release(&down);
	return err;
}
