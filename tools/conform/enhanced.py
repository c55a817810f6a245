# SPDX-License-Identifier: GPL-2.0
"""Enhanced startup: RFC 6581. Cases are skipped with ends that do not speak it."""
import rfc6581
from catalogue import INFO, INITIATOR, RESPONDER, SHOULD, group, octets
from peer import C, FIRST, M, R, S, Fail, Skip, depths
from rfc6581 import ANY

case = group("enhanced")


def begin(p, private=depths(4, 4), flags=C):
    """An enhanced request; returns the reply's frame and its data."""
    p.request(flags | S, private, 2)
    if not p.wait(1, p.options.timeout) and p.end:
        usual = p.again()
        usual.request(C | S, depths(4, 4), 2)
        if usual.wait(1, p.options.timeout):
            raise Fail(f"nothing came, then {p.end}, though the usual enhanced request "
                       "is answered")
        raise Skip("it does not speak RFC 6581: closed after an enhanced request")
    frame = p.take_frame()
    if frame.flags & R:
        raise Skip("it rejects this request")
    return frame, rfc6581.data(frame)


def told(p, *args, **more):
    """The data of the reply, which must be there."""
    frame, data = begin(p, *args, **more)
    if not data:
        raise Fail(f"octet 16 is {frame.flags:#04x}, {frame.private_len} octets of "
                   "private data: S and four octets are missing")
    return data


# ---- revisions ----

@case("revision 1 continues", "RFC 6581, 6 Rev", RESPONDER)
def _(p):
    """Send a request of revision 1.
    Expected: a reply of revision 1, with S = 0."""
    frame = p.answered()
    if frame.revision != 1 or frame.flags & S:
        raise Fail(f"Rev is {frame.revision}, octet 16 {frame.flags:#04x}")


@case("S means nothing in revision 1", "RFC 6581, 6 Res and Rev", RESPONDER)
def _(p):
    """Send a request of revision 1 with that bit set, and four octets of private data.
    Expected: a reply of revision 1 with S = 0."""
    frame = p.answered(C | S, depths(4, 4, "AB"))
    if frame.revision != 1 or frame.flags & S:
        raise Fail(f"Rev is {frame.revision}, octet 16 {frame.flags:#04x}")


@case("a plain request of revision 2", "RFC 6581, 10", RESPONDER)
def _(p):
    """Send a request of revision 2 with S = 0.
    Expected: a reply with S = 0; or the connection is closed, by an end that does not
    speak revision 2."""
    p.request(C, revision=2)
    if not p.wait(1, p.options.timeout) and p.end:
        return f"closed ({p.end})"
    frame = p.take_frame()
    if frame.flags & S:
        raise Fail("S is 1 in the reply")
    return f"Rev is {frame.revision}"


@case("an enhanced request", "RFC 6581, 10", RESPONDER)
def _(p):
    """Send a request of revision 2 with S = 1.
    Expected: a reply with S = 1; or the connection is closed, by an end that does not
    speak RFC 6581."""
    frame, _ = begin(p)
    if not frame.flags & S:
        raise Fail(f"S is 0 in the reply (octet 16 is {frame.flags:#04x})")


@case("revision of an enhanced reply", "RFC 6581, 6 Rev", RESPONDER)
def _(p):
    """Send an enhanced request.
    Expected: a reply of revision 2 or higher."""
    frame, _ = begin(p)
    if frame.revision < 2:
        raise Fail(f"Rev is {frame.revision}")


@case("an enhanced reply has its four octets", "RFC 6581, 6 Private Data; 9", RESPONDER)
def _(p):
    """Send an enhanced request.
    Expected: PD_Length is four at least."""
    told(p)


@case("reserved bits of revision 2 are not checked", "RFC 6581, 6 Res", RESPONDER)
def _(p):
    """Send an enhanced request with the four bits of Res set.
    Expected: an enhanced reply."""
    told(p, flags=C | 0x0F)


for _size in (4, 508):
    @case(f"{octets(_size)} of private data after the four", "RFC 6581, 9", RESPONDER,
          text=f"""Send an enhanced request with {octets(_size)} of the ULP. Expected:
          an enhanced reply.""")
    def _(p, size=_size):
        told(p, depths(4, 4) + p.octets(size))


for _size in (0, 1, 3):
    @case(f"S with {octets(_size)} of private data", "RFC 6581, 6 Private Data", RESPONDER,
          text=f"""Send a request of revision 2 with S = 1 and PD_Length {_size}.
          Expected: malformed: the connection is closed.""")
    def _(p, size=_size):
        p.request(C | S, bytes(size), 2)
        return p.closed("S without four octets")


# ---- IRD and ORD ----

