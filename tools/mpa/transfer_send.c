// SPDX-License-Identifier: GPL-2.0
/* Send a file as records (transfer.h). */
#include "transfer.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH_RECORDS	64
#define BATCH_OCTETS	(256 * 1024)	/* approximate size of a call */

struct upload {
	struct session *session;
	struct inbound in;
	struct sha256_ctx sha;
	struct progress progress;
	struct mpa_info before;
	const char *path;
	const char *name;
	int file;
	uint64_t size;
	bool grown;		/* the file has grown */
	uint64_t sent;
	uint64_t records;
	uint64_t place[BATCH_RECORDS];
	struct mmsghdr msgs[BATCH_RECORDS];
	struct iovec iov[BATCH_RECORDS][2];
	char *data;
	size_t room;		/* size of the data buffer */
	bool answered;
	struct transfer_done answer;
	char *text;		/* the receiver's text */
	int status;		/* exit status */
};

static int lost(struct upload *up, int err)
{
	up->status = up->status ?: transfer_lost(up->session, err);
	return -1;
}

static int wrong(struct upload *up, enum status result, const char *what)
{
	up->status = up->status ?: transfer_fail(up->session, result, "%s: %s", up->path, what);
	return -1;
}

/*
 * Read a message from the receiver. Return: 1 if more may follow, 0 if none has
 * arrived, -1 if none will follow.
 */
static int take(struct upload *up)
{
	ssize_t n = inbound_receive(&up->in, up->session->fd);

	if (n == -EAGAIN || n == -EINTR)
		return 0;
	if (n < 0)
		return lost(up, -n);
	session_active(up->session);
	if (!n)
		return wrong(up, STATUS_LOST,
			     "the peer closed the connection without an answer: was it started with --receive?");
	if (transfer_is(up->in.buf, n, TRANSFER_WANT, TRANSFER_PLACE))
		return 1;
	if (!transfer_is(up->in.buf, n, TRANSFER_DONE, sizeof(up->answer)))
		return wrong(up, STATUS_DIFFERS,
			     "the peer does not receive a file: was it started with --receive?");
	memcpy(&up->answer, up->in.buf, sizeof(up->answer));
	up->text = printable(up->in.buf + sizeof(up->answer), n - sizeof(up->answer));
	up->answered = true;
	return -1;
}

/* Read all messages that have arrived. Return: 0, or -1 if none will follow. */
static int take_all(struct upload *up)
{
	int more;

	do {
		more = take(up);
	} while (more > 0);
	return more;
}

/* Send records, and read the receiver's messages while waiting. */
static int put(struct upload *up, struct mmsghdr *msgs, int n)
{
	int done = 0, sent, err, ready;

	while (done < n) {
		sent = sendmmsg(up->session->fd, msgs + done, n - done,
				MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent > 0) {
			session_active(up->session);
			done += sent;
			continue;
		}
		err = errno;
		if (err == EAGAIN) {
			session_waits(up->session);
			ready = transfer_wait(up->session, POLLIN | POLLOUT);
			if (ready < 0)
				return lost(up, -ready);
			if (!(ready & ~POLLOUT))
				continue;
		}
		/* Prefer the receiver's answer to the errno. */
		if (err != EINTR && take_all(up))
			return -1;
		if (err != EAGAIN && err != EINTR)
			return lost(up, err);
	}
	return 0;
}

static int put_one(struct upload *up, void *octets, size_t len)
{
	struct iovec iov = { octets, len };
	struct mmsghdr msg = { .msg_hdr.msg_iov = &iov, .msg_hdr.msg_iovlen = 1 };

	return put(up, &msg, 1);
}

static int put_head(struct upload *up)
{
	struct transfer_head head = {
		.version = htobe32(TRANSFER_VERSION),
		.name_len = htobe32(strlen(up->name)),
		.size = htobe64(up->size),
	};
	char octets[sizeof(head) + TRANSFER_NAME_MAX];

	memcpy(head.tag, TRANSFER_HEAD, sizeof(head.tag));
	memcpy(octets, &head, sizeof(head));
	memcpy(octets + sizeof(head), up->name, strlen(up->name));
	return put_one(up, octets, sizeof(head) + strlen(up->name));
}

