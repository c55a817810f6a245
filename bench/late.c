// SPDX-License-Identifier: GPL-2.0
/*
 * Send records at a steady rate over a wire that loses packets, and measure how long each record
 * is in the receiver's kernel before it is returned.
 *
 * libpcap shows when octets arrive at the receiver's device, and keeps the packets in memory
 * until the end. A record has arrived when all of its octets have arrived at least once. Both
 * clocks are the kernel's CLOCK_REALTIME, which is not adjusted here.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <linux/mpa.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

/*
 * Number of records after the measured ones: TCP notices losses of measured records
 * without a timeout.
 */
#define MORE_RECORDS	16

#define SNAP		128
#define ETHERNET	14

/* A measured record; times are in nanoseconds */
struct record {
	uint64_t due;		/* when it was to be sent */
	uint64_t arrived;	/* when the last of its octets arrived */
	uint64_t handed;	/* when the receiver got it */
	uint32_t pos;		/* stream position of its FPDU */
	bool placed;		/* MPA_RECVINFO: out of order */
};

/* A packet received by the device */
struct packet {
	uint64_t at;		/* when it was received */
	uint32_t seq;		/* of the first octet; SCTP: number of the record */
	uint32_t len;		/* octets of the stream */
};

/* All packets received by the device */
struct capture {
	pcap_t *pcap;
	struct packet *packet;
	size_t nr;
	size_t room;		/* allocated entries in @packet */
};

static struct record *record;

static uint64_t real_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* Allocate before fork(): both processes write to the records. */
void late_prepare(const struct plan *plan)
{
	errno = EINVAL;
	if (!plan->rate || plan->size < sizeof(uint64_t))
		fail("--rate, --size");
	record = mmap(NULL, plan->count * sizeof(*record),
		      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (record == MAP_FAILED)
		fail("memory");
}

/* ---- the sender ---- */

void late_send(struct end *end, struct result *to)
{
	const struct plan *plan = end->plan;
	uint64_t due, i;

	hear(end);
	due = real_ns();
	for (i = 0; i < plan->count + MORE_RECORDS; i++) {
		struct timespec at;

		due += 1000000000 / plan->rate;
		at.tv_sec = due / 1000000000;
		at.tv_nsec = due % 1000000000;
		while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at,
				       NULL))
			;
		if (i < plan->count)
			record[i].due = due;
		memcpy(end->data, &i, sizeof(i));
		plan->way->send(end);
	}
	hear(end);
}

/* ---- arriving packets ---- */

static void capture_begin(struct capture *capture)
{
	char text[PCAP_ERRBUF_SIZE];
	pcap_t *pcap = pcap_create("vb", text);
	struct bpf_program program;

	errno = EIO;
	if (!pcap || pcap_set_snaplen(pcap, SNAP) ||
	    pcap_set_buffer_size(pcap, 64 << 20) ||
	    pcap_set_timeout(pcap, 100) ||
	    pcap_set_tstamp_precision(pcap, PCAP_TSTAMP_PRECISION_NANO) ||
	    pcap_activate(pcap) ||
	    pcap_setdirection(pcap, PCAP_D_IN) ||
	    pcap_compile(pcap, &program, "ip and (tcp or sctp)", 1,
			 PCAP_NETMASK_UNKNOWN) ||
	    pcap_setfilter(pcap, &program) || pcap_setnonblock(pcap, 1, text))
		fail("libpcap");
	pcap_freecode(&program);
	capture->pcap = pcap;
}

static void capture_add(struct capture *capture, struct packet packet)
{
	if (capture->nr == capture->room) {
		capture->room = 2 * capture->room + 1024;
		capture->packet = realloc(capture->packet,
					  capture->room *
					  sizeof(*capture->packet));
		if (!capture->packet)
			fail("memory");
	}
	capture->packet[capture->nr++] = packet;
}

/* A record is one DATA chunk: RFC 9260 section 3.3.1. */
static void capture_sctp(struct capture *capture, struct packet packet,
			 const uint8_t *octets, const uint8_t *end)
{
	uint64_t number;
	uint16_t len;

	for (octets += 12; octets + 16 + sizeof(number) <= end;
	     octets += (len + 3) & ~3) {
		memcpy(&len, octets + 2, sizeof(len));
		len = ntohs(len);
		if (!octets[0]) {
			memcpy(&number, octets + 16, sizeof(number));
			packet.seq = number;
			capture_add(capture, packet);
		}
		if (len < 4)
			break;
	}
}

static void capture_packet(uint8_t *user, const struct pcap_pkthdr *head,
			   const uint8_t *octets)
{
	struct capture *capture = (struct capture *)user;
	const uint8_t *end = octets + head->caplen;
	struct packet packet = {
		/* tv_usec: nanoseconds, as requested */
		.at = head->ts.tv_sec * 1000000000ULL + head->ts.tv_usec,
	};
	struct tcphdr tcp;
	struct iphdr ip;

	if (head->caplen < ETHERNET + sizeof(ip) + sizeof(tcp))
		return;
	memcpy(&ip, octets + ETHERNET, sizeof(ip));
	octets += ETHERNET + 4 * ip.ihl;
	if (ip.protocol == IPPROTO_SCTP) {
		capture_sctp(capture, packet, octets, end);
		return;
	}
	memcpy(&tcp, octets, sizeof(tcp));
	packet.seq = ntohl(tcp.seq);
	packet.len = ntohs(ip.tot_len) - 4 * ip.ihl - 4 * tcp.doff;
	if (packet.len)
		capture_add(capture, packet);
}

