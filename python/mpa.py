# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Records on TCP: Linux's MPA (RFC 5044) and TUF, over the socket module.

    import mpa

    with mpa.connect(("localhost", 4242)) as conn:
        conn.send(b"hello")             # one record out
        print(conn.recv())              # one record in, None at the end

    with mpa.create_server(("", 4242)) as server:
        conn = server.accept()

Records have 1 to 64768 octets. A damaged one never arrives: recv() raises Damaged.
attach() and start() do the same for a socket of your own. TufConnection is for TUF.

With asyncio there are streams whose items are records:

    reader, writer = await mpa.open_connection("localhost", 4242)
    writer.write(b"hello")              # one record out
    await writer.drain()
    print(await reader.read())          # one record in, None at the end

    async with await mpa.start_server(callback, "", 4242) as server:
        await server.serve_forever()

Timeouts are those of sockets: settimeout(None) waits, 0 never does and raises
BlockingIOError, anything else raises Timeout after so many seconds. Every error is
an OSError with its errno. Threads may share a connection: records stay whole.

Needs Linux with the module mpa, and Python 3.9 or later.
python.rst has programs: it is in Documentation/networking/mpa of the sources, and
in /usr/share/doc/python3-mpa with the package.
"""
from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import enum
import errno
import logging
import os
import select
import socket
import struct
from typing import (Any, AsyncIterator, Awaitable, Callable, Deque, Dict, Iterable,
                    Iterator, List, Optional, Set, Tuple, Type, TypeVar, Union)

# ---- numbers of linux/mpa.h and linux/tuf.h ----

TCP_ULP = 31
SOL_MPA = 289
ULPDU_MAX = 64768           # octets of a record of MPA
TUF_ULPDU_MAX = 65528       # of TUF
PRIVATE_DATA_MAX = 512
ENHANCED_PRIVATE_MAX = 508  # with IRD and ORD, and for a responder of revision 2
DEPTH_BY_USER = 0x3fff      # IRD, ORD: not to be negotiated by MPA
RECV_BATCH_MAX = 1024       # records that one call returns
SEGMENT_OFF = -1            # one send is one record
SEGMENT_FILL = 0            # sends are cut into records that fill segments
MORE_FOLLOW = socket.MSG_MORE | socket.MSG_EOR     # flags: a record ends, others come

(MPA_START, MPA_INFO, MPA_PEER, MPA_MULPDU, MPA_ACCEPT, MPA_REJECT, MPA_SEGMENT,
 MPA_PACKING, MPA_OVERSIZE) = range(1, 10)
MPA_RECVINFO, MPA_RECV_BATCH, MPA_PLACE = 11, 12, 13
TUF_TX, TUF_RX, TUF_TX_KEY, TUF_INFO = 32, 33, 34, 35
TUF_KEY_LEN = 6

_BUFFER = 65536             # longer than any record
_BATCH_BUFFER = 4 * _BUFFER
_OPTION_MAX = 1024          # getsockopt() of Python gives no more; structs may grow
_IOV_MAX = 1024
_U32_MAX = 0xffffffff

# The structs as they are in the first release. Newer kernels may put more behind.
_START = struct.Struct("=BBHIHHI16x")
_REPLY = struct.Struct("=HHHH24x")
_PEER = struct.Struct("=BBHHHI20x")
_INFO = struct.Struct("=BBBBIIIHHI12Q")
_RECVINFO = struct.Struct("=QQQIIII")
_FRAMING = struct.Struct("=B6sBII16x")
_TUF_INFO = struct.Struct("=BBBBIIIII18Q")
_RECVINFO_PLACED = 1 << 1
_RECVINFO_VALID_ORDER = 1 << 0
_TUF_KEY_GIVEN, _TUF_TELL_EMSS = 1 << 0, 1 << 1


class Role(enum.IntEnum):
    """Which end of the startup a socket plays: enum mpa_role."""
    UNSPEC, INITIATOR, RESPONDER, DIRECT = range(4)


INITIATOR, RESPONDER, DIRECT = Role.INITIATOR, Role.RESPONDER, Role.DIRECT


class State(enum.IntEnum):
    """Where a connection stands: enum mpa_state."""
    IDLE, STARTUP, FULL, REJECTED, FAILED, REQUESTED = range(6)


class Code(enum.IntEnum):
    """Why MPA stopped: enum mpa_error, RFC 5044 section 8, RFC 6581 section 8."""
    NONE, TCP, CRC, MARKER, STARTUP, LOCAL, IRD, RTR = range(8)


class Start(enum.IntFlag):
    """struct mpa_start.flags, for what start() has no argument for."""
    MARKERS, NO_CRC, MANUAL, PERMISSIVE, ENHANCED, P2P = (1 << n for n in range(6))
    RTR_FPDU, RTR_WRITE, RTR_READ, TX_MARKERS, TX_NO_CRC = (
        1 << n for n in range(6, 11))


class InfoFlags(enum.IntFlag):
    """MpaInfo.flags: what was agreed on."""
    (TX_MARKERS, RX_MARKERS, TX_CRC, RX_CRC, MAY_SEND, ENHANCED, P2P) = (
        1 << n for n in range(7))


class PeerFlags(enum.IntFlag):
    """Peer.flags: those of the peer's startup frame."""
    MARKERS, CRC, REJECTED, ENHANCED = 0x80, 0x40, 0x20, 0x10


class Tuf(enum.IntEnum):
    """How a direction is framed: enum tuf_mode."""
    OFF, ALIGN, MARKERS, SEGMENTS = range(4)


