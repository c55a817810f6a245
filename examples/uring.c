// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Send each record back, with io_uring.
 *
 *	uring 4242 &
 *	echo client localhost 4242 hello
 *
 * It shows one multishot accept for all connections, and receive and send operations of
 * one record each. Receives do not set MSG_WAITALL: io_uring would then join records.
 * It needs Linux 5.19 and liburing.
 */
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpa_socket.h>

enum { ENTRIES = 256 };

/* A connection; it has one outstanding operation at a time. */
struct connection {
	int fd;
	bool sending;
	char record[MPA_ULPDU_MAX];
};

/* Return: a submission queue entry. Submit the queue first if it is full. */
static struct io_uring_sqe *next_entry(struct io_uring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	while (!sqe) {
		io_uring_submit(ring);
		sqe = io_uring_get_sqe(ring);
	}
	return sqe;
}

/* Completions of accept have no connection. */
static void accept_all(struct io_uring *ring, int listener)
{
	struct io_uring_sqe *sqe = next_entry(ring);

	io_uring_prep_multishot_accept(sqe, listener, NULL, NULL, 0);
	io_uring_sqe_set_data(sqe, NULL);
}

/*
 * Restart a multishot operation that has ended. After a failure, for lack of files or
 * memory, it would fail again at once: wait for a timeout first, whose completion has
 * no connection either.
 */
static void accept_again(struct io_uring *ring, int listener, int result)
{
	static struct __kernel_timespec pause = { .tv_sec = 1 };
	struct io_uring_sqe *sqe;

	if (result >= 0 || result == -ETIME || result == -ECONNABORTED) {
		accept_all(ring, listener);
		return;
	}
	fprintf(stderr, "uring: accept: %s, trying again in a second\n", strerror(-result));
	sqe = next_entry(ring);
	io_uring_prep_timeout(sqe, &pause, 0, 0);
	io_uring_sqe_set_data(sqe, NULL);
}

static void receive(struct io_uring *ring, struct connection *conn)
{
	struct io_uring_sqe *sqe = next_entry(ring);

	conn->sending = false;
	io_uring_prep_recv(sqe, conn->fd, conn->record, sizeof(conn->record), 0);
	io_uring_sqe_set_data(sqe, conn);
}

static void answer(struct io_uring *ring, struct connection *conn, size_t len)
{
	struct io_uring_sqe *sqe = next_entry(ring);

	conn->sending = true;
	io_uring_prep_send(sqe, conn->fd, conn->record, len, MSG_NOSIGNAL);
	io_uring_sqe_set_data(sqe, conn);
}

static void accepted(struct io_uring *ring, int fd)
{
	struct connection *conn = malloc(sizeof(*conn));

	if (!conn) {
		close(fd);
		return;
	}
	conn->fd = fd;
	receive(ring, conn);
}

static void done(struct io_uring *ring, struct connection *conn, int result)
{
	if (result > 0 && conn->sending) {
		receive(ring, conn);
	} else if (result > 0) {
		answer(ring, conn, result);
	} else {
		if (result)
			fprintf(stderr, "uring: %s\n",
				mpa_socket_strerror(conn->fd, -result));
		close(conn->fd);
		free(conn);
	}
}

static int serve(struct io_uring *ring, int listener)
{
	struct io_uring_cqe *cqe;

	accept_all(ring, listener);
	for (;;) {
		int result = io_uring_submit_and_wait(ring, 1);
		struct connection *conn;
		unsigned int flags;

		if (result < 0 && result != -EINTR)
			return result;
		while (!io_uring_peek_cqe(ring, &cqe)) {
			conn = io_uring_cqe_get_data(cqe);
			result = cqe->res;
			flags = cqe->flags;
			io_uring_cqe_seen(ring, cqe);
			if (conn)
				done(ring, conn, result);
			else if (result >= 0)
				accepted(ring, result);
			if (!conn && !(flags & IORING_CQE_F_MORE))
				accept_again(ring, listener, result);
		}
	}
}

int main(int argc, char **argv)
{
	struct io_uring ring;
	int listener, rc;

	if (argc != 2) {
		fprintf(stderr, "usage: uring PORT\n");
		return 2;
	}
	rc = io_uring_queue_init(ENTRIES, &ring, 0);
	if (rc) {
		fprintf(stderr, "uring: cannot set up io_uring: %s\n", strerror(-rc));
		return 4;
	}
	listener = mpa_socket_listen(NULL, argv[1], 0);
	if (listener < 0) {
		perror("uring: listening");
		return 1;
	}
	puts("listening");
	fflush(stdout);
	rc = serve(&ring, listener);
	fprintf(stderr, "uring: %s\n", strerror(-rc));
	return 1;
}
