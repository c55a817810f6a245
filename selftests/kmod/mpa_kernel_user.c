// SPDX-License-Identifier: GPL-2.0
/*
 * Actions of a kernel user on sockets of the process that loads this module. They are done
 * during loading, and the module does not stay: loading fails with ECANCELED if all went well.
 *
 *   how=accept fd=N		kernel_accept() on a listening socket, and close the result
 *   how=callbacks fd=N		check that a socket has TCP's callbacks
 *   how=save fd=N other=M	give a socket TCP's callbacks, and keep its previous callbacks
 *				in another, unused socket
 *   how=take fd=N		give a socket a callback that no other code uses
 *   how=restore fd=N other=M	restore what how=save has kept
 *   how=hold fd=N count=C ms=M	hold the locks of C sockets for M ms, as a system call does
 *				that waits in a page fault
 *   how=own fd=N		check that a socket has page fragments to send, and that TCP
 *				does not take any of them for shared
 */

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <net/tcp.h>

static char *how = "";
module_param(how, charp, 0);
MODULE_PARM_DESC(how, "what to do: accept, callbacks, save, take, restore, hold, own");
static int fd;
module_param(fd, int, 0);
MODULE_PARM_DESC(fd, "file descriptor of the first socket");
static int other;
module_param(other, int, 0);
MODULE_PARM_DESC(other, "file descriptor of the socket that keeps callbacks");
static int count = 1;
module_param(count, int, 0);
MODULE_PARM_DESC(count, "sockets, at file descriptors in a row");
static int ms;
module_param(ms, int, 0);
MODULE_PARM_DESC(ms, "milliseconds");

static int __init accept_one(struct socket *listener)
{
	struct socket *child;
	int err;

	err = kernel_accept(listener, &child, 0);
	if (err)
		return err;
	err = child->ops == listener->ops && child->sk ? 0 : -EBADFD;
	sock_release(child);
	return err;
}

/* Compare the callbacks with those of a new socket. */
static int __init see_callbacks(const struct sock *sk)
{
	struct socket *fresh;
	int err;

	err = sock_create_kern(&init_net, sk->sk_family, SOCK_STREAM,
			       IPPROTO_TCP, &fresh);
	if (err)
		return err;
	if (sk->sk_data_ready != fresh->sk->sk_data_ready ||
	    sk->sk_write_space != fresh->sk->sk_write_space)
		err = -EBADFD;
	sock_release(fresh);
	return err;
}

static void __init copy_callbacks(struct sock *to, const struct sock *from)
{
	lock_sock(to);
	write_lock_bh(&to->sk_callback_lock);
	to->sk_data_ready = from->sk_data_ready;
	to->sk_write_space = from->sk_write_space;
	to->sk_state_change = from->sk_state_change;
	write_unlock_bh(&to->sk_callback_lock);
	release_sock(to);
}

/* Move the callbacks of @from to @to, and give @from those of a new socket. */
static int __init move_callbacks(struct sock *from, struct sock *to)
{
	struct socket *fresh;
	int err;

	err = sock_create_kern(&init_net, from->sk_family, SOCK_STREAM,
			       IPPROTO_TCP, &fresh);
	if (err)
		return err;
	copy_callbacks(to, from);
	copy_callbacks(from, fresh->sk);
	sock_release(fresh);
	return 0;
}

static int __init save_callbacks(struct sock *sk, bool restore)
{
	struct socket *keeper;
	int err = 0;

	keeper = sockfd_lookup(other, &err);
	if (!keeper)
		return err;
	err = restore ? move_callbacks(keeper->sk, sk) :
			move_callbacks(sk, keeper->sk);
	sockfd_put(keeper);
	return err;
}

/*
 * Set a callback that is a function of the kernel itself, as this module does not stay.
 */
static int __init take_callbacks(struct sock *sk)
{
	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_data_ready = sk_error_report;
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
	return 0;
}

/*
 * Lock a socket without lockdep, which does not support a task that holds hundreds of
 * locks.
 */
static void __init hold_begin(struct sock *sk)
{
	lock_sock(sk);
	release_sock(sk);
	spin_lock_bh(&sk->sk_lock.slock);
	sk->sk_lock.owned = 1;
	spin_unlock_bh(&sk->sk_lock.slock);
}

static void __init hold_end(struct sock *sk)
{
	spin_lock_bh(&sk->sk_lock.slock);
	sk->sk_lock.owned = 0;
	spin_unlock_bh(&sk->sk_lock.slock);
	wake_up(&sk->sk_lock.wq);
	/* Do the rest of release_sock(): process the backlog. */
	lock_sock(sk);
	release_sock(sk);
}

static int __init hold_all(struct socket **sock, int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		hold_begin(sock[i]->sk);
	msleep(ms);
	for (i = 0; i < nr; i++)
		hold_end(sock[i]->sk);
	return 0;
}

static int __init see_fragments(struct sock *sk)
{
	unsigned int seen = 0, wrong = 0;
	struct sk_buff *skb;

	lock_sock(sk);
	for (skb = tcp_send_head(sk); skb;
	     skb = tcp_skb_is_last(sk, skb) ? NULL : skb->next) {
		if (!skb_shinfo(skb)->nr_frags)
			continue;
		seen++;
		if (skb_has_shared_frag(skb))
			wrong++;
	}
	release_sock(sk);
	if (seen && !wrong)
		return 0;
	pr_err("%u of %u skbs have fragments that somebody may write to\n", wrong, seen);
	return -EBADFD;
}

static int __init kernel_user_init(void)
{
	struct socket **sock;
	int err = 0, nr;

	sock = kvcalloc(count, sizeof(*sock), GFP_KERNEL);
	if (!sock)
		return -ENOMEM;
	for (nr = 0; nr < count; nr++) {
		sock[nr] = sockfd_lookup(fd + nr, &err);
		if (!sock[nr])
			goto out;
	}
	if (!strcmp(how, "accept"))
		err = accept_one(sock[0]);
	else if (!strcmp(how, "callbacks"))
		err = see_callbacks(sock[0]->sk);
	else if (!strcmp(how, "save") || !strcmp(how, "restore"))
		err = save_callbacks(sock[0]->sk, *how == 'r');
	else if (!strcmp(how, "take"))
		err = take_callbacks(sock[0]->sk);
	else if (!strcmp(how, "hold"))
		err = hold_all(sock, nr);
	else if (!strcmp(how, "own"))
		err = see_fragments(sock[0]->sk);
	else
		err = -EINVAL;
out:
	while (nr)
		sockfd_put(sock[--nr]);
	kvfree(sock);
	return err ?: -ECANCELED;
}

module_init(kernel_user_init);

MODULE_DESCRIPTION("A user of sockets inside the kernel, for the tests of mpa");
MODULE_LICENSE("GPL");
