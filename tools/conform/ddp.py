# SPDX-License-Identifier: GPL-2.0
"""DDP and RDMAP (RFC 5041, RFC 5040) as far as MPA carries them: --peer ddp. The tested end
is rping's server: a Send names a buffer of ours, which it reads, and then one that it writes
to. Or it is rping's client: its Sends name its buffers, and ours let it continue."""
import struct

import peer
import rfc5044
import rfc6581
from catalogue import EITHER, INFO, INITIATOR, MUST, RESPONDER, SHOULD, group
from peer import C, M, S, Fail, depths, shown

WRITE, READ, RESPONSE, SEND, TERMINATE = 0, 1, 2, 3, 7      # RFC 5040, figure 4
TAGGED, LAST, DV, RV = 0x80, 0x40, 1, 0x40
SOURCE, SINK, NO_STAG = 0x5100, 0x5200, 0xdeadbe00
BASE, SIZE = 0x500000001000, 64
DATA = b"rdma-ping-0: conform".ljust(SIZE - 1, b"x") + b"\0"
QUEUE = {SEND: 0, READ: 1, TERMINATE: 2}
REMOTE_READ = struct.Struct(">IQIIQ")       # a Read Request after its DDP header

in_group = group("ddp")


def case(title, reference, level=MUST, text=None, roles=EITHER):
    return in_group(title, reference, roles, level, text)


def server_case(title, reference):
    """Of one that reads and writes."""
    return case(title, reference, roles=RESPONDER)


def client_case(title, reference):
    """Of one that has its buffers read and written."""
    return case(title, reference, roles=INITIATOR)


# ---- segments ----

def untagged(opcode, payload=b"", msn=1, queue=None, mo=0, ddp=LAST | DV, rdmap=RV, stag=0):
    return struct.pack(">BBIIII", ddp, rdmap | opcode, stag,
                       QUEUE.get(opcode, 0) if queue is None else queue, msn, mo) + payload


def tagged(opcode, stag, to, payload=b"", ddp=TAGGED | LAST | DV, rdmap=RV):
    return struct.pack(">BBIQ", ddp, rdmap | opcode, stag, to) + payload


def advert(stag=SOURCE, to=BASE, size=SIZE):
    """The ULPDU of rping: address, key and length of a buffer."""
    return struct.pack(">QII", to, stag, size)


class Segment:
    """A DDP segment that came."""

    def __init__(self, octets):
        self.octets = octets
        self.tagged = bool(octets[:1] and octets[0] & TAGGED)
        size = 14 if self.tagged else 18
        if len(octets) < size:
            raise Fail(f"a ULPDU of {len(octets)} octets has no DDP header: {shown(octets)}")
        self.ddp, self.rdmap = octets[:2]
        self.opcode, self.last = self.rdmap & 0xF, bool(self.ddp & LAST)
        if self.tagged:
            self.stag, self.to = struct.unpack(">IQ", octets[2:14])
        else:
            self.stag, self.queue, self.msn, self.mo = struct.unpack(">IIII", octets[2:18])
        self.payload = octets[size:]


def begin(p):
    """Full Operation. A responder gets one RDMA Read each way, as siw serves none without
    RFC 6581, and may not speak before the first FPDU. Returns an initiator's first Send."""
    if p.role == RESPONDER:
        p.start(C | S, depths(1, 1), 2)
        p.still_there("no FPDU was sent")
        return None
    p.start(first=False)
    segment = Segment(p.ulpdu() or p.ulpdu())
    if p.empty and segment.opcode in (WRITE, READ):     # the RTR
        if segment.opcode == READ:
            p.put(tagged(RESPONSE, *REMOTE_READ.unpack(segment.payload)[:2]))
        segment = Segment(p.ulpdu())
    return only(segment, SEND, "a Send")


def take(p, opcode, what):
    """The next segment, which must be of that kind."""
    return only(Segment(p.ulpdu()), opcode, what)


