// SPDX-License-Identifier: GPL-2.0
/*
 * Memory accounting: octets that MPA holds are charged to the socket's buffers,
 * to the memory of all TCP sockets, and to the socket's memory control group.
 */

#include <linux/gfp.h>
#ifdef MPA_HAVE_PROTO_MEMORY_H
#include <net/proto_memory.h>
#endif
#include <net/tcp.h>

#include "mpa_tcp.h"

/* ---- sending ---- */

/* Whether the socket's control group has so much memory left. */
static bool mpa_tcp_group_has(int size)
{
	struct page *page, *next;
	LIST_HEAD(pages);
	bool has = true;

	for (; has && size > 0; size -= PAGE_SIZE) {
		page = alloc_page(GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN);
		has = page;
		if (page)
			list_add(&page->lru, &pages);
	}
	list_for_each_entry_safe(page, next, &pages, lru) {
		list_del(&page->lru);
		__free_page(page);
	}
	return has;
}

/**
 * mpa_tcp_schedule() - set memory aside for octets to be sent
 * @sk:		socket
 * @size:	octets, by truesize
 *
 * In the work item nobody waits who could be told that a control group is at its
 * limit, and TCP's way to ask sleeps and calls the OOM killer there; as softirq
 * asks, a group gets what it wants. So it is asked in another way first.
 *
 * Context: process, socket lock held.
 * Return: false without memory.
 */
bool mpa_tcp_schedule(struct sock *sk, int size)
{
	bool ok;

	if (!mpa_in_work_item(sk))
		return sk_wmem_schedule(sk, size);
	if (size > sk->sk_forward_alloc &&
	    !mpa_tcp_group_has(size - sk->sk_forward_alloc))
		return false;
	local_bh_disable();
	ok = sk_wmem_schedule(sk, size);
	local_bh_enable();
	return ok;
}

/**
 * mpa_tcp_force() - the same beyond the limit, as __sk_mem_schedule() has it for
 *		     full buffers
 * @sk:		socket
 * @size:	octets, by truesize
 *
 * Context: process, socket lock held.
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

/**
 * mpa_tcp_set_fin_aside() - have memory for a FIN
 * @sk:	socket
 *
 * For the work item: what tcp_send_fin() asks for itself sleeps where a control
 * group is at its limit.
 *
 * Context: process, socket lock held.
 */
void mpa_tcp_set_fin_aside(struct sock *sk)
{
	/* More than the truesize of a packet without payload. */
	mpa_tcp_force(sk, PAGE_SIZE);
}

static void mpa_tcp_count(struct sock *sk, struct mpa_txbuf *out, int more)
{
	sk_wmem_queued_add(sk, more);
	sk_mem_charge(sk, more);
	out->charged += more;
}

/**
 * mpa_tcp_charge() - have octets count for the socket as those do that TCP has
 * @sk:		socket
 * @out:	the octets
 * @octets:	as how many; not fewer than now
 *
 * For the send buffer, the memory of all TCP sockets and the socket's memory
 * control group.
 *
 * At TCP's limit, or the group's, a socket goes on that has nothing in its
 * queues: nobody else would give memory back for it. TCP does so, too.
 *
 * Context: process, socket lock held.
 * Return: 0; or -ENOBUFS without memory, and they count for what they did.
 */
int mpa_tcp_charge(struct sock *sk, struct mpa_txbuf *out, u32 octets)
{
	int more = octets - out->charged;

	if (more <= 0)
		return 0;
	if (!mpa_tcp_schedule(sk, more)) {
		if (sk->sk_wmem_queued != out->charged)
			return -ENOBUFS;
		mpa_tcp_force(sk, more);
		out->forced = true;
	}
	mpa_tcp_count(sk, out, more);
	return 0;
}

/**
 * mpa_tcp_uncharge() - octets do not count any more
 * @sk:		socket
 * @out:	the octets
 *
 * Context: process, socket lock held; or nobody else knows the socket.
 */
void mpa_tcp_uncharge(struct sock *sk, struct mpa_txbuf *out)
{
	if (!out->charged)
		return;
	sk_wmem_queued_add(sk, -(int)out->charged);
	sk_mem_uncharge(sk, out->charged);
	out->charged = 0;
	out->forced = false;
}

/**
 * mpa_tcp_pass_charge() - octets are given to TCP
 * @sk:		socket
 * @out:	the octets
 *
 * TCP counts them itself, and finds what they have counted for set aside. What
 * has been counted beyond a limit is not for it: there has to be some again.
 *
 * Context: process, socket lock held.
 */
void mpa_tcp_pass_charge(struct sock *sk, struct mpa_txbuf *out)
{
	if (out->forced) {
		mpa_tcp_uncharge(sk, out);
		return;
	}
	sk_wmem_queued_add(sk, -(int)out->charged);
	sk_forward_alloc_add(sk, out->charged);
	out->charged = 0;
}

/**
 * mpa_tcp_charge_rest() - undo mpa_tcp_pass_charge() for what TCP has not taken
 * @sk:		socket
 * @out:	the octets
 *
 * It has been accepted, so that it counts beyond any limit.
 *
 * Context: process, socket lock held.
 */
void mpa_tcp_charge_rest(struct sock *sk, struct mpa_txbuf *out)
{
	int more = out->len - out->sent - out->charged;

	if (more <= 0)
		return;
	mpa_tcp_force(sk, more);
	out->forced = true;
	mpa_tcp_count(sk, out, more);
	/* Give back what is reserved and not used. */
	sk_mem_reclaim(sk);
}

/**
 * mpa_tcp_short_of_memory() - close(2) would reset the connection for the memory
 *			       that TCP uses: tcp_check_oom()
 * @sk:	socket
 *
 * It lets a socket have a packet or two all the same, which is less than a
 * record.
 *
 * Context: process, socket lock held.
 */
bool mpa_tcp_short_of_memory(struct sock *sk)
{
	return sk->sk_wmem_queued > SOCK_MIN_SNDBUF &&
	       sk_memory_allocated(sk) > sk_prot_mem_limits(sk, 2);
}

/* ---- receiving ---- */

/**
 * mpa_tcp_set_aside() - have memory for octets that arrive
 * @sk:		socket
 * @size:	octets, by truesize
 *
 * As softirq does: a control group's limit is not waited for.
 *
 * Context: process, socket lock held.
 */
void mpa_tcp_set_aside(struct sock *sk, int size)
{
	int more = size - sk->sk_forward_alloc;

	if (more <= 0)
		return;
	local_bh_disable();
	__sk_mem_schedule(sk, more, SK_MEM_RECV);
	local_bh_enable();
}

/**
 * mpa_tcp_charge_pages() - put memory on the account of a socket
 * @sk:		socket
 * @size:	octets of it
 *
 * For octets that leave the receive queue, whose memory is given back in turn.
 * So it is done at TCP's limit as well, as TCP does for what an empty queue
 * waits for: sk_forward_alloc then goes below zero, and the next segment's
 * charge makes up for that.
 *
 * Context: process, socket lock held.
 */
void mpa_tcp_charge_pages(struct sock *sk, u32 size)
{
	mpa_tcp_set_aside(sk, size);
	sk_mem_charge(sk, size);
}

/**
 * mpa_tcp_uncharge_pages() - undo mpa_tcp_charge_pages()
 * @sk:		socket
 * @size:	octets
 *
 * Context: socket lock held.
 */
void mpa_tcp_uncharge_pages(struct sock *sk, u32 size)
{
	sk_mem_uncharge(sk, size);
}
