// SPDX-License-Identifier: GPL-2.0
/* TCP's internals: a connection's state, errors, end and lock; waiting. */

#include <linux/tcp.h>
#include <net/tcp.h>

#include "mpa_tcp.h"

/* ---- state ---- */

/*
 * Octets can be read and written; with TCP_FASTOPEN even before the handshake
 * ends.
 */
bool mpa_tcp_connected(const struct sock *sk)
{
	return sk->sk_state == TCP_ESTABLISHED || tcp_passive_fastopen(sk);
}

/*
 * Sequence numbers of both directions are known. The connection may be closing
 * or closed.
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

/* Whether the socket is bound and has never been connected. Process context. */
bool mpa_tcp_may_listen(const struct sock *sk)
{
	return sk->sk_state == TCP_CLOSE && inet_sk(sk)->inet_num &&
	       sk->sk_socket->state == SS_UNCONNECTED;
}

/*
 * MPA can be started, now or once the socket listens or is connected. MPA
 * cannot be attached to a listening socket: handshakes create children without
 * its lock, while TCP installs the ULP's operations only after attaching it.
 */
bool mpa_tcp_may_attach(const struct sock *sk)
{
	return mpa_tcp_connected(sk) || sk->sk_state == TCP_CLOSE;
}

/*
 * Handshakes may still be creating children of a socket that no longer listens,
 * in softirq and without its lock. Every listener gets and keeps the flag; its
 * children do not have it. Process context.
 */
bool mpa_tcp_has_listened(const struct sock *sk)
{
	return sk->sk_state != TCP_LISTEN && sock_flag(sk, SOCK_RCU_FREE);
}

/* Whether TCP_REPAIR is on: octets passed to TCP are not sent. */
bool mpa_tcp_repaired(const struct sock *sk)
{
	return tcp_sk(sk)->repair;
}

/* Whether a plain TCP call waits to send more, counted by MPA or not. */
bool mpa_tcp_sending(const struct sock *sk)
{
	return READ_ONCE(sk->sk_write_pending);
}

/* Whether the peer has closed its half; a local shutdown(2) does not count. Hint. */
bool mpa_tcp_peer_ended(const struct sock *sk)
{
	return sock_flag(sk, SOCK_DONE);
}

/* Whether the peer has closed its half, or the connection is gone. Hint. */
bool mpa_tcp_peer_left(const struct sock *sk)
{
	return mpa_tcp_peer_ended(sk) || mpa_tcp_gone(sk);
}

/* ---- errors and the end ---- */

/* Set a pending (positive) error; the caller wakes the user. */
void mpa_tcp_set_error(struct sock *sk, int err)
{
	WRITE_ONCE(sk->sk_err, err);
}

/*
 * Replace the pending error @old (positive) by @err, unless the user has
 * fetched it. Return: the error before.
 */
int mpa_tcp_replace_error(struct sock *sk, int old, int err)
{
	return cmpxchg(&sk->sk_err, old, err);
}

/* Make close(2) send a RST, as with unread data. Process context. */
void mpa_tcp_reset_on_close(struct sock *sk)
{
	WRITE_ONCE(sk->sk_lingertime, 0);
	sock_set_flag(sk, SOCK_LINGER);
}

#ifndef MPA_HAVE_ULP_HOOKS
/*
 * TCP's disconnect(), but both addresses stay, as after a reset by the peer:
 * accept(2) may be about to read the peer's, and would fail with ECONNABORTED
 * without its port; and reports still identify the connection. disconnect()
 * clears the peer's port, which mpa_tcp_peer_port() returns meanwhile. It does
 * not clear a bound local address: the socket is hashed by it, so it must not
 * change even for a moment. Return: as disconnect().
 */
static int mpa_tcp_disconnect(struct sock *sk, int flags)
{
	bool bound = sk->sk_userlocks & SOCK_BINDADDR_LOCK;
	__be16 port = inet_sk(sk)->inet_dport;
	int err;

	WRITE_ONCE(mpa_tcp(sk)->kept_port, port);
	smp_wmb(); /* with mpa_tcp_peer_port() */
	sk->sk_userlocks |= SOCK_BINDADDR_LOCK;
	err = mpa_tcp(sk)->base->disconnect(sk, flags);
	if (!bound)
		sk->sk_userlocks &= ~SOCK_BINDADDR_LOCK;
	WRITE_ONCE(inet_sk(sk)->inet_dport, port);
	return err;
}

/*
 * Reset the connection at once. tcp_abort() would take the lock, and so might
 * wait for a user's page fault. Both addresses stay: see mpa_tcp_disconnect().
 * Process context.
 */
void mpa_tcp_abort(struct sock *sk, int err)
{
	int state = sk->sk_state, old;

	if (state == TCP_CLOSE)
		return;
	mpa_tcp_disconnect(sk, 0);
	WRITE_ONCE(sk->sk_shutdown, SHUTDOWN_MASK);
	/*
	 * disconnect() sets ECONNRESET if it sends a reset. An error that the
	 * user has fetched is not reported again.
	 */
	old = (1 << state) & (TCPF_CLOSING | TCPF_LAST_ACK) ? sk->sk_err :
							      ECONNRESET;
	if (cmpxchg(&sk->sk_err, old, err) == old)
		sk_error_report(sk);
}

/*
 * The peer's port, or 0; valid even during mpa_tcp_disconnect(). Any context.
 */
__be16 mpa_tcp_peer_port(const struct mpa_tcp *tcp, const struct sock *sk)
{
	__be16 port = READ_ONCE(inet_sk(sk)->inet_dport);

	smp_rmb(); /* with mpa_tcp_disconnect() */
	return port ?: READ_ONCE(tcp->kept_port);
}
#endif

/* ---- the lock, and waiting ---- */

#ifndef MPA_HAVE_ULP_HOOKS
/*
 * Take the socket lock for the work item, unless a user holds it, maybe until a
 * page fault is served. In that case set @deferred: release_cb queues the work
 * item. Process context. Return: whether the lock was taken; mpa_tcp_unlock()
 * releases it.
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

/* Release the lock that mpa_tcp_try_lock() has taken. Process context. */
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
 * Wake writers: sending is possible again. sk_write_space() wakes only if much
 * of the send buffer is free. A task that polled for another reason has to poll
 * again: only then does TCP know that it waits for room.
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

/**
 * mpa_tcp_wait() - sleep until a condition holds
 * @sk:		socket
 * @timeo:	jiffies left; updated
 * @done:	the condition; must read only what may be read without the lock,
 *		and must be true if the connection has an error
 * @ctx:	for @done
 *
 * Context: process, socket lock held; it is dropped meanwhile, so the
 * connection may have changed.
 * Return: 0, -EAGAIN on a timeout, -EINTR or -ERESTARTSYS on a signal.
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
		/* If mpa_tcp_abort() ends the wait, done() is true as well. */
		sk_wait_event(sk, timeo, done(ctx), &wait);
	}
	sk_clear_bit(SOCKWQ_ASYNC_WAITDATA, sk);
	remove_wait_queue(sk_sleep(sk), &wait);
	return ret;
}
