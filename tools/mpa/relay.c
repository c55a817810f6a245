// SPDX-License-Identifier: GPL-2.0
/*
 * Relay records in both directions: from a descriptor to the peer, and from the peer to
 * another descriptor. Each direction is read only as fast as it can be written.
 */
#include "relay.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEND_RECORDS	64		/* records in a call */
#define SINK_HIGH	(1024 * 1024)	/* octets: above this, do not receive */
#define LINGER		1.0		/* seconds for the peer after the command's end */

struct relay {
	struct session *session;
	const struct session_options *opt;
	int fd;
	struct source *from;
	struct sink to;
	struct inbound in;
	struct child child;
	bool has_child;
	bool blocked;		/* the send buffer is full */
	bool tx_done;
	bool rx_done;
	bool hung_up;		/* POLLHUP was handled */
	double until;		/* time limit for the peer; 0: none */
	int status;		/* how the connection ended */
};

/* Queue the error after unwritten records, as all of them are JSON lines. */
static void tell_error(struct relay *r, enum status result, const char *why)
{
	json_t *fields = json_pack("{s:s, s:i}", "error", why, "status", result);
	char *line;

	if (r->has_child) {
		event("error", r->session->peer, fields);
		return;
	}
	line = event_line("error", r->session->peer, fields);
	sink_put(&r->to, line, strlen(line));
	free(line);
}

static void fail(struct relay *r, enum status result, const char *why)
{
	if (!r->status) {
		r->status = result;
		complain("%s: %s", r->session->peer, why);
		if (r->opt->json)
			tell_error(r, result, why);
	}
	r->tx_done = true;
	/* Close the pipe from the command: its output cannot be sent any longer. */
	if (r->has_child && r->child.out >= 0) {
		close(r->child.out);
		r->child.out = -1;
	}
	/* Records that arrived before a loss can still be read. */
	if (result != STATUS_LOST)
		r->rx_done = true;
}

static void fail_socket(struct relay *r, int err)
{
	struct mpa_info info;
	enum status status;
	char *why;

	start_info(r->fd, &info);
	if (err == EPIPE && !(info.flags & MPA_INFO_MAY_SEND)) {
		fail(r, STATUS_LOST,
		     "nothing could be sent: a responder must wait for the initiator's first record, and the peer closed without one");
		return;
	}
	status = start_error(r->fd, err, &why);
	fail(r, status, why);
	free(why);
}

/* No more octets will be sent. */
static void end_sending(struct relay *r)
{
	r->tx_done = true;
	if (!r->opt->no_shutdown && shutdown(r->fd, SHUT_WR) && errno != ENOTCONN)
		fail_socket(r, errno);
}

static void fail_idle(struct relay *r)
{
	char *why = session_why_idle(r->session);

	fail(r, STATUS_IDLE, why);
	free(why);
}

