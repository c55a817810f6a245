// SPDX-License-Identifier: GPL-2.0
/* --json: write events and records to standard output, one JSON object a line. */
#include "relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Return: a line, which the caller frees. Takes ownership of @object. */
static char *line_of(json_t *object)
{
	/* Use ASCII only: other characters from the peer could control a terminal. */
	char *text = json_dumps(need_memory(object), JSON_COMPACT | JSON_ENSURE_ASCII), *line;

	if (asprintf(&line, "%s\n", (char *)need_memory(text)) < 0)
		need_memory(NULL);
	free(text);
	json_decref(object);
	return line;
}

static json_t *event_object(const char *name, const char *peer)
{
	json_t *object = json_pack("{s:s}", "event", name);

	if (peer)
		json_object_set_new(object, "peer", json_string(peer));
	return object;
}

/* Return: a line, which the caller frees. Takes ownership of @fields, which may be NULL. */
char *event_line(const char *name, const char *peer, json_t *fields)
{
	json_t *object = event_object(name, peer);

	if (fields)
		json_object_update(object, fields);
	json_decref(fields);
	return line_of(object);
}

/* Write an event's line to standard output at once. */
void event(const char *name, const char *peer, json_t *fields)
{
	char *line = event_line(name, peer, fields);
	size_t done = 0, len;

	for (len = strlen(line); done < len;) {
		ssize_t n = write(STDOUT_FILENO, line + done, len - done);

		if (n < 0 && errno != EINTR)
			die(STATUS_LOCAL, "standard output: %m");
		done += n > 0 ? n : 0;
	}
	free(line);
}

/* Add octets as text if they are UTF-8, otherwise as NAME_hex, in hexadecimal. */
static void set_octets(json_t *object, const char *name, const void *octets, size_t len)
{
	json_t *text = json_stringn(octets, len);
	const unsigned char *from = octets;
	char *hex, *key;

	if (text) {
		json_object_set_new(object, name, text);
		return;
	}
	hex = need_memory(malloc(2 * len + 1));
	for (size_t i = 0; i < len; i++)
		sprintf(hex + 2 * i, "%02x", from[i]);
	if (asprintf(&key, "%s_hex", name) < 0)
		need_memory(NULL);
	json_object_set_new(object, key, json_string(hex));
	free(key);
	free(hex);
}

static json_t *rtr_json(unsigned int flags)
{
	static const char *const names[] = { "fpdu", "write", "read" };
	json_t *list = need_memory(json_array());

	for (int i = 0; i < 3; i++)
		if (flags & MPA_START_RTR_FPDU << i)
			json_array_append_new(list, json_string(names[i]));
	return list;
}

/* Add the content of the peer's frame. */
void event_frame(json_t *object, const struct mpa_peer *peer)
{
	json_t *frame = json_pack("{s:i, s:b, s:b, s:b, s:b}", "revision", peer->revision,
				  "markers", !!(peer->flags & MPA_PEER_MARKERS),
				  "crc", !!(peer->flags & MPA_PEER_CRC),
				  "rejected", !!(peer->flags & MPA_PEER_REJECTED),
				  "enhanced", !!(peer->flags & MPA_PEER_ENHANCED));

	if (peer->flags & MPA_PEER_ENHANCED) {
		json_object_set_new(frame, "ird", json_integer(peer->ird));
		json_object_set_new(frame, "ord", json_integer(peer->ord));
		json_object_set_new(frame, "p2p", json_boolean(peer->control & MPA_START_P2P));
		json_object_set_new(frame, "rtr", rtr_json(peer->control));
	}
	json_object_set_new(object, "peer_frame", frame);
	if (peer->private_len)
		set_octets(object, "private_data", peer->private_data, peer->private_len);
}

/* Return: the negotiated parameters. */
json_t *event_agreed(int fd)
{
	static const char *const roles[] = { "none", "initiator", "responder", "direct" };
	struct mpa_info info;
	struct mpa_peer peer;
	json_t *object;

	start_info(fd, &info);
	object = json_pack("{s:s, s:i, s:b, s:b, s:b, s:b, s:b, s:i, s:i}",
			   "role", roles[info.role & 3], "revision", info.revision,
			   "markers_sent", !!(info.flags & MPA_INFO_TX_MARKERS),
			   "markers_received", !!(info.flags & MPA_INFO_RX_MARKERS),
			   "crcs_sent", !!(info.flags & MPA_INFO_TX_CRC),
			   "crcs_received", !!(info.flags & MPA_INFO_RX_CRC),
			   "p2p", !!(info.flags & MPA_INFO_P2P),
			   "emss", (int)info.emss, "mulpdu", (int)info.mulpdu);
	if (info.flags & MPA_INFO_ENHANCED) {
		json_object_set_new(object, "ird", json_integer(info.ird));
		json_object_set_new(object, "ord", json_integer(info.ord));
	}
	if (info.flags & MPA_INFO_P2P)
		json_object_set_new(object, "rtr", rtr_json(info.rtr));
	if (start_peer(fd, &peer))
		event_frame(object, &peer);
	return object;
}

void event_started(const char *peer, int fd)
{
	event("started", peer, event_agreed(fd));
}

/* Return: a record as a line, which the caller frees. */
char *event_record(const char *peer, const char *octets, size_t len,
		   const struct mpa_recvinfo *info)
{
	json_t *object = event_object("record", peer);

	set_octets(object, "record", octets, len);
	json_object_set_new(object, "length", json_integer(len));
	json_object_set_new(object, "position", json_integer(info->position));
	if (info->valid & MPA_RECVINFO_VALID_ORDER)
		json_object_set_new(object, "order", json_integer(info->order));
	json_object_set_new(object, "placed", json_boolean(info->flags & MPA_RECVINFO_PLACED));
	return line_of(object);
}
