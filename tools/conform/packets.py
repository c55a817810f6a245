# SPDX-License-Identifier: GPL-2.0
"""IP packets of a TUN device, and one end of a TCP connection there: what its segments look
like, not when they are sent. Users: tcp.py, and selftests/exact."""
import fcntl
import os
import socket
import struct
import subprocess
import time
from typing import NamedTuple, Optional

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
FLAGS = {"F": FIN, "S": SYN, "R": RST}
NOP, MSS, WSCALE, SACK_OK, SACK, TIMESTAMPS = 1, 2, 3, 4, 5, 8
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000


def some(octets, at=0):
    """The first of them from there on, in hexadecimal digits."""
    return octets[at:at + 24].hex(" ", 2) + (" ..." if len(octets) > at + 24 else "")


class Segment(NamedTuple):
    """What a test looks at."""
    seq: int
    flags: int                  # of FIN, SYN and RST
    octets: bytes
    ack: Optional[int] = None   # None: any
    window: int = 0             # as it is in the header
    options: Optional[dict] = None

    def __str__(self):
        names = [name for name, bit in FLAGS.items() if self.flags & bit]
        ack = [] if self.ack is None else [f"ack {self.ack}"]
        words = [f"seq {self.seq}"] + names + ack + [f"{len(self.octets)} octets"]
        return f"{', '.join(words)}: {some(self.octets)}"


def checksum(octets):
    octets += bytes(len(octets) % 2)
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def summed(octets, at, more=b""):
    """With the checksum of both at its place, where zeros are."""
    return octets[:at] + struct.pack(">H", checksum(more + octets)) + octets[at + 2:]


def pseudo(source, to, protocol, octets):
    """IPv6's pseudo header. IPv4's has fewer zeros, and so the same sum."""
    return source + to + struct.pack(">II", len(octets), protocol)


class IPv4:
    """What differs between the versions of IP."""
    family, headers = socket.AF_INET, 40    # with TCP's

    @staticmethod
    def packet(source, to, protocol, octets):
        head = struct.pack(">BxH4xBBxx", 0x45, 20 + len(octets), 64, protocol)
        return summed(head + source + to, 10) + octets

    @staticmethod
    def parsed(packet):
        """protocol, source, to, octets"""
        return packet[9], packet[12:16], packet[16:20], packet[4 * (packet[0] & 15):]

    @staticmethod
    def too_big(source, to, mtu, refused):
        """Unreachable, as fragmentation is needed: RFC 1191"""
        icmp = struct.pack(">BBxxxxH", 3, 4, mtu) + refused
        return IPv4.packet(source, to, socket.IPPROTO_ICMP, summed(icmp, 2))


class IPv6:
    """The same."""
    family, headers = socket.AF_INET6, 60

    @staticmethod
    def packet(source, to, protocol, octets):
        return struct.pack(">BxxxHBB", 0x60, len(octets), protocol, 64) + \
            source + to + octets

    @staticmethod
    def parsed(packet):
        return packet[6], packet[8:24], packet[24:40], packet[40:]

    @staticmethod
    def too_big(source, to, mtu, refused):
        """RFC 8201"""
        kind = socket.IPPROTO_ICMPV6
        icmp = struct.pack(">BxxxI", 2, mtu) + refused
        return IPv6.packet(source, to, kind,
                           summed(icmp, 2, pseudo(source, to, kind, icmp)))


def signed(number):
    """A difference of sequence numbers."""
    return (number + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def options_of(octets):
    """{kind: its octets}"""
    found = {}
    while len(octets) > 1 and octets[0]:
        length = 1 if octets[0] == NOP else max(octets[1], 2)
        found[octets[0]] = octets[2:length]
        octets = octets[length:]
    return found


class WrongChecksum(Exception):
    """Of a segment that came."""


class Device:
    """A TUN device; it vanishes with this process."""

    def __init__(self, name):
        self.fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        made = fcntl.ioctl(self.fd, TUNSETIFF,
                           struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
        self.name = made[:16].rstrip(b"\0").decode()
        self.ip("link", "set", self.name, "up")

    @staticmethod
    def ip(*words):
        done = subprocess.run(("ip",) + words, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def read(self):
        return os.read(self.fd, 65536)

    def write(self, packet):
        os.write(self.fd, packet)


class Connection:
    """This end of a TCP connection. Sequence numbers count from the first octet after the
    SYN in both directions, windows in octets."""

    def __init__(self, device, ip, addresses, ports, mss=1460, window=65535, wscale=None,
                 sack=False, timestamps=False):
        self.device, self.ip, self.window, self.wscale = device, ip, window, wscale
        self.path = tuple(socket.inet_pton(ip.family, each) for each in addresses)
        self.ports = ports      # this end's comes first
        self.offer = struct.pack(">BBH", MSS, 4, mss)
        if wscale is not None:
            self.offer += bytes((NOP, WSCALE, 3, wscale))
        if sack:
            self.offer += bytes((NOP, NOP, SACK_OK, 2))
        self.stamps, self.stamp = timestamps, 0
        # The initial sequence numbers; this end's soon wrap.
        self.mine, self.theirs = 0xFFFFFFF0, 0

    def emit(self, flags, seq, ack, octets=b"", options=b""):
        """A segment, with numbers as they are on the wire."""
        if self.stamps:
            now = time.monotonic_ns() // 1000000 & 0xFFFFFFFF
            options += struct.pack(">BBBBII", NOP, NOP, TIMESTAMPS, 10, now, self.stamp)
        scale = 0 if flags & SYN else self.wscale or 0
        head = struct.pack(">HHIIBBHxxxx", *self.ports, seq & 0xFFFFFFFF,
                           ack & 0xFFFFFFFF, 80 + 4 * len(options), flags,
                           self.window >> scale)
        octets = head + options + octets
        to = *self.path, socket.IPPROTO_TCP
        self.device.write(self.ip.packet(*to, summed(octets, 16, pseudo(*to, octets))))

    def packet_too_big(self, mtu, seq=0):
        """ICMP, for the segment that begins there."""
        head = struct.pack(">HHI", *reversed(self.ports),
                           self.theirs + seq & 0xFFFFFFFF)
        refused = self.ip.packet(*reversed(self.path), socket.IPPROTO_TCP, head)
        self.device.write(self.ip.too_big(*self.path, mtu, refused))

    def parsed(self, packet):
        """A segment of the other end, or None: of another connection."""
        protocol, *path, octets = self.ip.parsed(packet)
        if protocol != socket.IPPROTO_TCP or path != [*reversed(self.path)]:
            return None
        *ports, seq, ack, length, flags, window = struct.unpack(">HHIIBBH", octets[:16])
        if ports != [*reversed(self.ports)]:
            return None
        if checksum(pseudo(*path, protocol, octets) + octets):
            raise WrongChecksum
        length = length >> 4 << 2
        options = options_of(octets[20:length])
        if TIMESTAMPS in options:
            self.stamp = struct.unpack(">I", options[TIMESTAMPS][:4])[0]
        return Segment(signed(seq - self.theirs), flags & (FIN | SYN | RST),
                       octets[length:], signed(ack - self.mine), window, options)
