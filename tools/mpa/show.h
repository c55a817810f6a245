/* SPDX-License-Identifier: GPL-2.0 */
/* Parts of "mpa show": tables that fit the terminal, processes, counters. */
#ifndef _MPA_TOOL_SHOW_H
#define _MPA_TOOL_SHOW_H

#include <jansson.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* table.c */
#define TABLE_COLUMNS	12

/**
 * struct table - rows of text; the last column may be long
 * @heads:	names of the columns
 * @columns:	their number
 * @right:	columns that are aligned to the right, a bit for each
 * @cells:	cells, row by row
 * @colours:	colour of the last cell of each row
 * @rows:	number of rows
 * @room:	number of rows allocated
 */
struct table {
	const char *heads[TABLE_COLUMNS];
	unsigned int columns;
	unsigned int right;
	char **cells;
	unsigned char *colours;
	size_t rows;
	size_t room;
};

void table_column(struct table *table, const char *head, bool right);
char **table_row(struct table *table);
void table_colour(struct table *table, int colour);
void table_print(const struct table *table, bool header);
void table_free(struct table *table);
char *table_rate(double rate);

/* procs.c */
struct proc {
	__u64 inode;
	int pid;
	char name[64];
};

/**
 * struct procs - processes of sockets
 * @list:	processes, by inode
 * @n:		their number
 * @room:	allocated entries
 * @hidden:	this user cannot inspect some processes
 */
struct procs {
	struct proc *list;
	size_t n;
	size_t room;
	bool hidden;
};

void procs_read(struct procs *procs);
char *procs_text(const struct procs *procs, __u64 inode);
json_t *procs_json(const struct procs *procs, __u64 inode);

/* show_stat.c */

/**
 * struct rounds - a single output, or repeated ones
 * @every:	interval in seconds; 0: once
 * @count:	number of outputs; 0: no limit
 * @done:	number of outputs so far
 * @before:	time of the previous output, in seconds
 * @since:	seconds since @before; 0 in the first output
 */
struct rounds {
	double every;
	unsigned long count;
	unsigned long done;
	double before;
	double since;
};

bool rounds_next(struct rounds *rounds);
void rounds_head(const struct rounds *rounds);
void rounds_json(const struct rounds *rounds, json_t *it);

/**
 * struct show_options - how to print connections and counters
 * @json:	print JSON
 * @openmetrics: print metrics for Prometheus
 * @no_header:	without names of columns
 * @all:	also print counters that are 0
 */
struct show_options {
	bool json;
	bool openmetrics;
	bool no_header;
	bool all;
};

void show_stat_metrics(void);
void show_stat(struct rounds *rounds, const struct show_options *options);

#endif /* _MPA_TOOL_SHOW_H */
