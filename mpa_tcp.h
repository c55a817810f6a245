/* SPDX-License-Identifier: GPL-2.0 */
/* Floor 1: what the files mpa_tcp*.c know of TCP, for the floors above. */
#ifndef _MPA_TCP_H
#define _MPA_TCP_H

#include <linux/skbuff.h>
#include <net/sock.h>

struct mpa_ctx;
struct mpa_txbuf;
struct tcphdr;

/**
 * struct mpa_tail - the last skb of TCP's send queue
 * @open:	it is unsent, and what TCP is given next goes into it; if not,
 *		nothing else is valid
 * @len:	its octets
 * @frags:	its fragments
 */
struct mpa_tail {
	bool	open;
	u32	len;
	u32	frags;
};

/**
 * enum mpa_cut - why a segment starts elsewhere than with an FPDU
 * @MPA_CUT_NOT:	it does start with one
 * @MPA_CUT_OVERSIZED:	its FPDU is larger than EMSS
 * @MPA_CUT_WINDOW:	TCP has cut one at the edge of the peer's receive
 *			window, or to probe it
 * @MPA_CUT_OTHER:	EMSS has changed, or something else
 * @MPA_CUTS:		how many there are
 */
enum mpa_cut {
	MPA_CUT_NOT,
	MPA_CUT_OVERSIZED,
	MPA_CUT_WINDOW,
	MPA_CUT_OTHER,
	MPA_CUTS
};

/**
 * struct mpa_watch - which segments start with an FPDU
 * @seq:	sequence number of the octet that leaves next for the first time
 * @fpdu:	and of the first FPDU that has not begun before it, or whose
 *		length is not known yet
 * @pos:	stream position of @fpdu
 * @len:	octets of the FPDU in front of @fpdu
 * @options:	octets of options that the last two packets had, beside those
 *		that all have and SACK blocks: AccECN, BPF
 * @options_seen: what the last one had; that of a DSACK among them
 * @high:	first octet of ULPDU_Length, when a packet has ended behind it
 * @cut:	enum mpa_cut: why @seq is not the first octet of an FPDU
 * @packets:	counter for MPA_INFO
 * @aligned:	counter for MPA_INFO
 * @unaligned:	counter for MPA_INFO
 */
struct mpa_watch {
	u32	seq;
	u32	fpdu;
	u32	pos;
	u32	len;
	u8	options;
	u8	options_seen;
	u8	high;
	u8	cut;
	u64	packets;
	u64	aligned;
	u64	unaligned;
};

/**
 * struct mpa_fit - the MSS, made a multiple of what FPDUs are long
 * @unit:	what FPDUs are long, in octets
 * @emss:	EMSS that came of it
 * @end:	sequence number behind the last octets that another MSS would
 *		have TCP cut elsewhere
 * @less:	octets by which we have lowered the MSS
 * @ext_hdr_len: TCP's variable by which we have, as we left it
 */
struct mpa_fit {
	u32	unit;
	u32	emss;
	u32	end;
	u16	less;
	u16	ext_hdr_len;
};

/**
 * enum mpa_push - what TCP does with octets that it is given
 * @MPA_PUSH_NOT:	it keeps them, if it can; mpa_tcp_push() follows
 * @MPA_PUSH_FULL:	it sends full segments
 * @MPA_PUSH_ALL:	it sends all it has
 */
enum mpa_push {
	MPA_PUSH_NOT,
	MPA_PUSH_FULL,
	MPA_PUSH_ALL
};

/**
 * struct mpa_window - how the edge of the peer's window is minded
 * @corked:	TCP is corked for it, or for @more
 * @more:	the user has said that more follows
 * @pushed:	TCP has been told to send what it has
 * @since:	sequence number where the call or the batch begins
 * @lent:	tasks that set TCP's options, which are the user's meanwhile
 */
struct mpa_window {
	bool	corked;
	bool	more;
	bool	pushed;
	u32	since;
	u32	lent;
};

typedef int (*mpa_walk_fn)(void *arg, const u8 *data, u32 len);

/**
 * struct mpa_cursor - a place in TCP's receive queue
 * @sk:		the socket
 * @skb:	where in its queue the place was looked for last; never behind it
 * @part:	@skb, or one of its fragment list
 * @seq:	sequence number of the next octet
 * @start:	octets of @skb in front of the piece
 * @piece:	of @part: 0 is the linear part, n is fragment n - 1
 * @data:	the next octets, @left of which lie side by side
 * @left:	0: not looked up
 *
 * With it, passing over a queue costs the same in one walk and in many.
 */
struct mpa_cursor {
	struct sock	*sk;
	struct sk_buff	*skb;
	struct sk_buff	*part;
	u32		seq;
	u32		start;
	int		piece;
	u32		left;
	const u8	*data;
};

/* mpa_tcp.c */
bool mpa_tcp_listening(const struct sock *sk);
bool mpa_tcp_may_listen(const struct sock *sk);
bool mpa_tcp_may_attach(const struct sock *sk);
bool mpa_tcp_has_listened(const struct sock *sk);
bool mpa_tcp_repaired(const struct sock *sk);
bool mpa_tcp_sending(const struct sock *sk);
bool mpa_tcp_connected(const struct sock *sk);
bool mpa_tcp_gone(const struct sock *sk);
bool mpa_tcp_input_ended(const struct sock *sk);
bool mpa_tcp_peer_ended(const struct sock *sk);
bool mpa_tcp_peer_left(const struct sock *sk);
bool mpa_tcp_may_linger(const struct sock *sk);
void mpa_tcp_reset_on_close(struct sock *sk);
void mpa_tcp_abort(struct sock *sk, const struct proto *base, int err);
bool mpa_tcp_try_lock(struct sock *sk, bool *put_off);
void mpa_tcp_unlock(struct sock *sk);
void mpa_tcp_wake_writers(struct sock *sk);
int mpa_tcp_wait(struct mpa_ctx *ctx, long *timeo,
		 bool (*done)(const struct mpa_ctx *ctx));
