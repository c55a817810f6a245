// SPDX-License-Identifier: GPL-2.0
/* A connection from netlink attributes: names, text, JSON. */
#include "tool.h"
#include "conn.h"

#include <arpa/inet.h>
#include <linux/genetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES(...)	.names = (const char *const[]){ __VA_ARGS__, NULL }

/* Offset of an IPv4 address that is mapped into an IPv6 address. */
#define MAPPED_AT	12

enum kind {
	KIND_NONE,		/* not shown */
	KIND_NUMBER,
	KIND_PORT,
	KIND_ADDRESS,
	KIND_FLAG,
	KIND_ENUM,
	KIND_FLAGS,
};

/* Names as in Documentation/netlink/specs/mpa.yaml. */
static const struct conn_attr {
	const char *name;
	enum kind kind;
	const char *const *names;
} attrs[MPA_A_CONN_MAX + 1] = {
	[MPA_A_CONN_COOKIE] = { "cookie", KIND_NUMBER },
	[MPA_A_CONN_FAMILY] = { "family", KIND_NUMBER },
	[MPA_A_CONN_LOCAL_ADDR4] = { "local-addr4", KIND_ADDRESS },
	[MPA_A_CONN_LOCAL_ADDR6] = { "local-addr6", KIND_ADDRESS },
	[MPA_A_CONN_LOCAL_PORT] = { "local-port", KIND_PORT },
	[MPA_A_CONN_REMOTE_ADDR4] = { "remote-addr4", KIND_ADDRESS },
	[MPA_A_CONN_REMOTE_ADDR6] = { "remote-addr6", KIND_ADDRESS },
	[MPA_A_CONN_REMOTE_PORT] = { "remote-port", KIND_PORT },
	[MPA_A_CONN_INODE] = { "inode", KIND_NUMBER },
	[MPA_A_CONN_UID] = { "uid", KIND_NUMBER },
	[MPA_A_CONN_KERNEL] = { "kernel", KIND_FLAG },
	[MPA_A_CONN_ROLE] = { "role", KIND_ENUM,
		NAMES("unspec", "initiator", "responder", "direct") },
	[MPA_A_CONN_STATE] = { "state", KIND_ENUM,
		NAMES("idle", "startup", "full", "rejected", "failed", "requested") },
	[MPA_A_CONN_REVISION] = { "revision", KIND_NUMBER },
	[MPA_A_CONN_FLAGS] = { "flags", KIND_FLAGS,
		NAMES("tx-markers", "rx-markers", "tx-crc", "rx-crc", "may-send",
		      "enhanced", "p2p") },
	[MPA_A_CONN_PLACING] = { "placing", KIND_FLAG },
	[MPA_A_CONN_IRD] = { "ird", KIND_NUMBER },
	[MPA_A_CONN_ORD] = { "ord", KIND_NUMBER },
	[MPA_A_CONN_EMSS] = { "emss", KIND_NUMBER },
	[MPA_A_CONN_MULPDU] = { "mulpdu", KIND_NUMBER },
	[MPA_A_CONN_TX_ULPDUS] = { "tx-ulpdus", KIND_NUMBER },
	[MPA_A_CONN_TX_OCTETS] = { "tx-octets", KIND_NUMBER },
	[MPA_A_CONN_TX_MARKERS] = { "tx-markers", KIND_NUMBER },
	[MPA_A_CONN_RX_ULPDUS] = { "rx-ulpdus", KIND_NUMBER },
	[MPA_A_CONN_RX_OCTETS] = { "rx-octets", KIND_NUMBER },
	[MPA_A_CONN_RX_MARKERS] = { "rx-markers", KIND_NUMBER },
	[MPA_A_CONN_RX_PLACED] = { "rx-placed", KIND_NUMBER },
	[MPA_A_CONN_RX_EDGE] = { "rx-edge", KIND_NUMBER },
	[MPA_A_CONN_TX_PACKETS] = { "tx-packets", KIND_NUMBER },
	[MPA_A_CONN_TX_SEGS_ALIGNED] = { "tx-segs-aligned", KIND_NUMBER },
	[MPA_A_CONN_TX_SEGS_UNALIGNED] = { "tx-segs-unaligned", KIND_NUMBER },
	[MPA_A_CONN_RX_HELD] = { "rx-held", KIND_NUMBER },
	[MPA_A_CONN_TX_HELD] = { "tx-held", KIND_NUMBER },
	[MPA_A_CONN_ERROR] = { "error", KIND_ENUM,
		NAMES("none", "tcp", "crc", "marker", "startup", "local", "ird", "rtr") },
	[MPA_A_CONN_ERRNO] = { "errno", KIND_NUMBER },
	[MPA_A_CONN_ERROR_POSITION] = { "error-position", KIND_NUMBER },
	[MPA_A_CONN_EVENT] = { "event", KIND_NUMBER },
	/* The names of the next two attributes begin with value 1. */
	[MPA_A_CONN_REFUSAL] = { "refusal", KIND_ENUM,
		NAMES("none", "by-peer", "by-user", "malformed", "timeout", "lost",
		      "ousted", "limit", "given-up", "local") },
	[MPA_A_CONN_CAUSE] = { "cause", KIND_ENUM,
		NAMES("none", "oversized", "window", "other") },
	[MPA_A_CONN_TUF_TX] = { "tuf-tx", KIND_ENUM,
		NAMES("off", "align", "markers", "segments") },
	[MPA_A_CONN_TUF_RX] = { "tuf-rx", KIND_ENUM,
		NAMES("off", "align", "markers", "segments") },
	[MPA_A_CONN_RESEGMENTED] = { "resegmented", KIND_FLAG },
};

