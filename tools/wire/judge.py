# SPDX-License-Identifier: GPL-2.0
"""Judge captures of MPA connections: see README."""
import argparse
import bisect
import json
import os
import sys
import tempfile

import capture
import counters
import expect
import judge_tuf
import output
import rfc5044
import rfc6581
import wireshark


class Direction:
    """One direction of an MPA connection, parsed by rfc5044.py."""

    def __init__(self, half, frame, peer):
        self.half, self.frame = half, frame
        self.stream = half.stream
        self.start = frame.end
        self.marked = bool(peer.flags & rfc5044.M)
        self.crc = bool((frame.flags | peer.flags) & rfc5044.C)
        self.fpdus = []
        self.octets = self.crc_bad = 0
        self.markers = self.markers_wrong = self.unexplained = 0
        self.problems = []
        self.tshark = wireshark.Direction()

    def parse(self, empty, options, progress):
        any_pad = options.any_pad == capture.name(self.half.src).rsplit(":", 1)[0]
        found = rfc5044.fpdus(self.stream, self.start, self.marked, empty)
        while True:
            try:
                fpdu = next(found)
            except StopIteration as stop:
                self.unexplained, why = stop.value
                break
            self.fpdus.append(fpdu)
            self.octets += fpdu.ulpdu_len
            self.markers += len(fpdu.markers)
            self.markers_wrong += len(fpdu.wrong_markers)
            n = len(self.fpdus)
            if n % 4096 == 0:
                progress(f"{n} FPDUs parsed")
            where = f"FPDU {n} at {fpdu.pos}"
            if self.crc and not fpdu.crc_good:
                self.crc_bad += 1
                self.problems.append(f"{where}: wrong CRC (RFC 5044 section 4.4)")
            for off, reserved, ptr, want in fpdu.wrong_markers:
                self.problems.append(
                    f"{where}: marker at {fpdu.pos + off} says {ptr}"
                    + (f", reserved {reserved:#06x}" if reserved else "")
                    + f", must say {want} (RFC 5044 section 4.3)")
            if fpdu.wrong_pad and not any_pad:
                self.problems.append(f"{where}: pad is not zero (RFC 5044 section 4.1)")
        if self.unexplained:
            text = (f"{self.unexplained} octets at "
                    f"{len(self.stream) - self.start - self.unexplained} are "
                    f"not explained: {why}")
            if not (options.cut_ok and "cut off" in why):
                self.problems.append(text)
        self.unexplained += self.half.behind
        self.problems += self.half.problems

    def segments(self):
        """Return figures of Full Operation's data segments."""
        starts = [fpdu.at for fpdu in self.fpdus]
        begins = set(starts)
        count = aligned = again = again_aligned = edge = 0
        shared = []     # FPDUs that begin in each segment, without retransmissions
        for s in self.half.segments:
            if s.off is None or s.off < self.start:
                continue
            begin, end = s.off in begins, s.off + len(s.payload)
            count += 1
            aligned += begin
            if s.off < edge:
                again += 1
                again_aligned += begin
            else:
                shared.append(bisect.bisect_left(starts, end)
                              - bisect.bisect_left(starts, s.off))
            edge = max(edge, end)
        return {
            "segments": count, "segments_begin_fpdu": aligned,
            "segments_again": again,
            "segments_again_begin_fpdu": again_aligned,
            "fpdus_a_segment": {
                "mean": round(sum(shared) / max(len(shared), 1), 2),
                "min": min(shared, default=0), "max": max(shared, default=0),
            },
        }

    def compare(self):
        """Compare tshark's results with the parser's."""
        saw = self.tshark
        self.problems += saw.differs
        pairs = [("FPDUs", saw.fpdus + saw.left_out, len(self.fpdus))]
        if self.crc:
            bad = sum(not f.crc_good for f in self.fpdus)
            pairs += [("good CRCs", saw.crc_good + saw.left_out,
                       len(self.fpdus) - bad)]
            if not saw.left_out:
                pairs += [("bad CRCs", saw.crc_bad, bad)]
        for what, theirs, ours in pairs:
            if theirs != ours:
                self.problems.append(f"tshark says {theirs} {what}, "
                                     f"the own parse {ours}")
        if saw.markers_wrong:
            self.problems.append(f"tshark reads {saw.markers_wrong} wrong "
                                 "markers")

    def report(self):
        saw = self.tshark
        return {
            "from": capture.name(self.half.src),
            "to": capture.name(self.half.dst),
            "markers_in_use": self.marked, "crc_in_use": self.crc,
            "fpdus": len(self.fpdus), "ulpdu_octets": self.octets,
            "crc_good": len(self.fpdus) - self.crc_bad if self.crc else 0,
            "crc_bad": self.crc_bad,
            "markers": self.markers, "markers_wrong": self.markers_wrong,
            "octets_unexplained": self.unexplained,
            **self.segments(),
            "octets_repeated": self.half.again,
            "tshark": {
                "fpdus": saw.fpdus, "crc_good": saw.crc_good,
                "crc_bad": saw.crc_bad, "crc_unchecked": saw.crc_unchecked,
                "markers": saw.markers, "markers_wrong": saw.markers_wrong,
                "crc_only": saw.crc_only, "left_out": saw.left_out,
            },
            "problems": self.problems,
        }


