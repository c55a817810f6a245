// SPDX-License-Identifier: GPL-2.0
/*
 * A measured connection: start MPA, send and receive. Octet N of a direction is octet N
 * modulo PERF_PATTERN of a pattern. So octets can be compared wherever records and
 * calls begin.
 */
#include "perf.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum {
	BURST = 16,		/* calls before the next connection is served */
	WORD = 4,		/* an FPDU's length is a multiple of this */
	HEADER = 2,
	CRC = 4,
	MARKER = 4,
	MARKER_EVERY = 512,
};

/*
 * The initiator sends this first, as the responder must not send before it receives a
 * record (RFC 5044 section 7.1.2 rule 4). It is not counted.
 */
static const char opening[] = "mpa-perf opening";

static const struct perf_params *params_of(const struct perf_flow *flow)
{
	return flow->run->params;
}

static bool receives(const struct perf_run *run)
{
	return run->params->test == PERF_LATENCY ||
	       (run->server ? run->params->to_server : run->params->to_client);
}

static bool uses_positions(const struct perf_run *run)
{
	return run->params->mpa && run->params->start.place && run->params->verify &&
	       receives(run);
}

static bool set_option(int fd, int level, int option, int value, const char *name, char **why)
{
	if (!setsockopt(fd, level, option, &value, sizeof(value)))
		return true;
	*why = perf_text("%s cannot be set to %d: %s", name, value, strerror(errno));
	return false;
}

/*
 * Whether the congestion control is available. A client must not make a server's kernel
 * load a module.
 */
static bool is_available(const char *congestion)
{
	char name[PERF_CONGESTION];
	bool found = false;
	FILE *file;

	file = fopen("/proc/sys/net/ipv4/tcp_available_congestion_control", "re");
	while (file && !found && fscanf(file, "%15s", name) == 1)
		found = !strcmp(name, congestion);
	if (file)
		fclose(file);
	return found;
}

/* Set the options that iperf3 has, too. */
static bool set_tcp(struct perf_flow *flow, char **why)
{
	const struct perf_params *params = params_of(flow);
	const uint64_t rate = params->pacing / 8;
	const char *name = params->congestion;

	if (*name && flow->run->server && !is_available(name)) {
		*why = perf_text("congestion control %s is not loaded there", name);
		return false;
	}
	if (*name && setsockopt(flow->fd, SOL_TCP, TCP_CONGESTION, name, strlen(name))) {
		*why = perf_text("congestion control %s: %s", name, strerror(errno));
		return false;
	}
	if (rate && setsockopt(flow->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate))) {
		*why = perf_text("SO_MAX_PACING_RATE: %s", strerror(errno));
		return false;
	}
	return !params->window ||
	       (set_option(flow->fd, SOL_SOCKET, SO_SNDBUF, params->window, "SO_SNDBUF", why) &&
		set_option(flow->fd, SOL_SOCKET, SO_RCVBUF, params->window, "SO_RCVBUF", why));
}

static bool set_options(struct perf_flow *flow, char **why)
{
	const struct perf_params *params = params_of(flow);
	bool place = params->start.place && receives(flow->run);
	int fd = flow->fd;

	if (!set_tcp(flow, why))
		return false;
	if ((params->nodelay || params->test == PERF_LATENCY) &&
	    !set_option(fd, SOL_TCP, TCP_NODELAY, 1, "TCP_NODELAY", why))
		return false;
	if (!params->mpa)
		return true;
	return (!place || set_option(fd, SOL_MPA, MPA_PLACE, 1, "MPA_PLACE", why)) &&
	       (!uses_positions(flow->run) ||
		set_option(fd, SOL_MPA, MPA_RECVINFO, 1, "MPA_RECVINFO", why)) &&
	       (params->batch == 1 ||
		set_option(fd, SOL_MPA, MPA_RECV_BATCH, 1, "MPA_RECV_BATCH", why)) &&
	       (params->segment == MPA_SEGMENT_OFF ||
		set_option(fd, SOL_MPA, MPA_SEGMENT, params->segment, "MPA_SEGMENT", why));
}

static enum status start_framing(struct perf_flow *flow, char **why)
{
	const struct perf_params *params = params_of(flow);
	enum mpa_role role = perf_params_role(params, flow->run->server);
	struct start_options start;