# ---- what calls return ----

@dataclasses.dataclass(frozen=True)
class Peer:
    """What the peer's startup frame said: struct mpa_peer."""
    revision: int
    flags: PeerFlags
    ird: int
    ord: int
    control: Start
    private: bytes


@dataclasses.dataclass(frozen=True)
class Record:
    """A record and where it lies in the peer's stream: struct mpa_recvinfo."""
    data: bytes
    position: int           # octets of the stream in front of it, framing included
    order: Optional[int]    # records in front of it; None: not known behind a gap
    edge: int               # everything in front of this position has been returned
    placed: bool            # octets in front of it are still missing
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


# ---- errors ----

class MpaError(OSError):
    """Something that MPA or TUF has said; errno is the kernel's."""
    sent = 0        # send_many(): how many records had been accepted
    address: Any = None     # the peer's, if a connection has raised it


class NotLoaded(MpaError):
    """The kernel has no such ULP: an administrator has to load the module."""


class Refused(MpaError, ConnectionRefusedError):
    """The peer has rejected the request; private is what it has sent with that."""
    private = b""


class NotMpa(MpaError):
    """The peer's startup frame is malformed: no MPA, the same role, the revision."""


class Timeout(MpaError, TimeoutError):
    """Nothing came in time."""


class Lost(MpaError, ConnectionError):
    """The connection has failed, or has ended where it should not."""


class Busy(MpaError):
    """Octets are unread, or another thread is in a call, so MPA cannot start."""


class TooMany(MpaError):
    """Too many connections were in startup."""


class Disagreed(MpaError):
    """Revision 2: no agreement on IRD (ENOBUFS) or RTR (EOPNOTSUPP); code says."""
    code = int(Code.NONE)


class LongRecord(MpaError):
    """A record that is empty, or longer than one may be."""


class Damaged(MpaError):
    """Nothing more is received: a record is not good, or the stream ends inside one.

    code is a Code, position where in the stream it begins. What has been received
    before is good. Sending still works, so the peer can be told why.
    """
    code = int(Code.NONE)
    position = 0


_CODES: Dict[int, str] = {
    Code.TCP: "the connection ended inside a record",
    Code.CRC: "a record is damaged: its CRC does not match, or its length cannot be",
    Code.MARKER: "a record is damaged: a marker disagrees with it",
    Code.LOCAL: "octets were read from the socket before MPA was started",
}

_ERRORS: Dict[int, Tuple[Type[MpaError], str]] = {
    errno.ENOENT: (NotLoaded, "the module is not loaded: as root, modprobe mpa"),
    errno.ECONNREFUSED: (Refused, "the peer has rejected the request"),
    errno.EPROTO: (NotMpa, "the peer does not speak MPA, or plays the same role, or "
                           "speaks another revision"),
    errno.ETIMEDOUT: (Timeout, "the peer did not answer in time"),
    errno.EBUSY: (Busy, "octets of the peer are unread, or another thread is in a call; "
                        "read them first"),
    errno.EUSERS: (TooMany, "too many connections were in startup; try later"),
    errno.ENOBUFS: (Disagreed, "the responder wants more RDMA Reads than ird"),
    errno.EOPNOTSUPP: (Disagreed, "no RTR indication that both ends support"),
    errno.EMSGSIZE: (LongRecord, "a record is empty, or longer than it may be"),
    errno.EBADMSG: (Damaged, "a record is not good"),
    errno.ECONNRESET: (Lost, "the peer has ended the connection"),
    errno.ECONNABORTED: (Lost, "the connection was shut down during startup"),
    errno.EPIPE: (Lost, "sending has ended, or the connection is gone"),
    errno.ENOTCONN: (Lost, "the connection is gone, or was never there"),
    errno.ENOPROTOOPT: (MpaError, "this socket has no such option: attach it first"),
}


def _info(sock: socket.socket) -> MpaInfo:
    fields = _unpacked(_INFO, sock.getsockopt(SOL_MPA, MPA_INFO, _OPTION_MAX))
    info = MpaInfo(*fields)
    return dataclasses.replace(info, flags=InfoFlags(info.flags), rtr=Start(info.rtr))


def _peer(sock: socket.socket) -> Optional[Peer]:
    try:
        octets = sock.getsockopt(SOL_MPA, MPA_PEER, _OPTION_MAX)
    except OSError as err:
        if err.errno == errno.ENODATA:
            return None
        raise
    revision, flags, length, ird, depth, control = _PEER.unpack_from(octets)
    return Peer(revision, PeerFlags(flags), ird, depth, Start(control),
                octets[_PEER.size:_PEER.size + length])


def _unpacked(layout: struct.Struct, octets: bytes) -> Tuple[Any, ...]:
    """The fields; those that an older kernel lacks are 0."""
    fields: Tuple[Any, ...] = layout.unpack_from(octets.ljust(layout.size, b"\0"))
    return fields


def _printable(octets: bytes) -> str:
    """Text as it is, anything else in hexadecimal digits."""
    with contextlib.suppress(UnicodeDecodeError):
        text = octets.decode()
        if text.isprintable():
            return text
    return octets.hex()