def only(segment, opcode, what):
    if segment.opcode == TERMINATE and not segment.tagged and opcode != TERMINATE:
        raise Fail(f"{what} was due, and a Terminate came: {reason(segment)}")
    if segment.opcode != opcode:
        raise Fail(f"{what} was due, and opcode {segment.opcode} came: {shown(segment.octets)}")
    return segment


def is_asked(p, stag=SOURCE):
    """After a first Send: the Read Request, its header apart."""
    begin(p)
    p.put(untagged(SEND, advert(stag)))
    segment = take(p, READ, "an RDMA Read Request")
    if len(segment.payload) != REMOTE_READ.size:
        raise Fail(f"an RDMA Read Request with {len(segment.payload)} octets after the DDP "
                   f"header, expected {REMOTE_READ.size}")
    return segment, REMOTE_READ.unpack(segment.payload)


def goes_on(p):
    """What comes after a first good Send of ours."""
    if p.role == RESPONDER:
        return take(p, READ, "an RDMA Read Request")
    return take(p, SEND, "a second Send")


def speaks(p):
    """Full Operation in which the tested end may send a Terminate."""
    return is_asked(p) if p.role == RESPONDER else begin(p)


def named(segment):
    """Offset, STag and size of the buffer that rping's client names in a Send."""
    if len(segment.payload) != 16:
        raise Fail(f"a Send of {len(segment.payload)} octets, expected rping's 16")
    return struct.unpack(">QII", segment.payload)


def read_from(p, stag, to, size):
    p.put(untagged(READ, REMOTE_READ.pack(SINK, BASE, size, stag, to)))


def until_written(p):
    """The whole of rping's round, up to the second Send of the tested end: its segments."""
    _, (sink, to, size, _, _) = is_asked(p)
    p.put(tagged(RESPONSE, sink, to, DATA[:size]))
    take(p, SEND, "a Send after the RDMA Read")
    p.put(untagged(SEND, advert(SINK), 2))
    segments = []
    while not segments or segments[-1].opcode == WRITE:
        segments.append(Segment(p.ulpdu()))
    return segments


def equal(rows):
    for what, seen, want in rows:
        if seen != want:
            raise Fail(f"{what}: expected {want:#x}, seen {seen:#x}")


def untagged_header(segment, opcode, msn):
    equal((("octet 0, T L Rsvd DV", segment.ddp, LAST | DV),
           ("octet 1, RV Rsv Opcode", segment.rdmap, RV | opcode),
           ("Invalidate STag", segment.stag, 0), ("QN", segment.queue, QUEUE[opcode]),
           ("MSN", segment.msn, msn), ("MO", segment.mo, 0)))


# ---- Terminates ----

LAYERS = {0: "RDMAP", 1: "DDP", 2: "MPA"}


def control(segment):
    """(layer, error type, error code, header bits, reserved) of a Terminate"""
    if len(segment.payload) < 4:
        raise Fail(f"a Terminate of {len(segment.payload)} octets")
    value = struct.unpack(">I", segment.payload[:4])[0]
    return value >> 28, value >> 24 & 15, value >> 16 & 255, value >> 13 & 7, value & 0x1FFF


def reason(segment):
    layer, kind, code, _, _ = control(segment)
    return f"layer {layer} ({LAYERS.get(layer, '?')}), error type {kind}, code {code:#04x}"


def terminated(p, *allowed):
    """A Terminate comes with one of these (layer, type, code); None: any."""
    return with_code(take(p, TERMINATE, "a Terminate"), *allowed)


def with_code(segment, *allowed):
    def fits(seen):
        return any(all(a is None or a == b for a, b in zip(want, seen)) for want in allowed)

    layer, kind, code = seen = control(segment)[:3]
    if not fits(seen):
        raise Fail(reason(segment) + "; layer and type are in each other's place"
                   * fits((kind, layer, code)))
    return segment


