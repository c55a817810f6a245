// SPDX-License-Identifier: GPL-2.0
/* Print events for "mpa monitor", one line each, as text or JSON. */
#include "tool.h"
#include "monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_IN_MS	1000000
#define NS_IN_US	1000
#define NS_IN_S		1e9

static const char *const names[MPA_CMD_MAX + 1] = {
	[MPA_CMD_STARTED_NTF] = "started",
	[MPA_CMD_REFUSED_NTF] = "refused",
	[MPA_CMD_FAILED_NTF] = "failed",
	[MPA_CMD_MULPDU_NTF] = "mulpdu",
	[MPA_CMD_UNALIGNED_NTF] = "unaligned",
	[MPA_CMD_CLOSED_NTF] = "closed",
};

static const char *event_colour(uint8_t cmd)
{
	switch (cmd) {
	case MPA_CMD_REFUSED_NTF:
	case MPA_CMD_FAILED_NTF:
		return colour(COLOUR_BAD);
	case MPA_CMD_UNALIGNED_NTF:
		return colour(COLOUR_ODD);
	case MPA_CMD_STARTED_NTF:
		return colour(COLOUR_GOOD);
	default:
		return colour(COLOUR_NONE);
	}
}

/* Return: the event's name; NULL if it is unknown. */
const char *event_name(uint8_t cmd)
{
	return cmd <= MPA_CMD_MAX ? names[cmd] : NULL;
}

/* Print the time before a line. The date has the format of "ip monitor". */
void output_time(const struct output *output)
{
	static const char *const formats[] = { "%T", "%a %b %e %T %Y", "%FT%T" };
	struct timespec now;
	struct tm local;
	char text[32];

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &local);
	strftime(text, sizeof(text), formats[output->stamp], &local);
	if (output->stamp == STAMP_LINE)
		printf("Timestamp: %s %ld usec\n", text, now.tv_nsec / NS_IN_US);
	else if (output->stamp == STAMP_SHORT)
		printf("[%s.%06ld] ", text, now.tv_nsec / NS_IN_US);
	else
		printf("%s.%03ld ", text, now.tv_nsec / NS_IN_MS);
}

/* Print a line. Takes ownership of @it. */
void output_json(const char *name, json_t *it)
{
	json_t *line = need_memory(json_object());
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	json_object_set_new(line, "time", json_real(now.tv_sec + now.tv_nsec / NS_IN_S));
	json_object_set_new(line, "name", json_string(name));
	json_object_update(line, it);
	json_dumpf(line, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(line);
	json_decref(it);
}

/* Report lost messages. @what: "events" or "records"; @n: their number, 0 if unknown. */
void output_lost(const struct output *output, const char *what, __u64 n)
{
	json_t *it;

	if (output->json) {
		it = json_pack("{s:s}", "what", what);
		if (n)
			json_object_set_new(it, "lost", json_integer(n));
		output_json("lost", it);
		return;
	}
	output_time(output);
	if (n)
		printf("%s were lost: %llu\n", what, n);
	else
		printf("%s were lost: they arrived faster than they were read\n", what);
}

/* ---- an event ---- */

/* Print an error with the name and number that the documents use. */
static void print_error(const struct conn *conn)
{
	const int err = conn_value(conn, MPA_A_CONN_ERRNO);
	const char *between = " (";
	char *error;

	if (conn_has(conn, MPA_A_CONN_ERROR)) {
		error = conn_attr_text(conn, MPA_A_CONN_ERROR);
		printf("%serror %s, %llu", between, error,
		       conn_value(conn, MPA_A_CONN_ERROR));
		free(error);
		between = "; ";
	}
	if (err) {
		printf("%serrno %s, %d: %s", between, health_errno(err), err, strerror(err));
		between = "; ";
	}
	if (*between == ';')
		putchar(')');
}

static void print_text(char *text)
{
	fputs(text, stdout);
	free(text);
}

static void print_failed(const struct conn *conn)
{
	char *failure = health_failure(conn);

	print_text(failure ?: health_of(conn));
	print_error(conn);
}

static void print_records(const struct conn *conn)
{
	char *failure = health_failure(conn);

	printf("sent %llu records, %llu octets; read %llu records, %llu octets",
	       conn_value(conn, MPA_A_CONN_TX_ULPDUS), conn_value(conn, MPA_A_CONN_TX_OCTETS),
	       conn_value(conn, MPA_A_CONN_RX_ULPDUS), conn_value(conn, MPA_A_CONN_RX_OCTETS));
	if (failure)
		printf("; %s", failure);
	free(failure);
}

static void print_words(uint8_t cmd, const struct conn *conn)
{
	const __u64 mulpdu = conn_value(conn, MPA_A_CONN_MULPDU);

	switch (cmd) {
	case MPA_CMD_STARTED_NTF:
		print_text(health_agreed(conn));
		printf(", MULPDU %llu", mulpdu);
		break;
	case MPA_CMD_REFUSED_NTF:
		print_text(conn_attr_text(conn, MPA_A_CONN_REFUSAL));
		printf(": %s", health_refusal(conn_value(conn, MPA_A_CONN_REFUSAL)));
		print_error(conn);
		break;
	case MPA_CMD_FAILED_NTF:
		print_failed(conn);
		break;
	case MPA_CMD_MULPDU_NTF:
		printf("MULPDU is %llu now, EMSS %llu", mulpdu,
		       conn_value(conn, MPA_A_CONN_EMSS));
		break;
	case MPA_CMD_UNALIGNED_NTF:
		print_text(conn_attr_text(conn, MPA_A_CONN_CAUSE));
		printf(": a segment does not start with a record: %s",
		       health_cause(conn_value(conn, MPA_A_CONN_CAUSE)));
		break;
	case MPA_CMD_CLOSED_NTF:
		print_records(conn);
		break;
	}
}

static json_t *event_json(uint8_t cmd, const struct conn *conn)
{
	char *failure = health_failure(conn);
	json_t *it = conn_json(conn);
	const char *words = failure;

	if (cmd == MPA_CMD_REFUSED_NTF)
		words = health_refusal(conn_value(conn, MPA_A_CONN_REFUSAL));
	else if (cmd == MPA_CMD_UNALIGNED_NTF)
		words = health_cause(conn_value(conn, MPA_A_CONN_CAUSE));
	if (words)
		json_object_set_new(it, "words", json_string(words));
	free(failure);
	return it;
}

void output_event(struct output *output, uint8_t cmd, const struct conn *conn)
{
	char *local, *remote, *role, name[32];

	output->done++;
	if (output->json) {
		snprintf(name, sizeof(name), "%s-ntf", event_name(cmd));
		output_json(name, event_json(cmd, conn));
		return;
	}
	local = conn_end(conn, false);
	remote = conn_end(conn, true);
	role = conn_is_tuf(conn) ? need_memory(strdup("tuf")) :
				   conn_attr_text(conn, MPA_A_CONN_ROLE);
	output_time(output);
	printf("%s%-9s%s %s %s -> %s cookie %llu: ", event_colour(cmd), event_name(cmd),
	       colour(COLOUR_NONE), role, local, remote, conn_value(conn, MPA_A_CONN_COOKIE));
	print_words(cmd, conn);
	putchar('\n');
	free(local);
	free(remote);
	free(role);
}
