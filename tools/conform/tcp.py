# SPDX-License-Identifier: GPL-2.0
"""TCP of our own, for --segments: connections that look like sockets to a case, which may
choose their segments. It acknowledges, retransmits and reassembles by itself, while a case
waits for something."""
import errno
import ipaddress
import os
import random
import select
import socket
import struct
import time

import packets
import peer
from packets import ACK, FIN, MSS, PSH, RST, SYN, TIMESTAMPS, IPv4, IPv6

# Networks for measurements (RFC 2544, RFC 5180): of the device, and of our TCP
HERE = {IPv4: "198.18.44.1", IPv6: "2001:2:0:44::1"}
OURS = {IPv4: "198.18.44.2", IPv6: "2001:2:0:44::2"}
MTU, WINDOW = 1500, 65535
FIRST_WAIT = 1          # seconds until the first retransmission
OPEN, RESET = "open", "reset"


class Network(packets.Device):
    """The device, and the connections there. at: where the tested end listens, if we do not,
    on port."""

    def __init__(self, address, host, port, listens):
        try:
            self.version, host = self.looked_up(address or host or OURS[IPv4], host)
            self.address = address or OURS[self.version]
            self.here = None if address else HERE[self.version]
            self.at = None if listens else (self.reachable(host), port)
            super().__init__("conform%d")
            width, *nodad = ["/32"] if self.version == IPv4 else ["/128", "nodad"]
            if self.here:
                self.ip("address", "add", self.here + width, "dev", self.name, *nodad)
            self.ip("route", "add", self.address + width, "dev", self.name)
        except (PermissionError, FileNotFoundError) as error:
            raise OSError("--segments needs root, /dev/net/tun (modprobe tun) and the command "
                          f"ip: {error}") from None
        self.port = port or random.randrange(20000, 30000)
        self.ports = random.randrange(32768, 60000)     # of the last call
        # calls: SYNs that nobody has accepted; strays: ports of octets of none
        self.connections, self.calls, self.strays = [], {}, []
        self.packets = []       # of the capture

    @staticmethod
    def looked_up(address, host):
        """The version of IP, and the host's address."""
        family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
        found = socket.getaddrinfo(host or None, 0, family, socket.SOCK_STREAM)[0][4][0]
        return IPv6 if family == socket.AF_INET6 else IPv4, found

    def reachable(self, host):
        """A device has no way to 127.0.0.1; over it this machine has another address."""
        if not self.here:
            return host
        if ipaddress.ip_address(host).is_loopback or host == self.here:
            return self.here
        with socket.socket(self.version.family) as sock:
            try:
                sock.bind((host, 0))
            except OSError:
                raise OSError(f"{host} is another machine: name an address for this test, "
                              "--segments ADDRESS") from None
        return host

    def read(self):
        self.packets.append((time.time(), super().read()))
        return self.packets[-1][1]

    def write(self, packet):
        self.packets.append((time.time(), packet))
        super().write(packet)

    def step(self, seconds):
        """Answer a packet, if one comes by then; retransmit what is due."""
        due = min((each.due() for each in self.connections), default=float("inf"))
        wait = max(0, min(seconds, due - time.monotonic()))
        came = bool(select.select([self.fd], [], [], wait)[0])
        if came:
            self.arrived(self.read())
        for each in self.connections:
            each.retransmit()
        return came

    def until(self, condition, seconds):
        """Wait for that; returns whether it is so."""
        end = time.monotonic() + seconds
        while not condition():
            left = max(0, end - time.monotonic())
            if not self.step(left) and not left:
                return condition()
        return True

    def arrived(self, packet):
        if packet[0] >> 4 != (4 if self.version == IPv4 else 6):
            return      # the kernel's own
        try:
            for each in self.connections:
                segment = each.parsed(packet)
                if segment:
                    each.take(segment)
                    return
        except (packets.WrongChecksum, struct.error):
            return      # TCP drops it, too
        protocol, source, to, octets = self.version.parsed(packet)
        if protocol != socket.IPPROTO_TCP or len(octets) < 20 or \
                to != socket.inet_pton(self.version.family, self.address):
            return
        theirs, ours, _, ack = struct.unpack(">HHII", octets[:12])
        call = packets.Connection(self, self.version, (
            self.address, socket.inet_ntop(self.version.family, source)), (ours, theirs))
        if octets[13] & (SYN | ACK) == SYN and not self.at and ours == self.port:
            self.calls[source, theirs] = call.path, call.ports, call.parsed(packet)
        elif not octets[13] & RST:
            if octets[13] & FIN or len(octets) > octets[12] >> 4 << 2:
                self.strays.append((theirs, ours))
            call.emit(RST, ack, 0)

    def connect(self, timeout, **options):
        self.ports += 1
        tcp = Tcp(self, (self.address, self.at[0]), (self.ports, self.at[1]), **options)
        self.until(lambda: tcp.state, timeout)
        if tcp.state != OPEN:
            tcp.close()
            number = errno.ECONNREFUSED if tcp.state else errno.ETIMEDOUT
            raise OSError(number, os.strerror(number))
        return tcp

    def accept(self, timeout, **options):
        end = time.monotonic() + timeout
        while self.until(lambda: self.calls, end - time.monotonic()):
            path, ports, syn = self.calls.pop(next(iter(self.calls)))
            tcp = Tcp(self, [socket.inet_ntop(self.version.family, each) for each in path],
                      ports, syn, **options)
            if self.until(lambda tcp=tcp: tcp.state, end - time.monotonic()) and \
                    tcp.state == OPEN:
                return tcp
            tcp.close()     # its program has been ended
        raise peer.Unreachable("nobody connects")

    def close(self):
        os.close(self.fd)


