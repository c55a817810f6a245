# SPDX-License-Identifier: GPL-2.0
"""Tests for mpa_ynl.py: conn-get of one connection and of all."""

import errno
import os
import socket

import mpa_ends as ends
from mpa_ynl_family import NETLINK, NOBODY, cli, do, dump, expect, mpa, refused, test


def as_told(sock, role):
    """Return the expected conn-get reply for an end in Full Operation, from other sources."""
    n = 4 if sock.family == socket.AF_INET else 6
    local, remote = sock.getsockname(), sock.getpeername()
    conn = {name: value for name, value in ends.info(sock).items()
            if name not in ("error", "ird", "ord", "rtr")}
    info = mpa().consts["info"].entries.values()
    conn.update({
        "cookie": ends.cookie(sock), "family": int(sock.family),
        f"local-addr{n}": local[0], "local-port": local[1],
        f"remote-addr{n}": remote[0], "remote-port": remote[1],
        "inode": ends.inode(sock), "uid": 0, "role": role, "state": "full",
        "flags": {bit.name for bit in info if conn["flags"] & bit.user_value()},
    })
    return conn


def without_nothing(conn):
    """Remove attributes that may be left out, if they have their default value."""
    nothing = {"error": "none", "rx-held": 0, "tx-held": 0, "ird": 0, "ord": 0}
    return {name: value for name, value in conn.items()
            if name != "pad" and (name not in nothing or value != nothing[name])}


def both_ends_report_it(family):
    a, b = ends.pair(family, initiator=ends.MARKERS)
    ends.transfer(a, b, 5, 100, 1400)
    ends.transfer(b, a, 7, 4000)
    conns = dump()
    for sock, role in (a, "initiator"), (b, "responder"):
        seen = without_nothing(conns[ends.cookie(sock)])
        expected = as_told(sock, role)
        for name in sorted(expected.keys() | seen.keys()):
            expect(expected.get(name), seen.get(name), f"{role}, {name}:")
    seen = conns[ends.cookie(a)]
    reported = [seen[name] for name in ("tx-ulpdus", "tx-octets", "rx-ulpdus", "rx-octets")]
    expect([3, 1505, 2, 4007], reported, "ULPDUs and octets")
    expect({"rx-markers", "tx-crc", "rx-crc", "may-send"}, seen["flags"])
    assert seen["rx-markers"] >= 8, f"expected markers, seen {seen}"
    expect(0, seen["tx-markers"])


@test
def dump_has_both_ends_over_ipv4():
    both_ends_report_it(socket.AF_INET)


@test
def dump_has_both_ends_over_ipv6():
    both_ends_report_it(socket.AF_INET6)


@test
def command_line_client_dumps():
    a, b = ends.pair()
    ends.transfer(a, b, 5)
    conns = {conn["cookie"]: conn for conn in
             cli("--schema", f"{NETLINK}/genetlink.yaml", "--dump", "conn-get")}
    expected = as_told(a, "initiator")
    seen = without_nothing(conns[ends.cookie(a)])
    seen["flags"] = set(seen["flags"])
    expect(expected, seen)


@test
def one_is_found_by_its_cookie():
    a, b = ends.pair()
    for sock in a, b:
        expect(dump()[ends.cookie(sock)], do("conn-get", cookie=ends.cookie(sock)))


@test
def no_such_cookie_is_enoent():
    a, b = ends.pair()
    gone = ends.cookie(a)
    a.close()
    b.close()
    ends.wait_for(lambda: gone not in dump())
    refused(errno.ENOENT, do, "conn-get", cookie=gone)
    refused(errno.ENOENT, do, "conn-get", cookie=2 ** 64 - 1)
    refused(errno.ENOENT, do, "conn-get", cookie=0)


@test
def no_cookie_is_einval():
    extack = refused(errno.EINVAL, do, "conn-get")
    expect("cookie", extack.get("miss-type"), "attribute missing:")


@test
def a_socket_that_is_not_started_is_reported():
    a, b = ends.tcp_pair()
    ends.attach(a)
    conns = dump()
    conn = conns[ends.cookie(a)]
    expect("idle", conn["state"])
    for name in "revision", "flags", "error-position", "errno":
        expect(None, conn.get(name), f"{name}:")
    assert ends.cookie(b) not in conns, "expected no plain TCP socket, seen one"


@test
def the_owner_is_notified():
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        a, b = ends.pair()
    finally:
        os.seteuid(0)
        os.setegid(0)
    expect([NOBODY] * 2, [dump()[ends.cookie(sock)]["uid"] for sock in (a, b)])


class Meddler:
    """A socket that calls @meddle before each of the first receptions: a dump may
    continue as long as there is more to report."""

    def __init__(self, sock, meddle):
        self.sock, self.meddle, self.n = sock, meddle, 0

    def __getattr__(self, name):
        return getattr(self.sock, name)

    def recv(self, *args):
        self.n += 1
        if self.n < 10:
            self.meddle()
        return self.sock.recv(*args)


@test
def each_is_once_in_a_dump_of_many_that_come_and_go():
    many = [ends.tcp_pair() for _ in range(60)]
    for sock in (sock for pair in many for sock in pair):
        ends.attach(sock)
    passing = []

    def come_and_go():
        passing.append(ends.tcp_pair())
        ends.attach(passing[-1][0])
        if len(passing) > 1:
            passing.pop(0)[0].close()

    client = mpa()
    client._recv_size = 4000
    client.sock = Meddler(client.sock, come_and_go)
    conns = dump(client)
    missing = [sock for pair in many for sock in pair if ends.cookie(sock) not in conns]
    expect([], missing)
    assert client.sock.n > 3, f"expected several messages, seen {client.sock.n}"


# linux/tuf.h
TUF_TX, TUF_RX, TUF_ALIGN, TUF_MARKERS = 32, 33, 1, 2


def frame(sock, option, mode):
    sock.setsockopt(ends.SOL_MPA, option, bytes([mode]) + bytes(31))


@test
def a_socket_of_tuf_says_how_each_direction_is_framed():
    a, b = ends.tcp_pair()
    a.setsockopt(socket.IPPROTO_TCP, ends.TCP_ULP, b"tuf\0")
    reported = do("conn-get", cookie=ends.cookie(a))
    expect(("off", "off", "idle"), (reported["tuf-tx"], reported["tuf-rx"], reported["state"]))
    frame(a, TUF_TX, TUF_ALIGN)
    frame(a, TUF_RX, TUF_MARKERS)
    a.send(b"record")
    reported = do("conn-get", cookie=ends.cookie(a))
    expect(("align", "markers", "full"),
           (reported["tuf-tx"], reported["tuf-rx"], reported["state"]))
    expect((1, 6, 1), (reported["tx-ulpdus"], reported["tx-octets"], reported["tx-segs-aligned"]))
    assert "flags" not in reported, f"MPA_INFO_* of a socket of TUF: {reported}"
    assert "resegmented" not in reported, f"nothing was received: {reported}"
    a.close()
    b.close()
