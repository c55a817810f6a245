# SPDX-License-Identifier: GPL-2.0
"""Tests for mpa_ynl.py: records that a monitor receives."""

import contextlib
import errno

import mpa_ends as ends
from mpa_ynl_family import (
    CLONE_NEWNET, Netlink, NlError, do, expect, in_child, mpa, refused, test,
    unshare)


def records(listener, n):
    """Wait for n records of a tap, and check that there are no more."""

    def enough():
        listener.check_ntf()
        return len(listener.async_msg_queue) >= n

    ends.wait_for(enough)
    expect(n, len(listener.async_msg_queue), "records")
    return [message["msg"] for message in listener.async_msg_queue]


def tap(client, sock_cookie, octets):
    client.do("tap-set", {"cookie": sock_cookie, "octets": octets})


@test
def tap_shows_records_both_ways():
    a, b = ends.pair()
    listener = mpa()
    tap(listener, ends.cookie(a), 16)
    lengths = [5, 100, 1400]
    ends.transfer(a, b, *lengths)
    ends.transfer(b, a, 7, 17)
    expected = []
    for direction, lengths in ("tx", [5, 100, 1400]), ("rx", [7, 17]):
        position = 0
        for n in lengths:
            expected.append({
                "cookie": ends.cookie(a), "seq": 1 + len(expected), "length": n,
                "direction": direction, "position": position,
                "data": bytes(i * n % 251 for i in range(min(n, 16)))})
            position += ends.fpdu_length(n)
    seen = records(listener, len(expected))
    for record in seen:
        record.pop("pad", None)
        # A sent record has no verdict.
        expect("none", record.pop("verdict", "none"))
    expect(expected, seen)


@test
def tap_of_no_octets_shows_no_data():
    a, b = ends.pair(initiator=ends.MARKERS, responder=ends.MARKERS)
    listener = mpa()
    tap(listener, ends.cookie(b), 0)
    edges = []
    for n in 1, 600, 3000, 64768:
        edges.append(ends.info(b)["rx-edge"])
        ends.transfer(a, b, n)
    seen = records(listener, 4)
    expect([1, 600, 3000, 64768], [record["length"] for record in seen])
    expect(edges, [record["position"] for record in seen])
    expect([b""] * 4, [record.get("data", b"") for record in seen])


@test
def tap_that_is_set_again_continues():
    a, b = ends.pair()
    listener = mpa()
    for n, octets in enumerate((3, 4), 1):
        tap(listener, ends.cookie(a), octets)
        ends.transfer(a, b, 5, 6)
        # The client does not read again while it has messages left.
        records(listener, 2 * n)
    expect([(1, 3), (2, 3), (3, 4), (4, 4)],
           [(record["seq"], len(record["data"])) for record in records(listener, 4)])


@test
def tap_shows_a_record_wholly():
    a, b = ends.pair()
    listener = mpa()
    for sock in a, b:
        tap(listener, ends.cookie(sock), 64768)
    ends.transfer(a, b, 64768)
    record = bytes(i * 64768 % 251 for i in range(64768))
    for seen in records(listener, 2):
        expect(64768, len(seen["data"]))
        assert seen["data"] == record, "expected the octets, seen others"


@test
def tap_shows_a_record_that_is_not_good():
    peer, responder = ends.by_hand()
    listener = mpa()
    tap(listener, ends.cookie(responder), 64768)
    peer.sendall(ends.fpdu(b"first") + ends.fpdu(b"second!", False))
    expect(b"first", ends.receive(responder))
    refused(errno.EBADMSG, ends.receive, responder)
    seen = records(listener, 2)
    expect([("rx", 0, "none", b"first"),
            ("rx", ends.fpdu_length(5), "crc", b"second!")],
           [tuple(record[name] for name in ("direction", "position", "verdict", "data"))
            for record in seen])


