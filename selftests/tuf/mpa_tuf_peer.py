#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""One end of a connection that has TUF on it now and then, in both directions.

  mpa_tuf_peer.py accept|connect ADDRESS PORT kernel|hand SEED PLAN [NAME=VALUE]...

PLAN is what this end sends, "align,plain,markers:512": one phase after another,
each announced to the peer by a line of plain TCP before it. "kernel" has the module
frame and unframe, "hand" does so here, from draft-ietf-tsvwg-tcp-ulp-frame alone,
on a plain TCP socket. Both check that each record of the peer comes once, and right.

  records=N      in each phase, default 300
  packing=0      one ULPDU an FPDU
  place=1        kernel: MPA_PLACE
  oversize=N     kernel: MPA_OVERSIZE, and records of up to N octets
  evil=EMSS      records made of [Length][Key], as a piece of a cut FPDU would have
                 to begin with to be taken for an FPDU, where segments have EMSS
  rcvbuf=N       SO_RCVBUF
  slow=N         milliseconds before each hundredth record is read

It ends with a line for each phase that it has received: "judge" and what
tools/wire/judge wants to know of it."""

import contextlib
import errno
import fcntl
import random
import signal
import socket
import struct
import sys
import termios
import threading
import time

TCP_ULP, SOL_MPA = 31, 289
MPA_MULPDU, MPA_PACKING, MPA_OVERSIZE, MPA_RECVINFO, MPA_PLACE = 4, 8, 9, 11, 13
TUF_TX, TUF_RX, TUF_TX_KEY, TUF_INFO = 32, 33, 34, 35
MODES = {"plain": 0, "align": 1, "markers": 2, "segments": 3}
FRAMED = "align", "markers"
KEY_GIVEN = 1
FRAMING = struct.Struct("=B6sBII16x")
INFO = struct.Struct("=BBBBIIIII18Q")
INFO_NAMES = """tx_mode rx_mode error reserved flags emss mulpdu tx_period rx_period
    tx_ulpdus tx_fpdus tx_octets tx_markers rx_fpdus rx_octets rx_markers tx_packets
    tx_segs_aligned tx_segs_unaligned tx_segs_contained tx_trimmed rx_placed
    rx_tested rx_contained rx_wrong_key rx_edge error_position""".split()
PLACED = 2
RECORD = struct.Struct(">IH")  # number, and length of the whole record
PATIENCE = 120

options = {"records": 300, "packing": 1, "place": 0, "oversize": 0, "evil": 0,
           "rcvbuf": 0, "slow": 0}


class Failed(Exception):
    """Error of the peer or of the module."""


# ---- records that both ends can compute ----


class Records:
    """Records of one phase. Each has its number and length, and octets that no other
    record has at this place."""

    row = random.Random(5044).randbytes(1 << 18)

    def __init__(self, seed, key=b""):
        self.seed = seed
        self.key = key

    def octets(self, number, length):
        if options["evil"] and self.key:
            return RECORD.pack(number, length) + self.evil(number, length)
        at = (number * 7919 + self.seed * 104729 + length) % (1 << 17)
        return RECORD.pack(number, length) + self.row[at:at + length - RECORD.size]

    def evil(self, number, length):
        """Return octets with a header at every eighth place, as if a segment began
        there and held the rest of the FPDU, or EMSS octets of it."""
        phase, octets = number % 8, bytearray(b"\xa5" * length)
        for at in range(RECORD.size + phase, length - 8, 8):
            left = min(length - at, options["evil"] - number % 3)
            octets[at:at + 8] = struct.pack(">H", max(left - 8, 0)) + self.key
        return bytes(octets[RECORD.size:length])

    def parse(self, octets, seen):
        """Check whole, contiguous records, and add them to @seen."""
        at = 0
        while at < len(octets):
            number, length = RECORD.unpack_from(octets, at)
            record = octets[at:at + length]
            if length < RECORD.size or record != self.octets(number, length):
                raise Failed(f"record {number} of {length} octets is not as it was")
            if number in seen:
                raise Failed(f"record {number} has come twice")
            seen.add(number)
            at += length


class Lengths:
    """Lengths of records: most fit a segment, some are short."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def next(self, most):
        kind = self.random.random()
        if kind < 0.3:
            least, most = RECORD.size, min(most, 100)
        elif kind < 0.5:
            least = max(RECORD.size, most - 20)
        else:
            least = RECORD.size
        return self.random.randint(least, most)


# ---- by hand ----


def fpdu(mode, period, key, position, ulpdus):
    """Return an FPDU that begins at this position of the framed stream."""
    left = struct.pack(">H", len(ulpdus)) + key + ulpdus
    if mode == "align":
        return left
    octets, markers = bytearray(), []
    while left:
        if (position + len(octets)) % period == 0:
            markers.append(len(octets))
            octets += bytes(4)
        run = period - (position + len(octets)) % period
        octets += left[:run]
        left = left[run:]
    # Markers point to the next FPDU's header; a marker may be due before it.
    following = len(octets)
    if (position + following) % period == 0:
        following += 4
    for at in markers:
        offset = following - (at + 4) if at else 0
        octets[at:at + 4] = struct.pack(">HH", offset, offset)
    return bytes(octets)