class Connection:
    """An MPA connection: startup and two directions."""

    def __init__(self, tcp, halves, request, reply):
        self.tcp, self.halves = tcp, halves
        self.request, self.reply = request, reply
        self.seen = [wireshark.Startup(f) for f in (request, reply) if f]
        self.directions = []
        self.problems = [text for frame in (request, reply) if frame
                         for text in frame.problems() + rfc6581.frame_problems(frame)]
        self.rejected = bool(reply and reply.flags & rfc5044.R)

    def parse(self, options, progress):
        if not self.reply:
            self.problems.append("there is no Reply Frame")
            return
        if not (self.request.whole and self.reply.whole):
            return
        if self.reply.revision != self.request.revision:
            self.problems.append(
                f"Rev {self.request.revision} in the Request Frame, "
                f"{self.reply.revision} in the Reply Frame (RFC 5044 section 7.1.1)")
        if not self.rejected:
            self.problems += rfc6581.problems(self.request, self.reply)
        self.check_startup()
        if self.rejected:
            return
        empty = rfc6581.empty_first(self.request, self.reply)
        for half, frame, peer, empty in (
                (self.halves[0], self.request, self.reply, empty),
                (self.halves[1], self.reply, self.request, False)):
            direction = Direction(half, frame, peer)
            direction.parse(empty, options, progress)
            self.directions.append(direction)
        self.check_turn()
        ours = self.directions[0]
        if rfc6581.empty_is_the_rtr(self.request, self.reply) and ours.fpdus and \
                ours.fpdus[0].ulpdu_len:
            ours.problems.append("the first FPDU is not the RTR that was agreed on, one "
                                 "without a ULPDU (RFC 6581 section 9.2)")

    def check_startup(self):
        """Section 7.1.2: a reply follows a request, FPDUs follow the reply."""
        ours, theirs = self.halves
        if ours.holes or theirs.holes:
            return
        request, reply = self.request, self.reply
        if theirs.first_behind(reply.at + 1) < ours.first_behind(request.end):
            self.problems.append("the Reply Frame begins before the Request Frame "
                                 "has ended (RFC 5044 section 7.1.2)")
        if not self.rejected and \
                ours.first_behind(request.end + 1) < theirs.first_behind(reply.end):
            self.problems.append("the initiator's FPDUs begin before the Reply Frame "
                                 "has ended (RFC 5044 section 7.1.2)")

    def check_turn(self):
        """Section 7.1.2 rule 4: the responder waits for the first FPDU."""
        ours, theirs = self.directions
        if not theirs.fpdus or ours.half.holes:
            return
        first = theirs.half.first_behind(theirs.start + 1)
        if not ours.fpdus or first < ours.half.first_behind(
                ours.fpdus[0].at + ours.fpdus[0].len):
            theirs.problems.append(
                f"FPDUs from packet {first} on, before the initiator's "
                "first (RFC 5044 section 7.1.2 rule 4)")

    def write(self, writer):
        request = self.request.octets
        reply = self.reply.octets if self.reply else None
        if not self.request.whole or (self.reply and not self.reply.whole):
            return
        number = writer.conversation()
        writer.segment(number, 0, wireshark.BASE - len(request), request,
                       self.seen[0])
        if reply:
            writer.segment(number, 1, wireshark.BASE - len(reply), reply,
                           self.seen[1])
        for end, direction in enumerate(self.directions):
            wireshark.write(writer, direction.tshark, end, request, reply,
                            direction.stream, direction.fpdus,
                            direction.marked)

    def compare(self):
        for seen in self.seen:
            frame = seen.frame
            if not frame.whole:
                continue
            want = {"key": frame.octets[:16].hex(),
                    "M": str(bool(frame.flags & rfc5044.M)),
                    "C": str(bool(frame.flags & rfc5044.C)),
                    "R": str(bool(frame.flags & rfc5044.R)),
                    "revision": str(frame.revision),
                    "private": str(frame.private_len)}
            for key, value in want.items():
                # Lengths have a unit.
                got = seen.seen.get(key, "nothing").split()[0]
                if got != value:
                    self.problems.append(f"{frame.kind} Frame: tshark sees "
                                         f"{got} for {value} ({key})")
        for direction in self.directions:
            direction.compare()

    def good(self):
        return not self.problems and \
            not any(d.problems for d in self.directions)

    def report(self):
        frames = {}
        for frame in (self.request, self.reply):
            if frame:
                frames[frame.kind.lower()] = {
                    "stream_octet": frame.at,
                    "markers": bool(frame.flags & rfc5044.M),
                    "crc": bool(frame.flags & rfc5044.C),
                    "reject": bool(frame.flags & rfc5044.R),
                    "flags": frame.flags, "revision": frame.revision,
                    "private_length": frame.private_len,
                    "private": frame.private.hex()}
        return {"initiator": capture.name(self.halves[0].src),
                "responder": capture.name(self.halves[1].src),
                **frames, "rejected": self.rejected,
                "directions": [d.report() for d in self.directions],
                "problems": self.problems, "good": self.good()}


