// SPDX-License-Identifier: GPL-2.0
/* CRC32c of FPDUs: RFC 5044 section 4.4, after RFC 3720 section 12.1. */

#ifdef CONFIG_X86_64
#include <asm/cpufeature.h>
#endif

#include "compat.h"
#include "mpa_proto.h"

/* Extend a CRC by @len octets. @crc: MPA_CRC_INIT, or the CRC of the octets before. */
u32 mpa_crc_update(u32 crc, const void *data, size_t len)
{
	return crc32c(crc, data, len);
}

/* Fill a CRC field. As in iSCSI, the least significant octet is sent first. */
void mpa_crc_put(u32 crc, u8 *field)
{
	put_unaligned_le32(~crc, field);
}

/* Whether a CRC matches a received CRC field. */
bool mpa_crc_match(u32 crc, const u8 *field)
{
	return get_unaligned_le32(field) == (u32)~crc;
}

/* Compute the CRCs of three FPDUs of @len octets, at most MPA_CRC3_MAX. */
static __always_inline void mpa_crc_three(u32 crc[3], const u8 *fpdus, u32 len)
{
	crc[0] = MPA_CRC_INIT;
	crc[1] = MPA_CRC_INIT;
	crc[2] = MPA_CRC_INIT;
	mpa_crc32c_3(crc, fpdus, fpdus + len, fpdus + 2 * len,
		     len - MPA_CRC_LEN);
}

/* Fill the CRC fields of @nr contiguous FPDUs of @len octets each. */
void mpa_crc_put_many(u8 *fpdus, u32 len, u32 nr)
{
	u32 crc_at = len - MPA_CRC_LEN, crc[3];

	if (mpa_crc_parallel(len) == 3) {
		for (; nr >= 3; nr -= 3, fpdus += 3 * len) {
			mpa_crc_three(crc, fpdus, len);
			mpa_crc_put(crc[0], fpdus + crc_at);
			mpa_crc_put(crc[1], fpdus + len + crc_at);
			mpa_crc_put(crc[2], fpdus + 2 * len + crc_at);
		}
	}
	for (; nr; nr--, fpdus += len)
		mpa_crc_put(mpa_crc_update(MPA_CRC_INIT, fpdus, crc_at),
			    fpdus + crc_at);
}

/*
 * Check the CRC fields of @nr contiguous FPDUs of @len octets each. Return how
 * many FPDUs precede the first bad CRC.
 */
u32 mpa_crc_match_many(const u8 *fpdus, u32 len, u32 nr)
{
	u32 crc_at = len - MPA_CRC_LEN, crc[3], done = 0;

	if (mpa_crc_parallel(len) == 3) {
		for (; nr - done >= 3; done += 3, fpdus += 3 * len) {
			mpa_crc_three(crc, fpdus, len);
			if (!mpa_crc_match(crc[0], fpdus + crc_at))
				return done;
			if (!mpa_crc_match(crc[1], fpdus + len + crc_at))
				return done + 1;
			if (!mpa_crc_match(crc[2], fpdus + 2 * len + crc_at))
				return done + 2;
		}
	}
	for (; done < nr; done++, fpdus += len)
		if (!mpa_crc_match(mpa_crc_update(MPA_CRC_INIT, fpdus, crc_at),
				   fpdus + crc_at))
			break;
	return done;
}

/*
 * ---- three buffers at a time ----
 *
 * One crc32 instruction can start in each cycle, but its result takes three
 * cycles: a single chain of them uses a third of the unit. So crc32c() splits a
 * long buffer in three parts, and joins their CRCs with carry-less
 * multiplications, which need the FPU. For a short buffer it uses one chain.
 * The CRCs of three buffers need only general registers.
 */

bool mpa_crc3_on __read_mostly;

#ifdef __x86_64__

/* Unaligned operand of asm(): shows the compiler which octets are read. */
struct mpa_crc3_quad {
	u8 octets[8];
};

