// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/net/mpa_stat: each action changes the right lines, and no others. Each test has
 * a new network namespace, where all counters are zero.
 */

#include <sys/ioctl.h>
#include <sys/wait.h>

#include "mpa_consumer.h"
#include "mpa_counts.h"
#include "mpa_debugfs.h"
#include "mpa_forge.h"
#include "mpa_pair.h"
#include "mpa_place.h"
#include "mpa_nl.h"

/* Close both ends of a pair, the second after it has received the first one's FIN. */
static void part(struct _test_data_pair *self)
{
	hang_up(self->fd[0]);
	if (self->fd[1] >= 0)
		poll_for(self->fd[1], 0, 20000);
	hang_up(self->fd[1]);
	self->fd[0] = -1;
	self->fd[1] = -1;
}

/* ---- connections by role ---- */

TEST_F(pair, connections_by_role)
{
	EXPECT_COUNTS({ "MpaInitiators", 0 });
	ASSERT_EQ(0, negotiate(self));
	/* The responder's work item may not have run yet. */
	EXPECT_COUNTS_SOON({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
			   { "MpaCurrInitiators", 1 },
			   { "MpaCurrResponders", 1 });
	hang_up(self->fd[0]);
	self->fd[0] = -1;
	/* The other end was reset. */
	EXPECT_COUNTS_SOON({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
			   { "MpaCurrResponders", 1 }, { "MpaLost", 1 });
	part(self);
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaLost", 1 });

	ASSERT_EQ(0, fresh(self, true, true));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
	ASSERT_EQ(0, mpa_start(self->fd[1], MPA_ROLE_DIRECT, 0));
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaLost", 1 }, { "MpaDirect", 2 },
		      { "MpaCurrDirect", 2 });
	close(self->fd[0]);
	self->fd[0] = -1;
	ASSERT_EQ(0, recv(self->fd[1], self->buf, 1, 0));
	/* A regular end is not counted. */
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaLost", 1 }, { "MpaDirect", 2 },
		      { "MpaCurrDirect", 1 });
	close(self->fd[1]);
	self->fd[1] = -1;
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaLost", 1 }, { "MpaDirect", 2 });
}

/* A startup that waits for its peer is not counted yet. */
TEST_F(pair, startups_under_way)
{
	ASSERT_LT(0, ask(self));
	EXPECT_COUNTS({ "MpaInStartup", 1 });
	part(self);
	EXPECT_COUNTS({ "MpaInStartup", 0 });
}

/* ---- refused startups ---- */

TEST_F(pair, rejected_by_the_peer)
{
	u8 reply[FRAME_LEN];

	ASSERT_LT(0, ask(self));
	frame_put(reply, true, 0x60, 1, 0);
	ASSERT_EQ(ECONNREFUSED, answer(self, reply, FRAME_LEN));
	EXPECT_COUNTS({ "MpaRefusedByPeer", 1 });
	part(self);
	EXPECT_COUNTS({ "MpaRefusedByPeer", 1 });
}

TEST_F(pair, rejected_by_a_program)
{
	u8 frame[FRAME_LEN];

	frame_put(frame, false, 0x40, 1, 0);
	self->start[1].flags = MPA_START_MANUAL;
	ASSERT_EQ(0, request(self, frame, FRAME_LEN));
	ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
	EXPECT_COUNTS({ "MpaInStartup", 0 });
	ASSERT_EQ(0, decide(self->fd[1], MPA_REJECT));
	EXPECT_COUNTS({ "MpaRefusedByUser", 1 });

	/* The initiator rejects the reply. */
	self->start[0].flags = MPA_START_MANUAL;
	ASSERT_LT(0, ask(self));
	frame_put(frame, true, 0x40, 1, 0);
	ASSERT_EQ(0, write_all(self->fd[1], frame, FRAME_LEN));
	ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 20000));
	ASSERT_EQ(0, decide(self->fd[0], MPA_REJECT));
	EXPECT_COUNTS({ "MpaRefusedByUser", 2 });
}

TEST_F(pair, malformed_frames)
{
	ASSERT_LT(0, ask(self));
	ASSERT_EQ(EPROTO, answer(self, (const u8 *)"none", 4));
	EXPECT_COUNTS({ "MpaRefusedMalformed", 1 });
	ASSERT_EQ(0, request(self, (const u8 *)"nor this", 8));
	ASSERT_TRUE(POLLERR & poll_for(self->fd[1], 0, 20000));
	EXPECT_COUNTS({ "MpaRefusedMalformed", 2 });
}

