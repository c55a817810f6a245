// SPDX-License-Identifier: GPL-2.0
/* mpa_upcalls.h: the user sends. */

#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/mpa.h>

#include "upcalls.h"

static int send_bvec(struct socket *sock, struct upcall_send *send,
		     const struct kvec *header, const u8 *octets)
{
	u32 n = DIV_ROUND_UP(send->len + offset_in_page(octets), PAGE_SIZE);
	struct bio_vec *vec = kcalloc(n, sizeof(*vec), GFP_KERNEL);
	u32 i, off, left = send->len;
	struct iov_iter iter;
	int err;

	if (!vec)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		off = offset_in_page(octets);
		vec[i].bv_page = virt_to_page(octets);
		vec[i].bv_offset = off;
		vec[i].bv_len = min_t(u32, left, PAGE_SIZE - off);
		left -= vec[i].bv_len;
		octets += vec[i].bv_len;
	}
	iov_iter_bvec(&iter, ITER_SOURCE, vec, n, send->len);
	err = mpa_sock_send(sock, header, &iter, send->flags, &send->end);
	kfree(vec);
	return err;
}

static int send_kernel(struct socket *sock, struct upcall_send *send,
		       const struct kvec *header)
{
	struct kvec vec = { .iov_len = send->len };
	struct iov_iter iter;
	int err;

	vec.iov_base = memdup_user((void __user *)send->payload, send->len);
	if (IS_ERR(vec.iov_base))
		return PTR_ERR(vec.iov_base);
	iov_iter_kvec(&iter, ITER_SOURCE, &vec, 1, send->len);
	err = send->memory == MEMORY_KVEC ?
	      mpa_sock_send(sock, header, &iter, send->flags,
			    &send->end) :
	      send_bvec(sock, send, header, vec.iov_base);
	kfree(vec.iov_base);
	return err;
}

static int send_user(struct socket *sock, struct upcall_send *send,
		     const struct kvec *header)
{
	struct iov_iter iter;
	struct iovec iov = {
		.iov_base = (void __user *)send->payload,
		.iov_len = send->len,
	};

	iov_iter_init(&iter, ITER_SOURCE, &iov, 1, send->len);
	return mpa_sock_send(sock, header, &iter, send->flags,
			     &send->end);
}

int upcalls_send(struct socket *sock, void __user *arg)
{
	struct kvec header = {}, *first = NULL;
	struct upcall_send send;
	int err;

	if (copy_from_user(&send, arg, sizeof(send)))
		return -EFAULT;
	if (send.header_len > 70000 || send.len > 70000)
		return -EINVAL;
	if (send.header_len) {
		header.iov_base = memdup_user((void __user *)send.header,
					      send.header_len);
		if (IS_ERR(header.iov_base))
			return PTR_ERR(header.iov_base);
		header.iov_len = send.header_len;
		first = &header;
	}
	if (!send.len)
		err = mpa_sock_send(sock, first, NULL, send.flags,
				    &send.end);
	else if (send.memory == MEMORY_USER)
		err = send_user(sock, &send, first);
	else
		err = send_kernel(sock, &send, first);
	kfree(header.iov_base);
	if (!err && copy_to_user(arg, &send, sizeof(send)))
		err = -EFAULT;
	return err;
}

static void write_header(const struct mpa_headers *headers, void *to, u32 off,
			 u32 len, bool last)
{
	struct upcall_header header = { .off = off, .len = len, .last = last };

	memset(to, 0x5a, headers->len);
	memcpy(to, &header, min_t(u32, sizeof(header), headers->len));
}

/* @octets are of vmalloc(). */
static int send_cut(struct socket *sock, struct upcall_send *send, u8 *octets)
{
	u32 n = DIV_ROUND_UP(send->len, PAGE_SIZE), i;
	struct bio_vec *vec = kcalloc(n, sizeof(*vec), GFP_KERNEL);
	struct mpa_headers headers = {
		.len = send->header_len, .write = write_header,
	};
	struct iov_iter iter;
	int sent;

	if (!vec)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		vec[i].bv_page = vmalloc_to_page(octets + i * PAGE_SIZE);
		vec[i].bv_len = PAGE_SIZE;
	}
	iov_iter_bvec(&iter, ITER_SOURCE, vec, n, send->len);
	sent = mpa_sock_send_cut(sock, &headers, &iter, send->flags,
				 &send->end);
	if (sent > 0 && iov_iter_count(&iter) != send->len - sent)
		sent = -EUCLEAN;
	kfree(vec);
	return sent;
}