	if (setsockopt(flow->fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa"))) {
		*why = perf_text("cannot attach MPA to the connection: %s%s", strerror(errno),
				 errno == ENOENT ? " (load the module: sudo modprobe mpa)" : "");
		return STATUS_LOCAL;
	}
	perf_params_start(params, flow->run->server, &start);
	return start_mpa(flow->fd, &start, role, why);
}

/* Send or receive the opening record. Return: 0 or a negative errno. */
static int exchange_opening(struct perf_flow *flow)
{
	static const struct timeval patience = { .tv_sec = PERF_PATIENCE_MS / 1000 };
	enum mpa_role role = perf_params_role(params_of(flow), flow->run->server);
	bool first = role == MPA_ROLE_DIRECT ? !flow->run->server : role == MPA_ROLE_INITIATOR;
	const size_t len = strlen(opening);
	char seen[sizeof(opening)];
	size_t have = 0;
	ssize_t n;

	if (first)
		return send(flow->fd, opening, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -errno;
	setsockopt(flow->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while (have < len) {
		n = recv(flow->fd, seen + have, len - have, 0);
		if (n < 0)
			return -errno;
		if (!n)
			return -ECONNRESET;
		have += n;
	}
	return memcmp(seen, opening, len) ? -EBADMSG : 0;
}

/* Prepare a TCP connection for a run, after its hello. */
enum status perf_flow_start(struct perf_flow *flow, char **why)
{
	const struct perf_params *params = params_of(flow);
	enum status status = STATUS_OK;
	struct mpa_info info;
	int err;

	if (params->mpa)
		status = start_framing(flow, why);
	if (status == STATUS_OK && !set_options(flow, why))
		status = STATUS_LOCAL;
	if (status != STATUS_OK)
		return status;
	err = exchange_opening(flow);
	if (err) {
		*why = perf_text("opening record: %s", strerror(-err));
		return STATUS_LOST;
	}
	if (params->mpa) {
		start_info(flow->fd, &info);
		flow->tx_base = info.tx_ulpdus;
		flow->rx_base = info.rx_edge;
	}
	return STATUS_OK;
}

static enum status flow_lost(struct perf_flow *flow, int err, char **why)
{
	if (params_of(flow)->mpa)
		return start_error(flow->fd, err, why);
	*why = perf_text("the connection is lost: %s", strerror(err));
	return STATUS_LOST;
}

/* Return: the length of an FPDU without markers. */
static uint64_t fpdu_of(unsigned int size)
{
	return (HEADER + size + WORD - 1) / WORD * WORD + CRC;
}

static uint64_t without_markers(uint64_t position)
{
	return position - (position + MARKER_EVERY - 1) / MARKER_EVERY * MARKER;
}

/*
 * Return: the number of the record at @position, as all have one size; UINT64_MAX: none
 * starts there.
 */
static uint64_t record_at(const struct perf_flow *flow, uint64_t position)
{
	uint64_t octets = without_markers(position) - without_markers(flow->rx_base);
	uint64_t fpdu = fpdu_of(params_of(flow)->size);

	return octets % fpdu ? UINT64_MAX : octets / fpdu;
}

/* Return: a hash (splitmix64), so that consecutive numbers are unrelated. */
static uint64_t mixed(uint64_t value)
{
	value += 0x9e3779b97f4a7c15;
	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
	value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
	return value ^ (value >> 31);
}

/* the result of a recvmsg() that is being counted */
struct came {
	size_t octets;
	unsigned int records;
	uint64_t position;
};

static enum status compare(struct perf_flow *flow, const struct came *came, char **why)
{
	const struct perf_params *params = params_of(flow);
	const struct perf_run *run = flow->run;
	uint64_t at = flow->rx_octets, record;

	if (uses_positions(run)) {
		record = record_at(flow, came->position);
		if (record == UINT64_MAX ||
		    came->octets != (uint64_t)came->records * params->size) {
			*why = perf_text("a record of connection %d has the wrong length",
					 (int)(flow - run->flow));
			return STATUS_DIFFERS;
		}
		at = record * params->size;
		for (unsigned int i = 0; i < came->records; i++)
			flow->rx_mixed += mixed(record + i);
	}
	if (!memcmp(run->buf, run->pattern + at % PERF_PATTERN, came->octets))
		return STATUS_OK;
	for (size_t i = 0; i < came->octets; i++)
		if (run->buf[i] != run->pattern[at % PERF_PATTERN + i]) {
			*why = perf_text("octet %llu of connection %d differs from what was sent",
					 (unsigned long long)(at + i), (int)(flow - run->flow));
			break;
		}
	return STATUS_DIFFERS;
}

static void read_control(struct msghdr *msg, struct came *came)
{
	struct mpa_recvinfo info;
	struct cmsghdr *cmsg;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_MPA)
			continue;
		if (cmsg->cmsg_type == MPA_RECV_BATCH) {
			came->records = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(uint32_t);
		} else if (cmsg->cmsg_type == MPA_RECVINFO) {
			memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
			came->position = info.position;
		}
	}
}

/* Call recvmsg() once. Return: octets, 0 at end of stream, or a negative errno. */
static ssize_t receive(struct perf_flow *flow, struct came *came)
{
	struct perf_run *run = flow->run;
	struct iovec iov = { .iov_base = run->buf, .iov_len = run->buf_len };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = run->cmsg_len ? run->cmsg : NULL,
		.msg_controllen = run->cmsg_len,
	};
	ssize_t n = recvmsg(flow->fd, &msg, MSG_DONTWAIT);