TEST_F(pair, frame_that_does_not_come)
{
	self->start[1].timeout_ms = 1;
	ASSERT_EQ(0, request(self, NULL, 0));
	ASSERT_TRUE(POLLERR & poll_for(self->fd[1], 0, 20000));
	EXPECT_EQ(ETIMEDOUT, so_error(self->fd[1]));
	EXPECT_COUNTS({ "MpaRefusedTimeout", 1 });
}

TEST_F(pair, connection_that_ends_in_startup)
{
	ASSERT_LT(0, ask(self));
	hang_up(self->fd[1]);
	self->fd[1] = -1;
	ASSERT_TRUE(POLLERR & poll_for(self->fd[0], 0, 20000));
	EXPECT_COUNTS_SOON({ "MpaRefusedLost", 1 });
	ASSERT_EQ(0, request(self, NULL, 0));
	shutdown(self->fd[0], SHUT_WR);
	ASSERT_TRUE(POLLERR & poll_for(self->fd[1], 0, 20000));
	EXPECT_COUNTS_SOON({ "MpaRefusedLost", 2 });
}

TEST_F(pair, one_that_makes_room)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd[2][2], i;
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);

	ASSERT_EQ(0, sysctl_put("startup_max", 1));
	ASSERT_EQ(0, bind(listener, (struct sockaddr *)&addr, len));
	ASSERT_EQ(0, listen(listener, 2));
	ASSERT_EQ(0, getsockname(listener, (struct sockaddr *)&addr, &len));
	for (i = 0; i < 2; i++) {
		fd[i][0] = socket(AF_INET, SOCK_STREAM, 0);
		ASSERT_EQ(0, connect(fd[i][0], (struct sockaddr *)&addr, len));
		fd[i][1] = accept(listener, NULL, NULL);
		ASSERT_EQ(0, mpa_attach(fd[i][1]));
		ASSERT_EQ(0, mpa_start(fd[i][1], MPA_ROLE_RESPONDER, 0));
	}
	ASSERT_TRUE(POLLERR & poll_for(fd[0][1], 0, 20000));
	EXPECT_COUNTS({ "MpaRefusedOusted", 1 }, { "MpaStartupOusted", 1 },
		      { "MpaInStartup", 1 });
	for (i = 0; i < 2; i++) {
		hang_up(fd[i][0]);
		hang_up(fd[i][1]);
	}
	close(listener);
}

TEST_F(pair, none_may_begin)
{
	ASSERT_EQ(0, sysctl_put("startup_max", 0));
	ASSERT_EQ(0, fresh(self, false, true));
	ASSERT_EQ(-1, mpa_start_as(self->fd[1], &self->start[1]));
	ASSERT_EQ(EUSERS, errno);
	EXPECT_COUNTS({ "MpaRefusedLimit", 1 });
}

/* A child's refused startup is counted: no MPA_START could return the error. */
TEST_F(pair, no_child_may_begin)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(0, mpa_attach(listener));
	ASSERT_EQ(0, bind(listener, (struct sockaddr *)&addr, len));
	ASSERT_EQ(0, mpa_start(listener, MPA_ROLE_RESPONDER, 0));
	ASSERT_EQ(0, listen(listener, 1));
	ASSERT_EQ(0, getsockname(listener, (struct sockaddr *)&addr, &len));
	ASSERT_EQ(0, sysctl_put("startup_max", 0));
	self->fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(0, connect(self->fd[0], (struct sockaddr *)&addr, len));
	self->fd[1] = accept(listener, NULL, NULL);
	ASSERT_LE(0, self->fd[1]);
	ASSERT_TRUE(POLLERR & poll_for(self->fd[1], 0, 20000));
	EXPECT_EQ(EUSERS, so_error(self->fd[1]));
	EXPECT_COUNTS({ "MpaRefusedLimit", 1 });
	close(listener);
}

TEST_F(pair, shut_down_in_startup)
{
	ASSERT_EQ(0, request(self, NULL, 0));
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
	EXPECT_COUNTS({ "MpaRefusedGivenUp", 1 });
}

#define FAIL_NTH	"/proc/thread-self/fail-nth"

/* Make the nth allocation in a call fail. Return: false if the call has fewer. */
static bool with_fault(int fail_nth, int nth, void (*call)(struct _test_data_pair *self),
		       struct _test_data_pair *self)
{
	char text[16];
	ssize_t len = snprintf(text, sizeof(text), "%d", nth);

	if (pwrite(fail_nth, text, len, 0) != len)
		abort();
	call(self);
	memset(text, 0, sizeof(text));
	/* The fault may hit this call, too. */
	len = pread(fail_nth, text, sizeof(text) - 1, 0);
	if (pwrite(fail_nth, "0", 1, 0) != 1 &&
	    pwrite(fail_nth, "0", 1, 0) != 1)
		abort();
	return len > 0 && !atoi(text);
}

