// SPDX-License-Identifier: GPL-2.0

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <net/sock.h>

#include "ddp.h"

/* ---- reports ---- */

/* Queue an item, which is in no list, for the program. Context: any, @end->lock held. */
void ddp_done(struct ddp_end *end, struct ddp_item *item, int status)
{
	bool first = list_empty(&end->done);

	item->done.status = status;
	list_add_tail(&item->list, &end->done);
	/* Readers wait only if the list is empty, so wake them only then. */
	if (first)
		wake_up_interruptible(&end->wait);
}

/*
 * Finish a post, which is in @end->posts, but in neither @end->unsent nor @end->reads.
 * Posts are reported in the order in which they were posted (RFC 5040 section 5.5, 15):
 * a Send that was sent waits for the response to an earlier RDMA Read. Context: any,
 * @end->lock held.
 */
void ddp_post_done(struct ddp_end *end, struct ddp_item *item, int status)
{
	if (item->silent)
		return;
	item->finished = true;
	item->done.status = status;
	while (!list_empty(&end->posts)) {
		item = list_first_entry(&end->posts, struct ddp_item, list);
		if (!item->finished)
			break;
		list_del(&item->list);
		ddp_done(end, item, item->done.status);
	}
}

/* Report something that happens once. Context: any, @end->lock held. */
void ddp_happened(struct ddp_end *end, enum ddp_event event, enum ddp_what what,
		  u32 error, int status)
{
	struct ddp_item *item = &end->event[event];

	if (item->done.what)
		return;
	item->done.what = what;
	item->done.error = error;
	ddp_done(end, item, status);
}

static bool ddp_is_event(const struct ddp_end *end, const struct ddp_item *item)
{
	return item >= end->event && item < end->event + DDP_EVENTS;
}

static struct ddp_item *ddp_next_done(struct ddp_end *end)
{
	struct ddp_item *item;

	spin_lock_bh(&end->lock);
	item = list_first_entry_or_null(&end->done, struct ddp_item, list);
	if (item)
		list_del(&item->list);
	spin_unlock_bh(&end->lock);
	return item;
}

/* Free an item that the program has read. */
static void ddp_reported(struct ddp_end *end, struct ddp_item *item)
{
	if (ddp_is_event(end, item))
		return;
	spin_lock_bh(&end->lock);
	end->items--;
	spin_unlock_bh(&end->lock);
	kfree(item);
}

/* Put back an item that the program could not read, as the first one. */
static void ddp_unreported(struct ddp_end *end, struct ddp_item *item)
{
	spin_lock_bh(&end->lock);
	list_add(&item->list, &end->done);
	wake_up_interruptible(&end->wait);
	spin_unlock_bh(&end->lock);
}

static ssize_t ddp_read(struct file *file, char __user *to, size_t len,
			loff_t *pos)
{
	struct ddp_end *end = file->private_data;
	struct ddp_item *item;
	size_t n = 0;
	int err;

	if (len < sizeof(item->done))
		return -EINVAL;
	while (len - n >= sizeof(item->done)) {
		item = ddp_next_done(end);
		if (item) {
			if (copy_to_user(to + n, &item->done,
					 sizeof(item->done))) {
				ddp_unreported(end, item);
				return n ?: -EFAULT;
			}
			ddp_reported(end, item);
			n += sizeof(item->done);
			continue;
		}
		if (n)
			break;
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		err = wait_event_interruptible(end->wait,
					       !list_empty(&end->done));
		if (err)
			return err;
	}
	return n;
}

static __poll_t ddp_poll(struct file *file, poll_table *wait)
{
	struct ddp_end *end = file->private_data;

	poll_wait(file, &end->wait, wait);
	return list_empty(&end->done) ? 0 : EPOLLIN | EPOLLRDNORM;
}

/* ---- ioctls ---- */

static int ddp_attach(struct ddp_end *end, int __user *arg)
{
	struct socket *sock;
	int fd, err;

	if (end->sock)
		return -EISCONN;
	if (get_user(fd, arg))
		return -EFAULT;
	sock = sockfd_lookup(fd, &err);
	if (!sock)
		return err;
	end->sock = sock;
	err = mpa_sock_attach(sock, &ddp_upcalls, end, GFP_KERNEL_ACCOUNT);
	if (err) {
		end->sock = NULL;
		sockfd_put(sock);
	}
	return err;
}

