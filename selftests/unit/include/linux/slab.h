/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _UNIT_LINUX_SLAB_H
#define _UNIT_LINUX_SLAB_H

#include <linux/types.h>
#include <stdlib.h>

#define GFP_KERNEL	0

static inline void *kmalloc(size_t size, int gfp)
{
	void *memory = malloc(size);

	(void)gfp;
	if (!memory)
		abort();
	return memory;
}

static inline void kfree(void *memory)
{
	free(memory);
}

#endif /* _UNIT_LINUX_SLAB_H */
