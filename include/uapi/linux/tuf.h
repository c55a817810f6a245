/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * TCP ULP Framing (draft-ietf-tsvwg-tcp-ulp-frame-01, and the marker mode of
 * -00) as an upper-layer protocol of TCP: the interface for user programs.
 *
 *	setsockopt(fd, SOL_TCP, TCP_ULP, "tuf", sizeof("tuf"));
 *	getsockopt(fd, SOL_MPA, TUF_TX_KEY, key, &len);
 *		send the key by plain TCP, and wait until the peer is ready
 *	setsockopt(fd, SOL_MPA, TUF_TX, &framing, sizeof(framing));
 *	send(fd, record, len, 0);		one ULPDU out
 *
 * There is no CRC: only TCP's checksum protects the octets.
 *
 * TUF's options are at level SOL_MPA. These of MPA's options (linux/mpa.h) apply, too:
 * MPA_MULPDU, MPA_SEGMENT, MPA_PACKING, MPA_OVERSIZE (0 at first), MPA_RECVINFO,
 * MPA_RECV_BATCH, MPA_PLACE, MPA_INFO.
 */
#ifndef _UAPI_LINUX_TUF_H
#define _UAPI_LINUX_TUF_H

#include <linux/types.h>

#ifndef SOL_MPA
#define SOL_MPA			289
#endif

/* Socket options at level SOL_MPA. */
#define TUF_TX			32	/* set, get: struct tuf_framing */
#define TUF_RX			33	/* set, get: struct tuf_framing */
#define TUF_TX_KEY		34	/* get: TUF_KEY_LEN octets */
#define TUF_INFO		35	/* get: struct tuf_info */

/* Octets of the header (Length and Key), and of the key. */
#define TUF_HEADER_LEN		8
#define TUF_KEY_LEN		6

/* Maximum number of octets of ULPDUs in a sent FPDU, and in a received FPDU. */
#define TUF_ULPDU_MAX		65528
#define TUF_LENGTH_MAX		65535

/* With an EMSS below this, ULPDUs up to this length may span segments (-00). */
#define TUF_EMERGENCY		512

/* The period of markers in octets: a power of two within these bounds. */
#define TUF_PERIOD_MIN		128
#define TUF_PERIOD_MAX		32768
#define TUF_PERIOD_DEFAULT	2048

/**
 * enum tuf_mode - how a direction of the stream is framed
 * @TUF_OFF:	no framing: plain TCP
 * @TUF_ALIGN:	FPDUs with a header, each in a segment of its own
 * @TUF_MARKERS: FPDUs with a header and one ULPDU, and markers (-00), not aligned
 *		 with segments
 * @TUF_SEGMENTS: sending only: no header, each send begins a segment
 *		 (TUF_SEND_TCP)
 */
enum tuf_mode {
	TUF_OFF,
	TUF_ALIGN,
	TUF_MARKERS,
	TUF_SEGMENTS,
};

/* tuf_framing.flags */
#define TUF_KEY_GIVEN		(1U << 0) /* the key is valid */
#define TUF_TELL_EMSS		(1U << 1) /* sending: report a change of MULPDU */

/**
 * struct tuf_framing - start or stop framing in one direction
 * @mode:	enum tuf_mode
 * @key:	with TUF_KEY_GIVEN: the key of the direction. Without this flag the
 *		kernel generates a key for sending (TUF_TX_KEY); received FPDUs are not
 *		tested, and in TUF_ALIGN none is placed out of order
 * @reserved:	zero
 * @period:	TUF_MARKERS: octets from one marker to the next; 0 is
 *		TUF_PERIOD_DEFAULT
 * @flags:	TUF_KEY_GIVEN; TUF_TELL_EMSS: a send fails once with EMSGSIZE when
 *		MULPDU has changed since it was read
 * @reserved2:	zero
 *
 * Framing begins with the next octet that is sent, or that the program has not
 * read. It can be switched off after a complete ULPDU. To set another key for
 * receiving, set the same mode again.
 *
 * Errors:
 * EBUSY	another call is sending or receiving in this direction; a ULPDU has been
 *		sent or read in part; records were read out of order, and earlier
 *		records are missing; unacknowledged octets of an earlier framing
 *		contain its key; TCP_REPAIR is on; something else has hooked the
 *		socket
 * EISCONN	the direction is already framed; for receiving only if the mode or
 *		period differs
 * ENOTCONN	the socket is not connected
 * EPIPE	the direction has ended; TUF_OFF: accepted records could not be sent
 * EBADMSG	TUF_OFF after receiving has ended with this errno
 * EINVAL	an unknown value
 *
 * A program may pass a shorter struct that includes @flags. A longer struct is accepted
 * if the unknown rest is zero; otherwise the call fails with E2BIG.
 *
 * getsockopt() returns mode, period and flags; all other fields are zero, also the key.
 */
