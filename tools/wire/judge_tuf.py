# SPDX-License-Identifier: GPL-2.0
"""Judge captures of TUF: see README. There is no second parser."""
import bisect

import capture
import counters
import expect
import output
import tuf

# Sums of a direction in the last line of a report.
SUMS = ("fpdus", "markers", "markers_wrong", "segments_accidental",
        "octets_unexplained")


class Framed:
    """A direction that a --tuf describes, parsed."""

    def __init__(self, half, framing):
        self.half, self.framing = half, framing
        self.start, self.key = framing.start, framing.key
        self.octets = half.stream[framing.start:framing.end]
        self.stop = self.start + len(self.octets)
        self.problems = []
        self.found = tuf.parse(self.octets, framing.period)
        if self.key is None and self.found.fpdus:
            self.key = self.found.fpdus[0].key
        # Length of each FPDU by its position in the stream. Of a truncated FPDU only
        # the position matters: no segment can contain it.
        self.lens = {self.start + f.pos: f.len for f in self.found.fpdus}
        self.edge = self.stop - self.found.left
        if self.found.cut_off and not self.wrong_key(self.found.tail):
            self.lens[self.start + self.found.tail.pos] = None
            self.edge = self.stop
        self.figures = {}

    def judge(self, cut_ok):
        tail = [self.found.tail] if self.found.tail else []
        for n, fpdu in enumerate(self.found.fpdus + tail, 1):
            self.problems += [f"FPDU {n} at {fpdu.pos}: {text}"
                              for text in self.wrong(fpdu)]
        self.judge_end(cut_ok)
        if not self.found.fpdus:
            self.problems.append("there is no FPDU in it")
        self.figures = self.segments()
        self.problems += self.half.problems

    def wrong_key(self, fpdu):
        return bool(self.key) and fpdu.key != self.key[:len(fpdu.key)]

    def wrong(self, fpdu):
        """Yield the errors of an FPDU."""
        if self.wrong_key(fpdu):
            yield f"Key {fpdu.key.hex()}, must be {self.key.hex()}" + (
                ", or the Length before it is wrong" if fpdu.pos else "")
        for at, which, said, want in fpdu.wrong_markers:
            yield (f"marker at {at}: its {which} copy says {said}, must say "
                   f"{want}")
        if self.framing.period and fpdu.len > tuf.FPDU_MAX:
            yield (f"{fpdu.len} octets with header and markers, "
                   f"{tuf.FPDU_MAX} are the most")

    def judge_end(self, cut_ok):
        """Check that framing ends after a complete FPDU, and where --tuf says."""
        end = self.framing.end
        short = end is not None and self.stop < end
        # An end given with --tuf is not that of a killed process.
        excused = cut_ok and (end is None or short)
        if self.found.left and not (excused and self.found.cut_off):
            self.problems.append(
                f"{self.found.left} octets at "
                f"{len(self.octets) - self.found.left} are not explained: "
                f"{self.found.why}")
        if short and not excused:
            self.problems.append(f"framing is to end at stream octet {end}, "
                                 f"there are {len(self.half.stream)} octets")

    def captured(self):
        """Return the segments with framed octets whose FPDUs are known."""
        return [s for s in self.half.segments
                if s.off is not None and s.off < self.edge
                and s.off + len(s.payload) > self.start]

    def passes(self, segment):
        """Whether the segment passes the containment test of a receiver, which has only
        this segment."""
        payload = segment.payload
        return int.from_bytes(payload[:2], "big") + tuf.HEADER_LEN == \
            len(payload) + segment.cut and \
            payload[2:tuf.HEADER_LEN] == self.key

    def is_fpdu(self, segment):
        return segment.off in self.lens and \
            self.lens[segment.off] == len(segment.payload)

    def misleads(self, segment):
        """Whether a receiver would mistake the segment for an FPDU. With markers there
        is no such test."""
        return not self.framing.period and self.passes(segment) and \
            not self.is_fpdu(segment)

    def segments(self):
        """Return numbers of segments. Retransmissions count, too, as receivers test them."""
        starts = sorted(self.lens)
        names = ("segments", "segments_begin_fpdu", "segments_contained")
        figures = dict.fromkeys(
            names + tuple(n.replace("segments", "segments_again")
                          for n in names)
            + ("segments_accidental", "fpdus_inside_segments"), 0)
        pieces = set()      # FPDUs that are only partly in a segment
        edge = 0
        for s in self.captured():
            end = s.off + len(s.payload)
            again = s.off < edge
            for name, counts in zip(names, (
                    True, s.off in self.lens,
                    self.is_fpdu(s) and self.passes(s))):
                figures[name] += counts
                figures[name.replace("segments", "segments_again")] += \
                    counts and again
            figures["fpdus_inside_segments"] += \
                bisect.bisect_left(starts, end) \
                - bisect.bisect_right(starts, s.off)
            pieces.update(self.cut_by(starts, s.off),
                          self.cut_by(starts, min(end, self.stop)))
            if self.misleads(s):
                figures["segments_accidental"] += 1
                self.problems.append(
                    f"packet {s.number}{', sent again,' if again else ''} "
                    "passes the containment test and is no FPDU: "
                    f"{len(s.payload)} octets at {s.off - self.start}")
            edge = max(edge, end)
        figures["fpdus_cut"] = len(pieces)
        return figures

    def cut_by(self, starts, at):
        """Return the FPDU that a segment boundary splits, or None."""
        n = bisect.bisect_right(starts, at) - 1
        if n < 0 or starts[n] == at:
            return []
        size = self.lens[starts[n]]
        return [starts[n]] if size is None or at < starts[n] + size else []

    def report(self):
        framing = self.framing
        return {
            "from": capture.name(self.half.src),
            "to": capture.name(self.half.dst),
            "mode": framing.mode, "period": framing.period,
            "key": self.key.hex() if self.key else None,
            "start": self.start, "end": framing.end,
            "stream_octets": len(self.half.stream),
            "fpdus": len(self.found.fpdus),
            "framed_octets": len(self.octets),
            "ulpdu_octets": sum(f.ulpdu_len for f in self.found.fpdus),
            "longest": max((f.len for f in self.found.fpdus), default=0),
            "markers": sum(len(f.markers) for f in self.found.fpdus),
            # A marker with two wrong copies counts once.
            "markers_wrong": len({w[0] for f in self.found.fpdus
                                  for w in f.wrong_markers}),
            "octets_unexplained": self.found.left + self.half.behind,
            **self.figures,
            "octets_repeated": self.half.again,
            "problems": self.problems,
        }