def _explained(err: OSError, sock: socket.socket, what: str) -> OSError:
    """The error that says what has happened in a call."""
    if isinstance(err, (MpaError, BlockingIOError, InterruptedError)):
        return err
    if isinstance(err, socket.timeout) and err.errno is None:
        return Timeout(errno.ETIMEDOUT,
                       f"{what}: nothing happened in {sock.gettimeout()} s")
    if err.errno not in _ERRORS:
        return err
    kind, text = _ERRORS[err.errno]
    info, peer = None, None
    with contextlib.suppress(OSError):
        info, peer = _info(sock), _peer(sock)
    if kind is Refused and (not info or info.state != State.REJECTED):
        return err
    if kind is Disagreed and (not info or info.error not in (Code.IRD, Code.RTR)):
        return err
    if kind is Damaged and info:
        text = _CODES.get(info.error, text) + f" (at octet {info.error_position})"
    if kind is Refused and peer and peer.private:
        text += f", and says: {_printable(peer.private)}"
    made = kind(err.errno, f"{what}: {text}")
    if isinstance(made, Refused) and peer:
        made.private = peer.private
    if isinstance(made, (Damaged, Disagreed)) and info:
        made.code = info.error
    if isinstance(made, Damaged) and info:
        made.position = info.error_position
    return made


# ---- sockets of your own ----

Octets = Union[bytes, bytearray, memoryview]


def attach(sock: socket.socket, ulp: bytes = b"mpa") -> None:
    """Put MPA on a socket: connected, or not connected yet, or before listen().

    Until start() it stays an ordinary TCP socket.
    """
    try:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, ulp)
    except OSError as err:
        raise _explained(err, sock, f"attaching {ulp.decode()}") from None


def _check(good: bool, text: str) -> None:
    """Of what a caller has given."""
    if not good:
        raise MpaError(errno.EINVAL, text)


def _private(private: Octets, most: int = PRIVATE_DATA_MAX) -> bytes:
    octets = bytes(memoryview(private))
    _check(len(octets) <= most, f"private: at most {PRIVATE_DATA_MAX} octets "
           f"({ENHANCED_PRIVATE_MAX} with revision 2), not {len(octets)}")
    return octets


def _pack_start(role: int, private: bytes, *, markers: bool = False, crc: bool = True,
                revision: int = 1, ird: int = 0,
                ord: int = 0,  # pylint: disable=redefined-builtin
                p2p: int = 0, manual: bool = False, permissive: bool = False,
                flags: int = 0, timeout: Optional[float] = None) -> bytes:
    flags |= Start.MARKERS * markers | Start.NO_CRC * (not crc)
    flags |= Start.MANUAL * manual | Start.PERMISSIVE * permissive
    if p2p:
        flags |= p2p | Start.P2P * (role == INITIATOR)
    if role == INITIATOR and (p2p or ird or ord):
        flags |= Start.ENHANCED
    _check(revision in (0, 1, 2), f"revision: 0, 1 or 2, not {revision}")
    for name, depth in ("ird", ird), ("ord", ord):
        _check(0 <= depth <= DEPTH_BY_USER,
               f"{name}: 0 to {DEPTH_BY_USER}, not {depth}")
    _check(revision == 2 or not (p2p or ird or ord), "ird, ord and p2p need revision=2")
    enhanced = flags & Start.ENHANCED or (role == RESPONDER and revision == 2)
    private = _private(private, ENHANCED_PRIVATE_MAX if enhanced else PRIVATE_DATA_MAX)
    millis = 0 if timeout is None else min(max(1, int(timeout * 1000)), _U32_MAX)
    return _START.pack(role, revision, len(private), flags, ird, ord, millis) + private


def _start_request(role: int, private: bytes, options: Dict[str, Any]) -> bytes:
    """What MPA_START takes. Options that cannot be are told here, without a socket."""
    known = _pack_start.__kwdefaults__
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name}; those of startup are "
                            + ", ".join(known))
    return _pack_start(role, private, **options)


def _is_manual(options: Dict[str, Any]) -> bool:
    """Whether options of start() leave it to the program to decide."""
    return bool(options.get("manual") or options.get("flags", 0) & Start.MANUAL)


def start_nowait(sock: socket.socket, role: int = INITIATOR, private: bytes = b"",
                 **options: Any) -> bool:
    """Begin with startup, as start() with its options; returns whether that is all.

    If not, poll for POLLOUT (POLLIN as well with manual), then call finish(sock).
    """
    request = _start_request(role, private, options)
    # A blocking MPA_START keeps the interpreter's lock until the peer answers.
    waits = sock.gettimeout()
    sock.setblocking(False)
    try:
        sock.setsockopt(SOL_MPA, MPA_START, request)
    except BlockingIOError:     # EINPROGRESS
        return False
    except OSError as err:
        if err.errno == errno.EINVAL:
            raise MpaError(err.errno, "MPA_START: role, p2p or flags cannot be so; "
                           "DIRECT has neither private nor timeout") from None
        raise _explained(err, sock, "MPA_START") from None
    finally:
        sock.settimeout(waits)
    return True


def finish(sock: socket.socket) -> None:
    """Raise what startup has failed with, if it has."""
    err = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if err:
        raise _explained(OSError(err, os.strerror(err)), sock, "startup")


