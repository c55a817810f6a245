// SPDX-License-Identifier: GPL-2.0
/* A module that makes the kernel complain, to check that run reports it. */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/preempt.h>

static char *how = "warn";
module_param(how, charp, 0);
MODULE_PARM_DESC(how, "warn, oops, panic, lockup, or quiet");

static int __init warn_init(void)
{
	if (!strcmp(how, "warn")) {
		WARN_ON(1);
	} else if (!strcmp(how, "oops")) {
		WRITE_ONCE(*(int *)8, 1);
	} else if (!strcmp(how, "panic")) {
		panic("as asked for");
	} else if (!strcmp(how, "lockup")) {
		preempt_disable();
		mdelay(60000);
		preempt_enable();
	}
	return 0;
}

static void __exit warn_exit(void)
{
}

module_init(warn_init);
module_exit(warn_exit);
MODULE_DESCRIPTION("Deliberate kernel complaints");
MODULE_LICENSE("GPL");
