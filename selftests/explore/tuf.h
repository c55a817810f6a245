/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The explorer of TUF: a connection of which one end has the ULP "tuf", the other is
 * plain TCP, whose octets a model makes and checks.
 */
#ifndef _EXPLORE_TUF_H
#define _EXPLORE_TUF_H

#include <pthread.h>
#include <sys/epoll.h>

#include <linux/tuf.h>

#include "mpa_test.h"
#include "sequence.h"

#define STREAM_MAX	(768 << 10)
#define SPANS_MAX	24
#define SEGMENTS_MAX	4096
#define AHEAD_MAX	40
#define PERIOD		128
#define HOW_NO_EOR	0x40000000	/* nobody has seen MSG_EOR */

/* One call in a thread of its own. */
enum job_kind { JOB_NONE, JOB_RECV, JOB_SEND };

struct job {
	enum job_kind kind;
	pthread_t thread;
	int fd;
	u8 mode;		/* of its direction */
	bool done;
	bool noted;
	u32 len;
	ssize_t ret;
	int err;
	u8 buf[4096];
};

/* What is known of an octet that was sent. */
#define MARK_END	1	/* a ULPDU ends with it */
#define MARK_CUT	2	/* maybe */
#define MARK_ALONE	4	/* it begins an FPDU: packing was off */
#define MARK_SEGMENT	8	/* it begins a segment: TUF_SEGMENTS */

/* And of one that has come to the peer. */
#define WIRE_PLAIN	0
#define WIRE_BEGIN	1	/* an FPDU begins with it, or framing has ended */
#define WIRE_INSIDE	2

/**
 * struct span - octets of @sent that are framed in one way
 * @mode:	enum tuf_mode
 * @keyed:	@key is known: given, read, or that of the first FPDU
 * @key:	of the FPDUs
 * @period:	of markers
 * @from:	the first octet
 */
struct span {
	u8 mode;
	bool keyed;
	u8 key[TUF_KEY_LEN];
	u32 period;
	u32 from;
};

/* A segment that has left the socket that is tested. */
struct segment {
	u32 at;
	u32 len;
	bool again;		/* it, or a part of it, had left before */
	bool closed;		/* the socket was */
};

/**
 * struct ahead - an FPDU whose octets came before those in front of it
 * @at:		octets of @wrote that will be in front of it
 * @len:	octets of ULPDUs; each has another number of them
 * @octets:	of the FPDU
 * @here:	it can be found, and if not @maybe will be
 * @taken:	it was delivered out of order
 * @waits:	for order, as a buffer was too short for it
 */
struct ahead {
	u32 at;
	u32 len;
	u32 octets;
	bool here;
	bool maybe;
	bool taken;
	bool waits;
};

enum verdict { NOTHING, PART, WHOLE, BAD, BAD_PART };

/**
 * struct world - a connection, and what is known of it
 * @s:		the socket that is tested, -1: none any more
 * @raw:	the peer, -1: none any more
 * @ep:		epoll on @s, edge-triggered, for who reads; @ep_out: for who writes
 * @mask:	what poll said last
 * @squeezed:	the receive buffer is small
 * @mtu:	that of lo was changed
 * @fin:	the peer has ended its half
 * @ended:	the connection was reset
 * @shut:	local shutdown: bits 1 (read), 2 (write)
 * @due:	an errno that has to be told, once
 * @due_maybe:	it need not be
 * @spans:	how what was sent is framed; the last one is that of now
 * @told:	the key that will be sent, or is, cannot be read (any more)
 * @next_known:	@next_key was read
 * @sent:	octets that send() has accepted, what they are is in @mark
 * @open:	the last of them that are in an open ULPDU
 * @kept:	a ULPDU may be held for a batch
 * @known:	MULPDU as it was read last, or told
 * @got:	octets that the peer has received, what they are is in @wire
 * @rx_mode:	enum tuf_mode
 * @rx_key:	what TUF_RX has said, if @rx_keyed
 * @rx_at:	octets of @wrote that were read
 * @rx_begin:	where framing began
 * @failed:	receiving has ended with EBADMSG
 * @over:	receiving has said 0
 * @wrote:	octets from the peer
 * @rest:	octets that the peer has yet to send, maybe forged already
 * @cur:	the record that is read in part
 */