def find(tcp):
    """Return the MPA connection in a TCP connection, or None."""
    found = []
    for n, half in enumerate(tcp.halves):
        request = rfc5044.find_startup(half.stream, rfc5044.REQUEST)
        if request:
            found.append((request.at, n, request))
    if not found:
        return None
    _, n, request = min(found, key=lambda entry: entry[:2])
    halves = tcp.halves[n], tcp.halves[1 - n]
    reply = rfc5044.find_startup(halves[1].stream, rfc5044.REPLY)
    return Connection(tcp, halves, request, reply)


def unjudged(tcp):
    """Return text about a TCP connection without startup frames."""
    sent = [half for half in tcp.halves if any(
        s.payload for s in half.segments)]
    # Octets before the capture may include a startup frame.
    begun = all(half.isn is not None and half.stream for half in sent)
    return {"from": capture.name(tcp.halves[0].src),
            "to": capture.name(tcp.halves[0].dst),
            "begin_captured": begun,
            "why": "it has no startup frame: no MPA" if begun else
            "its begin is not in the capture: it may be MPA"}


def demands(way, options):
    """Yield the requested properties that a direction's segments lack."""
    lost = way["segments"] - way["segments_begin_fpdu"]
    if options.aligned and lost:
        yield (f"{lost} of {way['segments']} segments do not begin with an "
               "FPDU")
    shared = way["fpdus_a_segment"]
    if options.packed and way["fpdus"] and shared["mean"] < options.packed:
        yield (f"{shared['mean']} FPDUs a segment, {options.packed} are "
               "asked for")
    if options.single and shared["max"] > 1:
        yield f"{shared['max']} FPDUs in a segment, one is asked for"


def judge(path, options, progress):
    """Return a file's (report, connections)."""
    progress(f"reading {path}")
    tcp = capture.read(path)
    if options.port:
        tcp = [c for c in tcp if options.port in (c.halves[0].src[1],
                                                  c.halves[0].dst[1])]
    found = [(c, find(c)) for c in tcp]
    mpa = [connection for _, connection in found if connection]
    for connection in mpa:
        connection.parse(options, progress)
    if options.tshark:
        with tempfile.TemporaryDirectory() as scratch:
            cut = options.keep or os.path.join(scratch, "segments.pcap")
            with open(cut, "wb") as file:
                writer = wireshark.Writer(file)
                for connection in mpa:
                    connection.write(writer)
            if mpa:
                wireshark.run(cut, writer.frames, lambda n: progress(
                    f"tshark: {100 * n // writer.number} %"))
        for connection in mpa:
            connection.compare()
    report = {"file": path,
              "tcp_connections": len(tcp),
              "connections": [c.report() for c in mpa],
              "not_judged": [unjudged(c) for c, connection in found
                             if not connection and any(
                                 s.payload for half in c.halves
                                 for s in half.segments)]}
    report["fpdus"] = sum(d["fpdus"] for c in report["connections"]
                          for d in c["directions"])
    report["problems"] = []
    if not mpa:
        report["problems"].append("there is no MPA connection in it")
    elif not report["fpdus"] and not options.startup:
        report["problems"].append("there is no FPDU in it; was it a refusal? "
                                  "--startup judges startup alone")
    ways = [way for connection in report["connections"]
            for way in connection["directions"]]
    for way in ways:
        report["problems"] += [f"{way['from']}: {text}"
                               for text in demands(way, options)]
    if options.counters:
        report["problems"] += counters.compare(ways, options.counters)
    report["bad"] = bool(report["problems"]) or not all(
        c["good"] for c in report["connections"])
    report["good"] = not report["bad"] and all(
        c["begin_captured"] for c in report["not_judged"])
    return report


