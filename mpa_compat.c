// SPDX-License-Identifier: GPL-2.0
/* What older kernels lack and compat.h cannot provide inline. */

#include "compat.h"
#undef crc32c

#ifndef MPA_HAVE_CRC32C_LIB

#include <crypto/hash.h>

/* Maximum state of a CRC32c implementation, in octets. */
#define MPA_CRC_STATE	16

static struct crypto_shash *mpa_crc_hash __ro_after_init;

/* crc32c() without the setup that makes it expensive: see compat.h. */
u32 mpa_crc32c(u32 crc, const void *data, size_t len)
{
	u8 room[sizeof(struct shash_desc) + MPA_CRC_STATE]
		__aligned(__alignof__(struct shash_desc));
	struct shash_desc *desc = (struct shash_desc *)room;
	u32 *state = shash_desc_ctx(desc);

	if (!mpa_crc_hash)
		return crc32c(crc, data, len);
	desc->tfm = mpa_crc_hash;
	*state = crc;
	crypto_shash_update(desc, data, len);
	return *state;
}

int __init mpa_compat_init(void)
{
	struct crypto_shash *hash = crypto_alloc_shash("crc32c", 0, 0);

	if (IS_ERR(hash))
		return PTR_ERR(hash);
	if (crypto_shash_descsize(hash) > MPA_CRC_STATE)
		crypto_free_shash(hash);
	else
		mpa_crc_hash = hash;
	return 0;
}

void mpa_compat_exit(void)
{
	crypto_free_shash(mpa_crc_hash);
}

#endif /* !MPA_HAVE_CRC32C_LIB */
