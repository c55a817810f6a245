// SPDX-License-Identifier: GPL-2.0
/* Transports with plain socket calls: TCP, the kernel's TLS, SCTP */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/sctp.h>
#include <linux/tls.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "traffic.h"

#ifndef SOL_TLS
#define SOL_TLS		282
#endif
#ifndef SOL_SCTP
#define SOL_SCTP	132
#endif

static void send_whole(int fd, const uint8_t *data, size_t len, int flags)
{
	while (len) {
		ssize_t n = send(fd, data, len, flags | MSG_NOSIGNAL);

		if (n < 0)
			fail("send");
		data += n;
		len -= n;
	}
}

static void send_file(struct end *end)
{
	off_t off = 0;

	while ((size_t)off < end->len) {
		if (sendfile(end->fd, end->file, &off, end->len - off) <= 0)
			fail("sendfile");
	}
}

static void send_messages(struct end *end)
{
	static struct mmsghdr msg[BATCH_MAX];
	const struct plan *plan = end->plan;
	static struct iovec iov[BATCH_MAX];
	size_t done = 0, at = 0, i;

	if (!msg[0].msg_hdr.msg_iov) {
		for (i = 0; i < plan->batch; i++) {
			iov[i].iov_base = end->data + at;
			iov[i].iov_len = record_len(plan, i);
			at += iov[i].iov_len;
			msg[i].msg_hdr.msg_iov = &iov[i];
			msg[i].msg_hdr.msg_iovlen = 1;
		}
	}
	while (done < plan->batch) {
		int n = sendmmsg(end->fd, msg + done, plan->batch - done,
				 MSG_NOSIGNAL);

		if (n <= 0)
			fail("sendmmsg");
		done += n;
	}
}

/* Send a header of 16 octets, and a body. */
static void send_more(struct end *end)
{
	send_whole(end->fd, end->data, 16, MSG_MORE);
	send_whole(end->fd, end->data + 16, end->len - 16, 0);
}

void stream_send(struct end *end)
{
	switch (end->plan->send) {
	case FORM_FILE:
		return send_file(end);
	case FORM_MMSG:
		return send_messages(end);
	case FORM_MORE:
		return send_more(end);
	default:
		return send_whole(end->fd, end->data, end->len, 0);
	}
}

size_t stream_recv(struct end *end)
{
	ssize_t n = recv(end->fd, end->buf, end->plan->read, 0);

	if (n < 0)
		fail("recv");
	end->records++;
	check(end, end->buf, n);
	return n;
}

static void tcp_start(struct end *end)
{
	set_int(end->fd, SOL_TCP, TCP_NODELAY, 1);
}

/* Set a key that both ends know; each direction has its own. */
static void ktls_keys(int fd, int direction, uint8_t key)
{
	struct tls12_crypto_info_aes_gcm_128 keys = {
		.info.version = TLS_1_2_VERSION,
		.info.cipher_type = TLS_CIPHER_AES_GCM_128,
	};

	memset(keys.key, key, sizeof(keys.key));
	memset(keys.iv, key + 1, sizeof(keys.iv));
	memset(keys.salt, key + 2, sizeof(keys.salt));
	if (setsockopt(fd, SOL_TLS, direction, &keys, sizeof(keys)))
		fail("keys of TLS");
}

static void ktls_start(struct end *end)
{
	tcp_start(end);
	if (setsockopt(end->fd, SOL_TCP, TCP_ULP, "tls", sizeof("tls")))
		fail("TCP_ULP tls");
	ktls_keys(end->fd, TLS_TX, end->sender ? 10 : 20);
	ktls_keys(end->fd, TLS_RX, end->sender ? 20 : 10);
	/*
	 * Wait for the other end, as encrypted octets must not arrive before it has
	 * keys.
	 */
	tell(end, 0);
	hear(end);
}

static void sctp_start(struct end *end)
{
	struct sctp_sndinfo any_order = { .snd_flags = SCTP_UNORDERED };

	if (end->plan->unordered &&
	    setsockopt(end->fd, SOL_SCTP, SCTP_DEFAULT_SNDINFO, &any_order,
		       sizeof(any_order)))
		fail("SCTP_DEFAULT_SNDINFO");
	set_int(end->fd, SOL_SCTP, SCTP_NODELAY, 1);
}

const struct way way_tcp = {
	.name = "tcp",
	.start = tcp_start,
	.send = stream_send,
	.recv = stream_recv,
};

const struct way way_ktls = {
	.name = "ktls",
	.start = ktls_start,
	.send = stream_send,
	.recv = stream_recv,
};

const struct way way_sctp = {
	.name = "sctp",
	.protocol = IPPROTO_SCTP,
	.start = sctp_start,
	.send = stream_send,
	.recv = stream_recv,
};
