// SPDX-License-Identifier: GPL-2.0
/* Print the records that the kernel's taps report. */
#include "tool.h"
#include "monitor.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Octets in a line of a hex dump. */
#define DUMP_WIDTH	16

/**
 * struct record - a record in a tap's message
 * @has:	the attributes present, a bit for each
 * @value:	values of numeric attributes
 * @data:	first octets of the record
 * @len:	their number
 */
struct record {
	uint32_t has;
	__u64 value[MPA_A_TAP_MAX + 1];
	const unsigned char *data;
	size_t len;
};

static bool record_has(const struct record *record, unsigned int attr)
{
	return record->has >> attr & 1;
}

static int record_attr(const struct nlattr *attr, void *data)
{
	const unsigned int type = mnl_attr_get_type(attr);
	const size_t len = mnl_attr_get_payload_len(attr);
	struct record *record = data;

	if (type > MPA_A_TAP_MAX)
		return MNL_CB_OK;
	record->has |= 1U << type;
	if (type == MPA_A_TAP_DATA) {
		record->data = mnl_attr_get_payload(attr);
		record->len = len;
	} else if (len == sizeof(uint32_t)) {
		record->value[type] = mnl_attr_get_u32(attr);
	} else if (len == sizeof(__u64)) {
		record->value[type] = mnl_attr_get_u64(attr);
	}
	return MNL_CB_OK;
}

/* ---- a record as text ---- */

static bool is_text(const struct record *record)
{
	for (size_t i = 0; i < record->len; i++)
		if ((record->data[i] < ' ' || record->data[i] > '~') &&
		    !(record->data[i] == '\n' && i + 1 == record->len))
			return false;
	return true;
}

static void dump_line(const unsigned char *octets, size_t at, size_t n)
{
	printf("    %04zx ", at);
	for (size_t i = 0; i < DUMP_WIDTH; i++)
		if (i < n)
			printf(" %02x", octets[i]);
		else
			fputs("   ", stdout);
	fputs("  ", stdout);
	for (size_t i = 0; i < n; i++)
		putchar(octets[i] >= ' ' && octets[i] <= '~' ? octets[i] : '.');
	putchar('\n');
}

static void print_octets(const struct output *output, const struct record *record)
{
	const bool all = record->len == record->value[MPA_A_TAP_LENGTH];
	char *text;

	if (!record->len || (is_text(record) && !output->hex)) {
		text = printable(record->data, record->len);
		if (record->len)
			printf(": \"%s\"%s", text, all ? "" : "...");
		putchar('\n');
		free(text);
		return;
	}
	putchar('\n');
	for (size_t at = 0; at < record->len; at += DUMP_WIDTH)
		dump_line(record->data + at, at,
			  record->len - at < DUMP_WIDTH ? record->len - at : DUMP_WIDTH);
}

static const char *verdict_of(const struct record *record)
{
	const __u64 verdict = record->value[MPA_A_TAP_VERDICT];

	return verdict == MPA_ERR_NONE ? "good" :
	       conn_name_of(MPA_A_CONN_ERROR, verdict) ?: "unknown error";
}

/* Print the beginning of a line: time, connection, direction. */
static void print_front(const struct taps *taps, const struct tap *tap,
			const struct record *record)
{
	const bool received = record->value[MPA_A_TAP_DIRECTION] == MPA_DIRECTION_RX;

	output_time(taps->output);
	if (taps->n > 1)
		printf("%s: ", tap->ends);
	fputs(received ? "received " : "sent ", stdout);
}

static void print_record(const struct taps *taps, const struct tap *tap,
			 const struct record *record)
{
	print_front(taps, tap, record);
	printf("position %llu", record->value[MPA_A_TAP_POSITION]);
	if (record_has(record, MPA_A_TAP_LENGTH))
		printf(", %llu octets", record->value[MPA_A_TAP_LENGTH]);
	else if (record->value[MPA_A_TAP_VERDICT])
		fputs(", invalid length", stdout);
	else
		fputs(", RTR without a record", stdout);
	if (record_has(record, MPA_A_TAP_VERDICT))
		printf(record->value[MPA_A_TAP_VERDICT] ? ", BAD: %s" : ", %s",
		       verdict_of(record));
	if (record_has(record, MPA_A_TAP_PLACED))
		fputs(", out of order", stdout);
	print_octets(taps->output, record);
}

/* ---- as JSON, with data in hexadecimal ---- */

static json_t *hex_json(const struct record *record)
{
	char *hex = need_memory(malloc(2 * record->len + 1));
	json_t *it;

	*hex = 0;
	for (size_t i = 0; i < record->len; i++)
		sprintf(hex + 2 * i, "%02x", record->data[i]);
	it = json_string(hex);
	free(hex);
	return it;
}

static void record_json(const struct record *record)
{
	static const unsigned int numbers[] = {
		MPA_A_TAP_COOKIE, MPA_A_TAP_SEQ, MPA_A_TAP_POSITION, MPA_A_TAP_LENGTH,
	};
	static const char *const names[] = { "cookie", "seq", "position", "length" };
	json_t *it = need_memory(json_object());
	const char *verdict = NULL;

	if (record_has(record, MPA_A_TAP_VERDICT))
		verdict = conn_name_of(MPA_A_CONN_ERROR, record->value[MPA_A_TAP_VERDICT]) ?:
			  "unknown";
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (record_has(record, numbers[i]))
			json_object_set_new(it, names[i],
					    json_integer(record->value[numbers[i]]));
	json_object_set_new(it, "direction",
			    json_string(record->value[MPA_A_TAP_DIRECTION] ==
					MPA_DIRECTION_RX ? "rx" : "tx"));
	if (verdict)
		json_object_set_new(it, "verdict", json_string(verdict));
	if (record_has(record, MPA_A_TAP_PLACED))
		json_object_set_new(it, "placed", json_true());
	if (record->data)
		json_object_set_new(it, "data", hex_json(record));
	if (record->len && is_text(record))
		json_object_set_new(it, "text", json_stringn((const char *)record->data,
							     record->len));
	output_json("record-ntf", it);
}

