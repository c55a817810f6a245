// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Send each record back: the smallest server and client.
 *
 *	echo server 4242 &
 *	echo client localhost 4242 hello "a second record"
 *	echo client localhost 4242 <FILE		each line, none of them empty, is a record
 *
 * It shows mpa_socket.h: a send is a record, and a receive returns one; the end of the
 * stream; error messages. The server has a process for each connection.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mpa_socket.h>

static int failed(const char *what, int fd)
{
	fprintf(stderr, "echo: %s: %s\n", what, mpa_socket_strerror(fd, errno));
	return 1;
}

static int echo(int fd)
{
	char record[MPA_ULPDU_MAX];
	ssize_t len;

	/* The first call also waits for the end of startup. */
	while ((len = mpa_socket_receive(fd, record, sizeof(record), NULL)) > 0)
		if (mpa_socket_send(fd, record, len) < 0)
			return failed("send", fd);
	return len ? failed("recv", fd) : 0;
}

static int serve(const char *port)
{
	int listener = mpa_socket_listen(NULL, port, 0), fd;

	if (listener < 0)
		return failed("listening", -1);

	puts("listening");
	fflush(stdout);
	signal(SIGCHLD, SIG_IGN);
	while ((fd = mpa_socket_accept(listener)) >= 0) {
		if (!fork())
			exit(echo(fd));
		close(fd);
	}
	perror("echo: accept");
	return 1;
}

static int ask(int fd, const char *record)
{
	char answer[MPA_ULPDU_MAX];
	ssize_t len;

	if (!*record) {
		fprintf(stderr, "echo: a record must have at least one octet\n");
		return 1;
	}
	if (mpa_socket_send(fd, record, strlen(record)) < 0)
		return failed("send", fd);
	len = mpa_socket_receive(fd, answer, sizeof(answer), NULL);
	if (len < 0)
		return failed("recv", fd);
	if (!len) {
		fprintf(stderr, "echo: the server closed the connection\n");
		return 1;
	}
	printf("%.*s\n", (int)len, answer);
	return 0;
}

/* Records are arguments, or lines without their newlines. */
static int client(const char *host, const char *port, char **words)
{
	int fd = mpa_socket_connect(host, port, 0, 10000), status = 0;
	char line[MPA_ULPDU_MAX + 2];

	if (fd < 0)
		return failed("connecting", -1);

	for (; *words && !status; words++) {
		status = ask(fd, *words);
		if (!words[1])
			return status;
	}
	while (!status && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		status = ask(fd, line);
	}
	return status;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "server"))
		return serve(argv[2]);
	if (argc >= 4 && !strcmp(argv[1], "client"))
		return client(argv[2], argv[3], argv + 4);
	fprintf(stderr, "usage: echo server PORT\n"
		"       echo client HOST PORT [RECORD...]\n");
	return 2;
}
