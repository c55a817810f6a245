// SPDX-License-Identifier: GPL-2.0
/* The counters of one end, and the JSON with which the server sends them to the client. */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum kind { WHOLE, WORD, SHORT, OCTET, REAL };

/* a number in struct perf_side, and its place in the JSON */
struct field {
	const char *group;
	const char *name;
	size_t at;
	enum kind kind;
};

static const struct field fields[] = {
	{ "sent", "octets", offsetof(struct perf_side, sent.octets), WHOLE },
	{ "sent", "records", offsetof(struct perf_side, sent.records), WHOLE },
	{ "sent", "measured_octets", offsetof(struct perf_side, sent.measured_octets), WHOLE },
	{ "sent", "measured_records", offsetof(struct perf_side, sent.measured_records), WHOLE },
	{ "sent", "seconds", offsetof(struct perf_side, sent.seconds), REAL },
	{ "received", "octets", offsetof(struct perf_side, received.octets), WHOLE },
	{ "received", "records", offsetof(struct perf_side, received.records), WHOLE },
	{ "received", "measured_octets",
	  offsetof(struct perf_side, received.measured_octets), WHOLE },
	{ "received", "measured_records",
	  offsetof(struct perf_side, received.measured_records), WHOLE },
	{ "received", "seconds", offsetof(struct perf_side, received.seconds), REAL },
	{ "cpu", "user_seconds", offsetof(struct perf_side, cpu_user), REAL },
	{ "cpu", "system_seconds", offsetof(struct perf_side, cpu_system), REAL },
	{ "cpu", "seconds", offsetof(struct perf_side, cpu_seconds), REAL },
	{ "tcp", "retransmitted_segments", offsetof(struct perf_side, tcp_retransmitted), WHOLE },
	{ "tcp", "rtt_us", offsetof(struct perf_side, tcp_rtt_us), WHOLE },
	{ "tcp", "mss", offsetof(struct perf_side, tcp_mss), WHOLE },
	{ "machine", "processors", offsetof(struct perf_side, processors), WHOLE },
	{ "machine", "virtual", offsetof(struct perf_side, virtual), WHOLE },
	{}
};

static const struct field mpa_fields[] = {
	{ "mpa", "role", offsetof(struct perf_side, mpa.role), OCTET },
	{ "mpa", "revision", offsetof(struct perf_side, mpa.revision), OCTET },
	{ "mpa", "flags", offsetof(struct perf_side, mpa.flags), WORD },
	{ "mpa", "emss", offsetof(struct perf_side, mpa.emss), WORD },
	{ "mpa", "mulpdu", offsetof(struct perf_side, mpa.mulpdu), WORD },
	{ "mpa", "ird", offsetof(struct perf_side, mpa.ird), SHORT },
	{ "mpa", "ord", offsetof(struct perf_side, mpa.ord), SHORT },
	{ "mpa", "tx_ulpdus", offsetof(struct perf_side, mpa.tx_ulpdus), WHOLE },
	{ "mpa", "tx_octets", offsetof(struct perf_side, mpa.tx_octets), WHOLE },
	{ "mpa", "tx_markers", offsetof(struct perf_side, mpa.tx_markers), WHOLE },
	{ "mpa", "rx_ulpdus", offsetof(struct perf_side, mpa.rx_ulpdus), WHOLE },
	{ "mpa", "rx_octets", offsetof(struct perf_side, mpa.rx_octets), WHOLE },
	{ "mpa", "rx_markers", offsetof(struct perf_side, mpa.rx_markers), WHOLE },
	{ "mpa", "tx_packets", offsetof(struct perf_side, mpa.tx_packets), WHOLE },
	{ "mpa", "tx_segs_aligned", offsetof(struct perf_side, mpa.tx_segs_aligned), WHOLE },
	{ "mpa", "tx_segs_unaligned", offsetof(struct perf_side, mpa.tx_segs_unaligned), WHOLE },
	{ "mpa", "rx_placed", offsetof(struct perf_side, mpa.rx_placed), WHOLE },
	{}
};

static json_t *pack_field(const struct field *field, const void *from)
{
	switch (field->kind) {
	case WHOLE:
		return json_integer(*(const uint64_t *)from);
	case WORD:
		return json_integer(*(const uint32_t *)from);
	case SHORT:
		return json_integer(*(const uint16_t *)from);
	case OCTET:
		return json_integer(*(const uint8_t *)from);
	case REAL:
		break;
	}
	return json_real(*(const double *)from);
}

