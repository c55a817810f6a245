/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Capture the segments that a connection sends over loopback, as a device gets them,
 * with a packet socket. The test has its own network namespace. Include it after
 * mpa_test.h.
 */
#ifndef _MPA_SNIFF_H
#define _MPA_SNIFF_H

#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#define SNIFF_HEAD	20	/* octets of a segment to keep */

/**
 * struct sniffed - a data segment
 * @at:		octets of the stream before it, since sniff_open()
 * @len:	octets in it
 * @head:	its first octets
 */
struct sniffed {
	u32 at;
	u32 len;
	u8 head[SNIFF_HEAD];
};

/**
 * struct sniffer - captures one direction of a connection
 * @fd:		packet socket
 * @port:	the sender's port
 * @seq:	sequence number of its next octet when it was opened
 */
struct sniffer {
	int fd;
	__be16 port;
	u32 seq;
};

/* Disable segmentation offload of lo, so that TCP itself cuts data into segments. */
static inline int lo_cuts_nothing(void)
{
	static const u32 offloads[] = { ETHTOOL_STSO, ETHTOOL_SGSO };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), err = 0, i;

	for (i = 0; i < 2; i++) {
		struct ethtool_value off = { .cmd = offloads[i] };
		struct ifreq lo = { .ifr_name = "lo" };

		lo.ifr_data = (void *)&off;
		err |= ioctl(fd, SIOCETHTOOL, &lo);
	}
	close(fd);
	return err;
}

/* Capture what @sender sends. It must not have data in flight. */
static inline int sniff_open(struct sniffer *sniffer, int sender)
{
	int on = TCP_REPAIR_ON, off = TCP_REPAIR_OFF_NO_WP, room = 64 << 20;
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int queue = TCP_SEND_QUEUE;

	sniffer->fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL));
	if (sniffer->fd < 0 ||
	    setsockopt(sniffer->fd, SOL_SOCKET, SO_RCVBUFFORCE, &room,
		       sizeof(room)) ||
	    getsockname(sender, (struct sockaddr *)&addr, &len))
		return -1;
	sniffer->port = ((struct sockaddr_in *)&addr)->sin_port;
	len = sizeof(u32);
	if (setsockopt(sender, SOL_TCP, TCP_REPAIR, &on, sizeof(on)) ||
	    setsockopt(sender, SOL_TCP, TCP_REPAIR_QUEUE, &queue,
		       sizeof(queue)) ||
	    getsockopt(sender, SOL_TCP, TCP_QUEUE_SEQ, &sniffer->seq, &len))
		return -1;
	return setsockopt(sender, SOL_TCP, TCP_REPAIR, &off, sizeof(off));
}

/* Get the next data segment sent. Return: false if there is none. */
static inline bool sniff(struct sniffer *sniffer, struct sniffed *seen)
{
	struct sockaddr_ll from;
	static u8 packet[70000];
	u32 ip, all, head, seq;
	socklen_t len;
	ssize_t n;

	for (;;) {
		len = sizeof(from);
		n = recvfrom(sniffer->fd, packet, sizeof(packet), MSG_DONTWAIT,
			     (struct sockaddr *)&from, &len);
		if (n < 0)
			return false;
		if (from.sll_pkttype != PACKET_OUTGOING || n < 40)
			continue;
		if (packet[0] >> 4 == 4) {
			if (packet[9] != IPPROTO_TCP)
				continue;
			ip = (packet[0] & 15) * 4;
			all = packet[2] << 8 | packet[3];
		} else {
			if (packet[6] != IPPROTO_TCP)
				continue;
			ip = 40;
			all = 40 + (packet[4] << 8 | packet[5]);
		}
		head = ip + (packet[ip + 12] >> 4) * 4;
		if (memcmp(packet + ip, &sniffer->port, 2) || all <= head)
			continue;
		memcpy(&seq, packet + ip + 4, sizeof(seq));
		seen->at = ntohl(seq) - sniffer->seq;
		seen->len = all - head;
		memset(seen->head, 0, sizeof(seen->head));
		memcpy(seen->head, packet + head,
		       seen->len < SNIFF_HEAD ? seen->len : SNIFF_HEAD);
		return true;
	}
}

#endif /* _MPA_SNIFF_H */
