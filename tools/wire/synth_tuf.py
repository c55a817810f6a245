# SPDX-License-Identifier: GPL-2.0
"""Synthetic TUF, written from the drafts.

It shares no code with the judge, so that each shows errors of the other.
"""
import struct


def fpdu(key, ulpdus, length=None):
    """Return an FPDU without markers. length: a wrong Length."""
    if length is None:
        length = len(ulpdus)
    return struct.pack(">H", length) + key + ulpdus


def with_markers(fpdus, period, wrong=None):
    """Return FPDUs with markers. First determine the markers' places, then their
    values, which are the distances to the next header.

    wrong: {number of a marker: fault}, for the judge to find."""
    out, places, heads = bytearray(), [], []
    for octets in fpdus:
        for n, octet in enumerate(octets):
            if len(out) % period == 0:
                places.append(len(out))
                out += b"\0\0\0\0"
            if n == 0:
                heads.append(len(out))
            out.append(octet)
    # Add the place of a header after the last FPDU.
    heads.append(len(out) + (4 if len(out) % period == 0 else 0))
    for place in places:
        while heads[0] < place + 4:
            heads.pop(0)
        struct.pack_into(">HH", out, place, *[heads[0] - place - 4] * 2)
    for n, fault in sorted((wrong or {}).items(), reverse=True):
        place = places[n]
        if fault == "missing":
            del out[place:place + 4]
        else:
            out[place + {"first": 1, "second": 3}[fault]] ^= 1
    return bytes(out)
