// SPDX-License-Identifier: GPL-2.0
/*
 * Print a table on a terminal: a column that does not fit starts a new line, and a long
 * last column is folded between words.
 */
#include "tool.h"
#include "show.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP		2	/* blanks between columns */
#define INDENT		4	/* blanks before a continued line */
#define LEAST_WIDTH	20

void table_column(struct table *table, const char *head, bool right)
{
	table->right |= (unsigned int)right << table->columns;
	table->heads[table->columns++] = head;
}

/* Add a row. The caller fills its cells with text that table_free() frees. */
char **table_row(struct table *table)
{
	if (table->rows == table->room) {
		table->room = table->room * 2 + 16;
		table->cells = need_memory(realloc(table->cells, table->room *
						   table->columns * sizeof(*table->cells)));
		table->colours = need_memory(realloc(table->colours, table->room));
	}
	table->colours[table->rows] = COLOUR_NONE;
	return table->cells + table->rows++ * table->columns;
}

/* Set the colour of the last cell of the last row. */
void table_colour(struct table *table, int colour)
{
	table->colours[table->rows - 1] = colour;
}

void table_free(struct table *table)
{
	for (size_t i = 0; i < table->rows * table->columns; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table->colours);
	*table = (struct table){};
}

/* Return: the terminal's width, or COLUMNS. A file or a pipe has no limit. */
static int terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	int width = 0;

	if (columns)
		width = atoi(columns);
	if (width <= 0 && isatty(STDOUT_FILENO) &&
	    !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		width = size.ws_col;
	if (width <= 0)
		return INT_MAX;
	return width < LEAST_WIDTH ? LEAST_WIDTH : width;
}

struct layout {
	int width;
	int column[TABLE_COLUMNS];
	int at;			/* columns in the line so far */
	int blanks;		/* blanks before the line's next cell */
};

static int longer(int width, const char *text)
{
	const int len = strlen(text);

	return len > width ? len : width;
}

static void new_line(struct layout *layout)
{
	putchar('\n');
	layout->at = INDENT;
	layout->blanks = INDENT;
}

/* Print the last cell, folded. */
static void print_folded(struct layout *layout, const char *text)
{
	while (*text) {
		const int room = layout->width - layout->at;
		int len = strlen(text), next;

		if (len > room) {
			for (len = room; len > 0 && text[len] != ' '; len--)
				;
			if (len <= 0)
				len = room;
		}
		printf("%*s%.*s", layout->blanks, "", len, text);
		layout->blanks = 0;
		next = len + (text[len] == ' ');
		text += next;
		if (*text)
			new_line(layout);
	}
}

static void print_cell(struct layout *layout, const char *text, int width, bool right)
{
	if (layout->at > INDENT && layout->at + width > layout->width)
		new_line(layout);
	printf("%*s%s", layout->blanks + (right ? width - longer(0, text) : 0), "", text);
	layout->blanks = GAP + (right ? 0 : width - longer(0, text));
	layout->at += width + GAP;
}

static void print_row(const struct table *table, struct layout *layout,
		      const char *const *cells, int last_colour)
{
	const unsigned int last = table->columns - 1;

	layout->at = 0;
	layout->blanks = 0;
	for (unsigned int i = 0; i < last; i++)
		print_cell(layout, cells[i], layout->column[i], table->right >> i & 1);
	if (layout->at > INDENT && layout->at + longer(0, cells[last]) > layout->width)
		new_line(layout);
	if (last_colour != COLOUR_NONE)
		fputs(colour(last_colour), stdout);
	print_folded(layout, cells[last]);
	if (last_colour != COLOUR_NONE)
		fputs(colour(COLOUR_NONE), stdout);
	putchar('\n');
}

void table_print(const struct table *table, bool header)
{
	struct layout layout = { .width = terminal_width() };

	for (unsigned int i = 0; i < table->columns; i++) {
		layout.column[i] = header ? strlen(table->heads[i]) : 0;
		for (size_t row = 0; row < table->rows; row++)
			layout.column[i] = longer(layout.column[i],
						  table->cells[row * table->columns + i]);
	}
	if (header) {
		fputs(colour(COLOUR_HEAD), stdout);
		print_row(table, &layout, table->heads, COLOUR_NONE);
		fputs(colour(COLOUR_NONE), stdout);
	}
	for (size_t row = 0; row < table->rows; row++)
		print_row(table, &layout,
			  (const char *const *)table->cells + row * table->columns,
			  table->colours[row]);
}

/* Return: a number per second, abbreviated. The caller frees it. */
char *table_rate(double rate)
{
	static const char units[] = " kMGT";
	char *text;
	int i = 0;

	while (rate >= 9999.5 && units[i + 1]) {
		rate /= 1000;
		i++;
	}
	if ((i ? asprintf(&text, "%.*f%c", rate < 99.95, rate, units[i]) :
		 asprintf(&text, "%.*f", rate > 0 && rate < 9.95, rate)) < 0)
		need_memory(NULL);
	return text;
}
