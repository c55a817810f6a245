# SPDX-License-Identifier: GPL-2.0
"""mpa connect --fault, mpa listen --fault: an end over plain TCP that makes an error at
the record that its option names. See mpa-connect.rst."""
import argparse
import os
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), os.pardir,
                             "wire"))

# pylint: disable=wrong-import-position
import peer
import rfc5044
from peer import C, M, R, Peer

IN_STARTUP = {  # of octets of a startup frame
    "key": lambda frame: frame[:15] + b"?" + frame[16:],
    "revision": lambda frame: frame[:17] + b"\3" + frame[18:],
    "pd-length": lambda frame: frame[:18] + struct.pack(">H", rfc5044.PRIVATE_MAX + 1)
    + frame[20:]}
TIMED = ("late", "drip")
BY_SYNTH = ("crc", "marker", "pad")
ENDS = {"cut": Peer.fin, "reset": Peer.reset}
IN_RECORDS = BY_SYNTH + ("reserved", "length", "oversize", "split") + tuple(ENDS)
FOREVER = 86400     # seconds: select() and poll() have a limit


class Fault:
    """One --fault. n: the record that has it, or seconds."""

    def __init__(self, text):
        self.text = text
        self.kind, _, n = text.partition("@")
        self.more, self.made = n.endswith("+"), False
        n = n.removesuffix("+")
        if self.kind in IN_RECORDS and n.isdigit() and int(n):
            self.n = int(n)
        elif self.kind in TIMED and not self.more:
            self.n = float(n)
        elif n or self.more or self.kind != "silent" and self.kind not in IN_STARTUP:
            raise argparse.ArgumentTypeError(
                f"\"{text}\": known are {', '.join(f'{kind}@N' for kind in IN_RECORDS)}; "
                f"{', '.join(f'{kind}@SECONDS' for kind in TIMED)}; "
                f"{', '.join(('silent', *IN_STARTUP))}")

    def spoil(self, p, ulpdu):
        """The next FPDU with this error, or None: it has no marker, or no pad."""
        at = p.tx.pos
        octets = bytearray(p.fpdu(ulpdu))
        if self.kind not in BY_SYNTH and self.kind != "reserved":
            head = 4 if p.tx.markers and at % rfc5044.INTERVAL == 0 else 0
            length = {"length": len(ulpdu) - 1, "oversize": 0xFFFF}.get(self.kind)
            if length is not None:
                struct.pack_into(">H", octets, head, length)
            return octets
        good, p.tx.pos = bytes(octets), at
        if self.kind == "reserved":
            spoilt = p.fpdu(ulpdu)
            first = -at % rfc5044.INTERVAL
            if p.tx.markers and first < len(spoilt):
                spoilt = peer.crc_anew(spoilt[:first] + b"\xff" + spoilt[first + 1:])
        else:
            spoilt = p.fpdu(ulpdu, self.kind)
        return spoilt if spoilt != good else None


class End:
    """One connection with its faults."""

    def __init__(self, sock, role, options):
        self.options, self.form = options, options.records
        self.p = Peer(sock, role, options)
        self.p.checks = ("crc", "markers")
        self.faults = [Fault(fault.text) for fault in options.fault]
        self.received = 0
        self.first = threading.Event()      # a responder waits for a record
        if role == peer.RESPONDER:
            self.first.set()

    def fault(self, *kinds):
        found = [fault for fault in self.faults if fault.kind in kinds]
        for fault in found:
            self.make(fault)
        return found

    def make(self, fault, where=""):
        if not fault.made:
            say(self.options, f"{fault.text}: made{where}")
        fault.made = True

    # ---- startup ----

    def start(self):
        p, options = self.p, self.options
        flags = (M if options.markers else 0) | (0 if options.no_crc else C)
        private = os.fsencode(options.private_data)
        if self.fault("silent"):
            p.wait(1 << 30, FOREVER)
            return False
        if p.role == peer.INITIATOR:
            theirs = p.take_frame()
            ours = p.held(lambda: p.answer(theirs, flags, private, options.revision))
        else:
            ours = p.held(lambda: p.request(flags, private, options.revision or 1))
        for fault in self.fault(*IN_STARTUP):
            ours = IN_STARTUP[fault.kind](ours)
        for fault in self.fault("late"):
            time.sleep(fault.n)
        pause = sum(fault.n for fault in self.fault("drip"))
        for n in range(len(ours)) if pause else ():
            p.send(ours[n:n + 1])
            time.sleep(pause)
        p.send(b"" if pause else ours)
        if p.role == peer.RESPONDER and p.take_frame().flags & R:
            raise peer.Fail("the peer has refused")
        p.operate(flags)
        p.options.timeout = FOREVER
        return True

    # ---- records ----

    def put(self, ulpdu, number):
        """One record; returns False if no other may follow."""
        p, octets, last = self.p, None, None
        for fault in self.faults:
            if fault.kind not in IN_RECORDS or number < fault.n or \
                    fault.made and not fault.more:
                continue
            where = f" in record {number}, FPDU at {p.tx.pos}"
            octets = fault.spoil(p, ulpdu)
            if octets:
                self.make(fault, where)
                last = fault.kind
                break
        octets = bytes(octets or p.fpdu(ulpdu))
        half = len(octets) // 2 if last in (*ENDS, "split") else 0
        p.send(octets[:half])
        if last in ENDS:
            ENDS[last](p)
            return False
        p.send(octets[half:])
        p.sent.clear()
        p.log.clear()
        return not p.end or p.end == "FIN"

    def send_all(self, source):
        """Records of a file."""
        self.first.wait()
        number = 0
        for ulpdu in records(source, self.form):
            number += 1
            if not self.put(ulpdu, number):
                return
        if not self.p.end or self.p.end == "FIN":
            self.p.fin()

    def receive_all(self, sink):
        p = self.p
        while p.wait(1, FOREVER):
            ulpdu = p.ulpdu()
            self.received += 1
            self.first.set()
            try:
                sink.write(struct.pack(">I", len(ulpdu)) + ulpdu if self.form == "length"
                           else ulpdu + b"\n" * (ulpdu[-1:] != b"\n"))
                sink.flush()
            except BrokenPipeError:
                break
            # Nothing is looked at again
            del p.got[:p.at]
            p.start_at, p.at = p.start_at - p.at, 0

    def run(self, source, sink):
        """Returns whether all faults were made."""
        why = ""
        try:
            if self.start():
                sender = threading.Thread(target=self.send_all, args=(source,), daemon=True)
                sender.start()
                self.receive_all(sink)
                if self.options.exec:
                    sink.close()    # its command ends, and with it the records to send
                if self.p.end == "FIN":
                    sender.join()
        except (peer.Fail, OSError) as error:
            why = f"{error}; "
        finally:
            self.p.sock.close()
        say(self.options, f"{why}{self.received} records received; the peer's end: "
            f"{self.p.end or 'none'}")
        missed = [fault.text for fault in self.faults if not fault.made]
        if missed:
            print(f"mpa: not made: {', '.join(missed)}", file=sys.stderr)
        return not missed