for _ird in (0, 1, 5, 0x3FFE):
    @case(f"ORD at most the IRD of {_ird}", "RFC 6581, 9.1", RESPONDER,
          text=f"""Send an enhanced request with IRD {_ird} and ORD 1. Expected: the
          reply's ORD is {_ird} at most; or 16383, if depths are left to the ULP.""")
    def _(p, ird=_ird):
        data = told(p, depths(ird, 1))
        if data.ord > ird and data.ord != ANY:
            raise Fail(f"ORD is {data.ord}")
        return f"IRD {data.ird}, ORD {data.ord}"


@case("IRD of 0x3fff", "RFC 6581, 9.1", RESPONDER)
def _(p):
    """Send an enhanced request with IRD 0x3fff.
    Expected: ORD is 0x3fff in the reply."""
    data = told(p, depths(ANY, 4))
    if data.ord != ANY:
        raise Fail(f"ORD is {data.ord:#x}")


@case("ORD of 0x3fff", "RFC 6581, 9.1", RESPONDER)
def _(p):
    """Send an enhanced request with ORD 0x3fff.
    Expected: IRD is 0x3fff in the reply."""
    data = told(p, depths(4, ANY))
    if data.ird != ANY:
        raise Fail(f"IRD is {data.ird:#x}")


@case("IRD and ORD are what it can do", "RFC 6581, 9.1", RESPONDER, INFO)
def _(p):
    """Send an enhanced request with IRD and ORD 16382.
    Expected: the depths that this end offers."""
    data = told(p, depths(0x3FFE, 0x3FFE))
    return f"IRD {data.ird}, ORD {data.ord}"


# ---- A to D ----

@case("A = 0 is answered by A = 0", "RFC 6581, 9.2", RESPONDER)
def _(p):
    """Send an enhanced request with A = 0.
    Expected: A = 0 in the reply."""
    if told(p).a:
        raise Fail("A is 1")


@case("A = 0 goes with B, C and D = 0", "RFC 6581, 9.2", RESPONDER)
def _(p):
    """Send an enhanced request with A = 0.
    Expected: B, C and D are 0 in the reply."""
    if told(p).rtr():
        raise Fail("B, C or D is set")


@case("B, C and D are ignored if A = 0", "RFC 6581, 9.2", RESPONDER)
def _(p):
    """Send an enhanced request with A = 0, and B, C and D = 1.
    Expected: A, B, C and D are 0 in the reply."""
    data = told(p, depths(4, 4, "BCD"))
    if data.a or data.rtr():
        raise Fail("a flag is set")


for _bits in ("BCD", "B", "C", "D"):
    @case(f"A with {', '.join(_bits)} is answered by A", "RFC 6581, 9.2", RESPONDER,
          text=f"""Send an enhanced request with A = 1 and {', '.join(_bits)} = 1.
          Expected: A is 1 in the reply.""")
    def _(p, bits=_bits):
        if not told(p, depths(4, 4, "A" + bits)).a:
            raise Fail("A is 0")

    @case(f"A with {', '.join(_bits)}: an RTR is named", "RFC 6581, 9.2", RESPONDER,
          text=f"""Send an enhanced request with A = 1 and {', '.join(_bits)} = 1.
          Expected: B, C or D is 1 in the reply.""")
    def _(p, bits=_bits):
        data = told(p, depths(4, 4, "A" + bits))
        if not data.rtr():
            raise Fail("A is 1, B, C and D are 0")
        return "it names " + ", ".join(
            bit for bit in "BCD" if getattr(data, bit.lower()))


@case("what is supported is named", "RFC 6581, 9.2", RESPONDER, SHOULD)
def _(p):
    """Send enhanced requests with each of B, C and D alone, then with all three.
    Expected: what it names alone, it names with the others."""
    alone = set()
    for bit in "BCD":
        data = told(p, depths(4, 4, "A" + bit))
        if getattr(data, bit.lower()):
            alone.add(bit)
        p.fin()
        p.sock.close()
        p = p.again()
    data = told(p, depths(4, 4, "ABCD"))
    named = {bit for bit in "BCD" if getattr(data, bit.lower())}
    if alone - named:
        raise Fail(f"{', '.join(sorted(alone))} alone, but {', '.join(sorted(named))} "
                   "of all three")
    return f"it supports {', '.join(sorted(named)) or 'none'}"


# ---- RTR ----

WRITE = bytes.fromhex("c140000000000000000000000000")
READ = bytes.fromhex("4141 00000000 00000001 00000001 00000000"
                     "00000001 0000000000000000 00000000 00000002 0000000000000000")

