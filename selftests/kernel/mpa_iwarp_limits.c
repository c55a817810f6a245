// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's iWARP end (samples/mpa_ddp) and its users: no report is lost, memory is
 * limited, and users do not wait for each other.
 */

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mpa_test.h"
#include "mpa_harness.h"
#include "mpa_kmod.h"
#include "samples/mpa_ddp/mpa_ddp.h"
#include "samples/mpa_ddp/wire.h"

#define MEMORY		(4 << 20)
#define PAGE		4096
#define STRANGERS	280	/* more work items than a workqueue runs at once */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
#define USER		4711

FIXTURE(limits)
{
	int fd[2];
	int dev[2];
	struct peer peer;
	u8 *memory;
};

static int open_device(void)
{
	return open("/dev/mpa_ddp", O_RDWR | O_NONBLOCK);
}

static int start_end(int dev, int fd)
{
	struct mpa_start start = { .role = MPA_ROLE_DIRECT, .revision = 1 };

	return ioctl(dev, DDP_ATTACH, &fd) || ioctl(dev, DDP_START, &start);
}

FIXTURE_SETUP(limits)
{
	int i;

	ASSERT_EQ(0, own_netns());
	if (access("/dev/mpa_ddp", F_OK))
		ASSERT_EQ(0, kmod_do("insmod $MODULES/samples/mpa_ddp/mpa_ddp.ko"));
	ASSERT_EQ(0, tcp_pair(AF_INET, self->fd));
	self->peer = (struct peer) { .fd = self->fd[0] };
	for (i = 0; i < 2; i++) {
		self->dev[i] = open_device();
		ASSERT_LE(0, self->dev[i]);
	}
	self->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->memory);
}

FIXTURE_TEARDOWN(limits)
{
	int i;

	for (i = 0; i < 2; i++) {
		hang_up(self->fd[i]);
		close(self->dev[i]);
	}
}

#define self_t struct _test_data_limits

static u32 registered(int dev, const void *octets, u32 length, u32 access)
{
	struct ddp_region region = {
		.addr = (unsigned long)octets, .length = length, .access = access,
	};

	return ioctl(dev, DDP_REGISTER, &region) ? 0 : region.stag;
}

/* Read the next report of this kind, within @ms milliseconds. */
static bool told(int dev, u32 what, struct ddp_done *done, int ms)
{
	while (poll_for(dev, POLLIN, ms) == POLLIN &&
	       read(dev, done, sizeof(*done)) == sizeof(*done))
		if (done->what == what)
			return true;
	return false;
}

/* ---- reports ---- */

TEST_F(limits, an_event_stays_after_a_bad_address)
{
	void *bad = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ddp_done done;

	ASSERT_EQ(0, start_end(self->dev[1], self->fd[1]));
	ASSERT_EQ(POLLIN, poll_for(self->dev[1], POLLIN, 5000));
	ASSERT_EQ(-1, read(self->dev[1], bad, sizeof(done)));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(POLLIN, poll_for(self->dev[1], POLLIN, 0));
	ASSERT_EQ(sizeof(done), read(self->dev[1], &done, sizeof(done)));
	EXPECT_EQ(DDP_STARTED, done.what);
}

TEST_F(limits, events_before_a_bad_address)
{
	struct ddp_post post = { .opcode = RDMAP_SEND };
	struct ddp_done *done;

	/* There is space for one report. */
	done = (void *)(self->memory + PAGE - sizeof(*done));
	ASSERT_EQ(0, munmap(self->memory + PAGE, PAGE));
	ASSERT_EQ(0, start_end(self->dev[1], self->fd[1]));
	ASSERT_TRUE(told(self->dev[1], DDP_STARTED, done, 5000));
	for (post.id = 0; post.id < 3; post.id++)
		ASSERT_EQ(0, ioctl(self->dev[1], DDP_POST, &post));
	/* Three FPDUs have arrived: all posts were sent. */
	ASSERT_EQ(72, read_all(self->fd[0], self->memory, 72));
	ASSERT_EQ(POLLIN, poll_for(self->dev[1], POLLIN, 5000));
	EXPECT_EQ(sizeof(*done), read(self->dev[1], done, 3 * sizeof(*done)));
	EXPECT_EQ(0, done->id);
	for (post.id = 1; post.id < 3; post.id++) {
		ASSERT_TRUE(told(self->dev[1], DDP_POSTED, done, 5000));
		EXPECT_EQ(post.id, done->id);
	}
}

