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
import selftest_segments
import tcp
from end import CHOICES, INITIATOR, RESPONDER, SWITCHES, Connection, End

HANGS = 120     # seconds, after which a test has failed
ends = []


# What peer.readable was
there_is = peer.readable


def readable(each, seconds):
    """Something to read, or nothing because the end waits itself."""
    until = time.monotonic() + HANGS
    while not there_is(each, 0.001):
        assert time.monotonic() < until, f"neither octets nor an idle end after {each.log[-1:]}"
        if idle(each):
            return there_is(each, 0)
    return True


def idle(each):
    try:
        key = frozenset((each.sock.getsockname()[:2], each.sock.getpeername()[:2]))
    except OSError:
        return False    # it has been reset, which has to be read
    there = ends[-1].connections.get(key)
    by_segments = isinstance(each.sock, tcp.Tcp)
    sent = each.sock.reach() - each.sent_fin if by_segments else len(each.sent)
    # It may consume what a network has repeated.
    if not there or not there.waiting or there.consumed < sent or \
            each.sent_fin and not there.eof:
        return False
    if by_segments and each.sock.window < tcp.WINDOW:
        return True     # what it has sent waits for our window
    try:
        # Whether all that it has sent has arrived
        return not struct.unpack("i", fcntl.ioctl(there.sock, termios.TIOCOUTQ, bytes(4)))[0]
    except (OSError, ValueError):
        return False    # it has just been closed


def first_found(folder, role, broken=(), mode=(), only=None):
    """(the first case that fails, or SHOULD not be; what it saw; captures, its own last)"""
    kind = {word: True for word in mode if word in ("markers", "enhanced")}
    kind["ulpdus"] = ([word for word in mode if word in ("sink", "source", "ddp")] + ["echo"])[0]
    words = ["--peer", kind["ulpdus"]]
    # Without those that wait for a timeout
    for group in [only] if only else dict.fromkeys(case.group for case in catalogue.cases):
        words += ["--only", group] if group != "time" else []
    words += ["--segments"] if "segments" in mode else []
    listening = ["--listen", "[::1]:0" if "IPv6" in mode else "127.0.0.1:0"]
    if role == RESPONDER:
        host = ("::" if "IPv6" in mode else "") if "segments" in mode else "127.0.0.1"
        ends.append(End(role, (host, 0), broken, **kind))
        listening = [f"{'[::1]' if 'IPv6' in mode else '127.0.0.1'}:{ends[-1].at[1]}"]
    options = conform.checked(conform.arguments(), words + listening)
    options.timeout = HANGS
    options.pcap = tempfile.mkdtemp(dir=folder)
    world = conform.World(options)
    if role == INITIATOR:
        at = (world.network.address, world.network.port) if world.network else \
            world.listener.getsockname()
        ends.append(End(role, at, broken, **kind))
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
        return None, f"{result.status}: {result.seen}", captures
    finally:
        ends[-1].stop()
        for each in (world.listener, world.network):
            if each:
                each.close()


def ends_as(want, role, broken, mode):
    """The case found is the wanted one, or none; the captures show the same."""
    with tempfile.TemporaryDirectory() as folder:
        found, seen, captures = first_found(folder, role, broken, mode)
        assert found == want, f"expected {want}, seen {found}: {seen}"
        if want and "segments" not in mode:
            says = list(selftest_pcap.judged(captures[-1], role))
            assert bool(says) == (broken[0] in selftest_pcap.JUDGED), f"the judge says {says}"
        elif not broken and mode in ((), ("markers",), ("enhanced",), ("ddp", "enhanced"),
                                     ("segments",), ("segments", "markers")):
            says = [f"{os.path.basename(file)}: {text}" for file in captures
                    for text in selftest_pcap.judged(file, role)]
            assert not says, f"the judge says {says}"
            # Made-up packets are in order, which tshark needs.
            says = list(selftest_pcap.shown(captures)) if "segments" not in mode else []
            assert not says, f"mpa.lua says {says}"


def found_alone(network, broken, name):
    """By this case, if it is the only one."""
    good, tcp.Network = tcp.Network, network
    try:
        with tempfile.TemporaryDirectory() as folder:
            found, seen, _ = first_found(folder, RESPONDER, broken, ("segments",), name)
            assert found == name, f"expected a failure, seen {seen}"
    finally:
        tcp.Network = good


def no_tun():
    """Why --segments cannot be tried here, or nothing."""
    try:
        tcp.Network("", "", 0, True).close()
    except OSError as error:
        return f" # SKIP {error}"
    return ""


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


def no_privilege():
    done = subprocess.run(("unshare", "-U") + CONFORM + ("--segments", "127.0.0.1:4242"),
                          stderr=subprocess.PIPE, text=True, check=False, timeout=HANGS)
    assert done.returncode == 2, f"expected status 2, seen {done.returncode}"
    assert "--segments needs root" in done.stderr, done.stderr


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
            ("TAP, JUnit, JSON and HTML", reports), ("segments without privilege", no_privilege))


def main():
    peer.readable = readable
    tests = [(f"a good {role}{''.join(', ' + word for word in mode)}: nothing is found",
              None, (role, (), mode))
             for role in (RESPONDER, INITIATOR)
             for mode in ((), ("markers",), ("enhanced",), ("sink",), ("source",), ("ddp",),
                          ("ddp", "markers"), ("ddp", "enhanced"))
             if role == INITIATOR or "enhanced" not in mode]
    tests += [(f"a good {role}, {', '.join(mode)}: nothing is found", None, (role, (), mode))
              for role in (RESPONDER, INITIATOR)
              for mode in (("segments",), ("segments", "markers"), ("segments", "IPv6"),
                           ("segments", "ddp"))]
    tests += [(f"{name}: nothing is found", None, (role, (name,), mode))
              for name, (role, mode) in CHOICES.items()]
    both = {case.name for case in catalogue.cases
            if case.group == "ddp" and case.roles == catalogue.EITHER}
    tests += [(f"{name}, {each}: found by {case}", case, (each, (name,), mode))
              for name, (role, case, mode) in SWITCHES.items()
              for each in ([role, INITIATOR] if case in both else [role])]
    tests += [(f"{name}, {role}: found by {case}", case, (role, (name,), ["segments", *mode]))
              for name, role, case, *mode in
              map(str.split, selftest_segments.SWITCHES.strip().split("\n"))]
    tests = [test for test in tests
             if not sys.argv[1:] or set(sys.argv[1:]) & {*test[2][1], *test[2][2]}]
    commands = COMMANDS if not sys.argv[1:] else ()
    wrong = [(f"{switch or network.__doc__}: segments.{number} alone finds it",
              functools.partial(found_alone, network, (switch,), f"segments.{number}"))
             for network, switch, numbers in selftest_segments.WRONG for number in numbers
             if not sys.argv[1:] or "segments" in sys.argv[1:]]
    failed, lacks = 0, no_tun()
    print(f"1..{len(tests) + len(commands) + len(wrong)}")
    for number, (text, run) in enumerate(
            [(text, functools.partial(ends_as, want, *how)) for text, want, how in tests] +
            wrong + list(commands), 1):
        if lacks and ("segments" in text):
            print(f"ok {number} {text}{lacks}")
            continue
        try:
            run()
            print(f"ok {number} {text}", flush=True)
        except AssertionError as why:
            failed += 1
            print(f"not ok {number} {text}\n# " + str(why).replace("\n", "\n# "), flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
