// SPDX-License-Identifier: GPL-2.0
/*
 * Places that hot.so sees the guest pass. In a file of their own, so that they
 * are called and not part of their callers; and each unlike the others, of
 * which the compiler would otherwise make one.
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