/* Many unread reports cause only one wakeup. */
TEST_F(limits, who_waits_is_woken_once_for_many)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct ddp_post buffer = { .opcode = DDP_RECEIVE };
	struct ddp_post send = { .opcode = RDMAP_SEND };
	struct ddp_done done;
	int epoll, i;

	ASSERT_EQ(0, start_end(self->dev[1], self->fd[1]));
	ASSERT_TRUE(told(self->dev[1], DDP_STARTED, &done, 5000));
	epoll = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->dev[1], &event));
	/* The first post is reported, but the report is not read. */
	ASSERT_EQ(0, ioctl(self->dev[1], DDP_POST, &send));
	ASSERT_EQ(24, read_all(self->fd[0], self->memory, 24));
	ASSERT_EQ(1, epoll_wait(epoll, &event, 1, 5000));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, ioctl(self->dev[1], DDP_POST, &buffer));
	/* This cancels all posts. */
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	ASSERT_EQ(0, recv(self->fd[0], self->memory, PAGE, 0));
	EXPECT_EQ(0, epoll_wait(epoll, &event, 1, 200));
	EXPECT_TRUE(told(self->dev[1], DDP_ENDED, &done, 5000));
	close(epoll);
}

/* ---- what an end holds ---- */

TEST_F(limits, regions_have_a_limit)
{
	u32 stag = 0, i;

	for (i = 0; i < DDP_REGIONS_MAX; i++) {
		stag = registered(self->dev[0], self->memory, 1, 0);
		ASSERT_NE(0, stag);
	}
	EXPECT_EQ(0, registered(self->dev[0], self->memory, 1, 0));
	EXPECT_EQ(ENOSPC, errno);
	/* Each end has its own regions. */
	EXPECT_NE(0, registered(self->dev[1], self->memory, 1, 0));
	ASSERT_EQ(0, ioctl(self->dev[0], DDP_DEREGISTER, &stag));
	EXPECT_NE(0, registered(self->dev[0], self->memory, 1, 0));
}

/*
 * In a child: open an end as an ordinary user who may lock @locked octets. Return: the
 * end, or -1.
 */
static int users_end(rlim_t locked)
{
	const struct rlimit limit = { .rlim_cur = locked, .rlim_max = locked };

	if (chmod("/dev/mpa_ddp", 0666) || setrlimit(RLIMIT_MEMLOCK, &limit) ||
	    setuid(USER))
		return -1;
	return open_device();
}

/*
 * Run a process that registers @length octets and exits. Its child keeps the end open
 * until the other end of a pipe closes. Return: 0, or the errno of registering.
 */
