# SPDX-License-Identifier: GPL-2.0
"""Startup, RFC 5044 section 7.1. reference.rst, "How startup ends", has what a
program is notified."""

import errno

from script import (ERR_STARTUP, ERR_TCP, FAILED, FULL, INITIATOR, RESPONDER,
                    STARTUP, equal, fails, fpdu, frame, receive, responder, start,
                    state_of, writable)


def request_as_it_is_sent(tun):
    """7.1.1: key, C (CRCs are wanted), revision 1, no private data."""
    peer = tun.peer()
    sock = peer.accept()
    start(sock, INITIATOR)
    peer.expect(b"MPA ID Req Frame" + bytes((0x40, 1, 0, 0)))
    peer.expect_nothing()
    fails(errno.EAGAIN, sock.send, b"early")


def request_in_single_octets(tun):
    """7.1.2 rule 2: a responder waits for the whole request."""
    peer = tun.peer()
    sock = peer.connect()
    start(sock, RESPONDER)
    for octet in b"MPA ID Req Frame" + bytes((0x40, 1, 0)):
        peer.send(bytes((octet,)))
    peer.expect_nothing()
    equal((STARTUP, 0), state_of(sock))
    peer.send(b"\0")
    peer.expect(b"MPA ID Rep Frame" + bytes((0x40, 1, 0, 0)), ack=20)


def octets_after_a_request(tun):
    """7.1.2 rule 3: an initiator waits for the reply; reference.rst: EPROTO, reset."""
    peer = tun.peer()
    sock = peer.connect()
    start(sock, RESPONDER)
    peer.send(frame(False) + fpdu(b"too early"))
    peer.expect(flags="R")
    fails(errno.EPROTO, receive, sock)
    equal((FAILED, ERR_STARTUP), state_of(sock))


def fpdu_after_a_reply(tun):
    """start.rst, "Revisions": an FPDU in the reply's segment is delivered."""
    peer = tun.peer()
    sock = peer.accept()
    start(sock, INITIATOR)
    peer.expect(frame(False))
    peer.send(frame(True) + fpdu(b"glued"))
    equal(b"glued", receive(sock))
    equal((FULL, 0), state_of(sock))


def two_initiators(tun):
    """7.1.2 rules 5 and 8: another key closes the connection."""
    peer = tun.peer()
    sock = peer.accept()
    start(sock, INITIATOR)
    peer.expect(frame(False))
    peer.send(frame(False))
    peer.expect(flags="R")
    fails(errno.EPROTO, receive, sock)


def responder_waits_for_the_first_fpdu(tun):
    """7.1.2 rule 4: it has to be whole and good."""
    peer, sock = responder(tun)
    peer.send(fpdu(b"first")[:-1])
    peer.expect_ack()
    assert not writable(sock)
    fails(errno.EAGAIN, sock.send, b"early")
    peer.expect_nothing()
    peer.send(fpdu(b"first")[-1:])
    assert writable(sock, 30)
    sock.send(b"now")
    peer.expect(fpdu(b"now"), seq=0)


def bad_first_fpdu_opens_nothing(tun):
    """7.1.2 rule 4. Section 8: MPA does not close, either."""
    peer, sock = responder(tun)
    peer.send(fpdu(b"first", good=False))
    assert writable(sock, 30)
    fails(errno.EBADMSG, sock.send, b"no")
    peer.expect_nothing()


def reset_instead_of_a_request(tun):
    """Section 8, code 1."""
    peer = tun.peer()
    sock = peer.connect()
    start(sock, RESPONDER)
    peer.send(flags="R")
    fails(errno.ECONNRESET, receive, sock)
    equal((FAILED, ERR_TCP), state_of(sock))


def reset_instead_of_a_reply(tun):
    """Section 8, code 1."""
    peer = tun.peer()
    sock = peer.accept()
    start(sock, INITIATOR)
    peer.expect(frame(False))
    peer.send(flags="R")
    fails(errno.ECONNRESET, receive, sock)
    equal((FAILED, ERR_TCP), state_of(sock))


def fin_instead_of_a_reply(tun):
    """reference.rst: the end before the first octet of a frame."""
    peer = tun.peer()
    sock = peer.accept()
    start(sock, INITIATOR)
    peer.expect(frame(False))
    peer.send(flags="F")
    peer.expect(flags="R")
    fails(errno.ECONNRESET, receive, sock)
    equal((FAILED, ERR_TCP), state_of(sock))


def fin_inside_a_request(tun):
    """7.1.2 rule 2: the frame is malformed, and the connection closed."""
    peer = tun.peer()
    sock = peer.connect()
    start(sock, RESPONDER)
    peer.send(frame(False)[:19], flags="F")
    peer.expect(flags="R")
    fails(errno.EPROTO, receive, sock)
    equal((FAILED, ERR_STARTUP), state_of(sock))
