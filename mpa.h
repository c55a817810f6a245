/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the floors of the module share.
 *
 * Locks
 * -----
 * Everything in struct mpa_ctx belongs to the socket lock: process context
 * takes it with lock_sock(), TCP's softirq side and the backlog call
 * sk_data_ready with it held. The exceptions are marked "poll": they are
 * written under the lock with WRITE_ONCE() and read without it.
 *
 * No pointer into a TCP queue is kept when the lock is dropped, and it is
 * dropped in more places than one sees: waiting does it, and so does handing
 * data to TCP, which may work off the backlog. What is kept are stream
 * positions and lengths.
 *
 * Lifetime
 * --------
 * mpa_init() makes the context under the socket lock and publishes it in
 * icsk_ulp_data together with the replaced operations. Callbacks are replaced
 * when MPA starts, so a listening socket, on which they are called without its
 * lock, keeps its own. mpa_close() takes all of them back under the lock, then,
 * without it, ends the work item and calls TCP's own close. Only then is the
 * context freed, after a grace period. A system call holds a reference to the
 * file, and close runs when the last one is gone, so it never races with them;
 * what it can meet is the work item (stopped with cancel_delayed_work_sync(),
 * the "closing" flag keeps it from being armed again) and softirqs (they see
 * either our sk_data_ready and the context, or TCP's own: both change under the
 * lock that they hold).
 *
 * The work item takes the socket lock only if nobody has it. A user may hold it
 * for as long as he likes, by letting a page fault under it, and one workqueue
 * serves all sockets. If somebody has it, mpa_op_release_cb() lets the work item
 * run again when the lock is released.
 *
 * If TCP has no memory then for octets that a send has accepted, the socket
 * goes to a struct socket of ours ("linger"), and the work item does the rest
 * of mpa_close() once TCP has taken them: nobody else is left to meet it.
 *
 * A socket is attached before it listens. It hands its context's parameters,
 * which never change, to the children that mpa_clone() makes in softirq, without
 * the listener's lock and under RCU. A child belongs to nobody until it is
 * accepted: until then it has no struct socket, so no work is done for it
 * ("unaccepted"), and TCP may destroy it without a close: then mpa_release() frees
 * its context. Whoever accepts it, release_cb is the first to see that it has a
 * struct socket, and lets the work item begin with startup.
 *
 * mpa_ops.c says who holds references to the module, and for how long.
 */
#ifndef _MPA_H
#define _MPA_H

#include <linux/bvec.h>
#include <linux/uio.h>
#include <linux/workqueue.h>
#include <net/sock.h>
#include <net/inet_connection_sock.h>

#include "compat.h"
#include "mpa_delay.h"
#include "mpa_proto.h"
#include "mpa_tcp.h"

struct mpa_ctx;
struct mpa_table;

/* Wait before memory is asked for again that was not to be had. */
#define MPA_RETRY_DELAY		(HZ / 20 + 1)

/*
 * Fragments of the longest FPDU: pages but for a few octets at their ends, and
 * the first, the last, and one at which it leaves the task's pages may be short.
 */
#define MPA_TX_FRAGS		(DIV_ROUND_UP(MPA_FPDU_MAX, PAGE_SIZE - 64) + 3)
/* Fragments of FPDUs that are handed to TCP together, to share an skb. */
#define MPA_SKB_FRAGS		min_t(u32, mpa_skb_frags_max(), MPA_TX_FRAGS)
#define MPA_STASH_PAGES		DIV_ROUND_UP(MPA_FPDU_MAX, PAGE_SIZE)

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

#define MPA_SPLIT_NOT		U32_MAX

/**
 * struct mpa_txbuf - octets on their way to TCP
 * @frag:	where they are; each entry holds a page reference
 * @nr:		entries of @frag in use
 * @room:	octets that @frag has room for
 * @len:	octets filled in
 * @sent:	octets that TCP has taken
 * @split:	a segment starts with this one, which TCP has not been told yet,
 *		or MPA_SPLIT_NOT
 * @slot:	where those go that are FPDUs
 * @cur:	entry of @frag where octet @len goes
 * @cur_off:	and how far into it
 * @own:	the page that an open ULPDU has to itself, if it has one
 * @charged:	octets that count for the socket as if they were TCP's
 * @forced:	they do so beyond a limit
 *
 * @room and the length of each fragment are multiples of 4, so that no marker
 * and no CRC field is cut by the end of a fragment.
 */
