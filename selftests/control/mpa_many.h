/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Many connections and their netlink dumps, which must be complete and well-formed.
 * Include it after mpa_harness.h.
 */
#ifndef _MPA_MANY_H
#define _MPA_MANY_H

#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <sys/resource.h>

#include "mpa_genl.h"

/*
 * Whether the kernel has debugging checks: it is ten times slower, and its times mean
 * nothing.
 */
static inline bool slow_kernel(void)
{
	const char *kernel = getenv("MPA_KERNEL") ?: "";

	return !strncmp(kernel, "debug", 5) || !strcmp(kernel, "kcsan");
}

static inline unsigned int many(unsigned int usual, unsigned int slow)
{
	return slow_kernel() ? slow : usual;
}

static inline u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* ---- connections ---- */

/* Open a listener for full_pair(). @addr: set to its address. */
static inline int listener_open(struct sockaddr_in *addr, const char *ip)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*addr);

	*addr = (struct sockaddr_in){ .sin_family = AF_INET };
	inet_pton(AF_INET, ip, &addr->sin_addr);
	if (bind(fd, (void *)addr, len) || listen(fd, 64) ||
	    getsockname(fd, (void *)addr, &len))
		return -1;
	return fd;
}

/* Open a connection to the listener, with both ends in Full Operation. */
static inline int full_pair(int fd[2], int listener,
			    const struct sockaddr_in *addr)
{
	struct sockaddr_in from = *addr;
	int one = 1;

	from.sin_port = 0;
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd[0], SOL_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
	if (bind(fd[0], (void *)&from, sizeof(from)) ||
	    connect(fd[0], (const void *)addr, sizeof(*addr)))
		return -1;
	fd[1] = accept(listener, NULL, NULL);
	return mpa_attach(fd[0]) || mpa_attach(fd[1]) ||
	       mpa_start(fd[0], MPA_ROLE_DIRECT, 0) ||
	       mpa_start(fd[1], MPA_ROLE_DIRECT, 0) ? -1 : 0;
}

static inline int by_number(const void *a, const void *b)
{
	const u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static inline void sort(u64 *numbers, size_t n)
{
	qsort(numbers, n, sizeof(*numbers), by_number);
}

/**
 * struct crowd - connections that stay
 * @n:		number of sockets, two for each
 * @fd:		the sockets
 * @cookie:	their cookies, in order
 */
struct crowd {
	unsigned int n;
	int *fd;
	u64 *cookie;
};

static inline int crowd_gather(struct crowd *crowd, unsigned int n)
{
	struct rlimit files = { n + 4096, n + 4096 };
	struct sockaddr_in addr;
	unsigned int i;
	int listener;

	*crowd = (struct crowd){
		.n = n,
		.fd = calloc(n, sizeof(int)),
		.cookie = calloc(n, sizeof(u64)),
	};
	if (setrlimit(RLIMIT_NOFILE, &files))
		return -1;
	listener = listener_open(&addr, "127.0.0.1");
	for (i = 0; i < n; i += 2)
		if (full_pair(crowd->fd + i, listener, &addr))
			return -1;
	close(listener);
	for (i = 0; i < n; i++)
		crowd->cookie[i] = cookie_of(crowd->fd[i]);
	sort(crowd->cookie, n);
	return 0;
}

static inline void crowd_leaves(struct crowd *crowd)
{
	unsigned int i;

	for (i = 0; i < crowd->n; i++)
		hang_up(crowd->fd[i]);
	free(crowd->fd);
	free(crowd->cookie);
}

/* ---- netlink ---- */

/* The most octets that the kernel puts into one reply, if the reader's buffer allows it. */
#define ANSWER_MAX	32768

static inline struct nlmsghdr *ask_mpa(void *buf)
{
	return genl_request(buf, mpa_family().id, MPA_CMD_CONN_GET, NLM_F_DUMP,
			    1);
}

/* Build the request of "ss -ti". */
static inline struct nlmsghdr *ask_diag(void *buf)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct inet_diag_req_v2 *req;

	nlh->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = 1;
	req = mnl_nlmsg_put_extra_header(nlh, sizeof(*req));
	req->sdiag_family = AF_INET;
	req->sdiag_protocol = IPPROTO_TCP;
	/* All states except listening, closed and closing: SS_CONN. */
	req->idiag_states = 0xfff & ~(1 << 10 | 1 << 7 | 1 << 6 | 1 << 3);
	req->idiag_ext = 1 << (INET_DIAG_INFO - 1) |
			 1 << (INET_DIAG_VEGASINFO - 1) |
			 1 << (INET_DIAG_CONG - 1);
	return nlh;
}

/**
 * struct dump - a dump
 * @nl:		the socket that requests it
 * @request:	the request
 * @each:	called for each message
 * @messages:	number of messages received
 * @octets:	their octets, including the final message
 * @largest:	octets of the largest reply, which is one skb
 * @memory:	maximum memory that was charged to the reader, if @weigh
 * @ns:		duration
 */
