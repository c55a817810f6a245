# SPDX-License-Identifier: GPL-2.0
"""Tests for mpa_ynl.py: the programs of administration.rst, as they stand there but for
a cookie and a small buffer. They go on when they have lost something."""

import os
import re
import signal
import subprocess
import tempfile
import textwrap

import mpa_ends as ends
from mpa_ynl_family import CLI, SPEC, expect, test

MANUAL = os.path.dirname(SPEC) + "/../../networking/mpa/administration.rst"


def example(has, *changes):
    """The one that has this text, with each (text, other text) changed."""
    with open(MANUAL) as file:
        programs = re.findall(r"""^  python3 - "\$ynl" "\$spec" <<'END'\n(.*?)\n  END$""",
                              file.read(), re.M | re.S)
    programs = [textwrap.dedent(program) for program in programs if has in program]
    expect(1, len(programs), f"examples with {has}:")
    program = programs[0]
    for text, other in changes:
        assert text in program, f"expected {text}, seen {program}"
        program = program.replace(text, other)
    return program


def gap(numbers):
    return any(b - a > 1 for a, b in zip(numbers, numbers[1:]))


def goes_on(program, number, happen):
    """Run it, stop it while too much happens, and see it tell of what comes later. What
    it has said to stderr."""
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
def example_of_events_goes_on_after_a_loss():
    def happen():
        for sock in ends.pair():
            sock.close()

    said = goes_on(example("ntf_subscribe", ("4 << 20", "4096")), "event", happen)
    assert "lost" in said, f"expected a word of what was lost, seen {said}"


@test
def example_of_a_tap_goes_on_after_a_loss():
    a, b = ends.pair()
    program = example("tap-set", ("4 << 20", "4096"), ("4097", str(ends.cookie(a))))
    goes_on(program, "seq", lambda: ends.transfer(a, b, 70))