def wrong(title, reference, expected, make, *others):
    """A case: a first segment that is wrong, and its Terminate; others: by an end that
    looks at something else first."""
    @case(title, reference + "; RFC 5040, 4.8; 7.1",
          text=f"""Start, and send as the first DDP segment: {title}. Expected: a Terminate with
          layer {expected[0]}, error type {expected[1]}, error code {expected[2]}"""
          + "".join("; or {}, {}, {}".format(*other) for other in others) + ".")
    def _(p):
        begin(p)
        p.put(make())
        return reason(terminated(p, expected, *others))


# ---- the good ----

@server_case("a Send is taken, and a Read Request follows", "RFC 5041, 4.3; RFC 5040, 4.1; 5.2.1")
def _(p):
    """Start, and send an RDMAP Send as rping does, with address, key and length of a buffer.
    Expected: an RDMA Read Request: T 0, L 1, DV 1, RV 1, reserved bits 0, queue 1, MSN 1, MO 0,
    Invalidate STag 0."""
    segment, _ = is_asked(p)
    untagged_header(segment, READ, 1)


@server_case("the RDMA Read Request names the buffer", "RFC 5040, 4.4")
def _(p):
    """The same.
    Expected: source STag and offset are those that were sent, the size is not larger."""
    _, (_, _, size, stag, to) = is_asked(p)
    equal((("Data Source STag", stag, SOURCE), ("Data Source Tagged Offset", to, BASE)))
    if not 0 < size <= SIZE:
        raise Fail(f"RDMA Read Message Size: expected 1 to {SIZE}, seen {size}")
    return f"{size} octets"


@server_case("nothing follows before the RDMA Read Response", "RFC 5040, 5.2.2; 5.5")
def _(p):
    """The same, without an answer to the Read.
    Expected: no segment, and the connection stays."""
    is_asked(p)
    p.still_there("the RDMA Read was not answered")


@server_case("a Read Response completes the Read", "RFC 5040, 5.2.2; RFC 5041, 5.3")
def _(p):
    """Answer the Read.
    Expected: a Send, the first one on queue 0: MSN 1."""
    _, (sink, to, size, _, _) = is_asked(p)
    p.put(tagged(RESPONSE, sink, to, DATA[:size]))
    untagged_header(take(p, SEND, "a Send after the RDMA Read"), SEND, 1)


@server_case("a Read Response in three segments", "RFC 5041, 5.2; RFC 5040, 5.2.2")
def _(p):
    """Answer the Read in three segments of which the last has L.
    Expected: no Send before the last one, then a Send."""
    _, (sink, to, size, _, _) = is_asked(p)
    for first, end in ((0, 9), (9, 10)):
        p.put(tagged(RESPONSE, sink, to + first, DATA[first:end], TAGGED | DV))
    p.still_there("the last segment of the Read Response was not sent")
    p.put(tagged(RESPONSE, sink, to + 10, DATA[10:size]))
    take(p, SEND, "a Send after the RDMA Read")


@server_case("RDMA Writes fill the buffer", "RFC 5041, 4.2; 5.2; RFC 5040, 5.1")
def _(p):
    """Answer the Read, and send a second Send, which names a sink.
    Expected: RDMA Writes to that STag, one after the other from its offset on, within it, with
    what was read, L in the last one alone; then a Send."""
    *writes, last = until_written(p)
    if last.opcode != SEND or not writes:
        raise Fail(f"{len(writes)} RDMA Writes, then opcode {last.opcode}")
    to, octets = BASE, b""
    for segment in writes:
        equal((("T", segment.tagged, True), ("octet 0, T L Rsvd DV", segment.ddp & ~LAST,
                                             TAGGED | DV),
               ("octet 1, RV Rsv Opcode", segment.rdmap, RV | WRITE),
               ("STag", segment.stag, SINK), ("Tagged Offset", segment.to, to),
               ("L", segment.last, segment is writes[-1])))
        to, octets = to + len(segment.payload), octets + segment.payload
    if not octets or not DATA.startswith(octets):
        raise Fail(f"expected the octets that were read, seen {shown(octets)}")
    return f"{len(octets)} octets in {len(writes)} segments"


