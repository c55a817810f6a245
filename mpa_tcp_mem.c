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

/* Whether the socket's control group has this memory left. */
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

/*
 * Reserve memory for octets to be sent, by truesize. In the work item there is
 * no caller to notify that a control group is at its limit. TCP's way to ask
 * sleeps there and calls the OOM killer; asked as softirq asks, a group grants
 * everything. So first ask by allocating. Return: false without memory.
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

/* Go beyond the limit, as __sk_mem_schedule() does for full buffers. */
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

/*
 * Reserve memory for a FIN. For the work item: what tcp_send_fin() allocates
 * itself sleeps if a control group is at its limit.
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

/*
 * Charge @octets, not fewer than now, to the socket as TCP charges its own. At
 * TCP's limit, or the group's, a socket continues if it has nothing in its
 * queues: nobody else would return memory for it. TCP does so, too. Return: 0;
 * or -ENOBUFS without memory, and the charge is unchanged.
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

/* Uncharge octets. The socket lock is held, or nobody else knows the socket. */
void mpa_tcp_uncharge(struct sock *sk, struct mpa_txbuf *out)
{
	if (!out->charged)
		return;
	sk_wmem_queued_add(sk, -(int)out->charged);
	sk_mem_uncharge(sk, out->charged);
	out->charged = 0;
	out->forced = false;
}

/*
 * Pass octets to TCP, which charges them itself and finds their charge
 * reserved. What was charged beyond a limit is not: that memory has to become
 * available.
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

/* Charge again what TCP has not taken: accepted, so beyond any limit. */
void mpa_tcp_charge_rest(struct sock *sk, struct mpa_txbuf *out)
{
	int more = out->len - out->sent - out->charged;

	if (more <= 0)
		return;
	mpa_tcp_force(sk, more);
	out->forced = true;
	mpa_tcp_count(sk, out, more);
	/* Return what is reserved and not used. */
	sk_mem_reclaim(sk);
}

/*
 * close(2) would reset the connection for the memory that TCP uses:
 * tcp_check_oom(). It lets a socket have a packet or two, which is less than a
 * record.
 */
bool mpa_tcp_short_of_memory(struct sock *sk)
{
	return sk->sk_wmem_queued > SOCK_MIN_SNDBUF &&
	       sk_memory_allocated(sk) > sk_prot_mem_limits(sk, 2);
}

/*
 * Reserve memory for octets that arrive, by truesize, as softirq does: without
 * waiting for a control group's limit.
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

/*
 * Charge memory to a socket, for octets that leave the receive queue, which
 * uncharges theirs. So it is done at TCP's limit as well, as TCP does for what
 * an empty queue waits for: sk_forward_alloc then drops below zero, and the
 * next segment's charge makes up for that.
 */
void mpa_tcp_charge_pages(struct sock *sk, u32 size)
{
	mpa_tcp_set_aside(sk, size);
	sk_mem_charge(sk, size);
}

/* Undo mpa_tcp_charge_pages(). Also in softirq. */
void mpa_tcp_uncharge_pages(struct sock *sk, u32 size)
{
	sk_mem_uncharge(sk, size);
}
