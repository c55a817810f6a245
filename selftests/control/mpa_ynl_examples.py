# SPDX-License-Identifier: GPL-2.0
"""Tests for mpa_ynl.py: the programs of administration.rst, unchanged except for a
cookie and a small buffer. They continue after a loss."""

import os
import re
import signal
import subprocess
import tempfile
import textwrap

import mpa_ends as ends
from mpa_ynl_family import CLI, SPEC, expect, test

MANUAL = os.path.dirname(SPEC) + "/../../networking/mpa/administration.rst"


def found(pattern):
    """Return the page's only match."""
    with open(MANUAL) as file:
        texts = re.findall(pattern, file.read(), re.M | re.S)
    expect(1, len(texts), f"examples with {pattern}:")
    return texts[0]


def example(*changes):
    """Return the program, with each (text, other text) replaced."""
    program = textwrap.dedent(found(r"""^  python3 - "\$ynl" "\$spec" <<'END'\n(.*?)\n  END$"""))
    for text, other in changes:
        assert text in program, f"expected {text}, seen {program}"
        program = program.replace(text, other)
    return program


def gap(numbers):
    return any(b - a > 1 for a, b in zip(numbers, numbers[1:]))


def goes_on(program, number, happen):
    """Run the program, stop it while too much happens, and check that it reports later
    events. Return its stderr."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(["/usr/bin/python3", "-B", "-c", program, CLI, SPEC],
                                   stdout=out, stderr=err)

        def said(file):
            file.seek(0)
            return file.read()

        def numbers():
            happen()
            expect(None, process.poll(), f"{said(err)}\nstatus")
            return [int(n) for n in re.findall(rf"'{number}': (\d+)", said(out))]

        try:
            ends.wait_for(numbers, 60)
            process.send_signal(signal.SIGSTOP)
            for _ in range(100):
                happen()
            process.send_signal(signal.SIGCONT)
            ends.wait_for(lambda: gap(numbers()))
        finally:
            process.kill()
            process.wait()
        return said(err)


@test
def example_of_events_continues_after_a_loss():
    def happen():
        for sock in ends.pair():
            sock.close()

    said = goes_on(example(("4 << 20", "4096")), "event", happen)
    assert "lost" in said, f"expected a word of what was lost, seen {said}"


@test
def example_of_a_tap_continues_after_a_loss():
    a, b = ends.pair()
    program = example(("4 << 20", "4096"),
                      ('mpa.ntf_subscribe("events")', found(r"^  (mpa\.do\(.tap-set[^\n]*)$")),
                      ("4097", str(ends.cookie(a))))
    goes_on(program, "seq", lambda: ends.transfer(a, b, 70))
