/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Floor 2: receiving. mpa_rx_read.c reads and verifies FPDUs where they are, and
 * keeps the octets of one that the receive buffer has no room for. mpa_rx.c knows
 * which of them is the current one, and ends the half connection when one is bad.
 * mpa_rx_place.c knows those that are to be had out of order.
 */
#ifndef _MPA_RX_H
#define _MPA_RX_H

#include <linux/types.h>

#include "mpa_framing.h"
#include "mpa_tcp.h"

struct iov_iter;
struct mpa_ctx;

#define MPA_STASH_PAGES		DIV_ROUND_UP(MPA_ANY_FPDU_MAX, PAGE_SIZE)

/* FPDUs whose CRCs are checked together: mpa_crc_together(). */
#define MPA_READ_GOOD_MAX	3

/**
 * struct mpa_stash - the first octets of an FPDU, taken out of TCP's queue
 *		      because its receive buffer is too small for all of it
 * @page:	holds FPDU octets from offset 0 on
 */
struct mpa_stash {
	struct page *page[MPA_STASH_PAGES];
};

/**
 * enum mpa_record_state - what is known of a record
 * @MPA_RECORD_NEW:	only where it begins
 * @MPA_RECORD_KNOWN:	its ULPDU_Length, and so where all of it lies
 * @MPA_RECORD_VERIFIED: its CRC and its markers have been found good
 */
enum mpa_record_state {
	MPA_RECORD_NEW,
	MPA_RECORD_KNOWN,
	MPA_RECORD_VERIFIED
};

/**
 * struct mpa_record - an FPDU that is being received, and the user's progress in
 *		       its ULPDU
 * @pos:	stream position where it begins, beyond 32 bits
 * @fpdu:	its layout, from MPA_RECORD_KNOWN on
 * @state:	enum mpa_record_state
 * @taken:	octets of it that are no longer in TCP's queue
 * @read:	octets of its ULPDU that the user has got
 * @stash:	if not NULL, holds its first @taken octets
 */
struct mpa_record {
	u64			pos;
	struct mpa_fpdu		fpdu;
	enum mpa_record_state	state;
	u32			taken;
	u32			read;
	struct mpa_stash	*stash;
};

/**
 * struct mpa_run - FPDUs side by side, behind a gap when they were found
 * @start:	stream position of the first
 * @placed:	those in front of this have gone to the user
 * @end:	those in front of this are verified; one begins here
 * @records:	how many have gone to the user
 * @waits:	the one that begins at @end waits for order
 * @held:	so many octets from @end on were side by side the last time, or more
 * @looked:	so many markers from @end on need not be looked at
 */
struct mpa_run {
	u32	start;
	u32	placed;
	u32	end;
	u32	records : 31;
	u32	waits : 1;
	u16	held;
	u8	looked;
};

/**
 * struct mpa_place - FPDUs out of order: RFC 5044 section 6
 * @on:		MPA_PLACE is on
 * @again:	octets have arrived that have not been looked at, or not all
 * @full:	FPDUs were left out, as there was no room in @run
 * @stops:	@stop is valid
 * @stop:	stream position where something is wrong: nothing from there on
 *		is handed out before order gets there
 * @skip:	octets in TCP's receive queue that have gone to the user, in front
 *		of the current record
 * @ahead:	records that have gone to the user, behind the current one
 * @tail:	stream position behind all that was out of order the last time, the
 *		FIN included: when what is in front of it is gone TCP has thrown
 *		some away
 * @nr:		entries of @run in use, by position
 * @low:	none of them in front of this has a record for the user
 * @total:	counter for MPA_INFO
 * @rcu:	for freeing
 * @run:	what is known
 *
 * Only stream positions: octets are looked up in TCP's queue each time, and are
 * verified once more when they are handed out, as TCP may have thrown them away
 * in between and got others.
 */
struct mpa_place {
	bool		on;
	bool		again;
	bool		full;
	bool		stops;
	u32		stop;
	u32		skip;
	u32		ahead;
	u32		tail;
	u32		nr;
	u32		low;
	u64		total;
	struct rcu_head	rcu;
	struct mpa_run	run[MPA_PLACE_MAX];
};