struct dump {
	struct mnl_socket *nl;
	struct nlmsghdr *request;
	int (*each)(const struct nlmsghdr *nlh, struct dump *dump);
	void *data;
	bool weigh;
	unsigned int messages;
	size_t octets;
	size_t largest;
	size_t memory;
	u64 ns;
};

static inline int dump_message(const struct nlmsghdr *nlh, void *data)
{
	struct dump *dump = data;

	dump->messages++;
	return dump->each ? dump->each(nlh, dump) : MNL_CB_OK;
}

static inline int dump_done(const struct nlmsghdr *nlh, void *data)
{
	errno = EBADMSG;
	return *(int *)mnl_nlmsg_get_payload(nlh) < 0 ? MNL_CB_ERROR :
							MNL_CB_STOP;
}

static inline int dump_refused(const struct nlmsghdr *nlh, void *data)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);

	errno = -err->error;
	return MNL_CB_ERROR;
}

static mnl_cb_t dump_control[NLMSG_MIN_TYPE] = {
	[NLMSG_DONE] = dump_done,
	[NLMSG_ERROR] = dump_refused,
};

static inline size_t memory_of(const struct mnl_socket *nl)
{
	u32 info[SK_MEMINFO_VARS] = {};
	socklen_t len = sizeof(info);

	getsockopt(mnl_socket_get_fd(nl), SOL_SOCKET, SO_MEMINFO, info, &len);
	return info[SK_MEMINFO_RMEM_ALLOC];
}

static inline void dump_weigh(struct dump *dump)
{
	const size_t memory = memory_of(dump->nl);

	if (memory > dump->memory)
		dump->memory = memory;
}

/* Run the whole dump. Return: 0, or -1 with errno. */
static inline int dump_run(struct dump *dump)
{
	const unsigned int port = mnl_socket_get_portid(dump->nl);
	const u64 from = now_ns();
	char buf[ANSWER_MAX];
	ssize_t n;
	int ret;

	dump->messages = 0;
	dump->octets = 0;
	if (mnl_socket_sendto(dump->nl, dump->request,
			      dump->request->nlmsg_len) < 0)
		return -1;
	do {
		if (dump->weigh)
			dump_weigh(dump);
		n = mnl_socket_recvfrom(dump->nl, buf, sizeof(buf));
		if (n < 0)
			return -1;
		dump->octets += n;
		if (n > dump->largest)
			dump->largest = n;
		ret = mnl_cb_run2(buf, n, 1, port, dump_message, dump,
				  dump_control, NLMSG_MIN_TYPE);
	} while (ret > MNL_CB_STOP);
	dump->ns = now_ns() - from;
	return ret;
}

/* ---- the form of a message about a connection ---- */

#define U32	sizeof(u32)
#define U64	sizeof(u64)

/* Length of each attribute that can occur here; IPv6 and some other cases do not occur. */
static const struct {
	u8 len;
	bool always;
} rules[MPA_A_CONN_MAX + 1] = {
	[MPA_A_CONN_COOKIE] = { U64, true },
	[MPA_A_CONN_FAMILY] = { sizeof(u16), true },
	[MPA_A_CONN_LOCAL_ADDR4] = { U32, true },
	[MPA_A_CONN_LOCAL_PORT] = { sizeof(u16), true },
	[MPA_A_CONN_REMOTE_ADDR4] = { U32, true },
	[MPA_A_CONN_REMOTE_PORT] = { sizeof(u16), true },
	[MPA_A_CONN_INODE] = { U64 },
	[MPA_A_CONN_UID] = { U32, true },
	[MPA_A_CONN_ROLE] = { U32, true },
	[MPA_A_CONN_STATE] = { U32, true },
	[MPA_A_CONN_REVISION] = { U32 },
	[MPA_A_CONN_FLAGS] = { U32 },
	[MPA_A_CONN_EMSS] = { U32, true },
	[MPA_A_CONN_MULPDU] = { U32, true },
	[MPA_A_CONN_TX_ULPDUS] = { U64, true },
	[MPA_A_CONN_TX_OCTETS] = { U64, true },
	[MPA_A_CONN_TX_MARKERS] = { U64, true },
	[MPA_A_CONN_RX_ULPDUS] = { U64, true },
	[MPA_A_CONN_RX_OCTETS] = { U64, true },
	[MPA_A_CONN_RX_MARKERS] = { U64, true },
	[MPA_A_CONN_RX_PLACED] = { U64, true },
	[MPA_A_CONN_RX_EDGE] = { U64, true },
	[MPA_A_CONN_TX_PACKETS] = { U64, true },
	[MPA_A_CONN_TX_SEGS_ALIGNED] = { U64, true },
	[MPA_A_CONN_TX_SEGS_UNALIGNED] = { U64, true },
	[MPA_A_CONN_RX_HELD] = { U32, true },
	[MPA_A_CONN_TX_HELD] = { U32, true },
	[MPA_A_CONN_ERROR] = { U32 },
	[MPA_A_CONN_ERRNO] = { U32 },
	[MPA_A_CONN_EVENT] = { U32 },
};

