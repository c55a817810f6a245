# SPDX-License-Identifier: GPL-2.0
"""Test that mpa.lua agrees with rfc5044.py and tuf.py: tshark gets one file with the
captures of the other tests, each with its own addresses."""
import argparse
import os
import re
import subprocess

import capture
import expect
import judge
import rfc5044
import selftest_tuf
import tuf
from synth import (C, M, R, REPLY, REQUEST, Connection, Pcap, Sender, startup)
from synth_tuf import fpdu, with_markers

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "mpa.lua")

# Fields requested from tshark for each frame; "|" separates several values.
FIELDS = ["frame.number", "frame.comment", "ip.src", "ipv6.src", "tcp.srcport", "tcp.stream",
          "mpax.fpdu.position", "mpax.fpdu.size", "mpax.fpdu.length",
          "mpax.crc.status", "mpax.crc.good",
          "mpax.crc.bad", "mpax.marker.position", "mpax.marker.expected",
          "mpax.marker.good", "mpax.marker.wrong", "mpax.marker.fpduptr",
          "mpax.marker.first", "mpax.marker.second", "mpax.ulpdu", "mpax.pad",
          "mpax.fpdu.key", "mpax.startup", "mpax.startup.flags",
          "mpax.startup.rev", "mpax.startup.pd_length", "mpax.startup.private",
          "mpax.enhanced.a", "mpax.enhanced.b", "mpax.enhanced.ird",
          "mpax.enhanced.c", "mpax.enhanced.d", "mpax.enhanced.ord",
          "mpax.segment.starts", "mpax.segment.again", "mpax.segment.early",
          "mpax.part.last_frame", "_ws.expert.message", "mpax.conn.rtr",
          "mpax.conn.read_out", "mpax.conn.read_in", "mpax.conn.p2p",
          "mpax.conn.rejected"]


class Numbered(Pcap):
    """A capture of several cases, each with its own addresses."""

    def __init__(self):
        super().__init__()
        self.case = 0
        self.limit = self.snaplen

    def frame(self, octets):
        octets = bytearray(octets)
        places = (27, 31) if octets[12:14] == b"\x08\0" else (34, 50)
        for place in places:
            octets[place:place + 2] = self.case.to_bytes(2, "big")
        self.snaplen, kept = self.limit, self.snaplen
        if kept < self.limit:
            self.snaplen = kept
        super().frame(bytes(octets))
        self.snaplen = kept


def tshark(path, *options):
    """Return tshark's frames with mpa.lua, as [{field: [value...]}]."""
    ran = subprocess.run(
        ["tshark", "-n", "-r", path, "-X", f"lua_script:{SCRIPT}",
         # A record may look like any protocol: no other dissector may guess.
         "--disable-protocol", "ALL", *[
             word for name in ("eth", "ethertype", "ip", "ipv6", "tcp", "mpax")
             for word in ("--enable-protocol", name)],
         *options, "-T", "fields",
         "-E", "separator=/t", "-E", "aggregator=|", "-E", "occurrence=a"]
        + [word for name in FIELDS for word in ("-e", name)],
        text=True, capture_output=True, check=False)
    frames = []
    for line in ran.stdout.splitlines():
        values = line.split("\t")
        frames.append({name: value.split("|") if value else []
                       for name, value in zip(FIELDS, values)})
    errors = [line for line in ran.stderr.splitlines()
              if line and "could be dangerous" not in line
              # Wireshark's own error about records that look like RPC.
              and "Dissector bug, protocol RPCoRDMA" not in line]
    return frames, errors


class Read:
    """mpa.lua's fields for one direction, frame by frame."""

    def __init__(self):
        self.frames = []

    def all(self, name):
        return [value for frame in self.frames for value in frame[name]]

    def numbers(self, name):
        return [int(value, 0) for value in self.all(name)]

    def octets(self, name):
        return "".join(self.all(name)).replace(":", "")

    def flags(self, name):
        return [value in ("1", "True") for value in self.all(name)]


def directions(frames):
    """Return {(endpoint's name, tcp.stream): Read}."""
    found = {}
    for frame in frames:
        if not frame["tcp.srcport"]:
            continue
        addr = (frame["ip.src"] or frame["ipv6.src"])[0]
        key = f"{addr} {frame['tcp.srcport'][0]}", int(frame["tcp.stream"][0])
        found.setdefault(key, Read()).frames.append(frame)
    return found