def demands(way, options):
    """Yield the requested properties that an aligned direction lacks."""
    if way["mode"] != "align":
        return
    for asked, key, text in (
            (options.aligned, "segments_begin_fpdu",
             "do not begin with an FPDU"),
            (options.contained, "segments_contained",
             "are not exactly one FPDU")):
        lost = way["segments"] - way[key]
        if asked and lost:
            yield f"{lost} of {way['segments']} segments {text}"
    if options.starts and way["fpdus_inside_segments"]:
        yield (f"{way['fpdus_inside_segments']} times an FPDU does not start "
               "a segment")


def judge(path, options, progress):
    """Return a file's report."""
    progress(f"reading {path}")
    tcp = capture.read(path)
    if options.port:
        tcp = [c for c in tcp if options.port in (c.halves[0].src[1],
                                                  c.halves[0].dst[1])]
    parts = expect.parts(tcp, options.tuf)
    problems = [f"nothing was sent as --tuf {framing.text} says"
                for framing in options.tuf
                if framing not in (told for _, told in parts)]
    ways = []
    for half, framing in parts:
        progress(f"{len(ways)} directions parsed")
        part = Framed(half, framing)
        part.judge(options.cut_ok)
        ways.append(part.report())
    for way in ways:
        problems += [f"{way['from']}: {text}"
                     for text in demands(way, options)]
    if options.counters:
        problems += counters.compare(ways, options.counters)
    return {"file": path, "tcp_connections": len(tcp), "directions": ways,
            "fpdus": sum(way["fpdus"] for way in ways), "problems": problems,
            "good": not problems and not any(w["problems"] for w in ways)}


def show_direction(way):
    end = "the end" if way["end"] is None else way["end"]
    print(f"{way['from']} -> {way['to']}")
    print(f"  {way['mode']}, key {way['key'] or 'unknown'}, stream octets "
          f"{way['start']} to {end} (of {way['stream_octets']})")
    rows = [("FPDUs", way["fpdus"]), ("octets of ULPDUs", way["ulpdu_octets"]),
            ("longest FPDU", way["longest"])]
    if way["period"]:
        rows += [(f"markers, each {way['period']} octets", way["markers"]),
                 ("wrong markers", way["markers_wrong"])]
    rows.append(("octets not explained", way["octets_unexplained"]))
    for text, value in rows:
        print(f"    {text:<28}{value:>10}")
    print("    segments:")
    for text, key in (("in all", "segments"),
                      ("begin with an FPDU", "segments_begin_fpdu"),
                      ("are exactly one FPDU", "segments_contained")):
        again = way[key.replace("segments", "segments_again")]
        print(f"      {text:<26}{way[key]:>10}"
              + (f", {again} of them sent again" if again else ""))
    print(f"    {way['fpdus_cut']} FPDUs are cut; "
          f"{way['fpdus_inside_segments']} times one begins inside a segment")
    output.problems(way["problems"], "    ")


def show(report, _):
    ways = report["directions"]
    print(f"{report['file']}: {len(ways)} framed part"
          f"{'' if len(ways) == 1 else 's'} of TUF (in "
          f"{report['tcp_connections']} TCP connections)")
    for way in ways:
        show_direction(way)
    output.problems(report["problems"], "")
    total = {key: sum(way[key] for way in ways) for key in SUMS}
    if report["good"]:
        print(f"GOOD: {total['fpdus']} FPDUs, {total['markers']} markers good")
        return
    count = len(report["problems"]) + sum(len(w["problems"]) for w in ways)
    print(f"BAD: {total['fpdus']} FPDUs, {total['markers_wrong']} of "
          f"{total['markers']} markers wrong, {total['segments_accidental']} "
          "segments pass for FPDUs,\n"
          f"     {total['octets_unexplained']} octets not explained; "
          f"{count} problems")