for _bit, _what, _rtr in (("B", "FPDU without a ULPDU", b""),
                          ("C", "zero-length RDMA Write", WRITE),
                          ("D", "zero-length RDMA Read", READ)):
    for _flags in (C, M | C):
        @case(f"RTR {_bit}{', markers' if _flags & M else ''}", "RFC 6581, 9.2; 5",
              RESPONDER, text=f"""Agree on {_bit}, send the RTR, a {_what}, and a ULPDU
              then. Expected: the RTR opens the connection: the ULPDU comes back. What is
              no DDP takes {'nothing' if _bit == 'B' else 'the RTR'} for a ULPDU, and may
              send that back as well.""")
        def _(p, bit=_bit, rtr=_rtr, flags=_flags):
            if not getattr(told(p, depths(4, 4, "A" + bit), flags), bit.lower()):
                raise Skip(f"it does not support {bit}")
            p.operate(flags)
            p.needs_echo()
            p.put(rtr)
            p.put(FIRST)
            seen = p.ulpdu()
            if rtr and seen == rtr:
                seen = p.ulpdu()
            if seen != FIRST:
                raise Fail("something else came back")


@case("the RTR opens the connection, nothing else does", "RFC 5044, 7.1.2 rule 4; "
      "RFC 6581, 5", RESPONDER)
def _(p):
    """Agree on an RTR; wait before it is sent.
    Expected: nothing comes before the RTR."""
    told(p, depths(4, 4, "ABCD"))
    p.still_there("the RTR is waited for")


# ---- an enhanced initiator ----

def asked(p):
    frame = p.take_frame()
    if not rfc6581.asked(frame):
        raise Skip("its request is not enhanced")
    return frame


@case("an enhanced request: revision and length", "RFC 6581, 6", INITIATOR)
def _(p):
    """Take an enhanced request.
    Expected: revision 2 or higher, and four octets of private data at least."""
    if not rfc6581.data(asked(p)):
        raise Fail("S is set, with less than four octets of private data")


@case("an enhanced request: A to D", "RFC 6581, 9.2", INITIATOR)
def _(p):
    """Take an enhanced request.
    Expected: with A = 0, B, C and D are 0; with A = 1 one of them is 1."""
    data = rfc6581.data(asked(p))
    if not data or data.a != data.rtr():
        raise Fail("they do not fit" if data else "there are none")
    return f"A is {data.a:d}; IRD {data.ird}, ORD {data.ord}"


@case("no FPDU before the RTR", "RFC 6581, 5; 9.2", INITIATOR)
def _(p):
    """To an enhanced request with A and B reply with A and B.
    Expected: the first FPDU is the RTR, without a ULPDU."""
    data = rfc6581.data(asked(p))
    if not data or not (data.a and data.b):
        raise Skip("it asks for no RTR by an FPDU without a ULPDU")
    p.empty = True
    p.reply(C | S, depths(data.ord, data.ird, "AB"), 2)
    p.operate(C)
    seen = p.ulpdu()
    if seen:
        raise Fail(f"its first ULPDU has {len(seen)} octets")


@case("a plain reply to an enhanced request", "RFC 6581, 10", INITIATOR, INFO)
def _(p):
    """Reply to an enhanced request with one of revision 1.
    Expected: not what an enhanced responder may do; the connection ends, or continues
    without."""
    asked(p)
    p.reply()
    if p.wait(8, p.options.quiet):
        return "it continues, and sends an FPDU"
    return p.end or "the connection stays open"


@case("a reply with S and three octets", "RFC 6581, 6 Private Data", INITIATOR)
def _(p):
    """Reply to an enhanced request with S = 1 and PD_Length 3.
    Expected: malformed: the connection is closed."""
    asked(p)
    p.reply(C | S, bytes(3), 2)
    return p.closed("S without four octets")


@case("an enhanced reply to a plain request", "RFC 6581, 10", INITIATOR, INFO)
def _(p):
    """Reply to a request of revision 1 with an enhanced one of revision 2.
    Expected: not what a responder may do; the connection is closed, or continues."""
    if p.take_frame().revision > 1:
        raise Skip("its request is of revision 2")
    p.reply(C | S, depths(4, 4), 2)
    if p.wait(8, p.options.quiet):
        return "it continues, and sends an FPDU"
    return p.end or "the connection stays open"


@case("a reply with S and no private data", "RFC 6581, 6 Private Data", INITIATOR)
def _(p):
    """Reply to an enhanced request with S = 1 and PD_Length 0.
    Expected: malformed: the connection is closed."""
    asked(p)
    p.reply(C | S, b"", 2)
    return p.closed("S without private data")


@case("a reset instead of the RTR", "RFC 6581, 9.2", RESPONDER)
def _(p):
    """Agree on an RTR, and reset the connection before it is sent.
    Expected: the next enhanced request is answered."""
    told(p, depths(4, 4, "ABCD"))
    p.reset()
    told(p.again())
