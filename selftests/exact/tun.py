# SPDX-License-Identifier: GPL-2.0
"""A TCP that does what a test says, and nothing by itself: the other end of a TUN
device, for connections of this machine's own TCP. It answers no segment, and it
acknowledges nothing but what send() and ack() say.

Sequence numbers count from 0 in both directions: the first octet after the SYN, or
from_here(). Windows are in octets.

What is expected is the next segment. Passed over are those without octets and flags
(ACKs, window updates, keepalives) and those that repeat one that was seen, octet for
octet; one that repeats it otherwise is not. The sender's timers are silent for
RTO_MIN seconds, unless a peer is made with rto=...; loss is shown by ACKs."""

import fcntl
import os
import select
import socket
import struct
import subprocess
import time
from typing import NamedTuple, Optional

RTO_MIN = 60
PATIENCE = 30               # seconds; an emulated processor is slow
FIN, SYN, RST, ACK = 1, 2, 4, 16
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
    family, here, net, all = socket.AF_INET, "10.9.0.1", "10.9.0.", "10.9.0.0/24"

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
    family, here, net, all = socket.AF_INET6, "fd05:9::1", "fd05:9::", "fd05:9::/64"

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
    while octets and octets[0]:
        length = 1 if octets[0] == NOP else octets[1]
        found[octets[0]] = octets[2:length]
        octets = octets[length:]
    return found


class Tun:
    """The device, and the peer at its other end."""

    def __init__(self):
        self.fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(self.fd, TUNSETIFF,
                    struct.pack("16sH22x", b"exact", IFF_TUN | IFF_NO_PI))
        self.ip("link", "set", "exact", "up")
        for version in IPv4, IPv6:
            self.ip("address", "add", version.here, "dev", "exact")
            self.route(version.all, RTO_MIN)
        # Without tail loss probes; metrics of a path are not kept.
        for name, value in ("tcp_early_retrans", "0"), ("tcp_no_metrics_save", "1"):
            with open("/proc/sys/net/ipv4/" + name, "w", encoding="ascii") as file:
                file.write(value)
        self.number, self.peers = 1, []

    @staticmethod
    def ip(*words):
        subprocess.run(("ip",) + words, check=True)

    def route(self, to, seconds):
        self.ip("route", "add", to, "dev", "exact", "rto_min", f"{seconds}s")

    def peer(self, **options):
        """With an address of its own, as the kernel keeps a path's MTU by that."""
        self.number += 1
        self.peers.append(Peer(self, self.number, **options))
        return self.peers[-1]

    def hang_up(self):
        """Clean up."""
        for peer in self.peers:
            peer.close()
        self.peers.clear()


