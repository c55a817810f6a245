// SPDX-License-Identifier: GPL-2.0
/* See mpa_upcalls.h. */

#include <linux/bvec.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <net/mpa.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "mpa_upcalls.h"

/* Room for unread events, in octets. ULPDUs that do not fit are deferred. */
#define ROOM		SZ_1M
#define SPARE		65536		/* for events that cannot be deferred */

/* An open file */
struct consumer {
	struct mutex call;		/* one call at a time */
	struct socket *sock;		/* or NULL */
	struct file *file;		/* of @sock, if it is a program's */
	struct socket *listener;	/* the kernel's own listening socket, or NULL */
	struct file *watched;		/* listening socket whose sk_data_ready is this module's */
	void (*data_ready)(struct sock *sk);	/* its previous sk_data_ready */
	struct upcall_how how;		/* what upcalls do */
	u32 ulpdus;			/* number reported, each once */
	bool put_off;			/* the last ULPDU was deferred for @how */
	bool full;			/* an event did not fit @ring */
	spinlock_t lock;		/* for the members below; taken in upcalls */
	wait_queue_head_t wait;
	u8 *ring;			/* ROOM octets of events */
	u32 head;			/* where the events begin in @ring */
	u32 used;			/* their length */
};

/* ---- events ---- */

static int put(void *arg, const u8 *data, u32 len)
{
	struct consumer *user = arg;

	while (len) {
		u32 at = (user->head + user->used) % ROOM;
		u32 n = min_t(u32, len, ROOM - at);

		memcpy(user->ring + at, data, n);
		user->used += n;
		data += n;
		len -= n;
	}
	return 0;
}

/* Queue an event for the program. Return: false if the event does not fit. */
static bool tell(struct consumer *user, const struct upcall_event *event,
		 const struct mpa_ulpdu *ulpdu)
{
	u32 room = ulpdu ? ROOM - SPARE : ROOM;
	bool told = false;

	spin_lock_bh(&user->lock);
	if (user->used + sizeof(*event) + event->len <= room) {
		put(user, (const u8 *)event, sizeof(*event));
		if (ulpdu && mpa_ulpdu_walk(ulpdu, 0, ulpdu->len, put, user))
			pr_err("mpa_upcalls: a ULPDU cannot be read\n");
		told = true;
	}
	user->full |= !told;
	spin_unlock_bh(&user->lock);
	wake_up_interruptible(&user->wait);
	return told;
}

static void take(struct consumer *user, void *to, u32 len)
{
	while (len) {
		u32 n = min_t(u32, len, ROOM - user->head);

		memcpy(to, user->ring + user->head, n);
		user->head = (user->head + n) % ROOM;
		user->used -= n;
		to += n;
		len -= n;
	}
}

static ssize_t upcalls_read(struct file *file, char __user *to, size_t len,
			    loff_t *pos)
{
	struct consumer *user = file->private_data;
	struct upcall_event event;
	bool full;
	u8 *buf;
	int err;

	if (len < sizeof(event))
		return -EINVAL;
	if (file->f_flags & O_NONBLOCK && !READ_ONCE(user->used))
		return -EAGAIN;
	err = wait_event_interruptible(user->wait, READ_ONCE(user->used));
	if (err)
		return err;
	buf = kvmalloc(SPARE, GFP_KERNEL);
	if (!buf)
		return -ENOMEM;
	spin_lock_bh(&user->lock);
	take(user, &event, sizeof(event));
	take(user, buf, event.len);
	full = user->full;
	user->full = false;
	spin_unlock_bh(&user->lock);
	/* Another thread must not release the socket meanwhile. */
	mutex_lock(&user->call);
	if (full && user->sock)
		mpa_sock_resume(user->sock);
	mutex_unlock(&user->call);
	len = min_t(size_t, len, sizeof(event) + event.len);
	if (copy_to_user(to, &event, sizeof(event)) ||
	    copy_to_user(to + sizeof(event), buf, len - sizeof(event)))
		len = -EFAULT;
	kvfree(buf);
	return len;
}

