#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Connections between the hosts alpha and beta for mpa_tool_show.sh: each line of
standard input is a command, and each line of standard output its answer. NAME.a is the
end in alpha, NAME.b the end in beta. Commands that open connections answer with the
local port and the cookie of each end, a and b."""

import contextlib
import ctypes
import os
import select
import socket
import struct
import sys
import threading

import mpa_ends as ends

CLONE_NEWNET = 0x40000000
BETA = "10.5.4.2"
MPA_PLACE = 13
TUF_TX, TUF_RX, TUF_ALIGN = 32, 33, 1
LONG_MS = 600000
REQUESTED, REJECTED, FAILED = 5, 3, 4

libc = ctypes.CDLL(None, use_errno=True)
socks = {}
kept = []


@contextlib.contextmanager
def host(name):
    """Open sockets in this namespace."""
    def enter(fd):
        if libc.setns(fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {name}")

    with open("/proc/thread-self/ns/net") as before, \
            open(f"/run/netns/{name}") as there:
        enter(there.fileno())
        try:
            yield
        finally:
            enter(before.fileno())


def listen(port=0):
    with host("beta"):
        listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((BETA, port))
    return listener


def connected(name):
    listener = listen()
    listener.listen()
    with host("alpha"):
        client = socket.create_connection(listener.getsockname())
    server = listener.accept()[0]
    listener.close()
    for end, sock in ("a", client), ("b", server):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        socks[f"{name}.{end}"] = sock
    return client, server


def told(*both):
    return " ".join(f"{sock.getsockname()[1]} {ends.cookie(sock)}" for sock in both)


def in_state(sock, *states):
    ends.wait_for(lambda: ends.info(sock)["state"] in states)


def plain(name):
    return told(*connected(name))


def idle(name):
    both = connected(name)
    ends.attach(both[0])
    return told(*both)


def pair(name, initiator=0, responder=0, place=0):
    """Open a connection in Full Operation."""
    both = connected(name)
    ends.start(both[0], ends.INITIATOR, int(initiator))
    ends.start(both[1], ends.RESPONDER, int(responder))
    for sock in both:
        in_state(sock, ends.FULL)
    if int(place):
        both[1].setsockopt(ends.SOL_MPA, MPA_PLACE, struct.pack("=i", 1))
    return told(*both)


def enhanced(name):
    """Open a connection with revision 2, IRD and ORD."""
    both = connected(name)
    for sock, role, flags in (both[0], 1, 1 << 4), (both[1], 2, 0):
        ends.attach(sock)
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.setsockopt(ends.SOL_MPA, ends.MPA_START,
                            ends.START.pack(role, 2, 0, flags, 3, 4, 0))
    for sock in both:
        in_state(sock, ends.FULL)
    return told(*both)


def silent(name, timeout_ms=LONG_MS):
    """Open a responder whose peer sends nothing."""
    both = connected(name)
    ends.start(both[1], ends.RESPONDER, 0, int(timeout_ms))
    return told(*both)


def unanswered(name):
    """Open an initiator whose peer sends nothing."""
    both = connected(name)
    ends.start(both[0], ends.INITIATOR, 0, LONG_MS)
    return told(*both)


def requested(name):
    """Open a responder whose program has not decided yet."""
    both = connected(name)
    ends.start(both[1], ends.RESPONDER, ends.MANUAL)
    ends.start(both[0], ends.INITIATOR, 0, LONG_MS)
    in_state(both[1], REQUESTED)
    return told(*both)


def rejected(name):
    answer = requested(name)
    socks[f"{name}.b"].setsockopt(ends.SOL_MPA, ends.MPA_REJECT, b"")
    in_state(socks[f"{name}.a"], REJECTED)
    return answer


def malformed(name):
    """Open a responder whose peer uses another protocol."""
    answer = silent(name)
    socks[f"{name}.a"].sendall(b"GET / HTTP/1.0\r\n\r\n\r\n")
    in_state(socks[f"{name}.b"], FAILED)
    return answer


def timed_out(name):
    answer = silent(name, 20)
    in_state(socks[f"{name}.b"], FAILED)
    return answer


def listener(name):
    """Open a listener that starts MPA on its children."""
    sock = listen()
    ends.start(sock, ends.RESPONDER)
    sock.listen()
    socks[f"{name}.b"] = sock
    return told(sock)


def tuf(name):
    """Open a connection with TUF in both directions."""
    both = connected(name)
    for sock in both:
        sock.setsockopt(socket.IPPROTO_TCP, ends.TCP_ULP, b"tuf")
    for sock in both:
        for option in TUF_RX, TUF_TX:
            sock.setsockopt(ends.SOL_MPA, option,
                            struct.pack("=B6sBII16x", TUF_ALIGN, bytes(6), 0, 0, 0))
    return told(*both)


# ---- a path that changes a bit ----


def take(sock, n):
    """Read exactly @n octets from a TCP socket."""
    octets = b""
    while len(octets) < n:
        more = sock.recv(n - len(octets))
        if not more:
            raise OSError("the end")
        octets += more
    return octets


class Relay(threading.Thread):
    """Relays one TCP connection to another, and inverts a bit in record @number (from
    0). TCP's checksum is right, as after a broken router that computes it again."""

    def __init__(self, outer, inner, number):
        super().__init__(daemon=True)
        self.outer, self.inner, self.number = outer, inner, number

    def run(self):
        with contextlib.suppress(OSError):
            self.inner.sendall(take(self.outer, 20))
            self.outer.sendall(take(self.inner, 20))
            for number in range(self.number + 1):
                head = take(self.outer, 2)
                length = struct.unpack(">H", head)[0]
                rest = bytearray(take(self.outer, ends.fpdu_length(length) - 2))
                if number == self.number:
                    rest[length // 2] ^= 0x10
                self.inner.sendall(head + rest)
            while True:
                for sock in select.select([self.outer, self.inner], [], [])[0]:
                    octets = sock.recv(65536)
                    other = self.inner if sock is self.outer else self.outer
                    if not octets:
                        return
                    other.sendall(octets)


def flipped(name, number):
    """Connect a to b through a relay in beta that changes a bit of a record."""
    connected(name)
    inner = socks[f"{name}.b"]
    near = listen()
    near.listen()
    with host("beta"):
        entry = socket.create_connection(near.getsockname())
    responder = near.accept()[0]
    for sock in entry, responder:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    relay = Relay(inner, entry, int(number))
    kept.extend((inner, entry, near, relay))
    socks[f"{name}.b"] = responder
    relay.start()
    ends.start(responder, ends.RESPONDER)
    ends.start(socks[f"{name}.a"], ends.INITIATOR)
    for end in "ab":
        in_state(socks[f"{name}.{end}"], ends.FULL)
    return told(socks[f"{name}.a"], responder)


# ---- actions ----


def send(name, *records):
    """Send each record: text, or a number of octets."""
    for record in records:
        octets = bytes(int(record)) if record.isdigit() else record.encode()
        assert socks[name].send(octets) == len(octets)
    return "sent"


def read(name, count=1):
    """Return the records' lengths, or the errno that ends them."""
    lengths = []
    for _ in range(int(count)):
        try:
            lengths.append(str(len(ends.receive(socks[name]))))
        except OSError as error:
            lengths.append(os.strerror(error.errno))
            break
    return " ".join(lengths)


def fill(name, length):
    """Send records until no more are accepted."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            socks[name].send(bytes(int(length)))
            count += 1
    return str(count)


def many(names, count, length):
    """Send records through A,B; read each before the next."""
    source, to = names.split(",")
    for _ in range(int(count)):
        ends.transfer(socks[source], socks[to], int(length))
    return "sent"


def again(name, count):
    """Open and close connections."""
    for _ in range(int(count)):
        pair(name)
        close(f"{name}.a", f"{name}.b")
    return "closed"


def close(*names):
    for name in names:
        socks.pop(name).close()
    return "closed"


def reset(name):
    socks[name].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return close(name)


def shut(name):
    socks[name].shutdown(socket.SHUT_WR)
    return "shut"


def main():
    commands = {function.__name__: function for function in (
        plain, idle, pair, enhanced, silent, unanswered, requested, rejected, malformed,
        timed_out, listener, tuf, flipped, send, read, fill, many, again, close, reset, shut)}
    for line in sys.stdin:
        name, *words = line.split()
        try:
            print(commands[name](*words), flush=True)
        except Exception as error:  # the test shows it
            print(f"failed: {line.strip()}: {error!r}", flush=True)


if __name__ == "__main__":
    main()