static void accept_it(struct _test_data_pair *self)
{
	decide(self->fd[1], MPA_ACCEPT);
}

/* There is no memory for the reply. */
TEST_F(pair, given_up_here)
{
	int fail_nth = open(FAIL_NTH, O_RDWR), nth = 0;
	long long failed = 0, full = 0;
	u8 frame[FRAME_LEN];
	bool faults = true;

	if (fail_nth < 0 || faults_set_up("failslab"))
		SKIP(return, "this kernel has no fault injection");
	debugfs_put("fail_usercopy", "verbose", "0");
	frame_put(frame, false, 0x40, 1, 0);
	self->start[1].flags = MPA_START_MANUAL;
	while (faults) {
		ASSERT_EQ(0, request(self, frame, FRAME_LEN));
		ASSERT_EQ(POLLIN, poll_for(self->fd[1], POLLIN, 20000));
		faults = with_fault(fail_nth, ++nth, accept_it, self);
		failed += mpa_info(self->fd[1]).state == MPA_STATE_FAILED;
		full += mpa_info(self->fd[1]).state == MPA_STATE_FULL;
		/* Close the responder first, so that its connection is not counted as lost. */
		hang_up(self->fd[1]);
		self->fd[1] = -1;
	}
	EXPECT_LT(0, failed);
	EXPECT_COUNTS({ "MpaRefusedLocal", failed }, { "MpaResponders", full });
	close(fail_nth);
}

static void start_it(struct _test_data_pair *self)
{
	mpa_start_as(self->fd[0], &self->start[0]);
}

/* There is no memory for the request, after MPA_START's parameters were stored. */
TEST_F(pair, request_that_cannot_be_made)
{
	int fail_nth = open(FAIL_NTH, O_RDWR), nth = 0;
	long long failed = 0, refused;
	bool faults = true;

	if (fail_nth < 0 || faults_set_up("failslab"))
		SKIP(return, "this kernel has no fault injection");
	debugfs_put("fail_usercopy", "verbose", "0");
	while (faults) {
		ASSERT_EQ(0, fresh(self, true, false));
		set_nonblock(self->fd[0]);
		refused = statistic("MpaRefusedLocal");
		faults = with_fault(fail_nth, ++nth, start_it, self);
		if (statistic("MpaRefusedLocal") == refused)
			continue;
		failed++;
		EXPECT_EQ(refused + 1, statistic("MpaRefusedLocal"));
		EXPECT_EQ(MPA_STATE_IDLE, mpa_info(self->fd[0]).state);
		EXPECT_EQ(MPA_ROLE_UNSPEC, mpa_info(self->fd[0]).role);
	}
	EXPECT_LT(0, failed);
	close(fail_nth);
}

/* ---- RFC 6581 ---- */

TEST_F(pair, peer_wants_more_depth)
{
	u8 reply[FRAME_LEN + 4];

	ASSERT_LT(0, ask_enhanced(self));
	enhanced_frame(reply, true, 0x40, 0, 4, 9);
	ASSERT_EQ(ENOBUFS, answer(self, reply, sizeof(reply)));
	EXPECT_COUNTS_SOON({ "MpaInitiators", 1 }, { "MpaCurrInitiators", 1 },
			   { "MpaDepthRefused", 1 });
}

TEST_F(pair, peer_offers_another_rtr)
{
	u8 reply[FRAME_LEN + 4];

	self->start[0].revision = 2;
	self->start[0].flags = MPA_START_ENHANCED | A | B;
	self->start[0].ird = 8;
	self->start[0].ord = 4;
	ASSERT_LT(0, ask(self));
	enhanced_frame(reply, true, 0x40, A | C, 4, 4);
	ASSERT_EQ(EOPNOTSUPP, answer(self, reply, sizeof(reply)));
	EXPECT_COUNTS_SOON({ "MpaInitiators", 1 }, { "MpaCurrInitiators", 1 },
			   { "MpaRtrRefused", 1 });
}

/* ---- records ---- */

/* Return: the model's number of markers among FPDUs of these lengths. */
static long long markers_of(const size_t *lens, unsigned int n)
{
	static struct model_octet octets[80000];
	struct model_sender sender = { .markers = true, .octets = octets };
	long long markers = 0;

	while (n--) {
		struct model_fpdu where;

		sender.count = 0;
		model_send(&sender, record_of(*lens), *lens, &where);
		sender.position += sender.count;
		markers += where.markers;
		lens++;
	}
	return markers;
}

