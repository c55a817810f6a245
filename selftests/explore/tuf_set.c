// SPDX-License-Identifier: GPL-2.0
/* A user's options, queries, and ways to close. */

#include "tuf.h"

/* ---- TUF_TX, TUF_RX ---- */

/* A set of errnos. */
#define MAY(err)	(1ull << ((err) & 63))
#define MAY_NOT_CONN	(MAY(ENOTCONN) | MAY(EPIPE))

struct setting {
	int option;
	u8 mode;
	u32 flags;
	u32 period;
	const u8 *key;
};

static const struct setting settings[] = {
	{ TUF_TX, TUF_OFF },
	{ TUF_TX, TUF_ALIGN, TUF_KEY_GIVEN, 0, key_mine },
	{ TUF_TX, TUF_ALIGN },
	{ TUF_TX, TUF_ALIGN, TUF_KEY_GIVEN | TUF_TELL_EMSS, 0, key_mine },
	{ TUF_TX, TUF_MARKERS, TUF_KEY_GIVEN, PERIOD, key_mine },
	{ TUF_TX, TUF_SEGMENTS },
	{ TUF_TX, TUF_SEGMENTS, TUF_KEY_GIVEN, 0, key_mine },
	{ TUF_RX, TUF_OFF },
	{ TUF_RX, TUF_ALIGN, TUF_KEY_GIVEN, 0, key_peer },
	{ TUF_RX, TUF_ALIGN, TUF_KEY_GIVEN, 0, key_other },
	{ TUF_RX, TUF_ALIGN },
	{ TUF_RX, TUF_MARKERS, TUF_KEY_GIVEN, PERIOD, key_peer },
	{ TUF_RX, TUF_MARKERS, 0, 2 * PERIOD },
	{ TUF_RX, TUF_SEGMENTS },
};

static bool valid(const struct setting *setting)
{
	if (setting->mode != TUF_SEGMENTS)
		return true;
	return setting->option == TUF_TX && !setting->flags;
}

static u64 tx_may(const struct world *w, const struct setting *setting)
{
	u8 now = span_now(w)->mode;

	if (!setting->mode) {
		if (now && (busy(w, JOB_SEND) || w->open))
			return MAY(EBUSY) | (w->ended ? MAY(0) : 0);
		return MAY(0);
	}
	if (now)
		return MAY(EISCONN);
	if (w->ended)
		return MAY_NOT_CONN | (busy(w, JOB_SEND) ? MAY(EBUSY) : 0);
	if (w->shut & 2)
		return w->fin ? MAY_NOT_CONN : MAY(EPIPE);
	return busy(w, JOB_SEND) ? MAY(EBUSY) : MAY(0);
}

static u64 rx_off_may(struct world *w)
{
	enum verdict verdict;

	if (!w->rx_mode)
		return MAY(0);
	verdict = next_record(w);
	if (w->failed)
		return MAY(EBADMSG);
	if (busy(w, JOB_RECV) || w->cur_read || ahead_beyond(w))
		return MAY(EBUSY) | (w->ended ? MAY(EBADMSG) : 0);
	if (verdict == BAD || verdict == BAD_PART || w->ended ||
	    (verdict == PART && (w->fin || w->shut & 1)))
		return MAY(0) | MAY(EBADMSG) | MAY(EBUSY);
	return MAY(0) | (w->squeezed ? MAY(EBUSY) : 0);
}

static u64 rx_may(struct world *w, const struct setting *setting)
{
	bool unread = w->rx_at < w->wrote_len;

	if (!setting->mode)
		return rx_off_may(w);
	if (w->rx_mode)
		return w->rx_mode == setting->mode &&
		       (setting->mode == TUF_ALIGN ||
			w->rx_period == setting->period) ?
		       MAY(0) : MAY(EISCONN);
	if (w->ended || w->shut & 1)
		return MAY_NOT_CONN | (unread ? MAY(0) : 0) |
		       (busy(w, JOB_RECV) ? MAY(EBUSY) : 0);
	if (w->fin && !unread)
		return w->shut & 2 ? MAY_NOT_CONN : MAY(EPIPE);
	return busy(w, JOB_RECV) ? MAY(EBUSY) : MAY(0);
}

