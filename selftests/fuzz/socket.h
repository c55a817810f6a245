/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The socket fuzzer: interfaces between the code that runs inputs and the code that
 * chooses them.
 */
#ifndef _FUZZ_SOCKET_H
#define _FUZZ_SOCKET_H

#include <linux/types.h>

#define INPUT_MAX	256

struct input {
	u32 len;
	u8 octets[INPUT_MAX];
};

/* execution.c */
extern unsigned long fulls, records;	/* connections; records of both directions */

int execute_begin(void);
const char *execute(const struct input *input);

/* tuf_execution.c: as execute(), for a socket that will use TUF, and its peer @raw */
const char *execute_tuf(const u8 *octets, u32 len, int raw, int fd);

/* socket.c: note the way in which a call ended, a number above 0 */
void ended_as(unsigned long how);

#endif /* _FUZZ_SOCKET_H */