/* Read from the file. Return: the number of octets, less than requested only at the end. */
static ssize_t fill(struct upload *up, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(up->file, up->data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (!n)
			break;
		done += n;
	}
	return done;
}

/* Return: the data length that fills a segment. It may change. */
static size_t record_room(const struct upload *up)
{
	socklen_t len = sizeof(int);
	int mulpdu = MPA_MULPDU_MIN;

	getsockopt(up->session->fd, SOL_MPA, MPA_MULPDU, &mulpdu, &len);
	return mulpdu - TRANSFER_PLACE;
}

static int read_error(struct upload *up)
{
	up->status = transfer_fail(up->session, STATUS_LOCAL, "%s: %m", up->path);
	return -1;
}

/* Check whether the file has grown. Return: 0, or -1 on an error. */
static int see_end(struct upload *up)
{
	ssize_t len = fill(up, 1);

	up->grown = len > 0;
	return len < 0 ? read_error(up) : 0;
}

/* Send data. Return: 1 if there is more, 0 at the end, -1 on an error. */
static int put_data(struct upload *up)
{
	size_t each = record_room(up), want, at = 0;
	ssize_t len;
	int n = 0;

	if (up->sent == up->size)
		return see_end(up);
	want = each * BATCH_RECORDS;
	if (want > BATCH_OCTETS)
		want = BATCH_OCTETS / each * each;
	if (want > up->size - up->sent)
		want = up->size - up->sent;
	if (want > up->room) {
		up->data = need_memory(realloc(up->data, want));
		up->room = want;
	}
	len = fill(up, want);
	if (len < 0)
		return read_error(up);
	sha256_update(&up->sha, len, (const uint8_t *)up->data);
	for (; at < (size_t)len; n++) {
		size_t part = len - at < each ? len - at : each;

		up->place[n] = htobe64(up->sent + at);
		up->iov[n][0] = (struct iovec){ &up->place[n], TRANSFER_PLACE };
		up->iov[n][1] = (struct iovec){ up->data + at, part };
		up->msgs[n].msg_hdr.msg_iov = up->iov[n];
		up->msgs[n].msg_hdr.msg_iovlen = 2;
		at += part;
	}
	if (put(up, up->msgs, n))
		return -1;
	up->sent += len;
	up->records += n;
	progress_show(&up->progress, up->sent);
	return (size_t)len == want;
}

static int put_tail(struct upload *up, uint8_t *digest)
{
	struct transfer_tail tail = { .size = htobe64(up->sent) };

	sha256_digest(&up->sha, SHA256_DIGEST_SIZE, digest);
	memcpy(tail.tag, TRANSFER_TAIL, sizeof(tail.tag));
	memcpy(tail.digest, digest, SHA256_DIGEST_SIZE);
	return put_one(up, &tail, sizeof(tail));
}

/* Whether the file's length differs from the announced one. */
static bool has_changed(struct upload *up)
{
	if (up->size == TRANSFER_SIZE_UNKNOWN || (up->sent == up->size && !up->grown))
		return false;
	up->status = transfer_fail(up->session, STATUS_LOCAL,
				   "%s changed while it was sent: it had %llu octets, and now has %s (if a file grows, use --send - <FILE)",
				   up->path, (unsigned long long)up->size,
				   up->grown ? "more" : "fewer");
	return true;
}

static void hear(struct upload *up)
{
	int ready;

	while (!take_all(up)) {
		ready = transfer_wait(up->session, POLLIN);
		if (ready < 0) {
			lost(up, -ready);
			return;
		}
	}
}