@server_case("its second Send has the next MSN", "RFC 5041, 4.3")
def _(p):
    """The same.
    Expected: MSN 2 on queue 0."""
    untagged_header(until_written(p)[-1], SEND, 2)


@server_case("its second Read Request has the next MSN", "RFC 5041, 4.3")
def _(p):
    """The same, and a third Send for the next round.
    Expected: an RDMA Read Request, MSN 2 on queue 1."""
    until_written(p)
    p.put(untagged(SEND, advert(), 3))
    untagged_header(take(p, READ, "an RDMA Read Request"), READ, 2)


@case("a Send in two segments", "RFC 5041, 4.3; 5.2; 5.4")
def _(p):
    """Send 7 octets of the first Send, without L; then the rest, MO 7.
    Expected: no segment before the second one, then what follows it."""
    begin(p)
    p.put(untagged(SEND, advert()[:7], ddp=DV))
    p.still_there("a part of a Send was sent")
    p.put(untagged(SEND, advert()[7:], mo=7))
    goes_on(p)


@case("reserved bits are not checked", "RFC 5041, 4.1; RFC 5040, 4.1")
def _(p):
    """Send the first Send with all reserved bits of the DDP and RDMAP control octets, and with
    an Invalidate STag, which a Send does not have.
    Expected: what follows it."""
    begin(p)
    p.put(untagged(SEND, advert(), ddp=LAST | DV | 0x3C, rdmap=RV | 0x30, stag=NO_STAG))
    goes_on(p)


@case("an empty RDMA Write to any STag", "RFC 5041, 5.2")
def _(p):
    """Send an RDMA Write without octets to an STag that does not exist, then the Send.
    Expected: what follows it: STag and offset are not checked."""
    begin(p)
    p.put(tagged(WRITE, NO_STAG, BASE), untagged(SEND, advert()))
    goes_on(p)


@case("an empty RDMA Read of any STag", "RFC 5040, 5.2.1")
def _(p):
    """Request zero octets of an STag that does not exist.
    Expected: an RDMA Read Response without octets, to the STag and offset requested."""
    begin(p)
    p.put(untagged(READ, REMOTE_READ.pack(SINK, BASE, 0, NO_STAG, 7)))
    segment = take(p, RESPONSE, "an RDMA Read Response")
    equal((("octet 0, T L Rsvd DV", segment.ddp, TAGGED | LAST | DV),
           ("STag", segment.stag, SINK), ("Tagged Offset", segment.to, BASE),
           ("octets", len(segment.payload), 0)))


# ---- the wrong: DDP ----

for _version in (0, 2, 3):
    wrong(f"an untagged one of DDP version {_version}", "RFC 5041, 4.1; 7.2", (1, 2, 6),
          lambda version=_version: untagged(SEND, advert(), ddp=LAST | version))
wrong("a tagged one of DDP version 2", "RFC 5041, 4.1; 7.2", (1, 1, 4),
      lambda: tagged(WRITE, NO_STAG, BASE, b"x", ddp=TAGGED | LAST | 2))
wrong("queue number 3", "RFC 5041, 7.1; 7.2", (1, 2, 1),
      lambda: untagged(SEND, advert(), queue=3))
for _msn in (0, 2, 0xFFFFFFFF):
    wrong(f"MSN {_msn} instead of 1", "RFC 5041, 4.3; 7.1; 7.2", (1, 2, 3),
          lambda msn=_msn: untagged(SEND, advert(), msn))
wrong("MO 1 in the first segment of a message", "RFC 5041, 4.3; 7.1; 7.2", (1, 2, 4),
      lambda: untagged(SEND, advert(), mo=1))
wrong("a Send of 1000 octets, more than rping has room for", "RFC 5041, 7.1; 7.2", (1, 2, 5),
      lambda: untagged(SEND, bytes(1000)))
wrong("an RDMA Write to an STag that does not exist", "RFC 5041, 4.2; 7.1; 7.2", (1, 1, 0),
      lambda: tagged(WRITE, NO_STAG, BASE, b"x"))

# ---- RDMAP ----

