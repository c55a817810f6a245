# SPDX-License-Identifier: GPL-2.0
"""A parser of the fields that RFC 6581 adds to the startup frames of RFC 5044."""
import struct

S = 0x10
ANY = 0x3FFF        # for IRD, ORD: not negotiated here (9.1)


def asked(frame):
    """Whether a frame is enhanced."""
    return frame.revision >= 2 and bool(frame.flags & S)


class Data:
    """The first four octets of private data (section 9)."""

    def __init__(self, frame):
        ird, ord_ = struct.unpack_from(">HH", frame.private)
        self.a, self.b, self.ird = bool(ird & 0x8000), bool(ird & 0x4000), ird & ANY
        self.c, self.d, self.ord = bool(ord_ & 0x8000), bool(ord_ & 0x4000), ord_ & ANY

    def rtr(self):
        return self.b or self.c or self.d


def data(frame):
    return Data(frame) if asked(frame) and len(frame.private) >= 4 else None


def frame_problems(frame):
    """Return the errors of a frame by itself."""
    mine = data(frame)
    if asked(frame) and frame.private_len < 4:
        return [f"{frame.kind} Frame: S is set, with less than 4 octets of private data "
                "(RFC 6581 section 6)"]
    if mine and not mine.a and mine.rtr():
        return [f"{frame.kind} Frame: B, C or D without A (RFC 6581 section 9.2)"]
    return []


def over(theirs, mine):
    """Whether the responder's ORD exceeds the initiator's IRD: then the initiator may
    terminate."""
    return ANY not in (theirs.ird, mine.ord) and mine.ord > theirs.ird


def problems(request, reply):
    """Return the errors of the reply to this request. A rejection's values are another
    offer."""
    found = []
    if asked(request) != asked(reply):
        kind = "a plain" if asked(request) else "an enhanced"
        found.append(f"{kind} reply to a request that is not (RFC 6581 section 10)")
    theirs, mine = data(request), data(reply)
    if not theirs or not mine:
        return found
    if theirs.a != mine.a:
        found.append(f"A is {theirs.a:d} in the Request Frame, {mine.a:d} in the "
                     "Reply Frame (RFC 6581 section 9.2)")
    if mine.a and not mine.rtr():
        found.append("Reply Frame: A without an RTR (RFC 6581 section 9.2)")
    if theirs.ird == ANY and mine.ord != ANY:
        found.append(f"the responder's ORD is {mine.ord:#x} where the initiator's IRD "
                     "is 0x3fff (RFC 6581 section 9.1)")
    if theirs.ord == ANY and mine.ird != ANY:
        found.append(f"the responder's IRD is {mine.ird:#x} where the initiator's ORD "
                     "is 0x3fff (RFC 6581 section 9.1)")
    if over(theirs, mine):
        found.append(f"the responder's ORD {mine.ord} is over the initiator's IRD "
                     f"{theirs.ird} (RFC 6581 section 9.1)")
    return found


def empty_is_the_rtr(request, reply):
    """Whether an empty FPDU is the only RTR that both ends name, and no Terminate may
    be sent."""
    theirs, mine = data(request), data(reply)
    return empty_first(request, reply) and theirs.b and \
        not (theirs.c and mine.c or theirs.d and mine.d or over(theirs, mine))


def empty_first(request, reply):
    """Whether the initiator's first FPDU may be empty, as an RTR."""
    theirs, mine = data(request), data(reply)
    return bool(theirs and mine and theirs.a and mine.a and mine.b)
