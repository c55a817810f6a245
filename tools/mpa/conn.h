/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection as reported by the kernel (MPA_A_CONN_*), filters for connections, and
 * their description in words.
 */
#ifndef _MPA_TOOL_CONN_H
#define _MPA_TOOL_CONN_H

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "netlink.h"

/**
 * struct conn - a connection
 * @has:	the attributes present, a bit for each: MPA_A_CONN_MAX is below 64
 * @value:	values of numeric attributes; 1 for a flag
 * @local:	local address; an IPv4 address is mapped into IPv6
 * @remote:	remote address, in the same form
 * @listens:	/proc/net/tcp lists it as a listening socket
 */
struct conn {
	__u64 has;
	__u64 value[MPA_A_CONN_MAX + 1];
	struct in6_addr local;
	struct in6_addr remote;
	bool listens;
};

/* connections in a dump */
struct conns {
	struct conn *list;
	size_t n;
	size_t room;
};

static inline bool conn_has(const struct conn *conn, unsigned int attr)
{
	return conn->has >> attr & 1;
}

/* Return: an attribute's value; 0 if it is absent. */
static inline __u64 conn_value(const struct conn *conn, unsigned int attr)
{
	return conn->value[attr];
}

/* Whether the socket has no peer: it listens, or is not connected. */
static inline bool conn_is_alone(const struct conn *conn)
{
	return !conn_value(conn, MPA_A_CONN_REMOTE_PORT);
}

/* conn.c */
void conn_parse(struct conn *conn, const struct nlmsghdr *nlh);
void conn_dump(struct nl *nl, struct conns *conns);
const struct conn *conn_find(const struct conns *conns, __u64 cookie);
bool conn_is_tuf(const struct conn *conn);
json_t *conn_json(const struct conn *conn);
char *conn_end(const struct conn *conn, bool remote);
const char *conn_attr_name(unsigned int attr);
char *conn_attr_text(const struct conn *conn, unsigned int attr);
const char *conn_name_of(unsigned int attr, __u64 value);
int conn_value_named(unsigned int attr, const char *name);
char *conn_names(unsigned int attr);

/* listeners.c */
void conns_listeners(struct conns *conns);

/* health.c */
bool health_has_failed(const struct conn *conn);
char *health_of(const struct conn *conn);
char *health_failure(const struct conn *conn);
char *health_agreed(const struct conn *conn);
const char *health_refusal(unsigned int refusal);
const char *health_cause(unsigned int cause);
const char *health_errno(int err);

/* filter.c */
struct filter {
	unsigned int states;		/* a bit for each state; 0: any */
	bool listening;			/* listening sockets, in addition to @states */
	unsigned int roles;
	bool has_port;
	uint16_t port;
	struct filter_end {
		struct in6_addr address;
		unsigned int bits;	/* number of address bits to compare; 0: any address */
		uint16_t port;		/* 0: any */
	} local, remote;
	bool has_cookie;
	__u64 cookie;
	bool has_user;
	uint32_t user;
	bool failed;
	bool tuf;
};

#define FILTER_DOC \
	"A FILTER is one of\n" \
	"  state NAME[,NAME]...   idle, startup, requested, full, rejected, failed;\n" \
	"                         listening\n" \
	"  role NAME[,NAME]...    initiator, responder, direct, unspec\n" \
	"  port N                 at either end\n" \
	"  local ADDRESS[/BITS][:PORT], remote ...\n" \
	"  cookie N, or N alone   SO_COOKIE, as in show -v; hexadecimal after 0x, as in ss -e\n" \
	"  user NAME              the socket's owner, by name or number\n" \
	"  failed                 connections that failed or were refused\n" \
	"  tuf                    TUF sockets\n" \
	"A connection is shown if it matches all filters."

void filter_parse(struct filter *filter, int argc, char **argv);
bool filter_lets(const struct filter *filter, const struct conn *conn);

#endif /* _MPA_TOOL_CONN_H */
