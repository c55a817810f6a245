// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of building and verifying FPDUs on this processor, compared with memcpy, in
 * GB/s of records. The program runs the protocol layer in user space, with the loops of
 * mpa_tx_build.c and mpa_rx_read.c. The other benchmarks count instructions, which
 * shows neither the effect of caches, nor that a CRC instruction waits for the previous
 * one. Column "one": a single chain of CRC instructions; "three": three chains. From
 * 512 octets the kernel's crc32c() also uses three chains, or AVX-512, but has to enter
 * the FPU.
 *
 *	native [OCTETS OF AN FPDU...]
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <linux/crc32c.h>
#include <linux/kernel.h>

#include "mpa_proto.h"

/* Octets of FPDUs for a call, seconds of a measurement, number of measurements */
#define CALL		65536
#define TIME		0.002
#define TIMES		100

static u8 user[CALL] __aligned(4096);
static u8 wire[CALL + 64] __aligned(4096);
static u8 *const fpdus = wire + 6;	/* ULPDUs begin at a multiple of 8 */
static u32 len, nr, octets;
/* Stream positions of the FPDUs: contiguous, where FPDUs of this length are possible */
static u32 pos[CALL / 8 + 1];

#ifdef __x86_64__
static u64 eight(u64 crc, const u8 *p)
{
	u64 v;

	memcpy(&v, p, sizeof(v));
	return __builtin_ia32_crc32di(crc, v);
}

/*
 * A single chain of the processor's instruction, as the kernel uses for a short buffer
 */
u32 crc32c(u32 crc, const void *address, unsigned int length)
{
	const u8 *p = address;
	u64 sum = crc;

	for (; length >= 64; length -= 64, p += 64) {
		sum = eight(sum, p);
		sum = eight(sum, p + 8);
		sum = eight(sum, p + 16);
		sum = eight(sum, p + 24);
		sum = eight(sum, p + 32);
		sum = eight(sum, p + 40);
		sum = eight(sum, p + 48);
		sum = eight(sum, p + 56);
	}
	for (; length >= 8; length -= 8, p += 8)
		sum = eight(sum, p);
	for (; length; length--)
		sum = __builtin_ia32_crc32qi(sum, *p++);
	return sum;
}
#else
#error "only processors with a crc32 instruction of their own are measured"
#endif

static void copy(void)
{
	memcpy(fpdus, user, octets);
}

static void crcs(void)
{
	if (mpa_crc_match_many(fpdus, len, nr) != nr)
		abort();
}

/* As mpa_build_run() without markers. */
static void make(void)
{
	u32 together = mpa_crc_parallel(len), open = 0, i;
	const u8 *from = user;
	u8 *p = fpdus;

	for (i = 0; i < nr; i++) {
		put_unaligned_be16(len - MPA_FPDU_OVERHEAD, p);
		memcpy(p + MPA_LENGTH_LEN, from, len - MPA_FPDU_OVERHEAD);
		from += len - MPA_FPDU_OVERHEAD;
		p += len;
		if (++open < together)
			continue;
		mpa_crc_put_many(p - open * len, len, open);
		open = 0;
	}
	mpa_crc_put_many(p - open * len, len, open);
}

/* As mpa_read_plain(). */
static void verify(void)
{
	u32 together = mpa_crc_parallel(len), some, i, j;
	const u8 *p = fpdus;
	u8 *to = user;

	for (i = 0; i < nr; i += some) {
		some = min(together, nr - i);
		if (mpa_crc_match_many(p, len, some) != some)
			abort();
		for (j = 0; j < some; j++) {
			u32 n = mpa_ulpdu_length(p, MPA_LENGTH_LEN);

			memcpy(to, p + MPA_LENGTH_LEN, n);
			to += n;
			p += len;
		}
	}
}

static void put_marked(const struct mpa_fpdu *fpdu, u8 *p, const u8 **from)
{
	u32 left = fpdu->ulpdu_len, run;
	u32 off = mpa_fpdu_first_span(fpdu, &run);

	if (fpdu->head)
		mpa_marker_put(p, 0);
	put_unaligned_be16(left, p + fpdu->head);
	for (; left > run; run = MPA_MARKER_GAP) {
		memcpy(p + off, *from, run);
		*from += run;
		left -= run;
		off += run;
		mpa_marker_put(p + off, off - fpdu->head);
		off += MPA_MARKER_LEN;
	}
	memcpy(p + off, *from, left);
	*from += left;
	off += left;
	if (off < len - MPA_CRC_LEN)
		mpa_marker_put(p + off, mpa_fpdu_ptr(fpdu, off));
}