static void tx_set(struct world *w, const struct setting *setting)
{
	struct span *old = span_now(w), *new = old + 1;

	if (!setting->mode && !old->mode)
		return;
	w->nspans++;
	memset(new, 0, sizeof(*new));
	new->mode = setting->mode;
	new->period = setting->period;
	new->from = w->sent_len;
	if (!setting->mode) {
		if (old->mode == TUF_SEGMENTS)
			return;
		w->key_reported = false;
		w->next_known = false;
		return;
	}
	w->reports_emss = setting->flags & TUF_TELL_EMSS;
	w->known = info_now(w).mulpdu;
	if (setting->mode == TUF_SEGMENTS)
		return;
	if (setting->key) {
		w->key_reported = true;
		memcpy(w->next_key, setting->key, TUF_KEY_LEN);
	}
	new->keyed = setting->key || w->next_known;
	memcpy(new->key, w->next_key, TUF_KEY_LEN);
	w->next_known = new->keyed;
}

static void rx_set(struct world *w, const struct setting *setting)
{
	u32 i;

	if (!setting->mode) {
		w->rx_mode = TUF_OFF;
		return;
	}
	w->rx_keyed = setting->key;
	if (setting->key)
		memcpy(w->rx_key, setting->key, TUF_KEY_LEN);
	/* The time of the search decides whether this record is found. */
	for (i = 0; i < w->ahead_nr; i++)
		w->ahead[i].maybe = true;
	if (w->rx_mode)
		return;
	w->rx_mode = setting->mode;
	w->rx_period = setting->period;
	w->rx_begin = w->rx_at;
	w->cur_valid = false;
}

static int op_framing(struct world *w, long arg)
{
	const struct setting *setting = settings + arg;
	bool tx = setting->option == TUF_TX;
	struct tuf_framing framing = {
		.mode = setting->mode, .flags = setting->flags,
		.period = setting->period,
	};
	int err = 0;
	u64 may;

	if (w->nspans == SPANS_MAX)
		return -ENOBUFS;
	if (setting->key)
		memcpy(framing.key, setting->key, TUF_KEY_LEN);
	if (!valid(setting))
		may = MAY(EINVAL);
	else
		may = tx ? tx_may(w, setting) : rx_may(w, setting);
	if (setsockopt(w->s, SOL_MPA, setting->option, &framing, sizeof(framing)))
		err = errno;
	if (!(may & MAY(err)))
		violated("TUF_%s to mode %u is %s, in mode %u", tx ? "TX" : "RX",
			 setting->mode, err ? strerror(err) : "accepted",
			 tx ? span_now(w)->mode : w->rx_mode);
	if (!err && tx)
		tx_set(w, setting);
	else if (!err)
		rx_set(w, setting);
	return -err;
}

static int op_key(struct world *w, long room)
{
	int err = 0, is = room < TUF_KEY_LEN ? EINVAL : w->key_reported ? ENODATA : 0;
	struct span *span = span_now(w);
	u8 key[TUF_KEY_LEN] = "";
	socklen_t len = room;

	if (getsockopt(w->s, SOL_MPA, TUF_TX_KEY, key, &len))
		err = errno;
	if (err != is)
		violated("TUF_TX_KEY is %s, and should be %s", strerror(err),
			 strerror(is));
	if (err)
		return -err;
	if (len != TUF_KEY_LEN)
		violated("a key of %u octets", len);
	w->key_reported = true;
	w->next_known = true;
	memcpy(w->next_key, key, sizeof(key));
	if (span->mode != TUF_ALIGN && span->mode != TUF_MARKERS)
		return 0;
	if (span->keyed && memcmp(key, span->key, sizeof(key)))
		violated("TUF_TX_KEY is not the key that is sent");
	span->keyed = true;
	memcpy(span->key, key, sizeof(key));
	return 0;
}

/* Check that the option returns the value set. */
static int op_get(struct world *w, long option)
{
	u8 is = option == TUF_TX ? span_now(w)->mode : w->rx_mode;
	struct tuf_framing framing;
	socklen_t len = sizeof(framing);

	if (getsockopt(w->s, SOL_MPA, option, &framing, &len))
		violated("getsockopt of a mode fails: %s", strerror(errno));
	else if (framing.mode != is)
		violated("mode %u is returned, and is %u", framing.mode, is);
	return 0;
}

/* ---- MPA's options ---- */

static int set(struct world *w, int level, int option, int value)
{
	return setsockopt(w->s, level, option, &value, sizeof(value)) ? -errno : 0;
}

