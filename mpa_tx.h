/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Floor 2: sending. FPDUs are made in a buffer (mpa_tx_make.c, mpa_tx_buf.c), laid
 * out such that segments start with them and handed to TCP, at once or later
 * (mpa_tx_queue.c). mpa_tx.c decides which FPDUs these are.
 */
#ifndef _MPA_TX_H
#define _MPA_TX_H

#include <linux/types.h>
#include <net/mpa.h>

#include "mpa_framing.h"
#include "mpa_tcp.h"

struct iov_iter;
struct mpa_ctx;
struct msghdr;

/**
 * struct mpa_slot - where the next FPDU goes
 * @emss:	octets of a segment
 * @packet:	octets of full segments that leave as one packet
 * @begun:	octets in the segment that TCP's queue ended with at first
 * @used:	octets in the segment that the last FPDU ends in, 0: the next one
 *		starts one
 * @frags:	fragments of that skb
 * @end:	TCP has to be told that the next FPDU starts a segment
 */
struct mpa_slot {
	u32	emss;
	u32	packet;
	u32	begun;
	u32	used;
	u32	frags;
	bool	end;
};

/**
 * struct mpa_txbuf_mark - how far struct mpa_txbuf was filled
 * @nr:		its member of that name
 * @last:	octets of its last fragment
 * @room:	its member of that name
 * @len:	its member of that name
 * @cur:	its member of that name
 * @cur_off:	its member of that name
 * @own:	its member of that name
 */
struct mpa_txbuf_mark {
	u32	nr;
	u32	last;
	u32	room;
	u32	len;
	u32	cur;
	u32	cur_off;
	struct page_frag own;
};

/**
 * enum mpa_tx_wait - what the octets that TCP has not got wait for
 * @MPA_WAIT_NOT:	there are none
 * @MPA_WAIT_ULPDU:	the rest of a ULPDU that is put together with MSG_MORE
 * @MPA_WAIT_BATCH:	more FPDUs of a batch; the work item ends that
 * @MPA_WAIT_MEMORY:	memory for TCP to take them; the work item tries again
 */
enum mpa_tx_wait {
	MPA_WAIT_NOT,
	MPA_WAIT_ULPDU,
	MPA_WAIT_BATCH,
	MPA_WAIT_MEMORY
};

/**
 * enum mpa_tx_end - whether more will be sent
 * @MPA_TX_GOES_ON:	yes
 * @MPA_TX_FINISHED:	no
 * @MPA_TX_FIN_DUE:	no: by shutdown(2), of which TCP has to be told when it has
 *			taken all octets; the work item does it
 */
enum mpa_tx_end {
	MPA_TX_GOES_ON,
	MPA_TX_FINISHED,
	MPA_TX_FIN_DUE
};

/**
 * struct mpa_tx - sending
 * @format:	how FPDUs are framed: MPA's with markers if the peer wants them
 * @wait:	poll: enum mpa_tx_wait
 * @end:	enum mpa_tx_end
 * @packing:	user: short FPDUs may share a segment
 * @oversize:	user: a ULPDU may be longer than MULPDU
 * @seq_known:	@seq is valid
 * @starved:	poll: a call has ended for lack of memory
 * @rtr_due:	a zero-length FPDU has to go out before all others
 * @segment:	user: octets of a ULPDU, or MPA_SEGMENT_*
 * @seq:	sequence number that follows what TCP was given by us
 * @pos:	stream position of the next FPDU, or of the open one
 * @laps:	times that @pos has gone beyond 32 bits
 * @mss_told:	the path's MSS when FPDUs were made last; a change is told
 * @ulpdu_len:	octets of the open ULPDU so far
 * @largest:	octets of the largest FPDU in @out
 * @same_len:	octets of the last FPDU
 * @same:	how many of that length there were in a row
 * @tail_used:	octets in the last segment of TCP's queue
 * @out:	the FPDUs being made, or what TCP has not taken of them;
 *		allocated with the first one
 * @slot:	where those in @out go
 * @fit:	the MSS
 * @window:	the peer's window
 * @tail_emss:	EMSS by which TCP's queue was laid out, 0: with an FPDU that is
 *		larger
 * @ulpdus:	counter for MPA_INFO
 * @octets:	counter for MPA_INFO
 * @markers:	counter for MPA_INFO
 */
struct mpa_tx {
	struct mpa_format	format;
	u8			wait;
	u8			end;
	bool			packing;
	bool			oversize;
	bool			seq_known : 1;
	bool			rtr_due : 1;
	bool			starved;
	int			segment;
	u32			seq;
	u32			pos;
	u16			laps;
	u16			mss_told;
	u32			ulpdu_len;
	u32			largest;
	u32			same_len;
	u32			same;
	u32			tail_used;
	struct mpa_txbuf	*out;
	struct mpa_slot		slot;
	struct mpa_fit		fit;
	struct mpa_window	window;
	u32			tail_emss;
	u64			ulpdus;
	u64			octets;
	u64			markers;
};

/**
 * struct mpa_tx_call - what one system call sends
 * @msg:	the octets
 * @size:	how many
 * @done:	how many of them are in FPDUs
 * @segment:	octets of a ULPDU, or MPA_SEGMENT_*
 * @headers:	with MPA_SEGMENT_FILL: makes a header for each ULPDU, whose octets
 *		do not count above; or NULL
 * @ends:	with the last of them ends a ULPDU
 * @more:	more ULPDUs follow soon
 * @keep:	TCP may keep them until it gets more
 * @timeo:	jiffies left
 */
struct mpa_tx_call {
	struct msghdr	*msg;
	size_t		size;
	size_t		done;
	int		segment;
	const struct mpa_headers *headers;
	bool		ends;
	bool		more;
	bool		keep;
	long		timeo;
};

