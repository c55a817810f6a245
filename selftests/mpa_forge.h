/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Segments made by hand, which a peer over loopback seems to send. To be included
 * behind mpa_test.h; needs an own network namespace.
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
 * struct forger - speaks for the peer of a connection over loopback
 * @raw:	raw socket
 * @source:	the peer's port
 * @dest:	ours
 * @seq:	sequence number of the first octet that the peer may send
 * @ack:	what the peer has received
 */
struct forger {
	int raw;
	__be16 source;
	__be16 dest;
	u32 seq;
	u32 ack;
};

static inline u32 repair_seq(int fd, int queue)
{
	socklen_t len = sizeof(u32);
	u32 seq = 0;

	setsockopt(fd, SOL_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue));
	getsockopt(fd, SOL_TCP, TCP_QUEUE_SEQ, &seq, &len);
	return seq;
}

static inline int forger_open(struct forger *forger, int peer_fd, int fd)
{
	/* It receives nothing: TCP joins no segments that somebody else has. */
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog deaf = { .len = 1, .filter = &drop };
	int on = TCP_REPAIR_ON, off = TCP_REPAIR_OFF_NO_WP;
	struct sockaddr_in source, dest;
	socklen_t len = sizeof(source);

	forger->raw = socket(AF_INET, SOCK_RAW, IPPROTO_TCP);
	if (forger->raw < 0 ||
	    setsockopt(forger->raw, SOL_SOCKET, SO_ATTACH_FILTER, &deaf,
		       sizeof(deaf)) ||
	    getsockname(peer_fd, (struct sockaddr *)&source, &len) ||
	    getsockname(fd, (struct sockaddr *)&dest, &len) ||
	    setsockopt(peer_fd, SOL_TCP, TCP_REPAIR, &on, sizeof(on)))
		return -1;
	forger->source = source.sin_port;
	forger->dest = dest.sin_port;
	forger->seq = repair_seq(peer_fd, TCP_SEND_QUEUE);
	forger->ack = repair_seq(peer_fd, TCP_RECV_QUEUE);
	return setsockopt(peer_fd, SOL_TCP, TCP_REPAIR, &off, sizeof(off));
}

static inline u32 sum_words(u32 sum, const u8 *octets, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		sum += i % 2 ? octets[i] : octets[i] << 8;
	return sum;
}

/* Octets of the stream from @off on, with flags besides ACK. */
static inline int forge(struct forger *forger, u32 off, const u8 *octets,
			size_t len, u8 flags, u16 urg_ptr)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct tcp_head head = {
		.source = forger->source, .dest = forger->dest,
		.seq = htonl(forger->seq + off), .ack_seq = htonl(forger->ack),
		.words = 5 << 4, .flags = TCP_FLAG_BITS_ACK | flags,
		.window = htons(60000), .urg_ptr = htons(urg_ptr),
	};
	static u8 packet[70000];
	u32 sum;

	memcpy(packet, &head, sizeof(head));
	memcpy(packet + sizeof(head), octets, len);
	len += sizeof(head);
	/* The pseudo header: 127.0.0.1 twice, protocol, length. */
	sum = 2 * (0x7f00 + 1) + IPPROTO_TCP + len;
	sum = sum_words(sum, packet, len);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	head.check = htons(~sum);
	memcpy(packet, &head, sizeof(head));
	return sendto(forger->raw, packet, len, 0, (struct sockaddr *)&to,
		      sizeof(to)) == (ssize_t)len ? 0 : -1;
}

#endif /* _MPA_FORGE_H */
