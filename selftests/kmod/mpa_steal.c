// SPDX-License-Identifier: GPL-2.0
/*
 * Takes each processor away for @ms milliseconds at random times, on average every @every
 * milliseconds. Interrupts are off meanwhile, so that neither softirqs nor timers run on the
 * processor. A busy host does the same to a virtual processor.
 */

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/random.h>

static unsigned int ms = 5;
module_param(ms, uint, 0444);
MODULE_PARM_DESC(ms, "for how long");

static unsigned int every = 25;
module_param(every, uint, 0444);
MODULE_PARM_DESC(every, "milliseconds from one time to the next, on average");

static DEFINE_PER_CPU(struct task_struct *, thieves);

static int steal(void *unused)
{
	unsigned long flags, wait;

	while (!kthread_should_stop()) {
		local_irq_save(flags);
		mdelay(ms);
		local_irq_restore(flags);
		wait = msecs_to_jiffies(get_random_u32() % (2 * every));
		schedule_timeout_interruptible(wait + 1);
	}
	return 0;
}

static void steal_stop(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		if (per_cpu(thieves, cpu))
			kthread_stop(per_cpu(thieves, cpu));
}

static int __init steal_init(void)
{
	struct task_struct *thief;
	unsigned int cpu;

	if (!every || ms > 1000)
		return -EINVAL;
	for_each_online_cpu(cpu) {
		thief = kthread_create(steal, NULL, "mpa_steal/%u", cpu);
		if (IS_ERR(thief)) {
			steal_stop();
			return PTR_ERR(thief);
		}
		kthread_bind(thief, cpu);
		per_cpu(thieves, cpu) = thief;
		wake_up_process(thief);
	}
	return 0;
}
module_init(steal_init);
module_exit(steal_stop);

MODULE_DESCRIPTION("Processors that are taken away for moments");
MODULE_LICENSE("GPL");
