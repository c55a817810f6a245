# SPDX-License-Identifier: GPL-2.0
"""An MPA end in user space, an echo of ULPDUs, with switches that each break one rule:
what "mpa conform" is tried with. Written for that alone: FPDUs are read as slowly as
they are read simply."""
import argparse
import os
import socket
import struct
import sys
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, os.pardir, "wire"))

# pylint: disable=wrong-import-position
from synth import REPLY, REQUEST, C, M, R, S, crc32c, startup

RESPONDER, INITIATOR = "responder", "initiator"
# The switches: name; the case of the catalogue that finds it first; "markers" or
# "enhanced", if the end has to request that; "ddp"; "segments", with --segments.
SWITCHES = {}
# What an end may do: no case finds a defect.
CHOICES = {"revision-1-only": (RESPONDER, ()), "revision-0-closes": (RESPONDER, ()),
           "revision-0-rejects": (RESPONDER, ()), "frame-before-key": (RESPONDER, ()),
           "complains": (RESPONDER, ()), "never-peer-to-peer": (INITIATOR, ("enhanced",))}


def switches(role, text):
    for line in text.strip().split("\n"):
        name, case, *mode = line.split()
        SWITCHES[name] = role, case, mode


switches(RESPONDER, """
    silent startup.1
    key-of-reply startup.2
    rejects startup.6
    res-set startup.8
    revision-2-to-1 startup.9
    length-without-data startup.5
    no-crc-wanted startup.10
    copies-c startup.11
    no-c-refused startup.11
    speaks-first startup.12
    key-is-enough startup.13
    request-in-one-read startup.13
    private-data-not-awaited startup.14
    fpdu-before-the-first startup.16
    marker-before-the-first markers.3
    checks-r startup.21
    checks-res startup.22
    private-data-256 startup.30
    private-data-511 startup.32
    key-not-compared startup.34
    malformed-left-open startup.34
    key-first-octets startup.35
    key-any-case startup.37
    either-key startup.39
    length-unchecked startup.40
    any-revision startup.43
    cut-frame-answered startup.48
    ends-at-once fpdu.3
    changes-octets fpdu.2
    two-fpdus fpdu.2
    length-little-endian fpdu.1
    length-with-pad fpdu.3
    no-pad fpdu.3
    pad-of-ones fpdu.8
    checks-pad fpdu.9
    one-fpdu-a-read fpdu.10
    swaps-two fpdu.11
    fpdu-in-one-read fpdu.12
    not-whole startup.17
    at-most-1024 fpdu.18
    crc-zero crc.1
    crc-big-endian crc.1
    crc-unchecked crc.2
    crc-not-over-pad crc.4
    crc-last-octet crc.5
    crc-first-octets crc.8
    crc-either-order crc.9
    crc-zero-is-none crc.10
    goes-on-after-an-error crc.14
    first-fpdu-unchecked crc.16
    complains-of-the-first crc.16
    crc-only-if-peer crc.18
    unchecked-if-peer-has-none crc.19
    markers-unasked fpdu.1
    no-markers markers.2
    first-marker-late markers.2
    marker-outside-crc markers.3
    marker-reserved markers.4
    marker-from-ulpdu markers.4
    marker-zero markers.4
    marker-every-256 markers.4
    marker-from-the-front markers.5
    no-marker-before-crc markers.7
    keeps-markers fpdu.2 markers
    checks-reserved markers.15 markers
    checks-low-bits markers.16 markers
    loses-the-last closing.1
    ends-in-an-fpdu closing.2
    never-closes closing.3
    delivers-parts closing.5
    dies-of-a-reset closing.8
    revision-2-only startup.1
    checks-s enhanced.2
    s-of-revision-1 enhanced.2
    s-for-the-plain enhanced.3
    s-left-out enhanced.4
    revision-1-to-2 enhanced.5
    octets-left-out enhanced.6
    checks-res-of-2 enhanced.7
    enhanced-508 enhanced.9
    s-without-octets enhanced.10
    ord-too-large enhanced.13
    ord-not-left enhanced.17
    ird-not-left enhanced.18
    a-always enhanced.20
    rtr-always-b enhanced.21
    b-without-a enhanced.22
    a-dropped enhanced.23
    no-rtr enhanced.24
    one-rtr enhanced.31
    rtr-delivered enhanced.32
    dies-without-rtr enhanced.46
    revision-0-without-m rdmac.2
    sends-ddp-version-2 ddp.1 ddp
    msn-from-zero ddp.1 ddp
    swaps-sink-and-source ddp.2 ddp
    response-not-awaited ddp.3 ddp
    one-msn-for-all ddp.4 ddp
    last-not-awaited ddp.5 ddp
    writes-without-last ddp.6 ddp
    sends-msn-stays ddp.7 ddp
    reads-msn-stays ddp.8 ddp
    segments-are-messages ddp.9 ddp
    checks-reserved-of-ddp ddp.10 ddp
    checks-stag-of-empty ddp.11 ddp
    checks-empty-reads ddp.12 ddp
    any-ddp-version ddp.13 ddp
    swaps-layer-and-type ddp.13 ddp
    any-tagged-version ddp.16 ddp
    queue-unchecked ddp.17 ddp
    msn-unchecked ddp.18 ddp
    mo-unchecked ddp.21 ddp
    too-long-is-cut ddp.22 ddp
    write-anywhere ddp.23 ddp
    any-rdmap-version ddp.24 ddp
    any-opcode ddp.26 ddp
    opcode-on-any-queue ddp.28 ddp
    reads-anything ddp.31 ddp
    response-unasked ddp.32 ddp
    response-anywhere ddp.33 ddp
    response-to-any-stag ddp.36 ddp
    no-terminate-for-mpa ddp.37 ddp
    header-before-crc ddp.58 ddp
    terminate-on-queue-0 ddp.39 ddp
    terminate-reserved ddp.40 ddp
    terminate-without-header ddp.41 ddp
    goes-on-after-a-terminate ddp.42 ddp
    answers-a-terminate ddp.43 ddp
    cuts-fpdus segments.29 segments
    cuts-small-fpdus segments.35 segments
    marker-in-one-read segments.7 segments markers
    markers-unchecked segments.22 segments markers
    write-checked-once ddp.60 ddp
    response-checked-once ddp.61 ddp
    """)