/* One direction has markers, the other has none. */
TEST_F(pair, records_of_both_ends)
{
	const size_t lens[] = { 1000, 1, 511, 3000, 2 };
	long long markers = markers_of(lens, ARRAY_SIZE(lens));
	long long octets = 0;
	unsigned int i;

	self->start[1].flags = MPA_START_MARKERS;
	ASSERT_EQ(0, negotiate(self));
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		ASSERT_TRUE(record_goes(self->fd[0], self->fd[1], lens[i]));
		octets += lens[i];
	}
	ASSERT_TRUE(record_goes(self->fd[1], self->fd[0], 700));
	ASSERT_TRUE(acked(self->fd[0]) && acked(self->fd[1]));
	ASSERT_LT(0, markers);
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaCurrInitiators", 1 }, { "MpaCurrResponders", 1 },
		      { "MpaTxFpdus", 6 }, { "MpaTxOctets", octets + 700 },
		      { "MpaTxMarkers", markers },
		      { "MpaTxPackets", 6 }, { "MpaTxSegsAligned", 6 },
		      { "MpaTxSegsOversized", 0 }, { "MpaTxSegsWindow", 0 },
		      { "MpaTxSegsOther", 0 },
		      { "MpaRxFpdus", 6 }, { "MpaRxOctets", octets + 700 },
		      { "MpaRxMarkers", markers });
	/* The sockets' own counters are the same. */
	EXPECT_EQ(ARRAY_SIZE(lens), mpa_info(self->fd[0]).tx_ulpdus);
	EXPECT_EQ(octets, mpa_info(self->fd[1]).rx_octets);
	EXPECT_EQ(markers, mpa_info(self->fd[1]).rx_markers);
}

/* One call sends many records, and one call reads them. */
TEST_F(pair, batches)
{
	const size_t all = 20 * 1000;
	size_t lens[20];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++)
		lens[i] = 1000;
	self->start[1].flags = MPA_START_MARKERS;
	ASSERT_EQ(0, negotiate(self));
	ASSERT_EQ(0, set_int(self->fd[0], MPA_SEGMENT, 1000));
	ASSERT_EQ(0, set_int(self->fd[1], MPA_RECV_BATCH, 1));
	ASSERT_EQ(all, send(self->fd[0], record_row, all, 0));
	for (i = 0; i < all;) {
		u8 got[20000];
		ssize_t n = recv(self->fd[1], got, sizeof(got), 0);

		ASSERT_LT(0, n);
		i += n;
	}
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaCurrInitiators", 1 }, { "MpaCurrResponders", 1 },
		      { "MpaTxFpdus", 20 }, { "MpaTxOctets", all },
		      { "MpaTxMarkers", markers_of(lens, 20) },
		      { "MpaRxFpdus", 20 }, { "MpaRxOctets", all },
		      { "MpaRxMarkers", markers_of(lens, 20) });
}

/* A ULPDU that is read in parts is counted once, when its last octet is read. */
TEST_F(pair, record_in_pieces)
{
	ASSERT_EQ(0, negotiate(self));
	ASSERT_EQ(1000, send(self->fd[0], record_row, 1000, 0));
	ASSERT_EQ(600, recv(self->fd[1], self->buf, 600, 0));
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaCurrInitiators", 1 }, { "MpaCurrResponders", 1 },
		      { "MpaTxFpdus", 1 }, { "MpaTxOctets", 1000 },
		      { "MpaRxOctets", 600 });
	ASSERT_EQ(400, recv(self->fd[1], self->buf, 600, 0));
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaCurrInitiators", 1 }, { "MpaCurrResponders", 1 },
		      { "MpaTxFpdus", 1 }, { "MpaTxOctets", 1000 },
		      { "MpaRxFpdus", 1 }, { "MpaRxOctets", 1000 });
}

/* RFC 6581's first FPDU has no ULPDU, and does not count as a record. */
TEST_F(pair, rtr_is_no_record)
{
	self->start[0].revision = 2;
	self->start[0].flags = MPA_START_ENHANCED | A | B;
	self->start[1].revision = 2;
	self->start[1].flags = MPA_START_RTR_FPDU;
	ASSERT_EQ(0, negotiate(self));
	ASSERT_TRUE(record_goes(self->fd[1], self->fd[0], 10));
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaCurrInitiators", 1 }, { "MpaCurrResponders", 1 },
		      { "MpaTxFpdus", 1 }, { "MpaTxOctets", 10 },
		      { "MpaRxFpdus", 1 }, { "MpaRxOctets", 10 });
}

/* ---- segments that do not start with an FPDU ---- */

static int mtu_set(int mtu)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_mtu = mtu };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), err;

	err = ioctl(fd, SIOCSIFMTU, &lo);
	close(fd);
	return err;
}

