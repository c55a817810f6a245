# SPDX-License-Identifier: GPL-2.0
"""Read TCP streams from captures: packets, connections, reassembly."""
import math
import struct
import subprocess
import tempfile

FIN, SYN, RST, ACK = 1, 2, 4, 16

# Octets of the link header before the EtherType, by pcap's link type. None: IP follows
# without an EtherType.
LINKS = {1: 12, 113: 14, 276: 0, 12: None, 14: None, 101: None,
         228: None, 229: None}
LINK_LEN = {1: 14, 113: 16, 276: 20, 12: 0, 14: 0, 101: 0, 228: 0, 229: 0}
VLAN = (0x8100, 0x88A8, 0x9100)


class CaptureError(Exception):
    """The file cannot be read; the text suggests a remedy."""


def _packets(path):
    """Yield (link type, captured octets, cut short) for each packet."""
    try:
        with open(path, "rb") as file:
            head = file.read(4)
            if head == b"\x0a\x0d\x0d\x0a":
                with tempfile.NamedTemporaryFile(suffix=".pcap") as plain:
                    subprocess.run(["editcap", "-F", "pcap", path, plain.name],
                                   check=True, stdout=subprocess.DEVNULL)
                    yield from _packets(plain.name)
                return
            data = head + file.read()
    except FileNotFoundError:
        raise CaptureError(f"{path}: there is no such file") from None
    except PermissionError:
        raise CaptureError(f"{path}: may not be read; "
                           f"sudo chmod a+r {path}") from None
    except IsADirectoryError:
        raise CaptureError(f"{path}: is a directory; "
                           "name a capture in it") from None
    except subprocess.CalledProcessError:
        raise CaptureError(f"{path}: editcap cannot read it") from None
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">",
             b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\x3c\x4d": ">"}.get(head)
    if order is None or len(data) < 24:
        raise CaptureError(f"{path}: not a capture; "
                           "make one with tcpdump -s 0 -w FILE")
    link = struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF
    if link not in LINKS:
        raise CaptureError(f"{path}: link type {link} is not known here; "
                           "capture on an Ethernet interface or on any")
    at = 24
    header = struct.Struct(order + "IIII")
    while at + 16 <= len(data):
        _, _, caplen, wirelen = header.unpack_from(data, at)
        at += 16
        packet = data[at:at + caplen]
        yield link, packet, len(packet) < wirelen
        at += caplen


class Segment:
    """A TCP segment as captured."""
    __slots__ = ("number", "src", "dst", "seq", "flags", "payload", "cut",
                 "off")

    def __init__(self, number, src, dst, seq, flags, payload, cut):
        self.number, self.src, self.dst = number, src, dst
        self.seq, self.flags, self.payload = seq, flags, payload
        self.cut = cut      # octets that the capture lacks
        self.off = None     # position in the stream, once known


def _segment(number, link, packet, cut):
    """Return the TCP segment in a packet, or None."""
    at = LINK_LEN[link]
    if LINKS[link] is not None:
        kind = int.from_bytes(packet[LINKS[link]:LINKS[link] + 2], "big")
        while kind in VLAN and link == 1:
            kind = int.from_bytes(packet[at + 2:at + 4], "big")
            at += 4
        if kind not in (0x0800, 0x86DD):
            return None
    if len(packet) < at + 20:
        return None
    version = packet[at] >> 4
    if version == 4:
        head = (packet[at] & 15) * 4
        total = int.from_bytes(packet[at + 2:at + 4], "big")
        fragment = int.from_bytes(packet[at + 6:at + 8], "big") & 0x3FFF
        if packet[at + 9] != 6:
            return None
        if fragment:
            raise CaptureError(f"packet {number} is an IP fragment; the judge "
                               "does not put those together: capture where "
                               "TCP's segments fit the MTU")
        src, dst = packet[at + 12:at + 16], packet[at + 16:at + 20]
        start = at + head
        end = at + total
    elif version == 6:
        if len(packet) < at + 40:
            return None
        total = int.from_bytes(packet[at + 4:at + 6], "big")
        src, dst = packet[at + 8:at + 24], packet[at + 24:at + 40]
        proto = packet[at + 6]
        start = at + 40
        while proto in (0, 43, 60) and len(packet) > start + 8:
            proto, size = packet[start], packet[start + 1]
            start += 8 + 8 * size
        if proto != 6:
            return None
        end = at + 40 + total
    else:
        return None
    # Packets of more than 64 KiB have a length of 0, or a jumbo option.
    if total == 0:
        end = len(packet)
    if len(packet) < start + 20:
        return None
    sport, dport, seq = struct.unpack_from(">HHI", packet, start)
    payload = packet[start + (packet[start + 12] >> 4) * 4:end]
    missing = max(0, end - len(packet)) if cut else 0
    return Segment(number, (bytes(src), sport), (bytes(dst), dport), seq,
                   packet[start + 13], payload, missing)