def start(sock: socket.socket, role: int = INITIATOR, private: bytes = b"",
          **options: Any) -> None:
    """Start MPA on an attached socket.

    As INITIATOR it returns when the peer has answered, and waits as long as the
    socket's timeout says; other threads run meanwhile. As RESPONDER it returns at
    once: the first recv() waits for the request. With DIRECT there is no startup.

    private: up to 512 octets for the peer, which finds them with peer(); 508 with
        revision 2.
    markers: the peer shall send markers, which "place" needs.
    crc: False: this end can do without, if the peer and both administrators can.
    revision: 1 (RFC 5044), 2 (RFC 6581), 0 (RDMA Consortium).
    ird, ord: revision 2: depths of RDMA Reads, to be negotiated.
    p2p: revision 2: the Start.RTR_... that may open the connection, which either
        end may then do.
    manual: accept_request() or reject_request() decide.
    permissive: speak revision 0 with a peer that does.
    flags: more of Start.
    timeout: seconds for startup; None: what the administrator has set.
    """
    if start_nowait(sock, role, private, **options):
        return
    waits = sock.gettimeout()
    if waits == 0:
        raise BlockingIOError(errno.EINPROGRESS, "startup goes on: poll for POLLOUT, "
                              "then finish()")
    events = select.POLLOUT | (select.POLLIN if _is_manual(options) else 0)
    _poll(sock, events, waits, "startup")
    finish(sock)


def _poll(sock: socket.socket, events: int, timeout: Optional[float], what: str) -> None:
    poll = select.poll()
    poll.register(sock, events)
    if not poll.poll(None if timeout is None else timeout * 1000):
        raise Timeout(errno.ETIMEDOUT, f"{what}: nothing happened in {timeout} s")


# ---- connections ----

_Self = TypeVar("_Self", bound="Records")


def _option(number: int, text: str, wrong: str) -> Any:
    """A property that is a socket option; wrong: what EINVAL says of a value."""
    def get(self: Records) -> int:
        return self.sock.getsockopt(SOL_MPA, number)

    def put(self: Records, value: int) -> None:
        try:
            self.sock.setsockopt(SOL_MPA, number, int(value))
        except OSError as err:
            name = text.split(":", maxsplit=1)[0]
            if err.errno == errno.EINVAL:
                raise MpaError(err.errno, f"{name}: " + wrong.format(
                    value=value, longest=self.longest)) from None
            if err.errno == errno.EPERM:
                raise MpaError(err.errno, f"{name}: the administrator does not allow "
                               "it") from None
            raise self._explained(err, name) from None
    return property(get, put, doc=text)