switches(INITIATOR, """
    key-of-request startup.4
    r-in-request startup.7
    res-in-request startup.8
    request-of-revision-3 startup.9
    no-crc-asked startup.10
    fpdu-before-the-reply startup.18
    reply-head-is-enough startup.19
    checks-res-of-reply startup.27
    rejection-ignored startup.33
    reply-key-not-compared startup.34
    takes-a-request startup.39
    reply-length-unchecked startup.40
    reply-of-any-revision startup.43
    s-asked-without-octets enhanced.39 enhanced
    b-without-a-asked enhanced.40 enhanced
    no-rtr-sent enhanced.41 enhanced
    s-in-reply-without-octets enhanced.43 enhanced
    s-in-reply-alone enhanced.45 enhanced
    names-nothing ddp.46 ddp
    responses-elsewhere ddp.47 ddp
    responses-without-last ddp.47 ddp
    responses-of-half ddp.47 ddp
    client-msn-stays ddp.48 ddp
    refuses-writes ddp.49 ddp
    reads-beyond ddp.50 ddp
    reads-below ddp.51 ddp
    reads-wrap ddp.52 ddp
    writes-beyond ddp.53 ddp
    writes-below ddp.54 ddp
    msn-of-reads-unchecked ddp.55 ddp
    closes-for-ird ddp.56 ddp enhanced
    says-rtr-for-ird ddp.56 ddp enhanced
    closes-for-rtr ddp.57 ddp enhanced
    rtr-not-named ddp.57 ddp enhanced
    writes-wrap ddp.59 ddp
    """)


