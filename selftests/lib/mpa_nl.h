/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ways to show connections: the netlink family "mpa", inet_diag, tracepoints.
 * Include it after mpa_test.h; links with -lmnl.
 */
#ifndef _MPA_NL_H
#define _MPA_NL_H

#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "mpa_genl.h"

/* ---- the family "mpa" ---- */

/**
 * struct nl - a generic netlink socket
 * @sock:	libmnl's
 * @family:	number of the family "mpa"
 * @events:	number of its group "events"
 * @seq:	of the last request
 */
struct nl {
	struct mnl_socket *sock;
	u16 family;
	u32 events;
	u32 seq;
};

/**
 * struct nl_reported - the numeric attributes of a message
 * @cmd:	the message's command
 * @has:	the attributes present, a bit for each
 * @value:	their values; 1 for a flag
 */
struct nl_reported {
	u8 cmd;
	u64 has;
	u64 value[64];
};

static inline bool nl_has(const struct nl_reported *told, unsigned int attr)
{
	return told->has >> attr & 1;
}

static inline int nl_reported_attr(const struct nlattr *attr, void *data)
{
	unsigned int type = mnl_attr_get_type(attr);
	struct nl_reported *told = data;
	u64 value;

	switch (mnl_attr_get_payload_len(attr)) {
	case 0:
		value = 1;
		break;
	case sizeof(u16):
		value = mnl_attr_get_u16(attr);
		break;
	case sizeof(u32):
		value = mnl_attr_get_u32(attr);
		break;
	case sizeof(u64):
		value = mnl_attr_get_u64(attr);
		break;
	default:
		return MNL_CB_OK;
	}
	if (type >= ARRAY_SIZE(told->value))
		return MNL_CB_ERROR;
	told->has |= 1ull << type;
	told->value[type] = value;
	return MNL_CB_OK;
}

static inline int nl_reported_msg(const struct nlmsghdr *nlh, void *data)
{
	const struct genlmsghdr *genl = mnl_nlmsg_get_payload(nlh);
	struct nl_reported *told = data;

	memset(told, 0, sizeof(*told));
	told->cmd = genl->cmd;
	return mnl_attr_parse(nlh, sizeof(*genl), nl_reported_attr, told);
}

/* Send a request and read the reply. Return: 0, or -1 with errno. */
static inline int nl_ask(struct mnl_socket *sock, struct nlmsghdr *nlh,
			 mnl_cb_t cb, void *data)
{
	u8 buf[MNL_SOCKET_BUFFER_SIZE];
	int n, ret = MNL_CB_OK;

	if (mnl_socket_sendto(sock, nlh, nlh->nlmsg_len) < 0)
		return -1;
	while (ret > MNL_CB_STOP) {
		n = mnl_socket_recvfrom(sock, buf, sizeof(buf));
		if (n < 0)
			return -1;
		ret = mnl_cb_run(buf, n, nlh->nlmsg_seq,
				 mnl_socket_get_portid(sock), cb, data);
	}
	return ret < 0 ? -1 : 0;
}

/* Prepare a request. With NLM_F_ACK nl_ask() reads the whole reply. */
static inline struct nlmsghdr *nl_request(struct nl *nl, u8 *buf, u16 type,
					  u8 cmd, u16 flags)
{
	return genl_request(buf, type, cmd, flags, ++nl->seq);
}

/* Open a socket in the test's network namespace. */
static inline int nl_open(struct nl *nl)
{
	const struct family family = mpa_family();

	*nl = (struct nl){
		.sock = netlink_open(NETLINK_GENERIC),
		.family = family.id,
		.events = family.events,
	};
	return nl->sock && nl->family && nl->events ? 0 : -1;
}

static inline void nl_close(struct nl *nl)
{
	if (nl->sock)
		mnl_socket_close(nl->sock);
	nl->sock = NULL;
}

/* Read a socket's attributes with conn-get. Return: 0, or -1 with errno. */
static inline int nl_conn_get(struct nl *nl, int fd, struct nl_reported *told)
{
	u8 buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh;

	nlh = nl_request(nl, buf, nl->family, MPA_CMD_CONN_GET, NLM_F_ACK);
	mnl_attr_put_u64(nlh, MPA_A_CONN_COOKIE, cookie_of(fd));
	return nl_ask(nl->sock, nlh, nl_reported_msg, told);
}

/**
 * struct nl_search - search for a connection in a dump
 * @cookie:	its cookie
 * @found:	how often the dump has it
 * @told:	its attributes
 */