class Records:
    """Records over a socket; what connections with MPA and with TUF share.

    sock is the socket. Calls of it that are not here may be used as well.
    """
    longest = ULPDU_MAX
    packing = _option(MPA_PACKING, "packing: short records may share a segment",
                      "True or False, not {value}")
    oversize = _option(MPA_OVERSIZE, "oversize: records may be longer than mulpdu",
                       "True or False, not {value}")
    segment = _option(MPA_SEGMENT, "segment: a send is cut into records of so many "
                      "octets; SEGMENT_FILL: that fill segments; SEGMENT_OFF",
                      "1 to {longest} octets, SEGMENT_FILL or SEGMENT_OFF, not {value}")
    place = _option(MPA_PLACE, "place: records may come out of order, see recv_info(); "
                    "needs markers", "what is received has no markers, or no CRCs; ask "
                    "for them with the startup options markers=True and crc=True")
    # So that a wrong name, as "placed = True", is an error.
    __slots__ = "sock", "peer_address", "_options", "__weakref__"

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.peer_address: Any = None   # stays when the connection is gone
        with contextlib.suppress(OSError):
            self.peer_address = sock.getpeername()
        self._options: Set[int] = set()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.recv, None)

    def __repr__(self) -> str:
        there = "closed" if self.fileno() < 0 else f"fd={self.fileno()}"
        return f"<{type(self).__name__} {there}, peer={self.peer_address}>"

    @property
    def mulpdu(self) -> int:
        """Octets of the longest record that fits a segment, as it is now."""
        return self.sock.getsockopt(SOL_MPA, MPA_MULPDU)

    def fileno(self) -> int:
        """For select and the like."""
        return self.sock.fileno()

    def settimeout(self, seconds: Optional[float]) -> None:
        """As a socket's: None waits, 0 never does."""
        self.sock.settimeout(seconds)

    def gettimeout(self) -> Optional[float]:
        """What settimeout() has set."""
        return self.sock.gettimeout()

    def shutdown(self, how: int = socket.SHUT_WR) -> None:
        """End a direction, sending if not told: the peer's recv() returns None."""
        self.sock.shutdown(how)

    def close(self) -> None:
        """Records that were sent still go out, unless others are unread here."""
        self.sock.close()

    def _explained(self, err: OSError, what: str) -> OSError:
        """The error that says what has happened in a call, and with which peer."""
        made = _explained(err, self.sock, what)
        if isinstance(made, MpaError):
            made.address = self.peer_address
        return made

    def send_some(self, octets: Octets, flags: int = 0) -> int:
        """One call of send(): how many octets were taken, all unless segment is set."""
        try:
            return self.sock.send(octets, flags)
        except OSError as err:
            if err.errno == errno.EMSGSIZE:
                err = LongRecord(err.errno, f"a record of {len(octets)} octets: it may "
                                 f"have 1 to {self.longest}, or mulpdu if oversize "
                                 "is off")
            raise self._explained(err, "send") from None

    def send(self, record: Octets, flags: int = 0) -> None:
        """Send a record, whole or not at all.

        With segment set any number of octets is sent as many records.
        """
        sent = self.send_some(record, flags)
        if sent < len(record):
            rest = memoryview(record).cast("B")
            while sent < len(rest):
                sent += self.send_some(rest[sent:], flags)

    def send_many(self, records: Iterable[Octets]) -> int:
        """Send records as a batch, which costs less; returns how many.

        If it fails, or records raises, what came before is sent, and "sent" of the
        exception says how many were.
        """
        sent = 0
        waiting: List[memoryview] = []
        try:
            try:
                for record in records:
                    octets = memoryview(record)
                    if waiting and (octets.nbytes != waiting[0].nbytes or
                                    len(waiting) == _IOV_MAX):
                        batch, waiting = waiting, []
                        sent += self._send_alike(batch, MORE_FOLLOW)
                    waiting.append(octets)
            finally:
                # Empty if it was the sending that failed.
                if waiting:
                    sent += self._send_alike(waiting, 0)
        except Exception as err:
            setattr(err, "sent", getattr(err, "sent", 0) + sent)
            raise
        return sent

    def _send_alike(self, records: List[memoryview], flags: int) -> int:
        """Records of one length, as one call that the kernel cuts."""
        length = records[0].nbytes
        if len(records) == 1 or not 0 < length <= self.longest:
            self.send(records[0], flags)
            return 1
        cut = [(SOL_MPA, MPA_SEGMENT, struct.pack("=i", length))]
        sent = 0
        while sent < len(records):
            try:
                sent += self.sock.sendmsg(records[sent:], cut, flags) // length
            except OSError as err:
                made = self._explained(err, "send")
                setattr(made, "sent", sent)
                raise made from None
        return sent

    def sendfile(self, file: Any, offset: int = 0, count: Optional[int] = None) -> int:
        """Send a file as records that fill segments, or as segment says."""
        try:
            return self.sock.sendfile(file, offset, count)
        except OSError as err:
            raise self._explained(err, "sendfile") from None

    def recv(self) -> Optional[bytes]:
        """The next record; None at the end of the stream."""
        try:
            return self.sock.recv(_BUFFER) or None
        except OSError as err:
            raise self._explained(err, "recv") from None

    def recv_info(self) -> Optional[Record]:
        """The next record and where it lies in the stream; None at the end."""
        self._want(MPA_RECVINFO)
        data, control = self._recvmsg(_BUFFER, socket.CMSG_SPACE(_RECVINFO.size))
        if not data:
            return None
        for level, kind, octets in control:
            if (level, kind) == (SOL_MPA, MPA_RECVINFO):
                (position, order, edge, length, _, flags,
                 valid) = _unpacked(_RECVINFO, octets)
                return Record(data, position,
                              order if valid & _RECVINFO_VALID_ORDER else None, edge,
                              bool(flags & _RECVINFO_PLACED), length)
        raise MpaError(errno.ENOMSG, "recv_info: the option was taken back")

    def recv_batch(self, most: int = 64) -> List[bytes]:
        """As many whole records as are here, at most so many; [] at the end.

        Waits for the first only. All together have at most 256 KiB.
        """
        self._want(MPA_RECV_BATCH)
        most = min(most, RECV_BATCH_MAX)
        room = socket.CMSG_LEN(4 * most)
        if MPA_RECVINFO in self._options:
            room += socket.CMSG_SPACE(_RECVINFO.size)
        data, control = self._recvmsg(min(most * _BUFFER, _BATCH_BUFFER), room)
        for level, kind, octets in control:
            if (level, kind) == (SOL_MPA, MPA_RECV_BATCH):
                lengths = struct.unpack(f"={len(octets) // 4}I", octets)
                records, at = [], 0
                for length in lengths:
                    records.append(data[at:at + length])
                    at += length
                return records
        return [data] if data else []

    def _want(self, number: int) -> None:
        if number not in self._options:
            self.sock.setsockopt(SOL_MPA, number, 1)
            self._options.add(number)

    def _recvmsg(self, size: int, room: int) -> Tuple[bytes, List[Tuple[int, int, bytes]]]:
        try:
            data, control, _, _ = self.sock.recvmsg(size, room)
        except OSError as err:
            raise self._explained(err, "recv") from None
        return data, control


def _pair(address: Tuple[Any, ...]) -> Tuple[str, int]:
    """Host and port; the addresses of IPv6's sockets have more behind."""
    if not isinstance(address, (tuple, list)) or len(address) < 2:
        raise TypeError(f"address is a pair (host, port), not {address!r}")
    return address[0], address[1]