/* DDP_STARTED reports the result, for both roles. */
static int ddp_start(struct ddp_end *end, void __user *arg)
{
	struct mpa_start *start;
	int err;

	start = memdup_user(arg, sizeof(*start));
	if (IS_ERR(start))
		return PTR_ERR(start);
	err = start->ird > DDP_READS_MAX ? -EINVAL :
	      mpa_sock_start(end->sock, start, false);
	kfree(start);
	return err == -EINPROGRESS ? 0 : err;
}

static int ddp_place(struct ddp_end *end, int __user *arg)
{
	int on;

	if (get_user(on, arg))
		return -EFAULT;
	return mpa_sock_place(end->sock, on);
}

static int ddp_register(struct ddp_end *end, void __user *arg)
{
	struct ddp_region region;
	int err;

	if (copy_from_user(&region, arg, sizeof(region)))
		return -EFAULT;
	err = ddp_mr_register(end, &region);
	if (err)
		return err;
	if (!copy_to_user(arg, &region, sizeof(region)))
		return 0;
	ddp_mr_deregister(end, region.stag);
	return -EFAULT;
}

static int ddp_deregister(struct ddp_end *end, u32 __user *arg)
{
	u32 stag;

	if (get_user(stag, arg))
		return -EFAULT;
	return ddp_mr_deregister(end, stag);
}

/*
 * Whether the octets are in a region of this end. This is checked again when the post
 * is executed.
 */
static bool ddp_post_holds(struct ddp_end *end, const struct ddp_post *post)
{
	struct ddp_mr *mr;

	if (!post->length)
		return true;
	mr = ddp_mr_get_own(end, post->stag, post->to, post->length);
	ddp_mr_put(mr);
	return mr;
}

static int ddp_queue(struct ddp_end *end, struct ddp_item *item)
{
	bool receive = item->post.opcode == DDP_RECEIVE;
	int err = 0;

	spin_lock_bh(&end->lock);
	if (end->over) {
		err = -EPIPE;
	} else if (end->items == DDP_POSTS_MAX) {
		err = -EAGAIN;
	} else {
		end->items++;
		list_add_tail(&item->list,
			      receive ? &end->receives : &end->posts);
		if (!receive)
			list_add_tail(&item->todo, &end->unsent);
	}
	spin_unlock_bh(&end->lock);
	if (!err && !receive)
		ddp_tx_soon(end);
	return err;
}

static int ddp_post(struct ddp_end *end, void __user *arg)
{
	struct ddp_item *item;
	int err = -EFAULT;

	item = kzalloc(sizeof(*item), GFP_KERNEL_ACCOUNT);
	if (!item)
		return -ENOMEM;
	if (copy_from_user(&item->post, arg, sizeof(item->post)))
		goto free;
	err = -EINVAL;
	switch (item->post.opcode) {
	case RDMAP_SEND:
	case RDMAP_SEND_SE:
		/*
		 * Clear the program's value, or it would be sent (RFC 5040 section
		 * 4.1).
		 */
		item->post.remote_stag = 0;
		fallthrough;
	case RDMAP_SEND_INVALIDATE:
	case RDMAP_SEND_SE_INVALIDATE:
	case RDMAP_READ_REQUEST:
	case RDMAP_WRITE:
		item->done.what = DDP_POSTED;
		break;
	case DDP_RECEIVE:
		item->done.what = DDP_RECEIVED;
		break;
	default:
		goto free;
	}
	err = -EFAULT;
	if (!ddp_post_holds(end, &item->post))
		goto free;
	item->done.id = item->post.id;
	item->done.opcode = item->post.opcode;
	item->done.length = item->post.length;
	err = ddp_queue(end, item);
	if (!err)
		return 0;
free:
	kfree(item);
	return err;
}

static int ddp_info(struct ddp_end *end, void __user *arg)
{
	return copy_to_user(arg, &end->info, sizeof(end->info)) ? -EFAULT : 0;
}

static int ddp_call(struct ddp_end *end, unsigned int cmd, void __user *arg)
{
	switch (cmd) {
	case DDP_ATTACH:
		return ddp_attach(end, arg);
	case DDP_REGISTER:
		return ddp_register(end, arg);
	case DDP_DEREGISTER:
		return ddp_deregister(end, arg);
	case DDP_POST:
		return ddp_post(end, arg);
	case DDP_INFO:
		return ddp_info(end, arg);
	}
	if (!end->sock)
		return -ENOTCONN;
	switch (cmd) {
	case DDP_START:
		return ddp_start(end, arg);
	case DDP_PLACE:
		return ddp_place(end, arg);
	default:
		return -ENOTTY;
	}
}

