# SPDX-License-Identifier: GPL-2.0
"""Peers of revision 0 (draft-culley-iwarp-mpa-01, RFC 5044 appendix C), and peers that
speak something else (draft-elzur-iwarp-mpa-tcp-analysis-00 section 8)."""
from catalogue import INFO, INITIATOR, RESPONDER, group
from peer import C, FIRST, M, R, REQUEST, Fail, Skip

case = group("rdmac")


def permissive(p, flags=M | C):
    p.request(flags, revision=0)
    if not p.wait(1, p.options.timeout) and p.end:
        raise Skip(f"not permissive: closed ({p.end}), as it may")
    frame = p.take_frame()
    if frame.flags & R:
        raise Skip("not permissive: it rejects, as it may")
    if frame.revision:
        p.wait(1, p.options.timeout)
        p.closed(f"a reply of revision {frame.revision} to one of 0 (C.2.1)")
        raise Skip("not permissive: it closed the connection, as it may")
    return frame


@case("a request of revision 0", "RFC 5044, C.2.1; C.2.4; 7.1.1 Rev", RESPONDER)
def _(p):
    """Send a request of revision 0 with M and C.
    Expected: a reply of revision 0; or the connection is closed, perhaps after a reply
    of another revision."""
    permissive(p)


@case("a reply of revision 0 has M and C", "RFC 5044, C.2.4", RESPONDER)
def _(p):
    """Send a request of revision 0 with M and C.
    Expected: if the reply is of revision 0 it has M and C."""
    frame = permissive(p)
    if frame.flags & (M | C) != M | C:
        raise Fail(f"octet 16 is {frame.flags:#04x}")


@case("FPDUs of revision 0", "RFC 5044, C.2.4; draft-culley-iwarp-mpa-01, 5",
      RESPONDER)
def _(p):
    """Start with revision 0, and send ULPDUs of 1 to 1500 octets.
    Expected: they come back, with markers and CRCs."""
    permissive(p)
    p.operate(M | C)
    p.echo(*(p.octets(p.rnd.randint(1, 1500)) for _ in range(20)))


@case("a reply of revision 0", "RFC 5044, C.2.2; C.2.5", INITIATOR, INFO)
def _(p):
    """Reply with revision 0, M and C, to a request of revision 1.
    Expected: a permissive initiator continues with markers, another one closes."""
    p.take_frame()
    p.reply(M | C, revision=0)
    p.operate(M | C)
    p.tx.markers = True
    if not p.wait(8, p.options.timeout):
        return f"not permissive: {p.end or 'the connection stays open'}"
    p.ulpdu()
    return "permissive"


case = group("strangers")
TLS = bytes.fromhex("160301002f0100002b0303") + bytes(range(32)) + \
    bytes.fromhex("000004130113020100")
ISCSI = bytes.fromhex("4387000000000000") + bytes(40)
NFS = bytes.fromhex("80000028 00000001 00000000 00000002 000186a3 00000003 00000000") + \
    bytes(16)
# Of 20 octets at least: an end may look at a whole frame first.
CALLERS = (("HTTP", b"GET / HTTP/1.1\r\nHost: mpa\r\n\r\n"), ("TLS", TLS),
           ("SSH", b"SSH-2.0-OpenSSH_9.2p1\r\n"), ("SMTP", b"EHLO mail.example.org\r\n"),
           ("iSCSI", ISCSI), ("NFS", NFS), ("a marker and an FPDU at once",
                                            bytes(4) + b"\0\x0eis not checked\0\0\0\0"),
           ("zeros", bytes(65536)), ("ones", b"\xff" * 65536),
           ("text", b"Hello?\r\n" * 3))
SERVERS = (("SSH", b"SSH-2.0-OpenSSH_9.2p1\r\n"),
           ("SMTP", b"220 example.org ESMTP\r\n"),
           ("HTTP", b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
           ("an echo", REQUEST + b"\x40\1\0\0"))

for _what, _octets in CALLERS:
    @case(f"it is called by {_what}", "draft-elzur-iwarp-mpa-tcp-analysis-00, 8.1; "
          "RFC 5044, 7.1.2 rules 2 and 5", RESPONDER,
          text=f"""Send {_what} instead of a request. Expected: the connection is closed,
          and nothing sent.""")
    def _(p, octets=_octets):
        p.send(octets)
        return p.closed("no request")

for _what, _octets in SERVERS:
    @case(f"it calls {_what}", "draft-elzur-iwarp-mpa-tcp-analysis-00, 8.1; "
          "RFC 5044, 7.1.2 rules 3, 5 and 8", INITIATOR,
          text=f"""Answer its request as {_what} does. Expected: the connection is
          closed, and nothing sent.""")
    def _(p, octets=_octets):
        p.take_frame()
        p.send(octets)
        return p.closed("no reply")


@case("a scan of ports", "draft-elzur-iwarp-mpa-tcp-analysis-00, 8", RESPONDER)
def _(p):
    """Connect and close, ten times with a FIN and ten times with a reset.
    Expected: the next request is answered."""
    for number in range(20):
        if number % 2:
            p.fin()
            p.sock.close()
        else:
            p.reset()
        p = p.again()
    p.answered()


@case("octets after the request", "RFC 5044, 7.1.2 rule 3; 7.1.1 PD_Length", RESPONDER,
      INFO)
def _(p):
    """Send a request and an FPDU at once: an initiator may not, before the reply.
    Expected: malformed, and the connection is closed; or taken for the first FPDU."""
    p.send(p.held(p.request) + p.fpdu(FIRST))
    if not p.wait(20, p.options.timeout):
        return f"no reply: {p.end or 'silence'}"
    p.take_frame()
    p.wait(1, p.options.quiet)
    return "taken for an FPDU" if len(p.got) > p.at else (
        f"a reply, then {p.end or 'silence'}")


@case("it lives", "none", RESPONDER)
def _(p):
    """After all these, start and send a ULPDU.
    Expected: it comes back."""
    p.start().echo(FIRST)
