# SPDX-License-Identifier: GPL-2.0
"""Synthetic captures of MPA connections, written from RFC 5044.

It shares no code with the judge, so that each shows errors of the other.
"""
import struct

REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
M, C, R, S = 0x80, 0x40, 0x20, 0x10
FIN, SYN, PSH, ACK = 1, 2, 8, 16


def _table():
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        yield n


TABLE = list(_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for octet in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ octet) & 255]
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def startup(key, flags, private=b"", revision=1, pd_length=None):
    if pd_length is None:
        pd_length = len(private)
    return key + struct.pack(">BBH", flags, revision, pd_length) + private


class Sender:
    """A sender in Full Operation: it turns ULPDUs into FPDUs."""

    def __init__(self, markers):
        self.markers = markers
        self.pos = 0        # octets since SeqStart

    def fpdu(self, ulpdu, wrong=()):
        """Return an FPDU. wrong: faults that the judge must find."""
        pad = -(2 + len(ulpdu)) % 4
        todo = struct.pack(">H", len(ulpdu)) + ulpdu
        todo += (b"\1" if "pad" in wrong else b"\0") * pad
        out = bytearray()
        header = None
        every = 512
        for octet in range(0, len(todo) + 4, 4):
            at = self.pos + len(out)
            if "marker place" in wrong:
                at -= 4
            if self.markers and at % every == 0:
                if header is None:
                    ptr = 0
                else:
                    ptr = len(out) - header
                if "marker" in wrong:
                    ptr += 4
                if "no marker" not in wrong:
                    out += struct.pack(">HH", 0, ptr)
            if header is None:
                header = len(out)
            if octet < len(todo):
                out += todo[octet:octet + 4]
        crc = crc32c(out)
        if "crc" in wrong:
            crc = bytes([crc[0] ^ 1]) + crc[1:]
        out += crc
        self.pos += len(out)
        return bytes(out)


class Pcap:
    """A classic pcap file of Ethernet frames, collected in memory."""

    def __init__(self):
        self.snaplen = 1 << 18
        self.out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1)]
        self.frames = 0

    def frame(self, octets):
        n = self.frames
        self.frames += 1
        kept = octets[:self.snaplen]
        self.out.append(struct.pack("<IIII", 1700000000 + n // 1000,
                                    n % 1000 * 1000, len(kept), len(octets)))
        self.out.append(kept)

    def write(self, path):
        with open(path, "wb") as file:
            file.write(b"".join(self.out))


class Connection:
    """A TCP connection in a Pcap, between end 0, which calls, and end 1, which answers."""

    def __init__(self, pcap, ports=(40000, 4242), ipv6=False, isn=(1000, 5000),
                 mss=1448, syn=True, addresses=None):
        self.pcap, self.ports, self.mss = pcap, ports, mss
        self.addresses = addresses or [
            bytes.fromhex("fd00") + bytes(13) + bytes([n]) if ipv6 else bytes([10, 0, 0, n])
            for n in (1, 2)]
        self.seq = list(isn)
        if syn:
            self.segment(0, b"", SYN)
            self.segment(1, b"", SYN | ACK)
            self.segment(0, b"")

    def segment(self, end, payload, flags=ACK, seq=None):
        """Add a segment. seq: of a retransmission, or of a segment out of order."""
        new = seq is None
        if new:
            seq = self.seq[end]
        ack = self.seq[1 - end] if flags & ACK else 0
        tcp = struct.pack(">HHIIBBHHH", self.ports[end], self.ports[1 - end],
                          seq % 2**32, ack % 2**32, 5 << 4,
                          flags | (PSH if payload else 0), 65535, 0, 0)
        tcp += payload
        pair = self.addresses[end] + self.addresses[1 - end]
        if len(pair) == 32:
            ip = struct.pack(">IHBB", 6 << 28, len(tcp), 6, 64) + pair
            kind = 0x86DD
        else:
            ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + pair
            kind = 0x0800
        macs = bytes([2, 0, 0, 0, 0, 2 - end, 2, 0, 0, 0, 0, 1 + end])
        frame = macs + struct.pack(">H", kind) + ip + tcp
        self.pcap.frame(frame.ljust(60, b"\0"))
        if new:
            self.seq[end] += len(payload) + bool(flags & (SYN | FIN))
        return seq

    def send(self, end, octets, size=None):
        """Send octets in segments of size octets (None: the MSS)."""
        size = size or self.mss
        for at in range(0, len(octets), size):
            self.segment(end, octets[at:at + size])
            self.segment(1 - end, b"")

    def start(self, request=M | C, reply=M | C, private=b"", answer=b"",
              revision=1):
        """Exchange startup frames; return both Senders."""
        self.send(0, startup(REQUEST, request, private, revision))
        self.send(1, startup(REPLY, reply, answer, revision))
        return Sender(bool(reply & M)), Sender(bool(request & M))

    def close(self):
        self.segment(0, b"", FIN | ACK)
        self.segment(1, b"", FIN | ACK)
        self.segment(0, b"")
