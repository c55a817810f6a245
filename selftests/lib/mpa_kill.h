/* SPDX-License-Identifier: GPL-2.0 */
/* End a connection as "ss -K" does. Include it after mpa_test.h. */
#ifndef _MPA_KILL_H
#define _MPA_KILL_H

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>

/* Destroy the other end of a connection. Return: 0 or a negative errno. */
static inline int kill_other_end(int fd)
{
	struct {
		struct nlmsghdr nlh;
		struct inet_diag_req_v2 req;
	} msg = {
		.nlh = {
			.nlmsg_len = sizeof(msg), .nlmsg_type = SOCK_DESTROY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		},
		.req = {
			.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP,
			.id.idiag_cookie = { -1, -1 }, .idiag_states = -1,
		},
	};
	struct {
		struct nlmsghdr nlh;
		struct nlmsgerr err;
		u8 more[64];
	} ack;
	int diag = socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG), err;
	struct sockaddr_in here, there;
	socklen_t len = sizeof(here);

	getsockname(fd, (void *)&here, &len);
	getpeername(fd, (void *)&there, &len);
	msg.req.id.idiag_sport = there.sin_port;
	msg.req.id.idiag_dport = here.sin_port;
	msg.req.id.idiag_src[0] = there.sin_addr.s_addr;
	msg.req.id.idiag_dst[0] = here.sin_addr.s_addr;
	err = send(diag, &msg, sizeof(msg), 0) < 0 ||
	      recv(diag, &ack, sizeof(ack), 0) < 0 ? -errno : ack.err.error;
	close(diag);
	return err;
}

#endif /* _MPA_KILL_H */
