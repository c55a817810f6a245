// SPDX-License-Identifier: GPL-2.0
/*
 * traffic: send octets from host alpha to host beta in one way, measure the cost, and print a
 * line of JSON.
 *
 * Run it in a guest whose clock counts instructions: a nanosecond is one instruction. The
 * program does not poll, as polling would be counted.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

static struct result *result;
static int talk[2];

static const struct way *const ways[] = {
#ifdef WITH_RDMA
	&way_rdma_send, &way_rdma_write, &way_rdma_read,
#else
	&way_tcp, &way_ktls, &way_sctp, &way_library, &way_mpa,
	&way_ddp_send, &way_ddp_write,
#endif
};

/* ---- the two ends ---- */

void fail(const char *what)
{
	fprintf(stderr, "traffic: %s: %s\n", what, strerror(errno));
	exit(1);
}

void tell(const struct end *end, uint64_t what)
{
	if (write(talk[end->sender], &what, sizeof(what)) != sizeof(what))
		fail("the other end");
}

uint64_t hear(const struct end *end)
{
	uint64_t what;
	ssize_t n = read(talk[end->sender], &what, sizeof(what));

	if (n != sizeof(what)) {
		errno = n < 0 ? errno : EPIPE;
		fail("the other end");
	}
	return what;
}

void set_int(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		fail("setsockopt");
}

/* Compare received octets with the octets that each sending call repeats. */
void check(struct end *end, const uint8_t *octets, size_t len)
{
	size_t from = end->pos % end->len;

	end->pos += len;
	if (!end->checking)
		return;
	while (len) {
		size_t n = end->len - from < len ? end->len - from : len;

		if (memcmp(octets, end->data + from, n)) {
			errno = EILSEQ;
			fail("octets received");
		}
		octets += n;
		len -= n;
		from = 0;
	}
}

void enter(bool sender)
{
	int fd = open(sender ? "/run/netns/alpha" : "/run/netns/beta",
		      O_RDONLY);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		fail("the host's network namespace");
	close(fd);
}

static struct sockaddr_in address(bool sender, int port)
{
	return (struct sockaddr_in) {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(sender ? 0x0a050401 : 0x0a050402),
	};
}

/* Connect to the port that the receiver reports. */
int dial(const struct end *end, int fd)
{
	struct sockaddr_in to = address(false, hear(end));

	if (end->plan->relay)
		return relay(fd, &to);
	return connect(fd, (struct sockaddr *)&to, sizeof(to));
}

static void connect_socket(struct end *end, int buffer)
{
	struct sockaddr_in at = address(false, 0);
	socklen_t len = sizeof(at);
	int fd;

	fd = socket(AF_INET, SOCK_STREAM, end->plan->way->protocol);
	if (fd < 0)
		fail("socket");
	if (buffer) {
		set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20);
		set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, buffer);
	}
	if (end->sender) {
		if (dial(end, fd))
			fail("connect");
		end->fd = fd;
		return;
	}
	if (bind(fd, (struct sockaddr *)&at, len) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&at, &len))
		fail("listen");
	tell(end, ntohs(at.sin_port));
	end->fd = accept(fd, NULL, NULL);
	if (end->fd < 0)
		fail("accept");
	close(fd);
}

