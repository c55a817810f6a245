# SPDX-License-Identifier: GPL-2.0
"""Shows that mpa conform finds what is wrong with an end, by the case that is about it,
and nothing else. Prints TAP; "selftest NAME..." are only these switches.

Nothing here waits for a time to pass: the end is in this process, and says when it has
read all that was sent and waits for more."""
import fcntl
import functools
import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
import xml.dom.minidom

import conform
import catalogue
import peer
import selftest_pcap
from end import CHOICES, INITIATOR, RESPONDER, SWITCHES, Connection, End

HANGS = 120     # seconds, after which a test has failed
ends = []


def readable(each, seconds):
    """Something to read, or nothing because the end waits itself."""
    until = time.monotonic() + HANGS
    while not select.select([each.sock], [], [], 0.001)[0]:
        assert time.monotonic() < until, "neither octets nor an idle end"
        if idle(each):
            return bool(select.select([each.sock], [], [], 0)[0])
    return True


def idle(each):
    try:
        key = frozenset((each.sock.getsockname(), each.sock.getpeername()))
    except OSError:
        return False    # it has been reset, which has to be read
    there = ends[-1].connections.get(key)
    if not there or not there.waiting or there.consumed != len(each.sent) or \
            each.sent_fin and not there.eof:
        return False
    try:
        # Whether all that it has sent has arrived
        return not struct.unpack("i", fcntl.ioctl(there.sock, termios.TIOCOUTQ, bytes(4)))[0]
    except (OSError, ValueError):
        return False    # it has just been closed


def first_found(folder, role, broken=(), mode=()):
    """(the first case that fails, or SHOULD not be; what it saw; captures, its own last)"""
    kind = {word: True for word in mode if word not in ("sink", "source", "ddp")}
    kind["ulpdus"] = ([word for word in mode if word not in kind] + ["echo"])[0]
    words = ["--peer", kind["ulpdus"]]
    # Without those that wait for a timeout
    for group in dict.fromkeys(case.group for case in catalogue.cases):
        words += ["--only", group] if group != "time" else []
    listening = ["--listen", "127.0.0.1:0"]
    if role == RESPONDER:
        ends.append(End(role, ("127.0.0.1", 0), broken, **kind))
        listening = [f"127.0.0.1:{ends[-1].at[1]}"]
    options = conform.checked(conform.arguments(), words + listening)
    options.timeout = HANGS
    options.pcap = tempfile.mkdtemp(dir=folder)
    world = conform.World(options)
    if role == INITIATOR:
        ends.append(End(role, world.listener.getsockname(), broken,
                        **kind))
    ends[-1].start()
    captures = []
    try:
        for case in catalogue.chosen(options.only):
            if not conform.applies(case, world):
                continue
            result = conform.play(case, world)
            captures += [result.capture] if result.status != "skip" else []
            if result.status in ("fail", "warn"):
                return case.name, result.seen, captures
        return None, "", captures
    finally:
        ends[-1].stopped = True
        for each in (world.listener, getattr(ends[-1], "listener", None)):
            if each:
                each.close()


def ends_as(want, role, broken, mode):
    """The case found is the wanted one, or none; the captures show the same."""
    with tempfile.TemporaryDirectory() as folder:
        found, seen, captures = first_found(folder, role, broken, mode)
        assert found == want, f"expected {want}, seen {found}: {seen}"
        if want:
            says = list(selftest_pcap.judged(captures[-1], role))
            assert bool(says) == (broken[0] in selftest_pcap.JUDGED), f"the judge says {says}"
        elif not broken and mode in ((), ("markers",), ("enhanced",), ("ddp", "enhanced")):
            says = [f"{os.path.basename(file)}: {text}" for file in captures
                    for text in selftest_pcap.judged(file, role)]
            assert not says, f"the judge says {says}"
            says = list(selftest_pcap.shown(captures))
            assert not says, f"mpa.lua says {says}"


# ---- the command ----

HERE = os.path.dirname(os.path.realpath(__file__))
CONFORM = (sys.executable, "-B", os.path.join(HERE, "conform.py"))
# Accepts a connection, and crashes at the first octets
CRASHES = """import os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
listener.accept()[0].recv(1)
os.abort()"""


# What is waited for arrives
PATIENT = ("--timeout", str(HANGS), "--quiet", str(HANGS), "--patience", str(HANGS))


def conform_says(*words):
    """(exit status, standard output)"""
    done = subprocess.run(CONFORM + words, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, check=False, timeout=HANGS)
    return done.returncode, done.stdout


def free_port():
    listener = conform.listen("127.0.0.1", 0)
    with listener:
        return listener.getsockname()[1]


def nobody_there():
    status, said = conform_says(f"127.0.0.1:{free_port()}")
    assert status == 2, f"expected status 2, seen {status}"
    assert said.count("FAIL") == 3 and "Connection refused" in said, said[:999]