static int op_place(struct world *w, long on)
{
	int err = set(w, SOL_MPA, MPA_PLACE, on);

	if (err && !w->ended && !(w->fin && w->shut & 2))
		violated("MPA_PLACE fails: %s", strerror(-err));
	if (err)
		return err;
	w->place = on;
	/* Without MPA_RECVINFO the model could not know the octets' position. */
	w->tells |= on;
	return set(w, SOL_MPA, MPA_RECVINFO, w->tells);
}

const struct sockopt options[] = {
	{ SOL_MPA, MPA_RECV_BATCH, 1 }, { SOL_MPA, MPA_PACKING, 0 },
	{ SOL_MPA, MPA_PACKING, 1 }, { SOL_MPA, MPA_OVERSIZE, 1 },
	{ SOL_MPA, MPA_OVERSIZE, 0 }, { SOL_TCP, TCP_NODELAY, 1 },
	{ SOL_TCP, TCP_NODELAY, 0 }, { SOL_TCP, TCP_CORK, 1 },
	{ SOL_TCP, TCP_CORK, 0 }, { SOL_TCP, TCP_MAXSEG, 600 },
};

void option_is_set(struct world *w, const struct sockopt *option)
{
	if (option->level == SOL_MPA && option->name == MPA_RECV_BATCH)
		w->batch = true;
	if (option->level == SOL_MPA && option->name == MPA_PACKING)
		w->packing_off = !option->value;
	if (option->level == SOL_MPA && option->name == MPA_OVERSIZE)
		w->oversize = option->value;
}

static int op_mulpdu(struct world *w, long arg)
{
	socklen_t len = sizeof(int);
	int mulpdu = 0;

	(void)arg;
	if (getsockopt(w->s, SOL_MPA, MPA_MULPDU, &mulpdu, &len))
		return -errno;
	if (mulpdu < MPA_MULPDU_MIN)
		violated("MULPDU is %d", mulpdu);
	w->known = info_now(w).mulpdu;
	return 0;
}

/* Call MPA's startup, which TUF does not have. */
static int op_start(struct world *w, long arg)
{
	(void)arg;
	if (!mpa_start(w->s, MPA_ROLE_DIRECT, 0))
		violated("MPA_START is accepted");
	else if (errno != ENOPROTOOPT)
		violated("MPA_START is %s", strerror(errno));
	return -ENOPROTOOPT;
}

static int op_again(struct world *w, long arg)
{
	(void)arg;
	if (!setsockopt(w->s, SOL_TCP, TCP_ULP, "tuf", sizeof("tuf")))
		violated("TCP_ULP is accepted twice");
	else if (errno != EEXIST)
		violated("TCP_ULP once more is %s", strerror(errno));
	return -EEXIST;
}

/* ---- TCP's options ---- */

/* Make Nagle's algorithm wait: the peer acknowledges late. */
static int op_delay(struct world *w, long nr)
{
	if (w->raw >= 0)
		setsockopt(w->raw, SOL_TCP, TCP_QUICKACK, &(int){ 0 },
			   sizeof(int));
	return op_option(w, nr);
}

static int op_mtu(struct world *w, long mtu)
{
	/* After forged segments the missing octets must arrive at once. */
	if (w->ahead_nr)
		return -EINVAL;
	w->mtu = true;
	return lo_mtu(mtu);
}

static int op_lowat(struct world *w, long arg)
{
	int err;

	(void)arg;
	if (w->rx_mode == TUF_OFF)
		return -EINVAL;
	err = set(w, SOL_SOCKET, SO_RCVLOWAT, 50);
	if (err != -EOPNOTSUPP)
		violated("SO_RCVLOWAT is %s", err ? strerror(-err) : "accepted");
	return err;
}

static int op_repair(struct world *w, long arg)
{
	int err;

	(void)arg;
	if (!w->rx_mode && !span_now(w)->mode)
		return -EINVAL;
	err = set(w, SOL_TCP, TCP_REPAIR, TCP_REPAIR_ON);
	if (err != -EOPNOTSUPP && !(w->ended || w->fin || w->shut))
		violated("TCP_REPAIR is %s", err ? strerror(-err) : "accepted");
	return err;
}

static int op_info(struct world *w, long arg)
{
	(void)arg;
	judge_info(w);
	return 0;
}

/* ---- closing ---- */

static void drop_open(struct world *w)
{
	w->sent_len -= w->open;
	w->open = 0;
}

