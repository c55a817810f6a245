// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets that close(2) has left with octets that TCP has no memory for: how
 * many there may be. Nobody counts them among TCP's orphans, and no file does.
 */

#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/net.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>

#include "mpa.h"

/* Of one user, and so many users. */
#define MPA_LINGER_MAX		1024
#define MPA_LINGERERS		256

/**
 * struct mpa_lingerer - a user with sockets that linger
 * @ns:		the user namespace that root has made for him, only compared; or
 *		NULL
 * @uid:	who
 * @n:		how many
 */
struct mpa_lingerer {
	const struct user_namespace *ns;
	kuid_t uid;
	u32 n;
};

static struct mpa_lingerer mpa_lingerers[MPA_LINGERERS];
static DEFINE_SPINLOCK(mpa_linger_lock);

/*
 * Who has opened the socket. In a user namespace of his own one user has many
 * numbers: they count as his. What root makes namespaces for are users as well.
 */
static struct mpa_lingerer mpa_linger_user(const struct sock *sk)
{
	struct mpa_lingerer user = { .uid = GLOBAL_ROOT_UID };
	const struct file *file = sk->sk_socket->file;
	const struct user_namespace *ns;

	if (!file)
		return user;
	user.uid = file->f_cred->euid;
	for (ns = file->f_cred->user_ns; ns->parent; ns = ns->parent) {
		user.uid = ns->owner;
		user.ns = uid_eq(ns->owner, GLOBAL_ROOT_UID) ? ns : NULL;
	}
	return user;
}

static struct mpa_lingerer *mpa_lingerer_find(const struct mpa_lingerer *user)
{
	struct mpa_lingerer *free = NULL, *lingerer;
	unsigned int i;

	for (i = 0; i < MPA_LINGERERS; i++) {
		lingerer = &mpa_lingerers[i];
		if (!lingerer->n)
			free = free ?: lingerer;
		else if (uid_eq(lingerer->uid, user->uid) &&
			 lingerer->ns == user->ns)
			return lingerer;
	}
	if (free)
		*free = *user;
	return free;
}

/**
 * mpa_linger_enter() - count a socket that is going to linger
 * @ctx:	its context
 *
 * Context: process, in close(2), socket lock held.
 * Return: false when its user has too many; then it is not counted.
 */
bool mpa_linger_enter(struct mpa_ctx *ctx)
{
	struct mpa_lingerer user = mpa_linger_user(ctx->sk), *lingerer;
	bool enters;

	spin_lock(&mpa_linger_lock);
	lingerer = mpa_lingerer_find(&user);
	enters = lingerer && lingerer->n < MPA_LINGER_MAX;
	if (enters) {
		lingerer->n++;
		ctx->tx.lingerer = lingerer - mpa_lingerers;
	}
	spin_unlock(&mpa_linger_lock);
	return enters;
}

/**
 * mpa_linger_leave() - undo mpa_linger_enter()
 * @ctx:	its context
 *
 * Context: process.
 */
void mpa_linger_leave(const struct mpa_ctx *ctx)
{
	spin_lock(&mpa_linger_lock);
	mpa_lingerers[ctx->tx.lingerer].n--;
	spin_unlock(&mpa_linger_lock);
}
