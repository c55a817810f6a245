# SPDX-License-Identifier: GPL-2.0
"""Tests for mpa_ynl.py: events."""

import errno
import json
import signal
import socket
import struct
import subprocess

import mpa_ends as ends
from mpa_ynl_family import (
    cli_command, do, dump, event, expect, listen, refused, sysctl, test)


@test
def started_and_closed_are_reported():
    listener = listen("events")
    a, b = ends.pair()
    cookies = [ends.cookie(sock) for sock in (a, b)]
    for sock, role in (a, "initiator"), (b, "responder"):
        reported = event(listener, "started-ntf", ends.cookie(sock))
        expect([role, "full", 1], [reported[name] for name in ("role", "state", "revision")])
        expect(sock.getsockname()[1], reported["local-port"])
        expect(sock.getpeername()[1], reported["remote-port"])
        expect(0, reported["tx-ulpdus"])
    ends.transfer(a, b, 5, 6)
    b.close()
    a.close()
    reported = [event(listener, "closed-ntf", cookie) for cookie in cookies]
    expect([2, 0], [conn["tx-ulpdus"] for conn in reported])
    expect([0, 11], [conn["rx-octets"] for conn in reported])


@test
def events_come_in_the_order_of_their_numbers():
    listener = listen("events")
    for _ in range(20):
        socks = ends.pair()
        cookies = [ends.cookie(sock) for sock in socks]
        for sock in socks:
            sock.close()
        for sock_cookie in cookies:
            event(listener, "closed-ntf", sock_cookie)
    numbers = [message["msg"]["event"] for message in listener.async_msg_queue]
    # Otherwise a missing number would go unnoticed.
    expect(list(range(numbers[0], numbers[0] + 80)), numbers, "numbers")


def refusal(reason, function, *args):
    """Run the function, whose startup fails; return the event of its first socket."""
    listener = listen("events")
    socks = function(*args)
    reported = event(listener, "refused-ntf", ends.cookie(socks[0]))
    expect(reason, reported["refusal"])
    started = [message for message in listener.async_msg_queue
               if message["name"] == "started-ntf"
               and message["msg"]["cookie"] == reported["cookie"]]
    expect([], started)
    return reported


def rejected_by_peer():
    initiator, peer = ends.tcp_pair()
    ends.start(initiator, ends.INITIATOR)
    ends.take(peer, 20)
    peer.sendall(ends.frame(True, 0x60))
    return initiator, peer


def rejected_by_user():
    peer, responder = ends.tcp_pair()
    ends.start(responder, ends.RESPONDER, ends.MANUAL)
    peer.sendall(ends.frame(False))
    ends.wait_for(lambda: ends.info(responder)["state"] == 5)
    responder.setsockopt(ends.SOL_MPA, ends.MPA_REJECT, b"")
    return responder, peer


def silent(timeout_ms=0):
    peer, responder = ends.tcp_pair()
    ends.start(responder, ends.RESPONDER, timeout_ms=timeout_ms)
    return responder, peer


def two_at_one_port():
    """Open two responders in startup; the second evicts the first."""
    socks = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(2):
            peer = socket.create_connection(listener.getsockname())
            socks += listener.accept()[0], peer
            ends.start(socks[-2], ends.RESPONDER)
    return socks


def malformed():
    responder, peer = silent()
    peer.sendall(b"GET / HTTP/1.0\r\n\r\n\r\n")
    return responder, peer


def lost():
    responder, peer = silent()
    peer.close()
    return responder, peer


def given_up():
    responder, peer = silent()
    responder.shutdown(socket.SHUT_RDWR)
    return responder, peer


def limited():
    peer, responder = ends.tcp_pair()
    refused(errno.EUSERS, ends.start, responder, ends.RESPONDER)
    return responder, peer


@test
def refusal_by_the_peer_is_reported():
    expect("rejected", refusal("by-peer", rejected_by_peer)["state"])


@test
def refusal_by_the_user_is_reported():
    expect("rejected", refusal("by-user", rejected_by_user)["state"])


@test
def refusal_for_other_reasons_is_reported():
    for reason, function, args, number in (
            ("malformed", malformed, (), errno.EPROTO),
            ("timeout", silent, (20,), errno.ETIMEDOUT),
            ("lost", lost, (), errno.ECONNRESET),
            ("given-up", given_up, (), errno.ECONNABORTED)):
        reported = refusal(reason, function, *args)
        expect(number, reported.get("errno"), f"{reason}, errno:")