struct mpa_txbuf {
	struct bio_vec	frag[MPA_TX_FRAGS];
	u32		nr;
	u32		room;
	u32		len;
	u32		sent;
	u32		split;
	struct mpa_slot	slot;
	u32		cur;
	u32		cur_off;
	struct page_frag own;
	u32		charged;
	bool		forced;
};

/**
 * struct mpa_txbuf_mark - how far struct mpa_txbuf was
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
 * enum mpa_admitted - what a connection in startup counts as
 * @MPA_ADMITTED_NOT:	nothing: it is not in startup
 * @MPA_ADMITTED_INITIATOR: an initiator
 * @MPA_ADMITTED_SILENT: a responder that has heard nothing
 * @MPA_ADMITTED_BEGUN: a responder that has heard a part of a request
 */
enum mpa_admitted {
	MPA_ADMITTED_NOT,
	MPA_ADMITTED_INITIATOR,
	MPA_ADMITTED_SILENT,
	MPA_ADMITTED_BEGUN
};

/**
 * struct mpa_admission - a connection's place among those in startup
 * @list:	with others of its kind at its port, the oldest first
 * @ctx:	its context
 * @since:	jiffies when it became what @as says
 * @as:		enum mpa_admitted
 * @gate:	which of mpa_policy.c's gates it came through
 * @ousted:	another has got its place
 *
 * Its own lock is mpa_policy.c's.
 */
struct mpa_admission {
	struct list_head	list;
	struct mpa_ctx		*ctx;
	unsigned long		since;
	u8			as;
	u8			gate;
	bool			ousted;
};

/**
 * struct mpa_params - how to start: struct mpa_start, checked
 * @role:	enum mpa_role
 * @revision:	of MPA
 * @private_len: octets in @private
 * @flags:	MPA_START_*
 * @ird:	inbound RDMA Read queue depth
 * @ord:	outbound RDMA Read queue depth
 * @timeout:	jiffies for the startup phase, 0: what the namespace says
 * @urgent_kept: mpa_tcp_skip_urgent() is due
 * @admission:	the connection's place while it is in startup
 * @rcu:	for freeing
 * @private:	private data
 */
