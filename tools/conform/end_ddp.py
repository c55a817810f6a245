# SPDX-License-Identifier: GPL-2.0
"""An end that is rping over DDP and RDMAP, with switches: what --peer ddp is tried with. It
shares nothing with ddp.py but the RFCs. A responder is rping's server, an initiator its
client."""
import struct

from end import INITIATOR, Connection, Ended

ROOM, SIZE = 16, 64         # of a Send, and of the buffer that is read into
SINK, SINK_AT = 0x77000100, 0x2000
# Of a client
READABLE, WRITABLE, BUFFER_AT = 0x77000200, 0x77000300, 0x7fff12345001
SENDS, READS, TERMINATES = range(3)
QUEUES = {3: SENDS, 4: SENDS, 5: SENDS, 6: SENDS, 1: READS, 7: TERMINATES}
RDMAP, DDP, MPA = range(3)


class Refused(Exception):
    """layer, error type, code, headers of the segment or not"""


class DdpConnection(Connection):
    """One stream. step: what the next Send is."""

    def __init__(self, *args):
        super().__init__(*args)
        self.msn_in, self.msn_out = [1, 1, 1], [1, 1, 1]
        self.partly = b""       # of a Send
        self.reading = None     # octets that a Read still waits for
        self.buffer = b""
        self.writing = False    # a message has more segments
        self.step, self.source = "source", None

    def first(self):
        self.name(READABLE)

    def accept(self, ours, theirs):
        if len(ours) < 4 or len(theirs) < 4:
            return
        if int.from_bytes(theirs[2:4], "big") & 0x3FFF > ours[1]:
            if self.has("closes-for-ird"):
                raise Ended("depth")
            self.terminate(b"", MPA, 0, 7 if self.has("says-rtr-for-ird") else 6)
        if ours[0] >= 0xC0 and not theirs[0] & 0x40 and not self.has("rtr-not-named"):
            if self.has("closes-for-rtr"):
                raise Ended("rtr")
            self.terminate(b"", MPA, 0, 7)

    def name(self, stag):
        self.untagged(SENDS, 3, b"" if self.has("names-nothing") else
                      struct.pack(">QII", BUFFER_AT, stag, SIZE))

    def within(self, to, size, *switches):
        """Switches: what is not looked at, below and beyond a buffer."""
        below, beyond = map(self.has, switches)
        return (BUFFER_AT <= to or below) and (to + size <= BUFFER_AT + SIZE or beyond)

    def operate(self):
        segment = b""
        try:
            while True:
                segment = self.take()
                if segment:         # RTR
                    self.segment(segment)
        except Refused as why:
            self.terminate(segment, *why.args)
        except Ended as why:
            if str(why) in ("crc", "marker") and self.tx_pos and \
                    not self.has("no-terminate-for-mpa"):
                self.terminate(b"", MPA, 0, 2 if str(why) == "crc" else 3)
            raise

    def check(self, raw, body, length, good):
        if self.has("header-before-crc") and body[2] < 0x80:
            if body[2] & 3 != 1:
                raise Refused(DDP, 2, 6)
            if int.from_bytes(body[12:16], "big") != self.msn_in[body[11] % 3]:
                raise Refused(DDP, 2, 3)
        super().check(raw, body, length, good)

    # ---- out ----

    def untagged(self, queue, opcode, octets):
        count = sum(self.msn_out) - 2 if self.has("one-msn-for-all") else self.msn_out[queue]
        if self.has("msn-from-zero"):
            count -= 1
        if not (self.has("sends-msn-stays", "client-msn-stays") and queue == SENDS or
                self.has("reads-msn-stays") and queue == READS):
            self.msn_out[queue] += 1
        self.send(self.make(struct.pack(
            ">BBIIII", 0x42 if self.has("sends-ddp-version-2") else 0x41, 0x40 | opcode, 0,
            queue, count, 0) + octets))

    def tagged(self, opcode, stag, to, octets, last=True):
        self.send(self.make(struct.pack(">BBIQ", 0xC1 if last else 0x81, 0x40 | opcode, stag,
                                        to) + octets))

    def terminate(self, segment, layer, kind, code):
        has = self.has
        if has("swaps-layer-and-type"):
            layer, kind = kind, layer
        head = segment[:14 if segment[:1] >= b"\x80" else 18]
        headers = layer < MPA and not has("terminate-without-header")
        octets = struct.pack(">I", layer << 28 | kind << 24 | code << 16 |
                             (0xC000 if headers else 0) | has("terminate-reserved"))
        if headers:
            octets += struct.pack(">H", len(segment)) + head
        if layer != RDMAP or code != 7 or has("answers-a-terminate"):
            self.untagged(SENDS if has("terminate-on-queue-0") else TERMINATES, 7, octets)
        if has("goes-on-after-a-terminate"):
            self.more()
            self.untagged(SENDS, 3, bytes(ROOM))
        self.sock.shutdown(1)
        while self.more():
            pass
        raise Ended("terminated")

    # ---- in ----

    def segment(self, octets):
        if len(octets) < 18 and (len(octets) < 14 or octets[0] < 0x80):
            raise Refused(DDP, 0, 0)
        control, rdmap = octets[:2]
        tagged = control & 0x80
        if control & 3 != 1 and not self.has("any-tagged-version" if tagged else
                                             "any-ddp-version"):
            raise Refused(DDP, *((1, 4) if tagged else (2, 6)))
        if self.has("checks-reserved-of-ddp") and control & 0x3C:
            raise Refused(DDP, 0, 0)
        if rdmap >> 6 != 1 and not self.has("any-rdmap-version"):
            raise Refused(RDMAP, 2, 5)
        opcode, last = rdmap & 15, bool(control & 0x40)
        if tagged:
            self.tagged_in(opcode, *struct.unpack(">IQ", octets[2:14]), octets[14:], last)
        else:
            self.untagged_in(opcode, *struct.unpack(">III", octets[6:18]), octets[18:], last)

    def tagged_in(self, opcode, stag, to, octets, last):
        if opcode == 0 and stag == WRITABLE and self.role == INITIATOR and \
                not self.has("refuses-writes"):
            if not self.within(to, len(octets), "writes-below", "writes-beyond") and not (
                    self.has("writes-wrap") and to + len(octets) > 1 << 64):
                raise Refused(DDP, 1, 1)
            return
        if opcode == 0:
            first, self.writing = not self.writing, not last
            if (octets or self.has("checks-stag-of-empty")) and not self.has("write-anywhere") \
                    and (first or not self.has("write-checked-once")):
                raise Refused(DDP, 1, 0)
            return
        if opcode == 2 and self.reading is None and self.has("response-unasked"):
            return
        if opcode != 2 or self.reading is None:
            raise Refused(RDMAP, 2, 6)
        if stag != SINK and not self.has("response-to-any-stag"):
            raise Refused(DDP, 1, 0)
        if not SINK_AT <= to <= SINK_AT + SIZE - len(octets) and \
                not self.has("response-anywhere") and not (
                    self.buffer and self.has("response-checked-once")):
            raise Refused(DDP, 1, 1)
        self.buffer += octets
        if last or self.has("last-not-awaited"):
            self.reading = None
            self.untagged(SENDS, 3, bytes(ROOM))
            self.step = "sink"

    def untagged_in(self, opcode, queue, msn, mo, octets, last):
        has = self.has
        if queue > 2:
            if not has("queue-unchecked"):
                raise Refused(DDP, 2, 1)
            queue = 0
        if msn != self.msn_in[queue] and not has("msn-unchecked") and not (
                has("msn-of-reads-unchecked") and queue == READS):
            raise Refused(DDP, 2, 3)
        if QUEUES.get(opcode) != queue and not (
                has("any-opcode") and opcode not in QUEUES or
                has("opcode-on-any-queue") and opcode in QUEUES):
            raise Refused(RDMAP, 2, 6)
        if mo != len(self.partly) and not has("mo-unchecked"):
            raise Refused(DDP, 2, 4)
        if queue == SENDS and len(self.partly + octets) > ROOM:
            if not has("too-long-is-cut"):
                raise Refused(DDP, 2, 5)
            octets = octets[:ROOM - len(self.partly)]
        if not last and not has("segments-are-messages"):
            self.partly += octets
            return
        octets, self.partly = self.partly + octets, b""
        self.msn_in[queue] += 1
        if opcode == 7:
            raise Refused(RDMAP, 2, 7)
        if queue == READS and opcode == 1:
            self.requested(*struct.unpack(">IQIIQ", octets))
        else:
            self.told(octets[:ROOM].ljust(ROOM, b"\0"))

    def requested(self, sink, sink_to, size, stag, to):
        if size and stag == READABLE and self.role == INITIATOR:
            self.read(sink, sink_to, size, to)
            return
        if (size or self.has("checks-empty-reads")) and not self.has("reads-anything"):
            raise Refused(RDMAP, 1, 0)
        self.tagged(2, sink, sink_to, bytes(size))

    def read(self, sink, sink_to, size, to):
        has = self.has
        if to + size > 1 << 64 and not has("reads-wrap"):
            raise Refused(RDMAP, 1, 4)
        if not self.within(to, size, "reads-below", "reads-beyond") and not (
                has("reads-wrap") and to + size > 1 << 64):
            raise Refused(RDMAP, 1, 1)
        half = size // 2
        self.tagged(2, sink, sink_to, bytes(half), has("responses-of-half"))
        if not has("responses-of-half"):
            self.tagged(2, sink, sink_to + half + has("responses-elsewhere"),
                        bytes(size - half), not has("responses-without-last"))

    def told(self, octets):
        """A Send of rping's client: where to read, or where to write. Of its server: continue."""
        if self.role == INITIATOR:
            self.name(WRITABLE if self.step == "source" else READABLE)
            self.step = "sink" if self.step == "source" else "source"
            return
        to, stag, size = struct.unpack(">QII", octets)
        if self.step == "source":
            self.reading, self.buffer, names = SIZE, b"", (SINK, SINK_AT, min(size, SIZE), stag,
                                                            to)
            if self.has("swaps-sink-and-source"):
                names = stag, to, min(size, SIZE), SINK, SINK_AT
            self.untagged(READS, 1, struct.pack(">IQIIQ", *names))
            if self.has("response-not-awaited"):
                self.untagged(SENDS, 3, bytes(ROOM))
            return
        octets = self.buffer[:size]
        self.tagged(0, stag, to, octets[:20], False)
        self.tagged(0, stag, to + 20, octets[20:], not self.has("writes-without-last"))
        self.untagged(SENDS, 3, bytes(ROOM))
        self.step = "source"
