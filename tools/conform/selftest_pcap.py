# SPDX-License-Identifier: GPL-2.0
"""Captures of mpa conform: the judge, tshark and mpa.lua read them, and say of the tested
end what its cases say."""
import argparse
import os
import subprocess

import capture
import judge
import selftest_lua
from end import INITIATOR, RESPONDER

# Ends of which the judge, too, sees in the capture what is wrong
JUDGED = set("""
    res-set revision-2-to-1 length-without-data fpdu-before-the-first
    marker-before-the-first any-revision no-pad pad-of-ones not-whole crc-zero
    crc-big-endian crc-only-if-peer markers-unasked marker-outside-crc marker-reserved
    marker-from-ulpdu marker-zero marker-every-256 marker-from-the-front
    no-marker-before-crc s-of-revision-1 s-for-the-plain s-left-out revision-1-to-2
    octets-left-out ord-too-large ord-not-left ird-not-left a-always rtr-always-b
    b-without-a a-dropped no-rtr rtr-delivered r-in-request res-in-request
    request-of-revision-3 no-rtr-sent rtr-not-named s-asked-without-octets b-without-a-asked
    """.split())
OPTIONS = argparse.Namespace(port=None, tshark=False, startup=True, cut_ok=True, any_pad="",
                             aligned=False, packed=None, single=False, counters=None)


def judged(path, role):
    """What the judge says against the end of that role. To close instead of a reply is no
    error."""
    for connection in judge.judge(path, OPTIONS, lambda text: None)["connections"]:
        for text in connection["problems"]:
            by = INITIATOR if text.startswith(("Request Frame", "the initiator")) else RESPONDER
            if by == role and text != "there is no Reply Frame":
                yield text
        if connection["directions"]:
            yield from connection["directions"][role == RESPONDER]["problems"]


def shown(files):
    """Where mpa.lua and tshark do not see what is in these captures. All in one, as tshark
    takes a second to start."""
    # An FPDU that comes before the Reply Frame is shown with that, as one of the responder.
    files = [file for file in files if not file.endswith("/strangers.16.pcapng")]
    merged = os.path.join(os.path.dirname(files[0]), "merged")
    subprocess.run(["mergecap", "-a", "-w", merged, *files], check=True)
    frames, errors = selftest_lua.tshark(merged, "-2")
    yield from errors
    ways = selftest_lua.directions(frames)
    connections = capture.read(merged)
    names = [os.path.basename(file) for file in files for _ in capture.read(file)]
    comments = [text.split()[2] + ".pcapng" for frame in frames
                for text in frame["frame.comment"]]
    if comments != names or len(connections) != len(names):
        yield (f"{len(names)} connections were written, {len(connections)} read, "
               f"{len(comments)} with a comment")
    for number, connection in enumerate(connections):
        for text in selftest_lua.compare_connection(ways, number, connection):
            yield f"{names[number]}: {text}"
