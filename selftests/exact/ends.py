# SPDX-License-Identifier: GPL-2.0
"""What is delivered, and how connections end: RFC 5044 sections 6, 7.2 and 8;
receive.rst."""

import errno
import socket

from script import (ERR_CRC, ERR_TCP, MORE, NOW, equal, fails, fpdu, info,
                    initiator, readable, receive, record, responder)


def record_is_not_whole(tun):
    """Section 6: nothing is readable before its last octet."""
    peer, sock = initiator(tun)
    for at in range(11):
        peer.send(fpdu(b"hello")[at:at + 1])
    peer.expect_ack()
    assert not readable(sock)
    fails(errno.EAGAIN, sock.recv, 100, NOW)
    peer.send(fpdu(b"hello")[11:] + fpdu(b"next")[:3])
    equal(b"hello", receive(sock))
    assert not readable(sock)


def wrong_crc(tun):
    """Section 8: what came before is delivered, nothing after it, and MPA closes
    nothing: the program says why, and its close() sends a FIN."""
    peer, sock = initiator(tun)
    peer.send(fpdu(b"one") + fpdu(b"two"))
    peer.send(fpdu(b"bad", good=False) + fpdu(b"good"))
    equal(b"one", receive(sock))
    equal(b"two", receive(sock))
    fails(errno.EBADMSG, receive, sock)
    fails(errno.EBADMSG, receive, sock)
    equal(ERR_CRC, info(sock)["error"])
    peer.expect_nothing()
    sock.send(b"why")
    peer.expect(fpdu(b"why"))
    sock.close()
    peer.expect(flags="F")


def fin_inside_an_fpdu(tun):
    """receive.rst: EBADMSG, code 1; sending still works."""
    peer, sock = initiator(tun)
    peer.send(fpdu(b"one") + fpdu(b"two")[:6], flags="F")
    equal(b"one", receive(sock))
    fails(errno.EBADMSG, receive, sock)
    equal(ERR_TCP, info(sock)["error"])
    peer.expect_nothing()
    sock.send(b"why")
    peer.expect(fpdu(b"why"), ack=19)


def fin_between_fpdus(tun):
    """Section 7.2: a half connection ends; the other one continues."""
    peer, sock = initiator(tun)
    peer.send(fpdu(b"last"), flags="F")
    equal(b"last", receive(sock))
    equal(b"", receive(sock))
    sock.send(b"answer")
    peer.expect(fpdu(b"answer"))
    sock.shutdown(socket.SHUT_WR)
    peer.expect(flags="F")


def reset_in_full_operation(tun):
    """Section 8, code 1; reported once, then ENOTCONN and EPIPE."""
    peer, sock = initiator(tun)
    peer.send(flags="R")
    fails(errno.ECONNRESET, receive, sock)
    fails(errno.ENOTCONN, receive, sock)
    fails(errno.EPIPE, sock.send, b"more")
    equal(ERR_TCP, info(sock)["error"])
    peer.expect_nothing()


def reset_inside_an_fpdu(tun):
    """The record is lost: ECONNRESET, then EBADMSG."""
    peer, sock = responder(tun)
    peer.send(fpdu(b"one") + fpdu(b"two")[:6])
    equal(b"one", receive(sock))
    peer.send(flags="R")
    fails(errno.ECONNRESET, receive, sock)
    fails(errno.EBADMSG, receive, sock)
    equal(ERR_TCP, info(sock)["error"])


def reset_after_fin(tun):
    """The stream has ended well, which the reset does not take back."""
    peer, sock = initiator(tun)
    peer.send(fpdu(b"last"), flags="F")
    peer.send(flags="R")
    equal(b"last", receive(sock))
    equal(b"", receive(sock))
    fails(errno.EPIPE, sock.send, b"more")


def close_with_unsent_records(tun):
    """receive.rst, "Close": they are sent before the FIN."""
    peer, sock = initiator(tun, window=0)
    sock.send(record(1454))
    sock.send(b"last")
    sock.close()
    peer.expect_nothing()
    peer.ack(window=65535)
    peer.expect(fpdu(record(1454)))
    peer.expect(fpdu(b"last"), flags="F")


def close_with_an_open_record(tun):
    """send.rst, "Records in pieces": it is dropped."""
    peer, sock = initiator(tun)
    sock.send(b"whole")
    sock.send(b"not wh", MORE)
    sock.close()
    peer.expect(fpdu(b"whole"))
    peer.expect(flags="F")


def close_with_unread_records(tun):
    """receive.rst, "Close": a reset, as TCP does."""
    peer, sock = initiator(tun)
    peer.send(fpdu(b"unread"))
    peer.expect_ack()
    sock.close()
    peer.expect(flags="R")
