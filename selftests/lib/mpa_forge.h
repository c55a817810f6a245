/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Forged segments that seem to come from a peer on loopback. Include it after
 * mpa_test.h; the test needs a network namespace of its own.
 */
#ifndef _MPA_FORGE_H
#define _MPA_FORGE_H

#include <linux/filter.h>

#define TCP_FLAG_BITS_FIN	0x01
#define TCP_FLAG_BITS_RST	0x04
#define TCP_FLAG_BITS_ACK	0x10
#define TCP_FLAG_BITS_URG	0x20

struct tcp_head {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	u8 words;
	u8 flags;
	__be16 window;
	__be16 check;
	__be16 urg_ptr;
};

/**
 * struct forger - sends forged segments of a peer on loopback
 * @raw:	raw socket
 * @to:		our address, without a port
 * @to_len:	its length
 * @pseudo:	the sum of both addresses, for the checksum
 * @source:	the peer's port
 * @dest:	our port
 * @seq:	sequence number of the first octet that the peer may send
 * @ack:	acknowledgment number
 * @window:	window field, not scaled
 */
struct forger {
	int raw;
	struct sockaddr_storage to;
	socklen_t to_len;
	u32 pseudo;
	__be16 source;
	__be16 dest;
	u32 seq;
	u32 ack;
	u16 window;
};

static inline u32 repair_seq(int fd, int queue)
{
	socklen_t len = sizeof(u32);
	u32 seq = 0;

	setsockopt(fd, SOL_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue));
	getsockopt(fd, SOL_TCP, TCP_QUEUE_SEQ, &seq, &len);
	return seq;
}

static inline u32 sum_words(u32 sum, const u8 *octets, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		sum += i % 2 ? octets[i] : octets[i] << 8;
	return sum;
}

/* Get both ports, and the address, which both ends share. */
static inline int forger_address(struct forger *forger, int peer_fd, int fd)
{
	struct sockaddr_in6 *to6 = (struct sockaddr_in6 *)&forger->to;
	struct sockaddr_in *to = (struct sockaddr_in *)&forger->to;

	forger->to_len = sizeof(forger->to);
	if (getsockname(peer_fd, (struct sockaddr *)to, &forger->to_len))
		return -1;
	forger->source = to->sin_port;
	forger->to_len = sizeof(forger->to);
	if (getsockname(fd, (struct sockaddr *)to, &forger->to_len))
		return -1;
	forger->dest = to->sin_port;
	to->sin_port = 0;
	if (to->sin_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&to6->sin6_addr)) {
		memcpy(&to->sin_addr, to6->sin6_addr.s6_addr + 12, 4);
		to->sin_family = AF_INET;
		forger->to_len = sizeof(*to);
	}
	forger->pseudo = 2 * (to->sin_family == AF_INET ?
			      sum_words(0, (u8 *)&to->sin_addr, 4) :
			      sum_words(0, (u8 *)&to6->sin6_addr, 16));
	return 0;
}

static inline int forger_open(struct forger *forger, int peer_fd, int fd)
{
	/*
	 * Drop all received packets: TCP does not coalesce segments that a raw socket
	 * shares.
	 */
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog deaf = { .len = 1, .filter = &drop };
	int on = TCP_REPAIR_ON, off = TCP_REPAIR_OFF_NO_WP;

	forger->raw = -1;
	if (forger_address(forger, peer_fd, fd))
		return -1;
	forger->raw = socket(forger->to.ss_family, SOCK_RAW, IPPROTO_TCP);
	if (forger->raw < 0 ||
	    setsockopt(forger->raw, SOL_SOCKET, SO_ATTACH_FILTER, &deaf,
		       sizeof(deaf)) ||
	    setsockopt(peer_fd, SOL_TCP, TCP_REPAIR, &on, sizeof(on)))
		return -1;
	forger->seq = repair_seq(peer_fd, TCP_SEND_QUEUE);
	forger->ack = repair_seq(peer_fd, TCP_RECV_QUEUE);
	forger->window = 60000;
	return setsockopt(peer_fd, SOL_TCP, TCP_REPAIR, &off, sizeof(off));
}

/* Send stream octets from @off on. @flags are added to ACK. */
static inline int forge(struct forger *forger, u32 off, const u8 *octets,
			size_t len, u8 flags, u16 urg_ptr)
{
	struct tcp_head head = {
		.source = forger->source, .dest = forger->dest,
		.seq = htonl(forger->seq + off), .ack_seq = htonl(forger->ack),
		.words = 5 << 4, .flags = TCP_FLAG_BITS_ACK | flags,
		.window = htons(forger->window), .urg_ptr = htons(urg_ptr),
	};
	static u8 packet[70000];
	u32 sum;

	memcpy(packet, &head, sizeof(head));
	memcpy(packet + sizeof(head), octets, len);
	len += sizeof(head);
	/* The pseudo header: both addresses, protocol, length. */
	sum = forger->pseudo + IPPROTO_TCP + len;
	sum = sum_words(sum, packet, len);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	head.check = htons(~sum);
	memcpy(packet, &head, sizeof(head));
	return sendto(forger->raw, packet, len, 0,
		      (struct sockaddr *)&forger->to,
		      forger->to_len) == (ssize_t)len ? 0 : -1;
}

#endif /* _MPA_FORGE_H */