static void capture_end(struct capture *capture)
{
	const struct timespec moment = { .tv_nsec = 300000000 };
	struct pcap_stat stat;

	nanosleep(&moment, NULL);
	while (pcap_dispatch(capture->pcap, -1, capture_packet,
			     (uint8_t *)capture) > 0)
		;
	errno = EOVERFLOW;
	if (pcap_stats(capture->pcap, &stat) || stat.ps_drop)
		fail("libpcap has dropped packets");
	pcap_close(capture->pcap);
}

/* ---- arrival of each record ---- */

static void arrived_sctp(const struct capture *capture, uint64_t count)
{
	const struct packet *packet;

	for (packet = capture->packet; packet < capture->packet + capture->nr;
	     packet++) {
		if (packet->seq < count && !record[packet->seq].arrived)
			record[packet->seq].arrived = packet->at;
	}
}

/*
 * Return, for each octet of the stream, the number of the first packet that has it,
 * counted from 1; 0: none.
 */
static uint32_t *first_packets(const struct capture *capture, uint32_t *len)
{
	uint32_t base = capture->nr ? capture->packet[0].seq : 0, *first, i, n;

	for (i = 0; i < capture->nr; i++) {
		if ((int32_t)(capture->packet[i].seq - base) < 0)
			base = capture->packet[i].seq;
	}
	for (i = 0, *len = 0; i < capture->nr; i++) {
		n = capture->packet[i].seq + capture->packet[i].len - base;
		*len = n > *len ? n : *len;
	}
	first = calloc(*len + 1, sizeof(*first));
	if (!first)
		fail("memory");
	for (i = 0; i < capture->nr; i++) {
		uint32_t *at = first + (capture->packet[i].seq - base);

		for (n = 0; n < capture->packet[i].len; n++)
			at[n] = at[n] ? at[n] : i + 1;
	}
	return first;
}

static void arrived_tcp(const struct capture *capture, uint64_t count)
{
	uint32_t len, *first = first_packets(capture, &len), at;
	uint64_t i;

	errno = EILSEQ;
	for (i = 0; i + 1 < count; i++) {
		for (at = record[i].pos; at < record[i + 1].pos; at++) {
			const struct packet *packet;

			if (at >= len || !first[at])
				fail("octets that were not seen to arrive");
			packet = capture->packet + first[at] - 1;
			if (packet->at > record[i].arrived)
				record[i].arrived = packet->at;
		}
	}
	free(first);
}

/* ---- the receiver ---- */

static uint64_t receive_one(struct end *end, struct record *got)
{
	uint64_t control[CMSG_SPACE(sizeof(struct mpa_recvinfo)) / 8];
	struct iovec iov = { end->buf, end->plan->read };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(end->fd, &msg, 0);
	struct mpa_recvinfo info = {};
	struct cmsghdr *cmsg;
	uint64_t number;

	got->handed = real_ns();
	errno = n < 0 ? errno : EILSEQ;
	if (n != (ssize_t)end->plan->size)
		fail("a record");
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg && cmsg->cmsg_type == MPA_RECVINFO)
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
	got->pos = info.position;
	got->placed = info.flags & MPA_RECVINFO_PLACED;
	memcpy(&number, end->buf, sizeof(number));
	return number;
}

void late_recv(struct end *end, struct result *to)
{
	const struct plan *plan = end->plan;
	struct capture capture = {};
	uint64_t left, i, number;

	if (!plan->way->protocol)
		set_int(end->fd, SOL_MPA, MPA_RECVINFO, 1);
	capture_begin(&capture);
	/*
	 * Lock the memory, so that no page is read from a file during the measurement.
	 */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	tell(end, 0);
	for (left = plan->count; left;) {
		struct record got = {};

		number = receive_one(end, &got);
		if (number >= plan->count)
			continue;
		errno = EEXIST;
		if (record[number].handed)
			fail("a record that comes twice");
		record[number].handed = got.handed;
		record[number].pos = got.pos;
		record[number].placed = got.placed;
		left--;
	}
	capture_end(&capture);
	if (plan->way->protocol)
		arrived_sctp(&capture, plan->count);
	else
		arrived_tcp(&capture, plan->count);
	errno = ERANGE;
	for (i = 0; i + 1 < plan->count; i++) {
		if (!record[i].arrived || record[i].arrived > record[i].handed)
			fail("a record that had not arrived");
	}
	to->octets = plan->count * plan->size;
	to->records = plan->count;
	to->ns = record[plan->count - 1].handed - record[0].due;
	tell(end, 0);
}

/*
 * Leave out the last record: without a next record its end is not known. Kinds: p
 * placed, l lost, b both.
 */
void late_print(const struct plan *plan)
{
	uint64_t i, last = plan->count - 1, soonest = UINT64_MAX;
	char *kind = calloc(plan->count, 1);

	if (!kind)
		fail("memory");
	/* A record was lost if a record that was sent later has arrived earlier. */
	for (i = last; i--;) {
		bool lost = record[i].arrived > soonest;

		if (record[i].arrived < soonest)
			soonest = record[i].arrived;
		kind[i] = record[i].placed ? lost ? 'b' : 'p' :
					     lost ? 'l' : '.';
	}
	printf("\"kinds\": \"%s\", \"stack\": [", kind);
	for (i = 0; i < last; i++)
		printf("%s%lu", i ? "," : "",
		       record[i].handed - record[i].arrived);
	printf("], \"whole\": [");
	for (i = 0; i < last; i++)
		printf("%s%lu", i ? "," : "", record[i].handed - record[i].due);
	printf("], ");
	free(kind);
	memset(record, 0, plan->count * sizeof(*record));
}