class Ended(Exception):
    """The other end has closed, or this one has to."""


class Connection:
    """One connection of the end. consumed and waiting say to a test in the same process
    whether all that it has sent has been dealt with."""

    def __init__(self, sock, role, broken, markers, enhanced, ulpdus):
        self.sock, self.role, self.broken = sock, role, broken
        self.flags = C | (M if markers else 0)
        self.enhanced, self.ulpdus = enhanced, ulpdus
        self.ahead = b""
        self.consumed, self.waiting, self.eof = 0, False, False
        self.rx_marked = self.tx_marked = self.empty = self.peer_to_peer = False
        self.crc = self.sends_crc = True
        self.rx_pos = self.tx_pos = 0
        self.reads = 0
        self.held = None
        self.owed = 0       # octets of an FPDU that was delivered before they arrived
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def has(self, *names):
        return any(name in self.broken for name in names)

    # ---- octets ----

    def more(self):
        self.waiting = True
        try:
            octets = self.sock.recv(1 << 16)
        except socket.timeout:
            raise Ended("time") from None
        finally:
            self.waiting = False
        self.consumed += len(octets)
        self.reads += 1
        if not octets:
            self.eof = True
        return octets

    def need(self, count):
        while len(self.ahead) < count:
            octets = self.more()
            if not octets:
                raise Ended("end")
            self.ahead += octets
        octets, self.ahead = self.ahead[:count], self.ahead[count:]
        return octets

    def send(self, octets):
        if self.has("cuts-fpdus") or self.has("cuts-small-fpdus") and len(octets) < 400:
            self.sock.sendall(octets[:1])
            octets = octets[1:]
        self.sock.sendall(octets)

    # ---- startup ----

    def key_good(self, seen, key):
        if self.has("key-not-compared", "reply-key-not-compared"):
            return True
        if self.has("either-key", "takes-a-request") and seen in (REQUEST, REPLY):
            return True
        if self.has("key-any-case"):
            return seen.lower() == key.lower()
        if self.has("key-first-octets"):
            return seen[:8] == key[:8]
        return seen == key

    def frame(self, key):
        """(flags, revision, private data) of the other end's startup frame."""
        if self.has("request-in-one-read"):
            self.ahead += self.more()
            if len(self.ahead) < 20:
                raise Ended("short")
        if self.has("cut-frame-answered"):
            while len(self.ahead) < 20:
                octets = self.more()
                if not octets:
                    if len(self.ahead) < 19:
                        raise Ended("end")
                    self.ahead += b"\0"
                self.ahead += octets
        if self.has("frame-before-key"):
            self.ahead = self.need(20) + self.ahead
        seen = self.need(16)
        if not self.key_good(seen, key):
            raise Ended("key")
        if self.has("key-is-enough"):
            self.send(startup(REPLY, self.flags))
        if self.has("reply-head-is-enough"):
            return self.need(1)[0], self.need(1)[0], self.need(2) and b""
        flags, revision, length = struct.unpack(">BBH", self.need(4))
        if length > 512 and not self.has("length-unchecked", "reply-length-unchecked"):
            raise Ended("length")
        if length > (256 if self.has("private-data-256") else
                     511 if self.has("private-data-511") else 65535):
            raise Ended("no room")
        if self.has("private-data-not-awaited"):
            return flags, revision, self.ahead
        return flags, revision, self.need(length)

    def respond(self):
        if self.has("silent"):
            while self.more():
                pass
            raise Ended("end")
        if self.has("speaks-first"):
            self.send(startup(REPLY, self.flags))
        flags, revision, private = self.frame(REQUEST)
        if revision > 2 and not self.has("any-revision") or \
                revision == 0 and self.has("revision-0-closes") or \
                revision == 2 and self.has("revision-1-only") or \
                revision == 1 and self.has("revision-2-only"):
            raise Ended("revision")
        if self.has("checks-r") and flags & R or \
                self.has("checks-res") and flags & 0x0F or \
                self.has("checks-s") and flags & S and revision < 2 or \
                self.has("checks-res-of-2") and flags & 0x0F and revision == 2 or \
                self.has("no-c-refused") and not flags & C:
            raise Ended("flags")
        ours = self.flags
        if self.has("no-crc-wanted") or self.has("copies-c") and not flags & C:
            ours &= ~C
        if revision == 0:
            ours = C if self.has("revision-0-without-m") else M | C
        if self.has("res-set"):
            ours |= 1
        if self.has("rejects") or self.has("revision-0-rejects") and not revision:
            ours |= R
        answer, mine = b"", b""
        asked = flags & S and revision >= (1 if self.has("s-of-revision-1") else 2)
        if asked:
            if len(private) < 4 and not self.has("s-without-octets"):
                raise Ended("short")
            if len(private) > 508 and self.has("enhanced-508"):
                raise Ended("no room")
            mine = self.enhance(private.ljust(4, b"\0"))
        elif revision == 2 and self.has("s-for-the-plain"):
            mine = bytes(4)
        if mine:
            ours |= S
        if self.has("s-left-out"):
            ours &= ~S
        if self.has("octets-left-out"):
            mine = b""
        key = b"MPA ID Rep frame" if self.has("key-of-reply") else REPLY
        if self.has("revision-2-to-1") and revision == 1:
            revision = 2
        if self.has("revision-1-to-2") and revision == 2:
            revision = 1
        if not self.has("speaks-first", "key-is-enough"):
            self.send(startup(key, ours, mine + answer, revision,
                              16 if self.has("length-without-data") else None))
        if ours & R:
            raise Ended("rejected")
        self.agree(ours, flags)
        if self.has("fpdu-before-the-first"):
            self.send(self.make(b"early"))
        if self.has("marker-before-the-first") and self.tx_marked:
            self.send(bytes(4))

    def enhance(self, private):
        ird, ord_ = struct.unpack(">HH", private[:4])
        a, b, c, d = ird & 0x8000, ird & 0x4000, ord_ & 0x8000, ord_ & 0x4000
        theirs_ird, theirs_ord = ird & 0x3FFF, ord_ & 0x3FFF
        mine_ird = 0x3FFF if theirs_ord == 0x3FFF and not self.has("ird-not-left") else 8
        mine_ord = min(theirs_ird, 8)
        if self.has("ord-too-large"):
            mine_ord = 8
        if theirs_ird == 0x3FFF and not self.has("ord-not-left"):
            mine_ord = 0x3FFF
        if self.has("a-always"):
            a = 0x8000
        if not a and not self.has("b-without-a"):
            b = c = d = 0
        if self.has("rtr-always-b"):
            b = 0x4000
        if self.has("a-dropped"):
            a = 0
        if self.has("no-rtr"):
            b = c = d = 0
        if self.has("one-rtr") and b and c:
            c = d = 0
        self.empty, self.peer_to_peer = bool(a and b), bool(a)
        return struct.pack(">HH", a | b | mine_ird, c | d | mine_ord)

    def initiate(self):
        flags, revision, private = self.flags, 1, b""
        if self.enhanced:
            flags, revision = flags | S, 2
            private = struct.pack(">HH", 4, 4) if self.has("never-peer-to-peer") else \
                struct.pack(">HH", 0xC004, 4)
            if self.has("b-without-a-asked"):
                private = struct.pack(">HH", 0x4004, 4)
            if self.has("s-asked-without-octets"):
                private = b""
        if self.has("r-in-request"):
            flags |= R
        if self.has("res-in-request"):
            flags |= 1
        if self.has("no-crc-asked"):
            flags &= ~C
        key = b"MPA ID Req frame" if self.has("key-of-request") else REQUEST
        self.send(startup(key, flags, private,
                          3 if self.has("request-of-revision-3") else revision))
        if self.has("fpdu-before-the-reply"):
            self.send(self.make(b"early"))
        theirs, version, answer = self.frame(REPLY)
        if theirs & R and not self.has("rejection-ignored"):
            raise Ended("rejected")
        if self.has("checks-res-of-reply") and theirs & 0x0F or \
                version > 2 and not self.has("reply-of-any-revision"):
            raise Ended("frame")
        if theirs & S and version > 1 and len(answer) < 4 and \
                not self.has("s-in-reply-without-octets") and \
                (answer or not self.has("s-in-reply-alone")):
            raise Ended("short")
        self.agree(flags, theirs)
        self.accept(private, answer)
        if private[:1] >= b"\xc0" and not self.has("no-rtr-sent") and (
                answer[:1] >= b"\xc0" or self.has("rtr-not-named")):
            self.send(self.make(b""))
        self.first()

    def accept(self, ours, theirs):
        """DDP may end the connection."""

    def first(self):
        if self.ulpdus != "sink":
            self.send(self.make(b"first"))

    def agree(self, ours, theirs):
        self.rx_marked, self.tx_marked = bool(ours & M), bool(theirs & M)
        self.crc = self.sends_crc = bool((ours | theirs) & C)
        if not theirs & C:
            if self.has("crc-only-if-peer"):
                self.sends_crc = False
            if self.has("unchecked-if-peer-has-none"):
                self.crc = False
        if self.has("markers-unasked"):
            self.tx_marked = True
        if self.has("no-markers"):
            self.tx_marked = False

    # ---- Full Operation ----

    def marker_good(self, marker, ptr):
        reserved, seen = struct.unpack(">HH", marker)
        if self.has("markers-unchecked"):
            return True
        if self.has("checks-reserved") and reserved:
            return False
        if self.has("checks-low-bits"):
            return seen == ptr
        return seen & ~3 == ptr

    def take(self):
        """The next ULPDU."""
        self.rx_pos += len(self.need(self.owed))
        raw, body, left, head = bytearray(), bytearray(), None, 0
        good = True
        while left is None or left:
            if self.rx_marked and (self.rx_pos + len(raw)) % 512 == 0:
                if self.has("marker-in-one-read") and 0 < len(self.ahead) < 4:
                    raise Ended("cut")
                marker = self.need(4)
                if not raw:
                    head = 4
                good = self.marker_good(marker, len(raw) - head if raw else 0) and good
                if not self.has("keeps-markers"):
                    raw += marker
                else:
                    raw, body = raw + marker, body + marker
            part = self.need(4 if self.rx_marked or left is None else left)
            raw += part
            body += part
            if left is None:
                length = struct.unpack(">H", body[-4:-2])[0]
                if length > 64768 or not length and not (self.empty and not self.rx_pos):
                    raise Ended("length")
                left = 2 + length + 3 & ~3     # with the CRC, without the octets already received
                if self.has("not-whole"):
                    left, self.owed, self.crc = left - 4, 4, False
            else:
                left -= len(part)
        self.rx_pos += len(raw)
        self.check(raw, body, length, good)
        return bytes(body[2:2 + length])

    def check(self, raw, body, length, good):
        want, seen = crc32c(raw[:-4]), bytes(raw[-4:])
        if self.has("crc-first-octets"):
            want, seen = want[:3], seen[:3]
        if self.has("crc-last-octet"):
            want, seen = want[3:], seen[3:]
        if self.has("crc-not-over-pad"):
            seen = want if body[2 + length:-4].strip(b"\0") else seen
        if self.has("crc-either-order") and seen == want[::-1]:
            seen = want
        if self.has("crc-zero-is-none") and seen == bytes(4):
            seen = want
        first = self.rx_pos == len(raw)
        unchecked = self.has("crc-unchecked") or not self.crc or \
            first and self.has("first-fpdu-unchecked")
        if seen != want and not unchecked or not good:
            if self.has("complains-of-the-first") and first or \
                    self.has("complains") and not first:
                self.send(self.make(b"wrong CRC"))
            if self.has("goes-on-after-an-error"):
                raise ValueError
            raise Ended("marker" if seen == want else "crc")
        if self.has("checks-pad") and any(body[2 + length:-4]):
            raise Ended("pad")

    def make(self, ulpdu):
        """An FPDU."""
        has = self.has
        pad = -(2 + len(ulpdu)) % 4
        length = len(ulpdu) + (pad if has("length-with-pad") else 0)
        todo = struct.pack("<H" if has("length-little-endian") else ">H", length) + \
            ulpdu + (b"\xff" if has("pad-of-ones") else b"\0") * pad
        if has("no-pad"):
            todo = todo[:len(todo) - pad]
        out, head = bytearray(), None
        for off in range(0, len(todo) + 4, 4):
            at = self.tx_pos + len(out)
            if self.tx_marked and at % (256 if has("marker-every-256") else 512) == 0 and \
                    not (at == 0 and has("first-marker-late")) and \
                    not (off >= len(todo) and has("no-marker-before-crc")):
                ptr = 0 if head is None else len(out) - head
                if has("marker-zero"):
                    ptr = 0
                if has("marker-from-the-front") and ptr:
                    ptr = len(out)
                if has("marker-from-ulpdu") and ptr:
                    ptr -= 2
                out += struct.pack(">HH", bool(ptr) and has("marker-reserved"), ptr)
            if head is None:
                head = len(out)
            out += todo[off:off + 4]
        covered = out[head:] if has("marker-outside-crc") else out
        crc = crc32c(covered) if self.sends_crc else b"none"
        if has("crc-zero"):
            crc = bytes(4)
        if has("crc-big-endian"):
            crc = crc[::-1]
        self.tx_pos += len(out) + 4
        return bytes(out + crc)

    def answer(self, ulpdu):
        if not ulpdu and not self.has("rtr-delivered"):
            return
        if self.has("at-most-1024") and len(ulpdu) > 1024:
            raise Ended("too long")
        if self.has("changes-octets"):
            ulpdu = bytes([ulpdu[0] ^ 1]) + ulpdu[1:]
        if self.has("two-fpdus") and len(ulpdu) > 1:
            self.send(self.make(ulpdu[:1]))
            ulpdu = ulpdu[1:]
        if self.has("swaps-two") and self.rx_pos > 2048:
            if self.held is None:
                self.held = ulpdu
                return
            self.send(self.make(ulpdu))
            ulpdu, self.held = self.held, None
        self.send(self.make(ulpdu))

    def operate(self):
        if self.ulpdus == "source":
            self.take()
            for number in range(300):
                self.send(self.make(b"source" * (number % 100 + 1)))
            while self.more():
                pass
            raise Ended("end")
        while True:
            before = self.reads
            if self.has("one-fpdu-a-read") and len(self.ahead) > 256:
                self.ahead = b""
            try:
                ulpdu = self.take()
            except ValueError:
                continue
            if self.has("fpdu-in-one-read") and self.reads > before + 1:
                raise Ended("cut")
            if self.has("loses-the-last") and self.fin_is_here():
                raise Ended("enough")
            if self.ulpdus == "echo":
                self.answer(ulpdu)
            if self.has("ends-at-once"):
                raise Ended("enough")

    def fin_is_here(self):
        try:
            return not self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False

    def run(self):
        try:
            self.sock.settimeout(self.patience)
            if self.role == RESPONDER:
                self.respond()
            else:
                self.initiate()
            self.sock.settimeout(None)
            self.operate()
        except Ended as why:
            self.over(str(why))
        except OSError:
            if self.has("dies-of-a-reset") and self.ahead and self.tx_pos or \
                    self.has("dies-without-rtr") and self.peer_to_peer and not self.rx_pos:
                raise
        finally:
            self.waiting = False
            self.sock.close()

    def over(self, why):
        try:
            if self.has("delivers-parts") and why == "end" and self.tx_pos and \
                    len(self.ahead) > 2:
                self.send(self.make(self.ahead[:8]))
            if self.has("ends-in-an-fpdu") and why == "end" and self.tx_pos:
                self.send(self.make(b"cut off")[:-3])
            if self.has("never-closes") and why == "end" and self.tx_pos or \
                    self.has("malformed-left-open") and why in ("key", "revision",
                                                                "length"):
                while self.more():
                    pass
                self.waiting = True
                threading.Event().wait(self.stay)
        except OSError:
            pass

    patience = 10   # seconds for startup
    stay = 60       # time for which a connection that is never closed is kept


