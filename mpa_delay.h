/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Points where a test build (MPA_DELAYS=1) can wait, so that other events on a
 * socket happen meanwhile: see selftests/explore. mpa_delay() is empty in any
 * other build.
 */
#ifndef _MPA_DELAY_H
#define _MPA_DELAY_H

/* The names are for the module parameter "delay". */
#define MPA_POINTS(point)						\
	point(INIT_BEGIN, "init.begin")					\
	point(INIT_END, "init.end")					\
	point(ATTACH, "attach.published")				\
	point(DETACH, "detach")						\
	point(CLONE_BEGIN, "clone.begin")				\
	point(CLONE_END, "clone.end")					\
	point(ACCEPTED, "accepted")					\
	point(CLOSE_BEGIN, "close.begin")				\
	point(CLOSE_LOCKED, "close.locked")				\
	point(CLOSE_LEFT, "close.left")					\
	point(CLOSE_UNLOCKED, "close.unlocked")				\
	point(CLOSE_IDLE, "close.idle")					\
	point(CLOSE_BASE, "close.base")					\
	point(CLOSE_END, "close.end")					\
	point(WORK_BEGIN, "work.begin")					\
	point(WORK_LOCKED, "work.locked")				\
	point(WORK_END, "work.end")					\
	point(WORK_UNLOCKED, "work.unlocked")				\
	point(PLAIN_BEGIN, "plain.begin")				\
	point(PLAIN_END, "plain.end")					\
	point(POLL, "poll")						\
	point(START, "start")						\
	point(START_LOCKED, "start.locked")				\
	point(SEND, "send")						\
	point(SEND_LOCKED, "send.locked")				\
	point(SEND_END, "send.end")					\
	point(RECV, "recv")						\
	point(RECV_LOCKED, "recv.locked")				\
	point(RECV_END, "recv.end")					\
	point(ABORT, "abort")

#define MPA_POINT_ENUM(id, name)	MPA_POINT_##id,
enum mpa_point {
	MPA_POINTS(MPA_POINT_ENUM)
	MPA_POINT_NR
};

#ifdef MPA_DELAYS
void mpa_delay(enum mpa_point point);
#else
static inline void mpa_delay(enum mpa_point point)
{
}
#endif

#endif /* _MPA_DELAY_H */
