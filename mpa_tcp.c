// SPDX-License-Identifier: GPL-2.0
/* TCP glue: state and errors of a connection, abort, lock, waiting. */

#include <linux/tcp.h>
#include <net/tcp.h>

#include "mpa_tcp.h"

/* Whether octets can be exchanged: with TCP_FASTOPEN even during the handshake. */
bool mpa_tcp_connected(const struct sock *sk)
{
	return sk->sk_state == TCP_ESTABLISHED || tcp_passive_fastopen(sk);
}

/*
 * Whether the sequence numbers of both directions are known. The connection may
 * be closing or closed.
 */
bool mpa_tcp_synchronized(const struct sock *sk)
{
	return !((1 << sk->sk_state) &
		 (TCPF_SYN_SENT | TCPF_SYN_RECV | TCPF_LISTEN)) ||
	       tcp_passive_fastopen(sk);
}

bool mpa_tcp_listening(const struct sock *sk)
{
	return sk->sk_state == TCP_LISTEN;
}

/* Whether the socket is bound and not connected. Process context. */
bool mpa_tcp_may_listen(const struct sock *sk)
{
	return sk->sk_state == TCP_CLOSE && inet_sk(sk)->inet_num &&
	       sk->sk_socket->state == SS_UNCONNECTED;
}

/*
 * Whether MPA can be attached, maybe before the socket listens or connects.
 * Refuse a listening socket: a handshake could create a child, without the
 * listener's lock, before TCP has installed the ULP's operations.
 */
bool mpa_tcp_may_attach(const struct sock *sk)
{
	return mpa_tcp_connected(sk) || sk->sk_state == TCP_CLOSE;
}

/*
 * Whether a handshake may still be creating a child of this former listener, in
 * softirq and without the listener's lock. A former listener still has
 * SOCK_RCU_FREE; its children do not. Process context.
 */
bool mpa_tcp_has_listened(const struct sock *sk)
{
	return sk->sk_state != TCP_LISTEN && sock_flag(sk, SOCK_RCU_FREE);
}

/* Whether TCP_REPAIR is on, so that TCP does not send octets passed to it. */
bool mpa_tcp_repaired(const struct sock *sk)
{
	return tcp_sk(sk)->repair;
}

/* Whether a plain TCP call waits to send more. */
bool mpa_tcp_sending(const struct sock *sk)
{
	return READ_ONCE(sk->sk_write_pending);
}

/* Whether the peer has closed its half. Lockless. */
bool mpa_tcp_peer_ended(const struct sock *sk)
{
	return sock_flag(sk, SOCK_DONE);
}

/* Lockless. */
bool mpa_tcp_peer_left(const struct sock *sk)
{
	return mpa_tcp_peer_ended(sk) || mpa_tcp_gone(sk);
}

/* Set the pending error @err (positive). The caller wakes the user. */
void mpa_tcp_set_error(struct sock *sk, int err)
{
	WRITE_ONCE(sk->sk_err, err);
}

/*
 * Replace the pending error @old by @err (both positive), unless the user has
 * fetched it. Return the previous pending error.
 */
int mpa_tcp_replace_error(struct sock *sk, int old, int err)
{
	return cmpxchg(&sk->sk_err, old, err);
}

/* Make close(2) send a RST even if all data was read. Process context. */
void mpa_tcp_reset_on_close(struct sock *sk)
{
	WRITE_ONCE(sk->sk_lingertime, 0);
	sock_set_flag(sk, SOCK_LINGER);
}

#ifndef MPA_HAVE_ULP_HOOKS
/*
 * Call TCP's disconnect(), but keep both addresses, as after a reset by the
 * peer. Without the peer's port accept(2) would fail with ECONNABORTED, and
 * reports could not identify the connection.
 *
 * While disconnect() has cleared the peer's port, mpa_tcp_peer_port() returns
 * @kept_port. SOCK_BINDADDR_LOCK makes disconnect() keep the local address, by
 * which the socket is hashed.
 */
static int mpa_tcp_disconnect(struct sock *sk, int flags)
{
	bool bound = sk->sk_userlocks & SOCK_BINDADDR_LOCK;
	__be16 port = inet_sk(sk)->inet_dport;
	int err;

	WRITE_ONCE(mpa_tcp(sk)->kept_port, port);
	smp_wmb(); /* pairs with mpa_tcp_peer_port() */
	sk->sk_userlocks |= SOCK_BINDADDR_LOCK;
	err = mpa_tcp(sk)->base->disconnect(sk, flags);
	if (!bound)
		sk->sk_userlocks &= ~SOCK_BINDADDR_LOCK;
	WRITE_ONCE(inet_sk(sk)->inet_dport, port);
	return err;
}

