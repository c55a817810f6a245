// SPDX-License-Identifier: GPL-2.0
/*
 * Start MPA on a connection: the commands' common options, and messages for failures
 * (RFC 5044 section 7.1, RFC 6581).
 */
#include "tool.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS_MOST	3600

enum {
	KEY_NO_CRC = 0x100,
	KEY_ROLE,
	KEY_IRD,
	KEY_ORD,
	KEY_P2P,
	KEY_PERMISSIVE,
	KEY_TX_MARKERS,
	KEY_TX_NO_CRC,
	KEY_TIMEOUT,
	KEY_PLACE,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Startup:", 10 },
	{ "markers", 'm', NULL, 0, "request markers from the peer", 0 },
	{ "no-crc", KEY_NO_CRC, NULL, 0,
	  "no CRCs, if the peer and both administrators agree", 0 },
	{ "revision", 'r', "N", 0, "0, 1 (RFC 5044) or 2 (RFC 6581)", 0 },
	{ "role", KEY_ROLE, "ROLE", 0,
	  "initiator, responder, or direct: without startup frames", 0 },
	{ "private-data", 'd', "TEXT", 0,
	  "private data of the startup frame; @FILE: the content of the file", 0 },
	{ "ird", KEY_IRD, "N", 0, "inbound RDMA Reads, to be negotiated (revision 2)", 0 },
	{ "ord", KEY_ORD, "N", 0, "outbound RDMA Reads, to be negotiated (revision 2)", 0 },
	{ "p2p", KEY_P2P, "RTR", OPTION_ARG_OPTIONAL,
	  "peer-to-peer model (revision 2); RTR is a list of fpdu (default), write, read", 0 },
	{ "permissive", KEY_PERMISSIVE, NULL, 0, "accept revision 0", 0 },
	{ "tx-markers", KEY_TX_MARKERS, NULL, 0, "role direct: send markers", 0 },
	{ "tx-no-crc", KEY_TX_NO_CRC, NULL, 0, "role direct: send no CRCs", 0 },
	{ "timeout", KEY_TIMEOUT, "SECONDS", 0, "timeout of startup (default: the policy's)", 0 },
	{ "place", KEY_PLACE, NULL, 0,
	  "receive records out of order (needs markers and CRCs)", 0 },
	{ NULL, '4', NULL, 0, "IPv4 only", 0 },
	{ NULL, '6', NULL, 0, "IPv6 only", 0 },
	{}
};

static unsigned long parse_number(struct argp_state *state, const char *text, unsigned long most,
				  const char *what)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || *end || end == text || *text == '-' || value > most)
		argp_error(state, "%s: %s takes a number up to %lu", text, what, most);
	return value;
}

static void private_data(struct argp_state *state, struct mpa_start *start, const char *text)
{
	size_t len = strlen(text);
	FILE *file;

	if (*text == '@') {
		char octets[MPA_PRIVATE_DATA_MAX + 1];

		file = fopen(text + 1, "re");
		if (!file)
			die(STATUS_LOCAL, "%s: %m", text + 1);
		len = fread(octets, 1, sizeof(octets), file);
		if (ferror(file))
			die(STATUS_LOCAL, "%s: %m", text + 1);
		fclose(file);
		if (len <= MPA_PRIVATE_DATA_MAX)
			memcpy(start->private_data, octets, len);
	} else if (len <= MPA_PRIVATE_DATA_MAX) {
		memcpy(start->private_data, text, len);
	}
	if (len > MPA_PRIVATE_DATA_MAX)
		argp_error(state, "private data can have at most %d octets",
			   MPA_PRIVATE_DATA_MAX);
	start->private_len = len;
}

static unsigned int rtr_flags(struct argp_state *state, const char *text)
{
	char *list = need_memory(strdup(text ?: "fpdu")), *each, *rest = list;
	unsigned int flags = 0;

	while ((each = strsep(&rest, ",")))
		if (!strcmp(each, "fpdu"))
			flags |= MPA_START_RTR_FPDU;
		else if (!strcmp(each, "write"))
			flags |= MPA_START_RTR_WRITE;
		else if (!strcmp(each, "read"))
			flags |= MPA_START_RTR_READ;
		else
			argp_error(state, "%s: expected an RTR: fpdu, write or read", each);
	free(list);
	return flags;
}

static int parse_role(struct argp_state *state, const char *text)
{
	static const char *const names[] = { "", "initiator", "responder", "direct" };

	for (int i = 1; i < 4; i++)
		if (!strcmp(text, names[i]))
			return i;
	argp_error(state, "%s: expected a role: initiator, responder or direct", text);
	return 0;
}

