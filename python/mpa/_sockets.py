# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Connections and listeners, similar to the socket module."""
from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
from typing import (Any, Iterable, Iterator, List, Optional, Set, Tuple, TypeVar, Union,
                    overload)

from ._abi import (BATCH_BUFFER, BUFFER, INITIATOR, IOV_MAX, MORE_FOLLOW, MPA_ACCEPT,
                   MPA_MULPDU, MPA_OVERSIZE, MPA_PACKING, MPA_PLACE, MPA_RECV_BATCH,
                   MPA_RECVINFO, MPA_REJECT, MPA_SEGMENT, RECV_BATCH_MAX, RECVINFO,
                   RECVINFO_PLACED, RECVINFO_VALID_ORDER, REPLY, RESPONDER, SOL_MPA,
                   ULPDU_MAX, MpaInfo, Octets, Peer, Record, unpacked)
from ._errors import LongRecord, Lost, MpaError, explained, read_info, read_peer
from ._start import (attach, check, finish, is_manual, private_octets, start,
                     start_request, wait)

_Self = TypeVar("_Self", bound="Records")


class _Option:
    """An attribute that is a socket option."""

    def __init__(self, number: int, text: str, wrong: str) -> None:
        self._number = number
        self._wrong = wrong     # message for EINVAL
        self.__doc__ = text

    @overload
    def __get__(self, conn: None, owner: type) -> _Option: ...

    @overload
    def __get__(self, conn: Records, owner: type) -> int: ...

    def __get__(self, conn: Optional[Records], owner: type) -> Union[_Option, int]:
        if conn is None:
            return self
        return conn.sock.getsockopt(SOL_MPA, self._number)

    def __set__(self, conn: Records, value: int) -> None:
        try:
            conn.sock.setsockopt(SOL_MPA, self._number, int(value))
        except OSError as err:
            name = str(self.__doc__).split(":", maxsplit=1)[0]
            if err.errno == errno.EINVAL:
                raise MpaError(err.errno, f"{name}: " + self._wrong.format(
                    value=value, longest=conn.longest)) from None
            if err.errno == errno.EPERM:
                raise MpaError(err.errno, f"{name}: the administrator does not allow "
                               "it") from None
            # pylint: disable-next=protected-access
            raise conn._explained(err, name) from None


