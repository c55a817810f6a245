/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of sequences, for explore.c, which runs them. A program is explore.c with
 * one ULP's world: world.c and others, and mpa.c or tuf.c and others.
 */
#ifndef _EXPLORE_SEQUENCE_H
#define _EXPLORE_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>

#define OPS_MAX		128

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#endif

struct world;

enum actor { ACTOR_S, ACTOR_PEER, ACTOR_L, ACTOR_O, ACTOR_CROWD,
	     ACTOR_ANY };

#define OP_LOOKS	1	/* the operation changes nothing */
#define OP_ALONE	2	/* it takes long: never combine it with others */

/**
 * struct op - an operation
 * @name:	its name in a sequence
 * @actor:	the socket or task that acts; must exist
 * @flags:	OP_*
 * @fn:		runs it; returns a negative errno, or the progress
 * @arg:	for @fn
 */
struct op {
	const char *name;
	enum actor actor;
	int flags;
	int (*fn)(struct world *w, long arg);
	long arg;
};

/**
 * struct start - a start state
 * @name:	its name in a sequence
 * @listens:	it has its own listening socket
 * @make:	sets it up; 0, or an error; NULL: only for operations of the crowd
 * @arg:	for @make
 * @rare:	it may be unreachable
 */
struct start {
	const char *name;
	bool listens;
	int (*make)(struct world *w, long arg);
	long arg;
	bool rare;
};

extern const struct op *ops[OPS_MAX];	/* all operations */
extern int ops_nr;
extern const struct start starts[];
extern const int starts_nr;

/* report.c */
extern char violation[256];
void violated(const char *fmt, ...);
void kmsg_open(void);
void announce(unsigned long nr, const char *text);
bool complained(char *text, size_t room);
void settle(int ms);
int op_nr(const char *name);
const struct op *op_named(const char *name);
void ops_add(const struct op *more, int nr);

/* the world: of MPA, or of TUF */
struct world *world_of(void);
void world_say(const struct world *w, char *text, size_t room);
bool op_suits(const struct start *start, const struct op *op);
bool op_can(const struct world *w, const struct op *op);
int step(struct world *w, const struct op *op);
void ops_collect(void);
int world_begin(void);
int world_make(struct world *w, const struct start *start);
void judge_last(struct world *w);
void world_end(struct world *w);

#endif /* _EXPLORE_SEQUENCE_H */