static long ddp_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct ddp_end *end = file->private_data;
	int err;

	if (mutex_lock_interruptible(&end->call))
		return -ERESTARTSYS;
	err = ddp_call(end, cmd, (void __user *)arg);
	mutex_unlock(&end->call);
	return err;
}

/* ---- opening and freeing ---- */

static struct workqueue_struct *ddp_frees;

static void ddp_free_items(const struct ddp_end *end, struct list_head *list)
{
	struct ddp_item *item, *next;

	list_for_each_entry_safe(item, next, list, list)
		if (!ddp_is_event(end, item))
			kfree(item);
}

static void ddp_free(struct work_struct *work)
{
	struct ddp_end *end = container_of(work, struct ddp_end, free);

	/* There are no more upcalls. */
	ddp_tx_close(end);
	ddp_mr_deregister_all(end);
	ddp_free_items(end, &end->posts);
	ddp_free_items(end, &end->receives);
	ddp_free_items(end, &end->done);
	kfree(end);
	/* The code stays: ddp_exit() waits until this function returns. */
	module_put(THIS_MODULE);
}

/*
 * Detach from the socket and close it, in a work item of this end. mpa_sock_detach()
 * waits for the socket lock, which its owner may hold for a long time. Closing may take
 * as long as SO_LINGER says; fput() would block the kernel's only work item for that
 * time.
 */
static void ddp_leave(struct work_struct *work)
{
	struct ddp_end *end = container_of(work, struct ddp_end, leave);

	if (end->sock) {
		mpa_sock_detach(end->sock);
		/*
		 * The regions are no longer used. Release them before closing, which may take long.
		 */
		ddp_mr_deregister_all(end);
		__fput_sync(end->sock->file);
	}
	queue_work(ddp_frees, &end->free);
}

static int ddp_open(struct inode *inode, struct file *file)
{
	struct ddp_end *end = kzalloc(sizeof(*end), GFP_KERNEL_ACCOUNT);
	u32 queue;

	if (!end)
		return -ENOMEM;
	if (ddp_tx_open(end)) {
		kfree(end);
		return -ENOMEM;
	}
	INIT_WORK(&end->leave, ddp_leave);
	INIT_WORK(&end->free, ddp_free);
	mutex_init(&end->call);
	spin_lock_init(&end->lock);
	init_waitqueue_head(&end->wait);
	INIT_LIST_HEAD(&end->regions);
	INIT_LIST_HEAD(&end->posts);
	INIT_LIST_HEAD(&end->unsent);
	INIT_LIST_HEAD(&end->reads);
	INIT_LIST_HEAD(&end->receives);
	INIT_LIST_HEAD(&end->done);
	for (queue = 0; queue < RDMAP_QUEUES; queue++) {
		end->msn[queue] = 1;
		end->in[queue].msn = 1;
	}
	file->private_data = end;
	return 0;
}

/*
 * Leave the rest to a work item. The last user of the file may be another program or
 * the kernel, and must not wait for the socket of the program that attached it.
 */
static int ddp_release(struct inode *inode, struct file *file)
{
	struct ddp_end *end = file->private_data;

	WRITE_ONCE(end->dead, true);
	__module_get(THIS_MODULE);
	queue_work(end->queue, &end->leave);
	return 0;
}

static const struct file_operations ddp_fops = {
	.owner		= THIS_MODULE,
	.open		= ddp_open,
	.release	= ddp_release,
	.read		= ddp_read,
	.poll		= ddp_poll,
	.unlocked_ioctl	= ddp_ioctl,
};

static struct miscdevice ddp_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "mpa_ddp",
	.fops	= &ddp_fops,
	.mode	= 0600,
};

static int __init ddp_init(void)
{
	int err;

	ddp_frees = alloc_workqueue("mpa_ddp_free", WQ_UNBOUND, 0);
	if (!ddp_frees)
		return -ENOMEM;
	err = misc_register(&ddp_device);
	if (err)
		destroy_workqueue(ddp_frees);
	return err;
}

static void __exit ddp_exit(void)
{
	misc_deregister(&ddp_device);
	destroy_workqueue(ddp_frees);
}

module_init(ddp_init);
module_exit(ddp_exit);

MODULE_DESCRIPTION("RDMAP and DDP over mpa: a sample");
MODULE_LICENSE("GPL");
