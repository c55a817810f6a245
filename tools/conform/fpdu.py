# SPDX-License-Identifier: GPL-2.0
"""FPDUs and their CRCs: RFC 5044 sections 3, 4.1, 4.4 and 6."""
import zlib

from catalogue import INFO, INITIATOR, RESPONDER, group, octets
from peer import C, FIRST, Fail, Skip, crc_anew, shown
from synth import REPLY, REQUEST, crc32c

case = group("fpdu", checks=())


@case("the first octets are an FPDU", "RFC 5044, 7.1.2 rule 7")
def _(p):
    """Start without markers; a responder gets an FPDU.
    Expected: an FPDU with a ULPDU_Length from 1 to 64768, and that number of octets."""
    p.start()
    if p.role == RESPONDER:
        p.sends()
        p.put(FIRST)
        p.ulpdu()


@case("a ULPDU comes back", "RFC 5044, 3; 4.1")
def _(p):
    """Start without markers, and send an FPDU.
    Expected: its ULPDU comes back in one FPDU."""
    p.start().echo(FIRST)


for _size in (1, 2, 3, 4, 5):
    @case(f"a ULPDU of {octets(_size)}", "RFC 5044, 4.1 ULPDU_Length and PAD",
          text=f"""Send a ULPDU of {octets(_size)}, and another one after it. Expected:
          both come back, ULPDU_Length does not count the pad, and the second FPDU begins
          at a multiple of four.""")
    def _(p, size=_size):
        p.start().echo(p.octets(size), FIRST)


@case("the pad that is sent is zero", "RFC 5044, 4.1 PAD")
def _(p):
    """Send ULPDUs of 1 to 8 octets.
    Expected: they come back with pads of zeros."""
    p.checks = ("pad",)
    p.start().echo(*(b"\xff" * size for size in range(1, 9)))


@case("the pad is not checked", "RFC 5044, 4.1 PAD")
def _(p):
    """Send ULPDUs whose pads are not zero, with good CRCs.
    Expected: they come back."""
    p.start()
    ulpdus = [p.octets(size) for size in (3, 1, 4)]
    for ulpdu in ulpdus:
        p.send(p.fpdu(ulpdu, "pad"))
    p.comes_back(*ulpdus)


@case("FPDUs that share a segment", "RFC 5044, 5.1; 5.2")
def _(p):
    """Send 30 small FPDUs at once.
    Expected: all come back."""
    p.start()
    ulpdus = [p.octets(p.rnd.randint(1, 40)) for _ in range(30)]
    p.send(b"".join(p.fpdu(ulpdu) for ulpdu in ulpdus))
    p.comes_back(*ulpdus)


@case("one ULPDU in one FPDU, in order", "RFC 5044, 3; 4.3")
def _(p):
    """Send 100 ULPDUs of 1 to 300 octets, one by one.
    Expected: they come back, one in an FPDU, in the same order."""
    p.start().echo(*(p.octets(p.rnd.randint(1, 300)) for _ in range(100)))


@case("an FPDU in single octets", "RFC 5044, 5.1; 6")
def _(p):
    """Send two FPDUs, each octet by itself.
    Expected: both come back."""
    p.start()
    ulpdus = p.octets(5), p.octets(20)
    for ulpdu in ulpdus:
        p.send_single(p.fpdu(ulpdu))
    p.comes_back(*ulpdus)


@case("FPDUs that are cut anywhere", "RFC 5044, 5.1; 5.2; 6")
def _(p):
    """Send 60 FPDUs as one stream, cut at random places.
    Expected: all come back."""
    p.start()
    ulpdus = [p.octets(p.rnd.randint(1, 200)) for _ in range(60)]
    stream = b"".join(p.fpdu(ulpdu) for ulpdu in ulpdus)
    while stream:
        count = p.rnd.randint(1, 150)
        p.send(stream[:count])
        stream = stream[count:]
    p.comes_back(*ulpdus)


@case("nothing is delivered before it is whole", "RFC 5044, 6")
def _(p):
    """Send an FPDU without its last octet; wait; send that.
    Expected: nothing before the last octet, the ULPDU after it."""
    p.start().echo(FIRST)
    octets = p.fpdu(b"not yet")
    p.send(octets[:-1])
    p.still_there("the FPDU lacks an octet")
    p.send(octets[-1:])
    p.comes_back(b"not yet")


for _size in (128, 512, 1024, 1448, 4096):
    @case(f"a ULPDU of {octets(_size)}", "RFC 5044, 3; 4.1",
          text=f"""Send a ULPDU of {octets(_size)}. Expected: it comes back.""")
    def _(p, size=_size):
        p.start().echo(p.octets(size))


