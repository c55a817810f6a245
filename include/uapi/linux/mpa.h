/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Marker PDU Aligned framing (RFC 5044) as an upper-layer protocol of TCP: the
 * interface for user programs.
 *
 *	setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa"));
 *	setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start));
 *	send(fd, record, len, 0);		one ULPDU out
 *	recv(fd, buf, sizeof(buf), 0);		one ULPDU in, verified
 *
 * The numbers of options, values and flags do not change, nor do the offsets of
 * fields. Structs grow at their end or into reserved words, which have to be zero
 * until then: otherwise the call fails with EINVAL.
 */
#ifndef _UAPI_LINUX_MPA_H
#define _UAPI_LINUX_MPA_H

#include <linux/types.h>

#ifndef SOL_MPA
#define SOL_MPA			289
#endif

/* A ULPDU is 1 to MPA_ULPDU_MAX octets long (RFC 5044 section 3). */
#define MPA_ULPDU_MAX		64768

/* MULPDU is never reported below this (RFC 5044 section 3). */
#define MPA_MULPDU_MIN		128

/* Private data of a startup frame (RFC 5044 section 7.1.1), in octets. */
#define MPA_PRIVATE_DATA_MAX	512

/* IRD or ORD that MPA does not negotiate (RFC 6581 section 9.1) */
#define MPA_DEPTH_BY_USER	0x3fff

/* Socket options at level SOL_MPA. */
#define MPA_START		1	/* set: struct mpa_start */
#define MPA_INFO		2	/* get: struct mpa_info */
#define MPA_PEER		3	/* get: struct mpa_peer */
#define MPA_MULPDU		4	/* get: int, octets */
#define MPA_ACCEPT		5	/* set: struct mpa_reply */
#define MPA_REJECT		6	/* set: struct mpa_reply */
#define MPA_SEGMENT		7	/* set, get, control message: int */
#define MPA_PACKING		8	/* set, get: int */
#define MPA_OVERSIZE		9	/* set, get: int */
/* 10 is reserved: it was MPA_ZEROCOPY_RO. */
#define MPA_RECVINFO		11	/* set, get: int; struct mpa_recvinfo */
#define MPA_RECV_BATCH		12	/* set, get: int; __u32[] */
#define MPA_PLACE		13	/* set, get: int */

/*
 * MPA_SEGMENT cuts a send into ULPDUs of this length; the last ULPDU may be
 * shorter. As a control message (an int or a __u16) it applies to one sendmsg.
 */
#define MPA_SEGMENT_OFF		(-1)	/* one send is one ULPDU */
#define MPA_SEGMENT_FILL	0	/* ULPDUs that fill TCP's segments */

/**
 * enum mpa_role - a socket's role in the startup phase
 * @MPA_ROLE_UNSPEC:	no role; the socket has not been started
 * @MPA_ROLE_INITIATOR:	sends the MPA Request Frame
 * @MPA_ROLE_RESPONDER:	waits for the MPA Request Frame and answers it
 * @MPA_ROLE_DIRECT:	no startup frames: both ends have agreed by other means
 *			on the framing, and on the octet where it begins
 *
 * RFC 5044 section 7.1.
 */
enum mpa_role {
	MPA_ROLE_UNSPEC,
	MPA_ROLE_INITIATOR,
	MPA_ROLE_RESPONDER,
	MPA_ROLE_DIRECT,
};

/* mpa_start.flags */
#define MPA_START_MARKERS	(1U << 0) /* ask the peer to send markers */
#define MPA_START_NO_CRC	(1U << 1) /* CRCs are not needed */
#define MPA_START_MANUAL	(1U << 2) /* the program accepts or rejects */
#define MPA_START_PERMISSIVE	(1U << 3) /* also accept revision 0 */
#define MPA_START_ENHANCED	(1U << 4) /* initiator: negotiate IRD, ORD */
#define MPA_START_P2P		(1U << 5) /* initiator: peer-to-peer model */
#define MPA_START_RTR_FPDU	(1U << 6) /* RTR: a zero-length FPDU */
#define MPA_START_RTR_WRITE	(1U << 7) /* RTR: a zero-length RDMA Write */
#define MPA_START_RTR_READ	(1U << 8) /* RTR: a zero-length RDMA Read */
#define MPA_START_TX_MARKERS	(1U << 9) /* direct: send markers */
#define MPA_START_TX_NO_CRC	(1U << 10) /* direct: send no CRCs */