class Records:
    """Records on a socket: the base of connections with MPA and with TUF.

    sock is the socket; its other methods may be used, too.
    """
    longest = ULPDU_MAX
    packing = _Option(MPA_PACKING, "packing: short records may share a segment",
                      "True or False, not {value}")
    oversize = _Option(MPA_OVERSIZE, "oversize: records may be longer than mulpdu",
                       "True or False, not {value}")
    segment = _Option(MPA_SEGMENT, "segment: the number of octets of the records into which a "
                      "send is split; SEGMENT_FILL: fill segments; SEGMENT_OFF",
                      "1 to {longest} octets, SEGMENT_FILL or SEGMENT_OFF, not {value}")
    place = _Option(MPA_PLACE, "place: records may be returned out of order, see recv_info(); "
                    "needs markers", "the peer sends no markers or no CRCs; request "
                    "them with the startup options markers=True and crc=True")
    # A misspelt name, such as "placed = True", is an error.
    __slots__ = "sock", "peer_address", "_options", "__weakref__"

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.peer_address: Any = None   # kept after the connection has ended
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
        """Octets of the longest record that currently fits a segment."""
        return self.sock.getsockopt(SOL_MPA, MPA_MULPDU)

    def fileno(self) -> int:
        """The descriptor, for select() and similar functions."""
        return self.sock.fileno()

    def getpeername(self) -> Any:
        """The peer's address, as for a socket. peer_address keeps it after the end."""
        return self.sock.getpeername()

    def getsockname(self) -> Any:
        """The local address."""
        return self.sock.getsockname()

    def settimeout(self, seconds: Optional[float]) -> None:
        """Set the timeout, as for a socket: None waits forever, 0 never waits."""
        self.sock.settimeout(seconds)

    def gettimeout(self) -> Optional[float]:
        """The timeout that settimeout() set."""
        return self.sock.gettimeout()

    def shutdown(self, how: int = socket.SHUT_WR) -> None:
        """Shut down a direction, by default sending: the peer's recv() returns None."""
        self.sock.shutdown(how)

    def close(self) -> None:
        """Close. Sent records are still transmitted, unless received records are unread."""
        self.sock.close()

    def _explained(self, err: OSError, what: str) -> OSError:
        """Return the exception that describes a call's error, with the peer's name."""
        made = explained(err, self.sock, what)
        if isinstance(made, MpaError):
            made.address = self.peer_address
        return made

    def send_some(self, octets: Octets, flags: int = 0) -> int:
        """Call send() once; return the octets accepted: all, unless segment is set."""
        try:
            return self.sock.send(octets, flags)
        except OSError as err:
            if err.errno == errno.EMSGSIZE:
                err = LongRecord(err.errno, f"a record of {len(octets)} octets: it can "
                                 f"have 1 to {self.longest}, or mulpdu if oversize "
                                 "is off")
            raise self._explained(err, "send") from None

    def send(self, record: Octets, flags: int = 0) -> None:
        """Send a record, completely or not at all.

        If segment is set, the octets, of any number, are split into records.
        """
        sent = self.send_some(record, flags)
        if sent < len(record):
            rest = memoryview(record).cast("B")
            while sent < len(rest):
                sent += self.send_some(rest[sent:], flags)

    def sendall(self, record: Octets, flags: int = 0) -> None:
        """The same as send(), with the name of the socket's method."""
        self.send(record, flags)

    def send_many(self, records: Iterable[Octets]) -> int:
        """Send records as a batch, which is faster; returns their number.

        If it fails, or the iterable raises, earlier records are sent. The exception's
        "sent" is their number.
        """
        sent = 0
        waiting: List[memoryview] = []
        try:
            try:
                for record in records:
                    octets = memoryview(record)
                    if waiting and (octets.nbytes != waiting[0].nbytes or
                                    len(waiting) == IOV_MAX):
                        batch, waiting = waiting, []
                        sent += self._send_alike(batch, MORE_FOLLOW)
                    waiting.append(octets)
            finally:
                # It is empty if sending failed.
                if waiting:
                    sent += self._send_alike(waiting, 0)
        except Exception as err:
            setattr(err, "sent", getattr(err, "sent", 0) + sent)
            raise
        return sent

    def _send_alike(self, records: List[memoryview], flags: int) -> int:
        """Send records of one length, in one call that the kernel splits."""
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
        """Send a file, as records that fill segments or are set by segment."""
        try:
            return self.sock.sendfile(file, offset, count)
        except OSError as err:
            raise self._explained(err, "sendfile") from None

    def recv(self) -> Optional[bytes]:
        """The next record; None at the end of the stream."""
        try:
            return self.sock.recv(BUFFER) or None
        except OSError as err:
            raise self._explained(err, "recv") from None

    def recv_into(self, buffer: Union[bytearray, memoryview], nbytes: int = 0) -> int:
        """Receive into a buffer; returns the number of octets, 0 at the end of the stream.

        A record longer than the buffer, or than nbytes, continues in the next call.
        ULPDU_MAX octets are enough for any record.
        """
        try:
            return self.sock.recv_into(buffer, nbytes)
        except OSError as err:
            raise self._explained(err, "recv") from None

    def recv_info(self) -> Optional[Record]:
        """The next record and its place in the stream; None at the end."""
        self._want(MPA_RECVINFO)
        data, control = self._recvmsg(BUFFER, socket.CMSG_SPACE(RECVINFO.size))
        if not data:
            return None
        for level, kind, octets in control:
            if (level, kind) == (SOL_MPA, MPA_RECVINFO):
                (position, order, edge, length, _, flags,
                 valid) = unpacked(RECVINFO, octets)
                return Record(data, position,
                              order if valid & RECVINFO_VALID_ORDER else None, edge,
                              bool(flags & RECVINFO_PLACED), length)
        raise MpaError(errno.ENOMSG, "recv_info: MPA_RECVINFO was switched off")

    def recv_batch(self, most: int = 64) -> List[bytes]:
        """All complete records that have arrived, up to a maximum; [] at the end.

        Waits only for the first one. The total is at most 256 KiB.
        """
        self._want(MPA_RECV_BATCH)
        most = min(most, RECV_BATCH_MAX)
        room = socket.CMSG_LEN(4 * most)
        if MPA_RECVINFO in self._options:
            room += socket.CMSG_SPACE(RECVINFO.size)
        data, control = self._recvmsg(min(most * BUFFER, BATCH_BUFFER), room)
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
    """Return host and port; addresses of IPv6 sockets have more fields."""
    if not isinstance(address, (tuple, list)) or len(address) < 2:
        raise TypeError(f"address is a pair (host, port), not {address!r}")
    return address[0], address[1]


