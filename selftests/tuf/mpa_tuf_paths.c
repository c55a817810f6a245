// SPDX-License-Identifier: GPL-2.0
/*
 * TUF over devices that differ from loopback: one has no scatter-gather, one refuses a
 * packet, and one merges segments without reporting their number.
 */

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>

#include "mpa_harness.h"
#include "mpa_tuf.h"
#include "mpa_send.h"

static const u8 key_of_tests[] = TUF_KEY_OF_TESTS;

/* ---- a device without scatter-gather ---- */

/* Shell commands. $far is a network namespace. */
static const char *const veth_up[] = {
	"modprobe -q veth",
	"ip link add va type veth peer name vb netns $far",
	"ip addr add 10.9.0.1/24 dev va",
	"ip link set va up",
	"nsenter --net=$far ip addr add 10.9.0.2/24 dev vb",
	"nsenter --net=$far ip link set vb up",
	"ethtool -K va tso off gso off sg off >/dev/null",
};

static bool all_done(int far)
{
	char name[64];
	int i, err;

	snprintf(name, sizeof(name), "/proc/%d/fd/%d", getpid(), far);
	setenv("far", name, 1);
	for (i = 0; i < ARRAY_SIZE(veth_up); i++) {
		err = system(veth_up[i]);
		/* veth may be built in. */
		if (err && i)
			return false;
	}
	return true;
}

FIXTURE(copied)
{
	int near;	/* network namespaces */
	int far;
	int fd[2];
	struct tuf_way way;
	u8 buf[TUF_ROOM];
};

static int sign(int fd, u32 peer)
{
	struct tcp_md5sig md5 = { .tcpm_keylen = 3, .tcpm_key = "abc" };
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(peer),
	};

	memcpy(&md5.tcpm_addr, &to, sizeof(to));
	return setsockopt(fd, SOL_TCP, TCP_MD5SIG, &md5, sizeof(md5));
}

/*
 * Connect with TCP-MD5: otherwise TCP uses GSO even if the device does not support it.
 * Return: 0 or -1.
 */
static int copied_connect(struct _test_data_copied *self)
{
	const u32 near = 0x0a090001, far = 0x0a090002;
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(far),
	};
	socklen_t len = sizeof(to);
	int listener;

	setns(self->far, CLONE_NEWNET);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setns(self->near, CLONE_NEWNET);
	self->fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (sign(listener, near) || sign(self->fd[0], far) ||
	    bind(listener, (struct sockaddr *)&to, sizeof(to)) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&to, &len) ||
	    connect(self->fd[0], (struct sockaddr *)&to, sizeof(to)))
		return -1;
	self->fd[1] = accept(listener, NULL, NULL);
	close(listener);
	patience(self->fd[1], 20);
	return tuf_attach(self->fd[0]) || tuf_attach(self->fd[1]) ? -1 : 0;
}

FIXTURE_SETUP(copied)
{
	self->fd[0] = -1;
	self->fd[1] = -1;
	self->way = (struct tuf_way){ .mode = TUF_ALIGN };
	memcpy(self->way.key, key_of_tests, TUF_KEY_LEN);
	ASSERT_EQ(0, own_netns());
	self->far = open("/proc/self/ns/net", O_RDONLY);
	ASSERT_EQ(0, own_netns());
	self->near = open("/proc/self/ns/net", O_RDONLY);
	if (!all_done(self->far))
		SKIP(return, "needs veth, iproute2, ethtool and nsenter");
	if (copied_connect(self)) {
		ASSERT_EQ(ENOPROTOOPT, errno);
		SKIP(return, "the kernel has no TCP_MD5SIG");
	}
}

FIXTURE_TEARDOWN(copied)
{
	hang_up(self->fd[0]);
	hang_up(self->fd[1]);
	close(self->near);
	close(self->far);
}

/* TCP copies octets here, so a Length cannot change later: no packing. */
TEST_F(copied, ulpdus_are_whole_whatever_is_packed)
{
	int i, n, len = 0;

	START();
	ASSERT_EQ(0, set_int(self->fd[0], MPA_PACKING, 1));
	option_put(self->fd[0], SOL_TCP, TCP_CORK, 1);
	for (i = 0; i < 9; i++)
		ASSERT_EQ(100, send(self->fd[0], record_row + 100 * i, 100, 0));
	option_put(self->fd[0], SOL_TCP, TCP_CORK, 0);
	for (; len < 900; len += n) {
		n = recv(self->fd[1], self->buf + len, TUF_ROOM - len, 0);
		ASSERT_LT(0, n) {
			TH_LOG("after %d octets: %s", len, strerror(errno));
		}
		ASSERT_EQ(0, n % 100);
	}
	EXPECT_EQ(0, memcmp(self->buf, record_row, 900));
	EXPECT_EQ(0, tuf_info(self->fd[1]).rx_wrong_key);
}