static void begin(struct end *end, const struct plan *plan, bool sender,
		  int buffer)
{
	size_t i;

	end->plan = plan;
	end->sender = sender;
	end->len = 0;
	for (i = 0; i < plan->batch; i++)
		end->len += record_len(plan, i);
	end->data = malloc(end->len + 4096);
	end->buf = malloc(plan->read + 4096);
	if (!end->data || !end->buf)
		fail("memory");
	/* Write to the pages, or they would all be the zero page. */
	memset(end->buf, 1, plan->read);
	for (i = 0; i < end->len; i++)
		end->data[i] = i * 2654435761U >> 24;
	if (plan->send == FORM_FILE) {
		end->file = memfd_create("octets", 0);
		if (end->file < 0 || write(end->file, end->data, end->len) !=
				     (ssize_t)end->len)
			fail("a file");
	}
	enter(sender);
	if (plan->way->open)
		plan->way->open(end);
	else
		connect_socket(end, buffer);
	if (plan->way->start)
		plan->way->start(end);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static uint64_t now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t processor(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static uint64_t send_octets(struct end *end, uint64_t octets)
{
	uint64_t calls;

	for (calls = 0; calls * end->len < octets; calls++)
		end->plan->way->send(end);
	return calls;
}

static void recv_octets(struct end *end, uint64_t octets)
{
	uint64_t until = end->pos + octets;

	while (end->pos < until) {
		if (!end->plan->way->recv(end)) {
			errno = ECONNRESET;
			fail("the stream ended");
		}
	}
}

/* Round up to whole calls. */
static uint64_t rounded(const struct end *end, uint64_t octets)
{
	return (octets + end->len - 1) / end->len * end->len;
}

static uint64_t warm_up(const struct end *end)
{
	return rounded(end, end->plan->warm);
}

static void note_form(const struct end *end, struct result *to)
{
	if (end->form)
		strncpy(to->form, end->form, sizeof(to->form) - 1);
}

/* ---- bulk: both ends at work ---- */

static void bulk_send(struct end *end, struct result *to)
{
	uint64_t start, used;

	send_octets(end, warm_up(end));
	hear(end);
	used = processor();
	start = now();
	mark_both();
	to->tx_calls = send_octets(end, rounded(end, end->plan->octets));
	to->tx_ns = processor() - used;
	hear(end);
	mark_none();
	to->ns = now() - start;
}

static void bulk_recv(struct end *end, struct result *to)
{
	uint64_t octets = rounded(end, end->plan->octets), used;

	end->checking = true;
	recv_octets(end, warm_up(end));
	end->checking = false;
	end->records = 0;
	used = processor();
	tell(end, 0);
	recv_octets(end, octets);
	to->rx_ns = processor() - used;
	to->octets = octets;
	to->records = end->records;
	note_form(end, to);
	tell(end, 0);
}

/* ---- apart: one end after the other, to measure each ---- */

#define BURSTS		8
#define WARM_BURSTS	6

/* Wait for ACKs of all octets, which is not counted. Sleep, so as not to disturb TCP. */
static bool wait_sent(const struct end *end)
{
	const struct timespec moment = { .tv_nsec = 100000 };
	bool waited = false;
	int left;

	while (!ioctl(end->fd, SIOCOUTQ, &left) && left) {
		nanosleep(&moment, NULL);
		waited = true;
	}
	return waited;
}

static void apart_send(struct end *end, struct result *to)
{
	uint64_t start;
	int i;

	for (i = -WARM_BURSTS; i < BURSTS; i++) {
		if (i >= 0)
			mark_send();
		start = now();
		to->tx_calls += send_octets(end, end->plan->octets);
		to->tx_ns += now() - start;
		mark_none();
		to->waited += wait_sent(end);
		if (i < 0)
			memset(to, 0, sizeof(*to));
		tell(end, 0);
		hear(end);
	}
}

static void apart_recv(struct end *end, struct result *to)
{
	uint64_t octets = rounded(end, end->plan->octets), start;
	int i;

	for (i = -WARM_BURSTS; i < BURSTS; i++) {
		hear(end);
		end->checking = i < 0;
		if (!i)
			end->records = 0;
		if (i >= 0)
			mark_recv();
		start = now();
		recv_octets(end, octets);
		if (i >= 0)
			to->rx_ns += now() - start;
		mark_none();
		tell(end, 0);
	}
	to->records = end->records;
	to->octets = octets * BURSTS;
	note_form(end, to);
}

/* ---- stalled: the peer does not read, the send queue grows ---- */

static void stalled_send(struct end *end, struct result *to)
{
	uint64_t calls = rounded(end, end->plan->octets) / end->len;
	uint64_t tenth = calls < 80 ? calls / 2 : calls / 10, start, i;

	hear(end);
	start = now();
	for (i = 0; i < calls; i++) {
		/* Measure the last tenth of the calls; if there are few calls, the last half. */
		if (i == calls - tenth)
			start = now();
		end->plan->way->send(end);
	}
	to->ns = now() - start;
	to->tx_ns = to->ns;
	to->tx_calls = tenth;
	to->octets = tenth * end->len;
	tell(end, 0);
	hear(end);
}

static void stalled_recv(struct end *end, struct result *to)
{
	tell(end, 0);
	hear(end);
	end->checking = true;
	recv_octets(end, rounded(end, end->plan->octets));
	note_form(end, to);
	tell(end, 0);
}

/* ---- rr: request and response ---- */

static void rr_ask(struct end *end, struct result *to)
{
	uint64_t warm = end->plan->count / 8 + 1, start = 0, i;

	end->checking = true;
	for (i = 0; i < warm + end->plan->count; i++) {
		if (i == warm) {
			end->checking = false;
			start = now();
			mark_both();
		}
		end->plan->way->send(end);
		recv_octets(end, end->len);
	}
	mark_none();
	to->ns = now() - start;
	to->tx_calls = end->plan->count;
	tell(end, 0);
	hear(end);
}

static void rr_answer(struct end *end, struct result *to)
{
	uint64_t warm = end->plan->count / 8 + 1, i;

	for (i = 0; i < warm + end->plan->count; i++) {
		end->checking = i < warm;
		recv_octets(end, end->len);
		end->plan->way->send(end);
	}
	to->octets = 2 * end->plan->count * end->len;
	note_form(end, to);
	hear(end);
	tell(end, 0);
}

/* ---- */

static const struct mode {
	const char *name;
	void (*sender)(struct end *end, struct result *to);
	void (*receiver)(struct end *end, struct result *to);
	int buffer;
	void (*prepare)(const struct plan *plan);
	void (*print)(const struct plan *plan);
} modes[] = {
	{ "bulk", bulk_send, bulk_recv, 0, NULL, NULL },
	{ "apart", apart_send, apart_recv, 64 << 20, NULL, NULL },
	{ "stalled", stalled_send, stalled_recv, 4096, NULL, NULL },
	{ "rr", rr_ask, rr_answer, 0, NULL, NULL },
#ifdef WITH_LATE
	{ "late", late_send, late_recv, 0, late_prepare, late_print },
#endif
};

static void run_end(const struct plan *plan, const struct mode *mode,
		    bool sender)
{
	struct end end = {};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(talk[!sender]);
	begin(&end, plan, sender, mode->buffer);
	(sender ? mode->sender : mode->receiver)(&end, result);
	exit(0);
}

static void run_once(const struct plan *plan, const struct mode *mode)
{
	int failed = 0, status, i;

	memset(result, 0, sizeof(*result));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, talk))
		fail("socketpair");
	for (i = 0; i < 2; i++) {
		pid_t child = fork();

		if (child < 0)
			fail("fork");
		if (!child)
			run_end(plan, mode, i);
	}
	close(talk[0]);
	close(talk[1]);
	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		exit(1);
}

