// SPDX-License-Identifier: GPL-2.0
/*
 * Places that hot.so sees the guest pass. In a separate file, so that they are
 * called and are not part of their callers; and each differs from the others,
 * as the compiler would otherwise merge them.
 */

#include "traffic.h"

void mark_none(void)
{
	asm volatile("");
}

void mark_both(void)
{
	asm volatile("" : : "r" (1));
}

void mark_send(void)
{
	asm volatile("" : : "r" (2));
}

void mark_recv(void)
{
	asm volatile("" : : "r" (3));
}