int upcalls_cut(struct socket *sock, void __user *arg)
{
	struct upcall_send send;
	u8 *octets;
	int sent;

	if (copy_from_user(&send, arg, sizeof(send)))
		return -EFAULT;
	if (send.len > SZ_1M)
		return -EINVAL;
	octets = vmalloc(max(send.len, 1U));
	if (!octets)
		return -ENOMEM;
	sent = -EFAULT;
	if (!copy_from_user(octets, (void __user *)send.payload, send.len))
		sent = send_cut(sock, &send, octets);
	vfree(octets);
	if (sent < 0)
		return sent;
	send.len = sent;
	return copy_to_user(arg, &send, sizeof(send)) ? -EFAULT : 0;
}

/* ---- pages that stay where they are ---- */

/* Pieces of @piece octets, each from octet @offset of memory of its own on. */
static int make_pages(struct upcalls_pages *pages, const struct upcall_pages *how)
{
	const u8 __user *from = (void __user *)how->payload;
	u32 left = how->len, n;
	struct bio_vec *piece;
	u8 *octets;

	for (; left; left -= n, from += n) {
		/* For a test of empty ones. */
		n = how->gaps && pages->nr % 2 ? 0 : min(left, how->piece);
		if (pages->nr == UPCALLS_PIECES)
			return -ENOMEM;
		if (how->slab)
			octets = kmalloc(how->offset + how->piece, GFP_KERNEL);
		else
			octets = (u8 *)__get_free_pages(GFP_KERNEL | __GFP_COMP,
						get_order(how->offset + how->piece));
		if (!octets)
			return -ENOMEM;
		piece = pages->piece + pages->nr++;
		octets += how->offset;
		*piece = (struct bio_vec){
			.bv_page = virt_to_page(octets), .bv_len = n,
			.bv_offset = offset_in_page(octets),
		};
		if (copy_from_user(octets, from, n))
			return -EFAULT;
	}
	return 0;
}

/* Give back what nobody else has. Return: how many pieces are left. */
static u32 free_pages_left(struct upcalls_pages *pages)
{
	u32 i, left = 0;

	for (i = 0; i < pages->nr; i++) {
		struct bio_vec *piece = pages->piece + i;

		if (!pages->slab && page_count(piece->bv_page) > 1)
			pages->piece[left++] = *piece;
		else if (pages->slab)
			kfree(page_address(piece->bv_page) + piece->bv_offset -
			      pages->offset);
		else
			put_page(piece->bv_page);
	}
	pages->nr = left;
	return left;
}

void upcalls_drop_pages(struct upcalls_pages *pages)
{
	free_pages_left(pages);
	while (pages->nr)
		put_page(pages->piece[--pages->nr].bv_page);
	kvfree(pages->piece);
	pages->piece = NULL;
}

static int send_pages(struct socket *sock, struct upcalls_pages *pages,
		      struct upcall_pages *how)
{
	struct mpa_headers headers = {
		.len = how->header_len, .write = write_header,
	};
	struct kvec header = { .iov_len = how->header_len };
	struct iov_iter iter;
	int sent;

	iov_iter_bvec(&iter, ITER_SOURCE, pages->piece, pages->nr, how->len);
	if (how->cut) {
		sent = mpa_sock_send_cut(sock, &headers, &iter, how->flags,
					 &how->end);
		if (sent > 0 && iov_iter_count(&iter) != how->len - sent)
			return -EUCLEAN;
		if (sent > 0)
			how->sent = sent;
		return min(sent, 0);
	}
	header.iov_base = kmalloc(how->header_len, GFP_KERNEL);
	if (!header.iov_base)
		return -ENOMEM;
	write_header(&headers, header.iov_base, 0, how->len, true);
	sent = mpa_sock_send(sock, how->header_len ? &header : NULL, &iter,
			     how->flags, &how->end);
	if (iov_iter_count(&iter) != (sent ? how->len : 0))
		sent = -EUCLEAN;
	if (!sent)
		how->sent = how->len;
	kfree(header.iov_base);
	return sent;
}

int upcalls_send_pages(struct socket *sock, struct upcalls_pages *pages,
		       void __user *arg)
{
	struct upcall_pages how;
	int err;

	if (copy_from_user(&how, arg, sizeof(how)))
		return -EFAULT;
	if (how.len > SZ_1M || !how.piece || how.header_len > 70000 ||
	    how.offset > SZ_64K || how.piece > SZ_1M)
		return -EINVAL;
	if (pages->nr)
		return -EBUSY;
	if (!pages->piece)
		pages->piece = kvcalloc(UPCALLS_PIECES, sizeof(*pages->piece),
					GFP_KERNEL);
	if (!pages->piece)
		return -ENOMEM;
	pages->slab = how.slab;
	pages->offset = how.offset;
	err = make_pages(pages, &how) ?: send_pages(sock, pages, &how);
	/* Those of slabs may not be looked at. */
	how.left = free_pages_left(pages);
	if (copy_to_user(arg, &how, sizeof(how)))
		return -EFAULT;
	return err;
}

int upcalls_pages_left(struct upcalls_pages *pages, void __user *arg)
{
	return put_user(free_pages_left(pages), (u32 __user *)arg);
}
