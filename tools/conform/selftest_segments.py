# SPDX-License-Identifier: GPL-2.0
"""mpa conform --segments finds a TCP that is wrong: the network between it and a good end
makes it so."""
import struct

import tcp
from packets import RST, SYN, pseudo, signed, summed

# Switches of end.py that have a case of another group, too
SWITCHES = """
    private-data-not-awaited responder segments.1
    reply-head-is-enough initiator segments.1
    key-is-enough responder segments.4
    fpdu-in-one-read responder segments.6
    not-whole responder segments.6
    one-fpdu-a-read responder segments.9
    crc-unchecked responder segments.20
    loses-the-last responder segments.24
    marker-every-256 responder segments.30
    """


class Wrong(tcp.Network):
    """Packets are changed on their way. By ports, as connections of earlier tests may still
    send: the end of what the tested end has got, or sent; its last packet with octets."""

    def __init__(self, *options):
        super().__init__(*options)
        self.ends, self.last = {}, {}

    def changed(self, packet, change):
        """The packet, with another TCP header or other octets."""
        protocol, *path, octets = self.version.parsed(packet)
        if protocol != 6:
            return packet
        octets = bytearray(change(bytearray(octets)))
        octets[16:18] = bytes(2)
        to = *path, protocol
        return self.version.packet(*to, summed(bytes(octets), 16, pseudo(*to, octets)))


def number(octets):
    return struct.unpack(">I", octets[4:8])[0]


def data(octets):
    return octets[octets[12] >> 4 << 2:]


class Arrivals(Wrong):
    """It takes segments in the order in which they arrive, whatever their numbers."""

    def write(self, packet):
        super().write(self.changed(packet, self.shifted))

    def shifted(self, octets):
        ports, end = bytes(octets[:4]), number(octets) + 1
        if data(octets):
            end = self.ends[ports]
            octets[4:8] = struct.pack(">I", end & 0xFFFFFFFF)
        if data(octets) or octets[13] & SYN:
            self.ends[ports] = end + len(data(octets))
        return octets


class NoMss(Wrong):
    """It does not know of the MSS that is offered."""

    def write(self, packet):
        def offer(octets):
            if octets[13] & SYN:
                octets[20:24] = struct.pack(">BBH", 2, 4, 1460)
            return octets
        super().write(self.changed(packet, offer))


class Repeats(Wrong):
    """It repeats other octets than it has sent."""

    def read(self):
        return self.changed(super().read(), self.other)

    def other(self, octets):
        ports, end = bytes(octets[:4]), number(octets) + len(data(octets))
        if data(octets) and signed(number(octets) - self.ends.get(ports, end)) < 0:
            octets[-1] ^= 1
        elif data(octets):
            self.ends[ports] = end
        return octets


class Undead(Wrong):
    """It sends after a reset."""

    def read(self):
        packet = super().read()
        octets = self.version.parsed(packet)[3]
        if data(octets):
            self.last[octets[:4]] = packet
        return packet

    def write(self, packet):
        super().write(packet)
        octets = self.version.parsed(packet)[3]
        ports = octets[2:4] + octets[:2]
        if octets[13] & RST and ports in self.last:
            self.arrived(self.last.pop(ports))


class NoWindow(Wrong):
    """It does not look at the window."""

    def write(self, packet):
        def opened(octets):
            octets[14:16] = b"\xff\xff"
            return octets
        super().write(self.changed(packet, opened))


# A TCP, or a switch of an end, and each case that finds it
WRONG = ((Arrivals, "", (2, 3, 4, 5, 13, 14, 15, 16, 17, 18, 19, 23, 25)),
         (NoMss, "", (37,)), (NoWindow, "", (27, 28)), (Repeats, "", (38, 39)),
         (Undead, "", (26,)), (tcp.Network, "cuts-fpdus", (32, 33, 36, 41)))