struct tuf_framing {
	__u8	mode;
	__u8	key[TUF_KEY_LEN];
	__u8	reserved;
	__u32	period;
	__u32	flags;
	__u32	reserved2[4];
};

/*
 * TUF_TX_KEY: the key that the kernel has generated for sending, or generates now for
 * the next framing. Each key can be read once. ENODATA: it was already read, or the
 * program has set it. A getsockopt() that fails does not count as read.
 */

/* tuf_info.flags */
#define TUF_INFO_RX_KEY		(1U << 0) /* received FPDUs can be tested */
#define TUF_INFO_RESEGMENTED	(1U << 1) /* almost no segment was one FPDU: testing has ended */
#define TUF_INFO_EMERGENCY	(1U << 2) /* EMSS is below TUF_EMERGENCY */

/**
 * struct tuf_info - state and counters of a socket
 * @tx_mode:	enum tuf_mode
 * @rx_mode:	enum tuf_mode
 * @error:	enum mpa_error: why receiving has ended
 * @reserved:	zero
 * @flags:	TUF_INFO_*
 * @emss:	effective maximum segment size of TCP, in octets
 * @mulpdu:	maximum ULPDU, in octets
 * @tx_period:	TUF_MARKERS: octets from one marker to the next
 * @rx_period:	TUF_MARKERS: octets from one marker to the next
 * @tx_ulpdus:	ULPDUs accepted for sending
 * @tx_fpdus:	FPDUs that contain these ULPDUs
 * @tx_octets:	octets of these ULPDUs
 * @tx_markers:	markers sent
 * @rx_fpdus:	FPDUs that the program has read to the end
 * @rx_octets:	octets of ULPDUs that the program has read
 * @rx_markers:	markers received and checked
 * @tx_packets:	TUF_ALIGN: data packets handed to IP, of one or more segments (TSO);
 *		here and in @tx_segs_* retransmissions are not counted
 * @tx_segs_aligned: segments of these packets that start with an FPDU
 * @tx_segs_unaligned: all other segments
 * @tx_segs_contained: segments of these packets that are exactly one FPDU
 * @tx_trimmed:	segments sent an octet shorter, as they would have passed the
 *		containment test without being an FPDU; retransmissions are counted
 * @rx_placed:	FPDUs in @rx_fpdus that were delivered out of order (MPA_PLACE)
 * @rx_tested:	segments after a gap that were tested
 * @rx_contained: segments in @rx_tested that were FPDUs
 * @rx_wrong_key: FPDUs read in order with a key other than that of TUF_RX
 * @rx_edge:	stream position up to which the program has read everything
 * @error_position: stream position of the invalid or incomplete FPDU that has ended
 *		receiving, or 0
 *
 * Stream positions are octets since framing began. When framing is switched off and
 * on, counters continue, and flags and positions start anew. The struct grows at its
 * end. getsockopt copies what fits the program's buffer, and returns its length.
 */
struct tuf_info {
	__u8	tx_mode;
	__u8	rx_mode;
	__u8	error;
	__u8	reserved;
	__u32	flags;
	__u32	emss;
	__u32	mulpdu;
	__u32	tx_period;
	__u32	rx_period;
	__u64	tx_ulpdus;
	__u64	tx_fpdus;
	__u64	tx_octets;
	__u64	tx_markers;
	__u64	rx_fpdus;
	__u64	rx_octets;
	__u64	rx_markers;
	__u64	tx_packets;
	__u64	tx_segs_aligned;
	__u64	tx_segs_unaligned;
	__u64	tx_segs_contained;
	__u64	tx_trimmed;
	__u64	rx_placed;
	__u64	rx_tested;
	__u64	rx_contained;
	__u64	rx_wrong_key;
	__u64	rx_edge;
	__u64	error_position;
};

#endif /* _UAPI_LINUX_TUF_H */