static void pack_fields(json_t *object, const struct field *list, const struct perf_side *side)
{
	for (; list->name; list++) {
		json_t *group = json_object_get(object, list->group);

		if (!group) {
			group = need_memory(json_object());
			json_object_set_new(object, list->group, group);
		}
		json_object_set_new(group, list->name,
				    pack_field(list, (const char *)side + list->at));
	}
}

/* Return: the percentage of sent segments that are aligned. */
static json_t *aligned(const struct mpa_info *mpa)
{
	uint64_t all = mpa->tx_segs_aligned + mpa->tx_segs_unaligned;

	return all ? json_real(100.0 * mpa->tx_segs_aligned / all) : json_null();
}

json_t *perf_side_pack(const struct perf_side *side, bool mpa)
{
	json_t *object = need_memory(json_object()), *machine;

	pack_fields(object, fields, side);
	if (mpa) {
		pack_fields(object, mpa_fields, side);
		json_object_set_new(json_object_get(object, "mpa"), "aligned_percent",
				    aligned(&side->mpa));
	}
	machine = json_object_get(object, "machine");
	json_object_set_new(machine, "system", json_string(side->system));
	json_object_set_new(machine, "boot", json_string(side->boot));
	json_object_set_new(json_object_get(object, "tcp"), "congestion_control",
			    json_string(side->congestion));
	return object;
}

static bool unpack_field(const struct field *field, json_t *value, void *to)
{
	if (field->kind == REAL) {
		*(double *)to = json_number_value(value);
		return json_is_number(value) && json_number_value(value) >= 0;
	}
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	switch (field->kind) {
	case WHOLE:
		*(uint64_t *)to = json_integer_value(value);
		break;
	case WORD:
		*(uint32_t *)to = json_integer_value(value);
		break;
	case SHORT:
		*(uint16_t *)to = json_integer_value(value);
		break;
	default:
		*(uint8_t *)to = json_integer_value(value);
		break;
	}
	return true;
}

static bool unpack_fields(struct perf_side *side, const struct field *list, json_t *from)
{
	for (; list->name; list++) {
		json_t *value = json_object_get(json_object_get(from, list->group), list->name);

		if (!unpack_field(list, value, (char *)side + list->at))
			return false;
	}
	return true;
}

/* Return: a string from the peer, made printable. */
static char *unpack_text(json_t *from, const char *group, const char *name)
{
	json_t *value = json_object_get(json_object_get(from, group), name);

	return json_is_string(value) ? printable(json_string_value(value),
						 json_string_length(value)) :
				       need_memory(strdup("?"));
}

bool perf_side_unpack(struct perf_side *side, json_t *from)
{
	memset(side, 0, sizeof(*side));
	if (!unpack_fields(side, fields, from) ||
	    (json_object_get(from, "mpa") && !unpack_fields(side, mpa_fields, from)))
		return false;
	side->boot = unpack_text(from, "machine", "boot");
	side->system = unpack_text(from, "machine", "system");
	side->congestion = unpack_text(from, "tcp", "congestion_control");
	return true;
}

/* Whether a line of the file begins with @front and contains the word. */
static bool file_has(const char *path, const char *front, const char *word)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	bool has = false;
	size_t room = 0;

	while (file && !has && getline(&line, &room, file) > 0)
		has = !strncmp(line, front, strlen(front)) && strstr(line, word);
	free(line);
	if (file)
		fclose(file);
	return has;
}

static char *first_line(const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	if (!file || getline(&line, &room, file) < 0) {
		free(line);
		line = need_memory(strdup("?"));
	}
	if (file)
		fclose(file);
	line[strcspn(line, "\n")] = 0;
	return line;
}

/* Describe this machine. */
void perf_side_machine(struct perf_side *side)
{
	struct utsname name;

	if (uname(&name))
		die(STATUS_LOCAL, "uname: %m");
	side->system = perf_text("%s %s %s %s", name.sysname, name.nodename, name.release,
				 name.machine);
	side->boot = first_line("/proc/sys/kernel/random/boot_id");
	side->processors = sysconf(_SC_NPROCESSORS_ONLN);
	side->virtual = file_has("/proc/cpuinfo", "flags", " hypervisor");
}
