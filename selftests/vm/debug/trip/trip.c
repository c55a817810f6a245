// SPDX-License-Identifier: GPL-2.0
/*
 * Commits the errors that the debug kernel has to catch, one a boot: insmod
 * trip.ko what=NAME
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>
#include <net/net_debug.h>

static char *what = "nothing";
module_param(what, charp, 0);
MODULE_PARM_DESC(what, "name of the fault to commit");

static int seconds = 300;
module_param(seconds, int, 0);
MODULE_PARM_DESC(seconds, "how long hung_task hangs");

/* Hide values from the compiler, which would detect the errors. */
static volatile int one = 1, big = 40, sink;

static void nothing(void)
{
}

static void use_after_free(void)
{
	char *p = kmalloc(100, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(p);
	kfree(p);
	sink = p[10];
}

static void double_free(void)
{
	char *p = kmalloc(100, GFP_KERNEL);

	kfree(p);
	OPTIMIZER_HIDE_VAR(p);
	kfree(p);
}

static void heap_bounds(void)
{
	char *p = kmalloc(100, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(p);
	p[100 * one] = 1;
	kfree(p);
}

static void vmalloc_bounds(void)
{
	char *p = vmalloc(5000);

	OPTIMIZER_HIDE_VAR(p);
	sink = p[5000 * one];
	vfree(p);
}

static void stack_bounds(void)
{
	char a[16];
	char *p = a;

	OPTIMIZER_HIDE_VAR(p);
	sink = p[16 * one];
}

static void skb_bounds(void)
{
	struct sk_buff *skb = alloc_skb(100, GFP_KERNEL);

	sink = skb_end_pointer(skb)[sizeof(struct skb_shared_info) * one];
	kfree_skb(skb);
}

static void shift(void)
{
	sink = 1 << big;
}

static void array_index(void)
{
	static int a[4];

	sink = a[4 * one];
}

static void leak(void)
{
	char *p = kmalloc(100, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(p);
	p[0] = 1;
}

static void leak_skb(void)
{
	struct sk_buff *skb = alloc_skb(1000, GFP_KERNEL);

	skb_put_zero(skb, 1000);
}

static DEFINE_MUTEX(mutex_a);
static DEFINE_MUTEX(mutex_b);

static void lock_inversion(void)
{
	mutex_lock(&mutex_a);
	mutex_lock(&mutex_b);
	mutex_unlock(&mutex_b);
	mutex_unlock(&mutex_a);
	mutex_lock(&mutex_b);
	mutex_lock(&mutex_a);
	mutex_unlock(&mutex_a);
	mutex_unlock(&mutex_b);
}

static DEFINE_SPINLOCK(spin);
static DECLARE_COMPLETION(fired);

static void lock_in_softirq(struct timer_list *t)
{
	spin_lock(&spin);
	spin_unlock(&spin);
	complete(&fired);
}

static DEFINE_TIMER(soft_timer, lock_in_softirq);

static void softirq_lock(void)
{
	mod_timer(&soft_timer, jiffies);
	wait_for_completion(&fired);
	spin_lock(&spin);
	spin_unlock(&spin);
}

static void rcu_unprotected(void)
{
	static int __rcu *p;

	sink = !rcu_dereference(p);
}

static void rcu_sleep(void)
{
	rcu_read_lock();
	msleep(1);
	rcu_read_unlock();
}

static void spin_sleep(void)
{
	spin_lock_bh(&spin);
	kfree(kmalloc(100, GFP_KERNEL));
	spin_unlock_bh(&spin);
}

static void irq_sleep(void)
{
	local_irq_disable();
	might_sleep();
	local_irq_enable();
}

static void active_timer(void)
{
	struct timer_list *t = kmalloc(sizeof(*t), GFP_KERNEL);

	timer_setup(t, lock_in_softirq, 0);
	mod_timer(t, jiffies + 1000 * HZ);
	kfree(t);
}

static void list_corruption(void)
{
	LIST_HEAD(head);
	LIST_HEAD(entry);

	list_add(&entry, &head);
	head.prev = &head;
	list_del(&entry);
}

static void refcount(void)
{
	refcount_t r = REFCOUNT_INIT(1);

	refcount_dec(&r);
}

static void debug_net(void)
{
	DEBUG_NET_WARN_ON_ONCE(one);
}

static void warn(void)
{
	WARN_ON(one);
}

static void warn_once(void)
{
	WARN_ONCE(one, "once is enough\n");
}

static void bug(void)
{
	BUG_ON(one);
}

static void null_pointer(void)
{
	int *p = NULL;

	OPTIMIZER_HIDE_VAR(p);
	sink = *p;
}

static void do_panic(void)
{
	panic("as asked");
}

static void hung_task(void)
{
	schedule_timeout_uninterruptible(seconds * HZ);
}

static int run_for_ever(void *unused)
{
	for (;;) {
		preempt_disable();
		preempt_enable();
		cond_resched();
	}
	return 0;
}

/* Run without a reference to the module. */
static void outlive(void)
{
	kthread_run(run_for_ever, NULL, "outlive");
}

static int raise_flag(void *flag)
{
	WRITE_ONCE(*(int *)flag, 1);
	return 0;
}

/* No error: complain if a busy task keeps its processor from other tasks. */
static void preempted(void)
{
	unsigned long end = jiffies + 10 * HZ;
	int cpu = raw_smp_processor_id();
	struct task_struct *other;
	static int flag;

	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	other = kthread_create(raise_flag, &flag, "other");
	kthread_bind(other, cpu);
	wake_up_process(other);
	while (!READ_ONCE(flag) && time_before(jiffies, end)) {
		preempt_disable();
		preempt_enable();
	}
	WARN(!READ_ONCE(flag), "nobody else could run\n");
}

#define FAULT(f) { #f, f }
static const struct {
	const char *name;
	void (*commit)(void);
} faults[] = {
	FAULT(nothing), FAULT(use_after_free), FAULT(double_free),
	FAULT(heap_bounds), FAULT(vmalloc_bounds), FAULT(stack_bounds),
	FAULT(skb_bounds), FAULT(shift), FAULT(array_index), FAULT(leak),
	FAULT(leak_skb), FAULT(lock_inversion), FAULT(softirq_lock),
	FAULT(rcu_unprotected), FAULT(rcu_sleep), FAULT(spin_sleep),
	FAULT(irq_sleep), FAULT(active_timer), FAULT(list_corruption),
	FAULT(refcount), FAULT(debug_net), FAULT(warn), FAULT(warn_once),
	FAULT(bug), FAULT(null_pointer), FAULT(hung_task), FAULT(outlive),
	FAULT(preempted),
	{ "panic", do_panic },
};

static int __init trip_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strcmp(what, faults[i].name))
			continue;
		faults[i].commit();
		return 0;
	}
	pr_err("trip: no fault is called %s\n", what);
	return -EINVAL;
}
module_init(trip_init);

static void __exit trip_exit(void)
{
}
module_exit(trip_exit);

MODULE_DESCRIPTION("faults for the debug kernel to catch");
MODULE_LICENSE("GPL");