#define MPA_START_RTR		(MPA_START_RTR_FPDU | MPA_START_RTR_WRITE | \
				 MPA_START_RTR_READ)

/**
 * struct mpa_start - start MPA on a connected socket, or on the sockets that
 *		      a listening socket accepts
 * @role:	 enum mpa_role
 * @revision:	 revision of MPA: 0 is the RDMA Consortium's; 1 is RFC 5044; 2 is
 *		 RFC 6581, and a responder accepts 1 as well
 * @private_len: octets of @private_data in the startup frame; at most
 *		 MPA_PRIVATE_DATA_MAX, four less if the frame may have IRD and ORD
 * @flags:	 MPA_START_*
 * @ird:	 revision 2: inbound RDMA Read queue depth, up to 0x3fff
 * @ord:	 revision 2: outbound RDMA Read queue depth, up to 0x3fff
 * @timeout_ms:	 limit of the startup phase; 0: net.mpa.startup_timeout_ms
 * @reserved:	 zero
 * @private_data: for the peer's program
 *
 * A program may pass a shorter struct, which must include the fields before
 * @ird: the rest is taken as zero. A longer struct from a newer program is
 * accepted if the unknown rest is zero.
 */
struct mpa_start {
	__u8	role;
	__u8	revision;
	__u16	private_len;
	__u32	flags;
	__u16	ird;
	__u16	ord;
	__u32	timeout_ms;
	__u32	reserved[4];
	__u8	private_data[MPA_PRIVATE_DATA_MAX];
};

/**
 * struct mpa_reply - the answer of a responder with MPA_START_MANUAL; an
 *		      initiator that accepts or rejects a reply passes no struct
 * @private_len: octets of @private_data in the MPA Reply Frame
 * @ird:	 in an enhanced reply: as in struct mpa_start
 * @ord:	 in an enhanced reply: as in struct mpa_start
 * @reserved:	 zero
 * @reserved2:	 zero
 * @private_data: for the initiator's program
 *
 * With length 0, the values of struct mpa_start are used. Otherwise a program may
 * pass a shorter or a longer struct, as with struct mpa_start; it must include the
 * fields before @reserved2.
 */
struct mpa_reply {
	__u16	private_len;
	__u16	ird;
	__u16	ord;
	__u16	reserved;
	__u32	reserved2[6];
	__u8	private_data[MPA_PRIVATE_DATA_MAX];
};

/**
 * enum mpa_state - state of a socket
 * @MPA_STATE_IDLE:	attached, not started: an ordinary TCP socket
 * @MPA_STATE_STARTUP:	startup frames are being exchanged
 * @MPA_STATE_FULL:	Full Operation: octets on the wire are FPDUs
 * @MPA_STATE_REJECTED:	the request or the reply was rejected: an ordinary TCP socket
 *			again
 * @MPA_STATE_FAILED:	startup has failed, TCP has been reset
 * @MPA_STATE_REQUESTED: a request or a reply waits for the program's decision
 *			(MPA_START_MANUAL)
 */
enum mpa_state {
	MPA_STATE_IDLE,
	MPA_STATE_STARTUP,
	MPA_STATE_FULL,
	MPA_STATE_REJECTED,
	MPA_STATE_FAILED,
	MPA_STATE_REQUESTED,
};

/**
 * enum mpa_error - error codes of RFC 5044 section 8 and RFC 6581 section 8
 * @MPA_ERR_NONE:	no error
 * @MPA_ERR_TCP:	TCP connection closed, terminated or lost
 * @MPA_ERR_CRC:	an FPDU is invalid: its CRC does not match, or no FPDU can have
 *			its ULPDU_Length
 * @MPA_ERR_MARKER:	a marker and the ULPDU_Length fields do not agree
 * @MPA_ERR_STARTUP:	invalid MPA Request or Reply Frame
 * @MPA_ERR_LOCAL:	local catastrophic error: startup was abandoned, sending
 *			has failed, or octets of FPDUs were read without MPA
 * @MPA_ERR_IRD:	insufficient IRD resources
 * @MPA_ERR_RTR:	no matching RTR option
 */
