# SPDX-License-Identifier: GPL-2.0
"""Judge a capture with Wireshark's dissector.

The dissector of Wireshark 4.0 (packet-iwarp-mpa.c) checks every CRC and shows the
markers, but works only if each FPDU with markers is a separate segment; README lists
its limits. So tshark gets each direction resegmented, with one FPDU a segment. Octets
and their stream positions are unchanged.
"""
import os
import struct
import subprocess
import tempfile

BASE = 4096         # sequence number of SeqStart in the file for tshark
PORTS = (61, 62)    # not assigned to another protocol


class WiresharkError(Exception):
    """tshark failed; the text suggests a remedy."""


class Writer:
    """A capture for tshark, with a note about each frame."""

    def __init__(self, file):
        self.file = file
        self.number = 0
        self.frames = {}
        self.conversations = 0
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18,
                               101))

    def conversation(self):
        self.conversations += 1
        return self.conversations

    def segment(self, conversation, end, seq, payload, what=None):
        ends = [struct.pack(">I", (10 + n << 24) + conversation)
                for n in (end, 1 - end)]
        packet = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(payload), 0, 0, 64,
                             6, 0) + b"".join(ends)
        packet += struct.pack(">HHIIBBHHH", PORTS[end], PORTS[1 - end], seq, 0,
                              5 << 4, 16, 65535, 0, 0)
        self.file.write(struct.pack("<IIII", self.number // 1000,
                                    self.number % 1000 * 1000,
                                    len(packet) + len(payload),
                                    len(packet) + len(payload)))
        self.file.write(packet)
        self.file.write(payload)
        self.number += 1
        if what is not None:
            self.frames[self.number] = what

    def startup(self, conversation, request, reply, what=(None, None)):
        self.segment(conversation, 0, BASE - len(request), request, what[0])
        self.segment(conversation, 1, BASE - len(reply), reply, what[1])


def clear_m(frame):
    return frame[:16] + bytes([frame[16] & 0x7F]) + frame[17:]


class Direction:
    """tshark's results for one direction."""

    def __init__(self):
        self.fpdus = self.crc_good = self.crc_bad = self.crc_unchecked = 0
        self.markers = self.markers_wrong = 0
        self.crc_only = self.left_out = 0
        self.differs = []


def write(writer, direction, end, request, reply, stream, fpdus, marked):
    """Put a direction's FPDUs into the capture for tshark."""
    if not fpdus:
        return
    if not marked:
        # The dissector expects markers in both directions as soon as either side
        # requests them.
        request, reply = clear_m(request), clear_m(reply)
    # If an FPDU ends where a marker begins, the dissector counts that marker for this
    # FPDU, and gives up. With all positions 4 octets lower it counts correctly and
    # checks the CRC, unless a marker is first.
    main, edge = [], []
    for fpdu in fpdus:
        if fpdu.ulpdu_len == 0:
            direction.left_out += 1
        elif not fpdu.markers or (fpdu.pos + fpdu.len) % 512:
            main.append(fpdu)
        elif fpdu.head:
            direction.left_out += 1
        else:
            edge.append(fpdu)
    for chosen, shift in ((main, 0), (edge, 4)):
        if not chosen:
            continue
        number = writer.conversation()
        writer.startup(number, request, reply)
        if chosen[0].pos:
            # A small FPDU shows where the stream begins.
            writer.segment(number, end, BASE, struct.pack(">IHHI", 0, 1, 0, 0))
        for fpdu in chosen:
            writer.segment(number, end, BASE - shift + fpdu.pos,
                           stream[fpdu.at:fpdu.at + fpdu.len],
                           (direction, fpdu, not shift))


class Startup:
    """tshark's results for a startup frame."""

    def __init__(self, frame):
        self.frame = frame
        self.seen = {}


# Lines of tshark's output that are read: "label: value".
FIELDS = {"ULPDU length": "length", "FPDU back pointer": "marker",
          "CRC check": "crc", "ID Req frame": "key", "ID Rep frame": "key",
          "Marker flag": "M", "CRC flag": "C",
          "Connection rejected flag": "R", "Revision": "revision",
          "Private data length": "private"}


def _count(what, seen):
    direction, fpdu, markers_too = what
    if seen.get("length", [""])[0].split()[:1] != [str(fpdu.ulpdu_len)]:
        direction.differs.append(f"FPDU at {fpdu.pos}: tshark does not see it")
        return
    direction.fpdus += 1
    crc = seen.get("crc", [""])[0]
    if "(Good " in crc:
        direction.crc_good += 1
    elif "(Bad " in crc:
        direction.crc_bad += 1
    else:
        direction.crc_unchecked += 1
    if not markers_too:
        direction.crc_only += 1
        return
    found = [int(ptr.split()[0]) for ptr in seen.get("marker", [])]
    want = [0 if off < fpdu.head else off - fpdu.head for off in fpdu.markers]
    direction.markers += len(found)
    direction.markers_wrong += sum(a != b for a, b in zip(found, want))
    if len(found) != len(want):
        direction.differs.append(f"FPDU at {fpdu.pos}: {len(want)} markers, "
                                 f"tshark sees {len(found)}")


def run(path, frames, progress):
    """Run tshark on a capture, and collect its results by direction."""
    with tempfile.TemporaryDirectory() as home:
        # A user's preferences must not change the verdict.
        env = dict(os.environ, HOME=home, XDG_CONFIG_HOME=home, LC_ALL="C")
        command = ["tshark", "-n", "-r", path,
                   # A record may look like any protocol: no other dissector may guess.
                   "--disable-protocol", "ALL",
                   "--enable-protocol", "ip", "--enable-protocol", "tcp",
                   "--enable-protocol", "iwarp_mpa",
                   "-o", "tcp.desegment_tcp_streams:FALSE",
                   "-o", "tcp.analyze_sequence_numbers:FALSE",
                   "-o", "tcp.track_bytes_in_flight:FALSE",
                   "-O", "iwarp_mpa"]
        try:
            with tempfile.TemporaryFile(mode="w+") as errors, \
                    subprocess.Popen(command, stdout=subprocess.PIPE,
                                     stderr=errors, text=True,
                                     env=env) as tshark:
                _read(tshark.stdout, frames, progress)
                if tshark.wait():
                    errors.seek(0)
                    raise WiresharkError("tshark failed: " +
                                         errors.read().strip()[-500:])
        except FileNotFoundError:
            raise WiresharkError("tshark is missing: apt-get install "
                                 "tshark") from None


def _read(lines, frames, progress):
    what, seen = None, {}

    def done():
        if isinstance(what, Startup):
            what.seen = {key: value[0] for key, value in seen.items()}
        elif what:
            _count(what, seen)

    for line in lines:
        if line.startswith("Frame "):
            done()
            number = int(line[6:line.index(":")])
            what, seen = frames.get(number), {}
            progress(number)
            continue
        label, _, value = line.partition(": ")
        # tshark prints an octet's bits as "1... .... = Marker flag: True".
        field = FIELDS.get(label.strip().rpartition(" = ")[2])
        if field:
            seen.setdefault(field, []).append(value.rstrip())
    done()