/* Return: a time given by the user, in ms. */
unsigned int start_seconds(struct argp_state *state, const char *option, const char *text)
{
	double seconds;
	char *end;

	seconds = strtod(text, &end);
	if (*end || end == text || !(seconds >= 0.001 && seconds <= SECONDS_MOST))
		argp_error(state, "%s %s: expected 0.001 to %d seconds", option, text,
			   SECONDS_MOST);
	return seconds * 1000;
}

/* Return: the bit in mpa_start.flags for a key; 0: none. */
static unsigned int flag_of(int key)
{
	switch (key) {
	case 'm':
	case KEY_PLACE:
		return MPA_START_MARKERS;
	case KEY_NO_CRC:
		return MPA_START_NO_CRC;
	case KEY_PERMISSIVE:
		return MPA_START_PERMISSIVE;
	case KEY_TX_MARKERS:
		return MPA_START_TX_MARKERS;
	case KEY_TX_NO_CRC:
		return MPA_START_TX_NO_CRC;
	}
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct start_options *opt = state->input;
	struct mpa_start *start = &opt->start;

	start->flags |= flag_of(key);
	switch (key) {
	case 'r':
		start->revision = parse_number(state, arg, 2, "a revision");
		break;
	case KEY_ROLE:
		opt->role = parse_role(state, arg);
		break;
	case 'd':
		private_data(state, start, arg);
		break;
	case KEY_IRD:
		start->ird = parse_number(state, arg, MPA_DEPTH_BY_USER, "IRD");
		start->flags |= MPA_START_ENHANCED;
		break;
	case KEY_ORD:
		start->ord = parse_number(state, arg, MPA_DEPTH_BY_USER, "ORD");
		start->flags |= MPA_START_ENHANCED;
		break;
	case KEY_P2P:
		start->flags |= MPA_START_ENHANCED | MPA_START_P2P | rtr_flags(state, arg);
		break;
	case KEY_TIMEOUT:
		start->timeout_ms = start_seconds(state, "--timeout", arg);
		break;
	case KEY_PLACE:
		opt->place = true;
		break;
	case '4':
		opt->family = AF_INET;
		break;
	case '6':
		opt->family = AF_INET6;
		break;
	case ARGP_KEY_END:
		if (start->flags & MPA_START_ENHANCED && start->revision != 2)
			start->revision = 2;
		break;
	default:
		return flag_of(key) ? 0 : ARGP_ERR_UNKNOWN;
	}
	return 0;
}

const struct argp start_argp = { options, parse, NULL, NULL, NULL, NULL, NULL };

void start_defaults(struct start_options *opt)
{
	*opt = (struct start_options){
		.start.revision = 1,
		.segment = MPA_SEGMENT_OFF,
	};
}