enum mpa_error {
	MPA_ERR_NONE,
	MPA_ERR_TCP,
	MPA_ERR_CRC,
	MPA_ERR_MARKER,
	MPA_ERR_STARTUP,
	MPA_ERR_LOCAL,
	MPA_ERR_IRD,
	MPA_ERR_RTR,
};

/* mpa_info.flags */
#define MPA_INFO_TX_MARKERS	(1U << 0) /* FPDUs sent carry markers */
#define MPA_INFO_RX_MARKERS	(1U << 1) /* FPDUs received carry markers */
#define MPA_INFO_TX_CRC		(1U << 2) /* CRCs are generated */
#define MPA_INFO_RX_CRC		(1U << 3) /* CRCs are checked */
#define MPA_INFO_MAY_SEND	(1U << 4) /* RFC 5044 section 7.1.2 rule 4 is met */
#define MPA_INFO_ENHANCED	(1U << 5) /* IRD and ORD were negotiated */
#define MPA_INFO_P2P		(1U << 6) /* peer-to-peer model */

/*
 * The type of an attribute in INET_DIAG_ULP_INFO, in addition to INET_ULP_INFO_NAME.
 * It contains some of the attributes MPA_A_CONN_* (linux/mpa_netlink.h). The number is
 * outside the kernel's own range (INET_ULP_INFO_*).
 */
#define MPA_INET_ULP_INFO	289

/* CRCs in both directions, as agreed on by startup frames */
#define MPA_INFO_CRC		(MPA_INFO_TX_CRC | MPA_INFO_RX_CRC)

/**
 * struct mpa_info - state, parameters and counters of a socket
 * @state:	enum mpa_state
 * @role:	enum mpa_role
 * @revision:	revision in use, valid in MPA_STATE_FULL; 0: the layers above
 *		use version zero as well (RFC 5044 appendix C)
 * @error:	enum mpa_error: why startup has failed, or why receiving has ended
 * @flags:	MPA_INFO_*
 * @emss:	effective maximum segment size of TCP, in octets
 * @mulpdu:	maximum ULPDU that fits a segment, in octets (section 4.5)
 * @ird:	inbound RDMA Read queue depth agreed on (RFC 6581 section 9.1)
 * @ord:	outbound RDMA Read queue depth agreed on
 * @rtr:	MPA_START_RTR_*: the RTR indication that opens the connection; at
 *		the responder, all indications that may open it. The layer above
 *		sends the indication, unless it is MPA_START_RTR_FPDU
 * @tx_ulpdus:	ULPDUs accepted for sending
 * @tx_octets:	octets of these ULPDUs
 * @tx_markers:	markers sent
 * @rx_ulpdus:	ULPDUs that the program has read to the end
 * @rx_octets:	octets of ULPDUs that the program has read
 * @rx_markers:	markers received and checked
 * @tx_packets:	data packets handed to IP, of one or more segments (TSO);
 *		here and in @tx_segs_* retransmissions are not counted
 * @tx_segs_aligned: segments of these packets that start with an FPDU
 * @tx_segs_unaligned: all other segments; /proc/net/mpa_stat counts them by cause
 * @rx_placed:	ULPDUs in @rx_ulpdus that were delivered out of order (MPA_PLACE)
 * @rx_edge:	stream position up to which the program has read everything
 * @error_position: stream position of the invalid or incomplete FPDU that has ended
 *		receiving, or 0
 *
 * The struct grows at its end. getsockopt copies what fits the program's
 * buffer, and returns its length.
 */