for _version in (2, 3):
    wrong(f"RDMAP version {_version}", "RFC 5040, 4.1; 7.2", (0, 2, 5),
          lambda version=_version: untagged(SEND, advert(), rdmap=version << 6))
for _opcode in (8, 15):
    wrong(f"opcode {_opcode}, which is none of RFC 5040", "RFC 5040, 4.1; 7.2", (0, 2, 6),
          lambda opcode=_opcode: untagged(opcode, advert()))
wrong("a Send on queue 1", "RFC 5040, 4.1; 7.2", (0, 2, 6),
      lambda: untagged(SEND, advert(), queue=1), (1, 2, 1))
wrong("an RDMA Read Request on queue 0", "RFC 5040, 4.1; 7.2", (0, 2, 6),
      lambda: untagged(READ, REMOTE_READ.pack(SINK, BASE, 0, NO_STAG, 0), queue=0),
      (1, 2, 1), (1, 2, 5))
wrong("a tagged Send", "RFC 5040, 4.1; 7.2", (0, 2, 6),
      lambda: tagged(SEND, NO_STAG, BASE))
wrong("an RDMA Read Request for an STag that does not exist", "RFC 5040, 5.2.1; 7.2",
      (0, 1, 0), lambda: untagged(READ, REMOTE_READ.pack(SINK, BASE, 1, NO_STAG, BASE)))


@case("a Read Response that was not requested", "RFC 5040, 5.2.2; 7.2")
def _(p):
    """Send a tagged Read Response as the first DDP segment.
    Expected: a Terminate: RDMAP, unexpected opcode; or DDP, invalid STag."""
    begin(p)
    p.put(tagged(RESPONSE, NO_STAG, BASE, b"x"))
    return reason(terminated(p, (0, 2, 6), (1, 1, 0)))


for _what, _want, _act in (
        ("below its buffer", (1, 1, 1), lambda s, t, n: tagged(RESPONSE, s, (t - 1) % 2**64,
                                                             bytes(n))),
        ("beyond its buffer", (1, 1, 1), lambda s, t, n: tagged(RESPONSE, s, t + n, b"x")),
        ("that is too long", (1, 1, 1), lambda s, t, n: tagged(RESPONSE, s, t, bytes(n + 1))),
        ("to another STag", (1, 1, 0), lambda s, t, n: tagged(RESPONSE, s ^ 0xFFFFFF00, t,
                                                              DATA[:n]))):
    @case(f"a Read Response {_what}", "RFC 5041, 7.1; 7.2; RFC 5040, 7.1",
          text=f"""Answer the Read Request with a Read Response {_what}. Expected: a Terminate
          of layer {_want[0]}, error type {_want[1]}, error code {_want[2]}; or for TO wrap, 1, 1, 3, where its
          buffer begins at 0; or of RDMAP.""", roles=RESPONDER)
    def _(p, want=_want, act=_act):
        _, (sink, to, size, _, _) = is_asked(p)
        p.put(act(sink, to, size))
        return reason(terminated(p, want, (1, 1, 3), (0, None, None)))


# ---- MPA ----

@case("a wrong CRC is in the Terminate", "RFC 5044, 8 code 2; RFC 5040, 4.8; 7.1")
def _(p):
    """Have the tested end send its first FPDU; then send one with a wrong CRC.
    Expected: a Terminate of layer 2, error type 0, error code 2."""
    speaks(p)
    if not p.crc:
        raise peer.Skip("there are no CRCs")
    p.send(p.fpdu(untagged(SEND, advert(), 2 if p.role == RESPONDER else 1), "crc"))
    return reason(terminated(p, (2, 0, 2)))


@case("a wrong marker is in the Terminate", "RFC 5044, 8 code 3; RFC 5040, 4.8; 7.1")
def _(p):
    """The same, with wrong FPDUPTRs in a long FPDU, if the tested end wants markers.
    Expected: a Terminate of layer 2, error type 0, error code 3."""
    speaks(p)
    if not p.frame.flags & M:
        raise peer.Skip("its frame has M = 0: it gets no markers")
    p.send(p.fpdu(untagged(SEND, bytes(rfc5044.INTERVAL)), "marker"))
    return reason(terminated(p, (2, 0, 3)))