class Half:
    """One direction of a TCP connection."""

    def __init__(self, src, dst):
        self.src, self.dst = src, dst
        self.segments = []
        self.isn = None
        self.stream = b""       # contiguous octets from the first one on
        self.holes = 0          # octets missing inside the captured range
        self.behind = 0         # octets captured after the first hole
        self.again = 0          # octets seen more than once
        self.problems = []

    def first_behind(self, end):
        """Return the number of the first packet that has the octet before end."""
        return min((s.number for s in self.segments if s.off is not None
                    and s.off + len(s.payload) >= end), default=math.inf)

    def reassemble(self):
        data = [s for s in self.segments if s.payload]
        if not data:
            return
        base = data[0].seq if self.isn is None else (self.isn + 1) % 2**32
        edge = 0
        for segment in data:
            # Sequence numbers wrap: use the value nearest to the edge.
            delta = (segment.seq + bool(segment.flags & SYN) - base - edge) \
                % 2**32
            if delta >= 2**31:
                delta -= 2**32
            segment.off = edge + delta
            edge = max(edge, segment.off + len(segment.payload))
        first = min(s.off for s in data)
        if self.isn is None and first < 0:
            for segment in data:
                segment.off -= first
        out = bytearray()
        end = 0         # end of the octets captured, across holes
        for segment in sorted(data, key=lambda s: s.off):
            off, payload = segment.off, segment.payload
            stop = off + len(payload)
            if off > end:
                self.holes += off - end
            if self.holes:
                self.behind += max(0, stop - max(end, off))
            elif off < len(out):
                known = bytes(out[max(off, 0):stop])
                self.again += len(known)
                if off >= 0 and payload[:len(known)] != known:
                    self.problems.append(
                        f"packet {segment.number} repeats octets of the "
                        "stream with other contents")
                out += payload[len(out) - off:]
            else:
                out += payload
            end = max(end, stop)
        self.holes += max(0, max(s.off + len(s.payload) + s.cut
                                 for s in data) - end)
        self.stream = bytes(out)
        if self.holes:
            self.problems.append(
                f"{self.holes} octets are missing after stream octet "
                f"{len(out)}: capture again with tcpdump -s 0 -B 65536")


class Connection:
    """A connection: both directions, in the order of their first packets."""

    def __init__(self, segment):
        self.halves = (Half(segment.src, segment.dst),
                       Half(segment.dst, segment.src))

    def half(self, segment):
        return self.halves[segment.src != self.halves[0].src]

    def add(self, segment):
        half = self.half(segment)
        if segment.flags & SYN and half.isn is None:
            half.isn = segment.seq
        half.segments.append(segment)


def read(path):
    """Return the TCP connections in a capture, in the order in which they begin."""
    connections, current = [], {}
    for number, (link, packet, cut) in enumerate(_packets(path), 1):
        segment = _segment(number, link, packet, cut)
        if segment is None:
            continue
        key = frozenset((segment.src, segment.dst))
        connection = current.get(key)
        if connection and segment.flags & SYN and \
                connection.half(segment).isn not in (None, segment.seq):
            connection = None       # the addresses are reused
        if connection is None:
            connection = current[key] = Connection(segment)
            connections.append(connection)
        connection.add(segment)
    for connection in connections:
        for half in connection.halves:
            half.reassemble()
    return connections


def name(endpoint):
    """Return ADDRESS:PORT for output."""
    addr, port = endpoint
    if len(addr) == 4:
        return ".".join(map(str, addr)) + f":{port}"
    words = [addr[n:n + 2].hex().lstrip("0") or "0" for n in range(0, 16, 2)]
    text = ":".join(words)
    for run in range(8, 1, -1):
        zeros = ":".join(["0"] * run)
        if f":{zeros}:" in f":{text}:":
            left, right = f":{text}:".split(f":{zeros}:", 1)
            text = left.strip(":") + "::" + right.strip(":")
            break
    return f"[{text}]:{port}"