class Connection(Records):
    """A connection with MPA, around a socket that has been attached and started."""

    __slots__ = ("_manual",)

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._manual: Optional[bool] = None     # of a socket of your own: not known

    @classmethod
    def connect(cls, address: Tuple[str, int], private: bytes = b"", *,
                timeout: Optional[float] = None, nodelay: bool = True,
                source: Optional[Tuple[str, int]] = None,
                **options: Any) -> Connection:
        """Connect, attach and start as the initiator. options are start()'s.

        timeout is the connection's, and that of startup.
        """
        address = _pair(address)
        _start_request(INITIATOR, private, {"timeout": timeout, **options})
        sock = socket.create_connection(address, timeout, source)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
            attach(sock)
            start(sock, INITIATOR, private, timeout=timeout, **options)
        except BaseException:
            sock.close()
            raise
        conn = cls(sock)
        conn._manual = _is_manual(options)
        return conn

    def info(self) -> MpaInfo:
        """State, parameters and counters."""
        return _info(self.sock)

    def peer(self) -> Optional[Peer]:
        """What the peer's startup frame said; None as long as none has come."""
        return _peer(self.sock)

    def wait_request(self) -> Peer:
        """With manual: wait for the peer's frame, and return what it says.

        Without manual nothing tells of the frame: peer() has it once it has come.
        """
        _check(self._manual is not False, "wait_request: only with the startup option "
               "manual=True; without it use peer() behind the first recv()")
        timeout = self.gettimeout()
        peer = self.peer()
        if not peer:
            if timeout == 0:
                raise BlockingIOError(errno.EAGAIN, "no request has come yet")
            try:
                _poll(self.sock, select.POLLIN, timeout, "waiting for a request")
                finish(self.sock)
            except MpaError as err:
                raise self._explained(err, "waiting for a request") from None
            peer = self.peer()
        if not peer:
            raise Lost(errno.ENOTCONN, "startup has failed before a request came")
        return peer

    def accept_request(self, private: Optional[bytes] = None, *, ird: int = 0,
                       ord: int = 0) -> None:  # pylint: disable=redefined-builtin
        """With manual: accept what wait_request() has returned.

        private, ird and ord replace those of start(); an initiator passes none.
        """
        self._decide(MPA_ACCEPT, private, ird, ord)

    def reject_request(self, private: Optional[bytes] = None, *, ird: int = 0,
                       ord: int = 0) -> None:  # pylint: disable=redefined-builtin
        """Reject it. Both ends are ordinary TCP sockets afterwards."""
        self._decide(MPA_REJECT, private, ird, ord)

    def _decide(self, how: int, private: Optional[bytes], ird: int, depth: int) -> None:
        reply = b""
        if private is not None or ird or depth:
            private = _private(private or b"")
            reply = _REPLY.pack(len(private), ird, depth, 0) + private
        try:
            self.sock.setsockopt(SOL_MPA, how, reply)
        except OSError as err:
            raise self._explained(err, "deciding") from None


connect = Connection.connect


class Listener:
    """A listening socket whose connections start by themselves when accepted."""

    def __init__(self, sock: socket.socket, nodelay: bool = True,
                 manual: Optional[bool] = None) -> None:
        self.sock = sock
        self._nodelay = nodelay
        self._manual = manual

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> Tuple[Any, ...]:
        """Where it listens."""
        where: Tuple[Any, ...] = self.sock.getsockname()
        return where

    def fileno(self) -> int:
        """For select and the like."""
        return self.sock.fileno()

    def settimeout(self, seconds: Optional[float]) -> None:
        """Of accept(); connections have none until they are told."""
        self.sock.settimeout(seconds)

    def accept(self) -> Connection:
        """The next connection. Its startup is over when its first recv() returns."""
        try:
            sock, address = self.sock.accept()
        except OSError as err:
            raise _explained(err, self.sock, "accept") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, self._nodelay)
        conn = Connection(sock)
        conn.peer_address = address     # which a reset connection no longer has
        conn._manual = self._manual     # pylint: disable=protected-access
        return conn

    def close(self) -> None:
        """Listen no longer; connections go on."""
        self.sock.close()


def create_server(address: Tuple[str, int], private: bytes = b"", *, backlog: int = 128,
                  reuse_port: bool = False, nodelay: bool = True, revision: int = 2,
                  **options: Any) -> Listener:
    """Listen as the responder. options are start()'s.

    The host "" is all addresses, of IPv6 and IPv4. Revision 2 serves 1 as well.
    """
    host, port = _pair(address)
    options["revision"] = revision
    _start_request(RESPONDER, private, options)
    dual = host == "" and socket.has_dualstack_ipv6()
    family, _, _, _, where = socket.getaddrinfo(
        host or None, port, socket.AF_INET6 if dual else 0, socket.SOCK_STREAM, 0,
        socket.AI_PASSIVE)[0]
    sock = socket.socket(family)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual)
        sock.bind(where)
        # Before listen(), or a quick client would come to plain TCP.
        attach(sock)
        start(sock, RESPONDER, private, **options)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return Listener(sock, nodelay, _is_manual(options))


# ---- asyncio ----

# Octets that wait in a writer: beyond the first drain() waits, until the second
WAITING_HIGH, WAITING_LOW = 1 << 18, 1 << 16
TURNS = 64                         # records in a row before others have their turn


class _Stream:
    """What the reader and the writer of a connection share."""

    def __init__(self, conn: Records) -> None:
        conn.settimeout(0)
        self.conn = conn
        self.loop = asyncio.get_running_loop()
        self.reading: Optional[asyncio.Future[None]] = None
        self.closed: asyncio.Future[None] = self.loop.create_future()
        self.closing = False

    def finish(self) -> None:
        """Close the socket; whoever reads sees the end."""
        if self.closed.done():
            return
        self.loop.remove_reader(self.conn)
        self.loop.remove_writer(self.conn)
        self.wake_reader()
        self.closed.set_result(None)
        self.conn.close()

    def wake_reader(self) -> None:
        """Let the reader look again."""
        if self.reading and not self.reading.done():
            self.reading.set_result(None)


_T = TypeVar("_T")


class RecordReader:
    """The records of a connection, for one task at a time.

    Nothing is read ahead: who does not read slows the peer down, and a read() that
    is cancelled has taken no record.
    """

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._turns = 0

    async def read(self) -> Optional[bytes]:
        """The next record; None at the end, or once the writer has been closed."""
        return await self._read(self._stream.conn.recv, None)

    async def read_info(self) -> Optional[Record]:
        """The next record and where it lies, as recv_info()."""
        return await self._read(self._stream.conn.recv_info, None)

    async def read_batch(self, most: int = 64) -> List[bytes]:
        """As many records as are here, as recv_batch(); [] at the end."""
        return await self._read(lambda: self._stream.conn.recv_batch(most), [])

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        record = await self.read()
        if record is None:
            raise StopAsyncIteration
        return record

    async def _read(self, receive: Callable[[], _T], end: _T) -> _T:
        stream = self._stream
        if stream.reading:
            raise RuntimeError("another task is reading from this connection")
        self._turns += 1
        if self._turns % TURNS == 0:
            await asyncio.sleep(0)
        while not stream.closing:
            try:
                return receive()
            except BlockingIOError:
                pass
            stream.reading = stream.loop.create_future()
            stream.loop.add_reader(stream.conn, stream.wake_reader)
            try:
                await stream.reading
            finally:
                stream.reading = None
                if not stream.closed.done():
                    stream.loop.remove_reader(stream.conn)
        return end


