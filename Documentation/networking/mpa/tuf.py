#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""tuf.py PORT: send each record back; tuf.py HOST PORT RECORD...: print them."""
import socket
import struct
import sys

TCP_ULP = 31
SOL_MPA = 289
MPA_PACKING = 8
TUF_TX, TUF_RX, TUF_TX_KEY = 32, 33, 34
TUF_KEY_LEN = 6
TUF_LENGTH_MAX = 65535
TUF_OFF, TUF_ALIGN = 0, 1
TUF_KEY_GIVEN = 1


def framing(mode, key=None):
    """A struct tuf_framing."""
    return struct.pack("=B6sBII16x", mode, key or b"", 0, 0,
                       TUF_KEY_GIVEN if key else 0)


def attach(sock):
    """Put TUF on a connected socket. Both directions stay plain TCP."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tuf")
    sock.setsockopt(SOL_MPA, MPA_PACKING, 0)
    return sock.getsockopt(SOL_MPA, TUF_TX_KEY, TUF_KEY_LEN)


def receive_framed(sock):
    """Read the peer's key, and not an octet more; FPDUs follow."""
    key = sock.recv(TUF_KEY_LEN, socket.MSG_WAITALL)
    if len(key) < TUF_KEY_LEN:
        raise EOFError("the peer has closed the connection")
    sock.setsockopt(SOL_MPA, TUF_RX, framing(TUF_ALIGN, key))


def send_framed(sock):
    """From here on a send() is an FPDU, with the key that was reported."""
    sock.setsockopt(SOL_MPA, TUF_TX, framing(TUF_ALIGN))


def serve(sock):
    """The end that has accepted: its key says that it can receive."""
    key = attach(sock)
    receive_framed(sock)
    sock.sendall(key)
    framed = False
    while record := sock.recv(TUF_LENGTH_MAX):
        if not framed:          # the peer can receive: it has sent an FPDU
            send_framed(sock)
        framed = True
        sock.send(record)


def ask(sock, records):
    """The end that has connected."""
    sock.sendall(attach(sock))
    receive_framed(sock)
    send_framed(sock)
    for record in records:
        sock.send(record.encode())                  # one ULPDU
        print(sock.recv(TUF_LENGTH_MAX).decode())   # one FPDU
    # Framing ends after a whole record: what is sent now would be plain TCP.
    sock.setsockopt(SOL_MPA, TUF_TX, framing(TUF_OFF))


def main():
    """As the command line says."""
    if len(sys.argv) == 2:
        with socket.create_server(("", int(sys.argv[1]))) as listener:
            while True:
                with listener.accept()[0] as sock:
                    serve(sock)
    host, port, *records = sys.argv[1:]
    with socket.create_connection((host, int(port))) as sock:
        ask(sock, records)


if __name__ == "__main__":
    main()