struct nl_search {
	u64 cookie;
	unsigned int found;
	struct nl_reported *told;
};

static inline int nl_search_msg(const struct nlmsghdr *nlh, void *data)
{
	struct nl_search *search = data;
	struct nl_reported told;
	int ret = nl_reported_msg(nlh, &told);

	if (ret > 0 && told.value[MPA_A_CONN_COOKIE] == search->cookie) {
		search->found++;
		*search->told = told;
	}
	return ret;
}

/* Read a socket's attributes from a dump. Return: 0, or -1 unless it is there exactly once. */
static inline int nl_conn_dump(struct nl *nl, int fd, struct nl_reported *told)
{
	struct nl_search search = { .cookie = cookie_of(fd), .told = told };
	u8 buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh;

	nlh = nl_request(nl, buf, nl->family, MPA_CMD_CONN_GET, NLM_F_DUMP);
	if (nl_ask(nl->sock, nlh, nl_search_msg, &search))
		return -1;
	return search.found == 1 ? 0 : -1;
}

/* Have this socket receive a connection's records. */
static inline int nl_tap(struct nl *nl, int fd, u32 octets)
{
	u8 buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh;

	nlh = nl_request(nl, buf, nl->family, MPA_CMD_TAP_SET, NLM_F_ACK);
	mnl_attr_put_u64(nlh, MPA_A_TAP_COOKIE, cookie_of(fd));
	mnl_attr_put_u32(nlh, MPA_A_TAP_OCTETS, octets);
	return nl_ask(nl->sock, nlh, NULL, NULL);
}

/* Have this socket receive the namespace's events. */
static inline int nl_join(struct nl *nl)
{
	u8 buf[MNL_SOCKET_BUFFER_SIZE];

	return nl_ask(nl->sock, nl_request(nl, buf, nl->family,
					   MPA_CMD_EVENT_JOIN, NLM_F_ACK),
		      NULL, NULL);
}

/* Join a multicast group. Do not send requests on this socket afterwards. */
static inline int nl_listen(struct nl *nl, int group)
{
	return mnl_socket_setsockopt(nl->sock, NETLINK_ADD_MEMBERSHIP, &group,
				     sizeof(group));
}

/*
 * Read the next message, within @ms milliseconds. Return: 0, or -1 with errno; ENOBUFS:
 * messages were lost, ETIMEDOUT: no message.
 */
static inline int nl_next(struct nl *nl, struct nl_reported *told, int ms)
{
	u8 buf[MNL_SOCKET_BUFFER_SIZE];
	int n;

	if (!poll_for(mnl_socket_get_fd(nl->sock), POLLIN, ms)) {
		errno = ETIMEDOUT;
		return -1;
	}
	n = mnl_socket_recvfrom(nl->sock, buf, sizeof(buf));
	if (n < 0)
		return -1;
	return mnl_cb_run(buf, n, 0, 0, nl_reported_msg, told) < 0 ? -1 : 0;
}

/* Read a socket's next event @cmd, and skip other events. Return: 0 or -1. */
static inline int nl_event(struct nl *nl, u64 cookie, u8 cmd,
			   struct nl_reported *told)
{
	const long until = now_ms() + 20000;

	while (now_ms() < until) {
		if (nl_next(nl, told, 20000))
			return -1;
		if (told->cmd == cmd &&
		    told->value[MPA_A_CONN_COOKIE] == cookie)
			return 0;
	}
	return -1;
}

/* ---- inet_diag, which ss uses ---- */

static inline int diag_ulp(const struct nlattr *attr, void *data)
{
	if (mnl_attr_get_type(attr) == MPA_INET_ULP_INFO)
		mnl_attr_parse_nested(attr, nl_reported_attr, data);
	return MNL_CB_OK;
}

static inline int diag_attr(const struct nlattr *attr, void *data)
{
	if (mnl_attr_get_type(attr) == INET_DIAG_ULP_INFO)
		mnl_attr_parse_nested(attr, diag_ulp, data);
	return MNL_CB_OK;
}

static inline int diag_msg(const struct nlmsghdr *nlh, void *data)
{
	return mnl_attr_parse(nlh, sizeof(struct inet_diag_msg), diag_attr,
			      data);
}