/* Check the counters of one end, whose peer is simulated. */
#define EXPECT_DIRECT(...)						\
	EXPECT_COUNTS({ "MpaDirect", 1 }, { "MpaCurrDirect", 1 }, __VA_ARGS__)

TEST_F(pair, oversized_record)
{
	ASSERT_EQ(0, mtu_set(1500));
	ASSERT_EQ(0, fresh(self, true, false));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
	ASSERT_EQ(1448, mpa_info(self->fd[0]).emss);
	ASSERT_EQ(5000, send(self->fd[0], record_row, 5000, 0));
	ASSERT_TRUE(acked(self->fd[0]));
	/* 2 + 5000 + 2 + 4 octets take 4 segments. */
	EXPECT_DIRECT({ "MpaTxFpdus", 1 }, { "MpaTxOctets", 5000 },
		      { "MpaTxSegsAligned", 1 }, { "MpaTxSegsOversized", 3 },
		      { "MpaTxSegsWindow", 0 }, { "MpaTxSegsOther", 0 });
}

/* The peer's window ends within a record, so a window probe has a part of the record. */
TEST_F(pair, record_cut_at_the_window)
{
	int scaling = open("/proc/sys/net/ipv4/tcp_window_scaling", O_WRONLY);
	struct forger forger;
	static u8 buf[2000];

	ASSERT_EQ(0, one_processor());
	ASSERT_EQ(1, write(scaling, "0", 1));
	close(scaling);
	ASSERT_EQ(0, fresh(self, true, false));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
	/* The window may shrink only with a later segment. */
	ASSERT_EQ(0, write_all(self->fd[1], "", 1));
	ASSERT_TRUE(arrived(self->fd[0], 1));
	ASSERT_EQ(0, forger_open(&forger, self->fd[1], self->fd[0]));
	forger.window = 500;
	ASSERT_EQ(0, forge(&forger, 0, record_row, 0, 0, 0));
	ASSERT_TRUE(lo_delivered());
	ASSERT_EQ(1400, send(self->fd[0], record_row, 1400, 0));
	ASSERT_EQ(1408, read_all(self->fd[1], buf, 1408));
	EXPECT_DIRECT({ "MpaTxFpdus", 1 }, { "MpaTxOctets", 1400 },
		      { "MpaTxPackets", 2 }, { "MpaTxSegsAligned", 1 },
		      { "MpaTxSegsWindow", 1 }, { "MpaTxSegsOversized", 0 },
		      { "MpaTxSegsOther", 0 });
	close(forger.raw);
}

/* Have a socket drop all packets. */
static int deafen(int fd)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog deaf = { .len = 1, .filter = &drop };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &deaf, sizeof(deaf));
}

/* The path MTU drops before a segment with several records is sent. */
TEST_F(pair, path_that_becomes_narrow)
{
	u32 octets = 0, fpdus = 0;
	struct mpa_info info;
	static u8 buf[20000];
	int i, zero = 0;

	ASSERT_EQ(0, mtu_set(9000));
	ASSERT_EQ(0, fresh(self, true, false));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
	ASSERT_EQ(0, deafen(self->fd[1]));
	/* TCP sends ten segments before it learns that the first was refused. */
	for (i = 0; i < 50; i++) {
		u32 len = 100 + 7 * i;

		ASSERT_EQ(len, send(self->fd[0], record_row, len, 0));
		octets += len;
		fpdus += (2 + len + 3) / 4 * 4 + 4;
	}
	ASSERT_EQ(0, mtu_set(1500));
	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_DETACH_FILTER,
				&zero, sizeof(zero)));
	ASSERT_EQ(fpdus, read_all(self->fd[1], buf, fpdus));
	info = mpa_info(self->fd[0]);
	EXPECT_LT(0, info.tx_segs_unaligned);
	EXPECT_DIRECT({ "MpaTxFpdus", 50 },
		      { "MpaTxOctets", octets },
		      { "MpaTxPackets", info.tx_packets },
		      { "MpaTxSegsAligned", info.tx_segs_aligned },
		      { "MpaTxSegsOther", info.tx_segs_unaligned },
		      { "MpaTxSegsOversized", 0 }, { "MpaTxSegsWindow", 0 });
}

/* ---- errors of records ---- */

