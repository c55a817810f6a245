// SPDX-License-Identifier: GPL-2.0
/*
 * TCP glue: memory accounting. Octets that MPA holds are charged to the
 * socket's buffers, to the memory of all TCP sockets, and to the socket's
 * memory control group. Process context unless a comment says otherwise.
 */

#include <linux/gfp.h>
#ifdef MPA_HAVE_PROTO_MEMORY_H
#include <net/proto_memory.h>
#endif
#include <net/tcp.h>

#include "mpa_tcp.h"

#ifndef MPA_HAVE_ULP_HOOKS
/*
 * Reserve memory for accepted octets even beyond any limit, as
 * __sk_mem_schedule() does for full buffers. At a control group's limit do not
 * sleep or call the OOM killer, as in softirq. @size: truesize.
 */
void mpa_tcp_force(struct sock *sk, int size)
{
	int sndbuf;

	local_bh_disable();
	if (!sk_wmem_schedule(sk, size)) {
		sndbuf = sk->sk_sndbuf;
		WRITE_ONCE(sk->sk_sndbuf, 0);
		/* TCP may raise sk_sndbuf to SOCK_MIN_SNDBUF meanwhile. */
		sk_wmem_schedule(sk, size + SOCK_MIN_SNDBUF);
		WRITE_ONCE(sk->sk_sndbuf, sndbuf);
	}
	local_bh_enable();
}
#endif

/*
 * Reserve memory for @octets more of a call. Beyond the limit of TCP or of the
 * control group, succeed only if TCP's write queue is empty, as TCP does: no
 * ACK would free memory for this socket. TCP also exceeds the limit to fill a
 * send buffer, but here a whole record might exceed it.
 */
bool mpa_tcp_reserve(struct sock *sk, const struct mpa_txbuf *out, u32 octets)
{
	if (sk->sk_wmem_queued != out->charged &&
	    sk_memory_allocated(sk) > sk_prot_mem_limits(sk, 2))
		return false;
	return sk_wmem_schedule(sk, octets) || sk->sk_wmem_queued == out->charged;
}

/* Release memory that was reserved, but not charged. */
void mpa_tcp_unreserve(struct sock *sk)
{
	sk_mem_reclaim(sk);
}

/*
 * Charge @octets in all for the buffer, as TCP charges its own skbs. Return 0;
 * or -ENOBUFS, with the charge unchanged.
 */
int mpa_tcp_charge(struct sock *sk, struct mpa_txbuf *out, u32 octets)
{
	int more = octets - out->charged;

	if (more <= 0)
		return 0;
	if (!mpa_tcp_reserve(sk, out, more))
		return -ENOBUFS;
	if (sk->sk_forward_alloc < more)
		mpa_tcp_force(sk, more);
	sk_wmem_queued_add(sk, more);
	sk_mem_charge(sk, more);
	out->charged += more;
	return 0;
}

/* Socket lock held, or nothing else can reach the socket. */
void mpa_tcp_uncharge(struct sock *sk, struct mpa_txbuf *out)
{
	if (!out->charged)
		return;
	sk_wmem_queued_add(sk, -(int)out->charged);
	sk_mem_uncharge(sk, out->charged);
	out->charged = 0;
}

/* Turn the charge into a reservation: TCP will charge the octets itself. */
void mpa_tcp_pass_charge(struct sock *sk, struct mpa_txbuf *out)
{
	sk_wmem_queued_add(sk, -(int)out->charged);
	sk_forward_alloc_add(sk, out->charged);
	out->charged = 0;
}

/*
 * Reserve memory for arriving octets. As in softirq, do not wait at a control
 * group's limit. @size: truesize.
 */
void mpa_tcp_reserve_rx(struct sock *sk, int size)
{
	int more = size - sk->sk_forward_alloc;

	if (more <= 0)
		return;
	local_bh_disable();
	__sk_mem_schedule(sk, more, SK_MEM_RECV);
	local_bh_enable();
}

/*
 * Charge memory for octets that move out of the receive queue; the charge of
 * their skbs is undone afterwards. Exceed TCP's limit, as TCP does for a
 * segment if its queue is empty: sk_forward_alloc is below zero until the next
 * segment is charged.
 */
void mpa_tcp_charge_pages(struct sock *sk, u32 size)
{
	mpa_tcp_reserve_rx(sk, size);
	sk_mem_charge(sk, size);
}

/* Process context or softirq. */
void mpa_tcp_uncharge_pages(struct sock *sk, u32 size)
{
	sk_mem_uncharge(sk, size);
}
