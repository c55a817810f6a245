// SPDX-License-Identifier: GPL-2.0
/* MPA_SEND_STABLE: octets that do not change any more are sent where they are. */

#include <sched.h>
#include <sys/sysinfo.h>

#include "mpa_consumer.h"
#include "mpa_send.h"

#define MOST		0x100000
#define STABLE		2	/* MPA_SEND_STABLE */
#define MORE		1	/* MPA_SEND_MORE */

static u8 octets[MOST];

static void fill(void)
{
	unsigned int i;

	for (i = 0; i < MOST; i++)
		octets[i] = i * 2654435761U >> 24;
}

/* The same octets to start with, so that @pages say how they lie, and how many. */
static int send_pages(int user, struct upcall_pages *pages)
{
	pages->payload = (u64)(unsigned long)octets;
	pages->flags |= STABLE;
	return user_call(user, UPCALLS_SEND_PAGES, pages);
}

/*
 * TCP gives skbs back on the processor that they were made on: what another one has read
 * waits there for the next packet.
 */
static void packet_on(int processor)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_port = htons(9),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	cpu_set_t here, there;

	CPU_ZERO(&there);
	CPU_SET(processor, &there);
	sched_getaffinity(0, sizeof(here), &here);
	if (!sched_setaffinity(0, sizeof(there), &there))
		sendto(fd, "x", 1, 0, (void *)&addr, sizeof(addr));
	sched_setaffinity(0, sizeof(here), &here);
	close(fd);
}

/* Nobody refers to the pages any more, soon. */
static bool all_given_back(int user)
{
	u32 left = 1;
	int ms, i;

	for (ms = 0; ms < 5000; ms += 10) {
		if (user_call(user, UPCALLS_PAGES_LEFT, &left))
			return false;
		if (!left)
			return true;
		for (i = 0; i < get_nprocs(); i++)
			packet_on(i);
		usleep(10000);
	}
	return false;
}

/*
 * The next ULPDU has a header, and octets from @at on. Return: how many, or 0.
 * @last: as its header has it.
 */
static u32 next_ulpdu(struct _test_data_consumer *self, u32 at, u32 header,
		      bool *last)
{
	ssize_t got = recv(self->fd[0], self->buf, BUF, 0);
	struct upcall_header is = { .off = at, .len = got - header };
	u32 n = got - header;

	if (got <= (ssize_t)header)
		return 0;
	memcpy(&is, self->buf, header < sizeof(is) ? header : sizeof(is));
	*last = is.last;
	if (is.off != at || is.len != n || at + n > MOST ||
	    memcmp(self->buf + header, octets + at, n))
		return 0;
	return n;
}

/* All that was sent arrives, in ULPDUs of whatever length. */
static bool all_arrives(struct _test_data_consumer *self,
			const struct upcall_pages *pages)
{
	bool last = false;
	u32 at, n;

	for (at = 0; at < pages->sent; at += n) {
		n = next_ulpdu(self, at, pages->header_len, &last);
		if (!n)
			return false;
	}
	return at == pages->sent;
}

static int begin(struct _test_data_consumer *self, unsigned int flags, int mtu)
{
	fill();
	return lo_mtu(mtu) || both_direct(self, flags) ? -1 : 0;
}

static struct mpa_info user_info(int user)
{
	struct mpa_info info = {};

	user_call(user, UPCALLS_INFO, &info);
	return info;
}

/*
 * The peer has not read: TCP refers to the pages, unless markers are in between. All fits
 * the peer's window, so that nothing but their own fragments could end a segment.
 */
static void stay_and_are_aligned(struct __test_metadata *_metadata,
				 struct _test_data_consumer *self,
				 unsigned int flags, int mtu)
{
	unsigned int i;

	ASSERT_EQ(0, begin(self, flags, mtu));
	for (i = 0; i < 20; i++) {
		struct upcall_pages pages = {
			.len = 14 * 4096, .header_len = 18, .cut = 1, .piece = 4096,
		};

		ASSERT_EQ(0, send_pages(self->user, &pages));
		ASSERT_EQ(pages.len, pages.sent);
		EXPECT_EQ(flags ? 0 : 14, pages.left);
		ASSERT_TRUE(all_arrives(self, &pages));
		ASSERT_TRUE(all_given_back(self->user));
	}
	EXPECT_EQ(0, user_info(self->user).tx_segs_unaligned);
}

TEST_F(consumer, octets_stay_where_they_are)
{
	stay_and_are_aligned(_metadata, self, variant->flags, 9000);
}

/* Many short ones: an skb has no more fragments before it is full. */
TEST_F(consumer, fragments_end_with_an_fpdu)
{
	stay_and_are_aligned(_metadata, self, variant->flags, 4200);
}

