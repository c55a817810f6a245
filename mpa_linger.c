// SPDX-License-Identifier: GPL-2.0
/*
 * Keeping sockets after close(2) while TCP has no memory for octets that were
 * accepted, and a limit on how many. They are neither among TCP's orphans nor
 * bound to an open file, so nothing else limits them.
 */

#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/net.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>

#include "mpa_face.h"

/* Sockets of one user, and users. */
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
 * The user that the socket counts for: who has opened it. Inside a user
 * namespace that an ordinary user has made, that user, whatever uid is used
 * there; in one made by root, each uid by itself.
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

/* Count a socket. Return: false if its user has too many. */
static bool mpa_linger_enter(struct mpa_ctx *ctx)
{
	struct mpa_lingerer user = mpa_linger_user(ctx->sk), *lingerer;
	bool enters;

	spin_lock(&mpa_linger_lock);
	lingerer = mpa_lingerer_find(&user);
	enters = lingerer && lingerer->n < MPA_LINGER_MAX;
	if (enters) {
		lingerer->n++;
		ctx->lingerer = lingerer - mpa_lingerers;
	}
	spin_unlock(&mpa_linger_lock);
	return enters;
}

/**
 * mpa_linger_leave() - a socket does not count any more
 * @ctx:	its context
 *
 * Context: process.
 */
void mpa_linger_leave(const struct mpa_ctx *ctx)
{
	spin_lock(&mpa_linger_lock);
	mpa_lingerers[ctx->lingerer].n--;
	spin_unlock(&mpa_linger_lock);
}

/**
 * mpa_linger_begin() - keep a socket that is being closed
 * @ctx:	its context; @ctx->linger is set
 *
 * Context: process, in close(2), socket lock held.
 * Return: false when its user has too many, or without memory for a struct
 * socket.
 */
bool mpa_linger_begin(struct mpa_ctx *ctx)
{
	struct sock *sk = ctx->sk;
	kuid_t uid = sk->sk_uid;
	struct socket *keeper;

	if (!mpa_linger_enter(ctx))
		return false;
	if (sock_create_lite(sk->sk_family, sk->sk_type, sk->sk_protocol,
			     &keeper)) {
		mpa_linger_leave(ctx);
		return false;
	}
	sock_graft(sk, keeper);
	WRITE_ONCE(sk->sk_uid, uid);
	ctx->linger = keeper;
	return true;
}

/**
 * mpa_linger_free() - free what mpa_linger_begin() has made
 * @ctx:	the context, whose socket TCP has closed
 *
 * Context: process.
 */
void mpa_linger_free(struct mpa_ctx *ctx)
{
	struct socket *keeper = ctx->linger;

	keeper->sk = NULL;
	keeper->ops = NULL;
	sock_release(keeper);
}
