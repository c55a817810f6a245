// SPDX-License-Identifier: GPL-2.0
/*
 * The segments that the tested socket sends: each FPDU begins one, so does the first
 * octet after framing, and no piece of an FPDU may be mistaken for an FPDU.
 */

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>

#include "tuf.h"

#define IP_LEN		20	/* length without options */

static int tap;

/* Capture only packets from the port that all tested sockets share. */
int wire_open(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ETH_HLEN + IP_LEN),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohs(common_addr.sin_port), 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_PKTTYPE),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, 200),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog filter = { .len = ARRAY_SIZE(code), .filter = code };
	struct sockaddr_ll lo = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex("lo"),
	};

	/* Set the filter before the socket can capture anything. */
	tap = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
	if (tap < 0 ||
	    setsockopt(tap, SOL_SOCKET, SO_ATTACH_FILTER, &filter,
		       sizeof(filter)) ||
	    setsockopt(tap, SOL_PACKET, PACKET_VNET_HDR, &(int){ 1 },
		       sizeof(int)))
		return -1;
	setsockopt(tap, SOL_SOCKET, SO_RCVBUFFORCE, &(int){ 8 << 20 },
		   sizeof(int));
	return bind(tap, (struct sockaddr *)&lo, sizeof(lo));
}

static void segment_add(struct world *w, u32 at, u32 len)
{
	struct segment *segment = w->segments + w->nsegments;

	if (w->nsegments == SEGMENTS_MAX || at + len > STREAM_MAX)
		return;
	w->nsegments++;
	segment->at = at;
	segment->len = len;
	segment->again = at < w->left;
	segment->closed = w->was_closed;
	if (at + len > w->left)
		w->left = at + len;
}

static u16 be16(const u8 *p)
{
	return p[0] << 8 | p[1];
}

static u32 be32(const u8 *p)
{
	return (u32)be16(p) << 16 | be16(p + 2);
}

static void packet_seen(struct world *w, u16 peer, const u8 *packet,
			const struct virtio_net_hdr *head)
{
	const u8 *ip = packet + ETH_HLEN, *tcp = ip + IP_LEN;
	u32 total = be16(ip + 2), seq = be32(tcp + 4), len, n, at;

	/* Skip a segment of an earlier connection. */
	if (ip[0] != 0x45 || be16(tcp + 2) != peer)
		return;
	if (tcp[13] & 2) {
		w->isn_known = true;
		w->isn = seq + 1;
		return;
	}
	len = total - IP_LEN - (tcp[12] >> 4) * 4;
	if (!w->isn_known || !len || tcp[13] & 4)
		return;
	for (at = seq - w->isn; len; at += n, len -= n) {
		n = head->gso_type && head->gso_size < len ? head->gso_size : len;
		segment_add(w, at, n);
	}
}

static u16 peer_port(const struct world *w)
{
	struct sockaddr_in addr = {};
	socklen_t len = sizeof(addr);

	getsockname(w->raw, (struct sockaddr *)&addr, &len);
	return ntohs(addr.sin_port);
}

void wire_read(struct world *w)
{
	u16 peer = w->raw < 0 ? 0 : peer_port(w);
	struct {
		struct virtio_net_hdr head;
		u8 packet[256];
	} in;
	ssize_t n;

	for (;;) {
		n = recv(tap, &in, sizeof(in), 0);
		if (n < 0)
			return;
		if (peer && n >= sizeof(in.head) + ETH_HLEN + IP_LEN + 20)
			packet_seen(w, peer, in.packet, &in.head);
	}
}

/* Whether the segment begins with a header for the segment's length. */
static bool looks_whole(const struct world *w, const struct segment *segment)
{
	const u8 *p = w->got + segment->at;
	u32 i;

	if (segment->len < TUF_HEADER_LEN ||
	    be16(p) + TUF_HEADER_LEN != segment->len)
		return false;
	for (i = 0; i < w->nspans; i++)
		if (w->spans[i].mode == TUF_ALIGN && w->spans[i].keyed &&
		    !memcmp(p + 2, w->spans[i].key, TUF_KEY_LEN))
			return true;
	return false;
}

/*
 * Call this after judge_sent(), which finds the FPDUs. Windows are open, and each FPDU
 * fits a segment of loopback, unless an operation has changed that.
 */
void judge_wire(struct world *w)
{
	bool room = !w->mtu && !w->oversize && w->got_len < 16000;
	u32 i, at;

	for (i = 0; i < w->nsegments && !violation[0]; i++) {
		const struct segment *segment = w->segments + i;
		u32 end = segment->at + segment->len;

		if (end > w->got_len)
			continue;
		for (at = segment->at + 1; at < end && !segment->again; at++)
			if (w->wire[at] == WIRE_BEGIN)
				violated("octet %u of %u of a segment begins an FPDU, or is after",
					 at - segment->at, segment->len);
		if (w->wire[segment->at] == WIRE_INSIDE && room && !segment->again)
			violated("an FPDU is cut that fits a segment");
		if (w->wire[segment->at] == WIRE_INSIDE && !segment->closed &&
		    looks_whole(w, segment))
			violated("a segment of %u octets looks like an FPDU and is a piece of one",
				 segment->len);
	}
}