static ssize_t send_list(struct relay *r, struct record *list, size_t n)
{
	struct mmsghdr msgs[SEND_RECORDS] = {};
	struct iovec iov[SEND_RECORDS];
	int sent;

	for (size_t i = 0; i < n; i++) {
		iov[i] = (struct iovec){ (void *)list[i].octets, list[i].len };
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	if (r->from->form == FORM_STREAM) {
		ssize_t octets = send(r->fd, list->octets, list->len,
				      MSG_DONTWAIT | MSG_NOSIGNAL);

		if (octets > 0)
			source_sent(r->from, list->octets + octets - r->from->buf, 1);
		return octets;
	}
	sent = sendmmsg(r->fd, msgs, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent > 0)
		source_sent(r->from, list[sent - 1].end, sent);
	return sent;
}

/* Send records that were read. */
static void send_some(struct relay *r)
{
	struct record list[SEND_RECORDS];
	size_t n;

	while (!r->tx_done) {
		n = source_records(r->from, list, SEND_RECORDS);
		if (!n) {
			r->blocked = false;
			if (r->from->error)
				fail(r, STATUS_LOCAL, r->from->error);
			else if (r->from->eof)
				end_sending(r);
			return;
		}
		if (send_list(r, list, n) >= 0) {
			session_active(r->session);
			continue;
		}
		if (errno != EAGAIN && errno != EINTR) {
			fail_socket(r, errno);
			return;
		}
		if (errno == EAGAIN) {
			r->blocked = true;
			session_waits(r->session);
			return;
		}
	}
}

/* Whether a user who types lines receives a file transfer's records. */
static bool is_transfer(struct relay *r)
{
	const char *why = transfer_hint(r->in.buf, r->in.length[0]);

	if (!why || r->has_child || r->opt->form != FORM_LINES)
		return false;
	fail(r, STATUS_DIFFERS, why);
	return true;
}

static void put_records(struct relay *r)
{
	const char *at = r->in.buf;

	if (is_transfer(r))
		return;
	for (size_t i = 0; i < r->in.records; at += r->in.length[i++]) {
		char *line;

		if (!r->opt->json || r->has_child) {
			sink_record(&r->to, at, r->in.length[i]);
			continue;
		}
		line = event_record(r->session->peer, at, r->in.length[i], &r->in.info);
		sink_put(&r->to, line, strlen(line));
		free(line);
	}
}

static void receive_some(struct relay *r)
{
	ssize_t n = inbound_receive(&r->in, r->fd);

	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n > 0) {
		session_active(r->session);
		put_records(r);
		return;
	}
	r->rx_done = true;
	if (n < 0)
		fail_socket(r, -n);
	else if (r->opt->verbose)
		note("%s closed its direction", r->session->peer);
	if (r->opt->end_with_peer && !r->tx_done)
		end_sending(r);
}

static void sink_gone(struct relay *r, int err)
{
	r->to.broken = true;
	r->to.start = 0;
	r->to.end = 0;
	/* A command need not read its input. */
	if (!r->has_child) {
		errno = err;
		complain("standard output: %m");
		r->status = r->status ?: STATUS_LOCAL;
		r->tx_done = true;
		r->rx_done = true;
	}
}

static void flush_some(struct relay *r)
{
	int err = sink_flush(&r->to);

	if (err)
		sink_gone(r, err);
	if (r->has_child && r->rx_done && r->to.start == r->to.end && r->child.in >= 0) {
		sink_close(&r->to);
		close(r->child.in);
		r->child.in = -1;
		r->to.fd = -1;
	}
}

static bool sink_waits(const struct relay *r)
{
	return r->to.end > r->to.start;
}

/*
 * Return: ms to wait for the peer after a command has closed both pipes, or for the
 * command after the connection has failed; -1: no limit.
 */
static int patience(struct relay *r)
{
	double left;

	if (!(r->has_child && r->tx_done && (r->to.broken || r->status)))
		return -1;
	if (!r->until)
		r->until = now() + LINGER;
	left = r->until - now();
	if (left <= 0) {
		r->rx_done = true;
		if (r->status)
			sink_gone(r, EPIPE);
		return 0;
	}
	return left * 1000 + 1;
}