def frame_text(frame):
    said = ["M markers" if frame["markers"] else "no markers",
            "C CRC" if frame["crc"] else "no CRC"]
    if frame["reject"]:
        said.append("R rejected")
    text = (f"Rev {frame['revision']}, {', '.join(said)}, "
            f"{frame['private_length']} octets of private data")
    if frame["stream_octet"]:
        text += f", after {frame['stream_octet']} octets of plain TCP"
    return text


def show_direction(way, who, tshark):
    if not way["fpdus"] and not way["problems"]:
        print(f"  {who}: nothing sent")
        return
    saw = way["tshark"]
    rows = [("FPDUs", way["fpdus"], saw["fpdus"])]
    if way["crc_in_use"]:
        rows += [("good CRC", way["crc_good"], saw["crc_good"]),
                 ("bad CRC", way["crc_bad"], saw["crc_bad"])]
    else:
        rows.append(("CRC not in use", way["fpdus"], saw["crc_unchecked"]))
    if way["markers_in_use"]:
        rows += [("markers", way["markers"], saw["markers"]),
                 ("wrong markers", way["markers_wrong"],
                  saw["markers_wrong"])]
    rows.append(("octets not explained", way["octets_unexplained"], None))
    head = "own parse    tshark" if tshark else "own parse"
    print(f"  {who:<28}{head:>{len(head) + 1}}")
    for text, own, theirs in rows:
        theirs = "" if theirs is None or not tshark else f"{theirs:>10}"
        print(f"    {text:<26}{own:>10}{theirs}")
    if tshark and saw["crc_only"] + saw["left_out"]:
        print(f"    {saw['crc_only'] + saw['left_out']} FPDUs end where the "
              f"next marker begins, or are empty: of these tshark\n    judges "
              f"the CRC of {saw['crc_only']}, and no marker; our own parser does")
    text = (f"{way['segments']} segments, "
            f"{way['segments_begin_fpdu']} begin with an FPDU")
    print(f"    {way['ulpdu_octets']} octets of ULPDU in {text}")
    shared = way["fpdus_a_segment"]
    print(f"    {shared['mean']} FPDUs begin in a segment, at least "
          f"{shared['min']}, at most {shared['max']}")
    if way["octets_repeated"]:
        print(f"    {way['octets_repeated']} octets were sent again, in "
              f"{way['segments_again']} segments, "
              f"{way['segments_again_begin_fpdu']} begin with an FPDU")
    output.problems(way["problems"], "    ")


def show(report, options):
    mpa = report["connections"]
    print(f"{report['file']}: {len(mpa)} MPA connection"
          f"{'' if len(mpa) == 1 else 's'} "
          f"(of {report['tcp_connections']} of TCP)")
    for connection in mpa:
        print(f"initiator {connection['initiator']}, "
              f"responder {connection['responder']}")
        for kind in ("request", "reply"):
            if kind in connection:
                print(f"  {kind.title()} Frame: "
                      f"{frame_text(connection[kind])}")
        output.problems(connection["problems"], "  ")
        for way, who in zip(connection["directions"],
                            ("initiator -> responder",
                             "responder -> initiator")):
            show_direction(way, who, options.tshark)
    if options.tshark and any(c["directions"] for c in mpa):
        print("  tshark was given one FPDU a segment, octets and places as "
              "captured")
    output.problems(report["problems"], "")
    for connection in report["not_judged"][:output.SHOWN]:
        print(f"not judged: {connection['from']} and {connection['to']}: "
              f"{connection['why']}")
    if len(report["not_judged"]) > output.SHOWN:
        print(f"not judged: {len(report['not_judged']) - output.SHOWN} more")
    print(summary(report))


