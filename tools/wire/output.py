# SPDX-License-Identifier: GPL-2.0
"""Output shared by the commands."""
import sys
import time

SHOWN = 5       # problems printed for each direction
HEAD = 4        # octets of payload shown before a repetition is left out
MARKERS = 3     # markers of an FPDU shown before the rest is left out

COLOURS = {"marker": "33", "length": "36", "crc": "32", "key": "32",
           "wrong": "31;1", "pad": "35", "segment": "1", "title": "1"}


class Progress:
    """Prints the progress of long work on a terminal."""

    def __init__(self):
        self.last = time.monotonic()
        self.shown = False

    def __call__(self, text):
        now = time.monotonic()
        if sys.stderr.isatty() and now - self.last > 1:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
            self.last, self.shown = now, True

    def done(self):
        if self.shown:
            sys.stderr.write("\r\033[K")


def problems(found, indent):
    for problem in found[:SHOWN]:
        print(f"{indent}! {problem}")
    if len(found) > SHOWN:
        print(f"{indent}! ... and {len(found) - SHOWN} more")


class Printer:
    """Prints lines of offset, octet and annotation, in colour on request."""

    def __init__(self, colour):
        self.colour = colour

    def line(self, text, kind=None):
        if self.colour and kind in COLOURS:
            text = f"\x1b[{COLOURS[kind]}m{text}\x1b[0m"
        print(text)

    def octet(self, pos, octet, text="", kind=None):
        self.line(f"  {pos:04x}  {octet:02x}       {text}".rstrip(), kind)


class Segments:
    """Finds the TCP segment that first carried an octet of the stream."""

    def __init__(self, half):
        data = [s for s in half.segments if s.off is not None]
        self.begins = {}
        end = -1
        for segment in sorted(data, key=lambda s: (s.off, s.number)):
            # Skip segments that only repeat octets.
            if segment.off + len(segment.payload) > end:
                self.begins[segment.off] = segment
                end = segment.off + len(segment.payload)

    def of(self, at):
        found = None
        for off, segment in self.begins.items():
            if off <= at:
                found = segment
        return found