static __poll_t upcalls_poll(struct file *file, poll_table *wait)
{
	struct consumer *user = file->private_data;

	poll_wait(file, &user->wait, wait);
	return READ_ONCE(user->used) ? EPOLLIN | EPOLLRDNORM : 0;
}

/* ---- upcalls ---- */

static void call_back(struct consumer *user)
{
	struct upcall_event event = { .upcall = UPCALL_RESULT };
	struct kvec octet = { .iov_base = "x", .iov_len = 1 };

	event.err = mpa_sock_send(user->sock, &octet, NULL, 0, NULL);
	tell(user, &event, NULL);
	event.err = mpa_sock_detach(user->sock);
	tell(user, &event, NULL);
}

static int on_ulpdu(void *priv, const struct mpa_ulpdu *ulpdu)
{
	struct consumer *user = priv;
	struct upcall_event event = {
		.upcall = UPCALL_ULPDU, .position = ulpdu->position,
		.order = ulpdu->order, .len = ulpdu->len,
	};

	if (user->how.sleeps)
		msleep(user->how.sleeps);
	if (user->how.call_back)
		call_back(user);
	if (user->how.put_off && !user->put_off &&
	    user->ulpdus % user->how.put_off == user->how.put_off - 1) {
		user->put_off = true;
		if (user->how.resume_early)
			mpa_sock_resume(user->sock);
		return -EAGAIN;
	}
	user->put_off = false;
	if (user->how.fail_at && user->ulpdus + 1 == user->how.fail_at)
		return -EPROTO;
	if (!tell(user, &event, ulpdu))
		return -EAGAIN;
	user->ulpdus++;
	return 0;
}

static int on_place(void *priv, const struct mpa_ulpdu *ulpdu)
{
	struct consumer *user = priv;
	struct upcall_event event = {
		.upcall = UPCALL_PLACE, .position = ulpdu->position,
		.len = ulpdu->len,
	};

	if (user->how.refuse || !tell(user, &event, ulpdu))
		return -EAGAIN;
	return 0;
}

static void on_edge(void *priv, u64 edge)
{
	struct upcall_event event = {
		.upcall = UPCALL_EDGE, .position = edge,
	};

	tell(priv, &event, NULL);
}

static void on_acked(void *priv, u64 position)
{
	struct upcall_event event = {
		.upcall = UPCALL_ACKED, .position = position,
	};

	tell(priv, &event, NULL);
}

static void on_writable(void *priv)
{
	struct upcall_event event = { .upcall = UPCALL_WRITABLE };

	tell(priv, &event, NULL);
}

static void on_mulpdu(void *priv, u32 mulpdu)
{
	struct upcall_event event = {
		.upcall = UPCALL_MULPDU, .value = mulpdu,
	};

	tell(priv, &event, NULL);
}

static void on_state(void *priv, enum mpa_state state, int err)
{
	struct upcall_event event = {
		.upcall = UPCALL_STATE, .value = state, .err = err,
	};

	tell(priv, &event, NULL);
}

static void on_failed(void *priv, int err, enum mpa_error code, u64 position)
{
	struct upcall_event event = {
		.upcall = UPCALL_FAILED, .err = err, .value = code,
		.position = position,
	};

	tell(priv, &event, NULL);
}

static void on_closed(void *priv)
{
	struct upcall_event event = { .upcall = UPCALL_CLOSED };

	tell(priv, &event, NULL);
}

static const struct mpa_upcalls upcalls = {
	.owner		= THIS_MODULE,
	.ulpdu		= on_ulpdu,
	.place		= on_place,
	.edge		= on_edge,
	.acked		= on_acked,
	.writable	= on_writable,
	.mulpdu		= on_mulpdu,
	.state		= on_state,
	.failed		= on_failed,
	.closed		= on_closed,
};

