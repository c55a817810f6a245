// SPDX-License-Identifier: GPL-2.0
/* The simulated peer: the octets that it sends and receives are recorded. */

#include WORLD_H
#include "mpa_forge.h"

enum { ESTABLISHED = 1, CLOSE_WAIT = 8 };	/* tcpi_state */

static u8 fpdus[80000];

/* Send on another socket, so that the next octets are not contiguous in memory. */
void elsewhere(void)
{
	static int other[2] = { -1, -1 };
	static u8 junk[4096];

	if (other[0] < 0 && tcp_pair(AF_INET, other))
		return;
	send(other[0], junk, 100, MSG_DONTWAIT);
	while (recv(other[1], junk, sizeof(junk), MSG_DONTWAIT) > 0)
		;
}

static int say_now(struct world *w, const u8 *octets, u32 len, int flags)
{
	ssize_t n;

	if (len > STREAM_MAX - w->wrote_len)
		return -ENOBUFS;
	n = send(w->raw, octets, len, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
	if (n < 0)
		return -errno;
	memcpy(w->wrote + w->wrote_len, octets, n);
	w->wrote_len += n;
	said(w, n);
	return n;
}

static int say_rest_as(struct world *w, int flags)
{
	int n;

	if (!w->rest_left)
		return 0;
	n = say_now(w, w->rest + w->rest_at, w->rest_left, flags);
	if (n < 0)
		return n;
	w->rest_at += n;
	w->rest_left -= n;
	return w->rest_left ? -EAGAIN : 0;
}

/* Send the rest of an FPDU that is half sent. */
int say_rest(struct world *w)
{
	return say_rest_as(w, 0);
}

/* Return: a buffer for an FPDU that is sent in parts. */
u8 *rest_room(struct world *w, u32 room)
{
	if (!w->rest_left)
		w->rest_at = 0;
	return w->rest_at + w->rest_left + room > sizeof(w->rest) ? NULL :
	       w->rest + w->rest_at + w->rest_left;
}

int peer_say(struct world *w, const u8 *octets, u32 len, int flags)
{
	u8 *room;

	if (w->fin)
		return -EPIPE;
	room = rest_room(w, len);
	if (!room)
		return -ENOBUFS;
	memcpy(room, octets, len);
	w->rest_left += len;
	return say_rest_as(w, flags);
}

void peer_read(struct world *w)
{
	ssize_t n;

	while (w->raw >= 0) {
		n = recv(w->raw, w->got + w->got_len,
			 sizeof(w->got) - w->got_len, MSG_DONTWAIT);
		if (n <= 0)
			break;
		w->got_len += n;
	}
	wire_read(w);
}

/* ---- FPDUs ---- */

int peer_record(struct world *w, u32 len)
{
	u32 n = fpdu_make(w, 0, record_of(len), len, fpdus);

	return peer_say(w, fpdus, n, 0);
}

int op_fpdu(struct world *w, long len)
{
	return peer_record(w, len);
}

int peer_many(struct world *w, u32 nr, u32 len, u32 more)
{
	u32 n = 0;

	for (; nr--; len += more)
		n += fpdu_make(w, n, record_of(len), len, fpdus + n);
	return peer_say(w, fpdus, n, 0);
}

/* Send the first part of an FPDU, or the rest of one that is half sent. */
int op_half(struct world *w, long len)
{
	u32 n, first;
	int err;

	if (w->rest_left)
		return say_rest(w);
	if (w->fin)
		return -EPIPE;
	n = fpdu_make(w, 0, record_of(len), len, fpdus);
	first = n / 2;
	err = say_now(w, fpdus, first, 0);
	elsewhere();
	if (err < 0)
		return err;
	memcpy(rest_room(w, n), fpdus + err, n - err);
	w->rest_left = n - err;
	return 0;
}

/* ---- out of order ---- */

static struct tcp_info info_of(const struct world *w)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	if (w->s >= 0)
		getsockopt(w->s, SOL_TCP, TCP_INFO, &info, &len);
	return info;
}

/* Forge a segment @off octets after the sent octets, with as many octets as TCP accepts. */
int forge_ahead(struct world *w, u32 off, const u8 *octets, u32 len)
{
	u32 before = info_of(w).tcpi_rcv_ooopack;
	struct forger forger;
	int err = 0;

	if (forger_open(&forger, w->raw, w->s))
		err = -errno;
	/* Use the window that the peer's own segments announce. */
	forger.window = 1000;
	if (!err && forge(&forger, off, octets, len, 0, 0))
		err = -errno;
	close(forger.raw);
	settle(1);
	return err ?: info_of(w).tcpi_rcv_ooopack == before ? -ENOBUFS : 0;
}

/* ---- closing ---- */

int op_fin(struct world *w, long arg)
{
	(void)arg;
	if (shutdown(w->raw, SHUT_WR))
		return -errno;
	w->fin = true;
	w->rest_left = 0;
	return 0;
}

int op_rst(struct world *w, long arg)
{
	int state;

	(void)arg;
	peer_read(w);
	state = info_of(w).tcpi_state;
	hang_up(w->raw);
	w->raw = -1;
	/* See tcp_reset(): in other states nothing may be left to notify. */
	if (!w->ended && !w->due && state) {
		w->due = state == CLOSE_WAIT ? EPIPE : ECONNRESET;
		w->due_maybe = state != ESTABLISHED;
	}
	w->ended = true;
	return 0;
}

int op_read(struct world *w, long arg)
{
	(void)arg;
	peer_read(w);
	return 0;
}