TEST_F(consumer, one_ulpdu_stays_where_it_is)
{
	struct upcall_pages pages = {
		.len = 8000, .header_len = 18, .piece = 4000, .offset = 64,
	};

	ASSERT_EQ(0, begin(self, variant->flags, 9000));
	ASSERT_EQ(0, send_pages(self->user, &pages));
	EXPECT_EQ(variant->flags ? 0 : 2, pages.left);
	ASSERT_TRUE(all_arrives(self, &pages));
	EXPECT_TRUE(all_given_back(self->user));
}

/* Where a copy is cheaper, and where the memory is none that TCP may refer to. */
TEST_F(consumer, copies_what_is_better_copied)
{
	static const struct upcall_pages all[] = {
		{ .len = 200000, .header_len = 18, .cut = 1, .piece = 1000 },
		{ .len = 1500, .header_len = 18, .piece = 4096 },
		{ .len = 64000, .header_len = 18, .piece = 2048 },
		{ .len = 8000, .header_len = 18, .piece = 4096, .slab = 1 },
		{ .len = 200000, .cut = 1, .piece = 4096, .slab = 1 },
	};
	struct upcall_pages pages;
	unsigned int i;

	ASSERT_EQ(0, begin(self, variant->flags, 9000));
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		pages = all[i];
		ASSERT_EQ(0, send_pages(self->user, &pages));
		EXPECT_EQ(0, pages.left) {
			TH_LOG("case %u", i);
		}
		ASSERT_TRUE(all_arrives(self, &pages)) {
			TH_LOG("case %u", i);
		}
	}
}

/* Pieces and headers of any length, at any place, on paths with any MTU. */
FIXTURE(stable)
{
	struct _test_data_consumer with;
};

FIXTURE_VARIANT(stable)
{
	unsigned int flags;
	int mtu;
};

FIXTURE_VARIANT_ADD(stable, mtu_1500) { 0, 1500 };
FIXTURE_VARIANT_ADD(stable, mtu_4200) { 0, 4200 };
FIXTURE_VARIANT_ADD(stable, mtu_9000) { 0, 9000 };
FIXTURE_VARIANT_ADD(stable, mtu_65535) { 0, 65535 };
FIXTURE_VARIANT_ADD(stable, no_crc) { MPA_START_NO_CRC, 9000 };
FIXTURE_VARIANT_ADD(stable, markers) { MPA_START_MARKERS, 9000 };

FIXTURE_SETUP(stable)
{
	self->with.buf = malloc(BUF);
	self->with.told = malloc(sizeof(*self->with.told));
	ASSERT_EQ(0, own_netns());
	ASSERT_EQ(0, tcp_pair(AF_INET, self->with.fd));
	self->with.user = user_open();
	ASSERT_LE(0, self->with.user);
	patience(self->with.fd[0], 20);
	ASSERT_EQ(0, sysctl_put("crc_optional", 1));
	ASSERT_EQ(0, begin(&self->with, variant->flags, variant->mtu));
	ASSERT_EQ(!(variant->flags & MPA_START_NO_CRC),
		  !!(user_info(self->with.user).flags & MPA_INFO_TX_CRC));
}

FIXTURE_TEARDOWN(stable)
{
	close(self->with.user);
	hang_up(self->with.fd[0]);
	hang_up(self->with.fd[1]);
	free(self->with.buf);
	free(self->with.told);
}

TEST_F(stable, any_shape)
{
	struct _test_data_consumer *with = &self->with;
	static const u32 pieces[] = { 700, 2048, 2049, 4096, 5000, 65536, 300001 };
	static const u32 offsets[] = { 0, 1, 1030, 4095 };
	static const u32 headers[] = { 18, 12, 13, 64 };
	static const u32 lens[] = {
		2048, 4093, 4096, 8900, 8901, 8902, 8903, 60001, 64000, 300001,
	};
	unsigned int i, done = 0, in_place = 0;

	for (i = 0; i < 7 * 4 * 4 * 10 * 2; i++) {
		struct upcall_pages pages = {
			.piece = pieces[i % 7], .offset = offsets[i / 7 % 4],
			.header_len = headers[i / 28 % 4],
			.len = lens[i / 112 % 10], .cut = i / 1120,
			.gaps = i % 5 == 0,
		};

		if (!pages.cut && pages.len + pages.header_len > MPA_ULPDU_MAX)
			continue;
		/* A third of them, each with each other one. */
		if ((i * 2654435761U >> 16) % 3)
			continue;
		ASSERT_EQ(0, send_pages(with->user, &pages));
		in_place += !!pages.left;
		ASSERT_EQ(pages.len, pages.sent);
		ASSERT_TRUE(all_arrives(with, &pages)) {
			TH_LOG("%u octets: pieces of %u from octet %u on, header %u, cut %u",
			       pages.len, pages.piece, pages.offset,
			       pages.header_len, pages.cut);
		}
		ASSERT_TRUE(all_given_back(with->user));
		done++;
	}
	TH_LOG("%u of %u sent where they are", in_place, done);
	EXPECT_EQ(in_place > done / 8, !(variant->flags & MPA_START_MARKERS));
}

