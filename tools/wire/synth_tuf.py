# SPDX-License-Identifier: GPL-2.0
"""Synthetic TUF, written from the drafts.

It shares no code with the judge, so that each shows errors of the other.
"""
import struct


def fpdu(key, ulpdus, length=None):
    """An FPDU without markers; length sets a wrong Length."""
    if length is None:
        length = len(ulpdus)
    return struct.pack(">H", length) + key + ulpdus


def with_markers(fpdus, period, wrong=None):
    """The octets of FPDUs with markers between them. First determine the places of the
    markers, then their values, the distances to the next header.

    wrong: {number of a marker: fault}, what the judge must find."""
    out, places, heads = bytearray(), [], []
    for octets in fpdus:
        for n, octet in enumerate(octets):
            if len(out) % period == 0:
                places.append(len(out))
                out += b"\0\0\0\0"
            if n == 0:
                heads.append(len(out))
            out.append(octet)
    # The next header, if there were one more.
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