TEST_F(pair, records_that_are_wrong)
{
	static const struct {
		const char *what;
		int at;
		u8 flip;
		bool cut;
		bool sealed;
	} wrongs[] = {
		{ "MpaRxBadCrc", 100, 1 },
		{ "MpaRxBadMarker", 3, 4, .sealed = true },
		{ "MpaRxIncomplete", 100, .cut = true },
	};
	struct count want[] = {
		{ "MpaDirect" }, { "MpaRxBadCrc" }, { "MpaRxBadMarker" },
		{ "MpaRxIncomplete" },
	};
	unsigned int i, j;
	struct peer peer;
	u8 fpdu[2048];
	size_t n;

	for (i = 0; i < ARRAY_SIZE(wrongs); i++) {
		ASSERT_EQ(0, fresh(self, false, false));
		ASSERT_EQ(0, receive_directly(self->fd[1], &peer, self->fd[0],
					      MPA_START_MARKERS));
		n = next_fpdu(&peer, 1000, fpdu);
		fpdu[wrongs[i].at] ^= wrongs[i].flip;
		if (wrongs[i].sealed)
			model_crc(fpdu, n - 4, fpdu + n - 4);
		ASSERT_EQ(0, write_all(self->fd[0], fpdu,
				       wrongs[i].cut ? wrongs[i].at : n));
		shutdown(self->fd[0], SHUT_WR);
		for (j = 0; j < 3; j++) {
			EXPECT_EQ(-1, recv(self->fd[1], fpdu, sizeof(fpdu), 0));
			EXPECT_EQ(EBADMSG, errno);
		}
		/* This is no loss: the receiver itself sends the RST. */
		hang_up(self->fd[1]);
		self->fd[1] = -1;
		want[0].n++;
		for (j = 0; j < ARRAY_SIZE(want); j++)
			want[j].n += !strcmp(want[j].name, wrongs[i].what);
		EXPECT_STREQ("", differs(want, ARRAY_SIZE(want)));
	}
}

/* An octet bypasses MPA: receiving ends, and sending fails. */
TEST_F(consumer, octets_of_somebody_else)
{
	if (variant->flags)
		SKIP(return, "markers do not matter");
	ASSERT_EQ(0, direct_to_peer(self, 0));
	ASSERT_EQ(0, user_send(self->user, 100, 0, MEMORY_KVEC, NULL));
	EXPECT_COUNTS({ "MpaDirect", 1 }, { "MpaCurrDirect", 1 },
		      { "MpaTxFpdus", 1 }, { "MpaTxOctets", 100 });
	ASSERT_EQ(0, user_call(self->user, UPCALLS_STRANGER, NULL));
	EXPECT_EQ(EPIPE, user_send(self->user, 200, 0, MEMORY_KVEC, NULL));
	EXPECT_EQ(EPIPE, user_send(self->user, 200, 0, MEMORY_KVEC, NULL));
	/* For a user inside the kernel the stream just ends. */
	EXPECT_COUNTS({ "MpaDirect", 1 }, { "MpaCurrDirect", 1 },
		      { "MpaTxFpdus", 2 }, { "MpaTxOctets", 300 },
		      { "MpaTxFailed", 1 }, { "MpaRxFailedLocal", 1 });
}

/* ---- lost connections ---- */

TEST_F(pair, reset)
{
	ASSERT_EQ(0, fresh(self, true, false));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
	hang_up(self->fd[1]);
	self->fd[1] = -1;
	ASSERT_EQ(-1, recv(self->fd[0], self->buf, 1, 0));
	ASSERT_EQ(ECONNRESET, errno);
	EXPECT_DIRECT({ "MpaLost", 1 });
	part(self);
	EXPECT_COUNTS({ "MpaDirect", 1 }, { "MpaLost", 1 });
}

/* The peer no longer receives packets. */
TEST_F(pair, time_runs_out)
{
	int ms = 50;

	ASSERT_EQ(0, fresh(self, true, false));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
	ASSERT_EQ(0, setsockopt(self->fd[0], SOL_TCP, TCP_USER_TIMEOUT, &ms,
				sizeof(ms)));
	ASSERT_EQ(0, deafen(self->fd[1]));
	ASSERT_EQ(100, send(self->fd[0], record_row, 100, 0));
	ASSERT_EQ(-1, recv(self->fd[0], self->buf, 1, 0));
	ASSERT_EQ(ETIMEDOUT, errno);
	EXPECT_DIRECT({ "MpaTxFpdus", 1 }, { "MpaTxOctets", 100 },
		      { "MpaTimedOut", 1 });
}

/* ---- small buffers ---- */

TEST_F(pair, record_larger_than_the_buffer)
{
	static u8 buf[60000];
	struct peer peer;
	pid_t pid;
	int how;

	ASSERT_EQ(0, tcp_pair_buf(AF_INET, self->fd, 4096));
	patience(self->fd[1], 20);
	ASSERT_EQ(0, receive_directly(self->fd[1], &peer, self->fd[0], 0));
	pid = fork();
	if (!pid)
		_exit(peer_send_record(&peer, 50000) ? 1 : 0);
	ASSERT_EQ(50000, recv(self->fd[1], buf, sizeof(buf), 0));
	ASSERT_TRUE(record_good(buf, 50000));
	EXPECT_EQ(pid, waitpid(pid, &how, 0));
	EXPECT_DIRECT({ "MpaRxFpdus", 1 }, { "MpaRxOctets", 50000 },
		      { "MpaRxStashed", 1 });
}