for _size in (16384, 32768, 64768):
    @case(f"a ULPDU of {octets(_size)}", "RFC 5044, 3", level=INFO,
          text=f"""Send a ULPDU of {octets(_size)}. Expected: it may come back: to support
          more than MULPDU is not required.""")
    def _(p, size=_size):
        p.start().echo(p.octets(size))
        return "came back"


for _what, _octets in (("zeros", bytes(64)), ("ones", b"\xff" * 64),
                       ("a Request Frame", REQUEST + b"\x40\1\0\0"),
                       ("a Reply Frame", REPLY + b"\x40\1\0\0"),
                       ("an FPDU", b"\0\4\0\0\0\0\0\0" + crc32c(b"\0\4" + bytes(6)))):
    @case(f"a ULPDU that is {_what}", "RFC 5044, 4.1; 6",
          text=f"""Send a ULPDU that is {_what}, and another. Expected: both come back.""")
    def _(p, octets=_octets):
        p.start().echo(octets, FIRST)


@case("an FPDU directly after the reply", "RFC 5044, 7.1.2 rule 4", INITIATOR, INFO)
def _(p):
    """Send the reply and an FPDU at once, before the initiator's first: against rule 4.
    Expected: delivered, or the connection is closed."""
    theirs = p.take_frame()
    frame = p.held(lambda: p.answer(theirs))
    p.operate(C)
    p.send(frame + p.fpdu(b"too early"))
    while p.wait(1, p.options.quiet):
        if p.ulpdu() == b"too early":
            return "delivered"
    return p.end or "not delivered, the connection stays open"


# ---- CRC ----

case = group("crc", checks=("pad", "crc"))


@case("CRC of what is sent", "RFC 5044, 4.4; 4.1 CRC")
def _(p):
    """Send ULPDUs of 1 to 40 octets.
    Expected: each FPDU that comes has the CRC32c of all its octets, in the order of
    iSCSI's digests."""
    p.start().echo(*(p.octets(size) for size in range(1, 41)))


def bad(p, ulpdu, change):
    """A good FPDU, and a bad one."""
    p.echo(FIRST)
    octets = change(p.fpdu(ulpdu))
    p.send(octets)
    return p.not_delivered(ulpdu, octets[2:2 + len(ulpdu)])


def bit(at, which=1):
    def change(octets):
        octets = bytearray(octets)
        octets[at] ^= which
        return bytes(octets)
    return change


def replaced(crc):
    return lambda octets: octets[:-4] + crc(octets[:-4])


# A ULPDU of 13 octets: one of pad.
for _what, _change in (
        ("a bit of the first octet of the ULPDU", bit(2, 0x80)),
        ("a bit of the last octet of the ULPDU", bit(14)),
        ("a bit of the pad", bit(15, 0x10)),
        ("the first octet of the CRC", bit(16)),
        ("the second octet of the CRC", bit(17)),
        ("the third octet of the CRC", bit(18)),
        ("the last octet of the CRC", bit(19, 0x80)),
        ("the order of the CRC's octets", replaced(lambda o: crc32c(o)[::-1])),
        ("the CRC: it is zero", replaced(lambda o: bytes(4))),
        ("the CRC: it is not inverted", replaced(lambda o: bytes(
            octet ^ 0xFF for octet in crc32c(o)))),
        ("the CRC: it is Ethernet's", replaced(
            lambda o: zlib.crc32(o).to_bytes(4, "little"))),
        ("the CRC: it leaves out ULPDU_Length", replaced(lambda o: crc32c(o[2:])))):
    @case(f"wrong is {_what}", "RFC 5044, 4.4; 6; 8 code 2",
          text=f"""Send a good FPDU; then one in which {_what} is wrong. Expected:
          the first ULPDU comes back, the wrong one does not.""")
    def _(p, change=_change):
        p.start()
        return bad(p, b"thirteen octs", change)


@case("nothing is delivered after an error", "RFC 5044, 8")
def _(p):
    """Send a good FPDU, one with a wrong CRC, and a good one right after it.
    Expected: the first ULPDU comes back, and no other."""
    p.start().echo(FIRST)
    p.send(p.fpdu(b"bad", "crc") + p.fpdu(b"good"))
    return p.not_delivered(b"bad", b"good")


