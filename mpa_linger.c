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
 * @uid:	who
 * @n:		how many
 */
struct mpa_lingerer {
	kuid_t uid;
	u32 n;
};

static struct mpa_lingerer mpa_lingerers[MPA_LINGERERS];
static DEFINE_SPINLOCK(mpa_linger_lock);

/*
 * Who has opened the socket. In a user namespace of his own one user has many
 * numbers: they count as his.
 */
static kuid_t mpa_linger_user(const struct sock *sk)
{
	const struct file *file = sk->sk_socket->file;
	const struct user_namespace *ns;
	kuid_t uid;

	if (!file)
		return GLOBAL_ROOT_UID;
	uid = file->f_cred->euid;
	for (ns = file->f_cred->user_ns; ns->parent; ns = ns->parent)
		uid = ns->owner;
	return uid;
}

static struct mpa_lingerer *mpa_lingerer_find(kuid_t uid)
{
	struct mpa_lingerer *free = NULL;
	unsigned int i;

	for (i = 0; i < MPA_LINGERERS; i++) {
		if (!mpa_lingerers[i].n)
			free = free ?: &mpa_lingerers[i];
		else if (uid_eq(mpa_lingerers[i].uid, uid))
			return &mpa_lingerers[i];
	}
	if (free)
		free->uid = uid;
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
	kuid_t uid = mpa_linger_user(ctx->sk);
	struct mpa_lingerer *lingerer;
	bool enters;

	spin_lock(&mpa_linger_lock);
	lingerer = mpa_lingerer_find(uid);
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
