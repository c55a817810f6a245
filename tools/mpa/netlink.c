// SPDX-License-Identifier: GPL-2.0
/*
 * Generic netlink: the family "mpa" of the present network namespace
 * (Documentation/netlink/specs/mpa.yaml).
 */
#include "tool.h"
#include "netlink.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>

/* How often to repeat a dump that changes interrupt. */
#define NL_TRIES	16

/* ---- the kernel's error messages ---- */

static int range_attr(const struct nlattr *attr, void *data)
{
	struct nl_error *error = data;

	switch (mnl_attr_get_type(attr)) {
	case NL_POLICY_TYPE_ATTR_MIN_VALUE_U:
		error->min = mnl_attr_get_u64(attr);
		break;
	case NL_POLICY_TYPE_ATTR_MAX_VALUE_U:
		error->max = mnl_attr_get_u64(attr);
		error->has_range = true;
		break;
	}
	return MNL_CB_OK;
}

/* Return: the type of the request's attribute at @offset. */
static unsigned int attr_at(const struct nlmsghdr *request, uint32_t offset)
{
	if (offset + sizeof(struct nlattr) > request->nlmsg_len)
		return 0;
	return mnl_attr_get_type((const void *)((const char *)request + offset));
}

static void extack_attr(struct nl_error *error, const struct nlattr *attr,
			const struct nlmsghdr *request)
{
	switch (mnl_attr_get_type(attr)) {
	case NLMSGERR_ATTR_MSG:
		snprintf(error->text, sizeof(error->text), "%.*s",
			 mnl_attr_get_payload_len(attr), mnl_attr_get_str(attr));
		break;
	case NLMSGERR_ATTR_OFFS:
		error->attr = attr_at(request, mnl_attr_get_u32(attr));
		break;
	case NLMSGERR_ATTR_POLICY:
		mnl_attr_parse_nested(attr, range_attr, error);
		break;
	}
}

struct answer {
	struct nl *nl;
	const struct nlmsghdr *request;
	nl_message_t each;
	void *data;
};

static int answer_error(const struct nlmsghdr *nlh, void *data)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);
	const struct answer *answer = data;
	struct nl_error *error = &answer->nl->error;
	unsigned int skip = sizeof(*err);
	const struct nlattr *attr;

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*err)) {
		errno = EBADMSG;
		return MNL_CB_ERROR;
	}
	if (!err->error)
		return MNL_CB_STOP;
	if (!(nlh->nlmsg_flags & NLM_F_CAPPED))
		skip += err->msg.nlmsg_len - sizeof(err->msg);
	if (nlh->nlmsg_flags & NLM_F_ACK_TLVS)
		mnl_attr_for_each(attr, nlh, skip)
			extack_attr(error, attr, answer->request);
	errno = err->error < 0 ? -err->error : err->error;
	return MNL_CB_ERROR;
}

/* The end of a dump may report an error, too. */
static int answer_done(const struct nlmsghdr *nlh, void *data)
{
	const int *err = mnl_nlmsg_get_payload(nlh);

	(void)data;
	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*err) || *err >= 0)
		return MNL_CB_STOP;
	errno = -*err;
	return MNL_CB_ERROR;
}

static int answer_message(const struct nlmsghdr *nlh, void *data)
{
	const struct answer *answer = data;

	return answer->each ? answer->each(nlh, answer->data) : MNL_CB_OK;
}

/* Return: the kernel's message, or the text for its errno. */
const char *nl_why(const struct nl *nl)
{
	if (nl->error.err == EPERM)
		return "only root may (CAP_NET_ADMIN in the network namespace): use sudo";
	return *nl->error.text ? nl->error.text : strerror(nl->error.err);
}

/* ---- requests ---- */

static struct nlmsghdr *request_to(struct nl *nl, void *buf, uint16_t family,
				   uint8_t cmd, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct genlmsghdr *genl;

	nlh->nlmsg_type = family;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = ++nl->seq;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = cmd;
	genl->version = MPA_FAMILY_VERSION;
	return nlh;
}

/* Build a request to the family. @buf has NL_REQUEST_SIZE octets. */
struct nlmsghdr *nl_request(struct nl *nl, void *buf, uint8_t cmd, uint16_t flags)
{
	return request_to(nl, buf, nl->family, cmd, flags);
}

/*
 * Send a request, and pass each message to @each until the request is answered. Taps'
 * records that arrive before the answer are passed, too. Return: 0, or -1 with errno
 * and nl->error.
 */
