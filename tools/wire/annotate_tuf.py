# SPDX-License-Identifier: GPL-2.0
"""Print the first FPDUs of TUF octet by octet, like annotate.py for MPA."""
import capture
import expect
import judge_tuf
import output
import tuf


def fields(fpdu):
    """Yield the fields of an FPDU in the order of their octets: (position, length,
    kind, the field's octets before these)."""
    found = [(at, tuf.MARKER_LEN, "marker", 0) for at, *_ in fpdu.markers]
    places = sorted(at for at, *_ in fpdu.markers)
    at = fpdu.pos
    for kind, size in (("length", 2), ("key", tuf.KEY_LEN),
                       ("ulpdu", fpdu.ulpdu_len)):
        done = 0
        while done < size:
            if at in places:
                at += tuf.MARKER_LEN
                continue
            ahead = [place - at for place in places if place > at]
            take = min([size - done] + ahead[:1])
            found.append((at, take, kind, done))
            at += take
            done += take
    return sorted(found)


class Shown:
    """An FPDU to print."""

    def __init__(self, out, part, fpdu, segments):
        self.out, self.part, self.fpdu = out, part, fpdu
        self.segments = segments
        self.wrong = {(at, which): want
                      for at, which, _, want in fpdu.wrong_markers}

    def title(self, n):
        fpdu, part = self.fpdu, self.part
        marks = ""
        if part.framing.period:
            marks = (f", {len(fpdu.markers)} marker"
                     f"{'s' * (len(fpdu.markers) != 1)}")
        self.out.line(f"FPDU {n + 1} of {len(part.found.fpdus)}, "
                      f"{capture.name(part.half.src)} -> "
                      f"{capture.name(part.half.dst)}", "title")
        self.out.line(f"  {fpdu.len} octets: ULPDUs {fpdu.ulpdu_len}{marks}")
        self.out.line("  octet content  annotation")
        at = part.start + fpdu.pos
        first = self.segments.of(at)
        if first and first.off != at:
            self.out.line(f"  ==== inside the segment of packet {first.number},"
                          f" from its octet {at - first.off} on", "segment")

    def show(self):
        markers = self.fpdu.markers
        last = markers[-1][0] if markers else 0
        shown = skipped = 0
        for at, size, kind, before in fields(self.fpdu):
            shown += kind == "marker"
            if shown > output.MARKERS and at < last and \
                    kind in ("marker", "ulpdu"):
                skipped += size
                continue
            if skipped:
                self.out.line(f"  ...            {skipped} more octets of "
                              "ULPDUs and markers")
                skipped = 0
            self.field(at, size, kind, before)
        self.out.line("")

    def segment(self, segment):
        text = (f"  ==== segment of packet {segment.number}, "
                f"{len(segment.payload)} octets")
        if self.part.misleads(segment):
            self.out.line(text + ": passes for an FPDU, WRONG", "wrong")
        else:
            self.out.line(text, "segment")

    def field(self, at, size, kind, before):
        elided = False
        for n in range(size):
            segment = self.segments.begins.get(self.part.start + at + n)
            if segment:
                self.segment(segment)
            if kind == "ulpdu" and output.HEAD <= n < size - 1 and \
                    size > output.HEAD + 2 and not segment:
                if not elided:
                    self.out.line("  ...")
                    elided = True
                continue
            elided = False
            text, colour = self.note(at, n, size, kind, before)
            self.out.octet(at + n, self.part.octets[at + n], text, colour)

    def note(self, at, n, size, kind, before):
        """Return (annotation, colour) of the nth octet of a field's run."""
        if kind == "marker":
            return self.marker_note(at, n)
        wrong = kind == "key" and self.fpdu.key != self.part.key
        if n:
            return "", "wrong" if wrong else kind
        if kind == "ulpdu":
            if size == 1:
                return f"ULPDUs, octet {before}", kind
            return f"ULPDUs, octets {before} to {before + size - 1}", kind
        text = f"Length = {self.fpdu.ulpdu_len}"
        if kind == "key":
            text = f"Key = {self.fpdu.key.hex()}"
        if before:
            text = f"{kind.title()}, from its octet {before} on"
        elif wrong:
            text += f", WRONG: must be {self.part.key.hex()}"
        return text, "wrong" if wrong else kind

    def marker_note(self, at, n):
        which = ("first", "second")[n // 2]
        wrong = self.wrong.get((at, which))
        colour = "marker" if wrong is None else "wrong"
        if n % 2:
            return "", colour
        said = int.from_bytes(self.part.octets[at + n:at + n + 2], "big")
        text = f"Marker: Next PDU Offset = {said}" if not n else \
            f"Marker: again = {said}"
        if wrong is not None:
            text += f", WRONG: must be {wrong}"
        elif not n:
            text += f", to {at + tuf.MARKER_LEN + said:04x}"
        return text, colour


def show(path, framings, count, colour):
    """Print a capture. Return False if no stream in it matches --tuf."""
    out = output.Printer(colour)
    found = expect.parts(capture.read(path), framings)
    for half, framing in found:
        part = judge_tuf.Framed(half, framing)
        segments = output.Segments(half)
        fpdus = part.found.fpdus
        for n, fpdu in enumerate(fpdus[:count]):
            shown = Shown(out, part, fpdu, segments)
            shown.title(n)
            shown.show()
        if len(fpdus) > count:
            out.line(f"... {len(fpdus) - count} more FPDUs "
                     f"{capture.name(half.src)} -> {capture.name(half.dst)}\n")
        if part.found.left:
            out.line(f"! {part.found.left} octets are left: "
                     f"{part.found.why}\n", "wrong")
    return bool(found)