@case("FPDUs before a bad one are delivered", "RFC 5044, 6; 8", level=INFO)
def _(p):
    """Send three good FPDUs and a bad one at once.
    Expected: three ULPDUs come back, if the end does not reset the connection before."""
    p.start().echo(FIRST)
    ulpdus = [p.octets(20) for _ in range(3)]
    p.send(b"".join(p.fpdu(ulpdu) for ulpdu in ulpdus) + p.fpdu(b"bad", "crc"))
    count = 0
    while p.wait(1, p.options.quiet):
        count += p.ulpdu() in ulpdus
    return f"{count} of 3 came back"


@case("a bad first FPDU opens nothing", "RFC 5044, 7.1.2 rule 4", RESPONDER)
def _(p):
    """Start, and send an FPDU with a wrong CRC as the first.
    Expected: no FPDU comes, as none has been validated."""
    p.start()
    p.send(p.fpdu(FIRST, "crc"))
    if p.wait(1, p.options.quiet):
        raise Fail(f"it sent {shown(p.got[p.at:])}")
    return p.end or "the connection stays open"


@case("after an error of the first FPDU nothing is delivered", "RFC 5044, 8", RESPONDER)
def _(p):
    """Start, send an FPDU with a wrong CRC, then a good one.
    Expected: no ULPDU comes back."""
    p.start()
    p.send(p.fpdu(FIRST, "crc"))
    p.send(p.fpdu(b"good"))
    return p.not_delivered(FIRST, b"good")


@case("C of either frame is enough: what is sent", "RFC 5044, 7.1.1 C")
def _(p):
    """Send a startup frame with C = 0 to an end that has C = 1; then ULPDUs.
    Expected: FPDUs that come have CRCs."""
    p.start(flags=0)
    if not p.crc:
        raise Skip("its frame has C = 0: there are no CRCs")
    p.echo(FIRST)


@case("C of either frame is enough: what is received", "RFC 5044, 7.1.1 C")
def _(p):
    """Send a startup frame with C = 0 to an end that has C = 1; a good FPDU, then one
    with a wrong CRC.
    Expected: the first ULPDU comes back, the second one does not."""
    p.start(flags=0)
    if not p.crc:
        raise Skip("its frame has C = 0: there are no CRCs")
    return bad(p, b"damaged", lambda octets: octets[:-1] + bytes([octets[-1] ^ 1]))


@case("without CRCs none is checked", "RFC 5044, 4.1 CRC; 4.4; 7.1.1 C")
def _(p):
    """Send a startup frame with C = 0 to an end that has C = 0; FPDUs with any CRC.
    Expected: their ULPDUs come back."""
    p.start(flags=0)
    if p.crc:
        raise Skip("its frame has C = 1: there are CRCs")
    p.needs_echo()
    p.send(p.fpdu(FIRST)[:-4] + b"none")
    p.comes_back(FIRST)


@case("CRCs though the tested end has C = 0", "RFC 5044, 7.1.1 C")
def _(p):
    """Send a startup frame with C = 1 to an end that has C = 0; a good FPDU, then one
    with a wrong CRC.
    Expected: the first ULPDU comes back with a CRC, the second one does not."""
    p.start()
    if p.frame.flags & C:
        raise Skip("its frame has C = 1")
    return bad(p, b"damaged", lambda octets: octets[:-1] + bytes([octets[-1] ^ 1]))


# ---- lengths that no ULPDU has ----

case = group("length")

for _length in (64769, 65535):
    @case(f"ULPDU_Length {_length}", "RFC 5044, 3", level=INFO,
          text=f"""Send an FPDU with ULPDU_Length {_length}, that number of octets and a good
          CRC. Expected: delivered, or not; RFC 5044 has no code for it.""")
    def _(p, length=_length):
        p.start().echo(FIRST)
        octets = length.to_bytes(2, "big") + bytes(length)
        octets += bytes(-len(octets) % 4 + 4)
        p.send(crc_anew(octets))
        if not p.wait(4, p.options.quiet):
            return f"not delivered; {p.end or 'the connection stays open'}"
        p.at = len(p.got)
        return "something came back"


@case("ULPDU_Length 0", "RFC 5044, 3", level=INFO)
def _(p):
    """Send an FPDU without a ULPDU, and another.
    Expected: not in RFC 5044's range of 1 to 64768; RFC 6581 has it as an RTR."""
    p.start().echo(FIRST)
    p.put(b"", b"after it")
    if not p.wait(8, p.options.quiet):
        return f"not delivered; {p.end or 'the connection stays open'}"
    if p.got[p.at:p.at + 2] == b"\0\0":
        return "came back"
    return "left out" if p.ulpdu() == b"after it" else "something came"