def differences(pairs, prefix):
    """Yield differences in (name, mpa.lua's, expected). prefix: mpa.lua may have more,
    as it finds FPDUs after a gap."""
    for name, got, want in pairs:
        seen = got[:len(want)] if prefix else got
        if seen != want:
            n = next((n for n, two in enumerate(zip(seen, want))
                      if two[0] != two[1]), min(len(seen), len(want)))
            yield (f"{name}: {len(got)} instead of {len(want)}, number {n} is "
                   f"{str(seen[n:n + 1])[:200]}, must be "
                   f"{str(want[n:n + 1])[:200]}")


def content(stream, at, fpdu, head):
    """Return (ULPDU, pad) of an FPDU of MPA, from its markers' places."""
    octets = bytearray(stream[at:at + fpdu.len - 4])
    for off in reversed(fpdu.markers):
        del octets[off:off + 4]
    assert head in (0, 4)
    return bytes(octets[2:2 + fpdu.ulpdu_len]), bytes(octets[2 + fpdu.ulpdu_len:])


def compare_mpa(read, way):
    """Compare mpa.lua's fields of a direction with judge.Direction's."""
    fpdus = way.fpdus
    status = ["off" if not way.crc else "good" if f.crc_good else "bad"
              for f in fpdus]
    markers = [(f.pos + off, 0 if off < f.head else off - f.head)
               for f in fpdus for off in f.markers]
    said = [int.from_bytes(way.stream[f.at + off + 2:f.at + off + 4], "big")
            for f in fpdus for off in f.markers]
    wrong = sum(len(f.wrong_markers) for f in fpdus)
    both = [content(way.stream, f.at, f, f.head) for f in fpdus]
    prefix = bool(way.unexplained)
    yield from differences([
        ("position", read.numbers("mpax.fpdu.position"), [f.pos for f in fpdus]),
        ("size", read.numbers("mpax.fpdu.size"), [f.len for f in fpdus]),
        ("length", read.numbers("mpax.fpdu.length"),
         [f.ulpdu_len for f in fpdus]),
        ("CRC", read.all("mpax.crc.status"), status),
        ("marker's position", read.numbers("mpax.marker.position"),
         [m[0] for m in markers]),
        ("marker must say", read.numbers("mpax.marker.expected"),
         [m[1] for m in markers]),
        ("FPDUPTR", read.numbers("mpax.marker.fpduptr"), said),
        ("ULPDU", read.octets("mpax.ulpdu"), b"".join(b[0] for b in both).hex()),
        ("pad", read.octets("mpax.pad"), b"".join(b[1] for b in both).hex()),
    ], prefix)
    if not prefix:
        for name, got, want in (
                ("wrong markers", len(read.all("mpax.marker.wrong")), wrong),
                ("right markers", len(read.all("mpax.marker.good")),
                 len(markers) - wrong)):
            if got != want:
                yield f"{name}: {got}, must be {want}"


def compare_starts(read, way):
    """Return the segments that start with an FPDU, without retransmissions."""
    begins = {f.at for f in way.fpdus}
    want = {s.number: s.off in begins for s in way.half.segments
            if s.payload and s.off is not None and s.off >= way.start}
    for frame in read.frames:
        number = int(frame["frame.number"][0])
        if frame["mpax.segment.starts"] and number in want and \
                not frame["mpax.segment.again"]:
            said = frame["mpax.segment.starts"][0] in ("1", "True")
            if said != want[number] and not way.unexplained:
                yield f"frame {number}: starts an FPDU: {said}"


def compare_startup(read, frame):
    if not read.all("mpax.startup"):
        yield f"no {frame.kind} Frame"
        return
    first = {name: (read.all("mpax.startup" + name) or [None])[0]
             for name in ("", ".flags", ".rev", ".pd_length")}
    want = {"": frame.kind, ".flags": f"0x{frame.flags:02x}",
            ".rev": str(frame.revision), ".pd_length": str(frame.private_len)}
    if first != want:
        yield f"{frame.kind} Frame: {first}, must be {want}"
    private = frame.private
    if frame.revision >= 2 and frame.flags & 0x10 and len(private) >= 4:
        ird, ord_ = (int.from_bytes(private[n:n + 2], "big") for n in (0, 2))
        want = [ird >> 15, ird >> 14 & 1, ird & 0x3FFF,
                ord_ >> 15, ord_ >> 14 & 1, ord_ & 0x3FFF]
        got = [{"True": 1, "False": 0}.get(text) if text in ("True", "False")
               else int(text)
               for name in ("a", "b", "ird", "c", "d", "ord")
               for text in read.all("mpax.enhanced." + name)[:1]]
        if got != want:
            yield f"enhanced: {got}, must be {want}"
        private = private[4:]
    if read.octets("mpax.startup.private") != private[:512].hex():
        yield "private data differs"