@test
def tap_ends_when_it_is_cleared():
    a, b = ends.pair()
    listener = mpa()
    tap(listener, ends.cookie(a), 16)
    tap(listener, ends.cookie(b), 16)
    do("tap-clear", cookie=ends.cookie(a))
    ends.transfer(a, b, 5)
    ends.transfer(b, a, 6)
    expect([(ends.cookie(b), "rx"), (ends.cookie(b), "tx")],
           [(record["cookie"], record["direction"]) for record in records(listener, 2)])


@test
def tap_ends_with_the_socket_that_has_set_it():
    a, b = ends.pair()
    first, second = mpa(), mpa()
    tap(first, ends.cookie(a), 16)
    extack = refused(errno.EBUSY, tap, second, ends.cookie(a), 3)
    assert "another socket" in extack.get("msg", ""), f"seen {extack}"
    ends.transfer(a, b, 5)
    expect([5], [len(record["data"]) for record in records(first, 1)])
    first.sock.close()
    tap(second, ends.cookie(a), 16)
    ends.transfer(a, b, 6)
    expect([ends.cookie(a)], [record["cookie"] for record in records(second, 1)])


@test
def taps_have_a_limit():
    """A namespace has a limit; other sockets' taps in other namespaces do not count."""
    pairs = [ends.pair() for _ in range(129)]
    socks = [sock for pair in pairs for sock in pair]
    reader, other = mpa(), mpa()
    for n, sock in enumerate(socks[:256]):
        tap((reader, other)[n & 1], ends.cookie(sock), 0)
    extack = refused(errno.ENOSPC, tap, reader, ends.cookie(socks[256]), 0)
    assert "namespace" in extack.get("msg", ""), f"seen {extack}"
    # Existing taps may be set again.
    tap(reader, ends.cookie(socks[0]), 1)

    def elsewhere():
        unshare(CLONE_NEWNET)
        a, b = ends.pair()
        listener = mpa()
        tap(listener, ends.cookie(a), 1)
        ends.transfer(a, b, 5)
        records(listener, 1)

    in_child(elsewhere)

    # Each way to end a tap frees an entry.
    do("tap-clear", cookie=ends.cookie(socks[1]))
    tap(reader, ends.cookie(socks[256]), 0)
    refused(errno.ENOSPC, tap, reader, ends.cookie(socks[257]), 0)
    for sock in pairs[1]:
        sock.close()
    ends.wait_for(lambda: tap_or_no_room(reader, ends.cookie(socks[257])))
    other.sock.close()
    for sock in socks[5:256:2]:
        tap(reader, ends.cookie(sock), 0)


def tap_or_no_room(client, sock_cookie):
    try:
        tap(client, sock_cookie, 0)
    except NlError as error:
        expect(errno.ENOSPC, error.error)
        return False
    return True


@test
def tap_goes_to_nobody_else():
    """Nor does a socket get records that joined all groups before the module was loaded."""
    a, b = ends.pair()
    reader, other = mpa(), mpa()
    for group in range(1, 64):
        with contextlib.suppress(OSError):
            other.sock.setsockopt(Netlink.SOL_NETLINK, Netlink.NETLINK_ADD_MEMBERSHIP,
                                  group)
    tap(reader, ends.cookie(a), 16)
    ends.transfer(a, b, 6)
    records(reader, 1)
    other.check_ntf()
    expect([], [message for message in other.async_msg_queue
                if message["name"] == "record-ntf"])


@test
def tap_needs_a_connection_and_a_length_in_range():
    a, b = ends.pair()
    for op in "tap-set", "tap-clear":
        attrs = {"octets": 16} if op == "tap-set" else {}
        refused(errno.ENOENT, mpa().do, op, {"cookie": 2 ** 64 - 1, **attrs})
        extack = refused(errno.EINVAL, mpa().do, op, attrs)
        expect("cookie", extack.get("miss-type"), f"{op}, attribute missing:")
    extack = refused(errno.ERANGE, do, "tap-set", cookie=ends.cookie(a), octets=64769)
    expect(".octets", extack.get("bad-attr"), "attribute named:")