static int generation(self_t *self, u32 length, const int pipe[2])
{
	int dev, status;
	pid_t pid;
	u8 octet;

	/* Prevent huge pages. */
	madvise(self->memory, MEMORY, MADV_NOHUGEPAGE);
	pid = fork();
	if (!pid) {
		dev = users_end(16 * PAGE);
		if (dev < 0)
			_exit(255);
		if (!registered(dev, self->memory, length, 0))
			_exit(errno);
		if (!fork()) {
			close(pipe[1]);
			_exit(read(pipe[0], &octet, 1));
		}
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ?
	       WEXITSTATUS(status) : -1;
}

TEST_F(limits, regions_count_for_the_user)
{
	int child[2], tries = 0;

	ASSERT_EQ(0, pipe(child));
	ASSERT_EQ(0, generation(self, 10 * PAGE, child));
	/* It is too much, together with the octets of the process that has exited. */
	EXPECT_EQ(ENOMEM, generation(self, 10 * PAGE, child));
	/* Octets are charged until the last user closes the end. */
	close(child[1]);
	ASSERT_EQ(0, pipe(child));
	while (generation(self, 10 * PAGE, child))
		ASSERT_GT(1000, tries++);
	close(child[1]);
}

/* Run a process that registers memory, and exits with unsent data in a lingering socket. */
static int lingering_generation(self_t *self, u32 length)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 1000 };
	int dev, status;
	pid_t pid;

	madvise(self->memory, MEMORY, MADV_NOHUGEPAGE);
	pid = fork();
	if (!pid) {
		dev = users_end(16 * PAGE);
		if (dev < 0 || !registered(dev, self->memory, length, 0) ||
		    start_end(dev, self->fd[1]))
			_exit(errno);
		while (send(self->fd[1], record_row, 10000, MSG_DONTWAIT) > 0)
			;
		setsockopt(self->fd[1], SOL_SOCKET, SO_LINGER, &linger,
			   sizeof(linger));
		raise(SIGSTOP);
	}
	if (waitpid(pid, &status, WUNTRACED) != pid)
		return -1;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	/* The last close lingers: leave it to the end's work item, ddp_leave(). */
	close(self->fd[1]);
	self->fd[1] = -1;
	return kill(pid, SIGKILL) || waitpid(pid, &status, 0) != pid ? -1 : 0;
}

TEST_F(limits, regions_do_not_linger_with_the_socket)
{
	int child[2], tries = 0, rc;

	close(self->dev[0]);
	close(self->dev[1]);
	/* Memory of earlier processes is freed soon. */
	while ((rc = lingering_generation(self, 10 * PAGE)) == ENOMEM &&
	       tries++ < 50)
		usleep(100000);
	ASSERT_EQ(0, rc);
	ASSERT_EQ(0, pipe(child));
	tries = 0;
	while ((rc = generation(self, 10 * PAGE, child)) == ENOMEM && tries++ < 50)
		usleep(100000);
	EXPECT_EQ(0, rc);
	close(child[1]);
	/* A RST ends the lingering. */
	hang_up(self->fd[0]);
	self->fd[0] = -1;
}

/* Return: the size of a huge page, 1 MiB on s390x, 4 MiB on i386; 0 without huge pages. */
static size_t huge_page(void)
{
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "r");
	size_t size = 0;

	if (file && fscanf(file, "%zu", &size) != 1)
		size = 0;
	if (file)
		fclose(file);
	return size;
}

/* Register an octet of a huge page. Return: 0 or errno; -1 without a huge page. */
static int huge_octet(size_t size, rlim_t locked)
{
	int status, dev;
	pid_t pid;
	u8 *huge;

	pid = fork();
	if (!pid) {
		huge = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		huge += -(unsigned long)huge % size;
		*huge = 1;
		if (madvise(huge, size, MADV_COLLAPSE))
			_exit(255);
		dev = users_end(locked);
		_exit(registered(dev, huge, 1, 0) ? 0 : errno);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ?
	       (signed char)WEXITSTATUS(status) : -2;
}

/* A huge page is pinned as a whole, even if the program unmaps most of it. */
TEST_F(limits, a_huge_page_counts_as_a_whole)
{
	const size_t size = huge_page();
	int rc = size ? huge_octet(size, size / 2) : -1;

	if (rc == -1)
		SKIP(return, "needs huge pages");
	EXPECT_EQ(ENOMEM, rc);
	EXPECT_EQ(0, huge_octet(size, size * 2));
}

/* ---- other users ---- */

struct holder {
	int fd;
	int dev;
	u8 *page;
};

/* In a thread, copy from a page that is not available, with the socket locked. */
static void *hold_socket(void *arg)
{
	const struct holder *holder = arg;

	send(holder->fd, holder->page, PAGE, MSG_NOSIGNAL);
	return NULL;
}

/* Make page faults in this memory wait. Return: a userfaultfd, or -1. */
static int absent(u8 *memory, size_t len)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range.start = (unsigned long)memory, .range.len = len,
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd;

	fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	return fd < 0 || ioctl(fd, UFFDIO_API, &api) ||
	       ioctl(fd, UFFDIO_REGISTER, &range) ? -1 : fd;
}