def find_way(ways, half, stream):
    name = capture.name(half.src)
    addr, port = name.rsplit(":", 1)
    return ways.get((f"{addr.strip('[]')} {port}", stream), Read())


def compare_connection(ways, stream, tcp):
    """Return all differences in one TCP connection."""
    found = judge.find(tcp)
    if not found:
        for half in tcp.halves:
            if find_way(ways, half, stream).all("mpax.fpdu.size"):
                yield "FPDUs where there are none"
        return
    found.parse(argparse.Namespace(any_pad="", cut_ok=False), lambda text: None)
    for frame, half in ((found.request, found.halves[0]),
                        (found.reply, found.halves[1])):
        if frame and frame.whole and frame.private_len <= 512:
            yield from compare_startup(find_way(ways, half, stream), frame)
    for way in found.directions:
        read = find_way(ways, way.half, stream)
        for text in compare_mpa(read, way):
            yield f"{capture.name(way.half.src)}: {text}"
        yield from compare_starts(read, way)
    seen = verdicts(text for half in tcp.halves
                    for text in find_way(ways, half, stream).all("_ws.expert.message"))
    told = verdicts(text for each in (found, *found.directions) for text in each.problems)
    if seen != told:
        yield f"verdicts of startup: {seen}, must be {told}"


def verdicts(texts):
    """Return the errors of startup. The judge and mpa.lua use the same words, except
    for rule 4. mpa.lua ignores a truncated frame."""
    return sorted({re.sub(".*rule 4", "rule 4", text) for text in texts
                   if re.search(r"RFC 6581|RFC 5044 section 7", text) and
                   "cut short" not in text})


def compare_tuf(read, half, told):
    stop = len(half.stream) if told.end is None else told.end
    octets = half.stream[told.start:stop]
    found = tuf.parse(octets, told.period)
    markers = [marker for f in found.fpdus for marker in f.markers]
    ulpdus = b""
    for f in found.fpdus:
        reader = tuf.Reader(octets, told.period)
        reader.at = f.pos
        reader.take(tuf.HEADER_LEN)
        ulpdus += reader.take(f.ulpdu_len)
    wrong = {m[0] for f in found.fpdus for m in f.wrong_markers}
    yield from differences([
        ("position", read.numbers("mpax.fpdu.position"),
         [f.pos for f in found.fpdus]),
        ("length", read.numbers("mpax.fpdu.length"),
         [f.ulpdu_len for f in found.fpdus]),
        ("key", read.octets("mpax.fpdu.key"),
         b"".join(f.key for f in found.fpdus).hex()),
        ("marker", read.numbers("mpax.marker.position"),
         [m[0] for m in markers]),
        ("first copy", read.numbers("mpax.marker.first"),
         [m[1] for m in markers]),
        ("second copy", read.numbers("mpax.marker.second"),
         [m[2] for m in markers]),
        ("ULPDUs", read.octets("mpax.ulpdu"), ulpdus.hex()),
    ], bool(found.left or half.holes))
    if not found.left and len(read.all("mpax.marker.wrong")) != len(wrong):
        yield (f"wrong markers: {len(read.all('mpax.marker.wrong'))}, "
               f"must be {len(wrong)}")


# ---- captures of this test ----

own = []


def case(text):
    def add(function):
        own.append((text, function))
        return function
    return add


@case("enhanced_startup_all_fields")
def _(pcap):
    tcp = Connection(pcap)
    tcp.send(0, startup(REQUEST, M | C | 0x10, b"\xc0\7\x80\x09private", 2))
    tcp.send(1, startup(REPLY, C | 0x10, b"\xff\xff\x40\5", 2), 7)
    ways = Sender(False), Sender(True)
    tcp.segment(0, ways[0].fpdu(b""))
    tcp.segment(1, ways[1].fpdu(bytes(1000)))


