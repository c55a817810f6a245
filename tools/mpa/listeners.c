// SPDX-License-Identifier: GPL-2.0
/* Find the listening sockets in /proc/net/tcp. */
#include "tool.h"
#include "conn.h"

#include <stdio.h>

#define STATE_LISTEN	0x0a
#define LINE_MAX_LEN	512

static void listener_seen(struct conns *conns, __u64 inode)
{
	for (size_t i = 0; i < conns->n; i++)
		if (conn_has(&conns->list[i], MPA_A_CONN_INODE) &&
		    conn_value(&conns->list[i], MPA_A_CONN_INODE) == inode)
			conns->list[i].listens = true;
}

static void listeners_read(struct conns *conns, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[LINE_MAX_LEN];
	unsigned int state;
	__u64 inode;

	if (!file)
		return;
	/* fields: sl, local, remote, st, queues, timer, retransmits, uid, timeout, inode */
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %*s %*s %*s %x %*s %*s %*s %*s %*s %llu", &state,
			   &inode) != 2)
			continue;
		/* Listening sockets come first in the file. */
		if (state != STATE_LISTEN)
			break;
		listener_seen(conns, inode);
	}
	fclose(file);
}

/* Read the file only if a connection could be a listener. */
void conns_listeners(struct conns *conns)
{
	bool any = false;

	for (size_t i = 0; i < conns->n; i++)
		any |= conn_is_alone(&conns->list[i]) &&
		       conn_value(&conns->list[i], MPA_A_CONN_STATE) == MPA_STATE_IDLE;
	if (!any)
		return;
	listeners_read(conns, "/proc/net/tcp");
	listeners_read(conns, "/proc/net/tcp6");
}
