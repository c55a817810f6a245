# SPDX-License-Identifier: GPL-2.0
"""mpa_ynl.py YNL SPEC [TEST...]: tests of the netlink family "mpa" with the
kernel's own client for netlink specifications, in TAP. mpa_ynl.sh runs them."""

import copy
import contextlib
import ctypes
import errno
import functools
import json
import os
import pickle
import pwd
import signal
import socket
import struct
import subprocess
import sys
import traceback

import yaml

# The parser in C: in an emulated machine the other one takes seconds.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

YNL, SPEC = sys.argv[1:3]
sys.path.insert(0, f"{YNL}/tools/net/ynl")
from lib import Netlink, NlError, YnlFamily  # noqa: E402

import mpa_ends as ends  # noqa: E402
import mpa_policy_dump  # noqa: E402

CLI = f"{YNL}/tools/net/ynl/cli.py"
NETLINK = f"{YNL}/Documentation/netlink"
POLICY = "crc-optional startup-timeout-ms startup-max markers place".split()
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NOBODY = pwd.getpwnam("nobody").pw_uid
libc = ctypes.CDLL(None, use_errno=True)
tests = []


def test(function):
    tests.append(function)
    return function


def expect(expected, seen, what=""):
    assert expected == seen, f"{what} expected {expected}, seen {seen}"


@functools.cache
def described():
    return YnlFamily(SPEC, schema="", process_unknown=True)


def mpa():
    """A client with a socket of its own, but the same specification: that takes a
    while to read, and an ordinary user may not be allowed to."""
    client = copy.copy(described())
    client.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW,
                                client.nlproto.proto_num)
    for option in (Netlink.NETLINK_CAP_ACK, Netlink.NETLINK_EXT_ACK,
                   Netlink.NETLINK_GET_STRICT_CHK):
        client.sock.setsockopt(Netlink.SOL_NETLINK, option, 1)
    client.async_msg_queue = []
    return client


def do(op, **attrs):
    """With "_" for "-" in names."""
    return mpa().do(op, {name.replace("_", "-"): attrs[name] for name in attrs})


def refused(number, function, *args, **kwargs):
    """What the kernel says of a call that fails with this number."""
    try:
        seen = function(*args, **kwargs)
    except NlError as error:
        expect(errno.errorcode[number], errno.errorcode[error.error])
        return error.nl_msg.extack or {}
    except OSError as error:
        expect(errno.errorcode[number], errno.errorcode[error.errno])
        return {}
    raise AssertionError(f"expected {errno.errorcode[number]}, seen {seen}")


def sysctl(name, value=None):
    path = "/proc/sys/net/mpa/" + name.replace("-", "_")
    if value is not None:
        with open(path, "w") as file:
            file.write(str(value))
    with open(path) as file:
        return int(file.read())


def sysctls():
    return {name: sysctl(name) for name in POLICY}


def listen(group):
    client = mpa()
    client.ntf_subscribe(group)
    return client


def join(client, group):
    """For a client that has been used."""
    client.sock.setsockopt(Netlink.SOL_NETLINK, Netlink.NETLINK_ADD_MEMBERSHIP,
                           client.nlproto.get_mcast_id(group, None))


def event(listener, name, sock_cookie):
    """The first of that name about that socket."""

    def seen():
        listener.check_ntf()
        for message in listener.async_msg_queue:
            if message["name"] == name and message["msg"]["cookie"] == sock_cookie:
                return message["msg"]

    try:
        return ends.wait_for(seen)
    except AssertionError:
        raise AssertionError(f"expected {name} of {sock_cookie}, seen "
                             f"{listener.async_msg_queue}") from None


def records(listener, n):
    """The first n of a tap, and no more."""

    def enough():
        listener.check_ntf()
        return len(listener.async_msg_queue) >= n

    ends.wait_for(enough)
    expect(n, len(listener.async_msg_queue), "records")
    return [message["msg"] for message in listener.async_msg_queue]


