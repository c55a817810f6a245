/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What older kernels lack, as the code is written for the newest kernel. Other
 * files have some statements for older kernels, in #ifdef MPA_HAVE_*, which
 * "make export" strips. Kbuild probes the headers and defines MPA_HAVE_*:
 * version numbers say little, as Debian backports into stable series.
 */
#ifndef _MPA_COMPAT_H
#define _MPA_COMPAT_H

#include <linux/kernel.h>
#include <linux/string.h>
#ifdef MPA_HAVE_LINUX_UNALIGNED_H
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#ifdef __KERNEL__

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/crc32c.h>
#include <linux/shrinker.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/sockptr.h>
#include <linux/splice.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <net/sock.h>
#include <net/tcp.h>

/*
 * 6.1 has no copy_struct_from_sockptr(), and the function of 6.12 does not
 * check the tail of a longer struct: mpa_copy_struct() replaces it.
 */
#ifndef MPA_HAVE_COPY_STRUCT
static inline int mpa_copy_struct(void *dst, size_t ksize, sockptr_t src,
				  size_t usize)
{
	size_t size = min(ksize, usize);

	if (usize > ksize) {
		int ret = check_zeroed_sockptr(src, size, usize - size);

		if (ret <= 0)
			return ret ?: -E2BIG;
	}
	memset(dst + size, 0, ksize - size);
	return copy_from_sockptr(dst, src, size) ? -EFAULT : 0;
}

#define copy_struct_from_sockptr mpa_copy_struct
#endif

/* Make a kernel socket hold a reference to its network namespace. */
#ifndef MPA_HAVE_NET_REFCNT_UPGRADE
static inline void sk_net_refcnt_upgrade(struct sock *sk)
{
#ifdef MPA_HAVE_PASSIVE_NETNS_TRACKER
	__netns_tracker_free(sock_net(sk), &sk->ns_tracker, false);
#endif
	sk->sk_net_refcnt = 1;
	get_net_track(sock_net(sk), &sk->ns_tracker, GFP_KERNEL);
	sock_inuse_add(sock_net(sk), 1);
}
#endif

#ifndef MPA_HAVE_COPY_SPLICE_READ
#define copy_splice_read generic_file_splice_read
#endif

#ifndef MPA_HAVE_SKB_FRAGS_READABLE
static inline bool skb_frags_readable(const struct sk_buff *skb)
{
	return true;
}
#endif

#ifndef MPA_HAVE_MEMCG_FROM_SK
static inline struct mem_cgroup *mem_cgroup_from_sk(const struct sock *sk)
{
#ifdef CONFIG_MEMCG
	return sk->sk_memcg;
#else
	return NULL;
#endif
}
#endif

/* Without a size, tables of sysctls end with an empty entry. */
#ifndef MPA_HAVE_NET_SYSCTL_SZ
#define register_net_sysctl_sz(net, path, table, size) \
	register_net_sysctl(net, path, table)
#endif

#ifndef MPA_HAVE_SHRINKER_ALLOC
static inline struct shrinker *shrinker_alloc(unsigned int flags,
					      const char *name)
{
	struct shrinker *shrinker = kzalloc(sizeof(*shrinker), GFP_KERNEL);

	if (shrinker) {
		shrinker->flags = flags;
		shrinker->seeks = DEFAULT_SEEKS;
	}
	return shrinker;
}

/* register_shrinker() fails only without memory. */
static inline void shrinker_register(struct shrinker *shrinker)
{
	if (register_shrinker(shrinker, "%s", KBUILD_MODNAME))
		pr_warn(KBUILD_MODNAME
			": gives no memory back when it is short\n");
}

static inline void shrinker_free(struct shrinker *shrinker)
{
	if (shrinker)
		unregister_shrinker(shrinker);
	kfree(shrinker);
}
#endif

#ifndef __counted_by
#define __counted_by(member)
#endif

#ifndef MPA_HAVE_ITER_IOV
#define iter_iov(iter) ((iter)->iov)
#endif

/*
 * On each call, crc32c() of older kernels sets up a descriptor for any kind of
 * hash. This takes as many instructions as the CRC of 500 octets.
 */
#ifdef MPA_HAVE_CRC32C_LIB
static inline int mpa_compat_init(void)
{
	return 0;
}

static inline void mpa_compat_exit(void)
{
}
#else
u32 mpa_crc32c(u32 crc, const void *data, size_t len);
#define crc32c mpa_crc32c
int mpa_compat_init(void);
void mpa_compat_exit(void);
#endif

/*
 * 6.12 declares these functions on every architecture, but does not define them
 * where copies to and from user space are inline (UML, arm). Later kernels have
 * the lines below; earlier kernels define the functions.
 */
#ifdef MPA_HAVE_INLINE_COPY
#ifdef INLINE_COPY_FROM_USER
#define _copy_from_user _inline_copy_from_user
#define _copy_to_user _inline_copy_to_user
#endif
#endif

/* Newer kernels have no addr_len in proto.recvmsg. */
#ifdef MPA_HAVE_RECVMSG_ADDR_LEN
#define MPA_ADDR_LEN_PARAM	, int *addr_len
#define MPA_ADDR_LEN_ARG	, addr_len
#else
#define MPA_ADDR_LEN_PARAM
#define MPA_ADDR_LEN_ARG
#endif

#ifndef MPA_HAVE_SEND_ACK_FLAGS
#define __tcp_send_ack(sk, rcv_nxt, flags) __tcp_send_ack(sk, rcv_nxt)
#endif

/*
 * Newer TCP takes pages with MSG_SPLICE_PAGES. Older TCP ignores the flag, even
 * if it is defined: there tcp_sendpage_locked() takes pages, and splice(2) and
 * sendfile(2) call .sendpage.
 */
#if defined(MPA_HAVE_SENDPAGE) && !defined(MSG_SPLICE_PAGES)
#define MSG_SPLICE_PAGES 0x8000000
#endif

#else /* !__KERNEL__ */

#include <linux/crc32c.h>

#define __read_mostly
#ifndef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#endif

#endif /* __KERNEL__ */

#endif /* _MPA_COMPAT_H */
