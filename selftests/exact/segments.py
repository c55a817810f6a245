# SPDX-License-Identifier: GPL-2.0
"""Which segments leave, with which FPDUs: RFC 5044 sections 4 and 5.1; send.rst,
"Segments". MSS 1460 and no options: MULPDU is 1454."""

import errno

from script import (EOR, MORE, MPA_MULPDU, MPA_OVERSIZE, MPA_PACKING, MPA_SEGMENT,
                    SOL_MPA, cork, equal, fails, fpdu, initiator, marked, option,
                    record)
from tun import IPv6


# ---- when ----

def more_then_a_plain_send(tun):
    """send.rst, "Records in pieces": nothing leaves before the record ends."""
    peer, sock = initiator(tun)
    sock.send(b"hel", MORE)
    sock.send(b"lo", MORE)
    peer.expect_nothing()
    sock.send(b"!")
    peer.expect(fpdu(b"hello!"))


def more_and_eor_then_nothing(tun):
    """send.rst, "Many records with a call": a batch leaves by itself, if nothing
    follows."""
    peer, sock = initiator(tun)
    sock.send(b"one", MORE | EOR)
    peer.expect(fpdu(b"one"))


def nodelay(tun):
    """A short FPDU leaves at once, whatever is on its way."""
    peer, sock = initiator(tun)
    for text in b"one", b"two", b"three":
        sock.send(text)
        peer.expect(fpdu(text))


def nagle(tun):
    """RFC 896: short ones wait for the ACK, and share a segment then."""
    peer, sock = initiator(tun, nodelay=False)
    sock.send(b"one")
    peer.expect(fpdu(b"one"))
    sock.send(b"two")
    sock.send(b"three")
    peer.expect_nothing()
    peer.ack()
    peer.expect(fpdu(b"two") + fpdu(b"three"))


def corked(tun):
    """TCP_CORK holds short ones back, and they share a segment."""
    peer, sock = initiator(tun)
    cork(sock, 1)
    sock.send(b"one")
    sock.send(b"two")
    peer.expect_nothing()
    cork(sock, 0)
    peer.expect(fpdu(b"one") + fpdu(b"two"))


def corked_does_not_cut(tun):
    """Section 5.1: FPDUs share a segment only whole."""
    peer, sock = initiator(tun)
    cork(sock, 1)
    sock.send(record(1000))
    sock.send(record(700))
    cork(sock, 0)
    peer.expect(fpdu(record(1000)))
    peer.expect(fpdu(record(700)))


# ---- how long ----

def record_of_mulpdu(tun):
    """Section 4.5: MULPDU = EMSS - (6 + EMSS mod 4): it is exactly a segment."""
    peer, sock = initiator(tun)
    equal(1454, option(sock, MPA_MULPDU))
    sock.send(record(1454))
    sock.send(record(1454, 2))
    peer.expect(fpdu(record(1454)))
    peer.expect(fpdu(record(1454, 2)))


def record_of_mulpdu_over_ipv6(tun):
    """The same, with a longer header of IP: MSS 1440."""
    peer, sock = initiator(tun, ip=IPv6)
    equal(1434, option(sock, MPA_MULPDU))
    sock.send(record(1434))
    sock.send(record(1434, 2))
    peer.expect(fpdu(record(1434)))
    peer.expect(fpdu(record(1434, 2)))


def mulpdu_of_an_odd_emss(tun):
    """Section 4.5: two octets of each segment of 1458 cannot be used."""
    peer, sock = initiator(tun, mss=1458)
    equal(1450, option(sock, MPA_MULPDU))
    for first in 1, 2, 3:
        sock.send(record(1450, first))
        peer.expect(fpdu(record(1450, first)))


def mulpdu_with_timestamps(tun):
    """Section 4.5: EMSS is less by TCP's options."""
    peer, sock = initiator(tun, timestamps=True, sack=True, wscale=7)
    equal(1442, option(sock, MPA_MULPDU))
    sock.send(record(1442))
    sock.send(b"next")
    peer.expect(fpdu(record(1442)))
    peer.expect(fpdu(b"next"))


def record_longer_than_mulpdu(tun):
    """Two segments, of which the first starts with an FPDU; so does the next."""
    peer, sock = initiator(tun)
    sock.send(record(1455))
    sock.send(b"next")
    peer.expect(fpdu(record(1455))[:1460])
    peer.expect(fpdu(record(1455))[1460:])
    peer.expect(fpdu(b"next"))


