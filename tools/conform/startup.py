# SPDX-License-Identifier: GPL-2.0
"""Startup frames and rules: RFC 5044 sections 7.1.1 and 7.1.2."""
import struct

import rfc5044
from catalogue import INITIATOR, RESPONDER, SHOULD, group, octets
from peer import C, FIRST, M, R, REPLY, REQUEST, Fail, shown

case = group("startup", checks=())
HEAD = struct.pack(">BBH", C, 1, 0)


# ---- the frame that the tested end sends ----

@case("a request is answered", "RFC 5044, 7.1.2 rule 2", RESPONDER)
def _(p):
    """Send a Request Frame of revision 1, without private data.
    Expected: a frame of at least 20 octets."""
    p.request()
    return shown(p.take(20, "Reply Frame"))


@case("key of the Reply Frame", "RFC 5044, 7.1.1 Key", RESPONDER)
def _(p):
    """Send a request.
    Expected: the key "MPA ID Rep Frame"."""
    p.request()
    p.take_key()


@case("a request comes by itself", "RFC 5044, 7.1.2 rule 1", INITIATOR)
def _(p):
    """Accept the connection, and say nothing.
    Expected: a frame of at least 20 octets."""
    return shown(p.take(20, "Request Frame"))


@case("key of the Request Frame", "RFC 5044, 7.1.1 Key", INITIATOR)
def _(p):
    """Accept the connection.
    Expected: the key "MPA ID Req Frame"."""
    p.take_key()


@case("PD_Length is that of the private data", "RFC 5044, 7.1.1 PD_Length")
def _(p):
    """Take the tested end's frame, with as many octets as PD_Length says.
    Expected: PD_Length is 512 at most, and that number of octets arrives."""
    if p.role == RESPONDER:
        p.request()
    frame = p.take_frame()
    if frame.private_len > rfc5044.PRIVATE_MAX:
        raise Fail(f"PD_Length is {frame.private_len}")
    return f"{frame.private_len} octets of private data"


@case("a plain request is accepted", "RFC 5044, 7.1.2 rule 2", RESPONDER, SHOULD)
def _(p):
    """Send a request.
    Expected: R is 0 in the reply."""
    if p.answered().flags & R:
        raise Fail("R is 1: rejected")


@case("R is zero in a Request Frame", "RFC 5044, 7.1.1 R", INITIATOR)
def _(p):
    """Accept the connection.
    Expected: R is 0."""
    if p.take_frame().flags & R:
        raise Fail("R is 1")


@case("reserved bits are zero", "RFC 5044, 7.1.1 Res; RFC 6581, 6 Res")
def _(p):
    """Take the tested end's frame, as a reply to a request of revision 1.
    Expected: the bits of Res are 0. In a request of revision 2, S is none of them."""
    if p.role == RESPONDER:
        p.request()
    frame = p.take_frame()
    reserved = 0x0F if frame.revision > 1 and p.role == INITIATOR else 0x1F
    if frame.flags & reserved:
        raise Fail(f"octet 16 is {frame.flags:#04x}")


@case("revision of the frame", "RFC 5044, 7.1.1 Rev; RFC 6581, 6 Rev")
def _(p):
    """Take the tested end's frame, as a reply to a request of revision 1.
    Expected: Rev is 1 in a reply; 1 or 2 in a request."""
    if p.role == RESPONDER:
        p.request()
    revision = p.take_frame().revision
    if revision not in ((1,) if p.role == RESPONDER else (1, 2)):
        raise Fail(f"Rev is {revision}")
    return f"Rev is {revision}"


@case("CRCs are wanted by default", "RFC 5044, 4.4 (2a); 7.1.1 C")
def _(p):
    """Take the tested end's frame; in a reply, to a request with C = 1.
    Expected: C is 1, unless an administrator has asked for no CRCs."""
    if p.role == RESPONDER:
        p.request()
    if not p.take_frame().flags & C:
        raise Fail("C is 0")


@case("C is not copied from the request", "RFC 5044, 4.4 (2a); 7.1.1 C", RESPONDER)
def _(p):
    """Send a request with C = 0.
    Expected: C is 1 in the reply, unless an administrator has asked for no CRCs."""
    if not p.answered(flags=0).flags & C:
        raise Fail("C is 0")


# ---- order ----

@case("nothing is sent before the request", "RFC 5044, 7.1.2 rule 2", RESPONDER)
def _(p):
    """Connect and wait; then send a request.
    Expected: nothing comes before the request, and the reply after it."""
    p.still_there("a responder waits for the request")
    p.answered()


