# SPDX-License-Identifier: GPL-2.0
"""Sockets with MPA for tests in Python: a connection with MPA at both ends, or with a
TCP socket as the peer, to which the test writes the octets."""

import os
import select
import socket
import struct
import time

TCP_ULP = 31
SO_COOKIE = 57
SOL_MPA = 289
MPA_START, MPA_INFO, MPA_ACCEPT, MPA_REJECT = 1, 2, 5, 6
INITIATOR, RESPONDER = 1, 2
MARKERS, MANUAL = 1 << 0, 1 << 2
FULL = 2

START = struct.Struct("=BBHIHHI16x")
# struct mpa_info, with the netlink specification's names; "rtr" has none.
INFO = struct.Struct("=BBBBIIIHHI11Q")
INFO_NAMES = """state role revision error flags emss mulpdu ird ord rtr tx-ulpdus
    tx-octets tx-markers rx-ulpdus rx-octets rx-markers tx-packets tx-segs-aligned
    tx-segs-unaligned rx-placed rx-edge""".split()


def wait_for(condition, seconds=30):
    """Call it until its result is true; return the result."""
    until = time.monotonic() + seconds
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > until:
            raise AssertionError(f"not seen in {seconds} s: {condition}")
        time.sleep(0.01)


def tcp_pair(family=socket.AF_INET):
    """Open a TCP connection over the loopback device; return both ends."""
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.socket(family) as listener:
        listener.bind((host, 0))
        listener.listen()
        client = socket.create_connection(listener.getsockname()[:2])
        server = listener.accept()[0]
    for sock in client, server:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client, server


def attach(sock):
    sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"mpa")


def start(sock, role, flags=0, timeout_ms=0):
    """Start in the startup phase, and set the socket to nonblocking."""
    attach(sock)
    sock.setblocking(False)
    try:
        sock.setsockopt(SOL_MPA, MPA_START,
                        START.pack(role, 1, 0, flags, 0, 0, timeout_ms))
    except BlockingIOError:  # EINPROGRESS
        pass


def pair(family=socket.AF_INET, initiator=0, responder=0):
    """Return two ends in Full Operation, started with these flags."""
    ends = tcp_pair(family)
    start(ends[0], INITIATOR, initiator)
    start(ends[1], RESPONDER, responder)
    for end in ends:
        wait_for(lambda: info(end)["state"] == FULL)
    return ends


def info(sock):
    """Return MPA_INFO as a dictionary."""
    return dict(zip(INFO_NAMES,
                    INFO.unpack(sock.getsockopt(SOL_MPA, MPA_INFO, INFO.size))))


def cookie(sock):
    return struct.unpack("=Q", sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))[0]


def inode(sock):
    return os.fstat(sock.fileno()).st_ino


def receive(sock, seconds=30):
    """Receive a record; b"" at the end of the stream."""
    if not select.select([sock], [], [], seconds)[0]:
        raise AssertionError(f"expected a record, none in {seconds} s")
    return sock.recv(65536)


def transfer(sender, receiver, *lengths):
    """Send records to the other end, and wait for each before the next."""
    for n in lengths:
        record = bytes(i * n % 251 for i in range(n))
        assert sender.send(record) == n
        assert receive(receiver) == record


# ---- the simulated peer ----


def _crc_of(octet):
    for _ in range(8):
        octet = octet >> 1 ^ (0x82F63B78 if octet & 1 else 0)
    return octet


CRC_OF = [_crc_of(octet) for octet in range(256)]


def crc32c(octets):
    crc = 0xFFFFFFFF
    for octet in octets:
        crc = crc >> 8 ^ CRC_OF[(crc ^ octet) & 0xFF]
    return crc ^ 0xFFFFFFFF


def frame(reply, flags=0x40):
    """Return a startup frame without private data; 0x40: CRCs, 0x20: rejected."""
    key = b"MPA ID Rep Frame" if reply else b"MPA ID Req Frame"
    return key + struct.pack(">BBH", flags, 1, 0)


def fpdu_length(ulpdu):
    """Return the length of an FPDU without markers."""
    return (2 + ulpdu + 3 & ~3) + 4


def fpdu(record, good=True):
    octets = struct.pack(">H", len(record)) + record
    octets += bytes(-len(octets) % 4)
    return octets + struct.pack("<I", crc32c(octets) ^ (not good))


def take(sock, n):
    """Read this number of octets from a TCP socket."""
    octets = b""
    while len(octets) < n:
        more = receive(sock)
        assert more, f"expected {n} octets, seen {len(octets)} and the end"
        octets += more
    return octets


def by_hand(flags=0, timeout_ms=0):
    """Return a responder in Full Operation, and its peer, a TCP socket."""
    peer, responder = tcp_pair()
    peer.sendall(frame(False))
    start(responder, RESPONDER, flags, timeout_ms)
    take(peer, 20)
    wait_for(lambda: info(responder)["state"] == FULL)
    return peer, responder
