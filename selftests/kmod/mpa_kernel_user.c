// SPDX-License-Identifier: GPL-2.0
/*
 * What a user inside the kernel does with sockets of the process that loads
 * this module. It does so while it is loaded, and does not stay: loading fails
 * with ECANCELED when all went well.
 *
 *   how=accept fd=N		kernel_accept() on a listening socket, and close
 *				what it returns
 *   how=hold fd=N count=C ms=M	hold the locks of C sockets for so long, as a
 *				system call does whose page does not come
 */

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <net/sock.h>

static char *how = "";
module_param(how, charp, 0);
MODULE_PARM_DESC(how, "what to do: accept, hold");
static int fd;
module_param(fd, int, 0);
MODULE_PARM_DESC(fd, "file descriptor of the first socket");
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

/* Without lockdep, which knows of no task that holds hundreds of locks. */
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
	/* What release_sock() does besides. */
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
	else if (!strcmp(how, "hold"))
		err = hold_all(sock, nr);
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