	if (n < 0)
		return -errno;
	*came = (struct came){ .octets = n, .records = !!(msg.msg_flags & MSG_EOR) };
	if (n && run->cmsg_len)
		read_control(&msg, came);
	return n;
}

enum status perf_flow_receive(struct perf_flow *flow, char **why)
{
	const struct perf_params *params = params_of(flow);
	struct came came = {};
	ssize_t n;

	for (int i = 0; i < BURST && !flow->ended; i++) {
		n = receive(flow, &came);
		if (n == -EAGAIN)
			break;
		if (n == -EINTR)
			continue;
		if (n < 0)
			return flow_lost(flow, -n, why);
		if (!n) {
			flow->ended = true;
			break;
		}
		if (params->verify && compare(flow, &came, why) != STATUS_OK)
			return STATUS_DIFFERS;
		flow->rx_octets += n;
		flow->rx_records += came.records;
	}
	return STATUS_OK;
}

/* Call sendmmsg() once, for all records that may be sent. Return: octets, or -1. */
static ssize_t send_batch(struct perf_flow *flow, unsigned int records)
{
	static struct mmsghdr msg[MPA_RECV_BATCH_MAX];
	static struct iovec iov[MPA_RECV_BATCH_MAX];
	unsigned int size = params_of(flow)->size;
	ssize_t sent = 0;
	int n;

	for (unsigned int i = 0; i < records; i++) {
		uint64_t at = flow->tx_octets + (uint64_t)i * size;

		iov[i].iov_base = flow->run->pattern + at % PERF_PATTERN;
		iov[i].iov_len = size;
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
	}
	n = sendmmsg(flow->fd, msg, records, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (int i = 0; i < n; i++)
		sent += msg[i].msg_len;
	return n < 0 ? n : sent;
}

/* Call send() once; plain TCP may accept a part of a record. */
static ssize_t send_some(struct perf_flow *flow)
{
	const struct perf_params *params = params_of(flow);
	unsigned int rest = params->size - flow->tx_octets % params->size;
	uint64_t left = flow->tx_limit - flow->tx_octets;

	if (params->batch > 1 && params->segment == MPA_SEGMENT_OFF && rest == params->size &&
	    left > params->size)
		return send_batch(flow, left / params->size < params->batch ?
						left / params->size : params->batch);
	return send(flow->fd, flow->run->pattern + flow->tx_octets % PERF_PATTERN,
		    left < rest ? left : rest, MSG_DONTWAIT | MSG_NOSIGNAL);
}

enum status perf_flow_send(struct perf_flow *flow, char **why)
{
	ssize_t n;

	for (int i = 0; i < BURST && flow->tx_octets < flow->tx_limit; i++) {
		n = send_some(flow);
		if (n >= 0)
			flow->tx_octets += n;
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR)
			return flow_lost(flow, errno, why);
	}
	return STATUS_OK;
}

/* Whether each record arrived exactly once, in any order. */
bool perf_flow_has_all(const struct perf_flow *flow)
{
	uint64_t sum = 0;

	if (!uses_positions(flow->run))
		return true;
	for (uint64_t i = 0; i < flow->rx_records; i++)
		sum += mixed(i);
	return sum == flow->rx_mixed;
}

/* Return: the number of records sent; for plain TCP octets divided by --size. */
uint64_t perf_flow_sent(const struct perf_flow *flow)
{
	const struct perf_params *params = params_of(flow);
	struct mpa_info info;

	if (!params->mpa || params->segment == MPA_SEGMENT_OFF)
		return flow->tx_octets / params->size;
	start_info(flow->fd, &info);
	return info.tx_ulpdus - flow->tx_base;
}

uint64_t perf_flow_received(const struct perf_flow *flow)
{
	return params_of(flow)->mpa ? flow->rx_records : flow->rx_octets / params_of(flow)->size;
}
