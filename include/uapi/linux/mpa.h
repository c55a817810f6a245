/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Marker PDU Aligned framing (RFC 5044) as an upper-layer protocol of TCP:
 * what user programs see.
 *
 *	setsockopt(fd, SOL_TCP, TCP_ULP, "mpa", sizeof("mpa"));
 *	setsockopt(fd, SOL_MPA, MPA_START, &start, sizeof(start));
 *	send(fd, record, len, 0);		one ULPDU out
 *	recv(fd, buf, sizeof(buf), 0);		one ULPDU in, verified
 *
 * Numbers of options, values and flags do not change, nor do the offsets of
 * fields. Structs grow at their end or into reserved words, which are zero until
 * then: whoever passes one of them otherwise gets EINVAL.
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

/* IRD or ORD: not to be negotiated by MPA (RFC 6581 section 9.1). */
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
 * MPA_SEGMENT: one send is cut into ULPDUs of so many octets each, the last
 * one may be shorter. As a control message (an int or a __u16) it holds for
 * one sendmsg.
 */
#define MPA_SEGMENT_OFF		(-1)	/* one send is one ULPDU */
#define MPA_SEGMENT_FILL	0	/* ULPDUs that fill TCP's segments */

/**
 * enum mpa_role - which end of the startup phase a socket plays
 * @MPA_ROLE_UNSPEC:	no role; the socket has not been started
 * @MPA_ROLE_INITIATOR:	sends the MPA Request Frame
 * @MPA_ROLE_RESPONDER:	waits for the MPA Request Frame and answers it
 * @MPA_ROLE_DIRECT:	no startup frames: both ends know from elsewhere what
 *			is spoken, and from which octet on
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
#define MPA_START_MARKERS	(1U << 0) /* the peer shall send me markers */
#define MPA_START_NO_CRC	(1U << 1) /* I can do without CRCs */
#define MPA_START_MANUAL	(1U << 2) /* I accept or reject */
#define MPA_START_PERMISSIVE	(1U << 3) /* speak revision 0 with who does */
#define MPA_START_ENHANCED	(1U << 4) /* initiator: negotiate IRD, ORD */
#define MPA_START_P2P		(1U << 5) /* initiator: peer-to-peer model */
#define MPA_START_RTR_FPDU	(1U << 6) /* RTR: a zero-length FPDU */
#define MPA_START_RTR_WRITE	(1U << 7) /* RTR: a zero-length RDMA Write */
#define MPA_START_RTR_READ	(1U << 8) /* RTR: a zero-length RDMA Read */
#define MPA_START_TX_MARKERS	(1U << 9) /* direct: I send markers */
#define MPA_START_TX_NO_CRC	(1U << 10) /* direct: I send no CRCs */

#define MPA_START_RTR		(MPA_START_RTR_FPDU | MPA_START_RTR_WRITE | \
				 MPA_START_RTR_READ)

/**
 * struct mpa_start - start MPA on a connected socket, or for the sockets that
 *		      a listening one accepts
 * @role:	 enum mpa_role
 * @revision:	 revision of MPA to speak: 1 is RFC 5044, 2 is RFC 6581 (and
 *		 a responder serves 1 as well), 0 the RDMA Consortium's
 * @private_len: octets of @private_data that go into the startup frame; four
 *		 less than the most fit beside @ird and @ord
 * @flags:	 MPA_START_*
 * @ird:	 revision 2: inbound RDMA Read queue depth, up to 0x3fff
 * @ord:	 revision 2: outbound RDMA Read queue depth, up to 0x3fff
 * @timeout_ms:	 for the startup phase; 0: net.mpa.startup_timeout_ms
 * @reserved:	 zero
 * @private_data: handed to the peer's user with the startup frame
 *
 * A program may pass a shorter struct: everything behind what it passes
 * counts as zero. At the least, all up to @ird must be there. A longer one
 * from a newer program is accepted as long as the unknown rest is zero.
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
 * struct mpa_reply - how a responder that decides by hand answers a request; an
 *		      initiator, on a reply, passes none
 * @private_len: octets of @private_data that go into the MPA Reply Frame
 * @ird:	 for an enhanced reply: as in struct mpa_start
 * @ord:	 for an enhanced reply: as in struct mpa_start
 * @reserved:	 zero
 * @reserved2:	 zero
 * @private_data: handed to the initiator's user
 *
 * Passed with length 0: what struct mpa_start has said. Otherwise a program may
 * pass a shorter or a longer struct, as with struct mpa_start; at the least all
 * up to @reserved2 must be there.
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
 * enum mpa_state - where a socket stands
 * @MPA_STATE_IDLE:	attached, not started: an ordinary TCP socket
 * @MPA_STATE_STARTUP:	startup frames are being exchanged
 * @MPA_STATE_FULL:	Full Operation: octets on the wire are FPDUs
 * @MPA_STATE_REJECTED:	the request was rejected, or the reply: an ordinary TCP
 *			socket again
 * @MPA_STATE_FAILED:	startup failed, TCP has been reset
 * @MPA_STATE_REQUESTED: who decides by hand has a request, or a reply
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
 * @MPA_ERR_CRC:	an FPDU is invalid: its CRC does not match, or its
 *			ULPDU_Length is one that no FPDU can have
 * @MPA_ERR_MARKER:	a marker and the ULPDU_Length fields do not agree
 * @MPA_ERR_STARTUP:	invalid MPA Request or Reply Frame
 * @MPA_ERR_LOCAL:	local catastrophic error: startup had to be given up, or
 *			octets of FPDUs have been read without MPA
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
 * What INET_DIAG_ULP_INFO has beside INET_ULP_INFO_NAME: an attribute of this type,
 * in which are some of the attributes MPA_A_CONN_* (linux/mpa_netlink.h). Not a
 * number of the kernel's own (INET_ULP_INFO_*), which it could give to another one.
 */