static int op_shutdown(struct world *w, long how)
{
	static const u8 bits[] = { [SHUT_RD] = 1, [SHUT_WR] = 2, [SHUT_RDWR] = 3 };

	if (shutdown(w->s, how))
		return -errno;
	w->shut |= bits[how];
	if (how != SHUT_RD)
		drop_open(w);
	return 0;
}

static int op_close(struct world *w, long arg)
{
	(void)arg;
	if (w->job)
		return -EBUSY;
	/* With unread data close(2) sends a RST. */
	pass_placed(w);
	if (w->rx_at < w->wrote_len || w->rest_left || w->ahead_nr)
		w->ended = true;
	drop_open(w);
	w->was_closed = true;
	close(w->s);
	w->s = -1;
	return 0;
}

static int op_disconnect(struct world *w, long arg)
{
	struct sockaddr addr = { .sa_family = AF_UNSPEC };
	bool framed = w->rx_mode || span_now(w)->mode;
	int err;

	(void)arg;
	if (w->job)
		return -EBUSY;
	peer_read(w);
	err = connect(w->s, &addr, sizeof(addr)) ? errno : 0;
	if (framed && err != EOPNOTSUPP)
		violated("a disconnect of a framed direction is %s",
			 err ? strerror(err) : "accepted");
	if (err)
		return -err;
	w->ended = true;
	w->wrote_len = w->rx_at;
	/* TCP reports its own RST. */
	w->due = w->due ?: ECONNRESET;
	w->due_maybe = true;
	return 0;
}

static int op_dup(struct world *w, long arg)
{
	int fd = dup(w->s);

	(void)arg;
	close(fd);
	return fd < 0 ? -errno : 0;
}

static int op_so_error(struct world *w, long arg)
{
	int err = so_error(w->s);

	(void)arg;
	if (err && err != w->due)
		violated("SO_ERROR is %s", strerror(err));
	judge_reported(w, err, "SO_ERROR");
	return -err;
}

const struct op tuf_set_ops[] = {
	USER("tx.off", 0, op_framing, 0),
	USER("tx.align", 0, op_framing, 1),
	USER("tx.align.own", 0, op_framing, 2),
	USER("tx.emss", 0, op_framing, 3),
	USER("tx.markers", 0, op_framing, 4),
	USER("tx.segments", 0, op_framing, 5),
	USER("tx.bad", 0, op_framing, 6),
	USER("rx.off", 0, op_framing, 7),
	USER("rx.align", 0, op_framing, 8),
	USER("rx.align.other", 0, op_framing, 9),
	USER("rx.align.any", 0, op_framing, 10),
	USER("rx.markers", 0, op_framing, 11),
	USER("rx.markers.any", 0, op_framing, 12),
	USER("rx.bad", 0, op_framing, 13),
	USER("key", 0, op_key, TUF_KEY_LEN),
	USER("key.short", 0, op_key, 5),
	USER("get.tx", OP_LOOKS, op_get, TUF_TX),
	USER("get.rx", OP_LOOKS, op_get, TUF_RX),
	USER("info", OP_LOOKS, op_info, 0),
	USER("place", 0, op_place, 1),
	USER("place.off", 0, op_place, 0),
	USER("batch", 0, op_option, 0),
	USER("packing.off", 0, op_option, 1),
	USER("packing", 0, op_option, 2),
	USER("oversize", 0, op_option, 3),
	USER("oversize.off", 0, op_option, 4),
	USER("mulpdu", 0, op_mulpdu, 0),
	USER("mpa.start", 0, op_start, 0),
	USER("attach", 0, op_again, 0),
	USER("nodelay", 0, op_option, 5),
	USER("delay", 0, op_delay, 6),
	USER("cork", 0, op_option, 7),
	USER("uncork", 0, op_option, 8),
	USER("maxseg", 0, op_option, 9),
	/* EMSS is then a multiple of eight. */
	USER("mtu", 0, op_mtu, 604),
	USER("mtu.tiny", 0, op_mtu, 404),
	USER("lowat", 0, op_lowat, 0),
	USER("repair", 0, op_repair, 0),
	USER("so_error", 0, op_so_error, 0),
	USER("dup", 0, op_dup, 0),
	USER("shut.wr", 0, op_shutdown, SHUT_WR),
	USER("shut.rd", 0, op_shutdown, SHUT_RD),
	USER("shut.rdwr", 0, op_shutdown, SHUT_RDWR),
	USER("disconnect", 0, op_disconnect, 0),
	USER("close", 0, op_close, 0),
};

const int tuf_set_ops_nr = ARRAY_SIZE(tuf_set_ops);