/* As mpa_build_run() with markers. */
static void make_marked(void)
{
	u32 together = mpa_crc_parallel(len), open = 0, i;
	const u8 *from = user;
	struct mpa_fpdu fpdu;
	u8 *p = fpdus;

	for (i = 0; i < nr; i++) {
		if (!mpa_fpdu_init_marked(&fpdu, pos[i], len))
			abort();
		put_marked(&fpdu, p, &from);
		p += len;
		if (++open < together)
			continue;
		mpa_crc_put_many(p - open * len, len, open);
		open = 0;
	}
	mpa_crc_put_many(p - open * len, len, open);
}

static void get_marked(const struct mpa_fpdu *fpdu, const u8 *p, u8 **to)
{
	u32 left = fpdu->ulpdu_len, run;

	if (!mpa_fpdu_markers_good(fpdu, p))
		abort();
	p += mpa_fpdu_first_span(fpdu, &run);
	for (; left; left -= run, run = MPA_MARKER_GAP) {
		run = min(run, left);
		memcpy(*to, p, run);
		*to += run;
		p += run + MPA_MARKER_LEN;
	}
}

/* As mpa_read_marked(). */
static void verify_marked(void)
{
	u32 together = mpa_crc_parallel(len), some, i, j;
	const u8 *p = fpdus;
	u8 *to = user;

	for (i = 0; i < nr; i += some) {
		some = min(together, nr - i);
		if (mpa_crc_match_many(p, len, some) != some)
			abort();
		for (j = 0; j < some; j++) {
			u32 head = mpa_fpdu_head_len(pos[i + j], true);
			struct mpa_fpdu fpdu;

			mpa_fpdu_init(&fpdu, pos[i + j],
				      mpa_ulpdu_length(p, head), true);
			get_marked(&fpdu, p, &to);
			p += fpdu.len;
		}
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Return the best of many measurements: other load only makes them slower. */
static double measure(void (*what)(void))
{
	double best = 0;
	int i;

	for (i = 0; i < TIMES; i++) {
		double start = now(), took;
		u64 calls = 0;

		do {
			what();
			calls++;
			took = now() - start;
		} while (took < TIME);
		best = max(best, calls * octets / took / 1e9);
	}
	return best;
}

/* Print a row for @what. @first prepares its data. */
static void row(const char *name, void (*first)(void), void (*what)(void))
{
	double one, three;

	mpa_crc3_on = false;
	first();
	one = measure(what);
	mpa_crc3_on = true;
	first();
	three = measure(what);
	printf("%-28s %8.1f %8.1f %8.2f\n", name, one, three, three / one);
}

static void table(void)
{
	struct mpa_fpdu fpdu;
	u32 i;

	nr = CALL / len;
	for (i = 0; i < nr; i++) {
		while (!mpa_fpdu_init_marked(&fpdu, pos[i], len))
			pos[i] += 4;
		pos[i + 1] = pos[i] + len;
	}
	octets = nr * (len - MPA_FPDU_OVERHEAD);
	printf("\n%u FPDUs of %u octets; GB/s       one    three  times\n", nr,
	       len);
	printf("%-28s %8.1f\n", "memcpy", measure(copy));
	row("CRCs", make, crcs);
	row("FPDUs made", make, make);
	row("FPDUs verified, copied", make, verify);
	row("made with markers", make_marked, make_marked);
	row("verified with markers", make_marked, verify_marked);
}

int main(int argc, char **argv)
{
	static const u32 lens[] = { 72, 1032, 1448, 2896, 4096, 8948 };
	int i;

	mpa_crc3_init();
	if (!mpa_crc3_on) {
		printf("this processor has no instruction for CRC32c\n");
		return 4;
	}
	for (i = 0; i < CALL; i++)
		user[i] = i * 167 + i / 256;
	printf("CRCs of FPDUs one after the other, and three in parallel\n");
	for (i = 1; i < argc; i++) {
		len = strtoul(argv[i], NULL, 0);
		if (len % 4 || len < 8 || len > CALL) {
			fprintf(stderr, "no FPDU: %s\n", argv[i]);
			return 2;
		}
		table();
	}
	for (i = 0; argc < 2 && i < (int)ARRAY_SIZE(lens); i++) {
		len = lens[i];
		table();
	}
	return 0;
}
