/* SPDX-License-Identifier: GPL-2.0 */
/* The explorer of MPA, and the races. */
#ifndef _EXPLORE_MPA_H
#define _EXPLORE_MPA_H

#include "world.h"

#define SEGS_MAX	64
#define STARTUP_MS	200	/* the startup timeout */
#define LATE_MS		300	/* maximum time until sent data is at the peer */
#define QUIET_MS	100	/* wait without an arrival, the first time */
#define QUIET_MOST(w)	((w)->squeezed ? 9 : 4)
#define FLOOD		0x55	/* content of a long send of plain TCP */

/* Kinds of parts in the stream from the socket to its peer. */
enum seg_kind { SEG_PLAIN, SEG_FLOOD, SEG_FRAME, SEG_RECORDS };

struct seg {
	enum seg_kind kind;
	u32 len;
};

/**
 * struct world - a connection, and the model's knowledge of it
 * @attached:	@s has the ULP
 * @state:	last known enum mpa_state; -1: not attached
 * @role:	role in the last accepted MPA_START
 * @old:	MPA was started with revision 0
 * @connects:	connect() has not returned success yet
 * @racing:	operations run in parallel, so the model knows nothing
 * @flood:	@job is a long send of plain TCP
 * @flood_from:	octets acknowledged before that send
 * @flood_most:	octets of that send that TCP had when MPA began
 * @plain_got:	octets of @wrote that were read without MPA
 * @begin:	start of the peer's startup frame, or of the first FPDU
 * @info_markers: directions with markers: MPA_INFO_*
 * @segs:	the parts of @sent
 */
struct world {
	bool attached;
	int state;
	u8 role;
	bool old, connects, racing, lowat, flood;
	u64 flood_from, flood_most;
	struct peer peer;
	u32 plain_got;
	u32 begin;
	u64 info_markers;
	u32 nsegs;
	struct seg segs[SEGS_MAX];
	struct connection;
};

extern const struct op user_ops[], listen_ops[], peer_ops[], crowd_ops[];
extern const struct op ahead_ops[];
extern const int user_ops_nr, listen_ops_nr, peer_ops_nr, crowd_ops_nr;
extern const int ahead_ops_nr;

/* mpa.c */
int listen_as(int *fd, bool attach, int flags, struct sockaddr_in *addr);

/* mpa_judge.c */
void judge_state(struct world *w);
void judge_plain(struct world *w, const u8 *buf, ssize_t n);
void judge_unsaid(struct world *w, const u8 *buf, u32 n);
void note_sent(struct world *w, enum seg_kind kind, u32 len);

/* ahead.c */
bool ahead_is(struct world *w, const u8 *buf, u32 n, u64 *position);

/* kill.c */
int op_kill(struct world *w, long arg);

/* ---- specific to MPA, for files shared with TUF ---- */

static inline bool rx_framed(const struct world *w)
{
	return w->state == MPA_STATE_FULL;
}

static inline bool started(const struct world *w)
{
	return w->state > MPA_STATE_IDLE && w->state != MPA_STATE_REJECTED;
}

static inline bool job_framed(const struct world *w, enum job_kind kind)
{
	(void)kind;
	return started(w);
}

/* Whether a request has arrived: poll() reports it, recv() does not. */
static inline bool asked(const struct world *w)
{
	return w->state == MPA_STATE_REQUESTED;
}

static inline bool poll_unsure(const struct world *w)
{
	return w->lowat && w->state != MPA_STATE_FULL;
}

static inline void refresh(struct world *w)
{
	if (w->attached && w->state != MPA_STATE_FULL)
		judge_state(w);
}

/* recv() may return the error again: 0 would mean end of stream. */
#define may_repeat(by)		(!strcmp(by, "recv"))

static inline bool all_read(const struct world *w)
{
	return !w->cur_valid && (w->rx_at == w->wrote_len ||
				 w->plain_got == w->wrote_len);
}

static inline void judge_order(const struct world *w,
			       const struct mpa_recvinfo *info)
{
	if (!(info->valid & MPA_RECVINFO_VALID_ORDER) ||
	    info->order != w->framed)
		violated("record %u in order is said to be %lld", w->framed,
			 info->valid & MPA_RECVINFO_VALID_ORDER ?
			 (long long)info->order : -1ll);
}

static inline void world_clear(struct world *w)
{
	w->state = -1;
}

#define judge_joined(w)		judge_job(w)

/* TUF has functions for these: MPA does not inspect segments, and restores nothing. */
#define pair_attach(w)		0
#define said(w, n)		((void)(n))
#define wire_read(w)		((void)(w))
#define world_over(w)		((void)(w))

#endif /* _EXPLORE_MPA_H */
