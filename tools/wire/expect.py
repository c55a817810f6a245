# SPDX-License-Identifier: GPL-2.0
"""Descriptions of directions with --tuf: a capture does not show where TUF framing is
in use."""
import argparse
import ipaddress
import re

import tuf

HELP = """\
Framing of one direction of TUF, as often as there are such:

  --tuf from=ENDPOINT,to=ENDPOINT,mode=align|markers[,key=HEX][,start=N]
        [,end=N][,period=N]

  from, to  sender and receiver; one of the two is enough. ENDPOINT is
            ADDRESS:PORT, ADDRESS or :PORT; an IPv6 ADDRESS with a port stands
            in brackets
  mode      align: FPDUs in segments of their own. markers: FPDUs with markers
  key       the 6 octets of Key, as 12 hexadecimal digits. Without it all FPDUs
            must have the key of the first
  start     octets of plain TCP before framing, counted from the first
            octet of payload of the direction (default: 0)
  end       where framing ends, counted in the same way (default: it does not)
  period    of markers, in octets (default: 2048)

A direction whose framing starts several times needs a --tuf for each time. Octets
without a --tuf are plain TCP.
"""


class ExpectError(Exception):
    """Several --tuf options contradict each other."""


class Framing:
    """A --tuf option."""

    def __init__(self, text):
        self.text = text
        self.ends = {"from": None, "to": None}
        self.mode = self.key = self.end = None
        self.start = 0
        self.period = 0
        told = set()
        for word in text.split(","):
            name, is_pair, value = word.partition("=")
            if not is_pair or not hasattr(self, f"take_{name}"):
                raise ValueError(f"\"{word}\" is not known; there are from=, "
                                 "to=, mode=, key=, start=, end=, period=")
            if name in told:
                raise ValueError(f"{name} is given twice")
            told.add(name)
            getattr(self, f"take_{name}")(value)
        self.check(told)

    def check(self, told):
        if not told & {"from", "to"}:
            raise ValueError("neither from= nor to= says which direction")
        if not self.mode:
            raise ValueError("mode= is missing: align or markers")
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end={self.end} is not after "
                             f"start={self.start}")
        if self.mode == "markers":
            self.period = self.period or tuf.PERIOD_DEFAULT
        elif self.period:
            raise ValueError("period= goes with mode=markers")

    def take_from(self, value):
        self.ends["from"] = endpoint(value)

    def take_to(self, value):
        self.ends["to"] = endpoint(value)

    def take_mode(self, value):
        if value not in ("align", "markers"):
            raise ValueError(f"mode={value} is neither align nor markers")
        self.mode = value

    def take_key(self, value):
        if not re.fullmatch(f"[0-9a-fA-F]{{{2 * tuf.KEY_LEN}}}", value):
            raise ValueError(f"key={value} is not 12 hexadecimal digits")
        self.key = bytes.fromhex(value)

    def take_start(self, value):
        self.start = octets(value)

    def take_end(self, value):
        self.end = octets(value)

    def take_period(self, value):
        self.period = octets(value)
        if not tuf.PERIOD_MIN <= self.period <= tuf.PERIOD_MAX or \
                self.period & (self.period - 1):
            raise ValueError(f"period={value} is no power of two from "
                             f"{tuf.PERIOD_MIN} to {tuf.PERIOD_MAX}")

    def speaks_of(self, half):
        return all(told is None or is_at(told, seen) for told, seen in
                   ((self.ends["from"], half.src), (self.ends["to"], half.dst)))


def octets(value):
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"\"{value}\" is no number of octets")
    return int(value)


def endpoint(text):
    """Return (address or None, port or None) for ADDRESS:PORT, ADDRESS or :PORT."""
    if text.startswith("["):
        addr, closed, port = text[1:].partition("]")
        if not closed or (port and not port.startswith(":")):
            raise ValueError(f"\"{text}\" is no [ADDRESS]:PORT")
        port = port[1:]
    elif text.count(":") > 1:
        addr, port = text, ""
    else:
        addr, _, port = text.partition(":")
    if not addr and not port:
        raise ValueError(f"\"{text}\" is neither address nor port")
    return (ipaddress.ip_address(addr).packed if addr else None,
            octets(port) if port else None)


def is_at(told, seen):
    return all(t is None or t == s for t, s in zip(told, seen))


def framing(text):
    """Parse a --tuf option for argparse."""
    try:
        return Framing(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error} (in \"{text}\")") from None


def parts(connections, framings):
    """Return [(half, framing)] for all framed parts, in the order of the streams."""
    found = []
    for connection in connections:
        for half in connection.halves:
            own = sorted((f for f in framings if f.speaks_of(half)),
                         key=lambda f: f.start)
            for one, other in zip(own, own[1:]):
                if one.end is None or one.end > other.start:
                    raise ExpectError(f"--tuf {one.text} and --tuf "
                                      f"{other.text} speak of the same octets")
            found += [(half, one) for one in own]
    return found
