# SPDX-License-Identifier: GPL-2.0
"""One TCP connection to the end that is tested, and what a case does with it: send
octets, right or wrong, and demand what must come."""
import random
import select
import socket
import struct
import time

import rfc5044
import rfc6581
import synth
from rfc5044 import REPLY, REQUEST

M, C, R, S = synth.M, synth.C, synth.R, synth.S
RESPONDER, INITIATOR = "responder", "initiator"     # roles of the tested end
FIRST = b"Conforming"       # sent where any ULPDU is fine: no pad


class Fail(Exception):
    """What the case demands is not what was seen."""


class Silent(Fail):
    """Nothing came where something was due."""


class Unreachable(Fail):
    """There is no TCP connection."""


class Skip(Exception):
    """The case says nothing about this end; the text says why."""


def depths(ird=0, ord_=0, bits=""):
    """The four octets of RFC 6581 section 9; bits: letters of A, B, C and D."""
    value = {"A": 1 << 31, "B": 1 << 30, "C": 1 << 15, "D": 1 << 14}
    return struct.pack(">I", sum(value[bit] for bit in bits) | ird << 16 | ord_)


def crc_anew(fpdu):
    """The same FPDU, whatever has been done to it, with a good CRC."""
    return bytes(fpdu[:-4]) + synth.crc32c(fpdu[:-4])


def shown(octets):
    text = bytes(octets[:24]).hex(" ")
    return text + (f" ... ({len(octets)} octets)" if len(octets) > 24 else "")


def readable(peer, seconds):
    """Is there something to read? The selftest has another one, without a clock."""
    if not isinstance(peer.sock, socket.socket):
        return peer.sock.readable(seconds)
    return bool(select.select([peer.sock], [], [], max(seconds, 0))[0])