def silence():
    end = End(RESPONDER, ("127.0.0.1", 0), ("silent",)).start()
    status, said = conform_says(f"127.0.0.1:{end.at[1]}", "--timeout", "0.2")
    assert status == 2, f"expected status 2, seen {status}"
    assert said.count("FAIL") == 3 and "silence" in said, said[:999]


def crash():
    port = free_port()
    status, said = conform_says(
        f"127.0.0.1:{port}", "--only", "fpdu.2", "--only", "crc.1", *PATIENT,
        "--command", f"exec '{sys.executable}' -c '{CRASHES}' {port}")
    assert status == 1, f"expected status 1, seen {status}: {said}"
    assert said.count("ended by SIGABRT") == 2, said


def exit_status():
    status, said = conform_says(f"127.0.0.1:{free_port()}", "--only", "fpdu.2", "--timeout",
                                "0.2", "--command", "exit 255")
    assert status == 2 and "ended by" not in said, f"status {status}: {said}"


def reports():
    end = End(RESPONDER, ("127.0.0.1", 0), ("crc-unchecked",)).start()
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: os.path.join(folder, kind) for kind in ("junit", "json", "html", "pcap")}
        status, said = conform_says(
            f"127.0.0.1:{end.at[1]}", "--tap", *PATIENT, "--only", "crc.1", "--only", "crc.2",
            "--only", "crc.20", *(word for kind, file in files.items()
                                  for word in (f"--{kind}", file)))
        assert status == 1, f"expected status 1, seen {status}"
        for text in ("1..3", "ok 1 crc.1 ", "not ok 2 crc.2 ", "ok 3 crc.20 "):
            assert text in said, f"expected {text}, seen {said}"
        suite = xml.dom.minidom.parse(files["junit"]).documentElement
        assert [suite.getAttribute(name) for name in ("tests", "failures", "skipped")] == \
            ["3", "1", "1"], suite.toxml()
        with open(files["json"], encoding="utf-8") as file:
            report = json.load(file)
        assert [case["status"] for case in report["cases"]] == ["pass", "fail", "skip"]
        with open(files["html"], encoding="utf-8") as file:
            page = file.read()
        for text in ('class="fail">FAIL</span> crc.2', "ULPDU Length = 13", "CRC32c: wrong",
                     "Key: &quot;MPA ID Rep Frame&quot;", 'href="pcap/crc.2.pcapng"'):
            assert text in page, f"expected {text} in the page"
        said = subprocess.check_output(
            ["capinfos", "-k", os.path.join(files["pcap"], "crc.2.pcapng")], text=True)
        for text in ("crc.2 FAIL: wrong is a bit", "Seen: the ULPDU f4 68", "Made up are"):
            assert text in said, f"expected {text}, seen {said}"


def patience():
    Connection.patience = 0.5
    end = End(RESPONDER, ("127.0.0.1", 0)).start()
    status, said = conform_says(f"127.0.0.1:{end.at[1]}", "--only", "time", *PATIENT)
    assert status == 0 and said.count("PASS") == 2, said
    Connection.patience = None
    status, said = conform_says(f"127.0.0.1:{end.at[1]}", "--only", "time", "--patience",
                                "0.5")
    assert status == 0 and said.count("WARN") == 2, said


COMMANDS = (("an end that loses patience, and one that does not", patience),
            ("an end that is not there", nobody_there), ("a silent end", silence),
            ("an end that crashes", crash), ("an end that exits with 255", exit_status),
            ("TAP, JUnit, JSON and HTML", reports))


def main():
    peer.readable = readable
    tests = [(f"a good {role}{''.join(', ' + word for word in mode)}: nothing is found",
              None, (role, (), mode))
             for role in (RESPONDER, INITIATOR)
             for mode in ((), ("markers",), ("enhanced",), ("sink",), ("source",), ("ddp",),
                          ("ddp", "markers"), ("ddp", "enhanced"))
             if role == INITIATOR or "enhanced" not in mode]
    tests += [(f"{name}: nothing is found", None, (role, (name,), mode))
              for name, (role, mode) in CHOICES.items()]
    both = {case.name for case in catalogue.cases
            if case.group == "ddp" and case.roles == catalogue.EITHER}
    tests += [(f"{name}, {each}: found by {case}", case, (each, (name,), mode))
              for name, (role, case, mode) in SWITCHES.items()
              for each in ([role, INITIATOR] if case in both else [role])]
    tests = [test for test in tests
             if not sys.argv[1:] or set(sys.argv[1:]) & set(test[2][1])]
    commands = COMMANDS if not sys.argv[1:] else ()
    failed = 0
    print(f"1..{len(tests) + len(commands)}")
    for number, (text, run) in enumerate(
            [(text, functools.partial(ends_as, want, *how)) for text, want, how in tests] +
            list(commands), 1):
        try:
            run()
            print(f"ok {number} {text}", flush=True)
        except AssertionError as why:
            failed += 1
            print(f"not ok {number} {text}\n# " + str(why).replace("\n", "\n# "), flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
