// SPDX-License-Identifier: GPL-2.0
/*
 * A race of two processors on one variable, for KCSAN: insmod race.ko. With marked=1
 * there is no race.
 */
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>

static bool marked;
module_param(marked, bool, 0);
MODULE_PARM_DESC(marked, "mark the accesses: no race");

static int shared;

static noinline int write_shared(void *unused)
{
	while (!kthread_should_stop()) {
		if (marked)
			WRITE_ONCE(shared, READ_ONCE(shared) + 1);
		else
			shared++;
		cond_resched();
	}
	return 0;
}

static int __init race_init(void)
{
	unsigned long end = jiffies + 5 * HZ;
	struct task_struct *task;

	task = kthread_create(write_shared, NULL, "race");
	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_bind(task, !raw_smp_processor_id());
	wake_up_process(task);
	while (time_before(jiffies, end)) {
		if (marked)
			WRITE_ONCE(shared, READ_ONCE(shared) + 1);
		else
			shared++;
		cond_resched();
	}
	kthread_stop(task);
	return 0;
}
module_init(race_init);

static void __exit race_exit(void)
{
}
module_exit(race_exit);

MODULE_DESCRIPTION("a data race for KCSAN to see");
MODULE_LICENSE("GPL");