class Peer:
    """The connection. Octets that came are in got, those that a case has taken end
    at at. checks: what is looked at in each FPDU that comes."""

    def __init__(self, sock, role, options, seed=""):
        self.sock, self.role, self.options = sock, role, options
        self.rnd = random.Random(seed)
        self.got, self.sent = bytearray(), bytearray()
        self.log = []           # (when, who, octets or what happened)
        self.began = time.monotonic()
        self.calls, ours = role == RESPONDER, sock.getsockname()
        try:
            self.names = ours, sock.getpeername()
        except OSError:     # it has been reset already
            self.names = ours, (ours[0], 0)
        self.at = 0
        self.end = None         # how the tested end's direction ended
        self.sent_fin = False
        self.frame = None       # its startup frame
        self.checks = ("pad", "crc", "markers")
        self.start_at = None    # where its FPDUs begin in got
        self.marked = self.crc = False
        self.tx = synth.Sender(False)
        self.empty = False      # may its first ULPDU be empty, as an RTR?
        self.ddp = False        # the case sends DDP segments
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def note(self, who, what):
        self.log.append((time.monotonic(), who, what))

    # ---- octets ----

    def send(self, octets, flags=0):
        if octets:
            self.note("sent", bytes(octets))
        try:
            self.sock.settimeout(self.options.timeout)
            self.sock.sendall(octets, flags)
            self.sent += octets
        except socket.timeout:
            raise Fail("takes no octets from TCP: its window stays closed") from None
        except OSError as error:
            self.note("sent", f"not: {error.strerror}")
            self.ended("reset")

    def send_single(self, octets):
        for octet in octets:
            self.send(bytes([octet]))

    def held(self, act):
        """The octets that act() sends, which are not sent."""
        octets = []
        self.send = octets.append
        act()
        del self.send
        return b"".join(octets)

    def fin(self):
        self.note("sent", "FIN")
        self.sent_fin = True
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.ended("reset")

    def reset(self):
        self.note("sent", "RST")
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                             struct.pack("ii", 1, 0))
        self.sock.close()

    def ended(self, how):
        if not self.end:
            self.end = how
            self.note("came", how)

    def read(self):
        """Whatever is there."""
        self.sock.settimeout(self.options.timeout)
        try:
            octets = self.sock.recv(1 << 18)
        except OSError:
            return self.ended("reset")
        if not octets:
            return self.ended("FIN")
        self.got += octets
        self.note("came", octets)
        return None

    def wait(self, count, seconds):
        """Wait for @count octets; returns whether they have arrived."""
        until = time.monotonic() + seconds
        while len(self.got) - self.at < count and not self.end:
            if not readable(self, until - time.monotonic()):
                break
            self.read()
        return len(self.got) - self.at >= count

    def take(self, count, what):
        if not self.wait(count, self.options.timeout):
            there = len(self.got) - self.at
            seen = f"{there} of {count} octets came" if there else "nothing came"
            if self.end:
                raise Fail(f"{what}: {seen}, then {self.end}")
            raise Silent(f"{what}: {seen}, then silence")
        self.at += count
        return bytes(self.got[self.at - count:self.at])

    def nothing(self, why):
        """Nothing may come now."""
        if self.options.peer == "source" and self.tx.pos:
            raise Skip("a source sends when it likes")
        if self.wait(1, self.options.quiet):
            raise Fail(f"{why}, but it sent {shown(self.got[self.at:])}")

    def still_there(self, why):
        self.nothing(why)
        if self.end:
            raise Fail(f"{why}, but the connection ended ({self.end})")

    def closed(self, why):
        """It must end the connection, and send nothing before."""
        self.wait(1, self.options.timeout)
        if len(self.got) > self.at:
            raise Fail(f"{why}: it must close, but it sent "
                       f"{shown(self.got[self.at:])}")
        if not self.end:
            raise Fail(f"{why}: it must close, but the connection stays open")
        return f"closed ({self.end})"

    # ---- startup ----

    def startup(self, key, flags, private=b"", revision=1, length=None):
        self.send(synth.startup(key, flags, private, revision, length))

    def request(self, flags=C, private=b"", revision=1, length=None):
        self.startup(REQUEST, flags, private, revision, length)

    def reply(self, flags=C, private=b"", revision=1, length=None):
        self.startup(REPLY, flags, private, revision, length)

    def take_key(self):
        """Returns what its startup frame is called."""
        key, kind = (REPLY, "Reply Frame") if self.role == RESPONDER else \
            (REQUEST, "Request Frame")
        seen = self.take(16, kind)
        if seen != key:
            raise Fail(f"{kind}: expected the key \"{key.decode()}\", seen "
                       f"{shown(seen)}")
        return kind

    def take_frame(self):
        """Its startup frame. Whether that is good is for the cases of startup."""
        at, kind = self.at, self.take_key()
        head = self.take(4, kind)
        length = struct.unpack(">H", head[2:])[0]
        if length <= rfc5044.PRIVATE_MAX:
            self.take(length, f"{kind}: private data of {length} octets")
        self.frame = rfc5044.Startup(bytes(self.got), at)
        return self.frame

    def answered(self, flags=C, private=b"", revision=1, length=None):
        """The reply to a request, accepted or not."""
        self.request(flags, private, revision, length)
        return self.take_frame()

    def start(self, flags=C, private=b"", revision=1, first=True):
        """Full Operation, in whichever role. flags: those of our frame."""
        if self.role == RESPONDER:
            theirs = self.answered(flags, private, revision)
            if theirs.flags & R:
                raise Fail("it rejects a plain request (R is 1 in its reply)")
        else:
            theirs = self.take_frame()
            self.answer(theirs, flags, private, revision)
        self.operate(flags)
        if first and self.role == INITIATOR:
            self.goes_on()
        return self

    def goes_on(self):
        """An initiator is in Full Operation: its first FPDU comes. A sink sends none."""
        if self.options.peer == "sink":
            self.still_there("a good reply was sent")
        elif not self.ulpdu() and self.empty:
            self.ulpdu()

    def answer(self, theirs, flags=C, private=b"", revision=None):
        """A good reply to its request, enhanced if that is."""
        asked = rfc6581.data(theirs)
        if asked:
            bits = "".join(bit for bit in "ABCD" if getattr(asked, bit.lower()))
            private = depths(asked.ord, asked.ird, bits) + private
            flags |= S
            self.empty = asked.a
        self.reply(flags, private, max(theirs.revision, revision or 1))

    def operate(self, flags):
        self.start_at = self.at
        self.marked = bool(flags & M)
        self.crc = bool((flags | self.frame.flags) & C)
        self.tx = synth.Sender(bool(self.frame.flags & M))

    # ---- Full Operation ----

    def fpdu(self, ulpdu, *wrong):
        """The octets of the next FPDU; wrong: faults that synth.Sender knows."""
        if self.options.peer == "ddp" and not self.ddp:
            raise Skip("sends ULPDUs that are no DDP segments")
        return self.tx.fpdu(ulpdu, wrong)

    def put(self, *ulpdus):
        for ulpdu in ulpdus:
            self.send(self.fpdu(ulpdu))

    def take_fpdu(self):
        """The next FPDU of the tested end, and its ULPDU."""
        fpdu = rfc5044.Fpdu()
        fpdu.at, fpdu.pos = self.at, self.at - self.start_at
        where = f"FPDU at {fpdu.pos}"
        fpdu.head = 4 if self.marked and fpdu.pos % rfc5044.INTERVAL == 0 else 0
        self.take(fpdu.head + 2, where)
        fpdu.ulpdu_len = int.from_bytes(self.got[self.at - 2:self.at], "big")
        if fpdu.ulpdu_len > rfc5044.ULPDU_MAX or not (
                fpdu.ulpdu_len or self.empty and not fpdu.pos):
            raise Fail(f"{where}: ULPDU_Length {fpdu.ulpdu_len} cannot be")
        fpdu.len, fpdu.markers, fpdu.pad = rfc5044.lay_out(
            fpdu.pos, fpdu.head, fpdu.ulpdu_len, self.marked)
        self.take(fpdu.len - fpdu.head - 2,
                  f"{where}: ULPDU_Length {fpdu.ulpdu_len}")
        octets = bytes(self.got[fpdu.at:self.at])
        fpdu.at = 0
        rfc5044.verify(fpdu, octets)
        if "markers" in self.checks:
            for off, reserved, ptr, want in fpdu.wrong_markers:
                raise Fail(f"{where}: marker at {fpdu.pos + off}: expected FPDUPTR "
                           f"{want}, seen {ptr}, reserved half {reserved:#06x}")
        if "pad" in self.checks and fpdu.wrong_pad:
            raise Fail(f"{where}: expected a pad of zeros, seen "
                       + bytes(octets[off] for off in fpdu.pad).hex(" "))
        if "crc" in self.checks and self.crc and not fpdu.crc_good:
            raise Fail(f"{where}: expected the CRC "
                       f"{synth.crc32c(octets[:-4]).hex(' ')}, seen "
                       f"{octets[-4:].hex(' ')}")
        skip = set(range(fpdu.head + 2)) | {m + n for m in fpdu.markers
                                            for n in range(4)}
        body = bytes(octet for off, octet in enumerate(octets) if off not in skip)
        return fpdu, body[:fpdu.ulpdu_len]

    def ulpdu(self):
        return self.take_fpdu()[1]

    def echo(self, *ulpdus):
        """Each ULPDU is sent, and comes back by itself, in order."""
        self.put(*ulpdus)
        self.comes_back(*ulpdus)

    def comes_back(self, *ulpdus):
        """A source sends others as well; a sink lives on."""
        if self.options.peer == "sink":
            self.nothing("good FPDUs were sent to a sink")
            if self.end and not (self.sent_fin and self.end == "FIN"):
                raise Fail(f"good FPDUs were sent to a sink, and came {self.end}")
            return
        if self.options.peer == "source":
            for _ in ulpdus:
                self.ulpdu()
            return
        for number, ulpdu in enumerate(ulpdus):
            seen = self.ulpdu()
            if seen != ulpdu:
                raise Fail(f"ULPDU {number + 1} of {len(ulpdus)}: sent "
                           f"{shown(ulpdu)}, {len(ulpdu)} octets; came back "
                           f"{shown(seen)}, {len(seen)} octets")

    def sends(self):
        if self.options.peer == "sink":
            raise Skip("a sink sends nothing")

    def needs_echo(self):
        if self.options.peer != "echo":
            raise Skip(f"needs an echo, the peer is a {self.options.peer}")

    def not_delivered(self, *ulpdus):
        """What was sent is wrong: no ULPDU may come of it. An end may close, and may
        say why in ULPDUs of its own."""
        self.needs_echo()
        while self.wait(1, self.options.quiet):
            seen = self.ulpdu()
            if seen in ulpdus:
                raise Fail(f"the ULPDU {shown(seen)} came back")
        return f"not delivered; {self.end or 'the connection stays open'}"

    def octets(self, count):
        return self.rnd.randbytes(count)
