/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engine (layer 2): the startup phase. mpa_start.c has the states; mpa_start_io.c
 * sends and receives the frames, and ends the phase.
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

/* How to start: struct mpa_start, checked */
struct mpa_params {
	struct mpa_offer	offer;
	u16			private_len;	/* octets of @private */
	u8			reset;		/* sk_err when TCP ended, or 0 */
	unsigned long		timeout;	/* jiffies; 0: default */
	struct mpa_admission	admission;	/* while it is in startup */
	u8			private[] __counted_by(private_len);
};

/* mpa_start.c */
int mpa_startup_prepare(struct mpa_ctx *ctx, const struct mpa_params *params,
			bool nonblock);
bool mpa_startup_for_children(const struct sock *sk,
			      const struct mpa_params *params);
int mpa_startup_begin(struct mpa_ctx *ctx, struct mpa_params *params,
		      bool nonblock);
void mpa_startup_inherit(struct mpa_ctx *ctx, struct mpa_params *params, int err);
int mpa_startup_decide(struct mpa_ctx *ctx, struct mpa_params *reply,
		       bool reject);
int mpa_startup_progress(struct mpa_ctx *ctx);
int mpa_startup_wait(struct mpa_ctx *ctx, long *timeo);
void mpa_startup_free(struct mpa_ctx *ctx);

/* mpa_start_io.c */
void mpa_startup_set_params(struct mpa_ctx *ctx, struct mpa_params *params);
void mpa_startup_enter(struct mpa_ctx *ctx, u8 state);
void mpa_startup_done(struct mpa_ctx *ctx, u8 state);
int mpa_startup_malformed(struct mpa_ctx *ctx);
void mpa_startup_report(struct mpa_ctx *ctx, int err);
void mpa_startup_rejected(struct mpa_ctx *ctx);
void mpa_startup_abort(struct mpa_ctx *ctx, int err);
bool mpa_startup_shutdown(struct mpa_ctx *ctx);
void mpa_startup_got_reset(struct mpa_ctx *ctx);
void mpa_startup_notice_reset(struct mpa_ctx *ctx);
int mpa_startup_send(struct mpa_ctx *ctx, enum mpa_frame_kind kind, u8 flags,
		     const struct mpa_enhanced *enhanced, const u8 *private,
		     u16 private_len);
u8 mpa_startup_flags(struct mpa_ctx *ctx);
int mpa_startup_request(struct mpa_ctx *ctx);
enum mpa_frame_verdict mpa_startup_peek_frame(struct mpa_ctx *ctx,
					      struct mpa_frame *frame);
int mpa_startup_take(struct mpa_ctx *ctx, const struct mpa_frame *frame);
void mpa_startup_uncount(struct mpa_ctx *ctx);
bool mpa_startup_fpdu_at(struct mpa_ctx *ctx, u32 off, u8 flags);

#endif /* _MPA_START_H */
