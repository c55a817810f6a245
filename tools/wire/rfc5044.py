# SPDX-License-Identifier: GPL-2.0
"""A parser of MPA (RFC 5044) for one direction's octets. It shares no code with the
kernel module, so that each checks the other."""
import struct

import crc32c

REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
M, C, R = 0x80, 0x40, 0x20
RESERVED = 0x1F
INTERVAL = 512
PRIVATE_MAX = 512
ULPDU_MAX = 64768


class Startup:
    """A Request or Reply Frame (section 7.1.1), at an offset of a stream."""

    def __init__(self, stream, at):
        self.at = at
        self.kind = "Request" if stream[at:at + 16] == REQUEST else "Reply"
        self.flags, self.revision, self.private_len = \
            struct.unpack_from(">BBH", stream, at + 16)
        self.private = stream[at + 20:at + 20 + self.private_len]
        self.end = at + 20 + self.private_len
        self.octets = stream[at:self.end]
        self.whole = len(self.private) == self.private_len

    def problems(self):
        found = []
        # RFC 6581 defines the first of the reserved bits (S).
        reserved = RESERVED if self.revision < 2 else RESERVED >> 1
        if self.flags & reserved:
            found.append(f"reserved bits 0x{self.flags & reserved:02x} set")
        if self.kind == "Request" and self.flags & R:
            found.append("R set in a Request Frame")
        if self.private_len > PRIVATE_MAX:
            found.append(f"PD_Length {self.private_len} is over 512")
        if self.revision > 2:
            found.append(f"Rev {self.revision} is none that exists")
        if not self.whole:
            found.append("its private data is cut short")
        return [f"{self.kind} Frame: {text} (RFC 5044 section 7.1.1)" for text in found]


def find_startup(stream, key):
    """Return the startup frame with this key, or None."""
    at = stream.find(key)
    return Startup(stream, at) if at >= 0 and at + 20 <= len(stream) else None


class Fpdu:
    """An FPDU's place in a stream, and its errors."""
    __slots__ = ("at", "pos", "head", "ulpdu_len", "len", "markers", "pad",
                 "wrong_markers", "wrong_pad", "crc_good")


def lay_out(pos, head, ulpdu_len, marked):
    """Return (length, offsets of markers, offset of each pad octet) of an FPDU."""
    markers, pads = [], []
    left = 2 + ulpdu_len
    pad = -left % 4
    off = 0
    for kind, left in ((0, left), (1, pad), (2, 4)):
        while left:
            if marked and (pos + off) % INTERVAL == 0:
                markers.append(off)
                off += 4
            take = left
            if marked:
                take = min(left, INTERVAL - (pos + off) % INTERVAL)
            if kind == 1:
                pads.extend(range(off, off + take))
            off += take
            left -= take
    assert head == (4 if markers[:1] == [0] else 0)
    return off, markers, pads


def verify(fpdu, stream):
    """Check markers, pad and CRC of an FPDU."""
    at = fpdu.at
    fpdu.wrong_markers = []
    for off in fpdu.markers:
        reserved, ptr = struct.unpack_from(">HH", stream, at + off)
        want = 0 if off < fpdu.head else off - fpdu.head
        if reserved or ptr != want:
            fpdu.wrong_markers.append((off, reserved, ptr, want))
    fpdu.wrong_pad = any(stream[at + off] for off in fpdu.pad)
    end = at + fpdu.len
    fpdu.crc_good = struct.pack("<I", crc32c.crc32c(
        stream[at:end - 4])) == stream[end - 4:end]


def fpdus(stream, start, marked, empty):
    """Yield the FPDUs of a stream whose SeqStart is at offset start. Return (octets
    left over, reason). empty: the first ULPDU may be empty."""
    at = start
    size = len(stream)
    while at < size:
        pos = at - start
        fpdu = Fpdu()
        fpdu.at, fpdu.pos = at, pos
        fpdu.head = 4 if marked and pos % INTERVAL == 0 else 0
        if at + fpdu.head + 2 > size:
            return size - at, "an FPDU is cut off inside its header"
        fpdu.ulpdu_len = int.from_bytes(
            stream[at + fpdu.head:at + fpdu.head + 2], "big")
        if fpdu.ulpdu_len > ULPDU_MAX or not (
                fpdu.ulpdu_len or empty and not pos):
            return size - at, f"ULPDU_Length {fpdu.ulpdu_len} cannot be"
        fpdu.len, fpdu.markers, fpdu.pad = \
            lay_out(pos, fpdu.head, fpdu.ulpdu_len, marked)
        if at + fpdu.len > size:
            return size - at, (f"an FPDU is cut off: {size - at} of "
                               f"{fpdu.len} octets are there")
        verify(fpdu, stream)
        yield fpdu
        at += fpdu.len
    return 0, ""