/* Open an end that has something to send, while the program locks its socket. */
static bool held(struct holder *holder, int faults)
{
	struct ddp_post post = { .opcode = RDMAP_SEND };
	struct ddp_done done;
	pthread_attr_t small;
	struct uffd_msg msg;
	pthread_t thread;
	int fd[2];

	holder->dev = open_device();
	if (holder->dev < 0 || tcp_pair(AF_INET, fd) ||
	    start_end(holder->dev, fd[0]) ||
	    !told(holder->dev, DDP_STARTED, &done, 5000))
		return false;
	holder->fd = fd[0];
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	return !pthread_create(&thread, &small, hold_socket, holder) &&
	       read(faults, &msg, sizeof(msg)) == sizeof(msg) &&
	       !ioctl(holder->dev, DDP_POST, &post);
}

TEST_F(limits, locked_sockets_of_others)
{
	struct ddp_post buffer = { .opcode = DDP_RECEIVE };
	struct ddp_post post = { .opcode = RDMAP_SEND };
	static struct holder holders[STRANGERS];
	struct ddp_done done;
	int faults, i;

	if (access("/proc/sys/vm/unprivileged_userfaultfd", F_OK))
		SKIP(return, "needs userfaultfd");
	faults = absent(self->memory, STRANGERS * PAGE);
	ASSERT_LE(0, faults);
	for (i = 0; i < STRANGERS; i++) {
		holders[i].page = self->memory + i * PAGE;
		ASSERT_TRUE(held(&holders[i], faults)) {
			TH_LOG("holder %d", i);
		}
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, start_end(self->dev[i], self->fd[i]));
	ASSERT_EQ(0, ioctl(self->dev[1], DDP_POST, &buffer));
	ASSERT_EQ(0, ioctl(self->dev[0], DDP_POST, &post));
	EXPECT_TRUE(told(self->dev[1], DDP_RECEIVED, &done, 5000));
	/* Let the waiting faults continue. */
	close(faults);
}

static void *close_end(void *arg)
{
	const struct holder *holder = arg;

	close(holder->dev);
	return NULL;
}

static int unload(void)
{
	return kmod_do("rmmod mpa_ddp 2>/dev/null");
}

/* An end's last user may be another task, or the kernel's own thread. */
TEST_F(limits, closing_does_not_wait_for_the_socket)
{
	int faults, tries = 0;
	struct timespec until;
	struct holder holder;
	pthread_t closer;

	if (access("/proc/sys/vm/unprivileged_userfaultfd", F_OK))
		SKIP(return, "needs userfaultfd");
	faults = absent(self->memory, PAGE);
	ASSERT_LE(0, faults);
	holder.page = self->memory;
	ASSERT_TRUE(held(&holder, faults));
	close(self->dev[0]);
	close(self->dev[1]);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 5;
	ASSERT_EQ(0, pthread_create(&closer, NULL, close_end, &holder));
	EXPECT_EQ(0, pthread_timedjoin_np(closer, NULL, &until));
	/* The module's code is still in use. */
	EXPECT_NE(0, unload());
	close(faults);
	while (unload())
		ASSERT_GT(1000, tries++);
}

/* ---- the peer's Reads ---- */

/* Request @length octets at the start of a region, as the peer. */
static bool asks(self_t *self, u32 msn, u32 stag, u32 length)
{
	struct ddp_untagged header = {
		.control = ddp_control_of(DDP_LAST, RDMAP_READ_REQUEST),
		.queue = htonl(RDMAP_QUEUE_READ), .msn = htonl(msn),
	};
	struct rdmap_read_request request = {
		.size = htonl(length), .source_stag = htonl(stag),
	};
	u8 ulpdu[sizeof(header) + sizeof(request)];

	memcpy(ulpdu, &header, sizeof(header));
	memcpy(ulpdu + sizeof(header), &request, sizeof(request));
	return !peer_send(&self->peer, ulpdu, sizeof(ulpdu));
}