def records(source, form):
    """The records of standard input, as mpa connect has them."""
    while form == "lines":
        line = source.readline()
        if not line:
            return
        yield line[:-1] if line[-1:] == b"\n" and line != b"\n" else line
    while True:
        head = source.read(4)
        if len(head) < 4:
            return
        yield source.read(struct.unpack(">I", head)[0])


def say(options, text):
    if not options.quiet_about:
        print(f"mpa: {text}", file=sys.stderr, flush=True)


def serve(sock, role, options):
    if not options.exec:
        with open(os.devnull, "rb") as nothing:
            source = nothing if getattr(options, "keep", False) else sys.stdin.buffer
            return End(sock, role, options).run(source, sys.stdout.buffer)
    with subprocess.Popen(options.exec, shell=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as child:
        made = End(sock, role, options).run(child.stdout, child.stdin)
        child.kill()
    return made


def arguments(command):
    parser = argparse.ArgumentParser(prog=f"mpa {command}", description="An end in user "
                                     "space that makes an error on purpose.")
    add = parser.add_argument
    add("at", nargs="+", metavar="HOST:PORT")
    add("-p", "--port", type=int)
    add("--fault", action="append", required=True, type=Fault, metavar="WHAT")
    add("-R", "--records", choices=("lines", "length"), default="lines")
    add("--exec", metavar="COMMAND")
    add("-m", "--markers", action="store_true")
    add("--no-crc", action="store_true")
    add("-r", "--revision", type=int, default=0)
    add("-d", "--private-data", default="")
    add("--timeout", type=float, default=10)
    add("-q", "--quiet", action="store_true", dest="quiet_about")
    if command == "listen":
        add("-k", "--keep", action="store_true")
        add("--port-file")
    return parser


def place(options, command):
    """(host, port) of all that may be written for it"""
    host, port = options.at[0], options.port
    if len(options.at) == 2:
        host, port = options.at
    elif port is None and command == "listen" and ":" not in host:
        host, port = "", host
    elif port is None:
        host, _, port = host.rpartition(":")
    return host.strip("[]"), int(port)


def listen(host, port, options):
    family, both = socket.AF_INET6 if ":" in host else socket.AF_INET, False
    if not host and socket.has_dualstack_ipv6():
        family, both = socket.AF_INET6, True
    listener = socket.create_server((host, port), family=family, dualstack_ipv6=both)
    port = listener.getsockname()[1]
    if options.port_file:
        with open(options.port_file, "w", encoding="utf-8") as file:
            file.write(f"{port}\n")
    say(options, f"listening on port {port}")
    return listener


def main(command, words):
    options = arguments(command).parse_args(words)
    # What cases of mpa conform have
    options.peer, options.quiet = "echo", 0
    host, port = place(options, command)
    startup_time, good = options.timeout, True
    try:
        if command == "connect":
            return int(not serve(socket.create_connection((host, port)), peer.RESPONDER,
                                 options))
        with listen(host, port, options) as listener:
            while True:
                sock = listener.accept()[0]
                options.timeout = startup_time
                good = serve(sock, peer.INITIATOR, options) and good
                if not options.keep:
                    return int(not good)
    except OSError as error:
        print(f"mpa {command}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        sys.exit(130)
