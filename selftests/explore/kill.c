// SPDX-License-Identifier: GPL-2.0
/* An administrator kills a socket: "ss -K". */

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>

#include "mpa.h"

int op_kill(struct world *w, long arg)
{
	struct sockaddr_in to = {}, from = {};
	socklen_t len = sizeof(to);
	static int diag = -1;
	struct {
		struct nlmsghdr nlh;
		struct inet_diag_req_v2 req;
	} msg = {
		.nlh = {
			.nlmsg_len = sizeof(msg),
			.nlmsg_type = SOCK_DESTROY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		},
		.req = {
			.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP,
			.id.idiag_cookie = { -1, -1 },
		},
	};
	struct { struct nlmsghdr nlh; struct nlmsgerr err; u8 more[64]; } ack;
	int fd = arg ? w->l : w->s;
	struct tcp_info info = {};
	socklen_t info_len = sizeof(info);

	if (diag < 0)
		diag = socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);
	getsockname(fd, (struct sockaddr *)&from, &len);
	if (getpeername(fd, (struct sockaddr *)&to, &len) && !arg)
		return -ENOTCONN;
	getsockopt(fd, SOL_TCP, TCP_INFO, &info, &info_len);
	msg.req.id.idiag_sport = from.sin_port;
	msg.req.id.idiag_dport = to.sin_port;
	msg.req.id.idiag_src[0] = from.sin_addr.s_addr;
	msg.req.id.idiag_dst[0] = to.sin_addr.s_addr;
	msg.req.idiag_states = -1;
	if (send(diag, &msg, sizeof(msg), 0) < 0 ||
	    recv(diag, &ack, sizeof(ack), 0) < 0)
		return -errno;
	if (ack.err.error)
		return ack.err.error;
	if (!arg) {
		w->ended = true;
		if (info.tcpi_state == 1 && !w->due)
			w->due = ECONNABORTED;
	}
	return 0;
}