TEST_F(pair, pages_are_given_back)
{
	const long until = now_ms() + 60000;
	long long kept;

	ASSERT_EQ(0, negotiate(self));
	ASSERT_TRUE(record_goes(self->fd[0], self->fd[1], 4000));
	kept = statistic("MpaMemKept");
	EXPECT_LT(0, kept);
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaCurrInitiators", 1 }, { "MpaCurrResponders", 1 },
		      { "MpaTxFpdus", 1 }, { "MpaTxOctets", 4000 },
		      { "MpaRxFpdus", 1 }, { "MpaRxOctets", 4000 },
		      { "MpaMemKept", kept });
	part(self);
	while (statistic("MpaMemKept") && now_ms() < until)
		poll(NULL, 0, 100);
	EXPECT_COUNTS({ "MpaInitiators", 1 }, { "MpaResponders", 1 },
		      { "MpaTxFpdus", 1 }, { "MpaTxOctets", 4000 },
		      { "MpaRxFpdus", 1 }, { "MpaRxOctets", 4000 },
		      { "MpaLost", 1 }, { "MpaMemKept", 0 });
}

/* ---- out of order ---- */

TEST_F(place, placed)
{
	const size_t lens[] = { 1000, 1000, 1000, 1000 };

	stream_add_many(self, 1000, 4);
	COME(2, 4);
	PLACED(2);
	PLACED(3);
	EXPECT_DIRECT({ "MpaRxFpdus", 2 }, { "MpaRxOctets", 2000 },
		      { "MpaRxMarkers", markers_of(lens, 4) -
					markers_of(lens, 2) },
		      { "MpaRxPlaced", 2 });
	COME(0, 2);
	ORDERED(0);
	ORDERED(1);
	EXPECT_DIRECT({ "MpaRxFpdus", 4 }, { "MpaRxOctets", 4000 },
		      { "MpaRxMarkers", markers_of(lens, 4) },
		      { "MpaRxPlaced", 2 });
}

/* To accept earlier data TCP drops one run of unread records. */
TEST_F(place, pruned)
{
	int small = 1;

	stream_add_many(self, 1000, 20);
	COME(10, 20);
	ASSERT_EQ(POLLIN, poll_for(self->fd, POLLIN, 20000));
	ASSERT_EQ(0, setsockopt(self->fd, SOL_SOCKET, SO_RCVBUF, &small,
				sizeof(small)));
	COME(5, 6);
	EXPECT_COUNTS_SOON({ "MpaDirect", 1 }, { "MpaCurrDirect", 1 },
			   { "MpaRxPruned", 1 });
}

/* ---- messages that exceed a listener's buffer ---- */

/* Open a listener with the smallest buffer. @known: losses are reported to mpa. */
static int listen_narrowly(struct nl *nl, bool known)
{
	int one = 1, fd;

	if (nl_open(nl))
		return -1;
	fd = mnl_socket_get_fd(nl->sock);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &one, sizeof(one)))
		return -1;
	return known ? mnl_socket_setsockopt(nl->sock, NETLINK_BROADCAST_ERROR,
					     &one, sizeof(one)) : 0;
}

/**
 * struct received - messages that a listener has received
 * @messages:	their number
 * @last:	number of the last one
 * @told:	ENOBUFS has reported losses
 */
struct received {
	unsigned int messages;
	u64 last;
	bool told;
};

static struct received receive_all(struct nl *nl, unsigned int number)
{
	struct received received = {};
	struct nl_reported told;

	while (!nl_next(nl, &told, 0) || errno == ENOBUFS) {
		if (errno == ENOBUFS) {
			received.told = true;
			errno = 0;
			continue;
		}
		received.messages++;
		received.last = told.value[number];
	}
	return received;
}

#define NR_EVENTS	40

/*
 * Cause many events. @all receives all of them, after the listeners that joined later.
 * Return: the number of events.
 */
static int many_events(struct nl *all)
{
	struct nl_reported told = {};
	int fd[2], i;

	for (i = 0; i < NR_EVENTS / 2; i++) {
		if (tcp_pair(AF_INET, fd) || mpa_attach(fd[0]) ||
		    mpa_start(fd[0], MPA_ROLE_DIRECT, 0))
			return -1;
		close(fd[0]);
		close(fd[1]);
	}
	while (told.value[MPA_A_CONN_EVENT] != NR_EVENTS)
		if (nl_next(all, &told, 20000))
			return -1;
	return NR_EVENTS;
}