class Connection(Records):
    """A connection with MPA, for a socket that was attached and started."""

    __slots__ = ("_manual",)

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._manual: Optional[bool] = None     # unknown for a socket of your own

    @classmethod
    def connect(cls, address: Tuple[str, int], private: bytes = b"", *,
                timeout: Optional[float] = None, nodelay: bool = True,
                source: Optional[Tuple[str, int]] = None,
                **options: Any) -> Connection:
        """Connect, attach and start as the initiator. options are those of start().

        timeout applies to the connection and to startup.
        """
        address = _pair(address)
        start_request(INITIATOR, private, {"timeout": timeout, **options})
        sock = socket.create_connection(address, timeout, source)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
            attach(sock)
            start(sock, INITIATOR, private, timeout=timeout, **options)
        except BaseException:
            sock.close()
            raise
        conn = cls(sock)
        conn._manual = is_manual(options)
        return conn

    def info(self) -> MpaInfo:
        """State, parameters and counters."""
        return read_info(self.sock)

    def peer(self) -> Optional[Peer]:
        """The content of the peer's startup frame; None until it has arrived."""
        return read_peer(self.sock)

    def wait_request(self) -> Peer:
        """With manual: wait for the peer's frame, and return its content.

        Without manual nothing reports the frame: peer() returns it once it has arrived.
        """
        check(self._manual is not False, "wait_request: only with the startup option "
               "manual=True; without it use peer() after the first recv()")
        timeout = self.gettimeout()
        peer = self.peer()
        if not peer:
            if timeout == 0:
                raise BlockingIOError(errno.EAGAIN, "no request has arrived yet")
            try:
                wait(self.sock, select.POLLIN, timeout, "waiting for a request")
                finish(self.sock)
            except MpaError as err:
                raise self._explained(err, "waiting for a request") from None
            peer = self.peer()
        if not peer:
            raise Lost(errno.ENOTCONN, "startup failed before a request arrived")
        return peer

    def accept_request(self, private: Optional[bytes] = None, *, ird: int = 0,
                       ord: int = 0) -> None:  # pylint: disable=redefined-builtin
        """With manual: accept the request that wait_request() returned.

        private, ird and ord replace those of start(); an initiator passes none.
        """
        self._decide(MPA_ACCEPT, private, ird, ord)

    def reject_request(self, private: Optional[bytes] = None, *, ird: int = 0,
                       ord: int = 0) -> None:  # pylint: disable=redefined-builtin
        """Reject the request. Both ends are then plain TCP sockets."""
        self._decide(MPA_REJECT, private, ird, ord)

    def _decide(self, how: int, private: Optional[bytes], ird: int, depth: int) -> None:
        reply = b""
        if private is not None or ird or depth:
            private = private_octets(private or b"")
            reply = REPLY.pack(len(private), ird, depth, 0) + private
        try:
            self.sock.setsockopt(SOL_MPA, how, reply)
        except OSError as err:
            raise self._explained(err, "deciding") from None


connect = Connection.connect


class Listener:
    """A listening socket whose connections start automatically when accepted."""

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
        """The listening address."""
        where: Tuple[Any, ...] = self.sock.getsockname()
        return where

    def fileno(self) -> int:
        """The descriptor, for select() and similar functions."""
        return self.sock.fileno()

    def settimeout(self, seconds: Optional[float]) -> None:
        """The timeout of accept(); connections have none until it is set."""
        self.sock.settimeout(seconds)

    def accept(self) -> Connection:
        """The next connection. Its startup is complete when its first recv() returns."""
        try:
            sock, address = self.sock.accept()
        except OSError as err:
            raise explained(err, self.sock, "accept") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, self._nodelay)
        conn = Connection(sock)
        conn.peer_address = address     # unavailable after a reset
        conn._manual = self._manual     # pylint: disable=protected-access
        return conn

    def close(self) -> None:
        """Stop listening; connections stay open."""
        self.sock.close()


def _bound(host: str, port: int, family: int, reuse_port: bool) -> socket.socket:
    """Return a socket bound to an address."""
    dual = host == "" and family == 0 and socket.has_dualstack_ipv6()
    found, _, _, _, where = socket.getaddrinfo(
        host or None, port, socket.AF_INET6 if dual else family, socket.SOCK_STREAM, 0,
        socket.AI_PASSIVE)[0]
    sock = socket.socket(found)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if found == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual)
        sock.bind(where)
    except BaseException:
        sock.close()
        raise
    return sock


def create_server(address: Optional[Tuple[str, int]] = None, private: bytes = b"", *,
                  family: int = 0, backlog: int = 128, reuse_port: bool = False,
                  nodelay: bool = True, revision: int = 2,
                  sock: Optional[socket.socket] = None, **options: Any) -> Listener:
    """Listen as the responder. options are those of start().

    The host "" means all addresses, of IPv6 and IPv4, or of one family, such as
    socket.AF_INET. Revision 2 also accepts 1. In place of an address, pass a bound
    socket that does not listen yet as sock; the Listener then owns it.
    """
    if (address is None) == (sock is None):
        raise ValueError("create_server: pass either an address or sock")
    where = None if address is None else _pair(address)
    options["revision"] = revision
    start_request(RESPONDER, private, options)
    if sock is None:
        assert where is not None
        sock = _bound(*where, family, reuse_port)
    try:
        # Attach before listen(): otherwise an early client would get plain TCP.
        attach(sock)
        start(sock, RESPONDER, private, **options)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return Listener(sock, nodelay, is_manual(options))
