# SPDX-License-Identifier: GPL-2.0
"""Compare a sender's counters with the wire."""
import json

# Compared values: name, key in a direction's report, and the sender's counters whose
# sum must be equal.
SEGMENTS = (
    ("aligned segments", "segments_begin_fpdu", ("tx_segs_aligned",)),
    ("data segments", "segments", ("tx_segs_aligned", "tx_segs_unaligned")))
MPA = (("ULPDUs", "fpdus", ("tx_ulpdus",)),) + SEGMENTS
TUF_MARKERS = (("FPDUs", "fpdus", ("tx_fpdus",)),
               ("markers", "markers", ("tx_markers",)))
TUF_ALIGN = TUF_MARKERS + SEGMENTS + (
    ("contained segments", "segments_contained", ("tx_segs_contained",)),)
# The rows by the mode in a direction's report; MPA has none.
ROWS = {None: MPA, "markers": TUF_MARKERS, "align": TUF_ALIGN}


class CountersError(Exception):
    """A sender's counters cannot be read."""


def differences(way, said):
    for what, key, names in ROWS[way.get("mode")]:
        value = sum(said[name] for name in names)
        seen = way[key]
        # Retransmissions do not count again.
        if key.startswith("segments"):
            seen -= way[key.replace("segments", "segments_again")]
        if seen != value:
            yield (f"{said['from']} has counted {value} {what}, the wire has "
                   f"seen {seen}")


def compare(ways, path):
    """Yield differences between a sender's counters and the wire."""
    try:
        with open(path, encoding="ascii") as file:
            said = json.load(file)
        found = [way for way in ways if way["from"] == said["from"]]
        if not found:
            return [f"nothing was sent by {said['from']}"]
        return [text for way in found for text in differences(way, said)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CountersError(f"{path}: no counters: {error}") from None
