// SPDX-License-Identifier: GPL-2.0
/*
 * A proxy for the sender, which resegments the stream. The proxy holds some octets back
 * until more arrive, so that its segments do not begin where the sender's segments
 * began.
 */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "traffic.h"

#define KEPT	700

static void give(int fd, const uint8_t *octets, size_t len)
{
	while (len) {
		ssize_t n = send(fd, octets, len, MSG_NOSIGNAL);

		if (n <= 0)
			_exit(1);
		octets += n;
		len -= n;
	}
}

/*
 * Forward octets both ways, but hold back the last KEPT octets of long data. Short
 * data, such as startup frames, is forwarded at once.
 */
static void pass_on(int from, int to)
{
	struct pollfd ready[] = { { from, POLLIN, 0 }, { to, POLLIN, 0 } };
	static uint8_t buf[1 << 16], back[1 << 16];
	size_t held = 0, go;
	ssize_t n;

	while (poll(ready, 2, -1) > 0) {
		if (ready[1].revents) {
			n = recv(to, back, sizeof(back), 0);
			if (n <= 0)
				break;
			give(from, back, n);
		}
		if (!ready[0].revents)
			continue;
		n = recv(from, buf + held, sizeof(buf) - held, 0);
		if (n <= 0)
			break;
		held += n;
		go = held > KEPT ? held - KEPT : held == (size_t)n ? held : 0;
		give(to, buf, go);
		held -= go;
		memmove(buf, buf + go, held);
	}
}

/* Connect a socket to an address, through the proxy. */
int relay(int fd, const struct sockaddr_in *to)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int out = socket(AF_INET, SOCK_STREAM, 0), in;
	socklen_t len = sizeof(at);

	if (listener < 0 || bind(listener, (struct sockaddr *)&at, len) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &len) ||
	    connect(fd, (struct sockaddr *)&at, len) ||
	    connect(out, (const struct sockaddr *)to, sizeof(*to)))
		return -1;
	in = accept(listener, NULL, NULL);
	if (in < 0)
		return -1;
	set_int(out, SOL_TCP, TCP_NODELAY, 1);
	set_int(in, SOL_TCP, TCP_NODELAY, 1);
	switch (fork()) {
	case -1:
		return -1;
	case 0:
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd);
		pass_on(in, out);
		_exit(0);
	}
	close(listener);
	close(out);
	close(in);
	return 0;
}
