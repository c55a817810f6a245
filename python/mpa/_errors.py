# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Exceptions for the errors of MPA and TUF."""
from __future__ import annotations

import contextlib
import dataclasses
import errno
import socket
from typing import Any, Dict, Optional, Tuple, Type

from ._abi import (INFO, MPA_INFO, MPA_PEER, OPTION_MAX, PEER, SOL_MPA, Code, InfoFlags,
                   MpaInfo, Peer, PeerFlags, Start, State, unpacked)


class MpaError(OSError):
    """An error of MPA or TUF; errno is the kernel's."""
    sent = 0        # send_many(): number of records that were accepted
    address: Any = None     # the peer's address, if a connection raised the error


class NotLoaded(MpaError):
    """The kernel does not have the ULP: an administrator has to load the module."""


class Refused(MpaError, ConnectionRefusedError):
    """The peer rejected the request; private is its private data."""
    private = b""


class NotMpa(MpaError):
    """The peer's startup frame is not MPA, is malformed, or has the same role or
    another revision."""


class Timeout(MpaError, TimeoutError):
    """A timeout expired."""


class Lost(MpaError, ConnectionError):
    """The connection failed or ended early."""


class Busy(MpaError):
    """MPA cannot start: there are unread octets, or another thread is in a call."""


class TooMany(MpaError):
    """Too many connections were in startup."""


class Disagreed(MpaError):
    """Revision 2: the ends do not agree on IRD (ENOBUFS) or RTR (EOPNOTSUPP); see code."""
    code = int(Code.NONE)


class LongRecord(MpaError):
    """A record is empty or too long."""


class Damaged(MpaError):
    """Receiving has stopped: a record is damaged, or the stream ends inside one.

    code is a Code, position the record's stream position. All earlier records are
    valid. Sending still works, so the peer can be informed.
    """
    code = int(Code.NONE)
    position = 0


_CODES: Dict[int, str] = {
    Code.TCP: "the connection ended inside a record",
    Code.CRC: "a record is damaged: its CRC does not match, or its length is invalid",
    Code.MARKER: "a record is damaged: a marker disagrees with it",
    Code.LOCAL: "octets were read from the socket before MPA was started",
}

_ERRORS: Dict[int, Tuple[Type[MpaError], str]] = {
    errno.ENOENT: (NotLoaded, "the module is not loaded: as root, modprobe mpa"),
    errno.ECONNREFUSED: (Refused, "the peer rejected the request"),
    errno.EPROTO: (NotMpa, "the peer does not speak MPA, or has the same role, or "
                           "speaks another revision"),
    errno.ETIMEDOUT: (Timeout, "the peer did not answer in time"),
    errno.EBUSY: (Busy, "octets from the peer are unread, or another thread is in a call; "
                        "read them first"),
    errno.EUSERS: (TooMany, "too many connections were in startup; try later"),
    errno.ENOBUFS: (Disagreed, "the responder wants more RDMA Reads than ird"),
    errno.EOPNOTSUPP: (Disagreed, "no RTR indication that both ends support"),
    errno.EMSGSIZE: (LongRecord, "a record is empty or too long"),
    errno.EBADMSG: (Damaged, "a record is damaged"),
    errno.ECONNRESET: (Lost, "the peer closed the connection"),
    errno.ECONNABORTED: (Lost, "the connection was shut down during startup"),
    errno.EPIPE: (Lost, "sending has ended, or the connection is gone"),
    errno.ENOTCONN: (Lost, "the connection is gone, or was never established"),
    errno.ENOPROTOOPT: (MpaError, "this socket has no such option: attach it first"),
}


def read_info(sock: socket.socket) -> MpaInfo:
    fields = unpacked(INFO, sock.getsockopt(SOL_MPA, MPA_INFO, OPTION_MAX))
    info = MpaInfo(*fields)
    return dataclasses.replace(info, flags=InfoFlags(info.flags), rtr=Start(info.rtr))


def read_peer(sock: socket.socket) -> Optional[Peer]:
    try:
        octets = sock.getsockopt(SOL_MPA, MPA_PEER, OPTION_MAX)
    except OSError as err:
        if err.errno == errno.ENODATA:
            return None
        raise
    revision, flags, length, ird, depth, control = PEER.unpack_from(octets)
    return Peer(revision, PeerFlags(flags), ird, depth, Start(control),
                octets[PEER.size:PEER.size + length])


def _printable(octets: bytes) -> str:
    """Return octets as text if they are UTF-8, otherwise as hexadecimal digits."""
    with contextlib.suppress(UnicodeDecodeError):
        text = octets.decode()
        if text.isprintable():
            return text
    return octets.hex()


def explained(err: OSError, sock: socket.socket, what: str) -> OSError:
    """Return the exception that describes the error of a call."""
    if isinstance(err, (MpaError, BlockingIOError, InterruptedError)):
        return err
    if isinstance(err, socket.timeout) and err.errno is None:
        return Timeout(errno.ETIMEDOUT,
                       f"{what}: timed out after {sock.gettimeout()} s")
    if err.errno not in _ERRORS:
        return err
    kind, text = _ERRORS[err.errno]
    info, peer = None, None
    with contextlib.suppress(OSError):
        info, peer = read_info(sock), read_peer(sock)
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
