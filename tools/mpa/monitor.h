/* SPDX-License-Identifier: GPL-2.0 */
/* Parts of "mpa monitor": lines of output, and taps. */
#ifndef _MPA_TOOL_MONITOR_H
#define _MPA_TOOL_MONITOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "conn.h"

/* Octets of each record that are shown, unless told otherwise. */
#define MONITOR_OCTETS	64

/**
 * struct output - how lines are printed
 * @json:	as JSON
 * @hex:	octets of records as a hex dump, also if they are text
 * @count:	how many lines are wanted; 0: no limit
 * @done:	so many were printed that count
 */
struct output {
	bool json;
	bool hex;
	unsigned long count;
	unsigned long done;
};

static inline bool output_enough(const struct output *output)
{
	return output->count && output->done >= output->count;
}

/* monitor_events.c */
void output_time(void);
void output_json(const char *name, json_t *it);
void output_lost(const struct output *output, const char *what, __u64 n);
void output_event(struct output *output, uint8_t cmd, const struct conn *conn);
const char *event_name(uint8_t cmd);

/* monitor_taps.c */

/**
 * struct tap - a connection whose records are shown
 * @cookie:	its number
 * @seq:	of the last record
 * @begun:	directions of which a record has come, a bit for each
 * @ends:	local and remote end
 */
struct tap {
	__u64 cookie;
	uint32_t seq;
	unsigned int begun;
	char *ends;
};

/**
 * struct taps - all of them
 * @output:	where records are printed
 * @nl:		the socket that they come to
 * @octets:	of each record as many at most
 * @lost:	the kernel says that some are lost, and no gap has shown it yet
 * @list:	the connections
 * @n:		how many
 * @room:	for so many
 */
struct taps {
	struct output *output;
	struct nl nl;
	uint32_t octets;
	bool lost;
	struct tap *list;
	size_t n;
	size_t room;
};

void taps_open(struct taps *taps, struct output *output, uint32_t octets, int buffer);
bool taps_add(struct taps *taps, const struct conn *conn);
struct tap *taps_find(const struct taps *taps, __u64 cookie);
void taps_take(struct taps *taps);
void taps_gone(struct taps *taps, __u64 cookie);
void taps_close(struct taps *taps);

#endif /* _MPA_TOOL_MONITOR_H */
