# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Numbers and structs of linux/mpa.h and linux/tuf.h, and the types of results."""
from __future__ import annotations

import dataclasses
import enum
import socket
import struct
from typing import Any, Optional, Tuple, Union

Octets = Union[bytes, bytearray, memoryview]

TCP_ULP = 31
SOL_MPA = 289
ULPDU_MAX = 64768           # longest record of MPA
TUF_ULPDU_MAX = 65528       # longest record of TUF
PRIVATE_DATA_MAX = 512
ENHANCED_PRIVATE_MAX = 508  # private data with revision 2
DEPTH_BY_USER = 0x3fff      # IRD, ORD: not negotiated by MPA
RECV_BATCH_MAX = 1024       # most records in one call
SEGMENT_OFF = -1            # a send is one record
SEGMENT_FILL = 0            # sends are split into records that fill segments
MORE_FOLLOW = socket.MSG_MORE | socket.MSG_EOR  # flags: end of a record, and more follow

(MPA_START, MPA_INFO, MPA_PEER, MPA_MULPDU, MPA_ACCEPT, MPA_REJECT, MPA_SEGMENT,
 MPA_PACKING, MPA_OVERSIZE) = range(1, 10)
MPA_RECVINFO, MPA_RECV_BATCH, MPA_PLACE = 11, 12, 13
TUF_TX, TUF_RX, TUF_TX_KEY, TUF_INFO = 32, 33, 34, 35
TUF_KEY_LEN = 6

BUFFER = 65536             # longer than any record
BATCH_BUFFER = 4 * BUFFER
OPTION_MAX = 1024          # limit of Python's getsockopt(); structs may grow
IOV_MAX = 1024
U32_MAX = 0xffffffff

# Structs as in the first release. Newer kernels may append fields.
START = struct.Struct("=BBHIHHI16x")
REPLY = struct.Struct("=HHHH24x")
PEER = struct.Struct("=BBHHHI20x")
INFO = struct.Struct("=BBBBIIIHHI12Q")
RECVINFO = struct.Struct("=QQQIIII")
FRAMING = struct.Struct("=B6sBII16x")
TUF_INFO_LAYOUT = struct.Struct("=BBBBIIIII18Q")
RECVINFO_PLACED = 1 << 1
RECVINFO_VALID_ORDER = 1 << 0
TUF_KEY_GIVEN, TUF_TELL_EMSS = 1 << 0, 1 << 1


class Role(enum.IntEnum):
    """The role in startup: enum mpa_role."""
    UNSPEC, INITIATOR, RESPONDER, DIRECT = range(4)


INITIATOR, RESPONDER, DIRECT = Role.INITIATOR, Role.RESPONDER, Role.DIRECT


class State(enum.IntEnum):
    """The state of a connection: enum mpa_state."""
    IDLE, STARTUP, FULL, REJECTED, FAILED, REQUESTED = range(6)


class Code(enum.IntEnum):
    """Why MPA stopped: enum mpa_error, with the codes of RFC 5044 section 8 and RFC
    6581 section 8."""
    NONE, TCP, CRC, MARKER, STARTUP, LOCAL, IRD, RTR = range(8)


class Start(enum.IntFlag):
    """struct mpa_start.flags, for options without an argument of start()."""
    MARKERS, NO_CRC, MANUAL, PERMISSIVE, ENHANCED, P2P = (1 << n for n in range(6))
    RTR_FPDU, RTR_WRITE, RTR_READ, TX_MARKERS, TX_NO_CRC = (
        1 << n for n in range(6, 11))


class InfoFlags(enum.IntFlag):
    """MpaInfo.flags: the negotiated parameters."""
    (TX_MARKERS, RX_MARKERS, TX_CRC, RX_CRC, MAY_SEND, ENHANCED, P2P) = (
        1 << n for n in range(7))


class PeerFlags(enum.IntFlag):
    """Peer.flags: flags of the peer's startup frame."""
    MARKERS, CRC, REJECTED, ENHANCED = 0x80, 0x40, 0x20, 0x10


class Tuf(enum.IntEnum):
    """The framing of a direction: enum tuf_mode."""
    OFF, ALIGN, MARKERS, SEGMENTS = range(4)


# ---- results ----

@dataclasses.dataclass(frozen=True)
class Peer:
    """The content of the peer's startup frame: struct mpa_peer."""
    revision: int
    flags: PeerFlags
    ird: int
    ord: int
    control: Start
    private: bytes


@dataclasses.dataclass(frozen=True)
class Record:
    """A record and its place in the peer's stream: struct mpa_recvinfo."""
    data: bytes
    position: int           # octets of the stream before the record, framing included
    order: Optional[int]    # number of earlier records; None: unknown after a gap
    edge: int               # all octets before this position were returned
    placed: bool            # octets before the record are still missing
    length: int


@dataclasses.dataclass(frozen=True)
class MpaInfo:
    """State, parameters and counters of a connection: struct mpa_info."""
    state: int
    role: int
    revision: int
    error: int
    flags: InfoFlags
    emss: int
    mulpdu: int
    ird: int
    ord: int
    rtr: Start
    tx_ulpdus: int
    tx_octets: int
    tx_markers: int
    rx_ulpdus: int
    rx_octets: int
    rx_markers: int
    tx_packets: int
    tx_segs_aligned: int
    tx_segs_unaligned: int
    rx_placed: int
    rx_edge: int
    error_position: int


@dataclasses.dataclass(frozen=True)
class TufInfo:
    """State and counters of a connection with TUF: struct tuf_info."""
    tx_mode: int
    rx_mode: int
    error: int
    flags: int
    emss: int
    mulpdu: int
    tx_period: int
    rx_period: int
    tx_ulpdus: int
    tx_fpdus: int
    tx_octets: int
    tx_markers: int
    rx_fpdus: int
    rx_octets: int
    rx_markers: int
    tx_packets: int
    tx_segs_aligned: int
    tx_segs_unaligned: int
    tx_segs_contained: int
    tx_trimmed: int
    rx_placed: int
    rx_tested: int
    rx_contained: int
    rx_wrong_key: int
    rx_edge: int
    error_position: int


def unpacked(layout: struct.Struct, octets: bytes) -> Tuple[Any, ...]:
    """Unpack the struct; fields that an older kernel lacks are 0."""
    fields: Tuple[Any, ...] = layout.unpack_from(octets.ljust(layout.size, b"\0"))
    return fields
