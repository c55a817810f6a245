/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engine (layer 2): receiving. mpa_rx_read.c reads and verifies FPDUs in TCP's queue.
 * mpa_rx.c tracks the current FPDU, stores an FPDU that does not fit into the receive
 * buffer, and ends the half connection at a bad FPDU. mpa_rx_place.c finds FPDUs out of
 * order and tracks their delivery.
 *
 * All functions are called with the socket lock held, in process context or in softirq,
 * unless their comments say otherwise.
 */
#ifndef _MPA_RX_H
#define _MPA_RX_H

#include <linux/types.h>

#include "mpa_framing.h"
#include "mpa_tcp.h"

struct iov_iter;
struct mpa_ctx;

/* Maximum number of FPDUs whose CRCs are checked in parallel. */
#define MPA_READ_GOOD_MAX	3

/* The first octets of an FPDU that is too large for TCP's receive buffer. */
struct mpa_stash {
	struct rcu_head	rcu;
	u32		size;	/* octets allocated and charged to the socket */
	u8		octets[];
};

enum mpa_record_state {
	MPA_RECORD_NEW,		/* only the start is known */
	MPA_RECORD_KNOWN,	/* the layout is known */
	MPA_RECORD_VERIFIED	/* CRC and markers are good */
};

struct mpa_record {
	u64			pos;	/* stream position of its first octet */
	struct mpa_fpdu		fpdu;	/* valid from MPA_RECORD_KNOWN on */
	enum mpa_record_state	state;
	u32			taken;	/* octets removed from TCP's queue */
	u32			read;	/* octets of the ULPDU that were delivered */
	u32			arrived; /* rcv_nxt when TCP last reported octets */
	struct mpa_stash	*stash;	/* the first @taken octets, or NULL */
};

/* Contiguous FPDUs after a gap, as stream positions. */
struct mpa_run {
	u32	start;		/* of the first FPDU */
	u32	placed;		/* end of the FPDUs that the user has received */
	u32	end;		/* end of the verified FPDUs; the next one begins here */
	u32	records : 31;	/* number of FPDUs that the user has received */
	u32	waits : 1;	/* the FPDU at @end is delivered in order only */
	u16	held;		/* at least this many octets follow @end without a gap */
	u8	scanned;	/* number of markers after @end that were read */
};

/**
 * struct mpa_place - FPDUs out of order: RFC 5044 section 6
 * @again:	some octets have not been searched yet
 * @stops:	@stop is valid
 * @stop:	stream position of an error: octets from there on are delivered in
 *		order only
 * @ahead:	number of records after the current one that the user has received
 * @nr:		entries of @run in use, sorted by position
 * @low:	the first entry that may have a record for the user
 * @run:	the runs
 *
 * This struct has no pointers to octets. Each use looks octets up in TCP's queue,
 * and delivery verifies them again, as TCP may have replaced them.
 */
struct mpa_place {
	bool		again;
	bool		stops;
	u32		stop;
	u32		ahead;
	u32		nr;
	u32		low;
	struct mpa_run	run[MPA_PLACE_MAX];
};

/**
 * struct mpa_rx - receive state
 * @format:	how FPDUs are framed; for MPA, with markers if we asked for them
 * @options:	BIT() of MPA_RECVINFO, MPA_RECV_BATCH, MPA_PLACE
 * @ready:	poll: recvmsg will not wait
 * @requested:	a call has requested the current record
 * @unrequested:	TUF, not @requested: wake the reader without a complete record.
 *		The next octets need the stash, or have no valid header and may
 *		be without framing
 * @rtr:	the first FPDU may have no ULPDU (RFC 6581)
 * @starved:	TCP had no memory for a segment of the current FPDU
 * @no_memory:	no memory for the stash either; the work item retries
 * @seq:	TCP's sequence number of stream position 0
 * @cur:	the next record to read; may have been read in part
 * @place:	records after a gap; NULL if MPA_PLACE has never been on
 * @ulpdus:	counter for MPA_INFO. Minus @place->ahead it is the number of
 *		ULPDUs before @cur
 * @octets:	counter for MPA_INFO
 * @markers:	counter for MPA_INFO
 * @placed:	counter for MPA_INFO
 *
 * TCP's copied_seq is @seq + @cur.pos + @cur.taken. It may be less while TCP's
 * queue has records that the user has received out of order. Otherwise a reader
 * has bypassed MPA, and the half connection ends.
 */
struct mpa_rx {
	struct mpa_format	format;
	u16			options;
	bool			ready;
	bool			requested;
	bool			unrequested;
	bool			rtr : 1;
	bool			starved : 1;
	bool			no_memory : 1;
	u32			seq;
	struct mpa_record	cur;
	struct mpa_place	*place;
	u64			ulpdus;
	u64			octets;
	u64			markers;
	u64			placed;
};

/* Totals of whole ULPDUs after the current one. */
struct mpa_rx_more {
	u32 ulpdus;
	u32 octets;
	u32 markers;
	u32 len;	/* octets of their FPDUs */
};

static inline bool mpa_record_verified(const struct mpa_record *record)
{
	return record->state == MPA_RECORD_VERIFIED;
}

/* Return the sequence number of the record's first octet that is still in TCP's queue. */
static inline u32 mpa_record_seq(const struct mpa_rx *rx,
				 const struct mpa_record *record)
{
	return rx->seq + (u32)record->pos + record->taken;
}