int nl_ask(struct nl *nl, struct nlmsghdr *nlh, nl_message_t each, void *data)
{
	struct answer answer = { .nl = nl, .request = nlh, .each = each, .data = data };
	static mnl_cb_t control[NLMSG_MIN_TYPE] = {
		[NLMSG_ERROR] = answer_error,
		[NLMSG_DONE] = answer_done,
	};
	int ret = MNL_CB_OK;
	ssize_t len;

	nl->error = (struct nl_error){};
	if (!(nlh->nlmsg_flags & NLM_F_DUMP))
		nlh->nlmsg_flags |= NLM_F_ACK;
	if (mnl_socket_sendto(nl->sock, nlh, nlh->nlmsg_len) < 0)
		ret = MNL_CB_ERROR;
	while (ret > MNL_CB_STOP) {
		len = mnl_socket_recvfrom(nl->sock, nl->message, NL_MESSAGE_SIZE);
		if (len < 0 && (errno == EINTR || (errno == ENOBUFS && each)))
			continue;
		ret = len < 0 ? MNL_CB_ERROR :
		      mnl_cb_run2(nl->message, len, nlh->nlmsg_seq,
				  mnl_socket_get_portid(nl->sock), answer_message, &answer,
				  control, NLMSG_MIN_TYPE);
	}
	if (ret == MNL_CB_STOP)
		return 0;
	nl->error.err = errno;
	return -1;
}

static void nl_connect(struct nl *nl)
{
	int on = 1;

	nl->sock = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (!nl->sock || mnl_socket_bind(nl->sock, 0, MNL_SOCKET_AUTOPID))
		die(STATUS_LOCAL, "cannot open a netlink socket: %m");
	/* Without this option the kernel returns errnos without messages. */
	mnl_socket_setsockopt(nl->sock, NETLINK_EXT_ACK, &on, sizeof(on));
}

/*
 * Pass each message of a dump to @each. If changes interrupt the dump, call @begin and
 * dump again.
 */
int nl_dump(struct nl *nl, uint8_t cmd, nl_begin_t begin, nl_message_t each, void *data)
{
	char buf[NL_REQUEST_SIZE];
	int ret = -1;

	for (int i = 0; i < NL_TRIES; i++) {
		begin(data);
		ret = nl_ask(nl, nl_request(nl, buf, cmd, NLM_F_DUMP), each, data);
		if (!ret || nl->error.err != EINTR)
			break;
		/* Closing the socket ends the dump. */
		mnl_socket_close(nl->sock);
		nl_connect(nl);
	}
	return ret;
}

/* ---- the family ---- */

static int family_seen(const struct nlmsghdr *nlh, void *data)
{
	const struct nlattr *attr;
	struct nl *nl = data;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID)
			nl->family = mnl_attr_get_u16(attr);
	return MNL_CB_OK;
}

/* Open the socket; exit if mpa is not loaded. */
void nl_open(struct nl *nl)
{
	char buf[NL_REQUEST_SIZE];
	struct nlmsghdr *nlh;

	*nl = (struct nl){ .message = need_memory(malloc(NL_MESSAGE_SIZE)) };
	nl_connect(nl);
	nlh = request_to(nl, buf, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, MPA_FAMILY_NAME);
	if (!nl_ask(nl, nlh, family_seen, nl) && nl->family)
		return;
	if (!nl->error.err || nl->error.err == ENOENT)
		die(STATUS_LOCAL, "mpa is not loaded: sudo modprobe mpa (or insmod mpa.ko)");
	die(STATUS_LOCAL, "cannot find the netlink family mpa: %s", nl_why(nl));
}

void nl_close(struct nl *nl)
{
	if (nl->sock)
		mnl_socket_close(nl->sock);
	free(nl->message);
	*nl = (struct nl){};
}

int nl_fd(const struct nl *nl)
{
	return mnl_socket_get_fd(nl->sock);
}

/*
 * Set the receive buffer. For root of the initial user namespace SO_RCVBUFFORCE exceeds
 * the limit.
 */
int nl_buffer(struct nl *nl, int octets)
{
	if (!setsockopt(nl_fd(nl), SOL_SOCKET, SO_RCVBUFFORCE, &octets, sizeof(octets)))
		return 0;
	return setsockopt(nl_fd(nl), SOL_SOCKET, SO_RCVBUF, &octets, sizeof(octets));
}

/* Subscribe to events. Return: 0, or -1 with errno. */
int nl_listen(struct nl *nl)
{
	char buf[NL_REQUEST_SIZE];

	return nl_ask(nl, nl_request(nl, buf, MPA_CMD_EVENT_JOIN, 0), NULL, NULL);
}

/*
 * Pass a notification to @each. Return: 1, or 0 if there was none, or -1 with errno;
 * ENOBUFS: some were lost.
 */
int nl_take(struct nl *nl, nl_message_t each, void *data)
{
	ssize_t len = recv(nl_fd(nl), nl->message, NL_MESSAGE_SIZE, MSG_DONTWAIT);

	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	return mnl_cb_run(nl->message, len, 0, 0, each, data) < MNL_CB_STOP ? -1 : 1;
}

/* Return: MPA_CMD_*. */
uint8_t nl_command(const struct nlmsghdr *nlh)
{
	const struct genlmsghdr *genl = mnl_nlmsg_get_payload(nlh);

	return genl->cmd;
}