/**
 * struct conn - a parsed message
 * @attr:	its attributes
 * @left:	octets not parsed
 * @bad:	error in the message, or NULL
 */
struct conn {
	const struct nlattr *attr[MPA_A_CONN_MAX + 1];
	size_t left;
	const char *bad;
};

static inline int conn_attr(const struct nlattr *attr, void *data)
{
	const u16 type = mnl_attr_get_type(attr);
	struct conn *conn = data;

	conn->left -= MNL_ALIGN(attr->nla_len);
	if (type == MPA_A_CONN_PAD)
		return MNL_CB_OK;
	if (type > MPA_A_CONN_MAX || !rules[type].len)
		conn->bad = "an attribute that should not be there";
	else if (mnl_attr_get_payload_len(attr) != rules[type].len)
		conn->bad = "an attribute of a wrong length";
	else if (conn->attr[type])
		conn->bad = "an attribute that is there twice";
	else
		conn->attr[type] = attr;
	return conn->bad ? MNL_CB_STOP : MNL_CB_OK;
}

static inline u32 conn_u32(const struct conn *conn, int type)
{
	return mnl_attr_get_u32(conn->attr[type]);
}

static inline void conn_values(struct conn *conn)
{
	const u32 here = htonl(INADDR_LOOPBACK);

	if (mnl_attr_get_u16(conn->attr[MPA_A_CONN_FAMILY]) != AF_INET ||
	    conn_u32(conn, MPA_A_CONN_LOCAL_ADDR4) != here ||
	    conn_u32(conn, MPA_A_CONN_REMOTE_ADDR4) != here)
		conn->bad = "an address of another namespace";
	else if (conn_u32(conn, MPA_A_CONN_STATE) > MPA_STATE_FULL)
		conn->bad = "a state that none of them was in";
	else if (!mnl_attr_get_u64(conn->attr[MPA_A_CONN_COOKIE]))
		conn->bad = "a cookie that is none";
}

/* Parse a message; @conn points into it. */
static inline void conn_read(struct conn *conn, const struct nlmsghdr *nlh)
{
	size_t i;

	memset(conn, 0, sizeof(*conn));
	conn->left = mnl_nlmsg_get_payload_len(nlh) - sizeof(struct genlmsghdr);
	mnl_attr_parse(nlh, sizeof(struct genlmsghdr), conn_attr, conn);
	if (!conn->bad && conn->left)
		conn->bad = "octets after the attributes";
	for (i = 0; i <= MPA_A_CONN_MAX && !conn->bad; i++)
		if (rules[i].always && !conn->attr[i])
			conn->bad = "an attribute is missing";
	if (!conn->bad)
		conn_values(conn);
}

static inline u8 command(const struct nlmsghdr *nlh)
{
	return ((struct genlmsghdr *)mnl_nlmsg_get_payload(nlh))->cmd;
}

/**
 * struct roll - the cookies in a dump
 * @cookie:	the cookies
 * @n:		their number
 * @most:	size of @cookie
 * @bad:	what was wrong with a message, or NULL
 */
struct roll {
	u64 *cookie;
	unsigned int n;
	unsigned int most;
	const char *bad;
};

static inline int roll_call(const struct nlmsghdr *nlh, struct dump *dump)
{
	struct roll *roll = dump->data;
	struct conn conn;

	conn_read(&conn, nlh);
	if (nlh->nlmsg_type != dump->request->nlmsg_type ||
	    nlh->nlmsg_flags != NLM_F_MULTI || command(nlh) != MPA_CMD_CONN_GET)
		conn.bad = "a message that was not asked for";
	if (!conn.bad && roll->n == roll->most)
		conn.bad = "more connections than there can be";
	if (conn.bad)
		roll->bad = conn.bad;
	else
		roll->cookie[roll->n++] =
			mnl_attr_get_u64(conn.attr[MPA_A_CONN_COOKIE]);
	return MNL_CB_OK;
}

static inline int roll_dump(struct roll *roll, struct dump *dump)
{
	roll->n = 0;
	roll->bad = NULL;
	dump->each = roll_call;
	dump->data = roll;
	if (dump_run(dump))
		return -1;
	sort(roll->cookie, roll->n);
	return 0;
}

static inline unsigned int roll_twice(const struct roll *roll)
{
	unsigned int i, twice = 0;

	for (i = 1; i < roll->n; i++)
		twice += roll->cookie[i] == roll->cookie[i - 1];
	return twice;
}

/* Return: the number of the crowd's connections that the dump lacks. */
static inline unsigned int roll_missing(const struct roll *roll,
					const struct crowd *crowd)
{
	unsigned int i, missing = 0;

	for (i = 0; i < crowd->n; i++)
		missing += !bsearch(crowd->cookie + i, roll->cookie, roll->n,
				    sizeof(u64), by_number);
	return missing;
}

#endif /* _MPA_MANY_H */