/* ---- incoming records ---- */

/* A tap starts after its connection: print the number of octets before its first record. */
static void tell_begin(const struct taps *taps, struct tap *tap, const struct record *record)
{
	const unsigned int direction = record->value[MPA_A_TAP_DIRECTION];
	const __u64 position = record->value[MPA_A_TAP_POSITION];

	/* Octets before an out-of-order record may still arrive. */
	if (tap->begun >> direction & 1 || record_has(record, MPA_A_TAP_PLACED))
		return;
	tap->begun |= 1U << direction;
	if (!position)
		return;
	if (taps->output->json) {
		output_json("missed", json_pack("{s:I, s:s, s:I}", "cookie",
						(json_int_t)tap->cookie, "direction",
						direction == MPA_DIRECTION_RX ? "rx" : "tx",
						"position", (json_int_t)position));
		return;
	}
	print_front(taps, tap, record);
	printf("before position %llu: not seen, the tap started later\n", position);
}

static int record_come(const struct nlmsghdr *nlh, void *data)
{
	struct record record = {};
	struct taps *taps = data;
	struct tap *tap;
	uint32_t seq;

	if (nl_command(nlh) != MPA_CMD_RECORD_NTF || output_enough(taps->output))
		return MNL_CB_OK;
	mnl_attr_parse(nlh, sizeof(struct genlmsghdr), record_attr, &record);
	tap = taps_find(taps, record.value[MPA_A_TAP_COOKIE]);
	if (!tap)
		return MNL_CB_OK;
	seq = record.value[MPA_A_TAP_SEQ];
	if (seq != tap->seq + 1) {
		output_lost(taps->output, "records", (uint32_t)(seq - tap->seq - 1));
		taps->lost = false;
	}
	tap->seq = seq;
	tell_begin(taps, tap, &record);
	taps->output->done++;
	if (taps->output->json)
		record_json(&record);
	else
		print_record(taps, tap, &record);
	return MNL_CB_OK;
}

/* Read all records that have arrived. */
void taps_take(struct taps *taps)
{
	int ret;

	while (!output_enough(taps->output)) {
		ret = nl_take(&taps->nl, record_come, taps);
		if (!ret)
			return;
		if (ret < 0 && errno != ENOBUFS)
			die(STATUS_LOCAL, "cannot read records: %m");
		/* A gap in the records' numbers shows the place. */
		taps->lost |= ret < 0;
	}
}

/* ---- connections ---- */

struct tap *taps_find(const struct taps *taps, __u64 cookie)
{
	for (size_t i = 0; i < taps->n; i++)
		if (taps->list[i].cookie == cookie)
			return &taps->list[i];
	return NULL;
}

void taps_open(struct taps *taps, struct output *output, uint32_t octets, int buffer)
{
	*taps = (struct taps){ .output = output, .octets = octets };
	nl_open(&taps->nl);
	nl_buffer(&taps->nl, buffer);
}

static int taps_ask(struct taps *taps, uint8_t cmd, __u64 cookie)
{
	char buf[NL_REQUEST_SIZE];
	struct nlmsghdr *nlh = nl_request(&taps->nl, buf, cmd, 0);

	mnl_attr_put_u64(nlh, MPA_A_TAP_COOKIE, cookie);
	if (cmd == MPA_CMD_TAP_SET)
		mnl_attr_put_u32(nlh, MPA_A_TAP_OCTETS, taps->octets);
	return nl_ask(&taps->nl, nlh, record_come, taps);
}

/* Add a tap. Return: false on failure, with the reason in taps->nl.error. */
bool taps_add(struct taps *taps, const struct conn *conn)
{
	char *local = conn_end(conn, false), *remote = conn_end(conn, true);
	struct tap *tap;

	if (taps->n == taps->room) {
		taps->room = taps->room * 2 + 16;
		taps->list = need_memory(realloc(taps->list,
						 taps->room * sizeof(*taps->list)));
	}
	/* Add the tap to the list first: records may arrive before the request's answer. */
	tap = &taps->list[taps->n++];
	*tap = (struct tap){ .cookie = conn_value(conn, MPA_A_CONN_COOKIE) };
	if (asprintf(&tap->ends, "%s -> %s", local, remote) < 0)
		need_memory(NULL);
	free(local);
	free(remote);
	if (!taps_ask(taps, MPA_CMD_TAP_SET, tap->cookie))
		return true;
	free(tap->ends);
	taps->n--;
	return false;
}

/* Remove a tap: its connection has ended, and its last records have arrived. */
void taps_gone(struct taps *taps, __u64 cookie)
{
	struct tap *tap = taps_find(taps, cookie);

	if (!tap)
		return;
	if (taps->lost)
		output_lost(taps->output, "records", 0);
	taps->lost = false;
	free(tap->ends);
	*tap = taps->list[--taps->n];
}

/* Close all taps. Records that still arrive are not printed. */
void taps_close(struct taps *taps)
{
	if (taps->lost)
		output_lost(taps->output, "records", 0);
	while (taps->n) {
		struct tap tap = taps->list[--taps->n];

		/* The tap of an ended connection need not be closed. */
		taps_ask(taps, MPA_CMD_TAP_CLEAR, tap.cookie);
		free(tap.ends);
	}
	free(taps->list);
	nl_close(&taps->nl);
}
