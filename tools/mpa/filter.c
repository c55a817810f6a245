// SPDX-License-Identifier: GPL-2.0
/* Filters for connections: the arguments of show and monitor. */
#include "tool.h"
#include "conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_BITS	128
#define MAPPED_BITS	96	/* bits before a mapped IPv4 address */

static __u64 number_of(const char *text, __u64 most, const char *what)
{
	__u64 value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || *end || end == text || *text == '-' || value > most)
		die(STATUS_USAGE, "%s: %s is a number up to %llu", text, what,
		    (unsigned long long)most);
	return value;
}

/*
 * Return: NAME[,NAME]... as a bit mask. The state "listening" exists only in show: the
 * kernel reports such sockets as idle.
 */
static unsigned int name_set(const char *text, unsigned int attr, bool *listening)
{
	char *copy = need_memory(strdup(text)), *rest = copy, *each;
	unsigned int set = 0;

	while ((each = strsep(&rest, ","))) {
		const int value = conn_value_named(attr, each);

		if (listening && !strcmp(each, "listening")) {
			*listening = true;
			continue;
		}
		if (value < 0)
			die(STATUS_USAGE, "there is no %s \"%s\": expected %s%s",
			    conn_attr_name(attr), each, conn_names(attr),
			    listening ? ", listening" : "");
		set |= 1U << value;
	}
	free(copy);
	return set;
}

/*
 * Parse an IPv4 or IPv6 address. Return: the offset of its first bit in @to,
 * MAPPED_BITS for IPv4; -1 if it is no address.
 */
static int address(struct in6_addr *to, const char *text)
{
	struct in_addr four;

	if (inet_pton(AF_INET6, text, to) == 1)
		return 0;
	if (inet_pton(AF_INET, text, &four) != 1)
		return -1;
	*to = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
	memcpy(to->s6_addr + MAPPED_BITS / CHAR_BIT, &four, sizeof(four));
	return MAPPED_BITS;
}

/* Parse ADDRESS[/BITS][:PORT] or :PORT. An IPv6 address with a port needs brackets. */
static void end_parse(struct filter_end *to, const char *text)
{
	char *copy = need_memory(strdup(text)), *host = copy, *port = NULL, *bits;
	int begins;

	if (*host == '[') {
		port = strchr(++host, ']');
		if (!port || (port[1] && port[1] != ':'))
			die(STATUS_USAGE, "%s: expected [ADDRESS]:PORT", text);
		*port++ = 0;
		port = *port ? port + 1 : NULL;
	} else if (strchr(host, ':') && strchr(host, ':') == strrchr(host, ':')) {
		port = strchr(host, ':');
		*port++ = 0;
	}
	if (port)
		to->port = number_of(port, UINT16_MAX, "a port");
	bits = strchr(host, '/');
	if (bits)
		*bits++ = 0;
	if (*host && strcmp(host, "*")) {
		begins = address(&to->address, host);
		if (begins < 0)
			die(STATUS_USAGE, "%s: expected an IPv4 or IPv6 address", text);
		to->bits = ADDRESS_BITS;
		if (bits)
			to->bits = begins + number_of(bits, ADDRESS_BITS - begins, "a prefix");
	}
	free(copy);
}

static uint32_t user_of(const char *text)
{
	const struct passwd *entry;
	char *end;

	strtoul(text, &end, 10);
	if (*text && !*end)
		return number_of(text, UINT32_MAX, "a user");
	entry = getpwnam(text);
	if (!entry)
		die(STATUS_USAGE, "there is no user \"%s\"", text);
	return entry->pw_uid;
}

/* words that take a value */
enum word {
	WORD_STATE,
	WORD_ROLE,
	WORD_PORT,
	WORD_LOCAL,
	WORD_REMOTE,
	WORD_COOKIE,
	WORD_USER,
	WORDS,
};