class HandReader:
    """Reads FPDUs from a plain socket, in order."""

    def __init__(self, stream, mode, period, key):
        self.stream = stream
        self.mode = mode
        self.period = period
        self.key = key
        self.position = 0
        self.markers = []  # end and value of each marker

    def take(self, n):
        octets = b""
        while len(octets) < n:
            run = n - len(octets)
            if self.mode == "markers":
                if self.position % self.period == 0:
                    first, second = struct.unpack(">HH", self.stream.take(4))
                    if first != second:
                        raise Failed(f"a marker says {first} and {second}")
                    self.position += 4
                    self.markers.append((self.position, first))
                run = min(run, self.period - self.position % self.period)
            octets += self.stream.take(run)
            self.position += run
        return octets

    def next(self):
        begin, self.markers = self.position, []
        (length,) = struct.unpack(">H", self.take(2))
        key = self.take(6)
        if key != self.key or not length:
            raise Failed(f"at {begin}: Length {length}, Key {key.hex()}")
        ulpdus = self.take(length)
        following = self.position
        if self.mode == "markers" and following % self.period == 0:
            following += 4
        for end, says in self.markers:
            expected = 0 if end == begin + 4 else following - end
            if says != expected:
                raise Failed(f"marker at {end - 4}: expected {expected}, seen {says}")
        return ulpdus


# ---- a connection ----


class Stream:
    """Reads plain octets from a socket, and counts them."""

    def __init__(self, sock):
        self.sock = sock
        self.octets = 0

    def take(self, n):
        taken = b""
        while len(taken) < n:
            more = self.sock.recv(n - len(taken))
            if not more:
                raise Failed(f"the end, where {n} octets are expected")
            taken += more
        self.octets += n
        return taken

    def line(self):
        """Read no octet beyond the line, as FPDUs may follow."""
        line = b""
        while not line.endswith(b"\n"):
            line += self.take(1)
        return line.decode().split()


def set_framing(sock, option, mode, period=0, key=None):
    sock.setsockopt(SOL_MPA, option,
                    FRAMING.pack(MODES[mode], key or bytes(6), 0, period,
                                 KEY_GIVEN if key else 0))


def info(sock):
    return dict(zip(INFO_NAMES, INFO.unpack(
        sock.getsockopt(SOL_MPA, TUF_INFO, INFO.size))))


