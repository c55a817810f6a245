// SPDX-License-Identifier: GPL-2.0
/* Escape octets from the peer for a terminal. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Characters that control a terminal, or the direction of text. */
static const struct {
	uint32_t from;
	uint32_t to;
} unsafe[] = {
	{ 0, 0x1f }, { 0x7f, 0x9f }, { 0x61c, 0x61c }, { 0x200e, 0x200f }, { 0x2028, 0x202e },
	{ 0x2066, 0x2069 },
};

static bool is_unsafe(uint32_t code)
{
	for (size_t i = 0; i < sizeof(unsafe) / sizeof(*unsafe); i++)
		if (code >= unsafe[i].from && code <= unsafe[i].to)
			return true;
	return false;
}

/* Return: the length of a UTF-8 character with this first octet; 0: invalid. */
static size_t character_len(unsigned char first)
{
	return first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 :
	       first < 0xf8 ? 4 : 0;
}

/* Return: the length of the text's first character; 0: invalid. */
static size_t character(const unsigned char *from, size_t len, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = character_len(*from);

	if (!n || n > len)
		return 0;
	*code = n == 1 ? *from : *from & (0x7f >> n);
	for (size_t i = 1; i < n; i++) {
		if ((from[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (from[i] & 0x3f);
	}
	if (*code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
		return 0;
	return n;
}

static bool are_characters(const void *octets, size_t len, bool safe)
{
	const unsigned char *from = octets;
	uint32_t code;
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = character(from + i, len - i, &code);
		if (!n || (safe && is_unsafe(code)))
			return false;
	}
	return true;
}

bool is_utf8(const void *octets, size_t len)
{
	return are_characters(octets, len, false);
}

/* Whether these octets may be written to a terminal unchanged. */
bool is_printable(const void *octets, size_t len)
{
	return are_characters(octets, len, true);
}

/*
 * Return: octets from the peer in printable form. UTF-8 text and characters in @keep
 * stay unchanged; all else, and a backslash, becomes \xHH. The caller frees it.
 */
char *printable_but(const void *octets, size_t len, const char *keep)
{
	char *text = need_memory(malloc(4 * len + 1)), *to = text;
	const unsigned char *from = octets;
	uint32_t code;
	bool good;
	size_t n;

	for (; len; from += n, len -= n) {
		n = character(from, len, &code);
		good = n && !is_unsafe(code) && code != '\\';
		n = n ?: 1;
		if (good || (*from && strchr(keep, *from)))
			to = mempcpy(to, from, n);
		else
			for (size_t i = 0; i < n; i++)
				to += sprintf(to, "\\x%02x", from[i]);
	}
	*to = 0;
	return text;
}

char *printable(const void *octets, size_t len)
{
	return printable_but(octets, len, "");
}