class Peer:
    """The other end of one connection."""

    def __init__(self, tun, number, ip=IPv4, mss=1460, window=65535, wscale=None,
                 sack=False, timestamps=False, rto=None):
        self.tun, self.ip, self.window, self.wscale = tun, ip, window, wscale
        self.address = ip.net + str(number)
        self.path = tuple(socket.inet_pton(ip.family, address)
                          for address in (self.address, ip.here))
        self.ports = 4000, 0
        self.offer = struct.pack(">BBH", MSS, 4, mss)
        if wscale is not None:
            self.offer += bytes((NOP, WSCALE, 3, wscale))
        if sack:
            self.offer += bytes((NOP, NOP, SACK_OK, 2))
        self.stamps, self.stamp = timestamps, 0
        # The initial sequence numbers; this end's soon wrap. Octets sent, seen and
        # acknowledged count from there.
        self.mine, self.theirs = 0xFFFFFFF0, 0
        self.sent = self.seen = self.acked = 0
        self.past = []
        self.sock = None
        if rto:
            tun.route(self.address, rto)

    # ---- the handshake ----

    def connect(self):
        """This end connects: the socket that the other end has accepted."""
        with socket.create_server((self.ip.here, 0), family=self.ip.family) as listener:
            self.ports = self.ports[0], listener.getsockname()[1]
            self._emit(SYN, self.mine - 1, 0, options=self.offer)
            self._opened()
            self.send()
            listener.settimeout(PATIENCE)
            self.sock = listener.accept()[0]
        self.sock.setblocking(False)
        return self.sock

    def accept(self):
        """The other end connects: its socket."""
        self.sock = socket.socket(self.ip.family)
        self.sock.setblocking(False)
        self.sock.bind((self.ip.here, 0))
        self.ports = self.ports[0], self.sock.getsockname()[1]
        self.sock.connect_ex((self.address, self.ports[0]))
        self._opened()
        self._emit(SYN | ACK, self.mine - 1, self.theirs, options=self.offer)
        assert select.select([], [self.sock], [], PATIENCE)[1]
        return self.sock

    def _opened(self):
        syn = self._next()
        assert syn and syn.flags == SYN, f"expected a SYN, seen {syn}"
        self.theirs = syn.seq + 1 & 0xFFFFFFFF
        self.seen, self.past = 0, [(-1, SYN, b"")]

    def from_here(self):
        """What follows begins with 0, in both directions."""
        self.mine += self.sent
        self.theirs += self.seen
        self.sent = self.seen = self.acked = 0
        self.past.clear()

    def close(self):
        if self.sock:
            self.sock.close()
            self.send(flags="R")

    # ---- what this end sends ----

    def send(self, octets=b"", seq=None, flags="", ack=None, window=None, sack=()):
        """A segment: by default the next octets, acknowledging all that was seen."""
        seq = self.sent if seq is None else seq
        ack = self.seen if ack is None else ack
        self.acked = max(self.acked, ack)
        if window is not None:
            self.window = window
        flags = ACK | sum(FLAGS[name] for name in flags)
        options = b""
        if sack:
            options = bytes((NOP, NOP, SACK, 2 + 8 * len(sack))) + b"".join(
                struct.pack(">II", *(self.theirs + at & 0xFFFFFFFF for at in block))
                for block in sack)
        self._emit(flags, self.mine + seq, self.theirs + ack, octets, options)
        self.sent = max(self.sent, seq + len(octets) + (flags & FIN))

    def ack(self, ack=None, window=None, sack=(), times=1):
        for _ in range(times):
            self.send(ack=ack, window=window, sack=sack)

    def packet_too_big(self, mtu, seq=0):
        """ICMP, for the segment that begins there."""
        head = struct.pack(">HHI", *reversed(self.ports),
                           self.theirs + seq & 0xFFFFFFFF)
        refused = self.ip.packet(*reversed(self.path), socket.IPPROTO_TCP, head)
        os.write(self.tun.fd, self.ip.too_big(*self.path, mtu, refused))

    def _emit(self, flags, seq, ack, octets=b"", options=b""):
        if self.stamps:
            now = time.monotonic_ns() // 1000000 & 0xFFFFFFFF
            options += struct.pack(">BBBBII", NOP, NOP, TIMESTAMPS, 10, now, self.stamp)
        scale = 0 if flags & SYN else self.wscale or 0
        head = struct.pack(">HHIIBBHxxxx", *self.ports, seq & 0xFFFFFFFF,
                           ack & 0xFFFFFFFF, 80 + 4 * len(options), flags,
                           self.window >> scale)
        octets = head + options + octets
        to = *self.path, socket.IPPROTO_TCP
        os.write(self.tun.fd,
                 self.ip.packet(*to, summed(octets, 16, pseudo(*to, octets))))

    # ---- what the other end sends ----

    def expect(self, octets=b"", seq=None, flags="", ack=None, again=False):
        """The next segment is this one: by default after what was seen.
        again: it repeats what was seen, and was not acknowledged."""
        wanted = Segment(self.seen if seq is None else seq,
                         sum(FLAGS[name] for name in flags), octets, ack)
        seen = self._next(again)
        assert seen, f"expected {wanted}\nseen nothing in {PATIENCE} s"
        if seen[:3] == wanted[:3] and ack in (None, seen.ack):
            return
        at = next((i for i, pair in enumerate(zip(octets, seen.octets))
                   if pair[0] != pair[1]), 0)
        where = f"\nfrom octet {at} on\nexpected {some(octets, at)}" \
                f"\nseen     {some(seen.octets, at)}" if at else ""
        raise AssertionError(f"expected {wanted}\nseen     {seen}{where}")

    def expect_ack(self):
        """All that was sent has been acknowledged, before anything else leaves."""
        until = time.monotonic() + PATIENCE
        seen = None
        while not seen or seen.ack != self.sent:
            seen = self._receive(until)
            assert seen and not seen.octets and not seen.flags, \
                f"expected ack {self.sent}\nseen     {seen}"

    def expect_nothing(self, milliseconds=40):
        """Nothing leaves but ACKs and repetitions."""
        seen = self._next(seconds=milliseconds / 1000)
        assert not seen, f"expected nothing\nseen     {seen}"

    def _next(self, again=False, seconds=PATIENCE):
        """The next segment that is not passed over, or None."""
        until = time.monotonic() + seconds
        while True:
            seen = self._receive(until)
            if not seen:
                return None
            end = seen.seq + len(seen.octets) + (seen.flags & FIN)
            repeated = seen[:3] in self.past and not (again and end > self.acked)
            if (seen.octets or seen.flags) and not repeated:
                self.past.append(seen[:3])
                self.seen = max(self.seen, end)
                return seen

    def _receive(self, until):
        """The next segment of this connection, or None."""
        while select.select([self.tun.fd], [], [], max(0, until - time.monotonic()))[0]:
            packet = os.read(self.tun.fd, 65536)
            # Skip IPv6's own packets, and those of other connections.
            protocol, *path, octets = self.ip.parsed(packet)
            if protocol != socket.IPPROTO_TCP or path != [*reversed(self.path)]:
                continue
            *ports, seq, ack, length, flags = struct.unpack(">HHIIBB", octets[:14])
            if ports != [*reversed(self.ports)]:
                continue
            assert not checksum(pseudo(*path, protocol, octets) + octets), \
                "seen a segment with a wrong checksum"
            length = length >> 4 << 2
            options = options_of(octets[20:length])
            if TIMESTAMPS in options:
                self.stamp = struct.unpack(">I", options[TIMESTAMPS][:4])[0]
            return Segment(signed(seq - self.theirs), flags & (FIN | SYN | RST),
                           octets[length:], signed(ack - self.mine))
        return None