class RecordWriter:
    """Sends records on a connection: write(), then await drain().

    What the connection does not take at once waits here. A responder's records wait
    for the initiator's first one, as RFC 5044 section 7.1.2 wants it.
    """

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._queue: Deque[memoryview] = collections.deque()
        self._octets = 0
        self._waits = False     # for the socket to be writable
        self._eof = False
        self._error: Optional[OSError] = None
        self._drainers: Set[asyncio.Future[None]] = set()

    @property
    def connection(self) -> Any:
        """The Connection below, for info(), peer() and options."""
        return self._stream.conn

    @property
    def waiting(self) -> int:
        """Octets that the connection has not taken yet."""
        return self._octets

    def write(self, record: Octets) -> None:
        """Send a record, or queue it; it never waits."""
        if self._error:
            raise self._error
        if self._stream.closing or self._eof:
            raise Lost(errno.EPIPE, "write: the writer has been closed")
        conn = self._stream.conn
        octets = memoryview(record)
        if not octets.nbytes or (octets.nbytes > conn.longest and conn.segment < 0):
            raise LongRecord(errno.EMSGSIZE, f"a record of {octets.nbytes} octets: it "
                             f"may have 1 to {conn.longest}")
        # What is bytes cannot change while it waits.
        self._queue.append(octets if isinstance(record, bytes) else
                           memoryview(bytes(octets)))
        self._octets += octets.nbytes
        if not self._waits:
            self._flush()

    async def drain(self) -> None:
        """Wait until there is room for more, if much is waiting."""
        if not self._error and self._octets > WAITING_HIGH:
            done = self._stream.loop.create_future()
            self._drainers.add(done)
            try:
                await done
            finally:
                self._drainers.discard(done)
        if self._error:
            raise self._error

    def write_eof(self) -> None:
        """End sending once all is sent; receiving goes on."""
        self._eof = True
        if not self._waits:
            self._flush()

    def close(self) -> None:
        """Close once all is sent. Records that are unread here are lost."""
        self._stream.closing = True
        self._stream.wake_reader()
        if not self._waits:
            self._flush()

    def abort(self) -> None:
        """Close at once, with a reset; what waits is dropped."""
        self._stream.closing = True
        self._drop()
        if not self._stream.closed.done():
            with contextlib.suppress(OSError):
                self._stream.conn.sock.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._stream.finish()

    async def wait_closed(self) -> None:
        """Wait until close() is done; raises if records could not be sent."""
        await asyncio.shield(self._stream.closed)
        if self._error:
            raise self._error

    def _flush(self) -> None:
        """Give the socket what it takes."""
        stream = self._stream
        if stream.closed.done():
            return
        waits = False
        try:
            while self._queue:
                record = self._queue[0]
                # Those behind it are a batch with it.
                sent = stream.conn.send_some(
                    record, MORE_FOLLOW if len(self._queue) > 1 else 0)
                self._octets -= sent
                self._queue.popleft()
                if sent < len(record):
                    self._queue.appendleft(record[sent:])
            if self._eof and not stream.closing:
                stream.conn.shutdown(socket.SHUT_WR)
        except (BlockingIOError, InterruptedError):
            waits = True
        except OSError as err:
            self._error = err
            self._drop()
        if waits != self._waits:
            self._waits = waits
            if waits:
                stream.loop.add_writer(stream.conn, self._flush)
            else:
                stream.loop.remove_writer(stream.conn)
        if self._octets <= WAITING_LOW:
            self._wake()
        if stream.closing and not self._queue:
            stream.finish()

    def _drop(self) -> None:
        self._queue.clear()
        self._octets = 0
        self._wake()

    def _wake(self) -> None:
        for done in self._drainers:
            if not done.done():
                done.set_result(None)


def streams(conn: Records) -> Tuple[RecordReader, RecordWriter]:
    """A reader and a writer for a connection, in the running event loop."""
    stream = _Stream(conn)
    return RecordReader(stream), RecordWriter(stream)


async def _connected(host: str, port: int) -> socket.socket:
    """A TCP connection to the first address that answers."""
    loop = asyncio.get_running_loop()
    failed: OSError = OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
    for family, kind, proto, _, address in await loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, proto)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            return sock
        except OSError as err:
            sock.close()
            failed = err
        except BaseException:
            sock.close()
            raise
    raise failed


async def open_connection(host: str, port: int, private: bytes = b"", *,
                          nodelay: bool = True,
                          **options: Any) -> Tuple[RecordReader, RecordWriter]:
    """Connect and start as the initiator. options are start()'s, but for manual."""
    if options.get("manual"):
        raise ValueError("manual: use Connection.connect() in a thread, and streams()")
    _start_request(INITIATOR, private, options)
    loop = asyncio.get_running_loop()
    sock = await _connected(host, port)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
        attach(sock)
        if not start_nowait(sock, INITIATOR, private, **options):
            done = asyncio.Event()
            loop.add_writer(sock, done.set)
            try:
                await done.wait()
            finally:
                loop.remove_writer(sock)
            finish(sock)
    except BaseException:
        sock.close()
        raise
    return streams(Connection(sock))


