# SPDX-License-Identifier: GPL-2.0
"""How connections end: RFC 5044 sections 7.2 and 8."""
import socket

from catalogue import INFO, RESPONDER, SHOULD, group
from peer import FIRST, Fail, shown

case = group("closing")


@case("all is answered before a FIN", "RFC 5044, 7.2", level=SHOULD)
def _(p):
    """Send 20 FPDUs and a FIN, in one segment if they fit.
    Expected: all ULPDUs come back: each half connection ends by itself."""
    p.start()
    ulpdus = [p.octets(100) for _ in range(20)]
    octets = b"".join(p.fpdu(ulpdu) for ulpdu in ulpdus)
    p.send(octets, socket.MSG_MORE)
    p.fin()
    p.comes_back(*ulpdus)


@case("what ends, ends between FPDUs", "RFC 5044, 3; 7.2")
def _(p):
    """Send FPDUs and a FIN, and take all that comes until the connection ends.
    Expected: whole FPDUs."""
    p.start()
    p.put(*(p.octets(300) for _ in range(10)))
    p.fin()
    count = 0
    while count < 1000 and p.wait(1, p.options.timeout):
        p.ulpdu()
        count += 1
    return f"{count} FPDUs, then {p.end or 'silence'}"


@case("a FIN is answered", "RFC 5044, 7.2", level=SHOULD)
def _(p):
    """Exchange an FPDU, then send a FIN.
    Expected: the tested end's ULP learns of it, and closes as well."""
    p.start().echo(FIRST)
    p.fin()
    # First comes what a source has sent so far.
    for _ in range(1000):
        if not p.wait(1, p.options.timeout):
            break
        p.at = len(p.got)
    if not p.end:
        raise Fail("it keeps the connection open")
    return p.end


for _cut, _what in ((1, "in ULPDU_Length"), (10, "in the ULPDU"), (-4, "before the CRC"),
                    (-1, "in the CRC")):
    @case(f"a FIN {_what}", "RFC 5044, 6; 8 code 1",
          text="""Exchange an FPDU; send a part of the next one, and a FIN. Expected: what
          was not whole is not delivered.""")
    def _(p, cut=_cut):
        p.start().echo(FIRST)
        p.needs_echo()
        p.send(p.fpdu(b"this is cut off")[:cut])
        p.fin()
        while p.wait(1, p.options.quiet):
            seen = p.ulpdu()
            if seen in b"this is cut off":
                raise Fail(f"{shown(seen)} came back")
        return p.end or "the connection stays open"


@case("a reset", "RFC 5044, 8 code 1", RESPONDER)
def _(p):
    """Exchange an FPDU; send a part of the next one, and reset the connection. Connect
    anew.
    Expected: a reply to the next request."""
    p.start().echo(FIRST)
    p.send(p.fpdu(FIRST)[:7])
    p.reset()
    p.again().answered()


@case("a reset during startup", "RFC 5044, 8 code 1", RESPONDER)
def _(p):
    """Send half a request, and reset the connection; do that five times. Connect anew.
    Expected: a reply to the next request."""
    for _ in range(5):
        p.send(b"MPA ID R")
        p.reset()
        p = p.again()
    p.answered()


@case("what it does after a wrong CRC", "RFC 5044, 8", level=INFO)
def _(p):
    """Exchange an FPDU; send one with a wrong CRC.
    Expected: MPA does not close the connection; its ULP is expected to."""
    p.start().echo(FIRST)
    p.needs_echo()
    p.send(p.fpdu(FIRST, "crc"))
    while p.wait(1, p.options.quiet):
        return f"it sends a ULPDU of its own: {shown(p.ulpdu())}"
    return p.end or "the connection stays open"
