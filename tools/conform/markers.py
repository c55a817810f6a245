# SPDX-License-Identifier: GPL-2.0
"""Markers: RFC 5044 sections 4.2, 4.3 and 8 code 3."""
from catalogue import INFO, RESPONDER, group
from peer import C, FIRST, M, Fail, Skip, crc_anew

case = group("markers")


@case("no markers where none are asked for", "RFC 5044, 7.1.1 M")
def _(p):
    """Start with M = 0, and have 1500 octets come back in FPDUs of 20.
    Expected: no marker in what comes."""
    p.start(C).echo(*(p.octets(20) for _ in range(75)))


@case("a marker comes first", "RFC 5044, 7.1.2 rule 7; 4.3")
def _(p):
    """Start with M = 1, and send a ULPDU.
    Expected: the first four octets that come are a marker of zeros."""
    p.start(M | C, first=False)
    p.sends()
    if p.role == RESPONDER:
        p.put(FIRST)
    seen = p.take(4, "the first marker")
    if seen != bytes(4):
        raise Fail(f"expected 00 00 00 00, seen {seen.hex(' ')}")


@case("the first FPDU follows it", "RFC 5044, 4.3; 4.4")
def _(p):
    """Start with M = 1, and send a ULPDU.
    Expected: after the marker its FPDU, whose CRC covers the marker."""
    p.start(M | C).echo(FIRST)


@case("a marker every 512 octets", "RFC 5044, 4.3")
def _(p):
    """Start with M = 1, and send 20 ULPDUs of 100 octets.
    Expected: every 512 octets of the stream a marker begins, whose FPDUPTR is the
    distance to ULPDU_Length of the FPDU that it is in."""
    p.start(M | C).echo(*(p.octets(100) for _ in range(20)))


@case("several markers in an FPDU", "RFC 5044, 4.3")
def _(p):
    """Start with M = 1, and send ULPDUs of 1400 and 4000 octets.
    Expected: all markers of an FPDU point to its ULPDU_Length."""
    p.start(M | C).echo(p.octets(1400), p.octets(4000), FIRST)


# A first FPDU with its marker ends at 512 if the ULPDU has 502 octets. Where this
# end is the responder, the tested end has sent one before: each place must be met
# by one of the lengths.
for _sizes, _what in (((502, 8), "between two FPDUs"),
                      ((506, 8), "between ULPDU and CRC"),
                      ((505, 8), "between pad and CRC"),
                      ((490, 8), "right after ULPDU_Length and two octets")):
    @case(f"a marker {_what}", "RFC 5044, 4.3; 4.4",
          text=f"""Start with M = 1, and send ULPDUs of {_sizes[0]} and {_sizes[1]} octets.
          Expected: they come back, with markers in their places, and CRCs over these.""")
    def _(p, sizes=_sizes):
        p.start(M | C).echo(*(p.octets(size) for size in sizes))


@case("each length around an interval", "RFC 5044, 4.3; 4.4")
def _(p):
    """Start with M = 1, and send ULPDUs of 480 to 520 octets.
    Expected: they come back, with markers in their places."""
    p.start(M | C).echo(*(p.octets(size) for size in range(480, 521)))


@case("many small FPDUs in an interval", "RFC 5044, 4.3")
def _(p):
    """Start with M = 1, and send 300 ULPDUs of 1 to 30 octets.
    Expected: they come back, with markers in their places, 0 between FPDUs."""
    p.start(M | C).echo(*(p.octets(p.rnd.randint(1, 30)) for _ in range(300)))


@case("markers without CRCs of our own wish", "RFC 5044, 7.1.1 M and C")
def _(p):
    """Start with M = 1 and C = 0, and send ULPDUs of 700 octets.
    Expected: they come back with markers, and with CRCs if the tested end has C = 1."""
    p.start(M).echo(*(p.octets(700) for _ in range(3)))


@case("the other direction is not concerned", "RFC 5044, 7.1.1 M")
def _(p):
    """Start with M = 1; send as the tested end's own M says.
    Expected: 20 ULPDUs of 200 octets come back."""
    p.start(M | C).echo(*(p.octets(200) for _ in range(20)))


# ---- what the tested end receives, if it requests markers ----

def asked(p):
    p.start()
    if not p.tx.markers:
        raise Skip("it asks for no markers (M = 0)")
    return p


@case("markers are taken out", "RFC 5044, 4.3")
def _(p):
    """To an end with M = 1 send ULPDUs of 1 to 1200 octets.
    Expected: they come back."""
    asked(p).echo(*(p.octets(p.rnd.randint(1, 1200)) for _ in range(40)))


@case("the reserved half of a marker is not checked", "RFC 5044, 4.2 RESERVED")
def _(p):
    """To an end with M = 1 send an FPDU of 600 octets, the reserved half of whose marker
    is not zero, with a good CRC.
    Expected: it comes back."""
    asked(p)
    change_marker(p, p.octets(600), bytes.fromhex("dead"), 0)


@case("the low bits of FPDUPTR are not checked", "RFC 5044, 4.2 FPDUPTR")
def _(p):
    """To an end with M = 1 send an FPDU of 600 octets, with the two low bits of FPDUPTR
    set, and a good CRC.
    Expected: it comes back."""
    asked(p)
    change_marker(p, p.octets(600), b"\0\3", 2)


def change_marker(p, ulpdu, pattern, off):
    at = -p.tx.pos % 512
    octets = bytearray(p.fpdu(ulpdu))
    for n, octet in enumerate(pattern):
        octets[at + off + n] ^= octet
    p.send(crc_anew(octets))
    p.comes_back(ulpdu)


@case("FPDUPTR that points elsewhere", "RFC 5044, 8 code 3", level=INFO)
def _(p):
    """To an end with M = 1 send an FPDU whose FPDUPTR is four too large, with a good
    CRC.
    Expected: an error; to check each marker is optional."""
    asked(p).echo(FIRST)
    p.send(p.fpdu(b"\1" * 600, "marker"))
    return p.not_delivered(b"\1" * 600)


@case("no markers where some are asked for", "RFC 5044, 4.3; 4.4")
def _(p):
    """To an end with M = 1 send FPDUs without markers.
    Expected: nothing is delivered."""
    asked(p)
    p.tx.markers = False
    p.put(FIRST, b"second, without markers")
    return p.not_delivered(FIRST, b"second, without markers")


@case("markers that nobody has asked for", "RFC 5044, 7.1.1 M")
def _(p):
    """To an end with M = 0 send an FPDU with a marker before it.
    Expected: it is not delivered."""
    p.start()
    if p.tx.markers:
        raise Skip("it asks for markers (M = 1)")
    p.tx.markers = True
    p.put(FIRST, b"second, with markers")
    return p.not_delivered(FIRST, b"second, with markers")
