# SPDX-License-Identifier: GPL-2.0
"""What the scripts of this folder share: connections in Full Operation, octets as
RFC 5044 wants them, what sockets say, and TAP."""

import errno
import os
import select
import socket
import struct
import sys
import traceback

from mpa_ends import (FULL, INITIATOR, RESPONDER, SOL_MPA, crc32c,  # noqa: F401
                      fpdu, frame, info, receive, start, wait_for)
from tun import PATIENCE, Tun

MPA_MULPDU, MPA_SEGMENT, MPA_PACKING, MPA_OVERSIZE = 4, 7, 8, 9
MORE, EOR, NOW = socket.MSG_MORE, socket.MSG_EOR, socket.MSG_DONTWAIT
STARTUP, FAILED = 1, 4
ERR_TCP, ERR_CRC, ERR_MARKER, ERR_STARTUP = 1, 2, 3, 4
WANTS_MARKERS, WANTS_CRC = 0x80, 0x40

# ---- connections: sequence numbers begin with the first FPDU ----


def initiator(tun, markers=False, window=None, nodelay=True, **options):
    """The socket is an initiator, whose peer has replied with that window."""
    peer = tun.peer(**options)
    sock = peer.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
    start(sock, INITIATOR)
    peer.expect(frame(False))
    peer.send(frame(True, WANTS_CRC | (WANTS_MARKERS if markers else 0)), window=window)
    return peer, full(peer, sock)


def responder(tun, **options):
    """The socket is a responder that has replied."""
    peer = tun.peer(**options)
    sock = peer.connect()
    start(sock, RESPONDER)
    peer.send(frame(False))
    peer.expect(frame(True))
    return peer, full(peer, sock)


def full(peer, sock):
    wait_for(lambda: info(sock)["state"] == FULL, PATIENCE)
    peer.from_here()
    # Announce the present window, so that the next ACK may be a duplicate.
    peer.ack()
    return sock


# ---- octets ----

def record(length, first=1):
    """A record of that length; @first distinguishes it from others."""
    return bytes((first + i) % 251 for i in range(length))


def marked(*records):
    """Their FPDUs, with markers (sections 4.3 and 4.4)."""
    stream = b""
    for each in records:
        begin = head = len(stream)
        octets = struct.pack(">H", len(each)) + each
        octets += bytes(-len(octets) % 4)
        # Word by word; the last one is the CRC.
        for at in range(0, len(octets) + 4, 4):
            if len(stream) % 512 == 0:
                stream += struct.pack(">HH", 0, len(stream) - head)
                head += 4 if at == 0 else 0
            stream += octets[at:at + 4] or struct.pack("<I", crc32c(stream[begin:]))
    return stream


# ---- sockets ----

def fails(number, call, *args):
    """The call fails with this errno."""
    try:
        seen = call(*args)
    except OSError as err:
        assert err.errno == number, \
            f"expected {errno.errorcode[number]}, seen {errno.errorcode[err.errno]}"
    else:
        raise AssertionError(f"expected {errno.errorcode[number]}, seen {seen!r}")


def readable(sock):
    return bool(select.select([sock], [], [], 0)[0])


def writable(sock, seconds=0):
    return bool(select.select([], [sock], [], seconds)[1])


def equal(wanted, seen):
    assert wanted == seen, f"expected {wanted!r}, seen {seen!r}"


def option(sock, number):
    return sock.getsockopt(SOL_MPA, number)


def state_of(sock):
    return info(sock)["state"], info(sock)["error"]


def cork(sock, on):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, on)


# ---- TAP ----

def run(modules, words):
    """The cases of the modules whose names have one of the words; exit status."""
    tun = Tun()
    cases = [case for module in modules for name, case in vars(module).items()
             if callable(case) and case.__module__ == module.__name__
             and (not words or any(word in name for word in words))]
    failed = 0
    for n, case in enumerate(cases, 1):
        try:
            case(tun)
            print(f"ok {n} {case.__name__}")
        except Exception:
            failed += 1
            print(f"not ok {n} {case.__name__}")
            for line in traceback.format_exc().splitlines():
                print("#", line)
        sys.stdout.flush()
        tun.hang_up()
    print(f"1..{len(cases)}")
    return 1 if failed or not cases else 0