/* With TCP-MD5 an FPDU that is cut arrives, too. */
TEST_F(copied, signed_segments_are_counted)
{
	u32 emss;
	int i;

	START();
	for (i = 0; i < 50; i++)
		ASSERT_TRUE(tuf_goes(self->fd[0], self->fd[1], 100 + i));
	EXPECT_EQ(50, tuf_info(self->fd[0]).tx_segs_contained);
	EXPECT_EQ(50, tuf_info(self->fd[0]).tx_segs_aligned);
	/* The FPDU needs two segments, and the second would pass. */
	emss = tuf_info(self->fd[0]).emss;
	memset(self->buf, 0, sizeof(self->buf));
	self->buf[emss - 8] = 500 >> 8;
	self->buf[emss - 7] = 500 & 255;
	memcpy(self->buf + emss - 6, self->way.key, TUF_KEY_LEN);
	ASSERT_EQ(emss + 500, send(self->fd[0], self->buf, emss + 500, 0));
	EXPECT_EQ(emss + 500, recv(self->fd[1], self->buf, TUF_ROOM, 0));
	EXPECT_EQ(0, tuf_info(self->fd[0]).tx_trimmed);
}

/* ---- a device that refuses ---- */

/* IP refuses an FPDU: TCP counts it as unsent, but others may have seen it. */
TEST_F(tuf, fpdu_that_was_refused_stays_as_it_was)
{
	static u8 stream[400];
	struct tuf_way way;
	size_t len = 0;

	START();
	way = self->way;
	ASSERT_EQ(0, tuf_stop(self->fd[1], TUF_RX));
	ASSERT_EQ(0, set_int(self->fd[0], MPA_PACKING, 1));
	ASSERT_EQ(5, send(self->fd[0], record_row, 5, 0));
	ASSERT_TRUE(acked(self->fd[0]));
	if (system("tc qdisc add dev lo root pfifo limit 0"))
		SKIP(return, "needs tc");
	ASSERT_EQ(100, send(self->fd[0], record_row + 5, 100, 0));
	ASSERT_EQ(100, send(self->fd[0], record_row + 105, 100, 0));
	ASSERT_EQ(0, system("tc qdisc del dev lo root"));
	len = tuf_fpdu(&way, record_row, 5, stream);
	/* The next ULPDU is in a separate FPDU. */
	len += tuf_fpdu(&way, record_row + 5, 100, stream + len);
	len += tuf_fpdu(&way, record_row + 105, 100, stream + len);
	ASSERT_EQ(len, read_all(self->fd[1], self->buf, len));
	EXPECT_EQ(0, memcmp(self->buf, stream, len));
	EXPECT_EQ(0, tuf_info(self->fd[0]).tx_segs_unaligned);
}

/* ---- a virtio device ---- */

/*
 * The driver does not report the number of segments in a packet with gso_size
 * (gso_segs is 0). The peer is a program at the other end of a tun device.
 */
FIXTURE(virtual)
{
	int tun;
	int fd;
	u16 port;
	u32 ack;
	struct tuf_way way;
	u8 buf[TUF_ROOM];
};

