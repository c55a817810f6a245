/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engine (layer 2): the startup phase.
 *
 * Unless its comment has a "Context:", a function is called in process context
 * with the socket lock held.
 */
#ifndef _MPA_START_H
#define _MPA_START_H

#include <linux/rcupdate.h>
#include <linux/types.h>

#include "mpa_net.h"
#include "mpa_proto.h"

struct mpa_ctx;

/* Parameters of startup, from a valid struct mpa_start. */
struct mpa_params {
	struct mpa_offer	offer;
	u16			private_len;	/* length of @private */
	unsigned long		timeout;	/* jiffies; 0: default */
	struct mpa_admission	admission;	/* used while in startup */
	u8			private[] __counted_by(private_len);
};

int mpa_startup_prepare(struct mpa_ctx *ctx, const struct mpa_params *params,
			bool nonblock);
bool mpa_startup_for_children(const struct sock *sk,
			      const struct mpa_params *params);
int mpa_startup_begin(struct mpa_ctx *ctx, struct mpa_params *params,
		      bool nonblock);
void mpa_startup_inherit(struct mpa_ctx *ctx, struct mpa_params *params, int err);
int mpa_startup_decide(struct mpa_ctx *ctx, struct mpa_params *reply,
		       bool reject);
void mpa_startup_progress(struct mpa_ctx *ctx);
int mpa_startup_wait(struct mpa_ctx *ctx, long *timeo);
void mpa_startup_forget_peer(struct mpa_ctx *ctx);
void mpa_startup_free(struct mpa_ctx *ctx);
void mpa_startup_set_params(struct mpa_ctx *ctx, struct mpa_params *params);
void mpa_startup_fail(struct mpa_ctx *ctx, int err, enum mpa_error code);
void mpa_startup_ended(struct mpa_ctx *ctx);
void mpa_startup_uncount(struct mpa_ctx *ctx);

#endif /* _MPA_START_H */