def outq(sock):
    """Return the number of unacknowledged octets."""
    return struct.unpack("=i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


class Sender:
    """Sends this end's plan, phase by phase."""

    def __init__(self, sock, kernel, seed, plan):
        self.sock = sock
        self.kernel = kernel
        self.seed = seed
        self.plan = plan
        self.lengths = Lengths(seed)
        self.unaligned = 0
        self.trimmed = 0

    def run(self):
        for number, phase in enumerate(self.plan):
            mode, _, period = phase.partition(":")
            period = int(period or 0)
            if self.kernel and mode in FRAMED:
                key = self.sock.getsockopt(SOL_MPA, TUF_TX_KEY, 6)
            else:
                key = random.Random(self.seed * 1000 + number).randbytes(6)
            self.sock.sendall(f"{mode} {period} {key.hex()} {options['records']}\n"
                              .encode())
            records = Records(self.seed + number, key if mode in FRAMED else b"")
            if self.kernel:
                self.by_kernel(mode, period, records)
            else:
                self.by_hand(mode, period, key, records)
        self.sock.sendall(b"end\n")
        if self.kernel:
            now = info(self.sock)
            self.unaligned = now["tx_segs_unaligned"]
            self.trimmed = now["tx_trimmed"]
        self.sock.shutdown(socket.SHUT_WR)

    def by_kernel(self, mode, period, records):
        if mode == "plain":
            return self.by_hand(mode, period, b"", records)
        # Wait until octets that contain an earlier key are acknowledged.
        while options["evil"] and outq(self.sock):
            time.sleep(0.005)
        set_framing(self.sock, TUF_TX, mode, period)
        self.sock.setsockopt(SOL_MPA, MPA_PACKING, options["packing"])
        self.sock.setsockopt(SOL_MPA, MPA_OVERSIZE, bool(options["oversize"]))
        number = 0
        while number < options["records"]:
            most = options["oversize"] or min(5000, self.sock.getsockopt(
                SOL_MPA, MPA_MULPDU))
            record = records.octets(number, self.lengths.next(most))
            more = socket.MSG_MORE | socket.MSG_EOR if number % 4 else 0
            try:
                if self.sock.send(record, more) != len(record):
                    raise Failed(f"record {number} was sent in part")
                number += 1
            except OSError as error:
                # EMSS has become smaller.
                if options["oversize"] or error.errno != errno.EMSGSIZE:
                    raise
        # Records that wait after MSG_MORE are sent without another call.
        set_framing(self.sock, TUF_TX, "plain")

    def by_hand(self, mode, period, key, records):
        draw = random.Random(self.seed)
        position = number = 0
        while number < options["records"]:
            ulpdus = b""
            for _ in range(draw.randint(1, 3) if options["packing"] else 1):
                if number < options["records"]:
                    ulpdus += records.octets(number, self.lengths.next(3000))
                    number += 1
            octets = ulpdus
            if mode in FRAMED:
                octets = fpdu(mode, period, key, position, ulpdus)
            position += len(octets)
            # Sometimes send pieces that ignore the limits of FPDUs.
            while octets and draw.random() < 0.3:
                cut = draw.randint(1, len(octets))
                self.sock.sendall(octets[:cut])
                octets = octets[cut:]
            self.sock.sendall(octets)


class Receiver:
    """Receives the peer's plan."""

    def __init__(self, sock, kernel, seed):
        self.stream = Stream(sock)
        self.sock = sock
        self.kernel = kernel
        self.seed = seed
        self.records = 0
        self.placed = 0
        self.wrong = 0
        self.judge = []

    def run(self):
        number = 0
        while (line := self.stream.line()) != ["end"]:
            mode, period, key, count = line
            key = bytes.fromhex(key)
            records = Records(self.seed + number, key if mode in FRAMED else b"")
            begin = self.stream.octets
            if mode not in FRAMED:
                self.plain(records, int(count))
            elif self.kernel:
                self.by_kernel(mode, int(period), key, records, int(count))
            else:
                self.by_hand(mode, int(period), key, records, int(count))
            if mode in FRAMED:
                self.tell(mode, period, key, begin)
            number += 1
        if self.sock.recv(1):
            raise Failed("octets after the end")

    def tell(self, mode, period, key, begin):
        more = f",period={period}" if mode == "markers" else ""
        self.judge.append(f"mode={mode},key={key.hex()},start={begin},"
                          f"end={self.stream.octets}{more}")

    def pause(self, seen):
        if options["slow"] and len(seen) % 100 == 0:
            time.sleep(options["slow"] / 1000)

    def plain(self, records, count):
        seen = set()
        while len(seen) < count:
            head = self.stream.take(RECORD.size)
            length = RECORD.unpack(head)[1]
            records.parse(head + self.stream.take(length - RECORD.size), seen)
        self.records += count

    def by_hand(self, mode, period, key, records, count):
        reader = HandReader(self.stream, mode, period, key)
        seen = set()
        while len(seen) < count:
            records.parse(reader.next(), seen)
            self.pause(seen)
        self.records += count

    def by_kernel(self, mode, period, key, records, count):
        before = info(self.sock)
        set_framing(self.sock, TUF_RX, mode, period, key)
        self.sock.setsockopt(SOL_MPA, MPA_RECVINFO, 1)
        self.sock.setsockopt(SOL_MPA, MPA_PLACE, options["place"])
        seen = set()
        while len(seen) < count:
            octets, control, _, _ = self.sock.recvmsg(70000, 200)
            if not octets:
                raise Failed(f"the end after {len(seen)} of {count} records")
            records.parse(octets, seen)
            (flags,) = struct.unpack_from("=I", control[0][2], 32)
            self.placed += bool(flags & PLACED)
            self.pause(seen)
        after = info(self.sock)
        self.wrong += after["rx_wrong_key"] - before["rx_wrong_key"]
        self.stream.octets += after["rx_edge"]
        set_framing(self.sock, TUF_RX, "plain")
        self.records += count


def connection(how, address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if options["rcvbuf"]:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options["rcvbuf"])
    if how == "accept":
        sock.bind((address, port))
        sock.listen()
        print("listening", flush=True)
        sock = sock.accept()[0]
    else:
        sock.connect((address, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def main(how, address, port, who, seed, plan, *others):
    for word in others:
        name, value = word.split("=")
        options[name] = int(value)
    signal.alarm(PATIENCE)
    sock = connection(how, address, int(port))
    ours, theirs = sock.getsockname()[0], sock.getpeername()[0]
    kernel, seed = who == "kernel", int(seed)
    if kernel:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tuf")
    # Each end has its own seeds.
    sender = Sender(sock, kernel, 2 * seed * 100 + 100 * (how == "accept"),
                    plan.split(","))
    receiver = Receiver(sock, kernel, 2 * seed * 100 + 100 * (how != "accept"))
    failed = []

    def guarded(run):
        try:
            run()
        except (Failed, OSError, ValueError, struct.error) as error:
            failed.append(error)
            print(f"{how} {who}: {run.__qualname__}: {error!r}", flush=True)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=guarded, args=(sender.run,))
    thread.start()
    guarded(receiver.run)
    thread.join()
    print(f"{how} {who}: {receiver.records} records, {receiver.placed} placed, "
          f"{receiver.wrong} with a wrong key; {sender.unaligned} pieces of FPDUs, "
          f"{sender.trimmed} trimmed")
    for one in receiver.judge:
        print(f"judge from={theirs},to={ours},{one}")
    sock.close()
    if receiver.wrong:
        failed.append(Failed("wrong keys"))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