static u32 fold(u32 sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static u32 sum_of(const u8 *octets, size_t len)
{
	u32 sum = 0;
	size_t i;

	for (i = 0; i < len; i++)
		sum += i % 2 ? octets[i] : octets[i] << 8;
	return sum;
}

#define VIRTUAL_SEQ	1000	/* initial sequence number of the peer */
#define IP_HEAD		20

/*
 * Send a segment from the peer, or a packet of several segments with @gso octets each.
 * Its header says that the checksum is incomplete.
 */
static int virtual_send(struct _test_data_virtual *self, u8 flags, u32 seq,
			const u8 *octets, size_t len, u16 gso)
{
	struct {
		struct virtio_net_hdr hdr;
		u8 ip[IP_HEAD];
		u8 tcp[28];	/* with MSS and SACK-permitted options */
		u8 octets[16000];
	} packet = {
		.hdr = {
			.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
			.gso_type = gso ? VIRTIO_NET_HDR_GSO_TCPV4 : 0,
			.hdr_len = 48, .gso_size = gso,
			.csum_start = IP_HEAD, .csum_offset = 16,
		},
		.ip = {
			0x45, 0, 0, 0, 0, 0, 0, 0, 64, IPPROTO_TCP, 0, 0,
			10, 8, 0, 2, 10, 8, 0, 1,
		},
		.tcp = { 4000 >> 8, 4000 & 255, [12] = 0x70, [13] = flags,
			 [14] = 0xff, [15] = 0xff, [20] = 2, 4, 1460 >> 8,
			 1460 & 255, 4, 2, 1, 1 },
	};
	u16 all = htons(48 + len), sum;
	const u16 port = htons(self->port);

	memcpy(packet.ip + 2, &all, 2);
	sum = htons(~fold(sum_of(packet.ip, IP_HEAD)));
	memcpy(packet.ip + 10, &sum, 2);
	memcpy(packet.tcp + 2, &port, 2);
	seq = htonl(seq);
	memcpy(packet.tcp + 4, &seq, 4);
	memcpy(packet.tcp + 8, &self->ack, 4);
	sum = htons(fold(sum_of(packet.ip + 12, 8) + IPPROTO_TCP + 28 + len));
	memcpy(packet.tcp + 16, &sum, 2);
	memcpy(packet.octets, octets, len);
	len += sizeof(packet) - sizeof(packet.octets);
	return write(self->tun, &packet, len) != (ssize_t)len;
}

static int virtual_up(struct _test_data_virtual *self)
{
	struct ifreq req = {
		.ifr_name = "tunx", .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR,
	};

	self->tun = open("/dev/net/tun", O_RDWR);
	if (self->tun < 0)
		return -1;
	return ioctl(self->tun, TUNSETIFF, &req) ||
	       ioctl(self->tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) ||
	       system("ip addr add 10.8.0.1/24 dev tunx && ip link set tunx up");
}

/* Wait for the SYN-ACK, and note its sequence number. */
static int virtual_syn_ack(struct _test_data_virtual *self)
{
	static u8 packet[70000];
	const u8 *ip = packet + sizeof(struct virtio_net_hdr);
	u32 seq;

	do {
		if (!poll_for(self->tun, POLLIN, 5000) ||
		    read(self->tun, packet, sizeof(packet)) < 0)
			return -1;
	} while (ip[9] != IPPROTO_TCP || (ip[IP_HEAD + 13] & 0x12) != 0x12);
	memcpy(&seq, ip + IP_HEAD + 4, 4);
	self->ack = htonl(ntohl(seq) + 1);
	return 0;
}

static int virtual_connect(struct _test_data_virtual *self)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a080001),
	};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(at);

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &len))
		return -1;
	self->port = ntohs(at.sin_port);
	if (virtual_send(self, 0x02, VIRTUAL_SEQ, NULL, 0, 0) ||
	    virtual_syn_ack(self) ||
	    virtual_send(self, 0x10, VIRTUAL_SEQ + 1, NULL, 0, 0))
		return -1;
	self->fd = accept(listener, NULL, NULL);
	close(listener);
	return self->fd < 0 || tuf_attach(self->fd) ? -1 : 0;
}

FIXTURE_SETUP(virtual)
{
	self->fd = -1;
	self->tun = -1;
	self->ack = 0;
	self->way = (struct tuf_way){ .mode = TUF_ALIGN };
	memcpy(self->way.key, key_of_tests, TUF_KEY_LEN);
	ASSERT_EQ(0, own_netns());
	if (system("modprobe -q tun") < 0 || virtual_up(self))
		SKIP(return, "needs tun and iproute2");
	ASSERT_EQ(0, virtual_connect(self));
	ASSERT_EQ(0, tuf_start(self->fd, TUF_RX, &self->way));
	ASSERT_EQ(0, set_int(self->fd, MPA_PLACE, 1));
}

FIXTURE_TEARDOWN(virtual)
{
	hang_up(self->fd);
	close(self->tun);
}

TEST_F(virtual, segments_of_an_fpdu_each_are_placed)
{
	static u8 stream[2000];
	u32 at;

	for (at = 0; at < 2000; at += 500)
		tuf_fpdu(&self->way, record_of(492), 492, stream + at);
	ASSERT_EQ(0, virtual_send(self, 0x18, VIRTUAL_SEQ + 1 + 500,
				  stream + 500, 1500, 500));
	for (at = 0; at < 3; at++) {
		ASSERT_TRUE(poll_for(self->fd, POLLIN, 5000));
		ASSERT_EQ(492, recv(self->fd, self->buf, TUF_ROOM, MSG_DONTWAIT));
		EXPECT_TRUE(record_good(self->buf, 492));
	}
	EXPECT_EQ(3, tuf_info(self->fd).rx_contained);
}

/* Three segments of an FPDU have, together, the length in their first octets. */
TEST_F(virtual, segments_that_look_like_an_fpdu_are_not_placed)
{
	static u8 ulpdu[2092], stream[2100];

	tuf_fpdu(&self->way, record_row, 1492, ulpdu + 492);
	tuf_fpdu(&self->way, ulpdu, sizeof(ulpdu), stream);
	ASSERT_EQ(0, virtual_send(self, 0x18, VIRTUAL_SEQ + 1 + 500,
				  stream + 500, 1500, 500));
	EXPECT_FALSE(poll_for(self->fd, POLLIN, 100));
	EXPECT_EQ(-1, recv(self->fd, self->buf, TUF_ROOM, MSG_DONTWAIT));
	EXPECT_EQ(3, tuf_info(self->fd).rx_tested);
	EXPECT_EQ(0, tuf_info(self->fd).rx_contained);
}

TEST_HARNESS_MAIN