/* A ULPDU is being put together. */
static inline bool mpa_tx_open(const struct mpa_tx *tx)
{
	return READ_ONCE(tx->wait) == MPA_WAIT_ULPDU;
}

/* FPDUs of a batch are kept until more of it comes. */
static inline bool mpa_tx_held(const struct mpa_tx *tx)
{
	return READ_ONCE(tx->wait) == MPA_WAIT_BATCH;
}

/* TCP has no memory for octets that have been accepted. */
static inline bool mpa_tx_stuck(const struct mpa_tx *tx)
{
	return READ_ONCE(tx->wait) == MPA_WAIT_MEMORY;
}

static inline void mpa_tx_waits(struct mpa_tx *tx, enum mpa_tx_wait wait)
{
	WRITE_ONCE(tx->wait, wait);
}

/* More FPDUs are to follow soon: for those that wait here, or in TCP. */
static inline bool mpa_tx_in_batch(const struct mpa_tx *tx)
{
	return tx->window.more || mpa_tx_held(tx);
}

/**
 * mpa_align_fits() - an FPDU can follow in the segment, or it starts one
 * @tx:		sending
 * @len:	octets of the FPDU
 */
static inline bool mpa_align_fits(const struct mpa_tx *tx, u32 len)
{
	const struct mpa_slot *slot = &tx->slot;

	if (!slot->used || !mpa_format_aligns(&tx->format))
		return true;
	return tx->packing && mpa_format_shares(&tx->format) &&
	       len <= slot->emss - slot->used;
}

/* Where the next FPDU goes, beyond 32 bits. */
static inline u64 mpa_tx_position_now(const struct mpa_tx *tx)
{
	return (u64)tx->laps << 32 | tx->pos;
}

/* How far sending has got, beyond 32 bits: not far behind a stream position. */
static inline u64 mpa_tx_position(const struct mpa_tx *tx, u64 near)
{
	return near + (u32)(tx->pos - (u32)near);
}

/* mpa_tx.c */
int mpa_tx_make_out(struct mpa_ctx *ctx);
int mpa_tx_frame(struct mpa_ctx *ctx, const u8 *frame, u32 len);
void mpa_tx_rtr(struct mpa_ctx *ctx);
u32 mpa_tx_mulpdu(struct mpa_ctx *ctx, u32 *emss);
u32 mpa_tx_mulpdu_now(const struct mpa_ctx *ctx);
u32 mpa_tx_acked(const struct mpa_ctx *ctx);
int mpa_tx_make_and_send(struct mpa_ctx *ctx, struct mpa_tx_call *call);
void mpa_tx_restore_options(struct mpa_ctx *ctx, bool mss);
void mpa_tx_reapply_options(struct mpa_ctx *ctx);
void mpa_tx_reset(struct mpa_ctx *ctx);
void mpa_tx_begin(struct mpa_ctx *ctx);
void mpa_tx_drop(struct mpa_ctx *ctx);
void mpa_tx_free(struct mpa_ctx *ctx);

/* mpa_tx_make.c */
int mpa_make_append(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		    struct iov_iter *from, u32 n, bool last);
void mpa_make_header(struct mpa_ctx *ctx, const struct mpa_tx_call *call, u32 n);
int mpa_make_more(struct mpa_ctx *ctx, struct iov_iter *from, u32 n);
u32 mpa_make_equal(struct mpa_ctx *ctx, u32 len, u32 ulpdu_len,
		   struct mpa_tx_call *call, u32 octets, u32 max);

/* mpa_tx_buf.c */
void mpa_txbuf_reset(struct mpa_txbuf *out);
void mpa_txbuf_mark(const struct mpa_txbuf *out, struct mpa_txbuf_mark *mark);
void mpa_txbuf_rewind(struct mpa_txbuf *out, const struct mpa_txbuf_mark *mark);
int mpa_txbuf_reserve(struct mpa_ctx *ctx, u32 len);
u8 *mpa_txbuf_span(struct mpa_ctx *ctx, struct page_frag *page, u32 len);
int mpa_txbuf_commit(struct mpa_ctx *ctx, struct page_frag *page, u32 len);
const u8 *mpa_txbuf_at(const struct mpa_txbuf *out, u32 at, u32 *run);
u8 *mpa_txbuf_tail(struct mpa_txbuf *out, u32 *span);
void mpa_txbuf_advance(struct mpa_txbuf *out, u32 n);
u32 mpa_txbuf_memory(const struct mpa_txbuf *out);
u32 mpa_txbuf_crc(struct mpa_txbuf *out, u32 at);

/* mpa_tx_queue.c */
void mpa_align_begin(struct mpa_ctx *ctx, u32 emss);
void mpa_align_break(struct mpa_tx *tx);
void mpa_tx_drop_out(struct mpa_ctx *ctx);
int mpa_tx_hand_over(struct mpa_ctx *ctx, enum mpa_push push);
int mpa_tx_push_stuck(struct mpa_ctx *ctx);
int mpa_tx_flush(struct mpa_ctx *ctx, enum mpa_push push);
bool mpa_tx_may_hold(const struct mpa_tx *tx);
void mpa_tx_hold(struct mpa_ctx *ctx);
int mpa_tx_flush_held(struct mpa_ctx *ctx, enum mpa_push push);
void mpa_tx_retry(struct mpa_ctx *ctx);
void mpa_tx_end_call(struct mpa_ctx *ctx, bool more);
void mpa_tx_end_batch(struct mpa_ctx *ctx, bool more);

#endif /* _MPA_TX_H */
