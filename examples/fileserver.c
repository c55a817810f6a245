// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Files by sendfile().
 *
 *	fileserver serve 4242 DIRECTORY &
 *	fileserver get localhost 4242 NAME >COPY
 *
 * It shows sendfile() with MPA_SEGMENT 0, which splits the file into records that fill
 * TCP's segments. A request is a record with the name. The answer is a record with the
 * length, or an errno; then the file's octets in records of any length. Each record's
 * CRC is checked before the record is returned.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mpa_socket.h>

enum { NAME_LEN = 255 };

/* Both fields are big-endian. With an error no file follows. */
struct header {
	__u64 length;
	__u32 error;
	__u32 reserved;
};

static int failed(const char *what, int fd)
{
	fprintf(stderr, "fileserver: %s: %s\n", what, mpa_socket_strerror(fd, errno));
	return 1;
}

/* Return: a regular file in the directory itself, or -1. */
static int open_file(int directory, const char *name, struct stat *stat)
{
	int file;

	if (strchr(name, '/') || *name == '.') {
		errno = EACCES;
		return -1;
	}
	file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	if (file < 0)
		return -1;
	if (!fstat(file, stat) && S_ISREG(stat->st_mode))
		return file;
	close(file);
	errno = EACCES;
	return -1;
}

static int send_file(int fd, int directory, const char *name)
{
	struct header header = { 0 };
	struct stat stat;
	off_t at = 0;
	int file;

	file = open_file(directory, name, &stat);
	if (file < 0)
		header.error = htobe32(errno);
	else
		header.length = htobe64(stat.st_size);
	/* It is shorter than a segment, so it is one record even with MPA_SEGMENT. */
	if (send(fd, &header, sizeof(header), MSG_NOSIGNAL) < 0) {
		if (file >= 0)
			close(file);
		return -1;
	}
	while (file >= 0 && at < stat.st_size) {
		ssize_t n = sendfile(fd, file, &at, stat.st_size - at);

		if (n > 0)
			continue;
		if (!n)			/* the file has become shorter */
			errno = EIO;
		close(file);
		return -1;
	}
	if (file >= 0)
		close(file);
	return 0;
}

static int serve_one(int fd, int directory)
{
	char name[NAME_LEN + 1];
	ssize_t len;

	while ((len = recv(fd, name, NAME_LEN, 0)) > 0) {
		name[len] = '\0';
		if (send_file(fd, directory, name))
			return failed("send", fd);
	}
	return len ? failed("recv", fd) : 0;
}

static int serve(const char *port, const char *path)
{
	int directory = open(path, O_RDONLY | O_DIRECTORY);
	int segment = MPA_SEGMENT_FILL, listener, fd;

	if (directory < 0) {
		perror(path);
		return 1;
	}
	listener = mpa_socket_listen(NULL, port, 0);
	if (listener < 0 ||
	    setsockopt(listener, SOL_MPA, MPA_SEGMENT, &segment, sizeof(segment))) {
		perror("fileserver: listening");
		return 1;
	}
	puts("listening");
	fflush(stdout);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);	/* sendfile() has no MSG_NOSIGNAL */
	while ((fd = mpa_socket_accept(listener)) >= 0) {
		if (!fork())
			exit(serve_one(fd, directory));
		close(fd);
	}
	perror("fileserver: accept");
	return 1;
}

/* Return: the length of the file that follows, or -1. */
static long long ask(int fd, const char *name)
{
	struct header header;
	ssize_t len;

	if (send(fd, name, strlen(name), MSG_NOSIGNAL) < 0)
		return -1;
	len = recv(fd, &header, sizeof(header), 0);
	if (len != sizeof(header)) {
		if (len >= 0)
			errno = EPROTO;
		return -1;
	}
	if (header.error) {
		errno = be32toh(header.error);
		return -1;
	}
	return be64toh(header.length);
}

static int get(const char *host, const char *port, const char *name)
{
	int fd = mpa_socket_connect(host, port, 0, 10000);
	char record[MPA_ULPDU_MAX];
	long long left;

	if (fd < 0) {
		perror("fileserver: connecting");
		return 1;
	}
	left = ask(fd, name);
	if (left < 0)
		return failed(name, fd);
	while (left > 0) {
		ssize_t len = recv(fd, record, sizeof(record), 0);

		if (len < 0)
			return failed("recv", fd);
		if (!len || len > left) {
			fprintf(stderr, "fileserver: %lld octets are missing\n", left);
			return 1;
		}
		if (fwrite(record, len, 1, stdout) != 1)
			return failed("writing", fd);
		left -= len;
	}
	return fflush(stdout) ? failed("writing", fd) : 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve"))
		return serve(argv[2], argv[3]);
	if (argc == 5 && !strcmp(argv[1], "get"))
		return get(argv[2], argv[3], argv[4]);
	fprintf(stderr, "usage: fileserver serve PORT DIRECTORY\n"
		"       fileserver get HOST PORT NAME\n");
	return 2;
}
