/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common to the explorers of MPA and TUF: a connection with one tested end. The other
 * end is plain TCP; a model builds and checks its octets. WORLD_H is the header of one
 * of the explorers, with its struct world: see build.
 */
#ifndef _EXPLORE_WORLD_H
#define _EXPLORE_WORLD_H

#include <pthread.h>
#include <sys/epoll.h>

#include "mpa_test.h"
#include "sequence.h"

#define STREAM_MAX	(768 << 10)
#define AHEAD		5	/* records that arrive ahead at a time */
#define AHEAD_LEN	700
#define AHEAD_MISSING	300	/* octets before them that are missing */
#define AHEAD_MAX	40
#define HOW_NO_EOR	0x40000000	/* MSG_EOR was not seen */

#define USER(name, flags, fn, arg)	{ name, ACTOR_S, flags, fn, arg }
#define PEER(name, fn, arg)		{ "peer." name, ACTOR_PEER, 0, fn, arg }
#define WAY(name, ops)			{ name, false, by_way, (long)(ops) }

/* a call in its own thread */
enum job_kind { JOB_ANY, JOB_RECV, JOB_SEND, JOB_START, JOB_SENDFILE, JOB_ACCEPT };

struct job {
	enum job_kind kind;
	int fd;
	bool framed;		/* the call's direction was framed at its start */
	bool done;
	bool noted;
	const u8 *octets;	/* octets to send */
	u32 len;
	ssize_t ret;
	int err;
	u8 buf[4096];
};

/* an option to set; each program has its own options[] */
struct sockopt {
	int level, name, value;
};

/**
 * struct ahead - an FPDU that arrived ahead of earlier octets
 * @at:		octets of @wrote before it
 * @len:	octets of ULPDUs, unique
 * @octets:	octets of the FPDU
 * @here:	it can be found; @maybe: it may be
 * @taken:	it was delivered out of order
 * @waits:	it waits for order, as a buffer was too short
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

/* State of the stream at the next record's position. */
enum verdict { NOTHING, PART, BAD_PART, WHOLE, BAD, BAD_LENGTH, BAD_CRC, BAD_MARKER };

/**
 * struct connection - a connection, and the model's knowledge of it
 * @s:		the tested socket; -1: none
 * @raw:	the simulated peer, or -1
 * @extra:	another client of @l, or -1
 * @l:		the listening socket; -1: the one that all worlds share
 * @o:		another listener on the same port
 * @ep:		epoll on @s, edge-triggered, for the reader; @ep_out: for the writer
 * @mask:	last result of poll()
 * @job:	a blocked call
 * @squeezed:	the receive buffer is small: TCP may drop octets
 * @fuzzy:	the model does not know which octets were consumed
 * @stolen:	a plain TCP call has consumed octets after the start
 * @fin:	@raw has sent a FIN
 * @ended:	the connection was reset, killed or disconnected
 * @shut:	local shutdown, a bit mask: 1: read, 2: write
 * @due:	an errno that has to be reported, once
 * @due_maybe:	@due need not be reported
 * @told:	number of reports, the last by @teller
 * @batch:	MPA_RECV_BATCH is on
 * @place:	MPA_PLACE is on
 * @tells:	MPA_RECVINFO is on
 * @kept:	a record may be held for a batch
 * @failed:	receiving has ended with EBADMSG
 * @sent_len:	octets that send() has accepted
 * @open:	of these, octets in an open record
 * @got_len:	octets that the peer has received
 * @wrote_len:	octets from the peer
 * @rest_left:	unsent octets of the peer, at @rest_at; some may be forged already
 * @rx_begin:	octets of @wrote before the first FPDU
 * @rx_at:	octets of @wrote that were read
 * @framed:	records before @rx_at, including placed ones
 * @rx_fpdus:	delivered records, with @rx_octets octets
 * @cur:	present record: @cur_len octets, of which @cur_read were read
 * @cur_at:	stream position of its FPDU, which has @cur_wire octets
 * @ahead:	records that arrived out of order
 */