struct mpa_crc3_long {
	u8 octets[4];
};

static __always_inline u64 mpa_crc3_64(u64 crc, const u8 *p)
{
	asm("crc32q %1, %0" : "+r" (crc) :
	    "m" (*(const struct mpa_crc3_quad *)p));
	return crc;
}

static __always_inline u64 mpa_crc3_32(u64 crc, const u8 *p)
{
	asm("crc32l %1, %k0" : "+r" (crc) :
	    "m" (*(const struct mpa_crc3_long *)p));
	return crc;
}

static __always_inline void
mpa_crc3_quads(u64 *crc, const u8 *a, const u8 *b, const u8 *c)
{
	crc[0] = mpa_crc3_64(crc[0], a);
	crc[1] = mpa_crc3_64(crc[1], b);
	crc[2] = mpa_crc3_64(crc[2], c);
}

/*
 * Compute crc32c() of three buffers of @len octets each. @len is a multiple of
 * 4, as the length of an FPDU without its CRC is. mpa_crc3_init() has checked
 * that the processor has the instruction.
 */
void mpa_crc32c_3(u32 crc[3], const u8 *a, const u8 *b, const u8 *c,
		  size_t len)
{
	u64 sum[3] = { crc[0], crc[1], crc[2] };
	size_t at = 0;

	for (; len - at >= 64; at += 64) {
		mpa_crc3_quads(sum, a + at, b + at, c + at);
		mpa_crc3_quads(sum, a + at + 8, b + at + 8, c + at + 8);
		mpa_crc3_quads(sum, a + at + 16, b + at + 16, c + at + 16);
		mpa_crc3_quads(sum, a + at + 24, b + at + 24, c + at + 24);
		mpa_crc3_quads(sum, a + at + 32, b + at + 32, c + at + 32);
		mpa_crc3_quads(sum, a + at + 40, b + at + 40, c + at + 40);
		mpa_crc3_quads(sum, a + at + 48, b + at + 48, c + at + 48);
		mpa_crc3_quads(sum, a + at + 56, b + at + 56, c + at + 56);
	}
	for (; len - at >= 8; at += 8)
		mpa_crc3_quads(sum, a + at, b + at, c + at);
	if (len > at) {
		sum[0] = mpa_crc3_32(sum[0], a + at);
		sum[1] = mpa_crc3_32(sum[1], b + at);
		sum[2] = mpa_crc3_32(sum[2], c + at);
	}
	crc[0] = sum[0];
	crc[1] = sum[1];
	crc[2] = sum[2];
}

#else

void mpa_crc32c_3(u32 crc[3], const u8 *a, const u8 *b, const u8 *c,
		  size_t len)
{
	crc[0] = crc32c(crc[0], a, len);
	crc[1] = crc32c(crc[1], b, len);
	crc[2] = crc32c(crc[2], c, len);
}

#endif /* __x86_64__ */

/*
 * Whether the processor has a CRC32c instruction and crc32c() uses nothing faster:
 * newer kernels use AVX-512, twice as fast for a segment.
 */
bool mpa_has_crc32(void)
{
#if defined(CONFIG_X86_64) && defined(CONFIG_CRC32_ARCH)
	if (boot_cpu_has(X86_FEATURE_VPCLMULQDQ) &&
	    boot_cpu_has(X86_FEATURE_AVX512BW) &&
	    boot_cpu_has(X86_FEATURE_AVX512VL) &&
	    !boot_cpu_has(X86_FEATURE_PREFER_YMM))
		return false;
#endif
#ifndef __x86_64__
	return false;
#elif defined(__KERNEL__)
	return boot_cpu_has(X86_FEATURE_XMM4_2);
#else
	return __builtin_cpu_supports("sse4.2");
#endif
}

/* At module load or in a test: decide whether to compute three CRCs at a time. */
void mpa_crc3_init(void)
{
	mpa_crc3_on = mpa_has_crc32();
}