# ---- Terminate ----

def after_queue_3(p):
    begin(p)
    bad = untagged(SEND, advert(), queue=3)
    p.put(bad)
    return bad, take(p, TERMINATE, "a Terminate")


@case("the Terminate's DDP header", "RFC 5040, 4.1; 5.4; RFC 5041, 4.3")
def _(p):
    """Send a segment for queue 3.
    Expected: a Terminate on queue 2, MSN 1, MO 0, L 1, reserved bits 0."""
    untagged_header(after_queue_3(p)[1], TERMINATE, 1)


@case("the Terminate's reserved bits", "RFC 5040, 4.8")
def _(p):
    """The same.
    Expected: the 13 reserved bits are zero."""
    equal((("Reserved", control(after_queue_3(p)[1])[4], 0),))


@case("the Terminate has the segment's header", "RFC 5040, 4.8, figure 10", SHOULD)
def _(p):
    """The same.
    Expected: M and D are 1, R is 0; length and DDP header of the segment that was wrong."""
    bad, segment = after_queue_3(p)
    equal((("HdrCt", control(segment)[3], 6),))
    if segment.payload[4:] != struct.pack(">H", len(bad)) + bad[:18]:
        raise Fail(f"seen {shown(segment.payload[4:])}")


@case("nothing follows a Terminate", "RFC 5040, 5.4; 6.2.1")
def _(p):
    """The same, and a good Send after it.
    Expected: no segment; the connection may end."""
    after_queue_3(p)
    p.put(untagged(SEND, advert()))
    p.nothing("it has sent a Terminate")
    return p.end or "the connection stays open"


@case("a Terminate ends the stream", "RFC 5040, 5.4; 6.2.1")
def _(p):
    """Have the tested end send its first FPDU; send a Terminate.
    Expected: the connection ends, and no Terminate comes."""
    speaks(p)
    p.put(untagged(TERMINATE, struct.pack(">I", 0x0207 << 16)))
    return p.closed("a Terminate was sent")


@case("a segment shorter than its header", "RFC 5041, 4.4", INFO)
def _(p):
    """Send 17 octets of an untagged header.
    Expected: a Terminate, or the connection ends; there is no code for it."""
    begin(p)
    p.put(untagged(SEND)[:17])
    if p.wait(1, p.options.timeout):
        return reason(take(p, TERMINATE, "a Terminate"))
    return p.end or "the connection stays open"


@server_case("it serves the next connection", "none")
def _(p):
    """After all these, a round of rping.
    Expected: the tested end reads, writes and sends."""
    until_written(p)


# ---- rping's client ----

@client_case("a client's first Send", "RFC 5041, 4.3; RFC 5040, 4.1")
def _(p):
    """Start.
    Expected: a Send with address, key and length of a buffer: T 0, L 1, DV 1, RV 1, reserved
    bits 0, queue 0, MSN 1, MO 0, Invalidate STag 0."""
    segment = begin(p)
    untagged_header(segment, SEND, 1)
    named(segment)


@client_case("its buffer is read", "RFC 5040, 4.4; 5.2.2; RFC 5041, 4.2; 5.2")
def _(p):
    """Request the buffer that its first Send names.
    Expected: RDMA Read Response segments to the STag requested, one after the other from the
    offset requested on, of that size together, L in the last one alone."""
    to, stag, size = named(begin(p))
    read_from(p, stag, to, size)
    count = 0
    while count < size:
        segment = take(p, RESPONSE, "an RDMA Read Response")
        octets = len(segment.payload)
        equal((("octet 0, T L Rsvd DV", segment.ddp & ~LAST, TAGGED | DV),
               ("octet 1, RV Rsv Opcode", segment.rdmap, RV | RESPONSE),
               ("STag", segment.stag, SINK), ("Tagged Offset", segment.to, BASE + count),
               ("L", segment.last, count + octets >= size)))
        count += octets
        if not octets:
            raise Fail(f"{count} of {size} octets, then a segment without any")
    equal((("octets", count, size),))
    return f"{size} octets"