u32 mpa_tcp_inq(const struct sock *sk);
bool mpa_tcp_window_closed(const struct sock *sk);
bool mpa_tcp_window_short(const struct sock *sk);
u32 mpa_tcp_copied_seq(const struct sock *sk);
bool mpa_tcp_reads_at(const struct sock *sk, u32 seq);
u32 mpa_tcp_rcv_nxt(const struct sock *sk);
bool mpa_tcp_forget_urgent(struct sock *sk);
bool mpa_tcp_keep_urgent(struct sock *sk);
void mpa_tcp_skip_urgent(struct sock *sk);
void mpa_tcp_busy_poll(struct sock *sk, bool nonblock);
void mpa_tcp_acknowledge(struct sock *sk);
void mpa_cursor_begin(struct mpa_cursor *at, struct sock *sk);
void mpa_cursor_seek(struct mpa_cursor *at, u32 off);
void mpa_cursor_skip(struct mpa_cursor *at, u32 len);
int mpa_cursor_walk(struct mpa_cursor *at, u32 len, mpa_walk_fn fn, void *arg);
bool mpa_cursor_map(struct mpa_cursor *at, u32 len);
u32 mpa_tcp_consume(struct sock *sk, u32 len);

/* mpa_tcp_mem.c */
bool mpa_tcp_schedule(struct sock *sk, int size);
void mpa_tcp_force(struct sock *sk, int size);
void mpa_tcp_set_fin_aside(struct sock *sk);
int mpa_tcp_charge(struct sock *sk, struct mpa_txbuf *out, u32 octets);
void mpa_tcp_uncharge(struct sock *sk, struct mpa_txbuf *out);
void mpa_tcp_pass_charge(struct sock *sk, struct mpa_txbuf *out);
void mpa_tcp_charge_rest(struct sock *sk, struct mpa_txbuf *out);
bool mpa_tcp_short_of_memory(struct sock *sk);
void mpa_tcp_set_aside(struct sock *sk, int size);
void mpa_tcp_charge_pages(struct sock *sk, u32 size);
void mpa_tcp_uncharge_pages(struct sock *sk, u32 size);

/* mpa_tcp_out.c */
u32 mpa_tcp_emss(struct sock *sk);
void mpa_tcp_fit(struct sock *sk, struct mpa_fit *fit, u32 unit);
u32 mpa_tcp_emss_now(const struct sock *sk);
u32 mpa_tcp_other_options(const struct sock *sk, const struct tcphdr *th);
u32 mpa_tcp_unsent(const struct sock *sk);
u32 mpa_tcp_unacked(const struct sock *sk);
void mpa_tcp_tail(const struct sock *sk, struct mpa_tail *tail);
void mpa_tcp_unfit(struct sock *sk, struct mpa_fit *fit);
void mpa_tcp_uncork(struct sock *sk, struct mpa_window *window);
void mpa_tcp_push(struct sock *sk, struct mpa_window *window, bool more);
void mpa_tcp_end_segment(struct sock *sk);
void mpa_tcp_split(struct sock *sk, u32 seq, u32 len);
u32 mpa_tcp_packet_max(struct sock *sk);
u32 mpa_tcp_room(const struct sock *sk, const struct mpa_txbuf *out);
bool mpa_tcp_writable(struct sock *sk);
bool mpa_tcp_user_corks(const struct sock *sk, const struct mpa_window *window);
bool mpa_tcp_want_writable(struct sock *sk);
void mpa_tcp_write_space(struct sock *sk, const struct mpa_txbuf *open,
			 void (*write_space)(struct sock *sk));
void mpa_tcp_fail(struct sock *sk, int err);
int mpa_tcp_send(struct sock *sk, struct mpa_txbuf *out,
		 struct mpa_window *window, enum mpa_push push);
u32 mpa_tcp_frags(const struct mpa_txbuf *out);
u32 mpa_tcp_frag_room(const struct mpa_txbuf *out, u32 frags);
u32 mpa_tcp_write_seq(const struct sock *sk);

/* mpa_tcp_watch.c */
void mpa_tcp_watch(struct sock *sk, struct mpa_watch *watch);
void mpa_tcp_unwatch(struct sock *sk);

/**
 * mpa_cursor_data() - the next octets, if they lie side by side
 * @at:		where
 * @len:	how many
 *
 * Context: as mpa_cursor_begin().
 * Return: NULL if they do not, or not in memory that is mapped all the time:
 * mpa_cursor_walk() shows them.
 */
static inline const u8 *mpa_cursor_data(struct mpa_cursor *at, u32 len)
{
	return at->left >= len || mpa_cursor_map(at, len) ? at->data : NULL;
}

/* Pass over octets that mpa_cursor_data() has found. */
static inline void mpa_cursor_pass(struct mpa_cursor *at, u32 len)
{
	at->seq += len;
	at->data += len;
	at->left -= len;
}

#endif /* _MPA_TCP_H */
