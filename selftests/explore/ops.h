/* SPDX-License-Identifier: GPL-2.0 */
/* Operations that the judge uses as well. */
#ifndef _EXPLORE_OPS_H
#define _EXPLORE_OPS_H

int take(struct world *w, long room, int how);
int give(struct world *w, long len, int how);
void elsewhere(void);
int say_record(struct world *w, long len);
int op_kill(struct world *w, long arg);

#endif /* _EXPLORE_OPS_H */