@client_case("a client's second Send has the next MSN", "RFC 5041, 4.3")
def _(p):
    """Send a Send.
    Expected: a Send that names the second buffer, MSN 2 on queue 0."""
    begin(p)
    p.put(untagged(SEND, advert()))
    segment = goes_on(p)
    untagged_header(segment, SEND, 2)
    named(segment)


def second_buffer(p):
    begin(p)
    p.put(untagged(SEND, advert()))
    return named(goes_on(p))


@client_case("its second buffer is written", "RFC 5041, 5.2; RFC 5040, 5.1")
def _(p):
    """Write the buffer that its second Send names, in two segments, and send a Send.
    Expected: the Send of the next round, or the end of the connection; no Terminate."""
    to, stag, size = second_buffer(p)
    p.put(tagged(WRITE, stag, to, bytes(1), TAGGED | DV),
          tagged(WRITE, stag, to + 1, bytes(size - 1)), untagged(SEND, advert(), 2))
    if p.wait(1, p.options.timeout):
        untagged_header(take(p, SEND, "a Send"), SEND, 3)
    return p.end or "the next round"


for _what, _reference, _first, _want, _others in (
        ("beyond its buffer", "RFC 5040, 5.2.1; 7.2", lambda to, size: to + size,
         (0, 1, 1), ()),
        ("below its buffer", "RFC 5040, 5.2.1; 7.2", lambda to, size: to - 1, (0, 1, 1), ()),
        ("whose end is over 2^64", "RFC 5040, 5.2.1; 7.2", lambda to, size: 2**64 - 1,
         (0, 1, 4), ((0, 1, 1),))):
    @case(f"an RDMA Read {_what}", _reference, roles=INITIATOR,
          text=f"""Request two octets of the buffer that its first Send names, from an offset
          {_what}. Expected: a Terminate with layer 0, error type 1, error code
          {_want[2]}{" or 1" * bool(_others)}.""")
    def _(p, first=_first, want=_want, others=_others):
        to, stag, size = named(begin(p))
        read_from(p, stag, first(to, size), 2)
        return reason(terminated(p, want, *others))


for _what, _first in (("beyond its buffer", lambda to, size: to + size),
                      ("below its buffer", lambda to, size: to - 1)):
    @case(f"an RDMA Write {_what}", "RFC 5041, 7.1; 7.2; RFC 5040, 7.1", roles=INITIATOR,
          text=f"""Write an octet {_what} that its second Send names. Expected: a Terminate of
          layer 1, error type 1, error code 1; or of RDMAP.""")
    def _(p, first=_first):
        to, stag, size = second_buffer(p)
        p.put(tagged(WRITE, stag, first(to, size), b"x"))
        return reason(terminated(p, (1, 1, 1), (0, None, None)))


@client_case("MSN 2 in the first RDMA Read Request", "RFC 5041, 4.3; 7.1; 7.2")
def _(p):
    """Request the buffer that its first Send names, with MSN 2 on queue 1.
    Expected: a Terminate with layer 1, error type 2, error code 3."""
    to, stag, size = named(begin(p))
    p.put(untagged(READ, REMOTE_READ.pack(SINK, BASE, size, stag, to), 2))
    return reason(terminated(p, (1, 2, 3)))


# ---- replies that an enhanced initiator cannot accept ----

def answered(p, ird, ord_, bits):
    """The first segment after that reply; None: an FPDU without ULPDU."""
    p.reply(C | S, depths(ird, ord_, bits), 2)
    p.operate(C)
    p.empty = True
    ulpdu = p.ulpdu()
    return Segment(ulpdu) if ulpdu else None


def asks(p):
    theirs = rfc6581.data(p.take_frame())
    if not theirs:
        raise peer.Skip("its request is not enhanced")
    return theirs