/* Return: the opcode of the end's next message; skip segments of the present message. */
static int next_message(self_t *self)
{
	static u8 fpdu[MPA_ULPDU_MAX + 8];
	u32 len;

	do {
		if (read_all(self->fd[0], fpdu, 2) != 2)
			return -1;
		len = (fpdu[0] << 8 | fpdu[1]) + 2;
		/* Skip the pad and the CRC. */
		len = (len + 3) / 4 * 4 + 4;
		if (read_all(self->fd[0], fpdu + 2, len - 2) != len - 2)
			return -1;
	} while (!(fpdu[2] & DDP_LAST));
	return fpdu[3] & RDMAP_OPCODE_MASK;
}

/* Read all octets that the end sends, up to the end of stream. */
static void drain(self_t *self)
{
	while (recv(self->fd[0], self->memory, PAGE, 0) > 0)
		;
}

/* The peer always has Reads outstanding. */
TEST_F(limits, sends_among_the_peers_reads)
{
	struct ddp_post send = { .opcode = RDMAP_SEND };
	u32 stag, msn;

	ASSERT_EQ(0, start_end(self->dev[1], self->fd[1]));
	stag = registered(self->dev[1], self->memory, MEMORY, DDP_REMOTE_READ);
	ASSERT_NE(0, stag);
	for (msn = 1; msn <= DDP_READS_MAX; msn++)
		ASSERT_TRUE(asks(self, msn, stag, MEMORY));
	/* The first response has begun, and has more octets than TCP takes. */
	ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 5000));
	ASSERT_EQ(0, ioctl(self->dev[1], DDP_POST, &send));
	EXPECT_EQ(RDMAP_READ_RESPONSE, next_message(self));
	EXPECT_EQ(RDMAP_SEND, next_message(self));
	EXPECT_EQ(RDMAP_READ_RESPONSE, next_message(self));
}

TEST_F(limits, a_read_that_is_being_answered_is_under_way)
{
	struct ddp_done done;
	u32 stag, msn;

	ASSERT_EQ(0, start_end(self->dev[1], self->fd[1]));
	stag = registered(self->dev[1], self->memory, MEMORY, DDP_REMOTE_READ);
	ASSERT_NE(0, stag);
	ASSERT_TRUE(asks(self, 1, stag, MEMORY));
	/* The response has begun, and has more octets than TCP takes. */
	ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 5000));
	for (msn = 2; msn <= DDP_READS_MAX; msn++)
		ASSERT_TRUE(asks(self, msn, stag, MEMORY));
	ASSERT_FALSE(told(self->dev[1], DDP_TERMINATE_SENT, &done, 200)) {
		TH_LOG("Terminate %x", done.error);
	}
	ASSERT_TRUE(asks(self, msn, stag, MEMORY));
	drain(self);
	ASSERT_TRUE(told(self->dev[1], DDP_TERMINATE_SENT, &done, 5000));
	EXPECT_EQ(DDP_ERR_NO_BUFFER, done.error);
}

/* There are DDP_READS_MAX outstanding Reads. A new request follows each response. */
TEST_F(limits, reads_one_after_the_other)
{
	u32 stag, msn, i;

	ASSERT_EQ(0, start_end(self->dev[1], self->fd[1]));
	stag = registered(self->dev[1], self->memory, PAGE, DDP_REMOTE_READ);
	for (msn = 1; msn <= DDP_READS_MAX; msn++)
		ASSERT_TRUE(asks(self, msn, stag, PAGE));
	for (i = 0; i < 5000; i++) {
		ASSERT_EQ(RDMAP_READ_RESPONSE, next_message(self)) {
			TH_LOG("answer %u", i);
		}
		ASSERT_TRUE(asks(self, msn++, stag, PAGE));
	}
}