/* In any order with others that are copied, and in batches. */
TEST_F(stable, among_others)
{
	struct _test_data_consumer *with = &self->with;
	struct upcall_pages pages;
	unsigned int i;
	bool last;

	for (i = 1; i < 60; i++) {
		pages = (struct upcall_pages){
			.len = 1000 * i, .header_len = 18, .piece = 4096,
			.flags = i % 3 ? MORE : 0, .cut = i % 2,
		};
		ASSERT_EQ(0, send_pages(with->user, &pages));
		ASSERT_EQ(0, user_send(with->user, 100 * i, i, MEMORY_BVEC,
				       NULL));
		ASSERT_EQ(7, send(with->fd[1], octets, 7, 0));
		ASSERT_TRUE(all_arrives(with, &pages));
		ASSERT_TRUE(program_gets(with, 100 * i));
		ASSERT_EQ(7, next_ulpdu(with, 0, 0, &last));
		ASSERT_TRUE(all_given_back(with->user));
	}
}

/* A full send buffer: some, and then from there on; a single ULPDU whole or not at all. */
TEST_F(stable, until_the_buffer_is_full)
{
	struct _test_data_consumer *with = &self->with;
	struct upcall_pages pages;
	unsigned int i, full = 0;
	int small = 20000, err;

	ASSERT_EQ(0, setsockopt(with->fd[1], SOL_SOCKET, SO_SNDBUF, &small,
				sizeof(small)));
	for (i = 0; i < 40; i++) {
		pages = (struct upcall_pages){
			.len = i % 2 ? MOST : 60000, .header_len = 18,
			.piece = 4096, .cut = i % 2,
		};
		err = send_pages(with->user, &pages);
		if (err) {
			ASSERT_EQ(EAGAIN, err);
			ASSERT_EQ(0, pages.sent);
		}
		full += err || pages.sent < pages.len;
		ASSERT_TRUE(all_arrives(with, &pages));
		ASSERT_TRUE(all_given_back(with->user));
	}
	EXPECT_LT(0, full);
}

/* TCP has no memory: mpa keeps what it has accepted, and with it the pages. */
TEST_F(stable, tcp_has_no_memory)
{
	struct _test_data_consumer *with = &self->with;
	int hog[2], small = 4096, large = 1 << 22, err, writable, tcp_mem;
	struct upcall_pages pages = {
		.len = 8000, .header_len = 18, .piece = 4096,
	};
	char usual[64];
	unsigned int i;

	ASSERT_EQ(0, setsockopt(with->fd[0], SOL_SOCKET, SO_RCVBUF, &small,
				sizeof(small)));
	ASSERT_EQ(0, setsockopt(with->fd[1], SOL_SOCKET, SO_SNDBUFFORCE, &large,
				sizeof(large)));
	ASSERT_EQ(0, tcp_mem_hog(hog));
	tcp_mem = tcp_mem_open(usual, sizeof(usual));
	/* More than the peer has room for, so that something is queued. */
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, user_send(with->user, 9000, 0, MEMORY_KVEC, NULL));
	ASSERT_EQ(0, tcp_mem_put(tcp_mem, "1 1 1"));
	err = send_pages(with->user, &pages);
	writable = poll_for(with->fd[1], POLLOUT, 0);
	ASSERT_EQ(0, tcp_mem_put(tcp_mem, usual));
	ASSERT_EQ(0, err);
	EXPECT_EQ(0, writable);
	for (i = 0; i < 4; i++)
		ASSERT_TRUE(program_gets(with, 9000));
	ASSERT_TRUE(all_arrives(with, &pages));
	EXPECT_TRUE(all_given_back(with->user));
	hang_up(hog[0]);
	hang_up(hog[1]);
	close(tcp_mem);
}

/* The end comes while octets are under way: every page is given back. */
TEST_F(stable, end_of_the_connection)
{
	struct _test_data_consumer *with = &self->with;
	struct upcall_pages pages = {
		.len = 300001, .header_len = 18, .piece = 4096, .cut = 1,
	};

	ASSERT_EQ(0, send_pages(with->user, &pages));
	ASSERT_NE(0, pages.sent);
	hang_up(with->fd[0]);
	with->fd[0] = -1;
	ASSERT_EQ(0, user_call(with->user, UPCALLS_RELEASE, NULL));
	hang_up(with->fd[1]);
	with->fd[1] = -1;
	EXPECT_TRUE(all_given_back(with->user));
}

TEST_HARNESS_MAIN