struct mpa_info {
	__u8	state;
	__u8	role;
	__u8	revision;
	__u8	error;
	__u32	flags;
	__u32	emss;
	__u32	mulpdu;
	__u16	ird;
	__u16	ord;
	__u32	rtr;
	__u64	tx_ulpdus;
	__u64	tx_octets;
	__u64	tx_markers;
	__u64	rx_ulpdus;
	__u64	rx_octets;
	__u64	rx_markers;
	__u64	tx_packets;
	__u64	tx_segs_aligned;
	__u64	tx_segs_unaligned;
	__u64	rx_placed;
	__u64	rx_edge;
	__u64	error_position;
};

/* mpa_peer.flags: the flag octet of the startup frame, as received */
#define MPA_PEER_MARKERS	0x80	/* M: the peer wants markers */
#define MPA_PEER_CRC		0x40	/* C: the peer wants CRCs */
#define MPA_PEER_REJECTED	0x20	/* R: the peer rejected the request */
#define MPA_PEER_ENHANCED	0x10	/* S: IRD, ORD and control flags are valid */

/**
 * struct mpa_peer - the peer's startup frame
 * @revision:	 its Rev field
 * @flags:	 MPA_PEER_*, without reserved bits
 * @private_len: octets of @private_data that are valid
 * @ird:	 its IRD
 * @ord:	 its ORD
 * @control:	 its control flags, as MPA_START_P2P and MPA_START_RTR_*
 * @reserved:	 zero
 * @private_data: its private data
 *
 * Until a well-formed frame has arrived, getsockopt fails with ENODATA.
 */
struct mpa_peer {
	__u8	revision;
	__u8	flags;
	__u16	private_len;
	__u16	ird;
	__u16	ord;
	__u32	control;
	__u32	reserved[5];
	__u8	private_data[MPA_PRIVATE_DATA_MAX];
};

/*
 * MPA_RECV_BATCH: one recvmsg returns several complete ULPDUs, up to this number.
 * The control message MPA_RECV_BATCH is an array of __u32: the ULPDUs' lengths, in order.
 */
#define MPA_RECV_BATCH_MAX	1024

/*
 * MPA_PLACE: recvmsg returns a ULPDU as soon as it is complete and verified, even if
 * octets of the stream before it are missing; MPA_RECVINFO has its position. Each ULPDU
 * is returned only once. A ULPDU that does not fit the program's buffer is returned in
 * order. The direction must have markers and CRCs (RFC 5044 section 6).
 *
 * MPA_PLACE_MAX is the maximum number of runs of contiguous ULPDUs after a gap, returned
 * or ready. Beyond this limit ULPDUs are returned in order.
 */
#define MPA_PLACE_MAX		400

/* mpa_recvinfo.flags */
#define MPA_RECVINFO_LAST	(1U << 0) /* with the last octet of the ULPDU */
#define MPA_RECVINFO_PLACED	(1U << 1) /* out of order: octets before it are missing */

/* mpa_recvinfo.valid */
#define MPA_RECVINFO_VALID_ORDER (1U << 0) /* @order, which is unknown after a gap */

/**
 * struct mpa_recvinfo - position of the octets that recvmsg returns
 * @position:	stream position of the ULPDU's FPDU: octets from the start of
 *		the peer's first FPDU, framing included
 * @order:	number of ULPDUs before this one, if MPA_RECVINFO_VALID_ORDER is set
 * @edge:	everything before this stream position has been delivered
 * @length:	octets of the ULPDU
 * @offset:	octets of the ULPDU that earlier calls have read
 * @flags:	MPA_RECVINFO_LAST, MPA_RECVINFO_PLACED
 * @valid:	MPA_RECVINFO_VALID_*; fields without such a flag are always valid
 *
 * recvmsg returns this as control message MPA_RECVINFO if the option MPA_RECVINFO is 1.
 * In a batch it describes the first ULPDU; the others follow contiguously in the stream. The struct
 * grows at its end.
 */
struct mpa_recvinfo {
	__u64	position;
	__u64	order;
	__u64	edge;
	__u32	length;
	__u32	offset;
	__u32	flags;
	__u32	valid;
};

#endif /* _UAPI_LINUX_MPA_H */