/* Attach the ULP to a socket; exit on failure. */
void start_attach(int fd)
{
	if (!setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")))
		return;
	if (errno == ENOENT)
		die(STATUS_LOCAL,
		    "the kernel has no mpa; load the module: sudo modprobe mpa, or insmod mpa.ko (at each boot: mpa(1))");
	die(STATUS_LOCAL, "cannot attach MPA to the connection: %m");
}

/*
 * As start_attach(), for a connection that may have ended. Return: whether the ULP is
 * attached.
 */
bool start_attached(int fd)
{
	if (!setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa")))
		return true;
	if (errno != ENOTCONN)
		start_attach(fd);
	note("a connection has ended before it was accepted");
	return false;
}

/* Set an int option of level SOL_MPA. */
void start_set(int fd, int option, int value, const char *name)
{
	if (setsockopt(fd, SOL_MPA, option, &value, sizeof(value)))
		die(STATUS_LOCAL, "%s cannot be set to %d: %m", name, value);
}

bool start_peer(int fd, struct mpa_peer *peer)
{
	socklen_t len = sizeof(*peer);

	memset(peer, 0, sizeof(*peer));
	return !getsockopt(fd, SOL_MPA, MPA_PEER, peer, &len);
}

void start_info(int fd, struct mpa_info *info)
{
	socklen_t len = sizeof(*info);

	memset(info, 0, sizeof(*info));
	if (getsockopt(fd, SOL_MPA, MPA_INFO, info, &len))
		die(STATUS_LOCAL, "MPA_INFO: %m");
}

char *start_private(const struct mpa_peer *peer)
{
	char *text, *to;

	if (is_utf8(peer->private_data, peer->private_len))
		return printable(peer->private_data, peer->private_len);
	text = need_memory(malloc(2 * peer->private_len + 3));
	to = text + sprintf(text, "0x");
	for (int i = 0; i < peer->private_len; i++)
		to += sprintf(to, "%02x", peer->private_data[i]);
	return text;
}

/* Return: a name for MPA_START_RTR_*. */
const char *start_rtr(unsigned int flags)
{
	static const char *const names[] = { "none", "fpdu", "write", "fpdu/write", "read",
					     "fpdu/read", "write/read", "fpdu/write/read" };

	return names[(flags & MPA_START_RTR) / MPA_START_RTR_FPDU];
}

/* Return: the peer's frame without private data, as a line. The caller frees it. */
char *start_frame(const struct mpa_peer *peer)
{
	const unsigned int flags = peer->flags, control = peer->control;
	char *depths = NULL, *text;
	int len;

	if (flags & MPA_PEER_ENHANCED &&
	    asprintf(&depths, "; IRD %u, ORD %u, A=%d B=%d C=%d D=%d", peer->ird, peer->ord,
		     !!(control & MPA_START_P2P), !!(control & MPA_START_RTR_FPDU),
		     !!(control & MPA_START_RTR_WRITE), !!(control & MPA_START_RTR_READ)) < 0)
		need_memory(NULL);
	len = asprintf(&text, "revision %u, M=%d C=%d R=%d S=%d%s; private data: %u octets",
		       peer->revision, !!(flags & MPA_PEER_MARKERS), !!(flags & MPA_PEER_CRC),
		       !!(flags & MPA_PEER_REJECTED), !!(flags & MPA_PEER_ENHANCED),
		       depths ?: "", peer->private_len);
	if (len < 0)
		need_memory(NULL);
	free(depths);
	return text;
}

/* Return: the negotiated parameters, as a line. The caller frees it. */
char *start_agreed(const struct mpa_info *info)
{
	static const char *const crcs[] = { "no CRCs", "CRCs sent", "CRCs received", "CRCs" };
	static const char *const markers[] = { "no markers", "markers sent",
					       "markers received", "markers both ways" };
	const bool p2p = info->flags & MPA_INFO_P2P;
	char *text;

	if (asprintf(&text, "revision %u, %s, %s, MULPDU %u%s%s", info->revision,
		     markers[info->flags & 3], crcs[(info->flags & MPA_INFO_CRC) >> 2],
		     info->mulpdu, p2p ? ", peer-to-peer, RTR " : "",
		     p2p ? start_rtr(info->rtr) : "") < 0)
		need_memory(NULL);
	return text;
}

static char *why_refused(int fd, const struct start_options *opt)
{
	struct mpa_peer peer;
	char *private, *text;
	int len;

	if (!start_peer(fd, &peer) || !peer.private_len) {
		len = asprintf(&text, "the peer refused, without private data%s",
			       opt && opt->start.flags & MPA_START_MARKERS ?
			       ": it may not send markers (siw does not); try without them" :
			       "");
	} else {
		private = start_private(&peer);
		len = asprintf(&text, "the peer refused: its private data says \"%s\"", private);
		free(private);
	}
	if (len < 0)
		need_memory(NULL);
	return text;
}

/* errnos of startup failures, and their messages */
static const struct {
	int err;
	enum status status;
	const char *why;
} ends[] = {
	{ EPROTO, STATUS_STARTUP,
	  "the peer's frame is malformed: does it speak MPA, this revision?" },
	{ ETIMEDOUT, STATUS_STARTUP,
	  "the peer's frame did not arrive in time: does it speak MPA, in the other role?" },
	{ ECONNRESET, STATUS_STARTUP,
	  "the peer closed during startup: it may not support MPA or the options" },
	{ EPIPE, STATUS_STARTUP, "the peer closed the connection during startup" },
	{ ENOTCONN, STATUS_STARTUP, "the peer closed the connection before startup" },
	{ EPERM, STATUS_LOCAL,
	  "net.mpa.place is 0 here: omit --place, or set it (mpa policy)" },
	{ EUSERS, STATUS_LOCAL,
	  "too many connections are in startup here: see net.mpa.startup_max (mpa policy)" },
	{ ENOBUFS, STATUS_REFUSED,
	  "the responder wants a larger IRD than offered: raise --ird" },
	{ EOPNOTSUPP, STATUS_REFUSED,
	  "the ends have no common RTR: name others with --p2p=fpdu,write,read" },
	{ EBUSY, STATUS_STARTUP,
	  "the peer sent octets before startup: does it speak MPA, in the other role?" },
	{ EINVAL, STATUS_USAGE,
	  "these options cannot be combined (private data in revision 2: at most 508 octets)" },
	{}
};

static char *why_startup(int fd, int err, const struct start_options *opt, enum status *status)
{
	char *text;

	*status = STATUS_LOCAL;
	if (err == ECONNREFUSED) {
		*status = STATUS_REFUSED;
		return why_refused(fd, opt);
	}
	for (int i = 0; ends[i].err; i++)
		if (ends[i].err == err) {
			*status = ends[i].status;
			return need_memory(strdup(ends[i].why));
		}
	if (asprintf(&text, "startup failed: %s", strerror(err)) < 0)
		need_memory(NULL);
	return text;
}

/* As a responder, read the request and reply. Return: 0 or an errno. */
static int answer(int fd, const struct start_options *opt)
{
	struct pollfd poll_for = { .fd = fd, .events = POLLIN };
	struct mpa_reply reply = {};
	socklen_t len = sizeof(int);
	struct mpa_peer peer;
	int err = 0;

	while (poll(&poll_for, 1, -1) < 0)
		if (errno != EINTR)
			return errno;
	if (!start_peer(fd, &peer)) {
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
		return err ?: ECONNRESET;
	}
	if (!opt->reject)
		return setsockopt(fd, SOL_MPA, MPA_ACCEPT, NULL, 0) ? errno : 0;
	reply.private_len = strlen(opt->reject);
	memcpy(reply.private_data, opt->reject, reply.private_len);
	return setsockopt(fd, SOL_MPA, MPA_REJECT, &reply, sizeof(reply)) ? errno : 0;
}

/*
 * Start MPA on a socket with the ULP, in @role unless the options name another, and
 * wait for the result. STATUS_OK means Full Operation, or a request that --reject
 * rejected. Otherwise *why has the reason and the remedy; the caller frees it.
 */
enum status start_mpa(int fd, const struct start_options *opt, enum mpa_role role, char **why)
{
	struct mpa_start start = opt->start;
	int err = 0, on = 1;
	enum status status;

	*why = NULL;
	start.role = opt->role ? opt->role : (int)role;
	if (start.role == MPA_ROLE_RESPONDER) {
		/* A responder takes these from the request. */
		start.flags &= ~(MPA_START_ENHANCED | MPA_START_P2P);
		start.flags |= MPA_START_MANUAL;
	}
	if (opt->segment != MPA_SEGMENT_OFF)
		start_set(fd, MPA_SEGMENT, opt->segment, "MPA_SEGMENT");
	if (opt->quick)
		setsockopt(fd, SOL_TCP, TCP_NODELAY, &on, sizeof(on));
	/* Placing needs markers. */
	if (setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start)) ||
	    (opt->place && setsockopt(fd, SOL_MPA, MPA_PLACE, &on, sizeof(on))))
		err = errno;
	else if (start.role == MPA_ROLE_RESPONDER)
		err = answer(fd, opt);
	if (!err)
		return STATUS_OK;
	*why = why_startup(fd, err, opt, &status);
	return status;
}

