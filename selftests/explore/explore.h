/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The explorer: sequences of operations on a connection, from a start state,
 * with a model that knows what may come of them.
 */
#ifndef _EXPLORE_H
#define _EXPLORE_H

#include <pthread.h>
#include <sys/epoll.h>

#include "mpa_test.h"
#include "sequence.h"

#define STREAM_MAX	(512 << 10)
#define SEGS_MAX	64
#define STEPS_MAX	16
#define STARTUP_MS	200	/* the startup timeout */
#define HOW_NO_EOR	0x40000000	/* nobody has seen MSG_EOR */
#define AHEAD_MAX	40
#define FLOOD		0x55	/* what a long send of TCP's own consists of */

/* What a part of the stream from the socket to its peer consists of. */
enum seg_kind { SEG_PLAIN, SEG_FLOOD, SEG_FRAME, SEG_RECORDS };

struct seg {
	enum seg_kind kind;
	u32 len;
};

/* One call in a thread of its own. */
enum job_kind { JOB_NONE, JOB_RECV, JOB_SEND, JOB_START, JOB_SENDFILE,
		JOB_ACCEPT, JOB_OTHER };

struct job {
	enum job_kind kind;
	int fd;
	bool started;		/* MPA was, when it began */
	bool began;
	bool done;
	bool noted;
	ssize_t ret;
	int err;
	u8 buf[4096];
};

/**
 * struct ahead - a record whose octets came before those in front of it
 * @at:		stream position of its FPDU
 * @len:	octets, of which no other record has as many
 * @octets:	of its FPDU
 * @here:	it came, and can be found
 * @taken:	it was delivered out of order
 * @waits:	for order, as a buffer was too short for it
 */
struct ahead {
	u64 at;
	u32 len;
	u32 octets;
	bool here;
	bool taken;
	bool waits;
};

/**
 * struct world - a connection, and what is known of it
 * @s:		the socket that is tested, -1: none (yet, or any more)
 * @raw:	the peer made by hand, or -1
 * @extra:	another client of @l, or -1
 * @l:		the listening socket, -1: a listener that all worlds share
 * @o:		another one on the same port
 * @ep:		epoll on @s, edge-triggered
 * @mask:	what poll said last
 * @job:	a blocked call
 * @attached:	@s has the ULP
 * @state:	enum mpa_state, as seen last; -1: not attached
 * @role:	of the last MPA_START that was accepted
 * @batch:	MPA_RECV_BATCH is on
 * @place:	MPA_PLACE is on
 * @tells:	MPA_RECVINFO is on
 * @squeezed:	the receive buffer is small: TCP may throw away what it has
 * @fuzzy:	the model does not know which octets were taken
 * @racing:	and will not, as operations are done at once
 * @wrote:	octets from @raw to @s
 * @plain_got:	how many of them were read before MPA, or between
 * @begin:	where the peer's startup frame begins, or the first FPDU
 * @full_at:	where the first FPDU begins
 * @rx:		the model, behind what has been delivered
 * @framed:	records in front of that, those that were placed among them
 * @cur:	the record that is being read
 * @cur_at:	stream position of its FPDU
 * @ahead:	records that came out of order
 * @sent:	octets of plain data and of records that send() has accepted
 * @segs:	what they are
 * @open:	octets of @sent that are in an open record
 * @due:	an errno that has to be told, once
 * @told:	times that it was
 * @fin:	@raw has sent a FIN
 * @shut:	local shutdown: bits 1 (read), 2 (write)
 * @ended:	the connection was reset, killed or disconnected
 */
struct world {
	int s, raw, extra, l, o, ep, ep_out;
	u32 mask;
	struct job *job;
	bool flood;		/* @job is a long send of TCP's own */
	u64 flood_from;		/* octets acked before a flood */
	u64 flood_most;		/* octets of it that TCP had when MPA began */
	bool stolen;		/* by a call of TCP's own, behind the start */
	bool connects;		/* connect() has yet to say that it has done so */
	bool attached;
	int state;
	u8 role;
	bool old;		/* MPA was started with revision 0 */
	bool batch;
	bool place;
	bool tells;
	bool squeezed;
	bool lowat;
	bool kept;
	bool fuzzy;
	bool racing;
	bool over;
	bool rcv_error;
	bool fin;
	bool ended;
	u8 shut;
	int due;
	int told;
	const char *teller;
	struct peer peer;
	u32 wrote_len;
	u32 plain_got;
	u32 begin;
	u32 full_at;
	bool full_known;
	u32 rx_at;
	u32 framed;
	u64 cur_at;
	u32 ahead_nr;
	struct ahead ahead[AHEAD_MAX];
	bool cur_valid;
	u32 cur_len;
	u32 cur_read;
	u32 half_left;		/* octets of an FPDU that are still to go */
	u32 half_at;
	u32 sent_len;
	u32 open;
	u32 got_len;
	u32 nsegs;
	struct seg segs[SEGS_MAX];
	u64 info_markers;
	u8 half[70000];
	u8 cur[70000];
	u8 wrote[STREAM_MAX];
	u8 sent[STREAM_MAX];
	u8 got[2 * STREAM_MAX];
};

extern const struct op user_ops[], listen_ops[], peer_ops[], crowd_ops[];
extern const struct op ahead_ops[];
extern const int user_ops_nr, listen_ops_nr, peer_ops_nr, crowd_ops_nr;
extern const int ahead_ops_nr;

/* judge.c */
void judge_state(struct world *w);
void judge_plain(struct world *w, const u8 *buf, ssize_t n);
void judge_octets(struct world *w, const u8 *buf, u32 n, bool eor, int how);
void judge_unsaid(struct world *w, const u8 *buf, u32 n);
void judge_end(struct world *w, ssize_t n, int err);
void judge_ordered(struct world *w, const struct mpa_recvinfo *info);
void judge_edge(struct world *w, bool peers);
void judge_job(struct world *w);
void judge_told(struct world *w, int err, const char *by);
u32 judge_sent(struct world *w, bool all);
bool busy(const struct world *w);
void note_sent(struct world *w, enum seg_kind kind, u32 len);

/* ahead.c */
struct ahead *ahead_at(struct world *w, u64 position);
bool ahead_taken_beyond(const struct world *w);
bool ahead_is(struct world *w, const u8 *buf, u32 n, u64 *position);
void judge_placed(struct world *w, u64 position, const u8 *buf, u32 n, int how);
bool ahead_too_long(const struct world *w, u32 room);
void judge_nothing_placed(struct world *w, u32 room, bool looked);

/* crowd.c */
int module_again(void);

/* world.c */
int job_begin(struct world *w, enum job_kind kind, int fd, long arg);
bool job_wait(struct world *w, int ms);
int pair_make(struct world *w, bool small);
int listen_make(int *fd, bool attach, int flags, struct sockaddr_in *addr);
void watch(struct world *w);

/* peer.c */
int peer_say(struct world *w, const u8 *octets, u32 len, int flags);
void peer_read(struct world *w);
int raw_connect(struct sockaddr_in *addr);

#endif /* _EXPLORE_H */
