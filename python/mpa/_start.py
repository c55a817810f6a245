# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Startup on your own sockets."""
from __future__ import annotations

import errno
import os
import select
import socket
from typing import Any, Dict, Optional

from ._abi import (DEPTH_BY_USER, ENHANCED_PRIVATE_MAX, INITIATOR, MPA_START,
                   PRIVATE_DATA_MAX, RESPONDER, SOL_MPA, START, TCP_ULP, U32_MAX, Octets,
                   Start)
from ._errors import MpaError, Timeout, explained


def attach(sock: socket.socket, ulp: bytes = b"mpa") -> None:
    """Attach MPA to a socket, connected or not, but before listen().

    Until start() it remains a plain TCP socket.
    """
    try:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, ulp)
    except OSError as err:
        raise explained(err, sock, f"attaching {ulp.decode()}") from None


def check(good: bool, text: str) -> None:
    """Check an argument."""
    if not good:
        raise MpaError(errno.EINVAL, text)


def private_octets(private: Octets, most: int = PRIVATE_DATA_MAX) -> bytes:
    octets = bytes(memoryview(private))
    check(len(octets) <= most, f"private: at most {PRIVATE_DATA_MAX} octets "
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
    check(revision in (0, 1, 2), f"revision: 0, 1 or 2, not {revision}")
    for name, depth in ("ird", ird), ("ord", ord):
        check(0 <= depth <= DEPTH_BY_USER,
               f"{name}: 0 to {DEPTH_BY_USER}, not {depth}")
    check(revision == 2 or not (p2p or ird or ord), "ird, ord and p2p need revision=2")
    enhanced = flags & Start.ENHANCED or (role == RESPONDER and revision == 2)
    private = private_octets(private, ENHANCED_PRIVATE_MAX if enhanced else PRIVATE_DATA_MAX)
    millis = 0 if timeout is None else min(max(1, int(timeout * 1000)), U32_MAX)
    return START.pack(role, revision, len(private), flags, ird, ord, millis) + private


def start_request(role: int, private: bytes, options: Dict[str, Any]) -> bytes:
    """Return the argument of MPA_START. Raises an error for invalid options."""
    known = _pack_start.__kwdefaults__
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name}; those of startup are "
                            + ", ".join(known))
    return _pack_start(role, private, **options)


def is_manual(options: Dict[str, Any]) -> bool:
    """Whether the options of start() let the program accept or reject."""
    return bool(options.get("manual") or options.get("flags", 0) & Start.MANUAL)


def start_nowait(sock: socket.socket, role: int = INITIATOR, private: bytes = b"",
                 **options: Any) -> bool:
    """Begin startup, with the options of start(); return whether it is complete.

    If not, poll for POLLOUT (with manual also for POLLIN), then call finish(sock).
    """
    request = start_request(role, private, options)
    # A blocking MPA_START keeps the interpreter's lock until the peer answers.
    waits = sock.gettimeout()
    sock.setblocking(False)
    try:
        sock.setsockopt(SOL_MPA, MPA_START, request)
    except BlockingIOError:     # EINPROGRESS
        return False
    except OSError as err:
        if err.errno == errno.EINVAL:
            raise MpaError(err.errno, "MPA_START: role, p2p or flags cannot be combined; "
                           "DIRECT has neither private nor timeout") from None
        raise explained(err, sock, "MPA_START") from None
    finally:
        sock.settimeout(waits)
    return True


def finish(sock: socket.socket) -> None:
    """Raise the error of startup, if it failed."""
    err = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if err:
        raise explained(OSError(err, os.strerror(err)), sock, "startup")


def start(sock: socket.socket, role: int = INITIATOR, private: bytes = b"",
          **options: Any) -> None:
    """Start MPA on an attached socket.

    An INITIATOR waits for the peer's reply, up to the socket's timeout; other threads
    run meanwhile. A RESPONDER returns at once: the first recv() waits for the request.
    With DIRECT there is no startup.

    private: up to 512 octets for the peer, which gets them with peer(); 508 with
        revision 2.
    markers: request markers from the peer, which "place" needs.
    crc: False: no CRCs, if the peer and both administrators agree.
    revision: 1 (RFC 5044), 2 (RFC 6581), 0 (RDMA Consortium).
    ird, ord: revision 2: depths of RDMA Reads to negotiate.
    p2p: revision 2: the Start.RTR_... indications to offer; either end may then send
        first.
    manual: the program calls accept_request() or reject_request().
    permissive: accept revision 0.
    flags: further flags of Start.
    timeout: seconds for startup; None: the administrator's setting.
    """
    if start_nowait(sock, role, private, **options):
        return
    waits = sock.gettimeout()
    if waits == 0:
        raise BlockingIOError(errno.EINPROGRESS, "startup continues: poll for POLLOUT, "
                              "then finish()")
    events = select.POLLOUT | (select.POLLIN if is_manual(options) else 0)
    wait(sock, events, waits, "startup")
    finish(sock)


def wait(sock: socket.socket, events: int, timeout: Optional[float], what: str) -> None:
    poll = select.poll()
    poll.register(sock, events)
    if not poll.poll(None if timeout is None else timeout * 1000):
        raise Timeout(errno.ETIMEDOUT, f"{what}: timed out after {timeout} s")
