# SPDX-License-Identifier: GPL-2.0
"""What the specification leaves open: what does this end do? And how long it waits."""
import socket
import struct
import time

import rfc6581
from catalogue import INFO, INITIATOR, RESPONDER, SHOULD, group
from peer import C, FIRST, M, R, Fail, shown

case = group("ask")
SEGMENTS_IN = 152       # data segments received, in struct tcp_info


@case("does it ask for markers", "RFC 5044, 7.1.1 M", level=INFO)
def _(p):
    """Take its startup frame.
    Expected: M is 0 or 1."""
    p.start()
    return "yes: M is 1" if p.frame.flags & M else "no: M is 0"


@case("does it want CRCs", "RFC 5044, 7.1.1 C", level=INFO)
def _(p):
    """Take its startup frame, as a reply to one with C = 0.
    Expected: C is 0 or 1."""
    p.start(flags=0)
    return "yes: C is 1" if p.frame.flags & C else "no: C is 0"


@case("its private data", "RFC 5044, 7.1.4", level=INFO)
def _(p):
    """Take its startup frame.
    Expected: any octets, or none."""
    p.start()
    return shown(p.frame.private) or "none"


@case("its revision", "RFC 5044, 7.1.1 Rev; RFC 6581, 6", INITIATOR, INFO)
def _(p):
    """Take its request.
    Expected: 1 or 2, enhanced or not."""
    frame = p.take_frame()
    return f"{frame.revision}{', enhanced' if rfc6581.asked(frame) else ''}"


@case("largest private data", "RFC 5044, 7.1.1", RESPONDER, INFO)
def _(p):
    """Send requests with more and more private data.
    Expected: 512 octets are accepted."""
    good, wrong = 0, 513
    while wrong - good > 1:
        size = (good + wrong) // 2
        p.request(private=bytes(size))
        if p.wait(20, p.options.timeout) and not p.take_frame().flags & R:
            good = size
        else:
            wrong = size
        p = p.again()
    return f"{good} octets"


@case("does it pack FPDUs", "RFC 5044, 5.1", level=INFO)
def _(p):
    """Send 50 FPDUs of 20 octets at once, and count the segments that come.
    Expected: one or more FPDUs in a segment."""
    p.start()
    ulpdus = [p.octets(20) for _ in range(50)]
    before = segments(p)
    p.send(b"".join(p.fpdu(ulpdu) for ulpdu in ulpdus))
    p.comes_back(*ulpdus)
    return f"50 FPDUs in {segments(p) - before} segments"


def segments(p):
    info = p.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("=I", info, SEGMENTS_IN)[0] \
        if len(info) >= SEGMENTS_IN + 4 else 0


@case("ten connections at once", "none", RESPONDER, INFO)
def _(p):
    """Start ten connections, and send a ULPDU on each then.
    Expected: all come back, or some ends wait for others to close."""
    peers = [p] + [p.again() for _ in range(9)]
    for count, each in enumerate(peers):
        try:
            each.start().echo(FIRST)
        except Fail as why:
            return f"{count}; then {why}"
    return "ten"


case = group("time")


def patience(p, what):
    """How long it waits."""
    began = time.monotonic()
    p.wait(1, p.options.patience)
    if len(p.got) > p.at:
        raise Fail(f"{what}, and it sent {shown(p.got[p.at:])}")
    if not p.end:
        raise Fail(f"{what}: it still waits after {p.options.patience:g} s")
    return f"{time.monotonic() - began:.1f} s"


@case("silence instead of a startup frame", "RFC 5044, 7.1.2 rules 8 and 10", level=SHOULD)
def _(p):
    """Send nothing.
    Expected: the connection is closed after a while."""
    if p.role == INITIATOR:
        p.take_frame()
    return patience(p, "nothing was sent")


@case("a part of a startup frame", "RFC 5044, 7.1.2 rule 10", level=SHOULD)
def _(p):
    """Send twelve octets of a startup frame, and nothing more.
    Expected: the connection is closed after a while."""
    if p.role == INITIATOR:
        p.take_frame()
    p.send(p.held(p.request if p.role == RESPONDER else p.reply)[:12])
    return patience(p, "twelve octets were sent")
