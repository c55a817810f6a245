/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The records of a file transfer (mpa-connect(1), PROTOCOL). Each begins with 8 octets:
 * in a data record the position in the file; in other records the first octet is 0xff,
 * which no position has. Numbers are big-endian.
 */
#ifndef _MPA_TRANSFER_H
#define _MPA_TRANSFER_H

#include "relay.h"

#define TRANSFER_VERSION	1
#define TRANSFER_NAME_MAX	255
#define TRANSFER_TEXT_MAX	255
#define TRANSFER_SIZE_UNKNOWN	UINT64_MAX
#define TRANSFER_PLACE		8	/* octets before a data record's content */
#define TRANSFER_CONTROL	0xff	/* first octet of a record without data */

#define TRANSFER_HEAD		"\377mpahead"
#define TRANSFER_TAIL		"\377mpatail"
#define TRANSFER_WANT		"\377mpawant"
#define TRANSFER_DONE		"\377mpadone"

/* The sender's first record; the name follows. */
struct transfer_head {
	char tag[8];
	uint32_t version;
	uint32_t name_len;
	uint64_t size;
} __attribute__((packed));

/* the sender's last record */
struct transfer_tail {
	char tag[8];
	uint64_t size;
	uint8_t digest[SHA256_DIGEST_SIZE];
} __attribute__((packed));

enum transfer_result {
	TRANSFER_WHOLE,
	TRANSFER_DIFFERS,	/* octets are missing or wrong */
	TRANSFER_UNWANTED,	/* the receiver rejects the file */
	TRANSFER_FAILED,	/* the receiver could not write the file */
};

/* The receiver's last record; text for the user follows. */
struct transfer_done {
	char tag[8];
	uint32_t result;
	uint64_t size;
	uint8_t digest[SHA256_DIGEST_SIZE];
} __attribute__((packed));

/* transfer.c */
bool transfer_is(const char *octets, size_t len, const char *tag, size_t least);
int transfer_put_one(struct session *session, const void *octets, size_t len);
void transfer_drain(struct session *session);
char *transfer_hex(const uint8_t *digest);
int transfer_fail(struct session *session, enum status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int transfer_wait(struct session *session, short events);
int transfer_lost(struct session *session, int err);

#endif /* _MPA_TRANSFER_H */