# What a peer or the network can do to a server: a line in the log, and no traceback.
_PEERS_DOING = (Lost, NotMpa, Timeout, Damaged, TooMany)
_log = logging.getLogger("mpa")

Callback = Callable[[RecordReader, RecordWriter], Awaitable[None]]


class Server:
    """What start_server() returns; "async with" closes it and waits for callbacks."""

    def __init__(self, callback: Callback, listener: Listener) -> None:
        self._callback = callback
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._tasks: Set[asyncio.Task[None]] = set()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        listener.settimeout(0)
        self._listen()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await self.wait_closed()

    @property
    def address(self) -> Tuple[Any, ...]:
        """Where it listens."""
        return self._listener.address

    def close(self) -> None:
        """Listen no longer; connections go on."""
        if not self._closed.done():
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._closed.set_result(None)

    def close_clients(self) -> None:
        """Cancel what serves the connections, and so reset them."""
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until it is closed and all callbacks have returned."""
        await asyncio.shield(self._closed)
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def serve_forever(self) -> None:
        """Serve until cancelled; open connections are reset then."""
        try:
            await asyncio.shield(self._closed)
        finally:
            self.close()
            self.close_clients()
            await self.wait_closed()

    def _listen(self) -> None:
        if not self._closed.done():
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(TURNS):
            try:
                conn = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as err:
                # Out of files or memory: others have to end first.
                self._loop.call_exception_handler(
                    {"message": "mpa: accept() fails, again in a second",
                     "exception": err})
                self._loop.remove_reader(self._listener)
                self._loop.call_later(1, self._listen)
                return
            task = self._loop.create_task(self._serve(conn))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, conn: Connection) -> None:
        reader, writer = streams(conn)
        try:
            await self._callback(reader, writer)
        except asyncio.CancelledError:
            writer.abort()
            raise
        except _PEERS_DOING as err:
            _log.warning("mpa: connection from %s port %s: %s", *conn.peer_address[:2],
                         err)
        except Exception as err:  # pylint: disable=broad-except
            self._loop.call_exception_handler(
                {"message": "mpa: a connection's callback has failed", "exception": err})
        finally:
            writer.close()


async def start_server(callback: Callback, host: str, port: int, private: bytes = b"",
                       **options: Any) -> Server:
    """Call callback(reader, writer) as a task for each connection.

    A connection is closed when its callback has returned. If it is lost, or no MPA,
    and the callback lets that pass, the logger "mpa" gets a line as a warning; what
    else it raises goes to the loop's exception handler. options are those of
    create_server(), but for manual.
    """
    if options.get("manual"):
        raise ValueError("manual: use create_server() in a thread, and streams()")
    return Server(callback, create_server((host, port), private, **options))


# ---- TUF ----

class TufConnection(Records):
    """A connected socket with TUF: each direction is framed when the program says.

    Until then, and after TUF is off again, "sock" sends and receives plain TCP.
    """
    longest = TUF_ULPDU_MAX
    __slots__ = ()

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        attach(sock, b"tuf")

    def key(self) -> bytes:
        """The key that this end will send, for the peer; it can be read once."""
        return self.sock.getsockopt(SOL_MPA, TUF_TX_KEY, TUF_KEY_LEN)

    def frame_tx(self, mode: int = Tuf.ALIGN, key: Optional[bytes] = None, *,
                 period: int = 0, tell_emss: bool = False) -> None:
        """From here on each send() is framed; Tuf.OFF: no longer.

        Without a key it is the one that key() has returned.
        """
        self._frame(TUF_TX, mode, key, period, _TUF_TELL_EMSS * tell_emss)

    def frame_rx(self, mode: int = Tuf.ALIGN, key: Optional[bytes] = None, *,
                 period: int = 0) -> None:
        """What has not been read yet is framed; key is the peer's. Tuf.OFF: no longer."""
        self._frame(TUF_RX, mode, key, period, 0)

    def _frame(self, option: int, mode: int, key: Optional[bytes], period: int,
               flags: int) -> None:
        if key is not None and len(key) != TUF_KEY_LEN:
            raise ValueError(f"a key has {TUF_KEY_LEN} octets, this one {len(key)}")
        flags |= 0 if key is None else _TUF_KEY_GIVEN
        try:
            self.sock.setsockopt(SOL_MPA, option, _FRAMING.pack(
                mode, key or b"", 0, period, flags))
        except OSError as err:
            raise self._explained(err, "TUF_TX" if option == TUF_TX else
                                  "TUF_RX") from None

    def exchange_keys(self) -> None:
        """Frame both directions, if the peer does the same at this place.

        Each end sends its key in plain TCP; behind it everything is framed.
        """
        self.sock.sendall(self.key())
        self.frame_tx()
        key = b""
        while len(key) < TUF_KEY_LEN:
            more = self.sock.recv(TUF_KEY_LEN - len(key))
            if not more:
                raise Lost(errno.ECONNRESET, "the peer has ended before its key")
            key += more
        self.frame_rx(Tuf.ALIGN, key)

    def tuf_info(self) -> TufInfo:
        """State and counters."""
        octets = self.sock.getsockopt(SOL_MPA, TUF_INFO, _OPTION_MAX)
        fields = list(_unpacked(_TUF_INFO, octets))
        del fields[3]       # reserved
        return TufInfo(*fields)
