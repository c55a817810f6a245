// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of the kernel's best CRC32c. Once the module is loaded, the parameter "ns"
 * has the nanoseconds that crc32c() has taken for 1000 pieces of "size" octets, one
 * after the other in 64 KiB of memory.
 */

#include <linux/crc32c.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/slab.h>

static unsigned int size = 1448;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "octets of a piece, at most 65536");

static unsigned long long ns;
module_param(ns, ullong, 0444);
MODULE_PARM_DESC(ns, "nanoseconds that 1000 pieces have taken");

static int __init mpa_bench_crc_init(void)
{
	unsigned int at = 0, i;
	u64 start;
	u8 *data;
	u32 crc;

	if (!size || size > SZ_64K)
		return -EINVAL;
	data = kzalloc(SZ_64K, GFP_KERNEL);
	if (!data)
		return -ENOMEM;
	crc = crc32c(~0, data, SZ_64K);
	start = ktime_get_ns();
	for (i = 0; i < 1000; i++) {
		if (at + size > SZ_64K)
			at = 0;
		crc ^= crc32c(~0, data + at, size);
		at += size;
	}
	ns = ktime_get_ns() - start;
	pr_debug("%#x\n", crc);
	kfree(data);
	return 0;
}
module_init(mpa_bench_crc_init);

static void __exit mpa_bench_crc_exit(void)
{
}
module_exit(mpa_bench_crc_exit);

MODULE_DESCRIPTION("Cost of the kernel's CRC32c");
MODULE_LICENSE("GPL");
