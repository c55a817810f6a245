/* SPDX-License-Identifier: GPL-2.0 */
/* The parts of the kernel's header that the protocol layer uses. */
#ifndef _UNIT_LINUX_KERNEL_H
#define _UNIT_LINUX_KERNEL_H

#include <linux/types.h>

/* As in the kernel, the comparison of addresses rejects mixed types. */
#define min(a, b) ({						\
	__typeof__(a) _min_a = (a);				\
	__typeof__(b) _min_b = (b);				\
	(void)(&_min_a == &_min_b);				\
	_min_a < _min_b ? _min_a : _min_b; })

#define max(a, b) ({						\
	__typeof__(a) _max_a = (a);				\
	__typeof__(b) _max_b = (b);				\
	(void)(&_max_a == &_max_b);				\
	_max_a > _max_b ? _max_a : _max_b; })

#define min_t(type, a, b)	min((type)(a), (type)(b))
#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define max_t(type, a, b)	max((type)(a), (type)(b))

/* @to is a power of two. */
#define round_up(n, to)		((((n) - 1) | ((__typeof__(n))(to) - 1)) + 1)
#define round_down(n, to)	((n) & ~((__typeof__(n))(to) - 1))
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))

#define __aligned(n)		__attribute__((__aligned__(n)))
#define __noreturn		__attribute__((__noreturn__))
#define __printf(a, b)		__attribute__((__format__(printf, a, b)))

#define BUILD_BUG_ON(condition)	((void)sizeof(char[1 - 2 * !!(condition)]))

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

#endif /* _UNIT_LINUX_KERNEL_H */
