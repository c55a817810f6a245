// SPDX-License-Identifier: GPL-2.0
/*
 * Records with a CRC over TCP, as a library in user space would implement them: a length of two
 * octets, the octets, their CRC32c. The library uses the processor's instruction for CRC32c, one
 * writev for all records of a call, and reads into a large buffer, where the records are used.
 */

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <nmmintrin.h>

#include "traffic.h"

#define HEAD		2
#define TAIL		4
#define ROOM		(256 * 1024)
#define IOV_AT_ONCE	1024

struct record {
	uint8_t head[HEAD];
	uint8_t tail[TAIL];
};

/* @octets from @first to @last were received, and not used yet. */
struct library {
	struct record record[BATCH_MAX];
	struct iovec iov[3 * BATCH_MAX];
	size_t first, last;
	uint8_t octets[ROOM];
};

static uint64_t eight(const uint8_t *octets)
{
	uint64_t v;

	memcpy(&v, octets, sizeof(v));
	return v;
}

static uint32_t crc32c(const uint8_t *head, const uint8_t *octets, size_t len)
{
	uint64_t crc = ~0U;
	uint16_t first;

	memcpy(&first, head, HEAD);
	crc = _mm_crc32_u16(crc, first);
	for (; len >= 64; len -= 64, octets += 64) {
		crc = _mm_crc32_u64(crc, eight(octets));
		crc = _mm_crc32_u64(crc, eight(octets + 8));
		crc = _mm_crc32_u64(crc, eight(octets + 16));
		crc = _mm_crc32_u64(crc, eight(octets + 24));
		crc = _mm_crc32_u64(crc, eight(octets + 32));
		crc = _mm_crc32_u64(crc, eight(octets + 40));
		crc = _mm_crc32_u64(crc, eight(octets + 48));
		crc = _mm_crc32_u64(crc, eight(octets + 56));
	}
	for (; len >= 8; len -= 8, octets += 8)
		crc = _mm_crc32_u64(crc, eight(octets));
	while (len--)
		crc = _mm_crc32_u8(crc, *octets++);
	return ~crc;
}

static void library_start(struct end *end)
{
	errno = ENOTSUP;
	if (!__builtin_cpu_supports("sse4.2"))
		fail("the instruction for CRC32c");
	set_int(end->fd, SOL_TCP, TCP_NODELAY, 1);
	end->priv = calloc(1, sizeof(struct library));
	if (!end->priv)
		fail("memory");
}

static void writev_whole(int fd, struct iovec *iov, size_t nr)
{
	while (nr) {
		ssize_t n = writev(fd, iov,
				   nr < IOV_AT_ONCE ? nr : IOV_AT_ONCE);

		if (n < 0)
			fail("writev");
		while (nr && (size_t)n >= iov->iov_len) {
			n -= iov->iov_len;
			iov++;
			nr--;
		}
		if (n) {
			iov->iov_base = (uint8_t *)iov->iov_base + n;
			iov->iov_len -= n;
		}
	}
}

static void library_send(struct end *end)
{
	struct library *lib = end->priv;
	size_t left = end->len, nr = 0;
	size_t size = end->plan->size;
	uint8_t *octets = end->data;

	while (left) {
		struct record *record = &lib->record[nr];
		struct iovec *iov = &lib->iov[3 * nr++];
		size_t len = left < size ? left : size;
		uint32_t crc;

		record->head[0] = len >> 8;
		record->head[1] = len;
		crc = crc32c(record->head, octets, len);
		memcpy(record->tail, &crc, TAIL);
		iov[0] = (struct iovec){ record->head, HEAD };
		iov[1] = (struct iovec){ octets, len };
		iov[2] = (struct iovec){ record->tail, TAIL };
		octets += len;
		left -= len;
	}
	writev_whole(end->fd, lib->iov, 3 * nr);
}

/* Return the length of the first record, or 0 if the record is incomplete. */
static size_t library_next(struct library *lib, const uint8_t **octets)
{
	const uint8_t *head = lib->octets + lib->first;
	size_t have = lib->last - lib->first, len;
	uint32_t crc;

	if (have < HEAD)
		return 0;
	len = head[0] << 8 | head[1];
	if (have < HEAD + len + TAIL)
		return 0;
	memcpy(&crc, head + HEAD + len, TAIL);
	if (crc != crc32c(head, head + HEAD, len)) {
		errno = EBADMSG;
		fail("a record");
	}
	*octets = head + HEAD;
	lib->first += HEAD + len + TAIL;
	return len;
}

static size_t library_recv(struct end *end)
{
	struct library *lib = end->priv;
	const uint8_t *octets;
	size_t done = 0, len;
	ssize_t n;

	while (!done) {
		if (lib->first == lib->last) {
			lib->first = 0;
			lib->last = 0;
		}
		/* Make space for the rest of a record. */
		if (lib->first && ROOM - lib->first < HEAD + 65535 + TAIL) {
			memmove(lib->octets, lib->octets + lib->first,
				lib->last - lib->first);
			lib->last -= lib->first;
			lib->first = 0;
		}
		n = read(end->fd, lib->octets + lib->last, ROOM - lib->last);
		if (n < 0)
			fail("read");
		if (!n)
			break;
		lib->last += n;
		while ((len = library_next(lib, &octets))) {
			check(end, octets, len);
			end->records++;
			done += len;
		}
	}
	return done;
}

const struct way way_library = {
	.name = "library",
	.start = library_start,
	.send = library_send,
	.recv = library_recv,
};