TEST_F(pair, lost_events)
{
	struct received received;
	struct nl all, nl;

	ASSERT_EQ(0, nl_open(&all));
	ASSERT_EQ(0, nl_listen(&all, all.events));
	ASSERT_EQ(0, listen_narrowly(&nl, true));
	ASSERT_EQ(0, nl_listen(&nl, nl.events));
	ASSERT_EQ(NR_EVENTS, many_events(&all));
	errno = 0;
	received = receive_all(&nl, MPA_A_CONN_EVENT);
	EXPECT_TRUE(received.told);
	EXPECT_LT(0, received.messages);
	EXPECT_GT(NR_EVENTS, received.messages);
	EXPECT_COUNTS_SOON({ "MpaDirect", NR_EVENTS / 2 },
			   { "MpaEventsLost", NR_EVENTS - received.messages });
	nl_close(&nl);
	nl_close(&all);
}

/*
 * Netlink reports losses to mpa only if a listener requests that. Listeners see the gap
 * in the numbers.
 */
TEST_F(pair, events_lost_without_a_count)
{
	struct received received, next;
	struct nl_reported told;
	struct nl all, nl;

	ASSERT_EQ(0, nl_open(&all));
	ASSERT_EQ(0, nl_listen(&all, all.events));
	ASSERT_EQ(0, listen_narrowly(&nl, false));
	ASSERT_EQ(0, nl_listen(&nl, nl.events));
	ASSERT_EQ(NR_EVENTS, many_events(&all));
	errno = 0;
	received = receive_all(&nl, MPA_A_CONN_EVENT);
	EXPECT_TRUE(received.told);
	EXPECT_EQ(received.messages, received.last);
	EXPECT_GT(NR_EVENTS, received.messages);
	EXPECT_COUNTS({ "MpaDirect", NR_EVENTS / 2 });
	ASSERT_EQ(0, fresh(self, true, false));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
	ASSERT_EQ(0, nl_next(&all, &told, 20000));
	errno = 0;
	next = receive_all(&nl, MPA_A_CONN_EVENT);
	EXPECT_EQ(1, next.messages);
	EXPECT_EQ(NR_EVENTS + 1, next.last);
	nl_close(&nl);
	nl_close(&all);
}

TEST_F(pair, lost_records)
{
	struct received received;
	unsigned int i;
	struct nl nl;

	ASSERT_EQ(0, listen_narrowly(&nl, true));
	ASSERT_EQ(0, fresh(self, true, false));
	ASSERT_EQ(0, mpa_start(self->fd[0], MPA_ROLE_DIRECT, 0));
	ASSERT_EQ(0, nl_tap(&nl, self->fd[0], 1000));
	for (i = 0; i < 20; i++)
		ASSERT_EQ(1000, send(self->fd[0], record_row, 1000, 0));
	errno = 0;
	received = receive_all(&nl, MPA_A_TAP_SEQ);
	EXPECT_TRUE(received.told);
	EXPECT_LT(0, received.messages);
	EXPECT_GT(20, received.messages);
	EXPECT_DIRECT({ "MpaTxFpdus", 20 },
		      { "MpaTxOctets", 20000 },
		      { "MpaRecordsLost", 20 - received.messages });
	nl_close(&nl);
}

/* ---- all of them ---- */

/* This runs after all other tests: one of them must have changed each line. */
FIXTURE(last)
{
};

FIXTURE_SETUP(last)
{
}

FIXTURE_TEARDOWN(last)
{
}

TEST_F(last, no_line_is_untested)
{
	FILE *file = fopen("/proc/self/cmdline", "r");
	struct count counts[LINES];
	int lines = counts_read(counts), i;
	char line[512];
	size_t n;

	n = fread(line, 1, sizeof(line) - 1, file);
	line[n] = 0;
	fclose(file);
	if (strlen(line) + 1 < n || getenv("MPA_SHARE"))
		SKIP(return, "not all tests have been run");
	ASSERT_LT(0, lines);
	ASSERT_GT(LINES, lines);
	for (i = 0; i < lines; i++) {
		/* Only some kernels can inject the fault that this needs. */
		if (access(FAIL_NTH, F_OK) &&
		    !strcmp(counts[i].name, "MpaRefusedLocal"))
			continue;
		/* mpa_tuf, mpa_tuf_cuts and mpa_tuf_contain test these lines. */
		if (strstr(counts[i].name, "Tuf"))
			continue;
		EXPECT_TRUE(seen[i])
			TH_LOG("no test makes %s move", counts[i].name);
	}
}

TEST_HARNESS_MAIN
