/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/* Do not edit directly, auto-generated from: */
/*	Documentation/netlink/specs/mpa.yaml */
/* YNL-GEN uapi header */

#ifndef _UAPI_LINUX_MPA_NETLINK_H
#define _UAPI_LINUX_MPA_NETLINK_H

#define MPA_FAMILY_NAME		"mpa"
#define MPA_FAMILY_VERSION	1

/**
 * enum mpa_refusal - Why the startup phase has not led to Full Operation.
 * @MPA_REFUSAL_BY_PEER: The peer has rejected the request.
 * @MPA_REFUSAL_BY_USER: The program has rejected the request, or the reply.
 * @MPA_REFUSAL_MALFORMED: The peer's frame is invalid, or cannot be answered.
 * @MPA_REFUSAL_TIMEOUT: The peer's frame has not arrived in time.
 * @MPA_REFUSAL_LOST: The TCP connection has ended.
 * @MPA_REFUSAL_OUSTED: The connection was evicted, as too many were in
 *   startup.
 * @MPA_REFUSAL_LIMIT: No responder may be in startup (net.mpa.startup_max is
 *   0).
 * @MPA_REFUSAL_GIVEN_UP: shutdown(2) has ended startup.
 * @MPA_REFUSAL_LOCAL: Startup has failed locally, for lack of memory or the
 *   like.
 */
enum mpa_refusal {
	MPA_REFUSAL_BY_PEER = 1,
	MPA_REFUSAL_BY_USER,
	MPA_REFUSAL_MALFORMED,
	MPA_REFUSAL_TIMEOUT,
	MPA_REFUSAL_LOST,
	MPA_REFUSAL_OUSTED,
	MPA_REFUSAL_LIMIT,
	MPA_REFUSAL_GIVEN_UP,
	MPA_REFUSAL_LOCAL,
};

/**
 * enum mpa_cause - Why a segment does not start with an FPDU.
 * @MPA_CAUSE_OVERSIZED: Its FPDU is larger than EMSS.
 * @MPA_CAUSE_WINDOW: TCP has cut an FPDU at the edge of the peer's receive
 *   window, or to probe it.
 * @MPA_CAUSE_OTHER: EMSS has changed, or something else.
 */
enum mpa_cause {
	MPA_CAUSE_OVERSIZED = 1,
	MPA_CAUSE_WINDOW,
	MPA_CAUSE_OTHER,
};

enum mpa_direction {
	MPA_DIRECTION_RX,
	MPA_DIRECTION_TX,
};

enum {
	MPA_A_CONN_PAD = 1,
	MPA_A_CONN_COOKIE,
	MPA_A_CONN_FAMILY,
	MPA_A_CONN_LOCAL_ADDR4,
	MPA_A_CONN_LOCAL_ADDR6,
	MPA_A_CONN_LOCAL_PORT,
	MPA_A_CONN_REMOTE_ADDR4,
	MPA_A_CONN_REMOTE_ADDR6,
	MPA_A_CONN_REMOTE_PORT,
	MPA_A_CONN_INODE,
	MPA_A_CONN_UID,
	MPA_A_CONN_KERNEL,
	MPA_A_CONN_ROLE,
	MPA_A_CONN_STATE,
	MPA_A_CONN_REVISION,
	MPA_A_CONN_FLAGS,
	MPA_A_CONN_PLACING,
	MPA_A_CONN_IRD,
	MPA_A_CONN_ORD,
	MPA_A_CONN_EMSS,
	MPA_A_CONN_MULPDU,
	MPA_A_CONN_TX_ULPDUS,
	MPA_A_CONN_TX_OCTETS,
	MPA_A_CONN_TX_MARKERS,
	MPA_A_CONN_RX_ULPDUS,
	MPA_A_CONN_RX_OCTETS,
	MPA_A_CONN_RX_MARKERS,
	MPA_A_CONN_RX_PLACED,
	MPA_A_CONN_RX_EDGE,
	MPA_A_CONN_TX_PACKETS,
	MPA_A_CONN_TX_SEGS_ALIGNED,
	MPA_A_CONN_TX_SEGS_UNALIGNED,
	MPA_A_CONN_RX_HELD,
	MPA_A_CONN_TX_HELD,
	MPA_A_CONN_ERROR,
	MPA_A_CONN_ERRNO,
	MPA_A_CONN_ERROR_POSITION,
	MPA_A_CONN_EVENT,
	MPA_A_CONN_REFUSAL,
	MPA_A_CONN_CAUSE,
	MPA_A_CONN_TUF_TX,
	MPA_A_CONN_TUF_RX,
	MPA_A_CONN_RESEGMENTED,

	__MPA_A_CONN_MAX,
	MPA_A_CONN_MAX = (__MPA_A_CONN_MAX - 1)
};

enum {
	MPA_A_POLICY_CRC_OPTIONAL = 1,
	MPA_A_POLICY_STARTUP_TIMEOUT_MS,
	MPA_A_POLICY_STARTUP_MAX,
	MPA_A_POLICY_MARKERS,
	MPA_A_POLICY_PLACE,

	__MPA_A_POLICY_MAX,
	MPA_A_POLICY_MAX = (__MPA_A_POLICY_MAX - 1)
};

enum {
	MPA_A_TAP_PAD = 1,
	MPA_A_TAP_COOKIE,
	MPA_A_TAP_OCTETS,
	MPA_A_TAP_SEQ,
	MPA_A_TAP_DIRECTION,
	MPA_A_TAP_POSITION,
	MPA_A_TAP_LENGTH,
	MPA_A_TAP_PLACED,
	MPA_A_TAP_VERDICT,
	MPA_A_TAP_DATA,

	__MPA_A_TAP_MAX,
	MPA_A_TAP_MAX = (__MPA_A_TAP_MAX - 1)
};

enum {
	MPA_CMD_CONN_GET = 1,
	MPA_CMD_POLICY_GET,
	MPA_CMD_POLICY_SET,
	MPA_CMD_TAP_SET,
	MPA_CMD_TAP_CLEAR,
	MPA_CMD_STARTED_NTF,
	MPA_CMD_REFUSED_NTF,
	MPA_CMD_FAILED_NTF,
	MPA_CMD_MULPDU_NTF,
	MPA_CMD_UNALIGNED_NTF,
	MPA_CMD_CLOSED_NTF,
	MPA_CMD_RECORD_NTF,
	MPA_CMD_EVENT_JOIN,

	__MPA_CMD_MAX,
	MPA_CMD_MAX = (__MPA_CMD_MAX - 1)
};

#define MPA_MCGRP_EVENTS	"events"

#endif /* _UAPI_LINUX_MPA_NETLINK_H */
