// SPDX-License-Identifier: GPL-2.0
/* Endpoints of a TCP connection: parse, print and connect them. */
#include "tool.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNKNOWN	"?"	/* printed for an endpoint without a name */

/* Parse HOST:PORT, [HOST]:PORT or PORT. */
void endpoint_parse(struct endpoint *to, const char *text)
{
	char *copy = need_memory(strdup(text)), *colon = strrchr(copy, ':');

	*to = (struct endpoint){ .port = copy };
	if (*copy == '[') {
		char *end = strchr(copy, ']');

		if (!end || end[1] != ':' || !end[2])
			die(STATUS_USAGE, "%s: expected [ADDRESS]:PORT", text);
		*end = 0;
		to->host = copy + 1;
		to->port = end + 2;
	} else if (colon) {
		*colon = 0;
		if (strchr(copy, ':'))
			die(STATUS_USAGE,
			    "%s: put an IPv6 address into brackets: [%s]:%s, or use -p %s %s",
			    text, copy, colon + 1, colon + 1, copy);
		to->host = *copy ? copy : NULL;
		to->port = colon + 1;
	}
	if (!*to->port)
		die(STATUS_USAGE, "%s: the port is missing", text);
}

/* Return: an address without a port, and without brackets. */
static const char *host_of(const char *text)
{
	const size_t len = strlen(text);

	if (*text != '[' || text[len - 1] != ']')
		return text;
	return need_memory(strndup(text + 1, len - 2));
}

/* Parse HOST:PORT, HOST PORT, or with --port HOST. */
void endpoint_parse_words(struct endpoint *to, int argc, char **argv)
{
	if (to->port) {
		if (argc > 1)
			die(STATUS_USAGE, "%s %s: --port takes the place of the port", argv[0],
			    argv[1]);
		to->host = argc ? host_of(argv[0]) : NULL;
		return;
	}
	if (argc == 2 && strchr(argv[1], ':'))
		die(STATUS_USAGE, "%s %s: expected HOST:PORT or HOST PORT", argv[0], argv[1]);
	if (argc == 2)
		*to = (struct endpoint){ .host = host_of(argv[0]), .port = argv[1] };
	else
		endpoint_parse(to, argv[0]);
}

/* Parse an endpoint from a command's remaining arguments. */
void endpoint_parse_rest(struct endpoint *to, const struct argp_state *state)
{
	int count = state->argc - state->next;

	if (count > 2)
		argp_error(state, "too many arguments");
	endpoint_parse_words(to, count, state->argv + state->next);
}

/* getaddrinfo() takes a number modulo 65536. */
static void check_port(const char *port)
{
	unsigned long number;
	char *end;

	number = strtoul(port, &end, 10);
	if (!*end && (end == port || *port == '-' || number > UINT16_MAX))
		die(STATUS_USAGE, "\"%s\": a port is a number up to %u", port, UINT16_MAX);
}

static struct addrinfo *resolve(const struct endpoint *to, int family, int flags)
{
	struct addrinfo hints = {
		.ai_family = family,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = flags,
	}, *list;
	int err;

	check_port(to->port);
	err = getaddrinfo(to->host, to->port, &hints, &list);
	if (err == EAI_SERVICE)
		die(STATUS_USAGE, "\"%s\" is not a port: expected HOST:PORT", to->port);
	if (err)
		die(STATUS_USAGE, "%s port %s: %s", to->host ?: "any address", to->port,
		    err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
	return list;
}

/*
 * Try each address of the host. Return: a socket, with the ULP "mpa" if @mpa is set, or
 * a negative errno. @began: set to the time of the last connect().
 */
int endpoint_try(const struct endpoint *to, int family, bool mpa, struct timespec *began)
{
	struct addrinfo *list = resolve(to, family, 0);
	int fd = -1, err = 0;

	for (struct addrinfo *each = list; each; each = each->ai_next) {
		fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			die(STATUS_LOCAL, "socket: %m");
		/* Attach before connect(): attaching fails once the peer has closed. */
		if (mpa)
			start_attach(fd);
		clock_gettime(CLOCK_MONOTONIC, began);
		if (!connect(fd, each->ai_addr, each->ai_addrlen))
			break;
		err = errno;
		close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	return fd < 0 ? -err : fd;
}

static int connect_or_die(const struct endpoint *to, int family, bool mpa)
{
	struct timespec began;
	int fd = endpoint_try(to, family, mpa, &began);

	if (fd >= 0)
		return fd;
	die(STATUS_CONNECT, "cannot connect to %s port %s: %s%s", to->host ?: "localhost",
	    to->port, strerror(-fd),
	    fd == -ECONNREFUSED ? " (nothing listens there)" : "");
}

/* Connect with plain TCP; exit if no address answers. */
int endpoint_connect(const struct endpoint *to, int family)
{
	return connect_or_die(to, family, false);
}

/* Connect with the ULP "mpa". @name: set to the peer's address. */
int endpoint_connect_mpa(const struct endpoint *to, int family, char **name)
{
	int fd = connect_or_die(to, family, true);

	*name = endpoint_of(fd, true);
	/* After a RST getpeername() fails. */
	if (!strcmp(*name, UNKNOWN) &&
	    asprintf(name, "%s:%s", to->host ?: "localhost", to->port) < 0)
		need_memory(NULL);
	return fd;
}

/*
 * Return: a bound socket; without a host, for any IPv4 and IPv6 address. If @backlog is
 * 0, it does not listen yet.
 */
int endpoint_listen(const struct endpoint *at, int family, int backlog)
{
	struct addrinfo *list, *each;
	int fd = -1, on = 1, off = 0;

	if (!at->host && family == AF_UNSPEC && !access("/proc/net/if_inet6", F_OK))
		family = AF_INET6;
	list = resolve(at, family, AI_PASSIVE);
	for (each = list; each; each = each->ai_next) {
		fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (each->ai_family == AF_INET6 && !at->host)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY,
				   &off, sizeof(off));
		if (!bind(fd, each->ai_addr, each->ai_addrlen) &&
		    (!backlog || !listen(fd, backlog)))
			break;
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		die(STATUS_LOCAL, "cannot listen on %s port %s: %m%s", at->host ?: "any address",
		    at->port, errno == EADDRINUSE ? " (ss -tlnp shows the process)" : "");
	freeaddrinfo(list);
	return fd;
}

/* Return: ADDRESS:PORT. The caller frees it. */
char *endpoint_name(const struct sockaddr_storage *address)
{
	socklen_t len = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
							 sizeof(struct sockaddr_in);
	char host[NI_MAXHOST], port[NI_MAXSERV], *name;
	const char *plain = host;

	if (getnameinfo((const struct sockaddr *)address, len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		return need_memory(strdup(UNKNOWN));
	if (!strncmp(host, "::ffff:", 7) && strchr(host, '.'))
		plain = host + 7;
	if (asprintf(&name, strchr(plain, ':') ? "[%s]:%s" : "%s:%s", plain, port) < 0)
		need_memory(NULL);
	return name;
}

/* Return: the address of one end of a connected socket. */
char *endpoint_of(int fd, bool peer)
{
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(address);

	if ((peer ? getpeername : getsockname)(fd, (struct sockaddr *)&address, &len))
		return need_memory(strdup(UNKNOWN));
	return endpoint_name(&address);
}