/* ---- calls ---- */

static void let_go(struct consumer *user)
{
	if (user->file)
		fput(user->file);
	else if (user->sock)
		sock_release(user->sock);
	user->sock = NULL;
	user->file = NULL;
}

static int attach(struct consumer *user)
{
	int err = mpa_sock_attach(user->sock, &upcalls, user, GFP_KERNEL);

	if (err)
		let_go(user);
	return err;
}

static struct socket *socket_of(int fd, struct file **file)
{
	struct socket *sock;

	*file = fget(fd);
	if (!*file)
		return NULL;
	sock = sock_from_file(*file);
	if (!sock)
		fput(*file);
	return sock;
}

static int attach_fd(struct consumer *user, int fd)
{
	user->sock = socket_of(fd, &user->file);
	return user->sock ? attach(user) : -EBADF;
}

static int connect_and_attach(struct consumer *user, u16 port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int err;

	err = sock_create_kern(current->nsproxy->net_ns, AF_INET, SOCK_STREAM,
			       IPPROTO_TCP, &user->sock);
	if (err) {
		user->sock = NULL;
		return err;
	}
	user->sock->sk->sk_user_data = user;
	err = kernel_connect(user->sock, (void *)&addr, sizeof(addr), 0);
	if (!err)
		return attach(user);
	let_go(user);
	return err;
}

static void stop_listening(struct consumer *user)
{
	struct net *net;
	struct sock *sk;

	if (!user->listener)
		return;
	sk = user->listener->sk;
	net = sock_net(sk);
	sock_release(user->listener);
	put_net(net);
	user->listener = NULL;
}

static int begin_listening(struct consumer *user)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int err;

	err = kernel_bind(user->listener, (void *)&addr, sizeof(addr));
	if (!err)
		err = user->listener->ops->setsockopt(user->listener, SOL_TCP,
						      TCP_ULP,
						      KERNEL_SOCKPTR("mpa"), 3);
	return err ?: kernel_listen(user->listener, 5);
}

/* Return: the port, or a negative errno. */
static int listens(struct consumer *user)
{
	struct sock *sk;
	int err;

	if (user->listener)
		return -EBUSY;
	err = sock_create_kern(current->nsproxy->net_ns, AF_INET, SOCK_STREAM,
			       IPPROTO_TCP, &user->listener);
	if (err) {
		user->listener = NULL;
		return err;
	}
	sk = user->listener->sk;
	/*
	 * A kernel socket has no reference to its namespace, which must not end before the socket.
	 */
	get_net(sock_net(sk));
	err = begin_listening(user);
	if (err) {
		stop_listening(user);
		return err;
	}
	return inet_sk(sk)->inet_num;
}

static int accept_and_attach(struct consumer *user, int fd)
{
	struct socket *listener = user->listener;
	struct file *file = NULL;
	int err;

	if (fd >= 0)
		listener = socket_of(fd, &file);
	if (!listener)
		return -EBADF;
	err = kernel_accept(listener, &user->sock, fd == -2 ? O_NONBLOCK : 0);
	if (file)
		fput(file);
	if (err) {
		user->sock = NULL;
		return err;
	}
	return attach(user);
}

/* ---- a listening socket with the user's own callback ---- */

static struct consumer *watcher;