struct world {
	int s, raw, ep, ep_out;
	u32 mask;
	struct job *job;
	bool squeezed, mtu, fin, ended, was_closed;
	u8 shut;
	int due, times_told;
	bool due_maybe;
	const char *teller;

	struct span spans[SPANS_MAX];
	u32 nspans;
	bool told, next_known;
	u8 next_key[TUF_KEY_LEN];
	u32 sent_len, open, got_len;
	bool packing_off, oversize, kept, tells_emss, fuzzy_tx;
	u32 known;
	u64 ulpdus, tx_octets;

	u8 rx_mode;
	bool rx_keyed;
	u8 rx_key[TUF_KEY_LEN];
	u32 rx_period, rx_at, rx_begin;
	bool failed, over, place, batch, tells, fuzzy_rx;
	u64 rx_fpdus, rx_octets;
	u32 wrote_len, rest_at, rest_left;
	bool cur_valid;
	u32 cur_len, cur_wire, cur_read;
	u64 cur_at;
	u32 ahead_nr;
	struct ahead ahead[AHEAD_MAX];

	bool isn_known;
	u32 isn, left;		/* octets that have left */
	u32 nsegments;
	u8 cur[70000];
	u8 rest[140000];
	struct segment segments[SEGMENTS_MAX];
	u8 wrote[STREAM_MAX];
	u8 sent[STREAM_MAX];
	u8 mark[STREAM_MAX];
	u8 got[STREAM_MAX];
	u8 wire[STREAM_MAX];
};

static inline struct span *span_now(struct world *w)
{
	return w->spans + w->nspans - 1;
}

static inline bool busy(const struct world *w, enum job_kind kind)
{
	return w->job && w->job->kind == kind && !w->job->noted;
}

static const u8 key_peer[TUF_KEY_LEN] = { 0xa1, 0x5b, 0x3c, 0xd4, 0x77, 0x0e };
static const u8 key_other[TUF_KEY_LEN] = { 0x0f, 0x91, 0xb2, 0x3d, 0xe4, 0x55 };
static const u8 key_mine[TUF_KEY_LEN] = { 0xc3, 0x18, 0x6d, 0x72, 0xe9, 0xf6 };

extern const struct op tuf_send_ops[], tuf_recv_ops[], tuf_set_ops[], tuf_peer_ops[];
extern const int tuf_send_ops_nr, tuf_recv_ops_nr, tuf_set_ops_nr, tuf_peer_ops_nr;
extern int file_fd;
extern u16 tuf_port;

/* tuf.c */
int job_begin(struct world *w, enum job_kind kind, u32 len);
bool job_wait(struct world *w, int ms);
void judge_edge(struct world *w, bool woken);
void judge_job(struct world *w);
int lo_mtu(int mtu);

/* tuf_send.c */
struct tuf_info info_now(const struct world *w);
int give(struct world *w, u32 len, int how);
void gave(struct world *w, ssize_t n, int err, int how);

/* tuf_recv.c */
int take(struct world *w, u32 room, int how);

/* tuf_peer.c */
int peer_say(struct world *w, const u8 *octets, u32 len);
int peer_record(struct world *w, u32 len);
int peer_text(struct world *w, long len);
void peer_read(struct world *w);
bool all_here(const struct world *w);

/* tuf_model.c */
enum verdict next_record(struct world *w);
u32 fpdu_make(const struct world *w, u64 position, const u8 *octets, u32 len,
	      const u8 *key, u8 *fpdu);
void pass_placed(struct world *w);
struct ahead *ahead_at(struct world *w, u32 at);
u32 judge_sent(struct world *w, bool all);

/* tuf_judge.c */
void judge_told(struct world *w, int err, const char *by);
void judge_plain(struct world *w, const u8 *buf, u32 n, int how);
void judge_octets(struct world *w, const u8 *buf, u32 n, bool eor, int how);
void judge_placed(struct world *w, u64 position, const u8 *buf, u32 n, int how);
void judge_end(struct world *w, ssize_t n, int err);
void judge_info(struct world *w);
bool ahead_beyond(const struct world *w);
bool ahead_too_long(const struct world *w, u32 room);
void judge_nothing_placed(struct world *w, u32 room, bool looked);

/* tuf_wire.c */
int wire_open(void);
void wire_read(struct world *w);
void judge_wire(struct world *w);

#endif /* _EXPLORE_TUF_H */