/*
 * Reset the connection at once, but keep its addresses. tcp_abort() would take
 * the lock, and so might wait for a user's page fault. Process context.
 */
void mpa_tcp_abort(struct sock *sk, int err)
{
	int state = sk->sk_state, old;

	if (state == TCP_CLOSE)
		return;
	mpa_tcp_disconnect(sk, 0);
	WRITE_ONCE(sk->sk_shutdown, SHUTDOWN_MASK);
	/*
	 * disconnect() sets ECONNRESET if it sends a RST. If the user has
	 * already fetched this error, report no other.
	 */
	old = (1 << state) & (TCPF_CLOSING | TCPF_LAST_ACK) ? sk->sk_err :
							      ECONNRESET;
	if (cmpxchg(&sk->sk_err, old, err) == old)
		sk_error_report(sk);
}

/* Return the peer's port, even in mpa_tcp_disconnect(); or 0. Any context. */
__be16 mpa_tcp_peer_port(const struct mpa_tcp *tcp, const struct sock *sk)
{
	__be16 port = READ_ONCE(inet_sk(sk)->inet_dport);

	smp_rmb(); /* pairs with mpa_tcp_disconnect() */
	return port ?: READ_ONCE(tcp->kept_port);
}
#endif

#ifndef MPA_HAVE_ULP_HOOKS
/*
 * Take the socket lock for the work item, without waiting: a user may hold the
 * lock until a page fault is served. If a user holds it, return false and set
 * @deferred, so that release_cb queues the work item. Process context.
 */
bool mpa_tcp_try_lock(struct sock *sk, bool *deferred)
{
	struct mpa_tcp *tcp;
	bool owned;

	spin_lock_bh(&sk->sk_lock.slock);
	owned = sk->sk_lock.owned;
	if (owned)
		*deferred = true;
	else
		sk->sk_lock.owned = 1;
	spin_unlock_bh(&sk->sk_lock.slock);
	if (owned)
		return false;
	mutex_acquire(&sk->sk_lock.dep_map, 0, 1, _RET_IP_);
	tcp = mpa_tcp(sk);
	if (tcp)
		tcp->worker = true;
	return true;
}
#endif

/* Process context. */
void mpa_tcp_unlock(struct sock *sk)
{
	struct mpa_tcp *tcp = mpa_tcp(sk);

	if (tcp)
		tcp->worker = false;
	/* Reserve memory for the backlog, which release_sock() processes. */
	mpa_tcp_reserve_rx(sk, READ_ONCE(sk->sk_backlog.len));
	release_sock(sk);
}

/*
 * Wake writers because sending is possible again. sk_write_space() wakes them
 * only if much of the send buffer is free. Otherwise wake them here: they poll
 * again, and so TCP notices that they wait for room.
 */
void mpa_tcp_wake_writers(struct sock *sk)
{
	struct socket_wq *wq;

	if (sk_stream_is_writeable(sk)) {
		sk->sk_write_space(sk);
		return;
	}
	rcu_read_lock();
	wq = rcu_dereference(sk->sk_wq);
	if (skwq_has_sleeper(wq))
		wake_up_interruptible_poll(&wq->wait, EPOLLOUT | EPOLLWRNORM |
						      EPOLLWRBAND);
	rcu_read_unlock();
}

/*
 * Sleep until done() is true. done() must be safe without the socket lock, and
 * true if the connection has an error. @timeo: jiffies left; updated.
 *
 * Context: process. The socket lock is dropped meanwhile, so the connection may
 * have changed. Return: 0, -EAGAIN on a timeout, -EINTR or -ERESTARTSYS on a
 * signal.
 */
int mpa_tcp_wait(struct sock *sk, long *timeo,
		 bool (*done)(const struct mpa_ctx *ctx),
		 const struct mpa_ctx *ctx)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	int ret = 0;

	add_wait_queue(sk_sleep(sk), &wait);
	sk_set_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	while (!done(ctx)) {
		if (!*timeo) {
			ret = -EAGAIN;
			break;
		}
		if (signal_pending(current)) {
			ret = sock_intr_errno(*timeo);
			break;
		}
		/* Ignore the result: after mpa_tcp_abort() done() is true. */
		sk_wait_event(sk, timeo, done(ctx), &wait);
	}
	sk_clear_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	remove_wait_queue(sk_sleep(sk), &wait);
	return ret;
}