@case("startup_frames_and_fpdus_in_one_segment_each")
def _(pcap):
    tcp = Connection(pcap)
    ways = Sender(True), Sender(True)
    tcp.segment(0, startup(REQUEST, M | C, b"x" * 512))
    tcp.segment(1, startup(REPLY, M | C, b"y" * 512))
    for end in 0, 1:
        tcp.segment(end, ways[end].fpdu(b"a" * 500) + ways[end].fpdu(b"b")
                    + ways[end].fpdu(b"c" * 700))


@case("segments_in_reverse_order")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    octets = b"".join(ways[0].fpdu(bytes([n]) * 300) for n in range(60))
    start = tcp.seq[0]
    for at in reversed(range(0, len(octets), 700)):
        tcp.segment(0, octets[at:at + 700], seq=start + at)


@case("refusal_and_a_second_try")
def _(pcap):
    tcp = Connection(pcap)
    tcp.start(reply=M | C | R)
    ways = tcp.start()
    tcp.segment(0, ways[0].fpdu(b"now"))


def lost(pcap, markers, size):
    """Build five segments of FPDUs; the capture lacks the second."""
    tcp = Connection(pcap)
    ways = tcp.start(*[M | C if markers else C] * 2)
    octets = b"".join(ways[0].fpdu(bytes([n]) * 300) for n in range(20))
    start = tcp.seq[0]
    for n, at in enumerate(range(0, len(octets), size)):
        if n != 1:
            tcp.segment(0, octets[at:at + size], seq=start + at)
        tcp.seq[0] = start + at + size
        tcp.segment(1, b"")


def check_lost(tap, folder):
    """FPDUs are found after a gap, and a note has the number of missing octets."""
    # Without markers they are found only where a segment starts with an FPDU.
    for markers, size, want in ((False, 308 * 2, 18), (True, 700, 14),
                                (False, 700, 2)):
        path = os.path.join(folder, "lost.pcap")
        pcap = Pcap()
        lost(pcap, markers, size)
        pcap.write(path)
        frames, errors = tshark(path)
        read = directions(frames)[("10.0.0.1 40000", 0)]
        messages = read.all("_ws.expert.message")
        good = len(read.all("mpax.crc.good"))
        tap.result(not errors and good >= want
                   and not read.all("mpax.crc.bad")
                   and any("were not captured" in m for m in messages),
                   f"mpa.lua: finds FPDUs again, markers {markers}, segments "
                   f"of {size}", f"{good} good, at least {want} expected\n"
                   + "\n".join(messages + errors))


def check_direct(tap, folder):
    """MPA without startup frames is set by the preference."""
    path = os.path.join(folder, "direct.pcap")
    pcap = Pcap()
    tcp = Connection(pcap)
    tcp.segment(0, b"plain")
    ways = Sender(True)
    for n in 5, 1000, 300:
        tcp.segment(0, ways.fpdu(bytes(n)))
    pcap.write(path)
    frames, errors = tshark(
        path, "-o", "mpax.framings:from=:40000,mode=mpa-markers,start=5")
    read = directions(frames)[("10.0.0.1 40000", 0)]
    tap.result(not errors and read.numbers("mpax.fpdu.length") == [5, 1000, 300]
               and len(read.all("mpax.crc.good")) == 3
               and len(read.all("mpax.marker.good")) == 3,
               "mpa.lua: direct", str(errors))
    for wrong in "from=:40000", "mode=x,from=:1", "from=,mode=mpa":
        _, errors = tshark(path, "-o", "mpax.framings:" + wrong)
        tap.result(any("mpa.lua" in line for line in errors),
                   f"mpa.lua: complains of {wrong}", str(errors))


def check_filters(tap, folder):
    """README's filters find the right packets."""
    path = os.path.join(folder, "filters.pcap")
    pcap = Pcap()
    tcp = Connection(pcap)
    ways = tcp.start()
    for wrong in (), ("crc",), ("marker",), ("pad",), ():
        tcp.segment(0, ways[0].fpdu(bytes(1401), wrong))
    octets = ways[0].fpdu(bytes(2000))
    tcp.segment(0, octets[:900])
    tcp.segment(0, octets[900:])
    tcp.segment(0, b"\xff\xff" + bytes(100))
    pcap.write(path)
    for text, want in (("mpax.crc.bad", 1), ("mpax.marker.wrong", 1),
                       ("mpax.fpdu.length > 1401", 1),
                       ("mpax.marker.fpduptr == 0", 1),
                       ("mpax.expert.pad", 1), ("mpax.expert.starts", 1),
                       ("mpax.expert.length", 1), ("mpax.startup", 2),
                       ("mpax.part", 1), ("mpax.crc.good", 5)):
        frames, errors = tshark(path, "-Y", text)
        tap.result(len(frames) == want and not errors,
                   f"mpa.lua: filter {text}",
                   f"{len(frames)} frames, {want} expected {errors}")