def oversize_off(tun):
    """MPA_OVERSIZE 0: EMSGSIZE, and nothing leaves."""
    peer, sock = initiator(tun)
    sock.setsockopt(SOL_MPA, MPA_OVERSIZE, 0)
    fails(errno.EMSGSIZE, sock.send, record(1455))
    sock.send(b"next")
    peer.expect(fpdu(b"next"), seq=0)


def stream_fills_segments(tun):
    """MPA_SEGMENT 0: one call, records of MULPDU and a rest."""
    peer, sock = initiator(tun)
    sock.setsockopt(SOL_MPA, MPA_SEGMENT, 0)
    stream = record(4000)
    sock.send(stream)
    for at in 0, 1454, 2908:
        peer.expect(fpdu(stream[at:at + 1454]))


# ---- the peer's window ----

def window_smaller_than_an_fpdu(tun):
    """It waits, and leaves whole."""
    peer, sock = initiator(tun, window=500)
    sock.send(record(1000))
    peer.expect_nothing()
    peer.ack(window=1007)
    peer.expect_nothing()
    peer.ack(window=1008)
    peer.expect(fpdu(record(1000)))


def window_opens_inside_an_fpdu(tun):
    """Of FPDUs that share a packet those leave that fit whole."""
    peer, sock = initiator(tun, window=1460 + 700)
    sock.setsockopt(SOL_MPA, MPA_SEGMENT, 0)
    stream = record(3 * 1454)
    sock.send(stream)
    first, second, third = (fpdu(stream[at:at + 1454]) for at in (0, 1454, 2908))
    peer.expect(first)
    peer.expect_nothing()
    peer.ack(window=1460 + 700)
    peer.expect(second)
    peer.expect_nothing()
    peer.ack(window=65535)
    peer.expect(third)


def closed_window(tun):
    """What waits for it shares a segment."""
    peer, sock = initiator(tun, window=0)
    sock.send(b"one")
    sock.send(b"two")
    peer.expect_nothing()
    peer.ack(window=65535)
    peer.expect(fpdu(b"one") + fpdu(b"two"))


def closed_window_without_packing(tun):
    """MPA_PACKING 0: a segment each."""
    peer, sock = initiator(tun, window=0)
    sock.setsockopt(SOL_MPA, MPA_PACKING, 0)
    sock.send(b"one")
    sock.send(b"two")
    peer.ack(window=65535)
    peer.expect(fpdu(b"one"))
    peer.expect(fpdu(b"two"))


def probe_of_a_small_window(tun):
    """The probe has what fits. After the rest a segment begins: section 5.1."""
    peer, sock = initiator(tun, window=500, rto=0.2)
    sock.send(record(1000))
    peer.expect(fpdu(record(1000))[:500])
    sock.send(b"next")
    peer.ack(window=65535)
    peer.expect(fpdu(record(1000))[500:])
    peer.expect(fpdu(b"next"))


# ---- loss, and another path ----

def sent_again_after_loss(tun):
    """The same FPDUs in the same segments."""
    peer, sock = initiator(tun)
    for first in 1, 2, 3, 4:
        sock.send(record(1454, first))
        peer.expect(fpdu(record(1454, first)))
    peer.ack(0, times=3)
    peer.expect(fpdu(record(1454, 1)), seq=0, again=True)
    peer.ack(1460)
    peer.expect(fpdu(record(1454, 2)), seq=1460, again=True)


def sent_again_by_sack(tun):
    """The one that is missing."""
    peer, sock = initiator(tun, sack=True)
    for first in 1, 2, 3, 4:
        sock.send(record(1000, first))
        peer.expect(fpdu(record(1000, first)))
    for end in 3 * 1008, 4 * 1008:
        peer.ack(1008, sack=[(2 * 1008, end)])
    peer.expect(fpdu(record(1000, 2)), seq=1008, again=True)
    peer.ack(4 * 1008)
    sock.send(b"next")
    peer.expect(fpdu(b"next"), seq=4 * 1008)


def sent_again_by_the_timer(tun):
    """The first, octet for octet; after its ACK the others, whole."""
    peer, sock = initiator(tun, rto=0.2)
    for first in 1, 2:
        sock.send(record(1000, first))
        peer.expect(fpdu(record(1000, first)))
    peer.expect(fpdu(record(1000, 1)), seq=0, again=True)
    peer.ack(1008)
    peer.expect(fpdu(record(1000, 2)), seq=1008, again=True)