/* Report the receiver's answer. */
static int judge(struct upload *up, const uint8_t *digest)
{
	uint32_t result = be32toh(up->answer.result);

	if (result == TRANSFER_UNWANTED)
		return transfer_fail(up->session, STATUS_REFUSED,
				     "%s: the receiver rejected the file: %s", up->path, up->text);
	if (result == TRANSFER_FAILED)
		return transfer_fail(up->session, STATUS_DIFFERS,
				     "%s: the receiver could not write it: %s", up->path, up->text);
	if (result > TRANSFER_FAILED)
		return transfer_fail(up->session, STATUS_DIFFERS,
				     "%s: unknown answer %u from the receiver: %s", up->path,
				     result, up->text);
	if (result != TRANSFER_WHOLE || be64toh(up->answer.size) != up->sent || !digest ||
	    memcmp(up->answer.digest, digest, SHA256_DIGEST_SIZE))
		return transfer_fail(up->session, STATUS_DIFFERS,
				     "%s: the received file differs%s%s", up->path,
				     *up->text ? "; the receiver says: " :
						 ": sizes or SHA-256 differ", up->text);
	return STATUS_OK;
}

static void tell(struct upload *up, const uint8_t *digest)
{
	double seconds = now() - up->progress.began;
	char *hex = transfer_hex(digest), *rate = octets_text(up->sent / seconds);

	note("%s: %llu octets in %llu records, %s/s, SHA-256 %s: complete", up->path,
	     (unsigned long long)up->sent, (unsigned long long)up->records, rate, hex);
	if (up->session->opt->json)
		event("file", up->session->peer,
		      json_pack("{s:s?, s:s, s:I, s:I, s:f, s:s}", "name", up->name,
				"direction", "sent", "octets", (json_int_t)up->sent,
				"records", (json_int_t)up->records, "seconds", seconds,
				"sha256", hex));
	free(rate);
	free(hex);
}

static int send_file(struct upload *up)
{
	uint8_t digest[SHA256_DIGEST_SIZE];
	bool complete = false;
	int more = 1;

	progress_begin(&up->progress, up->path, up->size == TRANSFER_SIZE_UNKNOWN ? 0 : up->size);
	if (put_head(up))
		more = -1;
	while (more > 0)
		more = put_data(up);
	progress_end(&up->progress);
	if (more >= 0) {
		bool changed = has_changed(up);

		/* The receiver answers even if the file has ended too early. */
		if (changed || !put_tail(up, digest)) {
			complete = !changed;
			shutdown(up->session->fd, SHUT_WR);
			hear(up);
		}
	}
	if (up->answered && !up->status)
		up->status = judge(up, complete ? digest : NULL);
	if (!up->status)
		tell(up, digest);
	return up->status;
}

/* Check this before there is a connection. */
void transfer_send_check(const struct session_options *opt)
{
	struct stat st;

	if (!strcmp(opt->send, "-"))
		return;
	if (stat(opt->send, &st) || access(opt->send, R_OK))
		die(STATUS_LOCAL, "%s: %m", opt->send);
	if (S_ISDIR(st.st_mode))
		die(STATUS_LOCAL,
		    "%s is a folder: pack it, for example tar -c %s | mpa connect --send -",
		    opt->send, opt->send);
}

/* Return: the exit status; 0 if the receiver has an identical file. */
int transfer_send(struct session *session)
{
	struct upload up = { .session = session, .path = session->opt->send };
	const char *slash = strrchr(up.path, '/');
	bool input = !strcmp(up.path, "-");
	struct stat st;
	int status;

	up.name = input ? "" : slash ? slash + 1 : up.path;
	up.file = input ? STDIN_FILENO : open(up.path, O_RDONLY | O_CLOEXEC);
	if (up.file < 0 || fstat(up.file, &st))
		return transfer_fail(session, STATUS_LOCAL, "%s: %m", up.path);
	/* Files in /proc have a size of 0. */
	up.size = S_ISREG(st.st_mode) && !input && st.st_size ? (uint64_t)st.st_size :
								TRANSFER_SIZE_UNKNOWN;
	sha256_init(&up.sha);
	inbound_open(&up.in, session->fd, false);
	status = send_file(&up);
	inbound_close(&up.in);
	if (!input)
		close(up.file);
	free(up.data);
	free(up.text);
	return status;
}