@client_case("ORD above its IRD", "RFC 6581, 8 code 6; 9.1; RFC 5040, 4.8")
def _(p):
    """Reply to an enhanced request with ORD 16382.
    Expected: the initiator raises its IRD, and sends a Send; or a Terminate with layer 2, error
    type 0, error code 6."""
    theirs = asks(p)
    if theirs.ird >= 16382:
        raise peer.Skip(f"its IRD is {theirs.ird}")
    segment = answered(p, theirs.ord, 16382, "".join(
        bit for bit in "ABCD" if getattr(theirs, bit.lower())))
    if segment and segment.opcode == TERMINATE:
        return reason(with_code(segment, (2, 0, 6)))
    return "it continues"


@client_case("an RTR that it has not named", "RFC 6581, 8 code 7; 9.2; RFC 5040, 4.8")
def _(p):
    """Reply to an enhanced request with A and an RTR that it does not name.
    Expected: this RTR; or a Terminate with layer 2, error type 0, error code 7."""
    theirs = asks(p)
    others = [bit for bit in "BCD" if not getattr(theirs, bit.lower())]
    if not theirs.a or not others:
        raise peer.Skip("it asks for no RTR" if not theirs.a else "it names each RTR")
    segment = answered(p, theirs.ord, theirs.ird, "A" + others[-1])
    if (segment.opcode if segment else None) == {"B": None, "C": WRITE, "D": READ}[others[-1]]:
        return f"it sends {others[-1]}"
    if not segment:
        raise Fail("an FPDU without ULPDU came, which the reply does not name")
    return reason(with_code(only(segment, TERMINATE, "a Terminate"), (2, 0, 7)))


@case("a wrong CRC of a segment of DDP version 2", "RFC 5044, 6; 8 code 2; RFC 5040, 7.1")
def _(p):
    """Have the tested end send its first FPDU; then send a segment of DDP version 2 in an FPDU
    with a wrong CRC.
    Expected: a Terminate of layer 2, error type 0, error code 2: DDP does not get the ULPDU."""
    speaks(p)
    if not p.crc:
        raise peer.Skip("there are no CRCs")
    p.send(p.fpdu(untagged(SEND, advert(), ddp=LAST | 2), "crc"))
    return reason(terminated(p, (2, 0, 2)))


@client_case("an RDMA Write whose end is over 2^64", "RFC 5041, 7.1; 7.2; RFC 5040, 7.1")
def _(p):
    """Write two octets to the buffer that its second Send names, at offset 2^64 - 1.
    Expected: a Terminate of layer 1, error type 1, error code 1 or 3; or of RDMAP."""
    _, stag, _ = second_buffer(p)
    p.put(tagged(WRITE, stag, 2**64 - 1, b"xx"))
    return reason(terminated(p, (1, 1, 1), (1, 1, 3), (0, None, None)))


@case("an RDMA Write whose first segment is empty", "RFC 5041, 7.1; 7.2; RFC 5040, 7.1")
def _(p):
    """Start, and send as the first DDP segments: two of one RDMA Write to STag 0, which does not
    exist. The first one has no octets, the second one has one.
    Expected: a Terminate of layer 1, error type 1, error code 0; or of RDMAP."""
    begin(p)
    p.put(tagged(WRITE, 0, 0, b"", TAGGED | DV), tagged(WRITE, 0, 0, b"x"))
    return reason(terminated(p, (1, 1, 0), (0, None, None)))


@server_case("a Read Response whose second segment is beyond its buffer", "RFC 5041, 7.1; 7.2")
def _(p):
    """Answer the Read Request by two segments. The second one begins at the end of the buffer.
    Expected: a Terminate of layer 1, error type 1, error code 1; or of RDMAP."""
    _, (sink, to, size, _, _) = is_asked(p)
    p.put(tagged(RESPONSE, sink, to, bytes(size // 2), TAGGED | DV),
          tagged(RESPONSE, sink, to + size, bytes(size - size // 2)))
    return reason(terminated(p, (1, 1, 1), (0, None, None)))