/**
 * struct mpa_rx - receiving
 * @format:	how FPDUs are framed: MPA's with markers if we asked for them
 * @info:	MPA_RECVINFO is on
 * @batch:	MPA_RECV_BATCH is on
 * @want_place:	MPA_PLACE is to be on when Full Operation begins
 * @ready:	poll: recvmsg will not wait
 * @asked:	a call has asked for the current record
 * @unasked:	framing that can be switched off: no FPDU begins so, or it is not to be had
 *		without taking octets out of TCP's queue; but nobody has asked for it, and
 *		they may be TCP's own
 * @rtr:	the first FPDU may be one without a ULPDU (RFC 6581)
 * @starved:	TCP has had no memory for a segment of the current FPDU
 * @no_memory:	nor has the stash had any: the work item tries again later
 * @error:	poll: negative errno that ended this half connection, or 0
 * @seq:	TCP's sequence number of stream position 0
 * @end:	behind what had arrived when TCP said so last
 * @cur:	the record that is read next, or in part
 * @place:	those behind a gap, or NULL: MPA_PLACE has never been on
 * @ulpdus:	counter for MPA_INFO; the current ULPDU's order
 * @octets:	counter for MPA_INFO
 * @markers:	counter for MPA_INFO
 *
 * TCP's copied_seq is that of @cur.pos plus @cur.taken less @place->skip, always:
 * where it is not, somebody else has read, and the half connection ends.
 */
struct mpa_rx {
	struct mpa_format	format;
	bool			info;
	bool			batch;
	bool			want_place;
	bool			ready;
	bool			asked;
	bool			unasked;
	bool			rtr : 1;
	bool			starved : 1;
	bool			no_memory : 1;
	int			error;
	u32			seq;
	u32			end;
	struct mpa_record	cur;
	struct mpa_place	*place;
	u64			ulpdus;
	u64			octets;
	u64			markers;
};

/**
 * struct mpa_rx_source - where the octets of an FPDU are
 * @stash:	holds its first octets, or NULL; if they are to be verified or
 *		copied, all of them
 * @at:		in one of TCP's queues, on the first octet that is not in @stash
 */
struct mpa_rx_source {
	const struct mpa_stash	*stash;
	struct mpa_cursor	*at;
};

/**
 * struct mpa_rx_more - whole ULPDUs behind the current one
 * @ulpdus:	how many
 * @octets:	octets of them
 * @markers:	markers of their FPDUs
 * @len:	octets of their FPDUs
 */
struct mpa_rx_more {
	u32 ulpdus;
	u32 octets;
	u32 markers;
	u32 len;
};

/* Its CRC and its markers have been found good. */
static inline bool mpa_record_verified(const struct mpa_record *record)
{
	return record->state == MPA_RECORD_VERIFIED;
}

/* Sequence number of the first of its octets that is still in TCP's queue. */
static inline u32 mpa_record_seq(const struct mpa_rx *rx,
				 const struct mpa_record *record)
{
	return rx->seq + (u32)record->pos + record->taken;
}

/* A stream position at the current record or behind it, beyond 32 bits. */
static inline u64 mpa_rx_position(const struct mpa_rx *rx, u32 pos)
{
	return rx->cur.pos + (u32)(pos - (u32)rx->cur.pos);
}

/* Octets in TCP's receive queue that the user has got, out of order. */
static inline u32 mpa_rx_skip(const struct mpa_rx *rx)
{
	return unlikely(rx->place) ? rx->place->skip : 0;
}

/* Records that the user has got, behind the current one. */
static inline u32 mpa_rx_ahead(const struct mpa_rx *rx)
{
	return unlikely(rx->place) ? rx->place->ahead : 0;
}

/**
 * enum mpa_head - what has come of an FPDU's first octets
 * @MPA_HEAD_MORE:	its ULPDU_Length is not here yet
 * @MPA_HEAD_GOOD:	it is
 * @MPA_HEAD_BAD:	and is one that no FPDU can have
 */
enum mpa_head {
	MPA_HEAD_MORE,
	MPA_HEAD_GOOD,
	MPA_HEAD_BAD
};

/* mpa_rx_read.c */
int mpa_stash_fill(struct mpa_stash **stash, struct mpa_cursor *at, u32 off,
		   u32 len, u32 *filled);
void mpa_stash_free(struct mpa_stash *stash, struct sock *sk);
bool mpa_read_marker(struct mpa_cursor *at, u8 *marker);
enum mpa_head mpa_read_head(const struct mpa_rx_source *from, u32 stashed,
			    u32 have, u64 pos, const struct mpa_rx *rx,
			    bool may_be_empty, struct mpa_fpdu *fpdu);
int mpa_read_fpdu(const struct mpa_rx_source *from,
		  const struct mpa_fpdu *fpdu, bool crc, struct iov_iter *to,
		  u32 n, enum mpa_error *code);