struct mpa_params {
	u8		role;
	u8		revision;
	u16		private_len;
	u32		flags;
	u16		ird;
	u16		ord;
	bool		urgent_kept;
	unsigned long	timeout;
	struct mpa_admission admission;
	struct rcu_head	rcu;
	u8		private[] __counted_by(private_len);
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
 * struct mpa_tx - sending
 * @marked:	the peer wants markers
 * @crc:	CRCs are generated
 * @finished:	no more will be sent
 * @fin_due:	by shutdown(2), and TCP has to be told when it has all of @out
 * @wait:	poll: enum mpa_tx_wait
 * @packing:	user: short FPDUs may share a segment
 * @oversize:	user: a ULPDU may be longer than MULPDU
 * @seq_known:	@seq is valid
 * @starved:	poll: a call has ended for lack of memory
 * @lingerer:	after close(2): whose count it is on, see mpa_linger.c
 * @rtr_due:	a zero-length FPDU has to go out before all others
 * @segment:	user: octets of a ULPDU, or MPA_SEGMENT_*
 * @seq:	sequence number that follows what TCP was given by us
 * @pos:	stream position of the next FPDU, or of the open one
 * @ulpdu_len:	octets of the open ULPDU so far
 * @largest:	octets of the largest FPDU in @out
 * @same_len:	octets of the last FPDU
 * @same:	how many of that length there were in a row
 * @out:	the FPDUs being made, or what TCP has not taken of them;
 *		allocated with the first one
 * @fit:	the MSS
 * @window:	the peer's window
 * @watch:	which segments start with an FPDU
 * @tail_emss:	EMSS by which TCP's queue was laid out, 0: with an FPDU that is
 *		larger
 * @tail_used:	octets in its last segment
 * @ulpdus:	counter for MPA_INFO
 * @octets:	counter for MPA_INFO
 * @markers:	counter for MPA_INFO
 */
struct mpa_tx {
	bool			marked;
	bool			crc;
	bool			finished;
	bool			fin_due;
	u8			wait;
	bool			packing;
	bool			oversize;
	bool			seq_known;
	bool			starved;
	bool			rtr_due;
	u8			lingerer;
	int			segment;
	u32			seq;
	u32			pos;
	u32			ulpdu_len;
	u32			largest;
	u32			same_len;
	u32			same;
	struct mpa_txbuf	*out;
	struct mpa_fit		fit;
	struct mpa_window	window;
	struct mpa_watch	watch;
	u32			tail_emss;
	u32			tail_used;
	u64			ulpdus;
	u64			octets;
	u64			markers;
};

/**
 * struct mpa_stash - the first octets of an FPDU, taken out of TCP's queue
 *		      because its receive buffer is too small for the whole
 * @page:	holds FPDU octets from offset 0 on
 */
struct mpa_stash {
	struct page *page[MPA_STASH_PAGES];
};

/**
 * struct mpa_rx - receiving
 * @marked:	we asked for markers
 * @crc:	CRCs are checked
 * @rtr:	the first FPDU may be one without a ULPDU (RFC 6581)
 * @info:	MPA_RECVINFO is on
 * @batch:	MPA_RECV_BATCH is on
 * @known:	@fpdu is valid: its ULPDU_Length is here
 * @verified:	its CRC and markers have been found good
 * @ready:	poll: recvmsg will not wait
 * @starved:	TCP has had no memory for a segment of the current FPDU
 * @error:	poll: negative errno that ended this half connection, or 0
 * @seq:	TCP's sequence number of stream position 0
 * @end:	behind what had arrived when TCP said so last
 * @taken:	octets of the current FPDU that are no longer in TCP's queue
 * @read:	octets of its ULPDU that the user has got
 * @pos:	stream position of the current FPDU, beyond 32 bits
 * @fpdu:	the current FPDU
 * @stash:	if not NULL, holds its first @taken octets
 * @ulpdus:	counter for MPA_INFO; the current ULPDU's order
 * @octets:	counter for MPA_INFO
 * @markers:	counter for MPA_INFO
 *
 * @taken octets in front of TCP's copied_seq lies @pos, always: where it does
 * not, somebody else has read, and the half connection ends.
 */
struct mpa_rx {
	bool			marked;
	bool			crc;
	bool			rtr;
	bool			info;
	bool			batch;
	bool			known;
	bool			verified;
	bool			ready;
	bool			starved;
	int			error;
	u32			seq;
	u32			end;
	u32			taken;
	u32			read;
	u64			pos;
	struct mpa_fpdu		fpdu;
	struct mpa_stash	*stash;
	u64			ulpdus;
	u64			octets;
	u64			markers;
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

/**
 * struct mpa_ctx - what MPA knows of a socket
 * @sk:		the socket
 * @table:	its operations before and after attaching
 * @data_ready:	sk_data_ready before attaching
 * @write_space: sk_write_space before attaching
 * @state:	poll: enum mpa_state
 * @role:	enum mpa_role
 * @revision:	revision in use
 * @code:	enum mpa_error for MPA_INFO
 * @want_crc:	C in the startup frame sent
 * @may_send:	poll: RFC 5044 section 7.1.2 rule 4 is met
 * @closing:	mpa_close() has begun; no work any more
 * @unaccepted:	not accepted yet
 * @put_off:	release_cb lets the work item run; written with the spinlock
 *		of the socket lock held
 * @restarts:	a signal has interrupted MPA_START before it had a result
 * @told:	a call that waited has been told what startup failed with
 * @enhanced:	IRD and ORD were negotiated
 * @startup_error: poll: negative errno that startup ended with
 * @deadline:	jiffies when startup must be over, or @linger
 * @params:	how startup goes; on a listening socket, that of its children,
 *		read under RCU; freed when startup is over
 * @ird:	agreed on
 * @ord:	agreed on
 * @control:	MPA_START_P2P and MPA_START_RTR_* agreed on
 * @peer:	the peer's startup frame
 * @peer_private: its private data, enhanced data included
 * @have_peer:	@peer is valid
 * @passthrough:	calls of TCP's own that are under way
 * @linger:	has the socket after close(2), until TCP has taken all
 * @tx:		sending
 * @rx:		receiving
 * @work:	all that must not be done in softirq
 * @rcu:	for freeing
 */
struct mpa_ctx {
	struct sock		*sk;
	struct mpa_table	*table;
	void			(*data_ready)(struct sock *sk);
	void			(*write_space)(struct sock *sk);