static inline void diag_address(int fd, bool peer, __be16 *port, __be32 *addr)
{
	struct sockaddr_in6 name;
	socklen_t len = sizeof(name);

	if (peer)
		getpeername(fd, (struct sockaddr *)&name, &len);
	else
		getsockname(fd, (struct sockaddr *)&name, &len);
	*port = name.sin6_port;
	if (name.sin6_family == AF_INET6)
		memcpy(addr, &name.sin6_addr, sizeof(name.sin6_addr));
	else
		memcpy(addr, &((struct sockaddr_in *)&name)->sin_addr,
		       sizeof(struct in_addr));
}

/* Read a socket's attributes with inet_diag. Return: 0, or -1 with errno; ENOENT: not found. */
static inline int diag_get(int fd, struct nl_reported *told)
{
	struct mnl_socket *sock = mnl_socket_open(NETLINK_SOCK_DIAG);
	u8 buf[MNL_SOCKET_BUFFER_SIZE];
	struct inet_diag_req_v2 *req;
	socklen_t len = sizeof(int);
	u64 cookie = cookie_of(fd);
	struct nlmsghdr *nlh;
	int family = 0, err;

	/* The guest loads no modules on demand. */
	if (system("modprobe -q tcp_diag") < 0)
		return -1;
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
	memset(told, 0, sizeof(*told));
	if (!sock || mnl_socket_bind(sock, 0, MNL_SOCKET_AUTOPID))
		return -1;
	nlh = mnl_nlmsg_put_header(buf);
	nlh->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	nlh->nlmsg_seq = 1;
	req = mnl_nlmsg_put_extra_header(nlh, sizeof(*req));
	req->sdiag_family = family;
	req->sdiag_protocol = IPPROTO_TCP;
	req->idiag_ext = 1 << (INET_DIAG_INFO - 1);
	req->id.idiag_cookie[0] = cookie;
	req->id.idiag_cookie[1] = cookie >> 32;
	diag_address(fd, false, &req->id.idiag_sport, req->id.idiag_src);
	diag_address(fd, true, &req->id.idiag_dport, req->id.idiag_dst);
	err = nl_ask(sock, nlh, diag_msg, told);
	mnl_socket_close(sock);
	return err;
}

/* ---- tracepoints, in a tracefs instance of the test ---- */

#define TRACEFS		"/sys/kernel/tracing"

struct trace {
	char dir[96];
};

static inline int trace_put(const struct trace *trace, const char *name,
			    const char *value)
{
	char path[192];
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s", trace->dir, name);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	err = write(fd, value, strlen(value)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

static inline void trace_close(struct trace *trace)
{
	if (trace->dir[0])
		rmdir(trace->dir);
	trace->dir[0] = 0;
}

/* Record one of the module's events. Return: false without tracefs. */
static inline bool trace_open(struct trace *trace, const char *event)
{
	char path[96];

	if (access(TRACEFS "/instances", F_OK))
		mount("tracefs", TRACEFS, "tracefs", 0, NULL);
	snprintf(trace->dir, sizeof(trace->dir), TRACEFS "/instances/mpa_%d",
		 getpid());
	if (mkdir(trace->dir, 0700)) {
		trace->dir[0] = 0;
		return false;
	}
	snprintf(path, sizeof(path), "events/mpa/%s/enable", event);
	if (!trace_put(trace, path, "1"))
		return true;
	trace_close(trace);
	return false;
}

static inline int trace_clear(const struct trace *trace)
{
	return trace_put(trace, "trace", "\n");
}

/*
 * Return the number of a socket's trace events of this name. @says: set to the first
 * one's text after the local port.
 */
static inline int trace_find(const struct trace *trace, const char *event,
			     int fd, char *says, size_t size)
{
	char path[192], name[64], local[32], remote[32], line[512], *at;
	__be32 addr[4];
	int found = 0;
	__be16 port;
	FILE *file;

	diag_address(fd, false, &port, addr);
	snprintf(local, sizeof(local), "]:%u peer=", ntohs(port));
	/* Accepted sockets share the listener's port. */
	diag_address(fd, true, &port, addr);
	snprintf(remote, sizeof(remote), "]:%u ", ntohs(port));
	snprintf(name, sizeof(name), " %s: ", event);
	snprintf(path, sizeof(path), "%s/trace", trace->dir);
	file = fopen(path, "r");
	says[0] = 0;
	while (file && fgets(line, sizeof(line), file)) {
		at = strstr(line, local);
		if (!at || !strstr(at, remote) || !strstr(line, name))
			continue;
		if (!found++)
			snprintf(says, size, "%s", at + strlen(local));
	}
	if (file)
		fclose(file);
	return found;
}

#endif /* _MPA_NL_H */
