// SPDX-License-Identifier: GPL-2.0
/*
 * Whether mpa had better copy octets that do not change (MPA_SEND_STABLE): nanoseconds
 * that "octets" of them take from one kernel socket to another over loopback, in calls of
 * 64 KiB, are in the parameter "ns" once the module is loaded. The receiver is TCP alone,
 * and throws them away, so that only sending counts.
 */

#include <linux/bvec.h>
#include <linux/in.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/sizes.h>
#include <net/mpa.h>
#include <net/sock.h>

#define HEADER		18	/* DDP's and RDMAP's of a Send */
#define CALL		SZ_64K
#define PIECES		(CALL / PAGE_SIZE)

static bool stable;
module_param(stable, bool, 0444);
MODULE_PARM_DESC(stable, "leave octets where they are");

static bool crc = true;
module_param(crc, bool, 0444);
MODULE_PARM_DESC(crc, "with CRCs");

static unsigned int octets = SZ_16M;
module_param(octets, uint, 0444);
MODULE_PARM_DESC(octets, "octets to measure over, and to send before that");

static unsigned long long ns;
module_param(ns, ullong, 0444);
MODULE_PARM_DESC(ns, "nanoseconds that they have taken");

static struct bio_vec piece[PIECES];
static struct socket *from, *to;
static DECLARE_WAIT_QUEUE_HEAD(wait);
static bool writable;

/* ---- a connection ---- */

/* None comes. */
static int on_ulpdu(void *priv, const struct mpa_ulpdu *ulpdu)
{
	return -EPROTO;
}

static void on_writable(void *priv)
{
	WRITE_ONCE(writable, true);
	wake_up(&wait);
}

static const struct mpa_upcalls upcalls = {
	.ulpdu = on_ulpdu,
	.writable = on_writable,
};

static void write_header(const struct mpa_headers *headers, void *to, u32 off,
			 u32 len, bool last)
{
	memset(to, last, HEADER);
}

static const struct mpa_headers headers = {
	.len = HEADER,
	.write = write_header,
};

static int started(struct socket *sock)
{
	const struct mpa_start start = {
		.role = MPA_ROLE_DIRECT, .revision = 1,
		.flags = crc ? 0 : MPA_START_NO_CRC | MPA_START_TX_NO_CRC,
	};

	return mpa_sock_attach(sock, &upcalls, NULL, GFP_KERNEL) ?:
	       mpa_sock_start(sock, &start, true);
}

static int connected(void)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_port = htons(4999),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct socket *listener;
	int err;

	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, 0, &listener);
	if (err)
		return err;
	sock_set_reuseaddr(listener->sk);
	sock_set_rcvbuf(listener->sk, SZ_4M);
	err = kernel_bind(listener, (void *)&addr, sizeof(addr)) ?:
	      kernel_listen(listener, 1) ?:
	      sock_create_kern(&init_net, AF_INET, SOCK_STREAM, 0, &from) ?:
	      kernel_connect(from, (void *)&addr, sizeof(addr), 0) ?:
	      kernel_accept(listener, &to, 0);
	sock_release(listener);
	return err ?: started(from);
}

/* ---- octets ---- */

static int drain(void)
{
	struct kvec nowhere = { .iov_len = SZ_4M };
	struct msghdr msg = {};
	int n;

	do {
		n = kernel_recvmsg(to, &msg, &nowhere, 1, SZ_4M,
				   MSG_TRUNC | MSG_DONTWAIT);
	} while (n > 0);
	return n == -EAGAIN ? 0 : n ?: -EPIPE;
}

static int send_call(void)
{
	unsigned int flags = stable ? MPA_SEND_STABLE : 0;
	struct iov_iter iter;
	int sent, err;

	iov_iter_bvec(&iter, ITER_SOURCE, piece, PIECES, CALL);
	while (iov_iter_count(&iter)) {
		WRITE_ONCE(writable, false);
		sent = mpa_sock_send_cut(from, &headers, &iter, flags, NULL);
		if (sent > 0)
			continue;
		if (sent != -EAGAIN)
			return sent;
		err = drain();
		if (err)
			return err;
		if (!wait_event_timeout(wait, READ_ONCE(writable), 10 * HZ))
			return -ETIMEDOUT;
	}
	return 0;
}

static int transfer(void)
{
	unsigned int done;
	int err;

	for (done = 0; done < octets; done += CALL) {
		err = send_call() ?: drain();
		if (err)
			return err;
		cond_resched();
	}
	return 0;
}

static int measure(void)
{
	u64 start;
	int err;

	err = connected() ?: transfer();
	if (err)
		return err;
	start = ktime_get_ns();
	err = transfer();
	ns = ktime_get_ns() - start;
	return err;
}

/* ---- loading ---- */

static void put_pieces(void)
{
	unsigned int i;

	for (i = 0; i < PIECES; i++)
		if (piece[i].bv_page)
			put_page(piece[i].bv_page);
}

static int get_pieces(void)
{
	unsigned int i;

	for (i = 0; i < PIECES; i++) {
		piece[i].bv_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		piece[i].bv_len = PAGE_SIZE;
		if (!piece[i].bv_page)
			return -ENOMEM;
	}
	return 0;
}

static int __init mpa_bench_stable_init(void)
{
	int err;

	octets = round_up(octets, CALL);
	err = get_pieces() ?: measure();
	if (from)
		sock_release(from);
	if (to)
		sock_release(to);
	put_pieces();
	return err;
}
module_init(mpa_bench_stable_init);

static void __exit mpa_bench_stable_exit(void)
{
}
module_exit(mpa_bench_stable_exit);

MODULE_DESCRIPTION("Octets copied by mpa, and left where they are");
MODULE_LICENSE("GPL");