	u8			state;
	u8			role;
	u8			revision;
	u8			code;
	bool			want_crc;
	bool			may_send;
	bool			closing;
	bool			unaccepted;
	bool			put_off;
	bool			restarts : 1;
	bool			told : 1;
	bool			enhanced;
	bool			have_peer;
	u32			passthrough;
	int			startup_error;
	u16			ird;
	u16			ord;
	u32			control;
	struct mpa_frame	peer;
	unsigned long		deadline;
	struct mpa_params __rcu	*params;
	u8			*peer_private;
	struct socket		*linger;

	struct mpa_tx		tx;
	struct mpa_rx		rx;

	struct delayed_work	work;
	struct rcu_head		rcu;
};

/* A ULPDU is being put together. */
static inline bool mpa_tx_open(const struct mpa_tx *tx)
{
	return READ_ONCE(tx->wait) == MPA_WAIT_ULPDU;
}

static inline bool mpa_tx_held(const struct mpa_tx *tx)
{
	return READ_ONCE(tx->wait) == MPA_WAIT_BATCH;
}

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
 * mpa_ctx() - the context of a socket
 * @sk:	socket
 *
 * Context: socket lock held, or inside a system call on the socket.
 * Return: NULL for a socket that MPA is not attached to, or no longer.
 */
static inline struct mpa_ctx *mpa_ctx(const struct sock *sk)
{
	return (__force struct mpa_ctx *)inet_csk(sk)->icsk_ulp_data;
}

/**
 * mpa_params() - how startup goes
 * @ctx:	the context
 *
 * Context: socket lock held.
 */
static inline struct mpa_params *mpa_params(struct mpa_ctx *ctx)
{
	return rcu_dereference_protected(ctx->params,
					 lockdep_sock_is_held(ctx->sk));
}

/**
 * mpa_in_work_item() - nobody waits for what is done
 *
 * So nobody can be told of a lack of memory, nor killed for it. And as one
 * workqueue serves all sockets, a control group at its limit is not waited for.
 */
static inline bool mpa_in_work_item(void)
{
	return current->flags & PF_WQ_WORKER;
}

/**
 * mpa_gfp() - flags to allocate what counts for a socket's control group
 * @sk:	socket
 *
 * The work item gets it as softirq does: a group at its limit neither sleeps nor
 * reclaims, and may go beyond it.
 */
static inline gfp_t mpa_gfp(const struct sock *sk)
{
	gfp_t gfp = mpa_in_work_item() ? GFP_ATOMIC | __GFP_NOWARN :
					 sk->sk_allocation;

	return gfp | __GFP_ACCOUNT;
}

/**
 * mpa_copy_to_user() - copy octets of a packet to a program
 * @to:		where they go
 * @from:	where they are: in an skb, or in a page of ours
 * @n:		how many
 *
 * copy_to_user() without the check of hardened usercopy that they stay within
 * one object: done for each piece of each FPDU it costs more than the copy. Of
 * the pages that most octets lie in it knows no more than the size; that they
 * belong to the skb, whoever shows them to the caller has seen to: mpa_tcp.c
 * goes by the lengths of skbs and fragments, mpa_stash.c by pages.
 *
 * Context: process.
 * Return: how many octets are missing at the end.
 */
static inline unsigned long mpa_copy_to_user(void __user *to, const void *from,
					     unsigned long n)
{
	return _copy_to_user(to, from, n);
}

/**
 * mpa_iter_span() - where the next octets of a program's buffer are
 * @iter:	the buffer
 * @n:		set to how many octets lie there side by side
 *
 * For mpa_copy_to_user() and _copy_from_user(): what copy_to_iter() has to look
 * at for each piece is a tenth of all work if the pieces are FPDUs.
 *
 * Return: NULL if they are in no program's memory, or if there are none: behind
 * the last octet there may be no iovec.
 */
static inline void __user *mpa_iter_span(const struct iov_iter *iter, size_t *n)
{
	const struct iovec *iov;

	*n = iov_iter_count(iter);
	if (!*n)
		return NULL;
	if (iter_is_ubuf(iter))
		return iter->ubuf + iter->iov_offset;
	if (!iter_is_iovec(iter))
		return NULL;
	iov = iter_iov(iter);
	*n = min(*n, iov->iov_len - iter->iov_offset);
	return iov->iov_base + iter->iov_offset;
}

/* The same if the next @n octets lie side by side, else NULL. */
static inline void __user *mpa_iter_user(const struct iov_iter *iter, size_t n)
{
	size_t run;
	void __user *user = mpa_iter_span(iter, &run);

	return n <= run ? user : NULL;
}

/* What was at mpa_iter_span() has been copied. */
static inline void mpa_iter_skip(struct iov_iter *iter, size_t n)
{
	if (iter_is_ubuf(iter) || n == iter->count ||
	    n < iter_iov(iter)->iov_len - iter->iov_offset) {
		iter->iov_offset += n;
		iter->count -= n;
	} else {
		iov_iter_advance(iter, n);
	}
}

/* For poll: with a state go the errno and the octets that led to it. */
static inline u8 mpa_poll_state(const struct mpa_ctx *ctx)
{
	/* Pairs with mpa_startup_wake(). */
	return smp_load_acquire(&ctx->state);
}

/* The startup phase is not over; until it is, there are no records. */
static inline bool mpa_starting(const struct mpa_ctx *ctx)
{
	u8 state = READ_ONCE(ctx->state);

	return state == MPA_STATE_STARTUP || state == MPA_STATE_REQUESTED;
}

/* Octets on the wire are no longer the user's own: frames or FPDUs. */
static inline bool mpa_started(const struct mpa_ctx *ctx)
{
	switch (READ_ONCE(ctx->state)) {
	case MPA_STATE_IDLE:
	case MPA_STATE_REJECTED:
		return false;
	default:
		return true;
	}
}

/* ---- the tables of operations: mpa_ops.c ---- */

int mpa_hook_attach(struct mpa_ctx *ctx);
int mpa_hook_callbacks(struct mpa_ctx *ctx);
void mpa_hook_detach(struct mpa_ctx *ctx);
void mpa_hook_exit(void);
void mpa_hook_adopt(struct mpa_ctx *ctx);
void mpa_hook_hold_text(const struct sock *sk);
bool mpa_hook_clone(struct sock *child, struct mpa_ctx *ctx);
void mpa_hook_forget(struct sock *sk);
bool mpa_hook_keep(struct mpa_ctx *ctx);
void mpa_hook_free_keeper(struct socket *keeper);
int mpa_ops_base_setsockopt(struct sock *sk, int level, int name,
			    sockptr_t val, unsigned int len);
int mpa_ops_base_getsockopt(struct sock *sk, int level, int name,
			    char __user *val, int __user *len);
void mpa_ops_base_shutdown(struct sock *sk, int how);
void mpa_ops_abort(struct mpa_ctx *ctx, int err);
void mpa_ops_stop_listening(struct mpa_ctx *ctx);
void mpa_ops_base_state_change(struct mpa_ctx *ctx);
void mpa_ops_base_close(struct mpa_table *table, struct sock *sk, long timeout);

/* ---- floor 2: engines ---- */

/* mpa_agree.c */
int mpa_agree_judge(const struct mpa_params *params,
		    const struct mpa_frame *startup);
u32 mpa_agree_rtr(u32 ours, u32 theirs, u16 ird);
u16 mpa_agree_limit(u16 ours, u16 theirs);
u16 mpa_agree_depth(u16 depth, u32 control);
void mpa_agree_reply(const struct mpa_params *params,
		     const struct mpa_params *ours,
		     const struct mpa_enhanced *theirs, bool reject,
		     struct mpa_enhanced *reply);

/* mpa_startup.c */
int mpa_startup_begin(struct mpa_ctx *ctx, struct mpa_params *params,
		      bool nonblock);
void mpa_startup_inherit(struct mpa_ctx *ctx, struct mpa_params *params);
void mpa_startup_adopted(struct mpa_ctx *ctx);
void mpa_startup_accepted(struct mpa_ctx *ctx);
int mpa_startup_decide(struct mpa_ctx *ctx, struct mpa_params *reply,
		       bool reject);
int mpa_startup_progress(struct mpa_ctx *ctx);
void mpa_startup_abort(struct mpa_ctx *ctx, int err);
void mpa_startup_heard(struct mpa_ctx *ctx);
bool mpa_startup_shutdown(struct mpa_ctx *ctx);
void mpa_startup_reset_came(struct mpa_ctx *ctx);
void mpa_startup_notice_reset(struct mpa_ctx *ctx);
int mpa_startup_wait(struct mpa_ctx *ctx, long *timeo);
void mpa_startup_uncount(struct mpa_ctx *ctx);
void mpa_startup_free(struct mpa_ctx *ctx);

/* mpa_startup_io.c */
int mpa_startup_send(struct mpa_ctx *ctx, enum mpa_frame_kind kind, u8 flags,
		     const struct mpa_enhanced *enhanced, const u8 *private,
		     u16 private_len);
u8 mpa_startup_flags(struct mpa_ctx *ctx);
int mpa_startup_request(struct mpa_ctx *ctx);
enum mpa_frame_verdict mpa_startup_peek_frame(struct mpa_ctx *ctx,
					  struct mpa_frame *startup);
int mpa_startup_take(struct mpa_ctx *ctx, const struct mpa_frame *startup);
u32 mpa_startup_rejection(struct mpa_ctx *ctx, struct mpa_frame *startup);
bool mpa_startup_bad(struct mpa_ctx *ctx);
bool mpa_startup_fpdu_at(struct mpa_ctx *ctx, u32 off, u8 flags);

/* mpa_pages.c */
bool mpa_pages_refill(struct sock *sk, struct page_frag *frag, u32 len);
unsigned long mpa_pages_held(void);
int mpa_pages_init(void);
void mpa_pages_exit(void);

/* mpa_txbuf.c */
void mpa_txbuf_reset(struct mpa_txbuf *out);
void mpa_txbuf_mark(const struct mpa_txbuf *out, struct mpa_txbuf_mark *mark);
void mpa_txbuf_rewind(struct mpa_txbuf *out, const struct mpa_txbuf_mark *mark);
int mpa_txbuf_reserve(struct mpa_ctx *ctx, u32 len);
u8 *mpa_txbuf_span(struct mpa_ctx *ctx, struct page_frag *page, u32 len);
int mpa_txbuf_commit(struct mpa_ctx *ctx, struct page_frag *page, u32 len);
u8 *mpa_txbuf_tail(struct mpa_txbuf *out, u32 *run);
void mpa_txbuf_advance(struct mpa_txbuf *out, u32 n);
u32 mpa_txbuf_memory(const struct mpa_txbuf *out);
u32 mpa_txbuf_crc(struct mpa_txbuf *out, u32 at);

/* mpa_make.c */
int mpa_make_append(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		    struct iov_iter *from, u32 n, bool last);
u32 mpa_make_equal(struct mpa_ctx *ctx, u32 len, u32 ulpdu_len,
		   struct iov_iter *from, u32 octets, u32 max);

/* mpa_align.c */
void mpa_align_begin(struct mpa_ctx *ctx, struct mpa_slot *slot, u32 emss);
void mpa_align_resume(struct mpa_ctx *ctx, struct mpa_slot *slot, u32 len);
void mpa_align_retry(struct mpa_ctx *ctx);
bool mpa_align_fits(const struct mpa_tx *tx, const struct mpa_slot *slot,
		    u32 len);
void mpa_align_break(struct mpa_slot *slot);
void mpa_align_given(struct mpa_ctx *ctx, const struct mpa_slot *slot, u32 len);

/* mpa_handover.c */
void mpa_tx_drop_out(struct mpa_ctx *ctx);
int mpa_tx_hand_over(struct mpa_ctx *ctx, enum mpa_push push);
int mpa_tx_push(struct mpa_ctx *ctx);
int mpa_tx_flush(struct mpa_ctx *ctx, enum mpa_push push);
bool mpa_tx_may_hold(const struct mpa_tx *tx);
void mpa_tx_hold(struct mpa_ctx *ctx);
int mpa_tx_flush_held(struct mpa_ctx *ctx, enum mpa_push push);
void mpa_tx_retry(struct mpa_ctx *ctx);
void mpa_tx_end_call(struct mpa_ctx *ctx, bool more);
void mpa_tx_end_batch(struct mpa_ctx *ctx, bool more);

/* mpa_tx.c */
int mpa_sendmsg(struct mpa_ctx *ctx, struct msghdr *msg, size_t size);
int mpa_tx_frame(struct mpa_ctx *ctx, const u8 *frame, u32 len);
void mpa_tx_rtr(struct mpa_ctx *ctx);
u32 mpa_tx_mulpdu(struct mpa_ctx *ctx, u32 *emss);
void mpa_tx_restore_options(struct mpa_ctx *ctx, bool mss);
void mpa_tx_reapply_options(struct mpa_ctx *ctx);
void mpa_tx_inherit(struct mpa_tx *tx, const struct mpa_tx *listener);
void mpa_tx_reset(struct mpa_ctx *ctx);
void mpa_tx_begin(struct mpa_ctx *ctx);
void mpa_tx_write_space(struct mpa_ctx *ctx);
bool mpa_tx_finish(struct mpa_ctx *ctx, long *timeo);
void mpa_tx_drop(struct mpa_ctx *ctx);
void mpa_tx_free(struct mpa_ctx *ctx);

/* mpa_rx.c */
int mpa_rx_head(struct mpa_ctx *ctx, struct mpa_cursor *at, u64 pos,
		u32 have, struct mpa_fpdu *fpdu);
int mpa_rx_check(struct mpa_ctx *ctx, const struct mpa_fpdu *fpdu,
		 struct mpa_cursor *at, struct iov_iter *to, u32 n);
u32 mpa_rx_read_many(struct mpa_ctx *ctx, struct mpa_cursor *at, u32 have,
	       struct iov_iter *to, size_t octets, u32 *lengths, u32 max,
	       struct mpa_rx_more *more);
int mpa_rx_copy(struct mpa_ctx *ctx, struct iov_iter *to, u32 n);
bool mpa_rx_complete(struct mpa_ctx *ctx);
void mpa_rx_advance(struct mpa_ctx *ctx, u32 n, const struct mpa_rx_more *more);
int mpa_rx_make_room(struct mpa_ctx *ctx);
int mpa_rx_end(struct mpa_ctx *ctx);
void mpa_rx_update(struct mpa_ctx *ctx);
void mpa_rx_arrived(struct mpa_ctx *ctx);
void mpa_rx_set_start(struct mpa_ctx *ctx);
bool mpa_rx_start_unread(const struct mpa_ctx *ctx);
void mpa_rx_begin(struct mpa_ctx *ctx);
u8 mpa_rx_code(const struct mpa_ctx *ctx);
void mpa_rx_discard(struct mpa_ctx *ctx);
int mpa_rx_drain(struct mpa_ctx *ctx);
void mpa_rx_free(struct mpa_ctx *ctx);

/* mpa_stash.c */
int mpa_stash_fill(struct mpa_stash **stash, struct sock *sk, u32 off, u32 len,
		   u32 *filled);
int mpa_stash_walk(const struct mpa_stash *stash, u32 off, u32 len,
		   mpa_walk_fn fn, void *arg);
void mpa_stash_free(struct mpa_stash *stash, struct sock *sk);

/* mpa_recvmsg.c */
int mpa_recvmsg(struct mpa_ctx *ctx, struct msghdr *msg, size_t len,
		   int flags);
u32 mpa_recvmsg_inq(struct mpa_ctx *ctx);

/* ---- floor 3: face ---- */

/* mpa_linger.c */
bool mpa_linger_enter(struct mpa_ctx *ctx);
void mpa_linger_leave(const struct mpa_ctx *ctx);

/* mpa_policy.c */
int mpa_policy_init(void);
void mpa_policy_exit(void);
bool mpa_policy_crc_optional(const struct sock *sk);
unsigned long mpa_policy_timeout(const struct sock *sk);
bool mpa_policy_enter_startup(struct mpa_ctx *ctx,
			      struct mpa_admission *admission);
void mpa_policy_heard(struct mpa_admission *admission);
void mpa_policy_leave_startup(struct mpa_admission *admission);
void mpa_policy_startups(const struct net *net, unsigned int *now,
			 unsigned long *ousted);

/* mpa_stat.c */
int mpa_stat_init(void);
void mpa_stat_exit(void);
void mpa_stat_sent(const struct sock *sk, u32 aligned, u32 unaligned,
		   enum mpa_cut cut);

/* mpa_core.c */
void mpa_close(struct sock *sk, long timeout);
void mpa_data_ready(struct sock *sk);
void mpa_write_space(struct sock *sk);
void mpa_state_change(struct sock *sk);
__poll_t mpa_poll_mask(const struct mpa_ctx *ctx, u8 state, __poll_t mask);
void mpa_schedule_work(struct mpa_ctx *ctx, unsigned long delay);
void mpa_schedule_work_of(struct mpa_ctx *ctx);

/* mpa_sockopt.c */
int mpa_setsockopt(struct sock *sk, int level, int name, sockptr_t val,
		   unsigned int len);
int mpa_getsockopt(struct sock *sk, int level, int name, char __user *val,
		   int __user *len);

#endif /* _MPA_H */