@test
def refusal_for_want_of_room_is_reported():
    before = sysctl("startup-max")
    try:
        sysctl("startup-max", 0)
        refusal("limit", limited)
        sysctl("startup-max", 1)
        expect(errno.EUSERS, refusal("ousted", two_at_one_port).get("errno"))
    finally:
        sysctl("startup-max", before)


def failing(octets):
    """Open a connection whose responder has read all these octets from its peer."""
    peer, responder = ends.by_hand()
    peer.sendall(octets)
    return peer, responder


@test
def bad_crc_is_reported_with_its_place():
    listener = listen("events")
    peer, responder = failing(ends.fpdu(b"first") + ends.fpdu(b"second!", False))
    expect(b"first", ends.receive(responder))
    refused(errno.EBADMSG, ends.receive, responder)
    for reported in (event(listener, "failed-ntf", ends.cookie(responder)),
                     do("conn-get", cookie=ends.cookie(responder))):
        expect(["crc", errno.EBADMSG, ends.fpdu_length(5)],
               [reported.get(name) for name in ("error", "errno", "error-position")])


@test
def end_inside_an_fpdu_is_reported():
    listener = listen("events")
    peer, responder = failing(ends.fpdu(b"first") + ends.fpdu(b"second")[:6])
    expect(b"first", ends.receive(responder))
    peer.close()
    refused(errno.EBADMSG, ends.receive, responder)
    reported = event(listener, "failed-ntf", ends.cookie(responder))
    expect("tcp", reported["error"])
    reported = do("conn-get", cookie=ends.cookie(responder))
    expect(["tcp", ends.fpdu_length(5)], [reported["error"], reported.get("error-position")])


@test
def reset_is_reported():
    listener = listen("events")
    peer, responder = ends.by_hand()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    reported = event(listener, "failed-ntf", ends.cookie(responder))
    expect(["tcp", errno.ECONNRESET], [reported.get(name) for name in ("error", "errno")])


@test
def mulpdu_and_the_first_unaligned_segment_are_reported():
    a, b = ends.pair()
    ends.transfer(a, b, 5)
    listener = listen("events")
    before = ends.info(a)["mulpdu"]
    sock_cookie = ends.cookie(a)
    subprocess.run(["ip", "link", "set", "lo", "mtu", "1500"], check=True)
    try:
        ends.transfer(a, b, 6)
        reported = event(listener, "mulpdu-ntf", sock_cookie)
        expect(ends.info(a)["mulpdu"], reported["mulpdu"])
        expect(ends.info(a)["emss"], reported["emss"])
        assert reported["mulpdu"] < 1500 < before, f"seen {before}, {reported}"
        ends.transfer(a, b, 1000, 5000, 5000)
        reported = event(listener, "unaligned-ntf", sock_cookie)
        expect("oversized", reported["cause"])
    finally:
        subprocess.run(["ip", "link", "set", "lo", "mtu", "65536"], check=True)
    a.close()
    b.close()
    event(listener, "closed-ntf", sock_cookie)
    names = [message["name"] for message in listener.async_msg_queue
             if message["msg"]["cookie"] == sock_cookie]
    expect(1, names.count("unaligned-ntf"), "times")


@test
def command_line_client_hears_events():
    client = subprocess.Popen(
        cli_command("--no-schema", "--subscribe", "events", "--sleep", "3"),
        stdout=subprocess.PIPE, text=True)
    try:
        # Do not wait while it sleeps: the sleep would have to be long.
        ends.wait_for(lambda: in_a_group(client.pid))
        client.send_signal(signal.SIGSTOP)
        a, b = ends.pair()
        cookies = [ends.cookie(sock) for sock in (a, b)]
        a.close()
        b.close()
        ends.wait_for(lambda: not dump().keys() & set(cookies))
    finally:
        client.send_signal(signal.SIGCONT)
        said = client.communicate()[0]
    received = {(message["name"], message["msg"]["cookie"]) for message in json.loads(said)}
    for name in "started-ntf", "closed-ntf":
        for cookie in cookies:
            assert (name, cookie) in received, f"expected {name} of {cookie}, seen {received}"


def in_a_group(pid):
    """Whether a netlink socket of this process is in a multicast group."""
    with open("/proc/net/netlink") as file:
        lines = [line.split() for line in file]
    return any(line[2] == str(pid) and int(line[3], 16) for line in lines[1:])