class Tcp(packets.Connection):
    """A connection; with syn, one that the tested end has begun. Positions count from the
    first octet of each direction; wraps: the one whose sequence number is 0, in ours."""

    def __init__(self, network, addresses, ports, syn=None, mss=None, wraps=16, **options):
        self.mss = mss or MTU - network.version.headers
        super().__init__(network, network.version, addresses, ports, mss=self.mss, **options)
        self.names, self.family = [*zip(addresses, ports)], network.version.family
        self.mine, self.state, self.timeout = -wraps & 0xFFFFFFFF, None, 0
        # What came: in order; read by the case; ahead; each segment as (position, length,
        # whether it repeats others). wrong: against TCP's rules.
        self.got, self.taken, self.ahead, self.arrived = bytearray(), 0, [], []
        self.fin_at, self.ended, self.wrong = None, False, None
        self.upto = None        # not acknowledged is what follows
        # What left: each segment as [due, wait, position, octets, flags]
        self.written = self.acked = self.room = 0
        self.unacked, self.largest = [], 536
        self.answers = bool(syn)
        if syn:
            self.met(syn)
        network.connections.append(self)
        self.segment(-1, b"", SYN)

    # ---- segments ----

    def segment(self, at, octets, flags=PSH):
        """Send these octets of the stream, again and again until they are acknowledged."""
        wait = FIRST_WAIT
        self.unacked.append([time.monotonic() + wait, wait, at, octets, flags])
        self.written = max(self.written, at + len(octets) + bool(flags & (FIN | SYN)))
        self.send(at, octets, flags)

    def send(self, at, octets=b"", flags=0):
        if not flags & SYN or self.answers:
            flags |= ACK
        self.emit(flags, self.mine + at, self.theirs + self.edge(), octets,
                  self.offer if flags & SYN else b"")

    def edge(self):
        """The acknowledgment."""
        edge = len(self.got) + self.ended
        return edge if self.upto is None else min(edge, self.upto)

    def acknowledge(self):
        self.send(self.written)

    def reach(self):
        """The end of the octets that it has without a gap, if none was lost."""
        reach = self.acked
        for _, _, at, octets, flags in sorted(self.unacked, key=lambda each: each[2]):
            if at <= reach:
                reach = max(reach, at + len(octets) + bool(flags & FIN))
        return reach

    def hold(self, upto=None):
        """Acknowledge no more than that."""
        self.upto = len(self.got) if upto is None else upto

    def release(self, window=None):
        self.upto = None
        if window is not None:
            self.window = window
        self.acknowledge()

    def due(self):
        return min((each[0] for each in self.unacked), default=float("inf"))

    def retransmit(self):
        now = time.monotonic()
        for each in self.unacked:
            if each[0] <= now:
                each[1] *= 2
                each[0] = now + each[1]
                self.send(*each[2:])

    # ---- what comes ----

    def met(self, syn):
        """It has sent a SYN."""
        self.theirs = self.theirs + syn.seq + 1 & 0xFFFFFFFF
        self.stamps = self.stamps and TIMESTAMPS in syn.options
        self.largest = int.from_bytes(syn.options.get(MSS, b"\2\x18"), "big")
        self.largest = max(min(self.largest, MTU - self.ip.headers) - 12 * self.stamps, 48)

    @property
    def emss(self):
        """The most octets that it may send in a segment."""
        return min(self.mss, MTU - self.ip.headers) - 12 * self.stamps

    def take(self, segment):
        if segment.flags & RST:
            self.state = RESET
            self.unacked.clear()
            return
        if segment.flags & SYN:
            if self.state or self.answers:
                return
            self.met(segment)
            segment = segment._replace(seq=-1)
        elif not self.state and not self.answers:
            # Of an earlier connection with these ports: end it, so that our next SYN is new.
            self.emit(RST, self.mine + segment.ack, 0)
            return
        if segment.ack >= 0:
            self.state = self.state or OPEN
            self.acked = max(self.acked, segment.ack)
            self.room = segment.ack + segment.window
            self.unacked = [each for each in self.unacked if segment.ack < each[2] + len(
                each[3]) + bool(each[4] & (FIN | SYN))]
        before, edge = self.edge(), len(self.got)
        if segment.octets and segment.seq >= 0:
            self.keep(segment.seq, segment.octets)
        if segment.flags & FIN:
            self.fin_at = segment.seq + len(segment.octets)
        self.ended = self.fin_at == len(self.got)
        if (segment.octets or segment.flags or segment.seq < edge) and (
                self.upto is None or self.edge() > before):
            self.acknowledge()

    def keep(self, at, octets):
        end, edge = at + len(octets), len(self.got)
        known = self.got[at:end]
        if known != octets[:len(known)]:
            self.wrong = f"it repeats octets {at} to {end} of its stream with other values"
        if len(octets) > self.emss:
            self.wrong = f"a segment of {len(octets)} octets; the EMSS is {self.emss}"
        self.arrived.append((at, len(octets), any(
            at < first + length and first < end for first, length, _ in self.arrived)))
        if end <= edge + self.window:
            self.ahead.append((at, octets))
        elif len(octets) > 1:   # a probe
            self.wrong = f"octets {at} to {end} of its stream are beyond our window"
        for at, octets in sorted(self.ahead):
            if at <= len(self.got):
                self.got += octets[len(self.got) - at:]
        self.ahead = [each for each in self.ahead if each[0] > len(self.got)]

    # ---- a socket ----

    def until(self, condition, seconds=None):
        return self.device.until(condition, self.timeout if seconds is None else seconds)

    def readable(self, seconds):
        return self.until(lambda: len(self.got) > self.taken or self.ended or self.wrong or
                          self.state == RESET, seconds)

    def recv(self, count):
        if not self.readable(self.timeout):
            raise socket.timeout
        if self.wrong:
            raise peer.Fail(self.wrong)
        octets = bytes(self.got[self.taken:self.taken + count])
        self.taken += len(octets)
        if not octets and self.state == RESET:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        return octets

    def sendall(self, octets, _flags=0):
        for begin in range(0, len(octets), self.largest):
            part = octets[begin:begin + self.largest]
            if not self.until(lambda part=part: self.state == RESET or
                              self.room >= self.written + len(part)):
                raise socket.timeout
            if self.state == RESET:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            self.segment(self.written, part)

    def shutdown(self, _how):
        self.segment(self.written, b"", FIN)

    def settimeout(self, seconds):
        self.timeout = seconds

    def setsockopt(self, *_):
        """TCP_NODELAY: there is no delay. SO_LINGER: it is always reset."""

    def getsockname(self):
        return self.names[0]

    def getpeername(self):
        return self.names[1]

    def close(self):
        """What it still sends is answered by the device."""
        if self in self.device.connections:
            self.device.connections.remove(self)
            if self.state != RESET:
                self.send(self.reach(), flags=RST)