def check_between(tap, folder):
    """An FPDU before the reply: mpa.lua shows it with the reply, and reports that it,
    but not the responder's, is too early."""
    path = os.path.join(folder, "between.pcap")
    pcap = Pcap()
    tcp = Connection(pcap)
    tcp.segment(0, startup(REQUEST, M | C))
    tcp.segment(0, Sender(True).fpdu(b"data"))
    tcp.segment(1, startup(REPLY, M | C))
    tcp.segment(1, Sender(True).fpdu(b"answer"))
    pcap.write(path)
    frames, errors = tshark(path, "-Y", "mpax.expert.turn")
    said = [text for frame in frames for text in frame["_ws.expert.message"]]
    tap.result(not errors and frames[0]["mpax.fpdu.length"] == ["4"] and
               said == ["the initiator's FPDUs begin before the Reply Frame "
                        "has ended (RFC 5044 section 7.1.2)"],
               "mpa.lua: fpdu_between_request_and_reply", f"{said} {errors}")


COUNT_OWN = 2 + 3 + 4 + 10 + 1


def count(cases):
    return len(cases) + len(own) + len(selftest_tuf.cases) + COUNT_OWN


def own_addresses(text, number):
    """Return a --tuf for Numbered's addresses."""
    ours = f"10.{number >> 8}.{number & 255}."
    return text.replace("10.0.0.", ours).replace("=:", f"={ours}1:") \
        .replace("fd00::1", f"fd00::{number:x}:1") \
        .replace("fd00:0::2", f"fd00:0::{number:x}:2")


def build(cases):
    """Build one capture of all cases; return [(name, number, --tuf...)]."""
    pcap, told = Numbered(), []
    todo = ([(c[0], c[1], ()) for c in cases] + [(*c, ()) for c in own]
            + [(c[0], c[1], c[3]) for c in selftest_tuf.cases])
    for number, (name, function, framings) in enumerate(todo):
        pcap.case, pcap.snaplen = number, pcap.limit
        function(pcap)
        told.append((name, number, [own_addresses(text, number)
                                    for text in framings]))
    return pcap, told


def number_of(tcp):
    addr = tcp.halves[0].src[0]
    return int.from_bytes(addr[1:3] if len(addr) == 4 else addr[12:14], "big")


def run(tap, folder, cases):
    path = os.path.join(folder, "lua.pcap")
    pcap, todo = build(cases)
    pcap.write(path)
    told = ["-o", "mpax.framings:" + " ".join(
        text for _, _, texts in todo for text in texts)]
    frames, errors = tshark(path, *told)
    tap.result(not errors, "mpa.lua: no complaint",
               "\n".join(errors)[:2000])
    ways = directions(frames)
    # tshark and capture.py number connections in the same order.
    connections = list(enumerate(capture.read(path)))
    for name, number, texts in todo:
        problems = []
        mine = [c for c in connections if number_of(c[1]) == number]
        for stream, tcp in mine:
            if not texts:
                problems += compare_connection(ways, stream, tcp)
        framings = [expect.framing(text) for text in texts]
        for half, framing in expect.parts([c[1] for c in mine], framings):
            stream = next(n for n, c in mine if half in c.halves)
            if len([f for f in framings if f.speaks_of(half)]) == 1:
                problems += compare_tuf(find_way(ways, half, stream), half,
                                        framing)
        tap.result(not problems, f"mpa.lua: {name}",
                   "\n".join(problems[:8]))
    again, errors = tshark(path, "-2", *told)
    # The first pass does not know later packets: the end of an FPDU, the other end's
    # answer, and the octets after a gap.
    for frame in frames + again:
        for field in FIELDS:
            if field.startswith(("mpax.part", "mpax.segment", "mpax.conn",
                                 "_ws.expert")):
                frame[field] = []
    tap.result(frames == again and not errors,
               "mpa.lua: two passes say the same as one", "\n".join(
                   f"{a} {b}" for pair in zip(frames, again)
                   for name in FIELDS for a, b in [[f.get(name) for f in pair]]
                   if a != b)[:2000])
    check_between(tap, folder)
    check_lost(tap, folder)
    check_direct(tap, folder)
    check_filters(tap, folder)
