// SPDX-License-Identifier: GPL-2.0
/* A transfer's progress line, on a terminal. */
#include "relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOW_EVERY	0.2	/* seconds */
#define KIBI		1024.0

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Return: a text like "12.3 MiB". The caller frees it. */
char *octets_text(double octets)
{
	static const char *const units[] = { "octets", "KiB", "MiB", "GiB", "TiB" };
	size_t unit = 0;
	char *text;

	while (octets >= KIBI && unit + 1 < sizeof(units) / sizeof(*units)) {
		octets /= KIBI;
		unit++;
	}
	if (asprintf(&text, "%.*f %s", unit ? 1 : 0, octets, units[unit]) < 0)
		need_memory(NULL);
	return text;
}

void progress_begin(struct progress *progress, const char *what, uint64_t size)
{
	*progress = (struct progress){
		.what = what,
		.size = size,
		.began = now(),
		.on = !say_quiet && isatty(STDERR_FILENO),
	};
	progress->shown = progress->began;
}

void progress_show(struct progress *progress, uint64_t done)
{
	char *amount, *size, *rate, *text;
	double at, per_second;

	if (!progress->on)
		return;
	at = now();
	if (at - progress->shown < SHOW_EVERY)
		return;
	progress->shown = at;
	per_second = done / (at - progress->began);
	amount = octets_text(done);
	size = octets_text(progress->size);
	rate = octets_text(per_second);
	text = printable(progress->what, strnlen(progress->what, 40));
	if (progress->size && done)
		fprintf(stderr, "\r%s: %s of %s, %.0f%%, %s/s, %.0f s left\033[K", text, amount,
			size, 100.0 * done / progress->size, rate,
			(progress->size - done) / per_second);
	else
		fprintf(stderr, "\r%s: %s, %s/s\033[K", text, amount, rate);
	free(text);
	free(rate);
	free(size);
	free(amount);
}

/* Remove the line. */
void progress_end(struct progress *progress)
{
	if (progress->on)
		fputs("\r\033[K", stderr);
	progress->on = false;
}