@case("the whole head is waited for", "RFC 5044, 7.1.2 rule 2", RESPONDER)
def _(p):
    """Send 19 octets of a request, wait, send the last.
    Expected: nothing before the last octet; then a reply."""
    frame = REQUEST + HEAD
    p.send(frame[:19])
    p.still_there("19 of 20 octets of a request are no request")
    p.send(frame[19:])
    p.take_frame()


@case("the private data is waited for", "RFC 5044, 7.1.2 rule 2; 7.1.1 PD_Length",
      RESPONDER)
def _(p):
    """Send a request with PD_Length 64 and 63 octets; wait; send the last.
    Expected: nothing before the last octet; then a reply."""
    p.request(private=bytes(63), length=64)
    p.still_there("63 of 64 octets of private data are here")
    p.send(b"\0")
    p.take_frame()


@case("a request in single octets", "RFC 5044, 7.1.2 rule 2", RESPONDER)
def _(p):
    """Send each octet of a request, with private data, by itself.
    Expected: a reply."""
    p.send_single(REQUEST + struct.pack(">BBH", C, 1, 4) + b"data")
    p.take_frame()


@case("the responder waits for the first FPDU", "RFC 5044, 7.1.2 rule 4", RESPONDER)
def _(p):
    """Send a request, take the reply, wait, and send an FPDU then.
    Expected: nothing comes before the FPDU."""
    p.start()
    p.still_there("a responder waits for the first FPDU")
    p.put(FIRST)


@case("the responder waits for the whole FPDU", "RFC 5044, 7.1.2 rule 4", RESPONDER)
def _(p):
    """Start; send all but the last octet of an FPDU; wait; send that.
    Expected: nothing comes before the last octet."""
    p.start()
    octets = p.fpdu(FIRST)
    p.send(octets[:-1])
    p.still_there("the first FPDU lacks an octet")
    p.send(octets[-1:])


@case("nothing follows the request before the reply", "RFC 5044, 7.1.2 rule 3", INITIATOR)
def _(p):
    """Take the request, wait, reply, and take the first FPDU.
    Expected: nothing between request and reply; an FPDU after the reply."""
    theirs = p.take_frame()
    p.still_there("an initiator waits for the reply")
    p.answer(theirs)
    p.operate(C)
    p.goes_on()


@case("the whole reply is waited for", "RFC 5044, 7.1.2 rule 3", INITIATOR)
def _(p):
    """Reply with all but the last octet of private data; wait; send that.
    Expected: no FPDU before the last octet, one after it."""
    theirs = p.take_frame()
    frame = p.held(lambda: p.answer(theirs, private=b"private"))
    p.send(frame[:-1])
    p.still_there("the Reply Frame lacks an octet")
    p.send(frame[-1:])
    p.operate(C)
    p.goes_on()


@case("a reply in single octets", "RFC 5044, 7.1.2 rule 3", INITIATOR)
def _(p):
    """Send each octet of the reply by itself.
    Expected: an FPDU."""
    theirs = p.take_frame()
    p.send_single(p.held(lambda: p.answer(theirs, private=b"private")))
    p.operate(C)
    p.goes_on()


# ---- what is not checked, what is accepted ----

for _bit, _what in ((R, "R"), (0x08, "bit 4"), (0x04, "bit 5"), (0x02, "bit 6"),
                    (0x01, "bit 7"), (0x0F, "each of bits 4 to 7")):
    @case(f"{_what} of a request is not checked", "RFC 5044, 7.1.1 R and Res",
          RESPONDER, text=f"""Send a request of revision 1 with octet 16 as
          {C | _bit:#04x}. Expected: a reply that accepts it.""")
    def _(p, bit=_bit):
        if p.answered(C | bit).flags & R:
            raise Fail("rejected")


@case("reserved bits of a reply are not checked", "RFC 5044, 7.1.1 Res", INITIATOR)
def _(p):
    """Reply with the lower bits of Res set.
    Expected: an FPDU."""
    theirs = p.take_frame()
    p.answer(theirs, C | 0x0F)
    p.operate(C)
    p.goes_on()


for _size in (1, 256, 257, 511, 512):
    @case(f"{octets(_size)} of private data", "RFC 5044, 7.1.1 PD_Length; 7.1.2 rule 9",
          text=f"""Send a startup frame with {octets(_size)} of private data. Expected:
          it is accepted, whatever it says; a ULP that does not want it rejects it in a
          Reply Frame, and is reported as such.""")
    def _(p, size=_size):
        private = p.octets(size)
        if p.role == RESPONDER:
            if p.answered(private=private).flags & R:
                return "rejected by a Reply Frame"
            return None
        theirs = p.take_frame()
        p.answer(theirs, private=private[:512 - 4 * (theirs.revision > 1)])
        p.operate(C)
        p.goes_on()
        return None


