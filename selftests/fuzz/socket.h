/* SPDX-License-Identifier: GPL-2.0 */
/* The socket fuzzer: interfaces of what runs inputs and of what chooses them. */
#ifndef _FUZZ_SOCKET_H
#define _FUZZ_SOCKET_H

#include <linux/types.h>

#define INPUT_MAX	256

struct input {
	u32 len;
	u8 octets[INPUT_MAX];
};

/* execution.c */
extern unsigned long fulls, records;	/* in Full Operation; both ways */

int execute_begin(void);
const char *execute(const struct input *input);

/* tuf_execution.c: the same for a socket that will use TUF, with its peer @raw */
const char *execute_tuf(const u8 *octets, u32 len, int raw, int fd);

/* socket.c: a call has ended in some state, as a number above 0 */
void ended_as(unsigned long how);

#endif /* _FUZZ_SOCKET_H */