static void print_result(const struct result *it, bool last)
{
	printf("\"ns\": %lu, \"tx_ns\": %lu, \"rx_ns\": %lu, ", it->ns,
	       it->tx_ns, it->rx_ns);
	printf("\"octets\": %lu, \"tx_calls\": %lu, \"records\": %lu, ",
	       it->octets, it->tx_calls, it->records);
	printf("\"waited\": %lu, \"form\": \"%s\"}%s", it->waited, it->form,
	       last ? "" : ", ");
}

static void run(const struct plan *plan)
{
	const struct mode *mode = NULL;
	size_t i;
	int n;

	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		if (!strcmp(modes[i].name, plan->mode))
			mode = &modes[i];
	}
	errno = EINVAL;
	if (!mode)
		fail("--mode");
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (result == MAP_FAILED)
		fail("memory");
	if (mode->prepare)
		mode->prepare(plan);
	printf("\"runs\": [");
	for (n = 0; n < plan->repeat; n++) {
		fflush(stdout);
		run_once(plan, mode);
		putchar('{');
		if (mode->print)
			mode->print(plan);
		print_result(result, n + 1 == plan->repeat);
	}
	printf("]}\n");
}

static const char usage[] =
"usage: traffic --way tcp|ktls|sctp|library|mpa [OPTION]...\n"
"  --mode bulk        both ends at work (default)\n"
"         apart       bursts of --octets, sent, then received\n"
"         stalled     the receiver does not read until --octets are queued\n"
"         rr          --count requests and answers\n"
"         connections --count idle ones, and round trips over them\n"
"         islands     segments after --count islands out of order\n"
"         late        --count records, --rate a second: how long each waits\n"
"  --size N           octets of a sending call, or of each record in it\n"
"  --batch N          records of a call (sendmmsg; library: writev)\n"
"  --mixed N          records of sendmmsg are of N to --size octets\n"
"  --packing          MPA_PACKING\n"
"  --send call|more|mmsg|file\n"
"  --recv call|mmsg|batch\n"
"  --read N           octets of the receiver's buffer, default as --size\n"
"  --segment N        MPA_SEGMENT\n"
"  --markers 0|1|2    none, towards the receiver, both ways\n"
"  --no-crc           MPA without CRC\n"
"  --place            MPA_PLACE\n"
"  --unordered        SCTP: messages need no order\n"
"  --relay            through a proxy that resegments the stream\n"
"  --rate N           records a second\n"
"  --octets N         to transfer, default 20000000\n"
"  --warm N           bulk: octets before these, default 4000000\n"
"  --count N          default 5000\n"
"  --repeat N         default 3\n";