@case("a rejected initiator leaves MPA", "RFC 5044, 7.1.2 rule 3", INITIATOR)
def _(p):
    """Reply with R = 1.
    Expected: no FPDU; the connection stays open, or the ULP closes it."""
    theirs = p.take_frame()
    p.answer(theirs, C | R)
    if p.wait(1, p.options.quiet):
        raise Fail(f"rejected, it sent {shown(p.got[p.at:])}")
    return p.end or "the connection stays open"


# ---- malformed frames ----

def malformed(p, octets, fin=False):
    """It waits for a frame, and gets that."""
    if p.role == INITIATOR:
        p.take_frame()
    p.send(octets)
    if fin:
        p.fin()
    return p.closed(f"after {shown(octets)}" + " and a FIN" * fin)


def changed(key, at, bit):
    return key[:at] + bytes([key[at] ^ bit]) + key[at + 1:]


for _what, _change in (
        ("its first bit", lambda key: changed(key, 0, 0x80)),
        ("its last bit", lambda key: changed(key, 15, 0x01)),
        ("its eighth octet", lambda key: changed(key, 7, 0x01)),
        ("its case", bytes.lower),
        ("all of it: zeros", lambda key: bytes(16)),
        ("its role: the frame of the other kind",
         lambda key: REQUEST if key == REPLY else REPLY)):
    @case(f"a key that is wrong in {_what}", "RFC 5044, 7.1.1 Key; 7.1.2 rules 5 and 8",
          text=f"""Send a startup frame whose key is wrong in {_what}. Expected: the
          connection is closed, and nothing sent.""")
    def _(p, change=_change):
        key = REQUEST if p.role == RESPONDER else REPLY
        return malformed(p, change(key) + HEAD)


for _length in (513, 1024, 65535):
    @case(f"PD_Length {_length}", "RFC 5044, 7.1.1 PD_Length; 7.1.2 rule 9",
          text=f"""Send a startup frame with PD_Length {_length}, and that number of octets.
          Expected: the connection is closed, and nothing sent.""")
    def _(p, length=_length):
        key = REQUEST if p.role == RESPONDER else REPLY
        return malformed(p, key + struct.pack(">BBH", C, 1, length) + bytes(length))


for _revision in (3, 16, 255):
    @case(f"revision {_revision}", "RFC 5044, 7.1.1 Rev",
          text=f"""Send a startup frame of revision {_revision}, that no document has.
          Expected: the connection is closed; a responder may answer with a revision
          that it has, before (C.2.1).""")
    def _(p, revision=_revision):
        if p.role == RESPONDER:
            p.request(revision=revision)
            if p.wait(20, p.options.timeout) and p.got[17] <= 2:
                p.take_frame()
                p.wait(1, p.options.timeout)
        else:
            p.take_frame()
            p.reply(revision=revision)
        return p.closed(f"revision {revision}")


for _at, _what in ((1, "after an octet"), (16, "after the key"), (19, "in PD_Length"),
                   (30, "in the private data")):
    @case(f"the stream ends {_what}", "RFC 5044, 7.1.2 rules 2, 3 and 9; 8 code 1",
          text=f"""Send {_at} octets of a startup frame with 16 octets of private data,
          and a FIN. Expected: the connection is closed, and nothing sent.""")
    def _(p, at=_at):
        key = REQUEST if p.role == RESPONDER else REPLY
        frame = key + struct.pack(">BBH", C, 1, 16) + bytes(16)
        return malformed(p, frame[:at], fin=True)


@case("the stream ends before it begins", "RFC 5044, 7.1.2 rules 2 and 3; 8 code 1")
def _(p):
    """Instead of a startup frame, send a FIN.
    Expected: the connection is closed, and nothing sent."""
    return malformed(p, b"", fin=True)


for _ours in (0, M, C, M | C):
    @case(f"every M and C is accepted: {'M' if _ours & M else 'no M'}, "
          f"{'C' if _ours & C else 'no C'}", "RFC 5044, 7.1.1 M and C",
          text=f"""Send a startup frame with octet 16 as {_ours:#04x}. Expected: Full
          Operation: the reply accepts, or an FPDU comes.""")
    def _(p, ours=_ours):
        p.start(ours)