/* ---- names ---- */

const char *conn_attr_name(unsigned int attr)
{
	return attr <= MPA_A_CONN_MAX ? attrs[attr].name : NULL;
}

/* Return: the name of an attribute's value; NULL without a name. */
const char *conn_name_of(unsigned int attr, __u64 value)
{
	const char *const *names = attrs[attr].names;

	for (__u64 i = 0; names[i]; i++)
		if (i == value)
			return names[i];
	return NULL;
}

/* Return: the value with this name; -1: none. */
int conn_value_named(unsigned int attr, const char *name)
{
	const char *const *names = attrs[attr].names;

	for (int i = 0; names[i]; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

/* Return: all names of an attribute's values, for a message. The caller frees it. */
char *conn_names(unsigned int attr)
{
	const char *const *names = attrs[attr].names;
	size_t len;
	char *text;
	FILE *out;

	out = need_memory(open_memstream(&text, &len));
	for (int i = 0; names[i]; i++)
		fprintf(out, "%s%s", i ? ", " : "", names[i]);
	fclose(out);
	return need_memory(text);
}

/* ---- from a message ---- */

static void parse_address(struct conn *conn, unsigned int type, const struct nlattr *attr)
{
	const bool remote = type == MPA_A_CONN_REMOTE_ADDR4 || type == MPA_A_CONN_REMOTE_ADDR6;
	struct in6_addr *to = remote ? &conn->remote : &conn->local;
	const size_t len = mnl_attr_get_payload_len(attr);
	const void *octets = mnl_attr_get_payload(attr);

	if (len == sizeof(*to)) {
		memcpy(to, octets, len);
	} else if (len == sizeof(struct in_addr)) {
		*to = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
		memcpy(to->s6_addr + MAPPED_AT, octets, len);
	}
}

static __u64 parse_number(const struct nlattr *attr)
{
	switch (mnl_attr_get_payload_len(attr)) {
	case sizeof(uint16_t):
		return mnl_attr_get_u16(attr);
	case sizeof(uint32_t):
		return mnl_attr_get_u32(attr);
	case sizeof(__u64):
		return mnl_attr_get_u64(attr);
	default:
		return 0;
	}
}

static int parse_attr(const struct nlattr *attr, void *data)
{
	const unsigned int type = mnl_attr_get_type(attr);
	struct conn *conn = data;

	/* Skip attributes that only a newer module has. */
	if (type > MPA_A_CONN_MAX || attrs[type].kind == KIND_NONE)
		return MNL_CB_OK;
	conn->has |= UINT64_C(1) << type;
	if (attrs[type].kind == KIND_ADDRESS)
		parse_address(conn, type, attr);
	else if (attrs[type].kind == KIND_FLAG)
		conn->value[type] = 1;
	else if (attrs[type].kind == KIND_PORT)
		conn->value[type] = ntohs(parse_number(attr));
	else
		conn->value[type] = parse_number(attr);
	return MNL_CB_OK;
}

void conn_parse(struct conn *conn, const struct nlmsghdr *nlh)
{
	*conn = (struct conn){};
	mnl_attr_parse(nlh, sizeof(struct genlmsghdr), parse_attr, conn);
}

bool conn_is_tuf(const struct conn *conn)
{
	return conn_has(conn, MPA_A_CONN_TUF_TX) || conn_has(conn, MPA_A_CONN_TUF_RX);
}

/* ---- all connections ---- */

static void conns_begin(void *data)
{
	struct conns *conns = data;

	conns->n = 0;
}

static int conns_add(const struct nlmsghdr *nlh, void *data)
{
	struct conns *conns = data;

	if (conns->n == conns->room) {
		conns->room = conns->room * 2 + 16;
		conns->list = need_memory(realloc(conns->list,
						  conns->room * sizeof(*conns->list)));
	}
	conn_parse(&conns->list[conns->n++], nlh);
	return MNL_CB_OK;
}

/* Read the namespace's connections into @conns, in place of earlier ones. */
void conn_dump(struct nl *nl, struct conns *conns)
{
	if (nl_dump(nl, MPA_CMD_CONN_GET, conns_begin, conns_add, conns))
		die(STATUS_LOCAL, "the kernel does not list connections: %s", nl_why(nl));
}

const struct conn *conn_find(const struct conns *conns, __u64 cookie)
{
	for (size_t i = 0; i < conns->n; i++)
		if (conn_value(&conns->list[i], MPA_A_CONN_COOKIE) == cookie)
			return &conns->list[i];
	return NULL;
}

/* ---- as text ---- */

static void address_text(const struct in6_addr *address, char *text)
{
	if (IN6_IS_ADDR_V4MAPPED(address))
		inet_ntop(AF_INET, address->s6_addr + MAPPED_AT, text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, address, text, INET6_ADDRSTRLEN);
}

/* Return: ADDRESS:PORT, with "*" for a missing port. The caller frees it. */
char *conn_end(const struct conn *conn, bool remote)
{
	const unsigned int attr = remote ? MPA_A_CONN_REMOTE_PORT : MPA_A_CONN_LOCAL_PORT;
	const struct in6_addr *address = remote ? &conn->remote : &conn->local;
	char host[INET6_ADDRSTRLEN], number[24] = "*", *text;
	const __u64 port = conn_value(conn, attr);

	address_text(address, host);
	if (port)
		snprintf(number, sizeof(number), "%llu", port);
	if (remote && !port && (IN6_IS_ADDR_UNSPECIFIED(address) || !strcmp(host, "0.0.0.0")))
		strcpy(host, "*");
	if (asprintf(&text, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, number) < 0)
		need_memory(NULL);
	return text;
}

static void flags_text(FILE *out, unsigned int attr, __u64 flags)
{
	const char *between = "";

	for (int i = 0; flags; i++, flags >>= 1) {
		const char *name = conn_name_of(attr, i);

		if (!(flags & 1))
			continue;
		if (name)
			fprintf(out, "%s%s", between, name);
		else
			fprintf(out, "%sbit-%d", between, i);
		between = " ";
	}
}

/* Return: a present attribute's value, or the value's name if it has one. */
char *conn_attr_text(const struct conn *conn, unsigned int attr)
{
	const __u64 value = conn_value(conn, attr);
	char address[INET6_ADDRSTRLEN], *text;
	const char *name;
	size_t len;
	FILE *out;

	out = need_memory(open_memstream(&text, &len));
	switch (attrs[attr].kind) {
	case KIND_ADDRESS:
		address_text(attr == MPA_A_CONN_REMOTE_ADDR4 ||
			     attr == MPA_A_CONN_REMOTE_ADDR6 ? &conn->remote : &conn->local,
			     address);
		fputs(address, out);
		break;
	case KIND_FLAG:
		fputs("yes", out);
		break;
	case KIND_FLAGS:
		flags_text(out, attr, value);
		break;
	case KIND_ENUM:
		name = conn_name_of(attr, value);
		if (name)
			fputs(name, out);
		else
			fprintf(out, "%llu", value);
		break;
	default:
		fprintf(out, "%llu", value);
	}
	fclose(out);
	return need_memory(text);
}

/* ---- as JSON, with the specification's values ---- */

static json_t *flags_json(unsigned int attr, __u64 flags)
{
	json_t *list = need_memory(json_array());

	for (int i = 0; flags; i++, flags >>= 1)
		if (flags & 1)
			json_array_append_new(list, conn_name_of(attr, i) ?
					      json_string(conn_name_of(attr, i)) :
					      json_integer(INT64_C(1) << i));
	return list;
}

static json_t *attr_json(const struct conn *conn, unsigned int attr)
{
	const __u64 value = conn_value(conn, attr);
	char address[INET6_ADDRSTRLEN], *text;
	json_t *it;

	/* An IPv6 socket's attribute may have a mapped address: ::ffff:10.0.0.1. */
	if (attr == MPA_A_CONN_LOCAL_ADDR6 || attr == MPA_A_CONN_REMOTE_ADDR6)
		return json_string(inet_ntop(AF_INET6, attr == MPA_A_CONN_LOCAL_ADDR6 ?
					     &conn->local : &conn->remote, address,
					     sizeof(address)));
	if (attrs[attr].kind == KIND_FLAG)
		return json_true();
	if (attrs[attr].kind == KIND_FLAGS)
		return flags_json(attr, value);
	if (attrs[attr].kind == KIND_NUMBER || attrs[attr].kind == KIND_PORT ||
	    (attrs[attr].kind == KIND_ENUM && !conn_name_of(attr, value)))
		return json_integer(value);
	text = conn_attr_text(conn, attr);
	it = json_string(text);
	free(text);
	return it;
}

json_t *conn_json(const struct conn *conn)
{
	json_t *object = need_memory(json_object());

	for (unsigned int i = 0; i <= MPA_A_CONN_MAX; i++)
		if (conn_has(conn, i))
			json_object_set_new(object, attrs[i].name, attr_json(conn, i));
	if (conn->listens)
		json_object_set_new(object, "listens", json_true());
	return object;
}