static enum form form_named(const char *name)
{
	static const char *const names[] = {
		"call", "more", "mmsg", "file", "batch"
	};
	enum form form;

	for (form = FORM_CALL; form <= FORM_BATCH; form++) {
		if (!strcmp(name, names[form]))
			return form;
	}
	errno = EINVAL;
	fail(name);
}

static const struct way *way_named(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		if (!strcmp(name, ways[i]->name))
			return ways[i];
	}
	errno = EINVAL;
	fail(name);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "way", required_argument, NULL, 'w' },
		{ "mode", required_argument, NULL, 'm' },
		{ "size", required_argument, NULL, 's' },
		{ "batch", required_argument, NULL, 'b' },
		{ "mixed", required_argument, NULL, 'i' },
		{ "packing", no_argument, NULL, 'p' },
		{ "send", required_argument, NULL, 't' },
		{ "recv", required_argument, NULL, 'r' },
		{ "read", required_argument, NULL, 'l' },
		{ "segment", required_argument, NULL, 'g' },
		{ "markers", required_argument, NULL, 'k' },
		{ "no-crc", no_argument, NULL, 'c' },
		{ "place", no_argument, NULL, 'e' },
		{ "unordered", no_argument, NULL, 'u' },
		{ "relay", no_argument, NULL, 'y' },
		{ "rate", required_argument, NULL, 'f' },
		{ "octets", required_argument, NULL, 'o' },
		{ "warm", required_argument, NULL, 'a' },
		{ "count", required_argument, NULL, 'n' },
		{ "repeat", required_argument, NULL, 'x' },
		{ }
	};
	struct plan plan = {
		.mode = "bulk", .size = 65536, .batch = 1, .segment = -1,
		.octets = 20000000, .warm = 4000000, .count = 5000, .repeat = 3,
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'w':
			plan.way = way_named(optarg);
			break;
		case 'm':
			plan.mode = optarg;
			break;
		case 's':
			plan.size = atol(optarg);
			break;
		case 'b':
			plan.batch = atol(optarg);
			break;
		case 'i':
			plan.least = atol(optarg);
			break;
		case 'p':
			plan.packing = true;
			break;
		case 't':
			plan.send = form_named(optarg);
			break;
		case 'r':
			plan.recv = form_named(optarg);
			break;
		case 'l':
			plan.read = atol(optarg);
			break;
		case 'g':
			plan.segment = atoi(optarg);
			break;
		case 'k':
			plan.markers = atoi(optarg);
			break;
		case 'c':
			plan.no_crc = true;
			break;
		case 'e':
			plan.place = true;
			break;
		case 'u':
			plan.unordered = true;
			break;
		case 'y':
			plan.relay = true;
			break;
		case 'f':
			plan.rate = atoll(optarg);
			break;
		case 'o':
			plan.octets = atoll(optarg);
			break;
		case 'a':
			plan.warm = atoll(optarg);
			break;
		case 'n':
			plan.count = atoll(optarg);
			break;
		case 'x':
			plan.repeat = atoi(optarg);
			break;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (!plan.way || !plan.size || !plan.batch || plan.batch > BATCH_MAX ||
	    (plan.send == FORM_MORE && plan.size <= 16) ||
	    plan.least > plan.size || (plan.least && plan.send != FORM_MMSG)) {
		fputs(usage, stderr);
		return 2;
	}
	if (!plan.read)
		plan.read = plan.size * plan.batch;
	printf("{\"way\": \"%s\", \"mode\": \"%s\", ", plan.way->name,
	       plan.mode);
	printf("\"size\": %zu, \"batch\": %zu, ", plan.size, plan.batch);
#ifndef WITH_RDMA
	if (!strcmp(plan.mode, "connections")) {
		connections(&plan);
		return 0;
	}
	if (!strcmp(plan.mode, "islands")) {
		islands(&plan);
		return 0;
	}
#endif
	run(&plan);
	return 0;
}