#define MPA_INET_ULP_INFO	289

/* Both directions, which is what the startup frames agree on. */
#define MPA_INFO_CRC		(MPA_INFO_TX_CRC | MPA_INFO_RX_CRC)

/**
 * struct mpa_info - state, parameters and counters of a socket
 * @state:	enum mpa_state
 * @role:	enum mpa_role
 * @revision:	revision in use, valid in MPA_STATE_FULL; 0: the layers above
 *		have to speak version zero as well (RFC 5044 appendix C)
 * @error:	enum mpa_error: why MPA stopped, or why nothing more is received
 * @flags:	MPA_INFO_*
 * @emss:	effective maximum segment size of TCP, in octets
 * @mulpdu:	maximum ULPDU that fits a segment, in octets (section 4.5)
 * @ird:	inbound RDMA Read queue depth agreed on (RFC 6581 section 9.1)
 * @ord:	outbound RDMA Read queue depth agreed on
 * @rtr:	MPA_START_RTR_*: which RTR indication opens the connection, at
 *		the responder: which ones may; all but MPA_START_RTR_FPDU are
 *		for the layer above to send
 * @tx_ulpdus:	ULPDUs accepted for sending
 * @tx_octets:	their octets
 * @tx_markers:	markers sent
 * @rx_ulpdus:	ULPDUs read by the user, wholly
 * @rx_octets:	ULPDU octets read by the user
 * @rx_markers:	markers received and checked
 * @tx_packets:	data packets handed to IP, each of one segment or many (TSO);
 *		here and below what is sent again does not count
 * @tx_segs_aligned: their segments that start with an FPDU
 * @tx_segs_unaligned: their segments that do not; /proc/net/mpa_stat tells why
 * @rx_placed:	of @rx_ulpdus, those that came out of order (MPA_PLACE)
 * @rx_edge:	stream position up to which the user has read everything
 * @error_position: stream position of the FPDU that was not valid, or not complete,
 *		so that nothing more is received; else 0
 *
 * The struct grows at its end. getsockopt copies as much as the program has
 * room for and returns that length.
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
 * struct mpa_peer - what the peer's startup frame said
 * @revision:	 its Rev field
 * @flags:	 MPA_PEER_*; reserved bits are not shown
 * @private_len: octets of @private_data that are valid
 * @ird:	 its IRD
 * @ord:	 its ORD
 * @control:	 its control flags, as MPA_START_P2P and MPA_START_RTR_*
 * @reserved:	 zero
 * @private_data: its private data
 *
 * Readable from the moment the frame was accepted as well-formed; before that
 * getsockopt fails with ENODATA.
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
 * MPA_RECV_BATCH: one recvmsg returns several whole ULPDUs, at most so many.
 * The control message of that number is an array of __u32: how many of the
 * octets returned belong to each, in order.
 */
#define MPA_RECV_BATCH_MAX	1024

/*
 * MPA_PLACE: recvmsg returns a ULPDU as soon as it is whole and verified, also
 * while octets of the stream in front of it are missing; MPA_RECVINFO says where
 * it belongs. None comes twice. One that the buffer is too short for waits for
 * those in front of it. The direction must have markers and CRCs (RFC 5044
 * section 6).
 *
 * So many runs of ULPDUs side by side may have been returned, or be ready, in
 * front of which octets are missing; one that begins in a gap is a run of its own.
 * Beyond that ULPDUs wait as well.
 */
#define MPA_PLACE_MAX		400

/* mpa_recvinfo.flags */
#define MPA_RECVINFO_LAST	(1U << 0) /* with the last octet of the ULPDU */
#define MPA_RECVINFO_PLACED	(1U << 1) /* out of order: octets of the stream
					   * in front of it have not arrived
					   */

/* mpa_recvinfo.valid */
#define MPA_RECVINFO_VALID_ORDER (1U << 0) /* order: not known behind a gap */

/**
 * struct mpa_recvinfo - where the octets that recvmsg returns come from
 * @position:	stream position of the ULPDU's FPDU: octets from the start of
 *		the peer's first FPDU, framing included
 * @order:	ULPDUs in front of this one; the first has 0. Only with
 *		MPA_RECVINFO_VALID_ORDER
 * @edge:	everything in front of this stream position has been delivered
 * @length:	octets of the ULPDU
 * @offset:	octets of it in front of those returned
 * @flags:	MPA_RECVINFO_LAST, MPA_RECVINFO_PLACED
 * @valid:	MPA_RECVINFO_VALID_*: which of the fields that may be unknown
 *		are valid; all others always are
 *
 * Control message MPA_RECVINFO, if the option of that number is 1. In a batch
 * it speaks of the first ULPDU; the others follow it in the stream without a gap.
 * The struct grows at its end.
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