/* Extend a stream position at or after the current record to 64 bits. */
static inline u64 mpa_rx_position(const struct mpa_rx *rx, u32 pos)
{
	return rx->cur.pos + (u32)(pos - (u32)rx->cur.pos);
}

/*
 * Return the number of octets at the head of TCP's queue that the user has received out
 * of order.
 */
static inline u32 mpa_rx_skip(const struct mpa_rx *rx, const struct sock *sk)
{
	u32 skip = mpa_record_seq(rx, &rx->cur) - mpa_tcp_copied_seq(sk);

	/* Negative if another reader has consumed octets, or TCP the FIN. */
	return likely((s32)skip <= 0) ? 0 : skip;
}

static inline u32 mpa_rx_ahead(const struct mpa_rx *rx)
{
	return unlikely(rx->place) ? rx->place->ahead : 0;
}

enum mpa_head {
	MPA_HEAD_MORE,	/* its ULPDU_Length has not arrived */
	MPA_HEAD_GOOD,	/* its ULPDU_Length is valid */
	MPA_HEAD_BAD	/* no FPDU can have this ULPDU_Length */
};

/* mpa_rx_read.c */
const u8 *mpa_read_peek(struct mpa_cursor *at, u8 *pieces, u32 len);
enum mpa_head mpa_read_head(const struct mpa_rx *rx, struct mpa_cursor *at,
			    u32 have, u64 pos, struct mpa_fpdu *fpdu);
int mpa_read_fpdu(const struct mpa_rx *rx, struct mpa_cursor *at,
		  const struct mpa_fpdu *fpdu, struct iov_iter *to, u32 n,
		  enum mpa_error *code);
int mpa_read_ulpdu(const struct mpa_rx *rx, struct mpa_cursor *at,
		   const struct mpa_fpdu *fpdu, u32 first, struct iov_iter *to,
		   u32 n);
int mpa_read_show(const struct mpa_rx *rx, struct mpa_cursor *at,
		  const struct mpa_fpdu *fpdu, u32 first, u32 n,
		  int (*show)(void *arg, const u8 *data, u32 len), void *arg);
u32 mpa_read_good(const struct mpa_rx *rx, const u8 *data, u32 have, u32 pos,
		  struct mpa_fpdu *fpdu);
u32 mpa_read_many(const struct mpa_rx *rx, struct mpa_cursor *at, u32 pos,
		  u32 have, struct iov_iter *to, size_t octets, u32 *lengths,
		  u32 max, struct mpa_rx_more *more);

enum mpa_rx_taken {
	MPA_RX_NONE,		/* no record was offered */
	MPA_RX_MORE,		/* the record was taken; offer the next one */
	MPA_RX_ENOUGH,		/* the record was taken; offer no more now */
	MPA_RX_NOT_TAKEN	/* the record is still the current one */
};

/* Called with the current record, verified. @data: the FPDU, contiguous. */
typedef enum mpa_rx_taken (*mpa_rx_take_fn)(struct mpa_ctx *ctx,
					    const struct mpa_fpdu *fpdu,
					    const u8 *data);

/* mpa_rx.c */
void mpa_rx_cursor(struct mpa_ctx *ctx, struct mpa_cursor *at);
int mpa_rx_read(struct mpa_ctx *ctx, struct mpa_cursor *at, struct iov_iter *to,
		u32 n);
bool mpa_rx_complete(struct mpa_ctx *ctx);
bool mpa_rx_deliverable(struct mpa_ctx *ctx);
void mpa_rx_advance(struct mpa_ctx *ctx, u32 n, const struct mpa_rx_more *more);
enum mpa_rx_taken mpa_rx_take_contiguous(struct mpa_ctx *ctx, mpa_rx_take_fn take);
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
void mpa_search_newest(struct mpa_ctx *ctx);
void mpa_search_walk(struct mpa_ctx *ctx);
int mpa_place_set(struct mpa_ctx *ctx, bool on);
void mpa_place_search_again(struct mpa_ctx *ctx, bool forget);
void mpa_place_clear(struct mpa_ctx *ctx);
void mpa_place_free(struct mpa_ctx *ctx);
bool mpa_place_ready(struct mpa_ctx *ctx);
u32 mpa_place_first(struct mpa_ctx *ctx, struct mpa_cursor *at,
		    struct mpa_fpdu *fpdu);
void mpa_place_changed(struct mpa_ctx *ctx);
void mpa_place_refuse(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu);
void mpa_place_advance(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		       const struct mpa_rx_more *more);
u32 mpa_place_gap(const struct mpa_place *place, u32 pos, u32 len);
void mpa_place_pass(struct mpa_ctx *ctx);

static inline bool mpa_rx_places(const struct mpa_rx *rx)
{
	return rx->place && rx->options & BIT(MPA_PLACE);
}

static inline bool mpa_place_full(const struct mpa_place *place)
{
	return place->nr == MPA_PLACE_MAX;
}

/* Return how many of @len octets from @pos on precede the first delivered record. */
static inline u32 mpa_rx_gap(const struct mpa_rx *rx, u32 pos, u32 len)
{
	return unlikely(rx->place) ? mpa_place_gap(rx->place, pos, len) : len;
}

#endif /* _MPA_RX_H */
