# SPDX-License-Identifier: GPL-2.0
"""A parser of TUF (draft-ietf-tsvwg-tcp-ulp-frame-01; -00 for the marker mode) for one
direction's octets. It shares no code with the kernel module, so that each checks the
other."""

HEADER_LEN = 8
KEY_LEN = 6
MARKER_LEN = 4
LENGTH_MAX = 65535
FPDU_MAX = 65536        # maximum length with markers
PERIOD_MIN, PERIOD_MAX, PERIOD_DEFAULT = 128, 32768, 2048


class Fpdu:
    """An FPDU's place among the framed octets, and its fields."""
    __slots__ = ("pos", "head", "ulpdu_len", "key", "len", "markers",
                 "wrong_markers")

    def __init__(self, pos):
        self.pos = pos          # start, with the marker before the FPDU
        self.head = pos         # position of Length's first octet
        self.ulpdu_len = 0
        self.key = b""          # incomplete if the octets end
        self.len = 0
        self.markers = []       # position, first copy, second copy
        self.wrong_markers = []     # position, number of the copy, value, right value


class Reader:
    """Reads octets of FPDUs, and skips the markers between them."""

    def __init__(self, octets, period):
        self.octets, self.period = octets, period
        self.at = 0
        self.markers = []

    def marker_is_due(self):
        return bool(self.period) and self.at % self.period == 0

    def step_over_marker(self):
        marker = self.octets[self.at:self.at + MARKER_LEN]
        if len(marker) == MARKER_LEN:
            self.markers.append((self.at, int.from_bytes(marker[:2], "big"),
                                 int.from_bytes(marker[2:], "big")))
        self.at += len(marker)

    def take(self, count):
        """Return the next count octets without markers, or fewer at the end."""
        got = bytearray()
        while len(got) < count and self.at < len(self.octets):
            if self.marker_is_due():
                self.step_over_marker()
                continue
            size = count - len(got)
            if self.period:
                size = min(size, self.period - self.at % self.period)
            got += self.octets[self.at:self.at + size]
            self.at = min(self.at + size, len(self.octets))
        return bytes(got)


class Parse:
    """The parts of framed octets."""

    def __init__(self):
        self.fpdus = []
        self.left = 0           # number of octets after the last whole FPDU
        self.why = ""           # reason why these are no FPDUs
        self.tail = None        # the octets that should be an FPDU
        self.cut_off = False    # they may begin an FPDU


def _judge_markers(fpdu, reader):
    """Read a marker: its value is the distance from its end to the next FPDU's header."""
    following = reader.at
    if reader.marker_is_due():
        following += MARKER_LEN
    for at, *copies in fpdu.markers:
        end = at + MARKER_LEN
        want = 0 if end <= fpdu.head else following - end
        for which, said in zip(("first", "second"), copies):
            if said != want:
                fpdu.wrong_markers.append((at, which, said, want))


def _next(reader):
    """Return (FPDU, error); error is empty if the FPDU is complete."""
    fpdu = Fpdu(reader.at)
    reader.markers = fpdu.markers
    if reader.marker_is_due():
        fpdu.head += MARKER_LEN
    header = reader.take(HEADER_LEN)
    fpdu.key = header[2:]
    if len(header) < HEADER_LEN:
        return fpdu, "an FPDU is cut off inside its header"
    fpdu.ulpdu_len = int.from_bytes(header[:2], "big")
    if not fpdu.ulpdu_len:
        return fpdu, "Length 0 cannot be"
    got = len(reader.take(fpdu.ulpdu_len))
    fpdu.len = reader.at - fpdu.pos
    if got < fpdu.ulpdu_len:
        return fpdu, (f"an FPDU is cut off: {got} of {fpdu.ulpdu_len} octets "
                      "of ULPDUs are there")
    _judge_markers(fpdu, reader)
    return fpdu, ""


def parse(octets, period=0):
    """Return the FPDUs among a direction's framed octets. period 0: no markers."""
    found = Parse()
    reader = Reader(octets, period)
    while reader.at < len(octets):
        fpdu, why = _next(reader)
        if why:
            found.left, found.why = len(octets) - fpdu.pos, why
            found.tail, found.cut_off = fpdu, "cut off" in why
            break
        found.fpdus.append(fpdu)
    return found