TEST_F(limits, a_response_that_breaks_off)
{
	struct ddp_info info;
	struct ddp_done done;
	u32 stag;

	ASSERT_EQ(0, start_end(self->dev[1], self->fd[1]));
	stag = registered(self->dev[1], self->memory, MEMORY, DDP_REMOTE_READ);
	ASSERT_TRUE(asks(self, 1, stag, MEMORY));
	ASSERT_EQ(POLLIN, poll_for(self->fd[0], POLLIN, 5000));
	ASSERT_EQ(0, ioctl(self->dev[1], DDP_DEREGISTER, &stag));
	/* Make space for more of the response, whose memory is gone. */
	drain(self);
	ASSERT_TRUE(told(self->dev[1], DDP_TERMINATE_SENT, &done, 5000));
	EXPECT_EQ(RDMAP_ERR_LOCAL, done.error);
	ASSERT_EQ(0, ioctl(self->dev[1], DDP_INFO, &info));
	EXPECT_EQ(0, info.reads);
}

/* ---- a Terminate that cannot be sent ---- */

/* Whether the peer takes no more octets: some are queued, and none in flight. */
static bool is_full(int fd)
{
	int queued = 0, unsent = 0;

	return !ioctl(fd, SIOCOUTQ, &queued) &&
	       !ioctl(fd, SIOCOUTQNSD, &unsent) &&
	       queued == unsent && unsent > 100000;
}

/* The peer requests more than TCP takes, reads nothing, and makes a mistake. */
static bool window_is_closed(self_t *self)
{
	struct ddp_post buffer = { .opcode = DDP_RECEIVE };
	struct ddp_post send = { .opcode = RDMAP_SEND };
	u32 stag, i, tries = 0;
	int one = 1;

	if (start_end(self->dev[1], self->fd[1]))
		return false;
	stag = registered(self->dev[1], self->memory, MEMORY, DDP_REMOTE_READ);
	for (i = 1; i <= 4; i++)
		if (!asks(self, i, stag, MEMORY))
			return false;
	while (!is_full(self->fd[1]))
		if (tries++ > 5000 || usleep(1000))
			return false;
	/* TCP's send buffer is more than full, so that not even a Terminate fits. */
	if (setsockopt(self->fd[1], SOL_SOCKET, SO_SNDBUF, &one, sizeof(one)))
		return false;
	return !ioctl(self->dev[1], DDP_POST, &buffer) &&
	       !ioctl(self->dev[1], DDP_POST, &send) && asks(self, 1, stag, 1);
}

TEST_F(limits, a_terminate_that_does_not_go)
{
	struct ddp_done done = {};
	u32 posts = 0;

	ASSERT_TRUE(window_is_closed(self));
	/* Posts complete without waiting for the peer. */
	while (posts < 2 && poll_for(self->dev[1], POLLIN, 2000) == POLLIN) {
		ASSERT_EQ(sizeof(done), read(self->dev[1], &done, sizeof(done)));
		EXPECT_NE(DDP_TERMINATE_SENT, done.what);
		EXPECT_NE(DDP_ENDED, done.what);
		posts += done.status == -ECANCELED;
	}
	EXPECT_EQ(2, posts);
	/* Leave the peer time to read. */
	ASSERT_EQ(POLLIN, poll_for(self->dev[1], POLLIN, 20000));
	ASSERT_EQ(sizeof(done), read(self->dev[1], &done, sizeof(done)));
	EXPECT_EQ(DDP_ENDED, done.what);
	EXPECT_EQ(-EPROTO, done.status);
}

TEST_F(limits, a_terminate_that_goes_late)
{
	struct ddp_done done;

	ASSERT_TRUE(window_is_closed(self));
	ASSERT_TRUE(told(self->dev[1], DDP_RECEIVED, &done, 5000));
	drain(self);
	EXPECT_TRUE(told(self->dev[1], DDP_TERMINATE_SENT, &done, 5000));
	EXPECT_EQ(DDP_ERR_MSN, done.error);
	EXPECT_TRUE(told(self->dev[1], DDP_ENDED, &done, 5000));
}

TEST_HARNESS_MAIN
