// SPDX-License-Identifier: GPL-2.0
/*
 * Delays at marked points, in a test build only.
 *
 *	echo close.left 20 >/sys/module/mpa/parameters/delay
 *
 * makes the next task that passes the point wait 20 ms there, or 20 us where
 * sleeping is not allowed. "off" clears everything. Reading the parameter lists
 * the points passed since the last "off".
 */

#include <linux/delay.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "mpa_delay.h"

#define MPA_DELAY_MAX	10000

#define MPA_POINT_NAME(id, name)	name,
static const char * const mpa_point_names[] = {
	MPA_POINTS(MPA_POINT_NAME)
};

static unsigned int mpa_delays[MPA_POINT_NR];
static bool mpa_passed[MPA_POINT_NR];

/* Any context. */
void mpa_delay(enum mpa_point point)
{
	unsigned int ms;

	WRITE_ONCE(mpa_passed[point], true);
	if (!READ_ONCE(mpa_delays[point]))
		return;
	ms = xchg(&mpa_delays[point], 0);
	if (!ms)
		return;
	if (preemptible() && !rcu_preempt_depth())
		msleep(ms);
	else
		udelay(min(ms, 1000U));
}

static int mpa_delay_set(const char *text, const struct kernel_param *param)
{
	unsigned int ms;
	char name[20];
	int i;

	if (sysfs_streq(text, "off")) {
		memset(mpa_delays, 0, sizeof(mpa_delays));
		memset(mpa_passed, 0, sizeof(mpa_passed));
		return 0;
	}
	if (sscanf(text, "%19s %u", name, &ms) != 2 || ms > MPA_DELAY_MAX)
		return -EINVAL;
	i = match_string(mpa_point_names, MPA_POINT_NR, name);
	if (i < 0)
		return i;
	WRITE_ONCE(mpa_delays[i], ms);
	return 0;
}

static int mpa_delay_get(char *text, const struct kernel_param *param)
{
	int i, n = 0;

	for (i = 0; i < MPA_POINT_NR; i++)
		if (READ_ONCE(mpa_passed[i]))
			n += sysfs_emit_at(text, n, "%s ", mpa_point_names[i]);
	return n + sysfs_emit_at(text, n, "\n");
}

static const struct kernel_param_ops mpa_delay_ops = {
	.set	= mpa_delay_set,
	.get	= mpa_delay_get,
};
module_param_cb(delay, &mpa_delay_ops, NULL, 0600);
MODULE_PARM_DESC(delay, "test build: POINT MS, or off");
