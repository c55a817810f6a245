/* SPDX-License-Identifier: GPL-2.0 */
/* Parts of "mpa monitor": lines of output, and taps. */
#ifndef _MPA_TOOL_MONITOR_H
#define _MPA_TOOL_MONITOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "conn.h"

/* Octets shown of each record by default. */
#define MONITOR_OCTETS	64

/* formats of the time */
enum stamp {
	STAMP_CLOCK,		/* time of day */
	STAMP_LINE,		/* in a line before, with the date */
	STAMP_SHORT,		/* in the same line, with the date */
};

/**
 * struct output - how lines are printed
 * @stamp:	format of the time, except in JSON
 * @json:	as JSON
 * @hex:	print records as a hex dump, even if they are text
 * @count:	number of lines to print; 0: no limit
 * @done:	number of counted lines printed so far
 */
struct output {
	enum stamp stamp;
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
void output_time(const struct output *output);
void output_json(const char *name, json_t *it);
void output_lost(const struct output *output, const char *what, __u64 n);
void output_event(struct output *output, uint8_t cmd, const struct conn *conn);
const char *event_name(uint8_t cmd);

/* monitor_taps.c */

/**
 * struct tap - a connection whose records are printed
 * @cookie:	the connection's cookie
 * @seq:	number of the last record
 * @begun:	directions in which a record was seen, a bit for each
 * @ends:	local and remote end
 */
struct tap {
	__u64 cookie;
	uint32_t seq;
	unsigned int begun;
	char *ends;
};

/**
 * struct taps - all taps
 * @output:	output for records
 * @nl:		the socket that receives them
 * @octets:	maximum number of octets to print of each record
 * @lost:	the kernel has reported a loss, but no gap in the numbers followed yet
 * @list:	the connections
 * @n:		their number
 * @room:	allocated entries
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