/* Return: the shorter of two timeouts in ms; a negative one is infinite. */
static int sooner(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

enum { POLL_FROM, POLL_SOCKET, POLL_TO, POLL_COUNT };

static void wait_for(struct relay *r, struct pollfd *fds)
{
	bool read = !r->tx_done && !r->blocked && !r->from->eof && source_has_room(r->from);
	short events = (r->blocked && !r->tx_done ? POLLOUT : 0) |
		       (!r->rx_done && r->to.end - r->to.start < SINK_HIGH ? POLLIN : 0);
	bool watch = sink_waits(r) || r->has_child;
	/* Detect the end of the connection even while the command is idle. */
	bool lookout = r->has_child && !r->status && !r->hung_up;
	bool over = r->tx_done && r->rx_done;

	/* Leave out unneeded descriptors: poll() would return at once each time. */
	fds[POLL_FROM] = (struct pollfd){ read ? r->from->fd : -1, POLLIN, 0 };
	fds[POLL_SOCKET] = (struct pollfd){ events || lookout ? r->fd : -1, events, 0 };
	fds[POLL_TO] = (struct pollfd){ watch && !r->to.broken ? r->to.fd : -1,
					sink_waits(r) ? POLLOUT : 0, 0 };
	if (poll(fds, POLL_COUNT, sooner(patience(r), over ? -1 : session_left(r->session))) < 0) {
		if (errno != EINTR)
			die(STATUS_LOCAL, "poll: %m");
		for (int i = 0; i < POLL_COUNT; i++)
			fds[i].revents = 0;
	}
}

/* Handle an event that was not requested, which has woken poll(). */
static void hung_up(struct relay *r, short ready)
{
	socklen_t len = sizeof(int);
	int err = 0;

	r->hung_up = true;
	if (ready & POLLERR && !getsockopt(r->fd, SOL_SOCKET, SO_ERROR, &err, &len) && err)
		fail_socket(r, err);
}

static void turn(struct relay *r)
{
	struct pollfd fds[POLL_COUNT];
	short ready;

	wait_for(r, fds);
	ready = fds[POLL_SOCKET].revents;
	if (ready & (POLLERR | POLLHUP)) {
		ready |= fds[POLL_SOCKET].events;
		if (!fds[POLL_SOCKET].events)
			hung_up(r, ready);
	}
	if (fds[POLL_TO].revents & POLLERR && !sink_waits(r))
		sink_gone(r, EPIPE);
	if (fds[POLL_FROM].revents) {
		source_read(r->from);
		send_some(r);
	} else if (ready & POLLOUT) {
		r->blocked = false;
		send_some(r);
	}
	if (ready & POLLIN && !r->rx_done)
		receive_some(r);
	if (!(r->tx_done && r->rx_done) && !session_left(r->session))
		fail_idle(r);
	flush_some(r);
}

/*
 * Reset the connection: with no unread octets, close() alone would be a regular end for
 * the peer. A lost connection needs no reset, nor does a failed transfer
 * (STATUS_DIFFERS): its protocol reports the failure.
 */
static void end_badly(struct relay *r)
{
	const struct linger reset = { .l_onoff = 1 };

	if (r->status == STATUS_DAMAGED || r->status == STATUS_IDLE || r->status == STATUS_LOCAL)
		setsockopt(r->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

/*
 * Report the status here: the peer cannot distinguish a command that has finished from
 * one that has crashed.
 */
static void tell_command(const struct session *session, int status)
{
	const char *name = status > SHELL_SIGNALLED ? strsignal(status - SHELL_SIGNALLED) : NULL;

	if (name)
		note("%s: the command exited with status %d (%s)", session->peer, status, name);
	else
		note("%s: the command exited with status %d", session->peer, status);
}

/* Return: the exit status: the command's, if there is a command and no other error. */
int relay(struct session *session)
{
	const struct session_options *opt = session->opt;
	struct relay r = {
		.session = session,
		.opt = opt,
		.fd = session->fd,
		.from = session->input,
		.has_child = opt->exec,
	};
	struct source output;
	int status;

	inbound_open(&r.in, r.fd, !opt->json || r.has_child);
	if (r.has_child) {
		child_start(&r.child, opt->exec, session);
		source_open(&output, r.child.out, opt->form);
		r.from = &output;
	}
	sink_open(&r.to, r.has_child ? r.child.in : STDOUT_FILENO, opt->form);
	if (!r.has_child)
		sink_output(&r.to, opt->raw);
	/* Send input that an earlier connection did not send. */
	send_some(&r);
	while (!r.tx_done || !r.rx_done || sink_waits(&r))
		turn(&r);
	end_badly(&r);
	sink_close(&r.to);
	inbound_close(&r.in);
	if (r.has_child) {
		source_close(&output);
		status = child_end(&r.child, r.status);
		if (status && !r.status)
			tell_command(session, status);
		r.status = r.status ?: status;
	}
	return r.status;
}