struct connection {
	int s, raw, extra, l, o, ep, ep_out;
	u32 mask;
	struct job *job;
	bool squeezed, fuzzy, stolen, fin, ended;
	u8 shut;
	int due, told;
	bool due_maybe;
	const char *teller;
	bool batch, place, tells, kept, failed;
	u32 sent_len, open, got_len;
	u32 wrote_len, rest_at, rest_left;
	u32 rx_begin, rx_at, framed;
	u64 rx_fpdus, rx_octets;
	bool cur_valid;
	u32 cur_len, cur_wire, cur_read;
	u64 cur_at;
	u32 ahead_nr;
	struct ahead ahead[AHEAD_MAX];
	u8 cur[70000];		/* nothing is cleared from here on */
	u8 rest[140000];
	u8 wrote[STREAM_MAX];
	u8 sent[STREAM_MAX];
	u8 got[1 << 20];
};

/* world.c */
extern int file_fd;
extern struct sockaddr_in common_addr;
int job_begin(struct world *w, enum job_kind kind, int fd, const u8 *octets,
	      u32 len);
bool job_wait(struct world *w, int ms);
bool busy(const struct world *w, enum job_kind kind);
int listen_make(int *fd, struct sockaddr_in *addr);
int raw_connect(struct sockaddr_in *addr);
int common_accept(int fd);
int pair_make(struct world *w, int rcvbuf);
void watch(struct world *w);
int way(struct world *w, const char *names);
int by_way(struct world *w, long names);
int by_way_small(struct world *w, long names);
int connections_begin(void);

/* judge.c */
void judge_reported(struct world *w, int err, const char *by);
void judge_due(struct world *w);
int mask_of(const struct world *w);
void judge_edge(struct world *w, bool woken);
void judge_job(struct world *w);
const char *verdict_name(enum verdict verdict);
enum verdict next_record(struct world *w);
void judge_ordered(struct world *w, const struct mpa_recvinfo *info);
void judge_octets(struct world *w, const u8 *buf, u32 n, bool eor, int how);
void judge_zero(struct world *w, enum verdict verdict);
void pass_placed(struct world *w);
struct ahead *ahead_at(struct world *w, u32 at);
bool ahead_beyond(const struct world *w);
bool ahead_too_long(const struct world *w, u32 room);
void judge_placed(struct world *w, u64 position, const u8 *buf, u32 n, int how);
void judge_nothing_placed(struct world *w, u32 room, bool looked);
bool alive(const struct world *w);
void take_all(struct world *w);
void fill_up(struct world *w, int tries);
void room_comes(struct world *w);
void all_comes(struct world *w);

/* ops.c */
int take_iov(struct world *w, struct iovec *iov, int nr, u8 *buf, u32 room,
	     int how);
int take(struct world *w, u32 room, int how);
int op_recv(struct world *w, long how);
int op_recv_room(struct world *w, long room);
void fill(struct world *w, u32 len);
int op_send(struct world *w, long how);
int op_send_long(struct world *w, long len);
int op_more_long(struct world *w, long len);
int op_option(struct world *w, long nr);
ssize_t send_cut(struct world *w, u32 len, int segment);
ssize_t send_file(struct world *w, off_t off, u32 len);

/* peer.c */
void elsewhere(void);
u8 *rest_room(struct world *w, u32 room);
int say_rest(struct world *w);
int peer_say(struct world *w, const u8 *octets, u32 len, int flags);
void peer_read(struct world *w);
int peer_record(struct world *w, u32 len);
int peer_many(struct world *w, u32 nr, u32 len, u32 more);
int forge_ahead(struct world *w, u32 off, const u8 *octets, u32 len);
int op_fpdu(struct world *w, long len);
int op_half(struct world *w, long len);
int op_fin(struct world *w, long arg);
int op_rst(struct world *w, long arg);
int op_read(struct world *w, long arg);

/*
 * MPA and TUF have different versions of these. WORLD_H has short ones:
 * @rx_framed(): records are received
 * @job_framed(): the direction of a call is framed
 * @refresh(): reads state that may have changed
 */
extern const struct sockopt options[];
void option_is_set(struct world *w, const struct sockopt *option);
int job_other(struct job *job);
void job_over(struct world *w, struct job *job);
u32 fpdu_make(struct world *w, u32 behind, const u8 *octets, u32 len, u8 *fpdu);
enum verdict receive(struct world *w, const u8 *octets, u32 count);
void judge_unframed(struct world *w, const u8 *buf, ssize_t n, int err, int how);
void judge_end(struct world *w, ssize_t n, int err);
u32 judge_sent(struct world *w, bool all);
int give(struct world *w, u32 len, int how);

#endif /* _EXPLORE_WORLD_H */