int mpa_read_ulpdu(const struct mpa_rx_source *from,
		   const struct mpa_fpdu *fpdu, u32 taken, u32 first,
		   struct iov_iter *to, u32 n);
int mpa_read_show(const struct mpa_rx_source *from, const struct mpa_fpdu *fpdu,
		  u32 taken, u32 first, u32 n,
		  int (*show)(void *arg, const u8 *data, u32 len), void *arg);
u32 mpa_read_good(const struct mpa_rx *rx, const u8 *data, u32 have, u32 pos,
		  struct mpa_fpdu *fpdu);
u32 mpa_read_many(const struct mpa_rx *rx, struct mpa_cursor *at, u32 pos,
		  u32 have, struct iov_iter *to, size_t octets, u32 *lengths,
		  u32 max, struct mpa_rx_more *more);

/**
 * enum mpa_rx_taken - what has become of a record that was handed out
 * @MPA_RX_NONE:	there was none
 * @MPA_RX_MORE:	it was taken
 * @MPA_RX_ENOUGH:	it was taken, and no more shall come now
 * @MPA_RX_NOT_TAKEN:	it was not, and is the current record still
 */
enum mpa_rx_taken {
	MPA_RX_NONE,
	MPA_RX_MORE,
	MPA_RX_ENOUGH,
	MPA_RX_NOT_TAKEN
};

/**
 * typedef mpa_rx_take_fn - takes a record that is verified
 * @ctx:	the context, whose current record it is
 * @fpdu:	its FPDU
 * @data:	the octets of that, side by side
 */
typedef enum mpa_rx_taken (*mpa_rx_take_fn)(struct mpa_ctx *ctx,
					    const struct mpa_fpdu *fpdu,
					    const u8 *data);

/* mpa_rx.c */
void mpa_rx_begin_source(struct mpa_ctx *ctx, struct mpa_cursor *at,
			 struct mpa_rx_source *from);
int mpa_rx_read(struct mpa_ctx *ctx, const struct mpa_rx_source *from,
		struct iov_iter *to, u32 n);
bool mpa_rx_complete(struct mpa_ctx *ctx);
bool mpa_rx_deliverable(struct mpa_ctx *ctx);
void mpa_rx_advance(struct mpa_ctx *ctx, u32 n, const struct mpa_rx_more *more);
enum mpa_rx_taken mpa_rx_take_side(struct mpa_ctx *ctx, mpa_rx_take_fn take);
int mpa_rx_make_room(struct mpa_ctx *ctx);
int mpa_rx_end(struct mpa_ctx *ctx);
void mpa_rx_update(struct mpa_ctx *ctx);
void mpa_rx_arrived(struct mpa_ctx *ctx);
void mpa_rx_set_start(struct mpa_ctx *ctx);
bool mpa_rx_start_unread(const struct mpa_ctx *ctx);
void mpa_rx_begin(struct mpa_ctx *ctx);
void mpa_rx_discard(struct mpa_ctx *ctx);
int mpa_rx_drain(struct mpa_ctx *ctx);
void mpa_rx_free(struct mpa_ctx *ctx);

/* mpa_rx_place.c */
void mpa_search_arrived(struct sock *sk);
bool mpa_search_look(struct mpa_ctx *ctx);
void mpa_search_walk(struct mpa_ctx *ctx);
int mpa_place_set(struct mpa_ctx *ctx, bool on);
void mpa_place_look_again(struct mpa_ctx *ctx, bool forget);
void mpa_place_clear(struct mpa_ctx *ctx);
void mpa_place_free(struct mpa_ctx *ctx);
bool mpa_place_ready(struct mpa_ctx *ctx);
bool mpa_place_first(struct mpa_ctx *ctx, struct mpa_cursor *at,
		     struct mpa_fpdu *fpdu);
void mpa_place_gone(struct mpa_ctx *ctx);
void mpa_place_refuse(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu);
void mpa_place_advance(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		       const struct mpa_rx_more *more);
u32 mpa_place_behind(const struct mpa_place *place);
u32 mpa_place_gap(const struct mpa_place *place, u32 pos, u32 len);
void mpa_place_pass(struct mpa_ctx *ctx);

/* So many of @len octets from @pos on are in front of what the user has got. */
static inline u32 mpa_rx_gap(const struct mpa_rx *rx, u32 pos, u32 len)
{
	return unlikely(rx->place) ? mpa_place_gap(rx->place, pos, len) : len;
}

#endif /* _MPA_RX_H */