class End:
    """Listens, or connects again and again; a thread for each connection."""

    def __init__(self, role, at, broken=(), markers=False, enhanced=False, ulpdus="echo"):
        self.kind = role, frozenset(broken), markers, enhanced, ulpdus
        self.connection = Connection
        if ulpdus == "ddp":
            import end_ddp  # pylint: disable=import-outside-toplevel,cyclic-import
            self.connection = end_ddp.DdpConnection
        self.connections = {}       # by both addresses
        self.role, self.stopped, self.thread = role, False, None
        if role == RESPONDER:
            self.listener = socket.create_server(at, family=socket.AF_INET6 if ":" in at[0]
                                                 else socket.AF_INET)
            self.at = self.listener.getsockname()[:2]
        else:
            self.at = at

    def start(self):
        self.thread = threading.Thread(daemon=True, target=self.serve
                                       if self.role == RESPONDER else self.call)
        self.thread.start()
        return self

    def stop(self):
        self.stopped = True
        if self.role == RESPONDER:
            # The next listener may get this file descriptor, but not our thread.
            try:
                self.listener.shutdown(socket.SHUT_RDWR)
            except OSError:     # closed by itself
                pass
            self.thread.join()
            self.listener.close()

    def known(self, sock):
        connection = self.connection(sock, *self.kind)
        self.connections[frozenset((sock.getsockname()[:2],
                                    sock.getpeername()[:2]))] = connection
        return connection

    def serve(self):
        while not self.stopped:
            try:
                connection = self.known(self.listener.accept()[0])
            except OSError:     # it has been reset already, or the listener is gone
                continue
            if connection.has("dies-of-a-reset", "dies-without-rtr"):
                try:
                    connection.run()
                except OSError:
                    self.listener.close()
                    return
            else:
                threading.Thread(target=connection.run, daemon=True).start()

    def call(self):
        while not self.stopped:
            try:
                sock = socket.create_connection(self.at)
            except ConnectionResetError:
                continue
            except OSError:
                return
            try:
                self.known(sock).run()
            except OSError:     # it has been reset already
                sock.close()


def main():
    parser = argparse.ArgumentParser(
        prog="end", description="An MPA end in user space; for trying mpa conform.")
    parser.add_argument("--peer", choices=("echo", "sink", "source", "ddp"), default="echo",
                        help="what it does with ULPDUs")
    parser.add_argument("--connect", action="store_true", help="be the initiator")
    parser.add_argument("--markers", action="store_true", help="ask for markers")
    parser.add_argument("--enhanced", action="store_true", help="RFC 6581, of an initiator")
    parser.add_argument("--break", action="append", default=[], dest="broken",
                        choices=[*SWITCHES, *CHOICES], metavar="SWITCH",
                        help="a rule not to keep: " + ", ".join(SWITCHES))
    parser.add_argument("port", type=int)
    options = parser.parse_args()
    end = End(INITIATOR if options.connect else RESPONDER, ("", options.port),
              options.broken, options.markers, options.enhanced, options.peer)
    if options.connect:
        end.call()
    else:
        end.serve()


if __name__ == "__main__":
    main()
