/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Setting up connections, for the examples. */
#ifndef EXAMPLES_ENDS_H
#define EXAMPLES_ENDS_H

#include <linux/mpa.h>
#include <stddef.h>

/* Each returns a socket, or -1 with errno; flags are MPA_START_* */
int ends_connect(const char *host, const char *port, unsigned int flags);
int ends_listen(const char *port, unsigned int flags);
int ends_accept(int listener);

/* Why receiving has ended: the code of RFC 5044 section 8 */
unsigned int ends_code(int fd);

#endif
