// SPDX-License-Identifier: GPL-2.0
/*
 * Memory accounting: octets that MPA holds are charged to the socket's buffers,
 * to the memory of all TCP sockets, and to the socket's memory control group.
 * All functions need process context unless they say otherwise.
 */

#include <linux/gfp.h>
#ifdef MPA_HAVE_PROTO_MEMORY_H
#include <net/proto_memory.h>
#endif
#include <net/tcp.h>

#include "mpa_tcp.h"

#ifndef MPA_HAVE_ULP_HOOKS
/*
 * Reserve memory for octets that have been accepted, by truesize: beyond any
 * limit, as __sk_mem_schedule() does for full buffers. As in softirq, a control
 * group at its limit neither makes this sleep nor calls the OOM killer.
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
 * Whether a call may bring @octets more, which are reserved then. At TCP's
 * limit, or the control group's, a socket continues if it has nothing in TCP's
 * queues: nobody else would return memory for it. TCP does so, too. It also lets
 * a socket fill its send buffer beyond the limit, which would be a record here.
 */
bool mpa_tcp_reserve(struct sock *sk, const struct mpa_txbuf *out, u32 octets)
{
	if (sk->sk_wmem_queued != out->charged &&
	    sk_memory_allocated(sk) > sk_prot_mem_limits(sk, 2))
		return false;
	return sk_wmem_schedule(sk, octets) || sk->sk_wmem_queued == out->charged;
}

/* Return what mpa_tcp_reserve() has reserved and nothing was charged to. */
void mpa_tcp_unreserve(struct sock *sk)
{
	sk_mem_reclaim(sk);
}

/*
 * Charge @octets, not fewer than now, to the socket as TCP charges its own.
 * Return: 0; or -ENOBUFS without memory, and the charge is unchanged.
 */
int mpa_tcp_charge(struct sock *sk, struct mpa_txbuf *out, u32 octets)
{
	int more = octets - out->charged;

	if (more <= 0)
		return 0;
	if (!mpa_tcp_reserve(sk, out, more))
		return -ENOBUFS;
	mpa_tcp_force(sk, more);
	sk_wmem_queued_add(sk, more);
	sk_mem_charge(sk, more);
	out->charged += more;
	return 0;
}

/* Uncharge octets. The socket lock is held, or nobody else knows the socket. */
void mpa_tcp_uncharge(struct sock *sk, struct mpa_txbuf *out)
{
	if (!out->charged)
		return;
	sk_wmem_queued_add(sk, -(int)out->charged);
	sk_mem_uncharge(sk, out->charged);
	out->charged = 0;
}

/*
 * Pass octets to TCP, which charges them itself and finds their charge
 * reserved.
 */
void mpa_tcp_pass_charge(struct sock *sk, struct mpa_txbuf *out)
{
	sk_wmem_queued_add(sk, -(int)out->charged);
	sk_forward_alloc_add(sk, out->charged);
	out->charged = 0;
}

/*
 * Reserve memory for octets that arrive, by truesize, as softirq does: without
 * waiting for a control group's limit.
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
 * Charge memory to a socket, for octets that leave the receive queue, which
 * uncharges theirs. So it is done at TCP's limit as well, as TCP does for what
 * an empty queue waits for: sk_forward_alloc then drops below zero, and the
 * next segment's charge makes up for that.
 */
void mpa_tcp_charge_pages(struct sock *sk, u32 size)
{
	mpa_tcp_reserve_rx(sk, size);
	sk_mem_charge(sk, size);
}

/* Undo mpa_tcp_charge_pages(). Also in softirq. */
void mpa_tcp_uncharge_pages(struct sock *sk, u32 size)
{
	sk_mem_uncharge(sk, size);
}