def half_an_fpdu_acknowledged(tun):
    """The other half is sent again, and the next FPDU starts a segment."""
    peer, sock = initiator(tun)
    for first in 1, 2, 3, 4, 5:
        sock.send(record(1000, first))
        peer.expect(fpdu(record(1000, first)))
    peer.ack(500)
    peer.ack(500, times=3)
    peer.expect(fpdu(record(1000, 1))[500:], seq=500)
    peer.ack(1008)
    peer.expect(fpdu(record(1000, 2)), seq=1008, again=True)


def smaller_path_mtu(tun):
    """RFC 1191. Sections 4.5 and 5.1: what has left is cut, the next FPDUs fit."""
    peer, sock = initiator(tun)
    sent = fpdu(record(1454))
    sock.send(record(1454))
    peer.expect(sent)
    peer.packet_too_big(1000)
    peer.expect(sent[:960], seq=0)
    peer.expect(sent[960:], seq=960)
    peer.ack()
    equal(954, option(sock, MPA_MULPDU))
    for first in 2, 3:
        sock.send(record(954, first))
        peer.expect(fpdu(record(954, first)))


def smaller_path_mtu_over_ipv6(tun):
    """The same, RFC 8201."""
    peer, sock = initiator(tun, ip=IPv6)
    sent = fpdu(record(1434))
    sock.send(record(1434))
    peer.expect(sent)
    peer.packet_too_big(1280)
    peer.expect(sent[:1220], seq=0)
    peer.expect(sent[1220:], seq=1220)
    peer.ack()
    equal(1214, option(sock, MPA_MULPDU))
    sock.send(record(1214, 2))
    peer.expect(fpdu(record(1214, 2)))


def smaller_path_mtu_for_what_waits(tun):
    """Section 5.1: what was laid out before loses its alignment, nothing after it."""
    peer, sock = initiator(tun, window=1460)
    first, second = fpdu(record(1454)), fpdu(record(1454, 2))
    for each in 1, 2:
        sock.send(record(1454, each))
    peer.expect(first)
    peer.packet_too_big(1000)
    peer.expect(first[:960], seq=0)
    peer.expect(first[960:], seq=960)
    peer.ack(window=65535)
    peer.expect(second[:960])
    peer.expect(second[960:])
    sock.send(record(954, 3))
    peer.expect(fpdu(record(954, 3)))


# ---- octets ----

def example_of_figure_5(tun):
    """Section 4.4: the first FPDU of a stream with markers, and its CRC."""
    peer, sock = initiator(tun, markers=True)
    sock.send(bytes.fromhex("4143 00000000 00000000 00000001 00000000") + bytes(24))
    peer.expect(bytes.fromhex("00000000 002a 4143 00000000 00000000 00000001 00000000")
                + bytes(24) + bytes.fromhex("52239983"))


def example_of_figure_6(tun):
    """Section 4.4: after an FPDU of 492 octets, with a marker inside."""
    peer, sock = initiator(tun, markers=True)
    sock.send(bytes(482))
    peer.expect(marked(bytes(482)))
    equal(0x1ec, peer.seen)
    sock.send(bytes.fromhex("4143 00000000 00000000 00000002 00000000") + bytes(24))
    peer.expect(bytes.fromhex("002a 4143 00000000 00000000 00000002 00000000 00000014")
                + bytes(24) + bytes.fromhex("84925898"))


def markers_and_segments(tun):
    """4.3: at every 512th octet, to the FPDU's start. 4.5: MULPDU counts three of
    them, so that each FPDU is a segment of 1460."""
    peer, sock = initiator(tun, markers=True)
    equal(1442, option(sock, MPA_MULPDU))
    records = [record(1442, first) for first in (1, 2, 3)]
    for each in records:
        sock.send(each)
    stream = marked(*records)
    for at in 0, 1460, 2920:
        peer.expect(stream[at:at + 1460])
    # The first FPDU begins after the first marker.
    for at, begin in ((512, 4), (1024, 4), (1536, 1460), (2048, 1460), (2560, 1460),
                      (3072, 2920), (3584, 2920), (4096, 2920)):
        equal(at - begin, int.from_bytes(stream[at:at + 4], "big"))


def marker_between_fpdus(tun):
    """4.3: FPDUPTR is 0, and 4.4 (2): the marker is in the next one's CRC."""
    peer, sock = initiator(tun, markers=True)
    sock.send(record(502))
    sock.send(b"next")
    stream = marked(record(502), b"next")
    equal(bytes(4), stream[512:516])
    peer.expect(stream[:512])
    peer.expect(stream[512:])
