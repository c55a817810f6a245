/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the module mpa_upcalls know of each other. */
#ifndef _UPCALLS_H
#define _UPCALLS_H

#include <linux/bvec.h>
#include <linux/net.h>

#include "mpa_upcalls.h"

#define UPCALLS_PIECES	8192

/**
 * struct upcalls_pages - memory that is sent where it is
 * @piece:	UPCALLS_PIECES, of which each has a reference
 * @nr:		pieces in use
 * @offset:	octets in front of each
 * @slab:	they are of kmalloc()
 */
struct upcalls_pages {
	struct bio_vec *piece;
	u32 nr;
	u32 offset;
	bool slab;
};

int upcalls_send(struct socket *sock, void __user *arg);
int upcalls_cut(struct socket *sock, void __user *arg);
int upcalls_send_pages(struct socket *sock, struct upcalls_pages *pages,
		       void __user *arg);
int upcalls_pages_left(struct upcalls_pages *pages, void __user *arg);
void upcalls_drop_pages(struct upcalls_pages *pages);

#endif /* _UPCALLS_H */