def dump(client=None):
    """All connections, by cookie; none is in it twice."""
    conns = (client or mpa()).dump("conn-get", {})
    by_cookie = {conn["cookie"]: conn for conn in conns}
    expect(len(conns), len(by_cookie), "different cookies")
    return by_cookie


def cli(*args):
    """What the command line client prints, from JSON."""
    return json.loads(subprocess.run(
        cli_command(*args), check=True, stdout=subprocess.PIPE, text=True).stdout)


def cli_command(*args):
    return ["/usr/bin/python3", "-B", CLI, "--spec", SPEC, "--output-json",
            "--process-unknown", *args]


def in_child(function):
    """What it returns in a process of its own."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            result = pickle.dumps((None, function()))
        except BaseException:
            result = pickle.dumps((traceback.format_exc(), None))
        with open(writable, "wb") as file:
            file.write(result)
        os._exit(0)
    os.close(writable)
    try:
        with open(readable, "rb") as file:
            failed, result = pickle.load(file)
    finally:
        os.waitpid(pid, 0)
    assert not failed, failed
    return result


def unshare(flags):
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")
    if flags & CLONE_NEWNET:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def become_nobody():
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    # Else what is in /proc/self belongs to root.
    libc.prctl(4, 1, 0, 0, 0)


# ---- connections ----


def as_told(sock, role):
    """What conn-get has to say of an end in Full Operation, from other sources."""
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
    """But for what says nothing, whether it is there or not."""
    nothing = {"error": "none", "rx-held": 0, "tx-held": 0, "ird": 0, "ord": 0}
    return {name: value for name, value in conn.items()
            if name != "pad" and (name not in nothing or value != nothing[name])}


def both_ends_are_told(family):
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
    told = [seen[name] for name in ("tx-ulpdus", "tx-octets", "rx-ulpdus", "rx-octets")]
    expect([3, 1505, 2, 4007], told, "ULPDUs and octets")
    expect({"rx-markers", "tx-crc", "rx-crc", "may-send"}, seen["flags"])
    assert seen["rx-markers"] >= 8, f"expected markers, seen {seen}"
    expect(0, seen["tx-markers"])


@test
def dump_has_both_ends_over_ipv4():
    both_ends_are_told(socket.AF_INET)


@test
def dump_has_both_ends_over_ipv6():
    both_ends_are_told(socket.AF_INET6)


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
def a_socket_that_is_not_started_is_told():
    a, b = ends.tcp_pair()
    ends.attach(a)
    conns = dump()
    conn = conns[ends.cookie(a)]
    expect("idle", conn["state"])
    for name in "revision", "flags", "error-position", "errno":
        expect(None, conn.get(name), f"{name}:")
    assert ends.cookie(b) not in conns, "expected no plain TCP socket, seen one"


@test
def the_owner_is_told():
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        a, b = ends.pair()
    finally:
        os.seteuid(0)
        os.setegid(0)
    expect([NOBODY] * 2, [dump()[ends.cookie(sock)]["uid"] for sock in (a, b)])


class Meddler:
    """A socket that has something done before each answer is received, for a while:
    a dump may go on for as long as there is more to tell."""

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


# ---- policy ----


@test
def policy_is_that_of_the_sysctls():
    expect(sysctls(), do("policy-get"))
    before = sysctl("startup-max")
    try:
        expect(77, sysctl("startup-max", 77))
        expect(sysctls(), do("policy-get"))
    finally:
        sysctl("startup-max", before)


def limits(name):
    checks = mpa().attr_sets["policy"][name].yaml.get("checks", {})
    return checks.get("min", 0), checks.get("max", 2 ** 32 - 1)


@test
def policy_set_moves_the_sysctls_that_it_names():
    before = sysctls()
    try:
        for name in POLICY:
            for value in limits(name):
                expect(None, mpa().do("policy-set", {name: value}))
                expect(value, sysctl(name), f"{name}:")
            mpa().do("policy-set", {name: before[name]})
            expect(before, sysctls())
        other = {"crc-optional": 1 - before["crc-optional"], "startup-timeout-ms": 1234,
                 "startup-max": 99, "markers": 1 - before["markers"],
                 "place": 1 - before["place"]}
        mpa().do("policy-set", other)
        expect(other, sysctls())
        expect(other, do("policy-get"))
    finally:
        mpa().do("policy-set", before)
    expect(before, sysctls())


@test
def command_line_client_sets_the_policy():
    before = sysctl("startup-max")
    expect(None, cli("--no-schema", "--do", "policy-set", "--json",
                     '{"startup-max": 1234}'))
    expect(1234, sysctl("startup-max"))
    sysctl("startup-max", before)


@test
def policy_out_of_range_changes_nothing():
    before = sysctls()
    n = 0
    for name in POLICY:
        least, most = limits(name)
        for value in {max(least - 1, 0), min(most + 1, 2 ** 32 - 1)} - {least, most}:
            for other in "startup-max", "startup-timeout-ms":
                if other == name:
                    continue
                attrs = [(other, before[other] + 1), (name, value)]
                for order in attrs, attrs[::-1]:
                    extack = refused(errno.ERANGE, mpa().do, "policy-set", dict(order))
                    expect("." + name, extack.get("bad-attr"), "attribute named:")
                    expect(before, sysctls())
                    n += 1
    expect(16, n, "requests")


@test
def policy_set_of_nothing_changes_nothing():
    before = sysctls()
    expect(None, do("policy-set"))
    expect(before, sysctls())


# ---- events ----


@test
def started_and_closed_are_told():
    listener = listen("events")
    a, b = ends.pair()
    cookies = [ends.cookie(sock) for sock in (a, b)]
    for sock, role in (a, "initiator"), (b, "responder"):
        told = event(listener, "started-ntf", ends.cookie(sock))
        expect([role, "full", 1], [told[name] for name in ("role", "state", "revision")])
        expect(sock.getsockname()[1], told["local-port"])
        expect(sock.getpeername()[1], told["remote-port"])
        expect(0, told["tx-ulpdus"])
    ends.transfer(a, b, 5, 6)
    b.close()
    a.close()
    told = [event(listener, "closed-ntf", cookie) for cookie in cookies]
    expect([2, 0], [conn["tx-ulpdus"] for conn in told])
    expect([0, 11], [conn["rx-octets"] for conn in told])


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
    # Else nobody could tell that one is missing.
    expect(list(range(numbers[0], numbers[0] + 80)), numbers, "numbers")


def refusal(reason, function, *args):
    """What is told of the socket that this returns, whose startup has failed."""
    listener = listen("events")
    socks = function(*args)
    told = event(listener, "refused-ntf", ends.cookie(socks[0]))
    expect(reason, told["refusal"])
    started = [message for message in listener.async_msg_queue
               if message["name"] == "started-ntf"
               and message["msg"]["cookie"] == told["cookie"]]
    expect([], started)
    return told


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
def refusal_by_the_peer_is_told():
    expect("rejected", refusal("by-peer", rejected_by_peer)["state"])


@test
def refusal_by_the_user_is_told():
    expect("rejected", refusal("by-user", rejected_by_user)["state"])


@test
def refusal_for_other_reasons_is_told():
    for reason, function, args, number in (
            ("malformed", malformed, (), errno.EPROTO),
            ("timeout", silent, (20,), errno.ETIMEDOUT),
            ("lost", lost, (), errno.ECONNRESET),
            ("given-up", given_up, (), errno.ECONNABORTED)):
        told = refusal(reason, function, *args)
        expect(number, told.get("errno"), f"{reason}, errno:")


@test
def refusal_for_want_of_room_is_told():
    before = sysctl("startup-max")
    try:
        sysctl("startup-max", 0)
        refusal("limit", limited)
        sysctl("startup-max", 1)
        held = []
        # The second takes the place of the first.
        expect(errno.EUSERS, refusal("ousted", lambda: held.extend(
            [silent(), silent()]) or held[0]).get("errno"))
    finally:
        sysctl("startup-max", before)


def failing(octets):
    """A connection whose responder has read all of this from its peer."""
    peer, responder = ends.by_hand()
    peer.sendall(octets)
    return peer, responder


@test
def bad_crc_is_told_with_its_place():
    listener = listen("events")
    peer, responder = failing(ends.fpdu(b"first") + ends.fpdu(b"second!", False))
    expect(b"first", ends.receive(responder))
    refused(errno.EBADMSG, ends.receive, responder)
    for told in (event(listener, "failed-ntf", ends.cookie(responder)),
                 do("conn-get", cookie=ends.cookie(responder))):
        expect(["crc", errno.EBADMSG, ends.fpdu_length(5)],
               [told.get(name) for name in ("error", "errno", "error-position")])


@test
def end_inside_an_fpdu_is_told():
    listener = listen("events")
    peer, responder = failing(ends.fpdu(b"first") + ends.fpdu(b"second")[:6])
    expect(b"first", ends.receive(responder))
    peer.close()
    refused(errno.EBADMSG, ends.receive, responder)
    told = event(listener, "failed-ntf", ends.cookie(responder))
    expect("tcp", told["error"])
    told = do("conn-get", cookie=ends.cookie(responder))
    expect(["tcp", ends.fpdu_length(5)], [told["error"], told.get("error-position")])


@test
def reset_is_told():
    listener = listen("events")
    peer, responder = ends.by_hand()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    told = event(listener, "failed-ntf", ends.cookie(responder))
    expect(["tcp", errno.ECONNRESET], [told.get(name) for name in ("error", "errno")])


@test
def mulpdu_and_the_first_unaligned_segment_are_told():
    a, b = ends.pair()
    ends.transfer(a, b, 5)
    listener = listen("events")
    before = ends.info(a)["mulpdu"]
    sock_cookie = ends.cookie(a)
    subprocess.run(["ip", "link", "set", "lo", "mtu", "1500"], check=True)
    try:
        ends.transfer(a, b, 6)
        told = event(listener, "mulpdu-ntf", sock_cookie)
        expect(ends.info(a)["mulpdu"], told["mulpdu"])
        expect(ends.info(a)["emss"], told["emss"])
        assert told["mulpdu"] < 1500 < before, f"seen {before}, {told}"
        ends.transfer(a, b, 1000, 5000, 5000)
        told = event(listener, "unaligned-ntf", sock_cookie)
        expect("oversized", told["cause"])
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
        # Not while it sleeps: it would have to be for long enough.
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
    heard = {(message["name"], message["msg"]["cookie"]) for message in json.loads(said)}
    for name in "started-ntf", "closed-ntf":
        for cookie in cookies:
            assert (name, cookie) in heard, f"expected {name} of {cookie}, seen {heard}"


def in_a_group(pid):
    """Whether a netlink socket of this process is in a multicast group."""
    with open("/proc/net/netlink") as file:
        lines = [line.split() for line in file]
    return any(line[2] == str(pid) and int(line[3], 16) for line in lines[1:])


# ---- records ----


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
        # Of a record that is sent nothing is to be said.
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
def tap_that_is_set_again_goes_on():
    a, b = ends.pair()
    listener = mpa()
    for n, octets in enumerate((3, 4), 1):
        tap(listener, ends.cookie(a), octets)
        ends.transfer(a, b, 5, 6)
        # The client asks no more with a message left.
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
def tap_goes_to_nobody_else():
    """Who had joined all groups before the module was there gets nothing either."""
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


# ---- who may ----


@test
def ordinary_user_sees_and_changes_nothing():
    a, b = ends.pair()
    cookies = {ends.cookie(sock) for sock in (a, b)}
    before = sysctls()

    def nobody():
        become_nobody()
        conns = dump()
        refused(errno.EPERM, listen, "events")
        c, d = ends.pair()
        refused(errno.EPERM, do, "policy-set", startup_max=17)
        refused(errno.EPERM, do, "policy-set")
        refused(errno.EPERM, do, "tap-set", cookie=ends.cookie(c), octets=16)
        refused(errno.EPERM, do, "tap-clear", cookie=ends.cookie(c))
        return set(conns), do("policy-get")

    seen, policy = in_child(nobody)
    assert cookies <= seen, f"expected {cookies}, seen {seen}"
    expect(before, policy)
    expect(before, sysctls())


@test
def other_namespace_sees_nothing():
    before = sysctls()

    def both():
        a, b = ends.pair()
        here = listen("events")
        with open("/proc/self/ns/net") as namespace:
            unshare(CLONE_NEWNET)
            there = listen("events")
            expect({}, dump())
            refused(errno.ENOENT, do, "conn-get", cookie=ends.cookie(a))
            refused(errno.ENOENT, do, "tap-set", cookie=ends.cookie(a), octets=16)
            c, d = ends.pair()
            own = {ends.cookie(sock) for sock in (c, d)}
            expect(own, dump().keys())
            do("policy-set", startup_max=17)
            expect(17, sysctl("startup-max"))
            if libc.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        told_here = {ends.cookie(sock) for sock in (a, b)}
        for sock in a, b, c, d:
            sock_cookie = ends.cookie(sock)
            sock.close()
            event(here if sock_cookie in told_here else there, "closed-ntf", sock_cookie)
        for listener, cookies in (here, told_here), (there, own):
            expect(cookies, {message["msg"]["cookie"]
                             for message in listener.async_msg_queue})

    in_child(both)
    expect(before, sysctls())


@test
def root_of_a_user_namespace_has_its_own_policy_only():
    a, b = ends.pair()
    before = sysctls()

    def contained():
        become_nobody()
        other = mpa()
        try:
            unshare(CLONE_NEWUSER)
        except OSError as error:
            return str(error)
        for name, line in (("setgroups", "deny"), ("uid_map", f"0 {NOBODY} 1"),
                           ("gid_map", f"0 {NOBODY} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)
        unshare(CLONE_NEWNET)
        refused(errno.EPERM, other.do, "policy-set", {"startup-max": 17})
        refused(errno.EPERM, other.do, "tap-set", {"cookie": ends.cookie(a), "octets": 1})
        refused(errno.EPERM, join, other, "events")
        do("policy-set", startup_max=17)
        expect(17, sysctl("startup-max"))
        listener = mpa()
        c, d = ends.pair()
        tap(listener, ends.cookie(c), 16)
        ends.transfer(c, d, 5)
        records(listener, 1)
        return None

    reason = in_child(contained)
    expect(before, sysctls())
    return reason


# ---- the specification ----


@test
def kernel_has_the_policies_of_the_specification():
    nlctrl = YnlFamily(f"{NETLINK}/specs/nlctrl.yaml", schema="", process_unknown=True)
    lines, compared = mpa_policy_dump.differences(mpa(), nlctrl)
    assert not lines, "\n".join(lines)
    expect(10, compared, "attributes compared:")


def run(function):
    """What failed, and what it wants to be skipped for."""
    # Also for what hangs.
    signal.alarm(120)
    try:
        return None, function()
    except BaseException:
        return traceback.format_exc(), None
    finally:
        signal.alarm(0)


def late(*_):
    raise AssertionError("expected an end, seen none in 120 s")


def main():
    signal.signal(signal.SIGALRM, late)
    unshare(CLONE_NEWNET)
    described()
    failed = 0
    chosen = [function for function in tests
              if not sys.argv[3:] or function.__name__ in sys.argv[3:]]
    for n, function in enumerate(chosen, 1):
        seen, skip = run(function)
        failed += bool(seen)
        print("not ok" if seen else "ok", n, function.__name__,
              f"# SKIP {skip}" if skip else "")
        for line in (seen or "").splitlines():
            print("#", line)
        sys.stdout.flush()
    print(f"1..{len(chosen)}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
