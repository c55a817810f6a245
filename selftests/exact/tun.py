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

import os
import select
import socket
import struct
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)),
                             "../../tools/conform"))

# pylint: disable=wrong-import-position
import packets
from packets import (ACK, FIN, FLAGS, NOP, SACK, SYN, IPv4, IPv6,  # noqa: F401
                     Segment, some)

RTO_MIN = 60
PATIENCE = 30               # seconds; an emulated processor is slow
NET = {IPv4: ("10.9.0.", "0/24"), IPv6: ("fd05:9::", "/64")}
HERE = {ip: begin + "1" for ip, (begin, _) in NET.items()}


class Tun(packets.Device):
    """The device, and the peer at its other end."""

    def __init__(self):
        super().__init__("exact")
        for version in IPv4, IPv6:
            self.ip("address", "add", HERE[version], "dev", self.name)
            self.route("".join(NET[version]), RTO_MIN)
        # Without tail loss probes; metrics of a path are not kept.
        for name, value in ("tcp_early_retrans", "0"), ("tcp_no_metrics_save", "1"):
            with open("/proc/sys/net/ipv4/" + name, "w", encoding="ascii") as file:
                file.write(value)
        self.number, self.peers = 1, []

    def route(self, to, seconds):
        self.ip("route", "add", to, "dev", self.name, "rto_min", f"{seconds}s")

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


class Peer(packets.Connection):
    """The other end of one connection."""

    def __init__(self, tun, number, ip=IPv4, rto=None, **options):
        self.address = NET[ip][0] + str(number)
        super().__init__(tun, ip, (self.address, HERE[ip]), (4000, 0), **options)
        # Octets sent, seen and acknowledged count from the initial sequence numbers.
        self.sent = self.seen = self.acked = 0
        self.past = []
        self.sock = None
        if rto:
            tun.route(self.address, rto)

    # ---- the handshake ----

    def connect(self):
        """This end connects: the socket that the other end has accepted."""
        with socket.create_server((HERE[self.ip], 0), family=self.ip.family) as listener:
            self.ports = self.ports[0], listener.getsockname()[1]
            self.emit(SYN, self.mine - 1, 0, options=self.offer)
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
        self.sock.bind((HERE[self.ip], 0))
        self.ports = self.ports[0], self.sock.getsockname()[1]
        self.sock.connect_ex((self.address, self.ports[0]))
        self._opened()
        self.emit(SYN | ACK, self.mine - 1, self.theirs, options=self.offer)
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
        self.emit(flags, self.mine + seq, self.theirs + ack, octets, options)
        self.sent = max(self.sent, seq + len(octets) + (flags & FIN))

    def ack(self, ack=None, window=None, sack=(), times=1):
        for _ in range(times):
            self.send(ack=ack, window=window, sack=sack)

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
        while select.select([self.device.fd], [], [], max(0, until - time.monotonic()))[0]:
            seen = self.parsed(self.device.read())
            if seen:
                return seen
        return None
