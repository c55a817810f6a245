/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Generic netlink for tests: a socket, a request, the family "mpa". Include it
 * after a harness; links with -lmnl.
 */
#ifndef _MPA_GENL_H
#define _MPA_GENL_H

#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <linux/mpa_netlink.h>

static inline u64 cookie_of(int fd)
{
	socklen_t len = sizeof(u64);
	u64 cookie = 0;

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	return cookie;
}

static inline struct mnl_socket *netlink_open(int bus)
{
	struct mnl_socket *nl = mnl_socket_open(bus);

	if (nl && mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID)) {
		mnl_socket_close(nl);
		return NULL;
	}
	return nl;
}

/**
 * struct family - a family, as the controller reports it
 * @id:		message type
 * @events:	number of its multicast group "events"
 */
struct family {
	u16 id;
	u32 events;
};

static inline int group_seen(const struct nlattr *group, struct family *family)
{
	const struct nlattr *attr;
	bool named = false;
	u32 id = 0;

	mnl_attr_for_each_nested(attr, group) {
		if (mnl_attr_get_type(attr) == CTRL_ATTR_MCAST_GRP_ID)
			id = mnl_attr_get_u32(attr);
		else if (mnl_attr_get_type(attr) == CTRL_ATTR_MCAST_GRP_NAME)
			named = !strcmp(mnl_attr_get_str(attr),
					MPA_MCGRP_EVENTS);
	}
	if (named)
		family->events = id;
	return MNL_CB_OK;
}

static inline int family_seen(const struct nlmsghdr *nlh, void *data)
{
	const struct nlattr *attr, *group;
	struct family *family = data;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr)) {
		if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID)
			family->id = mnl_attr_get_u16(attr);
		if (mnl_attr_get_type(attr) != CTRL_ATTR_MCAST_GROUPS)
			continue;
		mnl_attr_for_each_nested(group, attr)
			group_seen(group, family);
	}
	return MNL_CB_OK;
}

static inline struct nlmsghdr *genl_request(void *buf, u16 type, u8 cmd,
					    u16 flags, u32 seq)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct genlmsghdr *genl;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = seq;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = cmd;
	genl->version = 1;
	return nlh;
}

/* Find the family in the test's network namespace. Return: zeros if it is not there. */
static inline struct family mpa_family(void)
{
	struct mnl_socket *nl = netlink_open(NETLINK_GENERIC);
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct family family = {};
	struct nlmsghdr *nlh;
	ssize_t n;

	if (!nl)
		return family;
	nlh = genl_request(buf, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0, 1);
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, MPA_FAMILY_NAME);
	mnl_socket_sendto(nl, nlh, nlh->nlmsg_len);
	n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
	if (n > 0)
		mnl_cb_run(buf, n, 1, 0, family_seen, &family);
	mnl_socket_close(nl);
	return family;
}

#endif /* _MPA_GENL_H */
