// SPDX-License-Identifier: GPL-2.0
/*
 * Peers of an iWARP server that do not do what iw_cm expects, against siwm:
 *
 *	mpa_siwm_cm ADDRESS drop ROUNDS	the server stops to listen while requests come
 *	mpa_siwm_cm ADDRESS silent	a peer asks for the peer-to-peer model, and sends
 *					no RTR indication: the server can end it
 *
 * The server is rdma_cm's, at ADDRESS; the peers are TCP sockets of this program.
 */

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT	7471
#define PEERS	24

/*
 * MPA Request Frames with C and S, and as private data IRD and ORD, 4 each; the second
 * also sets A and C
 */
static const unsigned char plain[] = "MPA ID Req Frame\x50\x02\x00\x04\x00\x04\x00\x04";
static const unsigned char p2p[] = "MPA ID Req Frame\x50\x02\x00\x04\x80\x04\x80\x04";
#define FRAME	24

static struct sockaddr_in addr = { .sin_family = AF_INET };

static void check(int err, const char *what)
{
	if (!err)
		return;
	perror(what);
	exit(1);
}

static struct rdma_cm_id *server(struct rdma_event_channel **events)
{
	struct rdma_cm_id *id;

	*events = rdma_create_event_channel();
	check(!*events, "rdma_create_event_channel");
	check(rdma_create_id(*events, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	/* The previous listener may still be open. */
	while (rdma_bind_addr(id, (struct sockaddr *)&addr))
		usleep(10000);
	check(rdma_listen(id, 64), "rdma_listen");
	return id;
}

static int peer(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	check(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), "connect");
	return fd;
}

static int drop(int rounds)
{
	struct rdma_event_channel *events;
	int fd[PEERS], i, round;
	struct rdma_cm_id *id;

	for (round = 0; round < rounds; round++) {
		id = server(&events);
		for (i = 0; i < PEERS; i++)
			fd[i] = peer();
		for (i = 0; i < PEERS; i++)
			check(write(fd[i], plain, FRAME) != FRAME, "write");
		usleep(round * 6000 / rounds);
		rdma_destroy_id(id);
		for (i = 0; i < PEERS; i++)
			close(fd[i]);
		rdma_destroy_event_channel(events);
	}
	return 0;
}

static struct rdma_cm_id *event(struct rdma_event_channel *events,
				enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	check(rdma_get_cm_event(events, &event), "rdma_get_cm_event");
	id = event->id;
	printf("%s\n", rdma_event_str(event->event));
	check(event->event != type, rdma_event_str(type));
	rdma_ack_cm_event(event);
	return id;
}

static int silent(void)
{
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1,
	};
	struct rdma_event_channel *events;
	struct ibv_qp_init_attr qp = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct rdma_cm_id *id;
	char reply[FRAME];
	int fd;

	server(&events);
	fd = peer();
	check(write(fd, p2p, FRAME) != FRAME, "write");
	id = event(events, RDMA_CM_EVENT_CONNECT_REQUEST);
	check(rdma_create_qp(id, NULL, &qp), "rdma_create_qp");
	check(rdma_accept(id, &param), "rdma_accept");
	check(read(fd, reply, sizeof(reply)) != sizeof(reply), "the reply");
	event(events, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_qp(id);
	return rdma_destroy_id(id);
}

int main(int argc, char **argv)
{
	if (argc < 3 || inet_pton(AF_INET, argv[1], &addr.sin_addr) != 1)
		return 2;
	addr.sin_port = htons(PORT);
	if (!strcmp(argv[2], "drop"))
		return argc < 4 ? 2 : drop(atoi(argv[3]));
	return silent();
}