static enum word word_of(const char *text)
{
	static const char *const words[] = {
		"state", "role", "port", "local", "remote", "cookie", "user",
	};
	int word = 0;

	while (word < WORDS && strcmp(words[word], text))
		word++;
	return word;
}

static void with_value(struct filter *filter, enum word word, const char *value)
{
	switch (word) {
	case WORD_STATE:
		filter->states |= name_set(value, MPA_A_CONN_STATE, &filter->listening);
		break;
	case WORD_ROLE:
		filter->roles |= name_set(value, MPA_A_CONN_ROLE, NULL);
		break;
	case WORD_PORT:
		filter->port = number_of(value, UINT16_MAX, "a port");
		filter->has_port = true;
		break;
	case WORD_LOCAL:
		end_parse(&filter->local, value);
		break;
	case WORD_REMOTE:
		end_parse(&filter->remote, value);
		break;
	case WORD_COOKIE:
		filter->cookie = number_of(value, UINT64_MAX, "a cookie");
		filter->has_cookie = true;
		break;
	default:
		filter->user = user_of(value);
		filter->has_user = true;
	}
}

/* Parse a filter; exit on an error. */
void filter_parse(struct filter *filter, int argc, char **argv)
{
	*filter = (struct filter){};
	for (int i = 0; i < argc; i++) {
		const enum word word = word_of(argv[i]);

		if (!strcmp(argv[i], "failed"))
			filter->failed = true;
		else if (!strcmp(argv[i], "tuf"))
			filter->tuf = true;
		else if (*argv[i] >= '0' && *argv[i] <= '9')
			with_value(filter, WORD_COOKIE, argv[i]);
		else if (word == WORDS)
			die(STATUS_USAGE,
			    "%s is not a filter: state, role, port, local, remote, cookie and user take a value, failed and tuf do not",
			    argv[i]);
		else if (++i == argc)
			die(STATUS_USAGE, "%s: the value is missing", argv[i - 1]);
		else
			with_value(filter, word, argv[i]);
	}
}

static bool same_address(const struct filter_end *end, const struct in6_addr *address)
{
	const unsigned int octets = end->bits / CHAR_BIT, rest = end->bits % CHAR_BIT;

	if (memcmp(&end->address, address, octets))
		return false;
	return !rest || !((end->address.s6_addr[octets] ^ address->s6_addr[octets]) >>
			  (CHAR_BIT - rest));
}

static bool lets_end(const struct filter_end *end, const struct in6_addr *address, uint16_t port)
{
	return (!end->port || end->port == port) && same_address(end, address);
}

static bool lets_value(unsigned int set, __u64 value)
{
	return !set || (value < sizeof(set) * CHAR_BIT && set >> value & 1);
}

static bool lets_state(const struct filter *filter, const struct conn *conn)
{
	if (filter->listening && (conn->listens || !filter->states))
		return conn->listens;
	return lets_value(filter->states, conn_value(conn, MPA_A_CONN_STATE));
}

/* Whether the connection matches. */
bool filter_lets(const struct filter *filter, const struct conn *conn)
{
	const uint16_t remote = conn_value(conn, MPA_A_CONN_REMOTE_PORT);
	const uint16_t local = conn_value(conn, MPA_A_CONN_LOCAL_PORT);

	return lets_state(filter, conn) &&
	       lets_value(filter->roles, conn_value(conn, MPA_A_CONN_ROLE)) &&
	       (!filter->has_port || filter->port == local || filter->port == remote) &&
	       lets_end(&filter->local, &conn->local, local) &&
	       lets_end(&filter->remote, &conn->remote, remote) &&
	       (!filter->has_cookie ||
		filter->cookie == conn_value(conn, MPA_A_CONN_COOKIE)) &&
	       (!filter->has_user || filter->user == conn_value(conn, MPA_A_CONN_UID)) &&
	       (!filter->failed || health_has_failed(conn)) &&
	       (!filter->tuf || conn_is_tuf(conn));
}