static void on_connection(struct sock *sk)
{
	struct upcall_event event = { .upcall = UPCALL_CONNECTION };

	read_lock_bh(&sk->sk_callback_lock);
	if (watcher)
		tell(watcher, &event, NULL);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void unwatch(struct consumer *user)
{
	struct sock *sk;

	if (!user->watched)
		return;
	sk = sock_from_file(user->watched)->sk;
	write_lock_bh(&sk->sk_callback_lock);
	WRITE_ONCE(sk->sk_data_ready, user->data_ready);
	watcher = NULL;
	write_unlock_bh(&sk->sk_callback_lock);
	synchronize_rcu();
	fput(user->watched);
}

static int watch(struct consumer *user, int fd)
{
	struct socket *sock;
	struct sock *sk;

	if (watcher)
		return -EBUSY;
	sock = socket_of(fd, &user->watched);
	if (!sock) {
		user->watched = NULL;
		return -EBADF;
	}
	sk = sock->sk;
	write_lock_bh(&sk->sk_callback_lock);
	watcher = user;
	user->data_ready = sk->sk_data_ready;
	WRITE_ONCE(sk->sk_data_ready, on_connection);
	write_unlock_bh(&sk->sk_callback_lock);
	return 0;
}

/* ---- calls with a socket ---- */

static int send_bvec(struct consumer *user, struct upcall_send *send,
		     const struct kvec *header, const u8 *octets)
{
	u32 n = DIV_ROUND_UP(send->len + offset_in_page(octets), PAGE_SIZE);
	struct bio_vec *vec = kcalloc(n, sizeof(*vec), GFP_KERNEL);
	u32 i, off, left = send->len;
	struct iov_iter iter;
	int err;

	if (!vec)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		off = offset_in_page(octets);
		vec[i].bv_page = virt_to_page(octets);
		vec[i].bv_offset = off;
		vec[i].bv_len = min_t(u32, left, PAGE_SIZE - off);
		left -= vec[i].bv_len;
		octets += vec[i].bv_len;
	}
	iov_iter_bvec(&iter, ITER_SOURCE, vec, n, send->len);
	err = mpa_sock_send(user->sock, header, &iter, send->flags, &send->end);
	kfree(vec);
	return err;
}

static int send_kernel(struct consumer *user, struct upcall_send *send,
		       const struct kvec *header)
{
	struct kvec vec = { .iov_len = send->len };
	struct iov_iter iter;
	int err;

	vec.iov_base = memdup_user(u64_to_user_ptr(send->payload), send->len);
	if (IS_ERR(vec.iov_base))
		return PTR_ERR(vec.iov_base);
	iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, send->len);
	err = send->memory == MEMORY_KVEC ?
	      mpa_sock_send(user->sock, header, &iter, send->flags,
			    &send->end) :
	      send_bvec(user, send, header, vec.iov_base);
	kfree(vec.iov_base);
	return err;
}

static int send_user(struct consumer *user, struct upcall_send *send,
		     const struct kvec *header)
{
	struct iov_iter iter;
	struct iovec iov = {
		.iov_base = u64_to_user_ptr(send->payload),
		.iov_len = send->len,
	};

	iov_iter_init(&iter, ITER_SOURCE, &iov, 1, send->len);
	return mpa_sock_send(user->sock, header, &iter, send->flags,
			     &send->end);
}

static int do_send(struct consumer *user, void __user *arg)
{
	struct kvec header = {}, *first = NULL;
	struct upcall_send send;
	int err;

	if (copy_from_user(&send, arg, sizeof(send)))
		return -EFAULT;
	if (send.header_len > 70000 || send.len > 70000)
		return -EINVAL;
	if (send.header_len) {
		header.iov_base = memdup_user(u64_to_user_ptr(send.header),
					      send.header_len);
		if (IS_ERR(header.iov_base))
			return PTR_ERR(header.iov_base);
		header.iov_len = send.header_len;
		first = &header;
	}
	if (!send.len)
		err = mpa_sock_send(user->sock, first, NULL, send.flags,
				    &send.end);
	else if (send.memory == MEMORY_USER)
		err = send_user(user, &send, first);
	else
		err = send_kernel(user, &send, first);
	kfree(header.iov_base);
	if (!err && copy_to_user(arg, &send, sizeof(send)))
		err = -EFAULT;
	return err;
}

static void write_header(const struct mpa_headers *headers, void *to, u32 off,
			 u32 len, bool last)
{
	struct upcall_header header = { .off = off, .len = len, .last = last };

	memset(to, 0x5a, headers->len);
	memcpy(to, &header, min_t(u32, sizeof(header), headers->len));
}

