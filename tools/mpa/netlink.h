/* SPDX-License-Identifier: GPL-2.0 */
/* The netlink family "mpa": requests, dumps, and the kernel's error messages. */
#ifndef _MPA_TOOL_NETLINK_H
#define _MPA_TOOL_NETLINK_H

#include <libmnl/libmnl.h>
#include <linux/mpa_netlink.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>

/* Buffers for a request, and for the longest message: a record of a tap. */
#define NL_REQUEST_SIZE		256
#define NL_MESSAGE_SIZE		(128 * 1024)

/**
 * struct nl_error - why the kernel refused a request
 * @err:	errno, positive
 * @text:	the kernel's message, or ""
 * @attr:	the wrong attribute; 0 if the kernel names none
 * @has_range:	the kernel reported the allowed range
 * @min:	the lowest allowed value
 * @max:	the highest allowed value
 */
struct nl_error {
	int err;
	char text[256];
	unsigned int attr;
	bool has_range;
	__u64 min;
	__u64 max;
};

/**
 * struct nl - a generic netlink socket
 * @sock:	libmnl's
 * @family:	number of the family "mpa"
 * @seq:	number of the last request
 * @message:	received messages, NL_MESSAGE_SIZE octets
 * @error:	error of the last failed request
 */
struct nl {
	struct mnl_socket *sock;
	uint16_t family;
	uint32_t seq;
	void *message;
	struct nl_error error;
};

/* Called for each message, and before each try of a dump. */
typedef int (*nl_message_t)(const struct nlmsghdr *nlh, void *data);
typedef void (*nl_begin_t)(void *data);

void nl_open(struct nl *nl);
void nl_close(struct nl *nl);
int nl_fd(const struct nl *nl);
int nl_buffer(struct nl *nl, int octets);
int nl_listen(struct nl *nl);
struct nlmsghdr *nl_request(struct nl *nl, void *buf, uint8_t cmd, uint16_t flags);
int nl_ask(struct nl *nl, struct nlmsghdr *nlh, nl_message_t each, void *data);
int nl_dump(struct nl *nl, uint8_t cmd, nl_begin_t begin, nl_message_t each, void *data);
int nl_take(struct nl *nl, nl_message_t each, void *data);
uint8_t nl_command(const struct nlmsghdr *nlh);
const char *nl_why(const struct nl *nl);

#endif /* _MPA_TOOL_NETLINK_H */