static const char *const codes[] = {
	[MPA_ERR_NONE] = "none", [MPA_ERR_TCP] = "tcp", [MPA_ERR_CRC] = "crc",
	[MPA_ERR_MARKER] = "marker", [MPA_ERR_STARTUP] = "startup",
	[MPA_ERR_LOCAL] = "local", [MPA_ERR_IRD] = "ird", [MPA_ERR_RTR] = "rtr",
};

/*
 * Return: the exit status for an errno of send() or recv() in Full Operation. The
 * caller frees *why.
 */
enum status start_error(int fd, int err, char **why)
{
	struct mpa_info info = {};
	socklen_t size = sizeof(info);
	const char *what;
	int len;

	getsockopt(fd, SOL_MPA, MPA_INFO, &info, &size);
	if (err != EBADMSG) {
		if (asprintf(why, "the connection is lost: %s", strerror(err)) < 0)
			need_memory(NULL);
		return err == ENOMEM ? STATUS_LOCAL : STATUS_LOST;
	}
	what = info.error == MPA_ERR_CRC ? "a record is damaged: its CRC or length is wrong" :
	       info.error == MPA_ERR_MARKER ? "a marker points to the wrong place" :
	       info.error == MPA_ERR_TCP ? "the stream ends inside a record" :
	       "receiving has stopped";
	len = asprintf(why, "%s (error %u, %s, at stream position %llu)", what, info.error,
		       info.error < sizeof(codes) / sizeof(*codes) ? codes[info.error] : "?",
		       info.error_position);
	if (len < 0)
		need_memory(NULL);
	return STATUS_DAMAGED;
}