/* @octets come from vmalloc(). */
static int send_cut(struct consumer *user, struct upcall_send *send, u8 *octets)
{
	u32 n = DIV_ROUND_UP(send->len, PAGE_SIZE), i;
	struct bio_vec *vec = kcalloc(n, sizeof(*vec), GFP_KERNEL);
	struct mpa_headers headers = {
		.len = send->header_len, .write = write_header,
	};
	struct iov_iter iter;
	int sent;

	if (!vec)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		vec[i].bv_page = vmalloc_to_page(octets + i * PAGE_SIZE);
		vec[i].bv_len = PAGE_SIZE;
	}
	iov_iter_bvec(&iter, ITER_SOURCE, vec, n, send->len);
	sent = mpa_sock_send_cut(user->sock, &headers, &iter, send->flags,
				 &send->end);
	if (sent > 0 && iov_iter_count(&iter) != send->len - sent)
		sent = -EUCLEAN;
	kfree(vec);
	return sent;
}

static int do_cut(struct consumer *user, void __user *arg)
{
	struct upcall_send send;
	u8 *octets;
	int sent;

	if (copy_from_user(&send, arg, sizeof(send)))
		return -EFAULT;
	if (send.len > SZ_1M)
		return -EINVAL;
	octets = vmalloc(max(send.len, 1U));
	if (!octets)
		return -ENOMEM;
	sent = -EFAULT;
	if (!copy_from_user(octets, u64_to_user_ptr(send.payload), send.len))
		sent = send_cut(user, &send, octets);
	vfree(octets);
	if (sent < 0)
		return sent;
	send.len = sent;
	return copy_to_user(arg, &send, sizeof(send)) ? -EFAULT : 0;
}

/* Send an octet as another user would, bypassing mpa. */
static int do_stranger(struct consumer *user)
{
	struct kvec octet = { .iov_base = "x", .iov_len = 1 };
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT };
	int sent;

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &octet, 1, 1);
	sent = tcp_sendmsg(user->sock->sk, &msg, 1);
	return sent < 0 ? sent : 0;
}

static int do_start(struct consumer *user, void __user *arg, bool wait)
{
	struct mpa_start *start = memdup_user(arg, sizeof(*start));
	int err;

	if (IS_ERR(start))
		return PTR_ERR(start);
	err = mpa_sock_start(user->sock, start, wait);
	kfree(start);
	return err;
}

static int do_decide(struct consumer *user, void __user *arg, bool reject)
{
	struct mpa_reply *reply = NULL;
	int err;

	if (arg)
		reply = memdup_user(arg, sizeof(*reply));
	if (IS_ERR(reply))
		return PTR_ERR(reply);
	err = reject ? mpa_sock_reject(user->sock, reply) :
		       mpa_sock_accept(user->sock, reply);
	kfree(reply);
	return err;
}

static int do_tell(struct consumer *user, unsigned int cmd, void __user *arg)
{
	size_t size = _IOC_SIZE(cmd);
	void *it = kzalloc(size, GFP_KERNEL);
	int err;

	if (!it)
		return -ENOMEM;
	err = cmd == UPCALLS_PEER ? mpa_sock_peer(user->sock, it) :
				    mpa_sock_info(user->sock, it);
	if (!err && copy_to_user(arg, it, size))
		err = -EFAULT;
	kfree(it);
	return err;
}

