// SPDX-License-Identifier: GPL-2.0
/*
 * Functions whose calls hot.so sees. They are in a separate file, so that the compiler does not
 * inline them. Each differs from the others, so that the compiler does not merge them.
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