def summary(report):
    """Return a file's summary line."""
    total = dict.fromkeys(("fpdus", "crc_good", "crc_bad", "markers",
                           "markers_wrong", "octets_unexplained"), 0)
    problems = len(report["problems"])
    for connection in report["connections"]:
        problems += len(connection["problems"])
        for way in connection["directions"]:
            problems += len(way["problems"])
            for key in total:
                total[key] += way[key]
    text = f"{total['fpdus']} FPDUs, {total['crc_good']} good CRC, "
    if not report["bad"]:
        left = len(report["not_judged"])
        return (("GOOD" if report["good"] else "CANNOT TELL")
                + f": {text}{total['markers']} markers good"
                + (f"; {left} connection{'' if left == 1 else 's'} not judged"
                   if left else ""))
    return (f"BAD: {text}{total['crc_bad']} bad CRC, "
            f"{total['markers_wrong']} of {total['markers']} markers wrong,\n"
            f"     {total['octets_unexplained']} octets not explained; "
            f"{problems} problems")


def arguments():
    parser = argparse.ArgumentParser(
        prog="judge", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Verdict on captures of MPA connections: Wireshark's and "
        "an octet-exact one\nof its own. With --tuf: on TUF, of its own. Exit "
        "status: 0 all is good and\nsomething was there, 1 not so, 2 cannot "
        "say: the begin of a connection is not\nin the capture, or the file "
        "cannot be read.", epilog=expect.HELP)
    parser.add_argument("file", nargs="+", metavar="FILE.pcap")
    parser.add_argument("--json", action="store_true",
                        help="print a JSON object for machines")
    parser.add_argument("--aligned", action="store_true",
                        help="every data segment must begin with an FPDU")
    parser.add_argument("--counters", metavar="FILE.json",
                        help="what the sender has counted (MPA_INFO, TUF_INFO) "
                        "must be what was on the wire")
    parser.add_argument("--port", type=int, metavar="N",
                        help="look at connections with that port only")
    parser.add_argument("--cut-ok", action="store_true", dest="cut_ok",
                        help="the last FPDU of a direction may be cut off")
    mpa = parser.add_argument_group("MPA only")
    mpa.add_argument("--packed", type=float, metavar="N",
                     help="N FPDUs must begin in a data segment, on average")
    mpa.add_argument("--single", action="store_true",
                     help="no two FPDUs may begin in a data segment")
    mpa.add_argument("--any-pad", metavar="ADDRESS", dest="any_pad",
                     help="what ADDRESS sends need not be padded with zeros")
    mpa.add_argument("--startup", action="store_true",
                     help="startup frames are enough, no FPDU is needed")
    mpa.add_argument("--no-tshark", action="store_false", dest="tshark",
                     help="own parse only")
    mpa.add_argument("--keep", metavar="OUT.pcap",
                     help="keep the capture that tshark is given")
    tuf = parser.add_argument_group("TUF only")
    tuf.add_argument("--tuf", action="append", type=expect.framing,
                     metavar="FRAMING",
                     help="judge TUF instead of MPA; see below")
    tuf.add_argument("--starts", action="store_true",
                     help="every FPDU must start a segment")
    tuf.add_argument("--contained", action="store_true",
                     help="every data segment must be exactly one FPDU")
    return parser


def check_arguments(parser, options):
    if (options.keep or options.counters) and len(options.file) > 1:
        parser.error("--keep and --counters go with one FILE only")
    if not options.tuf and (options.contained or options.starts):
        parser.error("--starts and --contained go with --tuf")
    if not options.tuf:
        return
    if options.packed or options.single or options.any_pad or \
            options.startup or options.keep:
        parser.error("--packed, --single, --any-pad, --startup and --keep do "
                     "not go with --tuf")
    if (options.aligned or options.starts or options.contained) and \
            all(f.mode == "markers" for f in options.tuf):
        parser.error("--aligned, --starts and --contained go with mode=align: "
                     "with markers segments may begin anywhere")


def main():
    parser = arguments()
    options = parser.parse_args()
    check_arguments(parser, options)
    progress = output.Progress()
    reports = []
    try:
        for path in options.file:
            report = (judge_tuf.judge if options.tuf else judge)(
                path, options, progress)
            progress.done()
            reports.append(report)
            if not options.json:
                (judge_tuf.show if options.tuf else show)(
                    report, options)
    except (counters.CountersError, capture.CaptureError, expect.ExpectError,
            wireshark.WiresharkError) as error:
        progress.done()
        sys.exit(print(f"judge: {error}", file=sys.stderr) or 2)
    good = all(report["good"] for report in reports)
    if options.json:
        print(json.dumps({"good": good, "files": reports}, indent=1))
    bad = any(report.get("bad", not report["good"]) for report in reports)
    sys.exit(1 if bad else 0 if good else 2)


if __name__ == "__main__":
    main()