static int with_socket(struct consumer *user, unsigned int cmd, void __user *arg)
{
	int err, value;

	switch (cmd) {
	case UPCALLS_DETACH:
		err = mpa_sock_detach(user->sock);
		if (!err)
			let_go(user);
		return err;
	case UPCALLS_RELEASE:
		/* The program's file keeps the socket, so detach first. */
		if (user->file)
			mpa_sock_detach(user->sock);
		let_go(user);
		return 0;
	case UPCALLS_SHUT:
		return kernel_sock_shutdown(user->sock, SHUT_WR);
	case UPCALLS_START:
	case UPCALLS_WAIT:
		return do_start(user, arg, cmd == UPCALLS_WAIT);
	case UPCALLS_REPLY:
	case UPCALLS_REJECT:
		return do_decide(user, arg, cmd == UPCALLS_REJECT);
	case UPCALLS_PEER:
	case UPCALLS_INFO:
		return do_tell(user, cmd, arg);
	case UPCALLS_PLACE:
		if (get_user(value, (int __user *)arg))
			return -EFAULT;
		return mpa_sock_place(user->sock, value);
	case UPCALLS_SEND:
		return do_send(user, arg);
	case UPCALLS_CUT:
		return do_cut(user, arg);
	case UPCALLS_STRANGER:
		return do_stranger(user);
	case UPCALLS_RESUME:
		mpa_sock_resume(user->sock);
		return 0;
	default:
		return -ENOTTY;
	}
}

static int without_socket(struct consumer *user, unsigned int cmd,
			  void __user *arg)
{
	int fd, err;
	u16 port;

	switch (cmd) {
	case UPCALLS_CONNECT:
		if (get_user(port, (u16 __user *)arg))
			return -EFAULT;
		return connect_and_attach(user, port);
	case UPCALLS_LISTEN:
		err = listens(user);
		return err < 0 ? err : put_user(err, (u16 __user *)arg);
	case UPCALLS_ATTACH:
	case UPCALLS_ACCEPT:
	case UPCALLS_WATCH:
		if (get_user(fd, (int __user *)arg))
			return -EFAULT;
		if (cmd == UPCALLS_WATCH)
			return watch(user, fd);
		return cmd == UPCALLS_ATTACH ? attach_fd(user, fd) :
					       accept_and_attach(user, fd);
	default:
		return -ENOTCONN;
	}
}

static long upcalls_ioctl(struct file *file, unsigned int cmd,
			  unsigned long arg)
{
	struct consumer *user = file->private_data;
	void __user *to = (void __user *)arg;
	int err;

	if (mutex_lock_interruptible(&user->call))
		return -ERESTARTSYS;
	if (cmd == UPCALLS_HOW)
		err = copy_from_user(&user->how, to, sizeof(user->how)) ?
		      -EFAULT : 0;
	else
		err = user->sock ? with_socket(user, cmd, to) :
				   without_socket(user, cmd, to);
	mutex_unlock(&user->call);
	return err;
}

static int upcalls_open(struct inode *inode, struct file *file)
{
	struct consumer *user = kzalloc(sizeof(*user), GFP_KERNEL);

	if (!user)
		return -ENOMEM;
	user->ring = kvmalloc(ROOM, GFP_KERNEL);
	if (!user->ring) {
		kfree(user);
		return -ENOMEM;
	}
	mutex_init(&user->call);
	spin_lock_init(&user->lock);
	init_waitqueue_head(&user->wait);
	file->private_data = user;
	return 0;
}

static int upcalls_release(struct inode *inode, struct file *file)
{
	struct consumer *user = file->private_data;

	unwatch(user);
	if (user->sock)
		mpa_sock_detach(user->sock);
	let_go(user);
	stop_listening(user);
	kvfree(user->ring);
	kfree(user);
	return 0;
}

static const struct file_operations upcalls_fops = {
	.owner		= THIS_MODULE,
	.open		= upcalls_open,
	.release	= upcalls_release,
	.read		= upcalls_read,
	.poll		= upcalls_poll,
	.unlocked_ioctl	= upcalls_ioctl,
};

static struct miscdevice upcalls_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "mpa_upcalls",
	.fops	= &upcalls_fops,
	.mode	= 0666,
};

module_misc_device(upcalls_device);

MODULE_DESCRIPTION("For tests of mpa: a user inside the kernel");
MODULE_LICENSE("GPL");
