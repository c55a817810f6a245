# SPDX-License-Identifier: GPL-2.0
"""A case's connections as a capture. Any user can make it, as it is made of what the sockets
of mpa conform have sent and received; with --segments it has the real packets."""
import socket
import struct
import time

import synth
from packets import IPv4, IPv6

MADE_UP = (
    "No network interface was captured. Octets, their order, times, addresses and ports are those "
    "of the TCP sockets of mpa conform: a packet is what one call has sent or received. Made up "
    "are MAC addresses, the handshake, sequence and acknowledgment numbers, and where segments "
    "begin. Checksums are zero. What the kernel sent after the case is not in it.")
LARGEST = 65000     # octets of a packet, as IP has room for
RST, FIN, ACK = 4, synth.FIN, synth.ACK
SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
ETHERNET, RAW = 1, 101
COMMENT, APPLICATION = 1, 4


def block(kind, body, *options):
    """A block of draft-ietf-opsawg-pcapng; options: (code, text)"""
    body += bytes(-len(body) % 4)
    for code, text in options:
        octets = text.encode()
        body += struct.pack("<HH", code, len(octets)) + octets + bytes(-len(octets) % 4)
    body += bytes(4) if options else b""
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


class Capture:
    """What synth.Connection needs of synth.Pcap. comment: of the next packet."""

    def __init__(self, comment, link=ETHERNET):
        self.out = [block(SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1),
                          (COMMENT, comment), (APPLICATION, "mpa conform")),
                    block(INTERFACE, struct.pack("<HHI", link, 0, 0))]
        self.when, self.comment = 0, None

    def frame(self, octets):
        when = int(self.when * 1e6)
        head = struct.pack("<IIIII", 0, when >> 32, when & 0xFFFFFFFF, len(octets), len(octets))
        options = [(COMMENT, self.comment)] if self.comment else []
        self.out.append(block(PACKET, head + octets, *options))
        self.comment = None


def address(sock, name):
    return socket.inet_pton(sock.family, name[0].partition("%")[0])


class Conversation:
    """A connection in the capture."""

    def __init__(self, capture, each, comment):
        capture.comment = comment
        ends = each.names if each.calls else each.names[::-1]
        self.ours = 0 if each.calls else 1
        # No two connections of a run have the same numbers, if ports are used again.
        isn = int(capture.when * 1e6) % 2**32
        self.tcp = synth.Connection(
            capture, ports=[name[1] for name in ends], isn=(isn, isn ^ 1 << 31),
            addresses=[address(each.sock, name) for name in ends])

    def add(self, who, what):
        end = self.ours if who == "sent" else 1 - self.ours
        if isinstance(what, bytes):
            for at in range(0, len(what), LARGEST):
                self.tcp.segment(end, what[at:at + LARGEST])
        elif what in ("FIN", "RST", "reset"):
            self.tcp.segment(end, b"", ACK | (FIN if what == "FIN" else RST))


def ends_of(packet):
    """Both ends of a TCP segment, or None."""
    protocol, *ends, octets = (IPv6 if packet[0] >> 4 == 6 else IPv4).parsed(packet)
    return frozenset((each, octets[at:at + 2]) for each, at in zip(ends, (0, 2))) \
        if protocol == socket.IPPROTO_TCP else None


def write_real(path, packets, capture, title):
    """Those of the TUN device of --segments."""
    met = set()
    for capture.when, packet in packets:
        ends = ends_of(packet)
        if ends and ends not in met:
            met.add(ends)
            capture.comment = title
        capture.frame(packet)
    with open(path, "wb") as file:
        file.write(b"".join(capture.out))


def write(path, result):
    """A file with the connections of a case."""
    case = result.case
    title = f"mpa conform: {case.name} {result.status.upper()}: {case.title}"
    text = f"{title}\n{case.reference} ({case.level})\n{case.procedure}\n" \
        f"Expected: {case.expected}\nSeen: {result.seen}"
    if result.packets is not None:
        write_real(path, result.packets, Capture(text, RAW), title)
        return
    capture = Capture(f"{text}\n\n{MADE_UP}")
    to_date = time.time() - time.monotonic()
    events = sorted(((when, each, who, what) for each in result.peers
                     for when, who, what in [(each.began, None, None), *each.log]),
                    key=lambda event: event[0])
    conversations = {}
    for when, each, who, what in events:
        capture.when = to_date + when
        if not who:
            conversations[each] = Conversation(capture, each, title)
        else:
            conversations[each].add(who, what)
    with open(path, "wb") as file:
        file.write(b"".join(capture.out))
