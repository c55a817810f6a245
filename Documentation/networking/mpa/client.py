#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""client.py HOST PORT RECORD...: send records over MPA, print the answers."""
import os
import select
import socket
import struct
import sys

TCP_ULP = 31
SOL_MPA = 289
MPA_START, MPA_INFO, MPA_PEER = 1, 2, 3
MPA_ROLE_INITIATOR = 1
MPA_ULPDU_MAX = 64768

# The 32 octets before private_data.
MPA_START_HEAD = struct.Struct("=BBHIHHI16x")
MPA_PEER_HEAD = struct.Struct("=BBHHHI20x")


def start(sock, private=b"", flags=0, revision=1, timeout=5.0):
    """Start MPA on a connected socket, as the initiator."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"mpa")
    request = MPA_START_HEAD.pack(MPA_ROLE_INITIATOR, revision, len(private),
                                  flags, 0, 0, int(timeout * 1000)) + private
    # Never a blocking MPA_START: setsockopt() keeps the interpreter's lock.
    sock.setblocking(False)
    try:
        sock.setsockopt(SOL_MPA, MPA_START, request)
    except BlockingIOError:             # EINPROGRESS
        select.select([], [sock], [])
        err = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if err:
            raise OSError(err, os.strerror(err)) from None
    sock.setblocking(True)


def peer_private(sock):
    """The private data of the peer's frame."""
    peer = sock.getsockopt(SOL_MPA, MPA_PEER, 1024)
    length = MPA_PEER_HEAD.unpack_from(peer)[2]
    return peer[32:32 + length]


def main():
    host, port, *records = sys.argv[1:]
    with socket.create_connection((host, int(port))) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        start(sock, private=b"hello from python")
        for record in records:
            sock.send(record.encode())          # one record
            answer = sock.recv(MPA_ULPDU_MAX)   # one record
            if not answer:
                sys.exit("client.py: the peer has closed the connection")
            print(answer.decode())


if __name__ == "__main__":
    main()
